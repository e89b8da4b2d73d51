//! Timestamps of an interface: their resolution and offset.

const NS_PER_S: u128 = 1_000_000_000;

/// Unit and start of the times of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale {
    /// As in `if_tsresol`: a unit is 10^-n seconds; with the highest bit set 2^-n, n being the
    /// other bits.
    pub resolution: u8,
    /// Seconds to add, as in `if_tsoffset`.
    pub offset_s: i64,
}

impl TimeScale {
    /// Microseconds, where a file says nothing.
    pub(crate) const RESOLUTION_DEFAULT: u8 = 6;

    /// True if a unit is shorter than a nanosecond.
    pub fn is_finer_than_ns(self) -> bool {
        let exponent = self.resolution & 0x7f;
        exponent > if self.resolution & 0x80 == 0 { 9 } else { 29 }
    }

    /// `units` in nanoseconds since 1970; finer units are rounded down.
    #[inline]
    pub(crate) fn to_ns(self, units: u64) -> Option<u64> {
        // Most files have one of these two, and a division of 128 bits takes long.
        match (self.resolution, self.offset_s) {
            (9, 0) => Some(units),
            (6, 0) => units.checked_mul(1_000),
            _ => self.any_to_ns(units),
        }
    }

    fn any_to_ns(self, units: u64) -> Option<u64> {
        let ns = self.unit_ns(units) + i128::from(self.offset_s) * NS_PER_S as i128;
        u64::try_from(ns).ok()
    }

    /// `units` in nanoseconds, at most 2^94.
    fn unit_ns(self, units: u64) -> i128 {
        let exponent = u32::from(self.resolution & 0x7f);
        let whole = u128::from(units) * NS_PER_S;
        let ns = if self.resolution & 0x80 != 0 {
            whole >> exponent
        } else {
            // 10^39 does not fit; no 64-bit number of such units is as long as a nanosecond.
            10_u128.checked_pow(exponent).map_or(0, |divisor| whole / divisor)
        };
        ns as i128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_ns(resolution: u8, offset_s: i64, units: u64) -> Option<u64> {
        TimeScale { resolution, offset_s }.to_ns(units)
    }

    #[test]
    fn powers_of_ten_and_of_two() {
        assert_eq!(to_ns(6, 0, 1_700_000_000_000_001), Some(1_700_000_000_000_001_000));
        assert_eq!(to_ns(9, 0, u64::MAX), Some(u64::MAX));
        for units in [0, 1, u64::MAX / 1_000, u64::MAX / 1_000 + 1, u64::MAX] {
            for resolution in [6, 9] {
                let scale = TimeScale { resolution, offset_s: 0 };
                assert_eq!(scale.to_ns(units), scale.any_to_ns(units), "{units} of {resolution}");
            }
        }
        assert_eq!(to_ns(0, 0, 3), Some(3_000_000_000));
        assert_eq!(to_ns(12, 0, 1_999), Some(1));
        assert_eq!(to_ns(0x80, 0, 3), Some(3_000_000_000));
        assert_eq!(to_ns(0x80 | 10, 0, 512), Some(500_000_000));
        assert_eq!(to_ns(0x80 | 32, 0, 1 << 33), Some(2_000_000_000));
    }

    #[test]
    fn units_below_a_nanosecond_are_told() {
        let finer = [9, 10, 0x80 | 29, 0x80 | 30];
        let finer = finer.map(|resolution| TimeScale { resolution, offset_s: 0 }.is_finer_than_ns());
        assert_eq!(finer, [false, true, false, true]);
    }

    #[test]
    fn extreme_units_do_not_overflow() {
        for exponent in 0..=0x7f {
            to_ns(exponent, i64::MAX, u64::MAX);
            to_ns(exponent | 0x80, i64::MIN, u64::MAX);
        }
        assert_eq!(to_ns(127, 0, u64::MAX), Some(0));
        assert_eq!(to_ns(0xff, 0, u64::MAX), Some(0));
    }

    #[test]
    fn the_offset_is_in_seconds_and_has_a_sign() {
        assert_eq!(to_ns(9, 2, 5), Some(2_000_000_005));
        assert_eq!(to_ns(9, -2, 5_000_000_000), Some(3_000_000_000));
        assert_eq!(to_ns(9, -2, 1), None);
        assert_eq!(to_ns(6, 0, u64::MAX), None);
    }
}
