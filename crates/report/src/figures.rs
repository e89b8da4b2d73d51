//! The main figures of reports of `send`, `measure` and `replay`, and what several runs say about
//! them.

use crate::human::quantity_of;
use crate::units;
use facts::Described;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;

/// Runs that differ by more than this share of their mean have a warning.
pub const SPREAD_MAX: f64 = 0.05;

/// What the values of a figure are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    /// Frames per second.
    Pps,
    /// Bits per second.
    Bps,
    /// Frames.
    Frames,
    /// Percent.
    Percent,
    /// Nanoseconds.
    Ns,
}

/// A figure of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: FigureUnit,
    /// Its value.
    pub value: f64,
}

/// A figure of several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct FigureSummary {
    /// Name of the figure.
    pub name: &'static str,
    /// Its unit.
    pub unit: FigureUnit,
    /// The value of each run that has it, in order.
    pub runs: Vec<f64>,
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the sample; `null` for one run.
    pub sd: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Largest minus smallest as a share of the mean; `null` for a mean of 0.
    pub spread: Option<f64>,
}

/// A figure with the schemas that have it, and where its value is.
type Row = (&'static str, FigureUnit, &'static [&'static str], fn(&Value) -> Option<f64>);

const SENDERS: &[&str] = &["wirerate.send/", "wirerate.replay/"];
const RECEIVERS: &[&str] = &["wirerate.measure/"];

const ROWS: [Row; 9] = [
    ("sent rate", FigureUnit::Pps, SENDERS, |line| line["rate_pps"].as_f64()),
    ("wire rate", FigureUnit::Bps, SENDERS, |line| line["wire_bps"].as_f64()),
    ("errors", FigureUnit::Frames, SENDERS, |line| line["errors"].as_f64()),
    ("received rate", FigureUnit::Pps, RECEIVERS, |line| line["rate_pps"].as_f64()),
    ("lost", FigureUnit::Percent, RECEIVERS, |line| {
        let loss = &line["loss"];
        let sent = loss["sent"].as_f64().filter(|sent| *sent > 0.0)?;
        Some(loss["lost_max"].as_f64()? * 100.0 / sent)
    }),
    ("reordered", FigureUnit::Frames, RECEIVERS, |line| line["reordered"].as_f64()),
    ("latency p50", FigureUnit::Ns, RECEIVERS, |line| percentile(line, 50.0)),
    ("latency p99", FigureUnit::Ns, RECEIVERS, |line| percentile(line, 99.0)),
    ("latency max", FigureUnit::Ns, RECEIVERS, |line| line["latency"]["max_ns"].as_f64()),
];

fn percentile(line: &Value, wanted: f64) -> Option<f64> {
    let rows = line["latency"]["percentiles"].as_array()?;
    // Rows are in order; the first that is not below has the latency.
    let row = rows.iter().find(|row| row["percentile"].as_f64().is_some_and(|at| at >= wanted))?;
    row["latency_ns"].as_f64()
}

/// The figures of a report line; empty for a line of another schema.
pub fn figures_of(line: &Value) -> Vec<Figure> {
    let schema = line["schema"].as_str().unwrap_or_default();
    let of_schema =
        ROWS.iter().filter(|(_, _, schemas, _)| schemas.iter().any(|one| schema.starts_with(one)));
    of_schema.filter_map(|(name, unit, _, of)| Some(Figure { name, unit: *unit, value: of(line)? })).collect()
}

/// The figures of several runs, in the order of the first run that has each.
pub fn summarize(runs: &[Vec<Figure>]) -> Vec<FigureSummary> {
    let mut summaries: Vec<FigureSummary> = Vec::new();
    for figure in runs.iter().flatten() {
        match summaries.iter_mut().find(|summary| summary.name == figure.name) {
            Some(summary) => summary.runs.push(figure.value),
            None => summaries.push(FigureSummary::new(figure)),
        }
    }
    summaries.iter_mut().for_each(FigureSummary::compute);
    summaries
}

impl FigureSummary {
    fn new(first: &Figure) -> Self {
        let Figure { name, unit, value } = *first;
        Self { name, unit, runs: vec![value], mean: value, sd: None, min: value, max: value, spread: None }
    }

    fn compute(&mut self) {
        let count = self.runs.len() as f64;
        self.mean = self.runs.iter().sum::<f64>() / count;
        let squares: f64 = self.runs.iter().map(|value| (value - self.mean).powi(2)).sum();
        self.sd = (self.runs.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        self.min = self.runs.iter().copied().fold(f64::INFINITY, f64::min);
        self.max = self.runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.spread = (self.mean != 0.0).then(|| (self.max - self.min) / self.mean);
    }

    /// True for a rate whose runs differ so much that their mean says little. The highest latency
    /// and counts of rare events differ always.
    pub fn is_wide(&self) -> bool {
        matches!(self.unit, FigureUnit::Pps | FigureUnit::Bps)
            && self.spread.is_some_and(|spread| spread > SPREAD_MAX)
    }
}

/// A value with its unit.
fn shown(unit: FigureUnit, value: f64) -> String {
    match unit {
        FigureUnit::Pps => units::pps(value.round() as u64),
        FigureUnit::Bps => units::bps(value),
        FigureUnit::Frames => units::short(value),
        FigureUnit::Percent => format!("{} %", units::short(value)),
        FigureUnit::Ns => units::time_ns(value),
    }
}

/// The table of several runs: mean, standard deviation, minimum, maximum.
pub fn runs_table(summaries: &[FigureSummary]) -> String {
    let mut text = format!("{:15}{:>14}{:>14}{:>14}{:>14}\n", "", "mean", "± deviation", "min", "max");
    for summary in summaries {
        let value = |value: f64| shown(summary.unit, value);
        let sd = summary.sd.map_or("-".to_owned(), value);
        let [mean, min, max] = [summary.mean, summary.min, summary.max].map(value);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:15}{mean:>14}{sd:>14}{min:>14}{max:>14}", summary.name);
    }
    text
}

/// The figures of all runs in the text of a file: lines of `send`, `measure` and `replay`, also
/// those of `--runs`. Empty if it has none. A line of `send` that a line of `measure` follows is of
/// the same run.
pub fn figures_in(text: &str) -> Vec<FigureSummary> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let runs: Vec<_> = lines.map(|line| figures_of(&line)).filter(|figures| !figures.is_empty()).collect();
    summarize(&runs)
}

/// The summaries of files, and the comparison of the others with the first.
pub fn text_report(sides: &[NamedRuns]) -> String {
    let mut text = String::new();
    for (name, figures) in sides {
        let runs = figures.iter().map(|figure| figure.runs.len()).max().unwrap_or(0);
        let _ = write!(text, "{name}, {}\n{}", quantity_of(runs as u64, "run"), runs_table(figures));
    }
    text + &comparison(sides)
}

/// One side of a comparison: its name, and the figures of its runs.
pub type NamedRuns = (String, Vec<FigureSummary>);

/// Each figure of the first side beside those of the others, with the ratio of the means. A
/// difference is named only if no run of one side lies within the runs of the other.
pub fn comparison(sides: &[NamedRuns]) -> String {
    let mut text = String::new();
    let Some(((base, figures), others)) = sides.split_first() else { return text };
    for (name, other) in others {
        let _ = writeln!(text, "{name} against {base}");
        for one in figures {
            let Some(two) = other.iter().find(|two| two.name == one.name) else { continue };
            let [first, second] = [one, two].map(|side| shown(side.unit, side.mean));
            let ratio = match one.mean {
                0.0 => "-".to_owned(),
                mean => format!("{:.3}", two.mean / mean),
            };
            let is_apart = two.min > one.max || two.max < one.min;
            let verdict = match (is_apart, two.mean > one.mean) {
                (false, _) => "no difference beyond the spread",
                (true, true) => "more",
                (true, false) => "less",
            };
            let _ = writeln!(text, "  {:15}{first:>14}{second:>14}{ratio:>9}  {verdict}", one.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn send(rate_pps: f64) -> Vec<Figure> {
        figures_of(&json!({"schema": "wirerate.send/2", "rate_pps": rate_pps, "errors": 0}))
    }

    #[test]
    fn runs_have_a_mean_a_deviation_and_a_spread() {
        let summaries = summarize(&[send(900.0), send(1000.0), send(1100.0)]);
        let rate = &summaries[0];
        assert_eq!((rate.name, rate.mean, rate.sd), ("sent rate", 1000.0, Some(100.0)));
        assert_eq!((rate.min, rate.max, rate.spread), (900.0, 1100.0, Some(0.2)));
        assert!(rate.is_wide());
        assert_eq!((summaries[1].name, summaries[1].spread), ("errors", None));
        assert_eq!(shown(FigureUnit::Bps, 16.21), "16.21 bit/s");
        let text = runs_table(&summaries);
        assert!(
            text.contains("sent rate              1 kpps       100 pps       900 pps      1.1 kpps"),
            "{text}"
        );
    }

    #[test]
    fn a_receiver_has_loss_and_latency() {
        let line = json!({
            "schema": "wirerate.measure/1", "rate_pps": null, "reordered": 2,
            "loss": {"sent": 1000, "lost_max": 5},
            "latency": {"max_ns": 900, "percentiles": [
                {"percentile": 50.0, "latency_ns": 300}, {"percentile": 99.2, "latency_ns": 700},
            ]},
        });
        let figures: Vec<_> = figures_of(&line).iter().map(|figure| (figure.name, figure.value)).collect();
        let expected = [
            ("lost", 0.5),
            ("reordered", 2.0),
            ("latency p50", 300.0),
            ("latency p99", 700.0),
            ("latency max", 900.0),
        ];
        assert_eq!(figures, expected);
        assert_eq!(figures_of(&json!({"schema": "wirerate.trial/1", "rate_pps": 1})), []);
    }

    #[test]
    fn only_runs_that_are_apart_differ() {
        let side = |name: &str, rates: &[f64]| {
            let runs: Vec<_> = rates.iter().map(|rate| send(*rate)).collect();
            (name.to_owned(), summarize(&runs))
        };
        let one = side("a", &[900.0, 1000.0]);
        let text = comparison(&[one.clone(), side("b", &[990.0, 1200.0]), side("c", &[1300.0, 1310.0])]);
        assert!(text.contains("b against a\n"), "{text}");
        assert!(text.contains("1.153  no difference beyond the spread"), "{text}");
        assert!(text.contains("1.374  more"), "{text}");
    }
}
