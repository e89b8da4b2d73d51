//! Figures of the page of results: SVG by charts-rs, each in a light and a dark version.

use anyhow::{Context, Result};
use charts_rs::{AxisScale, Color, HorizontalBarChart, LineChart, Series};

const WIDTH: f32 = 800.0;
/// Of a bar with its share of the space around it, and of everything else.
const BAR_HEIGHT: f32 = 17.0;
const FRAME_HEIGHT: f32 = 110.0;
const LINES_HEIGHT: f32 = 420.0;
/// The font that charts-rs measures by, and those that a reader may have instead.
const FONT: &str = "font-family=\"Roboto\"";
const FONTS: &str = "font-family=\"Roboto, Arial, Helvetica, sans-serif\"";
/// Themes of charts-rs, and the backgrounds of GitHub's pages.
const LOOKS: [(&str, &str); 2] = [("light", "#ffffff"), ("dark", "#0d1117")];
/// Told apart on both, also by those who see few colours (after Okabe and Ito).
const COLORS: [&str; 10] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#999999", "#7f5fc7",
    "#a0522d",
];

/// Names and values.
type Values = Vec<(String, Vec<Option<f32>>)>;

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChartKind {
    /// Bars that lie; the last label is on top.
    Bars,
    /// Lines from label to label, upwards by powers of ten.
    Lines,
}

/// A figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Its kind.
    pub(crate) kind: ChartKind,
    /// Of the file.
    pub(crate) name: &'static str,
    /// Above.
    pub(crate) title: &'static str,
    /// Of each bar or step.
    pub(crate) labels: Vec<String>,
    /// What is drawn.
    pub(crate) values: Values,
}

impl Figure {
    /// What shows it on a page, light or dark as the reader has it.
    pub(crate) fn markdown(&self) -> String {
        let Self { name, title, .. } = self;
        format!(
            "<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"figures/{name}-dark.svg\">\n  \
             <img alt=\"{title}\" src=\"figures/{name}-light.svg\">\n</picture>\n\n"
        )
    }

    /// Names of files and what is in them.
    pub(crate) fn draw(&self) -> Result<Vec<(String, String)>> {
        let draw = |(theme, background): (&str, &str)| {
            let svg = match self.kind {
                ChartKind::Bars => self.bars(theme, background),
                ChartKind::Lines => self.lines(theme, background),
            };
            let svg = svg.with_context(|| format!("cannot draw {}", self.name))?;
            Ok((format!("{}-{theme}.svg", self.name), svg.replace(FONT, FONTS)))
        };
        LOOKS.into_iter().map(draw).collect()
    }

    fn series(&self, label_show: bool) -> Vec<Series> {
        let rounded = |value: &Option<f32>| value.map(|value| (value * 100.0).round() / 100.0);
        let one = |(name, data): &(String, Vec<Option<f32>>)| Series {
            name: name.clone(),
            data: data.iter().map(rounded).collect(),
            label_show,
            ..Series::default()
        };
        self.values.iter().map(one).collect()
    }

    fn bars(&self, theme: &str, background: &str) -> Result<String> {
        let mut chart = HorizontalBarChart::new_with_theme(self.series(true), self.labels.clone(), theme);
        (chart.width, chart.background_color) = (WIDTH, background.into());
        chart.height = FRAME_HEIGHT + BAR_HEIGHT * (self.labels.len() * self.values.len().max(2)) as f32;
        chart.title.text = self.title.to_owned();
        chart.series.colors = COLORS.into_iter().map(Color::from).collect();
        // Space for fonts that are wider than the one it measures by.
        chart.x_axis.name_gap = 20.0;
        (chart.margin.left, chart.margin.right) = (25.0, 45.0);
        Ok(chart.svg()?)
    }

    fn lines(&self, theme: &str, background: &str) -> Result<String> {
        let mut chart = LineChart::new_with_theme(self.series(false), self.labels.clone(), theme);
        (chart.width, chart.height, chart.background_color) = (WIDTH, LINES_HEIGHT, background.into());
        chart.title.text = self.title.to_owned();
        chart.series.colors = COLORS.into_iter().map(Color::from).collect();
        (chart.margin.left, chart.margin.right) = (20.0, 20.0);
        // From power of ten to power of ten, a line of the grid at each.
        let all = self.values.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let (low, high) =
            all.fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = (low.log10().floor(), high.log10().ceil());
        for axis in &mut chart.y_axis_configs {
            axis.scale = AxisScale::Log(10.0);
            (axis.min, axis.max) = (Some(10_f32.powf(low)), Some(10_f32.powf(high)));
            axis.split_number = (high - low).max(1.0) as usize;
        }
        Ok(chart.svg()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_drawn_for_light_and_dark_pages() {
        let values =
            vec![("a".to_owned(), vec![Some(1.25), None]), ("b".to_owned(), vec![Some(2.5), Some(0.5)])];
        let labels = vec!["first".to_owned(), "second".to_owned()];
        for kind in [ChartKind::Bars, ChartKind::Lines] {
            let figure =
                Figure { kind, name: "x", title: "Things", labels: labels.clone(), values: values.clone() };
            let drawn = figure.draw().expect("it can be drawn");
            let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["x-light.svg", "x-dark.svg"]);
            for (_, svg) in &drawn {
                assert!(svg.starts_with("<svg") && svg.contains("second") && svg.contains(FONTS), "{svg}");
            }
            assert_ne!(drawn[0].1, drawn[1].1);
            assert!(figure.markdown().contains("prefers-color-scheme: dark"));
        }
    }
}
