//! `wirerate send`.

use super::shared::{INTERRUPTIONS, OCTAVES, ROW_TIME, START};
use crate::counts::SendErrors;
use crate::document::{
    Document, Row, bps, bytes, count, flag, frames, ns, number, object, objects, pps, text, texts, word,
};

/// The report of `wirerate send`.
pub const SEND: Document = Document {
    name: "wirerate.send/2",
    about: "wirerate send --json, also measure and trafgen",
    groups: &[HEAD, START, RUN, COUNTS, INTERRUPTIONS, RATES, DETAILS],
};

/// A second of a run that sends.
pub const SEND_SECOND: Document = Document {
    name: "wirerate.send-second/2",
    about: "wirerate send --json --every-second, also replay",
    groups: &[
        ROW_TIME,
        &[
            Row(&[frames("sent"), frames("errors")], "frames since the start, as in `wirerate.send/2`"),
            Row(
                &[pps("rate_pps"), bps("wire_bps")],
                "frames and bits on the wire per second, since the previous object",
            ),
        ],
        SendErrors::ROWS,
    ],
};

const HEAD: &[Row] = &[
    Row(&[text("device")], "device"),
    Row(&[text("netns").or_null()], "network namespace; `null` without `--netns`"),
    Row(&[text("version"), texts("argv")], "version of wirerate, and the command line"),
    Row(&[text("start_time")], "when the run began, in UTC (RFC 3339)"),
];

const RUN: &[Row] = &[
    Row(
        &[object("next_hop", &[NEXT_HOP]).or_null()],
        "the neighbour whose MAC address the frames have; `null` with `--dst-mac`",
    ),
    Row(
        &[word("end", &["count", "duration", "stopped", "device_gone", "failed"])],
        "`stopped`: by a signal; `device_gone`: deleted, down or no carrier",
    ),
    Row(
        &[frames("asked_count").or_null(), ns("asked_duration_ns").or_null()],
        "frames to send, and the time to send for; `null` without such a limit. The exit code of a run with one that was `stopped` is 1",
    ),
];

const NEXT_HOP: &[Row] = &[Row(&[text("ip"), text("mac")], "its addresses")];

const COUNTS: &[Row] = &[
    Row(&[frames("offered")], "frames that the engine tried to send"),
    Row(&[frames("sent")], "frames that the driver accepted"),
    Row(&[frames("errors")], "frames that the driver did not accept"),
    Row(&[objects("error_causes", &[CAUSE])], "the errors by cause"),
    Row(
        &[count("retries")],
        "times that a frame found a full queue or ring: it waited, or the next frame took its place. Not a loss",
    ),
    Row(
        &[frames("replaced")],
        "of `retries`, frames that a full ring dropped and whose place the next frame took (`xdp`; `af_xdp` in copy mode). Numbers of `receive` and `measure` leave them out",
    ),
    Row(
        &[frames("device_counted").or_null()],
        "frames that the counter of the device (`tx_packets`) rose by, of all senders, with the engines `skb` and `af_packet`; `null` otherwise or if unknown. A note says if many of `sent` are missing there: a queueing discipline or the driver lost them",
    ),
];

const CAUSE: &[Row] = &[
    Row(&[word("cause", SendErrors::NAMES)], "the cause"),
    Row(&[text("meaning"), frames("count")], "the cause in words, and the number of frames"),
];

const RATES: &[Row] = &[
    Row(&[ns("duration_ns")], "from the start of the first thread to the end of the last"),
    Row(
        &[pps("rate_pps"), bps("frame_bps"), bps("wire_bps")],
        "sent frames, bits without FCS, and bits on the wire, per second; with a pace, the gap behind the \
         last frame belongs to the time",
    ),
    Row(&[bytes("frame_bytes")], "bytes sent, without FCS"),
    Row(
        &[pps("asked_pps").or_null(), bps("asked_wire_bps").or_null()],
        "the requested rate; `asked_wire_bps` only with `--rate`; `null` without a pace",
    ),
    Row(
        &[number("reached_percent", "percent").or_null()],
        "what the run reached of it; `null` without a pace",
    ),
    Row(
        &[flag("rate_missed")],
        "true if more than 1 % of the frames, and more than 10 ms of them, are missing for the requested rate. The exit code is 1 then",
    ),
];

const DETAILS: &[Row] = &[
    Row(&[objects("limits", &[LIMIT])], "what kept the threads from sending, the largest share first"),
    Row(
        &[object("late", &[LATE]).or_null()],
        "how late the run was; `null` if it was not paced or never more than 10 ms late",
    ),
    Row(
        &[object("gaps", &[GAPS]).or_null()],
        "gaps between the starts of a thread's frames; `null` if the run was not paced",
    ),
    Row(
        &[objects("changes", &[CHANGE]).or_absent()],
        "only with pauses or changes of rate (`--tui`, `--web`). `asked_pps`, `reached_percent` and `gaps` of the report are `null` then",
    ),
    Row(&[number("cpus_busy", "CPUs")], "CPU time of the process in CPUs, including start and end"),
    Row(&[objects("threads", &[THREAD])], "one entry per thread"),
    Row(&[objects("streams", &[STREAM]).or_absent()], "one entry per stream of `--streams`"),
    Row(&[object("engine", &[ENGINE])], "the engine"),
    Row(&[count("seed")], "pass it as `--seed` to repeat the run; below 2^53 unless `--seed` was larger"),
    Row(&[texts("notes")], "notes on the options"),
];

const LIMIT: &[Row] = &[
    Row(
        &[word("cause", &["link", "cpu", "hypervisor", "softirq", "ring_full", "calls"])],
        "`link`: it was down, `cpu`: the thread waited for a CPU",
    ),
    Row(&[number("share", "")], "share of the time of a thread; of the offers for `ring_full` and `link`"),
    Row(&[text("meaning")], "the limit in words"),
];

const LATE: &[Row] = &[
    Row(&[count("times")], "how often the run fell behind; of the thread with the most"),
    Row(&[ns("longest_ns")], "longest delay; of the thread with the longest"),
    Row(&[frames("frames")], "frames sent while catching up; of all threads"),
    Row(
        &[ns("given_up_ns")],
        "part of the schedule that was never made up (`--catch-up 1`, or late at the end); of the thread with the most",
    ),
];

const GAPS: &[Row] = &[
    Row(&[number("asked_ns", "ns"), number("mean_ns", "ns")], "requested and actual mean gap"),
    Row(&[ns("p50_ns"), ns("p99_ns"), ns("max_ns")], "median, 99th percentile and longest gap"),
    Row(&[objects("histogram", &[OCTAVES])], "the gaps by length"),
];

const CHANGE: &[Row] = &[
    Row(&[ns("elapsed_ns"), flag("paused")], "time since the first frame, and true for a pause"),
    Row(
        &[pps("asked_pps").or_null(), bps("asked_wire_bps").or_null()],
        "the rate from then on; `null` without such a rate",
    ),
];

const THREAD: &[Row] = &[
    Row(&[count("cpu")], "CPU of the thread"),
    Row(&[frames("offered"), frames("sent"), ns("duration_ns")], "its counts and its time"),
];

const STREAM: &[Row] = &[
    Row(&[text("name"), count("cpu")], "name of the stream, and CPU of its thread"),
    Row(
        &[frames("offered"), frames("sent"), frames("errors"), bytes("frame_bytes")],
        "its counts, as those of the run",
    ),
    Row(&[ns("duration_ns"), pps("rate_pps")], "time from its first frame, and its rate"),
    Row(
        &[pps("asked_pps").or_null(), flag("rate_missed")],
        "the requested rate, `null` without a pace, and true if it was missed",
    ),
];

const ENGINE: &[Row] = &[Row(&[text("name"), texts("why")], "its name, and why it was selected")];
