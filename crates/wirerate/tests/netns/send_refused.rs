//! `wirerate send` on a device or to an address that cannot be used: the first thing to mend is
//! named, and the commands after `try:` mend it.

use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, TX_DEV};
use crate::program::{Outcome, run, wirerate_run};
use crate::send::{number, report};
use crate::{Case, TestResult, case};

/// Tests of refusals, and of the address whose MAC frames have.
pub(crate) const CASES: &[Case] = &[
    case("send::frames_beyond_the_mtu_are_refused_by_every_engine", &[], too_long),
    case("send::a_device_that_is_down_is_named_before_its_neighbours", &[], down),
    case("send::a_peer_that_is_down_is_named_with_its_namespace", &[], peer_down),
    case("send::an_address_without_route_is_named_and_the_advice_mends_it", &[], no_route),
    case("send::the_device's_own_address_is_named", &[], own_address),
    case("send::a_silent_neighbour_is_named_and_the_advice_mends_it", &[], silent_neighbour),
    case("send::a_range_takes_the_mac_of_the_first_host_that_answers", &[], range),
    case("send::a_range_behind_a_router_takes_the_mac_of_the_router", &[], router),
    case("send::a_driver_that_adds_the_fcs_is_named", &[], own_fcs),
    case("send::a_namespace_may_be_a_path_or_a_process", &["sleep"], other_names_of_a_namespace),
];

/// A lab whose ends ask for addresses, as a newcomer's would.
pub(crate) fn talkative() -> Lab {
    let lab = Lab::new(Peer::Gro);
    for (netns, ifname) in [(&lab.tx_netns, TX_DEV), (&lab.rx_netns, RX_DEV)] {
        run(&["ip", "-n", netns, "link", "set", ifname, "arp", "on"]);
        run(&["ip", "-n", netns, "neighbour", "flush", "nud", "permanent", "dev", ifname]);
    }
    lab
}

fn send(lab: &Lab, words: &str) -> Outcome {
    wirerate_run(&format!("send {TX_DEV} --netns {} --count 10 --json {words}", lab.tx_netns))
}

/// The commands that a refusal offers: each line after `try:` up to an explanation in brackets.
fn tries(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.stderr.lines().filter_map(|line| line.trim().strip_prefix("try: "));
    lines.map(|line| line.split(" (").next().unwrap_or(line).to_owned()).collect()
}

/// Runs a command as a shell does that it is pasted into.
#[track_caller]
fn paste(command: &str) {
    run(&["sh", "-c", command]);
}

/// The driver of veth devices has no frame check sequence to leave out.
fn own_fcs() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (engine, reason) in [
        ("", "not af_packet: the af_packet engine does not support"),
        (" --engine af_packet", "the driver of the device cannot leave the FCS to the sender"),
        (" --engine skb", "only packet sockets can send them"),
        (" --engine xdp", "only packet sockets can send them"),
        (" --engine af_xdp", "only packet sockets can send them"),
    ] {
        send(&lab, &format!("--dst 198.18.0.2 --send-fcs bad{engine}")).expect_code(3).says(&[reason]);
    }
    for wrong in ["good", "0x1234567890", "0x", "4294967296"] {
        let words = format!("--dst 198.18.0.2 --send-fcs {wrong}");
        send(&lab, &words).expect_code(2).says(&["use bad, or four bytes such as 0xdeadbeef"]);
    }
    // A system call sends one such frame.
    send(&lab, "--dst 198.18.0.2 --send-fcs bad --batch 8").expect_code(2).says(&["--batch"]);
    Ok(())
}

/// Frames of 1518 bytes were sent by xdp and skb, and dropped by the first switch.
fn too_long() -> TestResult {
    let lab = talkative();
    for engine in ["xdp", "skb", "af_packet"] {
        for words in [
            "--size 1515",
            "--frame-size 1519",
            "--tcp --size 1515",
            "--imix 60:1,1518:1",
            "--vlan 5 --size 1519",
        ] {
            let words = format!("--dst 198.18.0.2 --engine {engine} {words}");
            let refused = send(&lab, &words).expect_code(3);
            refused.says(&[
                "send frames of 15",
                " with FCS) on tx0: its MTU is 1500, which allows 151",
                "--allow-long",
            ]);
            let set = format!("`ip -n {} link set tx0 mtu 150", lab.tx_netns);
            assert!(tries(&refused)[0].starts_with(&set), "{}", refused.stderr);
        }
        send(&lab, &format!("--dst 198.18.0.2 --engine {engine} --vlan 5 --size 1518")).expect_code(0);
    }
    send(&lab, "--dst 198.18.0.2 --engine xdp --size 60-1514 --random size").expect_code(0);
    send(&lab, "--dst 198.18.0.2 --engine xdp --size 1518 --allow-long").expect_code(0);
    for (netns, device) in [(&lab.tx_netns, TX_DEV), (&lab.rx_netns, RX_DEV)] {
        run(&["ip", "-n", netns, "link", "set", device, "mtu", "1600"]);
    }
    send(&lab, "--dst 198.18.0.2 --engine xdp --size 1614").expect_code(0);
    Ok(())
}

fn down() -> TestResult {
    let lab = talkative();
    run(&["ip", "-n", &lab.tx_netns, "link", "set", TX_DEV, "down"]);
    for mac in ["", "--dst-mac 02:00:00:00:00:02"] {
        let refused = send(&lab, &format!("--dst 198.18.0.2 {mac}")).expect_code(3);
        refused.says(&["tx0 is down"]);
        assert_eq!(tries(&refused), [format!("ip -n {} link set tx0 up", lab.tx_netns)]);
    }
    paste(&tries(&send(&lab, "--dst 198.18.0.2"))[0]);
    crate::program::until("the link is up", || send(&lab, "--dst 198.18.0.2").code == Some(0));
    Ok(())
}

fn peer_down() -> TestResult {
    let lab = talkative();
    run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, "down"]);
    for mac in ["", "--dst-mac 02:00:00:00:00:02"] {
        let refused = send(&lab, &format!("--dst 198.18.0.2 {mac}")).expect_code(3);
        refused.says(&["tx0 has no carrier", "its peer rx0 in namespace", &lab.rx_netns, "is down"]);
        assert_eq!(tries(&refused), [format!("ip -n {} link set rx0 up", lab.rx_netns)]);
    }
    Ok(())
}

fn no_route() -> TestResult {
    let lab = talkative();
    let refused = send(&lab, "--dst 10.1.2.3").expect_code(3);
    refused.says(&["there is no route to 10.1.2.3 by tx0 in namespace", &lab.tx_netns]);
    let tries = tries(&refused);
    assert_eq!(tries[0], format!("ip -n {} route add 10.1.2.3 dev tx0", lab.tx_netns));
    send(&lab, &format!("--dst 10.1.2.3 {}", tries[1])).expect_code(0);
    paste(&tries[0]);
    run(&["ip", "-n", &lab.rx_netns, "address", "add", "10.1.2.3/32", "dev", RX_DEV]);
    report(&send(&lab, "--dst 10.1.2.3").expect_code(0));
    Ok(())
}

fn own_address() -> TestResult {
    let lab = talkative();
    send(&lab, "--dst 198.18.0.1").expect_code(3).says(&["198.18.0.1 is the address of tx0 itself"]);
    Ok(())
}

fn silent_neighbour() -> TestResult {
    let lab = talkative();
    let refused = send(&lab, "--dst 198.18.0.99").expect_code(3);
    refused.says(&["the MAC address of 198.18.0.99 is unknown: it does not answer ARP"]);
    let tries = tries(&refused);
    send(&lab, &format!("--dst 198.18.0.99 {}", tries[0])).expect_code(0);
    paste(&tries[1]);
    send(&lab, "--dst 198.18.0.99").expect_code(0);
    send(&lab, "--dst 198.18.0.100-198.18.0.103")
        .expect_code(3)
        .says(&["none of 4 hosts, 198.18.0.100 to 198.18.0.103, answers ARP"]);
    Ok(())
}

/// The second example of the README in the lab that a newcomer makes.
fn range() -> TestResult {
    let lab = talkative();
    for (netns, ifname, ip) in
        [(&lab.tx_netns, TX_DEV, "fd00:18::1/64"), (&lab.rx_netns, RX_DEV, "fd00:18::2/64")]
    {
        run(&[
            "ip",
            "netns",
            "exec",
            netns,
            "sysctl",
            "-qw",
            &format!("net.ipv6.conf.{ifname}.disable_ipv6=0"),
        ]);
        // Neighbour discovery needs a link-local address, which nothing made while IPv6 was off.
        for ip in [ip, &ip.replace("fd00:18", "fe80")] {
            run(&["ip", "-n", netns, "address", "add", ip, "dev", ifname, "nodad"]);
        }
    }
    for (words, host) in [
        ("--dst 198.18.0.0/16 --random dst --size 60-1514", "198.18.0.2"),
        ("--dst 198.18.0.1-198.18.0.5", "198.18.0.2"),
        ("--dst fd00:18::/64", "fd00:18::2"),
        ("--dst 198.18.0.2", "198.18.0.2"),
    ] {
        let report = report(&send(&lab, words).expect_code(0));
        assert_eq!(number(&report, "sent"), 10, "{report}");
        assert_eq!(report["next_hop"]["ip"], host, "{report}");
        assert_eq!(report["next_hop"]["mac"], RX_MAC, "{report}");
    }
    let text = wirerate_run(&format!("send {TX_DEV} --netns {} --dst 198.18.0.0/16", lab.tx_netns));
    assert!(text.expect_code(0).stdout.contains("next hop  198.18.0.2, 02:00:00:00:00:02"));
    Ok(())
}

fn router() -> TestResult {
    let lab = talkative();
    run(&["ip", "-n", &lab.tx_netns, "route", "add", "10.0.0.0/8", "via", "198.18.0.2"]);
    let report = report(&send(&lab, "--dst 10.0.0.0/24 --random dst").expect_code(0));
    assert_eq!(report["next_hop"]["ip"], "198.18.0.2", "{report}");
    run(&["ip", "-n", &lab.tx_netns, "route", "replace", "10.0.0.0/8", "via", "198.18.0.77"]);
    let refused = send(&lab, "--dst 10.0.0.0/24").expect_code(3);
    refused.says(&["198.18.0.77 (the next hop to 10.0.0.0) is unknown"]);
    Ok(())
}

fn other_names_of_a_namespace() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let sleeper = crate::program::Running::start({
        let mut command = crate::program::in_netns(&lab.tx_netns, "sleep");
        command.arg("600");
        command
    });
    // `ip netns exec` becomes the sleeper, in the namespace, before it sleeps.
    let comm = format!("/proc/{}/comm", sleeper.id());
    crate::program::until("it sleeps", || std::fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n"));
    for netns in [sleeper.id().to_string(), format!("/run/netns/{}", lab.tx_netns)] {
        let words = format!("send {TX_DEV} --netns {netns} --dst 198.18.0.2 --count 10 --json");
        report(&wirerate_run(&words).expect_code(0));
    }
    run(&["ip", "-n", &lab.tx_netns, "link", "set", TX_DEV, "down"]);
    let refused = wirerate_run(&format!("send {TX_DEV} --netns {} --dst 198.18.0.2", sleeper.id()));
    paste(&tries(&refused.expect_code(3))[0]);
    Ok(())
}
