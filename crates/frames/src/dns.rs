//! The records of `dns(...)`: `query(...)`, `answer(...)`, `auth(...)` and `add(...)`.

use crate::builder::{PacketBuilder, Spot};
use crate::error::ConfigError;
use crate::protocols::ValueKind;
use crate::scan::Scanner;
use crate::value::{self, Motion, Value};

/// The name of a query that gives none: text, as trafgen writes it, not labels.
const NAME_DEFAULT: &[u8] = b"www.netsniff-ng.com\0";
/// Bytes of a label.
const LABEL_LEN_MAX: usize = 63;
/// The sections of a message, in order, with the index of the field that counts them.
pub(crate) const SECTIONS: [(&str, usize); 4] = [("query", 9), ("answer", 10), ("auth", 11), ("add", 12)];
/// The field that is 1 in answers.
const QR: usize = 1;

/// The fields of a record behind its name: names, offset, width.
const FIELDS: [(&str, usize, usize); 4] = [("type", 0, 2), ("class", 2, 2), ("ttl", 4, 4), ("len", 8, 2)];
const TYPE: usize = 0;
const CLASS: usize = 1;
const TTL: usize = 2;
const LEN: usize = 3;

/// One record.
#[derive(Clone, Debug)]
pub(crate) struct ResourceRecord {
    /// Index into [`SECTIONS`].
    section: usize,
    name: Option<Vec<u8>>,
    numbers: [Option<u64>; 4],
    moving: Vec<(usize, Motion)>,
    data: Vec<u8>,
}

/// Takes the record of `section`, from its '(' to its ')'.
pub(crate) fn record(scanner: &mut Scanner<'_>, section: usize) -> Result<ResourceRecord, ConfigError> {
    let mut record =
        ResourceRecord { section, name: None, numbers: [None; 4], moving: Vec::new(), data: Vec::new() };
    let is_query = section == 0;
    scanner.expect(b'(', "'('")?;
    while !scanner.eat(b')')? {
        argument(scanner, &mut record, is_query)?;
        scanner.eat(b',')?;
    }
    if is_query && record.name.is_none() {
        record.name = Some(NAME_DEFAULT.to_vec());
    }
    Ok(record)
}

fn argument(
    scanner: &mut Scanner<'_>,
    record: &mut ResourceRecord,
    is_query: bool,
) -> Result<(), ConfigError> {
    let word = scanner.peek_word()?;
    let fields = if is_query { &FIELDS[..2] } else { &FIELDS[..] };
    if let Some(index) = fields.iter().position(|(name, ..)| *name == word) {
        scanner.word()?;
        scanner.expect(b'=', &format!("'=' after {word}"))?;
        match value::value(scanner, ValueKind::Number, &[])? {
            Value::Number(number) => record.numbers[index] = Some(number),
            Value::Moving(motion) => record.moving.push((index, motion)),
            Value::Address(_) => unreachable!("numbers are no addresses"),
        }
        return Ok(());
    }
    match (&*word, is_query) {
        ("name", _) => {
            scanner.word()?;
            scanner.expect(b'=', "'=' after name")?;
            record.name = Some(name(scanner)?);
        }
        ("data", false) => {
            scanner.word()?;
            scanner.expect(b'=', "'=' after data")?;
            record.data = data(scanner)?;
        }
        ("addr", false) => {
            scanner.word()?;
            scanner.expect(b'(', "'(' after addr")?;
            record.data = data(scanner)?;
            record.numbers[TYPE] = Some(if record.data.len() == 16 { 28 } else { 1 });
            scanner.expect(b')', "')'")?;
        }
        ("ns" | "cname" | "ptr", false) => {
            scanner.word()?;
            scanner.expect(b'(', &format!("'(' after {word}"))?;
            record.data = name(scanner)?;
            record.numbers[TYPE] = Some(match &*word {
                "ns" => 2,
                "cname" => 5,
                _ => 12,
            });
            scanner.expect(b')', "')'")?;
        }
        (_, true) => return Err(scanner.expected("name, type, class or ')'")),
        (_, false) => {
            let expected = "name, type, class, ttl, len, data, addr(), ns(), cname(), ptr() or ')'";
            return Err(scanner.expected(expected));
        }
    }
    Ok(())
}

/// Takes a domain name in quotes.
fn name(scanner: &mut Scanner<'_>) -> Result<Vec<u8>, ConfigError> {
    scanner.skip_blanks()?;
    let place = scanner.place();
    let text = scanner.string()?;
    let text = String::from_utf8_lossy(&text);
    encode(&text).ok_or_else(|| scanner.error_at(place, "a label of this name is longer than 63 bytes"))
}

/// Length and bytes of each label, up to the first empty one.
fn encode(text: &str) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    for label in text.split('.').take_while(|label| !label.is_empty()) {
        if label.len() > LABEL_LEN_MAX {
            return None;
        }
        name.push(label.len() as u8);
        name.extend_from_slice(label.as_bytes());
    }
    name.push(0);
    Some(name)
}

/// Takes the data of a record: a string, which gets a NUL at its end as in trafgen, or an address.
fn data(scanner: &mut Scanner<'_>) -> Result<Vec<u8>, ConfigError> {
    scanner.skip_blanks()?;
    if scanner.peek() == Some(b'"') {
        let mut text = scanner.string()?;
        text.push(0);
        return Ok(text);
    }
    for kind in [ValueKind::Ip4, ValueKind::Ip6, ValueKind::Mac] {
        let mut ahead = scanner.clone();
        if let Ok(Value::Address(bytes)) = value::value(&mut ahead, kind, &[]) {
            *scanner = ahead;
            return Ok(bytes);
        }
    }
    Err(scanner.expected("a string in double quotes, an IPv4 or an IPv6 address"))
}

/// Appends the records to the DNS header, section by section, and counts them.
pub(crate) fn append(builder: &mut PacketBuilder, records: &[ResourceRecord]) -> Result<(), String> {
    for (section, (_, counter)) in SECTIONS.iter().enumerate() {
        let mut count = 0;
        for record in records.iter().filter(|record| record.section == section) {
            append_record(builder, record)?;
            count += 1;
        }
        if !builder.is_given(*counter) {
            builder.write_number(builder.spot(*counter), count);
        }
        if section == 1 && count > 0 && !builder.is_given(QR) {
            builder.write_number(builder.spot(QR), 1);
        }
    }
    Ok(())
}

fn append_record(builder: &mut PacketBuilder, record: &ResourceRecord) -> Result<(), String> {
    let is_query = record.section == 0;
    builder.extend_header(record.name.as_deref().unwrap_or_default())?;
    let start = builder.len();
    let number = |index: usize, default: usize| record.numbers[index].unwrap_or(default as u64);
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(number(TYPE, usize::from(is_query)) as u16).to_be_bytes());
    bytes.extend_from_slice(&(number(CLASS, 1) as u16).to_be_bytes());
    if !is_query {
        bytes.extend_from_slice(&(number(TTL, 1) as u32).to_be_bytes());
        bytes.extend_from_slice(&(number(LEN, record.data.len()) as u16).to_be_bytes());
        bytes.extend_from_slice(&record.data);
    }
    builder.extend_header(&bytes)?;
    for (index, motion) in &record.moving {
        let (_, offset, width) = FIELDS[*index];
        let spot = Spot { offset: start + offset, width, mask: 0, shift: 0 };
        let default = builder.read_number(spot);
        // As in trafgen, a counter starts before defaults are filled in.
        if record.numbers[*index].is_none() {
            builder.write_number(spot, 0);
        }
        value::apply_motion(builder, spot, motion.clone())?;
        builder.write_number(spot, default);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_empty_label() {
        assert_eq!(encode("ab.c").unwrap(), b"\x02ab\x01c\x00");
        assert_eq!(encode("a..b.").unwrap(), b"\x01a\x00");
        assert_eq!(encode(&"x".repeat(64)), None);
    }
}
