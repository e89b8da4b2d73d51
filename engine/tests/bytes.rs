//! The bytes that arrive are those of the plan, on every engine, whatever the plan.

mod lab;

use engine::{Engine, EngineKind, MemEngine};
use host::LabOptions;
use lab::tap::Tap;
use lab::{ENGINES, lab, polling_lab, request, run, run_with_reason};
use packet::{Config, Flags, PktgenHeader, Rng, XmitMode, sample};
use std::num::NonZeroU32;

const PLANS: u64 = 12;
const FRAMES: u64 = 150;

/// A random configuration whose frames carry no time.
fn config(seed: u64, frame_len_max: u32) -> Config {
    let mut config = sample::config(&mut Rng(seed), frame_len_max);
    config.flags.set(Flags::NO_TIMESTAMP, true);
    config.xmit_mode = XmitMode::StartXmit;
    config
}

/// The frames as the mem engine makes them.
fn expected(request: &engine::Request, count: u64) -> Vec<Vec<u8>> {
    let mut engine = MemEngine::new(request.plan.clone(), request.cursor.clone(), Vec::new());
    engine.send_burst(NonZeroU32::new(count as u32).expect("some")).expect("memory takes all");
    engine.into_sink()
}

#[test]
fn random_plans_arrive_as_they_were_planned() {
    let Some(lab) = polling_lab() else { return };
    for seed in 0..PLANS {
        for engine in ENGINES {
            let request = request(&lab, &config(seed, 1400), FRAMES, Some(engine));
            let tap = Tap::new(lab.rx.netns());
            let wanted = expected(&request, FRAMES);
            let report = run(&lab, request);
            assert_eq!(report.total.sent, FRAMES, "{engine}, plan {seed}: {:?}", report.end);
            let lengths: usize = wanted.iter().map(Vec::len).sum();
            assert_eq!(report.total.frame_bytes, lengths as u64, "{engine}, plan {seed}");
            assert!(tap.frames(wanted.len()) == wanted, "{engine}, plan {seed}");
        }
    }
}

#[test]
fn frames_carry_the_time_at_which_they_were_sent() {
    let Some(lab) = polling_lab() else { return };
    for engine in ENGINES {
        let tap = Tap::new(lab.rx.netns());
        let before_us = host::realtime_ns() / 1000;
        run(&lab, request(&lab, &Config::default(), 20, Some(engine)));
        let after_us = host::realtime_ns() / 1000;
        let mut last_us = before_us;
        for frame in tap.frames(20) {
            let time = PktgenHeader::parse(&frame[42..]).expect("a pktgen header").time;
            let time_us = u64::from(time.sec) * 1_000_000 + u64::from(time.usec);
            assert!((last_us..=after_us).contains(&time_us), "{engine}: {time:?} after {last_us} µs");
            last_us = time_us;
        }
    }
}

#[test]
fn frames_into_the_receive_path_are_those_of_the_plan() {
    let Some(lab) = polling_lab() else { return };
    for seed in 0..PLANS {
        for engine in [EngineKind::Xdp, EngineKind::Skb] {
            let config = Config { xmit_mode: XmitMode::NetifReceive, ..config(seed, 1400) };
            let request = request(&lab, &config, FRAMES, Some(engine));
            let tap = Tap::new(lab.tx.netns());
            let wanted = expected(&request, FRAMES);
            let report = run(&lab, request);
            assert_eq!(report.total.sent, FRAMES, "{engine}, plan {seed}: {:?}", report.end);
            assert!(tap.frames(wanted.len()) == wanted, "{engine}, plan {seed}");
        }
    }
}

/// Repeats lie in one chunk of its memory: fewer than it puts at a time, and more than its ring has
/// places.
#[test]
fn af_xdp_sends_repeats_from_where_they_lie() {
    const MANY: u64 = 6_000;
    let Some(lab) = polling_lab() else { return };
    let mut config = Config { udp_src_max: 500, seed: Some(7), ..Config::default() };
    config.flags.set(Flags::NO_TIMESTAMP, true);
    let mut moving = Config { max_pkt_size: 300, ..config.clone() };
    moving.flags.set(Flags::TXSIZE_RND, true);
    let queues = Config { queue_map_max: 1, ..moving.clone() };
    for (config, clone_skb) in
        [(&config, 7), (&config, 5_000), (&moving, 5), (&moving, 2_500), (&queues, 300)]
    {
        let config = Config { clone_skb, ..config.clone() };
        let request = request(&lab, &config, MANY, Some(EngineKind::AfXdp));
        let tap = Tap::new(lab.rx.netns());
        let mut wanted = expected(&request, MANY);
        let lengths: usize = wanted.iter().map(Vec::len).sum();
        let report = run(&lab, request);
        assert_eq!((report.total.sent, report.total.frame_bytes), (MANY, lengths as u64), "{clone_skb}");
        let mut seen = tap.frames(wanted.len());
        if config.queue_map_max > 0 {
            // Each of two queues is in order.
            seen.sort();
            wanted.sort();
        }
        assert!(seen == wanted, "clone_skb {clone_skb}");
    }
}

#[test]
fn jumbo_frames_and_fragments_go_by_the_engine_that_can() {
    let Some(lab) = lab(&LabOptions { mtu: 9000, ..LabOptions::default() }) else { return };
    let sizes = Config { min_pkt_size: 60, max_pkt_size: 9014, ..config(5, 100) };
    let sizes = Config { imix: Vec::new(), mpls: Vec::new(), vlan_id: None, svlan_id: None, ..sizes };
    for config in [sizes, Config { frags: 5, min_pkt_size: 600, ..Config::default() }] {
        let request = request(&lab, &config, 100, None);
        let tap = Tap::new(lab.rx.netns());
        let wanted = expected(&request, 100);
        let (report, reason) = run_with_reason(&lab, request);
        assert_eq!(report.engine, Some(EngineKind::AfPacket), "{reason}");
        assert!(reason.contains("not xdp: ") && reason.contains("not skb: "), "{reason}");
        assert_eq!(report.total.sent, 100, "{:?}", report.end);
        let without_time = |frames: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
            let cut = |mut frame: Vec<u8>| {
                if config.frags > 0 {
                    frame.drain(50..58);
                }
                frame
            };
            frames.into_iter().map(cut).collect()
        };
        assert!(without_time(tap.frames(100)) == without_time(wanted), "{reason}");
    }
}

#[test]
fn af_xdp_cuts_long_frames_into_pieces_of_whatever_number() {
    let Some(lab) = lab(&LabOptions { mtu: 16_000, ..LabOptions::default() }) else { return };
    let mut config = Config {
        min_pkt_size: 60,
        max_pkt_size: 15_900,
        queue_map_max: 1,
        seed: Some(3),
        ..Config::default()
    };
    config.flags.set(Flags::TXSIZE_RND, true);
    config.flags.set(Flags::NO_TIMESTAMP, true);
    for (config, most) in
        [(config.clone(), 3000), (Config { max_pkt_size: 15_900, min_pkt_size: 15_900, ..config }, 900)]
    {
        let request = request(&lab, &config, most, Some(EngineKind::AfXdp));
        let tap = Tap::new(lab.rx.netns());
        let mut wanted = expected(&request, most);
        let lengths: usize = wanted.iter().map(Vec::len).sum();
        let report = run(&lab, request);
        assert!(matches!(report.end, engine::End::Count), "{:?}", report.end);
        assert_eq!((report.total.sent, report.total.frame_bytes), (most, lengths as u64));
        // Two queues: each in order, and a number in every frame tells which is which.
        let mut seen = tap.frames(wanted.len());
        seen.sort();
        wanted.sort();
        assert!(seen == wanted);
    }
}
