//! The measuring receiver reads the signatures of wirerate and those of the kernel's pktgen.

use super::engines::{Pair, send};
use super::{Case, CaseReport, MachineType};
use crate::guest::{load, sh, unload};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Frames of a run.
const FRAMES: u64 = 20_000;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "measure_pktgen",
        what: "20,000 frames of the kernel's pktgen are measured: one flow, none lost",
        modules: &["pktgen"],
        devices: "",
        machine: MachineType::Common,
        run: measure_pktgen,
    },
    Case {
        name: "analyze_pktgen",
        what: "a capture of 5,000 frames of the kernel's pktgen has one flow, none lost, each in order",
        modules: &["pktgen"],
        devices: "",
        machine: MachineType::Common,
        run: analyze_pktgen,
    },
    Case {
        name: "measure_signatures",
        what: "each level of the signature by each engine is measured: none lost but those that the device counts as dropped, the end is announced",
        modules: &[],
        devices: "",
        machine: MachineType::Common,
        run: measure_signatures,
    },
];

/// Starts `wirerate receive` on `rx0`; it measures all frames from now on.
fn start_receiver(options: &str) -> Result<()> {
    sh(&format!(
        "rm -f /tmp/receipt
         wirerate receive rx0 --netns rx --json {options} >/tmp/receipt 2>/tmp/said &
         for i in $(seq 600); do grep -q measuring /tmp/said && exit 0; sleep 0.1; done; cat /tmp/said; exit 1"
    ))
    .map(drop)
}

/// Its report, once it has ended by itself.
fn receipt() -> Result<Value> {
    let text = sh("for i in $(seq 1200); do [ -s /tmp/receipt ] && break; sleep 0.1; done
                   cat /tmp/receipt /tmp/said")?;
    let line = text.lines().find(|line| line.contains("wirerate.measure/1")).unwrap_or_default();
    let receipt: Value = serde_json::from_str(line).with_context(|| text.clone())?;
    ensure!(receipt["broken"].as_array().is_some_and(Vec::is_empty), "{receipt}");
    Ok(receipt)
}

/// No frame is missing but some of those that the device has `dropped`, twice or out of order. A
/// sender that is told of them sends them again.
fn check(receipt: &Value, flows: u64, dropped: u64) -> Result<()> {
    let lost = receipt["loss"]["lost_max"].as_u64().with_context(|| format!("no loss: {receipt}"))?;
    ensure!(lost <= dropped, "{dropped} dropped: {receipt}");
    let wanted = [("unique", FRAMES - lost), ("duplicate", 0), ("too_old", 0), ("flows", flows)];
    for (name, count) in wanted {
        ensure!(receipt[name] == count, "{name} is not {count}: {receipt}");
    }
    Ok(())
}

fn measure_pktgen(finding: &mut CaseReport) -> Result<()> {
    let _pair = Pair::new("on")?;
    load("pktgen", "")?;
    start_receiver(&format!("--count {FRAMES} --sent {FRAMES} --duration 100s"))?;
    sh(&format!(
        "ip netns exec tx sh -ec 'cd /proc/net/pktgen
             echo add_device tx0 > kpktgend_1
             echo count {FRAMES} > tx0; echo pkt_size 60 > tx0; echo delay 20000 > tx0
             echo dst 198.18.0.2 > tx0; echo dst_mac 02:00:00:00:00:02 > tx0
             echo start > pgctrl'"
    ))?;
    let receipt = receipt()?;
    unload("pktgen")?;
    check(&receipt, 1, 0)?;
    ensure!(receipt["latency"]["stamped"] == FRAMES, "{receipt}");
    finding.note("pktgen", "measured");
    Ok(())
}

fn analyze_pktgen(finding: &mut CaseReport) -> Result<()> {
    const FRAMES: u64 = 5000;
    let _pair = Pair::new("on")?;
    load("pktgen", "")?;
    let text = sh(&format!(
        "rm -f /tmp/said
         wirerate capture rx0 --netns rx --mode drop --count {FRAMES} -w /tmp/k.pcapng >/tmp/said 2>&1 &
         pid=$!
         for i in $(seq 600); do grep -q capturing /tmp/said && break; sleep 0.1; done
         ip netns exec tx sh -ec 'cd /proc/net/pktgen
             echo add_device tx0 > kpktgend_1
             echo count {FRAMES} > tx0; echo pkt_size 60 > tx0; echo delay 100000 > tx0
             echo dst 198.18.0.2 > tx0; echo dst_mac 02:00:00:00:00:02 > tx0
             echo start > pgctrl'
         wait $pid
         wirerate analyze /tmp/k.pcapng --sent {FRAMES} --expect lost=0 --json"
    ))?;
    unload("pktgen")?;
    let line = text.lines().find(|line| line.contains("wirerate.measure/1")).unwrap_or_default();
    let analysis: Value = serde_json::from_str(line).with_context(|| text.clone())?;
    let wanted = [("unique", FRAMES), ("duplicate", 0), ("reordered", 0), ("flows", 1), ("stamped", FRAMES)];
    for (name, count) in wanted {
        ensure!(analysis[name] == count, "{name} is not {count}: {analysis}");
    }
    finding.note("pktgen", "analyzed");
    Ok(())
}

fn measure_signatures(finding: &mut CaseReport) -> Result<()> {
    for engine in ["xdp", "skb", "af_xdp", "af_packet"] {
        // The second receiver is the longest program.
        for (level, flows, options) in [("short", 1, ""), ("full", 7, " --wide-window --shared-flows")] {
            let _pair = Pair::new("on")?;
            start_receiver(&format!("--duration 100s{options}"))?;
            let ports = "--dst 198.18.0.2 --udp-dst 1000-1006 --udp-checksum --size 74";
            send(&format!("{ports} --signature {level} --count {FRAMES} --engine {engine}"))?;
            // A host that stops the receiving processor lets the queue of the device overflow. The
            // device counts those frames. Not every sender knows it.
            let dropped = sh("ip netns exec tx cat /sys/class/net/tx0/statistics/tx_dropped")?;
            let dropped = dropped.trim().parse().context("dropped frames")?;
            check(&receipt()?, flows, dropped).with_context(|| format!("{engine}, {level}"))?;
        }
        finding.note(engine, "short, full");
    }
    Ok(())
}
