//! The line of each second: frames of each CPU, their sum, and how many came since the line before.

use crate::cmd::received::{Beat, Cpu};
use crate::out;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Name and version of a line as JSON.
const SCHEMA: &str = "wirerate.count-second/1";
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

/// Makes the lines.
#[derive(Debug, Default)]
pub struct Tally {
    beat: Beat,
}

impl Tally {
    /// True when the next line is due.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        self.beat.is_due(elapsed)
    }

    /// The line for what was counted until now.
    pub fn next(&mut self, elapsed: Duration, cpus: Vec<Cpu>) -> Second {
        let received = cpus.iter().map(|cpu| cpu.received).sum();
        let rate_pps = self.beat.rate_pps(elapsed, received);
        Second { elapsed_ns: elapsed.as_nanos() as u64, received, rate_pps, cpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::received::PERIOD;

    fn cpus(counts: &[u64]) -> Vec<Cpu> {
        (0..).zip(counts).map(|(cpu, received)| Cpu { cpu, received: *received }).collect()
    }

    #[test]
    fn a_line_tells_each_cpu_the_sum_and_what_is_new() {
        let mut tally = Tally::default();
        assert_eq!(tally.next(PERIOD, cpus(&[7, 3])).to_string(), "0:7 1:3 sum:10 pps:10\n");
        let second = tally.next(PERIOD * 2, cpus(&[207, 3]));
        assert_eq!(second.to_string(), "0:207 1:3 sum:210 pps:200\n");
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
