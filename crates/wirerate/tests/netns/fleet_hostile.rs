//! A hostile host, with a real hub and its own key: what it may do, and that it harms no other.

use crate::fleet::{KeyedFleet, NATS, json, run_name, runtime, started};
use crate::program::{Running, TIME_LIMIT, wirerate, wirerate_run, wirerate_start};
use crate::{Case, TestResult, case};
use async_nats::HeaderMap;
use base64::Engine;
use fleet::{
    AgentAnswer, CountedFlow, HostStatus, OrderResult, PROTOCOL, ReceiverFigures, RefusalKind, RunEnd, Stat,
    encode,
};
use measure::{HostClock, OtherFrames, UnusualFrames};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

/// Tests of hostile hosts.
pub(crate) const CASES: &[Case] = &[
    case("fleet_hostile::a_host_cannot_erase_what_others_said", NATS, erasing),
    case("fleet_hostile::counts_and_words_of_a_host_cannot_pass_for_others", NATS, lying),
];

/// A client with the key of h1.
async fn client(fleet: &KeyedFleet) -> async_nats::Client {
    let seed = std::fs::read_to_string(format!("{}/h1.nk", fleet.dir)).expect("init made it");
    let options = async_nats::ConnectOptions::with_nkey(seed.trim().to_owned())
        .add_root_certificates(format!("{}/hub-cert.pem", fleet.dir).into())
        .require_tls(true);
    options.connect(format!("tls://127.0.0.1:{}", fleet.port)).await.expect("its own key")
}

/// Forged message numbers, rollups, and a flood.
fn erasing() -> TestResult {
    let fleet = KeyedFleet::new();
    let hub = format!("--hub {}/fleet.toml", fleet.dir);
    let running = wirerate_start(&format!("fleet run {} --json {hub}", fleet.test(4.0)));
    let run = started(&running);
    let runtime = runtime();
    let hosts = runtime.block_on(async {
        let client = client(&fleet).await;
        for number in 1..40 {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", format!("{run}.h2.{number}").as_str());
            let subject = format!("wr.run.{run}.stat.h1");
            client.publish_with_headers(subject, headers, "x".into()).await.expect("connected");
        }
        client.flush().await.expect("connected");
        let rolled_up = client.clone();
        let rollups = tokio::spawn(async move {
            loop {
                let mut headers = HeaderMap::new();
                headers.insert("Nats-Rollup", "all");
                let sent = rolled_up.publish_with_headers("$KV.wr_hosts.h1", headers, "x".into()).await;
                sent.expect("connected");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let list = format!("fleet hosts --json {hub}");
        let hosts = tokio::task::spawn_blocking(move || {
            (0..4).map(|_| wirerate_run(&list).expect_code(0).stdout).collect::<Vec<_>>()
        });
        let hosts = hosts.await.expect("no panic");
        rollups.abort();
        // More than all that the hub kept together before.
        let big = vec![b'x'; 1_000_000];
        for number in 0..300 {
            let subject = format!("wr.run.zz{number}.stat.h1");
            client.publish(subject, big.clone().into()).await.expect("connected");
        }
        client.flush().await.expect("connected");
        hosts
    });
    for told in hosts {
        assert!(told.contains("\"host\":\"h2\""), "h2 is still there: {told}");
    }
    let live = json(&running.wait(TIME_LIMIT));
    assert_eq!(live["verdict"], "whole", "{live}");
    let list = wirerate_run(&format!("fleet list {hub}")).expect_code(0).stdout;
    assert!(list.starts_with(&run), "the plan is still there: {list:?}");
    let report = json(&wirerate_run(&format!("fleet report {run} --json {hub}")));
    let h2 = &report["hosts"][1];
    assert_eq!((&h2["host"], &h2["end"]), (&"h2".into(), &"done".into()), "{report}");
    let kept = size_of(std::path::Path::new(&format!("{}/hub-store", fleet.dir)))?;
    assert!((1..100 << 20).contains(&kept), "{kept} bytes: a host has 32 MiB");
    Ok(())
}

/// Bytes of all files in a folder.
fn size_of(folder: &std::path::Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        sum += if facts.is_dir() { size_of(&entry.path())? } else { facts.len() };
    }
    Ok(sum)
}

/// The agent of h1 is a program that answers what it likes.
fn lying() -> TestResult {
    let mut fleet = KeyedFleet::new();
    let hub = format!("--hub {}/fleet.toml", fleet.dir);
    fleet.agents[0].signal(nix::sys::signal::Signal::SIGKILL);
    let runtime = runtime();
    let client = runtime.block_on(client(&fleet));
    let esc = "\u{1b}[2J\nh9: \u{202e}x";
    let announced = HostStatus {
        host: "h1".parse()?,
        instance: 7,
        has_double: false,
        version: esc.to_owned(),
        protocol: PROTOCOL,
        boot_id: boot_id(),
        time_ns: now_ns(),
        clock: HostClock::default(),
        clock_daemon: Some(esc.to_owned()),
        tai_offset_s: 0,
        ports: Vec::new(),
    };
    runtime.block_on(async {
        client.publish("$KV.wr_hosts.h1", encode(&announced).into()).await.expect("connected");
        client.flush().await.expect("connected");
    });
    let hosts = wirerate_run(&format!("fleet hosts {hub}")).expect_code(0).stdout;
    assert!(hosts.contains("h1: wirerate \\u{1b}[2J\\nh9: \\u{202e}x"), "{hosts:?}");
    assert!(!hosts.contains('\u{1b}') && !hosts.contains("\nh9"), "{hosts:?}");
    let refusing = runtime.spawn(lie(client.clone(), move |_| Lie::Refuse(esc)));
    let told = wirerate_run(&format!("fleet run {} {hub}", fleet.test(1.0))).expect_code(1);
    refusing.abort();
    told.says(&["h1: no \\u{1b}[2J\\nh9: \\u{202e}x"]);
    assert!(!(told.stderr + &told.stdout).contains(['\u{1b}', '\u{202e}']), "{}", told.stdout);
    too_long_histogram(&fleet, &runtime, &client)?;
    // Counts without the flow, and counts that cannot be.
    for (sent, why) in [
        (None, "f: h1 has not counted it"),
        (Some(u64::MAX), "its newest counts cannot be used"),
        (Some(999_999), "999,999 frames were sent"),
    ] {
        let counting =
            runtime.spawn(lie(client.clone(), move |run| Lie::Count(Box::new(counted(run, sent)))));
        let test = fleet.test(1.0);
        let text = std::fs::read_to_string(&test)?.replace("--pps 1k", "--pps 1k --count 1000");
        std::fs::write(&test, text)?;
        let told = wirerate_run(&format!("fleet run {test} {hub}")).expect_code(1);
        counting.abort();
        assert!(told.stdout.contains(": PARTIAL, ") && told.stdout.contains(why), "{why}: {}", told.stdout);
    }
    // It harms no run of others.
    drop(client);
    fleet.agents[0] = crate::fleet::agent(&format!("{}/agent-h1.toml", fleet.dir), "");
    let account = json(&wirerate_run(&format!("fleet run {} --json {hub}", fleet.test(1.0))).expect_code(0));
    assert_eq!(account["verdict"], "whole", "{}", run_name(&account));
    Ok(())
}

/// 52 characters that name 2 GiB of counts, for a controller that may have 1 GiB.
fn too_long_histogram(
    fleet: &KeyedFleet,
    runtime: &tokio::runtime::Runtime,
    client: &async_nats::Client,
) -> TestResult {
    let test = fleet.test(1.0);
    let text = std::fs::read_to_string(&test)?;
    let text = text.replace("h1/p", "x").replace("h2/p", "h1/p").replace("\"x\"", "\"h2/p\"");
    std::fs::write(&test, text)?;
    let lying = runtime.spawn(lie(client.clone(), |run| Lie::Count(Box::new(bomb(run)))));
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 1048576; exec \"$0\" \"$@\""]).arg(wirerate().get_program());
    limited.args(["fleet", "run", &test, "--json", "--hub"]).arg(format!("{}/fleet.toml", fleet.dir));
    let account = json(&Running::start(limited).wait(TIME_LIMIT).expect_code(0));
    lying.abort();
    assert_eq!((&account["received"]["max"], &account["latency"]), (&1000.into(), &serde_json::Value::Null));
    let notes = account["notes"].to_string();
    assert!(notes.contains("the latencies of h1/p are left out") && notes.contains("2147483632"), "{notes}");
    Ok(())
}

/// What a hostile agent does.
enum Lie {
    /// It refuses, with these words.
    Refuse(&'static str),
    /// It agrees to all, and publishes these counts at once.
    Count(Box<Stat>),
}

/// Answers all requests to h1 with lies.
async fn lie(client: async_nats::Client, of_run: impl Fn(&str) -> Lie) {
    use futures_util::StreamExt;
    let mut requests = client.subscribe("wr.host.h1.*").await.expect("its own requests");
    while let Some(request) = requests.next().await {
        let message: serde_json::Value = serde_json::from_slice(&request.payload).expect("JSON");
        let run = message["run"].as_str().expect("a request names its run");
        let lie = of_run(run);
        let is_go = message["order"].get("go").is_some();
        let result = match &lie {
            Lie::Refuse(words) => {
                let why = format!("no {words}");
                OrderResult::Refused { kind: RefusalKind::Host, errors: vec![why.clone()], tries: vec![why] }
            }
            Lie::Count(_) => OrderResult::done(),
        };
        let answer = AgentAnswer {
            host: "h1".parse().expect("a name"),
            instance: 7,
            clock: HostClock::default(),
            boot_id: boot_id(),
            request_ns: now_ns(),
            time_ns: now_ns(),
            result,
        };
        if let Some(reply) = request.reply {
            client.publish(reply, encode(&answer).into()).await.expect("connected");
        }
        if let Lie::Count(stat) = lie
            && is_go
        {
            // After the start.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let subject = format!("wr.run.{run}.stat.h1");
            client.publish(subject, encode(stat.as_ref()).into()).await.expect("connected");
        }
    }
}

/// The last counts of h1, which sends flow 0.
fn counted(run: &str, sent: Option<u64>) -> Stat {
    let flow = |sent| CountedFlow { sent: Some(sent), errors: Some(0), ..CountedFlow::default() };
    Stat {
        number: 1,
        time_ns: now_ns(),
        has_sent_all: true,
        sent_until_ns: Some(now_ns()),
        flows: sent.map(flow).into_iter().collect(),
        is_last: true,
        end: Some(RunEnd::Done),
        ..Stat::new(run.parse().expect("a run"), "h1".parse().expect("a name"), 7)
    }
}

/// Counts of h1, which receives flow 0, with a histogram that names 0x7ffffff0 bytes of counts.
fn bomb(run: &str) -> Stat {
    let mut plain = vec![0x1c, 0x84, 0x93, 0x13];
    plain.extend([0x7f, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 0, 0, 0, 2]);
    plain.extend(1_u64.to_be_bytes());
    plain.extend(((1_u64 << 36) - 1).to_be_bytes());
    plain.extend(1_f64.to_be_bytes());
    let mut zipped = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    zipped.write_all(&plain).expect("a Vec takes all bytes");
    let zipped = zipped.finish().expect("a Vec takes all bytes");
    let mut bytes = vec![0x1c, 0x84, 0x93, 0x14];
    bytes.extend((zipped.len() as u32).to_be_bytes());
    bytes.extend(zipped);
    let hdr = Some(base64::engine::general_purpose::STANDARD.encode(bytes));
    let port = "p".parse().expect("a name");
    let receiver = ReceiverFigures {
        port,
        received: 1000,
        others: OtherFrames::default(),
        unusual: UnusualFrames::default(),
        lost_ring: 0,
        hdr,
    };
    let flow = CountedFlow { received: Some(1000), ..CountedFlow::default() };
    Stat { flows: vec![flow], receivers: vec![receiver; 9], ..counted(run, None) }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("each kernel has one").trim().to_owned()
}

fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("it is later than 1970").as_nanos() as u64
}
