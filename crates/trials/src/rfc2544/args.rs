//! The arguments of `wirerate rfc2544`.

use crate::search::PathArgs;
use search::{BILLION, Method};
use units::{FrameRate, Nanos};

/// Arguments of `wirerate rfc2544`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "For isolated test set-ups only (RFC 6815). Ctrl-C ends it with the results so far.\n\n\
    Examples:\n  \
    wirerate rfc2544 --tx eth1 --rx eth2 --quick --dst 198.18.0.1 --dst-mac 02:00:00:00:00:01\n  \
    wirerate rfc2544 --tx eth1 --rx eth2 --resume results --dst 198.18.0.1\n  \
    wirerate rfc2544 --tx veth0@a --rx veth1@b --tests throughput,loss --frame-sizes 64,1518 --json > results.jsonl"
)]
pub struct Args {
    /// The devices and the frames
    #[command(flatten)]
    pub path: PathArgs,
    /// Tests to run; those after throughput need its result
    #[arg(
        long,
        value_name = "TEST,...",
        value_delimiter = ',',
        default_value = "throughput,latency,loss,back-to-back,recovery"
    )]
    pub tests: Vec<Rfc2544Test>,
    /// Throughput of the one frame size from an earlier run, instead of a search for it
    #[arg(long, value_name = "PPS")]
    pub throughput: Option<FrameRate>,
    /// Time after which the tests end with the results so far, such as 1h30m
    #[arg(short = 't', long, value_name = "TIME")]
    pub budget: Option<Nanos>,
    /// Short trials and few repeats: minutes instead of hours
    #[arg(long)]
    pub quick: bool,
}

/// A test of RFC 2544 section 26.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rfc2544Test {
    /// Section 26.1
    Throughput,
    /// Section 26.2, with the percentiles of RFC 8219
    Latency,
    /// Section 26.3: frame loss rate
    Loss,
    /// Section 26.4, by RFC 9004
    BackToBack,
    /// Section 26.5: system recovery
    Recovery,
}

/// Durations and repeats of all tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) method: Method,
    pub(super) latency_ns: u64,
    pub(super) latency_repeats: u32,
    pub(super) loss_ns: u64,
    pub(super) burst_ns_max: u64,
    pub(super) burst_tests: u32,
    pub(super) overload_ns: u64,
    pub(super) recovery_tests: u32,
}

impl Args {
    /// Those of the RFCs, or short ones.
    pub(super) const fn effort(&self) -> Effort {
        if self.quick {
            Effort {
                method: Method::Quick,
                latency_ns: BILLION,
                latency_repeats: 3,
                loss_ns: BILLION,
                burst_ns_max: BILLION / 2,
                burst_tests: 3,
                overload_ns: BILLION,
                recovery_tests: 1,
            }
        } else {
            Effort {
                method: Method::Rfc2544,
                latency_ns: 120 * BILLION,
                latency_repeats: 20,
                loss_ns: 60 * BILLION,
                burst_ns_max: 2 * BILLION,
                burst_tests: 50,
                overload_ns: 60 * BILLION,
                recovery_tests: 5,
            }
        }
    }
}
