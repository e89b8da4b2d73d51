//! Cutting of TCP super-frames, which captures with TSO, GSO or GRO contain, into the segments that
//! a network card sends.
//!
//! Each segment has the headers of the super-frame with its own length, sequence number, IPv4
//! identification and checksums. FIN and PSH stay in the last segment, CWR in the first (RFC 3168,
//! 6.1.2). The size of the segments on the wire is not in the capture: they are as long as the
//! device accepts.

use crate::edit::LengthField;
use crate::outer::{IpPacket, word};
use packet::checksum::{add, finish};
use packet::headers::{FirstHeader, Protocol, PseudoPlaces, Walk};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
const TCP: u8 = 6;
const IPV6_HEADER_LEN: usize = 40;

/// A super-frame and its next segment.
#[derive(Clone, Debug)]
pub(crate) struct SuperFrame {
    bytes: Vec<u8>,
    /// Length fields in front of the packet.
    link_lengths: Vec<LengthField>,
    is_v6: bool,
    network_at: usize,
    tcp_at: usize,
    /// Places of the addresses that the checksum covers.
    pseudo: PseudoPlaces,
    /// Where the payload begins and ends.
    payload_at: usize,
    end: usize,
    /// Payload of a segment.
    segment_len: usize,
    /// Payload that was sent, and segments.
    done: usize,
    segments: u16,
}

impl SuperFrame {
    /// A TCP frame for segments of up to `frame_len_max` bytes; nothing for other frames.
    pub(crate) fn new(frame: &[u8], first: FirstHeader, frame_len_max: u32) -> Option<Self> {
        let packet = IpPacket::outermost(frame, first)?;
        let tcp = packet.transport.filter(|found| found.protocol == Protocol::Tcp)?;
        let pseudo = packet.sum.and_then(|sum| sum.pseudo)?;
        if packet.is_fragment {
            return None;
        }
        let (is_v6, network_at, tcp_at) = (packet.ip.protocol == Protocol::Ipv6, packet.ip.at, tcp.at);
        let payload_at = tcp_at + usize::from(frame.get(tcp_at + 12)? >> 4) * 4;
        // Some captures have no length in packets that the card was to cut.
        let end = match (is_v6, usize::from(word(frame, network_at + if is_v6 { 4 } else { 2 })?)) {
            (_, 0) => frame.len(),
            (false, len) => network_at + len,
            (true, len) => network_at + IPV6_HEADER_LEN + len,
        };
        let segment_len = (frame_len_max as usize).checked_sub(payload_at).filter(|len| *len > 0)?;
        let is_whole = payload_at >= tcp_at + 20 && payload_at < end && end <= frame.len();
        let link = Walk::new(frame, first).take_while(|header| header.at < network_at);
        is_whole.then(|| Self {
            bytes: frame.to_vec(),
            link_lengths: link.filter_map(|header| LengthField::of(frame, &header)).collect(),
            is_v6,
            network_at,
            tcp_at,
            pseudo,
            payload_at,
            end,
            segment_len,
            done: 0,
            segments: 0,
        })
    }

    /// Writes the next segment into `frame`; false behind the last.
    pub(crate) fn next(&mut self, frame: &mut Vec<u8>) -> bool {
        let from = self.payload_at + self.done;
        if from >= self.end {
            return false;
        }
        let to = self.end.min(from + self.segment_len);
        frame.clear();
        frame.extend_from_slice(&self.bytes[..self.payload_at]);
        frame.extend_from_slice(&self.bytes[from..to]);
        self.write_network(frame);
        self.write_tcp(frame, to == self.end);
        let end = frame.len();
        self.link_lengths.iter().for_each(|field| field.write(frame, end));
        self.done += to - from;
        self.segments += 1;
        true
    }

    fn write_network(&self, frame: &mut [u8]) {
        let (at, len) = (self.network_at, (frame.len() - self.network_at) as u16);
        if self.is_v6 {
            let payload_len = len - IPV6_HEADER_LEN as u16;
            return frame[at + 4..at + 6].copy_from_slice(&payload_len.to_be_bytes());
        }
        let id = u16::from_be_bytes([frame[at + 4], frame[at + 5]]).wrapping_add(self.segments);
        frame[at + 2..at + 4].copy_from_slice(&len.to_be_bytes());
        frame[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
        frame[at + 10..at + 12].fill(0);
        let header_len = usize::from(frame[at] & 0x0f) * 4;
        let sum = finish(add(0, &frame[at..at + header_len]));
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }

    fn write_tcp(&self, frame: &mut [u8], is_last: bool) {
        let at = self.tcp_at;
        let sequence: [u8; 4] = frame[at + 4..at + 8].try_into().expect("four bytes");
        let sequence = u32::from_be_bytes(sequence).wrapping_add(self.done as u32);
        frame[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
        let flags = &mut frame[at + 13];
        if !is_last {
            *flags &= !(FIN | PSH);
        }
        if self.segments > 0 {
            *flags &= !CWR;
        }
        frame[at + 16..at + 18].fill(0);
        let tcp_len = (frame.len() - at) as u32;
        let PseudoPlaces { src_at, dst_at, address_len, .. } = self.pseudo;
        let pseudo = [src_at, dst_at].iter().fold(0, |sum, at| add(sum, &frame[*at..at + address_len]));
        let pseudo = pseudo + u64::from(TCP);
        let sum = finish(add(add(pseudo, &tcp_len.to_be_bytes()), &frame[at..]));
        frame[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

    fn segments(frame: &[u8], len_max: u32) -> Vec<Vec<u8>> {
        let mut whole = SuperFrame::new(frame, FirstHeader::Ethernet, len_max).unwrap();
        let (mut segment, mut segments) = (Vec::new(), Vec::new());
        while whole.next(&mut segment) {
            segments.push(segment.clone());
        }
        segments
    }

    #[test]
    fn segments_have_the_payload_with_right_headers_and_checksums() {
        let payload: Vec<u8> = (0..10_001_u32).map(|at| (at * 7) as u8).collect();
        let link = || PacketBuilder::ethernet2([2; 6], [4; 6]);
        let v4 = link().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(80, 81, u32::MAX - 3000, 9).ack(7);
        let v6 = link().ipv6([1; 16], [2; 16], 64).tcp(80, 81, u32::MAX - 3000, 9).ack(7);
        let tagged = link().single_vlan(7.try_into().unwrap()).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        for builder in [v4, v6, tagged.tcp(80, 81, u32::MAX - 3000, 9).ack(7)] {
            let mut frame = Vec::new();
            builder.psh().fin().write(&mut frame, &payload).unwrap();
            // An odd checksum, as packets have that the card was to finish.
            let checksum_at = frame.len() - payload.len() - 4;
            frame[checksum_at] ^= 0x55;
            let (mut found, mut sequence) = (Vec::new(), u32::MAX - 3000);
            let all = segments(&frame, 1514);
            for (number, segment) in all.iter().enumerate() {
                let (is_last, sliced) =
                    (number + 1 == all.len(), SlicedPacket::from_ethernet(segment).unwrap());
                let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("{segment:?}") };
                assert_eq!((tcp.sequence_number(), tcp.psh(), tcp.fin()), (sequence, is_last, is_last));
                let expected = match sliced.net.unwrap() {
                    etherparse::NetSlice::Ipv4(ip) => {
                        let header = ip.header().to_header();
                        assert_eq!(header.header_checksum, header.calc_header_checksum());
                        assert_eq!(usize::from(header.identification), number);
                        tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap()
                    }
                    etherparse::NetSlice::Ipv6(ip) => {
                        tcp.to_header().calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap()
                    }
                    etherparse::NetSlice::Arp(_) => unreachable!(),
                };
                assert_eq!(tcp.checksum(), expected, "segment {number}");
                assert!(segment.len() == 1514 || is_last, "{}", segment.len());
                sequence = sequence.wrapping_add(tcp.payload().len() as u32);
                found.extend_from_slice(tcp.payload());
            }
            assert_eq!(found, payload);
        }
    }

    #[test]
    fn other_frames_are_not_cut() {
        let mut udp = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64).udp(1, 2);
        builder.write(&mut udp, &[0; 3000]).unwrap();
        assert!(SuperFrame::new(&udp, FirstHeader::Ethernet, 1514).is_none());
        let mut tcp = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64).tcp(1, 2, 3, 4);
        builder.write(&mut tcp, &[0; 3000]).unwrap();
        assert!(SuperFrame::new(&tcp, FirstHeader::Ethernet, 1514).is_some());
        assert!(SuperFrame::new(&tcp, FirstHeader::Ethernet, 54).is_none(), "no space for payload");
        assert!(
            SuperFrame::new(&tcp[..2000], FirstHeader::Ethernet, 1514).is_none(),
            "the file has not all of it"
        );
        tcp[20] = 0x20;
        assert!(SuperFrame::new(&tcp, FirstHeader::Ethernet, 1514).is_none(), "a fragment");
    }
}
