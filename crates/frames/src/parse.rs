//! The grammar: packets, the bytes in them, functions and protocol headers.

use crate::builder::{PacketBuilder, ParseSettings};
use crate::dns::{self, ResourceRecord};
use crate::error::ConfigError;
use crate::expression::expression;
use crate::functions::{Act, Covered, FUNCTIONS, Function, hex};
use crate::header::Header;
use crate::parts::{self, PARTS, Part, PartKind};
use crate::protocols::{Id, PROTOCOLS, Protocol, ValueKind};
use crate::scan::Scanner;
use crate::value::{self, Value};
use packet::Rng;
use packet::plan::FrameSpec;
use std::ops::RangeInclusive;

/// Bytes of a part of a field; trafgen has no eight.
const PART_LENS: &str = "a number of bytes: 1, 2, 4 or 8";
/// Bytes of all packets of a configuration together.
const CONFIG_FRAMES_MAX: usize = 256 << 20;

/// Reads frames of capture files for `pcap("FILE", NUMBER)`.
pub trait CaptureFrames {
    /// The bytes of frame `number` of `file`; the first frame is 1.
    ///
    /// # Errors
    /// Why there is no such frame, as part of a sentence.
    fn frame(&mut self, file: &str, number: u64) -> Result<Vec<u8>, String>;
}

/// No capture files can be read.
#[derive(Clone, Copy, Debug)]
pub struct NoCaptures;

impl CaptureFrames for NoCaptures {
    fn frame(&mut self, _: &str, _: u64) -> Result<Vec<u8>, String> {
        Err("capture files cannot be read here".to_owned())
    }
}

/// Reads a configuration.
///
/// # Errors
/// The first place that is wrong.
pub fn parse(
    text: &[u8],
    settings: &ParseSettings,
    captures: &mut dyn CaptureFrames,
) -> Result<Vec<FrameSpec>, ConfigError> {
    let scanner = Scanner::new(text);
    let mut parser = Parser { scanner, rng: Rng(settings.seed), settings: *settings, captures };
    let mut packets = Vec::new();
    let mut total = 0;
    loop {
        parser.scanner.skip_blanks()?;
        if parser.scanner.peek().is_none() {
            return Ok(packets);
        }
        let place = parser.scanner.place();
        let packet = parser.packet()?;
        total += packet.template.len();
        if total > CONFIG_FRAMES_MAX {
            return Err(parser.scanner.error_at(place, "the packets are longer than 256 MiB together"));
        }
        packets.push(packet);
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    rng: Rng,
    settings: ParseSettings,
    captures: &'a mut dyn CaptureFrames,
}

impl Parser<'_> {
    fn packet(&mut self) -> Result<FrameSpec, ConfigError> {
        let cpus = if self.scanner.peek_word()? == "cpu" { Some(self.cpus()?) } else { None };
        self.scanner.expect(b'{', "'{' or cpu(")?;
        let start = self.scanner.place() - 1;
        let mut builder = PacketBuilder::new(self.settings.device, self.settings.is_for_device);
        self.scanner.eat(b',')?;
        while !self.scanner.eat(b'}')? {
            if self.scanner.peek().is_none() {
                return Err(self.scanner.error_at(start, "this packet has no end: expected '}'"));
            }
            self.element(&mut builder)?;
            self.scanner.eat(b',')?;
        }
        if builder.len() == 0 {
            return Err(self.scanner.error_at(start, "this packet is empty: expected at least one byte"));
        }
        let missing = self.settings.frame_len_min.saturating_sub(builder.len());
        builder.fill(0, missing).map_err(|why| self.scanner.error_at(start, why))?;
        builder.finish(cpus).map_err(|(place, why)| self.scanner.error_at(place, why))
    }

    /// Takes `cpu(1):` or `cpu(1-2):`.
    fn cpus(&mut self) -> Result<RangeInclusive<u32>, ConfigError> {
        self.scanner.word()?;
        self.scanner.expect(b'(', "'(' after cpu")?;
        let first = self.scanner.number("the number of a CPU")? as u32;
        let has_second = self.scanner.eat(b'-')? || self.scanner.eat(b':')?;
        let last = if has_second { self.scanner.number("the number of a CPU")? as u32 } else { first };
        self.scanner.expect(b')', "')' or '-'")?;
        self.scanner.expect(b':', "':' after cpu()")?;
        Ok(first.min(last)..=first.max(last))
    }

    fn element(&mut self, builder: &mut PacketBuilder) -> Result<(), ConfigError> {
        self.scanner.skip_blanks()?;
        let place = self.scanner.place();
        if self.scanner.peek() == Some(b'"') {
            let bytes = self.scanner.string()?;
            return builder.extend(&bytes).map_err(|why| self.scanner.error_at(place, why));
        }
        if self.scanner.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
            return self.named(builder, place);
        }
        self.byte(builder, place)
    }

    /// Takes bytes in `raw(...)`: everything that makes bytes, but no header and no other
    /// `raw(...)`, so that the depth of calls has a bound.
    fn raw_element(&mut self, builder: &mut PacketBuilder) -> Result<(), ConfigError> {
        self.scanner.skip_blanks()?;
        let place = self.scanner.place();
        let name = self.scanner.peek_word()?;
        match Protocol::named(&name) {
            Some(protocol) => {
                let why = format!("{}() is a header: it stands behind raw(...)", protocol.names[0]);
                Err(self.scanner.error_at(place, why))
            }
            None if Function::named(&name).is_some_and(|function| matches!(function.act, Act::Raw)) => {
                Err(self
                    .scanner
                    .error_at(place, "raw(...) cannot stand in raw(...): leave the inner one out"))
            }
            None => self.element(builder),
        }
    }

    /// Takes a function, a protocol, or a number or character that starts with a letter.
    fn named(&mut self, builder: &mut PacketBuilder, place: usize) -> Result<(), ConfigError> {
        let name = self.scanner.peek_word()?;
        if let Some(function) = Function::named(&name) {
            self.scanner.word()?;
            return self.function(builder, function, place);
        }
        if let Some(protocol) = Protocol::named(&name) {
            self.scanner.word()?;
            return self.header(builder, protocol, place);
        }
        let mut ahead = self.scanner.clone();
        ahead.word()?;
        if name.len() > 1 && ahead.eat(b'(')? {
            return Err(self.scanner.error_at(place, unknown_function(&name)));
        }
        self.byte(builder, place)
    }

    fn byte(&mut self, builder: &mut PacketBuilder, place: usize) -> Result<(), ConfigError> {
        let byte = self.scanner.number("a byte (42, 0x2a, 'a'), a string, a function or '}'")?;
        builder.extend(&[byte as u8]).map_err(|why| self.scanner.error_at(place, why))
    }

    /// Takes the numbers in parentheses after a function: at least `least`, at most `most`.
    fn numbers(&mut self, function: &Function, least: usize, most: usize) -> Result<Vec<i64>, ConfigError> {
        let name = function.names[0];
        self.scanner.expect(b'(', &format!("'(' after {name}"))?;
        let mut numbers = Vec::new();
        while !self.scanner.eat(b')')? {
            let usage = || format!("{name}({})", function.arguments);
            if numbers.len() == most {
                return Err(self.scanner.expected(&format!("')' as in {}", usage())));
            }
            if self.scanner.eat(b'(')? {
                numbers.push(expression(&mut self.scanner)?);
                self.scanner.expect(b')', "an operator or ')'")?;
            } else {
                numbers.push(self.scanner.number(&format!("a number as in {}", usage()))?);
            }
            let has_comma = self.scanner.eat(b',')?;
            if self.scanner.peek() == Some(b')') && (has_comma || numbers.len() < least) {
                return Err(self.scanner.expected(&format!("a number as in {}", usage())));
            }
        }
        if numbers.len() < least {
            let place = self.scanner.place() - 1;
            let arguments = function.arguments;
            return Err(self.scanner.error_at(place, format!("expected {name}({arguments})")));
        }
        Ok(numbers)
    }

    fn function(
        &mut self,
        builder: &mut PacketBuilder,
        function: &Function,
        place: usize,
    ) -> Result<(), ConfigError> {
        let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        let done = match function.act {
            Act::Fill => {
                let numbers = self.numbers(function, 2, 2)?;
                builder.fill(numbers[0] as u8, count(numbers[1]))
            }
            Act::Random => {
                let len = count(self.numbers(function, 0, 1)?.first().copied().unwrap_or(1));
                builder.grow(len).and_then(|()| {
                    let bytes: Vec<u8> = (0..len).map(|_| self.rng.next_u32() as u8).collect();
                    builder.extend(&bytes)
                })
            }
            Act::RandomPerFrame => {
                let len = count(self.numbers(function, 0, 1)?.first().copied().unwrap_or(1));
                builder.random_per_frame(len)
            }
            Act::Sequence { is_up } => {
                let numbers = self.numbers(function, 2, 3)?;
                let (start, len) = (numbers[0] as u8, count(numbers[1]));
                let step = numbers.get(2).map_or(1, |step| *step as u8);
                let step = if is_up { step } else { step.wrapping_neg() };
                builder.grow(len).and_then(|()| {
                    let byte = |index: usize| start.wrapping_add(step.wrapping_mul(index as u8));
                    builder.extend(&(0..len).map(byte).collect::<Vec<u8>>())
                })
            }
            Act::Counter { is_up } => {
                let numbers = self.numbers(function, 2, 3)?;
                let step = numbers.get(2).map_or(1, |step| *step as u8);
                value::counter(numbers[0] as u8, numbers[1] as u8, step, is_up)
                    .and_then(|mode| builder.moving_byte(mode))
            }
            Act::Constant { width } => {
                self.scanner.expect(b'(', &format!("'(' after {}", function.names[0]))?;
                let value = expression(&mut self.scanner)?;
                self.scanner.expect(b')', "an operator or ')'")?;
                builder.extend(&value.to_be_bytes()[8 - width..])
            }
            Act::Checksum(covered) => {
                let numbers = self.numbers(function, 2, 2)?;
                let (from, to) = (count(numbers[0].min(numbers[1])), count(numbers[0].max(numbers[1])));
                match covered {
                    _ if from == to => Err(format!("both offsets are {from}")),
                    Covered::Range => builder.range_checksum(from, to, place),
                    Covered::Transport { protocol, is_v6 } => {
                        builder.transport_checksum(from, to, protocol, is_v6, place)
                    }
                }
            }
            Act::Hex => {
                let text = self.quoted(function)?;
                self.scanner.expect(b')', "')'")?;
                let start = builder.len();
                hex(&text).and_then(|bytes| builder.extend(&bytes)).map(|()| builder.is_raw_from(start))
            }
            Act::Raw => {
                self.scanner.expect(b'(', "'(' after raw")?;
                let start = builder.len();
                while !self.scanner.eat(b')')? {
                    if self.scanner.peek().is_none() {
                        return Err(self.scanner.error_at(place, "this raw(...) has no end: expected ')'"));
                    }
                    self.raw_element(builder)?;
                    self.scanner.eat(b',')?;
                }
                builder.is_raw_from(start);
                Ok(())
            }
            Act::Capture => {
                let file = self.quoted(function)?;
                self.scanner.expect(b',', "',' and the number of a frame")?;
                let number = self.scanner.number("the number of a frame")?;
                self.scanner.expect(b')', "')'")?;
                self.captures
                    .frame(&String::from_utf8_lossy(&file), number as u64)
                    .and_then(|bytes| builder.extend(&bytes))
            }
        };
        done.map_err(|why| self.scanner.error_at(place, why))
    }

    /// Takes the '(' of a function and the string behind it.
    fn quoted(&mut self, function: &Function) -> Result<Vec<u8>, ConfigError> {
        self.scanner.expect(b'(', &format!("'(' after {}", function.names[0]))?;
        self.scanner.skip_blanks()?;
        self.scanner.string()
    }

    fn header(
        &mut self,
        builder: &mut PacketBuilder,
        protocol: &'static Protocol,
        place: usize,
    ) -> Result<(), ConfigError> {
        let mut header = Header::new(protocol);
        let (mut records, mut parts) = (Vec::new(), Vec::new());
        self.scanner.expect(b'(', &format!("'(' after {}", protocol.names[0]))?;
        while !self.scanner.eat(b')')? {
            self.argument(&mut header, &mut records, &mut parts)?;
            self.scanner.eat(b',')?;
        }
        let applied = header.write(builder).and_then(|()| {
            if protocol.id == Id::Dns {
                dns::append(builder, &records)
            } else {
                parts::append(builder, protocol, &parts)
            }
        });
        applied.map_err(|why| self.scanner.error_at(place, why))
    }

    /// Takes one argument of a protocol: a word, a field and its value, or a record of DNS.
    fn argument(
        &mut self,
        header: &mut Header,
        records: &mut Vec<ResourceRecord>,
        parts: &mut Vec<Part>,
    ) -> Result<(), ConfigError> {
        let protocol = header.protocol;
        let mut name = self.scanner.peek_word()?;
        if name.is_empty() {
            return Err(self.scanner.expected(&format!("a field of {} or ')'", protocol.names[0])));
        }
        let place = self.scanner.place();
        self.scanner.word()?;
        if let Some(section) = dns::SECTIONS.iter().position(|(of, _)| protocol.id == Id::Dns && *of == name)
        {
            records.push(dns::record(&mut self.scanner, section)?);
            return Ok(());
        }
        if let Some(kind) = PartKind::named(protocol.id, &name) {
            parts.push(parts::part(&mut self.scanner, kind)?);
            return Ok(());
        }
        if self.scanner.eat(b'(')? {
            let index = self.scanner.number("a number")?;
            self.scanner.expect(b')', "')'")?;
            name = format!("{name}({index})");
        }
        self.scanner.skip_blanks()?;
        let has_value = matches!(self.scanner.peek(), Some(b'=' | b'['));
        if !has_value && let Some(word) = protocol.words.iter().find(|word| word.names.contains(&&*name)) {
            header.give_word(word);
            return Ok(());
        }
        let field = protocol.fields.iter().position(|field| field.names.contains(&&*name));
        let field = field.ok_or_else(|| self.scanner.error_at(place, unknown_field(protocol, &name)))?;
        let row = &protocol.fields[field];
        if !has_value && row.is_flag {
            header.give(field, None, Value::Number(1));
            return Ok(());
        }
        let part = if self.scanner.eat(b'[')? { Some(self.part(row.width)?) } else { None };
        self.scanner.expect(b'=', &format!("'=' after {name}"))?;
        let kind = if part.is_some() { ValueKind::Number } else { row.kind };
        header.give(field, part, value::value(&mut self.scanner, kind, row.values)?);
        Ok(())
    }

    /// Takes `index]` or `index:len]`.
    fn part(&mut self, width: usize) -> Result<(usize, usize), ConfigError> {
        self.scanner.skip_blanks()?;
        let place = self.scanner.place();
        let index = self.scanner.number("the index of a byte")?;
        let index = usize::try_from(index).ok().filter(|index| *index < width);
        let last = width - 1;
        let index = index.ok_or_else(|| {
            self.scanner.error_at(place, format!("expected the index of a byte of this field, 0 to {last}"))
        })?;
        let mut len = 1;
        if self.scanner.eat(b':')? {
            self.scanner.skip_blanks()?;
            let place = self.scanner.place();
            len = self.scanner.number(PART_LENS)?;
            if ![1, 2, 4, 8].contains(&len) {
                return Err(self.scanner.error_at(place, format!("expected {PART_LENS}")));
            }
        }
        self.scanner.expect(b']', "']' or ':'")?;
        Ok((index, len as usize))
    }
}

fn unknown_function(name: &str) -> String {
    let functions = FUNCTIONS.iter().map(|function| function.names[0]);
    let protocols = PROTOCOLS.iter().map(|protocol| protocol.names[0]);
    let all: Vec<&str> = functions.chain(protocols).collect();
    format!("there is no function '{name}'; expected one of {}", all.join(", "))
}

fn unknown_field(protocol: &Protocol, name: &str) -> String {
    let fields = protocol.fields.iter().map(|field| field.names[0]);
    let words = protocol.words.iter().map(|word| word.names[0]);
    let records = dns::SECTIONS.iter().map(|(name, _)| *name).filter(|_| protocol.id == Id::Dns);
    let parts = PARTS.iter().filter(|kind| kind.of == protocol.id).map(|kind| kind.name);
    let all: Vec<&str> = fields.chain(words).chain(records).chain(parts).collect();
    format!("{} has no field '{name}'; expected one of {}", protocol.names[0], all.join(", "))
}
