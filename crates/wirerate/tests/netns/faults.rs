//! `wirerate measure` through a forwarder whose faults are known and counted (`bpf::FaultBox`).
//!
//! Frames go from tx0 to rx0, where the box redirects them to out0, and return at back0.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{TIME_LIMIT, run, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use bpf::FaultBox;
use bpf::abi::{FaultCounts, Faults};
use host::{Netns, Stack};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// Tests of the measured faults.
pub(crate) const CASES: &[Case] = &[
    case("faults::every_hundredth_frame_is_lost", &[], every_hundredth_frame_is_lost),
    case("faults::random_loss_is_the_count_of_the_box", &[], random_loss_is_the_count_of_the_box),
    case("faults::last_frames_are_lost_without_a_gap", &[], last_frames_are_lost_without_a_gap),
    case("faults::swapped_neighbours_are_reordered", &[], swapped_neighbours_are_reordered),
    case("faults::added_latency_is_measured", &[], added_latency_is_measured),
    case("faults::alternating_latency_is_jitter", &[], alternating_latency_is_jitter),
    case("faults::copies_are_the_count_of_the_box", &[], copies_are_the_count_of_the_box),
    case("faults::a_shaper_loses_what_it_dropped", &["tc"], shaper_loses_what_it_dropped),
    case("faults::a_capture_shows_what_the_receiver_counted", &[], capture_shows_what_was_counted),
];

/// A lab with a box in it.
pub(crate) struct FaultyLab {
    pub(crate) lab: Lab,
    pub(crate) faults: FaultBox,
}

impl FaultyLab {
    pub(crate) fn new(faults: Faults) -> Self {
        let lab = Self::cabled();
        let faults = Self::attach(&lab, faults);
        Self { lab, faults }
    }

    /// Replaces the box of the lab by a box with these `faults`.
    pub(crate) fn with(self, faults: Faults) -> Self {
        let Self { lab, faults: before } = self;
        drop(before);
        let faults = Self::attach(&lab, faults);
        Self { lab, faults }
    }

    /// The way from tx0 by the device under test to back0; nothing forwards yet.
    pub(crate) fn cabled() -> Lab {
        let lab = Lab::new(Peer::Gro);
        let (dut, home) = (&lab.rx_netns, &lab.tx_netns);
        run(&[
            "ip", "-n", dut, "link", "add", "out0", "type", "veth", "peer", "name", "back0", "netns", home,
        ]);
        run(&["ip", "-n", dut, "link", "set", "out0", "up"]);
        run(&["ip", "-n", home, "link", "set", "back0", "up"]);
        lab
    }

    fn attach(lab: &Lab, faults: Faults) -> FaultBox {
        let attach = || {
            let stack = Stack::here().expect("a socket");
            let [rx, out] = [RX_DEV, "out0"].map(|name| stack.link(name).expect("it was made"));
            FaultBox::attach(rx.index, RX_DEV, out.index, faults).expect("the box can be attached")
        };
        Netns::named(&lab.rx_netns).and_then(|dut| dut.run(attach)).expect("the namespace is there")
    }

    /// Sends `count` frames through the box. Returns the report and the counts of the box.
    #[track_caller]
    fn measure(&self, count: u32, options: &str) -> (Value, FaultCounts) {
        let home = &self.lab.tx_netns;
        let outcome = wirerate_run(&format!(
            "measure --tx {TX_DEV} --tx-netns {home} --rx back0 --rx-netns {home} --json {options} -- \
             --dst 198.18.0.2 --size 60 --count {count} --pps 200k"
        ));
        let last = outcome.stdout.lines().last().expect("a report");
        let report: Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(report["broken"].as_array().map(Vec::len), Some(0), "{report}");
        let counts = self.faults.counts();
        assert_eq!(counts.received, u64::from(count), "the box saw every frame");
        (report, counts)
    }
}

#[track_caller]
fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {report}"))
}

/// Loss and the counts that no fault of these tests changes.
#[track_caller]
fn check_loss(report: &Value, lost: u64) {
    assert_eq!(
        [number(report, "/loss/lost_min"), number(report, "/loss/lost_max")],
        [lost, lost],
        "{report}"
    );
    for name in ["/duplicate", "/too_old", "/stale", "/damaged", "/loss/excess"] {
        assert_eq!(number(report, name), 0, "{name}: {report}");
    }
}

/// With the list of flows.
fn every_hundredth_frame_is_lost() -> TestResult {
    let faulty = FaultyLab::new(Faults { lose_every: 100, ..Faults::default() });
    let flows = faulty.lab.file("flows.csv");
    let options = format!("--flows 1000 --flows-out {}", flows.display());
    let (report, counts) = faulty.measure(200_000, &options);
    assert_eq!(counts.lost, 2000);
    check_loss(&report, 2000);
    assert_eq!(number(&report, "/reordered"), 0);
    let text = fs::read_to_string(&flows).expect("the file is there");
    let unique: Vec<u32> =
        text.lines().skip(1).map(|line| line.split(',').nth(3).expect("unique").parse().unwrap()).collect();
    // The lost frames are those of every hundredth flow, which are lost whole.
    assert_eq!(unique.len(), 990);
    assert!(unique.iter().all(|unique| *unique == 200), "{unique:?}");
    Ok(())
}

fn random_loss_is_the_count_of_the_box() -> TestResult {
    let faulty = FaultyLab::new(Faults { lose_share: u32::MAX / 100, ..Faults::default() });
    let (report, counts) = faulty.measure(200_000, "");
    check_loss(&report, counts.lost);
    // Six standard deviations of 200,000 draws at 1 %.
    assert!(counts.lost.abs_diff(2000) < 267, "{}", counts.lost);
    Ok(())
}

fn last_frames_are_lost_without_a_gap() -> TestResult {
    let faulty = FaultyLab::new(Faults { lose_above: 49_500, ..Faults::default() });
    let (report, counts) = faulty.measure(50_000, "");
    assert!((499..=500).contains(&counts.lost), "{}", counts.lost);
    check_loss(&report, counts.lost);
    assert_eq!(number(&report, "/missing"), 0, "no number is missing below the highest");
    Ok(())
}

fn swapped_neighbours_are_reordered() -> TestResult {
    let faulty = FaultyLab::new(Faults { swap_every: 20, ..Faults::default() });
    // The last pair is whole, as are all others.
    let (report, counts) = faulty.measure(199_990, "");
    check_loss(&report, 0);
    assert!(counts.swapped > 9_000, "{}", counts.swapped);
    assert_eq!(number(&report, "/reordered"), counts.swapped / 2);
    assert_eq!(number(&report, "/held_max"), 1);
    Ok(())
}

fn added_latency_is_measured() -> TestResult {
    let faulty = FaultyLab::new(Faults { shift_every: 1, shift_usec: 500_000, ..Faults::default() });
    let (report, counts) = faulty.measure(20_000, "");
    assert_eq!(counts.shifted, 20_000);
    check_loss(&report, 0);
    assert_eq!(number(&report, "/latency/stamped"), 20_000);
    assert!(number(&report, "/latency/min_ns") >= 500_000_000, "{report}");
    // The time in the frame is cut to microseconds, and a busy machine may add to it.
    assert!(number(&report, "/latency/min_ns") < 510_000_000, "{report}");
    Ok(())
}

fn alternating_latency_is_jitter() -> TestResult {
    let faulty = FaultyLab::new(Faults { shift_every: 2, shift_usec: 200_000, ..Faults::default() });
    let (report, _) = faulty.measure(20_000, "");
    check_loss(&report, 0);
    assert!(number(&report, "/latency/percentiles/0/latency_ns") < 200_000_000, "{report}");
    assert!(number(&report, "/latency/percentiles/2/latency_ns") >= 200_000_000, "{report}");
    let jitter_ns = report["latency"]["jitter_mean_ns"].as_f64().expect("jitter");
    assert!((jitter_ns - 2e8).abs() < 4e6, "{jitter_ns}");
    assert!(number(&report, "/latency/pdv_p999_ns") > 190_000_000, "{report}");
    let ipdv = |name: &str| report["latency"][name].as_i64().expect("IPDV");
    assert!(ipdv("ipdv_min_ns") < -190_000_000 && ipdv("ipdv_max_ns") > 190_000_000, "{report}");
    Ok(())
}

/// Every 50th frame leaves the box twice.
fn copies_are_the_count_of_the_box() -> TestResult {
    let faulty = FaultyLab::new(Faults { clone_every: 50, ..Faults::default() });
    let (report, counts) = faulty.measure(100_000, "");
    assert_eq!((counts.cloned, number(&report, "/duplicate")), (2000, 2000), "{report}");
    assert_eq!(
        [number(&report, "/unique"), number(&report, "/loss/lost_max"), number(&report, "/reordered")],
        [100_000, 0, 0],
        "{report}"
    );
    Ok(())
}

/// A router whose way out has a token bucket (TBF) of 100 Mbit/s and a queue of 100 kB.
fn shaper_loses_what_it_dropped() -> TestResult {
    const LIMIT_BYTES: u64 = 100_000;
    const BYTES_PER_S: u64 = 12_500_000;
    let lab = Lab::new(Peer::Gro);
    let (dut, home) = (&lab.rx_netns, &lab.tx_netns);
    for words in [
        &["ip", "-n", dut, "link", "add", "out0", "type", "veth", "peer", "name", "back0", "netns", home][..],
        &["ip", "-n", dut, "address", "add", "10.9.0.1/24", "dev", "out0"],
        &["ip", "-n", dut, "link", "set", "out0", "up"],
        &["ip", "-n", home, "link", "set", "back0", "up"],
        &["ip", "-n", dut, "neighbour", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:09", "dev", "out0"],
        &["ip", "netns", "exec", dut, "sysctl", "-qw", "net.ipv4.ip_forward=1"],
        &["ip", "netns", "exec", dut, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0"],
    ] {
        run(words);
    }
    let tc = |words: &str| {
        let words = format!("tc -n {dut} {words}");
        run(&words.split_whitespace().collect::<Vec<_>>())
    };
    let mut overloaded = 0;
    for pps in [10_000, 12_000, 13_000, 14_000, 20_000] {
        tc(&format!("qdisc replace dev out0 root tbf rate 100mbit burst 20000 limit {LIMIT_BYTES}"));
        let outcome = wirerate_run(&format!(
            "measure --tx {TX_DEV}@{home} --rx back0@{home} --json -- --dst 10.9.0.2 \
             --dst-mac 02:00:00:00:00:02 --size 1000 --count 3000 --pps {pps} --catch-up 1"
        ));
        let report: Value = serde_json::from_str(outcome.stdout.lines().last().expect("JSON")).expect("JSON");
        let counts: Value = serde_json::from_str(&tc("-s -j qdisc show dev out0 root")).expect("JSON");
        let dropped = number(&counts, "/0/drops");
        check_loss(&report, dropped);
        if dropped > 0 {
            overloaded += 1;
            // The last frame of a full queue waits for all before it. A busy machine adds to that.
            let full_ns = LIMIT_BYTES * 1_000_000_000 / BYTES_PER_S;
            assert!(number(&report, "/latency/max_ns") > full_ns * 97 / 100, "{pps}: {report}");
        }
        tc("qdisc del dev out0 root");
    }
    assert!(overloaded > 0, "20,000 frames per second are more than the rate");
    Ok(())
}

/// A capture beside the receiver gives the same counts of each flow, for the same frames.
fn capture_shows_what_was_counted() -> TestResult {
    let faults = Faults { lose_share: u32::MAX / 100, swap_every: 20, ..Faults::default() };
    let faulty = FaultyLab::new(faults);
    let home = &faulty.lab.tx_netns;
    let [file, counted, shown] =
        ["back.pcapng", "counted.csv", "shown.csv"].map(|name| faulty.lab.file(name));
    let capture = wirerate_start(&format!(
        "capture back0 --netns {home} --source tpacket -w {} --json",
        file.display()
    ));
    capture.until_it_says("capturing");
    let options = format!("--flows 16 --mirror --flows-out {}", counted.display());
    let (measured, counts) = faulty.measure(19_990, &options);
    capture.signal(Signal::SIGINT);
    let captured = capture.wait(TIME_LIMIT).expect_code(0).stdout;
    assert!(counts.lost > 0 && counts.swapped > 0, "{captured}");
    let outcome = wirerate_run(&format!(
        "analyze {} --flows 16 --sent 19990 --json --flows-out {}",
        file.display(),
        shown.display()
    ));
    let analyzed: Value = serde_json::from_str(&outcome.expect_code(1).stdout).expect("JSON");
    for name in [
        "/received",
        "/unique",
        "/duplicate",
        "/reordered",
        "/held_max",
        "/too_old",
        "/flows",
        "/stamped",
        "/damaged",
        "/stale",
        "/loss/lost_min",
        "/loss/lost_max",
    ] {
        assert_eq!(number(&analyzed, name), number(&measured, name), "{name}: {captured}");
    }
    // Only `measure` can tell the numbers of frames that the driver of its sender rejected.
    let missing = number(&measured, "/missing") + number(&measured, "/rejected");
    assert_eq!(number(&analyzed, "/missing"), missing, "{captured}");
    // Without the columns of latency, which each program measures by its own clock.
    let flows = |path| {
        let text = fs::read_to_string(path).expect("the file is there");
        text.lines().map(|line| line.splitn(8, ',').take(7).collect::<Vec<_>>().join(",")).collect::<Vec<_>>()
    };
    assert_eq!(flows(&shown), flows(&counted));
    assert_eq!(flows(&shown).len(), 17);
    Ok(())
}
