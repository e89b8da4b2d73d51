//! The words of `wirerate send` in a plan. The parser is that of `send`. Words that would read or
//! write files, leave the port, or do what the run does for all flows are refused.

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser};
use options::send::SendArgs;
use sender::SendJob;
use sender::job::PayloadText;
use sender::rate::RequestedRate;
use std::net::{IpAddr, Ipv4Addr};
use units::WireRate;
use units::{Addresses, Nanos};

/// Options that a flow may have.
const ALLOWED: &[&str] = &[
    "dst_mac",
    "src_mac",
    "dst",
    "src",
    "udp_dst",
    "udp_src",
    "size",
    "imix",
    "frame_size",
    "frame_imix",
    "random",
    "flows",
    "flow_len",
    "vlan",
    "vlan_prio",
    "vlan_type",
    "vlan_dei",
    "svlan",
    "svlan_prio",
    "svlan_dei",
    "mpls",
    "tos",
    "udp_checksum",
    "no_timestamp",
    "seed",
    "tcp",
    "syn",
    "icmp",
    "arp",
    "vxlan",
    "gre",
    "geneve",
    "gtpu",
    "tunnel_src_port",
    "inner_dst",
    "inner_src",
    "payload",
    "ttl",
    "count",
    "rate",
    "pps",
    "delay",
    "catch_up",
    "cpus",
    "batch",
    "engine",
];

/// The words of a flow, for the parser of `send`.
#[derive(Debug, Parser)]
#[command(name = "send", disable_help_flag = true, args_override_self = true)]
struct FlowWords {
    #[command(flatten)]
    args: SendArgs,
}

/// Words that were checked.
#[derive(Clone, Debug)]
pub(crate) struct FlowArgs {
    /// What they ask for.
    pub(crate) job: SendJob,
}

/// Parses the words of a flow on `device`, which is sent for `duration` at most.
///
/// # Errors
/// Why they cannot be used, in one line.
pub(crate) fn parse(words: &[String], device: &str, duration: Nanos) -> Result<FlowArgs, String> {
    let line = ["send", device].into_iter().map(str::to_owned).chain(words.iter().cloned());
    let one_line = |error: clap::Error| {
        let text = error.render().to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    };
    let command = FlowWords::command();
    let matches = command.clone().try_get_matches_from(line).map_err(one_line)?;
    for id in command.get_arguments().map(|argument| argument.get_id().as_str()).filter(|id| *id != "device")
    {
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        if is_given && !ALLOWED.contains(&id) {
            return Err(format!(
                "--{} is no option of a flow of a fleet (docs/fleet.md)",
                id.replace('_', "-")
            ));
        }
    }
    let mut job = FlowWords::from_arg_matches(&matches).map_err(one_line)?.args.job();
    if matches!(job.payload, Some(PayloadText::File(_))) {
        return Err("--payload @FILE would read a file of the host: write the bytes".to_owned());
    }
    job.duration = Some(duration);
    job.quiet = true;
    if let Some(share @ WireRate::Share(_)) = job.rate {
        return Err(format!("--rate {share}: write bits per second, such as 4Gbit, in a test of a fleet"));
    }
    RequestedRate::of(&job).map_err(|failure| failure.to_string().trim().to_owned())?;
    Ok(FlowArgs { job })
}

impl FlowArgs {
    /// Frames to send at most, if the words say so.
    pub(crate) fn count(&self) -> Option<u64> {
        self.job.count.map(|count| count.0).filter(|count| *count > 0)
    }

    /// True if the words say where frames go.
    pub(crate) fn has_destination(&self) -> bool {
        self.job.dst.is_some() || self.job.dst_mac.is_some()
    }

    /// Numbers that its frames carry: one, or that of each of its flows.
    pub(crate) fn number_count(&self) -> u32 {
        self.job.flows.unwrap_or(1)
    }
}

/// The addresses that frames are sent to, those in tunnels included.
pub(crate) fn destinations(job: &SendJob) -> Vec<(IpAddr, IpAddr)> {
    let both = |addresses: Addresses| match addresses {
        Addresses::V4(v4) => (v4.first.into(), v4.last.into()),
        Addresses::V6(v6) => (v6.first.into(), v6.last.into()),
    };
    let one = |address: Ipv4Addr| (IpAddr::from(address), IpAddr::from(address));
    let outer = job.dst.map_or(one(Ipv4Addr::new(198, 18, 0, 1)), both);
    let inner = job.inner_dst.map_or(one(Ipv4Addr::new(198, 19, 0, 2)), both);
    [Some(outer), job.is_tunnel().then_some(inner)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<FlowArgs, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        parse(&words, "eth1", Nanos(1_000_000_000))
    }

    #[test]
    fn words_are_those_of_send() {
        let flow =
            parsed("--dst 198.18.0.2-198.18.0.9 --pps 2M --size 64 --count 10 -l 80 --vxlan 7").unwrap();
        assert_eq!((flow.count(), flow.job.device.as_str()), (Some(10), "eth1"));
        let address = |last: u8| IpAddr::from([198, 18, 0, last]);
        assert_eq!(destinations(&flow.job)[0], (address(2), address(9)));
        assert_eq!(destinations(&flow.job)[1].0, IpAddr::from([198, 19, 0, 2]));
        assert!(parsed("").unwrap().count().is_none());
    }

    #[test]
    fn words_that_leave_the_port_or_touch_files_are_refused() {
        for (words, why) in [
            ("--netns lab", "--netns is no option"),
            ("--streams /etc/passwd", "--streams is no option"),
            ("--frames x", "--frames is no option"),
            ("--frame {}", "--frame is no option"),
            ("--payload @/etc/shadow", "would read a file"),
            ("--dry-run --write x", "is no option"),
            ("--allow-default-route", "--allow-default-route is no option"),
            ("--start-at +1s", "--start-at is no option"),
            ("--duration 9s", "--duration is no option"),
            ("--run 7", "--run is no option"),
            ("--xmit-mode netif_receive", "--xmit-mode is no option"),
            ("eth2", "unexpected argument 'eth2'"),
            ("--no-such", "unexpected argument '--no-such'"),
            ("--pps 0", "no frame would be sent"),
        ] {
            let refusal = parsed(words).unwrap_err();
            assert!(refusal.contains(why), "{words}: {refusal}");
        }
    }

    /// An option that `send` gets later is refused until it is in the list.
    #[test]
    fn each_allowed_option_is_one_of_send() {
        let command = FlowWords::command();
        let known: Vec<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
        for allowed in ALLOWED {
            assert!(known.contains(allowed), "{allowed}");
        }
    }
}
