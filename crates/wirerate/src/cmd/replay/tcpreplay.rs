//! The program by the name of `tcpreplay`: its common options, as those of `wirerate replay`.

use super::args::{Args, Speed};
use super::fields::LoopStep;
use clap::Parser;
use program::outcome::{Failure, Outcome};
use program::stop::Stop;
use replay::NumberSet;
use std::ffi::OsString;
use std::path::PathBuf;
use units::{BitRate, Count, FrameRate, Nanos, WireRate};

/// Nanoseconds of a millisecond and of a second.
const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000_000_000;

/// Arguments of `tcpreplay`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("tcpreplay_pace"),
    after_help = "These are the common options of tcpreplay; `wirerate replay` has the others (docs/replay.md).\n\n\
                  Examples:\n  \
                  tcpreplay -i eth1 capture.pcap\n  \
                  tcpreplay -i eth1 -t -K -l 100 capture.pcap"
)]
pub struct TcpreplayArgs {
    /// The device to send on
    #[arg(short = 'i', long = "intf1", value_name = "DEV")]
    pub device: String,
    /// Files to send, one after another; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// A second device; wirerate replay has --other and --split for it
    #[arg(short = 'I', long = "intf2", value_name = "DEV")]
    pub other: Option<String>,
    /// As fast as possible
    #[arg(short = 't', long, group = "tcpreplay_pace")]
    pub topspeed: bool,
    /// Speed as a multiple of the file's
    #[arg(short = 'x', long, value_name = "X", group = "tcpreplay_pace")]
    pub multiplier: Option<Speed>,
    /// Packets per second
    #[arg(short = 'p', long, value_name = "N", group = "tcpreplay_pace")]
    pub pps: Option<FrameRate>,
    /// Megabits per second on the wire; 0 for as fast as possible
    #[arg(short = 'M', long, value_name = "N", group = "tcpreplay_pace", value_parser = megabits)]
    pub mbps: Option<BitRate>,
    /// Times to send the files, 0 for no end
    #[arg(short = 'l', long = "loop", value_name = "N", default_value = "1")]
    pub loops: u64,
    /// Time between two loops in milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "loopdelay_ns")]
    pub loopdelay_ms: Option<u64>,
    /// Time between two loops in nanoseconds
    #[arg(long, value_name = "NS")]
    pub loopdelay_ns: Option<u64>,
    /// Packets to send at most
    #[arg(short = 'L', long, value_name = "N")]
    pub limit: Option<Count>,
    /// Time to send for, in seconds
    #[arg(long, value_name = "S")]
    pub duration: Option<u64>,
    /// Longest gap between two packets in milliseconds
    #[arg(long, value_name = "MS")]
    pub maxsleep: Option<u64>,
    /// Other addresses in each loop
    #[arg(long)]
    pub unique_ip: bool,
    /// Only packets with these numbers
    #[arg(long, value_name = "LIST")]
    pub include: Option<NumberSet>,
    /// Accepted and not needed: files are read by a thread of their own
    #[arg(short = 'K', long)]
    pub preload_pcap: bool,
    /// Accepted and not needed
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Accepted and not needed: all times are exact
    #[arg(short = 'T', long, value_name = "NAME")]
    pub timer: Option<String>,
    /// Accepted and not needed
    #[arg(long)]
    pub no_flow_stats: bool,
    /// Accepted and not needed: frames are sent by XDP if the driver accepts them
    #[arg(long)]
    pub xdp: bool,
    /// Network namespace of the device (not of tcpreplay)
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
}

fn megabits(text: &str) -> Result<BitRate, String> {
    let megabits = text.parse::<f64>().ok().filter(|megabits| megabits.is_finite() && *megabits >= 0.0);
    let bits = megabits.map(|megabits| BitRate((megabits * 1e6).round() as u64));
    bits.ok_or_else(|| format!("\"{text}\" is not a number of megabits"))
}

/// `wirerate replay` with nothing but a device and files.
#[derive(clap::Parser)]
struct Plain {
    #[command(flatten)]
    args: Args,
}

impl TcpreplayArgs {
    /// Translates the options of tcpreplay to arguments of `wirerate replay`.
    ///
    /// # Errors
    /// Bad usage for a second device, which needs a rule.
    fn translate(self) -> Result<Args, Failure> {
        if let Some(other) = self.other {
            let why = "frames are divided by a rule, not by a cache file";
            let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
            return Err(Failure::usage("use -I", why).try_this(format!(
                "wirerate replay {} {} --other {other} --split port",
                self.device,
                files.join(" ")
            )));
        }
        let words = [OsString::from("replay"), "--".into(), self.device.into()];
        let words = words.into_iter().chain(self.files.into_iter().map(PathBuf::into_os_string));
        let Plain { args } = Plain::try_parse_from(words).expect("a device and files are enough");
        let is_top = self.topspeed || self.mbps == Some(BitRate(0));
        let loop_gap = self.loopdelay_ns.or(self.loopdelay_ms.map(|ms| ms.saturating_mul(MS_NS)));
        Ok(Args {
            speed: if is_top { Some(Speed::Top) } else { self.multiplier },
            rate: self.mbps.filter(|rate| rate.0 > 0).map(WireRate::Bits),
            pps: self.pps,
            loops: self.loops,
            loop_gap: loop_gap.map(Nanos),
            // tcpreplay sends without a limit for 0 and -1.
            count: self.limit.filter(|limit| limit.0 > 0),
            duration: self.duration.map(|s| Nanos(s.saturating_mul(S_NS))),
            max_gap: self.maxsleep.map(|ms| Nanos(ms.saturating_mul(MS_NS))),
            each_loop: if self.unique_ip { LoopStep::NEXT_ADDRESSES.to_vec() } else { Vec::new() },
            packets: self.include,
            netns: self.netns,
            ..args
        })
    }
}

/// Sends as `wirerate replay` does.
///
/// # Errors
/// Bad usage for a second device, or what [`super::run`] could not do, ready to be printed.
pub fn run(args: TcpreplayArgs, stop: &Stop) -> Result<Outcome, Failure> {
    super::run(&args.translate()?, stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Called {
        #[command(flatten)]
        args: TcpreplayArgs,
    }

    fn translated(words: &str) -> Args {
        let words = words.split(' ');
        Called::try_parse_from(words).unwrap_or_else(|why| panic!("{why}")).args.translate().unwrap()
    }

    #[test]
    fn options_of_tcpreplay_mean_the_same() {
        let args = translated("tcpreplay -i eth1 -t -K -q -l 5 -L 1000 --loopdelay-ms=10 a.pcap b.pcap");
        assert_eq!((args.device.as_str(), args.files.len(), args.loops), ("eth1", 2, 5));
        assert_eq!((args.speed, args.count), (Some(Speed::Top), Some(Count(1000))));
        assert_eq!(args.loop_gap, Some(Nanos(10_000_000)));
        let args = translated("tcpreplay --intf1=eth1 --multiplier=2.5 --duration=60 --maxsleep=100 a.pcap");
        assert_eq!(args.speed, Some(Speed::Factor { times: 25, per: 10 }));
        assert_eq!((args.duration, args.max_gap), (Some(Nanos(60 * S_NS)), Some(Nanos(100 * MS_NS))));
        assert_eq!(translated("tcpreplay -i e -M 9.5 a").rate, Some(WireRate::Bits(BitRate(9_500_000))));
        assert_eq!(translated("tcpreplay -i e -M 0 a").speed, Some(Speed::Top));
        assert_eq!(translated("tcpreplay -i e -p 1000 a").pps, Some(FrameRate(1_000_000_000)));
        let unique = translated("tcpreplay -i e --unique-ip -l 2 a");
        assert_eq!((unique.each_loop.len(), unique.loops), (2, 2));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let bad = |words: &str| Called::try_parse_from(words.split(' ')).map(drop).unwrap_err().to_string();
        assert!(bad("tcpreplay -i e --pps-multi=3 a").contains("--pps-multi"));
        assert!(bad("tcpreplay -i e -t -p 3 a").contains("cannot be used with"));
        let second = Called::try_parse_from("tcpreplay -i e -I f a".split(' ')).unwrap();
        let why = second.args.translate().unwrap_err().to_string();
        assert!(why.ends_with("  try: wirerate replay e a --other f --split port\n"), "{why}");
    }
}
