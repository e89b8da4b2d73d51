//! `wirerate doctor`: what it says of devices whose state is known, and that it leaves no trace.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, run, until, wirerate, wirerate_run};
use crate::send::{report, sending};
use crate::{Case, TestResult, case};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Tests of `wirerate doctor`.
pub(crate) const CASES: &[Case] = &[
    case("doctor::what_it_says_of_a_veth_is_the_golden_file", &[], golden_veth),
    case("doctor::names_the_engine_that_send_takes_and_why", &[], names_the_engine),
    case("doctor::sends_nothing_and_changes_nothing", &[], leaves_no_trace),
    case("doctor::a_device_on_which_nothing_works_is_a_no", &[], nothing_works),
    case("doctor::a_missing_device_or_namespace_is_refused", &[], missing),
    case("doctor::settings_that_cost_frames_are_told_with_what_to_type", &["tc"], costly_settings),
    case("doctor::works_without_root_and_says_what_it_could_not_ask", &["setpriv"], without_root),
    case("doctor::without_a_device_every_device_has_a_line", &[], overview),
];

fn doctor(lab: &Lab, words: &str) -> Outcome {
    wirerate_run(&format!("doctor {TX_DEV} --netns {} {words}", lab.tx_netns))
}

#[track_caller]
fn json(outcome: &Outcome) -> Value {
    let value: Value =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    assert_eq!(value["schema"], "wirerate.doctor/1");
    value
}

/// The finding of one topic.
#[track_caller]
fn finding<'a>(report: &'a Value, topic: &str) -> &'a Value {
    let mut found = report["findings"].as_array().expect("a list").iter();
    found.find(|finding| finding["topic"] == topic).unwrap_or_else(|| panic!("no {topic} in {report}"))
}

/// The part about the device; what follows is about this machine.
fn golden_veth() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let outcome = doctor(&lab, "").expect_code(0);
    let device = outcome.stdout.split("\nhost: ").next().unwrap_or_default();
    let text = device.replace(&lab.tx_netns, "LAB-TX");
    testkit::golden("doctor_veth.txt", &text);
    assert!(outcome.stdout.contains("\nhost: Linux "), "{}", outcome.stdout);
    Ok(())
}

fn names_the_engine() -> TestResult {
    for (peer, engine) in [(Peer::Gro, "xdp"), (Peer::Deaf, "skb")] {
        let lab = Lab::new(peer);
        let said = json(&doctor(&lab, "--json").expect_code(0));
        assert_eq!(said["engine"]["name"], engine, "{said}");
        let sent = report(&wirerate_run(&sending(&lab, "--count 1")).expect_code(0));
        assert_eq!(sent["engine"]["name"], engine);
        // send joins its reasons; those of doctor are the same, one by one.
        let reasons = said["engine"]["why"].as_array().expect("a list").iter();
        let reasons: Vec<_> = reasons.map(|why| why.as_str().expect("a text")).collect();
        assert_eq!(sent["engine"]["why"][0], reasons.join("; "));
    }
    Ok(())
}

/// All that the tools tell of both ends, counters included.
fn state_of(lab: &Lab) -> String {
    let ends = [(&lab.tx_netns, TX_DEV), (&lab.rx_netns, RX_DEV)];
    let words = |netns: &str, dev: &str| {
        let link = run(&["ip", "-n", netns, "-d", "-s", "link", "show"]);
        link + &run(&["ip", "netns", "exec", netns, "ethtool", "-k", dev])
            + &run(&["ip", "netns", "exec", netns, "ethtool", "-S", dev])
    };
    ends.map(|(netns, dev)| words(netns, dev)).concat()
}

fn leaves_no_trace() -> TestResult {
    for peer in [Peer::Gro, Peer::Deaf] {
        let lab = Lab::new(peer);
        until("both ends are up", || state_of(&lab).matches("state UP").count() == 2);
        let before = state_of(&lab);
        doctor(&lab, "").expect_code(0);
        wirerate_run(&format!("doctor --netns {}", lab.tx_netns)).expect_code(0);
        let after = state_of(&lab);
        let changed: Vec<_> =
            before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
        assert_eq!(changed, []);
        assert_eq!(before.len(), after.len());
    }
    Ok(())
}

/// The advice of the engines lacked the namespace, and a peer that was down was not named.
fn nothing_works() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (netns, dev) in [(&lab.tx_netns, TX_DEV), (&lab.rx_netns, RX_DEV)] {
        for of_engine in [false, true] {
            run(&["ip", "-n", netns, "link", "set", dev, "down"]);
            let said = json(&doctor(&lab, "--json").expect_code(1));
            let engine = &said["engine"];
            assert_eq!((&engine["name"], &engine["is_known"]), (&Value::Null, &Value::Bool(true)));
            let found = finding(&said, "state");
            assert_eq!(found["severity"], "problem");
            let tries = if of_engine { &said["engines"][0]["tries"] } else { &found["tries"] };
            // What it says to type is what helps.
            let command = tries[0].as_str().expect("a text");
            run(&command.split(' ').collect::<Vec<_>>());
            until("a doctor finds an engine", || doctor(&lab, "").code == Some(0));
        }
    }
    Ok(())
}

fn missing() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let netns = &lab.tx_netns;
    wirerate_run(&format!("doctor nosuch0 --netns {netns}")).expect_code(3).says(&["nosuch0", "try:"]);
    wirerate_run(&format!("doctor {TX_DEV} --netns nosuchns")).expect_code(3).says(&["nosuchns", "try:"]);
    wirerate_run(&format!("doctor {TX_DEV} more")).expect_code(2);
    Ok(())
}

fn costly_settings() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let netns = &lab.tx_netns;
    let there = |words: &str| {
        let all = format!("ip netns exec {netns} {words}");
        run(&all.split(' ').collect::<Vec<_>>());
    };
    there(&format!("tc qdisc add dev {TX_DEV} root tbf rate 1gbit burst 1mb latency 1s"));
    run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, "mtu", "1400"]);
    run(&["ip", "-n", netns, "route", "add", "default", "via", "198.18.0.2"]);
    let rps = format!("echo 1 > /sys/class/net/{TX_DEV}/queues/rx-0/rps_cpus");
    run(&["ip", "netns", "exec", netns, "sh", "-c", &rps]);
    let said = json(&doctor(&lab, "--json").expect_code(0));
    for topic in ["qdisc", "mtu", "default_route", "steering"] {
        let found = finding(&said, topic);
        assert_eq!(found["severity"], "note", "{found}");
        assert!(found["tries"][0].is_string(), "{found}");
    }
    let skb = &said["engines"][1];
    assert_eq!((&skb["name"], &skb["answer"]), (&Value::from("skb"), &Value::from("no")));
    assert!(skb["why"].as_str().is_some_and(|why| why.contains("tbf qdisc")), "{skb}");
    Ok(())
}

fn without_root() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // The folders on the way to the binary may be closed to others.
    let copy = lab.file("wirerate");
    std::fs::copy(wirerate().get_program(), &copy)?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(&copy).args(["doctor", "lo", "--json"]);
    let said = json(&Running::start(command).wait(Duration::from_secs(60)).expect_code(0));
    assert_eq!(finding(&said, "rights")["severity"], "problem");
    let answers: Vec<_> =
        said["engines"].as_array().expect("a list").iter().map(|row| &row["answer"]).collect();
    assert!(answers.iter().any(|answer| *answer == "not_allowed"), "{said}");
    assert!(answers.iter().all(|answer| *answer != "yes"), "{said}");
    assert_eq!(said["engine"]["is_known"], false, "{said}");
    Ok(())
}

fn overview() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let said = json(&wirerate_run(&format!("doctor --netns {} --json", lab.tx_netns)).expect_code(0));
    let devices = said["devices"].as_array().expect("a list");
    let names: Vec<_> = devices.iter().map(|row| row["name"].as_str().expect("a text")).collect();
    assert_eq!(names, ["lo", TX_DEV]);
    assert_eq!((&devices[0]["state"], &devices[1]["engine"]["name"]), (&"up".into(), &"xdp".into()));
    assert_eq!(said["device"], Value::Null);
    let of = |option: &str| {
        wirerate_run(&format!("doctor --netns {} {option}", lab.tx_netns)).expect_code(0).stdout
    };
    let text = of("");
    assert!(text.contains("  tx0  veth, up: send uses xdp\n"), "{text}");
    assert!(text.contains(" checks (--all lists them)\n"), "{text}");
    let too_long = |line: &&str| line.chars().count() > 80 && !line.contains("try: ");
    assert_eq!(text.lines().find(too_long), None, "{text}");
    let all = of("--all");
    assert!(all.contains("  tx0  veth, up: send uses xdp, and skb below 100,000 "), "{all}");
    Ok(())
}
