//! Reading bytes as the kernel reads them: separators, words, and digits up to a width.
//!
//! NUL is not a separator, but it ends a word when words are compared ([`until_nul`]).
//! Specification section 2.

use crate::{Fault, Refusal};
use std::ops::Range;

/// The bytes between words. Not comma, colon, NUL or vertical tab.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b'"' | b'\n' | b'\r' | b'\t' | b' ' | b'=')
}

/// A place in the bytes of one write.
#[derive(Clone, Debug)]
pub(crate) struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The command word of a write, up to a NUL, and its place; what follows is its value.
    ///
    /// # Errors
    /// [`Fault::Empty`].
    pub(crate) fn command_word(
        bytes: &'a [u8],
        len_max: usize,
    ) -> Result<(Self, &'a [u8], Range<usize>), Refusal> {
        if bytes.is_empty() {
            return Err(Refusal { fault: Fault::Empty, span: 0..0 });
        }
        let mut scan = Self::new(bytes);
        scan.skip_separators();
        let start = scan.at();
        let word = until_nul(scan.word(len_max));
        scan.skip_separators();
        Ok((scan, word, start..start + word.len()))
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn skip_separators(&mut self) {
        self.take_while(usize::MAX, is_separator);
    }

    /// The bytes up to the next separator, `len_max` at most.
    pub(crate) fn word(&mut self, len_max: usize) -> &'a [u8] {
        self.take_while(len_max, |byte| !is_separator(byte))
    }

    /// Up to `digits_max` decimal digits and their value; no digit is 0. Wraps beyond 64 bits.
    pub(crate) fn decimal(&mut self, digits_max: usize) -> (u64, &'a [u8]) {
        let digits = self.take_while(digits_max, |byte| byte.is_ascii_digit());
        (
            digits
                .iter()
                .fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))),
            digits,
        )
    }

    /// Up to `digits_max` hexadecimal digits (16 at most) and their value.
    pub(crate) fn hexadecimal(&mut self, digits_max: usize) -> (u64, &'a [u8]) {
        let digits = self.take_while(digits_max.min(16), |byte| byte.is_ascii_hexdigit());
        let value = |digit: u8| u64::from(char::from(digit).to_digit(16).unwrap_or(0));
        (digits.iter().fold(0, |sum, digit| sum << 4 | value(*digit)), digits)
    }

    /// The next byte, whatever it is.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take_while(usize::MAX, |_| true)
    }

    fn take_while(&mut self, len_max: usize, accepts: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().take(len_max).take_while(|byte| accepts(**byte)).count();
        self.at += len;
        &rest[..len]
    }
}

/// What a C string function sees of `bytes`.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_six_bytes_separate() {
        let separators: Vec<u8> = (0..=255).filter(|byte| is_separator(*byte)).collect();
        assert_eq!(separators, b"\t\n\r \"=");
    }

    #[test]
    fn words_are_cut_at_the_limit_and_the_rest_is_the_value() {
        let mut scan = Scan::new(b" =max_before_softirq 5");
        scan.skip_separators();
        assert_eq!(scan.word(15), b"max_before_soft");
        scan.skip_separators();
        assert_eq!(scan.word(31), b"irq");
        assert_eq!(scan.at(), 20);
    }

    #[test]
    fn numbers_end_at_the_first_other_byte_or_at_their_width() {
        assert_eq!(Scan::new(b"12abc").decimal(10), (12, &b"12"[..]));
        assert_eq!(Scan::new(b"99999999999").decimal(10).0, 9_999_999_999);
        assert_eq!(Scan::new(b"-5").decimal(10), (0, &b""[..]));
        assert_eq!(Scan::new(b"").decimal(10), (0, &b""[..]));
        assert_eq!(Scan::new(b"fFg").hexadecimal(8), (0xff, &b"fF"[..]));
        assert_eq!(Scan::new(b"123456789").hexadecimal(8).0, 0x1234_5678);
    }

    #[test]
    fn nul_ends_a_word_for_comparison_only() {
        let mut scan = Scan::new(b"count\0x 5");
        assert_eq!(until_nul(scan.word(15)), b"count");
        assert_eq!(scan.rest(), b" 5");
        assert!(scan.is_at_end() && scan.byte().is_none());
    }
}
