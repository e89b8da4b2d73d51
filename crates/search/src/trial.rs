//! One trial: what a procedure requests, what the tester counted, and whether the tester itself
//! disturbed it.

use crate::BILLION;
use facts::Described;
use serde::{Deserialize, Serialize};

/// Why a trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Warms up the device under test; its result is not used.
    WarmUp,
    /// The highest load of the search.
    MaxLoad,
    /// The rate at which an earlier trial's frames arrived.
    ForwardingRate,
    /// The bound that a coarser target or an earlier trial suggests.
    Refine,
    /// Looks for a missing bound outside the interval.
    Extend,
    /// Halves the interval.
    Bisect,
    /// Half of a load that lost few frames: does it lose the same share?
    HalfLoad,
    /// A point of a loss curve.
    LossPoint,
    /// A burst at the highest rate.
    Burst,
    /// Latency at a share of the throughput.
    Latency,
    /// Overload, then half of it.
    Recovery,
}

/// A second load that follows the first one without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct SecondPhase {
    /// Requested load of this phase.
    pub load_pps: u64,
    /// Requested duration of this phase.
    pub duration_ns: u64,
}

/// A trial to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct TrialRequest {
    /// What the trial is for.
    pub purpose: Purpose,
    /// Requested load.
    pub load_pps: u64,
    /// Requested duration.
    pub duration_ns: u64,
    /// Requested number of frames: load times duration, rounded.
    #[fact(unit = "frames")]
    pub frames: u64,
    /// Second phase of a recovery test; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<SecondPhase>,
}

impl TrialRequest {
    pub(crate) fn new(purpose: Purpose, load_pps: u64, duration_ns: u64) -> Self {
        Self { purpose, load_pps, duration_ns, frames: frames_of(load_pps, duration_ns), then: None }
    }

    /// Frames of both phases.
    #[must_use]
    pub fn all_frames(&self) -> u64 {
        self.frames + self.then.map_or(0, |phase| frames_of(phase.load_pps, phase.duration_ns))
    }

    /// The time in which frames are sent, both phases.
    #[must_use]
    pub fn sending_ns(&self) -> u64 {
        self.duration_ns + self.then.map_or(0, |phase| phase.duration_ns)
    }
}

/// Frames of `load_pps` in `duration_ns`, rounded to whole frames.
#[must_use]
pub fn frames_of(load_pps: u64, duration_ns: u64) -> u64 {
    let frames =
        (u128::from(load_pps) * u128::from(duration_ns) + u128::from(BILLION / 2)) / u128::from(BILLION);
    u64::try_from(frames).unwrap_or(u64::MAX)
}

/// The latency of one trial, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct LatencyFigures {
    /// Lowest latency.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Median: the typical latency of RFC 8219.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile: the worst case latency of RFC 8219.
    pub p99_9_ns: u64,
    /// Highest latency.
    pub max_ns: u64,
    /// Frames with a latency: those with a timestamp.
    #[fact(unit = "frames")]
    pub frames: u64,
    /// The distribution: pairs of a percentile in parts per billion and the latency in nanoseconds.
    #[fact(kind = Kind::List(&Kind::List(&Kind::Count(""))))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(u64, u64)>,
    /// Median, 99th percentile and maximum of each second.
    #[fact(kind = Kind::List(&Kind::List(&Kind::Count("ns"))))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<(u64, u64, u64)>,
}

/// What the tester counted in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct TrialResult {
    /// Frames that the driver accepted.
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Frames that the driver did not accept.
    #[fact(unit = "frames")]
    pub refused: u64,
    /// Received frames: first copies that arrived before the drain ended.
    #[fact(unit = "frames")]
    pub unique: u64,
    /// Received frames: further copies.
    #[fact(unit = "frames")]
    pub duplicate: u64,
    /// Received frames below the receive window: first copy or duplicate is unknown.
    #[fact(unit = "frames")]
    pub too_old: u64,
    /// Frames that the tester's own receiver dropped.
    #[fact(unit = "frames")]
    pub receiver_dropped: u64,
    /// From the first frame to the end of the drain.
    pub elapsed_ns: u64,
    /// Longest gap of the sender, between two of its frames.
    #[fact(unit = "ns")]
    pub gap_ns_max: u64,
    /// Sum of the sender's long gaps: those beyond the limit of `gap` or of `catch_up` in
    /// [search.md](search.md#disturbed-trials).
    #[serde(default)]
    pub paused_ns: u64,
    /// Lateness of the first frame of the sender.
    pub start_late_ns: u64,
    /// CPU time taken by the hypervisor from the CPUs of the tester, as a share of their time.
    pub steal_ppb: u64,
    /// Of a disturbed trial: why the sender of the tester was late or did not send all frames, in
    /// words such as `waited 87 % of the time for CPU 1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Latency; absent without timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyFigures>,
    /// Of a recovery test: when the last lost frame was due, from the first frame on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lost_ns: Option<u64>,
    /// Of a recovery test: when the first frame of the second phase was due, from the first frame
    /// on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_ns: Option<u64>,
}

impl TrialResult {
    /// Frames that were sent and did not arrive, of those sent.
    #[must_use]
    pub fn lost(&self) -> TrialLoss {
        TrialLoss { lost: self.sent.saturating_sub(self.unique), whole: self.sent }
    }

    /// Frames of the trial that the tester did not send.
    #[must_use]
    pub fn not_sent(&self, request: &TrialRequest) -> u64 {
        request.all_frames().saturating_sub(self.sent)
    }

    /// Frames that did not arrive, and frames that should have been sent and were not (or were sent
    /// without being requested), of the larger of the requested and the sent number.
    #[must_use]
    pub fn loss(&self, frames: u64) -> TrialLoss {
        let lost = self.sent.saturating_sub(self.unique);
        let whole = frames.max(self.sent);
        TrialLoss { lost: (lost + frames.abs_diff(self.sent)).min(whole), whole }
    }

    /// What of the tester's side could have caused loss.
    #[must_use]
    pub fn disturbances(&self, request: &TrialRequest, limits: &TesterLimits) -> Vec<Disturbance> {
        let share =
            |ppb: u64| (u128::from(request.sending_ns()) * u128::from(ppb) / u128::from(BILLION)) as u64;
        let interval_ns = BILLION / request.load_pps.max(1);
        let found = [
            (
                self.gap_ns_max > share(limits.gap_ppb_max).max(limits.burst_ns_min) + interval_ns,
                Disturbance::Gap,
            ),
            (self.gap_ns_max > limits.burst_ns(request.load_pps), Disturbance::CatchUp),
            (self.start_late_ns > share(limits.gap_ppb_max), Disturbance::LateStart),
            (self.refused > 0, Disturbance::Refused),
            (self.steal_ppb > limits.steal_ppb_max, Disturbance::Steal),
            (self.receiver_dropped > 0, Disturbance::ReceiverDropped),
            (self.sent < request.all_frames(), Disturbance::Behind),
        ];
        found.into_iter().filter(|(is_found, _)| *is_found).map(|(_, cause)| cause).collect()
    }

    /// The largest number of frames that the tester itself could have lost. Frames that it did not
    /// send or receive are known. After a pause the sender catches up, so the device gets the
    /// frames of the pause in addition to its load, and could lose them.
    #[must_use]
    pub fn lost_by_tester(&self, request: &TrialRequest, limits: &TesterLimits) -> u64 {
        let disturbances = self.disturbances(request, limits);
        let has = |cause| disturbances.contains(&cause);
        let is_paused = has(Disturbance::Gap) || has(Disturbance::CatchUp);
        let paused_ns = if is_paused { self.paused_ns.max(self.gap_ns_max) } else { 0 };
        let late_ns = if has(Disturbance::LateStart) { self.start_late_ns } else { 0 };
        let stolen_ns = if has(Disturbance::Steal) {
            u128::from(request.sending_ns()) * u128::from(self.steal_ppb) / u128::from(BILLION)
        } else {
            0
        };
        let lost_ns = paused_ns.saturating_add(late_ns).saturating_add(stolen_ns as u64);
        frames_of(request.load_pps, lost_ns)
            .saturating_add(self.receiver_dropped)
            .saturating_add(request.all_frames().abs_diff(self.sent))
    }
}

/// A loss ratio as two numbers, so that it is compared exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialLoss {
    /// Lost frames.
    pub lost: u64,
    /// Frames of the trial.
    pub whole: u64,
}

impl TrialLoss {
    /// Whether the ratio is larger than `ratio_ppb`.
    #[must_use]
    pub fn exceeds(self, ratio_ppb: u64) -> bool {
        u128::from(self.lost) * u128::from(BILLION) > u128::from(ratio_ppb) * u128::from(self.whole)
    }

    /// The ratio in parts per billion, rounded up so that any loss is above zero.
    #[must_use]
    pub fn ppb(self) -> u64 {
        let whole = u128::from(self.whole.max(1));
        (u128::from(self.lost) * u128::from(BILLION)).div_ceil(whole) as u64
    }

    /// The forwarding rate at `load_pps`, rounded down.
    pub(crate) fn forwarded_pps(self, load_pps: u64) -> u64 {
        let arrived = u128::from(self.whole - self.lost);
        (u128::from(load_pps) * arrived / u128::from(self.whole.max(1))) as u64
    }
}

/// Limits beyond which the tester's side counts as disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TesterLimits {
    /// Longest gap between two frames, as a share of the trial.
    pub gap_ppb_max: u64,
    /// Longest gap in frames of the intended load: the sender catches up at most that many at once.
    pub burst_frames_max: u64,
    /// Gaps up to this are no disturbance at any load: at 10 Mpps an interrupt takes the time of
    /// more than 64 frames.
    pub burst_ns_min: u64,
    /// Share of CPU time taken by the hypervisor.
    pub steal_ppb_max: u64,
}

impl Default for TesterLimits {
    fn default() -> Self {
        Self {
            gap_ppb_max: BILLION / 1000,
            burst_frames_max: 64,
            burst_ns_min: 50_000,
            steal_ppb_max: BILLION / 100,
        }
    }
}

impl TesterLimits {
    /// The longest gap after which the sender catches up with few frames.
    fn burst_ns(&self, load_pps: u64) -> u64 {
        let burst_ns = u128::from(self.burst_frames_max) * u128::from(BILLION) / u128::from(load_pps.max(1));
        u64::try_from(burst_ns).unwrap_or(u64::MAX).max(self.burst_ns_min)
    }

    /// Gaps longer than this are pauses of the sender.
    #[must_use]
    pub fn pause_ns(&self, request: &TrialRequest) -> u64 {
        let share = u128::from(request.sending_ns()) * u128::from(self.gap_ppb_max) / u128::from(BILLION);
        let gap_ns = (share as u64).max(self.burst_ns_min) + BILLION / request.load_pps.max(1);
        gap_ns.min(self.burst_ns(request.load_pps))
    }
}

/// A fault of the tester during a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// The sender paused for too large a share of the trial.
    Gap,
    /// The sender paused for more frames than it may catch up at once.
    CatchUp,
    /// The first frame left late.
    LateStart,
    /// The driver did not accept all frames.
    Refused,
    /// The hypervisor took CPU time.
    Steal,
    /// The tester's own receiver dropped frames.
    ReceiverDropped,
    /// The sender did not send all frames within the duration.
    Behind,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> TrialRequest {
        TrialRequest::new(Purpose::Bisect, 1000, BILLION)
    }

    #[test]
    fn frames_are_rounded_to_the_nearest() {
        assert_eq!(frames_of(3, BILLION / 2), 2);
        assert_eq!(frames_of(1_000_001, BILLION / 1000), 1000);
        assert_eq!(frames_of(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn unsent_frames_count_as_lost() {
        let result = TrialResult { sent: 990, unique: 985, ..TrialResult::default() };
        assert_eq!(result.loss(1000), TrialLoss { lost: 15, whole: 1000 });
        let more = TrialResult { sent: 1010, unique: 1010, ..TrialResult::default() };
        assert_eq!(more.loss(1000), TrialLoss { lost: 10, whole: 1010 });
    }

    #[test]
    fn a_ratio_that_is_exactly_the_goal_is_no_excess() {
        let loss = TrialLoss { lost: 5, whole: 1000 };
        assert!(!loss.exceeds(5_000_000));
        assert!(loss.exceeds(4_999_999));
        assert!(TrialLoss { lost: 1, whole: u64::MAX }.exceeds(0));
        assert_eq!(TrialLoss { lost: 1, whole: u64::MAX }.ppb(), 1);
    }

    #[test]
    fn each_fault_of_the_tester_is_named() {
        let disturbed = |result: TrialResult| result.disturbances(&request(), &TesterLimits::default());
        let clean = TrialResult { sent: 1000, unique: 1000, gap_ns_max: 2_000_000, ..TrialResult::default() };
        assert_eq!(disturbed(clean.clone()), []);
        assert_eq!(disturbed(TrialResult { gap_ns_max: 2_000_001, ..clean.clone() }), [Disturbance::Gap]);
        let long = TrialResult { gap_ns_max: BILLION / 10, ..clean.clone() };
        assert_eq!(disturbed(long), [Disturbance::Gap, Disturbance::CatchUp]);
        assert_eq!(disturbed(TrialResult { refused: 1, ..clean.clone() }), [Disturbance::Refused]);
        assert_eq!(disturbed(TrialResult { steal_ppb: 10_000_001, ..clean.clone() }), [Disturbance::Steal]);
        assert_eq!(
            disturbed(TrialResult { start_late_ns: 2_000_000, ..clean.clone() }),
            [Disturbance::LateStart]
        );
        assert_eq!(
            disturbed(TrialResult { receiver_dropped: 1, ..clean.clone() }),
            [Disturbance::ReceiverDropped]
        );
        assert_eq!(disturbed(TrialResult { sent: 999, ..clean }), [Disturbance::Behind]);
    }

    #[test]
    fn an_interrupt_at_10_mpps_is_no_disturbance() {
        let request = TrialRequest::new(Purpose::Bisect, 10_000_000, BILLION);
        let limits = TesterLimits::default();
        let result = |gap_ns_max| TrialResult { sent: 10_000_000, gap_ns_max, ..TrialResult::default() };
        assert_eq!(result(50_000).disturbances(&request, &limits), []);
        assert_eq!(result(50_001).disturbances(&request, &limits), [Disturbance::CatchUp]);
        assert_eq!(limits.pause_ns(&request), 50_000);
    }

    #[test]
    fn the_tester_explains_frames_not_sent_not_received_and_those_of_its_pauses() {
        let limits = TesterLimits::default();
        let lost = |result: TrialResult| result.lost_by_tester(&request(), &limits);
        let clean = TrialResult { sent: 1000, unique: 1000, ..TrialResult::default() };
        assert_eq!(lost(clean.clone()), 0);
        assert_eq!(lost(TrialResult { sent: 990, receiver_dropped: 5, ..clean.clone() }), 15);
        let paused = TrialResult { gap_ns_max: 10_000_000, paused_ns: 30_000_000, ..clean.clone() };
        assert_eq!(lost(paused), 30);
        assert_eq!(lost(TrialResult { steal_ppb: BILLION / 20, ..clean }), 50);
    }
}
