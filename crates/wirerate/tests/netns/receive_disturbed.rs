//! `wirerate measure` when the run is large or disturbed: a million flows, several CPUs, a
//! stopped receiver, a device that goes down. Every figure stays true.

use crate::faults::FaultyLab;
use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Running, TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use bpf::abi::Faults;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Tests of large and disturbed runs.
pub(crate) const CASES: &[Case] = &[
    case("receive_disturbed::millions_of_frames_of_few_and_many_flows", &[], millions_of_frames),
    case("receive_disturbed::two_queues_count_as_one", &[], two_queues_count_as_one),
    case("receive_disturbed::two_cpus_receive_one_flow", &[], two_cpus_receive_one_flow)
        .with_lock("finds NAPI threads by the name of the device"),
    case("receive_disturbed::a_receiver_that_changes_its_cpu", &[], receiver_changes_its_cpu)
        .with_lock("finds NAPI threads by the name of the device"),
    case("receive_disturbed::a_stopped_receiver_misses_nothing", &[], stopped_receiver_misses_nothing),
    case("receive_disturbed::a_device_that_goes_down_and_up", &[], device_goes_down_and_up),
    case("receive_disturbed::rejected_frames_are_not_lost", &[], rejected_frames_are_not_lost),
];

/// The reports of the sender and of the receiver, whose sums agree with each other.
#[derive(Debug)]
struct Both {
    sent: Value,
    received: Value,
}

impl Both {
    #[track_caller]
    fn of(text: &str) -> Self {
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let both = Self { sent: lines.next().expect("a line"), received: lines.next().expect("a line") };
        assert_eq!(both.received["broken"].as_array().map(Vec::len), Some(0), "{both:?}");
        let [offered, sent, errors] = both.sent(["offered", "sent", "errors"]);
        assert_eq!(offered, sent + errors, "{both:?}");
        let [received, unique, duplicate, too_old] =
            both.received(["received", "unique", "duplicate", "too_old"]);
        assert_eq!(received, unique + duplicate + too_old, "{both:?}");
        let loss = |name: &str| both.received["loss"][name].as_u64().expect("a number");
        assert_eq!([loss("sent"), loss("excess")], [sent, 0], "{both:?}");
        assert_eq!(loss("lost_max"), sent - unique, "{both:?}");
        assert!(loss("lost_min") <= loss("lost_max") && loss("lost_min") + too_old >= loss("lost_max"));
        both
    }

    #[track_caller]
    fn numbers<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
        names.map(|name| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}")))
    }

    #[track_caller]
    fn sent<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        Self::numbers(&self.sent, names)
    }

    #[track_caller]
    fn received<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        Self::numbers(&self.received, names)
    }

    fn lost_max(&self) -> u64 {
        self.received["loss"]["lost_max"].as_u64().expect("a number")
    }
}

/// Starts a run whose receiver attaches before the first frame.
fn start(lab: &Lab, options: &str, send: &str) -> Running {
    let (tx, rx) = (&lab.tx_netns, &lab.rx_netns);
    wirerate_start(&format!(
        "measure --tx {TX_DEV}@{tx} --rx {RX_DEV}@{rx} --json {options} -- --dst-mac 02:00:00:00:00:02 {send}"
    ))
}

/// The numbers of CPUs of this process.
fn cpus() -> Vec<usize> {
    let mine = nix::sched::sched_getaffinity(Pid::from_raw(0)).expect("it is our own");
    (0..CpuSet::count()).filter(|cpu| mine.is_set(*cpu).unwrap_or(false)).collect()
}

/// Gives each of the two first receive queues a thread. Returns their thread ids.
fn napi_threads(lab: &Lab) -> Vec<Pid> {
    let threaded = format!("echo 1 > /sys/class/net/{RX_DEV}/threaded");
    run(&["ip", "netns", "exec", &lab.rx_netns, "sh", "-c", &threaded]);
    let is_of_device = |pid: &str| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("napi/rx0-"))
    };
    let entries = fs::read_dir("/proc").expect("proc is mounted").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_of_device(name)).filter_map(|name| name.parse().ok().map(Pid::from_raw)).collect()
}

/// At top speed. With `--count 10M` the same holds; it takes too long beside other load.
fn millions_of_frames() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (addresses, flows) in [("10.0.0.1", 1), ("10.0.0.0/16", 65_536), ("10.0.0.0-10.15.66.63", 1_000_000)]
    {
        let send = format!("--dst {addresses} --size 74 --count 2M --src 198.18.0.1");
        let both = Both::of(&start(&lab, "--expect lost=0", &send).wait(TIME_LIMIT).expect_code(0).stdout);
        let kinds = ["unique", "flows", "duplicate", "reordered", "missing", "stale", "damaged", "stamped"];
        assert_eq!(both.received(kinds), [2_000_000, flows, 0, 0, 0, 0, 0, 2_000_000], "{both:?}");
    }
    Ok(())
}

/// Two threads use two queues; each flow stays on its CPU.
fn two_queues_count_as_one() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let send = "--dst 10.0.0.0-10.0.127.255 --size 74 --count 500k --src 198.18.0.1 --threads 2";
    let both = Both::of(&start(&lab, "--expect lost=0", send).wait(TIME_LIMIT).expect_code(0).stdout);
    let kinds = ["unique", "flows", "duplicate", "reordered", "moves"];
    assert_eq!(both.received(kinds), [500_000, 65_536, 0, 0, 0], "{both:?}");
    assert_eq!(both.received["cpus"].as_array().map(Vec::len), Some(2), "{both:?}");
    Ok(())
}

/// The frames of one flow take two queues in turn, each with a thread of its own.
fn two_cpus_receive_one_flow() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = start(
        &lab,
        "--shared-flows --wide-window",
        "--dst 198.18.0.2 --size 74 --count 10k --pps 10k --catch-up 1 --engine skb --queues 0-1",
    );
    until("the receiver is attached", || lab.has_xdp());
    for (thread, cpu) in napi_threads(&lab).into_iter().zip(cpus().into_iter().cycle()) {
        let mut only = CpuSet::new();
        only.set(cpu)?;
        sched_setaffinity(thread, &only)?;
    }
    let both = Both::of(&running.wait(TIME_LIMIT).stdout);
    let [received, foreign, duplicate, flows] = both.received(["received", "foreign", "duplicate", "flows"]);
    // On a busy machine the ring of a thread that waits for a CPU runs full, and frames are lost
    // there. Those that the threads took from the rings are measured, each once.
    assert_eq!((received + foreign, duplicate, flows), (lab.received(), 0, 1), "{both:?}");
    assert_eq!(both.received["loss"]["lost_min"], both.sent(["sent"])[0] - received, "{both:?}");
    assert!(both.received(["moves"])[0] > 0, "{both:?}");
    Ok(())
}

/// The thread that polls the device moves to another CPU every few milliseconds.
fn receiver_changes_its_cpu() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut running = start(&lab, "--expect lost=0", "--dst 198.18.0.2 --size 74 --count 50k --pps 50k");
    until("the receiver is attached", || lab.has_xdp());
    let threads = napi_threads(&lab);
    assert!(!threads.is_empty(), "the device has threads");
    for cpu in cpus().into_iter().cycle() {
        let mut only = CpuSet::new();
        only.set(cpu)?;
        for thread in &threads {
            sched_setaffinity(*thread, &only)?;
        }
        if running.has_ended() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let both = Both::of(&running.wait(TIME_LIMIT).stdout);
    assert_eq!(both.received(["unique", "duplicate", "reordered", "flows"]), [50_000, 0, 0, 1], "{both:?}");
    assert!(both.received(["moves"])[0] > 0, "{both:?}");
    Ok(())
}

/// The program in the kernel goes on while its process is stopped.
fn stopped_receiver_misses_nothing() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let receiver =
        wirerate_start(&format!("receive {RX_DEV} --netns {} --json --expect lost=0", lab.rx_netns));
    receiver.until_it_says("measuring frames of rx0 (XDP, native)");
    receiver.signal(Signal::SIGSTOP);
    let send = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --size 74 --signature full", lab.tx_netns);
    wirerate_run(&format!("{send} --count 200k --udp-dst 1-8")).expect_code(0);
    receiver.signal(Signal::SIGCONT);
    let text = receiver.wait(TIME_LIMIT).expect_code(0).stdout;
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(Both::numbers(&report, ["unique", "flows", "duplicate", "stamped"]), [200_000, 8, 0, 200_000]);
    assert_eq!(report["broken"].as_array().map(Vec::len), Some(0));
    Ok(())
}

/// Frames that reach a receiving device while it is down are lost: the device under test sent them.
fn device_goes_down_and_up() -> TestResult {
    let faulty = FaultyLab::new(Faults::default());
    let home = &faulty.lab.tx_netns;
    let running = wirerate_start(&format!(
        "measure --tx {TX_DEV}@{home} --rx back0@{home} --json -- --dst 198.18.0.2 --size 74 --count 20k \
         --pps 20k"
    ));
    let has_seen = |frames| faulty.faults.counts().received >= frames;
    until("the first frames are in the box", || has_seen(2000));
    run(&["ip", "-n", home, "link", "set", "back0", "down"]);
    let seen = faulty.faults.counts().received;
    until("frames come while the receiver is down", || has_seen(20_000.min(seen + 500)));
    run(&["ip", "-n", home, "link", "set", "back0", "up"]);
    let both = Both::of(&running.wait(TIME_LIMIT).stdout);
    assert_eq!((both.sent(["offered", "sent"]), faulty.faults.counts().received), ([20_000; 2], 20_000));
    assert!((500..18_000).contains(&both.lost_max()), "{both:?}");
    assert_eq!(both.received(["duplicate", "too_old", "reordered"]), [0, 0, 0], "{both:?}");
    Ok(())
}

/// A veth device rejects frames that are too long for its peer, and with them what is left of their
/// batch: their numbers never arrive, and the sender knows.
fn rejected_frames_are_not_lost() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = wirerate_start(&format!(
        "measure --tx {TX_DEV}@{} --rx {RX_DEV}@{} --json -- --dst 198.18.0.2 --imix 74:9,594:1 --count 20k --pps 20k \
         --engine xdp",
        lab.tx_netns, lab.rx_netns
    ));
    until("the first frames are there", || lab.received() >= 2000);
    run(&["ip", "-n", &lab.rx_netns, "link", "set", RX_DEV, "mtu", "300"]);
    let both = Both::of(&running.wait(TIME_LIMIT).stdout);
    let [sent, errors, replaced] = both.sent(["sent", "errors", "replaced"]);
    assert!(sent == 20_000 && replaced >= 1000, "{both:?}");
    let rejected = errors + replaced;
    assert_eq!(both.received(["rejected", "unique", "missing"]), [rejected, 20_000, 0], "{both:?}");
    assert_eq!(both.lost_max(), 0, "{both:?}");
    Ok(())
}
