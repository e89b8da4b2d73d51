//! What disturbs a fleet and costs it no truth: hosts that die or freeze, a hub that freezes, a
//! second controller, and a network that loses frames.

use crate::fleet::{Fleet, Hub, NATS, agent, agent_file, json, port, run_name, started, whole_account};
use crate::lab::{Lab, Peer, Scratch, TX_DEV};
use crate::otg::{post, serve_with, transmit};
use crate::program::{TIME_LIMIT, run, until};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::{Value, json as object};
use std::thread;
use std::time::Duration;

/// Tests of disturbed fleets.
pub(crate) const CASES: &[Case] = &[
    case("fleet_held::of_twenty_agents_three_killed_and_one_frozen_are_named", NATS, twenty),
    case("fleet_held::a_frozen_hub_costs_no_counts", NATS, frozen_hub),
    case("fleet_held::a_second_controller_is_refused_whichever_it_is", NATS, controllers),
    case("fleet_held::the_loss_of_a_bridge_is_that_of_its_counters", NATS, bridge),
];

fn twenty() -> TestResult {
    let fleet = Fleet::new(10, |_| "");
    let running = fleet.start(&fleet.test(8.0, "", "--pps 500"));
    started(&running);
    until("frames arrive everywhere", || fleet.labs.iter().all(|lab| lab.received() > 500));
    for host in ["s1", "r2", "s3"] {
        fleet.agent(host).signal(Signal::SIGKILL);
    }
    fleet.agent("r4").signal(Signal::SIGSTOP);
    let told = running.wait(TIME_LIMIT).expect_code(1);
    fleet.agent("r4").signal(Signal::SIGCONT);
    let account = json(&told);
    assert_eq!(account["verdict"], "partial", "{account}");
    let hosts = account["hosts"].as_array().expect("there are hosts");
    let lost = hosts.iter().filter(|host| host["is_whole"] == false && host["end"].is_null());
    let lost: Vec<&str> = lost.filter_map(|host| host["host"].as_str()).collect();
    assert_eq!((hosts.len(), lost), (20, vec!["r2", "r4", "s1", "s3"]), "{account}");
    for flow in account["flows"].as_array().expect("there are flows").iter().skip(4) {
        assert_eq!((&flow["lost"], &flow["sent"]), (&0.into(), &flow["received"]), "{flow}");
    }
    Ok(())
}

/// It keeps nothing meanwhile, and what agents have to say waits for it.
fn frozen_hub() -> TestResult {
    let fleet = Fleet::new(1, |_| "");
    let running = fleet.start(&fleet.test(8.0, "lease = \"20s\"", "--pps 5k"));
    let run = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 5_000);
    fleet.hub.signal(Signal::SIGSTOP);
    thread::sleep(Duration::from_millis(5_500));
    fleet.hub.signal(Signal::SIGCONT);
    running.wait(TIME_LIMIT);
    until("the last counts are there", || json(&fleet.report(&run))["verdict"] == "whole");
    let account = json(&fleet.report(&run));
    let flow = &account["flows"][0];
    assert_eq!((&flow["lost"], &flow["sent"]), (&0.into(), &flow["received"]), "{account}");
    assert!(flow["sent"].as_u64().is_some_and(|sent| sent <= 40_001), "nothing counts twice: {account}");
    Ok(())
}

/// A test of a fleet and the server of the API, each while the other uses the ports; the first one
/// ends as if the second had never been.
fn controllers() -> TestResult {
    let fleet = Fleet::new(1, |_| "");
    let (_server, address) = serve_with(&format!(" --hub {}", fleet.hub.url()));
    let config = object!({
        "ports": [{"name": "a", "location": "s1/p"}, {"name": "b", "location": "r1/p"}],
        "flows": [{"name": "f", "tx_rx": {"port": {"tx_name": "a", "rx_names": ["b"]}},
            "rate": {"pps": 1000}, "metrics": {"enable": true, "loss": true},
            "packet": [{"ethernet": {}}, {"ipv4": {"dst": {"value": "198.18.0.2"}}}, {"udp": {}}]}],
    });
    let set = || post(&fleet.labs[0], &address, "/config", &config);
    let running = fleet.start(&fleet.test(6.0, "", "--pps 1k"));
    let name = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 500);
    let (code, answer) = set();
    assert!(code >= 400 && answer.to_string().contains(&name), "{code} {answer}");
    let account = whole_account(running.wait(TIME_LIMIT));
    assert_eq!((run_name(&account), &account["flows"][0]["lost"]), (name, &0.into()), "{account}");

    let is_free = || set().0 == 200;
    until("the ports are free again", is_free);
    let (code, answer) = post(&fleet.labs[0], &address, "/control/state", &transmit("start"));
    assert_eq!(code, 200, "{answer}");
    let told = fleet.start(&fleet.test(1.0, "", "--pps 1k")).wait(TIME_LIMIT).expect_code(1);
    assert_eq!(json(&told)["verdict"], "not_started", "{}", told.stdout);
    told.says(&["port p is in use by "]);
    let (code, answer) = post(&fleet.labs[0], &address, "/control/state", &transmit("stop"));
    assert_eq!(code, 200, "{answer}");
    let rows = || {
        let choice = object!({"choice": "flow", "flow": {}});
        post(&fleet.labs[0], &address, "/monitor/metrics", &choice).1["flow_metrics"][0].clone()
    };
    until("the flow has ended", || rows()["transmit"] == "stopped");
    until("all its frames are counted", || {
        let row = rows();
        row["frames_tx"].as_u64() > Some(0) && row["frames_rx"] == row["frames_tx"]
    });
    Ok(())
}

/// `s1` is beside a bridge, `r1` behind it. The port of the bridge that leads there is switched off
/// for a moment, four times.
fn bridge() -> TestResult {
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch);
    let labs = [(); 2].map(|()| Lab::new(Peer::Gro));
    let [near, far] = &labs;
    let ip = |words: &str| {
        let words: Vec<&str> = ["ip", "-n", &near.rx_netns].into_iter().chain(words.split(' ')).collect();
        run(&words)
    };
    ip(&format!("link add b0 type veth peer name b1 netns {}", far.rx_netns));
    ip("link add br0 type bridge");
    for words in ["link set rx0 master br0", "link set b0 master br0", "link set b0 up", "link set br0 up"] {
        ip(words);
    }
    run(&["ip", "-n", &far.rx_netns, "link", "set", "b1", "up"]);
    let hosts = [("s1", port(TX_DEV, &near.tx_netns)), ("r1", port("b1", &far.rx_netns))];
    let agents: Vec<_> = hosts
        .map(|(host, ports)| (host.to_owned(), agent(&agent_file(&scratch, host, &hub.url(), &ports), "")))
        .into();
    let fleet = Fleet { agents, labs: Vec::new(), hub, scratch };
    fleet.until_all_are_there(2);
    let test = fleet.scratch.file("bridge.toml").display().to_string();
    let text = "seconds = 6\n[[flow]]\nname = \"f\"\nfrom = \"s1/p\"\nto = \"r1/p\"\nsend = \"--pps 1k --engine skb\"\n";
    std::fs::write(&test, text)?;
    let forwarded = || -> u64 {
        let links: Value = serde_json::from_str(&ip("-j -s link show dev b0")).expect("it is JSON");
        links[0]["stats64"]["tx"]["packets"].as_u64().expect("a count")
    };
    let before = forwarded();
    let running = fleet.start(&test);
    started(&running);
    until("frames arrive", || forwarded() > before + 500);
    for _ in 0..4 {
        run(&["ip", "netns", "exec", &near.rx_netns, "bridge", "link", "set", "dev", "b0", "state", "0"]);
        thread::sleep(Duration::from_millis(200));
        run(&["ip", "netns", "exec", &near.rx_netns, "bridge", "link", "set", "dev", "b0", "state", "3"]);
        thread::sleep(Duration::from_millis(200));
    }
    let told = running.wait(TIME_LIMIT);
    let account = json(&told);
    assert_eq!(account["verdict"], "whole", "{account}");
    let flow = &account["flows"][0];
    let [sent, received, lost] = ["sent", "received", "lost"].map(|of| flow[of].as_u64().unwrap_or(u64::MAX));
    assert_eq!((received, lost), (forwarded() - before, sent - received), "{account}");
    assert!(lost > 100, "the port was off for 0.8 s: {account}");
    Ok(())
}
