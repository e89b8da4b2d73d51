//! Length fields of headers: lowered to the bytes that a cut packet has, and written for the parts
//! of a divided one.

use crate::outer::word;
use packet::headers::{Header, Protocol, ethernet, fragment, gtpu, ipv4, ipv6, pppoe, udp};

/// A length field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LengthField {
    /// Its offset.
    at: usize,
    /// The first byte that it counts.
    from: usize,
}

impl LengthField {
    /// That of a header, if it has one.
    pub(crate) fn of(frame: &[u8], header: &Header) -> Option<Self> {
        let (offset, counted_from) = match header.protocol {
            Protocol::Ipv4 => (2, 0),
            Protocol::Ipv6 => (4, ipv6::LEN),
            Protocol::Udp => (4, 0),
            Protocol::Pppoe => (4, pppoe::LEN),
            Protocol::Gtpu => (2, gtpu::LEN_MIN),
            // A length in place of an EtherType.
            Protocol::Ethernet => (12, ethernet::LEN),
            Protocol::Vlan => (2, 4),
            _ => return None,
        };
        let field = Self { at: header.at + offset, from: header.at + counted_from };
        let is_link = matches!(header.protocol, Protocol::Ethernet | Protocol::Vlan);
        let len = word(frame, field.at)?;
        (!is_link || len < ethernet::TYPE_MIN).then_some(field)
    }

    /// Writes the length of what ends at `end`.
    pub(crate) fn write(self, frame: &mut [u8], end: usize) {
        if let Some(len) = end.checked_sub(self.from).and_then(|len| u16::try_from(len).ok()) {
            frame[self.at..self.at + 2].copy_from_slice(&len.to_be_bytes());
        }
    }
}

/// Lowers the length fields of a cut packet to what the frame has; true if there was one to lower.
/// Quoted packets are cut by those who quote them, so theirs stay. So do lengths in a fragment:
/// they are those of the whole packet.
pub(crate) fn shrink(frame: &mut [u8], headers: &[Header]) -> bool {
    let mut is_changed = false;
    for header in headers.iter().take_while(|header| !header.is_quoted) {
        let len_min = if header.protocol == Protocol::Udp { udp::LEN } else { header.len };
        let is_there = header.at + len_min <= header.visible_end;
        if let Some(field) = LengthField::of(frame, header).filter(|_| is_there) {
            let len = word(frame, field.at).map_or(0, usize::from);
            if field.from + len > header.visible_end {
                field.write(frame, header.visible_end);
                is_changed = true;
            }
        }
        let bytes = header.bytes(frame);
        let is_fragment = match header.protocol {
            Protocol::Ipv4 => ipv4::View::new(bytes).is_some_and(|view| view.is_fragment()),
            Protocol::Fragment => fragment::View::new(bytes).is_some_and(|view| view.is_fragment()),
            _ => false,
        };
        if is_fragment {
            break;
        }
    }
    is_changed
}
