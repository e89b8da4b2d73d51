//! `--start-at`: the time as an argument, its refusal once it has passed, and what reports say.

use crate::outcome::Failure;
use facts::Described;
use host::{ClockQuality, StartTime};
use measure::HostClock;
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use units::{human_duration, utc_time};

/// Refuses a requested time that has passed, when a command begins and again when it is ready.
///
/// # Errors
/// With exit code 1: the time has passed. `act` is what cannot be done ("send on eth0").
pub fn refuse_if_late(start_at: Option<StartTime>, act: impl FnOnce() -> String) -> Result<(), Failure> {
    match start_at.and_then(StartTime::late_ns) {
        Some(late_ns) => Err(Failure::too_late(act(), late_ns)),
        None => Ok(()),
    }
}

/// Prints on standard error when a sender starts.
pub fn announce(start_at: Option<StartTime>) {
    if let Some(start_at) = start_at {
        crate::note!("starting at {}", utc_time(start_at.unix_ns));
    }
}

/// Time from now until a receiver counts the time of its run; zero without a requested time.
pub fn left(start_at: Option<StartTime>) -> Duration {
    start_at.map_or(Duration::ZERO, StartTime::left)
}

/// What a report says about a requested start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct StartReport {
    /// With `--start-at` only: the start, since 1970
    /// ([pacing.md](pacing.md#commands-that-start-at-the-same-instant)).
    pub start_at_ns: u64,
    /// With `--start-at` only: time from the start to the first frame; `null` of a receiver, and if
    /// no frame was sent.
    pub first_frame_late_ns: Option<u64>,
    /// With `--start-at` only: the clock of the host.
    pub clock: HostClock,
}

/// The clock of this host, as its kernel describes it.
pub fn host_clock() -> HostClock {
    let ClockQuality { is_synchronized, bound_ns, .. } = ClockQuality::now();
    HostClock { is_synchronized, bound_ns }
}

/// The number of this boot: programs with the same one share a clock. Empty if the kernel has none.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

impl StartReport {
    /// Of a run that was to start at `start_at`, with the clock as it is now.
    pub fn new(start_at: StartTime, first_frame_late_ns: Option<u64>) -> Self {
        Self { start_at_ns: start_at.unix_ns, first_frame_late_ns, clock: host_clock() }
    }
}

impl fmt::Display for StartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", utc_time(self.start_at_ns))?;
        if let Some(late_ns) = self.first_frame_late_ns {
            write!(f, ", first frame within {}", human_duration(late_ns))?;
        }
        match self.clock {
            HostClock { is_synchronized: true, bound_ns } => {
                write!(f, "; clock synchronized within {}", human_duration(bound_ns))
            }
            _ => write!(f, "; the clock is not synchronized"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_without_synchronization_is_reported() {
        let clock = HostClock { is_synchronized: false, bound_ns: 16_000_000_000 };
        let start_at_ns = 1_795_313_700_250_000_000;
        let report = StartReport { start_at_ns, first_frame_late_ns: Some(35_000), clock };
        assert_eq!(
            report.to_string(),
            "2026-11-22T02:15:00.250Z, first frame within 35.00 µs; the clock is not synchronized"
        );
        let clock = HostClock { is_synchronized: true, bound_ns: 2_500 };
        let report = StartReport { first_frame_late_ns: None, clock, ..report };
        assert_eq!(report.to_string(), "2026-11-22T02:15:00.250Z; clock synchronized within 2.500 µs");
    }

    #[test]
    fn a_time_that_has_passed_is_refused() {
        let past = StartTime { unix_ns: 1 };
        let failure = refuse_if_late(Some(past), || "send on eth0".to_owned()).unwrap_err().to_string();
        assert!(failure.starts_with("wirerate: cannot send on eth0: the time to start was "), "{failure}");
        assert!(failure.contains("  try: --start-at +2s"), "{failure}");
        assert!(refuse_if_late(None, String::new).is_ok() && left(Some(past)) == Duration::ZERO);
    }
}
