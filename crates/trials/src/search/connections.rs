//! Trials of `search --connections`: a load is a number of new connections per second, or of held
//! connections, with a live server.

use super::args::{Args, ConnectionLoad};
use super::runs_trials::RunsTrials;
use clap::{Args as _, FromArgMatches};
use connections::{self, Setup};
use engine::{ConnectResult, Connecting};
use host::{CpuTicks, DevicePlace, Machine};
use program::outcome::Failure;
use program::stop::Stop;
use search::record::{ConnectionsShape, Provenance, TrafficShape};
use search::{BILLION, TrialRequest, TrialResult, frames_of};
use sender::next_hop::NextHopMac;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use units::{Count, Nanos, Pps, human_count, utc_time};

/// The highest load: what may be sent to servers behind a router.
const MAX_LOAD: u64 = 100_000;
/// The lowest load, unless the highest is near it.
const MIN_LOAD: u64 = 100;
/// Held connections are opened at this rate.
const OPENING_CPS: u64 = 10_000;
/// A connection without progress for this time has failed: a lost SYN is sent again once.
const TIMEOUT_NS: u64 = 3_000_000_000;
/// Interval at which the counters of a trial are read: they have no event.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The sender may be late by this in short trials, and by 0.1 % in others.
const LATE_NS_MIN: u64 = 1_000_000;

/// A device, and the options of `wirerate connect`.
pub(super) struct ConnectionTester {
    connect: connections::Args,
    load: ConnectionLoad,
    settle: Duration,
    rest: Duration,
    facts: BTreeMap<String, String>,
    /// When the last trial ended.
    ended: std::cell::Cell<Option<Instant>>,
}

impl ConnectionTester {
    /// Finds the device and reads the options of `connect`.
    ///
    /// # Errors
    /// Bad options, no such device, or what [`Setup::of`] refuses.
    pub(super) fn new(args: &Args, load: ConnectionLoad) -> Result<Self, Failure> {
        refuse_of_frames(args)?;
        let place = DevicePlace::of(&args.path.tx, args.path.netns.as_deref());
        let mut connect = connect_args(&place.device, &args.path.send)?;
        refuse_own(&connect, load)?;
        connect.netns = place.netns.clone();
        connect.timeout.get_or_insert(Nanos(TIMEOUT_NS));
        let setup = Setup::of(&connect)?;
        let facts = [
            ("version", format!("wirerate {}", env!("CARGO_PKG_VERSION"))),
            ("kernel", Machine::read().kernel),
            ("tx", place.to_string()),
            ("server", setup.next_hops.first().map_or(String::new(), NextHopMac::to_string)),
        ];
        Ok(Self {
            connect,
            load,
            settle: Duration::from_nanos(args.settle.0),
            rest: Duration::from_nanos(args.rest.0),
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
            ended: std::cell::Cell::new(None),
        })
    }

    /// Loads from the lowest to the highest one.
    ///
    /// # Errors
    /// Bad usage if the lowest is not below the highest, or the addresses do not allow the highest.
    pub(super) fn loads(&self, args: &Args) -> Result<(u64, u64), Failure> {
        let highest = args.max_connections.map_or(MAX_LOAD, |count| count.0);
        let lowest = args.min_connections.map_or_else(|| MIN_LOAD.min(highest / 10).max(1), |count| count.0);
        if (1..highest).contains(&lowest) {
            // Refused here rather than in the first trial.
            Setup::of(&self.arguments(highest, BILLION))?;
            return Ok((lowest, highest));
        }
        let why = format!("the highest load is {highest}, and the lowest must be below it and above 0");
        Err(Failure::usage(format!("search from --min-connections {lowest}"), why)
            .try_this("--max-connections 10k"))
    }

    /// The command, its start and the host, for the report.
    pub(super) fn provenance(&self, start_ns: u64) -> Provenance {
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        let mut host = self.facts.clone();
        host.insert("date".to_owned(), utc_time(start_ns));
        let what = match self.load {
            ConnectionLoad::Rate => {
                "Loads are new connections per second. Those that were not complete in time are lost."
            }
            ConnectionLoad::Held => {
                "Loads are numbers of held connections. Those that did not stay, or that were not closed \
                 by both sides, are lost."
            }
        };
        Provenance { command, start_ns, host, deviations: vec![what.to_owned()] }
    }

    /// The arguments of a trial: what it opens, or holds, and how long.
    fn arguments(&self, load: u64, duration_ns: u64) -> connections::Args {
        let mut args = self.connect.clone();
        let late_ns = (duration_ns / 1000).max(LATE_NS_MIN);
        match self.load {
            ConnectionLoad::Rate => {
                args.cps = Some(Pps(load).into());
                args.count = Some(Count(frames_of(load, duration_ns)));
                args.duration = Some(Nanos(duration_ns + late_ns));
            }
            ConnectionLoad::Held => {
                let cps = *args.cps.get_or_insert(Pps(OPENING_CPS).into());
                let opening_ns = (load as f64 * 1e9 / cps.pps()) as u64;
                args.hold = Some(Count(load));
                args.duration = Some(Nanos(opening_ns + late_ns + duration_ns));
            }
        }
        args
    }

    /// What a trial counts as good: complete in time, or held and closed by both sides, without an
    /// answer that reports an error.
    fn good(&self, result: &ConnectResult, in_time: Option<u64>) -> u64 {
        let counts = &result.counts;
        let good = match self.load {
            ConnectionLoad::Rate => in_time.unwrap_or(counts.completed),
            ConnectionLoad::Held => counts.completed.saturating_sub(counts.ended_by_server),
        };
        let errors = result.frames.error_answers.div_ceil(u64::from(self.connect.requests).max(1));
        good.saturating_sub(errors)
    }

    /// Waits until the devices have forgotten the last trial.
    fn rest(&self, stop: &Stop) {
        let Some(ended) = self.ended.get() else { return };
        while ended.elapsed() < self.rest && !stop.is_set() {
            std::thread::sleep(POLL_INTERVAL.max(Duration::from_millis(20)).min(self.rest));
        }
    }
}

impl RunsTrials for ConnectionTester {
    fn shape(&self) -> TrafficShape {
        let connections = match self.load {
            ConnectionLoad::Rate => ConnectionsShape::Rate,
            ConnectionLoad::Held => ConnectionsShape::Held,
        };
        TrafficShape { connections: Some(connections), ..TrafficShape::default() }
    }

    /// Opens the connections of the load, and waits until all of them have ended: the server has no
    /// work left for the next trial.
    fn run(&self, request: &TrialRequest, stop: &Stop) -> Result<TrialResult, Failure> {
        self.rest(stop);
        let args = self.arguments(request.load_pps, request.duration_ns);
        let setup = Setup::of(&args)?;
        let act = format!("connect by {}", setup.request.ifname);
        let failed = |why| Failure::engine(&act, why, args.netns.as_deref());
        let (started, ticks) = (Instant::now(), CpuTicks::read());
        let connecting = Connecting::start(setup.request).map_err(failed)?;
        let in_time = watch(&connecting, request, self.settle, stop);
        let result = connecting.result().map_err(failed)?;
        let elapsed_ns = started.elapsed().as_nanos() as u64;
        self.ended.set(Some(Instant::now()));
        let steal_ppb = CpuTicks::read().zip(ticks).map_or(0, |(now, earlier)| now.steal_ppb_since(&earlier));
        // Of held connections a trial has as many as its load; of others, the load in its time.
        let expected = match self.load {
            ConnectionLoad::Rate => request.frames,
            ConnectionLoad::Held => request.load_pps,
        };
        let not_opened = expected.saturating_sub(result.counts.tried);
        let good = self.good(&result, in_time).min(result.counts.tried);
        let scaled = |count: u64| {
            (u128::from(count) * u128::from(request.frames) / u128::from(expected.max(1))) as u64
        };
        let sent = scaled(expected - not_opened);
        Ok(TrialResult {
            sent,
            // Rounded down, so that one lost connection is not rounded away.
            unique: scaled(good).min(sent),
            elapsed_ns,
            steal_ppb,
            causes: causes(not_opened, &result),
            ..TrialResult::default()
        })
    }
}

/// Waits for the end. Returns the number of connections that were complete `settle` after the last
/// one was opened; `None` if all had ended before.
fn watch(connecting: &Connecting, request: &TrialRequest, settle: Duration, stop: &Stop) -> Option<u64> {
    let opening = Duration::from_nanos(request.duration_ns + (request.duration_ns / 1000).max(LATE_NS_MIN));
    // The sender gets ready before it opens the first one.
    let (mut started, mut opened, mut in_time) = (None::<Instant>, None, None);
    while !connecting.wait_for_end(POLL_INTERVAL) {
        if stop.is_set() {
            connecting.stop();
        }
        let counts = connecting.program().counts();
        if counts.tried > 0 {
            started.get_or_insert_with(Instant::now);
        }
        if counts.tried >= request.frames || started.is_some_and(|started| started.elapsed() >= opening) {
            opened.get_or_insert_with(Instant::now);
        }
        if in_time.is_none() && opened.is_some_and(|opened| opened.elapsed() >= settle) {
            in_time = Some(connecting.program().counts().completed);
        }
    }
    in_time
}

/// What may have kept the sender from opening all connections.
fn causes(not_opened: u64, result: &ConnectResult) -> Vec<String> {
    if not_opened == 0 {
        return Vec::new();
    }
    let text = match result.frames.no_port {
        0 => "the sender was too slow to open all connections".to_owned(),
        count => format!("{} connections found no free port: --src needs more addresses", human_count(count)),
    };
    vec![text]
}

/// Options that describe frames.
fn refuse_of_frames(args: &Args) -> Result<(), Failure> {
    let path = &args.path;
    let given = [
        (path.rx.is_some(), "--rx"),
        (path.bidirectional, "--bidirectional"),
        (path.reverse.is_some(), "--reverse"),
        (!path.sizes().is_empty(), "frame sizes"),
        (path.max_pps.is_some(), "--max-pps"),
        (path.min_pps.is_some(), "--min-pps"),
        (!args.flows.is_empty(), "--flows"),
        (!args.threads.is_empty(), "--threads"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(Failure::usage(
            format!("use {option} with --connections"),
            "a search of connections has the options of `wirerate connect`; --max-connections limits its loads",
        )
        .try_this(format!("the same without {option}"))),
        None => Ok(()),
    }
}

/// Options that the search gives to `connect` itself.
fn refuse_own(connect: &connections::Args, load: ConnectionLoad) -> Result<(), Failure> {
    let loads = "the search chooses the loads: --min-connections and --max-connections limit them";
    let given = [
        (connect.cps.is_some() && load == ConnectionLoad::Rate, "--cps", loads),
        (connect.open.is_some(), "--open", loads),
        (connect.hold.is_some(), "--hold", loads),
        (connect.count.is_some(), "--count", loads),
        (connect.duration.is_some(), "--duration", "the search chooses the lengths of its trials"),
        (!connect.expect.is_empty(), "--expect", "a trial has no checks: --loss is the goal"),
        (connect.ask_rate.is_some(), "--ask-rate", "a trial sends no requests on held connections"),
        (connect.group_by.is_some(), "--group-by", "a trial counts no groups"),
    ];
    match given.into_iter().find(|(is_given, ..)| *is_given) {
        Some((_, option, why)) => Err(Failure::usage(format!("use {option} in a search"), why)
            .try_this(format!("the same without {option}"))),
        None => Ok(()),
    }
}

/// Options read as those of `wirerate connect`.
fn connect_args(device: &str, options: &[String]) -> Result<connections::Args, Failure> {
    let words = ["connect", device].into_iter().chain(options.iter().map(String::as_str));
    let parser = connections::Args::augment_args(clap::Command::new("connect").args_override_self(true));
    let matches = parser.try_get_matches_from(words);
    let args = matches.and_then(|matches| connections::Args::from_arg_matches(&matches));
    args.map_err(|error| {
        let text = error.to_string();
        let first = text.trim_start_matches("error: ").lines().take(2).collect::<Vec<_>>().join(" ");
        Failure::usage("use these options of connect", first).try_this("wirerate connect --help")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn tester(load: ConnectionLoad) -> ConnectionTester {
        let options = words("--dst 198.18.0.2:80 --src 198.18.64.0/24");
        ConnectionTester {
            connect: connect_args("c0", &options).unwrap(),
            load,
            settle: Duration::ZERO,
            rest: Duration::ZERO,
            facts: BTreeMap::new(),
            ended: std::cell::Cell::new(None),
        }
    }

    #[test]
    fn a_load_becomes_a_rate_or_a_number_of_held_connections() {
        let args = tester(ConnectionLoad::Rate).arguments(5000, BILLION);
        assert_eq!(
            (args.cps.map(units::FrameRate::pps), args.count.map(|count| count.0)),
            (Some(5000.0), Some(5000))
        );
        assert_eq!(args.duration.map(|time| time.0), Some(1_001_000_000));
        let args = tester(ConnectionLoad::Held).arguments(50_000, BILLION);
        assert_eq!((args.hold.map(|count| count.0), args.count.map(|count| count.0)), (Some(50_000), None));
        assert_eq!(args.duration.map(|time| time.0), Some(6_001_000_000), "5 s to open them, and 1 s");
    }

    #[test]
    fn held_connections_that_the_server_ended_are_not_good() {
        let mut result = ConnectResult::default();
        (result.counts.completed, result.counts.ended_by_server) = (100, 7);
        assert_eq!(tester(ConnectionLoad::Held).good(&result, None), 93);
        assert_eq!(tester(ConnectionLoad::Rate).good(&result, None), 100);
        assert_eq!(tester(ConnectionLoad::Rate).good(&result, Some(60)), 60, "40 were late");
        result.frames.error_answers = 5;
        assert_eq!(tester(ConnectionLoad::Rate).good(&result, None), 95);
        let mut tester = tester(ConnectionLoad::Rate);
        tester.connect.requests = 3;
        assert_eq!(tester.good(&result, None), 98, "5 of 300 answers are of 2 connections at least");
    }

    #[test]
    fn options_of_the_search_itself_are_refused() {
        let refused = |text: &str, load| {
            let all = words(&format!("--dst 198.18.0.2:80 --src 198.18.64.0/24 {text}"));
            connect_args("c0", &all).and_then(|args| refuse_own(&args, load)).is_err()
        };
        for text in ["--open 5", "--hold 5", "-c 5", "-t 5s", "--expect failed=0", "--cps 5", "--no-such"] {
            assert!(refused(text, ConnectionLoad::Rate), "{text}");
        }
        assert!(!refused("--cps 5k", ConnectionLoad::Held), "the rate of opening");
        assert!(!refused("--requests 5 --close reset", ConnectionLoad::Rate));
    }
}
