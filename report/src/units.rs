//! Numbers for people: rates, times, shares.

/// Three to four significant digits with a prefix: `1.235 M`.
pub(crate) fn si(value: f64) -> String {
    let prefixes = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, prefix) =
        prefixes.into_iter().find(|(scale, _)| value.abs() >= *scale * 0.999_95).unwrap_or((1.0, ""));
    format!("{}{prefix}", short(value / scale))
}

/// At most four significant digits, without zeros at the end.
pub(crate) fn short(value: f64) -> String {
    let digits = match value.abs() {
        x if x >= 999.95 => 0,
        x if x >= 99.995 => 1,
        x if x >= 9.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Frames per second.
pub(crate) fn pps(value: u64) -> String {
    let text = si(value as f64);
    if text.contains(' ') { format!("{text}pps") } else { format!("{text} pps") }
}

/// A time in the unit that fits.
pub(crate) fn time_ns(value: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (scale, unit) =
        units.into_iter().find(|(scale, _)| value >= *scale * 0.999_95).unwrap_or((1.0, "ns"));
    format!("{} {unit}", short(value / scale))
}

/// Parts per billion as percent.
pub(crate) fn percent(ppb: u64) -> String {
    let value = ppb as f64 / 1e7;
    if value > 0.0 && value < 0.001 { format!("{value:.7} %") } else { format!("{} %", short(value)) }
}

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
