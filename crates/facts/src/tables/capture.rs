//! `wirerate capture`, `count`, `sink`, `mgcap` and `demo`.

use super::shared::{ROW_TIME, RX_CPUS, RX_HEAD, START};
use crate::counts::CaptureFrames;
use crate::document::{
    Document, Field, Kind, Row, bps, bytes, count, flag, frames, ns, objects, pps, signed_ns, text, texts,
    word,
};

/// The report of `wirerate capture`.
pub const CAPTURE: Document = Document {
    name: "wirerate.capture/2",
    about: "wirerate capture --json",
    groups: &[RX_HEAD, PROMISCUOUS, START, FRAMES, LOSSES, RINGS, FILES, PRINTED, TIMES, CPUS],
};

/// A second of a capture.
pub const CAPTURE_SECOND: Document = Document {
    name: "wirerate.capture-second/1",
    about: "wirerate capture --json --every-second, and wirerate ctl DEV stats",
    groups: &[ROW_TIME, RECEIVED_SO_FAR, CAPTURED_SO_FAR, CaptureFrames::ROWS, RX_CPUS],
};

/// The report of `wirerate count` and `wirerate sink`.
pub const COUNT: Document = Document {
    name: "wirerate.count/1",
    about: "wirerate count --json and wirerate sink --json",
    groups: &[RX_HEAD, PROMISCUOUS, COUNTED, RX_CPUS],
};

/// A second of `wirerate count` and `wirerate sink`.
pub const COUNT_SECOND: Document = Document {
    name: "wirerate.count-second/1",
    about: "wirerate count --json --every-second and wirerate sink --json --every-second",
    groups: &[ROW_TIME, RECEIVED_SO_FAR, RX_CPUS],
};

/// The state of a device of `wirerate mgcap`.
pub const MGCAP: Document = Document {
    name: "wirerate.mgcap/1",
    about: "wirerate mgcap --json show",
    groups: &[&[
        Row(&[text("device"), word("mode", &["mirror", "drop"])], "device and mode"),
        Row(&[text("source")], "as in `wirerate.capture/2`"),
        Row(&[frames("received")], "frames received by the capture program"),
        Row(&[frames("delivered")], "frames read from the device file"),
        Row(&[frames("lost")], "frames lost because no reader took them in time"),
        Row(
            &[flag("gone")],
            "true if the device was deleted. `mgcap show` omits it; open readers get the remaining frames",
        ),
    ]],
};

/// The report of `wirerate demo`.
pub const DEMO: Document = Document {
    name: "wirerate.demo/2",
    about: "wirerate demo --json",
    groups: &[&[
        Row(
            &[frames("offered"), frames("sent"), frames("errors"), count("retries")],
            "counts of the sender, as in `wirerate.send/2`",
        ),
        Row(
            &[frames("lost_at_device")],
            "dropped by the receiving device before the capture program saw them",
        ),
        Row(
            &[
                frames("received"),
                frames("lost_ring"),
                frames("captured"),
                frames("written"),
                frames("after_limit"),
                frames("lost_disk"),
            ],
            "counts of the capture; the file has the first 100,000 frames",
        ),
        Row(&[frames("lost")], "`lost_at_device` + `lost_ring` + `lost_disk`"),
        Row(&[frames("unexplained")], "see above; 0 if every frame is accounted for"),
        Row(&[text("file"), bytes("file_bytes")], "name and size of the file"),
        Row(&[ns("duration_ns")], "duration of sending"),
        Row(&[text("engine"), text("source")], "how frames were sent and captured"),
        Row(&[flag("stopped")], "true if a signal ended the demo"),
    ]],
};

const PROMISCUOUS: &[Row] = &[Row(&[flag("promiscuous")], "true if every device was promiscuous")];

const RECEIVED_SO_FAR: &[Row] = &[
    Row(
        &[pps("rate_pps"), bps("rate_bps")],
        "frames and bits received per second since the previous object, without FCS",
    ),
    Row(
        &[frames("received"), bytes("received_bytes")],
        "frames received since the start, with a filter those that match it, and the sum of their `frame_len`",
    ),
];

const CAPTURED_SO_FAR: &[Row] = &[
    Row(&[frames("offered").or_null()], "frames on the wire since the start; `null` if `lost_nic` is"),
    Row(&[frames("waiting")], "frames on their way to the file: the rest of `received`"),
];

const COUNTED: &[Row] = &[
    Row(
        &[text("filter").or_null(), frames("filtered")],
        "the filter or `null`, and frames that did not match it",
    ),
    Row(
        &[frames("received"), bytes("received_bytes")],
        "frames that matched the filter, or all, and the sum of their `frame_len`",
    ),
];

const FRAMES: &[Row] = &[
    Row(&[frames("offered").or_null()], "frames on the wire; `null` if `lost_nic` is"),
    Row(
        &[frames("received"), bytes("received_bytes")],
        "frames that reached the capture program, and the sum of their `frame_len`",
    ),
    Row(&[text("filter").or_null()], "the filter, or `null`"),
    Row(
        &[frames("filtered").or_null()],
        "frames that did not match it. `null` for packet sockets with a filter: the kernel does not count these frames, and `received` excludes them",
    ),
    Row(&[frames("written")], "frames in the file, or counted without a file"),
    Row(
        &[frames("cut")],
        "of these, frames that no file has with all their bytes: they were cut to the snaplen",
    ),
    Row(
        &[frames("after_limit")],
        "frames received after `--count` frames were written, or after the end of the files",
    ),
    Row(&[frames("not_kept")], "frames that left the window of `--keep` before a trigger"),
    Row(
        &[ns("window_ns").or_null()],
        "time between the first and the last frame of `--keep` in memory, at the last save or at the end; `null` without `--keep`",
    ),
    Row(
        &[count("saves_refused").or_null()],
        "triggers that came after `--max-saves`; `null` without `--keep`",
    ),
];

const LOSSES: &[Row] = &[
    Row(&[frames("lost")], "frames received and then lost"),
    Row(
        &[frames("lost_nic").or_null()],
        "frames dropped by the device before they were received; `null` if the device was deleted",
    ),
    Row(&[frames("lost_ring")], "frames lost because a ring was full"),
    Row(&[frames("lost_disk")], "frames lost because the file failed or was too slow"),
];

const RINGS: &[Row] = &[
    Row(&[bytes("snaplen")], "bytes kept of each frame; 0 for whole frames"),
    Row(
        &[bytes("header_cut").or_null()],
        "bytes kept behind the last header with `--snaplen headers`; else `null`",
    ),
    Row(&[bytes("ring_bytes")], "bytes that each ring holds; the smallest of several devices"),
    Row(
        &[text("ring_bounded_by").or_null()],
        "what bounds the memory of all rings, if a ring became smaller by it; else `null`",
    ),
    Row(&[count("ring_freezes").or_null()], "how often a packet socket ring became full; `null` for XDP"),
];

const FILES: &[Row] = &[
    Row(
        &[text("file").or_null(), bytes("file_bytes")],
        "name, with rotation that of the last complete file; size of all files together. `null` and 0 without `--write`",
    ),
    Row(
        &[texts("file_names")],
        "the same names; with `--per-cpu` one for each CPU, with several `--write` one for each",
    ),
    Row(
        &[objects("outputs", &[OUTPUT])],
        "one entry for each `--write`. A frame of several outputs counts once in the counts of the capture: as lost if one of them lost it",
    ),
    Row(
        &[count("files").or_null()],
        "number of complete files, or of saves of `--keep`; `null` without either",
    ),
    Row(
        &[count("files_removed").or_null()],
        "of these, files that were removed for later ones; `null` without rotation",
    ),
    Row(
        &[frames("late").or_null(), ns("late_max_ns").or_null()],
        "frames written after a later one, and the largest delay; `null` with `--unordered`, `--per-cpu` or without a file",
    ),
    Row(
        &[frames("ahead").or_null(), count("clock_set_back").or_null()],
        "frames written early because their timestamp was in the future, and how often the clock was set back; `null` as for `late`",
    ),
    Row(&[count("commands_failed")], "number of rotate commands that failed"),
];

const OUTPUT: &[Row] = &[
    Row(&[text("write")], "the name as typed"),
    Row(&[text("filter").or_null()], "its filter, or `null`"),
    Row(&[bytes("snaplen"), bytes("header_cut").or_null()], "as those of the capture"),
    Row(
        &[text("file").or_null(), bytes("file_bytes"), count("files").or_null(), count("files_removed")],
        "as those of the capture",
    ),
    Row(
        &[frames("written"), frames("lost_disk"), frames("after_limit")],
        "counts of its frames, as those of the capture",
    ),
    Row(&[frames("cut")], "of those written, frames that this output has cut"),
    Row(&[frames("not_matched")], "frames that match the filter of another output, and not this one's"),
];

const PRINTED: &[Row] = &[Row(
    &[frames("printed").or_null(), frames("not_printed").or_null()],
    "with `--print`: frames with a line, and all others (more than `--print-rate` in a second, or lines that the terminal or pipe did not take); else `null`",
)];

const TIMES: &[Row] = &[
    Row(
        &[frames("hardware_time"), frames("software_time")],
        "frames written with device time and with kernel time; together `written`",
    ),
    Row(
        &[text("hardware_time_refused").or_null()],
        "why frames have kernel time although the device stamps them and `--clock` requests it; else `null`",
    ),
    Row(&[objects("clocks", &[CLOCK])], "one entry for each device that stamps frames"),
];

const CLOCK: &[Row] = &[
    Row(&[text("device"), count("index")], "device, and N of `/dev/ptpN`"),
    Row(&[signed_ns("ahead_ns")], "device clock minus UTC"),
    Row(&[Field::new("drift_ppb", Kind::Integer("ppb"))], "drift of the device clock"),
    Row(&[ns("uncertainty_ns")], "uncertainty of the last reading"),
    Row(&[count("steps"), count("failures")], "how often a clock was set, and could not be read"),
    Row(&[flag("is_tai")], "true if the clock shows TAI"),
];

const CPUS: &[Row] = &[Row(&[objects("cpus", &[CPU])], "one entry for each CPU that received frames")];

const CPU: &[Row] = &[
    Row(&[count("cpu")], "number of the CPU"),
    Row(&[frames("received"), frames("lost_ring")], "frames that it received, and lost as its ring was full"),
];
