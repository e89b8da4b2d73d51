//! The report of `wirerate receive`: a table, or JSON as `wirerate.measure/1`.

use crate::cmd::rx_stats::{Cpu, RxHead};
use crate::out;
use crate::rows::{Cell, Row, RowTime};
use crate::units::{Table, human_duration};
use measure::{Figures, Latency, Loss};
use serde::Serialize;
use std::fmt;

/// Name and version of the report as JSON.
const SCHEMA: &str = "wirerate.measure/1";

/// Everything measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// See [`RxHead`].
    #[serde(flatten)]
    pub head: RxHead,
    /// Loss; `null` if the number of sent frames is unknown.
    pub loss: Option<Loss>,
    /// The results.
    #[serde(flatten)]
    pub figures: Figures,
    /// Maximum error of the receiver's wall clock against its monotonic clock.
    pub clock_uncertainty_ns: u64,
    /// Each CPU that received frames.
    pub cpus: Vec<Cpu>,
    /// Checks that failed.
    pub failed_checks: Vec<String>,
}

impl Report {
    /// The report as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(SCHEMA, self)
    }

    /// False if a sum or a check failed.
    pub fn is_good(&self) -> bool {
        self.figures.broken.is_empty() && self.failed_checks.is_empty()
    }

    fn loss_rows(&self, table: &mut Table) {
        match self.loss {
            Some(loss) => {
                table.count("sent", loss.sent, "");
                let ratio = format!("{:.4} %", loss.ratio() * 100.0);
                let remark = match loss.lost_min == loss.lost_max {
                    true => ratio,
                    false => format!("{ratio}; at least {}, as frames arrived too old", loss.lost_min),
                };
                table.count("lost", loss.lost_max, &remark);
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
        let mut table = self.head.write(f, totals.received, totals.frame_bytes)?;
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
        let others = [
            ("too old", figures.too_old, "first copy or duplicate: below the window of 64 numbers"),
            ("stale", totals.stale, "frames of another run"),
            ("damaged", totals.damaged, "impossible values in the signature"),
            ("foreign", totals.foreign, "frames without a signature"),
            ("moved", totals.moves, "frames of a flow on another CPU than before: try --shared-flows"),
        ];
        others.into_iter().filter(|row| row.1 > 0).for_each(|row| table.count(row.0, row.1, row.2));
        if let Some(latency) = &figures.latency {
            latency_rows(&mut table, latency);
            if totals.negative > 0 {
                table.count("negative", totals.negative, "received before sent: the clocks differ");
            }
        }
        table.text("source", &format!("{}, {} mode", self.head.source, self.head.mode));
        figures.broken.iter().for_each(|rule| table.text("wrong sum", rule));
        self.failed_checks.iter().for_each(|check| table.text("failed", check));
        write!(f, "{table}")
    }
}

fn latency_rows(table: &mut Table, latency: &Latency) {
    let at = |percentile| latency.at(percentile).unwrap_or_default();
    let [min, p50, p99, p999, max] =
        [latency.min_ns, at(50.0), at(99.0), at(99.9), latency.max_ns].map(human_duration);
    table.text("latency", &format!("min {min}, p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}"));
    if latency.stamped_share < 1.0 {
        table.count("stamped", latency.stamped, "frames with a latency");
    }
    table.text("PDV", &format!("{} (p99.9 - min, RFC 5481)", human_duration(latency.pdv_p999_ns)));
    if let (Some(min_ns), Some(max_ns)) = (latency.ipdv_min_ns, latency.ipdv_max_ns) {
        let signed =
            |ns: i64| format!("{}{}", if ns < 0 { "-" } else { "+" }, human_duration(ns.unsigned_abs()));
        table.text("IPDV", &format!("{} to {}", signed(min_ns), signed(max_ns)));
    }
    if let (Some(mean_ns), Some(max_ns)) = (latency.jitter_mean_ns, latency.jitter_max_ns) {
        let [mean, max] = [mean_ns, max_ns].map(|ns| human_duration(ns as u64));
        table.text("jitter", &format!("mean {mean}, max {max} over flows (RFC 3550)"));
    }
}

/// What arrived until now.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Second {
    #[serde(flatten)]
    pub(crate) time: RowTime,
    pub(crate) received: u64,
    pub(crate) rate_pps: f64,
    pub(crate) missing: u64,
    pub(crate) duplicate: u64,
    pub(crate) reordered: u64,
    pub(crate) too_old: u64,
    pub(crate) latency_p50_ns: Option<u64>,
    pub(crate) latency_p99_ns: Option<u64>,
}

impl Row for Second {
    fn schema(&self) -> &'static str {
        "wirerate.measure-second/1"
    }

    fn time(&self) -> RowTime {
        self.time
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::count("received", self.received),
            Cell::pps(self.rate_pps),
            Cell::count("missing", self.missing).narrow(),
            Cell::count("duplicate", self.duplicate).narrow(),
            Cell::count("reordered", self.reordered).narrow(),
            Cell::count("too_old", self.too_old).narrow(),
            Cell::maybe("latency_p50_ns", self.latency_p50_ns).narrow(),
            Cell::maybe("latency_p99_ns", self.latency_p99_ns).narrow(),
        ]
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
        },
        loss: Some(Loss::new(1020, figures.unique, figures.too_old)),
        figures,
        clock_uncertainty_ns: 20,
        cpus: vec![Cpu { cpu: 0, received: 1010 }],
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
    fn loss_without_the_number_of_sent_frames_is_called_missing() {
        let mut report = sample();
        report.loss = None;
        let text = report.to_string();
        assert!(text.contains("missing") && text.contains("--sent N") && !text.contains("lost"), "{text}");
    }

    #[test]
    fn too_old_frames_make_the_loss_an_interval() {
        let mut report = sample();
        report.loss = Some(Loss::new(1020, 1010, 4));
        let text = report.to_string();
        assert!(text.contains("at least 6, as frames arrived too old"), "{text}");
    }
}
