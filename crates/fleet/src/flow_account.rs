//! The account of one flow: its counts at both ends, and what they prove.

use crate::last_words::LastWords;
use crate::message::{CountedFlow, FlowRate, PlannedFlow, RunPlan, Stat};
use crate::name::{FleetName, PortPlace};
use facts::Described;
use report::human::human_count;
use serde::Serialize;
use std::fmt;

/// A count: exact if both bounds are equal. Without an upper bound it is `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct CountBounds {
    /// At least so many frames; equal to `max` if the number is exact.
    #[fact(unit = "frames")]
    pub min: u64,
    /// At most so many frames; `null` if unknown.
    #[fact(unit = "frames")]
    pub max: Option<u64>,
}

impl CountBounds {
    pub(crate) fn exact(count: u64) -> Self {
        Self { min: count, max: Some(count) }
    }

    fn unknown() -> Self {
        Self { min: 0, max: None }
    }

    /// The count, if it is exact.
    pub fn known(self) -> Option<u64> {
        self.max.filter(|max| *max == self.min)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let max = self.max.zip(other.max).map(|(one, two)| one.saturating_add(two));
        Self { min: self.min.saturating_add(other.min), max }
    }
}

impl fmt::Display for CountBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known(), self.max) {
            (Some(count), _) => f.write_str(&human_count(count)),
            (_, Some(max)) => write!(f, "{} to {}", human_count(self.min), human_count(max)),
            (_, None) => write!(f, "at least {}", human_count(self.min)),
        }
    }
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct FlowAccount {
    /// Its name.
    pub name: String,
    /// The port that it was sent from, as HOST/PORT.
    pub from: PortPlace,
    /// The port that it was received at, as HOST/PORT.
    pub to: PortPlace,
    /// Frames that the driver accepted; `null` unless exact: the sender's last counts are missing.
    #[fact(unit = "frames")]
    pub sent: Option<u64>,
    /// First copies that arrived; `null` unless exact: the receiver's last counts are missing, or
    /// it ended before the sender, so more may have arrived.
    #[fact(unit = "frames")]
    pub received: Option<u64>,
    /// Lost frames; `null` unless exact.
    #[fact(unit = "frames")]
    pub lost: Option<u64>,
    /// The bounds of `sent`: what is known about it.
    pub sent_bounds: CountBounds,
    /// The bounds of `received`: what is known about it.
    pub received_bounds: CountBounds,
    /// The bounds of `lost`: what is known about it.
    pub lost_bounds: CountBounds,
    /// Further copies, as in `wirerate.measure/1`; `null` if unknown.
    #[fact(unit = "frames")]
    pub duplicate: Option<u64>,
    /// First copies that arrived after a later frame, as in `wirerate.measure/1`; `null` if
    /// unknown.
    #[fact(unit = "frames")]
    pub reordered: Option<u64>,
    /// Frames that the sender's driver rejected, as in `wirerate.send/2`; `null` if unknown.
    #[fact(unit = "frames")]
    pub errors: Option<u64>,
    /// When the first frame arrived, by the clock of the receiver; `null` if unknown.
    pub first_ns: Option<u64>,
    /// Its rate, the requested one and the reached one; `null` without a pace or the sender's last
    /// counts.
    pub rate: Option<FlowRate>,
    /// Why its counts are not exact or cannot be; otherwise `null`.
    pub fault: Option<String>,
}

impl FlowAccount {
    /// True if sent, received and lost are exact and agree.
    pub fn is_exact(&self) -> bool {
        self.lost.is_some() && self.fault.is_none()
    }

    /// True if its sender missed its rate.
    pub fn has_missed_rate(&self) -> bool {
        self.rate.is_some_and(|rate| rate.is_missed)
    }
}

/// One end of a flow.
struct FlowEnd<'a> {
    counts: CountedFlow,
    /// The newest message of the host.
    stat: Option<&'a Stat>,
    /// The message is the last one, and has counts of the flow.
    is_last: bool,
}

impl<'a> FlowEnd<'a> {
    fn of(id: u32, host: &FleetName, words: &'a LastWords, is_end: fn(&CountedFlow) -> bool) -> Self {
        let stat = words.of(host);
        let counts = stat.and_then(|stat| stat.flows.iter().find(|flow| flow.id == id && is_end(flow)));
        let is_last = counts.is_some() && stat.is_some_and(|stat| stat.is_last);
        Self { counts: counts.copied().unwrap_or_default(), stat, is_last }
    }

    /// Why nothing exact is known from it.
    fn missing(&self, host: &FleetName) -> Option<String> {
        match self.stat {
            Some(stat) if stat.is_last && !self.is_last => Some(format!("{host} has not counted it")),
            _ if !self.is_last => Some(format!("the last counts of {host} are missing")),
            _ => None,
        }
    }
}

/// True if the receiver counted until its sender had ended and late frames had arrived. Clocks of
/// both differ by `clocks_ns` at most. A sender whose end is unknown sends until the planned end at
/// most.
fn has_stayed(plan: &RunPlan, clocks_ns: u64, sender: &FlowEnd<'_>, receiver: &FlowEnd<'_>) -> bool {
    let Some(stat) = receiver.stat.filter(|_| receiver.is_last) else { return false };
    let planned_ns = plan.start_at_ns.saturating_add(plan.duration_ns);
    let sent_until_ns = sender.stat.filter(|_| sender.is_last).and_then(|stat| stat.sent_until_ns);
    let ends_ns = sent_until_ns.unwrap_or(planned_ns);
    let over_ns = ends_ns.saturating_add(plan.settle_ns).saturating_add(clocks_ns);
    let has_all = sender.is_last && receiver.counts.received >= sender.counts.sent;
    has_all || stat.has_heard_all_sent || stat.received_until_ns.is_some_and(|until_ns| until_ns >= over_ns)
}

/// Why the last counts of both ends cannot be those of one sender and one receiver.
fn contradiction(planned: &PlannedFlow, sender: &CountedFlow, receiver: &CountedFlow) -> Option<String> {
    let sent = sender.sent.unwrap_or(0);
    let more = [receiver.duplicate, receiver.too_old].map(Option::unwrap_or_default);
    let arrived = more.iter().fold(receiver.received.unwrap_or(0), |sum, more| sum.saturating_add(*more));
    if let Some(count) = planned.count.filter(|count| sent > *count) {
        let (sent, count) = (human_count(sent), human_count(count));
        return Some(format!("{sent} frames were sent, and --count is {count}"));
    }
    (arrived > sent).then(|| {
        let (arrived, sent) = (human_count(arrived), human_count(sent));
        format!("{arrived} frames arrived of {sent} sent: something on the way copies frames, or two hosts send them")
    })
}

/// Makes the account of flow `id` of a plan. Clocks of hosts differ by `clocks_ns` at most.
pub(crate) fn flow_account(plan: &RunPlan, id: u32, words: &LastWords, clocks_ns: u64) -> FlowAccount {
    let planned = &plan.flows[id as usize];
    let PlannedFlow { name, from, to, .. } = planned;
    let sender = FlowEnd::of(id, &from.host, words, |flow| flow.sent.is_some());
    let receiver = FlowEnd::of(id, &to.host, words, |flow| flow.received.is_some());
    let has_received = has_stayed(plan, clocks_ns, &sender, &receiver);
    let (sent, received) = (sender.counts.sent.unwrap_or(0), receiver.counts.received.unwrap_or(0));
    // Of frames that were too late to tell a first copy from a duplicate, all or none may be first.
    let late = receiver.counts.too_old.unwrap_or(0);
    let sent_bounds = match sender.is_last {
        true => CountBounds::exact(sent),
        // A frame that arrived was sent.
        false => CountBounds {
            min: sent.max(received),
            max: planned.count.map(|count| count.max(sent).max(received)),
        },
    };
    let received_bounds = match has_received {
        true => CountBounds::exact(received),
        false => CountBounds { min: received, max: sent_bounds.max.map(|max| max.max(received)) },
    };
    let mut lost_bounds = CountBounds {
        // While frames may still arrive, none is known to be lost.
        min: if has_received { sent_bounds.min.saturating_sub(received.saturating_add(late)) } else { 0 },
        max: sent_bounds.max.map(|max| max.saturating_sub(received)),
    };
    let has_both = sender.is_last && receiver.is_last;
    let contradiction =
        if has_both { contradiction(planned, &sender.counts, &receiver.counts) } else { None };
    if contradiction.is_some() {
        lost_bounds = CountBounds::unknown();
    }
    let left = || {
        let why = format!("{} received until before {} had sent all", to.host, from.host);
        (!has_received).then_some(why)
    };
    let unsure = || {
        let late = human_count(late);
        let why = format!("{late} frames came too late to tell a first copy from a duplicate");
        (lost_bounds.known().is_none()).then_some(why)
    };
    FlowAccount {
        name: name.clone(),
        from: from.clone(),
        to: to.clone(),
        sent: sender.is_last.then_some(sent),
        received: has_received.then_some(received),
        lost: lost_bounds.known().filter(|_| has_both && has_received),
        sent_bounds,
        received_bounds,
        lost_bounds,
        duplicate: receiver.counts.duplicate,
        reordered: receiver.counts.reordered,
        errors: sender.counts.errors,
        first_ns: receiver.counts.first_ns,
        rate: sender.counts.rate.filter(|_| sender.is_last),
        fault: contradiction
            .or_else(|| sender.missing(&from.host))
            .or_else(|| receiver.missing(&to.host))
            .or_else(left)
            .or_else(unsure),
    }
}
