//! What a fleet says of a run is never more than it knows: agents that leave, that are two, that
//! miss their rate or have a wrong key, and a hub that keeps nothing.

use crate::fleet::{
    Fleet, Hub, KeyedFleet, NATS, Relay, agent, agent_file, json, port, run_name, runtime, started,
    whole_account,
};
use crate::lab::{RX_DEV, Scratch};
use crate::program::{TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Tests of verdicts.
pub(crate) const CASES: &[Case] = &[
    case("fleet_truth::loss_is_a_range_after_an_agent_was_ended", NATS, left),
    case("fleet_truth::loss_is_a_range_after_a_receiver_lost_the_hub_only", NATS, orphaned),
    case("fleet_truth::two_agents_of_one_name_start_nothing", NATS, doubles),
    case("fleet_truth::a_missed_rate_and_a_failed_check_are_exit_code_1", NATS, missed),
    case("fleet_truth::stop_and_run_name_what_the_hub_refuses", NATS, viewer),
    case("fleet_truth::an_agent_with_a_wrong_key_ends_with_advice", NATS, wrong_key),
    case("fleet_truth::an_agent_of_another_version_is_refused_with_both_versions", NATS, old_agent),
    case("fleet_truth::a_hub_that_keeps_no_counts_is_a_warning", NATS, full_disk),
];

/// True if the loss of the first flow is a range that ends with what the device did not receive.
fn is_range(account: &Value) -> bool {
    let flow = &account["flows"][0];
    let (sent, lost) = (flow["sent"].as_u64(), &flow["lost_bounds"]);
    let received = flow["received_bounds"]["min"].as_u64();
    flow["lost"].is_null()
        && flow["received"].is_null()
        && lost["min"] == 0
        && sent.zip(received).is_some_and(|(sent, received)| lost["max"].as_u64() == Some(sent - received))
}

/// What `systemctl restart` does to an agent.
fn left() -> TestResult {
    let mut fleet = Fleet::new(1, |_| "");
    let running = fleet.start(&fleet.test(6.0, "", "--pps 1k"));
    let run = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 1_000);
    fleet.agent("r1").signal(Signal::SIGTERM);
    let at = fleet.agents.iter().position(|(host, _)| host == "r1").expect("it is of the fleet");
    fleet.agents.remove(at).1.wait(TIME_LIMIT).expect_code(0);
    let account = json(&running.wait(TIME_LIMIT).expect_code(1));
    assert_eq!(account["verdict"], "partial", "{account}");
    assert_eq!((&account["hosts"][0]["host"], &account["hosts"][0]["end"]), (&"r1".into(), &"left".into()));
    assert!(is_range(&account), "{account}");
    let report = json(&fleet.report(&run).expect_code(1));
    assert_eq!((&report["flows"], &report["verdict"]), (&account["flows"], &account["verdict"]));
    let text = wirerate_run(&format!("fleet report {run} --hub {}", fleet.hub.url())).expect_code(1).stdout;
    assert!(text.contains("r1: left ") && text.contains("its counts are complete until then"), "{text}");
    Ok(())
}

/// Its lease ends while its sender goes on.
fn orphaned() -> TestResult {
    let mut fleet = Fleet::new(1, |_| "");
    let relay = Relay::to(fleet.hub.port);
    let url = format!("nats://127.0.0.1:{}", relay.port);
    let file = agent_file(&fleet.scratch, "r1", &url, &port(RX_DEV, &fleet.labs[0].rx_netns));
    fleet.agents.retain(|(host, _)| host != "r1");
    fleet.agents.push(("r1".to_owned(), agent(&file, "")));
    fleet.until_all_are_there(2);
    let running = fleet.start(&fleet.test(8.0, "lease = \"2s\"", "--pps 1k"));
    let run = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 1_000);
    relay.is_cut.store(true, Ordering::Relaxed);
    let live = json(&running.wait(TIME_LIMIT).expect_code(1));
    assert!(is_range(&live), "{live}");
    relay.is_cut.store(false, Ordering::Relaxed);
    until("the last counts are there", || json(&fleet.report(&run))["hosts"][0]["end"] == "orphaned");
    let account = json(&fleet.report(&run).expect_code(1));
    assert!(account["verdict"] == "partial" && is_range(&account), "{account}");
    Ok(())
}

fn doubles() -> TestResult {
    let fleet = Fleet::new(1, |_| "");
    let netns = &fleet.labs[0].tx_netns;
    run(&["ip", "-n", netns, "link", "add", "other0", "type", "veth", "peer", "name", "other1"]);
    run(&["ip", "-n", netns, "link", "set", "other0", "up"]);
    let folder = fleet.scratch.file("copy");
    std::fs::create_dir(&folder)?;
    let path = folder.join("agent.toml").display().to_string();
    let text = format!("host = \"s1\"\nhub = \"{}\"\n{}", fleet.hub.url(), port("other0", netns));
    std::fs::write(&path, text)?;
    let test = fleet.test(1.0, "", "--pps 1k");
    let second = agent(&path, "");
    // At once: both answer. Later: both refuse.
    let refused = |why: &str| {
        let told = fleet.start(&test).wait(TIME_LIMIT).expect_code(1);
        told.says(&["not started", why, "host = in its file"]);
        assert_eq!(json(&told)["verdict"], "not_started", "{}", told.stdout);
    };
    refused("s1: two agents are connected as s1");
    for agent in [&second, fleet.agent("s1")] {
        agent.until_it_says("a second agent is connected as s1");
    }
    refused("s1: two agents are connected as s1");
    assert_eq!(fleet.received(), 0, "nothing was sent");
    let hosts = || wirerate_run(&format!("fleet hosts --hub {}", fleet.hub.url())).stdout;
    until("the hub knows both", || hosts().contains("TWO AGENTS HAVE THIS NAME"));
    drop(second);
    fleet.agent("s1").until_it_says("the second agent is gone");
    let account = whole_account(fleet.start(&fleet.test(1.0, "", "--pps 1k --count 500")).wait(TIME_LIMIT));
    assert_eq!(account["received"]["max"], 500, "{account}");
    // A second agent that starts while the first one has a run does not end it.
    let running = fleet.start(&fleet.test(3.0, "", "--pps 1k --count 2k"));
    started(&running);
    let second = agent(&path, "");
    let account = whole_account(running.wait(TIME_LIMIT));
    assert_eq!(account["received"]["max"], 2000, "{account}");
    drop(second);
    Ok(())
}

/// No machine sends at this rate.
fn missed() -> TestResult {
    let fleet = Fleet::new(1, |_| "");
    let told = fleet.start(&fleet.test(1.0, "", "--pps 500M --size 80")).wait(TIME_LIMIT).expect_code(1);
    let account = json(&told);
    let rate = &account["flows"][0]["rate"];
    assert_eq!((&rate["asked_pps"], &rate["is_missed"]), (&5e8.into(), &true.into()), "{account}");
    assert!(rate["reached_pps"].as_f64().is_some_and(|pps| pps > 0.0 && pps < 4e8), "{account}");
    let notes = account["notes"].to_string();
    assert!(notes.contains("f1: ") && notes.contains("of the asked 500.0 Mpps"), "{notes}");
    let test = fleet.test(1.0, "", "--count 300 --pps 1k");
    let with =
        |checks: &str| wirerate_run(&format!("fleet run {test} --json {checks} --hub {}", fleet.hub.url()));
    let good = with("--expect lost=0 --expect received=300 --expect p99<10s");
    let run = run_name(&whole_account(good));
    let failed = with("--expect received=301").expect_code(1);
    failed.says(&["check received=301 failed: it is 300"]);
    let report = format!("fleet report {run} --expect sent>300 --hub {}", fleet.hub.url());
    wirerate_run(&report).expect_code(1).says(&["check sent>300 failed: it is 300"]);
    wirerate_run(&format!("fleet run {test} --expect losst=0 --hub {}", fleet.hub.url())).expect_code(2);
    Ok(())
}

fn viewer() -> TestResult {
    let fleet = KeyedFleet::new();
    let dir = &fleet.dir;
    let running = wirerate_start(&format!("fleet run {} --json --hub {dir}/fleet.toml", fleet.test(4.0)));
    let run = started(&running);
    let viewer = |command: &str| wirerate_run(&format!("{command} --hub {dir}/viewer.toml"));
    let refused = viewer(&format!("fleet stop {run}")).expect_code(3);
    refused.says(&["the hub refuses it to this key", "ermissions Violation", "controller.nk"]);
    assert!(refused.stdout.is_empty(), "{}", refused.stdout);
    let account = json(&running.wait(TIME_LIMIT).expect_code(0));
    assert_eq!((&account["verdict"], &account["sent"]["max"]), (&"whole".into(), &4000.into()), "{account}");
    let hosts = viewer("fleet hosts").expect_code(0).stdout;
    assert!(hosts.contains("h1: wirerate") && hosts.contains("h2: wirerate"), "{hosts}");
    assert!(viewer("fleet list").expect_code(0).stdout.starts_with(&run));
    let report = viewer(&format!("fleet report {run} --json")).expect_code(0);
    assert_eq!(json(&report)["seconds"], account["seconds"], "all that the hub keeps");
    // It gives up at once, not when the time for answers is over.
    let started = std::time::Instant::now();
    viewer(&format!("fleet run {}", fleet.test(1.0)))
        .expect_code(3)
        .says(&["the hub refuses it to this key"]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    Ok(())
}

fn wrong_key() -> TestResult {
    let fleet = KeyedFleet::new();
    let dir = &fleet.dir;
    let text = std::fs::read_to_string(format!("{dir}/agent-h1.toml"))?;
    let with = |name: &str, text: String| -> std::io::Result<_> {
        std::fs::write(format!("{dir}/{name}"), text)?;
        Ok(wirerate_run(&format!("agent --config {dir}/{name}")))
    };
    let other = with("wrong.toml", text.replace("\"h1.nk\"", "\"h2.nk\""))?.expect_code(3);
    other.says(&["be agent h1 with the key", "h2.nk", "try: key = \"h1.nk\""]);
    assert!(!other.stderr.contains("wirerate: connected"), "{}", other.stderr);
    let strange = hub::new_key().expect("a key").seed;
    std::fs::write(format!("{dir}/strange.nk"), strange)?;
    let unknown = with("strange.toml", text.replace("\"h1.nk\"", "\"strange.nk\""))?.expect_code(3);
    unknown.says(&["uthorization violation", "try: key = \"h1.nk\""]);
    Ok(())
}

/// The folder of the hub is a file system of its own, which is filled while a run goes on.
fn full_disk() -> TestResult {
    let scratch = Scratch::new();
    let hub = Hub::start_on_tmpfs(&scratch, "2m");
    let fleet = Fleet::of_hub(hub, scratch, 1, |_| "");
    let running = fleet.start(&fleet.test(8.0, "", "--pps 1k"));
    let run = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 500);
    let filler = format!("/proc/{}/root{}/filler", fleet.hub.id(), fleet.scratch.file("store").display());
    let mut fill = Command::new("sh");
    fill.args(["-c", &format!("cat /dev/zero > {filler} 2>/dev/null; test -s {filler}")]);
    assert!(fill.status()?.success(), "{filler} was not written");
    running.until_it_says("the hub does not keep the counts of ");
    let told = running.wait(TIME_LIMIT);
    told.says(&["max_file_store", "the hub has not kept the last counts of "]);
    let account = whole_account(told);
    assert_eq!(account["lost"]["max"], 0, "the controller has heard all: {account}");
    assert_ne!(fleet.report(&run).code, Some(0), "a report has only what is kept");
    Ok(())
}

/// Agents of two older versions: the announcement of one cannot be read, and the other does not say
/// which messages it understands. Neither answers an order.
fn old_agent() -> TestResult {
    let fleet = Fleet::new(1, |_| "");
    let text = std::fs::read_to_string(fleet.test(1.0, "arm = \"60s\"", "--pps 1k --dst 198.18.0.2"))?;
    let test = fleet.scratch.file("old.toml").display().to_string();
    let runtime = runtime();
    let client = runtime.block_on(async_nats::connect(fleet.hub.url()))?;
    let own = env!("CARGO_PKG_VERSION");
    let unreadable = r#"{"schema":"wirerate.host/1","host":"old","version":"0.0.9","ports":[]}"#.to_owned();
    let clock = r#""clock":{"is_synchronized":true,"bound_ns":1},"clock_daemon":null,"tai_offset_s":0"#;
    let silent = format!(
        r#"{{"schema":"wirerate.host/2","host":"old","instance":1,"has_double":false,"version":"0.0.10",
            "boot_id":"b","time_ns":1,{clock},"ports":[]}}"#
    );
    let of_schema = format!(
        "expected a wirerate.host/2, got \"wirerate.host/1\" of wirerate 0.0.9: use one version of wirerate on \
         all hosts (this is {own})"
    );
    let of_protocol = format!(
        "it is wirerate 0.0.10 with an older version of the messages of fleets, and this is wirerate {own} with \
         version 4: use one version on all hosts"
    );
    for (announced, why) in [(unreadable, of_schema), (silent, of_protocol)] {
        runtime.block_on(async {
            client.publish("$KV.wr_hosts.old", announced.into()).await.expect("connected");
            client.flush().await.expect("connected");
        });
        std::fs::write(&test, text.replace("r1/p", "old/p"))?;
        let asked = std::time::Instant::now();
        let told = wirerate_run(&format!("fleet run {test} --hub {}", fleet.hub.url())).expect_code(1);
        told.says(&[&format!("old: {why}"), "not started"]);
        assert!(asked.elapsed() < Duration::from_secs(30), "it is refused at once: {:?}", asked.elapsed());
        wirerate_run(&format!("fleet hosts --hub {}", fleet.hub.url())).expect_code(0).says(&[&why]);
    }
    Ok(())
}
