//! Frames of dry runs.

use crate::document::{
    Document, Field, Kind, Row, Variant, bytes, count, counts, flag, ns, object, objects, text, texts, word,
};

/// A frame of a dry run of plain frames.
pub const FRAME: Document = Document {
    name: "wirerate.frame/1",
    about: "wirerate send --dry-run --json",
    groups: &[
        PLACE,
        LENGTHS,
        &[
            Row(&[text("dst_mac"), text("src_mac")], "Ethernet addresses"),
            Row(&[counts("vlan_ids")], "VLAN ids, outermost first"),
            Row(&[objects("mpls", &[LABEL])], "MPLS labels, outermost first"),
            Row(&[text("src"), text("dst")], "IPv4 or IPv6 addresses"),
            Row(
                &[count("tos"), count("hop_limit")],
                "type of service or traffic class; time to live or hop limit",
            ),
            Row(&[count("ip_id").or_null()], "IPv4 identification, `null` for IPv6"),
            Row(
                &[count("udp_src").or_absent(), count("udp_dst").or_absent()],
                "ports; absent of IPsec frames",
            ),
            Row(
                &[word("udp_checksum", CHECKSUM_STATES).or_absent()],
                "`none` is zero; absent of IPsec frames",
            ),
            Row(
                &[count("seq_num").or_absent(), count("tv_sec").or_absent(), count("tv_usec").or_absent()],
                "the pktgen header; absent with `--signature none`",
            ),
            Row(
                &[count("flow").or_absent(), count("flow_number").or_absent(), count("run").or_absent()],
                "full signatures only: flow, number in the flow, run",
            ),
            Row(
                &[object("mark", &[MARK_ROWS]).or_absent()],
                "the [mark](measure.md#the-signature-in-the-frame) at the end; absent without one",
            ),
            Row(
                &[
                    word("ipsec", &["esp", "ah"]).or_absent(),
                    count("spi").or_absent(),
                    count("ipsec_seq_num").or_absent(),
                ],
                "IPsec frames only: protocol, SPI and sequence number of the SA (with ESN its lower 32 bits)",
            ),
        ],
    ],
};

/// A frame of a dry run that is no plain one.
pub const RAW_FRAME: Document = Document {
    name: "wirerate.raw-frame/1",
    about: "wirerate send --frame PACKETS --dry-run --json",
    groups: &[
        PLACE,
        LENGTHS,
        &[
            Row(
                &[Field::new("layers", Kind::Variants { tag: "protocol", variants: LAYERS })],
                "its headers from the outside in, and what follows them",
            ),
            Row(&[text("bytes")], "its bytes, hexadecimal"),
        ],
    ],
};

/// A frame of a dry run of streams.
pub const STREAM_FRAME: Document = Document {
    name: "wirerate.stream-frame/1",
    about: "wirerate send --streams FILE --dry-run --json",
    groups: &[
        PLACE,
        &[Row(&[text("stream")], "name of its stream")],
        LENGTHS,
        &[Row(&[text("bytes")], "its bytes, hexadecimal")],
    ],
};

const PLACE: &[Row] = &[
    Row(&[count("number")], "number of the frame in the run, from 1"),
    Row(&[ns("time_ns")], "scheduled time since the start"),
];

const LENGTHS: &[Row] = &[Row(
    &[bytes("frame_len"), bytes("wire_len")],
    "length without FCS, and length on the wire with FCS, preamble and gap",
)];

const LABEL: &[Row] =
    &[Row(&[count("label"), count("class"), count("ttl")], "label, traffic class, time to live")];

const MARK_ROWS: &[Row] = &[
    Row(&[count("flow"), count("flow_number"), count("run")], "flow, number in the flow, run"),
    Row(&[ns("time_ns")], "CLOCK_MONOTONIC modulo 2^48"),
];

const CHECKSUM_STATES: &[&str] = &["none", "right", "wrong"];
const CHECKSUM: Field = word("checksum", CHECKSUM_STATES);
const KINDS_OF_EXTENSION: &[&str] = &["options", "destination options", "routing", "fragment"];

const fn layer(word: &'static str, fields: &'static [Field], meaning: &'static str) -> Variant {
    Variant { word, fields, meaning }
}

const ICMP: &[Field] = &[count("kind"), count("code"), count("id"), count("seq"), CHECKSUM];

const LAYERS: &[Variant] = &[
    layer("ethernet", &[text("src_mac"), text("dst_mac"), count("ether_type")], ""),
    layer("vlan", &[count("id"), count("priority"), flag("dei"), count("ether_type")], ""),
    layer("mpls", &[count("label"), count("class"), count("ttl")], ""),
    layer("pppoe", &[count("session")], ""),
    layer(
        "arp",
        &[count("operation"), text("sender_mac"), text("sender"), text("target_mac"), text("target")],
        "",
    ),
    layer(
        "ipv4",
        &[
            text("src"),
            text("dst"),
            count("tos"),
            count("ttl"),
            count("id"),
            count("next"),
            flag("fragment"),
            CHECKSUM,
        ],
        "",
    ),
    layer("ipv6", &[text("src"), text("dst"), count("class"), count("hop_limit"), count("next")], ""),
    layer(
        "extension",
        &[word("kind", KINDS_OF_EXTENSION), bytes("len")],
        "`kind` of the IPv6 extension header is `options`, `destination options`, `routing` or `fragment`",
    ),
    layer("udp", &[count("src_port"), count("dst_port"), CHECKSUM], ""),
    layer(
        "tcp",
        &[
            count("src_port"),
            count("dst_port"),
            texts("flags"),
            count("seq"),
            count("ack"),
            count("window"),
            CHECKSUM,
        ],
        "",
    ),
    layer("icmp", ICMP, ""),
    layer("icmpv6", ICMP, ""),
    layer("igmp", &[count("kind"), text("group"), CHECKSUM], ""),
    layer("sctp", &[count("src_port"), count("dst_port"), count("tag"), CHECKSUM], ""),
    layer(
        "gre",
        &[count("ether_type"), count("key").or_null(), count("seq").or_null()],
        "`null` where the header has none",
    ),
    layer("vxlan", &[count("vni")], ""),
    layer("geneve", &[count("vni"), count("ether_type")], ""),
    layer("gtpu", &[count("teid"), count("kind")], ""),
    layer("esp", &[count("spi"), count("seq")], ""),
    layer("ah", &[count("spi"), count("seq")], ""),
    layer(
        "pktgen",
        &[
            count("seq_num"),
            count("tv_sec"),
            count("tv_usec"),
            count("flow").or_absent(),
            count("flow_number").or_absent(),
            count("run").or_absent(),
        ],
        "the last three in full signatures only",
    ),
    layer("payload", &[bytes("offset"), bytes("len")], "its place in the frame"),
    layer("padding", &[bytes("len")], "bytes behind the end of the IP packet or the ARP message"),
    layer(
        "mark",
        &[count("flow"), count("flow_number"), count("run"), ns("time_ns")],
        "the last 18 bytes, which are also part of the payload or padding",
    ),
];
