//! The report of a replay: text or one line of JSON.

use super::control::SpeedChange;
use super::player::FileReport;
use super::verify::VerifyReport;
use crate::edit_args::report::EditReport;
use capture_files::damage::Damages;
use capture_files::flow_statistics::{FlowFacts, FlowStatistics};
use capture_files::flows::flows_remark;
use facts::{Described, Document, SendErrors};
use packet::WIRE_OVERHEAD;
use program::out;
use program::start_at::StartReport;
use replay::Fates;
use sender::report::LinkInterruptions;
use serde::Serialize;
use std::fmt;
use units::{Table, human_bps, human_count, human_duration, human_pps, per_second, quantity_of};

/// The report of a replay.
pub const REPLAY: Document = Document::of::<ReplayReport>("wirerate.replay/2", "wirerate replay --json");

/// Protocols and addresses in the text; JSON has more.
const PROTOCOLS_SHOWN: usize = 5;
const TALKERS_SHOWN: usize = 3;

/// Causes of errors: a full ring, and those of `send`.
const CAUSES: &[&str] = &{
    let mut names = ["ring_full"; SendErrors::NAMES.len() + 1];
    let mut place = 1;
    while place < names.len() {
        names[place] = SendErrors::NAMES[place - 1];
        place += 1;
    }
    names
};

/// Why a replay ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum ReplayEnd {
    /// The files, the count or the duration were over.
    #[default]
    Done,
    /// Stopped by a signal.
    Stopped,
    /// A packet ended it, by `--cut fail` or `--long fail`.
    Packet,
    /// Frames could not be sent any more.
    Failed,
}

/// Frames offered and not accepted, for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct ReplayCause {
    /// The cause.
    #[fact(kind = Kind::Word(CAUSES))]
    pub cause: &'static str,
    /// The number of frames.
    #[fact(unit = "frames")]
    pub count: u64,
}

/// How far frames were from their due times when they were handed to the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct GapErrors {
    /// The median: half of the frames were no later than this upper bound, a power of two.
    pub p50_ns: u64,
    /// The 90th percentile: 9 of 10 were no later than this upper bound, a power of two.
    pub p90_ns: u64,
    /// The 99th percentile: 99 of 100 were no later than this upper bound, a power of two.
    pub p99_ns: u64,
    /// The errors by length: frames with an error below each power of two, and above its half.
    pub histogram: Vec<ErrorOctave>,
}

/// Frames with an error from half of a time up to that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct ErrorOctave {
    /// A power of two.
    pub below_ns: u64,
    /// The number of frames with an error from half of it up to it.
    pub count: u64,
}

impl GapErrors {
    /// From counts of frames by the logarithm of their error; `None` without frames. The quantiles
    /// are upper bounds, powers of two.
    pub fn of(octaves: &[u64]) -> Option<Self> {
        let total: u64 = octaves.iter().sum();
        let quantile = |share: u64| {
            let mut seen = 0;
            let place = octaves.iter().position(|count| {
                seen += count;
                seen * 100 >= total * share
            });
            1u64 << place.unwrap_or(0)
        };
        let named = octaves.iter().enumerate().filter(|(_, count)| **count > 0);
        let histogram =
            named.map(|(place, count)| ErrorOctave { below_ns: 1 << place, count: *count }).collect();
        (total > 0).then(|| Self {
            p50_ns: quantile(50),
            p90_ns: quantile(90),
            p99_ns: quantile(99),
            histogram,
        })
    }
}

/// The whole run.
#[derive(Clone, Debug, Default, Serialize, Described)]
pub struct ReplayReport {
    /// The device.
    pub device: String,
    /// The device of `--other`; `null` without it.
    pub other: Option<String>,
    /// The network namespace; `null` without `--netns`.
    pub netns: Option<String>,
    /// Names of the files.
    pub files: Vec<String>,
    /// True with `--dry-run`: nothing was sent, `sent` frames would be sent.
    pub is_dry_run: bool,
    /// Why it ended. `stopped`: by a signal; `packet`: by `--cut fail` or `--long fail`; `failed`:
    /// frames could not be sent any more.
    pub end: ReplayEnd,
    /// Frames that it was to send at most.
    #[serde(skip)]
    pub asked_count: Option<u64>,
    /// True for a run that only a signal ends.
    #[serde(skip)]
    pub is_endless: bool,
    /// Complete loops over the files.
    pub loops: u64,
    /// Packets read, of all loops.
    #[fact(unit = "packets")]
    pub read: u64,
    /// What became of them; of a dry run, `sent` are the frames that would be sent.
    #[serde(flatten)]
    pub fates: Fates,
    /// The errors by cause.
    pub error_causes: Vec<ReplayCause>,
    /// Times that a frame found a full queue and waited (`skb`, `af_packet`). Not a loss.
    pub retries: u64,
    /// Frames filled up with zeros: packets that the file cuts short.
    #[fact(unit = "frames")]
    pub padded_cut: u64,
    /// Frames filled up with zeros: those below 60 bytes.
    #[fact(unit = "frames")]
    pub padded_short: u64,
    /// Frames beyond one of each packet, which `--long segment` and `--long fragment` make. `read`
    /// and these are the sum of all fates.
    #[fact(unit = "frames")]
    pub segments: u64,
    /// Packets with a time before that of an earlier packet; they did not wait.
    #[fact(unit = "packets")]
    pub backwards: u64,
    /// Frames of `sent` that left by the device of `--other`.
    #[fact(unit = "frames")]
    pub sent_other: u64,
    /// Bytes sent, without FCS.
    pub frame_bytes: u64,
    /// Flows of the frames of the first loop, or of all loops with `--each-loop`.
    #[serde(flatten)]
    pub flow_facts: FlowFacts,
    /// Time from the first frame to the last without pauses; of a dry run the due time of the last.
    pub duration_ns: u64,
    /// The requested start, if there was one.
    #[serde(flatten)]
    pub start: Option<StartReport>,
    /// Frames sent per second.
    pub rate_pps: f64,
    /// Bits sent per second on the wire, with FCS, preamble and gap.
    pub wire_bps: f64,
    /// Pauses by `ctl`, SIGUSR1 or a key.
    pub pauses: u64,
    /// Time of all pauses, which `duration_ns` does not contain.
    pub paused_ns: u64,
    /// Pauses, their ends and other speeds.
    pub changes: Vec<SpeedChange>,
    /// Times that the sender waited for the file.
    pub starved: u64,
    /// With `--keep-going`: how often the link was down, and for how long; `null` if it was not.
    pub interruptions: Option<LinkInterruptions>,
    /// How late frames were handed to the driver; `null` at top speed.
    pub gap_error: Option<GapErrors>,
    /// With `--verify`: frames that arrived, compared with those sent; `null` without.
    pub verify: Option<VerifyReport>,
    /// CPUs that frames were sent from; empty for a dry run.
    pub cpus: Vec<u32>,
    /// The engine: how frames were sent; `null` for a dry run.
    pub engine: Option<&'static str>,
    /// What edits counted.
    #[serde(flatten)]
    pub edits: EditReport,
    /// Damaged places of the files.
    pub damages: Damages,
    /// The packet that ended the run, with `--cut fail` or `--long fail`; `null` otherwise.
    pub stopped_by: Option<String>,
    /// Notes for the user, such as an edit that reached no packet, or times that run backwards.
    pub notes: Vec<String>,
}

impl ReplayReport {
    /// Enters what the files gave, after the fates of the frames and `frame_bytes`.
    #[must_use]
    pub fn with_files(mut self, files: FileReport) -> Self {
        self.fates.merge(&files.fates);
        self.segments = files.next_segments;
        self.read = self.fates.total() - self.segments;
        (self.loops, self.backwards) = (files.loops, files.backwards);
        (self.padded_cut, self.padded_short) = (files.padded_cut, files.padded_short);
        if files.stopped_by.is_some() {
            self.end = ReplayEnd::Packet;
        }
        (self.damages, self.stopped_by, self.edits) = (files.damages, files.stopped_by, files.edits);
        self.notes.extend(files.notes);
        self.rate_pps = per_second(self.fates.sent, self.duration_ns);
        let wire_bytes = self.frame_bytes + self.fates.sent * u64::from(WIRE_OVERHEAD);
        self.wire_bps = per_second(wire_bytes, self.duration_ns) * 8.0;
        self
    }

    /// Enters the flows of the frames: those of all loops, or of one. Behind
    /// [`Self::with_files`].
    #[must_use]
    pub fn with_flows(mut self, flows: FlowStatistics, is_of_all_loops: bool) -> Self {
        self.flow_facts = flows.finish(self.loops, is_of_all_loops, self.duration_ns);
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }

    /// False if the files or the device fell short: exit code 1.
    pub fn is_good(&self) -> bool {
        let is_whole = match self.end {
            ReplayEnd::Done => true,
            ReplayEnd::Stopped => self.is_endless,
            ReplayEnd::Failed | ReplayEnd::Packet => false,
        };
        let is_same = self.verify.as_ref().is_none_or(|verify| verify.counts.is_good());
        is_whole && is_same && !self.fates.fell_short() && self.damages.is_empty()
    }

    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&REPLAY, self)
    }

    fn headline(&self) -> String {
        let place = match &self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.clone(),
        };
        let end = match self.end {
            ReplayEnd::Done => "",
            ReplayEnd::Stopped => match self.asked_count {
                Some(count) => {
                    &format!(", stopped after {} of {}", human_count(self.fates.sent), human_count(count))
                }
                None if self.is_endless => ", stopped",
                None => ", stopped before its end",
            },
            ReplayEnd::Packet => ", ended by a packet",
            ReplayEnd::Failed => ", then it failed",
        };
        let would = if self.is_dry_run { "would send " } else { "" };
        let time = human_duration(self.duration_ns);
        format!("{place}: {would}{} frames in {time}{end}", human_count(self.fates.sent))
    }
}

/// The rows of the flows.
fn add_flow_rows(table: &mut Table, facts: &FlowFacts) {
    let addresses = human_count(facts.addresses);
    let kind = flows_remark(facts.has_more_flows);
    let each = if facts.is_of_one_loop { ", in each loop" } else { "" };
    let remark = format!("{kind}{each}; {:.1} per second, {addresses} addresses", facts.flows_ps);
    table.count("flows", facts.flows, &remark);
    for protocol in facts.protocols.iter().take(PROTOCOLS_SHOWN) {
        let flows = quantity_of(protocol.flows, "flow");
        let frames = quantity_of(protocol.packets, "frame");
        let bytes = human_count(protocol.bytes);
        table.text("protocol", &format!("{}: {flows}, {frames}, {bytes} bytes", protocol.name));
    }
    for talker in facts.top_talkers.iter().take(TALKERS_SHOWN) {
        let (frames, bytes) = (quantity_of(talker.packets, "frame"), human_count(talker.bytes));
        table.text("talker", &format!("{}: {frames}, {bytes} bytes", talker.address));
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline())?;
        let mut table = Table::default();
        let loops = if self.loops == 1 { "1 loop".to_owned() } else { format!("{} loops", self.loops) };
        let files =
            if self.files.len() == 1 { "1 file".to_owned() } else { format!("{} files", self.files.len()) };
        table.count("read", self.read, &format!("packets of {files}, {loops}"));
        let sent_remark = if self.rate_pps > 0.0 { human_pps(self.rate_pps) } else { String::new() };
        table.count("sent", self.fates.sent, &sent_remark);
        if let Some(other) = &self.other {
            table.count("  other", self.sent_other, &format!("by {other}"));
        }
        add_flow_rows(&mut table, &self.flow_facts);
        for (fact, count) in self.fates.left_out.present() {
            table.count(&fact.title(), count, &fact.remark());
        }
        if self.fates.errors > 0 {
            table.loss("errors", self.fates.errors, "");
        }
        for cause in &self.error_causes {
            table.count(&format!("  {}", cause.cause), cause.count, "");
        }
        for (name, count, meaning) in [
            ("retries", self.retries, "times a queue was full and the frame waited"),
            ("padded", self.padded_cut, "packets that the file cuts short, with zeros"),
            ("padded", self.padded_short, "frames shorter than 60 bytes, with zeros"),
            ("segments", self.segments, "frames beyond one of each packet"),
            ("backwards", self.backwards, "packets with a time before an earlier one; they did not wait"),
            ("starved", self.starved, "times the sender waited for the file"),
        ] {
            if count > 0 {
                table.count(name, count, meaning);
            }
        }
        self.edits.add_rows(&mut table);
        if self.pauses > 0 {
            let time = format!("for {}", human_duration(self.paused_ns));
            table.count("pauses", self.pauses, &time);
        }
        if let Some(interruptions) = &self.interruptions {
            table.text("link", &interruptions.to_string());
        }
        self.changes.iter().for_each(|change| table.text("change", &change.to_string()));
        if self.duration_ns > 0 {
            table.text("wire", &format!("{} (with FCS, preamble and gap)", human_bps(self.wire_bps)));
        }
        if let Some(start) = &self.start {
            table.text("start", &start.to_string());
        }
        if let Some(errors) = &self.gap_error {
            let [p50, p90, p99] = [errors.p50_ns, errors.p90_ns, errors.p99_ns].map(human_duration);
            table.text("late by", &format!("p50 < {p50}, p90 < {p90}, p99 < {p99} after the due time"));
        }
        if let Some(verify) = &self.verify {
            verify.add_rows(&mut table);
        }
        if let Some(engine) = self.engine {
            table.text("engine", engine);
        }
        if !self.damages.is_empty() {
            table.count(
                "damaged",
                self.damages.total,
                &format!("places of the files: {}", self.damages.kinds_text()),
            );
        }
        let places = self.damages.lines().into_iter().chain(self.stopped_by.clone());
        places.for_each(|place| table.text("file", &place));
        self.notes.iter().for_each(|note| table.note(note));
        fmt::Display::fmt(&table, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::LeftOutPackets;

    #[test]
    fn packets_read_are_the_sum_of_their_fates() {
        let left_out =
            LeftOutPackets { not_wanted: 1, cut: 2, too_long: 3, after_end: 4, ..LeftOutPackets::default() };
        let fates = Fates { left_out, ..Fates::default() };
        let left_out = LeftOutPackets { after_end: 6, ..LeftOutPackets::default() };
        let frames = Fates { sent: 10, errors: 5, left_out };
        let sent = ReplayReport { fates: frames, ..ReplayReport::default() };
        let report = sent.with_files(FileReport { fates, ..FileReport::default() });
        assert_eq!((report.read, report.fates.left_out.after_end), (31, 10));
        assert!(!report.is_good());
    }

    /// A replay that Ctrl-C ended in the middle of its file had exit code 0.
    #[test]
    fn a_run_that_was_stopped_before_its_end_is_not_good() {
        let report = |is_endless, asked_count| ReplayReport {
            end: ReplayEnd::Stopped,
            is_endless,
            asked_count,
            fates: Fates { sent: 992, ..Fates::default() },
            ..ReplayReport::default()
        };
        for (is_endless, asked_count, end) in [
            (false, None, ", stopped before its end"),
            (true, None, ", stopped"),
            (false, Some(100_000), ", stopped after 992 of 100,000"),
        ] {
            let report = report(is_endless, asked_count);
            assert_eq!(report.is_good(), is_endless);
            assert!(report.headline().ends_with(end), "{}", report.headline());
        }
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let errors = GapErrors::of(&[0, 0, 50, 40, 0, 10]).unwrap();
        assert_eq!((errors.p50_ns, errors.p90_ns, errors.p99_ns), (4, 8, 32));
        assert_eq!(GapErrors::of(&[0; 40]), None);
    }
}
