//! Result files of `wirerate search` and `wirerate rfc2544`.

use crate::document::{
    Document, Field, Kind, Row, count, flag, frames, map, ns, object, objects, ppb, text, texts, whole_pps,
    word,
};

/// A trial.
pub const TRIAL: Document = Document {
    name: "wirerate.trial/1",
    about: "wirerate search --json and wirerate rfc2544 --json: a trial",
    groups: &[NUMBER, SHAPE, REQUEST, COUNTS, TESTER, VERDICT],
};

/// The end of a search.
pub const SEARCH: Document = Document {
    name: "wirerate.search/1",
    about: "wirerate search --json: the end; wirerate rfc2544 --json: the end of a search",
    groups: &[
        PROVENANCE,
        SHAPE,
        MEDIUM,
        &[
            Row(&[word("method", &["mlr", "rfc2544", "tst009", "quick", "binary"])], "the method"),
            Row(
                &[count("trials"), count("disturbed"), ns("elapsed_ns")],
                "trials, disturbed ones, and time of all",
            ),
            Row(&[objects("goals", &[GOAL])], "one entry for each goal"),
        ],
    ],
};

/// The end of the tests of RFC 2544.
pub const RFC2544: Document = Document {
    name: "wirerate.rfc2544/1",
    about: "wirerate rfc2544 --json: the end",
    groups: &[
        PROVENANCE,
        &[Row(
            &[objects("sizes", &[SHAPE, MEDIUM, SIZE])],
            "one entry for each frame size. A test that was not run is empty or `null`",
        )],
    ],
};

const PROVENANCE: &[Row] = &[
    Row(&[text("command"), ns("start_ns")], "the command that repeats it, and when it started"),
    Row(&[map("host", &Kind::Text)], "facts about the host by name"),
    Row(&[texts("deviations")], "deviations from the RFC, one sentence each"),
];

const NUMBER: &[Row] = &[Row(&[count("number")], "number of the trial, from 1")];

const SHAPE: &[Row] = &[
    Row(
        &[Field::new("frame_size", Kind::Count("bytes")).or_null(), count("flows").or_null()],
        "frame size with FCS as RFC 2544 counts it, `null` if mixed; number of flows, `null` without `--flows`",
    ),
    Row(
        &[count("threads").or_absent(), flag("is_bidirectional").or_absent()],
        "sending threads, if `--threads` says so; `true` if loads and counts are sums of both directions",
    ),
    Row(
        &[word("connections", &["rate", "held"]).or_absent()],
        "the loads of `--connections`, whose \"frames\" are connections. Absent otherwise",
    ),
];

const MEDIUM: &[Row] = &[
    Row(&[whole_pps("medium_pps").or_null()], "highest rate of the medium; `null` if it has none"),
    Row(&[text("limited_by").or_absent()], "what limited the tester, in words; absent if nothing did"),
];

const PURPOSES: &[&str] = &[
    "warm_up",
    "max_load",
    "forwarding_rate",
    "refine",
    "extend",
    "bisect",
    "half_load",
    "loss_point",
    "burst",
    "latency",
    "recovery",
];

const REQUEST: &[Row] = &[
    Row(&[word("purpose", PURPOSES)], "what the trial is for"),
    Row(
        &[whole_pps("load_pps"), ns("duration_ns"), frames("frames")],
        "requested load, duration and number of frames",
    ),
    Row(&[object("then", &[SECOND_PHASE]).or_absent()], "second phase of a recovery test; absent elsewhere"),
];

const SECOND_PHASE: &[Row] =
    &[Row(&[whole_pps("load_pps"), ns("duration_ns")], "requested load and duration")];

const COUNTS: &[Row] = &[
    Row(&[frames("sent"), frames("refused")], "frames that the driver accepted, and did not accept"),
    Row(
        &[frames("unique"), frames("duplicate"), frames("too_old")],
        "received frames: first copies, further copies, and frames below the receive window",
    ),
    Row(&[frames("lost"), ppb("lost_ppb")], "sent minus unique, and its share of the frames that were sent"),
    Row(&[frames("not_sent")], "frames of the trial that the tester did not send"),
    Row(
        &[ppb("loss_ppb")],
        "the loss ratio that the verdict is about: frames that were not sent count as lost",
    ),
];

const TESTER: &[Row] = &[
    Row(
        &[texts("causes").or_absent()],
        "of a disturbed trial, in words: `waited 87 % of the time for CPU 1`",
    ),
    Row(&[frames("receiver_dropped")], "frames that the tester's receiver dropped"),
    Row(&[ns("elapsed_ns")], "from the first frame to the end of the drain"),
    Row(
        &[ns("gap_ns_max"), ns("paused_ns"), ns("start_late_ns"), ppb("steal_ppb")],
        "longest gap of the sender, sum of its long gaps, lateness of its first frame, CPU time taken by the hypervisor",
    ),
    Row(&[object("latency", &[TRIAL_LATENCY]).or_absent()], "latency; absent without timestamps"),
    Row(
        &[ns("last_lost_ns").or_absent(), ns("switched_ns").or_absent()],
        "recovery: when the last lost frame was due, and the first frame of the second phase",
    ),
];

const TRIAL_LATENCY: &[Row] = &[
    Row(
        &[ns("min_ns"), ns("mean_ns"), ns("p50_ns"), ns("p99_ns"), ns("p99_9_ns"), ns("max_ns")],
        "lowest, mean, percentiles, highest",
    ),
    Row(&[frames("frames")], "frames with a latency"),
    Row(
        &[Field::new("curve", Kind::List(&Kind::List(&Kind::Count("")))).or_absent()],
        "pairs of a percentile in parts per billion and the latency in nanoseconds",
    ),
    Row(
        &[Field::new("seconds", Kind::List(&Kind::List(&Kind::Count("ns")))).or_absent()],
        "median, 99th percentile and maximum of each second",
    ),
];

const DISTURBANCES: Kind =
    Kind::Word(&["gap", "catch_up", "late_start", "refused", "steal", "receiver_dropped", "behind"]);

const VERDICT: &[Row] = &[
    Row(&[word("verdict", &["clean", "lossy", "disturbed"])], "the verdict"),
    Row(
        &[Field::new("disturbances", Kind::List(&DISTURBANCES))],
        "faults of the tester, as in [search.md](search.md)",
    ),
    Row(&[flag("is_counted")], "false for a warm-up and for a disturbed trial"),
    Row(&[objects("bounds", &[BOUNDS])], "the bounds of each goal after this trial"),
];

const BOUNDS: &[Row] = &[Row(
    &[whole_pps("lower_pps").or_null(), whole_pps("upper_pps").or_null()],
    "relevant bounds; `null` if there is none",
)];

const ENDS: &[&str] = &[
    "regular",
    "max_load_reached",
    "below_min_load",
    "no_load_passes",
    "unfinished",
    "disturbed",
    "limited_by_tester",
];

const GOAL: &[Row] = &[
    Row(&[ppb("loss_ratio_ppb"), ppb("exceed_ratio_ppb"), ppb("width_ppb")], "the goal"),
    Row(
        &[ns("trial_ns"), ns("trial_ns_min"), ns("duration_sum_ns"), count("coarser_targets")],
        "trial duration, the shortest one, duration sum, number of coarser targets",
    ),
    Row(&[word("end", ENDS)], "how the search for it ended"),
    BOUNDS[0],
    Row(&[whole_pps("conditional_pps").or_null()], "conditional throughput"),
    Row(&[flag("is_coarse")], "true if the bounds are those of a coarser target"),
];

const SIZE: &[Row] = &[
    Row(
        &[
            whole_pps("throughput_pps").or_null(),
            whole_pps("throughput_upper_pps").or_absent(),
            word("throughput_end", ENDS).or_absent(),
            count("throughput_trials"),
        ],
        "the bounds of the throughput, how the search for it ended, and its trials",
    ),
    Row(&[objects("latency", &[SIZE_LATENCY])], "latency at each load (RFC 8219)"),
    Row(&[objects("loss", &[LOSS])], "loss at each load"),
    Row(&[object("back_to_back", &[BACK_TO_BACK]).or_null()], "back-to-back frames"),
    Row(&[object("recovery", &[RECOVERY]).or_null()], "system recovery"),
];

const SIZE_LATENCY: &[Row] = &[
    Row(
        &[Field::new("percent", Kind::Count("percent")), whole_pps("load_pps"), count("trials")],
        "the load as a share of the throughput, the load, and its trials",
    ),
    Row(&[ns("min_ns"), ns("mean_ns"), ns("max_ns")], "lowest, mean and highest"),
    Row(
        &[ns("typical_ns"), ns("worst_case_ns"), ns("variation_ns")],
        "median, 99.9th percentile, and that minus the minimum",
    ),
];

const LOSS: &[Row] = &[Row(
    &[ppb("share_ppb"), whole_pps("load_pps"), ppb("loss_ppb")],
    "share of the highest load, load, and loss",
)];

const BACK_TO_BACK: &[Row] = &[
    Row(
        &[
            count("tests"),
            frames("mean_frames"),
            frames("min_frames"),
            frames("max_frames"),
            frames("sd_frames"),
        ],
        "tests, and the longest burst without loss: mean, least, most, standard deviation",
    ),
    Row(
        &[ns("implied_buffer_ns"), ns("corrected_buffer_ns")],
        "buffer of the device, and its corrected value",
    ),
];

const RECOVERY: &[Row] = &[
    Row(&[count("tests"), ns("mean_ns"), ns("min_ns"), ns("max_ns")], "tests, and the time of recovery"),
    Row(&[count("unrecovered")], "tests in which frames were lost until the end"),
];
