//! Engines on a real wire: a veth pair between two namespaces, the receiver's counters as the
//! judge.

mod lab;

use engine::{End, EngineError, EngineKind, Worker};
use host::LabOptions;
use lab::{ENGINES, TIMEOUT, failure, lab, polling_lab, received, request, run, run_by_queue, until_sent};
use packet::Config;

/// Every count that has an edge.
const COUNTS: [u64; 7] = [1, 2, 63, 64, 65, 1000, 100_001];

#[test]
fn exactly_count_frames_arrive() {
    let Some(lab) = polling_lab() else { return };
    for engine in ENGINES {
        for count in COUNTS {
            let before = received(&lab, 0);
            let report = run(&lab, request(&lab, &Config::default(), count, Some(engine)));
            assert!(matches!(report.end, End::Count), "{engine} {count}: {:?}", report.end);
            assert_eq!(report.total.sent, count, "{engine}");
            assert_eq!(received(&lab, before + count) - before, count, "{engine}");
            assert_eq!(report.cursor.seq_num as u64, report.total.offered() + 1, "{engine}");
        }
    }
}

#[test]
fn frames_of_changing_length_arrive_with_their_bytes() {
    let Some(lab) = polling_lab() else { return };
    let config = Config { min_pkt_size: 60, max_pkt_size: 1500, ..Config::default() };
    for engine in ENGINES {
        let before = lab.rx.link().expect("the device can be asked").counters;
        let report = run(&lab, request(&lab, &config, 5000, Some(engine)));
        received(&lab, before.rx_packets + 5000);
        let after = lab.rx.link().expect("the device can be asked").counters.since(&before);
        assert_eq!((report.total.sent, report.total.errors.total()), (5000, 0), "{engine}");
        assert_eq!((after.rx_packets, after.rx_bytes), (5000, report.total.frame_bytes), "{engine}");
    }
}

#[test]
fn af_xdp_sends_on_the_queues_that_the_plan_names() {
    let Some(lab) = polling_lab() else { return };
    let config = Config { queue_map_min: 1, queue_map_max: 3, ..Config::default() };
    let (report, _, by_queue) =
        run_by_queue(&lab, request(&lab, &config, 3000, Some(EngineKind::AfXdp)), 3000);
    assert_eq!(report.total.sent, 3000);
    assert_eq!(report.cursor.queue, 3, "one after the other, 1 first");
    assert_eq!(by_queue, [0, 1000, 1000, 1000]);
}

#[test]
fn a_run_without_end_stops_within_moments_and_counts_all() {
    let Some(lab) = polling_lab() else { return };
    for engine in ENGINES {
        let before = received(&lab, 0);
        let worker = Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
        let handle = worker.start(request(&lab, &Config::default(), 0, Some(engine)));
        until_sent(&handle, 1);
        handle.stop();
        let report = handle.wait(TIMEOUT).expect("the run ends when told to");
        assert!(matches!(report.end, End::Stopped), "{engine}: {:?}", report.end);
        assert_eq!(received(&lab, before + report.total.sent) - before, report.total.sent, "{engine}");
    }
}

#[test]
fn devices_that_cannot_send_are_named() {
    let Some(lab) = lab(&LabOptions::default()) else { return };
    let failure = |engine| failure(&lab, request(&lab, &Config::default(), 9, Some(engine)));
    let error = failure(EngineKind::Xdp);
    assert!(matches!(&error, EngineError::PeerTakesNoXdp { peer, .. } if peer == "rx0"), "{error}");
    lab.rx.stack.set_down(lab.rx.ifname).expect("the far end can be set down");
    assert!(matches!(failure(EngineKind::Xdp), EngineError::NoCarrier { .. }));
    lab.tx.stack.set_down(lab.tx.ifname).expect("the near end can be set down");
    for engine in ENGINES {
        let error = failure(engine);
        assert!(matches!(&error, EngineError::Down { ifname } if ifname == "tx0"), "{engine}: {error}");
    }
}

#[test]
fn a_device_deleted_under_the_run_ends_it_and_every_frame_is_counted() {
    for engine in ENGINES {
        let Some(lab) = polling_lab() else { return };
        let worker = Worker::spawn(0, lab.tx.netns()).expect("a thread can be had");
        let handle = worker.start(request(&lab, &Config::default(), 0, Some(engine)));
        until_sent(&handle, 1);
        lab.tx.stack.delete_link(lab.tx.ifname).expect("the device can be deleted");
        let report = handle.wait(TIMEOUT).expect("the run ends with its device");
        match report.end {
            End::Failed(error) => assert!(error.is_device_gone(), "{engine}: {error}"),
            other => panic!("{engine}: {other:?}"),
        }
        assert!(report.total.sent > 0, "{engine}");
    }
}
