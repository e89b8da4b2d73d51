//! The report of a run: from the results of the workers to a text or one line of JSON.

use super::control::RateChange;
use super::limits::{self, RunLimit, limits};
use super::next_hop::NextHopMac;
use super::rate::Asked;
use super::workers::WorkerResult;
use engine::{Burst, EngineError, Interruptions};
use facts::{Described, Document, Fact, SendErrors};
use host::StartTime;
use packet::{FRAME_LEN_MIN, WIRE_OVERHEAD};
use program::out;
use program::start_at::StartReport;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use units::{Table, human_bps, human_count, human_duration, human_pps, per_second, quantity_of};

/// The report of a run that sends.
pub const SEND: Document =
    Document::of::<Report>("wirerate.send/2", "wirerate send --json, also measure and trafgen");

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All frames asked for were offered.
    Count,
    /// Its time was over.
    Duration,
    /// Stopped by a signal.
    Stopped,
    /// The device went away, down, or lost its carrier.
    DeviceGone,
    /// Frames could not be sent any more.
    Failed,
}

/// Frames offered and not sent, for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct Cause {
    /// The cause.
    #[fact(kind = Kind::Word(SendErrors::NAMES))]
    pub cause: &'static str,
    /// The cause in words.
    pub meaning: String,
    /// The number of frames.
    #[fact(unit = "frames")]
    pub count: u64,
}

/// The gaps between the starts of frames in a paced run.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct Gaps {
    /// The requested mean gap.
    pub asked_ns: f64,
    /// The actual mean gap.
    pub mean_ns: f64,
    /// The median gap.
    pub p50_ns: u64,
    /// The 99th percentile of the gaps.
    pub p99_ns: u64,
    /// The longest gap.
    pub max_ns: u64,
    /// The gaps by length.
    pub histogram: Vec<Octave>,
    /// Lengths within 1 %, with their counts.
    #[serde(skip)]
    pub lengths: Vec<(u64, u64)>,
}

/// How far a paced run was behind its schedule, where that was more than 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct Late {
    /// How often the run fell behind; of the thread with the most.
    pub times: u64,
    /// The longest delay; of the thread with the longest.
    pub longest_ns: u64,
    /// Frames sent while catching up; of all threads.
    #[fact(unit = "frames")]
    pub frames: u64,
    /// Part of the schedule that was never made up (`--catch-up 1`, or late at the end); of the
    /// thread with the most.
    pub given_up_ns: u64,
}

/// Times in which the device was down or without carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct LinkInterruptions {
    /// Times that the link was down.
    pub times: u64,
    /// From the last frame before the longest interruption to the first behind it; 0 if none was
    /// sent behind it.
    pub longest_ns: u64,
}

impl LinkInterruptions {
    /// Of a run; `None` if its link was always up.
    pub fn of(Interruptions { times, longest_ns }: Interruptions) -> Option<Self> {
        (times > 0).then_some(Self { times, longest_ns })
    }
}

impl fmt::Display for LinkInterruptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.longest_ns {
            0 => write!(f, "the link went down and did not come back"),
            longest_ns => {
                let times = quantity_of(self.times, "time");
                write!(f, "the link was down {times}, longest interruption {}", human_duration(longest_ns))
            }
        }
    }
}

/// Gaps from half of a length up to that length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct Octave {
    /// A power of two.
    pub below_ns: u64,
    /// The number of values from half of it up to it.
    pub count: u64,
}

/// The result of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct ThreadReport {
    /// CPU of the thread.
    pub cpu: u32,
    /// Frames that it tried to send.
    #[fact(unit = "frames")]
    pub offered: u64,
    /// Frames of it that the driver accepted.
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Time that it sent for.
    pub duration_ns: u64,
}

/// A stream that was sent, as known before the run.
#[derive(Clone, Debug)]
pub struct StreamInfo {
    /// Its name.
    pub name: String,
    /// Its rate.
    pub asked: Option<Asked>,
}

/// The result of one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct StreamCounts {
    /// Name of the stream.
    pub name: String,
    /// CPU of its thread.
    pub cpu: u32,
    /// Frames of it that the engine tried to send; always `sent` + `errors`.
    #[fact(unit = "frames")]
    pub offered: u64,
    /// Frames of it that the driver accepted.
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Frames of it that the driver did not accept.
    #[fact(unit = "frames")]
    pub errors: u64,
    /// Bytes of it that were sent, without FCS.
    pub frame_bytes: u64,
    /// Time from its first frame.
    pub duration_ns: u64,
    /// Frames of it sent per second.
    pub rate_pps: f64,
    /// The requested rate; `null` without a pace.
    pub asked_pps: Option<f64>,
    /// True if the rate was missed by more than 1 % (and 10 ms).
    pub rate_missed: bool,
}

/// The engine that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct EngineChoice {
    /// Name of the engine.
    pub name: &'static str,
    /// Why it was selected, and why not those before it.
    pub why: Vec<String>,
}

/// The whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct Report {
    /// The device.
    pub device: String,
    /// Its network namespace; `null` without `--netns`.
    pub netns: Option<String>,
    /// Version of wirerate.
    pub version: &'static str,
    /// The command line.
    pub argv: Vec<String>,
    /// When the run began, in UTC (RFC 3339).
    pub start_time: String,
    /// The requested start, if there was one.
    #[serde(flatten)]
    pub start: Option<StartReport>,
    /// The neighbour whose MAC address the frames have; `null` with `--dst-mac`, or if none is
    /// needed.
    pub next_hop: Option<NextHopMac>,
    /// Why it ended. `stopped`: by a signal; `device_gone`: deleted, down or no carrier.
    pub end: EndReason,
    /// Frames to send; `null` without such a limit. The exit code of a run with a limit that was
    /// `stopped` is 1.
    #[fact(unit = "frames")]
    pub asked_count: Option<u64>,
    /// The time to send for; `null` without such a limit.
    pub asked_duration_ns: Option<u64>,
    /// Frames that the engine tried to send; always `sent` + `errors`.
    #[fact(unit = "frames")]
    pub offered: u64,
    /// Frames that the driver accepted.
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Frames that the driver did not accept.
    #[fact(unit = "frames")]
    pub errors: u64,
    /// The errors by cause.
    pub error_causes: Vec<Cause>,
    /// Times that a frame found a full queue or ring: it waited, or the next frame took its place.
    /// Not a loss.
    pub retries: u64,
    /// Of `retries`, frames that a full ring dropped and whose place the next frame took (`xdp`;
    /// `af_xdp` in copy mode). Numbers of `receive` and `measure` leave them out.
    #[fact(unit = "frames")]
    pub replaced: u64,
    /// Frames that the counter of the device (`tx_packets`) rose by, of all senders, with the
    /// engines `skb` and `af_packet`; `null` otherwise or if unknown. A note says if many of `sent`
    /// are missing there: a queueing discipline or the driver lost them.
    #[fact(unit = "frames")]
    pub device_counted: Option<u64>,
    /// From the start of the first thread to the end of the last. With a pace, the gap behind the
    /// last frame belongs to the time.
    pub duration_ns: u64,
    /// Frames sent per second.
    pub rate_pps: f64,
    /// Bits sent per second, without FCS.
    pub frame_bps: f64,
    /// Bits sent per second with FCS, preamble and gap.
    pub wire_bps: f64,
    /// Bytes sent, without FCS.
    pub frame_bytes: u64,
    /// The requested rate in frames; `null` without a pace.
    pub asked_pps: Option<f64>,
    /// The requested rate in bits on the wire; only with `--rate`, otherwise `null`.
    pub asked_wire_bps: Option<f64>,
    /// What the run reached of the requested rate; `null` without a pace.
    pub reached_percent: Option<f64>,
    /// True if more than 1 % of the frames, and more than 10 ms of them, are missing for the
    /// requested rate. The exit code is 1 then.
    pub rate_missed: bool,
    /// What kept the threads from sending, the largest share first.
    pub limits: Vec<RunLimit>,
    /// Gaps between the starts of a thread's frames; `null` if the run was not paced.
    pub gaps: Option<Gaps>,
    /// With `--keep-going`: how often the link was down; `null` if it was not.
    pub interruptions: Option<LinkInterruptions>,
    /// How late the run was; `null` if it was not paced or never more than 10 ms late.
    pub late: Option<Late>,
    /// Only with pauses or changes of rate (`--tui`, `--web`). `asked_pps`, `reached_percent` and
    /// `gaps` of the report are `null` then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RateChange>,
    /// CPU time of the process in CPUs (1.0 is one CPU all the time), including start and end.
    #[fact(unit = "CPUs")]
    pub cpus_busy: f64,
    /// One entry per thread.
    pub threads: Vec<ThreadReport>,
    /// One entry per stream of `--streams`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamCounts>,
    /// The engine and why it was chosen.
    pub engine: EngineChoice,
    /// The seed: pass it as `--seed` to repeat the run; below 2^53 unless `--seed` was larger.
    pub seed: u64,
    /// Notes on the options, such as "IPv6 destinations are drawn at random".
    pub notes: Vec<String>,
}

impl Report {
    /// Why a rate was missed, and what to do, as far as known.
    pub fn why_missed(&self, is_veth: bool) -> Option<String> {
        causes_of(&self.limits, is_veth)
    }

    /// How the gaps are distributed, one line per power of two; empty without a pace.
    pub fn histogram(&self) -> String {
        let mut table = Table::default();
        let shares = self.gaps.as_ref().map(Gaps::shares).unwrap_or_default();
        shares.iter().for_each(|share| table.text("", share));
        if shares.is_empty() { String::new() } else { format!("distribution of the gaps:\n{table}") }
    }

    /// The asked rate and the reached one, in the unit in which it was asked.
    fn asked(&self) -> Option<String> {
        let percent = self.reached_percent?;
        // The duration of a short run has a gap less than it has frames.
        let is_short = percent == 100.0;
        let (asked, reached) = match (self.asked_wire_bps, self.asked_pps) {
            (Some(bps), _) => (human_bps(bps), human_bps(if is_short { bps } else { self.wire_bps })),
            (None, pps) => (human_pps(pps?), human_pps(if is_short { pps? } else { self.rate_pps })),
        };
        let digits = if percent < 1.0 { 2 } else { 0 };
        let close = if percent < 99.0 && !self.rate_missed { ", less than 10 ms late" } else { "" };
        Some(format!("{asked}, reached {reached} ({percent:.digits$} %{close})"))
    }

    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&SEND, self)
    }

    /// True if it was stopped before the end that it was given.
    pub fn is_unfinished(&self) -> bool {
        self.end == EndReason::Stopped && (self.asked_count.is_some() || self.asked_duration_ns.is_some())
    }

    fn headline(&self) -> String {
        let end = match self.end {
            EndReason::Count => "",
            EndReason::Duration => "",
            EndReason::Stopped => match (self.asked_count, self.asked_duration_ns) {
                (Some(count), _) => {
                    &format!(", stopped after {} of {}", human_count(self.sent), human_count(count))
                }
                (None, Some(ns)) => {
                    &format!(", stopped after {} of {}", human_duration(self.duration_ns), human_duration(ns))
                }
                (None, None) => ", stopped",
            },
            EndReason::DeviceGone => ", then the device went away",
            EndReason::Failed => ", then it failed",
        };
        let time = human_duration(self.duration_ns);
        format!("{}: {} in {time}{end}", self.place(), quantity_of(self.sent, "frame"))
    }

    fn place(&self) -> String {
        match &self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.clone(),
        }
    }

    fn mean_frame_len(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.frame_bytes as f64 / self.sent as f64 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline())?;
        let mut table = Table::default();
        table.count("offered", self.offered, "");
        table.count("sent", self.sent, &human_pps(self.rate_pps));
        table.loss("errors", self.errors, "");
        for cause in &self.error_causes {
            table.count(&format!("  {}", cause.cause), cause.count, &cause.meaning);
        }
        let waited = self.retries - self.replaced;
        let meaning = match (waited, self.replaced) {
            (_, 0) => "times a queue was full and the frame waited",
            (0, _) => "times the ring was full and the next frame took the place",
            _ => "times a queue was full: the frame waited or was replaced",
        };
        if self.retries > 0 {
            table.count("retries", self.retries, meaning);
        }
        table.text("wire", &format!("{} (with FCS, preamble and gap)", human_bps(self.wire_bps)));
        const FCS_LEN: f64 = 4.0;
        let frame_len = self.mean_frame_len();
        table.text(
            "frames",
            &format!(
                "{} ({frame_len:.1} bytes each, {:.1} with FCS)",
                human_bps(self.frame_bps),
                frame_len + FCS_LEN
            ),
        );
        if let Some(asked) = self.asked() {
            table.text("asked", &asked);
        }
        for (index, change) in self.changes.iter().enumerate() {
            table.text(if index == 0 { "changed" } else { "" }, &change.to_string());
        }
        if let Some(gaps) = &self.gaps {
            table.text("gaps", &gaps.means());
            table.text("", &gaps.quantiles());
        }
        if let Some(interruptions) = &self.interruptions {
            table.text("link", &interruptions.to_string());
        }
        if let Some(late) = &self.late {
            table.text("late", &late.to_string());
        }
        if let Some(start) = &self.start {
            table.text("start", &start.to_string());
        }
        let cpus: Vec<_> = self.threads.iter().map(|thread| thread.cpu.to_string()).collect();
        let s = if cpus.len() == 1 { "" } else { "s" };
        table.text("cpu", &format!("{:.2} busy, sending from CPU{s} {}", self.cpus_busy, cpus.join(", ")));
        if self.threads.len() > 1 {
            for thread in &self.threads {
                let rate = human_pps(per_second(thread.sent, thread.duration_ns));
                table.count(&format!("  CPU {}", thread.cpu), thread.sent, &rate);
            }
        }
        if !self.streams.is_empty() {
            table.count("streams", self.streams.len() as u64, "");
        }
        for stream in self.streams.iter().take(STREAMS_SHOWN) {
            let StreamCounts { name, sent, rate_pps, errors, .. } = stream;
            let errors =
                if *errors > 0 { format!(", {}", quantity_of(*errors, "error")) } else { String::new() };
            table.count(&format!("  {name}"), *sent, &(human_pps(*rate_pps) + &errors));
        }
        if let Some(rest) = self.streams.len().checked_sub(STREAMS_SHOWN).filter(|rest| *rest > 0) {
            table.text("", &format!("and {} (--json shows all)", quantity_of(rest as u64, "more stream")));
        }
        if let Some(next_hop) = &self.next_hop {
            table.text("next hop", &next_hop.to_string());
        }
        table.text("engine", self.engine.name);
        self.engine.why.iter().for_each(|why| table.text("", why));
        self.notes.iter().for_each(|note| table.note(note));
        fmt::Display::fmt(&table, f)
    }
}

/// Streams that the text has a line for.
const STREAMS_SHOWN: usize = 20;
/// Octaves with a smaller share of all gaps have no line of their own.
const SHARE_MIN: f64 = 0.001;

impl Gaps {
    fn means(&self) -> String {
        let [asked, mean] = [self.asked_ns, self.mean_ns].map(|ns| human_duration(ns.round() as u64));
        format!("asked {asked}, mean {mean}")
    }

    fn quantiles(&self) -> String {
        let [p50, p99, max] = [self.p50_ns, self.p99_ns, self.max_ns].map(human_duration);
        format!("p50 {p50}, p99 {p99}, max {max}")
    }

    /// The octaves with most gaps as shares, and the rest in one line.
    fn shares(&self) -> Vec<String> {
        let total: u64 = self.histogram.iter().map(|octave| octave.count).sum();
        let share = |count: u64| count as f64 / total.max(1) as f64;
        let (large, small): (Vec<Octave>, Vec<Octave>) =
            self.histogram.iter().partition(|octave| share(octave.count) >= SHARE_MIN);
        let line = |octave: &Octave| {
            let below = format!("below {}", human_duration(octave.below_ns));
            format!("{below:16}  {:5.1} %", share(octave.count) * 100.0)
        };
        let mut lines: Vec<String> = large.iter().map(line).collect();
        let rest: u64 = small.iter().map(|octave| octave.count).sum();
        lines.extend((rest > 0).then(|| format!("{:16}  {:>5}", "others", human_count(rest))));
        lines
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [longest, given_up] = [self.longest_ns, self.given_up_ns].map(human_duration);
        let frames = quantity_of(self.frames, "frame");
        match self.given_up_ns {
            0 => write!(f, "{frames} over 10 ms, max {longest}; all made up"),
            _ => write!(f, "{frames} over 10 ms, max {longest}; {given_up} never made up"),
        }
    }
}

/// The part of the report that is known before the run.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// The device.
    pub device: String,
    /// Its namespace, where one was named.
    pub netns: Option<String>,
    /// The neighbour whose MAC address the frames have, unless it was given.
    pub next_hop: Option<NextHopMac>,
    /// When the run began, in UTC.
    pub start_time: String,
    /// The requested start, if there was one.
    pub start_at: Option<StartTime>,
    /// The command line.
    pub argv: Vec<String>,
    /// Mean time between frames that was asked for, in picoseconds; 0 for none.
    pub interval_ps: u64,
    /// The rate of a paced run.
    pub asked: Option<Asked>,
    /// The device is one end of a veth pair.
    pub is_veth: bool,
    /// The seed that repeats the run.
    pub seed: u64,
    /// Notes for the user, such as "IPv6 destinations are drawn at random".
    pub notes: Vec<String>,
    /// The streams, one per worker result; empty for a run of one.
    pub streams: Vec<StreamInfo>,
    /// Frames to send; 0 for no limit.
    pub count: u64,
    /// Time to send for; 0 for no limit.
    pub duration_ns: u64,
}

/// Adds up the results of the workers. `cpus_busy` is the CPU time that the process used, in CPUs;
/// `changes` are those of the rate while frames were sent.
pub fn sum_up(mut info: RunInfo, done: &[WorkerResult], cpus_busy: f64, changes: Vec<RateChange>) -> Report {
    if !changes.is_empty() {
        info.asked = None;
        info.streams.iter_mut().for_each(|stream| stream.asked = None);
    }
    let mut total = Burst::default();
    done.iter().for_each(|done| total.add(&done.run.total));
    let replaced = total.replaced();
    let total = total.with_retries();
    let started_ns = done.iter().map(|done| done.run.started_ns).min().unwrap_or(0);
    let stopped_ns = done.iter().map(|done| done.run.stopped_ns).max().unwrap_or(0);
    let duration_ns = stopped_ns.saturating_sub(started_ns);
    let first_late_ns = done.iter().filter_map(|done| done.run.first_late_ns).min();
    let streams: Vec<_> = info.streams.iter().zip(done).map(stream).collect();
    let frame_bytes = share_of(total.frame_bytes, total.sent, total.offered());
    let filled_ns = info.asked.map_or(duration_ns, |asked| asked.filled_ns(total.sent, duration_ns));
    let rate = |bytes: u64| per_second(bytes.saturating_mul(8), filled_ns);
    let rate_missed = info.asked.is_some_and(|asked| asked.is_missed(total.sent, duration_ns))
        || streams.iter().any(|stream| stream.rate_missed);
    let limits = limits(done);
    let missed = rate_missed.then(|| missed(causes_of(&limits, info.is_veth)));
    Report {
        device: info.device,
        netns: info.netns,
        version: env!("CARGO_PKG_VERSION"),
        argv: info.argv,
        start_time: info.start_time,
        start: info.start_at.map(|start_at| StartReport::new(start_at, first_late_ns)),
        next_hop: info.next_hop,
        end: end(done),
        asked_count: Some(info.count).filter(|count| *count > 0),
        asked_duration_ns: Some(info.duration_ns).filter(|ns| *ns > 0),
        offered: total.offered(),
        sent: total.sent,
        errors: total.errors.total(),
        error_causes: causes(&total.errors),
        retries: total.retries,
        replaced,
        device_counted: None,
        duration_ns,
        rate_pps: per_second(total.sent, filled_ns),
        frame_bps: rate(frame_bytes),
        wire_bps: rate(wire_bytes(frame_bytes, total.sent)),
        frame_bytes,
        asked_pps: info.asked.map(|asked| asked.pps),
        asked_wire_bps: info.asked.and_then(|asked| asked.wire_bps),
        reached_percent: info.asked.map(|asked| asked.reached(total.sent, duration_ns) * 100.0),
        rate_missed,
        limits,
        // Gaps between frames of different streams are not those of any.
        gaps: if streams.is_empty() && changes.is_empty() { gaps(done, info.interval_ps) } else { None },
        interruptions: interruptions(done),
        late: late(done),
        changes,
        cpus_busy,
        threads: threads(done),
        streams,
        engine: choice(done),
        seed: info.seed,
        notes: missed.into_iter().chain(info.notes).chain(engine_notes(done)).collect(),
    }
}

/// The note of a paced run that was too slow, with its causes.
fn missed(causes: Option<String>) -> String {
    let text = "the rate was missed by more than 1 %, so the exit code is 1";
    causes.map_or_else(|| text.to_owned(), |causes| format!("{text}: {causes}"))
}

/// The causes of a missed rate that are known, and what to do.
fn causes_of(limits: &[RunLimit], is_veth: bool) -> Option<String> {
    let causes: Vec<_> = limits.iter().map(|limit| limit.meaning.as_str()).collect();
    let advice = limits::advice(limits, is_veth).map(|advice| format!("try {advice}"));
    let parts = [Some(causes.join(", ")).filter(|causes| !causes.is_empty()), advice];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The notes of the engines, each text once.
fn engine_notes(done: &[WorkerResult]) -> BTreeSet<String> {
    done.iter().filter_map(|done| done.run.note.clone()).collect()
}

/// The interruptions of the thread with the longest.
fn interruptions(done: &[WorkerResult]) -> Option<LinkInterruptions> {
    let all = done.iter().map(|done| done.run.interruptions);
    all.max_by_key(|one| (one.longest_ns, one.times)).and_then(LinkInterruptions::of)
}

/// How late the threads were, where one was.
fn late(done: &[WorkerResult]) -> Option<Late> {
    let all = || done.iter().map(|done| &done.run.lateness);
    let late = Late {
        times: all().map(|late| late.times).max()?,
        longest_ns: all().map(|late| late.longest_ns).max()?,
        frames: all().map(|late| late.frames).sum(),
        given_up_ns: all().map(|late| late.given_up_ns).max()?,
    };
    (late.times > 0 || late.given_up_ns > 0).then_some(late)
}

/// Why the run failed, if it did.
pub fn failure(done: Vec<WorkerResult>) -> Option<EngineError> {
    done.into_iter().find_map(|done| match done.run.end {
        engine::End::Failed(error) => Some(error),
        _ => None,
    })
}

/// The part of `whole` that belongs to `some` of `all`.
fn share_of(whole: u64, some: u64, all: u64) -> u64 {
    if all == 0 { 0 } else { (u128::from(whole) * u128::from(some) / u128::from(all)) as u64 }
}

/// Bytes on the wire, where short frames are padded. For mixed lengths the mean decides: only sizes
/// of 58 and 59 are below the minimum.
pub(super) fn wire_bytes(frame_bytes: u64, frames: u64) -> u64 {
    frame_bytes.max(frames * u64::from(FRAME_LEN_MIN)) + frames * u64::from(WIRE_OVERHEAD)
}

/// The most serious end: a failure before a stop before the rest.
fn end(done: &[WorkerResult]) -> EndReason {
    let ends = done.iter().map(|done| match &done.run.end {
        engine::End::Failed(error) if error.is_device_gone() => EndReason::DeviceGone,
        engine::End::Failed(_) => EndReason::Failed,
        engine::End::Stopped => EndReason::Stopped,
        engine::End::Duration => EndReason::Duration,
        engine::End::Count => EndReason::Count,
    });
    let weight = |end: &EndReason| match end {
        EndReason::Count => 0,
        EndReason::Duration => 1,
        EndReason::Stopped => 2,
        EndReason::DeviceGone => 3,
        EndReason::Failed => 4,
    };
    ends.max_by_key(weight).unwrap_or(EndReason::Count)
}

fn causes(errors: &engine::Errors) -> Vec<Cause> {
    let meaning = |fact: &Fact| match (fact.name, errors.last_errno) {
        ("refused", 1..) => {
            format!("{}: {}", fact.remark(), io::Error::from_raw_os_error(errors.last_errno))
        }
        _ => fact.remark(),
    };
    errors
        .causes
        .present()
        .map(|(fact, count)| Cause { cause: fact.name, meaning: meaning(fact), count })
        .collect()
}

/// Gaps of all threads. Of N threads each sends at 1/N of the rate, so the requested gap is N times
/// as long.
fn gaps(done: &[WorkerResult], interval_ps: u64) -> Option<Gaps> {
    let mut all = done.iter().filter_map(|done| done.run.gaps.as_ref());
    let mut sum = all.next()?.clone();
    all.for_each(|gaps| sum.add(gaps));
    if sum.count() == 0 {
        return None;
    }
    Some(Gaps {
        asked_ns: interval_ps as f64 / 1000.0 * done.len() as f64,
        mean_ns: sum.mean_ns(),
        p50_ns: sum.quantile_ns(0.5),
        p99_ns: sum.quantile_ns(0.99),
        max_ns: sum.max_ns(),
        lengths: sum.lengths(),
        histogram: sum
            .log2_buckets()
            .into_iter()
            .map(|(below_ns, count)| Octave { below_ns, count })
            .collect(),
    })
}

/// The threads; one may have had several runs.
fn threads(done: &[WorkerResult]) -> Vec<ThreadReport> {
    let mut threads: Vec<ThreadReport> = Vec::new();
    for done in done {
        let total = done.run.total.with_retries();
        let (cpu, sent, duration_ns) = (done.cpu, total.sent, done.run.elapsed_ns());
        let offered = total.offered();
        match threads.iter_mut().find(|thread| thread.cpu == cpu) {
            None => threads.push(ThreadReport { cpu, offered, sent, duration_ns }),
            Some(thread) => {
                thread.offered += offered;
                thread.sent += sent;
                thread.duration_ns = thread.duration_ns.max(duration_ns);
            }
        }
    }
    threads
}

fn stream((info, done): (&StreamInfo, &WorkerResult)) -> StreamCounts {
    let (total, duration_ns) = (done.run.total.with_retries(), done.run.elapsed_ns());
    let filled_ns = info.asked.map_or(duration_ns, |asked| asked.filled_ns(total.sent, duration_ns));
    StreamCounts {
        name: info.name.clone(),
        cpu: done.cpu,
        offered: total.offered(),
        sent: total.sent,
        errors: total.errors.total(),
        frame_bytes: share_of(total.frame_bytes, total.sent, total.offered()),
        duration_ns,
        rate_pps: per_second(total.sent, filled_ns),
        asked_pps: info.asked.map(|asked| asked.pps),
        rate_missed: info.asked.is_some_and(|asked| asked.is_missed(total.sent, duration_ns)),
    }
}

fn choice(done: &[WorkerResult]) -> EngineChoice {
    let mut why: Vec<_> = done.iter().map(|done| done.why.clone()).filter(|why| !why.is_empty()).collect();
    why.dedup();
    let name = done.iter().find_map(|done| done.run.engine).map_or("none", engine::EngineKind::name);
    EngineChoice { name, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{EngineKind, Errors, Lateness, RunReport};
    use facts::SendErrors;
    use packet::Cursor;
    use testkit::golden;

    fn report() -> Report {
        Report {
            device: "veth0".into(),
            netns: None,
            version: "1.0.0",
            argv: ["wirerate", "send", "veth0"].map(str::to_owned).into(),
            start_time: "2026-11-22T02:15:00.000Z".into(),
            start: None,
            next_hop: None,
            end: EndReason::Count,
            asked_count: Some(10_000_000),
            asked_duration_ns: None,
            offered: 10_000_000,
            sent: 10_000_000,
            errors: 0,
            error_causes: Vec::new(),
            retries: 0,
            replaced: 0,
            device_counted: Some(10_000_000),
            duration_ns: 512_000_000,
            rate_pps: 19_531_250.0,
            frame_bps: 9.375e9,
            wire_bps: 13.125e9,
            frame_bytes: 600_000_000,
            asked_pps: None,
            asked_wire_bps: None,
            reached_percent: None,
            rate_missed: false,
            limits: Vec::new(),
            gaps: None,
            interruptions: None,
            late: None,
            changes: Vec::new(),
            cpus_busy: 1.02,
            threads: vec![ThreadReport {
                cpu: 1,
                offered: 10_000_000,
                sent: 10_000_000,
                duration_ns: 512_000_000,
            }],
            engine: EngineChoice { name: "xdp", why: vec!["veth with a peer that takes XDP frames".into()] },
            streams: Vec::new(),
            seed: 7,
            notes: Vec::new(),
        }
    }

    fn bad_report() -> Report {
        let thread = |cpu, sent| ThreadReport { cpu, offered: 500_000, sent, duration_ns: 1_000_000_000 };
        let cause = |cause, meaning: &str, count| Cause { cause, meaning: meaning.into(), count };
        Report {
            netns: Some("lab".into()),
            next_hop: Some(NextHopMac {
                ip: [198, 18, 0, 2].into(),
                mac: packet::MacAddr([2, 0, 0, 0, 0, 2]),
            }),
            end: EndReason::Stopped,
            asked_count: Some(2_000_000),
            offered: 1_000_000,
            sent: 999_000,
            errors: 1_000,
            error_causes: vec![
                cause("invalid", "the kernel found their descriptors invalid", 900),
                cause("refused", "the driver refused them: ENETDOWN", 100),
            ],
            retries: 12_345,
            replaced: 345,
            duration_ns: 1_000_000_000,
            rate_pps: 999_000.0,
            asked_pps: Some(1e6),
            reached_percent: Some(99.9),
            gaps: Some(Gaps {
                asked_ns: 1000.0,
                mean_ns: 1000.4,
                p50_ns: 1_000,
                p99_ns: 1_210,
                max_ns: 33_000,
                lengths: Vec::new(),
                histogram: [(1024, 611_000), (2048, 387_000), (4096, 900), (65_536, 98)]
                    .map(|(below_ns, count)| Octave { below_ns, count })
                    .into(),
            }),
            late: Some(Late {
                times: 2,
                longest_ns: 20_000_000_000,
                frames: 2_000_000,
                given_up_ns: 1_500_000_000,
            }),
            threads: vec![thread(0, 500_000), thread(3, 499_000)],
            notes: vec!["IPv6 destinations are drawn at random".into()],
            ..report()
        }
    }

    #[test]
    fn a_report_reads_like_this() {
        golden("report_send.txt", &report().to_string());
        golden("report_send_bad.txt", &(bad_report().to_string() + &bad_report().histogram()));
        let long = |line: &str| line.chars().count() > 80;
        assert_eq!(bad_report().to_string().lines().find(|line| long(line)), None);
    }

    #[test]
    fn a_report_is_one_line_of_json() {
        golden("report_send.json", &(report().json_line() + &bad_report().json_line()));
    }

    fn run(end: engine::End, sent: u64, errors: Errors, stopped_ns: u64) -> RunReport {
        let frame_bytes = (sent + errors.total()) * 100;
        RunReport {
            end,
            engine: Some(EngineKind::Xdp),
            total: Burst { sent, errors, frame_bytes, retries: sent / 100 },
            started_ns: 1_000_000_000,
            stopped_ns,
            first_late_ns: (sent > 0).then_some(1_000),
            idle_ns: 0,
            gaps: None,
            note: None,
            lateness: Lateness::default(),
            interruptions: Interruptions::default(),
            cpu: host::CpuUse::default(),
            cursor: Cursor::default(),
            next_ns: None,
        }
    }

    fn done(cpu: u32, run: RunReport) -> WorkerResult {
        WorkerResult { cpu, run, why: "because".into() }
    }

    fn info(asked: Option<Asked>) -> RunInfo {
        RunInfo {
            device: "d".into(),
            is_veth: false,
            netns: None,
            next_hop: None,
            start_time: String::new(),
            start_at: None,
            argv: Vec::new(),
            interval_ps: 0,
            asked,
            seed: 1,
            notes: Vec::new(),
            streams: Vec::new(),
            count: 0,
            duration_ns: 0,
        }
    }

    fn add_up(done: &[WorkerResult]) -> Report {
        sum_up(info(None), done, 1.5, Vec::new())
    }

    #[test]
    fn threads_sum_up_and_offered_is_sent_and_errors() {
        let causes = SendErrors { refused: 5, not_handed_over: 1, ..SendErrors::default() };
        let errors = Errors { ring_full: 10, last_errno: 100, causes };
        let done = [
            done(0, run(engine::End::Count, 1000, Errors::default(), 1_500_000_000)),
            done(1, run(engine::End::Count, 900, errors, 2_000_000_000)),
        ];
        let report = add_up(&done);
        assert_eq!((report.offered, report.sent, report.errors), (1906, 1900, 6));
        assert_eq!((report.retries, report.replaced), (29, 10), "10 frames met a full ring");
        assert_eq!(report.error_causes.iter().map(|cause| cause.count).collect::<Vec<_>>(), [5, 1]);
        assert!(report.error_causes[0].meaning.contains("Network is down"));
        assert_eq!((report.duration_ns, report.rate_pps), (1_000_000_000, 1900.0));
        assert_eq!((report.frame_bytes, report.frame_bps), (190_000, 1_520_000.0));
        assert_eq!(report.wire_bps, 124.0 * 8.0 * 1900.0);
        assert_eq!((report.cpus_busy, report.engine.name), (1.5, "xdp"));
        assert_eq!(report.engine.why, ["because"]);
    }

    /// Without a note and exit code 0, a script took such a run for one of 400 Gbit/s.
    #[test]
    fn a_rate_that_was_not_reached_is_said() {
        let asked = Asked { pps: 1000.0, wire_bps: Some(400e9), ramp: None, group: 1, is_random: false };
        let done = [done(0, run(engine::End::Duration, 70, Errors::default(), 2_000_000_000))];
        let report = sum_up(info(Some(asked)), &done, 1.0, Vec::new());
        assert!(
            report.rate_missed && report.notes[0].contains("so the exit code is 1: calls of the kernel"),
            "{report:?}"
        );
        assert_eq!(report.reached_percent.map(f64::round), Some(7.0));
        let text = report.to_string();
        assert!(text.contains("asked    400.0 Gbit/s, reached 69.44 kbit/s (7 %)"), "{text}");
        assert!(!sum_up(info(None), &done, 1.0, Vec::new()).rate_missed);
    }

    /// A pause is no missed rate, and the gap of a pause is no gap between frames.
    #[test]
    fn a_run_whose_rate_was_changed_lists_the_changes_only() {
        let asked = Asked { pps: 1000.0, wire_bps: None, ramp: None, group: 1, is_random: false };
        let done = [done(0, run(engine::End::Duration, 70, Errors::default(), 2_000_000_000))];
        let change = |elapsed_ns, paused, asked_pps| RateChange {
            elapsed_ns,
            paused,
            asked_pps,
            asked_wire_bps: None,
        };
        let changes = vec![change(500_000_000, true, Some(1000.0)), change(900_000_000, false, Some(1100.0))];
        let report = sum_up(info(Some(asked)), &done, 1.0, changes);
        assert!(!report.rate_missed && report.notes.is_empty() && report.gaps.is_none(), "{report:?}");
        let text = report.to_string();
        assert!(
            text.contains("  changed  paused from 500.0 ms on\n           1.100 kpps from 900.0 ms on\n"),
            "{text}"
        );
        assert!(!text.contains("asked"), "{text}");
        assert!(report.json_line().contains("\"changes\":[{\"elapsed_ns\":500000000,\"paused\":true,"));
    }

    #[test]
    fn the_worst_end_is_told() {
        let gone = || engine::End::Failed(EngineError::Gone { ifname: "d".into() });
        let one = |end| done(0, run(end, 0, Errors::default(), 1_000_000_000));
        let ends = |ends: Vec<engine::End>| add_up(&ends.into_iter().map(one).collect::<Vec<_>>()).end;
        assert_eq!(ends(vec![engine::End::Count, engine::End::Stopped]), EndReason::Stopped);
        assert_eq!(ends(vec![gone(), engine::End::Stopped]), EndReason::DeviceGone);
        assert!(failure(vec![one(engine::End::Count), one(gone())]).is_some());
    }

    #[test]
    fn a_run_of_no_time_and_no_frames_has_no_rates() {
        let report = add_up(&[done(0, run(engine::End::Stopped, 0, Errors::default(), 1_000_000_000))]);
        assert_eq!((report.rate_pps, report.wire_bps, report.frame_bps), (0.0, 0.0, 0.0));
    }
}
