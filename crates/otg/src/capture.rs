//! Captures of a configuration and their filters.

use crate::header::parse_hex;
use crate::node::ConfigNode;

/// A capture on the receive side of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Its name.
    pub name: String,
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Conditions that must all hold.
    pub filter: Vec<BitMatch>,
    /// True: the last frames are kept. False: the first ones.
    pub overwrite: bool,
    /// Bytes kept of each frame, FCS included; all if `None`.
    pub packet_size: Option<usize>,
    /// The file that is downloaded.
    pub format: CaptureFormat,
}

/// The form of a downloaded capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFormat {
    /// Microseconds, no FCS bits in the link type.
    Pcap,
    /// Nanoseconds; an FCS of four bytes in the interface.
    Pcapng,
}

/// Bits of a frame that must have a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitMatch {
    /// First bit in the frame.
    pub bit: usize,
    /// Bits.
    pub bits: usize,
    /// Their value, where `mask` is 1.
    pub value: Vec<u8>,
    /// The bits that count.
    pub mask: Vec<u8>,
    /// Holds when they differ.
    pub negate: bool,
}

/// Headers that a filter knows: bits, and fields with their first bit and width.
type FilterLayout = (usize, &'static [(&'static str, usize, usize)]);

const ETHERNET: FilterLayout = (112, &[("dst", 0, 48), ("src", 48, 48), ("ether_type", 96, 16)]);
const VLAN: FilterLayout = (32, &[("priority", 0, 3), ("cfi", 3, 1), ("id", 4, 12), ("protocol", 16, 16)]);
const IPV4: FilterLayout = (
    160,
    &[
        ("version", 0, 4),
        ("header_length", 4, 4),
        ("priority", 8, 8),
        ("total_length", 16, 16),
        ("identification", 32, 16),
        ("reserved", 48, 1),
        ("dont_fragment", 49, 1),
        ("more_fragments", 50, 1),
        ("fragment_offset", 51, 13),
        ("time_to_live", 64, 8),
        ("protocol", 72, 8),
        ("header_checksum", 80, 16),
        ("src", 96, 32),
        ("dst", 128, 32),
    ],
);
const IPV6: FilterLayout = (
    320,
    &[
        ("version", 0, 4),
        ("traffic_class", 4, 8),
        ("flow_label", 12, 20),
        ("payload_length", 32, 16),
        ("next_header", 48, 8),
        ("hop_limit", 56, 8),
        ("src", 64, 128),
        ("dst", 192, 128),
    ],
);

impl CaptureConfig {
    pub(crate) fn read(node: &ConfigNode) -> Self {
        let has_size = node.has("packet_size");
        let packet_size = node.number("packet_size", 0, 0..=65_535) as usize;
        Self {
            name: node.required("name").to_owned(),
            ports: node.texts("port_names"),
            filter: read_filter(node.objects("filters")),
            overwrite: node.flag("overwrite", true),
            packet_size: has_size.then_some(packet_size),
            format: match node.text("format") {
                Some("pcapng") => CaptureFormat::Pcapng,
                _ => CaptureFormat::Pcap,
            },
        }
    }
}

/// Header filters stand one behind the other; a custom filter stands where the next header would.
fn read_filter(nodes: Vec<ConfigNode>) -> Vec<BitMatch> {
    let (mut start, mut matches) = (0, Vec::new());
    for node in nodes {
        node.whole(|node| {
            node.ignore(&["choice"]);
            let (name, layout) = match node.choice("custom") {
                "ethernet" => ("ethernet", ETHERNET),
                "vlan" => ("vlan", VLAN),
                "ipv4" => ("ipv4", IPV4),
                "ipv6" => ("ipv6", IPV6),
                _ => {
                    let custom =
                        node.object("custom").map(|custom| custom.whole(|node| read_custom(node, start)));
                    return matches.extend(custom);
                }
            };
            if let Some(header) = node.object(name) {
                header.whole(|header| {
                    for &(field, bit, bits) in layout.1 {
                        let field = header.object(field);
                        matches.extend(
                            field.map(|field| field.whole(|node| read_match(node, start + bit, bits))),
                        );
                    }
                });
            }
            start += layout.0;
        });
    }
    matches
}

/// Bits of a custom filter, by default.
const CUSTOM_BITS: u64 = 8;

fn read_custom(node: &ConfigNode, start: usize) -> BitMatch {
    let offset = node.number("offset", 0, 0..=8 * 65_535) as usize;
    let bits = node.number("bit_length", CUSTOM_BITS, 1..=8 * 65_535) as usize;
    let digits = node.text("value").map_or(0, |text| text.trim_start_matches("0x").len());
    // Clients write the default where the user gave no length.
    if bits == CUSTOM_BITS as usize && digits > 2 {
        let of_value = 4 * digits;
        node.findings().warn(
            &node.at("bit_length"),
            format!("is not given: the {of_value} bits of the value are compared"),
        );
        return read_match(node, start + offset, of_value);
    }
    read_match(node, start + offset, bits)
}

fn read_match(node: &ConfigNode, bit: usize, bits: usize) -> BitMatch {
    let number = |name| {
        let text = node.text(name).unwrap_or("00");
        right_aligned(text, bits).unwrap_or_else(|| {
            node.findings().error(&node.at(name), format!("is not a number of {bits} bits in hexadecimal"));
            vec![0; bits.div_ceil(8)]
        })
    };
    BitMatch { bit, bits, value: number("value"), mask: number("mask"), negate: node.flag("negate", false) }
}

/// A number of `bits` bits in whole bytes.
fn right_aligned(text: &str, bits: usize) -> Option<Vec<u8>> {
    let digits = text.trim_start_matches("0x").trim_start_matches("0X");
    let digits = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    let bytes = parse_hex(&digits)?;
    let len = bits.div_ceil(8);
    let (above, low) = bytes.split_at(bytes.len().saturating_sub(len));
    let mut number = vec![0; len - low.len()];
    number.extend(low);
    let spare = 8 * len - bits;
    let is_in_range = above.iter().all(|byte| *byte == 0) && u32::from(number[0]) >> (8 - spare) == 0;
    is_in_range.then_some(number)
}

impl BitMatch {
    /// True if the frame matches. Bits behind its end count as 0.
    pub fn matches(&self, frame: &[u8]) -> bool {
        let spare = 8 * self.value.len() - self.bits;
        let is_equal = (0..self.bits).all(|index| {
            let at = self.bit + index;
            let bit = frame.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0);
            let (byte, mask) = ((spare + index) / 8, 0x80 >> ((spare + index) % 8));
            self.mask[byte] & mask == 0 || bit == (self.value[byte] & mask != 0)
        });
        is_equal != self.negate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_aligned() {
        assert_eq!(right_aligned("0x800", 16), Some(vec![8, 0]));
        assert_eq!(right_aligned("fff", 12), Some(vec![0x0f, 0xff]));
        assert_eq!(right_aligned("1", 48), Some(vec![0, 0, 0, 0, 0, 1]));
        assert_eq!(right_aligned("1000", 12), None);
        assert_eq!(right_aligned("8", 3), None);
    }

    #[test]
    fn bits_are_compared_under_the_mask() {
        let matched =
            BitMatch { bit: 4, bits: 12, value: vec![1, 0x23], mask: vec![0x0f, 0xf0], negate: false };
        assert!(matched.matches(&[0xf1, 0x2f]));
        assert!(!matched.matches(&[0xf1, 0x3f]));
        assert!(BitMatch { negate: true, ..matched }.matches(&[0xf1, 0x3f]));
    }
}
