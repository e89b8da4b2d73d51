//! Clocks of the host as integers, and the offset between two of them.

use nix::time::{ClockId, clock_gettime};

/// Readings of [`ClockOffset::measure`]; the one with the smallest error is used.
const TRIES: usize = 32;
const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since boot, without time asleep (`CLOCK_MONOTONIC`, also `bpf_ktime_get_ns`).
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970 (`CLOCK_REALTIME`); jumps when the clock is set.
pub fn realtime_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// Offset from monotonic time to wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// Realtime minus monotonic.
    pub offset_ns: i64,
    /// Maximum error.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// Measures it now. It changes when the wall clock is set or slewed.
    pub fn measure() -> Self {
        Self::tightest((0..TRIES).map(|_| (monotonic_ns(), realtime_ns(), monotonic_ns())))
    }

    /// From readings (monotonic, realtime, monotonic): the one that took the least time was not
    /// interrupted.
    fn tightest(readings: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let (before, wall, after) =
            readings.min_by_key(|(before, _, after)| after - before).expect("there are readings");
        let half = (after - before) / 2;
        Self { offset_ns: wall.wrapping_sub(before + half).cast_signed(), uncertainty_ns: half + 1 }
    }
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("this clock is always there");
    // Before 1970 there were no frames to stamp.
    let whole = u64::try_from(time.tv_sec()).unwrap_or(0);
    whole * NS_PER_S + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reading_without_interruption_decides() {
        let readings = [(100, 5_000, 900), (1_000, 6_010, 1_020), (2_000, 7_900, 2_900)];
        let offset = ClockOffset::tightest(readings.into_iter());
        assert_eq!(offset, ClockOffset { offset_ns: 5_000, uncertainty_ns: 11 });
    }

    #[test]
    fn a_wall_clock_behind_the_monotonic_one_gives_a_negative_offset() {
        let offset = ClockOffset::tightest([(1_000, 400, 1_000)].into_iter());
        assert_eq!(offset.offset_ns, -600);
    }

    #[test]
    fn the_clocks_of_this_machine_agree_with_the_standard_library() {
        let offset = ClockOffset::measure();
        let wall = monotonic_ns().saturating_add_signed(offset.offset_ns);
        let std = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let std = u64::try_from(std.as_nanos()).unwrap();
        assert!(std.abs_diff(wall) < NS_PER_S, "{std} {wall}");
        assert!(offset.uncertainty_ns < 1_000_000, "{offset:?}");
    }
}
