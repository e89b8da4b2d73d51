//! Random runs with deaths, delays, doubled and reordered messages: the account is `whole` only if
//! the last counts of every host are there, sums are never above the truth, and bounds hold.

use fleet::{
    AgentRun, AgentState, CountedFlow, FleetName, FlowOrder, FlowRole, HostOrder, LastWords, PlannedFlow,
    RunAccount, RunEnd, RunPlan, RunStep, RunVerdict, SecondAccount, Stat, TestPart, decode, encode,
};
use packet::Rng;

const MS: u64 = 1_000_000;

/// A host: the run as its agent has it, what it really counts, and when it dies.
struct ModelHost {
    name: FleetName,
    run: AgentRun,
    /// Flows it sends.
    sends: Vec<usize>,
    /// Flows it receives.
    receives: Vec<usize>,
    dies_ns: u64,
    number: u32,
    stop_sending: bool,
    sent_until_ns: Option<u64>,
    end: Option<RunEnd>,
}

/// The truth about a flow.
#[derive(Clone, Copy, Default)]
struct Truth {
    sent: u64,
    received: u64,
}

fn name(kind: &str, index: usize) -> FleetName {
    format!("{kind}{index}").parse().expect("a name")
}

fn stat(host: &ModelHost, truth: &[Truth], time_ns: u64) -> Stat {
    let sent = host.sends.iter().map(|flow| CountedFlow {
        id: *flow as u32,
        sent: Some(truth[*flow].sent),
        ..CountedFlow::default()
    });
    let received = host.receives.iter().map(|flow| CountedFlow {
        id: *flow as u32,
        received: Some(truth[*flow].received),
        ..CountedFlow::default()
    });
    Stat {
        number: host.number,
        time_ns,
        has_sent_all: host.stop_sending,
        sent_until_ns: host.sent_until_ns,
        received_until_ns: host.end.map(|_| time_ns),
        has_heard_all_sent: host.run.has_heard_all_sent(),
        flows: sent.chain(received).collect(),
        is_last: host.end.is_some(),
        end: host.end,
        ..Stat::new(name("r", 0), host.name.clone(), 7)
    }
}

fn plan(rng: &mut Rng, hosts: usize, flow_count: usize) -> RunPlan {
    let duration_ns = u64::from(500 + rng.below(3000)) * MS;
    let flows = (0..flow_count).map(|index| {
        let from = rng.below(hosts as u32) as usize;
        let to = (from + 1 + rng.below(hosts as u32 - 1) as usize) % hosts;
        PlannedFlow {
            name: format!("f{index}"),
            from: format!("h{from}/p").parse().expect("a place"),
            to: format!("h{to}/p").parse().expect("a place"),
            send: Vec::new(),
            count: (rng.below(2) == 0).then(|| u64::from(1000 + rng.below(100_000))),
        }
    });
    let hosts = (0..hosts).map(|index| HostOrder {
        host: name("h", index),
        is_armed: true,
        clock: None,
        boot_id: None,
        instance: None,
        why: None,
    });
    RunPlan {
        run: name("r", 0),
        start_at_ns: 100 * MS,
        duration_ns,
        settle_ns: 100 * MS,
        flows: flows.collect(),
        hosts: hosts.collect(),
    }
}

fn model_hosts(rng: &mut Rng, plan: &RunPlan) -> Vec<ModelHost> {
    let with = |index: usize, of: fn(&PlannedFlow) -> &FleetName| -> Vec<usize> {
        let ours = plan.flows.iter().enumerate().filter(|(_, flow)| *of(flow) == name("h", index));
        ours.map(|(flow, _)| flow).collect()
    };
    let host = |index: usize| {
        let order = |id: usize, role: FlowRole| FlowOrder {
            id: id as u32,
            role,
            port: name("p", 0),
            number: id as u32,
            send: Vec::new(),
        };
        let sends = with(index, |flow| &flow.from.host);
        let receives = with(index, |flow| &flow.to.host);
        let sent = sends.iter().map(|id| order(*id, FlowRole::Send));
        let received = receives.iter().map(|id| order(*id, FlowRole::Receive));
        let part = TestPart {
            mark: 1,
            flows: sent.chain(received).collect(),
            duration_ns: plan.duration_ns,
            settle_ms: 100,
            stat_ms: 300,
            seed: 1,
        };
        let mut run = AgentRun::new(&part);
        run.go(plan.start_at_ns, 0, 0).expect("100 ms are enough");
        let dies = rng.below(3) == 0;
        ModelHost {
            name: name("h", index),
            run,
            sends,
            receives,
            dies_ns: if dies { u64::from(rng.below(5000)) * MS } else { u64::MAX },
            number: 0,
            stop_sending: false,
            sent_until_ns: None,
            end: None,
        }
    };
    (0..plan.hosts.len()).map(host).collect()
}

#[test]
fn an_account_never_claims_more_than_it_knows() {
    testkit::fuzz!("an_account_never_claims_more_than_it_knows", 12_000, |seed| {
        let rng = &mut Rng(seed);
        let plan = {
            let hosts = 2 + rng.below(5) as usize;
            let flows = 1 + rng.below(8) as usize;
            plan(rng, hosts, flows)
        };
        let lease_ns = 1000 * MS;
        let controller_dies_ns = if rng.below(4) == 0 { u64::from(rng.below(3000)) * MS } else { u64::MAX };
        let mut hosts = model_hosts(rng, &plan);
        let mut truth = vec![Truth::default(); plan.flows.len()];
        // Messages on their way: when they arrive, and their bytes.
        let mut wire: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut now_ns = 0;
        while now_ns < 12_000 * MS && hosts.iter().any(|host| host.end.is_none() && host.dies_ns > now_ns) {
            now_ns += 20 * MS;
            let have_sent_all = hosts.iter().all(|host| host.sends.is_empty() || host.stop_sending);
            let is_told = have_sent_all && now_ns < controller_dies_ns && rng.below(10) == 0;
            hosts.iter_mut().filter(|_| is_told).for_each(|host| host.run.drain(now_ns));
            for host in hosts.iter_mut().filter(|host| host.end.is_none() && host.dies_ns > now_ns) {
                if now_ns.saturating_sub(controller_dies_ns) >= lease_ns {
                    host.run.orphan();
                }
                if host.run.state() == AgentState::Running && !host.stop_sending {
                    for flow in &host.sends {
                        let left =
                            plan.flows[*flow].count.map_or(u64::MAX, |count| count - truth[*flow].sent);
                        truth[*flow].sent += u64::from(rng.below(1000)).min(left);
                    }
                }
                if host.run.state() != AgentState::Counting {
                    for flow in &host.receives {
                        let arriving = truth[*flow].sent - truth[*flow].received;
                        truth[*flow].received += arriving - arriving / 100;
                    }
                }
                let received = host.receives.iter().map(|flow| truth[*flow].received).sum();
                match host.run.step(now_ns, host.sends.is_empty() || host.stop_sending, received) {
                    RunStep::Wait => continue,
                    RunStep::StopSending => {
                        host.stop_sending = true;
                        host.sent_until_ns = (!host.sends.is_empty()).then_some(now_ns);
                        continue;
                    }
                    RunStep::Count => {}
                    RunStep::Report(end) => {
                        let is_orphaned = end == RunEnd::Orphaned;
                        assert!(!is_orphaned || controller_dies_ns < u64::MAX, "an orphan with a controller");
                        host.end = Some(end);
                    }
                }
                host.number += 1;
                let copies = match rng.below(8) {
                    0 => 0,
                    1 => 3,
                    _ => 1,
                };
                for _ in 0..copies {
                    let delay_ns = u64::from(rng.below(3000)) * MS;
                    wire.push((now_ns + delay_ns, encode(&stat(host, &truth, now_ns))));
                }
            }
        }
        assert!(hosts.iter().all(|host| host.end.is_some() || host.dies_ns < u64::MAX), "a host never ends");
        wire.sort_by_key(|(arrives_ns, _)| *arrives_ns);
        let mut words = LastWords::of_run(&plan);
        for (_, bytes) in wire {
            words.hear(decode(&bytes).expect("its own message"));
            check(&RunAccount::of(&plan, &words), &plan, &words, &truth);
        }
        check(&RunAccount::of(&plan, &words), &plan, &words, &truth);
    });
}

const SENT: fn(&SecondAccount) -> Option<u64> = |second| second.sent;
const RECEIVED: fn(&SecondAccount) -> Option<u64> = |second| second.received;

fn check(account: &RunAccount, plan: &RunPlan, words: &LastWords, truth: &[Truth]) {
    let has_all = plan.hosts.iter().all(|host| words.has_last(&host.host));
    let is_whole = account.verdict == RunVerdict::Whole;
    assert!(!is_whole || has_all, "whole without all last words: {account:?}");
    assert!(!is_whole || account.flows.iter().all(|flow| flow.lost.is_some()), "{account:?}");
    let sum = |of: fn(&Truth) -> u64| truth.iter().map(of).sum::<u64>();
    let (sent, received) = (sum(|truth| truth.sent), sum(|truth| truth.received));
    assert!(account.sent.min <= sent && account.received.min <= received, "sums above the truth");
    assert!(account.sent.max.is_none_or(|max| max >= sent), "{account:?}");
    for (of, truth) in [(SENT, sent), (RECEIVED, received)] {
        let known: u64 = account.seconds.iter().filter_map(of).sum();
        assert!(known <= truth && (!has_all || known == truth), "{known} of {truth} by second: {account:?}");
    }
    for (flow, truth) in account.flows.iter().zip(truth) {
        let lost = truth.sent - truth.received;
        let exact = [(flow.sent, truth.sent), (flow.received, truth.received)];
        // A receiver that ended before its sender is a bound.
        assert!(exact.iter().all(|(known, truth)| known.is_none_or(|known| known == *truth)), "{flow:?}");
        for (bounds, truth) in
            [(flow.sent_bounds, truth.sent), (flow.received_bounds, truth.received), (flow.lost_bounds, lost)]
        {
            let holds = bounds.min <= truth && bounds.max.is_none_or(|max| max >= truth);
            assert!(holds, "{truth} is outside of {bounds:?} of {flow:?}");
        }
        assert!(flow.lost.is_none_or(|known| known == lost), "{flow:?}");
    }
}
