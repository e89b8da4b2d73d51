//! The options of `wirerate send`, and of all commands that send as it does.
//!
//! [`SendArgs::job`] makes of them what is sent: nothing behind it knows options.

#[cfg(test)]
mod tests;

use crate::frame_args::FrameArgs;
use clap::ValueEnum;
use engine::{CatchUp, Ramp};
use host::StartTime;
use packet::{Arrivals, XmitMode};
use sender::job::SendJob;
use std::path::PathBuf;
use units::{Count, CpuSequence, FrameRate, Nanos, Queues, WireRate};

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
    /// Headers, addresses, lengths and payload of the frames
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
        "vlan_type", "vlan_prio", "vlan_dei", "svlan", "svlan_prio", "svlan_dei", "mpls", "tos", "udp_checksum", "ipsec", "spi", "frags", "send_fcs",
        "clone_skb", "no_timestamp", "count", "delay", "queues", "node", "histogram", "tcp", "syn", "icmp", "arp", "vxlan", "gre", "geneve", "gtpu",
        "tunnel_src_port", "inner_dst", "inner_src", "payload", "ttl",
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
          value_parser = frames_shown)]
    pub dry_run: Option<Count>,
    /// With --dry-run, also write these frames to a file: pcap if its name ends in .pcap or .cap,
    /// else pcapng; each also with .gz, .zst or .lz4
    #[arg(long, value_name = "FILE", requires = "dry_run", conflicts_with_all = ["runs", "start_at"], help_heading = "Output")]
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
            frame_args,
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
            dry_run: dry_run.map(|count| count.0),
            write,
            every_second,
            json,
            csv,
            histogram,
            quiet,
            ..frame_args.job()
        }
    }
}

fn frames_shown(text: &str) -> Result<Count, String> {
    match text.parse::<Count>().map_err(|why| why.to_string())? {
        Count(0) => Err("it shows at least 1 frame".to_owned()),
        count => Ok(count),
    }
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
