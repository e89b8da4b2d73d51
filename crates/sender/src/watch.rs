//! What a run shows while it runs: a progress line on a terminal, or a row per second.
//!
//! Both are made from the same totals as the report.

use super::job::SendJob;
use super::report::wire_bytes;
use super::workers::{SentTotals, StartedRuns};
use facts::{Described, Document, SendErrors};
use program::console::Console;
use program::out::OutError;
use program::row_printer::{NARROW, PERIOD, RATE, Row, RowFormat, RowPrinter, RowTime, WIDE};
use program::term::{LiveLine, REDRAW};
use serde::Serialize;
use std::time::{Duration, Instant};
use units::{human_bps, human_count, human_pps, per_second, quantity_of, time_of_day_ns};

/// What to show.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// A progress line, where standard error is a terminal.
    pub progress: bool,
    /// A row per second on standard output.
    pub rows: Option<RowFormat>,
    /// Where the runs are shown besides.
    pub started: StartedRuns,
    /// Rows are events, also where none is printed.
    pub are_events: bool,
}

impl View {
    /// False if nothing is shown.
    pub fn is_visible(&self, console: &Console) -> bool {
        self.rows.is_some() || self.are_events || (self.progress && console.shows_progress())
    }

    /// As `job` says.
    pub fn of(job: &SendJob, console: &Console) -> Self {
        Self {
            progress: !(job.json || job.quiet),
            rows: (job.every_second || job.csv).then(|| RowFormat::of(job.json, job.csv)),
            started: job.started.clone(),
            are_events: console.events().are_followed() && !job.is_measured,
        }
    }
}

/// A row of `send --every-second`: counts since the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
pub struct SendSecond {
    #[serde(flatten)]
    time: RowTime,
    /// Frames sent since the start.
    #[fact(unit = "frames")]
    sent: u64,
    /// Frames sent per second since the previous object.
    rate_pps: f64,
    /// Bits per second on the wire since the previous object.
    wire_bps: f64,
    /// Frames that the driver did not accept, since the start.
    #[fact(unit = "frames")]
    errors: u64,
    #[serde(flatten)]
    causes: SendErrors,
}

impl Row for SendSecond {
    const DOCUMENT: Document =
        Document::of::<Self>("wirerate.send-second/2", "wirerate send --json --every-second, also replay");
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("sent", WIDE), ("rate_pps", RATE), ("wire_bps", WIDE), ("errors", NARROW)];

    fn time(&self) -> RowTime {
        self.time
    }
}

/// Totals at a moment since the first frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SendSample {
    elapsed: Duration,
    totals: SentTotals,
}

impl SendSample {
    /// Frames per second and bits per second on the wire since `earlier`.
    fn rates_since(&self, earlier: &Self) -> (f64, f64) {
        let passed_ns = self.elapsed.saturating_sub(earlier.elapsed).as_nanos() as u64;
        let wire = |totals: SentTotals| wire_bytes(totals.sent_bytes(), totals.sent);
        let bytes = wire(self.totals).saturating_sub(wire(earlier.totals));
        let frames = self.totals.sent.saturating_sub(earlier.totals.sent);
        (per_second(frames, passed_ns), per_second(bytes * 8, passed_ns))
    }

    fn row(&self, earlier: &Self) -> SendSecond {
        let (rate_pps, wire_bps) = self.rates_since(earlier);
        let time = RowTime { time_ns: time_of_day_ns(), elapsed_ns: self.elapsed.as_nanos() as u64 };
        SendSecond {
            time,
            sent: self.totals.sent,
            rate_pps,
            wire_bps,
            errors: self.totals.errors,
            causes: self.totals.causes,
        }
    }

    /// The text of the progress line; what is at its end may be left out.
    fn line(&self, earlier: &Self) -> String {
        let (rate_pps, wire_bps) = self.rates_since(earlier);
        let [pps, bps] = [human_pps(rate_pps), human_bps(wire_bps)];
        let SentTotals { sent, errors, .. } = self.totals;
        format!("{} sent, {pps}, {}, {bps}", human_count(sent), quantity_of(errors, "error"))
    }
}

/// Shows a run.
#[derive(Debug)]
pub struct Watch {
    progress: LiveLine,
    printer: Option<RowPrinter>,
    /// When the first frames were seen: the time to build an engine does not count.
    first: Option<Instant>,
    /// The last row, or the totals when the first frames were seen.
    row: SendSample,
    has_rows: bool,
    /// The last two updates of the progress line.
    line: [SendSample; 2],
    error: Option<OutError>,
}

impl Watch {
    /// Of a run of `count` frames, 0 for no end.
    pub fn new(console: &Console, view: View, count: u64) -> Self {
        Self {
            progress: console.live_line(view.progress && view.rows.is_none(), count),
            printer: RowPrinter::new(console, view.rows, view.are_events),
            first: None,
            row: SendSample::default(),
            has_rows: false,
            line: [SendSample::default(); 2],
            error: None,
        }
    }

    /// Shows `totals`. False once rows can no longer be printed.
    pub fn see(&mut self, totals: SentTotals, now: Instant) -> bool {
        if let Some(sample) = self.sample(totals, now) {
            if sample.elapsed.as_secs() / PERIOD.as_secs() > self.row.elapsed.as_secs() / PERIOD.as_secs() {
                self.print(sample);
            }
            if self.progress.is_visible() {
                self.redraw(sample);
            }
        }
        self.error.is_none()
    }

    /// Prints a last row with the totals of the report, if they are new. `duration` is that of the
    /// run.
    ///
    /// # Errors
    /// When a row could not be printed.
    pub fn finish(mut self, totals: SentTotals, duration: Duration) -> Result<(), OutError> {
        if !self.has_rows {
            self.row = SendSample::default();
        }
        if !self.has_rows || totals != self.row.totals {
            self.print(SendSample { elapsed: duration.max(self.row.elapsed), totals });
        }
        self.error.map_or(Ok(()), Err)
    }

    fn sample(&mut self, totals: SentTotals, now: Instant) -> Option<SendSample> {
        if totals == SentTotals::default() {
            return None;
        }
        let is_first = self.first.is_none();
        let elapsed = now.duration_since(*self.first.get_or_insert(now));
        let sample = SendSample { elapsed, totals };
        if is_first {
            (self.row, self.line) = (sample, [sample; 2]);
        }
        Some(sample)
    }

    fn print(&mut self, sample: SendSample) {
        let Some(printer) = &mut self.printer else { return };
        self.error = self.error.take().or(printer.print(&sample.row(&self.row)).err());
        (self.row, self.has_rows) = (sample, true);
    }

    fn redraw(&mut self, sample: SendSample) {
        if sample.elapsed >= self.line[1].elapsed + REDRAW {
            self.line = [self.line[1], sample];
            self.progress.show(sample.totals.sent, &sample.line(&self.line[0]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, sent: u64, errors: u64) -> SendSample {
        let frame_bytes = (sent + errors) * 60;
        SendSample {
            elapsed: Duration::from_millis(ms),
            totals: SentTotals { sent, errors, frame_bytes, ..SentTotals::default() },
        }
    }

    #[test]
    fn rates_are_those_since_the_row_before() {
        let row = sample(3000, 5000, 7).row(&sample(2000, 2000, 0));
        assert_eq!((row.sent, row.rate_pps, row.errors), (5000, 3000.0, 7));
        assert_eq!(row.wire_bps, 3000.0 * 84.0 * 8.0);
        assert_eq!(row.time.elapsed_ns, 3_000_000_000);
    }

    #[test]
    fn the_progress_line_has_the_numbers_of_the_row() {
        let line = sample(3000, 5000, 1).line(&sample(2000, 2000, 0));
        assert_eq!(line, "5,000 sent, 3.000 kpps, 1 error, 2.016 Mbit/s");
    }
}
