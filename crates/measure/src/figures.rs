//! Results: sums over flows, percentiles, and the checks that every report must pass.

use crate::latency::{HISTOGRAM_LEN, HistogramLog, Latency, PERCENTILES, Percentile};
use crate::line::{FlowLine, LATENCY_NS_MAX};
use crate::loss::Loss;
use crate::meter::MeterOptions;
use crate::totals::{STREAMS_MAX, Totals};
use crate::unwrap::NUMBER_START;
use facts::Described;
use serde::Serialize;
use std::ops::Range;

/// Everything measured in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct Figures {
    /// Counts of frames by kind.
    #[serde(flatten)]
    pub totals: Totals,
    /// Flows with frames.
    pub flows: u64,
    /// First copies.
    #[fact(unit = "frames")]
    pub unique: u64,
    /// Further copies.
    #[fact(unit = "frames")]
    pub duplicate: u64,
    /// First copies with a number below the next expected one (RFC 4737): behind a later one.
    #[fact(unit = "frames")]
    pub reordered: u64,
    /// Most frames with higher numbers that were there before a reordered one.
    #[fact(unit = "frames")]
    pub held_max: u32,
    /// True if the window had [`crate::WIDE_WINDOW_LEN`] numbers.
    #[serde(skip)]
    pub has_wide_window: bool,
    /// Frames too old to decide: below the window, first copies or duplicates.
    #[fact(unit = "frames")]
    pub too_old: u64,
    /// Numbers below the highest one that did not arrive; with `measure` without those of frames
    /// that were not sent, so at most the loss.
    #[fact(unit = "frames")]
    pub missing: u64,
    /// Only with `--deadline`: first copies with a longer latency; with `--late-is-lost` a part of
    /// `loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[fact(unit = "frames")]
    pub late: Option<u64>,
    /// The latency; `null` without time stamps.
    pub latency: Option<Latency>,
    /// Sums that do not agree; empty unless wirerate has a bug or frames were still arriving.
    pub broken: Vec<String>,
}

impl Figures {
    /// Sums up a run. `lines` are the flows of stream 0, then those of stream 1.
    pub fn new(options: &MeterOptions, lines: &[FlowLine], totals: &Totals, histogram: &[u64]) -> Self {
        let used = || lines.iter().filter(|line| !line.is_empty());
        let sum = |count: fn(&FlowLine) -> u64| used().map(count).sum::<u64>();
        let unique = sum(FlowLine::unique);
        let mut figures = Self {
            totals: totals.clone(),
            flows: used().count() as u64,
            unique,
            duplicate: sum(|line| line.duplicate.into()),
            reordered: sum(|line| line.reordered.into()),
            held_max: totals.held_max as u32,
            has_wide_window: options.has_wide_window,
            too_old: sum(|line| line.too_old.into()),
            missing: missing(options, lines, totals),
            late: options.deadline_ns.filter(|_| totals.stamped > 0).map(|_| totals.late),
            latency: latency(options, lines, totals, histogram, unique),
            broken: Vec::new(),
        };
        figures.check(options, lines, histogram);
        figures
    }

    /// Takes numbers that were never sent out of `missing`, as the sender knows them, and compares
    /// the others with the loss. Those beyond the highest received number are taken out as well, so
    /// `missing` is then at most the loss.
    pub fn exclude_unsent(&mut self, unsent: u64, loss: Loss) {
        self.missing = self.missing.saturating_sub(unsent);
        if loss.excess == 0 && self.missing > loss.lost_max {
            self.broken.push(format!("missing <= lost: {} and {}", self.missing, loss.lost_max));
        }
    }

    /// Compares the sums that must agree.
    fn check(&mut self, options: &MeterOptions, lines: &[FlowLine], histogram: &[u64]) {
        let is_sampled = options.stamp_shift > 0;
        let stamped: u64 = lines.iter().map(|line| line.stamped_count(is_sampled)).sum();
        let totals = &self.totals;
        let held: u64 = totals.held.iter().sum();
        let rows = [
            (
                "received = unique + duplicate + too old",
                totals.received,
                self.unique + self.duplicate + self.too_old,
            ),
            ("frames = received + the other frames", totals.frames, totals.received + totals.others.total()),
            ("stamped = sum of the histogram", totals.stamped, histogram.iter().sum()),
            ("stamped = sum over flows", totals.stamped, stamped),
            ("reordered = sum of held", self.reordered, held),
        ];
        let broken = rows.into_iter().filter(|(_, left, right)| left != right);
        self.broken = broken.map(|(rule, left, right)| format!("{rule}: {left} and {right}")).collect();
        if totals.late > totals.stamped {
            self.broken.push(format!("late <= stamped: {} and {}", totals.late, totals.stamped));
        }
        if totals.stamped > self.unique {
            self.broken.push(format!("stamped <= unique: {} and {}", totals.stamped, self.unique));
        }
    }
}

/// Numbers below the highest ones that have not arrived, over all flows.
pub fn missing(options: &MeterOptions, lines: &[FlowLine], totals: &Totals) -> u64 {
    spanned(options, lines, totals).saturating_sub(lines.iter().map(FlowLine::unique).sum())
}

/// Numbers from the first to the highest one, over all flows.
fn spanned(options: &MeterOptions, lines: &[FlowLine], totals: &Totals) -> u64 {
    if totals.with_flow > 0 {
        return lines.iter().map(carried_span).sum();
    }
    stream_spans(options, lines, totals).map(|span| span.end - span.start).sum()
}

/// Numbers of a flow that frames carry, from its first one to the highest one.
fn carried_span(line: &FlowLine) -> u64 {
    line.high.saturating_sub(NUMBER_START)
}

/// The numbers of each stream, from the lowest one to the highest one; empty without frames.
fn stream_spans<'a>(
    options: &MeterOptions,
    lines: &'a [FlowLine],
    totals: &'a Totals,
) -> impl Iterator<Item = Range<u64>> + 'a {
    let flow_count = options.flow_count as usize;
    lines.chunks(flow_count).take(STREAMS_MAX).enumerate().map(move |(stream, lines)| {
        let after = |(flow, line): (usize, &FlowLine)| match line.high {
            0 => 0,
            high => (high - 1) * flow_count as u64 + flow as u64 + 1,
        };
        let end = lines.iter().enumerate().map(after).max().unwrap_or(0);
        totals.lowest(stream).filter(|lowest| *lowest < end).map_or(0..0, |lowest| lowest..end)
    })
}

/// How many of these numbers are of a flow of a stream, whose flows take turns.
fn turns(span: &Range<u64>, flow: u32, flow_count: u32) -> u64 {
    let (flow, flow_count) = (u64::from(flow), u64::from(flow_count));
    let below = |number: u64| (number + flow_count - 1 - flow) / flow_count;
    below(span.end) - below(span.start)
}

fn latency(
    options: &MeterOptions,
    lines: &[FlowLine],
    totals: &Totals,
    histogram: &[u64],
    unique: u64,
) -> Option<Latency> {
    let bounds = lines.iter().filter_map(FlowLine::latency_bounds_ns);
    let (min_ns, max_ns) = bounds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    let log = HistogramLog::new(histogram);
    // Longer ones are only in the histogram.
    let is_bounded = |ns: u64| ns < u64::from(LATENCY_NS_MAX);
    let min_ns = if is_bounded(min_ns) { min_ns } else { log.min_ns() };
    let max_ns = if is_bounded(max_ns) { max_ns } else { log.max_ns() };
    // Latencies below 0 and those of the last bucket have no bucket of their own.
    let is_pdv_known =
        totals.unusual.negative == 0 && histogram.get(HISTOGRAM_LEN - 1).is_none_or(|count| *count == 0);
    let is_sampled = options.stamp_shift > 0;
    let stamped: u64 = lines.iter().map(|line| line.stamped_count(is_sampled)).sum();
    let sum_ns: u128 = lines.iter().map(|line| u128::from(line.latency_sum_ns)).sum();
    let jitters: Vec<f64> = lines.iter().filter_map(FlowLine::jitter_ns).collect();
    let ipdv = totals.ipdv_bounds();
    // A bucket's highest value may lie above the highest latency.
    let at = |percentile| log.percentile_ns(percentile).clamp(min_ns, max_ns);
    Some(Latency {
        stamped,
        stamped_share: stamped as f64 / unique.max(1) as f64,
        min_ns,
        mean_ns: (sum_ns / u128::from(stamped.max(1))) as u64,
        max_ns,
        percentiles: PERCENTILES
            .iter()
            .map(|percentile| Percentile { percentile: *percentile, latency_ns: at(*percentile) })
            .collect(),
        pdv_p999_ns: is_pdv_known.then(|| at(99.9).saturating_sub(min_ns)),
        ipdv_min_ns: ipdv.map(|(min_ns, _)| min_ns),
        ipdv_max_ns: ipdv.map(|(_, max_ns)| max_ns),
        jitter_mean_ns: (!jitters.is_empty()).then(|| jitters.iter().sum::<f64>() / jitters.len() as f64),
        jitter_max_ns: jitters.iter().copied().reduce(f64::max),
    })
}

/// The results of one flow, or of a stream that is one flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
pub struct FlowFigures {
    /// First copies.
    #[fact(unit = "frames")]
    pub unique: u64,
    /// Further copies.
    #[fact(unit = "frames")]
    pub duplicate: u32,
    /// Reordered first copies.
    #[fact(unit = "frames")]
    pub reordered: u32,
    /// Frames too old to decide: below the window.
    #[fact(unit = "frames")]
    pub too_old: u32,
    /// Lowest latency; `null` without time stamps, and above 4.29 s, as a flow keeps 32 bits.
    pub latency_min_ns: Option<u64>,
    /// Mean latency; `null` without time stamps.
    pub latency_mean_ns: Option<u64>,
    /// Highest latency; `null` without time stamps, and above 4.29 s.
    pub latency_max_ns: Option<u64>,
    /// Jitter (RFC 3550); `null` without time stamps.
    pub jitter_ns: Option<f64>,
}

impl FlowFigures {
    /// The results of a line. `is_sampled` is true if not each frame has a time stamp.
    pub fn new(line: &FlowLine, is_sampled: bool) -> Self {
        let bounds = line.latency_bounds_ns();
        let known = |ns: u64| (ns < u64::from(LATENCY_NS_MAX)).then_some(ns);
        Self {
            unique: line.unique(),
            duplicate: line.duplicate,
            reordered: line.reordered,
            too_old: line.too_old,
            latency_min_ns: bounds.and_then(|(min_ns, _)| known(min_ns)),
            latency_mean_ns: line.latency_sum_ns.checked_div(line.stamped_count(is_sampled)),
            latency_max_ns: bounds.and_then(|(_, max_ns)| known(max_ns)),
            jitter_ns: line.jitter_ns(),
        }
    }
}

/// A flow and its results.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
pub struct FlowRow {
    /// Sending thread; 0 if frames carry their flow.
    pub stream: u32,
    /// Flow within it.
    pub flow: u32,
    /// Frames with a signature of this run.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Numbers of the flow, below the highest one, that did not arrive; also those that the driver
    /// of the sender rejected.
    #[fact(unit = "frames")]
    pub missing: u64,
    /// `analyze` only, if the files say what the capture lost: of `missing`, the most that the
    /// capture can have lost; the network lost the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[fact(unit = "frames")]
    pub lost_by_capture: Option<u64>,
    /// Its results.
    #[serde(flatten)]
    pub figures: FlowFigures,
}

/// The flows with frames, and the place of the line of each. Where frames carry their flow, it is
/// the place of the line.
pub fn flow_rows<'a>(
    options: &MeterOptions,
    lines: &'a [FlowLine],
    totals: &'a Totals,
) -> impl Iterator<Item = (usize, FlowRow)> + 'a {
    let (is_sampled, is_carried) = (options.stamp_shift > 0, totals.with_flow > 0);
    let flow_count = options.flow_count;
    let spans: Vec<Range<u64>> = stream_spans(options, lines, totals).collect();
    lines.iter().enumerate().filter(|(_, line)| !line.is_empty()).map(move |(index, line)| {
        let place = index as u32;
        let (stream, flow) = if is_carried { (0, place) } else { (place / flow_count, place % flow_count) };
        let span = match spans.get(stream as usize) {
            _ if is_carried => carried_span(line),
            Some(span) => turns(span, flow, flow_count),
            None => 0,
        };
        let missing = span.saturating_sub(line.unique());
        let (received, figures) = (line.received(), FlowFigures::new(line, is_sampled));
        (index, FlowRow { stream, flow, received, missing, lost_by_capture: None, figures })
    })
}
