//! ICMP messages (RFC 792), and the length of quoted packets (RFC 4884).

use super::bytes::{half, view};

/// Bytes before the quoted packet of an error.
pub const LEN: usize = 8;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 2;
/// Type of redirects, with a gateway behind the checksum.
pub const REDIRECT: u8 = 5;
/// Type of router advertisements (RFC 1256).
pub const ROUTER_ADVERTISEMENT: u8 = 9;
/// Type of extended echo requests (RFC 8335).
const EXTENDED_ECHO: u8 = 42;
/// Types of errors: unreachable, source quench, redirect, time exceeded, bad parameter.
const ERRORS: [u8; 5] = [3, 4, REDIRECT, 11, 12];
/// Types of errors that may have a length of the quoted packet, in words of 4 bytes.
const WITH_LENGTH: [u8; 3] = [3, 11, 12];

view!("an ICMP message", 8);

/// Offset in a message of the first object with an IP address among the extensions that begin at
/// `at` (RFC 4884): of an interface (RFC 5837), or the subject of an extended echo (RFC 8335).
pub(super) fn object_with_address_at(message: &[u8], at: usize) -> Option<usize> {
    const INTERFACE: u8 = 2;
    const HAS_ADDRESS: u8 = 4;
    const SUBJECT: u8 = 3;
    const BY_ADDRESS: u8 = 3;
    if message.get(at)? >> 4 != 2 {
        return None;
    }
    let mut at = at + 4;
    loop {
        let len = usize::from(half(message, at)?);
        match message.get(at + 2..at + 4)? {
            [INTERFACE, kind] if kind & HAS_ADDRESS != 0 => return Some(at),
            [SUBJECT, BY_ADDRESS] => return Some(at),
            _ => at += len.max(4),
        }
    }
}

impl View<'_> {
    /// Type of the message.
    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    /// Offset of the extensions (RFC 4884), if the message says that it may have some.
    pub fn extensions_at(&self) -> Option<usize> {
        if self.kind() == EXTENDED_ECHO { Some(LEN) } else { self.quote_len().map(|len| LEN + len) }
    }

    /// True if a packet is quoted behind the header.
    pub fn is_error(&self) -> bool {
        ERRORS.contains(&self.kind())
    }

    /// Bytes of the quoted packet, if the message says so.
    pub fn quote_len(&self) -> Option<usize> {
        let len = usize::from(self.0[5]) * 4;
        (WITH_LENGTH.contains(&self.kind()) && len > 0).then_some(len)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { kind: self.kind(), code: self.0[1], checksum: self.half(CHECKSUM_AT) }
    }
}

/// Fields of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Type of the message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// Checksum.
    pub checksum: u16,
}
