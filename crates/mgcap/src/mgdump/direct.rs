//! mgdump of a device that is not captured yet: a capture of its own.

use super::{Args, DumpSummary, LOOK, name_for};
use capture::{Options, Order, Output, Session, Stats};
use host::Netns;
use program::out::{self, OutError};
use program::outcome::Failure;
use program::rx_stats::{Cpu, Ticker};
use program::stop::Stop;
use std::path::PathBuf;
use std::thread;

pub(super) fn run(args: &Args, device: String, stop: &Stop) -> Result<DumpSummary, Failure> {
    let act = format!("capture on {device}");
    let refused = |why| Failure::capture(&act, why);
    let netns = args.netns.as_deref().map(Netns::named).transpose();
    let options = Options {
        netns: netns.map_err(|why| Failure::host(&act, why))?,
        mode: args.mode(),
        frames_max: args.frames_max(),
        output: Output::File(args.write.clone()),
        interrupted: stop.flag(),
        order: if args.per_cpu { Order::FilePerRing } else { Order::default() },
        ..Options::new(&device)
    };
    let session = Session::start(options).map_err(refused)?;
    let _ = host::keep_capabilities(&[]);
    for facts in session.devices() {
        eprintln!("mgdump: listening on {} ({})", facts.link.name, facts.source);
    }
    let cpus: Vec<u32> = session.stats().rings.iter().map(|ring| ring.cpu).collect();
    let watched = watch(&session, args, stop);
    let ended = session.stop();
    let gone = ended.devices.iter().filter(|device| device.is_gone);
    let is_gone = gone.inspect(|device| eprintln!("mgdump: {} went away", device.link.name)).count() > 0;
    watched?;
    if let Some(error) = ended.output_error {
        return Err(refused(error));
    }
    let total = ended.stats.total();
    Ok(DumpSummary {
        device,
        written: total.written,
        lost: vec![
            ("at the device", ended.stats.lost_nic()),
            ("in the ring", Some(total.lost_ring)),
            ("at the disk", Some(total.lost_disk)),
        ],
        files: files(args, &cpus),
        is_gone,
        is_cut: false,
    })
}

/// Prints a line each second until it is time to end.
fn watch(session: &Session, args: &Args, stop: &Stop) -> Result<(), OutError> {
    let mut ticker = Ticker::default();
    loop {
        let stats = session.stats();
        if ticker.is_due(stats.elapsed) {
            out::text(&ticker.next(stats.elapsed, stats.total().received_bytes, cpus(&stats)).to_string())?;
        }
        let is_late = args.duration().is_some_and(|duration| stats.elapsed >= duration);
        if stop.is_set() || is_late || session.is_finished() {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// Frames of each CPU; a CPU without any says so.
fn cpus(stats: &Stats) -> Vec<Cpu> {
    stats.by_cpu().into_iter().map(|(cpu, counts)| Cpu { cpu, received: counts.received }).collect()
}

/// The files that were written.
fn files(args: &Args, cpus: &[u32]) -> Vec<PathBuf> {
    if args.per_cpu {
        cpus.iter().map(|cpu| name_for(args, *cpu)).collect()
    } else {
        vec![args.write.clone()]
    }
}
