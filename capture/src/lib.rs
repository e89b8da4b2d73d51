//! Frames back from the wire: rings, writers, and where each frame went.
