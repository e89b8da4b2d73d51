//! A configuration in force: which host has which ports and flows, and the rows of metrics from
//! what the hosts have counted.

use super::flow::with_fcs;
use super::hosts::HostPlace;
use super::port::FLOW_NUMBERS;
use super::progress::{DrainRule, FlowProgress};
use super::tagged::tagged_rows;
use fleet::{
    FlowArrivals, FlowReading, FlowStart, PortReading, RatedCounts, SentFrames, TagReading,
    clock_agreement_ns,
};
use measure::HostClock;
use otg::metrics::{FlowCounts, FlowMetricsRow, FlowState, PortCounts, PortRow, TrafficCounts};
use otg::{ConfigPart, FlowConfig, OtgConfig, TaggedQuery};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;
use units::human_duration;

/// A host and its part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedHost {
    pub(super) place: HostPlace,
    pub(super) part: ConfigPart,
}

/// A flow over hosts.
#[derive(Debug, Default)]
pub(super) struct PlacedFlow {
    /// The host that sends it, and its index there; `None` if its port has no location.
    tx: Option<(usize, u32)>,
    /// All hosts that have it, and its index there. The sender is one of them.
    at: Vec<(usize, u32)>,
    pub(super) progress: FlowProgress,
    /// The size of its frames has changed since it was started.
    has_several_sizes: bool,
}

impl PlacedFlow {
    /// Its index on a host, if that has it.
    pub(super) fn index_at(&self, host: usize) -> Option<u32> {
        self.at.iter().find(|(at, _)| *at == host).map(|(_, index)| *index)
    }
}

/// The configuration.
#[derive(Default)]
pub(super) struct PlacedConfig {
    /// As it was set.
    json: Option<Value>,
    pub(super) config: OtgConfig,
    pub(super) hosts: Arc<[PlacedHost]>,
    pub(super) flows: Vec<PlacedFlow>,
    /// The run in the marks of frames.
    pub(super) mark: u16,
    /// The seed of random values that are not to be repeatable.
    pub(super) seed: u64,
    /// The next number of a flow in marks.
    next_number: u32,
    /// How long the last frames of a flow may take.
    drain: DrainRule,
}

/// A sentence of a host about one of its flows, with its path in the whole configuration.
pub(super) fn whole_path(hosts: &[PlacedHost], place: &HostPlace, text: &str) -> String {
    let host = hosts.iter().find(|host| host.place == *place);
    host.map_or_else(|| text.to_owned(), |host| host.part.whole_path(text))
}

/// Indexes of each host.
pub(super) type ByHost<T> = BTreeMap<usize, Vec<T>>;

impl PlacedConfig {
    /// Splits a checked configuration, which was read with `seed`; `places` has the host of each
    /// port that has a location.
    pub(super) fn new(
        json: Value,
        config: OtgConfig,
        places: &[Option<HostPlace>],
        (mark, seed): (u16, u64),
        drain: DrainRule,
    ) -> Self {
        let mut ports: BTreeMap<&HostPlace, Vec<usize>> = BTreeMap::new();
        for (port, place) in places.iter().enumerate() {
            place.iter().for_each(|place| ports.entry(place).or_default().push(port));
        }
        let host = |(place, ports): (&HostPlace, Vec<usize>)| PlacedHost {
            place: place.clone(),
            part: ConfigPart::of(&config, ports),
        };
        let hosts: Arc<[PlacedHost]> = ports.into_iter().map(host).collect();
        let mut flows: Vec<PlacedFlow> = config.flows.iter().map(|_| PlacedFlow::default()).collect();
        for (at, host) in hosts.iter().enumerate() {
            for (index, flow) in host.part.flows.iter().enumerate() {
                let here = (at, index as u32);
                flows[*flow].at.push(here);
                let sends = |port: &usize| config.ports[*port].name == config.flows[*flow].tx_port;
                if host.part.ports.iter().any(sends) {
                    flows[*flow].tx = Some(here);
                }
            }
        }
        Self { json: Some(json), config, hosts, flows, mark, seed, next_number: 0, drain }
    }

    /// No configuration: the next one has the mark behind this one.
    pub(super) fn none(mark: u16) -> Self {
        Self { mark, ..Self::default() }
    }

    /// Takes the configuration: nothing is in force any more.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::none(self.mark))
    }

    /// Flows of the same name go on from `before`, which has the same ports.
    pub(super) fn continues(&mut self, before: Self) {
        (self.mark, self.next_number) = (before.mark, before.next_number);
        let flows = before.config.flows.into_iter().zip(before.flows);
        let mut known: HashMap<String, (FlowConfig, PlacedFlow)> =
            flows.map(|(config, flow)| (config.name.clone(), (config, flow))).collect();
        for (config, flow) in self.config.flows.iter().zip(&mut self.flows) {
            let Some((old_config, old)) = known.remove(&config.name) else { continue };
            flow.progress = old.progress;
            flow.has_several_sizes = old.has_several_sizes || old_config.size_fixed() != config.size_fixed();
        }
    }

    /// The configuration as it was set.
    pub(super) fn as_set(&self) -> Value {
        self.json.clone().unwrap_or_else(|| json!({}))
    }

    /// The configuration of a host.
    pub(super) fn part_of(&self, host: &PlacedHost) -> fleet::OtgPart {
        fleet::OtgPart {
            config: host.part.json(self.json.as_ref().unwrap_or(&Value::Null)),
            ports: host.part.ports.iter().map(|port| *port as u32).collect(),
            mark: self.mark,
            seed: self.seed,
        }
    }

    /// The host of a port, and its index there; `None` if it has no location.
    pub(super) fn port_at(&self, port: usize) -> Option<(usize, u32)> {
        let of_host = |host: &PlacedHost| host.part.ports.iter().position(|own| *own == port);
        let mut found =
            self.hosts.iter().enumerate().filter_map(|(at, host)| Some((at, of_host(host)? as u32)));
        found.next()
    }

    /// True if a port is one of this host.
    pub(super) fn is_at(&self, port: usize, host: usize) -> bool {
        self.port_at(port).is_some_and(|(at, _)| at == host)
    }

    /// The host of a port, and its index there.
    ///
    /// # Errors
    /// The port has no location.
    pub(super) fn host_of(&self, port: usize) -> Result<(usize, u32), String> {
        let name = &self.config.ports[port].name;
        self.port_at(port).ok_or_else(|| format!("port {name} has no location"))
    }

    /// Ports by host.
    ///
    /// # Errors
    /// One has no location.
    pub(super) fn ports_by_host(&self, ports: &[usize]) -> Result<ByHost<u32>, String> {
        let places: Result<Vec<_>, _> = ports.iter().map(|port| self.host_of(*port)).collect();
        Ok(grouped(places?.into_iter()))
    }

    /// Flows by the host that sends them.
    pub(super) fn senders_of(&self, flows: &[usize]) -> ByHost<u32> {
        grouped(flows.iter().filter_map(|flow| self.flows[*flow].tx))
    }

    /// A sentence for each of these flows that has a port without a location.
    pub(super) fn unconnected(&self, flows: &[usize]) -> Vec<String> {
        let ports = self.config.ports.iter().filter(|port| port.location.is_empty());
        let without: BTreeSet<&str> = ports.map(|port| &port.name[..]).collect();
        let sentence = |flow: &usize| {
            let FlowConfig { name, tx_port, rx_ports, .. } = &self.config.flows[*flow];
            let mut ports = std::iter::once(tx_port).chain(rx_ports);
            let port = ports.find(|port| without.contains(&port[..]))?;
            Some(format!("flow {name}: its port {port} has no location"))
        };
        flows.iter().filter_map(sentence).collect()
    }

    /// The names of flows that need a host.
    pub(super) fn names_at(&self, flows: &[usize], host: usize) -> Vec<&str> {
        let here = flows.iter().filter(|flow| self.flows[**flow].index_at(host).is_some());
        here.map(|flow| &self.config.flows[*flow].name[..]).collect()
    }

    /// Numbers flows that start; `is_anew` is false for flows that continue. Returns what each host
    /// gets.
    ///
    /// # Errors
    /// All numbers of marks are used up.
    pub(super) fn number(&mut self, flows: &[(usize, bool)]) -> Result<ByHost<FlowStart>, String> {
        let anew = flows.iter().filter(|(_, is_anew)| *is_anew).count() as u32;
        if self.next_number + anew > FLOW_NUMBERS {
            return Err("65,536 flows were started with this configuration: set it again".to_owned());
        }
        let mut starts: ByHost<FlowStart> = BTreeMap::new();
        for (rank, &(flow, is_anew)) in flows.iter().enumerate() {
            let number = is_anew.then(|| {
                self.next_number += 1;
                (self.next_number - 1) as u16
            });
            let placed = &mut self.flows[flow];
            if is_anew {
                (placed.progress, placed.has_several_sizes) = (FlowProgress::default(), false);
            }
            for (host, index) in placed.at.iter().filter(|at| is_anew || Some(**at) == placed.tx) {
                let start = FlowStart { flow: *index, number, rank: rank as u32 };
                starts.entry(*host).or_default().push(start);
            }
        }
        Ok(starts)
    }

    /// Errors and warnings about flows whose latency is that between two clocks.
    pub(super) fn clock_findings(&self, clocks: &[(String, HostClock)]) -> (Vec<String>, Vec<String>) {
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for (index, (config, flow)) in self.config.flows.iter().zip(&self.flows).enumerate() {
            let hosts: BTreeSet<usize> = flow.at.iter().map(|(host, _)| *host).collect();
            if !(config.metrics.enable && config.metrics.latency) || hosts.len() < 2 {
                continue;
            }
            let names: Vec<String> = hosts.iter().map(|host| self.hosts[*host].place.to_string()).collect();
            let names = names.join(" and ");
            let of_hosts: Vec<_> =
                hosts.iter().map(|host| (Some(&clocks[*host].0[..]), Some(clocks[*host].1))).collect();
            let path = format!("flows[{index}].metrics.latency");
            match clock_agreement_ns(&of_hosts) {
                Some(0) => {}
                Some(ns) => warnings.push(format!(
                    "{path}: the clocks of {names} agree within {}, and so do the latencies",
                    human_duration(ns)
                )),
                None => errors.push(format!(
                    "{path}: how far the clocks of {names} agree is unknown: synchronize them (chronyc \
                     tracking), or measure no latency"
                )),
            }
        }
        (errors, warnings)
    }

    /// True if frames of the flow are counted somewhere.
    pub(super) fn waits(config: &FlowConfig) -> bool {
        config.metrics.enable && !config.rx_ports.is_empty()
    }

    /// Settles a flow. True if it was started, and is not any more.
    pub(super) fn has_ended(&mut self, flow: usize, reading: &FlowReading, now: Instant) -> bool {
        self.flows[flow].progress.is_started() && self.settle(flow, reading, now) != FlowState::Started
    }

    /// What a flow does, from the sum of its readings.
    pub(super) fn settle(&mut self, flow: usize, reading: &FlowReading, now: Instant) -> FlowState {
        let config = &self.config.flows[flow];
        let mut arrived = reading.arrived;
        if !config.metrics.latency && self.flows[flow].at.len() > 1 {
            // The clocks of the hosts may differ by any time.
            arrived.stamped = 0;
        }
        let progress = &mut self.flows[flow].progress;
        progress.follow(reading.is_sending, reading.is_paused, arrived.frames, now);
        let due = config.frames_due(reading.sent.frames);
        progress.settle(due, &arrived, Self::waits(config).then_some(self.drain), now)
    }

    /// The row of a flow, from the sum of its readings, with the rows of values that `query` asks
    /// for. Ports in `tagged` are indexes into the whole configuration.
    pub(super) fn flow_row(
        &mut self,
        flow: usize,
        reading: &FlowReading,
        (query, tagged): (&TaggedQuery, &[TagReading]),
        now: Instant,
    ) -> FlowMetricsRow {
        let state = self.settle(flow, reading, now);
        let FlowReading { sent, arrived, .. } = *reading;
        let placed = &mut self.flows[flow];
        let rates = placed.progress.rates(sent.frames, arrived.frames, now);
        let values = (sent, placed.has_several_sizes);
        let tagged = tagged_rows(&self.config, flow, query, values, tagged);
        let counts = flow_counts(state, sent, &arrived, rates);
        FlowMetricsRow::new(&self.config.flows[flow], counts).with_tagged(tagged, query.columns.clone())
    }

    /// The row of a port.
    pub(super) fn port_row(&self, port: usize, reading: &PortReading) -> PortRow {
        let counts = |counts: RatedCounts| {
            let RatedCounts { frames, bytes, rate } = counts;
            TrafficCounts { frames, bytes, rate }
        };
        let config = &self.config.ports[port];
        let counts = PortCounts {
            is_up: reading.is_up,
            is_capturing: reading.is_capturing,
            is_sending: reading.is_sending,
            tx: counts(reading.sent),
            rx: counts(reading.received),
            last_change_ns: reading.last_change_ns,
            speed: reading.speed_bps,
        };
        PortRow::new(&config.name, &config.location, counts)
    }
}

/// The counts of a flow as the model has them: with FCS. `rates` are those of sending and
/// receiving.
fn flow_counts(state: FlowState, sent: SentFrames, received: &FlowArrivals, rates: (f64, f64)) -> FlowCounts {
    let arrived = SentFrames { frames: received.frames, bytes: received.bytes };
    FlowCounts {
        state,
        tx: with_fcs(sent, rates.0),
        rx: with_fcs(arrived, rates.1),
        latency_ns: received.latency_ns(),
        first_last_ns: (received.first_ns, received.last_ns),
    }
}

fn grouped<T>(items: impl Iterator<Item = (usize, T)>) -> ByHost<T> {
    let mut groups: ByHost<T> = BTreeMap::new();
    items.for_each(|(host, item)| groups.entry(host).or_default().push(item));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(flows: &[(&str, &str, &[&str])]) -> PlacedConfig {
        let flow = |(name, tx, rx): &(&str, &str, &[&str])| {
            json!({"name": name, "tx_rx": {"port": {"tx_name": tx, "rx_names": rx}},
                "metrics": {"enable": true, "latency": {"enable": true}}})
        };
        let json = json!({
            "ports": [{"name": "a", "location": "h1/p"}, {"name": "b", "location": "h2/p"},
                {"name": "c", "location": "eth1"}, {"name": "d", "location": "h1/q"}],
            "flows": flows.iter().map(flow).collect::<Vec<_>>(),
        });
        let (config, _) = OtgConfig::read(&json, 1).unwrap();
        let places: Vec<Option<HostPlace>> =
            config.ports.iter().map(|port| Some(HostPlace::of(&port.location).unwrap())).collect();
        PlacedConfig::new(json, config, &places, (7, 1), DrainRule::default())
    }

    #[test]
    fn each_host_has_its_ports_and_the_flows_that_touch_them() {
        let placed = placed(&[("ab", "a", &["b"]), ("here", "c", &[]), ("bad", "b", &["a", "d"])]);
        let hosts: Vec<(String, &[usize], &[usize])> = placed
            .hosts
            .iter()
            .map(|host| (host.place.to_string(), &host.part.ports[..], &host.part.flows[..]))
            .collect();
        let expected: [(String, &[usize], &[usize]); 3] = [
            ("this host".to_owned(), &[2], &[1]),
            ("h1".to_owned(), &[0, 3], &[0, 2]),
            ("h2".to_owned(), &[1], &[0, 2]),
        ];
        assert_eq!(hosts, expected);
        assert_eq!([placed.port_at(3), placed.port_at(1)], [Some((1, 1)), Some((2, 0))]);
        assert_eq!(placed.senders_of(&[0, 1, 2]), BTreeMap::from([(0, vec![0]), (1, vec![0]), (2, vec![1])]));
        assert_eq!(placed.names_at(&[0, 1, 2], 2), ["ab", "bad"]);
        let part = placed.part_of(&placed.hosts[2]);
        assert_eq!((part.ports, part.mark, part.seed), (vec![1], 7, 1));
        assert_eq!(part.config["flows"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn senders_and_receivers_get_one_number_and_a_resumed_flow_keeps_its_own() {
        let mut placed = placed(&[("ab", "a", &["b"]), ("ba", "b", &["a"])]);
        let start = |flow, number, rank| FlowStart { flow, number, rank };
        let both = vec![start(0, Some(0), 0), start(1, Some(1), 1)];
        let starts = placed.number(&[(0, true), (1, true)]).unwrap();
        assert_eq!(starts, BTreeMap::from([(1, both.clone()), (2, both)]));
        let starts = placed.number(&[(1, false), (0, true)]).unwrap();
        let expected = BTreeMap::from([
            (1, vec![start(0, Some(2), 1)]),
            (2, vec![start(1, None, 0), start(0, Some(2), 1)]),
        ]);
        assert_eq!(starts, expected);
        placed.next_number = FLOW_NUMBERS - 1;
        assert!(placed.number(&[(0, true)]).is_ok());
        assert!(placed.number(&[(0, true)]).unwrap_err().contains("set it again"));
    }

    #[test]
    fn a_flow_goes_on_when_others_come_and_go() {
        let mut before = placed(&[("ab", "a", &["b"]), ("ba", "b", &["a"])]);
        before.number(&[(0, true), (1, true)]).unwrap();
        before.flows[1].progress.sends();
        let mut after = placed(&[("new", "a", &["d"]), ("ba", "b", &["a"])]);
        after.continues(before);
        let is_sending: Vec<bool> = after.flows.iter().map(|flow| flow.progress.is_sending()).collect();
        assert_eq!((is_sending, after.next_number, after.mark), (vec![false, true], 2, 7));
    }

    #[test]
    fn a_latency_between_clocks_that_may_disagree_is_refused() {
        let placed = placed(&[("ab", "a", &["b"]), ("ad", "a", &["d"])]);
        let synchronized = |bound_ns| HostClock { is_synchronized: true, bound_ns };
        let of = |boots: [&str; 3], clock: HostClock| {
            placed.clock_findings(&boots.map(|boot| (boot.to_owned(), clock)))
        };
        assert_eq!(of(["x", "x", "x"], HostClock::default()), (vec![], vec![]));
        let (errors, warnings) = of(["x", "y", "z"], HostClock::default());
        assert!(warnings.is_empty() && errors.len() == 1, "the other flow has one host: {errors:?}");
        let why = "flows[0].metrics.latency: how far the clocks of h1 and h2 agree is unknown";
        assert!(errors[0].starts_with(why), "{errors:?}");
        let warning = "flows[0].metrics.latency: the clocks of h1 and h2 agree within 6.000 µs, and so do the \
                       latencies";
        assert_eq!(of(["x", "y", "z"], synchronized(3000)), (vec![], vec![warning.to_owned()]));
    }

    #[test]
    fn a_row_has_the_senders_and_the_receivers_counts() {
        let (mut placed, now) = (placed(&[("ab", "a", &["b"])]), Instant::now());
        let sent = SentFrames { frames: 10, bytes: 600 };
        let arrived = FlowArrivals { frames: 9, bytes: 540, first_copies: 9, ..FlowArrivals::default() };
        let reading = FlowReading { sent, arrived, ..FlowReading::default() };
        let counts = FlowCounts {
            state: FlowState::Stopped,
            tx: TrafficCounts { frames: 10, bytes: 640, rate: 0.0 },
            rx: TrafficCounts { frames: 9, bytes: 576, rate: 0.0 },
            ..FlowCounts::default()
        };
        let expected = FlowMetricsRow::new(&placed.config.flows[0], counts);
        assert_eq!(placed.flow_row(0, &reading, (&TaggedQuery::default(), &[]), now), expected);
        let sending = FlowReading { is_sending: true, ..reading };
        assert_eq!(placed.settle(0, &sending, now), FlowState::Started);
        assert_eq!(placed.settle(0, &reading, now), FlowState::Started, "a frame may be on its way");
    }
}
