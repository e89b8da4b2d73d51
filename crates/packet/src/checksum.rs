//! Internet checksums: sum, fold and incremental update (RFC 1071, RFC 1624), and CRC32c.
//!
//! Works on bytes and words only; plans and `headers` decide which bytes a checksum covers.

/// Adds the sum of the 16-bit big-endian words of `bytes`, folded to 16 bits, to `sum`; an odd last
/// byte counts as the high half of a word.
#[inline]
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    // Words are added in pairs: 2^16 counts as 1. They are read in the order of the processor, so
    // that it can add several at once: the sum of swapped words is the swapped sum (RFC 1071).
    let mut pairs = bytes.chunks_exact(4);
    let body = pairs.by_ref().fold(0, |sum, pair| {
        sum + u64::from(u32::from_ne_bytes(*pair.first_chunk().expect("a chunk of four")))
    });
    let words = match *pairs.remainder() {
        [a, b, c] => body + u64::from(u32::from_ne_bytes([a, b, c, 0])),
        [a, b] => body + u64::from(u16::from_ne_bytes([a, b])),
        [a] => body + u64::from(u16::from_ne_bytes([a, 0])),
        _ => body,
    };
    sum + u64::from(u16::from_be(fold(words)))
}

/// A sum folded to 16 bits: 0 only for 0.
#[inline]
fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of a sum: folded to 16 bits and inverted.
#[inline]
pub fn finish(sum: u64) -> u16 {
    !fold(sum)
}

/// A change of summed words, collected from several writes (RFC 1624, equation 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumChange(u64);

impl SumChange {
    /// Bytes of `old` became those of `new`, which begin at the high half of a summed word; both
    /// have one length.
    #[inline]
    pub fn of(old: &[u8], new: &[u8]) -> Self {
        debug_assert_eq!(old.len(), new.len());
        Self(u64::from(!fold(add(0, old))) + u64::from(fold(add(0, new))))
    }

    /// Adds another change. `is_odd` says that its first byte is the low half of a summed word here
    /// (RFC 1071: a sum of swapped words is the swapped sum).
    #[inline]
    pub fn add(&mut self, other: Self, is_odd: bool) {
        self.0 += if is_odd { u64::from(fold(other.0).swap_bytes()) } else { other.0 };
    }

    /// True without a change.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0 == 0
    }

    /// The checksum that `sum` becomes: a right one stays right, a wrong one as wrong as it was. A
    /// stored 0xffff is read as 0, the same number in ones' complement: the equation gives 0xffff
    /// only for that, and 0 - 1 would be lost otherwise.
    #[inline]
    pub fn apply(&self, sum: u16) -> u16 {
        let sum = if sum == 0xffff { 0 } else { sum };
        finish(self.0 + u64::from(!sum))
    }
}

/// Table of a CRC for one byte, of a polynomial whose lowest bit is the highest power.
const fn crc_table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Castagnoli's, of SCTP.
const CRC32C: [u32; 256] = crc_table(0x82f6_3b78);
/// That of Ethernet.
const CRC32: [u32; 256] = crc_table(0xedb8_8320);

fn crc_step(table: &[u32; 256], crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| (crc >> 8) ^ table[usize::from(crc as u8 ^ byte)])
}

/// The frame check sequence of a frame, in the order of its bytes on the wire (IEEE 802.3, clause
/// 3.2.9).
pub fn frame_check_sequence(frame: &[u8]) -> [u8; 4] {
    (!crc_step(&CRC32, u32::MAX, frame)).to_le_bytes()
}

/// The register of CRC32c behind `bytes`. It is linear: the register for 0 and the difference of
/// two texts is the difference of their checksums.
pub fn crc32c_step(crc: u32, bytes: &[u8]) -> u32 {
    crc_step(&CRC32C, crc, bytes)
}

/// CRC32c of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !crc32c_step(u32::MAX, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crc32c_of_the_check_string() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn frame_check_sequence_of_the_check_string() {
        assert_eq!(frame_check_sequence(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
    }

    #[test]
    fn the_example_of_rfc_1624() {
        let mut change = SumChange::default();
        change.add(SumChange::of(&[0x55, 0x55], &[0x32, 0x85]), false);
        assert_eq!(change.apply(0xdd2f), 0x0000);
    }

    #[test]
    fn a_stored_ffff_counts_as_zero() {
        let mut change = SumChange::default();
        change.add(SumChange::of(&[0xff, 0xff], &[0, 1]), false);
        assert_eq!(change.apply(0xffff), finish(add(0, &[0, 1])));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        // Words near 0 and 0xffff, where the two zeros of ones' complement meet.
        #[test]
        fn an_update_gives_what_a_full_sum_gives(
            words in proptest::collection::vec(
                prop_oneof![Just(0u16), Just(0xffff), Just(1), Just(0xfffe), any::<u16>()], 3..8),
            new in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 1..5),
            at in 2usize..5,
        ) {
            // A header is never all zeros: its version or protocol is not.
            let mut bytes = vec![0x45, 0x00];
            bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            let before = finish(add(0, &bytes));
            let place = at..(at + new.len()).min(bytes.len());
            let mut change = SumChange::default();
            change.add(SumChange::of(&bytes[place.clone()], &new[..place.len()]), at % 2 == 1);
            bytes[place.clone()].copy_from_slice(&new[..place.len()]);
            prop_assert_eq!(change.apply(before), finish(add(0, &bytes)));
        }
    }

    #[test]
    fn example_of_rfc_1071() {
        assert_eq!(finish(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
    }

    #[test]
    fn odd_byte_counts_as_high_half() {
        assert_eq!(add(0, &[0x12, 0x34, 0x56]), 0x1234 + 0x5600);
    }
}
