//! Cost of an ESP or AH frame: CPU time of building it, for each transform and two sizes, no device
//! involved; then, as root, what it costs one thread to put AES-GCM frames on a veth wire by each
//! engine.
//!
//!     cargo bench -p engine --bench ipsec
//!
//! CPU time where it can be, since the machine may be shared. `cargo test` runs it tiny, so that it
//! does not rot.

use engine::{EngineKind, Limits, Pace, Request, TxOptions, Worker};
use host::{Lab, LabOptions};
use packet::ipsec::{Association, Associations, Hash, Integrity, Secret, SecurityAssociation, Transform};
use packet::{Config, Cursor, DeviceFacts, Flags, Plan};
use std::sync::Arc;
use std::time::Duration;

/// What issue 4 asks of AES-GCM on one core.
const GCM_GOAL_PPS: f64 = 200_000.0;
const ROUNDS: u32 = 5;

fn main() {
    let is_real = std::env::args().any(|argument| argument == "--bench");
    let frames = if is_real { 400_000 } else { 200 };
    println!("{:24} {:>5} {:>10} {:>12}", "transform", "bytes", "ns/frame", "frames/s");
    for (name, transform) in transforms() {
        for frame_len in [60, 1400] {
            let cost_ns = cost_ns(transform.clone(), frame_len, frames);
            println!("{name:24} {frame_len:5} {cost_ns:10.0} {:12.0}", 1e9 / cost_ns);
            let is_goal = is_real && name.starts_with("AES-GCM");
            assert!(!is_goal || 1e9 / cost_ns >= GCM_GOAL_PPS, "below {GCM_GOAL_PPS} frames/s");
        }
    }
    if is_real && nix::unistd::geteuid().is_root() {
        for engine in [EngineKind::Skb, EngineKind::AfPacket, EngineKind::AfXdp] {
            [60, 1400].into_iter().for_each(|frame_len| on_a_wire(engine, frame_len));
        }
    }
}

/// One thread, two seconds, CPU time of sender and receive path together.
fn on_a_wire(engine: EngineKind, frame_len: u32) {
    let lab = Lab::new(&LabOptions::default()).expect("a lab can be made");
    let (_, transform) =
        transforms().into_iter().find(|(name, _)| *name == "AES-GCM 128").expect("it is there");
    let (mut config, associations) = setting(transform, frame_len);
    config.dst_mac = lab.rx.mac;
    let facts = lab.tx.stack.facts(lab.tx.ifname).expect("the lab is there");
    let (plan, cursor) = start(&config, &facts, associations);
    let worker = Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
    let request = Request {
        ifname: lab.tx.ifname.to_owned(),
        plan,
        cursor,
        mode: config.xmit_mode,
        limits: Limits { count: 0, duration_ns: 2_000_000_000, pace: Pace::Unpaced, ..Limits::default() },
        engine: Some(engine),
        options: TxOptions::of(&config),
        batch: None,
        next_ns: None,
    };
    let (before, cpu_time) = (lab.rx.link().expect("the lab is there").counters, host::process_cpu_time());
    let report = worker.start(request).wait(Duration::from_secs(20)).expect("the run ends");
    let cost_ns = (host::process_cpu_time() - cpu_time).as_secs_f64() * 1e9 / report.total.sent as f64;
    let arrived = lab.rx.link().expect("the lab is there").counters.since(&before).rx_packets;
    println!(
        "AES-GCM 128 on a wire by {engine}, {frame_len} bytes: {cost_ns:.0} ns/frame, {:.0} frames/s, {} sent, \
         {arrived} arrived",
        1e9 / cost_ns,
        report.total.sent
    );
    assert!(1e9 / cost_ns >= GCM_GOAL_PPS, "below {GCM_GOAL_PPS} frames/s");
}

fn transforms() -> Vec<(&'static str, Option<Transform>)> {
    let key = |len: u8| Secret((0..len).collect());
    let sha1 = || Integrity { hash: Hash::Sha1, key: key(20), icv_len: 12 };
    let sha256 = || Integrity { hash: Hash::Sha256, key: key(32), icv_len: 16 };
    vec![
        ("none", None),
        ("null", Some(Transform::EspNull { integrity: None })),
        ("AES-GCM 128", Some(Transform::EspGcm { key: key(16), salt: [1; 4], icv_len: 16 })),
        ("AES-GCM 256", Some(Transform::EspGcm { key: key(32), salt: [1; 4], icv_len: 16 })),
        ("AES-CBC 128 HMAC-SHA1", Some(Transform::EspCbc { key: key(16), integrity: Some(sha1()) })),
        ("AES-CBC 256 HMAC-SHA256", Some(Transform::EspCbc { key: key(32), integrity: Some(sha256()) })),
        ("AH HMAC-SHA256", Some(Transform::Ah { integrity: sha256(), align4: false })),
    ]
}

/// The least of several rounds, in nanoseconds of CPU time for each frame.
fn cost_ns(transform: Option<Transform>, frame_len: u32, frames: u32) -> f64 {
    let (plan, mut cursor) = plan(transform, frame_len);
    let mut bytes = vec![0; plan.frame_len_max() as usize];
    let mut round = || {
        let before = host::thread_cpu_time();
        for _ in 0..frames {
            std::hint::black_box(plan.emit(&mut cursor, 0, &mut bytes));
        }
        host::thread_cpu_time() - before
    };
    let best = (0..ROUNDS).map(|_| round()).min().unwrap_or(Duration::ZERO);
    best.as_secs_f64() * 1e9 / f64::from(frames)
}

fn plan(transform: Option<Transform>, frame_len: u32) -> (Plan, Cursor) {
    let facts = DeviceFacts { v4: Some([198, 18, 0, 1].into()), tx_queues: 1, ..DeviceFacts::default() };
    let (config, associations) = setting(transform, frame_len);
    start(&config, &facts, associations)
}

fn setting(transform: Option<Transform>, frame_len: u32) -> (Config, Arc<Associations>) {
    let mut config = Config {
        min_pkt_size: frame_len,
        max_pkt_size: frame_len,
        dst_min: Some([198, 18, 0, 2].into()),
        flows: 1,
        flow_len: 1000,
        spi: 7,
        ..Config::default()
    };
    config.flags.set(Flags::IPSEC, transform.is_some());
    let association =
        |transform| Association::transport(7, [198, 18, 0, 1].into(), [198, 18, 0, 2].into(), transform);
    let ready = |transform| SecurityAssociation::new(association(transform)).expect("good keys");
    let usable = transform.into_iter().map(ready).collect();
    (config, Arc::new(Associations::new(usable, Vec::new())))
}

fn start(config: &Config, facts: &DeviceFacts, associations: Arc<Associations>) -> (Plan, Cursor) {
    let mut cursor = Cursor { associations, ..Cursor::default() };
    cursor.start(config, facts, 1);
    let plan = Plan::new(config, facts, &cursor).expect("a good configuration");
    (plan, cursor)
}
