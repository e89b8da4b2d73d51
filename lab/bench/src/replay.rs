//! Replays of files with their times, and of a file that does not fit into the memory allowed.
//!
//! Gap errors: a file with gaps from 1 µs to 1 ms, as many short as long ones by their logarithm.
//! The receiver's timestamps decide how far each gap is from that of the file, and how far the last
//! frame is from its time. Streaming: the rate of a large file, with 64 MB of memory for the
//! process, beside that of a small one that is sent again and again out of memory.

use crate::frame;
use crate::gaps;
use crate::generators::{SendJob, Work};
use crate::memory_limit::MemoryLimit;
use crate::process::{Tool, ToolEnd};
use crate::programs::{Programs, ToolProgram, netns, owned};
use crate::report::BenchReport;
use crate::rig::Rig;
use crate::samples::{CounterSample, steady_pps};
use crate::schedule::interleaved;
use crate::settings::Deadline;
use crate::stats::median;
use crate::table::SizeTimes;
use crate::testbed::Testbed;
use anyhow::{Context, Result, ensure};
use packet::Rng;
use pcapng::pcap;
use serde::Serialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CASE: &str = "replay-file";
const FRAME_LEN: usize = 60;
/// Gaps of the file, in microseconds: up to this power of ten.
const GAP_EXPONENT_MAX: f64 = 3.0;
/// Bytes of the small file, which the ring of the xdp engine holds.
const SMALL_BYTES: usize = 12 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Each takes a minute in the full size.
const ROUNDS_MAX: usize = 3;
/// Time of the first frame of a file, in 2023: some tools take 0 for unknown.
const FIRST_NS: u64 = 1_700_000_000_000_000_000;
/// Beside the duration of the file.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The goals: errors of half and of nine tenths of the gaps, of the end, and the share of the rate.
const GOALS_NS: [u64; 3] = [50, 200, 10_000];
const STREAM_GOAL: f64 = 0.8;
/// Memory of the process that sends the large file, with that of its BPF maps.
const MEMORY_LIMIT_BYTES: u64 = 64 << 20;

/// Gaps of one replay.
#[derive(Debug, Serialize)]
struct ReplayedGaps<'a> {
    case: &'a str,
    tool: &'a str,
    round: usize,
    frames: u64,
    duration_ns: u64,
    error_p50_ns: u64,
    error_p90_ns: u64,
    error_p99_ns: u64,
    error_max_ns: u64,
    /// Of the last frame, counted from the first.
    end_late_ns: i64,
}

/// A large file beside a small one.
#[derive(Debug, Serialize)]
struct Streamed<'a> {
    case: &'a str,
    tool: &'a str,
    file_bytes: u64,
    rate_pps: f64,
    resident_pps: f64,
    ratio: f64,
    goal: f64,
    memory_bytes: u64,
    /// Of its control group; nothing where the host has none.
    memory_limit_bytes: Option<u64>,
}

/// Measures both.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, programs, plan, deadline, report, .. } = rig;
    let wirerate = programs.find(ToolProgram::Wirerate).context("there is no wirerate to measure")?;
    let trials = ReplayTrials { bed, times: &plan.times, wirerate };
    trials.gaps(programs, deadline, report)?;
    trials.streams(deadline, report)
}

struct ReplayTrials<'a> {
    bed: &'a Testbed,
    times: &'a SizeTimes,
    wirerate: PathBuf,
}

impl ReplayTrials<'_> {
    fn gaps(&self, programs: &Programs, deadline: Deadline, report: &BenchReport) -> Result<()> {
        let [p50, p90, end] = GOALS_NS;
        report.say(&format!(
            "\n{CASE}: gaps of 1 us to 1 ms, {} s; difference to the file at the receiver; goals: p50 {p50} ns, p90 {p90} ns, end {end} ns",
            self.times.replay().as_secs_f64()
        ))?;
        let file = self.bed.file("gaps.pcap");
        let turn = SendJob::plain(self.bed.tx(), &[], FRAME_LEN).turn();
        let times_ns = write_gaps(&file, &turn[0], self.times.replay())?;
        let tcpreplay = programs.find(ToolProgram::Installed("tcpreplay"));
        let tcpreplay =
            tcpreplay.filter(|_| programs.wants("tcpreplay", ToolProgram::Installed("tcpreplay")));
        let name = file.to_str().expect("our own names are UTF-8");
        let (ifname, cpu) = (self.bed.tx().ifname, self.bed.generator_cpu.to_string());
        let ours = owned(&["replay", ifname, name, "--engine", "xdp", "--cpus", &cpu, "--json"]);
        let mut tools = vec![("replay", self.wirerate.clone(), [ours, netns(self.bed.tx())].concat())];
        let theirs = owned(&["--intf1", ifname, "--preload-pcap", "--no-flow-stats", name]);
        tools.extend(tcpreplay.map(|program| ("tcpreplay", program, theirs)));
        for turn in interleaved(tools.len(), self.times.rounds.min(ROUNDS_MAX)) {
            if turn.contender == 0 && deadline.is_over() {
                return report.warn("time is up");
            }
            let (tool, program, words) = &tools[turn.contender];
            let row = self.gap_round(tool, program, words, &times_ns);
            let Some(row) = row.with_context(|| format!("cannot measure {tool}"))? else {
                report.say(&format!("  {tool:10}  not all frames of the file were captured"))?;
                continue;
            };
            let row = ReplayedGaps { round: turn.round, ..row };
            report.say(&format!(
                "  {tool:10}  p50 {:>9}  p90 {:>9}  p99 {:>9}  longest {:>10}  end {:+} ns",
                row.error_p50_ns, row.error_p90_ns, row.error_p99_ns, row.error_max_ns, row.end_late_ns
            ))?;
            report.row("replayed", &row)?;
        }
        Ok(())
    }

    /// One replay; `None` if a frame is missing.
    fn gap_round<'a>(
        &self,
        tool: &'a str,
        program: &Path,
        words: &[String],
        times_ns: &[u64],
    ) -> Result<Option<ReplayedGaps<'a>>> {
        let (bed, seen) = (self.bed, self.bed.file("seen.pcapng"));
        let capture = gaps::capture(bed, &self.wirerate, &seen)?;
        let running = Tool::start(program, words, bed.tx().netns(), bed.generator_cpu)?;
        ended(running.wait(self.times.replay() + TIMEOUT, &bed.stop)?)?;
        bed.settled()?;
        capture.stop(&bed.stop)?;
        let seen_ns = gaps::times_ns(&seen)?;
        std::fs::remove_file(&seen).context("cannot remove a file of our own")?;
        Ok((seen_ns.len() == times_ns.len()).then(|| compared(tool, times_ns, &seen_ns)))
    }

    fn streams(&self, deadline: Deadline, report: &BenchReport) -> Result<()> {
        if deadline.is_over() {
            return report.warn("time is up");
        }
        let bed = self.bed;
        let job = SendJob { work: Work::Imix, ..SendJob::plain(bed.tx(), &[], FRAME_LEN) };
        let turn = job.turn();
        let turn_bytes: usize = turn.iter().map(|frame| frame.len() + 16).sum();
        // The file is in memory, too.
        let bytes = self.times.replay_bytes.min(bed.free_bytes()? / 2) as usize;
        let [small, large] =
            [("small.pcap", SMALL_BYTES.min(bytes)), ("large.pcap", bytes)].map(|(name, bytes)| {
                let file = bed.file(name);
                let frames = bytes / turn_bytes * turn.len();
                frame::write_pcap(&file, &turn, frames).map(|()| (file, frames.max(turn.len())))
            });
        let ((small, small_frames), (large, frames)) = (small?, large?);
        let loops = frames.div_ceil(small_frames).max(2);
        let (mut rates, mut resident, mut memory_bytes) = (Vec::new(), Vec::new(), 0);
        let limit = match MemoryLimit::new(MEMORY_LIMIT_BYTES) {
            Ok(limit) => Some(limit),
            Err(why) => {
                report.warn(&format!("memory is not limited: {why:#}"))?;
                None
            }
        };
        for _ in 0..self.times.rounds.min(ROUNDS_MAX) {
            resident.extend(self.stream(&small, loops, None)?.0);
            let (rate, memory) = self.stream(&large, 1, limit.as_ref())?;
            rates.extend(rate);
            memory_bytes = memory_bytes.max(memory);
        }
        std::fs::remove_file(&large).context("cannot remove a file of our own")?;
        let (Some(rate_pps), Some(resident_pps)) = (median(&rates), median(&resident)) else {
            return report.say(&format!("  a file of {bytes} bytes is too short for a rate here"));
        };
        let ratio = rate_pps / resident_pps;
        report.say(&format!(
            "  a file of {:.0} MB: {:.2} Mpps, {ratio:.2} of a small one (goal {STREAM_GOAL}), {:.1} MB of memory",
            bytes as f64 / 1e6,
            rate_pps / 1e6,
            memory_bytes as f64 / 1e6
        ))?;
        let row = Streamed {
            case: CASE,
            tool: "replay",
            file_bytes: bytes as u64,
            rate_pps,
            resident_pps,
            ratio,
            goal: STREAM_GOAL,
            memory_bytes,
            memory_limit_bytes: limit.map(|_| MEMORY_LIMIT_BYTES),
        };
        report.row("streamed", &row)
    }

    /// The rate of a replay at top speed, if it took long enough, and its memory at the highest.
    fn stream(&self, file: &Path, loops: usize, limit: Option<&MemoryLimit>) -> Result<(Option<f64>, u64)> {
        let bed = self.bed;
        let _sink = bed.sink()?;
        let (name, cpu) = (file.to_str().expect("our own names are UTF-8"), bed.generator_cpu.to_string());
        let words = ["replay", bed.tx().ifname, name, "--engine", "xdp", "--speed", "top", "--cpus", &cpu];
        let words =
            [owned(&words), owned(&["--loop", &loops.to_string(), "--json"]), netns(bed.tx())].concat();
        let mut samples: Vec<CounterSample> = vec![bed.sample()?];
        // The thread that reads the file has a CPU of its own.
        let (program, words) = match limit {
            Some(limit) => limit.command(&self.wirerate, &words),
            None => (self.wirerate.clone(), words),
        };
        let running = Tool::start_on(&program, &words, bed.tx().netns(), None)?;
        let mut memory_bytes = 0;
        while !running.has_ended()? {
            memory_bytes = running.memory_peak_bytes().unwrap_or(memory_bytes);
            samples.push(bed.sample()?);
            bed.stop.sleep(LOOK_EVERY)?;
        }
        samples.push(bed.settled()?);
        ended(running.wait(TIMEOUT, &bed.stop)?)?;
        Ok((steady_pps(&samples), memory_bytes))
    }
}

/// Frames that did not fit into the ring of a veth are exit code 1; the receiver counts.
fn ended(end: ToolEnd) -> Result<()> {
    let is_short = end.status.code() == Some(1) && end.said.contains("\"error_causes\"");
    ensure!(end.is_good() || is_short, "it ended with {}: {}", end.status, end.said.trim());
    Ok(())
}

/// Writes a file of frames with gaps, for about `duration`; the times of its frames, in whole
/// microseconds, because not all tools read nanoseconds.
fn write_gaps(path: &Path, data: &[u8], duration: Duration) -> Result<Vec<u64>> {
    let header = pcap::Header { precision: pcap::Precision::Microseconds, ..pcap::Header::default() };
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut writer = pcap::Writer::new(BufWriter::new(file), &header)?;
    let (mut rng, mut time_ns, mut times_ns) = (Rng(1), 0, Vec::new());
    while time_ns < duration.as_nanos() as u64 {
        times_ns.push(time_ns);
        writer.record(&pcap::Record { time_ns: FIRST_NS + time_ns, frame_len: data.len() as u32, data })?;
        let exponent = GAP_EXPONENT_MAX * f64::from(rng.below(1 << 24)) / f64::from(1 << 24);
        time_ns += 10f64.powf(exponent).round() as u64 * 1_000;
    }
    writer.finish()?.into_inner().context("cannot write the last of it")?;
    Ok(times_ns)
}

/// Two or more frames at the times of a file and as they were seen.
fn compared<'a>(tool: &'a str, file_ns: &[u64], seen_ns: &[u64]) -> ReplayedGaps<'a> {
    let between =
        |times_ns: &[u64]| -> Vec<u64> { times_ns.windows(2).map(|pair| pair[1] - pair[0]).collect() };
    let (file_gaps, seen_gaps) = (between(file_ns), between(seen_ns));
    let mut errors: Vec<u64> =
        file_gaps.iter().zip(&seen_gaps).map(|(file, seen)| file.abs_diff(*seen)).collect();
    errors.sort_unstable();
    let whole = |times_ns: &[u64]| times_ns[times_ns.len() - 1] - times_ns[0];
    ReplayedGaps {
        case: CASE,
        tool,
        round: 0,
        frames: seen_ns.len() as u64,
        duration_ns: whole(seen_ns),
        error_p50_ns: gaps::at(&errors, 500),
        error_p90_ns: gaps::at(&errors, 900),
        error_p99_ns: gaps::at(&errors, 990),
        error_max_ns: gaps::at(&errors, 1_000),
        end_late_ns: whole(seen_ns).cast_signed() - whole(file_ns).cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_gaps_and_the_end_counts_from_the_first_frame() {
        let row = compared("replay", &[0, 1_000, 3_000, 4_000], &[70, 1_070, 3_090, 4_070]);
        assert_eq!((row.frames, row.duration_ns, row.end_late_ns), (4, 4_000, 0));
        assert_eq!((row.error_p50_ns, row.error_p90_ns, row.error_max_ns), (20, 20, 20));
        let row = compared("replay", &[0, 1_000], &[0, 700]);
        assert_eq!((row.error_p50_ns, row.end_late_ns), (300, -300));
    }
}
