//! What the agent's own file allows to send.

use super::config::AgentPort;
use crate::cmd::fleet::words;
use crate::cmd::send::rate::Rate;
use crate::cmd::send::run::CATCH_UP_DEFAULT;
use crate::cmd::send::streams::Stream;
use crate::units::{human_bps, human_pps};
use engine::CatchUp;
use packet::wire_len;

/// Checks the flows of one port against its limits.
///
/// # Errors
/// Which limit, in one line.
pub(super) fn check(port: &AgentPort, flows: &[Stream]) -> Result<(), String> {
    let name = &port.name;
    for flow in flows {
        for (first, last) in words::destinations(&flow.entry.args) {
            let is_allowed = |allowed: &Vec<super::config::AllowedAddresses>| {
                allowed.iter().any(|range| range.have((first, last)))
            };
            if port.allow_dst.as_ref().is_some_and(|allowed| !is_allowed(allowed)) {
                let to = if first == last { first.to_string() } else { format!("{first}-{last}") };
                return Err(format!("allow_dst of port {name} in the agent's file does not include {to}"));
            }
        }
    }
    if port.max_pps.is_none() && port.max_rate.is_none() {
        return Ok(());
    }
    let (mut pps, mut bps) = (0.0, 0.0);
    for flow in flows {
        if flow.entry.args.catch_up.is_some_and(|catch_up| !is_slow(catch_up)) {
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
        Rate::LineRate | Rate::Ramp(_) => None,
        rate => rate.asked(config).map(|asked| (asked.pps, asked.wire_bps.unwrap_or(asked.pps * bits))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams;
    use super::*;
    use fleet::{FlowOrder, FlowRole, Prepare};
    use packet::DeviceFacts;

    fn checked(limits: &str, flows: &[&str]) -> Result<(), String> {
        let port: AgentPort = toml::from_str(&format!("name = \"eth1\"\n{limits}")).unwrap();
        let order = |(id, line): (u32, &&str)| {
            // The last one counts.
            let line = format!("--dst 198.18.0.1 {line}");
            let send = line.split_whitespace().map(str::to_owned).collect();
            FlowOrder { id, role: FlowRole::Send, port: port.name.clone(), number: id, send }
        };
        let prepare = Prepare {
            run: "r".parse().unwrap(),
            mark: 0,
            flows: (0..).zip(flows).map(order).collect(),
            duration_ns: 1,
            settle_ms: 0,
            lease_ms: 1000,
            stat_ms: 1000,
            seed: 0,
        };
        let orders: Vec<&FlowOrder> = prepare.flows.iter().collect();
        let streams = streams::planned(&port, &orders, &prepare, &DeviceFacts::default());
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
