//! Bytes of any kind as messages: each is read or refused with words, and what is read has no text
//! that a subject, a path or a shell would interpret.

use fleet::{
    AgentAnswer, FlowOrder, FlowRole, FlowStart, HostOrder, HostStatus, LastWords, Message, Order,
    OrderRequest, Part, PlannedFlow, RunAccount, RunPlan, Stat, TestPart, decode, encode,
};
use packet::Rng;

fn good(rng: &mut Rng) -> Vec<u8> {
    let name = || "h1".parse().expect("a name");
    let flow = FlowOrder {
        id: rng.below(9),
        role: if rng.below(2) == 0 { FlowRole::Send } else { FlowRole::Receive },
        port: name(),
        number: rng.below(70_000),
        send: vec!["--pps".to_owned(), "1k".to_owned()],
    };
    let part = TestPart {
        mark: rng.below(5000) as u16,
        flows: vec![flow],
        duration_ns: u64::from(rng.below(u32::MAX)),
        settle_ms: 200,
        stat_ms: 1000,
        seed: 7,
    };
    let start = FlowStart { flow: rng.below(9), number: Some(rng.below(70_000) as u16), rank: 0 };
    let lease_ms = u64::from(rng.below(9000));
    let request = |order: Order| encode(&OrderRequest { run: name(), lease_ms, order });
    match rng.below(4) {
        0 => request(Order::Prepare(Part::Test(part))),
        3 => request(Order::Arm { flows: vec![start], flow_count: rng.below(9), clears_ports: false }),
        1 => request(Order::Go { start_at_ns: Some(u64::from(rng.below(u32::MAX))) }),
        _ => {
            let text = r#"{"schema":"wirerate.fleet-stat/2","run":"r","host":"h1","instance":7,"number":1,"time_ns":2,
                "released_late_ns":null,"has_sent_all":true,"sent_until_ns":null,"received_until_ns":null,
                "has_heard_all_sent":false,"why_not_kept":null,"senders":[],"flows":[{"id":0,"sent":5}],"receivers":[{"port":"p","received":5,"stale":0,
                "lost_ring":0,"hdr":"HISTFAAAAB4="}],"is_last":false,"end":null,"why":null,"reports":[]}"#;
            text.as_bytes().to_vec()
        }
    }
}

/// A run in which h1 sends flow 0 to itself.
fn plan() -> RunPlan {
    let port = || "h1/p".parse().expect("a port of a host");
    let flow =
        PlannedFlow { name: "f".to_owned(), from: port(), to: port(), send: Vec::new(), count: Some(9) };
    let order = HostOrder {
        host: "h1".parse().expect("a name"),
        is_armed: true,
        clock: None,
        boot_id: Some("b".to_owned()),
        instance: None,
        why: None,
    };
    RunPlan {
        run: "r".parse().expect("a name"),
        start_at_ns: 1,
        duration_ns: 1_000_000_000,
        settle_ns: 0,
        flows: vec![flow],
        hosts: vec![order],
    }
}

/// Changes, cuts and doubles bytes.
fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const WORDS: [&str; 9] = [
        "\"../x\"",
        "\"; rm\"",
        "\"a.*\"",
        "-1",
        "1e99",
        "null",
        "[]",
        "\"\\u0000\"",
        "18446744073709551616",
    ];
    for _ in 0..rng.below(4) {
        let at = rng.below(bytes.len().max(1) as u32) as usize;
        match rng.below(5) {
            0 if !bytes.is_empty() => bytes[at] = rng.below(256) as u8,
            1 => bytes.truncate(at),
            2 => bytes.extend_from_within(at..),
            _ => {
                // A whole value, so that the JSON often stays JSON.
                let text = String::from_utf8_lossy(bytes).into_owned();
                let from = text[floor(&text, at)..].find(':').map(|found| floor(&text, at) + found + 1);
                let to = from.and_then(|from| text[from..].find([',', '}']).map(|found| from + found));
                if let (Some(from), Some(to)) = (from, to) {
                    let word = WORDS[rng.below(WORDS.len() as u32) as usize];
                    *bytes = format!("{}{word}{}", &text[..from], &text[to..]).into_bytes();
                }
            }
        }
    }
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn read<M: Message>(bytes: &[u8]) -> Option<M> {
    match decode(bytes) {
        Ok(message) => Some(message),
        Err(why) => {
            assert!(!why.to_string().is_empty());
            None
        }
    }
}

fn is_safe(name: &fleet::FleetName) -> bool {
    let name = name.as_str();
    !name.is_empty()
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

#[test]
fn a_message_is_read_or_refused() {
    let plan = plan();
    testkit::fuzz!("a_message_is_read_or_refused", 500_000, |seed| {
        let rng = &mut Rng(seed);
        let mut bytes = match rng.below(8) {
            0 => (0..rng.below(200)).map(|_| rng.below(256) as u8).collect(),
            _ => good(rng),
        };
        spoil(rng, &mut bytes);
        if let Some(stat) = read::<Stat>(&bytes) {
            assert!(is_safe(&stat.run) && is_safe(&stat.host));
            let histograms = stat.receivers.iter().filter_map(|receiver| receiver.hdr.as_deref());
            histograms.for_each(|text| drop(measure::HistogramLog::from_v2_base64(text)));
            let mut words = LastWords::of_run(&plan);
            words.hear(stat);
            assert!(!RunAccount::of(&plan, &words).to_string().is_empty());
        }
        if let Some(request) = read::<OrderRequest>(&bytes) {
            assert!(is_safe(&request.run) && request.lease_ms >= 1000);
            if let Order::Prepare(Part::Test(part)) = &request.order {
                assert!(part.flows.iter().all(|flow| is_safe(&flow.port)));
                let words = part.flows.iter().flat_map(|flow| &flow.send);
                assert!(words.flat_map(|word| word.chars()).all(|letter| !letter.is_control()));
            }
            assert_eq!(read::<OrderRequest>(&encode(&request)).as_ref(), Some(&request));
        }
        let _ = (read::<HostStatus>(&bytes), read::<AgentAnswer>(&bytes), read::<RunPlan>(&bytes));
    });
}

#[test]
fn a_histogram_is_read_or_refused() {
    testkit::fuzz!("a_histogram_is_read_or_refused", 15_000, |seed| {
        let rng = &mut Rng(seed);
        let counts: Vec<u64> = (0..measure::HISTOGRAM_LEN).map(|_| u64::from(rng.below(3))).collect();
        let mut text = measure::HistogramLog::new(&counts).v2_base64().into_bytes();
        for _ in 0..rng.below(3) {
            let at = rng.below(text.len() as u32) as usize;
            text[at] = b"ABCDwxyz0189+/="[rng.below(15) as usize];
        }
        let text = String::from_utf8(text).expect("letters of base64");
        if let Ok(histogram) = measure::HistogramLog::from_v2_base64(&text) {
            assert!(!histogram.is_empty() || histogram.max_ns() == 0);
        }
    });
}
