//! What a newcomer types in the first hour, and the answers: each is a way that works.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{run, wirerate, wirerate_run};
use crate::{Case, TestResult, case};
use serde_json::Value;

pub(crate) const CASES: &[Case] = &[
    case("first_hour::no_advice_detaches_the_program_of_another_owner", &[], foreign_program),
    case("first_hour::a_device_that_is_missing_is_looked_for_in_its_namespace", &[], missing_device),
    case("first_hour::replay_answers_a_file_before_the_device_and_a_missing_cpu", &[], replay_mistakes),
    case("first_hour::a_namespace_follows_the_device_of_measure", &[], measure_devices),
    case("first_hour::every_command_takes_a_device_with_its_namespace", &[], device_at_netns),
    case("first_hour::a_namespace_that_is_missing_is_answered_with_those_there", &[], missing_netns),
];

/// `send tx0@tx` and `send tx0@if2`, pasted from `ip link`, said that there was no such device.
fn device_at_netns() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
    let file = lab.file("x.pcapng");
    let file = file.display();
    let frames = "--dst 198.18.0.2 --dst-mac 02:00:00:00:00:02 --count 5";
    wirerate_run(&format!("send tx0 {frames} --dry-run=5 --write {file}")).expect_code(0);
    let index = |netns: &str, device: &str| {
        let link: Value = serde_json::from_str(&run(&["ip", "-n", netns, "-j", "link", "show", device]))
            .expect("ip prints JSON");
        link[0]["ifindex"].as_u64().expect("a device has a number")
    };
    let (tx_index, rx_index) = (index(tx, TX_DEV), index(rx, RX_DEV));
    for words in [
        format!("send {TX_DEV}@{tx} {frames}"),
        format!("send {TX_DEV}@/run/netns/{tx} {frames}"),
        // As `ip link` prints it.
        format!("send {TX_DEV}@if{rx_index} --netns {tx} {frames}"),
        // The namespace of the device wins.
        format!("send {TX_DEV}@{tx} --netns {rx} {frames}"),
        format!("send {TX_DEV}@{tx} --dry-run {frames}"),
        format!("replay {TX_DEV}@{tx} {file} --dst-mac 02:00:00:00:00:02"),
        format!("replay {TX_DEV} {file} --netns {tx} --verify {RX_DEV}@{rx}"),
        format!("tcpreplay -i {TX_DEV}@{tx} {file}"),
        format!("capture {RX_DEV}@{rx} --duration 1ms"),
        format!("capture -i {RX_DEV}@if{tx_index} --netns {rx} --duration 1ms udp port 9"),
        format!("capture {RX_DEV}@{rx} lo@{rx} --duration 1ms udp port 9"),
        format!("count {RX_DEV}@{rx} --duration 1ms udp port 9"),
        format!("sink {RX_DEV}@{rx} --duration 1ms"),
        format!("receive {RX_DEV}@{rx} --duration 1ms"),
        format!("reflect {RX_DEV}@{rx} --duration 1ms"),
        format!("doctor {TX_DEV}@{tx}"),
        format!("timestamp {TX_DEV}@{tx} show"),
        format!("mgdump {RX_DEV}@{rx} --duration 1ms --write {file}"),
        format!("measure --netns {tx} --tx {TX_DEV} --rx {RX_DEV}@{rx} -- {frames}"),
        format!("measure --netns {tx} --tx {TX_DEV}@if{rx_index} --rx {RX_DEV}@{rx} -- {frames}"),
    ] {
        wirerate_run(&words).expect_code(0);
    }
    // Another number is no peer's, and no namespace has that name.
    wirerate_run(&format!("send {TX_DEV}@if999 --netns {tx} {frames}"))
        .expect_code(3)
        .says(&["there is no network namespace named if999"]);
    wirerate_run(&format!("capture {RX_DEV}@{rx} {TX_DEV}@{tx} --duration 1ms"))
        .expect_code(2)
        .says(&["the devices of a capture are in one network namespace"]);
    let trafgen = wirerate()
        .args(["trafgen", "{ eth(da=02:00:00:00:00:02), ipv4(), udp() }", "-n", "3", "-o"])
        .arg(format!("{TX_DEV}@{tx}"))
        .output()
        .expect("the program starts");
    assert!(trafgen.status.success(), "{}", String::from_utf8_lossy(&trafgen.stderr));
    wirerate_run(&format!("ctl {RX_DEV}@{rx} stats")).expect_code(3).says(&[RX_DEV]);
    Ok(())
}

fn missing_netns() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for words in [
        "send tx0@nowhere --dst 198.18.0.2",
        "send tx0 --netns nowhere --dst 198.18.0.2",
        "send tx0@nowhere --dst 198.18.0.2 --dry-run",
        "replay tx0@nowhere x.pcap",
        "capture rx0@nowhere",
        "count rx0@nowhere",
        "receive rx0@nowhere",
        "reflect rx0@nowhere",
        "doctor tx0@nowhere",
        "timestamp tx0@nowhere",
        "ctl tx0@nowhere stats",
        "mgdump tx0@nowhere",
        "measure --tx tx0@nowhere --rx RX -- --dst 198.18.0.2",
        "search --tx tx0@nowhere --rx RX -- --dst 198.18.0.2",
        "rfc2544 --tx tx0@nowhere --rx RX -- --dst 198.18.0.2",
    ] {
        let rx = format!("{RX_DEV}@{}", lab.rx_netns);
        let refused = wirerate_run(&words.replace("RX", &rx)).expect_code(3);
        refused.says(&["there is no network namespace named nowhere", "existing: ", &lab.tx_netns]);
    }
    Ok(())
}

/// `doctor` advised `xdp off`, which could take off a firewall, and `receive` an option that only
/// `capture` has.
fn foreign_program() -> TestResult {
    let lab = Lab::new(Peer::Sink);
    let rx = format!("{RX_DEV} --netns {}", lab.rx_netns);
    for (words, code) in [("capture --mode drop", 3), ("count", 3), ("sink", 3), ("receive", 3)] {
        let refused = wirerate_run(&format!("{words} {rx} --duration 1s")).expect_code(code);
        refused.says(&["already runs the XDP program", "try: `bpftool prog show id "]);
        // `receive` has packet sockets as well.
        let has_source = refused.stderr.contains("--source tpacket");
        assert_eq!(has_source, words == "receive", "{words}: {}", refused.stderr);
        assert!(!refused.stderr.contains("xdp off"), "{words}: {}", refused.stderr);
    }
    let doctor = wirerate_run(&format!("doctor {rx} --all"));
    assert!(doctor.stdout.contains("bpftool prog show id "), "{}", doctor.stdout);
    assert!(!doctor.stdout.contains("xdp off"), "{}", doctor.stdout);
    Ok(())
}

/// `capture`, `count` and `receive` advised `ip link`, which lists the devices of another
/// namespace.
fn missing_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let netns = &lab.rx_netns;
    for words in ["capture", "capture -i", "count", "sink", "receive", "doctor", "replay"] {
        let file = if words == "replay" { "x.pcap" } else { "" };
        let refused = wirerate_run(&format!("{words} rx7 --netns {netns} {file}")).expect_code(3);
        refused.says(&[
            &format!("there is no device rx7 in namespace {netns}"),
            &format!("try: `ip -n {netns} link`"),
        ]);
    }
    Ok(())
}

fn replay_mistakes() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (file, netns) = (lab.file("x.pcapng"), &lab.tx_netns);
    let file = file.display();
    wirerate_run(&format!(
        "send {TX_DEV} --dst 198.18.0.2 --dst-mac 02:00:00:00:00:02 --dry-run=5 --write {file}"
    ))
    .expect_code(0);
    let refused = wirerate_run(&format!("replay {file} {TX_DEV} --netns {netns}")).expect_code(2);
    refused
        .says(&["the device comes first", &format!("try: wirerate replay {TX_DEV} {file} --netns {netns}")]);
    let refused = wirerate_run(&format!("replay {TX_DEV} {file} --netns {netns} --cpus 999")).expect_code(3);
    refused.says(&["cannot send from CPU 999", "try: --cpus "]);
    assert_eq!(lab.received_at_last(0), 0, "nothing was sent before the CPU was refused");
    wirerate_run(&format!("replay --netns {netns} -i {TX_DEV} {file}")).expect_code(0);
    assert_eq!(lab.received_at_last(5), 5);
    Ok(())
}

fn measure_devices() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let devices = format!("--tx {TX_DEV}@{} --rx {RX_DEV}@{}", lab.tx_netns, lab.rx_netns);
    let send = "--dst 198.18.0.2 --dst-mac 02:00:00:00:00:02 --count 100";
    let measured = wirerate_run(&format!("measure {devices} -- {send}")).expect_code(0);
    assert!(measured.stdout.contains("lost            0") || measured.stdout.contains("lost         0"));
    wirerate_run(&format!("measure {send} {devices} --allow-default-route -q -J")).expect_code(0);
    Ok(())
}
