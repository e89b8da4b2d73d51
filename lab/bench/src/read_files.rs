//! Capture files read by commands of wirerate, beside `tcpdump -r FILE -w /dev/null`: the time from
//! start to end, as a ratio.
//!
//! The file is in the cache of the kernel. Its packets have 60 to 1,514 bytes, are of 25,600 flows
//! in random order, and have no signature, which takes `analyze` longest.

use crate::process::{Tool, find_tool};
use crate::programs::{ToolProgram, owned};
use crate::rig::Rig;
use crate::schedule::{Rounds, interleaved};
use crate::stats::Estimate;
use anyhow::{Context, Result, ensure};
use packet::Rng;
use pcapng::pcap;
use serde::Serialize;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CASE: &str = "read-files";
const PEER: &str = "tcpdump";
/// Bytes of the file at most, of those of the large file of a replay.
const BYTES_MAX: u64 = 600_000_000;
/// Packets a microsecond apart, from 2023 on.
const FIRST_NS: u64 = 1_700_000_000_000_000_000;
const SHORTEST: u32 = 60;
const LONGEST: u32 = 1514;
const ROUNDS_MAX: usize = 7;
const TIMEOUT: Duration = Duration::from_secs(300);
/// Exit code for bad usage.
const CODE_USAGE: i32 = 2;
const COMMANDS: [ReadCommand; 4] = [
    ReadCommand { name: "info", words: &["info"], has_output: false, goal: Some(1.0) },
    ReadCommand { name: "analyze", words: &["analyze"], has_output: false, goal: Some(2.1) },
    ReadCommand { name: "export", words: &["export"], has_output: true, goal: Some(3.3) },
    ReadCommand {
        name: "replay --dry-run",
        words: &["replay", "no-device", "--dry-run"],
        has_output: false,
        goal: None,
    },
];

/// A command of wirerate.
struct ReadCommand {
    name: &'static str,
    /// Its words before the file.
    words: &'static [&'static str],
    /// It writes to a folder.
    has_output: bool,
    /// Its time as a ratio to that of tcpdump, at most.
    goal: Option<f64>,
}

#[derive(Debug, Serialize)]
struct FileRead<'a> {
    case: &'a str,
    tool: &'a str,
    against: &'a str,
    time_s: u64,
    packets: u64,
    file_bytes: u64,
    wall_ns: f64,
    /// Of the two times.
    median: f64,
    spread: f64,
    rounds: usize,
    goal: Option<f64>,
}

/// A program and what it is called in rows.
struct Contender {
    name: String,
    program: PathBuf,
    words: Vec<String>,
    goal: Option<f64>,
}

/// Measures all of them in turns.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, programs, plan, deadline, report, .. } = rig;
    let Some(tcpdump) = find_tool(PEER) else {
        return report
            .say(&format!("\n{CASE}: {PEER} is not installed, so there is nothing to compare with"));
    };
    let (file, folder) = (bed.file("read.pcap"), bed.file("read-export"));
    let packets = write_file(&file, plan.times.replay_bytes.min(BYTES_MAX))?;
    let file_bytes = fs::metadata(&file).context("there is no file")?.len();
    let name = |path: &Path| path.to_str().expect("our own names are UTF-8").to_owned();
    let (file_name, folder_name) = (name(&file), name(&folder));
    let mut contenders = vec![Contender {
        name: PEER.to_owned(),
        program: tcpdump,
        words: owned(&["-r", &file_name, "-w", "/dev/null"]),
        goal: None,
    }];
    for (program, prefix) in [(ToolProgram::Wirerate, ""), (ToolProgram::Against, "against ")] {
        let Some(program) = programs.find(program) else { continue };
        for ReadCommand { name, words, has_output, goal } in COMMANDS {
            let mut words = [owned(words), vec![file_name.clone()]].concat();
            if has_output {
                words.extend(["-o".to_owned(), folder_name.clone()]);
            }
            let (name, goal) = (format!("{prefix}{name}"), goal.filter(|_| prefix.is_empty()));
            contenders.push(Contender { name, program: program.clone(), words, goal });
        }
    }
    report.say(&format!(
        "\n{CASE}: {packets} packets of 60 to 1,514 bytes, {file_bytes} bytes, warm cache; time of each"
    ))?;
    let time_of = |Contender { name, program, words, .. }: &Contender| -> Result<Option<Duration>> {
        let start = Instant::now();
        let end = Tool::start_on(program, words, bed.tx().netns(), None)?.wait(TIMEOUT, &bed.stop)?;
        let wall = start.elapsed();
        if folder.exists() {
            fs::remove_dir_all(&folder).context("cannot remove a folder of our own")?;
        }
        let is_unknown = end.status.code() == Some(CODE_USAGE);
        ensure!(end.is_good() || is_unknown, "{name} ended with {}: {}", end.status, end.said.trim());
        Ok((!is_unknown).then_some(wall))
    };
    // The first run of each does not count. Another build may lack a command.
    let mut known = Vec::new();
    for contender in contenders {
        match time_of(&contender)? {
            Some(_) => known.push(contender),
            None => report.say(&format!("  {}: that build has no such command", contender.name))?,
        }
    }
    let contenders = known;
    let mut walls = Rounds::new(contenders.len());
    let rounds = plan.times.rounds.clamp(1, ROUNDS_MAX);
    for turn in interleaved(contenders.len(), rounds) {
        if turn.contender == 0 && turn.round > 0 && deadline.is_over() {
            break;
        }
        let wall = time_of(&contenders[turn.contender])?.context("a command is gone")?;
        walls.push(turn, wall.as_secs_f64() * 1e9);
    }
    for (number, Contender { name, goal, .. }) in contenders.iter().enumerate() {
        let (Some(wall), Some(ratio)) =
            (Estimate::of(walls.of(number)), Estimate::of_ratios(walls.of(number), walls.of(0)))
        else {
            continue;
        };
        let aim = goal.map_or(String::new(), |goal| format!(" (goal: at most {goal})"));
        report.say(&format!("  {name}: {} ms, {ratio} x of {PEER}{aim}", wall.text(1e6)))?;
        let row = FileRead {
            case: CASE,
            tool: name,
            against: PEER,
            time_s: host::realtime_ns() / 1_000_000_000,
            packets,
            file_bytes,
            wall_ns: wall.median,
            median: ratio.median,
            spread: ratio.spread,
            rounds: ratio.count,
            goal: *goal,
        };
        report.row("file_read", &row)?;
    }
    fs::remove_file(&file).context("cannot remove a file of our own")
}

/// Writes UDP packets until the file has this many bytes; returns their number.
fn write_file(path: &Path, bytes_max: u64) -> Result<u64> {
    let header = pcap::Header { precision: pcap::Precision::Microseconds, ..pcap::Header::default() };
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut writer = pcap::Writer::new(BufWriter::with_capacity(1 << 20, file), &header)?;
    let (mut rng, mut packets) = (Rng(1), 0);
    // Ethernet, IPv4 without a checksum, UDP without one.
    let mut frame = [0; LONGEST as usize];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..33].copy_from_slice(&[198, 18, 1, 1, 198, 18, 0]);
    while writer.bytes_written() < bytes_max {
        let frame_len = SHORTEST + rng.below(LONGEST - SHORTEST + 1);
        frame[16..18].copy_from_slice(&(frame_len as u16 - 14).to_be_bytes());
        frame[33] = rng.below(256) as u8;
        frame[34..36].copy_from_slice(&9_u16.to_be_bytes());
        frame[36..38].copy_from_slice(&(1_000 + rng.below(100) as u16).to_be_bytes());
        frame[38..40].copy_from_slice(&(frame_len as u16 - 34).to_be_bytes());
        let time_ns = FIRST_NS + packets * 1_000;
        writer.record(&pcap::Record { time_ns, frame_len, data: &frame[..frame_len as usize] })?;
        packets += 1;
    }
    writer.finish()?.into_inner().context("cannot write the last of it")?;
    Ok(packets)
}
