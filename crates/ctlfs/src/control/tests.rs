//! The control tree with made-up interfaces and the mem engine, which sends nothing.

use super::*;
use crate::Cancel;
use ::command::{Facts, LinkState};
use engine::RunReport;
use host::{HostError, StartTime};
use packet::ipsec::{Association, Associations, SecurityAssociation, Transform};
use packet::{DeviceFacts, MacAddr};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The interfaces of a test, by number.
#[derive(Clone, Default)]
struct TestInterfaces(Arc<TableState>);

#[derive(Default)]
struct TableState {
    interfaces: Mutex<HashMap<u32, LiveInterface>>,
    /// They cannot be read.
    is_unreadable: AtomicBool,
    has_changed: AtomicBool,
    listener: Mutex<Option<Arc<Event>>>,
}

impl TestInterfaces {
    fn set(&self, index: u32, name: &str, is_up: bool) {
        let state = LinkState { is_up, is_ethernet_or_loopback: true };
        let interface = LiveInterface {
            index,
            name: name.into(),
            mac: MacAddr::ZERO,
            state,
            has_carrier: is_up,
            is_loopback: name == "lo",
        };
        self.0.interfaces.lock().unwrap().insert(index, interface);
        self.announce();
    }

    fn announce(&self) {
        self.0.has_changed.store(true, Ordering::SeqCst);
        self.0.listener.lock().unwrap().iter().for_each(|event| event.notify());
    }

    /// By one command, so that no reader sees it half way.
    fn swap_names(&self, one: u32, other: u32) {
        let mut all = self.0.interfaces.lock().unwrap();
        let names = [one, other].map(|index| all[&index].name.clone());
        for (index, name) in [other, one].into_iter().zip(names) {
            all.get_mut(&index).unwrap().name = name;
        }
        drop(all);
        self.announce();
    }

    fn remove(&self, index: u32) {
        self.0.interfaces.lock().unwrap().remove(&index);
        self.announce();
    }
}

impl Interfaces for TestInterfaces {
    fn named(&self, name: &str) -> Option<LiveInterface> {
        // Each also listens to another name, as after `ip link property add dev eth0 altname lan2`.
        let is_it = |one: &&LiveInterface| one.name == name || format!("lan{}", one.index) == name;
        self.0.interfaces.lock().unwrap().values().find(is_it).cloned()
    }

    fn numbered(&self, index: u32) -> Result<Option<LiveInterface>, HostError> {
        if self.0.is_unreadable.load(Ordering::Relaxed) {
            return Err(HostError::NoNetns { name: "test".into(), existing: Vec::new() });
        }
        Ok(self.0.interfaces.lock().unwrap().get(&index).cloned())
    }

    fn take_change(&self) -> bool {
        self.0.has_changed.swap(false, Ordering::SeqCst)
    }

    fn notify_changes(&self, event: Arc<Event>) {
        *self.0.listener.lock().unwrap() = Some(event);
    }

    fn facts(&self, _interface: &LiveInterface) -> Facts {
        Facts::default()
    }

    fn device_facts(&self, _index: u32) -> DeviceFacts {
        Facts::default().link
    }

    fn warn_of_default_route(&self, _device: &str, _index: u32) {}

    fn associations(&self) -> Arc<Associations> {
        Arc::new(Associations::new(vec![association()], Vec::new()))
    }
}

/// The only association that these interfaces have, with spi 7.
fn association() -> SecurityAssociation {
    let what = Association::transport(
        7,
        [10, 0, 0, 1].into(),
        [10, 0, 0, 2].into(),
        Transform::EspNull { integrity: None },
    );
    SecurityAssociation::new(what).unwrap()
}

/// A tree with two threads over `eth0` and `eth1`, both up.
struct TestTree {
    control: Arc<Control>,
    table: TestInterfaces,
}

/// Both threads of the tree are one real one: not every machine has two CPUs.
fn tree() -> TestTree {
    let cpu = CpuList::allowed().unwrap().iter().next().unwrap();
    let workers = Workers::from_iter(Worker::spawn(cpu, &Netns::current().unwrap()));
    tree_with(move |requests, start_at| {
        let dry = |(_, request)| (cpu, Request { engine: Some(EngineKind::Mem), ..request });
        workers.start(requests.into_iter().map(dry).collect(), None, start_at)
    })
}

fn tree_with(
    start_runs: impl Fn(Vec<(u32, Request)>, Option<StartTime>) -> Vec<Arc<RunHandle>> + Send + Sync + 'static,
) -> TestTree {
    let table = TestInterfaces::default();
    table.set(2, "eth0", true);
    table.set(3, "eth1", true);
    TestTree { control: Arc::new(Control::new(vec![0, 1], table.clone(), |_| None, start_runs)), table }
}

impl TestTree {
    fn try_write(&self, file: &str, text: &str) -> Result<(), Errno> {
        self.control.write(OsStr::new(file), text.as_bytes(), &Cancel::new())
    }

    #[track_caller]
    fn write(&self, file: &str, text: &str) {
        assert_eq!(self.try_write(file, text), Ok(()), "{text} > {file}");
    }

    /// Adds a device instance to thread 0 and writes its commands.
    #[track_caller]
    fn add(&self, name: &str, commands: &[&str]) {
        self.write("kpktgend_0", &format!("add_device {name}"));
        commands.iter().for_each(|command| self.write(name, command));
    }

    #[track_caller]
    fn read(&self, file: &str) -> String {
        String::from_utf8(self.control.read(OsStr::new(file)).unwrap()).unwrap()
    }

    /// Behind `Result: `.
    #[track_caller]
    fn result(&self, file: &str) -> String {
        let text = self.read(file);
        text.split_once("Result: ").unwrap().1.trim_end().to_owned()
    }

    fn number(&self, file: &str, label: &str) -> u64 {
        let text = self.read(file);
        let digits = text.split_once(label).unwrap().1;
        digits
            .split(|letter: char| !letter.is_ascii_digit())
            .find(|part| !part.is_empty())
            .unwrap()
            .parse()
            .unwrap()
    }

    fn sofar(&self, file: &str) -> u64 {
        self.number(file, "pkts-sofar:")
    }

    /// `start` by another thread.
    fn start(&self) -> (JoinHandle<Result<(), Errno>>, Cancel) {
        let (control, cancel) = (Arc::clone(&self.control), Cancel::new());
        let token = cancel.clone();
        let writer = thread::spawn(move || control.write(OsStr::new("pgctrl"), b"start\n", &token));
        (writer, cancel)
    }

    #[track_caller]
    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "waited in vain until {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs without end, a frame each half millisecond.
const ENDLESS: &[&str] = &["count 0", "delay 500000"];

/// Ten frames per second: time enough for what a test does meanwhile, also on a busy machine.
const SLOW: &str = "delay 100000000";

/// As in a container with a cpuset; CPU 1023 is one that no process may use.
#[test]
fn a_cpu_that_may_not_be_used_leaves_the_others_their_threads() {
    let first = CpuList::allowed().unwrap().iter().next().unwrap();
    let workers = workers(&[first, 1023], &Netns::current().unwrap()).unwrap();
    assert_eq!(workers.cpus().collect::<Vec<_>>(), [first]);
    assert_eq!(
        EngineError::NoWorker { cpu: 7 }.to_string(),
        "there is no thread on CPU 7: this process may not use it"
    );
}

#[test]
fn start_comes_back_with_the_results() {
    let tree = tree();
    tree.add("eth0", &["count 5"]);
    tree.add("eth0@1", &["count 7"]);
    tree.write("kpktgend_1", "add_device eth1");
    tree.write("pgctrl", "start");
    assert!(tree.result("eth0").starts_with("OK: ") && tree.result("eth0").contains(", 5 (58byte,0frags)"));
    assert_eq!((tree.sofar("eth0@1"), tree.sofar("eth1")), (7, 1000));
    assert_eq!(tree.read("kpktgend_0"), "Running: \nStopped: eth0@1 eth0 \nResult: OK: add_device=eth0@1\n");
}

#[test]
fn start_with_nothing_to_do_comes_back() {
    let tree = tree();
    tree.write("pgctrl", "start");
    tree.add("eth0", &["count 1"]);
    tree.write("kpktgend_0", "rem_device_all");
    tree.write("pgctrl", "start");
}

#[test]
fn a_signal_to_the_writer_ends_the_run_with_success_and_results() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (writer, cancel) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    assert_eq!(tree.read("kpktgend_0").lines().next(), Some("Running: eth0 "));
    cancel.fire();
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert!(tree.result("eth0").starts_with("OK: "), "{}", tree.result("eth0"));
}

#[test]
fn stop_ends_the_run_of_another_writer() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    tree.write("pgctrl", "stop");
    assert!(tree.result("eth0").starts_with("OK: "), "the result is there when stop comes back");
    assert_eq!(writer.join().unwrap(), Ok(()));
}

#[test]
fn a_second_start_begins_anew_and_both_writers_succeed() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (first, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 50);
    tree.write("eth0", SLOW);
    let before = tree.number("eth0", "started:");
    let (second, _) = tree.start();
    tree.wait_until("it has begun anew", |tree| tree.number("eth0", "started:") > before);
    assert!(tree.sofar("eth0") < 50);
    tree.write("eth0", "count 200");
    tree.write("eth0", "delay 0");
    assert_eq!((first.join().unwrap(), second.join().unwrap()), (Ok(()), Ok(())));
    assert_eq!((tree.sofar("eth0"), tree.number("eth0", "seq_num:")), (200, 201));
}

#[test]
fn reset_during_a_run_removes_all_and_the_writer_succeeds() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    tree.write("pgctrl", "reset");
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert_eq!(tree.control.names(), ["pgctrl", "kpktgend_0", "kpktgend_1"]);
}

#[test]
fn a_device_added_during_a_run_waits_for_the_next_start() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    tree.add("eth1", &["count 4"]);
    thread::sleep(Duration::from_millis(20));
    assert_eq!((tree.sofar("eth1"), tree.result("eth1").as_str()), (0, "OK: count=4"));
    tree.write("kpktgend_0", "rem_device_all");
    assert_eq!(writer.join().unwrap(), Ok(()));
}

#[test]
fn emptying_one_thread_leaves_the_runs_of_another_alone() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    tree.write("kpktgend_1", "add_device eth1");
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    let before = Instant::now();
    tree.write("kpktgend_1", "rem_device_all");
    assert!(before.elapsed() < Duration::from_secs(30));
    let sofar = tree.sofar("eth0");
    tree.wait_until("it goes on", |tree| tree.sofar("eth0") > sofar);
    tree.write("pgctrl", "stop");
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert!(tree.result("eth0").starts_with("OK: "), "{}", tree.result("eth0"));
}

#[test]
fn commands_during_a_run_change_its_frames_and_keep_its_counters() {
    let tree = tree();
    tree.add("eth0", &["count 400", SLOW, "pkt_size 100"]);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 2);
    let before = tree.sofar("eth0");
    tree.write("eth0", "udp_dst_min 4000");
    assert_eq!(tree.number("eth0", "cur_udp_dst:"), 4000);
    assert!(tree.sofar("eth0") >= before);
    tree.write("eth0", "pkt_size 60");
    tree.write("eth0", "delay 100000");
    assert_eq!(tree.try_write("eth0", "nonsense"), Err(Errno::EINVAL));
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert!(tree.result("eth0").contains(", 400 (60byte,0frags)"), "{}", tree.result("eth0"));
    assert_eq!(tree.number("eth0", "seq_num:"), 401);
}

#[test]
fn a_lowered_count_ends_the_run_and_cleared_counters_begin_again() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 100);
    tree.write("eth0", SLOW);
    tree.write("eth0", "clear_counters");
    assert!(tree.sofar("eth0") < 100);
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 4);
    tree.write("eth0", "count 2");
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert!((5..100).contains(&tree.sofar("eth0")), "it ends with what was sent by then");
}

#[test]
fn a_device_that_goes_down_ends_its_run_normally() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    tree.table.set(2, "eth0", false);
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert!(tree.result("eth0").starts_with("OK: "), "{}", tree.result("eth0"));
    tree.write("pgctrl", "start");
    assert!(tree.result("eth0").contains(", 0 (58byte,-1frags)"), "{}", tree.result("eth0"));
}

#[test]
fn a_renamed_device_is_followed_during_its_run() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    tree.write("kpktgend_1", "add_device eth0@7");
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    tree.table.set(2, "wan0", true);
    tree.wait_until("the file has moved", |tree| tree.control.contains(OsStr::new("wan0")));
    let names: Vec<_> = tree.control.names().into_iter().skip(3).collect();
    assert_eq!(names, ["wan0", "wan0@7"]);
    let before = tree.sofar("wan0");
    tree.wait_until("it goes on", |tree| tree.sofar("wan0") > before);
    tree.write("pgctrl", "stop");
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert!(tree.result("wan0").starts_with("OK: "));
}

#[test]
fn a_deleted_device_takes_its_files_along() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    tree.add("eth0@1", ENDLESS);
    tree.add("eth1", &["count 3"]);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    tree.table.remove(2);
    assert_eq!(writer.join().unwrap(), Ok(()));
    assert_eq!(tree.control.names().last(), Some(&OsString::from("eth1")));
    assert_eq!(tree.control.read(OsStr::new("eth0")), Err(Errno::ENOENT));
    assert_eq!(tree.sofar("eth1"), 3);
}

#[test]
fn an_answer_that_cannot_be_had_removes_nothing() {
    let tree = tree();
    tree.add("eth0", &["count 3"]);
    tree.table.0.is_unreadable.store(true, Ordering::Relaxed);
    tree.table.announce();
    tree.write("pgctrl", "start");
    assert_eq!(tree.sofar("eth0"), 3);
}

#[test]
fn no_command_is_lost_and_nothing_hangs_with_many_at_once() {
    let tree = tree();
    for index in 0..64 {
        tree.add(&format!("eth0@{index}"), ENDLESS);
    }
    let (writer, _) = tree.start();
    tree.wait_until("all run", |tree| tree.read("kpktgend_0").contains("Stopped: \n"));
    thread::scope(|scope| {
        for index in 0..8 {
            let tree = &tree;
            scope.spawn(move || {
                let name = format!("eth0@{index}");
                for count in 1..=20 {
                    tree.write(&name, &format!("flows {count}"));
                    assert_eq!(tree.number(&name, "flows:"), count, "no other thread writes to {name}");
                }
            });
        }
    });
    tree.write("pgctrl", "stop");
    assert_eq!(writer.join().unwrap(), Ok(()));
    for round in 0..1000 {
        tree.write("kpktgend_1", &format!("add_device eth1@{round}"));
        tree.write("kpktgend_1", "rem_device_all");
    }
    tree.write("pgctrl", "reset");
    assert_eq!(tree.control.names().len(), 3);
}

/// The reports of runs that no engine can do.
fn refuse(requests: Vec<(u32, Request)>, _: Option<StartTime>) -> Vec<Arc<RunHandle>> {
    let refused = |(_, request): (u32, Request)| {
        let error =
            EngineError::NoEngine { ifname: request.ifname, reasons: "none".to_owned(), is_denied: false };
        RunHandle::ended(RunReport::failed(error, host::monotonic_ns(), request.cursor))
    };
    requests.into_iter().map(refused).collect()
}

#[test]
fn what_no_engine_can_do_is_said_in_the_result() {
    let tree = tree_with(refuse);
    tree.add("eth0", &["count 5"]);
    tree.write("pgctrl", "start");
    assert_eq!(tree.result("eth0"), "ERROR: no engine can send this to eth0: none");
}

/// The pause between the write and the first frame is at least the time that was left.
#[test]
fn start_at_runs_from_then_on_and_refuses_a_time_that_has_passed() {
    let tree = tree();
    tree.add("eth0", &["count 5"]);
    let start_at = |unix_ns: u64| tree.try_write("pgctrl", &format!("start_at {unix_ns}\n"));
    let later_ns = host::realtime_ns() + 50_000_000;
    assert_eq!(start_at(later_ns), Ok(()));
    assert!(host::realtime_ns() >= later_ns);
    assert_eq!(tree.sofar("eth0"), 5);
    tree.write("eth0", "count 7");
    assert_eq!(start_at(host::realtime_ns() - 1), Err(Errno::ETIME));
    assert_eq!(tree.sofar("eth0"), 5, "the run before is the last one");
}

#[test]
fn engines_that_are_ready_too_late_refuse_the_write_and_send_nothing() {
    let late = |requests: Vec<(u32, Request)>, _| {
        let end = |(_, request): (u32, Request)| {
            let error = EngineError::ReadyTooLate { late_ns: 300_000_000 };
            RunHandle::ended(RunReport::failed(error, host::monotonic_ns(), request.cursor))
        };
        requests.into_iter().map(end).collect()
    };
    let tree = tree_with(late);
    tree.add("eth0", &["count 5"]);
    let later_ns = host::realtime_ns() + 3_600_000_000_000;
    assert_eq!(tree.try_write("pgctrl", &format!("start_at {later_ns}")), Err(Errno::ETIME));
    assert_eq!(tree.result("eth0"), "ERROR: everything was ready 0.300 s too late");
    assert_eq!(tree.sofar("eth0"), 0);
}

#[test]
fn a_device_added_by_another_name_of_its_interface_keeps_it() {
    let tree = tree_with(refuse);
    tree.add("lan2@0", &["count 5"]);
    tree.write("pgctrl", "start");
    assert_eq!(tree.result("lan2@0"), "ERROR: no engine can send this to eth0: none");
    tree.table.set(2, "wan0", true);
    tree.write("pgctrl", "start");
    assert_eq!(tree.result("lan2@0"), "ERROR: no engine can send this to wan0: none");
    assert_eq!(tree.control.names().last(), Some(&OsString::from("lan2@0")));
}

#[test]
fn interfaces_that_swap_their_names_swap_their_files() {
    let tree = tree_with(refuse);
    tree.add("eth0", &["count 2"]);
    tree.add("eth0@a", &["count 22"]);
    tree.add("eth1", &["count 3"]);
    tree.table.swap_names(2, 3);
    tree.wait_until("the files have followed", |tree| tree.number("eth1", "count") == 2);
    assert_eq!((tree.number("eth0", "count"), tree.number("eth1@a", "count")), (3, 22));
    tree.table.remove(2);
    tree.wait_until("the one that is gone takes its files", |tree| tree.control.names().len() == 4);
    tree.write("pgctrl", "start");
    assert_eq!(tree.result("eth0"), "ERROR: no engine can send this to eth0: none");
}

#[test]
fn draining_ends_runs_and_answers_their_writers() {
    let tree = tree();
    tree.add("eth0", ENDLESS);
    let (writer, _) = tree.start();
    tree.wait_until("frames go out", |tree| tree.sofar("eth0") > 3);
    tree.control.drain();
    assert_eq!(writer.join().unwrap(), Ok(()));
    tree.write("pgctrl", "start");
    assert!(tree.result("eth0").starts_with("OK: "), "no run begins any more");
}

#[test]
fn without_its_association_nothing_is_sent_and_the_result_says_which() {
    let tree = tree();
    tree.add("eth0", &["count 5", "flag IPSEC", "flows 1", "spi 9"]);
    tree.write("pgctrl", "start");
    assert_eq!(tree.result("eth0"), "ERROR: IPSEC: there is no security association with spi 9");
    assert_eq!(tree.sofar("eth0"), 0);
    for command in ["spi 7", "spi 0"] {
        for setting in [command, "src_min 10.0.0.1", "dst 10.0.0.2"] {
            tree.write("eth0", setting);
        }
        tree.write("pgctrl", "start");
        assert!(tree.result("eth0").starts_with("OK: "), "{}", tree.result("eth0"));
        assert_eq!(tree.sofar("eth0"), 5);
    }
}

/// Runs that end once they are stopped and the test lets them. `begun` counts the runs of each
/// start.
#[derive(Default)]
struct SlowInterfaces {
    begun: Mutex<Vec<usize>>,
    may_end: AtomicBool,
}

impl SlowInterfaces {
    fn start(self: &Arc<Self>, requests: Vec<(u32, Request)>) -> Vec<Arc<RunHandle>> {
        self.begun.lock().unwrap().push(requests.len());
        let begin = |(_, request): (u32, Request)| {
            let (slow, run) = (Arc::clone(self), Arc::new(RunHandle::default()));
            let handle = Arc::clone(&run);
            thread::spawn(move || {
                while !(run.is_stopped() && slow.may_end.load(Ordering::Relaxed)) {
                    thread::sleep(Duration::from_millis(1));
                }
                let report = RunReport::failed(EngineError::ThreadLost, host::monotonic_ns(), request.cursor);
                run.finish(RunReport { end: engine::End::Stopped, ..report });
            });
            handle
        };
        requests.into_iter().map(begin).collect()
    }
}

/// A tree whose device `eth0` runs and does not end; `eth1` was added since.
fn slow_tree() -> (TestTree, Arc<SlowInterfaces>, JoinHandle<Result<(), Errno>>) {
    let slow = Arc::new(SlowInterfaces::default());
    let start = Arc::clone(&slow);
    let tree = tree_with(move |requests, _| start.start(requests));
    tree.add("eth0", &["count 0"]);
    let (writer, _) = tree.start();
    tree.wait_until("it runs", |tree| tree.read("kpktgend_0").starts_with("Running: eth0 "));
    tree.write("kpktgend_1", "add_device eth1");
    (tree, slow, writer)
}

#[test]
fn other_writers_and_look_ups_do_not_wait_for_a_run_that_takes_long_to_end() {
    let (tree, slow, first) = slow_tree();
    let tree = Arc::new(tree);
    let writes: [(&str, &str); 3] = [("eth0", "pkt_size 100"), ("pgctrl", "start"), ("pgctrl", "reset")];
    let begun = |tree: &Arc<TestTree>, (file, text): (&'static str, &'static str)| {
        let tree = Arc::clone(tree);
        thread::spawn(move || tree.try_write(file, text))
    };
    let waiting: Vec<_> = writes.map(|write| begun(&tree, write)).into();
    for number in 1..20 {
        tree.write("eth1", &format!("flows {number}"));
        assert_eq!(tree.number("eth1", "flows:"), number);
        assert!(tree.control.contains(OsStr::new("eth0")));
    }
    assert!(!waiting[1..].iter().any(JoinHandle::is_finished), "they wait for the end");
    slow.may_end.store(true, Ordering::Relaxed);
    for writer in waiting.into_iter().chain([first]) {
        // The writer of a device file may find it removed.
        let written = writer.join().unwrap();
        assert!(matches!(written, Ok(()) | Err(Errno::ENOENT | Errno::ENODEV)), "{written:?}");
    }
}

#[test]
fn writers_of_start_that_wait_are_served_together() {
    let (tree, slow, first) = slow_tree();
    let writers: Vec<_> = (0..20).map(|_| tree.start()).collect();
    tree.wait_until("all wait", |tree| tree.control.starts_asked.load(Ordering::Relaxed) == 21);
    slow.may_end.store(true, Ordering::Relaxed);
    tree.wait_until("all are served", |tree| *lock(&tree.control.starts_served) == 21);
    let begun = slow.begun.lock().unwrap().clone();
    assert!(begun == [1, 2] || begun == [1, 2, 2], "{begun:?}");
    tree.write("pgctrl", "stop");
    let writers = writers.into_iter().map(|(writer, _)| writer).chain([first]);
    writers.for_each(|writer| assert_eq!(writer.join().unwrap(), Ok(())));
}

#[test]
fn a_stop_while_a_command_cuts_a_run_ends_it() {
    let (tree, slow, first) = slow_tree();
    let control = Arc::clone(&tree.control);
    let command = thread::spawn(move || control.write(OsStr::new("eth0"), b"pkt_size 100", &Cancel::new()));
    tree.wait_until("it is cut", |tree| tree.control.state().is_paused("eth0"));
    let control = Arc::clone(&tree.control);
    let stop = thread::spawn(move || control.write(OsStr::new("pgctrl"), b"stop", &Cancel::new()));
    tree.wait_until("it is stopped", |tree| !tree.control.state().is_paused("eth0"));
    slow.may_end.store(true, Ordering::Relaxed);
    for writer in [command, stop, first] {
        assert_eq!(writer.join().unwrap(), Ok(()));
    }
    assert_eq!(*slow.begun.lock().unwrap(), [1], "it was not continued");
    assert_eq!(tree.number("eth0", "max_pkt_size:"), 100);
}
