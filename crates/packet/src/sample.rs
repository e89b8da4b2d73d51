//! Random configurations from a seed, for the tests of this crate and of other crates that send the
//! same bytes.

use crate::{
    Config, DeviceFacts, Flags, ImixEntry, MacAddr, Rng, SignatureLevel, SignatureSetting, XmitMode,
};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The device that random configurations are for.
pub fn facts() -> DeviceFacts {
    DeviceFacts {
        mac: MacAddr([0x02, 0xde, 0xad, 0xbe, 0xef, 0x01]),
        v4: Some(Ipv4Addr::new(192, 0, 2, 77)),
        v6_link_local: "fe80::de:adff:febe:ef01".parse().ok(),
        tx_queues: 4,
        cpu: 1,
    }
}

/// A configuration that gives a plan, with frames of at most `frame_len_max` bytes.
///
/// Every setting that changes bytes is on in some of them, ranges of one value and reversed ones
/// included.
pub fn config(rng: &mut Rng, frame_len_max: u32) -> Config {
    let mut config = Config {
        tos: byte(rng),
        traffic_class: byte(rng),
        dst_mac: mac(rng),
        src_mac: if coin(rng) { mac(rng) } else { MacAddr::ZERO },
        src_mac_count: small(rng),
        dst_mac_count: small(rng),
        udp_src_min: rng.next_u32() as u16,
        udp_dst_min: rng.next_u32() as u16,
        flows: if rng.below(4) == 0 { 1 + rng.below(40) } else { 0 },
        flow_len: rng.below(4),
        clone_skb: rng.below(8).saturating_sub(4) as i32,
        burst: 1 + rng.below(6).saturating_sub(3),
        flags: Flags(rng.next_u32() & 0x7_ffff & !Flags::IPSEC.0),
        ..Config::default()
    };
    config.udp_src_max = config.udp_src_min.saturating_add(rng.below(9) as u16);
    config.udp_dst_max = config.udp_dst_min.saturating_add(rng.below(9) as u16).saturating_sub(2);
    (config.src_min, config.src_max) = addresses(rng);
    (config.dst_min, config.dst_max) = addresses(rng);
    config.src6 = Ipv6Addr::from(u128::from(rng.next_u32()) << 96 | u128::from(rng.next_u32()));
    config.dst6 = Ipv6Addr::from(u128::from(rng.next_u32()) << 64 | u128::from(rng.next_u32()));
    if coin(rng) {
        config.dst6_min = Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(rng.next_u32()));
        config.dst6_max = Ipv6Addr::from(u128::from(rng.next_u32()) << 96 | u128::from(rng.next_u32()));
    }
    config.min_pkt_size = 42 + rng.below(frame_len_max - 41);
    config.max_pkt_size = 42 + rng.below(frame_len_max - 41);
    match rng.below(4) {
        0 => config.mpls = (0..1 + rng.below(16)).map(|_| rng.next_u32()).collect(),
        1 => config.vlan_id = Some(rng.below(4096) as u16),
        2 => (config.vlan_id, config.svlan_id) = (Some(rng.below(4096) as u16), Some(rng.below(4096) as u16)),
        _ => {}
    }
    (config.vlan_p, config.vlan_cfi) = (rng.below(8) as u8, rng.below(2) as u8);
    (config.svlan_p, config.svlan_cfi) = (rng.below(8) as u8, rng.below(2) as u8);
    if rng.below(4) == 0 {
        config.imix = (0..1 + rng.below(20)).map(|_| imix_entry(rng, frame_len_max)).collect();
    }
    config.xmit_mode = match rng.below(4) {
        0 => XmitMode::QueueXmit,
        1 => XmitMode::NetifReceive,
        _ => XmitMode::StartXmit,
    };
    config
}

/// Gives a configuration what pktgen has not: ranges with their ends, ranges of IPv6 addresses,
/// another time to live.
pub fn add_ranges(config: &mut Config, rng: &mut Rng) {
    config.are_ends_included = true;
    config.ttl = byte(rng);
    let mut last = |first: Ipv6Addr| Some(Ipv6Addr::from(first.to_bits() + u128::from(rng.below(9))));
    (config.src6_last, config.dst6_last) = (last(config.src6), last(config.dst6));
}

/// Gives a configuration several frames in a row with the same addresses and ports, and flows of
/// its signature in rows.
pub fn add_holds(config: &mut Config, rng: &mut Rng) {
    (config.hold, config.signature.flow_len) = (1 + rng.below(4), 1 + rng.below(4));
}

/// A random signature.
pub fn signature(rng: &mut Rng) -> SignatureSetting {
    use SignatureLevel::{Full, None, Pktgen, Short};
    SignatureSetting {
        level: [None, Pktgen, Short, Full][rng.below(4) as usize],
        stream: rng.below(64) as u8,
        flow_count: 1 + rng.below(5),
        flow_len: 1,
        flow_first: rng.next_u32() >> rng.below(32),
        run: rng.next_u32() as u16,
    }
}

fn imix_entry(rng: &mut Rng, frame_len_max: u32) -> ImixEntry {
    ImixEntry { size: 42 + rng.below(frame_len_max - 41), weight: 1 + u64::from(rng.below(1000)) }
}

fn coin(rng: &mut Rng) -> bool {
    rng.below(2) == 0
}

fn byte(rng: &mut Rng) -> u8 {
    rng.below(256) as u8
}

fn small(rng: &mut Rng) -> u32 {
    rng.below(12).saturating_sub(6)
}

fn mac(rng: &mut Rng) -> MacAddr {
    let [a, b, c, d] = rng.next_u32().to_be_bytes();
    MacAddr([0x02, 0xff, a, b, c, d])
}

/// A pair of addresses: a range, one address, a reversed pair, or nothing.
fn addresses(rng: &mut Rng) -> (Option<Ipv4Addr>, Option<Ipv4Addr>) {
    let first = 0x0a00_0000 + rng.below(0x0100_0000);
    let address = |bits: u32| Some(Ipv4Addr::from(bits));
    match rng.below(4) {
        0 => (address(first), address(first + rng.below(9))),
        1 => (address(first), None),
        2 => (address(first), address(first - 1)),
        _ => (None, None),
    }
}
