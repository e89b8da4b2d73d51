//! What to look at when no frame of a sender arrived, from what this host can see.

use capture::ReceiveResult;
use sender::report::Report;
use units::quantity_of;

/// The next steps, a line each; `None` if frames arrived, or none was sent.
pub(super) fn next_steps(sent: &Report, rx_device: &str, result: &ReceiveResult) -> Option<Vec<String>> {
    let (totals, others) = (&result.totals, &result.totals.others);
    if sent.sent == 0 || totals.received > 0 {
        return None;
    }
    let mut steps = vec![format!("none of {} arrived at {rx_device}", quantity_of(sent.sent, "frame"))];
    steps.push(match &sent.next_hop {
        Some(next_hop) => format!("they went to the next hop {next_hop}"),
        None => {
            "they went to the address of --dst-mac, or to all hosts: is it that of the next hop?".to_owned()
        }
    });
    if others.icmp_errors > 0 {
        steps.push(format!("a host on the way refused them: {}", totals.icmp_error));
    }
    steps.push(match others.foreign + others.stale {
        0 => format!("{rx_device} received nothing else either: is its link the one that the path ends at?"),
        others => format!("{rx_device} received {}, so its link works", quantity_of(others, "other frame")),
    });
    steps.push(
        "at each router on the way: `sysctl net.ipv4.ip_forward` must be 1 (IPv6: net.ipv6.conf.all.forwarding), \
         `ip route get` must lead to the receiver, whose MAC address it must know (`ip neigh`), and no \
         filter may drop them (`nft list ruleset`)"
            .to_owned(),
    );
    steps.push("`wirerate count DEV` at each hop shows how far they come".to_owned());
    Some(steps)
}
