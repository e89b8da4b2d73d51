//! A test of a fleet on this host: its ports, its state, and its counts.

use super::config::AgentFile;
use super::dry::DryPort;
use super::receiver::{PortReceiver, ReceivedFlows};
use super::sender::PortSender;
use fleet::{AgentRun, FleetName, FlowOrder, FlowRole, GoRefusal, RunEnd, RunStep, Stat, TestPart};
use host::{StartTime, monotonic_ns, realtime_ns};
use program::outcome::Failure;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The counters have no event, so they are read at this interval. Orders wake the thread at once.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The clock of the agent. Tests shift it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgentClock {
    /// How much it is ahead of the clock of this host.
    pub(super) ahead_ns: i64,
}

impl AgentClock {
    /// Time of day.
    pub(super) fn now_ns(self) -> u64 {
        realtime_ns().saturating_add_signed(self.ahead_ns)
    }

    /// A time of this clock on that of the host.
    pub(super) fn to_host(self, unix_ns: u64) -> StartTime {
        StartTime { unix_ns: unix_ns.saturating_add_signed(self.ahead_ns.saturating_neg()) }
    }
}

/// What the thread of a test is told.
#[derive(Debug)]
pub(super) enum TestOrder {
    /// To start at a time, in nanoseconds since 1970; the answer is sent back.
    Go(u64, oneshot::Sender<Result<(), GoRefusal>>),
    /// No controller was heard for the time of its lease.
    Orphan,
    /// All hosts have sent all.
    Drain,
    /// To end.
    Stop,
    /// To end because the agent ends.
    Leave,
}

/// The run.
pub(super) struct HostRun {
    run: FleetName,
    host: FleetName,
    clock: AgentClock,
    machine: AgentRun,
    senders: Vec<PortSender>,
    receivers: Vec<PortReceiver>,
    dry: Vec<DryPort>,
    /// Monotonic time of the start; 0 before it is known.
    start_ns: u64,
    number: u32,
    instance: u64,
    /// Time of day when its last sender had ended.
    sent_until_ns: Option<u64>,
}

impl HostRun {
    /// Gets all ports ready. Receivers count from then on; engines are built and wait.
    ///
    /// # Errors
    /// Why a port cannot do it.
    pub(super) fn arm(
        file: &AgentFile,
        run: &FleetName,
        part: &TestPart,
        clock: AgentClock,
        instance: u64,
    ) -> Result<Self, Failure> {
        let usage = |why| Failure::usage("take part in this run", why);
        let (mut senders, mut receivers, mut dry) = (Vec::new(), Vec::new(), Vec::new());
        let mut names: Vec<&FleetName> = part.flows.iter().map(|flow| &flow.port).collect();
        names.sort_unstable();
        names.dedup();
        let orders = |port: &FleetName, role: FlowRole| -> Vec<&FlowOrder> {
            part.flows.iter().filter(|flow| flow.port == *port && flow.role == role).collect()
        };
        // Receivers first: they miss nothing then.
        for name in &names {
            let port = file.port(name).map_err(usage)?;
            let (sent, received) = (orders(name, FlowRole::Send), orders(name, FlowRole::Receive));
            if port.dry {
                let all: Vec<&FlowOrder> = sent.into_iter().chain(received).collect();
                dry.push(DryPort::arm(port, &all, part)?);
            } else if !received.is_empty() {
                receivers.push(PortReceiver::start(port, &received, part)?);
            }
        }
        for name in &names {
            let (port, sent) = (file.port(name).map_err(usage)?, orders(name, FlowRole::Send));
            if !port.dry && !sent.is_empty() {
                senders.push(PortSender::arm(port, &sent, part)?);
            }
        }
        Ok(Self {
            run: run.clone(),
            host: file.host.clone(),
            clock,
            machine: AgentRun::new(part),
            senders,
            receivers,
            dry,
            start_ns: 0,
            number: 0,
            instance,
            sent_until_ns: None,
        })
    }

    /// Carries out orders until the run has ended. Counts go to `stats`. Returns the last ones,
    /// unless the run never had a time to start.
    pub(super) fn serve(
        mut self,
        orders: &Receiver<TestOrder>,
        stats: &mpsc::UnboundedSender<Stat>,
    ) -> Option<Stat> {
        loop {
            match orders.recv_timeout(POLL_INTERVAL) {
                Ok(TestOrder::Go(start_at_ns, answer)) => {
                    // The one who asked may have given up.
                    let _ = answer.send(self.go(start_at_ns));
                }
                Ok(TestOrder::Orphan) => self.machine.orphan(),
                Ok(TestOrder::Drain) => self.machine.drain(monotonic_ns()),
                Ok(TestOrder::Stop) => self.machine.stop(monotonic_ns()),
                Ok(TestOrder::Leave) | Err(RecvTimeoutError::Disconnected) => {
                    self.machine.leave(monotonic_ns());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let has_sent_all = self.has_sent_all();
            if has_sent_all && self.sends() && self.start_ns > 0 {
                self.sent_until_ns.get_or_insert(self.clock.now_ns());
            }
            if self.receivers.iter().any(PortReceiver::is_gone) {
                self.machine.fail(RunEnd::Failed);
            }
            // A failed send ends the agent's runtime, and with it the run.
            match self.machine.step(monotonic_ns(), has_sent_all, self.received()) {
                RunStep::Wait => {}
                RunStep::Count => drop(stats.send(self.stat())),
                RunStep::StopSending => self.senders.iter().for_each(PortSender::stop),
                RunStep::Report(end) => {
                    let has_time = self.start_ns > 0;
                    let stat = self.finish(end);
                    return has_time.then_some(stat);
                }
            }
        }
    }

    fn go(&mut self, start_at_ns: u64) -> Result<(), GoRefusal> {
        let (now_ns, wall_ns) = (monotonic_ns(), self.clock.now_ns());
        self.machine.go(start_at_ns, wall_ns, now_ns)?;
        let start_at = self.clock.to_host(start_at_ns);
        self.start_ns = now_ns + start_at_ns.saturating_sub(wall_ns);
        self.senders.iter_mut().for_each(|sender| sender.start(start_at));
        Ok(())
    }

    fn elapsed_ns(&self) -> u64 {
        if self.start_ns == 0 { 0 } else { monotonic_ns().saturating_sub(self.start_ns) }
    }

    fn has_sent_all(&self) -> bool {
        let elapsed_ns = self.elapsed_ns();
        let is_dry_over = |dry: &DryPort| !dry.sends() || dry.has_ended(elapsed_ns);
        // Dry ports stop by themselves when the run drains.
        let is_draining = self.machine.state() == fleet::AgentState::Draining;
        self.senders.iter().all(PortSender::has_ended) && (is_draining || self.dry.iter().all(is_dry_over))
    }

    fn sends(&self) -> bool {
        !self.senders.is_empty() || self.dry.iter().any(DryPort::sends)
    }

    fn received(&self) -> u64 {
        self.receivers.iter().map(PortReceiver::received).sum()
    }

    /// The counts now.
    fn stat(&mut self) -> Stat {
        self.number += 1;
        let received = self.receivers.iter().map(PortReceiver::counts);
        let elapsed_ns = self.elapsed_ns();
        let dry = self.dry.iter().map(|dry| (dry.receives(), dry.counts(elapsed_ns)));
        let mut stat = Stat {
            number: self.number,
            time_ns: self.clock.now_ns(),
            has_sent_all: self.has_sent_all(),
            sent_until_ns: self.sent_until_ns,
            has_heard_all_sent: self.machine.has_heard_all_sent(),
            ..Stat::new(self.run.clone(), self.host.clone(), self.instance)
        };
        // Receivers are read first, so a frame that has arrived is counted as sent.
        for (receives, ReceivedFlows { counts, figures }) in
            received.map(|received| (true, received)).chain(dry)
        {
            stat.flows.extend(counts);
            stat.receivers.extend(receives.then_some(figures));
        }
        stat.flows.extend(self.senders.iter().flat_map(PortSender::counts));
        stat
    }

    /// Ends all ports, and returns the last counts.
    fn finish(mut self, mut end: RunEnd) -> Stat {
        let received_until_ns = Some(self.clock.now_ns());
        let mut stat = Stat { has_sent_all: true, is_last: true, received_until_ns, ..self.stat() };
        let has_gone = self.receivers.iter().any(PortReceiver::is_gone);
        stat.why = has_gone.then(|| "the device of a receiving port went away".to_owned());
        if !self.senders.is_empty() || !self.receivers.is_empty() {
            stat.flows.clear();
            stat.receivers.clear();
            let elapsed_ns = self.elapsed_ns();
            for dry in &self.dry {
                let ReceivedFlows { counts, figures } = dry.counts(elapsed_ns);
                stat.flows.extend(counts);
                stat.receivers.extend(dry.receives().then_some(figures));
            }
        }
        for sender in self.senders {
            let ended = sender.finish();
            stat.flows.extend(ended.counts);
            stat.senders.push(ended.figures);
            stat.reports.extend(ended.report);
            stat.released_late_ns = stat.released_late_ns.max(ended.released_late_ns);
            if ended.is_late && end != RunEnd::Aborted {
                end = RunEnd::Late;
            } else if ended.failure.is_some() && end == RunEnd::Done {
                end = RunEnd::Failed;
            }
            stat.why = stat.why.or(ended.failure);
        }
        for receiver in self.receivers {
            let (ReceivedFlows { counts, figures }, report) = receiver.finish();
            stat.flows.extend(counts);
            stat.receivers.push(figures);
            stat.reports.extend(report);
        }
        stat.end = Some(end);
        stat
    }
}
