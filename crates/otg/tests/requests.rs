//! Requests beside configurations, and answers that fit the model.

use otg::metrics::{FlowCounts, FlowMetricsRow, FlowState, MetricsTable, PortCounts, PortRow, TrafficCounts};
use otg::{
    CaptureQuery, ControlRequest, EmulatedInterface, FlowConfig, MetricsQuery, OtgConfig, RequestRefusal,
    TaggedQuery, TransmitState, model,
};
use prost_reflect::DynamicMessage;
use prost_reflect::prost::Message;
use serde_json::{Value, json};

fn config() -> OtgConfig {
    let flow = |name: &str, has_metrics: bool| {
        json!({"name": name, "tx_rx": {"port": {"tx_name": "p", "rx_names": ["q"]}},
               "metrics": {"enable": has_metrics, "loss": true}})
    };
    let json = json!({
        "ports": [{"name": "p", "location": "eth1"}, {"name": "q", "location": "eth2"}],
        "captures": [{"name": "cap", "port_names": ["q"]}],
        "flows": [flow("a", true), flow("b", false), flow("c", true)],
        "devices": [
            {"name": "d1", "ethernets": [{"name": "e1", "mac": "02:00:00:00:00:01", "connection": {"port_name": "p"},
             "ipv4_addresses": [{"name": "i1", "address": "198.18.0.1", "gateway": "198.18.0.2"}]}]},
            {"name": "d2", "ethernets": [{"name": "e2", "mac": "02:00:00:00:00:02", "connection": {"port_name": "q"},
             "ipv4_addresses": [{"name": "i2", "address": "198.18.0.2", "gateway": "198.18.0.1"}]}]},
        ],
    });
    OtgConfig::read(&json, 1).expect("a configuration").0
}

fn refused(errors: &[&str]) -> RequestRefusal {
    RequestRefusal::Invalid(errors.iter().map(|error| (*error).to_owned()).collect())
}

#[test]
fn control_states() {
    let config = config();
    let transmit = |names: Value| {
        config.control(&json!({"traffic": {"flow_transmit": {"flow_names": names, "state": "start"}}}))
    };
    assert_eq!(transmit(json!([])), Ok(ControlRequest::Transmit(vec![0, 1, 2], TransmitState::Start)));
    // A flow that is named twice is started once.
    assert_eq!(
        transmit(json!(["c", "a", "c"])),
        Ok(ControlRequest::Transmit(vec![2, 0], TransmitState::Start))
    );
    assert_eq!(transmit(json!(["x"])), Err(refused(&["there is no flow named x"])));
    let capture = |names: Value| {
        config.control(&json!({"choice": "port", "port": {"choice": "capture", "capture": {"port_names": names, "state": "start"}}}))
    };
    assert_eq!(capture(json!([])), Ok(ControlRequest::Capture(vec![1], true)));
    assert_eq!(capture(json!(["p"])), Err(refused(&["port p has no capture in the configuration"])));
    let link = json!({"port": {"choice": "link", "link": {"port_names": ["p"], "state": "down"}}});
    assert_eq!(config.control(&link), Ok(ControlRequest::Link(vec![0], false)));
    assert_eq!(
        config.control(&json!({"protocol": {"all": {"state": "start"}}})),
        Ok(ControlRequest::Protocols)
    );
    for (body, path) in [
        (json!({"port": {"link": {}}}), "port.link.state"),
        (json!({"port": {"capture": {"port_names": ["q"]}}}), "port.capture.state"),
        (json!({"traffic": {"flow_transmit": {}}}), "traffic.flow_transmit.state"),
        (json!({"protocol": {"all": {}}}), "protocol.all.state"),
    ] {
        assert_eq!(config.control(&body), Err(refused(&[&format!("{path}: is required")])), "{body}");
    }
    let bgp = config.control(&json!({"choice": "protocol", "protocol": {"choice": "bgp", "bgp": {}}}));
    assert_eq!(
        bgp,
        Err(RequestRefusal::Unsupported("control state protocol.bgp is not supported".to_owned()))
    );
}

#[test]
fn metrics_of_flows_without_metrics_are_refused_by_name() {
    let config = config();
    assert_eq!(config.metrics_query(&json!({})), Ok(MetricsQuery::Ports(vec![0, 1], vec![])));
    assert_eq!(
        config.metrics_query(&json!({"choice": "flow"})),
        Ok(MetricsQuery::Flows(vec![0, 2], vec![], TaggedQuery::default()))
    );
    let named =
        config.metrics_query(&json!({"flow": {"flow_names": ["c", "b"], "metric_names": ["frames_tx"]}}));
    assert_eq!(named, Err(refused(&["flow b: metrics are not enabled"])));
    let bgp = config.metrics_query(&json!({"choice": "bgpv4"}));
    assert_eq!(bgp, Err(RequestRefusal::Unsupported("metrics of bgpv4 are not supported".to_owned())));
}

#[test]
fn captures_by_port_and_slice() {
    let config = config();
    let whole = CaptureQuery { port: 1, capture: 0, slice: None };
    assert_eq!(config.capture_query(&json!({"port_name": "q"})), Ok(whole));
    let packets =
        json!({"choice": "slice", "slice": {"choice": "initial", "initial": {"start": 3, "count": 2}}});
    let sliced = config.capture_query(&json!({"port_name": "q", "packets": packets}));
    assert_eq!(sliced, Ok(CaptureQuery { slice: Some((2, 2)), ..whole }));
    let none = config.capture_query(&json!({"port_name": "p"}));
    assert_eq!(none, Err(refused(&["port p has no capture in the configuration"])));
}

#[test]
fn capture_filters_follow_the_headers_of_a_frame() {
    let field = |value: &str, mask: &str| json!({"value": value, "mask": mask});
    let filters = json!([
        {"choice": "ethernet", "ethernet": {"ether_type": field("8100", "ffff")}},
        {"choice": "vlan", "vlan": {"id": field("02a", "fff")}},
        {"choice": "ipv4", "ipv4": {"src": field("c6120001", "ffffffff"), "dst": field("0x0", "0")}},
        {"choice": "custom", "custom": {"offset": 16, "bit_length": 16, "value": "1b58", "mask": "ffff"}},
    ]);
    let capture = json!({"name": "cap", "port_names": ["p"], "packet_size": 60, "filters": filters});
    let json = json!({"ports": [{"name": "p", "location": "eth1"}], "captures": [capture]});
    let capture = OtgConfig::read(&json, 1).unwrap().0.captures.remove(0);
    assert_eq!((capture.overwrite, capture.packet_size), (true, Some(60)));
    let matches = |frame: &[u8]| capture.filter.iter().all(|filter| filter.matches(frame));
    let mut frame = [0; 64];
    for (at, bytes) in [(12, &[0x81, 0, 0xe0, 0x2a][..]), (30, &[198, 18, 0, 1]), (40, &[0x1b, 0x58])] {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
    }
    assert!(matches(&frame));
    for at in [12, 15, 33, 41] {
        let mut other = frame;
        other[at] ^= 1;
        assert!(!matches(&other), "byte {at}");
    }
    assert!(!matches(&frame[..41]));
}

#[test]
fn neighbours_have_the_addresses_that_were_resolved() {
    let known = |interface: &EmulatedInterface| (interface.name == "i1").then_some([2, 0, 0, 0, 0, 2]);
    let states = config().states(&json!({"ipv4_neighbors": {"ethernet_names": []}}), known).unwrap();
    let expected = json!([
        {"ethernet_name": "e1", "ipv4_address": "198.18.0.2", "link_layer_address": "02:00:00:00:00:02"},
        {"ethernet_name": "e2", "ipv4_address": "198.18.0.1"},
    ]);
    assert_eq!(states["ipv4_neighbors"], expected);
    otg::read_json(model::message("StatesResponse"), states.to_string().as_bytes()).unwrap();
    let none = config().states(&json!({"choice": "ipv6_neighbors"}), known).unwrap();
    assert_eq!(none["ipv6_neighbors"], json!([]));
}

/// A table as its JSON text gives it. Its protobuf must say the same.
fn shown(table: &MetricsTable) -> Value {
    let text = serde_json::to_string(table).unwrap();
    let response = model::message("MetricsResponse");
    let message = model::from_json(response.clone(), serde_json::from_str(&text).unwrap()).unwrap();
    let decoded = DynamicMessage::decode(response, &table.encode()[..]).unwrap();
    assert_eq!(decoded.unknown_fields().count(), 0);
    assert_eq!(model::to_json(&decoded), model::to_json(&message));
    // Fields that are 0 are there as well.
    assert_eq!(decoded.encoded_len(), table.encode().len());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn rows_fit_the_model_and_have_all_fields_or_those_asked_for() {
    let mut flow = config().flows[0].clone();
    let tx = TrafficCounts { frames: 10, bytes: 640, rate: 10.0 };
    let rx = TrafficCounts { frames: 9, bytes: 576, rate: 9.0 };
    let counts = FlowCounts { state: FlowState::Paused, tx, rx, ..FlowCounts::default() };
    let table = |flow: &FlowConfig, counts, columns: &[&str]| {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        shown(&MetricsTable::of_flows(vec![FlowMetricsRow::new(flow, counts)], columns))["flow_metrics"][0]
            .clone()
    };
    let row = table(&flow, counts, &[]);
    assert_eq!(
        (&row["loss"], &row["tx_rate_bps"], &row["rx_l1_rate_bps"], &row["transmit"]),
        (&json!(10.0), &json!(5120.0), &json!(6048.0), &json!("paused"))
    );
    assert_eq!((row.get("latency"), row.get("timestamps")), (None, None));
    let few = table(&flow, counts, &["frames_rx"]);
    assert_eq!(few, json!({"name": "a", "port_tx": "p", "port_rx": "q", "frames_rx": 9}));
    let zero = table(&flow, FlowCounts::default(), &[]);
    assert_eq!((&zero["frames_tx"], &zero["rx_rate_mbps"]), (&json!(0), &json!(0.0)));
    (flow.metrics.latency, flow.metrics.timestamps) = (true, true);
    let times =
        FlowCounts { latency_ns: (1.4, 3.0, 2.0), first_last_ns: (1 << 60, (1 << 60) + 256), ..counts };
    let row = table(&flow, times, &[]);
    assert_eq!(row["latency"], json!({"minimum_ns": 1.0, "maximum_ns": 3.0, "average_ns": 2.0}));
    assert_eq!(row["timestamps"]["last_timestamp_ns"], json!(((1_u64 << 60) + 256) as f64));
    let counts = PortCounts { speed: 1_000_000_000, is_up: true, ..PortCounts::default() };
    let port = shown(&MetricsTable::of_ports(vec![PortRow::new("p", "eth1", counts)], Vec::new()));
    let port = &port["port_metrics"][0];
    assert_eq!(
        (&port["speed"], &port["link"], &port["frames_tx"]),
        (&json!(125_000), &json!("up"), &json!(0))
    );
}

#[test]
fn a_flow_without_receivers_has_no_loss() {
    let mut flow = config().flows[0].clone();
    flow.rx_ports.clear();
    let row = FlowMetricsRow::new(&flow, FlowCounts::default());
    assert_eq!(shown(&MetricsTable::of_flows(vec![row], Vec::new()))["flow_metrics"][0].get("loss"), None);
}

#[test]
fn an_interface_without_a_connection_is_a_name() {
    let json = |tx: &str| {
        json!({
            "ports": [{"name": "p", "location": "eth1"}],
            "devices": [{"name": "d", "ethernets": [{"name": "e", "mac": "02:00:00:00:00:01"}]}],
            "flows": [{"name": "f", "tx_rx": {"choice": "device", "device": {"tx_names": [tx], "rx_names": ["e"]}}}],
        })
    };
    let mut without_flow = json("e");
    without_flow["flows"] = json!([]);
    assert!(OtgConfig::read(&without_flow, 1).is_ok());
    let errors = OtgConfig::read(&json("e"), 1).unwrap_err();
    assert!(errors[0].ends_with("the interface e has no connection to a port"), "{errors:?}");
}

#[test]
fn what_follows_from_another_error_is_left_out() {
    let json = json!({
        "ports": [{"name": "p", "location": "eth1"}],
        "devices": [{"name": "d", "bgp": {"router_id": "192.0.2.1"}}],
        "flows": [{"name": "f", "tx_rx": {"choice": "device", "device": {"tx_names": ["route"], "rx_names": ["route"]}}}],
    });
    assert_eq!(OtgConfig::read(&json, 1).unwrap_err(), ["devices[0].bgp: is not supported"]);
}

#[test]
fn a_port_has_one_capture_and_one_layer1() {
    let json = json!({
        "ports": [{"name": "p", "location": "eth1"}, {"name": "q", "location": "eth2"}],
        "captures": [{"name": "c1", "port_names": ["p", "q"]}, {"name": "c2", "port_names": ["q"]}],
        "layer1": [{"name": "l1", "port_names": ["p"]}, {"name": "l2", "port_names": ["q", "p"]}],
    });
    let expected = [
        "layer1[1].port_names: the port p has the layer1 l1 too",
        "captures[1].port_names: the port q has the capture c1 too",
    ];
    assert_eq!(OtgConfig::read(&json, 1).unwrap_err(), expected);
}

#[test]
fn the_deprecated_name_of_the_receiving_port_is_one_of_its_names() {
    let read = |ends: Value| {
        let json = json!({
            "ports": [{"name": "p", "location": "eth1"}, {"name": "q", "location": "eth2"}],
            "flows": [{"name": "f", "tx_rx": {"port": ends}}],
        });
        OtgConfig::read(&json, 1).map(|(config, warnings)| (config.flows[0].rx_ports.clone(), warnings))
    };
    let path = "flows[0].tx_rx.port.rx_name";
    let deprecated = vec![format!("{path}: is deprecated: use rx_names")];
    let named = vec!["q".to_owned()];
    assert_eq!(read(json!({"tx_name": "p", "rx_names": ["q", "q"]})), Ok((named.clone(), vec![])));
    for ends in
        [json!({"tx_name": "p", "rx_name": "q"}), json!({"tx_name": "p", "rx_name": "q", "rx_names": ["q"]})]
    {
        assert_eq!(read(ends), Ok((named.clone(), deprecated.clone())));
    }
    let other = read(json!({"tx_name": "p", "rx_name": "p", "rx_names": ["q"]}));
    assert_eq!(other, Err(vec![format!("{path}: the port p is not in rx_names")]));
    let unknown = read(json!({"tx_name": "p", "rx_name": "x"}));
    assert_eq!(unknown, Err(vec![format!("{path}: there is no port named x")]));
}

#[test]
fn the_values_of_a_configuration_are_bounded() {
    let flow = |number: usize| {
        let random = json!({"random": {"seed": number, "count": 500_000}});
        json!({"name": format!("f{number}"), "tx_rx": {"port": {"tx_name": "p"}},
            "packet": [{"ethernet": {}}, {"ipv4": {}}, {"udp": {"src_port": random}}]})
    };
    let read = |flows: usize| {
        let flows: Vec<Value> = (0..flows).map(flow).collect();
        OtgConfig::read(&json!({"ports": [{"name": "p", "location": "a"}], "flows": flows}), 1)
    };
    assert!(read(8).is_ok());
    let why = "flows[8].packet[2].udp.src_port.random: the lists of values up to here have more than \
               4000000 values";
    assert_eq!(read(9).unwrap_err(), [why]);
}

/// Other flows come and go, and the configuration is read again.
#[test]
fn random_values_without_a_seed_do_not_depend_on_other_flows() {
    let flow = |name: &str| {
        json!({"name": name, "tx_rx": {"port": {"tx_name": "p"}}, "packet": [{"ethernet": {}}, {"ipv4": {}},
            {"udp": {"src_port": {"random": {"seed": 0, "count": 9}}}}]})
    };
    let read = |seed: u64, names: &[&str]| {
        let flows: Vec<Value> = names.iter().map(|name| flow(name)).collect();
        let json = json!({"ports": [{"name": "p", "location": "a"}], "flows": flows});
        OtgConfig::read(&json, seed).expect("a configuration").0.flows.pop().expect("a flow")
    };
    assert_eq!(read(7, &["f"]), read(7, &["g", "h", "f"]));
    assert_ne!(read(7, &["f"]), read(8, &["f"]));
    let (one, other) = (read(7, &["f"]), read(7, &["g"]));
    assert_ne!(one.packet(96).unwrap(), other.packet(96).unwrap());
}

#[test]
fn a_custom_filter_without_a_length_compares_its_whole_value() {
    for length in [json!(null), json!(8)] {
        let mut custom = json!({"offset": 96, "value": "010203", "mask": "ffffff"});
        if !length.is_null() {
            custom["bit_length"] = length;
        }
        let filter = json!({"choice": "custom", "custom": custom});
        let json = json!({"ports": [{"name": "p", "location": "eth1"}],
            "captures": [{"name": "c", "port_names": ["p"], "filters": [filter]}]});
        let (config, warnings) = OtgConfig::read(&json, 1).unwrap();
        let filter = &config.captures[0].filter[0];
        assert!(filter.matches(&[&[0; 12][..], &[1, 2, 3]].concat()));
        assert!(!filter.matches(&[&[0; 12][..], &[1, 9, 3]].concat()));
        let said =
            "captures[0].filters[0].custom.bit_length: is not given: the 24 bits of the value are compared";
        assert_eq!(warnings, [said]);
    }
}

/// Checked with tshark: GTP with TEID 7 and length 56, and with an extension header.
#[test]
fn gtp_u_headers_have_their_length_and_what_their_flags_say() {
    let frame = |gtpv1: Value| {
        let headers = json!([
            {"choice": "ethernet"}, {"choice": "ipv4"},
            {"choice": "udp", "udp": {"src_port": {"value": 2152}, "dst_port": {"value": 2152}}},
            {"choice": "gtpv1", "gtpv1": gtpv1}, {"choice": "ipv4"},
        ]);
        let flow = json!({"name": "f", "tx_rx": {"choice": "port", "port": {"tx_name": "p"}},
            "packet": headers, "size": {"choice": "fixed", "fixed": 106}});
        let json = json!({"ports": [{"name": "p", "location": "a"}], "flows": [flow]});
        OtgConfig::read(&json, 1).map(|(config, _)| config.flows[0].packet(106).unwrap().template)
    };
    let plain = frame(json!({"teid": {"choice": "value", "value": 7}})).unwrap();
    assert_eq!(plain[42..50], [0x30, 255, 0, 56, 0, 0, 0, 7]);
    assert_eq!(plain[50], 0x45);
    let extended = frame(json!({"e_flag": {"value": 1}, "squence_number": {"value": 5},
        "next_extension_header_type": {"value": 0x85}, "extension_headers": [{"contents": {"value": 9}}]}));
    let extended = extended.unwrap();
    let expected = [0x34, 255, 0, 56, 0, 0, 0, 0, 0, 5, 0, 0x85, 2, 0, 0, 0, 0, 0, 9, 0];
    assert_eq!(extended[42..62], expected);
    assert_eq!(extended[62], 0x45);
    let refusal = frame(json!({"squence_number": {"value": 5}})).unwrap_err();
    let said = "flows[0].packet[3].gtpv1.squence_number: is there only with e_flag, s_flag or pn_flag 1";
    assert_eq!(refusal, [said]);
}
