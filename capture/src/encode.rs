//! From records to the blocks of a capture file, in the writer's own buffer.

use crate::format::Format;
use crate::interfaces::Numbering;
use crate::ring::{Record, TimeSource, VlanTag};
use pcapng::{Flags, Interface, Packet, Template, pcap};

/// Two addresses stand before the tag of a frame.
const TAG_AT: usize = 12;

/// Encodes the records of one ring. Allocates only for a queue that it sees for the first time.
#[derive(Debug)]
pub(crate) struct Encoder {
    format: Format,
    numbering: Numbering,
    /// Whether the file says which queue a frame came by.
    knows_queues: bool,
    /// Most bytes of a frame in the file.
    snaplen: usize,
    /// One for each queue seen, by its number; for frames that came in, with nothing lost before.
    templates: Vec<Template>,
    /// Where a tag is put back.
    scratch: Vec<u8>,
    /// The id of the next packet, when packets have ids.
    packet_id: Option<u64>,
}

impl Encoder {
    /// For one ring of the device that has these interfaces.
    pub(crate) fn new(format: Format, numbering: Numbering, snaplen: u32) -> Self {
        let (templates, scratch) = (Vec::new(), Vec::new());
        let snaplen = snaplen as usize;
        Self { format, numbering, knows_queues: true, snaplen, templates, scratch, packet_id: None }
    }

    /// The same, for records whose queue is known or not.
    pub(crate) fn knowing_queues(self, knows_queues: bool) -> Self {
        Self { knows_queues, ..self }
    }

    /// Gives each packet an id: the number of the ring in the upper 16 bits, below it the number of the frame among all
    /// that the ring was offered, lost ones included.
    pub(crate) fn with_packet_ids(self, ring: usize) -> Self {
        Self { packet_id: Some((ring as u64) << 48), ..self }
    }

    /// Appends one record and gives its time in nanoseconds since 1970. `utc_offset_ns` turns monotonic time into time
    /// of day.
    #[inline]
    pub(crate) fn emit(&mut self, record: &Record<'_>, utc_offset_ns: i64, out: &mut Vec<u8>) -> u64 {
        let time_ns = match record.time_source {
            TimeSource::Software => record.time_ns.wrapping_add_signed(utc_offset_ns),
            TimeSource::Hardware | TimeSource::TimeOfDay => record.time_ns,
        };
        let is_plain = record.lost_before == 0 && record.flags == Flags::INBOUND && record.vlan.is_none();
        if !is_plain || self.packet_id.is_some() {
            self.emit_whole(record, time_ns, out);
            return time_ns;
        }
        if self.format == Format::Pcap {
            emit_pcap(time_ns, record.frame_len, record.data, out);
            return time_ns;
        }
        let queue = usize::from(record.queue_index);
        if queue >= self.templates.len() {
            self.add_queues(record.queue_index);
        }
        self.templates[queue].emit(time_ns, record.frame_len, record.data, out);
        time_ns
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
        let queue = self.knows_queues.then_some(queue_index.into());
        Packet { interface, queue, ..Packet::default() }
    }

    /// For frames that have more to say: went out, had a tag, came after others were lost.
    #[cold]
    fn emit_whole(&mut self, record: &Record<'_>, time_ns: u64, out: &mut Vec<u8>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let data = match record.vlan {
            None => record.data,
            Some(tag) => with_tag(record.data, tag, self.snaplen, &mut scratch),
        };
        let packet_id = self.packet_id.as_mut().map(|next| {
            let id = *next + u64::from(record.lost_before);
            *next = id + 1;
            id
        });
        let packet = Packet {
            time_ns,
            frame_len: record.frame_len,
            data,
            packet_id,
            flags: (record.flags != Flags::default()).then_some(record.flags),
            drop_count: (record.lost_before != 0).then_some(record.lost_before.into()),
            ..self.like(record.queue_index)
        };
        match self.format {
            Format::Pcapng => packet.emit(out),
            Format::Pcap => emit_pcap(time_ns, record.frame_len, data, out),
        }
        self.scratch = scratch;
    }
}

/// The last nanosecond that the format can tell.
const PCAP_TIME_NS_MAX: u64 = u32::MAX as u64 * 1_000_000_000 + 999_999_999;

#[inline]
fn emit_pcap(time_ns: u64, frame_len: u32, data: &[u8], out: &mut Vec<u8>) {
    // A device's clock may say anything; no frame is lost for it.
    let record = pcap::Record { time_ns: time_ns.min(PCAP_TIME_NS_MAX), frame_len, data };
    pcap::Header::default().emit_record(&record, out).expect("the time is in range");
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
        Encoder::new(Format::Pcapng, Numbering::single(), 96)
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
    fn packet_ids_count_lost_frames_too() {
        let mut encoder = encoder().with_packet_ids(3);
        for (lost_before, id) in [(0, 0), (0, 1), (5, 7), (0, 8)] {
            let mut out = Vec::new();
            encoder.emit(&record(1, lost_before, &[9; 20]), 0, &mut out);
            let packet = Packet {
                time_ns: 1_000,
                frame_len: 1514,
                data: &[9; 20],
                queue: Some(1),
                flags: Some(Flags::INBOUND),
                packet_id: Some(3 << 48 | id),
                drop_count: (lost_before > 0).then_some(lost_before.into()),
                ..Packet::default()
            };
            assert_eq!(out, expected(&packet));
        }
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
}
