//! `wirerate measure` through a router whose queueing discipline (netem) loses, copies, delays or
//! reorders frames. The counters of netem are the truth.

use super::{Case, CaseReport, MachineType};
use crate::guest::sh;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(super) const CASES: &[Case] = &[
    case("netem_loss", "netem loses 1 % of 10,000 frames: lost is its count of drops", loss),
    case("netem_duplicate", "netem copies 2 % of 10,000 frames: duplicates are its copies", duplicate),
    case("netem_delay", "netem delays by 5 ms: so does the measured latency, and nothing is lost", delay),
    case("netem_reorder", "netem lets 5 % of the frames overtake: those before them are reordered", reorder),
];

const fn case(name: &'static str, what: &'static str, run: fn(&mut CaseReport) -> Result<()>) -> Case {
    Case { name, what, modules: &["sch_netem"], devices: "", machine: MachineType::Common, run }
}

/// Sender, router and receiver, gone when dropped.
struct Router;

/// What netem counted.
#[derive(Clone, Copy, Debug)]
struct NetemCounts {
    packets: u64,
    drops: u64,
    requeues: u64,
}

impl Router {
    /// The queues are long enough for a machine that stops for a second.
    fn new() -> Result<Self> {
        crate::guest::load("sch_netem", "")?;
        sh("for name in tx dut rx; do ip netns add $name; done
            ip link add tx0 netns tx type veth peer d0 netns dut
            ip link add d1 netns dut type veth peer rx0 netns rx
            sysctl -qw net.core.netdev_max_backlog=100000
            for pair in 'tx tx0' 'dut d0' 'dut d1' 'rx rx0'; do
                set -- $pair
                ip netns exec $1 sysctl -qw net.ipv6.conf.$2.disable_ipv6=1
            done
            ip -n tx link set tx0 address 02:00:00:00:00:01
            ip -n dut link set d0 address 02:00:00:00:00:02
            ip -n rx link set rx0 address 02:00:00:00:00:04
            ip -n tx address add 198.18.0.1/24 dev tx0
            ip -n dut address add 198.18.0.2/24 dev d0
            ip -n dut address add 198.19.0.1/24 dev d1
            ip -n tx link set tx0 up; ip -n dut link set d0 up
            ip -n dut link set d1 up; ip -n rx link set rx0 up
            ip -n dut neighbour add 198.19.0.2 lladdr 02:00:00:00:00:04 dev d1
            ip netns exec dut sysctl -qw net.ipv4.ip_forward=1")?;
        Ok(Self)
    }

    /// Measures frames through netem with these `faults`. Returns the reports of the sender and of
    /// the receiver, and the counts of netem.
    fn measure(&self, faults: &str, frames: &str) -> Result<(Value, Value, NetemCounts)> {
        // The sender may miss its rate on a slow machine, and lost frames are the point.
        let text = sh(&format!(
            "ip netns exec dut tc qdisc replace dev d1 root netem limit 100000 {faults}
             wirerate measure --tx tx0@tx --rx rx0@rx --json --settle 1s -- --engine skb \
                 --dst 198.19.0.2 --dst-mac 02:00:00:00:00:02 {frames} || [ $? = 1 ]
             ip netns exec dut tc -s -j qdisc show dev d1; echo
             ip netns exec dut tc qdisc del dev d1 root"
        ))?;
        let mut lines = text.lines().filter(|line| line.starts_with(['{', '[']));
        let mut next = || -> Result<Value> {
            let line = lines.next().with_context(|| text.clone())?;
            serde_json::from_str(line).with_context(|| line.to_owned())
        };
        let (sent, measured, netem) = (next()?, next()?, next()?);
        let count = |name: &str| netem[0][name].as_u64().with_context(|| format!("{name}: {netem}"));
        let counts =
            NetemCounts { packets: count("packets")?, drops: count("drops")?, requeues: count("requeues")? };
        ensure!(measured["broken"].as_array().is_some_and(Vec::is_empty), "{measured}");
        Ok((sent, measured, counts))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = sh("for name in tx dut rx; do ip netns del $name; done");
    }
}

fn number(report: &Value, pointer: &str) -> Result<u64> {
    report.pointer(pointer).and_then(Value::as_u64).with_context(|| format!("{pointer}: {report}"))
}

/// The counts that must be these.
fn check(report: &Value, wanted: &[(&str, u64)]) -> Result<()> {
    for (name, count) in wanted {
        ensure!(number(report, name)? == *count, "{name} is not {count}: {report}");
    }
    Ok(())
}

/// Within four standard deviations of a share of the frames.
fn is_share(found: u64, frames: u64, share: f64) -> bool {
    let (frames, found) = (frames as f64, found as f64);
    (found - frames * share).abs() <= 4.0 * (frames * share * (1.0 - share)).sqrt()
}

fn loss(finding: &mut CaseReport) -> Result<()> {
    let (_, report, netem) = Router::new()?.measure("loss 1%", "--count 10000 --pps 10k")?;
    check(
        &report,
        &[
            ("/loss/lost_min", netem.drops),
            ("/loss/lost_max", netem.drops),
            ("/duplicate", 0),
            ("/reordered", 0),
        ],
    )?;
    ensure!(is_share(netem.drops, 10_000, 0.01), "{netem:?}");
    finding.note("lost", netem.drops);
    Ok(())
}

fn duplicate(finding: &mut CaseReport) -> Result<()> {
    let (_, report, netem) = Router::new()?.measure("duplicate 2%", "--count 10000 --pps 10k")?;
    let copies = netem.packets.saturating_sub(10_000);
    check(&report, &[("/duplicate", copies), ("/loss/lost_max", 0), ("/unique", 10_000)])?;
    ensure!(is_share(copies, 10_000, 0.02), "{netem:?}");
    finding.note("copies", copies);
    Ok(())
}

/// Compared with the same way without netem's delay.
fn delay(finding: &mut CaseReport) -> Result<()> {
    let router = Router::new()?;
    let (_, base, _) = router.measure("delay 0ms", "--count 1000 --pps 1k")?;
    let (_, report, _) = router.measure("delay 5ms", "--count 1000 --pps 1k")?;
    for report in [&base, &report] {
        check(
            report,
            &[("/loss/lost_max", 0), ("/duplicate", 0), ("/reordered", 0), ("/latency/stamped", 1000)],
        )?;
    }
    let [base_ns, min_ns] = [number(&base, "/latency/min_ns")?, number(&report, "/latency/min_ns")?];
    // Netem may not send a frame early. A busy host delays both runs.
    ensure!(min_ns >= 5_000_000, "{min_ns} ns: {report}");
    ensure!(min_ns < 5_000_000 + base_ns + 1_000_000, "{min_ns} ns, and {base_ns} without delay");
    finding.note("min latency", format!("{:.2} ms", min_ns as f64 / 1e6));
    Ok(())
}

/// Frames leave each 8 ms and take 10 ms, so an early one overtakes the one before it.
fn reorder(finding: &mut CaseReport) -> Result<()> {
    const FRAMES: u64 = 500;
    let router = Router::new()?;
    let (sent, report, netem) =
        router.measure("delay 10ms reorder 5%", &format!("--count {FRAMES} --pps 125 --catch-up 1"))?;
    check(&report, &[("/loss/lost_max", 0), ("/duplicate", 0), ("/too_old", 0), ("/unique", FRAMES)])?;
    ensure!(is_share(netem.requeues, FRAMES, 0.05), "{netem:?}");
    let reordered = number(&report, "/reordered")?;
    finding.note("reordered", format!("{reordered} by {} early frames", netem.requeues));
    // A host that stops the machine for some milliseconds changes what overtakes what.
    let is_steady = number(&sent, "/gaps/max_ns").is_ok_and(|max_ns| max_ns < 9_500_000);
    if is_steady && number(&report, "/latency/max_ns")? < 15_000_000 {
        // Those behind another early frame overtake none: 4.75 % instead of 5 %.
        ensure!(is_share(reordered, FRAMES, 0.0475) && reordered <= netem.requeues, "{reordered}: {netem:?}");
        check(&report, &[("/held_max", 1)])?;
        finding.note("pace", "held");
    } else {
        ensure!((1..FRAMES / 2).contains(&reordered), "{reordered}: {netem:?}");
        finding.note("pace", "disturbed");
    }
    Ok(())
}
