//! Odd capture files, read by `replay --dry-run`, `analyze` and `export`, which agree on each.

#[path = "../compress/mod.rs"]
mod compress;
mod compressed;
mod fcs;
mod info;
mod links;
mod losses;
mod names;
mod odd;
mod readers;
mod rewrite;
mod times;
mod waiting;
