//! The lab on the real kernel: it works, is silent, and leaves nothing. Needs root.

mod common;

use common::may_make_namespaces;
use host::{Lab, LabOptions, Netns};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Longest wait for something that a loaded machine does late, but does.
const TIMEOUT: Duration = Duration::from_secs(60);

fn names_of(lab: &Lab) -> [String; 2] {
    [lab.tx.netns_name.clone(), lab.rx.netns_name.clone()]
}

#[test]
fn frames_cross_and_nothing_else_does() {
    testkit::needs!(may_make_namespaces());
    let lab = Lab::new(&LabOptions { queues: 3, mtu: 3000, ..LabOptions::default() }).unwrap();
    let (tx, rx) = (lab.tx.link().unwrap(), lab.rx.link().unwrap());
    assert_eq!((tx.tx_queues, rx.rx_queues, rx.mtu, tx.mac), (3, 3, 3000, Some(lab.tx.mac)));
    assert_eq!(lab.tx.stack.next_hop(lab.tx.index, lab.rx.v4.into()).unwrap().mac, Some(lab.rx.mac));
    assert_eq!(lab.tx.stack.facts(lab.tx.ifname).unwrap().v4, Some(lab.tx.v4));
    let before = lab.rx.link().unwrap().counters;
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(lab.rx.link().unwrap().counters.since(&before).rx_packets, 0, "unexpected frames");
    let to = (lab.rx.v4, 9);
    let sent = lab.tx.netns().run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        (0..5).map(|_| socket.send_to(b"12345", to).unwrap()).sum::<usize>()
    });
    assert_eq!(sent.unwrap(), 25);
    // On a busy machine the receiver's softirq comes late.
    let deadline = Instant::now() + TIMEOUT;
    while lab.rx.link().unwrap().counters.since(&before).rx_packets < 5 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seen = lab.rx.link().unwrap().counters.since(&before);
    assert_eq!((seen.rx_packets, seen.rx_bytes), (5, 5 * (14 + 20 + 8 + 5)));
}

#[test]
fn addresses_of_version_6_and_gro_come_when_asked_for() {
    testkit::needs!(may_make_namespaces());
    let lab = Lab::new(&LabOptions { rx_gro: true, ipv6: true, ..LabOptions::default() }).unwrap();
    let (v6, index) = (lab.rx.v6.unwrap(), lab.tx.index);
    assert_eq!(lab.tx.stack.next_hop(index, v6.into()).unwrap().mac, Some(lab.rx.mac));
    assert_eq!(lab.tx.stack.facts(index).unwrap().v6_link_local, Some("fe80::1".parse().unwrap()));
    let answer = lab.rx.netns().run(|| UdpSocket::bind((v6, 7)).unwrap()).unwrap();
    answer.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let ask = lab.tx.netns().run(|| UdpSocket::bind("[::]:0").unwrap()).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let mut bytes = [0; 16];
    // On a busy machine the kernel's worker has not told IPv6 yet that there is a carrier: it drops
    // the first ones.
    let mut arrives = || {
        ask.send_to(b"hello", (v6, 7)).unwrap();
        answer.recv_from(&mut bytes).is_ok()
    };
    while !arrives() {
        assert!(Instant::now() < deadline, "nothing arrives");
    }
    assert_eq!(&bytes[..6], b"hello\0");
    if let Some(features) = lab.tx.stack.xdp_features(index).unwrap() {
        assert!(features.redirect_target);
    }
}

#[test]
fn it_is_removed_on_drop_and_on_panic() {
    testkit::needs!(may_make_namespaces());
    let dropped = Lab::new(&LabOptions::default()).unwrap();
    let names = names_of(&dropped);
    assert!(names.iter().all(|name| Netns::exists(name)));
    drop(dropped);
    assert!(!names.iter().any(|name| Netns::exists(name)));

    let removed = Lab::new(&LabOptions::default()).unwrap();
    let names = names_of(&removed);
    removed.remove().unwrap();
    assert!(!names.iter().any(|name| Netns::exists(name)));

    let names = std::panic::catch_unwind(|| {
        let lab = Lab::new(&LabOptions::default()).unwrap();
        std::panic::resume_unwind(Box::new(names_of(&lab)));
    })
    .unwrap_err();
    let names = names.downcast::<[String; 2]>().unwrap();
    assert!(!names.iter().any(|name| Netns::exists(name)));
}

#[test]
fn the_next_lab_removes_what_a_killed_one_left_and_spares_the_living() {
    testkit::needs!(may_make_namespaces());
    let living = Lab::new(&LabOptions::default()).unwrap();
    // The name that a program with this pid would have used, had it been started at another time.
    let mut parts: Vec<&str> = living.tx.netns_name.split('-').collect();
    parts[3] = "1";
    let dead = parts.join("-");
    Netns::create(&dead).unwrap();
    let next = Lab::new(&LabOptions::default()).unwrap();
    assert!(!Netns::exists(&dead));
    assert!(names_of(&living).iter().chain(&names_of(&next)).all(|name| Netns::exists(name)));
}

#[test]
fn a_lab_that_cannot_be_made_leaves_nothing() {
    testkit::needs!(may_make_namespaces());
    let ours = format!("-{}-", std::process::id());
    // Other tests of this process come and go; only a number that never became a lab may not stay.
    let error = Lab::new(&LabOptions { queues: 1_000_000, ..LabOptions::default() }).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
    let empty = |name: &String| {
        let Ok(netns) = Netns::named(name) else { return false };
        let links = host::Stack::of(&netns).and_then(|stack| stack.links());
        links.is_ok_and(|links| !links.iter().any(|link| link.is_kind("veth")))
    };
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let left: Vec<String> =
            Netns::names().unwrap().into_iter().filter(|name| name.contains(&ours)).collect();
        // A lab of another test is without veth for a moment; one that was left would be for ever.
        if !left.iter().any(empty) {
            break;
        }
        assert!(Instant::now() < deadline, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
