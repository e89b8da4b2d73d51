//! Numbers of the page: those of [`crate::human`], without zeros at the end.

use crate::human::{digits, human_bps, human_duration, human_pps};

#[cfg(feature = "page")]
/// At most four significant digits with a prefix: `1.235 M`.
pub(crate) fn si(value: f64) -> String {
    trimmed(&crate::human::scaled(value, &[(1.0, ""), (1e3, "k"), (1e3, "M"), (1e3, "G")]))
}

/// At most four significant digits.
pub(crate) fn short(value: f64) -> String {
    trimmed(&digits(value))
}

/// Frames per second.
pub(crate) fn pps(value: u64) -> String {
    trimmed(&human_pps(value as f64))
}

/// Bits per second.
pub(crate) fn bps(value: f64) -> String {
    trimmed(&human_bps(value))
}

/// A time in the unit that fits.
pub(crate) fn time_ns(value: f64) -> String {
    if value < 999.95 {
        format!("{} ns", short(value))
    } else {
        trimmed(&human_duration(value.round() as u64))
    }
}

/// A number and its unit, without zeros at the end of the number.
fn trimmed(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

#[cfg(feature = "page")]
/// Parts per billion as percent.
pub(crate) fn percent(ppb: u64) -> String {
    let value = ppb as f64 / 1e7;
    if value > 0.0 && value < 0.001 { format!("{value:.7} %") } else { format!("{} %", short(value)) }
}

#[cfg(feature = "page")]
/// A loss goal in the field's words.
pub(crate) fn goal_name(loss_ppb: u64) -> String {
    if loss_ppb == 0 { "NDR (no loss)".to_owned() } else { format!("PDR {}", percent(loss_ppb)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_prefix_and_no_idle_zeros() {
        assert_eq!(si(1_234_567.0), "1.235 M");
        assert_eq!(si(999_999.0), "1 M");
        assert_eq!(si(640.0), "640");
        assert_eq!(pps(14_880_952), "14.88 Mpps");
        assert_eq!(pps(5), "5 pps");
        assert_eq!(time_ns(8_000.0), "8 µs");
        assert_eq!(time_ns(1_234_567.0), "1.235 ms");
        assert_eq!(percent(5_000_000), "0.5 %");
        assert_eq!(percent(1), "0.0000001 %");
    }
}
