//! The newest counts of each host, and those of each second. Messages may be lost, doubled or in
//! another order.

use crate::message::{CountedFlow, RunPlan, Stat};
use crate::name::FleetName;
use crate::seconds::TickLog;
use std::collections::{BTreeMap, BTreeSet};

/// What a host may count in a run.
#[derive(Clone, Debug, Default, PartialEq)]
struct HostScope {
    /// The agent that was armed.
    instance: Option<u64>,
    /// Flows that it sends.
    sends: BTreeSet<u32>,
    /// Flows that it receives.
    receives: BTreeSet<u32>,
    /// Its receiving ports.
    ports: BTreeSet<FleetName>,
}

/// The newest [`Stat`] of each host of a run, and what is needed of those before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastWords {
    scopes: BTreeMap<FleetName, HostScope>,
    duration_ns: u64,
    hosts: BTreeMap<FleetName, Stat>,
    /// The counts of each second.
    pub(crate) ticks: TickLog,
    /// Why the newest message of a host cannot be used.
    unusable: BTreeMap<FleetName, String>,
    /// Hosts of which a second agent has counted.
    doubles: BTreeSet<FleetName>,
}

impl LastWords {
    /// Nothing of a run has arrived yet.
    pub fn of_run(plan: &RunPlan) -> Self {
        let hosts = plan.hosts.iter().map(|order| {
            (order.host.clone(), HostScope { instance: order.instance, ..HostScope::default() })
        });
        let mut scopes: BTreeMap<FleetName, HostScope> = hosts.collect();
        for (id, flow) in (0..).zip(&plan.flows) {
            if let Some(scope) = scopes.get_mut(&flow.from.host) {
                scope.sends.insert(id);
            }
            if let Some(scope) = scopes.get_mut(&flow.to.host) {
                scope.receives.insert(id);
                scope.ports.insert(flow.to.port.clone());
            }
        }
        Self { scopes, duration_ns: plan.duration_ns, ..Self::default() }
    }

    /// Takes a message. True if it is newer than those before it. Counts of other hosts, agents,
    /// flows and ports than those of the plan are left out.
    pub fn hear(&mut self, mut stat: Stat) -> bool {
        let Some(scope) = self.scopes.get(&stat.host) else { return false };
        if scope.instance.is_some_and(|instance| instance != stat.instance) {
            self.doubles.insert(stat.host);
            return false;
        }
        if let Some(why) = stat.impossible(self.duration_ns) {
            self.cannot_use(stat.host, why);
            return false;
        }
        let known = self.hosts.get(&stat.host);
        // Only the first of its last messages counts: further ones, with new numbers, would take up
        // memory.
        if stat.is_last && known.is_some_and(|known| known.is_last) {
            return false;
        }
        keep_own(&mut stat, scope);
        self.ticks.hear(&stat);
        // After the last message of a host there is none, whatever its number.
        let is_new = known.is_none_or(|known| !known.is_last && (stat.is_last || stat.number > known.number));
        if is_new {
            self.hosts.insert(stat.host.clone(), stat);
        }
        is_new
    }

    /// Takes the news that the newest message of a host cannot be used, and why.
    pub fn cannot_use(&mut self, host: FleetName, why: String) {
        self.unusable.insert(host, why);
    }

    /// Why the newest message of a host cannot be used, unless its last one is here.
    pub fn why_unusable(&self, host: &FleetName) -> Option<&str> {
        self.unusable.get(host).filter(|_| !self.has_last(host)).map(String::as_str)
    }

    /// Why a host is not one host: a second agent with its name has counted in the run.
    pub(crate) fn double_of(&self, host: &FleetName) -> Option<String> {
        let text = "counts of a second agent with this name arrived, and are left out";
        self.doubles.contains(host).then(|| text.to_owned())
    }

    /// Takes all that `other` of the same run has.
    pub fn merge(&mut self, other: Self) {
        self.unusable.extend(other.unusable);
        self.doubles.extend(other.doubles);
        self.ticks.merge(other.ticks);
        for stat in other.hosts.into_values() {
            self.hear(stat);
        }
    }

    /// The newest message of a host.
    pub fn of(&self, host: &FleetName) -> Option<&Stat> {
        self.hosts.get(host)
    }

    /// True if the last message of `host` is here.
    pub fn has_last(&self, host: &FleetName) -> bool {
        self.of(host).is_some_and(|stat| stat.is_last)
    }
}

/// Keeps the counts of the host's own flows and ports, each once.
fn keep_own(stat: &mut Stat, scope: &HostScope) {
    let (mut sends, mut receives, mut ports) =
        (scope.sends.clone(), scope.receives.clone(), scope.ports.clone());
    stat.flows.retain(|flow: &CountedFlow| match (flow.sent, flow.received) {
        (Some(_), None) => sends.remove(&flow.id),
        (None, Some(_)) => receives.remove(&flow.id),
        _ => false,
    });
    stat.receivers.retain(|receiver| ports.remove(&receiver.port));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{HostOrder, RunEnd};

    #[test]
    fn further_last_messages_of_a_host_use_no_memory() {
        let (run, host): (FleetName, FleetName) = ("r".parse().unwrap(), "h1".parse().unwrap());
        let order = HostOrder {
            host: host.clone(),
            is_armed: true,
            clock: None,
            boot_id: None,
            instance: Some(7),
            why: None,
        };
        let mut words = LastWords::of_run(&RunPlan {
            run: run.clone(),
            start_at_ns: 0,
            duration_ns: 1,
            settle_ns: 0,
            flows: Vec::new(),
            hosts: vec![order],
        });
        let stat = |number: u32, end: Option<RunEnd>| {
            let is_last = end.is_some();
            Stat { number, end, is_last, ..Stat::new(run.clone(), host.clone(), 7) }
        };
        assert!(words.hear(stat(2, Some(RunEnd::Done))));
        let heard = words.clone();
        for number in [2, 3, 5000] {
            assert!(!words.hear(stat(number, Some(RunEnd::Done))));
        }
        assert_eq!(words, heard);
        // Counts from before the last message may come late, and are those of their second.
        assert!(!words.hear(stat(1, None)));
        assert_ne!(words, heard);
    }
}
