//! The hosts of a configuration, and orders to them: this one, and agents of a fleet if there is a
//! hub.

use super::host_ports::HostPorts;
use fleet::{Answered, FleetName, Order, OrderResult, PortPlace, RefusalKind};
use hub::{Controller, GoRefused};
use measure::HostClock;
use program::start_at::{boot_id, host_clock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// An agent that hears no controller for this time ends all flows and lets the ports go.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// A host that has ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostPlace {
    /// This one.
    Here,
    /// An agent of the fleet.
    Agent(FleetName),
}

impl HostPlace {
    /// The host of a port location that `--port` does not have.
    ///
    /// # Errors
    /// It has a `/`, and is not HOST/PORT.
    pub(super) fn of(location: &str) -> Result<Self, String> {
        match location.split_once('/') {
            None => Ok(Self::Here),
            // A device of this host: DEV@/proc/PID/ns/net.
            Some((device, _)) if device.contains('@') => Ok(Self::Here),
            Some(_) => location.parse().map(|place: PortPlace| Self::Agent(place.host)),
        }
    }
}

impl fmt::Display for HostPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("this host"),
            Self::Agent(host) => host.fmt(f),
        }
    }
}

/// What became of an order to a host.
#[derive(Debug)]
pub(super) struct HostAnswer {
    pub(super) result: Result<OrderResult, HostFault>,
    /// The answer of an agent, with the times of the controller.
    pub(super) answered: Option<Answered>,
}

/// Why an order was not carried out.
#[derive(Clone, Debug)]
pub(super) struct HostFault {
    /// Whose fault it is.
    pub(super) kind: RefusalKind,
    /// There was no answer: it may have been carried out.
    pub(super) is_silent: bool,
    /// One sentence per cause.
    pub(super) errors: Vec<String>,
}

impl HostAnswer {
    fn of(result: OrderResult, answered: Option<Answered>) -> Self {
        let result = match result {
            OrderResult::Refused { kind, mut errors, tries } => {
                if let (Some(last), false) = (errors.last_mut(), tries.is_empty()) {
                    *last = format!("{last} (try: {})", tries.join("; "));
                }
                Err(HostFault { kind, is_silent: false, errors })
            }
            result => Ok(result),
        };
        Self { result, answered }
    }

    fn of_agent(answered: Result<Answered, String>) -> Self {
        match answered {
            Err(why) => Self::silent(why),
            Ok(mut answered) => {
                let result = std::mem::replace(&mut answered.answer.result, OrderResult::done());
                Self::of(result, Some(answered))
            }
        }
    }

    fn silent(why: String) -> Self {
        let fault = HostFault { kind: RefusalKind::Host, is_silent: true, errors: vec![why] };
        Self { result: Err(fault), answered: None }
    }

    /// The boot and the clock of the host.
    pub(super) fn clock(&self) -> (String, HostClock) {
        match &self.answered {
            Some(answered) => (answered.answer.boot_id.clone(), answered.answer.clock),
            None => (boot_id(), host_clock()),
        }
    }
}

/// This host, and the agents of a fleet if there is a hub.
pub(super) struct Hosts {
    pub(super) here: HostPorts,
    fleet: Option<FleetAgents>,
}

/// The agents of a fleet.
pub(super) struct FleetAgents {
    pub(super) controller: Arc<Controller>,
    /// The calls of the hub run on it.
    pub(super) runtime: Handle,
}

impl Hosts {
    /// Without `fleet`, all ports are of this host.
    pub(super) fn new(here: HostPorts, fleet: Option<FleetAgents>) -> Self {
        Self { here, fleet }
    }

    /// The host of a port location that `--port` does not have.
    ///
    /// # Errors
    /// There is a hub, and the location has a `/`, and is not HOST/PORT.
    pub(super) fn place_of(&self, location: &str) -> Result<HostPlace, String> {
        if self.fleet.is_some() { HostPlace::of(location) } else { Ok(HostPlace::Here) }
    }

    /// Gives orders to hosts at once. The answers are in the order of the orders; an agent has
    /// `timeout` for its answer. It blocks.
    pub(super) fn ask(&self, orders: Vec<(HostPlace, Order)>, timeout: Duration) -> Vec<HostAnswer> {
        enum Asked {
            Here(Order),
            Agent(tokio::task::JoinHandle<HostAnswer>),
        }
        let ask = |(place, order): (HostPlace, Order)| match place {
            HostPlace::Here => Asked::Here(order),
            HostPlace::Agent(host) => {
                let FleetAgents { controller, runtime } = self.fleet();
                let controller = Arc::clone(controller);
                let ask = async move { HostAnswer::of_agent(controller.ask(&host, order, timeout).await) };
                Asked::Agent(runtime.spawn(ask))
            }
        };
        // All agents are asked before this host begins.
        let asked: Vec<Asked> = orders.into_iter().map(ask).collect();
        let answer = |asked| match asked {
            Asked::Here(order) => HostAnswer::of(self.here.carry_out(order), None),
            Asked::Agent(task) => {
                let answer = self.fleet().runtime.block_on(task);
                answer.unwrap_or_else(|why| HostAnswer::silent(why.to_string()))
            }
        };
        asked.into_iter().map(answer).collect()
    }

    /// Lets hosts start what is armed, at a time or at once: this host at once only if it is alone.
    /// Returns the answers, in the order of the hosts. It blocks until shortly before the time.
    pub(super) fn go(&self, places: &[HostPlace], start_at_ns: Option<u64>) -> Vec<HostAnswer> {
        let order = || Order::Go { start_at_ns };
        let mut answers: BTreeMap<HostPlace, HostAnswer> = BTreeMap::new();
        if places.contains(&HostPlace::Here) {
            answers.insert(HostPlace::Here, HostAnswer::of(self.here.carry_out(order()), None));
        }
        let agent = |place: &HostPlace| match place {
            HostPlace::Here => None,
            HostPlace::Agent(host) => Some((host.clone(), order())),
        };
        let orders: Vec<_> = places.iter().filter_map(agent).collect();
        if let (Some(start_at_ns), false) = (start_at_ns, orders.is_empty()) {
            let FleetAgents { controller, runtime } = self.fleet();
            for GoRefused { objection, is_silent } in
                runtime.block_on(controller.go(orders, start_at_ns, |_| {}))
            {
                let fault = HostFault { kind: RefusalKind::Host, is_silent, errors: vec![objection.why] };
                let answer = HostAnswer { result: Err(fault), answered: None };
                answers.insert(HostPlace::Agent(objection.host), answer);
            }
        }
        let done = || HostAnswer::of(OrderResult::done(), None);
        places.iter().map(|place| answers.remove(place).unwrap_or_else(done)).collect()
    }

    fn fleet(&self) -> &FleetAgents {
        self.fleet.as_ref().expect("without a hub, no place is that of an agent")
    }
}

/// Warnings of orders that were all carried out; otherwise why they were not. Sentences of agents
/// begin with their host; `flow_path` gives those about a host's flows their path.
///
/// # Errors
/// All sentences of hosts that refused or did not answer, and whose fault it is.
pub(super) fn all_done(
    answers: impl IntoIterator<Item = (HostPlace, HostAnswer)>,
    flow_path: impl Fn(&HostPlace, &str) -> String,
) -> Result<Vec<String>, (RefusalKind, Vec<String>)> {
    let (mut warnings, mut errors, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for (place, HostAnswer { result, .. }) in answers {
        let told = |text: &String| said_by(&place, flow_path(&place, text));
        match result {
            Ok(OrderResult::Done { warnings: more }) => warnings.extend(more.iter().map(told)),
            Ok(_) => {}
            Err(fault) => {
                kinds.push(fault.kind);
                errors.extend(fault.errors.iter().map(told));
            }
        }
    }
    match kinds.first() {
        None => Ok(warnings),
        _ if kinds.contains(&RefusalKind::Host) => Err((RefusalKind::Host, errors)),
        Some(first) if kinds.iter().all(|kind| kind == first) => Err((*first, errors)),
        Some(_) => Err((RefusalKind::Invalid, errors)),
    }
}

/// A sentence of a host. One that begins with a path keeps it in front.
pub(super) fn said_by(place: &HostPlace, text: String) -> String {
    let is_path = ["ports[", "flows["].iter().any(|list| text.starts_with(list));
    match place {
        HostPlace::Here => text,
        HostPlace::Agent(_) if is_path => match text.split_once(": ") {
            Some((path, rest)) => format!("{path}: {place}: {rest}"),
            None => text,
        },
        HostPlace::Agent(_) => format!("{place}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_with_a_host_is_one_of_an_agent() {
        assert_eq!(HostPlace::of("eth1"), Ok(HostPlace::Here));
        assert_eq!(HostPlace::of("h1/eth1"), Ok(HostPlace::Agent("h1".parse().unwrap())));
        assert!(HostPlace::of("h1/a/b").is_err());
    }

    #[test]
    fn sentences_name_their_host() {
        let agent = HostPlace::of("h2/p").unwrap();
        let answer = |result| HostAnswer::of(result, None);
        let done = || answer(OrderResult::Done { warnings: vec!["flows[0].size: raised".to_owned()] });
        let path = |_: &HostPlace, text: &str| text.replace("flows[0]", "flows[7]");
        let all = all_done([(HostPlace::Here, done()), (agent.clone(), done())], path);
        assert_eq!(all.unwrap(), ["flows[7].size: raised", "flows[7].size: h2: raised"]);
        let silent = HostAnswer::silent("no answer".to_owned());
        let refused = OrderResult::refused(RefusalKind::Conflict, "ports[1].location: no");
        let answers = [(agent.clone(), silent), (agent.clone(), answer(refused.clone()))];
        let errors = ["h2: no answer", "ports[1].location: h2: no"].map(str::to_owned).to_vec();
        assert_eq!(all_done(answers, path), Err((RefusalKind::Host, errors)));
        let (kind, _) = all_done([(agent, answer(refused))], path).unwrap_err();
        assert_eq!(kind, RefusalKind::Conflict);
    }
}
