//! The plan of all frames of a run: a header template, the rule for each variable field, and the
//! length.
//!
//! A plan is made once from a [`Config`] and the facts of its device, and is the same for every
//! engine. It holds numbers only, so that the BPF program can use the same plan
//! (`bpf/src/bpf/shared.h`) and a test can compare the two byte for byte. `emit` writes frames from
//! a plan. Semantics: Linux 7.3 pktgen, sections 4 to 6 of the specification. A plan of other
//! frames holds a general plan instead.

use crate::flow_sa::FlowAssociations;
use crate::general::GeneralPlan;
use crate::wire::{ETHERNET_LEN, FRAME_LEN_MAX, FrameClock, IPV4_LEN, IPV6_LEN, PKTGEN_MAGIC, UDP_LEN};
use crate::{Config, Cursor, DeviceFacts, Flags, MacAddr, PlanError, SignatureSetting, checksum};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Most labels in an MPLS stack.
pub const MPLS_LABELS_MAX: usize = 16;
/// Most entries in an internet mix.
pub const IMIX_ENTRIES_MAX: usize = 20;
/// Most flows.
pub const FLOWS_MAX: u32 = 65_536;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_MPLS: u16 = 0x8847;
const HOP_LIMIT: u8 = 32;
const PROTOCOL_UDP: u8 = 17;
/// Bottom-of-stack bit of an MPLS label stack entry.
pub(crate) const MPLS_BOTTOM: u32 = 0x100;
/// The same bit in a setting: this label is random.
pub const MPLS_RANDOM: u32 = MPLS_BOTTOM;

/// How a field changes from frame to frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// Constant.
    #[default]
    Fixed,
    /// Incremented, back to the start after the end.
    Count,
    /// Random.
    Random,
}

impl Walk {
    fn new(moves: bool, random: bool) -> Self {
        match (moves, random) {
            (false, _) => Self::Fixed,
            (true, false) => Self::Count,
            (true, true) => Self::Random,
        }
    }
}

/// A numeric field and its range. What `max` means depends on the field: see [`Plan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// How it changes.
    pub walk: Walk,
    /// First or only value.
    pub min: u32,
    /// Last value or end.
    pub max: u32,
}

impl Range {
    fn new(min: u32, max: u32, random: bool) -> Self {
        Self { walk: Walk::new(min < max, random), min, max }
    }

    /// The greatest value of a range whose `max` is included when counting and excluded when random.
    fn greatest(&self) -> u32 {
        if self.walk == Walk::Random { self.max - 1 } else { self.max.max(self.min) }
    }
}

/// Offsets in the header template, in bytes from the Ethernet destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Outer VLAN TCI; 0 when there is none.
    pub svlan: usize,
    /// VLAN TCI; 0 when there is none.
    pub vlan: usize,
    /// First MPLS entry; 0 when there is none.
    pub mpls: usize,
    /// IPv4 or IPv6 header.
    pub ip: usize,
    /// UDP header.
    pub udp: usize,
    /// Signature, which begins with the pktgen header.
    pub pktgen_header: usize,
    /// End of the headers, start of the zeros.
    pub end: usize,
}

/// An internet mix, prepared for selection: the first entry whose `last[i]` is not below a random
/// 32-bit number is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imix {
    /// Frame lengths.
    pub sizes: Vec<u32>,
    /// Last random number that selects the entry.
    pub last: Vec<u32>,
}

/// The plan of the frames of one device instance on one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// All headers: constant fields are filled in, variable ones are zero.
    pub header: Vec<u8>,
    /// Its offsets.
    pub layout: Layout,
    /// True for IPv6, false for IPv4.
    pub is_ipv6: bool,
    /// Base of the source addresses.
    pub src_mac: MacAddr,
    /// Count or draw below `max`; the first is offset 0.
    pub src_mac_offset: Range,
    /// Base of the destination addresses.
    pub dst_mac: MacAddr,
    /// As `src_mac_offset`.
    pub dst_mac_offset: Range,
    /// Entries of the MPLS stack that get a random label, by bit from the outermost.
    pub mpls_random: u16,
    /// Number of MPLS entries.
    pub mpls_count: usize,
    /// The VLAN id is random.
    pub vlan_random: bool,
    /// The outer VLAN id is random.
    pub svlan_random: bool,
    /// TCI without the id.
    pub vlan_tci: u16,
    /// Outer TCI without the id.
    pub svlan_tci: u16,
    /// Source ports, `max` excluded.
    pub udp_src: Range,
    /// Destination ports, `max` excluded.
    pub udp_dst: Range,
    /// IPv4 sources: `max` included when counting, excluded when random.
    pub src_v4: Range,
    /// IPv4 destinations: as `src_v4`.
    pub dst_v4: Range,
    /// The pools of random IPv4 destinations: up to three ranges of (first, length).
    pub dst_v4_pools: [(u32, u32); 3],
    /// Bits set in a random IPv6 destination, and bits allowed; `None` for a fixed one.
    pub dst_v6_masks: Option<(Ipv6Addr, Ipv6Addr)>,
    /// Requested frame lengths: `max` included when counting, excluded when random.
    pub frame_size: Range,
    /// The mix; empty when not used.
    pub imix: Imix,
    /// Header bytes that `frame_size` includes beside Ethernet, IP and UDP; fixed when a run
    /// starts.
    pub overhead: u32,
    /// Transmit queues, `max` included.
    pub queue: Range,
    /// Queues of the device; at least 1.
    pub queue_count: u16,
    /// Number of flows, 0 for none.
    pub flow_count: u32,
    /// Frames of one flow.
    pub flow_len: u32,
    /// Flows are visited one after the other instead of at random.
    pub flow_sequential: bool,
    /// Times each frame is sent; at least 1.
    pub repeats: u32,
    /// The UDP checksum is filled in.
    pub has_udp_checksum: bool,
    /// The signature carries the time.
    pub has_timestamp: bool,
    /// The signature at the start of the payload.
    pub signature: SignatureSetting,
    /// Checksum of the constant part of the IPv4 header.
    pub ip_sum: u32,
    /// Checksum of the constant part of the UDP pseudo header, the UDP header and the pktgen
    /// header.
    pub udp_sum: u32,
    /// The security associations of the frames; `None` for frames in clear.
    pub ipsec: Option<FlowAssociations>,
    /// Only the sequence number, the time and the IPv4 id change from frame to frame.
    pub(crate) is_constant: bool,
    /// The frames, if they are not pktgen's; `header` is then the first packet, and no other rule
    /// of this plan applies.
    pub general: Option<Arc<GeneralPlan>>,
}

impl Plan {
    /// Makes the plan of a started device instance ([`Cursor::start`] set its `overhead`).
    ///
    /// # Errors
    /// [`PlanError`] for settings that give no frame.
    pub fn new(config: &Config, facts: &DeviceFacts, cursor: &Cursor) -> Result<Self, PlanError> {
        let flags = config.flags;
        let is_ipv6 = flags.has(Flags::IPV6);
        check_limits(config)?;
        let addresses = |first: Ipv4Addr, last: Ipv4Addr, random| {
            Range::new(first.into(), last.into(), flags.has(random))
        };
        let (first, last) = config.sources(facts);
        let src_v4 = addresses(first, last, Flags::IPSRC_RND);
        let [first, last] = [config.dst_min, config.dst_max].map(|end| end.unwrap_or(Ipv4Addr::UNSPECIFIED));
        let dst_v4 = addresses(first, last, Flags::IPDST_RND);
        let (header, layout) = template(config, is_ipv6);
        let clones = if flags.has(Flags::SHARED) { config.clone_skb.max(1) as u32 } else { 1 };
        let mut plan = Self {
            is_ipv6,
            src_mac: if config.src_mac.is_zero() { facts.mac } else { config.src_mac },
            src_mac_offset: offsets(config.src_mac_count, flags.has(Flags::MACSRC_RND)),
            dst_mac: config.dst_mac,
            dst_mac_offset: offsets(config.dst_mac_count, flags.has(Flags::MACDST_RND)),
            mpls_random: random_labels(config),
            mpls_count: config.mpls.len(),
            vlan_random: config.vlan_id.is_some() && flags.has(Flags::VID_RND),
            svlan_random: config.svlan_id.is_some() && flags.has(Flags::SVID_RND),
            vlan_tci: tci(config.vlan_p, config.vlan_cfi),
            svlan_tci: tci(config.svlan_p, config.svlan_cfi),
            udp_src: ports(config.udp_src_min, config.udp_src_max, flags.has(Flags::UDPSRC_RND)),
            udp_dst: ports(config.udp_dst_min, config.udp_dst_max, flags.has(Flags::UDPDST_RND)),
            src_v4,
            dst_v4_pools: allowed_destinations(&dst_v4),
            dst_v4,
            dst_v6_masks: (!config.dst6_min.is_unspecified()).then_some((config.dst6_min, config.dst6_max)),
            frame_size: sizes(config, cursor),
            imix: if config.min_pkt_size < config.max_pkt_size { Imix::default() } else { imix(config) },
            overhead: cursor.overhead,
            queue: queues(config, facts, cursor),
            queue_count: facts.tx_queues.max(1),
            flow_count: config.flows,
            flow_len: config.flow_len,
            flow_sequential: flags.has(Flags::FLOW_SEQ),
            repeats: clones.saturating_mul(config.frames_each_call()),
            has_udp_checksum: flags.has(Flags::UDPCSUM),
            has_timestamp: !flags.has(Flags::NO_TIMESTAMP),
            signature: config.signature,
            ip_sum: 0,
            udp_sum: 0,
            ipsec: FlowAssociations::new(config, cursor)?,
            is_constant: false,
            general: None,
            header,
            layout,
        };
        plan.is_constant = plan.has_no_variable();
        plan.check_destinations()?;
        plan.check_associations(cursor)?;
        plan.fill_in(cursor);
        plan.sum();
        Ok(plan)
    }

    /// The plan of other frames than pktgen's, with at least one packet, and the cursor before its
    /// first frame.
    pub fn of_packets(general: GeneralPlan, facts: &DeviceFacts) -> (Self, Cursor) {
        let cursor = Cursor { seq_num: 1, general: general.start(), ..Cursor::default() };
        let plan = Self {
            header: general.packets().first().map(|packet| packet.template.clone()).unwrap_or_default(),
            queue_count: facts.tx_queues.max(1),
            repeats: 1,
            general: Some(Arc::new(general)),
            ..Self::default()
        };
        (plan, cursor)
    }

    /// True if the frames have a VLAN tag, for which a device accepts four bytes beyond its MTU.
    pub fn is_tagged(&self) -> bool {
        match &self.general {
            Some(general) => general.packets().iter().all(|packet| packet.is_tagged()),
            None => self.layout.vlan != 0 || self.layout.svlan != 0,
        }
    }

    /// The clock whose time the frames carry.
    pub fn clock(&self) -> FrameClock {
        if self.general.is_some() { FrameClock::Monotonic } else { FrameClock::Wall }
    }

    /// The longest possible frame, in bytes without FCS.
    pub fn frame_len_max(&self) -> u32 {
        if let Some(general) = &self.general {
            return general.frame_len_max() as u32;
        }
        let asked = match self.imix.sizes.iter().max() {
            Some(longest) => *longest,
            None => self.frame_size.greatest(),
        };
        let clear_len = |header_len: u32| self.frame_len(asked.saturating_sub(header_len));
        self.ipsec
            .as_ref()
            .map_or_else(|| clear_len(0), |ipsec| ipsec.frame_len_max(self.layout.ip, clear_len))
    }

    /// The real length of a frame in clear with the requested length `frame_size`: at least its
    /// headers and the bytes of its signature, and longer by tags that were added during the
    /// run.
    pub fn frame_len(&self, frame_size: u32) -> u32 {
        self.payload_len(frame_size) + self.layout.pktgen_header as u32
    }

    /// Bytes after the UDP header of a frame with the requested length `frame_size`.
    pub(crate) fn payload_len(&self, frame_size: u32) -> u32 {
        frame_size.saturating_sub(self.fixed_len()).max(self.signature.level.byte_count() as u32)
    }

    /// The part of the requested length that is not payload.
    pub fn fixed_len(&self) -> u32 {
        let ip_len = if self.is_ipv6 { IPV6_LEN } else { IPV4_LEN };
        (ETHERNET_LEN + ip_len + UDP_LEN) as u32 + self.overhead
    }

    fn check_destinations(&self) -> Result<(), PlanError> {
        let total: u64 = self.dst_v4_pools.iter().map(|(_, count)| u64::from(*count)).sum();
        if self.is_ipv6 || self.dst_v4.walk != Walk::Random || total > 0 {
            return Ok(());
        }
        Err(PlanError::NoDestination {
            min: Ipv4Addr::from(self.dst_v4.min),
            max: Ipv4Addr::from(self.dst_v4.max),
        })
    }

    /// Every possible frame has an association and fits into a packet with it.
    fn check_associations(&self, cursor: &Cursor) -> Result<(), PlanError> {
        let Some(ipsec) = &self.ipsec else { return Ok(()) };
        if ipsec.only.is_none() {
            for (flow, src) in cursor.flows.iter().zip(&cursor.flow_sources).filter(|(flow, _)| flow.is_open)
            {
                ipsec.check(Ipv4Addr::from(flow.dst_v4), *src)?;
            }
            // Of one more destination than there are associations, at least one has none.
            let enough = ipsec.associations.address_count() + 1;
            for dst in self.destinations(cursor).take(enough) {
                for src in self.sources(cursor).take(enough) {
                    ipsec.check(dst, src)?;
                }
            }
        }
        match self.frame_len_max() {
            frame_len if frame_len > FRAME_LEN_MAX => Err(PlanError::TooLong { frame_len }),
            _ => Ok(()),
        }
    }

    fn destinations(&self, cursor: &Cursor) -> Box<dyn Iterator<Item = Ipv4Addr>> {
        let Range { walk, min, max } = self.dst_v4;
        let pools = match walk {
            Walk::Fixed => [(cursor.dst_v4.into(), 1), (0, 0), (0, 0)],
            Walk::Count => [(min, max - min), (max, 1), (0, 0)],
            Walk::Random => self.dst_v4_pools,
        };
        let addresses =
            |(first, count): (u32, u32)| (0..count).map(move |index| Ipv4Addr::from(first + index));
        Box::new(pools.into_iter().flat_map(addresses))
    }

    fn sources(&self, cursor: &Cursor) -> Box<dyn Iterator<Item = Ipv4Addr>> {
        let Range { walk, min, max } = self.src_v4;
        match walk {
            Walk::Fixed => Box::new(std::iter::once(cursor.src_v4)),
            Walk::Count => Box::new((min..=max).map(Ipv4Addr::from)),
            Walk::Random => Box::new((min..max).map(Ipv4Addr::from)),
        }
    }

    /// True when the length differs from frame to frame; that of frames with IPsec depends on their
    /// association.
    pub fn size_moves(&self) -> bool {
        if let Some(general) = &self.general {
            return general.size_moves();
        }
        self.frame_size.walk != Walk::Fixed || !self.imix.sizes.is_empty() || self.ipsec.is_some()
    }

    /// True when the destination address differs from frame to frame.
    pub fn destination_moves(&self) -> bool {
        match self.is_ipv6 {
            true => self.dst_v6_masks.is_some(),
            false => self.dst_v4.walk != Walk::Fixed || self.flow_count > 0,
        }
    }

    fn has_no_variable(&self) -> bool {
        let ranges = [
            &self.src_mac_offset,
            &self.dst_mac_offset,
            &self.udp_src,
            &self.udp_dst,
            &self.src_v4,
            &self.dst_v4,
            &self.queue,
        ];
        ranges.iter().all(|range| range.walk == Walk::Fixed)
            && !(self.size_moves() || self.destination_moves() || self.vlan_random || self.svlan_random)
            && self.mpls_random == 0
            && self.flow_count == 0
    }

    /// Writes the constant fields into the template.
    fn fill_in(&mut self, cursor: &Cursor) {
        if self.dst_mac_offset.walk == Walk::Fixed {
            self.header[..6].copy_from_slice(&self.dst_mac.0);
        }
        if self.src_mac_offset.walk == Walk::Fixed {
            self.header[6..12].copy_from_slice(&self.src_mac.0);
        }
        let (ip, udp) = (self.layout.ip, self.layout.udp);
        let (source, destination) = if self.is_ipv6 { (ip + 8, ip + 24) } else { (ip + 12, ip + 16) };
        if self.is_ipv6 {
            self.put(source, &cursor.src_v6.octets());
        } else if self.src_v4.walk == Walk::Fixed {
            self.put(source, &cursor.src_v4.octets());
        }
        match (self.destination_moves(), self.is_ipv6) {
            (true, _) => {}
            (false, true) => self.put(destination, &cursor.dst_v6.octets()),
            (false, false) => self.put(destination, &cursor.dst_v4.octets()),
        }
        if self.udp_src.walk == Walk::Fixed {
            self.put(udp, &cursor.udp_src.to_be_bytes());
        }
        if self.udp_dst.walk == Walk::Fixed {
            self.put(udp + 2, &cursor.udp_dst.to_be_bytes());
        }
        if !self.size_moves() {
            let udp_len = self.payload_len(cursor.frame_size) as u16 + UDP_LEN as u16;
            let (ip_len_at, ip_len) =
                if self.is_ipv6 { (ip + 4, udp_len) } else { (ip + 2, udp_len + IPV4_LEN as u16) };
            self.put(ip_len_at, &ip_len.to_be_bytes());
            self.put(udp + 4, &udp_len.to_be_bytes());
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.header[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Computes the checksums of the constant part. The UDP length counts twice: in its header and
    /// in the pseudo header.
    fn sum(&mut self) {
        let Layout { ip, udp, end, .. } = self.layout;
        let addresses = if self.is_ipv6 { ip + 8..udp } else { ip + 12..udp };
        if !self.is_ipv6 {
            self.ip_sum = checksum::add(0, &self.header[ip..udp]) as u32;
        }
        let parts = [&self.header[addresses], &self.header[udp..end], &self.header[udp + 4..udp + 6]];
        let sum = parts.into_iter().fold(u64::from(PROTOCOL_UDP), checksum::add);
        self.udp_sum = sum as u32;
    }
}

fn check_limits(config: &Config) -> Result<(), PlanError> {
    let longest = config.imix.iter().map(|entry| entry.size).max().unwrap_or(0);
    let random = config.flags.has(Flags::TXSIZE_RND);
    let sizes = Range::new(config.min_pkt_size, config.max_pkt_size, random);
    let frame_len = longest.max(sizes.greatest());
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

fn offsets(count: u32, random: bool) -> Range {
    Range { walk: Walk::new(count > 1, random), min: 0, max: count }
}

fn ports(min: u16, max: u16, random: bool) -> Range {
    Range::new(u32::from(min), u32::from(max), random)
}

/// A constant size is that of the last frame, which is neither end when a mix was removed during a
/// run.
fn sizes(config: &Config, cursor: &Cursor) -> Range {
    let random = config.flags.has(Flags::TXSIZE_RND);
    let range = Range::new(config.min_pkt_size, config.max_pkt_size, random);
    match (range.walk, cursor.frame_size) {
        (Walk::Fixed, size @ 1..) => Range { min: size, max: size, ..range },
        _ => range,
    }
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
        Range::new(min, max, config.flags.has(Flags::QUEUE_MAP_RND))
    }
}

fn tci(priority: u8, drop_eligible: u8) -> u16 {
    u16::from(priority & 7) << 13 | u16::from(drop_eligible & 1) << 12
}

fn random_labels(config: &Config) -> u16 {
    if !config.flags.has(Flags::MPLS_RND) {
        return 0;
    }
    let marked = |(index, label): (usize, &u32)| u16::from(label & MPLS_BOTTOM != 0) << index;
    config.mpls.iter().enumerate().map(marked).sum()
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

/// The parts of `[min, max)` for random destinations: without 0.0.0.0/8, 127.0.0.0/8,
/// 224.0.0.0/4 and the broadcast address.
fn allowed_destinations(range: &Range) -> [(u32, u32); 3] {
    const POOLS: [(u32, u32); 3] =
        [(0x0100_0000, 0x7f00_0000), (0x8000_0000, 0xe000_0000), (0xf000_0000, 0xffff_ffff)];
    POOLS.map(|(first, end)| {
        let (first, end) = (first.max(range.min), end.min(range.max));
        (first, end.saturating_sub(first))
    })
}

/// All headers, with variable fields zero, and their offsets.
fn template(config: &Config, is_ipv6: bool) -> (Vec<u8>, Layout) {
    let mut layout = Layout::default();
    let mut bytes = vec![0; 12];
    let inner = if is_ipv6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
    if !config.mpls.is_empty() {
        bytes.extend(ETHERTYPE_MPLS.to_be_bytes());
        layout.mpls = bytes.len();
        bytes.extend(label_stack(&config.mpls));
    } else {
        let tags = [
            (&mut layout.svlan, config.svlan_id, config.svlan_type),
            (&mut layout.vlan, config.vlan_id, config.vlan_type),
        ];
        for (place, id, ethertype) in tags {
            if let Some(id) = id {
                bytes.extend(ethertype.to_be_bytes());
                *place = bytes.len();
                bytes.extend(id.to_be_bytes());
            }
        }
        bytes.extend(inner.to_be_bytes());
    }
    add_tag_priorities(config, &layout, &mut bytes);
    layout.ip = bytes.len();
    if is_ipv6 {
        bytes.extend((0x6000_0000 | u32::from(config.traffic_class) << 20).to_be_bytes());
        bytes.extend([0, 0, PROTOCOL_UDP, HOP_LIMIT]);
        bytes.extend([0; 32]);
    } else {
        bytes.extend([0x45, config.tos, 0, 0, 0, 0, 0, 0, HOP_LIMIT, PROTOCOL_UDP, 0, 0]);
        bytes.extend([0; 8]);
    }
    layout.udp = bytes.len();
    bytes.extend([0; UDP_LEN]);
    layout.pktgen_header = bytes.len();
    bytes.extend(config.signature.template(PKTGEN_MAGIC));
    layout.end = bytes.len();
    (bytes, layout)
}

fn add_tag_priorities(config: &Config, layout: &Layout, bytes: &mut [u8]) {
    let tags = [
        (layout.svlan, tci(config.svlan_p, config.svlan_cfi)),
        (layout.vlan, tci(config.vlan_p, config.vlan_cfi)),
    ];
    for (place, priority) in tags {
        if place != 0 {
            bytes[place] |= priority.to_be_bytes()[0];
        }
    }
}

/// Labels as sent: the bottom-of-stack bit on the last and on no other.
fn label_stack(labels: &[u32]) -> Vec<u8> {
    let last = labels.len() - 1;
    let entry = |(index, label): (usize, &u32)| {
        let bottom = if index == last { MPLS_BOTTOM } else { 0 };
        (label & !MPLS_BOTTOM | bottom).to_be_bytes()
    };
    labels.iter().enumerate().flat_map(entry).collect()
}
