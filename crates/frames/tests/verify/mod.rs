//! Checksums of frames, found and computed here, not by the crate under test.

use frames::FrameSpec;

/// Hex digits of a frame.
pub(crate) fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?))
}

/// First byte of the IP header behind Ethernet, VLAN tags and MPLS labels.
fn ip_offset(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    loop {
        match word(frame, at)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            0x8847 => {
                at += 2;
                while frame.get(at + 2)? & 1 == 0 {
                    at += 4;
                }
                return Some(at + 4);
            }
            0x0800 | 0x86dd => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Where the checksums of a frame are, with what they should be.
fn checksums(frame: &[u8]) -> Vec<(usize, u16)> {
    let mut found = Vec::new();
    let _ = ip_offset(frame).and_then(|at| ip_checksums(frame, at, &mut found));
    found
}

fn ip_checksums(frame: &[u8], at: usize, found: &mut Vec<(usize, u16)>) -> Option<()> {
    let ip = frame.get(at..)?;
    let (header_len, datagram_len, protocol, addresses) = match ip.first()? >> 4 {
        4 => {
            let header_len = usize::from(ip[0] & 0xf) * 4;
            found.push((at + 10, sum(&[], ip.get(..header_len.max(20))?, 10)));
            if word(ip, 6)? & 0x3fff != 0 {
                return None;
            }
            (header_len, word(ip, 2)?.checked_sub(header_len)?, ip[9], ip.get(12..20)?)
        }
        6 => (40, word(ip, 4)?, ip[6], ip.get(8..40)?),
        _ => return None,
    };
    let rest = ip.get(header_len..)?;
    let datagram = rest.get(..datagram_len).unwrap_or(rest);
    let (offset, has_pseudo_header) = match protocol {
        1 => (2, false),
        6 => (16, true),
        17 => (6, true),
        58 => (2, true),
        _ => return None,
    };
    let len = if protocol == 17 { word(datagram, 4)?.min(datagram.len()) } else { datagram.len() };
    let datagram = datagram.get(..len)?;
    word(datagram, offset)?;
    let mut pseudo_header = addresses.to_vec();
    pseudo_header.extend([0, protocol, (len >> 8) as u8, len as u8]);
    let computed = sum(if has_pseudo_header { &pseudo_header } else { &[] }, datagram, offset);
    // A UDP checksum of 0 means none, so a computed 0 is sent as all ones.
    let is_absent = protocol == 17 && word(datagram, offset) == Some(0);
    if !is_absent {
        let computed = if protocol == 17 && computed == 0 { 0xffff } else { computed };
        found.push((at + header_len + offset, computed));
    }
    Some(())
}

/// The checksum of both, with the one at `skipped` as zero.
fn sum(pseudo_header: &[u8], bytes: &[u8], skipped: usize) -> u16 {
    let mut sum = 0;
    for (index, byte) in pseudo_header.iter().enumerate() {
        sum += u32::from(*byte) << if index % 2 == 0 { 8 } else { 0 };
    }
    for (index, byte) in bytes.iter().enumerate().filter(|(index, _)| index / 2 != skipped / 2) {
        sum += u32::from(*byte) << if index % 2 == 0 { 8 } else { 0 };
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Every checksum of the frame is right.
pub(crate) fn checksums_are_right(frame: &[u8], at: &str) {
    for (offset, computed) in checksums(frame) {
        assert_eq!(
            word(frame, offset),
            Some(computed.into()),
            "checksum at byte {offset} of {}, {at}",
            hex(frame)
        );
    }
}

/// The frames are equal outside of their checksums: those found here, and those of `spec`, which no
/// receiver finds behind an EtherType that does not name the next header.
pub(crate) fn equal_but_for_checksums(frame: &[u8], recorded: &[u8], spec: &FrameSpec, at: &str) {
    let found = checksums(frame).into_iter().map(|(offset, _)| offset);
    equal_but_for(found.chain(offsets(spec)), frame, recorded, at);
}

/// The frames are equal outside of the checksums that no receiver finds.
#[allow(dead_code, reason = "each test program uses one of them")]
pub(crate) fn equal_but_for_hidden_checksums(frame: &[u8], recorded: &[u8], spec: &FrameSpec, at: &str) {
    let found = checksums(frame);
    let is_hidden = |offset: &usize| found.iter().all(|(found, _)| found != offset);
    equal_but_for(offsets(spec).filter(is_hidden), frame, recorded, at);
}

fn offsets(spec: &FrameSpec) -> impl Iterator<Item = usize> {
    spec.checksums.iter().map(|checksum| checksum.offset)
}

fn equal_but_for(sums: impl Iterator<Item = usize>, frame: &[u8], recorded: &[u8], at: &str) {
    let mut recorded = recorded.to_vec();
    let last = recorded.len();
    for offset in sums.filter(|offset| offset + 1 < last) {
        recorded[offset..offset + 2].copy_from_slice(&frame[offset..offset + 2]);
    }
    assert_eq!(hex(frame), hex(&recorded), "{at}");
}
