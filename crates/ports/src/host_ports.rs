//! The ports of this host, for a controller: its orders, carried out with the workers of `engine`
//! and with the receivers and captures of `capture`.
//!
//! One lock is held while an order changes something, another while the state is read or written.
//! So counts are read while an order waits.

use super::neighbours::Pinger;
use super::port_rules::PortRules;
use super::state::{self, ActiveState, CheckedConfig, RankedFlows};
use engine::StartGate;
use fleet::{
    FilePiece, FlowStart, Order, OrderResult, OtgPart, Part, PortPing, PortReading, RatedCounts, RefusalKind,
};
use host::StartTime;
use otg::metrics::{PortCounts, TrafficCounts};
use otg::{CaptureQuery, PingRequest};
use program::monitor::sources::RunList;
use server::{ApiError, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

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

/// Bytes of a file in one answer: with base64 they fit into a message of 1 MiB.
const PIECE_LEN: usize = 512 << 10;
/// A start must be this far away when it is requested.
const GO_LEAD: Duration = Duration::from_millis(50);

/// The part of a configuration that is in force here.
pub struct HostPorts {
    rules: Box<dyn PortRules>,
    /// Written by orders that put another configuration in force, read by those that use one: the
    /// indexes in an order are checked once. An order that waits for a start or for the answers to
    /// pings holds none.
    in_force: RwLock<()>,
    /// Held by orders that change something.
    change: Mutex<()>,
    state: Mutex<ActiveState>,
    /// The part that was checked last.
    checked: Mutex<Option<(OtgPart, CheckedConfig)>>,
    armed: Mutex<Option<ArmedFlows>>,
    /// The file of the capture that is being read.
    file: Mutex<Vec<u8>>,
    /// The counts by the values of tags that are being read.
    tags: Mutex<Vec<u8>>,
    /// The program ends: no flow starts any more.
    is_closing: AtomicBool,
}

/// Flows whose engines are built and wait for their start.
struct ArmedFlows {
    gate: StartGate,
    flows: Vec<usize>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostPorts {
    /// Nothing is in force yet. `runs` gets the runs of flows, for metrics.
    pub fn new(rules: Box<dyn PortRules>, runs: RunList) -> Self {
        Self {
            rules,
            in_force: RwLock::default(),
            change: Mutex::default(),
            state: Mutex::new(ActiveState::with_runs(runs)),
            checked: Mutex::default(),
            armed: Mutex::default(),
            file: Mutex::default(),
            tags: Mutex::default(),
            is_closing: AtomicBool::new(false),
        }
    }

    /// Carries out an order. It may block.
    pub fn carry_out(&self, order: Order) -> OrderResult {
        self.attempt(order).unwrap_or_else(refusal)
    }

    /// Carries out an order that came over a hub. Its configuration becomes one of the model first,
    /// since a controller may have sent anything. It may block.
    pub fn carry_out_received(&self, order: Order) -> OrderResult {
        modelled(order).map_or_else(refusal, |order| self.carry_out(order))
    }

    fn attempt(&self, order: Order) -> Result<OrderResult, ApiError> {
        let _held = match order {
            Order::AwaitStart { .. } | Order::Ping { .. } => Held::No,
            Order::Prepare(_) | Order::Change(_) | Order::Release => {
                Held::Writes(self.in_force.write().unwrap_or_else(PoisonError::into_inner))
            }
            _ => Held::Reads(self.in_force.read().unwrap_or_else(PoisonError::into_inner)),
        };
        match order {
            Order::Check { part, is_change } => self.check_part(of_config(part)?, is_change).map(done),
            Order::Prepare(part) => {
                *lock(&self.armed) = None;
                self.set_part(of_config(part)?).map(done)
            }
            Order::Change(part) => self.change_part(part).map(done),
            Order::Arm { flows, flow_count, clears_ports } => {
                self.flows(flows.iter().map(|start: &FlowStart| start.flow))?;
                let armed = self.arm(&flows, flow_count as usize, clears_ports)?;
                *lock(&self.armed) = Some(armed);
                Ok(done(Vec::new()))
            }
            Order::Go { start_at_ns } => self.go(start_at_ns.map(|unix_ns| StartTime { unix_ns })),
            Order::AwaitStart { flows } => self.await_start(&self.flows(flows)?).map(done),
            Order::Stop { flows, pauses } => Ok(done(self.end(&self.flows(flows)?, pauses))),
            Order::Read { flows, ports } => self.read(&self.flows(flows)?, &self.ports(ports)?),
            Order::Capture { ports, starts } => {
                let ports = self.ports(ports)?;
                self.with_state(|state| state.capture(&ports, starts)).map(done)
            }
            Order::ReadCapture { port, slice, offset } => self.read_capture(port, slice, offset as usize),
            Order::Link { ports, up } => {
                let ports = self.ports(ports)?;
                self.set_links(&ports, up)?;
                Ok(done(Vec::new()))
            }
            Order::ReadTags { flows, ports, offset } => {
                self.read_tags(&self.flows(flows)?, &self.ports(ports)?, offset as usize)
            }
            Order::Ping { pings } => {
                let ping = |PortPing { interface, port, to }| PingRequest { interface, port, to };
                let pings: Vec<PingRequest> = pings.into_iter().map(ping).collect();
                self.send_pings(&pings).map(OrderResult::Pings)
            }
            Order::Neighbours => Ok(OrderResult::Neighbours(self.with_state(|state| state.gateway_macs()))),
            Order::Release => {
                *lock(&self.armed) = None;
                *lock(&self.checked) = None;
                lock(&self.file).clear();
                lock(&self.tags).clear();
                self.release();
                Ok(done(Vec::new()))
            }
        }
    }

    fn flows(&self, flows: impl IntoIterator<Item = u32>) -> Result<Vec<usize>, ApiError> {
        let count = self.with_state(|state| state.flows.len());
        indexes(flows, count, "flow")
    }

    fn ports(&self, ports: impl IntoIterator<Item = u32>) -> Result<Vec<usize>, ApiError> {
        let count = self.with_state(|state| state.ports.len());
        indexes(ports, count, "port")
    }

    /// Starts what is armed, at a time or at once.
    fn go(&self, start_at: Option<StartTime>) -> Result<OrderResult, ApiError> {
        if start_at.is_some_and(|start_at| start_at.left() < GO_LEAD) {
            let least = GO_LEAD.as_millis();
            return Err(ApiError::internal(format!(
                "late: the time to start has passed, or is less than {least} ms away"
            )));
        }
        let armed = lock(&self.armed).take();
        let armed = armed.ok_or_else(|| ApiError::internal("no flow is armed here"))?;
        armed.gate.open(start_at);
        Ok(done(Vec::new()))
    }

    fn read(&self, flows: &[usize], ports: &[usize]) -> Result<OrderResult, ApiError> {
        let now = Instant::now();
        Ok(self.with_state(|state| OrderResult::Readings {
            flows: flows.iter().map(|flow| state.flow_reading(*flow, now)).collect(),
            ports: ports.iter().map(|port| reading(&state.port_counts(*port, now))).collect(),
        }))
    }

    fn read_capture(
        &self,
        port: u32,
        slice: Option<(u64, u64)>,
        offset: usize,
    ) -> Result<OrderResult, ApiError> {
        let port = self.ports([port])?[0];
        let mut file = lock(&self.file);
        if offset == 0 {
            let slice = slice.map(|(first, count)| (first as usize, count as usize));
            *file = self.with_state(|state| state.captured(CaptureQuery { port, capture: 0, slice }))?;
        }
        next_piece(&mut file, offset)
    }

    fn read_tags(&self, flows: &[usize], ports: &[usize], offset: usize) -> Result<OrderResult, ApiError> {
        let mut bytes = lock(&self.tags);
        if offset == 0 {
            let readings = self.with_state(|state| state.tag_readings(flows, ports));
            *bytes = serde_json::to_vec(&readings).expect("counts have a JSON form");
        }
        next_piece(&mut bytes, offset)
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
    fn release(&self) {
        let _change = lock(&self.change);
        self.end_flows(&self.all_flows(), false);
        let mut state = lock(&self.state);
        // Metrics also show the runs of the next configuration.
        *state = ActiveState::with_runs(state.runs.clone());
    }

    /// The indexes of all flows.
    fn all_flows(&self) -> Vec<usize> {
        (0..lock(&self.state).flows.len()).collect()
    }

    /// Reads or writes the state.
    pub(super) fn with_state<T>(&self, act: impl FnOnce(&mut ActiveState) -> T) -> T {
        act(&mut lock(&self.state))
    }

    /// Checks a part. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it; devices that others use.
    fn check_part(&self, part: OtgPart, is_change: bool) -> Result<Vec<String>, ApiError> {
        let checked = self.read_part(&part)?;
        let state = lock(&self.state);
        state.refuse_busy(&checked)?;
        if is_change {
            state.check_tags(&checked.config)?;
        }
        let warnings = checked.warnings.clone();
        *lock(&self.checked) = Some((part, checked));
        Ok(warnings)
    }

    /// Puts a part in force. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it, and devices that others use: the configuration before stays in
    /// force. Or the host refused.
    fn set_part(&self, part: OtgPart) -> Result<Vec<String>, ApiError> {
        let _change = lock(&self.change);
        let checked = self.checked(&part)?;
        lock(&self.state).refuse_busy(&checked)?;
        self.end_flows(&self.all_flows(), false);
        lock(&self.state).take(checked, part.mark)
    }

    /// Reads a part, and finds its devices.
    ///
    /// # Errors
    /// All that is wrong with it.
    fn read_part(&self, part: &OtgPart) -> Result<CheckedConfig, ApiError> {
        let ports: Vec<usize> = part.ports.iter().map(|port| *port as usize).collect();
        state::check(&part.config, &*self.rules, &ports, part.seed)
    }

    /// A part that was checked a moment ago is not read again.
    ///
    /// # Errors
    /// All that is wrong with it.
    fn checked(&self, part: &OtgPart) -> Result<CheckedConfig, ApiError> {
        match lock(&self.checked).take() {
            Some((known, checked)) if known == *part => Ok(checked),
            _ => self.read_part(part),
        }
    }

    /// Changes the flows of the configuration in force. Returns warnings.
    ///
    /// # Errors
    /// All that is wrong with it.
    fn change_part(&self, part: OtgPart) -> Result<Vec<String>, ApiError> {
        let _change = lock(&self.change);
        let CheckedConfig { config, warnings, .. } = self.checked(&part)?;
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
        state.change_flows(config);
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
    fn arm(
        &self,
        starts: &[FlowStart],
        flow_count: usize,
        clears_ports: bool,
    ) -> Result<ArmedFlows, ApiError> {
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
                return Ok(ArmedFlows { gate, flows: sent });
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

    /// Ends flows, also while another order changes something. It does not wait for their last
    /// frames. Returns why runs failed, or were slow.
    fn end(&self, flows: &[usize], pauses: bool) -> Vec<String> {
        self.ask_to_end(flows, pauses);
        lock(&self.armed).take_if(|armed| armed.flows.iter().all(|flow| flows.contains(flow)));
        let _change = lock(&self.change);
        self.end_flows(flows, pauses);
        self.failings(flows)
    }

    /// Sets links up or down.
    ///
    /// # Errors
    /// The host refused.
    fn set_links(&self, ports: &[usize], up: bool) -> Result<(), ApiError> {
        let mut state = lock(&self.state);
        for &port in ports {
            let now_ns = units::time_of_day_ns();
            state.ports[port].set_link(up, now_ns).map_err(ApiError::internal)?;
        }
        Ok(())
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

    /// Waits until the engines of all runs are built, for an order that holds no lock: another one
    /// may end the configuration meanwhile. Returns why runs failed.
    ///
    /// # Errors
    /// Runs that failed; the configuration has gone.
    fn await_start(&self, flows: &[usize]) -> Result<Vec<String>, ApiError> {
        self.wait_until_started(flows);
        // A release that has ended the runs lets their ports go before it is over.
        let _change = lock(&self.change);
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

    /// Pings from emulated interfaces, all at once. Other calls go on while it waits for replies.
    /// Returns whether each was answered.
    ///
    /// # Errors
    /// Addresses that a port may not send to: nothing is sent.
    fn send_pings(&self, pings: &[PingRequest]) -> Result<Vec<bool>, ApiError> {
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
}

/// The piece of a file that begins at this byte. With the last one, the file is over.
fn next_piece(file: &mut Vec<u8>, offset: usize) -> Result<OrderResult, ApiError> {
    let piece = file.get(offset..offset.saturating_add(PIECE_LEN).min(file.len()));
    let piece = piece.ok_or_else(|| ApiError::invalid("there are no more bytes"))?.to_vec();
    let is_last = offset + piece.len() == file.len();
    if is_last {
        *file = Vec::new();
    }
    Ok(OrderResult::Piece { bytes: FilePiece(piece), is_last })
}

/// How an order holds the configuration in force.
#[expect(dead_code, reason = "the guards are held, not read")]
enum Held<'a> {
    No,
    Reads(RwLockReadGuard<'a, ()>),
    Writes(RwLockWriteGuard<'a, ()>),
}

/// An error as the answer to an order.
fn refusal(error: ApiError) -> OrderResult {
    OrderResult::Refused {
        kind: match error.kind {
            ErrorKind::Invalid => RefusalKind::Invalid,
            ErrorKind::Unsupported => RefusalKind::Unsupported,
            ErrorKind::Conflict => RefusalKind::Conflict,
            ErrorKind::Internal | ErrorKind::Busy => RefusalKind::Host,
        },
        errors: error.shortened(),
        tries: Vec::new(),
    }
}

/// An order whose configuration is one of the model: names as in the model, numbers as numbers.
fn modelled(mut order: Order) -> Result<Order, ApiError> {
    if let Order::Check { part: Part::Config(part), .. }
    | Order::Prepare(Part::Config(part))
    | Order::Change(part) = &mut order
    {
        let config = otg::model::from_json(otg::model::message("Config"), part.config.take());
        part.config = otg::model::to_json(&config.map_err(ApiError::invalid)?);
    }
    Ok(order)
}

/// A part of a configuration. Those of a test are carried out by an agent.
fn of_config(part: Part) -> Result<OtgPart, ApiError> {
    match part {
        Part::Config(part) => Ok(part),
        Part::Test(_) => Err(ApiError::invalid("the order has no configuration")),
    }
}

fn done(warnings: Vec<String>) -> OrderResult {
    OrderResult::Done { warnings }
}

/// Indexes that there are.
fn indexes(indexes: impl IntoIterator<Item = u32>, count: usize, what: &str) -> Result<Vec<usize>, ApiError> {
    let index = |index: u32| match (index as usize) < count {
        true => Ok(index as usize),
        false => {
            Err(ApiError::internal(format!("this host has no {what} {index}: set the configuration again")))
        }
    };
    indexes.into_iter().map(index).collect()
}

fn reading(counts: &PortCounts) -> PortReading {
    let rated = |counts: TrafficCounts| {
        let TrafficCounts { frames, bytes, rate } = counts;
        RatedCounts { frames, bytes, rate }
    };
    PortReading {
        is_up: counts.is_up,
        is_capturing: counts.is_capturing,
        is_sending: counts.is_sending,
        sent: rated(counts.tx),
        received: rated(counts.rx),
        last_change_ns: counts.last_change_ns,
        speed_bps: counts.speed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::LocalPorts;
    use crate::progress::DrainRule;
    use otg::OtgConfig;
    use serde_json::json;

    #[test]
    fn a_refusal_has_the_number_of_all_further_errors() {
        let rules = LocalPorts {
            mapped: Vec::new(),
            allows_default_route: false,
            keep_going: true,
            drain: DrainRule::default(),
        };
        let part = HostPorts::new(Box::new(rules), RunList::default());
        let flow = |number: usize| {
            let ends = json!({"choice": "port", "port": {"tx_name": "nowhere"}});
            json!({"name": format!("f{number}"), "tx_rx": ends})
        };
        let config = json!({"flows": (0..150).map(flow).collect::<Vec<_>>()});
        let expected = OtgConfig::read(&config, 1).unwrap_err();
        let refused = part.carry_out(Order::Check {
            part: Part::Config(OtgPart { config, ports: Vec::new(), mark: 0, seed: 1 }),
            is_change: false,
        });
        let OrderResult::Refused { kind: RefusalKind::Invalid, errors, .. } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((errors.len(), errors), (101, expected));
    }
}
