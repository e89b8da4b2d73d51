//! What a search prints: a line per trial, and the bounds at its end.

use search::record::{ConnectionsShape, SearchRecord, TrafficShape};
use search::{BILLION, GoalEnd, GoalResult, LoggedTrial, Method, Verdict};
use std::fmt::Write;
use units::{human_count, human_duration, human_pps, quantity_of};

/// A load with its unit.
fn load_text(shape: &TrafficShape, load: u64) -> String {
    match shape.connections {
        None => human_pps(load as f64),
        Some(ConnectionsShape::Rate) => format!("{} cps", human_count(load)),
        Some(ConnectionsShape::Held) => format!("{} held", human_count(load)),
    }
}

fn bound(shape: &TrafficShape, load: Option<u64>) -> String {
    load.map_or("unknown".to_owned(), |load| load_text(shape, load))
}

/// The lower bound, with `>=` where nothing above it was decided.
fn bound_or_more(shape: &TrafficShape, goal: &GoalResult) -> String {
    match goal.lower_pps {
        Some(_) if goal.end.is_at_least(goal.upper_pps) => format!(">= {}", bound(shape, goal.lower_pps)),
        lower => bound(shape, lower),
    }
}

/// One trial, the bounds of the first goal after it, and the time left until the end of the search.
pub(super) fn trial_line(
    number: u64,
    shape: &TrafficShape,
    trial: &LoggedTrial,
    results: &[GoalResult],
    left_ns: Option<u64>,
) -> String {
    // Without FCS, and the FCS.
    let without_size = if shape.connections.is_some() { "" } else { "mixed" };
    let size =
        shape.frame_size.map_or(without_size.to_owned(), |size| format!("{}+4 B", size.saturating_sub(4)));
    let verdict = match trial.verdict {
        Verdict::Clean => "clean",
        Verdict::Lossy => "lossy",
        Verdict::Disturbed => "disturbed",
    };
    let load = load_text(shape, trial.request.load_pps);
    let lost = trial.result.lost().ppb() as f64 / 1e7;
    let not_sent = match trial.result.not_sent(&trial.request) {
        0 => String::new(),
        frames => format!(", {} not sent", human_count(frames)),
    };
    let cause = match trial.result.causes.first() {
        Some(cause) if trial.verdict == Verdict::Disturbed => format!(" ({cause})"),
        _ => String::new(),
    };
    let bounds = results.first().map_or(String::new(), |goal| {
        format!("{} to {}", bound(shape, goal.lower_pps), bound(shape, goal.upper_pps))
    });
    let left = left_ns.map_or(String::new(), |ns| format!(", about {} left", whole_time(ns)));
    format!(
        "trial {number:>3}  {size:>8}  {load:>11}  lost {lost:>9.5} %{not_sent}  {verdict:<10} {bounds}{left}{cause}"
    )
}

/// Whole seconds, or minutes from two on.
fn whole_time(ns: u64) -> String {
    match ns.div_ceil(BILLION) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// The bounds of all searches, one row for each goal.
pub(super) fn table(records: &[SearchRecord]) -> String {
    let or_dash = |value: Option<u64>| value.map_or("-".to_owned(), human_count);
    let head = ["size", "with FCS", "flows", "threads", "loss goal", "lower bound", "upper bound"]
        .map(str::to_owned);
    let mut rows = vec![head];
    for record in records {
        for goal in &record.goals {
            let TrafficShape { frame_size, flows, threads, .. } = record.shape;
            rows.push([
                frame_size.map_or("mixed".to_owned(), |size| human_count(size.saturating_sub(4))),
                or_dash(frame_size),
                or_dash(flows),
                or_dash(threads),
                format!("{} %", goal.goal.loss_ratio_ppb as f64 / 1e7),
                bound_or_more(&record.shape, goal),
                bound(&record.shape, goal.upper_pps),
            ]);
        }
    }
    let line = |row: &[String; 7]| {
        let [size, frame_size, flows, threads, loss, lower, upper] = row;
        format!("{size:>6}  {frame_size:>8}  {flows:>9}  {threads:>7}  {loss:>9}  {lower:>11}  {upper:>11}\n")
    };
    rows.iter().map(line).collect()
}

/// What was sent, in words.
pub(crate) fn shape_text(shape: &TrafficShape) -> String {
    if let Some(connections) = shape.connections {
        return connections.text().to_owned();
    }
    let size = shape.frame_size.map_or("mixed sizes".to_owned(), |size| {
        format!("{} bytes, {size} with FCS", size.saturating_sub(4))
    });
    let counted = |count: Option<u64>, noun: &str| count.map(|count| quantity_of(count, noun));
    let both = shape.is_bidirectional.then(|| "sum of both directions, which have half each".to_owned());
    let words = [Some(size), counted(shape.flows, "flow"), counted(shape.threads, "thread"), both];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The bounds of each goal.
pub(super) fn summary(record: &SearchRecord) -> String {
    let mut text = shape_text(&record.shape) + "\n";
    for goal in &record.goals {
        let name = match goal.goal.loss_ratio_ppb {
            0 if record.shape.connections.is_some() => "no failure".to_owned(),
            0 => "no loss".to_owned(),
            ppb => format!("loss {} %", ppb as f64 / 1e7),
        };
        let end = match goal.end {
            GoalEnd::Regular => "",
            GoalEnd::MaxLoadReached => ": the highest load passes",
            GoalEnd::BelowMinLoad => ": no load passes, not even the lowest",
            GoalEnd::NoLoadPasses => {
                let _ = writeln!(text, "{name}: no load passes: half of a load loses as large a share");
                continue;
            }
            GoalEnd::Unfinished => ", not finished",
            GoalEnd::LimitedByTester => ": limited by this machine",
            GoalEnd::Disturbed => ", not finished: the tester disturbed every repeat of a trial",
        };
        let (lower, upper) = (bound_or_more(&record.shape, goal), bound(&record.shape, goal.upper_pps));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {lower} (lower bound), {upper} (upper bound){end}");
        if let Some(pps) = goal.conditional_pps {
            let _ = writeln!(text, "  conditional throughput  {}", load_text(&record.shape, pps));
        }
    }
    if let Some(cause) = &record.limited_by {
        let _ = writeln!(text, "limited by this machine: {cause}");
    }
    let time = human_duration(record.elapsed_ns);
    let _ = writeln!(text, "{} trials, {} disturbed, {time}", record.trials, record.disturbed);
    text
}

/// How the trials differ from RFC 2544.
pub(crate) fn deviations(method: Method) -> Vec<String> {
    let duration = match method {
        Method::Rfc2544 => None,
        _ => Some("Trials are shorter than 60 s (RFC 2544 section 24)."),
    };
    let fixed = [
        "A trial ends when no frame has arrived for 100 ms, instead of after 2 s (section 23 d).",
        "There is no rest of 5 s between trials (section 23 e).",
    ];
    duration.into_iter().chain(fixed).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_has_a_row_for_each_search() {
        let goal = GoalResult {
            goal: Method::Quick.goal(0),
            end: GoalEnd::Regular,
            lower_pps: Some(995_000),
            upper_pps: Some(1_000_000),
            conditional_pps: None,
            is_coarse: false,
        };
        let record = |flows| SearchRecord {
            provenance: search::record::Provenance::default(),
            method: Method::Quick,
            shape: TrafficShape { frame_size: Some(64), flows: Some(flows), ..TrafficShape::default() },
            medium_pps: None,
            trials: 9,
            disturbed: 0,
            elapsed_ns: BILLION,
            limited_by: None,
            goals: vec![goal],
        };
        let text = table(&[record(1), record(1_000_000)]);
        let last = text.lines().last().expect("a row");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(last, "    60        64  1,000,000        -        0 %   995.0 kpps   1.000 Mpps");
    }

    #[test]
    fn loads_of_connections_have_their_unit() {
        let shape = |connections| TrafficShape { connections: Some(connections), ..TrafficShape::default() };
        let rate = shape(ConnectionsShape::Rate);
        assert_eq!(load_text(&rate, 20_000), "20,000 cps");
        assert_eq!(load_text(&shape(ConnectionsShape::Held), 50_000), "50,000 held");
        assert_eq!(shape_text(&rate), "new connections per second");
    }

    #[test]
    fn time_left_is_whole() {
        let texts = [0, 1, 119 * BILLION, 120 * BILLION, 3601 * BILLION].map(whole_time);
        assert_eq!(texts, ["0 s", "1 s", "119 s", "2 min", "61 min"]);
    }
}
