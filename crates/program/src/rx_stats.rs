//! What the receiving commands report: a row per second, and the first lines of a report.

use crate::active_window::ActiveRate;
use crate::row_printer::{NARROW, PERIOD, RATE, Row, RowTime, WIDE};
use capture::Stats;
use facts::{CaptureFrames, Described, Document};
use serde::Serialize;
use std::fmt;
use std::time::{Duration, SystemTime};
use units::{Table, human_bps, human_duration, human_pps, per_second, quantity_of};

/// Frames of one CPU since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct Cpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Frames that it received.
    #[fact(unit = "frames")]
    pub received: u64,
}

/// Computes the frames and the rate of each second.
#[derive(Debug, Default)]
pub struct Ticker {
    last: Duration,
    last_received: u64,
    last_bytes: u64,
}

impl Ticker {
    /// The counts at the first look: the program counts frames before the clock starts.
    pub fn begin(&mut self, elapsed: Duration, received: u64, received_bytes: u64) {
        (self.last, self.last_received, self.last_bytes) = (elapsed, received, received_bytes);
    }

    /// True if another whole second since the start has passed. So late lines do not add up.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        elapsed.as_secs() / PERIOD.as_secs() > self.last.as_secs() / PERIOD.as_secs()
    }

    /// The counts of all CPUs until now, and the lengths of their frames in bytes.
    pub fn next(&mut self, elapsed: Duration, received_bytes: u64, cpus: Vec<Cpu>) -> ReceiveRow {
        let received = cpus.iter().map(|cpu| cpu.received).sum();
        let passed_ns = elapsed.saturating_sub(self.last).as_nanos().max(1) as u64;
        let gained: u64 = u64::saturating_sub(received, self.last_received);
        let gained_bytes = received_bytes.saturating_sub(self.last_bytes);
        (self.last, self.last_received, self.last_bytes) = (elapsed, received, received_bytes);
        ReceiveRow {
            time: RowTime { time_ns: now_ns(), elapsed_ns: elapsed.as_nanos() as u64 },
            received,
            rate_pps: per_second(gained, passed_ns) as u64,
            received_bytes,
            rate_bps: per_second(gained_bytes * 8, passed_ns) as u64,
            cpus,
        }
    }

    /// The counts of a capture until now.
    pub fn next_of_capture(&mut self, stats: &Stats) -> CaptureRow {
        let (total, lost_nic) = (stats.total(), stats.lost_nic());
        let cpus = stats.by_cpu().into_iter().map(|(cpu, counts)| Cpu { cpu, received: counts.received });
        let counts = CaptureCounts {
            offered: lost_nic.map(|lost_nic| total.received + lost_nic),
            waiting: total.waiting(),
            frames: capture_frames(&total, lost_nic),
        };
        let cpus = cpus.filter(|cpu| cpu.received > 0).collect();
        CaptureRow { received: self.next(stats.elapsed, total.received_bytes, cpus), counts }
    }
}

/// Time of day, in nanoseconds since 1970.
fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// The counts of a second. `Display` is the line of mgdump: `0:1200 1:800 sum:2000 pps:1000`. All
/// counts are since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct ReceiveRow {
    /// When it was made.
    #[serde(flatten)]
    pub time: RowTime,
    /// Frames received since the start; with a filter those that match it.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Frames received per second since the previous object.
    pub rate_pps: u64,
    /// The sum of their `frame_len`.
    pub received_bytes: u64,
    /// Bits received per second since the previous object, without FCS.
    pub rate_bps: u64,
    /// One entry for each CPU that received frames.
    pub cpus: Vec<Cpu>,
}

/// The counts of a second of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct CaptureRow {
    /// What was received.
    #[serde(flatten)]
    pub received: ReceiveRow,
    /// Where these frames went.
    #[serde(flatten)]
    pub counts: CaptureCounts,
}

/// Where the frames of a capture went; `offered` is the sum of all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct CaptureCounts {
    /// Frames on the wire since the start; `null` if `lost_nic` is.
    #[fact(unit = "frames")]
    pub offered: Option<u64>,
    /// Frames on their way to the file: the rest of `received`.
    #[fact(unit = "frames")]
    pub waiting: u64,
    /// All others.
    #[serde(flatten)]
    pub frames: CaptureFrames,
}

/// The frames of a capture by what became of them, without those on their way to the file.
pub fn capture_frames(counts: &capture::Counts, lost_nic: Option<u64>) -> CaptureFrames {
    CaptureFrames {
        written: counts.written,
        filtered: counts.filtered,
        after_limit: counts.after_limit,
        not_kept: counts.not_kept,
        lost_nic,
        lost_ring: counts.lost_ring,
        lost_disk: counts.lost_disk,
    }
}

impl Row for ReceiveRow {
    const DOCUMENT: Document = Document::of::<Self>(
        "wirerate.count-second/1",
        "wirerate count --json --every-second and wirerate sink --json --every-second",
    );
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("received", WIDE), ("rate_pps", RATE), ("rate_bps", WIDE)];
    const JSON_ONLY: &'static [&'static str] = &["received_bytes"];

    fn time(&self) -> RowTime {
        self.time
    }
}

impl Row for CaptureRow {
    const DOCUMENT: Document = Document::of::<Self>(
        "wirerate.capture-second/1",
        "wirerate capture --json --every-second, and wirerate ctl DEV stats",
    );
    const COLUMNS: &'static [(&'static str, usize)] = &[
        ("received", WIDE),
        ("rate_pps", RATE),
        ("rate_bps", WIDE),
        ("written", WIDE),
        ("filtered", NARROW),
        ("lost_nic", NARROW),
        ("lost_ring", NARROW),
        ("lost_disk", NARROW),
    ];
    const JSON_ONLY: &'static [&'static str] = &["received_bytes", "offered", "waiting"];

    fn time(&self) -> RowTime {
        self.received.time
    }
}

impl fmt::Display for ReceiveRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cpus.iter().try_for_each(|cpu| write!(f, "{}:{} ", cpu.cpu, cpu.received))?;
        writeln!(f, "sum:{} pps:{}", self.received, self.rate_pps)
    }
}

/// What the report of each receiving command begins with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct RxHead {
    /// The device, or several joined by ` and `.
    pub device: String,
    /// Network namespace; `null` without `--netns`.
    pub netns: Option<String>,
    /// `mirror` or `drop`, the last one if it was changed; also `reflect` and, for files, `file`.
    pub mode: &'static str,
    /// How the program was attached, such as `XDP, native` or `TPACKET_V3, 2 rings by CPU`; with
    /// the reason if XDP was not used.
    pub source: String,
    /// Time from attaching to detaching.
    pub duration_ns: u64,
    /// When frames arrived, and at which rate.
    #[serde(flatten)]
    pub active: ActiveRate,
}

impl RxHead {
    /// Writes the first line, for `received` frames. Returns the table below it, with its first
    /// row.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write(&self, f: &mut fmt::Formatter<'_>, received: u64) -> Result<Table, fmt::Error> {
        let device = match &self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.clone(),
        };
        let time = human_duration(self.duration_ns);
        writeln!(f, "{device}: {} received in {time}", quantity_of(received, "frame"))?;
        let mut table = Table::default();
        let rates = self.active.rate_pps.zip(self.active.rate_bps);
        let rates = rates.map(|(pps, bps)| format!("{}, {} without FCS", human_pps(pps), human_bps(bps)));
        let remarks: Vec<_> = rates
            .into_iter()
            .chain(self.active.remark(self.duration_ns))
            .chain(self.active.pause_remark())
            .collect();
        table.count("received", received, &remarks.join("; "));
        Ok(table)
    }

    /// `XDP, native, drop mode, promiscuous`. What follows a semicolon in the source is why another
    /// one was not used, and comes last.
    pub fn source_text(&self, is_promiscuous: bool) -> String {
        let (source, why) = self.source.split_at(self.source.find(';').unwrap_or(self.source.len()));
        let promiscuous = if is_promiscuous { "promiscuous" } else { "not promiscuous" };
        format!("{source}, {} mode, {promiscuous}{why}", self.mode)
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
    fn rows_that_come_late_do_not_add_up() {
        let mut ticker = Ticker::default();
        assert!(!ticker.is_due(Duration::from_millis(999)) && ticker.is_due(PERIOD));
        assert_eq!(ticker.next(PERIOD, 600, cpus(&[10])).rate_pps, 10);
        let half_a_second_late = PERIOD * 2 + PERIOD / 2;
        let row = ticker.next(half_a_second_late, 18_600, cpus(&[310]));
        assert_eq!((row.rate_pps, row.rate_bps), (200, 96_000));
        assert!(!ticker.is_due(half_a_second_late + PERIOD / 3) && ticker.is_due(PERIOD * 3));
    }

    #[test]
    fn counts_that_go_back_are_no_rate() {
        let mut ticker = Ticker::default();
        ticker.next(PERIOD, 600, cpus(&[10]));
        let row = ticker.next(PERIOD * 2, 540, cpus(&[9]));
        assert_eq!((row.rate_pps, row.rate_bps), (0, 0));
        assert_eq!(ticker.next(PERIOD * 2, 540, cpus(&[9])).rate_pps, 0, "no time, no frames");
    }

    #[test]
    fn mgdumps_line_has_each_cpu_the_sum_and_the_rate() {
        let mut ticker = Ticker::default();
        assert_eq!(ticker.next(PERIOD, 0, cpus(&[7, 3])).to_string(), "0:7 1:3 sum:10 pps:10\n");
        let row = ticker.next(PERIOD * 2, 0, cpus(&[207, 3]));
        assert_eq!(row.to_string(), "0:207 1:3 sum:210 pps:200\n");
        assert_eq!(Ticker::default().next(PERIOD, 0, Vec::new()).to_string(), "sum:0 pps:0\n");
    }

    fn json(row: &impl Row) -> String {
        let time = units::utc_time(row.time().time_ns);
        row.json_line().replace(&time, "1970-01-01T00:00:00.000Z")
    }

    #[test]
    fn a_row_is_one_object_of_json() {
        assert_eq!(
            json(&Ticker::default().next(PERIOD, 300, cpus(&[5]))),
            "{\"schema\":\"wirerate.count-second/1\",\"time\":\"1970-01-01T00:00:00.000Z\",\
             \"elapsed_ns\":1000000000,\"received\":5,\"rate_pps\":5,\"received_bytes\":300,\"rate_bps\":2400,\
             \"cpus\":[{\"cpu\":0,\"received\":5}]}\n"
        );
    }

    fn stats(elapsed_ms: u64, received: &[(u32, u64)], lost_nic: Option<u64>) -> Stats {
        let ring = |&(cpu, received): &(u32, u64)| RingStats {
            cpu,
            counts: Counts {
                received,
                received_bytes: received * 60,
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
    fn a_row_of_a_capture_also_has_what_was_lost() {
        let mut ticker = Ticker::default();
        let row = ticker.next_of_capture(&stats(1_000, &[(0, 7), (1, 3), (0, 5)], Some(4)));
        let CaptureRow { received, counts } = row;
        let sum: u64 = received.cpus.iter().map(|cpu| cpu.received).sum();
        assert_eq!((received.received, sum, received.rate_pps, received.rate_bps), (15, 15, 15, 7_200));
        assert_eq!(
            (counts.offered, counts.waiting, counts.frames.written, counts.frames.lost_ring),
            (Some(19), 6, 6, 3)
        );
        let row = ticker.next_of_capture(&stats(2_500, &[(0, 307), (1, 8)], None));
        assert_eq!(row.received.rate_pps, 200);
        let line = json(&row);
        assert!(line.contains("\"lost_nic\":null"), "{line}");
        assert!(line.starts_with("{\"schema\":\"wirerate.capture-second/1\",\"time\":"), "{line}");
    }

    #[test]
    fn one_frame_is_no_frames_and_no_frames_have_no_rate() {
        struct Written(u64);
        impl fmt::Display for Written {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let active = ActiveRate {
                    active_ns: Some(1_000_000_000),
                    rate_pps: Some(1e4),
                    rate_bps: Some(4.8e6),
                    longest_pause_ns: Some(5_000_000),
                };
                let active = if self.0 > 1 { active } else { ActiveRate::default() };
                let head =
                    RxHead { device: "eth0".into(), duration_ns: 2_000_000_000, active, ..RxHead::default() };
                let table = head.write(f, self.0)?;
                write!(f, "{table}")
            }
        }
        assert_eq!(Written(0).to_string(), "eth0: 0 frames received in 2.000 s\n  received  0\n");
        assert_eq!(Written(1).to_string(), "eth0: 1 frame received in 2.000 s\n  received  1\n");
        assert_eq!(
            Written(10_001).to_string(),
            "eth0: 10,001 frames received in 2.000 s\n  \
             received  10,001  10.00 kpps, 4.800 Mbit/s without FCS; active 1.000 s of 2.000 s\n"
        );
    }
}
