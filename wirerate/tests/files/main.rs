//! Odd capture files, read by `replay --dry-run`, `analyze` and `export`, which agree on each.

mod compressed;
mod readers;
mod waiting;
