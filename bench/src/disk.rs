//! Ways of getting large buffers into a file, without any capture: what a writer could do, in turns, on tmpfs and on the
//! disk that the rows are written to.
//!
//! A capture cares for three things: how fast buffers go, what CPU time that takes from it, and how long the longest
//! single call holds it up, since so much has to wait in buffers meanwhile.

use crate::bed::Bed;
use crate::report::{Report, ResultRow};
use crate::schedule::{Rounds, Turn, interleaved};
use crate::settings::Settings;
use crate::stats::Estimate;
use anyhow::{Context, Result};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of one write: the buffers of a capture.
const PIECE_LEN: usize = 256 << 10;
/// Bytes that are allocated at once, ahead of what is written.
const AHEAD_LEN: u64 = 64 << 20;
/// What O_DIRECT wants of addresses, lengths and places.
const ALIGNMENT: usize = 4096;

/// How bytes get into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    /// When space is allocated.
    space: Space,
    is_direct: bool,
    threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// By writing.
    AsNeeded,
    /// In steps, between writes.
    Ahead,
    /// Before the first write; that is not measured.
    Before,
}

const fn way(name: &'static str, space: Space, is_direct: bool, threads: usize) -> Way {
    Way { name, space, is_direct, threads }
}

/// The first one is what a capture did when this was written.
const WAYS: [Way; 7] = [
    way("buffered", Space::AsNeeded, false, 1),
    way("allocated in steps", Space::Ahead, false, 1),
    way("allocated before", Space::Before, false, 1),
    way("two threads", Space::AsNeeded, false, 2),
    way("direct", Space::AsNeeded, true, 1),
    way("direct, in steps", Space::Ahead, true, 1),
    way("direct, two threads", Space::Ahead, true, 2),
];

/// One file written.
#[derive(Clone, Copy, Debug, Serialize)]
struct Written {
    /// Until the last write came back.
    rate_bps: f64,
    /// Until everything was on the disk.
    synced_bps: f64,
    cpu_ns_per_kib: f64,
    longest_write_ns: u64,
}

#[derive(Serialize)]
struct Row<'a> {
    case: &'a str,
    round: usize,
    tool: &'a str,
    len: u64,
    #[serde(flatten)]
    written: Written,
}

/// Measures all ways in both places; `disk` is a folder there.
pub(crate) fn run(bed: &Bed, disk: &Path, settings: &Settings, report: &mut Report) -> Result<()> {
    let name = format!(".wirerate-bench-disk-{}", std::process::id());
    for (case, file) in
        [("disk: memory (tmpfs)", bed.file("disk")), ("disk: folder of the rows", disk.join(name))]
    {
        let done = place(case, &file, settings, report);
        // Should it never have been made, there is nothing to remove.
        let _ = fs::remove_file(&file);
        done?;
    }
    Ok(())
}

fn place(case: &str, file: &PathBuf, settings: &Settings, report: &mut Report) -> Result<()> {
    let len = settings.disk_len;
    report.say(&format!(
        "\n{case}: {} MiB in writes of {} KiB, {} rounds",
        len >> 20,
        PIECE_LEN >> 10,
        settings.disk_rounds
    ))?;
    let mut ways = Vec::new();
    for way in WAYS {
        match write(way, file, PIECE_LEN as u64) {
            Ok(_) => ways.push(way),
            // tmpfs has no way past the page cache before Linux 6.6.
            Err(why) => report.say(&format!("  {} is left out: {why:#}", way.name))?,
        }
    }
    let [mut rates, mut synced, mut costs] = [(); 3].map(|()| Rounds::new(ways.len()));
    let mut longest_ns = vec![0; ways.len()];
    for turn in interleaved(ways.len(), settings.disk_rounds) {
        // Each begins a round in its turn: what was done before decides how warm memory is.
        let turn = Turn { contender: (turn.contender + turn.round) % ways.len(), ..turn };
        let way = ways[turn.contender];
        let written = write(way, file, len).with_context(|| format!("{} of {}", way.name, file.display()))?;
        fs::remove_file(file).context("cannot remove a file of our own")?;
        report.row("written", &Row { case, round: turn.round, tool: way.name, len, written })?;
        rates.push(turn, written.rate_bps);
        synced.push(turn, written.synced_bps);
        costs.push(turn, written.cpu_ns_per_kib);
        longest_ns[turn.contender] = longest_ns[turn.contender].max(written.longest_write_ns);
    }
    for (index, way) in ways.iter().enumerate() {
        let estimates = [&rates, &synced, &costs].map(|rounds| Estimate::of(rounds.of(index)));
        let [Some(rate), Some(synced), Some(cost)] = estimates else { continue };
        let mb = |rate: Estimate| Estimate { median: rate.median / 8e6, spread: rate.spread / 8e6, ..rate };
        let longest_ms = longest_ns[index] as f64 / 1e6;
        report.say(&format!(
            "  {:<20} {} MB/s ({} with sync), {cost} ns of CPU a KiB, longest write {longest_ms:.1} ms",
            way.name,
            mb(rate),
            mb(synced)
        ))?;
        report.row("result", &ResultRow::cost(case, way.name, cost))?;
        if index > 0
            && let Some(ratio) = Estimate::of_ratios(rates.of(index), rates.of(0))
        {
            report.row("result", &ResultRow::ratio(case, way.name, ways[0].name, ratio, None))?;
        }
    }
    Ok(())
}

fn write(way: Way, path: &Path, len: u64) -> Result<Written> {
    let flags = if way.is_direct { nix::libc::O_DIRECT } else { 0 };
    let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
    if way.space == Space::Before {
        allocate(&file, 0, len)?;
    }
    let (started, cpu_before_ns) = (Instant::now(), cpu_ns()?);
    let longest = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..way.threads)
            .map(|number| {
                let file = &file;
                scope.spawn(move || write_share(way, file, len, number))
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().expect("writing does not panic"))
            .collect::<Result<Vec<u64>>>()
    })?;
    let (elapsed, cpu) = (started.elapsed(), cpu_ns()? - cpu_before_ns);
    file.set_len(len)?;
    file.sync_data()?;
    let rate = |seconds: f64| len as f64 * 8.0 / seconds;
    Ok(Written {
        rate_bps: rate(elapsed.as_secs_f64()),
        synced_bps: rate(started.elapsed().as_secs_f64()),
        cpu_ns_per_kib: cpu as f64 / (len as f64 / 1024.0),
        longest_write_ns: longest.into_iter().max().unwrap_or(0),
    })
}

/// Every n-th piece, by one of n threads; the longest call.
fn write_share(way: Way, file: &File, len: u64, number: usize) -> Result<u64> {
    let memory = vec![0x5a; PIECE_LEN + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let piece = &memory[start..start + PIECE_LEN];
    let (mut longest_ns, mut allocated) = (0, 0);
    for at in (0..len).step_by(PIECE_LEN).skip(number).step_by(way.threads) {
        let before = Instant::now();
        if way.space == Space::Ahead && number == 0 && at >= allocated {
            allocate(file, at, AHEAD_LEN.min(len - at))?;
            allocated = at + AHEAD_LEN;
        }
        file.write_all_at(piece, at)?;
        longest_ns = longest_ns.max(before.elapsed().as_nanos() as u64);
    }
    Ok(longest_ns)
}

/// Space without length, as a capture wants it.
fn allocate(file: &File, at: u64, len: u64) -> Result<()> {
    let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
    Ok(fallocate(file, keep, at.cast_signed(), len.cast_signed())?)
}

fn cpu_ns() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("cannot ask for our own CPU time")?;
    let ns = |time: TimeVal| (time.tv_sec() * 1_000_000 + time.tv_usec()).cast_unsigned() * 1_000;
    Ok(ns(usage.user_time()) + ns(usage.system_time()))
}
