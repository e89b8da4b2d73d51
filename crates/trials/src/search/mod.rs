//! `wirerate search`: the throughput of what lies between two devices, or the highest load of
//! connections with a server.

mod args;
mod connections;
mod frame_size;
mod journal;
mod report;
mod runner;
mod runs_trials;
mod tester;
mod traffic;

pub use args::{Args, ConnectionLoad, PathArgs};
pub use frame_size::FrameSize;
pub(crate) use frame_size::RFC2544_SIZES;
pub(crate) use report::{deviations, shape_text};
pub(crate) use runner::{TrialRunner, json_line};
pub(crate) use runs_trials::RunsTrials;
pub(crate) use tester::Tester;
pub(crate) use traffic::Traffic;

use connections::ConnectionTester;
use program::console::Console;
use program::out::OutError;
use program::outcome::{Failure, Outcome};
use program::row_printer::RowFormat;
use program::stop::Stop;
use search::record::{ResultLine, SearchRecord};
use search::{GoalEnd, Method, SearchSettings, Start, ThroughputSearch};
use units::time_of_day_ns;

/// Searches for each frame size, number of flows and number of threads, and prints the bounds.
///
/// # Errors
/// What the host or a device refused.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    if let Some(note) = frame_size::note(&args.path.size).filter(|_| !args.path.quiet) {
        program::note!("{note}");
    }
    if let Some(load) = args.connections {
        return search_connections(args, load, stop);
    }
    let mut runner = TrialRunner::new(&args.path, stop)?;
    let mut is_answered = true;
    let mut records = Vec::new();
    // What cannot be sent is refused before the first trial.
    let traffics = traffic::all(args.path.sizes(), &args.flows, &args.threads).into_iter();
    let testers: Vec<Tester> = traffics.map(|traffic| runner.tester(traffic)).collect::<Result<_, _>>()?;
    for tester in testers {
        let start_ns = time_of_day_ns();
        let mut search = searcher(args, args.path.loads(tester.max_load_pps())?)?;
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
        is_answered &= is_answer(&record);
        print(args, &record, stop.console())?;
        if !args.path.json {
            records.push(record);
        }
        if stop.is_set() {
            break;
        }
    }
    if records.len() > 1 {
        stop.console().text(&report::table(&records))?;
    }
    Ok(if is_answered { Outcome::Done } else { Outcome::No })
}

/// Searches the highest load of connections, and prints its bounds.
fn search_connections(args: &Args, load: ConnectionLoad, stop: &Stop) -> Result<Outcome, Failure> {
    let mut runner = TrialRunner::new(&args.path, stop)?;
    let tester = ConnectionTester::new(args, load)?;
    let start_ns = time_of_day_ns();
    let mut search = searcher(args, tester.loads(args)?)?;
    let is_answered = runner.run(&tester, &mut search, ThroughputSearch::results)?;
    let record = SearchRecord::new(tester.provenance(start_ns), args.method.0, tester.shape(), None, &search);
    print(args, &record, stop.console())?;
    Ok(if is_answered && is_answer(&record) { Outcome::Done } else { Outcome::No })
}

/// True if each goal has a result.
fn is_answer(record: &SearchRecord) -> bool {
    record.goals.iter().all(|goal| match goal.end {
        GoalEnd::Unfinished | GoalEnd::Disturbed => false,
        GoalEnd::LimitedByTester => goal.lower_pps.is_some(),
        GoalEnd::Regular | GoalEnd::MaxLoadReached | GoalEnd::BelowMinLoad | GoalEnd::NoLoadPasses => true,
    })
}

fn print(args: &Args, record: &SearchRecord, console: &Console) -> Result<(), OutError> {
    let line = json_line(&ResultLine::Search(record.clone()));
    console.report(RowFormat::of(args.path.json, false), &line, &report::summary(record))
}

fn searcher(args: &Args, (lowest, highest): (u64, u64)) -> Result<ThroughputSearch, Failure> {
    let goals = args.loss.iter().map(|loss| args.method.0.goal(loss.0)).collect();
    let mut settings = SearchSettings::new(goals, lowest, highest);
    settings.budget_ns = args.budget.map(|budget| budget.0);
    if args.method.0 == Method::Binary {
        settings.start = Start::Range;
    }
    ThroughputSearch::new(settings).map_err(|error| Failure::usage("search", error))
}
