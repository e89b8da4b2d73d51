//! The frames of one block of a TPACKET_V3 ring.
//!
//! A function over bytes: whatever they are, it reads nothing outside of them and ends. A block
//! with an invalid frame ends at that frame. Layout: `struct tpacket_block_desc`, `struct
//! tpacket3_hdr` and `struct sockaddr_ll` of `linux/if_packet.h`, the two last at offsets rounded
//! up to 16.

use crate::record::ring::{RingRecord, TimeSource, VlanTag};
use pcapng::PacketFlags;

/// In the head of a block.
const COUNT_AT: usize = 12;
const FIRST_FRAME_AT: usize = 16;

/// In the head of a frame.
const NEXT_AT: usize = 0;
const SECONDS_AT: usize = 4;
const NANOSECONDS_AT: usize = 8;
const CAPTURED_LEN_AT: usize = 12;
const FRAME_LEN_AT: usize = 16;
const STATUS_AT: usize = 20;
const MAC_AT: usize = 24;
const VLAN_TCI_AT: usize = 32;
const VLAN_TPID_AT: usize = 36;
/// The address behind the head, and in it the interface and the type of the packet.
const ADDRESS_AT: usize = 48;
const IFINDEX_AT: usize = ADDRESS_AT + 4;
const PACKET_TYPE_AT: usize = ADDRESS_AT + 10;

/// Frames that this host sent (`PACKET_OUTGOING`).
pub(crate) const OUTGOING: u8 = 4;

/// A tag takes so many bytes of the wire.
const TAG_LEN: u32 = 4;
/// What a tag is when the kernel does not report it: 802.1Q.
const TPID_DEFAULT: u16 = 0x8100;

/// Any place of a block, as a number in the machine's own order.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_ne_bytes(*half))
}

/// The frames of a block, in the order in which they came.
#[derive(Clone, Debug)]
pub(crate) struct Frames<'a> {
    block: &'a [u8],
    left: u32,
    at: usize,
}

impl<'a> Frames<'a> {
    /// Of a block that the kernel has handed over.
    pub(crate) fn of(block: &'a [u8]) -> Self {
        let left = word(block, COUNT_AT).unwrap_or(0);
        let at = word(block, FIRST_FRAME_AT).map_or(usize::MAX, |at| at as usize);
        Self { block, left, at }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = RingRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<RingRecord<'a>> {
        self.left = self.left.checked_sub(1)?;
        let frame = self.block.get(self.at..)?;
        let record = record(frame)?;
        let step = word(frame, NEXT_AT)? as usize;
        if step == 0 {
            // The last one.
            self.left = 0;
        }
        self.at = self.at.saturating_add(step);
        Some(record)
    }
}

/// The frame whose head is at the start of `bytes`.
#[inline]
fn record(bytes: &[u8]) -> Option<RingRecord<'_>> {
    let status = word(bytes, STATUS_AT)?;
    let data = bytes.get(usize::from(half(bytes, MAC_AT)?)..)?;
    let captured_len = (word(bytes, CAPTURED_LEN_AT)? as usize).min(data.len());
    let vlan = tag(bytes, status)?;
    let seconds = u64::from(word(bytes, SECONDS_AT)?);
    let frame_len = word(bytes, FRAME_LEN_AT)?;
    let is_outgoing = *bytes.get(PACKET_TYPE_AT)? == OUTGOING;
    Some(RingRecord {
        time_ns: seconds * 1_000_000_000 + u64::from(word(bytes, NANOSECONDS_AT)?),
        time_source: if status & libc::TP_STATUS_TS_RAW_HARDWARE != 0 {
            TimeSource::Hardware
        } else {
            TimeSource::TimeOfDay
        },
        frame_len: if vlan.is_some() { frame_len.saturating_add(TAG_LEN) } else { frame_len },
        ifindex: word(bytes, IFINDEX_AT)?,
        queue_index: 0,
        flags: if is_outgoing { PacketFlags::OUTBOUND } else { PacketFlags::INBOUND },
        vlan,
        xdp_verdict: None,
        lost_before: 0,
        data: &data[..captured_len],
    })
}

/// The tag that the hardware, or the kernel in its place, took off the frame.
fn tag(bytes: &[u8], status: u32) -> Option<Option<VlanTag>> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return Some(None);
    }
    let says_tpid = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if says_tpid { half(bytes, VLAN_TPID_AT)? } else { TPID_DEFAULT };
    Some(Some(VlanTag { tpid, tci: word(bytes, VLAN_TCI_AT)? as u16 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Sent {
        data: Vec<u8>,
        frame_len: u32,
        status: u32,
        packet_type: u8,
    }

    fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
        block[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A block as the kernel fills it: frames 16 bytes aligned, the last one without a successor.
    fn block(frames: &[Sent]) -> Vec<u8> {
        let mut block = vec![0; 48];
        put(&mut block, COUNT_AT, &(frames.len() as u32).to_ne_bytes());
        put(&mut block, FIRST_FRAME_AT, &48_u32.to_ne_bytes());
        for (number, frame) in frames.iter().enumerate() {
            let start = block.len();
            let mac = 82_u16;
            let len = (usize::from(mac) + frame.data.len()).next_multiple_of(16);
            block.resize(start + len, 0xee);
            let next = if number + 1 == frames.len() { 0 } else { len as u32 };
            for (at, word) in [
                (NEXT_AT, next),
                (SECONDS_AT, 1_700_000_000),
                (NANOSECONDS_AT, number as u32),
                (CAPTURED_LEN_AT, frame.data.len() as u32),
                (FRAME_LEN_AT, frame.frame_len),
                (STATUS_AT, frame.status),
                (VLAN_TCI_AT, 0x2005),
                (IFINDEX_AT, 7),
            ] {
                put(&mut block, start + at, &word.to_ne_bytes());
            }
            put(&mut block, start + MAC_AT, &mac.to_ne_bytes());
            put(&mut block, start + VLAN_TPID_AT, &0x88a8_u16.to_ne_bytes());
            block[start + PACKET_TYPE_AT] = frame.packet_type;
            put(&mut block, start + usize::from(mac), &frame.data);
        }
        block
    }

    fn sent(len: usize, status: u32, packet_type: u8) -> Sent {
        Sent { data: vec![len as u8; len], frame_len: 1500, status, packet_type }
    }

    #[test]
    fn the_status_tells_clock_and_tag() {
        let plain = libc::TP_STATUS_USER;
        let vlan = plain | libc::TP_STATUS_VLAN_VALID;
        let frames = [
            sent(60, plain, 0),
            sent(61, vlan, OUTGOING),
            sent(62, vlan | libc::TP_STATUS_VLAN_TPID_VALID, 0),
            sent(0, plain | libc::TP_STATUS_TS_RAW_HARDWARE, 3),
            sent(64, plain | libc::TP_STATUS_TS_SOFTWARE, 0),
        ];
        let block = block(&frames);
        let records: Vec<RingRecord<'_>> = Frames::of(&block).collect();
        let tags: Vec<_> = records.iter().map(|record| record.vlan.map(|tag| (tag.tpid, tag.tci))).collect();
        assert_eq!(tags, [None, Some((0x8100, 0x2005)), Some((0x88a8, 0x2005)), None, None]);
        let lens: Vec<_> = records.iter().map(|record| (record.frame_len, record.data.len())).collect();
        assert_eq!(lens, [(1500, 60), (1504, 61), (1504, 62), (1500, 0), (1500, 64)]);
        let clocks: Vec<_> = records.iter().map(|record| record.time_source).collect();
        let (day, hardware) = (TimeSource::TimeOfDay, TimeSource::Hardware);
        assert_eq!(clocks, [day, day, day, hardware, day]);
        let outgoing: Vec<_> = records.iter().map(|record| record.flags.is_outbound()).collect();
        assert_eq!(outgoing, [false, true, false, false, false]);
        assert_eq!(records[2].time_ns, 1_700_000_000_000_000_002);
        assert!(records.iter().all(|record| record.ifindex == 7));
    }

    #[test]
    fn a_block_without_frames_is_empty() {
        assert_eq!(Frames::of(&block(&[])).count(), 0);
        assert_eq!(Frames::of(&[]).count(), 0);
    }

    proptest! {
        #[test]
        fn every_frame_comes_out_with_its_bytes(lens in prop::collection::vec(0..300_usize, 0..40)) {
            let frames: Vec<Sent> = lens.iter().map(|&len| sent(len, 1, 0)).collect();
            let block = block(&frames);
            let data: Vec<&[u8]> = Frames::of(&block).map(|record| record.data).collect();
            let expected: Vec<&[u8]> = frames.iter().map(|frame| &frame.data[..]).collect();
            prop_assert_eq!(data, expected);
        }

        /// No bytes make the reader panic, go on for ever, or look outside the block.
        #[test]
        fn any_bytes_are_a_block(mut bytes in prop::collection::vec(any::<u8>(), 0..400), count in 0..40_u32) {
            if bytes.len() >= FIRST_FRAME_AT {
                bytes[COUNT_AT..FIRST_FRAME_AT].copy_from_slice(&count.to_ne_bytes());
            }
            prop_assert!(Frames::of(&bytes).count() <= count as usize);
        }

        /// A block with some bytes changed.
        #[test]
        fn damaged_blocks_end_at_the_bad_frame(
            lens in prop::collection::vec(0..100_usize, 1..10),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..10),
            cut in any::<prop::sample::Index>(),
        ) {
            let frames: Vec<Sent> = lens.iter().map(|&len| sent(len, 1, 0)).collect();
            let mut block = block(&frames);
            for (at, byte) in damage {
                let at = at.index(block.len());
                block[at] = byte;
            }
            for bytes in [&block[..], &block[..cut.index(block.len())]] {
                let records = Frames::of(bytes).take(1000);
                prop_assert!(records.map(|record| record.data.len()).all(|len| len <= bytes.len()));
            }
        }
    }
}
