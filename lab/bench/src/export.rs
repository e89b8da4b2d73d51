//! Exports of a capture file as Parquet: packets per second of CPU time, and the size beside the
//! file.
//!
//! Each packet is a flow of its own, which is the most work and takes the most space.

use crate::process::{Tool, find_json};
use crate::programs::{ToolProgram, owned};
use crate::rig::Rig;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Duration;

const CASE: &str = "export";
/// There is one packet for this number of bytes of the large file of a replay.
const BYTES_PER_PACKET: u64 = 400;
/// Random addresses, ports and lengths.
const FRAMES: &str = "send lo --dst 198.18.0.0/15 --src 10.0.0.0/8 --udp-src 1024-65534 --udp-dst 1-9999 --vlan 42 \
                      --size 66-96 --random dst,src,udp-src,udp-dst,size --pps 500k --seed 6";
/// Each: its name, options, packets per second of CPU time, and percent of the length of the file.
const GOALS: [(&str, &[&str], f64, f64); 2] =
    [("export --no-bytes", &["--no-bytes"], 2e6, 10.0), ("export", &[], 1.3e6, 25.0)];
const ROUNDS_MAX: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, Serialize)]
struct Exported<'a> {
    case: &'a str,
    tool: &'a str,
    packets: u64,
    cpu_ns: u64,
    packets_per_cpu_s: f64,
    goal_packets_per_cpu_s: f64,
    file_bytes: u64,
    bytes: u64,
    percent: f64,
    goal_percent: f64,
}

/// What is read of the report of an export.
#[derive(Debug, Deserialize)]
struct ExportEnd {
    stored: u64,
    bytes: u64,
}

/// Measures exports with and without the bytes of the packets.
pub(crate) fn run(rig: Rig<'_>) -> Result<()> {
    let Rig { bed, programs, plan, report, .. } = rig;
    let wirerate = programs.find(ToolProgram::Wirerate).context("there is no wirerate to measure")?;
    let packets = plan.times.replay_bytes / BYTES_PER_PACKET;
    report.say(&format!(
        "\n{CASE}: {packets} packets of as many flows as Parquet, by CPU time; best of rounds"
    ))?;
    let run = |words: Vec<String>| -> Result<_> {
        let end = Tool::start_on(&wirerate, &words, bed.tx().netns(), None)?.wait(TIMEOUT, &bed.stop)?;
        ensure!(end.is_good(), "it ended with {}: {}", end.status, end.said.trim());
        Ok(end)
    };
    let name = |path: &Path| path.to_str().expect("our own names are UTF-8").to_owned();
    let (file, folder) = (bed.file("export.pcapng"), bed.file("export"));
    let (file_name, folder_name) = (name(&file), name(&folder));
    let frames = owned(&FRAMES.split_whitespace().collect::<Vec<_>>());
    let count = packets.to_string();
    run([frames, owned(&["--count", &count, &format!("--dry-run={count}"), "--write", &file_name])].concat())?;
    let file_bytes = fs::metadata(&file).context("there is no file")?.len();
    for (tool, options, goal, goal_percent) in GOALS {
        let mut best: Option<Exported<'_>> = None;
        for _ in 0..plan.times.rounds.clamp(1, ROUNDS_MAX) {
            let words = owned(&["export", &file_name, "-o", &folder_name, "--json"]);
            let end = run([words, owned(options)].concat())?;
            fs::remove_dir_all(&folder).context("cannot remove a folder of our own")?;
            let ExportEnd { stored, bytes } = find_json(&end.said).context("the export has no report")?;
            ensure!(stored == packets, "{stored} of {packets} packets were stored");
            let row = Exported {
                case: CASE,
                tool,
                packets,
                cpu_ns: end.cpu_ns,
                packets_per_cpu_s: packets as f64 * 1e9 / end.cpu_ns.max(1) as f64,
                goal_packets_per_cpu_s: goal,
                file_bytes,
                bytes,
                percent: 100.0 * bytes as f64 / file_bytes as f64,
                goal_percent,
            };
            best = Some(match best {
                Some(best) if best.cpu_ns <= row.cpu_ns => best,
                _ => row,
            });
        }
        if let Some(row) = best {
            report.say(&format!(
                "  {tool}: {:.2} million packets per CPU second (goal {:.1}), {:.1} % of the file (goal {goal_percent})",
                row.packets_per_cpu_s / 1e6,
                goal / 1e6,
                row.percent
            ))?;
            report.row("exported", &row)?;
        }
    }
    fs::remove_file(&file).context("cannot remove a file of our own")
}
