//! The arguments of `wirerate search`.

use super::frame_size::FrameSize;
use program::outcome::Failure;
use search::{BILLION, Method};
use std::path::PathBuf;
use units::{Count, FrameRate, Nanos, percentage};

/// The lowest load, in frames per second, unless the highest is near it.
const MIN_PPS: u64 = 1000;

/// What `wirerate search` and `wirerate rfc2544` have in common.
#[derive(Clone, Debug, clap::Args)]
pub struct PathArgs {
    /// The device to send on, with its network namespace
    #[arg(long, value_name = "DEV[@NETNS]")]
    pub tx: String,
    /// The device to receive on
    #[arg(long, value_name = "DEV[@NETNS]", required = true)]
    pub rx: Option<String>,
    /// Network namespace of devices that are named without one
    #[arg(long, value_name = "NETNS")]
    pub netns: Option<String>,
    /// Highest load; loads are whole frames per second [default: the rate of the medium, or 20M]
    #[arg(long, value_name = "PPS")]
    pub max_pps: Option<FrameRate>,
    /// Lowest load [default: 1000, or a tenth of --max-pps below 10k]
    #[arg(long, value_name = "PPS")]
    pub min_pps: Option<FrameRate>,
    /// Also send from --rx to --tx at once, with addresses and ports exchanged. Loads and results
    /// are sums of both directions, and each direction has half
    #[arg(long)]
    pub bidirectional: bool,
    /// Also send from --rx to --tx at once, with these options of `wirerate send` for the frames
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub reverse: Option<String>,
    /// Frame sizes without FCS, as in send, or names of mixes such as simple; one after another
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = super::frame_size::without_fcs)]
    pub size: Vec<FrameSize>,
    /// Frame sizes with FCS, as in RFC 2544, or names of mixes
    #[arg(
        long,
        alias = "sizes",
        alias = "frame-size",
        value_name = "SIZE,...",
        value_delimiter = ',',
        conflicts_with = "size"
    )]
    pub frame_sizes: Vec<FrameSize>,
    /// Keep each trial in this folder, and do not repeat those that it has
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Print each trial and the result as lines of JSON, for `wirerate report` (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// Print no progress and no notes, only errors and the results
    #[arg(short, long)]
    pub quiet: bool,
    /// Options of `wirerate send` for the frames. They may stand anywhere, without `--`
    #[arg(last = true, value_name = "OPTIONS OF SEND")]
    pub send: Vec<String>,
}

impl PathArgs {
    /// The sizes of the user.
    pub fn sizes(&self) -> &[FrameSize] {
        if self.frame_sizes.is_empty() { &self.size } else { &self.frame_sizes }
    }

    /// What is measured, beside the traffic of each trial: a line for each option that decides it.
    pub fn measurement(&self) -> String {
        let rx = self.rx.as_deref().unwrap_or_default();
        let way = if self.bidirectional { "both ways" } else { "one way" };
        let netns = self.netns.as_deref().unwrap_or_default();
        let (reverse, send) = (self.reverse.as_deref().unwrap_or_default(), self.send.join(" "));
        format!("tx: {}\nrx: {rx}\nnetns: {netns}\n{way}\nreverse: {reverse}\nframes: {send}\n", self.tx)
    }

    /// Loads from the lowest to the highest, in frames per second. `highest` is that of the medium
    /// or of the user.
    ///
    /// # Errors
    /// Bad usage if the lowest is not below the highest.
    pub fn loads(&self, highest: u64) -> Result<(u64, u64), Failure> {
        let lowest = self.min_pps.map_or_else(|| MIN_PPS.min(highest / 10).max(1), FrameRate::pps_above);
        if (1..highest).contains(&lowest) {
            return Ok((lowest, highest));
        }
        let why = format!("the highest load is {highest}, and the lowest must be below it and above 0");
        let failure = Failure::usage(format!("search from --min-pps {lowest}"), why);
        Err(match highest > 1 {
            true => failure.try_this(format!("--min-pps {}", MIN_PPS.min(highest / 10).max(1))),
            false => failure.try_this("--max-pps 10k"),
        })
    }
}

/// What a load of `--connections` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ConnectionLoad {
    /// New connections per second
    Rate,
    /// Connections held at a time
    Held,
}

/// Arguments of `wirerate search`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("rx", |rx| rx.required(false).required_unless_present("connections")))]
#[command(after_help = "Ctrl-C ends the search with the bounds so far.\n\n\
    Examples:\n  \
    wirerate search --tx eth1 --rx eth2 --loss 0 --loss 0.5% --dst 198.18.0.1 --dst-mac 02:00:00:00:00:01\n  \
    wirerate search --tx eth1 --rx eth2 --frame-sizes 64,512,1518,simple --resume results --dst 198.18.0.1\n  \
    wirerate search --tx eth1 --rx eth2 --frame-sizes 64,512 --flows 1,1k,1M --dst 198.18.0.1\n  \
    wirerate search --tx veth0@a --rx veth1@b --method quick --json > results.jsonl\n  \
    wirerate search --connections --tx eth1 --method quick --dst 198.18.0.2:80 --src 198.18.64.0/20")]
pub struct Args {
    /// The devices and the frames
    #[command(flatten)]
    pub path: PathArgs,
    /// mlr, rfc2544, tst009, quick or binary
    #[arg(long, value_name = "METHOD", default_value = "mlr", value_parser = method)]
    pub method: MethodName,
    /// Loss ratio of a goal, such as 0 or 0.5%; several times for several goals
    #[arg(long, value_name = "RATIO", default_value = "0", value_parser = loss_ratio)]
    pub loss: Vec<LossRatio>,
    /// Numbers of flows (combinations of ports and addresses), such as 1,1k,1M; a search for each
    /// [default: that of send's options]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub flows: Vec<Count>,
    /// Numbers of sending threads, each on its own CPU, such as 1,2; a search for each [default:
    /// that of send's options]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Vec<u32>,
    /// Search the highest rate of new connections with a server, or the highest number held, by
    /// the options of `wirerate connect` instead of send. No --rx
    #[arg(
        long,
        value_name = "rate|held",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "rate",
        value_enum,
        help_heading = "Connections"
    )]
    pub connections: Option<ConnectionLoad>,
    /// Highest load of --connections [default: 100k]
    #[arg(long, value_name = "N", requires = "connections", help_heading = "Connections")]
    pub max_connections: Option<Count>,
    /// Lowest load of --connections [default: 100, or a tenth of the highest below 1000]
    #[arg(long, value_name = "N", requires = "connections", help_heading = "Connections")]
    pub min_connections: Option<Count>,
    /// Connections that are complete later than this after the last SYN of a trial are lost
    #[arg(long, value_name = "TIME", default_value = "100ms", help_heading = "Connections")]
    pub settle: Nanos,
    /// Time between trials in which devices forget the connections of the last one
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = "Connections")]
    pub rest: Nanos,
    /// Time after which each search ends with the bounds so far, such as 5m
    #[arg(short = 't', long, value_name = "TIME")]
    pub budget: Option<Nanos>,
}

/// A method by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName(pub Method);

/// Parts per billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRatio(pub u64);

fn method(text: &str) -> Result<MethodName, String> {
    let names = || Method::ALL.map(Method::name).join(", ");
    Method::of_name(text).map(MethodName).ok_or_else(|| format!("is none of {}", names()))
}

/// `0`, `0.005` or `0.5%`, exactly.
fn loss_ratio(text: &str) -> Result<LossRatio, String> {
    if let Some(ppb) = percentage(text).filter(|ppb| *ppb < BILLION) {
        return Ok(LossRatio(ppb));
    }
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    let error = || "is not a ratio below 1, such as 0, 0.005 or 0.5%".to_owned();
    if whole != "0" || part.len() > 9 || !is_number(part) {
        return Err(error());
    }
    format!("{part:0<9}").parse().map(LossRatio).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_whole_loads_within_the_rates_of_the_user() {
        let path = |limits: &str| program::args_of::<PathArgs>(&format!("--tx a --rx b {limits}")).unwrap();
        for (limits, lowest, highest) in [
            ("--max-pps 1488095.24", 1_000, 1_488_095),
            ("--max-pps 20.5 --min-pps 0.5", 1, 20),
            ("--max-pps 2.5k --min-pps 1.0005k", 1_001, 2_500),
        ] {
            let path = path(limits);
            let most = path.max_pps.map(FrameRate::pps_below).unwrap();
            assert_eq!(path.loads(most).unwrap(), (lowest, highest), "{limits}");
        }
        let none = path("--max-pps 0.9");
        assert!(none.loads(none.max_pps.map_or(9, FrameRate::pps_below)).is_err());
    }

    #[test]
    fn loss_ratios_are_read_exactly() {
        assert_eq!(loss_ratio("0"), Ok(LossRatio(0)));
        assert_eq!(loss_ratio("0.5%"), Ok(LossRatio(5_000_000)));
        assert_eq!(loss_ratio("0.005"), Ok(LossRatio(5_000_000)));
        assert_eq!(loss_ratio("0.0000001"), Ok(LossRatio(100)));
        for wrong in ["", "%", "1", "100%", "-1", "1e-3", ".5"] {
            assert!(loss_ratio(wrong).is_err(), "{wrong}");
        }
    }
}
