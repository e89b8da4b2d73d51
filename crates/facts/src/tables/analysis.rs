//! `wirerate receive`, `measure`, `reflect`, `analyze`, and runs that are repeated.

use super::shared::{DAMAGES, ROW_TIME, RX_CPUS, RX_HEAD, START};
use crate::counts::{OtherFrames, UnusualFrames};
use crate::document::{
    Document, Field, Kind, Row, bytes, count, flag, frames, ns, number, object, objects, pps, signed_ns,
    text, texts, word,
};

/// The report of a receiver that reads signatures.
pub const MEASURE: Document = Document {
    name: "wirerate.measure/1",
    about: "wirerate receive --json, also measure, analyze and reflect",
    groups: REPORT,
};

/// The sum of the reports of several directions.
pub const MEASURE_TOTAL: Document = Document {
    name: "wirerate.measure-total/1",
    about: "wirerate measure --json with several directions: the fields of wirerate.measure/1, as sums",
    groups: REPORT,
};

/// A second of a receiver.
pub const MEASURE_SECOND: Document = Document {
    name: "wirerate.measure-second/1",
    about: "wirerate receive --json --every-second, also measure and reflect",
    groups: &[
        ROW_TIME,
        &[
            Row(&[text("device").or_absent()], "of `measure` only: the receiving device, as in `--rx`"),
            Row(
                &[
                    frames("received"),
                    frames("missing"),
                    frames("duplicate"),
                    frames("reordered"),
                    frames("too_old"),
                ],
                "frames since the start, as in `wirerate.measure/1`",
            ),
            Row(&[pps("rate_pps")], "frames per second since the previous object"),
            Row(
                &[ns("latency_p50_ns").or_null(), ns("latency_p99_ns").or_null()],
                "median and 99th percentile of the latency since the start; `null` without time stamps",
            ),
        ],
        OtherFrames::ROWS,
        UnusualFrames::ROWS,
    ],
};

/// A flow of a receiver.
pub const MEASURE_FLOW: Document = Document {
    name: "wirerate.measure-flow/1",
    about: "wirerate receive --flows-out FILE",
    groups: &[
        &[
            Row(&[count("stream"), count("flow")], "sending thread, and flow within it"),
            Row(&[frames("received")], "frames with a signature of this run"),
            Row(
                &[frames("missing")],
                "numbers of the flow, below the highest one, that did not arrive; also those that the driver of the sender rejected",
            ),
            Row(
                &[frames("lost_by_capture").or_absent()],
                "`analyze` only, if the files say what the capture lost: of `missing`, the most that the capture can have lost; the network lost the others",
            ),
        ],
        FLOW_FIGURES,
    ],
};

/// Runs that were repeated.
pub const RUNS: Document = Document {
    name: "wirerate.runs/1",
    about: "wirerate send --runs N --json, also measure and replay",
    groups: &[&[
        Row(
            &[word("command", &["send", "measure", "replay"]), count("runs"), count("asked_runs")],
            "the command, runs that ended, runs that were asked for",
        ),
        Row(&[objects("figures", &[FIGURE])], "the figures of the runs"),
        Row(&[texts("wide")], "names of rates whose spread is above 0.05"),
        Row(&[count("exit_code")], "that of the worst run"),
    ]],
};

const FIGURE: &[Row] = &[
    Row(&[text("name")], "name of the figure"),
    Row(&[word("unit", &["pps", "bps", "frames", "percent", "ns"])], "its unit"),
    Row(&[Field::new("runs", Kind::List(&Kind::Number("")))], "the value of each run"),
    Row(&[number("mean", ""), number("sd", "").or_null()], "mean and standard deviation; `null` for one run"),
    Row(&[number("min", ""), number("max", "")], "smallest and largest value"),
    Row(
        &[number("spread", "").or_null()],
        "largest minus smallest as a share of the mean; `null` for a mean of 0",
    ),
];

const REPORT: &[&[Row]] = &[
    RX_HEAD,
    RX_CPUS,
    START,
    FRAMES,
    OtherFrames::ROWS,
    UnusualFrames::ROWS,
    UNIQUE,
    LATENCY_ROWS,
    RECEIVER,
    OF_FILES,
    RESULTS,
];

const FRAMES: &[Row] = &[
    Row(&[object("loss", &[LOSS]).or_null()], "the loss; `null` without `--sent`"),
    Row(&[frames("frames"), bytes("frame_bytes")], "all frames that arrived, and their lengths"),
    Row(&[frames("received")], "frames with a signature of this run: `unique` + `duplicate` + `too_old`"),
];

const UNIQUE: &[Row] = &[
    Row(&[count("flows")], "flows with frames"),
    Row(
        &[frames("rejected").or_absent()],
        "`measure` only: frames that the driver of the sender did not accept (`errors` and `replaced` of `wirerate.send/2`): not sent, and not part of `loss`",
    ),
    Row(
        &[frames("unique"), frames("duplicate"), frames("reordered"), frames("too_old")],
        "first copies and further copies; of the first copies, those behind a later one; frames too old to decide",
    ),
    Row(
        &[frames("missing")],
        "numbers below the highest one that did not arrive; with `measure` without those of frames that were not sent, so at most the loss",
    ),
    Row(
        &[frames("late").or_absent()],
        "only with `--deadline`: first copies with a longer latency; with `--late-is-lost` a part of `loss`",
    ),
    Row(&[frames("held_max")], "most frames with higher numbers that were there before a reordered one"),
    Row(
        &[frames("stamped"), frames("hardware_time")],
        "first copies with a latency; of these, stamped by the device",
    ),
    Row(&[frames("with_flow")], "frames that carry their flow"),
];

const LOSS: &[Row] = &[
    Row(&[frames("sent")], "frames sent"),
    Row(&[frames("lost_min"), frames("lost_max")], "bounds of the loss; equal if it is exact"),
    Row(&[frames("excess")], "first copies beyond `sent`"),
    Row(&[frames("late").or_absent()], "frames of `lost_max` that arrived late, if there are any"),
];

const LATENCY_ROWS: &[Row] = &[
    Row(&[object("latency", &[LATENCY]).or_null()], "`null` without time stamps"),
    Row(
        &[text("histogram").or_absent()],
        "the latencies in nanoseconds in HdrHistogram's compressed format V2, in base64: what its libraries decode; missing without time stamps",
    ),
];

const LATENCY: &[Row] = &[
    Row(
        &[frames("stamped"), number("stamped_share", "")],
        "first copies with a latency, and their share of the first copies",
    ),
    Row(&[ns("min_ns"), ns("mean_ns"), ns("max_ns")], "lowest, mean and highest latency"),
    Row(&[objects("percentiles", &[PERCENTILE])], "percentiles of the latency"),
    Row(
        &[ns("pdv_p999_ns").or_null()],
        "packet delay variation: 99.9th percentile minus the lowest latency; `null` if latencies are below 0 or above 68.7 s",
    ),
    Row(
        &[signed_ns("ipdv_min_ns").or_null(), signed_ns("ipdv_max_ns").or_null()],
        "smallest and largest difference of the latencies of two consecutive frames",
    ),
    Row(
        &[number("jitter_mean_ns", "ns").or_null(), number("jitter_max_ns", "ns").or_null()],
        "jitter as in RFC 3550: mean of the flows, and that of the flow with most",
    ),
];

const PERCENTILE: &[Row] = &[Row(
    &[number("percentile", "percent"), ns("latency_ns")],
    "the share of the frames, and the latency that they do not exceed",
)];

const RECEIVER: &[Row] = &[
    Row(
        &[frames("lost_ring").or_null()],
        "frames that the receiver lost because the ring of its packet socket was full: a part of `loss`; `null` of `analyze`",
    ),
    Row(
        &[ns("clock_uncertainty_ns")],
        "maximum error of the receiver's offset to UTC, and of that to the clock of a device that stamps frames",
    ),
    Row(&[flag("is_round_trip").or_absent()], "`true` if sender and receiver are one device; else missing"),
    Row(&[object("reflected", &[REFLECTED]).or_absent()], "`reflect` only"),
];

const REFLECTED: &[Row] = &[
    Row(
        &[frames("frames"), frames("not_sent").or_null()],
        "frames that were reflected, and of these, frames that could not be sent; `null` if unknown",
    ),
    Row(&[signed_ns("forward_min_ns").or_null()], "lowest latency from the sender to this host"),
    Row(
        &[Field::new("clock_ahead_ns", Kind::List(&Kind::Integer("ns"))).or_null()],
        "least and most that the clock here is ahead of the sender's; `null` without `--round-trip`",
    ),
];

const OF_FILES: &[Row] = &[
    Row(
        &[frames("cut").or_absent()],
        "`analyze` only: frames that were not measured, as the file lacks bytes of them",
    ),
    Row(
        &[frames("lost_by_capture").or_null().or_absent()],
        "`analyze` only: frames of any kind that the capture lost, as the files say; `null` if they do not",
    ),
    Row(&[DAMAGES[0].0[0].or_absent()], "`analyze` only: damaged places of the files"),
    Row(
        &[object("order", &[ORDER]).or_absent()],
        "`analyze` only: the order of the frames (RFC 4737, RFC 5236)",
    ),
];

const ORDER: &[Row] = &[
    Row(&[frames("unique"), frames("duplicate"), frames("reordered")], "frames, as above"),
    Row(
        &[frames("extent_max"), number("extent_mean", "frames").or_null()],
        "how far reordered frames are behind: the most, and the mean",
    ),
    Row(
        &[
            objects("extents", &[FRAMES_AT]),
            objects("n_reordered", &[FRAMES_AT]),
            objects("density", &[FRAMES_AT]),
            objects("buffer_density", &[FRAMES_AT]),
        ],
        "frames by extent, n-reordering, reorder density and buffer-occupancy density",
    ),
];

const FRAMES_AT: &[Row] = &[Row(
    &[Field::new("value", Kind::Integer("")), frames("frames")],
    "a value, and the number of frames with it; 65 or -65 stands for all beyond 64",
)];

const RESULTS: &[Row] = &[
    Row(&[objects("streams", &[STREAM, FLOW_FIGURES]).or_absent()], "with `measure -- --streams` only"),
    Row(&[texts("broken")], "sums that do not agree; empty"),
    Row(&[texts("failed_checks")], "checks of `--expect` that failed"),
];

const STREAM: &[Row] = &[
    Row(&[text("name")], "name of the stream"),
    Row(
        &[
            frames("sent"),
            frames("lost_min"),
            frames("lost_max"),
            frames("excess"),
            frames("late").or_absent(),
        ],
        "its loss, as in `loss`",
    ),
];

const FLOW_FIGURES: &[Row] = &[
    Row(
        &[frames("unique"), frames("duplicate"), frames("reordered"), frames("too_old")],
        "frames, as in `wirerate.measure/1`",
    ),
    Row(
        &[
            ns("latency_min_ns").or_null(),
            ns("latency_mean_ns").or_null(),
            ns("latency_max_ns").or_null(),
            number("jitter_ns", "ns").or_null(),
        ],
        "latency and jitter; `null` without time stamps",
    ),
];
