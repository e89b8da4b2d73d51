//! What a run of `send` is to do, as values.

use super::workers::StartedRuns;
use engine::{CatchUp, EngineKind, Ramp, SendFcs};
use host::StartTime;
use packet::{Arrivals, MacAddr, SignatureLevel, XmitMode};
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use units::{
    Addresses, Count, CpuSequence, FrameRate, Interval, Labels, List, Mix, Nanos, Queues, VlanId,
    VlanPriority, VlanType, WireRate,
};

/// A field that can be random instead of incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomField {
    /// Destination address.
    Dst,
    /// Source address.
    Src,
    /// UDP or TCP destination port.
    UdpDst,
    /// UDP or TCP source port.
    UdpSrc,
    /// Frame length.
    Size,
    /// Destination MAC.
    DstMac,
    /// Source MAC.
    SrcMac,
    /// VLAN id, from 0 to 4095.
    Vlan,
    /// Outer VLAN id, from 0 to 4095.
    Svlan,
    /// MPLS labels, with their class and time to live.
    Mpls,
    /// Transmit queue.
    Queue,
    /// The flow of each frame.
    Flow,
    /// Destination address in a tunnel.
    InnerDst,
    /// Source address in a tunnel.
    InnerSrc,
}

/// An ICMP or ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// Echo request, as from ping.
    Echo,
    /// Echo reply.
    Reply,
}

/// A payload as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadText {
    /// Text.
    Text(String),
    /// `0x` and digits.
    Bytes(Vec<u8>),
    /// `@` and the name of a file.
    File(PathBuf),
}

impl FromStr for PayloadText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix('@') {
            return Ok(Self::File(path.into()));
        }
        let Some(digits) = text.strip_prefix("0x") else { return Ok(Self::Text(text.to_owned())) };
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let is_hex = digits.len().is_multiple_of(2) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bytes =
            is_hex.then(|| digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()).flatten();
        bytes.map(Self::Bytes).ok_or_else(|| "expected pairs of hexadecimal digits after 0x".to_owned())
    }
}

/// How much of the signature each frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureName {
    /// No signature: the payload is zeros.
    None,
    /// pktgen's header, 16 bytes: number and time in microseconds.
    Pktgen,
    /// 18 bytes: pktgen's header, nanoseconds and the sending thread.
    Short,
    /// 32 bytes: as `short`, and the flow, the number in the flow and the run.
    Full,
    /// 18 bytes at the end of frames that are not pktgen's: flow, run, number and time.
    Mark,
}

impl SignatureName {
    /// What stands at the start of the payload; `None` for a mark, which is at its end.
    pub fn level(self) -> Option<SignatureLevel> {
        match self {
            Self::None => Some(SignatureLevel::None),
            Self::Pktgen => Some(SignatureLevel::Pktgen),
            Self::Short => Some(SignatureLevel::Short),
            Self::Full => Some(SignatureLevel::Full),
            Self::Mark => None,
        }
    }
}

/// What a run sends, how fast and how long, and what it shows. The default is a run without
/// options.
#[derive(Clone, Debug, Default)]
pub struct SendJob {
    /// The runs, for a command that sends as a part of its work.
    pub started: StartedRuns,
    /// The device to send on.
    pub device: String,
    /// Destination MAC addresses; without them that of the next hop.
    pub dst_mac: Option<Interval<MacAddr>>,
    /// Source MAC addresses; without them the device's own.
    pub src_mac: Option<Interval<MacAddr>>,
    /// Destination addresses; without them 198.18.0.1.
    pub dst: Option<Addresses>,
    /// Source addresses; without them the device's own, link-local for IPv6.
    pub src: Option<Addresses>,
    /// UDP or TCP destination ports; without them 9.
    pub udp_dst: Option<Interval<u16>>,
    /// UDP or TCP source ports; without them 9.
    pub udp_src: Option<Interval<u16>>,
    /// Frame lengths in bytes without FCS; without them 60, or 78 for IPv6.
    pub size: Option<Interval<u32>>,
    /// A mix of frame lengths in bytes without FCS, with the weight of each.
    pub mix: Option<Mix>,
    /// Fields that are drawn at random from their ranges instead of incremented.
    pub random: Vec<RandomField>,
    /// Exactly so many flows: source ports vary first, then destination ports, then addresses
    /// within their ranges.
    pub flows: Option<u32>,
    /// Frames of one flow in a row. Over as many IPv4 destinations or more, each flow is one, as in
    /// pktgen.
    pub flow_len: Option<u32>,
    /// VLAN ids, the outer one first.
    pub vlan: Option<List<VlanId>>,
    /// EtherTypes of these tags.
    pub vlan_type: Option<List<VlanType>>,
    /// Priorities of these tags.
    pub vlan_prio: Option<List<VlanPriority>>,
    /// Drop eligible indicator of these tags.
    pub vlan_dei: bool,
    /// Id of pktgen's outer tag, which has EtherType 0x8100.
    pub svlan: Option<u16>,
    /// Priority of that tag.
    pub svlan_prio: u8,
    /// Drop eligible indicator of that tag.
    pub svlan_dei: bool,
    /// MPLS stack entries, outermost first.
    pub mpls: Option<Labels>,
    /// Type of service (IPv4) or traffic class (IPv6).
    pub tos: Option<u8>,
    /// The UDP checksum is filled in.
    pub udp_checksum: bool,
    /// Frames are protected with the IPsec SAs of the device's namespace.
    pub ipsec: bool,
    /// SPI of the SA to use, in any mode.
    pub spi: Option<u32>,
    /// Page fragments of pktgen; frames are unchanged.
    pub frags: Option<i32>,
    /// A wrong frame check sequence.
    pub send_fcs: Option<SendFcs>,
    /// Each frame is sent so many times, unchanged.
    pub clone_skb: Option<i32>,
    /// What a frame carries so that receivers can count it.
    pub signature: Option<SignatureName>,
    /// Run number in full signatures and marks, 0 to 4095.
    pub run: Option<u16>,
    /// Frames after the run that carry the number of sent frames.
    pub end_frames: Option<u32>,
    /// Times in signatures are zero.
    pub no_timestamp: bool,
    /// Seed of all random values; without it a new one for each run.
    pub seed: Option<u64>,
    /// TCP instead of UDP.
    pub tcp: bool,
    /// A TCP SYN; else an ACK.
    pub syn: bool,
    /// ICMP or ICMPv6 instead of UDP.
    pub icmp: Option<IcmpKind>,
    /// ARP requests for `dst`.
    pub arp: bool,
    /// Frames in a VXLAN tunnel with this network identifier.
    pub vxlan: Option<u32>,
    /// Frames in a GENEVE tunnel with this network identifier.
    pub geneve: Option<u32>,
    /// IP packets in a GTP-U tunnel with this tunnel endpoint identifier.
    pub gtpu: Option<u32>,
    /// UDP source ports of the tunnel; without them by the flow inside, 2152 for GTP-U.
    pub tunnel_src_port: Option<Interval<u16>>,
    /// IP packets in a GRE tunnel.
    pub gre: bool,
    /// Destination addresses in the tunnel; without them 198.19.0.2.
    pub inner_dst: Option<Addresses>,
    /// Source addresses in the tunnel; without them 198.19.0.1 or fd00::1.
    pub inner_src: Option<Addresses>,
    /// Payload instead of pktgen's header.
    pub payload: Option<PayloadText>,
    /// Time to live or hop limit of all IP headers; without it 32.
    pub ttl: Option<u8>,
    /// Packets in trafgen's language instead of those above.
    pub frame: Option<String>,
    /// A file with such packets.
    pub frames: Option<PathBuf>,
    /// Several streams at once; empty for the one of this job.
    pub streams: Vec<StreamEntry>,
    /// Frames to send, 0 for no end; without it 1000, or no end with a duration.
    pub count: Option<Count>,
    /// Time to send for.
    pub duration: Option<Nanos>,
    /// The run is repeated so many times.
    pub runs: Option<u32>,
    /// When the first frame is due.
    pub start_at: Option<StartTime>,
    /// Bits per second on the wire, or a share of the line. At most one of `rate`, `pps`, `delay`
    /// and `ramp` is given; none is as fast as possible.
    pub rate: Option<WireRate>,
    /// Frames per second.
    pub pps: Option<FrameRate>,
    /// Time from the start of one frame to the start of the next.
    pub delay: Option<Nanos>,
    /// Frames per second that change over time.
    pub ramp: Option<Ramp>,
    /// How the gaps between frames are distributed.
    pub arrivals: Option<Arrivals>,
    /// Limit of the rate after a delay.
    pub catch_up: Option<CatchUp>,
    /// Threads spin between frames instead of sleeping.
    pub spin: bool,
    /// Threads, each on a CPU of its own.
    pub threads: Option<u32>,
    /// CPUs to send from, one thread each.
    pub cpus: Option<CpuSequence>,
    /// Network namespace of the device.
    pub netns: Option<String>,
    /// Frames per batch.
    pub batch: Option<u32>,
    /// Transmit queues.
    pub queues: Option<Queues>,
    /// Priority of the frames for the qdisc.
    pub skb_priority: Option<u32>,
    /// NUMA node of the memory and the threads.
    pub node: Option<u32>,
    /// Where frames enter the kernel.
    pub xmit_mode: XmitMode,
    /// How frames are sent; without it the first way that works.
    pub engine: Option<EngineKind>,
    /// The run waits for a link that is down.
    pub keep_going: bool,
    /// The device may carry the default route of this host.
    pub allow_default_route: bool,
    /// Frames may be longer than the MTU of the device.
    pub allow_long: bool,
    /// Show so many frames instead of sending.
    pub dry_run: Option<u64>,
    /// Write these frames to this file, too.
    pub write: Option<PathBuf>,
    /// Print a row per second.
    pub every_second: bool,
    /// The receivers of a measurement have the rows.
    pub is_measured: bool,
    /// It is a stream of a file, so that errors name its members.
    pub is_of_file: bool,
    /// The report and the rows are JSON.
    pub json: bool,
    /// The rows are CSV, and the report goes to standard error.
    pub csv: bool,
    /// The report shows how the gaps between frames are distributed.
    pub histogram: bool,
    /// No progress and no notes.
    pub quiet: bool,
}

impl SendJob {
    /// True if it has a rate of its own.
    pub fn has_rate(&self) -> bool {
        self.ramp.is_some() || self.rate.is_some() || self.pps.is_some() || self.delay.is_some()
    }

    /// A size of frames, as the user would write it.
    pub fn size_advice(&self, frame_len: impl fmt::Display) -> String {
        if self.is_of_file { format!("\"size\": {frame_len}") } else { format!("--size {frame_len}") }
    }

    /// What frames are asked to carry at the start of their payload.
    pub fn front_signature(&self) -> Option<SignatureLevel> {
        self.signature.and_then(SignatureName::level).filter(|level| *level != SignatureLevel::None)
    }
}

/// One of several streams.
#[derive(Clone, Debug)]
pub struct StreamEntry {
    /// Its name in the report.
    pub name: String,
    /// What it sends.
    pub job: SendJob,
    /// Its packets in trafgen's language, instead of the frames of `job`.
    pub frame: Option<String>,
    /// Time from the start of the run to its first frame, in nanoseconds.
    pub start_ns: u64,
    /// Its part of the rate of the run.
    pub weight: Option<NonZeroU32>,
}
