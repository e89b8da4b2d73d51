//! Rows that several documents have.

use crate::document::{
    Field, Kind, Row, bps, bytes, count, flag, frames, map, ns, object, packets, pps, text, texts,
};

/// When a row of a running command was made.
pub(crate) const ROW_TIME: &[Row] = &[
    Row(&[text("time")], "time of day in UTC (RFC 3339)"),
    Row(&[ns("elapsed_ns")], "time since the start; of senders, since the first frames"),
];

/// With `--start-at`.
pub(crate) const START: &[Row] = &[
    Row(
        &[ns("start_at_ns").or_absent()],
        "with `--start-at` only: the start ([pacing.md](pacing.md#commands-that-start-at-the-same-instant))",
    ),
    Row(
        &[ns("first_frame_late_ns").or_null().or_absent()],
        "with `--start-at` only: time from the start to the first frame",
    ),
    Row(&[object("clock", &[HOST_CLOCK]).or_absent()], "with `--start-at` only: the clock of the host"),
];

/// The clock of a host.
pub(crate) const HOST_CLOCK: &[Row] = &[Row(
    &[flag("is_synchronized"), ns("bound_ns")],
    "true if a service keeps the clock synchronized; how far it may be from UTC at most",
)];

/// Where frames were received.
pub(crate) const RX_HEAD: &[Row] = &[
    Row(&[text("device")], "device, or several joined by ` and `"),
    Row(&[text("netns").or_null()], "network namespace; `null` without `--netns`"),
    Row(
        &[text("mode")],
        "`mirror` or `drop`, the last one if it was changed; also `reflect` and, for files, `file`",
    ),
    Row(
        &[text("source")],
        "such as `XDP, native` or `TPACKET_V3, 2 rings by CPU`; with the reason if XDP was not used",
    ),
    Row(&[ns("duration_ns")], "from attaching to detaching"),
    Row(
        &[ns("active_ns").or_null(), pps("rate_pps").or_null(), bps("rate_bps").or_null()],
        "the part of it in which frames arrived, and their rate between two looks at the counters in that part; without FCS. The rates are `null` for fewer than 10 frames or less than 1 ms; all are `null` if no frame came. Agents and `otg run` compute them from the times of the first and the last frame of their flows",
    ),
    Row(
        &[ns("longest_pause_ns").or_null()],
        "the longest time between two looks that found more frames; looks are 5 ms apart. `null` likewise, and where nothing looked: files, agents, `otg run`",
    ),
];

/// Frames by CPU.
pub(crate) const RX_CPUS: &[Row] =
    &[Row(&[Field::new("cpus", Kind::Objects(&[CPU]))], "one entry for each CPU that received frames")];

const CPU: &[Row] =
    &[Row(&[count("cpu"), frames("received")], "number of the CPU, and frames that it received")];

/// Places of files that could not be read.
pub(crate) const DAMAGES: &[Row] = &[Row(&[object("damages", &[DAMAGE])], "damaged places of the files")];

const DAMAGE: &[Row] = &[
    Row(&[count("total")], "number of places"),
    Row(
        &[map("kinds", &Kind::Count(""))],
        "places by kind: `packet`, `interface`, `statistics`, `section`, `names`, `other`, `options`, `rest_of_file`",
    ),
    Row(&[texts("places")], "the first 100 places, in words"),
];

/// Interruptions of the link.
pub(crate) const INTERRUPTIONS: &[Row] = &[Row(
    &[object("interruptions", &[INTERRUPTION]).or_null()],
    "with `--keep-going`: how often the link was down; `null` if it was not",
)];

const INTERRUPTION: &[Row] = &[
    Row(&[count("times")], "times that the link was down"),
    Row(
        &[ns("longest_ns")],
        "from the last frame before the longest interruption to the first behind it; 0 if none was sent behind it",
    ),
];

/// What edits of packets did.
pub(crate) const EDITS: &[Row] = &[
    Row(
        &[map("wrong_checksums", &Kind::Count("packets"))],
        "checksums that are wrong in the file, by protocol: `ipv4`, `tcp`, `udp`, `icmp`, `icmpv6`, `igmp`, `gre`, `sctp`; each packet counts once, in the first loop",
    ),
    Row(&[object("not_edited", &[NOT_EDITED])], "packets in which a field of an edit could not be reached"),
    Row(&[object("not_fixed", &[NOT_FIXED])], "packets whose checksums `--checksums fix` could not compute"),
    Row(&[packets("dont_fragment")], "packets of `too_long` with DF set, with `--long fragment`"),
];

const NOT_EDITED: &[Row] = &[Row(
    &[packets("cut"), packets("encrypted"), packets("unknown"), packets("damaged"), packets("fragments")],
    "the file does not have the header; it is encrypted; it is behind one of an unknown protocol, or of a link type that is not read; it is behind one that contradicts itself; a first fragment of SCTP, whose checksum is that of the whole packet",
)];

const NOT_FIXED: &[Row] = &[Row(
    &[packets("fragments"), packets("cut")],
    "packets that are fragments; packets that the file cuts short",
)];

/// A histogram of times in powers of two.
pub(crate) const OCTAVES: &[Row] = &[Row(
    &[ns("below_ns"), count("count")],
    "a power of two, and the number of values from half of it up to it",
)];

/// The size of a set of packets.
pub(crate) const PACKETS_AND_BYTES: &[Row] =
    &[Row(&[packets("packets"), bytes("bytes")], "number of packets, and their bytes")];
