//! What a search prints: a line per trial, and the bounds at its end.

use crate::units::{human_duration, human_pps};
use search::record::{SearchRecord, TrafficShape};
use search::{GoalEnd, GoalResult, LoggedTrial, Method, Verdict};
use std::fmt::Write;

fn bound(pps: Option<u64>) -> String {
    pps.map_or("unknown".to_owned(), |pps| human_pps(pps as f64))
}

/// One trial, and the bounds of the first goal after it.
pub(super) fn trial_line(
    number: u64,
    shape: &TrafficShape,
    trial: &LoggedTrial,
    results: &[GoalResult],
) -> String {
    let size = shape.frame_size.map_or("mixed".to_owned(), |size| format!("{size} B"));
    let verdict = match (trial.verdict, trial.is_counted) {
        (Verdict::Clean, _) => "clean",
        (Verdict::Lossy, _) => "lossy",
        (Verdict::Disturbed, _) => "disturbed",
    };
    let load = human_pps(trial.request.load_pps as f64);
    let loss = trial.result.loss(trial.request.frames).ppb() as f64 / 1e7;
    let bounds = results
        .first()
        .map_or(String::new(), |goal| format!("{} to {}", bound(goal.lower_pps), bound(goal.upper_pps)));
    format!("trial {number:>3}  {size:>6}  {load:>11}  loss {loss:>9.5} %  {verdict:<20} {bounds}")
}

/// The bounds of each goal.
pub(super) fn summary(record: &SearchRecord) -> String {
    let mut text = match record.shape.frame_size {
        Some(size) => format!("{size} bytes with FCS\n"),
        None => "mixed sizes\n".to_owned(),
    };
    for goal in &record.goals {
        let name = match goal.goal.loss_ratio_ppb {
            0 => "no loss".to_owned(),
            ppb => format!("loss {} %", ppb as f64 / 1e7),
        };
        let end = match goal.end {
            GoalEnd::Regular => "",
            GoalEnd::MaxLoadReached => ", at least: the highest load passes",
            GoalEnd::BelowMinLoad => ", below the lowest load",
            GoalEnd::Unfinished => ", not finished",
            GoalEnd::Disturbed => ", not finished: the tester disturbed every repeat of a trial",
        };
        let (lower, upper) = (bound(goal.lower_pps), bound(goal.upper_pps));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {lower} (lower bound), {upper} (upper bound){end}");
        if let Some(pps) = goal.conditional_pps {
            let _ = writeln!(text, "  conditional throughput  {}", human_pps(pps as f64));
        }
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
