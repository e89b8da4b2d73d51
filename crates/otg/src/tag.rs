//! Metric tags: bits of received frames by whose values frames are counted.

use crate::node::ConfigNode;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of a frame that a receiver tracks for a flow.
pub const TAG_PARTS_MAX: usize = 4;
/// Bits of a part.
pub const TAG_PART_BITS_MAX: u32 = 32;

/// Bits of a received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricTag {
    /// Its name.
    pub name: String,
    /// Its first bit in the frame.
    pub bit: usize,
    /// Its bits.
    pub bits: u32,
}

impl MetricTag {
    /// The parts of a frame that it consists of: first bit and bits of each.
    pub fn parts(&self) -> impl Iterator<Item = (usize, u32)> {
        let starts = (0..self.bits).step_by(TAG_PART_BITS_MAX as usize);
        starts.map(|start| (self.bit + start as usize, TAG_PART_BITS_MAX.min(self.bits - start)))
    }

    /// Its value from the values of its parts.
    fn value(&self, parts: &[u32]) -> u128 {
        let parts = self.parts().zip(parts);
        parts.fold(0, |value, ((_, bits), part)| value << bits | u128::from(*part))
    }
}

/// The values of tags from those of all their parts, in order.
pub fn tag_values(tags: &[MetricTag], mut parts: &[u32]) -> Vec<u128> {
    let value = |tag: &MetricTag| {
        let value = tag.value(parts);
        parts = parts.get(tag.parts().count()..).unwrap_or_default();
        value
    };
    tags.iter().map(value).collect()
}

/// Frames by the values of tags.
pub type FramesByValues = BTreeMap<Vec<u128>, u64>;

/// All frames that a port receives, counted by the values of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressTracking {
    /// The port.
    pub port: String,
    /// Its tags, in order.
    pub tags: Vec<MetricTag>,
    /// The times of the first and the last frame are reported.
    pub timestamps: bool,
}

impl EgressTracking {
    pub(crate) fn read(node: &ConfigNode) -> Self {
        let port = node.required("port_name").to_owned();
        for filter in node.objects("filters") {
            filter.whole(|filter| {
                if filter.choice("none") != "none" {
                    filter.error("only the filter none is supported");
                }
            });
        }
        let tags = node.objects("metric_tags").into_iter().map(|tag| tag.whole(read_egress_tag)).collect();
        let tracking = Self { port, tags, timestamps: node.flag("enable_timestamps", false) };
        check_tags(&tracking.tags, node);
        if tracking.tags.is_empty() {
            node.findings().error(&node.at("metric_tags"), "is required");
        }
        tracking
    }
}

fn read_egress_tag(node: &ConfigNode) -> MetricTag {
    // Only frames that are received are counted.
    node.ignore(&["tx_offset"]);
    let bit = node.number("rx_offset", 0, 0..=u64::from(u16::MAX)) as usize;
    let bits = node.number("length", 1, 1..=u64::from(TAG_PART_BITS_MAX) * TAG_PARTS_MAX as u64) as u32;
    MetricTag { name: node.required("name").to_owned(), bit, bits }
}

/// Reads the tags of a field of a header, which has `bits` bits from `bit` on. A tag without a
/// length has `default` bits, or those up to the end of the field.
pub(crate) fn read_field_tags(
    node: &ConfigNode,
    (bit, bits): (usize, u32),
    default: u32,
    tags: &mut Vec<MetricTag>,
) {
    for tag in node.objects("metric_tags") {
        tag.whole(|tag| {
            let name = tag.required("name").to_owned();
            let offset = tag.number("offset", 0, 0..=u64::from(bits.saturating_sub(1))) as u32;
            let left = bits.saturating_sub(offset).max(1);
            let length = tag.number("length", default.min(left).into(), 1..=left.into()) as u32;
            tags.push(MetricTag { name, bit: bit + offset as usize, bits: length });
        });
    }
}

/// Reports tags with one name, and more bits than a receiver tracks.
pub(crate) fn check_tags(tags: &[MetricTag], node: &ConfigNode) {
    let mut names = BTreeSet::new();
    for tag in tags {
        if !names.insert(&tag.name[..]) {
            node.error(format!("there are two metric tags named {}", tag.name));
        }
        if tag.parts().any(|(bit, _)| bit > usize::from(u16::MAX)) {
            node.error(format!("the metric tag {} is behind bit {}", tag.name, u16::MAX));
        }
    }
    if tags.iter().map(|tag| tag.parts().count()).sum::<usize>() > TAG_PARTS_MAX {
        node.error(format!(
            "metric tags of more than {TAG_PARTS_MAX} times {TAG_PART_BITS_MAX} bits are not supported"
        ));
    }
}
