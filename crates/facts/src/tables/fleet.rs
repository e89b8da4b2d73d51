//! Tests over several hosts: `wirerate fleet` and `wirerate otg`.

use super::shared::HOST_CLOCK;
use crate::counts::{OtherFrames, UnusualFrames};
use crate::document::{
    Document, Field, Kind, Row, bytes, count, flag, frames, ns, number, object, objects, pps, text, texts,
    word,
};

/// The result of a run over several hosts.
pub const FLEET: Document = Document {
    name: "wirerate.fleet/2",
    about: "wirerate fleet run --json and wirerate fleet report --json",
    groups: &[&[
        Row(&[text("run")], "the run"),
        Row(&[word("verdict", &["whole", "partial", "not_started"])], "the verdict"),
        Row(&[ns("duration_ns")], "how long flows were to be sent at most"),
        Row(&[object("start", &[START])], "when the hosts started"),
        Row(
            &[object("sent", &[BOUNDS]), object("received", &[BOUNDS]), object("lost", &[BOUNDS])],
            "sums of all flows",
        ),
        Row(
            &[objects("seconds", &[SECOND])],
            "one entry for each second from the start on; those of the first hour",
        ),
        Row(&[objects("flows", &[FLOW])], "one entry for each flow"),
        Row(&[objects("hosts", &[HOST])], "one entry for each host"),
        Row(
            &[object("other_frames", &[OtherFrames::ROWS]), object("unusual_frames", &[UnusualFrames::ROWS])],
            "frames of all receivers that do not count as received; received unusual frames",
        ),
        Row(
            &[object("latency", &[LATENCY]).or_null()],
            "latency of all receivers; `null` without synchronized clocks",
        ),
        Row(&[texts("notes")], "what a reader should know"),
    ]],
};

/// A host of a fleet.
pub const FLEET_HOST: Document = Document {
    name: "wirerate.host/2",
    about: "wirerate fleet hosts --json",
    groups: &[&[
        Row(&[text("host")], "name of the host"),
        Row(
            &[count("instance"), flag("has_double")],
            "number of the running agent; true if two agents have this name",
        ),
        Row(&[text("version")], "version of wirerate"),
        Row(&[text("boot_id"), ns("time_ns")], "the boot of the host, and when it reported"),
        Row(&[object("clock", &[HOST_CLOCK])], "its clock"),
        Row(
            &[text("clock_daemon").or_null(), Field::new("tai_offset_s", Kind::Integer("s"))],
            "the service that sets the clock, and the difference of TAI and UTC",
        ),
        Row(&[objects("ports", &[PORT])], "its ports"),
    ]],
};

/// A run as it was planned.
pub const FLEET_PLAN: Document = Document {
    name: "wirerate.fleet-plan/2",
    about: "wirerate fleet list --json",
    groups: &[&[
        Row(&[text("run")], "the run"),
        Row(
            &[ns("start_at_ns"), ns("duration_ns"), ns("settle_ns")],
            "start, longest time of sending, and time to wait for frames after it",
        ),
        Row(&[objects("flows", &[PLANNED_FLOW])], "the flows"),
        Row(&[objects("hosts", &[HOST_ORDER])], "the hosts"),
    ]],
};

/// A run that was stopped.
pub const FLEET_STOP: Document = Document {
    name: "wirerate.fleet-stop/1",
    about: "wirerate fleet stop --json",
    groups: &[&[Row(&[text("run")], "the run"), Row(&[objects("hosts", &[STOPPED_HOST])], "the hosts")]],
};

/// A flow of an Open Traffic Generator configuration.
pub const OTG_FLOW: Document = Document {
    name: "wirerate.otg-flow/1",
    about: "wirerate otg run --json",
    groups: &[&[
        Row(&[text("name"), text("port_tx"), text("port_rx")], "flow, and its ports"),
        Row(&[word("transmit", &["started", "stopped", "paused"])], "its state"),
        Row(&[frames("frames_tx"), frames("frames_rx"), bytes("bytes_tx"), bytes("bytes_rx")], "counts"),
        Row(&[pps("frames_tx_rate"), pps("frames_rx_rate")], "rates in frames per second"),
        Row(&[number("tx_l1_rate_bps", "bits/s"), number("rx_l1_rate_bps", "bits/s")], "rates on the wire"),
        Row(&[number("tx_rate_bytes", "bytes/s"), number("rx_rate_bytes", "bytes/s")], "rates in bytes"),
        Row(&[number("tx_rate_bps", "bits/s"), number("rx_rate_bps", "bits/s")], "rates in bits"),
        Row(&[number("tx_rate_kbps", "kbit/s"), number("rx_rate_kbps", "kbit/s")], "rates in kbit"),
        Row(&[number("tx_rate_mbps", "Mbit/s"), number("rx_rate_mbps", "Mbit/s")], "rates in Mbit"),
        Row(&[number("loss", "percent").or_absent()], "loss, if the flow asks for it"),
        Row(&[object("latency", &[OTG_LATENCY]).or_absent()], "latency, if the flow asks for it"),
        Row(
            &[object("timestamps", &[OTG_STAMPS]).or_absent()],
            "times of the first and the last frame, if the flow asks for them",
        ),
        Row(
            &[objects("tagged_metrics", &[OTG_TAGGED]).or_absent()],
            "if the flow has metric tags: its frames by the values of these tags",
        ),
    ]],
};

const OTG_TAGGED: &[Row] = &[
    Row(&[objects("tags", &[OTG_TAG])], "the values that these frames have"),
    Row(
        &[frames("frames_tx").or_absent(), bytes("bytes_tx").or_absent()],
        "frames sent with them, and their bytes; absent if the configuration does not say how many, or of which size",
    ),
    Row(&[frames("frames_rx"), bytes("bytes_rx")], "frames received with them, and their bytes"),
    Row(
        &[number("loss", "percent").or_absent()],
        "as in the row of the flow; absent if nothing says how many of them are to arrive",
    ),
    Row(
        &[object("timestamps", &[OTG_STAMPS]).or_absent(), object("latency", &[OTG_LATENCY]).or_absent()],
        "as in the row of the flow",
    ),
];

const OTG_TAG: &[Row] = &[
    Row(&[text("name")], "name of the tag; `rx_name` for the receiving port"),
    Row(&[object("value", &[OTG_TAG_VALUE])], "its value"),
];

const OTG_TAG_VALUE: &[Row] = &[
    Row(&[word("choice", &["hex", "str"])], "kind of the value"),
    Row(
        &[text("hex").or_absent(), text("str").or_absent()],
        "a number in hexadecimal, such as `0x2e`; name of a port",
    ),
];

const OTG_LATENCY: &[Row] = &[Row(
    &[number("minimum_ns", "ns"), number("maximum_ns", "ns"), number("average_ns", "ns")],
    "lowest, highest and mean latency",
)];

const OTG_STAMPS: &[Row] =
    &[Row(&[number("first_timestamp_ns", "ns"), number("last_timestamp_ns", "ns")], "the times")];

const START: &[Row] = &[
    Row(&[ns("start_at_ns")], "the start"),
    Row(
        &[ns("spread_ns").or_null()],
        "first frames within this time, by the hosts' own clocks; `null` if unknown",
    ),
    Row(&[ns("clocks_ns").or_null()], "the clocks agree within this; `null` if unknown"),
];

const BOUNDS: &[Row] = &[Row(
    &[frames("min"), frames("max").or_null()],
    "least and most, equal if the number is exact; `max` is `null` if unknown",
)];

const SECOND: &[Row] = &[Row(
    &[frames("sent").or_null(), frames("received").or_null()],
    "frames of all hosts; `null` if unknown",
)];

const FLOW: &[Row] = &[
    Row(&[text("name"), text("from"), text("to")], "its name and its ports, as HOST/PORT"),
    Row(
        &[frames("sent").or_null(), frames("received").or_null(), frames("lost").or_null()],
        "its frames; `null` unless exact",
    ),
    Row(
        &[
            object("sent_bounds", &[BOUNDS]),
            object("received_bounds", &[BOUNDS]),
            object("lost_bounds", &[BOUNDS]),
        ],
        "their bounds",
    ),
    Row(
        &[frames("duplicate").or_null(), frames("reordered").or_null(), frames("errors").or_null()],
        "frames, as in `wirerate.measure/1` and `wirerate.send/2`; `null` if unknown",
    ),
    Row(&[ns("first_ns").or_null()], "when the first frame arrived, by the clock of the receiver, or `null`"),
    Row(&[object("rate", &[RATE]).or_null()], "its rate; `null` without a pace"),
    Row(&[text("fault").or_null()], "why its counts are not exact or cannot be, or `null`"),
];

const RATE: &[Row] = &[Row(
    &[pps("asked_pps"), pps("reached_pps"), flag("is_missed")],
    "requested and reached rate, and true if it was missed",
)];

const ENDS: &[&str] = &["done", "stopped", "left", "orphaned", "failed", "late", "aborted"];

const HOST: &[Row] = &[
    Row(&[text("host"), flag("is_whole")], "its name, and true if its counts are complete"),
    Row(
        &[word("end", ENDS).or_null(), text("why").or_null()],
        "how it ended, `null` without its last counts; the reason, or `null`",
    ),
    Row(&[count("last_number"), ns("last_time_ns").or_null()], "number and time of its last counts"),
    Row(&[ns("released_late_ns").or_null()], "how late it started"),
];

const LATENCY: &[Row] = &[
    Row(&[frames("stamped"), ns("min_ns"), ns("max_ns")], "frames with a latency, lowest and highest"),
    Row(
        &[Field::new("percentiles", Kind::List(&Kind::List(&Kind::Number(""))))],
        "pairs of a percentile and the latency in nanoseconds",
    ),
    Row(&[text("histogram")], "the latencies, as `histogram` of `wirerate.measure/1`"),
    Row(&[flag("is_complete")], "true if all receivers reported"),
];

const PORT: &[Row] = &[
    Row(&[text("name"), text("device"), text("netns").or_null()], "name, device and namespace"),
    Row(
        &[text("mac").or_null(), text("address").or_null(), text("driver").or_null()],
        "its addresses and driver",
    ),
    Row(&[count_bps("speed_bps").or_null()], "speed of the link; `null` if unknown"),
    Row(
        &[text("state"), flag("is_default_route")],
        "state of the link; true if the default route leaves by it",
    ),
    Row(&[text("engine").or_null()], "engine that `send` uses"),
    Row(&[text("run").or_null()], "the run that uses the port, or `null`"),
];

const fn count_bps(name: &'static str) -> Field {
    Field::new(name, Kind::Count("bits/s"))
}

const PLANNED_FLOW: &[Row] = &[
    Row(&[text("name"), text("from"), text("to")], "its name and its ports, as HOST/PORT"),
    Row(&[texts("send")], "options of `send`"),
    Row(&[frames("count").or_null()], "frames to send; `null` without such a limit"),
];

const HOST_ORDER: &[Row] = &[
    Row(&[text("host"), flag("is_armed")], "its name, and true if it took part"),
    Row(
        &[object("clock", &[HOST_CLOCK]).or_null(), text("boot_id").or_null(), count("instance").or_null()],
        "its clock, its boot and the number of its agent; `null` if it did not answer",
    ),
    Row(&[text("why").or_null()], "why it did not take part, or `null`"),
];

const STOPPED_HOST: &[Row] = &[
    Row(&[text("host")], "its name"),
    Row(&[text("end").or_null()], "how it ended; `null` if its last counts have not arrived"),
    Row(&[flag("was_over"), flag("was_armed")], "true if it had ended before; true if it took part"),
    Row(&[frames("sent").or_null()], "frames that it sent; `null` if unknown"),
];
