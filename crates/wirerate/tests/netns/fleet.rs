//! A fleet: agents, an unmodified nats-server, and controllers. Each host is an agent with a port
//! in a namespace of its own.

use crate::lab::{Lab, Peer, RX_DEV, Scratch, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, run, until, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use fleet::{CountedFlow, HostStatus, RunEnd, Stat, encode};
use measure::HostClock;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Tests of a fleet.
pub(crate) const CASES: &[Case] = &[
    case("fleet::eight_hosts_and_four_flows_are_whole_and_told_again", NATS, whole),
    case("fleet::a_dead_sender_leaves_bounds_and_the_others_finish", NATS, dead_sender),
    case("fleet::a_dead_hub_that_comes_back_loses_no_counts", NATS, dead_hub),
    case("fleet::agents_stop_without_their_controller", NATS, dead_controller),
    case("fleet::a_host_that_was_cut_off_delivers_later", NATS, cut_off),
    case("fleet::a_run_that_cannot_start_everywhere_starts_nowhere", NATS, not_started),
    case("fleet::two_hundred_dry_hosts_are_merged_exactly", NATS, two_hundred),
    case("fleet::init_makes_a_fleet_with_keys_and_tls", NATS, keys),
    case("fleet::doctor_names_a_hub_that_is_too_old", &[], old_hub),
];

/// Built by tools/install.sh, outside of PATH.
const NATS_SERVER: &str = "/var/cache/wirerate/nats/nats-server";
pub(crate) const NATS: &[&str] = &[NATS_SERVER];

/// A hub on loopback.
pub(crate) struct Hub {
    server: Running,
    pub(crate) port: u16,
    config: String,
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("it has an address").port()
}

impl Hub {
    pub(crate) fn start(scratch: &Scratch) -> Self {
        let (port, store) = (free_port(), scratch.file("store"));
        let text =
            format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n", store.display());
        let config = scratch.file("hub.conf").display().to_string();
        std::fs::write(&config, text).expect("the folder can be written");
        Self { server: serve(&config), port, config }
    }

    /// Its folder is a file system of `size`, which ends with the server.
    pub(crate) fn start_on_tmpfs(scratch: &Scratch, size: &str) -> Self {
        let (port, store) = (free_port(), scratch.file("store"));
        std::fs::create_dir(&store).expect("the folder can be written");
        let store = store.display();
        // What the hub promises to keep is more than there is.
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{store}\", max_file_store: 1GB }}\n"
        );
        let config = scratch.file("hub.conf").display().to_string();
        std::fs::write(&config, text).expect("the folder can be written");
        let mount = format!("mount -t tmpfs -o size={size} none {store} && exec {NATS_SERVER} -c {config}");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &mount]);
        let server = Running::start(command);
        server.until_it_says("Server is ready");
        Self { server, port, config }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The process of the server.
    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    /// Lets the hub keep a message.
    fn publish(&self, subject: &str, payload: &'static [u8]) {
        runtime().block_on(async {
            let client = async_nats::connect(self.url()).await.expect("the hub is there");
            let stream = async_nats::jetstream::new(client);
            let sent = stream.publish(subject.to_owned(), payload.into()).await.expect("connected");
            sent.await.expect("it is kept");
        });
    }

    fn restart(&mut self) {
        self.server = serve(&self.config);
    }
}

pub(crate) fn serve(config: &str) -> Running {
    let mut command = Command::new(NATS_SERVER);
    command.args(["-c", config]);
    let server = Running::start(command);
    server.until_it_says("Server is ready");
    server
}

/// The file of an agent.
pub(crate) fn agent_file(scratch: &Scratch, host: &str, url: &str, ports: &str) -> String {
    let path = scratch.file(&format!("agent-{host}.toml")).display().to_string();
    std::fs::write(&path, format!("host = \"{host}\"\nhub = \"{url}\"\n{ports}")).expect("it can be written");
    path
}

pub(crate) fn port(device: &str, netns: &str) -> String {
    format!("[[port]]\nname = \"p\"\ndevice = \"{device}\"\nnetns = \"{netns}\"\n")
}

pub(crate) fn agent(config: &str, more: &str) -> Running {
    let agent = wirerate_start(&format!("agent --config {config} {more}"));
    agent.until_it_says("wirerate: connected");
    agent
}

/// Pairs of hosts: `s1` sends to `r1`, and so on.
pub(crate) struct Fleet {
    pub(crate) agents: Vec<(String, Running)>,
    pub(crate) labs: Vec<Lab>,
    pub(crate) hub: Hub,
    pub(crate) scratch: Scratch,
}

impl Fleet {
    /// Starts it; `more` are arguments of the agent of a host.
    pub(crate) fn new(pairs: usize, more: impl Fn(&str) -> &'static str) -> Self {
        let scratch = Scratch::new();
        let hub = Hub::start(&scratch);
        Self::of_hub(hub, scratch, pairs, more)
    }

    /// Starts the agents of a hub.
    pub(crate) fn of_hub(
        hub: Hub,
        scratch: Scratch,
        pairs: usize,
        more: impl Fn(&str) -> &'static str,
    ) -> Self {
        let labs: Vec<Lab> = (0..pairs).map(|_| Lab::new(Peer::Gro)).collect();
        let mut agents = Vec::new();
        for (index, lab) in labs.iter().enumerate() {
            for (side, device, netns) in [("s", TX_DEV, &lab.tx_netns), ("r", RX_DEV, &lab.rx_netns)] {
                let host = format!("{side}{}", index + 1);
                let file = agent_file(&scratch, &host, &hub.url(), &port(device, netns));
                agents.push((host.clone(), agent(&file, more(&host))));
            }
        }
        let fleet = Self { agents, labs, hub, scratch };
        fleet.until_all_are_there(2 * pairs);
        fleet
    }

    pub(crate) fn until_all_are_there(&self, count: usize) {
        until("all hosts have announced themselves", || {
            let hosts = wirerate_run(&format!("fleet hosts --json --hub {}", self.hub.url()));
            hosts.stdout.lines().count() == count
        });
    }

    pub(crate) fn agent(&self, host: &str) -> &Running {
        &self.agents.iter().find(|(name, _)| name == host).expect("it is of the fleet").1
    }

    /// The file of a test with a flow per pair.
    pub(crate) fn test(&self, seconds: f64, more: &str, send: &str) -> String {
        let mut text = format!("seconds = {seconds}\n{more}\n");
        for pair in 1..=self.labs.len() {
            text += &format!("[[flow]]\nname = \"f{pair}\"\nfrom = \"s{pair}/p\"\nto = \"r{pair}/p\"\n");
            text += &format!("send = \"{send}\"\n");
        }
        let path = self.scratch.file("test.toml").display().to_string();
        std::fs::write(&path, text).expect("the folder can be written");
        path
    }

    pub(crate) fn start(&self, test: &str) -> Running {
        wirerate_start(&format!("fleet run {test} --json --hub {}", self.hub.url()))
    }

    pub(crate) fn report(&self, run: &str) -> Outcome {
        wirerate_run(&format!("fleet report {run} --json --hub {}", self.hub.url()))
    }

    /// Frames that the receivers' devices have counted.
    pub(crate) fn received(&self) -> u64 {
        self.labs.iter().map(Lab::received).sum()
    }
}

/// The account of a run that is whole. On a loaded machine it may have missed a rate, which is exit
/// code 1.
#[track_caller]
pub(crate) fn whole_account(told: Outcome) -> Value {
    let account = json(&told);
    let flows = account["flows"].as_array().expect("there are flows");
    let has_missed = flows.iter().any(|flow| flow["rate"]["is_missed"] == true);
    let account = json(&told.expect_code(has_missed.into()));
    assert_eq!(account["verdict"], "whole", "{account}");
    account
}

/// A runtime for clients of the hub.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

pub(crate) fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.stdout.trim()).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

pub(crate) fn run_name(account: &Value) -> String {
    account["run"].as_str().expect("a run has a name").to_owned()
}

/// The name of a run that is going on, once it has started.
pub(crate) fn started(running: &Running) -> String {
    running.until_it_says("wirerate: starting at ");
    let said = running.said();
    let rest = said.split("wirerate: run ").nth(1).expect("it names the run");
    rest.split(':').next().expect("a name").to_owned()
}

/// When the first frame of each flow arrived, within this.
fn received_within_ns(account: &Value) -> u64 {
    let flows = account["flows"].as_array().expect("there are flows");
    let first: Vec<u64> = flows.iter().map(|flow| flow["first_ns"].as_u64().expect("it arrived")).collect();
    first.iter().max().zip(first.iter().min()).map_or(0, |(last, first)| last - first)
}

/// The hosts are ready up to 2 s apart; the first frames still leave together.
fn whole() -> TestResult {
    let delays = ["--test-arm-delay 10ms", "--test-arm-delay 2s", "--test-arm-delay 150ms"];
    let fleet = Fleet::new(4, |host| delays[usize::from(host.as_bytes()[1]) % 3]);
    let test = fleet.test(60.0, "", "--count 100k --pps 25k --flows 8 --size 80");
    let told = fleet.start(&test).wait(TIME_LIMIT);
    let (told_text, account) = (told.stdout.clone(), whole_account(told));
    for count in ["sent", "received"] {
        assert_eq!(
            (account[count]["min"].as_u64(), account[count]["max"].as_u64()),
            (Some(400_000), Some(400_000))
        );
    }
    assert_eq!(account["lost"]["max"], 0, "{account}");
    assert_eq!(account["latency"]["stamped"], 400_000, "{account}");
    assert_eq!(account["start"]["clocks_ns"], 0, "one kernel");
    let spread_ns = account["start"]["spread_ns"].as_u64().expect("senders have reported");
    let measured_ns = received_within_ns(&account);
    println!("first frames of four hosts: reported within {spread_ns} ns, received within {measured_ns} ns");
    // The kernel of a loaded machine may deliver a frame some milliseconds after it was sent.
    assert!(measured_ns <= spread_ns + 50_000_000, "{measured_ns}, reported {spread_ns} ns");
    let sum = |of: &str| -> Option<u64> {
        account["seconds"].as_array()?.iter().map(|second| second[of].as_u64()).sum()
    };
    assert_eq!((sum("sent"), sum("received")), (Some(400_000), Some(400_000)), "{account}");
    let hosts = wirerate_run(&format!("fleet hosts --hub {}", fleet.hub.url())).expect_code(0).stdout;
    assert_eq!(hosts.matches(", sends by ").count(), 8, "{hosts}");
    let again = fleet.report(&run_name(&account));
    assert_eq!(again.stdout, told_text, "the report prints the same bytes");
    let list = wirerate_run(&format!("fleet list --hub {}", fleet.hub.url())).expect_code(0);
    assert!(list.stdout.starts_with(&run_name(&account)), "{}", list.stdout);
    // Senders that share a CPU and never sleep would hold each other up. On a loaded machine some
    // frames are late, but not in each of many runs.
    let test = fleet.test(60.0, "", "--count 20 --pps 100 --size 80");
    let within_ns = (0..10).map(|_| received_within_ns(&whole_account(fleet.start(&test).wait(TIME_LIMIT))));
    let mut all_ns = Vec::new();
    let is_together = within_ns.inspect(|ns| all_ns.push(*ns)).any(|ns| ns < 1_000_000);
    println!("first frames of four hosts at 100 frames per second: received within {all_ns:?} ns");
    assert!(is_together, "{all_ns:?}");
    Ok(())
}

fn dead_sender() -> TestResult {
    let fleet = Fleet::new(2, |_| "");
    let running = fleet.start(&fleet.test(6.0, "", "--pps 5k"));
    started(&running);
    until("frames arrive", || fleet.labs[0].received() > 10_000);
    fleet.agent("s1").signal(Signal::SIGKILL);
    let told = running.wait(TIME_LIMIT).expect_code(1);
    told.says(&["s1: nothing for "]);
    let account = json(&told);
    assert_eq!(account["verdict"], "partial", "{account}");
    let [dead, alive] = [0, 1].map(|flow| &account["flows"][flow]);
    assert_eq!(
        (alive["lost"].as_u64(), alive["sent"].as_u64()),
        (Some(0), alive["received"].as_u64()),
        "{account}"
    );
    assert!(dead["lost"].is_null() && dead["sent"].is_null(), "{account}");
    let (received, least) = (dead["received"].as_u64(), dead["sent_bounds"]["min"].as_u64());
    assert!(received.is_some() && received <= least, "{account}");
    assert!(fleet.labs[0].received() >= received.unwrap_or(0), "{account}");
    let text = wirerate_run(&format!("fleet report {} --hub {}", run_name(&account), fleet.hub.url()))
        .expect_code(1);
    assert!(text.stdout.contains("s1: lost; last report "), "{}", text.stdout);
    // Counts that cannot be read, as of another version, hide those of no other host.
    let subject = format!("wr.run.{}.stat.s1", run_name(&account));
    fleet.hub.publish(&subject, br#"{"schema": "wirerate.fleet-stat/1"}"#);
    let text = wirerate_run(&format!("fleet report {} --hub {}", run_name(&account), fleet.hub.url()))
        .expect_code(1)
        .stdout;
    let why = "s1: lost, its newest counts cannot be used: expected a wirerate.fleet-stat/2";
    assert!(text.contains("PARTIAL, 3 of 4 hosts") && text.contains(why), "{text}");
    Ok(())
}

fn dead_hub() -> TestResult {
    let mut fleet = Fleet::new(1, |_| "");
    let running = fleet.start(&fleet.test(8.0, "lease = \"20s\"", "--pps 5k"));
    let run = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 5_000);
    fleet.hub.signal(Signal::SIGKILL);
    running.until_it_says("the hub is away");
    thread::sleep(Duration::from_secs(3));
    fleet.hub.restart();
    running.wait(TIME_LIMIT);
    until("the last counts are there", || json(&fleet.report(&run))["verdict"] == "whole");
    let account = json(&fleet.report(&run));
    let sent = account["sent"]["max"].as_u64().expect("it is exact");
    assert_eq!(
        (account["verdict"].as_str(), account["received"]["max"].as_u64()),
        (Some("whole"), Some(sent))
    );
    assert!(sent <= 40_001, "nothing is counted twice: {account}");
    Ok(())
}

fn dead_controller() -> TestResult {
    let fleet = Fleet::new(1, |_| "");
    let running = fleet.start(&fleet.test(120.0, "lease = \"2s\"", "--pps 2k"));
    let run = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 1_000);
    running.signal(Signal::SIGKILL);
    let received = fleet.received();
    let has_ended = |host: usize| json(&fleet.report(&run))["hosts"][host]["end"] == "orphaned";
    until("the agents have ended the run", || has_ended(0) && has_ended(1));
    let all = fleet.received();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(fleet.received(), all, "nothing is sent any more");
    let account = json(&fleet.report(&run).expect_code(1));
    for host in [0, 1] {
        assert_eq!(account["hosts"][host]["end"], "orphaned", "{account}");
    }
    assert_eq!(account["flows"][0]["lost"], 0, "its counts are complete: {account}");
    // A lease of 2 s, and 2 s for what a loaded machine does late.
    let most = received + 2_000 * (2 + 2);
    assert!(account["sent"]["max"].as_u64() <= Some(most), "it ended with its lease: {account}");
    Ok(())
}

/// A way to the hub that can be cut.
pub(crate) struct Relay {
    pub(crate) port: u16,
    pub(crate) is_cut: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) fn to(hub_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let cut = Arc::clone(&cut);
                let Ok(far) = TcpStream::connect(("127.0.0.1", hub_port)) else { continue };
                for (from, to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())] {
                    let (Ok(from), Ok(to), cut) = (from, to, Arc::clone(&cut)) else { continue };
                    thread::spawn(move || pass(from, to, &cut));
                }
            }
        });
        Self { port, is_cut }
    }
}

/// Passes bytes on; a way that is cut drops nothing, but delivers nothing either.
fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    use std::io::{Read, Write};
    let mut buffer = [0; 4096];
    while let Ok(len) = from.read(&mut buffer) {
        while cut.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        if len == 0 || to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn cut_off() -> TestResult {
    let mut fleet = Fleet::new(1, |_| "");
    let relay = Relay::to(fleet.hub.port);
    let url = format!("nats://127.0.0.1:{}", relay.port);
    let file = agent_file(&fleet.scratch, "s1", &url, &port(TX_DEV, &fleet.labs[0].tx_netns));
    fleet.agents.retain(|(host, _)| host != "s1");
    fleet.agents.push(("s1".to_owned(), agent(&file, "")));
    fleet.until_all_are_there(2);
    // Its silence is noticed 4 s after the cut, while it still sends.
    let running = fleet.start(&fleet.test(8.0, "lease = \"30s\"", "--pps 2k"));
    let run = started(&running);
    until("frames arrive", || fleet.labs[0].received() > 2_000);
    relay.is_cut.store(true, Ordering::Relaxed);
    let told = running.wait(TIME_LIMIT).expect_code(1);
    told.says(&["s1: nothing for "]);
    assert_eq!(json(&told)["verdict"], "partial");
    relay.is_cut.store(false, Ordering::Relaxed);
    until("the last counts are there", || json(&fleet.report(&run))["verdict"] == "whole");
    let account = json(&fleet.report(&run));
    assert_eq!(
        (account["verdict"].as_str(), account["lost"]["max"].as_u64()),
        (Some("whole"), Some(0)),
        "{account}"
    );
    Ok(())
}

fn not_started() -> TestResult {
    let fleet = Fleet::new(2, |host| if host == "r2" { "--test-clock-ahead 50ms" } else { "" });
    let refused = |why: &[&str]| {
        let told = fleet.start(&fleet.test(2.0, "arm = \"4s\"", "--pps 1k")).wait(TIME_LIMIT).expect_code(1);
        told.says(why);
        told.says(&["not started: nothing was sent"]);
        assert_eq!(json(&told)["verdict"], "not_started", "{}", told.stdout);
    };
    refused(&["r2: its clock is ", " ahead of that of the controller"]);
    let enough = fleet.test(1.0, "at_least = 3", "--pps 1k");
    let told = fleet.start(&enough).wait(TIME_LIMIT).expect_code(1);
    assert_eq!(json(&told)["flows"][0]["lost"], 0, "the other pair ran: {}", told.stdout);
    let before = fleet.received();
    // One after another: a frozen agent, the default route, a busy port.
    fleet.agent("s1").signal(Signal::SIGSTOP);
    refused(&["s1: no answer within 4000 ms"]);
    fleet.agent("s1").signal(Signal::SIGCONT);
    run(&["ip", "-n", &fleet.labs[0].tx_netns, "route", "add", "default", "dev", TX_DEV]);
    // It gets the late request first, and the order to abort it.
    until("the frozen agent has let its port go", || {
        let hosts = wirerate_run(&format!("fleet hosts --json --hub {}", fleet.hub.url()));
        !hosts.stdout.contains("\"run\":\"")
    });
    refused(&["s1: cannot send on port p: tx0 carries the default route of the host"]);
    run(&["ip", "-n", &fleet.labs[0].tx_netns, "route", "del", "default", "dev", TX_DEV]);
    assert_eq!(fleet.received(), before, "no frame arrived anywhere");
    let long = fleet.test(60.0, "at_least = 3", "--pps 1k");
    let running = fleet.start(&long);
    let run_name = started(&running);
    until("frames arrive", || fleet.received() > before);
    // Its clock is wrong, so the run goes on without it, and its port is free.
    until("r2 has let its port go, and s1 has not", || {
        let hosts = wirerate_run(&format!("fleet hosts --json --hub {}", fleet.hub.url()));
        let run_of = |name: &str| {
            let hosts = hosts.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            hosts.into_iter().find(|host| host["host"] == name).map(|host| host["ports"][0]["run"].clone())
        };
        run_of("r2") == Some(Value::Null) && run_of("s1") == Some(run_name.clone().into())
    });
    refused(&[&format!("s1: port p is in use by run {run_name}")]);
    let told = wirerate_run(&format!("fleet stop {run_name} --hub {}", fleet.hub.url())).expect_code(0);
    let lines: Vec<&str> = told.stdout.lines().collect();
    assert!(lines[1].starts_with("  r1: stopped, 0 frames sent"), "{}", told.stdout);
    assert_eq!(lines[2], "  r2: it did not take part", "{}", told.stdout);
    let again = wirerate_run(&format!("fleet stop {run_name} --hub {}", fleet.hub.url())).expect_code(0);
    assert!(again.stdout.contains("  s1: it had ended before: stopped"), "{}", again.stdout);
    let account = json(&running.wait(TIME_LIMIT).expect_code(1));
    assert_eq!(account["hosts"][2]["end"], "stopped", "{account}");
    Ok(())
}

fn two_hundred() -> TestResult {
    const HOSTS: usize = 200;
    let scratch = Scratch::new();
    let hub = Hub::start(&scratch);
    let agents: Vec<Running> = (0..HOSTS)
        .map(|host| {
            let ports = "[[port]]\nname = \"p\"\ndry = true\n";
            let file = agent_file(&scratch, &format!("h{host}"), &hub.url(), ports);
            wirerate_start(&format!("agent --config {file}"))
        })
        .collect();
    let mut text = "seconds = 3\narm = \"60s\"\n".to_owned();
    for flow in 0..HOSTS / 2 {
        let (from, to) = (2 * flow, 2 * flow + 1);
        text += &format!(
            "[[flow]]\nfrom = \"h{from}/p\"\nto = \"h{to}/p\"\nsend = \"--pps 1M --size 74 --dst 198.18.0.1\"\n"
        );
    }
    let test = scratch.file("test.toml").display().to_string();
    std::fs::write(&test, text)?;
    let fleet = Fleet { agents: Vec::new(), labs: Vec::new(), hub, scratch };
    fleet.until_all_are_there(HOSTS);
    let asked = Instant::now();
    let running = fleet.start(&test);
    running.until_it_says("200 hosts ready after ");
    let armed = asked.elapsed();
    running.until_it_says("all have agreed after ");
    let counting = asked.elapsed() - armed;
    let told = running.wait(TIME_LIMIT).expect_code(0);
    println!("two hundred hosts were ready after {armed:?}, and had agreed {counting:?} later");
    // Less than a second each on an idle machine.
    assert!(armed < Duration::from_secs(30) && counting < Duration::from_secs(10), "{}", told.stderr);
    let account = json(&told);
    assert_eq!(account["verdict"], "whole", "{account}");
    assert_eq!(
        (account["sent"]["max"].as_u64(), account["lost"]["max"].as_u64()),
        (Some(300_000_000), Some(0))
    );
    let seconds = account["seconds"].as_array().expect("a list");
    let sum = |of: &str| seconds.iter().map(|second| second[of].as_u64().expect("whole")).sum::<u64>();
    assert_eq!((sum("sent"), sum("received")), (300_000_000, 300_000_000), "{account}");
    // The counts of dry ports follow from the time, so the line between two of them is exact.
    assert!(seconds.len() >= 3, "{account}");
    for second in &seconds[..3] {
        assert!(
            second["sent"].as_u64().is_some_and(|sent| sent.abs_diff(100_000_000) < 1_000_000),
            "{account}"
        );
    }
    // What the dry ports compute, in one histogram.
    let mut counts = vec![0; measure::HISTOGRAM_LEN];
    for flow in 0..HOSTS as u64 / 2 {
        for sample in 0..3000 {
            counts[measure::histogram_index(10_000 + flow * 100 + sample * 7919 % 10_000)] += 1;
        }
    }
    let all = measure::HistogramLog::new(&counts);
    assert_eq!(
        account["latency"]["histogram"],
        all.v2_base64(),
        "merged is the same as one histogram of all"
    );
    let p99 =
        account["latency"]["percentiles"].as_array().and_then(|rows| rows.iter().find(|row| row[0] == 99.0));
    assert_eq!(p99.map(|row| &row[1]), Some(&all.percentile_ns(99.0).into()), "{account}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", agents[0].id()))?;
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let (own, all) = (kib("RssAnon:"), kib("VmRSS:"));
    println!("an agent has {own:?} KiB of its own, {all:?} KiB with the program");
    assert!(own < Some(16 << 10), "{status}");
    Ok(())
}

/// A fleet with keys of the dry hosts h1 and h2, by the files of `fleet init`.
pub(crate) struct KeyedFleet {
    pub(crate) server: Running,
    pub(crate) agents: [Running; 2],
    /// The folder of the files.
    pub(crate) dir: String,
    pub(crate) port: u16,
    pub(crate) scratch: Scratch,
}

impl KeyedFleet {
    /// Starts it. The files have another port than those that `fleet init` writes.
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let dir = scratch.file("fleet").display().to_string();
        let told = wirerate_run(&format!("fleet init --hosts h1,h2 --dir {dir} --ports p")).expect_code(0);
        assert!(
            told.stdout.contains("nats-server -c")
                && told.stdout.contains("wirerate agent --config agent-h1.toml")
        );
        let again = wirerate_run(&format!("fleet init --hosts h1 --dir {dir}")).expect_code(2);
        again.says(&["exists, and keys are not replaced"]);
        let port = free_port();
        for file in ["hub.conf", "fleet.toml", "viewer.toml", "agent-h1.toml", "agent-h2.toml"] {
            let path = format!("{dir}/{file}");
            // The digits alone may be part of a key.
            let text = std::fs::read_to_string(&path).expect("init wrote it");
            let text = text.replace(":4222", &format!(":{port}"));
            let text = text.replace("port: 4222", &format!("host: 127.0.0.1\nport: {port}"));
            let text = text.replace("device = \"p\"", "dry = true");
            std::fs::write(&path, text).expect("it can be written");
        }
        let server = serve(&format!("{dir}/hub.conf"));
        let agents = ["h1", "h2"].map(|host| agent(&format!("{dir}/agent-{host}.toml"), ""));
        until("both hosts are there", || {
            wirerate_run(&format!("fleet hosts --json --hub {dir}/fleet.toml")).stdout.lines().count() == 2
        });
        Self { server, agents, dir, port, scratch }
    }

    /// The file of a test of one flow from h1 to h2.
    pub(crate) fn test(&self, seconds: f64) -> String {
        let path = self.scratch.file("test.toml").display().to_string();
        let text = format!(
            "seconds = {seconds}\n[[flow]]\nname = \"f\"\nfrom = \"h1/p\"\nto = \"h2/p\"\nsend = \"--pps 1k --dst 198.18.0.1\"\n"
        );
        std::fs::write(&path, text).expect("the folder can be written");
        path
    }
}

/// The files of `fleet init`.
fn keys() -> TestResult {
    let fleet = KeyedFleet::new();
    let config = format!("--hub {}/fleet.toml", fleet.dir);
    let test = fleet.test(1.0);
    let account = json(&wirerate_run(&format!("fleet run {test} --json {config}")).expect_code(0));
    assert_eq!(account["sent"]["max"], 1000, "{account}");
    std::fs::write(&test, std::fs::read_to_string(&test)?.replace("198.18.0.1", "8.8.8.8"))?;
    wirerate_run(&format!("fleet run {test} {config}"))
        .expect_code(1)
        .says(&["h1: cannot send on port p: allow_dst"]);
    let run = run_name(&account);
    misuse(&fleet.dir, fleet.port, &run);
    let hosts = wirerate_run(&format!("fleet hosts --json {config}")).expect_code(0).stdout;
    let named = |host: &str| hosts.matches(&format!("\"host\":\"{host}\"")).count();
    assert_eq!(named("h2"), 1, "h1 does not speak for h2: {hosts}");
    let account = json(&wirerate_run(&format!("fleet report {run} --json {config}")).expect_code(0));
    assert_eq!(account["received"]["max"], 1000, "h1 has not changed the counts of h2: {account}");
    let ends = [0, 1].map(|host| &account["hosts"][host]["end"]);
    assert_eq!(ends, ["done", "done"], "its own last counts are still known: {account}");
    // Without the key, and without TLS.
    let plain = wirerate_run(&format!("fleet hosts --hub nats://127.0.0.1:{}", fleet.port)).expect_code(3);
    plain.says(&["was not reached"]);
    drop(fleet.server);
    wirerate_run(&format!("fleet hosts {config}"))
        .expect_code(3)
        .says(&["was not reached", "try: nats-server"]);
    Ok(())
}

/// What the key of h1 may do, and what not.
fn misuse(dir: &str, port: u16, run: &str) {
    let refusals = Arc::new(Mutex::new(Vec::<String>::new()));
    let seen = Arc::clone(&refusals);
    let seed = std::fs::read_to_string(format!("{dir}/h1.nk")).expect("init made it");
    let options = async_nats::ConnectOptions::with_nkey(seed.trim().to_owned())
        .add_root_certificates(format!("{dir}/hub-cert.pem").into())
        .require_tls(true)
        .event_callback(move |event| {
            seen.lock().expect("no panic").push(event.to_string());
            async {}
        });
    let runtime = runtime();
    runtime.block_on(async {
        let client = options.connect(format!("tls://127.0.0.1:{port}")).await.expect("its own key");
        let send = async |subject: &str, body: Vec<u8>| {
            client.publish(subject.to_owned(), body.into()).await.expect("connected");
        };
        let publish = async |subject: &str| send(subject, b"{}".to_vec()).await;
        publish("wr.run.r1.stat.h1").await;
        // The right subject, with the name of another host in the message.
        send(&format!("wr.run.{run}.stat.h1"), encode(&forged_stat(run))).await;
        send("$KV.wr_hosts.h1", encode(&forged_host())).await;
        client.subscribe("wr.host.h1.*").await.expect("connected");
        client.flush().await.expect("connected");
        for subject in
            ["wr.run.r1.drain", "wr.run.r1.stop", "wr.run.r1.stat.h2", "wr.host.h2.order", "$KV.wr_hosts.h2"]
        {
            publish(subject).await;
        }
        for subject in ["wr.host.h2.*", "_INBOX_h2.>", "_INBOX.>", "wr.run.*.stat.h2", ">"] {
            client.subscribe(subject).await.expect("connected");
        }
        client.flush().await.expect("connected");
        until("all refusals are there", || {
            refusals.lock().expect("no panic").iter().filter(|text| is_refusal(text)).count() >= 10
        });
        let refusals = refusals.lock().expect("no panic");
        let named = |subject: &str| {
            refusals.iter().any(|text| is_refusal(text) && text.contains(&format!("\"{subject}\"")))
        };
        assert!(!named("wr.run.r1.stat.h1") && !named("wr.host.h1.*"), "{refusals:?}");
        for subject in ["wr.run.r1.stop", "wr.host.h2.order", "wr.host.h2.*", "_INBOX_h2.>"] {
            assert!(named(subject), "{subject}: {refusals:?}");
        }
    });
    let no_tls = runtime.block_on(
        async_nats::ConnectOptions::with_nkey(seed.trim().to_owned())
            .connect(format!("nats://127.0.0.1:{port}")),
    );
    assert!(no_tls.is_err(), "a hub with TLS takes no other connection that does not know its certificate");
}

/// Counts in the name of h2.
fn forged_stat(run: &str) -> Stat {
    let (run, host) = (run.parse().expect("it is the name of a run"), "h2".parse().expect("it is a name"));
    Stat {
        number: 1_000_000,
        has_sent_all: true,
        flows: vec![CountedFlow { received: Some(5), ..CountedFlow::default() }],
        is_last: true,
        end: Some(RunEnd::Done),
        ..Stat::new(run, host, 1)
    }
}

/// An announcement in the name of h2.
fn forged_host() -> HostStatus {
    HostStatus {
        host: "h2".parse().expect("it is a name"),
        instance: 1,
        has_double: false,
        version: String::new(),
        protocol: fleet::PROTOCOL,
        boot_id: String::new(),
        time_ns: 0,
        clock: HostClock::default(),
        clock_daemon: None,
        tai_offset_s: 0,
        ports: Vec::new(),
    }
}

fn is_refusal(event: &str) -> bool {
    event.to_lowercase().contains("permissions violation")
}

/// A server that says that it is the one of Debian 12.
fn old_hub() -> TestResult {
    use std::io::{BufRead, BufReader, Write};
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let info = r#"INFO {"server_id":"X","server_name":"old","version":"2.9.10","proto":1,"host":"127.0.0.1","port":1,"max_payload":1048576,"client_id":1,"headers":true}"#;
            let _ = write!(stream, "{info}\r\n");
            let Ok(reader) = stream.try_clone() else { continue };
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                if line.starts_with("PING") {
                    let _ = write!(stream, "PONG\r\n");
                }
            }
        }
    });
    let told = wirerate_run(&format!("doctor --hub nats://127.0.0.1:{port}")).expect_code(3);
    told.says(&["is nats-server 2.9.10: 2.10 or later is needed", "Debian 12 is too old"]);
    Ok(())
}
