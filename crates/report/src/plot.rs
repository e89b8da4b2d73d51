//! A plot as SVG: axes, grid, lines, steps and points. Colours are classes of the page's style
//! sheet, so that one plot serves light, dark and paper.

use crate::axis::Axis;
use askama::Template;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlotMark {
    /// Points joined by a line.
    Line,
    /// A line without points: a limit or a bound.
    Plain,
    /// Points alone.
    Points,
}

/// Values of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The class of the style sheet, which gives the colour.
    pub(crate) class: String,
    pub(crate) mark: PlotMark,
    pub(crate) values: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) note: &'static str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

struct TickView {
    at: String,
    label: String,
}

struct PointView {
    x: String,
    y: String,
    title: String,
}

struct SeriesView {
    name: String,
    class: String,
    path: Option<String>,
    points: Vec<PointView>,
}

#[derive(Template)]
#[template(path = "plot.html")]
struct PlotView<'a> {
    plot: &'a Plot,
    x_ticks: Vec<TickView>,
    y_ticks: Vec<TickView>,
    series: Vec<SeriesView>,
    frame: [f64; 4],
}

impl Plot {
    /// The `<figure>` of this plot.
    pub(crate) fn html(&self) -> Result<String, askama::Error> {
        let ticks = |axis: &Axis, place: fn(f64) -> f64| {
            let view = |(value, label)| TickView { at: coordinate(place(axis.position(value))), label };
            axis.ticks().into_iter().map(view).collect()
        };
        let series = self.series.iter().filter(|series| !series.values.is_empty());
        PlotView {
            plot: self,
            x_ticks: ticks(&self.x, x_at),
            y_ticks: ticks(&self.y, y_at),
            series: series.map(|series| self.view(series)).collect(),
            frame: [LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM],
        }
        .render()
    }

    fn view(&self, series: &Series) -> SeriesView {
        let points: Vec<PointView> = series
            .values
            .iter()
            .map(|(x, y)| PointView {
                x: coordinate(x_at(self.x.position(*x))),
                y: coordinate(y_at(self.y.position(*y))),
                title: format!("{}: {}, {}", series.name, self.x.label(*x), self.y.label(*y)),
            })
            .collect();
        let path = (series.mark != PlotMark::Points).then(|| {
            let corners: Vec<_> = points.iter().map(|point| format!("{},{}", point.x, point.y)).collect();
            corners.join(" ")
        });
        let points = if series.mark == PlotMark::Plain { Vec::new() } else { points };
        SeriesView { name: series.name.clone(), class: series.class.clone(), path, points }
    }
}

fn x_at(position: f64) -> f64 {
    LEFT + position * (WIDTH - LEFT - RIGHT)
}

fn y_at(position: f64) -> f64 {
    HEIGHT - BOTTOM - position * (HEIGHT - TOP - BOTTOM)
}

/// A tenth of a unit is finer than any screen.
fn coordinate(value: f64) -> String {
    format!("{value:.1}")
}

/// A line that stays at each value until the next one: the corners in between.
pub(crate) fn steps(values: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in values {
        if let Some(&(_, before)) = corners.last() {
            corners.push((x, before));
        }
        corners.push((x, y));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::{Scale, Unit};

    #[test]
    fn values_lie_inside_the_frame_and_names_are_escaped() {
        let values = vec![(0.0, 0.0), (10.0, 5.0)];
        let axis = |title, max| Axis::around(title, Scale::Linear, Unit::Count, [max].into_iter());
        let plot = Plot {
            title: "A <b>".to_owned(),
            note: "",
            x: axis("x", 10.0),
            y: axis("y", 5.0),
            series: vec![Series {
                name: "s & t".to_owned(),
                class: "c0".to_owned(),
                mark: PlotMark::Line,
                values,
            }],
        };
        let html = plot.html().expect("it renders");
        assert!(html.contains("points=\"64.0,254.0 462.0,12.0\""), "{html}");
        assert!(!html.contains("A <b>") && !html.contains("s & t"), "{html}");
    }

    #[test]
    fn steps_keep_a_value_until_the_next() {
        assert_eq!(steps(&[(1.0, 5.0), (2.0, 7.0)]), [(1.0, 5.0), (2.0, 5.0), (2.0, 7.0)]);
    }
}
