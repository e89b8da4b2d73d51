//! What the agent's own file allows to send.

use super::config::AgentPort;
use crate::cmd::fleet::words::FlowArgs;
use crate::cmd::send::config;
use crate::cmd::send::rate::Rate;
use crate::cmd::send::run::CATCH_UP_DEFAULT;
use crate::units::{human_bps, human_pps};
use engine::CatchUp;
use packet::wire_len;

/// Checks the flows of one port against its limits.
///
/// # Errors
/// Which limit, in one line.
pub(super) fn check(port: &AgentPort, flows: &[FlowArgs]) -> Result<(), String> {
    let name = &port.name;
    for flow in flows {
        for (first, last) in flow.destinations() {
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
        if flow.args.catch_up.is_some_and(|catch_up| !is_slow(catch_up)) {
            return Err(format!(
                "port {name} has a highest rate in the agent's file, and --catch-up may be 1 or 2 then"
            ));
        }
        let (flow_pps, flow_bps) = rates(flow)?.ok_or_else(|| {
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
fn rates(flow: &FlowArgs) -> Result<Option<(f64, f64)>, String> {
    let config = config::config(&flow.args).map_err(|failure| failure.to_string().trim().to_owned())?;
    let longest = config.imix.iter().map(|entry| entry.size).max().unwrap_or(config.max_pkt_size);
    let bits = f64::from(wire_len(longest.max(config.min_pkt_size))) * 8.0;
    Ok(match flow.rate {
        Rate::LineRate | Rate::Ramp(_) => None,
        rate => rate.asked(&config).map(|asked| (asked.pps, asked.wire_bps.unwrap_or(asked.pps * bits))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::fleet::words;
    use crate::units::Nanos;

    fn checked(limits: &str, flows: &[&str]) -> Result<(), String> {
        let port: AgentPort = toml::from_str(&format!("name = \"eth1\"\n{limits}")).unwrap();
        let parse = |line: &&str| {
            // The last one counts.
            let line = format!("--dst 198.18.0.1 {line}");
            let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            words::parse(&line, "eth1", Nanos(1)).unwrap()
        };
        check(&port, &flows.iter().map(parse).collect::<Vec<_>>())
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
        assert_eq!(checked(limit, &["--dst 198.18.0.0/20", "--dst-mac 02:00:00:00:00:01"]), Ok(()));
        for dst in
            ["--dst 198.18.0.1-198.19.0.1", "--dst 10.0.0.1", "--dst fd00::1", "--dst 198.18.0.1 --gre"]
        {
            let refusal = checked(limit, &[dst]).unwrap_err();
            assert!(refusal.contains("does not include"), "{dst}: {refusal}");
        }
    }
}
