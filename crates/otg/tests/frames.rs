//! Frames of flows, against those of an engine that was written in Python to try the model.

use otg::{OtgConfig, model};
use packet::Plan;
use packet::plan::PacketOrder;
use serde_json::{Value, json};

/// A flow per line, with the bytes of some of its frames.
const RECORDED: &str = include_str!("frames.jsonl");

/// The flow of a configuration with one port.
fn config(flow: &Value) -> Result<OtgConfig, Vec<String>> {
    let text = json!({"ports": [{"name": "p", "location": "eth1"}], "flows": [flow]}).to_string();
    let json = otg::read_json(model::message("Config"), text.as_bytes()).expect("fits the model");
    OtgConfig::read(&json, 1).map(|(config, _)| config)
}

/// The first `count` frames, all of one size.
fn frames(flow: &Value, count: usize) -> Vec<Vec<u8>> {
    let config = config(flow).unwrap_or_else(|errors| panic!("{flow}: {errors:?}"));
    let frame_len = flow["size"]["fixed"].as_u64().expect("a fixed size") as usize - 4;
    let spec = config.flows[0].packet(frame_len).expect("a packet");
    let plan = Plan::of_specs(&[spec], PacketOrder::RoundRobin);
    let mut cursor = plan.start();
    let frame = |_| {
        let mut out = vec![0; frame_len];
        plan.emit(&mut cursor, 0, &mut out);
        out
    };
    (0..count).map(frame).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn frames_are_those_of_the_reference() {
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).expect("a line of JSON");
        let sent = frames(&recorded["flow"], 8);
        for (index, frame) in recorded["frames"].as_object().expect("frames by number") {
            let index: usize = index.parse().expect("a number");
            assert_eq!(hex(&sent[index]), frame.as_str().unwrap(), "frame {index} of {}", recorded["flow"]);
        }
    }
}

/// Ethernet, IPv4, UDP, with a header checksum and a UDP checksum as given.
fn udp_flow(header_checksum: Value, checksum: Value) -> Value {
    json!({"name": "f", "tx_rx": {"port": {"tx_name": "p"}}, "size": {"fixed": 100}, "packet": [
        {"ethernet": {}},
        {"ipv4": {"src": {"increment": {"start": "198.18.0.1", "count": 65536}}, "header_checksum": header_checksum}},
        {"udp": {"src_port": {"random": {"seed": 0, "count": 1000}}, "checksum": checksum}}]})
}

/// The ones-complement sum of 16-bit words: 0xffff if a checksum among them is right.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn udp_sum(frame: &[u8]) -> u16 {
    let udp = &frame[34..];
    let pseudo = [&frame[26..34], &[0, 17], &udp[4..6], udp].concat();
    sum(&pseudo)
}

#[test]
fn bad_checksums_are_wrong_in_each_frame() {
    let bad = json!({"generated": "bad"});
    for frame in frames(&udp_flow(bad.clone(), json!({})), 3000) {
        assert_ne!(sum(&frame[14..34]), 0xffff);
        assert_eq!(udp_sum(&frame), 0xffff);
    }
    for frame in frames(&udp_flow(json!({}), bad), 3000) {
        assert_eq!(sum(&frame[14..34]), 0xffff);
        assert_ne!(udp_sum(&frame), 0xffff);
        assert_ne!(frame[40..42], [0, 0]);
    }
}

#[test]
fn random_values_with_a_seed_repeat_and_others_do_not() {
    let ports = |seed: u64, own: u64| {
        let random = json!({"random": {"min": 1000, "max": 1099, "seed": own, "count": 10}});
        let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "p"}}, "packet": [{"udp": {"src_port": random}}]});
        let json = json!({"ports": [{"name": "p"}], "flows": [flow]});
        let (config, _) = OtgConfig::read(&json, seed).unwrap();
        config.flows[0].packet(60).unwrap()
    };
    assert_eq!(ports(1, 42), ports(2, 42));
    assert_ne!(ports(1, 0), ports(2, 0));
}

#[test]
fn all_errors_are_reported_with_their_paths() {
    let json = json!({
        "ports": [{"name": "p"}, {"name": "p"}],
        "lags": [{"name": "l"}],
        "flows": [
            {"name": "a", "tx_rx": {"port": {"tx_name": "p", "rx_names": ["q"]}}, "packet": [{"choice": "rsvp", "rsvp": {}}]},
            {"name": "b", "tx_rx": {"port": {"tx_name": "p"}}, "size": {"fixed": 40},
             "packet": [{"ethernet": {}}, {"ipv4": {"src": {"value": "1.2.3"}, "options": [{"choice": "router_alert"}]}},
                        {"udp": {"src_port": {"increment": {"count": 0}}, "dst_port": {"value": 65536}}}]},
            {"name": "c"},
        ],
        "captures": [{"name": "cap", "port_names": ["nope"]}],
    });
    let errors = OtgConfig::read(&json, 1).unwrap_err();
    for expected in [
        "ports[1].name: the name p is used by ports[0].name too",
        "lags: is not supported",
        "captures[0].port_names: there is no port named nope",
        "flows[0].tx_rx.port.rx_names[0]: there is no port named q",
        "flows[0].packet[0]: header rsvp is not supported",
        "flows[1].size.fixed: 40 bytes cannot hold 42 bytes of headers and 4 of FCS",
        "flows[1].packet[1].ipv4.src.value: \"1.2.3\" is not an IPv4 address",
        "flows[1].packet[1].ipv4.options: is not supported",
        "flows[1].packet[2].udp.src_port.increment.count: 0 is below 1",
        "flows[1].packet[2].udp.dst_port.value: 65536 is not in 0 to 65535",
        "flows[2].tx_rx: is required",
    ] {
        assert!(errors.iter().any(|error| error == expected), "{expected}\n{errors:#?}");
    }
    assert_eq!(errors.len(), 11, "{errors:#?}");
}

#[test]
fn defaults_that_a_client_writes_are_no_warnings() {
    let json = json!({
        "ports": [{"name": "p", "location": "eth1"}],
        "layer1": [{"name": "l1", "port_names": ["p"], "speed": "speed_10_gbps", "promiscuous": true, "mtu": 1500}],
        "captures": [{"name": "cap", "port_names": ["p"], "overwrite": true, "format": "pcap"}],
        "flows": [{"name": "f", "tx_rx": {"choice": "port", "port": {"tx_name": "p", "rx_names": []}},
                   "metrics": {"enable": true, "loss": false, "timestamps": false, "latency": {"enable": false, "mode": "store_forward"}},
                   "rate": {"choice": "percentage", "percentage": 100}}],
    });
    let (config, warnings) = OtgConfig::read(&json, 1).unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(config.ports[0].speed, Some(10_000_000_000));
    assert_eq!(config.flows[0].pps(10_000_000_000).round(), 14_880_952.0);
}

/// The last 18 bytes of the frames of a flow with two sizes: magic, flow, run, number, time.
fn marks(latency: bool) -> Vec<Vec<u8>> {
    let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "p"}},
        "size": {"weight_pairs": {"custom": [{"size": 100, "weight": 1}, {"size": 141, "weight": 1}]}},
        "metrics": {"enable": true, "timestamps": true, "latency": {"enable": latency, "mode": "cut_through"}},
        "packet": [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}]});
    let config = config(&flow).unwrap_or_else(|errors| panic!("{errors:?}"));
    let (specs, order) = config.flows[0].packets(Some((0x0102, 0x0304)), 64, None).expect("packets");
    assert!(specs.len() > 1, "a packet per size");
    let plan = Plan::of_lengths(&specs, order);
    assert_eq!(plan.has_time(), latency);
    let (mut cursor, mut out) = (plan.start(), vec![0; 200]);
    let mark = |_| {
        let len = plan.emit(&mut cursor, 0x0065_0605_0403_0201, &mut out);
        let pseudo_header = [&out[26..34], &[0, 17], &((len - 34) as u16).to_be_bytes()].concat();
        assert_eq!(sum(&[&pseudo_header, &out[34..len]].concat()), 0xffff, "UDP checksum");
        out[len - 18..len].to_vec()
    };
    (0..9).map(mark).collect()
}

#[test]
fn marks_number_the_frames_of_all_sizes_and_carry_the_time_if_latency_is_measured() {
    for (latency, time) in [(true, "060504030201"), (false, "000000000000")] {
        for (number, mark) in marks(latency).iter().enumerate() {
            assert_eq!(hex(mark), format!("57524f5401020304{number:08x}{time}"));
        }
    }
}

#[test]
fn patterns_and_marks_count_the_frames_of_a_flow_whatever_their_sizes() {
    let sizes = [
        (json!({"increment": {"start": 100, "end": 300, "step": 50}}), 5),
        (json!({"random": {"min": 100, "max": 600}}), 501),
        (json!({"weight_pairs": {"custom": [{"size": 100, "weight": 2}, {"size": 400}]}}), 3),
    ];
    for (size, packet_count) in sizes {
        let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "p"}}, "size": size,
            "metrics": {"enable": true}, "packet": [{"ethernet": {}}, {"ipv4": {}},
            {"udp": {"src_port": {"increment": {"start": 1000, "count": 7}}, "dst_port": {"values": [5, 6, 9]}}}]});
        let config = config(&flow).unwrap_or_else(|errors| panic!("{errors:?}"));
        let (specs, order) = config.flows[0].packets(Some((3, 4)), 2048, None).expect("packets");
        assert_eq!(specs.len(), packet_count, "{flow}");
        let plan = Plan::of_lengths(&specs, order);
        let mut cursor = packet::Cursor { rng: packet::Rng(1), ..plan.start() };
        let mut out = vec![0; plan.frame_len_max() as usize];
        for frame in 0..100_u16 {
            let len = plan.emit(&mut cursor, 0, &mut out);
            let half = |at: usize| u16::from_be_bytes([out[at], out[at + 1]]);
            let seen = (half(len - 8), half(34), half(36), usize::from(half(16)));
            let expected = (frame, 1000 + frame % 7, [5, 6, 9][usize::from(frame % 3)], len - 14);
            assert_eq!(seen, expected, "frame {frame} of {flow}");
            assert_eq!((sum(&out[14..34]), udp_sum(&out[..len])), (0xffff, 0xffff));
        }
    }
}
