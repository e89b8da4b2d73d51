//! Internet checksums: sum and fold (RFC 1071).
//!
//! Works on bytes and words only; which bytes a header covers is the business of the plan.

/// Adds the 16-bit big-endian words of `bytes` to `sum`; an odd last byte counts as the high half
/// of a word.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let body = words.by_ref().fold(sum, |sum, word| sum + u64::from(u16::from_be_bytes([word[0], word[1]])));
    match words.remainder() {
        [last] => body + (u64::from(*last) << 8),
        _ => body,
    }
}

/// The checksum of a sum: folded to 16 bits and inverted.
pub fn finish(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_rfc_1071() {
        assert_eq!(finish(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
    }

    #[test]
    fn odd_byte_counts_as_high_half() {
        assert_eq!(add(0, &[0x12, 0x34, 0x56]), 0x1234 + 0x5600);
    }
}
