//! The decision to start: which hosts are ready, whether their clocks agree, and when to start.

use crate::message::HostOrder;
use crate::name::FleetName;
use crate::order::{AgentAnswer, OrderResult};
use measure::HostClock;
use report::human::human_duration as duration;
use std::collections::BTreeMap;

/// Shortest time from the order to the start.
const LEAD_NS_MIN: u64 = 1_000_000_000;
/// The start is this many times the slowest answer away, at least.
const LEAD_ANSWERS: u64 = 20;
/// The start is this many times the worst bound of a synchronized clock away, at least.
const LEAD_BOUNDS: u64 = 10;
/// A clock that is not synchronized may differ this much from that of the controller.
pub(crate) const UNSYNCHRONIZED_NS_MAX: u64 = 10_000_000;

/// Which hosts must be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartPolicy {
    /// At least this many; `None` for all.
    pub at_least: Option<usize>,
    /// Highest bound of the error of a clock; `None` for any.
    pub clock_bound_ns: Option<u64>,
}

/// A host that does not start, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The host.
    pub host: FleetName,
    /// Why.
    pub why: String,
    /// What kind of reason that is.
    pub cause: ObjectionCause,
}

/// Kinds of reasons for which a host does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectionCause {
    /// The host refuses, or does not answer as it should.
    Host {
        /// What the host says to try.
        tries: Vec<String>,
    },
    /// Its clock is wrong, or not known as well as the test requires.
    Clock,
    /// Two agents have its name.
    TwoAgents,
}

/// The objection to a name that two agents have.
pub fn two_agents(host: &FleetName) -> Objection {
    Objection {
        host: host.clone(),
        why: format!("two agents are connected as {host}, and both answered"),
        cause: ObjectionCause::TwoAgents,
    }
}

/// An answer with the controller's own times of day, when it asked and when the answer came.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// When it asked.
    pub asked_ns: u64,
    /// When the answer came.
    pub answered_ns: u64,
    /// The answer.
    pub answer: AgentAnswer,
}

impl Answered {
    /// Time on the way, there and back.
    fn on_the_way_ns(&self) -> u64 {
        let total = self.answered_ns.saturating_sub(self.asked_ns);
        total.saturating_sub(self.answer.time_ns.saturating_sub(self.answer.request_ns))
    }

    /// How much the host's clock is ahead of that of the controller, as NTP computes it: the error
    /// is at most half of the time on the way.
    fn ahead_ns(&self) -> i128 {
        let there = i128::from(self.answer.request_ns) - i128::from(self.asked_ns);
        let back = i128::from(self.answer.time_ns) - i128::from(self.answered_ns);
        (there + back) / 2
    }
}

/// The answers to [`crate::Order::Arm`].
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    armed: BTreeMap<FleetName, Answered>,
    objections: Vec<Objection>,
}

impl Readiness {
    /// Takes the answer of a host, or why there is none. `own` is the clock of the controller.
    pub fn hear(
        &mut self,
        host: &FleetName,
        answered: Result<Answered, String>,
        own: HostClock,
        policy: &StartPolicy,
    ) {
        let object = |why, cause| Err(Objection { host: host.clone(), why, cause });
        let no_tries = || ObjectionCause::Host { tries: Vec::new() };
        let checked = match answered {
            Err(why) => object(why, no_tries()),
            Ok(Answered {
                answer: AgentAnswer { result: OrderResult::Refused { errors, tries, .. }, .. },
                ..
            }) => object(errors.join("; "), ObjectionCause::Host { tries }),
            Ok(answered) => match clock_fault(&answered, own, policy) {
                Some(why) => object(why, ObjectionCause::Clock),
                None => Ok(answered),
            },
        };
        match checked {
            Ok(answered) => drop(self.armed.insert(host.clone(), answered)),
            Err(objection) => self.objections.push(objection),
        }
    }

    /// Two agents of this name have answered.
    pub fn doubts(&mut self, host: &FleetName) {
        self.armed.remove(host);
        self.objections.retain(|objection| objection.host != *host);
        self.objections.push(two_agents(host));
    }

    /// The hosts that do not start.
    pub fn objections(&self) -> &[Objection] {
        &self.objections
    }

    /// The hosts that are ready.
    pub fn armed(&self) -> impl Iterator<Item = &FleetName> {
        self.armed.keys()
    }

    /// True if enough hosts are ready.
    pub fn may_start(&self, policy: &StartPolicy) -> bool {
        match policy.at_least {
            None => self.objections.is_empty() && !self.armed.is_empty(),
            Some(count) => self.armed.len() >= count.max(1),
        }
    }

    /// The time to start at, if it is `now_ns` now.
    pub fn start_at_ns(&self, now_ns: u64) -> u64 {
        let slowest = self.armed.values().map(Answered::on_the_way_ns).max().unwrap_or(0);
        let clocks = self.armed.values().map(|answered| answered.answer.clock);
        let worst =
            clocks.filter(|clock| clock.is_synchronized).map(|clock| clock.bound_ns).max().unwrap_or(0);
        let lead =
            LEAD_NS_MIN.max(slowest.saturating_mul(LEAD_ANSWERS)).max(worst.saturating_mul(LEAD_BOUNDS));
        now_ns.saturating_add(lead)
    }

    /// A host of the plan, as the hub keeps it.
    pub fn order(&self, host: &FleetName) -> HostOrder {
        let answer = self.armed.get(host).map(|answered| &answered.answer);
        HostOrder {
            host: host.clone(),
            is_armed: answer.is_some(),
            clock: answer.map(|answer| answer.clock),
            boot_id: answer.map(|answer| answer.boot_id.clone()),
            instance: answer.map(|answer| answer.instance),
            why: self
                .objections
                .iter()
                .find(|objection| objection.host == *host)
                .map(|objection| objection.why.clone()),
        }
    }
}

/// What is wrong with the clock of a host.
fn clock_fault(answered: &Answered, own: HostClock, policy: &StartPolicy) -> Option<String> {
    let clock = answered.answer.clock;
    if let Some(bound_ns) = policy.clock_bound_ns
        && (!clock.is_synchronized || clock.bound_ns > bound_ns)
    {
        let has = match clock.is_synchronized {
            true => format!("is known within {}", duration(clock.bound_ns)),
            false => "is not synchronized".to_owned(),
        };
        return Some(format!("its clock {has}, and the test requires {}", duration(bound_ns)));
    }
    let allowed = match clock.is_synchronized && own.is_synchronized {
        true => clock.bound_ns.saturating_add(own.bound_ns),
        false => UNSYNCHRONIZED_NS_MAX,
    };
    let (ahead, known) = (answered.ahead_ns(), answered.on_the_way_ns() / 2 + 1);
    let off = u64::try_from(ahead.unsigned_abs()).unwrap_or(u64::MAX);
    (off > allowed.saturating_add(known)).then(|| {
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        format!(
            "its clock is {} {side} that of the controller, known within {}",
            duration(off),
            duration(known)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::RefusalKind;

    const MS: u64 = 1_000_000;
    const OWN: HostClock = HostClock { is_synchronized: false, bound_ns: 16_000 * MS };
    const ANY: StartPolicy = StartPolicy { at_least: None, clock_bound_ns: None };

    fn name(text: &str) -> FleetName {
        text.parse().unwrap()
    }

    /// An answer after `work_ms` of preparing, 1 ms of which each way, from a clock that is ahead.
    fn answered(host: &str, work_ms: u64, ahead_ms: i64) -> Answered {
        let at = |ms: u64| ((1_000_000 + ms) * MS).saturating_add_signed(ahead_ms * MS as i64);
        let answer = AgentAnswer {
            host: name(host),
            instance: 7,
            clock: OWN,
            boot_id: String::new(),
            request_ns: at(1),
            time_ns: at(1 + work_ms),
            result: OrderResult::done(),
        };
        Answered { asked_ns: 1_000_000 * MS, answered_ns: (1_000_002 + work_ms) * MS, answer }
    }

    fn hear(answers: Vec<(&str, Result<Answered, String>)>, policy: &StartPolicy) -> Readiness {
        let mut readiness = Readiness::default();
        for (host, answered) in answers {
            readiness.hear(&name(host), answered, OWN, policy);
        }
        readiness
    }

    #[test]
    fn a_wrong_clock_is_found_however_long_a_host_took_to_get_ready() {
        let readiness =
            hear(vec![("h1", Ok(answered("h1", 800, 0))), ("h2", Ok(answered("h2", 800, 50)))], &ANY);
        let [objection] = readiness.objections() else { panic!("h2 alone: {readiness:?}") };
        assert_eq!((&objection.host, &objection.cause), (&name("h2"), &ObjectionCause::Clock));
        let why = "its clock is 50.00 ms ahead of that of the controller, known within 1.000 ms";
        assert_eq!(objection.why, why);
        assert!(!readiness.may_start(&ANY));
        assert!(readiness.may_start(&StartPolicy { at_least: Some(1), ..ANY }));
        assert!(!readiness.may_start(&StartPolicy { at_least: Some(2), ..ANY }));
        assert_eq!(
            (readiness.order(&name("h1")).is_armed, readiness.order(&name("h2")).is_armed),
            (true, false)
        );
    }

    #[test]
    fn a_required_bound_refuses_clocks_that_are_not_synchronized() {
        let policy = StartPolicy { clock_bound_ns: Some(100_000), ..ANY };
        let readiness = hear(vec![("h1", Ok(answered("h1", 1, 0)))], &policy);
        assert_eq!(
            readiness.objections()[0].why,
            "its clock is not synchronized, and the test requires 100.0 µs"
        );
    }

    #[test]
    fn refusals_and_silence_are_told() {
        let mut busy = answered("h1", 1, 0);
        busy.answer.result = OrderResult::refused(RefusalKind::Host, "eth1 is in use by run r1");
        let readiness = hear(vec![("h1", Ok(busy)), ("h2", Err("no answer".to_owned()))], &ANY);
        let told: Vec<&str> = readiness.objections().iter().map(|objection| objection.why.as_str()).collect();
        assert_eq!(told, ["eth1 is in use by run r1", "no answer"]);
        assert!(!readiness.may_start(&StartPolicy { at_least: Some(0), ..ANY }), "not one is ready");
    }

    #[test]
    fn the_start_is_a_second_away_and_more_if_answers_are_slow() {
        let near = hear(vec![("h1", Ok(answered("h1", 700, 0)))], &ANY);
        assert_eq!(near.start_at_ns(5), 5 + 1000 * MS, "preparing does not count");
        let mut far = answered("h1", 0, 0);
        (far.asked_ns, far.answered_ns) = (far.asked_ns - 99 * MS, far.answered_ns + 99 * MS);
        assert_eq!(hear(vec![("h1", Ok(far))], &ANY).start_at_ns(0), 4000 * MS);
    }

    #[test]
    fn two_agents_of_one_name_do_not_start() {
        let mut ready = hear(vec![("h1", Ok(answered("h1", 1, 0)))], &ANY);
        assert!(ready.may_start(&ANY));
        assert_eq!(ready.order(&name("h1")).instance, Some(7));
        ready.doubts(&name("h1"));
        let said: Vec<&str> = ready.objections().iter().map(|objection| objection.why.as_str()).collect();
        assert_eq!(said, ["two agents are connected as h1, and both answered"]);
        assert!(!ready.may_start(&ANY) && ready.armed().next().is_none());
    }
}
