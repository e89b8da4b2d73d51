//! ICMP messages (RFC 792), and the length of quoted packets (RFC 4884).

use super::bytes::view;

/// Bytes before the quoted packet of an error.
pub const LEN: usize = 8;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 2;
/// Type of redirects, with a gateway behind the checksum.
pub const REDIRECT: u8 = 5;
/// Type of router advertisements (RFC 1256).
pub const ROUTER_ADVERTISEMENT: u8 = 9;
/// Types of errors: unreachable, source quench, redirect, time exceeded, bad parameter.
const ERRORS: [u8; 5] = [3, 4, REDIRECT, 11, 12];
/// Types of errors that may have a length of the quoted packet, in words of 4 bytes.
const WITH_LENGTH: [u8; 3] = [3, 11, 12];

view!("an ICMP message", 8);

impl View<'_> {
    /// Type of the message.
    pub fn kind(&self) -> u8 {
        self.0[0]
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
