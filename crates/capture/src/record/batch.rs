//! Encoded records with an index beside their bytes: what readers pass to the writer.
//!
//! The loop that encodes a record also makes its index entry. Ordering, rotation and counting read
//! the index; no code parses encoded bytes again.

/// Set in [`IndexEntry`] for records with a timestamp of the device.
const HARDWARE: u16 = 1 << 15;
/// Set in [`IndexEntry`] for records of which only the first bytes were kept.
const CUT: u16 = 1 << 14;
/// Set in [`IndexEntry`] for records of frames that the host sent.
const OUTGOING: u16 = 1 << 13;
/// Number of interfaces that an index can tell apart.
pub(crate) const INTERFACE_COUNT_MAX: usize = OUTGOING as usize;

/// The index entry of one encoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// UTC, in nanoseconds since 1970. The file may have the time of another clock.
    pub(crate) time_ns: u64,
    /// Length of the encoded record.
    pub(crate) len: u32,
    ring: u16,
    /// The number of the interface, `HARDWARE`, `CUT` and `OUTGOING`.
    interface: u16,
}

impl IndexEntry {
    #[inline]
    pub(crate) fn new(time_ns: u64, len: usize, ring: u16, interface: u32, is_hardware: bool) -> Self {
        let interface = interface as u16 | if is_hardware { HARDWARE } else { 0 };
        Self { time_ns, len: len as u32, ring, interface }
    }

    /// Marks the record as cut, if only the first bytes of the frame were kept.
    #[inline]
    pub(crate) fn with_cut(self, is_cut: bool) -> Self {
        Self { interface: self.interface | if is_cut { CUT } else { 0 }, ..self }
    }

    /// Sets the length of the record, for the same frame encoded in another way.
    pub(crate) fn with_len(self, len: usize) -> Self {
        Self { len: len as u32, ..self }
    }

    /// Marks the record as outgoing, if the host sent the frame instead of receiving it.
    #[inline]
    pub(crate) fn with_outgoing(self, is_outgoing: bool) -> Self {
        Self { interface: self.interface | if is_outgoing { OUTGOING } else { 0 }, ..self }
    }

    /// Number of the ring in the session.
    pub(crate) fn ring(self) -> usize {
        self.ring.into()
    }

    /// Number of the interface in the file.
    pub(crate) fn interface(self) -> usize {
        (self.interface & !(HARDWARE | CUT | OUTGOING)).into()
    }

    /// True if the device's own clock stamped the record.
    pub(crate) fn is_hardware(self) -> bool {
        self.interface & HARDWARE != 0
    }

    /// True if only the first bytes of the frame were kept.
    pub(crate) fn is_cut(self) -> bool {
        self.interface & CUT != 0
    }

    /// True for two records of one ring that are counted in the same counts.
    #[inline]
    pub(crate) fn is_counted_as(self, other: Self) -> bool {
        self.ring == other.ring && (self.interface ^ other.interface) & (HARDWARE | CUT) == 0
    }

    /// True if the host sent the frame.
    pub(crate) fn is_outgoing(self) -> bool {
        self.interface & OUTGOING != 0
    }
}

/// Bytes of these records.
pub(crate) fn len_of(index: &[IndexEntry]) -> usize {
    index.iter().map(|entry| entry.len as usize).sum()
}

/// Number and length of the whole records within the first `len` bytes.
pub(crate) fn whole(index: &[IndexEntry], len: usize) -> (usize, usize) {
    let (mut count, mut end) = (0, 0);
    while count < index.len() && end + index[count].len as usize <= len {
        end += index[count].len as usize;
        count += 1;
    }
    (count, end)
}

/// Encoded records and their index.
#[derive(Debug, Default)]
pub(crate) struct EncodedBatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) index: Vec<IndexEntry>,
    /// The largest time.
    pub(crate) last_ns: u64,
    /// True if a record is older than one before it.
    pub(crate) is_disordered: bool,
    /// True if not all records are counted in the same counts.
    is_mixed: bool,
}

impl EncodedBatch {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        // A short record has about 128 bytes.
        Self { bytes: Vec::with_capacity(bytes), index: Vec::with_capacity(bytes / 128), ..Self::default() }
    }

    /// Adds the entry of a record whose bytes were just encoded.
    #[inline]
    pub(crate) fn push(&mut self, entry: IndexEntry) {
        self.is_disordered |= entry.time_ns < self.last_ns;
        self.last_ns = self.last_ns.max(entry.time_ns);
        self.is_mixed |= self.index.first().is_some_and(|first| !first.is_counted_as(entry));
        self.index.push(entry);
    }

    /// Takes the entries of another batch, whose bytes are appended by the caller.
    pub(crate) fn take_index(&mut self, other: &mut Self) {
        if self.index.is_empty() {
            std::mem::swap(&mut self.index, &mut other.index);
            (self.last_ns, self.is_disordered) = (other.last_ns, other.is_disordered);
            self.is_mixed = other.is_mixed;
        } else {
            other.index.iter().for_each(|entry| self.push(*entry));
        }
        other.clear();
    }

    /// Copies records to the end.
    pub(crate) fn append(&mut self, chunk: &Chunk<'_>) {
        self.bytes.extend_from_slice(chunk.bytes);
        chunk.index.iter().for_each(|entry| self.push(*entry));
    }

    /// All records of a batch that has some.
    pub(crate) fn chunk(&self) -> Chunk<'_> {
        Chunk { bytes: &self.bytes, index: &self.index, last_ns: self.last_ns, is_alike: !self.is_mixed }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.index.clear();
        (self.last_ns, self.is_disordered, self.is_mixed) = (0, false, false);
    }
}

/// One or more encoded records in the order of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) index: &'a [IndexEntry],
    /// The largest time.
    pub(crate) last_ns: u64,
    /// True if all records are known to be counted in the same counts, so that the index need not
    /// be read for it.
    pub(crate) is_alike: bool,
}

impl<'a> Chunk<'a> {
    pub(crate) fn new(bytes: &'a [u8], index: &'a [IndexEntry]) -> Self {
        let last_ns = index.iter().map(|entry| entry.time_ns).max().unwrap_or(0);
        Self { bytes, index, last_ns, is_alike: false }
    }

    /// Time of the first record.
    pub(crate) fn first_ns(&self) -> u64 {
        self.index[0].time_ns
    }

    /// The first `count` records, and the others if there are any.
    pub(crate) fn split_at(self, count: usize) -> (Self, Option<Self>) {
        if count == self.index.len() {
            return (self, None);
        }
        let (index, later_index) = self.index.split_at(count);
        let (bytes, later_bytes) = self.bytes.split_at(len_of(index));
        (Self::new(bytes, index), Some(Self::new(later_bytes, later_index)))
    }
}

/// Records for tests.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use pcapng::Packet;

    /// Records of one ring and interface 0 with these times, each with `len` bytes of a frame.
    pub(crate) fn batch(ring: u16, times_ns: &[u64], len: usize) -> EncodedBatch {
        batch_of_card(ring, times_ns, len, 0)
    }

    /// Records of one ring and interface 0 with these times, each with `len` bytes of a frame. In
    /// the file they have the times of a card, whose clock is `ahead_ns` ahead of UTC.
    pub(crate) fn batch_of_card(ring: u16, times_ns: &[u64], len: usize, ahead_ns: u64) -> EncodedBatch {
        let (mut batch, data) = (EncodedBatch::default(), vec![7; len]);
        for &time_ns in times_ns {
            let (start, in_file_ns) = (batch.bytes.len(), time_ns + ahead_ns);
            Packet { time_ns: in_file_ns, data: &data, ..Packet::default() }.emit(&mut batch.bytes);
            let len = batch.bytes.len() - start;
            batch.push(IndexEntry::new(time_ns, len, ring, 0, ahead_ns > 0));
        }
        batch
    }

    /// Adds one record; those of odd interfaces have the device's time.
    pub(crate) fn add(batch: &mut EncodedBatch, ring: u16, interface: u32, time_ns: u64, data: &[u8]) {
        let start = batch.bytes.len();
        Packet { time_ns, interface, data, ..Packet::default() }.emit(&mut batch.bytes);
        let len = batch.bytes.len() - start;
        batch.push(IndexEntry::new(time_ns, len, ring, interface, interface % 2 == 1));
    }
}

#[cfg(test)]
mod tests {
    use super::samples::*;
    use super::*;

    #[test]
    fn an_entry_has_16_bytes_and_keeps_what_it_was_made_of() {
        assert_eq!(size_of::<IndexEntry>(), 16);
        for bits in 0..8 {
            let [is_hardware, is_cut, is_outgoing] = [1, 2, 4].map(|bit| bits & bit != 0);
            let entry = IndexEntry::new(u64::MAX, 300_000, u16::MAX, 8_191, is_hardware);
            let entry = entry.with_cut(is_cut).with_outgoing(is_outgoing);
            let kept = (entry.time_ns, entry.len, entry.ring(), entry.interface());
            assert_eq!(kept, (u64::MAX, 300_000, 65_535, 8_191));
            let told = (entry.is_hardware(), entry.is_cut(), entry.is_outgoing());
            assert_eq!(told, (is_hardware, is_cut, is_outgoing));
        }
    }

    #[test]
    fn whole_records_end_before_the_cut() {
        let mut batch = batch(0, &[1], 60);
        add(&mut batch, 0, 0, 2, &[7; 96]);
        let first = batch.index[0].len as usize;
        for (len, count, end) in [
            (0, 0, 0),
            (first - 1, 0, 0),
            (first, 1, first),
            (first + 1, 1, first),
            (batch.bytes.len() - 1, 1, first),
            (batch.bytes.len(), 2, batch.bytes.len()),
        ] {
            assert_eq!(whole(&batch.index, len), (count, end), "cut after {len}");
        }
    }

    #[test]
    fn a_chunk_is_split_between_records() {
        let batch = batch(0, &[5, 9, 7, 3], 33);
        assert!(batch.is_disordered);
        let (now, later) = batch.chunk().split_at(2);
        let later = later.unwrap();
        assert_eq!((now.first_ns(), now.last_ns, later.first_ns(), later.last_ns), (5, 9, 7, 7));
        assert_eq!([now.bytes, later.bytes].concat(), batch.bytes);
        assert_eq!(now.bytes.len(), len_of(now.index));
        assert!(batch.chunk().split_at(4).1.is_none());
    }
}
