//! `wirerate otg`: clients that go away, long bodies, signals, and the edges of time.

use crate::browser::Browser;
use crate::lab::{Lab, Peer, RX_DEV, Scratch, TX_DEV};
use crate::otg::{call, flow_row, has_curl, ports_of, post, serve_with, transmit};
use crate::program::{Running, in_netns, is_installed, run, until, wirerate_run, wirerate_start};
use crate::readers::tshark;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use prost_reflect::prost::Message;
use prost_reflect::prost::encoding::encode_varint;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Tests of the server.
pub(crate) const CASES: &[Case] = &[
    case("otg_server::a_stop_does_not_wait_for_calls_of_clients_that_have_gone", &[], cancelled)
        .with_lock("measures the time of an answer"),
    case("otg_server::a_refused_body_takes_little_memory", &[], refused_body),
    case("otg_server::a_refused_message_takes_little_memory", &[], refused_message),
    case("otg_server::a_time_ends_when_it_is_over", &[], fixed_seconds),
    case("otg_server::flows_above_the_line_are_a_warning", &[], above_the_line),
    case("otg_server::a_refused_configuration_leaves_the_one_before", &[], refused_while_sending),
    case("otg_server::a_flow_that_has_ended_is_not_paused", &[], paused_after_its_end)
        .with_lock("a missed rate is a warning"),
    case("otg_server::ports_count_frames_of_flows_that_have_gone", &[], port_counts),
    case("otg_server::random_values_stay_when_flows_come", &[], random_values),
    case("otg_server::a_line_that_holds_frames_is_waited_for", &[], long_lines),
    case("otg_server::a_late_flow_catches_up_below_its_line", &[], catches_up)
        .with_lock("measures gaps between frames"),
    case("otg_server::a_page_of_another_origin_starts_nothing", &["chromium"], foreign_page),
];

fn warnings_of(answer: (u64, Value)) -> Value {
    assert_eq!(answer.0, 200, "{}", answer.1);
    answer.1["warnings"].clone()
}

/// A flow that is measured.
fn flow(name: &str, rate: &Value, duration: &Value) -> Value {
    json!({"name": name, "tx_rx": {"port": {"tx_name": "tx", "rx_names": ["rx"]}},
        "metrics": {"enable": true, "loss": true}, "rate": rate, "duration": duration})
}

/// Sends a request and closes the connection without waiting for the answer.
fn ask_and_go(address: &str, head: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "{head} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 2\r\n\r\n{{}}")
}

/// The time from `start` to the last frame that arrives: none comes for half a second.
fn last_frame_after(lab: &Lab, start: Instant) -> Duration {
    let (mut received, mut last) = (lab.received(), Instant::now());
    while last.elapsed() < Duration::from_millis(500) {
        let now = lab.received();
        if now != received {
            (received, last) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    last.duration_since(start)
}

/// 2,000 flows make a configuration that takes time to read.
fn cancelled() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (server, address) = serve_with("");
    let flows: Vec<Value> = (0..2000)
        .map(|flow_index| flow(&format!("f{flow_index}"), &json!({"pps": 1000}), &json!({})))
        .collect();
    let config = json!({"ports": ports_of(&lab), "flows": flows});
    assert_eq!(warnings_of(post(&lab, &address, "/config", &config)), json!([]));
    let order = |state: &str| json!({"traffic": {"flow_transmit": {"state": state, "flow_names": ["f0"]}}});
    let asked = ["GET /config", "PATCH /config/append", "POST /monitor/metrics"];
    let mut ended = Instant::now();
    for ends_by_signal in [false, true] {
        assert_eq!(warnings_of(post(&lab, &address, "/control/state", &order("start"))), json!([]));
        let sent = lab.received();
        until("frames", || lab.received() > sent + 100);
        for index in 0..1000 {
            ask_and_go(&address, asked[index % asked.len()])?;
        }
        let started = Instant::now();
        if ends_by_signal {
            ended = started;
            server.signal(Signal::SIGTERM);
            let last = last_frame_after(&lab, started);
            eprintln!("the last frame came {last:?} after SIGTERM");
            assert!(last < Duration::from_secs(1), "the traffic ended after {last:?}");
            break;
        }
        post(&lab, &address, "/control/state", &order("stop"));
        let time = started.elapsed();
        eprintln!("stop was answered after {time:?}");
        assert!(time < Duration::from_secs(2), "stop was answered after {time:?}");
    }
    server.wait(Duration::from_secs(30)).expect_code(0);
    eprintln!("the server ended {:?} after SIGTERM", ended.elapsed());
    assert!(ended.elapsed() < Duration::from_secs(5), "the server ended after {:?}", ended.elapsed());
    assert!(!lab.has_xdp());
    Ok(())
}

/// The most memory that the process had, in MiB.
fn peak_mib(server: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

/// Bodies of almost 16 MiB.
fn refused_body() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let port = json!({"name": "p", "location": "q"});
    let short = json!({"name": "f", "tx_rx": {"port": {"tx_name": "p", "rx_names": ["q"]}},
        "rate": {"choice": "pps", "pps": 1000}, "size": {"choice": "fixed", "fixed": 100}, "metrics": {"enable": true},
        "duration": {"choice": "fixed_packets", "fixed_packets": {"packets": 100}},
        "packet": [{"choice": "ethernet", "ethernet": {}}, {"choice": "ipv4", "ipv4": {}}, {"choice": "udp", "udp": {}}]});
    let many = |name: &str, element: &Value| {
        let len = element.to_string().len() + 1;
        json!({name: vec![element; (15 << 20) / len]})
    };
    for (body, refusal) in [
        (many("ports", &port), "ports: more than 4096 ports are not supported"),
        (many("flows", &json!({})), "flows: more than 65536 flows are not supported"),
        (many("flows", &short), "and "),
    ] {
        let (server, address) = serve_with("");
        let before = peak_mib(&server);
        let (status, answer) = post(&lab, &address, "/config", &body);
        let errors = answer["errors"].as_array().expect("errors");
        let last = errors.last().and_then(Value::as_str).expect("a sentence");
        assert!(status == 400 && last.starts_with(refusal) && errors.len() <= 101, "{status} {last}");
        let peak = peak_mib(&server);
        eprintln!("{refusal}: {before} MiB, then {peak} MiB");
        assert!(peak <= 100 + 12 * 15, "{refusal}: {peak} MiB");
    }
    let (_server, address) = serve_with(" --max-body 1k");
    let (status, answer) = post(&lab, &address, "/config", &json!({"ports": vec![port; 100]}));
    assert_eq!(status, 413, "{answer}");
    assert_eq!(post(&lab, &address, "/control/state", &transmit("stop")).0, 200);
    Ok(())
}

/// `SetConfig` with a configuration of these ports and so much of this flow, as gRPC sends it.
fn set_config(ports: &Value, flow: &Value, len: usize) -> Vec<u8> {
    let encode = |json: Value| {
        otg::model::from_json(otg::model::message("Config"), json).expect("it fits the model").encode_to_vec()
    };
    // Messages of protobuf behind each other are one with the lists of all.
    let flow = encode(json!({"flows": [flow]}));
    let config = [encode(json!({"ports": ports})), flow.repeat(len / flow.len())].concat();
    let mut message = vec![1 << 3 | 2];
    encode_varint(config.len() as u64, &mut message);
    message.extend(config);
    [vec![0], (message.len() as u32).to_be_bytes().to_vec(), message].concat()
}

/// Messages of almost 16 MiB by gRPC, whose flows have few bytes and many parts.
fn refused_message() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let folder = Scratch::new();
    let file = folder.file("message");
    let ports = json!([{"name": "p", "location": "q"}]);
    let headers = vec![json!({"choice": "vlan", "vlan": {}}); 50];
    let flow = |name: &str| json!({"name": name, "packet": headers, "tx_rx": {"port": {"tx_name": "p", "rx_names": ["q"]}}});
    for (flow, refusal) in [
        (flow("f"), "more errors"),
        (json!({"name": "f"}), "more than 65536 flows are not supported"),
        (flow(&"f".repeat(1000)), "more errors"),
    ] {
        let (server, address) = serve_with("");
        let before = peak_mib(&server);
        std::fs::write(&file, set_config(&ports, &flow, 15 << 20))?;
        let said = run(&[
            "curl",
            "--silent",
            "--http2-prior-knowledge",
            "--dump-header",
            "-",
            "--output",
            "/dev/null",
            "--header",
            "content-type: application/grpc",
            "--header",
            "te: trailers",
            "--data-binary",
            &format!("@{}", file.display()),
            &format!("http://{address}/otg.Openapi/SetConfig"),
        ]);
        assert!(said.contains("grpc-status: 3") && said.contains(&refusal.replace(' ', "%20")), "{said}");
        let peak = peak_mib(&server);
        eprintln!("{refusal}: {before} MiB, then {peak} MiB");
        assert!(peak <= 100 + 12 * 15, "{refusal}: {peak} MiB");
    }
    Ok(())
}

fn start(lab: &Lab, address: &str, config: &Value) -> Value {
    let warnings = warnings_of(post(lab, address, "/config", config));
    assert_eq!(warnings_of(post(lab, address, "/control/state", &transmit("start"))), json!([]));
    warnings
}

/// The first row of the flow that says that it has stopped.
fn first_stopped(lab: &Lab, address: &str) -> Value {
    let mut row = Value::Null;
    until("the flow to stop", || {
        row = flow_row(lab, address);
        row["transmit"] == "stopped"
    });
    row
}

fn percentage(percentage: f64) -> Value {
    json!({"choice": "percentage", "percentage": percentage})
}

/// A configuration of this flow on lines of this speed.
fn on_lines(lab: &Lab, speed: &str, flows: &[Value]) -> Value {
    let layer1 = json!([{"name": "l", "port_names": ["tx", "rx"], "speed": speed}]);
    json!({"ports": ports_of(lab), "layer1": layer1, "flows": flows})
}

/// No machine reaches 100 Gbit/s of short frames on one CPU.
fn fixed_seconds() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve_with("");
    let second = json!({"choice": "fixed_seconds", "fixed_seconds": {"seconds": 1}});
    let config = on_lines(&lab, "speed_100_gbps", &[flow("f", &percentage(100.0), &second)]);
    let started = Instant::now();
    assert_eq!(start(&lab, &address, &config), json!([]));
    let row = first_stopped(&lab, &address);
    // Building the engine and reading the counts take time, too.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}: {row}", started.elapsed());
    let sent = row["frames_tx"].as_u64().expect("a number");
    assert!(sent > 0 && sent < 100_000_000, "{row}");
    let warnings = warnings_of(post(&lab, &address, "/control/state", &transmit("stop")));
    let warning = warnings[0].as_str().unwrap_or_default();
    assert!(warning.starts_with("flow f: asked 148.8 Mpps, reached "), "{warnings}");
    let (_second, of_second) = serve_with("");
    let (status, answer) = post(&lab, &of_second, "/config", &config);
    assert_eq!(status, 400, "the device is busy: {answer}");
    assert_eq!(warnings_of(post(&lab, &address, "/config", &json!({}))), json!([]));
    let file = lab.file("time.json");
    std::fs::write(&file, config.to_string())?;
    let outcome = wirerate_run(&format!("otg run {}", file.display())).expect_code(1);
    outcome.says(&["wirerate: flow f: asked 148.8 Mpps, reached "]);
    Ok(())
}

fn above_the_line() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve_with("");
    let of = |flows: &[Value]| {
        warnings_of(post(&lab, &address, "/config", &on_lines(&lab, "speed_1_gbps", flows)))
    };
    let part = |name: &str, part: f64| flow(name, &percentage(part), &json!({}));
    assert_eq!(of(&[part("a", 50.0), part("b", 50.0)]), json!([]));
    let expected = json!(["ports[0]: its flows are 120 % of the line of 1.000 Gbit/s"]);
    assert_eq!(of(&[part("a", 60.0), part("b", 60.0)]), expected);
    Ok(())
}

/// Another server has the devices of a second lab.
fn refused_while_sending() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let [lab, other] = [(); 2].map(|()| Lab::new(Peer::Gro));
    let ((_first, address), (_second, of_second)) = (serve_with(""), serve_with(""));
    assert_eq!(
        warnings_of(post(&other, &of_second, "/config", &json!({"ports": ports_of(&other)}))),
        json!([])
    );
    let config = json!({"ports": ports_of(&lab), "flows": [flow("f", &json!({"pps": 1000}), &json!({}))]});
    assert_eq!(start(&lab, &address, &config), json!([]));
    let mut new = config.clone();
    new["ports"][1] = ports_of(&other)[1].clone();
    let (status, answer) = post(&lab, &address, "/config", &new);
    let error = answer["errors"][0].as_str().unwrap_or_default();
    assert_eq!((status, &answer["kind"]), (400, &json!("validation")), "{answer}");
    assert!(error.starts_with("ports[1].location: rx0 is in use: it runs the XDP program"), "{answer}");
    assert_eq!(call(&lab, &address, "GET", "/config", &json!({})), (200, config));
    let received = || flow_row(&lab, &address)["frames_rx"].as_u64().expect("a number");
    let before = received();
    until("more frames", || received() > before + 100);
    assert_eq!(flow_row(&lab, &address)["transmit"], "started");
    Ok(())
}

/// Of two flows, one ends by itself before both are paused.
fn paused_after_its_end() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve_with("");
    let packets = |packets: u64| json!({"fixed_packets": {"packets": packets}});
    let flows = [("short", 10), ("long", 1_000_000)]
        .map(|(name, count)| flow(name, &json!({"pps": 1000}), &packets(count)));
    assert_eq!(start(&lab, &address, &json!({"ports": ports_of(&lab), "flows": flows})), json!([]));
    let states = || {
        let (_, answer) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "flow"}));
        [0, 1].map(|row| answer["flow_metrics"][row]["transmit"].as_str().unwrap_or_default().to_owned())
    };
    until("the short flow to end", || states() == ["stopped", "started"]);
    let set = |state: &str| warnings_of(post(&lab, &address, "/control/state", &transmit(state)));
    assert_eq!(set("pause"), json!([]));
    assert_eq!(states(), ["stopped", "paused"]);
    assert_eq!(set("stop"), json!([]));
    assert_eq!(states(), ["stopped", "stopped"]);
    Ok(())
}

/// Counts and rates of ports.
fn port_counts() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve_with("");
    let flows = ["a", "b"].map(|name| {
        flow(
            name,
            &json!({"pps": 1000}),
            &json!({"fixed_packets": {"packets": if name == "a" { 10 } else { 1000 }}}),
        )
    });
    assert_eq!(start(&lab, &address, &json!({"ports": ports_of(&lab), "flows": flows})), json!([]));
    let ports = || {
        let (_, answer) = post(&lab, &address, "/monitor/metrics", &json!({"choice": "port"}));
        answer["port_metrics"].as_array().expect("rows").clone()
    };
    // The first look has a rate, which is that since the start.
    until("half of the frames", || lab.received() > 500);
    let rate = ports()[1]["frames_rx_rate"].as_f64().expect("a number");
    assert!(rate > 100.0, "{rate}");
    let counts = |ports: &[Value]| [&ports[0]["frames_tx"], &ports[1]["frames_rx"]].map(Value::as_u64);
    until("all frames", || counts(&ports()) == [Some(1010), Some(1010)]);
    let gone = json!({"config_delete_list": [{"choice": "flows", "flows": ["b"]}]});
    assert_eq!(warnings_of(call(&lab, &address, "PATCH", "/config/delete", &gone)), json!([]));
    assert_eq!(counts(&ports()), [Some(1010), Some(1010)]);
    let bytes = ports()[0]["bytes_tx"].as_u64();
    assert_eq!(bytes, Some(1010 * 64));
    Ok(())
}

/// The values of a flow are drawn when the configuration is set, not at each change.
fn random_values() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (_server, address) = serve_with("");
    let random =
        json!({"random": {"min": 1, "max": 60_000, "seed": 0, "count": 2}, "metric_tags": [{"name": "p"}]});
    let mut drawn = flow("f", &json!({"pps": 1000}), &json!({"fixed_packets": {"packets": 1000}}));
    drawn["packet"] = json!([{"ethernet": {}}, {"ipv4": {}}, {"udp": {"src_port": random}}]);
    assert_eq!(start(&lab, &address, &json!({"ports": ports_of(&lab), "flows": [drawn]})), json!([]));
    let other = flow("a", &json!({"pps": 1000}), &json!({}));
    let append = json!({"config_append_list": [{"choice": "flows", "flows": [other]}]});
    until("frames", || flow_row(&lab, &address)["frames_rx"].as_u64() > Some(100));
    assert_eq!(warnings_of(call(&lab, &address, "PATCH", "/config/append", &append)), json!([]));
    let row = first_stopped(&lab, &address);
    let tagged = row["tagged_metrics"].as_array().expect("rows of values");
    let counts = |row: &Value| ["frames_tx", "frames_rx"].map(|name| row[name].as_u64().expect("a number"));
    assert_eq!((tagged.len(), counts(&row)), (2, [1000, 1000]), "{row}");
    assert!(tagged.iter().all(|row| counts(row) == [500, 500]), "{row}");
    Ok(())
}

/// Holds each frame of a device for a time, then sends it on another one.
const FORWARDER: &str = "
import collections, select, socket, sys, time
rx, tx = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
rx.bind((sys.argv[1], 0)), tx.bind((sys.argv[2], 0))
held, hold = collections.deque(), float(sys.argv[3])
print('ready', flush=True)
while True:
    left = max(0, held[0][0] - time.monotonic()) if held else 60
    if select.select([rx], [], [], left)[0]:
        frame, place = rx.recvfrom(2048)
        if place[2] != socket.PACKET_OUTGOING:
            held.append((time.monotonic() + hold, frame))
    while held and held[0][0] <= time.monotonic():
        tx.send(held.popleft()[1])
";

fn long_lines() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let of_far_end = |words: &str| {
        run(&["ip", "-n", &lab.rx_netns].into_iter().chain(words.split(' ')).collect::<Vec<_>>());
    };
    of_far_end("link add hold0 type veth peer name hold1");
    for device in ["hold0", "hold1"] {
        host::Netns::named(&lab.rx_netns)?.set_sysctl(&format!("ipv6/conf/{device}/disable_ipv6"), "1")?;
        of_far_end(&format!("link set {device} up"));
    }
    let (_server, address) = serve_with("");
    let ports = json!([{"name": "tx", "location": format!("{}/{TX_DEV}", lab.tx_netns)},
        {"name": "rx", "location": format!("{}/hold1", lab.rx_netns)}]);
    let packets = json!({"choice": "fixed_packets", "fixed_packets": {"packets": 100}});
    let config =
        json!({"ports": ports, "flows": [flow("f", &json!({"choice": "pps", "pps": 1000}), &packets)]});
    for hold in ["0.1", "0.5", "1.0"] {
        let mut forwarder = in_netns(&lab.rx_netns, "python3");
        forwarder.args(["-c", FORWARDER, RX_DEV, "hold0", hold]);
        let forwarder = Running::start(forwarder);
        forwarder.until_it_prints("ready");
        start(&lab, &address, &config);
        let row = first_stopped(&lab, &address);
        let counts = ["frames_tx", "frames_rx"].map(|name| row[name].as_u64());
        assert_eq!(counts, [Some(100), Some(100)], "held {hold} s: {row}");
        forwarder.signal(Signal::SIGKILL);
        forwarder.wait(Duration::from_secs(30));
    }
    Ok(())
}

/// Frames of the fullest time of this length.
fn most_in(times: &[f64], seconds: f64) -> usize {
    let (mut first, mut most) = (0, 0);
    for (index, time) in times.iter().enumerate() {
        while times[first] < time - seconds {
            first += 1;
        }
        most = most.max(index + 1 - first);
    }
    most
}

/// Half of a line has 406 frames of 1,518 bytes in 10 ms, and catches up at twice that. Three
/// quarters of it do not catch up: twice that would be more than the line.
fn catches_up() -> TestResult {
    if !has_curl() || !is_installed("tshark") {
        testkit::skip("needs tshark and curl");
        return Ok(());
    }
    for part in [50.0, 75.0] {
        let lab = Lab::new(Peer::Gro);
        let (server, address) = serve_with("");
        let mut flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "tx"}}, "size": {"fixed": 1518}});
        flow["rate"] = percentage(part);
        let mut config = on_lines(&lab, "speed_1_gbps", &[flow]);
        config["ports"].as_array_mut().expect("ports").pop();
        config["layer1"][0]["port_names"] = json!(["tx"]);
        let file = lab.file("late.pcapng");
        let words = format!(
            "capture {RX_DEV} --netns {} --snaplen 60 --mode drop -w {}",
            lab.rx_netns,
            file.display()
        );
        let capture = wirerate_start(&words);
        capture.until_it_says("capturing");
        assert_eq!(start(&lab, &address, &config), json!([]));
        std::thread::sleep(Duration::from_millis(300));
        server.signal(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(200));
        server.signal(Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(700));
        post(&lab, &address, "/control/state", &transmit("stop"));
        capture.signal(Signal::SIGINT);
        capture.wait(Duration::from_secs(30)).expect_code(0);
        let times: Vec<f64> = tshark(&file, "frame", &["frame.time_epoch"])
            .iter()
            .filter_map(|line| line.trim().parse().ok())
            .collect();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(times.len() > 10_000 && longest > 0.1, "{part} %: {} frames, {longest} s", times.len());
        let line = 1e9 / (8.0 * 1538.0);
        // Up to 10 ms may be made up for at once; frames that wait for a CPU arrive together.
        for (seconds, late_s) in [(0.01, 0.015), (0.1, 0.02)] {
            let (seen, most) = (most_in(&times, seconds), line * (seconds + late_s));
            assert!(seen as f64 <= most, "{part} %: {seen} frames in {seconds} s, {most:.0} at most");
        }
    }
    Ok(())
}

/// The page of metrics is one of another origin: it has another port.
fn foreign_page() -> TestResult {
    if !has_curl() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    let (server, address) = serve_with("");
    server.until_it_says("/metrics");
    let said = server.said();
    let page = said.split_whitespace().find(|word| word.ends_with("/metrics")).expect("it says where");
    let mut browser = Browser::start();
    let tab = browser.open(page);
    let config = json!({"ports": ports_of(&lab), "flows": [flow("f", &json!({"pps": 1000}), &json!({}))]});
    let mut call = |method: &str, path: &str, body: &Value, options: &str| {
        let body = Value::from(body.to_string());
        let sent = if method == "GET" { String::new() } else { format!("body: {body}, ") };
        let script = format!(
            "fetch('http://{address}{path}', {{method: '{method}', {sent}{options}}})\
             .then(reply => reply.type, error => 'refused')"
        );
        browser.value(&tab, &script)
    };
    let plain = "mode: 'no-cors', headers: {'Content-Type': 'text/plain'}";
    let typed = "headers: {'Content-Type': 'application/json'}";
    // The first kind reaches the server without a question, and the page sees no answer.
    assert_eq!(call("POST", "/config", &config, plain), "opaque");
    assert_eq!(call("POST", "/config", &config, typed), "refused");
    assert_eq!(
        post(&lab, &address, "/monitor/metrics", &json!({"choice": "port"})).1["port_metrics"],
        json!([])
    );
    // Now there is something to start and to read.
    assert_eq!(warnings_of(post(&lab, &address, "/config", &config)), json!([]));
    assert_eq!(call("POST", "/control/state", &transmit("start"), plain), "opaque");
    assert_eq!(call("POST", "/control/state", &transmit("start"), typed), "refused");
    assert_eq!(call("GET", "/config", &json!({}), ""), "refused");
    assert_eq!(call("PATCH", "/config/delete", &json!({}), typed), "refused");
    let row = flow_row(&lab, &address);
    assert_eq!((&row["transmit"], &row["frames_tx"]), (&json!("stopped"), &json!(0)), "{row}");
    assert_eq!(lab.received(), 0);
    Ok(())
}
