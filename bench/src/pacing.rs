//! How well a pace is kept: what was asked for beside what arrived, for each engine, from slow to fast.
//!
//! The mean is the receiver's: two readings of its counter, the clock beside it. The gaps are those that the engine
//! reports of itself, since a receiver that stamps each frame would make what it measures.

use crate::bed::Bed;
use crate::facts::Ticks;
use crate::generate::{FRAME_LEN, until_frames_come};
use crate::process::Tool;
use crate::report::Report;
use crate::samples::rate_pps;
use crate::settings::{Deadline, Settings};
use crate::tool::{Flood, Program, Programs, wirerate_by};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;

const CASE: &str = "pacing";
/// Frames a second.
const RATES_PPS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 5_000_000];
const ENGINES: [&str; 4] = ["xdp", "skb", "af_packet", "af_xdp"];
/// How far the mean may be from what was asked for.
const GOAL: f64 = 0.001;
/// An engine that is further below than this cannot reach the rate.
const OUT_OF_REACH: f64 = 0.05;

/// The gaps that wirerate reports of itself, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Gaps {
    mean_ns: f64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// One rate on one engine.
#[derive(Debug, Serialize)]
struct Paced<'a> {
    case: &'a str,
    engine: &'a str,
    asked_pps: u64,
    /// At the receiver.
    rate_pps: f64,
    /// Of the rate from what was asked, as a part of that.
    deviation: f64,
    window_ns: u64,
    gaps: Gaps,
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
}

/// Measures every rate on every engine.
pub(crate) fn run(
    bed: &Bed,
    programs: &Programs,
    settings: &Settings,
    deadline: Deadline,
    report: &mut Report,
) -> Result<()> {
    report.say(&format!(
        "\n{CASE}: {FRAME_LEN}-byte frames from CPU {}, XDP_DROP at the receiver; {} s each, the mean counted at the \
         receiver, the gaps by wirerate; goal {} %",
        bed.generator_cpu,
        settings.pacing.as_secs_f64(),
        GOAL * 100.0
    ))?;
    report.say(
        "  engine       asked pps     counted pps      off by       p50 gap       p99 gap   longest gap",
    )?;
    let program = programs.find(Program::Wirerate).context("there is no wirerate to measure")?;
    let _sink = bed.sink()?;
    for engine in ENGINES {
        for asked_pps in RATES_PPS {
            if deadline.is_over() {
                return report.say("  time is up");
            }
            let row = measure(bed, &program, engine, asked_pps, settings)
                .with_context(|| format!("cannot measure {engine} at {asked_pps} frames a second"))?;
            report.row("paced", &row)?;
            report.say(&line(&row))?;
        }
    }
    Ok(())
}

fn line(row: &Paced<'_>) -> String {
    let us = |ns: u64| format!("{:.2} us", ns as f64 / 1e3);
    format!(
        "  {:9}  {:>11}  {:>14.1}  {:>+9.4} %  {:>12}  {:>12}  {:>12}{}",
        row.engine,
        row.asked_pps,
        row.rate_pps,
        row.deviation * 100.0,
        us(row.gaps.p50_ns),
        us(row.gaps.p99_ns),
        us(row.gaps.max_ns),
        row.verdict()
    )
}

/// Starts it, counts in mid-flight, stops it, and reads what it says of its gaps.
fn measure<'a>(
    bed: &Bed,
    program: &Path,
    engine: &'a str,
    asked_pps: u64,
    settings: &Settings,
) -> Result<Paced<'a>> {
    let before = bed.settled()?;
    let (end, cpu) = (&bed.lab.tx, bed.generator_cpu);
    let flood = Flood { end, cpu, other_cpu: cpu, frame_len: FRAME_LEN, count: 0 };
    let pps = asked_pps.to_string();
    let words = wirerate_by(engine, &cpu.to_string(), &flood, &["--no-timestamp", "--pps", &pps]);
    let tool = Tool::start(program, &words, end.netns(), cpu)?;
    until_frames_come(bed, &tool, before)?;
    bed.stop.sleep(settings.settle)?;
    let (ticks, from) = (Ticks::read()?, bed.sample()?);
    bed.stop.sleep(settings.pacing)?;
    let to = bed.sample()?;
    let shares = Ticks::read()?.since(ticks);
    ensure!(!tool.has_ended()?, "it ended before it was asked to: {}", tool.last_words());
    let ended = tool.stop(&bed.stop)?;
    ensure!(ended.is_good(), "it ended with {}: {}", ended.status, ended.said.trim());
    let rate_pps = rate_pps(from, to).context("no time passed")?;
    Ok(Paced {
        case: CASE,
        engine,
        asked_pps,
        rate_pps,
        deviation: rate_pps / asked_pps as f64 - 1.0,
        window_ns: to.time_ns - from.time_ns,
        gaps: gaps(&ended.said)?,
        busy: shares.busy,
        steal: shares.steal,
    })
}

/// From the report that `wirerate send --json` printed, among whatever else it said.
fn gaps(said: &str) -> Result<Gaps> {
    #[derive(Deserialize)]
    struct Said {
        gaps: Gaps,
    }
    let line = said.lines().find(|line| line.starts_with("{\"schema\":\"wirerate.send/"));
    let line = line.with_context(|| format!("it printed no report: {}", said.trim()))?;
    let said: Said = serde_json::from_str(line).context("its report has no gaps")?;
    Ok(said.gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_among_other_words() {
        let said = "a note\n{\"schema\":\"wirerate.send/1\",\"sent\":5,\"gaps\":{\"asked_ns\":1000.0,\"mean_ns\":1000.5,\
                    \"p50_ns\":999,\"p99_ns\":1500,\"max_ns\":9000}}\n";
        let expected = Gaps { mean_ns: 1000.5, p50_ns: 999, p99_ns: 1500, max_ns: 9000 };
        assert_eq!(gaps(said).unwrap(), expected);
        assert!(gaps("nothing").unwrap_err().to_string().contains("no report: nothing"));
        assert!(gaps("{\"schema\":\"wirerate.send/1\",\"gaps\":null}").is_err());
    }

    #[test]
    fn only_a_rate_that_was_near_is_blamed() {
        let paced = |deviation| Paced {
            case: CASE,
            engine: "xdp",
            asked_pps: 1000,
            rate_pps: 1000.0,
            deviation,
            window_ns: 1,
            gaps: Gaps { mean_ns: 1.0, p50_ns: 1, p99_ns: 1, max_ns: 1 },
            busy: 0.0,
            steal: 0.0,
        };
        let verdicts = [0.0009, -0.002, -0.4, 0.2].map(|off| paced(off).verdict().trim().to_owned());
        assert_eq!(verdicts, ["", "!", "out of reach", "!"]);
        assert!(line(&paced(-0.0005)).contains("-0.0500 %"));
    }
}
