//! What every command that receives says alike: the frames of a CPU, the beat of a line each second, the head of a report.

use crate::units::{Table, human_bps, human_count, human_duration, human_pps, per_second};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Time between two lines.
pub const PERIOD: Duration = Duration::from_secs(1);

/// Frames of one CPU since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The CPU.
    pub cpu: u32,
    /// Frames that it received.
    pub received: u64,
}

/// Knows when the next line is due and what the last one said.
#[derive(Debug, Default)]
pub struct Beat {
    last: Duration,
    last_received: u64,
}

impl Beat {
    /// True when another whole second since the start has passed, so that lines that come late do not add up.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        elapsed.as_secs() / PERIOD.as_secs() > self.last.as_secs() / PERIOD.as_secs()
    }

    /// Notes that a line is said now, with all frames `received` since the start. Returns frames a second since the
    /// line before.
    pub fn rate_pps(&mut self, elapsed: Duration, received: u64) -> u64 {
        let passed_ns = elapsed.saturating_sub(self.last).as_nanos().max(1) as u64;
        let gained = received.saturating_sub(self.last_received);
        (self.last, self.last_received) = (elapsed, received);
        per_second(gained, passed_ns) as u64
    }
}

/// The sums that a report begins with.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The device, or several by commas.
    pub device: &'a str,
    /// Its namespace, where one was named.
    pub netns: Option<&'a str>,
    /// Time from the first to the last look, in nanoseconds.
    pub duration_ns: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Their lengths in bytes, without FCS.
    pub received_bytes: u64,
}

impl Head<'_> {
    /// Writes the first line. Returns the table below it, with its first row.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write(&self, f: &mut fmt::Formatter<'_>) -> Result<Table, fmt::Error> {
        let place = match self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.to_owned(),
        };
        let time = human_duration(self.duration_ns);
        writeln!(f, "{place}: {} frames received in {time}", human_count(self.received))?;
        let mut table = Table::default();
        let rate = human_pps(per_second(self.received, self.duration_ns));
        let bits = human_bps(per_second(self.received_bytes * 8, self.duration_ns));
        table.count("received", self.received, &format!("{rate}, {bits} without FCS"));
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_come_late_do_not_add_up() {
        let mut beat = Beat::default();
        assert!(!beat.is_due(Duration::from_millis(999)) && beat.is_due(PERIOD));
        assert_eq!(beat.rate_pps(PERIOD, 10), 10);
        let half_a_second_late = PERIOD * 2 + PERIOD / 2;
        assert_eq!(beat.rate_pps(half_a_second_late, 310), 200);
        assert!(!beat.is_due(half_a_second_late + PERIOD / 3) && beat.is_due(PERIOD * 3));
    }

    #[test]
    fn counts_that_go_back_are_no_rate() {
        let mut beat = Beat::default();
        beat.rate_pps(PERIOD, 10);
        assert_eq!(beat.rate_pps(PERIOD * 2, 9), 0);
        assert_eq!(beat.rate_pps(PERIOD * 2, 9), 0, "no time, no frames");
    }
}
