//! Instructions a frame, to be followed over commits (`bench/history.jsonl`): of the pure rooms by callgrind, the same on a
//! busy machine as on an idle one; of whole engines by the processor's counters, where it has some.
//!
//! Each loop runs twice with different numbers of frames; what the second one takes more is what frames take.

use crate::counters;
use crate::process::find_tool;
use anyhow::{Context, Result, ensure};
use packet::{Config, Cursor, DeviceFacts, Flags, ImixEntry, MacAddr, Plan, WallTime};
use pcapng::{Interface, Packet, Template};
use serde::Serialize;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Frames of the two runs.
const FRAMES: [u64; 2] = [1_000, 11_000];
/// What is counted unless something else is asked for.
const INSTRUCTIONS: &str = "instructions";
/// What valgrind's tool says before the number of instructions.
const COLLECTED: &str = "Collected : ";

/// Arguments of the command `history`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file that a row is added to for each loop
    #[arg(long, value_name = "FILE", default_value = "bench/history.jsonl")]
    to: PathBuf,
    /// The binary whose engines are counted [default: $WIRERATE, or the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) wirerate: Option<PathBuf>,
    /// What perf stat counts of the engines
    #[arg(long, value_name = "EVENT", default_value = INSTRUCTIONS)]
    event: String,
}

/// Arguments of the hidden command `loop`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoopArgs {
    /// One of the loops
    name: String,
    /// Frames
    frames: u64,
}

/// One line of history.
#[derive(Debug, Serialize)]
struct Row<'a> {
    schema: &'static str,
    /// `instructions`; another event by its own name.
    row: &'a str,
    commit: &'a str,
    time_s: u64,
    work: &'a str,
    #[serde(rename = "instructions_per_frame", skip_serializing_if = "Option::is_none")]
    instructions: Option<f64>,
    /// Of another event.
    #[serde(skip_serializing_if = "Option::is_none")]
    events_per_frame: Option<f64>,
}

/// Makes so many frames.
type Loop = fn(u64) -> Result<()>;

/// What is counted, by name.
const LOOPS: &[(&str, Loop)] = &[
    ("packet/plain", |frames| emit(frames, |_| ())),
    ("packet/rich", |frames| {
        emit(frames, |config| {
            (config.dst_min, config.dst_max) = (Some([198, 18, 1, 1].into()), Some([198, 18, 1, 254].into()));
            (config.udp_src_min, config.udp_src_max) = (1, 255);
            (config.udp_dst_min, config.udp_dst_max) = (768, 1_023);
            config.flags.set(Flags::UDPCSUM, true);
            config.flags.set(Flags::NO_TIMESTAMP, false);
        })
    }),
    ("packet/flows", |frames| {
        emit(frames, |config| {
            (config.dst_min, config.dst_max) =
                (Some([198, 18, 0, 0].into()), Some([198, 19, 255, 255].into()));
            (config.flows, config.flow_len) = (1_000, 16);
            config.flags.set(Flags::IPDST_RND, true);
        })
    }),
    ("packet/imix", |frames| {
        emit(frames, |config| {
            let entry = |(size, weight)| ImixEntry { size, weight };
            config.imix = [(60, 7), (594, 4), (1_514, 1)].map(entry).to_vec();
        })
    }),
    ("pcapng/template", |frames| {
        let data = [0x5a; 96];
        let like = Packet { queue: Some(3), frame_len: 128, data: &data, ..Packet::default() };
        let template = Template::new(&Interface::default(), &like);
        write(frames, |time_ns, out| template.emit(time_ns, 128, black_box(&data), out));
        Ok(())
    }),
    ("pcapng/packet", |frames| {
        let data = [0x5a; 96];
        let like = Packet { queue: Some(3), frame_len: 128, data: &data, ..Packet::default() };
        write(frames, |time_ns, out| Packet { time_ns, data: black_box(&data), ..like }.emit(out));
        Ok(())
    }),
];

fn emit(frames: u64, change: impl Fn(&mut Config)) -> Result<()> {
    let facts = DeviceFacts {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        v4: Some(Ipv4Addr::new(198, 18, 0, 1)),
        v6_link_local: None,
        tx_queues: 1,
        cpu: 0,
    };
    let mut config = Config { dst_min: Some([198, 18, 1, 1].into()), ..Config::default() };
    config.flags.set(Flags::NO_TIMESTAMP, true);
    change(&mut config);
    let mut cursor = Cursor::default();
    cursor.start(&config, &facts, 1);
    let plan = Plan::new(&config, &facts, &cursor)?;
    let mut frame = vec![0; plan.frame_len_max() as usize];
    for number in 0..frames {
        plan.emit(&mut cursor, WallTime::from_ns(number), &mut frame);
        black_box(&mut frame);
    }
    Ok(())
}

fn write(frames: u64, emit: impl Fn(u64, &mut Vec<u8>)) {
    let mut out = Vec::with_capacity(4_096);
    for time_ns in 0..frames {
        out.clear();
        emit(time_ns, &mut out);
        black_box(&mut out);
    }
}

/// Runs one loop, for whoever counts.
pub(crate) fn run_loop(args: &LoopArgs) -> Result<()> {
    let found = LOOPS.iter().find(|(name, _)| *name == args.name);
    let (_, run) = found.with_context(|| format!("there is no loop {:?}", args.name))?;
    run(args.frames)
}

/// Counts all loops and engines and adds a row for each to the history.
pub(crate) fn run(args: &Args, wirerate: &Path) -> Result<()> {
    let valgrind =
        find_tool("valgrind").context("valgrind is not installed; tools/install.sh bench does that")?;
    let head = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = head.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    let to = args.to.display();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&args.to)
        .with_context(|| format!("cannot open {to}"))?;
    let mut add = |event: &str, work: &str, per_frame: f64| {
        let is_usual = event == INSTRUCTIONS;
        let row = Row {
            schema: "wirerate.bench/1",
            row: event,
            commit: &commit,
            time_s: host::realtime_ns() / 1_000_000_000,
            work,
            instructions: is_usual.then_some(per_frame),
            events_per_frame: (!is_usual).then_some(per_frame),
        };
        let number = if per_frame < 1.0 { format!("{per_frame:.6}") } else { format!("{per_frame:.1}") };
        println!("{number:>10} {event} a frame  {work}");
        writeln!(file, "{}", serde_json::to_string(&row)?).with_context(|| format!("cannot write to {to}"))
    };
    for (name, _) in LOOPS {
        let count = |frames| instructions(&valgrind, name, frames);
        let [few, many] = [count(FRAMES[0])?, count(FRAMES[1])?];
        add(INSTRUCTIONS, name, many.saturating_sub(few) as f64 / (FRAMES[1] - FRAMES[0]) as f64)?;
    }
    match counters::count(&args.event, wirerate)? {
        Ok(counted) => counted.iter().try_for_each(|one| add(&args.event, &one.work, one.per_frame)),
        Err(why) => {
            println!("engines are left out: {why}");
            Ok(())
        }
    }
}

fn instructions(valgrind: &PathBuf, name: &str, frames: u64) -> Result<u64> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let counted = Command::new(valgrind)
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(own)
        .args(["loop", name, &frames.to_string()])
        .output()
        .context("cannot run valgrind")?;
    let said = String::from_utf8_lossy(&counted.stderr);
    ensure!(counted.status.success(), "valgrind ended with {}: {said}", counted.status);
    let number = said.lines().find_map(|line| Some(line.split_once(COLLECTED)?.1.trim()));
    number.and_then(|number| number.parse().ok()).with_context(|| format!("valgrind counted nothing: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_runs_and_strangers_are_refused() {
        for (name, _) in LOOPS {
            let args = LoopArgs { name: (*name).to_owned(), frames: 20 };
            run_loop(&args).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
        let stranger = LoopArgs { name: "none".to_owned(), frames: 1 };
        assert!(run_loop(&stranger).expect_err("nobody knows it").to_string().contains("none"));
    }
}
