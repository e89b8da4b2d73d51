//! The hosts of a configuration, and orders to them: this one, and agents of a fleet if there is a
//! hub.

use super::host_ports::{HostPorts, lock};
use fleet::{
    Answered, FleetName, OtgAnswer, OtgOrder, OtgRequest, OtgResult, PortPlace, RefusalKind, subject,
    two_agents,
};
use host::realtime_ns;
use hub::{Hub, OrderKind};
use measure::HostClock;
use program::start_at::{boot_id, host_clock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;

/// An agent that hears no controller for this time ends all flows and lets the ports go.
const LEASE: Duration = Duration::from_secs(10);
/// Time from one sign of life to the next.
const LEASE_INTERVAL: Duration = Duration::from_millis(500);

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
    pub(super) result: Result<OtgResult, HostFault>,
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
    fn of(result: OtgResult, answered: Option<Answered>) -> Self {
        let result = match result {
            OtgResult::Refused { kind, errors } => Err(HostFault { kind, is_silent: false, errors }),
            result => Ok(result),
        };
        Self { result, answered }
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
    fleet: Option<FleetHub>,
    /// The agents that have put their parts in force.
    instances: Instances,
}

/// The way to the agents of a fleet.
pub(super) struct FleetHub {
    pub(super) hub: Hub,
    /// The calls of the hub run on it.
    pub(super) runtime: Handle,
    /// Names the use of ports.
    pub(super) run: FleetName,
}

/// The instance of each agent.
type Instances = Arc<Mutex<BTreeMap<FleetName, u64>>>;

impl Hosts {
    /// Without `fleet`, all ports are of this host.
    pub(super) fn new(here: HostPorts, fleet: Option<FleetHub>) -> Self {
        Self { here, fleet, instances: Instances::default() }
    }

    /// The host of a port location that `--port` does not have.
    ///
    /// # Errors
    /// There is a hub, and the location has a `/`, and is not HOST/PORT.
    pub(super) fn place_of(&self, location: &str) -> Result<HostPlace, String> {
        if self.fleet.is_some() { HostPlace::of(location) } else { Ok(HostPlace::Here) }
    }

    /// How long agents go on without a controller.
    pub(super) fn lease() -> Duration {
        LEASE
    }

    /// Keeps agents going.
    pub(super) async fn keep_alive(hub: Hub, run: FleetName) {
        let mut leases = tokio::time::interval(LEASE_INTERVAL);
        loop {
            leases.tick().await;
            // Without a connection the next one may arrive.
            let _ = hub.order(&run, OrderKind::Lease).await;
        }
    }

    /// Gives orders to hosts at once. The answers are in the order of the orders; an agent has
    /// `timeout` for its answer. It blocks.
    pub(super) fn ask(&self, orders: Vec<(HostPlace, OtgOrder)>, timeout: Duration) -> Vec<HostAnswer> {
        enum Asked {
            Here(OtgOrder),
            Agent(tokio::task::JoinHandle<HostAnswer>),
        }
        let ask = |(place, order): (HostPlace, OtgOrder)| match place {
            HostPlace::Here => Asked::Here(order),
            HostPlace::Agent(host) => {
                let FleetHub { hub, runtime, run } = self.fleet();
                let lease_ms = LEASE.as_millis() as u64;
                let request = OtgRequest { run: run.clone(), lease_ms, order };
                let instances = Arc::clone(&self.instances);
                Asked::Agent(runtime.spawn(ask_agent(hub.clone(), instances, host, request, timeout)))
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

    fn fleet(&self) -> &FleetHub {
        self.fleet.as_ref().expect("without a hub, no place is that of an agent")
    }
}

async fn ask_agent(
    hub: Hub,
    instances: Instances,
    host: FleetName,
    request: OtgRequest,
    timeout: Duration,
) -> HostAnswer {
    let asked_ns = realtime_ns();
    let answer: Result<OtgAnswer, String> = hub.ask(subject::otg(&host), &request, timeout).await;
    match answer {
        Err(why) => HostAnswer::silent(why),
        Ok(OtgAnswer { answer, .. }) if answer.host != host => {
            HostAnswer::silent(format!("the answer is that of {}", answer.host))
        }
        // A refusal says why, and changes nothing.
        Ok(OtgAnswer { answer, result })
            if !matches!(result, OtgResult::Refused { .. })
                && !is_same(&mut lock(&instances), &host, answer.instance, &request.order) =>
        {
            HostAnswer::silent(two_agents(&host).why)
        }
        Ok(OtgAnswer { answer, result }) => {
            HostAnswer::of(result, Some(Answered { asked_ns, answered_ns: realtime_ns(), answer }))
        }
    }
}

/// True if an order was carried out by the agent that has put the configuration in force, or does
/// not depend on it.
fn is_same(
    instances: &mut BTreeMap<FleetName, u64>,
    host: &FleetName,
    instance: u64,
    order: &OtgOrder,
) -> bool {
    match order {
        // SetConfig begins with it, also after the agent was started again.
        OtgOrder::Check { .. } => true,
        OtgOrder::Set(_) => {
            instances.insert(host.clone(), instance);
            true
        }
        _ => instances.get(host).is_none_or(|known| *known == instance),
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
            Ok(OtgResult::Done { warnings: more }) => warnings.extend(more.iter().map(told)),
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
    use fleet::OtgPart;
    use serde_json::Value;

    #[test]
    fn a_location_with_a_host_is_one_of_an_agent() {
        assert_eq!(HostPlace::of("eth1"), Ok(HostPlace::Here));
        assert_eq!(HostPlace::of("h1/eth1"), Ok(HostPlace::Agent("h1".parse().unwrap())));
        assert!(HostPlace::of("h1/a/b").is_err());
    }

    #[test]
    fn orders_of_a_configuration_are_carried_out_by_one_agent() {
        let (mut instances, host) = (BTreeMap::new(), "h1".parse().unwrap());
        let part = || OtgPart { config: Value::Null, ports: Vec::new(), mark: 0, seed: 0 };
        let (check, set) = (OtgOrder::Check { part: part(), is_change: false }, OtgOrder::Set(part()));
        let read = OtgOrder::Read { flows: Vec::new(), ports: Vec::new() };
        let mut is_same = |instance: u64, order: &OtgOrder| is_same(&mut instances, &host, instance, order);
        assert!(is_same(3, &read), "nothing is in force");
        assert!(is_same(7, &set) && is_same(7, &read));
        assert!(!is_same(8, &read), "a second agent of this name");
        assert!(is_same(8, &check) && is_same(8, &set), "the agent was started again");
        assert!(is_same(8, &read) && !is_same(7, &read));
    }

    #[test]
    fn sentences_name_their_host() {
        let agent = HostPlace::of("h2/p").unwrap();
        let answer = |result| HostAnswer::of(result, None);
        let done = || answer(OtgResult::Done { warnings: vec!["flows[0].size: raised".to_owned()] });
        let path = |_: &HostPlace, text: &str| text.replace("flows[0]", "flows[7]");
        let all = all_done([(HostPlace::Here, done()), (agent.clone(), done())], path);
        assert_eq!(all.unwrap(), ["flows[7].size: raised", "flows[7].size: h2: raised"]);
        let silent = HostAnswer::silent("no answer".to_owned());
        let refused = OtgResult::Refused {
            kind: RefusalKind::Conflict,
            errors: vec!["ports[1].location: no".to_owned()],
        };
        let answers = [(agent.clone(), silent), (agent.clone(), answer(refused.clone()))];
        let errors = ["h2: no answer", "ports[1].location: h2: no"].map(str::to_owned).to_vec();
        assert_eq!(all_done(answers, path), Err((RefusalKind::Host, errors)));
        let (kind, _) = all_done([(agent, answer(refused))], path).unwrap_err();
        assert_eq!(kind, RefusalKind::Conflict);
    }
}
