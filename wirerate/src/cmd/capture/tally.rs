//! The line of each second: frames of each CPU as mgdump told them, and where the others went.

use crate::cmd::received::{Beat, Cpu};
use crate::out;
use capture::Stats;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Name and version of a line as JSON.
const SCHEMA: &str = "wirerate.capture-second/1";

/// One line. All counts are since the start; `offered` is the sum of all others but `received`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Second {
    /// Since the start.
    pub elapsed_ns: u64,
    /// Frames on the wire; `null` where the device does not say what it lost.
    pub offered: Option<u64>,
    /// Frames that the device handed over.
    pub received: u64,
    /// Frames handed over in a second, since the line before.
    pub rate_pps: u64,
    /// Frames in the file.
    pub written: u64,
    /// Frames on their way to the file.
    pub waiting: u64,
    /// Frames that the filter turned away; `null` where the kernel does not count them.
    pub filtered: Option<u64>,
    /// Frames received after enough were written.
    pub after_limit: u64,
    /// Frames lost in the device.
    pub lost_nic: Option<u64>,
    /// Frames lost because a ring was full.
    pub lost_ring: u64,
    /// Frames lost because the file took no more.
    pub lost_disk: u64,
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
        let known = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
        self.cpus.iter().try_for_each(|cpu| write!(f, "{}:{} ", cpu.cpu, cpu.received))?;
        write!(f, "sum:{} pps:{} written:{} ", self.received, self.rate_pps, self.written)?;
        write!(f, "filtered:{} ", known(self.filtered))?;
        let lost_nic = known(self.lost_nic);
        writeln!(f, "lost in nic:{lost_nic} ring:{} disk:{}", self.lost_ring, self.lost_disk)
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
    pub fn next(&mut self, stats: &Stats) -> Second {
        let total = stats.total();
        Second {
            elapsed_ns: stats.elapsed.as_nanos() as u64,
            offered: stats.lost_nic().map(|lost_nic| total.received + lost_nic),
            received: total.received,
            rate_pps: self.beat.rate_pps(stats.elapsed, total.received),
            written: total.written,
            waiting: total.waiting(),
            filtered: total.filtered,
            after_limit: total.after_limit,
            lost_nic: stats.lost_nic(),
            lost_ring: total.lost_ring,
            lost_disk: total.lost_disk,
            cpus: cpus(stats),
        }
    }
}

/// Frames of each CPU that received some.
fn cpus(stats: &Stats) -> Vec<Cpu> {
    let cpus = stats.by_cpu().into_iter().map(|(cpu, counts)| Cpu { cpu, received: counts.received });
    cpus.filter(|cpu| cpu.received > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::{Counts, DeviceStats, RingStats};

    fn stats(elapsed_ms: u64, received: &[(u32, u64)], lost_nic: Option<u64>) -> Stats {
        let ring = |&(cpu, received): &(u32, u64)| RingStats {
            cpu,
            counts: Counts {
                received,
                captured: received - 1,
                lost_ring: 1,
                written: 2,
                ..Counts::default()
            },
            ..RingStats::default()
        };
        Stats {
            elapsed: Duration::from_millis(elapsed_ms),
            rings: received.iter().map(ring).collect(),
            devices: vec![DeviceStats { lost_nic, ..DeviceStats::default() }],
            ..Stats::default()
        }
    }

    #[test]
    fn a_line_tells_each_cpu_the_sum_what_is_new_and_what_was_lost() {
        let mut tally = Tally::default();
        assert!(!tally.is_due(Duration::from_millis(999)) && tally.is_due(Duration::from_secs(1)));
        let second = tally.next(&stats(1_000, &[(0, 7), (1, 3), (0, 5)], Some(4)));
        assert_eq!(
            second.to_string(),
            "0:12 1:3 sum:15 pps:15 written:6 filtered:0 lost in nic:4 ring:3 disk:0\n"
        );
        assert_eq!((second.offered, second.waiting), (Some(19), 6));
        let second = tally.next(&stats(2_500, &[(0, 307), (1, 8)], None));
        assert_eq!((second.rate_pps, second.offered, second.lost_nic), (200, None, None));
        assert!(
            second.to_string().contains("nic:unknown") && second.json_line().contains("\"lost_nic\":null")
        );
        assert!(!tally.is_due(Duration::from_millis(2_999)));
    }
}
