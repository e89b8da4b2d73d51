//! `wirerate receive DEV`: loss, duplicates, order and latency of the frames of a sender.
#![forbid(unsafe_code)]

mod drain;
mod expect;
mod files;
mod report;
mod run;

pub use drain::Drain;
pub use expect::{Expectation, Metric};
pub use files::check_files;
pub use report::{CaptureFigures, ReflectFigures, Report};
pub use report::{SenderCounts, StreamSent};
pub use run::run;
pub use run::{Receipt, RunBegin, Seconds, count_frames, observe, source_text, start};

use capture::{Mode, SourceKind};
use host::StartTime;
use measure::{MeterOptions, STREAMS_MAX};
use program::row_printer::RowArgs;
use std::path::PathBuf;
use units::{Count, Nanos};

/// Lines of all streams: 64 MB.
pub const LINES_MAX: u32 = 1 << 20;

/// Arguments of `wirerate receive`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// See [`ReceiveRunArgs`]
    #[command(flatten)]
    pub run: ReceiveRunArgs,
    /// Count the time of the run from this time on, and be ready before (docs/pacing.md)
    #[arg(long, value_name = "TIME", value_parser = units::start_time)]
    pub start_at: Option<StartTime>,
    /// See [`ReceiverArgs`]
    #[command(flatten)]
    pub options: ReceiverArgs,
}

/// Options of `receive` and `reflect`: the device, and when a run ends.
#[derive(Clone, Debug, clap::Args)]
pub struct ReceiveRunArgs {
    /// The device to receive on: DEV, or DEV@NETNS in another network namespace
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Network namespace of a device that is named without one
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Frames to wait for; receiving ends then
    #[arg(short, long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to receive for, such as 10s or 1m30s
    #[arg(short = 't', long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Frames that were sent; the report then has the loss
    #[arg(long, value_name = "N")]
    pub sent: Option<Count>,
    /// Print no progress and no notes, only errors and the report
    #[arg(short, long)]
    pub quiet: bool,
    /// See [`RowArgs`]
    #[command(flatten)]
    pub rows: RowArgs,
}

/// Options of `receive` and `measure`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReceiverArgs {
    /// Flows of frames that carry their flow, if it is known
    #[arg(skip)]
    pub carried_flows: Option<u32>,
    /// Send the frames back
    #[arg(skip)]
    pub reflection: Option<Reflection>,
    /// How frames are taken: xdp, or tpacket (a packet socket) [default: xdp if possible]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub source: Option<SourceKind>,
    /// Let the host receive the frames as well
    #[arg(long)]
    pub mirror: bool,
    /// See [`CountingArgs`]
    #[command(flatten)]
    pub counting: CountingArgs,
}

/// Options of all that count frames: their flows, and what becomes of the results.
#[derive(Clone, Debug, clap::Args)]
pub struct CountingArgs {
    /// See [`MeterArgs`]
    #[command(flatten)]
    pub meter: MeterArgs,
    /// Several CPUs receive frames of one flow: take a lock for each frame
    #[arg(long)]
    pub shared_flows: bool,
    /// Tell first copies from duplicates among 960 numbers of a flow instead of 64
    #[arg(long)]
    pub wide_window: bool,
    /// See [`ResultArgs`]
    #[command(flatten)]
    pub results: ResultArgs,
}

/// What a reflector must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// The lowest round trip, as its sender measured it.
    pub round_trip_ns: Option<u64>,
}

/// What the frames of the sender do not say.
#[derive(Clone, Debug, clap::Args)]
pub struct MeterArgs {
    /// Flows, where frames do not carry theirs: the flow is the number modulo N
    #[arg(long, value_name = "N", default_value = "1", value_parser = flow_count)]
    pub flows: u32,
    /// Count frames of other runs as stale (frames that carry their run)
    #[arg(long, value_name = "RUN")]
    pub run: Option<u16>,
    /// Measure the latency of one in N frames: 1, 2, 4, ... 65536
    #[arg(long, value_name = "N", default_value = "1", value_parser = stamp_shift)]
    pub stamp_one_in: StampShift,
    /// Count frames with a longer latency than this as late
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<Nanos>,
}

impl MeterArgs {
    /// What a receiver must know. `carried_flows` are the flows that frames may carry.
    pub fn options(&self, carried_flows: u32) -> MeterOptions {
        MeterOptions {
            flow_count: self.flows,
            stream_count: (LINES_MAX / self.flows).clamp(1, STREAMS_MAX as u32),
            carried_flows,
            run: self.run,
            stamp_shift: self.stamp_one_in.0,
            deadline_ns: self.deadline.map(|deadline| deadline.0),
            has_wide_window: false,
        }
    }
}

/// What becomes of the results.
#[derive(Clone, Debug, clap::Args)]
pub struct ResultArgs {
    /// Check a result, such as lost=0 or 'p99<50us'; exit code 1 if it fails. May be repeated
    #[arg(long, value_name = "CHECK")]
    pub expect: Vec<Expectation>,
    /// Count late frames as lost, too (RFC 2680)
    #[arg(long, requires = "deadline", conflicts_with = "stamp_one_in")]
    pub late_is_lost: bool,
    /// Write a line per flow: FILE.csv, or JSON lines under any other name
    #[arg(long, value_name = "FILE")]
    pub flows_out: Option<PathBuf>,
    /// Write the latencies as HdrHistogram's text, for its plotter
    #[arg(long, value_name = "FILE")]
    pub hgrm: Option<PathBuf>,
    /// Print JSON (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
}

impl ReceiverArgs {
    /// What becomes of a measured frame.
    pub fn mode(&self) -> Mode {
        if self.mirror { Mode::Mirror } else { Mode::Drop }
    }

    /// What became of them, as a word; `mode` is that of the receiver.
    pub fn mode_name(&self, mode: Mode) -> &'static str {
        if self.reflection.is_some() { "reflect" } else { mode.name() }
    }
}

/// One in 2^n frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampShift(pub u32);

fn flow_count(text: &str) -> Result<u32, String> {
    let Count(flows) = text.parse().map_err(|bad| format!("{bad}"))?;
    match u32::try_from(flows) {
        Ok(flows @ 1..=LINES_MAX) => Ok(flows),
        _ => Err(format!("not in 1 to {LINES_MAX}")),
    }
}

fn stamp_shift(text: &str) -> Result<StampShift, String> {
    let frames: u32 = text.parse().map_err(|_| "not a number".to_owned())?;
    match frames.is_power_of_two() && frames <= 1 << 16 {
        true => Ok(StampShift(frames.trailing_zeros())),
        false => Err("not one of 1, 2, 4, ... 65536".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_written_as_other_counts() {
        assert_eq!(flow_count("1M"), Ok(1_000_000));
        assert_eq!(flow_count("1048576"), Ok(LINES_MAX));
        for wrong in ["0", "2M", "many"] {
            assert!(flow_count(wrong).is_err(), "{wrong}");
        }
    }
}
