//! Configurations of the Open Traffic Generator of which this host has ports: the orders of their
//! controllers, and the end of their leases.

use super::config::{AgentFile, AgentPort};
use super::limits;
use super::status::Answerer;
use fleet::{
    AnswerState, FleetName, OtgAnswer, OtgOrder, OtgPart, OtgRequest, OtgResult, PortPlace, RefusalKind,
};
use hub::HubRequest;
use otg::FlowConfig;
use ports::host_ports::HostPorts;
use ports::port_rules::{PortRules, SendRules};
use program::console::Console;
use program::monitor::sources::RunList;
use sender::device::TxDevice;
use std::collections::BTreeMap;
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// The ports of the agent's file.
struct AgentPorts(Arc<AgentFile>);

impl AgentPorts {
    fn port(&self, location: &str) -> Result<&AgentPort, String> {
        let place: PortPlace = location.parse()?;
        if place.host != self.0.host {
            return Err(format!("this is host {}", self.0.host));
        }
        let port = self.0.port(&place.port)?;
        if port.dry {
            return Err(format!("port {} is dry in the agent's file: it has no device", port.name));
        }
        Ok(port)
    }
}

impl PortRules for AgentPorts {
    fn device(&self, location: &str) -> Result<TxDevice, String> {
        let port = self.port(location)?;
        let device = TxDevice::find(port.netns.as_deref(), port.device()).map_err(|why| why.to_string())?;
        if device.stack.carries_default_route(&device.link).unwrap_or(true) {
            let name = port.device();
            return Err(format!("{name} carries the default route of the host, which agents never send on"));
        }
        Ok(device)
    }

    fn check(&self, location: &str, flows: &[(usize, &FlowConfig)], speed: u64) -> Vec<String> {
        self.port(location).map_or_else(|why| vec![why], |port| limits::check_otg(port, flows, speed))
    }

    fn check_destination(&self, location: &str, to: IpAddr) -> Result<(), String> {
        limits::check_destination(self.port(location)?, (to, to))
    }

    /// A port with a highest rate is not sent on at any speed.
    fn sending(&self) -> SendRules {
        SendRules::default()
    }
}

/// A configuration of which this host has ports.
struct OtgSession {
    part: Arc<HostPorts>,
    ports: Vec<FleetName>,
    heard: Instant,
    lease: Duration,
    /// Its ports are free soon.
    is_ending: bool,
}

/// All of them, by the name of their controller's run.
pub(super) struct OtgSessions {
    file: Arc<AgentFile>,
    console: Console,
    answerer: Answerer,
    sessions: BTreeMap<FleetName, OtgSession>,
    /// Gets the name of each that has ended.
    ended: UnboundedSender<FleetName>,
}

impl OtgSessions {
    pub(super) fn new(
        file: Arc<AgentFile>,
        console: &Console,
        answerer: Answerer,
        ended: UnboundedSender<FleetName>,
    ) -> Self {
        Self { file, console: console.clone(), answerer, sessions: BTreeMap::new(), ended }
    }

    /// True if a run has ports.
    pub(super) fn has(&self, run: &FleetName) -> bool {
        self.sessions.contains_key(run)
    }

    /// The run that has a port, and whether it is ending.
    pub(super) fn owner(&self, port: &FleetName) -> Option<(&FleetName, bool)> {
        let owner = self.sessions.iter().find(|(_, session)| session.ports.contains(port));
        owner.map(|(run, session)| (run, session.is_ending))
    }

    /// Ports and the runs that have them.
    pub(super) fn busy(&self) -> impl Iterator<Item = (FleetName, FleetName)> {
        let ports = |(run, session): (&FleetName, &OtgSession)| -> Vec<(FleetName, FleetName)> {
            session.ports.iter().map(|port| (port.clone(), run.clone())).collect()
        };
        self.sessions.iter().flat_map(ports)
    }

    /// The controller of a run lives.
    pub(super) fn hear(&mut self, run: &FleetName) {
        if let Some(session) = self.sessions.get_mut(run) {
            session.heard = Instant::now();
        }
    }

    /// The ports of a run that has ended are free.
    pub(super) fn forget(&mut self, run: &FleetName) {
        self.sessions.remove(run);
    }

    /// Ends the runs whose lease has ended.
    pub(super) fn end_orphans(&mut self) {
        for (run, session) in &mut self.sessions {
            if session.is_ending || session.heard.elapsed() < session.lease {
                continue;
            }
            session.is_ending = true;
            let seconds = session.lease.as_secs();
            program::note!("run {run}: no controller for {seconds} s: its flows end, its ports are free");
            let (part, run, ended) = (Arc::clone(&session.part), run.clone(), self.ended.clone());
            spawn_blocking(move || {
                part.carry_out(OtgOrder::Release);
                // The agent may have ended.
                let _ = ended.send(run);
            });
        }
    }

    /// Ends all.
    pub(super) async fn end(self) {
        for session in self.sessions.into_values() {
            // A panic was printed.
            let _ = spawn_blocking(move || session.part.carry_out(OtgOrder::Release)).await;
        }
    }

    /// The ports of this host that a part names.
    fn ports_of(&self, part: &OtgPart) -> Result<Vec<FleetName>, String> {
        let rules = AgentPorts(Arc::clone(&self.file));
        let port = |index: &u32| {
            let location = part.config["ports"][*index as usize]["location"].as_str().unwrap_or_default();
            let port = rules.port(location).map(|port| port.name.clone());
            port.map_err(|why| format!("ports[{index}].location: {why}"))
        };
        part.ports.iter().map(port).collect()
    }

    /// Refuses an order.
    pub(super) fn refuse(&self, request: HubRequest, request_ns: u64, kind: RefusalKind, why: String) {
        let refused = OtgResult::Refused { kind, errors: vec![why] };
        self.answer(request, request_ns, ready(refused), None);
    }

    /// Carries out an order and answers. `obstacle` says why a run may not have a port.
    pub(super) fn request(
        &mut self,
        request: HubRequest,
        otg: OtgRequest,
        request_ns: u64,
        obstacle: impl Fn(&FleetName) -> Option<String>,
    ) {
        let OtgRequest { run, lease_ms, order } = otg;
        let is_release = order == OtgOrder::Release;
        let part = match self.part(&run, lease_ms, &order, obstacle) {
            Ok(part) => part,
            Err(refused) => return self.answer(request, request_ns, ready(refused), None),
        };
        let order = match order {
            OtgOrder::Go { start_at_ns } => {
                let to_host = |unix_ns| self.answerer.clock.to_host(unix_ns).unix_ns;
                OtgOrder::Go { start_at_ns: start_at_ns.map(to_host) }
            }
            order => order,
        };
        let carried_out = async move {
            let lost = |_| OtgResult::Refused {
                kind: RefusalKind::Host,
                errors: vec!["the thread of the order ended".to_owned()],
            };
            spawn_blocking(move || part.carry_out(order)).await.unwrap_or_else(lost)
        };
        self.answer(request, request_ns, carried_out, is_release.then_some(run));
    }

    /// What carries out an order.
    fn part(
        &mut self,
        run: &FleetName,
        lease_ms: u64,
        order: &OtgOrder,
        obstacle: impl Fn(&FleetName) -> Option<String>,
    ) -> Result<Arc<HostPorts>, OtgResult> {
        let refused = |kind, why: String| OtgResult::Refused { kind, errors: vec![why] };
        let new = || {
            let rules = Box::new(AgentPorts(Arc::clone(&self.file)));
            Arc::new(HostPorts::new(rules, RunList::of(&self.console)))
        };
        let (OtgOrder::Check { part, .. } | OtgOrder::Set(part)) = order else {
            let gone = || match order {
                // It has let go what it had.
                OtgOrder::Release => OtgResult::Done { warnings: Vec::new() },
                _ => refused(
                    RefusalKind::Host,
                    format!(
                        "it has no ports for run {run}: its lease has ended, or the agent was started again; \
                         set the configuration again"
                    ),
                ),
            };
            let session = self.sessions.get_mut(run).filter(|session| !session.is_ending).ok_or_else(gone)?;
            session.heard = Instant::now();
            session.is_ending = *order == OtgOrder::Release;
            return Ok(Arc::clone(&session.part));
        };
        let ports = self.ports_of(part).map_err(|why| refused(RefusalKind::Invalid, why))?;
        if let Some(why) = ports.iter().find_map(obstacle) {
            return Err(refused(RefusalKind::Host, why));
        }
        let part = self.sessions.get(run).map_or_else(new, |session| Arc::clone(&session.part));
        if matches!(order, OtgOrder::Set(_)) {
            let (heard, lease) = (Instant::now(), Duration::from_millis(lease_ms));
            let session = OtgSession { part: Arc::clone(&part), ports, heard, lease, is_ending: false };
            self.sessions.insert(run.clone(), session);
        }
        Ok(part)
    }

    /// Answers once an order was carried out. `ends` is a run that it ends.
    fn answer(
        &self,
        request: HubRequest,
        request_ns: u64,
        carried_out: impl Future<Output = OtgResult> + Send + 'static,
        ends: Option<FleetName>,
    ) {
        let (answerer, ended) = (self.answerer.clone(), self.ended.clone());
        tokio::spawn(async move {
            let result = carried_out.await;
            // The ports are free before the controller knows.
            ends.into_iter().for_each(|run| drop(ended.send(run)));
            let why = match &result {
                OtgResult::Refused { errors, .. } => Some((errors.join("; "), Vec::new())),
                _ => None,
            };
            let answer = answerer.answer(request_ns, why, AnswerState::Armed);
            let _ = request.answer(&OtgAnswer { answer, result }).await;
        });
    }
}
