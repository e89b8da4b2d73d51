//! What a run of `wirerate send` did: for people as a small table, for programs as `wirerate.send/1`.
//!
//! The structure is filled from the engine's report next door (`run`); here it is only added up and shown.

use crate::out;
use crate::units::{Table, human_bps, human_count, human_duration, human_pps, per_second};
use serde::Serialize;
use std::fmt;

/// Name and version of the report as JSON.
pub const SCHEMA: &str = "wirerate.send/1";

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All frames asked for were offered.
    Count,
    /// Its time was over.
    Duration,
    /// Somebody stopped it.
    Stopped,
    /// The device went away, down, or lost its carrier.
    DeviceGone,
    /// Frames could not be sent any more.
    Failed,
}

/// Frames offered and not sent, for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The cause, one word.
    pub cause: &'static str,
    /// What it means.
    pub meaning: String,
    /// Frames.
    pub count: u64,
}

/// The gaps between the starts of frames in a paced run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// What was asked for, on average.
    pub asked_ns: f64,
    /// The mean.
    pub mean_ns: f64,
    /// Half of the gaps were no longer than this.
    pub p50_ns: u64,
    /// 99 of 100 were no longer than this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All of them, by length.
    pub histogram: Vec<Octave>,
}

/// How far a paced run was behind its schedule, where that was more than 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Late {
    /// Times that it fell behind, by the thread that did most often.
    pub times: u64,
    /// By how much at most.
    pub longest_ns: u64,
    /// Frames sent while it caught up.
    pub frames: u64,
    /// How much of the schedule was never caught up, by the thread with the most.
    pub given_up_ns: u64,
}

/// Gaps from half of a length up to that length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Octave {
    /// The length, a power of two.
    pub below_ns: u64,
    /// How many.
    pub count: u64,
}

/// What one thread did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// The CPU it ran on.
    pub cpu: u32,
    /// Frames it tried to send.
    pub offered: u64,
    /// Frames that the driver accepted.
    pub sent: u64,
    /// Time it sent for, in nanoseconds.
    pub duration_ns: u64,
}

/// The engine that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// Why this one, and why not those before it.
    pub why: Vec<String>,
}

/// The whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The device.
    pub device: String,
    /// Its namespace, where one was named.
    pub netns: Option<String>,
    /// Why it ended.
    pub end: End,
    /// Frames that the engine tried to send; always `sent` + `errors`.
    pub offered: u64,
    /// Frames that the driver accepted.
    pub sent: u64,
    /// Frames that it did not.
    pub errors: u64,
    /// The same by cause, without those of no frames.
    pub error_causes: Vec<Cause>,
    /// Times that a frame found a full queue or ring and was kept, to go out later; no frame is lost by it.
    pub retries: u64,
    /// Time from the first frame to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Frames sent each second.
    pub rate_pps: f64,
    /// Bits sent each second, without FCS.
    pub frame_bps: f64,
    /// Bits sent each second with FCS, preamble and gap.
    pub wire_bps: f64,
    /// Bytes sent, without FCS.
    pub frame_bytes: u64,
    /// Gaps of a paced run.
    pub gaps: Option<Gaps>,
    /// How far it was behind; `None` where it was never more than 10 ms late.
    pub late: Option<Late>,
    /// CPU time used, in CPUs (1.0 is one CPU all the time).
    pub cpus_busy: f64,
    /// The threads.
    pub threads: Vec<Thread>,
    /// The engine and why it was chosen.
    pub engine: Choice,
    /// The seed that repeats this run.
    pub seed: u64,
    /// Things worth knowing about what was asked.
    pub notes: Vec<String>,
}

impl Report {
    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(SCHEMA, self)
    }

    fn headline(&self) -> String {
        let end = match self.end {
            End::Count => "",
            End::Duration => "",
            End::Stopped => ", stopped",
            End::DeviceGone => ", then the device went away",
            End::Failed => ", then it failed",
        };
        let time = human_duration(self.duration_ns);
        format!("{}: {} frames in {time}{end}", self.place(), human_count(self.sent))
    }

    fn place(&self) -> String {
        match &self.netns {
            Some(netns) => format!("{} in {netns}", self.device),
            None => self.device.clone(),
        }
    }

    fn mean_frame_len(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.frame_bytes as f64 / self.sent as f64 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline())?;
        let mut table = Table::default();
        table.count("offered", self.offered, "");
        table.count("sent", self.sent, &human_pps(self.rate_pps));
        table.count("errors", self.errors, "");
        for cause in &self.error_causes {
            table.count(&format!("  {}", cause.cause), cause.count, &cause.meaning);
        }
        if self.retries > 0 {
            table.count("retries", self.retries, "times a queue was full, and the frame waited for room");
        }
        table.text("wire", &format!("{} (with FCS, preamble and gap)", human_bps(self.wire_bps)));
        let frame_len = self.mean_frame_len();
        table.text(
            "frames",
            &format!("{} ({frame_len:.1} bytes each, without FCS)", human_bps(self.frame_bps)),
        );
        if let Some(gaps) = &self.gaps {
            table.text("gaps", &gaps.to_string());
            gaps.shares().iter().for_each(|share| table.text("", share));
        }
        if let Some(late) = &self.late {
            table.text("late", &late.to_string());
        }
        let cpus: Vec<_> = self.threads.iter().map(|thread| thread.cpu.to_string()).collect();
        let s = if cpus.len() == 1 { "" } else { "s" };
        table.text("cpu", &format!("{:.2} busy, sending from CPU{s} {}", self.cpus_busy, cpus.join(", ")));
        if self.threads.len() > 1 {
            for thread in &self.threads {
                let rate = human_pps(per_second(thread.sent, thread.duration_ns));
                table.count(&format!("  CPU {}", thread.cpu), thread.sent, &rate);
            }
        }
        table.text("engine", self.engine.name);
        self.engine.why.iter().for_each(|why| table.text("", why));
        self.notes.iter().for_each(|note| table.text("note", note));
        write!(f, "{table}")
    }
}

/// Octaves with a smaller part of all gaps are not worth a line of their own.
const SHARE_MIN: f64 = 0.001;

impl Gaps {
    /// The octaves that hold most gaps as parts of all, and the rest in a line.
    fn shares(&self) -> Vec<String> {
        let total: u64 = self.histogram.iter().map(|octave| octave.count).sum();
        let share = |count: u64| count as f64 / total.max(1) as f64;
        let (large, small): (Vec<Octave>, Vec<Octave>) =
            self.histogram.iter().partition(|octave| share(octave.count) >= SHARE_MIN);
        let line = |octave: &Octave| {
            let below = format!("below {}", human_duration(octave.below_ns));
            format!("{below:16}  {:5.1} %", share(octave.count) * 100.0)
        };
        let mut lines: Vec<String> = large.iter().map(line).collect();
        let rest: u64 = small.iter().map(|octave| octave.count).sum();
        lines.extend((rest > 0).then(|| format!("{:16}  {:>5}", "others", human_count(rest))));
        lines
    }
}

impl fmt::Display for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |ns: f64| human_duration(ns.round() as u64);
        let [asked, mean] = [self.asked_ns, self.mean_ns].map(ns);
        let [p50, p99, max] = [self.p50_ns, self.p99_ns, self.max_ns].map(human_duration);
        write!(f, "p50 {p50}, p99 {p99}, max {max}, mean {mean} (asked {asked})")
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [longest, given_up] = [self.longest_ns, self.given_up_ns].map(human_duration);
        let frames = human_count(self.frames);
        write!(f, "{frames} frames sent late, up to {longest} behind, {given_up} never caught up")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::golden;

    fn report() -> Report {
        Report {
            device: "veth0".into(),
            netns: None,
            end: End::Count,
            offered: 10_000_000,
            sent: 10_000_000,
            errors: 0,
            error_causes: Vec::new(),
            retries: 0,
            duration_ns: 512_000_000,
            rate_pps: 19_531_250.0,
            frame_bps: 9.375e9,
            wire_bps: 13.125e9,
            frame_bytes: 600_000_000,
            gaps: None,
            late: None,
            cpus_busy: 1.02,
            threads: vec![Thread { cpu: 1, offered: 10_000_000, sent: 10_000_000, duration_ns: 512_000_000 }],
            engine: Choice { name: "xdp", why: vec!["veth with a peer that takes XDP frames".into()] },
            seed: 7,
            notes: Vec::new(),
        }
    }

    fn bad_report() -> Report {
        let thread = |cpu, sent| Thread { cpu, offered: 500_000, sent, duration_ns: 1_000_000_000 };
        let cause = |cause, meaning: &str, count| Cause { cause, meaning: meaning.into(), count };
        Report {
            netns: Some("lab".into()),
            end: End::Stopped,
            offered: 1_000_000,
            sent: 999_000,
            errors: 1_000,
            error_causes: vec![
                cause("ring_full", "the driver's ring had no room", 900),
                cause("refused", "the driver refused them: ENETDOWN", 100),
            ],
            retries: 12_345,
            duration_ns: 1_000_000_000,
            rate_pps: 999_000.0,
            gaps: Some(Gaps {
                asked_ns: 1000.0,
                mean_ns: 1000.4,
                p50_ns: 1_000,
                p99_ns: 1_210,
                max_ns: 33_000,
                histogram: [(1024, 611_000), (2048, 387_000), (4096, 900), (65_536, 98)]
                    .map(|(below_ns, count)| Octave { below_ns, count })
                    .into(),
            }),
            late: Some(Late {
                times: 2,
                longest_ns: 20_000_000_000,
                frames: 2_000_000,
                given_up_ns: 1_500_000_000,
            }),
            threads: vec![thread(0, 500_000), thread(3, 499_000)],
            notes: vec!["IPv6 destinations are drawn at random".into()],
            ..report()
        }
    }

    #[test]
    fn a_report_reads_like_this() {
        golden("report_send.txt", &report().to_string());
        golden("report_send_bad.txt", &bad_report().to_string());
    }

    #[test]
    fn a_report_is_one_line_of_json() {
        golden("report_send.json", &(report().json_line() + &bad_report().json_line()));
    }
}
