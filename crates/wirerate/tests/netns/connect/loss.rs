//! Loss in both directions: a router drops packets at random.

use super::lab::{Between, ConnectLab, count, ip};
use super::{complete, connect};
use crate::TestResult;

const SERVER: &str = "--dst 198.19.0.2:80 --src 198.18.64.0/24";

/// 1 % each way: three ways to close, one and five requests, with and without SYN cookies.
pub(super) fn repaired() -> TestResult {
    let lab = ConnectLab::new(Between::Router, "");
    let _nginx = lab.nginx();
    lab.lose(10);
    let mut repairs = 0;
    for cookies in [0, 1, 2] {
        ip(&format!("netns exec {} sysctl -qw net.ipv4.tcp_syncookies={cookies}", lab.server.name));
        for close in ["server", "client", "reset"] {
            for requests in [1, 5] {
                // nginx closes behind the last of several requests only if that asks for it.
                let close = if requests > 1 && close == "server" { "client" } else { close };
                let words = format!("{SERVER} --cps 1000 -c 300 --close {close} --requests {requests}");
                let report = complete(connect(&lab, &words), 300);
                assert_eq!(count(&report, "responses"), 300 * requests, "{report}");
                let names = ["syn_resent", "requests_resent", "fins_resent", "gaps", "repeated"];
                repairs += names.iter().map(|name| count(&report, name)).sum::<u64>();
            }
        }
    }
    assert!(repairs > 100, "{repairs} repairs");
    Ok(())
}

/// A lost SYN was never sent again where the connections of each client are limited.
pub(super) fn repaired_per_client() -> TestResult {
    let lab = ConnectLab::new(Between::Router, "");
    let _nginx = lab.nginx();
    lab.lose(20);
    let words = format!("{SERVER} --open 16 --open-per-client 2 -c 2000 --timeout 60s");
    let report = complete(connect(&lab, &words), 2000);
    assert!(count(&report, "syn_resent") > 5, "{report}");
    Ok(())
}

/// Long responses with gaps in them.
pub(super) fn bytes_are_exact() -> TestResult {
    let lab = ConnectLab::new(Between::Router, "");
    let _nginx = lab.nginx();
    for path in ["/0", "/1", "/1460", "/1461", "/100000"] {
        let get = format!("{SERVER} --open 20 -c 200 --get {path}");
        lab.nft("flush ruleset\n");
        let whole = count(&complete(connect(&lab, &get), 200), "payload_bytes");
        lab.lose(10);
        let report = complete(connect(&lab, &get), 200);
        assert_eq!(count(&report, "payload_bytes"), whole, "{path}: {report}");
        if path == "/100000" {
            assert!(count(&report, "gaps") > 50, "{report}");
        }
    }
    Ok(())
}

/// 5 % each way: a connection may need several tries of each of its steps. Tries are 1, 2, 4 s and
/// so on apart: within 60 s there are six, which are all lost for one of 10,000 connections in one
/// of 40 runs, and within 127 s seven.
pub(super) fn much() -> TestResult {
    let lab = ConnectLab::new(Between::Router, "");
    let _nginx = lab.nginx();
    lab.lose(50);
    let report = complete(connect(&lab, &format!("{SERVER} --cps 1000 -c 10k --timeout 200s")), 10_000);
    assert!(count(&report, "syn_resent") > 500, "{report}");
    Ok(())
}
