//! Frames of each second of a run, over all hosts.
//!
//! Hosts count at about the same times after the start, not exactly: a count at a full second is on
//! the line between the two counts beside it. Lost messages make this line longer. A count after
//! the planned end is one at the end: no more is sent then.

use crate::message::Stat;
use crate::name::FleetName;
use facts::Described;
use serde::Serialize;
use std::collections::BTreeMap;

/// Seconds that are kept.
pub const SECONDS_MAX: u32 = 3600;
const SECOND_NS: u64 = 1_000_000_000;

/// The counts of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tick {
    time_ns: u64,
    sent: u64,
    received: u64,
    is_last: bool,
}

/// The counts of the first messages of each host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TickLog {
    hosts: BTreeMap<FleetName, BTreeMap<u32, Tick>>,
}

/// Frames of one second of all hosts; `null` as long as the counts of a host are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct SecondAccount {
    /// Frames of all hosts that were sent; `null` if unknown.
    #[fact(unit = "frames")]
    pub sent: Option<u64>,
    /// First copies that arrived, at all hosts; `null` if unknown.
    #[fact(unit = "frames")]
    pub received: Option<u64>,
}

impl TickLog {
    /// Takes a message.
    pub(crate) fn hear(&mut self, stat: &Stat) {
        if stat.number > SECONDS_MAX && !stat.is_last {
            return;
        }
        let (time_ns, is_last) = (stat.time_ns, stat.is_last);
        let sum = |of: fn(&crate::CountedFlow) -> Option<u64>| {
            stat.flows.iter().filter_map(of).fold(0, u64::saturating_add)
        };
        let tick =
            Tick { time_ns, sent: sum(|flow| flow.sent), received: sum(|flow| flow.received), is_last };
        self.hosts.entry(stat.host.clone()).or_default().insert(stat.number, tick);
    }

    /// Takes all that `other` has.
    pub(crate) fn merge(&mut self, other: Self) {
        for (host, ticks) in other.hosts {
            self.hosts.entry(host).or_default().extend(ticks);
        }
    }

    /// The seconds of a run of `duration_ns` from `start_ns` on in which frames were sent by one of
    /// `senders` or arrived at one of `receivers`.
    pub(crate) fn seconds(
        &self,
        start_ns: u64,
        duration_ns: u64,
        senders: &[&FleetName],
        receivers: &[&FleetName],
    ) -> Vec<SecondAccount> {
        let times = self.hosts.values().flat_map(BTreeMap::values).map(|tick| tick.time_ns);
        let since = |time_ns: u64| time_ns.saturating_sub(start_ns).min(duration_ns);
        let last_ns = times.map(since).max().unwrap_or(0);
        let second_count = last_ns.div_ceil(SECOND_NS).min(SECONDS_MAX.into());
        let counts = |hosts: &[&FleetName], of: fn(&Tick) -> u64| -> Vec<Option<u64>> {
            let lines: Vec<Option<CountLine>> = hosts.iter().map(|host| self.line(host, since, of)).collect();
            let at = |at_ns: u64| -> Option<u64> {
                lines
                    .iter()
                    .map(|line| line.as_ref()?.at(at_ns))
                    .try_fold(0, |sum: u64, count| Some(sum.saturating_add(count?)))
            };
            let ends: Vec<Option<u64>> = (0..=second_count).map(|second| at(second * SECOND_NS)).collect();
            ends.windows(2).map(|ends| ends[1]?.checked_sub(ends[0]?)).collect()
        };
        let sent = counts(senders, |tick| tick.sent);
        let received = counts(receivers, |tick| tick.received);
        let seconds = sent.into_iter().zip(received);
        let mut seconds: Vec<SecondAccount> =
            seconds.map(|(sent, received)| SecondAccount { sent, received }).collect();
        let is_empty = |second: &SecondAccount| second.sent == Some(0) && second.received == Some(0);
        while seconds.last().is_some_and(is_empty) {
            seconds.pop();
        }
        seconds
    }

    /// The counts of a host over time; `None` before its first message.
    fn line(&self, host: &FleetName, since: impl Fn(u64) -> u64, of: fn(&Tick) -> u64) -> Option<CountLine> {
        let ticks = self.hosts.get(host)?;
        let mut points = vec![(0, 0)];
        points.extend(ticks.values().map(|tick| (since(tick.time_ns), of(tick))));
        points.sort_unstable();
        Some(CountLine { points, is_whole: ticks.values().any(|tick| tick.is_last) })
    }
}

/// Counts at times since the start, in order.
struct CountLine {
    points: Vec<(u64, u64)>,
    /// After the last point, the count stays.
    is_whole: bool,
}

impl CountLine {
    fn at(&self, at_ns: u64) -> Option<u64> {
        let after = self.points.partition_point(|(time_ns, _)| *time_ns <= at_ns);
        let (before_ns, before) = *self.points.get(after.checked_sub(1)?)?;
        match self.points.get(after) {
            Some((after_ns, after)) => {
                let share = u128::from(at_ns - before_ns) * u128::from(after.saturating_sub(before));
                Some(before + (share / u128::from(after_ns - before_ns)) as u64)
            }
            None => (self.is_whole || at_ns == before_ns).then_some(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CountedFlow;

    const START_NS: u64 = 100 * SECOND_NS;

    fn name(text: &str) -> FleetName {
        text.parse().unwrap()
    }

    fn log(ticks: &[(&str, u32, u64, u64, u64, bool)]) -> TickLog {
        let mut log = TickLog::default();
        for (host, number, time_ms, sent, received, is_last) in ticks {
            let flow = CountedFlow { sent: Some(*sent), received: Some(*received), ..CountedFlow::default() };
            log.hear(&Stat {
                number: *number,
                time_ns: START_NS + time_ms * 1_000_000,
                has_sent_all: *is_last,
                flows: vec![flow],
                is_last: *is_last,
                ..Stat::new(name("r"), name(host), 7)
            });
        }
        log
    }

    fn rows(log: &TickLog) -> Vec<(Option<u64>, Option<u64>)> {
        let (one, two) = (name("h1"), name("h2"));
        let seconds = log.seconds(START_NS, 4 * SECOND_NS, &[&one, &two], &[&two]);
        seconds.iter().map(|second| (second.sent, second.received)).collect()
    }

    #[test]
    fn seconds_of_hosts_that_count_at_other_times_add_up() {
        let ticks = [
            ("h1", 1, 1000, 100, 0, false),
            ("h1", 2, 2000, 200, 0, false),
            ("h1", 3, 2500, 250, 0, true),
            // 40 ms late, and the second message was lost.
            ("h2", 1, 1040, 104, 52, false),
            ("h2", 3, 3040, 250, 152, true),
        ];
        let (h1, h2) = ((100, 100, 50), (100, 74, 73));
        let expected = [(h1.0 + h2.0, 50), (h1.1 + h2.1, 50), (h1.2 + h2.2, 50), (3, 2)];
        let expected = expected.map(|(sent, received)| (Some(sent), Some(received)));
        assert_eq!(rows(&log(&ticks)), expected, "the last second is a part of one");
        let twice = ticks.iter().rev().chain(&ticks).copied().collect::<Vec<_>>();
        assert_eq!(rows(&log(&twice)), expected, "doubled and in another order");
        let mut merged = log(&ticks[..2]);
        merged.merge(log(&ticks[1..]));
        assert_eq!(rows(&merged), expected);
        let (h1, late) = (name("h1"), log(&[("h1", 1, 1050, 105, 0, false), ("h1", 2, 2400, 200, 0, true)]));
        let seconds = late.seconds(START_NS, 2 * SECOND_NS, &[&h1], &[]);
        let sent: Vec<_> = seconds.iter().map(|second| second.sent).collect();
        assert_eq!(sent, [Some(100), Some(100)], "it sent until its end");
    }

    #[test]
    fn seconds_of_a_host_that_is_lost_are_unknown() {
        let ticks = [
            ("h1", 1, 1000, 100, 0, false),
            ("h2", 1, 1000, 100, 50, false),
            ("h2", 2, 2000, 200, 150, false),
            ("h2", 3, 3900, 200, 150, true),
        ];
        assert_eq!(
            rows(&log(&ticks)),
            [(Some(200), Some(50)), (None, Some(100)), (None, Some(0)), (None, Some(0))]
        );
        assert_eq!(rows(&log(&[])), []);
        assert_eq!(rows(&log(&ticks[1..])).first(), Some(&(None, Some(50))), "nothing came from h1");
    }
}
