//! The headers of the model that wirerate builds: their fields in order of the wire.

use crate::node::ConfigNode;
use crate::pattern::{Form, Pattern, PatternRow};
use crate::tag::{MetricTag, read_field_tags};
use crate::vlan::VlanTag;

/// A kind of header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderKind {
    Ethernet,
    Vlan,
    Ipv4,
    Ipv6,
    Udp,
    Tcp,
    Icmp,
    Icmpv6,
    Arp,
    Mpls,
    Gre,
    Vxlan,
    Gtpv1,
    Custom,
}

/// How a checksum is filled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ChecksumChoice {
    #[default]
    Good,
    /// Wrong in each frame.
    Bad,
    Custom(u16),
}

/// A field of a header: where it is, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedPattern {
    pub(crate) name: &'static str,
    /// First bit in the header.
    pub(crate) bit: usize,
    pub(crate) bits: u32,
    pub(crate) pattern: Pattern,
}

/// A header of a flow.
#[derive(Clone, Debug, Eq)]
pub(crate) struct FlowHeader {
    pub(crate) kind: HeaderKind,
    /// Its path in the configuration.
    pub(crate) path: String,
    pub(crate) len: usize,
    pub(crate) fields: Vec<PlacedPattern>,
    /// The first byte of its checksum in the header, and how it is filled in.
    pub(crate) checksum: Option<(usize, ChecksumChoice)>,
    /// The bytes of a custom header.
    pub(crate) custom: Vec<u8>,
    /// Bits by whose values received frames are counted; their first bits count in the header.
    pub(crate) tags: Vec<MetricTag>,
}

impl PartialEq for FlowHeader {
    /// The path makes no difference: it changes when flows before this one come and go.
    fn eq(&self, other: &Self) -> bool {
        let Self { kind, path: _, len, fields, checksum, custom, tags } = self;
        let others = (&other.kind, &other.len, &other.fields, &other.checksum, &other.custom, &other.tags);
        (kind, len, fields, checksum, custom, tags) == others
    }
}

impl FlowHeader {
    /// The header of a VLAN tag; `next` is the EtherType of what follows.
    pub(crate) fn of_tag(tag: &VlanTag, next: Pattern, path: String) -> Self {
        let values = [tag.priority.into(), 0, tag.id.into()].map(Pattern::Value);
        let mut bit = 0;
        let place = |(row, pattern): (&Row, Pattern)| {
            let placed = PlacedPattern { name: row.name, bit, bits: row.bits, pattern };
            bit += row.bits as usize;
            placed
        };
        let fields: Vec<PlacedPattern> =
            VLAN.iter().zip(values.into_iter().chain([next])).map(place).collect();
        Self {
            kind: HeaderKind::Vlan,
            path,
            len: bit / 8,
            fields,
            checksum: None,
            custom: Vec::new(),
            tags: Vec::new(),
        }
    }
}

use PatternRow as Row;

const ETHERNET: [Row; 3] = [
    Row { is_auto: true, ..Row::address("dst", Form::Mac) },
    Row::address("src", Form::Mac),
    Row::number("ether_type", 16, 65_535).or_auto_if(65_535),
];
const VLAN: [Row; 4] = [
    Row::number("priority", 3, 0),
    Row::number("cfi", 1, 0),
    Row::number("id", 12, 0),
    // The two bytes after the tag.
    Row::number("tpid", 16, 65_535).or_auto_if(65_535),
];
const IPV4_START: [Row; 2] = [Row::number("version", 4, 4), Row::auto("header_length", 4, 5)];
const IPV4_END: [Row; 10] = [
    Row::auto("total_length", 16, 46),
    Row::number("identification", 16, 0),
    Row::number("reserved", 1, 0),
    Row::number("dont_fragment", 1, 0),
    Row::number("more_fragments", 1, 0),
    Row::number("fragment_offset", 13, 0),
    Row::number("time_to_live", 8, 64),
    Row::auto("protocol", 8, 61),
    Row::address("src", Form::Ipv4),
    Row::address("dst", Form::Ipv4),
];
const TOS: [Row; 6] = [
    Row::number("precedence", 3, 0),
    Row::number("delay", 1, 0),
    Row::number("throughput", 1, 0),
    Row::number("reliability", 1, 0),
    Row::number("monetary", 1, 0),
    Row::number("unused", 1, 0),
];
const DSCP: [Row; 2] = [Row::number("phb", 6, 0), Row::number("ecn", 2, 0)];
const IPV6: [Row; 8] = [
    Row::number("version", 4, 6),
    Row::number("traffic_class", 8, 0),
    Row::number("flow_label", 20, 0),
    Row::auto("payload_length", 16, 0),
    Row::auto("next_header", 8, 59),
    Row::number("hop_limit", 8, 64),
    Row::address("src", Form::Ipv6),
    Row::address("dst", Form::Ipv6),
];
const UDP: [Row; 3] = [
    Row::number("src_port", 16, 0),
    Row::number("dst_port", 16, 0),
    Row::number("length", 16, 0).or_auto_if(0),
];
const TCP: [Row; 15] = [
    Row::number("src_port", 16, 0),
    Row::number("dst_port", 16, 0),
    Row::number("seq_num", 32, 0),
    Row::number("ack_num", 32, 0),
    Row::number("data_offset", 4, 0).or_auto_if(0),
    // Three reserved bits, of which the last is the nonce sum of RFC 3540.
    Row::number("ecn_ns", 1, 0),
    Row::number("ecn_cwr", 1, 0),
    Row::number("ecn_echo", 1, 0),
    Row::number("ctl_urg", 1, 0),
    Row::number("ctl_ack", 1, 0),
    Row::number("ctl_psh", 1, 0),
    Row::number("ctl_rst", 1, 0),
    Row::number("ctl_syn", 1, 0),
    Row::number("ctl_fin", 1, 0),
    Row::number("window", 16, 0),
];
const ICMP: [Row; 2] = [Row::number("type", 8, 8), Row::number("code", 8, 0)];
const ICMPV6: [Row; 2] = [Row::number("type", 8, 128), Row::number("code", 8, 0)];
const ECHO: [Row; 2] = [Row::number("identifier", 16, 0), Row::number("sequence_number", 16, 0)];
const ARP: [Row; 9] = [
    Row::number("hardware_type", 16, 1),
    Row::number("protocol_type", 16, 2048),
    Row::number("hardware_length", 8, 6),
    Row::number("protocol_length", 8, 4),
    Row::number("operation", 16, 1),
    Row::address("sender_hardware_addr", Form::Mac),
    Row::address("sender_protocol_addr", Form::Ipv4),
    Row::address("target_hardware_addr", Form::Mac),
    Row::address("target_protocol_addr", Form::Ipv4),
];
const MPLS: [Row; 4] = [
    Row { is_auto: true, ..Row::number("label", 20, 16) },
    Row::number("traffic_class", 3, 0),
    Row::auto("bottom_of_stack", 1, 1),
    Row::number("time_to_live", 8, 64),
];
const GRE: [Row; 4] = [
    Row::number("checksum_present", 1, 0),
    Row::number("reserved0", 12, 0),
    Row::number("version", 3, 0),
    Row::auto("protocol", 16, 0x0800),
];
const VXLAN: [Row; 4] = [
    Row::number("flags", 8, 8),
    Row::number("reserved0", 24, 0),
    Row::auto("vni", 24, 0),
    Row::number("reserved1", 8, 0),
];

/// The header of GTP-U (3GPP TS 29.281).
const GTPV1: [Row; 9] = [
    Row::number("version", 3, 1),
    Row::number("protocol_type", 1, 1),
    Row::number("reserved", 1, 0),
    Row::number("e_flag", 1, 0),
    Row::number("s_flag", 1, 0),
    Row::number("pn_flag", 1, 0),
    Row::number("message_type", 8, 255),
    Row::number("message_length", 16, 0).or_auto_if(0),
    Row::number("teid", 32, 0),
];
/// Its flags, of which one makes the header longer.
const GTPV1_FLAGS: std::ops::Range<usize> = 3..6;
/// What is there with any of the flags.
const GTPV1_OPTIONAL: [Row; 3] = [
    Row::number("squence_number", 16, 0),
    Row::number("n_pdu_number", 8, 0),
    Row::number("next_extension_header_type", 8, 0),
];
const GTPV1_EXTENSION: [Row; 3] = [
    // In units of four bytes.
    Row::number("extension_length", 8, 0).or_auto_if(0),
    Row::number("contents", 48, 0),
    Row::number("next_extension_header", 8, 0),
];

/// Collects the fields of a header, in order of the wire.
struct HeaderReader<'a, 'b> {
    node: &'b ConfigNode<'a>,
    seed: u64,
    bit: usize,
    fields: Vec<PlacedPattern>,
    tags: Vec<MetricTag>,
}

impl<'a, 'b> HeaderReader<'a, 'b> {
    fn new(node: &'b ConfigNode<'a>, seed: u64) -> Self {
        Self { node, seed, bit: 0, fields: Vec::new(), tags: Vec::new() }
    }

    fn rows(&mut self, rows: &[PatternRow]) {
        self.rows_of(Some(self.node), rows);
    }

    /// Fields of an object inside the header.
    fn rows_of(&mut self, node: Option<&ConfigNode>, rows: &[PatternRow]) {
        for row in rows {
            let pattern = match node {
                Some(node) => row.read(node, self.seed),
                None => Pattern::Value(row.default),
            };
            if let Some(field) = node.and_then(|node| node.object(row.name)) {
                read_field_tags(&field, (self.bit, row.bits), row.bits, &mut self.tags);
            }
            self.fields.push(PlacedPattern { name: row.name, bit: self.bit, bits: row.bits, pattern });
            self.bit += row.bits as usize;
        }
    }

    fn skip(&mut self, bits: usize) {
        self.bit += bits;
    }

    /// The next 16 bits are the checksum `name` of `node`.
    fn checksum(&mut self, node: Option<&ConfigNode>, name: &'static str) -> Option<(usize, ChecksumChoice)> {
        let choice = node.and_then(|node| node.object(name)).map(|node| node.whole(read_checksum));
        let offset = self.bit / 8;
        self.bit += 16;
        Some((offset, choice.unwrap_or_default()))
    }

    /// Type of service, in one of its three forms.
    fn priority(&mut self) {
        let Some(priority) = self.node.object("priority") else { return self.rows_of(None, &DSCP) };
        priority.whole(|priority| {
            priority.ignore(&["choice"]);
            match priority.choice("dscp") {
                "raw" => self.rows_of(Some(priority), &[PatternRow::number("raw", 8, 0)]),
                "tos" => self.inner(priority, "tos", &TOS),
                _ => self.inner(priority, "dscp", &DSCP),
            }
        });
    }

    fn inner(&mut self, node: &ConfigNode, name: &'static str, rows: &[PatternRow]) {
        match node.object(name) {
            Some(inner) => inner.whole(|inner| self.rows_of(Some(inner), rows)),
            None => self.rows_of(None, rows),
        }
    }

    fn echo(&mut self, rows: &[PatternRow]) -> Option<(usize, ChecksumChoice)> {
        self.node.ignore(&["choice"]);
        let echo = self.node.object("echo");
        self.rows_of(echo.as_ref(), rows);
        let checksum = self.checksum(echo.as_ref(), "checksum");
        self.rows_of(echo.as_ref(), &ECHO);
        if let Some(echo) = echo {
            echo.whole(|echo| echo.ignore(&["type", "code", "checksum", "identifier", "sequence_number"]));
        }
        checksum
    }
}

fn read_checksum(node: &ConfigNode) -> ChecksumChoice {
    node.ignore(&["choice"]);
    match node.choice("generated") {
        "custom" => ChecksumChoice::Custom(node.number("custom", 0, 0..=0xffff) as u16),
        _ if node.text("generated") == Some("bad") => ChecksumChoice::Bad,
        _ => ChecksumChoice::Good,
    }
}

impl HeaderKind {
    /// The kind that the model calls `name`. None if wirerate cannot build it.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "ethernet" => Self::Ethernet,
            "vlan" => Self::Vlan,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "udp" => Self::Udp,
            "tcp" => Self::Tcp,
            "icmp" => Self::Icmp,
            "icmpv6" => Self::Icmpv6,
            "arp" => Self::Arp,
            "mpls" => Self::Mpls,
            "gre" => Self::Gre,
            "vxlan" => Self::Vxlan,
            "gtpv1" => Self::Gtpv1,
            "custom" => Self::Custom,
            _ => return None,
        })
    }

    /// EtherType of a header that follows Ethernet, a VLAN tag or GRE.
    pub(crate) fn ether_type(self) -> Option<u16> {
        match self {
            Self::Ipv4 => Some(0x0800),
            Self::Ipv6 => Some(0x86dd),
            Self::Arp => Some(0x0806),
            Self::Vlan => Some(0x8100),
            Self::Mpls => Some(0x8847),
            _ => None,
        }
    }

    /// Protocol number of a header that follows IP.
    pub(crate) fn ip_protocol(self) -> Option<u8> {
        match self {
            Self::Udp => Some(17),
            Self::Tcp => Some(6),
            Self::Icmp => Some(1),
            Self::Icmpv6 => Some(58),
            Self::Gre => Some(47),
            Self::Ipv4 => Some(4),
            Self::Ipv6 => Some(41),
            _ => None,
        }
    }

    /// Reads the header. `seed` is for random values that are not to be repeatable.
    pub(crate) fn read(self, node: &ConfigNode, seed: u64) -> FlowHeader {
        let mut reader = HeaderReader::new(node, seed);
        let mut custom = Vec::new();
        let checksum = match self {
            Self::Ethernet => {
                reader.rows(&ETHERNET);
                refuse_pfc_queue(node, seed);
                None
            }
            Self::Vlan => only_rows(&mut reader, &VLAN),
            Self::Ipv4 => {
                reader.rows(&IPV4_START);
                reader.priority();
                let (before, addresses) = IPV4_END.split_at(IPV4_END.len() - 2);
                reader.rows(before);
                let checksum = reader.checksum(Some(node), "header_checksum");
                reader.rows(addresses);
                checksum
            }
            Self::Ipv6 => only_rows(&mut reader, &IPV6),
            Self::Udp => {
                reader.rows(&UDP);
                reader.checksum(Some(node), "checksum")
            }
            Self::Tcp => {
                let (before, after) = TCP.split_at(5);
                reader.rows(before);
                reader.skip(3);
                reader.rows(after);
                let checksum = reader.checksum(Some(node), "checksum");
                reader.skip(16);
                checksum
            }
            Self::Icmp => reader.echo(&ICMP),
            Self::Icmpv6 => reader.echo(&ICMPV6),
            Self::Arp => only_rows(&mut reader, &ARP),
            Self::Mpls => only_rows(&mut reader, &MPLS),
            Self::Gre => read_gre(&mut reader),
            Self::Vxlan => only_rows(&mut reader, &VXLAN),
            Self::Gtpv1 => read_gtpv1(&mut reader),
            Self::Custom => {
                custom = read_custom(node);
                read_field_tags(node, (0, 8 * custom.len() as u32), 1, &mut reader.tags);
                reader.skip(8 * custom.len());
                None
            }
        };
        let HeaderReader { bit, fields, tags, .. } = reader;
        FlowHeader { kind: self, path: node.path().to_owned(), len: bit / 8, fields, checksum, custom, tags }
    }
}

fn only_rows(reader: &mut HeaderReader, rows: &[PatternRow]) -> Option<(usize, ChecksumChoice)> {
    reader.rows(rows);
    None
}

/// A queue of priority flow control is a property of the sending port, not of the frame.
fn refuse_pfc_queue(node: &ConfigNode, seed: u64) {
    let queue = PatternRow::number("pfc_queue", 3, 0).read(node, seed);
    if queue.at(0, 3) != Some(0) || !queue.is_constant() {
        node.findings().error(&node.at("pfc_queue"), "is not supported");
    }
}

/// The checksum and the reserved field behind it are there when the first bit is 1.
fn read_gre(reader: &mut HeaderReader) -> Option<(usize, ChecksumChoice)> {
    reader.rows(&GRE);
    let node = reader.node;
    let present = &reader.fields[0].pattern;
    if !present.is_constant() {
        node.findings().error(&node.at("checksum_present"), "has to be the same in all frames");
    }
    if present.at(0, 1) == Some(1) {
        let checksum = reader.checksum(Some(node), "checksum");
        reader.rows(&[PatternRow::number("reserved1", 16, 0)]);
        return checksum;
    }
    for name in ["checksum", "reserved1"] {
        if node.object(name).is_some() {
            node.findings().error(&node.at(name), "is there only with checksum_present 1");
        }
    }
    None
}

/// The numbers and the type of the first extension header are there when one of the flags is 1,
/// extension headers only with `e_flag`.
fn read_gtpv1(reader: &mut HeaderReader) -> Option<(usize, ChecksumChoice)> {
    reader.rows(&GTPV1);
    let node = reader.node;
    let mut is_long = false;
    for field in &reader.fields[GTPV1_FLAGS] {
        if !field.pattern.is_constant() {
            node.findings().error(&node.at(field.name), "has to be the same in all frames");
        }
        is_long |= field.pattern.at(0, 1) == Some(1);
    }
    if is_long {
        reader.rows(&GTPV1_OPTIONAL);
    } else {
        for row in GTPV1_OPTIONAL.iter().filter(|row| node.object(row.name).is_some()) {
            node.findings().error(&node.at(row.name), "is there only with e_flag, s_flag or pn_flag 1");
        }
    }
    let has_extensions = reader.fields[GTPV1_FLAGS.start].pattern.at(0, 1) == Some(1);
    for extension in node.objects("extension_headers") {
        if !has_extensions {
            node.findings().error(&node.at("extension_headers"), "are there only with e_flag 1");
        }
        extension.whole(|extension| reader.rows_of(Some(extension), &GTPV1_EXTENSION));
    }
    None
}

/// Bytes in hexadecimal; blanks, colons and 0x are allowed.
pub(crate) fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.replace("0x", "").replace("0X", "");
    let digits: Vec<u32> = text
        .chars()
        .filter(|letter| !letter.is_whitespace() && *letter != ':')
        .map(|letter| letter.to_digit(16))
        .collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| Some((pair[0] << 4 | *pair.get(1)?) as u8));
    bytes.collect()
}

fn read_custom(node: &ConfigNode) -> Vec<u8> {
    parse_hex(node.required("bytes")).unwrap_or_else(|| {
        node.findings().error(&node.at("bytes"), "is not a list of bytes in hexadecimal");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_hexadecimal() {
        assert_eq!(parse_hex("de:ad be ef 0x00 01"), Some(vec![0xde, 0xad, 0xbe, 0xef, 0, 1]));
        assert_eq!(parse_hex(""), Some(vec![]));
        assert_eq!(parse_hex("abc"), None);
        assert_eq!(parse_hex("zz"), None);
    }
}
