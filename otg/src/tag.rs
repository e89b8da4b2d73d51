//! Metric tags: bits of received frames by whose values frames are counted.

use crate::header::{FlowHeader, HeaderKind};
use crate::node::ConfigNode;
use crate::pattern::Pattern;
use crate::stack::HeaderStack;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of a frame that a receiver tracks for a flow, and the bits of a part.
pub const TAG_PARTS_MAX: usize = 4;
const PART_BITS: u32 = 32;
/// Frames after which all patterns of the tags of a flow have begun anew, at most: the frames that
/// were sent of each value are counted over such a period.
const PERIOD_MAX: u128 = 1 << 16;

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
        let starts = (0..self.bits).step_by(PART_BITS as usize);
        starts.map(|start| (self.bit + start as usize, PART_BITS.min(self.bits - start)))
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
    let bits = node.number("length", 1, 1..=u64::from(PART_BITS) * TAG_PARTS_MAX as u64) as u32;
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
            "metric tags of more than {TAG_PARTS_MAX} times {PART_BITS} bits are not supported"
        ));
    }
}

impl HeaderStack {
    /// The tags of its headers, with their places in the frame.
    pub(crate) fn tags(&self) -> Vec<MetricTag> {
        let placed = |(index, header): (usize, &FlowHeader)| {
            let start = 8 * self.start(index);
            let placed = move |tag: &MetricTag| MetricTag { bit: start + tag.bit, ..tag.clone() };
            header.tags.iter().map(placed).collect::<Vec<_>>()
        };
        self.headers.iter().enumerate().flat_map(placed).collect()
    }

    /// How many of the first `frames` frames have which values of these tags; `None` where a field
    /// is filled in, or the patterns are too long.
    pub(crate) fn sent_by_values(&self, tags: &[MetricTag], frames: u64) -> Option<FramesByValues> {
        let fields: Vec<TaggedField> =
            tags.iter().map(|tag| self.tagged_field(tag)).collect::<Option<_>>()?;
        let mut period = 1;
        for field in &fields {
            period = least_common_multiple(period, field.pattern.period()?)?;
        }
        let frames = u128::from(frames);
        let mut sent = FramesByValues::new();
        for index in 0..period.min(frames) {
            let values: Option<Vec<u128>> = fields.iter().map(|field| field.at(index)).collect();
            let count = frames / period + u128::from(index < frames % period);
            *sent.entry(values?).or_default() += count as u64;
        }
        Some(sent)
    }

    /// The field that holds a tag.
    fn tagged_field(&self, tag: &MetricTag) -> Option<TaggedField<'_>> {
        let within =
            |start: usize, bits: usize| start <= tag.bit && tag.bit + tag.bits as usize <= start + bits;
        let headers = self.headers.iter().enumerate();
        let mut places = headers.map(|(index, header)| (8 * self.start(index), header));
        let (start, header) = places.find(|(start, header)| within(*start, 8 * header.len))?;
        if header.kind == HeaderKind::Custom {
            return None;
        }
        let field = header.fields.iter().find(|field| within(start + field.bit, field.bits as usize))?;
        let end = start + field.bit + field.bits as usize;
        let below = (end - tag.bit - tag.bits as usize) as u32;
        Some(TaggedField { pattern: &field.pattern, field_bits: field.bits, below, bits: tag.bits })
    }
}

/// Bits of a field of a header.
struct TaggedField<'a> {
    pattern: &'a Pattern,
    field_bits: u32,
    /// Bits of the field behind them.
    below: u32,
    bits: u32,
}

impl TaggedField<'_> {
    /// Their value in frame `index`.
    fn at(&self, index: u128) -> Option<u128> {
        let value = self.pattern.at(index, self.field_bits)?;
        Some(value >> self.below & (u128::MAX >> (128 - self.bits)))
    }
}

fn least_common_multiple(one: u128, other: u128) -> Option<u128> {
    let (mut a, mut b) = (one, other);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (one / a.max(1)).checked_mul(other).filter(|multiple| *multiple <= PERIOD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OtgConfig;
    use serde_json::{Value, json};

    fn tag(name: &str, bit: usize, bits: u32) -> MetricTag {
        MetricTag { name: name.to_owned(), bit, bits }
    }

    fn read(packet: Value, egress: Value) -> Result<OtgConfig, Vec<String>> {
        let flow = json!({"name": "f", "tx_rx": {"port": {"tx_name": "p"}}, "packet": packet,
            "egress_packet": egress, "metrics": {"enable": true}});
        OtgConfig::read(&json!({"ports": [{"name": "p"}], "flows": [flow]}), 1).map(|(config, _)| config)
    }

    #[test]
    fn tags_are_bits_of_the_frame() {
        let tags = json!([{"name": "low", "offset": 12, "length": 4}, {"name": "all"}]);
        let vlan = json!({"vlan": {"id": {"increment": {"start": 7, "count": 3},
            "metric_tags": [{"name": "vlan"}]}}});
        let udp = json!({"udp": {"src_port": {"values": [17, 18], "metric_tags": tags}}});
        let packet = json!([{"ethernet": {}}, vlan, {"ipv4": {}}, udp]);
        let config = read(packet, json!([])).unwrap();
        let flow = &config.flows[0];
        let expected = [tag("vlan", 8 * 14 + 4, 12), tag("low", 8 * 38 + 12, 4), tag("all", 8 * 38, 16)];
        assert_eq!(flow.tags, expected);
        let sent = flow.sent_by_values(8).expect("the patterns are known");
        let counts: Vec<(Vec<u128>, u64)> = sent.into_iter().collect();
        let value = |vlan, port| (vec![vlan, port & 15, port], if vlan == 9 { 1 } else { 0 });
        let mut expected: Vec<(Vec<u128>, u64)> =
            [7, 8, 9].into_iter().flat_map(|vlan| [value(vlan, 17), value(vlan, 18)]).collect();
        // Frames 0 to 7: 7/17 8/18 9/17 7/18 8/17 9/18 7/17 8/18.
        for (place, count) in [(0, 2), (1, 1), (2, 1), (3, 2)] {
            expected[place].1 = count;
        }
        assert_eq!(counts, expected);
    }

    #[test]
    fn egress_headers_place_their_tags() {
        let egress =
            json!([{"ethernet": {}}, {"ipv4": {"priority": {"raw": {"metric_tags": [{"name": "tos"}]}}}}]);
        let config = read(json!([{"ethernet": {}}, {"vlan": {}}, {"ipv4": {}}]), egress).unwrap();
        assert_eq!(config.flows[0].tags, [tag("tos", 8 * 15, 8)]);
        assert_eq!(config.flows[0].sent_by_values(5), None, "the far end may change it");
    }

    #[test]
    fn wide_tags_have_several_parts() {
        let wide = tag("w", 100, 48);
        assert_eq!(wide.parts().collect::<Vec<_>>(), [(100, 32), (132, 16)]);
        let all = [wide, tag("n", 3, 8)];
        assert_eq!(tag_values(&all, &[0x0200_0000, 0x0102, 9, 0]), [0x0200_0000_0102, 9]);
    }

    #[test]
    fn tags_that_no_receiver_tracks_are_refused() {
        let of =
            |tags: Value| read(json!([{"ethernet": {"src": {"metric_tags": tags}}}]), json!([])).unwrap_err();
        let two = json!([{"name": "a"}, {"name": "a", "length": 3}]);
        assert_eq!(of(two), ["flows[0]: there are two metric tags named a"]);
        let three = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
        assert_eq!(of(three), ["flows[0]: metric tags of more than 4 times 32 bits are not supported"]);
        let path = "flows[0].packet[0].ethernet.src.metric_tags[0]";
        let outside = json!([{"name": "a", "offset": 40, "length": 9}]);
        assert_eq!(of(outside), [format!("{path}.length: 9 is not in 1 to 8")]);
    }
}
