//! One thread that serves several runs, on real devices (root).

use engine::{
    End, EngineError, EngineKind, Limits, Pace, Request, RunHandle, StartBarrier, TxOptions, Worker, Workers,
};
use host::{Lab, LabOptions, StartTime, VethEnd};
use packet::{Config, Cursor, MacAddr, Plan, XmitMode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for something that a loaded machine does late, but does.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A lab, and the right to CPU 0: the meter of a process knows one thread a CPU.
fn lab() -> Option<(Lab, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    testkit::needs!(testkit::is_root("CAP_NET_ADMIN, CAP_BPF"), None);
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new(&LabOptions { rx_gro: true, ..LabOptions::default() }).expect("a lab can be made");
    Some((lab, turn))
}

fn request(ifname: &str, count: u64, pace: Pace) -> Request {
    let config = Config { min_pkt_size: 60, max_pkt_size: 60, ..Config::default() };
    let facts = packet::DeviceFacts { mac: MacAddr([2, 0, 0, 0, 0, 1]), tx_queues: 1, ..Default::default() };
    let mut cursor = Cursor::default();
    cursor.start(&config, &facts, 1);
    let plan = Plan::new(&config, &facts, &cursor).expect("plain settings");
    Request {
        ifname: ifname.to_owned(),
        plan,
        cursor,
        mode: XmitMode::StartXmit,
        options: TxOptions::default(),
        limits: Limits { count, pace, ..Limits::default() },
        engine: None,
        batch: None,
        next_ns: None,
    }
}

fn until_sent(run: &RunHandle) {
    let deadline = Instant::now() + TIMEOUT;
    while run.progress().sent() == 0 {
        assert!(!run.has_ended() && Instant::now() < deadline, "it sends nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const SOME_NS: u64 = 500_000;

#[test]
fn a_run_goes_on_when_another_of_its_thread_has_ended() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let long = worker.start(request(lab.tx.ifname, 400, Pace::from_delay_ns(SOME_NS)));
    let short = worker.start(request(lab.tx.ifname, 20, Pace::from_delay_ns(SOME_NS)));
    for (run, count) in [(short, 20), (long, 400)] {
        let report = run.wait(TIMEOUT).expect("it ends");
        assert!(matches!(report.end, End::Count), "{:?}", report.end);
        assert_eq!((report.total.sent, report.total.errors.total()), (count, 0));
    }
}

#[test]
fn two_devices_on_one_thread_are_told_apart() {
    let Some((lab, _turn)) = lab() else { return };
    let end = |name| VethEnd { name, mac: None, queues: 1, mtu: None };
    let stack = &lab.tx.stack;
    stack.create_veth(&end("wrw0"), &end("wrw1"), lab.tx.netns()).expect("a second pair");
    stack.set_feature("wrw1", host::FEATURE_GRO, true).expect("GRO");
    stack.set_up("wrw0").expect("up");
    stack.set_up("wrw1").expect("up");
    stack.wait_running("wrw0", TIMEOUT).expect("carrier");
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let runs = [
        worker.start(request(lab.tx.ifname, 300, Pace::from_delay_ns(SOME_NS))),
        worker.start(request("wrw0", 200, Pace::from_delay_ns(SOME_NS))),
    ];
    for (run, count) in runs.into_iter().zip([300, 200]) {
        let report = run.wait(TIMEOUT).expect("it ends");
        assert!(matches!(report.end, End::Count), "{:?}", report.end);
        assert_eq!((report.total.sent, report.total.errors.total()), (count, 0));
    }
}

#[test]
fn a_stop_flag_ends_its_run_and_no_other() {
    let Some((lab, _turn)) = lab() else { return };
    let workers = Workers::from_iter(Worker::spawn(0, lab.tx.netns()));
    let stop = Arc::new(AtomicBool::new(false));
    let start = |stop| {
        workers
            .start(vec![(0, request(lab.tx.ifname, 0, Pace::from_delay_ns(SOME_NS)))], stop, None)
            .remove(0)
    };
    let (flagged, other) = (start(Some(Arc::clone(&stop))), start(None));
    until_sent(&flagged);
    until_sent(&other);
    stop.store(true, Ordering::Relaxed);
    let report = flagged.wait(TIMEOUT).expect("it ends");
    assert!(matches!(report.end, End::Stopped), "{:?}", report.end);
    assert!(!other.has_ended());
}

#[test]
fn a_request_for_a_cpu_without_a_worker_fails_alone_and_mem_needs_no_device() {
    let netns = host::Netns::current().expect("this namespace");
    let cpu = host::CpuList::allowed().expect("the CPUs").iter().next().expect("one");
    let workers = Workers::from_iter(Worker::spawn(cpu, &netns));
    let dry = || Request { engine: Some(EngineKind::Mem), ..request("no-such-device", 10, Pace::Unpaced) };
    let runs = workers.start(vec![(1023, dry()), (cpu, dry())], None, None);
    let [lost, good] = [&runs[0], &runs[1]].map(|run| run.wait(TIMEOUT).expect("it ends"));
    assert!(matches!(lost.end, End::Failed(EngineError::NoWorker { cpu: 1023 })), "{:?}", lost.end);
    assert_eq!((good.total.sent, good.engine), (10, Some(EngineKind::Mem)));
}

/// No bound on how late a run is: a loaded machine decides that.
#[test]
fn a_requested_start_is_waited_for_and_a_stop_ends_the_wait() {
    let netns = host::Netns::current().expect("this namespace");
    let cpu = host::CpuList::allowed().expect("the CPUs").iter().next().expect("one");
    let workers = Workers::from_iter(Worker::spawn(cpu, &netns));
    let begin = |unix_ns| {
        let dry = Request { engine: Some(EngineKind::Mem), ..request("none", 10, Pace::Unpaced) };
        workers.start(vec![(cpu, dry)], None, Some(StartTime { unix_ns })).remove(0)
    };
    let start_ns = host::realtime_ns() + 30_000_000;
    let report = begin(start_ns).wait(TIMEOUT).expect("it ends");
    if !matches!(report.end, End::Failed(EngineError::ReadyTooLate { .. })) {
        assert!(host::realtime_ns() >= start_ns && report.total.sent == 10, "{report:?}");
        assert!(report.first_late_ns.is_some(), "{report:?}");
    }
    let late = begin(1);
    let report = late.wait(TIMEOUT).expect("it ends");
    assert!(matches!(report.end, End::Failed(EngineError::ReadyTooLate { .. })), "{report:?}");
    assert_eq!((report.total.sent, report.first_late_ns), (0, None));
    assert!(late.ready_late_ns().is_some());
    let mut took: Vec<Duration> = (0..9)
        .map(|_| {
            let run = begin(host::realtime_ns() + 3_600_000_000_000);
            let stopped = Instant::now();
            run.stop();
            let report = run.wait(TIMEOUT).expect("it ends");
            assert!(matches!(report.end, End::Stopped) && report.total.sent == 0, "{report:?}");
            stopped.elapsed()
        })
        .collect();
    took.sort_unstable();
    println!("stops take effect after {took:?}");
    assert!(took[0] < Duration::from_millis(10), "{took:?}");
}

#[test]
fn another_pace_during_a_run_loses_no_frame() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let run = worker.start(request(lab.tx.ifname, 1000, Pace::from_delay_ns(1_000_000)));
    while run.progress().sent() == 0 {
        assert!(!run.has_ended());
        std::thread::sleep(Duration::from_millis(1));
    }
    run.set_limits(Limits { count: 1000, pace: Pace::from_delay_ns(100_000), ..Limits::default() });
    let report = run.wait(TIMEOUT).expect("it ends");
    assert!(matches!(report.end, End::Count), "{:?}", report.end);
    assert_eq!((report.total.sent, report.total.errors.total()), (1000, 0));
}

#[test]
fn several_unpaced_runs_on_one_thread_all_send_at_the_same_time() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let runs = worker.start_all(vec![request(lab.tx.ifname, 0, Pace::Unpaced); 5], None);
    let deadline = Instant::now() + TIMEOUT;
    while runs.iter().any(|run| run.progress().sent() < 20_000) {
        let sent: Vec<_> = runs.iter().map(|run| run.progress().sent()).collect();
        assert!(Instant::now() < deadline, "some send nothing: {sent:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    runs.iter().for_each(|run| run.stop());
    let reports: Vec<_> = runs.iter().map(|run| run.wait(TIMEOUT).expect("it ends")).collect();
    assert!(reports.iter().all(|report| report.started_ns == reports[0].started_ns), "at one instant");
    let sent: Vec<_> = reports.iter().map(|report| report.total.sent).collect();
    let (least, most) = (sent.iter().min().expect("five"), sent.iter().max().expect("five"));
    assert!(*most < 3 * least, "{sent:?}");
}

#[test]
fn sixty_four_unpaced_runs_on_one_thread_send_their_count() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    for run in worker.start_all(vec![request(lab.tx.ifname, 5000, Pace::Unpaced); 64], None) {
        let report = run.wait(TIMEOUT).expect("it ends");
        assert!(matches!(report.end, End::Count), "{:?}", report.end);
        assert_eq!((report.total.sent, report.engine), (5000, Some(EngineKind::Xdp)));
    }
}

#[test]
fn runs_whose_pace_is_out_of_reach_share_their_thread() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let fast = vec![request(lab.tx.ifname, 0, Pace::from_delay_ns(1)); 3];
    let slow = request(lab.tx.ifname, 50, Pace::from_delay_ns(10_000_000));
    let runs = worker.start_all(fast.into_iter().chain([slow]).collect(), None);
    assert_eq!(runs[3].wait(TIMEOUT).expect("it ends").total.sent, 50);
    let sent: Vec<_> = runs[..3].iter().map(|run| run.progress().sent()).collect();
    assert!(sent.iter().all(|sent| *sent > 1000), "{sent:?}");
}

#[test]
fn an_unpaced_run_keeps_no_paced_run_of_its_thread_from_sending() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let paced = request(lab.tx.ifname, 100, Pace::from_delay_ns(1_000_000));
    let runs = worker.start_all(vec![request(lab.tx.ifname, 0, Pace::Unpaced), paced], None);
    let report = runs[1].wait(TIMEOUT).expect("it ends");
    assert!(matches!(report.end, End::Count) && !runs[0].has_ended(), "{:?}", report.end);
}

/// However often it is cut: twenty cuts in a second are no reason for twenty frames.
#[test]
fn a_paced_run_that_is_cut_again_and_again_keeps_its_deadlines() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let pace = Pace::from_delay_ns(300_000_000);
    let begun = Instant::now();
    let mut run = worker.start(request(lab.tx.ifname, 0, pace));
    until_sent(&run);
    let mut sent = 0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        run.pause();
        let report = run.wait(TIMEOUT).expect("it ends");
        sent += report.total.sent;
        run = worker.start(Request { next_ns: report.next_ns, ..request(lab.tx.ifname, 0, pace) });
    }
    let most = begun.elapsed().as_millis() as u64 / 300 + 1;
    assert!((1..=most).contains(&sent), "{sent} frames, {most} deadlines");
    until_sent(&run);
}

#[test]
fn a_thread_that_panics_ends_its_runs_and_keeps_no_other_waiting() {
    let Some((lab, _turn)) = lab() else { return };
    let workers = [0, 1].map(|cpu| Worker::spawn(cpu, lab.tx.netns()).expect("two CPUs"));
    let barrier = Some(Arc::new(StartBarrier::new(2, None)));
    let mut bad = request(lab.tx.ifname, 10, Pace::Unpaced);
    bad.cursor.states.clear();
    let good = workers[1].start_all(vec![request(lab.tx.ifname, 10, Pace::Unpaced)], barrier.clone());
    let lost = workers[0].start_all(vec![bad, request(lab.tx.ifname, 10, Pace::Unpaced)], barrier);
    for run in lost {
        let report = run.wait(TIMEOUT).expect("no wait is endless");
        assert!(matches!(report.end, End::Failed(EngineError::ThreadLost)), "{:?}", report.end);
    }
    assert_eq!(good[0].wait(TIMEOUT).expect("it ends").total.sent, 10);
    let late = workers[0].start(request(lab.tx.ifname, 10, Pace::Unpaced));
    assert!(late.wait(TIMEOUT).is_some(), "also later");
}

#[test]
fn an_order_that_is_stopped_before_it_begins_keeps_no_thread_waiting() {
    let Some((lab, _turn)) = lab() else { return };
    let workers = [0, 1].map(|cpu| Worker::spawn(cpu, lab.tx.netns()).expect("two CPUs"));
    let one = || vec![request(lab.tx.ifname, 10, Pace::Unpaced)];
    let barrier = Arc::new(StartBarrier::new(3, None));
    let [stopped, goes_on] =
        [&workers[0], &workers[1]].map(|worker| worker.start_all(one(), Some(Arc::clone(&barrier))));
    stopped[0].stop();
    let report = stopped[0].wait(TIMEOUT).expect("it ends before it begins");
    assert!(matches!(report.end, End::Stopped) && report.total.sent == 0, "{report:?}");
    assert!(!goes_on[0].has_ended(), "one thread is missing");
    let last = workers[0].start_all(one(), Some(barrier));
    for run in goes_on.iter().chain(&last) {
        assert_eq!(run.wait(TIMEOUT).expect("it begins").total.sent, 10);
    }
}

#[test]
fn sixty_four_paced_runs_on_one_thread_all_go_by_xdp_and_end_with_their_count() {
    let Some((lab, _turn)) = lab() else { return };
    let worker = Worker::spawn(0, lab.tx.netns()).expect("CPU 0 is there");
    let pace = |number: u64| Pace::from_delay_ns(10_000_000 + 100_000 * number);
    let by_xdp = |request| Request { engine: Some(EngineKind::Xdp), ..request };
    let runs = (0..64).map(|number| by_xdp(request(lab.tx.ifname, 50, pace(number)))).collect();
    let runs = worker.start_all(runs, None);
    for (number, run) in runs.into_iter().enumerate() {
        let report = run.wait(TIMEOUT).expect("it ends");
        assert!(matches!(report.end, End::Count), "{number}: {:?}", report.end);
        assert_eq!(report.engine, Some(EngineKind::Xdp), "{number}: {}", run.snapshot().reason);
        assert_eq!((report.total.sent, report.total.errors.total()), (50, 0), "{number}");
        assert!(report.elapsed_ns() >= 485_000_000, "{number} ended after {} ns", report.elapsed_ns());
    }
}
