//! Drivers of emulated network cards: which engine each gets and why, and that the frames arrive.
//!
//! QEMU joins two cards of a kind. Each is in a namespace of its own, as `tx0` and `rx0`.

use super::{Case, CaseReport, MachineType};
use crate::guest::{load, sh, try_sh};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write;

/// Frames of a run: many times the transmit ring of a card. The receive ring holds all of them:
/// emulated cards of Intel drop frames that do not fit and do not count them. That of virtio-net
/// is small and makes the sender wait.
pub(super) const FRAMES: u64 = 4_000;
const RECEIVE_RING: &str = "4096";
const CAPTURED: u64 = 1_000;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "nic_virtio",
        what: "virtio-net: doctor, engines, capture and stamps as in the golden file; what is sent arrives",
        modules: VIRTIO.modules,
        devices: VIRTIO.devices,
        machine: MachineType::Cards,
        run: |finding| nic(&VIRTIO, finding),
    },
    Case {
        name: "nic_igb",
        what: "igb: the same",
        modules: IGB.modules,
        devices: IGB.devices,
        machine: MachineType::Cards,
        run: |finding| nic(&IGB, finding),
    },
    Case {
        name: "nic_e1000e",
        what: "e1000e: the same",
        modules: E1000E.modules,
        devices: E1000E.devices,
        machine: MachineType::Cards,
        run: |finding| nic(&E1000E, finding),
    },
    Case {
        name: "send_fcs",
        what: "e1000: frames have the frame check sequence that was asked for",
        modules: E1000.modules,
        devices: E1000.devices,
        machine: MachineType::Cards,
        run: send_fcs,
    },
    Case {
        name: "connect_virtio",
        what: "virtio-net, which sends from XDP only with a program attached: connections are completed",
        modules: VIRTIO.modules,
        devices: VIRTIO.devices,
        machine: MachineType::Cards,
        run: |finding| connections(&VIRTIO, finding),
    },
    Case {
        name: "connect_igb",
        what: "igb, whose link goes down for that: the same",
        modules: IGB.modules,
        devices: IGB.devices,
        machine: MachineType::Cards,
        run: |finding| connections(&IGB, finding),
    },
    Case {
        name: "nic_virtio_slow",
        what: "virtio-net: 10,000 frames per second are reached and cost kworkers nothing",
        modules: VIRTIO.modules,
        devices: VIRTIO.devices,
        machine: MachineType::Alone,
        run: |finding| slow_rate(&VIRTIO, finding),
    },
    Case {
        name: "nic_igb_slow",
        what: "igb: the same",
        modules: IGB.modules,
        devices: IGB.devices,
        machine: MachineType::Alone,
        run: |finding| slow_rate(&IGB, finding),
    },
    Case {
        name: "nic_virtio_turns",
        what: "virtio-net: what skb sends by the queue right after a run of xdp arrives, or the report counts it",
        modules: VIRTIO.modules,
        devices: VIRTIO.devices,
        machine: MachineType::Cards,
        run: turns,
    },
];

/// Runs of [`slow_rate`] that reach the rate, and the most that are tried for it.
const SLOW_GOOD: usize = 3;
const SLOW_RUNS_MAX: usize = 15;
const SLOW_SECONDS: u64 = 3;

/// Runs of each engine in [`turns`], and the frames of one by skb.
const TURNS: usize = 3;
const TURN_FRAMES: u64 = 10_000;

/// A kind of card.
#[derive(Debug)]
pub(super) struct CardKind {
    /// Of its case and of the golden file.
    pub(super) name: &'static str,
    /// Which bring its driver.
    pub(super) modules: &'static [&'static str],
    /// Two of them, joined.
    pub(super) devices: &'static str,
    /// The addresses of both.
    pub(super) macs: [&'static str; 2],
}

pub(super) const VIRTIO: CardKind = CardKind {
    name: "nic_virtio",
    modules: &["virtio_pci", "virtio_net"],
    devices: "-netdev hubport,id=virtio0,hubid=1 -netdev hubport,id=virtio1,hubid=1 \
              -device virtio-net-pci,netdev=virtio0,mac=02:00:00:00:01:00 \
              -device virtio-net-pci,netdev=virtio1,mac=02:00:00:00:01:01",
    macs: ["02:00:00:00:01:00", "02:00:00:00:01:01"],
};

/// Two virtio cards whose addresses are those of an IOMMU: the driver sends for AF_XDP without
/// copying only there.
pub(super) const VIRTIO_DIRECT: CardKind = CardKind {
    // What they are called afterwards, beside the other two.
    name: "nic_direct",
    devices: "-netdev hubport,id=virtio2,hubid=5 -netdev hubport,id=virtio3,hubid=5 \
              -device virtio-net-pci,netdev=virtio2,mac=02:00:00:00:05:00,iommu_platform=on,disable-legacy=on \
              -device virtio-net-pci,netdev=virtio3,mac=02:00:00:00:05:01,iommu_platform=on,disable-legacy=on",
    macs: ["02:00:00:00:05:00", "02:00:00:00:05:01"],
    ..VIRTIO
};

pub(super) const IGB: CardKind = CardKind {
    name: "nic_igb",
    modules: &["igb"],
    // Each needs a port of its own: it has virtual functions.
    devices: "-netdev hubport,id=igb0,hubid=2 -netdev hubport,id=igb1,hubid=2 \
              -device pcie-root-port,id=port0,chassis=1,slot=1 \
              -device pcie-root-port,id=port1,chassis=2,slot=2 \
              -device igb,netdev=igb0,bus=port0,mac=02:00:00:00:02:00 \
              -device igb,netdev=igb1,bus=port1,mac=02:00:00:00:02:01",
    macs: ["02:00:00:00:02:00", "02:00:00:00:02:01"],
};

pub(super) const E1000E: CardKind = CardKind {
    name: "nic_e1000e",
    modules: &["e1000e"],
    devices: "-netdev hubport,id=e1000e0,hubid=3 -netdev hubport,id=e1000e1,hubid=3 \
              -device e1000e,netdev=e1000e0,mac=02:00:00:00:03:00 \
              -device e1000e,netdev=e1000e1,mac=02:00:00:00:03:01",
    macs: ["02:00:00:00:03:00", "02:00:00:00:03:01"],
};

/// The driver can send frames without adding a frame check sequence. The emulated card never adds
/// one: what a frame brings arrives as its last four bytes.
const E1000: CardKind = CardKind {
    name: "nic_e1000",
    modules: &["e1000"],
    devices: "-netdev hubport,id=e1000a,hubid=6 -netdev hubport,id=e1000b,hubid=6 \
              -device e1000,netdev=e1000a,mac=02:00:00:00:06:00 \
              -device e1000,netdev=e1000b,mac=02:00:00:00:06:01",
    macs: ["02:00:00:00:06:00", "02:00:00:00:06:01"],
};

/// Both cards, up, each in its namespace; back where they were when dropped.
pub(super) struct CardPair {
    card: &'static CardKind,
}

impl CardPair {
    pub(super) fn new(card: &'static CardKind) -> Result<Self> {
        card.modules.iter().try_for_each(|module| load(module, ""))?;
        for (end, mac) in ["tx", "rx"].into_iter().zip(card.macs) {
            sh(&format!(
                "for i in $(seq 100); do name=$(ip -br link | grep -i {mac} | cut -d' ' -f1)
                 [ -n \"$name\" ] && break; sleep 0.1; done
                 ip netns add {end}
                 ip link set $name down; ip link set $name netns {end} name {end}0
                 ip netns exec {end} sysctl -qw net.ipv6.conf.{end}0.disable_ipv6=1
                 ip -n {end} link set {end}0 up promisc on"
            ))?;
        }
        sh(&format!(
            "ip -n tx address add 198.18.0.1/15 dev tx0
             ip netns exec rx ethtool -G rx0 rx {RECEIVE_RING} 2>/dev/null || true"
        ))?;
        let pair = Self { card };
        pair.wait_for_carrier()?;
        Ok(pair)
    }

    /// Cards look for a link when they are switched on, and some whenever a program comes or goes:
    /// seconds.
    pub(super) fn wait_for_carrier(&self) -> Result<()> {
        sh("for i in $(seq 300)
            do a=$(ip netns exec tx cat /sys/class/net/tx0/carrier) b=$(ip netns exec rx cat /sys/class/net/rx0/carrier)
            [ $a$b = 11 ] && exit 0; sleep 0.1; done; ip -n tx link; ip -n rx link; exit 1")?;
        Ok(())
    }

    pub(super) fn receiver_mac(&self) -> &'static str {
        self.card.macs[1]
    }

    /// `wirerate send` from `tx0` with these options; its report.
    pub(super) fn send(&self, options: &str) -> Result<Value> {
        let script = format!("wirerate send tx0 --netns tx --dst-mac {} --json {options}", self.card.macs[1]);
        // Exit code 1: a slow machine may miss the rate. What arrives is counted.
        let text = sh(&format!("{script} || [ $? = 1 ]"))?;
        serde_json::from_str(text.trim()).with_context(|| format!("{script} says {text:?}"))
    }

    /// Sends [`FRAMES`] frames with these options, all of which must arrive.
    pub(super) fn send_all(&self, options: &str) -> Result<Value> {
        let before = self.received()?;
        let report = self.send(&format!("--count {FRAMES} {options}"))?;
        ensure!(report["sent"] == FRAMES, "{report}");
        let arrived = self.arrived(before, FRAMES)?;
        ensure!(arrived == FRAMES, "{arrived} of {FRAMES} frames arrived: {report}");
        Ok(report)
    }

    pub(super) fn received(&self) -> Result<u64> {
        let text = sh("ip netns exec rx cat /sys/class/net/rx0/statistics/rx_packets")?;
        text.trim().parse().with_context(|| format!("{text:?} frames"))
    }

    /// Frames that the receiver dropped since the machine started.
    fn dropped() -> Result<u64> {
        let text = sh("ip netns exec rx cat /sys/class/net/rx0/statistics/rx_dropped")?;
        text.trim().parse().with_context(|| format!("{text:?} frames"))
    }

    /// Waits until so many have arrived since `before`; cards tell their counts late, some by a
    /// timer.
    pub(super) fn arrived(&self, before: u64, wanted: u64) -> Result<u64> {
        let mut count = 0;
        for _ in 0..50 {
            count = self.received()? - before;
            if count >= wanted {
                break;
            }
            sh("sleep 0.1")?;
        }
        Ok(count)
    }

    /// A capture by the best source, which must see what is sent; its report.
    fn capture(&self) -> Result<Value> {
        self.start_capture(&format!("--count {CAPTURED}"))?;
        self.send(&format!("--count {CAPTURED} --pps 5000"))?;
        let report = self.end_capture()?;
        ensure!(report["written"] == CAPTURED && report["lost"] == 0, "{report}");
        Ok(report)
    }

    /// Starts a capture of `rx0` that ends by itself; it sees all frames from now on.
    pub(super) fn start_capture(&self, options: &str) -> Result<()> {
        sh(&format!(
            "rm -f /tmp/report
             wirerate capture rx0 --netns rx --json {options} >/tmp/report 2>/tmp/said & echo $! >/tmp/pid
             for i in $(seq 300); do grep -q capturing /tmp/said && exit 0; sleep 0.1; done; cat /tmp/said; exit 1"
        ))?;
        self.wait_for_carrier()
    }

    /// Its report; ends it if it is still waiting for frames.
    pub(super) fn end_capture(&self) -> Result<Value> {
        let text = sh("for i in $(seq 100); do [ -s /tmp/report ] && break; sleep 0.1; done
                       [ -s /tmp/report ] || { kill -INT $(cat /tmp/pid)
                       for i in $(seq 100); do [ -s /tmp/report ] && break; sleep 0.1; done; }
                       cat /tmp/report /tmp/said")?;
        let report = text.lines().next().unwrap_or_default();
        serde_json::from_str(report).with_context(|| text.clone())
    }
}

impl Drop for CardPair {
    fn drop(&mut self) {
        for (end, number) in [("tx", 0), ("rx", 1)] {
            let name = format!("{}{number}", self.card.name.trim_start_matches("nic_"));
            // What remains would be in the way of the next case, which says so then.
            let _ = sh(&format!(
                "ip -n {end} link set {end}0 down; ip -n {end} link set {end}0 netns 1 name {name}; ip netns del {end}"
            ));
        }
    }
}

fn nic(card: &'static CardKind, finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(card)?;
    let mut text = told_by_doctor(&sh("wirerate doctor tx0 --netns tx --all")?)?;
    let report = pair.send_all("")?;
    let engine = word(&report["engine"]["name"]);
    text += &format!("$ wirerate send\n{engine}\n{}\n", lines(&report["engine"]["why"]));
    finding.note("send", engine);
    pair.send_all("--engine af_packet")?;
    // What fq_codel drops when the machine is slow was sent as far as the engine can know.
    sh("tc -n tx qdisc replace dev tx0 root pfifo limit 10000")?;
    pair.send_all("--engine skb --xmit-mode queue_xmit --pps 4000")?;
    sh("tc -n tx qdisc del dev tx0 root")?;
    let report = pair.capture()?;
    text += &format!("$ wirerate capture\n{}\n", word(&report["source"]));
    finding.note("capture", word(&report["source"]));
    finding.compare(card.name, text + &stamps()?);
    Ok(())
}

/// One frame with each kind of frame check sequence, as it arrives.
fn send_fcs(finding: &mut CaseReport) -> Result<()> {
    const FILE: &str = "/tmp/fcs.pcap";
    let pair = CardPair::new(&E1000)?;
    let frame = |options: &str| {
        pair.start_capture(&format!("--count 1 --snaplen 2000 --write {FILE}"))?;
        let report = pair.send(&format!("--count 1 --size 100 {options}"))?;
        ensure!(report["sent"] == 1 && report["errors"] == 0, "{report}");
        pair.end_capture()?;
        // The headers of the file and of its only record have 40 bytes.
        Ok(std::fs::read(FILE)?.split_off(40))
    };
    let usual = frame("")?;
    ensure!(usual.len() == 100, "{} bytes without --send-fcs", usual.len());
    for (options, of_frame) in [
        ("--send-fcs 0x01020304", (|_| [1, 2, 3, 4]) as fn(&[u8]) -> [u8; 4]),
        ("--send-fcs 67305985 --engine af_packet", |_| [4, 3, 2, 1]),
        ("--send-fcs bad", |frame| inverted_fcs(frame)),
        ("--send-fcs bad --xmit-mode queue_xmit", |frame| inverted_fcs(frame)),
    ] {
        let bytes = frame(options)?;
        let (sent, fcs) = bytes.split_last_chunk().context("no frame")?;
        ensure!(sent.len() == 100 && *fcs == of_frame(sent), "{options}: {bytes:02x?}");
    }
    finding.note("e1000", "bad and given bytes");
    Ok(())
}

/// All connections through two cards are completed.
fn connections(card: &'static CardKind, finding: &mut CaseReport) -> Result<()> {
    let _pair = CardPair::new(card)?;
    let text = sh("ip netns exec rx wirerate accept rx0 --dst 198.18.0.2 > /tmp/accept 2>&1 &
        accept=$!
        for i in $(seq 300); do grep -q 'accepting on' /tmp/accept && break; sleep 0.1; done
        grep -q 'accepting on' /tmp/accept || { cat /tmp/accept >&2; exit 1; }
        for i in $(seq 300); do
            a=$(ip netns exec tx cat /sys/class/net/tx0/carrier) b=$(ip netns exec rx cat /sys/class/net/rx0/carrier)
            [ $a$b = 11 ] && break; sleep 0.1; done
        ip netns exec tx wirerate connect tx0 --dst 198.18.0.2:80 --src 198.18.64.0/24 --cps 50 -c 100 --json --quiet
        code=$?
        kill $accept; wait $accept
        [ $code = 0 ] || cat /tmp/accept >&2
        exit $code")?;
    let report: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
    ensure!(report["completed"] == 100 && report["responses"] == 100, "{report}");
    finding.note(card.name, report["xdp"].as_str().unwrap_or("completed"));
    Ok(())
}

/// The frame check sequence of Ethernet (IEEE 802.3, clause 3.2.9) with all bits inverted, by the
/// definition.
fn inverted_fcs(frame: &[u8]) -> [u8; 4] {
    let crc = frame.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    });
    crc.to_le_bytes()
}

/// The engine that `send` chooses for a slow rate reaches it, and leaves no work to the kernel: a
/// call of xdp for each frame made a page pool, whose release took a third of a CPU. A host with
/// other work takes the machine's CPUs away, so runs go on until enough of them reach the rate.
fn slow_rate(card: &'static CardKind, finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(card)?;
    let (before, mut reached, mut engine) = (kworker_ticks()?, Vec::new(), String::new());
    let good = |reached: &[f64]| reached.iter().filter(|percent| **percent >= 99.5).count();
    while good(&reached) < SLOW_GOOD && reached.len() < SLOW_RUNS_MAX {
        let report = pair.send(&format!("--pps 10k --duration {SLOW_SECONDS}s"))?;
        reached.push(report["reached_percent"].as_f64().with_context(|| report.to_string())?);
        word(&report["engine"]["name"]).clone_into(&mut engine);
        ensure!(engine != "xdp", "xdp was chosen: {report}");
        // The kernel frees a pool after a second.
        sh("sleep 1.5")?;
    }
    let ticks = kworker_ticks()?.saturating_sub(before);
    let runs = reached.len();
    // 100 ticks are a second of one CPU.
    let busy = ticks as f64 / (runs as u64 * SLOW_SECONDS) as f64;
    let good = good(&reached);
    finding.note("10 kpps", format!("{engine}, reached in {good} of {runs} runs, kworkers {busy:.1} %"));
    ensure!(good == SLOW_GOOD, "reached {reached:?} % of 10,000 frames per second by {engine}");
    ensure!(busy < 2.0, "kworkers took {busy:.1} % of a CPU");
    Ok(())
}

/// Runs of xdp as fast as possible, each followed by one of skb by the queue, which once lost
/// nearly all of its frames without a word: what does not arrive, the report has to show as not
/// counted by the device. A slow machine may drop frames in the queueing discipline.
fn turns(finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(&VIRTIO)?;
    let mut whole = 0;
    for turn in 1..=TURNS {
        pair.send("--engine xdp --count 20k")?;
        let before = pair.received()?;
        let report =
            pair.send(&format!("--engine skb --xmit-mode queue_xmit --pps 10k --count {TURN_FRAMES}"))?;
        ensure!(report["sent"] == TURN_FRAMES, "turn {turn}: {report}");
        let counted = report["device_counted"].as_u64().with_context(|| report.to_string())?;
        let arrived = pair.arrived(before, TURN_FRAMES)?;
        // What the run of xdp left in the ring of the device is counted now, too.
        let expected = counted.min(TURN_FRAMES);
        ensure!(
            arrived + CardPair::dropped()? >= expected,
            "turn {turn}: {arrived} of {expected} frames arrived: {report}"
        );
        whole += usize::from(arrived >= TURN_FRAMES);
    }
    finding.note("xdp, then skb", format!("{whole} of {TURNS} runs arrived whole"));
    Ok(())
}

/// CPU time that all kworkers have used, in hundredths of a second.
fn kworker_ticks() -> Result<u64> {
    let text = sh(
        "cat /proc/[0-9]*/stat 2>/dev/null | awk '$2 ~ /^.kworker/ { sum += $14 + $15 } END { print sum + 0 }'",
    )?;
    text.trim().parse().with_context(|| format!("{text:?} ticks"))
}

/// One a line.
pub(super) fn lines(reasons: &Value) -> String {
    let all = reasons.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(word).collect::<Vec<_>>().join("\n")
}

pub(super) fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// What doctor says of engines and captures; what it says of this moment and of the host is not for
/// a file.
pub(super) fn told_by_doctor(text: &str) -> Result<String> {
    let (_, rest) = text.split_once("\nengines").with_context(|| text.to_owned())?;
    let (told, _) = rest.split_once("\ndevice\n").with_context(|| text.to_owned())?;
    Ok(format!("$ wirerate doctor\nengines{told}"))
}

/// What `timestamp` answers to each order, one after the other.
fn stamps() -> Result<String> {
    let mut out = String::new();
    for order in ["show", "on", "on --filter ptp", "show", "off"] {
        let output = try_sh(&format!("wirerate timestamp rx0 --netns rx {order} 2>&1"))?;
        let code = output.status.code().unwrap_or(-1);
        let said = without_number(&String::from_utf8_lossy(&output.stdout));
        writeln!(out, "$ wirerate timestamp {order} => {code}\n{}", said.trim_end())?;
    }
    Ok(out)
}

/// The number of a clock depends on which cards the machine has.
fn without_number(text: &str) -> String {
    let mut parts = text.split("/dev/ptp");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "/dev/ptpN";
        out += part.trim_start_matches(|char: char| char.is_ascii_digit());
    }
    out
}
