//! What the ports of this host have counted by the values of metric tags.

use super::arrivals::arrivals;
use super::port::Port;
use super::state::ActiveState;
use capture::TaggedFrames;
use fleet::{TagReading, TagReadings};
use measure::{TAG_PARTS, TagCounts};
use std::collections::{BTreeMap, BTreeSet};

/// All frames of a flow on a port, as those of one value.
fn counts_of_flow(port: &Port, number: u32) -> TagCounts {
    let arrived = arrivals(std::iter::once(port), number);
    TagCounts {
        frames: arrived.frames,
        frame_bytes: arrived.bytes,
        first_ns: arrived.first_ns,
        last_ns: arrived.last_ns,
        stamped: arrived.stamped,
        latency_sum_ns: arrived.latency_sum_ns,
        latency_min_ns: arrived.latency_min_ns,
        latency_max_ns: arrived.latency_max_ns,
    }
}

impl ActiveState {
    /// What the ports of this host have counted by values of these flows, and of all frames of
    /// these ports. Each port is read once.
    pub(super) fn tag_readings(&self, flows: &[usize], ports: &[usize]) -> TagReadings {
        let tagged = flows.iter().filter(|flow| !self.config.flows[**flow].tags.is_empty());
        let of_flows = tagged.flat_map(|flow| self.rx_indexes(*flow));
        let asked: BTreeSet<usize> = of_flows.chain(ports).copied().collect();
        let read: BTreeMap<usize, Vec<TaggedFrames>> =
            asked.into_iter().map(|port| (port, self.ports[port].tagged())).collect();
        let of_line = |port: usize, line: Option<usize>| {
            let frames = read[&port].iter().filter(move |frames| frames.line == line);
            frames.map(move |frames| reading(port, frames.values, frames.counts))
        };
        let of_flow = |flow: &usize| -> Vec<TagReading> {
            let config = &self.config.flows[*flow];
            let Some(number) = self.flows[*flow].number.filter(|_| config.has_tags()) else {
                return Vec::new();
            };
            let ports = self.rx_indexes(*flow).iter().copied();
            match config.tags.is_empty() {
                true => ports
                    .map(|port| reading(port, [0; TAG_PARTS], counts_of_flow(&self.ports[port], number)))
                    .collect(),
                false => ports.flat_map(|port| of_line(port, Some(number as usize))).collect(),
            }
        };
        TagReadings {
            flows: flows.iter().map(of_flow).collect(),
            ports: ports.iter().map(|port| of_line(*port, None).collect()).collect(),
        }
    }
}

fn reading(port: usize, values: [u32; TAG_PARTS], counts: TagCounts) -> TagReading {
    TagReading { port: port as u32, values, counts }
}
