//! How memory, CPU time and rate change with longer runs, more instances and more captured frames.
//!
//! Each row compares wirerate with a smaller run of itself.

use crate::capturers::{Flood, paced};
use crate::generators::{Contender, SendJob};
use crate::process::Tool;
use crate::programs::{ToolProgram, netns, owned};
use crate::report::mpps;
use crate::rig::Rig;
use crate::running::Running;
use crate::samples::rate_pps;
use crate::stats::Estimate;
use crate::table::SizeTimes;
use crate::testbed::Testbed;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

const CASE: &str = "growth";
const FRAME_LEN: usize = 60;
/// Frames a second that a capture gets.
const CAPTURE_PPS: f64 = 4e6;

/// One step of growth.
#[derive(Debug, Serialize)]
struct Grown {
    case: &'static str,
    tool: &'static str,
    /// What grows: `seconds`, `instances`, `frames` (captured).
    what: &'static str,
    value: f64,
    /// At the receiver: of a run the last moments of it, of a capture all of it.
    rate_pps: f64,
    cpu_ns_per_frame: f64,
    /// Resident, at its highest.
    memory_bytes: u64,
}

struct GrowthTrials<'a> {
    bed: &'a Testbed,
    times: &'a SizeTimes,
    wirerate: PathBuf,
    cpus: Vec<u32>,
}

/// Measures all of it.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, programs, plan, deadline, report, .. } = rig;
    let wirerate = programs.find(ToolProgram::Wirerate).context("there is no wirerate to measure")?;
    let cpus = bed.cpus(2).or_else(|| bed.cpus(1)).context("there is no CPU")?;
    report.say(&format!("\n{CASE}: {FRAME_LEN}-byte frames; rate at the receiver, memory at its highest"))?;
    let ground = GrowthTrials { bed, times: &plan.times, wirerate, cpus };
    let times = &plan.times;
    let runs = times.seconds.iter().map(|seconds| GrowthStep::Seconds(*seconds));
    let instances = times.instances.iter().map(|count| GrowthStep::Instances(*count));
    let captured = times.captured.iter().map(|frames| GrowthStep::Captured(*frames));
    for step in runs.chain(instances).chain(captured) {
        if deadline.is_over() {
            return report.warn("time is up");
        }
        let row = ground.step(step).with_context(|| format!("cannot measure {step:?}"))?;
        let rate = mpps(Estimate { median: row.rate_pps, spread: 0.0, count: 1 });
        report.say(&format!(
            "  {:>11} {:9}  {rate:>10}  {:>6.1} ns of CPU a frame  {:>6.1} MB  {}",
            row.value,
            row.what,
            row.cpu_ns_per_frame,
            row.memory_bytes as f64 / 1e6,
            row.tool
        ))?;
        report.row("grown", &row)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum GrowthStep {
    Seconds(f64),
    Instances(u64),
    Captured(u64),
}

impl GrowthTrials<'_> {
    fn step(&self, step: GrowthStep) -> Result<Grown> {
        match step {
            GrowthStep::Seconds(seconds) => {
                let mut row = self.send("xdp", 1, &self.cpus[..1], Duration::from_secs_f64(seconds))?;
                (row.what, row.value) = ("seconds", seconds);
                Ok(row)
            }
            GrowthStep::Instances(count) => {
                let mut row = self.send("files", count, &self.cpus, self.times.window())?;
                (row.what, row.value) = ("instances", count as f64);
                Ok(row)
            }
            GrowthStep::Captured(frames) => self.capture(frames),
        }
    }

    /// Sends for a while and measures the last of it.
    fn send(&self, tool: &'static str, instances: u64, cpus: &[u32], time: Duration) -> Result<Grown> {
        let (bed, contender) = (self.bed, Contender::of(tool)?);
        let _sink = bed.sink()?;
        let before = bed.settled()?;
        let job =
            SendJob { instances, count: contender.tool.plenty, ..SendJob::plain(bed.tx(), cpus, FRAME_LEN) };
        let mut running = Running::start(&self.wirerate, &contender, &job)?;
        running.until_frames_come(bed, before)?;
        let window = self.times.window().min(time);
        bed.stop.sleep(self.times.settle() + time.saturating_sub(window))?;
        let from = bed.sample()?;
        bed.stop.sleep(window)?;
        // A sender that had no CPU in a short window has no rate yet.
        running.until_frames_come(bed, from)?;
        let to = bed.sample()?;
        running.still_runs()?;
        let memory_bytes = running.memory_peak_bytes()?;
        let ended = running.stop(&bed.stop)?;
        let life = bed.settled()?.frames - before.frames;
        let rate_pps = rate_pps(from, to).context("no time passed")?;
        let cpu_ns_per_frame = ended.cpu_ns as f64 / life.max(1) as f64;
        Ok(Grown { case: CASE, tool, what: "", value: 0.0, rate_pps, cpu_ns_per_frame, memory_bytes })
    }

    /// Captures into `/dev/null`.
    fn capture(&self, frames: u64) -> Result<Grown> {
        let bed = self.bed;
        let (rx, tx, cpu) = (bed.rx(), bed.tx(), bed.generator_cpu);
        let words =
            [owned(&["capture", rx.ifname, "--mode", "drop", "--write", "/dev/null"]), netns(rx)].concat();
        let capture = Tool::start(&self.wirerate, &words, rx.netns(), bed.capture_cpu)?;
        capture.until_it_says("capturing on", &bed.stop)?;
        let before = bed.settled()?;
        let flood = Flood { end: tx, cpu, other_cpu: cpu, frame_len: FRAME_LEN, count: frames };
        let sender = Tool::start(&self.wirerate, &paced(&flood, CAPTURE_PPS, None), tx.netns(), cpu)?;
        let sent = sender.wait(Duration::from_secs(60) + self.timeout(frames), &bed.stop)?;
        ensure!(sent.is_good(), "the generator ended with {}: {}", sent.status, sent.said.trim());
        let after = bed.settled()?;
        let memory_bytes = capture.memory_peak_bytes()?;
        let ended = capture.stop(&bed.stop)?;
        let (what, value) = ("frames", (after.frames - before.frames) as f64);
        Ok(Grown {
            case: CASE,
            tool: "capture",
            what,
            value,
            rate_pps: rate_pps(before, after).context("no time passed")?,
            cpu_ns_per_frame: ended.cpu_ns as f64 / value.max(1.0),
            memory_bytes,
        })
    }

    fn timeout(&self, frames: u64) -> Duration {
        Duration::from_secs_f64(10.0 * frames as f64 / CAPTURE_PPS)
    }
}
