//! What an agent announces about its host.

use super::config::{AgentFile, AgentPort};
use super::host_run::AgentClock;
use crate::cmd::send::device::TxDevice;
use crate::start_at::host_clock;
use fleet::{FleetName, HostStatus, PortStatus};
use std::collections::BTreeMap;

/// Identifies the running kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The number of this boot; empty if the kernel does not tell it.
pub(super) fn boot_id() -> String {
    std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// The host now; `busy` has the ports that a run has.
pub(super) fn status(
    file: &AgentFile,
    clock: AgentClock,
    busy: &BTreeMap<FleetName, FleetName>,
) -> HostStatus {
    HostStatus {
        host: file.host.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: boot_id(),
        time_ns: clock.now_ns(),
        clock: host_clock(),
        ports: file.ports.iter().map(|port| port_status(port, busy.get(&port.name))).collect(),
    }
}

fn port_status(port: &AgentPort, run: Option<&FleetName>) -> PortStatus {
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
        ..status
    }
}
