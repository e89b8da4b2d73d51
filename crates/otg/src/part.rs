//! The part of a configuration that the ports of one host need.

use crate::config::OtgConfig;
use serde_json::Value;
use std::collections::BTreeSet;

/// Ports of a host and the flows that they send or receive, as indexes into the whole
/// configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigPart {
    /// The ports, in order.
    pub ports: Vec<usize>,
    /// The flows, in order.
    pub flows: Vec<usize>,
}

impl ConfigPart {
    /// The part that these ports need.
    pub fn of(config: &OtgConfig, ports: Vec<usize>) -> Self {
        let names: BTreeSet<&str> = ports.iter().map(|port| &config.ports[*port].name[..]).collect();
        let has = |name: &String| names.contains(&name[..]);
        let flows = config.flows.iter().enumerate();
        let flows = flows.filter(|(_, flow)| has(&flow.tx_port) || flow.rx_ports.iter().any(has));
        Self { flows: flows.map(|(index, _)| index).collect(), ports }
    }

    /// The configuration `json` with the flows of this part. All ports stay: flows refer to them.
    #[must_use]
    pub fn json(&self, json: &Value) -> Value {
        let fields = json.as_object().into_iter().flatten();
        let mut part: serde_json::Map<String, Value> = fields
            .filter(|(name, _)| *name != "flows")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let all = json["flows"].as_array().map_or(&[][..], Vec::as_slice);
        let flows: Vec<Value> = self.flows.iter().filter_map(|flow| all.get(*flow).cloned()).collect();
        part.insert("flows".to_owned(), flows.into());
        part.into()
    }

    /// An error or warning about the part, with the path that the flow has in the whole
    /// configuration.
    #[must_use]
    pub fn whole_path(&self, text: &str) -> String {
        let split = text.strip_prefix("flows[").and_then(|rest| rest.split_once(']'));
        let flow =
            split.and_then(|(index, rest)| Some((self.flows.get(index.parse::<usize>().ok()?)?, rest)));
        flow.map_or_else(|| text.to_owned(), |(flow, rest)| format!("flows[{flow}]{rest}"))
    }
}

impl OtgConfig {
    /// Keeps these ports, and what belongs to them: captures, interfaces, and the receiving ports
    /// of flows. All flows stay; the sending port of a flow may be one of another host.
    ///
    /// # Errors
    /// The index of a port that there is not.
    pub fn keep_ports(&mut self, ports: &[usize]) -> Result<(), usize> {
        if let Some(unknown) = ports.iter().find(|port| **port >= self.ports.len()) {
            return Err(*unknown);
        }
        self.ports = ports.iter().map(|port| self.ports[*port].clone()).collect();
        let names: BTreeSet<&str> = self.ports.iter().map(|port| &port.name[..]).collect();
        let has = |name: &String| names.contains(&name[..]);
        self.captures.iter_mut().for_each(|capture| capture.ports.retain(has));
        self.captures.retain(|capture| !capture.ports.is_empty());
        self.egress.retain(|egress| has(&egress.port));
        self.interfaces.retain(|interface| has(&interface.port));
        self.flows.iter_mut().for_each(|flow| flow.rx_ports.retain(has));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flow(name: &str, tx: &str, rx: &[&str]) -> Value {
        json!({"name": name, "tx_rx": {"port": {"tx_name": tx, "rx_names": rx}}})
    }

    fn config() -> Value {
        let interface = |name: &str, port: &str| {
            json!({"name": name, "ethernets": [{"name": format!("{name}-eth"), "mac": "02:00:00:00:00:01",
                "connection": {"port_name": port}}]})
        };
        json!({
            "ports": [{"name": "a", "location": "h1/p"}, {"name": "b", "location": "h2/p"},
                {"name": "c", "location": "h1/q"}],
            "captures": [{"name": "one", "port_names": ["a", "b"]}, {"name": "two", "port_names": ["c"]}],
            "devices": [interface("x", "a"), interface("y", "b")],
            "flows": [flow("ab", "a", &["b"]), flow("cc", "c", &["c"]), flow("bac", "b", &["a", "c"]),
                flow("only", "b", &[])],
        })
    }

    fn read(json: &Value) -> OtgConfig {
        OtgConfig::read(json, 1).expect("it is good").0
    }

    #[test]
    fn a_host_has_the_flows_that_its_ports_send_or_receive() {
        let (json, whole) = (config(), read(&config()));
        let (one, two) = (ConfigPart::of(&whole, vec![0, 2]), ConfigPart::of(&whole, vec![1]));
        assert_eq!((&one.flows[..], &two.flows[..]), (&[0, 1, 2][..], &[0, 2, 3][..]));
        let part = two.json(&json);
        let names = |json: &Value, list: &str| -> Vec<String> {
            let list = json[list].as_array().expect("a list").iter();
            list.map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(names(&part, "flows"), ["ab", "bac", "only"]);
        assert_eq!((&part["ports"], &part["devices"]), (&json["ports"], &json["devices"]));
        let mut config = read(&part);
        config.keep_ports(&two.ports).unwrap();
        let ports: Vec<&str> = config.ports.iter().map(|port| &port.name[..]).collect();
        let interfaces: Vec<&str> = config.interfaces.iter().map(|interface| &interface.name[..]).collect();
        assert_eq!((ports, interfaces), (vec!["b"], vec!["y-eth"]));
        let captures: Vec<_> =
            config.captures.iter().map(|capture| (&capture.name[..], &capture.ports[..])).collect();
        assert_eq!(captures, [("one", &["b".to_owned()][..])]);
        let received: Vec<usize> = config.flows.iter().map(|flow| flow.rx_ports.len()).collect();
        assert_eq!((received, &config.flows[0].tx_port[..]), (vec![1, 0, 0], "a"));
        assert_eq!(read(&part).keep_ports(&[1, 3]), Err(3));
    }

    #[test]
    fn errors_of_a_part_have_the_path_in_the_whole() {
        let part = ConfigPart { ports: vec![1], flows: vec![0, 2, 3] };
        for (text, whole) in [
            ("flows[1].size: too long", "flows[2].size: too long"),
            ("flows[2]: x", "flows[3]: x"),
            ("flows[9]: x", "flows[9]: x"),
            ("ports[1].location: x", "ports[1].location: x"),
            ("flows[x]: x", "flows[x]: x"),
        ] {
            assert_eq!(part.whole_path(text), whole);
        }
    }
}
