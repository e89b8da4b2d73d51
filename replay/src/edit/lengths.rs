//! Length fields of cut packets, lowered to the bytes that are there.

use packet::headers::{FirstHeader, Header, Protocol, Walk, gtpu, ipv6, pppoe, udp};

/// Lowers the length fields of IP, UDP, PPPoE and GTP-U to what the frame has; true if there was
/// one to lower. Quoted packets are cut by those who quote them, so theirs stay.
pub(crate) fn shrink(frame: &mut [u8], first: FirstHeader) -> bool {
    let mut is_changed = false;
    // A walk reads the frame, so its lengths are changed header by header.
    let mut number = 0;
    while let Some(header) = Walk::new(frame, first).nth(number).filter(|header| !header.is_quoted) {
        if !header.is_whole()
            && let Some((offset, len)) = lowered(&header)
        {
            let at = header.at + offset;
            frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
            is_changed = true;
        }
        number += 1;
    }
    is_changed
}

/// Offset of the length field in the header, and what it becomes.
fn lowered(header: &Header) -> Option<(usize, u16)> {
    let visible = header.visible_end.checked_sub(header.at)?;
    let (offset, not_counted, len_min) = match header.protocol {
        Protocol::Ipv4 => (2, 0, header.len),
        Protocol::Ipv6 => (4, ipv6::LEN, ipv6::LEN),
        Protocol::Udp => (4, 0, udp::LEN),
        Protocol::Pppoe => (4, pppoe::LEN, pppoe::LEN),
        Protocol::Gtpu => (2, gtpu::LEN_MIN, gtpu::LEN_MIN),
        _ => return None,
    };
    (visible >= len_min).then_some((offset, u16::try_from(visible - not_counted).ok()?))
}
