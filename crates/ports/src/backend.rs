//! The calls of the API on the state in force.
//!
//! One lock is held while a call changes something, another while the state is read or written. So
//! metrics are answered while a stop waits for the last frames.

use super::neighbours::Pinger;
use super::port_rules::PortRules;
use super::state::{self, ActiveState, CheckedConfig, RankedFlows};
use super::tagged::{egress_ports, egress_row};
use engine::StartGate;
use fleet::{FlowStart, TagReading};
use otg::metrics::{FlowState, MetricsTable};
use otg::{ControlRequest, MetricsQuery, PingRequest, RequestRefusal, TransmitState, edit};
use program::monitor::sources::RunList;
use program::seed::fresh_seed;
use serde_json::{Value, json};
use server::{ApiBackend, ApiError, ApiReply, ErrorKind, Operation};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Clients of all versions with this major version fit.
const API_VERSIONS: &str = "^1.0.0";
/// The counters of receivers have no event, so they are read at this interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// A run ends within 10 ms when it is asked to; a starved machine takes longer.
const END_MAX: Duration = Duration::from_secs(10);
/// A gateway that does not answer three requests is not there.
const RESOLUTION_MAX: Duration = Duration::from_secs(3);
/// A host that does not answer three pings is not there.
const PING_MAX: Duration = Duration::from_secs(3);
/// Engines of many flows take this long to build on a busy machine.
const BUILD_MAX: Duration = Duration::from_secs(60);

/// The engine behind the API.
pub(super) struct OtgBackend {
    rules: Box<dyn PortRules>,
    /// Held by calls that change something.
    change: Mutex<()>,
    state: Mutex<ActiveState>,
    /// The program ends: nothing waits for frames any more.
    is_closing: AtomicBool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn refused(refusal: RequestRefusal) -> ApiError {
    match refusal {
        RequestRefusal::Invalid(errors) => ApiError { kind: ErrorKind::Invalid, errors },
        RequestRefusal::Unsupported(error) => ApiError::unsupported(error),
    }
}

pub(super) fn warned(warnings: Vec<String>) -> ApiReply {
    ApiReply::Json(json!({"warnings": warnings}))
}

impl ApiBackend for OtgBackend {
    fn call(&self, operation: Operation, body: Value) -> Result<ApiReply, ApiError> {
        let changes =
            |edit: fn(&Value, &Value) -> Result<Value, RequestRefusal>| self.change_config(&body, edit);
        match operation {
            Operation::SetConfig => self.set_config(body).map(warned),
            Operation::GetConfig => Ok(ApiReply::Json(lock(&self.state).as_set())),
            Operation::UpdateConfig => changes(edit::update),
            Operation::AppendConfig => changes(edit::append),
            Operation::DeleteConfig => changes(edit::delete),
            Operation::SetControlState => self.control(&body),
            Operation::SetControlAction => self.ping(&body),
            Operation::GetMetrics => self.metrics(&body),
            Operation::GetStates => Ok(ApiReply::Json(lock(&self.state).neighbours(&body).map_err(refused)?)),
            Operation::GetCapture => self.captured(&body),
            Operation::GetVersion => Ok(version()),
        }
    }
}

/// The version of the API, and that of wirerate.
pub(super) fn version() -> ApiReply {
    ApiReply::Json(json!({
        "api_spec_version": API_VERSIONS,
        "sdk_version": "",
        "app_version": concat!("wirerate ", env!("CARGO_PKG_VERSION")),
    }))
}

impl OtgBackend {
    pub(super) fn new(rules: Box<dyn PortRules>, runs: RunList) -> Self {
        let state = ActiveState::with_runs(runs);
        let is_closing = AtomicBool::new(false);
        Self { rules, change: Mutex::default(), state: Mutex::new(state), is_closing }
    }

    /// Ends the traffic at once, also while a call changes something. No flow starts after it.
    pub(super) fn close(&self) {
        self.is_closing.store(true, SeqCst);
        self.ask_to_end(&self.all_flows(), false);
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(SeqCst)
    }

    /// Asks the runs of flows to end, and does not wait for it.
    fn ask_to_end(&self, flows: &[usize], pauses: bool) {
        let mut state = lock(&self.state);
        for flow in flows {
            state.flows.get_mut(*flow).into_iter().for_each(|run| run.ask_to_end(pauses));
        }
    }

    /// Ends all runs and releases the ports.
    pub(super) fn release(&self) {
        let _change = lock(&self.change);
        self.end_flows(&self.all_flows(), false);
        let mut state = lock(&self.state);
        // Metrics also show the runs of the next configuration.
        *state = ActiveState::with_runs(state.runs.clone());
    }

    /// The indexes of all flows.
    pub(super) fn all_flows(&self) -> Vec<usize> {
        (0..lock(&self.state).flows.len()).collect()
    }

    /// Reads or writes the state.
    pub(super) fn with_state<T>(&self, act: impl FnOnce(&mut ActiveState) -> T) -> T {
        act(&mut lock(&self.state))
    }

    /// Puts a configuration in force. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it; or the host refused.
    pub(super) fn set_config(&self, body: Value) -> Result<Vec<String>, ApiError> {
        self.set_part(body, None, None, fresh_seed())
    }

    /// Checks a configuration of which this host has these ports. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it; devices that others use.
    pub(super) fn check_part(
        &self,
        body: Value,
        ports: &[usize],
        seed: u64,
    ) -> Result<Vec<String>, ApiError> {
        let checked = state::check(body, &*self.rules, Some(ports), seed)?;
        lock(&self.state).refuse_busy(&checked)?;
        Ok(checked.warnings)
    }

    /// Puts a configuration in force of which this host has these ports, or all. `mark` is the run
    /// in the marks of frames, if a controller decides it. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it, and devices that others use: the configuration before stays in
    /// force. Or the host refused.
    pub(super) fn set_part(
        &self,
        body: Value,
        ports: Option<&[usize]>,
        mark: Option<u16>,
        seed: u64,
    ) -> Result<Vec<String>, ApiError> {
        let _change = lock(&self.change);
        let checked = state::check(body, &*self.rules, ports, seed)?;
        lock(&self.state).refuse_busy(&checked)?;
        self.end_flows(&self.all_flows(), false);
        lock(&self.state).take(checked, mark)
    }

    /// Changes flows; unchanged flows continue.
    fn change_config(
        &self,
        body: &Value,
        edit: fn(&Value, &Value) -> Result<Value, RequestRefusal>,
    ) -> Result<ApiReply, ApiError> {
        let _change = lock(&self.change);
        let before = lock(&self.state).as_set();
        let json = edit(&before, body).map_err(refused)?;
        self.replace_flows(json, None).map(warned)
    }

    /// Changes flows of a configuration of which this host has these ports. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn change_part(&self, body: Value, ports: &[usize]) -> Result<Vec<String>, ApiError> {
        let _change = lock(&self.change);
        self.replace_flows(body, Some(ports))
    }

    fn replace_flows(&self, json: Value, ports: Option<&[usize]>) -> Result<Vec<String>, ApiError> {
        let seed = lock(&self.state).seed;
        let checked = state::check(json, &*self.rules, ports, seed)?;
        let CheckedConfig { json, config, unconnected, warnings, .. } = checked;
        lock(&self.state).check_tags(&config)?;
        let (gone, changed) = lock(&self.state).differences(&config);
        self.end_flows(&gone, false);
        lock(&self.state).forget_tagged(&gone);
        // A changed flow continues with its next frame, as after a pause.
        self.end_flows(&changed, true);
        let names: Vec<String> = {
            let state = lock(&self.state);
            changed.iter().map(|flow| state.config.flows[*flow].name.clone()).collect()
        };
        let mut state = lock(&self.state);
        state.change_flows(json, config, unconnected);
        let flows: Vec<usize> =
            (0..state.flows.len()).filter(|flow| names.contains(&state.config.flows[*flow].name)).collect();
        state.run_flows(&flows)?;
        Ok(warnings)
    }

    /// Builds the engines of flows that this host sends, which then wait for the gate to open.
    /// Flows with a number start at frame 0, and receivers count them from now on; the others
    /// continue. `flow_count` flows of all hosts start together.
    ///
    /// # Errors
    /// Gateways that do not answer, and engines that cannot be built: nothing is sent.
    pub(super) fn arm(
        &self,
        starts: &[FlowStart],
        flow_count: usize,
        clears_ports: bool,
    ) -> Result<StartGate, ApiError> {
        let _change = lock(&self.change);
        let of = |start: &FlowStart| start.flow as usize;
        let ranked: Vec<(usize, usize)> = {
            let state = lock(&self.state);
            let sent = starts.iter().filter(|start| state.sends(of(start)));
            sent.map(|start| (start.rank as usize, of(start))).collect()
        };
        let sent: Vec<usize> = ranked.iter().map(|(_, flow)| *flow).collect();
        self.resolve(&sent)?;
        self.end_flows(&sent, true);
        let gate = {
            let mut state = lock(&self.state);
            self.refuse_closing()?;
            state.refuse_gone_ports()?;
            let anew = starts.iter().filter_map(|start| Some((of(start), u32::from(start.number?))));
            state.restart(&anew.collect::<Vec<_>>());
            if clears_ports {
                state.clear_ports();
            }
            state.arm_flows(&RankedFlows { flows: ranked, count: flow_count })?
        };
        let deadline = Instant::now() + BUILD_MAX;
        loop {
            let is_ready = gate.wait_until_ready(POLL_INTERVAL);
            let mut failures = self.failures(&sent);
            if failures.is_empty() && is_ready {
                return Ok(gate);
            }
            if Instant::now() >= deadline {
                failures.push(format!("the engines were not ready after {} s", BUILD_MAX.as_secs()));
            }
            if !failures.is_empty() {
                self.end_flows(&sent, false);
                return Err(ApiError { kind: ErrorKind::Internal, errors: failures });
            }
        }
    }

    /// Ends flows without waiting for their last frames. Returns why runs failed, or were slow.
    pub(super) fn end(&self, flows: &[usize], pauses: bool) -> Vec<String> {
        let _change = lock(&self.change);
        self.end_flows(flows, pauses);
        self.failings(flows)
    }

    fn control(&self, body: &Value) -> Result<ApiReply, ApiError> {
        self.end_at_once(body);
        let _change = lock(&self.change);
        let control = lock(&self.state).config.control(body).map_err(refused)?;
        let warnings = match control {
            ControlRequest::Transmit(flows, TransmitState::Start) => self.start(&flows)?,
            ControlRequest::Transmit(flows, TransmitState::Stop) => self.stop(&flows, false),
            ControlRequest::Transmit(flows, TransmitState::Pause) => self.stop(&flows, true),
            ControlRequest::Transmit(flows, TransmitState::Resume) => self.resume(&flows)?,
            ControlRequest::Capture(ports, starts) => lock(&self.state).capture(&ports, starts)?,
            ControlRequest::Link(ports, up) => {
                self.set_links(&ports, up)?;
                Vec::new()
            }
            ControlRequest::Protocols => Vec::new(),
        };
        Ok(warned(warnings))
    }

    /// Frames of flows that are to stop do not wait until other calls have changed something.
    fn end_at_once(&self, body: &Value) {
        let control = lock(&self.state).config.control(body);
        match control {
            Ok(ControlRequest::Transmit(flows, TransmitState::Stop)) => self.ask_to_end(&flows, false),
            Ok(ControlRequest::Transmit(flows, TransmitState::Pause)) => self.ask_to_end(&flows, true),
            _ => {}
        }
    }

    /// Sets links up or down.
    ///
    /// # Errors
    /// The host refused.
    pub(super) fn set_links(&self, ports: &[usize], up: bool) -> Result<(), ApiError> {
        let mut state = lock(&self.state);
        for &port in ports {
            let now_ns = units::time_of_day_ns();
            state.ports[port].set_link(up, now_ns).map_err(ApiError::internal)?;
        }
        Ok(())
    }

    /// Starts flows from frame 0. Returns warnings.
    ///
    /// # Errors
    /// Ports without a location, gateways that do not answer, and runs that failed.
    pub(super) fn start(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        lock(&self.state).refuse_unconnected(flows)?;
        self.resolve(flows)?;
        self.end_flows(flows, false);
        {
            let mut state = lock(&self.state);
            self.refuse_closing()?;
            state.refuse_gone_ports()?;
            state.begin(flows)?;
            state.run_flows(flows)?;
        }
        self.wait_for_start(flows)
    }

    /// Refuses to start flows while the program ends.
    fn refuse_closing(&self) -> Result<(), ApiError> {
        if self.is_closing() { Err(ApiError::internal("the server ends")) } else { Ok(()) }
    }

    /// Waits until the MAC addresses of the gateways of flows are known.
    fn resolve(&self, flows: &[usize]) -> Result<(), ApiError> {
        let gateways: Vec<_> = {
            let state = lock(&self.state);
            let gateway = |flow: &usize| {
                let (neighbours, interface) = state.gateway(*flow)?;
                Some((Arc::clone(neighbours), interface.to_owned(), state.config.flows[*flow].name.clone()))
            };
            flows.iter().filter_map(gateway).collect()
        };
        let deadline = Instant::now() + RESOLUTION_MAX;
        let mut errors = Vec::new();
        for (neighbours, interface, flow) in gateways {
            let left = deadline.saturating_duration_since(Instant::now());
            if neighbours.wait_for(&interface, left).is_none() {
                let gateway = neighbours.gateway(&interface);
                errors.push(format!("flow {flow}: the gateway {gateway} of {interface} does not answer"));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(ApiError { kind: ErrorKind::Invalid, errors }) }
    }

    fn resume(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        lock(&self.state).refuse_unconnected(flows)?;
        self.resolve(flows)?;
        {
            let mut state = lock(&self.state);
            self.refuse_closing()?;
            let resting: Vec<usize> =
                flows.iter().copied().filter(|flow| !state.flows[*flow].is_sending()).collect();
            let anew: Vec<usize> =
                resting.iter().copied().filter(|flow| !state.flows[*flow].is_paused()).collect();
            state.number(&anew)?;
            state.run_flows(&resting)?;
        }
        self.wait_for_start(flows)
    }

    /// Waits until the engines of all runs are built, for an order that holds no lock: another one
    /// may end the configuration meanwhile. Returns why runs failed.
    ///
    /// # Errors
    /// Runs that failed; the configuration has gone.
    pub(super) fn await_start(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        self.wait_until_started(flows);
        // A release that has ended the runs lets their ports go before it is over.
        let _change = lock(&self.change);
        self.has_started(flows)
    }

    /// Waits until the engines of all runs are built. Returns why runs failed.
    fn wait_for_start(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        self.wait_until_started(flows);
        self.has_started(flows)
    }

    fn wait_until_started(&self, flows: &[usize]) {
        let deadline = Instant::now() + BUILD_MAX;
        let mut waiting: Vec<_> = {
            let state = lock(&self.state);
            flows.iter().filter_map(|flow| state.flows.get(*flow)?.handle().cloned()).collect()
        };
        while let Some(handle) = waiting.last()
            && Instant::now() < deadline
        {
            if handle.has_ended() || handle.snapshot().started_ns != 0 {
                waiting.pop();
            } else {
                thread::sleep(POLL_INTERVAL);
            }
        }
    }

    fn has_started(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        let failures = self.failures(flows);
        let (mut state, now) = (lock(&self.state), Instant::now());
        // An order that waits holds no lock, so the configuration may have gone meanwhile.
        if flows.iter().any(|flow| *flow >= state.flows.len()) {
            return Err(ApiError::internal("the configuration was released before its flows had started"));
        }
        for &flow in flows {
            let received = state.received(flow);
            state.flows[flow].has_started(&received, now);
        }
        if failures.is_empty() {
            Ok(Vec::new())
        } else {
            Err(ApiError { kind: ErrorKind::Internal, errors: failures })
        }
    }

    /// Why runs of flows failed, as far as they have ended. Flows that have gone did not fail.
    fn failures(&self, flows: &[usize]) -> Vec<String> {
        let mut state = lock(&self.state);
        let (mut failures, count) = (Vec::new(), state.flows.len());
        for &flow in flows.iter().filter(|flow| **flow < count) {
            state.settle(flow);
            let name = state.config.flows[flow].name.clone();
            failures.extend(state.flows[flow].failure().map(|failure| format!("flow {name}: {failure}")));
        }
        failures
    }

    /// Why runs of flows failed, or were slower than their rate, as far as they have ended.
    fn failings(&self, flows: &[usize]) -> Vec<String> {
        let mut failings = self.failures(flows);
        let mut state = lock(&self.state);
        for &flow in flows {
            let name = state.config.flows[flow].name.clone();
            failings.extend(state.flows[flow].shortfall().map(|text| format!("flow {name}: {text}")));
        }
        failings
    }

    /// Ends flows and waits for their last frames. Returns why runs failed, or were slow.
    pub(super) fn stop(&self, flows: &[usize], pauses: bool) -> Vec<String> {
        self.end_flows(flows, pauses);
        loop {
            let mut state = lock(&self.state);
            let is_started = |flow: &usize| state.settle(*flow) == FlowState::Started;
            if self.is_closing() || !flows.iter().any(is_started) {
                break;
            }
            drop(state);
            thread::sleep(POLL_INTERVAL);
        }
        let failings = self.failings(flows);
        failings.into_iter().chain(lock(&self.state).without_values(flows)).collect()
    }

    /// Ends the runs of flows. Frames may still be on their way.
    fn end_flows(&self, flows: &[usize], pauses: bool) {
        self.ask_to_end(flows, pauses);
        let state = lock(&self.state);
        let handles: Vec<_> = flows.iter().filter_map(|flow| state.flows[*flow].handle().cloned()).collect();
        drop(state);
        for handle in &handles {
            handle.wait_for_end(END_MAX);
        }
        let mut state = lock(&self.state);
        for &flow in flows {
            let received = state.received(flow).frames;
            state.flows[flow].take_end(received, Duration::ZERO);
        }
        state.look_at_ports(Instant::now());
    }

    fn ping(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let requests = lock(&self.state).config.pings(body).map_err(refused)?;
        let is_answered = self.send_pings(&requests.pings)?;
        Ok(ApiReply::Json(requests.response(&is_answered)))
    }

    /// Pings from emulated interfaces, all at once. Other calls go on while it waits for replies.
    /// Returns whether each was answered.
    ///
    /// # Errors
    /// Addresses that a port may not send to: nothing is sent.
    pub(super) fn send_pings(&self, pings: &[PingRequest]) -> Result<Vec<bool>, ApiError> {
        let pingers: Vec<_> = {
            let state = lock(&self.state);
            let refused = |ping: &PingRequest| {
                let port = state.ports.iter().find(|port| port.name == ping.port)?;
                let why = self.rules.check_destination(&port.location, ping.to).err()?;
                Some(format!("interface {}: ping: {why}", ping.interface))
            };
            let errors: Vec<String> = pings.iter().filter_map(refused).collect();
            if !errors.is_empty() {
                return Err(ApiError { kind: ErrorKind::Invalid, errors });
            }
            let of = |ping: &PingRequest| state.neighbours_at(&ping.port).map(|port| port.pinger());
            pings.iter().map(of).collect()
        };
        let ping = |(ping, port): (&PingRequest, &Option<Pinger>)| {
            port.as_ref().is_some_and(|port| port.ping(&ping.interface, ping.to, PING_MAX))
        };
        thread::scope(|scope| {
            let pings = pings.iter().zip(&pingers);
            let pings: Vec<_> = pings.map(|one| scope.spawn(move || ping(one))).collect();
            Ok(pings.into_iter().map(|ping| ping.join().unwrap_or(false)).collect())
        })
    }

    fn metrics(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let mut state = lock(&self.state);
        let now = Instant::now();
        let table = match state.config.metrics_query(body).map_err(refused)? {
            MetricsQuery::Ports(ports, columns) => {
                let rows = ports.into_iter().map(|port| state.port_row(port, now)).collect();
                MetricsTable::of_ports(rows, columns)
            }
            MetricsQuery::Flows(flows, columns, query) => {
                MetricsTable::of_flows(state.flow_rows(&flows, &query, now), columns)
            }
            MetricsQuery::Egress(egress, columns) => {
                let readings = state.tag_readings(&[], &egress_ports(&state.config, &egress)).ports;
                let row = |(egress, readings): (usize, &Vec<TagReading>)| {
                    egress_row(&state.config.egress[egress], &columns, readings)
                };
                MetricsTable::of_egress(egress.into_iter().zip(&readings).map(row).collect())
            }
        };
        Ok(ApiReply::Metrics(table))
    }

    fn captured(&self, body: &Value) -> Result<ApiReply, ApiError> {
        let _change = lock(&self.change);
        let mut state = lock(&self.state);
        let query = state.config.capture_query(body).map_err(refused)?;
        state.captured(query).map(ApiReply::Bytes)
    }
}
