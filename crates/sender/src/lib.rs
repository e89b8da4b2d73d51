//! `wirerate send DEV`: sends frames on a device.
#![forbid(unsafe_code)]

pub mod args;
pub mod capture_frames;
pub mod config;
pub mod control;
pub mod decode;
pub mod device;
pub mod device_count;
pub mod dry_run;
pub mod end_frames;
pub mod flows;
pub mod layer_text;
pub mod layers;
pub mod limits;
pub mod next_hop;
pub mod own_frames;
pub mod packet_options;
pub mod packet_sizes;
pub mod packets;
pub mod rate;
pub mod raw_frame;
pub mod report;
pub mod run;
pub mod shown;
pub mod split;
pub mod streams;
pub mod tags;
pub mod turn_back;
pub mod watch;
pub mod workers;

pub use args::Args;

use packet::ipsec::Associations;
use packet::{Config, Cursor, DeviceFacts, MacAddr, Plan, PlanError};
use program::outcome::{Failure, Outcome};
use program::runs::Repeated;
use program::seed::fresh_seed;
use program::stop::Stop;
use std::sync::Arc;
use units::time_of_day_ns;

/// Sends, or shows what would be sent.
///
/// # Errors
/// What could not be done, ready to be printed.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let Some(runs) = args.runs.filter(|runs| *runs > 1) else { return run_once(args, stop) };
    let repeated = Repeated { command: "send", runs, json: args.json, quiet: args.quiet, stop };
    repeated.run(|| run_once(&Args { started: workers::StartedRuns::default(), ..args.clone() }, stop))
}

fn run_once(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    if let Some(note) = tags::note(args).filter(|_| !args.quiet) {
        eprintln!("wirerate: {note}");
    }
    if let Some(path) = &args.streams {
        return match args.dry_run {
            Some(frame_count) => show_streams(args, streams::read(path, args)?, frame_count, stop),
            None => streams::send(args, path, stop),
        };
    }
    if args.has_own_frames() {
        return own_frames::run(args, stop);
    }
    let config = config::config(args)?;
    let pace = rate::RequestedRate::of(args)?;
    match args.dry_run {
        Some(frame_count) => show(args, config, pace, frame_count, stop),
        None => run::run(args, config, pace, stop),
    }
}

/// The dry run: no device needed, nothing sent.
fn show(
    args: &Args,
    mut config: Config,
    pace: rate::RequestedRate,
    frame_count: u64,
    stop: &Stop,
) -> Result<Outcome, Failure> {
    let to = config::destinations(args);
    let shown = shown::for_show(args.netns.as_deref(), &args.device, &mut config, &to)?;
    shown.notes.iter().for_each(|note| eprintln!("wirerate: {note}"));
    let seed = config.seed.unwrap_or_else(fresh_seed);
    let preview = dry_run::Preview {
        device: &args.device,
        frame_count,
        associations: &shown.associations,
        pace: split::pace_of_one_thread(pace, &config, seed),
        start_ns: time_of_day_ns(),
        fresh_seed: seed,
        json: args.json,
        write: args.write.as_deref(),
        stop,
    };
    dry_run::run(config, &shown.facts, &preview)
}

/// The dry run of several streams.
fn show_streams(
    args: &Args,
    entries: Vec<streams::StreamEntry>,
    frame_count: u64,
    stop: &Stop,
) -> Result<Outcome, Failure> {
    let mut config = Config { dst_mac: MacAddr([2, 0, 0, 0, 0, 2]), ..Config::default() };
    let shown =
        shown::for_show(args.netns.as_deref(), &args.device, &mut config, &config::destinations(args))?;
    shown.notes.iter().for_each(|note| eprintln!("wirerate: {note}"));
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let streams = streams::prepare(entries, args, &shown.facts, seed, None)?;
    streams::show(&streams, args, (&shown.facts, frame_count), stop)
}

/// The plan of a run from its beginning, and the cursor at its start.
///
/// # Errors
/// Bad usage for a configuration that gives no frame; refused without the security association.
pub fn plan(
    config: &mut Config,
    facts: &DeviceFacts,
    fresh_seed: u64,
    associations: &Arc<Associations>,
) -> Result<(Plan, Cursor), Failure> {
    config.prepare(facts);
    let associations = Arc::clone(associations);
    let mut cursor = Cursor { associations, ..Cursor::of_v6(config.src6, config.dst6) };
    cursor.start(config, facts, fresh_seed);
    Plan::new(config, facts, &cursor).map(|plan| (plan, cursor)).map_err(|why| match why {
        PlanError::NoAssociation { .. } | PlanError::UnusableAssociation { .. } => {
            Failure::refused("use IPsec", why)
                .try_this("ip xfrm state add ... in the namespace of the device")
        }
        _ => Failure::usage("make frames with these settings", why),
    })
}
