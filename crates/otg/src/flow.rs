//! A flow: its ports, frames and schedule.

use crate::header::{FlowHeader, HeaderKind};
use crate::node::ConfigNode;
use crate::pattern::Pattern;
use crate::payload::Payload;
use crate::schedule::{FlowRate, FlowSchedule};
use crate::size::Sizes;
use crate::stack::HeaderStack;
use crate::tag::{FramesByValues, MetricTag, check_tags};
use crate::topology::{SPEED_DEFAULT, Topology};
use packet::FCS_LEN;
use packet::plan::{FrameMark, FrameSpec, MARK_LEN, MarkCount, PacketOrder};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A flow of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Its name.
    pub name: String,
    /// The port that sends it.
    pub tx_port: String,
    /// The ports on which it is counted; none: it is only sent.
    pub rx_ports: Vec<String>,
    /// What is measured.
    pub metrics: FlowMetrics,
    /// When its frames are sent.
    pub schedule: FlowSchedule,
    /// The interface whose gateway the frames are sent to, if the flow does not give its MAC
    /// address.
    pub gateway_of: Option<String>,
    /// The tags by whose values its received frames are counted, in order.
    pub tags: Vec<MetricTag>,
    /// Some of the tags are those of frames as the far end sends them.
    has_egress: bool,
    stack: HeaderStack,
    payload: Payload,
    sizes: Sizes,
}

/// The ports of a flow.
struct FlowEnds {
    tx_port: String,
    rx_ports: Vec<String>,
    gateway_of: Option<String>,
}

/// What is measured of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowMetrics {
    /// Frames carry the mark and are counted at the receiver.
    pub enable: bool,
    /// The loss in percent is reported.
    pub loss: bool,
    /// Latency is measured.
    pub latency: bool,
    /// The times of the first and the last frame are reported.
    pub timestamps: bool,
    /// Each receiving port has counts of its own.
    pub by_port: bool,
    /// How many frames arrive for each that was sent.
    pub copies: Copies,
}

/// Frames that arrive for each that was sent, at all receiving ports together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Copies {
    /// This many.
    Ratio(f64),
    /// One at each receiving port.
    EachPort,
}

impl Default for Copies {
    fn default() -> Self {
        Self::Ratio(1.0)
    }
}

impl FlowConfig {
    /// None after an error that leaves no flow.
    pub(crate) fn read(node: &ConfigNode, topology: &Topology, seed: u64) -> Option<Self> {
        let name = node.required("name").to_owned();
        let metrics = node.object("metrics").map(|metrics| metrics.whole(read_metrics)).unwrap_or_default();
        let mut stack = read_stack(node, "packet", seed);
        let has_egress = !node.list("egress_packet").is_empty();
        let egress = has_egress.then(|| read_stack(node, "egress_packet", seed));
        let payload = Payload::read(node.object("payload"));
        let sizes = Sizes::read(node.object("size"));
        let rate = FlowRate::read(node.object("rate"));
        let schedule = FlowSchedule::read(rate, node.object("duration"));
        let Some(ends) = node.object("tx_rx") else {
            node.findings().error(&node.at("tx_rx"), "is required");
            return None;
        };
        let FlowEnds { tx_port, rx_ports, gateway_of } =
            ends.whole(|ends| read_ends(ends, topology, &mut stack))?;
        let sizes = check_sizes(node, sizes, &stack, metrics.enable);
        let mut tags = stack.tags();
        let of_egress = egress.iter().flat_map(HeaderStack::tags);
        tags.extend(of_egress);
        let flow = Self {
            name,
            tx_port,
            rx_ports,
            metrics,
            schedule,
            gateway_of,
            tags,
            has_egress,
            stack,
            payload,
            sizes,
        };
        flow.check(node, topology);
        Some(flow)
    }

    /// Errors and warnings that need all of the flow.
    fn check(&self, node: &ConfigNode, topology: &Topology) {
        let findings = node.findings();
        check_tags(&self.tags, node);
        if !self.metrics.enable && self.has_tags() {
            findings.warn(&node.at("metrics"), "metric tags count nothing without enable");
        }
        if let Some(mtu) = topology.port(&self.tx_port).and_then(|port| port.mtu) {
            let most = mtu as usize + 18 + self.tags_len();
            if self.sizes.highest() > most {
                let text = format!("{} bytes are more than the {most} of MTU {mtu}", self.sizes.highest());
                findings.error(&node.at("size"), text);
            }
        }
        if let Err(errors) = self.packet(self.sizes.lowest() - FCS_LEN) {
            errors.iter().for_each(|error| {
                let (path, text) = error.split_once(": ").unwrap_or((node.path(), error));
                findings.error(path, text);
            });
        }
        let speed = self.speed(topology);
        let most = FlowRate::Percentage(100.0).pps(self.sizes.mean(), speed, 12);
        let asked = self.schedule.rate.pps(self.sizes.mean(), speed, 12);
        let has_speed = topology.port(&self.tx_port).is_some_and(|port| port.speed.is_some());
        if has_speed && asked > most * 1.001 {
            let text = format!("{asked:.0} frames/s are more than the {most:.0} of the line");
            findings.warn(&node.at("rate"), text);
        }
    }

    /// True if its received frames are counted by values, or by port.
    pub fn has_tags(&self) -> bool {
        !self.tags.is_empty() || self.metrics.by_port
    }

    /// How many of the first `frames` frames have which values of its tags; `None` where only the
    /// receiver knows: the far end may change them, or wirerate fills the field in.
    pub fn sent_by_values(&self, frames: u64) -> Option<FramesByValues> {
        if self.has_egress { None } else { self.stack.sent_by_values(&self.tags, frames) }
    }

    /// The size of all its frames, in bytes with FCS; `None` if there are several.
    pub fn size_fixed(&self) -> Option<usize> {
        (self.sizes.lowest() == self.sizes.highest()).then(|| self.sizes.lowest())
    }

    /// Frames that are to arrive when this many were sent.
    pub fn frames_due(&self, sent: u64) -> u64 {
        let copies = match self.metrics.copies {
            Copies::Ratio(ratio) => ratio,
            Copies::EachPort => self.rx_ports.len() as f64,
        };
        (sent as f64 * copies).round() as u64
    }

    fn speed(&self, topology: &Topology) -> u64 {
        topology.port(&self.tx_port).and_then(|port| port.speed).unwrap_or(SPEED_DEFAULT)
    }

    /// Frames that are to arrive at one of its receiving ports when this many were sent; `None`
    /// where they may arrive at another one.
    pub fn frames_due_at_port(&self, sent: u64) -> Option<u64> {
        match self.metrics.copies {
            Copies::EachPort => Some(sent),
            Copies::Ratio(_) => (self.rx_ports.len() == 1).then(|| self.frames_due(sent)),
        }
    }

    /// Frames per second on a line of `speed` bits per second.
    pub fn pps(&self, speed: u64) -> f64 {
        self.schedule.rate.pps(self.sizes.mean(), speed, self.schedule.gap)
    }

    /// The share of a line of `speed` bits per second that its frames take, in percent. The gaps
    /// between bursts are not counted.
    pub fn line_percent(&self, speed: u64) -> f64 {
        100.0 * self.pps(speed) / FlowRate::Percentage(100.0).pps(self.sizes.mean(), speed, 12)
    }

    /// The largest frame, in bytes with FCS.
    pub fn size_max(&self) -> usize {
        self.sizes.highest()
    }

    /// The addresses that its frames are sent to, from the first to the last of each range, those
    /// in tunnels included.
    ///
    /// # Errors
    /// The path of a header or field by which frames can have other IP headers.
    pub fn destinations(&self) -> Result<Vec<(IpAddr, IpAddr)>, String> {
        self.stack.destinations()
    }

    /// Bytes of VLAN tags, which a device takes beyond its MTU.
    pub fn tags_len(&self) -> usize {
        4 * self.stack.headers.iter().filter(|header| header.kind == HeaderKind::Vlan).count()
    }

    /// The packets of the flow, one per size, and which is next. They have the same fields, which
    /// count the frames of the flow. `mark` is the flow's number and the run, if frames carry them.
    /// A random size is one of at most `sizes_max`. `gateway` is the MAC address for
    /// [`Self::gateway_of`].
    ///
    /// # Errors
    /// Fields whose values no rule of a plan describes, each with its path.
    pub fn packets(
        &self,
        mark: Option<(u16, u16)>,
        sizes_max: usize,
        gateway: Option<[u8; 6]>,
    ) -> Result<(Vec<FrameSpec>, PacketOrder), Vec<String>> {
        let (sizes, order) = self.sizes.packets(sizes_max);
        let lens: Vec<usize> = sizes.into_iter().map(|size| size - FCS_LEN).collect();
        let (has_time, counts) = (self.metrics.latency, MarkCount::Run);
        let mark = mark.map(|(flow, run)| FrameMark { flow, run, has_time, counts });
        let mut packets = self.stack.packets(&lens, &self.payload, mark)?;
        if let (Some(_), Some(mac)) = (&self.gateway_of, gateway) {
            // No checksum covers it.
            packets.iter_mut().for_each(|packet| packet.template[..6].copy_from_slice(&mac));
        }
        Ok((packets, order))
    }

    /// The packet of the flow with `frame_len` bytes, without FCS and mark.
    ///
    /// # Errors
    /// Fields whose values no rule of a plan describes, each with its path.
    pub fn packet(&self, frame_len: usize) -> Result<FrameSpec, Vec<String>> {
        Ok(self.stack.packets(&[frame_len], &self.payload, None)?.remove(0))
    }
}

fn read_metrics(node: &ConfigNode) -> FlowMetrics {
    let latency = node.object("latency").is_some_and(|latency| {
        latency.whole(|latency| {
            // One software time stamp serves both modes.
            latency.ignore(&["mode"]);
            latency.flag("enable", false)
        })
    });
    let copies = node.object("rx_tx_ratio").map(|ratio| ratio.whole(read_copies)).unwrap_or_default();
    let tags = node.object("predefined_metric_tags");
    let by_port = tags.is_some_and(|tags| tags.whole(|tags| tags.flag("rx_name", false)));
    FlowMetrics {
        enable: node.flag("enable", false),
        loss: node.flag("loss", false),
        latency,
        timestamps: node.flag("timestamps", false),
        by_port,
        copies,
    }
}

fn read_copies(node: &ConfigNode) -> Copies {
    node.ignore(&["choice", "rx_count"]);
    if node.choice("value") == "rx_count" {
        return Copies::EachPort;
    }
    let ratio = node.float("value", 1.0);
    if ratio == 0.0 {
        node.findings().error(&node.at("value"), "is not a number above 0");
    }
    Copies::Ratio(ratio)
}

/// The headers of a list; one Ethernet header if it has none.
fn read_stack(node: &ConfigNode, list: &'static str, seed: u64) -> HeaderStack {
    let mut headers = Vec::new();
    for (at, header) in node.objects(list).into_iter().enumerate() {
        header.whole(|node| {
            node.ignore(&["choice"]);
            let name = node.choice("ethernet");
            let Some(kind) = HeaderKind::of(name) else {
                node.error(format!("header {name} is not supported"));
                return NAMES.iter().for_each(|name| node.ignore(&[name]));
            };
            let known = NAMES.iter().copied().find(|known| *known == name).unwrap_or("ethernet");
            let seed = seed.wrapping_add((at as u64) << 32);
            let header = match node.object(known) {
                Some(body) => body.whole(|body| kind.read(body, seed)),
                None => default_header(kind, node, seed),
            };
            headers.push(header);
        });
    }
    if headers.is_empty() {
        headers.push(default_header(HeaderKind::Ethernet, node, seed));
    }
    HeaderStack { headers }
}

/// The headers of the model, supported or not.
const NAMES: [&str; 25] = [
    "custom",
    "ethernet",
    "vlan",
    "vxlan",
    "ipv4",
    "ipv6",
    "pfcpause",
    "ethernetpause",
    "tcp",
    "udp",
    "gre",
    "gtpv1",
    "gtpv2",
    "arp",
    "icmp",
    "icmpv6",
    "ppp",
    "igmpv1",
    "mpls",
    "snmpv2c",
    "rsvp",
    "macsec",
    "lacp",
    "ipv6_extension_header",
    "cfm",
];

fn default_header(kind: HeaderKind, node: &ConfigNode, seed: u64) -> FlowHeader {
    let empty = serde_json::Map::new();
    kind.read(&ConfigNode::root(&empty, node.findings()), seed)
}

/// The sending port and the receiving ones.
fn read_ends(node: &ConfigNode, topology: &Topology, stack: &mut HeaderStack) -> Option<FlowEnds> {
    node.ignore(&["choice"]);
    if node.choice("port") == "device" {
        return node.object("device")?.whole(|node| read_device_ends(node, topology, stack));
    }
    let Some(ports) = node.object("port") else {
        node.findings().error(&node.at("port"), "is required");
        return None;
    };
    ports.whole(|node| {
        let tx = node.required("tx_name").to_owned();
        let mut rx = node.texts("rx_names");
        let findings = node.findings();
        topology.check_port(&tx, &node.at("tx_name"), findings);
        for (at, name) in rx.iter().enumerate() {
            topology.check_port(name, &node.at(&format!("rx_names[{at}]")), findings);
        }
        // A port that is named twice counts a frame once.
        let mut named = BTreeSet::new();
        rx.retain(|name| named.insert(name.clone()));
        if let Some(name) = node.text("rx_name") {
            let path = node.at("rx_name");
            findings.warn(&path, "is deprecated: use rx_names");
            if rx.is_empty() {
                topology.check_port(name, &path, findings);
                rx.push(name.to_owned());
            } else if !rx.iter().any(|other| other == name) {
                findings.error(&path, format!("the port {name} is not in rx_names"));
            }
        }
        Some(FlowEnds { tx_port: tx, rx_ports: rx, gateway_of: None })
    })
}

fn read_device_ends(node: &ConfigNode, topology: &Topology, stack: &mut HeaderStack) -> Option<FlowEnds> {
    node.ignore(&["mode"]);
    let (tx, rx) = (node.texts("tx_names"), node.texts("rx_names"));
    let ([tx], [rx]) = (&tx[..], &rx[..]) else {
        node.error("one sending and one receiving interface are supported");
        return None;
    };
    let find = |name: &str, list| {
        let interface = topology.interface(name);
        match interface {
            // What is not supported of a device may have the name.
            None if node.findings().has_error_at("devices[") => {}
            None => node.findings().error(&node.at(list), format!("there is no interface named {name}")),
            Some(interface) if interface.port.is_empty() => {
                let text = format!("the interface {name} has no connection to a port");
                node.findings().error(&node.at(list), text);
            }
            Some(_) => {}
        }
        interface
    };
    let (tx, rx) = (find(tx, "tx_names[0]"), find(rx, "rx_names[0]"));
    let (tx, rx) = (tx?, rx?);
    let auto = |header: &&mut FlowHeader| header.kind == HeaderKind::Ethernet;
    let field = stack.headers.first_mut().filter(auto).and_then(|header| header.fields.first_mut());
    let field = field.filter(|field| field.pattern == Pattern::Auto);
    let mut gateway_of = None;
    match (field, tx.address) {
        (Some(_), Some(_)) => gateway_of = Some(tx.name.clone()),
        // Interfaces without addresses have no gateways: the frames go to the receiving one.
        (Some(field), None) => {
            field.pattern = Pattern::Value(rx.mac.iter().fold(0, |mac, byte| mac << 8 | u128::from(*byte)));
        }
        (None, _) => {}
    }
    stack.add_tags(&tx.vlans, &format!("interface {}", tx.ethernet));
    Some(FlowEnds { tx_port: tx.port.clone(), rx_ports: vec![rx.port.clone()], gateway_of })
}

/// Sizes that hold the headers, the mark and all FCS.
fn check_sizes(node: &ConfigNode, sizes: Sizes, stack: &HeaderStack, has_mark: bool) -> Sizes {
    let path = node.at("size");
    let headers = stack.headers_len();
    let fixed = headers + stack.trailer_len() + FCS_LEN;
    if let Sizes::Fixed(size) = sizes
        && size < fixed
    {
        let held = fixed - headers;
        let text = format!("{size} bytes cannot hold {headers} bytes of headers and {held} of FCS");
        node.findings().error(&format!("{path}.fixed"), text);
    }
    let least = fixed + if has_mark { MARK_LEN } else { 0 };
    // Ethernet has no shorter frames.
    let least = least.max(64);
    let (raised, is_raised) = sizes.raised_to(least);
    if is_raised {
        let why = if has_mark { "its headers and the mark for its metrics" } else { "its headers" };
        let text = format!("frames below {least} bytes are raised to {least}, for {why}");
        node.findings().warn(&path, text);
    }
    raised
}
