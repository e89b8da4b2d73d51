//! What the receiving commands report: a line per second, and the first lines of a report.

use crate::out;
use crate::units::{Table, human_bps, human_count, human_duration, human_pps, per_second};
use capture::Stats;
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

/// Prints an [`Interval`] every second.
#[derive(Debug, Default)]
pub struct Ticker {
    last: Duration,
    last_received: u64,
}

impl Ticker {
    /// True if another whole second since the start has passed. So late lines do not add up.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        elapsed.as_secs() / PERIOD.as_secs() > self.last.as_secs() / PERIOD.as_secs()
    }

    /// The counts of all CPUs until now.
    pub fn next(&mut self, elapsed: Duration, cpus: Vec<Cpu>) -> Interval {
        let received = cpus.iter().map(|cpu| cpu.received).sum();
        let passed_ns = elapsed.saturating_sub(self.last).as_nanos().max(1) as u64;
        let gained: u64 = u64::saturating_sub(received, self.last_received);
        (self.last, self.last_received) = (elapsed, received);
        let rate_pps = per_second(gained, passed_ns) as u64;
        Interval { elapsed_ns: elapsed.as_nanos() as u64, received, rate_pps, capture: None, cpus }
    }

    /// The counts of a capture until now.
    pub fn next_of_capture(&mut self, stats: &Stats) -> Interval {
        let (total, lost_nic) = (stats.total(), stats.lost_nic());
        let cpus = stats.by_cpu().into_iter().map(|(cpu, counts)| Cpu { cpu, received: counts.received });
        let capture = CaptureCounts {
            offered: lost_nic.map(|lost_nic| total.received + lost_nic),
            written: total.written,
            waiting: total.waiting(),
            filtered: total.filtered,
            after_limit: total.after_limit,
            lost_nic,
            lost_ring: total.lost_ring,
            lost_disk: total.lost_disk,
        };
        let cpus = cpus.filter(|cpu| cpu.received > 0).collect();
        Interval { capture: Some(capture), ..self.next(stats.elapsed, cpus) }
    }
}

/// One line per second, in the format of mgdump: `0:1200 1:800 sum:2000 pps:1000`. All counts are
/// since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// Time since the start.
    pub elapsed_ns: u64,
    /// Frames received.
    pub received: u64,
    /// Frames received per second since the previous line.
    pub rate_pps: u64,
    /// Where the frames of a capture went.
    #[serde(flatten)]
    pub capture: Option<CaptureCounts>,
    /// Each CPU that received frames.
    pub cpus: Vec<Cpu>,
}

/// Where the frames of a capture went; `offered` is the sum of all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureCounts {
    /// Frames on the wire; `null` if the device does not count what it lost.
    pub offered: Option<u64>,
    /// Frames in the file.
    pub written: u64,
    /// Frames on their way to the file.
    pub waiting: u64,
    /// Frames that did not match the filter; `null` if the kernel does not count them.
    pub filtered: Option<u64>,
    /// Frames received after `--count` frames were written.
    pub after_limit: u64,
    /// Frames lost in the device.
    pub lost_nic: Option<u64>,
    /// Frames lost because a ring was full.
    pub lost_ring: u64,
    /// Frames lost because the file could not be written.
    pub lost_disk: u64,
}

impl Interval {
    /// The line as JSON.
    pub fn json_line(&self) -> String {
        let schema = match self.capture {
            None => "wirerate.count-second/1",
            Some(_) => "wirerate.capture-second/1",
        };
        out::json_line(schema, self)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cpus.iter().try_for_each(|cpu| write!(f, "{}:{} ", cpu.cpu, cpu.received))?;
        write!(f, "sum:{} pps:{}", self.received, self.rate_pps)?;
        if let Some(capture) = &self.capture {
            let known = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
            let CaptureCounts { written, lost_ring, lost_disk, .. } = capture;
            write!(f, " written:{written} filtered:{} ", known(capture.filtered))?;
            write!(f, "lost in nic:{} ring:{lost_ring} disk:{lost_disk}", known(capture.lost_nic))?;
        }
        writeln!(f)
    }
}

/// The first lines of a report.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The device, or several by commas.
    pub device: &'a str,
    /// Its namespace, where one was named.
    pub netns: Option<&'a str>,
    /// Time from start to end, in nanoseconds.
    pub duration_ns: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Their lengths in bytes, without FCS.
    pub received_bytes: u64,
}

impl Summary<'_> {
    /// Writes the first line. Returns the table below it, with its first row.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write(&self, f: &mut fmt::Formatter<'_>) -> Result<Table, fmt::Error> {
        let device = match self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.to_owned(),
        };
        let time = human_duration(self.duration_ns);
        writeln!(f, "{device}: {} frames received in {time}", human_count(self.received))?;
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
    use capture::{Counts, DeviceStats, RingStats};

    fn cpus(counts: &[u64]) -> Vec<Cpu> {
        (0..).zip(counts).map(|(cpu, received)| Cpu { cpu, received: *received }).collect()
    }

    #[test]
    fn lines_that_come_late_do_not_add_up() {
        let mut ticker = Ticker::default();
        assert!(!ticker.is_due(Duration::from_millis(999)) && ticker.is_due(PERIOD));
        assert_eq!(ticker.next(PERIOD, cpus(&[10])).rate_pps, 10);
        let half_a_second_late = PERIOD * 2 + PERIOD / 2;
        assert_eq!(ticker.next(half_a_second_late, cpus(&[310])).rate_pps, 200);
        assert!(!ticker.is_due(half_a_second_late + PERIOD / 3) && ticker.is_due(PERIOD * 3));
    }

    #[test]
    fn counts_that_go_back_are_no_rate() {
        let mut ticker = Ticker::default();
        ticker.next(PERIOD, cpus(&[10]));
        assert_eq!(ticker.next(PERIOD * 2, cpus(&[9])).rate_pps, 0);
        assert_eq!(ticker.next(PERIOD * 2, cpus(&[9])).rate_pps, 0, "no time, no frames");
    }

    #[test]
    fn a_line_tells_each_cpu_the_sum_and_what_is_new() {
        let mut ticker = Ticker::default();
        assert_eq!(ticker.next(PERIOD, cpus(&[7, 3])).to_string(), "0:7 1:3 sum:10 pps:10\n");
        let interval = ticker.next(PERIOD * 2, cpus(&[207, 3]));
        assert_eq!(interval.to_string(), "0:207 1:3 sum:210 pps:200\n");
        assert_eq!(Ticker::default().next(PERIOD, Vec::new()).to_string(), "sum:0 pps:0\n");
    }

    #[test]
    fn a_line_is_one_object_of_json() {
        let line = Ticker::default().next(PERIOD, cpus(&[5])).json_line();
        assert_eq!(
            line,
            "{\"schema\":\"wirerate.count-second/1\",\"elapsed_ns\":1000000000,\"received\":5,\"rate_pps\":5,\
             \"cpus\":[{\"cpu\":0,\"received\":5}]}\n"
        );
    }

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
    fn a_line_of_a_capture_also_tells_what_was_lost() {
        let mut ticker = Ticker::default();
        let interval = ticker.next_of_capture(&stats(1_000, &[(0, 7), (1, 3), (0, 5)], Some(4)));
        assert_eq!(
            interval.to_string(),
            "0:12 1:3 sum:15 pps:15 written:6 filtered:0 lost in nic:4 ring:3 disk:0\n"
        );
        let capture = interval.capture.unwrap();
        assert_eq!((capture.offered, capture.waiting), (Some(19), 6));
        let interval = ticker.next_of_capture(&stats(2_500, &[(0, 307), (1, 8)], None));
        assert_eq!(interval.rate_pps, 200);
        let line = interval.json_line();
        assert!(interval.to_string().contains("nic:unknown") && line.contains("\"lost_nic\":null"), "{line}");
        assert!(line.starts_with("{\"schema\":\"wirerate.capture-second/1\",\"elapsed_ns\":"), "{line}");
    }
}
