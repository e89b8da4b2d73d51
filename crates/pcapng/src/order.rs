//! Byte order of a section: all its numbers, lengths included, are written in it.

/// Byte order of the numbers of a section or of a classic pcap file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first; what the writers here use unless told otherwise.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    #[inline(always)]
    pub(crate) fn emit_u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    #[inline(always)]
    pub(crate) fn emit_u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    #[inline(always)]
    pub(crate) fn emit_u64(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// A time: two words, the high one first in either byte order (section 4.3 of the draft).
    #[inline(always)]
    pub(crate) fn emit_time(self, units: u64) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.emit_u32((units >> 32) as u32));
        bytes[4..].copy_from_slice(&self.emit_u32(units as u32));
        bytes
    }

    #[inline(always)]
    pub(crate) fn parse_u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    pub(crate) fn parse_u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    pub(crate) fn parse_u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    pub(crate) fn parse_time(self, bytes: [u8; 8]) -> u64 {
        let [a, b, c, d, e, f, g, h] = bytes;
        u64::from(self.parse_u32([a, b, c, d])) << 32 | u64::from(self.parse_u32([e, f, g, h]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_word_of_a_time_comes_first_in_either_order() {
        let units = 0x0102_0304_0506_0708;
        assert_eq!(ByteOrder::Little.emit_time(units), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(ByteOrder::Big.emit_time(units), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(ByteOrder::Little.parse_time([4, 3, 2, 1, 8, 7, 6, 5]), units);
        assert_eq!(ByteOrder::Big.parse_time([1, 2, 3, 4, 5, 6, 7, 8]), units);
    }
}
