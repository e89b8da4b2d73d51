//! The parts of headers: `option(...)`, `segment(...)` and `chunk(...)` inside the parentheses of a
//! protocol.

use crate::builder::PacketBuilder;
use crate::error::ConfigError;
use crate::functions;
use crate::protocols::{Id, Protocol, ValueKind};
use crate::scan::Scanner;
use crate::value::{self, Value};

/// Bytes that pad a part or a list of parts to whole words.
const WORD_LEN: usize = 4;
/// IPv6 extension headers are multiples of this.
const EXTENSION_UNIT: usize = 8;
/// Bytes of an IPv6 address.
const SEGMENT_LEN: usize = 16;
/// Type of a segment routing header (RFC 8754), whose last entry has a field of its own.
const SEGMENT_ROUTING: u64 = 4;

/// A kind of part that a header may have, such as the options of TCP. Error texts and
/// docs/frames.md list them.
#[derive(Debug)]
pub struct PartKind {
    /// The protocol of the header.
    pub of: Id,
    /// Name of the part: `option`, `segment` or `chunk`.
    pub name: &'static str,
    /// Numbers of the part, the type first; none if it is an address.
    pub numbers: &'static [PartNumber],
    /// True for an address instead of numbers and data.
    pub is_address: bool,
}

/// A number of a part.
#[derive(Debug)]
pub struct PartNumber {
    /// Its name.
    pub name: &'static str,
    /// Its largest value.
    pub max: u64,
    /// Words that may be given instead of `NAME=NUMBER`, and their values.
    pub words: &'static [(&'static str, u64)],
}

const fn byte(name: &'static str, words: &'static [(&'static str, u64)]) -> PartNumber {
    PartNumber { name, max: 0xff, words }
}

const fn options(of: Id, numbers: &'static [PartNumber]) -> PartKind {
    PartKind { of, name: "option", numbers, is_address: false }
}

/// The parts of all protocols that have some.
pub static PARTS: &[PartKind] = &[
    options(
        Id::Ipv4,
        &[byte(
            "type",
            &[("nop", 1), ("rr", 7), ("timestamp", 68), ("lsrr", 131), ("ssrr", 137), ("alert", 148)],
        )],
    ),
    options(
        Id::Tcp,
        &[byte(
            "type",
            &[("nop", 1), ("mss", 2), ("wscale", 3), ("sackok", 4), ("sack", 5), ("timestamp", 8)],
        )],
    ),
    options(Id::HopByHop, &[byte("type", &[("pad1", 0), ("alert", 5), ("jumbo", 194)])]),
    options(Id::Destination, &[byte("type", &[("pad1", 0), ("home", 201)])]),
    options(Id::Geneve, &[byte("type", &[]), PartNumber { name: "class", max: 0xffff, words: &[] }]),
    PartKind { of: Id::Routing, name: "segment", numbers: &[], is_address: true },
    PartKind {
        of: Id::Sctp,
        name: "chunk",
        numbers: &[
            byte(
                "type",
                &[
                    ("data", 0),
                    ("init", 1),
                    ("initack", 2),
                    ("sack", 3),
                    ("heartbeat", 4),
                    ("heartbeatack", 5),
                    ("abort", 6),
                    ("shutdown", 7),
                    ("shutdownack", 8),
                    ("error", 9),
                    ("cookieecho", 10),
                    ("cookieack", 11),
                    ("shutdowncomplete", 14),
                ],
            ),
            byte("flags", &[]),
        ],
        is_address: false,
    },
];

impl PartKind {
    /// The part of that name in the header of a protocol.
    pub(crate) fn named(protocol: Id, name: &str) -> Option<&'static Self> {
        PARTS.iter().find(|kind| kind.of == protocol && kind.name == name)
    }

    /// What its parentheses hold, such as `type=, class=, data=`.
    pub fn usage(&self) -> String {
        if self.is_address {
            return "IPV6".to_owned();
        }
        let numbers: String = self.numbers.iter().map(|number| format!("{}=, ", number.name)).collect();
        format!("{numbers}data=")
    }
}

/// One part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    numbers: [u64; 2],
    data: Vec<u8>,
}

/// Takes a part, from its '(' to its ')'.
pub(crate) fn part(scanner: &mut Scanner<'_>, kind: &PartKind) -> Result<Part, ConfigError> {
    let mut part = Part::default();
    scanner.expect(b'(', &format!("'(' after {}", kind.name))?;
    if kind.is_address {
        scanner.skip_blanks()?;
        let place = scanner.place();
        match value::value(scanner, ValueKind::Ip6, &[])? {
            Value::Address(bytes) => part.data = bytes,
            _ => return Err(scanner.error_at(place, "a segment is one IPv6 address")),
        }
        scanner.expect(b')', "')' behind the address")?;
        return Ok(part);
    }
    while !scanner.eat(b')')? {
        argument(scanner, kind, &mut part)?;
        scanner.eat(b',')?;
    }
    Ok(part)
}

fn argument(scanner: &mut Scanner<'_>, kind: &PartKind, part: &mut Part) -> Result<(), ConfigError> {
    scanner.skip_blanks()?;
    let place = scanner.place();
    let word = scanner.peek_word()?;
    let mut ahead = scanner.clone();
    ahead.word()?;
    if !ahead.eat(b'=')? {
        let of_word = |number: &PartNumber| number.words.iter().find(|(name, _)| *name == word).copied();
        let found = kind.numbers.iter().enumerate().find_map(|(index, row)| Some((index, of_word(row)?.1)));
        let Some((index, value)) = found else { return Err(unknown(scanner, kind, place)) };
        part.numbers[index] = value;
        *scanner = ahead;
        return Ok(());
    }
    if word == "data" {
        *scanner = ahead;
        part.data = data(scanner)?;
        return Ok(());
    }
    let Some(index) = kind.numbers.iter().position(|number| number.name == word) else {
        return Err(unknown(scanner, kind, place));
    };
    *scanner = ahead;
    let row = &kind.numbers[index];
    let number = match value::value(scanner, ValueKind::Number, row.words)? {
        Value::Number(number) if number <= row.max => number,
        Value::Number(number) => {
            let why = format!("{number} is too large: {} has at most {}", row.name, row.max);
            return Err(scanner.error_at(place, why));
        }
        _ => return Err(scanner.error_at(place, format!("{} takes one number", row.name))),
    };
    part.numbers[index] = number;
    Ok(())
}

fn unknown(scanner: &Scanner<'_>, kind: &PartKind, place: usize) -> ConfigError {
    let words = kind.numbers.iter().flat_map(|number| number.words).map(|(name, _)| format!(", {name}"));
    let expected = format!("expected {}({}){}", kind.name, kind.usage(), words.collect::<String>());
    scanner.error_at(place, expected)
}

/// A string, or `hex("DIGITS")`.
fn data(scanner: &mut Scanner<'_>) -> Result<Vec<u8>, ConfigError> {
    scanner.skip_blanks()?;
    let place = scanner.place();
    if scanner.peek_word()? != "hex" {
        return scanner.string();
    }
    scanner.word()?;
    scanner.expect(b'(', "'(' after hex")?;
    scanner.skip_blanks()?;
    let text = scanner.string()?;
    scanner.expect(b')', "')'")?;
    functions::hex(&text).map_err(|why| scanner.error_at(place, why))
}

/// Appends the parts to the last header, pads it, and fills in its lengths.
pub(crate) fn append(builder: &mut PacketBuilder, protocol: &Protocol, parts: &[Part]) -> Result<(), String> {
    let mut bytes = Vec::new();
    for part in parts {
        encode(protocol.id, part, &mut bytes)?;
    }
    let padded = bytes.len().next_multiple_of(WORD_LEN);
    match protocol.id {
        Id::Ipv4 | Id::Tcp if !bytes.is_empty() => {
            if padded > 40 {
                return Err(format!("the options have {padded} bytes: a header takes at most 40"));
            }
            bytes.resize(padded, 0);
            builder.extend_header(&bytes)?;
            builder
                .default_number(if protocol.id == Id::Ipv4 { "ihl" } else { "doff" }, 5 + padded / WORD_LEN);
        }
        Id::Geneve if !bytes.is_empty() => {
            if padded > 63 * WORD_LEN {
                return Err(format!("the options have {padded} bytes: a header takes at most 252"));
            }
            builder.extend_header(&bytes)?;
            builder.default_number("optlen", padded / WORD_LEN);
        }
        Id::HopByHop | Id::Destination => {
            let len = (protocol.len + bytes.len()).next_multiple_of(EXTENSION_UNIT);
            match len - protocol.len - bytes.len() {
                0 => {}
                1 => bytes.push(0),
                more => {
                    bytes.extend([1, (more - 2) as u8]);
                    bytes.resize(len - protocol.len, 0);
                }
            }
            if len > 256 * EXTENSION_UNIT {
                return Err(format!("the options make a header of {len} bytes: it has at most 2048"));
            }
            builder.extend_header(&bytes)?;
            builder.default_number("len", len / EXTENSION_UNIT - 1);
        }
        Id::Routing => {
            if parts.len() > 127 {
                return Err(format!("{} segments are too many: a header has at most 127", parts.len()));
            }
            let last = parts.len().saturating_sub(1);
            builder.extend_header(&bytes)?;
            builder.default_number("len", bytes.len() / EXTENSION_UNIT);
            builder.default_number("left", last);
            if builder.number("type") == SEGMENT_ROUTING {
                builder.default_number("last", last);
            }
        }
        _ => builder.extend_header(&bytes)?,
    }
    Ok(())
}

fn encode(protocol: Id, part: &Part, bytes: &mut Vec<u8>) -> Result<(), String> {
    let Part { numbers: [kind, more], data } = part;
    let len_within = |max: usize, what: &str| {
        let fits = data.len() <= max;
        fits.then_some(()).ok_or_else(|| format!("{} bytes of data: {what} has at most {max}", data.len()))
    };
    match protocol {
        Id::Routing => {
            debug_assert_eq!(data.len(), SEGMENT_LEN);
            bytes.extend(data);
        }
        Id::Geneve => {
            len_within(124, "an option")?;
            let padded = data.len().next_multiple_of(WORD_LEN);
            bytes.extend((*more as u16).to_be_bytes());
            bytes.extend([*kind as u8, (padded / WORD_LEN) as u8]);
            bytes.extend(data);
            bytes.resize(bytes.len() + padded - data.len(), 0);
        }
        Id::Sctp => {
            len_within(0xffff - 4, "a chunk")?;
            bytes.extend([*kind as u8, *more as u8]);
            bytes.extend((data.len() as u16 + 4).to_be_bytes());
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(WORD_LEN), 0);
        }
        // Padding has a type and nothing else: 0, and 1 in IPv4 and TCP.
        Id::Ipv4 | Id::Tcp if *kind < 2 && data.is_empty() => bytes.push(*kind as u8),
        Id::HopByHop | Id::Destination if *kind == 0 && data.is_empty() => bytes.push(0),
        Id::Ipv4 | Id::Tcp => {
            len_within(38, "an option")?;
            bytes.extend([*kind as u8, data.len() as u8 + 2]);
            bytes.extend(data);
        }
        _ => {
            len_within(255, "an option")?;
            bytes.extend([*kind as u8, data.len() as u8]);
            bytes.extend(data);
        }
    }
    Ok(())
}
