//! Frames with flag IPSEC on every engine that carries them. Whether a receiver can open them is
//! the question of `tests/ipsec`; here they are those of the plan, all of them, and none in clear.

mod lab;

use engine::{End, Engine, EngineError, EngineKind, MemEngine, Request, RunReport};
use host::{Lab, LabOptions};
use lab::tap::Tap;
use lab::{ipsec_request, lab, polling_lab, received, run, run_by_queue, run_with_reason, tc};
use packet::ipsec::{
    Association, Associations, Hash, Integrity, IpsecMode, Secret, SecurityAssociation, Transform,
};
use packet::{Config, Flags, Flow, XmitMode};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;

const SPI: u32 = 0x100;
/// Protocol of an ESP packet.
const ESP: u8 = 50;
/// Engines that seal.
const SEALING: [EngineKind; 3] = [EngineKind::Skb, EngineKind::AfPacket, EngineKind::AfXdp];

/// One association whose bytes can still be read, with a check over them; by SPI or by address.
fn associations(lab: &Lab, mode: IpsecMode, dst: Ipv4Addr) -> Associations {
    let integrity = Integrity { hash: Hash::Sha1, key: Secret(vec![7; 20]), icv_len: 12 };
    let transform = Transform::EspNull { integrity: Some(integrity) };
    let what = Association { mode, ..Association::transport(SPI, lab.tx.v4, dst, transform) };
    Associations::new(vec![SecurityAssociation::new(what).expect("a good key")], Vec::new())
}

fn config(xmit_mode: XmitMode) -> Config {
    let mut config = Config {
        xmit_mode,
        flows: 3,
        flow_len: 5,
        spi: SPI,
        min_pkt_size: 80,
        max_pkt_size: 1300,
        udp_src_max: 500,
        ..Config::default()
    };
    for flag in [Flags::IPSEC, Flags::TXSIZE_RND, Flags::NO_TIMESTAMP, Flags::UDPCSUM] {
        config.flags.set(flag, true);
    }
    config
}

fn request_with_ipsec(
    lab: &Lab,
    config: &Config,
    mode: IpsecMode,
    count: u64,
    engine: Option<EngineKind>,
) -> Request {
    ipsec_request(lab, config, associations(lab, mode, lab.rx.v4), count, engine)
}

/// The frames as memory gets them, by an association of their own.
fn expected(lab: &Lab, config: &Config, mode: IpsecMode, count: u64) -> Vec<Vec<u8>> {
    let request = request_with_ipsec(lab, config, mode, count, None);
    let mut engine = MemEngine::new(request.plan, request.cursor, Vec::new());
    engine.send_burst(NonZeroU32::new(count as u32).expect("some")).expect("memory takes all");
    engine.into_sink()
}

#[track_caller]
fn all_sent(report: &RunReport, count: u64) {
    assert!(matches!(report.end, End::Count), "{:?}", report.end);
    assert_eq!((report.total.sent, report.total.errors.total()), (count, 0));
}

#[test]
fn ipsec_frames_arrive_as_they_were_planned_by_every_way() {
    let Some(lab) = polling_lab() else { return };
    for (engine, xmit_mode) in [
        (EngineKind::Skb, XmitMode::StartXmit),
        (EngineKind::Skb, XmitMode::QueueXmit),
        (EngineKind::Skb, XmitMode::NetifReceive),
        (EngineKind::AfPacket, XmitMode::StartXmit),
        (EngineKind::AfPacket, XmitMode::QueueXmit),
        (EngineKind::AfXdp, XmitMode::StartXmit),
    ] {
        for mode in [IpsecMode::Transport, IpsecMode::Tunnel] {
            let config = config(xmit_mode);
            let end = if xmit_mode == XmitMode::NetifReceive { &lab.tx } else { &lab.rx };
            let tap = Tap::new(end.netns());
            all_sent(&run(&lab, request_with_ipsec(&lab, &config, mode, 700, Some(engine))), 700);
            let seen = tap.frames(700);
            assert!(seen == expected(&lab, &config, mode, 700), "{engine} {xmit_mode:?} {mode:?}");
        }
    }
}

#[test]
fn a_slow_qdisc_is_waited_for_and_every_ipsec_frame_arrives_once() {
    let Some(lab) = lab(&LabOptions::default()) else { return };
    tc(&lab, "qdisc replace dev tx0 root tbf rate 1600kbit burst 2000 limit 3000");
    let config = Config { min_pkt_size: 60, max_pkt_size: 90, ..config(XmitMode::QueueXmit) };
    let tap = Tap::new(lab.rx.netns());
    let (report, reason) =
        run_with_reason(&lab, request_with_ipsec(&lab, &config, IpsecMode::Transport, 500, None));
    all_sent(&report, 500);
    assert_eq!(report.engine, Some(EngineKind::Skb), "{reason}");
    assert!(reason.contains("not xdp: the xdp engine does not support flag IPSEC"), "{reason}");
    assert!(report.total.retries > 0, "it never met a full queue");
    assert!(tap.frames(500) == expected(&lab, &config, IpsecMode::Transport, 500));
}

#[test]
fn ipsec_frames_take_the_queues_that_the_plan_names() {
    let Some(lab) = polling_lab() else { return };
    let config = Config { queue_map_min: 1, queue_map_max: 3, ..config(XmitMode::StartXmit) };
    for engine in [EngineKind::Skb, EngineKind::AfXdp] {
        let request = request_with_ipsec(&lab, &config, IpsecMode::Transport, 3000, Some(engine));
        let (report, _, by_queue) = run_by_queue(&lab, request, 3000);
        all_sent(&report, 3000);
        assert_eq!(by_queue, [0, 1000, 1000, 1000], "{engine}");
    }
}

/// A flow that a run before left open, to a destination that has no association.
#[test]
fn a_frame_without_an_association_ends_the_run_and_is_named_by_every_engine() {
    let Some(lab) = polling_lab() else { return };
    let mut config = Config { spi: 0, ..config(XmitMode::StartXmit) };
    config.flags.set(Flags::FLOW_SEQ, true);
    for engine in SEALING {
        let mut request = request_with_ipsec(&lab, &config, IpsecMode::Transport, 100, Some(engine));
        let elsewhere = Ipv4Addr::new(198, 18, 7, 7).to_bits();
        request.cursor.flows[1] = Flow { value: elsewhere.into(), is_open: true, ..Flow::default() };
        let tap = Tap::new(lab.rx.netns());
        let report = run(&lab, request);
        let End::Failed(error) = &report.end else { panic!("{engine}: {:?}", report.end) };
        assert_eq!(
            error.to_string(),
            format!("the {engine} engine cannot encrypt a frame: its flow has no security association")
        );
        assert!(matches!(error, EngineError::NoAssociation { .. }), "{engine}");
        assert_eq!((report.total.sent, report.total.errors.causes.refused), (5, 1), "{engine}");
        let seen = tap.frames(5);
        assert!(seen.len() == 5 && seen.iter().all(|frame| frame[23] == ESP), "{engine}: not all are ESP");
    }
    assert_eq!(received(&lab, 15), 15, "nothing else came");
}
