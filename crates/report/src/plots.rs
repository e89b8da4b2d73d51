//! The plots of a result file. A plot without data is left out.

use crate::axis::{Axis, Scale, Unit};
use crate::plot::{Plot, PlotMark, Series, steps};
use crate::results::{Results, shape_name};
use crate::units;
use search::record::{BoundsRecord, SearchRecord, SizeRecord, TrafficShape, TrialRecord};
use search::{GoalEnd, LatencyFigures, Verdict};
use std::collections::BTreeSet;

/// Colours of the style sheet, `c0` to `c7`.
const COLOURS: usize = 8;

/// All plots of a file, in the order of the page.
pub(crate) fn of(results: &Results) -> Vec<Plot> {
    let flows = ("Throughput over flows", "number of flows", Scale::Log);
    let threads = ("Throughput over sending threads", "threads", Scale::Linear);
    let first = [
        over_size(results),
        over(results, flows, |shape| shape.flows.take()),
        over(results, threads, |shape| shape.threads.take()),
        loss_over_load(results),
    ];
    let mut plots: Vec<Plot> = first.into_iter().flatten().collect();
    plots.extend(results.searches.iter().filter_map(|search| history(results, search)));
    plots.extend(percentiles(results));
    plots.extend(latency_over_time(results));
    plots
}

fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS)
}

fn series(name: String, class: String, mark: PlotMark, values: Vec<(f64, f64)>) -> Series {
    Series { name, class, mark, values }
}

/// An axis around one coordinate of all series.
fn axis(
    title: &'static str,
    (scale, unit): (Scale, Unit),
    all: &[Series],
    of: fn(&(f64, f64)) -> f64,
) -> Axis {
    Axis::around(title, scale, unit, all.iter().flat_map(|one| &one.values).map(of))
}

fn x(value: &(f64, f64)) -> f64 {
    value.0
}

fn y(value: &(f64, f64)) -> f64 {
    value.1
}

/// Frame rate over frame size, with the line of the medium (RFC 2544 section 26.1).
fn over_size(results: &Results) -> Option<Plot> {
    let tables = results.tables.iter().flat_map(|table| &table.sizes);
    let of_table = |size: &SizeRecord| {
        Some((size.shape.frame_size? as f64, size.throughput_pps? as f64, size.medium_pps))
    };
    let mut points: Vec<_> = tables.filter_map(of_table).collect();
    // Of several numbers of flows or threads, the first.
    let sizeless = |shape: &TrafficShape| TrafficShape { frame_size: None, ..shape.clone() };
    let first = results.searches.first().map(|search| sizeless(&search.shape));
    let alike = results.searches.iter().filter(|search| Some(sizeless(&search.shape)) == first);
    points.extend(alike.filter_map(|search| {
        let lower = search.goals.first()?.lower_pps?;
        Some((search.shape.frame_size? as f64, lower as f64, search.medium_pps))
    }));
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    if points.len() < 2 {
        return None;
    }
    let sizes = (points[0].0, points[points.len() - 1].0);
    let bps = points.iter().find_map(|(size, _, medium)| Some((*medium)? as f64 * (size + GAP_AND_PREAMBLE)));
    let medium = bps.map_or_else(Vec::new, |bytes_per_s| medium_curve(bytes_per_s, sizes));
    let measured = points.iter().map(|(size, rate, _)| (*size, *rate)).collect();
    let all = vec![
        series("medium".to_owned(), "limit".to_owned(), PlotMark::Plain, medium),
        series("throughput".to_owned(), colour(0), PlotMark::Line, measured),
    ];
    Some(Plot {
        title: "Throughput over frame size".to_owned(),
        note: "Sizes with FCS. The dashed curve is the rate of the medium.",
        x: axis("frame size with FCS, bytes", (Scale::Linear, Unit::Count), &all, x),
        y: axis("frames per second", (Scale::Linear, Unit::Count), &all, y),
        series: all,
    })
}

/// Bytes on the wire besides a frame with its FCS.
const GAP_AND_PREAMBLE: f64 = 20.0;
/// Points of the curve of the medium.
const CURVE_POINTS: u32 = 60;

/// Frames per second of a medium with `bytes_per_s` over the sizes: a hyperbola.
fn medium_curve(bytes_per_s: f64, (first, last): (f64, f64)) -> Vec<(f64, f64)> {
    let size = |point: u32| first + (last - first) * f64::from(point) / f64::from(CURVE_POINTS);
    (0..=CURVE_POINTS).map(|point| (size(point), bytes_per_s / (size(point) + GAP_AND_PREAMBLE))).collect()
}

/// Throughput over the number of flows or of sending threads, which `value` takes from a shape: one
/// series for each shape with several numbers.
fn over(
    results: &Results,
    (title, unit, scale): (&str, &'static str, Scale),
    value: fn(&mut TrafficShape) -> Option<u64>,
) -> Option<Plot> {
    let split = |search: &SearchRecord| {
        let mut shape = search.shape.clone();
        let value = value(&mut shape);
        (shape, value)
    };
    let shapes: BTreeSet<TrafficShape> = results.searches.iter().map(|search| split(search).0).collect();
    let mut all = Vec::new();
    for shape in shapes {
        let point = |search: &SearchRecord| {
            let (of_search, value) = split(search);
            let throughput = search.goals.first()?.lower_pps?;
            (of_search == shape).then_some((value? as f64, throughput as f64))
        };
        let mut values: Vec<_> = results.searches.iter().filter_map(point).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        values.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        if values.len() >= 2 {
            all.push(series(shape_name(&shape), colour(all.len()), PlotMark::Line, values));
        }
    }
    (!all.is_empty()).then(|| Plot {
        title: title.to_owned(),
        note: "",
        x: axis(unit, (scale, Unit::Count), &all, x),
        y: axis("frames per second", (Scale::Linear, Unit::Count), &all, y),
        series: all,
    })
}

/// Loss in percent over load in percent (RFC 2544 section 26.3), both axes from 0 to 100.
fn loss_over_load(results: &Results) -> Option<Plot> {
    let sizes = results.tables.iter().flat_map(|table| &table.sizes).filter(|size| !size.loss.is_empty());
    let all: Vec<_> = sizes
        .enumerate()
        .map(|(index, size)| {
            let point =
                |point: &search::LossPoint| (point.share_ppb as f64 / 1e7, point.loss_ppb as f64 / 1e7);
            let values = size.loss.iter().map(point).collect();
            series(shape_name(&size.shape), colour(index), PlotMark::Line, values)
        })
        .collect();
    if all.is_empty() {
        return loss_of_trials(results);
    }
    let whole = |title| Axis { title, scale: Scale::Linear, unit: Unit::Percent, min: 0.0, max: 100.0 };
    Some(Plot {
        title: "Frame loss rate".to_owned(),
        note: "",
        x: whole("load, percent of the medium"),
        y: whole("lost frames, percent"),
        series: all,
    })
}

/// The loss of every counted trial of the searches over its load.
fn loss_of_trials(results: &Results) -> Option<Plot> {
    let mut all = Vec::new();
    for (index, search) in results.searches.iter().enumerate() {
        let counted = results.trials_of(&search.shape).filter(|trial| trial.is_counted);
        let values: Vec<_> =
            counted.map(|trial| (trial.request.load_pps as f64, trial.loss_ppb as f64 / 1e7)).collect();
        if !values.is_empty() {
            all.push(series(shape_name(&search.shape), colour(index), PlotMark::Points, values));
        }
    }
    (!all.is_empty()).then(|| Plot {
        title: "Loss over load".to_owned(),
        note: "Every trial that counted.",
        x: axis("load, frames per second", (Scale::Linear, Unit::Count), &all, x),
        y: axis("lost frames, percent", (Scale::Linear, Unit::Percent), &all, y),
        series: all,
    })
}

/// One of the bounds after a trial.
type BoundOf = fn(&BoundsRecord) -> Option<u64>;
const BOUNDS: [(&str, BoundOf); 2] =
    [("upper bound", |bounds| bounds.upper_pps), ("lower bound", |bounds| bounds.lower_pps)];

/// The trials of a search in order, and the bounds of its goals closing in.
fn history(results: &Results, search: &SearchRecord) -> Option<Plot> {
    // The trials of a search have bounds.
    let trials: Vec<&TrialRecord> =
        results.trials_of(&search.shape).filter(|trial| !trial.bounds.is_empty()).collect();
    if trials.is_empty() {
        return None;
    }
    let of_verdict = |verdict, name: &str, class: &str| {
        let matching = trials.iter().filter(|trial| trial.verdict == verdict);
        let values = matching.map(|trial| (trial.number as f64, trial.request.load_pps as f64)).collect();
        series(name.to_owned(), class.to_owned(), PlotMark::Points, values)
    };
    let mut all = Vec::new();
    for (index, goal) in search.goals.iter().enumerate() {
        let name = units::goal_name(goal.goal.loss_ratio_ppb);
        let bound = |of: BoundOf| {
            let known = trials.iter().filter_map(|trial| {
                Some((trial.number as f64, trial.bounds.get(index).and_then(of)? as f64))
            });
            steps(&known.collect::<Vec<_>>())
        };
        // Apart from the colours of the verdicts.
        let colour = colour([0, 3, 4, 7][index % 4]);
        for (which, of) in BOUNDS {
            all.push(series(format!("{name}: {which}"), colour.clone(), PlotMark::Plain, bound(of)));
        }
    }
    all.push(of_verdict(Verdict::Clean, "clean", "clean"));
    all.push(of_verdict(Verdict::Lossy, "lossy", "lossy"));
    all.push(of_verdict(Verdict::Disturbed, "disturbed", "disturbed"));
    Some(Plot {
        title: format!("Search history: {}", shape_name(&search.shape)),
        note: "Each point is a trial; the lines are the bounds after it. Loads far away are at the edge.",
        x: axis("trial", (Scale::Linear, Unit::Count), &all, x),
        y: around_bounds(search)
            .unwrap_or_else(|| axis("load, frames per second", (Scale::Log, Unit::Count), &all, y)),
        series: all,
    })
}

/// The loads within 4 % of the final bounds: a search begins 2 % apart.
fn around_bounds(search: &SearchRecord) -> Option<Axis> {
    let lower = search.goals.iter().filter_map(|goal| goal.lower_pps).min()?;
    let upper = search.goals.iter().filter_map(|goal| goal.upper_pps).max()?;
    let title = "load, frames per second";
    Some(Axis::between(title, Unit::Count, lower as f64 * 0.96, upper as f64 * 1.04))
}

/// The latency of trials that measured it, the last one for each load.
fn latencies(results: &Results) -> Vec<(&TrialRecord, &LatencyFigures)> {
    let mut found: Vec<(&TrialRecord, &LatencyFigures)> = Vec::new();
    for trial in results.trials.iter().filter(|trial| trial.is_counted) {
        let Some(latency) = &trial.result.latency else { continue };
        let same =
            |one: &TrialRecord| one.request.load_pps == trial.request.load_pps && one.shape == trial.shape;
        found.retain(|(one, _)| !same(one));
        found.push((trial, latency));
    }
    let is_wanted = |trial: &TrialRecord| trial.request.purpose == search::Purpose::Latency;
    if found.iter().any(|(trial, _)| is_wanted(trial)) {
        found.retain(|(trial, _)| is_wanted(trial));
    }
    found.truncate(COLOURS);
    found
}

fn load_name(trial: &TrialRecord) -> String {
    format!("{} at {}", shape_name(&trial.shape), units::pps(trial.request.load_pps))
}

/// Latency over percentile; each further nine has the same width.
fn percentiles(results: &Results) -> Option<Plot> {
    let found = latencies(results);
    let curves = found.iter().filter(|(_, latency)| !latency.curve.is_empty());
    let all: Vec<_> = curves
        .enumerate()
        .map(|(index, (trial, latency))| {
            let values = latency.curve.iter().map(|(ppb, ns)| (*ppb as f64, *ns as f64)).collect();
            series(load_name(trial), colour(index), PlotMark::Line, values)
        })
        .collect();
    (!all.is_empty()).then(|| Plot {
        title: "Latency percentiles".to_owned(),
        note: "One way, of frames with a timestamp.",
        x: axis("percentile", (Scale::Nines, Unit::Percent), &all, x),
        y: axis("latency", (Scale::Log, Unit::Time), &all, y),
        series: all,
    })
}

/// Latency of each second of the trial with the highest load.
fn latency_over_time(results: &Results) -> Option<Plot> {
    let found = latencies(results);
    let with_seconds = found.iter().filter(|(_, latency)| !latency.seconds.is_empty());
    let (trial, latency) = with_seconds.max_by_key(|(trial, _)| trial.request.load_pps)?;
    let line = |name: &str, index: usize, value: fn(&(u64, u64, u64)) -> u64| {
        let values = latency
            .seconds
            .iter()
            .enumerate()
            .map(|(second, figures)| (second as f64 + 1.0, value(figures) as f64));
        series(name.to_owned(), colour(index), PlotMark::Line, values.collect())
    };
    let all = vec![
        line("median", 0, |figures| figures.0),
        line("99 %", 1, |figures| figures.1),
        line("maximum", 2, |figures| figures.2),
    ];
    Some(Plot {
        title: format!("Latency over time: {}", load_name(trial)),
        note: "",
        x: axis("second", (Scale::Linear, Unit::Count), &all, x),
        y: axis("latency", (Scale::Log, Unit::Time), &all, y),
        series: all,
    })
}

/// How a search for a goal ended, in words.
pub(crate) fn end_name(end: GoalEnd) -> &'static str {
    match end {
        GoalEnd::Regular => "regular",
        GoalEnd::MaxLoadReached => "irregular: at least the highest load",
        GoalEnd::BelowMinLoad => "no load passes, not even the lowest",
        GoalEnd::NoLoadPasses => "no load passes: the loss does not depend on the load",
        GoalEnd::Unfinished => "irregular: not finished",
        GoalEnd::LimitedByTester => "irregular: limited by the machine of the tester",
        GoalEnd::Disturbed => "irregular: the tester disturbed every repeat of a trial",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A straight line between 64 and 1,518 bytes is at 7.8 Mpps for 800 bytes.
    #[test]
    fn the_rate_of_the_medium_is_a_hyperbola() {
        let curve = medium_curve(10e9 / 8.0, (64.0, 1518.0));
        for (size, pps) in &curve {
            assert!((pps * (size + 20.0) * 8.0 - 10e9).abs() < 1.0, "{size}: {pps}");
        }
        let near = curve.iter().find(|(size, _)| *size >= 800.0).expect("a point");
        assert!((1.45e6..1.53e6).contains(&near.1), "{near:?}");
        assert_eq!((curve[0].0, curve[curve.len() - 1].0), (64.0, 1518.0));
    }
}
