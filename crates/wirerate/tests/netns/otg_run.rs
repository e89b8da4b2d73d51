//! The examples of docs/otg.md, and `wirerate otg run`, which needs no server.

use crate::lab::{Lab, Peer};
use crate::otg::{PYTHON, has_snappi, ports_of, serve_with};
use crate::program::{Running, TIME_LIMIT, run, until, wirerate, wirerate_start};
use crate::{Case, TestResult, case};
use serde_json::{Value, json};
use std::process::Command;

/// Tests of files that are run.
pub(crate) const CASES: &[Case] = &[
    case("otg::the_page_measures_a_router", &[], router),
    case("otg::run_checks_what_it_measures", &["setpriv"], run_config),
    case("otg::run_finds_crossed_cables_and_missing_copies", &[], misdirected),
];

/// The blocks of docs/otg.md with an indent, in order.
fn blocks() -> Vec<String> {
    let page = std::fs::read_to_string(testkit::root().join("docs/otg.md"));
    let mut blocks = vec![String::new()];
    for line in page.expect("the page is there").lines() {
        let last = blocks.last_mut().expect("there is one");
        match line.strip_prefix("    ") {
            Some(code) => last.extend([code, "\n"]),
            None if last.is_empty() => {}
            None => blocks.push(String::new()),
        }
    }
    blocks
}

/// A block of docs/otg.md that has these words, in a file.
fn block(lab: &Lab, name: &str, words: &str) -> std::path::PathBuf {
    let found = blocks().into_iter().find(|block| block.contains(words));
    let file = lab.file(name);
    std::fs::write(&file, found.expect("the page has it")).expect("the lab's folder can be written");
    file
}

/// Makes the receiving namespace a router between `rx0` and `r2`, whose other end is `out0` beside
/// `tx0`. The addresses are those of docs/otg.md.
fn make_router(lab: &Lab) {
    let of_router = |words: &str| {
        let words: Vec<&str> = ["ip", "-n", &lab.rx_netns].into_iter().chain(words.split(' ')).collect();
        run(&words);
    };
    of_router(&format!("link add r2 type veth peer name out0 netns {}", lab.tx_netns));
    run(&["ip", "-n", &lab.tx_netns, "link", "set", "out0", "up"]);
    of_router("link set r2 up");
    of_router("link set rx0 arp on");
    of_router("address add 198.18.1.1/24 dev rx0");
    of_router("address add 198.18.2.1/24 dev r2");
    let router = host::Netns::named(&lab.rx_netns).expect("the lab has it");
    router.set_sysctl("ipv4/ip_forward", "1").expect("root may forward");
}

fn router() -> TestResult {
    if !has_snappi() {
        return Ok(());
    }
    let lab = Lab::new(Peer::Gro);
    make_router(&lab);
    let ports = format!(" --port eth1=tx0@{0} --port eth2=out0@{0}", lab.tx_netns);
    let config = block(&lab, "router.yaml", "ports:");
    let (server, address) = serve_with(&ports);
    let python = block(&lab, "router.py", "deserialize");
    let script = std::fs::read_to_string(&python)?;
    assert_eq!(script.lines().count(), 10, "{script}");
    std::fs::write(&python, script.replace("localhost:8443", &address))?;
    let output = Command::new(PYTHON).arg(&python).current_dir(lab.file("")).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    let words: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [sent, received, loss, latency_us] = words[..] else { panic!("{said}") };
    assert_eq!((sent, received, loss), (10_000.0, 10_000.0, 0.0), "{said}");
    assert!(0.0 < latency_us && latency_us < 1e6, "{said}");
    drop(server);
    // The same file without a server, once the devices are free.
    until("the receiver's program to go", || {
        !run(&["ip", "-n", &lab.tx_netns, "link", "show", "dev", "out0"]).contains("xdp")
    });
    let words = format!("otg run {} --expect lost=0 --expect max<10s --json{ports}", config.display());
    // Exit code 1 with the rate that was reached: the machine has other work.
    let outcome = wirerate_start(&words).wait(std::time::Duration::from_secs(60));
    let is_late = outcome.code == Some(1) && outcome.stderr.contains("asked 10.00 kpps, reached");
    let outcome = if is_late { outcome } else { outcome.expect_code(0) };
    let lines: Vec<Value> = outcome.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let [flow, report] = &lines[..] else { panic!("{}", outcome.stdout) };
    assert_eq!((&flow["schema"], &flow["frames_rx"]), (&json!("wirerate.otg-flow/1"), &json!(10_000)));
    assert_eq!((&report["schema"], &report["device"]), (&json!("wirerate.measure/1"), &json!("out0")));
    assert_eq!((&report["loss"]["sent"], &report["loss"]["lost_max"]), (&json!(10_000), &json!(0)));
    assert_eq!((&report["stamped"], &report["failed_checks"]), (&json!(10_000), &json!([])), "{report}");
    Ok(())
}

/// Frames that arrive at the port of another flow make up for none that are lost there.
fn misdirected() -> TestResult {
    let labs = [(); 2].map(|()| Lab::new(Peer::Gro));
    let of = |lab: usize, ports: &mut Vec<Value>| {
        let Value::Array(list) = ports_of(&labs[lab]) else { unreachable!("a list") };
        ports.extend(list.into_iter().map(|mut port| {
            port["name"] = json!(format!("{}{lab}", port["name"].as_str().expect("a name")));
            port
        }));
    };
    let mut ports = Vec::new();
    of(0, &mut ports);
    of(1, &mut ports);
    let flow = |name: &str, tx: &str, rx: &[&str], latency: bool| {
        json!({"name": name, "tx_rx": {"port": {"tx_name": tx, "rx_names": rx}}, "rate": {"pps": 2000},
            "duration": {"fixed_packets": {"packets": 100}},
            "metrics": {"enable": true, "latency": {"enable": latency}}})
    };
    let file = labs[0].file("config.json");
    let run_with = |flows: &[Value], options: &str| {
        std::fs::write(&file, json!({"ports": ports, "flows": flows}).to_string()).expect("it is written");
        let words = format!("otg run {} --json{options}", file.display());
        let outcome = wirerate_start(&words).wait(std::time::Duration::from_secs(60));
        let lines = outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let reports: Vec<Value> = lines.filter(|line: &Value| line["loss"].is_object()).collect();
        (outcome.code, reports)
    };
    // Flow a goes where flow b is to arrive, and the other way round.
    let crossed = [flow("a", "tx0", &["rx1"], false), flow("b", "tx1", &["rx0"], true)];
    // The frames of flow c arrive nowhere in the configuration, but at the port of flow d.
    let hidden = [flow("d", "tx1", &["rx0"], false), flow("c", "tx0", &[], false)];
    for (flows, ports) in [(&crossed, 2), (&hidden, 1)] {
        for options in ["", " --expect lost=0"] {
            let (code, reports) = run_with(flows, options);
            assert_eq!((code, reports.len()), (Some(1), ports), "{reports:?}");
            for report in reports {
                let loss = &report["loss"];
                assert_eq!((&loss["sent"], &loss["lost_max"]), (&json!(100), &json!(100)), "{report}");
                assert_eq!((&report["received"], &report["foreign"]), (&json!(0), &json!(100)), "{report}");
                assert_eq!((&report["latency"], &report["broken"]), (&Value::Null, &json!([])), "{report}");
            }
        }
    }
    let (code, reports) = run_with(&[flow("e", "tx0", &["rx0"], true)], " --expect lost=0");
    assert_eq!((code, &reports[0]["stamped"]), (Some(0), &json!(100)), "{reports:?}");
    // The network makes no copies.
    let mut copies = flow("e", "tx0", &["rx0"], false);
    copies["metrics"]["rx_tx_ratio"] = json!({"value": 2.0});
    let (code, reports) = run_with(&[copies.clone()], "");
    let loss = reports[0]["loss"].clone();
    assert_eq!((code, &loss["sent"], &loss["lost_max"]), (Some(1), &json!(200), &json!(100)), "{loss}");
    copies["tx_rx"]["port"]["rx_names"] = json!(["rx0", "rx1"]);
    copies["metrics"]["rx_tx_ratio"] = json!({"choice": "rx_count"});
    let (code, reports) = run_with(&[copies], " --expect lost<=50%");
    let lost: Vec<&Value> = reports.iter().map(|report| &report["loss"]["lost_max"]).collect();
    assert_eq!((code, lost), (Some(1), vec![&json!(0), &json!(100)]), "{reports:?}");
    Ok(())
}

/// Exit codes: a flow whose frames go elsewhere, a check that fails, a configuration that is wrong.
fn run_config() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("config.json");
    let run_with = |flow: &Value, options: &str, code: i32| {
        let config = json!({"ports": ports_of(&lab), "flows": [flow]});
        std::fs::write(&file, config.to_string()).expect("the lab's folder can be written");
        let words = format!("otg run {}{options}", file.display());
        wirerate_start(&words).wait(std::time::Duration::from_secs(60)).expect_code(code)
    };
    let mut flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "tx", "rx_names": ["rx"]}},
        "packet": [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}], "rate": {"pps": 2000},
        "duration": {"fixed_packets": {"packets": 500}}, "metrics": {"enable": true}});
    let outcome = run_with(&flow, "", 0);
    for text in
        ["flow f: tx to rx, 500 frames sent, 500 received", "  unique     500", "  lost         0  0.0000 %"]
    {
        assert!(outcome.stdout.contains(text), "no {text:?} in {}", outcome.stdout);
    }
    let outcome = run_with(&flow, " --expect received<500", 1);
    assert!(outcome.stdout.contains("check received<500 failed: it is 500"), "{}", outcome.stdout);
    flow["metrics"]["predefined_metric_tags"] = json!({"rx_name": true});
    flow["packet"][1]["ipv4"]["time_to_live"] = json!({"value": 46, "metric_tags": [{"name": "ttl"}]});
    let outcome = run_with(&flow, " --json", 0);
    let row: Value = serde_json::from_str(outcome.stdout.lines().next().expect("the flow has a line"))?;
    let [tagged] = &row["tagged_metrics"].as_array().expect("it has tags")[..] else { panic!("{row}") };
    let tags = json!([{"name": "ttl", "value": {"choice": "hex", "hex": "0x2e"}},
        {"name": "rx_name", "value": {"choice": "str", "str": "rx"}}]);
    assert_eq!((&tagged["tags"], &tagged["frames_rx"]), (&tags, &json!(500)), "{row}");
    flow["metrics"] = json!({"enable": true});
    flow["duration"] = json!({"continuous": {}});
    let outcome = run_with(&flow, " --duration 200ms --expect lost=0", 0);
    assert!(outcome.stdout.contains("flow f: tx to rx, "), "{}", outcome.stdout);
    flow["tx_rx"]["port"]["rx_names"] = json!(["tx"]);
    let outcome = run_with(&flow, " --duration 100ms", 1);
    assert!(outcome.stdout.contains("100.0000 %"), "{}", outcome.stdout);
    flow["tx_rx"]["port"]["rx_names"] = json!(["elsewhere"]);
    run_with(&flow, "", 2)
        .says(&["config.json: flows[0].tx_rx.port.rx_names[0]: there is no port named elsewhere"]);
    flow["tx_rx"]["port"]["rx_names"] = json!([]);
    run_with(&flow, " --expect lost=0", 2).says(&["no flow has metrics.enable and rx_names"]);
    // Without the right to enter a namespace.
    let mut limited = Command::new("setpriv");
    limited
        .args(["--bounding-set", "-sys_admin"])
        .arg(wirerate().get_program())
        .args(["otg", "run"])
        .arg(&file);
    let why = format!("ports[0].location: cannot enter namespace {}: Operation not permitted", lab.tx_netns);
    Running::start(limited).wait(TIME_LIMIT).expect_code(2).says(&[&why]);
    assert!(!lab.has_xdp());
    Ok(())
}
