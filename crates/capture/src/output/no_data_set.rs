//! In place of the files of a data set, in builds without Parquet: options that ask for one are
//! refused.

use super::packer::{Packer, RingCpus};
use crate::CaptureError;
use crate::stats::Stats;
use std::path::PathBuf;
use std::sync::Arc;

/// Losses for a data set: there are none without Parquet, so no value of this type exists.
#[derive(Debug)]
pub enum LossLog {}

/// The folder of a device: never used, because a data set is refused before.
pub(crate) fn device_folder(_run: &str, _host: &str, _device: &str) -> String {
    String::new()
}

/// No packer of Parquet files.
pub(crate) fn packer(_ring_cpus: &Arc<RingCpus>, _device_count: usize) -> Option<Box<dyn Packer>> {
    None
}

/// No log of losses.
pub(crate) fn loss_log(
    _folder: PathBuf,
    _host: &str,
    _device: &str,
    _number: usize,
    _start_ns: u64,
) -> Option<LossLog> {
    None
}

impl LossLog {
    pub(crate) fn is_due(&self, _now_ns: u64) -> bool {
        match *self {}
    }

    pub(crate) fn look(&mut self, _now_ns: u64, _stats: &Stats) {
        match *self {}
    }

    /// There is nothing to write.
    ///
    /// # Errors
    /// None.
    pub fn write(&mut self, _now_ns: u64, _stats: &Stats, _report: Option<&str>) -> Result<(), CaptureError> {
        match *self {}
    }
}
