//! `wirerate otg`: clients that go away, long bodies, signals, and the edges of time.

use crate::lab::{Lab, Peer};
use crate::otg::{has_curl, ports_of, post, serve_with, transmit};
use crate::program::{Running, until};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Tests of the server.
pub(crate) const CASES: &[Case] = &[
    case("otg_server::a_stop_does_not_wait_for_calls_of_clients_that_have_gone", &[], cancelled)
        .with_lock("measures the time of an answer"),
    case("otg_server::a_refused_body_takes_little_memory", &[], refused_body),
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
    for ends_by_signal in [false, true] {
        assert_eq!(warnings_of(post(&lab, &address, "/control/state", &order("start"))), json!([]));
        let sent = lab.received();
        until("frames", || lab.received() > sent + 100);
        for index in 0..1000 {
            ask_and_go(&address, asked[index % asked.len()])?;
        }
        let started = Instant::now();
        if ends_by_signal {
            server.signal(Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(500));
            let after = lab.received();
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(lab.received(), after, "the traffic has ended");
            break;
        }
        post(&lab, &address, "/control/state", &order("stop"));
        let time = started.elapsed();
        assert!(time < Duration::from_secs(2), "stop was answered after {time:?}");
    }
    let ended = Instant::now();
    server.wait(Duration::from_secs(30)).expect_code(0);
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
