//! From what the threads did to the report.

use super::fleet::Done;
use super::report::{Cause, Choice, End, Gaps, Late, Octave, Report, Thread};
use crate::units::per_second;
use engine::{Burst, EngineError};
use packet::{FRAME_LEN_MIN, WIRE_OVERHEAD};
use std::collections::BTreeSet;
use std::io;

/// What the report says beside what the threads did.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The device.
    pub device: String,
    /// Its namespace, where one was named.
    pub netns: Option<String>,
    /// Mean time between frames that was asked for, in picoseconds; 0 for none.
    pub interval_ps: u64,
    /// The seed that repeats the run.
    pub seed: u64,
    /// Things worth knowing about what was asked.
    pub notes: Vec<String>,
}

/// Adds up what the threads did. `cpus_busy` is the CPU time that the process used meanwhile, in CPUs.
pub fn report(setting: Setting, done: &[Done], cpus_busy: f64) -> Report {
    let mut total = Burst::default();
    done.iter().for_each(|done| total.add(&done.run.total));
    let started_ns = done.iter().map(|done| done.run.started_ns).min().unwrap_or(0);
    let stopped_ns = done.iter().map(|done| done.run.stopped_ns).max().unwrap_or(0);
    let duration_ns = stopped_ns - started_ns;
    let frame_bytes = share_of(total.frame_bytes, total.sent, total.offered());
    let rate = |bytes: u64| per_second(bytes.saturating_mul(8), duration_ns);
    Report {
        device: setting.device,
        netns: setting.netns,
        end: end(done),
        offered: total.offered(),
        sent: total.sent,
        errors: total.errors.total(),
        error_causes: causes(&total.errors),
        retries: total.retries,
        duration_ns,
        rate_pps: per_second(total.sent, duration_ns),
        frame_bps: rate(frame_bytes),
        wire_bps: rate(wire_bytes(frame_bytes, total.sent)),
        frame_bytes,
        gaps: gaps(done, setting.interval_ps),
        late: late(done),
        cpus_busy,
        threads: done.iter().map(thread).collect(),
        engine: choice(done),
        seed: setting.seed,
        notes: setting.notes.into_iter().chain(engine_notes(done)).collect(),
    }
}

/// What the engines note, each text once.
fn engine_notes(done: &[Done]) -> BTreeSet<String> {
    done.iter().filter_map(|done| done.run.note.clone()).collect()
}

/// How late the threads were, where one was.
fn late(done: &[Done]) -> Option<Late> {
    let all = || done.iter().map(|done| &done.run.lateness);
    let late = Late {
        times: all().map(|late| late.times).max()?,
        longest_ns: all().map(|late| late.longest_ns).max()?,
        frames: all().map(|late| late.frames).sum(),
        given_up_ns: all().map(|late| late.given_up_ns).max()?,
    };
    (late.times > 0 || late.given_up_ns > 0).then_some(late)
}

/// Why the run failed, if it did.
pub fn failure(done: Vec<Done>) -> Option<EngineError> {
    done.into_iter().find_map(|done| match done.run.end {
        engine::End::Failed(error) => Some(error),
        _ => None,
    })
}

/// The part of `whole` that belongs to `some` of `all`.
fn share_of(whole: u64, some: u64, all: u64) -> u64 {
    if all == 0 { 0 } else { (u128::from(whole) * u128::from(some) / u128::from(all)) as u64 }
}

/// Bytes on the wire. Frames below the shortest are padded there; where some of several lengths are below it,
/// which only sizes of 58 and 59 can be, the mean decides.
fn wire_bytes(frame_bytes: u64, frames: u64) -> u64 {
    frame_bytes.max(frames * u64::from(FRAME_LEN_MIN)) + frames * u64::from(WIRE_OVERHEAD)
}

/// The end that says most: a failure before a stop before the rest.
fn end(done: &[Done]) -> End {
    let ends = done.iter().map(|done| match &done.run.end {
        engine::End::Failed(error) if error.is_device_gone() => End::DeviceGone,
        engine::End::Failed(_) => End::Failed,
        engine::End::Stopped => End::Stopped,
        engine::End::Duration => End::Duration,
        engine::End::Count => End::Count,
    });
    let weight = |end: &End| match end {
        End::Count => 0,
        End::Duration => 1,
        End::Stopped => 2,
        End::DeviceGone => 3,
        End::Failed => 4,
    };
    ends.max_by_key(weight).unwrap_or(End::Count)
}

fn causes(errors: &engine::Errors) -> Vec<Cause> {
    let refused = match errors.last_errno {
        0 => "the driver refused them".to_owned(),
        errno => format!("the driver refused them: {}", io::Error::from_raw_os_error(errno)),
    };
    let full = "the ring of the driver was full".to_owned();
    let dropped = "the kernel dropped them before the driver saw them".to_owned();
    let invalid = "the kernel found their descriptors invalid".to_owned();
    let queue = "the qdisc dropped them, or others in their place".to_owned();
    [
        ("ring_full", full, errors.ring_full),
        ("refused", refused, errors.refused),
        ("not_handed_over", dropped, errors.not_handed_over),
        ("qdisc_dropped", queue, errors.qdisc_dropped),
        ("invalid", invalid, errors.invalid),
    ]
    .into_iter()
    .filter(|(.., count)| *count > 0)
    .map(|(cause, meaning, count)| Cause { cause, meaning, count })
    .collect()
}

/// Gaps of all threads; each thread keeps its own pace, so what was asked of it is that of the whole times the
/// number of threads.
fn gaps(done: &[Done], interval_ps: u64) -> Option<Gaps> {
    let mut all = done.iter().filter_map(|done| done.run.gaps.as_ref());
    let mut sum = all.next()?.clone();
    all.for_each(|gaps| sum.add(gaps));
    if sum.count() == 0 {
        return None;
    }
    Some(Gaps {
        asked_ns: interval_ps as f64 / 1000.0 * done.len() as f64,
        mean_ns: sum.mean_ns(),
        p50_ns: sum.quantile_ns(0.5),
        p99_ns: sum.quantile_ns(0.99),
        max_ns: sum.max_ns(),
        histogram: sum.octaves().into_iter().map(|(below_ns, count)| Octave { below_ns, count }).collect(),
    })
}

fn thread(done: &Done) -> Thread {
    let Burst { sent, .. } = done.run.total;
    Thread { cpu: done.cpu, offered: done.run.total.offered(), sent, duration_ns: done.run.elapsed_ns() }
}

fn choice(done: &[Done]) -> Choice {
    let mut why: Vec<_> = done.iter().map(|done| done.why.clone()).filter(|why| !why.is_empty()).collect();
    why.dedup();
    let name = done.iter().find_map(|done| done.run.engine).map_or("none", engine::EngineKind::name);
    Choice { name, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{EngineKind, Errors, Lateness, RunReport};
    use packet::Cursor;

    fn run(end: engine::End, sent: u64, errors: Errors, stopped_ns: u64) -> RunReport {
        let frame_bytes = (sent + errors.total()) * 100;
        RunReport {
            end,
            engine: Some(EngineKind::Xdp),
            total: Burst { sent, errors, frame_bytes, retries: sent / 100 },
            started_ns: 1_000_000_000,
            stopped_ns,
            idle_ns: 0,
            gaps: None,
            note: None,
            lateness: Lateness::default(),
            cursor: Cursor::default(),
            next_ns: None,
        }
    }

    fn done(cpu: u32, run: RunReport) -> Done {
        Done { cpu, run, why: "because".into() }
    }

    fn add_up(done: &[Done]) -> Report {
        let setting = Setting { device: "d".into(), netns: None, interval_ps: 0, seed: 1, notes: Vec::new() };
        report(setting, done, 1.5)
    }

    #[test]
    fn threads_sum_up_and_offered_is_sent_and_errors() {
        let errors =
            Errors { ring_full: 10, refused: 5, last_errno: 100, not_handed_over: 1, ..Errors::default() };
        let done = [
            done(0, run(engine::End::Count, 1000, Errors::default(), 1_500_000_000)),
            done(1, run(engine::End::Count, 900, errors, 2_000_000_000)),
        ];
        let report = add_up(&done);
        assert_eq!((report.offered, report.sent, report.errors, report.retries), (1916, 1900, 16, 19));
        assert_eq!(report.error_causes.iter().map(|cause| cause.count).collect::<Vec<_>>(), [10, 5, 1]);
        assert!(report.error_causes[1].meaning.contains("Network is down"));
        assert_eq!((report.duration_ns, report.rate_pps), (1_000_000_000, 1900.0));
        assert_eq!((report.frame_bytes, report.frame_bps), (190_000, 1_520_000.0));
        assert_eq!(report.wire_bps, 124.0 * 8.0 * 1900.0);
        assert_eq!((report.cpus_busy, report.engine.name), (1.5, "xdp"));
        assert_eq!(report.engine.why, ["because"]);
    }

    #[test]
    fn the_worst_end_is_told() {
        let gone = || engine::End::Failed(EngineError::Gone { ifname: "d".into() });
        let one = |end| done(0, run(end, 0, Errors::default(), 1_000_000_000));
        let ends = |ends: Vec<engine::End>| add_up(&ends.into_iter().map(one).collect::<Vec<_>>()).end;
        assert_eq!(ends(vec![engine::End::Count, engine::End::Stopped]), End::Stopped);
        assert_eq!(ends(vec![gone(), engine::End::Stopped]), End::DeviceGone);
        assert!(failure(vec![one(engine::End::Count), one(gone())]).is_some());
    }

    #[test]
    fn a_run_of_no_time_and_no_frames_has_no_rates() {
        let report = add_up(&[done(0, run(engine::End::Stopped, 0, Errors::default(), 1_000_000_000))]);
        assert_eq!((report.rate_pps, report.wire_bps, report.frame_bps), (0.0, 0.0, 0.0));
    }
}
