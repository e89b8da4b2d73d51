//! A real run of `wirerate send`: device, threads, progress, report.

use super::args::Args;
use super::device::Device;
use super::fleet::{Fleet, Sofar};
use super::pace::Pace;
use super::report::{End, Report};
use super::share::shares;
use super::{summary, wish};
use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use crate::term::Progress;
use crate::units::{human_count, human_pps, per_second};
use engine::{Request, Terms};
use host::CpuList;
use packet::{Config, Flags, XmitMode};
use std::time::Instant;

/// Sends what `config` asks for and prints the report.
///
/// # Errors
/// Refused by the host or the device before the first frame.
pub fn run(args: &Args, mut config: Config, pace: Pace, stop: &Stop) -> Result<Outcome, Failure> {
    let act = || format!("send on {}", args.device);
    let device =
        Device::find(args.netns.as_deref(), &args.device).map_err(|why| Failure::host(act(), why))?;
    if !args.allow_default_route {
        device.spare_default_route()?;
    }
    if config.xmit_mode == XmitMode::NetifReceive && config.dst_mac.is_zero() {
        // Into the device's own receive path: anybody else's frame would be thrown away there.
        config.dst_mac = device.facts.mac;
    }
    device.fill_in_dst_mac(&mut config, wish::first_destination(args), true)?;
    let cpus = cpus(args, &device)?;
    let seed = config.seed.unwrap_or_else(super::fresh_seed);
    let setting = summary::Setting {
        device: args.device.clone(),
        netns: args.netns.clone(),
        interval_ps: pace.interval_ps(&config),
        seed,
        notes: notes(&config),
    };
    let requests = requests(args, &mut config, &device, pace, seed, &cpus)?;
    let cpu_time = host::process_cpu_time();
    let fleet = Fleet::start(&device.netns, requests)?;
    let progress = Progress::new(!args.json, config.count);
    let mut meter = Meter::new();
    let done = fleet.finish(stop, |sofar| {
        if progress.is_visible() {
            progress.show(sofar.sent, meter.text(sofar, Instant::now()));
        }
    });
    drop(progress);
    let report = summary::report(setting, &done, host::process_cpu_time() - cpu_time);
    conclude(args, &report, summary::failure(done))
}

/// Prints the report, or the error when nothing was sent at all, and says whether the answer is yes.
fn conclude(args: &Args, report: &Report, error: Option<engine::EngineError>) -> Result<Outcome, Failure> {
    let act = format!("send on {}", args.device);
    if let Some(error) = error {
        let failure = Failure::engine(act, error);
        if report.offered == 0 {
            return Err(failure);
        }
        eprint!("{failure}");
    }
    out::text(&if args.json { report.json_line() } else { report.to_string() })?;
    Ok(if is_good(report) { Outcome::Done } else { Outcome::No })
}

/// A ring that was full at times is how a fast sender meets a slow driver; everything else is trouble.
fn is_good(report: &Report) -> bool {
    let trouble = report.error_causes.iter().any(|cause| cause.cause != "ring_full");
    !trouble && !matches!(report.end, End::Failed | End::DeviceGone)
}

/// The CPUs to send from: those asked for, or as many as asked for near the device.
fn cpus(args: &Args, device: &Device) -> Result<Vec<u32>, Failure> {
    if let Some(list) = &args.cpus {
        return Ok(list.0.clone());
    }
    let failed = |why| Failure::host("choose CPUs to send from", why);
    let allowed = CpuList::allowed().map_err(failed)?;
    let node = device.stack.numa_node(&device.link).map_err(failed)?;
    let mut cpus: Vec<_> = allowed.iter().collect();
    // Near the device first; of these the last, since the first often serve everybody's interrupts.
    cpus.sort_by_key(|cpu| (node.is_some() && host::node_of_cpu(*cpu) != node, std::cmp::Reverse(*cpu)));
    let wanted = args.threads.unwrap_or(1) as usize;
    if wanted > cpus.len() {
        return Err(Failure::usage(
            format!("send from {wanted} threads"),
            format!("each needs a CPU of its own, and there are {}", cpus.len()),
        )
        .try_this(format!("--threads {}", cpus.len())));
    }
    cpus.truncate(wanted);
    Ok(cpus)
}

fn requests(
    args: &Args,
    config: &mut Config,
    device: &Device,
    pace: Pace,
    seed: u64,
    cpus: &[u32],
) -> Result<Vec<(u32, Request)>, Failure> {
    let duration_ns = args.duration.map_or(0, |duration| duration.0);
    let mut requests = Vec::new();
    for (share, cpu) in shares(config.count, pace, seed, cpus.len() as u32).into_iter().zip(cpus) {
        let facts = packet::DeviceFacts { cpu: *cpu, ..device.facts };
        let (plan, mut cursor) = super::plan(config, &facts, seed)?;
        cursor.seq_num = share.seq_num;
        cursor.rng = share.rng;
        let terms = Terms { count: share.count, duration_ns, pace: share.pace };
        requests.push((
            *cpu,
            Request {
                ifname: device.link.name.clone(),
                plan,
                cursor,
                mode: config.xmit_mode,
                terms,
                engine: args.engine.map(Into::into),
                batch: args.batch,
            },
        ));
    }
    Ok(requests)
}

/// Things about a configuration that may surprise.
fn notes(config: &Config) -> Vec<String> {
    let drawn = config.flags.has(Flags::IPV6) && !config.dst6_min.is_unspecified();
    let asked = config.flags.has(Flags::IPDST_RND);
    let note = "IPv6 destinations are drawn at random: they cannot be counted through".to_owned();
    if drawn && !asked { vec![note] } else { Vec::new() }
}

/// The rate now and on average, for the live line.
struct Meter {
    start: Instant,
    last: (Instant, Sofar),
    now_pps: f64,
}

impl Meter {
    fn new() -> Self {
        let start = Instant::now();
        Self { start, last: (start, Sofar::default()), now_pps: 0.0 }
    }

    fn text(&mut self, sofar: Sofar, now: Instant) -> String {
        let (then, before) = self.last;
        let elapsed = now.duration_since(then);
        if elapsed >= crate::term::REDRAW {
            self.now_pps = per_second(sofar.sent - before.sent, elapsed.as_nanos() as u64);
            self.last = (now, sofar);
        }
        let mean = per_second(sofar.sent, now.duration_since(self.start).as_nanos() as u64);
        let [now, mean] = [self.now_pps, mean].map(human_pps);
        format!(
            "{} sent, {now} now, {mean} mean, {} errors",
            human_count(sofar.sent),
            human_count(sofar.errors)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_live_line_tells_the_rate_now_from_the_mean() {
        let mut meter = Meter::new();
        let at = |ms| Duration::from_millis(ms);
        let start = meter.start;
        meter.text(Sofar { sent: 1000, errors: 0 }, start + at(1000));
        let text = meter.text(Sofar { sent: 4000, errors: 7 }, start + at(2000));
        assert_eq!(text, "4,000 sent, 3.000 kpps now, 2.000 kpps mean, 7 errors");
    }
}
