//! The arguments of `wirerate send`.

use crate::units::{Addresses, BitRate, Count, CpuList, Interval, Labels, Mix, Nanos, Pps, Queues};
use clap::ValueEnum;
use engine::CatchUp;
use packet::MacAddr;
use std::path::PathBuf;

/// A field that can be drawn at random instead of counted through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Field {
    /// Destination address
    Dst,
    /// Source address
    Src,
    /// UDP destination port
    UdpDst,
    /// UDP source port
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
}

/// Where frames enter the kernel, in pktgen's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Entry {
    /// Straight to the driver, past qdisc and packet taps
    #[value(name = "start_xmit")]
    StartXmit,
    /// Through the qdisc
    #[value(name = "queue_xmit")]
    QueueXmit,
    /// Into the receive path of the device, as if they had come from the wire
    #[value(name = "netif_receive")]
    NetifReceive,
}

/// A way to put frames out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Live frames from an XDP program, straight to the driver
    Xdp,
    /// Clones of one packet of the stack, by way of the qdisc where there is one
    Skb,
    /// A packet socket: slower, any device, any frame
    #[value(name = "af_packet", alias = "af-packet")]
    AfPacket,
    /// AF_XDP sockets, zero-copy where the driver can
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

/// Arguments of `wirerate send`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    next_line_help = false,
    after_help = "Ranges A-B hold both ends. A range is counted through, one step a frame, and as with pktgen the \
                  first frame carries the second value (a range 1-4 sends 2, 3, 4, 1, ...); --random draws instead. \
                  IPv6 destinations are always drawn, from an aligned block such as fd00::/120.\n\n\
                  Examples:\n  \
                  wirerate send veth0 --dst 198.18.0.1 --dst-mac 02:00:00:00:00:01 --count 10M\n  \
                  wirerate send eth1 --dst 198.18.0.0/15 --udp-dst 1000-1999 --random dst --rate 1Gbit --duration 10s\n  \
                  wirerate send eth1 --dst fd00::/112 --size 78-1514 --dry-run"
)]
pub struct Args {
    /// The device to send on
    #[arg(value_name = "DEV")]
    pub device: String,

    /// Destination MAC address, or a range of them; without it that of the next hop to --dst, where known
    #[arg(long, value_name = "MAC[-MAC]", help_heading = "Frames")]
    pub dst_mac: Option<Interval<MacAddr>>,
    /// Source MAC address, or a range of them [default: the device's own]
    #[arg(long, value_name = "MAC[-MAC]", help_heading = "Frames")]
    pub src_mac: Option<Interval<MacAddr>>,
    /// Destination address, a range of them or a prefix, IPv4 or IPv6 [default with --dst-mac: 198.18.0.1]
    #[arg(long, value_name = "IP[-IP]", help_heading = "Frames")]
    pub dst: Option<Addresses>,
    /// Source address, a range of them or a prefix [default: the device's own; link-local for IPv6]
    #[arg(long, value_name = "IP[-IP]", help_heading = "Frames")]
    pub src: Option<Addresses>,
    /// UDP destination port or range
    #[arg(long, value_name = "PORT[-PORT]", default_value = "9", help_heading = "Frames")]
    pub udp_dst: Interval<u16>,
    /// UDP source port or range
    #[arg(long, value_name = "PORT[-PORT]", default_value = "9", help_heading = "Frames")]
    pub udp_src: Interval<u16>,
    /// Frame length in bytes without FCS, or a range of lengths [default: 60; 78 for IPv6]
    #[arg(long, value_name = "BYTES[-BYTES]", help_heading = "Frames")]
    pub size: Option<Interval<u32>>,
    /// Mix of frame lengths with their weights, such as 60:7,594:4,1514:1
    #[arg(long, value_name = "BYTES:WEIGHT,...", conflicts_with = "size", help_heading = "Frames")]
    pub imix: Option<Mix>,
    /// Fields to draw at random from their ranges instead of counting through them
    #[arg(
        long,
        value_name = "FIELD,...",
        value_delimiter = ',',
        help_heading = "Frames",
        hide_possible_values = true,
        long_help = "Fields to draw at random from their ranges instead of counting through them: \
                       dst, src, udp-dst, udp-src, size, dst-mac, src-mac, vlan, svlan, mpls, queue, flow"
    )]
    pub random: Vec<Field>,
    /// Destinations that stay open at a time: flows of --flow-len frames each (IPv4)
    #[arg(long, value_name = "N", help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub flows: Option<u32>,
    /// Frames of one flow
    #[arg(long, value_name = "N", requires = "flows", help_heading = "Frames")]
    pub flow_len: Option<u32>,
    /// VLAN id
    #[arg(long, value_name = "ID", help_heading = "Frames", value_parser = clap::value_parser!(u16).range(0..=4095))]
    pub vlan: Option<u16>,
    /// VLAN priority, 0 to 7
    #[arg(long, value_name = "N", requires = "vlan", default_value = "0", hide_default_value = true,
          help_heading = "Frames", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub vlan_p: u8,
    /// Set the drop eligible (canonical format) bit of the VLAN tag
    #[arg(long, requires = "vlan", help_heading = "Frames")]
    pub vlan_cfi: bool,
    /// Outer VLAN id (its type is 0x8100, as pktgen's)
    #[arg(long, value_name = "ID", requires = "vlan", help_heading = "Frames",
          value_parser = clap::value_parser!(u16).range(0..=4095))]
    pub svlan: Option<u16>,
    /// Outer VLAN priority, 0 to 7
    #[arg(long, value_name = "N", requires = "svlan", default_value = "0", hide_default_value = true,
          help_heading = "Frames", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub svlan_p: u8,
    /// Set the drop eligible (canonical format) bit of the outer VLAN tag
    #[arg(long, requires = "svlan", help_heading = "Frames")]
    pub svlan_cfi: bool,
    /// MPLS labels, outermost first, such as 16,17 (time to live 64), or whole stack entries in hex, such as
    /// 0x0001000a
    #[arg(long, value_name = "LABEL,...", conflicts_with_all = ["vlan", "svlan"], help_heading = "Frames")]
    pub mpls: Option<Labels>,
    /// Type of service (IPv4) or traffic class (IPv6), 0 to 255 or 0x00 to 0xff
    #[arg(long, value_name = "N", help_heading = "Frames", value_parser = crate::units::byte)]
    pub tos: Option<u8>,
    /// Fill in the UDP checksum
    #[arg(long, help_heading = "Frames")]
    pub csum: bool,
    /// Seal frames by the IPsec associations of the device's namespace (`ip xfrm state`): that of --spi, else ESP in
    /// transport mode by addresses (IPv4)
    #[arg(long, help_heading = "Frames")]
    pub ipsec: bool,
    /// The association to seal frames by, in any mode
    #[arg(long, value_name = "N", requires = "ipsec", help_heading = "Frames", value_parser = crate::units::spi)]
    pub spi: Option<u32>,
    /// pktgen's page fragments, 1 to 17: only keeps xdp and skb out, no frame is split and the bytes are the same
    #[arg(long, value_name = "N", help_heading = "Frames", value_parser = clap::value_parser!(i32).range(1..=17))]
    pub frags: Option<i32>,
    /// Times each frame goes out unchanged, as one and the same (clone_skb)
    #[arg(long, value_name = "N", conflicts_with = "imix", help_heading = "Frames",
          value_parser = clap::value_parser!(i32).range(1..))]
    pub clone: Option<i32>,
    /// Leave the time in the pktgen header zero
    #[arg(long, help_heading = "Frames")]
    pub no_timestamp: bool,
    /// Seed of every random draw, which makes a run repeatable [default: a new one each run]
    #[arg(long, value_name = "N", help_heading = "Frames")]
    pub seed: Option<u64>,

    /// Frames to send, 0 for no end [default: 1000; no end with --duration]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub count: Option<Count>,
    /// Time to send for, such as 10s
    #[arg(long, value_name = "TIME", help_heading = "Run")]
    pub duration: Option<Nanos>,
    /// Bits per second on the wire, such as 1Gbit: frame, FCS (4 bytes), preamble (8) and gap (12)
    #[arg(long, value_name = "RATE", group = "pace", help_heading = "Run")]
    pub rate: Option<BitRate>,
    /// Frames per second, such as 14.88M
    #[arg(long, value_name = "PPS", group = "pace", help_heading = "Run")]
    pub pps: Option<Pps>,
    /// Time from the start of one frame to the start of the next, such as 10us
    #[arg(long, value_name = "TIME", group = "pace", help_heading = "Run")]
    pub delay: Option<Nanos>,
    /// How fast a run that is more than 10 ms late catches up: at N times its pace at most, or `max` for as fast as it goes;
    /// with 1 the schedule begins anew [default: 2]
    #[arg(long, value_name = "N", requires = "pace", help_heading = "Run", value_parser = catch_up)]
    pub catch_up: Option<CatchUp>,
    /// Threads to send from, each on a CPU of its own [default: 1]
    #[arg(long, value_name = "N", group = "workers", help_heading = "Run",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// CPUs to send from, one thread each, such as 0,2-3
    #[arg(long, value_name = "LIST", group = "workers", help_heading = "Run")]
    pub cpus: Option<CpuList>,
    /// Network namespace that the device is in
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub netns: Option<String>,
    /// Frames handed to the driver in one go, 1 to 256 [default: the engine's choice]
    #[arg(long, value_name = "N", help_heading = "Run", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub batch: Option<u32>,
    /// Transmit queue of the device, a range of them to go through frame by frame, or `cpu` for that of each
    /// thread's CPU [default: the engine's choice, which is the CPU's where it can]
    #[arg(long, value_name = "N[-N]|cpu", help_heading = "Run")]
    pub queues: Option<Queues>,
    /// Priority of the frames for the qdisc
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub skb_priority: Option<u32>,
    /// NUMA node for the memory of the frames; without --cpus, threads run there as well
    #[arg(long, value_name = "N", help_heading = "Run", value_parser = clap::value_parser!(u32).range(0..=1023))]
    pub node: Option<u32>,
    /// Where frames enter the kernel
    #[arg(long, value_enum, value_name = "MODE", default_value = "start_xmit", help_heading = "Run")]
    pub xmit_mode: Entry,
    /// The way to put frames out [default: the first that this device and these options allow]
    #[arg(long, value_enum, value_name = "ENGINE", help_heading = "Run")]
    pub engine: Option<EngineName>,
    /// Send although the device carries the default route of this host
    #[arg(long, help_heading = "Run")]
    pub allow_default_route: bool,

    /// Show the first N frames instead of sending (4 without =N); needs no privilege and no device
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "4",
          help_heading = "Output", value_parser = clap::value_parser!(u64).range(1..))]
    pub dry_run: Option<u64>,
    /// With --dry-run: write those frames to this pcapng file as well
    #[arg(long, value_name = "FILE.pcapng", requires = "dry_run", help_heading = "Output")]
    pub write: Option<PathBuf>,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long, help_heading = "Output")]
    pub json: bool,
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
