//! The calls of the API on a configuration whose ports are on several hosts.
//!
//! One lock is held while a call changes something, another while the state is read or written, as
//! on one host. Each host carries out its part ([`super::part`]).

use super::backend::{lock, refused, version, warned};
use super::hosts::{FleetHosts, HostAnswer, HostFault, HostPlace, all_done, said_by};
use super::joint::{ByHost, JointConfig, JointHost, whole_path};
use super::location::LocalPorts;
use super::state::NOTHING_IN_FORCE;
use super::tagged::{egress_ports, egress_row, has_values, without_values};
use fleet::{
    FleetName, FlowReading, OtgOrder, OtgResult, PortPing, PortReading, Readiness, StartPolicy, TagReading,
    TagReadings,
};
use host::realtime_ns;
use otg::metrics::{FlowState, MetricsTable};
use otg::{
    ControlRequest, Copies, MetricsQuery, OtgConfig, PingRequest, RequestRefusal, TransmitState, edit,
};
use program::advice;
use program::seed::fresh_seed;
use program::start_at::host_clock;
use serde_json::Value;
use server::{ApiBackend, ApiError, ApiReply, ErrorKind, Operation};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use units::human_duration;

/// Interval at which counts are read while a call waits for frames.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the answer of an agent that reads counts, or lets its ports go.
const READ_MAX: Duration = Duration::from_secs(3);
/// Time for an answer to other orders: runs take up to 10 s to end on a starved machine.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Engines of many flows take this long to build on a busy machine.
const ARM_MAX: Duration = Duration::from_secs(75);
/// All hosts must have agreed this long before the start.
const AGREED_BEFORE: Duration = Duration::from_millis(100);
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
    hosts: FleetHosts,
    ports: LocalPorts,
    /// Held by calls that change something.
    change: Mutex<()>,
    joint: Mutex<JointConfig>,
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
            Operation::GetConfig => Ok(ApiReply::Json(lock(&self.joint).as_set())),
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
    pub(super) fn new(hosts: FleetHosts, ports: LocalPorts) -> Self {
        Self { hosts, ports, change: Mutex::default(), joint: Mutex::default() }
    }

    /// Ends all flows and releases the ports of all hosts.
    pub(super) fn release(&self) {
        let _change = lock(&self.change);
        let joint = std::mem::take(&mut *lock(&self.joint));
        self.release_hosts(joint.hosts.iter().map(|host| host.place.clone()));
    }

    /// A host that does not answer lets its ports go when its lease ends: nothing waits for it.
    fn release_hosts(&self, places: impl Iterator<Item = HostPlace>) {
        self.hosts.ask(places.map(|place| (place, OtgOrder::Release)).collect(), READ_MAX);
    }

    /// Gives an order to each of these hosts. Returns warnings.
    fn order<T>(
        &self,
        hosts: &[JointHost],
        of_hosts: ByHost<T>,
        timeout: Duration,
        order: impl Fn(Vec<T>) -> OtgOrder,
    ) -> Result<Vec<String>, ApiError> {
        let place = |host: usize| hosts[host].place.clone();
        let places: Vec<HostPlace> = of_hosts.keys().map(|host| place(*host)).collect();
        let orders = of_hosts.into_iter().map(|(host, items)| (place(host), order(items))).collect();
        let answers = self.hosts.ask(orders, timeout);
        done(hosts, places.into_iter().zip(answers))
    }

    /// The host of each port.
    fn places(&self, config: &OtgConfig) -> Result<Vec<HostPlace>, ApiError> {
        let (mut places, mut errors) = (Vec::new(), Vec::new());
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (at, port) in config.ports.iter().enumerate() {
            let place = match self.ports.maps(&port.location) {
                true => Ok(HostPlace::Here),
                false => HostPlace::of(&port.location),
            };
            match place {
                Ok(place) => places.push(place),
                Err(why) => errors.push(format!("ports[{at}].location: {why}")),
            }
            if let Some(first) = first.insert(&port.location, at) {
                errors.push(format!(
                    "ports[{at}].location: ports[{first}] has the location {} too",
                    port.location
                ));
            }
        }
        if errors.is_empty() { Ok(places) } else { Err(invalid(errors)) }
    }

    /// Checks a configuration on all of its hosts. Nothing changes. `seed` is that of
    /// [`OtgConfig::read`]. Returns warnings.
    fn check(&self, json: Value, seed: u64) -> Result<(JointConfig, Vec<String>), ApiError> {
        let (config, mut warnings) = OtgConfig::read(&json, seed).map_err(invalid)?;
        let places = self.places(&config)?;
        let joint = JointConfig::new(json, config, &places, (fresh_seed() as u16, seed), self.ports.drain);
        let orders =
            joint.hosts.iter().map(|host| (host.place.clone(), OtgOrder::Check(joint.part_of(host))));
        let answers = self.hosts.ask(orders.collect(), ANSWER_MAX);
        let clocks: Vec<_> = answers.iter().map(HostAnswer::clock).collect();
        // What only the whole configuration tells was found here already.
        let places = joint.hosts.iter().map(|host| host.place.clone());
        let told = done(&joint.hosts, places.zip(answers))?;
        let is_new = |text: &String| !warnings.iter().any(|known| is_same(known, text));
        let told: Vec<String> = told.into_iter().filter(is_new).collect();
        warnings.extend(told);
        let (errors, of_clocks) = joint.clock_findings(&clocks);
        warnings.extend(of_clocks);
        if errors.is_empty() { Ok((joint, warnings)) } else { Err(invalid(errors)) }
    }

    fn set_config(&self, body: Value) -> Result<Vec<String>, ApiError> {
        let _change = lock(&self.change);
        let (new, warnings) = self.check(body, fresh_seed())?;
        let mut joint = lock(&self.joint);
        let before = std::mem::take(&mut *joint);
        let stays = |place: &HostPlace| new.hosts.iter().any(|host| host.place == *place);
        self.release_hosts(before.hosts.iter().map(|host| host.place.clone()).filter(|place| !stays(place)));
        self.put(&new, OtgOrder::Set)?;
        *joint = new;
        Ok(warnings)
    }

    /// Gives each host its part. If one refuses, nothing stays in force.
    fn put(&self, joint: &JointConfig, order: fn(fleet::OtgPart) -> OtgOrder) -> Result<(), ApiError> {
        let orders = joint.hosts.iter().map(|host| (host.place.clone(), order(joint.part_of(host))));
        let answers = self.hosts.ask(orders.collect(), ANSWER_MAX);
        let places = joint.hosts.iter().map(|host| host.place.clone());
        let put = done(&joint.hosts, places.zip(answers));
        put.map(drop).map_err(|mut error| {
            self.release_hosts(joint.hosts.iter().map(|host| host.place.clone()));
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
            let joint = lock(&self.joint);
            (joint.as_set(), joint.seed)
        };
        let json = edit(&before, body).map_err(refused)?;
        let (mut new, warnings) = self.check(json, seed)?;
        let mut joint = lock(&self.joint);
        new.continues(std::mem::take(&mut *joint));
        self.put(&new, OtgOrder::Change)?;
        *joint = new;
        Ok(warned(warnings))
    }

    fn control(&self, body: &Value) -> Result<Vec<String>, ApiError> {
        let _change = lock(&self.change);
        let control = lock(&self.joint).config.control(body).map_err(refused)?;
        match control {
            ControlRequest::Transmit(flows, TransmitState::Start) => self.start(&flows),
            ControlRequest::Transmit(flows, TransmitState::Stop) => self.stop(&flows, false),
            ControlRequest::Transmit(flows, TransmitState::Pause) => self.stop(&flows, true),
            ControlRequest::Transmit(flows, TransmitState::Resume) => self.resume(&flows),
            ControlRequest::Capture(ports, starts) => {
                self.order_ports(&ports, |ports| OtgOrder::Capture { ports, starts })
            }
            ControlRequest::Link(ports, up) => self.order_ports(&ports, |ports| OtgOrder::Link { ports, up }),
            ControlRequest::Protocols => Ok(Vec::new()),
        }
    }

    fn order_ports(
        &self,
        ports: &[usize],
        order: impl Fn(Vec<u32>) -> OtgOrder,
    ) -> Result<Vec<String>, ApiError> {
        let (hosts, ports) = {
            let joint = lock(&self.joint);
            (Arc::clone(&joint.hosts), joint.ports_by_host(ports))
        };
        self.order(&hosts, ports, ANSWER_MAX, order)
    }

    fn start(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        let anew: Vec<(usize, bool)> = flows.iter().map(|flow| (*flow, true)).collect();
        let is_all = anew.len() == lock(&self.joint).flows.len();
        self.begin(&anew, is_all)
    }

    fn resume(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        self.settle(flows)?;
        let resting: Vec<(usize, bool)> = {
            let joint = lock(&self.joint);
            let flow = |flow: &usize| (*flow, !joint.flows[*flow].progress.is_paused());
            let rests = |flow: &&usize| !joint.flows[**flow].progress.is_sending();
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
            let mut joint = lock(&self.joint);
            let mut starts = joint.number(flows).map_err(ApiError::internal)?;
            if clears_ports {
                for host in 0..joint.hosts.len() {
                    starts.entry(host).or_default();
                }
            }
            (Arc::clone(&joint.hosts), starts, joint.senders_of(&indexes))
        };
        let armed = self.arm(&hosts, starts, flows.len() as u32, clears_ports);
        let start_at_ns = armed.inspect_err(|_| drop(self.call_off(&hosts, senders.clone())))?;
        let left = || Duration::from_nanos(start_at_ns.saturating_sub(realtime_ns()));
        let go = |_: Vec<u32>| OtgOrder::Go { start_at_ns };
        if let Err(mut error) = self.order(&hosts, senders.clone(), left().saturating_sub(AGREED_BEFORE), go)
        {
            let silent = self.call_off(&hosts, senders);
            let lease = human_duration(FleetHosts::lease().as_nanos() as u64);
            error.errors.push("not started: all hosts were told to end the flows".to_owned());
            error.errors.extend(silent.iter().map(|host| {
                format!(
                    "{host} has not answered: if it has started, it sends until its lease of {lease} ends"
                )
            }));
            return Err(error);
        }
        thread::sleep(left());
        let started = self.order(&hosts, senders, ANSWER_MAX, |flows| OtgOrder::AwaitStart { flows });
        let mut joint = lock(&self.joint);
        let readings = self.read(&joint, &indexes, &[]);
        let now = Instant::now();
        for (flow, reading) in readings.flows {
            let (sent, received) = (reading.sent.frames, reading.arrived.frames);
            // A short run has ended by now; then its last frames are waited for.
            joint.flows[flow].progress.sends();
            joint.settle(flow, &reading, now);
            joint.flows[flow].progress.has_started(sent, received, now);
        }
        started
    }

    /// Builds the engines on all hosts. Returns the time to start at, in nanoseconds since 1970.
    fn arm(
        &self,
        hosts: &[JointHost],
        starts: ByHost<fleet::FlowStart>,
        flow_count: u32,
        clears_ports: bool,
    ) -> Result<u64, ApiError> {
        let places: Vec<HostPlace> = starts.keys().map(|host| hosts[*host].place.clone()).collect();
        let arm = |flows| OtgOrder::Arm { flows, flow_count, clears_ports };
        let orders = places.iter().cloned().zip(starts.into_values().map(arm)).collect();
        let answers = self.hosts.ask(orders, ARM_MAX);
        let mut readiness = Readiness::default();
        for (place, answer) in places.iter().zip(&answers) {
            if let (HostPlace::Agent(host), Some(answered), Ok(_)) = (place, &answer.answered, &answer.result)
            {
                readiness.hear(host, Ok(answered.clone()), host_clock(), &POLICY);
            }
        }
        done(hosts, places.into_iter().zip(answers))?;
        let of_clock = readiness.objections().iter().map(|objection| {
            let tries = advice::for_objection(objection).join("; ");
            format!("{}: {} (try: {tries})", objection.host, objection.why)
        });
        let errors: Vec<String> = of_clock.collect();
        if errors.is_empty() { Ok(readiness.start_at_ns(realtime_ns())) } else { Err(internal(errors)) }
    }

    /// Ends flows that are not to start. Returns the hosts that do not answer.
    fn call_off(&self, hosts: &[JointHost], senders: ByHost<u32>) -> Vec<HostPlace> {
        let places: Vec<HostPlace> = senders.keys().map(|host| hosts[*host].place.clone()).collect();
        let end = |flows| OtgOrder::End { flows, pauses: false };
        let orders = places.iter().cloned().zip(senders.into_values().map(end)).collect();
        let answers = self.hosts.ask(orders, ANSWER_MAX);
        let is_silent = |answer: &HostAnswer| answer.result.as_ref().is_err_and(|fault| fault.is_silent);
        let silent = places.into_iter().zip(answers).filter(|(_, answer)| is_silent(answer));
        silent.map(|(place, _)| place).collect()
    }

    /// Ends flows and waits for their last frames. Returns why runs failed.
    fn stop(&self, flows: &[usize], pauses: bool) -> Result<Vec<String>, ApiError> {
        let (hosts, senders) = {
            let joint = lock(&self.joint);
            (Arc::clone(&joint.hosts), joint.senders_of(flows))
        };
        let ended = self.order(&hosts, senders, ANSWER_MAX, |flows| OtgOrder::End { flows, pauses });
        // A host that cannot end its flows says why; the others have no more frames to wait for.
        while self.settle(flows).or_else(|error| if ended.is_ok() { Err(error) } else { Ok(false) })? {
            thread::sleep(POLL_INTERVAL);
        }
        let mut warnings = ended?;
        warnings.extend(self.without_values(flows)?);
        Ok(warnings)
    }

    /// A sentence for each of these flows that has frames without a row of values.
    fn without_values(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        let joint = lock(&self.joint);
        let of_values = |flow: &usize| has_values(&joint.config.flows[*flow]);
        let flows: Vec<usize> = flows.iter().copied().filter(of_values).collect();
        // Before the values are read: a frame that arrives meanwhile is not missing.
        let readings = self.read(&joint, &flows, &[]);
        let tagged = self.read_tags(&joint, &flows, &[])?;
        let sentence = |(flow, reading): (&usize, &FlowReading)| {
            let tagged = tagged.flows.get(flow).map_or(&[][..], Vec::as_slice);
            without_values(&joint.config.flows[*flow], reading.arrived.frames, tagged)
        };
        Ok(readings.flows.iter().filter_map(sentence).collect())
    }

    /// Reads flows. True while one is sent, or its last frames are waited for.
    fn settle(&self, flows: &[usize]) -> Result<bool, ApiError> {
        let mut joint = lock(&self.joint);
        let readings = self.read(&joint, flows, &[]);
        let now = Instant::now();
        let mut is_started = false;
        for (flow, reading) in &readings.flows {
            is_started |= joint.settle(*flow, reading, now) == FlowState::Started;
        }
        match readings.faults.is_empty() || is_started {
            true => Ok(is_started),
            false => Err(unavailable(&joint, flows, &readings)),
        }
    }

    /// Reads the counts of flows and ports on their hosts. A flow of a host that could not be read
    /// has no reading.
    fn read(&self, joint: &JointConfig, flows: &[usize], ports: &[usize]) -> Readings {
        let mut readings = Readings::default();
        let mut orders: Vec<(usize, Vec<usize>, Vec<usize>)> = Vec::new();
        for host in 0..joint.hosts.len() {
            let here = |flow: &&usize| joint.flows[**flow].index_at(host).is_some();
            let flows: Vec<usize> = flows.iter().filter(here).copied().collect();
            let ports: Vec<usize> =
                ports.iter().filter(|port| joint.port_at(**port).0 == host).copied().collect();
            orders.extend(flows.chunks(FLOWS_OF_ANSWER).map(|flows| (host, flows.to_vec(), Vec::new())));
            if !ports.is_empty() {
                orders.push((host, Vec::new(), ports));
            }
        }
        let order = |(host, flows, ports): &(usize, Vec<usize>, Vec<usize>)| {
            let flows = flows.iter().filter_map(|flow| joint.flows[*flow].index_at(*host)).collect();
            let ports = ports.iter().map(|port| joint.port_at(*port).1).collect();
            (joint.hosts[*host].place.clone(), OtgOrder::Read { flows, ports })
        };
        let answers = self.hosts.ask(orders.iter().map(order).collect(), READ_MAX);
        for ((host, flows, ports), answer) in orders.into_iter().zip(answers) {
            match answer.result {
                Ok(OtgResult::Readings { flows: of_flows, ports: of_ports })
                    if (of_flows.len(), of_ports.len()) == (flows.len(), ports.len()) =>
                {
                    for (flow, reading) in flows.into_iter().zip(of_flows) {
                        readings.flows.entry(flow).or_default().add(&reading);
                    }
                    readings.ports.extend(ports.into_iter().zip(of_ports));
                }
                Ok(_) => {
                    let errors = vec!["the answer has no counts".to_owned()];
                    readings.faults.insert(host, HostFault { is_invalid: false, is_silent: false, errors });
                }
                Err(fault) => drop(readings.faults.insert(host, fault)),
            }
        }
        let faulty: Vec<usize> = readings.faults.keys().copied().collect();
        let is_known = |flow: usize| !faulty.iter().any(|host| joint.flows[flow].index_at(*host).is_some());
        readings.flows.retain(|flow, _| is_known(*flow));
        for (flow, reading) in &mut readings.flows {
            // Copies of a frame do not say how many were sent.
            if joint.config.flows[*flow].metrics.copies == Copies::default() {
                *reading = reading.settled();
            }
        }
        readings
    }

    /// Reads the counts by values of the flows that have tags, and of all frames of ports. Ports in
    /// the readings are indexes into the whole configuration.
    fn read_tags(
        &self,
        joint: &JointConfig,
        flows: &[usize],
        ports: &[usize],
    ) -> Result<TaggedCounts, ApiError> {
        let flows: BTreeSet<usize> =
            flows.iter().copied().filter(|flow| joint.config.flows[*flow].has_tags()).collect();
        let mut counts = TaggedCounts::default();
        for (at, host) in joint.hosts.iter().enumerate() {
            let own = |flow: &usize| Some((*flow, joint.flows[*flow].index_at(at)?));
            let of_flows: Vec<(usize, u32)> = flows.iter().filter_map(own).collect();
            let own = |port: &usize| Some(joint.port_at(*port)).filter(|(host, _)| *host == at);
            let of_ports: Vec<(usize, u32)> =
                ports.iter().filter_map(|port| Some((*port, own(port)?.1))).collect();
            if of_flows.is_empty() && of_ports.is_empty() {
                continue;
            }
            let indexes =
                |pairs: &[(usize, u32)]| pairs.iter().map(|(_, index)| *index).collect::<Vec<u32>>();
            let bytes = self.read_pieces(&host.place, READ_MAX, |offset| OtgOrder::ReadTags {
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
        order: impl Fn(u64) -> OtgOrder,
    ) -> Result<Vec<u8>, ApiError> {
        let mut file = Vec::new();
        loop {
            let answers = self.hosts.ask(vec![(place.clone(), order(file.len() as u64))], timeout);
            let answer = answers.into_iter().next().expect("one order has one answer");
            match answer.result {
                Ok(OtgResult::Piece { bytes, is_last }) => {
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
        let mut joint = lock(&self.joint);
        let table = match joint.config.metrics_query(body).map_err(refused)? {
            MetricsQuery::Ports(ports, columns) => {
                let readings = self.known(&joint, &[], &ports)?;
                let row = |port| joint.port_row(port, &readings.ports[&port]);
                MetricsTable::of_ports(ports.into_iter().map(row).collect(), columns)
            }
            MetricsQuery::Flows(flows, columns, query) => {
                let asked = if query.include { &flows[..] } else { &[] };
                let mut tagged = self.read_tags(&joint, asked, &[])?;
                let readings = self.known(&joint, &flows, &[])?;
                let now = Instant::now();
                // The values of a flow that is stopped are final.
                let has_ended = |flow: &usize| joint.has_ended(*flow, &readings.flows[flow], now);
                let ended: Vec<usize> = flows.iter().copied().filter(has_ended).collect();
                if query.include {
                    tagged.flows.extend(self.read_tags(&joint, &ended, &[])?.flows);
                }
                let row = |flow| {
                    let tagged = tagged.flows.get(&flow).map_or(&[][..], Vec::as_slice);
                    joint.flow_row(flow, &readings.flows[&flow], (&query, tagged), now)
                };
                MetricsTable::of_flows(flows.into_iter().map(row).collect(), columns)
            }
            MetricsQuery::Egress(egress, columns) => {
                let ports = egress_ports(&joint.config, &egress);
                let tagged = self.read_tags(&joint, &[], &ports)?;
                let row = |(egress, port): (usize, &usize)| {
                    egress_row(&joint.config.egress[egress], &columns, &tagged.ports[port])
                };
                MetricsTable::of_egress(egress.into_iter().zip(&ports).map(row).collect())
            }
        };
        Ok(ApiReply::Metrics(table))
    }

    /// The counts of flows and ports.
    ///
    /// # Errors
    /// Those of a host are not known.
    fn known(&self, joint: &JointConfig, flows: &[usize], ports: &[usize]) -> Result<Readings, ApiError> {
        let readings = self.read(joint, flows, ports);
        if readings.faults.is_empty() { Ok(readings) } else { Err(unavailable(joint, flows, &readings)) }
    }

    fn states(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let joint = lock(&self.joint);
        let ports: BTreeSet<&str> =
            joint.config.interfaces.iter().map(|interface| &interface.port[..]).collect();
        let has_interface = |port: &usize| ports.contains(&joint.config.ports[*port].name[..]);
        let hosts = joint.hosts.iter().filter(|host| host.part.ports.iter().any(has_interface));
        let places: Vec<HostPlace> = hosts.map(|host| host.place.clone()).collect();
        let orders = places.iter().cloned().map(|place| (place, OtgOrder::Neighbours)).collect();
        let mut macs: HashMap<String, [u8; 6]> = HashMap::new();
        let mut left = Vec::new();
        for (place, answer) in places.into_iter().zip(self.hosts.ask(orders, READ_MAX)) {
            match answer.result {
                Ok(OtgResult::Neighbours(known)) => macs.extend(known),
                _ => left.push((place, answer)),
            }
        }
        done(&joint.hosts, left)?;
        let states = joint.config.states(body, |interface| macs.get(&interface.name).copied());
        states.map(ApiReply::Json).map_err(refused)
    }

    fn captured(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let _change = lock(&self.change);
        let (query, place, port) = {
            let joint = lock(&self.joint);
            let query = joint.config.capture_query(body).map_err(refused)?;
            let (host, port) = joint.port_at(query.port);
            (query, joint.hosts[host].place.clone(), port)
        };
        let slice = query.slice.map(|(first, count)| (first as u64, count as u64));
        let file =
            self.read_pieces(&place, ANSWER_MAX, |offset| OtgOrder::ReadCapture { port, slice, offset })?;
        Ok(ApiReply::Bytes(file))
    }

    /// Pings from emulated interfaces, all at once.
    fn ping(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let (requests, hosts, by_host) = {
            let joint = lock(&self.joint);
            let requests = joint.config.pings(body).map_err(refused)?;
            let mut by_host: ByHost<usize> = BTreeMap::new();
            for (number, ping) in requests.pings.iter().enumerate() {
                let port = joint.config.ports.iter().position(|port| port.name == ping.port);
                let port = port.expect("the configuration was checked");
                by_host.entry(joint.port_at(port).0).or_default().push(number);
            }
            (requests, Arc::clone(&joint.hosts), by_host)
        };
        let ping = |number: &usize| {
            let PingRequest { interface, port, to } = requests.pings[*number].clone();
            PortPing { interface, port, to }
        };
        let order = |(host, numbers): (&usize, &Vec<usize>)| {
            (hosts[*host].place.clone(), OtgOrder::Ping { pings: numbers.iter().map(ping).collect() })
        };
        let answers = self.hosts.ask(by_host.iter().map(order).collect(), ANSWER_MAX);
        let mut is_answered = vec![false; requests.pings.len()];
        let mut left = Vec::new();
        for ((host, numbers), answer) in by_host.iter().zip(answers) {
            match answer.result {
                Ok(OtgResult::Pings(answered)) if answered.len() == numbers.len() => {
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
    hosts: &[JointHost],
    answers: impl IntoIterator<Item = (HostPlace, HostAnswer)>,
) -> Result<Vec<String>, ApiError> {
    let told = all_done(answers, |place, text| whole_path(hosts, place, text));
    told.map_err(|(is_invalid, errors)| if is_invalid { invalid(errors) } else { internal(errors) })
}

/// Which counts are not known, and why: an error, since a row without counts would have zeros.
fn unavailable(joint: &JointConfig, flows: &[usize], readings: &Readings) -> ApiError {
    let sentence = |(host, fault): (&usize, &HostFault)| {
        let names = joint.names_at(flows, *host);
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
        said_by(&joint.hosts[*host].place, format!("{why}; {what} are not known"))
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
