//! A run as its controller watches it: who is silent, who is back, and when it is over.

use crate::last_words::LastWords;
use crate::message::{RunPlan, Stat};
use crate::name::FleetName;
use std::collections::BTreeMap;

/// A host that missed this many messages is lost.
const MISSED: u64 = 3;
/// Silence that is always allowed, on top of that.
const SILENCE_NS: u64 = 500_000_000;
/// After the planned end, hosts that still report are waited for this long.
const OVERTIME_NS: u64 = 15_000_000_000;

/// What an operator should know at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Nothing came from this host for this time.
    Lost(FleetName, u64),
    /// A host that was lost reports again.
    Back(FleetName),
}

/// A run with its start on the monotonic clock of the controller.
#[derive(Debug)]
pub struct Watching {
    hosts: BTreeMap<FleetName, HostWatch>,
    words: LastWords,
    silence_ns: u64,
    over_ns: u64,
    is_hub_away: bool,
}

#[derive(Clone, Copy, Debug)]
struct HostWatch {
    heard_ns: u64,
    is_lost: bool,
}

impl Watching {
    /// Watches the armed hosts of `plan`, which start at the monotonic time `start_ns` and report
    /// each `stat_ns`. Receivers wait for late frames for `settle_ns` after the planned end.
    pub fn new(plan: &RunPlan, start_ns: u64, stat_ns: u64, settle_ns: u64) -> Self {
        let armed = plan.hosts.iter().filter(|host| host.is_armed);
        let watch = HostWatch { heard_ns: start_ns, is_lost: false };
        Self {
            hosts: armed.map(|host| (host.host.clone(), watch)).collect(),
            words: LastWords::of_run(plan),
            silence_ns: stat_ns * MISSED + SILENCE_NS,
            over_ns: [plan.duration_ns, settle_ns, OVERTIME_NS]
                .into_iter()
                .fold(start_ns, u64::saturating_add),
            is_hub_away: false,
        }
    }

    /// The hub can be reached, or not. While it is away, silence says nothing about hosts.
    pub fn hub(&mut self, is_away: bool, now_ns: u64) {
        if self.is_hub_away && !is_away {
            self.hosts.values_mut().for_each(|host| host.heard_ns = host.heard_ns.max(now_ns));
        }
        self.is_hub_away = is_away;
    }

    /// Takes the counts of a host.
    pub fn hear(&mut self, stat: Stat, now_ns: u64) -> Option<Notice> {
        let name = stat.host.clone();
        // Counts of hosts that are not of the run would use memory.
        let host = self.hosts.get_mut(&name)?;
        self.words.hear(stat);
        host.heard_ns = host.heard_ns.max(now_ns);
        std::mem::take(&mut host.is_lost).then_some(Notice::Back(name))
    }

    /// The hosts that are lost from now on.
    pub fn tick(&mut self, now_ns: u64) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.is_hub_away {
            return notices;
        }
        for (name, host) in &mut self.hosts {
            let silent_ns = now_ns.saturating_sub(host.heard_ns);
            if !host.is_lost && silent_ns > self.silence_ns && !self.words.has_last(name) {
                host.is_lost = true;
                notices.push(Notice::Lost(name.clone(), silent_ns));
            }
        }
        notices
    }

    /// True if nothing more is to be expected: each host has said its last word or is lost, or the
    /// planned end is long over.
    pub fn is_over(&self, now_ns: u64) -> bool {
        let is_settled = |(name, host): (&FleetName, &HostWatch)| host.is_lost || self.words.has_last(name);
        now_ns >= self.over_ns || (!self.is_hub_away && self.hosts.iter().all(is_settled))
    }

    /// True if each host reported that it has sent all: receivers may end. A lost host may be cut
    /// off and send on, so receivers wait for the planned end then.
    pub fn has_sent_all(&self) -> bool {
        let has_sent = |name: &FleetName| self.words.of(name).is_some_and(|stat| stat.has_sent_all);
        self.hosts.keys().all(has_sent)
    }

    /// The newest counts of all hosts.
    pub fn words(&self) -> &LastWords {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{HostOrder, RunEnd};

    const S: u64 = 1_000_000_000;

    fn name(text: &str) -> FleetName {
        text.parse().unwrap()
    }

    fn watching() -> Watching {
        let order = |host: &str| HostOrder {
            host: name(host),
            is_armed: host != "h9",
            clock: None,
            boot_id: None,
            instance: None,
            why: None,
        };
        let plan = RunPlan {
            run: name("r"),
            start_at_ns: 0,
            duration_ns: 10 * S,
            settle_ns: 0,
            flows: Vec::new(),
            hosts: ["h1", "h2", "h9"].map(order).to_vec(),
        };
        Watching::new(&plan, 100 * S, S, 20 * S)
    }

    fn stat(host: &str, number: u32, is_last: bool) -> Stat {
        Stat {
            number,
            has_sent_all: is_last,
            is_last,
            end: is_last.then_some(RunEnd::Done),
            ..Stat::new(name("r"), name(host), 7)
        }
    }

    #[test]
    fn a_silent_host_is_lost_and_may_come_back() {
        let mut run = watching();
        assert_eq!(run.tick(103 * S), [], "nothing is due yet");
        assert_eq!(run.hear(stat("h1", 1, false), 101 * S), None);
        assert_eq!(run.tick(104 * S), [Notice::Lost(name("h2"), 4 * S)]);
        assert_eq!(run.tick(104 * S), [], "once");
        assert!(!run.is_over(104 * S) && !run.has_sent_all());
        run.hear(stat("h1", 2, true), 104 * S);
        assert!(run.is_over(104 * S), "one ended, one is lost");
        assert!(!run.has_sent_all(), "the lost one may still send");
        assert_eq!(run.hear(stat("h2", 1, false), 105 * S), Some(Notice::Back(name("h2"))));
        assert!(!run.is_over(105 * S));
        run.hear(stat("h2", 2, false), 144 * S);
        assert!(!run.is_over(144 * S), "the receivers wait for late frames until 130 s");
        assert!(run.is_over(145 * S), "the end is long over");
        run.hear(stat("h2", 3, true), 145 * S);
        assert!(run.has_sent_all());
    }

    #[test]
    fn counts_of_hosts_outside_of_the_run_are_not_kept() {
        let mut run = watching();
        assert_eq!(run.hear(stat("h7", 1, false), 101 * S), None);
        assert_eq!(run.words().of(&name("h7")), None);
    }

    #[test]
    fn no_host_is_lost_while_the_hub_is_away() {
        let mut run = watching();
        run.hub(true, 101 * S);
        assert_eq!(run.tick(109 * S), []);
        assert!(!run.is_over(109 * S));
        run.hub(false, 110 * S);
        assert_eq!(run.tick(113 * S), []);
        assert_eq!(run.tick(114 * S).len(), 2);
    }
}
