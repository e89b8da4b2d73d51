//! Rates of wirerate and of the kernel's pktgen on the same virtual device, in turns; a counter
//! behind the device counts. No case fails for a rate, but both sides must send, and all frames
//! must be counted.
//!
//! Each side has one short turn unless the host requests more (`make vm VM="--rates FILE"`, or
//! `WIRERATE_RATES=5`); then each result is also a row for the page of the bench.

use super::engines::Pair;
use super::nics::{CardPair, IGB, VIRTIO_DIRECT};
use super::wireless::Air;
use super::{Case, CaseReport, MachineType, wireless};
use crate::guest::{Background, load, sh, try_sh, unload};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};

const PKTGEN: &[&str] = &["pktgen"];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "rates_veth",
        what: "veth: receiver's rate of wirerate over that of the kernel's pktgen",
        modules: PKTGEN,
        devices: "",
        machine: MachineType::Common,
        run: veth,
    },
    Case {
        name: "rates_dummy",
        what: "dummy: the same by the device's own counter, and into the receive path by tc's",
        modules: &["pktgen", "dummy", "cls_matchall", "act_gact"],
        devices: "",
        machine: MachineType::Common,
        run: dummy,
    },
    Case {
        name: "rates_hwsim",
        what: "mac80211_hwsim: the same, at the access point",
        modules: wireless::MODULES,
        devices: "",
        machine: MachineType::Common,
        run: hwsim,
    },
    Case {
        name: "rates_virtio",
        what: "virtio-net: the same",
        modules: &["pktgen", "virtio_pci", "virtio_net"],
        devices: VIRTIO_DIRECT.devices,
        machine: MachineType::Cards,
        run: virtio,
    },
    Case {
        name: "rates_igb",
        what: "igb: the same",
        modules: &["pktgen", "igb"],
        devices: IGB.devices,
        machine: MachineType::Cards,
        run: igb,
    },
];

/// On the kernel's command line.
const TURNS: &str = "wirerate_rates=";
/// Until a sender is at its pace.
const WARM_UP: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(30);
const VETH_MAC: &str = "02:00:00:00:00:02";

/// Where frames go out, and what counts them.
struct Bed {
    /// For the table and the rows.
    device: &'static str,
    ifname: &'static str,
    /// In front of commands there.
    at: &'static str,
    dst_mac: String,
    /// A script that prints how many frames have come.
    counter: &'static str,
}

const AT_RX0: &str = "ip netns exec rx cat /sys/class/net/rx0/statistics/rx_packets";

impl Bed {
    /// From `tx0` to `rx0`.
    fn between(device: &'static str, dst_mac: &str) -> Self {
        let at = "ip netns exec tx";
        Self { device, ifname: "tx0", at, dst_mac: dst_mac.to_owned(), counter: AT_RX0 }
    }

    fn count(&self) -> Result<u64> {
        let text = sh(self.counter)?;
        text.trim().parse().with_context(|| format!("{text:?} frames"))
    }

    /// What may tell why nothing is counted.
    fn clues(&self) -> String {
        let Self { ifname, at, .. } = self;
        let script = format!(
            "{at} sh -c 'cat /proc/net/pktgen/{ifname}; ip -s link show {ifname}; iw dev {ifname} link' 2>&1
             iw dev wlan0 station dump 2>&1; tail -n 20 /tmp/hostapd.log 2>&1; dmesg | tail -n 20"
        );
        try_sh(&script).map_or_else(
            |why| format!("{why:#}"),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    fn has_link(&self) -> Result<bool> {
        let text = sh(&format!("{} cat /sys/class/net/{}/carrier", self.at, self.ifname))?;
        Ok(text.trim() == "1")
    }

    /// `options` are those of `wirerate send`.
    fn ours(&self, mode: SendMode, engine: &str) -> RateSender {
        let Self { ifname, at, dst_mac, .. } = self;
        let mode = mode.name();
        RateSender::new(
            engine.to_owned(),
            format!(
                "exec {at} wirerate send {ifname} --cpus 1 --dst 198.18.0.1 --dst-mac {dst_mac} --duration 60s \
                 --xmit-mode {mode} --engine {engine} >/tmp/said 2>&1"
            ),
            false,
        )
    }

    /// The kernel's, on the same CPU.
    fn theirs(&self, mode: SendMode, burst: u32, clone_skb: u32) -> RateSender {
        let Self { ifname, at, dst_mac, .. } = self;
        let settings = format!(
            "cd /proc/net/pktgen
             echo add_device {ifname} > kpktgend_1
             echo count 0 > {ifname}; echo pkt_size 60 > {ifname}; echo delay 0 > {ifname}
             echo dst 198.18.0.1 > {ifname}; echo dst_mac {dst_mac} > {ifname}
             echo xmit_mode {} > {ifname}; echo clone_skb {clone_skb} > {ifname}; echo burst {burst} > {ifname}
             echo start > pgctrl",
            mode.name()
        );
        RateSender::new(
            format!("pktgen burst {burst} clone_skb {clone_skb}"),
            format!("exec {at} sh -ec '{settings}' >/tmp/said 2>&1"),
            true,
        )
    }
}

/// How frames leave the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendMode {
    Start,
    Queue,
    Receive,
}

impl SendMode {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start_xmit",
            Self::Queue => "queue_xmit",
            Self::Receive => "netif_receive",
        }
    }
}

/// A sender, and its rate in each round.
struct RateSender {
    name: String,
    command: String,
    /// The kernel's.
    is_module: bool,
    pps: Vec<f64>,
}

impl RateSender {
    fn new(name: String, command: String, is_module: bool) -> Self {
        Self { name, command, is_module, pps: Vec::new() }
    }

    /// One turn.
    fn measure(&mut self, bed: &Bed, window: Duration) -> Result<()> {
        let process = self.start(bed).with_context(|| {
            let said = std::fs::read_to_string("/tmp/said").unwrap_or_default();
            format!("{}: {} sends nothing that is counted: {said}\n{}", bed.device, self.name, bed.clues())
        })?;
        std::thread::sleep(WARM_UP);
        let (from, begin) = (bed.count()?, Instant::now());
        std::thread::sleep(window);
        let (to, elapsed) = (bed.count()?, begin.elapsed());
        self.pps.push((to - from) as f64 / elapsed.as_secs_f64());
        if self.is_module {
            sh(&format!("{} sh -c 'echo stop > /proc/net/pktgen/pgctrl'", bed.at))?;
        }
        process.interrupt()?;
        // It would hold its device, which may be about to go.
        unload("pktgen")
    }

    /// Returns when frames of it are counted. Pktgen ends without a word where the link is gone for
    /// a moment; then it is asked again. Each time it is loaded anew: its threads look for orders
    /// ten times per second, and `rem_device_all`, which waits 125 ms for that, may be carried out
    /// behind the next `start` on a busy host.
    fn start(&self, bed: &Bed) -> Result<Background> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // Each is to find the device as the one before did.
            wait_for(deadline, || bed.has_link()).context("no link")?;
            unload("pktgen")?;
            if self.is_module {
                load("pktgen", "")?;
            }
            let before = bed.count()?;
            let mut process = Background::start(&self.command)?;
            let mut is_over = false;
            wait_for(deadline, || {
                is_over = process.is_over()?;
                Ok(is_over || bed.count()? > before + 100)
            })?;
            if !is_over {
                return Ok(process);
            }
            ensure!(self.is_module, "it ended by itself");
        }
    }

    fn median(&self) -> f64 {
        MedianRange::of(&self.pps).median
    }
}

fn wait_for(deadline: Instant, mut is_there: impl FnMut() -> Result<bool>) -> Result<()> {
    while !is_there()? {
        ensure!(Instant::now() < deadline, "nothing in {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// As in the rows of `bench`: the median, and the median distance from it as that of normally
/// distributed values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MedianRange {
    median: f64,
    spread: f64,
}

impl MedianRange {
    fn of(values: &[f64]) -> Self {
        let middle = median(values);
        let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        Self { median: middle, spread: 1.4826 * median(&distances) }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len() / 2), sorted.len() % 2) {
        (None, _) => 0.0,
        (Some(upper), 0) => (sorted[sorted.len() / 2 - 1] + upper) / 2.0,
        (Some(middle), _) => *middle,
    }
}

/// How many long turns; none for a short one.
fn turns() -> Result<u32> {
    let words = std::fs::read_to_string("/proc/cmdline").context("/proc/cmdline")?;
    let value = words.split_whitespace().find_map(|word| word.strip_prefix(TURNS));
    value.map_or(Ok(0), |turns| turns.parse().with_context(|| format!("WIRERATE_RATES={turns}")))
}

/// Who sends, and how. A short turn takes the first of each side.
struct Contest<'a> {
    bed: &'a Bed,
    mode: SendMode,
    ours: &'a [&'a str],
    /// `burst` and `clone_skb`.
    theirs: &'a [(u32, u32)],
}

impl Contest<'_> {
    /// Takes turns, and notes the best of each side, by medians, and how they compare turn by turn.
    fn run(&self, finding: &mut CaseReport) -> Result<()> {
        let Self { bed, mode, .. } = *self;
        let (rounds, window, most) = match turns()? {
            0 => (1, Duration::from_millis(300), 1),
            rounds => (rounds, Duration::from_millis(1_500), usize::MAX),
        };
        let mut ours: Vec<RateSender> =
            self.ours.iter().take(most).map(|engine| bed.ours(mode, engine)).collect();
        let theirs = self.theirs.iter().take(most);
        let mut theirs: Vec<RateSender> =
            theirs.map(|(burst, clone_skb)| bed.theirs(mode, *burst, *clone_skb)).collect();
        for _ in 0..rounds {
            theirs.iter_mut().chain(&mut ours).try_for_each(|sender| sender.measure(bed, window))?;
        }
        self.conclude(&ours, &theirs, finding)
    }

    fn conclude(&self, ours: &[RateSender], theirs: &[RateSender], finding: &mut CaseReport) -> Result<()> {
        let place = match self.mode {
            SendMode::Start => self.bed.device.to_owned(),
            mode => format!("{} {}", self.bed.device, mode.name()),
        };
        for sender in theirs.iter().chain(ours) {
            finding.row(row(&place, sender, "rate_pps", None, &sender.pps));
        }
        let best = |senders: &mut dyn Iterator<Item = &'_ RateSender>| -> Option<usize> {
            let medians = senders.map(RateSender::median).enumerate();
            medians.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
        };
        let best_of = |senders: &[RateSender]| best(&mut senders.iter()).context("no sender");
        let (our, their) = (&ours[best_of(ours)?], &theirs[best_of(theirs)?]);
        let ratios: Vec<f64> = our.pps.iter().zip(&their.pps).map(|(our, their)| our / their).collect();
        finding.row(row(&place, our, "rate_ratio", Some(&their.name), &ratios));
        if turns()? == 0 {
            // Of one short turn, perhaps beside another machine, the rates say nothing.
            finding.note(&place, "both send");
            return Ok(());
        }
        let (least, most) = ratios
            .iter()
            .fold((f64::MAX, 0.0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
        finding.note(
            &place,
            format!(
                "{:.2} ({least:.2} to {most:.2}): {} {:.0} kpps, {} {:.0} kpps",
                median(&ratios),
                our.name,
                our.median() / 1_000.0,
                their.name,
                their.median() / 1_000.0
            ),
        );
        Ok(())
    }
}

/// A row as those of `bench`; the host puts the name of the kernel in front of the case.
fn row(
    place: &str,
    sender: &RateSender,
    value: &str,
    against: Option<&str>,
    values: &[f64],
) -> serde_json::Value {
    let MedianRange { median, spread } = MedianRange::of(values);
    json!({
        "schema": "wirerate.bench/1", "row": "result", "case": place, "tool": sender.name, "value": value,
        "against": against, "median": median, "spread": spread, "rounds": values.len(), "goal": null,
        "frame_len": 60, "cpus": 1
    })
}

/// Engine and option that send one frame again and again, as pktgen does by `clone_skb`.
const AGAIN: &str = "af_xdp --clone 100000";

/// A veth may be given neither the same skb twice nor several at once.
const ALONE: &[(u32, u32)] = &[(1, 0)];
const SHARED: &[(u32, u32)] = &[(32, 100_000), (1, 0), (32, 0), (1, 100_000)];

fn veth(finding: &mut CaseReport) -> Result<()> {
    let _pair = Pair::new("on")?;
    let _sink = sink()?;
    let bed = Bed::between("veth", VETH_MAC);
    let contest =
        Contest { bed: &bed, mode: SendMode::Start, ours: &["xdp", "skb", "af_packet"], theirs: ALONE };
    contest.run(finding)?;
    Contest { mode: SendMode::Queue, ours: &["skb", "af_packet"], ..contest }.run(finding)
}

/// The receiver's stack would cost more than the senders do. Frames of all senders end in its
/// driver.
fn sink() -> Result<Background> {
    let sink = Background::start("exec wirerate sink rx0 --netns rx >/dev/null 2>&1")?;
    wait_for(Instant::now() + TIMEOUT, || Ok(sh("ip -n rx link show rx0")?.contains("xdp")))
        .context("no program on rx0")?;
    Ok(sink)
}

/// Sender and receiver on a CPU each, with the interrupts of their cards, as the kernel's page on
/// pktgen advises; the receiver's frames end in its driver.
fn apart(pair: &CardPair) -> Result<Background> {
    for (end, cpus) in [("rx", 1), ("tx", 2)] {
        sh(&format!(
            "ip netns exec {end} sh -ec '
             for irq in $(cd /sys/class/net/{end}0/device && ls msi_irqs ../msi_irqs 2>/dev/null | grep -v :); do
                 echo {cpus} > /proc/irq/$irq/smp_affinity
             done'"
        ))?;
    }
    let sink = sink()?;
    pair.wait_for_carrier()?;
    Ok(sink)
}

fn dummy(finding: &mut CaseReport) -> Result<()> {
    ["dummy", "cls_matchall", "act_gact"].iter().try_for_each(|name| load(name, ""))?;
    sh("ip link add dummy9 type dummy; ip link set dummy9 up; ip address add 198.18.0.2/15 dev dummy9
        tc qdisc add dev dummy9 clsact; tc filter add dev dummy9 ingress matchall action drop")?;
    let bed = Bed {
        device: "dummy",
        ifname: "dummy9",
        at: "env",
        dst_mac: VETH_MAC.to_owned(),
        counter: "cat /sys/class/net/dummy9/statistics/tx_packets",
    };
    let start = Contest { bed: &bed, mode: SendMode::Start, ours: &["skb", "af_packet"], theirs: SHARED };
    start.run(finding)?;
    Contest { mode: SendMode::Queue, theirs: &[(1, 100_000), (1, 0)], ..start }.run(finding)?;
    let counter = "tc -s filter show dev dummy9 ingress | awk '/Sent/ { print $4 }'";
    let bed = Bed { counter, ..bed };
    Contest { bed: &bed, mode: SendMode::Receive, ours: &["xdp", "skb"], theirs: &[(32, 0), (1, 0)] }
        .run(finding)?;
    sh("ip link del dummy9").map(drop)
}

fn hwsim(finding: &mut CaseReport) -> Result<()> {
    let air = Air::new("", "")?;
    air.connect()?;
    let bed = Bed {
        device: "hwsim",
        ifname: "wlan1",
        at: "env",
        dst_mac: air.access_point().to_owned(),
        counter: "cat /sys/class/net/wlan0/statistics/rx_packets",
    };
    Contest { bed: &bed, mode: SendMode::Start, ours: &["af_packet", "skb"], theirs: ALONE }.run(finding)
}

fn virtio(finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(&VIRTIO_DIRECT)?;
    let _sink = apart(&pair)?;
    let bed = Bed::between("virtio", pair.receiver_mac());
    let contest = Contest {
        bed: &bed,
        mode: SendMode::Start,
        ours: &["xdp", "af_xdp", AGAIN, "af_packet"],
        theirs: SHARED,
    };
    contest.run(finding)?;
    // To give a real qdisc the same skb twice crashes the kernel.
    Contest { mode: SendMode::Queue, ours: &["af_packet", "skb"], theirs: ALONE, ..contest }.run(finding)
}

fn igb(finding: &mut CaseReport) -> Result<()> {
    let pair = CardPair::new(&IGB)?;
    let _sink = apart(&pair)?;
    let bed = Bed::between("igb", pair.receiver_mac());
    Contest { bed: &bed, mode: SendMode::Start, ours: &["af_xdp", AGAIN, "xdp", "af_packet"], theirs: SHARED }
        .run(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_bench() {
        let MedianRange { median, spread } = MedianRange::of(&[1.0, 2.0, 3.0, 4.0, 100.0]);
        assert!((median - 3.0).abs() < 1e-9 && (spread - 1.4826).abs() < 1e-9, "{median} ± {spread}");
        assert_eq!(MedianRange::of(&[7.0]), MedianRange { median: 7.0, spread: 0.0 });
        assert_eq!(super::median(&[1.0, 2.0]), 1.5);
    }

    #[test]
    fn rows_say_what_the_page_of_the_bench_asks() {
        let sender = RateSender { pps: vec![5.0], ..RateSender::new("xdp".to_owned(), String::new(), false) };
        let row = row("igb", &sender, "rate_pps", None, &sender.pps);
        for name in ["schema", "row", "case", "tool", "value", "median", "spread", "rounds"] {
            assert!(!row[name].is_null(), "{name}");
        }
    }
}
