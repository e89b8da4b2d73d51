//! `wirerate otg` with ports of a fleet: what runs on one machine runs unchanged over hosts. Each
//! host is an agent with ports in namespaces.

use crate::fleet::{Hub, NATS, agent, agent_file, runtime};
use crate::lab::{Lab, Peer, RX_DEV, Scratch, TX_DEV};
use crate::otg::{check, post, script_with, serve_with, transmit};
use crate::program::{Running, TIME_LIMIT, until, wirerate_run};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Tests of the API over hosts.
pub(crate) const CASES: &[Case] = &[
    case("otg_fleet::a_script_sees_over_hosts_what_it_sees_on_one_machine", NATS, same_script),
    case("otg_fleet::scripts_of_one_machine_see_the_same_over_hosts", NATS, same_scripts),
    case("otg_fleet::a_dead_host_has_no_rows_and_the_others_go_on", NATS, dead_host),
    case("otg_fleet::limits_of_agents_hold", NATS, limits),
    case("otg_fleet::values_are_the_same_on_all_hosts_and_final", NATS, values),
    case("otg_fleet::an_order_that_waits_ends_with_its_configuration", NATS, released_while_waiting),
];

/// Three hosts in a chain: `h1/p` to `h2/p`, and `h2/q` to `h3/p`.
struct Chain {
    agents: Vec<Running>,
    labs: [Lab; 2],
    hub: Hub,
    scratch: Scratch,
}

impl Chain {
    /// Starts it. `limits` are lines for the port of `h1`.
    fn new(limits: &str) -> Self {
        let scratch = Scratch::new();
        let hub = Hub::start(&scratch);
        let labs = [(); 2].map(|()| Lab::new(Peer::Gro));
        let port = |name: &str, device: &str, netns: &str| {
            format!("[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\nnetns = \"{netns}\"\n")
        };
        let [first, second] = &labs;
        let of_h2 = port("p", RX_DEV, &first.rx_netns) + &port("q", TX_DEV, &second.tx_netns);
        let hosts = [
            ("h1", port("p", TX_DEV, &first.tx_netns) + limits),
            ("h2", of_h2),
            ("h3", port("p", RX_DEV, &second.rx_netns)),
        ];
        let start =
            |(host, ports): (&str, String)| agent(&agent_file(&scratch, host, &hub.url(), &ports), "");
        Self { agents: hosts.map(start).into(), labs, hub, scratch }
    }

    /// Starts the agent of `h3` again.
    fn restart_h3(&mut self) {
        self.agents.push(agent(&self.scratch.file("agent-h3.toml").display().to_string(), ""));
    }

    /// The server and its address.
    fn serve(&self) -> (Running, String) {
        serve_with(&format!(" --hub {}", self.hub.url()))
    }

    fn locations() -> [String; 4] {
        ["h1/p", "h2/p", "h2/q", "h3/p"].map(str::to_owned)
    }

    /// The ports of `locations` as one machine names them: NETNS/DEV.
    fn devices(&self) -> [String; 4] {
        let [first, second] = &self.labs;
        [
            format!("{}/{TX_DEV}", first.tx_netns),
            format!("{}/{RX_DEV}", first.rx_netns),
            format!("{}/{TX_DEV}", second.tx_netns),
            format!("{}/{RX_DEV}", second.rx_netns),
        ]
    }

    fn post(&self, address: &str, path: &str, body: &Value) -> (u64, Value) {
        post(&self.labs[0], address, path, body)
    }
}

/// Counts, patterns, pause and resume, rates that change in flight, flows that come and go,
/// latencies: only the locations and the server differ from the tests of one machine.
fn same_script() -> TestResult {
    let chain = Chain::new("");
    let see = |address: &str, transport: &str, name: &str, locations: &[String; 4]| {
        let location = if transport == "grpc" { address.to_owned() } else { format!("https://{address}") };
        let seen = script_with(&location, transport, name, locations);
        seen.iter().for_each(|seen| check(name, seen));
        seen.is_some()
    };
    let (server, address) = chain.serve();
    let over_hosts = Chain::locations();
    if !see(&address, "grpc", "counts", &over_hosts) {
        return Ok(());
    }
    for name in ["captured", "control", "times", "append_delete", "chain", "tags", "copies", "ping"] {
        see(&address, "http", name, &over_hosts);
    }
    server.signal(Signal::SIGTERM);
    server.wait(TIME_LIMIT).expect_code(0);
    let [tx, rx, tx2, rx2] = chain.devices();
    let here = tx.replace('/', "-");
    let (netns, device) = tx.split_once('/').expect("both");
    // The port of a host, now free, as a device of this one beside ports of others.
    let (server, address) = serve_with(&format!(" --hub {} --port {here}={device}@{netns}", chain.hub.url()));
    see(&address, "http", "chain", &[here, "h2/p".to_owned(), "h2/q".to_owned(), "h3/p".to_owned()]);
    server.signal(Signal::SIGTERM);
    server.wait(TIME_LIMIT).expect_code(0);
    let (_server, address) = serve_with("");
    see(&address, "http", "chain", &[tx, rx, tx2, rx2]);
    Ok(())
}

/// The functions of the script with two ports that [`same_script`] does not run.
fn same_scripts() -> TestResult {
    let chain = Chain::new("");
    let (_server, address) = chain.serve();
    for (name, transport) in [
        ("mesh", "grpc"),
        ("sizes", "http"),
        ("update", "http"),
        ("devices", "grpc"),
        ("vlans", "http"),
        ("link", "http"),
        ("several", "http"),
        ("asking", "http"),
        ("convoys", "http"),
        ("final", "http"),
        ("replaced", "http"),
        ("two_clients", "http"),
        ("bursts", "http"),
    ] {
        let location = if transport == "grpc" { address.clone() } else { format!("https://{address}") };
        let Some(seen) = script_with(&location, transport, name, &Chain::locations()) else { return Ok(()) };
        check(name, &seen);
    }
    Ok(())
}

/// A flow of a config without an end.
fn flow(name: &str, tx: &str, rx: &str) -> Value {
    json!({"name": name, "tx_rx": {"port": {"tx_name": tx, "rx_names": [rx]}}, "rate": {"pps": 1000},
        "packet": [{"ethernet": {}}, {"ipv4": {"dst": {"value": "198.18.0.2"}}}, {"udp": {}}],
        "metrics": {"enable": true, "loss": true}})
}

fn config(flows: &[Value]) -> Value {
    let ports = ["a", "b", "c", "d"].into_iter().zip(Chain::locations());
    let port = |(name, location): (&str, String)| json!({"name": name, "location": location});
    json!({"ports": ports.map(port).collect::<Vec<_>>(), "flows": flows})
}

fn errors(answer: &(u64, Value)) -> String {
    answer.1["errors"]
        .as_array()
        .expect("errors")
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("\n")
}

fn dead_host() -> TestResult {
    let mut chain = Chain::new("");
    let (server, address) = chain.serve();
    let good = (200, json!({"warnings": []}));
    let both = config(&[flow("alive", "a", "b"), flow("dead", "c", "d")]);
    assert_eq!(chain.post(&address, "/config", &both), good);
    assert_eq!(chain.post(&address, "/control/state", &transmit("start")), good);
    let row = |chain: &Chain, name: &str| {
        chain.post(&address, "/monitor/metrics", &json!({"choice": "flow", "flow": {"flow_names": [name]}}))
    };
    let received = |chain: &Chain, name: &str| {
        row(chain, name).1["flow_metrics"][0]["frames_rx"].as_u64().expect("a number")
    };
    until("frames of both flows", || ["alive", "dead"].iter().all(|name| received(&chain, name) > 100));
    let h3 = chain.agents.pop().expect("three");
    h3.signal(Signal::SIGKILL);
    drop(h3);
    let seen = row(&chain, "dead");
    assert_eq!(seen.0, 500, "{seen:?}");
    assert!(errors(&seen).contains("h3: ") && errors(&seen).contains("flow dead are not known"), "{seen:?}");
    let before = received(&chain, "alive");
    until("more frames of the other flow", || received(&chain, "alive") > before + 100);
    let seen = chain.post(&address, "/monitor/metrics", &json!({"choice": "port"}));
    assert!(seen.0 == 500 && errors(&seen).contains("the counts of its ports are not known"), "{seen:?}");
    // All senders are stopped, and the answer names the host whose counts are not known.
    let seen = chain.post(&address, "/control/state", &transmit("stop"));
    assert!(seen.0 == 500 && errors(&seen).contains("h3: "), "{seen:?}");
    let rows = row(&chain, "alive").1;
    let last = &rows["flow_metrics"][0];
    assert_eq!((&last["transmit"], &last["loss"]), (&json!("stopped"), &json!(0.0)), "{last}");
    let frames = chain.labs[1].received();
    // A new configuration does without it.
    let seen = chain.post(&address, "/config", &both);
    assert!(seen.0 == 500 && errors(&seen).contains("h3: no agent is connected under this name"), "{seen:?}");
    let mut alive = config(&[flow("alive", "a", "b")]);
    alive["ports"].as_array_mut().expect("ports").truncate(2);
    assert_eq!(chain.post(&address, "/config", &alive), good);
    assert_eq!(chain.post(&address, "/control/state", &transmit("start")), good);
    until("frames", || received(&chain, "alive") > 100);
    assert_eq!(chain.labs[1].received(), frames, "nothing more was sent to the dead host");
    // Its next agent is another instance, and takes part.
    assert_eq!(chain.post(&address, "/control/state", &transmit("stop")), good);
    chain.restart_h3();
    until("the host is back", || chain.post(&address, "/config", &both) == good);
    assert_eq!(chain.post(&address, "/control/state", &transmit("start")), good);
    until("frames to it", || received(&chain, "dead") > 100);
    // Without their controller, agents end the flows and let the ports go.
    server.signal(Signal::SIGKILL);
    until("the ports are free", || {
        let hosts = wirerate_run(&format!("fleet hosts --json --hub {}", chain.hub.url()));
        hosts.stdout.lines().count() == 3 && !hosts.stdout.contains("\"run\":\"")
    });
    chain.agents[0].until_it_says("no controller for 10.00 s");
    let frames = chain.labs[0].received();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(chain.labs[0].received(), frames, "nothing is sent any more");
    assert!(!chain.labs[0].has_xdp());
    Ok(())
}

fn limits() -> TestResult {
    let chain = Chain::new("max_pps = \"2k\"\nallow_dst = [\"198.18.0.0/24\"]\n");
    let (_server, address) = chain.serve();
    let set = |config: &Value| chain.post(&address, "/config", config);
    let (good, bad) = ((200, json!({"warnings": []})), 400);
    let refused = |config: &Value, status: u64, why: &str| {
        let seen = set(config);
        assert!(seen.0 == status && errors(&seen).contains(why), "{why}: {seen:?}");
    };
    let mut flows = vec![flow("back", "b", "a"), flow("one", "a", "b"), flow("two", "a", "b")];
    assert_eq!(set(&config(&flows)), good);
    flows[1]["rate"] = json!({"pps": 1001});
    refused(&config(&flows), bad, "h1: 2.001 kpps on port p, and max_pps in the agent's file is 2.000 kpps");
    // The path is that of the whole configuration.
    flows[1] = flow("one", "c", "d");
    flows[2]["packet"][1] = json!({"ipv4": {"dst": {"value": "10.0.0.1"}}});
    let why = "flows[2].packet: h1: allow_dst of port p in the agent's file does not include 10.0.0.1";
    refused(&config(&flows), bad, why);
    // What emulated interfaces send is limited, too.
    let mut emulated = config(&[]);
    emulated["devices"] = json!([{"name": "dev", "ethernets": [{"name": "d-eth", "mac": "02:00:00:00:00:01",
        "connection": {"port_name": "a"},
        "ipv4_addresses": [{"name": "d-ip", "address": "198.18.0.1", "gateway": "198.18.1.2"}]}]}]);
    let why =
        "h1: interface d-ip: gateway: allow_dst of port p in the agent's file does not include 198.18.1.2";
    refused(&emulated, bad, why);
    emulated["devices"][0]["ethernets"][0]["ipv4_addresses"][0]["gateway"] = json!("198.18.0.2");
    assert_eq!(set(&emulated), good);
    let ping = |to: &str| {
        let requests = json!({"requests": [{"src_name": "d-ip", "dst_ip": to}]});
        let protocol = json!({"choice": "ipv4", "ipv4": {"choice": "ping", "ping": requests}});
        chain.post(&address, "/control/action", &json!({"choice": "protocol", "protocol": protocol}))
    };
    let seen = ping("203.0.113.9");
    let why =
        "h1: interface d-ip: ping: allow_dst of port p in the agent's file does not include 203.0.113.9";
    assert!(seen.0 == bad && errors(&seen).contains(why), "{seen:?}");
    assert_eq!(ping("198.18.0.2").0, 200);
    assert_eq!(set(&config(&[flow("back", "b", "a"), flow("one", "a", "b"), flow("two", "a", "b")])), good);
    let mut other = config(&[]);
    other["ports"][0]["location"] = json!("h1/eth9");
    refused(&other, bad, "ports[0].location: h1: the agent's file has no port eth9, only p");
    other["ports"][0]["location"] = json!("h9/p");
    refused(&other, 500, "h9: no agent is connected under this name");
    let many: Vec<Value> = (0..6000).map(|number| flow(&format!("f{number}"), "b", "a")).collect();
    refused(&config(&many), 500, "bytes: the hub takes 1048576 (max_payload in hub.conf)");
    // The first configuration is still in force; another controller cannot have its ports.
    assert_eq!(chain.post(&address, "/control/state", &transmit("start")), good);
    let (_second, second) = chain.serve();
    let seen = chain.post(&second, "/config", &config(&[]));
    assert!(seen.0 == 500 && errors(&seen).contains("h1: port p is in use by run otg"), "{seen:?}");
    assert_eq!(set(&json!({})), good);
    assert_eq!(chain.post(&second, "/config", &config(&[])), good);
    Ok(())
}

/// Random values without a seed are those of the sender and of the controller. The first answer
/// with `stopped` has all of them.
fn values() -> TestResult {
    let chain = Chain::new("");
    let (_server, address) = chain.serve();
    let random =
        json!({"random": {"min": 1, "max": 60_000, "seed": 0, "count": 2}, "metric_tags": [{"name": "p"}]});
    let mut drawn = flow("f", "a", "b");
    drawn["packet"][2]["udp"]["src_port"] = random;
    drawn["duration"] = json!({"fixed_packets": {"packets": 100}});
    let good = (200, json!({"warnings": []}));
    assert_eq!(chain.post(&address, "/config", &config(&[flow("g", "a", "b"), drawn])), good);
    let mut order = transmit("start");
    order["traffic"]["flow_transmit"]["flow_names"] = json!(["f"]);
    for _ in 0..8 {
        assert_eq!(chain.post(&address, "/control/state", &order), good);
        let mut row = Value::Null;
        until("the flow to stop", || {
            let request = json!({"choice": "flow", "flow": {"flow_names": ["f"]}});
            row = chain.post(&address, "/monitor/metrics", &request).1["flow_metrics"][0].clone();
            row["transmit"] == "stopped"
        });
        let counts =
            |row: &Value| ["frames_tx", "frames_rx"].map(|name| row[name].as_u64().expect("a number"));
        let tagged = row["tagged_metrics"].as_array().expect("rows of values");
        assert_eq!((tagged.len(), counts(&row)), (2, [100, 100]), "{row}");
        assert!(tagged.iter().all(|row| counts(row) == [50, 50]), "{row}");
    }
    Ok(())
}

/// A controller that lets its ports go while another of its orders waits for the start.
fn released_while_waiting() -> TestResult {
    use fleet::{AgentAnswer, FlowStart, Order, OrderRequest, OrderResult, OtgPart, Part, decode, encode};
    let chain = Chain::new("");
    let config = json!({
        "ports": [{"name": "a", "location": "h1/p"}, {"name": "b", "location": "h2/p"}],
        "flows": [{
            "name": "f", "metrics": {"enable": true},
            "tx_rx": {"choice": "port", "port": {"tx_name": "a", "rx_name": "b"}},
            "rate": {"choice": "pps", "pps": 1000}
        }]
    });
    let part = OtgPart { config, ports: vec![0], mark: 7, seed: 1 };
    let start = FlowStart { flow: 0, number: Some(3), rank: 0 };
    let ask = async |client: &async_nats::Client, order: Order| -> OrderResult {
        let request = OrderRequest { run: "r1".parse().expect("a name"), lease_ms: 60_000, order };
        let payload = encode(&request).into();
        let answer = client.request("wr.host.h1.order", payload).await.expect("the agent answers");
        decode::<AgentAnswer>(&answer.payload).expect("it is an answer").result
    };
    let waited = runtime().block_on(async {
        let client = async_nats::connect(chain.hub.url()).await.expect("the hub is there");
        // An agent that was started again has nothing to let go. A configuration may come later.
        let released = ask(&client, Order::Release).await;
        assert!(matches!(released, OrderResult::Done { .. }), "{released:?}");
        let set = ask(&client, Order::Prepare(Part::Config(part))).await;
        assert!(matches!(set, OrderResult::Done { .. }), "{set:?}");
        let arm = Order::Arm { flows: vec![start], flow_count: 1, clears_ports: true };
        let armed = ask(&client, arm).await;
        assert!(matches!(armed, OrderResult::Done { .. }), "{armed:?}");
        let release = async {
            tokio::time::sleep(std::time::Duration::from_millis(600)).await;
            ask(&client, Order::Release).await
        };
        let (waited, released) = tokio::join!(ask(&client, Order::AwaitStart { flows: vec![0] }), release);
        assert!(matches!(released, OrderResult::Done { .. }), "{released:?}");
        waited
    });
    let OrderResult::Refused { errors, .. } = waited else { panic!("{waited:?}") };
    assert!(errors[0].contains("the configuration was released"), "{errors:?}");
    assert!(!chain.agents[0].said().contains("panicked"), "{}", chain.agents[0].said());
    Ok(())
}
