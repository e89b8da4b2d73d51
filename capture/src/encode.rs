//! From records to the blocks of a capture file, in the writer's own buffer.

use crate::interfaces::Numbering;
use crate::ring::{Record, TimeSource, VlanTag};
use pcapng::{Flags, Interface, Packet, Template};

/// Two addresses stand before the tag of a frame.
const TAG_AT: usize = 12;

/// Encodes the records of one ring. Allocates only for a queue that it sees for the first time.
#[derive(Debug)]
pub(crate) struct Encoder {
    numbering: Numbering,
    /// Most bytes of a frame in the file.
    snaplen: usize,
    /// One for each queue seen, by its number; for frames that came in, with nothing lost before.
    templates: Vec<Template>,
    /// Where a tag is put back.
    scratch: Vec<u8>,
}

impl Encoder {
    /// For one ring of the device that has these interfaces.
    pub(crate) fn new(numbering: Numbering, snaplen: u32) -> Self {
        Self { numbering, snaplen: snaplen as usize, templates: Vec::new(), scratch: Vec::new() }
    }

    /// Appends one enhanced packet block. `utc_offset_ns` turns monotonic time into time of day.
    #[inline]
    pub(crate) fn emit(&mut self, record: &Record<'_>, utc_offset_ns: i64, out: &mut Vec<u8>) {
        let time_ns = match record.time_source {
            TimeSource::Software => record.time_ns.wrapping_add_signed(utc_offset_ns),
            TimeSource::Hardware => record.time_ns,
        };
        let is_plain = record.lost_before == 0 && record.flags == Flags::INBOUND && record.vlan.is_none();
        if !is_plain {
            return self.emit_whole(record, time_ns, out);
        }
        let queue = usize::from(record.queue_index);
        if queue >= self.templates.len() {
            self.add_queues(record.queue_index);
        }
        self.templates[queue].emit(time_ns, record.frame_len, record.data, out);
    }

    #[cold]
    fn add_queues(&mut self, last: u16) {
        for queue in self.templates.len() as u32..=u32::from(last) {
            let like = Packet { flags: Some(Flags::INBOUND), ..self.like(queue as u16) };
            self.templates.push(Template::new(&Interface::default(), &like));
        }
    }

    /// What all packets of a queue have in common.
    fn like<'a>(&self, queue_index: u16) -> Packet<'a> {
        let interface = self.numbering.of_queue(queue_index);
        Packet { interface, queue: Some(queue_index.into()), ..Packet::default() }
    }

    /// For frames that have more to say: went out, had a tag, came after others were lost.
    #[cold]
    fn emit_whole(&mut self, record: &Record<'_>, time_ns: u64, out: &mut Vec<u8>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let data = match record.vlan {
            None => record.data,
            Some(tag) => with_tag(record.data, tag, self.snaplen, &mut scratch),
        };
        let packet = Packet {
            time_ns,
            frame_len: record.frame_len,
            data,
            flags: (record.flags != Flags::default()).then_some(record.flags),
            drop_count: (record.lost_before != 0).then_some(record.lost_before.into()),
            ..self.like(record.queue_index)
        };
        packet.emit(out);
        self.scratch = scratch;
    }
}

/// `data` with its tag, at most `snaplen` bytes. A frame too short for one stays as it is.
pub(crate) fn with_tag<'a>(
    data: &'a [u8],
    tag: VlanTag,
    snaplen: usize,
    scratch: &'a mut Vec<u8>,
) -> &'a [u8] {
    let Some((addresses, rest)) = data.split_at_checked(TAG_AT) else { return data };
    scratch.clear();
    scratch.extend_from_slice(addresses);
    scratch.extend_from_slice(&tag.tpid.to_be_bytes());
    scratch.extend_from_slice(&tag.tci.to_be_bytes());
    scratch.extend_from_slice(rest);
    scratch.truncate(snaplen);
    scratch
}

/// Length of the block at the start of `blocks`, which our own encoder wrote.
fn block_len(blocks: &[u8]) -> usize {
    let (_, rest) = blocks.split_at(4);
    u32::from_le_bytes(*rest.first_chunk().expect("a block has a length")) as usize
}

/// Number of whole blocks in the first `len` bytes of `blocks`, and how long they are together.
pub(crate) fn whole_blocks(blocks: &[u8], len: usize) -> (u64, usize) {
    let (mut count, mut end) = (0, 0);
    while end < len {
        let next = end + block_len(&blocks[end..]);
        if next > len {
            break;
        }
        (count, end) = (count + 1, next);
    }
    (count, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(queue_index: u16, lost_before: u32, data: &[u8]) -> Record<'_> {
        Record {
            time_ns: 1_000,
            time_source: TimeSource::Software,
            frame_len: 1514,
            ifindex: 3,
            queue_index,
            flags: Flags::INBOUND,
            vlan: None,
            lost_before,
            data,
        }
    }

    fn encoder() -> Encoder {
        Encoder::new(Numbering::single(), 96)
    }

    fn encoded(record: &Record<'_>, utc_offset_ns: i64) -> Vec<u8> {
        let mut out = Vec::new();
        encoder().emit(record, utc_offset_ns, &mut out);
        out
    }

    fn expected(packet: &Packet<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        packet.emit(&mut out);
        out
    }

    #[test]
    fn a_record_becomes_a_packet_with_its_queue_and_time_of_day() {
        for (queue_index, data) in [(0, &[1_u8; 60][..]), (5, &[2; 96]), (65_535, &[])] {
            let packet = Packet {
                time_ns: 1_700_000_000_000_001_000,
                frame_len: 1514,
                data,
                queue: Some(queue_index.into()),
                flags: Some(Flags::INBOUND),
                ..Packet::default()
            };
            assert_eq!(encoded(&record(queue_index, 0, data), 1_700_000_000_000_000_000), expected(&packet));
        }
    }

    #[test]
    fn hardware_time_is_not_moved() {
        let hardware = Record { time_source: TimeSource::Hardware, ..record(0, 0, &[7; 64]) };
        let software = record(0, 0, &[7; 64]);
        assert_eq!(encoded(&hardware, 55), encoded(&software, 0));
    }

    #[test]
    fn losses_are_told_by_the_next_packet() {
        let packet = Packet {
            time_ns: 1_000,
            frame_len: 1514,
            data: &[9; 20],
            queue: Some(1),
            flags: Some(Flags::INBOUND),
            drop_count: Some(77),
            ..Packet::default()
        };
        assert_eq!(encoded(&record(1, 77, &[9; 20]), 0), expected(&packet));
    }

    #[test]
    fn frames_that_went_out_say_so_and_unknown_ones_say_nothing() {
        for (flags, told) in [(Flags::OUTBOUND, Some(Flags::OUTBOUND)), (Flags::default(), None)] {
            let packet = Packet {
                time_ns: 1_000,
                frame_len: 1514,
                data: &[9; 20],
                queue: Some(1),
                flags: told,
                ..Packet::default()
            };
            assert_eq!(encoded(&Record { flags, ..record(1, 0, &[9; 20]) }, 0), expected(&packet));
        }
    }

    #[test]
    fn a_tag_that_the_hardware_took_is_put_back_within_the_snaplen() {
        let data: Vec<u8> = (0..96).collect();
        for len in [0, 11, 12, 60, 92, 93, 96] {
            let mut scratch = vec![0xee; 7];
            let tag = VlanTag { tpid: 0x8100, tci: 0x6005 };
            let tagged = with_tag(&data[..len], tag, 96, &mut scratch);
            if len < 12 {
                assert_eq!(tagged, &data[..len]);
                continue;
            }
            let whole = [&data[..12], &[0x81, 0, 0x60, 5], &data[12..len]].concat();
            assert_eq!(tagged, &whole[..whole.len().min(96)], "{len} bytes");
        }
    }

    #[test]
    fn whole_blocks_end_before_the_cut() {
        let mut blocks = encoded(&record(0, 0, &[1; 60]), 0);
        let first = blocks.len();
        blocks.extend(encoded(&record(0, 0, &[1; 96]), 0));
        for (len, count, end) in [
            (0, 0, 0),
            (first - 1, 0, 0),
            (first, 1, first),
            (first + 1, 1, first),
            (blocks.len() - 1, 1, first),
            (blocks.len(), 2, blocks.len()),
        ] {
            assert_eq!(whole_blocks(&blocks, len), (count, end), "cut after {len}");
        }
    }
}
