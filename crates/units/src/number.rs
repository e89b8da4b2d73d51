//! Whole numbers: `46`, `0x2e`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

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

/// A parser of whole numbers of a range, for a value of an option or of a member.
pub fn within<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + fmt::Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("{text} is not from {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_range() {
        let parse = within::<i32>(1..=17);
        assert_eq!((parse("1"), parse("17")), (Ok(1), Ok(17)));
        for text in ["0", "18", "-3", "2.5", "", "many"] {
            assert_eq!(parse(text), Err(format!("{text} is not from 1 to 17")));
        }
    }

    #[test]
    fn digits_only_and_within_the_type() {
        assert_eq!((number("255"), number("0xff"), decimal("007")), (Some(255_u8), Some(255_u8), Some(7_u8)));
        for text in ["", "256", "0x100", "+5", "-5", "0x+5", "0x", "5 ", "1_0", "0xg"] {
            assert_eq!(number::<u8>(text), None, "{text}");
        }
        assert_eq!(decimal::<u8>("0x5"), None);
    }
}
