//! Incremental update of Internet checksums (RFC 1624, equation 3).
//!
//! The update depends on the changed words only, so it is right for cut packets, fragments and
//! checksums that cover bytes that the file does not have.

/// The checksum `sum` after the words of `old` became those of `new`; both have the same, even
/// length. A stored 0xffff is read as 0, the same number in ones' complement: the equation gives
/// 0xffff only for that, and 0 - 1 would be lost otherwise.
pub(crate) fn update(sum: u16, old: &[u8], new: &[u8]) -> u16 {
    debug_assert!(old.len() == new.len() && old.len().is_multiple_of(2));
    let sum = if sum == 0xffff { 0 } else { sum };
    let words = old.chunks_exact(2).zip(new.chunks_exact(2));
    let total = words.fold(u64::from(!sum), |total, (old, new)| {
        total
            + u64::from(!u16::from_be_bytes([old[0], old[1]]))
            + u64::from(u16::from_be_bytes([new[0], new[1]]))
    });
    packet::checksum::finish(total)
}

/// As [`update`], for UDP: 0 stays 0 (no checksum), and a sum of 0 is stored as 0xffff.
pub(crate) fn update_udp(sum: u16, old: &[u8], new: &[u8]) -> u16 {
    match (sum, update(sum, old, new)) {
        (0, _) => 0,
        (_, 0) => 0xffff,
        (_, updated) => updated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::checksum::{add, finish};
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> u16 {
        finish(add(0, bytes))
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]), 0x0000);
    }

    #[test]
    fn a_stored_ffff_counts_as_zero() {
        // Words 0xffff and 0: the checksum is 0, also stored as 0xffff (UDP).
        assert_eq!(update(0xffff, &[0xff, 0xff], &[0, 1]), whole(&[0, 1]));
        assert_eq!(update_udp(0xffff, &[0, 1], &[0, 1]), 0xffff);
        assert_eq!(update_udp(0, &[0, 1], &[0, 2]), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        // Words near 0 and 0xffff, where the two zeros of ones' complement meet.
        #[test]
        fn an_update_gives_what_a_full_sum_gives(
            words in proptest::collection::vec(
                prop_oneof![Just(0u16), Just(0xffff), Just(1), Just(0xfffe), any::<u16>()], 3..8),
            new in prop_oneof![Just(0u16), Just(0xffff), Just(1), any::<u16>()],
            at in 0usize..3,
        ) {
            // A header is never all zeros: its version or protocol is not.
            let bytes = |words: &[u16]| {
                let mut bytes = vec![0x45, 0x00];
                bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
                bytes
            };
            let (old, mut changed) = (words.clone(), words.clone());
            changed[at] = new;
            let expected = whole(&bytes(&changed));
            let before = whole(&bytes(&old));
            prop_assert_eq!(update(before, &old[at].to_be_bytes(), &new.to_be_bytes()), expected);
            let udp = |sum| if sum == 0 { 0xffff } else { sum };
            prop_assert_eq!(update_udp(udp(before), &old[at].to_be_bytes(), &new.to_be_bytes()), udp(expected));
        }
    }
}
