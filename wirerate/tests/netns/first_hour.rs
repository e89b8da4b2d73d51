//! What a newcomer types in the first hour, and the answers: each is a way that works.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::wirerate_run;
use crate::{Case, TestResult, case};

pub(crate) const CASES: &[Case] = &[
    case("first_hour::no_advice_detaches_the_program_of_another_owner", &[], foreign_program),
    case("first_hour::a_device_that_is_missing_is_looked_for_in_its_namespace", &[], missing_device),
    case("first_hour::replay_answers_a_file_before_the_device_and_a_missing_cpu", &[], replay_mistakes),
    case("first_hour::a_namespace_follows_the_device_of_measure", &[], measure_devices),
];

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
    let refused = wirerate_run(&format!("measure {devices} {send}")).expect_code(2);
    refused.says(&["options of send follow `--`", &format!("try: wirerate measure {devices} -- {send}")]);
    Ok(())
}
