//! The edits of one packet after another.
//!
//! Order within a packet: tags, lengths, fields, maps, steps of the loop, checksums.

use super::anonymize::{AnonymizeKey, Anonymizer};
use super::counts::EditCounts;
use super::fields::{FieldValue, HeaderChoice};
use super::groups::{GroupDestination, mac_of_group, solicited_group};
use super::lengths;
use super::maps::{AddressRule, MacMap, PortMap};
use super::tags::{InnerTag, TagEdits};
use super::tracked::{self, TrackedSum};
use crate::outer::{tag_count, word};
use crate::per_loop::{PerLoop, step_address, step_mac};
use packet::headers::{
    AddressKind, AddressPlace, AddressRole, EndCause, FirstHeader, Header, NoSum, Protocol, SumFinder,
    SumPlace, SumProtocol, Walk, WalkEnd, for_each_address, ipv4, ipv6, is_plain_and_right, port_places,
};
use std::collections::HashSet;
use std::net::IpAddr;

/// What happens to checksums beside those that an edit changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumPolicy {
    /// Right ones stay right, wrong ones as wrong as they were.
    #[default]
    Keep,
    /// Those of whole packets are computed anew.
    Fix,
}

/// A field that is set in one header of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldEdit {
    /// Which header.
    pub choice: HeaderChoice,
    /// The field with its value.
    pub value: FieldValue,
}

/// What changes in every frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// VLAN tags.
    pub tags: TagEdits,
    /// Fields that are set.
    pub fields: Vec<FieldEdit>,
    /// Maps of IP addresses; the first that contains an address applies.
    pub address_rules: Vec<AddressRule>,
    /// Maps of MAC addresses; the first that has an address applies.
    pub mac_maps: Vec<MacMap>,
    /// Maps of ports; the first that contains a port applies.
    pub port_maps: Vec<PortMap>,
    /// Encrypts the addresses that no map applies to.
    pub anonymize: Option<AnonymizeKey>,
    /// Checksums.
    pub checksums: ChecksumPolicy,
}

/// What an edit of a frame depends on beside the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EditOptions<'a> {
    /// Its first header.
    pub(crate) first: FirstHeader,
    /// Sums of the steps per loop.
    pub(crate) steps: &'a PerLoop,
    /// Addresses of clients, which have steps of their own.
    pub(crate) clients: &'a HashSet<IpAddr>,
    /// Length fields are lowered to what the frame has.
    pub(crate) shrinks: bool,
    /// The packet counts in the report.
    pub(crate) counts: bool,
}

/// What gave an address its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappedBy {
    /// A map of addresses.
    Rule,
    /// The key of the anonymizer.
    Key,
}

/// Kinds of fields that the edits need, or that a packet has: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FieldKinds(u8);

impl FieldKinds {
    const NONE: Self = Self(0);
    const MAC: Self = Self(1);
    /// IP addresses, also those of ARP.
    const ADDRESS: Self = Self(2);
    /// Other fields of IP headers.
    const IP: Self = Self(4);
    const PORTS: Self = Self(8);
    const ALL: Self = Self(0xff);

    /// The kind in the headers inside a tunnel.
    const fn inner(self) -> Self {
        Self(self.0 << 4)
    }

    #[inline]
    fn add(&mut self, kind: Self) {
        self.0 |= kind.0;
    }

    /// The kinds that maps write, wherever they stand.
    fn mapped(edits: &Edits) -> Self {
        let mut kinds = Self::NONE;
        let is_anonymous = edits.anonymize.is_some();
        let maps = [
            (is_anonymous || !edits.mac_maps.is_empty(), Self::MAC),
            (is_anonymous || !edits.address_rules.is_empty(), Self::ADDRESS),
            (!edits.port_maps.is_empty(), Self::PORTS),
        ];
        maps.into_iter().filter(|(is_given, _)| *is_given).for_each(|(_, kind)| kinds.add(kind));
        kinds
    }

    /// The kinds that some edit reads or writes.
    fn needed(edits: &Edits) -> Self {
        let mut kinds = Self::mapped(edits);
        if edits.mac_maps.is_empty() {
            // A key encrypts the MAC addresses that there are: a packet may have none.
            kinds = kinds.and(Self::ADDRESS.or(Self::PORTS));
        }
        if edits.tags.is_inner() {
            kinds.add(Self::MAC.inner());
        }
        for FieldEdit { choice, value } in &edits.fields {
            let kind = match value {
                FieldValue::DstMac(_) | FieldValue::SrcMac(_) => Self::MAC,
                FieldValue::DstPort(_) | FieldValue::SrcPort(_) => Self::PORTS,
                FieldValue::Dst(IpAddr::V4(_)) | FieldValue::Src(IpAddr::V4(_)) => Self::ADDRESS,
                _ => Self::IP,
            };
            kinds.add(if *choice == HeaderChoice::Innermost { kind.inner() } else { kind });
        }
        kinds
    }

    #[inline]
    fn see(&mut self, frame: &[u8], header: &Header) {
        if header.is_quoted {
            return;
        }
        let kind = match header.protocol {
            Protocol::Ethernet => Self::MAC,
            Protocol::Sll | Protocol::Sll2 => return self.add(Self::MAC),
            Protocol::Arp => Self::ADDRESS,
            Protocol::Ipv4 | Protocol::Ipv6 => Self::ADDRESS.or(Self::IP),
            protocol if protocol.has_ports() && port_places(frame, header).is_some() => Self::PORTS,
            _ => return,
        };
        self.add(kind);
        if header.depth > 0 {
            self.add(kind.inner());
        }
    }

    /// The kinds that may be behind the end of a walk.
    fn behind(end: &WalkEnd) -> Self {
        match end {
            WalkEnd { is_quoted: true, .. } => Self::ADDRESS.or(Self::PORTS),
            WalkEnd { is_arp: true, .. } => Self::MAC.or(Self::ADDRESS),
            _ => Self::ALL,
        }
    }

    /// The kinds of either.
    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The kinds that both have.
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if a packet with the kinds of `self` has all that are `needed`.
    #[inline]
    fn has(self, needed: Self) -> bool {
        needed.0 & !self.0 == 0
    }
}

/// Edits frames. Its lists are used again for each frame.
#[derive(Debug)]
pub(crate) struct Editor {
    edits: Edits,
    needed: FieldKinds,
    mapped: FieldKinds,
    anonymizer: Option<Anonymizer>,
    headers: Vec<Header>,
    sums: Vec<TrackedSum>,
    places: Vec<AddressPlace>,
    groups: Vec<GroupDestination>,
    /// Parts of the frame that may have fields that could not be reached.
    hidden: Vec<WalkEnd>,
    /// A port would have changed under a checksum of which the packet has only a part.
    has_fixed_ports: bool,
    /// The frame is cut within VLAN tags that an edit reads.
    has_cut_tags: bool,
    pub(crate) counts: EditCounts,
}

impl Editor {
    pub(crate) fn new(edits: Edits) -> Self {
        let mut counts = EditCounts::default();
        counts.uses.fields = vec![0; edits.fields.len()];
        counts.uses.address_rules = vec![0; edits.address_rules.len()];
        counts.uses.mac_maps = vec![0; edits.mac_maps.len()];
        counts.uses.port_maps = vec![0; edits.port_maps.len()];
        Self {
            needed: FieldKinds::needed(&edits),
            mapped: FieldKinds::mapped(&edits),
            anonymizer: edits.anonymize.as_ref().map(Anonymizer::new),
            edits,
            headers: Vec::new(),
            sums: Vec::new(),
            places: Vec::new(),
            groups: Vec::new(),
            hidden: Vec::new(),
            has_fixed_ports: false,
            has_cut_tags: false,
            counts,
        }
    }

    /// Counts the wrong checksums of a frame that is not edited.
    #[inline]
    pub(crate) fn inspect(&mut self, frame: &[u8], first: FirstHeader) {
        if first == FirstHeader::Ethernet && is_plain_and_right(frame) {
            return;
        }
        self.inspect_headers(frame, first);
    }

    fn inspect_headers(&mut self, frame: &[u8], first: FirstHeader) {
        let mut finder = SumFinder::default();
        for header in Walk::new(frame, first) {
            let sum = finder.see(frame, &header);
            if let Some(sum) = sum.filter(|sum| sum.is_right(frame) == Some(false)) {
                self.counts.wrong_sums.add(sum.protocol);
            }
        }
    }

    /// Edits a frame. Returns the reason if a field that an edit needs could not be reached.
    pub(crate) fn apply(&mut self, frame: &mut Vec<u8>, options: &EditOptions<'_>) -> Option<EndCause> {
        let EditOptions { first, steps, clients, shrinks, counts } = *options;
        let is_ethernet = first == FirstHeader::Ethernet;
        self.has_cut_tags =
            self.edits.tags.is_outer() && !self.edits.tags.apply(frame, first, &mut self.counts.uses.tags);
        if is_ethernet && steps.vlan != 0 && tag_count(frame) > 0 {
            let tag = u16::from_be_bytes([frame[14], frame[15]]);
            let tag = tag & 0xf000 | tag.wrapping_add(steps.vlan) & 0x0fff;
            frame[14..16].copy_from_slice(&tag.to_be_bytes());
        }
        let (mut found, mut end) = self.find(frame, first);
        let is_shrunk = shrinks && lengths::shrink(frame, &self.headers);
        if is_shrunk {
            (found, end) = self.find(frame, first);
        }
        self.check_sums(frame, is_shrunk, counts);
        self.set_fields(frame);
        self.map(frame, clients, steps.clients);
        self.see_end(frame, end);
        if self.anonymizer.is_some() {
            self.clear_cut_addresses(frame);
        }
        self.step(frame, steps);
        self.follow_groups(frame);
        tracked::finish(frame, &mut self.sums);
        let cause = self.not_edited(frame, found, &end)?;
        if counts {
            self.counts.not_edited.count(cause);
        }
        Some(cause)
    }

    /// The reason if a field that an edit needs could not be reached.
    fn not_edited(&self, frame: &[u8], mut found: FieldKinds, end: &WalkEnd) -> Option<EndCause> {
        if end.cause == EndCause::Payload
            && self.hidden.is_empty()
            && !self.has_cut_tags
            && !self.has_fixed_ports
        {
            return None;
        }
        // What an error quotes is reached by maps only. It has ports, or a protocol without them.
        let needed = if end.is_quoted { self.mapped } else { self.needed };
        if end.is_quoted && (end.cause != EndCause::Cut || self.has_quoted_ports(frame)) {
            found.add(FieldKinds::PORTS);
        }
        // The last header itself may be the one that is cut.
        let last = self.headers.last().map(|header| header.protocol);
        let is_over =
            end.cause == EndCause::Cut && last.is_some_and(|protocol| protocol.is_last_without_ports());
        if !is_over && may_hide(end.cause) && !found.has(needed.and(FieldKinds::behind(end))) {
            return Some(end.cause);
        }
        // A map reaches all headers, not only the outermost ones.
        let hidden = self.hidden.first().filter(|_| self.mapped != FieldKinds::NONE).map(|end| end.cause);
        let cut_tags = self.has_cut_tags.then_some(EndCause::Cut);
        hidden.or(cut_tags).or(self.has_fixed_ports.then_some(EndCause::Fragment))
    }

    fn has_quoted_ports(&self, frame: &[u8]) -> bool {
        self.headers.iter().any(|header| header.is_quoted && port_places(frame, header).is_some())
    }

    /// Notes the end of the walk if fields may be in clear in the bytes behind it.
    fn see_end(&mut self, frame: &[u8], end: WalkEnd) {
        let visible_end = self.headers.last().map_or(frame.len(), |header| header.visible_end);
        let is_in_clear = may_hide(end.cause) && end.cause != EndCause::Encrypted;
        let may_be_mapped = self.mapped.and(FieldKinds::behind(&end)) != FieldKinds::NONE;
        if is_in_clear && may_be_mapped && end.at < visible_end {
            self.hidden.push(end);
        }
    }

    /// Writes zeros over what a cut header has of its addresses. Nothing is behind it.
    fn clear_cut_addresses(&mut self, frame: &mut [u8]) {
        for WalkEnd { at, cause, .. } in &self.hidden {
            if *cause == EndCause::Cut {
                (*at..frame.len()).for_each(|at| tracked::write(frame, &mut self.sums, at, &[0]));
            }
        }
    }

    /// Finds headers, checksums and groups of a frame.
    fn find(&mut self, frame: &[u8], first: FirstHeader) -> (FieldKinds, WalkEnd) {
        self.headers.clear();
        self.sums.clear();
        self.groups.clear();
        self.hidden.clear();
        self.has_fixed_ports = false;
        let (mut found, mut finder, mut ethernet) = (FieldKinds::default(), SumFinder::default(), None);
        let mut walk = Walk::new(frame, first);
        loop {
            // The fields are read from where the walker wrote them. A copy of the whole header
            // reads wider words, for which the processor waits until the writes are done.
            let next = walk.next();
            let Some(header) = &next else { break };
            found.see(frame, header);
            if let Some(sum) = finder.see(frame, header) {
                self.sums.push(TrackedSum::new(sum));
            }
            match header.protocol {
                Protocol::Ethernet => ethernet = Some((header.at, header.depth)),
                Protocol::Ipv4 | Protocol::Ipv6 if !header.is_quoted => {
                    let (offset, len) = match header.protocol {
                        Protocol::Ipv4 => (ipv4::DST_AT, 4),
                        _ => (ipv6::DST_AT, 16),
                    };
                    let dst_at = header.at + offset;
                    let dst = &frame[dst_at..dst_at + len];
                    let link = ethernet.filter(|(_, depth)| *depth == header.depth);
                    if let Some((ethernet_at, _)) = link.filter(|_| mac_of_group(dst).is_some()) {
                        let mut before = [0; 16];
                        before[..len].copy_from_slice(dst);
                        self.groups.push(GroupDestination { ethernet_at, dst_at, len, before });
                    }
                }
                _ => {}
            }
            self.headers.push(*header);
        }
        (found, walk.end())
    }

    /// Checks all checksums and notes the right ones where they are to be written. Those of a
    /// packet whose lengths were lowered could not be checked before, and are always written.
    fn check_sums(&mut self, frame: &[u8], is_shrunk: bool, counts: bool) {
        let fixes = is_shrunk || self.edits.checksums == ChecksumPolicy::Fix;
        let mut missing = None;
        for sum in &mut self.sums {
            if !sum.place.is_quoted && sum.place.missing.is_some_and(|why| why != NoSum::NotChecked) {
                missing = sum.place.missing;
            }
            if (!counts && !fixes) || sum.place.is_right(frame) != Some(false) {
                continue;
            }
            if counts && !is_shrunk {
                self.counts.wrong_sums.add(sum.place.protocol);
            }
            if fixes {
                sum.right = sum.computed(frame);
            }
        }
        if let Some(why) = missing.filter(|_| counts && self.edits.checksums == ChecksumPolicy::Fix) {
            self.counts.not_fixed.count(why);
        }
    }

    fn set_fields(&mut self, frame: &mut [u8]) {
        for (number, FieldEdit { choice, value }) in self.edits.fields.iter().enumerate() {
            let mut headers = self.headers.iter().filter(|header| !header.is_quoted);
            let header = match choice {
                HeaderChoice::Outermost => headers.find(|header| value.is_of(frame, header)),
                HeaderChoice::Innermost => {
                    headers.rfind(|header| header.depth > 0 && value.is_of(frame, header))
                }
            };
            if value.is_port() && header.is_some_and(|header| has_fixed_ports(&self.sums, header)) {
                self.has_fixed_ports = true;
            } else if let Some(bytes) = header.and_then(|header| value.bytes(frame, header)) {
                tracked::write(frame, &mut self.sums, bytes.at, bytes.as_slice());
                self.counts.uses.fields[number] += 1;
            }
        }
        if self.needed.and(FieldKinds::MAC.inner()) == FieldKinds::NONE {
            return;
        }
        for (number, uses) in self.counts.uses.tags.inner.iter_mut().enumerate() {
            match self.edits.tags.inner_tag(number, frame, &self.headers) {
                InnerTag::None => {}
                InnerTag::Cut => self.has_cut_tags = true,
                InnerTag::Changed { at, tag } => {
                    tracked::write(frame, &mut self.sums, at, &tag);
                    *uses += 1;
                }
            }
        }
    }

    /// Maps addresses and ports; addresses of `clients` move by `client_step`.
    fn map(&mut self, frame: &mut [u8], clients: &HashSet<IpAddr>, client_step: u32) {
        let edits = &self.edits;
        let maps_ip = !edits.address_rules.is_empty() || edits.anonymize.is_some() || client_step != 0;
        let maps_mac = !edits.mac_maps.is_empty() || edits.anonymize.is_some();
        if maps_ip || maps_mac {
            self.places.clear();
            for header in &self.headers {
                let end = for_each_address(frame, header, &mut |place| {
                    if maps_mac || place.kind != AddressKind::Mac {
                        self.places.push(place);
                    }
                });
                // MAC addresses are only in these, and in forms that are read.
                let has_macs = matches!(header.protocol, Protocol::Arp | Protocol::Icmpv6);
                let may_be_mapped = |end: &WalkEnd| maps_ip || has_macs && end.cause != EndCause::Unknown;
                if let Some(end) = end.filter(|end| end.at < header.visible_end && may_be_mapped(end)) {
                    self.hidden.push(end);
                }
            }
            let places = std::mem::take(&mut self.places);
            for place in &places {
                let is_client = client_step != 0 && is_client(frame, place, clients);
                self.map_address(frame, place);
                if is_client {
                    let mut bytes = [0; 16];
                    bytes[..place.len].copy_from_slice(&frame[place.at..place.at + place.len]);
                    step_address(&mut bytes[..place.len], client_step);
                    tracked::write(frame, &mut self.sums, place.at, &bytes[..place.len]);
                }
            }
            self.places = places;
        }
        if self.edits.port_maps.is_empty() {
            return;
        }
        for header in &self.headers {
            for at in port_places(frame, header).into_iter().flatten() {
                let port = u16::from_be_bytes([frame[at], frame[at + 1]]);
                let maps = self.edits.port_maps.iter().enumerate();
                let Some((number, to)) = maps.filter_map(|(n, map)| Some((n, map.of(port)?))).next() else {
                    continue;
                };
                if has_fixed_ports(&self.sums, header) {
                    self.has_fixed_ports = true;
                    continue;
                }
                self.counts.uses.port_maps[number] += 1;
                tracked::write(frame, &mut self.sums, at, &to.to_be_bytes());
            }
        }
    }

    fn map_address(&mut self, frame: &mut [u8], place: &AddressPlace) {
        let AddressPlace { at, len, kind, role } = *place;
        let Some(old) = frame.get(at..at + len) else { return };
        match kind {
            AddressKind::Mac => {
                let mut mac = *old.first_chunk().expect("a MAC address has 6 bytes");
                if self.map_mac(&mut mac) {
                    tracked::write(frame, &mut self.sums, at, &mac);
                }
            }
            AddressKind::V4 => {
                let mut address: [u8; 4] = *old.first_chunk().expect("an IPv4 address has 4 bytes");
                if self.map_ip(&mut address, role).is_some() {
                    tracked::write(frame, &mut self.sums, at, &address);
                }
            }
            AddressKind::V6 => {
                // A route may have only the first bytes of a prefix.
                let mut address = [0; 16];
                address[..len].copy_from_slice(old);
                let before = address;
                let Some(mapped_by) = self.map_ip(&mut address, role) else { return };
                tracked::write(frame, &mut self.sums, at, &address[..len]);
                if role == AddressRole::SolicitedTarget && mapped_by == MappedBy::Rule {
                    self.follow_target(frame, at, &before, &address);
                }
            }
        }
    }

    /// Maps or encrypts a MAC address; false if it stays.
    #[inline]
    fn map_mac(&mut self, mac: &mut [u8; 6]) -> bool {
        let map = self.edits.mac_maps.iter().position(|map| map.from.0 == *mac);
        *mac = match (map, &self.anonymizer) {
            (Some(number), _) => {
                self.counts.uses.mac_maps[number] += 1;
                self.edits.mac_maps[number].to.0
            }
            (None, Some(anonymizer)) => anonymizer.mac(*mac),
            (None, None) => return false,
        };
        true
    }

    /// Maps or encrypts an IP address of 4 or 16 bytes; nothing if it stays.
    #[inline]
    fn map_ip<const LEN: usize>(&mut self, address: &mut [u8; LEN], role: AddressRole) -> Option<MappedBy> {
        let mut rules = self.edits.address_rules.iter();
        if let Some(number) = rules.position(|rule| rule.reaches(role) && rule.map.apply(address)) {
            self.counts.uses.address_rules[number] += 1;
            return Some(MappedBy::Rule);
        }
        let anonymizer = self.anonymizer.as_mut()?;
        let bytes = &mut address[..];
        if let Ok(v4) = <&mut [u8; 4]>::try_from(&mut *bytes) {
            *v4 = anonymizer.v4(*v4);
        } else if let Ok(v6) = <&mut [u8; 16]>::try_from(bytes) {
            *v6 = anonymizer.v6(*v6);
        }
        Some(MappedBy::Key)
    }

    /// The destination that was the solicited-node group of a target becomes that of the new one.
    fn follow_target(&mut self, frame: &mut [u8], target_at: usize, before: &[u8; 16], after: &[u8; 16]) {
        let group = solicited_group(before);
        let found = self.groups.iter().rfind(|found| found.dst_at < target_at);
        // Without an Ethernet header the group is in no list.
        let is_before = |header: &&Header| header.protocol == Protocol::Ipv6 && header.at < target_at;
        let ip = self.headers.iter().rfind(is_before);
        let dst_at = found.map(|found| found.dst_at).or(ip.map(|header| header.at + ipv6::DST_AT));
        let Some(dst_at) = dst_at.filter(|at| frame.get(*at..at + 16) == Some(&group)) else { return };
        tracked::write(frame, &mut self.sums, dst_at, &solicited_group(after));
    }

    /// Adds the steps of the loop to the fields of the outermost headers.
    fn step(&mut self, frame: &mut [u8], steps: &PerLoop) {
        if steps.is_none() {
            return;
        }
        let Self { headers, sums, .. } = self;
        let mut headers = headers.iter().filter(|header| !header.is_quoted);
        let with_ports = headers.clone().find(|header| port_places(frame, header).is_some());
        let with_ports = with_ports.filter(|header| !has_fixed_ports(sums, header));
        let mut step = |frame: &mut [u8], at: usize, len: usize, change: &dyn Fn(&mut [u8])| {
            let mut bytes = [0; 16];
            bytes[..len].copy_from_slice(&frame[at..at + len]);
            change(&mut bytes[..len]);
            tracked::write(frame, sums, at, &bytes[..len]);
        };
        if let Some(link) = headers.clone().find(|header| header.protocol == Protocol::Ethernet) {
            step(frame, link.at, 6, &|mac| step_mac(mac, steps.dst_mac));
            step(frame, link.at + 6, 6, &|mac| step_mac(mac, steps.src_mac));
        }
        let is_network = |header: &&Header| header.protocol.is_ip() || header.protocol == Protocol::Arp;
        if let Some(network) = headers.find(is_network) {
            let mut places = [None; 2];
            for_each_address(frame, network, &mut |place| match (place.kind, place.role) {
                (AddressKind::Mac, _) => {}
                (_, AddressRole::Source) => places[0] = Some(place),
                (_, AddressRole::Destination) => places[1] = Some(place),
                _ => {}
            });
            for (place, by) in places.into_iter().zip([steps.src, steps.dst]) {
                if let Some(place) = place {
                    step(frame, place.at, place.len, &|address| step_address(address, by));
                }
            }
        }
        let ports = with_ports.and_then(|header| port_places(frame, header));
        for (at, by) in ports.into_iter().flatten().zip([steps.src_port, steps.dst_port]) {
            let port = word(frame, at).map_or(0, |port| port.wrapping_add(by));
            step(frame, at, 2, &|bytes| bytes.copy_from_slice(&port.to_be_bytes()));
        }
    }

    /// The MAC address of a group becomes that of the group's new address.
    fn follow_groups(&mut self, frame: &mut [u8]) {
        for group in &self.groups {
            if let Some(mac) = group.new_mac(frame) {
                tracked::write(frame, &mut self.sums, group.ethernet_at, &mac);
            }
        }
    }
}

/// True if fields may be behind the end of a walk.
fn may_hide(cause: EndCause) -> bool {
    !matches!(cause, EndCause::Payload | EndCause::Fragment)
}

/// True if a header's checksum covers a whole packet of which this is a fragment, and cannot follow
/// its ports: a CRC depends on the number of bytes behind them.
fn has_fixed_ports(sums: &[TrackedSum], header: &Header) -> bool {
    header.protocol == Protocol::Sctp
        && sums.iter().any(|sum| {
            let SumPlace { protocol, from, missing, .. } = sum.place;
            (protocol, from, missing) == (SumProtocol::Sctp, header.at, Some(NoSum::Fragment))
        })
}

/// True if the address at a place is that of a client.
fn is_client(frame: &[u8], place: &AddressPlace, clients: &HashSet<IpAddr>) -> bool {
    let Some(bytes) = frame.get(place.at..place.at + place.len) else { return false };
    let address = match (place.kind, bytes.len()) {
        (AddressKind::V4, 4) => bytes.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        (AddressKind::V6, 16) => bytes.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    };
    address.is_some_and(|address| clients.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::super::fields::TtlEdit;
    use super::super::maps::MapScope;
    use super::super::tags::{TagFields, VlanEdit};
    use super::*;
    use crate::sample;
    use crate::sample::{Ends, frames, ip, ip_with, udp, udp_to};
    use packet::MacAddr;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::LazyLock;

    static NO_CLIENTS: LazyLock<HashSet<IpAddr>> = LazyLock::new(HashSet::new);

    fn options(first: FirstHeader, steps: &PerLoop, shrinks: bool) -> EditOptions<'_> {
        EditOptions { first, steps, clients: &NO_CLIENTS, shrinks, counts: true }
    }

    fn edited(edits: &Edits, frame: &[u8]) -> Vec<u8> {
        let (mut editor, mut frame) = (Editor::new(edits.clone()), frame.to_vec());
        let steps = PerLoop::default();
        let first = FirstHeader::Ethernet;
        editor.apply(&mut frame, &options(first, &steps, false));
        frame
    }

    fn rules(maps: &[&str]) -> Vec<AddressRule> {
        let rule = |map: &&str| AddressRule { scope: MapScope::Any, map: map.parse().unwrap() };
        maps.iter().map(rule).collect()
    }

    fn maps(is_back: bool) -> Edits {
        let (maps, ports, macs) = if is_back {
            (["11.0.0.0/8=10.0.0.0/8", "fd01::/16=fd00::/16"], (30000, 20000), (9, 1))
        } else {
            (["10.0.0.0/8=11.0.0.0/8", "fd00::/16=fd01::/16"], (20000, 30000), (1, 9))
        };
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        Edits {
            address_rules: rules(&maps),
            mac_maps: vec![MacMap { from: mac(macs.0), to: mac(macs.1) }],
            port_maps: vec![PortMap { first: ports.0, last: ports.0 + 999, to: ports.1, is_range: true }],
            ..Edits::default()
        }
    }

    /// Places of the checksums that are right, and whether all that can be checked are.
    fn all_right(frame: &[u8]) -> bool {
        let mut finder = SumFinder::default();
        let headers = Walk::new(frame, FirstHeader::Ethernet);
        headers.filter_map(|header| finder.see(frame, &header)).all(|sum| sum.is_right(frame) != Some(false))
    }

    fn ends(is_v6: bool, bytes: [u32; 2]) -> Ends {
        let address = |bits: u32| -> IpAddr {
            match is_v6 {
                true => Ipv6Addr::from(0xfd00 << 112 | u128::from(bits) << 60 | u128::from(bits)).into(),
                false => Ipv4Addr::from(10 << 24 | bits & 0xff_ffff).into(),
            }
        };
        Ends { src: address(bytes[0]), dst: address(bytes[1]) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn maps_keep_all_checksums_right_and_mapping_back_gives_the_same_bytes(
            is_v6: bool, a: [u32; 2], b: [u32; 2], ports in (20000u16..21000, 0u16..2000),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let fixes = Edits { checksums: ChecksumPolicy::Fix, ..Edits::default() };
            for frame in frames(ends(is_v6, a), ends(is_v6, b), ports, &payload) {
                prop_assert!(all_right(&frame), "{frame:02x?}");
                prop_assert_eq!(&edited(&fixes, &frame), &frame);
                let there = edited(&maps(false), &frame);
                prop_assert!(there != frame && all_right(&there), "{frame:02x?} {there:02x?}");
                prop_assert_eq!(&edited(&maps(true), &there), &frame);
                // Whole and incremental checksums agree.
                prop_assert_eq!(&edited(&Edits { checksums: ChecksumPolicy::Fix, ..maps(false) }, &frame), &there);
            }
        }

        #[test]
        fn a_wrong_checksum_is_as_wrong_as_it_was_or_mended(
            is_v6: bool, a: [u32; 2], wrong: u16, payload in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            for frame in frames(ends(is_v6, a), ends(is_v6, [a[1], 7]), (20000, 1), &payload) {
                let mut finder = SumFinder::default();
                let sums: Vec<_> =
                    Walk::new(&frame, FirstHeader::Ethernet).filter_map(|h| finder.see(&frame, &h)).collect();
                let Some(sum) = sums.iter().rfind(|sum| sum.missing.is_none()) else { continue };
                let mut spoiled = frame.clone();
                spoiled[sum.at..sum.at + 2].copy_from_slice(&wrong.to_be_bytes());
                let mapped = edited(&maps(false), &spoiled);
                let error = |frame: &[u8]| {
                    let [stored, computed] = [sum.stored(frame), sum.computed(frame)].map(Option::unwrap);
                    (u32::from(stored) + 0xffff - u32::from(computed)) % 0xffff
                };
                if !(sum.is_none(&spoiled) || wrong == 0 && is_v6) {
                    prop_assert_eq!(error(&mapped), error(&spoiled));
                    let fixes = Edits { checksums: ChecksumPolicy::Fix, ..maps(false) };
                    prop_assert!(all_right(&edited(&fixes, &spoiled)));
                }
            }
        }

        /// No frame makes an edit panic or change bytes that it should not.
        #[test]
        fn random_frames_are_edited_without_harm(frame in proptest::collection::vec(any::<u8>(), 0..120)) {
            let edits = Edits { anonymize: Some(AnonymizeKey::of_text(b"k")), ..maps(false) };
            prop_assert_eq!(edited(&edits, &frame).len(), frame.len());
        }
    }

    fn datagram() -> Vec<u8> {
        let ends = ends(false, [1, 2]);
        sample::ethernet(&ip(ends, 17, &udp(ends, (2000, 53), b"payload")))
    }

    #[test]
    fn fields_are_set_in_the_outermost_or_the_innermost_header() {
        let (outer, inner) = (ends(false, [3, 4]), ends(false, [1, 2]));
        let packet = ip(outer, 4, &ip(inner, 17, &udp(inner, (2000, 53), b"payload")));
        let set = |choice, value| {
            let edits = Edits { fields: vec![FieldEdit { choice, value }], ..Edits::default() };
            let frame = edited(&edits, &sample::ethernet(&packet));
            assert!(all_right(&frame));
            frame
        };
        let ttl = |frame: &[u8]| (frame[14 + 8], frame[34 + 8]);
        let nine = FieldValue::Ttl(TtlEdit::Set(9));
        assert_eq!(ttl(&set(HeaderChoice::Outermost, nine)), (9, 64));
        assert_eq!(ttl(&set(HeaderChoice::Innermost, nine)), (64, 9));
        assert_eq!(ttl(&set(HeaderChoice::Outermost, FieldValue::Ttl(TtlEdit::Add(-70)))), (1, 64));
        assert_eq!(ttl(&set(HeaderChoice::Outermost, FieldValue::Ttl(TtlEdit::Add(250)))), (255, 64));
        let frame = set(HeaderChoice::Outermost, FieldValue::Dscp(46));
        assert_eq!((frame[15], frame[35]), (46 << 2, 0));
        let frame = set(HeaderChoice::Outermost, FieldValue::DstPort(80));
        assert_eq!(frame[34 + 20 + 2..34 + 20 + 4], [0, 80], "the outermost ports are inside");
        // An address of the other version reaches no inner header.
        let v6 = FieldValue::Dst(IpAddr::from([1; 16]));
        assert_eq!(set(HeaderChoice::Outermost, v6), sample::ethernet(&packet));
    }

    #[test]
    fn the_mac_address_of_a_group_follows_it() {
        let group = Ends { dst: IpAddr::from([239, 129, 1, 2]), ..ends(false, [1, 2]) };
        let mut frame = sample::ethernet(&ip(group, 17, &udp(group, (1, 2), b"x")));
        frame[..6].copy_from_slice(&[1, 0, 0x5e, 1, 1, 2]);
        let edits = Edits { address_rules: rules(&["239.129.1.2=239.1.3.4"]), ..Edits::default() };
        assert_eq!(edited(&edits, &frame)[..6], [1, 0, 0x5e, 1, 3, 4]);
        frame[5] = 9;
        assert_eq!(edited(&edits, &frame)[..6], [1, 0, 0x5e, 1, 1, 9], "it was not that of the group");
    }

    #[test]
    fn the_group_of_a_solicited_address_follows_it() {
        let target = "fd00::12:3456".parse::<Ipv6Addr>().unwrap();
        let dst = "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap();
        let way = Ends { dst: dst.into(), ..ends(true, [1, 2]) };
        let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0], &target.octets()[..]].concat();
        let mut frame = sample::ethernet(&ip(way, 58, &sample::icmpv6(way, &solicitation)));
        frame[..6].copy_from_slice(&[0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        let edits = Edits { address_rules: rules(&["fd00::12:3456=fd00::aa:bbcc"]), ..Edits::default() };
        let frame = edited(&edits, &frame);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0xaa, 0xbb, 0xcc]);
        assert_eq!(frame[14 + 24..][..16], "ff02::1:ffaa:bbcc".parse::<Ipv6Addr>().unwrap().octets());
        assert!(all_right(&frame));
    }

    #[test]
    fn quoted_packets_are_edited_by_their_own_directions() {
        let way = ends(false, [1, 2]);
        let quoted = ip(way, 17, &udp(way, (2000, 53), b"payload"));
        let error = sample::icmp(&[&[3, 1, 0, 0, 0, 0, 0, 0], &quoted[..28]].concat());
        let frame = sample::ethernet(&ip(way.back(), 1, &error));
        let rule = AddressRule { scope: MapScope::Source, map: "10.0.0.1=10.9.9.9".parse().unwrap() };
        let frame = edited(&Edits { address_rules: vec![rule], ..Edits::default() }, &frame);
        assert_eq!(frame[26..34], [10, 0, 0, 2, 10, 0, 0, 1], "the source of the error is another host");
        assert_eq!(frame[42 + 12..42 + 20], [10, 9, 9, 9, 10, 0, 0, 2]);
        assert!(all_right(&frame));
    }

    #[test]
    fn packets_with_headers_out_of_reach_are_counted_by_reason() {
        let mut encrypted = datagram();
        encrypted[23] = 50;
        let mut unknown = datagram();
        unknown[12..14].copy_from_slice(&[0x88, 0xb5]);
        let arp = frames(ends(false, [1, 2]), ends(false, [3, 4]), (1, 2), b"").pop().unwrap();
        let ttl = FieldEdit { choice: HeaderChoice::Outermost, value: FieldValue::Ttl(TtlEdit::Set(9)) };
        let ports = PortMap { first: 2000, last: 2000, to: 1, is_range: false };
        let edits = Edits { fields: vec![ttl], port_maps: vec![ports], ..Edits::default() };
        let mut editor = Editor::new(edits);
        let steps = PerLoop::default();
        let options = options(FirstHeader::Ethernet, &steps, false);
        let mut cause = |frame: &[u8]| editor.apply(&mut frame.to_vec(), &options);
        assert_eq!(cause(&datagram()), None);
        assert_eq!(cause(&arp), None, "it has no such fields");
        assert_eq!(cause(&encrypted), Some(EndCause::Encrypted));
        assert_eq!(cause(&unknown), Some(EndCause::Unknown));
        assert_eq!(cause(&datagram()[..30]), Some(EndCause::Cut));
        assert_eq!(editor.counts.not_edited.reasons(), "cut 1, encrypted 1, unknown header 1");
        assert_eq!((editor.counts.uses.fields[0], editor.counts.uses.port_maps[0]), (2, 1));
    }

    /// Addresses whose bytes are all different.
    fn told_apart(is_v6: bool) -> [Ends; 2] {
        let address = |first: u8| -> IpAddr {
            match is_v6 {
                true => IpAddr::from(std::array::from_fn::<u8, 16, _>(|at| 0x31 + first + at as u8)),
                false => IpAddr::from(std::array::from_fn::<u8, 4, _>(|at| 0x31 + first + 5 * at as u8)),
            }
        };
        [(0, 0x20), (0x40, 0x60)].map(|(src, dst)| Ends { src: address(src), dst: address(dst) })
    }

    /// `--anonymize` left addresses in clear that the snaplen had cut, and counted no packet.
    #[test]
    fn cut_packets_keep_no_address_in_clear() {
        let edits = Edits { anonymize: Some(AnonymizeKey::of_text(b"k")), ..Edits::default() };
        let (mut editor, steps) = (Editor::new(edits), PerLoop::default());
        let options = options(FirstHeader::Ethernet, &steps, false);
        for is_v6 in [false, true] {
            let [ends, other] = told_apart(is_v6);
            let octets = |address: IpAddr| match address {
                IpAddr::V4(v4) => v4.octets().to_vec(),
                IpAddr::V6(v6) => v6.octets().to_vec(),
            };
            let clear = [ends.src, ends.dst, other.src, other.dst].map(octets);
            for frame in frames(ends, other, (2000, 53), b"") {
                for len in 0..frame.len() {
                    let mut cut = frame[..len].to_vec();
                    let cause = editor.apply(&mut cut, &options);
                    let has_part = |part: &[u8]| cut.windows(part.len()).any(|found| found == part);
                    let left = clear.iter().find(|address| address.windows(3).any(has_part));
                    assert_eq!((cut.len(), left), (len, None), "{frame:02x?} cut to {len}: {cut:02x?}");
                    let is_cleared = cut.ends_with(&[0; 9]) && !frame[..len].ends_with(&[0; 9]);
                    assert!(cause.is_some() || !is_cleared, "{frame:02x?} cut to {len}: {cut:02x?}");
                }
            }
        }
    }

    #[test]
    fn packets_with_cut_addresses_behind_others_are_counted() {
        let edits = Edits { address_rules: rules(&["fd00::/16=fd01::/16"]), ..Edits::default() };
        let (mut editor, steps) = (Editor::new(edits), PerLoop::default());
        let options = options(FirstHeader::Ethernet, &steps, false);
        let mut cause = |frame: &[u8]| editor.apply(&mut frame.to_vec(), &options);
        let way = ends(true, [1, 2]);
        let target = "fd00::12:3456".parse::<Ipv6Addr>().unwrap().octets();
        let bytes = [&[135, 0, 0, 0, 0, 0, 0, 0], &target[..], &[1, 1, 2, 0, 0, 0, 0, 9]].concat();
        let solicitation = sample::ethernet(&ip(way, 58, &sample::icmpv6(way, &bytes)));
        assert_eq!(cause(&solicitation), None);
        assert_eq!(cause(&solicitation[..solicitation.len() - 2]), Some(EndCause::Cut), "the option is cut");
        assert_eq!(cause(&solicitation[..76]), Some(EndCause::Cut), "the target is cut");
        let tunnel = sample::ethernet(&ip(way, 41, &ip(way, 17, &udp(way, (2000, 53), b"payload"))));
        assert_eq!(cause(&tunnel), None);
        assert_eq!(cause(&tunnel[..54 + 36]), Some(EndCause::Cut));
        assert_eq!(cause(&tunnel[..54 + 40 + 6]), None, "a cut transport header has no address");
        let mut encrypted = tunnel.clone();
        encrypted[20] = 50;
        assert_eq!(cause(&encrypted), None, "no address behind the outer ones is in clear");
        encrypted[20] = 253;
        assert_eq!(cause(&encrypted), Some(EndCause::Unknown));
        let quote = &ip(way, 17, &udp(way, (2000, 53), b"payload"))[..48];
        let error = sample::icmpv6(way.back(), &[&[1, 4, 0, 0, 0, 0, 0, 0], quote].concat());
        let error = sample::ethernet(&ip(way.back(), 58, &error));
        assert_eq!(cause(&error), None);
        assert_eq!(cause(&error[..54 + 8 + 30]), Some(EndCause::Cut));
    }

    /// The mobility header's, HIP's and VRRP's checksums became wrong with new addresses, and
    /// VRRP's over IPv4 is one of both kinds.
    #[test]
    fn messages_whose_checksums_cover_addresses_keep_them_right() {
        let edits = Edits {
            address_rules: rules(&["10.0.0.0/8=11.0.0.0/8", "fd00::/16=fd01::/16"]),
            ..Edits::default()
        };
        let to = |address: IpAddr| -> IpAddr {
            match address {
                IpAddr::V4(v4) => (v4.to_bits() + (1 << 24)).to_be_bytes().into(),
                IpAddr::V6(v6) => (v6.to_bits() + (1 << 112)).to_be_bytes().into(),
            }
        };
        let vrrp = |version: u8| vec![version << 4 | 1, 7, 100, 1, 0, 100, 0, 0, 192, 0, 2, 1];
        let hip = [&[59, 4, 1, 0x21, 0, 0, 0, 0][..], &[7; 32]].concat();
        for (is_v6, protocol, message, at) in [
            (true, 112, vrrp(3), 6),
            (false, 112, vrrp(3), 6),
            (true, 135, vec![59, 0, 5, 0, 0, 0, 0, 9], 4),
            (true, 139, hip, 4),
        ] {
            let frame = |way: Ends| {
                let message = sample::with_sum(way, way.dst, protocol, message.clone(), at);
                sample::ethernet(&ip(way, protocol, &message))
            };
            let way = ends(is_v6, [1, 2]);
            let mapped = Ends { src: to(way.src), dst: to(way.dst) };
            assert_eq!(edited(&edits, &frame(way)), frame(mapped), "{protocol}");
        }
        for version in [2, 3] {
            // Without addresses under the checksum, as IGMP has its own, two bytes before.
            let mut message = vrrp(version);
            let sum = sample::icmp(&[&[0, 0, 0, 0], &message[..]].concat());
            message[6..8].copy_from_slice(&sum[2..4]);
            let after = edited(&edits, &sample::ethernet(&ip(ends(false, [1, 2]), 112, &message)));
            assert!(after.ends_with(&message), "{version}");
        }
    }

    /// `--checksums fix` wrote wrong ones behind a routing header of RPL.
    #[test]
    fn a_checksum_to_an_unknown_final_destination_stays() {
        let way = ends(true, [1, 2]);
        let last = IpAddr::from([9; 16]);
        let routing = [&[43, 17, 2, 3, 1, 0, 0, 0, 0], &[9; 16][..]].concat();
        let frame = sample::ethernet(&ip_with(way, 17, &udp_to(way, last, (1, 2), b"x"), &routing));
        let fixes = Edits { checksums: ChecksumPolicy::Fix, ..Edits::default() };
        assert_eq!(edited(&fixes, &frame), frame);
        let mut editor =
            Editor::new(Edits { address_rules: rules(&["fd00::1=fd00::9"]), ..Edits::default() });
        let (steps, mut frame) = (PerLoop::default(), frame);
        let cause = editor.apply(&mut frame, &options(FirstHeader::Ethernet, &steps, false));
        assert_eq!(cause, Some(EndCause::Unknown), "its addresses are not read");
        assert_eq!(editor.counts.wrong_sums.total(), 0);
    }

    /// These addresses stayed, and no packet was counted.
    #[test]
    fn addresses_of_rare_messages_are_mapped() {
        let edits = Edits {
            address_rules: rules(&["10.0.0.0/8=11.0.0.0/8", "fd00::/16=fd01::/16"]),
            ..Edits::default()
        };
        let v6 = |site: u8| [0xfd, site, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        let v4 = |site: u8| [10 + site, 0, 0, 7];
        let option = |kind: u8, len: u8, address: &[u8]| [&[kind, len, 0, 0, 0, 0, 0, 0], address].concat();
        let nonce = [1; 8];
        // Each message before (0) and after the map (1).
        let of_site = |site: u8| {
            let (a, b) = (v6(site), v4(site));
            [
                ("node query", [&[139, 0, 0, 0, 0, 3, 0, 0], &nonce[..], &a].concat()),
                ("node query of IPv4", [&[139, 2, 0, 0, 0, 4, 0, 0], &nonce[..], &b].concat()),
                ("node reply", [&[140, 0, 0, 0, 0, 3, 0, 0], &nonce[..], &[0; 4], &a, &[0; 4], &a].concat()),
                (
                    "node reply of IPv4",
                    [&[140, 0, 0, 0, 0, 4, 0, 0], &nonce[..], &[0; 4], &b, &[0; 4], &b].concat(),
                ),
                (
                    "inverse",
                    [&[141, 0, 0, 0, 0, 0, 0, 0][..], &option(9, 3, &a), &option(10, 5, &[a, a].concat())]
                        .concat(),
                ),
                ("home agents", [&[145, 0, 0, 0, 0, 1, 0, 0], &a[..], &a].concat()),
                ("mobile prefixes", [&[147, 0, 0, 0, 0, 1, 0, 0, 3, 4, 64, 0xc0], &[0; 12][..], &a].concat()),
                ("duplicate address", [&[157, 0, 0, 0, 0, 0, 0, 9], &nonce[..], &a].concat()),
                (
                    "NAT64 prefix",
                    [&[134, 0, 0, 0, 64, 0, 7, 8], &[0; 8][..], &[38, 2, 0, 0], &a[..12]].concat(),
                ),
                ("border router", [&[134, 0, 0, 0, 64, 0, 7, 8], &[0; 8], &option(35, 3, &a)[..]].concat()),
                ("context", [&[134, 0, 0, 0, 64, 0, 7, 8], &[0; 8], &option(34, 3, &a)[..]].concat()),
            ]
        };
        let way = ends(true, [1, 2]);
        let to = |address: IpAddr| match address {
            IpAddr::V6(v6) => IpAddr::from((v6.to_bits() + (1 << 112)).to_be_bytes()),
            v4 => v4,
        };
        let mapped = Ends { src: to(way.src), dst: to(way.dst) };
        for ((name, before), (_, after)) in of_site(0).into_iter().zip(of_site(1)) {
            let frame = |way, message: &[u8]| sample::ethernet(&ip(way, 58, &sample::icmpv6(way, message)));
            assert_eq!(edited(&edits, &frame(way, &before)), frame(mapped, &after), "{name}");
        }
        let mobility = |way: Ends, message: Vec<u8>| {
            let message = sample::with_sum(way, way.dst, 135, message, 4);
            sample::ethernet(&ip(way, 135, &message))
        };
        let update = |site| [&[59, 3, 5, 0, 0, 0, 0, 9, 0, 0, 0, 9, 1, 0, 3, 16][..], &v6(site)].concat();
        let error = |site| [&[59, 2, 7, 0, 0, 0, 1, 0][..], &v6(site)].concat();
        for (before, after) in [(update(0), update(1)), (error(0), error(1))] {
            assert_eq!(edited(&edits, &mobility(way, before)), mobility(mapped, after));
        }
        let way = Ends { src: v4(0).into(), dst: v4(0).into() };
        let mapped = Ends { src: v4(1).into(), dst: v4(1).into() };
        let traceroute = |way, site| {
            let options = [&[82, 12, 0, 1, 0, 1, 0, 1][..], &v4(site)].concat();
            sample::ethernet(&ip_with(way, 17, &udp(way, (1, 2), b"x"), &options))
        };
        assert_eq!(edited(&edits, &traceroute(way, 0)), traceroute(mapped, 1));
        let llc = |way| {
            let packet = ip(way, 17, &udp(way, (1, 2), b"x"));
            [&sample::MACS[..], &[0, packet.len() as u8 + 3, 6, 6, 3], &packet].concat()
        };
        assert_eq!(edited(&edits, &llc(way)), llc(mapped));
    }

    #[test]
    fn packets_with_addresses_in_forms_that_are_not_read_are_counted() {
        let edits = Edits { address_rules: rules(&["10.0.0.0/8=11.0.0.0/8"]), ..Edits::default() };
        let mut editor = Editor::new(edits);
        let (v4, v6) = (ends(false, [1, 2]), ends(true, [1, 2]));
        let quote = [ip(v4, 17, &udp(v4, (1, 2), &[0; 100]))[..128].to_vec(), [0x20, 0, 0, 0].to_vec()];
        let error = |object: &[u8]| [&[11, 0, 0, 0, 0, 32, 0, 0], &quote.concat()[..], object].concat();
        let interface = |kind: u8| [0, 16, 2, kind, 0, 0, 0, 3, 0, 1, 0, 0, 10, 0, 0, 7];
        let label = [0, 8, 1, 1, 0, 0, 0x11, 64];
        let echo =
            |kind: u8| [42, 0, 0, 0, 0, 1, 1, 1, 0x20, 0, 0, 0, 0, 12, 3, kind, 0, 1, 4, 0, 10, 0, 0, 7];
        let icmp = |message: &[u8]| sample::ethernet(&ip(v4, 1, &sample::icmp(message)));
        let icmpv6 = |message: &[u8]| sample::ethernet(&ip(v6, 58, &sample::icmpv6(v6, message)));
        let gtpu = |kind: u8| {
            let message = [0x32, kind, 0, 16, 0, 0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 1, 133, 0, 4, 10, 0, 0, 7];
            sample::ethernet(&ip(v4, 17, &udp(v4, (2152, 2152), &message)))
        };
        let v6_packet = ip(v6, 17, &udp(v6, (1, 2), b"x"));
        let ppp = |low: u8| {
            let protocol = if low == 0x21 { [0x80, 0x21] } else { [0xc0, 0x21] };
            let head = [0x88, 0x64, 0x11, 0, 0, 1, 0, 12];
            [&sample::MACS[..], &head, &protocol, &[1, 0, 0, 10, 3, 6, 10, 0, 0, 7]].concat()
        };
        let mobility = |kind: u8, option: u8| {
            let message =
                vec![59, 2, kind, 0, 0, 0, 0, 9, 0, 0, 0, 9, option, 10, 0, 0, 10, 0, 0, 7, 0, 0, 0, 0];
            sample::ethernet(&ip(v6, 135, &sample::with_sum(v6, v6.dst, 135, message, 4)))
        };
        for (name, frame, is_counted) in [
            ("interface", icmp(&error(&interface(0x0c))), true),
            ("interface behind a label", icmp(&error(&[&label[..], &interface(0x0c)].concat())), true),
            ("interface without an address", icmp(&error(&interface(0x08))), false),
            ("label", icmp(&error(&label)), false),
            ("extended echo by address", icmp(&echo(3)), true),
            ("extended echo by index", icmp(&echo(2)), false),
            ("L2TPv3", sample::ethernet(&ip(v4, 115, &[&[0, 0, 0, 7], &datagram()[..]].concat())), true),
            ("register of PIM", sample::ethernet(&ip(v4, 103, &[&[0x21; 8], &v6_packet[..]].concat())), true),
            ("hello of PIM", sample::ethernet(&ip(v4, 103, &[0x20, 0, 0, 0, 0, 1, 0, 2])), false),
            ("address of PPP", ppp(0x21), true),
            ("echo of PPP", ppp(0xc0), false),
            ("error indication", gtpu(26), true),
            ("echo of GTP-U", gtpu(1), false),
            ("IPv4 address of a mobile node", mobility(5, 29), true),
            ("nonces", mobility(5, 4), false),
            ("fast binding update", mobility(8, 4), true),
            ("RPL", icmpv6(&[155, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), true),
            ("router renumbering", icmpv6(&[138, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), true),
            ("echo", icmpv6(&[128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), false),
        ] {
            let steps = PerLoop::default();
            let cause = editor.apply(&mut frame.clone(), &options(FirstHeader::Ethernet, &steps, false));
            assert_eq!(cause, is_counted.then_some(EndCause::Unknown), "{name}");
        }
    }

    /// Cut ARP packets and quotes counted for fields that they do not have.
    #[test]
    fn packets_count_only_for_fields_that_the_cut_may_hide() {
        let [v4, v6] = [false, true].map(|is_v6| ends(is_v6, [1, 2]));
        let arp = frames(v4, v4, (1, 2), b"").pop().unwrap();
        let quote = &ip(v4, 17, &udp(v4, (2000, 53), b"payload"))[..10];
        let error = sample::icmp(&[&[3, 1, 0, 0, 0, 0, 0, 0], quote].concat());
        let error = sample::ethernet(&ip(v4.back(), 1, &error));
        let field = |choice, value| Edits { fields: vec![FieldEdit { choice, value }], ..Edits::default() };
        use HeaderChoice::{Innermost, Outermost};
        let ports = PortMap { first: 2000, last: 2000, to: 1, is_range: false };
        let mac = MacMap { from: MacAddr([2, 0, 0, 0, 0, 1]), to: MacAddr([2, 0, 0, 0, 0, 9]) };
        for (edits, of_arp, of_error) in [
            (field(Outermost, FieldValue::Ttl(TtlEdit::Set(9))), false, false),
            (field(Innermost, FieldValue::Ttl(TtlEdit::Set(9))), false, false),
            (field(Outermost, FieldValue::SrcPort(9)), false, false),
            (field(Outermost, FieldValue::Src(v6.src)), false, false),
            (field(Outermost, FieldValue::Src(v4.src)), true, false),
            (Edits { port_maps: vec![ports], ..Edits::default() }, false, true),
            (Edits { mac_maps: vec![mac], ..Edits::default() }, true, false),
            (Edits { address_rules: rules(&["10.0.0.0/8=11.0.0.0/8"]), ..Edits::default() }, true, true),
            (Edits { anonymize: Some(AnonymizeKey::of_text(b"k")), ..Edits::default() }, true, true),
        ] {
            let (mut editor, steps) = (Editor::new(edits.clone()), PerLoop::default());
            let options = options(FirstHeader::Ethernet, &steps, false);
            let mut is_counted = |frame: &[u8]| editor.apply(&mut frame.to_vec(), &options).is_some();
            for len in 15..42 {
                assert_eq!(is_counted(&arp[..len]), of_arp, "{edits:?}: ARP cut to {len}");
            }
            assert!(!is_counted(&arp[..42]));
            assert_eq!(is_counted(&error), of_error, "{edits:?}: a quote of 10 bytes");
        }
    }

    /// A quote that ends before its ports was not counted.
    #[test]
    fn quotes_without_the_ports_of_a_map_are_counted() {
        let map = PortMap { first: 2000, last: 2000, to: 1, is_range: false };
        let mut editor = Editor::new(Edits { port_maps: vec![map], ..Edits::default() });
        let steps = PerLoop::default();
        for is_v6 in [false, true] {
            let (way, ip_len) = (ends(is_v6, [1, 2]), if is_v6 { 40 } else { 20 });
            for (protocol, len, cause) in [
                (17, 0, Some(EndCause::Cut)),
                (17, 3, Some(EndCause::Cut)),
                (17, 4, None),
                (6, 8, None),
                (89, 8, None),
            ] {
                let quote = &ip(way, protocol, &udp(way, (2000, 53), b"payload"))[..ip_len + len];
                let (protocol, message) = if is_v6 {
                    (58, sample::icmpv6(way, &[&[1, 4, 0, 0, 0, 0, 0, 0], quote].concat()))
                } else {
                    (1, sample::icmp(&[&[3, 1, 0, 0, 0, 0, 0, 0], quote].concat()))
                };
                let mut frame = sample::ethernet(&ip(way, protocol, &message));
                let found = editor.apply(&mut frame, &options(FirstHeader::Ethernet, &steps, false));
                assert_eq!(found, cause, "{is_v6} {protocol} {len}");
            }
        }
    }

    /// Addresses behind the pointer of a recorded route stayed in clear; slots of zeros are none.
    #[test]
    fn all_addresses_of_recorded_routes_are_mapped() {
        let way = ends(false, [1, 2]);
        let edits = Edits { address_rules: rules(&["0.0.0.0/0=9.0.0.0/8"]), ..Edits::default() };
        for (pointer, slots, expected) in [
            (4, [[10, 0, 0, 5], [10, 0, 0, 6]], [[9, 0, 0, 5], [9, 0, 0, 6]]),
            (8, [[10, 0, 0, 5], [10, 0, 0, 6]], [[9, 0, 0, 5], [9, 0, 0, 6]]),
            (12, [[10, 0, 0, 5], [0; 4]], [[9, 0, 0, 5], [9, 0, 0, 0]]),
            (4, [[0; 4], [0; 4]], [[0; 4], [0; 4]]),
        ] {
            let options = [&[7, 11, pointer], slots.as_flattened(), &[0]].concat();
            let frame = sample::ethernet(&ip_with(way, 17, &udp(way, (1, 2), b"x"), &options));
            let frame = edited(&edits, &frame);
            assert_eq!(&frame[37..45], expected.as_flattened(), "pointer {pointer}");
            assert!(all_right(&frame));
        }
    }

    /// The MAC addresses of a frame in a pseudowire stayed where the capture has cut them.
    #[test]
    fn a_frame_cut_in_a_pseudowire_keeps_no_address_in_clear() {
        let edits = Edits { anonymize: Some(AnonymizeKey::of_text(b"k")), ..Edits::default() };
        for control_word in [&[0, 0, 0, 0][..], &[]] {
            let head = [&sample::MACS[..], &[0x88, 0x47, 0, 1, 1, 64], control_word].concat();
            let frame = [&head, &datagram()[..]].concat();
            for len in head.len() + 3..head.len() + 14 {
                let cut = edited(&edits, &frame[..len]);
                assert!(cut[head.len()..].iter().all(|byte| *byte == 0), "{len}: {cut:02x?}");
            }
        }
    }

    /// The CRC of a first fragment was moved by the fragment's length, not the packet's.
    #[test]
    fn ports_of_sctp_fragments_stay_and_are_counted() {
        let sctp = [&[7, 208, 0, 53, 0, 0, 0, 7, 1, 2, 3, 4][..], &[5; 20]].concat();
        let frame = sample::ethernet(&ip(ends(false, [1, 2]), 132, &sctp));
        let mut fragment = frame.clone();
        fragment[20] = 0x20;
        let port = FieldEdit { choice: HeaderChoice::Outermost, value: FieldValue::DstPort(9) };
        let map = PortMap { first: 2000, last: 2000, to: 1, is_range: false };
        for edits in [
            Edits { fields: vec![port], ..Edits::default() },
            Edits { port_maps: vec![map], ..Edits::default() },
        ] {
            assert_ne!(edited(&edits, &frame), frame);
            assert_eq!(edited(&edits, &fragment), fragment);
            let (mut editor, steps) = (Editor::new(edits), PerLoop::default());
            editor.apply(&mut fragment.clone(), &options(FirstHeader::Ethernet, &steps, false));
            assert_eq!(editor.counts.not_edited.reasons(), "fragments of SCTP 1");
        }
    }

    #[test]
    fn frames_without_space_for_a_tag_are_counted() {
        let tags = TagEdits { pop: 1, ..TagEdits::default() };
        let (mut editor, steps) = (Editor::new(Edits { tags, ..Edits::default() }), PerLoop::default());
        let options = options(FirstHeader::Ethernet, &steps, false);
        assert_eq!(editor.apply(&mut vec![2; 13], &options), Some(EndCause::Cut));
        let mut cut = [&datagram()[..12], &[0x81, 0, 0]].concat();
        assert_eq!(editor.apply(&mut cut, &options), Some(EndCause::Cut));
        assert_eq!(editor.apply(&mut datagram(), &options), None);
        assert_eq!(editor.counts.uses.tags.pop, 0);
    }

    #[test]
    fn lengths_of_fragments_are_those_of_the_whole_packet() {
        let way = ends(false, [1, 2]);
        let mut frame = sample::ethernet(&ip(way, 17, &udp(way, (1, 2), &[7; 40])));
        frame[20] = 0x20;
        let mut cut = frame[..frame.len() - 9].to_vec();
        let (mut editor, steps) = (Editor::new(Edits::default()), PerLoop::default());
        editor.apply(&mut cut, &options(FirstHeader::Ethernet, &steps, true));
        assert_eq!((&cut[16..18], &cut[38..40]), (&[0, 59][..], &[0, 48][..]));
        // A length in place of an EtherType.
        let snap = [&sample::MACS[..], &[0, 76, 0xaa, 0xaa, 3, 0, 0, 0], &frame[12..]].concat();
        let mut cut = snap[..snap.len() - 9].to_vec();
        editor.apply(&mut cut, &options(FirstHeader::Ethernet, &steps, true));
        assert_eq!((&cut[12..14], &cut[24..26]), (&[0, 67][..], &[0, 59][..]));
    }

    #[test]
    fn lengths_of_a_cut_packet_become_those_that_are_there() {
        for is_v6 in [false, true] {
            for frame in frames(ends(is_v6, [1, 2]), ends(is_v6, [3, 4]), (2000, 53), &[7; 30]) {
                let mut cut = frame[..frame.len() - 9].to_vec();
                let mut editor = Editor::new(Edits::default());
                let steps = PerLoop::default();
                let options = options(FirstHeader::Ethernet, &steps, true);
                editor.apply(&mut cut, &options);
                let headers = Walk::new(&cut, FirstHeader::Ethernet);
                let whole = headers.filter(|header| !header.is_quoted).all(|header| header.is_whole());
                assert!(whole && all_right(&cut), "{frame:02x?} {cut:02x?}");
            }
        }
    }

    #[test]
    fn tags_in_a_tunnel_change_with_the_checksums_around_them() {
        let way = ends(false, [1, 2]);
        let inner = sample::ethernet(&ip(way, 17, &udp(way, (1, 2), b"x")));
        let tagged = [&inner[..12], &[0x81, 0, 0, 5, 0x81, 0, 0, 6], &inner[12..]].concat();
        let vxlan = [&[8, 0, 0, 0, 0, 0, 5, 0], &tagged[..]].concat();
        let frame = sample::ethernet(&ip(way, 17, &udp(way, (9, 4789), &vxlan)));
        let tag = TagFields { vlan: Some(VlanEdit::Set(0x123)), tpid: Some(0x88a8), ..TagFields::default() };
        let keep = TagFields::default();
        for (inner, expected) in [
            ([tag, keep], [0x88, 0xa8, 0x01, 0x23, 0x81, 0, 0, 6]),
            ([keep, tag], [0x81, 0, 0, 5, 0x88, 0xa8, 0x01, 0x23]),
            ([tag, tag], [0x88, 0xa8, 0x01, 0x23, 0x88, 0xa8, 0x01, 0x23]),
        ] {
            let edits = Edits { tags: TagEdits { inner, ..TagEdits::default() }, ..Edits::default() };
            let after = edited(&edits, &frame);
            assert_eq!(after[50 + 12..50 + 20], expected);
            assert!(all_right(&after));
            let (mut editor, steps) = (Editor::new(edits), PerLoop::default());
            let options = options(FirstHeader::Ethernet, &steps, false);
            let mut cause = |frame: &[u8]| editor.apply(&mut frame.to_vec(), &options);
            let is_second = inner[1] != keep;
            assert_eq!(cause(&frame), None);
            assert_eq!(cause(&frame[..50 + 19]), is_second.then_some(EndCause::Cut));
            assert_eq!(cause(&frame[..50 + 15]), Some(EndCause::Cut));
            // A frame without the tag has nothing to change.
            assert_eq!(cause(&datagram()), None);
        }
    }
}
