//! Files: names, rotation, compression, writes, and the counts of written and lost records.

pub(crate) mod accounting;
pub(crate) mod column_packer;
pub(crate) mod compress;
mod disk;
mod file;
pub(crate) mod fileset;
pub(crate) mod hook;
pub(crate) mod loss_log;
pub mod names;
pub mod open;
mod packer;
pub(crate) mod pipe;
mod prior_files;
pub(crate) mod recorder;
pub mod rotate;
