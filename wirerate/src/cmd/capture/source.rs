//! Arguments of `wirerate capture` that select frames and the way to capture them.

use capture::{CaptureDirection, ClockMode, Fanout, Options, SourceKind};

/// Arguments that select frames and the way to capture them.
#[derive(Clone, Debug, clap::Args)]
pub struct SourceArgs {
    /// How frames are captured [default: xdp if possible, else tpacket]
    #[arg(long, value_enum)]
    pub source: Option<SourceKind>,
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
            clock: self.clock,
            direction: self.direction,
            fanout: self.fanout,
            replace_ours: self.force,
            ..options
        }
    }
}
