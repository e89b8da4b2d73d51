//! `--runs N`: a command several times, and what the runs say together.

use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::row_printer::RowFormat;
use crate::stop::Stop;
use engine::PagePools;
use facts::{Described, Document};
use report::figures::{FigureSummary, figures_of, runs_table, summarize};
use serde::Serialize;
use std::time::Duration;

/// The wait between two runs for page pools of the run before.
const PAGE_POOLS_MAX: Duration = Duration::from_secs(15);

/// How a command is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Repeated<'a> {
    /// The command: `send`.
    pub command: &'static str,
    /// How often.
    pub runs: u32,
    /// Reports and summary as JSON.
    pub json: bool,
    /// Nothing on standard error but errors.
    pub quiet: bool,
    /// Ends the present run, and those that follow.
    pub stop: &'a Stop,
}

/// Runs that were repeated.
pub const RUNS: Document =
    Document::of::<RunsRecord>("wirerate.runs/1", "wirerate send --runs N --json, also measure and replay");

/// The summary of the runs.
#[derive(Debug, Serialize, Described)]
struct RunsRecord {
    /// The command.
    #[fact(kind = Kind::Word(&["send", "measure", "replay"]))]
    command: &'static str,
    /// Runs that ended.
    runs: u32,
    /// Runs that were asked for.
    asked_runs: u32,
    /// The figures of the runs.
    figures: Vec<FigureSummary>,
    /// Names of rates whose spread is above 0.05.
    wide: Vec<&'static str>,
    /// That of the worst run.
    exit_code: u8,
}

impl Repeated<'_> {
    /// Carries out the command so often, each run with its report, and prints the summary. The
    /// outcome is that of the worst run.
    ///
    /// # Errors
    /// Those of the first run that fails; no other follows it.
    pub fn run(self, mut once: impl FnMut() -> Result<Outcome, Failure>) -> Result<Outcome, Failure> {
        let log = self.stop.console().events().follow();
        let page_pools = PagePools::watch();
        let (mut runs, mut outcome, mut next) = (Vec::new(), Outcome::Done, log.lines_from(0).1);
        for number in 1..=self.runs {
            if self.stop.is_set() {
                break;
            }
            page_pools.wait(PAGE_POOLS_MAX, || self.stop.is_set());
            if !self.quiet {
                crate::note!("run {number} of {}", self.runs);
            }
            if once()? != Outcome::Done {
                outcome = Outcome::No;
            }
            let (lines, number) = log.lines_from(next);
            next = number;
            let reports = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
            runs.push(reports.flat_map(|line| figures_of(&line)).collect::<Vec<_>>());
        }
        if (runs.len() as u32) < self.runs {
            outcome = Outcome::No;
        }
        self.print(&runs, outcome)?;
        Ok(outcome)
    }

    fn print(self, runs: &[Vec<report::figures::Figure>], outcome: Outcome) -> Result<(), Failure> {
        let figures = summarize(runs);
        let wide: Vec<_> =
            figures.iter().filter(|figure| figure.is_wide()).map(|figure| figure.name).collect();
        let mut text = format!("\n{} of {} runs of {}\n", runs.len(), self.runs, self.command);
        text += &runs_table(&figures);
        if !wide.is_empty() {
            text += &format!(
                "note: the runs differ by more than 5 % in {}: other work on this machine, or a device \
                 that has not settled; more --runs, or longer ones\n",
                wide.join(" and ")
            );
        }
        let record = RunsRecord {
            command: self.command,
            runs: runs.len() as u32,
            asked_runs: self.runs,
            figures,
            wide,
            exit_code: u8::from(outcome != Outcome::Done),
        };
        let (format, line) = (RowFormat::of(self.json, false), out::json_line(&RUNS, &record));
        Ok(self.stop.console().report(format, &line, &text)?)
    }
}
