//! From records to the blocks of a capture file, in the writer's own buffer.

use crate::ring::{Record, TimeSource};
use pcapng::{Interface, Packet, Template};

/// Number of the only interface of our files.
const INTERFACE: u32 = 0;

/// Encodes the records of one ring. Allocates only for a queue that it sees for the first time.
#[derive(Debug)]
pub(crate) struct Encoder {
    interface: Interface,
    /// One for each queue seen, by its number.
    templates: Vec<Template>,
}

impl Encoder {
    pub(crate) fn new(interface: Interface) -> Self {
        Self { interface, templates: Vec::new() }
    }

    /// Appends one enhanced packet block. `utc_offset_ns` turns monotonic time into time of day.
    #[inline]
    pub(crate) fn emit(&mut self, record: &Record<'_>, utc_offset_ns: i64, out: &mut Vec<u8>) {
        let time_ns = match record.time_source {
            TimeSource::Software => record.time_ns.wrapping_add_signed(utc_offset_ns),
            TimeSource::Hardware => record.time_ns,
        };
        if record.lost_before != 0 {
            return emit_after_loss(record, time_ns, out);
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
            self.templates.push(Template::new(&self.interface, &like(queue)));
        }
    }
}

/// What all packets of a queue have in common.
fn like<'a>(queue: u32) -> Packet<'a> {
    Packet { interface: INTERFACE, queue: Some(queue), ..Packet::default() }
}

/// The rare frame before which others were lost says how many.
#[cold]
fn emit_after_loss(record: &Record<'_>, time_ns: u64, out: &mut Vec<u8>) {
    let packet = Packet {
        time_ns,
        frame_len: record.frame_len,
        data: record.data,
        drop_count: Some(record.lost_before.into()),
        ..like(record.queue_index.into())
    };
    packet.emit(out);
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
            lost_before,
            data,
        }
    }

    fn encoded(record: &Record<'_>, utc_offset_ns: i64) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(Interface::default()).emit(record, utc_offset_ns, &mut out);
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
            drop_count: Some(77),
            ..Packet::default()
        };
        assert_eq!(encoded(&record(1, 77, &[9; 20]), 0), expected(&packet));
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
