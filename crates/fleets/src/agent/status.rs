//! What an agent announces about its host, and what its answers say of it.

use super::config::{AgentFile, AgentPort};
use super::host_run::AgentClock;
use fleet::{AgentAnswer, FleetName, HostStatus, OrderResult, PROTOCOL, PortStatus};
use host::ClockQuality;
use program::start_at::{boot_id, host_clock};
use sender::device::TxDevice;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A daemon for the clock may start later than the agent.
const DAEMON_AGE_MAX: Duration = Duration::from_secs(60);

/// Facts that take long to find out, so they are kept from one announcement to the next.
#[derive(Debug, Default)]
pub(super) struct KeptFacts {
    /// The device of each port by its number, and the engine for it.
    engines: BTreeMap<FleetName, (u32, Option<String>)>,
    clock_daemon: Option<String>,
    looked: Option<Instant>,
}

impl KeptFacts {
    /// The program that synchronizes the clock.
    fn clock_daemon(&mut self) -> Option<String> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= DAEMON_AGE_MAX) {
            self.looked = Some(Instant::now());
            self.clock_daemon = host::clock_daemon().map(str::to_owned);
        }
        self.clock_daemon.clone()
    }

    /// The engine for a port. It is probed once, while there is no run (`may_probe`): probing takes
    /// some of what a run needs.
    fn engine(&mut self, port: &AgentPort, device: &TxDevice, may_probe: bool) -> Option<String> {
        let known = self.engines.get(&port.name).filter(|(index, _)| *index == device.link.index);
        if known.is_none() && may_probe && device.link.has_carrier() {
            let engine = doctor::engine_of(device).ok().flatten().map(str::to_owned);
            self.engines.insert(port.name.clone(), (device.link.index, engine));
        }
        self.engines.get(&port.name).and_then(|(_, engine)| engine.clone())
    }
}

/// The host now; `busy` has the ports that a run has. The agent is an instance, and may have a
/// double.
pub(super) fn status(
    file: &AgentFile,
    clock: AgentClock,
    busy: &BTreeMap<FleetName, FleetName>,
    facts: &mut KeptFacts,
    (instance, has_double): (u64, bool),
) -> HostStatus {
    let may_probe = busy.is_empty();
    let mut port = |port: &AgentPort| port_status(port, busy.get(&port.name), facts, may_probe);
    let ports = file.ports.iter().map(&mut port).collect();
    HostStatus {
        host: file.host.clone(),
        instance,
        has_double,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL,
        boot_id: boot_id(),
        time_ns: clock.now_ns(),
        clock: host_clock(),
        clock_daemon: facts.clock_daemon(),
        tai_offset_s: ClockQuality::now().tai_offset_s,
        ports,
    }
}

/// Who answers.
#[derive(Clone, Debug)]
pub(super) struct Answerer {
    /// The host.
    pub(super) host: FleetName,
    /// Identifies the process of this agent.
    pub(super) instance: u64,
    /// Its clock.
    pub(super) clock: AgentClock,
}

impl Answerer {
    /// An answer of this host to a request that arrived at this time of its clock.
    pub(super) fn answer(&self, request_ns: u64, result: OrderResult) -> AgentAnswer {
        AgentAnswer {
            host: self.host.clone(),
            instance: self.instance,
            clock: host_clock(),
            boot_id: boot_id(),
            request_ns,
            time_ns: self.clock.now_ns(),
            result,
        }
    }
}

fn port_status(
    port: &AgentPort,
    run: Option<&FleetName>,
    facts: &mut KeptFacts,
    may_probe: bool,
) -> PortStatus {
    let status = PortStatus {
        name: port.name.clone(),
        device: port.device().to_owned(),
        netns: port.netns.clone(),
        mac: None,
        address: None,
        driver: None,
        speed_bps: None,
        state: if port.dry { "dry" } else { "missing" }.to_owned(),
        is_default_route: false,
        engine: None,
        run: run.cloned(),
    };
    if port.dry {
        return status;
    }
    let Ok(device) = TxDevice::find(port.netns.as_deref(), port.device()) else { return status };
    let state = match device.link.is_up() {
        true if device.link.has_carrier() => "up",
        true => "no carrier",
        false => "down",
    };
    let driver = device
        .stack
        .device_state(port.device())
        .ok()
        .and_then(|state| state.driver)
        .map(|driver| driver.name);
    PortStatus {
        mac: Some(device.facts.mac.to_string()),
        address: device.facts.v4.map(|address| address.to_string()),
        driver,
        speed_bps: device.stack.speed_bps(device.link.index).ok().flatten(),
        state: state.to_owned(),
        is_default_route: device.stack.carries_default_route(&device.link).unwrap_or(false),
        engine: facts.engine(port, &device, may_probe),
        ..status
    }
}
