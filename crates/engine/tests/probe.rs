//! Probing the engines: their answers, and no side effects.

mod lab;

use engine::{EngineError, EngineKind, Limits, Probed, Request, TxOptions, probe};
use host::{CommandPlace, LabOptions, Netns, Stack};
use lab::{ENGINES, lab, polling_lab, request};
use packet::{Config, Cursor, Plan};

fn ask(lab: &host::Lab) -> Vec<Probed> {
    let request = request(lab, &Config::default(), 0, None);
    probe(lab.tx.netns(), 0, &request).expect("the namespace can be entered")
}

#[test]
fn every_engine_says_yes_to_a_plain_plan_and_no_frame_is_sent() {
    let Some(lab) = polling_lab() else { return };
    let before = lab.tx.link().expect("the device can be asked");
    let answers = ask(&lab);
    assert_eq!(answers.iter().map(|probed| probed.kind).collect::<Vec<_>>(), ENGINES);
    assert!(answers.iter().all(|probed| probed.answer.is_ok()), "{answers:?}");
    let after = lab.tx.link().expect("the device can be asked");
    assert_eq!(after, before, "counters, programs, flags: all as it was");
    assert_eq!(lab.rx.link().expect("the device can be asked").counters.rx_packets, 0);
}

#[test]
fn an_engine_that_cannot_does_not_keep_the_others_from_answering() {
    let Some(lab) = lab(&LabOptions::default()) else { return };
    let answers = ask(&lab);
    assert!(matches!(answers[0].answer, Err(EngineError::PeerTakesNoXdp { .. })), "{answers:?}");
    assert!(answers[1..].iter().all(|probed| probed.answer.is_ok()), "{answers:?}");
    assert!(answers.iter().all(|probed| !matches!(&probed.answer, Err(error) if error.is_denied())));
}

/// The kernel marks a veth as a target of XDP redirects when GRO of its peer is switched while that
/// is up, not when a peer with GRO comes up.
#[test]
fn gro_that_was_on_before_the_device_was_up_is_cured_by_switching_it() {
    let Some(lab) = lab(&LabOptions::default()) else { return };
    let gro = |on| lab.rx.stack.set_feature(lab.rx.ifname, host::FEATURE_GRO, on).expect("veth has GRO");
    lab.rx.stack.set_down(lab.rx.ifname).expect("the far end can be set down");
    gro(true);
    lab.rx.stack.set_up(lab.rx.ifname).expect("the far end can be set up");
    lab.tx.stack.wait_running(lab.tx.ifname, lab::TIMEOUT).expect("the link comes up");
    let answers = ask(&lab);
    let Err(EngineError::PeerGroUnnoticed { peer, peer_place, .. }) = &answers[0].answer else {
        panic!("{answers:?}")
    };
    assert_eq!((peer.as_str(), peer_place), ("rx0", &CommandPlace::of(Some(&lab.rx.netns_name))));
    gro(false);
    gro(true);
    assert!(ask(&lab)[0].answer.is_ok());
}

/// The rule of the docs: whatever came first, GRO of the peer is switched off and on while both
/// ends are up.
#[test]
fn gro_that_is_switched_while_both_ends_are_up_is_enough() {
    let orders: [&[Step]; 4] = [
        &[Step::PeerGro, Step::Up, Step::PeerUp],
        &[Step::Gro, Step::Up, Step::PeerGro, Step::PeerUp],
        &[Step::Gro, Step::PeerGro, Step::Up, Step::PeerUp],
        &[Step::Up, Step::PeerUp, Step::PeerGro],
    ];
    for order in orders {
        let Some(lab) = lab(&LabOptions::default()) else { return };
        let gro =
            |end: &host::LabEnd, on| end.stack.set_feature(end.ifname, host::FEATURE_GRO, on).expect("GRO");
        for end in [&lab.tx, &lab.rx] {
            end.stack.set_down(end.ifname).expect("it can be set down");
            gro(end, false);
        }
        for step in order {
            match step {
                Step::Gro => gro(&lab.tx, true),
                Step::PeerGro => gro(&lab.rx, true),
                Step::Up => lab.tx.stack.set_up(lab.tx.ifname).expect("it can be set up"),
                Step::PeerUp => lab.rx.stack.set_up(lab.rx.ifname).expect("it can be set up"),
            }
        }
        lab.tx.stack.wait_running(lab.tx.ifname, lab::TIMEOUT).expect("the link comes up");
        gro(&lab.rx, false);
        assert!(ask(&lab)[0].answer.is_err(), "{order:?}: without GRO xdp cannot work");
        gro(&lab.rx, true);
        assert!(ask(&lab)[0].answer.is_ok(), "{order:?}: {:?}", ask(&lab));
    }
}

#[derive(Debug)]
enum Step {
    Gro,
    PeerGro,
    Up,
    PeerUp,
}

#[test]
fn a_device_that_is_gone_is_told_by_every_engine() {
    let stack = Stack::here().expect("netlink is there");
    let facts = stack.facts("lo").expect("every namespace has one");
    let mut config = Config { dst_min: Some([127, 0, 0, 1].into()), ..Config::default() };
    config.prepare(&facts);
    let mut cursor = Cursor::default();
    cursor.start(&config, &facts, 1);
    let request = Request {
        ifname: "wr-none".to_owned(),
        plan: Plan::new(&config, &facts, &cursor).expect("the configuration is good"),
        cursor,
        mode: config.xmit_mode,
        options: TxOptions::default(),
        limits: Limits::default(),
        engine: Some(EngineKind::Skb),
        batch: None,
        next_ns: None,
    };
    let cpu = host::CpuList::allowed().expect("this process may run").as_slice()[0];
    let netns = Netns::current().expect("this process is in one");
    let answers = probe(&netns, cpu, &request).expect("its own namespace can be entered");
    assert_eq!(answers.len(), 4);
    let is_gone =
        |probed: &Probed| matches!(&probed.answer, Err(EngineError::Host(host::HostError::NoLink { .. })));
    assert!(answers.iter().all(is_gone), "{answers:?}");
}
