//! The measuring receiver beside a program that only drops: frames per second with sender and
//! receiver on one CPU, for stamps of all frames, of 1 in 64, and of 1 in 65,536, which leaves the
//! window of numbers.

use crate::generators::{Contender, SendJob};
use crate::programs::ToolProgram;
use crate::report::{self, BenchReport, LoadPoint, ResultRow, mpps};
use crate::rig::Rig;
use crate::running::Running;
use crate::samples::rate_pps;
use crate::schedule::{Rounds, interleaved};
use crate::stats::Estimate;
use crate::table::SizeTimes;
use crate::testbed::Testbed;
use anyhow::{Context, Result, ensure};
use bpf::sys::{ProgRun, prog_run};
use bpf::xdp::{XdpLink, XdpModeChoice};
use bpf::{Receiver, ReceiverParams, Sink, SinkVerdict};
use serde::Serialize;
use std::os::fd::AsFd;
use std::path::PathBuf;

const CASE: &str = "receive";
const FRAME_LEN: usize = 60;
const FLOWS: u32 = 65_536;
/// The sender: the time in each frame.
const SENDER: &str = "xdp/time";
const SINK: &str = "sink";
/// Runs of a program alone: each flow has 32 frames.
const PROGRAM_RUNS: u32 = 32 * FLOWS;
/// What the program with everything may cost above the one that drops.
const PROGRAM_NS_GOAL: f64 = 30.0;

/// What receives, and which part of the sink's rate is the goal.
struct RxContender {
    name: &'static str,
    title: &'static str,
    /// One in 2^n frames is stamped; `None` for the sink.
    stamp_shift: Option<u32>,
    goal: Option<f64>,
}

/// The sink first: all others are compared with it.
const CONTENDERS: [RxContender; 4] = [
    RxContender { name: SINK, title: "XDP_DROP", stamp_shift: None, goal: None },
    RxContender {
        name: "receive",
        title: "receive, every frame stamped",
        stamp_shift: Some(0),
        goal: Some(0.55),
    },
    RxContender {
        name: "receive-64",
        title: "receive, 1 in 64 stamped",
        stamp_shift: Some(6),
        goal: Some(0.88),
    },
    RxContender {
        name: "receive-window",
        title: "receive, window only",
        stamp_shift: Some(16),
        goal: Some(0.85),
    },
];

/// One measured run.
#[derive(Debug, Serialize)]
struct Received {
    case: &'static str,
    round: usize,
    tool: &'static str,
    #[serde(flatten)]
    cell: LoadPoint,
    rate_pps: f64,
}

/// A program at the receiving device; dropping it takes it off.
struct AttachedReceiver {
    receiver: Receiver,
    _link: XdpLink,
}

fn load(stamp_shift: u32, counts_up: bool) -> Result<Receiver> {
    let receiver = Receiver::load(&ReceiverParams {
        verdict: SinkVerdict::Drop,
        reflect_as: None,
        flow_count: FLOWS,
        stream_count: 1,
        carried_flows: 0,
        is_shared: false,
        has_details: false,
        has_tags: false,
        has_wide_window: false,
        stamps_of: None,
        has_test_clock: false,
        counts_up,
    })?;
    receiver.set_stamp_shift(stamp_shift);
    receiver.set_wall_offset_ns(host::ClockOffset::measure().offset_ns.cast_unsigned());
    Ok(receiver)
}

impl AttachedReceiver {
    fn new(bed: &Testbed, stamp_shift: u32) -> Result<Self> {
        let receiver = load(stamp_shift, false)?;
        let end = bed.rx();
        let attach = || receiver.attach(end.index, end.ifname, XdpModeChoice::Native);
        let link = end.netns().run(attach)??;
        Ok(Self { receiver, _link: link })
    }

    /// All frames were measured, each once. The run was stopped in the middle of a burst.
    fn check(&self) -> Result<()> {
        let unique: u64 = self.receiver.lines().map(|line| line.unique()).sum();
        let totals = self.receiver.totals();
        ensure!(
            (totals.received, unique) == (totals.frames - totals.others.foreign, totals.received)
                && unique > 0,
            "{unique} first copies of {} frames, {} foreign",
            totals.frames,
            totals.others.foreign
        );
        Ok(())
    }
}

/// Nanoseconds of a run of the program alone, for the frames of a stream one after another.
fn program_ns(contender: &RxContender) -> Result<f64> {
    let mut frame = vec![0; FRAME_LEN];
    // The signature behind Ethernet, IPv4 and UDP, with a time long ago.
    frame[42..58].copy_from_slice(&[0xbe, 0x9b, 0xe9, 0x55, 0, 0, 0, 0, 0x65, 0, 0, 0, 0, 0, 0, 0]);
    let run = |program| {
        let mut run = ProgRun { data_in: &frame, repeat: PROGRAM_RUNS, ..ProgRun::default() };
        prog_run(program, &mut run)
    };
    let ran = match contender.stamp_shift {
        Some(shift) => run(load(shift, true)?.as_fd()),
        None => run(Sink::load()?.as_fd()),
    };
    Ok(ran.context("cannot run the program")?.duration_ns.into())
}

/// Everything that a run needs.
struct ReceiveTrials<'a> {
    bed: &'a Testbed,
    times: &'a SizeTimes,
    wirerate: PathBuf,
    sender: Contender,
    cpus: Vec<u32>,
}

/// Measures all contenders in turn.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, programs, plan, deadline, report, .. } = rig;
    let times = &plan.times;
    report.say(&format!(
        "\n{CASE}: {FRAME_LEN}-byte frames of {FLOWS} flows, sender and receiver on one CPU; {} rounds",
        times.rounds
    ))?;
    let wirerate = programs.find(ToolProgram::Wirerate).context("there is no wirerate to measure")?;
    let cpus = bed.cpus(1).context("there is no CPU")?;
    let ground = ReceiveTrials { bed, times, wirerate, sender: Contender::of(SENDER)?, cpus };
    let cell = LoadPoint { frame_len: FRAME_LEN, cpus: 1 };
    let mut rates = Rounds::new(CONTENDERS.len());
    for turn in interleaved(CONTENDERS.len(), times.rounds) {
        if turn.contender == 0 && turn.round > 0 && deadline.is_over() {
            break;
        }
        let contender = &CONTENDERS[turn.contender];
        let tool = contender.name;
        let rate_pps = ground.measure(contender).with_context(|| format!("cannot measure {tool}"))?;
        report.row("received", &Received { case: CASE, round: turn.round, tool, cell, rate_pps })?;
        rates.push(turn, rate_pps);
    }
    programs_alone(times.rounds, report)?;
    for (index, contender) in CONTENDERS.iter().enumerate() {
        let Some(rate) = Estimate::of(rates.of(index)) else { continue };
        report.say(&format!("  {:>18}  {}", mpps(rate), contender.title))?;
        report.row("result", &ResultRow::rate(CASE, contender.name, rate).at(cell))?;
    }
    for (index, contender) in CONTENDERS.iter().enumerate().skip(1) {
        let Some(ratio) = Estimate::of_ratios(rates.of(index), rates.of(0)) else { continue };
        let goal = report::goal(contender.goal);
        report.say(&format!("  {}: {ratio} x of {}{goal}", contender.title, CONTENDERS[0].title))?;
        report
            .row("result", &ResultRow::ratio(CASE, contender.name, SINK, ratio, contender.goal).at(cell))?;
    }
    Ok(())
}

/// What each program costs by itself, above the one that drops.
fn programs_alone(rounds: usize, report: &BenchReport) -> Result<()> {
    let mut costs = Rounds::new(CONTENDERS.len());
    for turn in interleaved(CONTENDERS.len(), rounds) {
        costs.push(turn, program_ns(&CONTENDERS[turn.contender])?);
    }
    for (index, contender) in CONTENDERS.iter().enumerate().skip(1) {
        let above: Vec<f64> =
            costs.of(index).iter().zip(costs.of(0)).map(|(ours, sink)| ours - sink).collect();
        let Some(above) = Estimate::of(&above) else { continue };
        let goal = report::goal((contender.stamp_shift == Some(0)).then_some(PROGRAM_NS_GOAL));
        report
            .say(&format!("  {}: program {above} ns above {}{goal}", contender.title, CONTENDERS[0].title))?;
        report.row("result", &ResultRow::time(CASE, contender.name, "program_ns", above))?;
    }
    Ok(())
}

impl ReceiveTrials<'_> {
    /// Attaches the program, sends, and measures in the middle of it.
    fn measure(&self, contender: &RxContender) -> Result<f64> {
        let bed = self.bed;
        let receiver = contender.stamp_shift.map(|shift| AttachedReceiver::new(bed, shift)).transpose()?;
        let _sink = receiver.is_none().then(|| bed.sink()).transpose()?;
        let before = bed.settled()?;
        let job = SendJob {
            count: self.sender.tool.plenty,
            work: self.sender.work,
            ..SendJob::plain(bed.tx(), &self.cpus, FRAME_LEN)
        };
        let mut running = Running::start(&self.wirerate, &self.sender, &job)?;
        running.until_frames_come(bed, before)?;
        bed.stop.sleep(self.times.settle())?;
        let from = bed.sample()?;
        bed.stop.sleep(self.times.window())?;
        let to = bed.sample()?;
        running.still_runs()?;
        running.stop(&bed.stop)?;
        bed.settled()?;
        if let Some(receiver) = &receiver {
            receiver.check()?;
        }
        rate_pps(from, to).context("no time passed")
    }
}
