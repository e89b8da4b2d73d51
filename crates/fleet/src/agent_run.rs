//! A run as an agent has it: armed, counting down, running, draining, reported. The caller does
//! what [`AgentRun::step`] returns, and gives it the time and what the workers do.

use crate::message::RunEnd;
use crate::order::{FlowRole, TestPart};

/// A start must be this far away when it is requested: the answer has to arrive before it.
const GO_LEAD_NS: u64 = 50_000_000;
/// Receivers wait at most this much longer than the time to settle, if frames still arrive, or no
/// controller says that all hosts have sent all.
const DRAIN_MAX_NS: u64 = 2_000_000_000;

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// All is ready; it has no time to start at.
    Armed,
    /// It starts at a time.
    Counting,
    /// Frames are sent, or arrive.
    Running,
    /// Nothing more is sent; late frames are waited for.
    Draining,
    /// It has ended, and its last counts are to be delivered.
    Reported,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Nothing.
    Wait,
    /// Publish the counts.
    Count,
    /// Stop the senders.
    StopSending,
    /// Stop all, read the last counts, and publish them until the hub has them.
    Report(RunEnd),
}

/// Why a start is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoRefusal {
    /// The time is too near, or has passed.
    #[error("late: the time to start is {0} ms away, and at least {min} ms are needed", min = GO_LEAD_NS / 1_000_000)]
    Late(i64),
    /// It has a time to start at already.
    #[error("not_armed: the run has a time to start at already")]
    NotArmed,
}

/// A run.
#[derive(Clone, Debug)]
pub struct AgentRun {
    duration_ns: u64,
    settle_ns: u64,
    stat_ns: u64,
    receives: bool,
    state: AgentState,
    /// Monotonic time of the start.
    start_ns: u64,
    next_stat_ns: u64,
    /// Why it ends.
    end: Option<RunEnd>,
    /// Frames received so far, and since when.
    quiet: (u64, u64),
    draining_ns: u64,
    /// The counts at the end of its own sending were published.
    has_told_end: bool,
    /// All hosts have sent all.
    is_over: bool,
}

impl AgentRun {
    /// A run that is ready.
    pub fn new(part: &TestPart) -> Self {
        Self {
            duration_ns: part.duration_ns,
            settle_ns: part.settle_ms * 1_000_000,
            stat_ns: part.stat_ms * 1_000_000,
            receives: part.flows.iter().any(|flow| flow.role == FlowRole::Receive),
            state: AgentState::Armed,
            start_ns: 0,
            next_stat_ns: 0,
            end: None,
            quiet: (0, 0),
            draining_ns: 0,
            has_told_end: false,
            is_over: false,
        }
    }

    /// What it does.
    pub fn state(&self) -> AgentState {
        self.state
    }

    /// Takes the time to start at. `wall_ns` is the time of day, `now_ns` the monotonic time.
    ///
    /// # Errors
    /// The time is too near, or the run already has one.
    pub fn go(&mut self, start_at_ns: u64, wall_ns: u64, now_ns: u64) -> Result<(), GoRefusal> {
        if self.state != AgentState::Armed {
            return Err(GoRefusal::NotArmed);
        }
        let left_ns = i128::from(start_at_ns) - i128::from(wall_ns);
        if left_ns < i128::from(GO_LEAD_NS) {
            return Err(GoRefusal::Late((left_ns / 1_000_000) as i64));
        }
        self.start_ns = now_ns.saturating_add(left_ns as u64);
        self.next_stat_ns = self.start_ns.saturating_add(self.stat_ns);
        self.state = AgentState::Counting;
        Ok(())
    }

    /// No controller was heard for the time of its lease.
    pub fn orphan(&mut self) {
        self.end.get_or_insert(RunEnd::Orphaned);
    }

    /// The news at the monotonic time `now_ns` that all hosts have sent all: late frames are all
    /// that can come.
    pub fn drain(&mut self, now_ns: u64) {
        let is_under_way = matches!(self.state, AgentState::Running | AgentState::Draining);
        if is_under_way && !self.is_over {
            self.is_over = true;
            self.quiet.1 = self.quiet.1.max(now_ns);
        }
    }

    /// True if that news has come.
    pub fn has_heard_all_sent(&self) -> bool {
        self.is_over
    }

    /// The agent is ended by a signal, at the monotonic time `now_ns`.
    pub fn leave(&mut self, now_ns: u64) {
        let end = if self.has_started_by(now_ns) { RunEnd::Left } else { RunEnd::Aborted };
        self.end.get_or_insert(end);
    }

    /// The order to end, at the monotonic time `now_ns`.
    pub fn stop(&mut self, now_ns: u64) {
        let end = if self.has_started_by(now_ns) { RunEnd::Stopped } else { RunEnd::Aborted };
        self.end.get_or_insert(end);
    }

    /// It cannot go on, or was not ready in time.
    pub fn fail(&mut self, end: RunEnd) {
        self.end.get_or_insert(end);
    }

    /// Senders start by themselves, before the next step.
    fn has_started_by(&self, now_ns: u64) -> bool {
        self.has_started() || (self.state == AgentState::Counting && now_ns >= self.start_ns)
    }

    fn has_started(&self) -> bool {
        !matches!(self.state, AgentState::Armed | AgentState::Counting)
    }

    /// What to do at the monotonic time `now_ns`. `has_sent_all`: no sender sends any more (always
    /// true without senders). `received`: frames that have arrived.
    pub fn step(&mut self, now_ns: u64, has_sent_all: bool, received: u64) -> RunStep {
        if self.state == AgentState::Reported {
            return RunStep::Wait;
        }
        if self.state == AgentState::Counting && now_ns >= self.start_ns {
            self.state = AgentState::Running;
        }
        if !self.has_started() {
            return match self.end {
                Some(end) => self.report(end),
                None => RunStep::Wait,
            };
        }
        let is_late = now_ns >= self.start_ns.saturating_add(self.duration_ns);
        let is_over = is_late || (self.is_over && has_sent_all);
        if self.state == AgentState::Running && (self.end.is_some() || is_over) {
            self.state = AgentState::Draining;
            self.draining_ns = now_ns;
            self.quiet = (received, now_ns);
            return RunStep::StopSending;
        }
        if self.state == AgentState::Draining {
            if self.quiet.0 != received {
                self.quiet = (received, now_ns);
            }
            let is_quiet = now_ns.saturating_sub(self.quiet.1) >= self.settle_ns;
            let is_long = now_ns - self.draining_ns >= self.settle_ns + DRAIN_MAX_NS;
            // Another host may still send. An agent that is to end does not wait for it.
            let may_wait = matches!(self.end, None | Some(RunEnd::Stopped | RunEnd::Orphaned));
            let waits = self.receives && may_wait && !self.is_over;
            if has_sent_all && ((is_quiet && !waits) || is_long) {
                return self.report(self.end.unwrap_or(RunEnd::Done));
            }
        }
        if has_sent_all && !std::mem::replace(&mut self.has_told_end, true) {
            return RunStep::Count;
        }
        if now_ns >= self.next_stat_ns {
            let behind = (now_ns - self.next_stat_ns) / self.stat_ns;
            self.next_stat_ns += (behind + 1) * self.stat_ns;
            return RunStep::Count;
        }
        RunStep::Wait
    }

    fn report(&mut self, end: RunEnd) -> RunStep {
        self.state = AgentState::Reported;
        RunStep::Report(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn run() -> AgentRun {
        let (flows, duration_ns) = (Vec::new(), 3000 * MS);
        AgentRun::new(&TestPart { mark: 0, flows, duration_ns, settle_ms: 200, stat_ms: 1000, seed: 0 })
    }

    #[test]
    fn a_run_counts_each_second_drains_and_reports() {
        let mut run = run();
        assert_eq!(run.step(10 * MS, false, 0), RunStep::Wait);
        run.go(100_500 * MS, 100_000 * MS, 500 * MS).unwrap();
        assert_eq!(run.go(200_000 * MS, 0, 0), Err(GoRefusal::NotArmed));
        assert_eq!((run.step(999 * MS, false, 0), run.state()), (RunStep::Wait, AgentState::Counting));
        assert_eq!((run.step(1000 * MS, false, 0), run.state()), (RunStep::Wait, AgentState::Running));
        assert_eq!(run.step(2001 * MS, false, 5), RunStep::Count);
        assert_eq!(run.step(2002 * MS, false, 5), RunStep::Wait);
        assert_eq!(run.step(4000 * MS, true, 5), RunStep::StopSending);
        assert_eq!(run.step(4001 * MS, true, 5), RunStep::Count, "all is sent");
        assert_eq!(run.step(4100 * MS, true, 6), RunStep::Count);
        assert_eq!(run.step(4299 * MS, true, 6), RunStep::Wait);
        assert_eq!(run.step(4300 * MS, true, 6), RunStep::Report(RunEnd::Done));
        assert_eq!((run.step(9999 * MS, true, 6), run.state()), (RunStep::Wait, AgentState::Reported));
    }

    #[test]
    fn a_run_drains_early_when_all_hosts_have_sent_all() {
        let mut run = run();
        run.drain(0);
        run.go(100 * MS, 0, 0).unwrap();
        run.drain(0);
        assert_eq!(run.step(100 * MS, false, 0), RunStep::Wait, "it has not started");
        run.drain(100 * MS);
        assert_eq!(run.step(101 * MS, false, 0), RunStep::Wait, "it still sends");
        assert_eq!(run.step(102 * MS, true, 0), RunStep::StopSending);
        assert_eq!(run.step(103 * MS, true, 0), RunStep::Count);
        assert_eq!(run.step(302 * MS, true, 0), RunStep::Report(RunEnd::Done));
    }

    #[test]
    fn a_receiver_stays_until_all_hosts_have_sent_all() {
        let receiver = || {
            let mut run = AgentRun { receives: true, ..run() };
            run.go(100 * MS, 0, 0).unwrap();
            run.step(100 * MS, true, 0);
            assert_eq!(run.step(3100 * MS, true, 5), RunStep::StopSending, "the planned end");
            run.step(3101 * MS, true, 5);
            run
        };
        // Without the counts of each second.
        let step = |run: &mut AgentRun, at_ms: u64| {
            let mut steps = std::iter::repeat_with(|| run.step(at_ms * MS, true, 5));
            steps.find(|step| *step != RunStep::Count).expect("it repeats")
        };
        let mut told = receiver();
        assert_eq!(step(&mut told, 4000), RunStep::Wait, "another host may still send");
        told.drain(4000 * MS);
        assert!(told.has_heard_all_sent());
        assert_eq!(step(&mut told, 4199), RunStep::Wait, "frames may be on their way");
        assert_eq!(step(&mut told, 4200), RunStep::Report(RunEnd::Done));
        let mut untold = receiver();
        assert_eq!(step(&mut untold, 5299), RunStep::Wait);
        assert_eq!(step(&mut untold, 5300), RunStep::Report(RunEnd::Done), "it does not wait for ever");
        let mut left = receiver();
        left.leave(3102 * MS);
        assert_eq!(step(&mut left, 3299), RunStep::Wait);
        assert_eq!(step(&mut left, 3300), RunStep::Report(RunEnd::Left));
        assert!(!left.has_heard_all_sent());
        let mut early = run();
        early.leave(1);
        assert_eq!(early.step(1, true, 0), RunStep::Report(RunEnd::Aborted));
    }

    #[test]
    fn without_a_controller_it_ends() {
        let mut armed = run();
        armed.orphan();
        assert_eq!(armed.step(1, true, 0), RunStep::Report(RunEnd::Orphaned), "before the start");
        let mut running = run();
        running.go(1000 * MS, 0, 0).unwrap();
        running.step(1000 * MS, false, 0);
        running.orphan();
        assert_eq!(running.step(1500 * MS, false, 0), RunStep::StopSending);
        assert_eq!(running.step(1501 * MS, true, 0), RunStep::Count, "all is sent");
        assert_eq!(running.step(1800 * MS, true, 0), RunStep::Report(RunEnd::Orphaned));
    }

    #[test]
    fn a_stop_before_the_start_aborts() {
        let mut armed = run();
        armed.stop(1);
        assert_eq!(armed.step(1, true, 0), RunStep::Report(RunEnd::Aborted));
        let counting = || {
            let mut run = run();
            run.go(100 * MS, 0, 0).unwrap();
            run
        };
        let mut early = counting();
        early.stop(99 * MS);
        assert_eq!(early.step(99 * MS, true, 0), RunStep::Report(RunEnd::Aborted));
        // Senders start by themselves, before the next step.
        let mut late = counting();
        late.stop(100 * MS);
        assert_eq!(late.step(101 * MS, false, 0), RunStep::StopSending);
        assert_eq!(late.step(102 * MS, true, 0), RunStep::Count);
        assert_eq!(late.step(400 * MS, true, 0), RunStep::Report(RunEnd::Stopped));
    }

    #[test]
    fn a_start_that_is_too_near_is_refused() {
        let refusal = run().go(1000 * MS, 960 * MS, 0).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "late: the time to start is 40 ms away, and at least 50 ms are needed"
        );
        assert_eq!(run().go(1000 * MS, 1300 * MS, 0), Err(GoRefusal::Late(-300)));
    }
}
