//! Receiving: loss, duplicates, order and latency of the frames of a sender. A [`ReceiveJob`] has
//! what is to be done; the commands fill it from their options. [`count`] only counts frames.
#![forbid(unsafe_code)]

pub mod count;
mod drain;
mod expect;
mod files;
mod report;
mod run;

pub use drain::Drain;
pub use expect::{Expectation, Metric};
pub use files::{MEASURE_FLOW, check_files};
pub use report::{CaptureFigures, MEASURE, MEASURE_TOTAL, ReflectFigures, Report, Second};
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

/// What a receiver does.
#[derive(Clone, Debug)]
pub struct ReceiveJob {
    /// The device, and when the run ends.
    pub run: ReceiveRun,
    /// The time of the run counts from then on.
    pub start_at: Option<StartTime>,
    /// How frames are received and counted.
    pub options: ReceiverOptions,
}

/// The device, and when a run ends.
#[derive(Clone, Debug)]
pub struct ReceiveRun {
    /// The device to receive on.
    pub device: String,
    /// Its network namespace.
    pub netns: Option<String>,
    /// The run ends with so many frames.
    pub count: Option<Count>,
    /// The run ends after this time.
    pub duration: Option<Nanos>,
    /// Frames that were sent, if that is known.
    pub sent: Option<Count>,
    /// No progress and no notes.
    pub quiet: bool,
    /// Rows per second.
    pub rows: RowArgs,
}

/// How frames are received and counted.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Flows of frames that carry their flow, if it is known.
    pub carried_flows: Option<u32>,
    /// The frames are sent back.
    pub reflection: Option<Reflection>,
    /// How frames are taken; without it by XDP if possible.
    pub source: Option<SourceKind>,
    /// The host receives the frames as well.
    pub mirror: bool,
    /// How they are counted.
    pub counting: Counting,
}

/// How frames are counted, and what becomes of the results.
#[derive(Clone, Debug)]
pub struct Counting {
    /// What the frames of the sender do not say.
    pub meter: MeterRules,
    /// Several CPUs receive frames of one flow, so each frame takes a lock.
    pub shared_flows: bool,
    /// First copies are told from duplicates among 960 numbers of a flow instead of 64.
    pub wide_window: bool,
    /// What becomes of the results.
    pub results: Results,
}

/// What a reflector must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// The lowest round trip, as its sender measured it.
    pub round_trip_ns: Option<u64>,
}

/// What the frames of the sender do not say.
#[derive(Clone, Debug)]
pub struct MeterRules {
    /// Flows, where frames do not carry theirs: the flow is the number modulo this.
    pub flows: u32,
    /// Frames of other runs are stale.
    pub run: Option<u16>,
    /// The latency of one in 2^n frames is measured.
    pub stamp_shift: u32,
    /// Frames with a longer latency are late.
    pub deadline: Option<Nanos>,
}

impl MeterRules {
    /// What a receiver must know. `carried_flows` are the flows that frames may carry.
    pub fn options(&self, carried_flows: u32) -> MeterOptions {
        MeterOptions {
            flow_count: self.flows,
            stream_count: (LINES_MAX / self.flows).clamp(1, STREAMS_MAX as u32),
            carried_flows,
            run: self.run,
            stamp_shift: self.stamp_shift,
            deadline_ns: self.deadline.map(|deadline| deadline.0),
            has_wide_window: false,
        }
    }
}

/// What becomes of the results.
#[derive(Clone, Debug)]
pub struct Results {
    /// Checks of the results.
    pub expect: Vec<Expectation>,
    /// Late frames are lost, too (RFC 2680).
    pub late_is_lost: bool,
    /// A file with a line per flow: CSV by its name, else JSON.
    pub flows_out: Option<PathBuf>,
    /// A file with the latencies as HdrHistogram's text.
    pub hgrm: Option<PathBuf>,
    /// The report is JSON.
    pub json: bool,
}

impl ReceiverOptions {
    /// What becomes of a measured frame.
    pub fn mode(&self) -> Mode {
        if self.mirror { Mode::Mirror } else { Mode::Drop }
    }

    /// What became of them, as a word; `mode` is that of the receiver.
    pub fn mode_name(&self, mode: Mode) -> &'static str {
        if self.reflection.is_some() { "reflect" } else { mode.name() }
    }
}
