//! The edits of one packet after another.
//!
//! Order within a packet: tags, lengths, fields, maps, steps of the loop, checksums.

use super::anonymize::{AnonymizeKey, Anonymizer};
use super::counts::EditCounts;
use super::fields::{FieldValue, HeaderChoice};
use super::groups::{GroupDestination, mac_of_group, solicited_group};
use super::lengths;
use super::maps::{AddressRule, MacMap, PortMap};
use super::tags::{TagEdits, TagFields};
use super::tracked::{self, TrackedSum};
use crate::outer::{tag_count, word};
use crate::per_loop::{PerLoop, step_address, step_mac};
use packet::headers::{
    AddressKind, AddressPlace, AddressRole, EndCause, FirstHeader, Header, NoSum, Protocol, SumFinder, Walk,
    for_each_address, ipv4, ipv6, port_places,
};

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
    /// Length fields are lowered to what the frame has.
    pub(crate) shrinks: bool,
    /// The packet counts in the report.
    pub(crate) counts: bool,
}

/// Fields that the edits need, or that a packet has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FieldKinds {
    mac: bool,
    ip: bool,
    ports: bool,
    inner_mac: bool,
    inner_ip: bool,
    inner_ports: bool,
}

impl FieldKinds {
    /// The kinds that some edit reads or writes.
    fn needed(edits: &Edits) -> Self {
        let has_rules = edits.anonymize.is_some() || !edits.address_rules.is_empty();
        let mut kinds = Self {
            mac: !edits.mac_maps.is_empty(),
            ip: has_rules,
            ports: !edits.port_maps.is_empty(),
            ..Self::default()
        };
        for FieldEdit { choice, value } in &edits.fields {
            let is_inner = *choice == HeaderChoice::Innermost;
            let kind = match (value, is_inner) {
                (FieldValue::DstMac(_) | FieldValue::SrcMac(_), false) => &mut kinds.mac,
                (FieldValue::DstMac(_) | FieldValue::SrcMac(_), true) => &mut kinds.inner_mac,
                (FieldValue::DstPort(_) | FieldValue::SrcPort(_), false) => &mut kinds.ports,
                (FieldValue::DstPort(_) | FieldValue::SrcPort(_), true) => &mut kinds.inner_ports,
                (_, false) => &mut kinds.ip,
                (_, true) => &mut kinds.inner_ip,
            };
            *kind = true;
        }
        kinds.inner_mac |= edits.tags.inner != TagFields::default();
        kinds
    }

    fn see(&mut self, frame: &[u8], header: &Header) {
        if header.is_quoted {
            return;
        }
        let is_inner = header.depth > 0;
        match header.protocol {
            Protocol::Ethernet => (self.mac, self.inner_mac) = (true, self.inner_mac || is_inner),
            Protocol::Sll | Protocol::Sll2 => self.mac = true,
            Protocol::Arp | Protocol::Ipv4 | Protocol::Ipv6 => {
                (self.ip, self.inner_ip) = (true, self.inner_ip || is_inner);
            }
            protocol if protocol.has_ports() && port_places(frame, header).is_some() => {
                (self.ports, self.inner_ports) = (true, self.inner_ports || is_inner);
            }
            _ => {}
        }
    }

    /// True if a packet with the kinds of `self` has all that are `needed`.
    fn has(&self, needed: &Self) -> bool {
        [
            (needed.mac, self.mac),
            (needed.ip, self.ip),
            (needed.ports, self.ports),
            (needed.inner_mac, self.inner_mac),
            (needed.inner_ip, self.inner_ip),
            (needed.inner_ports, self.inner_ports),
        ]
        .iter()
        .all(|(needed, found)| !needed || *found)
    }
}

/// Edits frames. Its lists are used again for each frame.
#[derive(Debug)]
pub(crate) struct Editor {
    edits: Edits,
    needed: FieldKinds,
    anonymizer: Option<Anonymizer>,
    headers: Vec<Header>,
    sums: Vec<TrackedSum>,
    places: Vec<AddressPlace>,
    groups: Vec<GroupDestination>,
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
            anonymizer: edits.anonymize.as_ref().map(Anonymizer::new),
            edits,
            headers: Vec::new(),
            sums: Vec::new(),
            places: Vec::new(),
            groups: Vec::new(),
            counts,
        }
    }

    /// Counts the wrong checksums of a frame that is not edited.
    pub(crate) fn inspect(&mut self, frame: &[u8], first: FirstHeader) {
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
        let EditOptions { first, steps, shrinks, counts } = *options;
        let is_ethernet = first == FirstHeader::Ethernet && frame.len() >= 14;
        if is_ethernet && self.edits.tags.is_outer() {
            self.edits.tags.apply(frame);
        }
        if is_ethernet && steps.vlan != 0 && tag_count(frame) > 0 && frame.len() >= 16 {
            let tag = u16::from_be_bytes([frame[14], frame[15]]);
            let tag = tag & 0xf000 | tag.wrapping_add(steps.vlan) & 0x0fff;
            frame[14..16].copy_from_slice(&tag.to_be_bytes());
        }
        let is_shrunk = shrinks && lengths::shrink(frame, first);
        let (found, cause) = self.find(frame, first);
        self.check_sums(frame, is_shrunk, counts);
        self.set_fields(frame);
        self.map(frame);
        self.step(frame, steps);
        self.follow_groups(frame);
        tracked::finish(frame, &mut self.sums);
        let is_in_quote = self.headers.last().is_some_and(|header| header.is_quoted);
        if found.has(&self.needed) || is_in_quote {
            return None;
        }
        let mut not_edited = self.counts.not_edited;
        if !not_edited.count(cause) {
            return None;
        }
        if counts {
            self.counts.not_edited = not_edited;
        }
        Some(cause)
    }

    /// Finds headers, checksums and groups of a frame.
    fn find(&mut self, frame: &[u8], first: FirstHeader) -> (FieldKinds, EndCause) {
        self.headers.clear();
        self.sums.clear();
        self.groups.clear();
        let (mut found, mut finder, mut ethernet) = (FieldKinds::default(), SumFinder::default(), None);
        let mut walk = Walk::new(frame, first);
        for header in walk.by_ref() {
            self.headers.push(header);
            found.see(frame, &header);
            self.sums.extend(finder.see(frame, &header).map(TrackedSum::new));
            match header.protocol {
                Protocol::Ethernet => ethernet = Some(header),
                Protocol::Ipv4 | Protocol::Ipv6 if !header.is_quoted => {
                    let (offset, len) = match header.protocol {
                        Protocol::Ipv4 => (ipv4::DST_AT, 4),
                        _ => (ipv6::DST_AT, 16),
                    };
                    let dst_at = header.at + offset;
                    let dst = &frame[dst_at..dst_at + len];
                    let link = ethernet.filter(|link| link.depth == header.depth);
                    if let Some(link) = link.filter(|_| mac_of_group(dst).is_some()) {
                        let mut before = [0; 16];
                        before[..len].copy_from_slice(dst);
                        self.groups.push(GroupDestination { ethernet_at: link.at, dst_at, len, before });
                    }
                }
                _ => {}
            }
        }
        (found, walk.end().cause)
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
            if let Some(bytes) = header.and_then(|header| value.bytes(frame, header)) {
                tracked::write(frame, &mut self.sums, bytes.at, bytes.as_slice());
                self.counts.uses.fields[number] += 1;
            }
        }
        if self.edits.tags.inner != TagFields::default()
            && let Some((at, tag)) = self.edits.tags.inner_tag(frame, &self.headers)
        {
            // Written as the two words that sums of odd places need, too.
            tracked::write(frame, &mut self.sums, at, &tag);
        }
    }

    fn map(&mut self, frame: &mut [u8]) {
        let edits = &self.edits;
        let maps_ip = !edits.address_rules.is_empty() || edits.anonymize.is_some();
        if maps_ip || !edits.mac_maps.is_empty() {
            self.places.clear();
            for header in &self.headers {
                for_each_address(frame, header, &mut |place| self.places.push(place));
            }
            let places = std::mem::take(&mut self.places);
            places.iter().for_each(|place| self.map_address(frame, place));
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
                self.counts.uses.port_maps[number] += 1;
                tracked::write(frame, &mut self.sums, at, &to.to_be_bytes());
            }
        }
    }

    fn map_address(&mut self, frame: &mut [u8], place: &AddressPlace) {
        let AddressPlace { at, len, kind, role } = *place;
        let Some(old) = frame.get(at..at + len) else { return };
        if kind == AddressKind::Mac {
            let old: [u8; 6] = *old.first_chunk().expect("a MAC address has 6 bytes");
            let map = self.edits.mac_maps.iter().position(|map| map.from.0 == old);
            let new = match (map, &self.anonymizer) {
                (Some(number), _) => {
                    self.counts.uses.mac_maps[number] += 1;
                    self.edits.mac_maps[number].to.0
                }
                (None, Some(anonymizer)) => anonymizer.mac(old),
                (None, None) => return,
            };
            return tracked::write(frame, &mut self.sums, at, &new);
        }
        // A route may have only the first bytes of a prefix.
        let mut bytes = [0; 16];
        bytes[..len].copy_from_slice(old);
        let before = bytes;
        let address = &mut bytes[..if kind == AddressKind::V4 { 4 } else { 16 }];
        let mut rules = self.edits.address_rules.iter();
        let rule = rules.position(|rule| rule.reaches(role) && rule.map.apply(address));
        match (rule, &mut self.anonymizer) {
            (Some(number), _) => self.counts.uses.address_rules[number] += 1,
            (None, Some(anonymizer)) => match kind {
                AddressKind::V4 => {
                    let old = *address.first_chunk().expect("an IPv4 address has 4 bytes");
                    address.copy_from_slice(&anonymizer.v4(old));
                }
                _ => address.copy_from_slice(&anonymizer.v6(before)),
            },
            (None, None) => return,
        }
        tracked::write(frame, &mut self.sums, at, &bytes[..len]);
        if role == AddressRole::SolicitedTarget && rule.is_some() {
            self.follow_target(frame, at, &before, &bytes);
        }
    }

    /// The destination that was the solicited-node group of a target becomes that of the new one.
    fn follow_target(&mut self, frame: &mut [u8], target_at: usize, before: &[u8; 16], after: &[u8; 16]) {
        let group = solicited_group(before);
        let found = self.groups.iter().rfind(|found| found.dst_at < target_at);
        // Without an Ethernet header the group is in no list.
        let headers = self.headers.iter().filter(|header| header.protocol == Protocol::Ipv6);
        let ip = headers.filter(|header| header.at < target_at).next_back();
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
        if let Some(network) = headers.clone().find(is_network) {
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
        let ports = headers.find_map(|header| port_places(frame, header));
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
