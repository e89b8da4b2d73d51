//! Two network namespaces with a veth pair between them, gone again when the test is over.
//!
//! The sender's end is `tx0` with 198.18.0.1, the receiver's is `rx0` with 198.18.0.2. Neither end says
//! anything of its own accord (no IPv6, no ARP), so every frame that `rx0` counts came from the test.

use crate::program::run;
use crate::{Case, TestResult, case};
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

/// Namespaces of ours begin with this, then the pid of the test program.
const PREFIX: &str = "wre-";

/// Names of the namespaces that exist now, for [`remove_all`].
static LIVE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What the receiver does with frames that come by XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// GRO is on, so it polls, and XDP frames reach its stack.
    Gro,
    /// Neither GRO nor an XDP program: veth drops XDP frames before they arrive.
    Deaf,
}

/// The two namespaces; dropping it removes them.
#[derive(Debug)]
pub(crate) struct Lab {
    /// Namespace of the sender.
    pub(crate) tx_netns: String,
    /// Namespace of the receiver.
    pub(crate) rx_netns: String,
}

impl Lab {
    /// Makes the pair, up and running.
    pub(crate) fn new(peer: Peer) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = format!("{PREFIX}{}-{number}", std::process::id());
        let lab = Self { tx_netns: format!("{base}-tx"), rx_netns: format!("{base}-rx") };
        for netns in [&lab.tx_netns, &lab.rx_netns] {
            LIVE.lock().unwrap().push(netns.clone());
            run(&["ip", "netns", "add", netns]);
            let quiet = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            run(&["ip", "netns", "exec", netns, "sh", "-c", quiet]);
        }
        lab.add_links();
        lab.set_up(&lab.tx_netns, TX_DEV, "198.18.0.1/24", ("198.18.0.2", RX_MAC));
        lab.set_up(&lab.rx_netns, RX_DEV, "198.18.0.2/24", ("198.18.0.1", TX_MAC));
        lab.set_gro(peer == Peer::Gro);
        lab
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

    /// Turns GRO at the receiver on or off; with it on, veth takes frames that come by XDP.
    pub(crate) fn set_gro(&self, on: bool) {
        let word = if on { "on" } else { "off" };
        run(&["ip", "netns", "exec", &self.rx_netns, "ethtool", "-K", RX_DEV, "gro", word]);
    }

    /// Frames that the receiver has counted since the pair was made.
    pub(crate) fn received(&self) -> u64 {
        self.rx_counter("rx_packets")
    }

    /// One of the receiver's counters, by its name under `/sys/class/net/rx0/statistics`.
    pub(crate) fn rx_counter(&self, name: &str) -> u64 {
        let path = format!("/sys/class/net/{RX_DEV}/statistics/{name}");
        let text = run(&["ip", "netns", "exec", &self.rx_netns, "cat", &path]);
        text.trim().parse().unwrap_or_else(|_| panic!("{path} holds {text:?}"))
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

impl Drop for Lab {
    fn drop(&mut self) {
        for netns in [&self.tx_netns, &self.rx_netns] {
            remove(netns);
        }
        LIVE.lock().unwrap().retain(|name| *name != self.tx_netns && *name != self.rx_netns);
    }
}

/// Removes every namespace that a lab of this process still holds.
pub(crate) fn remove_all() {
    // Not `unwrap`: a test that panicked with the lock held must not keep the rest from being removed.
    let names = LIVE.lock().map(|live| live.clone()).unwrap_or_else(|poisoned| poisoned.into_inner().clone());
    names.iter().for_each(|name| remove(name));
}

/// Removes the namespaces that test programs left which were killed.
pub(crate) fn sweep() {
    for name in namespaces().iter().filter(|name| is_stale(name)) {
        remove(name);
    }
}

/// Names of all network namespaces that have one.
pub(crate) fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_stale(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    pid.and_then(|pid| pid.parse::<u32>().ok())
        .is_some_and(|pid| !std::fs::exists(format!("/proc/{pid}")).unwrap_or(true))
}

/// Removes one namespace. Its name may be gone already, so what `ip` says of it is no concern.
fn remove(name: &str) {
    let _ = std::process::Command::new("ip").args(["netns", "delete", name]).output();
}

/// Tests of the lab itself: the others rest on it.
pub(crate) const CASES: &[Case] = &[
    case("lab::goes_when_dropped_and_when_a_test_panics", &[], goes_when_dropped_and_when_a_test_panics),
    case("lab::sweep_takes_what_the_dead_left_and_spares_the_living", &[], sweep_spares_the_living),
    case("lab::is_silent_until_someone_sends", &["bash"], is_silent_until_someone_sends),
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
    run(&["ip", "netns", "exec", &lab.tx_netns, "bash", "-c", three]);
    assert_eq!(lab.received(), 3);
    assert_eq!(lab.strangers(), [""; 0]);
    Ok(())
}
