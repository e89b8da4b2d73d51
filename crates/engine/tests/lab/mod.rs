//! What the tests on a real wire share: a lab, a request for it, and the receiver's word.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod tap;

use bpf::Sink;
use bpf::xdp::XdpModeChoice;
use engine::{End, EngineError, EngineKind, Limits, Request, RunHandle, RunReport, TxOptions, Worker};
use host::{Lab, LabOptions};
use packet::ipsec::Associations;
use packet::{Config, Cursor, Plan};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for something that a loaded machine does late, but does.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Every engine that sends to devices.
pub(crate) const ENGINES: [EngineKind; 4] =
    [EngineKind::Xdp, EngineKind::Skb, EngineKind::AfPacket, EngineKind::AfXdp];

/// A lab, or `None` where this process has no right to make one.
pub(crate) fn lab(options: &LabOptions) -> Option<Lab> {
    testkit::is_root("CAP_NET_ADMIN, CAP_BPF").then(|| Lab::new(options).expect("a lab can be made"))
}

/// A lab whose sending end takes frames from XDP.
pub(crate) fn polling_lab() -> Option<Lab> {
    lab(&LabOptions { rx_gro: true, ..LabOptions::default() })
}

/// A run of `config`, addressed to the receiving end; `engine` or the first that can.
pub(crate) fn request(lab: &Lab, config: &Config, count: u64, engine: Option<EngineKind>) -> Request {
    ipsec_request(lab, config, Associations::default(), count, engine)
}

/// A run of `config`, addressed to the receiving end, with frames protected by `associations` where
/// `config` asks for that; `engine` or the first that can.
pub(crate) fn ipsec_request(
    lab: &Lab,
    config: &Config,
    associations: Associations,
    count: u64,
    engine: Option<EngineKind>,
) -> Request {
    let facts = lab.tx.stack.facts(lab.tx.ifname).expect("the device can be asked");
    let mut config = Config { dst_mac: lab.rx.mac, ..config.clone() };
    if config.dst_min.is_none() {
        config.dst_min = Some(lab.rx.v4);
    }
    config.prepare(&facts);
    let associations = Arc::new(associations);
    let mut cursor = Cursor { associations, ..Cursor::of_v6(config.src6, config.dst6) };
    cursor.start(&config, &facts, 1);
    let plan = Plan::new(&config, &facts, &cursor).expect("the configuration is good");
    let ifname = lab.tx.ifname.to_owned();
    let (mode, options) = (config.xmit_mode, TxOptions::of(&config));
    let limits = Limits { count, ..Limits::default() };
    Request { ifname, plan, cursor, mode, options, limits, engine, batch: None, next_ns: None }
}

/// Runs to the end and says why the engine was chosen; a test that hangs fails here.
pub(crate) fn run_with_reason(lab: &Lab, request: Request) -> (RunReport, String) {
    let worker = Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
    let handle = worker.start(request);
    let report = handle.wait(TIMEOUT).expect("the run ends within a minute");
    (report, handle.snapshot().reason)
}

/// Runs to the end.
pub(crate) fn run(lab: &Lab, request: Request) -> RunReport {
    run_with_reason(lab, request).0
}

/// Why a run ended that could not even begin.
#[track_caller]
pub(crate) fn failure(lab: &Lab, request: Request) -> EngineError {
    let report = run(lab, request);
    assert_eq!(report.total.offered(), 0);
    match report.end {
        End::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Waits until a run has sent so many frames.
#[track_caller]
pub(crate) fn until_sent(run: &RunHandle, count: u64) {
    let deadline = Instant::now() + TIMEOUT;
    while run.progress().sent() < count {
        assert!(!run.has_ended() && Instant::now() < deadline, "it has sent {}", run.progress().sent());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Frames that the receiving end has counted; the last ones may still be on their way through its
/// softirq.
pub(crate) fn received(lab: &Lab, expected: u64) -> u64 {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let counters = lab.rx.link().expect("the device can be asked").counters;
        let count = counters.rx_packets + counters.rx_dropped;
        if count >= expected || Instant::now() > deadline {
            return count;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Frames that came in on each queue of the receiving end, by the counters of its driver.
pub(crate) fn by_queue(lab: &Lab) -> [u64; 4] {
    let rows = lab.rx.stack.driver_counters(lab.rx.ifname).expect("veth has counters");
    [0, 1, 2, 3].map(|queue| {
        let name = format!("rx_queue_{queue}_xdp_packets");
        rows.iter().find(|row| row.0 == name).map_or(0, |row| row.1)
    })
}

/// Runs `request` against a sink at the far end, where each queue is served, and counted, by
/// itself, and says how many of its `count` frames came on each.
pub(crate) fn run_by_queue(lab: &Lab, request: Request, count: u64) -> (RunReport, String, [u64; 4]) {
    let (index, name) = (lab.rx.index, lab.rx.ifname);
    let attach = || {
        let sink = Sink::load().expect("the sink loads");
        let link = sink.attach(index, name, XdpModeChoice::Native).expect("veth takes programs");
        (sink, link)
    };
    let (sink, _link) = lab.rx.netns().run(attach).expect("the namespace can be entered");
    let before = by_queue(lab);
    let (report, reason) = run_with_reason(lab, request);
    // The driver counts a batch when it is done with it, after the sink.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let grown: Vec<_> = by_queue(lab).iter().zip(before).map(|(after, before)| after - before).collect();
        if grown.iter().sum::<u64>() >= count || Instant::now() > deadline {
            assert_eq!(sink.total().frames, grown.iter().sum::<u64>());
            return (report, reason, grown.try_into().expect("four queues"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `tc` in the sender's namespace.
#[track_caller]
pub(crate) fn tc(lab: &Lab, words: &str) {
    let netns = &lab.tx.netns_name;
    let status = std::process::Command::new("ip")
        .args(["netns", "exec", netns, "tc"])
        .args(words.split(' '))
        .status()
        .expect("ip can be run");
    assert!(status.success(), "tc {words}");
}
