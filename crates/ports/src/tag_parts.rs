//! Metric tags as the parts of frames whose values a receiver counts.

use measure::{TAG_PART_BITS, TAG_PARTS, TagPart};
use otg::{FlowConfig, MetricTag, OtgConfig, TAG_PART_BITS_MAX, TAG_PARTS_MAX};

// The receiver tracks what a configuration may have.
const _: () = assert!(TAG_PARTS_MAX == TAG_PARTS && TAG_PART_BITS_MAX == TAG_PART_BITS);

/// The parts of a frame that tags consist of.
pub(super) fn parts_of(tags: &[MetricTag]) -> Vec<TagPart> {
    // The configuration has no bits behind those of a part's place.
    let part = |(bit, bits): (usize, u32)| TagPart { bit: bit as u16, bits };
    tags.iter().flat_map(MetricTag::parts).map(part).collect()
}

/// True if the port called `name` counts frames by values.
pub(super) fn counts_values(config: &OtgConfig, name: &str) -> bool {
    let is_here = |flow: &FlowConfig| flow.rx_ports.iter().any(|port| port == name);
    let mut flows = config.flows.iter().filter(|flow| flow.metrics.enable && !flow.tags.is_empty());
    flows.any(is_here) || config.egress.iter().any(|egress| egress.port == name)
}
