//! Several servers, load balancers in front of them, and limits for each client address.

use super::lab::{Between, ConnectLab, count, gro, ip, veth};
use super::{complete, connect, response_len};
use crate::TestResult;
use crate::lab::OwnNetns;
use crate::program::{Running, TIME_LIMIT, run, wirerate_start};
use nix::sys::signal::Signal;
use serde_json::Value;

/// The groups of a report: value and responses.
#[track_caller]
fn groups(report: &Value) -> Vec<(String, u64)> {
    let list = report["groups"].as_array().expect("a list of groups");
    list.iter()
        .map(|group| (group["value"].as_str().unwrap().to_owned(), count(group, "responses")))
        .collect()
}

fn accept(netns: &str, device: &str, words: &str) -> Running {
    let accepting = wirerate_start(&format!("accept {device}@{netns} --json {words}"));
    accepting.until_it_says("accepting on");
    accepting
}

#[track_caller]
fn accepted(accepting: Running) -> u64 {
    accepting.signal(Signal::SIGINT);
    count(&super::json(&accepting.wait(TIME_LIMIT).expect_code(0).stdout), "accepted")
}

/// Two servers with MAC addresses of their own, and their names in the responses.
pub(super) fn list() -> TestResult {
    let lab = ConnectLab::new(Between::Bridge, "");
    let other = OwnNetns::new("t");
    let middle = lab.middle();
    veth((middle, "m2", 5), (&other.name, "t0", 6), "");
    ip(&format!("-n {middle} link set m2 master b0"));
    ip(&format!("-n {other} addr add 198.18.0.9/15 dev t0"));
    ["m1", "m2"].iter().for_each(|port| gro(middle, port));
    let servers = [accept(&lab.server.name, "s0", "--name s1"), accept(&other.name, "t0", "--name s2")];
    // Behind `HTTP/1.1 200 OK` and `Server: `.
    let words = "--dst 198.18.0.2:80,198.18.0.9:80 --src 198.18.64.0/24 --group-by payload:25:2";
    let report = complete(connect(&lab, &format!("{words} --open 16 -c 2000")), 2000);
    assert_eq!(groups(&report), [("s1".to_owned(), 1000), ("s2".to_owned(), 1000)], "{report}");
    assert_eq!((&report["ungrouped"], &report["strays"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(servers.map(accepted), [1000, 1000]);
    for (dst, why) in [
        ("198.18.0.2:80,198.18.0.0/28:80", "a server in common"),
        ("198.18.0.2:80,[fd00:18::2]:80", "different versions of IP"),
    ] {
        connect(&lab, &format!("--dst {dst} --src 198.18.64.0/24 -c 1")).expect_code(2).says(&[why]);
    }
    Ok(())
}

/// A router that sends connections to two servers in turns.
pub(super) fn load_balancer() -> TestResult {
    let lab = ConnectLab::new(Between::Router, "");
    ip(&format!("-n {} addr add 198.19.0.5/16 dev s0", lab.server));
    let _nginx = lab.nginx();
    lab.nft(
        "table ip nat {\nchain pre {\ntype nat hook prerouting priority -100\nip daddr 198.18.0.3 tcp dport 80 \
         dnat to numgen inc mod 2 map { 0 : 198.19.0.2, 1 : 198.19.0.5 }\n}\n}\n",
    );
    let body = "198.19.0.2:80\n".len() as u64;
    let path = "/where";
    let offset = response_len(&lab, "198.18.0.3", path) - body;
    let words = "--dst 198.18.0.3:80 --src 198.18.64.0/24 --open 16 -c 2000 --get /where";
    let report = complete(connect(&lab, &format!("{words} --group-by payload:{offset}:10")), 2000);
    let found = groups(&report);
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["198.19.0.2", "198.19.0.5"], "{report}");
    assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 2000, "{report}");
    // The router counts packets that it drops, too.
    assert!(found[0].1.abs_diff(found[1].1) <= 20, "{report}");
    Ok(())
}

/// No client address has more connections than the limit, with both ways to limit all of them.
pub(super) fn per_client() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let words = "--dst 198.18.0.2:80 --src 198.18.64.1-198.18.64.8 --open-per-client 2";
    let report = complete(connect(&lab, &format!("{words} --open 16 -c 4000")), 4000);
    assert_eq!((&report["open_per_client_max"], &report["open_max"]), (&2.into(), &16.into()), "{report}");
    let report = complete(connect(&lab, &format!("{words} --cps 5k -c 4000")), 4000);
    assert!((1..=2).contains(&count(&report, "open_per_client_max")), "{report}");
    let holding = wirerate_start(&format!("connect c0@{} --json {words} --hold 16", lab.client));
    crate::program::until("all are established", || lab.established() == 16);
    let shown = run(&["ip", "netns", "exec", &lab.server.name, "ss", "-Htn", "state", "established"]);
    for host in 1..=8 {
        let peer = format!("198.18.64.{host}:");
        assert_eq!(shown.lines().filter(|line| line.contains(&peer)).count(), 2, "{shown}");
    }
    holding.signal(Signal::SIGINT);
    holding.wait(TIME_LIMIT);
    let many = connect(&lab, &format!("{words} --open 17 -c 100")).expect_code(2);
    many.says(&["these addresses and ports allow 16 with --open-per-client"]);
    Ok(())
}
