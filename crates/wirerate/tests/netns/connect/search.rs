//! `wirerate search --connections` through a router that limits connections.

use super::lab::{Between, ConnectLab, json};
use crate::TestResult;
use crate::program::{Running, wirerate_run, wirerate_start};
use serde_json::Value;

fn accept(lab: &ConnectLab, words: &str) -> Running {
    let accepting = wirerate_start(&format!("accept s0@{} {words}", lab.server));
    accepting.until_it_says("accepting on");
    accepting
}

/// SYNs of a client.
const SYN: &str = "tcp flags syn / fin,syn,rst,ack";

/// A router with the rules of a chain, and what the table has before it.
fn limited(before: &str, rules: &str) -> ConnectLab {
    let lab = ConnectLab::new(Between::Router, "");
    super::lab::gro(lab.middle(), "m1");
    lab.nft(&format!(
        "table ip limits {{\n{before}\nchain forward {{\ntype filter hook forward priority 0\n{rules}\n}}\n}}\n"
    ));
    lab
}

/// The result of a search, and the trials before it.
#[track_caller]
fn search(lab: &ConnectLab, words: &str) -> (Value, Vec<Value>) {
    let said = wirerate_run(&format!(
        "search --tx c0@{} --dst 198.19.0.2:80 --src 198.18.64.0/24 --method quick --json {words}",
        lab.client
    ));
    let mut lines: Vec<Value> = said.stdout.lines().map(json).collect();
    let end = lines.pop().unwrap_or_else(|| panic!("a result: {}", said.stderr));
    assert_eq!(end["schema"], "wirerate.search/1", "{end}");
    (end, lines)
}

fn bounds(end: &Value) -> (u64, u64) {
    let goal = &end["goals"][0];
    (goal["lower_pps"].as_u64().unwrap_or(0), goal["upper_pps"].as_u64().unwrap_or(u64::MAX))
}

/// The table of a firewall has 300 entries. Each trial has the same client ports.
pub(super) fn held() -> TestResult {
    let table = "set entries {\ntype ipv4_addr . inet_service\nsize 300\nflags dynamic\n}";
    let enter = format!("{SYN} add @entries {{ ip saddr . tcp sport }} accept\n{SYN} drop");
    let lab = limited(table, &enter);
    let _server = accept(&lab, "--response-bytes 0 --close client");
    let (end, trials) = search(&lab, "--connections=held --max-connections 1000 --timeout 2s");
    let (lower, upper) = bounds(&end);
    // No load above the limit is ever held without a failure, on however busy a machine.
    assert!(lower <= 300, "{end}");
    assert!(
        trials.iter().all(|trial| trial["load_pps"].as_u64() <= Some(300) || trial["lost"] != 0),
        "{end}"
    );
    if end["goals"][0]["end"] == "regular" {
        assert!(upper > lower && upper <= 303, "{end}");
    }
    assert_eq!(end["connections"], "held", "{end}");
    Ok(())
}

/// A firewall passes 1,000 new connections per second, and 50 more at once.
pub(super) fn rate() -> TestResult {
    let lab = limited("", &format!("{SYN} limit rate over 1000/second burst 50 packets drop"));
    let _server = accept(&lab, "");
    // Lost SYNs are not sent again before the timeout.
    let words = "--connections --max-connections 4000 --timeout 900ms --settle 800ms --rest 200ms";
    let (end, trials) = search(&lab, words);
    let (lower, upper) = bounds(&end);
    // In a trial of 1 s, 1,050 SYNs pass, and a few more if it takes longer.
    assert!(lower <= 1_100, "{end}");
    if end["goals"][0]["end"] == "regular" {
        assert!(upper <= 1_200, "{end}");
    }
    assert!(trials.iter().any(|trial| trial["lost"] != 0), "{trials:?}");
    assert_eq!(end["connections"], "rate", "{end}");
    Ok(())
}

/// Options that have no meaning in such a search.
pub(super) fn refused() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let words =
        format!("search --connections --tx c0@{} --dst 198.18.0.2:80 --src 198.18.64.0/24", lab.client);
    for (more, why) in [
        ("--rx s0", "use --rx with --connections"),
        ("--frame-sizes 64", "use frame sizes with --connections"),
        ("--cps 5k", "use --cps in a search"),
        ("--open 5", "use --open in a search"),
        ("--min-connections 100k", "the lowest must be below it"),
        ("--no-such", "--no-such"),
    ] {
        wirerate_run(&format!("{words} {more}")).expect_code(2).says(&[why]);
    }
    let many = "--connections=held --max-connections 1M --src-port 1024-1033";
    wirerate_run(&words.replace("--connections", many))
        .expect_code(2)
        .says(&["these addresses and ports allow 2,560"]);
    wirerate_run("search --tx c0 --dst 198.18.0.2").expect_code(2).says(&["--rx"]);
    Ok(())
}
