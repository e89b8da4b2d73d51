//! Flows of IP in capture files: which packets belong to one, and their number.

use packet::{HeaderFields, has_ports};
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// Flows that are told apart; if there are more, the count is a lower bound.
pub(super) const FLOWS_MAX: usize = 1_000_000;

/// Hashes that are entered at once, so that the CPU waits for the memory of several entries at the
/// same time.
const BATCH_LEN: usize = 64;

/// Counts flows. A flow is both directions of the same addresses, ports and protocol.
///
/// It keeps 64 bits of hash per flow, which need a fifth of the memory of addresses and ports and
/// stay in the cache of a CPU: of 30 million files with a million flows each, about one has two
/// flows that count as one. The hash begins with a random number, so the author of a file cannot
/// choose flows of equal hashes.
#[derive(Debug)]
pub struct FlowCounter {
    flows: HashSet<u64, BuildHasherDefault<NoHash>>,
    /// Where hashes begin.
    start: u64,
    /// Hashes that wait to be entered.
    batch: Vec<u64>,
    /// The flow of the packet before: packets of a flow often follow each other.
    last: u64,
    has_more: bool,
}

impl Default for FlowCounter {
    fn default() -> Self {
        let start = RandomState::new().hash_one(0);
        let batch = Vec::with_capacity(BATCH_LEN);
        Self { flows: HashSet::default(), start, batch, last: 0, has_more: false }
    }
}

impl FlowCounter {
    /// A packet with these headers. Fragments after the first have no ports: they are of the flow
    /// of the first one.
    #[inline]
    pub fn see(&mut self, headers: &HeaderFields<'_>) {
        let has_ports = headers.proto.is_some_and(has_ports);
        if has_ports && headers.is_fragment == Some(true) && headers.src_port.is_none() {
            return;
        }
        if let Some((flow, _)) = flow_of(headers, self.start)
            && flow != self.last
        {
            self.last = flow;
            self.batch.push(flow);
            if self.batch.len() == BATCH_LEN {
                self.enter();
            }
        }
    }

    fn enter(&mut self) {
        for flow in self.batch.drain(..) {
            if self.flows.len() < FLOWS_MAX {
                self.flows.insert(flow);
            } else {
                self.has_more |= !self.flows.contains(&flow);
            }
        }
    }

    /// Flows so far, at most a million, and whether there are more.
    pub fn total(&mut self) -> (u64, bool) {
        self.enter();
        (self.flows.len() as u64, self.has_more)
    }
}

/// What reports for people say beside a number of flows.
pub fn flows_remark(has_more: bool) -> &'static str {
    if has_more { "or more: IP, both directions" } else { "IP, both directions" }
}

/// The ends of a flow, and the direction of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowEnds {
    /// The address of the lower end, as two words.
    pub(super) low: (u64, u64),
    /// That of the other end.
    pub(super) high: (u64, u64),
    pub(super) is_ipv6: bool,
    pub(super) protocol: u8,
    /// The lower end sent the packet.
    pub(super) is_from_low: bool,
}

/// The hash of the flow of a packet, not 0, and its ends; `None` if it is not IP, or its headers
/// are cut.
#[inline]
pub(super) fn flow_of(headers: &HeaderFields<'_>, start: u64) -> Option<(u64, FlowEnds)> {
    let version = headers.ip_version?;
    let v4 = |address: u32| (0, u64::from(address));
    let v6 = |address: &[u8; 16]| {
        let address = u128::from_be_bytes(*address);
        ((address >> 64) as u64, address as u64)
    };
    let source = headers.src4.map(v4).or(headers.src6.map(v6))?;
    let destination = headers.dst4.map(v4).or(headers.dst6.map(v6))?;
    let port = |port: Option<u16>| u64::from(port.unwrap_or(0));
    let ends = [(source, port(headers.src_port)), (destination, port(headers.dst_port))];
    let is_from_low = ends[0] <= ends[1];
    let [low, high] = if is_from_low { ends } else { [ends[1], ends[0]] };
    let protocol = headers.proto?;
    let rest = low.1 << 48 | high.1 << 32 | u64::from(protocol) << 8 | u64::from(version);
    let words = [low.0.0, low.0.1, high.0.0, high.0.1, rest];
    let ends = FlowEnds { low: low.0, high: high.0, is_ipv6: version == 6, protocol, is_from_low };
    Some((words.into_iter().fold(start, mixed).max(1), ends))
}

/// A hash and one more word of what is hashed.
#[inline]
fn mixed(hash: u64, word: u64) -> u64 {
    // Multiplied by the golden ratio; both halves of the product, so that all bits count.
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64 ^ hash.rotate_left(32)
}

/// The set is of hashes, which are not hashed again.
#[derive(Default)]
pub(super) struct NoHash(u64);

impl Hasher for NoHash {
    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| mixed(hash, (*byte).into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(source: (u32, u16), destination: (u32, u16), proto: u8) -> HeaderFields<'static> {
        HeaderFields {
            ip_version: Some(4),
            src4: Some(source.0),
            dst4: Some(destination.0),
            src_port: Some(source.1),
            dst_port: Some(destination.1),
            proto: Some(proto),
            ..HeaderFields::default()
        }
    }

    #[test]
    fn both_directions_are_one_flow_and_versions_are_two() {
        let mut counter = FlowCounter::default();
        counter.see(&v4((7, 80), (9, 1000), 6));
        counter.see(&v4((9, 1000), (7, 80), 6));
        assert_eq!(counter.total(), (1, false));
        for other in [
            v4((9, 80), (7, 1000), 6),
            v4((7, 80), (9, 1000), 17),
            HeaderFields { proto: Some(6), ip_version: Some(4), ..HeaderFields::default() },
        ] {
            counter.see(&other);
        }
        assert_eq!(counter.total(), (3, false));
        let mut low = [0; 16];
        low[15] = 7;
        let mut high = [0; 16];
        high[15] = 9;
        let v4_fields = v4((7, 80), (9, 1000), 6);
        let v6 = HeaderFields {
            ip_version: Some(6),
            src4: None,
            dst4: None,
            src6: Some(&low),
            dst6: Some(&high),
            ..v4_fields
        };
        counter.see(&v6);
        assert_eq!(counter.total(), (4, false), "::7 is not 0.0.0.7");
    }

    #[test]
    fn more_flows_than_the_limit_are_said_and_take_no_memory() {
        let mut counter = FlowCounter::default();
        for number in 0..FLOWS_MAX as u32 {
            counter.see(&v4((number, 1), (u32::MAX, 2), 17));
        }
        assert_eq!(counter.total(), (1_000_000, false));
        counter.see(&v4((0, 1), (u32::MAX, 2), 17));
        assert!(!counter.total().1);
        counter.see(&v4((FLOWS_MAX as u32, 1), (u32::MAX, 2), 17));
        assert_eq!(counter.total(), (1_000_000, true));
    }

    /// A table with many equal hashes would be slow.
    #[test]
    fn hashes_of_flows_that_count_up_are_spread() {
        let start = RandomState::new().hash_one(0);
        let mut slots = vec![0_u32; 1 << 12];
        for number in 0..1_u32 << 16 {
            let hash = flow_of(&v4((number >> 8, 1), (number & 0xff, 2), 17), start).unwrap().0;
            slots[(hash >> 52) as usize] += 1;
            slots[(hash & 0xfff) as usize] += 1;
        }
        let most = slots.iter().max().unwrap();
        assert!(*most < 3 * 32, "{most} of 32 in a slot");
    }
}
