//! Flows of the frames of a replay: their number by protocol, packets and bytes, and the addresses
//! that send most.

use super::flows::{FLOWS_MAX, FlowEnds, NoHash, flow_of};
use super::protocol::Protocol;
use facts::Described;
use packet::HeaderFields;
use pcapng::LINK_TYPE_ETHERNET;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Flows that are entered at once, so that the CPU waits for the memory of several entries at the
/// same time.
const BATCH_LEN: usize = 64;
/// Addresses in the report.
const TALKERS_MAX: usize = 5;

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    packets: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Direct-mapped places of the flows seen last: most packets belong to one of a few flows.
const RECENT: usize = 4096;

/// One direction of TCP or UDP over IPv4 without options, which are most packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PlainKey {
    /// Source and destination.
    addresses: [u8; 8],
    ports: [u8; 4],
    protocol: u8,
}

impl PlainKey {
    /// Of an Ethernet frame.
    #[inline]
    fn of(frame: &[u8]) -> Option<Self> {
        let header: &[u8; 38] = frame.first_chunk()?;
        let is_plain = header[12..15] == [0x08, 0x00, 0x45];
        // The flag for more fragments and the offset.
        let is_fragment = header[20] & 0x3f != 0 || header[21] != 0;
        let protocol = header[23];
        if !is_plain || is_fragment || !matches!(protocol, 6 | 17) {
            return None;
        }
        let (mut addresses, mut ports) = ([0; 8], [0; 4]);
        addresses.copy_from_slice(&header[26..34]);
        ports.copy_from_slice(&header[34..38]);
        Some(Self { addresses, ports, protocol })
    }

    #[inline]
    fn place(self) -> usize {
        let words = u64::from_ne_bytes(self.addresses)
            ^ u64::from(u32::from_ne_bytes(self.ports)) << 17
            ^ u64::from(self.protocol);
        (words.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % RECENT
    }

    fn headers(self) -> HeaderFields<'static> {
        let [s0, s1, s2, s3, d0, d1, d2, d3] = self.addresses;
        let [source_high, source_low, high, low] = self.ports;
        HeaderFields {
            ip_version: Some(4),
            proto: Some(self.protocol),
            src4: Some(u32::from_be_bytes([s0, s1, s2, s3])),
            dst4: Some(u32::from_be_bytes([d0, d1, d2, d3])),
            src_port: Some(u16::from_be_bytes([source_high, source_low])),
            dst_port: Some(u16::from_be_bytes([high, low])),
            ..HeaderFields::default()
        }
    }
}

/// Packets of one flow and direction that are entered together.
#[derive(Clone, Copy, Debug)]
struct Train {
    flow: u64,
    ends: FlowEnds,
    sum: Sum,
}

/// A flow: from its lower end, and to it.
#[derive(Clone, Copy, Debug, Default)]
struct FlowSums {
    /// Place of the addresses.
    place: usize,
    sums: [Sum; 2],
}

/// Counts the flows of frames of one link type.
#[derive(Debug)]
pub struct FlowStatistics {
    link_type: u16,
    /// Where hashes begin.
    start: u64,
    flows: HashMap<u64, FlowSums, BuildHasherDefault<NoHash>>,
    ends: Vec<FlowEnds>,
    trains: Vec<Train>,
    /// Packets that are not entered yet, by [`PlainKey::place`].
    recent: Box<[(PlainKey, Sum); RECENT]>,
    has_more: bool,
    /// By IP protocol.
    protocols: Box<[(u64, Sum); 256]>,
    others: BTreeMap<Protocol, Sum>,
}

/// The flows of a replay, for its report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct FlowFacts {
    /// Flows of the frames of the first loop, with `--each-loop` of all loops. As in
    /// `wirerate.info/1`, a flow of IP is both directions of the same addresses, ports and
    /// protocol.
    pub flows: u64,
    /// True if there are more than a million flows: the others are not told apart, and their
    /// packets are in no `top_talkers`.
    pub has_more_flows: bool,
    /// The counts are those of one of several loops, which are alike; for the text.
    #[serde(skip)]
    pub is_of_one_loop: bool,
    /// Flows that began per second; those of each loop count.
    #[fact(unit = "1/s")]
    pub flows_ps: f64,
    /// Different IP addresses of these flows.
    pub addresses: u64,
    /// The protocols, the one with most packets first.
    pub protocols: Vec<ProtocolFlows>,
    /// The five addresses that sent most bytes.
    pub top_talkers: Vec<Talker>,
}

/// The flows of a protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct ProtocolFlows {
    /// Name of the protocol.
    pub name: String,
    /// Its flows; 0 for what is not IP.
    pub flows: u64,
    /// The number of its packets.
    #[fact(unit = "packets")]
    pub packets: u64,
    /// Bytes of the frames of these packets.
    #[fact(unit = "bytes")]
    pub bytes: u64,
}

/// What an address sent.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct Talker {
    /// The address.
    pub address: IpAddr,
    /// The number of packets that it sent.
    #[fact(unit = "packets")]
    pub packets: u64,
    /// Bytes of the frames of these packets.
    #[fact(unit = "bytes")]
    pub bytes: u64,
}

impl FlowStatistics {
    /// Of frames of this link type, by its number in capture files.
    pub fn new(link_type: u16) -> Self {
        Self {
            link_type,
            start: RandomState::new().hash_one(0),
            flows: HashMap::default(),
            ends: Vec::new(),
            trains: Vec::with_capacity(BATCH_LEN),
            recent: Box::new([(PlainKey::default(), Sum::default()); RECENT]),
            has_more: false,
            protocols: Box::new([(0, Sum::default()); 256]),
            others: BTreeMap::new(),
        }
    }

    /// Counts a frame.
    #[inline]
    pub fn see(&mut self, frame: &[u8]) {
        let sum = Sum { packets: 1, bytes: frame.len() as u64 };
        match PlainKey::of(frame).filter(|_| self.link_type == LINK_TYPE_ETHERNET) {
            Some(key) => {
                let recent = &mut self.recent[key.place()];
                if recent.0 == key {
                    recent.1.add(sum);
                } else {
                    let (before, sum_before) = std::mem::replace(recent, (key, sum));
                    if sum_before.packets > 0 {
                        self.add(&before.headers(), sum_before);
                    }
                }
            }
            None => self.add(&HeaderFields::parse(self.link_type, frame), sum),
        }
    }

    /// Adds packets with these headers.
    fn add(&mut self, headers: &HeaderFields<'_>, sum: Sum) {
        let Some((flow, ends)) = flow_of(headers, self.start) else {
            let protocol = Protocol::of(headers, self.link_type);
            self.others.entry(protocol).or_default().add(sum);
            return;
        };
        if self.trains.len() == BATCH_LEN {
            self.enter();
        }
        self.trains.push(Train { flow, ends, sum });
    }

    fn enter(&mut self) {
        for Train { flow, ends, sum } in self.trains.drain(..) {
            self.protocols[usize::from(ends.protocol)].1.add(sum);
            let is_full = self.flows.len() == FLOWS_MAX;
            let flow = match self.flows.get_mut(&flow) {
                Some(flow) => flow,
                None if is_full => {
                    self.has_more = true;
                    continue;
                }
                None => {
                    self.protocols[usize::from(ends.protocol)].0 += 1;
                    let place = self.ends.len();
                    self.ends.push(ends);
                    self.flows.entry(flow).or_insert(FlowSums { place, ..FlowSums::default() })
                }
            };
            flow.sums[usize::from(!ends.is_from_low)].add(sum);
        }
    }

    /// All counts, of a run that played `loops` loops in `duration_ns`, of which these are one, or
    /// with `is_of_all_loops` all.
    pub fn finish(mut self, loops: u64, is_of_all_loops: bool, duration_ns: u64) -> FlowFacts {
        for (key, sum) in std::mem::replace(&mut self.recent, Box::new([Default::default(); RECENT])).iter() {
            if sum.packets > 0 {
                self.add(&key.headers(), *sum);
            }
        }
        self.enter();
        let mut sent: HashMap<IpAddr, Sum> = HashMap::new();
        for flow in self.flows.values() {
            let ends = &self.ends[flow.place];
            for (address, sum) in ends.addresses().into_iter().zip(flow.sums) {
                sent.entry(address).or_default().add(sum);
            }
        }
        let addresses = sent.len() as u64;
        let mut talkers: Vec<_> = sent.into_iter().filter(|(_, sum)| sum.packets > 0).collect();
        talkers.sort_unstable_by_key(|(address, sum)| (Reverse(sum.bytes), *address));
        let ip = (0..=u8::MAX).map(Protocol::Ip).zip(*self.protocols);
        let others = self.others.into_iter().map(|(protocol, sum)| (protocol, (0, sum)));
        let mut protocols: Vec<_> = ip
            .chain(others)
            .filter(|(_, (_, sum))| sum.packets > 0)
            .map(|(protocol, (flows, Sum { packets, bytes }))| ProtocolFlows {
                name: protocol.name(),
                flows,
                packets,
                bytes,
            })
            .collect();
        protocols.sort_by_key(|protocol| Reverse(protocol.packets));
        let flows = self.flows.len() as u64;
        let begun = if is_of_all_loops { flows } else { flows.saturating_mul(loops.max(1)) };
        FlowFacts {
            flows,
            has_more_flows: self.has_more,
            is_of_one_loop: loops > 1 && !is_of_all_loops,
            flows_ps: units::per_second(begun, duration_ns),
            addresses,
            protocols,
            top_talkers: talkers
                .into_iter()
                .take(TALKERS_MAX)
                .map(|(address, Sum { packets, bytes })| Talker { address, packets, bytes })
                .collect(),
        }
    }
}

impl FlowEnds {
    /// The lower end, then the other one.
    fn addresses(&self) -> [IpAddr; 2] {
        [self.low, self.high].map(|(high_bits, low_bits)| match self.is_ipv6 {
            true => Ipv6Addr::from_bits(u128::from(high_bits) << 64 | u128::from(low_bits)).into(),
            false => Ipv4Addr::from_bits(low_bits as u32).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(source: ([u8; 4], u16), destination: ([u8; 4], u16), len: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
        let builder = builder.ipv4(source.0, destination.0, 64).udp(source.1, destination.1);
        builder.write(&mut frame, &vec![0; len]).unwrap();
        frame
    }

    #[test]
    fn flows_have_two_directions_and_talkers_have_what_they_sent() {
        let (client, server) = (([10, 0, 0, 1], 1000), ([10, 0, 0, 2], 53));
        let mut statistics = FlowStatistics::new(1);
        for _ in 0..70 {
            statistics.see(&udp(client, server, 18));
            statistics.see(&udp(server, client, 58));
            statistics.see(&udp(server, client, 58));
        }
        statistics.see(&udp(client, ([10, 0, 0, 3], 53), 18));
        statistics.see(&[&[2; 12][..], &[8, 6], &[0; 46]].concat());
        let facts = statistics.finish(10, false, 2_000_000_000);
        assert_eq!((facts.flows, facts.addresses, facts.flows_ps), (2, 3, 10.0));
        assert!(facts.is_of_one_loop);
        let protocol = |name: &str, flows, packets, bytes| ProtocolFlows {
            name: name.to_owned(),
            flows,
            packets,
            bytes,
        };
        let bytes = 71 * 60 + 140 * 100;
        assert_eq!(facts.protocols, [protocol("UDP", 2, 211, bytes), protocol("ARP", 0, 1, 60)]);
        let talker = |last: u8, packets, bytes| Talker { address: [10, 0, 0, last].into(), packets, bytes };
        assert_eq!(facts.top_talkers, [talker(2, 140, 14_000), talker(1, 71, 4260)]);
    }

    /// Plain frames take a shorter way than tagged ones, and leave it for each other.
    #[test]
    fn many_flows_are_counted_alike_with_and_without_tags() {
        let facts = |tag: &[u8]| {
            let mut statistics = FlowStatistics::new(1);
            for number in (0..6000_u32).chain(0..6000) {
                let [.., high, low] = number.to_be_bytes();
                let plain = udp(([10, 1, high, low], 1), ([10, 0, 0, 2], 2), 18);
                statistics.see(&[&plain[..12], tag, &plain[12..]].concat());
            }
            let facts = statistics.finish(1, true, 1_000_000_000);
            (facts.flows, facts.addresses, facts.protocols[0].packets, facts.top_talkers[0].packets)
        };
        assert_eq!(facts(&[]), (6000, 6001, 12_000, 2));
        assert_eq!(facts(&[0x81, 0, 0, 7]), facts(&[]));
    }
}
