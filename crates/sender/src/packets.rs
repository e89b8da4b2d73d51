//! Packets in trafgen's language as the frames of a run.

use super::capture_frames::CaptureFiles;
use super::layers::{FrameTail, tail};
use super::packet_sizes::PacketSizes;
use frames::{DeviceAddresses, FrameSpec, PacketOrder, ParseSettings};
use measure::STREAMS_MAX;
use packet::plan::{ChecksumField, Field, FrameMark, MARK_LEN, MarkCount};
use packet::{Config, Cursor, DeviceFacts, Plan, Rng, SignatureLevel, SignatureSetting, XmitMode};
use program::outcome::Failure;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Bytes of an Ethernet header: no device sends less.
const FRAME_LEN_MIN: usize = 14;
/// Bytes of the frames of all lengths together.
const BYTES_MAX: usize = 256 << 20;
/// Bytes of a MAC address.
const MAC_LEN: usize = 6;
/// Bytes of a VLAN tag.
const TAG_LEN: usize = 4;

/// Flows that a mark can name.
const FLOWS_MAX: usize = 1 << 16;
/// Largest offset in a frame at which receivers look for a signature and for the announced end of a
/// run. Offsets are even.
const FRONT_AT_MAX: usize = 252;

/// The packets that a run sends.
#[derive(Clone, Debug)]
pub struct Packets {
    /// All packets, once for each frame length; there is at least one length.
    lengths: Vec<Vec<FrameSpec>>,
    order: PacketOrder,
    marking: Option<Marking>,
    /// Per packet, the first byte of its mark in frames of the first length, or why it has none.
    marks: Vec<Result<usize, Unmarked>>,
}

/// How packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// With what.
    pub kind: MarkKind,
    /// Which packets.
    pub wanted: MarkWanted,
    /// The first flow.
    pub flow_first: u16,
    /// The run.
    pub run: u16,
    /// Frames carry their time.
    pub has_time: bool,
    /// Threads that send the packets.
    pub thread_count: usize,
    /// All packets of a thread are one flow; else each packet is one.
    pub is_one_flow: bool,
}

/// What tells a receiver the number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// A mark, which is the last bytes of the frame.
    Mark,
    /// A signature, at the first even offset behind the headers.
    Signature(SignatureLevel),
}

impl MarkKind {
    fn byte_count(self) -> usize {
        match self {
            Self::Mark => MARK_LEN,
            Self::Signature(level) => level.byte_count(),
        }
    }

    /// Its place in a frame of `len` bytes with headers up to `start`.
    ///
    /// # Errors
    /// Why it has none.
    fn place(self, start: usize, len: usize) -> Result<Range<usize>, Unmarked> {
        let takes = self.byte_count();
        let at = match self {
            Self::Mark => len.saturating_sub(takes),
            Self::Signature(_) => start.next_multiple_of(2),
        };
        match () {
            () if at < start || at + takes > len => {
                let needed = takes + if self == Self::Mark { start } else { at };
                Err(Unmarked::Short { kind: self, free: len - start, missing: needed - len, needed })
            }
            () if self != Self::Mark && at > FRONT_AT_MAX => Err(Unmarked::Behind { at }),
            () => Ok(at..at + takes),
        }
    }
}

/// Which packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkWanted {
    /// IP and ARP packets whose last bytes are zeros: what the user gave stays.
    OverZeros,
    /// All that have bytes enough behind their headers.
    Always,
}

/// Why a packet has no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmarked {
    /// Too few bytes are behind its headers.
    Short {
        /// What needs them.
        kind: MarkKind,
        /// Bytes behind its headers.
        free: usize,
        /// Bytes that are missing.
        missing: usize,
        /// The shortest frame that has space for it.
        needed: usize,
    },
    /// A receiver does not look for a signature so far behind.
    Behind {
        /// First byte behind the headers.
        at: usize,
    },
    /// Its last 18 bytes are not all zero, or change.
    InUse,
    /// No known protocol.
    Unknown,
}

impl fmt::Display for Unmarked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { kind, free, needed, .. } => {
                let what = if *kind == MarkKind::Mark { "mark" } else { "signature" };
                write!(
                    f,
                    "a {what} takes {} bytes behind the headers, and there are {free}; frames of {needed} bytes have them",
                    kind.byte_count()
                )
            }
            Self::Behind { at } => write!(
                f,
                "its headers end at byte {at}, and receivers look for a signature up to byte {FRONT_AT_MAX}"
            ),
            Self::InUse => {
                write!(f, "its last {MARK_LEN} bytes are not zeros (--signature mark overwrites them)")
            }
            Self::Unknown => write!(f, "its protocol is not known (--signature mark marks it)"),
        }
    }
}

/// Source addresses that a packet does not give.
pub fn addresses(facts: &DeviceFacts) -> DeviceAddresses {
    DeviceAddresses {
        mac: facts.mac,
        ipv4: facts.v4.unwrap_or(Ipv4Addr::UNSPECIFIED),
        ipv6: facts.v6_link_local.unwrap_or(Ipv6Addr::UNSPECIFIED),
    }
}

impl Packets {
    /// The packets of a text for a device with these `facts`, in these `sizes`. Errors call the
    /// text `name`.
    ///
    /// # Errors
    /// Bad usage with the position of the error, or for a length that is too short for a packet.
    pub fn parse(
        text: &str,
        name: &str,
        (facts, seed): (&DeviceFacts, u64),
        sizes: &PacketSizes,
    ) -> Result<Self, Failure> {
        let mut captures = CaptureFiles::default();
        let parse = |frame_len_min: usize| {
            let device = addresses(facts);
            let settings = ParseSettings { seed, device, is_for_device: true, frame_len_min };
            let specs = frames::parse(text.as_bytes(), &settings, &mut captures);
            match specs {
                Ok(specs) if specs.is_empty() => {
                    Err(Failure::usage(format_args!("read {name}"), "it has no packets: expected { ... }"))
                }
                Ok(specs) => Ok(specs),
                Err(error) => Err(Failure::usage_text(format!("wirerate: cannot read {name}: {error}\n"))),
            }
        };
        Self::of_sizes(parse, sizes)
    }

    /// The packets that `make` makes in these `sizes`: it gets the least frame length.
    ///
    /// # Errors
    /// Those of `make`, and bad usage for a length that is too short for a packet.
    pub(super) fn of_sizes(
        mut make: impl FnMut(usize) -> Result<Vec<FrameSpec>, Failure>,
        sizes: &PacketSizes,
    ) -> Result<Self, Failure> {
        let specs = make(0)?;
        let longest = specs.iter().map(|spec| spec.template.len()).max();
        if let Some((least, longest)) = sizes.least().zip(longest).filter(|(least, longest)| least < longest)
        {
            let why = format!("headers and payload have {longest} bytes");
            return Err(Failure::usage(format!("use a frame length of {least}"), why)
                .try_this(format!("--size {longest}")));
        }
        if sizes.lens.is_empty() {
            return Self::new(specs, sizes.order);
        }
        let bytes = sizes.lens.iter().sum::<usize>().saturating_mul(specs.len());
        if bytes > BYTES_MAX {
            let why = format!("they have {bytes} bytes together, more than {BYTES_MAX}");
            return Err(Failure::usage("prepare a frame of each length", why).try_this("--size 60-1514"));
        }
        let mut lengths: Vec<Vec<FrameSpec>> = Vec::new();
        for (index, len) in sizes.lens.iter().enumerate() {
            // The parts of a mix that have the same length follow each other.
            let again = index.checked_sub(1).filter(|before| sizes.lens[*before] == *len);
            let specs = again.map_or_else(|| make(*len), |before| Ok(lengths[before].clone()))?;
            lengths.push(specs);
        }
        Self::of_lengths(lengths, sizes.order)
    }

    /// The settings of a run of these packets.
    pub fn config(&self, count: u64, xmit_mode: XmitMode, seed: u64) -> Config {
        let frame_len = self.mean_len() as u32;
        Config {
            count,
            min_pkt_size: frame_len,
            max_pkt_size: frame_len,
            seed: Some(seed),
            signature: self.signature(0, self.lengths[0].len()),
            xmit_mode,
            ..Config::default()
        }
    }

    /// Packets for a device.
    ///
    /// # Errors
    /// Bad usage for a packet without an Ethernet header.
    pub fn new(specs: Vec<FrameSpec>, order: PacketOrder) -> Result<Self, Failure> {
        Self::of_lengths(vec![specs], order)
    }

    fn of_lengths(lengths: Vec<Vec<FrameSpec>>, order: PacketOrder) -> Result<Self, Failure> {
        let numbered = lengths.iter().flat_map(|specs| (1..).zip(specs));
        let mut lens = numbered.map(|(number, spec)| (number, spec.template.len()));
        match lens.find(|(_, len): &(u32, usize)| *len < FRAME_LEN_MIN) {
            None => Ok(Self { lengths, order, marking: None, marks: Vec::new() }),
            Some((number, len)) => {
                let act = format!("send packet {number} of {len} bytes");
                Err(Failure::usage(act, format!("a frame has at least {FRAME_LEN_MIN} bytes"))
                    .try_this("`wirerate trafgen ... -o FILE.pcap` to write it to a file"))
            }
        }
    }

    /// The number of the first packet whose destination MAC is always zero, from 1.
    pub fn without_destination(&self) -> Option<usize> {
        let is_zero = |spec: &FrameSpec| {
            let is_changed = spec.fields.iter().any(|field| field.offset < MAC_LEN);
            !is_changed && spec.template[..MAC_LEN] == [0; MAC_LEN]
        };
        self.lengths[0].iter().position(is_zero).map(|index| index + 1)
    }

    /// Mean frame length, in bytes without FCS.
    pub fn mean_len(&self) -> usize {
        let lens = || self.lengths.iter().flatten().map(|spec| spec.template.len());
        lens().sum::<usize>() / lens().count().max(1)
    }

    /// The length of all frames, in bytes without FCS; `None` if they differ.
    pub fn only_len(&self) -> Option<u32> {
        let len = self.len_max();
        let is_only = self.lengths.iter().flatten().all(|spec| spec.template.len() == len);
        is_only.then_some(len as u32)
    }

    /// Longest frame, in bytes without FCS.
    pub fn len_max(&self) -> usize {
        self.lengths.iter().flatten().map(|spec| spec.template.len()).max().unwrap_or(0)
    }

    /// The frame that goes furthest beyond the MTU: its length without FCS, and the bytes of its
    /// VLAN tags.
    pub fn longest(&self) -> (u32, u32) {
        let measured = |spec: &FrameSpec| {
            let types = spec.template.get(2 * MAC_LEN..).unwrap_or_default().chunks_exact(TAG_LEN);
            let is_tag = |tag: &&[u8]| matches!(tag[..2], [0x81, 0] | [0x88, 0xa8]);
            let tags_len = types.take_while(is_tag).count() * TAG_LEN;
            (spec.template.len() as u32, tags_len as u32)
        };
        let all = self.lengths.iter().flatten().map(measured);
        all.max_by_key(|(len, tags_len)| len - tags_len).unwrap_or_default()
    }

    /// The packets that thread `index` of a run sends; `None` if `cpu()` leaves it none.
    pub fn of_thread(&self, index: u32) -> Option<Plan> {
        let is_its_own = |spec: &&FrameSpec| spec.cpus.as_ref().is_none_or(|cpus| cpus.contains(&index));
        let specs: Vec<FrameSpec> = self
            .lengths
            .iter()
            .flat_map(|specs| specs.iter().enumerate().filter(|(_, spec)| is_its_own(spec)))
            .map(|(packet, spec)| self.marked(packet, index as usize, spec.clone()))
            .collect();
        let packet_count = specs.len() / self.lengths.len();
        (!specs.is_empty()).then(|| {
            let mut plan = Plan::of_packet_lengths(&specs, packet_count, self.order);
            plan.signature = self.signature(index as usize, packet_count);
            plan
        })
    }

    /// Gives the packets a mark or signature.
    pub fn mark(&mut self, marking: Marking) {
        self.marking = Some(marking);
        self.marks = (0..self.lengths[0].len()).map(|packet| self.prepare(packet, &marking)).collect();
    }

    /// Prepares all lengths of a packet for a mark, or none. Returns its first byte in frames of
    /// the first length.
    fn prepare(&mut self, packet: usize, marking: &Marking) -> Result<usize, Unmarked> {
        let lengths = self.lengths.iter().map(|specs| prepare_mark(specs[packet].clone(), marking));
        let prepared: Vec<(FrameSpec, Range<usize>)> = lengths.collect::<Result<_, _>>()?;
        let fields = |(spec, place): &(FrameSpec, Range<usize>)| kept_fields(spec, place).count();
        if prepared.iter().any(|one| fields(one) != fields(&prepared[0])) {
            // All lengths of a packet have the same fields.
            return Err(Unmarked::InUse);
        }
        let at = prepared[0].1.start;
        self.lengths.iter_mut().zip(prepared).for_each(|(specs, (spec, _))| specs[packet] = spec);
        Ok(at)
    }

    /// The first packet without a mark, from 1, and why it has none. `None` if all have one.
    pub fn unmarked(&self) -> Option<(usize, Unmarked)> {
        let mut marks = (1..).zip(&self.marks);
        marks.find_map(|(number, mark)| mark.err().map(|reason| (number, reason)))
    }

    /// What a report says about marks.
    pub fn notes(&self) -> Vec<String> {
        let unmarked = self.marks.iter().filter(|mark| mark.is_err()).count();
        let Some((number, why)) = self.unmarked() else { return Vec::new() };
        let which = match (self.lengths[0].len(), unmarked) {
            (1, _) => "the frames are not marked for `wirerate receive`".to_owned(),
            (_, 1) => format!("packet {number} is not marked for `wirerate receive`"),
            (_, count) => {
                format!("{count} packets are not marked for `wirerate receive`, packet {number} first")
            }
        };
        vec![format!("{which}: {why}")]
    }

    /// Flows that marks name, of all threads.
    pub fn flow_count(&self) -> u32 {
        let flows = |marking: Marking| self.flows_per_thread(&marking) * marking.thread_count;
        self.marking.map_or(0, |marking| flows(marking) as u32)
    }

    /// Flows of each thread: its packets, unless they are one flow.
    fn flows_per_thread(&self, marking: &Marking) -> usize {
        let flows = self.lengths[0].len();
        let is_too_many = flows * marking.thread_count + usize::from(marking.flow_first) > FLOWS_MAX;
        // The flow in a signature is that of a packet only if packets come in turn.
        let is_random = marking.kind != MarkKind::Mark && self.order != PacketOrder::RoundRobin;
        if marking.is_one_flow || is_too_many || is_random { 1 } else { flows }
    }

    /// The signature of a thread that sends `packet_count` packets; that of no frame without one.
    fn signature(&self, thread: usize, packet_count: usize) -> SignatureSetting {
        let Some(Marking { kind: MarkKind::Signature(level), flow_first, run, .. }) = self.marking else {
            return SignatureSetting::default();
        };
        let flows = self.marking.map_or(1, |marking| self.flows_per_thread(&marking));
        SignatureSetting {
            level,
            stream: (thread % STREAMS_MAX) as u8,
            flow_count: flows.min(packet_count) as u32,
            flow_len: 1,
            flow_first: u32::from(flow_first) + (thread * flows) as u32,
            run,
        }
    }

    /// The packet with its mark for a thread, if it has one.
    fn marked(&self, packet: usize, thread: usize, mut spec: FrameSpec) -> FrameSpec {
        let (Some(marking), Some(Ok(at))) = (self.marking, self.marks.get(packet)) else { return spec };
        let Marking { kind, flow_first, run, has_time, .. } = marking;
        if kind != MarkKind::Mark {
            self.signature(thread, 1).add(*at, has_time, &mut spec);
            return spec;
        }
        let flows = self.flows_per_thread(&marking);
        let (flow, counts) = match flows {
            1 => (thread, MarkCount::Run),
            _ => (thread * flows + packet, MarkCount::Packet),
        };
        let flow = flow_first.wrapping_add(flow as u16);
        FrameMark { flow, run, has_time, counts }.add(spec.template.len(), &mut spec);
        spec
    }

    /// A frame like the first one with a mark, which announces the end of the run: `payload` stands
    /// behind its headers. `None` if no packet is marked.
    pub fn end_frame(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let packet = self.marks.iter().position(Result::is_ok)?;
        let spec = &self.lengths[0][packet];
        let mut frame = first_frame(spec);
        let start = free_bytes(spec, &tail(&frame)).next_multiple_of(2);
        if start > FRONT_AT_MAX {
            return None;
        }
        let place = self.marking?.kind.place(start, frame.len()).ok()?;
        frame[place].fill(0);
        frame.get_mut(start..start + payload.len())?.copy_from_slice(payload);
        spec.checksums.iter().for_each(|checksum| checksum.write(&mut frame));
        Some(frame)
    }
}

/// The first frame of a packet.
fn first_frame(spec: &FrameSpec) -> Vec<u8> {
    let plan = Plan::of_specs(std::slice::from_ref(spec), PacketOrder::RoundRobin);
    let mut frame = vec![0; plan.frame_len_max() as usize];
    plan.emit(&mut Cursor { rng: Rng(1), ..plan.start() }, 0, &mut frame);
    frame
}

/// The first byte of a packet that no header has.
fn free_bytes(spec: &FrameSpec, tail: &FrameTail) -> usize {
    tail.bytes.start.max(spec.payload_at).min(spec.template.len())
}

/// Prepares a packet for a mark, and says where it is: all checksums that cover it are those of the
/// packet.
fn prepare_mark(mut spec: FrameSpec, marking: &Marking) -> Result<(FrameSpec, Range<usize>), Unmarked> {
    let tail = tail(&first_frame(&spec));
    let place = marking.kind.place(free_bytes(&spec, &tail), spec.template.len())?;
    let is_moved = spec.fields.iter().any(|field| field.offset + field.width > place.start);
    match marking.wanted {
        MarkWanted::OverZeros if !tail.is_known => return Err(Unmarked::Unknown),
        MarkWanted::OverZeros if is_moved || spec.template[place.clone()].iter().any(|byte| *byte != 0) => {
            return Err(Unmarked::InUse);
        }
        _ => {}
    }
    // Bytes that the user gave may be a header with its checksum.
    let is_new = |sum: &ChecksumField| spec.checksums.iter().all(|known| known.offset != sum.offset);
    let is_given = |sum: &ChecksumField| is_new(sum) && !is_moved_by(&spec, &place, sum);
    let given: Vec<ChecksumField> = tail.checksums.into_iter().filter(is_given).collect();
    spec.checksums.splice(0..0, given);
    Ok((spec, place))
}

/// The fields that are not in the place of the mark alone.
fn kept_fields<'a>(spec: &'a FrameSpec, place: &Range<usize>) -> impl Iterator<Item = &'a Field> {
    let place = place.clone();
    let is_covered =
        move |field: &&Field| place.start <= field.offset && field.offset + field.width <= place.end;
    spec.fields.iter().filter(move |field| !is_covered(field))
}

/// True if fields of the packet change what a checksum covers.
fn is_moved_by(spec: &FrameSpec, place: &Range<usize>, sum: &ChecksumField) -> bool {
    let [src, dst] = sum.pseudo_header.addresses();
    kept_fields(spec, place).any(|field| {
        let end = field.offset + field.width;
        [sum.start..sum.end, src.clone(), dst.clone()]
            .into_iter()
            .any(|range| field.offset < range.end && range.start < end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(text: &str) -> Result<Packets, Failure> {
        let specs =
            frames::parse(text.as_bytes(), &frames::ParseSettings::default(), &mut frames::NoCaptures);
        Packets::new(specs.expect("a good configuration"), PacketOrder::RoundRobin)
    }

    #[test]
    fn each_thread_has_the_packets_of_its_cpu() {
        let packets = packets("cpu(0): { fill(1, 20) } cpu(1-2): { fill(2, 40) }").unwrap();
        let lens = [0, 1, 2, 3].map(|index| packets.of_thread(index).map(|plan| plan.frame_len_max()));
        assert_eq!(lens, [Some(20), Some(40), Some(40), None]);
        assert_eq!(packets.mean_len(), 30);
    }

    fn marking(wanted: MarkWanted) -> Marking {
        Marking {
            kind: MarkKind::Mark,
            wanted,
            flow_first: 3,
            run: 7,
            has_time: true,
            thread_count: 2,
            is_one_flow: false,
        }
    }

    fn marked(text: &str, wanted: MarkWanted) -> Packets {
        let mut packets = packets(text).expect("frames");
        packets.mark(marking(wanted));
        packets
    }

    /// The first `count` frames of a thread.
    fn frames_of(packets: &Packets, thread: u32, count: usize) -> Vec<Vec<u8>> {
        let plan = packets.of_thread(thread).expect("packets for the thread");
        let mut cursor = Cursor { rng: Rng(1), ..plan.start() };
        let next = |_| {
            let mut frame = vec![0; plan.frame_len_max() as usize];
            let len = plan.emit(&mut cursor, 5, &mut frame);
            frame.truncate(len);
            frame
        };
        (0..count).map(next).collect()
    }

    fn mark_of(frame: &[u8]) -> (u16, u16, u32, u64) {
        let mark = measure::Mark::parse(&frame[frame.len() - MARK_LEN..]).expect("a mark");
        (mark.flow, mark.run, mark.seq_num, mark.time_ns)
    }

    fn has_right_checksums(frame: &[u8]) -> bool {
        !crate::raw_frame::RawFrame::new(1, 0, frame).to_string().contains("WRONG")
    }

    #[test]
    fn each_packet_of_each_thread_is_a_flow_with_numbers_of_its_own() {
        let text = "{ ipv4(da=10.0.0.2) udp(sp=dinc()) fill(0, 18) } { ipv4() tcp(syn) fill(0, 40) }";
        let packets = marked(text, MarkWanted::OverZeros);
        assert_eq!((packets.unmarked(), packets.flow_count()), (None, 4));
        let marks: Vec<_> = frames_of(&packets, 1, 4).iter().map(|frame| mark_of(frame)).collect();
        assert_eq!(marks, [(5, 7, 0, 5), (6, 7, 0, 5), (5, 7, 1, 5), (6, 7, 1, 5)]);
        let mut one = packets.clone();
        one.mark(Marking { is_one_flow: true, ..marking(MarkWanted::OverZeros) });
        assert_eq!(one.flow_count(), 2);
        let marks: Vec<_> = frames_of(&one, 1, 3).iter().map(|frame| mark_of(frame)).collect();
        assert_eq!(marks, [(4, 7, 0, 5), (4, 7, 1, 5), (4, 7, 2, 5)]);
    }

    #[test]
    fn checksums_cover_the_mark() {
        for text in [
            "{ ipv4(sa=10.0.0.1) udp() fill(0, 18) }",
            "{ ipv4(sa=drnd()) tcp(syn) fill(0, 33) }",
            "{ ipv4() icmp4(echorequest, seq=dinc()) fill(0, 24) }",
            "{ ipv4() sctp(sp=9) fill(0, 24) }",
            "{ vxlan(vni=3) eth() ipv4(sa=10.0.0.1) udp(sp=1) fill(0, 18) }",
            "{ eth(type=0x86dd) ipv6(sa=fd00::1) icmp6(echorequest) fill(0, 30) }",
        ] {
            let frames = frames_of(&marked(text, MarkWanted::OverZeros), 0, 3);
            assert!(frames.iter().all(|frame| has_right_checksums(frame)), "{text}");
            assert_eq!(mark_of(&frames[2]), (3, 7, 2, 5), "{text}");
            // The same frame as plain bytes, of which no description names the checksums.
            let packets = packets(text).expect("a packet");
            let bytes: String =
                frames_of(&packets, 0, 1)[0].iter().map(|byte| format!("{byte:02x}")).collect();
            let frames = frames_of(&marked(&format!("{{ hex(\"{bytes}\") }}"), MarkWanted::OverZeros), 0, 3);
            assert!(frames.iter().all(|frame| has_right_checksums(frame)), "{bytes}");
            assert_eq!(mark_of(&frames[2]), (3, 7, 2, 5), "{bytes}");
        }
    }

    #[test]
    fn what_the_user_gave_is_overwritten_on_request_only() {
        let short = |free| Unmarked::Short { kind: MarkKind::Mark, free, missing: 18 - free, needed: 72 };
        for (text, reason, is_always) in [
            ("{ ipv4() tcp(syn) fill(0, 6) }", short(6), false),
            ("{ ipv4() udp() fill(0, 17) 1 }", Unmarked::InUse, true),
            ("{ ipv4() udp() drnd(30) }", Unmarked::InUse, true),
            ("{ eth(type=0x8809) fill(0, 50) }", Unmarked::Unknown, true),
            ("{ eth() ipv6() fill(0, 3) }", short(3), false),
        ] {
            assert_eq!(marked(text, MarkWanted::OverZeros).unmarked(), Some((1, reason)), "{text}");
            let always = marked(text, MarkWanted::Always);
            assert_eq!(always.unmarked().is_none(), is_always, "{text}");
            if is_always {
                let frames = frames_of(&always, 0, 2);
                assert_eq!(mark_of(&frames[1]), (3, 7, 1, 5), "{text}");
                assert!(has_right_checksums(&frames[1]), "{text}");
            }
        }
        let unmarked = frames_of(&marked("{ ipv4() tcp(syn) }", MarkWanted::Always), 0, 1);
        assert_eq!(unmarked, frames_of(&packets("{ ipv4() tcp(syn) }").expect("a packet"), 0, 1));
    }

    fn signed(text: &str, level: SignatureLevel) -> Packets {
        let mut packets = packets(text).expect("frames");
        packets.mark(Marking { kind: MarkKind::Signature(level), ..marking(MarkWanted::Always) });
        packets
    }

    /// Number, flow, number in the flow and run.
    fn signature_of(frame: &[u8]) -> (u32, Option<(u32, u64, u16)>) {
        let signature = measure::find_signature(frame).expect("a signature");
        (signature.seq_num, signature.full.map(|full| (full.flow, full.number, full.run)))
    }

    /// Whatever the headers are, and also where the user's bytes or fields are.
    #[test]
    fn a_signature_stands_behind_any_headers() {
        for text in [
            "{ ipv4(sa=drnd()) tcp(syn) fill(7, 32) }",
            "{ ipv4() udp(csum=0) drnd(60) }",
            "{ ipv4() icmp4(echorequest, seq=dinc()) fill(0, 40) }",
            "{ ipv4() sctp(sp=9) fill(0, 32) }",
            "{ vxlan(vni=3) eth() ipv4(sa=10.0.0.1) udp(sp=dinc()) fill(0, 32) }",
            "{ eth(type=0x86dd) ipv6(sa=fd00::1) icmp6(echorequest) fill(0, 40) }",
            "{ eth() arp(request) fill(0, 32) }",
            "{ eth(type=0x88b5) fill(1, 70) }",
        ] {
            for level in [SignatureLevel::Pktgen, SignatureLevel::Short, SignatureLevel::Full] {
                let packets = signed(text, level);
                assert_eq!((packets.unmarked(), packets.flow_count()), (None, 2), "{text}");
                let frames = frames_of(&packets, 1, 3);
                assert!(frames.iter().all(|frame| has_right_checksums(frame)), "{text}");
                let full = (level == SignatureLevel::Full).then_some((4, 2, 7));
                assert_eq!(signature_of(&frames[2]), (3, full), "{text}");
                let shown = crate::raw_frame::RawFrame::new(1, 0, &frames[2]).to_string();
                assert!(shown.contains("\n  pktgen    seq 3  time "), "{shown}");
            }
        }
        let kind = MarkKind::Signature(SignatureLevel::Full);
        let labels = "mpls(label=16)".repeat(60);
        for (text, reason) in [
            (
                "{ ipv4() tcp(syn) fill(0, 31) }".to_owned(),
                Unmarked::Short { kind, free: 31, missing: 1, needed: 86 },
            ),
            (format!("{{ eth() {labels} fill(0, 99) }}"), Unmarked::Behind { at: 254 }),
        ] {
            assert_eq!(signed(&text, SignatureLevel::Full).unmarked(), Some((1, reason)), "{text}");
        }
    }

    #[test]
    fn packets_with_signatures_are_flows_in_turn() {
        let text = "{ ipv4() tcp(syn) fill(0, 32) } { ipv4() udp() fill(0, 40) }";
        let packets = signed(text, SignatureLevel::Full);
        assert_eq!(packets.flow_count(), 4);
        let flows: Vec<_> = frames_of(&packets, 1, 4).iter().map(|frame| signature_of(frame).1).collect();
        assert_eq!(flows, [(5, 0, 7), (6, 0, 7), (5, 1, 7), (6, 1, 7)].map(Some));
    }

    #[test]
    fn an_end_is_announced_behind_the_headers() {
        let end = measure::AnnouncedEnd { run: Some(7), sent: 1234 };
        let full = signed("{ ipv4() tcp(syn) fill(0, 32) }", SignatureLevel::Full);
        let texts =
            ["{ ipv4() udp() fill(0, 18) }", "{ ipv4() udp() fill(0, 100) }", "{ ipv4() tcp() fill(0, 19) }"];
        for (text, packets) in texts
            .map(|text| (text, marked(text, MarkWanted::Always)))
            .into_iter()
            .chain([("a signature", full)])
        {
            let frame = packets.end_frame(&end.emit()).expect("an end frame");
            let mut meter = measure::Meter::new(measure::MeterOptions::default());
            meter.receive(&frame, measure::Arrival::default());
            assert_eq!((meter.announced(), meter.totals().frames), (Some(1234), 0), "{text}");
            assert!(has_right_checksums(&frame), "{text}");
        }
    }

    #[test]
    fn each_packet_counts_its_own_frames_in_all_lengths() {
        let text =
            "cpu(0-1): { fill(0, 12), 8, 0, dinc(1, 9) } cpu(0): { fill(0, 12), 8, 0, dinc(101, 109) }";
        let sizes = PacketSizes { lens: vec![20, 30, 40], order: PacketOrder::RoundRobin };
        let packets = Packets::parse(text, "it", (&DeviceFacts::default(), 0), &sizes).unwrap();
        let frames = |thread: u32| {
            let plan = packets.of_thread(thread).unwrap();
            let (mut cursor, mut out) = (plan.start(), vec![0; plan.frame_len_max() as usize]);
            let mut next = || (plan.emit(&mut cursor, 0, &mut out), out[14]);
            (0..8).map(|_| next()).collect::<Vec<_>>()
        };
        let both = [(20, 2), (20, 102), (30, 3), (30, 103), (40, 4), (40, 104), (20, 5), (20, 105)];
        assert_eq!(frames(0), both);
        assert_eq!(frames(1)[..4], [(20, 2), (30, 3), (40, 4), (20, 5)]);
    }

    #[test]
    fn a_packet_without_an_ethernet_header_is_not_sent() {
        let refusal = packets("{ fill(1, 14) } { fill(1, 13) }").unwrap_err().to_string();
        assert!(refusal.starts_with("wirerate: cannot send packet 2 of 13 bytes"), "{refusal}");
    }
}
