//! The files of a data set (Parquet).

use super::column_packer::ColumnPacker;
pub use super::loss_log::LossLog;
use super::packer::{Packer, RingCpus};
pub(crate) use columns::device_folder;
use std::path::PathBuf;
use std::sync::Arc;

/// What packs the records of one of `device_count` devices.
pub(crate) fn packer(ring_cpus: &Arc<RingCpus>, device_count: usize) -> Option<Box<dyn Packer>> {
    Some(Box::new(ColumnPacker::new(Arc::clone(ring_cpus), device_count)))
}

/// The losses of a device, written to `folder`.
pub(crate) fn loss_log(
    folder: PathBuf,
    host: &str,
    device: &str,
    number: usize,
    start_ns: u64,
) -> Option<LossLog> {
    Some(LossLog::new(folder, host, device, number, start_ns))
}
