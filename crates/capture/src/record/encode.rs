//! Encodes records as blocks of a capture file, in the buffer of a batch.

use crate::interfaces::Numbering;
use crate::record::batch::{EncodedBatch, IndexEntry};
use crate::record::format::Format;
use crate::record::header_cut::HeaderCut;
use crate::record::ring::{RingRecord, TimeSource, VlanTag};
use crate::time::phc::{ClockLine, PhcClock};
use crate::time::utc::monotonic_now_ns;
use pcapng::{Interface, Packet, PacketFlags, Template, pcap};
use std::collections::HashMap;
use std::sync::Arc;

/// Two addresses stand before the tag of a frame.
const TAG_AT: usize = 12;
const TAG_LEN: usize = 4;

/// What becomes of the stamps of a device.
pub(crate) struct StampConversion {
    /// Its clock.
    pub(crate) clock: Arc<PhcClock>,
    /// True when the file gets them as they are.
    pub(crate) raw_phc: bool,
}

/// How the frames of one device are encoded.
pub(crate) struct DeviceEncoding {
    pub(crate) numbering: Numbering,
    pub(crate) stamps: Option<StampConversion>,
    pub(crate) header_cut: Option<HeaderCut>,
    /// One for each queue seen, by its number; for frames that came in, with nothing lost before.
    /// Those that the device stamped have their own.
    templates: [Vec<Template>; 2],
    /// Of the batch at work.
    line: ClockLine,
}

impl DeviceEncoding {
    /// Of a device that has these interfaces; `stamps` if its stamps mean something, `header_cut`
    /// to cut frames behind their last header.
    pub(crate) fn new(
        numbering: Numbering,
        stamps: Option<StampConversion>,
        header_cut: Option<HeaderCut>,
    ) -> Self {
        Self { numbering, stamps, header_cut, templates: Default::default(), line: ClockLine::default() }
    }

    fn begin_batch(&mut self) {
        if let Some(stamps) = &self.stamps {
            self.line = stamps.clock.line(monotonic_now_ns());
        }
    }
}

/// How the frames of devices of a group are encoded, by the numbers of the devices.
pub(crate) type EncodingOf = dyn FnMut(u32) -> DeviceEncoding + Send;

/// The devices of a group, of which one is at work.
struct GroupEncoding {
    /// The device whose encoding is at work; 0 before the first one.
    ifindex: u32,
    /// Those that were.
    others: HashMap<u32, DeviceEncoding>,
    encoding_of: Box<EncodingOf>,
}

/// Encodes the records of one ring. Allocates only for a device or a queue that it sees for the
/// first time.
pub(crate) struct Encoder {
    format: Format,
    /// Of the device at work.
    device: DeviceEncoding,
    group: Option<GroupEncoding>,
    /// Number of the ring in the session.
    ring: u16,
    /// Whether the file says which queue a frame came by.
    knows_queues: bool,
    /// Most bytes of a frame in the file.
    snaplen: usize,
    /// Where a tag is put back.
    scratch: Vec<u8>,
    /// The id of the next packet, when packets have ids.
    packet_id: Option<u64>,
}

impl Encoder {
    /// For one ring of a device.
    pub(crate) fn new(format: Format, device: DeviceEncoding, ring: usize, snaplen: u32) -> Self {
        Self {
            format,
            device,
            group: None,
            ring: u16::try_from(ring).expect("a capture has fewer rings"),
            knows_queues: true,
            snaplen: snaplen as usize,
            scratch: Vec::new(),
            packet_id: None,
        }
    }

    /// Encodes the records of a ring that all devices of a group share.
    pub(crate) fn with_group(self, encoding_of: Box<EncodingOf>) -> Self {
        Self { group: Some(GroupEncoding { ifindex: 0, others: HashMap::new(), encoding_of }), ..self }
    }

    /// To be called before each batch: clocks drift, and a number may have become that of another
    /// device.
    pub(crate) fn begin_batch(&mut self) {
        self.device.begin_batch();
        if let Some(group) = &mut self.group {
            group.others.clear();
            group.ifindex = 0;
        }
    }

    /// True when records may be stamped by the device.
    pub(crate) fn may_be_stamped(&self) -> bool {
        self.device.stamps.is_some() || self.group.is_some()
    }

    /// Encodes records whose queue is known or not.
    pub(crate) fn with_queues(self, knows_queues: bool) -> Self {
        Self { knows_queues, ..self }
    }

    /// Gives each packet an id: the number of the ring in the upper 16 bits, below it the number of
    /// the frame among all that the ring was offered, lost ones included.
    pub(crate) fn with_packet_ids(self) -> Self {
        Self { packet_id: Some(u64::from(self.ring) << 48), ..self }
    }

    /// Appends one record with its index entry. `utc_offset_ns` converts monotonic time to UTC.
    #[inline(always)]
    pub(crate) fn emit(&mut self, record: &RingRecord<'_>, utc_offset_ns: i64, out: &mut EncodedBatch) {
        if self.group.as_ref().is_some_and(|group| group.ifindex != record.ifindex) {
            self.turn_to(record.ifindex);
        }
        match &self.device.header_cut {
            None => self.emit_kept(record, utc_offset_ns, out),
            Some(cut) => {
                let record = RingRecord { data: cut.kept(record.data), ..*record };
                self.emit_kept(&record, utc_offset_ns, out);
            }
        }
    }

    /// The frames that follow are those of another device of the group.
    #[inline(never)]
    fn turn_to(&mut self, ifindex: u32) {
        let group = self.group.as_mut().expect("only groups have several devices");
        let next = group.others.remove(&ifindex).unwrap_or_else(|| {
            let mut next = (group.encoding_of)(ifindex);
            next.begin_batch();
            next
        });
        let before = std::mem::replace(&mut self.device, next);
        group.others.insert(std::mem::replace(&mut group.ifindex, ifindex), before);
    }

    #[inline(always)]
    fn emit_kept(&mut self, record: &RingRecord<'_>, utc_offset_ns: i64, out: &mut EncodedBatch) {
        let start = out.bytes.len();
        let (time_ns, is_stamped) = match record.time_source {
            TimeSource::Software => (record.time_ns.wrapping_add_signed(utc_offset_ns), false),
            TimeSource::TimeOfDay => (record.time_ns, false),
            TimeSource::Hardware => (self.emit_stamped(record, &mut out.bytes), true),
        };
        if !is_stamped {
            self.emit_at(record, time_ns, false, &mut out.bytes);
        }
        let interface = self.device.numbering.interface(record.queue_index, is_stamped);
        let entry = IndexEntry::new(time_ns, out.bytes.len() - start, self.ring, interface, is_stamped);
        out.push(entry.with_cut(self.is_cut(record)).with_outgoing(record.flags.is_outbound()));
    }

    /// Number of the ring in the session.
    pub(crate) fn ring(&self) -> u16 {
        self.ring
    }

    /// True if the file gets less than the whole frame.
    #[inline(always)]
    fn is_cut(&self, record: &RingRecord<'_>) -> bool {
        let tag_len = if record.vlan.is_some() { TAG_LEN } else { 0 };
        (record.data.len() + tag_len).min(self.snaplen) < record.frame_len as usize
    }

    /// A record with the device's own time; returns UTC, by which records are ordered. A call, so
    /// that the loop over all others stays short.
    #[inline(never)]
    fn emit_stamped(&mut self, record: &RingRecord<'_>, out: &mut Vec<u8>) -> u64 {
        let utc_ns = match self.device.stamps {
            Some(_) => self.device.line.utc_ns(record.time_ns),
            None => record.time_ns,
        };
        let raw_phc = self.device.stamps.as_ref().is_some_and(|stamps| stamps.raw_phc);
        self.emit_at(record, if raw_phc { record.time_ns } else { utc_ns }, true, out);
        utc_ns
    }

    #[inline(always)]
    fn emit_at(&mut self, record: &RingRecord<'_>, time_ns: u64, is_stamped: bool, out: &mut Vec<u8>) {
        let is_plain = record.lost_before == 0
            && record.flags == PacketFlags::INBOUND
            && record.vlan.is_none()
            && record.xdp_verdict.is_none();
        if !is_plain || self.packet_id.is_some() {
            return self.emit_whole(record, time_ns, is_stamped, out);
        }
        if self.format == Format::Pcap {
            return emit_pcap(time_ns, record.frame_len, record.data, out);
        }
        let queue = usize::from(record.queue_index);
        if queue >= self.device.templates[usize::from(is_stamped)].len() {
            self.add_queues(record.queue_index, is_stamped);
        }
        self.device.templates[usize::from(is_stamped)][queue].emit(
            time_ns,
            record.frame_len,
            record.data,
            out,
        );
    }

    #[cold]
    fn add_queues(&mut self, last: u16, is_stamped: bool) {
        let known = self.device.templates[usize::from(is_stamped)].len() as u32;
        for queue in known..=u32::from(last) {
            let like = Packet { flags: Some(PacketFlags::INBOUND), ..self.like(queue as u16, is_stamped) };
            let template = Template::new(&Interface::default(), &like);
            self.device.templates[usize::from(is_stamped)].push(template);
        }
    }

    /// What all packets of a queue have in common.
    fn like<'a>(&self, queue_index: u16, is_stamped: bool) -> Packet<'a> {
        let interface = self.device.numbering.interface(queue_index, is_stamped);
        let queue = self.knows_queues.then_some(queue_index.into());
        Packet { interface, queue, ..Packet::default() }
    }

    /// For frames that have more to say: went out, had a tag or a verdict, came after others were
    /// lost.
    #[cold]
    fn emit_whole(&mut self, record: &RingRecord<'_>, time_ns: u64, is_stamped: bool, out: &mut Vec<u8>) {
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
            flags: (record.flags != PacketFlags::default()).then_some(record.flags),
            drop_count: (record.lost_before != 0).then_some(record.lost_before.into()),
            xdp_verdict: record.xdp_verdict.map(u64::from),
            ..self.like(record.queue_index, is_stamped)
        };
        match self.format {
            Format::Pcapng | Format::Parquet => packet.emit(out),
            Format::Pcap => emit_pcap(time_ns, record.frame_len, data, out),
        }
        self.scratch = scratch;
    }
}

/// The last nanosecond that the format can tell.
const PCAP_TIME_NS_MAX: u64 = u32::MAX as u64 * 1_000_000_000 + 999_999_999;

/// Appends a record of a pcap file.
#[inline]
pub(crate) fn emit_pcap(time_ns: u64, frame_len: u32, data: &[u8], out: &mut Vec<u8>) {
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

    fn record(queue_index: u16, lost_before: u32, data: &[u8]) -> RingRecord<'_> {
        RingRecord {
            time_ns: 1_000,
            time_source: TimeSource::Software,
            frame_len: 1514,
            ifindex: 3,
            queue_index,
            flags: PacketFlags::INBOUND,
            vlan: None,
            xdp_verdict: None,
            lost_before,
            data,
        }
    }

    fn encoder() -> Encoder {
        Encoder::new(Format::Pcapng, DeviceEncoding::new(Numbering::single(), None, None), 0, 96)
    }

    fn encoded(record: &RingRecord<'_>, utc_offset_ns: i64) -> Vec<u8> {
        let mut out = EncodedBatch::default();
        encoder().emit(record, utc_offset_ns, &mut out);
        out.bytes
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
                flags: Some(PacketFlags::INBOUND),
                ..Packet::default()
            };
            assert_eq!(encoded(&record(queue_index, 0, data), 1_700_000_000_000_000_000), expected(&packet));
        }
    }

    /// A card that is 37 s ahead.
    struct Ahead;

    impl host::PhcRead for Ahead {
        fn read(&self) -> std::io::Result<host::PhcReading> {
            Ok(host::PhcReading { phc_ns: 137_000_000_000, utc_ns: 100_000_000_000, uncertainty_ns: 1 })
        }
    }

    #[test]
    fn stamps_of_the_device_have_an_interface_and_the_time_of_day_or_their_own() {
        let clock = Arc::new(PhcClock::new(0, Box::new(Ahead), monotonic_now_ns()).unwrap());
        let numbering = Numbering::single().with_clock();
        for (raw_phc, in_file_ns) in [(false, 101_000_000_000), (true, 138_000_000_000)] {
            let stamps = StampConversion { clock: Arc::clone(&clock), raw_phc };
            let device = DeviceEncoding::new(numbering, Some(stamps), None);
            let mut encoder = Encoder::new(Format::Pcapng, device, 0, 96);
            encoder.begin_batch();
            for lost_before in [0, 3] {
                let stamped = RingRecord {
                    time_ns: 138_000_000_000,
                    time_source: TimeSource::Hardware,
                    ..record(2, lost_before, &[7; 64])
                };
                let mut out = EncodedBatch::default();
                encoder.emit(&stamped, 55, &mut out);
                let entry = out.index[0];
                assert_eq!(
                    entry,
                    IndexEntry::new(101_000_000_000, out.bytes.len(), 0, 1, true).with_cut(true),
                    "ordered by UTC"
                );
                let packet = Packet {
                    interface: 1,
                    time_ns: in_file_ns,
                    frame_len: 1514,
                    data: &[7; 64],
                    queue: Some(2),
                    flags: Some(PacketFlags::INBOUND),
                    drop_count: (lost_before > 0).then_some(lost_before.into()),
                    ..Packet::default()
                };
                assert_eq!(out.bytes, expected(&packet));
            }
            let mut out = EncodedBatch::default();
            encoder.emit(&record(2, 0, &[7; 64]), 55, &mut out);
            assert_eq!(out.index, [IndexEntry::new(1_055, out.bytes.len(), 0, 0, false).with_cut(true)]);
            let others = Packet {
                time_ns: 1_055,
                frame_len: 1514,
                data: &[7; 64],
                queue: Some(2),
                flags: Some(PacketFlags::INBOUND),
                ..Packet::default()
            };
            assert_eq!(out.bytes, expected(&others));
        }
    }

    #[test]
    fn a_frame_is_cut_if_the_file_gets_less_than_the_wire_had() {
        let tag = VlanTag { tpid: 0x8100, tci: 5 };
        for (kept, frame_len, vlan, is_cut) in [
            (60, 60, None, false),
            (96, 97, None, true),
            (92, 96, Some(tag), false),
            (96, 100, Some(tag), true),
            (60, 65, Some(tag), true),
        ] {
            let data = vec![7; kept];
            let mut out = EncodedBatch::default();
            encoder().emit(&RingRecord { frame_len, vlan, ..record(0, 0, &data) }, 0, &mut out);
            assert_eq!(out.index[0].is_cut(), is_cut, "{kept} of {frame_len}");
        }
    }

    #[test]
    fn frames_of_a_group_have_the_interface_of_their_device() {
        let mut asked = Vec::new();
        let (sender, devices) = std::sync::mpsc::channel();
        let encoding_of = move |ifindex: u32| {
            sender.send(ifindex).unwrap();
            DeviceEncoding::new(Numbering::of_one(ifindex * 10), None, None)
        };
        let mut encoder = encoder().with_group(Box::new(encoding_of));
        let mut out = EncodedBatch::default();
        encoder.begin_batch();
        for ifindex in [3, 3, 7, 3, 7, 7] {
            encoder.emit(&RingRecord { ifindex, ..record(0, 0, &[7; 64]) }, 0, &mut out);
        }
        let interfaces: Vec<usize> = out.index.iter().map(|entry| entry.interface()).collect();
        assert_eq!(interfaces, [30, 30, 70, 30, 70, 70]);
        asked.extend(devices.try_iter());
        assert_eq!(asked, [3, 7], "once in a batch");
        encoder.begin_batch();
        encoder.emit(&RingRecord { ifindex: 7, ..record(0, 0, &[7; 64]) }, 0, &mut out);
        assert_eq!(devices.try_iter().collect::<Vec<_>>(), [7], "the number may be another device's");
    }

    #[test]
    fn hardware_time_is_not_moved() {
        let hardware = RingRecord { time_source: TimeSource::Hardware, ..record(0, 0, &[7; 64]) };
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
            flags: Some(PacketFlags::INBOUND),
            drop_count: Some(77),
            ..Packet::default()
        };
        assert_eq!(encoded(&record(1, 77, &[9; 20]), 0), expected(&packet));
    }

    #[test]
    fn packet_ids_count_lost_frames_too() {
        let device = DeviceEncoding::new(Numbering::single(), None, None);
        let mut encoder = Encoder::new(Format::Pcapng, device, 3, 96).with_packet_ids();
        for (lost_before, id) in [(0, 0), (0, 1), (5, 7), (0, 8)] {
            let mut out = EncodedBatch::default();
            encoder.emit(&record(1, lost_before, &[9; 20]), 0, &mut out);
            let packet = Packet {
                time_ns: 1_000,
                frame_len: 1514,
                data: &[9; 20],
                queue: Some(1),
                flags: Some(PacketFlags::INBOUND),
                packet_id: Some(3 << 48 | id),
                drop_count: (lost_before > 0).then_some(lost_before.into()),
                ..Packet::default()
            };
            assert_eq!(out.bytes, expected(&packet));
        }
    }

    #[test]
    fn frames_that_went_out_say_so_and_unknown_ones_say_nothing() {
        for (flags, told) in
            [(PacketFlags::OUTBOUND, Some(PacketFlags::OUTBOUND)), (PacketFlags::default(), None)]
        {
            let packet = Packet {
                time_ns: 1_000,
                frame_len: 1514,
                data: &[9; 20],
                queue: Some(1),
                flags: told,
                ..Packet::default()
            };
            assert_eq!(encoded(&RingRecord { flags, ..record(1, 0, &[9; 20]) }, 0), expected(&packet));
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
