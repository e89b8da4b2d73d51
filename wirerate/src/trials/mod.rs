//! `wirerate search --tx A --rx B`: the throughput of what lies between two devices.

mod args;
mod frame_size;
mod journal;
mod report;
mod runner;
mod tester;
mod traffic;

pub use args::{Args, PathArgs};
pub use frame_size::FrameSize;
pub(crate) use frame_size::RFC2544_SIZES;
pub(crate) use report::{deviations, shape_text};
pub(crate) use runner::{TrialRunner, json_line};
pub(crate) use tester::Tester;
pub(crate) use traffic::Traffic;

use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::rows::{RowFormat, print_report};
use crate::stop::Stop;
use crate::units::time_of_day_ns;
use search::record::{ResultLine, SearchRecord};
use search::{GoalEnd, Method, SearchSettings, Start, ThroughputSearch};

/// Searches for each frame size, number of flows and number of threads, and prints the bounds.
///
/// # Errors
/// What the host or a device refused.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    if let Some(note) = frame_size::note(&args.path.size).filter(|_| !args.path.quiet) {
        eprintln!("wirerate: {note}");
    }
    let mut runner = TrialRunner::new(&args.path, stop)?;
    let mut is_answered = true;
    let mut records = Vec::new();
    for traffic in traffic::all(args.path.sizes(), &args.flows, &args.threads) {
        let tester = runner.tester(traffic)?;
        let start_ns = time_of_day_ns();
        let mut search = searcher(args, &tester)?;
        is_answered &= runner.run(&tester, &mut search, ThroughputSearch::results)?;
        let mut deviations = deviations(args.method.0);
        deviations.extend(tester.deviations());
        let record = SearchRecord::new(
            tester.provenance(start_ns, deviations),
            args.method.0,
            tester.shape(),
            tester.medium_pps(),
            &search,
        );
        let is_open = |goal: &search::GoalResult| match goal.end {
            GoalEnd::Unfinished | GoalEnd::Disturbed => true,
            GoalEnd::LimitedByTester => goal.lower_pps.is_none(),
            GoalEnd::Regular | GoalEnd::MaxLoadReached | GoalEnd::BelowMinLoad => false,
        };
        is_answered &= !record.goals.iter().any(is_open);
        let format = RowFormat::of(args.path.json, false);
        let summary = report::summary(&record);
        print_report(format, &json_line(&ResultLine::Search(record.clone())), &summary)?;
        if format == RowFormat::Text {
            records.push(record);
        }
        if stop.is_set() {
            break;
        }
    }
    if records.len() > 1 {
        out::text(&report::table(&records))?;
    }
    Ok(if is_answered { Outcome::Done } else { Outcome::No })
}

fn searcher(args: &Args, tester: &Tester) -> Result<ThroughputSearch, Failure> {
    let goals = args.loss.iter().map(|loss| args.method.0.goal(loss.0)).collect();
    let (lowest, highest) = args.path.loads(tester.max_load_pps())?;
    let mut settings = SearchSettings::new(goals, lowest, highest);
    settings.budget_ns = args.budget.map(|budget| budget.0);
    if args.method.0 == Method::Binary {
        settings.start = Start::Range;
    }
    ThroughputSearch::new(settings).map_err(|error| Failure::usage("search", error))
}
