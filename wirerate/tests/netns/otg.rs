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
    case("otg::a_killed_server_leaves_nothing", &[], killed),
];

/// The server, listening on a port that the system chose, and that port.
fn serve() -> (Running, String) {
    let server = wirerate_start("otg --listen 127.0.0.1:0");
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
