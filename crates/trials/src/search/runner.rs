//! Runs the trials of a procedure: prints each, keeps it for `--resume`, and ends on a stop.

use super::args::PathArgs;
use super::journal::Journal;
use super::report;
use super::runs_trials::RunsTrials;
use super::tester::Tester;
use super::traffic::Traffic;
use program::console::Console;
use program::outcome::Failure;
use program::stop::Stop;
use search::record::{ResultLine, TrafficShape, TrialRecord};
use search::{GoalResult, Procedure};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use units::Nanos;

/// The trials of one command, for one frame size, number of flows and so on after the other.
pub(crate) struct TrialRunner<'a> {
    args: &'a PathArgs,
    stop: &'a Stop,
    journal: Option<Journal>,
    number: u64,
    /// No trial begins after this time.
    end: Option<Instant>,
    /// When a trial was shown last.
    shown: Option<Instant>,
}

/// How often a trial is shown beside JSON if standard error is no terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

impl<'a> TrialRunner<'a> {
    /// No trial yet.
    ///
    /// # Errors
    /// The folder of `--resume`.
    pub(crate) fn new(args: &'a PathArgs, stop: &'a Stop) -> Result<Self, Failure> {
        let journal =
            args.resume.as_deref().map(|folder| Journal::open(folder, &args.measurement())).transpose()?;
        Ok(Self { args, stop, journal, number: 0, end: None, shown: None })
    }

    /// Begins no trial once `budget` is over; `None` for no limit.
    pub(crate) fn with_budget(self, budget: Option<Nanos>) -> Self {
        Self { end: budget.map(|budget| Instant::now() + Duration::from_nanos(budget.0)), ..self }
    }

    /// What shows the trials.
    pub(crate) fn console(&self) -> &'a Console {
        self.stop.console()
    }

    /// True if no further trial begins: the command was stopped, or its budget is over.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_set() || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The tester for this traffic.
    ///
    /// # Errors
    /// Bad options, no such device, or the device with the default route.
    pub(crate) fn tester(&self, traffic: Traffic) -> Result<Tester, Failure> {
        Tester::new(self.args, traffic)
    }

    /// Runs trials until the procedure has its answer, the command is stopped or its budget is
    /// over. Returns true in the first case.
    ///
    /// # Errors
    /// What the host refused.
    pub(crate) fn run<P: Procedure>(
        &mut self,
        tester: &impl RunsTrials,
        procedure: &mut P,
        results: impl Fn(&P) -> Vec<GoalResult>,
    ) -> Result<bool, Failure> {
        let shape = tester.shape();
        while let Some(request) = procedure.next_trial() {
            if self.is_over() {
                return Ok(false);
            }
            let earlier = self.journal.as_mut().map(|journal| journal.take(&shape, &request)).transpose()?;
            let earlier = earlier.flatten();
            let is_new = earlier.is_none();
            let result = match earlier {
                Some(result) => result,
                None => tester.run(&request, self.stop)?,
            };
            if self.stop.is_set() && is_new {
                return Ok(false);
            }
            procedure.record(result);
            self.number += 1;
            self.show(&shape, procedure, &results(procedure), is_new)?;
        }
        Ok(true)
    }

    fn show<P: Procedure>(
        &mut self,
        shape: &TrafficShape,
        procedure: &P,
        results: &[GoalResult],
        is_new: bool,
    ) -> Result<(), Failure> {
        let Some(trial) = procedure.last_trial() else { return Ok(()) };
        let line = json_line(&ResultLine::Trial(Box::new(TrialRecord::new(
            self.number,
            shape.clone(),
            trial,
            results,
        ))));
        if let Some(journal) = self.journal.as_mut().filter(|_| is_new) {
            journal.add(&line)?;
        }
        self.console().events().add(|| line.clone());
        if self.args.json {
            self.console().text(&line)?;
        }
        if self.is_progress_due() {
            let left_ns = procedure.time_left_ns();
            eprintln!("{}", report::trial_line(self.number, shape, trial, results, left_ns));
        }
        Ok(())
    }

    /// True if this trial is shown on standard error: with JSON in a file or pipe, one in 10 s.
    fn is_progress_due(&mut self) -> bool {
        let is_each = !self.args.json || std::io::stderr().is_terminal();
        let is_due = is_each || self.shown.is_none_or(|shown| shown.elapsed() >= PROGRESS_INTERVAL);
        if is_due {
            self.shown = Some(Instant::now());
        }
        is_due && !self.args.quiet
    }
}

/// A line of a result file.
pub(crate) fn json_line(line: &ResultLine) -> String {
    serde_json::to_string(line).expect("a record is always representable as JSON") + "\n"
}
