//! The calls of the API: orders to the hosts that have the ports of the configuration, and their
//! answers. A single host is a fleet of one without a hub.
//!
//! One lock is held while a call changes something, another while the state is read or written. So
//! metrics are answered while a stop waits for the last frames. Each host carries out its part
//! ([`super::host_ports`]).

use super::host_ports::{HostPorts, lock};
use super::hosts::{HostAnswer, HostFault, HostPlace, Hosts, LEASE, all_done, said_by};
use super::location::LocalPorts;
use super::placed_config::{ByHost, PlacedConfig, PlacedHost, whole_path};
use super::state::NOTHING_IN_FORCE;
use super::tagged::{egress_ports, egress_row, has_values, without_values};
use fleet::{
    FleetName, FlowReading, Order, OrderResult, Part, PortPing, PortReading, Readiness, RefusalKind,
    StartPolicy, TagReading, TagReadings,
};
use host::realtime_ns;
use otg::metrics::{FlowMetricsRow, FlowState, MetricsTable};
use otg::{
    ControlRequest, Copies, MetricsQuery, OtgConfig, PingRequest, RequestRefusal, TaggedQuery, TransmitState,
    edit,
};
use program::advice;
use program::seed::fresh_seed;
use program::start_at::host_clock;
use serde_json::{Value, json};
use server::{ApiBackend, ApiError, ApiReply, ErrorKind, Operation};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
use units::human_duration;

/// Clients of all versions with this major version fit.
const API_VERSIONS: &str = "^1.0.0";
/// Interval at which counts of this host are read while a call waits for frames: they have no
/// event.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The same for counts of agents.
const FLEET_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the answer of an agent that reads counts, or lets its ports go.
const READ_MAX: Duration = Duration::from_secs(3);
/// Time for an answer to other orders: runs take up to 10 s to end on a starved machine.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Engines of many flows take this long to build on a busy machine.
const ARM_MAX: Duration = Duration::from_secs(75);
/// Flows whose counts are in one answer: they fit into a message of 1 MiB.
const FLOWS_OF_ANSWER: usize = 1000;
/// Longest file of a host: its captures have at most 64 MiB of frames.
const FILE_LEN_MAX: usize = 256 << 20;
/// Flows that a sentence names.
const NAMED_MAX: usize = 8;
/// Any clock will do; what it means for latencies is decided with the configuration.
const POLICY: StartPolicy = StartPolicy { at_least: None, clock_bound_ns: None };

/// The controller of a configuration.
pub(super) struct OtgController {
    hosts: Hosts,
    ports: LocalPorts,
    /// Held by calls that change something.
    change: Mutex<()>,
    placed: Mutex<PlacedConfig>,
    /// The program ends: nothing waits for frames any more.
    is_closing: AtomicBool,
}

/// Readings of flows and ports by index, and hosts that could not be read.
#[derive(Default)]
struct Readings {
    flows: HashMap<usize, FlowReading>,
    ports: HashMap<usize, PortReading>,
    faults: BTreeMap<usize, HostFault>,
}

/// Counts by values of flows and of all frames of ports, by index.
#[derive(Default)]
struct TaggedCounts {
    flows: HashMap<usize, Vec<TagReading>>,
    ports: HashMap<usize, Vec<TagReading>>,
}

fn refused(refusal: RequestRefusal) -> ApiError {
    match refusal {
        RequestRefusal::Invalid(errors) => invalid(errors),
        RequestRefusal::Unsupported(error) => ApiError::unsupported(error),
    }
}

fn warned(warnings: Vec<String>) -> ApiReply {
    ApiReply::Json(json!({"warnings": warnings}))
}

/// The version of the API, and that of wirerate.
fn version() -> ApiReply {
    ApiReply::Json(json!({
        "api_spec_version": API_VERSIONS,
        "sdk_version": "",
        "app_version": concat!("wirerate ", env!("CARGO_PKG_VERSION")),
    }))
}

fn invalid(errors: Vec<String>) -> ApiError {
    ApiError { kind: ErrorKind::Invalid, errors }
}

fn internal(errors: Vec<String>) -> ApiError {
    ApiError { kind: ErrorKind::Internal, errors }
}

impl ApiBackend for OtgController {
    fn call(&self, operation: Operation, body: Value) -> Result<ApiReply, ApiError> {
        let changes =
            |edit: fn(&Value, &Value) -> Result<Value, RequestRefusal>| self.change_config(&body, edit);
        match operation {
            Operation::SetConfig => self.set_config(body).map(warned),
            Operation::GetConfig => Ok(ApiReply::Json(self.placed().as_set())),
            Operation::UpdateConfig => changes(edit::update),
            Operation::AppendConfig => changes(edit::append),
            Operation::DeleteConfig => changes(edit::delete),
            Operation::SetControlState => self.control(&body).map(warned),
            Operation::SetControlAction => self.ping(&body),
            Operation::GetMetrics => self.metrics(&body),
            Operation::GetStates => self.states(&body),
            Operation::GetCapture => self.captured(&body),
            Operation::GetVersion => Ok(version()),
        }
    }
}

impl OtgController {
    /// Nothing is in force. `ports` are those of this host.
    pub(super) fn new(hosts: Hosts, ports: LocalPorts) -> Self {
        let placed = PlacedConfig::none(fresh_seed() as u16);
        let is_closing = AtomicBool::new(false);
        Self { hosts, ports, change: Mutex::default(), placed: Mutex::new(placed), is_closing }
    }

    /// Ends the traffic of this host at once, also while a call changes something. No flow starts
    /// here after it. That of a fleet ends with its ports.
    pub(super) fn close(&self) {
        self.is_closing.store(true, SeqCst);
        self.hosts.here.close();
    }

    /// What is in force.
    pub(super) fn placed(&self) -> MutexGuard<'_, PlacedConfig> {
        lock(&self.placed)
    }

    /// The ports of this host.
    pub(super) fn here(&self) -> &HostPorts {
        &self.hosts.here
    }

    /// Ends all flows and releases the ports of all hosts.
    pub(super) fn release(&self) {
        let _change = lock(&self.change);
        let placed = self.placed().take();
        self.release_hosts(placed.hosts.iter().map(|host| host.place.clone()));
    }

    /// A host that does not answer lets its ports go when its lease ends: nothing waits for it.
    fn release_hosts(&self, places: impl Iterator<Item = HostPlace>) {
        self.hosts.ask(places.map(|place| (place, Order::Release)).collect(), READ_MAX);
    }

    /// Gives an order to each of these hosts. Returns warnings.
    fn order<T>(
        &self,
        hosts: &[PlacedHost],
        of_hosts: ByHost<T>,
        timeout: Duration,
        order: impl Fn(Vec<T>) -> Order,
    ) -> Result<Vec<String>, ApiError> {
        let place = |host: usize| hosts[host].place.clone();
        let places: Vec<HostPlace> = of_hosts.keys().map(|host| place(*host)).collect();
        let orders = of_hosts.into_iter().map(|(host, items)| (place(host), order(items))).collect();
        let answers = self.hosts.ask(orders, timeout);
        done(hosts, places.into_iter().zip(answers))
    }

    /// The host of each port that has a location.
    fn places(&self, config: &OtgConfig) -> Result<Vec<Option<HostPlace>>, ApiError> {
        let (mut places, mut errors) = (Vec::new(), Vec::new());
        for (at, port) in config.ports.iter().enumerate() {
            let place = match &port.location[..] {
                "" => Ok(None),
                location if self.ports.maps(location) => Ok(Some(HostPlace::Here)),
                location => self.hosts.place_of(location).map(Some),
            };
            match place {
                Ok(place) => places.push(place),
                Err(why) => errors.push(format!("ports[{at}].location: {why}")),
            }
        }
        if errors.is_empty() { Ok(places) } else { Err(invalid(errors)) }
    }

    /// Checks a configuration on all of its hosts. Nothing changes. `seed` is that of
    /// [`OtgConfig::read`]; `is_change`: it has the ports of the one in force. Returns warnings.
    fn check(
        &self,
        json: Value,
        seed: u64,
        is_change: bool,
    ) -> Result<(PlacedConfig, Vec<String>), ApiError> {
        let (config, mut warnings) = OtgConfig::read(&json, seed).map_err(invalid)?;
        let places = self.places(&config)?;
        let without = places.iter().enumerate().filter(|(_, place)| place.is_none());
        warnings
            .extend(without.map(|(port, _)| {
                format!("ports[{port}].location: is empty: no flow of this port can start")
            }));
        let mark = self.placed().mark.wrapping_add(1);
        let placed = PlacedConfig::new(json, config, &places, (mark, seed), self.ports.drain);
        let check = |host: &PlacedHost| Order::Check { part: Part::Config(placed.part_of(host)), is_change };
        let orders = placed.hosts.iter().map(|host| (host.place.clone(), check(host)));
        let answers = self.hosts.ask(orders.collect(), ANSWER_MAX);
        let clocks: Vec<_> = answers.iter().map(HostAnswer::clock).collect();
        // What only the whole configuration tells was found here already.
        let places = placed.hosts.iter().map(|host| host.place.clone());
        let told = done(&placed.hosts, places.zip(answers))?;
        let is_new = |text: &String| !warnings.iter().any(|known| is_same(known, text));
        let told: Vec<String> = told.into_iter().filter(is_new).collect();
        warnings.extend(told);
        let (errors, of_clocks) = placed.clock_findings(&clocks);
        warnings.extend(of_clocks);
        if errors.is_empty() { Ok((placed, warnings)) } else { Err(invalid(errors)) }
    }

    /// Puts a configuration in force. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it; or a host refused.
    pub(super) fn set_config(&self, body: Value) -> Result<Vec<String>, ApiError> {
        let _change = lock(&self.change);
        let (new, warnings) = self.check(body, fresh_seed(), false)?;
        let mut placed = self.placed();
        let before = placed.take();
        let stays = |place: &HostPlace| new.hosts.iter().any(|host| host.place == *place);
        self.release_hosts(before.hosts.iter().map(|host| host.place.clone()).filter(|place| !stays(place)));
        self.put(&new, |part| Order::Prepare(Part::Config(part)))?;
        *placed = new;
        Ok(warnings)
    }

    /// Gives each host its part. If one refuses, nothing stays in force.
    fn put(&self, placed: &PlacedConfig, order: fn(fleet::OtgPart) -> Order) -> Result<(), ApiError> {
        let orders = placed.hosts.iter().map(|host| (host.place.clone(), order(placed.part_of(host))));
        let answers = self.hosts.ask(orders.collect(), ANSWER_MAX);
        let places = placed.hosts.iter().map(|host| host.place.clone());
        let put = done(&placed.hosts, places.zip(answers));
        put.map(drop).map_err(|mut error| {
            self.release_hosts(placed.hosts.iter().map(|host| host.place.clone()));
            error.errors.retain(|sentence| !sentence.ends_with(NOTHING_IN_FORCE));
            error.errors.push(NOTHING_IN_FORCE.to_owned());
            error
        })
    }

    fn change_config(
        &self,
        body: &Value,
        edit: fn(&Value, &Value) -> Result<Value, RequestRefusal>,
    ) -> Result<ApiReply, ApiError> {
        let _change = lock(&self.change);
        let (before, seed) = {
            let placed = self.placed();
            (placed.as_set(), placed.seed)
        };
        let json = edit(&before, body).map_err(refused)?;
        let (mut new, warnings) = self.check(json, seed, true)?;
        let mut placed = self.placed();
        new.continues(placed.take());
        self.put(&new, Order::Change)?;
        *placed = new;
        Ok(warned(warnings))
    }

    fn control(&self, body: &Value) -> Result<Vec<String>, ApiError> {
        let (_change, mut warnings) = match self.change.try_lock() {
            Ok(change) => (change, Vec::new()),
            // Flows that are to stop do not send on until the other call is over.
            Err(_) => {
                let warnings = self.end_at_once(body);
                (lock(&self.change), warnings)
            }
        };
        let control = self.placed().config.control(body).map_err(refused)?;
        warnings.extend(self.carry_out(control)?);
        Ok(warnings)
    }

    /// Ends flows that are to stop, while another call changes something. Returns why runs failed.
    fn end_at_once(&self, body: &Value) -> Vec<String> {
        let control = self.placed().config.control(body);
        let ended = match control {
            Ok(ControlRequest::Transmit(flows, TransmitState::Stop)) => self.end(&flows, false),
            Ok(ControlRequest::Transmit(flows, TransmitState::Pause)) => self.end(&flows, true),
            _ => Ok(Vec::new()),
        };
        // What a host refuses now, it refuses again.
        ended.unwrap_or_default()
    }

    fn carry_out(&self, control: ControlRequest) -> Result<Vec<String>, ApiError> {
        match control {
            ControlRequest::Transmit(flows, TransmitState::Start) => self.start(&flows),
            ControlRequest::Transmit(flows, TransmitState::Stop) => self.stop(&flows, false),
            ControlRequest::Transmit(flows, TransmitState::Pause) => self.stop(&flows, true),
            ControlRequest::Transmit(flows, TransmitState::Resume) => self.resume(&flows),
            ControlRequest::Capture(ports, starts) => {
                self.order_ports(&ports, |ports| Order::Capture { ports, starts })
            }
            ControlRequest::Link(ports, up) => self.order_ports(&ports, |ports| Order::Link { ports, up }),
            ControlRequest::Protocols => Ok(Vec::new()),
        }
    }

    fn order_ports(
        &self,
        ports: &[usize],
        order: impl Fn(Vec<u32>) -> Order,
    ) -> Result<Vec<String>, ApiError> {
        let (hosts, ports) = {
            let placed = self.placed();
            (Arc::clone(&placed.hosts), placed.ports_by_host(ports).map_err(ApiError::invalid)?)
        };
        self.order(&hosts, ports, ANSWER_MAX, order)
    }

    /// Starts flows from frame 0. Returns warnings.
    ///
    /// # Errors
    /// Ports without a location, gateways that do not answer, and runs that failed.
    pub(super) fn start(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        let anew: Vec<(usize, bool)> = flows.iter().map(|flow| (*flow, true)).collect();
        let is_all = anew.len() == self.placed().flows.len();
        self.begin(&anew, is_all)
    }

    fn resume(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        self.settle(flows)?;
        let resting: Vec<(usize, bool)> = {
            let placed = self.placed();
            let flow = |flow: &usize| (*flow, !placed.flows[*flow].progress.is_paused());
            let rests = |flow: &&usize| !placed.flows[**flow].progress.is_sending();
            flows.iter().filter(rests).map(flow).collect()
        };
        self.begin(&resting, false)
    }

    /// Starts flows on all hosts at one time: `true` from frame 0, the others go on. Nothing is
    /// sent unless all hosts agree.
    fn begin(&self, flows: &[(usize, bool)], clears_ports: bool) -> Result<Vec<String>, ApiError> {
        if flows.is_empty() {
            return Ok(Vec::new());
        }
        let indexes: Vec<usize> = flows.iter().map(|(flow, _)| *flow).collect();
        let (hosts, starts, senders) = {
            let mut placed = self.placed();
            let unconnected = placed.unconnected(&indexes);
            if !unconnected.is_empty() {
                return Err(invalid(unconnected));
            }
            let mut starts = placed.number(flows).map_err(ApiError::internal)?;
            if clears_ports {
                for host in 0..placed.hosts.len() {
                    starts.entry(host).or_default();
                }
            }
            (Arc::clone(&placed.hosts), starts, placed.senders_of(&indexes))
        };
        let armed = self.arm(&hosts, starts, flows.len() as u32, clears_ports);
        let start_at_ns = armed.inspect_err(|_| drop(self.call_off(&hosts, senders.clone())))?;
        let left = || Duration::from_nanos(start_at_ns.unwrap_or(0).saturating_sub(realtime_ns()));
        let places: Vec<HostPlace> = senders.keys().map(|host| hosts[*host].place.clone()).collect();
        let agreed = self.hosts.go(&places, start_at_ns);
        if let Err(mut error) = done(&hosts, places.into_iter().zip(agreed)) {
            let silent = self.call_off(&hosts, senders);
            let lease = human_duration(LEASE.as_nanos() as u64);
            if hosts.iter().any(|host| host.place != HostPlace::Here) {
                error.errors.push("not started: all hosts were told to end the flows".to_owned());
            }
            error.errors.extend(silent.iter().map(|host| {
                format!(
                    "{host} has not answered: if it has started, it sends until its lease of {lease} ends"
                )
            }));
            return Err(error);
        }
        thread::sleep(left());
        let started = self.order(&hosts, senders, ANSWER_MAX, |flows| Order::AwaitStart { flows });
        let mut placed = self.placed();
        let readings = self.read(&placed, &indexes, &[]);
        let now = Instant::now();
        for (flow, reading) in readings.flows {
            let (sent, received) = (reading.sent.frames, reading.arrived.frames);
            // A short run has ended by now; then its last frames are waited for.
            placed.flows[flow].progress.sends();
            placed.settle(flow, &reading, now);
            placed.flows[flow].progress.has_started(sent, received, now);
        }
        started
    }

    /// Builds the engines on all hosts. Returns the time to start at, in nanoseconds since 1970;
    /// `None` if only this host starts flows, which needs no time to agree.
    fn arm(
        &self,
        hosts: &[PlacedHost],
        starts: ByHost<fleet::FlowStart>,
        flow_count: u32,
        clears_ports: bool,
    ) -> Result<Option<u64>, ApiError> {
        let places: Vec<HostPlace> = starts.keys().map(|host| hosts[*host].place.clone()).collect();
        let arm = |flows| Order::Arm { flows, flow_count, clears_ports };
        let orders = places.iter().cloned().zip(starts.into_values().map(arm)).collect();
        let answers = self.hosts.ask(orders, ARM_MAX);
        let mut readiness = Readiness::default();
        for (place, answer) in places.iter().zip(&answers) {
            if let (HostPlace::Agent(host), Some(answered), Ok(_)) = (place, &answer.answered, &answer.result)
            {
                readiness.hear(host, Ok(answered.clone()), host_clock(), &POLICY);
            }
        }
        let is_alone = places.iter().all(|place| *place == HostPlace::Here);
        done(hosts, places.into_iter().zip(answers))?;
        if is_alone {
            return Ok(None);
        }
        let of_clock = readiness.objections().iter().map(|objection| {
            let tries = advice::for_objection(objection).join("; ");
            format!("{}: {} (try: {tries})", objection.host, objection.why)
        });
        let errors: Vec<String> = of_clock.collect();
        if errors.is_empty() { Ok(Some(readiness.start_at_ns(realtime_ns()))) } else { Err(internal(errors)) }
    }

    /// Ends flows that are not to start. Returns the hosts that do not answer.
    fn call_off(&self, hosts: &[PlacedHost], senders: ByHost<u32>) -> Vec<HostPlace> {
        let places: Vec<HostPlace> = senders.keys().map(|host| hosts[*host].place.clone()).collect();
        let end = |flows| Order::Stop { flows, pauses: false };
        let orders = places.iter().cloned().zip(senders.into_values().map(end)).collect();
        let answers = self.hosts.ask(orders, ANSWER_MAX);
        let is_silent = |answer: &HostAnswer| answer.result.as_ref().is_err_and(|fault| fault.is_silent);
        let silent = places.into_iter().zip(answers).filter(|(_, answer)| is_silent(answer));
        silent.map(|(place, _)| place).collect()
    }

    /// Ends flows on all hosts. Returns why runs failed, or were slow.
    fn end(&self, flows: &[usize], pauses: bool) -> Result<Vec<String>, ApiError> {
        let (hosts, senders) = {
            let placed = self.placed();
            (Arc::clone(&placed.hosts), placed.senders_of(flows))
        };
        self.order(&hosts, senders, ANSWER_MAX, |flows| Order::Stop { flows, pauses })
    }

    /// Ends flows and waits for their last frames. Returns why runs failed, or were slow.
    ///
    /// # Errors
    /// A host does not answer, or cannot do it.
    pub(super) fn stop(&self, flows: &[usize], pauses: bool) -> Result<Vec<String>, ApiError> {
        let ended = self.end(flows, pauses);
        let has_agents = self.placed().hosts.iter().any(|host| host.place != HostPlace::Here);
        let interval = if has_agents { FLEET_POLL_INTERVAL } else { POLL_INTERVAL };
        // A host that cannot end its flows says why; the others have no more frames to wait for.
        while !self.is_closing.load(SeqCst)
            && self.settle(flows).or_else(|error| if ended.is_ok() { Err(error) } else { Ok(false) })?
        {
            thread::sleep(interval);
        }
        let mut warnings = ended?;
        warnings.extend(self.without_values(flows)?);
        Ok(warnings)
    }

    /// A sentence for each of these flows that has frames without a row of values.
    fn without_values(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        let placed = self.placed();
        let of_values = |flow: &usize| has_values(&placed.config.flows[*flow]);
        let flows: Vec<usize> = flows.iter().copied().filter(of_values).collect();
        // Before the values are read: a frame that arrives meanwhile is not missing.
        let readings = self.read(&placed, &flows, &[]);
        let tagged = self.read_tags(&placed, &flows, &[])?;
        let sentence = |(flow, reading): (&usize, &FlowReading)| {
            let tagged = tagged.flows.get(flow).map_or(&[][..], Vec::as_slice);
            without_values(&placed.config.flows[*flow], reading.arrived.frames, tagged)
        };
        Ok(readings.flows.iter().filter_map(sentence).collect())
    }

    /// Reads flows. True while one is sent, or its last frames are waited for.
    ///
    /// # Errors
    /// No flow is sent as far as is known, and a host could not be read.
    pub(super) fn settle(&self, flows: &[usize]) -> Result<bool, ApiError> {
        let mut placed = self.placed();
        let readings = self.read(&placed, flows, &[]);
        let now = Instant::now();
        let mut is_started = false;
        for (flow, reading) in &readings.flows {
            is_started |= placed.settle(*flow, reading, now) == FlowState::Started;
        }
        match readings.faults.is_empty() || is_started {
            true => Ok(is_started),
            false => Err(unavailable(&placed, flows, &readings)),
        }
    }

    /// Reads the counts of flows and ports on their hosts. A flow of a host that could not be read
    /// has no reading.
    fn read(&self, placed: &PlacedConfig, flows: &[usize], ports: &[usize]) -> Readings {
        let none = |flow: &usize| (*flow, FlowReading::default());
        let mut readings = Readings { flows: flows.iter().map(none).collect(), ..Readings::default() };
        readings.ports.extend(ports.iter().map(|port| (*port, PortReading::default())));
        let mut orders: Vec<(usize, Vec<usize>, Vec<usize>)> = Vec::new();
        for host in 0..placed.hosts.len() {
            let here = |flow: &&usize| placed.flows[**flow].index_at(host).is_some();
            let flows: Vec<usize> = flows.iter().filter(here).copied().collect();
            let ports: Vec<usize> = ports.iter().filter(|port| placed.is_at(**port, host)).copied().collect();
            orders.extend(flows.chunks(FLOWS_OF_ANSWER).map(|flows| (host, flows.to_vec(), Vec::new())));
            if !ports.is_empty() {
                orders.push((host, Vec::new(), ports));
            }
        }
        let order = |(host, flows, ports): &(usize, Vec<usize>, Vec<usize>)| {
            let flows = flows.iter().filter_map(|flow| placed.flows[*flow].index_at(*host)).collect();
            let ports = ports.iter().filter_map(|port| Some(placed.port_at(*port)?.1)).collect();
            (placed.hosts[*host].place.clone(), Order::Read { flows, ports })
        };
        let answers = self.hosts.ask(orders.iter().map(order).collect(), READ_MAX);
        for ((host, flows, ports), answer) in orders.into_iter().zip(answers) {
            match answer.result {
                Ok(OrderResult::Readings { flows: of_flows, ports: of_ports })
                    if (of_flows.len(), of_ports.len()) == (flows.len(), ports.len()) =>
                {
                    for (flow, reading) in flows.into_iter().zip(of_flows) {
                        readings.flows.entry(flow).or_default().add(&reading);
                    }
                    readings.ports.extend(ports.into_iter().zip(of_ports));
                }
                Ok(_) => {
                    let errors = vec!["the answer has no counts".to_owned()];
                    readings
                        .faults
                        .insert(host, HostFault { kind: RefusalKind::Host, is_silent: false, errors });
                }
                Err(fault) => drop(readings.faults.insert(host, fault)),
            }
        }
        let faulty: Vec<usize> = readings.faults.keys().copied().collect();
        let is_known = |flow: usize| !faulty.iter().any(|host| placed.flows[flow].index_at(*host).is_some());
        readings.flows.retain(|flow, _| is_known(*flow));
        for (flow, reading) in &mut readings.flows {
            // Copies of a frame do not say how many were sent.
            if placed.config.flows[*flow].metrics.copies == Copies::default() {
                *reading = reading.settled();
            }
        }
        readings
    }

    /// Reads the counts by values of the flows that have tags, and of all frames of ports. Ports in
    /// the readings are indexes into the whole configuration.
    fn read_tags(
        &self,
        placed: &PlacedConfig,
        flows: &[usize],
        ports: &[usize],
    ) -> Result<TaggedCounts, ApiError> {
        let flows: BTreeSet<usize> =
            flows.iter().copied().filter(|flow| placed.config.flows[*flow].has_tags()).collect();
        let mut counts = TaggedCounts::default();
        for (at, host) in placed.hosts.iter().enumerate() {
            let own = |flow: &usize| Some((*flow, placed.flows[*flow].index_at(at)?));
            let of_flows: Vec<(usize, u32)> = flows.iter().filter_map(own).collect();
            let own = |port: &usize| placed.port_at(*port).filter(|(host, _)| *host == at);
            let of_ports: Vec<(usize, u32)> =
                ports.iter().filter_map(|port| Some((*port, own(port)?.1))).collect();
            if of_flows.is_empty() && of_ports.is_empty() {
                continue;
            }
            let indexes =
                |pairs: &[(usize, u32)]| pairs.iter().map(|(_, index)| *index).collect::<Vec<u32>>();
            let bytes = self.read_pieces(&host.place, READ_MAX, |offset| Order::ReadTags {
                flows: indexes(&of_flows),
                ports: indexes(&of_ports),
                offset,
            })?;
            let place = |mut reading: TagReading| {
                let port = host.part.ports.get(reading.port as usize)?;
                reading.port = *port as u32;
                Some(reading)
            };
            let places =
                |readings: Vec<TagReading>| readings.into_iter().map(place).collect::<Option<Vec<_>>>();
            let all = |lists: Vec<Vec<TagReading>>| lists.into_iter().map(places).collect::<Option<Vec<_>>>();
            let readings: Option<TagReadings> = serde_json::from_slice(&bytes).ok();
            let readings = readings.and_then(|TagReadings { flows, ports }| Some((all(flows)?, all(ports)?)));
            let readings = readings
                .filter(|(flows, ports)| (flows.len(), ports.len()) == (of_flows.len(), of_ports.len()));
            let Some((flow_readings, port_readings)) = readings else {
                return Err(ApiError::internal(format!("{}: the answer has no counts", host.place)));
            };
            for ((flow, _), readings) in of_flows.iter().zip(flow_readings) {
                counts.flows.entry(*flow).or_default().extend(readings);
            }
            counts.ports.extend(of_ports.iter().map(|(port, _)| *port).zip(port_readings));
        }
        Ok(counts)
    }

    /// Reads a file of a host, piece by piece. `order` asks for the piece from a byte on.
    fn read_pieces(
        &self,
        place: &HostPlace,
        timeout: Duration,
        order: impl Fn(u64) -> Order,
    ) -> Result<Vec<u8>, ApiError> {
        let mut file = Vec::new();
        loop {
            let answers = self.hosts.ask(vec![(place.clone(), order(file.len() as u64))], timeout);
            let answer = answers.into_iter().next().expect("one order has one answer");
            match answer.result {
                Ok(OrderResult::Piece { bytes, is_last }) => {
                    let is_endless = !is_last && bytes.0.is_empty();
                    if is_endless || file.len() + bytes.0.len() > FILE_LEN_MAX {
                        return Err(ApiError::internal(format!("{place}: the answer has no end")));
                    }
                    file.extend(bytes.0);
                    if is_last {
                        return Ok(file);
                    }
                }
                Ok(_) => return Err(ApiError::internal(format!("{place}: the answer has no bytes"))),
                Err(_) => done(&[], [(place.clone(), answer)]).map(drop)?,
            }
        }
    }

    fn metrics(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let mut placed = self.placed();
        let table = match placed.config.metrics_query(body).map_err(refused)? {
            MetricsQuery::Ports(ports, columns) => {
                let readings = self.known(&placed, &[], &ports)?;
                let row = |port| placed.port_row(port, &readings.ports[&port]);
                MetricsTable::of_ports(ports.into_iter().map(row).collect(), columns)
            }
            MetricsQuery::Flows(flows, columns, query) => {
                MetricsTable::of_flows(self.flow_rows(&mut placed, &flows, &query)?, columns)
            }
            MetricsQuery::Egress(egress, columns) => {
                let ports = egress_ports(&placed.config, &egress);
                let tagged = self.read_tags(&placed, &[], &ports)?;
                let row = |(egress, port): (usize, &usize)| {
                    let readings = tagged.ports.get(port).map_or(&[][..], Vec::as_slice);
                    egress_row(&placed.config.egress[egress], &columns, readings)
                };
                MetricsTable::of_egress(egress.into_iter().zip(&ports).map(row).collect())
            }
        };
        Ok(ApiReply::Metrics(table))
    }

    /// The rows of flows, with the rows of values that `query` asks for.
    ///
    /// # Errors
    /// The counts of a host are not known.
    pub(super) fn flow_rows(
        &self,
        placed: &mut PlacedConfig,
        flows: &[usize],
        query: &TaggedQuery,
    ) -> Result<Vec<FlowMetricsRow>, ApiError> {
        let asked = if query.include { flows } else { &[] };
        let mut tagged = self.read_tags(placed, asked, &[])?;
        let readings = self.known(placed, flows, &[])?;
        let now = Instant::now();
        // The values of a flow that is stopped are final.
        let has_ended = |flow: &usize| placed.has_ended(*flow, &readings.flows[flow], now);
        let ended: Vec<usize> = flows.iter().copied().filter(has_ended).collect();
        if query.include {
            tagged.flows.extend(self.read_tags(placed, &ended, &[])?.flows);
        }
        let row = |flow: &usize| {
            let tagged = tagged.flows.get(flow).map_or(&[][..], Vec::as_slice);
            placed.flow_row(*flow, &readings.flows[flow], (query, tagged), now)
        };
        Ok(flows.iter().map(row).collect())
    }

    /// The counts of flows and ports.
    ///
    /// # Errors
    /// Those of a host are not known.
    fn known(&self, placed: &PlacedConfig, flows: &[usize], ports: &[usize]) -> Result<Readings, ApiError> {
        let readings = self.read(placed, flows, ports);
        if readings.faults.is_empty() { Ok(readings) } else { Err(unavailable(placed, flows, &readings)) }
    }

    fn states(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let placed = self.placed();
        let ports: BTreeSet<&str> =
            placed.config.interfaces.iter().map(|interface| &interface.port[..]).collect();
        let has_interface = |port: &usize| ports.contains(&placed.config.ports[*port].name[..]);
        let hosts = placed.hosts.iter().filter(|host| host.part.ports.iter().any(has_interface));
        let places: Vec<HostPlace> = hosts.map(|host| host.place.clone()).collect();
        let orders = places.iter().cloned().map(|place| (place, Order::Neighbours)).collect();
        let mut macs: HashMap<String, [u8; 6]> = HashMap::new();
        let mut left = Vec::new();
        for (place, answer) in places.into_iter().zip(self.hosts.ask(orders, READ_MAX)) {
            match answer.result {
                Ok(OrderResult::Neighbours(known)) => macs.extend(known),
                _ => left.push((place, answer)),
            }
        }
        done(&placed.hosts, left)?;
        let states = placed.config.states(body, |interface| macs.get(&interface.name).copied());
        states.map(ApiReply::Json).map_err(refused)
    }

    fn captured(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let _change = lock(&self.change);
        let (query, place, port) = {
            let placed = self.placed();
            let query = placed.config.capture_query(body).map_err(refused)?;
            let (host, port) = placed.host_of(query.port).map_err(ApiError::invalid)?;
            (query, placed.hosts[host].place.clone(), port)
        };
        let slice = query.slice.map(|(first, count)| (first as u64, count as u64));
        let file =
            self.read_pieces(&place, ANSWER_MAX, |offset| Order::ReadCapture { port, slice, offset })?;
        Ok(ApiReply::Bytes(file))
    }

    /// Pings from emulated interfaces, all at once.
    fn ping(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let (requests, hosts, by_host) = {
            let placed = self.placed();
            let requests = placed.config.pings(body).map_err(refused)?;
            let mut by_host: ByHost<usize> = BTreeMap::new();
            for (number, ping) in requests.pings.iter().enumerate() {
                let port = placed.config.ports.iter().position(|port| port.name == ping.port);
                let port = port.expect("the configuration was checked");
                by_host.entry(placed.host_of(port).map_err(ApiError::invalid)?.0).or_default().push(number);
            }
            (requests, Arc::clone(&placed.hosts), by_host)
        };
        let ping = |number: &usize| {
            let PingRequest { interface, port, to } = requests.pings[*number].clone();
            PortPing { interface, port, to }
        };
        let order = |(host, numbers): (&usize, &Vec<usize>)| {
            (hosts[*host].place.clone(), Order::Ping { pings: numbers.iter().map(ping).collect() })
        };
        let answers = self.hosts.ask(by_host.iter().map(order).collect(), ANSWER_MAX);
        let mut is_answered = vec![false; requests.pings.len()];
        let mut left = Vec::new();
        for ((host, numbers), answer) in by_host.iter().zip(answers) {
            match answer.result {
                Ok(OrderResult::Pings(answered)) if answered.len() == numbers.len() => {
                    numbers.iter().zip(answered).for_each(|(number, one)| is_answered[*number] = one);
                }
                Ok(_) => {
                    let place = &hosts[*host].place;
                    return Err(ApiError::internal(format!("{place}: the answer has no pings")));
                }
                Err(_) => left.push((hosts[*host].place.clone(), answer)),
            }
        }
        done(&hosts, left)?;
        Ok(ApiReply::Json(requests.response(&is_answered)))
    }
}

/// Warnings of orders that were all carried out.
fn done(
    hosts: &[PlacedHost],
    answers: impl IntoIterator<Item = (HostPlace, HostAnswer)>,
) -> Result<Vec<String>, ApiError> {
    let told = all_done(answers, |place, text| whole_path(hosts, place, text));
    told.map_err(|(kind, errors)| {
        let kind = match kind {
            RefusalKind::Invalid => ErrorKind::Invalid,
            RefusalKind::Unsupported => ErrorKind::Unsupported,
            RefusalKind::Conflict => ErrorKind::Conflict,
            RefusalKind::Host => ErrorKind::Internal,
        };
        ApiError { kind, errors }
    })
}

/// Which counts are not known, and why: an error, since a row without counts would have zeros.
fn unavailable(placed: &PlacedConfig, flows: &[usize], readings: &Readings) -> ApiError {
    let sentence = |(host, fault): (&usize, &HostFault)| {
        let names = placed.names_at(flows, *host);
        let more = names.len().saturating_sub(NAMED_MAX);
        let mut named = names[..names.len() - more].join(", ");
        if more > 0 {
            named = format!("{named} and {more} more");
        }
        let what = match names.len() {
            0 => "the counts of its ports".to_owned(),
            1 => format!("the counts of flow {named}"),
            _ => format!("the counts of flows {named}"),
        };
        let why = fault.errors.join("; ");
        said_by(&placed.hosts[*host].place, format!("{why}; {what} are not known"))
    };
    internal(readings.faults.iter().map(sentence).collect())
}

/// True if a host gives a warning that is known.
fn is_same(known: &str, told: &str) -> bool {
    let (path, rest) = known.split_once(": ").unwrap_or(("", known));
    told == known || (told.starts_with(path) && told.ends_with(&format!(": {rest}")))
}

/// The name of the controller's use of ports, as that of a run.
pub(super) fn run_name(now_ns: u64) -> FleetName {
    let name = format!("otg{:x}", now_ns / 1_000_000);
    name.parse().expect("letters and hexadecimal digits are a name")
}
