//! Options: the typed values at the end of most blocks.
//!
//! An option whose value does not fit its type (a flag word of three bytes, a comment that is not
//! UTF-8) does not make a file invalid: it is kept as a [`RawOption`] among the unknown options.

use crate::body::Body;
use crate::{ByteOrder, ReadError, frame};

pub(crate) const END: u16 = 0;
pub(crate) const COMMENT: u16 = 1;

/// Options of some company's own: text or bytes behind its enterprise number, to be copied or not.
const CUSTOM: [u16; 4] = [2988, 2989, 19372, 19373];

/// The longest value of an option: its length is a 16-bit number.
pub(crate) const VALUE_LEN_MAX: usize = u16::MAX as usize;

/// An option kept as it is: of a code without a field here, or a second one where a field holds
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RawOption {
    /// What it is; its meaning depends on the block. Zero would end the options and must not be
    /// used.
    pub code: u16,
    /// The value without padding, at most 65,535 bytes. Numbers of interfaces and the enterprise
    /// number of a custom option are little-endian, others have the byte order of the section.
    pub value: Vec<u8>,
}

impl RawOption {
    /// True for an option of some company's own that other programs should not copy into files
    /// made from this one.
    #[must_use]
    pub fn may_not_copy(&self) -> bool {
        CUSTOM[2..].contains(&self.code)
    }

    /// Swaps the first `len` bytes of its value between little-endian order and `order`.
    pub(crate) fn swap_number(&mut self, order: ByteOrder, len: usize) {
        if order == ByteOrder::Big
            && let Some(number) = self.value.get_mut(..len)
        {
            number.reverse();
        }
    }

    /// Swaps the enterprise number of a custom option between little-endian order and `order`.
    fn swap_enterprise(&mut self, order: ByteOrder) {
        if CUSTOM.contains(&self.code) {
            self.swap_number(order, 4);
        }
    }
}

/// Appends options to a block and ends them.
pub(crate) struct Emitter<'a> {
    out: &'a mut Vec<u8>,
    pub(crate) order: ByteOrder,
    start: usize,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(order: ByteOrder, out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, order, start }
    }

    /// # Panics
    /// When the code is zero or the value longer than 65,535 bytes.
    pub(crate) fn bytes(&mut self, code: u16, value: &[u8]) {
        assert!(code != END, "option code 0 ends the options and carries no value");
        let len = u16::try_from(value.len()).expect("the value of an option has at most 65,535 bytes");
        self.out.extend_from_slice(&self.order.emit_u16(code));
        self.out.extend_from_slice(&self.order.emit_u16(len));
        self.out.extend_from_slice(value);
        frame::pad(self.out, self.start);
    }

    /// A text, cut at a character's border to what an option can hold.
    pub(crate) fn text(&mut self, code: u16, value: Option<&str>) {
        if let Some(text) = value {
            self.bytes(code, &text.as_bytes()[..text.floor_char_boundary(VALUE_LEN_MAX)]);
        }
    }

    pub(crate) fn number_u64(&mut self, code: u16, value: Option<u64>) {
        if let Some(number) = value {
            self.bytes(code, &self.order.emit_u64(number));
        }
    }

    pub(crate) fn number_u32(&mut self, code: u16, value: Option<u32>) {
        if let Some(number) = value {
            self.bytes(code, &self.order.emit_u32(number));
        }
    }

    pub(crate) fn time(&mut self, code: u16, units: Option<u64>) {
        if let Some(units) = units {
            self.bytes(code, &self.order.emit_time(units));
        }
    }

    pub(crate) fn raw(&mut self, options: &[RawOption]) {
        for option in options {
            let mut option = option.clone();
            option.swap_enterprise(self.order);
            self.bytes(option.code, &option.value);
        }
    }

    /// Writes the end marker, unless there was no option at all.
    pub(crate) fn end(self) {
        if self.out.len() > self.start {
            self.out.extend_from_slice(&[0; 4]);
        }
    }
}

/// Calls `take` with each option; what it does not take is kept in `other`.
pub(crate) fn parse<'a>(
    mut body: Body<'a>,
    other: &mut Vec<RawOption>,
    mut take: impl FnMut(&RawValue<'a>) -> bool,
) -> Result<(), ReadError> {
    while !body.is_empty() {
        let code = body.u16("an option's code")?;
        let len = usize::from(body.u16("an option's length")?);
        if code == END {
            break;
        }
        let option = RawValue { order: body.order, code, value: body.take("an option's value", len)? };
        // The last option's padding is sometimes missing; what matters is that the next one begins
        // after it.
        body.skip(frame::pad_len(len));
        if !take(&option) {
            let mut option = RawOption { code, value: option.value.to_vec() };
            option.swap_enterprise(body.order);
            other.push(option);
        }
    }
    Ok(())
}

/// One option as it stands in the file.
pub(crate) struct RawValue<'a> {
    pub(crate) order: ByteOrder,
    pub(crate) code: u16,
    pub(crate) value: &'a [u8],
}

impl<'a> RawValue<'a> {
    pub(crate) fn text(&self) -> Option<&'a str> {
        str::from_utf8(self.value).ok()
    }

    pub(crate) fn string(&self) -> Option<String> {
        self.text().map(str::to_owned)
    }

    pub(crate) fn bytes<const N: usize>(&self) -> Option<[u8; N]> {
        self.value.try_into().ok()
    }

    pub(crate) fn number_u32(&self) -> Option<u32> {
        self.bytes().map(|bytes| self.order.parse_u32(bytes))
    }

    pub(crate) fn number_u64(&self) -> Option<u64> {
        self.bytes().map(|bytes| self.order.parse_u64(bytes))
    }

    pub(crate) fn time(&self) -> Option<u64> {
        self.bytes().map(|bytes| self.order.parse_time(bytes))
    }
}

/// Puts a value into an empty field; says whether it did. The first option of a code wins.
pub(crate) fn set<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    let is_first = field.is_none() && value.is_some();
    if is_first {
        *field = value;
    }
    is_first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_options_need_no_end() {
        let mut out = vec![0xee];
        Emitter::new(ByteOrder::Little, &mut out).end();
        assert_eq!(out, [0xee]);
    }

    #[test]
    fn a_text_too_long_is_cut_at_a_character() {
        let text = format!("{}é", "x".repeat(VALUE_LEN_MAX - 1));
        let mut out = Vec::new();
        Emitter::new(ByteOrder::Little, &mut out).text(COMMENT, Some(&text));
        assert_eq!(out[..4], [1, 0, 0xfe, 0xff]);
        assert_eq!(out.len(), 4 + VALUE_LEN_MAX + 1);
        assert_eq!(out[out.len() - 3..], [b'x', 0, 0]);
    }
}
