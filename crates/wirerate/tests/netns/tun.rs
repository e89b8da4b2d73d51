//! Devices whose frames begin with an IP header: `replay`, `send` and `trafgen` give them packets.

use crate::lab::{Lab, Peer};
use crate::program::{Outcome, Running, in_netns, until, wirerate_run};
use crate::replay::{file_of, file_of_type, frame, report};
use crate::send::{self, number};
use crate::{Case, TestResult, case};
use serde_json::Value;
use std::path::Path;

pub(crate) const CASES: &[Case] = &[
    case("replay::a_tun_device_gets_the_packets_without_headers", &["python3"], replayed),
    case("send::a_tun_device_gets_the_packets_of_frames", &["python3"], sent),
    case("send::frames_that_are_no_packets_are_refused_on_a_tun_device", &["python3"], refused),
];

/// A tun device that lives as long as the script, which prints the packets that it gets.
const TUN: &str = "
import fcntl, os, struct, sys
tun = os.open('/dev/net/tun', os.O_RDWR)
IFF_TUN, IFF_NO_PI, TUNSETIFF = 1, 0x1000, 0x400454ca
fcntl.ioctl(tun, TUNSETIFF, struct.pack('16sH22x', b'wrtun', IFF_TUN | IFF_NO_PI))
os.system('sysctl -qw net.ipv6.conf.wrtun.disable_ipv6=1; ip link set dev wrtun up')
print('ready', file=sys.stderr, flush=True)
while True:
    print(os.read(tun, 4096).hex(), flush=True)
";

/// Starts the script; its device is in the sender's namespace.
fn tun(lab: &Lab) -> Running {
    let mut script = in_netns(&lab.tx_netns, "python3");
    script.args(["-c", TUN]);
    let script = Running::start(script);
    script.until_it_says("ready");
    script
}

fn replayed() -> TestResult {
    const RAW: u16 = 101;
    const ARP: u64 = 7;
    let lab = Lab::new(Peer::Deaf);
    let script = tun(&lab);
    let replay = |path: &Path| {
        let words = format!("replay wrtun {} --netns {} --json --loop 2", path.display(), lab.tx_netns);
        wirerate_run(&words)
    };
    let raw = replay(&file_of_type(&lab, RAW, 20, 1_000_000, |number| frame(number).split_off(14)));
    let raw = report(&raw.expect_code(0));
    assert_eq!((number(&raw, "sent"), &raw["engine"]), (40, &Value::from("af_packet")), "{raw}");
    // ARP has no form without an Ethernet header.
    let ethernet = replay(&file_of(&lab, 20, 1_000_000, |number| {
        let mut out = frame(number);
        out[12..14].copy_from_slice(if number == ARP { &[8, 6] } else { &[8, 0] });
        out
    }));
    let ethernet = report(&ethernet.expect_code(1));
    assert_eq!((number(&ethernet, "sent"), number(&ethernet, "link_type")), (38, 2), "{ethernet}");
    let hex = |number: u64| -> String {
        frame(number)[14..].iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
    };
    let all = (0..20).map(hex).collect::<String>().repeat(2);
    let ip = (0..20).filter(|number| *number != ARP).map(hex).collect::<String>().repeat(2);
    let expected = all + &ip;
    until("all packets arrive", || script.printed().len() >= expected.len());
    assert_eq!(script.printed(), expected);
    Ok(())
}

/// A file with text, by its name.
fn text_file(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.file(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Runs a command on the device, with its report as JSON.
fn on_tun(lab: &Lab, words: &str) -> Outcome {
    wirerate_run(&format!("{words} --netns {} --json", lab.tx_netns))
}

fn sent() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let script = tun(&lab);
    let (mut expected, to) = (0, "--dst 10.9.0.2 --src 10.9.0.1");
    let addressed = "ipv4(sa=10.9.0.1,da=10.9.0.2), udp(sp=1,dp=2), fill(0x55,18)";
    let tagged = text_file(&lab, "tagged.cfg", &format!("{{ eth(), vlan(id=7), {addressed} }}"));
    let bare = text_file(&lab, "bare.cfg", &format!("{{ {addressed} }}"));
    for words in [
        format!("send wrtun {to} --count 5"),
        format!("send wrtun {to} --count 5 --pps 1k --batch 1"),
        format!("send wrtun {to} --count 5 --vlan 9 --size 64"),
        format!("send wrtun --count 5 --frames {tagged}"),
        format!("trafgen -i {bare} -o wrtun -n 5"),
    ] {
        let report = send::report(&on_tun(&lab, &words).expect_code(0));
        assert_eq!(
            (number(&report, "sent"), &report["engine"]["name"]),
            (5, &"af_packet".into()),
            "{report}"
        );
        expected += 5;
        until("all packets arrive", || script.printed().lines().count() >= expected);
    }
    let addresses = "0a0900010a090002";
    for line in script.printed().lines() {
        // No MAC address, tag or padding before the packet.
        assert!(line.starts_with("45") && line[24..40] == *addresses, "{line}");
    }
    // IPv6, by the first byte of its packets.
    let report =
        send::report(&on_tun(&lab, "send wrtun --dst fd00::2 --src fd00::1 --count 3").expect_code(0));
    assert_eq!(number(&report, "sent"), 3);
    until("all packets arrive", || {
        script.printed().lines().filter(|line| line.starts_with('6')).count() == 3
    });
    Ok(())
}

fn refused() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let _script = tun(&lab);
    let filled = text_file(&lab, "filled.cfg", "{ eth(), fill(0x55,50) }");
    let trafgen = format!("trafgen -i {filled} -o wrtun -n 1");
    for (words, reason) in [
        (
            "send wrtun --arp --dst 10.9.0.2 --src 10.9.0.1 --count 1",
            "not all frames for wrtun are IP packets",
        ),
        (&trafgen, "not all frames for wrtun are IP packets"),
        ("send wrtun --dst 10.9.0.2 --src 10.9.0.1 --count 1 --engine xdp", "af_packet does"),
        ("send wrtun --dst 10.9.0.2 --count 1 --xmit-mode netif_receive", "no Ethernet header"),
        ("send wrtun --dst 10.9.0.2 --src 10.9.0.1 --size 2000 --count 1", "its MTU is 1500"),
    ] {
        on_tun(&lab, words).expect_code(3).says(&[reason]);
    }
    Ok(())
}
