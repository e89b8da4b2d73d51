//! What kept the threads of a run from sending: shares of their time, the largest first.

use super::workers::WorkerResult;
use engine::Burst;
use facts::Described;
use serde::Serialize;
use units::human_count;

/// Smaller shares than this explain nothing.
const SHARE_MIN: f64 = 0.02;
/// Softirqs below this share are those of a normal receiver.
const SOFTIRQ_MIN: f64 = 0.2;
/// A thread that is in calls for this share of the time cannot send more.
const CALLS_MIN: f64 = 0.8;

/// Something that kept a run from sending.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct RunLimit {
    /// The cause. `link`: it was down, `cpu`: the thread waited for a CPU.
    #[fact(kind = Kind::Word(&["link", "cpu", "hypervisor", "softirq", "ring_full", "calls"]))]
    pub cause: &'static str,
    /// The share of the time of the thread that it took most from; of the offers for `ring_full`
    /// and `link`.
    pub share: f64,
    /// The cause in words for people, with its share or count.
    pub meaning: String,
}

/// The limits of these runs.
pub fn limits(done: &[WorkerResult]) -> Vec<RunLimit> {
    let mut limits: Vec<RunLimit> = Vec::new();
    for limit in done.iter().flat_map(of_run) {
        match limits.iter_mut().find(|other| other.cause == limit.cause) {
            Some(other) if other.share < limit.share => *other = limit,
            Some(_) => {}
            None => limits.push(limit),
        }
    }
    limits.sort_by(|one, other| other.share.total_cmp(&one.share));
    limits
}

fn of_run(done: &WorkerResult) -> Vec<RunLimit> {
    let (run, cpu) = (&done.run, done.cpu);
    let elapsed_ns = run.elapsed_ns();
    let share = |ns: u64| (ns as f64 / elapsed_ns.max(1) as f64).min(1.0);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let [waited, stolen, softirq] = [run.cpu.waited_ns, run.cpu.steal_ns, run.cpu.softirq_ns].map(share);
    let calls = share(elapsed_ns.saturating_sub(run.idle_ns).saturating_sub(run.cpu.waited_ns));
    let no_carrier = run.total.errors.causes.no_carrier as f64 / run.total.offered().max(1) as f64;
    let full = full_share(&run.total);
    let times = run.total.errors.ring_full + run.total.retries;
    [
        (
            "link",
            no_carrier,
            SHARE_MIN,
            format!("the link was down for {} of the frames", percent(no_carrier)),
        ),
        ("cpu", waited, SHARE_MIN, format!("waited {} of the time for CPU {cpu}", percent(waited))),
        (
            "hypervisor",
            stolen,
            SHARE_MIN,
            format!("the hypervisor took CPU {cpu} for {} of the time", percent(stolen)),
        ),
        (
            "softirq",
            softirq,
            SOFTIRQ_MIN,
            format!("softirqs, such as those for received frames, took {} of CPU {cpu}", percent(softirq)),
        ),
        (
            "ring_full",
            full,
            SHARE_MIN,
            format!("the ring of the device was full {} times", human_count(times)),
        ),
        ("calls", calls, CALLS_MIN, format!("calls of the kernel took {} of the time", percent(calls))),
    ]
    .into_iter()
    .filter(|(_, share, least, _)| share >= least)
    .map(|(cause, share, _, meaning)| RunLimit { cause, share, meaning })
    .collect()
}

/// The share of offers that met a full ring.
fn full_share(total: &Burst) -> f64 {
    let full = total.errors.ring_full + total.retries;
    full as f64 / (total.offered() + total.retries).max(1) as f64
}

/// What to do about the largest of `limits`; `is_veth` for a device whose peer is on this machine.
pub fn advice(limits: &[RunLimit], is_veth: bool) -> Option<String> {
    let largest = limits.first()?;
    Some(match largest.cause {
        "link" => "again when the link stays up".to_owned(),
        "cpu" => "--cpus with CPUs that no other program uses".to_owned(),
        "hypervisor" => "a machine with CPUs of its own".to_owned(),
        _ if is_veth => "`wirerate sink` on the peer, whose stack is slower than the sender".to_owned(),
        "softirq" => "--cpus with CPUs that receive no frames".to_owned(),
        "ring_full" => "a lower rate: this is what the device sends".to_owned(),
        _ => "--threads 2".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{EngineError, RunReport};
    use host::CpuUse;
    use packet::Cursor;

    fn result(cpu: u32, change: impl FnOnce(&mut RunReport)) -> WorkerResult {
        let mut run = RunReport::failed(EngineError::ThreadLost, 0, Cursor::default());
        run.stopped_ns = 1_000_000_000;
        run.idle_ns = 900_000_000;
        change(&mut run);
        WorkerResult { cpu, run, why: String::new() }
    }

    #[test]
    fn the_largest_share_comes_first_and_small_ones_are_left_out() {
        let busy = |run: &mut RunReport| {
            run.cpu = CpuUse { waited_ns: 430_000_000, softirq_ns: 100_000_000, steal_ns: 30_000_000 };
        };
        let found = limits(&[result(1, busy), result(2, |run| run.cpu.waited_ns = 20_000_000)]);
        let texts: Vec<_> = found.iter().map(|limit| (limit.cause, limit.meaning.as_str())).collect();
        let expected = [
            ("cpu", "waited 43 % of the time for CPU 1"),
            ("hypervisor", "the hypervisor took CPU 1 for 3 % of the time"),
        ];
        assert_eq!(texts, expected);
        assert_eq!(advice(&found, true).as_deref(), Some("--cpus with CPUs that no other program uses"));
        assert_eq!(limits(&[result(0, |_| ())]), []);
        assert_eq!(advice(&[], true), None);
    }

    #[test]
    fn a_full_ring_and_calls_without_a_pause_are_limits() {
        let full = |run: &mut RunReport| {
            run.idle_ns = 0;
            (run.total.sent, run.total.retries) = (300, 100);
        };
        let found = limits(&[result(0, full)]);
        let texts: Vec<_> = found.iter().map(|limit| limit.meaning.as_str()).collect();
        let expected =
            ["calls of the kernel took 100 % of the time", "the ring of the device was full 100 times"];
        assert_eq!(texts, expected);
        assert_eq!(advice(&found, false).as_deref(), Some("--threads 2"));
        assert!(advice(&found, true).is_some_and(|text| text.contains("wirerate sink")));
    }
}
