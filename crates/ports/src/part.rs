//! The part of a configuration that this host runs for a controller: the controller's orders,
//! carried out with what serves a configuration of one host.

use super::backend::{OtgBackend, lock};
use super::port_rules::PortRules;
use engine::StartGate;
use fleet::{FilePiece, FlowStart, OtgOrder, OtgPart, OtgResult, PortPing, PortReading, RatedCounts};
use host::StartTime;
use otg::metrics::{PortCounts, TrafficCounts};
use otg::{CaptureQuery, PingRequest};
use program::monitor::sources::RunList;
use serde_json::Value;
use server::{ApiError, ErrorKind};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Bytes of a file in one answer: with base64 they fit into a message of 1 MiB.
const PIECE_LEN: usize = 512 << 10;
/// A start must be this far away when it is requested.
const GO_LEAD: Duration = Duration::from_millis(50);

/// The part in force.
pub struct HostPart {
    backend: OtgBackend,
    /// Written by orders that put another configuration in force, read by those that use one: the
    /// indexes in an order are checked once. An order that waits for a start or for the answers to
    /// pings holds none.
    in_force: RwLock<()>,
    /// Flows that are armed.
    gate: Mutex<Option<StartGate>>,
    /// The file of the capture that is being read.
    file: Mutex<Vec<u8>>,
    /// The counts by the values of tags that are being read.
    tags: Mutex<Vec<u8>>,
}

impl HostPart {
    /// Nothing is in force yet. `runs` gets the runs of flows, for metrics.
    pub fn new(rules: Box<dyn PortRules>, runs: RunList) -> Self {
        let backend = OtgBackend::new(rules, runs);
        Self {
            backend,
            in_force: RwLock::default(),
            gate: Mutex::default(),
            file: Mutex::default(),
            tags: Mutex::default(),
        }
    }

    /// Carries out an order. It may block.
    pub fn carry_out(&self, order: OtgOrder) -> OtgResult {
        self.attempt(order).unwrap_or_else(|error| OtgResult::Refused {
            is_invalid: matches!(
                error.kind,
                ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Conflict
            ),
            errors: error.shortened(),
        })
    }

    fn attempt(&self, order: OtgOrder) -> Result<OtgResult, ApiError> {
        let backend = &self.backend;
        let _held = match order {
            OtgOrder::AwaitStart { .. } | OtgOrder::Ping { .. } => Held::No,
            OtgOrder::Set(_) | OtgOrder::Change(_) | OtgOrder::Release => {
                Held::Writes(self.in_force.write().unwrap_or_else(PoisonError::into_inner))
            }
            _ => Held::Reads(self.in_force.read().unwrap_or_else(PoisonError::into_inner)),
        };
        match order {
            OtgOrder::Check(part) => {
                let seed = part.seed;
                let (config, ports) = read_part(part)?;
                backend.check_part(config, &ports, seed).map(done)
            }
            OtgOrder::Set(part) => {
                *lock(&self.gate) = None;
                let (mark, seed) = (part.mark, part.seed);
                let (config, ports) = read_part(part)?;
                backend.set_part(config, Some(&ports), Some(mark), seed).map(done)
            }
            OtgOrder::Change(part) => {
                let (config, ports) = read_part(part)?;
                backend.change_part(config, &ports).map(done)
            }
            OtgOrder::Arm { flows, flow_count, clears_ports } => {
                self.flows(flows.iter().map(|start: &FlowStart| start.flow))?;
                let gate = backend.arm(&flows, flow_count as usize, clears_ports)?;
                *lock(&self.gate) = Some(gate);
                Ok(done(Vec::new()))
            }
            OtgOrder::Go { start_at_ns } => self.go(StartTime { unix_ns: start_at_ns }),
            OtgOrder::AwaitStart { flows } => backend.await_start(&self.flows(flows)?).map(done),
            OtgOrder::End { flows, pauses } => {
                *lock(&self.gate) = None;
                Ok(done(backend.end(&self.flows(flows)?, pauses)))
            }
            OtgOrder::Read { flows, ports } => self.read(&self.flows(flows)?, &self.ports(ports)?),
            OtgOrder::Capture { ports, starts } => {
                let ports = self.ports(ports)?;
                backend.with_state(|state| state.capture(&ports, starts)).map(done)
            }
            OtgOrder::ReadCapture { port, slice, offset } => self.read_capture(port, slice, offset as usize),
            OtgOrder::Link { ports, up } => {
                let ports = self.ports(ports)?;
                backend.set_links(&ports, up)?;
                Ok(done(Vec::new()))
            }
            OtgOrder::ReadTags { flows, ports, offset } => {
                self.read_tags(&self.flows(flows)?, &self.ports(ports)?, offset as usize)
            }
            OtgOrder::Ping { pings } => {
                let ping = |PortPing { interface, port, to }| PingRequest { interface, port, to };
                let pings: Vec<PingRequest> = pings.into_iter().map(ping).collect();
                backend.send_pings(&pings).map(OtgResult::Pings)
            }
            OtgOrder::Neighbours => {
                Ok(OtgResult::Neighbours(backend.with_state(|state| state.gateway_macs())))
            }
            OtgOrder::Release => {
                *lock(&self.gate) = None;
                lock(&self.file).clear();
                lock(&self.tags).clear();
                backend.release();
                Ok(done(Vec::new()))
            }
        }
    }

    fn flows(&self, flows: impl IntoIterator<Item = u32>) -> Result<Vec<usize>, ApiError> {
        let count = self.backend.with_state(|state| state.flows.len());
        indexes(flows, count, "flow")
    }

    fn ports(&self, ports: impl IntoIterator<Item = u32>) -> Result<Vec<usize>, ApiError> {
        let count = self.backend.with_state(|state| state.ports.len());
        indexes(ports, count, "port")
    }

    fn go(&self, start_at: StartTime) -> Result<OtgResult, ApiError> {
        if start_at.left() < GO_LEAD {
            let least = GO_LEAD.as_millis();
            return Err(ApiError::internal(format!(
                "late: the time to start has passed, or is less than {least} ms away"
            )));
        }
        let gate = lock(&self.gate).take();
        let gate = gate.ok_or_else(|| ApiError::internal("no flow is armed here"))?;
        gate.open(start_at);
        Ok(done(Vec::new()))
    }

    fn read(&self, flows: &[usize], ports: &[usize]) -> Result<OtgResult, ApiError> {
        let now = Instant::now();
        Ok(self.backend.with_state(|state| OtgResult::Readings {
            flows: flows.iter().map(|flow| state.flow_reading(*flow, now)).collect(),
            ports: ports.iter().map(|port| reading(&state.port_counts(*port, now))).collect(),
        }))
    }

    fn read_capture(
        &self,
        port: u32,
        slice: Option<(u64, u64)>,
        offset: usize,
    ) -> Result<OtgResult, ApiError> {
        let port = self.ports([port])?[0];
        let mut file = lock(&self.file);
        if offset == 0 {
            let slice = slice.map(|(first, count)| (first as usize, count as usize));
            *file =
                self.backend.with_state(|state| state.captured(CaptureQuery { port, capture: 0, slice }))?;
        }
        next_piece(&mut file, offset)
    }

    fn read_tags(&self, flows: &[usize], ports: &[usize], offset: usize) -> Result<OtgResult, ApiError> {
        let mut bytes = lock(&self.tags);
        if offset == 0 {
            let readings = self.backend.with_state(|state| state.tag_readings(flows, ports));
            *bytes = serde_json::to_vec(&readings).expect("counts have a JSON form");
        }
        next_piece(&mut bytes, offset)
    }
}

/// The piece of a file that begins at this byte. With the last one, the file is over.
fn next_piece(file: &mut Vec<u8>, offset: usize) -> Result<OtgResult, ApiError> {
    let piece = file.get(offset..offset.saturating_add(PIECE_LEN).min(file.len()));
    let piece = piece.ok_or_else(|| ApiError::invalid("there are no more bytes"))?.to_vec();
    let is_last = offset + piece.len() == file.len();
    if is_last {
        *file = Vec::new();
    }
    Ok(OtgResult::Piece { bytes: FilePiece(piece), is_last })
}

/// How an order holds the configuration in force.
#[expect(dead_code, reason = "the guards are held, not read")]
enum Held<'a> {
    No,
    Reads(RwLockReadGuard<'a, ()>),
    Writes(RwLockWriteGuard<'a, ()>),
}

/// A part as the model has it. A controller of another version may have sent something else.
fn read_part(part: OtgPart) -> Result<(Value, Vec<usize>), ApiError> {
    let config =
        otg::model::from_json(otg::model::message("Config"), part.config).map_err(ApiError::invalid)?;
    Ok((otg::model::to_json(&config), part.ports.into_iter().map(|port| port as usize).collect()))
}

fn done(warnings: Vec<String>) -> OtgResult {
    OtgResult::Done { warnings }
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
        let part = HostPart::new(Box::new(rules), RunList::default());
        let flow = |number: usize| {
            let ends = json!({"choice": "port", "port": {"tx_name": "nowhere"}});
            json!({"name": format!("f{number}"), "tx_rx": ends})
        };
        let config = json!({"flows": (0..150).map(flow).collect::<Vec<_>>()});
        let expected = OtgConfig::read(&config, 1).unwrap_err();
        let refused =
            part.carry_out(OtgOrder::Check(OtgPart { config, ports: Vec::new(), mark: 0, seed: 1 }));
        let OtgResult::Refused { is_invalid: true, errors } = refused else { panic!("{refused:?}") };
        assert_eq!((errors.len(), errors), (101, expected));
    }
}
