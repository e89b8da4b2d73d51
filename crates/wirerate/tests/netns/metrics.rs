//! `--metrics`: counters of running commands, scraped while they run and compared with the report.

use crate::lab::{Lab, Peer, RX_DEV, Scratch, TX_DEV};
use crate::program::{Running, TIME_LIMIT, until, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use measure::{OtherFrames, UnusualFrames};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use testkit::Exposition;

/// Tests of the metrics.
pub(crate) const CASES: &[Case] = &[
    case("metrics::a_sender_is_scraped_while_it_sends", &[], a_sender_is_scraped),
    case("metrics::a_capture_is_scraped_while_it_captures", &[], a_capture_is_scraped),
    case("metrics::a_receiver_is_scraped_while_it_measures", &[], a_receiver_is_scraped),
    case("metrics::each_count_of_a_receiver_is_in_every_view", &[], each_count_is_in_every_view),
    case("metrics::no_more_is_received_than_sent", &[], no_more_is_received_than_sent),
    case("metrics::a_sink_is_scraped_and_ends_at_once", &[], a_sink_is_scraped),
    case("metrics::a_replay_is_scraped_while_it_sends", &[], a_replay_is_scraped),
    case("metrics::runs_of_control_files_are_scraped", &[], control_files_are_scraped),
    case("metrics::promtool_has_no_complaint", &[PROMTOOL], promtool_has_no_complaint),
    case("metrics::prometheus_has_the_numbers_of_the_report", &[PROMETHEUS], prometheus_has_the_numbers),
    case("metrics::every_panel_of_the_dashboard_has_data", &[PROMETHEUS], every_panel_has_data),
    case("metrics::node_exporter_reads_the_file", &[NODE_EXPORTER], node_exporter_reads_the_file),
    case("metrics::alerts_fire", &[PROMTOOL], alerts_fire),
    case("metrics::an_address_in_use_is_refused", &[], an_address_in_use_is_refused),
];

/// Debian's programs, unpacked by `make test`.
const PROMETHEUS: &str = "/var/cache/wirerate/prometheus/usr/bin/prometheus";
const PROMTOOL: &str = "/var/cache/wirerate/prometheus/usr/bin/promtool";
const NODE_EXPORTER: &str = "/var/cache/wirerate/prometheus/usr/bin/prometheus-node-exporter";

/// The end waits this long for the last scrape.
const LINGER: &str = "--metrics 0 --metrics-linger 2min --json";

/// The address that a command has printed.
#[track_caller]
fn address(running: &Running) -> SocketAddr {
    running.until_it_says("/metrics\n");
    let said = running.said();
    let rest = said.split("metrics at http://").nth(1).expect("it names the page");
    rest.split('/').next().unwrap_or_default().parse().expect("an address")
}

/// The body of a page.
#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the server answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.split("\r\n").next().unwrap_or_default().ends_with(" 200 OK"), "{head}");
    body.to_owned()
}

/// A scrape that keeps all rules.
#[track_caller]
pub(crate) fn scrape(address: SocketAddr, is_open_metrics: bool) -> Exposition {
    let accept = if is_open_metrics { "application/openmetrics-text;version=1.0.0" } else { "*/*" };
    let text = get(address, "/metrics", accept);
    let read = Exposition::read(&text, is_open_metrics).unwrap_or_else(|rule| panic!("{rule}\n{text}"));
    assert_eq!(read.values("wirerate_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), [1.0]);
    let states = read.values("wirerate_run_state", &[]);
    assert_eq!((states.len(), states.iter().sum::<f64>()), (3, 1.0), "{text}");
    assert!(read.values("process_resident_memory_bytes", &[])[0] > 1e6);
    read
}

/// Scrapes until the run has ended. Returns the last counts and the number of scrapes before;
/// `check` sees each of these.
#[track_caller]
fn scrape_to_the_end(at: SocketAddr, mut check: impl FnMut(&Exposition)) -> (Exposition, u64) {
    let (mut scrapes, mut last) = (0, None);
    until("the run ends", || {
        let read = scrape(at, scrapes % 2 == 0);
        // After this scrape the command ends.
        if read.values("wirerate_run_state", &[("state", "ended")]) == [1.0] {
            last = Some(read);
            return true;
        }
        check(&read);
        scrapes += 1;
        false
    });
    (last.expect("it has ended"), scrapes)
}

#[track_caller]
fn report(text: &str, schema: &str) -> Value {
    let last: Value = serde_json::from_str(text.lines().last().expect("a report")).expect("JSON");
    assert_eq!(last["schema"], schema, "{text}");
    last
}

/// Gaps in the report of a paced sender.
fn gap_count(report: &Value) -> u64 {
    let rows = report["gaps"]["histogram"].as_array().expect("a histogram");
    rows.iter().filter_map(|row| row["count"].as_u64()).sum()
}

fn sends(lab: &Lab, more: &str) -> String {
    format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --size 60 {more}", lab.tx_netns)
}

/// Numbers of one instant: 64 frames more were received in one of 200 scrapes, because the driver
/// counts a frame behind the receiver.
fn no_more_is_received_than_sent() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = wirerate_start(&format!(
        "measure --tx {TX_DEV}@{} --rx {RX_DEV}@{} {LINGER} -- --dst-mac 02:00:00:00:00:02 --size 74 \
         --pps 200k --duration 3s --engine xdp",
        lab.tx_netns, lab.rx_netns
    ));
    let mut last = 0;
    let (_, scrapes) = scrape_to_the_end(address(&running), |read| {
        let sent = read.sum("wirerate_send_frames_total", &[]).unwrap_or(0);
        let fates = ["in_order", "reordered"].map(|fate| [("fate", fate)]);
        let received = fates.map(|fate| read.sum("wirerate_flow_frames_total", &fate).unwrap_or(0));
        last = received.iter().sum();
        assert!(last <= sent, "{last} received, {sent} sent");
    });
    assert!(scrapes >= 10 && last > 0, "{scrapes} scrapes, {last} frames");
    running.wait(TIME_LIMIT);
    Ok(())
}

fn a_sender_is_scraped() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let running = wirerate_start(&sends(&lab, &format!("--pps 20k --count 40k --threads 2 {LINGER}")));
    let at = address(&running);
    let labels = [("device", TX_DEV), ("netns", lab.tx_netns.as_str())];
    let sum = |read: &Exposition, name: &str| read.sum(name, &labels).unwrap_or(0);
    let mut last = 0;
    let (read, scrapes) = scrape_to_the_end(at, |read| {
        let [offered, sent, errors] = [
            "wirerate_send_offered_frames_total",
            "wirerate_send_frames_total",
            "wirerate_send_errors_total",
        ]
        .map(|name| sum(read, name));
        assert!(offered >= last && sent <= 40_000, "{offered} after {last}");
        // Two threads are not of one moment; each of them is.
        assert!(offered >= sent, "{offered} offered, {sent} sent, {errors} errors");
        last = offered;
        if last > 0 && sent < 40_000 {
            assert_eq!(read.values("wirerate_run_state", &[("state", "running")]), [1.0]);
            assert_eq!(read.values("wirerate_send_target_frames_per_second", &labels), [20_000.0]);
        }
    });
    assert!(scrapes >= 10 && last > 0, "{scrapes} scrapes, {last} frames");
    let outcome = running.wait(TIME_LIMIT).expect_paced();
    let report = report(&outcome.stdout, "wirerate.send/2");
    for (name, field) in [
        ("wirerate_send_offered_frames_total", "offered"),
        ("wirerate_send_frames_total", "sent"),
        ("wirerate_send_errors_total", "errors"),
        ("wirerate_send_retries_total", "retries"),
    ] {
        assert_eq!(read.sum(name, &labels), report[field].as_u64(), "{name}: {report}");
    }
    assert_eq!(read.sum("wirerate_send_bytes_total", &labels), Some(40_000 * 60));
    assert_eq!(read.sum("wirerate_send_frames_total", &[("thread", "1")]), Some(20_000));
    assert_eq!(
        read.sum("wirerate_send_gap_error_seconds_count", &labels),
        Some(gap_count(&report)),
        "{report}"
    );
    assert_eq!(
        read.values(
            "wirerate_run_info",
            &[("command", "send"), ("device", TX_DEV), ("netns", &lab.tx_netns)]
        ),
        [1.0]
    );
    Ok(())
}

fn a_capture_is_scraped() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("frames.pcapng");
    let words = format!(
        "capture {RX_DEV} --netns {} --mode drop --snaplen 96 --ring 8MiB --count 50k -w {} {LINGER} \
         udp dst port 9",
        lab.rx_netns,
        file.display()
    );
    let running = wirerate_start(&words);
    let at = address(&running);
    running.until_it_says("capturing on rx0");
    let labels = [("device", RX_DEV), ("netns", lab.rx_netns.as_str())];
    let fate = |read: &Exposition, fate: &str| {
        read.sum("wirerate_capture_frames_total", &[labels[0], labels[1], ("fate", fate)])
    };
    wirerate_run(&sends(&lab, "--count 300 --udp-dst 10")).expect_code(0);
    wirerate_run(&sends(&lab, "--count 40k")).expect_code(0);
    until("all is written", || fate(&scrape(at, true), "written") == Some(40_000));
    let ring = scrape(at, false).values("wirerate_capture_ring_used_ratio", &labels);
    assert!(ring.len() == 1 && (0.0..=1.0).contains(&ring[0]), "{ring:?}");
    wirerate_run(&sends(&lab, "--count 10k")).expect_code(0);
    let (read, _) = scrape_to_the_end(at, |read| {
        assert!((40_000..=50_000).contains(&fate(read, "written").unwrap_or(0)));
    });
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout, "wirerate.capture/2");
    for name in ["written", "filtered", "after_limit", "lost_nic", "lost_ring", "lost_disk"] {
        assert_eq!(fate(&read, name), report[name].as_u64(), "{name}: {report}");
    }
    assert_eq!((report["written"].as_u64(), report["filtered"].as_u64()), (Some(50_000), Some(300)));
    for (name, field) in [
        ("wirerate_capture_bytes_total", "received_bytes"),
        ("wirerate_capture_file_bytes_total", "file_bytes"),
    ] {
        assert_eq!(read.sum(name, &labels), report[field].as_u64(), "{name}: {report}");
    }
    assert_eq!(read.sum("wirerate_capture_time_frames_total", &[("clock", "kernel")]), Some(50_000));
    Ok(())
}

fn a_receiver_is_scraped() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = format!(
        "measure --tx {TX_DEV} --tx-netns {} --rx {RX_DEV} --rx-netns {} {LINGER} -- --dst 198.18.0.2 \
         --size 100 --flows 20 --pps 20k --count 40k",
        lab.tx_netns, lab.rx_netns
    );
    let running = wirerate_start(&words);
    let at = address(&running);
    let labels = [("device", RX_DEV), ("netns", lab.rx_netns.as_str())];
    let (mut last, mut highest_s) = (0, 0.0);
    let (read, _) = scrape_to_the_end(at, |read| {
        // As each gauge, it is gone at the end.
        let highest = read.values("wirerate_flow_latency_max_seconds", &labels);
        highest_s = highest.into_iter().fold(highest_s, f64::max);
        let received = read.sum("wirerate_receive_frames_total", &labels).unwrap_or(0);
        let in_flows = read.sum("wirerate_flow_frames_total", &labels).unwrap_or(0);
        // The flows are read later.
        assert!((last..=40_000).contains(&received) && in_flows <= 40_000, "{received} {in_flows}");
        last = received;
    });
    assert!(last > 0);
    let outcome = running.wait(TIME_LIMIT).expect_paced();
    let report = report(&outcome.stdout, "wirerate.measure/1");
    assert_eq!(read.sum("wirerate_receive_frames_total", &labels), report["received"].as_u64());
    assert_eq!(read.sum("wirerate_flow_frames_total", &labels), report["received"].as_u64());
    for (fate, field) in [("duplicate", "duplicate"), ("reordered", "reordered"), ("too_old", "too_old")] {
        let count = read.sum("wirerate_flow_frames_total", &[labels[0], ("fate", fate)]);
        assert_eq!(count, report[field].as_u64(), "{fate}");
    }
    for (flow, frames) in [("0", 2000), ("15", 2000), ("other", 8000)] {
        assert_eq!(read.sum("wirerate_flow_frames_total", &[("flow", flow)]), Some(frames), "flow {flow}");
    }
    let latency = &report["latency"];
    assert_eq!(read.sum("wirerate_flow_latency_seconds_count", &labels), latency["stamped"].as_u64());
    assert_eq!(read.sum("wirerate_flow_stamped_frames_total", &labels), latency["stamped"].as_u64());
    assert_eq!(read.sum("wirerate_flow_stamped_frames_total", &[("flow", "other")]), Some(8000));
    let max_s = latency["max_ns"].as_u64().expect("a latency") as f64 / 1e9;
    assert!(highest_s > 0.0 && highest_s < max_s + 1e-9, "{highest_s} {max_s}");
    let mean_ns = latency["mean_ns"].as_u64().expect("a latency");
    let sum_s = read.values("wirerate_flow_latency_seconds_sum", &labels)[0];
    assert!((sum_s * 1e9 / 40_000.0 - mean_ns as f64).abs() < 2.0, "{sum_s} {mean_ns}");
    let of_flows: f64 = read.values("wirerate_flow_latency_sum_seconds_total", &labels).iter().sum();
    assert!((of_flows - sum_s).abs() < 1e-6, "{of_flows} {sum_s}");
    assert_eq!(read.sum("wirerate_send_frames_total", &[("device", TX_DEV)]), Some(40_000));
    Ok(())
}

/// The lines of `facts::counts`: report, rows as CSV and JSON, and metrics have each.
fn each_count_is_in_every_view() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let receive = |more: &str| {
        wirerate_start(&format!("receive {RX_DEV} --netns {} --run 6 --duration 4s {more}", lab.rx_netns))
    };
    let running = receive(&format!("--every-second {LINGER}"));
    let at = address(&running);
    running.until_it_says("measuring frames");
    for (frames, more) in [(300, "--run 5"), (900, "--run 6")] {
        // Nothing ends the receiver before its time.
        let full = format!("--pps 1000 --size 74 --signature full --end-frames 0 --count {frames} {more}");
        wirerate_run(&sends(&lab, &full)).expect_paced();
    }
    let raw = "--frame {eth(da=02:00:00:00:00:02,type=0x88b5),fill(0x00,50)} --count 20 --pps 1000";
    wirerate_run(&format!("send {TX_DEV} --netns {} {raw}", lab.tx_netns)).expect_paced();
    let (read, _) = scrape_to_the_end(at, |_| {});
    let said = running.wait(TIME_LIMIT).expect_code(0).stdout;
    let report = report(&said, "wirerate.measure/1");
    let rows: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let row = rows.iter().rfind(|row| row["schema"] == "wirerate.measure-second/1").expect("a row");
    let labels = [("device", RX_DEV), ("netns", lab.rx_netns.as_str())];
    for (family, names) in [
        ("wirerate_receive_other_frames_total", OtherFrames::NAMES),
        ("wirerate_receive_unusual_frames_total", UnusualFrames::NAMES),
    ] {
        for name in names {
            let count = report[name].as_u64().unwrap_or_else(|| panic!("the report has no {name}: {said}"));
            let of_kind = read.sum(family, &[labels[0], labels[1], ("kind", name)]);
            assert_eq!(of_kind, Some(count), "{family} {name}");
            assert!(row[name].as_u64().is_some_and(|row| row <= count), "{name} of {row}");
        }
    }
    assert_eq!([&report["stale"], &report["unique"], &row["stale"]], [300, 900, 300]);
    assert!(report["foreign"].as_u64() >= Some(20), "{report}");
    let header = receive("--csv").wait(TIME_LIMIT).expect_code(0).stdout;
    let columns: Vec<&str> = header.lines().next().expect("a header").split(',').collect();
    for name in OtherFrames::NAMES.iter().chain(UnusualFrames::NAMES) {
        assert!(columns.contains(name), "{name}: {header}");
    }
    Ok(())
}

fn a_sink_is_scraped() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = wirerate_start(&format!("sink {RX_DEV} --netns {} {LINGER}", lab.rx_netns));
    let at = address(&running);
    running.until_it_says("frames of rx0 (XDP, native)");
    wirerate_run(&sends(&lab, "--count 1000")).expect_code(0);
    let received = || scrape(at, true).sum("wirerate_receive_frames_total", &[("device", RX_DEV)]);
    until("all are counted", || received() == Some(1000));
    running.signal(Signal::SIGINT);
    // After a signal no scrape is waited for.
    running.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

fn an_address_in_use_is_refused() -> TestResult {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    wirerate_run(&format!("count lo --metrics {port}"))
        .expect_code(3)
        .says(&[&format!("cannot serve metrics at 127.0.0.1:{port}: "), "\n  try: --metrics 0"]);
    Ok(())
}

fn a_replay_is_scraped() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let file = lab.file("frames.pcapng");
    let write = "send lo --dst 198.18.0.2 --udp-dst 9-10 --size 60 --dry-run 1000 --write";
    wirerate_run(&format!("{write} {}", file.display())).expect_code(0);
    for engine in ["xdp", "af_packet"] {
        let running = wirerate_start(&format!(
            "replay {TX_DEV} {} --netns {} --engine {engine} --pps 20k --loop 40 --filter udp[3]=9 {LINGER}",
            file.display(),
            lab.tx_netns
        ));
        let at = address(&running);
        let labels = [("device", TX_DEV), ("netns", lab.tx_netns.as_str())];
        let sum = |read: &Exposition, name: &str| read.sum(name, &labels).unwrap_or(0);
        let fate = |read: &Exposition, fate: &str| {
            read.sum("wirerate_replay_frames_total", &[labels[0], ("fate", fate)])
        };
        let (mut last, mut seen, mut inside) = (0, 0, 0);
        let (read, _) = scrape_to_the_end(at, |read| {
            let sent = fate(read, "sent").unwrap_or(0);
            assert!((last..=20_000).contains(&sent), "{sent} after {last}");
            seen += u64::from(sent > last);
            last = sent;
            let positions = read.values("wirerate_replay_position_ratio", &labels);
            assert!(positions.iter().all(|position| (0.0..=1.0).contains(position)), "{positions:?}");
            inside += positions.iter().filter(|position| (0.0..1.0).contains(*position)).count();
        });
        assert!(seen > 3 && inside > 3, "{engine}: {seen}, {inside}");
        let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout, "wirerate.replay/2");
        for name in ["sent", "not_wanted", "cut", "too_long", "link_type", "damaged", "after_end"] {
            assert_eq!(fate(&read, name), report[name].as_u64(), "{name}: {report}");
        }
        assert_eq!((fate(&read, "sent"), fate(&read, "not_wanted")), (Some(20_000), Some(20_000)));
        assert_eq!(sum(&read, "wirerate_replay_frames_total"), report["read"].as_u64().expect("a count"));
        assert_eq!(sum(&read, "wirerate_replay_loops_total"), 40);
        assert_eq!(sum(&read, "wirerate_replay_starved_total"), report["starved"].as_u64().expect("a count"));
    }
    Ok(())
}

/// Three runs of one device instance are one counter.
fn control_files_are_scraped() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let dir = lab.file("pktgen");
    let words = format!("serve --netns {} --mount {} --metrics 0", lab.tx_netns, dir.display());
    let running = wirerate_start(&words);
    let at = address(&running);
    until("the files are there", || dir.join("pgctrl").exists());
    let write = |file: &str, text: &str| std::fs::write(dir.join(file), text);
    write("kpktgend_0", "add_device tx0")?;
    for command in ["count 1000", "dst 198.18.0.2", "dst_mac 02:00:00:00:00:02", "delay 10000"] {
        write(TX_DEV, command)?;
    }
    let labels = [("device", TX_DEV), ("netns", lab.tx_netns.as_str()), ("thread", "0")];
    for run in 1..=3 {
        write("pgctrl", "start")?;
        let read = scrape(at, run % 2 == 0);
        assert_eq!(read.sum("wirerate_send_frames_total", &labels), Some(1000 * run));
        assert_eq!(read.sum("wirerate_send_gap_error_seconds_count", &labels[..2]), Some(999 * run));
    }
    assert_eq!(scrape(at, false).values("wirerate_run_info", &[("command", "serve")]), [1.0]);
    running.signal(Signal::SIGTERM);
    running.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

/// Runs `measure` for two seconds, and gives `look` the page.
fn with_a_measurement(look: impl FnOnce(&Lab, &Running, SocketAddr)) -> String {
    let lab = Lab::new(Peer::Gro);
    let words = format!(
        "measure --tx {TX_DEV} --tx-netns {} --rx {RX_DEV} --rx-netns {} {LINGER} -- --dst 198.18.0.2 \
         --pps 10k --count 30k",
        lab.tx_netns, lab.rx_netns
    );
    let running = wirerate_start(&words);
    let at = address(&running);
    look(&lab, &running, at);
    running.wait(TIME_LIMIT).expect_paced().stdout
}

fn promtool_has_no_complaint() -> TestResult {
    with_a_measurement(|_, _, at| {
        let mut text = String::new();
        // The run ends shortly after it printed its reports.
        until("the run has ended", || {
            text = get(at, "/metrics", "*/*");
            let read = Exposition::read(&text, false).expect("a page");
            read.values("wirerate_run_state", &[("state", "ended")]) == [1.0]
        });
        let mut tool = Command::new(PROMTOOL);
        tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tool.spawn().expect("promtool starts");
        child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("promtool reads");
        let output = child.wait_with_output().expect("promtool ends");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    });
    Ok(())
}

/// A Prometheus server that scrapes pages.
struct Prometheus {
    _running: Running,
    address: SocketAddr,
    _scratch: Scratch,
}

impl Prometheus {
    fn start(pages: &[SocketAddr]) -> Self {
        let scratch = Scratch::new();
        let config = scratch.file("prometheus.yml");
        let pages: Vec<_> = pages.iter().map(|page| format!("'{page}'")).collect();
        let text = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n- job_name: wirerate\n  \
             static_configs: [{{targets: [{}]}}]\n",
            pages.join(", ")
        );
        std::fs::write(&config, text).expect("the folder can be written");
        let address = free_address();
        let mut command = Command::new(PROMETHEUS);
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", scratch.file("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        let running = Running::start(command);
        running.until_it_says("Server is ready to receive web requests.");
        Self { _running: running, address, _scratch: scratch }
    }

    /// Values of an expression.
    fn query(&self, expression: &str) -> Vec<f64> {
        let escaped: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let text = get(self.address, &format!("/api/v1/query?query={escaped}"), "*/*");
        let answer: Value = serde_json::from_str(&text).expect("the server answers with JSON");
        assert_eq!(answer["status"], "success", "{expression}: {text}");
        let rows = answer["data"]["result"].as_array().expect("rows");
        let value = |row: &Value| row["value"][1].as_str().and_then(|value| value.parse().ok());
        rows.iter().filter_map(value).collect()
    }
}

fn prometheus_has_the_numbers() -> TestResult {
    let mut server = None;
    let stdout = with_a_measurement(|_, running, at| {
        let prometheus = server.insert(Prometheus::start(&[at]));
        until("a scrape succeeds", || prometheus.query("up") == [1.0]);
        until("both reports are printed", || running.printed().lines().count() == 2);
    });
    let prometheus = server.expect("it was started");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [sent, received] = &lines[..] else { panic!("{stdout}") };
    // The last scrape was after the end; the server keeps its values.
    for (name, expected) in [
        ("wirerate_send_offered_frames_total", &sent["offered"]),
        ("wirerate_send_frames_total", &sent["sent"]),
        ("wirerate_send_errors_total", &sent["errors"]),
        ("wirerate_send_gap_error_seconds_count", &gap_count(sent).into()),
        ("wirerate_receive_frames_total", &received["received"]),
        ("wirerate_flow_frames_total", &received["received"]),
        ("wirerate_flow_latency_seconds_count", &received["latency"]["stamped"]),
    ] {
        let query = format!("sum(last_over_time({name}[10m]))");
        until(name, || prometheus.query(&query).first().copied() == expected.as_f64());
    }
    let ended = "last_over_time(wirerate_run_state{state=\"ended\"}[10m])";
    assert_eq!(prometheus.query(ended), [1.0]);
    Ok(())
}

/// A port that was free a moment ago.
fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("there is a free port")
}

/// The last counts of a run that is over when the server scrapes.
fn node_exporter_reads_the_file() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let file = lab.file("run.prom");
    wirerate_run(&sends(&lab, &format!("--count 1000 --metrics-file {}", file.display()))).expect_code(0);
    let folder = file.parent().expect("it is in a folder");
    let parts = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert!(!parts.into_iter().any(|name| name.starts_with("run.prom.")), "a part of the file is left");
    let at = free_address();
    let mut command = Command::new(NODE_EXPORTER);
    command.args(["--collector.disable-defaults", "--collector.textfile"]);
    command.arg(format!("--collector.textfile.directory={}", folder.display()));
    command.arg(format!("--web.listen-address={at}"));
    let running = Running::start(command);
    until("node_exporter listens", || TcpStream::connect(at).is_ok());
    let text = get(at, "/metrics", "*/*");
    let labels = format!("device=\"{TX_DEV}\",engine=");
    let is_sent = |line: &&str| line.starts_with("wirerate_send_frames_total{") && line.contains(&labels);
    let sent = text.lines().find(is_sent).unwrap_or_else(|| panic!("{text}"));
    assert!(sent.ends_with(" 1000"), "{sent}");
    assert!(text.contains("node_textfile_scrape_error 0\n"), "{text}");
    assert!(text.contains("wirerate_run_state{run=\"1\",state=\"ended\"} 1\n"), "{text}");
    drop(running);
    let refused = wirerate_run(&sends(&lab, "--metrics-file run.txt")).expect_code(2);
    refused.says(&["cannot write metrics to run.txt: ", "try: --metrics-file run.txt.prom"]);
    Ok(())
}

fn alerts_fire() -> TestResult {
    let scratch = Scratch::new();
    let rules = testkit::root().join("docs/wirerate.rules.yml").display().to_string();
    let cases = include_str!("../golden/rules_test.yml").replace("[RULES]", &format!("[{rules}]"));
    let file = scratch.file("rules_test.yml");
    std::fs::write(&file, cases)?;
    for words in [["check", "rules", &rules], ["test", "rules", &file.display().to_string()]] {
        let output = Command::new(PROMTOOL).args(words).output()?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    Ok(())
}

/// The dashboard's queries, with its variables as Grafana fills them in.
fn dashboard_queries() -> Vec<String> {
    let text =
        std::fs::read_to_string(testkit::root().join("docs/grafana.json")).expect("the dashboard is there");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let filled = |query: &str| {
        query.replace("$__rate_interval", "2s").replace("$device", ".*").replace("$job", "wirerate")
    };
    targets.filter_map(|target| target["expr"].as_str()).map(filled).collect()
}

fn every_panel_has_data() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = format!(
        "measure --tx {TX_DEV} --tx-netns {} --rx {RX_DEV} --rx-netns {} --mirror {LINGER} -- \
         --dst 198.18.0.2 --pps 5k --count 0",
        lab.tx_netns, lab.rx_netns
    );
    let measuring = wirerate_start(&words);
    let capturing = wirerate_start(&format!(
        "capture {RX_DEV} --netns {} --source tpacket -w {} {LINGER}",
        lab.rx_netns,
        lab.file("frames.pcapng").display()
    ));
    let file = lab.file("sent.pcapng");
    let write = "send lo --dst 198.18.0.2 --size 60 --dry-run 100 --write";
    wirerate_run(&format!("{write} {}", file.display())).expect_code(0);
    let replaying = wirerate_start(&format!(
        "replay {TX_DEV} {} --netns {} --engine af_packet --pps 100 --loop 0 {LINGER}",
        file.display(),
        lab.tx_netns
    ));
    let far = Lab::new(Peer::Gro);
    let accepting = wirerate_start(&format!("accept {RX_DEV}@{} --dst 198.18.0.2 {LINGER}", far.rx_netns));
    let connecting = wirerate_start(&format!(
        "connect {TX_DEV}@{} --dst 198.18.0.2:80 --src 198.18.0.64/28 --cps 100 -t 2min {LINGER}",
        far.tx_netns
    ));
    let all = [&measuring, &capturing, &replaying, &accepting, &connecting];
    let prometheus = Prometheus::start(&all.map(address));
    for query in dashboard_queries() {
        until(&query, || prometheus.query(&query).iter().any(|value| value.is_finite()));
    }
    let sent = "sum(rate(wirerate_send_frames_total[2s]))";
    until("frames are sent", || prometheus.query(sent).first().is_some_and(|rate| *rate > 0.0));
    for running in [measuring, capturing, replaying] {
        running.signal(Signal::SIGINT);
        running.wait(TIME_LIMIT);
    }
    Ok(())
}
