//! Options of `send`: turn back.

use super::job_of;
use packet::DeviceFacts;
use packet::MacAddr;
use program::outcome::Failure;
use sender::SendJob;
use sender::job::StreamEntry;
use sender::turn_back::*;
use std::net::Ipv4Addr;

fn args(words: &str) -> SendJob {
    job_of(format!("b0 {words}"))
}

fn turned(words: &str) -> Result<SendJob, Failure> {
    let (mac, v4) = (MacAddr([2, 0, 0, 0, 0, 1]), Some(Ipv4Addr::new(198, 18, 0, 1)));
    let origin = DeviceFacts { mac, v4, ..DeviceFacts::default() };
    let mut sender = args(words);
    turn_back(&mut sender, &origin).map(|()| sender)
}

#[track_caller]
fn turns_into(words: &str, expected: &str) {
    let (back, expected) = (turned(words).unwrap(), args(expected));
    assert_eq!((back.dst, back.src), (expected.dst, expected.src), "{words}");
    assert_eq!((back.dst_mac, back.src_mac), (expected.dst_mac, expected.src_mac), "{words}");
    assert_eq!((back.udp_dst, back.udp_src), (expected.udp_dst, expected.udp_src), "{words}");
    assert_eq!(back.random, expected.random, "{words}");
}

#[test]
fn addresses_and_ports_are_exchanged() {
    turns_into(
        "--dst 198.18.1.0/24 --udp-dst 80 --random dst",
        "--dst 198.18.0.1 --src 198.18.1.0/24 --udp-src 80 --random src",
    );
    turns_into("--dst fd00::2 --src fd00::1-fd00::9", "--dst fd00::1-fd00::9 --src fd00::2");
    turns_into("--dst-mac 02:00:00:00:00:09", "--dst-mac 02:00:00:00:00:01");
    turns_into(
        "--dst-mac 02:00:00:00:00:09 --src-mac 02:00:00:00:00:08 --udp-src 5",
        "--dst-mac 02:00:00:00:00:08 --src-mac 02:00:00:00:00:09 --udp-dst 5",
    );
}

#[test]
fn frames_without_a_way_back_are_refused() {
    for (words, why) in [
        ("--dst fd00::2", "the address of the first sender is not known\n  try: --src fd00::1"),
        ("--frame {}", "frames of --frame have"),
    ] {
        let refusal = turned(words).map(|_| ()).unwrap_err().to_string();
        assert!(refusal.contains(why), "{words}: {refusal}");
    }
    let mut sender = job_of("b0 --dst 198.18.0.2");
    sender.streams.push(StreamEntry {
        name: "1".to_owned(),
        job: sender.clone(),
        frame: None,
        start_ns: 0,
        weight: None,
    });
    let refusal = turn_back(&mut sender, &DeviceFacts::default()).unwrap_err().to_string();
    assert!(refusal.contains("frames of --streams have the addresses of one direction"), "{refusal}");
}
