//! `wirerate rfc2544 --tx A --rx B`: throughput, latency, frame loss rate and back-to-back frames
//! for each frame size.

mod args;
mod table;

pub use args::Args;

use crate::cmd::search::{FrameSize, RFC2544_SIZES, Tester, TrialRunner, deviations, json_line};
use crate::out;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use crate::units::time_of_day_ns;
use args::{Effort, Rfc2544Test};
use search::record::{Provenance, ResultLine, Rfc2544Record, SearchRecord, SizeRecord};
use search::{
    BackToBack, BurstSettings, LatencyAtLoads, LatencySettings, LossCurve, SearchSettings, ThroughputSearch,
};

/// Runs the tests and prints their results.
///
/// # Errors
/// What the host or a device refused.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let start_ns = time_of_day_ns();
    let mut runner = TrialRunner::new(&args.path, stop)?;
    let mut record = Rfc2544Record { provenance: Provenance::default(), sizes: Vec::new() };
    let mut is_complete = true;
    for size in sizes(args) {
        let tester = runner.tester(Some(size))?;
        record.provenance = tester.provenance(start_ns, all_deviations(args));
        let mut tests = SizeTests { args, tester, runner: &mut runner, record: SizeRecord::default() };
        is_complete &= tests.run()?;
        record.sizes.push(tests.record);
        if stop.is_set() {
            break;
        }
    }
    out::text(&if args.path.json { json_line(&ResultLine::Rfc2544(record)) } else { table::text(&record) })?;
    Ok(if is_complete { Outcome::Done } else { Outcome::No })
}

fn sizes(args: &Args) -> Vec<FrameSize> {
    if args.sizes.is_empty() { RFC2544_SIZES.map(FrameSize::Bytes).into() } else { args.sizes.clone() }
}

/// The tests of one frame size.
struct SizeTests<'a, 'b> {
    args: &'a Args,
    tester: Tester,
    runner: &'a mut TrialRunner<'b>,
    record: SizeRecord,
}

impl SizeTests<'_, '_> {
    /// Returns true if every test has its answer.
    fn run(&mut self) -> Result<bool, Failure> {
        self.record.shape = self.tester.shape();
        self.record.medium_pps = self.tester.medium_pps();
        let effort = self.args.effort();
        let (mut is_complete, max_load_pps) = self.throughput(effort)?;
        let wants = |test| self.args.tests.contains(&test);
        let [latency, loss, bursts] =
            [Rfc2544Test::Latency, Rfc2544Test::Loss, Rfc2544Test::BackToBack].map(wants);
        if loss && is_complete {
            let mut curve = LossCurve::new(max_load_pps, effort.loss_ns, 10);
            is_complete &= self.runner.run(&self.tester, &mut curve, |_| Vec::new())?;
            self.record.loss = curve.points().to_vec();
        }
        let Some(throughput_pps) = self.record.throughput_pps else { return Ok(false) };
        if latency && is_complete {
            let settings = LatencySettings {
                trial_ns: effort.latency_ns,
                repeats: effort.latency_repeats,
                ..LatencySettings::new(throughput_pps)
            };
            let mut test = LatencyAtLoads::new(settings);
            is_complete &= self.runner.run(&self.tester, &mut test, |_| Vec::new())?;
            self.record.latency = test.summaries();
        }
        if bursts && is_complete {
            let mut test = BackToBack::new(BurstSettings {
                max_load_pps,
                throughput_pps,
                burst_ns_max: effort.burst_ns_max,
                tests: effort.burst_tests,
                verifications: 1,
            });
            is_complete &= self.runner.run(&self.tester, &mut test, |_| Vec::new())?;
            self.record.back_to_back = test.summary();
        }
        Ok(is_complete)
    }

    /// Searches for the throughput, which the other tests need. Returns whether it was found, and
    /// the highest load that the sender reaches.
    fn throughput(&mut self, effort: Effort) -> Result<(bool, u64), Failure> {
        let goals = vec![effort.method.goal(0)];
        let settings = SearchSettings::new(goals, self.args.path.min_pps.0, self.tester.max_load_pps());
        let search = ThroughputSearch::new(settings);
        let mut search = search.map_err(|error| Failure::usage("search for the throughput", error))?;
        let is_done = self.runner.run(&self.tester, &mut search, ThroughputSearch::results)?;
        let goal = search.results().into_iter().next();
        self.record.throughput_pps = goal.and_then(|goal| goal.lower_pps.filter(|_| !goal.is_coarse));
        if self.args.path.json {
            let record = SearchRecord::new(
                Provenance::default(),
                effort.method,
                self.tester.shape(),
                self.tester.medium_pps(),
                &search,
            );
            out::text(&json_line(&ResultLine::Search(record)))?;
        }
        Ok((is_done && self.record.throughput_pps.is_some(), search.max_load_pps()))
    }
}

/// Where the tests differ from RFC 2544, RFC 8219 and RFC 9004.
fn all_deviations(args: &Args) -> Vec<String> {
    let of_quick: &[&str] = match args.quick {
        true => &[
            "Throughput is searched by up to 3 trials of 1 s, half of which may have loss (section 26.1).",
            "Latency: 3 trials of 1 s instead of 20 of 120 s (section 26.2).",
            "Frame loss rate: trials of 1 s (section 26.3).",
            "Back-to-back: 3 tests of bursts up to 0.5 s instead of 50 of at least 2 s (section 26.4).",
        ],
        false => &[],
    };
    let always = [
        "Latency is that of every frame, instead of one tagged frame after 60 s (section 26.2). It ends \
         in the driver of the receiving device.",
        "Without a rate of the medium, the highest load is the rate that the sender reaches.",
        "Trials that the tester disturbed are repeated.",
        "System recovery and reset are not tested (sections 26.5 and 26.6).",
        "Traffic is sent in one direction (section 14).",
    ];
    let common = deviations(args.effort().method);
    common.into_iter().chain(of_quick.iter().chain(&always).map(|text| (*text).to_owned())).collect()
}
