//! The page of one run: its counts, curves over time, and tables.

use crate::axis::{Axis, Scale, Unit};
use crate::plot::{Plot, PlotMark, Series};
use askama::Template;

/// What the values of a curve are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveUnit {
    /// Frames per second.
    FramesPerSecond,
    /// Nanoseconds, drawn by powers of ten.
    Time,
    /// Percent, of a scale that ends at 100.
    Percent,
}

/// Values over time.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCurve {
    /// Its name.
    pub name: &'static str,
    /// What it shows, with numbers.
    pub title: String,
    /// Its unit.
    pub unit: CurveUnit,
    /// Seconds since the start, and the value then.
    pub points: Vec<(f64, f64)>,
}

/// Rows of text below a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTable {
    /// Its title.
    pub title: &'static str,
    /// Names of its columns.
    pub header: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// The content of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRun {
    /// Its title.
    pub title: String,
    /// Names and values above all.
    pub facts: Vec<(String, String)>,
    /// Curves.
    pub curves: Vec<RunCurve>,
    /// Tables.
    pub tables: Vec<RunTable>,
    /// The report of the command as text; empty before its end.
    pub text: String,
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage<'a> {
    run: &'a PageRun,
    plots: Vec<String>,
}

/// The page as one HTML file without scripts.
pub fn render_run(run: &PageRun) -> String {
    const ALWAYS: &str = "text is written to a String";
    let plots = run.curves.iter().map(|curve| curve.plot().html().expect(ALWAYS)).collect();
    RunPage { run, plots }.render().expect(ALWAYS)
}

impl RunCurve {
    fn plot(&self) -> Plot {
        let values = || self.points.iter().map(|(_, value)| *value);
        let y = match self.unit {
            CurveUnit::FramesPerSecond => {
                Axis::around("frames per second", Scale::Linear, Unit::Count, values())
            }
            CurveUnit::Time => Axis::around("99th percentile", Scale::Log, Unit::Time, values()),
            CurveUnit::Percent => Axis::between("percent", Unit::Percent, 0.0, 100.0),
        };
        let ends = [self.points.first(), self.points.last()].map(|point| point.map_or(0.0, |point| point.0));
        let series = Series {
            name: self.name.to_owned(),
            class: "c0".to_owned(),
            mark: PlotMark::Plain,
            values: self.points.clone(),
        };
        Plot {
            title: self.title.clone(),
            note: "",
            x: Axis::between("seconds", Unit::Count, ends[0], ends[1]),
            y,
            series: vec![series],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_points_has_a_page() {
        let curve = |unit| RunCurve { name: "lost", title: "lost 0".to_owned(), unit, points: Vec::new() };
        let units = [CurveUnit::FramesPerSecond, CurveUnit::Time, CurveUnit::Percent];
        let run = PageRun {
            title: "wirerate <send>".to_owned(),
            facts: vec![("device".to_owned(), "eth1".to_owned())],
            curves: units.map(curve).into(),
            tables: vec![RunTable {
                title: "flows",
                header: vec!["flow".to_owned()],
                rows: vec![vec!["a&b".to_owned()]],
            }],
            text: String::new(),
        };
        let page = render_run(&run);
        assert!(page.contains("<title>wirerate &#60;send&#62;</title>"), "{page}");
        assert!(page.contains("<td>a&#38;b</td>") && page.contains("<dt>device</dt><dd>eth1</dd>"));
        assert!(!page.contains("NaN") && !page.contains("<pre>"), "{page}");
    }
}
