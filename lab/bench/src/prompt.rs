//! How soon a generator sends its first frame, how soon it stops, and whether it sends the
//! requested number of frames.
//!
//! The first time is from the start of the program (for control files: from `start`) to the first
//! frame at the receiver; the second is from Ctrl-C at full speed to the last frame. The receiver's
//! counter is read about every 0.1 ms.

use crate::generate::{Entrant, frames_file, installed};
use crate::generators::{STARTS, SendJob};
use crate::report::ResultRow;
use crate::rig::Rig;
use crate::running::{Running, TIMEOUT};
use crate::samples::CounterSample;
use crate::schedule::{Rounds, interleaved};
use crate::stats::Estimate;
use crate::table::BenchPlan;
use crate::testbed::Testbed;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::time::Duration;

const CASE: &str = "prompt";
const FRAME_LEN: usize = 60;
const LOOK_EVERY: Duration = Duration::from_micros(50);
/// So long without a frame is the end.
const SILENCE_NS: u64 = 30_000_000;

/// One run.
#[derive(Debug, Serialize)]
struct Prompt<'a> {
    case: &'a str,
    tool: &'a str,
    round: usize,
    /// To the first frame.
    start_ns: u64,
    /// To the last frame.
    stop_ns: u64,
}

/// One count that was asked for.
#[derive(Debug, Serialize)]
struct CountCheck<'a> {
    case: &'a str,
    tool: &'a str,
    asked: u64,
    received: u64,
}

/// Measures all of it.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, plan, deadline, report, .. } = rig;
    let rounds = plan.times.prompt_rounds;
    report.say(&format!(
        "\n{CASE}: {FRAME_LEN}-byte frames from CPU {}, {rounds} rounds; until the receiver\nhas the first frame \
         after the start, and the last one after Ctrl-C",
        bed.generator_cpu
    ))?;
    let entrants = installed(rig, CASE, plan.prompt.contenders()?)?;
    let _sink = bed.sink()?;
    let (mut starts, mut stops) = (Rounds::new(entrants.len()), Rounds::new(entrants.len()));
    for turn in interleaved(entrants.len(), rounds) {
        if turn.contender == 0 && deadline.is_over() {
            report.warn("time is up")?;
            break;
        }
        let entrant = &entrants[turn.contender];
        let tool = &entrant.contender.name;
        let [start_ns, stop_ns] =
            measure(bed, plan, entrant).with_context(|| format!("cannot measure {tool}"))?;
        report.row("prompt", &Prompt { case: CASE, tool, round: turn.round, start_ns, stop_ns })?;
        starts.push(turn, start_ns as f64);
        stops.push(turn, stop_ns as f64);
    }
    for (index, entrant) in entrants.iter().enumerate() {
        let (Some(start), Some(stop)) = (Estimate::of(starts.of(index)), Estimate::of(stops.of(index)))
        else {
            continue;
        };
        let wrong = count(rig, entrant)?;
        let tool = &entrant.contender.name;
        report.row("result", &ResultRow::time(CASE, tool, "start_ns", start))?;
        report.row("result", &ResultRow::time(CASE, tool, "stop_ns", stop))?;
        let [start, stop] = [start, stop].map(ms);
        report.say(&line([start, stop].map(|time| time.to_string()), &wrong, &entrant.contender.title()))?;
    }
    Ok(())
}

/// One line of the report: 80 columns hold it where all counts are right.
fn line([start, stop]: [String; 2], wrong: &[String], title: &str) -> String {
    let counts = if wrong.is_empty() { "exact".to_owned() } else { wrong.join(", ") };
    format!("  {start:>13} ms to first, {stop:>11} ms to last, {counts}  {title}")
}

fn ms(time: Estimate) -> Estimate {
    Estimate { median: time.median / 1e6, spread: time.spread / 1e6, ..time }
}

fn start(bed: &Testbed, entrant: &Entrant, count: u64) -> Result<Running> {
    let frames = frames_file(bed, &entrant.contender, FRAME_LEN, 0)?;
    let (cpus, work) = ([bed.generator_cpu], entrant.contender.work);
    let job = SendJob { count, work, frames: &frames, ..SendJob::plain(bed.tx(), &cpus, FRAME_LEN) };
    Running::start(&entrant.program, &entrant.contender, &job)
}

/// Nanoseconds to the first frame and to the last.
fn measure(bed: &Testbed, plan: &BenchPlan, entrant: &Entrant) -> Result<[u64; 2]> {
    let before = bed.settled()?;
    let (begun_ns, begun_utc_ns) = (host::monotonic_ns(), host::realtime_ns());
    let running = start(bed, entrant, entrant.contender.tool.plenty)?;
    let first_ns = until(bed, |now| now.frames > before.frames)
        .with_context(|| format!("no frame came; it said: {}", running.last_words()))?
        .time_ns;
    bed.stop.sleep(plan.times.settle())?;
    running.still_runs()?;
    let asked_ns = host::monotonic_ns();
    running.interrupt();
    let mut last = bed.sample()?;
    until(bed, |now| {
        if now.frames != last.frames {
            last = now;
        }
        now.time_ns - last.time_ns > SILENCE_NS
    })?;
    let ended = running.stopped(&bed.stop)?;
    // Control files begin when the script says so.
    let started_ns = match told_start_ns(&ended.said) {
        Some(utc_ns) => begun_ns + utc_ns.saturating_sub(begun_utc_ns),
        None => begun_ns,
    };
    Ok([first_ns.saturating_sub(started_ns), last.time_ns.saturating_sub(asked_ns)])
}

fn until(bed: &Testbed, mut is_so: impl FnMut(CounterSample) -> bool) -> Result<CounterSample> {
    let deadline_ns = host::monotonic_ns() + TIMEOUT.as_nanos() as u64;
    loop {
        let now = bed.sample()?;
        if is_so(now) {
            return Ok(now);
        }
        ensure!(now.time_ns < deadline_ns, "it takes longer than {TIMEOUT:?}");
        bed.stop.sleep(LOOK_EVERY)?;
    }
}

/// The time of day, in nanoseconds, that the script of the control files told.
fn told_start_ns(said: &str) -> Option<u64> {
    let time = said.lines().find_map(|line| line.strip_prefix(STARTS))?.trim();
    let (seconds, micros) = time.split_once(['.', ','])?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1_000)
}

/// Asks for each count of the table; words for those that came out otherwise.
fn count(rig: Rig<'_>, entrant: &Entrant) -> Result<Vec<String>> {
    let Rig { bed, plan, report, .. } = rig;
    let (tool, mut wrong) = (&entrant.contender.name, Vec::new());
    for &asked in &plan.prompt.counts {
        let before = bed.settled()?;
        start(bed, entrant, asked)?.wait(&bed.stop)?;
        let received = bed.settled()?.frames - before.frames;
        report.row("count", &CountCheck { case: CASE, tool, asked, received })?;
        if received != asked {
            wrong.push(format!("{received} instead of {asked}"));
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of tools were cut in two at the end of an 80-column terminal.
    #[test]
    fn a_line_fits_into_80_columns() {
        let time = |median, spread| format!("{median:.1} ± {spread:.1}");
        let text = line([time(136.5, 11.6), time(104.4, 10.8)], &[], "control files");
        assert!(text.chars().count() <= 80, "{text}");
        assert!(text.ends_with(" exact  control files"), "{text}");
        assert!(line([time(1.0, 0.1), time(1.0, 0.1)], &["5 of 10".to_owned()], "xdp").contains("5 of 10"));
    }

    #[test]
    fn the_script_tells_when_it_starts() {
        let said = format!("words\n{STARTS} 1795309334.000123\nmore");
        assert_eq!(told_start_ns(&said), Some(1_795_309_334_000_123_000));
        for said in ["", "starts", "starts x.y", "1795309334.5"] {
            assert_eq!(told_start_ns(said), None, "{said}");
        }
    }
}
