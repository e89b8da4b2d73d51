//! `replay` while links go down, into the receive path of this host, and in order over two devices.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::replay::{add_second_pair, captured, command, file, file_of, replay};
use crate::send::number;
use crate::{Case, TestResult, case};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    case("replay::goes_on_when_the_link_is_back", &[], goes_on_when_the_link_is_back),
    case("replay::waits_for_the_link_at_top_speed", &[], waits_for_the_link_at_top_speed),
    case("replay::one_link_that_is_down_does_not_stop_the_other", &[], one_link_of_two_is_down),
    case("replay::the_stack_of_this_host_receives_the_file", &[], host_receives),
    case("replay::sysctls_are_named_if_the_stack_drops_all", &[], host_drops_all),
    case("replay::two_devices_keep_the_order_at_top_speed", &[], order_at_top_speed),
];

/// Sets the receiver's end up or down, which takes the carrier of the sender away.
fn set_far_link(lab: &Lab, state: &str) {
    run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, state]);
}

/// Frames of one cause of errors.
fn cause(report: &Value, name: &str) -> u64 {
    let causes = report["error_causes"].as_array().expect("a list");
    causes.iter().find(|cause| cause["cause"] == name).map_or(0, |cause| number(cause, "count"))
}

fn goes_on_when_the_link_is_back() -> TestResult {
    for engine in ["skb", "af_packet", "xdp"] {
        let lab = Lab::new(Peer::Gro);
        let path = file(&lab, 3000, 1_000_000);
        let words = format!("--engine {engine}");
        let running = wirerate_start(&command(&lab, &path, &format!("{words} --keep-going")));
        until("it sends", || lab.received() > 100);
        set_far_link(&lab, "down");
        std::thread::sleep(Duration::from_millis(500));
        set_far_link(&lab, "up");
        let report = crate::replay::report(&running.wait(TIME_LIMIT).expect_code(1));
        let (sent, no_carrier) = (number(&report, "sent"), cause(&report, "no_carrier"));
        assert_eq!((number(&report, "read"), &report["end"]), (3000, &"done".into()), "{report}");
        assert_eq!(sent + number(&report, "errors"), 3000, "{report}");
        assert!((400..2_700).contains(&no_carrier) && sent > 200, "{report}");
        // The due times are kept: the file is over when it is over.
        let duration_ns = number(&report, "duration_ns");
        assert!((2_990_000_000..4_000_000_000).contains(&duration_ns), "{report}");
        let longest_ns = number(&report["interruptions"], "longest_ns");
        assert!((400_000_000..2_800_000_000).contains(&longest_ns), "{report}");
        assert_eq!(number(&report["interruptions"], "times"), 1, "{report}");
        // Without the option such a device ends the run.
        let running = wirerate_start(&command(&lab, &path, &words));
        let received = lab.received();
        until("it sends", || lab.received() > received + 100);
        set_far_link(&lab, "down");
        let report = crate::replay::report(&running.wait(TIME_LIMIT).expect_code(1));
        assert_eq!((&report["end"], cause(&report, "no_carrier")), (&"failed".into(), 0), "{report}");
    }
    Ok(())
}

/// Without due times no frame is due while the link is down, so none is left out.
fn waits_for_the_link_at_top_speed() -> TestResult {
    for engine in ["skb", "af_packet", "xdp"] {
        let lab = Lab::new(Peer::Gro);
        let path = file(&lab, 100, 1000);
        let words = format!("--speed top --loop 0 --duration 3s --keep-going --engine {engine}");
        let running = wirerate_start(&command(&lab, &path, &words));
        until("it sends", || lab.received() > 100);
        set_far_link(&lab, "down");
        std::thread::sleep(Duration::from_millis(500));
        let received = lab.received();
        set_far_link(&lab, "up");
        until("it sends again", || lab.received() > received + 100);
        let report = crate::replay::report(&running.wait(TIME_LIMIT));
        assert_eq!((&report["end"], cause(&report, "no_carrier")), (&"done".into(), 0), "{report}");
        assert_eq!(number(&report["interruptions"], "times"), 1, "{report}");
        assert!(number(&report["interruptions"], "longest_ns") > 400_000_000, "{report}");
        // A sender that went on without the ring being flushed counted frames that never left.
        let most = number(&report, "sent") / 10 * 9;
        assert!(lab.received_at_last(most) >= most, "{} received: {report}", lab.received());
    }
    Ok(())
}

fn one_link_of_two_is_down() -> TestResult {
    for engine in ["xdp", "af_packet"] {
        let lab = Lab::new(Peer::Gro);
        let path = file(&lab, 2000, 1_000_000);
        add_second_pair(&lab);
        let split = "--other tx1 --split sources=10.0.0.0/24";
        let words = format!("{split} --keep-going --engine {engine}");
        let running = wirerate_start(&command(&lab, &path, &words));
        until("it sends", || lab.received() > 100);
        run(&["ip", "-n", &lab.tx_netns, "link", "set", "rx1", "down"]);
        let report = crate::replay::report(&running.wait(TIME_LIMIT).expect_code(1));
        // The first device sends all of its 1000 frames, the other one up to that time.
        let (sent, sent_other) = (number(&report, "sent"), number(&report, "sent_other"));
        assert_eq!((sent + number(&report, "errors"), &report["end"]), (2000, &"done".into()), "{report}");
        assert!((1_050..1_950).contains(&sent) && sent_other < 950, "{report}");
        assert!(cause(&report, "no_carrier") > 50, "{report}");
        assert_eq!(lab.received_at_last(1000), 1000, "{report}");
        let interruptions = &report["interruptions"];
        assert_eq!((number(interruptions, "times"), number(interruptions, "longest_ns")), (1, 0), "{report}");
    }
    Ok(())
}

/// UDP packets that the stack of the sender's namespace has delivered, to a port without a socket.
fn delivered(lab: &Lab) -> u64 {
    let text = run(&["ip", "netns", "exec", &lab.tx_netns, "cat", "/proc/net/snmp"]);
    let mut udp = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let place = udp.next().and_then(|names| names.split(' ').position(|name| name == "NoPorts"));
    let numbers: Vec<&str> = udp.next().expect("numbers of UDP").split(' ').collect();
    numbers[place.expect("a count of closed ports")].parse().unwrap()
}

/// UDP packets for `tx0` of the lab, or another address.
fn udp_file(lab: &Lab, count: u64, src: [u8; 4], dst: [u8; 4], dst_mac: [u8; 6]) -> PathBuf {
    file_of(lab, count, 1000, |number| {
        let mut out = Vec::new();
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], dst_mac);
        builder.ipv4(src, dst, 64).udp(number as u16, 9).write(&mut out, &[0; 18]).unwrap();
        out
    })
}

fn host_receives() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    run(&["ip", "-n", &lab.tx_netns, "route", "replace", "198.18.0.0/24", "dev", TX_DEV]);
    let path = udp_file(&lab, 200, [198, 18, 0, 9], [198, 18, 0, 1], [2, 0, 0, 0, 0, 1]);
    let receive = "--xmit-mode netif_receive";
    for words in ["", "--speed top --loop 3", "--engine skb --pps 10k"] {
        let before = delivered(&lab);
        let report = replay(&lab, &path, &format!("{receive} {words}"));
        assert_eq!((&report["engine"], &report["notes"]), (&"skb".into(), &Value::Array(vec![])), "{report}");
        let sent = number(&report, "sent");
        until("the stack has all", || delivered(&lab) - before == sent);
    }
    // The stack looks for the neighbour that gets its ICMP errors; the frames do not leave.
    assert!(lab.received() < 20, "{}", lab.received());
    for (words, reason) in [
        ("--engine xdp", "netif_receive in a replay: the skb engine does"),
        ("--engine af_packet", "netif_receive: a socket only sends"),
        ("--threads 2", "by skb: it has one thread"),
    ] {
        let outcome = wirerate_run(&command(&lab, &path, &format!("{receive} {words}")));
        outcome.says(&[reason]);
        assert!(outcome.code >= Some(2), "{words}: {:?}", outcome.code);
    }
    Ok(())
}

fn host_drops_all() -> TestResult {
    let lab = Lab::new(Peer::Deaf);
    let local = udp_file(&lab, 10, [127, 0, 0, 1], [127, 0, 0, 1], [2, 0, 0, 0, 0, 1]);
    let receive = "--xmit-mode netif_receive";
    let text = replay(&lab, &local, receive)["notes"].to_string();
    // The commands of the note are those that help.
    let commands: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    assert!(text.contains("accept_local=1") && text.contains("route_localnet=1"), "{text}");
    for command in commands {
        run(&command.split(' ').collect::<Vec<_>>());
    }
    let before = delivered(&lab);
    assert_eq!(replay(&lab, &local, receive)["notes"], Value::Array(vec![]));
    until("the stack has all", || delivered(&lab) - before == 10);
    // The frames of another device.
    let foreign = udp_file(&lab, 10, [198, 18, 0, 9], [198, 18, 0, 1], [2, 0, 0, 0, 0, 7]);
    let text = replay(&lab, &foreign, receive)["notes"].to_string();
    assert!(text.contains("--dst-mac MAC of tx0"), "{text}");
    Ok(())
}

/// Frames that alternate between the devices arrive in the order of the file, where no driver that
/// polls is between: with GRO off, the receiver's stack takes each frame when it is sent.
fn order_at_top_speed() -> TestResult {
    const COUNT: u64 = 4000;
    let lab = Lab::new(Peer::Deaf);
    add_second_pair(&lab);
    run(&["ip", "-n", &lab.tx_netns, "link", "set", "rx1", "netns", &lab.rx_netns]);
    let in_rx = ["ip", "netns", "exec", &lab.rx_netns];
    run(&[&in_rx[..], &["sysctl", "-qw", "net.ipv6.conf.rx1.disable_ipv6=1"]].concat());
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "rx1", "up"]);
    run(&[&in_rx[..], &["ethtool", "-K", "rx1", "gro", "off"]].concat());
    let path = file(&lab, COUNT, 1000);
    let split = "--other tx1 --split sources=10.0.0.0/24 --speed top";
    for engine in ["skb", "af_packet"] {
        let seen = lab.file("seen.pcapng");
        let capture = wirerate_start(&format!(
            "capture {RX_DEV} rx1 --netns {} --source tpacket --count {COUNT} -w {} --json",
            lab.rx_netns,
            seen.display()
        ));
        capture.until_it_says("capturing");
        let report = replay(&lab, &path, &format!("{split} --engine {engine}"));
        assert_eq!(number(&report, "sent_other"), COUNT / 2, "{report}");
        capture.wait(TIME_LIMIT).expect_code(0);
        let mut frames = captured(&seen);
        frames.sort_by_key(|(time_ns, _)| *time_ns);
        // The source port of a frame is its number.
        let numbers = frames.iter().map(|(_, bytes)| u64::from(u16::from_be_bytes([bytes[34], bytes[35]])));
        let inversions = numbers.enumerate().filter(|(place, number)| *place as u64 != *number).count();
        assert_eq!(inversions, 0, "{engine}");
    }
    Ok(())
}
