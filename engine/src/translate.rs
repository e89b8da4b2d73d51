//! Conversion of plans and cursors to the types of the BPF programs, and back.

use bpf::abi::{self, PlanFlag as Flag};
use packet::{Cursor, Flow, Plan, Range, Rng, Walk};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The plan for one device, or its receive path (`receive`), for a program that starts at `cursor`.
///
/// # Panics
/// If the header does not fit into the template; the longest possible header fits.
pub(crate) fn plan(plan: &Plan, cursor: &Cursor, ifindex: u32, receive: bool) -> abi::Plan {
    let mut header = abi::Plan::default().header;
    header[..plan.header.len()].copy_from_slice(&plan.header);
    let (set, allowed) = plan.dst_v6_masks.unwrap_or((Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED));
    let layout = &plan.layout;
    abi::Plan {
        header,
        header_len: layout.end as u32,
        svlan_at: layout.svlan as u32,
        vlan_at: layout.vlan as u32,
        mpls_at: layout.mpls as u32,
        ip_at: layout.ip as u32,
        udp_at: layout.udp as u32,
        stamp_at: layout.pktgen_header as u32,
        signature_len: plan.signature.level.byte_count() as u32,
        signature_stream: u32::from(plan.signature.stream),
        signature_flows: plan.signature.flow_count,
        signature_flow_first: plan.signature.flow_first,
        flags: flags(plan, cursor, receive),
        ifindex,
        frame_len_max: plan.frame_len_max(),
        fixed_len: plan.fixed_len(),
        repeats: plan.repeats,
        mpls_count: plan.mpls_count as u32,
        mpls_random: u32::from(plan.mpls_random),
        vlan_tci: u32::from(plan.vlan_tci),
        svlan_tci: u32::from(plan.svlan_tci),
        src_mac_offset: range(&plan.src_mac_offset),
        dst_mac_offset: range(&plan.dst_mac_offset),
        udp_src: range(&plan.udp_src),
        udp_dst: range(&plan.udp_dst),
        src_v4: range(&plan.src_v4),
        dst_v4: range(&plan.dst_v4),
        frame_size: range(&plan.frame_size),
        queue: range(&plan.queue),
        queue_count: u32::from(plan.queue_count),
        flow_count: plan.flow_count,
        flow_len: plan.flow_len,
        imix_count: plan.imix.sizes.len() as u32,
        imix_size: padded(&plan.imix.sizes),
        imix_last: padded(&plan.imix.last),
        dst_start: plan.dst_v4_pools.map(|(start, _)| start),
        dst_count: plan.dst_v4_pools.map(|(_, count)| count),
        dst_v6_set: words(set),
        dst_v6_allowed: words(allowed),
        ip_sum: plan.ip_sum,
        udp_sum: plan.udp_sum,
        src_mac: mac_word(plan.src_mac.0),
        dst_mac: mac_word(plan.dst_mac.0),
    }
}

fn flags(plan: &Plan, cursor: &Cursor, receive: bool) -> u32 {
    let moves = |range: &Range| range.walk != Walk::Fixed;
    let bits = [
        (plan.is_ipv6, Flag::WR_PLAN_IPV6),
        (plan.has_udp_checksum, Flag::WR_PLAN_UDP_CHECKSUM),
        (plan.has_timestamp, Flag::WR_PLAN_TIMESTAMP),
        (receive, Flag::WR_PLAN_RECEIVE),
        // Also for a repetition of a frame that another program built.
        (plan.repeats > 1 || cursor.repeats_left > 0, Flag::WR_PLAN_REPEATS),
        (plan.flow_count > 0, Flag::WR_PLAN_FLOWS),
        (plan.flow_sequential, Flag::WR_PLAN_FLOW_SEQ),
        (!plan.imix.sizes.is_empty(), Flag::WR_PLAN_IMIX),
        (moves(&plan.src_mac_offset), Flag::WR_PLAN_SRC_MAC_MOVES),
        (moves(&plan.dst_mac_offset), Flag::WR_PLAN_DST_MAC_MOVES),
        (plan.mpls_random != 0, Flag::WR_PLAN_MPLS_RANDOM),
        (plan.vlan_random, Flag::WR_PLAN_VLAN_RANDOM),
        (plan.svlan_random, Flag::WR_PLAN_SVLAN_RANDOM),
        (!plan.is_ipv6 && moves(&plan.src_v4), Flag::WR_PLAN_SRC_MOVES),
        (plan.destination_moves(), Flag::WR_PLAN_DST_MOVES),
        (!plan.is_ipv6 && plan.dst_v4.walk == Walk::Random, Flag::WR_PLAN_DST_RANDOM),
        (moves(&plan.udp_src), Flag::WR_PLAN_UDP_SRC_MOVES),
        (moves(&plan.udp_dst), Flag::WR_PLAN_UDP_DST_MOVES),
        (plan.size_moves(), Flag::WR_PLAN_SIZE_MOVES),
        (moves(&plan.queue), Flag::WR_PLAN_QUEUE_MOVES),
    ];
    bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit.0).sum()
}

fn range(range: &Range) -> abi::Range {
    let walk = match range.walk {
        Walk::Fixed => abi::Walk::WR_WALK_FIXED,
        Walk::Count => abi::Walk::WR_WALK_COUNT,
        Walk::Random => abi::Walk::WR_WALK_RANDOM,
    };
    abi::Range { walk, min: range.min, max: range.max }
}

fn padded<T: Copy + Default, const N: usize>(values: &[T]) -> [T; N] {
    std::array::from_fn(|index| values.get(index).copied().unwrap_or_default())
}

fn words(address: Ipv6Addr) -> [u32; 4] {
    std::array::from_fn(|word| (address.to_bits() >> (96 - 32 * word)) as u32)
}

fn address(words: [u32; 4]) -> Ipv6Addr {
    Ipv6Addr::from_bits(words.iter().fold(0, |bits, word| bits << 32 | u128::from(*word)))
}

fn mac_word(bytes: [u8; 6]) -> u64 {
    bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The cursor for the program. The queue of a plan with one queue is set, frame counters start at
/// 0, and the clock is read at the first frame.
pub(crate) fn cursor(cursor: &Cursor, plan: &Plan) -> abi::Cursor {
    let built = &cursor.built;
    let queue = if plan.queue.walk == Walk::Fixed { plan.queue.min } else { u32::from(cursor.queue) };
    abi::Cursor {
        rng: cursor.rng.0,
        offered: 0,
        frame_bytes: 0,
        malformed: 0,
        wall_offset_ns: 0,
        round: cursor.round,
        built_number: built.number,
        clock_every: 1,
        clock_left: 0,
        now_ns: 0,
        now_sec: 0,
        now_usec: 0,
        now_nsec: 0,
        seq_num: cursor.seq_num,
        ip_id: u32::from(cursor.ip_id),
        frame_size: cursor.frame_size,
        src_mac_offset: cursor.src_mac_offset,
        dst_mac_offset: cursor.dst_mac_offset,
        src_v4: cursor.src_v4.into(),
        dst_v4: cursor.dst_v4.into(),
        dst_v6: words(cursor.dst_v6),
        udp_src: u32::from(cursor.udp_src),
        udp_dst: u32::from(cursor.udp_dst),
        queue,
        queue_started: u32::from(cursor.queue_started || plan.queue.walk == Walk::Fixed),
        flow_index: cursor.flow_index,
        flows_started: cursor.flows_started,
        vlan_id: u32::from(cursor.vlan_id),
        svlan_id: u32::from(cursor.svlan_id),
        mpls: padded(&cursor.mpls),
        repeats_left: cursor.repeats_left,
        built_seq_num: built.seq_num,
        built_ip_id: u32::from(built.ip_id),
        built_src_mac_offset: built.src_mac_offset,
        built_dst_mac_offset: built.dst_mac_offset,
        built_sec: built.tv_sec,
        built_usec: built.tv_usec,
        built_nsec: built.tv_nsec,
        built_flow: built.flow,
        slot: cursor.slot,
        next_packet: 0,
        number: 0,
        imix_counts: padded(&cursor.imix_counts),
    }
}

/// Updates the cursor from the program.
pub(crate) fn update(cursor: &mut Cursor, from: &abi::Cursor) {
    cursor.rng = Rng(from.rng);
    cursor.seq_num = from.seq_num;
    cursor.ip_id = from.ip_id as u16;
    cursor.frame_size = from.frame_size;
    cursor.src_mac_offset = from.src_mac_offset;
    cursor.dst_mac_offset = from.dst_mac_offset;
    cursor.src_v4 = Ipv4Addr::from(from.src_v4);
    cursor.dst_v4 = Ipv4Addr::from(from.dst_v4);
    cursor.dst_v6 = address(from.dst_v6);
    cursor.udp_src = from.udp_src as u16;
    cursor.udp_dst = from.udp_dst as u16;
    cursor.queue = from.queue as u16;
    cursor.queue_started = from.queue_started != 0;
    cursor.flow_index = from.flow_index;
    cursor.flows_started = from.flows_started;
    cursor.vlan_id = from.vlan_id as u16;
    cursor.svlan_id = from.svlan_id as u16;
    cursor.repeats_left = from.repeats_left;
    (cursor.slot, cursor.round) = (from.slot, from.round);
    cursor.mpls.iter_mut().zip(from.mpls).for_each(|(to, from)| *to = from);
    cursor.imix_counts.iter_mut().zip(from.imix_counts).for_each(|(to, from)| *to = from);
    cursor.built = packet::FrameState {
        seq_num: from.built_seq_num,
        ip_id: from.built_ip_id as u16,
        src_mac_offset: from.built_src_mac_offset,
        dst_mac_offset: from.built_dst_mac_offset,
        tv_sec: from.built_sec,
        tv_usec: from.built_usec,
        tv_nsec: from.built_nsec,
        flow: from.built_flow,
        number: from.built_number,
        ..packet::FrameState::default()
    };
}

/// The flow table for the program.
pub(crate) fn flows(flows: &[Flow]) -> Vec<abi::Flow> {
    let entry = |flow: &Flow| abi::Flow {
        dst_v4: flow.dst_v4,
        count: flow.count,
        is_open: u32::from(flow.is_open),
        pad: 0,
        number: flow.number,
    };
    flows.iter().map(entry).collect()
}

/// The flow table of the program.
pub(crate) fn flows_back(flows: &[abi::Flow]) -> Vec<Flow> {
    let entry = |flow: &abi::Flow| Flow {
        dst_v4: flow.dst_v4,
        count: flow.count,
        is_open: flow.is_open != 0,
        number: flow.number,
    };
    flows.iter().map(entry).collect()
}
