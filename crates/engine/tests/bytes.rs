//! The bytes that arrive are those of the plan, on every engine, whatever the plan.

mod lab;

use engine::{Engine, EngineKind, MemEngine};
use host::LabOptions;
use lab::tap::Tap;
use lab::{ENGINES, lab, polling_lab, request, run, run_with_reason};
use packet::plan::{ChecksumField, Field, FieldMode, FrameSpec, PacketOrder, PseudoHeader, SumKind};
use packet::{
    Config, Cursor, DeviceFacts, Flags, PKTGEN_MAGIC, PktgenHeader, Plan, Rng, XmitMode, checksum, sample,
};
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

/// Two packets with a number of 4 bytes and a time of 6 bytes, at even and odd
/// offsets, under a checksum over the whole payload.
fn timed_plan(has_many_fields: bool) -> (Plan, Cursor) {
    let field = Field::whole;
    let spec = |len: usize| {
        let mut template = vec![0; len];
        template[..6].copy_from_slice(&[0xff; 6]);
        template[12..14].copy_from_slice(&[0x88, 0xb5]);
        template[16..20].copy_from_slice(&PKTGEN_MAGIC.to_be_bytes());
        let mut fields = vec![field(len - 10, 4, FieldMode::Number), field(len - 6, 6, FieldMode::Time)];
        if has_many_fields {
            fields.extend((0..30).map(|at| field(20 + at, 1, FieldMode::Random { min: 0, max: 255 })));
        }
        let (offset, start, end) = (14, 14, len);
        let (pseudo_header, kind) = (PseudoHeader::None, SumKind::Internet);
        let sum = ChecksumField { offset, start, end, pseudo_header, kind, is_wrong: false };
        FrameSpec { template, fields, checksums: vec![sum], ..FrameSpec::default() }
    };
    Plan::of_specs(&[spec(90), spec(91)], PacketOrder::RoundRobin).on(&DeviceFacts::default())
}

/// Number and time at the end of the frame, by a checksum that covers them.
fn number_and_time(frame: &[u8]) -> (u32, u64) {
    assert_eq!(checksum::finish(checksum::add(0, &frame[14..])), 0, "{frame:02x?}");
    let (_, number) = frame.split_at(frame.len() - 10);
    let time_ns = number[4..].iter().fold(0, |time_ns, byte| time_ns << 8 | u64::from(*byte));
    (u32::from_be_bytes([number[0], number[1], number[2], number[3]]), time_ns)
}

#[test]
fn frames_of_packets_carry_number_and_time_under_their_checksum() {
    let Some(lab) = polling_lab() else { return };
    for has_many_fields in [false, true] {
        let (plan, cursor) = timed_plan(has_many_fields);
        let check = |engine: EngineKind, before_ns: u64, frames: Vec<Vec<u8>>| {
            let after_ns = host::monotonic_ns();
            assert_eq!(frames.len(), 20, "{engine}");
            let mut last_ns = before_ns;
            for (expected, frame) in (0..).zip(frames) {
                let (number, time_ns) = number_and_time(&frame);
                assert_eq!(number, expected, "{engine}");
                assert!((last_ns..=after_ns).contains(&time_ns), "{engine}: {time_ns} after {last_ns}");
                last_ns = time_ns;
            }
        };
        for engine in ENGINES {
            let tap = Tap::new(lab.rx.netns());
            let before_ns = host::monotonic_ns();
            let request = request(&lab, &Config::default(), 20, Some(engine));
            run(&lab, engine::Request { plan: plan.clone(), cursor: cursor.clone(), ..request });
            check(engine, before_ns, tap.frames(20));
        }
        let before_ns = host::monotonic_ns();
        let mut engine = MemEngine::new(plan, cursor, Vec::new());
        engine.send_burst(NonZeroU32::new(20).expect("some")).expect("memory takes all");
        check(EngineKind::Mem, before_ns, engine.into_sink());
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
