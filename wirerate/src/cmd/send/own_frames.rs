//! `wirerate send DEV --frame PACKETS` and `--frames FILE`: frames in trafgen's language with the
//! options of `send`.

use super::args::Args;
use super::dry_run::{self, Preview};
use super::packets::Packets;
use super::rate::Rate;
use super::run::{self, CATCH_UP_DEFAULT, Job};
use super::watch::View;
use super::{config, fresh_seed, shown};
use crate::outcome::{Failure, Outcome, Refused};
use crate::stop::Stop;
use crate::units::time_of_day_ns;
use engine::EngineKind;
use packet::{Config, DeviceFacts, MacAddr, Plan, Rng};
use std::fs;

/// Sends the frames, or shows them.
///
/// # Errors
/// Bad usage with the position of the error in the text; refused by the host or the device.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    config::check_duration(args)?;
    let pace = Rate::of(args)?;
    let seed = args.seed.unwrap_or_else(fresh_seed);
    match args.dry_run {
        Some(frame_count) => show(args, pace, seed, frame_count),
        None => send(args, pace, seed, stop),
    }
}

/// The packets, with a note about what they leave out.
fn packets(args: &Args, facts: &DeviceFacts, seed: u64) -> Result<Packets, Failure> {
    let packets = match &args.frames {
        Some(path) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).refused(format!("read {name}"))?;
            Packets::parse(&text, &name, facts, seed)?
        }
        None => Packets::parse(args.frame.as_deref().unwrap_or_default(), "--frame", facts, seed)?,
    };
    if let Some(number) = packets.without_destination().filter(|_| !args.quiet) {
        eprintln!("wirerate: packet {number} has no destination MAC: it is zero (eth(da=MAC) sets it)");
    }
    Ok(packets)
}

fn send(args: &Args, pace: Rate, seed: u64, stop: &Stop) -> Result<Outcome, Failure> {
    let xmit_mode = config::xmit_mode(args);
    let device = run::find(args, xmit_mode)?;
    let cpus = run::cpus(args, &device)?;
    if args.engine.map(EngineKind::from) == Some(EngineKind::AfXdp) && cpus.len() > 1 {
        let act = format!("send these frames from {} threads by af_xdp", cpus.len());
        let why = "a queue takes one thread, and these frames have one queue";
        return Err(Failure::usage(act, why).try_this("--threads 1"));
    }
    let packets = packets(args, &device.facts, seed)?;
    let mut config = packets.config(config::count(args), xmit_mode, seed);
    config.skb_priority = args.skb_priority.unwrap_or(0);
    let job = Job {
        cpus,
        device: &device,
        netns: args.netns.clone(),
        next_hop: None,
        config,
        packets: Some(packets),
        pace,
        catch_up: args.catch_up.unwrap_or(CATCH_UP_DEFAULT),
        duration_ns: args.duration_ns(),
        engine: args.engine.map(Into::into),
        batch: args.batch,
    };
    let (report, error) = job.run(stop, View::of(args))?;
    run::conclude(&args.device, args.netns.as_deref(), &report, error, |report| run::print(args, report))
}

/// The dry run shows what the first thread sends.
fn show(args: &Args, pace: Rate, seed: u64, frame_count: u64) -> Result<Outcome, Failure> {
    // The packets give their own destination: nothing has to be resolved.
    let mut unused = Config { dst_mac: MacAddr([2, 0, 0, 0, 0, 2]), ..Config::default() };
    let to = config::destinations(args);
    let shown = shown::for_show(args.netns.as_deref(), &args.device, &mut unused, &to)?;
    shown.notes.iter().for_each(|note| eprintln!("wirerate: {note}"));
    let packets = packets(args, &shown.facts, seed)?;
    let config = packets.config(config::count(args), config::xmit_mode(args), seed);
    let general = packets.of_thread(0).ok_or_else(|| {
        Failure::usage("show the frames of the first thread", "all packets are for other threads")
            .try_this("packets without cpu()")
    })?;
    let (plan, mut cursor) = Plan::of_packets(general, &shown.facts);
    cursor.rng = Rng(seed);
    let preview = Preview {
        device: &args.device,
        frame_count,
        associations: &shown.associations,
        interval_ps: pace.interval_ps(&config),
        start_ns: time_of_day_ns(),
        fresh_seed: seed,
        json: args.json,
        write: args.write.as_deref(),
    };
    dry_run::show(plan, cursor, config.count, &preview)
}
