//! `wirerate measure` through a forwarder whose faults are known and counted (`bpf::FaultBox`).
//!
//! Frames go from tx0 to rx0, where the box redirects them to out0, and return at back0.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{run, wirerate_run};
use crate::{Case, TestResult, case};
use bpf::FaultBox;
use bpf::abi::{FaultCounts, Faults};
use host::{Netns, Stack};
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
];

/// A lab with a box in it.
pub(crate) struct FaultyLab {
    pub(crate) lab: Lab,
    pub(crate) faults: FaultBox,
}

impl FaultyLab {
    pub(crate) fn new(faults: Faults) -> Self {
        let lab = Lab::new(Peer::Gro);
        let (dut, home) = (&lab.rx_netns, &lab.tx_netns);
        run(&[
            "ip", "-n", dut, "link", "add", "out0", "type", "veth", "peer", "name", "back0", "netns", home,
        ]);
        run(&["ip", "-n", dut, "link", "set", "out0", "up"]);
        run(&["ip", "-n", home, "link", "set", "back0", "up"]);
        let attach = || {
            let stack = Stack::here().expect("a socket");
            let [rx, out] = [RX_DEV, "out0"].map(|name| stack.link(name).expect("it was made"));
            FaultBox::attach(rx.index, RX_DEV, out.index, faults).expect("the box can be attached")
        };
        let faults = Netns::named(dut).and_then(|dut| dut.run(attach)).expect("the namespace is there");
        Self { lab, faults }
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

/// Check 2: with the list of flows.
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

/// Check 3.
fn random_loss_is_the_count_of_the_box() -> TestResult {
    let faulty = FaultyLab::new(Faults { lose_share: u32::MAX / 100, ..Faults::default() });
    let (report, counts) = faulty.measure(200_000, "");
    check_loss(&report, counts.lost);
    // Six standard deviations of 200,000 draws at 1 %.
    assert!(counts.lost.abs_diff(2000) < 267, "{}", counts.lost);
    Ok(())
}

/// Check 4.
fn last_frames_are_lost_without_a_gap() -> TestResult {
    let faulty = FaultyLab::new(Faults { lose_above: 49_500, ..Faults::default() });
    let (report, counts) = faulty.measure(50_000, "");
    assert!((499..=500).contains(&counts.lost), "{}", counts.lost);
    check_loss(&report, counts.lost);
    assert_eq!(number(&report, "/missing"), 0, "no number is missing below the highest");
    Ok(())
}

/// Check 8.
fn swapped_neighbours_are_reordered() -> TestResult {
    let faulty = FaultyLab::new(Faults { swap_every: 20, ..Faults::default() });
    let (report, counts) = faulty.measure(199_990, "");
    check_loss(&report, 0);
    assert!(counts.swapped > 9_000, "{}", counts.swapped);
    // The first pair may have one frame only.
    assert_eq!(number(&report, "/reordered"), counts.swapped / 2);
    assert_eq!(number(&report, "/held_max"), 1);
    Ok(())
}

/// Check 10.
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

/// Check 12.
fn alternating_latency_is_jitter() -> TestResult {
    let faulty = FaultyLab::new(Faults { shift_every: 2, shift_usec: 200_000, ..Faults::default() });
    let (report, _) = faulty.measure(20_000, "");
    check_loss(&report, 0);
    assert!(number(&report, "/latency/percentiles/0/latency_ns") < 200_000_000, "{report}");
    assert!(number(&report, "/latency/percentiles/2/latency_ns") >= 200_000_000, "{report}");
    let jitter_ns = report["latency"]["jitter_mean_ns"].as_f64().expect("jitter");
    assert!((jitter_ns - 2e8).abs() < 4e6, "{jitter_ns}");
    let ipdv = |name: &str| report["latency"][name].as_i64().expect("IPDV");
    assert!(ipdv("ipdv_min_ns") < -190_000_000 && ipdv("ipdv_max_ns") > 190_000_000, "{report}");
    Ok(())
}
