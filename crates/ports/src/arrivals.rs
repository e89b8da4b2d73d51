//! What the receiving ports of a flow have counted of it.

use super::port::Port;
use fleet::FlowArrivals;

/// The counts of flow `number` at some ports.
pub(super) fn arrivals<'a>(ports: impl Iterator<Item = &'a Port>, number: u32) -> FlowArrivals {
    let mut sum = FlowArrivals::default();
    for port in ports {
        let (line, detail) = (port.line(number), port.detail(number));
        sum.add(&FlowArrivals {
            frames: line.received(),
            bytes: detail.frame_bytes,
            first_copies: line.unique(),
            stamped: if line.stamped > 0 { line.stamped_count(false) } else { 0 },
            latency_min_ns: u64::from(!line.latency_min_inverted),
            latency_max_ns: u64::from(line.latency_max_ns),
            latency_sum_ns: line.latency_sum_ns,
            first_ns: detail.first_ns,
            last_ns: detail.last_ns,
        });
    }
    sum
}
