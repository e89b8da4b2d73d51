//! Numbers of 32 bits in frames, continued to 64 bits (RFC 4737 section 6: half the range decides).

/// Where the numbers of a flow begin that frames carry themselves, so that none is negative.
pub(crate) const NUMBER_START: u64 = 1 << 32;

/// The 64-bit number nearest to `reference` whose low 32 bits are `number`.
pub fn unwrap_number(reference: u64, number: u32) -> u64 {
    let step = number.wrapping_sub(reference as u32).cast_signed();
    reference.wrapping_add_signed(i64::from(step))
}

/// The 64-bit number of the first frame: 2^32 * `cycle` above the number in the frame. So a frame
/// from before a wrap is not negative, and numbers modulo `cycle` stay what they are in the frames.
pub fn first_number(number: u32, cycle: u32) -> u64 {
    (u64::from(cycle) << 32) + u64::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_across_the_wrap_in_both_directions() {
        let last = first_number(u32::MAX, 1);
        assert_eq!(unwrap_number(last, 0), last + 1);
        assert_eq!(unwrap_number(last + 1, u32::MAX), last);
        assert_eq!(unwrap_number(first_number(0, 1), u32::MAX), first_number(0, 1) - 1);
        assert_eq!(unwrap_number(last, last as u32), last);
    }

    #[test]
    fn half_the_range_is_ahead_and_half_behind() {
        let reference = first_number(5, 1);
        assert_eq!(unwrap_number(reference, 5 + 0x7fff_ffff), reference + 0x7fff_ffff);
        assert_eq!(unwrap_number(reference, 5u32.wrapping_add(0x8000_0000)), reference - 0x8000_0000);
    }

    #[test]
    fn flows_of_a_schedule_keep_their_frames_across_the_wrap() {
        for cycle in [1, 3, 7, 65_536, 1_000_000] {
            assert_eq!(first_number(1234, cycle) % u64::from(cycle), 1234 % u64::from(cycle));
        }
    }
}
