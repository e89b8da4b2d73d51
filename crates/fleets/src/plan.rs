//! A test as orders to its hosts.

use super::test_file::{FlowEntry, TestFile};
use super::words;
use fleet::{FleetName, FlowOrder, FlowRole, HostStatus, NUMBERS_MAX, PlannedFlow, PortPlace, TestPart};
use program::outcome::Failure;
use program::seed::fresh_seed;
use std::collections::{BTreeMap, BTreeSet};
use units::Nanos;

/// Runs have numbers of 12 bits in their frames.
const MARK_MASK: u64 = 0xfff;
/// Time from one message with counts to the next.
pub(super) const STAT_MS: u64 = 1000;

/// A test whose words were checked.
#[derive(Clone, Debug)]
pub(super) struct TestPlan {
    /// The run.
    pub(super) run: FleetName,
    /// Its flows.
    pub(super) flows: Vec<PlannedFlow>,
    /// The first number in the frames of each flow. They differ in the whole run: a switch that
    /// does not know an address floods frames to all ports.
    numbers: Vec<u32>,
    mark: u16,
    seed: u64,
}

impl TestPlan {
    /// Checks the words of all flows. `now_ns` names the run.
    ///
    /// # Errors
    /// Bad usage in one of them, which is named.
    pub(super) fn of(test: &TestFile, now_ns: u64) -> Result<Self, Failure> {
        let too_many = || {
            let why = format!("it has more than {NUMBERS_MAX} flows, those of --flows included");
            Failure::usage("plan the test", why).try_this("two tests")
        };
        if test.flows.len() > NUMBERS_MAX as usize {
            return Err(too_many());
        }
        let (mut numbers, mut number_count) = (Vec::new(), 0_u32);
        let planned = |(index, entry): (usize, &FlowEntry)| {
            let name = entry.name.clone().unwrap_or_else(|| (index + 1).to_string());
            let words = entry.send.words();
            let flow = words::parse(&words, entry.from.port.as_str(), Nanos(test.duration_ns()));
            let flow = flow.map_err(|why| Failure::usage(format!("send flow {name}"), why))?;
            let (from, to) = (entry.from.clone(), entry.to.clone());
            numbers.push(number_count);
            number_count = number_count.saturating_add(flow.number_count());
            if number_count > NUMBERS_MAX {
                return Err(too_many());
            }
            Ok(PlannedFlow { name, from, to, count: flow.count(), send: words })
        };
        let flows: Vec<PlannedFlow> =
            test.flows.iter().enumerate().map(planned).collect::<Result<_, Failure>>()?;
        for (index, flow) in flows.iter().enumerate() {
            if flows[..index].iter().any(|other| other.name == flow.name) {
                return Err(Failure::usage(format!("name flow {}", flow.name), "another flow has this name"));
            }
        }
        let run = format!("r{:x}", now_ns / 1_000_000);
        let run = run.parse().expect("a letter and hexadecimal digits are a name");
        Ok(Self { run, flows, numbers, mark: (fresh_seed() & MARK_MASK) as u16, seed: fresh_seed() })
    }

    /// The hosts, by name.
    pub(super) fn hosts(&self) -> Vec<FleetName> {
        let mut hosts: Vec<FleetName> = self.places().map(|place| place.host.clone()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    fn places(&self) -> impl Iterator<Item = &PortPlace> {
        self.flows.iter().flat_map(|flow| [&flow.from, &flow.to])
    }

    /// Gives flows without a destination that of the port that receives them. Returns the receiving
    /// hosts of such flows that are not among the known ones.
    pub(super) fn fill_in(&mut self, known: &[HostStatus]) -> BTreeSet<FleetName> {
        let mut unknown = BTreeSet::new();
        for flow in &mut self.flows {
            let parsed = words::parse(&flow.send, flow.from.port.as_str(), Nanos(1));
            if parsed.is_ok_and(|flow| flow.has_destination()) {
                continue;
            }
            let Some(host) = known.iter().find(|host| host.host == flow.to.host) else {
                unknown.insert(flow.to.host.clone());
                continue;
            };
            let Some(port) = host.ports.iter().find(|port| port.name == flow.to.port) else { continue };
            let is_v6 = flow.send.iter().any(|word| word.contains("::"));
            match (&port.address, &port.mac) {
                (Some(address), _) if !is_v6 => flow.send.extend(["--dst".to_owned(), address.clone()]),
                (_, Some(mac)) => flow.send.extend(["--dst-mac".to_owned(), mac.clone()]),
                (_, None) => {}
            }
        }
        unknown
    }

    /// The part of each host.
    pub(super) fn parts(&self, test: &TestFile) -> BTreeMap<FleetName, TestPart> {
        let mut parts: BTreeMap<FleetName, TestPart> = BTreeMap::new();
        let empty = TestPart {
            mark: self.mark,
            flows: Vec::new(),
            duration_ns: test.duration_ns(),
            settle_ms: test.settle_ms(),
            stat_ms: STAT_MS,
            seed: self.seed,
        };
        for ((id, flow), number) in (0..).zip(&self.flows).zip(&self.numbers) {
            for (place, role) in [(&flow.from, FlowRole::Send), (&flow.to, FlowRole::Receive)] {
                let (port, send) = (place.port.clone(), flow.send.clone());
                let order = FlowOrder { id, role, port, number: *number, send };
                parts.entry(place.host.clone()).or_insert_with(|| empty.clone()).flows.push(order);
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_file::SendWords;
    use super::*;

    fn test(flows: &[(&str, &str)]) -> TestFile {
        let flow = |(from, to): &(&str, &str)| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
        toml::from_str(&format!("seconds = 1\n{}", flows.iter().map(flow).collect::<String>())).unwrap()
    }

    /// A switch may flood the frames of one flow to the port of another.
    #[test]
    fn flows_to_different_ports_have_different_numbers() {
        let test = test(&[("h1/a", "h2/a"), ("h1/a", "h3/a"), ("h2/a", "h3/b")]);
        let parts = TestPlan::of(&test, 1).unwrap().parts(&test);
        let received = parts.values().flat_map(|part| &part.flows);
        let mut numbers: Vec<u32> =
            received.filter(|flow| flow.role == FlowRole::Receive).map(|flow| flow.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);
    }

    #[test]
    fn a_flow_of_several_has_as_many_numbers() {
        let mut test = test(&[("h1/a", "h2/a"), ("h1/a", "h3/a"), ("h2/a", "h3/b")]);
        test.flows[1].send = SendWords::Text("--flows 1000 --size 74".to_owned());
        let parts = TestPlan::of(&test, 1).unwrap().parts(&test);
        let numbers = |host: &str| -> Vec<u32> {
            parts[&host.parse().unwrap()].flows.iter().map(|flow| flow.number).collect()
        };
        assert_eq!((numbers("h1"), numbers("h3")), (vec![0, 1], vec![1, 1001]));
    }

    #[test]
    fn flows_that_have_no_number_are_refused() {
        let mut test = test(&[("h1/a", "h2/a")]);
        test.flows = vec![test.flows[0].clone(); 1 + NUMBERS_MAX as usize];
        let refusal = TestPlan::of(&test, 1).unwrap_err().to_string();
        assert!(refusal.contains("more than 65536 flows"), "{refusal}");
        test.flows.truncate(2);
        test.flows[0].send = SendWords::Text("--flows 65536".to_owned());
        assert!(TestPlan::of(&test, 1).is_err());
        test.flows.truncate(1);
        assert!(TestPlan::of(&test, 1).is_ok());
    }
}
