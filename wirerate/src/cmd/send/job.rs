//! One wish made into work for threads: a plan, a cursor and terms for each.

use super::device::Device;
use super::fleet::{Fleet, Sofar};
use super::pace::Pace;
use super::report::Report;
use super::share::shares;
use super::summary::{self, Setting};
use crate::outcome::Failure;
use crate::stop::Stop;
use crate::term::Progress;
use crate::units::{human_count, human_pps, per_second};
use engine::{CatchUp, EngineError, EngineKind, Request, Terms, Wish};
use packet::{Config, DeviceFacts, Flags};
use std::time::Instant;

/// Frames to send on one device.
#[derive(Debug)]
pub struct Job<'a> {
    /// The device.
    pub device: &'a Device,
    /// Its namespace, as the user named it.
    pub netns: Option<String>,
    /// The frames.
    pub config: Config,
    /// How fast.
    pub pace: Pace,
    /// How fast when it is late.
    pub catch_up: CatchUp,
    /// How long, in nanoseconds; 0 for no end.
    pub duration_ns: u64,
    /// The CPUs to send from, one thread each.
    pub cpus: Vec<u32>,
    /// The engine that the user insists on.
    pub engine: Option<EngineKind>,
    /// Frames handed over in one go, where the user said so.
    pub batch: Option<u32>,
}

impl Job<'_> {
    /// Sends until everything is sent, the time is over or somebody stops it. The error, if there is one, is
    /// why it ended early; what was sent until then is in the report.
    ///
    /// # Errors
    /// When not even the threads can be had.
    pub fn run(mut self, stop: &Stop, show: bool) -> Result<(Report, Option<EngineError>), Failure> {
        let seed = self.config.seed.unwrap_or_else(super::fresh_seed);
        let requests = self.requests(seed)?;
        let (started, cpu_time) = (Instant::now(), host::process_cpu_time());
        let fleet = Fleet::start(&self.device.netns, requests, stop)?;
        let progress = Progress::new(show, self.config.count);
        let mut meter = Meter::default();
        let done = fleet.finish(stop, |sofar| {
            if progress.is_visible() {
                progress.show(sofar.sent, meter.text(sofar, Instant::now()));
            }
        });
        drop(progress);
        // Both from before the engines are made until after they are gone, which counts in a short run.
        let cpus_busy = (host::process_cpu_time() - cpu_time).div_duration_f64(started.elapsed());
        let report = summary::report(self.setting(seed), &done, cpus_busy);
        Ok((report, summary::failure(done)))
    }

    fn setting(self, seed: u64) -> Setting {
        Setting {
            device: self.device.link.name.clone(),
            netns: self.netns,
            interval_ps: self.pace.interval_ps(&self.config),
            seed,
            notes: notes(&self.config),
        }
    }

    fn requests(&mut self, seed: u64) -> Result<Vec<(u32, Request)>, Failure> {
        let shares = shares(self.config.count, self.pace, seed, self.cpus.len() as u32);
        let associations = self.device.associations(&self.config);
        let associations = associations.map_err(|why| Failure::host("read security associations", why))?;
        let mut requests = Vec::new();
        for (share, cpu) in shares.into_iter().zip(&self.cpus) {
            let facts = DeviceFacts { cpu: *cpu, ..self.device.facts };
            let (plan, mut cursor) = super::plan(&mut self.config, &facts, seed, &associations)?;
            cursor.seq_num = share.seq_num;
            cursor.rng = share.rng;
            let request = Request {
                ifname: self.device.link.name.clone(),
                plan,
                cursor,
                mode: self.config.xmit_mode,
                wish: Wish::of(&self.config),
                terms: Terms {
                    count: share.count,
                    duration_ns: self.duration_ns,
                    pace: share.pace,
                    catch_up: self.catch_up,
                },
                engine: self.engine,
                batch: self.batch,
                next_ns: None,
            };
            requests.push((*cpu, request));
        }
        Ok(requests)
    }
}

/// Things about a configuration that may surprise.
fn notes(config: &Config) -> Vec<String> {
    let drawn = config.flags.has(Flags::IPV6) && !config.dst6_min.is_unspecified();
    let asked = config.flags.has(Flags::IPDST_RND);
    let seals = config.asks_for_ipsec();
    [
        (drawn && !asked, "IPv6 destinations are drawn at random: they cannot be counted through"),
        (seals, "sealed frames are longer than asked for by their padding and integrity check"),
        (
            seals && config.clone_skb > 1,
            "frames that go out again have the number they had: a replay window drops them",
        ),
    ]
    .into_iter()
    .filter(|(applies, _)| *applies)
    .map(|(_, note)| note.to_owned())
    .collect()
}

/// The rate now and on average, for the live line. Its time begins when frames have been seen: making an engine
/// takes a moment, which is no part of the rate.
#[derive(Default)]
struct Meter {
    first: Option<(Instant, Sofar)>,
    last: Option<(Instant, Sofar)>,
    now_pps: Option<f64>,
}

impl Meter {
    fn text(&mut self, sofar: Sofar, now: Instant) -> String {
        let counts = format!("{} sent", human_count(sofar.sent));
        if sofar.sent == 0 {
            return counts;
        }
        let since = |&mut (then, before): &mut (Instant, Sofar)| {
            let elapsed = now.duration_since(then);
            (elapsed, per_second(sofar.sent - before.sent, elapsed.as_nanos() as u64))
        };
        let (_, mean_pps) = since(self.first.get_or_insert((now, sofar)));
        let (elapsed, now_pps) = since(self.last.get_or_insert((now, sofar)));
        if elapsed >= crate::term::REDRAW {
            self.now_pps = Some(now_pps);
            self.last = Some((now, sofar));
        }
        let [now, mean] = [self.now_pps.unwrap_or(mean_pps), mean_pps].map(human_pps);
        format!("{counts}, {now} now, {mean} mean, {} errors", human_count(sofar.errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_live_line_tells_the_rate_now_from_the_mean() {
        let mut meter = Meter::default();
        let start = Instant::now();
        let mut text =
            |sent, errors, ms| meter.text(Sofar { sent, errors }, start + Duration::from_millis(ms));
        assert_eq!(text(0, 0, 900), "0 sent");
        text(1000, 0, 1000);
        text(2000, 0, 2000);
        assert_eq!(text(5000, 7, 3000), "5,000 sent, 3.000 kpps now, 2.000 kpps mean, 7 errors");
    }
}
