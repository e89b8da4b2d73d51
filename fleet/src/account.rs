//! The account of a run: what each flow and host did, what is exact and what is a bound, and the
//! verdict. It is made from the plan and the newest counts alone, so the same counts give the same
//! account.

use crate::last_words::LastWords;
use crate::message::{
    CountedFlow, HostClock, HostOrder, PlannedFlow, ReceiverFigures, RunEnd, RunPlan, Stat,
};
use crate::name::{FleetName, PortPlace};
use crate::seconds::SecondAccount;
use measure::{HistogramLog, PERCENTILES};
use report::human::{human_count, human_duration};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// Flows in the text; the others are in JSON.
const FLOWS_SHOWN: usize = 32;

/// How complete an account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// All hosts ran to the end and delivered their last counts.
    Whole,
    /// Some did not: parts are bounds or unknown.
    Partial,
    /// No host started.
    NotStarted,
}

/// A count: exact if both bounds are equal. Without an upper bound it is `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountBounds {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: Option<u64>,
}

impl CountBounds {
    fn exact(count: u64) -> Self {
        Self { min: count, max: Some(count) }
    }

    /// The count, if it is exact.
    pub fn known(self) -> Option<u64> {
        self.max.filter(|max| *max == self.min)
    }

    fn plus(self, other: Self) -> Self {
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowAccount {
    /// Its name.
    pub name: String,
    /// Where it was sent.
    pub from: PortPlace,
    /// Where it was received.
    pub to: PortPlace,
    /// Frames that the driver accepted; `null` if the sender's last counts are missing.
    pub sent: Option<u64>,
    /// First copies that arrived; `null` if the receiver's last counts are missing.
    pub received: Option<u64>,
    /// Lost frames; `null` if they are not exactly known.
    pub lost: Option<u64>,
    /// What is known about `sent`.
    pub sent_bounds: CountBounds,
    /// What is known about `received`.
    pub received_bounds: CountBounds,
    /// What is known about `lost`.
    pub lost_bounds: CountBounds,
    /// Further copies, as far as known.
    pub duplicate: Option<u64>,
    /// First copies that arrived after a later frame, as far as known.
    pub reordered: Option<u64>,
    /// Frames that the sender's driver rejected, as far as known.
    pub errors: Option<u64>,
    /// When the first frame arrived, by the clock of the receiver.
    pub first_ns: Option<u64>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostAccount {
    /// Its name.
    pub host: FleetName,
    /// True if its counts are complete and it ran to the end.
    pub is_whole: bool,
    /// Why it ended; `null` if its last counts are missing.
    pub end: Option<RunEnd>,
    /// Why it failed.
    pub why: Option<String>,
    /// Number of its newest message, 0 for none.
    pub last_number: u32,
    /// Time of that message on the host's clock.
    pub last_time_ns: Option<u64>,
    /// See [`Stat::released_late_ns`].
    pub released_late_ns: Option<u64>,
}

/// How the hosts started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StartAccount {
    /// The requested time.
    pub start_at_ns: u64,
    /// The first frames of all hosts left within this time from then on, by their own clocks;
    /// `null` if no sender has reported its first frame.
    pub spread_ns: Option<u64>,
    /// The clocks differ by this much at most: 0 on one kernel; `null` if they are not
    /// synchronized.
    pub clocks_ns: Option<u64>,
}

/// Latencies of all receivers together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyAccount {
    /// Frames with a latency.
    pub stamped: u64,
    /// Lowest, to the bucket.
    pub min_ns: u64,
    /// Highest, to the bucket.
    pub max_ns: u64,
    /// Percentiles of the merged histogram: `[per cent, nanoseconds]`.
    pub percentiles: Vec<(f64, u64)>,
    /// The merged histogram: HdrHistogram's format V2, compressed, in base64.
    pub histogram: String,
    /// False if the last counts of a receiver are missing.
    pub is_complete: bool,
}

/// The account.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunAccount {
    /// The run.
    pub run: FleetName,
    /// How complete it is.
    pub verdict: RunVerdict,
    /// How long the senders were to send at most.
    pub duration_ns: u64,
    /// How the hosts started.
    pub start: StartAccount,
    /// Sum of all flows.
    pub sent: CountBounds,
    /// Sum of all flows.
    pub received: CountBounds,
    /// Sum of all flows.
    pub lost: CountBounds,
    /// The frames of each second since the start, of all flows. After an hour there are no more.
    pub seconds: Vec<SecondAccount>,
    /// The flows.
    pub flows: Vec<FlowAccount>,
    /// The hosts.
    pub hosts: Vec<HostAccount>,
    /// Latencies; `null` if clocks are not synchronized, or no frame has one.
    pub latency: Option<LatencyAccount>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl RunAccount {
    /// Of a plan and the newest counts.
    pub fn of(plan: &RunPlan, words: &LastWords) -> Self {
        let hosts: Vec<HostAccount> = plan.hosts.iter().map(|order| host(order, words)).collect();
        let flows = (0..).zip(&plan.flows);
        let flows: Vec<FlowAccount> = flows
            .map(|(id, planned)| flow(id, &planned.name, (&planned.from, &planned.to), planned.count, words))
            .collect();
        let verdict = match () {
            () if !hosts.iter().zip(&plan.hosts).any(|(host, order)| order.is_armed && has_started(host))
                && !has_sent(plan, words) =>
            {
                RunVerdict::NotStarted
            }
            () if hosts.iter().all(|host| host.is_whole) => RunVerdict::Whole,
            () => RunVerdict::Partial,
        };
        let sum = |of: fn(&FlowAccount) -> CountBounds| {
            flows.iter().map(of).fold(CountBounds::exact(0), CountBounds::plus)
        };
        let start = start(plan, &hosts);
        let mut notes = Vec::new();
        let latency = match start.clocks_ns {
            Some(_) => latency(plan, words, &mut notes),
            None => {
                notes.push(
                    "latencies between hosts are not shown: their clocks are not synchronized".to_owned(),
                );
                None
            }
        };
        let lost_ring: u64 = receivers(plan, words).map(|receiver| receiver.lost_ring).sum();
        if lost_ring > 0 {
            let count = human_count(lost_ring);
            notes.push(format!(
                "{count} of the lost frames were lost in rings of packet sockets of the receivers"
            ));
        }
        Self {
            run: plan.run.clone(),
            verdict,
            duration_ns: plan.duration_ns,
            start,
            sent: sum(|flow| flow.sent_bounds),
            received: sum(|flow| flow.received_bounds),
            lost: sum(|flow| flow.lost_bounds),
            seconds: seconds(plan, words),
            flows,
            hosts,
            latency,
            notes,
        }
    }

    /// True if it is whole.
    pub fn is_whole(&self) -> bool {
        self.verdict == RunVerdict::Whole
    }
}

fn host(order: &HostOrder, words: &LastWords) -> HostAccount {
    let stat = words.of(&order.host);
    let end = stat.and_then(|stat| stat.end);
    HostAccount {
        host: order.host.clone(),
        is_whole: matches!(end, Some(RunEnd::Done | RunEnd::Stopped)),
        end,
        why: match stat {
            _ if !order.is_armed => {
                let why = order.why.as_deref().unwrap_or("for an unknown reason");
                Some(why.to_owned())
            }
            stat => {
                let unreadable = words.why_unreadable(&order.host);
                let why = unreadable.map(|why| format!("its newest counts cannot be read: {why}"));
                why.or_else(|| stat.and_then(|stat| stat.why.clone()))
            }
        },
        last_number: stat.map_or(0, |stat| stat.number),
        last_time_ns: stat.map(|stat| stat.time_ns),
        released_late_ns: stat.and_then(|stat| stat.released_late_ns),
    }
}

/// False if it is known that the host did not start.
fn has_started(host: &HostAccount) -> bool {
    !matches!(host.end, Some(RunEnd::Aborted | RunEnd::Late))
}

/// True if a host sent frames: one may, although it was told not to start.
fn has_sent(plan: &RunPlan, words: &LastWords) -> bool {
    stats(plan, words).flat_map(|stat| &stat.flows).any(|flow| flow.sent.is_some_and(|sent| sent > 0))
}

/// The counts of a flow at one end, and whether they are the last ones.
fn end_of(
    id: u32,
    host: &FleetName,
    words: &LastWords,
    of: impl Fn(&CountedFlow) -> bool,
) -> (CountedFlow, bool) {
    let stat = words.of(host);
    let counts = stat.and_then(|stat| stat.flows.iter().find(|flow| flow.id == id && of(flow)));
    (counts.copied().unwrap_or_default(), counts.is_some() && stat.is_some_and(|stat| stat.is_last))
}

fn flow(
    id: u32,
    name: &str,
    (from, to): (&PortPlace, &PortPlace),
    planned: Option<u64>,
    words: &LastWords,
) -> FlowAccount {
    let (sender, has_sent) = end_of(id, &from.host, words, |flow| flow.sent.is_some());
    let (receiver, has_received) = end_of(id, &to.host, words, |flow| flow.received.is_some());
    let (sent, received) = (sender.sent.unwrap_or(0), receiver.received.unwrap_or(0));
    // Of frames that were too late to tell a first copy from a duplicate, all or none may be first.
    let late = receiver.too_old.unwrap_or(0);
    let sent_bounds = match has_sent {
        true => CountBounds::exact(sent),
        // A frame that arrived was sent.
        false => {
            CountBounds { min: sent.max(received), max: planned.map(|count| count.max(sent).max(received)) }
        }
    };
    let received_bounds = match has_received {
        true => CountBounds::exact(received),
        false => CountBounds { min: received, max: sent_bounds.max.map(|max| max.max(received)) },
    };
    let lost_bounds = CountBounds {
        // While frames may still arrive, none is known to be lost.
        min: if has_received { sent_bounds.min.saturating_sub(received + late) } else { 0 },
        max: sent_bounds.max.map(|max| max.saturating_sub(received)),
    };
    let lost = lost_bounds.known().filter(|_| has_sent && has_received);
    FlowAccount {
        name: name.to_owned(),
        from: from.clone(),
        to: to.clone(),
        sent: has_sent.then_some(sent),
        received: has_received.then_some(received),
        lost,
        sent_bounds,
        received_bounds,
        lost_bounds,
        duplicate: receiver.duplicate,
        reordered: receiver.reordered,
        errors: sender.errors,
        first_ns: receiver.first_ns,
    }
}

/// How far the clocks of hosts agree, in nanoseconds: 0 if all have one kernel, the sum of the two
/// largest errors of synchronized clocks, otherwise unknown. A host is its boot and its clock.
pub fn clock_agreement_ns(hosts: &[(Option<&str>, Option<HostClock>)]) -> Option<u64> {
    let first = hosts.first().and_then(|(boot_id, _)| *boot_id).filter(|id| !id.is_empty());
    if first.is_some() && hosts.iter().all(|(boot_id, _)| *boot_id == first) {
        return Some(0);
    }
    let bound = |(_, clock): &(_, Option<HostClock>)| {
        clock.filter(|clock| clock.is_synchronized).map(|clock| clock.bound_ns)
    };
    let mut bounds = hosts.iter().map(bound).collect::<Option<Vec<u64>>>()?;
    bounds.sort_unstable();
    Some(bounds.iter().rev().take(2).fold(0, |sum: u64, bound| sum.saturating_add(*bound)))
}

fn start(plan: &RunPlan, hosts: &[HostAccount]) -> StartAccount {
    let late = hosts.iter().filter_map(|host| host.released_late_ns);
    let armed = plan.hosts.iter().filter(|host| host.is_armed);
    let clocks: Vec<_> = armed.map(|host| (host.boot_id.as_deref(), host.clock)).collect();
    let clocks_ns = clock_agreement_ns(&clocks);
    StartAccount { start_at_ns: plan.start_at_ns, spread_ns: late.max(), clocks_ns }
}

fn seconds(plan: &RunPlan, words: &LastWords) -> Vec<SecondAccount> {
    let armed = plan.hosts.iter().filter(|host| host.is_armed).map(|host| &host.host);
    let armed: BTreeSet<&FleetName> = armed.collect();
    let hosts = |of: fn(&PlannedFlow) -> &PortPlace| -> Vec<&FleetName> {
        let hosts: BTreeSet<&FleetName> = plan.flows.iter().map(|flow| &of(flow).host).collect();
        hosts.intersection(&armed).copied().collect()
    };
    let (senders, receivers) = (hosts(|flow| &flow.from), hosts(|flow| &flow.to));
    words.ticks.seconds(plan.start_at_ns, plan.duration_ns, &senders, &receivers)
}

fn stats<'a>(plan: &'a RunPlan, words: &'a LastWords) -> impl Iterator<Item = &'a Stat> {
    plan.hosts.iter().filter_map(|host| words.of(&host.host))
}

fn receivers<'a>(plan: &'a RunPlan, words: &'a LastWords) -> impl Iterator<Item = &'a ReceiverFigures> {
    stats(plan, words).flat_map(|stat| &stat.receivers)
}

fn latency(plan: &RunPlan, words: &LastWords, notes: &mut Vec<String>) -> Option<LatencyAccount> {
    let mut merged: Option<HistogramLog> = None;
    let mut is_complete = plan.flows.iter().all(|flow| words.has_last(&flow.to.host));
    for stat in stats(plan, words) {
        for receiver in &stat.receivers {
            let Some(text) = &receiver.hdr else { continue };
            match (HistogramLog::from_v2_base64(text), &mut merged) {
                (Ok(histogram), Some(merged)) => merged.add(&histogram),
                (Ok(histogram), None) => merged = Some(histogram),
                (Err(why), _) => {
                    is_complete = false;
                    notes.push(format!(
                        "the latencies of {}/{} are left out: {why}",
                        stat.host, receiver.port
                    ));
                }
            }
        }
    }
    let merged = merged.filter(|merged| !merged.is_empty())?;
    Some(LatencyAccount {
        stamped: merged.len(),
        min_ns: merged.min_ns(),
        max_ns: merged.max_ns(),
        percentiles: PERCENTILES
            .iter()
            .map(|percentile| (*percentile, merged.percentile_ns(*percentile)))
            .collect(),
        histogram: merged.v2_base64(),
        is_complete,
    })
}

impl fmt::Display for RunAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.hosts.iter().filter(|host| host.is_whole).count();
        let verdict = match self.verdict {
            RunVerdict::Whole => "whole",
            RunVerdict::Partial => "PARTIAL",
            RunVerdict::NotStarted => "NOT STARTED",
        };
        writeln!(f, "run {}: {verdict}, {whole} of {} hosts ran to the end", self.run, self.hosts.len())?;
        let mut row = |name: &str, value: &dyn fmt::Display| writeln!(f, "  {name:<10} {value}");
        if self.verdict == RunVerdict::NotStarted {
            return self.hosts.iter().try_for_each(|host| row("host", &HostText(host, 0)));
        }
        row("sent", &self.sent)?;
        row("received", &self.received)?;
        row("lost", &self.lost)?;
        let sum = |of: fn(&FlowAccount) -> Option<u64>| self.flows.iter().filter_map(of).sum::<u64>();
        for (name, count) in [
            ("rejected", sum(|flow| flow.errors)),
            ("duplicate", sum(|flow| flow.duplicate)),
            ("reordered", sum(|flow| flow.reordered)),
        ] {
            if count > 0 {
                row(name, &human_count(count))?;
            }
        }
        if let Some(latency) = &self.latency {
            let at = |wanted: f64| latency.percentiles.iter().find(|(percentile, _)| *percentile == wanted);
            let at = |wanted: f64| human_duration(at(wanted).map_or(0, |(_, ns)| *ns));
            let complete = if latency.is_complete { "" } else { ", as far as known" };
            let text = format!(
                "p50 {}, p99 {}, p99.9 {}, max {} of {} frames{complete}",
                at(50.0),
                at(99.0),
                at(99.9),
                human_duration(latency.max_ns),
                human_count(latency.stamped)
            );
            row("latency", &text)?;
        }
        row("start", &self.start)?;
        if let Some(text) = per_second(&self.seconds) {
            row("per second", &text)?;
        }
        for flow in self.flows.iter().take(FLOWS_SHOWN) {
            let FlowAccount { name, from, to, sent_bounds, received_bounds, lost_bounds, .. } = flow;
            let text = format!(
                "{name}, {from} to {to}: sent {sent_bounds}, received {received_bounds}, lost {lost_bounds}"
            );
            row("flow", &text)?;
        }
        if let Some(rest) = self.flows.len().checked_sub(FLOWS_SHOWN).filter(|rest| *rest > 0) {
            row("", &format!("{rest} more flows (--json has all)"))?;
        }
        for host in self.hosts.iter().filter(|host| !host.is_whole || host.end == Some(RunEnd::Stopped)) {
            row("host", &HostText(host, self.start.start_at_ns))?;
        }
        self.notes.iter().try_for_each(|note| row("note", note))
    }
}

/// The slowest and the fastest second. The last one is left out: it may be a part of a second.
fn per_second(seconds: &[SecondAccount]) -> Option<String> {
    let whole = seconds.split_last()?.1;
    let range = |of: fn(&SecondAccount) -> Option<u64>| {
        let known: Vec<u64> = whole.iter().filter_map(of).collect();
        let Some((min, max)) = known.iter().min().zip(known.iter().max()) else {
            return "unknown".to_owned();
        };
        let range = format!("{} to {}", human_count(*min), human_count(*max));
        match whole.len() - known.len() {
            0 => range,
            unknown => format!("{range} ({unknown} of {} seconds unknown)", whole.len()),
        }
    };
    (whole.len() > 1).then(|| {
        format!("sent {}, received {}", range(|second| second.sent), range(|second| second.received))
    })
}

impl fmt::Display for StartAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spread_ns {
            Some(spread) => write!(f, "within {} by the hosts' own clocks; ", human_duration(spread))?,
            None => write!(f, "no sender has reported its first frame; ")?,
        }
        match self.clocks_ns {
            Some(0) => write!(f, "they share a clock"),
            Some(ns) => write!(f, "their clocks agree within {}", human_duration(ns)),
            None => write!(f, "how far their clocks agree is unknown: they are not synchronized"),
        }
    }
}

/// What became of a host that is not whole.
struct HostText<'a>(&'a HostAccount, u64);

impl fmt::Display for HostText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostText(HostAccount { host, end, why, last_number, last_time_ns, .. }, start_at_ns) = self;
        write!(f, "{host}: ")?;
        let why = why.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
        match (end, last_time_ns) {
            (Some(end), _) => write!(f, "{}{why}; its counts are complete", end.name()),
            (None, Some(time_ns)) => {
                let after = human_duration(time_ns.saturating_sub(*start_at_ns));
                write!(
                    f,
                    "lost{why}; last report {last_number}, {after} after the start: its counts are lower bounds"
                )
            }
            (None, None) if why.is_empty() => write!(f, "it never reported"),
            (None, None) => f.write_str(why.trim_start_matches(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{HostClock, PlannedFlow};
    use measure::{HISTOGRAM_LEN, histogram_index};

    fn name(text: &str) -> FleetName {
        text.parse().unwrap()
    }

    /// A plan of one flow of 100 frames from h1 to h2.
    fn plan() -> RunPlan {
        let clock = HostClock { is_synchronized: true, bound_ns: 3000 };
        let order = |host: &str| HostOrder {
            host: name(host),
            is_armed: true,
            clock: Some(clock),
            boot_id: Some(host.to_owned()),
            why: None,
        };
        let flow = PlannedFlow {
            name: "a".to_owned(),
            from: "h1/eth1".parse().unwrap(),
            to: "h2/eth1".parse().unwrap(),
            send: Vec::new(),
            count: Some(100),
        };
        RunPlan {
            run: name("r"),
            start_at_ns: 5_000_000_000,
            duration_ns: 1,
            flows: vec![flow],
            hosts: vec![order("h1"), order("h2")],
        }
    }

    fn stat(host: &str, number: u32, counts: CountedFlow, end: Option<RunEnd>) -> Stat {
        Stat {
            run: name("r"),
            host: name(host),
            number,
            time_ns: 8_200_000_000,
            released_late_ns: counts.sent.map(|_| 40_000),
            has_sent_all: end.is_some(),
            flows: vec![counts],
            receivers: Vec::new(),
            is_last: end.is_some(),
            end,
            why: None,
            reports: Vec::new(),
        }
    }

    fn sent(count: u64) -> CountedFlow {
        CountedFlow { sent: Some(count), errors: Some(0), ..CountedFlow::default() }
    }

    fn received(count: u64) -> CountedFlow {
        CountedFlow {
            received: Some(count),
            duplicate: Some(0),
            reordered: Some(0),
            ..CountedFlow::default()
        }
    }

    fn account(stats: Vec<Stat>) -> RunAccount {
        let mut words = LastWords::default();
        for stat in stats {
            words.hear(stat);
        }
        RunAccount::of(&plan(), &words)
    }

    const DONE: Option<RunEnd> = Some(RunEnd::Done);

    #[test]
    fn with_both_last_words_all_is_exact() {
        let account = account(vec![stat("h1", 4, sent(100), DONE), stat("h2", 4, received(97), DONE)]);
        assert_eq!((account.verdict, account.lost.known()), (RunVerdict::Whole, Some(3)));
        assert_eq!(account.flows[0].lost, Some(3));
        assert_eq!((account.start.spread_ns, account.start.clocks_ns), (Some(40_000), Some(6000)));
        let text = account.to_string();
        assert!(text.starts_with("run r: whole, 2 of 2 hosts ran to the end\n"), "{text}");
        assert!(
            text.contains("within 40.00 µs by the hosts' own clocks; their clocks agree within 6.000 µs"),
            "{text}"
        );
    }

    #[test]
    fn a_dead_sender_leaves_bounds() {
        let account = account(vec![stat("h1", 2, sent(40), None), stat("h2", 4, received(60), DONE)]);
        let flow = &account.flows[0];
        assert_eq!((account.verdict, flow.sent, flow.lost), (RunVerdict::Partial, None, None));
        assert_eq!(flow.sent_bounds, CountBounds { min: 60, max: Some(100) });
        assert_eq!(flow.lost_bounds, CountBounds { min: 0, max: Some(40) });
        let text = account.to_string();
        assert!(text.contains("h1: lost; last report 2, 3.200 s after the start"), "{text}");
        assert!(text.contains("sent 60 to 100, received 60, lost 0 to 40"), "{text}");
    }

    #[test]
    fn a_host_whose_counts_cannot_be_read_is_partial_and_the_others_are_exact() {
        let mut words = LastWords::default();
        words.hear(stat("h1", 4, sent(100), DONE));
        words.cannot_read(name("h2"), "not JSON".to_owned());
        words.cannot_read(name("h1"), "the last one is here".to_owned());
        let account = RunAccount::of(&plan(), &words);
        assert_eq!((account.verdict, account.flows[0].sent), (RunVerdict::Partial, Some(100)));
        assert_eq!((account.flows[0].lost, account.hosts[0].is_whole), (None, true));
        assert_eq!(account.hosts[1].why.as_deref(), Some("its newest counts cannot be read: not JSON"));
        let text = account.to_string();
        assert!(text.contains("host       h2: its newest counts cannot be read: not JSON\n"), "{text}");
        // The stream has what the controller has not heard, or the other way round.
        let mut heard = LastWords::default();
        heard.hear(stat("h2", 3, received(60), None));
        heard.merge(words);
        let text = RunAccount::of(&plan(), &heard).to_string();
        let expected = "h2: lost, its newest counts cannot be read: not JSON; last report 3, 3.200 s after";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_slowest_and_the_fastest_second_are_shown() {
        let mut words = LastWords::default();
        for (number, count) in [(1, 30), (2, 70), (3, 100)] {
            let at = |host, counts, end| {
                let time_ns = (5 + u64::from(number)) * 1_000_000_000 - if number == 3 { 1 } else { 0 };
                Stat { time_ns, ..stat(host, number, counts, end) }
            };
            let end = DONE.filter(|_| number == 3);
            words.hear(at("h1", sent(count), end));
            words.hear(at("h2", received(count), end));
        }
        let account = RunAccount::of(&RunPlan { duration_ns: 3_000_000_000, ..plan() }, &words);
        let sent: Vec<_> = account.seconds.iter().map(|second| second.sent).collect();
        assert_eq!(sent, [Some(30), Some(40), Some(30)]);
        let text = account.to_string();
        assert!(text.contains("  per second sent 30 to 40, received 30 to 40\n"), "{text}");
        let seconds = [Some(7), Some(9), None, None].map(|sent| SecondAccount { sent, received: None });
        let text = "sent 7 to 9 (1 of 3 seconds unknown), received unknown";
        assert_eq!(per_second(&seconds).as_deref(), Some(text));
    }

    #[test]
    fn a_host_that_was_told_too_late_not_to_start_is_not_hidden() {
        let mut refused = plan();
        refused.hosts.iter_mut().for_each(|host| host.is_armed = false);
        let verdict = |sent_frames: u64, end: RunEnd| {
            let mut words = LastWords::default();
            words.hear(stat("h1", 1, sent(sent_frames), Some(end)));
            RunAccount::of(&refused, &words).verdict
        };
        assert_eq!(verdict(0, RunEnd::Aborted), RunVerdict::NotStarted);
        assert_eq!(verdict(7, RunEnd::Stopped), RunVerdict::Partial);
    }

    #[test]
    fn a_dead_receiver_leaves_bounds() {
        let account = account(vec![stat("h1", 4, sent(90), DONE), stat("h2", 1, received(10), None)]);
        let flow = &account.flows[0];
        assert_eq!((flow.sent, flow.received, flow.lost), (Some(90), None, None));
        assert_eq!(
            (flow.received_bounds, flow.lost_bounds),
            (CountBounds { min: 10, max: Some(90) }, CountBounds { min: 0, max: Some(80) })
        );
    }

    #[test]
    fn frames_that_came_too_late_make_loss_an_interval() {
        let late = CountedFlow { too_old: Some(2), ..received(97) };
        let account = account(vec![stat("h1", 4, sent(100), DONE), stat("h2", 4, late, DONE)]);
        assert_eq!(
            (account.flows[0].lost, account.flows[0].lost_bounds),
            (None, CountBounds { min: 1, max: Some(3) })
        );
    }

    #[test]
    fn an_orphaned_host_is_partial_and_its_counts_are_exact() {
        let orphaned = Some(RunEnd::Orphaned);
        let account = account(vec![stat("h1", 4, sent(50), orphaned), stat("h2", 4, received(50), orphaned)]);
        assert_eq!((account.verdict, account.flows[0].lost), (RunVerdict::Partial, Some(0)));
        assert!(account.to_string().contains("h1: orphaned; its counts are complete"), "{account}");
    }

    #[test]
    fn percentiles_are_those_of_the_merged_histogram() {
        let histogram = |latencies: &[u64]| {
            let mut counts = vec![0; HISTOGRAM_LEN];
            latencies.iter().for_each(|latency| counts[histogram_index(*latency)] += 1);
            HistogramLog::new(&counts)
        };
        let with = |host: &str, latencies: &[u64]| {
            let hdr = Some(histogram(latencies).v2_base64());
            let figures = ReceiverFigures { port: name("eth1"), received: 0, stale: 0, lost_ring: 0, hdr };
            Stat { receivers: vec![figures], ..stat(host, 9, received(0), DONE) }
        };
        // The mean of both medians would be 5,050.
        let account = account(vec![with("h1", &[100; 9]), with("h2", &[10_000])]);
        let latency = account.latency.expect("both have frames");
        let all = histogram(&[100, 100, 100, 100, 100, 100, 100, 100, 100, 10_000]);
        assert_eq!(latency.percentiles[1], (50.0, all.percentile_ns(50.0)));
        assert_eq!((latency.stamped, latency.histogram), (10, all.v2_base64()));
    }

    #[test]
    fn one_way_latency_needs_clocks_that_agree() {
        let mut unsynchronized = plan();
        unsynchronized.hosts[1].clock = None;
        let account = RunAccount::of(&unsynchronized, &LastWords::default());
        assert_eq!((account.start.clocks_ns, account.latency.is_none()), (None, true));
        assert!(account.to_string().contains("not shown: their clocks are not synchronized"), "{account}");
        unsynchronized.hosts.iter_mut().for_each(|host| host.boot_id = Some("same".to_owned()));
        assert_eq!(
            RunAccount::of(&unsynchronized, &LastWords::default()).start.clocks_ns,
            Some(0),
            "one kernel"
        );
    }
}
