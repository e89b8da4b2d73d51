//! A flow's headers and payload to the packet of a plan.
//!
//! Built per frame length; all lengths have the same fields. Lengths count to the end of the frame,
//! less four bytes for each Ethernet header further out but the first: an inner Ethernet frame
//! keeps the place of its FCS.

use crate::header::{ChecksumChoice, FlowHeader, HeaderKind, PlacedPattern};
use crate::pattern::Pattern;
use crate::payload::Payload;
use crate::vlan::{VlanTag, is_tpid};
use packet::FCS_LEN;
use packet::plan::{ChecksumField, Field, FrameMark, FrameSpec, PseudoHeader, SumKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// The headers of a flow, in order of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderStack {
    pub(crate) headers: Vec<FlowHeader>,
}

impl HeaderStack {
    /// Puts the tags of an interface behind the Ethernet header, unless the flow has tags of its
    /// own. The EtherType of the flow follows the last tag.
    pub(crate) fn add_tags(&mut self, tags: &[VlanTag], path: &str) {
        let kind = |at: usize| self.headers.get(at).map(|header| header.kind);
        if kind(0) != Some(HeaderKind::Ethernet) || kind(1) == Some(HeaderKind::Vlan) {
            return;
        }
        for (at, tag) in tags.iter().enumerate().rev() {
            let fields = &mut self.headers[0].fields;
            let Some(field) = fields.iter_mut().find(|field| field.name == "ether_type") else { return };
            let next = std::mem::replace(&mut field.pattern, Pattern::Value(tag.tpid.into()));
            self.headers.insert(1, FlowHeader::of_tag(tag, next, format!("{path}.vlans[{at}]")));
        }
    }

    /// Bytes of all headers.
    pub(crate) fn headers_len(&self) -> usize {
        self.headers.iter().map(|header| header.len).sum()
    }

    /// Bytes behind the payload: the places of the FCS of inner Ethernet frames.
    pub(crate) fn trailer_len(&self) -> usize {
        self.inner_ethernets(self.headers.len()) * FCS_LEN
    }

    /// Ethernet headers among the first `count` headers, without the outermost header.
    fn inner_ethernets(&self, count: usize) -> usize {
        let inner = self.headers[..count].iter().skip(1);
        inner.filter(|header| header.kind == HeaderKind::Ethernet).count()
    }

    /// The addresses that IP headers have as their destination, those in tunnels included.
    ///
    /// # Errors
    /// The path of a header or field by which frames can have other IP headers.
    pub(crate) fn destinations(&self) -> Result<Vec<(IpAddr, IpAddr)>, String> {
        let mut found = Vec::new();
        for (index, header) in self.headers.iter().enumerate() {
            if !self.is_followed(index) {
                return Err(header.path.clone());
            }
            for field in &header.fields {
                let ranges = field.pattern.ranges(field.bits);
                match (header.kind, field.name) {
                    (HeaderKind::Ipv4, "dst") => {
                        let address = |value: u128| IpAddr::from(Ipv4Addr::from(value as u32));
                        found.extend(ranges.into_iter().map(|(first, last)| (address(first), address(last))));
                    }
                    (HeaderKind::Ipv6, "dst") => {
                        let address = |value: u128| IpAddr::from(Ipv6Addr::from(value));
                        found.extend(ranges.into_iter().map(|(first, last)| (address(first), address(last))));
                    }
                    (kind, name) if tells_next(kind, name) => {
                        let is_next =
                            |(first, last): (u128, u128)| first == last && self.is_next(index, name, first);
                        if !ranges.into_iter().all(is_next) {
                            return Err(format!("{}.{name}", header.path));
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// True if the bytes behind a header are the next header of the stack, or no IP packet: the
    /// payload may be anything. A frame begins with an Ethernet header.
    fn is_followed(&self, index: usize) -> bool {
        use HeaderKind::{Custom, Ethernet, Gre, Gtpv1, Ipv4, Ipv6, Mpls, Vxlan};
        let header = &self.headers[index];
        let next = self.headers.get(index + 1).map(|next| next.kind);
        (index > 0 || header.kind == Ethernet)
            && match header.kind {
                Custom => false,
                Mpls => matches!(next, Some(Mpls | Ipv4 | Ipv6)),
                Gre => next.is_some_and(|next| next == Ethernet || next.ether_type().is_some()),
                Vxlan => next == Some(Ethernet),
                Gtpv1 => matches!(next, Some(Ipv4 | Ipv6)),
                _ => true,
            }
    }

    /// True if a value of a field tells that the next header of the stack follows.
    fn is_next(&self, index: usize, name: &str, value: u128) -> bool {
        let next = self.headers.get(index + 1).map(|next| next.kind);
        let is_other = match next.filter(|_| matches!(name, "ether_type" | "tpid")) {
            Some(HeaderKind::Vlan) => is_tpid(value),
            Some(HeaderKind::Mpls) => value == MPLS_MULTICAST,
            _ => false,
        };
        is_other || value == self.filled_in(index, name, 0)
    }

    /// First byte of a header.
    pub(crate) fn start(&self, index: usize) -> usize {
        self.headers[..index].iter().map(|header| header.len).sum()
    }

    /// The bytes of a header and all that it carries.
    fn extent(&self, index: usize, frame_len: usize) -> Range<usize> {
        self.start(index)..frame_len - FCS_LEN * self.inner_ethernets(index + 1)
    }

    /// The bytes of the payload.
    pub(crate) fn payload_range(&self, frame_len: usize) -> Range<usize> {
        self.headers_len()..frame_len - self.trailer_len()
    }

    /// A packet per frame length. They have the same fields, the mark's first.
    ///
    /// # Errors
    /// Fields whose values no rule of a plan describes, each with its path.
    pub(crate) fn packets(
        &self,
        frame_lens: &[usize],
        payload: &Payload,
        mark: Option<FrameMark>,
    ) -> Result<Vec<FrameSpec>, Vec<String>> {
        let fields = self.moving_fields()?;
        Ok(frame_lens.iter().map(|frame_len| self.packet(*frame_len, payload, mark, &fields)).collect())
    }

    /// The fields that change from frame to frame. Their places do not depend on the length.
    fn moving_fields(&self) -> Result<Vec<Field>, Vec<String>> {
        let (mut moving, mut errors) = (Vec::new(), Vec::new());
        for (index, header) in self.headers.iter().enumerate() {
            for field in header.fields.iter().filter(|field| !field.pattern.is_constant()) {
                match moving_fields(self.start(index), field) {
                    Ok(fields) => moving.extend(fields),
                    Err(error) => errors.push(format!("{}.{}: {error}", header.path, field.name)),
                }
            }
        }
        if errors.is_empty() { Ok(moving) } else { Err(errors) }
    }

    fn packet(
        &self,
        frame_len: usize,
        payload: &Payload,
        mark: Option<FrameMark>,
        fields: &[Field],
    ) -> FrameSpec {
        let mut spec = FrameSpec { template: vec![0; frame_len], ..FrameSpec::default() };
        let range = self.payload_range(frame_len);
        payload.write(&mut spec.template[range.clone()]);
        if let Some(mark) = mark {
            mark.add(range.end, &mut spec);
        }
        spec.fields.extend_from_slice(fields);
        for (index, header) in self.headers.iter().enumerate() {
            let extent = self.extent(index, frame_len);
            spec.template[extent.start..extent.start + header.custom.len()].copy_from_slice(&header.custom);
            for field in &header.fields {
                let value = field.pattern.at(0, field.bits);
                let value = value.unwrap_or_else(|| self.filled_in(index, field.name, extent.len()));
                write_value(&mut spec.template[extent.start..], field, value);
            }
        }
        // The outer checksums cover the inner ones.
        for index in (0..self.headers.len()).rev() {
            self.add_checksum(index, frame_len, &mut spec);
        }
        if spec.fields.is_empty() {
            spec.checksums.iter().for_each(|checksum| checksum.write(&mut spec.template));
        }
        spec
    }

    /// The value of a field that wirerate fills in; `len` counts from this header on.
    fn filled_in(&self, index: usize, name: &str, len: usize) -> u128 {
        let header = &self.headers[index];
        let next = self.headers.get(index + 1).map(|next| next.kind);
        let ether_type = next.and_then(HeaderKind::ether_type);
        let value = match (header.kind, name) {
            (HeaderKind::Ethernet, "ether_type") | (HeaderKind::Vlan, "tpid") => {
                usize::from(ether_type.unwrap_or(0xffff))
            }
            (HeaderKind::Ipv4, "version") => 4,
            (HeaderKind::Ipv6, "version") => 6,
            (HeaderKind::Ipv4, "header_length") | (HeaderKind::Tcp, "data_offset") => 5,
            (HeaderKind::Ipv4, "total_length") | (HeaderKind::Udp, "length") => len,
            (HeaderKind::Ipv6, "payload_length") => len - header.len,
            (HeaderKind::Ipv4, "protocol") => {
                usize::from(next.and_then(HeaderKind::ip_protocol).unwrap_or(61))
            }
            (HeaderKind::Ipv6, "next_header") => {
                usize::from(next.and_then(HeaderKind::ip_protocol).unwrap_or(59))
            }
            (HeaderKind::Gre, "protocol") if next == Some(HeaderKind::Ethernet) => 0x6558,
            (HeaderKind::Gre, "protocol") => usize::from(ether_type.unwrap_or(0x0800)),
            (HeaderKind::Gtpv1, "message_length") => len - GTPV1_LEN,
            (HeaderKind::Gtpv1, "extension_length") => 2,
            (HeaderKind::Mpls, "label") => 16,
            (HeaderKind::Mpls, "bottom_of_stack") => usize::from(next != Some(HeaderKind::Mpls)),
            // The MAC address of a neighbour is unknown here; a VNI is 0.
            _ => 0,
        };
        value as u128
    }

    fn add_checksum(&self, index: usize, frame_len: usize, spec: &mut FrameSpec) {
        let header = &self.headers[index];
        let extent = self.extent(index, frame_len);
        let Some((offset, choice)) = header.checksum else { return };
        let offset = extent.start + offset;
        if let ChecksumChoice::Custom(value) = choice {
            spec.template[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
            return;
        }
        let pseudo_header = match header.kind {
            HeaderKind::Udp => self.pseudo_header(index, 17),
            HeaderKind::Tcp => self.pseudo_header(index, 6),
            HeaderKind::Icmpv6 => self.pseudo_header(index, 58),
            _ => PseudoHeader::None,
        };
        let kind = if header.kind == HeaderKind::Udp { SumKind::Udp } else { SumKind::Internet };
        let end = if header.kind == HeaderKind::Ipv4 { extent.start + header.len } else { extent.end };
        let is_wrong = choice == ChecksumChoice::Bad;
        spec.checksums.push(ChecksumField {
            offset,
            start: extent.start,
            end,
            pseudo_header,
            kind,
            is_wrong,
        });
    }

    /// That of the next IP header further out.
    fn pseudo_header(&self, index: usize, protocol: u8) -> PseudoHeader {
        let is_ip = |index: &usize| matches!(self.headers[*index].kind, HeaderKind::Ipv4 | HeaderKind::Ipv6);
        match (0..index).rev().find(is_ip) {
            None => PseudoHeader::None,
            Some(ip) if self.headers[ip].kind == HeaderKind::Ipv4 => {
                PseudoHeader::Ipv4 { header: self.start(ip), protocol }
            }
            Some(ip) => PseudoHeader::Ipv6 { header: self.start(ip), protocol },
        }
    }
}

/// Bytes of a GTP-U header that its length does not count.
const GTPV1_LEN: usize = 8;
/// The EtherType of MPLS frames with a multicast label.
const MPLS_MULTICAST: u128 = 0x8848;

/// True for fields that tell how long the header is, or what follows it.
fn tells_next(kind: HeaderKind, name: &str) -> bool {
    match kind {
        HeaderKind::Ethernet => name == "ether_type",
        HeaderKind::Vlan => name == "tpid",
        HeaderKind::Ipv4 => matches!(name, "version" | "header_length" | "protocol"),
        HeaderKind::Ipv6 => matches!(name, "version" | "next_header"),
        HeaderKind::Mpls => name == "bottom_of_stack",
        // The reserved bits of RFC 2784 were those of further fields in RFC 1701.
        HeaderKind::Gre => matches!(name, "version" | "protocol" | "reserved0"),
        _ => false,
    }
}

/// Writes a value into the bits of its field.
fn write_value(header: &mut [u8], field: &PlacedPattern, value: u128) {
    for bit in 0..field.bits as usize {
        let at = field.bit + field.bits as usize - 1 - bit;
        let mask = 0x80 >> (at % 8);
        match value >> bit & 1 {
            1 => header[at / 8] |= mask,
            _ => header[at / 8] &= !mask,
        }
    }
}

/// The fields of a plan that write a pattern: one, or two for the halves of an IPv6 address.
fn moving_fields(start: usize, field: &PlacedPattern) -> Result<Vec<Field>, String> {
    let parts = if field.bits > 64 { vec![(64, 64), (0, 64)] } else { vec![(0, field.bits)] };
    let fields = parts.into_iter().map(|(above, width)| {
        let last_bit = field.bit + (field.bits - above) as usize;
        let first_bit = last_bit - width as usize;
        let (first, end) = (first_bit / 8, last_bit.div_ceil(8));
        let shift = (end * 8 - last_bit) as u32;
        let mask = (u64::MAX >> (64 - width)) << shift;
        let mode = field.pattern.mode(field.bits, above, width)?;
        Ok(Field { offset: start + first, width: end - first, mask, shift, mode, hold: 1 })
    });
    fields.collect()
}
