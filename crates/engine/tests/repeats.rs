//! Runs that are changed where a frame is to go out again: by the sequence numbers at the receiver.

mod lab;

use engine::{End, EngineKind, Request, RunReport, Worker};
use host::{Lab, LabOptions};
use lab::tap::Tap;
use lab::{ENGINES, TIMEOUT, lab, polling_lab, request, run, tc};
use packet::{Config, Plan, XmitMode};

/// The run goes on with other settings, as the control tree does it.
fn changed(lab: &Lab, before: &Request, report: RunReport, config: &Config, count: u64) -> Request {
    let mut next = request(lab, config, count, before.engine);
    next.cursor = report.cursor;
    next.cursor.end_repeats(before.plan.repeats);
    let facts = lab.tx.stack.facts(lab.tx.ifname).expect("the device can be asked");
    let mut config = Config { dst_mac: lab.rx.mac, dst_min: Some(lab.rx.v4), ..config.clone() };
    config.prepare(&facts);
    next.plan = Plan::new(&config, &facts, &next.cursor).expect("the configuration is good");
    next
}

fn numbers(tap: &Tap, count: usize) -> Vec<u32> {
    let number = |frame: Vec<u8>| u32::from_be_bytes(frame[46..50].try_into().expect("four bytes"));
    tap.frames(count).into_iter().map(number).collect()
}

#[test]
fn commands_after_a_lowered_burst_send_no_frame_twice_and_leave_none_out() {
    let Some(lab) = polling_lab() else { return };
    for engine in ENGINES {
        for config in
            [Config { burst: 32, ..Config::default() }, Config { clone_skb: 1000, ..Config::default() }]
        {
            let tap = Tap::new(lab.rx.netns());
            let mut part = request(&lab, &config, 7, Some(engine));
            let mut report = run(&lab, part.clone());
            for port in 9..14 {
                let config = Config { udp_dst_min: port, udp_dst_max: port, ..Config::default() };
                part = changed(&lab, &part, report, &config, 3);
                report = run(&lab, part.clone());
                assert!(matches!(report.end, End::Count), "{engine}: {:?}", report.end);
            }
            let wanted: Vec<u32> = [1; 7].into_iter().chain(8..23).collect();
            assert_eq!(numbers(&tap, 22), wanted, "{engine}");
        }
    }
}

#[test]
fn a_command_while_the_qdisc_is_full_sends_no_later_frame_twice() {
    for engine in [EngineKind::Skb, EngineKind::AfPacket] {
        let Some(lab) = lab(&LabOptions::default()) else { return };
        tc(&lab, "qdisc replace dev tx0 root tbf rate 8kbit burst 2000 limit 3000");
        let tap = Tap::new(lab.rx.netns());
        let config = Config { xmit_mode: XmitMode::QueueXmit, ..Config::default() };
        let mut part = request(&lab, &config, 0, Some(engine));
        let worker = Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
        let handle = worker.start(part.clone());
        // The bucket and the queue hold 83 frames, and 17 leave each second. A thread that the
        // scheduler leaves waiting for less than two seconds meets a full queue before this.
        lab::until_sent(&handle, 120);
        handle.stop();
        let mut report = handle.wait(TIMEOUT).expect("it ends");
        drop(worker);
        let sent = report.total.sent;
        assert!(report.total.retries > 0, "{engine} never met a full queue");
        // The frames in the queue go out at once with it gone, or are dropped with it: all of ours
        // come after.
        tc(&lab, "qdisc del dev tx0 root");
        for port in 20..24 {
            let config = Config { udp_dst_min: port, udp_dst_max: port, ..config.clone() };
            part = changed(&lab, &part, report, &config, 3);
            report = run(&lab, part.clone());
            assert!(matches!(report.end, End::Count), "{engine}: {:?}", report.end);
        }
        assert_eq!(u64::from(report.cursor.seq_num), sent + 13, "{engine}");
        let last = sent as u32 + 12;
        let mut seen = Vec::new();
        while seen.last() != Some(&last) {
            let next = numbers(&tap, 1);
            assert!(!next.is_empty(), "{engine}: {seen:?} and then nothing, of {last}");
            seen.extend(next);
        }
        let changed: Vec<u32> = seen.into_iter().filter(|number| u64::from(*number) > sent).collect();
        assert_eq!(changed, (sent as u32 + 1..=last).collect::<Vec<_>>(), "{engine}");
    }
}
