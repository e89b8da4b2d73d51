//! What concerns the machine, and errors.

use crate::document::{Document, Row, count, flag, object, objects, text, texts, word};

/// A command that could not run.
pub const ERROR: Document = Document {
    name: "wirerate.error/1",
    about: "A command that could not run, with --json",
    groups: &[&[
        Row(
            &[text("what").or_null()],
            "what could not be done, such as `send on eth0`; `null` if the command line could not be read",
        ),
        Row(&[text("why")], "the reason"),
        Row(&[texts("try")], "what to try"),
        Row(
            &[count("exit_code")],
            "exit code of the command: 1 too late to start, 2 usage error, 3 refused by the host or the device",
        ),
    ]],
};

/// The report of `wirerate timestamp`.
pub const TIMESTAMP: Document = Document {
    name: "wirerate.timestamp/1",
    about: "wirerate timestamp --json",
    groups: &[&[
        Row(
            &[text("device"), text("netns").or_null(), text("driver").or_null()],
            "device, network namespace, driver; `null` where there is none",
        ),
        Row(
            &[text("rx_filter").or_null(), text("tx_type").or_null()],
            "which frames are stamped now; `null` if the driver does not report it",
        ),
        Row(&[count("clock_index").or_null()], "N of `/dev/ptpN`; `null` without a clock"),
        Row(&[flag("hardware_receive")], "true if the device can stamp received frames"),
        Row(
            &[texts("abilities"), texts("rx_filters"), texts("tx_types")],
            "capabilities, and the supported filters and types",
        ),
        Row(
            &[flag("xdp_rx_timestamp").or_null(), flag("xdp_rx_vlan_tag").or_null()],
            "whether XDP programs can read timestamps and stripped VLAN tags; `null` if the kernel does not report it",
        ),
    ]],
};

/// The report of `wirerate doctor`.
pub const DOCTOR: Document = Document {
    name: "wirerate.doctor/1",
    about: "wirerate doctor --json",
    groups: &[&[
        Row(&[object("device", &[DEVICE]).or_null()], "the device; `null` for an overview"),
        Row(&[text("netns").or_null()], "`null` without `--netns`"),
        Row(&[objects("engines", &[WAY])], "engines in order of preference"),
        Row(
            &[object("engine", &[CHOICE]).or_null()],
            "engine that `send` uses for plain frames; `null` for an overview",
        ),
        Row(&[objects("captures", &[WAY])], "capture sources: `xdp_native`, `xdp_generic`, `tpacket`"),
        Row(
            &[object("capture", &[CHOICE]).or_null()],
            "source that `capture` uses in mirror mode; `null` for an overview",
        ),
        Row(&[objects("devices", &[DEVICE, OF_OVERVIEW])], "overview only: the devices"),
        Row(&[object("host", &[HOST])], "the machine"),
        Row(&[objects("findings", &[FINDING])], "what was found"),
        Row(&[texts("unknown")], "facts that could not be determined, and why"),
    ]],
};

const DEVICE: &[Row] = &[
    Row(&[text("name"), text("kind"), text("driver").or_null()], "name, kind and driver"),
    Row(&[text("state")], "`up`, `down`, `no_carrier`"),
];

const OF_OVERVIEW: &[Row] = &[
    Row(&[flag("is_default_route")], "true if the default route leaves by it"),
    Row(&[object("engine", &[CHOICE])], "engine that `send` uses"),
];

const WAY: &[Row] = &[
    Row(&[text("name")], "name of the engine or the source"),
    Row(
        &[word("answer", &["yes", "no", "not_allowed", "not_known"])],
        "whether it works; `not_allowed`: a capability is missing, `not_known`: the kernel does not report it",
    ),
    Row(&[text("why"), texts("notes"), texts("tries")], "the reason, notes, and suggested commands"),
];

const CHOICE: &[Row] = &[
    Row(&[text("name").or_null()], "its name; `null` for none"),
    Row(&[flag("is_known")], "false if a preferred one could not be checked"),
    Row(&[texts("why")], "the reasons: for this one, then against each preferred one"),
    Row(
        &[text("slow_name").or_absent()],
        "the engine below 100,000 frames per second and thread; absent if it is the same one",
    ),
];

const HOST: &[Row] = &[
    Row(&[text("kernel"), text("architecture")], "version of the kernel, and architecture"),
    Row(&[text("cpus"), text("nodes")], "CPUs and memory nodes, as lists that the kernel writes (`0-3,8`)"),
];

const FINDING: &[Row] = &[
    Row(&[word("about", &["host", "device"])], "what it is about"),
    Row(&[word("severity", &["problem", "note", "ok"])], "how severe it is"),
    Row(&[text("topic")], "its [topic](when-it-does-not-work.md#what-works-on-this-machine)"),
    Row(
        &[text("what"), text("why"), texts("tries")],
        "what was found, why it matters, and suggested commands",
    ),
];
