//! Metric tags of headers: their places in the frame, and how many frames are sent of each value.

use crate::header::{FlowHeader, HeaderKind};
use crate::pattern::Pattern;
use crate::stack::HeaderStack;
use crate::tag::{FramesByValues, MetricTag};

/// Frames after which all patterns of the tags of a flow have begun anew, at most: the frames that
/// were sent of each value are counted over such a period.
const PERIOD_MAX: u128 = 1 << 16;

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
    use crate::tag::tag_values;
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
