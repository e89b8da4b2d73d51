//! What describes a row of `wirerate otg run`. Its fields are those of the Open Traffic Generator's
//! model, which [`otg::metrics`] writes.

use facts::{Document, Field, Kind, Part};

/// A flow of an Open Traffic Generator configuration.
pub const OTG_FLOW: Document =
    Document { name: "wirerate.otg-flow/1", about: "wirerate otg run --json", parts: FLOW };

const fn field(name: &'static str, kind: Kind, meaning: &'static str) -> Part {
    Part::Field(Field { name, kind, is_nullable: false, is_optional: false, meaning })
}

const fn optional(name: &'static str, kind: Kind, meaning: &'static str) -> Part {
    Part::Field(Field { name, kind, is_nullable: false, is_optional: true, meaning })
}

const FLOW: &[Part] = &[
    field("name", Kind::Text, "Name of the flow."),
    field("port_tx", Kind::Text, "The port that sends it."),
    field("port_rx", Kind::Text, "The port that receives it."),
    field("transmit", Kind::Word(&["started", "stopped", "paused"]), "Its state."),
    field("frames_tx", Kind::Count("frames"), "Frames sent."),
    field("frames_rx", Kind::Count("frames"), "Frames received."),
    field("bytes_tx", Kind::Count("bytes"), "Bytes sent."),
    field("bytes_rx", Kind::Count("bytes"), "Bytes received."),
    field("frames_tx_rate", Kind::Number("frames/s"), "Rate of sent frames."),
    field("frames_rx_rate", Kind::Number("frames/s"), "Rate of received frames."),
    field("tx_l1_rate_bps", Kind::Number("bits/s"), "Rate of sending on the wire."),
    field("rx_l1_rate_bps", Kind::Number("bits/s"), "Rate of receiving on the wire."),
    field("tx_rate_bytes", Kind::Number("bytes/s"), "Rate of sent bytes."),
    field("rx_rate_bytes", Kind::Number("bytes/s"), "Rate of received bytes."),
    field("tx_rate_bps", Kind::Number("bits/s"), "Rate of sent bits."),
    field("rx_rate_bps", Kind::Number("bits/s"), "Rate of received bits."),
    field("tx_rate_kbps", Kind::Number("kbit/s"), "Rate of sent kbit."),
    field("rx_rate_kbps", Kind::Number("kbit/s"), "Rate of received kbit."),
    field("tx_rate_mbps", Kind::Number("Mbit/s"), "Rate of sent Mbit."),
    field("rx_rate_mbps", Kind::Number("Mbit/s"), "Rate of received Mbit."),
    optional("loss", Kind::Number("percent"), "The loss, if the flow asks for it."),
    optional("latency", Kind::Object(LATENCY), "The latency, if the flow asks for it."),
    optional("timestamps", Kind::Object(STAMPS), "Times of frames, if the flow asks for them."),
    optional(
        "tagged_metrics",
        Kind::Objects(TAGGED),
        "If the flow has metric tags: its frames by the values of these tags.",
    ),
];

const TAGGED: &[Part] = &[
    field("tags", Kind::Objects(TAG), "The values that these frames have."),
    optional(
        "frames_tx",
        Kind::Count("frames"),
        "Frames sent with them; absent if the configuration does not say how many.",
    ),
    optional(
        "bytes_tx",
        Kind::Count("bytes"),
        "Bytes of the frames sent with them; absent if the configuration does not say how many, or of which size.",
    ),
    field("frames_rx", Kind::Count("frames"), "Frames received with them."),
    field("bytes_rx", Kind::Count("bytes"), "Bytes of the frames received with them."),
    optional(
        "loss",
        Kind::Number("percent"),
        "The loss as in the row of the flow; absent if nothing says how many of them are to arrive.",
    ),
    optional("timestamps", Kind::Object(STAMPS), "Times of these frames, as in the row of the flow."),
    optional("latency", Kind::Object(LATENCY), "Their latency, as in the row of the flow."),
];

const TAG: &[Part] = &[
    field("name", Kind::Text, "Name of the tag; `rx_name` for the receiving port."),
    field("value", Kind::Object(TAG_VALUE), "Its value."),
];

const TAG_VALUE: &[Part] = &[
    field("choice", Kind::Word(&["hex", "str"]), "Kind of the value."),
    optional("hex", Kind::Text, "A number in hexadecimal, such as `0x2e`."),
    optional("str", Kind::Text, "Name of a port."),
];

const LATENCY: &[Part] = &[
    field("minimum_ns", Kind::Number("ns"), "Lowest latency."),
    field("maximum_ns", Kind::Number("ns"), "Highest latency."),
    field("average_ns", Kind::Number("ns"), "Mean latency."),
];

const STAMPS: &[Part] = &[
    field("first_timestamp_ns", Kind::Number("ns"), "Time of the first frame."),
    field("last_timestamp_ns", Kind::Number("ns"), "Time of the last frame."),
];
