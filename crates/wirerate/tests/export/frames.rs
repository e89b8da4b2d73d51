//! Frames for these tests, and the fields of frames as the columns and as tshark have them.

use etherparse::{IpFragOffset, IpNumber, Ipv6FragmentHeader, PacketBuilder, VlanId};
use measure::{SHORT_LEN, Signature};
use packet::Rng;
use serde_json::Value;

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// A frame with a random choice of tags, labels, IP versions, extension headers, fragments and
/// protocols.
pub(crate) fn random_frame(rng: &mut Rng) -> Vec<u8> {
    let mut frame: Vec<u8> = MACS.concat();
    for _ in 0..rng.below(3) {
        let tpid: u16 = if rng.below(4) == 0 { 0x88a8 } else { 0x8100 };
        frame.extend(tpid.to_be_bytes());
        frame.extend((rng.next_u32() as u16).to_be_bytes());
    }
    let (is_v6, has_labels) = (rng.below(2) == 0, rng.below(5) == 0);
    let ethertype: u16 = if is_v6 { 0x86dd } else { 0x0800 };
    frame.extend(if has_labels { 0x8847 } else { ethertype }.to_be_bytes());
    if has_labels {
        for is_last in [false, true].into_iter().skip(rng.below(2) as usize) {
            // Labels below 16 have meanings of their own.
            let label = 16 + rng.below(1 << 19);
            frame.extend((label << 12 | u32::from(is_last) << 8 | 64).to_be_bytes());
        }
    }
    frame.extend(if is_v6 { ipv6(rng) } else { ipv4(rng) });
    frame
}

/// A segment or datagram of a random protocol. Ports are those that no dissector claims.
fn transport(rng: &mut Rng) -> (u8, Vec<u8>) {
    let ports =
        [40_000 + rng.below(9000) as u16, 50_000 + rng.below(9000) as u16].map(u16::to_be_bytes).concat();
    let payload = vec![0x55; rng.below(64) as usize];
    match rng.below(3) {
        0 => {
            let flags = [0x50 | (rng.below(2) as u8), rng.next_u32() as u8];
            let rest = [&rng.next_u64().to_be_bytes()[..], &flags, &[1, 0, 0, 0, 0, 0]].concat();
            (6, [ports, rest, payload].concat())
        }
        1 => {
            let len = (8 + payload.len() as u16).to_be_bytes();
            (17, [ports, [len, [0; 2]].concat(), payload].concat())
        }
        // Reserved for experiments.
        _ => (253, payload),
    }
}

fn ipv4(rng: &mut Rng) -> Vec<u8> {
    let (proto, segment) = transport(rng);
    let options = rng.below(3) as usize * 4;
    let fragment: u16 = match rng.below(8) {
        0 => 0x2000,
        1 => 100,
        2 => 0x4000,
        _ => 0,
    };
    let mut packet = vec![0x45 + (options / 4) as u8, rng.next_u32() as u8];
    packet.extend(((20 + options + segment.len()) as u16).to_be_bytes());
    packet.extend((rng.next_u32() as u16).to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([1 + rng.below(255) as u8, proto, 0, 0, 10]);
    packet.extend(&rng.next_u64().to_be_bytes()[..7]);
    packet.extend(vec![1; options]);
    packet.extend(segment);
    packet
}

fn ipv6(rng: &mut Rng) -> Vec<u8> {
    let (proto, segment) = transport(rng);
    let (mut next, mut rest) = (proto, segment);
    if rng.below(3) == 0 {
        let offset = if rng.below(2) == 0 { 0 } else { 100 };
        let offset = IpFragOffset::try_new(offset).unwrap();
        let header = Ipv6FragmentHeader::new(IpNumber(next), offset, rng.below(2) == 0, rng.next_u32());
        (next, rest) = (44, [&header.to_bytes()[..], &rest].concat());
    }
    for header in [60, 0] {
        if rng.below(4) == 0 {
            // Padding of 4 or 12 bytes.
            let len = rng.below(2) as u8;
            let options = [vec![next, len, 1, 4 + 8 * len], vec![0; 4 + 8 * usize::from(len)]].concat();
            (next, rest) = (header, [options, rest].concat());
        }
    }
    let class = rng.next_u32() as u8;
    let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([next, 1 + rng.below(255) as u8]);
    for _ in 0..2 {
        packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0]);
        packet.extend(rng.next_u64().to_be_bytes());
    }
    packet.extend(rest);
    packet
}

/// A frame of `wirerate send`; those of stream 1 have VLAN 5.
pub(crate) fn signed(stream: u8, seq_num: u32, sent_ns: u64) -> Vec<u8> {
    let signature = Signature {
        seq_num,
        sec: (sent_ns / 1_000_000_000) as u32,
        usec: (sent_ns / 1000 % 1_000_000) as u32,
        nanos: (sent_ns % 1000) as u16,
        stream,
        ..Signature::default()
    };
    // 74 bytes in all.
    let mut payload = vec![0; if stream == 0 { 32 } else { 28 }];
    signature.emit(&mut payload[..SHORT_LEN]);
    let builder = PacketBuilder::ethernet2(MACS[0], MACS[1]);
    let (src, dst) = ([198, 18, 0, 1], [198, 18, 0, 2]);
    let builder = match stream {
        0 => builder.ipv4(src, dst, 32),
        _ => builder.single_vlan(VlanId::try_new(5).unwrap()).ipv4(src, dst, 32),
    };
    let mut frame = Vec::new();
    builder.udp(1000 + u16::from(stream), 9).write(&mut frame, &payload).unwrap();
    frame
}

/// A frame that opens a connection, or answers one that does.
pub(crate) fn tcp(src: [u8; 4], dst: [u8; 4], src_port: u16, dst_port: u16, is_answer: bool) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(MACS[0], MACS[1]).ipv4(src, dst, 64);
    let builder = builder.tcp(src_port, dst_port, 1, 100).syn();
    let builder = if is_answer { builder.ack(2) } else { builder };
    let mut frame = Vec::new();
    builder.write(&mut frame, &[]).unwrap();
    frame
}

/// The fields of a frame as text: lengths, MAC addresses, tags, label, version, addresses, TTL,
/// class, identification, ports and flags, protocol, and whether it is a fragment.
type Fields = Vec<String>;

/// Of a row of columns.
pub(crate) fn of_row(row: &Value) -> Fields {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    row.as_array().expect("a row is a list").iter().map(text).collect()
}

/// Of a line of tshark about `frame`, with the fields in the order of the test.
pub(crate) fn of_tshark(fields: &[&str], frame: &[u8]) -> Fields {
    let first = |at: usize| fields[at].split(',').next().unwrap_or_default().to_owned();
    let either = |a: usize, b: usize| if fields[a].is_empty() { first(b) } else { first(a) };
    let number = |text: String| {
        let hex =
            text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16).expect("tshark prints hex"));
        hex.map_or(text, |number| number.to_string())
    };
    let address = |text: String| match text.parse::<std::net::Ipv6Addr>() {
        Ok(address) => address.segments().map(|group| format!("{group:04x}")).join(":"),
        Err(_) => text,
    };
    // Tags of 802.1ad have fields of their own.
    let tags = if frame[12] == 0x88 { [23, 24, 25, 5] } else { [5, 23, 24, 25] };
    let mut vlans = tags.iter().flat_map(|at| fields[*at].split(',')).filter(|tag| !tag.is_empty());
    let mut vlan = || vlans.next().unwrap_or_default().to_owned();
    let (vlan, inner) = (vlan(), vlan());
    // The innermost one of IPv6 headers.
    let proto = (26..31).map(first).find(|text| !text.is_empty());
    let is_fragment = (31..35).any(|at| !["", "0", "False"].contains(&first(at).as_str()));
    vec![
        first(1),
        first(2),
        first(3),
        first(4),
        vlan,
        inner,
        first(6),
        either(7, 8),
        address(either(9, 11)),
        address(either(10, 12)),
        either(13, 14),
        number(either(15, 16)),
        number(first(17)),
        either(18, 19),
        either(20, 21),
        number(first(22)),
        proto.unwrap_or_default(),
        is_fragment.to_string(),
    ]
}
