//! What the agent's own file allows to send.

use super::config::AgentPort;
use crate::words;
use engine::CatchUp;
use otg::FlowConfig;
use packet::wire_len;
use sender::rate::RequestedRate;
use sender::run::CATCH_UP_DEFAULT;
use sender::streams::Stream;
use std::net::IpAddr;
use units::{human_bps, human_pps};

/// Bytes of a frame check sequence, which sizes of the model include.
const FCS_LEN: usize = 4;

/// Checks the flows of one port against its limits.
///
/// # Errors
/// Which limit, in one line.
pub(super) fn check(port: &AgentPort, flows: &[Stream]) -> Result<(), String> {
    let name = &port.name;
    for flow in flows {
        for range in words::destinations(&flow.entry.job) {
            check_destination(port, range)?;
        }
    }
    if port.max_pps.is_none() && port.max_rate.is_none() {
        return Ok(());
    }
    let (mut pps, mut bps) = (0.0, 0.0);
    for flow in flows {
        if flow.entry.job.catch_up.is_some_and(|catch_up| !is_slow(catch_up)) {
            return Err(format!(
                "port {name} has a highest rate in the agent's file, and --catch-up may be 1 or 2 then"
            ));
        }
        let (flow_pps, flow_bps) = rates(flow).ok_or_else(|| {
            format!(
                "port {name} has a highest rate in the agent's file, and a flow has none: --pps or --rate"
            )
        })?;
        (pps, bps) = (pps + flow_pps, bps + flow_bps);
    }
    check_rates(port, pps, bps)
}

/// Checks flows of the Open Traffic Generator, each with its index, on a port with a line of
/// `speed` bits per second. All of them may be sent together. Returns what is refused.
pub(super) fn check_otg(port: &AgentPort, flows: &[(usize, &FlowConfig)], speed: u64) -> Vec<String> {
    let mut refused = Vec::new();
    for (index, flow) in flows {
        match flow.destinations() {
            Ok(ranges) => {
                let first = ranges.into_iter().find_map(|range| check_destination(port, range).err());
                refused.extend(first.map(|why| format!("flows[{index}].packet: {why}")));
            }
            Err(path) if port.allow_dst.is_some() => refused.push(format!(
                "{path}: such frames may go anywhere, and port {} has allow_dst in the agent's file",
                port.name
            )),
            Err(_) => {}
        }
    }
    let rates = flows.iter().map(|(_, flow)| {
        let (pps, len) = (flow.pps(speed), flow.size_max().saturating_sub(FCS_LEN) as u32);
        (pps, pps * 8.0 * f64::from(wire_len(len)))
    });
    let (pps, bps) =
        rates.fold((0.0, 0.0), |(pps, bps), (flow_pps, flow_bps)| (pps + flow_pps, bps + flow_bps));
    refused.extend(check_rates(port, pps, bps).err());
    refused
}

/// Checks the addresses from the first to the last of a range.
///
/// # Errors
/// Frames may not be sent to all of them.
pub(super) fn check_destination(port: &AgentPort, (first, last): (IpAddr, IpAddr)) -> Result<(), String> {
    let is_allowed = |allowed: &Vec<super::config::AllowedAddresses>| {
        allowed.iter().any(|range| range.have((first, last)))
    };
    if port.allow_dst.as_ref().is_none_or(is_allowed) {
        return Ok(());
    }
    let to = if first == last { first.to_string() } else { format!("{first}-{last}") };
    Err(format!("allow_dst of port {} in the agent's file does not include {to}", port.name))
}

/// Checks frames per second, and bits per second on the wire, of all flows together.
fn check_rates(port: &AgentPort, pps: f64, bps: f64) -> Result<(), String> {
    let name = &port.name;
    if let Some(max) = port.max_pps.filter(|max| pps > max.0 as f64) {
        let (wanted, max) = (human_pps(pps), human_pps(max.0 as f64));
        return Err(format!("{wanted} on port {name}, and max_pps in the agent's file is {max}"));
    }
    if let Some(max) = port.max_rate.filter(|max| bps > max.0 as f64) {
        let (wanted, max) = (human_bps(bps), human_bps(max.0 as f64));
        return Err(format!("{wanted} on port {name}, and max_rate in the agent's file is {max}"));
    }
    Ok(())
}

/// True if a late sender catches up at no more than the rate that is the default.
fn is_slow(catch_up: CatchUp) -> bool {
    match (catch_up, CATCH_UP_DEFAULT) {
        (_, CatchUp::Unlimited) => true,
        (CatchUp::Unlimited, _) => false,
        (CatchUp::Times(times), CatchUp::Times(most)) => times <= most,
    }
}

/// Frames and bits on the wire per second, if the flow has a rate.
fn rates(flow: &Stream) -> Option<(f64, f64)> {
    let config = &flow.config;
    let longest = match &flow.packets {
        Some(packets) => packets.len_max() as u32,
        None => config.imix.iter().map(|entry| entry.size).max().unwrap_or(config.max_pkt_size),
    };
    let bits = f64::from(wire_len(longest.max(config.min_pkt_size))) * 8.0;
    match flow.pace {
        RequestedRate::LineRate | RequestedRate::Ramp(_) => None,
        rate => rate.asked(config).map(|asked| (asked.pps, asked.wire_bps.unwrap_or(asked.pps * bits))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams;
    use super::*;
    use fleet::{FlowOrder, FlowRole, TestPart};
    use packet::DeviceFacts;

    fn checked(limits: &str, flows: &[&str]) -> Result<(), String> {
        let port: AgentPort = toml::from_str(&format!("name = \"eth1\"\n{limits}")).unwrap();
        let order = |(id, line): (u32, &&str)| {
            // The last one counts.
            let line = format!("--dst 198.18.0.1 {line}");
            let send = line.split_whitespace().map(str::to_owned).collect();
            FlowOrder { id, role: FlowRole::Send, port: port.name.clone(), number: id, send }
        };
        let part = TestPart {
            mark: 0,
            flows: (0..).zip(flows).map(order).collect(),
            duration_ns: 1,
            settle_ms: 0,
            stat_ms: 1000,
            seed: 0,
        };
        let orders: Vec<&FlowOrder> = part.flows.iter().collect();
        let streams = streams::planned(&port, &orders, &part, &DeviceFacts::default());
        check(&port, &streams.map_err(|refusal| refusal.to_string())?)
    }

    #[test]
    fn frames_that_are_too_short_to_be_counted_need_a_size() {
        for (frames, advice) in [("--size 58", "try: --size 60"), ("--tcp --size 60", "try: --size 72")] {
            let refusal = checked("", &[frames]).unwrap_err();
            assert!(refusal.contains(advice), "{frames}: {refusal}");
        }
    }

    #[test]
    fn rates_of_a_port_add_up() {
        let limit = "max_pps = \"2k\"\nmax_rate = \"2Mbit\"";
        assert_eq!(checked(limit, &["--pps 1k", "--pps 1k"]), Ok(()));
        let refusal = checked(limit, &["--pps 1k", "--pps 1001"]).unwrap_err();
        assert_eq!(refusal, "2.001 kpps on port eth1, and max_pps in the agent's file is 2.000 kpps");
        let refusal = checked(limit, &["--pps 1k --size 1514"]).unwrap_err();
        assert!(refusal.starts_with("12.30 Mbit/s on port eth1, and max_rate"), "{refusal}");
        assert!(checked(limit, &["--size 64"]).unwrap_err().contains("a flow has none"));
        assert_eq!(checked("", &["--size 64"]), Ok(()), "no limit");
    }

    #[test]
    fn a_rate_is_enough_whatever_the_frames_are() {
        let limit = "max_pps = \"2k\"\nmax_rate = \"9Mbit\"";
        for frames in
            ["--tcp", "--icmp echo", "--ttl 3", "--vxlan 7", "--gre", "--payload 00", "--flows 9", "--imix"]
        {
            let frames = format!("{frames} --size 300").replace("--imix --size 300", "--imix 100:1,300:1");
            assert_eq!(checked(limit, &[&format!("{frames} --pps 1k")]), Ok(()), "{frames}");
            assert_eq!(checked(limit, &[&format!("{frames} --rate 2Mbit")]), Ok(()), "{frames}");
            let refusal = checked(limit, &[&frames]).unwrap_err();
            assert!(refusal.contains("a flow has none: --pps or --rate"), "{frames}: {refusal}");
            let refusal = checked(limit, &[&format!("{frames} --pps 2001")]).unwrap_err();
            assert!(refusal.starts_with("2.001 kpps on port eth1, and max_pps"), "{frames}: {refusal}");
            let refusal = checked("max_rate = \"2Mbit\"", &[&format!("{frames} --pps 1k")]).unwrap_err();
            assert!(refusal.starts_with("2.592 Mbit/s on port eth1"), "{frames}: {refusal}");
        }
    }

    #[test]
    fn a_late_sender_does_not_catch_up_faster_than_by_default() {
        for limit in ["max_pps = \"2k\"", "max_rate = \"2Mbit\""] {
            assert_eq!(checked(limit, &["--pps 1k --catch-up 2", "--pps 1k --catch-up 1"]), Ok(()));
            for words in ["--pps 1k --catch-up max", "--pps 1k --catch-up 3"] {
                assert!(
                    checked(limit, &[words]).unwrap_err().contains("--catch-up may be 1 or 2"),
                    "{words}"
                );
            }
        }
        assert_eq!(checked("", &["--pps 1k --catch-up max"]), Ok(()), "no limit");
    }

    fn checked_otg(limits: &str, flows: serde_json::Value) -> Vec<String> {
        let port: AgentPort = toml::from_str(&format!("name = \"eth1\"\n{limits}")).unwrap();
        let json = serde_json::json!({"ports": [{"name": "p", "location": "h1/eth1"}], "flows": flows});
        let (config, _) = otg::OtgConfig::read(&json, 1).unwrap();
        let flows: Vec<(usize, &FlowConfig)> = config.flows.iter().enumerate().collect();
        check_otg(&port, &flows, 1_000_000_000)
    }

    #[test]
    fn flows_of_the_open_traffic_generator_have_the_same_limits() {
        let flow = |name: &str, pps: u64, headers: serde_json::Value| {
            serde_json::json!({"name": name, "rate": {"pps": pps}, "size": {"fixed": 1518}, "packet": headers,
                "tx_rx": {"port": {"tx_name": "p", "rx_names": []}}})
        };
        let to = |dst: serde_json::Value| serde_json::json!([{"ethernet": {}}, {"ipv4": {"dst": dst}}, {"udp": {}}]);
        let near = || to(serde_json::json!({"value": "198.18.0.9"}));
        let flows = serde_json::json!([flow("a", 1000, near()), flow("b", 1001, near())]);
        assert_eq!(checked_otg("allow_dst = [\"198.18.0.0/16\"]", flows.clone()), [""; 0]);
        let refused = checked_otg("max_pps = \"2k\"", flows.clone());
        assert_eq!(refused, ["2.001 kpps on port eth1, and max_pps in the agent's file is 2.000 kpps"]);
        let refused = checked_otg("max_rate = \"20Mbit\"", flows);
        assert!(refused[0].starts_with("24.62 Mbit/s on port eth1, and max_rate"), "{refused:?}");
        let limit = "allow_dst = [\"198.18.0.0/16\"]";
        for (headers, why) in [
            (
                to(
                    serde_json::json!({"increment": {"start": "198.18.255.0", "step": "0.0.0.1", "count": 1000}}),
                ),
                "flows[0].packet: allow_dst of port eth1 in the agent's file does not include \
                 198.18.255.0-198.19.2.231",
            ),
            (to(serde_json::json!({"values": ["198.18.0.1", "10.0.0.1"]})), "does not include 10.0.0.1"),
            (
                serde_json::json!([{"ethernet": {}}, {"ipv4": {"dst": {"value": "198.18.0.1"}}}, {"gre": {}},
                {"ipv4": {"dst": {"value": "10.0.0.1"}}}]),
                "does not include 10.0.0.1",
            ),
            (serde_json::json!([{"ethernet": {}}, {"ipv6": {"dst": {"value": "fd00::1"}}}]), "fd00::1"),
            (
                serde_json::json!([{"ethernet": {}}, {"custom": {"bytes": "4500"}}]),
                "such frames may go anywhere",
            ),
            (
                serde_json::json!([{"ethernet": {"ether_type": {"value": 2048}}}]),
                "flows[0].packet[0].ethernet",
            ),
        ] {
            let refused = checked_otg(limit, serde_json::json!([flow("a", 10, headers.clone())]));
            assert!(refused.len() == 1 && refused[0].contains(why), "{why}: {refused:?}");
            assert_eq!(checked_otg("", serde_json::json!([flow("a", 10, headers)])), [""; 0], "no limit");
        }
    }

    /// What follows a header may be the payload, which a user writes.
    #[test]
    fn a_payload_is_no_ip_packet_where_destinations_are_limited() {
        let checked = |headers: &serde_json::Value| {
            let flow = serde_json::json!({"name": "f", "size": {"fixed": 200}, "packet": headers,
                "tx_rx": {"port": {"tx_name": "p", "rx_names": []}}});
            checked_otg("allow_dst = [\"198.18.0.0/16\"]", serde_json::json!([flow]))
        };
        let ip = || serde_json::json!({"ipv4": {"dst": {"value": "198.18.0.1"}}});
        let with = |header: &str, field: &str, value: u64| {
            let mut with = if header == "ipv4" { ip() } else { serde_json::json!({header: {}}) };
            with[header][field] = serde_json::json!({"value": value});
            with
        };
        let of = |headers: &[serde_json::Value]| serde_json::Value::from(headers.to_vec());
        let header = |name: &str| serde_json::json!({name: {}});
        for (path, headers) in [
            ("packet[0].ethernet.ether_type", vec![with("ethernet", "ether_type", 0x8100)]),
            ("packet[0].ethernet.ether_type", vec![with("ethernet", "ether_type", 0x86dd), ip()]),
            ("packet[0].arp", vec![header("arp")]),
            ("packet[0].ipv4", vec![ip(), header("udp")]),
            ("packet[1].vlan.tpid", vec![header("ethernet"), with("vlan", "tpid", 0x88a8)]),
            ("packet[1].mpls", vec![header("ethernet"), header("mpls")]),
            ("packet[1].mpls", vec![header("ethernet"), header("mpls"), header("udp")]),
            (
                "packet[1].mpls.bottom_of_stack",
                vec![header("ethernet"), with("mpls", "bottom_of_stack", 0), ip()],
            ),
            ("packet[2].gre", vec![header("ethernet"), ip(), header("gre")]),
            ("packet[2].gre.protocol", vec![header("ethernet"), ip(), with("gre", "protocol", 0x8100), ip()]),
            (
                "packet[2].gre.reserved0",
                vec![header("ethernet"), ip(), with("gre", "reserved0", 0x400), ip()],
            ),
            ("packet[3].vxlan", vec![header("ethernet"), ip(), header("udp"), header("vxlan")]),
            ("packet[1].ipv4.protocol", vec![header("ethernet"), with("ipv4", "protocol", 4)]),
            ("packet[1].ipv4.header_length", vec![header("ethernet"), with("ipv4", "header_length", 15)]),
            (
                "packet[2].ipv4.version",
                vec![header("ethernet"), header("mpls"), with("ipv4", "version", 6), header("udp")],
            ),
        ] {
            let refused = checked(&of(&headers));
            let why = format!("flows[0].{path}: such frames may go anywhere");
            assert!(refused.len() == 1 && refused[0].starts_with(&why), "{path}: {refused:?}");
        }
        for headers in [
            vec![],
            vec![header("ethernet"), ip(), header("tcp")],
            vec![with("ethernet", "ether_type", 0x0800), with("ipv4", "protocol", 17), header("udp")],
            vec![with("ethernet", "ether_type", 0x88a8), header("vlan"), header("vlan"), ip()],
            vec![with("ethernet", "ether_type", 0x8848), header("mpls"), header("mpls"), ip()],
            vec![header("ethernet"), header("arp")],
            vec![header("ethernet"), ip(), header("gre"), header("ethernet"), ip()],
            vec![header("ethernet"), ip(), header("udp"), header("vxlan"), header("ethernet"), ip()],
        ] {
            assert_eq!(checked(&of(&headers)), [""; 0], "{headers:?}");
        }
    }

    #[test]
    fn destinations_must_be_allowed_as_a_whole() {
        let limit = "allow_dst = [\"198.18.0.0/16\"]";
        let checked = |limit: &str, flows: &[&str]| {
            let flows: Vec<String> = flows.iter().map(|flow| format!("{flow} --size 100")).collect();
            checked(limit, &flows.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert_eq!(checked(limit, &["--dst 198.18.0.0/20", "--dst-mac 02:00:00:00:00:01"]), Ok(()));
        for dst in
            ["--dst 198.18.0.1-198.19.0.1", "--dst 10.0.0.1", "--dst fd00::1", "--dst 198.18.0.1 --gre"]
        {
            let refusal = checked(limit, &[dst]).unwrap_err();
            assert!(refusal.contains("does not include"), "{dst}: {refusal}");
        }
    }
}
