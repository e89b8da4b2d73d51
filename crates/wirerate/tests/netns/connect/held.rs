//! Connections that stay open.

use super::lab::{Between, ConnectLab, count, json, python};
use super::{SERVER, accounted, complete, connect};
use crate::TestResult;
use crate::program::{Running, TIME_LIMIT, until, wirerate_run, wirerate_start};
use nix::sys::signal::Signal;
use std::time::Duration;

const HELD: usize = 2000;

fn hold(lab: &ConnectLab, more: &str) -> Running {
    let client = &lab.client.name;
    let words = format!("connect c0@{client} --json {SERVER} --hold {HELD} --cps 20k {more}");
    let holding = wirerate_start(&words);
    until("all are established", || lab.established() == HELD);
    holding
}

/// The server's kernel counts as many; requests are answered on them; both ways to close.
pub(super) fn stay() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    for close in ["client", "reset"] {
        let holding = hold(&lab, &format!("-t 4s --close {close}"));
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(lab.established(), HELD);
        let report = complete(holding.wait(TIME_LIMIT), HELD as u64);
        assert_eq!(count(&report, "open_max"), HELD as u64);
        assert!(count(&report, "keepalive") >= HELD as u64, "probes after 1 s: {report}");
        until("all are closed", || lab.established() == 0);
    }
    let report = complete(connect(&lab, &format!("{SERVER} --hold 100 -t 3s --ask-rate 1000")), 100);
    assert!((2_500..=3_001).contains(&count(&report, "responses")), "{report}");
    assert_eq!(report["requests"], report["responses"]);
    Ok(())
}

/// Answers each request after 0.1 s.
const SLOW: &str = r#"
import socket, sys, threading, time
def serve(c):
    while c.recv(4096):
        time.sleep(.1)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
s = socket.create_server(("198.18.0.2", 80), backlog=512)
print("ready", file=sys.stderr, flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"#;

/// Four connections with a request at a time each take at most 40 requests per second. A rate below
/// it is reached, one above it is missed, and said so.
pub(super) fn slow() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let server = Running::start(python(&lab, SLOW));
    server.until_it_says("ready");
    let held = format!("{SERVER} --hold 4 -t 3s");
    let report = complete(connect(&lab, &format!("{held} --ask-rate 10")).expect_code(0), 4);
    assert!((28..=31).contains(&count(&report, "requests")), "{report}");
    let outcome = connect(&lab, &format!("{held} --ask-rate 1000")).expect_code(1);
    let report = complete(outcome, 4);
    assert_eq!(report["requested_requests_ps"], 1000.0, "{report}");
    assert!((40..=124).contains(&count(&report, "requests")), "{report}");
    let words = format!("connect c0@{} {held} --ask-rate 1000", lab.client.name);
    let text = wirerate_run(&words).expect_code(1).stdout;
    let row = text.lines().find(|line| line.trim_start().starts_with("missed")).unwrap_or_default();
    assert!(row.contains("requests: 1,000/s requested, "), "{text}");
    Ok(())
}

/// Ctrl-C closes what is held, and reports.
pub(super) fn signal() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let holding = hold(&lab, "");
    let start = std::time::Instant::now();
    holding.signal(Signal::SIGINT);
    let outcome = holding.wait(TIME_LIMIT);
    // 2 s, and what a busy machine adds.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    let report = accounted(&outcome);
    assert_eq!(json(&outcome.stdout)["completed"], HELD as u64, "{report}");
    until("all are closed", || lab.established() == 0);
    assert!(!lab.has_xdp());
    Ok(())
}

/// The kernel detaches the program of a killed process.
pub(super) fn killed() -> TestResult {
    let lab = ConnectLab::new(Between::Nothing, "");
    let _nginx = lab.nginx();
    let holding = hold(&lab, "");
    assert!(lab.has_xdp());
    holding.signal(Signal::SIGKILL);
    holding.wait(TIME_LIMIT);
    until("nothing is attached", || !lab.has_xdp());
    // The next run is not disturbed by what the server still has.
    complete(connect(&lab, &format!("{SERVER} --open 50 -c 3000")), 3000);
    Ok(())
}
