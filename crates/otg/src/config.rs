//! A configuration of the Open Traffic Generator: what wirerate does with it.

use crate::capture::CaptureConfig;
use crate::device::{EmulatedInterface, read_device};
use crate::flow::FlowConfig;
use crate::node::{ConfigNode, Findings};
use crate::tag::EgressTracking;
use crate::topology::{PortConfig, Topology};
use serde_json::Value;
use std::collections::BTreeMap;

/// A checked configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtgConfig {
    /// Ports, in order.
    pub ports: Vec<PortConfig>,
    /// Captures, in order.
    pub captures: Vec<CaptureConfig>,
    /// Emulated interfaces: each Ethernet interface and each of its addresses.
    pub interfaces: Vec<EmulatedInterface>,
    /// Flows, in order.
    pub flows: Vec<FlowConfig>,
    /// Ports whose received frames are all counted by values, in order.
    pub egress: Vec<EgressTracking>,
}

impl OtgConfig {
    /// Reads a configuration that fits the model ([`crate::model`]). Returns the warnings too.
    /// `seed` is for random values that are not to be repeatable: with one seed, a flow has the
    /// same values beside whatever other flows.
    ///
    /// # Errors
    /// All that is wrong or not supported, each with its path.
    pub fn read(json: &Value, seed: u64) -> Result<(Self, Vec<String>), Vec<String>> {
        let empty = serde_json::Map::new();
        let findings = Findings::default();
        let root = ConfigNode::root(json.as_object().unwrap_or(&empty), &findings);
        let (config, _) = root.whole(|node| Self::read_root(node, seed));
        findings.finish().map(|warnings| (config, warnings))
    }

    /// The configuration, and the names that it uses.
    fn read_root<'a>(node: &ConfigNode<'a>, seed: u64) -> (Self, UniqueNames<'a>) {
        let mut config = Self::default();
        for port in node.objects("ports") {
            config.ports.push(port.whole(|port| PortConfig {
                name: port.required("name").to_owned(),
                location: port.text("location").unwrap_or_default().to_owned(),
                speed: None,
                mtu: None,
            }));
        }
        let mut names = UniqueNames::new(node.findings());
        config.ports.iter().enumerate().for_each(|(at, port)| names.add("ports", at, &port.name));
        let mut lines = PortOwners::new("layer1");
        for (at, layer1) in node.objects("layer1").into_iter().enumerate() {
            names.add("layer1", at, layer1.required("name"));
            layer1.whole(|layer1| config.read_layer1(layer1, &mut lines));
        }
        let mut captured = PortOwners::new("capture");
        for (at, capture) in node.objects("captures").into_iter().enumerate() {
            let path = capture.at("port_names");
            let capture = capture.whole(CaptureConfig::read);
            names.add("captures", at, &capture.name);
            for port in &capture.ports {
                config.topology().check_port(port, &path, node.findings());
                captured.add(port, &capture.name, &path, node.findings());
            }
            config.captures.push(capture);
        }
        for (at, device) in node.objects("devices").into_iter().enumerate() {
            names.add("devices", at, device.required("name"));
            device.whole(|device| read_device(device, &mut config.interfaces));
        }
        for interface in &config.interfaces {
            names.add_at(&format!("interface {}", interface.name), &interface.name);
            let path = format!("interface {}", interface.name);
            if interface.port.is_empty() {
                continue;
            }
            config.topology().check_port(&interface.port, &path, node.findings());
        }
        for (at, flow) in node.objects("flows").into_iter().enumerate() {
            let flow = config.read_flow(flow, at, &mut names, seed);
            config.flows.extend(flow);
        }
        for egress in node.objects("egress_only_tracking") {
            let path = egress.at("port_name");
            let egress = egress.whole(EgressTracking::read);
            config.topology().check_port(&egress.port, &path, node.findings());
            if config.egress.iter().any(|other| other.port == egress.port) {
                node.findings().error(&path, format!("the port {} has two of them", egress.port));
            }
            config.egress.push(egress);
        }
        if let Some(options) = node.object("options") {
            options.whole(read_options);
        }
        (config, names)
    }

    /// Checks a configuration of which `rest` has no flows: they come one by one, each as JSON that
    /// fits the model, or the error of its text.
    ///
    /// # Errors
    /// All that is wrong or not supported, each with its path. Text that does not fit the model is
    /// the only error.
    pub(crate) fn check_one_by_one(
        rest: &serde_json::Map<String, Value>,
        flows: impl Iterator<Item = Result<Value, String>>,
    ) -> Result<(), Vec<String>> {
        let findings = Findings::default();
        let root = ConfigNode::root(rest, &findings);
        let (config, mut names) = root.whole(|node| Self::read_root(node, 0));
        for (at, flow) in flows.enumerate() {
            let flow = flow.map_err(|error| vec![error])?;
            if let Value::Object(fields) = &flow {
                let node = ConfigNode::element(fields, format!("flows[{at}]"), &findings);
                config.read_flow(node, at, &mut names, 0);
            }
        }
        findings.finish().map(drop)
    }

    fn read_flow(
        &self,
        flow: ConfigNode,
        at: usize,
        names: &mut UniqueNames,
        seed: u64,
    ) -> Option<FlowConfig> {
        let name = flow.required("name");
        names.add("flows", at, name);
        flow.whole(|flow| FlowConfig::read(flow, &self.topology(), seed_of_flow(seed, name)))
    }

    /// The settings of the line of some ports.
    fn read_layer1(&mut self, node: &ConfigNode, owners: &mut PortOwners) {
        let owner = node.text("name").unwrap_or_default();
        let speed = node.text("speed").map(speed_of);
        let mtu = node.has("mtu").then(|| node.number("mtu", 1500, 64..=14_000) as u32);
        if !node.flag("promiscuous", true) {
            node.findings().warn(&node.at("promiscuous"), "false is not done: a port receives all frames");
        }
        for name in ["media", "ieee_media_defaults", "auto_negotiate", "auto_negotiation"] {
            if node.has(name) {
                node.findings().warn(&node.at(name), "is not set: wirerate leaves the line as it is");
            }
        }
        node.ignore(&["media", "ieee_media_defaults", "auto_negotiate", "auto_negotiation"]);
        for name in node.texts("port_names") {
            self.topology().check_port(&name, &node.at("port_names"), node.findings());
            owners.add(&name, owner, &node.at("port_names"), node.findings());
            if let Some(port) = self.ports.iter_mut().find(|port| port.name == name) {
                port.speed = speed.or(port.speed);
                port.mtu = mtu.or(port.mtu);
            }
        }
    }

    /// What flows refer to.
    fn topology(&self) -> Topology<'_> {
        Topology { ports: &self.ports, interfaces: &self.interfaces }
    }
}

/// The seed of a flow: it depends on the name, and not on the flows beside it (FNV-1a).
fn seed_of_flow(seed: u64, name: &str) -> u64 {
    name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What a port may have one of, with the name of the first one.
struct PortOwners {
    what: &'static str,
    first: BTreeMap<String, String>,
}

impl PortOwners {
    fn new(what: &'static str) -> Self {
        Self { what, first: BTreeMap::new() }
    }

    /// Reports a port that another one has already.
    fn add(&mut self, port: &str, owner: &str, path: &str, findings: &Findings) {
        match self.first.get(port) {
            None => drop(self.first.insert(port.to_owned(), owner.to_owned())),
            Some(first) if first != owner => {
                findings.error(path, format!("the port {port} has the {} {first} too", self.what));
            }
            Some(_) => {}
        }
    }
}

/// Names, each of which may be used once.
struct UniqueNames<'a> {
    findings: &'a Findings,
    first: BTreeMap<String, String>,
}

impl<'a> UniqueNames<'a> {
    fn new(findings: &'a Findings) -> Self {
        Self { findings, first: BTreeMap::new() }
    }

    fn add(&mut self, list: &str, index: usize, name: &str) {
        self.add_at(&format!("{list}[{index}].name"), name);
    }

    fn add_at(&mut self, path: &str, name: &str) {
        if name.is_empty() {
            return;
        }
        if let Some(first) = self.first.insert(name.to_owned(), path.to_owned()) {
            self.findings.error(path, format!("the name {name} is used by {first} too"));
            self.first.insert(name.to_owned(), first);
        }
    }
}

/// Options of the test as a whole: those for protocols have no effect.
fn read_options(node: &ConfigNode) {
    node.ignore(&["per_port_options"]);
    if let Some(port) = node.object("port_options") {
        port.whole(|port| port.ignore(&["location_preemption"]));
    }
    if let Some(protocols) = node.object("protocol_options") {
        protocols.whole(|protocols| protocols.ignore(&["auto_start_all"]));
    }
    if let Some(flows) = node.object("flow_options") {
        flows.whole(|_| ());
    }
}

/// Bits per second of a speed such as `speed_25_gbps` or `speed_100_fd_mbps`.
fn speed_of(name: &str) -> u64 {
    let number = name.split('_').find_map(|part| part.parse::<u64>().ok()).unwrap_or(0);
    number * if name.ends_with("gbps") { 1_000_000_000 } else { 1_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        assert_eq!(speed_of("speed_25_gbps"), 25_000_000_000);
        assert_eq!(speed_of("speed_100_fd_mbps"), 100_000_000);
    }
}
