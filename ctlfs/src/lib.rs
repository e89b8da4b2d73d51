//! The control tree over FUSE: a write becomes a command.
