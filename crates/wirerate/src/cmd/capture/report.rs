//! The report of a capture: a table, or JSON as `wirerate.capture/2`.

use capture::{Counts, OutputCounts, OutputReport, PhcFacts};
use facts::{Described, Document};
use program::out;
use program::rx_stats::RxHead;
use program::start_at::StartReport;
use serde::Serialize;
use std::fmt;
use units::{human_count, human_duration, human_size, quantity_of};

/// The report of `wirerate capture`.
pub const CAPTURE: Document = Document::of::<Report>("wirerate.capture/2", "wirerate capture --json");

/// What became of the frames that one CPU received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct CpuResult {
    /// Number of the CPU.
    pub cpu: u32,
    /// Frames that it received.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Of these, frames lost because its ring was full.
    #[fact(unit = "frames")]
    pub lost_ring: u64,
}

/// One `--write`, and what became of its frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct OutputResult {
    /// The name as typed.
    pub write: String,
    /// The filter of the output; `null` without one.
    pub filter: Option<String>,
    /// Bytes that the output keeps of each frame, as `snaplen` of the capture.
    #[fact(unit = "bytes")]
    pub snaplen: u32,
    /// Bytes that the output keeps behind the last header of each frame, as `header_cut` of the
    /// capture; `null` where frames are not cut there.
    #[fact(unit = "bytes")]
    pub header_cut: Option<u32>,
    /// Counts and files of this output.
    #[serde(flatten)]
    pub end: OutputEnd,
}

/// The counts and files of one output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct OutputEnd {
    /// Frames of this output: not matched, written, cut, lost at the disk, and after the limit.
    #[serde(flatten)]
    pub counts: OutputCounts,
    /// Name of the file, as `file` of the capture: with rotation that of the last complete one.
    pub file: Option<String>,
    /// Size of all files of the output together.
    pub file_bytes: u64,
    /// Number of complete files, as `files` of the capture; `null` where no files follow each
    /// other.
    pub files: Option<u64>,
    /// Of the complete files, those that were removed for later ones.
    pub files_removed: u64,
}

impl From<&OutputReport> for OutputEnd {
    fn from(report: &OutputReport) -> Self {
        let OutputReport { counts, file, file_bytes, files, files_removed } = report.clone();
        Self { counts, file, file_bytes, files, files_removed }
    }
}

impl OutputResult {
    /// `x.pcapng: 1,000 bytes, matching 'udp'`
    fn text(&self) -> String {
        let file = self.end.file.as_ref().unwrap_or(&self.write);
        let mut text = format!("{file}, {}", quantity_of(self.end.file_bytes, "byte"));
        if let Some(count @ 2..) = self.end.files {
            text += &format!(" in {count} files");
        }
        if let Some(filter) = &self.filter {
            text += &format!(", matching '{filter}'");
        }
        if self.end.counts.cut > 0 {
            text += &format!("; {} cut", human_count(self.end.counts.cut));
        }
        if self.end.counts.lost_disk > 0 {
            text += &format!("; {} lost at the disk", human_count(self.end.counts.lost_disk));
        }
        text
    }
}

/// The clock of one device, when last measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct ClockReport {
    /// The device.
    pub device: String,
    /// The clock and its difference to UTC.
    #[serde(flatten)]
    pub facts: PhcFacts,
    /// True if the clock shows TAI.
    pub is_tai: bool,
}

impl fmt::Display for ClockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        let PhcFacts { index, ahead_ns, drift_ppb, uncertainty_ns, steps, failures, .. } = self.facts;
        let tai = if self.is_tai { ", TAI" } else { "" };
        // In whole numbers: a float has too few digits for the nanoseconds of a clock that counts
        // from 1970.
        let (sign, ahead_ns) = (if ahead_ns < 0 { '-' } else { '+' }, ahead_ns.unsigned_abs());
        let (s, ns) = (ahead_ns / 1_000_000_000, ahead_ns % 1_000_000_000);
        write!(
            f,
            "{device} by /dev/ptp{index}: UTC {sign}{s}.{ns:09} s{tai}, {drift_ppb:+} ppb, within {uncertainty_ns} ns"
        )?;
        if steps + failures > 0 {
            write!(f, "; set {steps} times, not readable {failures} times")?;
        }
        Ok(())
    }
}

/// The whole capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Described)]
pub struct Report {
    /// Device, mode, source, duration and receive rate of the capture.
    #[serde(flatten)]
    pub head: RxHead,
    /// The requested start, if there was one.
    #[serde(flatten)]
    pub start: Option<StartReport>,
    /// The filter; `null` without one.
    pub filter: Option<String>,
    /// Frames on the wire: `received` and `lost_nic`; `null` if `lost_nic` is.
    #[fact(unit = "frames")]
    pub offered: Option<u64>,
    /// Where they went: `received` is the sum of `filtered`, `written`, `after_limit`, `not_kept`
    /// and `lost`.
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames received and then lost, in rings or at the disk.
    #[fact(unit = "frames")]
    pub lost: u64,
    /// Frames dropped by the device before they were received; `null` if it does not count them, or
    /// was deleted.
    #[fact(unit = "frames")]
    pub lost_nic: Option<u64>,
    /// Bytes kept of each frame; 0 for whole frames.
    #[fact(unit = "bytes")]
    pub snaplen: u32,
    /// Bytes kept behind the last header of each frame with `--snaplen headers`; else `null`.
    #[fact(unit = "bytes")]
    pub header_cut: Option<u32>,
    /// True if every device was promiscuous.
    pub promiscuous: bool,
    /// Bytes that each ring holds; the smallest, where devices differ.
    pub ring_bytes: u64,
    /// What bounds the memory of all rings, if a ring became smaller by it; else `null`.
    pub ring_bounded_by: Option<&'static str>,
    /// Bytes that it was asked to hold.
    #[serde(skip)]
    pub ring_asked: Option<u64>,
    /// How often a ring of a packet socket became full; `null` for XDP, whose rings only count
    /// frames.
    pub ring_freezes: Option<u64>,
    /// Name of the file, with rotation that of the last complete one; `null` without `--write`.
    pub file: Option<String>,
    /// One entry for each `--write`, in their order. A frame of several outputs counts once in the
    /// counts of the capture: as lost if one of them lost it.
    pub outputs: Vec<OutputResult>,
    /// Names of the files: one for each CPU with `--per-cpu`, for each `--write`, and for each save
    /// with `--keep`; with rotation that of the last complete one.
    pub file_names: Vec<String>,
    /// Size of all files together; 0 without `--write`.
    pub file_bytes: u64,
    /// Number of complete files with rotation, or of saves of `--keep`; `null` without either.
    pub files: Option<u64>,
    /// Of the complete files, those that were removed for later ones; `null` without rotation.
    pub files_removed: Option<u64>,
    /// Triggers of `--keep` that came after `--max-saves`; `null` without `--keep`.
    pub saves_refused: Option<u64>,
    /// Time between the first and the last frame of `--keep` in memory, at the last save or at the
    /// end; `null` without `--keep`.
    pub window_ns: Option<u64>,
    /// Frames written after a later one; `null` with `--unordered`, `--per-cpu` or without a file.
    #[fact(unit = "frames")]
    pub late: Option<u64>,
    /// The largest delay of a frame written after a later one; `null` as for `late`.
    pub late_max_ns: Option<u64>,
    /// Frames written early because their timestamp was in the future: a clock had been set back;
    /// `null` as for `late`.
    #[fact(unit = "frames")]
    pub ahead: Option<u64>,
    /// How often the clock was set back behind what had been written; `null` as for `late`.
    pub clock_set_back: Option<u64>,
    /// Frames with a line of `--print`; `null` without it.
    #[fact(unit = "frames")]
    pub printed: Option<u64>,
    /// Frames without such a line: there were more than `--print-rate` in a second, or the terminal
    /// or pipe did not take the lines; `null` without `--print`.
    #[fact(unit = "frames")]
    pub not_printed: Option<u64>,
    /// Number of rotate commands that failed.
    pub commands_failed: u64,
    /// Frames written with kernel time; together with `hardware_time` they are `written`.
    #[fact(unit = "frames")]
    pub software_time: u64,
    /// Why frames have kernel time although the device stamps them and `--clock` requests it; else
    /// `null`.
    pub hardware_time_refused: Option<String>,
    /// One entry for each device that stamps frames: its clock.
    pub clocks: Vec<ClockReport>,
    /// One entry for each CPU that received frames.
    pub cpus: Vec<CpuResult>,
}

impl Report {
    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&CAPTURE, self)
    }
}

impl Report {
    /// The size of the rings, if it is not what was asked for.
    fn rings_remark(&self) -> Option<String> {
        let size = human_size(self.ring_bytes);
        match (self.ring_bounded_by, self.ring_asked) {
            (Some(bound), _) => Some(format!("{size} each: together they take at most {bound}")),
            (None, Some(asked)) if asked != self.ring_bytes => {
                Some(format!("{size} each; --ring was {}", human_size(asked)))
            }
            _ => None,
        }
    }

    /// Where frames were cut, and what keeps all of them.
    fn cut_remark(&self) -> String {
        match self.snaplen {
            _ if self.outputs.len() > 1 => "cut in each output that has them".to_owned(),
            _ if self.header_cut.is_some() => "cut behind the headers (--snaplen 0 keeps all)".to_owned(),
            0 => "longer than the MTU allows, so cut: merged by GRO or GSO (--snaplen 65535 keeps all)"
                .to_owned(),
            snaplen => format!("cut to {} (--snaplen 0 keeps all)", quantity_of(snaplen.into(), "byte")),
        }
    }
}

/// `1 other file`, of `count` files.
fn others(count: u64) -> String {
    quantity_of(count - 1, "other file")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let mut table = self.head.write(f, counts.received)?;
        match counts.filtered {
            Some(0) => {}
            Some(filtered) => {
                let filter = self.filter.as_ref().map(|filter| format!("'{filter}'"));
                let filter = filter.unwrap_or_else(|| "the filter of any output".to_owned());
                table.count("filtered", filtered, &format!("did not match {filter}"));
            }
            None => table.text("filtered", "unknown: packet sockets do not count them"),
        }
        let file = self.file.as_ref().map_or_else(
            || match self.saves_refused {
                Some(_) => "(no file: nothing triggered)".to_owned(),
                None => "(counted only: no --write)".to_owned(),
            },
            |file| {
                let (bytes, removed) =
                    (quantity_of(self.file_bytes, "byte"), self.files_removed.unwrap_or(0));
                let left = self.files.map(|count| count.saturating_sub(removed).max(1));
                let files = match (left, self.file_names.len()) {
                    (None, 0 | 1) | (Some(1), _) => format!("{file}, {bytes}"),
                    (None, count) => format!("{file} and {}, {bytes}", others(count as u64)),
                    (Some(count), _) => format!("{file} and {}, {bytes}", others(count)),
                };
                match removed {
                    0 => files,
                    _ => format!("{files}; {} removed for later ones", human_count(removed)),
                }
            },
        );
        match &self.outputs[..] {
            several @ [_, _, ..] => {
                let outputs = quantity_of(several.len() as u64, "output");
                let text = format!("each frame in those of {outputs} whose filter it matches");
                table.count("written", counts.written, &text);
                several.iter().for_each(|output| {
                    table.count("  output", output.end.counts.written, &output.text());
                });
            }
            _ => table.count("written", counts.written, &file),
        }
        if counts.cut > 0 {
            let (cut, of) = (human_count(counts.cut), quantity_of(counts.written, "frame"));
            table.text("cut", &format!("{cut} of {of} {}", self.cut_remark()));
        }
        if counts.after_limit > 0 {
            table.count("after limit", counts.after_limit, "received after the limit was reached");
        }
        if let Some(window_ns) = self.window_ns {
            table.count("not kept", counts.not_kept, "left the window of --keep before a trigger");
            table.text("window", &format!("{} at the last save, or at the end", human_duration(window_ns)));
        }
        if let Some(refused @ 1..) = self.saves_refused {
            table.count("refused", refused, "triggers after --max-saves");
        }
        table.loss("lost", self.lost, "");
        match self.lost_nic {
            Some(0) => {}
            Some(lost_nic) => table.count("  nic", lost_nic, "lost by the device; not among the received"),
            None => table.text("  nic", "unknown: the device does not count them"),
        }
        for (name, count, meaning) in [
            ("  ring", counts.lost_ring, "the ring was full: larger --ring or shorter --snaplen"),
            ("  disk", counts.lost_disk, "the file could not be written, or not fast enough"),
        ] {
            if count > 0 {
                table.count(name, count, meaning);
            }
        }
        if let Some(freezes @ 1..) = self.ring_freezes {
            table.count("  freezes", freezes, "how often a ring became full");
        }
        if let (Some(late @ 1..), Some(late_max_ns)) = (self.late, self.late_max_ns) {
            let most = human_duration(late_max_ns);
            table.count("late", late, &format!("written out of order, at most {most} late: longer --window"));
        }
        let (ahead, set_back) = (self.ahead.unwrap_or(0), self.clock_set_back.unwrap_or(0));
        if ahead + set_back > 0 {
            let what =
                format!("how often the clock was set back; {} frames were ahead of it", human_count(ahead));
            table.count("set back", set_back, &what);
        }
        if let Some(not_printed @ 1..) = self.not_printed {
            table.count("not printed", not_printed, "more than --print-rate, or the lines were not taken");
        }
        if self.commands_failed > 0 {
            table.count("commands", self.commands_failed, "rotate commands failed");
        }
        if self.cpus.len() > 1 {
            for CpuResult { cpu, received, lost_ring } in &self.cpus {
                let lost =
                    if *lost_ring == 0 { String::new() } else { format!("{} lost", human_count(*lost_ring)) };
                table.count(&format!("CPU {cpu}"), *received, &lost);
            }
        }
        if let Some(rings) = self.rings_remark() {
            table.text("rings", &rings);
        }
        if !self.clocks.is_empty() {
            table.count("device time", counts.hardware_time, "device timestamps");
            table.count("kernel time", self.software_time, "");
        }
        if let Some(refusal) = &self.hardware_time_refused {
            table.text("no stamps", refusal);
        }
        self.clocks.iter().for_each(|clock| table.text("clock", &clock.to_string()));
        if let Some(start) = &self.start {
            table.text("start", &start.to_string());
        }
        table.text("source", &self.head.source_text(self.promiscuous));
        fmt::Display::fmt(&table, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::golden;

    fn report() -> Report {
        Report {
            head: RxHead {
                device: "veth1".into(),
                netns: None,
                mode: "mirror",
                source: "XDP, native".into(),
                duration_ns: 2_000_000_000,
                active: program::active_window::ActiveRate::of_span(
                    1_000_001,
                    60_000_060,
                    std::time::Duration::from_secs(2),
                ),
            },
            promiscuous: true,
            offered: Some(1_000_000),
            lost_nic: Some(0),
            ring_bytes: 8 << 20,
            late: Some(0),
            late_max_ns: Some(0),
            ahead: Some(0),
            clock_set_back: Some(0),
            counts: Counts {
                received: 1_000_000,
                received_bytes: 60_000_000,
                written: 1_000_000,
                ..Counts::default()
            },
            file: Some("frames.pcapng".into()),
            file_names: vec!["frames.pcapng".into()],
            file_bytes: 96_000_248,
            cpus: vec![CpuResult { cpu: 1, received: 1_000_000, lost_ring: 0 }],
            ..Report::default()
        }
    }

    fn bad_report() -> Report {
        Report {
            head: RxHead {
                netns: Some("lab".into()),
                mode: "drop",
                source: "XDP, generic; native: Operation not supported (os error 95)".into(),
                ..report().head
            },
            filter: Some("udp port 9".into()),
            snaplen: 96,
            promiscuous: false,
            counts: Counts {
                filtered: Some(50_000),
                written: 850_000,
                cut: 849_000,
                after_limit: 90_000,
                lost_ring: 9_000,
                lost_disk: 1_000,
                ..report().counts
            },
            lost: 10_000,
            offered: None,
            lost_nic: None,
            ring_bytes: 2 << 20,
            ring_bounded_by: Some("1/4 of the memory limit of the control group"),
            ring_asked: Some(16 << 20),
            ring_freezes: Some(3),
            files: Some(12),
            files_removed: Some(9),
            late: Some(34),
            late_max_ns: Some(250_000),
            ahead: Some(1_500),
            clock_set_back: Some(1),
            commands_failed: 2,
            cpus: vec![
                CpuResult { cpu: 0, received: 600_000, lost_ring: 9_000 },
                CpuResult { cpu: 1, received: 400_000, lost_ring: 0 },
            ],
            ..report()
        }
    }

    #[test]
    fn several_outputs_have_a_row_each() {
        let output = |file: &str, filter: Option<&str>, written, lost_disk| OutputResult {
            write: file.to_owned(),
            filter: filter.map(str::to_owned),
            end: OutputEnd {
                counts: OutputCounts { written, lost_disk, cut: lost_disk * 2, ..OutputCounts::default() },
                file: Some(file.to_owned()),
                file_bytes: 5_000,
                files: None,
                files_removed: 0,
            },
            ..OutputResult::default()
        };
        let outputs = vec![output("a.pcapng", Some("udp"), 1_200, 0), output("b.pcap", None, 999_990, 10)];
        let counts = Counts { filtered: Some(3), cut: 7, ..report().counts };
        let text = Report { outputs, counts, printed: Some(5), not_printed: Some(9), ..report() }.to_string();
        for row in [
            "filtered             3  did not match the filter of any output",
            "written      1,000,000  each frame in those of 2 outputs whose filter it matches",
            "  output         1,200  a.pcapng, 5,000 bytes, matching 'udp'",
            "  output       999,990  b.pcap, 5,000 bytes; 20 cut; 10 lost at the disk",
            "cut          7 of 1,000,000 frames cut in each output that has them",
            "not printed          9  more than --print-rate",
        ] {
            assert!(text.contains(row), "no {row:?} in:\n{text}");
        }
    }

    #[test]
    fn a_report_reads_like_this() {
        let counted = Report { file: None, file_bytes: 0, ..report() };
        golden("report_capture.txt", &format!("{}\n{counted}\n{}", report(), bad_report()));
    }

    #[test]
    fn a_clock_reads_like_this() {
        let clock = ClockReport {
            device: "eth1".into(),
            facts: PhcFacts {
                ahead_ns: 37_000_000_012,
                drift_ppb: -120,
                uncertainty_ns: 85,
                ..PhcFacts::default()
            },
            is_tai: true,
        };
        assert_eq!(clock.to_string(), "eth1 by /dev/ptp0: UTC +37.000000012 s, TAI, -120 ppb, within 85 ns");
        let facts = PhcFacts { ahead_ns: -5, steps: 2, ..clock.facts };
        let set = ClockReport { facts, is_tai: false, ..clock };
        assert_eq!(
            set.to_string(),
            "eth1 by /dev/ptp0: UTC -0.000000005 s, -120 ppb, within 85 ns; set 2 times, not readable 0 times"
        );
        let counts = Counts { hardware_time: 999_000, ..report().counts };
        let report = Report { counts, software_time: 1_000, clocks: vec![set], ..report() };
        let text = report.to_string();
        assert!(text.contains("  device time    999,000  device timestamps\n"), "{text}");
        assert!(text.contains("  kernel time      1,000\n"), "{text}");
        let why = "XDP does not get the time stamps of eth1: the driver has none for programs";
        let refused = Report { hardware_time_refused: Some(why.into()), ..report };
        let text = refused.to_string();
        assert!(text.contains(&format!("  no stamps    {why}\n")), "{text}");
    }

    #[test]
    fn a_report_is_one_line_of_json() {
        golden("report_capture.json", &(report().json_line() + &bad_report().json_line()));
    }
}
