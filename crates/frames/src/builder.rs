//! One packet while it is read: bytes, headers, fields, checksums.
//!
//! The rules are trafgen's, as its frames show them: a header starts where the one before it ends;
//! lengths, checksums and the numbers that name the next header are filled in unless they were
//! given.

use crate::FRAME_BYTES_MAX;
use crate::protocols::{Default, Id, Next, Protocol, ProtocolField, RAW, Sum, ValueKind};
use packet::MacAddr;
use packet::plan::{
    ChecksumField, ENTROPY_MIN, Field, FieldMode, FrameSpec, PseudoHeader, SumKind, read_bits, write_bits,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Bytes of an optional group of a header.
const GROUP_LEN: usize = 4;
/// Checksums of a packet that are put in order of their dependencies; more are computed as they
/// stand.
const ORDERED_CHECKSUMS_MAX: usize = 16;
/// Bytes of an IPv4 and an IPv6 header without options.
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

/// A header in the packet.
#[derive(Clone, Debug)]
struct Layer {
    protocol: &'static Protocol,
    offset: usize,
    len: usize,
    /// Bit per optional group that is there.
    groups: u32,
    /// Bit per field that was given.
    given: u64,
}

/// A checksum function, checked at the end of the packet.
#[derive(Clone, Copy, Debug)]
struct Requested {
    checksum: ChecksumField,
    /// Place in the text, for errors.
    place: usize,
}

/// Addresses of the sending device, for source fields that are not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAddresses {
    /// MAC address.
    pub mac: MacAddr,
    /// First IPv4 address.
    pub ipv4: Ipv4Addr,
    /// First IPv6 address.
    pub ipv6: Ipv6Addr,
}

impl DeviceAddresses {
    /// All zero: there is no device, as with a file.
    pub const NONE: Self =
        Self { mac: MacAddr::ZERO, ipv4: Ipv4Addr::UNSPECIFIED, ipv6: Ipv6Addr::UNSPECIFIED };
}

/// What a packet does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseSettings {
    /// Seed of `rnd()`.
    pub seed: u64,
    /// Source addresses that are not given.
    pub device: DeviceAddresses,
    /// The frames are for a device: `ipv6()` gets an Ethernet header, and the header before it
    /// names it. trafgen does neither when it writes a file.
    pub is_for_device: bool,
    /// Zeros follow a packet that is shorter, and belong to its payload: lengths and checksums
    /// count them.
    pub frame_len_min: usize,
}

impl std::default::Default for ParseSettings {
    fn default() -> Self {
        Self { seed: 0, device: DeviceAddresses::NONE, is_for_device: false, frame_len_min: 0 }
    }
}

/// A packet that is being read.
#[derive(Clone, Debug)]
pub(crate) struct PacketBuilder {
    device: DeviceAddresses,
    /// The frames are for a device: `ipv6()` gets an Ethernet header, and the header before it
    /// names it ([`ParseSettings::is_for_device`]).
    is_for_device: bool,
    bytes: Vec<u8>,
    fields: Vec<Field>,
    requested: Vec<Requested>,
    layers: Vec<Layer>,
    /// Where the bytes of `raw(...)` and `hex(...)` directly behind the last header end.
    raw_end: usize,
}

/// Where a field of a header is, and its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) offset: usize,
    pub(crate) width: usize,
    /// 0 for all.
    pub(crate) mask: u64,
    pub(crate) shift: u32,
}

impl Spot {
    /// The mask, cut to the width of a field of up to 8 bytes.
    fn mask(self) -> u64 {
        let all = if self.width < 8 { (1 << (8 * self.width)) - 1 } else { u64::MAX };
        if self.mask == 0 { all } else { self.mask & all }
    }
}

impl PacketBuilder {
    pub(crate) fn new(device: DeviceAddresses, is_for_device: bool) -> Self {
        let (bytes, fields, requested, layers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { device, is_for_device, bytes, fields, requested, layers, raw_end: 0 }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.grow(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The bytes from `start` on came from `raw(...)` or `hex(...)`, so a header may follow them.
    pub(crate) fn is_raw_from(&mut self, start: usize) {
        // Inside raw(...), a hex(...) at its beginning has moved the end already.
        if start <= self.raw_end.max(self.header_end()) {
            self.raw_end = self.bytes.len();
        }
    }

    /// The first byte behind the last header.
    fn header_end(&self) -> usize {
        self.layers.last().map_or(0, |top| top.offset + top.len)
    }

    /// Checks that `more` bytes fit.
    pub(crate) fn grow(&self, more: usize) -> Result<(), String> {
        match self.bytes.len().checked_add(more) {
            Some(len) if len <= FRAME_BYTES_MAX => Ok(()),
            _ => Err(format!("this packet is longer than {FRAME_BYTES_MAX} bytes")),
        }
    }

    /// Appends `count` copies of a byte.
    pub(crate) fn fill(&mut self, byte: u8, count: usize) -> Result<(), String> {
        self.grow(count)?;
        self.bytes.resize(self.bytes.len() + count, byte);
        Ok(())
    }

    /// Appends bytes that are random in each frame.
    pub(crate) fn random_per_frame(&mut self, count: usize) -> Result<(), String> {
        self.grow(count)?;
        for start in (0..count).step_by(8) {
            let width = (count - start).min(8);
            let mask = u64::MAX >> (64 - 8 * width);
            let mode = FieldMode::Random { min: 0, max: mask };
            self.fields.push(Field::whole(self.bytes.len() + start, width, mode));
        }
        self.bytes.resize(self.bytes.len() + count, 0);
        Ok(())
    }

    /// Appends one byte that takes the values of `mode`.
    pub(crate) fn moving_byte(&mut self, mode: FieldMode) -> Result<(), String> {
        let offset = self.bytes.len();
        self.extend(&[0])?;
        self.fields.push(Field::whole(offset, 1, mode));
        Ok(())
    }

    /// Appends a checksum of the bytes `from` to `to`, inclusive.
    pub(crate) fn range_checksum(&mut self, from: usize, to: usize, place: usize) -> Result<(), String> {
        self.checksum(from, Some(to), PseudoHeader::None, SumKind::Internet, place)
    }

    /// Appends a transport checksum from `start` to the end.
    pub(crate) fn transport_checksum(
        &mut self,
        ip: usize,
        start: usize,
        protocol: u8,
        is_v6: bool,
        place: usize,
    ) -> Result<(), String> {
        let pseudo_header = if is_v6 {
            PseudoHeader::Ipv6 { header: ip, protocol }
        } else {
            PseudoHeader::Ipv4 { header: ip, protocol }
        };
        let kind = if protocol == 17 { SumKind::Udp } else { SumKind::Internet };
        self.checksum(start, None, pseudo_header, kind, place)
    }

    fn checksum(
        &mut self,
        start: usize,
        last: Option<usize>,
        pseudo_header: PseudoHeader,
        kind: SumKind,
        place: usize,
    ) -> Result<(), String> {
        let offset = self.bytes.len();
        self.extend(&[0; 2])?;
        let end = last.map_or(usize::MAX, |last| last.saturating_add(1));
        let checksum = ChecksumField { offset, start, end, pseudo_header, kind, is_wrong: false };
        self.requested.push(Requested { checksum, place });
        Ok(())
    }

    /// Appends a header, and the headers that it needs in front. `groups` has a bit per optional
    /// group.
    pub(crate) fn push_header(&mut self, protocol: &'static Protocol, groups: u32) -> Result<(), String> {
        let offset = self.header_end();
        if self.raw_end > offset && self.raw_end == self.bytes.len() {
            let len = self.raw_end - offset;
            self.layers.push(Layer { protocol: &RAW, offset, len, groups: 0, given: 0 });
        }
        if let Some(lower) = self.lower(protocol) {
            let lower = Protocol::of(lower);
            if self.layers.last().is_none_or(|top| top.protocol.layer < lower.layer) {
                self.push_header(lower, 0)?;
            }
        }
        let inherited = self.introduce(protocol)?;
        let offset = self.header_end();
        let first = protocol.fields[0].width;
        if self.bytes.len() > offset + first {
            let (count, name) = (self.bytes.len() - offset, protocol.names[0]);
            return Err(format!("{count} bytes stand before {name}(): put them into raw(...)"));
        }
        let len = protocol.len + GROUP_LEN * groups.count_ones() as usize;
        let missing = (offset + len).saturating_sub(self.bytes.len());
        self.fill(0, missing)?;
        self.layers.push(Layer { protocol, offset, len, groups, given: 0 });
        for (index, field) in protocol.fields.iter().enumerate() {
            let spot = self.spot(index);
            match (field.default, field.kind) {
                (Default::Number(value), _) => self.write_number(spot, value),
                (Default::OfDevice, ValueKind::Mac) => self.write_bytes(spot, &{ self.device.mac.0 }),
                (Default::OfDevice, ValueKind::Ip6) => self.write_bytes(spot, &self.device.ipv6.octets()),
                (Default::OfDevice, _) => self.write_bytes(spot, &self.device.ipv4.octets()),
                _ => {}
            }
        }
        for (_, bits) in protocol.groups.iter().enumerate().filter(|(group, _)| groups & 1 << group != 0) {
            let spot = self.spot(0);
            self.write_number(spot, self.read_number(spot) | bits);
        }
        if let Some(ether_type) = inherited {
            self.write_number(self.spot(5), ether_type);
        }
        Ok(())
    }

    /// The header that `protocol` needs in front.
    fn lower(&self, protocol: &Protocol) -> Option<Id> {
        if protocol.id == Id::Ipv6 && self.is_for_device { Some(Id::Eth) } else { protocol.lower }
    }

    /// True if the last header names `upper`. trafgen's never names eth(), and ipv6() on a device
    /// only.
    fn names(&self, upper: &Protocol) -> bool {
        let has_ours = self.layers.iter().any(|layer| layer.protocol.is_ours);
        self.lower(upper).is_some()
            || (upper.id == Id::Ipv6 && has_ours)
            || self.layers.last().is_some_and(|top| top.protocol.is_ours)
    }

    /// Lets the last header name the one that follows. Returns the EtherType that a VLAN tag takes
    /// over.
    fn introduce(&mut self, upper: &'static Protocol) -> Result<Option<u64>, String> {
        let Some(top) = self.layers.last() else { return Ok(None) };
        let (lower, given) = (top.protocol, top.given);
        let is_given = |index: usize| given & 1 << index != 0;
        let number = match lower.next {
            Next::EtherType(index) => Some((index, u64::from(upper.number.ether_type))),
            Next::IpProtocol(index) => Some((index, u64::from(upper.number.ip))),
            Next::Port(index) => Some((index, u64::from(upper.number.port))),
            Next::Ppp(index) => Some((index, u64::from(upper.number.ppp))),
            Next::BottomOfStack(index) => (upper.id == Id::Mpls).then_some((index, 0)),
            Next::Any => None,
        };
        let is_named = self.names(upper);
        let is_tag = lower.id == Id::Vlan;
        let is_hop_by_hop = upper.id == Id::HopByHop && lower.id == Id::Ipv6;
        match number.filter(|_| is_named) {
            // Hop-by-hop options have number 0.
            Some((_, 0)) if lower.next != Next::BottomOfStack(2) && !is_hop_by_hop => {
                return Err(format!("{} cannot carry {}", lower.names[0], upper.names[0]));
            }
            // A tag behind a tag takes over its EtherType; any other header overwrites it.
            Some((index, number)) if is_tag && upper.id != Id::Vlan || !is_tag && !is_given(index) => {
                self.write_number(self.spot(index), number);
            }
            _ => {}
        }
        let destination: &[u8; 6] = match upper.id {
            Id::Arp => &[0xff; 6],
            Id::Pause | Id::Pfc => &[0x01, 0x80, 0xc2, 0, 0, 1],
            _ => return Ok(self.inherited(lower, upper)),
        };
        match lower.id {
            Id::Eth if !is_given(0) => self.write_bytes(self.spot(0), destination),
            // trafgen writes the address over the first field of the header before, whatever it is.
            Id::Vlan if upper.id != Id::Arp && !is_given(0) => {
                self.write_bytes(self.spot(0), &destination[..2]);
            }
            _ => {}
        }
        Ok(None)
    }

    /// The EtherType that `upper` takes over, if it is a VLAN tag.
    fn inherited(&self, lower: &Protocol, upper: &Protocol) -> Option<u64> {
        match lower.next {
            Next::EtherType(index) if upper.id == Id::Vlan => Some(self.read_number(self.spot(index))),
            _ => None,
        }
    }

    /// Where field `index` of the last header is.
    pub(crate) fn spot(&self, index: usize) -> Spot {
        spot_of(self.layers.last().expect("a header was pushed"), index)
    }

    /// Marks field `index` of the last header as given.
    pub(crate) fn give(&mut self, index: usize) {
        self.layers.last_mut().expect("a header was pushed").given |= 1 << index;
    }

    /// True if field `index` of the last header was given.
    pub(crate) fn is_given(&self, index: usize) -> bool {
        self.layers.last().is_some_and(|top| top.given & 1 << index != 0)
    }

    /// Writes a number into a field of the last header, unless the field was given.
    pub(crate) fn default_number(&mut self, name: &str, value: usize) {
        let index = self.field_named(name);
        if !self.is_given(index) {
            self.write_number(self.spot(index), value as u64);
        }
    }

    /// The number in a field of the last header.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.read_number(self.spot(self.field_named(name)))
    }

    fn field_named(&self, name: &str) -> usize {
        let fields = self.layers.last().expect("a header was pushed").protocol.fields;
        fields.iter().position(|field| field.names.contains(&name)).expect("a field of the table")
    }

    /// Writes a number into a field of up to 8 bytes; bits that do not fit are cut off.
    pub(crate) fn write_number(&mut self, spot: Spot, value: u64) {
        let bytes = &mut self.bytes[spot.offset..spot.offset + spot.width];
        write_bits(bytes, spot.mask(), value << spot.shift);
    }

    /// The number in a field of up to 8 bytes.
    pub(crate) fn read_number(&self, spot: Spot) -> u64 {
        (read_bits(&self.bytes[spot.offset..spot.offset + spot.width]) & spot.mask()) >> spot.shift
    }

    /// Writes the bytes of an address into its field.
    pub(crate) fn write_bytes(&mut self, spot: Spot, bytes: &[u8]) {
        self.bytes[spot.offset..spot.offset + spot.width].copy_from_slice(bytes);
    }

    /// Makes `spot`, of up to 8 bytes, take the values of `mode`.
    pub(crate) fn move_spot(&mut self, spot: Spot, mode: FieldMode) {
        let (mask, shift) = (spot.mask(), spot.shift);
        // An index into a field with a mask can select bytes that the mask leaves out.
        if mask != 0 {
            self.fields.push(Field { mask, shift, ..Field::whole(spot.offset, spot.width, mode) });
        }
    }

    /// Fields that move so far.
    pub(crate) fn field_count(&self) -> usize {
        self.fields.len()
    }

    /// Lets the fields from index `first` on keep each value for `frames` frames.
    pub(crate) fn hold_fields(&mut self, first: usize, frames: u32) {
        self.fields[first..].iter_mut().for_each(|field| field.hold = frames);
    }

    /// True if a field elsewhere than at `spot` has `entropy()`.
    pub(crate) fn has_entropy_outside(&self, spot: Spot) -> bool {
        let is_other = |field: &Field| field.offset != spot.offset;
        self.fields.iter().any(|field| matches!(field.mode, FieldMode::Entropy { .. }) && is_other(field))
    }

    /// Appends bytes to the last header.
    pub(crate) fn extend_header(&mut self, bytes: &[u8]) -> Result<(), String> {
        let top = self.layers.last_mut().expect("a header was pushed");
        top.len += bytes.len();
        self.extend(bytes)
    }

    /// Fills in lengths and checksums. The place in the text is that of the function at fault.
    pub(crate) fn finish(mut self, cpus: Option<RangeInclusive<u32>>) -> Result<FrameSpec, (usize, String)> {
        self.find_keys();
        let len = self.bytes.len();
        let mut checksums = Vec::with_capacity(self.requested.len() + self.layers.len());
        for requested in &self.requested {
            let checksum = within(requested.checksum, len).map_err(|why| (requested.place, why))?;
            checksums.push(self.within_datagram(checksum));
        }
        for index in (0..self.layers.len()).rev() {
            let layer = self.layers[index].clone();
            for (number, field) in layer.protocol.fields.iter().enumerate() {
                if let Default::Length(less) = field.default
                    && layer.given & 1 << number == 0
                {
                    // As trafgen, the low 16 bits of what can be longer.
                    let covered = (len - layer.offset).wrapping_sub(less);
                    self.write_number(spot_of(&layer, number), covered as u64);
                }
            }
        }
        let headers = (0..self.layers.len()).rev().filter_map(|index| self.header_checksum(index));
        checksums.extend(headers.map(|checksum| self.within_datagram(checksum)));
        if checksums.len() <= ORDERED_CHECKSUMS_MAX {
            checksums = inner_first(checksums);
        }
        for checksum in &checksums {
            checksum.write(&mut self.bytes);
        }
        // Ranges that cover each other have no right checksums that could follow a change.
        if self.fields.is_empty() && !is_stable(&self.bytes, &checksums) {
            checksums.clear();
        }
        let payload_at = self.layers.last().map_or(0, |layer| layer.offset + layer.len);
        Ok(FrameSpec { template: self.bytes, fields: self.fields, checksums, cpus, payload_at })
    }

    /// Moves a field with entropy behind all others, and finds the fields that it depends on.
    /// Without any it is constant.
    fn find_keys(&mut self) {
        let is_entropy = |field: &Field| matches!(field.mode, FieldMode::Entropy { .. });
        let (found, others) = std::mem::take(&mut self.fields).into_iter().partition(is_entropy);
        self.fields = others;
        let found: Vec<Field> = found;
        // All are for one field; the last one counts.
        let Some(mut field) = found.into_iter().next_back() else { return };
        let is_key = |key: &Field| key.offset > field.offset && self.is_of_flow(key);
        let keys: Vec<usize> =
            self.fields.iter().enumerate().filter(|(_, key)| is_key(key)).map(|(index, _)| index).collect();
        if keys.is_empty() {
            let Field { offset, width, mask, shift, .. } = field;
            write_bits(&mut self.bytes[offset..offset + width], mask, ENTROPY_MIN << shift);
            return;
        }
        field.mode = FieldMode::Entropy { keys: keys.into() };
        self.fields.push(field);
    }

    /// True for addresses and ports.
    fn is_of_flow(&self, field: &Field) -> bool {
        self.layers.iter().any(|layer| {
            let place = match layer.protocol.id {
                Id::Eth => 0..12,
                Id::Ipv4 => 12..20,
                Id::Ipv6 => 8..40,
                Id::Udp | Id::Tcp | Id::Sctp => 0..4,
                _ => return false,
            };
            field.offset.checked_sub(layer.offset).is_some_and(|at| place.contains(&at))
        })
    }

    /// The checksum of header `index`, unless it was given.
    fn header_checksum(&self, index: usize) -> Option<ChecksumField> {
        let layer = &self.layers[index];
        let (field, kind) = match layer.protocol.sum {
            Sum::None => return None,
            Sum::Header(field) | Sum::Plain(field) => (field, SumKind::Internet),
            Sum::Transport(field) if layer.protocol.id == Id::Udp => (field, SumKind::Udp),
            Sum::Transport(field) => (field, SumKind::Internet),
            Sum::Crc32c(field) => (field, SumKind::Crc32c),
        };
        if layer.given & 1 << field != 0 {
            return None;
        }
        let pseudo_header = match layer.protocol.sum {
            Sum::Transport(_) => self.pseudo_header(index)?,
            _ => PseudoHeader::None,
        };
        let start = layer.offset;
        let end = if let Sum::Header(_) = layer.protocol.sum {
            // With options, if the header length was given and they are there.
            let given = usize::from(self.bytes[start] & 0x0f) * 4;
            let fits = given > IPV4_LEN && start + given <= self.bytes.len();
            start + if fits { given } else { IPV4_LEN }
        } else {
            self.bytes.len()
        };
        Some(ChecksumField {
            offset: spot_of(layer, field).offset,
            start,
            end,
            pseudo_header,
            kind,
            is_wrong: false,
        })
    }

    /// The checksum of a datagram ends where the lengths of IP and UDP say, if they fit. trafgen
    /// covers all bytes.
    fn within_datagram(&self, checksum: ChecksumField) -> ChecksumField {
        let ChecksumField { start, mut end, .. } = checksum;
        let length = |at: usize| read_bits(&self.bytes[at..at + 2]) as usize;
        let datagram_end = match checksum.pseudo_header {
            PseudoHeader::None => return checksum,
            PseudoHeader::Ipv4 { header, .. } => header + length(header + 2),
            PseudoHeader::Ipv6 { header, .. } => header + IPV6_LEN + length(header + 4),
            PseudoHeader::Routed { src, .. } => src - 8 + IPV6_LEN + length(src - 4),
        };
        if (start + 1..end).contains(&datagram_end) {
            end = datagram_end;
        }
        if checksum.kind == SumKind::Udp && end - start >= UDP_LEN {
            let udp_len = length(start + 4);
            if (UDP_LEN..end - start).contains(&udp_len) {
                end = start + udp_len;
            }
        }
        ChecksumField { end, ..checksum }
    }

    /// The pseudo header for the transport header `index`; `None` if it does not stand behind an IP
    /// header and its extension headers. The destination is the last segment of a routing header
    /// that has segments left.
    fn pseudo_header(&self, index: usize) -> Option<PseudoHeader> {
        let protocol = self.layers[index].protocol.number.ip;
        let before = &self.layers[..index];
        let at = before.iter().rposition(|layer| !layer.protocol.is_extension())?;
        let header = before[at].offset;
        match before[at].protocol.id {
            Id::Ipv4 => Some(PseudoHeader::Ipv4 { header, protocol }),
            Id::Ipv6 => Some(match before[at..].iter().find_map(|layer| self.final_segment(layer)) {
                Some(dst) => PseudoHeader::Routed { src: header + 8, dst, protocol },
                None => PseudoHeader::Ipv6 { header, protocol },
            }),
            _ => None,
        }
    }

    /// Where a routing header has the last address of its path, while segments are left.
    fn final_segment(&self, layer: &Layer) -> Option<usize> {
        if layer.protocol.id != Id::Routing || layer.len == layer.protocol.len {
            return None;
        }
        let [kind, left] = [2, 3].map(|at| self.bytes[layer.offset + at]);
        let first = layer.offset + layer.protocol.len;
        // Segment routing has its segments in reverse order (RFC 8754).
        (left > 0).then_some(if kind == 4 { first } else { layer.offset + layer.len - 16 })
    }
}

/// Where field `index` of a header is.
fn spot_of(layer: &Layer, index: usize) -> Spot {
    let field: &ProtocolField = &layer.protocol.fields[index];
    let base = match field.group {
        None => layer.offset,
        Some(group) => {
            let before = (layer.groups & ((1 << group) - 1)).count_ones() as usize;
            layer.offset + layer.protocol.len + GROUP_LEN * before
        }
    };
    let offset = base.wrapping_add_signed(field.offset);
    Spot { offset, width: field.width, mask: field.mask, shift: field.shift }
}

/// The checksum with its end cut to the packet, as trafgen does; an error if it covers bytes that
/// are not there.
fn within(checksum: ChecksumField, len: usize) -> Result<ChecksumField, String> {
    let (header, header_len, protocol) = match checksum.pseudo_header {
        PseudoHeader::None => (0, 0, ""),
        PseudoHeader::Ipv4 { header, .. } => (header, IPV4_LEN, "IPv4"),
        PseudoHeader::Ipv6 { header, .. } => (header, IPV6_LEN, "IPv6"),
        PseudoHeader::Routed { src, dst, .. } => (src.max(dst), 16, "IPv6"),
    };
    if header.saturating_add(header_len) > len {
        return Err(format!("the {protocol} header at byte {header} goes beyond the packet of {len} bytes"));
    }
    if checksum.start >= len {
        let start = checksum.start;
        return Err(format!("the checksum starts at byte {start}, and the packet has {len} bytes"));
    }
    Ok(ChecksumField { end: checksum.end.min(len), ..checksum })
}

/// Puts each checksum behind those that it covers; otherwise keeps the order.
fn inner_first(mut checksums: Vec<ChecksumField>) -> Vec<ChecksumField> {
    let mut ordered = Vec::with_capacity(checksums.len());
    while !checksums.is_empty() {
        let is_ready = |(index, checksum): (usize, &ChecksumField)| {
            checksums.iter().enumerate().all(|(other, inner)| other == index || !checksum.covers(inner))
        };
        // Two that cover each other keep their order.
        let ready = (0..checksums.len()).position(|index| is_ready((index, &checksums[index]))).unwrap_or(0);
        ordered.push(checksums.remove(ready));
    }
    ordered
}

/// True if the checksums in `bytes` are those that would be computed again.
fn is_stable(bytes: &[u8], checksums: &[ChecksumField]) -> bool {
    let mut again = bytes.to_vec();
    checksums.iter().for_each(|checksum| checksum.write(&mut again));
    again == bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(offset: usize, start: usize, end: usize) -> ChecksumField {
        ChecksumField {
            offset,
            start,
            end,
            pseudo_header: PseudoHeader::None,
            kind: SumKind::Internet,
            is_wrong: false,
        }
    }

    #[test]
    fn inner_checksums_come_before_those_that_cover_them() {
        let (outer, inner, ip) = (sum(10, 8, 100), sum(50, 48, 100), sum(4, 0, 8));
        assert_eq!(inner_first(vec![ip, outer, inner]), [ip, inner, outer]);
        let (a, b) = (sum(0, 0, 10), sum(4, 0, 10));
        assert_eq!(inner_first(vec![a, b]), [a, b]);
    }

    #[test]
    fn checksum_outside_the_packet_is_an_error() {
        assert_eq!(within(sum(0, 2, 50), 10).unwrap().end, 10);
        assert!(within(sum(0, 10, 50), 10).is_err());
        let pseudo_header = PseudoHeader::Ipv6 { header: 14, protocol: 17 };
        assert!(within(ChecksumField { pseudo_header, ..sum(0, 2, 50) }, 53).is_err());
        assert!(within(ChecksumField { pseudo_header, ..sum(0, 2, 50) }, 54).is_ok());
    }
}
