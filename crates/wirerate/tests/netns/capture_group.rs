//! `wirerate capture` on a group of devices, which others join and leave while it runs.

use crate::capture_runs::{adds_up, number, text};
use crate::lab::{Lab, Peer};
use crate::program::{Outcome, Running, TIME_LIMIT, run, wirerate, wirerate_run, wirerate_start};
use crate::readers::{packet_count, tshark};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Tests of groups.
pub(crate) const CASES: &[Case] = &[
    case("capture_group::devices_that_appear_are_captured_from_their_first_frame", &["tshark"], appear),
    case("capture_group::devices_that_come_and_go_lose_no_frame", &["tshark"], come_and_go),
    case("capture_group::each_kind_of_output_has_the_devices_that_appeared", &["tshark", "zstd"], outputs),
    case("capture_group::a_pattern_takes_its_devices_only", &["tshark"], pattern),
    case("capture_group::a_pcap_file_says_which_device_it_cannot_hold", &["tshark"], pcap),
    case("capture_group::ip_broadcast_follows_the_networks_of_devices", &["tshark"], broadcast),
    case("capture_group::the_loopback_device_shows_each_frame_once", &["tshark", "ping"], both_directions),
];

/// Starts a capture in the namespace of the receiver.
fn capture(lab: &Lab, word: &str, words: &[&str]) -> Running {
    let mut command = wirerate();
    command.args(["capture", word, "--netns", &lab.rx_netns, "--json"]).args(words);
    let running = Running::start(command);
    running.until_it_says("and those that appear later");
    running
}

/// Ends a capture; every frame has one fate.
#[track_caller]
fn end(running: Running) -> Outcome {
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    adds_up(&outcome);
    assert_eq!(number(&outcome, "lost"), 0, "{}", outcome.stdout);
    outcome
}

/// A new device of the receiver, and its other end.
fn appear_as(lab: &Lab, name: &str) {
    appear_with(lab, name, &[]);
}

/// A new device of the receiver, and its other end, made with `options` of `ip link add`.
fn appear_with(lab: &Lab, name: &str, options: &[&str]) {
    let peer = format!("p-{name}");
    let (rx, tx) = (&lab.rx_netns, &lab.tx_netns);
    let kind = ["type", "veth", "peer", "name", &peer, "netns", tx];
    run(&[&["ip", "link", "add", name, "netns", rx], options, &kind].concat());
    run(&["ip", "-n", rx, "link", "set", name, "up"]);
    run(&["ip", "-n", tx, "link", "set", &peer, "up"]);
}

fn disappear(lab: &Lab, name: &str) {
    run(&["ip", "-n", &lab.rx_netns, "link", "delete", name]);
}

/// Sends frames to a device of the receiver.
#[track_caller]
fn send_to(lab: &Lab, name: &str, count: u32, words: &str) {
    let netns = &lab.tx_netns;
    let to = if words.contains("--dst-mac") { "" } else { "--dst-mac 02:00:00:00:00:99" };
    wirerate_run(&format!("send p-{name} --netns {netns} --engine skb {to} --count {count} {words}"))
        .expect_code(0);
}

/// UDP frames of each interface.
fn by_interface(path: &Path) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in tshark(path, "udp", &["frame.interface_name"]) {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn counted<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn appear() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("any.pcapng");
    let running = capture(&lab, "any", &["-w", text(&file), "udp"]);
    appear_as(&lab, "new0");
    send_to(&lab, "new0", 20, "");
    running.until_it_says("new0 appeared and is captured, too");
    // With another address and under another name it is the same device.
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "new0", "address", "02:00:00:00:00:77"]);
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "new0", "name", "renamed"]);
    send_to(&lab, "new0", 3, "");
    disappear(&lab, "renamed");
    running.until_it_says("new0 went away");
    // Another device of the same name is another interface, even with the same number.
    appear_with(&lab, "new0", &["index", "900"]);
    send_to(&lab, "new0", 2, "");
    disappear(&lab, "new0");
    running.until_it_says("new0 went away");
    appear_with(&lab, "new0", &["index", "900"]);
    send_to(&lab, "new0", 5, "");
    // Another capture on one of its devices takes nothing from `ctl any`.
    let other = wirerate_start(&format!("capture new0 --netns {}", lab.rx_netns));
    other.until_it_says("capturing on new0");
    for (word, code) in [("any", 0), ("new0", 0)] {
        wirerate_run(&format!("ctl {word} --netns {} stats", lab.rx_netns)).expect_code(code);
    }
    other.signal(Signal::SIGINT);
    other.wait(TIME_LIMIT).expect_code(0);
    assert_eq!(number(&end(running), "written"), 30);
    assert_eq!(by_interface(&file), counted([("new0", 30)]));
    let numbers = tshark(&file, "udp", &["frame.interface_id"]);
    let mut counts = BTreeMap::<&String, usize>::new();
    numbers.iter().for_each(|number| *counts.entry(number).or_default() += 1);
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [23, 2, 5], "{numbers:?}");
    Ok(())
}

fn come_and_go() -> TestResult {
    const ROUNDS: u64 = 12;
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("any.pcapng");
    let running = capture(&lab, "any", &["-w", text(&file), "--rotate-size", "10kB", "udp"]);
    for round in 0..ROUNDS {
        let name = format!("gone{round}");
        appear_as(&lab, &name);
        send_to(&lab, &name, 10, "");
        disappear(&lab, &name);
    }
    let outcome = end(running);
    assert_eq!(number(&outcome, "written"), 10 * ROUNDS);
    let files = number(&outcome, "files");
    assert!(files > 1, "{files} files");
    let mut all = BTreeMap::<String, usize>::new();
    for number in 1..=files {
        let file = lab.file(&format!("any_{number:05}.pcapng"));
        by_interface(&file).into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
    }
    let expected: BTreeMap<_, _> = (0..ROUNDS).map(|round| (format!("gone{round}"), 10)).collect();
    assert_eq!(all, expected);
    Ok(())
}

fn outputs() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (name, words) in [
        ("x.pcapng.zst", &[][..]),
        ("x.pcapng.lz4", &[]),
        ("x.pcapng", &["--per-cpu"]),
        ("saved.pcapng", &["--keep", "30s", "--trigger", "udp dst port 77", "--after", "30s"]),
    ] {
        let file = lab.file(name);
        let running = capture(&lab, "any", &[&["-w", text(&file), "udp"], words].concat());
        appear_as(&lab, "new0");
        send_to(&lab, "new0", 6, "--dst-port 77");
        let outcome = end(running);
        disappear(&lab, "new0");
        assert_eq!(number(&outcome, "written"), 6, "{name}");
        let numbered = |end: &str| lab.file(&format!("{}_{end}.pcapng", name.split('.').next().unwrap()));
        let files = match words.first() {
            Some(&"--per-cpu") => [0, 1].map(|ring| numbered(&ring.to_string())).to_vec(),
            Some(_) => vec![numbered("00001")],
            None => vec![file],
        };
        let mut all = BTreeMap::<String, usize>::new();
        for file in &files {
            by_interface(file).into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
        }
        assert_eq!(all, counted([("new0", 6)]), "{name}");
    }
    // Several outputs, with a filter each.
    let files = ["a.pcapng", "b.pcapng"].map(|name| lab.file(name));
    let [a, b] = files.each_ref().map(|file| text(file));
    let running = capture(&lab, "any", &["-w", a, "-f", "udp dst port 77", "-w", b, "-f", "udp dst port 78"]);
    appear_as(&lab, "new0");
    send_to(&lab, "new0", 3, "--dst-port 77");
    send_to(&lab, "new0", 4, "--dst-port 78");
    end(running);
    assert_eq!(
        files.each_ref().map(|file| by_interface(file)),
        [3, 4].map(|count| counted([("new0", count)]))
    );
    Ok(())
}

fn pattern() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("some.pcapng");
    appear_as(&lab, "some1");
    appear_as(&lab, "other1");
    let running = capture(&lab, "some*", &["-w", text(&file)]);
    for name in ["some2", "other2"] {
        appear_as(&lab, name);
    }
    for name in ["some1", "other1", "some2"] {
        send_to(&lab, name, 5, "");
    }
    // A device whose name begins to match belongs to them from then on.
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "other2", "name", "some3"]);
    running.until_it_says("some3 appeared");
    send_to(&lab, "other2", 2, "");
    // The kernel turned the frames of this one away from the start.
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "other1", "name", "some4"]);
    running.until_it_says("some4 appeared");
    send_to(&lab, "other1", 4, "");
    end(running);
    let expected = counted([("some1", 5), ("some2", 5), ("some3", 2), ("some4", 4)]);
    assert_eq!(by_interface(&file), expected);
    Ok(())
}

fn pcap() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("any.pcap");
    let running = capture(&lab, "any", &["-w", text(&file), "udp"]);
    appear_as(&lab, "new0");
    run(&["ip", "-n", &lab.rx_netns, "tuntap", "add", "tun9", "mode", "tun"]);
    running.until_it_says("tun9 is not captured: a device with another kind of frames");
    send_to(&lab, "new0", 5, "");
    end(running);
    assert_eq!(packet_count(&file), 5);
    // Also if it is there from the start.
    let file = lab.file("again.pcap");
    let running = capture(&lab, "any", &["-w", text(&file), "udp"]);
    running.until_it_says("tun9 is not captured");
    send_to(&lab, "new0", 3, "");
    end(running);
    assert_eq!(packet_count(&file), 3);
    // A trigger that fits one kind of frames only.
    let file = lab.file("hit.pcapng");
    let words = ["-w", text(&file), "--keep", "30s", "--trigger", "ether dst 02:00:00:00:00:99", "udp"];
    let running = capture(&lab, "any", &words);
    for saved in ["file 1 is saved", "file 2 is saved"] {
        send_to(&lab, "new0", 1, "--dst-mac 02:00:00:00:00:98");
        send_to(&lab, "new0", 1, "");
        running.until_it_says(saved);
    }
    end(running);
    // Statistics count from the start of the capture.
    let bytes = fs::read(lab.file("hit_00002.pcapng"))?;
    let (mut reader, mut delivered) = (pcapng::Reader::new(&bytes[..]), 0);
    while let Some(block) = reader.next_block()? {
        if let pcapng::Block::Statistics(statistics) = block {
            delivered += statistics.delivered.unwrap_or(0);
        }
    }
    assert_eq!(delivered, 4);
    // A pcapng file holds both kinds.
    let file = lab.file("any.pcapng");
    let running = capture(&lab, "any", &["-w", text(&file)]);
    run(&["ip", "-n", &lab.rx_netns, "link", "delete", "tun9"]);
    run(&["ip", "-n", &lab.rx_netns, "tuntap", "add", "tun8", "mode", "tun"]);
    running.until_it_says("tun8 appeared and is captured, too");
    end(running);
    Ok(())
}

fn broadcast() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("any.pcapng");
    let running = capture(&lab, "any", &["-w", text(&file), "ip broadcast"]);
    appear_as(&lab, "new0");
    // Without a network, only what is broadcast everywhere.
    let everywhere = "--dst 255.255.255.255 --dst-mac ff:ff:ff:ff:ff:ff --src 198.18.7.1";
    send_to(&lab, "new0", 2, everywhere);
    run(&["ip", "-n", &lab.rx_netns, "address", "add", "198.18.7.1/28", "dev", "new0"]);
    // Networks are asked for each second.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    send_to(&lab, "new0", 3, "--dst 198.18.7.15 --dst-mac ff:ff:ff:ff:ff:ff --src 198.18.7.2");
    send_to(&lab, "new0", 9, "--dst 198.18.7.9 --dst-mac 02:00:00:00:00:99 --src 198.18.7.2");
    let outcome = end(running);
    assert!(number(&outcome, "filtered") >= 9, "{}", outcome.stdout);
    assert_eq!(by_interface(&file), counted([("new0", 5)]));
    Ok(())
}

fn both_directions() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "lo", "up"]);
    let file = lab.file("any.pcapng");
    let running = capture(&lab, "any", &["-Q", "inout", "-w", text(&file), "icmp or udp"]);
    run(&["ip", "netns", "exec", &lab.rx_netns, "ping", "-c", "1", "127.0.0.1"]);
    appear_as(&lab, "new0");
    send_to(&lab, "new0", 4, "");
    end(running);
    let names = tshark(&file, "icmp", &["frame.interface_name"]);
    assert_eq!(names, ["lo", "lo"], "a request and its answer");
    assert_eq!(by_interface(&file), counted([("new0", 4)]));
    Ok(())
}
