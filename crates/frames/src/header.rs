//! Headers and packets as values: the parser reads them, programs describe them, and each has its
//! text in the language.

use crate::builder::{PacketBuilder, ParseSettings, Spot};
use crate::protocols::{Id, Protocol, ProtocolField, ValueKind, Word};
use crate::value::{self, Motion, Value, counter};
use packet::plan::FrameSpec;
use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A header, and what its fields are given, in order.
#[derive(Clone, Debug)]
pub struct Header {
    pub(crate) protocol: &'static Protocol,
    given: Vec<Given>,
}

#[derive(Clone, Debug)]
enum Given {
    Word(&'static Word),
    Field(Assignment),
}

#[derive(Clone, Debug)]
struct Assignment {
    /// Index of the field.
    field: usize,
    /// First byte and number of bytes, if not the whole field.
    part: Option<(usize, usize)>,
    value: Value,
}

impl Header {
    /// A header whose fields all have their defaults.
    pub fn of(id: Id) -> Self {
        Self::new(Protocol::of(id))
    }

    pub(crate) fn new(protocol: &'static Protocol) -> Self {
        Self { protocol, given: Vec::new() }
    }

    /// With a value for the field `name`.
    ///
    /// # Panics
    /// If the protocol has no such field.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let field = self.field_named(name);
        self.give(field, None, value.into());
        self
    }

    /// With a value for `count` (1, 2, 4 or 8) bytes of the field `name`, from byte `first` of it.
    ///
    /// # Panics
    /// If the protocol has no such field.
    pub fn with_part(mut self, name: &str, (first, count): (usize, usize), value: impl Into<Value>) -> Self {
        let field = self.field_named(name);
        self.give(field, Some((first, count)), value.into());
        self
    }

    /// With a word that sets fields, or with a flag.
    ///
    /// # Panics
    /// If the protocol has no such word and no such field.
    pub fn with_word(mut self, name: &str) -> Self {
        match self.protocol.words.iter().find(|word| word.names.contains(&name)) {
            Some(word) => self.give_word(word),
            None => return self.with(name, 1u64),
        }
        self
    }

    pub(crate) fn give_word(&mut self, word: &'static Word) {
        self.given.push(Given::Word(word));
    }

    pub(crate) fn give(&mut self, field: usize, part: Option<(usize, usize)>, value: Value) {
        self.given.push(Given::Field(Assignment { field, part, value }));
    }

    fn field_named(&self, name: &str) -> usize {
        let mut fields = self.protocol.fields.iter();
        let found = fields.position(|field| field.names.contains(&name));
        found.unwrap_or_else(|| panic!("{} has no field {name}", self.protocol.names[0]))
    }

    /// What fields are given, words as the fields that they set.
    fn assignments(&self) -> Vec<Assignment> {
        let of = |given: &Given| match given {
            Given::Word(word) => {
                let set = |(field, number): &(usize, u64)| Assignment {
                    field: *field,
                    part: None,
                    value: Value::Number(*number),
                };
                word.sets.iter().map(set).collect()
            }
            Given::Field(assignment) => vec![assignment.clone()],
        };
        self.given.iter().flat_map(of).collect()
    }

    /// Appends the header to a packet.
    ///
    /// # Errors
    /// Why it cannot stand there, or have that value.
    pub(crate) fn write(&self, builder: &mut PacketBuilder) -> Result<(), String> {
        let assignments = self.assignments();
        let groups = assignments.iter().filter_map(|given| self.protocol.fields[given.field].group);
        builder.push_header(self.protocol, groups.fold(0, |groups, group| groups | 1 << group))?;
        assignments.into_iter().try_for_each(|assignment| assign(builder, assignment))
    }
}

/// Gives a field of the last header its value.
fn assign(builder: &mut PacketBuilder, assignment: Assignment) -> Result<(), String> {
    let whole = builder.spot(assignment.field);
    let spot = match assignment.part {
        None => whole,
        Some((index, width)) => Spot { offset: whole.offset + index, width, ..whole },
    };
    if spot.offset + spot.width > builder.len() {
        return Err("a field with an index goes beyond the end of the header".to_owned());
    }
    match assignment.value {
        Value::Moving(Motion::Entropy) if builder.has_entropy_outside(spot) => {
            return Err("a packet has entropy() in one field only".to_owned());
        }
        Value::Moving(motion) => return value::apply_motion(builder, spot, motion),
        Value::Number(number) => builder.write_number(spot, number),
        Value::Address(bytes) => builder.write_bytes(spot, &bytes),
    }
    builder.give(assignment.field);
    Ok(())
}

impl Display for Header {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.protocol.names[0])?;
        for (index, given) in self.given.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            match given {
                Given::Word(word) => f.write_str(word.names[0])?,
                Given::Field(Assignment { field, part, value }) => {
                    let row = &self.protocol.fields[*field];
                    f.write_str(row.names[0])?;
                    if let Some((first, count)) = part {
                        write!(f, "[{first}:{count}]")?;
                    }
                    if !(row.is_flag && *value == Value::Number(1)) {
                        f.write_str("=")?;
                        write_value(f, Form::of(row, *part), value)?;
                    }
                }
            }
        }
        f.write_str(")")
    }
}

/// How the values of a field are written.
#[derive(Clone, Copy)]
struct Form {
    /// Numbers of addresses and of VLAN types are read in hexadecimal.
    is_hexadecimal: bool,
    /// Bytes of a value that is written as an address.
    address_len: Option<usize>,
}

impl Form {
    fn of(row: &ProtocolField, part: Option<(usize, usize)>) -> Self {
        let is_address = row.kind != ValueKind::Number;
        Self {
            is_hexadecimal: is_address || row.names[0] == "tpid",
            address_len: (is_address && part.is_none()).then_some(row.width),
        }
    }
}

fn write_value(f: &mut Formatter<'_>, form: Form, value: &Value) -> fmt::Result {
    match value {
        Value::Number(number) => write_number(f, form, *number),
        Value::Address(bytes) => write_address(f, bytes),
        Value::Moving(motion) => write_motion(f, form, motion),
    }
}

fn write_number(f: &mut Formatter<'_>, form: Form, number: u64) -> fmt::Result {
    if form.is_hexadecimal { write!(f, "{number:#x}") } else { write!(f, "{number}") }
}

fn write_address(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    match bytes.len() {
        4 => write!(f, "{}", Ipv4Addr::from(number_of(bytes) as u32)),
        16 => write!(f, "{}", Ipv6Addr::from(number_of(bytes))),
        _ => (0..).zip(bytes).try_for_each(|(index, byte)| {
            f.write_str(if index > 0 { ":" } else { "" })?;
            write!(f, "{byte:02x}")
        }),
    }
}

fn number_of(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn write_motion(f: &mut Formatter<'_>, form: Form, motion: &Motion) -> fmt::Result {
    let (name, range, step) = match motion {
        Motion::Count { is_up, range, step } => (if *is_up { "dinc" } else { "ddec" }, *range, *step),
        Motion::Random { range } => ("drnd", *range, 1),
        Motion::Entropy => ("entropy", None, 1),
        Motion::Held { frames, motion } => {
            write!(f, "hold({frames}, ")?;
            write_motion(f, form, motion)?;
            return f.write_str(")");
        }
        Motion::List(values) => {
            f.write_str("values(")?;
            for (index, value) in values.iter().enumerate() {
                f.write_str(if index > 0 { ", " } else { "" })?;
                match form.address_len {
                    None => write_number(f, form, *value as u64)?,
                    Some(len) => write_address(f, &value.to_be_bytes()[16 - len..])?,
                }
            }
            return f.write_str(")");
        }
    };
    write!(f, "{name}(")?;
    if let Some((first, last)) = range {
        write_number(f, form, first)?;
        f.write_str(", ")?;
        write_number(f, form, last)?;
    }
    if step != 1 {
        write!(f, "{}{step}", if range.is_some() { ", " } else { "" })?;
    }
    f.write_str(")")
}

/// What a packet consists of.
#[derive(Clone, Debug)]
pub enum Element {
    /// A header.
    Header(Header),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A byte that counts from 0 to 255, again and again; the first frame has 1.
    Counter,
}

impl From<Header> for Element {
    fn from(header: Header) -> Self {
        Self::Header(header)
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic() && !b"\"\\".contains(byte);
        match self {
            Self::Header(header) => header.fmt(f),
            Self::Bytes(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                write!(f, "fill(0, {})", bytes.len())
            }
            Self::Bytes(bytes) if bytes.iter().all(is_plain) => {
                write!(f, "\"{}\"", String::from_utf8_lossy(bytes))
            }
            Self::Bytes(bytes) => {
                f.write_str("hex(\"")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\")")
            }
            Self::Counter => f.write_str("dinc(0, 255)"),
        }
    }
}

/// A packet: its elements, the first one in front.
#[derive(Clone, Debug, Default)]
pub struct Packet(pub Vec<Element>);

impl Packet {
    /// The frames of the packet.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn build(&self, settings: &ParseSettings) -> Result<FrameSpec, String> {
        let mut builder = PacketBuilder::new(settings.device, settings.is_for_device);
        for element in &self.0 {
            match element {
                Element::Header(header) => header.write(&mut builder)?,
                Element::Bytes(bytes) => builder.extend(bytes)?,
                Element::Counter => builder.moving_byte(counter(0, 255, 1, true)?)?,
            }
        }
        builder.fill(0, settings.frame_len_min.saturating_sub(builder.len()))?;
        builder.finish(None).map_err(|(_, why)| why)
    }
}

impl Display for Packet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let elements: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "{{ {} }}", elements.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoCaptures;
    use std::net::IpAddr;

    /// The text of a packet is that packet.
    #[test]
    fn the_text_of_a_packet_gives_the_same_frames() {
        let counted = |first, last, step| {
            Value::Moving(Motion::Count { is_up: true, range: Some((first, last)), step })
        };
        let held = Motion::Held { frames: 3, motion: Box::new(Motion::Random { range: Some((1024, 2047)) }) };
        let mac = Value::Address(vec![2, 0, 0, 0, 0, 9]);
        let packet = Packet(vec![
            Header::of(Id::Eth)
                .with("da", mac.clone())
                .with_part("da", (4, 2), counted(0, 9, 3))
                .with("sa", Motion::List(vec![0x0200_0000_0001, 0x0200_0000_0002]))
                .with_part("sa", (2, 1), Motion::List(vec![1, 2]))
                .into(),
            Header::of(Id::Vlan).with("id", 5u64).with("tpid", 0x88a8u64).into(),
            Header::of(Id::Ipv4)
                .with("sa", IpAddr::from([10, 0, 0, 1]))
                .with("da", Value::Moving(Motion::List(vec![0x0a00_0002, 0x0a00_0003])))
                .into(),
            Header::of(Id::Tcp)
                .with("sp", Value::Moving(held))
                .with("dp", Value::Moving(Motion::Count { is_up: false, range: None, step: 2 }))
                .with_word("syn")
                .into(),
            Element::Bytes(b"say \"hi\"".to_vec()),
            Element::Bytes(vec![0; 3]),
            Element::Counter,
        ]);
        let text = packet.to_string();
        assert_eq!(
            text,
            "{ eth(da=02:00:00:00:00:09, da[4:2]=dinc(0x0, 0x9, 3), \
             sa=values(02:00:00:00:00:01, 02:00:00:00:00:02), sa[2:1]=values(0x1, 0x2)), vlan(id=5, tpid=0x88a8), \
             ipv4(sa=10.0.0.1, da=values(10.0.0.2, 10.0.0.3)), \
             tcp(sp=hold(3, drnd(1024, 2047)), dp=ddec(2), syn), hex(\"7361792022686922\"), fill(0, 3), dinc(0, 255) }"
        );
        let settings = ParseSettings { is_for_device: true, frame_len_min: 100, ..ParseSettings::default() };
        let read = crate::parse(text.as_bytes(), &settings, &mut NoCaptures).expect("it is in the language");
        assert_eq!(read, [packet.build(&settings).expect("it is a packet")]);
    }

    #[test]
    fn a_packet_that_cannot_be_says_why() {
        let range = Some((9, 5));
        let motion = Motion::Count { is_up: true, range, step: 1 };
        let packet = Packet(vec![Header::of(Id::Udp).with("sp", Value::Moving(motion)).into()]);
        let why = packet.build(&ParseSettings::default()).unwrap_err();
        assert_eq!(why, "MIN (9) must be less than MAX (5)");
        let long = Packet(vec![Element::Bytes(vec![0; 70_000])]);
        assert!(long.build(&ParseSettings::default()).unwrap_err().contains("longer than 65535 bytes"));
    }
}
