//! The frames that trafgen 0.6.8 wrote for the configurations in `lab/oracle/trafgen.json`.

mod verify;

use frames::{Expander, NoCaptures, PacketOrder, ParseSettings, parse};
use serde_json::Value;

fn cases() -> Vec<Value> {
    let path = testkit::root().join("lab/oracle/trafgen.json");
    let text = std::fs::read_to_string(path).expect("the recordings are in the repository");
    serde_json::from_str(&text).expect("the recordings are JSON")
}

/// The bytes of hex digits.
fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn frames_are_those_of_trafgen() {
    let cases = cases();
    assert_eq!(cases.len(), 60);
    for case in &cases {
        let (name, config) = (&case["name"], case["config"].as_str().expect("a configuration"));
        let recorded = case["frames"].as_array().expect("frames");
        let specs = parse(config.as_bytes(), &ParseSettings::default(), &mut NoCaptures)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut expander = Expander::new(&specs, PacketOrder::RoundRobin, 1);
        for (number, recorded) in recorded.iter().enumerate() {
            let recorded = bytes(recorded.as_str().expect("hex digits"));
            let frame = expander.next_frame().expect("there are packets");
            let at = format!("{name}, frame {number} of {config}");
            let spec = &specs[number % specs.len()];
            if case["checksums"] == "good" {
                verify::equal_but_for_hidden_checksums(frame, &recorded, spec, &at);
            } else {
                verify::equal_but_for_checksums(frame, &recorded, spec, &at);
            }
            verify::checksums_are_right(frame, &at);
        }
    }
}
