//! The BPF programs, the words they share with Rust, and how they are loaded and attached.
