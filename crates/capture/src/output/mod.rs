//! Files: names, rotation, compression, writes, and the counts of written and lost records.

pub(crate) mod accounting;
#[cfg(feature = "parquet")]
mod column_packer;
pub(crate) mod compress;
#[cfg_attr(not(feature = "parquet"), path = "no_data_set.rs")]
pub(crate) mod data_set;
mod disk;
pub(crate) mod display;
mod file;
pub(crate) mod fileset;
pub(crate) mod hook;
pub(crate) mod ledger;
#[cfg(feature = "parquet")]
mod loss_log;
pub mod names;
pub mod open;
mod packer;
pub(crate) mod pipe;
mod place;
mod prior_files;
pub(crate) mod recorder;
pub mod rotate;
pub(crate) mod split;
