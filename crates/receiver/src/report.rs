//! The report of `receive`, `measure` and `analyze`: a table, or JSON as `wirerate.measure/1`.

use capture::{ReceiveResult, Reflected};
use capture_files::damage::Damages;
use facts::{Described, Document};
use measure::{
    Figures, FlowFigures, FlowLine, HistogramLog, Latency, Loss, OrderFigures, OtherFrames, UnusualFrames,
};
use program::out;
use program::row_printer::{NARROW, RATE, Row, RowTime, WIDE};
use program::rx_stats::{Cpu, RxHead};
use program::start_at::StartReport;
use serde::Serialize;
use std::fmt;
use units::{Table, human_count, human_duration, quantity_of};

/// n-reordering is shown for n up to this.
const N_SHOWN: usize = 3;
/// Streams in the text; the others are in JSON.
const STREAMS_SHOWN: usize = 16;

/// The report of a receiver that reads signatures.
pub const MEASURE: Document = Document::of::<Report>(
    "wirerate.measure/1",
    "wirerate receive --json, also measure, analyze and reflect",
);

/// The sum of the reports of several directions.
pub const MEASURE_TOTAL: Document = Document::of::<Report>(
    "wirerate.measure-total/1",
    "wirerate measure --json with several directions: the fields of wirerate.measure/1, as sums",
);

/// Everything measured.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct Report {
    /// Device, mode, source, duration and receive rate of the run.
    #[serde(flatten)]
    pub head: RxHead,
    /// The requested start, if there was one.
    #[serde(flatten)]
    pub start: Option<StartReport>,
    /// The loss; `null` without `--sent`.
    pub loss: Option<Loss>,
    /// `measure` only: frames that the driver of the sender did not accept (`errors` and `replaced`
    /// of `wirerate.send/2`): not sent, and not part of `loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[fact(unit = "frames")]
    pub rejected: Option<u64>,
    /// The results.
    #[serde(flatten)]
    pub figures: Figures,
    /// The latencies in nanoseconds in HdrHistogram's compressed format V2, in base64: what its
    /// libraries decode; missing without time stamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
    /// `true` if sender and receiver are one device, so that the latency is that of the way there
    /// and back; else missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_round_trip: bool,
    /// `reflect` only: the frames that went back to their sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reflected: Option<ReflectFigures>,
    /// What only a capture file shows.
    #[serde(flatten)]
    pub capture: Option<CaptureFigures>,
    /// Frames that the receiver lost because the ring of its packet socket was full: a part of
    /// `loss`; `null` of `analyze`.
    #[fact(unit = "frames")]
    pub lost_ring: Option<u64>,
    /// Maximum error of the receiver's offset to UTC, and of that to the clock of a device that
    /// stamps frames.
    pub clock_uncertainty_ns: u64,
    /// One entry for each CPU that received frames.
    pub cpus: Vec<Cpu>,
    /// With `measure -- --streams` only: the streams of the sender.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamFigures>,
    /// Checks of `--expect` that failed.
    pub failed_checks: Vec<String>,
}

/// Figures of `wirerate analyze` beyond those of a receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct CaptureFigures {
    /// `analyze` only: the order of the frames (RFC 4737, RFC 5236).
    pub order: OrderFigures,
    /// `analyze` only: frames that were not measured, as the file lacks bytes of them.
    #[fact(unit = "frames")]
    pub cut: u64,
    /// `analyze` only: frames of any kind that the capture lost, as the files say; `null` if they
    /// do not.
    #[fact(unit = "frames")]
    pub lost_by_capture: Option<u64>,
    /// Of these, those up to the last frame of each flow.
    #[serde(skip)]
    pub lost_of_flows: Option<Vec<u64>>,
    /// `analyze` only: damaged places of the files.
    pub damages: Damages,
}

impl CaptureFigures {
    /// How many of the lost frames the capture and the network lost. The capture may have lost
    /// frames without a signature, too, so the network lost at least the second number.
    fn split(&self, lost: u64) -> Option<(u64, u64)> {
        self.lost_by_capture
            .map(|capture| (capture.min(lost), lost.saturating_sub(capture).saturating_sub(self.cut)))
    }
}

/// Figures of `wirerate reflect` beyond those of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct ReflectFigures {
    /// Frames that were reflected.
    #[fact(unit = "frames")]
    pub frames: u64,
    /// Of these, frames that could not be sent; `null` if unknown.
    #[fact(unit = "frames")]
    pub not_sent: Option<u64>,
    /// Lowest latency from the sender to this host: the delay, and the clock here minus that of the
    /// sender.
    pub forward_min_ns: Option<i64>,
    /// Least and most that the clock here is ahead of the sender's; `null` without `--round-trip`.
    #[fact(kind = Kind::List(&Kind::Integer("ns")))]
    pub clock_ahead_ns: Option<[i64; 2]>,
}

impl ReflectFigures {
    /// The delay of the way here is between 0 and the lowest round trip, so the difference of the
    /// clocks is between that of both latencies and the latency of the way here.
    pub fn new(reflected: Reflected, forward_min_ns: Option<i64>, round_trip_ns: Option<u64>) -> Self {
        let bounds = |(forward_ns, round_trip_ns): (i64, u64)| {
            [forward_ns.saturating_sub_unsigned(round_trip_ns), forward_ns]
        };
        Self {
            frames: reflected.frames,
            not_sent: reflected.not_sent,
            forward_min_ns,
            clock_ahead_ns: forward_min_ns.zip(round_trip_ns).map(bounds),
        }
    }

    fn rows(&self, table: &mut Table) {
        let remark = match self.not_sent {
            None => "sent back; the kernel does not say whether the driver sent all",
            Some(_) => "sent back",
        };
        table.count("reflected", self.frames - self.not_sent.unwrap_or(0), remark);
        if let Some(not_sent) = self.not_sent.filter(|not_sent| *not_sent > 0) {
            table.count("not sent", not_sent, "the driver dropped them, or the peer of a veth device did");
        }
        if let Some(ns) = self.forward_min_ns {
            table.text("forward", &format!("min {}, which has the difference of the clocks", signed(ns)));
        }
        if let Some([least, most]) = self.clock_ahead_ns {
            let text = format!("{} to {} ahead of that of the sender", signed(least), signed(most));
            table.text("this clock", &text);
        }
    }
}

/// A time with its sign.
fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, human_duration(ns.unsigned_abs()))
}

/// The counts of a sender that runs in this process. Each offered frame takes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderCounts {
    /// Different frames that the driver accepted: the copies of `--clone-skb` are one.
    pub numbers: u64,
    /// Frames that the engine tried to send.
    pub offered: u64,
    /// Of these, frames that the driver did not accept.
    pub rejected: u64,
}

/// A stream that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSent {
    /// Its name.
    pub name: String,
    /// Its frames.
    pub sent: u64,
}

/// The results of one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct StreamFigures {
    /// Name of the stream.
    pub name: String,
    /// Frames sent and lost.
    #[serde(flatten)]
    pub loss: Loss,
    /// What arrived.
    #[serde(flatten)]
    pub figures: FlowFigures,
}

impl StreamFigures {
    /// Joins what was sent of a stream with the line of its flow.
    pub fn new(stream: StreamSent, line: &FlowLine, is_sampled: bool) -> Self {
        Self {
            name: stream.name,
            loss: Loss::new(stream.sent, line.unique(), line.too_old.into()),
            figures: FlowFigures::new(line, is_sampled),
        }
    }

    fn text(&self) -> String {
        let Self { name, loss, figures } = self;
        let mut text = format!("{name}: lost {} of {}", human_count(loss.lost_max), human_count(loss.sent));
        for (kind, count) in [("duplicate", figures.duplicate), ("reordered", figures.reordered)] {
            if count > 0 {
                text += &format!(", {kind} {}", human_count(count.into()));
            }
        }
        if let (Some(mean_ns), Some(max_ns)) = (figures.latency_mean_ns, figures.latency_max_ns) {
            text += &format!(", latency mean {}, max {}", human_duration(mean_ns), human_duration(max_ns));
        }
        text
    }
}

impl Report {
    /// The sums of several directions as one line of JSON.
    pub fn total_line(&self) -> String {
        out::json_line(&MEASURE_TOTAL, self)
    }

    /// Of a result. `sent` is how many numbers were sent, if that is known.
    pub fn new(head: RxHead, result: &ReceiveResult, sent: Option<u64>) -> Self {
        let figures = result.figures();
        let is_timed = figures.latency.is_some();
        let cpus = (0..).zip(&result.cpus).map(|(cpu, received)| Cpu { cpu, received: *received });
        Self {
            head,
            start: None,
            loss: sent.map(|sent| Loss::new(sent, figures.unique, figures.too_old)),
            rejected: None,
            figures,
            histogram: is_timed.then(|| HistogramLog::new(&result.histogram).v2_base64()),
            is_round_trip: false,
            reflected: None,
            capture: None,
            lost_ring: Some(result.lost_ring),
            clock_uncertainty_ns: result.clock_uncertainty_ns,
            cpus: cpus.filter(|cpu| cpu.received > 0).collect(),
            streams: Vec::new(),
            failed_checks: Vec::new(),
        }
    }

    /// Joins the counts of the sender.
    pub fn join(&mut self, sender: SenderCounts) {
        let loss = Loss::new(sender.numbers, self.figures.unique, self.figures.too_old);
        self.figures.exclude_unsent(sender.offered - sender.numbers, loss);
        (self.loss, self.rejected) = (Some(loss), Some(sender.rejected));
    }

    /// Why a count is an interval.
    pub fn uncertainty(&self) -> &'static str {
        match &self.capture {
            Some(capture) if capture.cut > 0 => "the file has only the start of some frames",
            _ if self.lost_ring.is_some_and(|lost| lost > 0) => "the receiver itself lost frames",
            _ => "frames arrived too old",
        }
    }

    /// The failure of `--late-is-lost` if no frame has a latency.
    pub fn not_judged(&self, late_is_lost: bool) -> Option<String> {
        let is_unknown = late_is_lost && self.figures.totals.received > 0 && self.figures.late.is_none();
        is_unknown.then(|| "--late-is-lost failed: no frame has a latency".to_owned())
    }

    /// Counts late frames as lost.
    pub fn lose_late(&mut self) {
        self.loss = self.loss.map(|loss| loss.with_late(self.figures.late.unwrap_or(0)));
    }

    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(&MEASURE, self)
    }

    /// False if a sum or a check failed.
    pub fn is_good(&self) -> bool {
        self.figures.broken.is_empty() && self.failed_checks.is_empty()
    }

    /// What the ICMP errors say, and what to do.
    fn icmp_remark(&self) -> String {
        let error = self.figures.totals.icmp_error;
        let advice = match self.is_round_trip {
            true => "start `wirerate reflect` at that host, which sends the frames back",
            false => "that host or router did not take the frames",
        };
        format!("{error}: {advice}")
    }

    fn loss_rows(&self, table: &mut Table) {
        match self.loss {
            Some(loss) => {
                table.count("sent", loss.sent, "");
                if let Some(rejected) = self.rejected.filter(|rejected| *rejected > 0) {
                    table.count("rejected", rejected, "by the driver of the sender: not sent, not lost");
                }
                let mut remark = format!("{:.4} %", loss.ratio() * 100.0);
                if loss.late > 0 {
                    remark += &format!("; {} of them arrived late", human_count(loss.late));
                }
                if loss.lost_min < loss.lost_max {
                    remark += &format!("; at least {}, as {}", loss.lost_min, self.uncertainty());
                }
                table.loss("lost", loss.lost_max, &remark);
                if let Some((capture, network)) = self.capture.as_ref().and_then(|c| c.split(loss.lost_max)) {
                    table.count("  network", network, "lost by the network, or more");
                    table.count("  capture", capture, "lost by the capture, as the files say");
                }
                if loss.excess > 0 {
                    table.count("excess", loss.excess, "more frames than were sent");
                }
            }
            None => {
                let remark = "numbers not seen below the highest one; --sent N gives the loss";
                table.count("missing", self.figures.missing, remark);
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { totals, .. } = &self.figures;
        let mut table = self.head.write(f, totals.received)?;
        let figures = &self.figures;
        let flows = if figures.flows == 1 { "1 flow".to_owned() } else { format!("{} flows", figures.flows) };
        table.count("unique", figures.unique, &flows);
        self.loss_rows(&mut table);
        table.count("duplicate", figures.duplicate, "");
        let held = match figures.held_max {
            0 => String::new(),
            held => format!("held at most {held} frames (RFC 4737)"),
        };
        table.count("reordered", figures.reordered, &held);
        let too_old = match figures.has_wide_window {
            true => "first copy or duplicate: below the window of 960 numbers",
            false if self.capture.is_some() => "first copy or duplicate: below the window of 64 numbers",
            false => "first copy or duplicate: below the window of 64 numbers; try --wide-window",
        };
        if figures.too_old > 0 {
            table.count("too old", figures.too_old, too_old);
        }
        for (fact, count) in totals.present() {
            let remark = match fact.name {
                "icmp_errors" => self.icmp_remark(),
                _ => fact.remark(),
            };
            table.count(&fact.title(), count, &remark);
        }
        let others = [(
            "lost here",
            self.lost_ring.unwrap_or(0),
            "the ring of the packet socket was full; part of lost",
        )];
        others.into_iter().filter(|row| row.1 > 0).for_each(|row| table.count(row.0, row.1, row.2));
        if let Some(reflected) = &self.reflected {
            reflected.rows(&mut table);
        }
        if let Some(capture) = &self.capture {
            capture_rows(&mut table, capture);
        }
        if let Some(latency) = &figures.latency {
            let name = if self.is_round_trip { "round trip" } else { "latency" };
            latency_rows(&mut table, name, latency);
            if self.is_round_trip {
                let half = human_duration(latency.min_ns / 2);
                table.text("one way", &format!("about {half}: half of the lowest round trip"));
            }
            if let Some(late) = figures.late {
                table.count("late", late, "with a latency above the deadline (RFC 2680)");
            }
            match totals.hardware_time {
                0 => {}
                frames if frames == totals.stamped => {
                    table.count("hardware", frames, "latencies end at the time stamp of the device");
                }
                frames => {
                    let remark = "latencies end at the time stamp of the device, the others in the kernel";
                    table.count("hardware", frames, remark);
                }
            }
        }
        if let Some(start) = &self.start {
            table.text("start", &start.to_string());
        }
        for stream in self.streams.iter().take(STREAMS_SHOWN) {
            table.text("stream", &stream.text());
        }
        if let Some(rest) = self.streams.len().checked_sub(STREAMS_SHOWN).filter(|rest| *rest > 0) {
            table.text("", &format!("{} more (--json has all)", quantity_of(rest as u64, "stream")));
        }
        match self.head.mode {
            _ if self.head.source.is_empty() => {}
            _ if self.capture.is_some() => table.text("source", &self.head.source),
            mode => table.text("source", &format!("{}, {mode} mode", self.head.source)),
        }
        figures.broken.iter().for_each(|rule| table.text("wrong sum", rule));
        self.failed_checks.iter().for_each(|check| table.text("failed", check));
        fmt::Display::fmt(&table, f)
    }
}

fn capture_rows(table: &mut Table, capture: &CaptureFigures) {
    let order = &capture.order;
    if let Some(mean) = order.extent_mean {
        table.text("extent", &format!("mean {mean:.1}, max {} places (RFC 4737)", order.extent_max));
        let n_reordered = order.n_reordered.iter().take(N_SHOWN);
        let n_reordered: Vec<_> =
            n_reordered.map(|row| format!("{}: {}", row.value, human_count(row.frames))).collect();
        table.text("n-reordered", &format!("{} frames (RFC 4737; TCP resends at 3)", n_reordered.join(", ")));
        let place =
            |value: i64| order.density.iter().find(|row| row.value == value).map_or(0, |row| row.frames);
        let early: u64 = order.density.iter().filter(|row| row.value < 0).map(|row| row.frames).sum();
        let late = order.unique - early - place(0);
        let [early, late] = [early, late].map(human_count);
        table.text("displaced", &format!("{early} early, {late} late (RFC 5236)"));
    }
    if let Some(lost) = capture.lost_by_capture.filter(|lost| *lost > 0) {
        table.count("not captured", lost, "frames that the capture lost, as the files say");
    }
    if capture.cut > 0 {
        table.count("cut", capture.cut, "not measured: the file does not have all bytes of them");
    }
}

fn latency_rows(table: &mut Table, name: &str, latency: &Latency) {
    let at = |percentile| latency.at(percentile).unwrap_or_default();
    let [min, p50, p99, p999, max] =
        [latency.min_ns, at(50.0), at(99.0), at(99.9), latency.max_ns].map(human_duration);
    table.text(name, &format!("min {min}, p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}"));
    if latency.stamped_share < 1.0 {
        table.count("stamped", latency.stamped, "frames with a latency");
    }
    match latency.pdv_p999_ns {
        Some(ns) => table.text("PDV", &format!("{} (p99.9 - min, RFC 5481)", human_duration(ns))),
        None => table.text("PDV", "not measured: the clocks of sender and receiver differ"),
    }
    if let (Some(min_ns), Some(max_ns)) = (latency.ipdv_min_ns, latency.ipdv_max_ns) {
        table.text("IPDV", &format!("{} to {}", signed(min_ns), signed(max_ns)));
    }
    if let (Some(mean_ns), Some(max_ns)) = (latency.jitter_mean_ns, latency.jitter_max_ns) {
        let [mean, max] = [mean_ns, max_ns].map(|ns| human_duration(ns as u64));
        table.text("jitter", &format!("mean {mean}, max {max} over flows (RFC 3550)"));
    }
}

/// What arrived until now: counts since the start.
#[derive(Clone, Debug, Serialize, Described)]
pub struct Second {
    /// When it was made.
    #[serde(flatten)]
    pub time: RowTime,
    /// Of `measure` only: the receiving device, as in `--rx`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Frames received.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Frames per second since the previous object.
    pub rate_pps: f64,
    /// Numbers below the highest one that did not arrive.
    #[fact(unit = "frames")]
    pub missing: u64,
    /// Further copies of frames.
    #[fact(unit = "frames")]
    pub duplicate: u64,
    /// First copies behind a later frame.
    #[fact(unit = "frames")]
    pub reordered: u64,
    /// Frames too old to decide.
    #[fact(unit = "frames")]
    pub too_old: u64,
    /// Median of the latency since the start; `null` without time stamps.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile of the latency since the start; `null` without time stamps.
    pub latency_p99_ns: Option<u64>,
    /// Frames that were not counted as received.
    #[serde(flatten)]
    pub others: OtherFrames,
    /// Unusual frames.
    #[serde(flatten)]
    pub unusual: UnusualFrames,
}

impl Row for Second {
    const DOCUMENT: Document = Document::of::<Self>(
        "wirerate.measure-second/1",
        "wirerate receive --json --every-second, also measure and reflect",
    );
    const COLUMNS: &'static [(&'static str, usize)] = &[
        ("device", WIDE),
        ("received", WIDE),
        ("rate_pps", RATE),
        ("missing", NARROW),
        ("duplicate", NARROW),
        ("reordered", NARROW),
        ("too_old", NARROW),
        ("latency_p50_ns", NARROW),
        ("latency_p99_ns", NARROW),
    ];

    fn time(&self) -> RowTime {
        self.time
    }
}

/// A report for tests: 1,000 frames of 5 us and 10 of 9 us, 10 lost.
#[cfg(test)]
pub(crate) fn sample() -> Report {
    use measure::{Arrival, Meter, MeterOptions, Signature};

    let mut meter = Meter::new(MeterOptions::default());
    for number in 0..1010u32 {
        let mut frame = [0; 60];
        let signature = Signature { seq_num: number, sec: 1, usec: number, ..Signature::default() };
        signature.emit(&mut frame[42..]);
        let latency_ns = if number < 1000 { 4_000 + u64::from(number) } else { 9_000 };
        let arrival =
            Arrival { time_ns: 1_000_000_000 + u64::from(number) * 1000 + latency_ns, ..Arrival::default() };
        meter.receive(&frame, arrival);
    }
    let figures = Figures::new(meter.options(), meter.lines(), meter.totals(), meter.histogram());
    Report {
        head: RxHead {
            device: "veth1".into(),
            netns: Some("lab".into()),
            mode: "drop",
            source: "XDP, native".into(),
            duration_ns: 1_000_000_000,
            active: program::active_window::ActiveRate {
                active_ns: Some(1_000_000_000),
                rate_pps: Some(1010.0),
                rate_bps: Some(484_800.0),
                longest_pause_ns: Some(5_000_000),
            },
        },
        start: None,
        loss: Some(Loss::new(1020, figures.unique, figures.too_old)),
        rejected: None,
        figures,
        histogram: None,
        is_round_trip: false,
        reflected: None,
        capture: None,
        lost_ring: Some(0),
        clock_uncertainty_ns: 20,
        cpus: vec![Cpu { cpu: 0, received: 1010 }],
        streams: Vec::new(),
        failed_checks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_like_this() {
        assert_eq!(
            sample().to_string(),
            "veth1 in lab: 1,010 frames received in 1.000 s\n  \
             received   1,010  1.010 kpps, 484.8 kbit/s without FCS\n  \
             unique     1,010  1 flow\n  \
             sent       1,020\n  \
             lost          10  0.9804 %\n  \
             duplicate      0\n  \
             reordered      0\n  \
             latency    min 4.000 µs, p50 4.511 µs, p99 5.023 µs, p99.9 9.000 µs, max 9.000 µs\n  \
             PDV        5.000 µs (p99.9 - min, RFC 5481)\n  \
             IPDV       +0 ns to +4.001 µs\n  \
             jitter     mean 140 ns, max 140 ns over flows (RFC 3550)\n  \
             source     XDP, native, drop mode\n"
        );
    }

    #[test]
    fn a_report_is_one_line_of_json() {
        let line = sample().json_line();
        let start =
            "{\"schema\":\"wirerate.measure/1\",\"device\":\"veth1\",\"netns\":\"lab\",\"mode\":\"drop\"";
        assert!(line.starts_with(start), "{line}");
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["loss"]["lost_max"], 10);
        assert_eq!((&object["unique"], &object["received"]), (&1010.into(), &1010.into()));
        assert_eq!(object["latency"]["percentiles"][1]["percentile"], 50.0);
    }

    #[test]
    fn late_frames_are_lost_on_request() {
        let mut report = sample();
        report.figures.late = Some(7);
        let text = report.to_string();
        assert!(text.contains("\n  late           7  with a latency above the deadline"), "{text}");
        assert_eq!(report.loss.map(|loss| loss.lost_max), Some(10));
        report.lose_late();
        assert_eq!(report.loss.map(|loss| (loss.lost_min, loss.lost_max)), Some((17, 17)));
        let text = report.to_string();
        assert!(text.contains("\n  lost          17  1.6667 %; 7 of them arrived late\n"), "{text}");
        assert!(report.json_line().contains("\"late\":7,"), "{}", report.json_line());
    }

    #[test]
    fn loss_without_the_number_of_sent_frames_is_called_missing() {
        let mut report = sample();
        report.loss = None;
        let text = report.to_string();
        assert!(text.contains("missing") && text.contains("--sent N") && !text.contains("lost"), "{text}");
    }

    #[test]
    fn round_trip_and_forward_latency_give_the_difference_of_the_clocks() {
        let mut report = sample();
        let reflected = Reflected { frames: 1010, not_sent: Some(4) };
        report.reflected = Some(ReflectFigures::new(reflected, Some(-6_000_000), Some(10_000)));
        let text = report.to_string();
        for says in
            ["reflected   1,006", "not sent        4", "-6.010 ms to -6.000 ms ahead of that of the sender"]
        {
            assert!(text.contains(says), "{says}: {text}");
        }
        assert!(report.json_line().contains("\"clock_ahead_ns\":[-6010000,-6000000]"));
        report.reflected = Some(ReflectFigures::new(reflected, Some(5), None));
        assert!(!report.to_string().contains("this clock"));
        report.is_round_trip = true;
        assert!(report.to_string().contains("one way     about 2.000 µs"), "{report}");
    }

    #[test]
    fn a_stream_is_a_row() {
        let mut line = FlowLine::default();
        [(0, 4000), (2, 5000), (1, 9000), (1, 9000)].into_iter().for_each(|(number, latency_ns)| {
            line.receive(number, 0, Some(latency_ns));
        });
        let sent = StreamSent { name: "voice".to_owned(), sent: 1005 };
        let stream = StreamFigures::new(sent, &line, false);
        assert_eq!(
            stream.text(),
            "voice: lost 1,002 of 1,005, duplicate 1, reordered 1, latency mean 6.000 µs, max 9.000 µs"
        );
        let report = Report { streams: vec![stream; 18], ..sample() };
        let text = report.to_string();
        assert_eq!(text.matches("voice: lost").count(), STREAMS_SHOWN, "{text}");
        assert!(text.contains("2 streams more (--json has all)"), "{text}");
        let object: serde_json::Value = serde_json::from_str(&report.json_line()).unwrap();
        assert_eq!(
            (&object["streams"][17]["lost_max"], &object["loss"]["lost_max"]),
            (&1002.into(), &10.into())
        );
    }

    /// Numbers of rejected frames counted as missing, although the sender knew of them.
    #[test]
    fn rejected_frames_are_named_and_not_missing() {
        let mut report = sample();
        report.figures.missing = 15;
        report.join(SenderCounts { numbers: 1020, offered: 1026, rejected: 6 });
        assert_eq!((report.figures.missing, report.rejected), (9, Some(6)));
        assert_eq!(report.loss.map(|loss| loss.lost_max), Some(10), "the last one shows no gap");
        let text = report.to_string();
        assert!(text.contains("\n  rejected       6  by the driver of the sender: not sent"), "{text}");
        assert!(report.json_line().contains("\"rejected\":6,"), "{}", report.json_line());
        assert!(report.is_good());
        // Each second number is a copy, and is not in any frame.
        report.figures.missing = 1009;
        report.join(SenderCounts { numbers: 1010, offered: 2020, rejected: 0 });
        assert_eq!((report.figures.missing, report.is_good()), (0, true));
        report.figures.missing = 30;
        report.join(SenderCounts { numbers: 1020, offered: 1026, rejected: 6 });
        assert_eq!(report.figures.broken, ["missing <= lost: 24 and 10"]);
        assert!(!report.is_good());
    }

    #[test]
    fn too_old_frames_make_the_loss_an_interval() {
        let mut report = sample();
        report.loss = Some(Loss::new(1020, 1010, 4));
        let text = report.to_string();
        assert!(text.contains("at least 6, as frames arrived too old"), "{text}");
    }
}
