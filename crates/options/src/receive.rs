//! The options of `wirerate receive`, and of all commands that receive as it does. Their functions
//! `job` make of them what a receiver does.

use capture::SourceKind;
use host::StartTime;
use program::row_printer::RowArgs;
use receiver::{
    Counting, Expectation, LINES_MAX, MeterRules, ReceiveJob, ReceiveRun, ReceiverOptions, Results,
};
use std::path::PathBuf;
use units::{Count, Nanos};

/// Arguments of `wirerate receive`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReceiveArgs {
    /// Device to receive on, and the count or time that ends the run
    #[command(flatten)]
    pub run: ReceiveRunArgs,
    /// Count the time of the run from this time on, and be ready before (docs/pacing.md)
    #[arg(long, value_name = "TIME", value_parser = units::start_time)]
    pub start_at: Option<StartTime>,
    /// Options of the receiver: source, mirroring, flows, and what becomes of the results
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
    /// Options for a row of counts each second, as text, JSON or CSV
    #[command(flatten)]
    pub rows: RowArgs,
}

/// Options of `receive` and `measure`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReceiverArgs {
    /// How frames are taken: xdp, or tpacket (a packet socket) [default: xdp if possible]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub source: Option<SourceKind>,
    /// Let the host receive the frames as well
    #[arg(long)]
    pub mirror: bool,
    /// Options for counting: flows, latency, duplicates, and what becomes of the results
    #[command(flatten)]
    pub counting: CountingArgs,
}

/// Options of all that count frames: their flows, and what becomes of the results.
#[derive(Clone, Debug, clap::Args)]
pub struct CountingArgs {
    /// Flow count, run number, latency sampling and deadline of the frames
    #[command(flatten)]
    pub meter: MeterArgs,
    /// Several CPUs receive frames of one flow: take a lock for each frame
    #[arg(long)]
    pub shared_flows: bool,
    /// Tell first copies from duplicates among 960 numbers of a flow instead of 64
    #[arg(long)]
    pub wide_window: bool,
    /// Checks, output files and JSON format of the results
    #[command(flatten)]
    pub results: ResultArgs,
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

/// One in 2^n frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampShift(pub u32);

impl ReceiveArgs {
    /// What they ask for.
    pub fn job(&self) -> ReceiveJob {
        ReceiveJob { run: self.run.job(), start_at: self.start_at, options: self.options.job() }
    }
}

impl ReceiveRunArgs {
    /// What they ask for.
    pub fn job(&self) -> ReceiveRun {
        let Self { device, netns, count, duration, sent, quiet, rows } = self.clone();
        ReceiveRun { device, netns, count, duration, sent, quiet, rows }
    }
}

impl ReceiverArgs {
    /// What they ask for.
    pub fn job(&self) -> ReceiverOptions {
        let Self { source, mirror, counting } = self;
        let counting = counting.job();
        ReceiverOptions { carried_flows: None, reflection: None, source: *source, mirror: *mirror, counting }
    }
}

impl CountingArgs {
    /// What they ask for.
    pub fn job(&self) -> Counting {
        let Self { meter, shared_flows, wide_window, results } = self;
        Counting {
            meter: meter.job(),
            shared_flows: *shared_flows,
            wide_window: *wide_window,
            results: results.job(),
        }
    }
}

impl MeterArgs {
    /// What they ask for.
    pub fn job(&self) -> MeterRules {
        let Self { flows, run, stamp_one_in, deadline } = *self;
        MeterRules { flows, run, stamp_shift: stamp_one_in.0, deadline }
    }
}

impl ResultArgs {
    /// What they ask for.
    pub fn job(&self) -> Results {
        let Self { expect, late_is_lost, flows_out, hgrm, json } = self.clone();
        Results { expect, late_is_lost, flows_out, hgrm, json }
    }
}

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
