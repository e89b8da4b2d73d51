//! ICMPv6 messages (RFC 4443) with neighbour discovery (RFC 4861) and multicast listener discovery
//! (RFC 2710, RFC 3810).

use super::bytes::view;

/// Bytes before the quoted packet of an error.
pub const LEN: usize = 8;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 2;
/// Type of multicast listener queries.
pub const LISTENER_QUERY: u8 = 130;
/// Type of multicast listener reports of version 1.
pub const LISTENER_REPORT: u8 = 131;
/// Type of reports of listeners that have left.
pub const LISTENER_DONE: u8 = 132;
/// Type of router solicitations.
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type of router advertisements.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type of neighbour solicitations.
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Type of neighbour advertisements.
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Type of redirects.
pub const REDIRECT: u8 = 137;
/// Type of router renumbering (RFC 2894).
pub const RENUMBERING: u8 = 138;
/// Type of node information queries (RFC 4620).
pub const NODE_QUERY: u8 = 139;
/// Type of node information replies.
pub const NODE_REPLY: u8 = 140;
/// Type of solicitations of inverse neighbour discovery (RFC 3122).
pub const INVERSE_SOLICITATION: u8 = 141;
/// Type of advertisements of inverse neighbour discovery.
pub const INVERSE_ADVERTISEMENT: u8 = 142;
/// Type of multicast listener reports of version 2.
pub const LISTENER_REPORT_V2: u8 = 143;
/// Type of replies with home agents (RFC 6275).
pub const HOME_AGENTS: u8 = 145;
/// Type of prefix advertisements to mobile nodes (RFC 6275).
pub const MOBILE_PREFIXES: u8 = 147;
/// Type of messages of fast handovers (RFC 5568).
pub const FAST_HANDOVER: u8 = 154;
/// Type of messages of RPL (RFC 6550).
pub const RPL: u8 = 155;
/// Type of duplicate address requests (RFC 6775).
pub const DUPLICATE_REQUEST: u8 = 157;
/// Type of duplicate address confirmations.
pub const DUPLICATE_CONFIRMATION: u8 = 158;
/// Type of extended echo requests (RFC 8335).
const EXTENDED_ECHO: u8 = 160;
/// The last type of errors.
const ERROR_MAX: u8 = 4;

view!("an ICMPv6 message", 8);

impl View<'_> {
    /// Type of the message.
    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    /// True if a packet is quoted behind the header.
    pub fn is_error(&self) -> bool {
        (1..=ERROR_MAX).contains(&self.kind())
    }

    /// Bytes of the quoted packet, if the message says so (RFC 4884).
    pub fn quote_len(&self) -> Option<usize> {
        let len = usize::from(self.0[4]) * 8;
        (matches!(self.kind(), 1 | 3) && len > 0).then_some(len)
    }

    /// Offset of the extensions (RFC 4884), if the message says that it may have some.
    pub fn extensions_at(&self) -> Option<usize> {
        if self.kind() == EXTENDED_ECHO { Some(LEN) } else { self.quote_len().map(|len| LEN + len) }
    }

    /// Bytes before the options of neighbour discovery; nothing for other messages.
    pub fn options_at(&self) -> Option<usize> {
        match self.kind() {
            ROUTER_SOLICITATION | INVERSE_SOLICITATION | INVERSE_ADVERTISEMENT | MOBILE_PREFIXES => Some(8),
            ROUTER_ADVERTISEMENT => Some(16),
            NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => Some(24),
            REDIRECT => Some(40),
            _ => None,
        }
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { kind: self.kind(), code: self.0[1], checksum: self.half(CHECKSUM_AT) }
    }
}

/// Fields of an ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Type of the message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// Checksum.
    pub checksum: u16,
}
