//! Two network namespaces with a veth pair between them, gone again when the test is over.
//!
//! The sender's end is `tx0` with 198.18.0.1, the receiver's is `rx0` with 198.18.0.2. Neither end says
//! anything of its own accord (no IPv6, no ARP), so every frame that `rx0` counts came from the test.

use crate::program::run;
use crate::readers::on_the_wire;
use crate::{Case, TestResult, case};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Names of labs begin with this, then the pid of the test program.
const PREFIX: &str = "wre-";

/// Names of the labs that exist now, for [`remove_all`].
static LIVE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What the receiver does with frames that come by XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// GRO is on, so it polls, and XDP frames reach its stack.
    Gro,
    /// Neither GRO nor an XDP program: veth drops XDP frames before they arrive.
    Deaf,
    /// An XDP program ends every frame: the cheapest receiver there is.
    Sink,
}

/// The program of [`Peer::Sink`]: XDP_DROP for everything.
const SINK: &str =
    "__attribute__((section(\"xdp\"), used)) int sink(void *context) { (void)context; return 1; }
char terms[] __attribute__((section(\"license\"), used)) = \"Dual BSD/GPL\";";

/// A name of our own and a folder; dropping it removes the folder.
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
        LIVE.lock().unwrap().push(name.clone());
        std::fs::create_dir(folder(&name)).expect("the temporary folder can be written");
        Self { name }
    }

    /// A path for a file that goes when the folder goes.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        folder(&self.name).join(name)
    }
}

/// The two namespaces and a folder; dropping it removes them.
#[derive(Debug)]
pub(crate) struct Lab {
    scratch: Scratch,
    /// Namespace of the sender.
    pub(crate) tx_netns: String,
    /// Namespace of the receiver.
    pub(crate) rx_netns: String,
}

impl Lab {
    /// Makes the pair, up and running.
    pub(crate) fn new(peer: Peer) -> Self {
        let scratch = Scratch::new();
        let [tx_netns, rx_netns] = netns_names(&scratch.name);
        let lab = Self { scratch, tx_netns, rx_netns };
        for netns in [&lab.tx_netns, &lab.rx_netns] {
            run(&["ip", "netns", "add", netns]);
            let quiet = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            run(&["ip", "netns", "exec", netns, "sh", "-c", quiet]);
        }
        lab.add_links();
        lab.set_up(&lab.tx_netns, TX_DEV, "198.18.0.1/24", ("198.18.0.2", RX_MAC));
        lab.set_up(&lab.rx_netns, RX_DEV, "198.18.0.2/24", ("198.18.0.1", TX_MAC));
        lab.set_gro(peer == Peer::Gro);
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

    fn add_links(&self) {
        let queues = QUEUE_COUNT.to_string();
        let ends = [(TX_DEV, TX_MAC, &self.tx_netns), (RX_DEV, RX_MAC, &self.rx_netns)];
        let [tx, rx] = ends.map(|(dev, mac, netns)| {
            format!("name {dev} address {mac} netns {netns} numtxqueues {queues} numrxqueues {queues}")
        });
        let command = format!("ip link add {tx} type veth peer {rx}");
        run(&command.split(' ').collect::<Vec<_>>());
    }

    fn set_up(&self, netns: &str, dev: &str, address: &str, neighbour: (&str, &str)) {
        let (ip, mac) = neighbour;
        run(&["ip", "-n", netns, "address", "add", address, "dev", dev]);
        run(&["ip", "-n", netns, "link", "set", dev, "up"]);
        run(&["ip", "-n", netns, "neighbour", "replace", ip, "lladdr", mac, "dev", dev, "nud", "permanent"]);
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

    /// The same, once it is `expected` or half a minute has passed: the last frames may still be in a queue, and
    /// on a busy machine the softirq that takes them out comes late.
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
        // Not `unwrap`: this runs in a panic as well.
        if let Ok(mut live) = LIVE.lock() {
            live.retain(|name| *name != self.name);
        }
    }
}

/// Removes every lab that this process still holds.
pub(crate) fn remove_all() {
    let names = LIVE.lock().map(|live| live.clone()).unwrap_or_else(|poisoned| poisoned.into_inner().clone());
    names.iter().for_each(|name| remove(name));
}

/// Removes the labs that test programs left which were killed.
pub(crate) fn sweep() {
    let files = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: BTreeSet<String> =
        namespaces().into_iter().chain(files).filter_map(|name| stale(&name)).collect();
    names.iter().for_each(|name| remove(name));
}

/// Names of all network namespaces that have one.
pub(crate) fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn netns_names(lab: &str) -> [String; 2] {
    [format!("{lab}-tx"), format!("{lab}-rx")]
}

fn folder(lab: &str) -> PathBuf {
    std::env::temp_dir().join(lab)
}

/// The lab that a namespace or folder called `name` belongs to, if its test program is no more.
fn stale(name: &str) -> Option<String> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let (pid, number) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?);
    let is_gone = !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true);
    is_gone.then(|| format!("{PREFIX}{pid}-{number}"))
}

/// Removes what there is of one lab. Any part may be missing, so what the removers say is no concern.
fn remove(name: &str) {
    for netns in netns_names(name) {
        let _ = std::process::Command::new("ip").args(["netns", "delete", &netns]).output();
    }
    let _ = std::fs::remove_dir_all(folder(name));
}

/// Tests of the lab itself: the others rest on it.
pub(crate) const CASES: &[Case] = &[
    case("lab::goes_when_dropped_and_when_a_test_panics", &[], goes_when_dropped_and_when_a_test_panics),
    case("lab::sweep_takes_what_the_dead_left_and_spares_the_living", &[], sweep_spares_the_living),
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

fn sweep_spares_the_living() -> TestResult {
    let mut child = std::process::Command::new("true").spawn()?;
    let dead_pid = child.id();
    child.wait()?;
    let stale = format!("{PREFIX}{dead_pid}-0-tx");
    run(&["ip", "netns", "add", &stale]);
    let lab = Lab::new(Peer::Deaf);
    sweep();
    assert!(!namespaces().contains(&stale), "{stale} is still there");
    assert!(namespaces().contains(&lab.tx_netns), "{} was taken", lab.tx_netns);
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
