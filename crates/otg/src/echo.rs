//! Pings of emulated interfaces, and their answers to ping: ICMP (RFC 792) and ICMPv6 (RFC 4443).

use packet::checksum::{add, finish};
use packet::plan::{ChecksumField, PseudoHeader, SumKind};
use std::net::IpAddr;
use std::ops::Range;

const ETHERNET_LEN: usize = 14;
/// Bytes of the shortest frame without FCS.
const FRAME_LEN_MIN: usize = 60;
/// Bytes of the header of an echo, and of the data of a request.
const ECHO_LEN: usize = 8;
const DATA_LEN: usize = 18;
const ICMPV6: u8 = 58;
/// The hop limit of requests and answers, as Linux has it.
const HOP_LIMIT: u8 = 64;

/// An echo reply in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EchoReply {
    /// Who answers.
    pub(crate) from: IpAddr,
    /// Who has asked.
    pub(crate) to: IpAddr,
    /// The identifier of the request.
    pub(crate) id: u16,
}

/// The ends of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EchoEnds {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// The MAC addresses of the sender and the next hop.
    pub(crate) macs: ([u8; 6], [u8; 6]),
}

/// An echo request in a frame.
pub(crate) struct EchoRequest<'a> {
    frame: &'a [u8],
    family: &'static Family,
}

/// An ICMP message of at least eight bytes in a frame without tags, IPv4 options and extension
/// headers; `None` for other frames, fragments, and frames that were cut.
fn echo_of(frame: &[u8]) -> Option<(&[u8], &'static Family)> {
    let number = |at: usize| Some(usize::from(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?])));
    let (family, len) = match (number(12)?, *frame.get(14)?) {
        (0x0800, 0x45) if frame.get(23) == Some(&1) && number(20)? & 0x3fff == 0 => (&IPV4, number(16)?),
        (0x86dd, version) if version >> 4 == 6 && frame.get(20) == Some(&ICMPV6) => (&IPV6, 40 + number(18)?),
        _ => return None,
    };
    let frame = frame.get(..ETHERNET_LEN + len)?;
    (len >= family.ip_len + ECHO_LEN).then_some((frame, family))
}

/// The address in 4 or 16 bytes.
fn address(bytes: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(bytes) {
        Ok(address) => address.into(),
        Err(_) => <[u8; 16]>::try_from(bytes).expect("an IPv6 address has 16 bytes").into(),
    }
}

impl EchoReply {
    /// The reply in a frame, as [`EchoRequest::of`].
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let (frame, family) = echo_of(frame)?;
        let icmp = &frame[ETHERNET_LEN + family.ip_len..];
        (icmp[..2] == [family.reply, 0]).then(|| Self {
            from: address(&frame[family.from.clone()]),
            to: address(&frame[family.to.clone()]),
            id: u16::from_be_bytes([icmp[4], icmp[5]]),
        })
    }
}

/// The frame of an echo request, without tags; `None` if the ends have different versions of IP.
pub(crate) fn echo_request(ends: &EchoEnds, id: u16, number: u16) -> Option<Vec<u8>> {
    let echo_len = ECHO_LEN + DATA_LEN;
    let mut frame = [ends.macs.1, ends.macs.0].concat();
    let family = match (ends.from, ends.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let [high, low] = ((IPV4.ip_len + echo_len) as u16).to_be_bytes();
            frame.extend([8, 0, 0x45, 0, high, low, 0, 0, 0, 0, HOP_LIMIT, 1, 0, 0]);
            frame.extend([from.octets(), to.octets()].concat());
            let sum = finish(add(0, &frame[ETHERNET_LEN..]));
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            &IPV4
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, echo_len as u8, ICMPV6, HOP_LIMIT]);
            frame.extend([from.octets(), to.octets()].concat());
            &IPV6
        }
        _ => return None,
    };
    frame.extend([family.request, 0, 0, 0]);
    frame.extend([id.to_be_bytes(), number.to_be_bytes()].concat());
    frame.extend([0; DATA_LEN]);
    let start = ETHERNET_LEN + family.ip_len;
    let pseudo_header = match ends.from {
        IpAddr::V4(_) => PseudoHeader::None,
        IpAddr::V6(_) => PseudoHeader::Ipv6 { header: ETHERNET_LEN, protocol: ICMPV6 },
    };
    let (offset, end) = (start + 2, frame.len());
    ChecksumField { offset, start, end, pseudo_header, kind: SumKind::Internet, is_wrong: false }
        .write(&mut frame);
    frame.resize(frame.len().max(FRAME_LEN_MIN), 0);
    Some(frame)
}

/// Where the fields of a version of IP are.
struct Family {
    ip_len: usize,
    hop_limit: usize,
    from: Range<usize>,
    to: Range<usize>,
    request: u8,
    reply: u8,
    /// What the type adds to the checksum when a request becomes a reply.
    checksum_change: u16,
}

const IPV4: Family = Family {
    ip_len: 20,
    hop_limit: 22,
    from: 26..30,
    to: 30..34,
    request: 8,
    reply: 0,
    checksum_change: 0x0800,
};
const IPV6: Family = Family {
    ip_len: 40,
    hop_limit: 21,
    from: 22..38,
    to: 38..54,
    request: 128,
    reply: 129,
    // One more in the type: the complement of 0x0100 is added.
    checksum_change: 0xfeff,
};

impl<'a> EchoRequest<'a> {
    /// The request in a frame without tags, IPv4 options and extension headers; `None` for other
    /// frames, fragments, and frames that were cut.
    pub(crate) fn of(frame: &'a [u8]) -> Option<Self> {
        let (frame, family) = echo_of(frame)?;
        let icmp = &frame[ETHERNET_LEN + family.ip_len..];
        (icmp[..2] == [family.request, 0]).then_some(Self { frame, family })
    }

    /// The address that is asked.
    pub(crate) fn target(&self) -> IpAddr {
        address(&self.frame[self.family.to.clone()])
    }

    /// The answer of an interface with this MAC address.
    pub(crate) fn reply(&self, mac: [u8; 6]) -> Vec<u8> {
        let Family { ip_len, hop_limit, from, to, reply, checksum_change, .. } = self.family;
        let mut answer = self.frame.to_vec();
        answer[..6].copy_from_slice(&self.frame[6..12]);
        answer[6..12].copy_from_slice(&mac);
        answer[from.clone()].copy_from_slice(&self.frame[to.clone()]);
        answer[to.clone()].copy_from_slice(&self.frame[from.clone()]);
        answer[*hop_limit] = HOP_LIMIT;
        if *ip_len == IPV4.ip_len {
            answer[24..26].fill(0);
            let sum = finish(add(0, &answer[ETHERNET_LEN..ETHERNET_LEN + ip_len]));
            answer[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let icmp = ETHERNET_LEN + ip_len;
        answer[icmp] = *reply;
        let before = u16::from_be_bytes([answer[icmp + 2], answer[icmp + 3]]);
        let (sum, is_carried) = before.overflowing_add(*checksum_change);
        answer[icmp + 2..icmp + 4].copy_from_slice(&(sum + u16::from(is_carried)).to_be_bytes());
        answer.resize(answer.len().max(FRAME_LEN_MIN), 0);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request from ..1 to ..2 with a right checksum, padded.
    fn request(is_ipv6: bool) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        let body = [0, 7, 0, 1, 0xab, 0xcd];
        if is_ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 10, 58, 1]);
            for last in [1, 2] {
                frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
            let pseudo = add(add(0, &frame[22..54]), &[0, 10, 0, 58]);
            let sum = finish(add(add(pseudo, &[128, 0]), &body));
            frame.extend([128, 0]);
            frame.extend(sum.to_be_bytes());
        } else {
            frame.extend([8, 0, 0x45, 0, 0, 30, 0, 1, 0, 0, 1, 1, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
            let sum = finish(add(0, &frame[14..34]));
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(finish(add(add(0, &[8, 0]), &body)).to_be_bytes());
        }
        frame.extend(body);
        frame.resize(64, 0);
        frame
    }

    #[test]
    fn an_answer_has_right_checksums_and_goes_back() {
        let frame = request(false);
        let echo = EchoRequest::of(&frame).expect("a request");
        assert_eq!(echo.target(), IpAddr::from([198, 18, 0, 2]));
        let answer = echo.reply([2, 0, 0, 0, 0, 9]);
        assert_eq!((&answer[..6], &answer[6..12]), (&frame[6..12], &[2, 0, 0, 0, 0, 9][..]));
        assert_eq!((finish(add(0, &answer[14..34])), finish(add(0, &answer[34..44]))), (0, 0));
        assert_eq!((answer[22], answer[34], answer.len()), (64, 0, 60));
        let frame = request(true);
        let echo = EchoRequest::of(&frame).expect("a request");
        assert_eq!(echo.target(), "2001:db8::2".parse::<IpAddr>().unwrap());
        let answer = echo.reply([2, 0, 0, 0, 0, 9]);
        let pseudo = add(add(0, &answer[22..54]), &[0, 10, 0, 58]);
        assert_eq!((finish(add(pseudo, &answer[54..64])), answer[54], answer[21]), (0, 129, 64));
        assert_eq!((answer[37], answer[53]), (2, 1));
    }

    #[test]
    fn a_ping_is_answered_and_its_reply_is_known() {
        for (one, two) in [("198.18.0.1", "198.18.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let (from, to) = (one.parse().unwrap(), two.parse().unwrap());
            let ends = EchoEnds { from, to, macs: ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]) };
            let frame = echo_request(&ends, 0x1234, 1).expect("one version of IP");
            assert_eq!((&frame[..6], &frame[6..12]), (&ends.macs.1[..], &ends.macs.0[..]));
            assert_eq!(EchoReply::of(&frame), None);
            let echo = EchoRequest::of(&frame).expect("a request");
            assert_eq!(echo.target(), to);
            let reply = echo.reply(ends.macs.1);
            assert_eq!(EchoReply::of(&reply), Some(EchoReply { from: to, to: from, id: 0x1234 }));
            let icmp = if from.is_ipv4() {
                finish(add(0, &reply[34..60]))
            } else {
                finish(add(add(add(0, &reply[22..54]), &[0, 26, 0, 58]), &reply[54..80]))
            };
            assert_eq!(icmp, 0, "the checksum is right");
        }
        let mixed = EchoEnds {
            from: IpAddr::from([198, 18, 0, 1]),
            to: "2001:db8::1".parse().unwrap(),
            macs: ([2; 6], [4; 6]),
        };
        assert_eq!(echo_request(&mixed, 1, 1), None);
    }

    #[test]
    fn other_frames_have_no_answer() {
        for is_ipv6 in [false, true] {
            let whole = request(is_ipv6);
            let len = if is_ipv6 { 64 } else { 44 };
            for cut in 0..len {
                assert!(EchoRequest::of(&whole[..cut]).is_none(), "{cut}");
            }
            let mut reply = whole.clone();
            reply[if is_ipv6 { 54 } else { 34 }] += 1;
            assert!(EchoRequest::of(&reply).is_none());
        }
        let mut fragment = request(false);
        fragment[20] = 0x20;
        assert!(EchoRequest::of(&fragment).is_none());
    }
}
