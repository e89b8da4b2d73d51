//! The page: a section for each file, the comparison, and the lines it was made from.

use crate::compare::{self, ComparisonRow};
use crate::human::quantity_of;
use crate::plots;
use crate::results::{ReportError, ResultFile, Results, shape_name};
use crate::units;
use askama::Template;
use search::record::{Provenance, Rfc2544Record, SearchRecord, SizeRecord, TrialRecord};
use search::{Disturbance, GoalEnd, LatencySummary, Verdict};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: String,
    sections: Vec<PageSection<'a>>,
    comparison: Vec<ComparisonRow>,
    base: &'a str,
}

struct PageSection<'a> {
    name: &'a str,
    text: &'a str,
    provenance: Option<&'a Provenance>,
    searches: Vec<SearchRow>,
    tables: Vec<Vec<SizeRow>>,
    latency: Vec<LatencyRow>,
    plots: Vec<String>,
    disturbed: Vec<DisturbedRow>,
}

/// The result for one goal.
struct SearchRow {
    shape: String,
    goal: String,
    throughput: String,
    upper: String,
    conditional: String,
    end: &'static str,
    method: &'static str,
    trials: String,
    time: String,
}

/// RFC 2544 for one frame size.
struct SizeRow {
    shape: String,
    medium: String,
    throughput: String,
    share: String,
    burst: String,
    buffer: String,
    recovery: String,
}

struct LatencyRow {
    shape: String,
    load: String,
    mean: String,
    typical: String,
    worst_case: String,
    variation: String,
    range: String,
}

struct DisturbedRow {
    number: u64,
    shape: String,
    load: String,
    loss: String,
    not_sent: String,
    causes: String,
    is_counted: bool,
}

/// The HTML page for one or more result files. With several, the others are compared with the
/// first.
///
/// # Errors
/// When a file has a line that is none, or no result.
pub fn render(files: &[ResultFile]) -> Result<String, ReportError> {
    let results: Vec<Results> = files.iter().map(Results::read).collect::<Result<_, _>>()?;
    let sections: Vec<PageSection> = results.iter().map(section).collect::<Result<_, _>>()?;
    let title = results.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let base = results.first().map_or("", |first| first.name.as_str());
    Ok(Page { title, sections, comparison: compare::rows(&results), base }.render()?)
}

fn section(results: &Results) -> Result<PageSection<'_>, ReportError> {
    let of_search = results.searches.first().map(|search| &search.provenance);
    let of_table = results.tables.first().map(|table| &table.provenance);
    let sizes = results.tables.iter().flat_map(|table| &table.sizes);
    let disturbed = results.trials.iter().filter(|trial| trial.verdict == Verdict::Disturbed);
    Ok(PageSection {
        name: &results.name,
        text: &results.text,
        provenance: of_table.or(of_search),
        searches: results.searches.iter().flat_map(search_rows).collect(),
        tables: results
            .tables
            .iter()
            .map(|table: &Rfc2544Record| table.sizes.iter().map(size_row).collect())
            .collect(),
        latency: sizes.flat_map(|size| size.latency.iter().map(|row| latency_row(size, row))).collect(),
        plots: plots::of(results).iter().map(crate::plot::Plot::html).collect::<Result<_, _>>()?,
        disturbed: disturbed.map(disturbed_row).collect(),
    })
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".to_owned())
}

fn search_rows(search: &SearchRecord) -> impl Iterator<Item = SearchRow> {
    search.goals.iter().map(|goal| SearchRow {
        shape: shape_name(&search.shape),
        goal: units::goal_name(goal.goal.loss_ratio_ppb),
        throughput: or_dash(goal.lower_pps.map(|pps| at_least(Some(goal.end), pps, goal.upper_pps))),
        upper: or_dash(goal.upper_pps.map(units::pps)),
        conditional: or_dash(goal.conditional_pps.map(units::pps)),
        end: plots::end_name(goal.end),
        method: search.method.name(),
        trials: match search.disturbed {
            0 => search.trials.to_string(),
            disturbed => format!("{} ({disturbed} disturbed)", search.trials),
        },
        time: units::time_ns(search.elapsed_ns as f64),
    })
}

/// `>= 8.72 kpps` where nothing above it was decided.
fn at_least(end: Option<GoalEnd>, pps: u64, upper_pps: Option<u64>) -> String {
    let is_at_least = end.is_some_and(|end| end.is_at_least(upper_pps));
    format!("{}{}", if is_at_least { ">= " } else { "" }, units::pps(pps))
}

/// The throughput with its spread, and the trials that found it.
fn throughput(size: &SizeRecord) -> String {
    let Some(pps) = size.throughput_pps else {
        let has_no_load = size.throughput_end.is_some_and(GoalEnd::has_no_load);
        return or_dash(has_no_load.then(|| "no load passes".to_owned()));
    };
    let mut text = at_least(size.throughput_end, pps, size.throughput_upper_pps);
    if let Some(upper) = size.throughput_upper_pps {
        text += &format!(" to {}", units::pps(upper));
    }
    if size.throughput_trials > 0 {
        text += &format!(" ({})", quantity_of(size.throughput_trials, "trial"));
    }
    match &size.limited_by {
        Some(cause) => format!("{text}, limited by the tester: {cause}"),
        None => text,
    }
}

fn size_row(size: &SizeRecord) -> SizeRow {
    let share =
        || Some(100.0 * size.throughput_pps? as f64 / size.medium_pps.filter(|rate| *rate > 0)? as f64);
    SizeRow {
        shape: shape_name(&size.shape),
        medium: or_dash(size.medium_pps.map(units::pps)),
        throughput: throughput(size),
        share: or_dash(share().map(|share| format!("{} %", units::short(share)))),
        burst: or_dash(size.back_to_back.map(|burst| {
            format!(
                "{} ± {} frames ({})",
                burst.mean_frames,
                burst.sd_frames,
                quantity_of(burst.tests.into(), "test")
            )
        })),
        buffer: or_dash(size.back_to_back.map(|burst| units::time_ns(burst.corrected_buffer_ns as f64))),
        recovery: or_dash(size.recovery.map(|recovery| {
            let least = if recovery.unrecovered > 0 { "at least " } else { "" };
            let [mean, min, max] =
                [recovery.mean_ns, recovery.min_ns, recovery.max_ns].map(|ns| units::time_ns(ns as f64));
            format!("{least}{mean} ({min} to {max}, {})", quantity_of(recovery.tests.into(), "test"))
        })),
    }
}

fn latency_row(size: &SizeRecord, row: &LatencySummary) -> LatencyRow {
    let time = |ns: u64| units::time_ns(ns as f64);
    LatencyRow {
        shape: shape_name(&size.shape),
        load: format!("{} % ({})", row.percent, units::pps(row.load_pps)),
        mean: time(row.mean_ns),
        typical: time(row.typical_ns),
        worst_case: time(row.worst_case_ns),
        variation: time(row.variation_ns),
        range: format!(
            "{} to {} ({})",
            time(row.min_ns),
            time(row.max_ns),
            quantity_of(row.trials.into(), "trial")
        ),
    }
}

fn disturbed_row(trial: &TrialRecord) -> DisturbedRow {
    let causes: Vec<_> = trial.disturbances.iter().map(|cause| cause_name(*cause)).collect();
    DisturbedRow {
        number: trial.number,
        shape: shape_name(&trial.shape),
        load: units::pps(trial.request.load_pps),
        loss: units::percent(trial.lost_ppb),
        not_sent: trial.not_sent.to_string(),
        causes: match trial.result.causes.as_slice() {
            [] => causes.join(", "),
            named => format!("{}: {}", causes.join(", "), named.join(", ")),
        },
        is_counted: trial.is_counted,
    }
}

fn cause_name(cause: Disturbance) -> &'static str {
    match cause {
        Disturbance::Gap => "the sender paused",
        Disturbance::Behind => "the sender did not send all frames in time",
        Disturbance::CatchUp => "the sender had to catch up",
        Disturbance::LateStart => "the first frame was late",
        Disturbance::Refused => "the driver did not accept all frames",
        Disturbance::Steal => "the hypervisor took CPU time",
        Disturbance::ReceiverDropped => "the tester's receiver dropped frames",
    }
}
