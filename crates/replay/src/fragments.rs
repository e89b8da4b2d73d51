//! IP packets as fragments of the longest length (RFC 791, RFC 8200 section 4.5).
//!
//! A fragment can be divided again. The bytes of the packet stay as they are, checksums of its
//! payload included.

use crate::edit::LengthField;
use packet::checksum::{add, finish};
use packet::headers::{EndCause, FirstHeader, Header, Protocol, Walk, fragment, ipv4};

const MORE: u16 = 0x2000;
const DONT: u16 = 0x4000;
const FRAGMENT_PROTOCOL: u8 = 44;

/// Why a packet is not sent as fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFragments {
    /// It has DF set.
    DontFragment,
    /// It is not IP, not whole, or there is no space for payload.
    Impossible,
}

/// A packet and its next fragment.
#[derive(Clone, Debug)]
pub(crate) struct FragmentedPacket {
    bytes: Vec<u8>,
    ip: Header,
    /// Length fields in front of the packet.
    link_lengths: Vec<LengthField>,
    /// Where the header ends that each fragment has, without a fragment header.
    header_end: usize,
    /// Place of the protocol that a fragment header of IPv6 takes the place of.
    next_at: usize,
    /// The fragment header of IPv6 for a first fragment.
    fragment: [u8; fragment::LEN],
    /// Where the payload begins and ends.
    payload_at: usize,
    end: usize,
    /// Offset of the payload in the whole packet, and whether fragments follow it.
    offset: usize,
    has_more: bool,
    frame_len_max: usize,
    /// Payload that was sent.
    done: usize,
}

impl FragmentedPacket {
    /// A packet as fragments of up to `frame_len_max` bytes, with its link header. `number`
    /// identifies the fragments of a packet that has no number of its own.
    pub(crate) fn new(
        frame: &[u8],
        first: FirstHeader,
        frame_len_max: u32,
        divides_df: bool,
        number: u64,
    ) -> Result<Self, NoFragments> {
        use NoFragments::Impossible;
        let (mut walk, mut link_lengths) = (Walk::new(frame, first), Vec::new());
        let ip = walk.find(|header| {
            let is_ip = header.protocol.is_ip();
            link_lengths.extend(LengthField::of(frame, header).filter(|_| !is_ip));
            is_ip
        });
        let ip = ip.filter(|header| header.is_whole()).ok_or(Impossible)?;
        let mut packet = Self {
            bytes: frame.to_vec(),
            ip,
            link_lengths,
            header_end: ip.at + ip.len,
            next_at: ip.at + 6,
            fragment: [0; fragment::LEN],
            payload_at: ip.at + ip.len,
            end: ip.end,
            offset: 0,
            has_more: false,
            frame_len_max: frame_len_max as usize,
            done: 0,
        };
        if ip.protocol == Protocol::Ipv4 {
            packet.prepare_v4(divides_df, number)?;
        } else {
            packet.prepare_v6(walk, number)?;
        }
        (packet.payload_len_max() >= 8 && packet.payload_at < packet.end).then_some(packet).ok_or(Impossible)
    }

    fn prepare_v4(&mut self, divides_df: bool, number: u64) -> Result<(), NoFragments> {
        let at = self.ip.at;
        let view = ipv4::View::new(&self.bytes[at..]).ok_or(NoFragments::Impossible)?;
        if view.has_dont_fragment() && !divides_df {
            return Err(NoFragments::DontFragment);
        }
        (self.offset, self.has_more) = (view.fragment_offset(), view.fields().fragment & MORE != 0);
        if view.fields().id == 0 && !view.is_fragment() {
            // Senders of packets with DF need no identification.
            self.bytes[at + 4..at + 6].copy_from_slice(&(number as u16).to_be_bytes());
        }
        Ok(())
    }

    fn prepare_v6(&mut self, walk: Walk<'_>, number: u64) -> Result<(), NoFragments> {
        self.fragment[4..].copy_from_slice(&(number as u32).to_be_bytes());
        self.fragment[0] = self.bytes[self.next_at];
        let (mut walk, mut next_at) = (walk, self.next_at);
        for header in walk.by_ref() {
            let next = self.bytes[next_at];
            if header.protocol == Protocol::Fragment {
                let view = fragment::View::new(&self.bytes[header.at..]).ok_or(NoFragments::Impossible)?;
                (self.offset, self.has_more) = (view.offset(), view.fields().has_more);
                self.fragment = *self.bytes[header.at..].first_chunk().expect("the view has read it");
                (self.header_end, self.next_at) = (header.at, next_at);
                self.payload_at = header.at + fragment::LEN;
                return Ok(());
            }
            if !header.protocol.is_extension() || header.depth != self.ip.depth {
                return Ok(());
            }
            next_at = header.at;
            // Hop-by-hop options and routing headers, with all before them, are part of each
            // fragment.
            if next == 0 || header.protocol == Protocol::Routing {
                (self.header_end, self.next_at) = (header.at + header.len, header.at);
                (self.payload_at, self.fragment[0]) = (self.header_end, self.bytes[header.at]);
            }
        }
        match walk.end().cause {
            EndCause::Cut | EndCause::Malformed => Err(NoFragments::Impossible),
            _ => Ok(()),
        }
    }

    /// Payload of a fragment that others follow, a multiple of 8.
    fn payload_len_max(&self) -> usize {
        let extra = if self.ip.protocol == Protocol::Ipv6 { fragment::LEN } else { 0 };
        self.frame_len_max.saturating_sub(self.header_end + extra) & !7
    }

    /// Writes the next fragment into `frame`; false behind the last.
    pub(crate) fn next(&mut self, frame: &mut Vec<u8>) -> bool {
        let from = self.payload_at + self.done;
        if from >= self.end {
            return false;
        }
        let to = self.end.min(from + self.payload_len_max());
        let has_more = self.has_more || to < self.end;
        frame.clear();
        if self.ip.protocol == Protocol::Ipv4 {
            self.write_v4(frame, from..to, has_more);
        } else {
            self.write_v6(frame, from..to, has_more);
        }
        let end = frame.len();
        self.link_lengths.iter().for_each(|field| field.write(frame, end));
        self.done += to - from;
        true
    }

    fn write_v4(&self, frame: &mut Vec<u8>, payload: std::ops::Range<usize>, has_more: bool) {
        let at = self.ip.at;
        frame.extend_from_slice(&self.bytes[..at + ipv4::LEN_MIN]);
        let view = ipv4::View::new(&self.bytes[at..]).expect("the header is whole");
        for (kind, place) in view.options() {
            // The highest bit is set in options that all fragments have.
            if self.done == 0 || kind & 0x80 != 0 {
                frame.extend_from_slice(&self.bytes[at + place.start..at + place.end]);
            }
        }
        frame.resize(at + (frame.len() - at).next_multiple_of(4), 0);
        let header_len = frame.len() - at;
        frame.extend_from_slice(&self.bytes[payload]);
        let flags = view.fields().fragment & !(DONT | MORE | 0x1fff);
        let offset = ((self.offset + self.done) / 8) as u16;
        let fragment = flags | offset | if has_more { MORE } else { 0 };
        let total_len = (frame.len() - at) as u16;
        frame[at] = 0x40 | (header_len / 4) as u8;
        frame[at + 2..at + 4].copy_from_slice(&total_len.to_be_bytes());
        frame[at + 6..at + 8].copy_from_slice(&fragment.to_be_bytes());
        frame[at + 10..at + 12].fill(0);
        let sum = finish(add(0, &frame[at..at + header_len]));
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }

    fn write_v6(&self, frame: &mut Vec<u8>, payload: std::ops::Range<usize>, has_more: bool) {
        frame.extend_from_slice(&self.bytes[..self.header_end]);
        frame[self.next_at] = FRAGMENT_PROTOCOL;
        let mut header = self.fragment;
        let offset = (self.offset + self.done) as u16 | u16::from(has_more);
        header[2..4].copy_from_slice(&offset.to_be_bytes());
        frame.extend_from_slice(&header);
        frame.extend_from_slice(&self.bytes[payload]);
        let payload_len = (frame.len() - self.ip.at - self.ip.len) as u16;
        frame[self.ip.at + 4..self.ip.at + 6].copy_from_slice(&payload_len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket};

    fn fragments(frame: &[u8], len_max: u32, divides_df: bool) -> Vec<Vec<u8>> {
        let mut packet = FragmentedPacket::new(frame, FirstHeader::Ethernet, len_max, divides_df, 7).unwrap();
        let (mut fragment, mut fragments) = (Vec::new(), Vec::new());
        while packet.next(&mut fragment) {
            assert!(fragment.len() <= len_max as usize, "{}", fragment.len());
            fragments.push(fragment.clone());
        }
        fragments
    }

    /// The payload of all fragments, by their offsets.
    fn together(fragments: &[Vec<u8>]) -> Vec<u8> {
        let mut whole = Vec::new();
        for (number, fragment) in fragments.iter().enumerate() {
            let sliced = SlicedPacket::from_ethernet(fragment).unwrap();
            let has_more = number + 1 < fragments.len();
            let (offset, more, payload) = match sliced.net.unwrap() {
                etherparse::NetSlice::Ipv4(ip) => {
                    let header = ip.header().to_header();
                    assert_eq!(header.header_checksum, header.calc_header_checksum());
                    assert!(!header.dont_fragment);
                    (header.fragment_offset.value(), header.more_fragments, ip.payload().payload.to_vec())
                }
                etherparse::NetSlice::Ipv6(_) => {
                    let bytes = &fragment[54..];
                    assert_eq!((fragment[20], bytes[0]), (44, 17));
                    let field = u16::from_be_bytes([bytes[2], bytes[3]]);
                    (field >> 3, field & 1 == 1, bytes[8..].to_vec())
                }
                etherparse::NetSlice::Arp(_) => unreachable!(),
            };
            assert_eq!((usize::from(offset) * 8, more), (whole.len(), has_more));
            whole.extend(payload);
        }
        whole
    }

    #[test]
    fn fragments_have_the_payload_at_their_offsets() {
        let payload: Vec<u8> = (0..4000_u32).map(|at| (at * 7) as u8).collect();
        let link = || PacketBuilder::ethernet2([2; 6], [4; 6]);
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        link().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(5, 6).write(&mut v4, &payload).unwrap();
        link().ipv6([1; 16], [2; 16], 64).udp(5, 6).write(&mut v6, &payload).unwrap();
        let fresh = FragmentedPacket::new(&v4, FirstHeader::Ethernet, 1514, false, 7).map(drop);
        assert_eq!(fresh, Err(NoFragments::DontFragment), "the builder sets DF");
        for (frame, at) in [(v4, 34), (v6, 54)] {
            let whole = fragments(&frame, 1514, true);
            assert_eq!(together(&whole), frame[at..]);
            // Fragments can be divided again.
            let again: Vec<Vec<u8>> = whole.iter().flat_map(|part| fragments(part, 600, false)).collect();
            assert_eq!(together(&again), frame[at..]);
        }
    }

    #[test]
    fn other_frames_are_not_divided() {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64).udp(1, 2);
        builder.write(&mut frame, &[0; 3000]).unwrap();
        let new = |frame: &[u8], len_max| {
            FragmentedPacket::new(frame, FirstHeader::Ethernet, len_max, true, 1).map(drop)
        };
        assert_eq!(new(&frame, 1514), Ok(()));
        assert_eq!(new(&frame, 40), Err(NoFragments::Impossible), "no space for payload");
        assert_eq!(new(&frame[..2000], 1514), Err(NoFragments::Impossible), "the file has not all of it");
        frame[12] = 0x99;
        assert_eq!(new(&frame, 1514), Err(NoFragments::Impossible), "not IP");
    }
}
