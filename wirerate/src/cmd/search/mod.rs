//! `wirerate search --tx A --rx B`: the throughput of what lies between two devices.

mod args;
mod report;
mod trial;

pub use args::Args;

use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use crate::units::time_of_day_ns;
use search::record::{Provenance, ResultLine, SearchRecord, TrafficShape, TrialRecord};
use search::{GoalEnd, Method, Procedure, SearchSettings, Start, ThroughputSearch};
use trial::Tester;

/// Searches and prints the bounds.
///
/// # Errors
/// What the host or a device refused.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let tester = Tester::new(args)?;
    let max_load_pps = args.max_pps.map_or(tester.max_load_pps(), |pps| pps.0);
    let goals = args.loss.iter().map(|loss| args.method.0.goal(loss.0)).collect();
    let mut settings = SearchSettings::new(goals, args.min_pps.0, max_load_pps);
    settings.budget_ns = args.budget.map(|budget| budget.0);
    if args.method.0 == Method::Binary {
        settings.start = Start::Range;
    }
    let mut search = ThroughputSearch::new(settings).map_err(|error| Failure::usage("search", error))?;
    let shape = TrafficShape { frame_size: tester.frame_size(), flows: None };
    let start_ns = time_of_day_ns();
    while let Some(request) = search.next_trial() {
        let result = tester.run(&request, stop)?;
        if stop.is_set() {
            break;
        }
        search.record(result);
        let (number, results) = (search.log().len(), search.results());
        let trial = &search.log()[number - 1];
        if args.json {
            let record = TrialRecord::new(number as u64, shape.clone(), trial, &results);
            print_line(&ResultLine::Trial(Box::new(record)))?;
        } else {
            eprintln!("{}", report::trial_line(number, trial, &results));
        }
    }
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let provenance =
        Provenance { command, start_ns, host: tester.facts(), deviations: report::deviations(args.method.0) };
    let medium_pps = tester.medium_pps();
    let record = SearchRecord::new(provenance, args.method.0, shape, medium_pps, &search);
    if args.json {
        print_line(&ResultLine::Search(record.clone()))?;
    } else {
        out::text(&report::summary(&record))?;
    }
    let is_answered = record.goals.iter().all(|goal| goal.end != GoalEnd::Unfinished);
    Ok(if is_answered { Outcome::Done } else { Outcome::No })
}

fn print_line(line: &ResultLine) -> Result<(), Failure> {
    let text = serde_json::to_string(line).expect("a record is always representable as JSON");
    Ok(out::text(&(text + "\n"))?)
}
