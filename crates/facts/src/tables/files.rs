//! Commands that read capture files: `replay`, `rewrite`, `info` and `export`.

use super::shared::{DAMAGES, EDITS, INTERRUPTIONS, OCTAVES, PACKETS_AND_BYTES, START};
use crate::counts::{LeftOutPackets, SendErrors};
use crate::document::{
    Document, Kind, Row, bps, bytes, count, counts, flag, frames, map, ns, number, object, objects, packets,
    pps, text, texts, word,
};

/// The report of `wirerate replay`.
pub const REPLAY: Document = Document {
    name: "wirerate.replay/2",
    about: "wirerate replay --json",
    groups: &[
        HEAD,
        READ,
        LeftOutPackets::ROWS,
        SENT,
        FLOWS,
        RATES,
        START,
        COURSE,
        INTERRUPTIONS,
        TIMING,
        EDITS,
        DAMAGES,
        END,
    ],
};

/// The report of `wirerate rewrite`.
pub const REWRITE: Document = Document {
    name: "wirerate.rewrite/1",
    about: "wirerate rewrite --json",
    groups: &[
        &[
            Row(&[texts("files"), text("output")], "names of the files"),
            Row(
                &[word("end", &["done", "stopped"])],
                "`done`, or `stopped` by a signal: no file is written then",
            ),
            Row(&[packets("read"), packets("written")], "packets"),
            Row(
                &[packets("sent"), packets("errors")],
                "0: only `replay` sends, and this command has its counts",
            ),
            Row(&[packets("parts")], "packets beyond one of each that was read, by `--long`"),
            Row(&[packets("padded_cut")], "cut packets that were filled up with zeros"),
        ],
        LeftOutPackets::ROWS,
        EDITS,
        DAMAGES,
        NOTES,
    ],
};

/// The report of `wirerate info`.
pub const INFO: Document = Document {
    name: "wirerate.info/1",
    about: "wirerate info --json",
    groups: &[
        &[
            Row(&[text("file")], "name of the file"),
            Row(
                &[word("format", &["pcap", "pcapng", "unknown"]), text("compression").or_null()],
                "format (`unknown` if nothing could be decompressed), and the program that decompresses it or `null`",
            ),
            Row(&[bytes("file_len").or_null()], "length; `null` of a stream"),
            Row(
                &[packets("packets"), bytes("bytes"), bytes("captured_bytes")],
                "packets, their bytes on the link without frame check sequences, and their bytes in the file",
            ),
            Row(&[packets("cut")], "packets of which the file has only the first bytes"),
            Row(
                &[ns("first_ns").or_null(), ns("last_ns").or_null(), ns("duration_ns").or_null()],
                "earliest and latest time; `null` if no packet has one",
            ),
            Row(
                &[pps("rate_pps").or_null(), bps("rate_bps").or_null()],
                "means over that time; `null` without a duration",
            ),
            Row(&[map("link_types", &Kind::Count("packets"))], "packets by LINKTYPE_ number"),
            Row(
                &[count("interface_count"), objects("interfaces", &[INTERFACE])],
                "interfaces of a pcapng file; the first 100",
            ),
            Row(
                &[packets("lost_by_capture").or_null()],
                "packets that the capture lost; `null` if the file does not say",
            ),
            Row(
                &[count("flows"), flag("has_more_flows")],
                "flows of IP, both directions of the same addresses, ports and protocol; true if there are more than a million",
            ),
            Row(
                &[objects("protocols", &[NAME, PACKETS_AND_BYTES])],
                "the protocols, the most frequent first",
            ),
        ],
        DAMAGES,
        NOTES,
    ],
};

/// The report of `wirerate export`.
pub const EXPORT: Document = Document {
    name: "wirerate.export/1",
    about: "wirerate export --json",
    groups: &[
        &[
            Row(&[text("output")], "folder of the data set, or the file"),
            Row(&[packets("packets")], "packets that were read"),
            Row(&[packets("stored"), packets("not_stored")], "packets in complete files, and the others"),
            Row(
                &[count("files"), bytes("bytes")],
                "complete files, those of losses included, and their length",
            ),
            Row(
                &[packets("lost").or_null()],
                "frames that the capture lost, as its files say; `null` if they do not, and with `--to pcapng`",
            ),
            Row(&[text("failure").or_null()], "why the output did not take more, or `null`"),
        ],
        DAMAGES,
        NOTES,
    ],
};

const NAME: &[Row] = &[Row(&[text("name")], "its name")];

const INTERFACE: &[Row] = &[
    Row(&[count("section"), count("number"), text("name").or_null()], "its place in the file, and its name"),
    Row(&[count("link_type")], "LINKTYPE_ number"),
    Row(&[packets("packets"), bytes("bytes")], "its packets, and their bytes"),
    Row(&[packets("lost").or_null()], "packets that the capture lost; `null` if the file does not say"),
];

const HEAD: &[Row] = &[
    Row(
        &[text("device"), text("other").or_null(), text("netns").or_null()],
        "the device, the device of `--other`, the namespace",
    ),
    Row(&[texts("files")], "names of the files"),
    Row(&[flag("is_dry_run")], "true with `--dry-run`: `sent` frames would be sent"),
    Row(
        &[word("end", &["done", "stopped", "packet", "failed"])],
        "`stopped`: by a signal; `packet`: by `--cut fail` or `--long fail`",
    ),
];

const READ: &[Row] = &[
    Row(&[count("loops")], "complete loops over the files"),
    Row(&[packets("read")], "packets read, of all loops"),
    Row(&[frames("sent")], "frames that the driver accepted"),
    Row(
        &[frames("errors")],
        "frames that were not accepted. No other frame takes the place of one that the ring dropped",
    ),
    Row(&[objects("error_causes", &[CAUSE])], "the errors by cause"),
];

/// A full ring, and the causes of `send`.
const REPLAY_CAUSES: &[&str] = &{
    let mut names = ["ring_full"; SendErrors::NAMES.len() + 1];
    let mut place = 1;
    while place < names.len() {
        names[place] = SendErrors::NAMES[place - 1];
        place += 1;
    }
    names
};

const CAUSE: &[Row] =
    &[Row(&[word("cause", REPLAY_CAUSES)], "the cause"), Row(&[frames("count")], "number of frames")];

const SENT: &[Row] = &[
    Row(
        &[count("retries")],
        "times that a frame found a full queue and waited (`skb`, `af_packet`); not a loss",
    ),
    Row(
        &[frames("padded_cut"), frames("padded_short")],
        "frames filled up with zeros: packets that the file cuts short, frames below 60 bytes",
    ),
    Row(
        &[frames("segments")],
        "frames beyond one of each packet, which `--long segment` and `--long fragment` make",
    ),
    Row(&[packets("backwards")], "packets with a time before that of an earlier packet; they did not wait"),
    Row(&[frames("sent_other")], "frames of `sent` that left by the device of `--other`"),
    Row(&[bytes("frame_bytes")], "bytes sent, without FCS"),
];

const FLOWS: &[Row] = &[
    Row(
        &[count("flows"), flag("has_more_flows")],
        "flows of the frames of the first loop, as in `wirerate.info/1`; with `--each-loop` of all loops",
    ),
    Row(&[number("flows_ps", "1/s")], "flows that began per second; those of each loop count"),
    Row(&[count("addresses")], "different IP addresses of these flows"),
    Row(
        &[objects("protocols", &[NAME, FLOW_COUNT, PACKETS_AND_BYTES])],
        "the protocols, the one with most packets first",
    ),
    Row(&[objects("top_talkers", &[ADDRESS, PACKETS_AND_BYTES])], "the five addresses that sent most bytes"),
];

const FLOW_COUNT: &[Row] = &[Row(&[count("flows")], "its flows")];
const ADDRESS: &[Row] = &[Row(&[text("address")], "the address")];

const RATES: &[Row] = &[
    Row(
        &[ns("duration_ns")],
        "from the first frame to the last without pauses; of a dry run the due time of the last",
    ),
    Row(&[pps("rate_pps"), bps("wire_bps")], "sent frames, and bits on the wire, per second"),
];

const COURSE: &[Row] = &[
    Row(&[count("pauses"), ns("paused_ns")], "pauses by `ctl`, SIGUSR1 or a key, and their time"),
    Row(&[objects("changes", &[CHANGE])], "pauses, their ends and other speeds"),
    Row(&[count("starved")], "times that the sender waited for the file"),
];

const CHANGE: &[Row] = &[
    Row(&[ns("elapsed_ns"), flag("paused")], "time since the first frame, and true for a pause"),
    Row(&[number("speed", "")], "the speed from then on (1: that of the arguments)"),
];

const TIMING: &[Row] = &[
    Row(
        &[object("gap_error", &[GAP_ERROR]).or_null()],
        "how late frames were handed to the driver; `null` at top speed",
    ),
    Row(&[object("verify", &[VERIFY]).or_null()], "with `--verify`: frames that arrived; `null` without"),
    Row(&[counts("cpus")], "CPUs that frames were sent from; empty for a dry run"),
    Row(&[text("engine").or_null()], "how frames were sent; `null` for a dry run"),
];

const GAP_ERROR: &[Row] = &[
    Row(&[ns("p50_ns"), ns("p90_ns"), ns("p99_ns")], "percentiles: upper bounds, powers of two"),
    Row(&[objects("histogram", &[OCTAVES])], "the errors by length"),
];

const VERIFY: &[Row] = &[
    Row(&[text("device"), text("netns").or_null()], "the receiving device and its namespace"),
    Row(
        &[
            frames("sent"),
            frames("received"),
            frames("identical"),
            frames("changed"),
            frames("missing"),
            frames("reordered"),
            frames("duplicate"),
            frames("unexpected"),
        ],
        "counts of frames ([replay.md](replay.md))",
    ),
    Row(
        &[count("first_difference").or_null(), text("difference").or_null()],
        "number from 1 on of the first frame that differs, or `null`; the fields of the first frame that arrived changed, or `null`",
    ),
    Row(&[frames("lost_by_receiver")], "missing or changed frames that the capture itself may have lost"),
];

const END: &[Row] = &[
    Row(
        &[text("stopped_by").or_null()],
        "the packet that ended the run, with `--cut fail` or `--long fail`; `null` otherwise",
    ),
    NOTES[0],
];

const NOTES: &[Row] = &[Row(
    &[texts("notes")],
    "notes for the user, such as an edit that reached no packet, or times that run backwards",
)];
