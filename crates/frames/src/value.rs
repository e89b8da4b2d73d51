//! Values of fields: numbers, addresses, and functions that change them from frame to frame.

use crate::builder::{PacketBuilder, Spot};
use crate::error::ConfigError;
use crate::protocols::ValueKind;
use crate::scan::{self, Scanner};
use packet::MacAddr;
use packet::plan::FieldMode;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes that a field function changes in a field longer than this: its last ones, as in trafgen.
const MOVING_WIDTH_MAX: usize = 4;
/// Bytes of the largest field of the intermediate form.
const FIELD_WIDTH_MAX: usize = 8;
/// The largest random value of a four-byte field without a range: trafgen draws 31 bits.
const RANDOM_MAX: u64 = 0x7fff_ffff;
/// The greatest number of trafgen's functions.
const NARROW_MAX: u64 = u32::MAX as u64;
/// Values that a counter of trafgen wraps at if it has no range.
const COUNTER_VALUES: u64 = 1 << 32;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number; bits that the field has not are cut off.
    Number(u64),
    /// An address, as many bytes as the field has.
    Address(Vec<u8>),
    /// Another one in each frame.
    Moving(Motion),
}

/// First and last value.
type ValueRange = (u64, u64);

/// How a field changes from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Motion {
    /// `dinc()` and `ddec()`.
    Count {
        /// It goes up.
        is_up: bool,
        /// First and last value; without it, from the value of the field.
        range: Option<ValueRange>,
        /// What is added in each frame.
        step: u32,
    },
    /// `drnd()`.
    Random {
        /// Least and greatest value.
        range: Option<ValueRange>,
    },
    /// `values()`.
    List(Vec<u128>),
    /// `entropy()`.
    Entropy,
    /// `hold()`.
    Held {
        /// Frames in a row that have one value.
        frames: u32,
        /// How the values change.
        motion: Box<Motion>,
    },
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<MacAddr> for Value {
    fn from(address: MacAddr) -> Self {
        Self::Address(address.0.to_vec())
    }
}

impl From<IpAddr> for Value {
    fn from(address: IpAddr) -> Self {
        Self::Address(match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        })
    }
}

impl From<Motion> for Value {
    fn from(motion: Motion) -> Self {
        Self::Moving(motion)
    }
}

/// The functions of fields, each with its arguments and what the field does.
pub static FIELD_FUNCTIONS: &[(&str, &str, &str)] = &[
    ("dinc", "[[MIN, MAX, ]STEP]", "goes up by STEP (1); from MIN to MAX, or from the value of the field"),
    ("ddec", "[MIN, MAX[, STEP]]", "goes down by STEP (1); from MAX to MIN, or from the value of the field"),
    ("drnd", "[MIN, MAX]", "random"),
    ("values", "A, B, ...", "the list in order, again and again"),
    ("hold", "N, FUNCTION", "the values of one of the functions above, each in N frames in a row"),
    ("entropy", "", "a port from 49152 to 65535, by the addresses and ports of the headers after it"),
];

/// What a field of that kind takes, for errors.
fn expectation(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Number => "a number or a function (dinc, ddec, drnd, values)",
        ValueKind::Mac => "a MAC address (02:00:00:00:00:01) or a function (dinc, ddec, drnd, values)",
        ValueKind::Ip4 => "an IPv4 address (192.0.2.1) or a function (dinc, ddec, drnd, values)",
        ValueKind::Ip6 => "an IPv6 address (2001:db8::1) or a function (dinc, ddec, drnd, values)",
    }
}

/// Takes the value of a field.
pub(crate) fn value(
    scanner: &mut Scanner<'_>,
    kind: ValueKind,
    words: &[(&str, u64)],
) -> Result<Value, ConfigError> {
    let word = scanner.peek_word()?;
    if let Some((_, number)) = words.iter().find(|(name, _)| *name == word) {
        scanner.word()?;
        return Ok(Value::Number(*number));
    }
    if FIELD_FUNCTIONS.iter().any(|(name, ..)| *name == word) {
        return function(scanner, kind, &word).map(Value::Moving);
    }
    plain(scanner, kind)
}

/// Takes a number or an address.
fn plain(scanner: &mut Scanner<'_>, kind: ValueKind) -> Result<Value, ConfigError> {
    scanner.skip_blanks()?;
    let mut ahead = scanner.clone();
    let text = ahead.address()?;
    let address = match kind {
        ValueKind::Mac => mac(text).map(|bytes| bytes.to_vec()),
        ValueKind::Ip4 => text.parse::<Ipv4Addr>().ok().map(|address| address.octets().to_vec()),
        ValueKind::Ip6 => text.parse::<Ipv6Addr>().ok().map(|address| address.octets().to_vec()),
        ValueKind::Number => None,
    };
    if let Some(address) = address {
        *scanner = ahead;
        return Ok(Value::Address(address));
    }
    match kind {
        ValueKind::Number | ValueKind::Ip4
            if scanner.peek() == Some(b'\'') || scan::number(text.as_bytes()).is_some() =>
        {
            Ok(Value::Number(scanner.number(expectation(kind))? as u64))
        }
        _ if text.is_empty() => Err(scanner.expected(expectation(kind))),
        _ => Err(scanner.error_at(
            scanner.place(),
            format!("expected {}, found '{}'", expectation(kind), text.get(..40).unwrap_or(text)),
        )),
    }
}

/// Six groups of one or two hexadecimal digits.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut groups = text.split(':');
    for byte in &mut bytes {
        let group = groups.next().filter(|group| (1..=2).contains(&group.len()))?;
        *byte = u8::from_str_radix(group, 16).ok().filter(|_| !group.starts_with('+'))?;
    }
    groups.next().is_none().then_some(bytes)
}

fn function(scanner: &mut Scanner<'_>, kind: ValueKind, name: &str) -> Result<Motion, ConfigError> {
    scanner.word()?;
    let place = scanner.place();
    scanner.expect(b'(', &format!("'(' after {name}"))?;
    match name {
        "values" => return list(scanner, kind),
        "hold" => return held(scanner, kind),
        _ => {}
    }
    let mut arguments = Vec::new();
    while !scanner.eat(b')')? {
        arguments.push(scanner.number("a number or ')'")? as u64);
        if !scanner.eat(b',')? && scanner.peek() != Some(b')') && arguments.len() == 3 {
            return Err(scanner.expected("')'"));
        }
    }
    let (range, step) = match (name, &arguments[..]) {
        ("entropy", []) if kind == ValueKind::Number => return Ok(Motion::Entropy),
        ("entropy", _) => return Err(scanner.error_at(place, "expected entropy() for a number")),
        (_, []) => (None, 1),
        ("dinc" | "ddec", [step]) => (None, *step as u32),
        (_, [min, max]) => (Some((*min, *max)), 1),
        ("dinc" | "ddec", [min, max, step]) => (Some((*min, *max)), *step as u32),
        _ => {
            let (_, usage, _) = FIELD_FUNCTIONS.iter().find(|(of, ..)| *of == name).expect("it has a row");
            return Err(scanner.error_at(place, format!("expected {name}({usage})")));
        }
    };
    // What greater numbers mean depends on the field.
    let known = range.filter(|(min, max)| *min.max(max) <= NARROW_MAX);
    known.map_or(Ok(()), check_range).map_err(|why| scanner.error_at(place, why))?;
    Ok(match name {
        "drnd" => Motion::Random { range },
        _ => Motion::Count { is_up: name == "dinc", range, step },
    })
}

fn held(scanner: &mut Scanner<'_>, kind: ValueKind) -> Result<Motion, ConfigError> {
    const FRAMES: &str = "a number of frames, 1 to 4294967295";
    scanner.skip_blanks()?;
    let place = scanner.place();
    let frames = u32::try_from(scanner.number(FRAMES)?).ok().filter(|frames| *frames > 0);
    let frames = frames.ok_or_else(|| scanner.error_at(place, format!("expected {FRAMES}")))?;
    scanner.expect(b',', "',' after the number of frames")?;
    scanner.skip_blanks()?;
    let (place, name) = (scanner.place(), scanner.peek_word()?);
    if !["dinc", "ddec", "drnd", "values"].contains(&&*name) {
        return Err(scanner.error_at(place, "expected dinc(), ddec(), drnd() or values()"));
    }
    let motion = Box::new(function(scanner, kind, &name)?);
    scanner.expect(b')', "')' after the function")?;
    Ok(Motion::Held { frames, motion })
}

fn list(scanner: &mut Scanner<'_>, kind: ValueKind) -> Result<Motion, ConfigError> {
    let mut values = Vec::new();
    while !scanner.eat(b')')? {
        values.push(match plain(scanner, kind)? {
            Value::Number(number) => u128::from(number),
            Value::Address(bytes) => bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)),
            Value::Moving(_) => unreachable!("a plain value does not move"),
        });
        if !scanner.eat(b',')? && scanner.peek() != Some(b')') {
            return Err(scanner.expected("',' or ')'"));
        }
    }
    if values.is_empty() {
        return Err(scanner.error_at(scanner.place() - 1, "expected at least one value"));
    }
    Ok(Motion::List(values))
}

/// Lets a field move.
///
/// # Errors
/// A range that is none.
pub(crate) fn apply_motion(builder: &mut PacketBuilder, spot: Spot, motion: Motion) -> Result<(), String> {
    match motion {
        Motion::Count { is_up: true, range, step } => {
            let (last, range) = moving_bytes(spot, range)?;
            let (min, max) = range.unwrap_or_default();
            // trafgen takes a MAX of 0 as none. It then skips the last of 2^32 values.
            let (max, wrap) =
                if max == 0 { (COUNTER_VALUES - 2, COUNTER_VALUES) } else { (max, max.wrapping_add(1)) };
            let first = if range.is_some() { min } else { builder.read_number(last) };
            let step = remainder(step, wrap);
            builder.move_spot(last, FieldMode::Increment { first, min, max, step, wrap });
        }
        Motion::Count { is_up: false, range, step } => {
            let (last, range) = moving_bytes(spot, range)?;
            let bits = width_mask(last) >> last.shift;
            let (min, max) = range.filter(|(_, max)| *max != 0).unwrap_or((0, bits));
            let first = if range.is_some() { max } else { builder.read_number(last) };
            let step = remainder(step, (max - min).wrapping_add(1));
            builder.move_spot(last, FieldMode::Decrement { first, min, max, step });
        }
        Motion::Held { frames, motion } => {
            let before = builder.field_count();
            apply_motion(builder, spot, *motion)?;
            builder.hold_fields(before, frames);
        }
        Motion::Entropy => builder.move_spot(spot, FieldMode::Entropy { keys: [].into() }),
        Motion::Random { range } => apply_random(builder, spot, range)?,
        Motion::List(values) => {
            for (chunk, below) in chunks(spot) {
                let mask = width_mask(chunk);
                let values = values.iter().map(|value| (value >> (8 * below)) as u64 & mask).collect();
                builder.move_spot(chunk, FieldMode::Values { values, repeat_from: 0 });
            }
        }
    }
    Ok(())
}

fn apply_random(builder: &mut PacketBuilder, spot: Spot, range: Option<ValueRange>) -> Result<(), String> {
    let (last, range) = moving_bytes(spot, range)?;
    if let Some((min, max)) = range.filter(|(_, max)| *max != 0) {
        let mode = FieldMode::Random { min, max };
        if max > NARROW_MAX {
            builder.move_spot(last, mode);
            return Ok(());
        }
        // trafgen draws each byte of a long field alone.
        let is_long = spot.width > MOVING_WIDTH_MAX;
        let width = if is_long { 1 } else { spot.width };
        for offset in (spot.offset..spot.offset + spot.width).step_by(width) {
            builder.move_spot(Spot { offset, width, ..spot }, mode.clone());
        }
        return Ok(());
    }
    for (chunk, _) in chunks(spot) {
        let all = width_mask(chunk) >> chunk.shift;
        let max = if chunk.width == 4 { all.min(RANDOM_MAX) } else { all };
        let max = if spot.width > MOVING_WIDTH_MAX { all } else { max };
        builder.move_spot(chunk, FieldMode::Random { min: 0, max });
    }
    Ok(())
}

/// The values of `dinc()` and `ddec()` in a packet. trafgen counts in one byte and steps before the
/// first frame.
pub(crate) fn counter(min: u8, max: u8, step: u8, is_up: bool) -> Result<FieldMode, String> {
    let size = i32::from(max) - i32::from(min) + 1;
    if size == 0 {
        return Err(format!("MIN ({min}) must not be MAX + 1"));
    }
    let step = if is_up { i32::from(step) } else { -i32::from(step) };
    let mut value = if is_up { min } else { max };
    let mut seen = [None; 256];
    let mut values = Vec::new();
    loop {
        let next = (i32::from(value.wrapping_sub(min)) + step) % size;
        value = (next as u8).wrapping_add(min);
        if let Some(repeat_from) = seen[usize::from(value)] {
            return Ok(compact(values, repeat_from));
        }
        seen[usize::from(value)] = Some(values.len());
        values.push(u64::from(value));
    }
}

/// A list of consecutive values as a counter, any other list as it is.
fn compact(values: Vec<u64>, repeat_from: usize) -> FieldMode {
    let (Some(min), Some(max)) = (values.iter().copied().min(), values.iter().copied().max()) else {
        return FieldMode::Values { values: values.into(), repeat_from };
    };
    let wrap = max - min + 1;
    let is_consecutive = values.iter().zip(values.iter().cycle().skip(1)).all(|(value, next)| {
        let counted = if *value == max { min } else { value + 1 };
        counted == *next
    });
    if is_consecutive && repeat_from == 0 {
        FieldMode::Increment { first: values[0], min, max, step: 1, wrap }
    } else {
        FieldMode::Values { values: values.into(), repeat_from }
    }
}

/// All bits of a field, or those of its mask.
fn width_mask(spot: Spot) -> u64 {
    let all = u64::MAX >> (64 - 8 * spot.width);
    if spot.mask == 0 { all } else { spot.mask & all }
}

/// The last bytes of a long field, which are those that move: as in trafgen four, unless the range
/// has greater numbers and the field has more bytes. Numbers of narrow fields have 32 bits.
///
/// # Errors
/// A range that is none.
fn moving_bytes(spot: Spot, range: Option<ValueRange>) -> Result<(Spot, Option<ValueRange>), String> {
    let is_wide = spot.width > MOVING_WIDTH_MAX && range.is_some_and(|(_, max)| max > NARROW_MAX);
    let width = spot.width.min(if is_wide { FIELD_WIDTH_MAX } else { MOVING_WIDTH_MAX });
    let cut = |number: u64| if is_wide { number } else { number & NARROW_MAX };
    let last = Spot { offset: spot.offset + spot.width - width, width, ..spot };
    let range = range.map(|(min, max)| (cut(min), cut(max)));
    range.map_or(Ok(()), check_range).map(|()| (last, range))
}

fn check_range((min, max): ValueRange) -> Result<(), String> {
    match min != 0 && min >= max {
        true => Err(format!("MIN ({min}) must be less than MAX ({max})")),
        false => Ok(()),
    }
}

/// A step below the number of values; 0 of them stand for 2^64.
fn remainder(step: u32, values: u64) -> u64 {
    u64::from(step).checked_rem(values).unwrap_or(step.into())
}

/// A field in parts that fit, each with the bytes behind it.
fn chunks(spot: Spot) -> impl Iterator<Item = (Spot, usize)> {
    (0..spot.width).step_by(FIELD_WIDTH_MAX).map(move |start| {
        let width = (spot.width - start).min(FIELD_WIDTH_MAX);
        (Spot { offset: spot.offset + start, width, ..spot }, spot.width - start - width)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoCaptures, ParseSettings};
    use packet::plan::{FrameSpec, PacketOrder};
    use packet::{Cursor, Plan};

    fn parsed(text: &str) -> Result<Vec<FrameSpec>, ConfigError> {
        crate::parse(text.as_bytes(), &ParseSettings::default(), &mut NoCaptures)
    }

    /// Bytes `at` of the first frames of a packet.
    fn bytes_of(text: &str, at: std::ops::Range<usize>, count: usize) -> Vec<Vec<u8>> {
        let specs = parsed(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let plan = Plan::of_specs(&specs, PacketOrder::RoundRobin);
        let mut cursor = Cursor { rng: packet::Rng(7), ..plan.start() };
        let mut frame = vec![0; plan.frame_len_max() as usize];
        let mut next = || {
            plan.emit(&mut cursor, 0, &mut frame);
            frame[at.clone()].to_vec()
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn numbers_of_more_than_32_bits_move_up_to_eight_bytes() {
        let counted = bytes_of("{ ipv6(da=fd00::, da[8:8]=dinc(0xfffffffe, 0x100000001)) }", 24..40, 5);
        let value = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let low: Vec<u64> = counted.iter().map(|bytes| value(&bytes[bytes.len() - 8..])).collect();
        assert_eq!(low, [0xffff_fffe, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001, 0xffff_fffe]);
        let macs = bytes_of("{ eth(da=ddec(0x20000000000, 0x20100000000, 0x80000000)) }", 0..6, 3);
        assert_eq!(macs[..2], [[2, 1, 0, 0, 0, 0], [2, 0, 0x80, 0, 0, 0]], "{macs:?}");
        let drawn = bytes_of("{ ipv6(da[8:8]=drnd(0, 0xffffffffffffffff)) }", 32..40, 20);
        assert!(drawn.iter().any(|bytes| bytes[0] >= 0x80) && drawn.iter().any(|bytes| bytes[0] < 0x80));
        let all = bytes_of("{ ipv6(da[8:8]=dinc(0, 0xffffffffffffffff, 3)) }", 39..40, 3);
        assert_eq!(all, [[0], [3], [6]]);
    }

    /// As in trafgen, a field of four bytes or less takes the low 32 bits.
    #[test]
    fn greater_numbers_of_narrow_fields_are_cut() {
        assert_eq!(bytes_of("{ ipv4(da=dinc(0x100000001, 0x100000002)) }", 33..34, 3), [[1], [2], [1]]);
        for text in ["{ ipv4(da=drnd(5, 0x100000002)) }", "{ ipv6(da[8:8]=drnd(0x300000000, 0x200000000)) }"]
        {
            let why = parsed(text).expect_err(text).to_string();
            assert!(why.contains("must be less than MAX"), "{text}: {why}");
        }
    }

    #[test]
    fn mac_groups_have_one_or_two_digits() {
        assert_eq!(mac("1:2:3:4:5:ff"), Some([1, 2, 3, 4, 5, 255]));
        for bad in ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "aabb:1:2:3:4:5", "1:2:3:4:5:+6", "1:2:3:4:5:g"] {
            assert_eq!(mac(bad), None, "{bad}");
        }
    }

    #[test]
    fn kinds_take_their_own_values() {
        let value = |kind, text: &str| value(&mut Scanner::new(text.as_bytes()), kind, &[("reply", 2)]);
        assert_eq!(value(ValueKind::Number, "reply"), Ok(Value::Number(2)));
        assert_eq!(value(ValueKind::Number, "'a'"), Ok(Value::Number(97)));
        assert_eq!(value(ValueKind::Ip4, "5"), Ok(Value::Number(5)));
        assert_eq!(value(ValueKind::Ip4, "1.2.3.4"), Ok(Value::Address(vec![1, 2, 3, 4])));
        for (kind, text) in [
            (ValueKind::Number, "1.2.3.4"),
            (ValueKind::Mac, "5"),
            (ValueKind::Ip6, "1::2::3"),
            (ValueKind::Ip4, "300.1.2.3"),
            (ValueKind::Number, "dinc(5,5)"),
            (ValueKind::Number, "drnd(5)"),
            (ValueKind::Number, "dinc(1,2,3,4)"),
            (ValueKind::Number, "values()"),
            (ValueKind::Number, "hold(0, dinc())"),
            (ValueKind::Number, "hold(4294967296, dinc())"),
            (ValueKind::Number, "hold(3)"),
            (ValueKind::Number, "hold(3, 7)"),
            (ValueKind::Number, "hold(3, dinc()"),
            (ValueKind::Number, "hold(3, entropy())"),
            (ValueKind::Number, "hold(3, hold(3, dinc()))"),
        ] {
            assert!(value(kind, text).is_err(), "{text}");
        }
    }
}
