//! The protocols: names, layers, fields and defaults. The parser, the help and the docs read this
//! table.

/// A protocol function, such as `udp(...)`.
#[derive(Debug)]
pub struct Protocol {
    /// Which one.
    pub id: Id,
    /// Names; the first is the one to show.
    pub names: &'static [&'static str],
    /// Its place in the stack; a header below [`Protocol::lower`]'s layer gets that one first.
    pub layer: u8,
    /// The header that is added in front if the stack ends below it.
    pub lower: Option<Id>,
    /// Bytes of the header without optional groups.
    pub len: usize,
    /// Optional groups of four bytes behind the header, each with the bits that it sets in the
    /// first field.
    pub groups: &'static [u64],
    /// The fields. The first one of an overlapping pair is the more general one.
    pub fields: &'static [ProtocolField],
    /// Words that stand alone and set fields.
    pub words: &'static [Word],
    /// The field that names the header behind this one.
    pub next: Next,
    /// The numbers that name this protocol in the header before it.
    pub number: Numbers,
    /// Its checksum.
    pub sum: Sum,
    /// True for protocols that trafgen does not have.
    pub is_ours: bool,
}

/// Identity of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Id {
    Eth,
    Pause,
    Pfc,
    Vlan,
    Mpls,
    Arp,
    Ipv4,
    Ipv6,
    Icmp4,
    Icmp6,
    Igmp,
    Udp,
    Tcp,
    Sctp,
    Gre,
    Vxlan,
    Geneve,
    Gtpu,
    Dns,
    Pppoe,
    HopByHop,
    Destination,
    Routing,
    Fragment,
    Ah,
    Esp,
    Raw,
}

/// The field that names the next header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is none; any header may follow.
    Any,
    /// An EtherType in the field of this index.
    EtherType(usize),
    /// An IP protocol number.
    IpProtocol(usize),
    /// A destination port.
    Port(usize),
    /// A protocol of PPP.
    Ppp(usize),
    /// A bottom-of-stack bit, cleared if another label follows.
    BottomOfStack(usize),
}

/// How the header before a protocol names it; 0 if it cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// EtherType.
    pub ether_type: u16,
    /// IP protocol number.
    pub ip: u8,
    /// UDP or TCP destination port.
    pub port: u16,
    /// Protocol of PPP.
    pub ppp: u16,
}

/// The checksum of a header, with the index of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// None.
    None,
    /// Over the header (IPv4).
    Header(usize),
    /// Over the header and all behind it.
    Plain(usize),
    /// Checksum over the header, all behind it, and a pseudo header of the IP header before it; 0
    /// behind other headers.
    Transport(usize),
    /// CRC32c over the header and all behind it.
    Crc32c(usize),
}

/// What a field takes as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A number.
    Number,
    /// A MAC address.
    Mac,
    /// An IPv4 address or a number.
    Ip4,
    /// An IPv6 address.
    Ip6,
}

/// What a field holds if it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// Zero.
    Zero,
    /// This number.
    Number(u64),
    /// Bytes from this header to the end of the frame, less this number.
    Length(usize),
    /// A checksum or a number that the next header sets.
    Computed,
    /// The address of the sending device.
    OfDevice,
}

/// One field of a header.
#[derive(Debug)]
pub struct ProtocolField {
    /// Names; the first is the one to show.
    pub names: &'static [&'static str],
    /// First byte in the header or, in a group, in the group. Negative for VLAN's TPID.
    pub offset: isize,
    /// Bytes.
    pub width: usize,
    /// Its bits, 0 for all.
    pub mask: u64,
    /// Shift of a value.
    pub shift: u32,
    /// What it takes.
    pub kind: ValueKind,
    /// What it holds if not given.
    pub default: Default,
    /// The optional group that it is in.
    pub group: Option<usize>,
    /// True if the name alone sets it to 1.
    pub is_flag: bool,
    /// Words that it takes as values.
    pub values: &'static [(&'static str, u64)],
}

/// A word that stands alone and sets fields.
#[derive(Debug)]
pub struct Word {
    /// Names; the first is the one to show.
    pub names: &'static [&'static str],
    /// Indexes of fields, and their values.
    pub sets: &'static [(usize, u64)],
}

type FieldNames = &'static [&'static str];

/// A number of whole bytes, default 0.
const fn number(names: FieldNames, offset: isize, width: usize) -> ProtocolField {
    ProtocolField {
        names,
        offset,
        width,
        mask: 0,
        shift: 0,
        kind: ValueKind::Number,
        default: Default::Zero,
        group: None,
        is_flag: false,
        values: &[],
    }
}

/// Some bits of a number.
const fn bits(names: FieldNames, offset: isize, width: usize, mask: u64) -> ProtocolField {
    ProtocolField { mask, shift: mask.trailing_zeros(), ..number(names, offset, width) }
}

/// One bit, set by its name alone.
const fn flag(names: FieldNames, offset: isize, width: usize, mask: u64) -> ProtocolField {
    ProtocolField { is_flag: true, ..bits(names, offset, width, mask) }
}

const fn mac(names: FieldNames, offset: isize) -> ProtocolField {
    ProtocolField { kind: ValueKind::Mac, ..number(names, offset, 6) }
}

const fn ip4(names: FieldNames, offset: isize) -> ProtocolField {
    ProtocolField { kind: ValueKind::Ip4, ..number(names, offset, 4) }
}

const fn ip6(names: FieldNames, offset: isize) -> ProtocolField {
    ProtocolField { kind: ValueKind::Ip6, ..number(names, offset, 16) }
}

impl ProtocolField {
    const fn default(self, value: u64) -> Self {
        Self { default: Default::Number(value), ..self }
    }

    const fn length_less(self, less: usize) -> Self {
        Self { default: Default::Length(less), ..self }
    }

    const fn computed(self) -> Self {
        Self { default: Default::Computed, ..self }
    }

    const fn of_device(self) -> Self {
        Self { default: Default::OfDevice, ..self }
    }

    const fn in_group(self, group: usize) -> Self {
        Self { group: Some(group), ..self }
    }

    const fn or_words(self, values: &'static [(&'static str, u64)]) -> Self {
        Self { values, ..self }
    }
}

/// Nothing special; each protocol below names what it has.
const PLAIN: Protocol = Protocol {
    id: Id::Eth,
    names: &[],
    layer: 2,
    lower: Some(Id::Eth),
    len: 0,
    groups: &[],
    fields: &[],
    words: &[],
    next: Next::Any,
    number: Numbers { ether_type: 0, ip: 0, port: 0, ppp: 0 },
    sum: Sum::None,
    is_ours: false,
};

/// Extension headers of IPv6, which carry what IPv6 carries.
const EXTENSION: Protocol =
    Protocol { layer: 3, lower: Some(Id::Ipv6), next: Next::IpProtocol(0), is_ours: true, ..PLAIN };

/// Bytes of `raw(...)` and `hex(...)` before another header. They name nothing, and nothing is
/// added between them and that header.
pub(crate) static RAW: Protocol =
    Protocol { id: Id::Raw, names: &["raw"], layer: u8::MAX, lower: None, is_ours: true, ..PLAIN };

const fn ether_type(ether_type: u16) -> Numbers {
    Numbers { ether_type, ip: 0, port: 0, ppp: 0 }
}

const fn ip_protocol(ip: u8) -> Numbers {
    Numbers { ether_type: 0, ip, port: 0, ppp: 0 }
}

const fn port(port: u16) -> Numbers {
    Numbers { ether_type: 0, ip: 0, port, ppp: 0 }
}

impl Protocol {
    /// The protocol of that identity.
    pub(crate) fn of(id: Id) -> &'static Self {
        PROTOCOLS.iter().find(|protocol| protocol.id == id).expect("each identity has a row")
    }

    /// True for headers that stand between an IP header and what its checksums cover.
    pub(crate) fn is_extension(&self) -> bool {
        use Id::{Ah, Destination, Fragment, HopByHop, Raw, Routing};
        matches!(self.id, Ah | Destination | Fragment | HopByHop | Raw | Routing)
    }

    /// The protocol of that name, in lower case.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PROTOCOLS.iter().find(|protocol| protocol.names.contains(&name))
    }
}

/// All protocols.
pub static PROTOCOLS: &[Protocol] = &[
    Protocol {
        id: Id::Eth,
        names: &["eth"],
        lower: None,
        len: 14,
        fields: &[
            mac(&["da", "daddr"], 0),
            mac(&["sa", "saddr"], 6).of_device(),
            number(&["type", "etype", "prot", "proto"], 12, 2).computed(),
        ],
        next: Next::EtherType(2),
        number: ether_type(0x6558),
        ..PLAIN
    },
    Protocol {
        id: Id::Pause,
        names: &["pause"],
        len: 4,
        fields: &[number(&["code"], 0, 2).default(1), number(&["time"], 2, 2)],
        number: ether_type(0x8808),
        ..PLAIN
    },
    Protocol {
        id: Id::Pfc,
        names: &["pfc"],
        len: 20,
        fields: &[
            number(&["code"], 0, 2).default(0x0101),
            number(&["pri", "prio"], 2, 2),
            bits(&["pri(0)", "prio(0)"], 2, 2, 0x01),
            bits(&["pri(1)", "prio(1)"], 2, 2, 0x02),
            bits(&["pri(2)", "prio(2)"], 2, 2, 0x04),
            bits(&["pri(3)", "prio(3)"], 2, 2, 0x08),
            bits(&["pri(4)", "prio(4)"], 2, 2, 0x10),
            bits(&["pri(5)", "prio(5)"], 2, 2, 0x20),
            bits(&["pri(6)", "prio(6)"], 2, 2, 0x40),
            bits(&["pri(7)", "prio(7)"], 2, 2, 0x80),
            number(&["time(0)"], 4, 2),
            number(&["time(1)"], 6, 2),
            number(&["time(2)"], 8, 2),
            number(&["time(3)"], 10, 2),
            number(&["time(4)"], 12, 2),
            number(&["time(5)"], 14, 2),
            number(&["time(6)"], 16, 2),
            number(&["time(7)"], 18, 2),
        ],
        number: ether_type(0x8808),
        ..PLAIN
    },
    Protocol {
        id: Id::Vlan,
        names: &["vlan"],
        len: 4,
        fields: &[
            number(&["tpid", "prot", "proto"], -2, 2).default(0x8100),
            number(&["tci"], 0, 2),
            bits(&["pcp"], 0, 2, 0xe000),
            bits(&["dei", "cfi"], 0, 2, 0x1000),
            bits(&["id"], 0, 2, 0x0fff),
            number(&["type", "etype"], 2, 2).computed(),
        ],
        words: &[
            Word { names: &["1q"], sets: &[(0, 0x8100)] },
            Word { names: &["1ad"], sets: &[(0, 0x88a8)] },
        ],
        next: Next::EtherType(5),
        number: ether_type(0x8100),
        ..PLAIN
    },
    Protocol {
        id: Id::Mpls,
        names: &["mpls"],
        len: 4,
        fields: &[
            bits(&["label", "lbl"], 0, 4, 0xffff_f000),
            bits(&["tc", "tclass", "exp"], 0, 4, 0xe00),
            bits(&["last"], 0, 4, 0x100).default(1),
            bits(&["ttl"], 0, 4, 0xff),
        ],
        next: Next::BottomOfStack(2),
        number: Numbers { ether_type: 0x8847, ip: 137, port: 0, ppp: 0x0281 },
        ..PLAIN
    },
    Protocol {
        id: Id::Arp,
        names: &["arp"],
        len: 28,
        fields: &[
            number(&["htype"], 0, 2).default(1),
            number(&["ptype"], 2, 2).default(0x0800),
            number(&["hlen"], 4, 1).default(6),
            number(&["plen"], 5, 1).default(4),
            number(&["op", "oper"], 6, 2).default(1).or_words(&[("request", 1), ("req", 1), ("reply", 2)]),
            mac(&["smac", "sha"], 8).of_device(),
            ip4(&["sip", "spa"], 14).of_device(),
            mac(&["tmac", "tha"], 18),
            ip4(&["tip", "tpa"], 24).of_device(),
        ],
        words: &[
            Word { names: &["request", "req"], sets: &[(4, 1)] },
            Word { names: &["reply"], sets: &[(4, 2)] },
        ],
        number: ether_type(0x0806),
        ..PLAIN
    },
    Protocol {
        id: Id::Ipv4,
        names: &["ipv4", "ip4"],
        layer: 3,
        len: 20,
        fields: &[
            bits(&["ver", "version"], 0, 1, 0xf0).default(4),
            bits(&["ihl"], 0, 1, 0x0f).default(5),
            number(&["tos"], 1, 1),
            bits(&["dscp"], 1, 1, 0xfc),
            bits(&["ecn"], 1, 1, 0x03),
            number(&["len", "length"], 2, 2).length_less(0),
            number(&["id"], 4, 2),
            bits(&["flags"], 6, 2, 0xe000),
            flag(&["df"], 6, 2, 0x4000),
            flag(&["mf"], 6, 2, 0x2000),
            bits(&["frag"], 6, 2, 0x1fff),
            number(&["ttl"], 8, 1),
            number(&["proto", "prot"], 9, 1).computed(),
            number(&["csum"], 10, 2).computed(),
            ip4(&["sa", "saddr"], 12).of_device(),
            ip4(&["da", "daddr"], 16),
        ],
        next: Next::IpProtocol(12),
        number: Numbers { ether_type: 0x0800, ip: 4, port: 0, ppp: 0x0021 },
        sum: Sum::Header(13),
        ..PLAIN
    },
    Protocol {
        id: Id::Ipv6,
        names: &["ipv6", "ip6"],
        layer: 3,
        // trafgen adds an Ethernet header on a device, and none in a file.
        lower: None,
        len: 40,
        fields: &[
            bits(&["ver", "version"], 0, 4, 0xf000_0000).default(6),
            bits(&["tc", "tclass"], 0, 4, 0x0ff0_0000),
            bits(&["fl", "flow"], 0, 4, 0x000f_ffff),
            number(&["len", "length"], 4, 2).length_less(40),
            number(&["nh", "nexthdr"], 6, 1).computed(),
            number(&["hl", "hoplimit", "ttl"], 7, 1),
            ip6(&["sa", "saddr"], 8).of_device(),
            ip6(&["da", "daddr"], 24),
        ],
        next: Next::IpProtocol(4),
        number: Numbers { ether_type: 0x86dd, ip: 41, port: 0, ppp: 0x0057 },
        ..PLAIN
    },
    Protocol {
        id: Id::Icmp4,
        names: &["icmpv4", "icmp4"],
        layer: 4,
        lower: Some(Id::Ipv4),
        len: 8,
        fields: &[
            number(&["type"], 0, 1).or_words(&[("echorequest", 8), ("echoreply", 0)]),
            number(&["code"], 1, 1),
            number(&["csum"], 2, 2).computed(),
            ip4(&["addr"], 4),
            number(&["id"], 4, 2),
            number(&["seq"], 6, 2),
            number(&["mtu"], 6, 2),
        ],
        words: &[
            Word { names: &["echorequest"], sets: &[(0, 8), (1, 0)] },
            Word { names: &["echoreply"], sets: &[(0, 0), (1, 0)] },
        ],
        number: ip_protocol(1),
        sum: Sum::Plain(2),
        ..PLAIN
    },
    Protocol {
        id: Id::Icmp6,
        names: &["icmpv6", "icmp6"],
        layer: 4,
        lower: Some(Id::Ipv6),
        len: 4,
        fields: &[
            number(&["type"], 0, 1).or_words(&[("echorequest", 128), ("echoreply", 129)]),
            number(&["code"], 1, 1),
            number(&["csum"], 2, 2).computed(),
        ],
        words: &[
            Word { names: &["echorequest"], sets: &[(0, 128)] },
            Word { names: &["echoreply"], sets: &[(0, 129)] },
        ],
        number: ip_protocol(58),
        sum: Sum::Transport(2),
        ..PLAIN
    },
    Protocol {
        id: Id::Udp,
        names: &["udp"],
        layer: 4,
        lower: Some(Id::Ipv4),
        len: 8,
        fields: &[
            number(&["sp", "sport"], 0, 2),
            number(&["dp", "dport"], 2, 2).computed(),
            number(&["len", "length"], 4, 2).length_less(0),
            number(&["csum"], 6, 2).computed(),
        ],
        next: Next::Port(1),
        number: ip_protocol(17),
        sum: Sum::Transport(3),
        ..PLAIN
    },
    Protocol {
        id: Id::Tcp,
        names: &["tcp"],
        layer: 4,
        lower: Some(Id::Ipv4),
        len: 20,
        fields: &[
            number(&["sp", "sport"], 0, 2),
            number(&["dp", "dport"], 2, 2).computed(),
            number(&["seq"], 4, 4),
            number(&["aseq", "ackseq"], 8, 4),
            bits(&["doff", "hlen"], 12, 2, 0xf000).default(5),
            flag(&["cwr"], 12, 2, 0x80),
            flag(&["ece", "ecn"], 12, 2, 0x40),
            flag(&["urg"], 12, 2, 0x20),
            flag(&["ack"], 12, 2, 0x10),
            flag(&["psh"], 12, 2, 0x08),
            flag(&["rst"], 12, 2, 0x04),
            flag(&["syn"], 12, 2, 0x02),
            flag(&["fin"], 12, 2, 0x01),
            number(&["win", "window"], 14, 2),
            number(&["csum"], 16, 2).computed(),
            number(&["urgptr"], 18, 2),
        ],
        next: Next::Port(1),
        number: ip_protocol(6),
        sum: Sum::Transport(14),
        ..PLAIN
    },
    Protocol {
        id: Id::Dns,
        names: &["dns"],
        layer: 7,
        lower: Some(Id::Udp),
        len: 12,
        fields: &[
            number(&["id"], 0, 2),
            bits(&["qr"], 2, 2, 0x8000).computed(),
            bits(&["op", "oper"], 2, 2, 0x7800),
            bits(&["aa", "aanswer"], 2, 2, 0x0400),
            bits(&["tc", "trunc"], 2, 2, 0x0200),
            bits(&["rd", "rdesired"], 2, 2, 0x0100),
            bits(&["ra", "ravail"], 2, 2, 0x0080),
            bits(&["zero"], 2, 2, 0x0030),
            bits(&["rcode"], 2, 2, 0x000f),
            number(&["qdcount"], 4, 2).computed(),
            number(&["ancount"], 6, 2).computed(),
            number(&["nscount"], 8, 2).computed(),
            number(&["arcount"], 10, 2).computed(),
        ],
        number: port(53),
        ..PLAIN
    },
    Protocol {
        id: Id::Igmp,
        names: &["igmp"],
        layer: 4,
        lower: Some(Id::Ipv4),
        len: 8,
        fields: &[
            number(&["type"], 0, 1).default(0x11).or_words(&[
                ("query", 0x11),
                ("report", 0x16),
                ("leave", 0x17),
            ]),
            number(&["time"], 1, 1),
            number(&["csum"], 2, 2).computed(),
            ip4(&["group", "addr"], 4),
        ],
        words: &[
            Word { names: &["query"], sets: &[(0, 0x11)] },
            Word { names: &["report"], sets: &[(0, 0x16)] },
            Word { names: &["leave"], sets: &[(0, 0x17)] },
        ],
        number: ip_protocol(2),
        sum: Sum::Plain(2),
        is_ours: true,
        ..PLAIN
    },
    Protocol {
        id: Id::Sctp,
        names: &["sctp"],
        layer: 4,
        lower: Some(Id::Ipv4),
        len: 12,
        fields: &[
            number(&["sp", "sport"], 0, 2),
            number(&["dp", "dport"], 2, 2),
            number(&["vtag"], 4, 4),
            number(&["csum"], 8, 4).computed(),
        ],
        number: ip_protocol(132),
        sum: Sum::Crc32c(3),
        is_ours: true,
        ..PLAIN
    },
    Protocol {
        id: Id::Gre,
        names: &["gre"],
        lower: Some(Id::Ipv4),
        len: 4,
        groups: &[0x2000, 0x1000],
        fields: &[
            number(&["flags"], 0, 2),
            number(&["proto", "prot", "type"], 2, 2).computed(),
            number(&["key"], 0, 4).in_group(0),
            number(&["seq"], 0, 4).in_group(1),
        ],
        next: Next::EtherType(1),
        number: ip_protocol(47),
        is_ours: true,
        ..PLAIN
    },
    Protocol {
        id: Id::Vxlan,
        names: &["vxlan"],
        layer: 0,
        lower: Some(Id::Udp),
        len: 8,
        fields: &[number(&["flags"], 0, 1).default(0x08), bits(&["vni"], 4, 4, 0xffff_ff00)],
        number: port(4789),
        is_ours: true,
        ..PLAIN
    },
    Protocol {
        id: Id::Geneve,
        names: &["geneve"],
        layer: 0,
        lower: Some(Id::Udp),
        len: 8,
        fields: &[
            bits(&["ver", "version"], 0, 1, 0xc0),
            bits(&["optlen"], 0, 1, 0x3f),
            number(&["flags"], 1, 1),
            number(&["proto", "prot", "type"], 2, 2).computed(),
            bits(&["vni"], 4, 4, 0xffff_ff00),
        ],
        next: Next::EtherType(3),
        number: port(6081),
        is_ours: true,
        ..PLAIN
    },
    Protocol {
        id: Id::Gtpu,
        names: &["gtpu"],
        lower: Some(Id::Udp),
        len: 8,
        groups: &[0x02],
        fields: &[
            number(&["flags"], 0, 1).default(0x30),
            number(&["type"], 1, 1).default(0xff),
            number(&["len", "length"], 2, 2).length_less(8),
            number(&["teid"], 4, 4),
            number(&["seq"], 0, 2).in_group(0),
        ],
        number: port(2152),
        is_ours: true,
        ..PLAIN
    },
    Protocol {
        id: Id::Pppoe,
        names: &["pppoe"],
        len: 8,
        fields: &[
            bits(&["ver", "version"], 0, 1, 0xf0).default(1),
            bits(&["type"], 0, 1, 0x0f).default(1),
            number(&["code"], 1, 1),
            number(&["session"], 2, 2),
            number(&["len", "length"], 4, 2).length_less(6),
            number(&["proto", "prot"], 6, 2).computed(),
        ],
        next: Next::Ppp(5),
        number: ether_type(0x8864),
        is_ours: true,
        ..PLAIN
    },
    Protocol {
        id: Id::HopByHop,
        names: &["hopopts", "hbh"],
        len: 2,
        fields: &[number(&["nh", "nexthdr"], 0, 1).computed(), number(&["len", "length"], 1, 1).computed()],
        ..EXTENSION
    },
    Protocol {
        id: Id::Destination,
        names: &["dstopts"],
        len: 2,
        fields: &[number(&["nh", "nexthdr"], 0, 1).computed(), number(&["len", "length"], 1, 1).computed()],
        number: ip_protocol(60),
        ..EXTENSION
    },
    Protocol {
        id: Id::Routing,
        names: &["srh", "routing"],
        len: 8,
        fields: &[
            number(&["nh", "nexthdr"], 0, 1).computed(),
            number(&["len", "length"], 1, 1).computed(),
            number(&["type"], 2, 1).default(4),
            number(&["left"], 3, 1).computed(),
            number(&["last"], 4, 1).computed(),
            number(&["flags"], 5, 1),
            number(&["tag"], 6, 2),
        ],
        number: ip_protocol(43),
        ..EXTENSION
    },
    Protocol {
        id: Id::Fragment,
        names: &["fragment"],
        len: 8,
        fields: &[
            number(&["nh", "nexthdr"], 0, 1).computed(),
            bits(&["off", "offset"], 2, 2, 0xfff8),
            flag(&["mf"], 2, 2, 0x0001),
            number(&["id"], 4, 4),
        ],
        number: ip_protocol(44),
        ..EXTENSION
    },
    Protocol {
        id: Id::Ah,
        names: &["ah"],
        lower: Some(Id::Ipv4),
        len: 24,
        fields: &[
            number(&["nh", "nexthdr"], 0, 1).computed(),
            number(&["len", "length"], 1, 1).default(4),
            number(&["spi"], 4, 4),
            number(&["seq"], 8, 4),
        ],
        number: ip_protocol(51),
        ..EXTENSION
    },
    Protocol {
        id: Id::Esp,
        names: &["esp"],
        layer: 4,
        lower: Some(Id::Ipv4),
        len: 8,
        fields: &[number(&["spi"], 0, 4), number(&["seq"], 4, 4)],
        number: ip_protocol(50),
        is_ours: true,
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn fields_lie_in_their_headers_and_names_are_unique() {
        let mut protocols = BTreeSet::new();
        for protocol in PROTOCOLS {
            assert!(protocol.names.iter().all(|name| protocols.insert(name)), "{protocol:?}");
            let mut names = BTreeSet::new();
            for field in protocol.fields {
                let end = field.offset + field.width as isize;
                let len = if field.group.is_some() { 4 } else { protocol.len };
                assert!(end <= len as isize, "{field:?}");
                assert!(field.names.iter().all(|name| names.insert(name)), "{field:?}");
                assert!(field.group.is_none_or(|group| group < protocol.groups.len()), "{field:?}");
                assert_eq!(field.mask >> field.shift << field.shift, field.mask, "{field:?}");
            }
            for word in protocol.words {
                assert!(word.names.iter().all(|name| names.insert(name)), "{word:?}");
                assert!(word.sets.iter().all(|(index, _)| *index < protocol.fields.len()), "{word:?}");
            }
        }
    }
}
