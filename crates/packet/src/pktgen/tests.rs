//! pktgen's frames and their order.

use crate::{
    Config, Cursor, DeviceFacts, Flags, ImixEntry, MacAddr, Plan, SignatureLevel, SignatureSetting, Slot,
    XmitMode, sample,
};
use std::net::Ipv4Addr;

fn v4(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok()
}

const NOON: u64 = 0x6740_0000 * 1_000_000_000 + 123_456_789;

fn facts() -> DeviceFacts {
    DeviceFacts {
        mac: MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]),
        v4: Some([10, 9, 8, 7].into()),
        ..sample::facts()
    }
}

fn base() -> Config {
    Config { dst_mac: MacAddr([2, 0, 0, 0, 1, 0]), dst_min: v4("10.9.8.99"), ..Config::default() }
}

fn planned(mut config: Config, facts: &DeviceFacts) -> (Plan, Cursor) {
    config.prepare(facts);
    let mut cursor = Cursor::of_v6(config.src6, config.dst6);
    cursor.start(&config, facts, 1);
    (Plan::new(&config, facts, &cursor).unwrap(), cursor)
}

#[test]
fn the_end_of_random_lengths_is_not_the_longest_frame() {
    let mut config = Config { min_pkt_size: 60, max_pkt_size: 64, ..base() };
    config.flags.set(Flags::TXSIZE_RND, true);
    assert_eq!(planned(config.clone(), &facts()).0.frame_len_max(), 63);
    let longest = frames(config, &facts(), 100).iter().map(Vec::len).max();
    assert_eq!(longest, Some(63));
}

/// The first frames of a run, each written into bytes that were dirty before.
fn frames(config: Config, facts: &DeviceFacts, count: usize) -> Vec<Vec<u8>> {
    let (plan, mut cursor) = planned(config, facts);
    let mut next = || {
        let mut bytes = vec![0xee; plan.frame_len_max() as usize];
        let len = plan.emit(&mut cursor, NOON, &mut bytes);
        bytes.truncate(len);
        bytes
    };
    (0..count).map(|_| next()).collect()
}

fn words(frames: &[Vec<u8>], at: usize) -> Vec<u16> {
    frames.iter().map(|frame| u16::from_be_bytes([frame[at], frame[at + 1]])).collect()
}

#[test]
fn frames_of_ipv6_leave_the_number_of_the_next_ipv4_frame_alone() {
    let mut cursor = Cursor::default();
    cursor[Slot::IP_ID] = 7;
    let mut send = |flags| {
        let mut config = Config { flags, ..base() };
        config.prepare(&facts());
        cursor.start(&config, &facts(), 1);
        let plan = Plan::new(&config, &facts(), &cursor).unwrap();
        let mut bytes = vec![0; plan.frame_len_max() as usize];
        plan.emit(&mut cursor, NOON, &mut bytes);
        cursor[Slot::IP_ID]
    };
    assert_eq!([Flags::IPV6, base().flags, Flags::IPV6].map(&mut send), [7, 8, 8]);
}

#[test]
fn default_frame_is_that_of_the_kernel() {
    // Measured on Linux 7.3, time and all: 58 bytes, TTL 32, no UDP checksum.
    let expected = "0200000001005254001234560800\
                    4500002c00010000201176450a0908070a090863\
                    0009000900180000be9be9550000000267400000\
                    0001e240";
    let hex: String = frames(base(), &facts(), 2)[1].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
}

#[test]
fn counting_ranges_step_before_the_first_frame() {
    let config = Config { udp_src_min: 9, udp_src_max: 12, udp_dst_min: 100, udp_dst_max: 101, ..base() };
    let sent = frames(config, &facts(), 5);
    assert_eq!(words(&sent, 34), [10, 11, 9, 10, 11]);
    assert_eq!(words(&sent, 36), [100; 5], "a range of one port stays");
    let config = Config { src_min: v4("10.0.0.1"), src_max: v4("10.0.0.3"), ..base() };
    assert_eq!(words(&frames(config, &facts(), 4), 28), [2, 3, 1, 2]);
}

#[test]
fn ranges_of_ours_include_their_ends() {
    let ours = Config { are_ends_included: true, ..base() };
    let config = Config { udp_src_min: 65_533, udp_src_max: 65_535, ttl: 9, ..ours.clone() };
    let sent = frames(config, &facts(), 4);
    assert_eq!(words(&sent, 34), [65_534, 65_535, 65_533, 65_534]);
    assert!(sent.iter().all(|frame| frame[22] == 9));
    let mut random = Config { min_pkt_size: 60, max_pkt_size: 61, ..ours.clone() };
    random.flags.set(Flags::TXSIZE_RND, true);
    let lens: std::collections::BTreeSet<_> = frames(random, &facts(), 50).iter().map(Vec::len).collect();
    assert_eq!(lens, [60, 61].into());
    let mut v6 = Config { dst6: "fd00::fffe".parse().unwrap(), src6: "fd01::1".parse().unwrap(), ..ours };
    v6.flags.set(Flags::IPV6, true);
    (v6.dst6_last, v6.src6_last) = ("fd00::1:1".parse().ok(), "fd01::2".parse().ok());
    let sent = frames(v6, &facts(), 5);
    assert_eq!(words(&sent, 50), [0, 1, 1, 0, 0]);
    assert_eq!(words(&sent, 52), [0xffff, 0, 1, 0xfffe, 0xffff]);
    assert_eq!(words(&sent, 36), [2, 1, 2, 1, 2]);
}

#[test]
fn sizes_count_through_their_last() {
    let config = Config { min_pkt_size: 60, max_pkt_size: 62, ..base() };
    let lens: Vec<_> = frames(config, &facts(), 4).iter().map(Vec::len).collect();
    assert_eq!(lens, [61, 62, 60, 61]);
}

#[test]
fn asked_for_42_and_sent_58() {
    assert_eq!(frames(Config { min_pkt_size: 42, ..base() }, &facts(), 1)[0].len(), 58);
}

#[test]
fn repeats_carry_the_same_bytes_and_the_sequence_goes_on() {
    let config = Config { clone_skb: 2, burst: 2, ..base() };
    let sent = frames(config, &facts(), 5);
    assert!(sent[..4].iter().all(|frame| *frame == sent[0]));
    assert_eq!(words(&sent, 48)[3..], [1, 5], "sequence numbers");
    assert_eq!(words(&sent, 18)[3..], [0, 1], "IP ids");
}

#[test]
fn repeats_may_be_passed_over() {
    let config = Config { clone_skb: 5, udp_src_max: 99, ..base() };
    let (plan, mut cursor) = planned(config, &facts());
    let (mut out, mut other) = (vec![0; plan.frame_len_max() as usize], cursor.clone());
    for _ in 0..20 {
        plan.emit(&mut cursor, NOON, &mut out);
    }
    for _ in 0..4 {
        plan.emit(&mut other, NOON, &mut out);
        other.repeat(1);
        other.repeat(3);
    }
    assert_eq!(cursor, other);
}

#[test]
fn a_burst_through_the_qdisc_is_of_frames_of_their_own() {
    let burst = Config { burst: 4, ..base() };
    let firsts = |config| words(&frames(config, &facts(), 3), 48);
    assert_eq!(firsts(Config { xmit_mode: XmitMode::QueueXmit, ..burst.clone() }), [1, 2, 3]);
    assert_eq!(firsts(Config { xmit_mode: XmitMode::NetifReceive, ..burst.clone() }), [1; 3]);
    let mut alone = burst;
    alone.flags.set(Flags::SHARED, false);
    assert_eq!(firsts(alone), [1, 2, 3]);
}

#[test]
fn mac_counts_from_the_devices_own_address() {
    let sent = frames(Config { src_mac_count: 2, ..base() }, &facts(), 3);
    let last: Vec<_> = sent.iter().map(|frame| frame[11]).collect();
    assert_eq!(last, [0x56, 0x57, 0x56]);
}

#[test]
fn sequential_flows_keep_their_destination() {
    let mut config = Config { dst_max: v4("10.9.8.200"), flows: 2, flow_len: 2, ..base() };
    config.flags.set(Flags::FLOW_SEQ, true);
    let sent = frames(config, &facts(), 8);
    assert_eq!(words(&sent, 32), [100, 100, 101, 101, 102, 102, 103, 103].map(|low| 0x0800 + low));
}

/// Frame i has the ports of flow i / 3, and its number there.
#[test]
fn several_frames_in_a_row_have_the_same_addresses_and_ports() {
    let mut config = Config { hold: 3, are_ends_included: true, ..base() };
    (config.udp_src_min, config.udp_src_max, config.udp_dst_min) = (20, 21, 7);
    (config.src_min, config.src_max, config.src_mac_count) = (v4("10.0.0.1"), v4("10.0.0.3"), 2);
    config.signature =
        SignatureSetting { level: SignatureLevel::Full, flow_count: 6, flow_len: 3, ..config.signature };
    let sent = frames(config, &facts(), 21);
    assert_eq!(words(&sent, 34)[..9], [21, 21, 21, 20, 20, 20, 21, 21, 21]);
    assert_eq!(words(&sent, 28)[..9], [2, 2, 2, 3, 3, 3, 1, 1, 1]);
    assert_eq!(words(&sent, 18)[..4], [0, 1, 2, 3], "IP ids");
    let of_frame = |frame: &Vec<u8>| {
        let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        (word(62), word(66))
    };
    let numbers: Vec<(u32, u32)> = sent.iter().map(of_frame).collect();
    let expected = |frame: u32| (frame / 3 % 6, frame / 18 * 3 + frame % 3);
    assert_eq!(numbers, (0..21).map(expected).collect::<Vec<_>>());
}

#[test]
fn first_frame_goes_to_the_lower_queue() {
    let config = Config { queue_map_min: 1, queue_map_max: 3, ..base() };
    let mut cursor = Cursor::default();
    cursor.start(&config, &facts(), 1);
    let plan = Plan::new(&config, &facts(), &cursor).unwrap();
    let mut bytes = [0; 64];
    let queues = [0; 5].map(|_: i32| {
        plan.emit(&mut cursor, NOON, &mut bytes);
        cursor.queue
    });
    assert_eq!(queues, [1, 2, 3, 1, 2]);
}

#[test]
fn imix_sizes_come_with_exactly_their_weight() {
    // The kernel's table of 100 slots loses the third entry of this mix.
    let weights = [(100, 500), (200, 1), (300, 499)];
    let imix = weights.map(|(size, weight)| ImixEntry { size, weight }).to_vec();
    let sent = frames(Config { imix, ..base() }, &facts(), 100_000);
    let share = |len| sent.iter().filter(|frame| frame.len() == len).count();
    assert!((49_000..51_000).contains(&share(100)), "{}", share(100));
    assert!((40..180).contains(&share(200)), "{}", share(200));
    assert!((48_900..50_900).contains(&share(300)), "{}", share(300));
}

#[test]
fn random_destinations_leave_out_what_is_no_host() {
    let mut config = Config { dst_min: v4("126.255.255.250"), dst_max: v4("128.0.0.5"), ..base() };
    config.flags.set(Flags::IPDST_RND, true);
    let sent = frames(config.clone(), &facts(), 2000);
    let first: std::collections::BTreeSet<_> = sent.iter().map(|frame| frame[30]).collect();
    assert_eq!(first, [126, 128].into());
    config.dst_min = v4("224.0.0.1");
    config.dst_max = v4("239.0.0.1");
    let error = Plan::new(&config, &facts(), &Cursor::default()).unwrap_err();
    assert!(error.to_string().contains("224.0.0.1"), "{error}");
}
