//! The results of `wirerate rfc2544` as text.

use crate::search::shape_text;
use search::GoalEnd;
use search::record::{Rfc2544Record, SizeRecord};
use std::fmt::Write;
use units::{human_count, human_duration, human_pps, quantity_of};

/// One block per frame size, then the deviations.
pub(super) fn text(record: &Rfc2544Record) -> String {
    let mut text = String::new();
    for size in &record.sizes {
        add_size(&mut text, size);
    }
    text.push_str("deviations from the RFCs\n");
    for deviation in &record.provenance.deviations {
        let _ = writeln!(text, "  {deviation}");
    }
    text
}

// Writing to a string does not fail.
fn add_size(text: &mut String, size: &SizeRecord) {
    let name = shape_text(&size.shape);
    let upper_pps = size.throughput_upper_pps.filter(|_| size.throughput_pps.is_some());
    let is_at_least = size.throughput_end.is_some_and(|end| end.is_at_least(upper_pps));
    let at_least = if is_at_least { ">= " } else { "" };
    let has_no_load = size.throughput_end.is_some_and(GoalEnd::has_no_load);
    let unknown = if has_no_load { "no load passes" } else { "unknown" };
    let throughput =
        size.throughput_pps.map_or(unknown.to_owned(), |pps| format!("{at_least}{}", human_pps(pps as f64)));
    let up_to = upper_pps.map_or(String::new(), |pps| format!(" to {}", human_pps(pps as f64)));
    let trials = match size.throughput_trials {
        0 => String::new(),
        trials => format!(", {}", quantity_of(trials, "trial")),
    };
    let limit =
        size.limited_by.as_ref().map_or(String::new(), |cause| format!(", limited by this machine: {cause}"));
    let share = size.throughput_pps.zip(size.medium_pps).map_or(String::new(), |(pps, medium)| {
        format!(", {:.2} % of the medium", pps as f64 * 100.0 / medium.max(1) as f64)
    });
    let _ = writeln!(text, "{name}\n  throughput    {throughput}{up_to}{share}{trials}{limit}");
    for row in &size.latency {
        let [mean, typical, worst] = [row.mean_ns, row.typical_ns, row.worst_case_ns].map(human_duration);
        let _ = writeln!(
            text,
            "  latency       at {:>3} %: mean {mean}, typical {typical}, worst case {worst}",
            row.percent
        );
    }
    for point in &size.loss {
        let (share, loss) = (point.share_ppb as f64 / 1e7, point.loss_ppb as f64 / 1e7);
        let load = human_pps(point.load_pps as f64);
        let _ = writeln!(text, "  frame loss    at {share:>3.0} % ({load}): {loss:.5} %");
    }
    if let Some(burst) = &size.back_to_back {
        let [implied, corrected] = [burst.implied_buffer_ns, burst.corrected_buffer_ns].map(human_duration);
        let _ = writeln!(
            text,
            "  back-to-back  {} frames ({} to {}, {} tests), buffer {implied}, corrected {corrected}",
            human_count(burst.mean_frames),
            human_count(burst.min_frames),
            human_count(burst.max_frames),
            burst.tests
        );
    }
    if let Some(recovery) = &size.recovery {
        let [mean, min, max] = [recovery.mean_ns, recovery.min_ns, recovery.max_ns].map(human_duration);
        let least = match recovery.unrecovered {
            0 => "",
            _ => ", at least: frames were lost until the end",
        };
        let tests = quantity_of(recovery.tests.into(), "test");
        let _ = writeln!(text, "  recovery      {mean} ({min} to {max}, {tests}){least}");
    }
}
