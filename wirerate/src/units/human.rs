//! Numbers for people to read: few digits, a fitting unit. Reports round here and nowhere else.

/// `value` with three digits after the leading ones and a decimal prefix: `14.88 M`.
fn scaled(value: f64) -> (f64, &'static str) {
    const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    PREFIXES
        .iter()
        .find(|(size, _)| value >= *size)
        .map_or((value, ""), |(size, prefix)| (value / size, prefix))
}

fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.1}"),
        v if v >= 10.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// Frames per second: `14.88 Mpps`.
pub fn human_pps(pps: f64) -> String {
    let (value, prefix) = scaled(pps);
    format!("{} {prefix}pps", digits(value))
}

/// Bits per second: `9.524 Gbit/s`.
pub fn human_bps(bps: f64) -> String {
    let (value, prefix) = scaled(bps);
    format!("{} {prefix}bit/s", digits(value))
}

/// A duration in nanoseconds: `1.500 us`.
pub fn human_duration(ns: u64) -> String {
    let (size, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", digits(ns as f64 / size))
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

/// `count` in `duration_ns`, as a rate; 0 for no time.
pub fn per_second(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { count as f64 * 1e9 / duration_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_digits_and_a_fitting_unit() {
        assert_eq!(human_pps(14_880_952.0), "14.88 Mpps");
        assert_eq!(human_pps(999.0), "999.0 pps");
        assert_eq!(human_bps(1e9), "1.000 Gbit/s");
        assert_eq!(human_bps(0.0), "0.000 bit/s");
        assert_eq!(human_duration(999), "999 ns");
        assert_eq!(human_duration(1_500), "1.500 us");
        assert_eq!(human_duration(10_000_000_000), "10.00 s");
    }

    #[test]
    fn thousands_stand_apart() {
        let texts: Vec<_> = [0, 999, 1000, 10_000_001].map(human_count).into();
        assert_eq!(texts, ["0", "999", "1,000", "10,000,001"]);
    }
}
