//! The reading half of a ring: which slots are filled, and the content of a slot.
//!
//! A ring has `slots` slots of one size; `slots` is a power of two. The producer counts the slots
//! that it ever filled (head), the reader those that it ever released (tail); slot number n is at
//! place n modulo `slots`. Everything here is a function over bytes and numbers; `sys` knows the
//! memory.

use crate::sys;
use bpf::abi::{Slot, SlotFlag};
use pcapng::PacketFlags;
use std::ops::Range;

/// Slots that are fetched before they are looked at: they come from the cache of the CPU that
/// filled them, which takes as long as it takes to encode a few records.
const AHEAD: usize = 8;

const SLOT_HEAD_LEN: usize = size_of::<Slot>();
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
    /// Device number, in the device's namespace.
    pub ifindex: u32,
    /// Receive queue of the device.
    pub queue_index: u16,
    /// Its direction and what else the link layer knew.
    pub flags: PacketFlags,
    /// The tag that is missing after the two addresses in `data`; it is put back when the frame is
    /// written.
    pub vlan: Option<VlanTag>,
    /// Frames lost in this ring between the record before and this one.
    pub lost_before: u32,
    /// The first bytes of the frame.
    pub data: &'a [u8],
}

impl<'a> RingRecord<'a> {
    /// Reads one slot. A captured length beyond the slot, which the producer never writes, is cut
    /// to the slot.
    ///
    /// # Panics
    /// When `slot` is shorter than the head of a slot.
    #[inline]
    pub fn parse(slot: &'a [u8]) -> Self {
        let (head, data) = slot.split_first_chunk::<SLOT_HEAD_LEN>().expect("a slot has a head");
        let head: Slot = bytemuck::pod_read_unaligned(head);
        let is = |flag: SlotFlag| u32::from(head.flags) & flag.0 != 0;
        let time_source = match is(SlotFlag::WR_SLOT_HARDWARE_TIME) {
            true => TimeSource::Hardware,
            false => TimeSource::Software,
        };
        let vlan = is(SlotFlag::WR_SLOT_VLAN).then_some(VlanTag { tpid: head.vlan_tpid, tci: head.vlan_tci });
        Self {
            time_ns: head.time_ns,
            time_source,
            // The kernel's length does not know of the tag, the wire did.
            frame_len: head.frame_len.saturating_add(vlan.map_or(0, |_| VLAN_TAG_LEN)),
            ifindex: head.ifindex,
            queue_index: head.queue_index,
            flags: PacketFlags::INBOUND,
            vlan,
            lost_before: head.lost_before,
            data: &data[..data.len().min(head.captured_len as usize)],
        }
    }
}

/// The shape of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// A power of two.
    pub slots: u32,
    /// Bytes of one slot, at least the head's 32.
    pub slot_size_bytes: u32,
}

impl RingShape {
    /// Bytes of the whole ring.
    pub fn size_bytes(&self) -> usize {
        self.slots as usize * self.slot_size_bytes as usize
    }

    /// Byte ranges of the slots from number `tail` to before number `head`, at most `batch` of
    /// them: up to the end of the ring, and from its beginning.
    ///
    /// # Panics
    /// When the producer is more than a ring ahead, which it never is.
    pub fn filled(&self, tail: u64, head: u64, batch: u32) -> [Range<usize>; 2] {
        let pending = head.wrapping_sub(tail);
        assert!(
            pending <= u64::from(self.slots),
            "head {head} is over {} slots ahead of tail {tail}",
            self.slots
        );
        let count = pending.min(u64::from(batch)) as usize;
        let first = (tail % u64::from(self.slots)) as usize;
        let until_end = count.min(self.slots as usize - first);
        let bytes = |slots: Range<usize>| {
            slots.start * self.slot_size_bytes as usize..slots.end * self.slot_size_bytes as usize
        };
        [bytes(first..first + until_end), bytes(0..count - until_end)]
    }
}

/// Filled slots, lent until the tail moves past them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    slot_size_bytes: usize,
    parts: [&'a [u8]; 2],
}

impl<'a> Batch<'a> {
    /// Slots in the order of their numbers; each part is whole slots.
    pub fn new(slot_size_bytes: usize, parts: [&'a [u8]; 2]) -> Self {
        assert!(slot_size_bytes >= SLOT_HEAD_LEN, "slots of {slot_size_bytes} bytes");
        Self { slot_size_bytes, parts }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        (self.parts[0].len() + self.parts[1].len()) / self.slot_size_bytes
    }

    /// True without slots.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows the first `count` records, oldest first.
    ///
    /// A loop and no iterator: what is done with a record is compiled into the loop then, and the
    /// record stays in registers. Passed through memory it costs a third of all that is done for a
    /// frame.
    #[inline]
    pub fn for_each(&self, count: u64, mut take: impl FnMut(RingRecord<'a>)) {
        let (slot_size, mut left) = (self.slot_size_bytes, count);
        for slots in self.parts {
            for (number, slot) in slots.chunks_exact(slot_size).enumerate() {
                if left == 0 {
                    return;
                }
                left -= 1;
                sys::prefetch(slots, (number + AHEAD) * slot_size);
                take(RingRecord::parse(slot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOT_SIZE: usize = 64;

    /// A producer as the BPF program is one, over plain memory.
    struct Producer {
        shape: RingShape,
        memory: Vec<u8>,
        head: u64,
        lost: u32,
        lost_noted: u32,
    }

    impl Producer {
        fn new(slots: u32) -> Self {
            let shape = RingShape { slots, slot_size_bytes: SLOT_SIZE as u32 };
            let memory = vec![0xee; shape.size_bytes()];
            Self { shape, memory, head: 0, lost: 0, lost_noted: 0 }
        }

        fn receive(&mut self, number: u64, frame_len: u32, tail: u64) {
            if self.head - tail >= u64::from(self.shape.slots) {
                self.lost += 1;
                return;
            }
            let at = (self.head % u64::from(self.shape.slots)) as usize * SLOT_SIZE;
            let captured_len = frame_len.min(32);
            let slot = &mut self.memory[at..at + SLOT_SIZE];
            slot[0..8].copy_from_slice(&number.to_ne_bytes());
            slot[8..12].copy_from_slice(&frame_len.to_ne_bytes());
            slot[12..16].copy_from_slice(&captured_len.to_ne_bytes());
            slot[16..20].copy_from_slice(&7_u32.to_ne_bytes());
            slot[20..22].copy_from_slice(&3_u16.to_ne_bytes());
            slot[22..24].copy_from_slice(&0_u16.to_ne_bytes());
            slot[24..28].copy_from_slice(&(self.lost - self.lost_noted).to_ne_bytes());
            slot[32..32 + captured_len as usize].fill(number as u8);
            self.lost_noted = self.lost;
            self.head += 1;
        }

        fn batch(&self, tail: u64, batch: u32) -> Batch<'_> {
            let ranges = self.shape.filled(tail, self.head, batch);
            Batch::new(SLOT_SIZE, ranges.map(|range| &self.memory[range]))
        }
    }

    fn records<'a>(batch: &Batch<'a>) -> Vec<RingRecord<'a>> {
        let mut records = Vec::new();
        batch.for_each(u64::MAX, |record| records.push(record));
        let mut first = Vec::new();
        batch.for_each(1, |record| first.push(record));
        assert_eq!(first, records[..first.len()]);
        records
    }

    proptest! {
        /// Whatever the order of receiving and reading, every frame is read once and in order, or
        /// counted as lost in the record after it.
        #[test]
        fn every_frame_is_read_or_told_lost(
            slots_log2 in 0..5_u32,
            steps in prop::collection::vec((0..20_u64, 1..20_u32), 1..200),
        ) {
            let mut producer = Producer::new(1 << slots_log2);
            let (mut number, mut tail, mut expected) = (0, 0, 0);
            for (frames, batch) in steps {
                for _ in 0..frames {
                    producer.receive(number, 14 + (number % 60) as u32, tail);
                    number += 1;
                }
                let records = records(&producer.batch(tail, batch));
                tail += records.len() as u64;
                for record in records {
                    expected += u64::from(record.lost_before);
                    prop_assert_eq!(record.time_ns, expected);
                    prop_assert_eq!(record.frame_len, 14 + (expected % 60) as u32);
                    prop_assert_eq!(record.data.len(), record.frame_len.min(32) as usize);
                    prop_assert!(record.data.iter().all(|&byte| byte == expected as u8));
                    expected += 1;
                }
            }
            let waiting = producer.head - tail;
            let unread = records(&producer.batch(tail, u32::MAX));
            let told_later: u64 = unread.iter().map(|record| u64::from(record.lost_before)).sum();
            prop_assert_eq!(expected + waiting + told_later + u64::from(producer.lost - producer.lost_noted), number);
        }

        /// No bytes make the reader panic or look outside the slot.
        #[test]
        fn any_bytes_are_a_record(bytes in prop::collection::vec(any::<u8>(), 32..200)) {
            let record = RingRecord::parse(&bytes);
            prop_assert!(record.data.len() <= bytes.len() - 32);
        }

        /// Numbers near the end of 64 bits wrap like any others.
        #[test]
        fn ranges_are_whole_slots_in_the_ring(tail in any::<u64>(), pending in 0..=64_u64, batch in 0..100_u32) {
            let shape = RingShape { slots: 64, slot_size_bytes: 128 };
            let [first, second] = shape.filled(tail, tail.wrapping_add(pending), batch);
            prop_assert_eq!(((first.len() + second.len()) / 128) as u64, pending.min(u64::from(batch)));
            prop_assert_eq!(first.start, (tail % 64) as usize * 128);
            prop_assert!(first.end <= shape.size_bytes() && second.end <= first.start);
            prop_assert!(second.is_empty() || first.end == shape.size_bytes());
        }
    }

    #[test]
    #[should_panic(expected = "over 4 slots ahead")]
    fn a_head_beyond_the_ring_is_a_broken_promise() {
        RingShape { slots: 4, slot_size_bytes: 64 }.filled(10, 15, 100);
    }

    #[test]
    fn a_tag_beside_the_frame_counts_for_its_length() {
        let plain = Slot { frame_len: 60, ..Slot::default() };
        let record = RingRecord::parse(bytemuck::bytes_of(&plain));
        assert_eq!((record.vlan, record.frame_len), (None, 60));
        let flags = SlotFlag::WR_SLOT_VLAN.0 as u16;
        let tagged = Slot { flags, vlan_tpid: 0x8100, vlan_tci: 0x2007, ..plain };
        let record = RingRecord::parse(bytemuck::bytes_of(&tagged));
        assert_eq!(record.vlan, Some(VlanTag { tpid: 0x8100, tci: 0x2007 }));
        assert_eq!(record.frame_len, 64);
    }

    #[test]
    fn flags_name_the_clock() {
        let source = |flags| {
            let slot = Slot { flags, ..Slot::default() };
            RingRecord::parse(bytemuck::bytes_of(&slot)).time_source
        };
        assert_eq!(source(0), TimeSource::Software);
        assert_eq!(source(SlotFlag::WR_SLOT_HARDWARE_TIME.0 as u16), TimeSource::Hardware);
    }
}
