//! What lies between client and server: IP versions, tags, routers, bridges.

use super::lab::{Between, ConnectLab, count, gro};
use super::{SERVER, complete, connect};
use crate::TestResult;
use crate::program::{Running, TIME_LIMIT, in_netns, run, wirerate_start};
use nix::sys::signal::Signal;
use std::time::Duration;

/// IPv6, and the generic mode, which the report names.
pub(super) fn versions() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let v6 = "--dst [fd00:18::2]:80 --src fd00:18::1000-fd00:18::10ff --open 32 -c 3000";
    for (number, more) in ["", "--requests 3", "--get /100000"].into_iter().enumerate() {
        let report = complete(connect(&lab, &format!("{v6} {more}")), 3000);
        // Then the server's kernel knows all of them.
        assert!(number > 0 || count(&report, "neighbours") >= 256, "{report}");
    }
    let report = complete(connect(&lab, &format!("{SERVER} --open 32 -c 3000 --xdp generic")), 3000);
    assert_eq!(report["xdp"], "XDP, generic");
    // Frames of others reach the host.
    let holding = wirerate_start(&format!("connect c0@{} {SERVER} --hold 10", lab.client));
    holding.until_it_says("at most");
    run(&["ip", "netns", "exec", &lab.client.name, "ping", "-c", "2", "-i", "0.2", "198.18.0.2"]);
    drop(holding);
    Ok(())
}

pub(super) fn nat_and_bridge() -> TestResult {
    let lab = ConnectLab::new(Between::Router, "");
    let _nginx = lab.nginx();
    lab.nft(
        "table ip nat {\nchain post {\ntype nat hook postrouting priority 100\noifname \"m1\" masquerade\n}\n}\n",
    );
    let routed = "--dst 198.19.0.2:80 --src 198.18.64.0/24 --open 32 -c 3000";
    for more in ["", "--requests 3", "--close reset"] {
        complete(connect(&lab, &format!("{routed} {more}")), 3000);
    }
    let fast = format!("{routed} --cps 150k");
    for more in [fast.replace("--open 32", ""), routed.replace("--open 32 -c 3000", "--hold 150k")] {
        connect(&lab, &more).expect_code(3).says(&["is behind a router", "--allow-routed"]);
    }
    drop(lab);
    let lab = ConnectLab::new(Between::Bridge, "");
    let _nginx = lab.nginx();
    let report = complete(connect(&lab, &format!("{SERVER} --open 32 -c 3000")), 3000);
    assert!(count(&report, "neighbours") >= 256, "a request for each address: {report}");
    Ok(())
}

/// Frames of 9,000 bytes, and several queues.
pub(super) fn long_mtu() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "mtu 9000 numrxqueues 4 numtxqueues 4");
    let _nginx = lab.nginx();
    gro(&lab.server.name, "s0");
    for more in ["", "--get /100000", "--get /100000 --requests 3"] {
        let report = complete(connect(&lab, &format!("{SERVER} --open 32 -c 2000 {more}")), 2000);
        assert_eq!(report["xdp"], "XDP, native", "{report}");
        assert_eq!(report["unsized_responses"], 0, "{report}");
    }
    Ok(())
}

/// Tagged frames, which a bridge passes to a server with the same tag.
pub(super) fn vlan() -> TestResult {
    let lab = ConnectLab::new(Between::Bridge, "");
    gro(lab.middle(), "m1");
    let file = lab.file("tagged.pcap").display().to_string();
    let mut command = in_netns(lab.middle(), "tcpdump");
    command.args(["-i", "m0", "-w", &file, "-U", "-s", "96", "-B", "65536"]);
    let tcpdump = Running::start(command);
    tcpdump.until_it_says("listening on");
    let words = format!("accept s0@{} --vlan 7 --dst 198.20.0.2 --json", lab.server);
    let accepting = wirerate_start(&words);
    accepting.until_it_says("accepting on s0");
    let words = "--dst 198.20.0.2:80 --src 198.20.64.0/24 --vlan 7 --dst-mac 02:00:00:00:00:02";
    complete(connect(&lab, &format!("{words} --open 16 -c 500")), 500);
    std::thread::sleep(Duration::from_millis(300));
    tcpdump.signal(Signal::SIGINT);
    tcpdump.wait(TIME_LIMIT);
    let shown = |filter: &str| run(&["tcpdump", "-n", "-r", &file, filter]).lines().count();
    let tagged = shown("vlan 7 and tcp");
    assert!(tagged >= 500 * 3, "three frames of the client for each connection: {tagged}");
    assert_eq!(shown("tcp"), 0, "no frame is without it");
    Ok(())
}
