//! GRE headers (RFC 2784, RFC 2890), and version 1 of PPTP (RFC 2637).

use super::bytes::view;

/// Offset of the checksum, if there is one.
pub const CHECKSUM_AT: usize = 4;
/// Protocol of ERSPAN types I and II.
pub const ERSPAN: u16 = 0x88be;
/// Protocol of ERSPAN type III.
pub const ERSPAN_III: u16 = 0x22eb;
/// Protocol of PPP in version 1.
pub const PPP: u16 = 0x880b;

view!("a GRE header", 4);

impl View<'_> {
    /// Version: 0, or 1 for PPTP.
    pub fn version(&self) -> u8 {
        self.0[1] & 7
    }

    /// EtherType of the payload.
    pub fn protocol(&self) -> u16 {
        self.half(2)
    }

    /// True if there is a checksum.
    pub fn has_checksum(&self) -> bool {
        self.version() == 0 && self.0[0] & 0x80 != 0
    }

    /// True if there is a sequence number, which ERSPAN type I has not.
    pub fn has_sequence(&self) -> bool {
        self.0[0] & 0x10 != 0
    }

    /// Key of version 0 (RFC 2890), if there is one and its bytes are there.
    pub fn key(&self) -> Option<u32> {
        (self.0[0] & 0x20 != 0).then(|| self.word_behind(0x80))?
    }

    /// Sequence number of version 0 (RFC 2890), if there is one and its bytes are there.
    pub fn sequence(&self) -> Option<u32> {
        self.has_sequence().then(|| self.word_behind(0xa0))?
    }

    /// The word behind those of the flags in `before`.
    fn word_behind(&self, before: u8) -> Option<u32> {
        let at = 4 + (self.0[0] & before).count_ones() as usize * 4;
        let word = self.1.get(at..)?.first_chunk().filter(|_| self.version() == 0)?;
        Some(u32::from_be_bytes(*word))
    }

    /// Bytes of the header; nothing if it has a source route (RFC 1701) or another version.
    pub fn header_len(&self) -> Option<usize> {
        let [flags, more] = [self.0[0], self.0[1]];
        let words = |bits: u8| bits.count_ones() as usize * 4;
        match self.version() {
            0 if flags & 0x40 == 0 => Some(4 + words(flags & 0xb0)),
            1 => Some(4 + words(flags & 0x30) + words(more & 0x80)),
            _ => None,
        }
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields { version: self.version(), protocol: self.protocol(), has_checksum: self.has_checksum() }
    }
}

/// Fields of a GRE header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Version: 0, or 1 for PPTP.
    pub version: u8,
    /// EtherType of the payload.
    pub protocol: u16,
    /// There is a checksum.
    pub has_checksum: bool,
}
