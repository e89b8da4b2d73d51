//! `wirerate connect` and `wirerate accept`.

use super::shared::ROW_TIME;
use crate::counts::{ConnectFailures, UnusualSegments};
use crate::document::{
    Document, Field, Kind, Row, bytes, count, flag, frames, ns, number, object, objects, text, word,
};

/// The report of `wirerate connect`.
pub const CONNECT: Document = Document {
    name: "wirerate.connect/1",
    about: "wirerate connect --json",
    groups: &[
        HEAD,
        CONNECTIONS,
        ConnectFailures::ROWS,
        OPEN,
        UnusualSegments::ROWS,
        RESPONSES,
        RATES,
        CAUSES,
    ],
};

/// A second of `wirerate connect`.
pub const CONNECT_SECOND: Document = Document {
    name: "wirerate.connect-second/1",
    about: "wirerate connect --json --every-second",
    groups: &[
        ROW_TIME,
        &[
            Row(
                &[count("tried"), count("completed"), count("failed"), count("responses")],
                "counts since the start, as in `wirerate.connect/1`",
            ),
            Row(&[count("open")], "connections that are open"),
            Row(
                &[number("rate_cps", CPS), number("responses_ps", "1/s")],
                "completed connections and responses per second since the previous object",
            ),
        ],
        ConnectFailures::ROWS,
        UnusualSegments::ROWS,
    ],
};

/// The report of `wirerate accept`.
pub const ACCEPT: Document = Document {
    name: "wirerate.accept/1",
    about: "wirerate accept --json",
    groups: &[&[
        Row(
            &[text("device"), text("netns").or_null(), text("server"), text("xdp"), ns("duration_ns")],
            "the run: device, namespace, address that it answers for, how the program was attached, duration",
        ),
        Row(
            &[count("accepted"), count("closed"), count("resets")],
            "SYNs answered, FINs and resets of clients; repeated ones count again",
        ),
        Row(
            &[number("accepted_ps", "1/s").or_null()],
            "SYNs answered per second while clients opened connections; `null` for fewer than 10",
        ),
        Row(
            &[count("requests"), bytes("request_bytes"), count("responses"), bytes("response_bytes")],
            "segments with data, and their answers",
        ),
        Row(
            &[frames("neighbours"), frames("passed")],
            "answers to ARP and neighbour solicitations, frames that the host received",
        ),
        Row(&[frames("not_written")], "answers that did not fit into the frame that they answer"),
        Row(&[flag("is_device_gone")], "`true` if the device was deleted before the end"),
    ]],
};

/// A second of `wirerate accept`.
pub const ACCEPT_SECOND: Document = Document {
    name: "wirerate.accept-second/1",
    about: "wirerate accept --json --every-second",
    groups: &[
        ROW_TIME,
        &[
            Row(
                &[count("accepted"), count("requests"), count("closed"), count("resets")],
                "counts since the start, as in `wirerate.accept/1`",
            ),
            Row(&[number("accepted_ps", "1/s")], "SYNs answered per second since the previous object"),
        ],
    ],
};

const CPS: &str = "connections/s";

const HEAD: &[Row] = &[
    Row(
        &[
            text("device"),
            text("netns").or_null(),
            word("protocol", &["tcp", "udp", "dns"]),
            text("server"),
            text("xdp"),
            number("requested_cps", CPS).or_null(),
            number("requested_requests_ps", "1/s").or_null(),
        ],
        "the run: `xdp` is how the program was attached; `requested_cps` is `--cps` or `null`, `requested_requests_ps` is `--ask-rate` or `null`",
    ),
    Row(
        &[ns("opening_ns"), ns("run_ns")],
        "time in which connections were opened, and time until the last one was closed",
    ),
];

const CONNECTIONS: &[Row] = &[
    Row(&[count("tried")], "connections: `completed` + `failed` + `open_at_end`"),
    Row(
        &[count("established"), count("completed")],
        "SYNs that were answered; connections that went through all of their states",
    ),
    Row(&[count("failed")], "the sum of these causes:"),
];

const OPEN: &[Row] = &[
    Row(&[count("open_at_end"), count("open_max")], "connections open at the end, and most at a time"),
    Row(&[Field::new("unexplained", Kind::Integer(""))], "`tried` minus the sum above: 0"),
];

const RESPONSES: &[Row] = &[
    Row(&[count("requests"), count("responses")], "requests, and complete responses"),
    Row(
        &[count("unsized_responses")],
        "responses without a Content-Length in their first segment, on connections that stay open: PSH ended them",
    ),
    Row(
        &[count("error_answers")],
        "answers that report an error: an HTTP status of 400 or more; with `--tls-hello` all but a ServerHello; with `--quic-initial` all but a packet with a long header; an error code of DNS",
    ),
    Row(&[bytes("payload_bytes")], "bytes of the server; each counts once"),
];

const RATES: &[Row] = &[
    Row(
        &[number("rate_cps", CPS), number("tried_cps", CPS), number("requests_ps", "1/s")],
        "completed connections, tried ones and responses per second of `opening_ns`; with `--ask-rate`, responses per second of the time in which requests were sent",
    ),
    Row(
        &[
            object("connect", &[TIMES]).or_null(),
            object("first_byte", &[TIMES]).or_null(),
            object("connection", &[TIMES]).or_null(),
        ],
        "times from SYN to SYN-ACK, from request to first byte, from SYN to the end of complete connections; `null` without one",
    ),
];

const TIMES: &[Row] = &[
    Row(&[count("count")], "number of times"),
    Row(
        &[ns("min_ns"), ns("p50_ns"), ns("p90_ns"), ns("p99_ns"), ns("p999_ns"), ns("max_ns")],
        "shortest, percentiles, longest",
    ),
    Row(&[text("histogram")], "the times, as `histogram` of `wirerate.measure/1`"),
];

const GROUP: &[Row] = &[Row(
    &[text("value"), count("responses")],
    "the bytes, as text or as 0x and hexadecimal digits, and the responses with them",
)];

const CAUSES: &[Row] = &[
    Row(&[count("ended_by_server")], "held connections that the server ended"),
    Row(
        &[count("open_per_client_max")],
        "most connections of one client address at a time; 0 without `--open-per-client`",
    ),
    Row(
        &[objects("groups", &[GROUP]), count("ungrouped")],
        "responses by the bytes of `--group-by`; responses in none of them",
    ),
    Row(
        &[ns("longest_pause_ns")],
        "longest time without a completed connection while connections were opened; 0 with `--hold`",
    ),
    Row(&[count("no_port")], "new connections that found no free port"),
    Row(
        &[frames("dropped")],
        "frames of the sender that the driver dropped; they were sent again at once (datagrams were not)",
    ),
    Row(&[frames("lost_in_program")], "frames that the program could not write: as if lost on the way"),
    Row(&[frames("neighbours")], "answers to ARP and neighbour solicitations"),
    Row(&[flag("is_device_gone")], "`true` if the device was deleted before the end"),
];
