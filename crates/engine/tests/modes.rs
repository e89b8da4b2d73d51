//! Where frames enter the kernel, which queue they take, and who says no to what.

mod lab;

use engine::{End, EngineError, EngineKind, Limits, Pace, RunReport};
use host::{Lab, LabOptions};
use lab::tap::Tap;
use lab::{
    ENGINES, TIMEOUT, failure, lab, polling_lab, received, request, run, run_by_queue, run_with_reason, tc,
    until_sent,
};
use packet::{Config, Flags, Rate, XmitMode};
use std::time::{Duration, Instant};

fn mode(xmit_mode: XmitMode) -> Config {
    Config { xmit_mode, ..Config::default() }
}

#[track_caller]
fn all_sent(report: &RunReport, count: u64) {
    assert!(matches!(report.end, End::Count), "{:?}", report.end);
    assert_eq!((report.total.sent, report.total.errors.total()), (count, 0));
}

#[test]
fn a_slow_qdisc_is_waited_for_and_every_frame_arrives_once() {
    let Some(lab) = lab(&LabOptions::default()) else { return };
    // Space for a few frames, and half a second for all of them.
    tc(&lab, "qdisc replace dev tx0 root tbf rate 800kbit burst 2000 limit 3000");
    for engine in [EngineKind::Skb, EngineKind::AfPacket] {
        let tap = Tap::new(lab.rx.netns());
        let report = run(&lab, request(&lab, &mode(XmitMode::QueueXmit), 700, Some(engine)));
        all_sent(&report, 700);
        assert!(report.total.retries > 0, "{engine} never met a full queue");
        let seen = tap.frames(700);
        let numbers: Vec<_> = seen.iter().map(|frame| frame[46..50].to_vec()).collect();
        let wanted: Vec<_> = (1..=700u32).map(|number| number.to_be_bytes().to_vec()).collect();
        assert!(numbers == wanted, "{engine}: {} frames", seen.len());
        assert!(report.elapsed_ns() > 200_000_000, "{engine} did not go through the qdisc");
    }
}

/// The ring takes over after 1,024 frames and a grace period of RCU, also while frames wait for the
/// qdisc.
#[test]
fn frames_stay_in_order_when_af_packet_gets_its_ring() {
    let Some(lab) = lab(&LabOptions::default()) else { return };
    tc(&lab, "qdisc replace dev tx0 root tbf rate 16mbit burst 4000 limit 6000");
    let paced = Pace::Constant(Rate::from_pps(50_000).expect("a rate"));
    for (xmit_mode, pace) in [(XmitMode::StartXmit, paced), (XmitMode::QueueXmit, Pace::Unpaced)] {
        let tap = Tap::new(lab.rx.netns());
        let mut request = request(&lab, &mode(xmit_mode), 10_000, Some(EngineKind::AfPacket));
        request.limits.pace = pace;
        let report = run(&lab, request);
        all_sent(&report, 10_000);
        assert!(report.elapsed_ns() > 150_000_000, "{xmit_mode:?}: too soon for a ring");
        let seen = tap.frames(10_000);
        let numbers =
            seen.iter().map(|frame| u32::from_be_bytes([frame[46], frame[47], frame[48], frame[49]]));
        assert!(numbers.eq(1..=10_000), "{xmit_mode:?}: {} frames", seen.len());
    }
}

#[test]
fn start_xmit_goes_past_the_qdisc_or_not_at_all() {
    let Some(lab) = lab(&LabOptions::default()) else { return };
    tc(&lab, "qdisc replace dev tx0 root tbf rate 8kbit burst 2000 limit 3000");
    let error = failure(&lab, request(&lab, &Config::default(), 9, Some(EngineKind::Skb)));
    assert!(error.to_string().contains("xmit_mode start_xmit: it would go through the tbf qdisc"), "{error}");
    let (report, reason) = run_with_reason(&lab, request(&lab, &Config::default(), 5000, None));
    all_sent(&report, 5000);
    assert_eq!(report.engine, Some(EngineKind::AfPacket), "{reason}");
    assert!(reason.contains("not xdp: rx0, the peer of tx0") && reason.contains("tbf"), "{reason}");
    assert_eq!(received(&lab, 5000), 5000);
    assert!(report.elapsed_ns() < 60_000_000_000, "8 kbit/s would take five minutes");
}

#[test]
fn exact_counts_go_into_the_receive_path() {
    let Some(lab) = polling_lab() else { return };
    for engine in [EngineKind::Xdp, EngineKind::Skb] {
        for count in [1, 2, 63, 64, 65, 1000, 5001] {
            let tap = Tap::new(lab.tx.netns());
            all_sent(&run(&lab, request(&lab, &mode(XmitMode::NetifReceive), count, Some(engine))), count);
            assert_eq!(tap.frames(count as usize).len() as u64, count, "{engine}");
        }
    }
    assert_eq!(received(&lab, 0), 0, "nothing went out");
}

/// Taken before the delay, the times of the first two frames would be those of two frames back to
/// back.
#[test]
fn the_time_in_the_header_is_taken_after_the_delay() {
    let Some(lab) = polling_lab() else { return };
    for engine in ENGINES {
        let tap = Tap::new(lab.rx.netns());
        let mut request = request(&lab, &Config::default(), 2, Some(engine));
        request.limits.pace = Pace::from_delay_ns(500_000_000);
        all_sent(&run(&lab, request), 2);
        let word = |frame: &[u8], at: usize| {
            u64::from(u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]))
        };
        let us = |frame: &Vec<u8>| word(frame, 50) * 1_000_000 + word(frame, 54);
        let times: Vec<_> = tap.frames(2).iter().map(us).collect();
        // Far less than the delay, since the first may come late on a loaded machine and the second
        // does not wait.
        assert!(times[1].saturating_sub(times[0]) > 50_000, "{engine}: {times:?}");
    }
}

#[test]
fn frags_keep_no_frame_out_of_the_receive_path() {
    let Some(lab) = polling_lab() else { return };
    let config = Config { frags: 3, ..mode(XmitMode::NetifReceive) };
    let tap = Tap::new(lab.tx.netns());
    all_sent(&run(&lab, request(&lab, &config, 9, None)), 9);
    assert_eq!(tap.frames(9).len(), 9);
}

#[test]
fn skb_sends_on_the_queues_that_the_plan_names() {
    let Some(lab) = polling_lab() else { return };
    let config = Config { queue_map_min: 1, queue_map_max: 3, ..Config::default() };
    let (report, reason, by_queue) = run_by_queue(&lab, request(&lab, &config, 3000, None), 3000);
    all_sent(&report, 3000);
    assert_eq!(report.engine, Some(EngineKind::Skb), "{reason}");
    assert!(reason.contains("not xdp: the xdp engine does not support queue_map_min"), "{reason}");
    assert_eq!(by_queue, [0, 1000, 1000, 1000]);
}

/// The other ways to name queues: at random, just one, that of the CPU.
#[test]
fn queue_maps_mean_the_same_on_the_engines_that_have_them() {
    let Some(lab) = polling_lab() else { return };
    for engine in [EngineKind::Skb, EngineKind::AfXdp] {
        let mut config = Config { queue_map_min: 1, queue_map_max: 3, seed: Some(5), ..Config::default() };
        config.flags.set(Flags::QUEUE_MAP_RND, true);
        let (report, _, random) = run_by_queue(&lab, request(&lab, &config, 3000, Some(engine)), 3000);
        all_sent(&report, 3000);
        assert!(random[0] == 0 && random[1..].iter().all(|count| (800..1200).contains(count)), "{random:?}");
        let one = Config { queue_map_min: 2, queue_map_max: 2, ..Config::default() };
        let (_, _, by_queue) = run_by_queue(&lab, request(&lab, &one, 500, Some(engine)), 500);
        assert_eq!(by_queue, [0, 0, 500, 0], "{engine}");
    }
    // The thread is on CPU 0, and all engines can say that; a packet socket only past the qdisc.
    let mut config = Config { queue_map_max: 3, ..Config::default() };
    config.flags.set(Flags::QUEUE_MAP_CPU, true);
    for engine in ENGINES {
        let (report, _, by_queue) = run_by_queue(&lab, request(&lab, &config, 500, Some(engine)), 500);
        all_sent(&report, 500);
        assert_eq!(by_queue, [500, 0, 0, 0], "{engine}");
    }
    let through = Config { xmit_mode: XmitMode::QueueXmit, queue_map_max: 3, ..config };
    let error = failure(&lab, request(&lab, &through, 9, Some(EngineKind::AfPacket))).to_string();
    assert!(error.contains("queue_map_min"), "{error}");
}

#[test]
fn frames_beyond_a_page_are_refused_by_the_engines_that_have_one_page() {
    let Some(lab) = lab(&LabOptions { mtu: 9000, rx_gro: true, ..LabOptions::default() }) else { return };
    for (engine, frame_len) in [(EngineKind::Xdp, 3521), (EngineKind::Skb, 3713)] {
        let config = Config { min_pkt_size: frame_len, ..Config::default() };
        let error = failure(&lab, request(&lab, &config, 9, Some(engine))).to_string();
        let wanted = format!(
            "the {engine} engine does not support frames of {frame_len} bytes: they must fit into one page"
        );
        assert_eq!(error, wanted);
    }
    assert_eq!(received(&lab, 0), 0);
}

#[test]
fn cloned_frames_are_the_same_and_a_number_apart() {
    let Some(lab) = polling_lab() else { return };
    let mut config = Config { clone_skb: 7, udp_src_max: 500, ..Config::default() };
    config.flags.set(Flags::NO_TIMESTAMP, true);
    for engine in ENGINES {
        let tap = Tap::new(lab.rx.netns());
        all_sent(&run(&lab, request(&lab, &config, 30, Some(engine))), 30);
        let seen = tap.frames(30);
        assert!(seen.chunks(7).all(|clones| clones.iter().all(|frame| *frame == clones[0])), "{engine}");
        let firsts: Vec<_> = seen.chunks(7).map(|clones| clones[0][49]).collect();
        assert_eq!(firsts, [1, 8, 15, 22, 29], "{engine}");
    }
}

/// Memory on a node that no machine has.
fn far_node() -> Config {
    let mut config = Config { node: 77, ..Config::default() };
    config.flags.set(Flags::NODE, true);
    config
}

#[test]
fn each_engine_refuses_what_it_cannot_do_and_says_what() {
    use EngineKind::{AfPacket, AfXdp, Skb, Xdp};
    let Some(lab) = polling_lab() else { return };
    let node = far_node();
    let queues = || Config { queue_map_max: 3, ..Config::default() };
    let priority = || Config { skb_priority: 5, ..Config::default() };
    let frags = || Config { frags: 2, ..Config::default() };
    let rows = [
        (Xdp, mode(XmitMode::QueueXmit), "xmit_mode queue_xmit"),
        (Xdp, priority(), "skb_priority 5"),
        (Xdp, frags(), "frags 2"),
        (Xdp, queues(), "queue_map_min"),
        (Xdp, node.clone(), "node 77"),
        (Skb, frags(), "frags 2"),
        (Skb, node.clone(), "node 77"),
        (AfPacket, mode(XmitMode::NetifReceive), "xmit_mode netif_receive"),
        (AfPacket, queues(), "queue_map_min"),
        (AfPacket, node.clone(), "node 77"),
        (AfXdp, mode(XmitMode::QueueXmit), "xmit_mode queue_xmit"),
        (AfXdp, mode(XmitMode::NetifReceive), "xmit_mode netif_receive"),
        (AfXdp, priority(), "skb_priority"),
        (AfXdp, node, "node 77"),
    ];
    for (engine, config, what) in rows {
        let error = failure(&lab, request(&lab, &config, 9, Some(engine))).to_string();
        assert!(error.starts_with(&format!("the {engine} engine does not support ")), "{error}");
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(received(&lab, 0), 0);
}

#[test]
fn a_plan_that_no_engine_carries_names_them_all() {
    let Some(lab) = polling_lab() else { return };
    let error = failure(&lab, request(&lab, &far_node(), 9, None)).to_string();
    assert!(error.starts_with("no engine can send this to tx0: "), "{error}");
    assert!(ENGINES.iter().all(|engine| error.contains(&format!("not {engine}: "))), "{error}");
}

/// A far end that goes deaf between the choice and the first frame is like a kernel that could not
/// tell: the driver refuses the first batch. Both ways the next engine begins anew, and every frame
/// arrives.
#[test]
fn an_engine_whose_first_frames_are_refused_makes_way_for_the_next() {
    let Some(lab) = polling_lab() else { return };
    let gro = |on| lab.rx.stack.set_feature(lab.rx.ifname, host::FEATURE_GRO, on).expect("veth has GRO");
    for insists in [None, Some(EngineKind::Xdp)] {
        gro(true);
        let before = received(&lab, 0);
        let mut request = request(&lab, &Config::default(), 500, insists);
        let limits =
            std::mem::replace(&mut request.limits, Limits { pace: Pace::Never, ..Limits::default() });
        let worker = engine::Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
        let handle = worker.start(request);
        let deadline = Instant::now() + TIMEOUT;
        while handle.snapshot().engine.is_none() {
            assert!(Instant::now() < deadline, "no engine was chosen");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(handle.snapshot().engine, Some(EngineKind::Xdp));
        gro(false);
        handle.set_limits(limits);
        let report = handle.wait(TIMEOUT).expect("the run ends");
        match insists {
            Some(_) => assert!(matches!(report.end, End::Failed(engine::EngineError::PeerTakesNoXdp { .. }))),
            None => {
                let reason = handle.snapshot().reason;
                all_sent(&report, 500);
                assert_eq!(report.engine, Some(EngineKind::Skb), "{reason}");
                assert!(reason.contains("not xdp: rx0, the peer of tx0, does not accept frames"), "{reason}");
                assert_eq!(report.cursor.seq_num, 501);
                assert_eq!(received(&lab, before + 500), before + 500);
            }
        }
    }
}

#[test]
fn frames_beyond_the_mtu_are_refused() {
    let Some(lab) = polling_lab() else { return };
    let config = Config { min_pkt_size: 1600, ..Config::default() };
    for engine in [Some(EngineKind::Skb), Some(EngineKind::AfPacket), None] {
        let error = failure(&lab, request(&lab, &config, 9, engine));
        assert!(error.to_string().contains("its MTU is 1500"), "{error}");
        assert!(matches!(error, EngineError::LongerThanMtu { frame_len: 1600, .. }), "{error}");
    }
}

#[test]
fn a_far_end_with_a_smaller_mtu_is_named_before_and_during_a_run() {
    let config = Config { min_pkt_size: 1400, ..Config::default() };
    for engine in [EngineKind::Skb, EngineKind::AfPacket] {
        let Some(lab) = polling_lab() else { return };
        let worker = engine::Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
        let handle = worker.start(request(&lab, &config, 0, Some(engine)));
        until_sent(&handle, 1000);
        lab.rx.stack.set_mtu(lab.rx.ifname, 1000).expect("the MTU can be set");
        let report = handle.wait(TIMEOUT).expect("the run ends");
        let End::Failed(error) = report.end else { panic!("{engine}: {:?}", report.end) };
        assert!(error.to_string().contains("too long for rx0: its MTU is 1000"), "{engine}: {error}");
        let error = failure(&lab, request(&lab, &config, 9, None)).to_string();
        assert!(error.contains("too long for rx0"), "{error}");
    }
}

#[test]
fn priority_is_taken_by_the_engines_that_make_skbs() {
    let Some(lab) = polling_lab() else { return };
    let config = Config { skb_priority: 6, ..Config::default() };
    let (report, reason) = run_with_reason(&lab, request(&lab, &config, 100, None));
    all_sent(&report, 100);
    assert_eq!(report.engine, Some(EngineKind::Skb), "{reason}");
    // HTB takes a priority that is the number of one of its classes for just that.
    tc(&lab, "qdisc replace dev tx0 root handle 1: htb default 2");
    for class in ["1:2", "1:5"] {
        tc(&lab, &format!("class add dev tx0 parent 1: classid {class} htb rate 10gbit quantum 60000"));
    }
    for engine in [EngineKind::Skb, EngineKind::AfPacket] {
        for (skb_priority, class) in [(0x1_0005, "1:5"), (0, "1:2")] {
            let before = through(&lab, class);
            let config = Config { skb_priority, ..mode(XmitMode::QueueXmit) };
            all_sent(&run(&lab, request(&lab, &config, 100, Some(engine))), 100);
            let grown = through(&lab, class) - before;
            // The host may have a word of its own to say on this device.
            assert!((100..110).contains(&grown), "{engine}, priority {skb_priority}: {grown} in {class}");
        }
    }
}

/// Frames that went through one class of HTB.
fn through(lab: &Lab, class: &str) -> u64 {
    let words = ["netns", "exec", &lab.tx.netns_name, "tc", "-s", "class", "show", "dev", "tx0"];
    let output = std::process::Command::new("ip").args(words).output().expect("ip can be run");
    let text = String::from_utf8(output.stdout).expect("tc speaks ASCII");
    let counters = text.split_once(&format!("class htb {class} ")).unwrap_or_else(|| panic!("{text}")).1;
    let count = counters.split_once(" bytes ").and_then(|(_, rest)| rest.split(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// Frames that one queue of a veth holds for its NAPI (`VETH_RING_SIZE`).
const VETH_RING_FRAMES: u64 = 256;

/// Waits for frames, spoils the device, and checks the end: explained, and all that was sent
/// arrived, save the `discarded_max` frames that the far end may throw away without counting them.
fn spoiled(
    engine: EngineKind,
    spoil: fn(&Lab),
    is_explained: fn(&engine::EngineError) -> bool,
    discarded_max: u64,
) {
    let Some(lab) = polling_lab() else { return };
    let worker = engine::Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
    let handle = worker.start(request(&lab, &Config::default(), 0, Some(engine)));
    until_sent(&handle, 1000);
    spoil(&lab);
    let report = handle.wait(TIMEOUT).expect("the run ends with its device");
    match report.end {
        End::Failed(error) => assert!(is_explained(&error), "{engine}: {error}"),
        other => panic!("{engine}: {other:?}"),
    }
    let total = report.total;
    assert_eq!(total.offered(), total.sent + total.errors.total());
    assert_eq!(u64::from(report.cursor.seq_num), total.offered() + 1, "{engine}");
    // Frames that a far end refuses, and which are kept here, count as dropped there.
    let refused = total.retries + 64;
    let arrived_min = total.sent.saturating_sub(discarded_max);
    let arrived = received(&lab, arrived_min);
    assert!((arrived_min..=total.sent + refused).contains(&arrived), "{engine}: {arrived} of {total:?}");
}

#[test]
fn a_device_set_down_under_the_run_ends_it_with_that_word() {
    for engine in [EngineKind::Skb, EngineKind::AfPacket, EngineKind::AfXdp] {
        let down = |lab: &Lab| lab.tx.stack.set_down(lab.tx.ifname).expect("it goes down");
        spoiled(engine, down, |error| matches!(error, engine::EngineError::Down { .. }), 0);
    }
}

#[test]
fn a_far_end_set_down_under_the_run_ends_it_with_that_word() {
    for engine in [EngineKind::Skb, EngineKind::AfPacket, EngineKind::AfXdp] {
        let down = |lab: &Lab| lab.rx.stack.set_down(lab.rx.ifname).expect("it goes down");
        // On a loaded machine frames wait in its ring for the softirq; the kernel empties the ring
        // when it goes down.
        let is_explained = |error: &_| matches!(error, engine::EngineError::NoCarrier { .. });
        spoiled(engine, down, is_explained, VETH_RING_FRAMES);
    }
}
