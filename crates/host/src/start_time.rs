//! A start at a time of day, which may be the same on several hosts: the time, the wait for it, and
//! how well the kernel's clock is synchronized.

use crate::clock::{ClockOffset, realtime_ns};
use crate::sys;
use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Duration;

/// From this time before the start on, the monotonic clock counts: it is not set meanwhile, and a
/// clock that is slewed by 500 ppm moves by 2.5 µs.
const NEAR_NS: u64 = 5_000_000;

/// When a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartTime {
    /// `CLOCK_REALTIME`: nanoseconds since 1970.
    pub unix_ns: u64,
}

impl StartTime {
    /// Time left until then; zero once it has passed.
    pub fn left(self) -> Duration {
        Duration::from_nanos(self.unix_ns.saturating_sub(realtime_ns()))
    }

    /// Nanoseconds since then, if it has passed.
    pub fn late_ns(self) -> Option<u64> {
        realtime_ns().checked_sub(self.unix_ns)
    }

    /// Sleeps towards it for `timeout` at most. Near it, returns `CLOCK_MONOTONIC` of the start,
    /// for which the caller waits. Otherwise the caller checks whether it is stopped, and calls
    /// again. The clock may be set meanwhile.
    pub fn approach(self, timeout: Duration) -> Option<u64> {
        let left_ns = self.unix_ns.saturating_sub(realtime_ns());
        if left_ns > NEAR_NS {
            thread::sleep(timeout.min(Duration::from_nanos(left_ns - NEAR_NS)));
            return None;
        }
        Some(monotonic_of(self.unix_ns, ClockOffset::measure()))
    }
}

/// The instant of the monotonic clock at `unix_ns`.
fn monotonic_of(unix_ns: u64, offset: ClockOffset) -> u64 {
    unix_ns.saturating_add_signed(offset.offset_ns.saturating_neg())
}

/// What the kernel knows about `CLOCK_REALTIME` (adjtimex(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockQuality {
    /// A daemon such as chronyd or ptp4l with phc2sys keeps it synchronized.
    pub is_synchronized: bool,
    /// Maximum error against UTC. Without synchronization the kernel counts up to 16 s.
    pub bound_ns: u64,
    /// How much `CLOCK_TAI` is ahead of `CLOCK_REALTIME`; 0 if no daemon has set it.
    pub tai_offset_s: i32,
}

impl ClockQuality {
    /// Queries it now. A kernel that refuses has no synchronized clock.
    pub fn now() -> Self {
        let sys::ClockState { state, status, max_error_us, tai_offset_s } = sys::clock_state();
        let is_synchronized = state >= 0 && state != libc::TIME_ERROR && status & libc::STA_UNSYNC == 0;
        Self { is_synchronized, bound_ns: max_error_us.saturating_mul(1000), tai_offset_s }
    }
}

/// Programs that synchronize the clock, PTP first, by their names in `/proc/PID/comm`, which has 15
/// bytes.
const CLOCK_DAEMONS: [(&str, &str); 6] = [
    ("phc2sys", "phc2sys"),
    ("ptp4l", "ptp4l"),
    ("chronyd", "chronyd"),
    ("ntpd", "ntpd"),
    ("systemd-timesyn", "systemd-timesyncd"),
    ("timemaster", "timemaster"),
];

/// The program that synchronizes the clock of this host, if a known one runs here.
pub fn clock_daemon() -> Option<&'static str> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.filter_map(|process| fs::read_to_string(process.path().join("comm")).ok());
    first_daemon(&names.map(|name| name.trim_end().to_owned()).collect())
}

fn first_daemon(running: &BTreeSet<String>) -> Option<&'static str> {
    CLOCK_DAEMONS.iter().find(|(comm, _)| running.contains(*comm)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;

    #[test]
    fn the_daemon_with_the_best_clock_is_named() {
        let daemon = |names: &[&str]| first_daemon(&names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(daemon(&["sh", "ptp4l", "chronyd", "phc2sys"]), Some("phc2sys"));
        assert_eq!(daemon(&["systemd-timesyn"]), Some("systemd-timesyncd"));
        assert_eq!(daemon(&["sh"]), None);
    }

    #[test]
    fn a_time_is_the_same_instant_on_both_clocks() {
        let offset = ClockOffset { offset_ns: 5_000, uncertainty_ns: 1 };
        assert_eq!(monotonic_of(6_000, offset), 1_000);
        assert_eq!(monotonic_of(6_000, ClockOffset { offset_ns: -600, ..offset }), 6_600);
        assert_eq!(monotonic_of(4_000, offset), 0, "before boot");
    }

    #[test]
    fn far_away_it_sleeps_and_near_it_returns_the_instant() {
        let far = StartTime { unix_ns: realtime_ns() + 3_600_000_000_000 };
        assert_eq!((far.approach(Duration::from_millis(1)), far.late_ns()), (None, None));
        assert!(far.left() > Duration::from_secs(3000));
        let start = StartTime { unix_ns: realtime_ns() + 20_000_000 };
        let at_ns = loop {
            if let Some(at_ns) = start.approach(Duration::from_millis(4)) {
                break at_ns;
            }
        };
        let offset = ClockOffset::measure();
        assert!(monotonic_of(start.unix_ns, offset).abs_diff(at_ns) < 1_000_000, "{offset:?}");
        while monotonic_ns() < at_ns + 1_000_000 {}
        assert!(start.late_ns().is_some() && start.left() == Duration::ZERO);
    }

    #[test]
    fn the_kernel_reports_an_error_bound() {
        let quality = ClockQuality::now();
        assert!(quality.bound_ns > 0, "{quality:?}");
        assert!(!quality.is_synchronized || quality.bound_ns < 16_000_000_000, "{quality:?}");
    }
}
