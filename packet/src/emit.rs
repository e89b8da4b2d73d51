//! Frames from a plan: advancing the cursor and writing the bytes.
//!
//! The order of the steps, and so of the random numbers, is that of pktgen (specification 6.3) and
//! of the BPF programs (`frame.h`). A property test compares the two: change both.

use crate::flow_sa::FlowAssociations;
use crate::plan::{MPLS_BOTTOM, MPLS_LABELS_MAX};
use crate::wire::WallTime;
use crate::{Cursor, Flow, Plan, Range, Walk, checksum};
use std::net::{Ipv4Addr, Ipv6Addr};

impl Plan {
    /// Writes the next frame to the start of `out` and returns its length in bytes without FCS.
    ///
    /// 0 is a frame that must not be sent: its flow was opened by another plan and has no security
    /// association here.
    ///
    /// `now_ns` is the time by [`Plan::clock`], for frames that carry it; it is not used when the
    /// last frame is repeated.
    ///
    /// # Panics
    /// When `out` is shorter than the frame; [`Plan::frame_len_max`] bytes are always enough.
    pub fn emit(&self, cursor: &mut Cursor, now_ns: u64, out: &mut [u8]) -> usize {
        if let Some(general) = &self.general {
            cursor.seq_num = cursor.seq_num.wrapping_add(1);
            return general.emit(&mut cursor.general, &mut cursor.rng, now_ns, out);
        }
        if cursor.repeats_left == 0 {
            self.build(cursor, now_ns);
            if let Some(ipsec) = &self.ipsec {
                ipsec.take_sequence(cursor);
            }
        }
        cursor.repeats_left -= 1;
        cursor.seq_num = cursor.seq_num.wrapping_add(1);
        self.write(cursor, out)
    }

    /// Advances the cursor as [`Plan::emit`] does with the time zero, without an IPsec sequence
    /// number: to find the cursor of an earlier frame.
    pub fn skip(&self, cursor: &mut Cursor) {
        if let Some(general) = &self.general {
            cursor.seq_num = cursor.seq_num.wrapping_add(1);
            return general.skip(&mut cursor.general, &mut cursor.rng);
        }
        if cursor.repeats_left == 0 {
            self.build(cursor, 0);
        }
        cursor.repeats_left -= 1;
        cursor.seq_num = cursor.seq_num.wrapping_add(1);
    }

    /// Advances all fields for the next `repeats` frames.
    fn build(&self, cursor: &mut Cursor, now_ns: u64) {
        self.advance(cursor);
        cursor.built.seq_num = cursor.seq_num;
        cursor.built.ip_id = cursor.ip_id;
        let time = if self.has_timestamp { WallTime::from_ns(now_ns) } else { WallTime::default() };
        let built = &mut cursor.built;
        (built.tv_sec, built.tv_usec, built.tv_nsec) = (time.sec, time.usec, time.nsec);
        self.count_in_flow(cursor);
        // IPv6 headers have no such number.
        if !self.is_ipv6 {
            cursor.ip_id = cursor.ip_id.wrapping_add(1);
        }
        cursor.repeats_left = self.repeats;
        if let Some(ipsec) = &self.ipsec {
            ipsec.draw_iv(cursor);
        }
    }

    fn advance(&self, cursor: &mut Cursor) {
        if self.is_constant {
            // What the rest would do, in a fifth of the time.
            (cursor.built.src_mac_offset, cursor.built.dst_mac_offset) = (0, 0);
            (cursor.queue, cursor.queue_started) = (self.queue.min as u16, true);
            return;
        }
        let flow = self.pick_flow(cursor);
        cursor.built.src_mac_offset =
            step_offset(&self.src_mac_offset, &mut cursor.src_mac_offset, &mut cursor.rng);
        cursor.built.dst_mac_offset =
            step_offset(&self.dst_mac_offset, &mut cursor.dst_mac_offset, &mut cursor.rng);
        self.draw_tags(cursor);
        cursor.udp_src = step_port(&self.udp_src, cursor.udp_src, &mut cursor.rng);
        cursor.udp_dst = step_port(&self.udp_dst, cursor.udp_dst, &mut cursor.rng);
        if self.is_ipv6 {
            self.draw_v6(cursor);
        } else {
            cursor.src_v4 = Ipv4Addr::from(step(&self.src_v4, u32::from(cursor.src_v4), &mut cursor.rng));
            self.step_dst_v4(cursor, flow);
        }
        self.step_size(cursor);
        self.step_queue(cursor);
        if let Some(flow) = flow {
            cursor.flows[flow].count += 1;
        }
    }

    /// The flow of the next frame; closes it first when it has had its frames.
    fn pick_flow(&self, cursor: &mut Cursor) -> Option<usize> {
        if self.flow_count == 0 {
            return None;
        }
        if self.flow_sequential {
            let current = &mut cursor.flows[cursor.flow_index as usize];
            if current.count >= self.flow_len {
                *current = Flow { count: 0, is_open: false, ..*current };
                cursor.flow_index = (cursor.flow_index + 1) % self.flow_count;
            }
        } else {
            cursor.flow_index = cursor.rng.below(self.flow_count);
            let drawn = &mut cursor.flows[cursor.flow_index as usize];
            if drawn.count > self.flow_len {
                *drawn = Flow { count: 0, is_open: false, ..*drawn };
            }
        }
        Some(cursor.flow_index as usize)
    }

    fn draw_tags(&self, cursor: &mut Cursor) {
        for index in (0..self.mpls_count).filter(|index| self.mpls_random >> index & 1 != 0) {
            cursor.mpls[index] = MPLS_BOTTOM | (cursor.rng.next_u32() & 0x000f_ffff);
        }
        if self.vlan_random {
            cursor.vlan_id = cursor.rng.below(4096) as u16;
        }
        if self.svlan_random {
            cursor.svlan_id = cursor.rng.below(4096) as u16;
        }
    }

    fn step_dst_v4(&self, cursor: &mut Cursor, flow: Option<usize>) {
        if let Some(open) = flow.map(|flow| cursor.flows[flow]).filter(|flow| flow.is_open) {
            cursor.dst_v4 = Ipv4Addr::from(open.dst_v4);
            return;
        }
        let next = if self.dst_v4.walk == Walk::Random {
            self.draw_destination(cursor)
        } else {
            step(&self.dst_v4, u32::from(cursor.dst_v4), &mut cursor.rng)
        };
        cursor.dst_v4 = Ipv4Addr::from(next);
        if let Some(flow) = flow {
            cursor.flows[flow] = Flow { dst_v4: next, is_open: true, ..cursor.flows[flow] };
            cursor.flows_started = cursor.flows_started.wrapping_add(1);
            if let Some(source) = cursor.flow_sources.get_mut(flow) {
                *source = cursor.src_v4;
            }
        }
    }

    /// A uniform random address of the pools. pktgen tries again until it hits one, which may never
    /// end.
    fn draw_destination(&self, cursor: &mut Cursor) -> u32 {
        let [first, second, third] = self.dst_v4_pools;
        let mut place = cursor.rng.below(first.1 + second.1 + third.1);
        for (start, count) in [first, second] {
            if place < count {
                return start + place;
            }
            place -= count;
        }
        third.0 + place
    }

    fn draw_v6(&self, cursor: &mut Cursor) {
        let Some((set, allowed)) = self.dst_v6_masks else { return };
        let mut address = [0u8; 16];
        for (word, bytes) in address.chunks_exact_mut(4).enumerate() {
            let part = |from: Ipv6Addr| (from.to_bits() >> (96 - 32 * word)) as u32;
            bytes.copy_from_slice(&((cursor.rng.next_u32() | part(set)) & part(allowed)).to_be_bytes());
        }
        cursor.dst_v6 = Ipv6Addr::from(address);
    }

    fn step_size(&self, cursor: &mut Cursor) {
        if self.imix.sizes.is_empty() {
            cursor.frame_size = step(&self.frame_size, cursor.frame_size, &mut cursor.rng);
            return;
        }
        let draw = cursor.rng.next_u32();
        let entry = self.imix.last.iter().position(|last| draw <= *last).unwrap_or(self.imix.last.len() - 1);
        cursor.frame_size = self.imix.sizes[entry];
        cursor.imix_counts[entry] += 1;
    }

    /// A queue that is not in the range (as on a fresh device) is followed by the first one of the
    /// range.
    fn step_queue(&self, cursor: &mut Cursor) {
        let Range { walk, min, max } = self.queue;
        let current = u32::from(cursor.queue);
        let next = match walk {
            Walk::Fixed => min,
            Walk::Random => min + cursor.rng.below(max - min + 1),
            Walk::Count if !cursor.queue_started || current < min || current >= max => min,
            Walk::Count => current + 1,
        };
        cursor.queue_started = true;
        cursor.queue = (next % u32::from(self.queue_count)) as u16;
    }

    /// Writes the frame of the cursor.
    fn write(&self, cursor: &Cursor, out: &mut [u8]) -> usize {
        match &self.ipsec {
            None => self.write_clear(cursor, cursor.frame_size, out),
            Some(associations) => self.write_protected(associations, cursor, out),
        }
    }

    /// Writes the frame of the cursor, protected by IPsec; 0 when it has no association.
    fn write_protected(&self, associations: &FlowAssociations, cursor: &Cursor, out: &mut [u8]) -> usize {
        let Some(association) = associations.current(cursor) else { return 0 };
        let frame_size = cursor.frame_size.saturating_sub(association.header_len() as u32);
        let clear_len = self.write_clear(cursor, frame_size, out);
        association.protect(&cursor.built.numbers, out, self.layout.ip, clear_len)
    }

    /// Writes it in clear, with the requested length `frame_size`.
    fn write_clear(&self, cursor: &Cursor, frame_size: u32, out: &mut [u8]) -> usize {
        let payload_len = self.payload_len(frame_size);
        let frame_len = self.layout.pktgen_header + payload_len as usize;
        let (header, zeros) = out[..frame_len].split_at_mut(self.layout.end);
        header.copy_from_slice(&self.header);
        zeros.fill(0);
        let moved = if self.is_constant {
            ChecksumDelta::default()
        } else {
            self.write_moving(cursor, payload_len, header)
        };
        self.write_variable(cursor, &moved, header);
        frame_len
    }

    /// Writes the fields that are variable in some plans.
    fn write_moving(&self, cursor: &Cursor, payload_len: u32, header: &mut [u8]) -> ChecksumDelta {
        if self.dst_mac_offset.walk != Walk::Fixed {
            header[..6].copy_from_slice(&self.dst_mac.offset(cursor.built.dst_mac_offset).0);
        }
        if self.src_mac_offset.walk != Walk::Fixed {
            header[6..12].copy_from_slice(&self.src_mac.offset(cursor.built.src_mac_offset).0);
        }
        self.write_tags(cursor, header);
        let udp_len = if self.size_moves() { payload_len + 8 } else { 0 };
        let addresses = self.write_ip(cursor, header, udp_len);
        let ip_len = if udp_len != 0 { udp_len + 20 } else { 0 };
        ChecksumDelta {
            ip_sum: addresses + u64::from(ip_len),
            // The pseudo header has the length once more.
            udp_sum: addresses + self.write_udp(cursor, header, udp_len) + 2 * u64::from(udp_len),
        }
    }

    /// Writes the fields that are variable in every plan, and the checksums.
    fn write_variable(&self, cursor: &Cursor, moved: &ChecksumDelta, header: &mut [u8]) {
        let built = &cursor.built;
        if !self.is_ipv6 {
            let ip: &mut [u8; 20] = header[self.layout.ip..].first_chunk_mut().expect("an IPv4 header");
            ip[4..6].copy_from_slice(&built.ip_id.to_be_bytes());
            let sum = u64::from(self.ip_sum) + u64::from(built.ip_id) + moved.ip_sum;
            ip[10..12].copy_from_slice(&checksum::finish(sum).to_be_bytes());
        }
        let signature = &mut header[self.layout.pktgen_header..];
        let sum = self.signature.write(built, signature, u64::from(self.udp_sum) + moved.udp_sum);
        if self.has_udp_checksum {
            // Zero would mean "no checksum" (RFC 768).
            let checksum = Some(checksum::finish(sum)).filter(|sum| *sum != 0).unwrap_or(0xffff);
            put_u16(header, self.layout.udp + 6, checksum);
        }
    }

    fn write_tags(&self, cursor: &Cursor, header: &mut [u8]) {
        if self.vlan_random {
            put_u16(header, self.layout.vlan, self.vlan_tci | cursor.vlan_id);
        }
        if self.svlan_random {
            put_u16(header, self.layout.svlan, self.svlan_tci | cursor.svlan_id);
        }
        for index in
            (0..self.mpls_count.min(MPLS_LABELS_MAX)).filter(|index| self.mpls_random >> index & 1 != 0)
        {
            let bottom = if index + 1 == self.mpls_count { MPLS_BOTTOM } else { 0 };
            put_u32(header, self.layout.mpls + 4 * index, cursor.mpls[index] & !MPLS_BOTTOM | bottom);
        }
    }

    /// Writes the variable fields of the IP header and returns the sum of the variable addresses.
    /// The UDP length is 0 when it is constant and in the template.
    fn write_ip(&self, cursor: &Cursor, header: &mut [u8], udp_len: u32) -> u64 {
        let ip = self.layout.ip;
        let mut addresses = 0;
        if self.is_ipv6 {
            if udp_len != 0 {
                put_u16(header, ip + 4, udp_len as u16);
            }
            if self.destination_moves() {
                addresses = put_address(header, ip + 24, &cursor.dst_v6.octets());
            }
            return addresses;
        }
        if udp_len != 0 {
            put_u16(header, ip + 2, (udp_len + 20) as u16);
        }
        if self.src_v4.walk != Walk::Fixed {
            addresses += put_address(header, ip + 12, &cursor.src_v4.octets());
        }
        if self.destination_moves() {
            addresses += put_address(header, ip + 16, &cursor.dst_v4.octets());
        }
        addresses
    }

    /// Writes the variable fields of the UDP header and returns the sum of the variable ports.
    fn write_udp(&self, cursor: &Cursor, header: &mut [u8], udp_len: u32) -> u64 {
        let udp = self.layout.udp;
        let mut ports = 0;
        if self.udp_src.walk != Walk::Fixed {
            put_u16(header, udp, cursor.udp_src);
            ports += u64::from(cursor.udp_src);
        }
        if self.udp_dst.walk != Walk::Fixed {
            put_u16(header, udp + 2, cursor.udp_dst);
            ports += u64::from(cursor.udp_dst);
        }
        if udp_len != 0 {
            put_u16(header, udp + 4, udp_len as u16);
        }
        ports
    }
}

/// The sums over what [`Plan::write_moving`] wrote, as far as checksums cover it.
#[derive(Default)]
struct ChecksumDelta {
    ip_sum: u64,
    udp_sum: u64,
}

/// Writes an address and returns the sum over it.
fn put_address(header: &mut [u8], at: usize, address: &[u8]) -> u64 {
    header[at..at + address.len()].copy_from_slice(address);
    checksum::add(0, address)
}

/// A range whose last value is sent when counting and never drawn when random.
fn step(range: &Range, current: u32, rng: &mut crate::Rng) -> u32 {
    match range.walk {
        Walk::Fixed => current,
        Walk::Random => range.min + rng.below(range.max - range.min),
        Walk::Count if current < range.max => current + 1,
        Walk::Count => range.min,
    }
}

/// A range whose end is never sent.
fn step_port(range: &Range, current: u16, rng: &mut crate::Rng) -> u16 {
    match range.walk {
        Walk::Count if u32::from(current) + 1 >= range.max => range.min as u16,
        _ => step(range, u32::from(current), rng) as u16,
    }
}

/// An offset that is used first and moved on then.
fn step_offset(range: &Range, next: &mut u32, rng: &mut crate::Rng) -> u32 {
    match range.walk {
        Walk::Fixed => 0,
        Walk::Random => rng.below(range.max),
        Walk::Count => {
            let used = *next;
            *next = if used.wrapping_add(1) >= range.max { 0 } else { used + 1 };
            used
        }
    }
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, DeviceFacts, Flags, ImixEntry, MacAddr, XmitMode, sample};

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
        let mut cursor = Cursor::default();
        (cursor.src_v6, cursor.dst_v6) = (config.src6, config.dst6);
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
        let mut cursor = Cursor { ip_id: 7, ..Cursor::default() };
        let mut send = |flags| {
            let mut config = Config { flags, ..base() };
            config.prepare(&facts());
            cursor.start(&config, &facts(), 1);
            let plan = Plan::new(&config, &facts(), &cursor).unwrap();
            let mut bytes = vec![0; plan.frame_len_max() as usize];
            plan.emit(&mut cursor, NOON, &mut bytes);
            cursor.ip_id
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

    /// The short way of plans in which nothing moves, against the long one.
    #[test]
    fn a_plan_that_stands_still_sends_what_it_would_send_if_it_moved() {
        for flag in [Flags::UDPCSUM, Flags::NO_TIMESTAMP, Flags::IPV6] {
            let mut config = Config { vlan_id: Some(5), mpls: vec![0x100], clone_skb: 2, ..base() };
            config.flags.set(flag, true);
            let (still, mut cursor) = planned(config, &facts());
            assert!(still.is_constant);
            let moving = Plan { is_constant: false, ..still.clone() };
            let mut other = cursor.clone();
            let [mut left, mut right] = [(); 2].map(|()| vec![0xee; still.frame_len_max() as usize]);
            // The id of IPv4 comes round once.
            for _ in 0..140_000 {
                still.emit(&mut cursor, NOON, &mut left);
                moving.emit(&mut other, NOON, &mut right);
                assert_eq!(left, right);
            }
            assert_eq!(cursor, other);
        }
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
}
