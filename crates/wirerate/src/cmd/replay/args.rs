//! The arguments of `wirerate replay`.

use super::fields::{LoopStep, SplitChoice};
use super::verify::IgnoredField;
use crate::edit_args::EditArgs;
use crate::edit_args::policies::{Cut, Long};
use host::StartTime;
use options::send::{EngineName, Entry};
use packet::Arrivals;
use replay::{InterfaceChoice, NumberSet, SplitRule};
use std::path::PathBuf;
use std::str::FromStr;
use units::{Count, CpuSequence, FrameRate, Nanos, WireRate};

/// A factor for the times of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// As fast as possible.
    Top,
    /// `times` / `per` times as fast as the file.
    Factor {
        /// Numerator.
        times: u64,
        /// Denominator, a power of ten.
        per: u64,
    },
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "top" {
            return Ok(Self::Top);
        }
        let bad = || format!("\"{text}\" is not a speed: top or a factor, such as 2 or 0.5");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}");
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let times = digits.parse().ok().filter(|times| is_number && *times > 0).ok_or_else(bad)?;
        let per = 10_u64.checked_pow(fraction.len() as u32).ok_or_else(bad)?;
        Ok(Self::Factor { times, per })
    }
}

/// Arguments of `wirerate replay`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    next_line_help = false,
    after_help = "Files are pcap or pcapng, plain or compressed (gzip, zstd, lz4, xz). Without --speed, --rate, --pps and --delay \
                  the gaps between packets are those of the file. \
                  `wirerate ctl DEV` pauses and resumes a run and changes its speed; so do SIGUSR1 and SIGCONT for \
                  pauses.\n\n\
                  Examples:\n  \
                  wirerate replay eth1 capture.pcapng\n  \
                  wirerate replay eth1 capture.pcap --speed top --loop 100\n  \
                  wirerate replay eth1 day.pcapng.zst --rate 2Gbit --dst-mac 02:00:00:00:00:01\n  \
                  wirerate replay eth1 capture.pcap --other eth2 --split sources=10.0.0.0/8\n  \
                  wirerate replay eth1 capture.pcap --dry-run --write frames.pcapng"
)]
pub struct Args {
    /// The device to send on: DEV, or DEV@NETNS in another network namespace
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Files to send, one after another; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Merge the files by the times of their packets
    #[arg(long, help_heading = "Packets")]
    pub merge: bool,
    /// Sort the files by their first packets
    #[arg(long, help_heading = "Packets")]
    pub sort: bool,
    /// Only packets that match a filter, as in tcpdump: "udp port 53"
    #[arg(long, value_name = "EXPRESSION", help_heading = "Packets")]
    pub filter: Option<String>,
    /// Only packets with these numbers, such as 1-5,9,100-
    #[arg(long, value_name = "LIST", help_heading = "Packets")]
    pub packets: Option<NumberSet>,
    /// Only packets of these interfaces of a pcapng file, by number or name
    #[arg(long, value_name = "IF,...", value_delimiter = ',', help_heading = "Packets")]
    pub interface: Vec<InterfaceChoice>,
    /// Only packets from this time after the first packet on
    #[arg(long, value_name = "TIME", help_heading = "Packets")]
    pub from: Option<Nanos>,
    /// Only packets up to this time after the first packet
    #[arg(long, value_name = "TIME", help_heading = "Packets")]
    pub to: Option<Nanos>,
    /// Packets of which the file has only the first bytes
    #[arg(long, value_enum, value_name = "POLICY", default_value = "pad", help_heading = "Packets")]
    pub cut: Cut,
    /// Frames that are longer than the device accepts
    #[arg(long, value_enum, value_name = "POLICY", default_value = "skip", help_heading = "Packets")]
    pub long: Long,
    /// Read all files before the first frame is sent, and send nothing if one is damaged or a
    /// packet cannot be edited
    #[arg(long, help_heading = "Packets")]
    pub strict: bool,

    /// Options that edit packets.
    #[command(flatten)]
    pub edit: EditArgs,
    /// Add to a field in each further loop, or in each K-th: clients (addresses of clients, which a
    /// first pass over the files finds), dst, src, dst-port, src-port, dst-mac, src-mac, vlan
    #[arg(long, value_name = "FIELD+=N[/K]", help_heading = "Rewriting")]
    pub each_loop: Vec<LoopStep>,

    /// A second device, for a part of the frames; it may be in another network namespace
    #[arg(long, value_name = "DEV[@NETNS]", requires = "split", help_heading = "Two devices")]
    pub other: Option<String>,
    /// Frames for DEV: auto (those of clients, which a first pass over the files finds), file
    /// (those of the first of two files, which are merged by time), sources=PREFIX,...,
    /// macs=MAC,..., interface=IF, port (those to the lower port), direction (those that were
    /// sent); the others are for --other
    #[arg(long, value_name = "RULE", requires = "other", help_heading = "Two devices")]
    pub split: Option<SplitChoice>,

    /// Speed of the file's times: a factor, or top for as fast as possible
    #[arg(long, value_name = "X|top", group = "pace", help_heading = "Run")]
    pub speed: Option<Speed>,
    /// Bits per second on the wire, such as 1Gbit, with FCS (4 bytes), preamble (8) and gap (12);
    /// or a share of the speed of the device, such as 40%
    #[arg(long, value_name = "RATE", group = "pace", help_heading = "Run")]
    pub rate: Option<WireRate>,
    /// Frames per second, such as 14.88M or 0.5
    #[arg(long, value_name = "PPS", group = "pace", help_heading = "Run")]
    pub pps: Option<FrameRate>,
    /// Time from the start of one frame to the start of the next, such as 10us
    #[arg(long, value_name = "TIME", group = "pace", help_heading = "Run")]
    pub delay: Option<Nanos>,
    /// Arrival process with --rate, --pps or --delay: constant, poisson or poisson:SEED (gaps with
    /// an exponential distribution around the rate), burst:N (N frames at once with the mean of the
    /// rate) or burst:N,GAP (N frames at the rate, then GAP)
    #[arg(long, value_name = "PROCESS", help_heading = "Run", value_parser = units::arrivals)]
    pub arrivals: Option<Arrivals>,
    /// Shorten longer gaps of the file to this time
    #[arg(long, value_name = "TIME", help_heading = "Run")]
    pub max_gap: Option<Nanos>,
    /// Keep gaps of more than a minute between two files, too
    #[arg(long, conflicts_with = "merge", help_heading = "Run")]
    pub keep_gaps: bool,
    /// Times to send the files, 0 for no end
    #[arg(long = "loop", value_name = "N", default_value = "1", help_heading = "Run")]
    pub loops: u64,
    /// Time between two loops
    #[arg(long, value_name = "TIME", help_heading = "Run")]
    pub loop_gap: Option<Nanos>,
    /// Frames to send at most [default: all]
    #[arg(long, short = 'c', alias = "limit", value_name = "N", help_heading = "Run")]
    pub count: Option<Count>,
    /// Time to send for, such as 10s
    #[arg(long, value_name = "TIME", help_heading = "Run")]
    pub duration: Option<Nanos>,
    /// Do this N times; print each run, then mean, standard deviation, minimum and maximum of all
    #[arg(long, value_name = "N", help_heading = "Run", conflicts_with_all = ["start_at", "dry_run", "csv"],
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,
    /// Start at this time, with everything ready before: 2026-11-23T19:00:00Z, 19:00:00, +5s, or
    /// @SECONDS since 1970 (docs/pacing.md)
    #[arg(long, value_name = "TIME", value_parser = units::start_time, conflicts_with = "dry_run", help_heading = "Run")]
    pub start_at: Option<StartTime>,
    /// Number of sending threads, each on its own CPU and queue; frames of a flow leave by one of
    /// them, in order [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "cpus", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Run")]
    pub threads: Option<u32>,
    /// CPUs to send from, each with a thread and queue; the files are read on another one
    #[arg(long, value_name = "LIST", help_heading = "Run")]
    pub cpus: Option<CpuSequence>,
    /// Network namespace of devices that are named without one
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub netns: Option<String>,
    /// Where frames enter the kernel: start_xmit (the driver), queue_xmit (the qdisc) or
    /// netif_receive (the receive path of the device, as if received from the wire)
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        default_value = "start_xmit",
        hide_possible_values = true,
        help_heading = "Run"
    )]
    pub xmit_mode: Entry,
    /// Method to send frames: xdp, skb or af_packet [default: the first that works]
    #[arg(long, value_enum, value_name = "ENGINE", hide_possible_values = true, help_heading = "Run")]
    pub engine: Option<EngineName>,
    /// Go on when a device is down or without carrier: its frames that are due meanwhile count as
    /// `no_carrier`, and the report has the longest interruption
    #[arg(long, conflicts_with = "dry_run", help_heading = "Run")]
    pub keep_going: bool,
    /// Send even if the device carries the default route of this host
    #[arg(long, help_heading = "Run")]
    pub allow_default_route: bool,

    /// Receive on this device and compare what arrives with what was sent; exit code 1 if it
    /// differs
    #[arg(long, value_name = "DEV[@NETNS]", conflicts_with = "dry_run", help_heading = "Output")]
    pub verify: Option<String>,
    /// Fields that do not count for --verify, as routers change them: ttl, mac, checksum
    #[arg(
        long,
        value_enum,
        value_name = "FIELD,...",
        value_delimiter = ',',
        requires = "verify",
        conflicts_with = "dry_run",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub ignore: Vec<IgnoredField>,
    /// Go through the files without sending: report what would be sent; needs no privileges and no
    /// device
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// With --dry-run, write the frames with their due times to a file: pcap if its name ends in
    /// .pcap or .cap, else pcapng; each also with .gz, .zst or .lz4
    #[arg(long, value_name = "FILE", requires = "dry_run", help_heading = "Output",
          conflicts_with_all = ["runs", "start_at", "keep_going", "verify", "ignore", "every_second", "csv"])]
    pub write: Option<PathBuf>,
    /// Print a row per second: time of day, frames sent, rate, errors
    #[arg(long, conflicts_with = "dry_run", help_heading = "Output")]
    pub every_second: bool,
    /// Print the report, and rows of --every-second, as lines of JSON (docs/json.md)
    #[arg(long, short = 'J', help_heading = "Output")]
    pub json: bool,
    /// Print a row per second as CSV; the report goes to standard error
    #[arg(long, conflicts_with_all = ["json", "dry_run"], help_heading = "Output")]
    pub csv: bool,
    /// Print no progress and no notes, only errors and the report
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

impl Args {
    /// Frames to send at most.
    pub fn frames_max(&self) -> Option<u64> {
        self.count.map(|count| count.0).filter(|count| *count > 0)
    }

    /// True if the host receives the frames, instead of sending them.
    pub fn receives(&self) -> bool {
        self.xmit_mode == Entry::NetifReceive
    }

    /// True if packets of several files are merged by their times.
    pub fn merges(&self) -> bool {
        self.merge || self.splits_by_file()
    }

    /// True for one file for each device.
    pub fn splits_by_file(&self) -> bool {
        self.split == Some(SplitChoice::Rule(SplitRule::File))
    }

    /// True for a run that only a signal ends.
    pub fn is_endless(&self) -> bool {
        let is_timed = self.duration.is_some_and(|duration| duration.0 > 0);
        self.loops == 0 && self.frames_max().is_none() && !is_timed
    }

    /// True if frames may have to wait: at top speed only those behind a gap between loops.
    pub fn is_timed(&self) -> bool {
        let is_top = self.speed == Some(Speed::Top) || self.delay == Some(Nanos(0));
        !is_top || self.loop_gap.is_some_and(|gap| gap.0 > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_exact_fractions() {
        assert_eq!("top".parse(), Ok(Speed::Top));
        assert_eq!("0.5".parse(), Ok(Speed::Factor { times: 5, per: 10 }));
        assert_eq!("12".parse(), Ok(Speed::Factor { times: 12, per: 1 }));
        for bad in ["", "0", "-1", "x", "1e3", ".", "0.0", "+2"] {
            assert!(bad.parse::<Speed>().is_err(), "{bad}");
        }
    }
}
