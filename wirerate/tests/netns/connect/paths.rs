//! What lies between client and server: IP versions, tags, routers, bridges.

use super::lab::{Between, ConnectLab, count, gro, ip};
use super::{SERVER, complete, connect};
use crate::TestResult;
use crate::program::run;

/// IPv6, a VLAN, and the generic mode, which the report names.
pub(super) fn versions() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let v6 = "--dst [fd00:18::2]:80 --src fd00:18::1000-fd00:18::10ff --open 32 -c 3000";
    for (number, more) in ["", "--requests 3", "--get /100000"].into_iter().enumerate() {
        let report = complete(connect(&lab, &format!("{v6} {more}")), 3000);
        // Then the server's kernel knows all of them.
        assert!(number > 0 || count(&report, "neighbours") >= 256, "{report}");
    }
    let (server, client) = (&lab.server.name, &lab.client.name);
    ip(&format!("-n {server} link add link s0 name s0.7 type vlan id 7"));
    ip(&format!("-n {server} addr add 198.20.0.2/16 dev s0.7"));
    ip(&format!("-n {server} link set s0.7 up"));
    let vlan = "--dst 198.20.0.2:80 --src 198.20.64.0/24 --vlan 7 --dst-mac 02:00:00:00:00:02";
    let report = complete(connect(&lab, &format!("{vlan} --open 32 -c 3000")), 3000);
    assert!(count(&report, "neighbours") > 0, "{report}");
    let report = complete(connect(&lab, &format!("{SERVER} --open 32 -c 3000 --xdp generic")), 3000);
    assert_eq!(report["xdp"], "XDP, generic");
    // Frames of others reach the host.
    let holding = crate::program::wirerate_start(&format!("connect c0@{client} {SERVER} --hold 10"));
    holding.until_it_says("at most");
    run(&["ip", "netns", "exec", client, "ping", "-c", "2", "-i", "0.2", "198.18.0.2"]);
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
    connect(&lab, &fast.replace("--open 32", "")).expect_code(3).says(&["--allow-routed"]);
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
