//! What turns records into other bytes before they are written: compression, or columns.

use crate::record::batch::IndexEntry;

/// What a file that is being written is called: its name and this.
pub(crate) const PART_SUFFIX: &str = ".part";

/// CPUs of the rings, by number; asked when the first record is there.
pub(crate) type RingCpus = dyn Fn() -> Vec<Option<u32>> + Send + Sync;

/// Records as they go into the file.
#[derive(Debug)]
pub(crate) struct PackedRecords {
    /// Place in the order of what was packed.
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    /// The records in it.
    pub(crate) index: Vec<IndexEntry>,
    /// The records as they came, if their memory is used again.
    pub(crate) raw: Vec<u8>,
}

/// Takes whole records and returns bytes for the file, in order. Only the caller writes and counts,
/// so bytes that the disk refuses are lost with exactly their records.
pub(crate) trait Packer: Send {
    /// The records that follow are those of another file, which has this header; returns what the
    /// file begins with.
    fn begin_file(&mut self, header: &[u8]) -> Vec<u8>;

    /// Takes the descriptions of interfaces that the header of the file did not have.
    fn declare(&mut self, blocks: &[u8]);

    /// Takes whole records.
    fn add(&mut self, bytes: &[u8], index: &[IndexEntry]);

    /// Sends what waits too long on its way.
    fn tick(&mut self);

    /// Packs what waits to be packed with more.
    fn submit(&mut self);

    /// The next packed records; with `all` waits for those that are on their way.
    fn next(&mut self, all: bool) -> Option<PackedRecords>;

    /// Bytes of the file, at most about, for records that came and were not returned packed.
    fn waiting_len(&self) -> usize;

    /// The records that were returned first went into the file.
    fn written(&mut self, records: PackedRecords);

    /// They did not.
    fn lost(&mut self, records: PackedRecords);

    /// How much longer a file is at its end, at most, than what ends it before packing; so many
    /// packed records may be added.
    fn end_extra_len_max(&self, more: usize) -> usize;

    /// What the file ends with, after all records were returned: `closing` and what the format
    /// requires.
    fn end_of_file(&mut self, closing: &[u8]) -> Vec<u8>;
}
