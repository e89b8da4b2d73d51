//! The account of a run: what each flow and host did, what is exact and what is a bound, and the
//! verdict. It is made from the plan and the newest counts alone, so the same counts give the same
//! account.

use crate::flow_account::{CountBounds, FlowAccount, flow_account};
use crate::last_words::LastWords;
use crate::message::{HostOrder, PlannedFlow, ReceiverFigures, RunEnd, RunPlan, Stat};
use crate::name::{FleetName, PortPlace};
use crate::readiness::UNSYNCHRONIZED_NS_MAX;
use crate::seconds::SecondAccount;
use facts::Described;
use measure::{HistogramLog, HostClock, OtherFrames, PERCENTILES, UnusualFrames};
use report::human::{human_count, human_pps};
use serde::Serialize;
use std::collections::BTreeSet;

/// Flows that notes name; the others are in JSON.
const NAMED_MAX: usize = 8;

/// How complete an account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// All hosts ran to the end and delivered their last counts, and the counts of each flow are
    /// exact and agree.
    Whole,
    /// Some do not: parts are bounds or unknown.
    Partial,
    /// No host started.
    NotStarted,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct HostAccount {
    /// Its name.
    pub host: FleetName,
    /// True if its counts are complete and it ran to the end.
    pub is_whole: bool,
    /// How it ended; `null` without its last counts.
    pub end: Option<RunEnd>,
    /// The reason, if it failed or did not take part, or if its counts cannot be used; otherwise
    /// `null`.
    pub why: Option<String>,
    /// Number of its last counts, 0 for none.
    pub last_number: u32,
    /// Time of its last counts, by its own clock; `null` for none.
    pub last_time_ns: Option<u64>,
    /// How late it started: from the requested time until the first frame had been sent, by its own
    /// clock, of the sender that was last. `null` for hosts that only receive, and without its last
    /// counts.
    pub released_late_ns: Option<u64>,
}

/// How the hosts started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct StartAccount {
    /// The requested start, since 1970.
    pub start_at_ns: u64,
    /// The first frames of all hosts left within this time from the start on, by the hosts' own
    /// clocks; `null` if unknown: no sender has reported its first frame.
    pub spread_ns: Option<u64>,
    /// The clocks agree within this time, 0 on one kernel; `null` if unknown: they are not
    /// synchronized.
    pub clocks_ns: Option<u64>,
}

/// Latencies of all receivers together.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct LatencyAccount {
    /// Frames with a latency.
    #[fact(unit = "frames")]
    pub stamped: u64,
    /// The lowest latency, to the bucket.
    pub min_ns: u64,
    /// The highest latency, to the bucket.
    pub max_ns: u64,
    /// Pairs of a percentile and the latency in nanoseconds, of the merged histogram.
    #[fact(kind = Kind::List(&Kind::List(&Kind::Number(""))))]
    pub percentiles: Vec<(f64, u64)>,
    /// The latencies, as `histogram` of `wirerate.measure/1`: the merged histogram in
    /// HdrHistogram's format V2, compressed, in base64.
    pub histogram: String,
    /// True if all receivers reported; false if the last counts of one are missing.
    pub is_complete: bool,
}

/// The account.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct RunAccount {
    /// The run.
    pub run: FleetName,
    /// The verdict: how complete the account is.
    pub verdict: RunVerdict,
    /// How long flows were to be sent at most.
    pub duration_ns: u64,
    /// When the hosts started, and how far together.
    pub start: StartAccount,
    /// Frames that were sent, the sum of all flows.
    pub sent: CountBounds,
    /// Frames that were received, the sum of all flows.
    pub received: CountBounds,
    /// Frames that were lost, the sum of all flows.
    pub lost: CountBounds,
    /// One entry for each second from the start on, with the frames of all flows; those of the
    /// first hour.
    pub seconds: Vec<SecondAccount>,
    /// One entry for each flow.
    pub flows: Vec<FlowAccount>,
    /// One entry for each host.
    pub hosts: Vec<HostAccount>,
    /// Frames of all receivers that do not count as received.
    pub other_frames: OtherFrames,
    /// Unusual frames that were received, of all receivers.
    pub unusual_frames: UnusualFrames,
    /// Latency of all receivers; `null` without synchronized clocks, or if no frame has a latency.
    pub latency: Option<LatencyAccount>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl RunAccount {
    /// Of a plan and the newest counts.
    pub fn of(plan: &RunPlan, words: &LastWords) -> Self {
        let hosts: Vec<HostAccount> = plan.hosts.iter().map(|order| host(order, words)).collect();
        let start = start(plan, &hosts);
        // Both clocks may differ from that of the controller.
        let clocks_ns = start.clocks_ns.unwrap_or(2 * UNSYNCHRONIZED_NS_MAX);
        let flows: Vec<FlowAccount> =
            (0..plan.flows.len()).map(|id| flow_account(plan, id as u32, words, clocks_ns)).collect();
        let verdict = match () {
            () if !hosts.iter().zip(&plan.hosts).any(|(host, order)| order.is_armed && has_started(host))
                && !has_sent(plan, words) =>
            {
                RunVerdict::NotStarted
            }
            () if hosts.iter().all(|host| host.is_whole) && flows.iter().all(FlowAccount::is_exact) => {
                RunVerdict::Whole
            }
            () => RunVerdict::Partial,
        };
        let sum = |of: fn(&FlowAccount) -> CountBounds| {
            flows.iter().map(of).fold(CountBounds::exact(0), CountBounds::plus)
        };
        let mut notes = flow_notes(&flows);
        notes.extend(missed_rates(plan, &flows, words));
        let latency = match start.clocks_ns {
            Some(_) => latency(plan, words, &mut notes),
            None => {
                notes.push(
                    "latencies between hosts are not shown: their clocks are not synchronized".to_owned(),
                );
                None
            }
        };
        let lost_ring = receivers(plan, words).fold(0_u64, |sum, port| sum.saturating_add(port.lost_ring));
        if lost_ring > 0 {
            let count = human_count(lost_ring);
            notes.push(format!(
                "{count} of the lost frames were lost in rings of packet sockets of the receivers"
            ));
        }
        let (mut other_frames, mut unusual_frames) = (OtherFrames::default(), UnusualFrames::default());
        for port in receivers(plan, words) {
            other_frames.add(&port.others);
            unusual_frames.add(&port.unusual);
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
            other_frames,
            unusual_frames,
            latency,
            notes,
        }
    }

    /// True if it is whole, and each flow had its rate.
    pub fn is_good(&self) -> bool {
        self.verdict == RunVerdict::Whole && !self.flows.iter().any(FlowAccount::has_missed_rate)
    }
}

/// Why the counts of flows are not exact although their hosts are whole, or contradict.
fn flow_notes(flows: &[FlowAccount]) -> Vec<String> {
    let told = |flow: &FlowAccount| flow.fault.as_ref().map(|why| format!("{}: {why}", flow.name));
    some_of(flows.iter().filter_map(told).collect(), "flow whose counts are not exact")
}

/// The first of these texts, and how many there are more.
fn some_of(mut texts: Vec<String>, noun: &str) -> Vec<String> {
    let more = texts.len().saturating_sub(NAMED_MAX) as u64;
    texts.truncate(NAMED_MAX);
    texts.extend((more > 0).then(|| format!("and {} more {noun} (--json has all)", human_count(more))));
    texts
}

/// The flows that missed their rate, and why.
fn missed_rates(plan: &RunPlan, flows: &[FlowAccount], words: &LastWords) -> Vec<String> {
    let missed = |flow: &FlowAccount| {
        let rate = flow.rate.filter(|rate| rate.is_missed)?;
        let (reached, asked) = (human_pps(rate.reached_pps), human_pps(rate.asked_pps));
        Some(format!("{}: {reached} of the asked {asked}, so the exit code is 1", flow.name))
    };
    let mut notes = some_of(flows.iter().filter_map(missed).collect(), "flow below its rate");
    let why = |stat: &Stat| -> Vec<String> {
        let told = stat.senders.iter().filter_map(|port| {
            port.why_missed.as_ref().map(|why| format!("{}/{}: {why}", stat.host, port.port))
        });
        told.collect()
    };
    notes.extend(some_of(stats(plan, words).flat_map(why).collect(), "port that missed a rate"));
    notes
}

fn host(order: &HostOrder, words: &LastWords) -> HostAccount {
    let stat = words.of(&order.host);
    let end = stat.and_then(|stat| stat.end);
    let double = words.double_of(&order.host);
    HostAccount {
        host: order.host.clone(),
        is_whole: matches!(end, Some(RunEnd::Done | RunEnd::Stopped)) && double.is_none(),
        end,
        why: match stat {
            _ if !order.is_armed => {
                let why = order.why.as_deref().unwrap_or("for an unknown reason");
                Some(why.to_owned())
            }
            stat => {
                let unusable = words.why_unusable(&order.host);
                let why = unusable.map(|why| format!("its newest counts cannot be used: {why}"));
                why.or(double).or_else(|| stat.and_then(|stat| stat.why.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account_text::per_second;
    use crate::message::{CountedFlow, FlowRate, PlannedFlow, SenderFigures};
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
            instance: Some(7),
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
            duration_ns: 1_000_000_000,
            settle_ns: 300_000_000,
            flows: vec![flow],
            hosts: vec![order("h1"), order("h2")],
        }
    }

    /// A sender ends at 6 s, a receiver at 8.2 s.
    fn stat(host: &str, number: u32, counts: CountedFlow, end: Option<RunEnd>) -> Stat {
        Stat {
            number,
            time_ns: 8_200_000_000,
            released_late_ns: counts.sent.map(|_| 40_000),
            has_sent_all: end.is_some(),
            sent_until_ns: counts.sent.and(end).map(|_| 6_000_000_000),
            received_until_ns: counts.received.and(end).map(|_| 8_200_000_000),
            flows: vec![counts],
            is_last: end.is_some(),
            end,
            ..Stat::new(name("r"), name(host), 7)
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
        let mut words = LastWords::of_run(&plan());
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
        let mut words = LastWords::of_run(&plan());
        words.hear(stat("h1", 4, sent(100), DONE));
        words.cannot_use(name("h2"), "not JSON".to_owned());
        words.cannot_use(name("h1"), "the last one is here".to_owned());
        let account = RunAccount::of(&plan(), &words);
        assert_eq!((account.verdict, account.flows[0].sent), (RunVerdict::Partial, Some(100)));
        assert_eq!((account.flows[0].lost, account.hosts[0].is_whole), (None, true));
        assert_eq!(account.hosts[1].why.as_deref(), Some("its newest counts cannot be used: not JSON"));
        let text = account.to_string();
        assert!(text.contains("host       h2: its newest counts cannot be used: not JSON\n"), "{text}");
        // The stream has what the controller has not heard, or the other way round.
        let mut heard = LastWords::of_run(&plan());
        heard.hear(stat("h2", 3, received(60), None));
        heard.merge(words);
        let text = RunAccount::of(&plan(), &heard).to_string();
        let expected = "h2: lost, its newest counts cannot be used: not JSON; last report 3, 3.200 s after";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn the_slowest_and_the_fastest_second_are_shown() {
        let mut words = LastWords::of_run(&plan());
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
            let mut words = LastWords::of_run(&plan());
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
        assert!(
            account
                .to_string()
                .contains("h1: orphaned 3.200 s after the start; its counts are complete until then"),
            "{account}"
        );
    }

    #[test]
    fn a_receiver_that_left_before_its_sender_had_ended_leaves_bounds() {
        let at = |end: RunEnd, until_ns: u64, has_heard: bool| {
            let receiver = Stat {
                received_until_ns: Some(until_ns),
                has_heard_all_sent: has_heard,
                ..stat("h2", 4, received(60), Some(end))
            };
            account(vec![stat("h1", 4, sent(90), DONE), receiver])
        };
        let left = at(RunEnd::Left, 5_600_000_000, false);
        let flow = &left.flows[0];
        assert_eq!((left.verdict, flow.received, flow.lost), (RunVerdict::Partial, None, None));
        assert_eq!(flow.received_bounds, CountBounds { min: 60, max: Some(90) });
        assert_eq!(flow.lost_bounds, CountBounds { min: 0, max: Some(30) });
        let text = left.to_string();
        assert!(
            text.contains("h2: left 3.200 s after the start; its counts are complete until then"),
            "{text}"
        );
        assert!(text.contains("note       a: h2 received until before h1 had sent all"), "{text}");
        // Its sender ended at 6 s, late frames are waited for 0.3 s, and clocks differ by 6 µs.
        let verdict = |until_ns| {
            let account = at(RunEnd::Stopped, until_ns, false);
            (account.verdict, account.flows[0].lost)
        };
        assert_eq!(verdict(6_300_005_999), (RunVerdict::Partial, None));
        assert_eq!(verdict(6_300_006_000), (RunVerdict::Whole, Some(30)));
        assert_eq!(at(RunEnd::Stopped, 5_600_000_000, true).flows[0].lost, Some(30), "it was told");
        assert_eq!(at(RunEnd::Orphaned, 5_600_000_000, false).flows[0].lost, None);
    }

    #[test]
    fn counts_that_cannot_be_are_never_whole() {
        let of = |sender: CountedFlow, receiver: CountedFlow| {
            account(vec![stat("h1", 4, sender, DONE), stat("h2", 4, receiver, DONE)])
        };
        let copies = of(sent(100), CountedFlow { duplicate: Some(4), ..received(97) });
        assert_eq!((copies.verdict, copies.flows[0].lost), (RunVerdict::Partial, None));
        let text = copies.to_string();
        assert!(text.contains("a: 101 frames arrived of 100 sent: something on the way copies"), "{text}");
        let more = of(sent(101), received(101));
        assert_eq!(more.verdict, RunVerdict::Partial);
        assert!(more.to_string().contains("a: 101 frames were sent, and --count is 100"), "{more}");
        let huge = of(sent(u64::MAX), received(u64::MAX));
        assert_eq!((huge.verdict, huge.hosts[0].last_number), (RunVerdict::Partial, 0));
        assert!(
            huge.to_string().contains("h1: its newest counts cannot be used: 18446744073709551615"),
            "{huge}"
        );
        let late = Stat { released_late_ns: Some(u64::MAX), ..stat("h1", 4, sent(100), DONE) };
        let late = account(vec![late, stat("h2", 4, received(100), DONE)]);
        assert_eq!((late.verdict, late.start.spread_ns), (RunVerdict::Partial, None));
    }

    #[test]
    fn a_flow_without_counts_is_never_whole_and_flows_of_others_count_nowhere() {
        let none = Stat { flows: Vec::new(), ..stat("h1", 4, sent(0), DONE) };
        let account_of_none = account(vec![none, stat("h2", 4, received(0), DONE)]);
        assert_eq!(account_of_none.verdict, RunVerdict::Partial);
        assert!(account_of_none.to_string().contains("a: h1 has not counted it"), "{account_of_none}");
        let foreign = CountedFlow { id: 9, ..sent(51_600_522) };
        let twice = Stat { flows: vec![sent(100), foreign, sent(7)], ..stat("h1", 4, sent(0), DONE) };
        let account = account(vec![twice, stat("h2", 4, received(100), DONE)]);
        assert_eq!((account.verdict, account.sent.known()), (RunVerdict::Whole, Some(100)));
        assert_eq!(account.seconds.iter().filter_map(|second| second.sent).sum::<u64>(), 100);
    }

    #[test]
    fn counts_of_a_second_agent_of_a_name_are_left_out_and_named() {
        let second = Stat { instance: 8, ..stat("h2", 9, received(3), DONE) };
        let account =
            account(vec![second, stat("h1", 4, sent(100), DONE), stat("h2", 4, received(100), DONE)]);
        assert_eq!((account.verdict, account.flows[0].received), (RunVerdict::Partial, Some(100)));
        let text = account.to_string();
        assert!(text.contains("h2: done, counts of a second agent with this name arrived"), "{text}");
    }

    #[test]
    fn a_missed_rate_is_told_with_its_cause() {
        let rate = |reached_pps, is_missed| FlowRate { asked_pps: 2000.0, reached_pps, is_missed };
        let of = |rate: FlowRate, why: Option<&str>| {
            let sender = SenderFigures { port: name("eth1"), why_missed: why.map(str::to_owned) };
            let counts = CountedFlow { rate: Some(rate), ..sent(100) };
            let stat_1 = Stat { senders: vec![sender], ..stat("h1", 4, counts, DONE) };
            account(vec![stat_1, stat("h2", 4, received(100), DONE)])
        };
        let missed = of(rate(991.0, true), Some("it waited for a CPU"));
        assert_eq!((missed.verdict, missed.is_good()), (RunVerdict::Whole, false));
        let text = missed.to_string();
        assert!(text.contains("lost 0, 991.0 pps of 2.000 kpps\n"), "{text}");
        assert!(
            text.contains("note       a: 991.0 pps of the asked 2.000 kpps, so the exit code is 1\n"),
            "{text}"
        );
        assert!(text.contains("note       h1/eth1: it waited for a CPU\n"), "{text}");
        assert!(of(rate(1995.0, false), None).is_good());
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
            let figures = ReceiverFigures {
                port: name("eth1"),
                received: 0,
                others: OtherFrames::default(),
                unusual: UnusualFrames::default(),
                lost_ring: 0,
                hdr,
            };
            Stat { receivers: vec![figures], ..stat(host, 9, received(0), DONE) }
        };
        // The mean of both medians would be 5,050.
        let (from, to) = ("h2/eth1".parse().unwrap(), "h1/eth1".parse().unwrap());
        let back = PlannedFlow { name: "b".to_owned(), from, to, ..plan().flows[0].clone() };
        let both = RunPlan { flows: vec![plan().flows[0].clone(), back], ..plan() };
        let mut words = LastWords::of_run(&both);
        words.hear(with("h1", &[100; 9]));
        words.hear(with("h2", &[10_000]));
        let account = RunAccount::of(&both, &words);
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
