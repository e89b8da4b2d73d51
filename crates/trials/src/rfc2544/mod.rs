//! `wirerate rfc2544 --tx A --rx B`: throughput, latency, frame loss rate, back-to-back frames and
//! system recovery for each frame size.

mod args;
mod table;

pub use args::Args;

use crate::search::{
    FrameSize, RFC2544_SIZES, RunsTrials, Tester, Traffic, TrialRunner, deviations, json_line,
};
use args::{Effort, Rfc2544Test};
use program::outcome::{Failure, Outcome};
use program::row_printer::RowFormat;
use program::stop::Stop;
use search::record::{Provenance, ResultLine, Rfc2544Record, SearchRecord, SizeRecord};
use search::{
    BackToBack, BurstSettings, LatencyAtLoads, LatencySettings, LossCurve, Procedure, Recovery,
    RecoverySettings, SearchSettings, ThroughputSearch,
};
use units::time_of_day_ns;

/// Runs the tests and prints their results.
///
/// # Errors
/// What the host or a device refused.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    check(args)?;
    let start_ns = time_of_day_ns();
    let mut runner = TrialRunner::new(&args.path, stop)?.with_budget(args.budget);
    let mut record = Rfc2544Record { provenance: Provenance::default(), sizes: Vec::new() };
    let mut is_complete = true;
    let tester = |size| runner.tester(Traffic { size: Some(size), ..Traffic::default() });
    // A size that the frames cannot have is refused before the first trial of any.
    let testers: Vec<Tester> = sizes(args).into_iter().map(tester).collect::<Result<_, _>>()?;
    for tester in testers {
        let mut deviations = all_deviations(args);
        deviations.extend(tester.deviations());
        record.provenance = tester.provenance(start_ns, deviations);
        let mut tests =
            SizeTests { args, tester, runner: &mut runner, record: SizeRecord::default(), start_ns };
        is_complete &= tests.run()?;
        record.sizes.push(tests.record);
        if runner.is_over() {
            break;
        }
    }
    let text = table::text(&record);
    stop.console().report(
        RowFormat::of(args.path.json, false),
        &json_line(&ResultLine::Rfc2544(record)),
        &text,
    )?;
    Ok(if is_complete { Outcome::Done } else { Outcome::No })
}

/// A throughput is that of one frame size.
fn check(args: &Args) -> Result<(), Failure> {
    match args.throughput {
        Some(rate) if rate.pps_below() == 0 => {
            let why = "loads are whole frames per second: no frame would be sent";
            Err(Failure::usage(format!("test at --throughput {rate}"), why))
        }
        Some(_) if args.path.sizes().len() != 1 => {
            Err(Failure::usage("take --throughput as known", "it is that of one frame size")
                .try_this("--frame-sizes 64 --throughput PPS"))
        }
        _ => Ok(()),
    }
}

fn sizes(args: &Args) -> Vec<FrameSize> {
    match args.path.sizes() {
        [] => RFC2544_SIZES.map(FrameSize::Bytes).into(),
        sizes => sizes.to_vec(),
    }
}

/// The tests of one frame size.
struct SizeTests<'a, 'b> {
    args: &'a Args,
    tester: Tester,
    runner: &'a mut TrialRunner<'b>,
    record: SizeRecord,
    /// Start of all tests, in nanoseconds since 1970.
    start_ns: u64,
}

impl SizeTests<'_, '_> {
    /// Returns true if every test has its answer.
    fn run(&mut self) -> Result<bool, Failure> {
        self.record.shape = self.tester.shape();
        self.record.medium_pps = self.tester.medium_pps();
        let effort = self.args.effort();
        let wants = |test| self.args.tests.contains(&test);
        let [latency, loss, bursts, recovery] =
            [Rfc2544Test::Latency, Rfc2544Test::Loss, Rfc2544Test::BackToBack, Rfc2544Test::Recovery]
                .map(wants);
        if recovery {
            self.tester.check_one_thread("time the recovery")?;
        }
        let (mut is_complete, max_load_pps) = self.throughput(effort)?;
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
        if recovery && is_complete {
            let mut test = Recovery::new(RecoverySettings {
                throughput_pps,
                max_load_pps,
                overload_ns: effort.overload_ns,
                reduced_ns: effort.overload_ns,
                tests: effort.recovery_tests,
            });
            is_complete &= self.runner.run(&self.tester, &mut test, |_| Vec::new())?;
            self.record.recovery = test.summary();
        }
        Ok(is_complete)
    }

    /// Searches for the throughput, which the other tests need. Returns whether it was found, and
    /// the highest load that the sender reaches.
    fn throughput(&mut self, effort: Effort) -> Result<(bool, u64), Failure> {
        if let Some(known) = self.args.throughput {
            self.record.throughput_pps = Some(known.pps_below());
            return Ok((true, self.tester.max_load_pps()));
        }
        let goals = vec![effort.method.goal(0)];
        let (lowest, highest) = self.args.path.loads(self.tester.max_load_pps())?;
        let settings = SearchSettings::new(goals, lowest, highest);
        let search = ThroughputSearch::new(settings);
        let mut search = search.map_err(|error| Failure::usage("search for the throughput", error))?;
        let is_done = self.runner.run(&self.tester, &mut search, ThroughputSearch::results)?;
        let goal = search.results().into_iter().next();
        self.record.throughput_pps = goal.and_then(|goal| goal.lower_pps.filter(|_| !goal.is_coarse));
        self.record.throughput_end = goal.map(|goal| goal.end);
        self.record.throughput_upper_pps = goal.and_then(|goal| goal.upper_pps);
        self.record.throughput_trials = search.log().len() as u64;
        self.record.limited_by = search.limited_by();
        if self.args.path.json || self.runner.console().events().are_followed() {
            let record = SearchRecord::new(
                self.tester.provenance(self.start_ns, deviations(effort.method)),
                effort.method,
                self.tester.shape(),
                self.tester.medium_pps(),
                &search,
            );
            let line = json_line(&ResultLine::Search(record));
            self.runner.console().events().add(|| line.clone());
            if self.args.path.json {
                self.runner.console().text(&line)?;
            }
        }
        let is_known =
            self.record.throughput_pps.is_some() || goal.is_some_and(|goal| goal.end.has_no_load());
        Ok((is_done && is_known, search.max_load_pps()))
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
            "System recovery: one test with an overload of 1 s instead of 60 s (section 26.5).",
        ],
        false => &[],
    };
    let always = [
        "Latency is that of every frame, instead of one tagged frame after 60 s (section 26.2). It ends \
         in the driver of the receiving device.",
        "Without a rate of the medium, the highest load is the rate that the sender reaches.",
        "Trials that the tester disturbed are repeated.",
        "System recovery is the time from the change of the load to the time at which the last lost frame \
         was due. Frames that were overtaken count as lost in it (section 26.5).",
        "Reset is not tested (section 26.6).",
    ];
    let is_known = args.throughput.is_some();
    let given = is_known.then_some("The throughput was given, not searched for (section 26.1).");
    let common = deviations(args.effort().method);
    common
        .into_iter()
        .chain(of_quick.iter().chain(&given).chain(&always).map(|text| (*text).to_owned()))
        .collect()
}
