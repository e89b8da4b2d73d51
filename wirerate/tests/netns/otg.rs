//! `wirerate otg`: unmodified snappi drives it between the two namespaces of a lab.

use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, TX_DEV};
use crate::program::{Running, run, until, wirerate_start};
use crate::{Case, TestResult, case};
use serde_json::{Value, json};
use std::process::Command;

/// Where `tools/install.sh test` puts the package.
const PYTHON: &str = "/var/cache/wirerate/python/bin/python";

/// Tests of the API.
pub(crate) const CASES: &[Case] = &[
    case("otg::counts_are_exact_by_http", &[], || counts("http")),
    case("otg::counts_are_exact_by_grpc", &[], || counts("grpc")),
    case("otg::captured_frames_are_those_of_the_flow", &[], captured),
    case("otg::pause_resume_update_and_stop", &[], control),
    case("otg::latency_and_arrival_times_are_those_of_the_flow", &[], times),
    case("otg::receive_measures_the_latency_of_marked_flows", &[], received_elsewhere),
    case("otg::flows_with_equal_headers_are_told_apart", &[], mesh),
    case("otg::patterns_and_numbers_count_frames_of_all_sizes", &[], sizes),
    case("otg::a_new_size_in_flight_leaves_no_hole", &[], update),
    case("otg::emulated_interfaces_resolve_each_other", &[], devices),
    case("otg::emulated_interfaces_resolve_a_host_and_are_resolved", &[], host_as_gateway),
    case("otg::links_go_down_and_up", &[], link),
    case("otg::frames_count_at_the_ports_that_a_flow_names", &[], several),
    case("otg::rows_and_columns_are_those_asked_for", &[], asking),
    case("otg::flows_of_one_rate_are_spread", &[], convoys),
    case("otg::a_stop_is_final", &[], stop_is_final),
    case("otg::a_run_goes_on_when_its_client_is_gone", &[], client_gone),
    case("otg::a_configuration_replaces_one_that_is_sending", &[], replaced),
    case("otg::one_client_polls_while_another_starts_and_stops", &[], two_clients),
    case("otg::wrong_configurations_are_answered", &[], hostile),
    case("otg::thousands_of_flows_with_equal_headers", &[], thousands),
    case("otg::a_removed_device_is_named", &[], removed),
    case("otg::a_killed_server_leaves_nothing", &[], killed),
];

/// The server, listening on a port that the system chose, and that port.
fn serve() -> (Running, String) {
    let server = wirerate_start("otg --listen 127.0.0.1:0 --metrics 0");
    // The whole line: it may be written in parts.
    server.until_it_says("(http, https, gRPC)");
    let said = server.said();
    let address = said.split("listening on ").nth(1).and_then(|rest| rest.split(' ').next());
    let address = address.expect("the server says where it listens").to_owned();
    (server, address)
}

fn has_snappi() -> bool {
    let is_there = Command::new(PYTHON).args(["-c", "import snappi"]).output();
    if is_there.is_ok_and(|output| output.status.success()) {
        return true;
    }
    testkit::skip("needs PyPI snappi (tools/install.sh test)");
    false
}

/// What a function of the script saw; `None` where snappi is not installed.
fn script(name: &str, transport: &str) -> Option<Value> {
    if !has_snappi() {
        return None;
    }
    Some(script_in(&Lab::new(Peer::Gro), name, transport))
}

fn script_in(lab: &Lab, name: &str, transport: &str) -> Value {
    let (_server, address) = serve();
    let location = if transport == "grpc" { address } else { format!("https://{address}") };
    script_at(lab, &location, name, transport)
}

/// What a function of the script saw of the server at `location`.
fn script_at(lab: &Lab, location: &str, name: &str, transport: &str) -> Value {
    let [tx, rx] = [format!("{}/{TX_DEV}", lab.tx_netns), format!("{}/{RX_DEV}", lab.rx_netns)];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/netns/otg/script.py");
    let output = Command::new(PYTHON).args([path, name, location, transport, &tx, &rx]).output();
    let output = output.expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

fn counts(transport: &str) -> TestResult {
    let Some(seen) = script("counts", transport) else { return Ok(()) };
    let once = json!({"there": [1000, 1000, 64_000, 64_000, 0.0], "back": [7, 7, 1400, 1400, 0.0]});
    assert_eq!(seen, json!({"warnings": [], "seen": [once, once], "port": [1000, 7]}));
    Ok(())
}

fn captured() -> TestResult {
    let Some(frames) = script("captured", "http") else { return Ok(()) };
    let frames = frames.as_array().expect("a list of frames");
    assert_eq!(frames.len(), 5, "{frames:?}");
    for (index, frame) in frames.iter().enumerate() {
        assert_eq!((&frame["length"], &frame["total_length"]), (&json!(128), &json!(110)), "{frame}");
        let source = [250, 253, 0, 3][index % 4];
        assert_eq!(
            (&frame["source"], &frame["port"]),
            (&json!(source), &json!([7, 9][index % 2])),
            "{frame}"
        );
    }
    Ok(())
}

fn control() -> TestResult {
    let Some(seen) = script("control", "http") else { return Ok(()) };
    let expected = json!({"paused": ["paused", true], "stopped": ["stopped", true, true], "rate": 500});
    assert_eq!(seen, expected);
    Ok(())
}

fn times() -> TestResult {
    for transport in ["http", "grpc"] {
        let Some(seen) = script("times", transport) else { return Ok(()) };
        let once = json!({"bytes": [0, 0], "frames": [300, 300], "plain": [null, null],
            "latency": true, "differ": true, "times": true, "apart": true});
        assert_eq!(seen, json!({"warnings": [], "seen": [once, once]}));
    }
    Ok(())
}

/// More flows than get a fast engine each, so the frames come from a packet socket; and one.
fn received_elsewhere() -> TestResult {
    if !has_snappi() {
        return Ok(());
    }
    for (name, flows) in [("sends_one", 1), ("sends_ten", 10)] {
        let lab = Lab::new(Peer::Gro);
        let words = format!("receive {RX_DEV} --netns {} --count {} --json", lab.rx_netns, 100 * flows);
        let receiver = wirerate_start(&words);
        receiver.until_it_says("measuring frames of");
        assert_eq!(script_in(&lab, name, "http"), json!([]), "no warnings");
        let outcome = receiver.wait(std::time::Duration::from_secs(60)).expect_code(0);
        let report: Value = serde_json::from_str(outcome.stdout.trim_end())?;
        let kinds = ["unique", "flows", "missing", "stamped", "negative"].map(|kind| report[kind].as_u64());
        assert_eq!(kinds, [100 * flows, flows, 0, 100 * flows, 0].map(Some), "{report}");
        let time = |name: &str| report["latency"][name].as_u64().expect("a time");
        assert!(time("min_ns") > 0 && time("max_ns") < 1_000_000_000, "{report}");
    }
    Ok(())
}

fn mesh() -> TestResult {
    let Some(seen) = script("mesh", "grpc") else { return Ok(()) };
    assert_eq!(seen, json!([64, [[10, 10]]]));
    Ok(())
}

fn sizes() -> TestResult {
    let Some(seen) = script("sizes", "http") else { return Ok(()) };
    for (name, size_count_min) in [("increment", 3), ("random", 200), ("weight_pairs", 3)] {
        let sizes = seen[name]["sizes"].as_u64().expect("a number");
        assert!(sizes >= size_count_min, "{name}: {seen}");
        let expected =
            json!({"counts": [300, 300], "numbers": true, "ports": true, "lengths": true, "sizes": sizes});
        assert_eq!(seen[name], expected, "{name}");
    }
    Ok(())
}

fn update() -> TestResult {
    let Some(seen) = script("update", "http") else { return Ok(()) };
    assert_eq!(seen, json!({"counts": true, "numbers": true, "sizes": [100, 200, 300, 400]}));
    Ok(())
}

fn devices() -> TestResult {
    let Some(seen) = script("devices", "grpc") else { return Ok(()) };
    let neighbours = json!({"eth-a": "02:00:00:00:0b:02", "eth-b": "02:00:00:00:0a:01"});
    assert_eq!(seen["neighbours"], json!([neighbours, neighbours]));
    assert_eq!(seen["counts"], json!({"v4": [20, 20], "v6": [20, 20]}));
    assert_eq!(seen["destinations"], json!(["02:00:00:00:0b:02"]));
    assert_eq!(seen["refusal"], json!(["flow lost: the gateway 198.18.8.2 of c-4 does not answer"]));
    Ok(())
}

/// The kernel at the other end is the gateway, and resolves the emulated interface itself.
fn host_as_gateway() -> TestResult {
    if !has_snappi() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let of_host = |words: &str| {
        let words: Vec<&str> = ["ip", "-n", &lab.rx_netns].into_iter().chain(words.split(' ')).collect();
        run(&words)
    };
    of_host("link set rx0 arp on");
    host::Netns::named(&lab.rx_netns)?.set_sysctl("ipv6/conf/rx0/disable_ipv6", "0")?;
    of_host("address add 2001:db8::2/64 dev rx0 nodad");
    of_host("neighbour flush dev rx0");
    let (_server, address) = serve();
    let seen = script_at(&lab, &format!("https://{address}"), "host", "http");
    assert_eq!(seen, json!([RX_MAC, RX_MAC]));
    for address in ["198.18.0.9", "2001:db8::9"] {
        let packet = format!("echo 1 > /dev/udp/{address}/9");
        run(&["ip", "netns", "exec", &lab.rx_netns, "bash", "-c", &packet]);
        until("the host to know the interface", || {
            of_host(&format!("neighbour show {address}")).contains("lladdr 02:00:00:00:0a:01")
        });
    }
    Ok(())
}

fn link() -> TestResult {
    let Some(seen) = script("link", "http") else { return Ok(()) };
    assert_eq!(seen["links"], json!(["up", "down", "up"]));
    assert_eq!((&seen["sent"], &seen["names"]), (&json!(0), &json!(true)), "{seen}");
    assert_eq!((&seen["is_now"], &seen["grows"]), (&json!(true), &json!(true)), "{seen}");
    Ok(())
}

fn several() -> TestResult {
    let Some(seen) = script("several", "http") else { return Ok(()) };
    assert_eq!(seen, json!({"both": [50, 50, "rx,tx"], "none": [50, 0, ""], "other": [50, 0, "tx"]}));
    Ok(())
}

fn asking() -> TestResult {
    let Some(seen) = script("asking", "http") else { return Ok(()) };
    let expected = json!({"columns": [["c", 0, null], ["a", 0, null]], "port": [["rx", "up", null]],
        "refused": ["there is no flow named nope"], "rows": 0});
    assert_eq!(seen, expected);
    Ok(())
}

/// 64 flows of 10 frames per second, which is a gap of 100 ms. A loaded machine sends later, not
/// earlier.
fn convoys() -> TestResult {
    let Some(seen) = script("convoys", "http") else { return Ok(()) };
    assert_eq!((&seen["counts"], &seen["flows"]), (&json!([[10, 10]]), &json!(64)));
    assert!(seen["spread_s"].as_f64().is_some_and(|spread_s| spread_s > 0.06), "{seen}");
    Ok(())
}

fn stop_is_final() -> TestResult {
    let Some(seen) = script("final", "http") else { return Ok(()) };
    assert_eq!(seen, json!([[true, true, true, true, true], [0, 0, 0, 0, 0]]));
    Ok(())
}

fn client_gone() -> TestResult {
    if !has_snappi() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let location = format!("https://{address}");
    assert_eq!(script_at(&lab, &location, "leaves", "http"), json!("started"));
    assert_eq!(script_at(&lab, &location, "returns", "http"), json!([3000, 3000]));
    Ok(())
}

fn replaced() -> TestResult {
    let Some(seen) = script("replaced", "http") else { return Ok(()) };
    let rows = |name: &str| [json!({name: [0, 0, "stopped"]}), json!({name: [100, 100, "stopped"]})];
    assert_eq!(seen, json!([rows("new"), rows("newer")].concat()));
    Ok(())
}

fn two_clients() -> TestResult {
    let Some(seen) = script("two_clients", "http") else { return Ok(()) };
    assert_eq!(seen, json!({"wrong": [], "polled": true}));
    Ok(())
}

fn hostile() -> TestResult {
    if !has_snappi() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let seen = script_at(&lab, &format!("http://{address}"), "hostile", "http");
    assert_eq!(seen, json!({"statuses": [200, 400], "counts": [[10, 10], [10, 10]]}));
    Ok(())
}

/// The answer to a call, and its HTTP status.
fn post(lab: &Lab, address: &str, path: &str, body: &Value) -> (u64, Value) {
    let file = lab.file("body.json");
    std::fs::write(&file, body.to_string()).expect("the lab's folder can be written");
    let body = format!("@{}", file.display());
    let url = format!("http://{address}{path}");
    let said = run(&["curl", "-s", "-w", "\n%{http_code}", "--data-binary", &body, &url]);
    let (answer, status) = said.rsplit_once('\n').expect("a status");
    (status.parse().expect("a number"), serde_json::from_str(answer).expect("JSON"))
}

fn has_curl() -> bool {
    let is_there = Command::new("curl").arg("--version").output().is_ok();
    if !is_there {
        testkit::skip("needs curl");
    }
    is_there
}

fn ports_of(lab: &Lab) -> Value {
    json!([
        {"name": "tx", "location": format!("{}/{TX_DEV}", lab.tx_netns)},
        {"name": "rx", "location": format!("{}/{RX_DEV}", lab.rx_netns)},
    ])
}

fn start() -> Value {
    json!({"choice": "traffic", "traffic": {"choice": "flow_transmit", "flow_transmit": {"state": "start"}}})
}

/// 2,048 flows in each direction.
fn thousands() -> TestResult {
    const FLOWS: u32 = 4096;
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let flow = |number: u32| {
        let (tx, rx) = if number.is_multiple_of(2) { ("tx", "rx") } else { ("rx", "tx") };
        json!({"name": format!("f{number}"), "tx_rx": {"port": {"tx_name": tx, "rx_names": [rx]}},
            "packet": [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}], "size": {"fixed": 100}, "rate": {"pps": 10},
            "duration": {"fixed_packets": {"packets": 5}}, "metrics": {"enable": true}})
    };
    let config = json!({"ports": ports_of(&lab), "flows": (0..FLOWS).map(flow).collect::<Vec<_>>()});
    assert_eq!(post(&lab, &address, "/config", &config), (200, json!({"warnings": []})));
    assert_eq!(post(&lab, &address, "/control/state", &start()), (200, json!({"warnings": []})));
    let rows = || {
        let (_, answer) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "flow"}));
        answer["flow_metrics"].as_array().expect("rows").clone()
    };
    until("all flows to be stopped", || rows().iter().all(|row| row["transmit"] == "stopped"));
    let rows = rows();
    assert_eq!(rows.len(), FLOWS as usize);
    let wrong = rows.iter().find(|row| row["frames_tx"] != 5 || row["frames_rx"] != 5);
    assert_eq!(wrong, None);
    Ok(())
}

fn removed() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "tx", "rx_names": ["rx"]}},
        "metrics": {"enable": true}, "rate": {"pps": 1000}});
    let config = json!({"ports": ports_of(&lab), "flows": [flow]});
    assert_eq!(post(&lab, &address, "/config", &config).0, 200);
    assert_eq!(post(&lab, &address, "/control/state", &start()).0, 200);
    run(&["ip", "-n", &lab.tx_netns, "link", "delete", TX_DEV]);
    let row =
        || post(&lab, &address, "/monitor/metrics", &json!({"choice": "flow"})).1["flow_metrics"][0].clone();
    until("the run to end", || row()["transmit"] == "stopped");
    let (status, answer) = post(&lab, &address, "/control/state", &start());
    assert_eq!(status, 500, "{answer}");
    assert!(answer["errors"][0].as_str().is_some_and(|error| error.contains("is gone")), "{answer}");
    let (status, answer) = post(&lab, &address, "/config", &config);
    assert_eq!((status, &answer["kind"]), (400, &json!("validation")), "{answer}");
    assert_eq!(post(&lab, &address, "/config", &json!({})), (200, json!({"warnings": []})));
    Ok(())
}

/// The kernel takes the programs off with the process, so the ports can be taken again.
fn killed() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let location =
        |netns: &str, device: &str| json!({"name": device, "location": format!("{netns}/{device}")});
    let config = json!({"ports": [location(&lab.tx_netns, TX_DEV), location(&lab.rx_netns, RX_DEV)]});
    for _ in 0..2 {
        let (server, address) = serve();
        let url = format!("http://{address}/config");
        let output = Command::new("curl").args(["-s", "-d", &config.to_string(), &url]).output();
        let Ok(output) = output else {
            testkit::skip("needs curl");
            return Ok(());
        };
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(answer, json!({"warnings": []}));
        assert!(lab.has_xdp());
        server.signal(nix::sys::signal::Signal::SIGKILL);
        server.wait(std::time::Duration::from_secs(30));
        until("the receiver's program to go", || !lab.has_xdp());
    }
    Ok(())
}
