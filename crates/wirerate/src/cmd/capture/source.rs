//! Arguments of `wirerate capture` that select frames and the way to capture them.

use capture::{AtPlace, CaptureDirection, ClockMode, Fanout, Options, SourceKind};
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// The words of `--at`.
fn at_place() -> impl TypedValueParser<Value = AtPlace> {
    PossibleValuesParser::new(["xdp-entry", "xdp-exit", "both"]).map(|word| match word.as_str() {
        "xdp-entry" => AtPlace::Entry,
        "xdp-exit" => AtPlace::Exit,
        _ => AtPlace::Both,
    })
}

/// Arguments that select frames and the way to capture them.
#[derive(Clone, Debug, clap::Args)]
pub struct SourceArgs {
    /// How frames are captured [default: xdp if possible, else tpacket]
    #[arg(long, value_enum)]
    pub source: Option<SourceKind>,
    /// Record frames at the XDP program that the device has: as it gets them, as it leaves them
    /// with its verdict, or both
    #[arg(long, value_name = "PLACE", value_parser = at_place())]
    pub at: Option<AtPlace>,
    /// Clock of the timestamps
    #[arg(long, value_enum, default_value = "utc")]
    pub clock: ClockMode,
    /// Direction of the frames; all but `in` need packet sockets
    #[arg(short = 'Q', long, value_enum, default_value = "in")]
    pub direction: CaptureDirection,
    /// How frames are distributed among packet sockets; `hash` takes them instead of XDP
    #[arg(long, value_enum, default_value = "cpu")]
    pub fanout: Fanout,
    /// Replace an XDP program that an earlier wirerate left on the device; never another program
    #[arg(long)]
    pub force: bool,
}

impl SourceArgs {
    /// Sets these options.
    pub fn apply(&self, options: Options) -> Options {
        Options {
            source: self.source.unwrap_or_default(),
            at: self.at,
            clock: self.clock,
            direction: self.direction,
            fanout: self.fanout,
            replace_ours: self.force,
            ..options
        }
    }
}
