//! The configuration in force, and its ports and flows.

use super::arrivals::arrivals;
use super::capture::PortCapture;
use super::flow::{FlowRun, with_fcs};
use super::flow_setup::{FAST_FLOWS_MAX, FlowSetup, LINE_PERCENT_MAX, RING_FLOWS_MAX, asked_of};
use super::neighbours::PortNeighbours;
use super::port::{Port, PortRefusal, known_speed, line_speed};
use super::port_rules::{PortRules, SendRules};
use super::tag_parts::counts_values;
use engine::{EngineKind, Request, StartBarrier, StartGate};
use fleet::{FlowArrivals, FlowReading, SentFrames};
use host::CpuList;
use otg::metrics::{FlowState, PortCounts};
use otg::{CaptureQuery, Copies, EmulatedInterface, FlowConfig, OtgConfig, PortConfig};
use packet::DeviceFacts;
use packet::plan::FrameSpec;
use program::monitor::sources::{RunList, SendSource};
use sender::device::TxDevice;
use serde_json::Value;
use server::{ApiError, ErrorKind};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;
use units::{human_bps, time_of_day_ns};

/// Most sizes of a flow whose size is random, and of all such flows: each is a packet in memory.
const SIZES_OF_FLOW_MAX: usize = 2048;
const SIZES_MAX: usize = 1 << 17;

/// The last sentence of a refusal that came after the configuration before had ended.
pub(super) const NOTHING_IN_FORCE: &str = "nothing is in force any more: set the configuration again";

/// What is in force.
#[derive(Default)]
pub(super) struct ActiveState {
    pub(super) config: OtgConfig,
    pub(super) ports: Vec<Port>,
    pub(super) flows: Vec<FlowRun>,
    /// Where the frames of each flow leave and arrive.
    ends: Vec<FlowPorts>,
    /// The run in the marks of this configuration.
    run: u16,
    /// How fast a late flow may catch up.
    sending: SendRules,
    /// All runs of flows, for metrics.
    pub(super) runs: RunList,
}

/// The ports of a flow, as indexes.
struct FlowPorts {
    /// None if another host sends them.
    tx: Option<usize>,
    /// Those of this host, without doubles.
    rx: Vec<usize>,
}

/// A configuration that passed all checks, and its devices.
pub(super) struct CheckedConfig {
    pub(super) config: OtgConfig,
    devices: Vec<TxDevice>,
    /// The place of each device's port in the whole configuration.
    places: Vec<usize>,
    sending: SendRules,
    pub(super) warnings: Vec<String>,
}

/// Flows to start, each with its place among those of all hosts that start together.
pub(super) struct RankedFlows {
    pub(super) flows: Vec<(usize, usize)>,
    /// Flows of all hosts.
    pub(super) count: usize,
}

impl RankedFlows {
    /// All flows that start together.
    pub(super) fn all(flows: &[usize]) -> Self {
        Self { flows: flows.iter().copied().enumerate().collect(), count: flows.len() }
    }
}

/// Runs that can be requested, by port, each with its flow.
pub(super) type PortRequests = Vec<Vec<(usize, Request)>>;

fn refuse(errors: Vec<String>) -> ApiError {
    ApiError { kind: ErrorKind::Invalid, errors }
}

/// Checks a configuration of which this host has the ports `own`, and finds their devices. Nothing
/// changes. `seed` is that of [`OtgConfig::read`].
///
/// # Errors
/// All that is wrong.
pub(super) fn check(
    json: &Value,
    rules: &dyn PortRules,
    own: &[usize],
    seed: u64,
) -> Result<CheckedConfig, ApiError> {
    let (mut config, mut warnings) = OtgConfig::read(json, seed).map_err(refuse)?;
    config.keep_ports(own).map_err(|port| ApiError::invalid(format!("there is no ports[{port}]")))?;
    let (mut devices, mut places, mut errors) = (Vec::<TxDevice>::new(), Vec::new(), Vec::new());
    for (port, at) in config.ports.iter().zip(own.iter().copied()) {
        let path = format!("ports[{at}].location");
        let device = match rules.device(&port.location) {
            Ok(device) => device,
            Err(error) => {
                errors.push(format!("{path}: {error}"));
                continue;
            }
        };
        if let Some(first) = devices.iter().position(|other| is_same(other, &device)) {
            let (first, name) = (places[first], &device.link.name);
            errors.push(format!("{path}: ports[{first}] is the device {name} too"));
        }
        check_mtu(&config, port, at, &device, &mut errors, &mut warnings);
        let flows: Vec<(usize, &FlowConfig)> =
            config.flows.iter().enumerate().filter(|(_, flow)| flow.tx_port == port.name).collect();
        warnings.extend(above_the_line(at, &flows, known_speed(port, &device)));
        errors.extend(rules.check(&port.location, &flows, line_speed(port, &device)));
        let interfaces = config.interfaces.iter().filter(|interface| interface.port == port.name);
        let resolved = interfaces.filter_map(|known| Some((known, known.address?)));
        for (interface, address) in resolved.filter(|(_, address)| address.gateway_mac.is_none()) {
            let refused = rules.check_destination(&port.location, address.gateway).err();
            errors.extend(refused.map(|why| format!("interface {}: gateway: {why}", interface.name)));
        }
        devices.push(device);
        places.push(at);
    }
    match errors.is_empty() {
        true => {
            let sending = rules.sending();
            Ok(CheckedConfig { config, devices, places, sending, warnings })
        }
        false => Err(refuse(errors)),
    }
}

fn is_same(one: &TxDevice, other: &TxDevice) -> bool {
    one.netns.id() == other.netns.id() && one.link.index == other.link.index
}

/// A warning if the flows of a port together are more than its line, where that is known. A single
/// flow above a configured speed has a warning of its own.
fn above_the_line(at: usize, flows: &[(usize, &FlowConfig)], speed: Option<u64>) -> Option<String> {
    let speed = speed?;
    let percent: f64 = flows.iter().map(|(_, flow)| flow.line_percent(speed)).sum();
    let line = human_bps(speed as f64);
    (percent > LINE_PERCENT_MAX)
        .then(|| format!("ports[{at}]: its flows are {percent:.0} % of the line of {line}"))
}

/// Frames that the device does not take are an error, a configured MTU above its own is a warning.
fn check_mtu(
    config: &OtgConfig,
    port: &PortConfig,
    at: usize,
    device: &TxDevice,
    errors: &mut Vec<String>,
    warnings: &mut Vec<String>,
) {
    let mtu = device.link.mtu;
    if let Some(wanted) = port.mtu.filter(|wanted| *wanted > mtu) {
        let name = &device.link.name;
        warnings
            .push(format!("ports[{at}]: MTU {wanted} is above the {mtu} of {name}, which is not changed"));
    }
    for (index, flow) in config.flows.iter().enumerate().filter(|(_, flow)| flow.tx_port == port.name) {
        let (size, most) = (flow.size_max(), mtu as usize + 18 + flow.tags_len());
        if size > most {
            let name = &device.link.name;
            errors.push(format!(
                "flows[{index}].size: {size} bytes are more than the {most} of {name} (MTU {mtu})"
            ));
        }
    }
    for (index, flow) in
        config.flows.iter().enumerate().filter(|(_, flow)| flow.rx_ports.contains(&port.name))
    {
        let (size, most) = (flow.size_max(), mtu as usize + 18 + flow.tags_len());
        if size > most {
            let name = &device.link.name;
            warnings.push(format!(
                "flows[{index}].size: {size} bytes are more than the {most} that {name} receives (MTU {mtu})"
            ));
        }
    }
}

impl ActiveState {
    /// Nothing is in force; `runs` gets the runs of flows.
    pub(super) fn with_runs(runs: RunList) -> Self {
        Self { runs, ..Self::default() }
    }

    /// Refuses a configuration whose devices others use. Those of ports in force are free.
    ///
    /// # Errors
    /// The ports of such devices.
    pub(super) fn refuse_busy(&self, checked: &CheckedConfig) -> Result<(), ApiError> {
        let is_held = |device: &TxDevice| self.ports.iter().any(|port| is_same(&port.device, device));
        let busy = |(at, device): (&usize, &TxDevice)| {
            let program = device.link.xdp.filter(|_| !is_held(device))?.program_id;
            let name = &device.link.name;
            Some(format!("ports[{at}].location: {name} is in use: it runs the XDP program with id {program}"))
        };
        let errors: Vec<String> = checked.places.iter().zip(&checked.devices).filter_map(busy).collect();
        if errors.is_empty() { Ok(()) } else { Err(ApiError { kind: ErrorKind::Conflict, errors }) }
    }

    /// Puts a checked configuration in force. What ran before has ended. `mark` is the run in the
    /// marks of frames.
    ///
    /// # Errors
    /// The host refused; then nothing is in force.
    pub(super) fn take(&mut self, checked: CheckedConfig, mark: u16) -> Result<Vec<String>, ApiError> {
        let CheckedConfig { config, devices, places, sending, warnings } = checked;
        *self = Self { run: mark, runs: self.runs.clone(), sending, ..Self::default() };
        let cpus: Vec<u32> =
            CpuList::allowed().map_err(|error| ApiError::internal(error.to_string()))?.iter().collect();
        for (at, (port, device)) in config.ports.iter().zip(devices).enumerate() {
            // The last CPUs first: the first ones often serve interrupts.
            let cpu = cpus[cpus.len() - 1 - at % cpus.len()];
            match Port::open(port, &config, device, (cpu, self.runs.console()), self.run, time_of_day_ns()) {
                Ok(port) => self.ports.push(port),
                Err(PortRefusal { text, is_busy }) => {
                    self.ports.clear();
                    let kind = if is_busy { ErrorKind::Conflict } else { ErrorKind::Internal };
                    let place = places[at];
                    let errors =
                        vec![format!("ports[{place}].location: {text}"), NOTHING_IN_FORCE.to_owned()];
                    return Err(ApiError { kind, errors });
                }
            }
        }
        self.flows = config.flows.iter().map(|_| FlowRun::default()).collect();
        self.set(config);
        Ok(warnings)
    }

    /// Sets the configuration of these ports and flows.
    fn set(&mut self, config: OtgConfig) {
        let index = |name: &str| config.ports.iter().position(|port| port.name == name);
        let ends = |flow: &FlowConfig| {
            let rx: BTreeSet<usize> = flow.rx_ports.iter().filter_map(|name| index(name)).collect();
            FlowPorts { tx: index(&flow.tx_port), rx: rx.into_iter().collect() }
        };
        self.ends = config.flows.iter().map(ends).collect();
        self.config = config;
    }

    /// Refuses flows with tags on ports that were opened without.
    ///
    /// # Errors
    /// The port of such a flow.
    pub(super) fn check_tags(&self, config: &OtgConfig) -> Result<(), ApiError> {
        let mut ports = self.ports.iter();
        match ports.find(|port| !port.has_tags && counts_values(config, &port.name)) {
            None => Ok(()),
            Some(port) => Err(ApiError::invalid(format!(
                "port {} counts no metric tags yet: set the whole configuration (SetConfig)",
                port.name
            ))),
        }
    }

    /// Puts other flows on the same ports in force: flows of the same name continue.
    pub(super) fn change_flows(&mut self, config: OtgConfig) {
        // What was sent of flows that go stays in the counts of their ports.
        self.differences(&config).0.into_iter().for_each(|flow| self.keep_sent(flow));
        let flows = self.config.flows.iter().zip(std::mem::take(&mut self.flows));
        let mut before: HashMap<&str, (&FlowConfig, FlowRun)> =
            flows.map(|(flow, run)| (&flow.name[..], (flow, run))).collect();
        let continued = |flow: &FlowConfig| match before.remove(&flow.name[..]) {
            Some((old, mut run)) => {
                run.has_several_sizes |= old.size_fixed() != flow.size_fixed();
                run
            }
            None => FlowRun::default(),
        };
        self.flows = config.flows.iter().map(continued).collect();
        self.set(config);
    }

    /// Flows that `config` does not have, and running flows that it changes.
    pub(super) fn differences(&self, config: &OtgConfig) -> (Vec<usize>, Vec<usize>) {
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        let others: HashMap<&str, &FlowConfig> =
            config.flows.iter().map(|flow| (&flow.name[..], flow)).collect();
        for (index, flow) in self.config.flows.iter().enumerate() {
            match others.get(&flow.name[..]) {
                None => gone.push(index),
                Some(other) if *other != flow && self.flows[index].is_sending() => changed.push(index),
                Some(_) => {}
            }
        }
        (gone, changed)
    }

    /// The ports on which a flow is counted.
    fn rx_ports(&self, flow: usize) -> impl Iterator<Item = &Port> {
        self.ends[flow].rx.iter().map(|port| &self.ports[*port])
    }

    /// The ports on which a flow is counted, as indexes.
    pub(super) fn rx_indexes(&self, flow: usize) -> &[usize] {
        &self.ends[flow].rx
    }

    /// What was received of a flow.
    pub(super) fn received(&self, flow: usize) -> FlowArrivals {
        let number = self.flows[flow].number.filter(|_| self.config.flows[flow].metrics.enable);
        number.map_or_else(FlowArrivals::default, |number| arrivals(self.rx_ports(flow), number))
    }

    /// True if frames of the flow are counted on this port.
    pub(super) fn counts(&self, flow: usize, port: usize) -> bool {
        self.config.flows[flow].metrics.enable && self.ends[flow].rx.contains(&port)
    }

    /// True if frames of the flow are counted somewhere.
    fn waits(&self, flow: usize) -> bool {
        let config = &self.config.flows[flow];
        config.metrics.enable && !config.rx_ports.is_empty()
    }

    /// What a flow does now.
    pub(super) fn settle(&mut self, flow: usize) -> FlowState {
        self.read(flow, Instant::now()).0
    }

    /// What a flow does, and what was received and sent of it, in this order: a frame is sent
    /// before it is received.
    pub(super) fn read(&mut self, flow: usize, now: Instant) -> (FlowState, FlowArrivals, SentFrames) {
        let (received, waits) = (self.received(flow), self.waits(flow));
        let (run, config) = (&mut self.flows[flow], &self.config.flows[flow]);
        let due = |sent| config.frames_due(sent);
        let state = run.settle(&received, due, waits.then_some(self.sending.drain), now);
        // Copies of a frame do not say how many were sent.
        let is_single = config.metrics.copies == Copies::default();
        let sent = run.sent(&if is_single { received } else { FlowArrivals::default() });
        (state, received, sent)
    }

    /// Flows get counts of 0 and these numbers.
    pub(super) fn restart(&mut self, starts: &[(usize, u32)]) {
        let flows: Vec<usize> = starts.iter().map(|(flow, _)| *flow).collect();
        self.forget_tagged(&flows);
        for &(flow, number) in starts {
            self.keep_sent(flow);
            let tags = &self.config.flows[flow].tags;
            if !tags.is_empty() {
                self.rx_ports(flow).for_each(|port| port.track(number, tags));
            }
            self.flows[flow].start(number);
        }
    }

    /// Adds what was sent of a flow to what its port has sent by earlier runs.
    fn keep_sent(&mut self, flow: usize) {
        let sent = with_fcs(self.flows[flow].counted(), 0.0);
        if let Some(port) = self.ends[flow].tx {
            let before = &mut self.ports[port].sent_before;
            before.frames += sent.frames;
            before.bytes += sent.bytes;
        }
    }

    /// Drops what was counted of flows by the values of their tags. Late frames of their last
    /// starts are not counted by values any more.
    pub(super) fn forget_tagged(&self, flows: &[usize]) {
        for (index, port) in self.ports.iter().enumerate().filter(|(_, port)| port.has_tags) {
            let is_here = |flow: &&usize| {
                self.ends[**flow].rx.contains(&index) && !self.config.flows[**flow].tags.is_empty()
            };
            let numbers = flows.iter().filter(is_here).filter_map(|flow| self.flows[*flow].number);
            port.forget_tagged(numbers);
        }
    }

    /// Looks at the counts of ports, so that their rates are those since now.
    pub(super) fn look_at_ports(&mut self, now: Instant) {
        for port in &mut self.ports {
            let _ = port.received(now);
        }
    }

    /// The counts of ports start at 0.
    pub(super) fn clear_ports(&mut self) {
        self.ports.iter_mut().for_each(Port::clear);
    }

    /// Refuses a start while the device of a port is gone.
    ///
    /// # Errors
    /// It is.
    pub(super) fn refuse_gone_ports(&self) -> Result<(), ApiError> {
        match self.ports.iter().find(|port| port.is_gone()) {
            None => Ok(()),
            Some(port) => Err(ApiError::internal(format!("port {}: {} is gone", port.name, port.location))),
        }
    }

    /// True if this host sends the flow.
    pub(super) fn sends(&self, flow: usize) -> bool {
        self.ends[flow].tx.is_some()
    }

    /// Starts the runs of flows, all at one instant per port.
    ///
    /// # Errors
    /// Frames that cannot be built.
    pub(super) fn run_flows(&mut self, flows: &[usize]) -> Result<(), ApiError> {
        let flows = RankedFlows::all(flows);
        let requests = self.requests(&flows)?;
        self.order(&flows, requests, None);
        Ok(())
    }

    /// Builds the engines of flows that this host sends, which then wait for the gate to open.
    ///
    /// # Errors
    /// Frames that cannot be built.
    pub(super) fn arm_flows(&mut self, flows: &RankedFlows) -> Result<StartGate, ApiError> {
        let requests = self.requests(flows)?;
        let threads = requests.iter().filter(|requests| !requests.is_empty()).count();
        let (gate, barrier) = StartGate::with_barrier(threads);
        self.order(flows, requests, Some(&barrier));
        Ok(gate)
    }

    /// The requests of the next runs of flows. A flow of n begins a fraction of its gap later than
    /// the one before, so that n flows are no burst.
    fn requests(&self, ranked: &RankedFlows) -> Result<PortRequests, ApiError> {
        let mut requests: PortRequests = self.ports.iter().map(|_| Vec::new()).collect();
        for &(rank, flow) in &ranked.flows {
            let (config, Some(port)) = (&self.config.flows[flow], self.ends[flow].tx) else { continue };
            let stagger = rank as f64 / ranked.count as f64;
            let setup = self.setup(flow, port, ranked.flows.len())?;
            let gap_ns = 1e9 / config.pps(self.ports[port].speed);
            let request = self.flows[flow].request(&setup, (gap_ns * stagger) as u64);
            requests[port].extend(request.map(|request| (flow, request)));
        }
        Ok(requests)
    }

    /// Requests the runs of flows. Flows that have sent all have none.
    fn order(&mut self, ranked: &RankedFlows, requests: PortRequests, barrier: Option<&Arc<StartBarrier>>) {
        for (thread, (port, requests)) in self.ports.iter().zip(requests).enumerate() {
            if requests.is_empty() {
                continue;
            }
            let (flows, requests): (Vec<usize>, Vec<Request>) = requests.into_iter().unzip();
            let handles = port.worker.start_all(requests, barrier.cloned());
            let cpu = port.worker.cpu();
            let sources = handles.iter().map(|handle| SendSource { thread, cpu, handle: Arc::clone(handle) });
            self.runs.begin(&port.labels(), sources);
            for (flow, handle) in flows.into_iter().zip(handles) {
                let asked = asked_of(&self.config.flows[flow], port.speed);
                self.flows[flow].runs(handle, asked, cpu);
            }
        }
        ranked.flows.iter().for_each(|(_, flow)| self.flows[*flow].stops_without_run());
    }

    fn setup(&self, flow: usize, port: usize, flow_count: usize) -> Result<FlowSetup<'_>, ApiError> {
        let config = &self.config.flows[flow];
        let number = self.flows[flow].number.ok_or_else(|| {
            ApiError::internal(format!("flow {}: it was not started, so it cannot go on", config.name))
        })?;
        let mark = config.metrics.enable.then_some((number as u16, self.run));
        let (packets, order): (Vec<FrameSpec>, _) =
            config.packets(mark, self.sizes_max(), self.gateway_mac(flow)).map_err(refuse)?;
        let port = &self.ports[port];
        Ok(FlowSetup {
            flow: config,
            ifname: &port.device.link.name,
            facts: DeviceFacts { cpu: port.worker.cpu(), ..port.device.facts },
            speed: port.speed,
            has_line: port.has_line,
            packets,
            order,
            engine: (flow_count > FAST_FLOWS_MAX).then_some(EngineKind::AfPacket),
            batch: (flow_count > RING_FLOWS_MAX).then_some(1),
            sending: self.sending,
            seed: time_of_day_ns().wrapping_add(flow as u64),
        })
    }

    /// The MAC address of the gateway that a flow is sent to, if it is one and known.
    fn gateway_mac(&self, flow: usize) -> Option<[u8; 6]> {
        let (neighbours, interface) = self.gateway(flow)?;
        neighbours.gateway_mac(interface)
    }

    /// What resolves the gateway of a flow, and the interface that has the gateway.
    pub(super) fn gateway(&self, flow: usize) -> Option<(&Arc<PortNeighbours>, &str)> {
        let config = &self.config.flows[flow];
        let neighbours = self.ports[self.ends[flow].tx?].neighbours.as_ref()?;
        Some((neighbours, config.gateway_of.as_deref()?))
    }

    /// What resolves the gateway of an interface.
    fn neighbours_of(&self, interface: &EmulatedInterface) -> Option<&Arc<PortNeighbours>> {
        self.neighbours_at(&interface.port)
    }

    /// What answers for the interfaces of a port.
    pub(super) fn neighbours_at(&self, port: &str) -> Option<&Arc<PortNeighbours>> {
        self.ports.iter().find(|known| known.name == port)?.neighbours.as_ref()
    }

    /// The interfaces whose gateways are known, and their MAC addresses.
    pub(super) fn gateway_macs(&self) -> Vec<(String, [u8; 6])> {
        let mac = |interface: &EmulatedInterface| {
            let neighbours = self.neighbours_of(interface)?;
            Some((interface.name.clone(), neighbours.gateway_mac(&interface.name)?))
        };
        self.config.interfaces.iter().filter_map(mac).collect()
    }

    /// Most sizes of a flow whose size is random: each is a packet in memory.
    fn sizes_max(&self) -> usize {
        (SIZES_MAX / self.flows.len().max(1)).clamp(64, SIZES_OF_FLOW_MAX)
    }

    /// The counts of a flow on this host.
    pub(super) fn flow_reading(&mut self, flow: usize, now: Instant) -> FlowReading {
        let (_, arrived, sent) = self.read(flow, now);
        let run = &self.flows[flow];
        FlowReading { is_sending: run.is_sending(), is_paused: run.is_paused(), sent, arrived }
    }

    /// What was counted on a port.
    pub(super) fn port_counts(&mut self, port: usize, now: Instant) -> PortCounts {
        let mut is_sending = false;
        let mut tx = self.ports[port].sent_before;
        for flow in (0..self.flows.len()).filter(|flow| self.ends[*flow].tx == Some(port)).collect::<Vec<_>>()
        {
            let (state, received, sent) = self.read(flow, now);
            is_sending |= state == FlowState::Started;
            let counts = with_fcs(sent, self.flows[flow].rates(sent.frames, received.frames, now).0);
            tx.frames += counts.frames;
            tx.bytes += counts.bytes;
            tx.rate += counts.rate;
        }
        let port = &mut self.ports[port];
        PortCounts {
            is_up: port.link_is_up(time_of_day_ns()),
            is_capturing: port.capture.as_ref().is_some_and(PortCapture::is_running),
            is_sending,
            tx,
            rx: port.received(now),
            last_change_ns: port.last_change_ns,
            speed: port.speed,
        }
    }

    /// Starts or stops captures. Returns warnings.
    ///
    /// # Errors
    /// The host refused.
    pub(super) fn capture(&mut self, ports: &[usize], starts: bool) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        for &index in ports {
            let config = self.config.capture_of(index).filter(|_| starts);
            let config = config.map(|capture| &self.config.captures[capture]);
            let port = &mut self.ports[index];
            let stopped = port.capture.as_mut().map(|running| running.stop(&port.name));
            match config {
                // The frames of the capture before are dropped, and its warnings with them.
                Some(config) => {
                    let started = PortCapture::start(config, &port.device);
                    let failed = |error| ApiError::internal(format!("port {}: capture: {error}", port.name));
                    port.capture = Some(started.map_err(failed)?);
                }
                None => warnings.extend(stopped.into_iter().flatten()),
            }
        }
        Ok(warnings)
    }

    /// The file of a capture, which is stopped.
    ///
    /// # Errors
    /// The capture was not started.
    pub(super) fn captured(&mut self, query: CaptureQuery) -> Result<Vec<u8>, ApiError> {
        self.capture(&[query.port], false)?;
        let port = &self.ports[query.port];
        let Some(capture) = &port.capture else {
            return Err(ApiError::invalid(format!("port {}: its capture was not started", port.name)));
        };
        capture.file(query.slice).map_err(ApiError::internal)
    }
}
