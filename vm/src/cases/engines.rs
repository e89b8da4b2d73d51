//! Each engine between two namespaces: the receiver has all frames that it reports as sent.

use super::{Case, CaseReport, MachineType};
use crate::guest::{sh, try_sh};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Frames of a run: more than any ring holds.
const FRAMES: u64 = 20_000;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "engines",
        what: "xdp, skb, af_xdp and af_packet send 20,000 frames over a veth pair, and all arrive; so does a replay of frames \
               of three lengths by xdp and skb, paced and at top speed",
        modules: &[],
        devices: "",
        machine: MachineType::Common,
        run: engines,
    },
    Case {
        name: "ladder",
        what: "a veth pair whose far end takes no live frames gets the next engine, and all arrive",
        modules: &[],
        devices: "",
        machine: MachineType::Common,
        run: ladder,
    },
    Case {
        name: "capture",
        what: "20,000 frames are captured in both modes and counted in the file",
        modules: &[],
        devices: "",
        machine: MachineType::Common,
        run: capture,
    },
    Case {
        name: "demo",
        what: "`wirerate demo` with 100,000 frames",
        modules: &[],
        devices: "",
        machine: MachineType::Common,
        run: demo,
    },
];

/// A veth pair between two namespaces, gone when dropped.
pub(super) struct Pair;

impl Pair {
    /// With or without NAPI at the far end, which is what live frames need.
    pub(super) fn new(gro: &str) -> Result<Self> {
        sh(&format!(
            "ip netns add tx; ip netns add rx
             ip link add tx0 netns tx numtxqueues 2 numrxqueues 2 type veth peer rx0 netns rx numtxqueues 2 numrxqueues 2
             ip -n tx link set tx0 address 02:00:00:00:00:01
             ip -n rx link set rx0 address 02:00:00:00:00:02
             ip netns exec tx sysctl -qw net.ipv6.conf.tx0.disable_ipv6=1
             ip netns exec rx sysctl -qw net.ipv6.conf.rx0.disable_ipv6=1
             ip netns exec rx ethtool -K rx0 gro {gro} >/dev/null
             ip -n tx address add 198.18.0.1/15 dev tx0
             ip -n tx link set tx0 up; ip -n rx link set rx0 up"
        ))?;
        Ok(Self)
    }

    pub(super) fn received(&self) -> Result<u64> {
        let text = sh("ip netns exec rx cat /sys/class/net/rx0/statistics/rx_packets")?;
        text.trim().parse().with_context(|| format!("{text:?} frames"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // What remains would be in the way of the next case, which says so then.
        let _ = sh("ip netns del tx; ip netns del rx");
    }
}

/// `wirerate send` from `tx0` with these options; its report.
pub(super) fn send(options: &str) -> Result<Value> {
    let script = format!("wirerate send tx0 --netns tx --dst-mac 02:00:00:00:00:02 --json {options}");
    let text = sh(&script)?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{script} says {text:?}"))
}

fn engines(finding: &mut CaseReport) -> Result<()> {
    for engine in ["xdp", "skb", "af_xdp", "af_packet"] {
        let pair = Pair::new("on")?;
        let report = send(&format!("--count {FRAMES} --engine {engine}"))?;
        ensure!(report["sent"] == FRAMES, "{report}");
        let received = pair.received()?;
        ensure!(received == FRAMES, "{engine}: {received} of {FRAMES} frames arrived: {report}");
        finding.note(engine, "yes");
    }
    replay(finding)
}

/// The programs for frames with times and for top speed, which the verifier must accept.
fn replay(finding: &mut CaseReport) -> Result<()> {
    let pair = Pair::new("on")?;
    sh(
        "wirerate send tx0 --netns tx --dst-mac 02:00:00:00:00:02 --dry-run=1000 --imix 60:7,594:4,1514:1 --write /tmp/f.pcapng",
    )?;
    for words in ["--engine xdp --pps 20000", "--engine xdp --speed top", "--engine skb --pps 20000"] {
        let before = pair.received()?;
        // The ring of the pair may be too short at top speed, which is exit code 1.
        let replay = format!("wirerate replay tx0 /tmp/f.pcapng --netns tx --json {words}");
        let text = sh(&format!("{replay} || [ $? = 1 ]"))?;
        let report: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
        let (sent, errors) = (report["sent"].as_u64(), report["errors"].as_u64());
        ensure!(sent.zip(errors).is_some_and(|(sent, errors)| sent + errors == 1000), "{report}");
        let arrived = pair.received()? - before;
        ensure!(Some(arrived) == sent && arrived > 0, "{arrived} arrived: {report}");
    }
    finding.note("replay", "yes");
    Ok(())
}

fn ladder(finding: &mut CaseReport) -> Result<()> {
    let pair = Pair::new("off")?;
    let report = send(&format!("--count {FRAMES}"))?;
    let received = pair.received()?;
    ensure!(received == FRAMES, "{received} of {FRAMES} frames arrived: {report}");
    finding.note("without NAPI", report["engine"]["name"].as_str().unwrap_or("?"));
    Ok(())
}

fn capture(finding: &mut CaseReport) -> Result<()> {
    for mode in ["mirror", "drop"] {
        let _pair = Pair::new("on")?;
        let text = sh(&format!(
            "wirerate capture rx0 --netns rx --mode {mode} --count {FRAMES} -w /tmp/c.pcapng --json >/tmp/report 2>/tmp/said &
             pid=$!
             for i in $(seq 100); do ip -n rx -d link show rx0 | grep -q xdp && break; sleep 0.1; done
             kill -0 $pid || {{ cat /tmp/said; exit 1; }}
             wirerate send tx0 --netns tx --dst-mac 02:00:00:00:00:02 --pps 20000 --count {FRAMES} >/dev/null || [ $? = 1 ] # the rate may be missed
             wait $pid; cat /tmp/report"
        ))?;
        let report: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
        ensure!(report["written"] == FRAMES, "{report}");
        let count = sh("tcpdump -Z root -r /tmp/c.pcapng 2>/dev/null | wc -l; rm /tmp/c.pcapng")?;
        ensure!(count.trim().parse() == Ok(FRAMES), "tcpdump reads {count}");
        finding.note(mode, report["xdp"].as_str().unwrap_or("yes"));
    }
    Ok(())
}

fn demo(_: &mut CaseReport) -> Result<()> {
    let output = try_sh("cd /tmp; wirerate demo --count 100000")?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(())
}
