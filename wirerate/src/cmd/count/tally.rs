//! The line of each second: frames of each CPU, their sum, and how many came since the line before.

use crate::out;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Name and version of a line as JSON.
const SCHEMA: &str = "wirerate.count-second/1";
/// Time between two lines.
const PERIOD: Duration = Duration::from_secs(1);

/// Frames of one CPU since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The CPU.
    pub cpu: u32,
    /// Frames that it received.
    pub received: u64,
}

/// One line, as mgdump wrote it: `0:1200 1:800 sum:2000 pps:1000`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Second {
    /// Since the start.
    pub elapsed_ns: u64,
    /// Frames since the start.
    pub received: u64,
    /// Frames a second since the line before.
    pub rate_pps: u64,
    /// Each CPU that received frames.
    pub cpus: Vec<Cpu>,
}

impl Second {
    /// The line as JSON.
    pub fn json_line(&self) -> String {
        out::json_line(SCHEMA, self)
    }
}

impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cpus.iter().try_for_each(|cpu| write!(f, "{}:{} ", cpu.cpu, cpu.received))?;
        writeln!(f, "sum:{} pps:{}", self.received, self.rate_pps)
    }
}

/// Knows when the next line is due and what the last one said.
#[derive(Debug, Default)]
pub struct Tally {
    last: Duration,
    last_received: u64,
}

impl Tally {
    /// True when another whole second since the start has passed, so that lines that come late do not add up.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        elapsed.as_secs() / PERIOD.as_secs() > self.last.as_secs() / PERIOD.as_secs()
    }

    /// The line for what was counted until now.
    pub fn next(&mut self, elapsed: Duration, cpus: Vec<Cpu>) -> Second {
        let received = cpus.iter().map(|cpu| cpu.received).sum();
        let passed_ns = elapsed.saturating_sub(self.last).as_nanos().max(1);
        let gained = received - self.last_received.min(received);
        let rate_pps = u128::from(gained) * 1_000_000_000 / passed_ns;
        (self.last, self.last_received) = (elapsed, received);
        Second { elapsed_ns: elapsed.as_nanos() as u64, received, rate_pps: rate_pps as u64, cpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(counts: &[u64]) -> Vec<Cpu> {
        (0..).zip(counts).map(|(cpu, received)| Cpu { cpu, received: *received }).collect()
    }

    #[test]
    fn a_line_tells_each_cpu_the_sum_and_what_is_new() {
        let mut tally = Tally::default();
        assert!(!tally.is_due(Duration::from_millis(999)) && tally.is_due(PERIOD));
        assert_eq!(tally.next(PERIOD, cpus(&[7, 3])).to_string(), "0:7 1:3 sum:10 pps:10\n");
        let half_a_second_late = PERIOD * 2 + PERIOD / 2;
        let second = tally.next(half_a_second_late, cpus(&[307, 3]));
        assert_eq!(second.to_string(), "0:307 1:3 sum:310 pps:200\n");
        assert!(!tally.is_due(half_a_second_late + PERIOD / 3) && tally.is_due(PERIOD * 3));
    }

    #[test]
    fn a_line_without_frames_is_a_line() {
        assert_eq!(Tally::default().next(PERIOD, Vec::new()).to_string(), "sum:0 pps:0\n");
    }

    #[test]
    fn a_line_is_one_object_of_json() {
        let line = Tally::default().next(PERIOD, cpus(&[5])).json_line();
        assert_eq!(
            line,
            "{\"schema\":\"wirerate.count-second/1\",\"elapsed_ns\":1000000000,\"received\":5,\"rate_pps\":5,\
             \"cpus\":[{\"cpu\":0,\"received\":5}]}\n"
        );
    }
}
