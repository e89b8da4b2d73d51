//! Shares, written as a percentage: `0.1%`.

/// Parts in a whole.
pub(super) const WHOLE_PPB: u64 = 1_000_000_000;

/// Parts per billion of a percentage from 0 to 100 % with its sign, such as `0.1%`, exactly. `None`
/// for text without the sign, for other numbers, and for more than seven decimal places.
pub fn percentage(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?.trim_end();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || part.len() > 7 || !is_number(whole) || !is_number(part) {
        return None;
    }
    let (whole, part): (u64, u64) = (whole.parse().ok()?, format!("{part:0<7}").parse().ok()?);
    Some(whole * (WHOLE_PPB / 100) + part).filter(|ppb| *ppb <= WHOLE_PPB)
}

#[cfg(test)]
mod tests {
    use super::percentage;

    #[test]
    fn percentages_are_exact() {
        for (text, ppb) in [
            ("0%", 0),
            ("0.1%", 1_000_000),
            ("0.0000001%", 1),
            ("99.999 %", 999_990_000),
            ("100%", 1_000_000_000),
        ] {
            assert_eq!(percentage(text), Some(ppb), "{text}");
        }
        for bad in ["", "%", "1", ".5%", "100.0000001%", "101%", "-1%", "1e1%", "0.00000001%", "x%"] {
            assert_eq!(percentage(bad), None, "{bad}");
        }
    }
}
