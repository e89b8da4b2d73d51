//! Numbers for people to read: few digits, a fitting unit. All reports round here. Also text of
//! other programs, with the characters escaped that a terminal would interpret.

use std::borrow::Cow;

/// Units of one quantity, the smallest first: the factor to the one before, and the name.
pub(crate) type Units = [(f64, &'static str)];

/// `value` in the unit in which it is below 1000, also after rounding: 999.97 µs is 1.000 ms.
pub(crate) fn scaled(mut value: f64, units: &Units) -> String {
    const ROUNDS_UP: f64 = 999.95;
    let mut name = "";
    for (index, (factor, unit)) in units.iter().enumerate() {
        if index > 0 && value < ROUNDS_UP {
            break;
        }
        value /= factor;
        name = unit;
    }
    format!("{} {name}", digits(value))
}

/// At most four significant digits.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 999.95 => format!("{value:.0}"),
        v if v >= 99.995 => format!("{value:.1}"),
        v if v >= 9.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Text of another program, with control characters and those that change the direction of text
/// escaped: an escape sequence becomes `\u{1b}[31m`, a new line `\n`.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_interpreted = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if !text.contains(is_interpreted) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::new();
    for letter in text.chars() {
        match is_interpreted(letter) {
            true => escaped.extend(letter.escape_default()),
            false => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

/// Frames per second: `14.88 Mpps`.
pub fn human_pps(pps: f64) -> String {
    scaled(pps, &[(1.0, "pps"), (1e3, "kpps"), (1e3, "Mpps"), (1e3, "Gpps"), (1e3, "Tpps")])
}

/// Bits per second: `9.524 Gbit/s`.
pub fn human_bps(bps: f64) -> String {
    scaled(bps, &[(1.0, "bit/s"), (1e3, "kbit/s"), (1e3, "Mbit/s"), (1e3, "Gbit/s"), (1e3, "Tbit/s")])
}

/// A duration in nanoseconds: `1.500 µs`.
pub fn human_duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        _ => scaled(ns as f64 / 1e3, &[(1.0, "µs"), (1e3, "ms"), (1e3, "s")]),
    }
}

/// A count with its thousands apart: `10,000,001`.
pub fn human_count(count: u64) -> String {
    let plain = count.to_string();
    let mut text = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and what is counted: `1 frame`, `2,000 frames`.
pub fn quantity_of(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", human_count(count))
}

/// Bytes in powers of 1,024, cut to one decimal: `8 MiB`, `1.5 GiB`, `1 byte`.
pub fn human_size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, bits)) = units.into_iter().find(|(_, bits)| bytes >> bits > 0) else {
        return quantity_of(bytes, "byte");
    };
    let tenths = ((u128::from(bytes) * 10) >> bits) as u64;
    match tenths % 10 {
        0 => format!("{} {unit}", human_count(tenths / 10)),
        tenth => format!("{}.{tenth} {unit}", human_count(tenths / 10)),
    }
}

/// `count` in `duration_ns`, as a rate; 0 for no time.
pub fn per_second(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { count as f64 * 1e9 / duration_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_moves_no_cursor_and_begins_no_line() {
        assert_eq!(
            printable("h1: \u{1b}[2Jrun r9: whole\n\u{202e}x"),
            "h1: \\u{1b}[2Jrun r9: whole\\n\\u{202e}x"
        );
        assert!(matches!(printable("10 µs, größer, 東"), Cow::Borrowed(_)));
    }

    #[test]
    fn few_digits_and_a_fitting_unit() {
        assert_eq!(human_pps(14_880_952.0), "14.88 Mpps");
        assert_eq!(human_pps(999.0), "999.0 pps");
        assert_eq!(human_bps(1e9), "1.000 Gbit/s");
        assert_eq!(human_bps(0.0), "0 bit/s");
        assert_eq!(human_pps(0.25), "0.250 pps");
        assert_eq!(human_pps(5e15), "5000 Tpps");
        assert_eq!(human_bps(999_999_999.0), "1.000 Gbit/s");
        assert_eq!(human_duration(999_999), "1.000 ms");
        assert_eq!(human_duration(999), "999 ns");
        assert_eq!(human_duration(1_500), "1.500 µs");
        assert_eq!(human_duration(10_000_000_000), "10.00 s");
    }

    #[test]
    fn sizes_have_the_largest_unit() {
        let sizes = [1, 1023, 1 << 10, 1536 << 10, 8 << 20, u64::MAX].map(human_size);
        assert_eq!(sizes, ["1 byte", "1,023 bytes", "1 KiB", "1.5 MiB", "8 MiB", "17,179,869,183.9 GiB"]);
    }

    #[test]
    fn thousands_stand_apart() {
        let texts: Vec<_> = [0, 999, 1000, 10_000_001].map(human_count).into();
        assert_eq!(texts, ["0", "999", "1,000", "10,000,001"]);
    }
}
