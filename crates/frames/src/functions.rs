//! The functions that write bytes: names, arguments and what they do. The parser, the help and the
//! docs read this table.

/// A function of a packet that is not a protocol, such as `fill(0xff, 6)`.
#[derive(Debug)]
pub struct Function {
    /// Names; the first is the one to show.
    pub names: &'static [&'static str],
    /// Its arguments, as text.
    pub arguments: &'static str,
    /// What it writes.
    pub summary: &'static str,
    /// What the parser does for it.
    pub(crate) act: Act,
}

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Fill,
    Random,
    RandomPerFrame,
    Sequence { is_up: bool },
    Counter { is_up: bool },
    Constant { width: usize },
    Checksum(Covered),
    Hex,
    Raw,
    Capture,
}

/// What a checksum function covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Covered {
    /// From the first offset to the second, inclusive.
    Range,
    /// From the second offset to the end, with a pseudo header of the IP header at the first.
    Transport { protocol: u8, is_v6: bool },
}

const fn checksum(names: &'static [&'static str], protocol: u8, is_v6: bool) -> Function {
    Function {
        names,
        arguments: "IP, TRANSPORT",
        summary: "checksum from TRANSPORT to the end, with the pseudo header of the IP header at byte IP",
        act: Act::Checksum(Covered::Transport { protocol, is_v6 }),
    }
}

const fn constant(names: &'static [&'static str], width: usize, summary: &'static str) -> Function {
    Function { names, arguments: "EXPRESSION", summary, act: Act::Constant { width } }
}

/// All functions.
pub static FUNCTIONS: &[Function] = &[
    Function { names: &["fill"], arguments: "BYTE, N", summary: "N times BYTE", act: Act::Fill },
    Function {
        names: &["rnd"],
        arguments: "[N]",
        summary: "N random bytes (1 if not given), the same in all frames",
        act: Act::Random,
    },
    Function {
        names: &["drnd"],
        arguments: "[N]",
        summary: "N random bytes (1 if not given), new in each frame",
        act: Act::RandomPerFrame,
    },
    Function {
        names: &["seqinc"],
        arguments: "START, N[, STEP]",
        summary: "N bytes that go up by STEP (1) from START",
        act: Act::Sequence { is_up: true },
    },
    Function {
        names: &["seqdec"],
        arguments: "START, N[, STEP]",
        summary: "N bytes that go down by STEP (1) from START",
        act: Act::Sequence { is_up: false },
    },
    Function {
        names: &["dinc"],
        arguments: "MIN, MAX[, STEP]",
        summary: "one byte that goes up by STEP (1) in each frame; the first frame has MIN + STEP",
        act: Act::Counter { is_up: true },
    },
    Function {
        names: &["ddec"],
        arguments: "MIN, MAX[, STEP]",
        summary: "one byte that goes down by STEP (1) in each frame; the first frame has MAX - STEP",
        act: Act::Counter { is_up: false },
    },
    constant(&["c8", "const8"], 1, "the value as one byte"),
    constant(&["c16", "const16"], 2, "the value as two bytes in network order"),
    constant(&["c32", "const32"], 4, "the value as four bytes in network order"),
    constant(&["c64", "const64"], 8, "the value as eight bytes in network order"),
    Function {
        names: &["csumip", "csumip4", "csumicmp", "csumicmp4", "csum16"],
        arguments: "FROM, TO",
        summary: "checksum of the bytes FROM to TO, inclusive",
        act: Act::Checksum(Covered::Range),
    },
    checksum(&["csumudp"], 17, false),
    checksum(&["csumtcp"], 6, false),
    checksum(&["csumudp6"], 17, true),
    checksum(&["csumtcp6"], 6, true),
    checksum(&["csumicmp6"], 58, true),
    Function {
        names: &["hex"],
        arguments: "\"DIGITS\"",
        summary: "bytes as hexadecimal digits; blanks, colons and dashes between them are skipped",
        act: Act::Hex,
    },
    Function {
        names: &["raw"],
        arguments: "BYTES...",
        summary: "the bytes, strings and functions in it; headers may follow them, as they may follow `hex()`",
        act: Act::Raw,
    },
    Function {
        names: &["pcap"],
        arguments: "\"FILE\", NUMBER",
        summary: "the bytes of a frame of a capture file; the first frame is 1",
        act: Act::Capture,
    },
];

impl Function {
    /// The function of that name, in lower case.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.names.contains(&name))
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |byte: &u8| {
        char::from(*byte)
            .to_digit(16)
            .ok_or_else(|| format!("'{}' is not a hexadecimal digit", char::from(*byte)))
    };
    let is_between = |byte: &&u8| !matches!(**byte, b' ' | b'\t' | b'\r' | b'\n' | b':' | b'-');
    let digits = text.iter().filter(is_between).map(digit).collect::<Result<Vec<u32>, String>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return Err("expected an even number of hexadecimal digits".to_owned());
    };
    Ok(pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect())
}
