//! A veth pair between two network namespaces, removed when the test is over.
//!
//! The sender's end is `tx0` with 198.18.0.1, the receiver's is `rx0` with 198.18.0.2. Neither end
//! sends frames of its own (no IPv6, no ARP), so every frame that `rx0` counts came from the test.

use crate::program::run;
use crate::readers::on_the_wire;
use crate::{Case, TestResult, case};
use host::{LabOptions, Netns};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The sender's end of the pair.
pub(crate) const TX_DEV: &str = "tx0";
/// The receiver's end of the pair.
pub(crate) const RX_DEV: &str = "rx0";
/// Address of the sender.
pub(crate) const TX_MAC: &str = "02:00:00:00:00:01";
/// Address of the receiver.
pub(crate) const RX_MAC: &str = "02:00:00:00:00:02";
/// Queues of each end, in both directions.
pub(crate) const QUEUE_COUNT: u32 = 4;

/// Names of folders begin with this, then the PID of the test program.
const PREFIX: &str = "wre-";

/// Names of the folders and namespaces that exist now, for [`remove_all`].
static LIVE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Those names. It works in a panic as well.
fn live() -> MutexGuard<'static, Vec<String>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the receiver does with frames that come by XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// GRO is on, so it polls, and XDP frames reach its stack.
    Gro,
    /// Neither GRO nor an XDP program: veth drops XDP frames before they arrive.
    Deaf,
    /// An XDP program drops every frame: the cheapest receiver there is.
    Sink,
}

/// The program of [`Peer::Sink`]: XDP_DROP for everything.
const SINK: &str =
    "__attribute__((section(\"xdp\"), used)) int sink(void *context) { (void)context; return 1; }
char terms[] __attribute__((section(\"license\"), used)) = \"Dual BSD/GPL\";";

/// A folder; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Scratch {
    name: String,
}

impl Scratch {
    /// Makes the folder.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let mut live = live();
        live.push(name.clone());
        std::fs::create_dir(folder(&name)).expect("the temporary folder can be written");
        Self { name }
    }

    /// A path for a file that goes when the folder goes.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        folder(&self.name).join(name)
    }
}

/// A namespace; dropping it removes it and its devices.
#[derive(Debug)]
pub(crate) struct OwnNetns {
    /// Its name, as `ip netns` lists it.
    pub(crate) name: String,
}

impl OwnNetns {
    /// Makes the namespace. `suffix` tells those of a lab apart.
    pub(crate) fn new(suffix: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}{suffix}", std::process::id());
        let mut live = live();
        live.push(name.clone());
        Netns::create(&name).expect("a namespace can be made");
        Self { name }
    }
}

impl std::fmt::Display for OwnNetns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for OwnNetns {
    fn drop(&mut self) {
        remove(&self.name);
        live().retain(|name| *name != self.name);
    }
}

/// The pair and a folder; dropping it removes them.
#[derive(Debug)]
pub(crate) struct Lab {
    scratch: Scratch,
    _pair: host::Lab,
    /// Namespace of the sender.
    pub(crate) tx_netns: String,
    /// Namespace of the receiver.
    pub(crate) rx_netns: String,
}

impl Lab {
    /// Makes the pair, up and running.
    pub(crate) fn new(peer: Peer) -> Self {
        let options = LabOptions { queues: QUEUE_COUNT, rx_gro: peer == Peer::Gro, ..LabOptions::default() };
        let mut live = live();
        let pair = host::Lab::new(&options).expect("a lab can be made");
        let (tx_netns, rx_netns) = (pair.tx.netns_name.clone(), pair.rx.netns_name.clone());
        live.extend([tx_netns.clone(), rx_netns.clone()]);
        drop(live);
        let lab = Self { scratch: Scratch::new(), _pair: pair, tx_netns, rx_netns };
        if peer == Peer::Sink {
            lab.attach_sink();
        }
        lab
    }

    fn attach_sink(&self) {
        let [source, object] = ["sink.c", "sink.o"].map(|name| self.file(name).display().to_string());
        std::fs::write(&source, SINK).expect("the lab's folder can be written");
        run(&["clang", "-O2", "-target", "bpf", "-c", &source, "-o", &object]);
        run(&[
            "ip",
            "-n",
            &self.rx_netns,
            "link",
            "set",
            "dev",
            RX_DEV,
            "xdp",
            "object",
            &object,
            "section",
            "xdp",
        ]);
    }

    /// A path for a file that goes when the lab goes.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// Turns GRO at the receiver on or off; with it on, veth takes frames that come by XDP.
    pub(crate) fn set_gro(&self, on: bool) {
        let word = if on { "on" } else { "off" };
        run(&["ip", "netns", "exec", &self.rx_netns, "ethtool", "-K", RX_DEV, "gro", word]);
    }

    /// Frames that the receiver has counted since the pair was made.
    pub(crate) fn received(&self) -> u64 {
        self.rx_counter("rx_packets")
    }

    /// Frames that the receiver has counted, once they are `expected` or half a minute has passed:
    /// the last frames may still be in a queue, and on a busy machine the softirq that takes them
    /// out comes late.
    pub(crate) fn received_at_last(&self, expected: u64) -> u64 {
        for _ in 0..3000 {
            if self.received() >= expected {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // Once more, so that frames too many have their chance to be seen.
        std::thread::sleep(std::time::Duration::from_millis(20));
        self.received()
    }

    /// One of the receiver's counters, by its name under `/sys/class/net/rx0/statistics`.
    pub(crate) fn rx_counter(&self, name: &str) -> u64 {
        let path = format!("/sys/class/net/{RX_DEV}/statistics/{name}");
        let text = run(&["ip", "netns", "exec", &self.rx_netns, "cat", &path]);
        text.trim().parse().unwrap_or_else(|_| panic!("{path} holds {text:?}"))
    }

    /// True when an XDP program is on the receiver's device.
    pub(crate) fn has_xdp(&self) -> bool {
        run(&["ip", "-n", &self.rx_netns, "link", "show", "dev", RX_DEV]).contains("xdp")
    }

    /// Names of the devices in the sender's namespace that the test did not make.
    pub(crate) fn strangers(&self) -> Vec<String> {
        [(&self.tx_netns, TX_DEV), (&self.rx_netns, RX_DEV)]
            .into_iter()
            .flat_map(|(netns, ours)| {
                let text = run(&["ip", "-n", netns, "-brief", "link", "show"]);
                let names = text.lines().filter_map(|line| line.split(['@', ' ']).next());
                names.filter(|name| ![ours, "lo"].contains(name)).map(str::to_owned).collect::<Vec<_>>()
            })
            .collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        live().retain(|name| ![&self.scratch.name, &self.tx_netns, &self.rx_netns].contains(&name));
    }
}

/// Removes every lab that this process still holds. While the caller keeps what it returns, no test
/// makes another one.
pub(crate) fn remove_all() -> MutexGuard<'static, Vec<String>> {
    let live = live();
    live.iter().for_each(|name| remove(name));
    live
}

/// Removes the labs of test programs that were killed.
pub(crate) fn sweep() {
    // Without root there is nothing to remove.
    let _ = host::Lab::sweep();
    namespaces().iter().filter(|name| is_stale(name)).for_each(|name| remove(name));
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_stale(&name) {
            remove(&name);
        }
    }
}

/// Names of all network namespaces that have one.
pub(crate) fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn folder(lab: &str) -> PathBuf {
    std::env::temp_dir().join(lab)
}

/// True for a folder whose test program has ended.
fn is_stale(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    pid.is_some_and(|pid| !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true))
}

/// Removes a folder or a namespace. It may be missing.
fn remove(name: &str) {
    let _ = Netns::remove(name);
    let _ = std::fs::remove_dir_all(folder(name));
}

/// Tests of the lab itself: the others rest on it.
pub(crate) const CASES: &[Case] = &[
    case("lab::goes_when_dropped_and_when_a_test_panics", &[], goes_when_dropped_and_when_a_test_panics),
    case(
        "lab::is_silent_until_someone_sends",
        &["bash", "dumpcap", "editcap"],
        is_silent_until_someone_sends,
    ),
];

fn goes_when_dropped_and_when_a_test_panics() -> TestResult {
    let (tx, rx) = std::panic::catch_unwind(|| {
        let lab = Lab::new(Peer::Gro);
        assert!(namespaces().contains(&lab.tx_netns) && namespaces().contains(&lab.rx_netns));
        let names = (lab.tx_netns.clone(), lab.rx_netns.clone());
        std::panic::resume_unwind(Box::new(names));
    })
    .map_err(|names| *names.downcast::<(String, String)>().expect("the names"))
    .expect_err("it panicked");
    assert!(!namespaces().contains(&tx) && !namespaces().contains(&rx));
    Ok(())
}

fn is_silent_until_someone_sends() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(lab.received(), 0);
    let three = "for i in 1 2 3; do echo $i > /dev/udp/198.18.0.2/9; done";
    let seen = on_the_wire(&lab, 3, || {
        run(&["ip", "netns", "exec", &lab.tx_netns, "bash", "-c", three]);
    });
    let payloads: Vec<&[u8]> = seen.iter().map(|frame| &frame.bytes[42..]).collect();
    assert_eq!(payloads, [b"1\n", b"2\n", b"3\n"]);
    assert_eq!(lab.received(), 3);
    assert_eq!(lab.strangers(), [""; 0]);
    Ok(())
}
