//! The agreement of all hosts before a run: each gets ready, and each agrees to the time to start.
//!
//! All answers are read until shortly before the start, so a second agent with the name of a host
//! is noticed even if it answers late.

use fleet::{
    AgentAnswer, AnswerState, Answered, FleetName, Go, Objection, ObjectionCause, Prepare, Readiness,
    RunPlan, StartPolicy, subject, two_agents,
};
use host::realtime_ns;
use hub::{Hub, HubError, Inquiry, OrderKind};
use program::start_at::host_clock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, Interval, interval, sleep_until};
use units::human_duration;

/// All hosts must have agreed this long before the start.
const AGREED_BEFORE: Duration = Duration::from_millis(100);
/// Time from one sign of life to the next.
pub(super) const LEASE_INTERVAL: Duration = Duration::from_millis(500);
/// What a host is asked.
const PREPARE: &str = "prepare";
const GO: &str = "go";

/// The questions of a controller to the hosts of a run.
pub(super) struct Agreement<'a> {
    hub: &'a Hub,
    run: &'a FleetName,
    inquiry: Inquiry,
    leases: Interval,
}

/// A host that has not agreed to the time to start.
pub(super) struct GoRefused {
    pub(super) objection: Objection,
    /// It has not answered, so it may start.
    pub(super) is_silent: bool,
}

impl<'a> Agreement<'a> {
    pub(super) async fn new(hub: &'a Hub, run: &'a FleetName) -> Result<Self, HubError> {
        Ok(Self { hub, run, inquiry: hub.inquire().await?, leases: interval(LEASE_INTERVAL) })
    }

    /// The next answer until a time. Hosts that are ready wait meanwhile.
    async fn next(&mut self, until: Instant) -> Result<Option<hub::HostAnswered<AgentAnswer>>, HubError> {
        loop {
            tokio::select! {
                _ = self.leases.tick() => drop(self.hub.order(self.run, OrderKind::Lease).await),
                answered = self.inquiry.next() => return answered.map(Some),
                () = sleep_until(until) => return Ok(None),
            }
        }
    }

    /// Asks all hosts to get ready, at once.
    pub(super) async fn prepare(
        &mut self,
        orders: &BTreeMap<FleetName, Prepare>,
        policy: &StartPolicy,
        arm_ms: u64,
    ) -> Result<Readiness, HubError> {
        let (mut readiness, mut waiting) = (Readiness::default(), BTreeMap::new());
        for (host, order) in orders {
            match self.inquiry.ask(host, PREPARE, subject::prepare(host), order).await {
                Ok(()) => drop(waiting.insert(host.clone(), realtime_ns())),
                Err(why) => readiness.hear(host, Err(why), host_clock(), policy),
            }
        }
        let asked = waiting.clone();
        let until = Instant::now() + Duration::from_millis(arm_ms);
        while !waiting.is_empty() {
            let Some(hub::HostAnswered { host, answer, .. }) = self.next(until).await? else { break };
            let Some(asked_ns) = asked.get(&host).copied() else { continue };
            waiting.remove(&host);
            let answered = answer.map(|answer| Answered { asked_ns, answered_ns: realtime_ns(), answer });
            readiness.hear(&host, answered, host_clock(), policy);
        }
        for host in waiting.keys() {
            readiness.hear(host, Err(format!("no answer within {arm_ms} ms")), host_clock(), policy);
        }
        Ok(readiness)
    }

    /// Gives all hosts that are ready their time. Returns those that have not agreed soon enough,
    /// or are two.
    pub(super) async fn go(&mut self, run: &RunPlan) -> Result<Vec<GoRefused>, HubError> {
        let go = Go { run: run.run.clone(), start_at_ns: run.start_at_ns };
        let left = Duration::from_nanos(run.start_at_ns.saturating_sub(realtime_ns()));
        let timeout = left.saturating_sub(AGREED_BEFORE);
        let asked = Instant::now();
        let until = asked + timeout;
        let armed = run.hosts.iter().filter(|host| host.is_armed);
        let armed: BTreeMap<&FleetName, Option<u64>> =
            armed.map(|host| (&host.host, host.instance)).collect();
        let mut refusals: BTreeMap<FleetName, GoRefused> = BTreeMap::new();
        let mut agreed: BTreeSet<FleetName> = BTreeSet::new();
        for host in armed.keys() {
            if let Err(why) = self.inquiry.ask(host, GO, subject::go(host), &go).await {
                refusals.insert((*host).clone(), refused(host, why, Vec::new(), true));
            }
        }
        // Without a refusal, a second agent may still answer until the last moment.
        while refusals.is_empty() || agreed.len() + refusals.len() < armed.len() {
            let Some(hub::HostAnswered { host, about, answer }) = self.next(until).await? else { break };
            // No later answer of a host changes its refusal.
            let Some(instance) = armed.get(&host).filter(|_| !refusals.contains_key(&host)) else { continue };
            let refusal = match answer {
                Ok(answer) if instance.is_some_and(|instance| instance != answer.instance) => {
                    Some(GoRefused { objection: two_agents(&host), is_silent: false })
                }
                _ if about != GO => None,
                Ok(AgentAnswer { state: AnswerState::Counting, .. }) => {
                    if agreed.insert(host.clone()) && agreed.len() == armed.len() {
                        let after = human_duration(asked.elapsed().as_nanos() as u64);
                        program::note!("all have agreed after {after}");
                    }
                    None
                }
                Ok(answer) => Some(refused(&host, answer.why.unwrap_or_default(), answer.tries, false)),
                Err(why) => Some(refused(&host, why, Vec::new(), true)),
            };
            if let Some(refusal) = refusal {
                agreed.remove(&host);
                refusals.insert(host, refusal);
            }
        }
        for host in armed.into_keys().filter(|host| !agreed.contains(*host)) {
            let why = format!("no answer within {} ms", timeout.as_millis());
            refusals.entry(host.clone()).or_insert_with(|| refused(host, why, Vec::new(), true));
        }
        Ok(refusals.into_values().collect())
    }
}

fn refused(host: &FleetName, why: String, tries: Vec<String>, is_silent: bool) -> GoRefused {
    let objection = Objection { host: host.clone(), why, cause: ObjectionCause::Host { tries } };
    GoRefused { objection, is_silent }
}
