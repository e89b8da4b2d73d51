//! The reading half of a packed ring: which bytes are filled, and the content of a record.
//!
//! A ring has `segments` segments of one size; both numbers are powers of two. Places count bytes
//! since the start: the producer has the place of the next record (head), the reader that of the
//! first one that it has not released (tail). A record that begins in a segment ends in it or in
//! the spare bytes behind it. The next record follows, or begins the next segment. `capture.bpf.c`
//! writes the records. Everything here is a function over bytes and numbers; `sys` knows the
//! memory.

use crate::sys;
use bpf::abi::{Block, BlockType, Record, RecordKind};
use pcapng::PacketFlags;
use std::ops::Range;

/// The head of the record so many further on, if all are as long, is fetched before it is looked
/// at: it comes from the cache of the CPU that wrote it, which takes as long as it takes to encode
/// many records.
const AHEAD: usize = 32;

/// Bytes of the head of a record, and of a block.
const HEAD_LEN: usize = size_of::<Record>();
/// Where the size of a record stands, and that of a block.
const SIZE_AT: usize = 4;
/// The tag or the verdict behind the frame of a record.
const TAG_LEN: usize = 4;
/// Bytes of a tag in a frame.
const VLAN_TAG_LEN: u32 = 4;

/// Which clock a record's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// `CLOCK_MONOTONIC` of the kernel.
    Software,
    /// `CLOCK_REALTIME` of the kernel.
    TimeOfDay,
    /// The clock of the device.
    Hardware,
}

/// A tag that the hardware took off a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// The Ethernet type of the tag, such as 0x8100.
    pub tpid: u16,
    /// Priority, drop bit and number.
    pub tci: u16,
}

/// One captured frame, as it lies in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRecord<'a> {
    /// When it came, in nanoseconds of the clock that `time_source` names.
    pub time_ns: u64,
    /// Whose clock that was.
    pub time_source: TimeSource,
    /// Length on the wire without FCS, in bytes; with the tag of `vlan`.
    pub frame_len: u32,
    /// Device number, in the device's namespace; 0 where a ring belongs to one device.
    pub ifindex: u32,
    /// Receive queue of the device.
    pub queue_index: u16,
    /// Its direction and what else the link layer knew.
    pub flags: PacketFlags,
    /// The tag that is missing after the two addresses in `data`; it is put back when the frame is
    /// written.
    pub vlan: Option<VlanTag>,
    /// What an XDP program returned for it, if the frame was taken behind that program.
    pub xdp_verdict: Option<u32>,
    /// Frames lost in this ring between the record before and this one.
    pub lost_before: u32,
    /// The first bytes of the frame.
    pub data: &'a [u8],
}

/// A block of a capture file that lies finished in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinishedBlock<'a> {
    pub(crate) interface: u32,
    /// Nanoseconds since 1970.
    pub(crate) time_ns: u64,
    /// True if only the first bytes of the frame were kept.
    pub(crate) is_cut: bool,
    pub(crate) bytes: &'a [u8],
}

/// What the program wrote of one frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a>(&'a [u8]);

impl<'a> RawRecord<'a> {
    /// The block, if it is one.
    #[inline]
    pub(crate) fn block(&self) -> Option<FinishedBlock<'a>> {
        let head: Block = bytemuck::pod_read_unaligned(self.0.first_chunk::<HEAD_LEN>()?);
        (head.r#type == BlockType::WR_BLOCK_TYPE.0).then(|| FinishedBlock {
            interface: head.interface,
            time_ns: u64::from(head.time_high) << 32 | u64::from(head.time_low),
            is_cut: head.captured_len < head.frame_len,
            bytes: self.0,
        })
    }

    /// The frame and what is known of it. A captured length beyond the record, which the producer
    /// never writes, is cut to the record.
    #[inline]
    pub(crate) fn record(&self) -> RingRecord<'a> {
        match self.block() {
            Some(block) => of_block(&block),
            None => of_record(self.0),
        }
    }
}

fn of_record(bytes: &[u8]) -> RingRecord<'_> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().expect("a record has a head");
    let (data, word) = rest.split_last_chunk::<TAG_LEN>().expect("a record has a word behind the frame");
    let head: Record = bytemuck::pod_read_unaligned(head);
    let is = |kind: RecordKind| u32::from(head.kind) & kind.0 != 0;
    let word = u32::from_ne_bytes(*word);
    let vlan = is(RecordKind::WR_RECORD_VLAN)
        .then_some(VlanTag { tpid: (word >> u16::BITS) as u16, tci: word as u16 });
    RingRecord {
        time_ns: u64::from(head.time_high) << 32 | u64::from(head.time_low),
        time_source: match is(RecordKind::WR_RECORD_HARDWARE_TIME) {
            true => TimeSource::Hardware,
            false => TimeSource::Software,
        },
        // The kernel's length does not know of the tag, the wire did.
        frame_len: head.frame_len.saturating_add(vlan.map_or(0, |_| VLAN_TAG_LEN)),
        ifindex: 0,
        queue_index: head.queue_index,
        flags: PacketFlags::INBOUND,
        vlan,
        xdp_verdict: is(RecordKind::WR_RECORD_VERDICT).then_some(word),
        lost_before: head.lost_before,
        data: &data[..data.len().min(head.captured_len as usize)],
    }
}

fn of_block<'a>(block: &FinishedBlock<'a>) -> RingRecord<'a> {
    let packet = pcapng::Packet::parse_emitted(block.bytes).unwrap_or_default();
    RingRecord {
        time_ns: block.time_ns,
        time_source: TimeSource::TimeOfDay,
        frame_len: packet.frame_len,
        ifindex: 0,
        queue_index: packet.queue.unwrap_or(0) as u16,
        flags: PacketFlags::INBOUND,
        vlan: None,
        xdp_verdict: None,
        lost_before: 0,
        data: packet.data,
    }
}

/// The shape of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingShape {
    /// A power of two.
    pub(crate) segment_bytes: u64,
    /// A power of two.
    pub(crate) segments: u64,
    /// Bytes from the beginning of a segment to that of the next one.
    pub(crate) stride_bytes: u64,
}

impl RingShape {
    /// Bytes that places count for a full ring.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.segment_bytes * self.segments
    }

    /// The filled bytes of the segment of `tail`, as a range of the ring's memory, and at which of
    /// them the last record has begun. The last record of a segment may end before the range does.
    ///
    /// # Panics
    /// When the producer is more than a ring ahead, which it never is.
    pub(crate) fn filled(&self, tail: u64, head: u64) -> (Range<usize>, usize) {
        let pending = head.wrapping_sub(tail);
        assert!(pending <= self.size_bytes(), "head {head} is over a ring ahead of tail {tail}");
        let offset = tail % self.segment_bytes;
        let start = tail / self.segment_bytes % self.segments * self.stride_bytes + offset;
        let in_segment = self.segment_bytes - offset;
        let (len, until) = match pending < in_segment {
            true => (pending, pending),
            false => (self.stride_bytes - offset, in_segment),
        };
        (start as usize..(start + len) as usize, until as usize)
    }

    /// The place behind `len` bytes of records from `tail` on, all of them in one segment.
    pub(crate) fn behind(&self, tail: u64, len: u64) -> u64 {
        let in_segment = self.segment_bytes - tail % self.segment_bytes;
        tail.wrapping_add(if len < in_segment { len } else { in_segment })
    }
}

/// Records of one segment that lie back to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    bytes: &'a [u8],
    /// Records begin before this.
    until: usize,
}

impl<'a> Batch<'a> {
    /// The records of `bytes` that begin before `until`.
    pub(crate) fn new(bytes: &'a [u8], until: usize) -> Self {
        Self { bytes, until }
    }

    /// The bytes that the records lie in.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number and length of the whole records of about `len_max` bytes; one at least, if there is
    /// one.
    #[inline]
    pub(crate) fn measure(&self, len_max: usize) -> (u64, usize) {
        self.measure_each(len_max, |_| {})
    }

    /// Number and length of the whole records of about `len_max` bytes, one at least if there is
    /// one; shows each of them.
    #[inline]
    pub(crate) fn measure_each(&self, len_max: usize, mut take: impl FnMut(RawRecord<'a>)) -> (u64, usize) {
        let (mut count, mut at) = (0, 0);
        while at < self.until && (count == 0 || at < len_max) {
            let size = size_at(self.bytes, at);
            sys::prefetch(self.bytes, at + AHEAD * size);
            take(RawRecord(&self.bytes[at..at + size]));
            at += size;
            count += 1;
        }
        (count, at)
    }

    /// Shows the first `count` records with the offset of each, oldest first.
    ///
    /// A loop and no iterator: what is done with a record is compiled into the loop then, and the
    /// record stays in registers.
    #[inline]
    pub(crate) fn for_each(&self, count: u64, mut take: impl FnMut(usize, RawRecord<'a>)) {
        let (mut left, mut at) = (count, 0);
        while left > 0 && at < self.until {
            let size = size_at(self.bytes, at);
            take(at, RawRecord(&self.bytes[at..at + size]));
            at += size;
            left -= 1;
        }
    }
}

/// Size of the record at `at`.
///
/// # Panics
/// When it is shorter than its head, which the program never writes.
#[inline]
fn size_at(bytes: &[u8], at: usize) -> usize {
    let size = bytes.get(at + SIZE_AT..).and_then(|size| size.first_chunk());
    let size = size.map_or(0, |size| u32::from_ne_bytes(*size)) as usize;
    assert!(size >= HEAD_LEN + TAG_LEN && size.is_multiple_of(4), "a record of {size} bytes");
    size
}

/// Records as the program writes them, for tests.
#[cfg(test)]
pub(crate) mod samples {
    use super::{HEAD_LEN, Record, TAG_LEN};

    /// A record with this word behind the frame.
    pub(crate) fn record(head: &Record, data: &[u8], word: u32) -> Vec<u8> {
        let size = HEAD_LEN + data.len().next_multiple_of(4) + TAG_LEN;
        let mut bytes = bytemuck::bytes_of(&Record { size: size as u32, ..*head }).to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(size - TAG_LEN, 0);
        bytes.extend_from_slice(&word.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::samples::record;
    use super::*;
    use proptest::prelude::*;

    const SEGMENT: u64 = 256;
    /// Longest record: its head, 60 bytes and the tag.
    const RECORD_MAX: u64 = 92;

    /// A producer as the BPF program is one, over plain memory.
    struct Producer {
        shape: RingShape,
        memory: Vec<u8>,
        head: u64,
        lost: u32,
        lost_noted: u32,
    }

    impl Producer {
        fn new(segments: u64) -> Self {
            let shape = RingShape { segment_bytes: SEGMENT, segments, stride_bytes: SEGMENT + RECORD_MAX };
            let memory = vec![0xee; (shape.stride_bytes * segments) as usize];
            Self { shape, memory, head: 0, lost: 0, lost_noted: 0 }
        }

        fn receive(&mut self, number: u64, frame_len: u32, tail: u64) {
            let captured_len = frame_len.min(60);
            let record = record(
                &Record {
                    kind: RecordKind::WR_RECORD.0 as u16,
                    queue_index: 3,
                    size: 0,
                    time_low: number as u32,
                    time_high: (number >> 32) as u32,
                    captured_len,
                    frame_len,
                    lost_before: self.lost - self.lost_noted,
                },
                &vec![number as u8; captured_len as usize],
                0,
            );
            let len = record.len() as u64;
            if self.head + len - tail > self.shape.size_bytes() {
                self.lost += 1;
                return;
            }
            let offset = self.head % SEGMENT;
            let at = self.head / SEGMENT % self.shape.segments * self.shape.stride_bytes + offset;
            self.memory[at as usize..][..record.len()].copy_from_slice(&record);
            self.lost_noted = self.lost;
            self.head = if offset + len < SEGMENT { self.head + len } else { self.head - offset + SEGMENT };
        }

        fn batch(&self, tail: u64) -> Batch<'_> {
            let (range, until) = self.shape.filled(tail, self.head);
            Batch::new(&self.memory[range], until)
        }
    }

    proptest! {
        /// Whatever the order of receiving and reading, every frame is read once and in order, or
        /// counted as lost in the record after it.
        #[test]
        fn every_frame_is_read_or_told_lost(
            segments_log2 in 0..4_u32,
            steps in prop::collection::vec((0..20_u64, 1..700_usize), 1..200),
        ) {
            let mut producer = Producer::new(1 << segments_log2);
            let (mut number, mut tail, mut expected) = (0, 0, 0);
            for (frames, len_max) in steps {
                for _ in 0..frames {
                    producer.receive(number, 14 + (number % 90) as u32, tail);
                    number += 1;
                }
                let batch = producer.batch(tail);
                let (count, len) = batch.measure(len_max);
                let mut shown = Vec::new();
                batch.for_each(count, |at, raw| shown.push((at, raw.record())));
                prop_assert_eq!(shown.len() as u64, count);
                prop_assert_eq!(count == 0, tail == producer.head);
                for (at, record) in shown {
                    prop_assert!(at < len);
                    expected += u64::from(record.lost_before);
                    prop_assert_eq!(record.time_ns, expected);
                    prop_assert_eq!(record.frame_len, 14 + (expected % 90) as u32);
                    prop_assert_eq!(record.data.len(), record.frame_len.min(60) as usize);
                    prop_assert!(record.data.iter().all(|&byte| byte == expected as u8));
                    expected += 1;
                }
                tail = producer.shape.behind(tail, len as u64);
            }
            while tail != producer.head {
                let batch = producer.batch(tail);
                let (count, len) = batch.measure(usize::MAX);
                batch.for_each(count, |_, raw| expected += 1 + u64::from(raw.record().lost_before));
                tail = producer.shape.behind(tail, len as u64);
            }
            prop_assert_eq!(expected + u64::from(producer.lost - producer.lost_noted), number);
        }

        /// Places near the end of 64 bits wrap like any others.
        #[test]
        fn filled_bytes_lie_in_one_segment(tail in any::<u64>(), pending in 0..=SEGMENT * 8) {
            let shape = RingShape { segment_bytes: SEGMENT, segments: 8, stride_bytes: SEGMENT + RECORD_MAX };
            let tail = tail & !3;
            let (range, until) = shape.filled(tail, tail.wrapping_add(pending));
            prop_assert!(range.len() >= until && until as u64 <= SEGMENT - tail % SEGMENT);
            prop_assert_eq!(until as u64, pending.min(SEGMENT - tail % SEGMENT));
            let stride = shape.stride_bytes as usize;
            prop_assert!(range.is_empty() || range.start / stride == (range.end - 1) / stride);
        }

        /// No bytes make the parser panic or look outside the record.
        #[test]
        fn any_bytes_are_a_record(bytes in prop::collection::vec(any::<u8>(), 32..200)) {
            prop_assert!(RawRecord(&bytes).record().data.len() <= bytes.len());
        }
    }

    #[test]
    #[should_panic(expected = "over a ring ahead")]
    fn a_head_beyond_the_ring_is_a_broken_promise() {
        RingShape { segment_bytes: 64, segments: 4, stride_bytes: 128 }.filled(12, 12 + 260);
    }

    #[test]
    fn a_tag_beside_the_frame_counts_for_its_length() {
        let head = Record { frame_len: 60, captured_len: 60, ..bpf::abi::zeroed() };
        let plain = record(&head, &[7; 60], 0);
        let plain = RawRecord(&plain).record();
        assert_eq!((plain.vlan, plain.frame_len), (None, 60));
        let kind = (RecordKind::WR_RECORD.0 | RecordKind::WR_RECORD_VLAN.0) as u16;
        let tagged = record(&Record { kind, ..head }, &[7; 60], 0x8100_2007);
        let tagged = RawRecord(&tagged).record();
        assert_eq!(tagged.vlan, Some(VlanTag { tpid: 0x8100, tci: 0x2007 }));
        assert_eq!((tagged.frame_len, tagged.data), (64, &[7; 60][..]));
    }

    #[test]
    fn the_kind_names_the_clock() {
        for (flags, source) in
            [(0, TimeSource::Software), (RecordKind::WR_RECORD_HARDWARE_TIME.0, TimeSource::Hardware)]
        {
            let kind = (RecordKind::WR_RECORD.0 | flags) as u16;
            let bytes = record(&Record { kind, ..bpf::abi::zeroed() }, &[], 0);
            assert_eq!(RawRecord(&bytes).record().time_source, source);
            assert!(RawRecord(&bytes).block().is_none());
        }
    }

    #[test]
    fn a_finished_block_is_read_as_a_record_too() {
        let packet = pcapng::Packet {
            interface: 2,
            time_ns: 1_700_000_000_000_000_001,
            frame_len: 1514,
            data: &[9; 61],
            flags: Some(PacketFlags::INBOUND),
            queue: Some(5),
            ..pcapng::Packet::default()
        };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        let raw = RawRecord(&bytes);
        let block = raw.block().unwrap();
        assert_eq!((block.interface, block.time_ns, block.is_cut), (2, packet.time_ns, true));
        assert_eq!(block.bytes, bytes);
        let record = raw.record();
        assert_eq!((record.time_ns, record.time_source), (packet.time_ns, TimeSource::TimeOfDay));
        assert_eq!((record.frame_len, record.queue_index, record.data), (1514, 5, &[9; 61][..]));
    }
}
