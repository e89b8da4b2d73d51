//! `wirerate otg`: unmodified snappi drives it between the two namespaces of a lab.

use crate::lab::{Lab, Peer, RX_DEV, RX_MAC, TX_DEV};
use crate::program::{Running, run, until, wirerate_start};
use crate::{Case, TestResult, case};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// Where `tools/install.sh test` puts the package, and the version that is before it.
pub(crate) const PYTHON: &str = "/var/cache/wirerate/python/bin/python";
const PYTHON_1_58: &str = "/var/cache/wirerate/python-snappi-1.58/bin/python";
/// And the program in `otg/gosnappi`.
const GOSNAPPI: &str = "/var/cache/wirerate/go/gosnappi";

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
    case("otg::interfaces_behind_tags_resolve_each_other", &[], vlans),
    case("otg::frames_are_counted_by_values_and_ports", &[], tags),
    case("otg::loss_follows_the_copies_that_are_to_arrive", &[], copies),
    case("otg::interfaces_ping_each_other", &[], ping),
    case("otg::links_go_down_and_up", &[], link),
    case("otg::frames_count_at_the_ports_that_a_flow_names", &[], several),
    case("otg::rows_and_columns_are_those_asked_for", &[], asking),
    case("otg::flows_of_one_rate_are_spread", &[], convoys).with_lock("measures gaps between frames"),
    case("otg::a_stop_is_final", &[], stop_is_final),
    case("otg::a_run_goes_on_when_its_client_is_gone", &[], client_gone),
    case("otg::a_configuration_replaces_one_that_is_sending", &[], replaced),
    case("otg::one_client_polls_while_another_starts_and_stops", &[], two_clients),
    case("otg::wrong_configurations_are_answered", &[], hostile),
    case("otg::flows_of_ports_without_a_location_do_not_start", &[], unconnected),
    case("otg::thousands_of_flows_with_equal_headers", &[], thousands),
    case("otg::three_flows_have_six_ports", &[], six_ports),
    case("otg::a_removed_device_is_named", &[], removed),
    case("otg::a_link_that_goes_down_ends_the_flow", &[], link_down_in_a_run),
    case("otg::a_flow_goes_on_when_its_link_is_back", &[], link_back_in_a_run),
    case("otg::a_killed_server_leaves_nothing", &[], killed),
    case("otg::transports_agree", &[], transports),
    case("otg::snappi_of_another_version_sees_the_same", &[], versions),
    case("otg::gosnappi_sees_the_same", &[], gosnappi),
    case("otg::curl_sees_the_same", &[], other_client),
    case("otg::flows_come_and_go_while_others_are_sent", &[], append_delete),
    case("otg::line_speed_and_mtu_bound_flows", &[], layer1),
    case("otg::bursts_and_delays_are_on_the_wire", &[], bursts).with_lock("measures gaps between frames"),
    case("otg::a_million_frames_have_their_rate", &[], speed).with_lock("measures a rate"),
];

/// The server, listening on a port that the system chose, and that port.
fn serve() -> (Running, String) {
    serve_with("")
}

/// Starts the server with more `options`, on a port that the system chooses. Returns the server and
/// its address.
pub(crate) fn serve_with(options: &str) -> (Running, String) {
    let server = wirerate_start(&format!("otg --listen 127.0.0.1:0 --metrics 0{options}"));
    // The whole line: it may be written in parts.
    server.until_it_says("(http, https, gRPC)");
    let said = server.said();
    let address = said.split("listening on ").nth(1).and_then(|rest| rest.split(' ').next());
    let address = address.expect("the server says where it listens").to_owned();
    (server, address)
}

pub(crate) fn has_snappi() -> bool {
    has_snappi_in(PYTHON)
}

fn has_snappi_in(python: &str) -> bool {
    let is_there = Command::new(python).args(["-c", "import snappi"]).output();
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
    script_of(PYTHON, lab, location, name, transport)
}

fn script_of(python: &str, lab: &Lab, location: &str, name: &str, transport: &str) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/netns/otg/script.py");
    seen_by(Command::new(python).args([path, name]), lab, location, transport)
}

/// What a function of the script saw with ports at these locations; `None` where snappi is not
/// installed.
pub(crate) fn script_with(
    location: &str,
    transport: &str,
    name: &str,
    locations: &[String; 4],
) -> Option<Value> {
    if !has_snappi() {
        return None;
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/netns/otg/script.py");
    let mut client = Command::new(PYTHON);
    let output = client.args([path, name, location, transport]).args(locations).output().expect("it runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("a line of JSON"))
}

/// What a client printed that gets a location, a transport and two ports.
fn seen_by(client: &mut Command, lab: &Lab, location: &str, transport: &str) -> Value {
    let [tx, rx] = [format!("{}/{TX_DEV}", lab.tx_netns), format!("{}/{RX_DEV}", lab.rx_netns)];
    let output = client.args([location, transport, &tx, &rx]).output().expect("the client runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

/// The rows of the flows of `counts`.
fn counted() -> Value {
    json!({"there": [1000, 1000, 64_000, 64_000, 0.0], "back": [7, 7, 1400, 1400, 0.0]})
}

fn counts(transport: &str) -> TestResult {
    checked("counts", transport)
}

/// Runs a function of the script on ports of this host, and checks what it saw.
fn checked(name: &str, transport: &str) -> TestResult {
    let Some(seen) = script(name, transport) else { return Ok(()) };
    check(name, &seen);
    Ok(())
}

/// Checks what a function of the script saw, wherever its ports are.
#[track_caller]
pub(crate) fn check(name: &str, seen: &Value) {
    let expected = match name {
        "counts" => json!({"warnings": [], "seen": [counted(), counted()], "port": [1000, 7]}),
        "captured" => return check_captured(seen),
        "mesh" => return check_mesh(seen),
        "sizes" => return check_sizes(seen),
        "update" => return check_update(seen),
        "devices" => return check_devices(seen),
        "vlans" => return check_vlans(seen),
        "link" => return check_link(seen),
        "several" => return check_several(seen),
        "asking" => return check_asking(seen),
        "convoys" => return check_convoys(seen),
        "replaced" => return check_replaced(seen),
        "two_clients" => return check_two_clients(seen),
        "bursts" => return check_bursts(seen),
        "final" => return check_stop_is_final(seen),
        "control" => json!({"paused": ["paused", true], "stopped": ["stopped", true, true], "rate": 500}),
        "times" => {
            let once = json!({"bytes": [0, 0], "frames": [300, 300], "plain": [null, null],
                "latency": true, "differ": true, "times": true, "apart": true});
            json!({"warnings": [], "seen": [once, once]})
        }
        "append_delete" => {
            let refused = json!([
                ["flows[2].name: the name b is used by flows[1].name too"],
                ["there is no flow named nope"]
            ]);
            json!({"warnings": [], "waits": "stopped", "seen": [["a", "b"], true, ["a"], true],
                "b": [100, 100], "refused": refused, "last": true})
        }
        "tags" => {
            let sent =
                |dscp: &str, low: &str| (format!("dscp={dscp} low={low}"), json!([50, 50, 3200, 3200, 0.0]));
            let values = ["0x0", "0xa", "0x2e"].map(|dscp| ["0x0", "0x1"].map(|low| sent(dscp, low)));
            let sent: serde_json::Map<String, Value> = values.into_iter().flatten().collect();
            let changed = json!({"type=0x8100": [null, 50, null, 5000, null]});
            let ports =
                json!({"rx_name=rx": [20, 20, 1280, 1280, null], "rx_name=tx": [20, 0, 1280, 0, null]});
            json!({"warnings": [], "same": true, "seen": {"sent": sent, "changed": changed, "ports": ports},
                "filtered": [["0x2e", "0x0", 50, null], ["0x2e", "0x1", 50, null]], "latency": true,
                "times": true, "port": "rx", "egress": {"0x800": [320, 20_480], "0x8100": [50, 5000]}, "warned": []})
        }
        "chain" => json!({"one": [300, 300], "back": [200, 200], "two": [100, 100]}),
        "copies" => json!({"twice": [100, 100, 50.0], "half": [100, 100, 0.0], "each": [100, 100, 50.0]}),
        "ping" => {
            let pings = json!([
                [["a-4", "198.18.7.2", "succeeded"], ["a-4", "198.18.7.3", "failed"]],
                [["a-6", "2001:db8:7::2", "succeeded"], ["a-6", "2001:db8:9::1", "failed"]]
            ]);
            let why =
                "protocol.ipv4.ping.requests[0].src_name: there is no IPv4 interface named nope on a port";
            json!({"seen": pings, "refused": [why]})
        }
        _ => panic!("{name} has no expected result"),
    };
    assert_eq!(*seen, expected, "{name}");
}

fn captured() -> TestResult {
    checked("captured", "http")
}

#[track_caller]
fn check_mesh(seen: &Value) {
    assert_eq!(*seen, json!([64, [[10, 10]]]));
}

#[track_caller]
fn check_sizes(seen: &Value) {
    for (name, size_count_min) in [("increment", 3), ("random", 200), ("weight_pairs", 3)] {
        let sizes = seen[name]["sizes"].as_u64().expect("a number");
        assert!(sizes >= size_count_min, "{name}: {seen}");
        let expected =
            json!({"counts": [300, 300], "numbers": true, "ports": true, "lengths": true, "sizes": sizes});
        assert_eq!(seen[name], expected, "{name}");
    }
}

#[track_caller]
fn check_update(seen: &Value) {
    // Frames of several sizes were sent, so the bytes that were sent of a value are unknown.
    let tagged = json!([true, true, null]);
    let sizes = [100, 200, 300, 400];
    assert_eq!(*seen, json!({"counts": true, "numbers": true, "sizes": sizes, "tagged": tagged}));
}

#[track_caller]
fn check_devices(seen: &Value) {
    let neighbours = json!({"eth-a": "02:00:00:00:0b:02", "eth-b": "02:00:00:00:0a:01"});
    assert_eq!(seen["neighbours"], json!([neighbours, neighbours]));
    assert_eq!(seen["counts"], json!({"v4": [20, 20], "v6": [20, 20]}));
    assert_eq!(seen["destinations"], json!(["02:00:00:00:0b:02"]));
    // Over a hub, the name of the host stands before it.
    let refusal = seen["refusal"][0].as_str().expect("a sentence");
    assert!(refusal.ends_with("flow lost: the gateway 198.18.8.2 of c-4 does not answer"), "{seen}");
}

#[track_caller]
fn check_vlans(seen: &Value) {
    let mac = |vlan: u8, side: u8| format!("02:00:00:00:{vlan:02x}:{side:02x}");
    let known =
        json!({"eth-atx": mac(0, 2), "eth-arx": mac(0, 1), "eth-qtx": mac(1, 2), "eth-qrx": mac(1, 1)});
    assert_eq!(seen["known"], known);
    let sent = json!({"a4": [20, 20], "a6": [20, 20], "q4": [20, 20], "q6": [20, 20]});
    assert_eq!(seen["counts"], sent);
    let frames = json!([
        "020000000002 810060050800",
        "020000000002 8100600586dd",
        "020000000102 88a86007810060090800",
        "020000000102 88a860078100600986dd"
    ]);
    assert_eq!(seen["frames"], frames);
}

#[track_caller]
fn check_link(seen: &Value) {
    assert_eq!(seen["links"], json!(["up", "down", "up"]));
    assert_eq!((&seen["sent"], &seen["names"]), (&json!(0), &json!(true)), "{seen}");
    assert_eq!((&seen["is_now"], &seen["grows"]), (&json!(true), &json!(true)), "{seen}");
}

#[track_caller]
fn check_several(seen: &Value) {
    assert_eq!(*seen, json!({"both": [50, 50, "rx,tx"], "none": [50, 0, ""], "other": [50, 0, "tx"]}));
}

#[track_caller]
fn check_asking(seen: &Value) {
    let expected = json!({"columns": [["c", 0, null], ["a", 0, null]], "port": [["rx", "up", null]],
        "refused": ["there is no flow named nope"], "rows": 0,
        "started": {"a": [0, 0], "b": [1, 1], "c": [0, 0]}});
    assert_eq!(*seen, expected);
}

/// 64 flows of 10 frames per second, which is a gap of 100 ms. A loaded machine sends later, not
/// earlier.
#[track_caller]
fn check_convoys(seen: &Value) {
    assert_eq!((&seen["counts"], &seen["flows"]), (&json!([[10, 10]]), &json!(64)));
    assert!(seen["spread_s"].as_f64().is_some_and(|spread_s| spread_s > 0.06), "{seen}");
}

#[track_caller]
fn check_replaced(seen: &Value) {
    let rows = |name: &str| [json!({name: [0, 0, "stopped"]}), json!({name: [100, 100, "stopped"]})];
    assert_eq!(*seen, json!([rows("new"), rows("newer")].concat()));
}

#[track_caller]
fn check_two_clients(seen: &Value) {
    assert_eq!(*seen, json!({"wrong": [], "polled": true}));
}

/// Groups of five frames 0.1 ms apart, 200 ms between groups. A starved machine is late now and
/// then, so half of the times may be anything.
#[track_caller]
fn check_bursts(seen: &Value) {
    let all = json!([15, 15]);
    assert_eq!(
        seen["counts"],
        json!({"bytes": all, "nanoseconds": all, "microseconds": all, "late": [3, 3]})
    );
    for unit in ["bytes", "nanoseconds", "microseconds"] {
        let [within, between] = [0, 1].map(|place| seen["medians"][unit][place].as_f64().expect("seconds"));
        assert!(within < 0.1 && (0.1..0.3).contains(&between), "{unit}: {seen}");
    }
    assert!(seen["delay"].as_f64().is_some_and(|delay| (0.05..10.0).contains(&delay)), "{seen}");
}

#[track_caller]
fn check_stop_is_final(seen: &Value) {
    assert_eq!(*seen, json!([[true, true, true, true, true], [0, 0, 0, 0, 0]]));
}

#[track_caller]
fn check_captured(frames: &Value) {
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
}

fn control() -> TestResult {
    checked("control", "http")
}

fn times() -> TestResult {
    for transport in ["http", "grpc"] {
        let Some(seen) = script("times", transport) else { return Ok(()) };
        check("times", &seen);
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
    checked("mesh", "grpc")
}

fn sizes() -> TestResult {
    checked("sizes", "http")
}

fn update() -> TestResult {
    checked("update", "http")
}

fn devices() -> TestResult {
    checked("devices", "grpc")
}

fn vlans() -> TestResult {
    checked("vlans", "http")
}

/// Checks the counts of frames by tag over both transports, HTTP and gRPC.
fn tags() -> TestResult {
    for transport in ["http", "grpc"] {
        let Some(seen) = script("tags", transport) else { return Ok(()) };
        check("tags", &seen);
    }
    Ok(())
}

fn copies() -> TestResult {
    checked("copies", "http")
}

fn ping() -> TestResult {
    for transport in ["http", "grpc"] {
        let Some(seen) = script("ping", transport) else { return Ok(()) };
        check("ping", &seen);
    }
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
        let ping = ["ping", "-n", "-c", "3", "-i", "0.2", "-W", "10", "-s", "1200", address];
        let said = run(&["ip", "netns", "exec", &lab.rx_netns].into_iter().chain(ping).collect::<Vec<_>>());
        assert!(said.contains(" 3 received"), "{said}");
    }
    Ok(())
}

fn link() -> TestResult {
    checked("link", "http")
}

fn several() -> TestResult {
    checked("several", "http")
}

fn asking() -> TestResult {
    checked("asking", "http")
}

fn convoys() -> TestResult {
    checked("convoys", "http")
}

fn stop_is_final() -> TestResult {
    checked("final", "http")
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
    checked("replaced", "http")
}

fn two_clients() -> TestResult {
    checked("two_clients", "http")
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
pub(crate) fn post(lab: &Lab, address: &str, path: &str, body: &Value) -> (u64, Value) {
    call(lab, address, "POST", path, body)
}

/// The answer to a call by this HTTP method, and its HTTP status.
pub(crate) fn call(lab: &Lab, address: &str, method: &str, path: &str, body: &Value) -> (u64, Value) {
    let file = lab.file("body.json");
    std::fs::write(&file, body.to_string()).expect("the lab's folder can be written");
    let body = format!("@{}", file.display());
    let url = format!("http://{address}{path}");
    let said = run(&["curl", "-s", "-X", method, "-w", "\n%{http_code}", "--data-binary", &body, &url]);
    let (answer, status) = said.rsplit_once('\n').expect("a status");
    (status.parse().expect("a number"), serde_json::from_str(answer).expect("JSON"))
}

pub(crate) fn has_curl() -> bool {
    let is_there = Command::new("curl").arg("--version").output().is_ok();
    if !is_there {
        testkit::skip("needs curl");
    }
    is_there
}

pub(crate) fn ports_of(lab: &Lab) -> Value {
    json!([
        {"name": "tx", "location": format!("{}/{TX_DEV}", lab.tx_netns)},
        {"name": "rx", "location": format!("{}/{RX_DEV}", lab.rx_netns)},
    ])
}

/// A script that was written without devices is accepted, and what it sends is sent nowhere.
fn unconnected() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let mut ports = ports_of(&lab);
    ports.as_array_mut().expect("ports").push(json!({"name": "away"}));
    let flow = |name: &str, tx: &str, rx: &str| {
        let ends = json!({"choice": "port", "port": {"tx_name": tx, "rx_names": [rx]}});
        json!({"name": name, "tx_rx": ends, "metrics": {"enable": true},
            "duration": {"choice": "fixed_packets", "fixed_packets": {"packets": 10}}})
    };
    let flows = [flow("here", "tx", "rx"), flow("there", "tx", "away"), flow("from", "away", "rx")];
    let config = json!({"ports": ports, "flows": flows});
    let (status, answer) = post(&lab, &address, "/config", &config);
    let warning = "ports[2].location: is empty: no flow of this port can start";
    assert_eq!((status, &answer["warnings"]), (200, &json!([warning])));
    let (_, kept) = call(&lab, &address, "GET", "/config", &json!({}));
    assert_eq!(kept["ports"][2], json!({"name": "away"}));
    let start = |names: &[&str]| {
        let transmit = json!({"state": "start", "flow_names": names});
        let traffic = json!({"choice": "flow_transmit", "flow_transmit": transmit});
        post(&lab, &address, "/control/state", &json!({"choice": "traffic", "traffic": traffic}))
    };
    let (status, answer) = start(&[]);
    let refused =
        json!(["flow there: its port away has no location", "flow from: its port away has no location",]);
    assert_eq!((status, &answer["errors"]), (400, &refused));
    assert_eq!(start(&["here"]).0, 200);
    let counts = || {
        let (_, rows) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "flow"}));
        let row = |row: &Value| ["frames_tx", "frames_rx"].map(|cell| row[cell].as_u64());
        rows["flow_metrics"].as_array().expect("rows").iter().map(row).collect::<Vec<_>>()
    };
    until("the frames have arrived", || counts()[0] == [Some(10); 2]);
    assert_eq!(counts()[1..], [[Some(0); 2]; 2]);
    Ok(())
}

/// One flow for each pair of ports: each is counted at its own.
fn six_ports() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let labs = [(); 3].map(|()| Lab::new(Peer::Gro));
    let (_server, address) = serve();
    let ports = labs.iter().enumerate().flat_map(|(pair, lab)| {
        let Value::Array(ports) = ports_of(lab) else { unreachable!("a list") };
        ports.into_iter().map(move |port| {
            let name = format!("{}{pair}", port["name"].as_str().expect("a name"));
            json!({"name": name, "location": port["location"]})
        })
    });
    let flow = |pair: usize| {
        json!({"name": format!("f{pair}"), "packet": [{"ethernet": {}}, {"ipv4": {}}],
            "tx_rx": {"port": {"tx_name": format!("tx{pair}"), "rx_names": [format!("rx{pair}")]}},
            "rate": {"pps": 200}, "duration": {"fixed_packets": {"packets": 100 + pair}},
            "metrics": {"enable": true, "loss": true}})
    };
    let config = json!({"ports": ports.collect::<Vec<_>>(), "flows": (0..3).map(flow).collect::<Vec<_>>()});
    assert_eq!(post(&labs[0], &address, "/config", &config), (200, json!({"warnings": []})));
    assert_eq!(post(&labs[0], &address, "/control/state", &transmit("start")).0, 200);
    let rows = |kind: &str| {
        let (_, answer) = post(&labs[0], &address, "/monitor/metrics", &json!({"choice": kind}));
        answer[format!("{kind}_metrics")].as_array().expect("rows").clone()
    };
    until("all flows to be stopped", || rows("flow").iter().all(|row| row["transmit"] == "stopped"));
    let counts = |kind: &str| -> Vec<[u64; 2]> {
        let count = |row: &Value, name: &str| row[name].as_u64().expect("a number");
        rows(kind).iter().map(|row| [count(row, "frames_tx"), count(row, "frames_rx")]).collect()
    };
    assert_eq!(counts("flow"), [[100, 100], [101, 101], [102, 102]]);
    assert_eq!(counts("port"), [[100, 0], [0, 100], [101, 0], [0, 101], [102, 0], [0, 102]]);
    Ok(())
}

/// The body of a call that starts or stops all flows.
pub(crate) fn transmit(state: &str) -> Value {
    json!({"choice": "traffic", "traffic": {"choice": "flow_transmit", "flow_transmit": {"state": state}}})
}

/// 2,048 flows in each direction.
fn thousands() -> TestResult {
    const FLOWS: u32 = 4096;
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (server, address) = serve();
    let flow = |number: u32| {
        let (tx, rx) = if number.is_multiple_of(2) { ("tx", "rx") } else { ("rx", "tx") };
        json!({"name": format!("f{number}"), "tx_rx": {"port": {"tx_name": tx, "rx_names": [rx]}},
            "packet": [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}], "size": {"fixed": 100}, "rate": {"pps": 10},
            "duration": {"fixed_packets": {"packets": 10}}, "metrics": {"enable": true}})
    };
    let config = json!({"ports": ports_of(&lab), "flows": (0..FLOWS).map(flow).collect::<Vec<_>>()});
    let begun = std::time::Instant::now();
    assert_eq!(post(&lab, &address, "/config", &config), (200, json!({"warnings": []})));
    // 0.3 s on an idle machine.
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    println!("{FLOWS} flows were set within {:?}", begun.elapsed());
    assert_eq!(post(&lab, &address, "/control/state", &transmit("start")), (200, json!({"warnings": []})));
    let rows = || {
        let (_, answer) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "flow"}));
        answer["flow_metrics"].as_array().expect("rows").clone()
    };
    let mut fastest = None;
    until("all flows to be stopped", || {
        let asked = std::time::Instant::now();
        let rows = rows();
        let took = Some(asked.elapsed()).filter(|_| rows.iter().any(|row| row["transmit"] == "started"));
        fastest = [fastest, took].into_iter().flatten().min();
        rows.iter().all(|row| row["transmit"] == "stopped")
    });
    println!("the fastest answer with metrics of all flows, while they were sent: {fastest:?}");
    let rows = rows();
    assert_eq!(rows.len(), FLOWS as usize);
    let wrong = rows.iter().find(|row| row["frames_tx"] != 10 || row["frames_rx"] != 10);
    assert_eq!(wrong, None);
    // Runs share what they need of the host, instead of some descriptors each.
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.id()))?.count();
    assert!(descriptors < 500, "{descriptors} open files");
    Ok(())
}

fn removed() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "tx", "rx_names": ["rx"]}},
        "metrics": {"enable": true, "loss": true}, "rate": {"pps": 1000}});
    let config = json!({"ports": ports_of(&lab), "flows": [flow]});
    assert_eq!(post(&lab, &address, "/config", &config).0, 200);
    assert_eq!(post(&lab, &address, "/control/state", &transmit("start")).0, 200);
    until("frames to arrive", || flow_row(&lab, &address)["frames_rx"].as_u64() > Some(100));
    run(&["ip", "-n", &lab.tx_netns, "link", "delete", TX_DEV]);
    check_loss(&ended_row(&lab, &address));
    let (status, answer) = post(&lab, &address, "/control/state", &transmit("start"));
    assert_eq!(status, 500, "{answer}");
    assert!(answer["errors"][0].as_str().is_some_and(|error| error.contains("is gone")), "{answer}");
    let (status, answer) = post(&lab, &address, "/config", &config);
    assert_eq!((status, &answer["kind"]), (400, &json!("validation")), "{answer}");
    assert_eq!(post(&lab, &address, "/config", &json!({})), (200, json!({"warnings": []})));
    Ok(())
}

/// The row of the only flow.
pub(crate) fn flow_row(lab: &Lab, address: &str) -> Value {
    post(lab, address, "/monitor/metrics", &json!({"choice": "flow"})).1["flow_metrics"][0].clone()
}

/// The row of the only flow, once the flow has stopped by itself.
fn ended_row(lab: &Lab, address: &str) -> Value {
    until("the run to end", || flow_row(lab, address)["transmit"] == "stopped");
    flow_row(lab, address)
}

/// Of a flow whose device or link went away: frames that left meanwhile are lost, and no others.
#[track_caller]
fn check_loss(row: &Value) {
    let count = |name: &str| row[name].as_u64().expect("a number");
    let [tx, rx] = [count("frames_tx"), count("frames_rx")];
    assert!(rx > 100 && tx >= rx && tx - rx < 50, "{row}");
    let loss = row["loss"].as_f64().expect("a number");
    assert!((loss - (tx - rx) as f64 * 100.0 / tx as f64).abs() < 0.001, "{row}");
}

/// At either end; the counts are those of the frames before, and the next start begins at 0.
/// The default: the flow waits for its link, and sends again.
fn link_back_in_a_run() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "tx", "rx_names": ["rx"]}},
        "metrics": {"enable": true}, "rate": {"pps": 1000}});
    let config = json!({"ports": ports_of(&lab), "flows": [flow]});
    assert_eq!(post(&lab, &address, "/config", &config).0, 200);
    assert_eq!(post(&lab, &address, "/control/state", &transmit("start")).0, 200);
    let received = || flow_row(&lab, &address)["frames_rx"].as_u64().unwrap_or(0);
    until("frames to arrive", || received() > 100);
    let link = |state: &str| run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, state]);
    link("down");
    std::thread::sleep(Duration::from_millis(300));
    let before = received();
    link("up");
    until("frames to arrive again", || received() > before + 100);
    assert_eq!(flow_row(&lab, &address)["transmit"], "started");
    let (status, answer) = post(&lab, &address, "/control/state", &transmit("stop"));
    let said = answer["warnings"][0].as_str().unwrap_or_default();
    assert!(status == 200 && said.contains("not sent: they were due while the link was down"), "{answer}");
    Ok(())
}

fn link_down_in_a_run() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve_with(" --link-down end");
    let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "tx", "rx_names": ["rx"]}},
        "metrics": {"enable": true, "loss": true}, "rate": {"pps": 1000}});
    let config = json!({"ports": ports_of(&lab), "flows": [flow]});
    assert_eq!(post(&lab, &address, "/config", &config).0, 200);
    let set = |state: &str| post(&lab, &address, "/control/state", &transmit(state));
    let set_link = |port: &str, state: &str| {
        let link = json!({"port_names": [port], "state": state});
        let request = json!({"choice": "port", "port": {"choice": "link", "link": link}});
        assert_eq!(post(&lab, &address, "/control/state", &request).0, 200);
        until("the link to follow", || {
            let (_, answer) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "port"}));
            let rows = answer["port_metrics"].as_array().expect("rows").clone();
            rows.iter().any(|row| row["name"] == port && row["link"] == state)
        });
    };
    for (port, why) in [("tx", "tx0 is down"), ("rx", "tx0 has no carrier")] {
        assert_eq!(set("start").0, 200);
        until("frames to arrive", || flow_row(&lab, &address)["frames_rx"].as_u64() > Some(100));
        set_link(port, "down");
        let row = ended_row(&lab, &address);
        check_loss(&row);
        set_link(port, "up");
        let (status, answer) = set("stop");
        let warnings: Vec<&str> =
            answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!((status, warnings.first()), (200, Some(&&*format!("flow f: {why}"))), "{port}: {answer}");
        // On a busy machine the flow was late before its link went down.
        assert!(warnings[1..].iter().all(|text| text.contains(", reached ")), "{port}: {warnings:?}");
        assert_eq!(flow_row(&lab, &address)["frames_tx"], row["frames_tx"], "nothing was sent since");
    }
    Ok(())
}

/// Killed while it sends: the kernel takes the programs off with the process, so the next server
/// can take the ports and counts from 0.
fn killed() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "tx", "rx_names": ["rx"]}},
        "metrics": {"enable": true}, "rate": {"pps": 1000}});
    let config = json!({"ports": ports_of(&lab), "flows": [flow]});
    for _ in 0..2 {
        let (server, address) = serve();
        let row = || {
            let (_, answer) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "flow"}));
            answer["flow_metrics"][0].clone()
        };
        assert_eq!(post(&lab, &address, "/config", &config), (200, json!({"warnings": []})));
        assert_eq!((&row()["frames_tx"], &row()["frames_rx"]), (&json!(0), &json!(0)));
        assert_eq!(
            post(&lab, &address, "/control/state", &transmit("start")),
            (200, json!({"warnings": []}))
        );
        until("frames", || row()["frames_rx"].as_u64().is_some_and(|frames| frames > 10));
        assert!(lab.has_xdp());
        server.signal(nix::sys::signal::Signal::SIGKILL);
        server.wait(std::time::Duration::from_secs(30));
        until("the receiver's program to go", || !lab.has_xdp());
    }
    Ok(())
}

fn transports() -> TestResult {
    if !has_snappi() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let seen = script_at(&lab, &address, "transports", "http");
    let seen = seen.as_array().expect("an answer per transport");
    assert_eq!((seen.len(), seen[0]["frames"].as_array().map(Vec::len)), (4, Some(5)), "{seen:?}");
    let same = json!({"config": true, "counts": {"few": true, "many": true}, "few": [5, 640], "many": true,
        "frames": seen[0]["frames"]});
    seen.iter().for_each(|seen| assert_eq!(*seen, same));
    Ok(())
}

/// snappi 1.58; and a client of version 2, which refuses the server by itself.
fn versions() -> TestResult {
    if !has_snappi() || !has_snappi_in(PYTHON_1_58) {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    for (transport, location) in [("http", format!("http://{address}")), ("grpc", address.clone())] {
        let seen = script_of(PYTHON_1_58, &lab, &location, "counts", transport);
        assert_eq!(seen["seen"], json!([counted(), counted()]), "{seen}");
    }
    assert_eq!(script_at(&lab, &format!("https://{address}"), "other_version", "http"), json!(true));
    Ok(())
}

fn gosnappi() -> TestResult {
    if !std::path::Path::new(GOSNAPPI).exists() {
        testkit::skip("needs the client in otg/gosnappi (tools/install.sh test)");
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let mut expected = json!({"warnings": 0, "rows": counted()});
    for row in expected["rows"].as_object_mut().expect("rows").values_mut() {
        // Its loss is a whole number in JSON; the last column says that the latency can be true.
        row[4] = json!(0);
        row.as_array_mut().expect("columns").push(json!(true));
    }
    let locations = [("http", "http://"), ("http", "https://"), ("grpc", "")];
    for (transport, scheme) in locations {
        let seen = seen_by(&mut Command::new(GOSNAPPI), &lab, &format!("{scheme}{address}"), transport);
        assert_eq!(seen, expected, "{scheme}");
    }
    // The first server has the ports of the other lab.
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("token");
    std::fs::write(&file, "se-cret\n")?;
    let (_with_token, address) = serve_with(&format!(" --token-file {}", file.display()));
    for scheme in ["http://x:se-cret@", "https://x:se-cret@"] {
        let seen = seen_by(&mut Command::new(GOSNAPPI), &lab, &format!("{scheme}{address}"), "http");
        assert_eq!(seen, expected, "{scheme}");
    }
    Ok(())
}

/// What one client has sent, snappi and curl see alike.
fn other_client() -> TestResult {
    if !has_snappi() || !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve();
    let location = format!("http://{address}");
    script_at(&lab, &location, "counts", "http");
    let (status, answer) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "flow"}));
    let columns = ["frames_tx", "frames_rx", "bytes_tx", "bytes_rx", "loss"];
    let row = |row: &Value| {
        let cells: Vec<Value> = columns.iter().map(|column| row[*column].clone()).collect();
        (row["name"].as_str().expect("a name").to_owned(), Value::from(cells))
    };
    let rows: serde_json::Map<String, Value> =
        answer["flow_metrics"].as_array().expect("rows").iter().map(row).collect();
    assert_eq!((status, Value::from(rows)), (200, counted()));
    assert_eq!(script_at(&lab, &location, "rows_of_counts", "http"), counted());
    Ok(())
}

fn append_delete() -> TestResult {
    checked("append_delete", "http")
}

fn layer1() -> TestResult {
    let Some(seen) = script("layer1", "http") else { return Ok(()) };
    // The last flow ends when its time is over: a busy machine sends fewer frames in it. If they
    // are too few, the answer of stop has the rate that was requested, which is that of the line.
    let counts = seen["counts"].as_array().expect("a list");
    assert_eq!(counts[..2], [json!([50, 50]), json!([500, 500])], "{seen}");
    let timed = counts[2].as_array().expect("a pair");
    let sent = timed[0].as_u64().expect("a count");
    assert!(timed[0] == timed[1] && (500..=5000).contains(&sent), "{seen}");
    let said = seen["missed"][2][0].as_str().unwrap_or_default();
    assert!(sent >= 4900 || said.starts_with("flow f: asked 10.00 kpps, reached "), "{seen}");
    assert_eq!(
        seen["refused"],
        json!(["flows[0].size: 9000 bytes are more than the 1518 of tx0 (MTU 1500)"])
    );
    let warned = "ports[0]: MTU 9200 is above the 1500 of tx0, which is not changed";
    assert_eq!((&seen["warned"], &seen["warnings"]), (&json!([warned]), &json!([])));
    assert_eq!(seen["jumbo"], json!([20, 20, 180_000]));
    Ok(())
}

fn bursts() -> TestResult {
    checked("bursts", "http")
}

/// Beside other work the last frame may be late, the rate is never above its own.
fn speed() -> TestResult {
    let Some(seen) = script("speed", "grpc") else { return Ok(()) };
    assert_eq!(seen["counts"], json!([1_000_000, 1_000_000, 0.0]), "{seen}");
    let seconds = seen["seconds"].as_f64().expect("seconds");
    assert!((1.96..200.0).contains(&seconds), "{seen}");
    assert!(seen["latency_ns"].as_f64().is_some_and(|ns| 0.0 < ns && ns < 1e8), "{seen}");
    Ok(())
}
