//! Frames of a configuration as text.

use frames::{Expander, NoCaptures, PacketOrder, ParseSettings, parse};

/// The first `count` frames, in hexadecimal.
pub(crate) fn frames(config: &str, count: usize) -> Vec<String> {
    let specs = parse(config.as_bytes(), &ParseSettings::default(), &mut NoCaptures)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut expander = Expander::new(&specs, PacketOrder::RoundRobin, 1);
    let hex = |frame: &[u8]| frame.iter().map(|byte| format!("{byte:02x}")).collect();
    (0..count).map(|_| hex(expander.next_frame().expect("there are packets"))).collect()
}
