//! Options of `send`: streams.

use super::job_of;
use crate::stream_file;
use packet::DeviceFacts;
use packet::SignatureLevel;
use packet::{Arrivals, Rate};
use program::outcome::Failure;
use sender::packets::Packets;
use sender::rate::RequestedRate;
use sender::streams::*;

fn streams(text: &str, words: &[&str]) -> Result<Vec<Stream>, Failure> {
    let run = job_of(format!("veth0 {}", words.join(" ")));
    let entries = stream_file::parse(text, &run).expect("a good list");
    prepare(entries, &run, &DeviceFacts::default(), 7, None)
}

fn measured(text: &str) -> Result<Vec<Stream>, Failure> {
    let run = job_of("veth0");
    prepare(stream_file::parse(text, &run).expect("a good list"), &run, &DeviceFacts::default(), 7, Some(5))
}

fn entries(members: &[&str]) -> String {
    let streams: Vec<String> =
        members.iter().map(|members| format!(r#"{{"dst": "198.18.0.2"{members}}}"#)).collect();
    format!("[{}]", streams.join(","))
}

#[test]
fn weights_divide_the_rate_of_the_run_among_streams_without_one() {
    let text = entries(&[r#", "weight": 2"#, r#", "pps": 5"#, ""]);
    let paces: Vec<RequestedRate> =
        streams(&text, &["--pps", "100"]).unwrap().iter().map(|stream| stream.pace).collect();
    assert_eq!(
        paces,
        [66, 5, 34].map(|pps| RequestedRate::Constant {
            rate: Rate::from_pps(pps).unwrap(),
            arrivals: Arrivals::Constant
        })
    );
    let refusal = streams(&text, &[]).unwrap_err().to_string();
    assert!(refusal.contains("its weight is a part of the rate of the run"), "{refusal}");
}

#[test]
fn each_stream_has_its_own_count_and_seed() {
    let streams = streams(&entries(&[r#", "count": 3"#, r#", "seed": 9"#]), &[]).unwrap();
    assert_eq!((streams[0].config.count, streams[1].config.count, count(&streams)), (3, 1000, 1003));
    assert_eq!((streams[0].seed, streams[1].seed), (7, 9));
}

#[test]
fn packets_of_a_stream_have_lengths_and_no_other_options() {
    let packets = r#"[{"frame": "{ eth(), ipv4(), udp() }", "size": "60-62", "random": ["size"]}]"#;
    let streams = streams(packets, &[]).unwrap();
    assert_eq!(streams[0].packets.as_ref().map(Packets::mean_len), Some(61));
    let text = r#"[{"frame": "{ eth() }", "dst": "198.18.0.2"}]"#;
    let refusal = self::streams(text, &[]).unwrap_err().to_string();
    assert!(refusal.starts_with("wirerate: cannot use --dst with the frame of stream 1"), "{refusal}");
}

#[test]
fn each_measured_stream_is_a_flow_of_the_run() {
    let text = r#"[{"dst": "198.18.0.2", "size": 74, "udp-dst": "1-9"}, {"dst": "198.18.0.2"},
                   {"tcp": true, "dst": "198.18.0.2", "size": 72}]"#;
    let [full, short, own] = &measured(text).expect("three streams")[..] else { panic!("three streams") };
    let signature = full.config.signature;
    assert_eq!((signature.level, signature.flow_count, signature.run), (SignatureLevel::Full, 1, 5));
    assert_eq!((short.config.signature.level, short.index), (SignatureLevel::Short, 1));
    let plan = own.packets.as_ref().and_then(|packets| packets.of_thread(0)).expect("packets");
    let template = &plan.packets()[0].template;
    assert_eq!(template[54..62], [0x57, 0x52, 0x4f, 0x54, 0, 2, 0, 5]);
    for (members, why) in [
        (
            r#""tcp": true"#,
            "cannot mark packet 1 of stream 1: a mark takes 18 bytes behind the headers, and there are 0",
        ),
        (r#""size": 58"#, "do not name their stream\n  try: \"size\": 60"),
        (r#""signature": "none""#, "frames without a signature"),
        (r#""clone-skb": 2"#, "copies are duplicates"),
    ] {
        let text = format!(r#"[{{"dst": "198.18.0.2", {members}}}]"#);
        let refusal = measured(&text).expect_err("cannot be measured").to_string();
        assert!(refusal.contains(why), "{members}: {refusal}");
    }
}

#[test]
fn bursts_have_a_mean_rate() {
    let streams = streams(
        &entries(&[r#", "burst": 4, "gap": "1ms""#, r#", "burst": 4, "gap": "1ms", "pps": 1000"#]),
        &[],
    );
    let rates: Vec<Option<f64>> =
        streams.unwrap().iter().map(|stream| stream.info().asked.map(|asked| asked.pps)).collect();
    assert_eq!(rates, [Some(4000.0), Some(1000.0)]);
}
