//! What the stack of this host did with frames that a replay gave to its receive path.

use host::{AddressCheck, CommandPlace, HostError, Netns, ReceivedIp};
use std::thread;
use std::time::{Duration, Instant};

/// Interval of looks at the counters of the stack, which has no event for them.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The softirq that gives the last frames to the stack may run this late.
const STACK_DELAY: Duration = Duration::from_millis(300);
const ETHERTYPES_IP: [[u8; 2]; 2] = [[0x08, 0x00], [0x86, 0xdd]];

/// True for a frame that the stack takes as an IP packet: Ethernet without VLAN tags.
pub fn is_ip(frame: &[u8]) -> bool {
    ETHERTYPES_IP.iter().any(|ethertype| frame.get(12..14) == Some(ethertype))
}

/// The counters of the stack before the first frame.
#[derive(Debug)]
pub struct ReceivePath {
    netns: Netns,
    device: String,
    before: ReceivedIp,
}

impl ReceivePath {
    /// Of the namespace of a device, now.
    ///
    /// # Errors
    /// When the kernel refuses to show the counters.
    pub fn new(netns: &Netns, device: &str) -> Result<Self, HostError> {
        Ok(Self { netns: netns.clone(), device: device.to_owned(), before: ReceivedIp::of(netns)? })
    }

    /// A note if the stack has dropped all of `ip_packets`: for what, as far as it is known, and
    /// the commands by which it takes them.
    ///
    /// # Errors
    /// When the kernel refuses to show the counters.
    pub fn note(&self, ip_packets: u64) -> Result<Option<String>, HostError> {
        if ip_packets == 0 {
            return Ok(None);
        }
        let started = Instant::now();
        let since = loop {
            let since = ReceivedIp::of(&self.netns)?.since(&self.before);
            if since.delivered + since.forwarded > 0 {
                return Ok(None);
            }
            if started.elapsed() >= STACK_DELAY {
                break since;
            }
            thread::sleep(LOOK_INTERVAL);
        };
        let checks = AddressCheck::in_force(&self.netns, &self.device)?;
        Ok(Some(dropped_all(&self.device, &CommandPlace::of_netns(&self.netns), &since, &checks)))
    }
}

/// The note for a stack that took no packet.
fn dropped_all(device: &str, place: &CommandPlace, since: &ReceivedIp, checks: &[AddressCheck]) -> String {
    let filtered = match since.rp_filtered {
        0 => String::new(),
        count => format!(", {count} of them by rp_filter"),
    };
    let mut text = format!(
        "the stack of this host dropped all IP packets{filtered}. It drops frames for other MAC addresses \
         (--dst-mac MAC of {device}), those that its firewall rejects"
    );
    for check in checks {
        let command = place.run(&check.command(device));
        text += &format!(", {} (`{command}`)", check.meaning());
    }
    text + "; docs/replay.md"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_each_check_in_force_with_its_command() {
        let since = ReceivedIp { rp_filtered: 3, ..ReceivedIp::default() };
        let place = CommandPlace::of(Some("dut"));
        let text = dropped_all("v0", &place, &since, &[AddressCheck::AcceptLocal, AddressCheck::RpFilter]);
        assert!(text.contains("all IP packets, 3 of them by rp_filter."), "{text}");
        assert!(text.contains("`ip netns exec dut sysctl -w net.ipv4.conf.v0.accept_local=1`"), "{text}");
        assert!(text.contains("net.ipv4.conf.all.rp_filter=0") && !text.contains("localnet"), "{text}");
    }

    #[test]
    fn only_frames_with_an_ip_packet_count() {
        let frame = |ethertype: [u8; 2]| [&[2; 12][..], &ethertype, &[0; 46]].concat();
        assert!(is_ip(&frame([0x08, 0x00])) && is_ip(&frame([0x86, 0xdd])));
        assert!(!is_ip(&frame([0x08, 0x06])) && !is_ip(&frame([0x81, 0x00])) && !is_ip(&[0; 13]));
    }
}
