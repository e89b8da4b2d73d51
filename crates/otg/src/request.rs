//! Requests of clients beside configurations: control states, metrics, states, captures.

use crate::config::OtgConfig;
use crate::device::EmulatedInterface;
use crate::node::{ConfigNode, Findings};
use crate::table::TaggedQuery;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Pings of an action, which run at once.
const PINGS_MAX: usize = 256;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestRefusal {
    /// The request is wrong: one sentence per error.
    Invalid(Vec<String>),
    /// The model has it, wirerate does not do it.
    Unsupported(String),
}

/// What `SetControlState` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// Flows, as indexes into [`OtgConfig::flows`].
    Transmit(Vec<usize>, TransmitState),
    /// Ports, as indexes into [`OtgConfig::ports`]: their captures start or stop.
    Capture(Vec<usize>, bool),
    /// Ports, as indexes: their links go up or down.
    Link(Vec<usize>, bool),
    /// All protocols: there are none.
    Protocols,
}

/// What a client requests of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitState {
    /// From frame 0, with counters at 0.
    Start,
    /// To the end.
    Stop,
    /// Pause; the run can be resumed.
    Pause,
    /// Continue with the next frame.
    Resume,
}

/// What `GetMetrics` asks for: rows by index, and their columns; all columns if empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsQuery {
    /// Of ports.
    Ports(Vec<usize>, Vec<String>),
    /// Of flows with metrics; and which rows of values.
    Flows(Vec<usize>, Vec<String>, TaggedQuery),
    /// Of ports that count all their frames by values, as indexes into [`OtgConfig::egress`]; and
    /// the columns of their rows.
    Egress(Vec<usize>, Vec<String>),
}

/// The pings that `SetControlAction` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingRequests {
    /// True for IPv4, false for IPv6.
    pub is_ipv4: bool,
    /// The pings, in order.
    pub pings: Vec<PingRequest>,
}

/// A ping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingRequest {
    /// The interface that it is sent from.
    pub interface: String,
    /// Its port.
    pub port: String,
    /// Who is to answer.
    pub to: IpAddr,
}

impl PingRequests {
    /// The model's `ControlActionResponse`; `is_answered` has a result for each ping.
    pub fn response(&self, is_answered: &[bool]) -> Value {
        let response = |(ping, is_answered): (&PingRequest, &bool)| {
            let result = if *is_answered { "succeeded" } else { "failed" };
            json!({"src_name": ping.interface, "dst_ip": ping.to.to_string(), "result": result})
        };
        let responses: Vec<Value> = self.pings.iter().zip(is_answered).map(response).collect();
        let version = if self.is_ipv4 { "ipv4" } else { "ipv6" };
        let ping = json!({"choice": "ping", "ping": {"responses": responses}});
        let protocol = json!({"choice": version, version: ping});
        json!({"warnings": [], "response": {"choice": "protocol", "protocol": protocol}})
    }
}

/// What `GetCapture` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureQuery {
    /// The port, as index into [`OtgConfig::ports`].
    pub port: usize,
    /// The capture, as index into [`OtgConfig::captures`].
    pub capture: usize,
    /// The first frame, from 0 on, and how many; all if `None`.
    pub slice: Option<(usize, usize)>,
}

/// Reads an object whole; its errors refuse the request.
fn read<T>(
    json: &Value,
    read: impl FnOnce(&ConfigNode) -> Result<T, RequestRefusal>,
) -> Result<T, RequestRefusal> {
    let empty = Map::new();
    let findings = Findings::default();
    let node = ConfigNode::root(json.as_object().unwrap_or(&empty), &findings);
    let value = node.whole(read)?;
    findings.finish().map_err(RequestRefusal::Invalid)?;
    Ok(value)
}

/// The indexes of names, in their order and each once; all if there are none.
fn indexes<'a>(
    names: &[String],
    all: impl Iterator<Item = &'a str>,
    what: &str,
) -> Result<Vec<usize>, RequestRefusal> {
    if names.is_empty() {
        return Ok((0..all.count()).collect());
    }
    let known: HashMap<&str, usize> = all.enumerate().map(|(index, name)| (name, index)).collect();
    let (mut found, mut unknown, mut named) = (Vec::new(), Vec::new(), HashSet::new());
    for name in names.iter().filter(|name| named.insert(&name[..])) {
        match known.get(&name[..]) {
            Some(index) => found.push(*index),
            None => unknown.push(format!("there is no {what} named {name}")),
        }
    }
    if unknown.is_empty() { Ok(found) } else { Err(RequestRefusal::Invalid(unknown)) }
}

/// True if the state, which is required, is this one. Of two states it is the other one otherwise.
fn is_on(node: &ConfigNode, on: &str) -> bool {
    node.required("state") == on
}

impl OtgConfig {
    fn port_indexes(&self, names: &[String]) -> Result<Vec<usize>, RequestRefusal> {
        indexes(names, self.ports.iter().map(|port| &port.name[..]), "port")
    }

    fn flow_indexes(&self, names: &[String]) -> Result<Vec<usize>, RequestRefusal> {
        indexes(names, self.flows.iter().map(|flow| &flow.name[..]), "flow")
    }

    /// The capture of a port, as index.
    pub fn capture_of(&self, port: usize) -> Option<usize> {
        let name = &self.ports[port].name;
        self.captures.iter().position(|capture| capture.ports.contains(name))
    }

    /// Reads a control state.
    ///
    /// # Errors
    /// Unknown names, ports without a capture, states of protocols.
    pub fn control(&self, json: &Value) -> Result<ControlRequest, RequestRefusal> {
        read(json, |node| {
            node.ignore(&["choice"]);
            let choice = node.choice("traffic");
            let inner = |name| {
                node.object(name).ok_or_else(|| RequestRefusal::Invalid(vec![format!("{name}: is required")]))
            };
            match choice {
                "traffic" => inner("traffic")?.whole(|node| self.transmit(node)),
                "port" => inner("port")?.whole(|node| self.port_state(node)),
                "protocol" => inner("protocol")?.whole(protocol_state),
                other => Err(RequestRefusal::Unsupported(format!("control state {other} is not supported"))),
            }
        })
    }

    fn transmit(&self, node: &ConfigNode) -> Result<ControlRequest, RequestRefusal> {
        node.ignore(&["choice"]);
        let Some(transmit) = node.object("flow_transmit") else {
            return Err(RequestRefusal::Invalid(vec!["traffic.flow_transmit: is required".to_owned()]));
        };
        transmit.whole(|node| {
            let flows = self.flow_indexes(&node.texts("flow_names"))?;
            let state = match node.required("state") {
                "start" => TransmitState::Start,
                "pause" => TransmitState::Pause,
                "resume" => TransmitState::Resume,
                // The model has no other state.
                _ => TransmitState::Stop,
            };
            Ok(ControlRequest::Transmit(flows, state))
        })
    }

    fn port_state(&self, node: &ConfigNode) -> Result<ControlRequest, RequestRefusal> {
        node.ignore(&["choice"]);
        match node.choice("capture") {
            "link" => {
                let Some(link) = node.object("link") else {
                    return Err(RequestRefusal::Invalid(vec!["port.link: is required".to_owned()]));
                };
                link.whole(|node| {
                    Ok(ControlRequest::Link(self.port_indexes(&node.texts("port_names"))?, is_on(node, "up")))
                })
            }
            _ => {
                let Some(capture) = node.object("capture") else {
                    return Err(RequestRefusal::Invalid(vec!["port.capture: is required".to_owned()]));
                };
                capture.whole(|node| {
                    let names = node.texts("port_names");
                    let mut ports = self.port_indexes(&names)?;
                    if names.is_empty() {
                        ports.retain(|port| self.capture_of(*port).is_some());
                    }
                    let without = ports.iter().filter(|port| self.capture_of(**port).is_none());
                    let errors: Vec<String> = without.map(|port| self.no_capture(*port)).collect();
                    if !errors.is_empty() {
                        return Err(RequestRefusal::Invalid(errors));
                    }
                    Ok(ControlRequest::Capture(ports, is_on(node, "start")))
                })
            }
        }
    }

    fn no_capture(&self, port: usize) -> String {
        format!("port {} has no capture in the configuration", self.ports[port].name)
    }

    /// Reads a request for metrics.
    ///
    /// # Errors
    /// Unknown names, flows without metrics, metrics of protocols.
    pub fn metrics_query(&self, json: &Value) -> Result<MetricsQuery, RequestRefusal> {
        read(json, |node| {
            node.ignore(&["choice"]);
            match node.choice("port") {
                "port" => node.object("port").map_or_else(
                    || Ok(MetricsQuery::Ports(self.port_indexes(&[])?, Vec::new())),
                    |node| {
                        node.whole(|node| {
                            let ports = self.port_indexes(&node.texts("port_names"))?;
                            Ok(MetricsQuery::Ports(ports, node.texts("column_names")))
                        })
                    },
                ),
                "flow" => match node.object("flow") {
                    None => {
                        Ok(MetricsQuery::Flows(self.measured_flows(&[])?, Vec::new(), TaggedQuery::default()))
                    }
                    Some(node) => node.whole(|node| {
                        let flows = self.measured_flows(&node.texts("flow_names"))?;
                        let tagged = node.object("tagged_metrics").map(|node| node.whole(read_tagged));
                        let tagged = tagged.unwrap_or_default();
                        Ok(MetricsQuery::Flows(flows, node.texts("metric_names"), tagged))
                    }),
                },
                "egress_only_tracking" => match node.object("egress_only_tracking") {
                    None => Ok(MetricsQuery::Egress(self.egress_indexes(&[])?, Vec::new())),
                    Some(node) => node.whole(|node| {
                        let ports = self.egress_indexes(&node.texts("port_names"))?;
                        let columns = node.object("tagged_metrics").map(|node| node.whole(read_tagged));
                        Ok(MetricsQuery::Egress(ports, columns.unwrap_or_default().columns))
                    }),
                },
                other => Err(RequestRefusal::Unsupported(format!("metrics of {other} are not supported"))),
            }
        })
    }

    /// The egress trackings of ports, all if none is named.
    fn egress_indexes(&self, names: &[String]) -> Result<Vec<usize>, RequestRefusal> {
        indexes(names, self.egress.iter().map(|egress| &egress.port[..]), "port with egress_only_tracking")
    }

    /// Flows with metrics: those named, which must have them, or all that do.
    fn measured_flows(&self, names: &[String]) -> Result<Vec<usize>, RequestRefusal> {
        let mut flows = self.flow_indexes(names)?;
        if names.is_empty() {
            flows.retain(|flow| self.flows[*flow].metrics.enable);
        }
        let without = flows.iter().map(|flow| &self.flows[*flow]).filter(|flow| !flow.metrics.enable);
        let errors: Vec<String> =
            without.map(|flow| format!("flow {}: metrics are not enabled", flow.name)).collect();
        if errors.is_empty() { Ok(flows) } else { Err(RequestRefusal::Invalid(errors)) }
    }

    /// Reads an action: pings of emulated interfaces.
    ///
    /// # Errors
    /// Unknown interfaces, addresses of another version of IP, other actions.
    pub fn pings(&self, json: &Value) -> Result<PingRequests, RequestRefusal> {
        let unsupported =
            |what: &str| Err(RequestRefusal::Unsupported(format!("action {what} is not supported")));
        read(json, |node| {
            node.ignore(&["choice", "port"]);
            let Some(protocol) = node.object("protocol").filter(|_| node.choice("protocol") == "protocol")
            else {
                return unsupported(node.choice("protocol"));
            };
            protocol.whole(|node| {
                node.ignore(&["choice", "bgp", "isis"]);
                let (version, is_ipv4) = match node.choice("ipv4") {
                    "ipv4" => ("ipv4", true),
                    "ipv6" => ("ipv6", false),
                    other => return unsupported(&format!("protocol.{other}")),
                };
                let ping = |node: &ConfigNode| self.ping_request(node, is_ipv4);
                let pings = node.object(version).map(|node| {
                    node.whole(|node| {
                        node.ignore(&["choice"]);
                        let Some(pings) = node.object("ping") else { return Vec::new() };
                        let requests = pings.objects("requests");
                        pings.whole(|_| ());
                        requests.into_iter().filter_map(|node| node.whole(ping)).collect()
                    })
                });
                let pings: Vec<PingRequest> = pings.unwrap_or_default();
                if pings.len() > PINGS_MAX {
                    node.error(format!("more than {PINGS_MAX} pings are not supported"));
                }
                Ok(PingRequests { is_ipv4, pings })
            })
        })
    }

    fn ping_request(&self, node: &ConfigNode, is_ipv4: bool) -> Option<PingRequest> {
        let (name, version) = (node.required("src_name"), if is_ipv4 { 4 } else { 6 });
        let to = node.required("dst_ip").parse::<IpAddr>().ok().filter(|to| to.is_ipv4() == is_ipv4);
        let has_address = |interface: &&EmulatedInterface| {
            interface.name == name
                && interface.address.is_some_and(|address| address.address.is_ipv4() == is_ipv4)
        };
        let interface = self.interfaces.iter().find(has_address).filter(|known| !known.port.is_empty());
        if to.is_none() {
            node.findings().error(&node.at("dst_ip"), format!("is not an IPv{version} address"));
        }
        if interface.is_none() {
            let text = format!("there is no IPv{version} interface named {name} on a port");
            node.findings().error(&node.at("src_name"), text);
        }
        let interface = interface?;
        Some(PingRequest { interface: interface.name.clone(), port: interface.port.clone(), to: to? })
    }

    /// Reads a request for a capture.
    ///
    /// # Errors
    /// An unknown port, a port without a capture.
    pub fn capture_query(&self, json: &Value) -> Result<CaptureQuery, RequestRefusal> {
        read(json, |node| {
            let [port] = self.port_indexes(&[node.required("port_name").to_owned()])?[..] else {
                return Err(RequestRefusal::Invalid(vec!["port_name: is required".to_owned()]));
            };
            let capture =
                self.capture_of(port).ok_or_else(|| RequestRefusal::Invalid(vec![self.no_capture(port)]))?;
            let slice = node.object("packets").and_then(|packets| packets.whole(read_slice));
            Ok(CaptureQuery { port, capture, slice })
        })
    }

    /// The neighbours that a request for states asks for, of interfaces with IPv4 or IPv6
    /// addresses: a message of the model. `mac` is the MAC address of the gateway of an interface,
    /// if it is known.
    ///
    /// # Errors
    /// Unknown names, states of protocols.
    pub fn states(
        &self,
        json: &Value,
        mac: impl Fn(&EmulatedInterface) -> Option<[u8; 6]>,
    ) -> Result<Value, RequestRefusal> {
        read(json, |node| {
            node.ignore(&["choice"]);
            let (name, is_ipv4) = match node.choice("ipv4_neighbors") {
                "ipv4_neighbors" => ("ipv4_neighbors", true),
                "ipv6_neighbors" => ("ipv6_neighbors", false),
                other => {
                    return Err(RequestRefusal::Unsupported(format!("states of {other} are not supported")));
                }
            };
            let names = node.object(name).map(|node| node.whole(|node| node.texts("ethernet_names")));
            let names = names.unwrap_or_default();
            let known = self.interfaces.iter().map(|interface| &interface.ethernet[..]);
            indexes(&names, known, "Ethernet interface")?;
            let rows = self.neighbour_rows(&names, is_ipv4, mac);
            Ok(json!({"choice": name, name: rows}))
        })
    }

    fn neighbour_rows(
        &self,
        names: &[String],
        is_ipv4: bool,
        mac: impl Fn(&EmulatedInterface) -> Option<[u8; 6]>,
    ) -> Vec<Value> {
        let is_asked = |name: &String| names.is_empty() || names.contains(name);
        let interfaces = self.interfaces.iter().filter(|interface| is_asked(&interface.ethernet));
        let row = |interface: &EmulatedInterface| {
            let address = interface.address.filter(|address| address.address.is_ipv4() == is_ipv4)?;
            let key = if is_ipv4 { "ipv4_address" } else { "ipv6_address" };
            let mut row = json!({
                "ethernet_name": interface.ethernet,
                key: address.gateway.to_string(),
            });
            if let Some(mac) = mac(interface) {
                let mac: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
                row["link_layer_address"] = Value::from(mac.join(":"));
            }
            Some(row)
        };
        interfaces.filter_map(row).collect()
    }
}

fn read_tagged(node: &ConfigNode) -> TaggedQuery {
    // Rows have the values of frames that were sent or received; others are unknown.
    node.ignore(&["include_empty_metrics"]);
    let filter = |filter: &ConfigNode| (filter.required("name").to_owned(), filter.texts("values"));
    TaggedQuery {
        include: node.flag("include", true),
        columns: node.texts("metric_names"),
        filters: node.objects("filters").into_iter().map(|node| node.whole(filter)).collect(),
    }
}

fn protocol_state(node: &ConfigNode) -> Result<ControlRequest, RequestRefusal> {
    node.ignore(&["choice"]);
    match node.choice("all") {
        "all" => {
            if let Some(all) = node.object("all") {
                all.whole(|all| all.required("state"));
            }
            Ok(ControlRequest::Protocols)
        }
        other => Err(RequestRefusal::Unsupported(format!("control state protocol.{other} is not supported"))),
    }
}

/// The model counts frames from 1 on.
fn read_slice(node: &ConfigNode) -> Option<(usize, usize)> {
    node.ignore(&["choice"]);
    if node.choice("all") != "slice" {
        return None;
    }
    let slice = node.object("slice")?;
    let (start, count) = slice.whole(|node| {
        node.ignore(&["choice"]);
        node.object("initial").map_or((1, 100), |initial| {
            initial.whole(|node| {
                (node.number("start", 1, 1..=u64::MAX), node.number("count", 100, 1..=u64::MAX))
            })
        })
    });
    Some((start as usize - 1, count as usize))
}
