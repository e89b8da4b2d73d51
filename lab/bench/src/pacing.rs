//! How exactly each tool keeps a rate: requested and received rates, from slow to fast.
//!
//! Mean and gaps are the receiver's: its counter with the time of each reading, and the kernel's
//! timestamp of each frame in a capture by XDP (drop mode). That capture costs about 40 ns per
//! frame and is the same for all tools.

use crate::facts::Ticks;
use crate::gaps::{self, GapStats};
use crate::generate::{Entrant, frames_file, installed};
use crate::generators::SendJob;
use crate::programs::ToolProgram;
use crate::rig::Rig;
use crate::running::Running;
use crate::samples::rate_pps;
use crate::table::SizeTimes;
use crate::testbed::Testbed;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const CASE: &str = "pacing";
/// Without FCS; the shortest that Ethernet knows.
const FRAME_LEN: usize = 60;
/// How far the mean may be from what was asked for.
const GOAL: f64 = 0.001;
/// A tool that is further below than this cannot reach the rate.
const OUT_OF_REACH: f64 = 0.05;
/// Frames of one capture: what fits into memory.
const CAPTURED_MAX: u64 = 3_000_000;

/// One rate of one tool.
#[derive(Debug, Serialize)]
struct Paced<'a> {
    case: &'a str,
    tool: &'a str,
    asked_pps: u64,
    /// At the receiver.
    rate_pps: f64,
    /// Of the rate from what was asked, as a part of that.
    deviation: f64,
    window_ns: u64,
    /// At the receiver; `None` when its capture lost a frame, and when fewer than two came.
    gaps: Option<GapStats>,
    cpu_ns_per_frame: f64,
    busy: f64,
    steal: f64,
}

impl Paced<'_> {
    fn verdict(&self) -> &'static str {
        match self.deviation {
            off if off.abs() <= GOAL => "",
            off if off < -OUT_OF_REACH => "  out of reach",
            _ => "  !",
        }
    }

    fn line(&self) -> String {
        let us = |ns: u64| format!("{:.2} us", ns as f64 / 1e3);
        let gaps = match self.gaps {
            None => "no gaps seen".to_owned(),
            Some(gaps) => {
                let GapStats { p50_ns, p99_ns, p999_ns, max_ns, off_mean_ns, off_p50_ns, off_p90_ns } = gaps;
                let [p50, p99, p999, max, off] = [p50_ns, p99_ns, p999_ns, max_ns, off_mean_ns].map(us);
                let [off_p50, off_p90] = [off_p50_ns, off_p90_ns].map(us);
                format!(
                    "{p50:>11}  {p99:>11}  {p999:>12}  {max:>12}  {off:>12}  {off_p50:>11}  {off_p90:>11}"
                )
            }
        };
        let Self { tool, asked_pps, rate_pps, .. } = self;
        let off = self.deviation * 100.0;
        format!("  {tool:14}  {asked_pps:>9}  {rate_pps:>13.1}  {off:>+9.4} %  {gaps}{}", self.verdict())
    }
}

/// What all of it shares.
struct PacingTrials<'a> {
    bed: &'a Testbed,
    times: &'a SizeTimes,
    wirerate: PathBuf,
}

/// Measures every rate of every tool.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, programs, plan, deadline, report, .. } = rig;
    let times = &plan.times;
    report.say(&format!(
        "\n{CASE}: {FRAME_LEN}-byte frames from CPU {}, {} s each, mean and gaps at the receiver; goal {} %",
        bed.generator_cpu,
        times.pace().as_secs_f64(),
        GOAL * 100.0
    ))?;
    report.say(
        "  tool            asked pps    counted pps      off by       p50 gap      p99 gap     p99.9 gap   longest gap      gaps off      off p50      off p90",
    )?;
    let wirerate = programs.find(ToolProgram::Wirerate).context("there is no wirerate to measure")?;
    let ground = PacingTrials { bed, times, wirerate };
    for sweep in &plan.pace {
        let entrants = installed(rig, CASE, sweep.contenders()?)?;
        for asked_pps in &sweep.rates_pps {
            for entrant in &entrants {
                if deadline.is_over() {
                    return report.warn("time is up");
                }
                let name = &entrant.contender.name;
                let row = ground.measure(entrant, *asked_pps);
                let row =
                    row.with_context(|| format!("cannot measure {name} at {asked_pps} frames a second"))?;
                report.row("paced", &row)?;
                report.say(&row.line())?;
            }
        }
    }
    Ok(())
}

impl PacingTrials<'_> {
    /// Starts it, counts in mid-flight, stops it, and reads what the receiver kept of it.
    fn measure<'a>(&self, entrant: &'a Entrant, asked_pps: u64) -> Result<Paced<'a>> {
        let (bed, file) = (self.bed, self.bed.file("paced.pcapng"));
        let capture = gaps::capture(bed, &self.wirerate, &file)?;
        let before = bed.settled()?;
        let frames = frames_file(bed, &entrant.contender, FRAME_LEN, 0)?;
        let (cpus, work) = ([bed.generator_cpu], entrant.contender.work);
        let job = SendJob { work, frames: &frames, ..SendJob::plain(bed.tx(), &cpus, FRAME_LEN) };
        let job = SendJob { count: entrant.contender.tool.plenty, pace_pps: Some(asked_pps), ..job };
        let mut running = Running::start(&entrant.program, &entrant.contender, &job)?;
        running.until_frames_come(bed, before)?;
        bed.stop.sleep(self.times.settle())?;
        let (ticks, from, from_ns) = (Ticks::read()?, bed.sample()?, host::realtime_ns());
        bed.stop.sleep(self.watch(asked_pps))?;
        let (to_ns, to) = (host::realtime_ns(), bed.sample()?);
        let shares = Ticks::read()?.since(ticks);
        running.still_runs()?;
        let ended = running.stop(&bed.stop)?;
        let received = bed.settled()?.frames - before.frames;
        let captured = capture.stop(&bed.stop)?;
        let times_ns = gaps::times_ns(&file)
            .with_context(|| format!("the capture at the receiver said: {}", captured.said))?;
        fs::remove_file(&file).context("cannot remove a file of our own")?;
        let is_whole = times_ns.len() as u64 == received;
        let rate_pps = rate_pps(from, to).context("no time passed")?;
        Ok(Paced {
            case: CASE,
            tool: &entrant.contender.name,
            asked_pps,
            rate_pps,
            deviation: rate_pps / asked_pps as f64 - 1.0,
            window_ns: to.time_ns - from.time_ns,
            gaps: GapStats::of(gaps::within(&times_ns, from_ns..to_ns), 1_000_000_000 / asked_pps)
                .filter(|_| is_whole),
            cpu_ns_per_frame: ended.cpu_ns as f64 / received.max(1) as f64,
            busy: shares.busy,
            steal: shares.steal,
        })
    }

    fn watch(&self, asked_pps: u64) -> Duration {
        self.times.pace().min(Duration::from_secs_f64(CAPTURED_MAX as f64 / asked_pps as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rate_that_was_near_is_blamed() {
        let paced = |deviation| Paced {
            case: CASE,
            tool: "xdp",
            asked_pps: 1000,
            rate_pps: 1000.0,
            deviation,
            window_ns: 1,
            gaps: None,
            cpu_ns_per_frame: 1.0,
            busy: 0.0,
            steal: 0.0,
        };
        let verdicts = [0.0009, -0.002, -0.4, 0.2].map(|off| paced(off).verdict().trim().to_owned());
        assert_eq!(verdicts, ["", "!", "out of reach", "!"]);
        assert!(paced(-0.0005).line().contains("-0.0500 %"));
    }
}
