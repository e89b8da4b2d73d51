//! The newest counts of each host. Messages may be lost, doubled or in another order.

use crate::message::Stat;
use crate::name::FleetName;
use std::collections::BTreeMap;

/// The newest [`Stat`] of each host of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastWords {
    hosts: BTreeMap<FleetName, Stat>,
}

impl LastWords {
    /// Takes a message. True if it is newer than those before it.
    pub fn hear(&mut self, stat: Stat) -> bool {
        let known = self.hosts.get(&stat.host);
        // After the last message of a host there is none, whatever its number.
        let is_new = known.is_none_or(|known| !known.is_last && (stat.is_last || stat.number > known.number));
        if is_new {
            self.hosts.insert(stat.host.clone(), stat);
        }
        is_new
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
