//! Pauses and changes of rate of a run that sends, and the list of them for the report.

use engine::{Limits, Pace, RunHandle};
use facts::Described;
use packet::Rate;
use program::run_control::{NewRate, RunControl};
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{human_bps, human_duration, human_pps};

/// A change of rate while frames were sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
pub struct RateChange {
    /// Time of the change, since the first frame.
    pub elapsed_ns: u64,
    /// True if the run was paused from then on.
    pub paused: bool,
    /// Frames per second that were asked for from then on; `null` without that rate.
    pub asked_pps: Option<f64>,
    /// Bits per second on the wire that were asked for from then on; `null` without that rate.
    pub asked_wire_bps: Option<f64>,
}

impl fmt::Display for RateChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} on", self.state(), human_duration(self.elapsed_ns))
    }
}

impl RateChange {
    /// `paused`, `1.000 Mpps`.
    fn state(&self) -> String {
        match (self.paused, self.asked_pps, self.asked_wire_bps) {
            (true, ..) => "paused".to_owned(),
            (false, Some(pps), _) => human_pps(pps),
            (false, None, Some(bps)) => format!("{} on the wire", human_bps(bps)),
            (false, None, None) => "its first pace".to_owned(),
        }
    }
}

/// The controls of the runs of one command.
#[derive(Debug)]
pub struct SendControl {
    runs: Vec<(Arc<RunHandle>, Limits)>,
    state: Mutex<PaceState>,
}

#[derive(Debug)]
struct PaceState {
    /// Of each run, while it is not paused.
    paces: Vec<Pace>,
    is_paused: bool,
    changes: Vec<RateChange>,
}

impl SendControl {
    /// Of runs with these limits.
    pub fn new(runs: Vec<(Arc<RunHandle>, Limits)>) -> Self {
        let paces = runs.iter().map(|(_, limits)| limits.pace).collect();
        Self { runs, state: Mutex::new(PaceState { paces, is_paused: false, changes: Vec::new() }) }
    }

    /// What was changed so far.
    pub fn changes(&self) -> Vec<RateChange> {
        self.lock().changes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, PaceState> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the runs have the state. Returns the change.
    fn apply(&self, state: &mut PaceState) -> RateChange {
        for ((handle, limits), pace) in self.runs.iter().zip(&state.paces) {
            let pace = if state.is_paused { Pace::Never } else { *pace };
            handle.set_limits(Limits { pace, ..*limits });
        }
        let started_ns = self.runs.iter().map(|(handle, _)| handle.snapshot().started_ns);
        // 0 is a run that has not started.
        let started_ns = started_ns.filter(|ns| *ns > 0).min().unwrap_or(u64::MAX);
        let change = RateChange {
            elapsed_ns: host::monotonic_ns().saturating_sub(started_ns),
            paused: state.is_paused,
            asked_pps: sum(&state.paces, Pace::frames_per_second),
            asked_wire_bps: sum(&state.paces, Pace::wire_bps),
        };
        state.changes.push(change);
        change
    }
}

/// The sum if all have one.
fn sum(paces: &[Pace], of: impl Fn(Pace) -> Option<f64>) -> Option<f64> {
    paces.iter().map(|pace| of(*pace)).sum()
}

impl RunControl for SendControl {
    fn set_pause(&self, is_paused: bool) -> String {
        let mut state = self.lock();
        if state.is_paused == is_paused {
            return if is_paused { "it is paused already" } else { "it is not paused" }.to_owned();
        }
        state.is_paused = is_paused;
        match self.apply(&mut state) {
            change if change.paused => change.to_string(),
            change => format!("sending goes on: {change}"),
        }
    }

    fn set_rate(&self, rate: NewRate) -> Result<String, String> {
        let mut state = self.lock();
        let paces = new_paces(&state.paces, rate)?;
        state.paces = paces;
        Ok(self.apply(&mut state).to_string())
    }

    fn is_paused(&self) -> bool {
        self.lock().is_paused
    }
}

/// The paces of the runs for a new rate of all together. Each run keeps its share of the rate; runs
/// without a rate get equal shares.
fn new_paces(paces: &[Pace], rate: NewRate) -> Result<Vec<Pace>, String> {
    let scaled = |times: f64| paces.iter().map(|pace| pace.scaled(times)).collect::<Option<Vec<Pace>>>();
    match rate {
        NewRate::Times(times) => {
            scaled(times).ok_or_else(|| "there is no constant rate to change: set a rate first".to_owned())
        }
        NewRate::Of(rate) => {
            let per_second =
                |pace: Pace| rate.pps().map_or_else(|| pace.wire_bps(), |_| pace.frames_per_second());
            let present = sum(paces, per_second).filter(|present| *present > 0.0);
            let new = rate.pps().or(rate.wire_bps()).unwrap_or(0.0);
            let in_proportion = present.filter(|_| paces.len() > 1).and_then(|present| scaled(new / present));
            Ok(in_proportion.unwrap_or_else(|| equal_parts(paces, rate)))
        }
    }
}

/// Equal parts of `rate`, each at least 1, with the arrivals of `paces`.
fn equal_parts(paces: &[Pace], rate: Rate) -> Vec<Pace> {
    let count = paces.len() as u64;
    let part = |(index, pace): (u64, &Pace)| {
        let amount = rate.divisible().map_or(1, |whole| whole / count + u64::from(index < whole % count));
        rate.with_part(amount.max(1), count).map_or(Pace::Never, |part| pace.with_rate(part))
    };
    (0..).zip(paces).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pps(rates: &[u64]) -> Vec<Pace> {
        rates.iter().map(|rate| Pace::from_pps(*rate)).collect()
    }

    #[test]
    fn threads_keep_their_shares_of_a_rate() {
        let of = |rate: Option<Rate>| NewRate::Of(rate.unwrap());
        assert_eq!(new_paces(&pps(&[1000, 2000]), NewRate::Times(1.1)), Ok(pps(&[1100, 2200])));
        assert_eq!(new_paces(&pps(&[1000, 2000]), of(Rate::from_pps(1500))), Ok(pps(&[500, 1000])));
        assert_eq!(new_paces(&pps(&[999]), of(Rate::from_pps(1_234_567))), Ok(pps(&[1_234_567])));
        assert_eq!(new_paces(&[Pace::Unpaced; 3], of(Rate::from_pps(100))), Ok(pps(&[34, 33, 33])));
        let wire = Pace::from_wire_bps;
        assert_eq!(
            new_paces(&[Pace::Unpaced; 2], of(Rate::from_wire_bps(101))),
            Ok(vec![wire(51), wire(50)])
        );
    }

    #[test]
    fn a_run_as_fast_as_possible_has_no_rate_to_change() {
        let why = new_paces(&[Pace::Unpaced], NewRate::Times(0.9)).unwrap_err();
        assert_eq!(why, "there is no constant rate to change: set a rate first");
    }

    #[test]
    fn changes_are_listed_and_the_runs_get_their_limits() {
        let handle = Arc::new(RunHandle::default());
        let limits = Limits { count: 7, pace: Pace::from_pps(1000), ..Limits::default() };
        let control = SendControl::new(vec![(handle, limits)]);
        assert!(control.set_pause(true).starts_with("paused from "));
        assert_eq!(control.set_pause(true), "it is paused already");
        assert!(control.is_paused());
        assert!(
            control.set_rate(NewRate::Times(2.0)).unwrap().starts_with("paused from "),
            "it stays paused"
        );
        assert!(control.set_pause(false).starts_with("sending goes on: 2.000 kpps from "));
        let changes = control.changes();
        assert_eq!(changes.iter().map(|change| change.paused).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(changes[2].asked_pps, Some(2000.0));
        assert_eq!(changes[2].state(), "2.000 kpps");
    }
}
