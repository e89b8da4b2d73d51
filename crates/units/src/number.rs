//! Whole numbers without a sign: `46`, `0x2e`.

/// A number in decimal digits; nothing for other texts, such as `+5`, and for numbers that are too
/// large for the type.
pub fn decimal<T: TryFrom<u64>>(text: &str) -> Option<T> {
    of_digits(text, 10)
}

/// A number in decimal digits, or in hexadecimal ones after `0x`.
pub fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    match text.strip_prefix("0x") {
        Some(digits) => of_digits(digits, 16),
        None => decimal(text),
    }
}

/// The standard library takes a sign before the digits.
fn of_digits<T: TryFrom<u64>>(digits: &str, radix: u32) -> Option<T> {
    let value = u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))?;
    T::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_only_and_within_the_type() {
        assert_eq!((number("255"), number("0xff"), decimal("007")), (Some(255_u8), Some(255_u8), Some(7_u8)));
        for text in ["", "256", "0x100", "+5", "-5", "0x+5", "0x", "5 ", "1_0", "0xg"] {
            assert_eq!(number::<u8>(text), None, "{text}");
        }
        assert_eq!(decimal::<u8>("0x5"), None);
    }
}
