//! Kernels before 6.3 do not tell which drivers take frames from XDP: a veth whose far end does
//! not, and a loopback device, which never does, must be found out by the first frames, and sent to
//! all the same.

use engine::{End, EngineKind, Limits, Request, TxOptions, Worker};
use host::{Lab, LabOptions};
use libtest_mimic::Failed;
use packet::{Config, Cursor, Plan, XmitMode};
use std::time::Duration;

/// What the case is called.
pub(crate) const NAME: &str = "drivers_that_take_nothing_from_xdp_are_sent_to_by_the_next_engine";

const FRAMES: u64 = 500;

/// Sends to both.
pub(crate) fn run() -> Result<(), Failed> {
    let lab = Lab::new(&LabOptions::default())?;
    lab.tx.stack.set_up("lo")?;
    let worker = Worker::spawn(0, lab.tx.netns())?;
    for ifname in [lab.tx.ifname, "lo"] {
        let before = lab.rx.link()?.counters.rx_packets;
        let facts = lab.tx.stack.facts(ifname)?;
        let mut config = Config { dst_mac: lab.rx.mac, dst_min: Some(lab.rx.v4), ..Config::default() };
        config.prepare(&facts);
        let mut cursor = Cursor::default();
        cursor.start(&config, &facts, 1);
        let request = Request {
            ifname: ifname.to_owned(),
            plan: Plan::new(&config, &facts, &cursor)?,
            cursor,
            mode: XmitMode::StartXmit,
            limits: Limits { count: FRAMES, ..Limits::default() },
            engine: None,
            options: TxOptions::of(&config),
            batch: None,
            next_ns: None,
        };
        let handle = worker.start(request);
        let report = handle.wait(Duration::from_secs(60)).ok_or("the run does not end")?;
        let reason = handle.snapshot().reason;
        let is_good = matches!(report.end, End::Count)
            && report.engine == Some(EngineKind::Skb)
            && report.total.sent == FRAMES
            && report.total.errors.total() == 0
            && reason.contains("not xdp: ");
        if !is_good {
            return Err(format!("{ifname}: {:?}, {:?}: {reason}", report.end, report.total).into());
        }
        if ifname == lab.tx.ifname {
            arrived(&lab, before + FRAMES)?;
        }
    }
    Ok(())
}

fn arrived(lab: &Lab, expected: u64) -> Result<(), Failed> {
    for _ in 0..1000 {
        if lab.rx.link()?.counters.rx_packets >= expected {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("not all frames arrived".into())
}
