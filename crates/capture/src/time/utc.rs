//! The kernel's monotonic clock to UTC.
//!
//! Both run at the same rate (NTP slews both), so their difference only changes when the time is
//! set. It is measured repeatedly, but a new value is used only when the old one cannot be true any
//! more: the noise of a measurement must not shift the times of frames against each other.

use crate::CaptureError;
use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// How long an offset is believed without looking again.
const AGE_NS_MAX: u64 = 10_000_000;
/// Readings for one measurement; the one that took least time counts.
const READINGS: usize = 5;

/// Time of day minus monotonic time, known to lie between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetBounds {
    offset_ns_min: i64,
    offset_ns_max: i64,
}

impl OffsetBounds {
    /// From a reading of UTC that lies between two of the monotonic clock.
    fn between(before_ns: u64, day_ns: u64, after_ns: u64) -> Self {
        let day_ns = day_ns as i64;
        Self { offset_ns_min: day_ns - after_ns as i64, offset_ns_max: day_ns - before_ns as i64 }
    }

    fn width_ns(&self) -> i64 {
        self.offset_ns_max - self.offset_ns_min
    }

    /// `known_ns` while it can be true, the middle of what can be true otherwise.
    fn corrected(&self, known_ns: i64) -> i64 {
        if (self.offset_ns_min..=self.offset_ns_max).contains(&known_ns) {
            return known_ns;
        }
        self.offset_ns_min + self.width_ns() / 2
    }
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

fn measure() -> OffsetBounds {
    let readings = (0..READINGS).map(|_| {
        let before_ns = now_ns(ClockId::CLOCK_MONOTONIC);
        let day_ns = now_ns(ClockId::CLOCK_REALTIME);
        OffsetBounds::between(before_ns, day_ns, now_ns(ClockId::CLOCK_MONOTONIC))
    });
    readings.min_by_key(OffsetBounds::width_ns).expect("READINGS is not zero")
}

/// Nanoseconds since 1970.
pub(crate) fn utc_now_ns() -> u64 {
    now_ns(ClockId::CLOCK_REALTIME)
}

/// Refuses a UTC that capture files cannot hold: nanoseconds since 1970 in 64 bits.
///
/// # Errors
/// [`CaptureError::TimeOfDay`].
pub(crate) fn check_time_of_day() -> Result<(), CaptureError> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).expect("every Linux has this clock");
    check_seconds(now.tv_sec())
}

fn check_seconds(seconds: i64) -> Result<(), CaptureError> {
    // Times of the next years have to fit as well.
    let seconds_max = i64::MAX / 1_000_000_000;
    match (0..seconds_max).contains(&seconds) {
        true => Ok(()),
        false => Err(CaptureError::TimeOfDay { seconds }),
    }
}

/// Nanoseconds of the clock that stamps of the kernel come from.
pub(crate) fn monotonic_now_ns() -> u64 {
    now_ns(ClockId::CLOCK_MONOTONIC)
}

/// The offset that all writers of a session use.
#[derive(Debug)]
pub(crate) struct UtcClock {
    offset_ns: AtomicI64,
    measured_at_ns: AtomicU64,
    /// What the monotonic clock of this process is ahead of the kernel's own, which stamps frames.
    time_namespace_ns: i64,
}

/// The offset of the monotonic clock in the time namespace of this process, in nanoseconds.
fn time_namespace_offset_ns() -> i64 {
    // A kernel without time namespaces has no such file.
    std::fs::read_to_string("/proc/self/timens_offsets").map_or(0, |text| parse_offset(&text))
}

/// From lines such as `monotonic -1 999999999`: seconds and nanoseconds.
fn parse_offset(text: &str) -> i64 {
    let mut words =
        text.lines().find_map(|line| line.strip_prefix("monotonic")).unwrap_or("").split_whitespace();
    let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).unwrap_or(0);
    number() * 1_000_000_000 + number()
}

impl UtcClock {
    pub(crate) fn new() -> Self {
        let measured = measure();
        Self {
            offset_ns: AtomicI64::new(measured.corrected(measured.offset_ns_min)),
            measured_at_ns: AtomicU64::new(now_ns(ClockId::CLOCK_MONOTONIC)),
            time_namespace_ns: time_namespace_offset_ns(),
        }
    }

    /// Nanoseconds since 1970 as this clock has them for records that are stamped now.
    pub(crate) fn now_ns(&self) -> u64 {
        now_ns(ClockId::CLOCK_MONOTONIC).wrapping_add_signed(self.own_offset_ns())
    }

    /// Nanoseconds to add to the kernel's stamps around now to get nanoseconds since 1970.
    pub(crate) fn offset_ns(&self) -> i64 {
        self.own_offset_ns().wrapping_add(self.time_namespace_ns)
    }

    /// Nanoseconds to add to monotonic times of this process around now to get nanoseconds since
    /// 1970. Measures when the last measurement is too old.
    fn own_offset_ns(&self) -> i64 {
        let now_ns = now_ns(ClockId::CLOCK_MONOTONIC);
        let measured_at_ns = self.measured_at_ns.load(Relaxed);
        let is_old = now_ns.saturating_sub(measured_at_ns) > AGE_NS_MAX;
        // One thread measures; the others continue with the known offset.
        if is_old && self.measured_at_ns.compare_exchange(measured_at_ns, now_ns, Relaxed, Relaxed).is_ok() {
            self.offset_ns.store(measure().corrected(self.offset_ns.load(Relaxed)), Relaxed);
        }
        self.offset_ns.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        for (text, offset_ns) in [
            ("monotonic           0         0\nboottime            0         0\n", 0),
            ("monotonic      100000         7\nboottime            5         0\n", 100_000_000_000_007),
            ("monotonic          -2 999999999\n", -1_000_000_001),
            ("", 0),
        ] {
            assert_eq!(parse_offset(text), offset_ns, "{text}");
        }
    }

    #[test]
    fn a_time_of_day_that_files_cannot_hold_is_refused() {
        assert!(check_time_of_day().is_ok() && check_seconds(0).is_ok());
        // 1960 and 2600.
        for seconds in [-315_619_200, 19_880_899_200] {
            let refused = check_seconds(seconds).unwrap_err().to_string();
            assert!(refused.starts_with("the system clock is outside of"), "{refused}");
        }
    }

    #[test]
    fn noise_of_a_measurement_does_not_move_the_offset() {
        let measured = OffsetBounds::between(1_000, 900_040, 1_080);
        assert_eq!((measured.offset_ns_min, measured.offset_ns_max), (898_960, 899_040));
        for known_ns in [898_960, 899_000, 899_040] {
            assert_eq!(measured.corrected(known_ns), known_ns);
        }
    }

    #[test]
    fn a_step_of_the_time_of_day_is_followed_both_ways() {
        let measured = OffsetBounds::between(1_000, 900_040, 1_080);
        for known_ns in [898_959, 899_041, 0, -5_000_000_000, 7_000_000_000_000] {
            assert_eq!(measured.corrected(known_ns), 899_000);
        }
    }

    #[test]
    fn the_offset_gives_the_time_of_day() {
        let clock = UtcClock::new();
        for _ in 0..3 {
            let before_ns = utc_now_ns();
            let derived_ns = now_ns(ClockId::CLOCK_MONOTONIC).wrapping_add_signed(clock.offset_ns());
            let after_ns = utc_now_ns();
            let slack_ns = 1_000_000;
            assert!(derived_ns + slack_ns > before_ns && derived_ns < after_ns + slack_ns);
            std::thread::sleep(std::time::Duration::from_millis(11));
        }
    }
}
