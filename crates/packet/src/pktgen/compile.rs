//! pktgen's settings as a plan: a header template, the rule for each variable field, the length.
//!
//! A plan is made once from a [`Config`] and the facts of its device, and is the same for every
//! engine. pktgen excludes the end of port ranges and of random ranges, and counts ports, addresses
//! and sizes before the first frame. The order of the fields is the order of its random numbers
//! (Linux 7.3, sections 4 to 6 of the specification).

use super::template::{Layout, MPLS_BOTTOM, PROTOCOL_UDP, template};
use super::{Config, DeviceFacts, Flags, MPLS_LABELS_MAX};
use crate::flow_sa::FlowAssociations;
use crate::plan::{
    ChecksumField, Field, FieldMode, FlowRule, FrameSpec, Imix, LengthRule, PacketOrder, PacketPlan, Plan,
    PseudoHeader, Range, SumKind, SumPlan, Walk,
};
use crate::wire::{ETHERNET_LEN, FRAME_LEN_MAX, IPV4_LEN, IPV6_LEN, UDP_LEN};
use crate::{Cursor, MacAddr, PlanError, Slot};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Most entries in an internet mix.
pub const IMIX_ENTRIES_MAX: usize = 20;
/// Most flows.
pub const FLOWS_MAX: u32 = 65_536;

impl Range {
    /// The values from `min` to `max`, without the last one if the end is excluded. A range of one
    /// value or a reversed one is that of `min`.
    fn new(min: u32, max: u32, random: bool, is_end_excluded: bool) -> Self {
        let walk = match (min < max, random) {
            (false, _) => Walk::Fixed,
            (true, false) => Walk::Count,
            (true, true) => Walk::Random,
        };
        let excluded = u32::from(is_end_excluded && walk != Walk::Fixed);
        Self { walk, min, max: max - excluded }
    }

    /// The greatest value.
    fn greatest(&self) -> u32 {
        self.max.max(self.min)
    }

    /// Its values; `None` for one value.
    fn mode(&self) -> Option<FieldMode> {
        let (min, max) = (self.min.into(), self.max.into());
        match self.walk {
            Walk::Fixed => None,
            Walk::Count => Some(FieldMode::Step { min, max }),
            Walk::Random => Some(FieldMode::Random { min, max }),
        }
    }
}

impl Plan {
    /// Makes the plan of a started device instance ([`Cursor::start`] set its `overhead`).
    ///
    /// # Errors
    /// [`PlanError`] for settings that give no frame.
    pub fn new(config: &Config, facts: &DeviceFacts, cursor: &Cursor) -> Result<Self, PlanError> {
        check_limits(config)?;
        let frames = PktgenFrames::new(config, facts, cursor);
        frames.check_destinations()?;
        let ipsec = FlowAssociations::of_flows(config, cursor, frames.layout.ip)?;
        let (packet, length) = frames.packet(ipsec.is_some());
        let destination = packet.slots.iter().position(|slot| *slot == Slot::DST_V4.0);
        let plan = Self {
            packets: vec![packet],
            order: PacketOrder::RoundRobin,
            length: Some(length),
            flows: FlowRule {
                count: config.flows,
                len: config.flow_len,
                is_sequential: config.flags.has(Flags::FLOW_SEQ),
                field: destination.filter(|_| config.flows > 0),
            },
            repeats: repeats(config),
            queue: queues(config, facts, cursor),
            queue_count: facts.tx_queues.max(1),
            signature: config.signature,
            layout: frames.layout,
            ipsec,
            clock: None,
        };
        frames.check_associations(&plan)?;
        Ok(plan.with_clock())
    }

    /// The real length of a frame in clear with the requested length `frame_size`: at least its
    /// headers and the bytes of its signature, and longer by tags that were added during the
    /// run.
    pub fn frame_len(&self, frame_size: u32) -> u32 {
        self.length.map_or(0, |length| length.frame_len(frame_size))
    }
}

/// The frames of a configuration, while their plan is made.
struct PktgenFrames<'a> {
    config: &'a Config,
    facts: &'a DeviceFacts,
    cursor: &'a Cursor,
    header: Vec<u8>,
    layout: Layout,
    src_v4: Range,
    dst_v4: Range,
}

/// Fields with the places of their states.
#[derive(Default)]
struct Fields(Vec<(Field, usize)>);

impl Fields {
    /// Adds a field of all bits of `width` bytes, if it has a mode.
    fn add(&mut self, offset: usize, width: usize, slot: Slot, mode: Option<FieldMode>) {
        self.0.extend(mode.map(|mode| (Field::whole(offset, width, mode), slot.0)));
    }

    /// Lets addresses and ports keep each value for `hold` frames.
    fn hold_addresses(&mut self, hold: u32) {
        let is_address = |slot: usize| Slot::ADDRESSES.iter().any(|address| address.0 == slot);
        for (field, _) in self.0.iter_mut().filter(|(_, slot)| is_address(*slot)) {
            field.hold = hold;
        }
    }

    /// Adds a field of the bits of a mask.
    fn add_bits(&mut self, offset: usize, width: usize, mask: u64, slot: Slot, mode: FieldMode) {
        self.0.push((Field { mask, ..Field::whole(offset, width, mode) }, slot.0));
    }
}

impl<'a> PktgenFrames<'a> {
    fn new(config: &'a Config, facts: &'a DeviceFacts, cursor: &'a Cursor) -> Self {
        let flags = config.flags;
        let (header, layout) = template(config, flags.has(Flags::IPV6));
        let (first, last) = config.sources(facts);
        let range = |first: Ipv4Addr, last: Ipv4Addr, random| {
            let random = flags.has(random);
            Range::new(first.into(), last.into(), random, random && !config.are_ends_included)
        };
        let src_v4 = range(first, last, Flags::IPSRC_RND);
        let [first, last] = [config.dst_min, config.dst_max].map(|end| end.unwrap_or(Ipv4Addr::UNSPECIFIED));
        let dst_v4 = range(first, last, Flags::IPDST_RND);
        Self { config, facts, cursor, header, layout, src_v4, dst_v4 }
    }

    fn is_ipv6(&self) -> bool {
        self.config.flags.has(Flags::IPV6)
    }

    fn has(&self, flag: Flags) -> bool {
        self.config.flags.has(flag)
    }

    /// The packet, and the lengths of its frames.
    fn packet(&self, has_ipsec: bool) -> (PacketPlan, LengthRule) {
        let size = self.size();
        let moves = size.is_some() || has_ipsec;
        let length = self.length();
        let mut fields = self.addresses();
        fields.hold_addresses(self.config.hold);
        fields.add(0, 0, Slot::FRAME_SIZE, size);
        self.add_lengths(&mut fields, moves);
        self.add_signature(&mut fields);
        let payload_len = length.payload_len(self.cursor[Slot::FRAME_SIZE] as u32);
        let template = self.filled_in(if moves { None } else { Some(payload_len) });
        let (fields, slots): (Vec<Field>, Vec<usize>) = fields.0.into_iter().unzip();
        let spec = FrameSpec { template, fields, checksums: self.checksums(), ..FrameSpec::default() };
        let mut sums = SumPlan::of(&spec);
        if let Some(udp) = sums.iter_mut().find(|sum| sum.checksum.kind == SumKind::Udp) {
            // The pseudo header has the length of the datagram, which zeros follow.
            udp.subtract((udp.checksum.end - udp.checksum.start) as u16);
            match moves {
                true => udp.read_again(self.layout.udp + 4),
                false => udp.add(payload_len as u16 + UDP_LEN as u16),
            }
        }
        (PacketPlan { template: spec.template, fields: spec.fields, slots, sums }, length)
    }

    /// How lengths change: an internet mix, unless there is a range.
    fn size(&self) -> Option<FieldMode> {
        let range = self.sizes();
        match range.walk {
            Walk::Fixed if !self.config.imix.is_empty() => Some(FieldMode::Mix(Arc::new(imix(self.config)))),
            _ => range.mode(),
        }
    }

    /// A constant size is that of the last frame, which is neither end when a mix was removed
    /// during a run.
    fn sizes(&self) -> Range {
        let range = size_range(self.config);
        match (range.walk, self.cursor[Slot::FRAME_SIZE] as u32) {
            (Walk::Fixed, size @ 1..) => Range { min: size, max: size, ..range },
            _ => range,
        }
    }

    fn length(&self) -> LengthRule {
        let sizes = self.sizes();
        let longest = self.config.imix.iter().map(|entry| entry.size).max();
        let ip_len = if self.is_ipv6() { IPV6_LEN } else { IPV4_LEN };
        LengthRule {
            headers_len: self.layout.pktgen_header as u32,
            fixed_len: (ETHERNET_LEN + ip_len + UDP_LEN) as u32 + self.cursor.overhead,
            payload_min: self.config.signature.level.byte_count() as u32,
            size_max: longest.filter(|_| sizes.walk == Walk::Fixed).unwrap_or(sizes.greatest()),
            slot: Slot::FRAME_SIZE.0,
        }
    }

    /// MAC addresses, tags, ports and IP addresses, in pktgen's order.
    fn addresses(&self) -> Fields {
        let (config, Layout { ip, udp, .. }) = (self.config, self.layout);
        let mut fields = Fields::default();
        for (offset, slot, base, count, random) in [
            (7, Slot::SRC_MAC_OFFSET, self.src_mac(), config.src_mac_count, Flags::MACSRC_RND),
            (1, Slot::DST_MAC_OFFSET, config.dst_mac, config.dst_mac_count, Flags::MACDST_RND),
        ] {
            fields.add(offset, 5, slot, offsets(base, count, self.has(random)));
        }
        self.add_tags(&mut fields);
        for (offset, slot, min, max, random) in [
            (udp, Slot::UDP_SRC, config.udp_src_min, config.udp_src_max, Flags::UDPSRC_RND),
            (udp + 2, Slot::UDP_DST, config.udp_dst_min, config.udp_dst_max, Flags::UDPDST_RND),
        ] {
            let is_excluded = !config.are_ends_included;
            let range = Range::new(min.into(), max.into(), self.has(random), is_excluded);
            fields.add(offset, 2, slot, range.mode());
        }
        if self.is_ipv6() {
            let range = |last: Option<Ipv6Addr>, first: Ipv6Addr, random| {
                low_range(first, last.filter(|last| *last > first)?, self.has(random))
            };
            let sources = range(config.src6_last, config.src6, Flags::IPSRC_RND);
            fields.add(ip + 16, 8, Slot::SRC_V6_LOW, sources);
            if config.dst6_last.is_some() {
                let destinations = range(config.dst6_last, config.dst6, Flags::IPDST_RND);
                fields.add(ip + 32, 8, Slot::DST_V6_LOW, destinations);
            } else if !config.dst6_min.is_unspecified() {
                let (set, allowed) = (config.dst6_min.to_bits(), config.dst6_max.to_bits());
                let bits = |shift: u32| {
                    let [set, allowed] = [set, allowed].map(|bits| (bits >> shift) as u64);
                    Some(FieldMode::Bits { is_long: true, set, allowed })
                };
                fields.add(ip + 24, 8, Slot::DST_V6_HIGH, bits(64));
                fields.add(ip + 32, 8, Slot::DST_V6_LOW, bits(0));
            }
            return fields;
        }
        fields.add(ip + 12, 4, Slot::SRC_V4, self.src_v4.mode());
        let destination = match self.dst_v4.walk {
            Walk::Random => Some(FieldMode::Pools(allowed_destinations(&self.dst_v4))),
            Walk::Fixed if config.flows > 0 => Some(FieldMode::Kept),
            _ => self.dst_v4.mode(),
        };
        fields.add(ip + 16, 4, Slot::DST_V4, destination);
        fields
    }

    /// Random labels and ids.
    fn add_tags(&self, fields: &mut Fields) {
        let config = self.config;
        for (index, label) in config.mpls.iter().enumerate() {
            if self.has(Flags::MPLS_RND) && label & MPLS_BOTTOM != 0 {
                let mode = FieldMode::Bits { is_long: false, set: MPLS_BOTTOM.into(), allowed: 0x000f_ffff };
                let mask = u64::from(!MPLS_BOTTOM);
                fields.add_bits(self.layout.mpls + 4 * index, 4, mask, Slot::mpls(index), mode);
            }
        }
        for (id, random, offset, slot) in [
            (config.vlan_id, Flags::VID_RND, self.layout.vlan, Slot::VLAN),
            (config.svlan_id, Flags::SVID_RND, self.layout.svlan, Slot::SVLAN),
        ] {
            // pktgen draws an id behind MPLS labels, too, and does not send it.
            if id.is_some() && self.has(random) {
                let mask = if offset == 0 { 0 } else { 0x0fff };
                fields.add_bits(offset, 2, mask, slot, FieldMode::Random { min: 0, max: 4095 });
            }
        }
    }

    fn add_lengths(&self, fields: &mut Fields, moves: bool) {
        let Layout { ip, udp, .. } = self.layout;
        if moves {
            let udp_len = UDP_LEN as u32;
            match self.is_ipv6() {
                true => fields.add(ip + 4, 2, Slot::IP_LEN, Some(FieldMode::Length(udp_len))),
                false => {
                    let ip_len = FieldMode::Length(udp_len + IPV4_LEN as u32);
                    fields.add(ip + 2, 2, Slot::IP_LEN, Some(ip_len));
                }
            }
            fields.add(udp + 4, 2, Slot::UDP_LEN, Some(FieldMode::Length(udp_len)));
        }
        if !self.is_ipv6() {
            let first = self.cursor[Slot::IP_ID];
            let mode = FieldMode::Increment { first, min: 0, max: 0xffff, step: 1, wrap: 0x1_0000 };
            fields.add(ip + 4, 2, Slot::IP_ID, Some(mode));
        }
    }

    /// The fields of the signature that differ from frame to frame.
    fn add_signature(&self, fields: &mut Fields) {
        let all = self.config.signature.fields(!self.has(Flags::NO_TIMESTAMP));
        for ((offset, width, mode), slot) in all.into_iter().zip(Slot::SIGNATURE) {
            fields.add(self.layout.pktgen_header + offset, width, slot, mode);
        }
    }

    fn src_mac(&self) -> MacAddr {
        if self.config.src_mac.is_zero() { self.facts.mac } else { self.config.src_mac }
    }

    /// The template with its constant fields, and with the lengths of a constant payload.
    fn filled_in(&self, payload_len: Option<u32>) -> Vec<u8> {
        let (cursor, Layout { ip, udp, .. }) = (self.cursor, self.layout);
        let mut header = self.header.clone();
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.config.dst_mac.0);
        put(6, &self.src_mac().0);
        match self.is_ipv6() {
            true => {
                put(ip + 8, &cursor.src_v6.octets());
                put(ip + 24, &cursor.dst_v6().octets());
            }
            false => {
                put(ip + 12, &cursor.src_v4().octets());
                put(ip + 16, &cursor.dst_v4().octets());
            }
        }
        put(udp, &(cursor[Slot::UDP_SRC] as u16).to_be_bytes());
        put(udp + 2, &(cursor[Slot::UDP_DST] as u16).to_be_bytes());
        if let Some(payload_len) = payload_len {
            let udp_len = payload_len as u16 + UDP_LEN as u16;
            match self.is_ipv6() {
                true => put(ip + 4, &udp_len.to_be_bytes()),
                false => put(ip + 2, &(udp_len + IPV4_LEN as u16).to_be_bytes()),
            }
            put(udp + 4, &udp_len.to_be_bytes());
        }
        header
    }

    fn checksums(&self) -> Vec<ChecksumField> {
        let Layout { ip, udp, end, .. } = self.layout;
        let sum = |offset, start, end, pseudo_header, kind| ChecksumField {
            offset,
            start,
            end,
            pseudo_header,
            kind,
            is_wrong: false,
        };
        let mut sums = Vec::new();
        let protocol = PROTOCOL_UDP;
        let pseudo_header = match self.is_ipv6() {
            true => PseudoHeader::Ipv6 { header: ip, protocol },
            false => {
                sums.push(sum(ip + 10, ip, udp, PseudoHeader::None, SumKind::Internet));
                PseudoHeader::Ipv4 { header: ip, protocol }
            }
        };
        if self.has(Flags::UDPCSUM) {
            sums.push(sum(udp + 6, udp, end, pseudo_header, SumKind::Udp));
        }
        sums
    }

    fn check_destinations(&self) -> Result<(), PlanError> {
        let total: u64 = allowed_destinations(&self.dst_v4).iter().map(|(_, count)| u64::from(*count)).sum();
        if self.is_ipv6() || self.dst_v4.walk != Walk::Random || total > 0 {
            return Ok(());
        }
        let [min, max] = [self.dst_v4.min, self.dst_v4.max].map(Ipv4Addr::from);
        Err(PlanError::NoDestination { min, max })
    }

    /// Every possible frame has an association and fits into a packet with it.
    fn check_associations(&self, plan: &Plan) -> Result<(), PlanError> {
        let Some(ipsec) = &plan.ipsec else { return Ok(()) };
        let cursor = self.cursor;
        if ipsec.only.is_none() {
            for (flow, src) in cursor.flows.iter().zip(&cursor.flow_sources).filter(|(flow, _)| flow.is_open)
            {
                ipsec.check(Ipv4Addr::from(flow.value as u32), *src)?;
            }
            // Of one more destination than there are associations, at least one has none.
            let enough = ipsec.associations.address_count() + 1;
            for dst in self.destinations().take(enough) {
                for src in self.sources().take(enough) {
                    ipsec.check(dst, src)?;
                }
            }
        }
        plan.check_lengths()
    }

    fn destinations(&self) -> Box<dyn Iterator<Item = Ipv4Addr>> {
        let Range { walk, min, max } = self.dst_v4;
        let pools = match walk {
            Walk::Fixed => [(self.cursor.dst_v4().into(), 1), (0, 0), (0, 0)],
            Walk::Count => [(min, max - min), (max, 1), (0, 0)],
            Walk::Random => allowed_destinations(&self.dst_v4),
        };
        let addresses =
            |(first, count): (u32, u32)| (0..count).map(move |index| Ipv4Addr::from(first + index));
        Box::new(pools.into_iter().flat_map(addresses))
    }

    fn sources(&self) -> Box<dyn Iterator<Item = Ipv4Addr>> {
        let Range { walk, min, max } = self.src_v4;
        match walk {
            Walk::Fixed => Box::new(std::iter::once(self.cursor.src_v4())),
            Walk::Count | Walk::Random => Box::new((min..=max).map(Ipv4Addr::from)),
        }
    }
}

fn check_limits(config: &Config) -> Result<(), PlanError> {
    let longest = config.imix.iter().map(|entry| entry.size).max().unwrap_or(0);
    let frame_len = longest.max(size_range(config).greatest());
    if frame_len > FRAME_LEN_MAX {
        return Err(PlanError::TooLong { frame_len });
    }
    let tables = [
        ("mpls", config.mpls.len(), MPLS_LABELS_MAX),
        ("imix_weights", config.imix.len(), IMIX_ENTRIES_MAX),
        ("flows", config.flows as usize, FLOWS_MAX as usize),
    ];
    match tables.into_iter().find(|(_, value, max)| value > max) {
        Some((what, value, max)) => Err(PlanError::TooMany { what, value, max }),
        None => Ok(()),
    }
}

/// The requested lengths.
fn size_range(config: &Config) -> Range {
    let random = config.flags.has(Flags::TXSIZE_RND);
    Range::new(config.min_pkt_size, config.max_pkt_size, random, random && !config.are_ends_included)
}

/// The last eight bytes of IPv6 addresses that have the first eight in common.
fn low_range(first: Ipv6Addr, last: Ipv6Addr, random: bool) -> Option<FieldMode> {
    let (min, max) = (first.to_bits() as u64, last.to_bits() as u64);
    Some(if random { FieldMode::Random { min, max } } else { FieldMode::Step { min, max } })
}

/// The offsets of a MAC address; `None` for one address.
fn offsets(base: MacAddr, count: u32, random: bool) -> Option<FieldMode> {
    let base = base.0[1..].iter().fold(0, |base, byte| base << 8 | u64::from(*byte));
    let count = count.into();
    (count > 1).then_some(match random {
        true => FieldMode::RandomOffset { base, count },
        false => FieldMode::Offset { base, count },
    })
}

fn imix(config: &Config) -> Imix {
    let total: u128 = config.imix.iter().map(|entry| u128::from(entry.weight)).sum();
    let mut result = Imix::default();
    let mut cumulative = 0u128;
    for entry in &config.imix {
        cumulative += u128::from(entry.weight);
        // An entry whose share is below 2^-32 cannot be selected by 32 bits; its successor is.
        let end = (cumulative << 32) / total.max(1);
        result.sizes.push(entry.size);
        result.last.push(end.saturating_sub(1) as u32);
    }
    result
}

impl Plan {
    /// Sends each frame as often, and by the queues, that the settings of a run say.
    #[must_use]
    pub fn sent_as(self, config: &Config, facts: &DeviceFacts) -> Self {
        Self { repeats: repeats(config), queue: queues(config, facts, &Cursor::default()), ..self }
    }
}

/// Times each frame is sent.
fn repeats(config: &Config) -> u32 {
    let clones = if config.flags.has(Flags::SHARED) { config.clone_skb.max(1) as u32 } else { 1 };
    clones.saturating_mul(config.frames_each_call())
}

/// A range of one queue is constant; a reversed range keeps the current queue.
fn queues(config: &Config, facts: &DeviceFacts, cursor: &Cursor) -> Range {
    let count = u32::from(facts.tx_queues.max(1));
    let fixed = |queue: u32| Range { walk: Walk::Fixed, min: queue % count, max: queue % count };
    let (min, max) = (u32::from(config.queue_map_min), u32::from(config.queue_map_max));
    if config.flags.has(Flags::QUEUE_MAP_CPU) {
        fixed(facts.cpu)
    } else if min > max {
        fixed(u32::from(cursor.queue))
    } else if min == max {
        fixed(min)
    } else {
        Range::new(min, max, config.flags.has(Flags::QUEUE_MAP_RND), false)
    }
}

/// The parts of a range for random destinations: without 0.0.0.0/8, 127.0.0.0/8,
/// 224.0.0.0/4 and the broadcast address.
fn allowed_destinations(range: &Range) -> [(u32, u32); 3] {
    const POOLS: [(u32, u32); 3] =
        [(0x0100_0000, 0x7f00_0000), (0x8000_0000, 0xe000_0000), (0xf000_0000, 0xffff_ffff)];
    POOLS.map(|(first, end)| {
        let (first, end) = (first.max(range.min), end.min(range.max.saturating_add(1)));
        (first, end.saturating_sub(first))
    })
}
