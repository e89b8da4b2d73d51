//! Throughput search (RFC 9971): which load comes next, for several goals at once.
//!
//! The first trials go to the highest load and to the forwarding rates that it shows. Then each
//! goal climbs its ladder of targets, coarser ones first; the trials of all goals count for all.
//! For one target the search extends the interval until both bounds exist and then halves it. The
//! next trial follows from the trials so far alone, apart from the number of extensions.

use crate::BILLION;
use crate::any_load::{self, AtHalf};
use crate::attempts::{Attempts, LoggedTrial, Settled, Verdict};
use crate::bounds::{Bounds, TrialsByLoad};
use crate::goal::{Goal, GoalError, GoalTarget};
use crate::procedure::Procedure;
use crate::trial::{Purpose, TesterLimits, TrialLoss, TrialRequest, TrialResult};
use facts::Described;
use serde::{Deserialize, Serialize};

/// The search continues below its undecided loads when it could not decide more loads than this.
const UNDECIDED_MAX: usize = 2;
/// The first time at a load that has passed a trial and is at most this share below the lowest of
/// them, in parts per billion, else by this share; then by twice as much each time.
const LOWERED_PPB: u64 = BILLION / 20;
/// And each time by no more than this.
const LOWERED_PPB_MAX: u64 = BILLION / 2;
/// A load beside an undecided one is a quarter of the width of the target away, doubled at most so
/// often.
const WIDENINGS_MAX: u32 = 10;

/// Where a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// At the highest load, then at the rates at which frames arrived.
    ForwardingRate,
    /// At both ends of the range of loads, then in its middle: a plain binary search.
    Range,
}

/// What a search is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchSettings {
    /// The goals; all trials count for all of them.
    pub goals: Vec<Goal>,
    /// Lowest load.
    pub min_load_pps: u64,
    /// Highest load: of the medium or of the tester.
    pub max_load_pps: u64,
    /// Duration of a first trial at the highest load whose result is not used; 0 for none.
    pub warm_up_ns: u64,
    /// Where the search begins.
    pub start: Start,
    /// The search ends before it takes longer.
    pub budget_ns: Option<u64>,
    /// How often a disturbed trial with loss is repeated.
    pub repeats_max: u32,
    /// When a trial counts as disturbed.
    pub limits: TesterLimits,
}

impl SearchSettings {
    /// The defaults for these goals and loads: no warm-up, no budget, three repeats.
    #[must_use]
    pub fn new(goals: Vec<Goal>, min_load_pps: u64, max_load_pps: u64) -> Self {
        Self {
            goals,
            min_load_pps,
            max_load_pps,
            warm_up_ns: 0,
            start: Start::ForwardingRate,
            budget_ns: None,
            repeats_max: 3,
            limits: TesterLimits::default(),
        }
    }
}

/// How the search for a goal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum GoalEnd {
    /// Both bounds exist and are as close as the goal requires: a regular goal result of RFC 9971.
    Regular,
    /// The highest load is a lower bound: the throughput is at least that.
    MaxLoadReached,
    /// The lowest load is an upper bound: the throughput is below it.
    BelowMinLoad,
    /// Half of a load that loses few frames loses the same share, more than the goal allows: the
    /// loss does not depend on the load.
    NoLoadPasses,
    /// The search ended before the bounds were close enough.
    Unfinished,
    /// All repeats at some loads were disturbed: the bounds that other loads gave.
    Disturbed,
    /// The machine of the tester could not send higher loads, or disturbed every trial there. The
    /// throughput is at least the lower bound.
    LimitedByTester,
}

impl GoalEnd {
    /// True if it is known that no load passes.
    #[must_use]
    pub const fn has_no_load(self) -> bool {
        matches!(self, Self::BelowMinLoad | Self::NoLoadPasses)
    }

    /// True if the throughput is only known to be at least the lower bound: nothing above it was
    /// tried or decided, so there is no upper bound.
    #[must_use]
    pub const fn is_at_least(self, upper_pps: Option<u64>) -> bool {
        matches!(self, Self::MaxLoadReached | Self::LimitedByTester) && upper_pps.is_none()
    }
}

/// The result for one goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Described)]
pub struct GoalResult {
    /// The goal.
    #[serde(flatten)]
    pub goal: Goal,
    /// How the search for the goal ended.
    pub end: GoalEnd,
    /// Relevant lower bound: the throughput; `null` if there is none.
    pub lower_pps: Option<u64>,
    /// Relevant upper bound; `null` if there is none.
    pub upper_pps: Option<u64>,
    /// Conditional throughput at the lower bound; `null` if there is no such bound.
    pub conditional_pps: Option<u64>,
    /// True if the bounds are those of a coarser target, because the goal itself has none yet.
    pub is_coarse: bool,
}

impl GoalResult {
    const fn of(goal: Goal, end: GoalEnd, bounds: Bounds) -> Self {
        let Bounds { lower_pps, upper_pps } = bounds;
        Self { goal, end, lower_pps, upper_pps, conditional_pps: None, is_coarse: false }
    }
}

/// The trial to run, and for which target.
#[derive(Clone, Copy, Debug)]
struct Nomination {
    purpose: Purpose,
    load_pps: u64,
    /// Goal and step of its ladder.
    target: Option<(usize, usize)>,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub struct ThroughputSearch {
    settings: SearchSettings,
    /// The ladder of each goal.
    ladders: Vec<Vec<GoalTarget>>,
    /// How often each target extended its interval in a row.
    extensions: Vec<Vec<u32>>,
    trials: TrialsByLoad,
    is_warm: bool,
    /// Loads of the first trials, until the search climbs the ladders.
    first_loads: Vec<u64>,
    /// The first trials are done; the interval they suggest.
    first_interval: Option<(u64, u64)>,
    /// Half of the first load that lost few frames, where trials show whether that depends on the
    /// load.
    half_pps: Option<u64>,
    has_tried_half: bool,
    /// Loads at which all repeats of a trial were disturbed. No further trial runs there.
    undecided: Vec<u64>,
    /// The sender does not reach the lowest load, or disturbs all trials down to it.
    is_given_up: bool,
    /// How often the highest load was lowered because of the tester.
    lowered: u32,
    attempts: Attempts,
}

impl ThroughputSearch {
    /// A search that has not run a trial yet.
    ///
    /// # Errors
    /// When a goal or the range of loads is not valid.
    pub fn new(settings: SearchSettings) -> Result<Self, GoalError> {
        if settings.goals.is_empty() {
            return Err(GoalError::None);
        }
        for goal in &settings.goals {
            goal.check()?;
        }
        if settings.min_load_pps == 0 || settings.min_load_pps >= settings.max_load_pps {
            return Err(GoalError::Loads);
        }
        let ladders: Vec<_> = settings.goals.iter().map(Goal::ladder).collect();
        let range = (settings.min_load_pps, settings.max_load_pps);
        Ok(Self {
            extensions: ladders.iter().map(|ladder| vec![0; ladder.len()]).collect(),
            ladders,
            trials: TrialsByLoad::default(),
            is_warm: settings.warm_up_ns == 0,
            first_loads: Vec::new(),
            first_interval: (settings.start == Start::Range).then_some(range),
            half_pps: None,
            has_tried_half: false,
            undecided: Vec::new(),
            is_given_up: false,
            lowered: 0,
            attempts: Attempts::new(settings.limits, settings.repeats_max),
            settings,
        })
    }

    /// Time of all trials so far.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.attempts.elapsed_ns()
    }

    /// The results so far, one for each goal in the order of the settings.
    #[must_use]
    pub fn results(&self) -> Vec<GoalResult> {
        (0..self.settings.goals.len()).map(|goal| self.result(goal)).collect()
    }

    fn result(&self, goal_index: usize) -> GoalResult {
        let goal = self.settings.goals[goal_index];
        let bounds = self.trials.bounds(&goal);
        let end = if self.loses_at_any_load(&goal) {
            let bounds = Bounds { lower_pps: None, ..bounds };
            return GoalResult::of(goal, GoalEnd::NoLoadPasses, bounds);
        } else if bounds.are_within(goal.width_ppb) {
            GoalEnd::Regular
        } else if bounds.lower_pps.is_some_and(|lower| lower >= self.settings.max_load_pps) {
            if self.lowered > 0 { GoalEnd::LimitedByTester } else { GoalEnd::MaxLoadReached }
        } else if bounds.upper_pps == Some(self.settings.min_load_pps) {
            GoalEnd::BelowMinLoad
        } else if self.is_given_up {
            GoalEnd::LimitedByTester
        } else if !self.undecided.is_empty() {
            GoalEnd::Disturbed
        } else {
            GoalEnd::Unfinished
        };
        let coarse = || {
            let mut steps =
                self.ladders[goal_index].iter().rev().map(|target| self.trials.bounds(&target.goal));
            steps.find(|bounds| *bounds != Bounds::default())
        };
        let is_coarse = bounds == Bounds::default();
        let shown = if is_coarse { coarse().unwrap_or_default() } else { bounds };
        GoalResult {
            conditional_pps: bounds.lower_pps.map(|load| self.trials.conditional_pps(&goal, load)),
            is_coarse: is_coarse && shown != Bounds::default(),
            ..GoalResult::of(goal, end, shown)
        }
    }

    /// What kept the tester from higher loads, in words; `None` if nothing did.
    #[must_use]
    pub fn limited_by(&self) -> Option<String> {
        let results = self.results();
        if !results.iter().any(|goal| goal.end == GoalEnd::LimitedByTester) {
            return None;
        }
        let mut causes = self.attempts.log().iter().rev().filter(|trial| trial.verdict == Verdict::Disturbed);
        let named = causes.find_map(|trial| trial.result.causes.first().cloned());
        Some(named.unwrap_or_else(|| "the sender did not reach higher loads without pauses".to_owned()))
    }

    /// Loss ratio, trial duration and width of the first trials: they serve all goals.
    fn first_target(&self) -> (u64, u64, u64) {
        let coarsest = self.ladders.iter().map(|ladder| ladder[0]);
        let loss = self.settings.goals.iter().map(|goal| goal.loss_ratio_ppb).min().unwrap_or(0);
        let trial_ns = coarsest.clone().map(|target| target.goal.trial_ns).max().unwrap_or(0);
        (loss, trial_ns, coarsest.map(|target| target.width_ppb).max().unwrap_or(0))
    }

    fn at_half(&self) -> Option<AtHalf> {
        self.half_pps.map(|half_pps| any_load::at_half(&self.trials, half_pps))
    }

    /// True if trials showed that frames are lost at any load, and more than the goal allows.
    fn loses_at_any_load(&self, goal: &Goal) -> bool {
        let allowed = goal.loss_ratio_ppb.saturating_mul(2);
        matches!(self.at_half(), Some(AtHalf::LosesAsMuch(ppb)) if ppb > allowed)
    }

    fn nominate(&self) -> Option<(Nomination, u64)> {
        let max_load = self.settings.max_load_pps;
        if !self.is_warm {
            let warm_up = Nomination { purpose: Purpose::WarmUp, load_pps: max_load, target: None };
            return Some((warm_up, self.settings.warm_up_ns));
        }
        if let Some(load_pps) = self.half_pps.filter(|_| self.at_half() == Some(AtHalf::Unknown)) {
            let nomination = Nomination { purpose: Purpose::HalfLoad, load_pps, target: None };
            return Some((nomination, self.first_target().1));
        }
        let is_open = |goal: &Goal| !self.loses_at_any_load(goal);
        if self.first_interval.is_none() && self.settings.goals.iter().any(is_open) {
            let load_pps = self.first_loads.last().copied();
            let purpose = if load_pps.is_some() { Purpose::ForwardingRate } else { Purpose::MaxLoad };
            let load_pps = load_pps.unwrap_or(max_load).min(max_load);
            return Some((Nomination { purpose, load_pps, target: None }, self.first_target().1));
        }
        let steps = self.ladders.iter().map(Vec::len).max().unwrap_or(0);
        for step in 0..steps {
            for (goal, ladder) in self.ladders.iter().enumerate().filter(|(_, ladder)| step < ladder.len()) {
                if let Some((purpose, load_pps)) = self.nominate_for(goal, step) {
                    let load_pps = load_pps.min(max_load);
                    let target = Some((goal, step));
                    return Some((Nomination { purpose, load_pps, target }, ladder[step].goal.trial_ns));
                }
            }
        }
        None
    }

    /// The next load for one target; `None` when it has its bounds, or when no load is left that
    /// the tester has not given up.
    fn nominate_for(&self, goal: usize, step: usize) -> Option<(Purpose, u64)> {
        if self.loses_at_any_load(&self.settings.goals[goal]) {
            return None;
        }
        let target = &self.ladders[goal][step];
        let bounds = self.trials.bounds(&target.goal);
        let (purpose, load_pps) = self.next_load(goal, step, bounds)?;
        let load_pps = self.beside_edge(target, bounds, load_pps);
        if !self.undecided.contains(&load_pps) {
            return Some((purpose, load_pps));
        }
        // A load farther from the truth loses more than the tester explains, or nothing.
        let lowest = bounds.lower_pps.map_or(self.settings.min_load_pps, |lower| lower + 1);
        let highest = bounds.upper_pps.map_or(self.settings.max_load_pps, |upper| upper - 1);
        let beside = |times| {
            let distance = share(load_pps, target.width_ppb / 4, times);
            [load_pps.saturating_add(distance), load_pps.saturating_sub(distance)]
        };
        let is_possible = |load: &u64| (lowest..=highest).contains(load) && !self.undecided.contains(load);
        Some((purpose, (0..=WIDENINGS_MAX).flat_map(beside).find(is_possible)?))
    }

    /// At the edge, some trials pass and others do not, so no load is decided soon. Loads half of
    /// the width below and above it are, and together they are bounds that are close enough.
    fn beside_edge(&self, target: &GoalTarget, bounds: Bounds, load_pps: u64) -> u64 {
        let has_both = bounds.lower_pps.is_some() && bounds.upper_pps.is_some();
        let edge = match self.trials.is_mixed(&target.goal, load_pps) {
            true => Some(load_pps),
            false if has_both => None,
            false => self.trials.only_mixed(&target.goal, bounds),
        };
        let Some(edge) = edge else { return load_pps };
        let distance = share(edge, target.width_ppb / 2, 0);
        let below = edge.saturating_sub(distance);
        let above = edge.saturating_add(distance);
        let is_left = |load: &u64| {
            let is_inside = bounds.lower_pps.is_none_or(|lower| *load > lower)
                && bounds.upper_pps.is_none_or(|upper| *load < upper);
            let range = self.settings.min_load_pps..=self.settings.max_load_pps;
            is_inside && range.contains(load) && !self.trials.is_mixed(&target.goal, *load)
        };
        let wanted = match (bounds.lower_pps, bounds.upper_pps) {
            (None, _) => [below, above],
            (Some(_), None) => [above, above],
            (Some(_), Some(_)) => [above, below],
        };
        wanted.into_iter().find(is_left).unwrap_or(load_pps)
    }

    fn next_load(&self, goal: usize, step: usize, bounds: Bounds) -> Option<(Purpose, u64)> {
        let target = &self.ladders[goal][step];
        let (start_lower, start_upper) = self.start_of(goal, step);
        let (min_load, max_load) = (self.settings.min_load_pps, self.settings.max_load_pps);
        let extensions = self.extensions[goal][step];
        match (bounds.lower_pps, bounds.upper_pps) {
            (Some(_), Some(_)) if bounds.are_within(target.width_ppb) => None,
            (Some(lower), Some(_)) if lower >= max_load => None,
            (Some(lower), Some(upper)) => Some((Purpose::Bisect, middle(lower, upper))),
            (None, None) => {
                let start = Bounds { lower_pps: Some(start_lower), upper_pps: Some(start_upper) };
                // With the bounds of the target before, one of the halves has the right width.
                let is_halved = step > 0 && start_upper > start_lower && !start.are_within(target.width_ppb);
                let load = if is_halved { middle(start_lower, start_upper) } else { start_lower };
                Some((Purpose::Refine, load))
            }
            (Some(lower), None) if lower >= max_load => None,
            (Some(lower), None) if start_upper > lower => Some((Purpose::Refine, start_upper)),
            (Some(lower), None) => {
                let load = lower.saturating_add(share(lower, target.width_ppb, extensions)).min(max_load);
                Some((Purpose::Extend, load))
            }
            (None, Some(upper)) if upper <= min_load => None,
            (None, Some(upper)) if start_lower < upper => Some((Purpose::Refine, start_lower)),
            (None, Some(upper)) => {
                let load = upper - share(upper, target.width_ppb, extensions).min(upper / 2).max(1);
                Some((Purpose::Extend, load.max(min_load)))
            }
        }
    }

    /// The interval that a target starts with: that of the target before it, or of the first
    /// trials.
    fn start_of(&self, goal: usize, step: usize) -> (u64, u64) {
        let (min_load, max_load) = (self.settings.min_load_pps, self.settings.max_load_pps);
        if step == 0 {
            return self.first_interval.unwrap_or((min_load, max_load));
        }
        let before = self.trials.bounds(&self.ladders[goal][step - 1].goal);
        let lower = before.lower_pps.or(before.upper_pps).unwrap_or(min_load);
        (lower, before.upper_pps.unwrap_or(max_load).max(lower))
    }

    /// The sender does not reach the load that is due: the search goes on below the rate that it
    /// reached.
    fn lower_max_load(&mut self, reached_pps: u64) {
        self.set_max_load(reached_pps - reached_pps / 20);
    }

    /// The tester disturbs all trials at these loads. The search ends with the lower bounds that it
    /// has, which may be those of coarser targets; if a goal has none, it goes on below these
    /// loads.
    fn leave_undecided(&mut self) {
        if self.results().iter().all(|goal| goal.lower_pps.is_some()) {
            self.is_given_up = true;
            return;
        }
        let lowest = self.undecided.drain(..).min().unwrap_or(self.settings.max_load_pps);
        let share_ppb = (LOWERED_PPB << self.lowered.min(4)).min(LOWERED_PPB_MAX);
        let below = lowest - share(lowest, share_ppb, 0).min(lowest);
        let passed = self.trials.passed_below(lowest, below.min(lowest), self.first_target().0);
        self.set_max_load(passed.unwrap_or(below));
    }

    fn set_max_load(&mut self, load_pps: u64) {
        self.lowered += 1;
        self.is_given_up = load_pps <= self.settings.min_load_pps;
        self.settings.max_load_pps = load_pps.clamp(self.settings.min_load_pps, self.settings.max_load_pps);
    }

    /// Loads that a search for this goal still has to decide, if it halves its interval each time.
    fn loads_left(&self, goal: &GoalResult) -> u64 {
        if matches!(goal.end, GoalEnd::Regular | GoalEnd::MaxLoadReached | GoalEnd::LimitedByTester)
            || goal.end.has_no_load()
        {
            return 0;
        }
        // The bounds of a coarser target are decided once more, with more trials.
        let is_known = !goal.is_coarse && goal.lower_pps.is_some() && goal.upper_pps.is_some();
        let mut loads = if is_known { 0 } else { 2 };
        let upper = goal.upper_pps.unwrap_or(self.settings.max_load_pps);
        let mut lower = goal.lower_pps.unwrap_or(self.settings.min_load_pps);
        if self.settings.start == Start::ForwardingRate {
            // The first trials find an interval as narrow as that of the first target.
            lower = lower.max(upper - share(upper, goal.goal.ladder()[0].width_ppb, 0).min(upper));
        }
        while !(Bounds { lower_pps: Some(lower), upper_pps: Some(upper) }).are_within(goal.goal.width_ppb) {
            lower = middle(lower, upper);
            loads += 1;
        }
        loads
    }

    /// Highest load of the search: as set, or below the rate that the sender reached.
    #[must_use]
    pub const fn max_load_pps(&self) -> u64 {
        self.settings.max_load_pps
    }

    /// Trials at half of this load are due if it lost few frames, once.
    fn try_half(&mut self, load_pps: u64, loss: TrialLoss) {
        let strictest = self.first_target().0;
        let is_first = !self.has_tried_half && self.settings.start == Start::ForwardingRate;
        if is_first && any_load::is_reason(&self.trials, load_pps, loss, strictest) {
            self.has_tried_half = true;
            self.half_pps = Some(load_pps / 2).filter(|half| *half >= self.settings.min_load_pps);
        }
    }

    /// Chooses the next of the first trials, or ends them.
    fn follow_first_trial(&mut self, load_pps: u64, loss: TrialLoss) {
        let (min_load, max_load) = (self.settings.min_load_pps, self.settings.max_load_pps);
        let (loss_ratio_ppb, _, width_ppb) = self.first_target();
        let is_lossy = loss.exceeds(loss_ratio_ppb);
        // With a loss ratio above zero, the load may be higher than what arrived.
        let corrected = u128::from(loss.forwarded_pps(load_pps)) * u128::from(BILLION)
            / u128::from(BILLION - loss_ratio_ppb);
        let forwarded = (corrected as u64).clamp(min_load, max_load);
        self.first_interval = match (self.first_loads.len(), is_lossy) {
            (0, false) => Some((max_load, max_load)),
            (0, true) | (1, _) => {
                let above = load_pps.saturating_add(share(load_pps, width_ppb, 0)).min(max_load);
                let next = if is_lossy { forwarded } else { above };
                self.first_loads.push(next);
                (next == load_pps).then_some((load_pps, load_pps))
            }
            _ => {
                let before = self.first_loads[0];
                Some((before.min(load_pps), before.max(load_pps)))
            }
        };
    }
}

impl Procedure for ThroughputSearch {
    fn log(&self) -> &[LoggedTrial] {
        self.attempts.log()
    }

    /// For each goal, the loads that are left, with the trials that decide each without a fault.
    fn time_left_ns(&self) -> Option<u64> {
        self.next_trial()?;
        let of_goal = |goal: &GoalResult| {
            let Goal { duration_sum_ns, exceed_ratio_ppb, trial_ns, .. } = goal.goal;
            let share = u128::from(duration_sum_ns) * u128::from(BILLION - exceed_ratio_ppb);
            let load_ns = ((share / u128::from(BILLION)) as u64).max(trial_ns);
            self.loads_left(goal).saturating_mul(load_ns)
        };
        let left_ns: u64 = self.results().iter().map(of_goal).sum();
        let budget_ns = self.settings.budget_ns.map(|budget| budget.saturating_sub(self.elapsed_ns()));
        Some(left_ns.min(budget_ns.unwrap_or(u64::MAX)))
    }

    fn next_trial(&self) -> Option<TrialRequest> {
        if self.is_given_up {
            return None;
        }
        let (nomination, duration_ns) = self.nominate()?;
        let spent = self.elapsed_ns().saturating_add(duration_ns);
        let is_in_budget = self.settings.budget_ns.is_none_or(|budget| spent <= budget);
        is_in_budget.then(|| TrialRequest::new(nomination.purpose, nomination.load_pps, duration_ns))
    }

    fn record(&mut self, result: TrialResult) {
        let request = self.next_trial().expect("a trial is due");
        let (nomination, _) = self.nominate().expect("a trial is due");
        self.is_warm = true;
        let strictest = self.first_target().0;
        let settled = self.attempts.settle(request, result, strictest);
        if let Some(reached_pps) = self.attempts.take_reached_pps() {
            return self.lower_max_load(reached_pps);
        }
        let loss = match settled {
            Settled::Unused => return,
            Settled::Counts(loss) => {
                self.trials.add(request.load_pps, request.duration_ns, loss);
                self.try_half(request.load_pps, loss);
                loss
            }
            Settled::GivenUp(_) if nomination.purpose == Purpose::HalfLoad => {
                self.half_pps = None;
                return;
            }
            Settled::GivenUp(loss) => {
                self.undecided.push(request.load_pps);
                // Once this was so at higher loads, it is no accident.
                if self.undecided.len() > UNDECIDED_MAX || self.lowered > 0 {
                    self.leave_undecided();
                }
                if nomination.target.is_some() {
                    return;
                }
                // What arrived is a good enough guess of where to go on.
                loss
            }
        };
        if nomination.purpose == Purpose::HalfLoad {
            return;
        }
        let Some((goal, step)) = nomination.target else {
            return self.follow_first_trial(request.load_pps, loss);
        };
        let bounds = self.trials.bounds(&self.ladders[goal][step].goal);
        let has_both = bounds.lower_pps.is_some() && bounds.upper_pps.is_some();
        // An extension that did not find the missing bound: the next one is twice as wide.
        let is_decided = [bounds.lower_pps, bounds.upper_pps].contains(&Some(request.load_pps));
        let extensions = &mut self.extensions[goal][step];
        if has_both {
            *extensions = 0;
        } else if nomination.purpose == Purpose::Extend && is_decided {
            *extensions += 1;
        }
    }
}

/// The load halfway between two loads on a logarithmic scale, and between them if there is one.
fn middle(lower: u64, upper: u64) -> u64 {
    let middle = (u128::from(lower) * u128::from(upper)).isqrt() as u64;
    middle.clamp((lower + 1).min(upper), upper.saturating_sub(1).max(lower))
}

/// `width_ppb` of a load, doubled `times` times, at least one frame per second.
fn share(load_pps: u64, width_ppb: u64, times: u32) -> u64 {
    // 64 + 30 bits, so 30 doublings fit into 128.
    let share = (u128::from(load_pps) * u128::from(width_ppb)) << times.min(30);
    u64::try_from(share / u128::from(BILLION)).unwrap_or(u64::MAX).max(1)
}
