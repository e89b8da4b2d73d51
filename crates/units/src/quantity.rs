//! One number with a unit: durations, bit rates, packet rates.

use super::BadText;
use std::fmt;
use std::str::FromStr;

/// The units of a kind of quantity: spelling and size. The first spelling of each size is the one
/// we print.
struct QuantityKind {
    name: &'static str,
    units: &'static [(&'static str, u64)],
    /// Whether spellings are matched with their case ("M" is mega, "m" is a minute).
    exact_case: bool,
    /// True if several values add up, such as `1m30s`.
    is_sum: bool,
    accepted: &'static str,
}

const TIME: QuantityKind = QuantityKind {
    name: "time",
    units: &[
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("µs", 1_000),
        ("ns", 1),
        ("", 1_000_000_000),
    ],
    exact_case: true,
    is_sum: true,
    accepted: "a number and one of ns, us, ms, s, min, h, such as 10s, 500ms or 1m30s; a number alone is seconds",
};

const RATE: QuantityKind = QuantityKind {
    name: "bit rate",
    units: &[
        ("Tbit", 1_000_000_000_000),
        ("Gbit", 1_000_000_000),
        ("Mbit", 1_000_000),
        ("kbit", 1_000),
        ("bit", 1),
        ("T", 1_000_000_000_000),
        ("G", 1_000_000_000),
        ("M", 1_000_000),
        ("k", 1_000),
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
        ("kb", 1_000),
        ("Mb", 1_000_000),
        ("Gb", 1_000_000_000),
        ("Tb", 1_000_000_000_000),
        ("", 1),
    ],
    exact_case: false,
    is_sum: false,
    accepted: "bits per second: a number and one of bit, kbit, Mbit, Gbit, Tbit (or k, M, G, T), such as 1Gbit or 300M",
};

const FRAMES: QuantityKind = QuantityKind {
    name: "packet rate",
    units: &[
        ("G", 1_000_000_000),
        ("M", 1_000_000),
        ("k", 1_000),
        ("", 1),
        ("pps", 1),
        ("kpps", 1_000),
        ("Mpps", 1_000_000),
        ("Gpps", 1_000_000_000),
    ],
    exact_case: false,
    is_sum: false,
    accepted: "frames per second: a whole number, or a number and k, M or G, such as 1000, 1e6 or 14.88M",
};

const FRAME_RATE: QuantityKind = QuantityKind {
    name: "packet rate",
    units: &[
        ("G", 1_000_000_000_000_000),
        ("M", 1_000_000_000_000),
        ("k", 1_000_000_000),
        ("", 1_000_000),
        ("pps", 1_000_000),
        ("kpps", 1_000_000_000),
        ("Mpps", 1_000_000_000_000),
        ("Gpps", 1_000_000_000_000_000),
    ],
    exact_case: false,
    is_sum: false,
    accepted: "frames per second: a number, perhaps with k, M or G, such as 1000, 0.5, 1e6 or 14.88M",
};

const COUNT: QuantityKind = QuantityKind {
    name: "count",
    units: &[("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000), ("", 1)],
    exact_case: false,
    is_sum: false,
    accepted: "a whole number, or a number and k, M or G, such as 1000 or 10M",
};

const SIZE: QuantityKind = QuantityKind {
    name: "size",
    units: &[
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("T", 1_000_000_000_000),
        ("G", 1_000_000_000),
        ("M", 1_000_000),
        ("k", 1_000),
        ("", 1),
        ("B", 1),
    ],
    exact_case: false,
    is_sum: false,
    accepted: "bytes: a number and k, M, G or T (thousands), or KiB, MiB, GiB or TiB, such as 500M or 2GiB",
};

impl QuantityKind {
    /// Reads `text`, exactly. Values with falling units add up where the kind allows it: `1m30s`.
    fn parse(&self, text: &str) -> Result<u64, BadText> {
        if !self.is_sum {
            return self.parse_one(text);
        }
        let (mut sum, mut at, mut smallest) = (0u64, 0, u64::MAX);
        loop {
            let rest = &text[at..];
            let digits_len = leading_number(rest).0;
            let unit_len = rest[digits_len..].find(|c: char| c.is_ascii_digit());
            let end = unit_len.map_or(rest.len(), |unit_len| digits_len + unit_len);
            if (at, end) == (0, rest.len()) {
                return self.parse_one(text);
            }
            let within = |bad: BadText| bad.within(text, at);
            let part = self.parse_one(&rest[..end]).map_err(within)?;
            let unit = self.scale(&rest[digits_len..end]).unwrap_or(0);
            if digits_len == end || unit >= smallest {
                let why = "each part of a sum of times has a unit, smaller than the one before";
                return Err(self.bad(text, at..at + end, why.to_owned()));
            }
            sum = sum.checked_add(part).ok_or_else(|| {
                self.bad(text, 0..text.len(), format!("too large a number in a {}", self.name))
            })?;
            (at, smallest) = (at + end, unit);
            if at == text.len() {
                return Ok(sum);
            }
        }
    }

    /// Reads one number with its unit.
    fn parse_one(&self, text: &str) -> Result<u64, BadText> {
        let (digits_len, number) = leading_number(text);
        let unit = &text[digits_len..];
        let Some(Decimal { whole, fraction, exponent }) = number else {
            let end = digits_len.max(text.chars().next().map_or(0, char::len_utf8));
            return Err(self.bad(text, 0..end, format!("\"{text}\" does not begin with a number")));
        };
        let scale = self.scale(unit).ok_or_else(|| self.bad_unit(text, digits_len))?;
        10u64
            .checked_pow(exponent)
            .and_then(|power| power.checked_mul(scale))
            .ok_or("too large a number")
            .and_then(|scale| value(&whole, &fraction, scale))
            .map_err(|why| self.bad(text, 0..digits_len, format!("{why} in a {}", self.name)))
    }

    fn scale(&self, unit: &str) -> Option<u64> {
        let bare = unit.strip_suffix("/s").unwrap_or(unit);
        if self.is_of_bits() && bare.trim_end_matches("ps").ends_with('B') {
            return None;
        }
        let same = |spelling: &str| match self.exact_case {
            true => spelling == unit,
            false => spelling.eq_ignore_ascii_case(bare),
        };
        self.units.iter().find(|(spelling, _)| same(spelling)).map(|(_, scale)| *scale)
    }

    /// True for a rate, where a capital B in a unit would mean bytes.
    fn is_of_bits(&self) -> bool {
        self.units.iter().any(|(spelling, _)| *spelling == "bit")
    }

    fn bad_unit(&self, text: &str, start: usize) -> BadText {
        match &text[start..] {
            "" => self.bad(text, 0..start, format!("{text} has no unit")),
            unit if self.is_of_bits() && unit.contains('B') => {
                let bytes = format!("\"{unit}\" means bytes, and the rate is in bits: multiply by 8");
                self.bad(text, start..text.len(), bytes)
            }
            unit => self.bad(text, start..text.len(), format!("\"{unit}\" is not a unit of a {}", self.name)),
        }
    }

    fn bad(&self, text: &str, range: std::ops::Range<usize>, why: String) -> BadText {
        BadText::new(text, range, why, self.accepted)
    }

    /// The largest unit that `value` is a whole number of.
    fn print(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, scale): &&(&str, u64)| value.is_multiple_of(*scale) && (value != 0 || *scale == 1);
        let (unit, scale) = self.units.iter().find(fits).expect("every kind has a unit of 1");
        write!(f, "{}{unit}", value / scale)
    }
}

/// A number as written: `1.5e3`.
struct Decimal {
    whole: String,
    fraction: String,
    exponent: u32,
}

/// The number at the beginning of `text` and its length in bytes: digits, with `_` between them or
/// `,` between groups of three, a fraction, an exponent.
fn leading_number(text: &str) -> (usize, Option<Decimal>) {
    let is_part = |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'_');
    let mantissa_len = text.bytes().take_while(is_part).count();
    let (mantissa, rest) = text.split_at(mantissa_len);
    let exponent_digits = rest
        .strip_prefix(['e', 'E'])
        .map_or("", |power| &power[..power.bytes().take_while(u8::is_ascii_digit).count()]);
    let exponent_len = if exponent_digits.is_empty() { 0 } else { 1 + exponent_digits.len() };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_number =
        is_grouped(whole) && !mantissa.ends_with('.') && fraction.bytes().all(|b| b.is_ascii_digit());
    let exponent = if exponent_digits.is_empty() { Ok(0) } else { exponent_digits.parse() };
    let decimal = exponent.ok().filter(|_| is_number).map(|exponent| Decimal {
        whole: whole.replace([',', '_'], ""),
        fraction: fraction.to_owned(),
        exponent,
    });
    (mantissa_len + exponent_len, decimal)
}

/// True for `1000`, `1_000` and `1,000`, but not for `1,5`, which is a fraction in some countries.
fn is_grouped(whole: &str) -> bool {
    let mut groups = whole.split(',');
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let first = groups.next().unwrap_or_default();
    let plain = first.split('_').all(|part| !part.is_empty() && is_digits(part));
    plain
        && (!whole.contains(',') || first.len() <= 3)
        && groups.all(|group| group.len() == 3 && is_digits(group))
}

/// `whole.fraction` times `scale`, or why that is not a whole number of 64 bits.
fn value(whole: &str, fraction: &str, scale: u64) -> Result<u64, &'static str> {
    const TOO_LARGE: &str = "too large a number";
    let fraction = fraction.trim_end_matches('0');
    let digits = |text: &str| {
        text.bytes().try_fold(0u128, |n, b| n.checked_mul(10)?.checked_add(u128::from(b - b'0')))
    };
    let mantissa = digits(&format!("{whole}{fraction}")).ok_or(TOO_LARGE)?;
    let scaled = mantissa.checked_mul(u128::from(scale)).ok_or(TOO_LARGE)?;
    let divisor =
        10u128.checked_pow(u32::try_from(fraction.len()).unwrap_or(u32::MAX)).ok_or("too fine a fraction")?;
    if scaled % divisor != 0 {
        return Err("too fine a fraction");
    }
    u64::try_from(scaled / divisor).map_err(|_| TOO_LARGE)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl FromStr for $name {
            type Err = BadText;

            fn from_str(text: &str) -> Result<Self, BadText> {
                $kind.parse(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.print(self.0, f)
            }
        }
    };
}

quantity!(
    /// A duration in nanoseconds, written `10s`, `500ms`, `1.5us`.
    Nanos,
    TIME
);
quantity!(
    /// Bits per second, written `1Gbit`, `300M`.
    BitRate,
    RATE
);
quantity!(
    /// Frames per second, written `1000`, `1M`, `14.88M`.
    Pps,
    FRAMES
);
quantity!(
    /// A number of frames, written `1000`, `10M`.
    Count,
    COUNT
);

quantity!(
    /// A number of bytes, written `1000`, `500M`, `2GiB`.
    Size,
    SIZE
);

/// Frames per million seconds, written as frames per second with up to six decimal places: `1000`,
/// `1234.5`, `0.5`, `14.88M`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameRate(pub u64);

impl FromStr for FrameRate {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        FRAME_RATE.parse(text).map(Self)
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whole_pps() {
            Some(whole) => whole.fmt(f),
            None => {
                let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
                f.write_str(text.trim_end_matches('0'))
            }
        }
    }
}

impl FrameRate {
    /// Frames per second, if that is a whole number.
    pub fn whole_pps(self) -> Option<Pps> {
        self.0.is_multiple_of(1_000_000).then_some(Pps(self.0 / 1_000_000))
    }

    /// Frames per second.
    pub fn pps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The most whole frames per second that are not more.
    pub fn pps_below(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The fewest whole frames per second that are not less.
    pub fn pps_above(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl From<Pps> for FrameRate {
    fn from(rate: Pps) -> Self {
        Self(rate.0.saturating_mul(1_000_000))
    }
}

/// A time with its unit: a number alone would be seconds in one tool and nanoseconds in another.
///
/// # Errors
/// Text without a unit, and what [`Nanos`] rejects.
pub fn time_with_unit(text: &str) -> Result<Nanos, BadText> {
    match text.ends_with(|end: char| end.is_ascii_digit()) && text.parse::<Nanos>().is_ok() {
        true => Err(TIME.bad(text, 0..text.len(), format!("{text} has no unit"))),
        false => text.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_write_it_like_this() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("500ms", 500_000_000),
            ("10us", 10_000),
            ("1.5us", 1_500),
            ("67ns", 67),
            ("2min", 120_000_000_000),
            ("2m", 120_000_000_000),
            ("0.50s", 500_000_000),
            ("1m30s", 90_000_000_000),
            ("1h30min", 5_400_000_000_000),
            ("1h0.5s1ms", 3_600_501_000_000),
            ("1e1m1e0s", 601_000_000_000),
            ("10", 10_000_000_000),
            ("1e3ms", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
        }
        for (text, bps) in [
            ("1Gbit", 1_000_000_000),
            ("300M", 300_000_000),
            ("1gbit/s", 1_000_000_000),
            ("9.6kbit", 9_600),
            ("100Mb", 100_000_000),
            ("100mb/s", 100_000_000),
            ("1000", 1_000),
            ("1e9", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(BitRate(bps)), "{text}");
        }
        for (text, bytes) in [("500M", 500_000_000), ("2GiB", 2 << 30), ("1.5kb", 1_500), ("100", 100)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for (text, count) in
            [("1e3", 1000), ("1,000", 1000), ("1_000", 1000), ("1,000,000", 1_000_000), ("1.5e3", 1500)]
        {
            assert_eq!(text.parse(), Ok(Count(count)), "{text}");
        }
        for (text, pps) in
            [("1M", 1_000_000), ("14.88M", 14_880_000), ("1000", 1000), ("5kpps", 5000), ("1e6", 1_000_000)]
        {
            assert_eq!(text.parse(), Ok(Pps(pps)), "{text}");
        }
        for (text, micropps) in [
            ("1M", 1_000_000_000_000),
            ("1234.5", 1_234_500_000),
            ("0.5", 500_000),
            ("0.000001pps", 1),
            ("1.5e3", 1_500_000_000),
            ("14.8809523Mpps", 14_880_952_300_000),
        ] {
            assert_eq!(text.parse(), Ok(FrameRate(micropps)), "{text}");
        }
        let bad = "0.0000001".parse::<FrameRate>().unwrap_err().to_string();
        assert!(bad.contains("too fine a fraction in a packet rate"), "{bad}");
    }

    #[test]
    fn the_mark_stands_under_the_bad_part() {
        let mark = |bad: BadText| bad.bad();
        assert_eq!(mark("10parsec".parse::<Nanos>().unwrap_err()), 2..8);
        assert_eq!(mark("100MB".parse::<BitRate>().unwrap_err()), 3..5);
        assert_eq!(mark("100GBps".parse::<BitRate>().unwrap_err()), 3..7);
        assert_eq!(mark("1,5s".parse::<Nanos>().unwrap_err()), 0..3);
        assert_eq!(mark("1e99".parse::<Count>().unwrap_err()), 0..4);
        assert_eq!(mark("1__0".parse::<Count>().unwrap_err()), 0..4);
        assert_eq!(mark("-5".parse::<Pps>().unwrap_err()), 0..1);
        assert_eq!(mark("".parse::<Nanos>().unwrap_err()), 0..0);
        assert_eq!(mark("µ".parse::<Nanos>().unwrap_err()), 0..2);
        assert_eq!(mark("-5s".parse::<Nanos>().unwrap_err()), 0..1);
        assert_eq!(mark("1.2.3s".parse::<Nanos>().unwrap_err()), 0..5);
        assert_eq!(mark("1.s".parse::<Nanos>().unwrap_err()), 0..2);
        assert_eq!(mark("0.5ns".parse::<Nanos>().unwrap_err()), 0..3);
        assert_eq!(mark("1m30".parse::<Nanos>().unwrap_err()), 2..4);
        assert_eq!(mark("1s2m".parse::<Nanos>().unwrap_err()), 2..4);
        assert_eq!(mark("1m1m".parse::<Nanos>().unwrap_err()), 2..4);
        assert_eq!(mark("1m3x".parse::<Nanos>().unwrap_err()), 3..4);
        assert_eq!(mark("9999999h9999999999m".parse::<Nanos>().unwrap_err()), 0..7);
        assert_eq!(mark("99999999999999999999M".parse::<Pps>().unwrap_err()), 0..20);
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_the_same(n: u64) {
            prop_assert_eq!(Nanos(n).to_string().parse(), Ok(Nanos(n)));
            prop_assert_eq!(BitRate(n).to_string().parse(), Ok(BitRate(n)));
            prop_assert_eq!(Pps(n).to_string().parse(), Ok(Pps(n)));
            prop_assert_eq!(FrameRate(n).to_string().parse(), Ok(FrameRate(n)));
            prop_assert_eq!(Count(n).to_string().parse(), Ok(Count(n)));
            prop_assert_eq!(Size(n).to_string().parse(), Ok(Size(n)));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,12}|[0-9.,_eE]{0,40}[a-zA-Z/]{0,5}") {
            let _ = text.parse::<Nanos>().map_err(|bad| bad.to_string());
            let _ = text.parse::<BitRate>().map_err(|bad| bad.to_string());
            let _ = text.parse::<Pps>().map_err(|bad| bad.to_string());
        }
    }
}
