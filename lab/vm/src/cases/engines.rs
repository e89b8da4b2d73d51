//! Each engine between two namespaces: the receiver has all frames that it reports as sent.

use super::{Case, CaseReport, MachineType};
use crate::guest::{sh, try_sh};
use anyhow::{Context, Result, ensure};
use pcapng::{Block, Reader};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

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
        name: "capture_any",
        what: "`capture any` has the frames of a device that appears and goes away, under its name",
        modules: &[],
        devices: "",
        machine: MachineType::Common,
        run: capture_any,
    },
    Case {
        name: "capture_at",
        what: "frames before and behind the XDP program of a device, with its verdict; the end when it is taken off",
        modules: &[],
        devices: "",
        machine: MachineType::Common,
        run: capture_at,
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

/// Packet sockets that are bound to no device, and their filters, as each kernel has them.
fn capture_any(finding: &mut CaseReport) -> Result<()> {
    const FILE: &str = "/tmp/any.pcapng";
    const COUNT: usize = 500;
    let _pair = Pair::new("on")?;
    let text = sh(&format!(
        "wirerate capture any --netns rx -Q inout -w {FILE} --json udp port 9 >/tmp/report 2>/tmp/said &
         pid=$!
         for i in $(seq 100); do grep -q 'those that appear' /tmp/said && break; sleep 0.1; done
         ip link add tx1 netns tx type veth peer rx1 netns rx
         ip -n tx link set tx1 up; ip -n rx link set rx1 up
         for dev in tx1 tx0; do
             wirerate send $dev --netns tx --dst-mac 02:00:00:00:00:02 --engine skb --pps 5000 --count {COUNT} >/dev/null || [ $? = 1 ]
         done
         ip -n rx link del rx1
         kill -INT $pid; wait $pid || {{ cat /tmp/said; exit 1; }}
         cat /tmp/report"
    ))?;
    let report: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
    let count = |name: &str| report[name].as_u64().unwrap_or(u64::MAX);
    ensure!((count("written"), count("lost")) == (2 * COUNT as u64, 0), "{report}");
    let (mut reader, mut names, mut found) =
        (Reader::new(BufReader::new(File::open(FILE)?)), Vec::new(), BTreeMap::<String, usize>::new());
    while let Some(block) = reader.next_block()? {
        match block {
            Block::Interface(interface) => names.push(interface.name.unwrap_or_default()),
            Block::Packet(packet) => *found.entry(names[packet.interface as usize].clone()).or_default() += 1,
            _ => {}
        }
    }
    let expected = ["rx0", "rx1"].map(|name| (name.to_owned(), COUNT));
    ensure!(found == expected.into(), "{found:?}");
    finding.note("any", "rx0, rx1");
    Ok(())
}

/// Programs of ours are traced like any other: that of a capture passes frames to the host, that of
/// `sink` drops them.
fn capture_at(finding: &mut CaseReport) -> Result<()> {
    const FILE: &str = "/tmp/at.pcapng";
    const COUNT: usize = 1_000;
    const XDP_DROP: u64 = 1;
    const XDP_PASS: u64 = 2;
    let _pair = Pair::new("on")?;
    for (program, place, filter, verdicts) in [
        ("sink", "xdp-entry", "", vec![None; COUNT]),
        ("capture", "xdp-exit", "udp port 9", vec![Some(XDP_PASS); COUNT]),
        ("sink", "both", "greater 60 and not port 10", [None, Some(XDP_DROP)].repeat(COUNT)),
        ("sink", "both", "tcp", Vec::new()),
    ] {
        let text = sh(&format!(
            "wirerate {program} rx0 --netns rx >/dev/null 2>&1 &
             traced=$!
             for i in $(seq 100); do ip -n rx link show rx0 | grep -q xdp && break; sleep 0.1; done
             wirerate capture rx0 --netns rx --at {place} -w {FILE} --json {filter} >/tmp/report 2>/tmp/said &
             pid=$!
             for i in $(seq 100); do grep -q 'capturing on' /tmp/said && break; sleep 0.1; done
             kill -0 $pid || {{ cat /tmp/said; exit 1; }}
             wirerate send tx0 --netns tx --dst-mac 02:00:00:00:00:02 --size 100 --pps 5000 --count {COUNT} >/dev/null || [ $? = 1 ]
             sleep 0.5; kill $traced; wait $traced
             code=0; wait $pid || code=$?
             [ $code = 1 ] && grep -q 'is not on it any more' /tmp/said || {{ echo code $code; cat /tmp/said; exit 1; }}
             cat /tmp/report"
        ))?;
        let report: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
        let found = verdicts_in(FILE)?;
        ensure!(found == verdicts, "{program}, {place} {filter}: {} frames, {report}", found.len());
        let twice = if place == "both" { 2 } else { 1 };
        let count = |name: &str| report[name].as_u64().unwrap_or(u64::MAX);
        let (received, lost) = (count("received"), count("lost"));
        ensure!((received, lost) == ((COUNT * twice) as u64, 0), "{program}, {place}: {report}");
    }
    finding.note("verdicts", "XDP_PASS, XDP_DROP");
    Ok(())
}

/// The verdict of each packet of a file; frames before a program have none.
fn verdicts_in(path: &str) -> Result<Vec<Option<u64>>> {
    let mut reader = Reader::new(BufReader::new(File::open(path)?));
    let mut verdicts = Vec::new();
    while let Some(block) = reader.next_block()? {
        if let Block::Packet(packet) = block {
            ensure!((packet.frame_len, packet.data.len()) == (100, 100), "{packet:?}");
            verdicts.push(packet.xdp_verdict);
        }
    }
    Ok(verdicts)
}

fn demo(_: &mut CaseReport) -> Result<()> {
    let output = try_sh("cd /tmp; wirerate demo --count 100000")?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(())
}
