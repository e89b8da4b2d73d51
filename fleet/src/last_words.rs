//! The newest counts of each host, and those of each second. Messages may be lost, doubled or in
//! another order.

use crate::message::Stat;
use crate::name::FleetName;
use crate::seconds::TickLog;
use std::collections::BTreeMap;

/// The newest [`Stat`] of each host of a run, and what is needed of those before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastWords {
    hosts: BTreeMap<FleetName, Stat>,
    /// The counts of each second.
    pub(crate) ticks: TickLog,
    /// Why the newest message of a host cannot be read.
    unreadable: BTreeMap<FleetName, String>,
}

impl LastWords {
    /// Takes a message. True if it is newer than those before it.
    pub fn hear(&mut self, stat: Stat) -> bool {
        self.ticks.hear(&stat);
        let known = self.hosts.get(&stat.host);
        // After the last message of a host there is none, whatever its number.
        let is_new = known.is_none_or(|known| !known.is_last && (stat.is_last || stat.number > known.number));
        if is_new {
            self.hosts.insert(stat.host.clone(), stat);
        }
        is_new
    }

    /// Takes the news that the newest message of a host cannot be read, and why.
    pub fn cannot_read(&mut self, host: FleetName, why: String) {
        self.unreadable.insert(host, why);
    }

    /// Why the newest message of a host cannot be read, unless its last one is here.
    pub fn why_unreadable(&self, host: &FleetName) -> Option<&str> {
        self.unreadable.get(host).filter(|_| !self.has_last(host)).map(String::as_str)
    }

    /// Takes all that `other` has.
    pub fn merge(&mut self, other: Self) {
        self.unreadable.extend(other.unreadable);
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
