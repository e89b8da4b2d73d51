//! Sending frames on a device. A [`SendJob`] has what is to be done; the commands fill it from
//! their options, files or plans.
#![forbid(unsafe_code)]

pub mod capture_frames;
pub mod config;
pub mod control;
pub mod device;
pub mod device_count;
pub mod dry_run;
pub mod end_frames;
pub mod flows;
pub mod job;
pub mod job_packets;
pub mod layer_text;
pub mod layers;
pub mod limits;
pub mod next_hop;
pub mod packet_options;
pub mod packet_sizes;
pub mod packets;
pub mod plain_frame;
pub mod rate;
pub mod raw_frame;
pub mod ready;
pub mod report;
pub mod run;
pub mod shown;
pub mod split;
pub mod streams;
pub mod tags;
pub mod turn_back;
pub mod watch;
pub mod workers;

pub use job::SendJob;

use packet::ipsec::Associations;
use packet::{Config, Cursor, DeviceFacts, MacAddr, Plan, PlanError, Rng};
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
pub fn run(job: &SendJob, stop: &Stop) -> Result<Outcome, Failure> {
    let Some(runs) = job.runs.filter(|runs| *runs > 1) else { return run_once(job, stop) };
    let repeated = Repeated { command: "send", runs, json: job.json, quiet: job.quiet, stop };
    repeated.run(|| run_once(&SendJob { started: workers::StartedRuns::default(), ..job.clone() }, stop))
}

fn run_once(job: &SendJob, stop: &Stop) -> Result<Outcome, Failure> {
    if let Some(note) = tags::note(job).filter(|_| !job.quiet) {
        stop.console().note(note);
    }
    if !job.streams.is_empty() {
        return match job.dry_run {
            Some(frame_count) => show_streams(job, frame_count, stop),
            None => streams::send(job, stop),
        };
    }
    let pktgen = if job.has_own_frames() { None } else { Some(config::config(job)?) };
    match job.dry_run {
        Some(frame_count) => show(job, pktgen, frame_count, stop),
        None => ready::run(job, pktgen, stop),
    }
}

/// The dry run: no device needed, nothing sent. It shows what the first thread sends.
fn show(job: &SendJob, pktgen: Option<Config>, frame_count: u64, stop: &Stop) -> Result<Outcome, Failure> {
    let is_of_packets = pktgen.is_none();
    if is_of_packets {
        job_packets::check(job)?;
    }
    let pace = rate::RequestedRate::of(job)?;
    let seed = job.seed.unwrap_or_else(fresh_seed);
    let mut config = match pktgen {
        Some(config) => config,
        None => {
            let mut config = Config { dst_mac: job_packets::shown_dst_mac(job), ..Config::default() };
            config::set_ipsec(&mut config, job)?;
            config
        }
    };
    let to = config::destinations(job);
    let shown = shown::for_show(job.netns.as_deref(), &job.device, &mut config, &to)?;
    shown.notes.iter().for_each(|note| stop.console().note(note));
    let (plan, cursor) = match is_of_packets {
        true => shown_packets(job, &mut config, &shown, seed, stop)?,
        false => plan(&mut config, &shown.facts, seed, &shown.associations)?,
    };
    let preview = dry_run::Preview {
        device: &job.device,
        frame_count,
        pace: split::pace_of_one_thread(pace, &config, seed),
        start_ns: time_of_day_ns(),
        json: job.json,
        write: job.write.as_deref(),
        stop,
    };
    dry_run::show(plan, cursor, config.count, &preview)
}

/// The plan of the first thread of a run of packets, whose settings become `config`.
fn shown_packets(
    job: &SendJob,
    config: &mut Config,
    shown: &shown::DryRunFacts,
    seed: u64,
    stop: &Stop,
) -> Result<(Plan, Cursor), Failure> {
    if !job.frames_are_given() && !job.quiet {
        let packet = packet_options::packet(job, config.dst_mac)?;
        stop.console().note(format!("--frame '{packet}'{}", packet_sizes::PacketSizes::text(job)));
    }
    let facts = &shown.facts;
    let mut packets = job_packets::packets(job, config.dst_mac, facts, seed)?;
    job_packets::note(job, &packets).into_iter().for_each(|note| stop.console().note(note));
    job_packets::mark(&mut packets, job, 1, None)?;
    packets.notes().iter().filter(|_| !job.quiet).for_each(|note| stop.console().note(note));
    *config = job_packets::config(job, &packets, seed)?;
    let (plan, cursor) =
        plan_of_packets(&packets, 0, config, facts, &shown.associations)?.ok_or_else(|| {
            Failure::usage("show the frames of the first thread", "all packets are for other threads")
                .try_this("packets without cpu()")
        })?;
    Ok((plan, Cursor { rng: Rng(seed), ..cursor }))
}

/// The dry run of several streams.
fn show_streams(job: &SendJob, frame_count: u64, stop: &Stop) -> Result<Outcome, Failure> {
    let mut config = Config { dst_mac: MacAddr([2, 0, 0, 0, 0, 2]), ..Config::default() };
    let shown = shown::for_show(job.netns.as_deref(), &job.device, &mut config, &config::destinations(job))?;
    shown.notes.iter().for_each(|note| stop.console().note(note));
    let seed = job.seed.unwrap_or_else(fresh_seed);
    let streams = streams::prepare(job.streams.clone(), job, &shown.facts, seed, None)?;
    streams::show(&streams, job, (&shown.facts, frame_count), stop)
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
    Plan::new(config, facts, &cursor).map(|plan| (plan, cursor)).map_err(no_plan)
}

/// The plan of the packets of a thread, and the cursor at its start; `None` if all packets are for
/// other threads.
///
/// # Errors
/// Bad usage for packets that cannot be protected; refused without the security association.
pub fn plan_of_packets(
    packets: &packets::Packets,
    thread: u32,
    config: &Config,
    facts: &DeviceFacts,
    associations: &Arc<Associations>,
) -> Result<Option<(Plan, Cursor)>, Failure> {
    let plan =
        packets.of_thread(thread).map(|plan| plan.sent_as(config, facts).protected(config, associations));
    Ok(plan.transpose().map_err(no_plan)?.map(|plan| plan.on(facts)))
}

fn no_plan(why: PlanError) -> Failure {
    match why {
        PlanError::NoAssociation { .. } | PlanError::UnusableAssociation { .. } => {
            Failure::refused("use IPsec", why)
                .try_this("ip xfrm state add ... in the namespace of the device")
        }
        _ => Failure::usage("make frames with these settings", why),
    }
}
