//! `wirerate receive`: what a sender sent, measured frame by frame.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, wirerate_run, wirerate_start};
use crate::readers::tshark;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// Tests of the measuring receiver.
pub(crate) const CASES: &[Case] = &[
    case("receive::measures_each_of_65536_flows", &[], measures_each_of_65536_flows),
    case("receive::second_copies_are_duplicates", &[], second_copies_are_duplicates),
    case("receive::checks_decide_the_exit_code", &[], checks_decide_the_exit_code),
    case("receive::frames_of_others_go_to_the_host", &[], frames_of_others_go_to_the_host),
    case("receive::two_cpus_share_a_flow_under_a_lock", &[], two_cpus_share_a_flow_under_a_lock),
    case("receive::writes_a_line_per_flow_and_a_histogram", &[], writes_a_line_per_flow_and_a_histogram),
    case("receive::measure_joins_sender_and_receiver", &[], measure_joins_sender_and_receiver),
    case("receive::frames_of_any_kind_are_measured_by_their_mark", &[], frames_of_any_kind),
    case("receive::packet_sockets_count_the_same", &[], packet_sockets_count_the_same),
    case("receive::each_stream_has_its_loss_and_latency", &[], each_stream_has_its_loss),
    case("receive::both_directions_are_measured_at_once", &[], both_directions_at_once),
    case("receive::flows_of_several_threads_are_read_from_frames", &[], flows_of_several_threads),
    case("receive::frames_of_another_run_are_stale", &[], frames_of_another_run_are_stale),
    case("receive::ends_with_the_sender_and_knows_what_it_sent", &[], ends_with_the_sender),
    case("receive::a_ramp_sends_what_its_rates_sum_up_to", &[], ramp_sends_its_sum),
    case("receive::tshark_reads_the_same_number_and_time", &["tshark"], tshark_reads_the_same),
    case("receive::prints_a_row_each_second", &[], prints_a_row_each_second),
    case("receive::runs_are_summed_up_and_compared", &[], runs_are_summed_up),
    case("receive::the_rate_is_that_of_the_frames_not_of_the_command", &[], rate_of_the_frames),
    case("receive::when_all_is_lost_the_next_steps_are_said", &[], all_is_lost),
];

/// Each run has its report; then mean, deviation and extremes, as text and JSON.
fn runs_are_summed_up() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = |more: &str| {
        format!(
            "measure --tx {TX_DEV}@{} --rx {RX_DEV}@{} --dst 198.18.0.2 --count 300 --pps 1k {more}",
            lab.tx_netns, lab.rx_netns
        )
    };
    let text = wirerate_run(&words("--runs 2")).expect_paced().stdout;
    assert!(text.contains("2 of 2 runs of measure") && text.contains("received rate"), "{text}");
    let json = wirerate_run(&words("--runs 3 --json")).expect_paced().stdout;
    let lines: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let count = |schema: &str| lines.iter().filter(|line| line["schema"] == schema).count();
    assert_eq!((count("wirerate.send/2"), count("wirerate.measure/1"), count("wirerate.runs/1")), (3, 3, 1));
    let summary = lines.last().expect("a summary");
    assert_eq!((&summary["runs"], &summary["command"]), (&3.into(), &"measure".into()));
    let lost = summary["figures"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "lost"));
    assert_eq!(lost.expect("a row of lost frames")["runs"].as_array().map(Vec::len), Some(3), "{summary}");
    // Saved lines are compared.
    let folder = testkit::Folder::new("runs");
    let path = folder.file("runs.jsonl");
    fs::write(&path, &json)?;
    let compared = wirerate_run(&format!("report {path} {path}")).expect_code(0).stdout;
    assert!(compared.contains("no difference beyond the spread"), "{compared}");
    wirerate_run(&words("--runs 2 --start-at +5s")).expect_code(2);
    Ok(())
}

/// A receiver that waits before and after the frames has their rate, and says when they came.
fn rate_of_the_frames() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for command in ["count", "receive"] {
        let running = wirerate_start(&format!("{command} {RX_DEV}@{} --json -t 2s", lab.rx_netns));
        running.until_it_says("frames of rx0");
        send(&lab, 5_000, "--pps 10k --catch-up max");
        let report: Value = serde_json::from_str(running.wait(TIME_LIMIT).stdout.trim()).expect("JSON");
        let [rate, active_ns] = ["rate_pps", "active_ns"].map(|name| report[name].as_f64().expect(name));
        // The sender may pause on a busy machine; the receiver's time is what counts here.
        assert!(rate > 2_600.0, "5,000 frames in 2 s would be 2,500: {report}");
        assert!((400e6..1_900e6).contains(&active_ns), "{report}");
    }
    Ok(())
}

/// A sender to a MAC address that no device has.
fn all_is_lost() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let outcome = wirerate_run(&format!(
        "measure --tx {TX_DEV}@{} --rx {TX_DEV}@{} --dst 198.18.0.2 --count 10 --pps 100 --dst-mac 02:00:00:00:00:99",
        lab.tx_netns, lab.tx_netns
    ))
    .expect_code(1);
    for step in ["none of 10 frames arrived", "--dst-mac", "ip_forward", "wirerate count"] {
        assert!(outcome.stderr.contains(step), "{step}: {}", outcome.stderr);
    }
    Ok(())
}

/// Starts the receiver; it ends by itself after `count` frames.
fn receive(lab: &Lab, count: u32, more: &str) -> Running {
    let running =
        wirerate_start(&format!("receive {RX_DEV} --netns {} --count {count} {more}", lab.rx_netns));
    running.until_it_says("measuring frames of rx0 (XDP, native)");
    running
}

/// Sends `count` frames. Returns how many others the driver rejected.
fn send(lab: &Lab, count: u32, more: &str) -> u64 {
    let words = format!(
        "send {TX_DEV} --netns {} --dst 198.18.0.2 --size 60 --count {count} --json {more}",
        lab.tx_netns
    );
    errors(&wirerate_run(&words).expect_paced().stdout)
}

/// Frames that the driver rejected, by the report of the sender.
#[track_caller]
fn errors(text: &str) -> u64 {
    let report: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert_eq!(report["schema"], "wirerate.send/2", "{text}");
    let [errors, replaced] = counts(&report, ["errors", "replaced"]);
    errors + replaced
}

/// Repeats a run in which the driver rejected frames, because their numbers are missing or lack a
/// copy. That happens on a loaded machine: the queue of a veth device has 256 places. The last run
/// counts in any case.
fn run_without_errors<R>(mut run: impl FnMut() -> (R, u64)) -> R {
    for _ in 0..9 {
        let (result, errors) = run();
        if errors == 0 {
            return result;
        }
        println!("the driver rejected {errors} frames: once more");
    }
    run().0
}

/// The report of a receiver that ends by itself after `count` frames of this sender.
fn received_without_errors(lab: &Lab, count: u32, receive_more: &str, send_more: &str) -> Value {
    run_without_errors(|| {
        let running = receive(lab, count, receive_more);
        let errors = send(lab, count, send_more);
        (report(&running.wait(TIME_LIMIT).expect_code(0).stdout), errors)
    })
}

/// The outcome of the words of `measure --json`.
fn measured_without_errors(words: &str) -> Outcome {
    run_without_errors(|| {
        let outcome = wirerate_run(words).expect_paced();
        let errors = errors(&outcome.stdout);
        (outcome, errors)
    })
}

/// The report, whose sums agree.
#[track_caller]
fn report(text: &str) -> Value {
    let report: Value = serde_json::from_str(text.lines().last().expect("a report")).expect("JSON");
    assert_eq!(report["schema"], "wirerate.measure/1", "{text}");
    assert_eq!(report["broken"].as_array().map(Vec::len), Some(0), "{report}");
    report
}

#[track_caller]
fn counts<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}")))
}

/// Nothing is lost, and each flow has its share.
fn measures_each_of_65536_flows() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let flows = lab.file("flows.csv");
    let more = format!("--flows 65536 --sent 1M --json --flows-out {}", flows.display());
    let report = received_without_errors(&lab, 1_000_000, &more, "");
    let kinds = ["unique", "duplicate", "reordered", "too_old", "missing", "damaged", "stale", "flows"];
    assert_eq!(counts(&report, kinds), [1_000_000, 0, 0, 0, 0, 0, 0, 65_536]);
    assert_eq!(report["loss"]["lost_max"], 0);
    let text = fs::read_to_string(&flows).expect("the file is there");
    let unique = text.lines().skip(1).map(|line| line.split(',').nth(3).expect("unique").to_owned());
    assert!(unique.clone().all(|unique| unique == "15" || unique == "16"));
    assert_eq!(unique.count(), 65_536);
    Ok(())
}

/// A copy takes a number as well, so every second one does not arrive.
fn second_copies_are_duplicates() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let report = received_without_errors(&lab, 200_000, "--json", "--clone-skb 2");
    assert_eq!(counts(&report, ["received", "unique", "duplicate"]), [200_000, 100_000, 100_000]);
    Ok(())
}

fn checks_decide_the_exit_code() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (check, code, says) in [
        ("lost=0", 0, "lost"),
        ("lost=7", 1, "check lost=7 failed: it is 0"),
        ("p50<1ns", 1, "check p50<1ns failed: it is "),
        ("unique>=1k", 0, "unique"),
    ] {
        let running = receive(&lab, 1000, &format!("--sent 1000 --expect {check}"));
        send(&lab, 1000, "");
        let outcome = running.wait(TIME_LIMIT).expect_code(code);
        assert!(outcome.stdout.contains(says), "{check}: {}", outcome.stdout);
    }
    let running = receive(&lab, 1000, "--sent 1001");
    send(&lab, 1000, "");
    running.wait(TIME_LIMIT).expect_code(1);
    let running = receive(&lab, 1000, "--expect lost=0");
    send(&lab, 1000, "");
    let outcome = running.wait(TIME_LIMIT).expect_code(1);
    assert!(outcome.stdout.contains("lost=0 failed: the sender announced no end"), "{}", outcome.stdout);
    Ok(())
}

fn frames_of_others_go_to_the_host() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = receive(&lab, 1000, "--json");
    let ping = ["ip", "netns", "exec", &lab.tx_netns, "ping", "-c", "1", "-W", "5", "198.18.0.2"];
    crate::program::run(&ping);
    send(&lab, 1000, "");
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout);
    assert_eq!(counts(&report, ["received"]), [1000]);
    assert!(counts(&report, ["foreign"])[0] >= 1, "{report}");
    assert!(!lab.has_xdp());
    Ok(())
}

/// Two threads send frames of one flow; the sums stay exact.
fn two_cpus_share_a_flow_under_a_lock() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = receive(&lab, 200_000, "--shared-flows --json");
    send(&lab, 200_000, "--threads 2");
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout);
    let [unique, duplicate, too_old] = counts(&report, ["unique", "duplicate", "too_old"]);
    assert_eq!(unique + duplicate + too_old, 200_000);
    Ok(())
}

fn writes_a_line_per_flow_and_a_histogram() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (flows, hgrm) = (lab.file("flows.json"), lab.file("latency.hgrm"));
    let more = format!("--flows 4 --flows-out {} --hgrm {}", flows.display(), hgrm.display());
    run_without_errors(|| {
        let running = receive(&lab, 4000, &more);
        let errors = send(&lab, 4000, "");
        (running.wait(TIME_LIMIT).expect_code(0), errors)
    });
    let text = fs::read_to_string(&flows).expect("the file is there");
    testkit::check_json_lines(&text);
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(
        rows.iter().map(|row| counts(row, ["flow", "unique"])).collect::<Vec<_>>(),
        [[0, 1000], [1, 1000], [2, 1000], [3, 1000]]
    );
    let text = fs::read_to_string(&hgrm).expect("the file is there");
    assert!(text.contains("Total count    =         4000]"), "{text}");
    Ok(())
}

fn measure_joins_sender_and_receiver() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let measure = |options: &str, send: &str| {
        let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
        let devices = format!("--tx {TX_DEV} --tx-netns {tx} --rx {RX_DEV} --rx-netns {rx}");
        format!("measure {devices} {options} -- --dst 198.18.0.2 {send}")
    };
    let options = "--flows 16 --expect lost=0 --deadline 1ns --expect late>90k --json";
    let outcome = measured_without_errors(&measure(options, "--count 100k"));
    let sent: Value = serde_json::from_str(outcome.stdout.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&sent["schema"], &sent["sent"]), (&"wirerate.send/2".into(), &100_000.into()));
    let report = report(&outcome.stdout);
    assert_eq!(counts(&report, ["unique", "flows", "missing"]), [100_000, 16, 0]);
    // HdrHistogram's compressed format begins so in base64.
    assert!(report["histogram"].as_str().is_some_and(|text| text.starts_with("HISTF")), "{report}");
    // Copies are duplicates and not lost.
    let outcome = measured_without_errors(&measure("--json", "--count 1000 --clone-skb 2"));
    let copied = self::report(&outcome.stdout);
    assert_eq!(counts(&copied, ["unique", "duplicate"]), [500, 500]);
    assert_eq!(copied["loss"]["lost_max"], 0);
    // Rows of the receivers on standard output, and the reports beside them.
    let outcome = wirerate_run(&measure("--csv", "--count 10")).expect_code(0);
    outcome.says(&["10 frames received"]);
    let rows: Vec<&str> = outcome.stdout.lines().collect();
    assert!(rows[0].starts_with("time,elapsed_s,device,received,rate_pps,missing,"), "{rows:?}");
    assert!(rows[rows.len() - 1].contains(&format!(",{RX_DEV}@{},10,", lab.rx_netns)), "{rows:?}");
    wirerate_run(&measure("--every-second", "--count 10 --csv"))
        .expect_code(2)
        .says(&["cannot use --csv behind `--`: ", " --csv`, with all other options as they are"]);
    wirerate_run(&measure("", "--count 10 --threads 2 --size 58"))
        .expect_code(2)
        .says(&["\n  try: --size 60, or --threads 1\n"]);
    wirerate_run(&measure("", "--count 10 --signature none"))
        .expect_code(2)
        .says(&["frames without a signature cannot be measured\n  try: --signature pktgen\n"]);
    assert!(!lab.has_xdp());
    Ok(())
}

/// Words that measure from `tx0` to `rx0`.
fn measure_words(lab: &Lab) -> String {
    format!("measure --tx {TX_DEV}@{} --rx {RX_DEV}@{}", lab.tx_netns, lab.rx_netns)
}

/// Headers of any kind, by every engine that builds them in its own way.
fn frames_of_any_kind() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("two.cfg");
    let udp = "eth(da=02:00:00:00:00:02), ipv4(sa=drnd(), da=198.18.0.2), udp(dp=9)";
    fs::write(&file, format!("{{ {udp}, fill(0, 18) }} {{ {udp}, \"of the user\", fill(0x41, 40) }}"))?;
    let two = format!("--frames {} --threads 2", file.display());
    let measure = |send: &str| {
        let words = format!("{} --json --expect lost=0 -- --count 2000 {send}", measure_words(&lab));
        report(&wirerate_run(&words).expect_code(0).stdout)
    };
    for (send, flows) in [
        ("--dst 198.18.0.2 --tcp --size 100 --engine xdp", 1),
        ("--dst 198.18.0.2-198.18.0.9 --dst-mac 02:00:00:00:00:02 --tcp --size 100 --engine skb", 1),
        ("--dst 198.18.0.2 --icmp echo --size 60 --engine af_packet", 1),
        ("--dst 198.18.0.2 --vxlan 7 --size 300", 1),
        ("--dst 198.18.0.2 --arp --size 60", 1),
        ("--dst 198.18.0.2 --tcp --syn --size 100 --engine xdp --signature full", 1),
        ("--dst 198.18.0.2 --icmp echo --size 100 --engine skb --signature full", 1),
        ("--dst 198.18.0.2 --vxlan 7 --size 300 --engine af_packet --signature short", 1),
        ("--dst 198.18.0.2 --gre --tcp --size 300 --engine af_xdp --signature pktgen", 1),
        (&two, 4),
    ] {
        let report = measure(send);
        // Numbers of frames that the driver rejected are neither lost nor missing.
        let kinds = ["unique", "flows", "duplicate", "stale", "damaged", "foreign", "missing"];
        assert_eq!(counts(&report, kinds), [2000, flows, 0, 0, 0, 0, 0], "{send}");
        assert_eq!(counts(&report["latency"], ["stamped"]), [2000], "{send}");
    }
    for (send, says) in [
        (
            "--dst 198.18.0.2 --tcp",
            "a mark takes 18 bytes behind the headers, and there are 0; frames of 72 bytes have them\n  try: --size 72\n",
        ),
        ("--dst 198.18.0.2 --tcp --signature none", "frames without a signature cannot be measured"),
    ] {
        wirerate_run(&format!("{} -- {send}", measure_words(&lab))).expect_code(2).says(&[says]);
    }
    // Copies are duplicates and not lost.
    let copied = report(
        &wirerate_run(&format!(
            "{} --json --expect lost=0 -- --count 1000 --dst 198.18.0.2 --tcp --size 90 --clone-skb 2",
            measure_words(&lab)
        ))
        .expect_code(0)
        .stdout,
    );
    assert_eq!(counts(&copied, ["unique", "duplicate"]), [500, 500]);
    // `send` sends them without a mark and says so.
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --tcp --count 3", lab.tx_netns);
    let text = wirerate_run(&words).expect_code(0).stdout;
    assert!(text.contains("the frames are not marked for `wirerate receive`: "), "{text}");
    Ok(())
}

/// Where XDP cannot be had: duplicates, numbers and latencies by the same rules.
fn packet_sockets_count_the_same() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = format!("{} --source tpacket --json --expect lost=0", measure_words(&lab));
    for (send, unique, duplicate, flows) in [
        ("--size 74 --udp-dst 1-5 --pps 50k", 2000, 0, 5),
        ("--size 60 --clone-skb 2 --pps 50k", 1000, 1000, 1),
        ("--tcp --size 90 --vlan 5 --pps 50k --engine af_packet", 2000, 0, 1),
    ] {
        // The count decides when the run ends, however late a loaded machine is.
        let words = format!("{words} -- --dst 198.18.0.2 --count 2000 --catch-up max {send}");
        let report = report(&measured_without_errors(&words).stdout);
        let kinds = ["unique", "duplicate", "flows", "reordered", "lost_ring"];
        assert_eq!(counts(&report, kinds), [unique, duplicate, flows, 0, 0], "{send}: {report}");
        assert_eq!(counts(&report["latency"], ["stamped"]), [unique], "{send}");
        assert_eq!((&report["mode"], &report["failed_checks"]), (&"mirror".into(), &Value::Array(vec![])));
        let source = report["source"].as_str().unwrap_or_default();
        assert_eq!(source, "TPACKET_V3; times of the kernel's receive path", "{send}");
        if send.contains("vlan") {
            assert_eq!(counts(&report, ["frame_bytes"]), [2000 * 90], "the tag counts");
        }
    }
    assert!(!lab.has_xdp());
    Ok(())
}

/// Streams with marks, with long and with short signatures.
fn each_stream_has_its_loss() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("streams.json");
    let dst = r#""dst": "198.18.0.2", "dst-mac": "02:00:00:00:00:02""#;
    let frame = "{ eth(da=02:00:00:00:00:02), ipv4(da=198.18.0.2), tcp(sp=dinc()), fill(0, 20) }";
    let streams = [
        format!(r#"{{"name": "own", "frame": "{frame}", "count": 300}}"#),
        format!(r#"{{"name": "short", {dst}, "count": 200, "udp-dst": "1-9"}}"#),
        format!(r#"{{"name": "full", {dst}, "count": 100, "size": 90}}"#),
        format!(r#"{{"name": "tcp", {dst}, "count": 50, "tcp": true, "size": 90}}"#),
    ];
    fs::write(&file, format!("[{}]", streams.join(",")))?;
    let words = format!("{} --expect lost=0", measure_words(&lab));
    let words = |more: &str| format!("{words} {more} -- --streams {}", file.display());
    let measured = report(&wirerate_run(&words("--json")).expect_code(0).stdout);
    assert_eq!(counts(&measured, ["unique", "flows", "reordered", "foreign"]), [650, 4, 0, 0]);
    let rows: Vec<_> = measured["streams"].as_array().expect("streams").iter().collect();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["own", "short", "full", "tcp"]);
    let kinds = ["sent", "unique", "lost_max", "duplicate"];
    let figures: Vec<_> = rows.iter().map(|row| counts(row, kinds)).collect();
    assert_eq!(figures, [[300, 300, 0, 0], [200, 200, 0, 0], [100, 100, 0, 0], [50, 50, 0, 0]]);
    assert!(rows.iter().all(|row| counts(row, ["latency_mean_ns"])[0] > 0), "{measured}");
    let text = wirerate_run(&words("")).expect_code(0).stdout;
    assert!(text.contains("stream") && text.contains("full: lost 0 of 100, latency mean "), "{text}");
    Ok(())
}

/// Two senders and two receivers on one pair of devices.
fn both_directions_at_once() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let flows = lab.file("flows.csv");
    let words =
        format!("{} --bidirectional --expect lost=0 --flows-out {}", measure_words(&lab), flows.display());
    let send = "--dst-mac 02:00:00:00:00:02 --size 74 --udp-dst 1-4 --count 3000";
    let outcome = wirerate_run(&format!("{words} --json --every-second -- {send}")).expect_code(0);
    let lines = outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let (rows, lines): (Vec<Value>, Vec<Value>) =
        lines.partition(|line: &Value| line["schema"] == "wirerate.measure-second/1");
    let last: Vec<_> = rows[rows.len() - 2..].iter().map(|row| (&row["device"], &row["received"])).collect();
    let devices = [(RX_DEV, &lab.rx_netns), (TX_DEV, &lab.tx_netns)];
    let devices = devices.map(|(device, netns)| Value::from(format!("{device}@{netns}")));
    assert_eq!(last, [(&devices[0], &3000.into()), (&devices[1], &3000.into())]);
    let named: Vec<_> = lines
        .iter()
        .map(|line| [&line["schema"], &line["device"]].map(|word| word.as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        named,
        [
            ["wirerate.send/2", TX_DEV],
            ["wirerate.measure/1", RX_DEV],
            ["wirerate.send/2", RX_DEV],
            ["wirerate.measure/1", TX_DEV],
            ["wirerate.measure-total/1", "2 directions together"],
        ]
    );
    let kinds = ["unique", "flows", "duplicate", "stale"];
    assert_eq!(
        [1, 3, 4].map(|line: usize| counts(&lines[line], kinds)),
        [[3000, 4, 0, 0], [3000, 4, 0, 0], [6000, 8, 0, 0]]
    );
    assert_eq!(counts(&lines[4]["loss"], ["sent", "lost_max"]), [6000, 0]);
    assert_eq!(lines[4]["broken"].as_array().map(Vec::len), Some(0));
    for number in [1, 2] {
        let file = lab.file(&format!("flows-{number}.csv"));
        assert_eq!(fs::read_to_string(&file)?.lines().count(), 5, "{}", file.display());
    }
    let streams = lab.file("streams.json");
    fs::write(&streams, r#"[{"dst": "198.18.0.2"}]"#)?;
    wirerate_run(&format!("{words} -- --streams {}", streams.display()))
        .expect_code(2)
        .says(&["frames of --streams have the addresses of one direction"]);
    assert!(!lab.has_xdp());
    Ok(())
}

/// Every engine writes flow and number; threads have flows of their own.
fn flows_of_several_threads() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let measure = |send: &str| {
        let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
        let devices = format!("--tx {TX_DEV} --tx-netns {tx} --rx {RX_DEV} --rx-netns {rx}");
        let words = format!("measure {devices} --json --expect lost=0 -- {send}");
        report(&measured_without_errors(&words).stdout)
    };
    let kinds = ["unique", "flows", "missing", "reordered", "stale", "damaged"];
    for engine in ["xdp", "skb", "af_packet", "af_xdp --queues cpu"] {
        let ports = "--dst 198.18.0.2 --udp-dst 1000-1015 --udp-checksum --count 20k";
        let full = measure(&format!("--size 74 {ports} --threads 2 --engine {engine}"));
        assert_eq!(counts(&full, kinds), [20_000, 32, 0, 0, 0, 0], "{engine}");
        let short = measure(&format!("--size 60 {ports} --threads 2 --engine {engine}"));
        assert_eq!(counts(&short, kinds), [20_000, 2, 0, 0, 0, 0], "{engine}");
        let rows = "--dst 198.18.0.2 --flows 16 --flow-len 7 --size 74 --count 20k";
        let rows = measure(&format!("{rows} --threads 2 --engine {engine}"));
        assert_eq!(counts(&rows, kinds), [20_000, 32, 0, 0, 0, 0], "{engine}");
    }
    let table =
        measure("--size 74 --flows 64 --flow-len 3 --random flow,dst --dst 198.18.0.0/24 --count 20k");
    assert_eq!(counts(&table, ["unique", "flows", "missing"]), [20_000, 64, 0]);
    Ok(())
}

/// A receiver that is alone has space for the flows of the frames.
fn frames_of_another_run_are_stale() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let full = "--size 74 --udp-dst 1-1000 --signature full";
    let report = run_without_errors(|| {
        let running = receive(&lab, 2000, "--run 6 --json");
        let errors =
            send(&lab, 1000, &format!("{full} --run 5")) + send(&lab, 2000, &format!("{full} --run 6"));
        (report(&running.wait(TIME_LIMIT).expect_code(0).stdout), errors)
    });
    let kinds = ["unique", "stale", "flows", "missing", "duplicate", "damaged"];
    assert_eq!(counts(&report, kinds), [2000, 1000, 1000, 0, 0, 0]);
    Ok(())
}

/// Without a count, a duration or a signal; for a lossy way as well, and for each engine of the
/// sender.
fn ends_with_the_sender() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (more, expect) in [
        ("--signature full --size 74 --udp-dst 1-7 --threads 2", [1000, 0, 14]),
        ("--signature short --udp-checksum --vlan 5 --size 64", [1000, 0, 1]),
        ("--end-frames 3 --clone-skb 2", [500, 0, 1]),
        ("--tcp --signature mark --size 90", [1000, 0, 1]),
        ("--tcp --signature mark --size 90 --clone-skb 4", [250, 0, 1]),
        ("--icmp echo --signature full --size 90 --clone-skb 2", [500, 0, 1]),
    ] {
        let report = run_without_errors(|| {
            let running = receive(&lab, 0, "--json --expect lost=0");
            let errors = send(&lab, 1000, more);
            (report(&running.wait(TIME_LIMIT).expect_code(0).stdout), errors)
        });
        assert_eq!(counts(&report, ["unique", "foreign", "flows"]), expect, "{more}: {report}");
        assert_eq!(counts(&report["loss"], ["sent", "lost_max"]), [expect[0], 0], "{more}");
    }
    // A sender of another run does not end this one.
    let running = receive(&lab, 0, "--run 6 --json");
    send(&lab, 10, "--signature full --run 5 --size 74");
    send(&lab, 20, "--signature full --run 6 --size 74");
    let report = report(&running.wait(TIME_LIMIT).expect_code(0).stdout);
    assert_eq!(counts(&report, ["unique"]), [20]);
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --end-frames 1", lab.tx_netns);
    wirerate_run(&format!("{words} --xmit-mode netif_receive"))
        .expect_code(2)
        .says(&["\n  try: --end-frames 0\n"]);
    Ok(())
}

/// 100, 200 and 300 frames per second, 300 ms each; the last frame is due at the end.
fn ramp_sends_its_sum() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
    let devices = format!("--tx {TX_DEV} --tx-netns {tx} --rx {RX_DEV} --rx-netns {rx}");
    let words = format!("measure {devices} --json --expect lost=0 -- --dst 198.18.0.2");
    // The count decides when the run ends, however late a loaded machine is.
    let outcome = wirerate_run(&format!("{words} --ramp 100..300/900ms/3 --count 180 --catch-up max"));
    let sent: Value = serde_json::from_str(outcome.stdout.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&sent["sent"], &sent["asked_pps"]), (&180.into(), &200.0.into()), "{sent}");
    // 30 + 60 + 90 frames: frame 179 is due after 600 ms and 89 / 300 s.
    assert!(sent["duration_ns"].as_u64() >= Some(896_000_000), "{sent}");
    assert_eq!(counts(&report(&outcome.stdout), ["unique", "missing"]), [180, 0]);
    Ok(())
}

/// For each level of the signature.
fn tshark_reads_the_same() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for level in ["pktgen", "short", "full"] {
        let file = lab.file(&format!("{level}.pcapng"));
        let words = format!(
            "send lo --dst-mac 02:00:00:00:00:01 --signature {level} --udp-dst 9-11 --run 77 --dry-run=7 --json --write {}",
            file.display()
        );
        let words = if level == "full" { words } else { words.replace(" --run 77", "") };
        let outcome = wirerate_run(&words).expect_code(0);
        let fields = ["pktgen.seqnum", "pktgen.tvsec", "pktgen.tvusec", "data.data"];
        let rows = tshark(&file, "pktgen", &fields);
        assert_eq!(rows.len(), 7, "{level}: {rows:?}");
        for (row, line) in rows.iter().zip(outcome.stdout.lines()) {
            let frame: Value = serde_json::from_str(line).expect("JSON");
            let [seq_num, sec, usec] = counts(&frame, ["seq_num", "tv_sec", "tv_usec"]);
            let row: Vec<&str> = row.split(' ').collect();
            let read: Vec<u64> = row[..3].iter().map(|field| number(field)).collect();
            assert_eq!(read, [seq_num, sec, usec], "{level}: {row:?}");
            if level == "full" {
                let [flow, place, run] = counts(&frame, ["flow", "flow_number", "run"]);
                let rest = row[3].replace(':', "");
                // Behind nanoseconds and tag: flow, the number's lower and upper part, run.
                let hex = |at: std::ops::Range<usize>| u64::from_str_radix(&rest[at], 16).expect("hex");
                assert_eq!([hex(8..16), hex(16..24), hex(24..28), hex(28..32)], [flow, place, 0, run]);
            }
        }
    }
    // A mark is the last 18 bytes of what tshark shows as data.
    let file = lab.file("mark.pcapng");
    let words = format!(
        "send lo --dst 198.18.0.2 --dst-mac 02:00:00:00:00:01 --udp-dst 9-11 --payload 0x{} --signature mark \
         --run 77 --dry-run=7 --json --write {}",
        "00".repeat(48),
        file.display()
    );
    let outcome = wirerate_run(&words).expect_code(0);
    let rows = tshark(&file, "data", &["data.data"]);
    assert_eq!(rows.len(), 7, "{rows:?}");
    for (row, line) in rows.iter().zip(outcome.stdout.lines()) {
        let frame: Value = serde_json::from_str(line).expect("JSON");
        let data = row.replace(':', "");
        let hex = |from: usize, to: usize| {
            u64::from_str_radix(&data[data.len() - 36..][from..to], 16).expect("hexadecimal digits")
        };
        let mark = counts(&frame["mark"], ["flow", "run", "flow_number", "time_ns"]);
        assert_eq!([hex(8, 12), hex(12, 16), hex(16, 24), hex(24, 36)], mark, "{data}");
        assert_eq!((hex(0, 8), mark[1]), (0x5752_4f54, 77), "{data}");
    }
    Ok(())
}

/// tshark prints some numbers in hexadecimal.
fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}

fn prints_a_row_each_second() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = receive(&lab, 0, "--csv");
    send(&lab, 1000, "");
    running.until_it_prints("time,elapsed_s,received,rate_pps,missing,duplicate,reordered,too_old,");
    running.until_it_prints(",1000,0,0,0,0,0,");
    running.signal(Signal::SIGINT);
    running.wait(TIME_LIMIT).expect_code(0).says(&["1,000 frames received in "]);
    // `capture` prints rows on request, and `receive` printed them unasked.
    for (words, lines) in [("--duration 1100ms --json", 1), ("--duration 1100ms --json --every-second", 2)] {
        let text = receive(&lab, 0, words).wait(TIME_LIMIT).expect_code(0).stdout;
        assert!(text.lines().count() == lines || (lines == 2 && text.lines().count() > 2), "{words}: {text}");
    }
    Ok(())
}
