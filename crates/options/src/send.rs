//! The options of `wirerate send`, and of all commands that send as it does.
//!
//! [`SendArgs::job`] makes of them what is sent: nothing behind it knows options.

#[cfg(test)]
mod tests;

use clap::ValueEnum;
use engine::{CatchUp, Ramp, SendFcs};
use host::StartTime;
use packet::{Arrivals, MacAddr, XmitMode};
use sender::job::{self, PayloadText, SendJob};
use std::path::PathBuf;
use units::{
    Addresses, Count, CpuSequence, FrameRate, Interval, Labels, List, Mix, Nanos, Queues, VlanId,
    VlanPriority, VlanType, WireRate, number,
};

/// A field that can be random instead of incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RandomField {
    /// Destination address
    Dst,
    /// Source address
    Src,
    /// UDP or TCP destination port
    #[value(aliases = ["dport", "dst-port", "port", "tcp-dst"])]
    UdpDst,
    /// UDP or TCP source port
    #[value(aliases = ["sport", "src-port", "cport", "tcp-src"])]
    UdpSrc,
    /// Frame length
    Size,
    /// Destination MAC
    DstMac,
    /// Source MAC
    SrcMac,
    /// VLAN id, from 0 to 4095
    Vlan,
    /// Outer VLAN id, from 0 to 4095
    Svlan,
    /// MPLS labels, with their class and time to live
    Mpls,
    /// Transmit queue
    Queue,
    /// The flow of each frame
    Flow,
    /// Destination address in a tunnel
    InnerDst,
    /// Source address in a tunnel
    InnerSrc,
}

impl From<RandomField> for job::RandomField {
    fn from(name: RandomField) -> Self {
        match name {
            RandomField::Dst => Self::Dst,
            RandomField::Src => Self::Src,
            RandomField::UdpDst => Self::UdpDst,
            RandomField::UdpSrc => Self::UdpSrc,
            RandomField::Size => Self::Size,
            RandomField::DstMac => Self::DstMac,
            RandomField::SrcMac => Self::SrcMac,
            RandomField::Vlan => Self::Vlan,
            RandomField::Svlan => Self::Svlan,
            RandomField::Mpls => Self::Mpls,
            RandomField::Queue => Self::Queue,
            RandomField::Flow => Self::Flow,
            RandomField::InnerDst => Self::InnerDst,
            RandomField::InnerSrc => Self::InnerSrc,
        }
    }
}

/// An ICMP or ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IcmpKind {
    /// Echo request, as from ping
    Echo,
    /// Echo reply
    Reply,
}

impl From<IcmpKind> for job::IcmpKind {
    fn from(name: IcmpKind) -> Self {
        match name {
            IcmpKind::Echo => Self::Echo,
            IcmpKind::Reply => Self::Reply,
        }
    }
}

/// Where frames enter the kernel, in pktgen's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Entry {
    /// Directly to the driver, bypassing qdisc and packet taps
    #[value(name = "start_xmit")]
    StartXmit,
    /// Through the qdisc
    #[value(name = "queue_xmit")]
    QueueXmit,
    /// Into the receive path of the device, as if received from the wire
    #[value(name = "netif_receive")]
    NetifReceive,
}

impl From<Entry> for XmitMode {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::StartXmit => Self::StartXmit,
            Entry::QueueXmit => Self::QueueXmit,
            Entry::NetifReceive => Self::NetifReceive,
        }
    }
}

/// A way to send frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Live frames from an XDP program, directly to the driver
    Xdp,
    /// Clones of one packet of the stack, through the qdisc if there is one
    Skb,
    /// A packet socket: slower, works with any device
    #[value(name = "af_packet", alias = "af-packet")]
    AfPacket,
    /// AF_XDP sockets, zero-copy if the driver supports it
    #[value(name = "af_xdp", alias = "af-xdp")]
    AfXdp,
}

impl From<EngineName> for engine::EngineKind {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Xdp => Self::Xdp,
            EngineName::Skb => Self::Skb,
            EngineName::AfPacket => Self::AfPacket,
            EngineName::AfXdp => Self::AfXdp,
        }
    }
}

/// How much of the signature each frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SignatureName {
    /// No signature: the payload is zeros
    None,
    /// pktgen's header, 16 bytes: number and time in microseconds
    Pktgen,
    /// 18 bytes: pktgen's header, nanoseconds and the sending thread
    Short,
    /// 32 bytes: as `short`, and the flow, the number in the flow and the run
    Full,
    /// 18 bytes at the end of frames that are not pktgen's: flow, run, number and time
    Mark,
}

impl From<SignatureName> for job::SignatureName {
    fn from(name: SignatureName) -> Self {
        match name {
            SignatureName::None => Self::None,
            SignatureName::Pktgen => Self::Pktgen,
            SignatureName::Short => Self::Short,
            SignatureName::Full => Self::Full,
            SignatureName::Mark => Self::Mark,
        }
    }
}

/// The words of `--send-fcs`.
fn send_fcs(text: &str) -> Result<SendFcs, String> {
    if text == "bad" {
        return Ok(SendFcs::Bad);
    }
    match number::<u32>(text) {
        Some(number) => Ok(SendFcs::Value(number.to_be_bytes())),
        None => Err("use bad, or four bytes such as 0xdeadbeef".to_owned()),
    }
}

/// Options of the frames: of a run, or of each stream of a file.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Frames")]
pub struct FrameArgs {
    /// Destination MAC address or range [default: that of the next hop to --dst]
    #[arg(long, value_name = "MAC[-MAC]")]
    pub dst_mac: Option<Interval<MacAddr>>,
    /// Source MAC address or range [default: the device's own]
    #[arg(long, value_name = "MAC[-MAC]")]
    pub src_mac: Option<Interval<MacAddr>>,
    /// Destination address, range or prefix, IPv4 or IPv6 [default with --dst-mac:
    /// 198.18.0.1]
    #[arg(long, value_name = "IP[-IP]")]
    pub dst: Option<Addresses>,
    /// Source address, range or prefix [default: the device's own; link-local for IPv6]
    #[arg(long, value_name = "IP[-IP]")]
    pub src: Option<Addresses>,
    /// UDP or TCP destination port or range [default: 9]
    #[arg(
        long,
        short = 'p',
        aliases = ["dport", "dst-port", "port", "tcp-dst"],
        value_name = "PORT[-PORT]"
    )]
    pub udp_dst: Option<Interval<u16>>,
    /// UDP or TCP source port or range [default: 9]
    #[arg(long, aliases = ["sport", "src-port", "cport", "tcp-src"], value_name = "PORT[-PORT]")]
    pub udp_src: Option<Interval<u16>>,
    /// Frame length in bytes without FCS, or range [default: 60; 78 for IPv6]
    #[arg(long, short = 'l', aliases = ["len", "length"], value_name = "BYTES[-BYTES]", group = "lengths")]
    pub size: Option<Interval<u32>>,
    /// Frame length in bytes with FCS, or range: 64 is --size 60
    #[arg(long, value_name = "BYTES[-BYTES]", value_parser = units::frame_size, group = "lengths")]
    pub frame_size: Option<Interval<u32>>,
    /// Mix of frame lengths: simple (64, 594 and 1518 bytes with FCS, 7:4:1), another name
    /// (docs/frames.md), or lengths without FCS and weights, such as 60:7,590:4,1514:1
    #[arg(long, value_name = "NAME|BYTES:WEIGHT,...", group = "lengths")]
    pub imix: Option<Mix>,
    /// Mix of frame lengths with FCS, such as 64:7,594:4,1518:1
    #[arg(long, value_name = "BYTES:WEIGHT,...", value_parser = units::frame_mix, group = "lengths")]
    pub frame_imix: Option<Mix>,
    /// Fields to pick at random from their ranges instead of incrementing
    #[arg(
        long,
        value_name = "FIELD,...",
        value_delimiter = ',',
        hide_possible_values = true,
        long_help = "Fields to pick at random from their ranges instead of incrementing: \
                       dst, src, udp-dst, udp-src, size, dst-mac, src-mac, vlan, svlan, mpls, queue, flow, \
                       inner-dst, inner-src"
    )]
    pub random: Vec<RandomField>,
    /// Exactly this many flows: frames go through source ports, then destination ports, and
    /// through addresses within the ranges of --src and --dst
    #[arg(long, value_name = "N", value_parser = flow_count)]
    pub flows: Option<u32>,
    /// Send this many frames of one flow in a row. For a range of --dst with --flows or more IPv4
    /// addresses, each flow is a destination, as in pktgen
    #[arg(long, value_name = "N", requires = "flows", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow_len: Option<u32>,
    /// VLAN id, or two with the outer one first (QinQ, IEEE 802.1ad): 5 or 5,6
    #[arg(long, value_name = "ID[,ID]")]
    pub vlan: Option<List<VlanId>>,
    /// EtherType of the outer tag, or of both: 0x88a8,0x8100 [default: 0x8100; 0x88a8 for the outer
    /// of two tags]
    #[arg(long, value_name = "TYPE[,TYPE]", requires = "vlan")]
    pub vlan_type: Option<List<VlanType>>,
    /// VLAN priority, 0 to 7, of all tags or of each [default: 0]
    #[arg(long, alias = "vlan-p", value_name = "N[,N]", requires = "vlan")]
    pub vlan_prio: Option<List<VlanPriority>>,
    /// Set the drop eligible indicator of the VLAN tags (pktgen: vlan_cfi)
    #[arg(long, alias = "vlan-cfi", requires = "vlan")]
    pub vlan_dei: bool,
    /// Outer VLAN id with EtherType 0x8100, as in pktgen (--vlan 5,6 for 802.1ad)
    #[arg(long, value_name = "ID", requires = "vlan",
          value_parser = clap::value_parser!(u16).range(0..=4095))]
    pub svlan: Option<u16>,
    /// Outer VLAN priority, 0 to 7
    #[arg(long, alias = "svlan-p", value_name = "N", requires = "svlan", default_value = "0",
          hide_default_value = true, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub svlan_prio: u8,
    /// Set the drop eligible indicator of the outer VLAN tag
    #[arg(long, alias = "svlan-cfi", requires = "svlan")]
    pub svlan_dei: bool,
    /// MPLS labels, outermost first, such as 16,17 (TTL 64), or whole stack entries such as
    /// 0x0001000a
    #[arg(long, value_name = "LABEL,...", conflicts_with_all = ["vlan", "svlan"])]
    pub mpls: Option<Labels>,
    /// Type of service (IPv4) or traffic class (IPv6), 0 to 255 or 0x00 to 0xff
    #[arg(long, value_name = "N", value_parser = units::byte)]
    pub tos: Option<u8>,
    /// Fill in the UDP checksum
    #[arg(long, alias = "csum")]
    pub udp_checksum: bool,
    /// Protect frames with the IPsec SAs of the device's namespace (`ip xfrm state`): that of
    /// --spi, else an ESP transport mode SA that matches the addresses (IPv4)
    #[arg(long)]
    pub ipsec: bool,
    /// SPI of the SA to use, in any mode
    #[arg(long, value_name = "N", requires = "ipsec", value_parser = units::spi)]
    pub spi: Option<u32>,
    /// Page fragments, 1 to 17, for compatibility with pktgen: frames are unchanged, and only
    /// af_packet and af_xdp are used
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=17))]
    pub frags: Option<i32>,
    /// Send frames with a wrong frame check sequence: `bad` inverts the right one, 0x01020304 are
    /// its bytes on the wire. Packet sockets only, and few drivers can: e1000, e100
    #[arg(long, value_name = "bad|VALUE", conflicts_with = "batch", value_parser = send_fcs)]
    pub send_fcs: Option<SendFcs>,
    /// Send each frame N times, unchanged
    #[arg(long, alias = "clone", value_name = "N", conflicts_with_all = ["imix", "frame_imix"],
          value_parser = clap::value_parser!(i32).range(1..))]
    pub clone_skb: Option<i32>,
    /// What a frame carries so that receivers can count it (docs/measure.md) [default: pktgen's
    /// header; frames without one get a mark of 18 bytes in the zeros at their end]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub signature: Option<SignatureName>,
    /// Run number in full signatures and marks, 0 to 4095; `receive --run` counts other runs as
    /// stale
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=4095))]
    pub run: Option<u16>,
    /// Extra frames after the run that carry the number of sent frames for `receive`. Neither side
    /// counts them [default: 5 with --signature short, full or mark, else 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub end_frames: Option<u32>,
    /// Set the time in the pktgen header or the mark to zero
    #[arg(long)]
    pub no_timestamp: bool,
    /// Seed for all random values, which makes a run repeatable [default: a new seed per run]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// TCP instead of UDP with pktgen's header (docs/frames.md); an ACK unless --syn is given
    #[arg(long, conflicts_with_all = ["icmp", "arp"])]
    pub tcp: bool,
    /// A TCP SYN
    #[arg(long, requires = "tcp")]
    pub syn: bool,
    /// ICMP or ICMPv6 instead of UDP: echo (a ping) or reply, numbered from 1
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true, conflicts_with = "arp")]
    pub icmp: Option<IcmpKind>,
    /// ARP requests for --dst, to all hosts unless --dst-mac is given
    #[arg(long)]
    pub arp: bool,
    /// Frames in a VXLAN tunnel to --dst with this network identifier
    #[arg(long, value_name = "VNI", conflicts_with = "gre",
          value_parser = clap::value_parser!(u32).range(0..1 << 24))]
    pub vxlan: Option<u32>,
    /// Frames in a GENEVE tunnel to --dst with this network identifier
    #[arg(long, value_name = "VNI", conflicts_with_all = ["gre", "vxlan"],
          value_parser = clap::value_parser!(u32).range(0..1 << 24))]
    pub geneve: Option<u32>,
    /// IP packets in a GTP-U tunnel to --dst with this tunnel endpoint identifier
    #[arg(long, value_name = "TEID", conflicts_with_all = ["gre", "vxlan", "geneve"])]
    pub gtpu: Option<u32>,
    /// UDP source port of the tunnel, or a range that is counted [default: from 49152 on, by the
    /// flow inside; 2152 for GTP-U]
    #[arg(long, value_name = "PORT[-PORT]")]
    pub tunnel_src_port: Option<Interval<u16>>,
    /// IP packets in a GRE tunnel to --dst
    #[arg(long)]
    pub gre: bool,
    /// Destination address or range in the tunnel [default: 198.19.0.2]
    #[arg(long, value_name = "IP[-IP]")]
    pub inner_dst: Option<Addresses>,
    /// Source address or range in the tunnel [default: 198.19.0.1; fd00::1 for IPv6]
    #[arg(long, value_name = "IP[-IP]")]
    pub inner_src: Option<Addresses>,
    /// Payload instead of pktgen's header: text, bytes, or those of a file
    #[arg(long, value_name = "TEXT|0xHEX|@FILE")]
    pub payload: Option<PayloadText>,
    /// Time to live or hop limit, of all IP headers [default: 32]
    #[arg(long, value_name = "N")]
    pub ttl: Option<u8>,
}

/// Arguments of `wirerate send`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    next_line_help = false,
    allow_negative_numbers = true,
    after_help = "Ranges A-B include both ends. A field with a range is incremented with each frame. As in pktgen, the \
                  first frame has the second value (1-4 sends 2, 3, 4, 1, ...). --random makes a field random. \
                  IPv6 destinations are always random, from an aligned block such as fd00::/120.\n\n\
                  Examples:\n  \
                  wirerate send veth0 --dst 198.18.0.1 --dst-mac 02:00:00:00:00:01 --count 10M\n  \
                  wirerate send eth1 --dst 198.18.0.0/15 --udp-dst 1000-1999 --random dst --rate 1Gbit --duration 10s\n  \
                  wirerate send eth1 --dst fd00::/112 --size 78-1514 --dry-run\n  \
                  wirerate send eth1 --dst 198.18.0.1 --tcp --syn --dport 80 --src 10.0.0.0/8 --random src"
)]
pub struct SendArgs {
    /// The device to send on: DEV, or DEV@NETNS in another network namespace
    #[arg(value_name = "DEV")]
    pub device: String,
    /// See [`FrameArgs`]
    #[command(flatten)]
    pub frame_args: FrameArgs,

    /// Frames in trafgen's packet language instead of those above, such as
    /// '{ eth(da=02:00:00:00:00:02), ipv4(da=198.18.0.2, ttl=64), tcp(dp=80, syn) }'
    /// (docs/frames.md)
    #[arg(long, value_name = "PACKETS", conflicts_with = "streams", help_heading = "Run")]
    pub frame: Option<String>,
    /// File with frames in trafgen's packet language
    #[arg(long, value_name = "FILE", conflicts_with_all = ["frame", "streams"], help_heading = "Run")]
    pub frames: Option<PathBuf>,
    /// Several streams at once from a JSON file: a list of objects whose members are the options of
    /// a stream (docs/streams.md)
    #[arg(long, value_name = "FILE.json", help_heading = "Run", conflicts_with_all = [
        "dst_mac", "src_mac", "dst", "src", "udp_dst", "udp_src", "size", "frame_size", "imix", "frame_imix", "random", "flows", "flow_len", "vlan",
        "vlan_type", "svlan", "mpls", "tos", "udp_checksum", "ipsec", "frags", "send_fcs", "clone_skb", "no_timestamp", "count", "delay", "queues",
        "node", "histogram", "tcp", "icmp", "arp", "vxlan", "gre", "geneve", "gtpu", "tunnel_src_port", "inner_dst", "inner_src", "payload", "ttl",
    ])]
    pub streams: Option<PathBuf>,
    /// Frames to send, 0 for no end [default: 1000; no end with --duration]
    #[arg(long, short = 'c', value_name = "N", help_heading = "Run")]
    pub count: Option<Count>,
    /// Time to send for, such as 10s; a number alone is seconds
    #[arg(long, short = 't', alias = "time", value_name = "TIME", help_heading = "Run")]
    pub duration: Option<Nanos>,
    /// Do this N times; print each run, then mean, standard deviation, minimum and maximum of all
    #[arg(long, value_name = "N", help_heading = "Run", conflicts_with_all = ["start_at", "dry_run", "csv"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,
    /// Start at this time, with everything ready before: 2026-11-23T19:00:00Z, 19:00:00, +5s, or
    /// @SECONDS since 1970 (docs/pacing.md)
    #[arg(long, value_name = "TIME", value_parser = units::start_time, conflicts_with = "dry_run", help_heading = "Run")]
    pub start_at: Option<StartTime>,
    /// Bits per second on the wire, such as 1Gbit, with FCS (4 bytes), preamble (8) and gap (12);
    /// or a share of the speed of the device, such as 40%
    #[arg(long, short = 'b', aliases = ["bitrate", "bandwidth"], value_name = "RATE", group = "pace", help_heading = "Run")]
    pub rate: Option<WireRate>,
    /// Frames per second, such as 14.88M or 0.5
    #[arg(long, value_name = "PPS", group = "pace", help_heading = "Run")]
    pub pps: Option<FrameRate>,
    /// Time from the start of one frame to the start of the next, such as 10us
    #[arg(long, value_name = "TIME", group = "pace", help_heading = "Run", value_parser = units::time_with_unit)]
    pub delay: Option<Nanos>,
    /// Frames per second that change over time, such as 1k..1M/30s; append /N for N steps. The run
    /// ends with the ramp, unless --count or --duration is given
    #[arg(long, value_name = "PPS..PPS/TIME", group = "pace", help_heading = "Run", value_parser = units::ramp)]
    pub ramp: Option<Ramp>,
    /// Arrival process: constant, poisson or poisson:SEED (gaps with an exponential distribution
    /// around the rate), burst:N (N frames at once with the mean of the rate) or burst:N,GAP (N
    /// frames at the rate, then GAP)
    #[arg(long, value_name = "PROCESS", help_heading = "Run", value_parser = units::arrivals)]
    pub arrivals: Option<Arrivals>,
    /// Limit for catching up after more than 10 ms of delay: N times the rate, or `max` for no
    /// limit; with 1 a late run does not catch up [default: 2]
    #[arg(long, value_name = "N", requires = "pace", help_heading = "Run", value_parser = catch_up)]
    pub catch_up: Option<CatchUp>,
    /// Spin between frames instead of sleeping first: keeps each sending CPU busy, for the last
    /// microsecond of precision at slow rates
    #[arg(long, help_heading = "Run")]
    pub spin: bool,
    /// Number of threads, each on its own CPU [default: 1]
    #[arg(long, short = 'P', alias = "parallel", value_name = "N", group = "workers", help_heading = "Run",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// CPUs to send from, one thread per CPU, such as 0,2-3
    #[arg(long, value_name = "LIST", group = "workers", help_heading = "Run")]
    pub cpus: Option<CpuSequence>,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub netns: Option<String>,
    /// Frames per batch, 1 to 256 [default: set by the engine]
    #[arg(long, value_name = "N", help_heading = "Run", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub batch: Option<u32>,
    /// Transmit queue, a range to change with each frame, or `cpu` for the queue of each thread's
    /// CPU [default: set by the engine, that of the CPU if possible]
    #[arg(long, value_name = "N[-N]|cpu", help_heading = "Run")]
    pub queues: Option<Queues>,
    /// Priority of the frames for the qdisc
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub skb_priority: Option<u32>,
    /// NUMA node for the memory of the frames, and for the threads without --cpus
    #[arg(long, value_name = "N", help_heading = "Run", value_parser = clap::value_parser!(u32).range(0..=1023))]
    pub node: Option<u32>,
    /// Where frames enter the kernel
    #[arg(long, value_enum, value_name = "MODE", default_value = "start_xmit", help_heading = "Run")]
    pub xmit_mode: Entry,
    /// Method to send frames [default: the first that works for this device and these options]
    #[arg(long, value_enum, value_name = "ENGINE", help_heading = "Run")]
    pub engine: Option<EngineName>,
    /// Go on when the device is down or without carrier: frames that are due meanwhile count as
    /// `no_carrier`, and the report has the longest interruption
    #[arg(long, help_heading = "Run")]
    pub keep_going: bool,
    /// Send even if the device carries the default route of this host
    #[arg(long, help_heading = "Run")]
    pub allow_default_route: bool,
    /// Send frames that are longer than the MTU of the device
    #[arg(long, help_heading = "Run")]
    pub allow_long: bool,

    /// Show the first N frames instead of sending (default 4); needs no privileges and no device
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "4", help_heading = "Output",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub dry_run: Option<u64>,
    /// With --dry-run, also write these frames to a file: pcap if its name ends in .pcap or .cap,
    /// else pcapng; each also with .gz, .zst or .lz4
    #[arg(long, value_name = "FILE", requires = "dry_run", help_heading = "Output")]
    pub write: Option<PathBuf>,
    /// Print a row per second: time of day, frames sent, rate, errors
    #[arg(long, help_heading = "Output")]
    pub every_second: bool,
    /// Print the report, and rows of --every-second, as lines of JSON (docs/json.md)
    #[arg(long, short = 'J', help_heading = "Output")]
    pub json: bool,
    /// Print a row per second as CSV; the report goes to standard error
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub csv: bool,
    /// Show in the report how the gaps between frames are distributed
    #[arg(long, help_heading = "Output")]
    pub histogram: bool,
    /// Print no progress and no notes, only errors and the report
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Send UDP, as always (iperf3)
    #[arg(long, short, hide = true)]
    pub udp: bool,
}

impl SendArgs {
    /// What they ask for, without the streams of `--streams`.
    pub fn job(self) -> SendJob {
        let Self {
            device,
            frame_args:
                FrameArgs {
                    dst_mac,
                    src_mac,
                    dst,
                    src,
                    udp_dst,
                    udp_src,
                    size,
                    frame_size,
                    imix,
                    frame_imix,
                    random,
                    flows,
                    flow_len,
                    vlan,
                    vlan_type,
                    vlan_prio,
                    vlan_dei,
                    svlan,
                    svlan_prio,
                    svlan_dei,
                    mpls,
                    tos,
                    udp_checksum,
                    ipsec,
                    spi,
                    frags,
                    send_fcs,
                    clone_skb,
                    signature,
                    run,
                    end_frames,
                    no_timestamp,
                    seed,
                    tcp,
                    syn,
                    icmp,
                    arp,
                    vxlan,
                    geneve,
                    gtpu,
                    tunnel_src_port,
                    gre,
                    inner_dst,
                    inner_src,
                    payload,
                    ttl,
                },
            frame,
            frames,
            streams: _,
            count,
            duration,
            runs,
            start_at,
            rate,
            pps,
            delay,
            ramp,
            arrivals,
            catch_up,
            spin,
            threads,
            cpus,
            netns,
            batch,
            queues,
            skb_priority,
            node,
            xmit_mode,
            engine,
            keep_going,
            allow_default_route,
            allow_long,
            dry_run,
            write,
            every_second,
            json,
            csv,
            histogram,
            quiet,
            udp: _,
        } = self;
        SendJob {
            device,
            dst_mac,
            src_mac,
            dst,
            src,
            udp_dst,
            udp_src,
            size: size.or(frame_size),
            mix: imix.or(frame_imix),
            random: random.into_iter().map(Into::into).collect(),
            flows,
            flow_len,
            vlan,
            vlan_type,
            vlan_prio,
            vlan_dei,
            svlan,
            svlan_prio,
            svlan_dei,
            mpls,
            tos,
            udp_checksum,
            ipsec,
            spi,
            frags,
            send_fcs,
            clone_skb,
            signature: signature.map(Into::into),
            run,
            end_frames,
            no_timestamp,
            seed,
            tcp,
            syn,
            icmp: icmp.map(Into::into),
            arp,
            vxlan,
            geneve,
            gtpu,
            tunnel_src_port,
            gre,
            inner_dst,
            inner_src,
            payload,
            ttl,
            frame,
            frames,
            streams: Vec::new(),
            count,
            duration,
            runs,
            start_at,
            rate,
            pps,
            delay,
            ramp,
            arrivals,
            catch_up,
            spin,
            threads,
            cpus,
            netns,
            batch,
            queues,
            skb_priority,
            node,
            xmit_mode: xmit_mode.into(),
            engine: engine.map(Into::into),
            keep_going,
            allow_default_route,
            allow_long,
            dry_run,
            write,
            every_second,
            json,
            csv,
            histogram,
            quiet,
            started: Default::default(),
            is_measured: false,
            is_of_file: false,
        }
    }
}

/// A number of flows, written as a count: `1000`, `64k`.
fn flow_count(text: &str) -> Result<u32, String> {
    let Count(flows) = text.parse().map_err(|bad| format!("{bad}"))?;
    u32::try_from(flows).ok().filter(|flows| *flows > 0).ok_or_else(|| format!("not in 1 to {}", u32::MAX))
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    match text {
        "max" => Ok(CatchUp::Unlimited),
        _ => text
            .parse()
            .map(CatchUp::Times)
            .map_err(|_| "neither a whole number from 1 on nor max".to_owned()),
    }
}
