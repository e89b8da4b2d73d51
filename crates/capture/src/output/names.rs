//! Names of capture files made from a time: the conversions of strftime, without a locale.
//!
//! The offset of local time from UTC is a parameter and stays the same during a run, so an hour
//! that a clock change repeats does not repeat a name.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The conversions that [`NamePattern`] knows, for help texts.
pub const CONVERSIONS: &[(char, &str)] = &[
    ('Y', "year, four digits"),
    ('y', "year, two digits"),
    ('m', "month, 01 to 12"),
    ('b', "month's short English name"),
    ('B', "month's English name"),
    ('d', "day of the month, 01 to 31"),
    ('j', "day of the year, 001 to 366"),
    ('a', "day's short English name"),
    ('A', "day's English name"),
    ('u', "day of the week, 1 (Monday) to 7"),
    ('H', "hour, 00 to 23"),
    ('I', "hour, 01 to 12"),
    ('p', "AM or PM"),
    ('M', "minute"),
    ('S', "second"),
    ('N', "nanoseconds, nine digits"),
    ('F', "year-month-day"),
    ('T', "hour:minute:second"),
    ('R', "hour:minute"),
    ('s', "seconds since 1970"),
    ('z', "offset from UTC, +hhmm"),
    ('%', "a percent sign"),
];

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum PatternError {
    /// A conversion that is not known.
    #[error(
        "%{conversion} in the file name {pattern} is unknown: try %Y%m%d_%H%M%S, or %% for a percent sign"
    )]
    Unknown { conversion: char, pattern: String },
    /// The pattern ends with a percent sign.
    #[error("the file name {pattern} ends in the middle of a conversion: try %% for a percent sign")]
    Unfinished { pattern: String },
    /// There is no name in it.
    #[error("a file name is missing in {pattern:?}")]
    Empty { pattern: String },
}

/// A file name, or a path, with conversions such as `%H`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Conversion(char),
}

impl NamePattern {
    /// Reads a pattern such as `cap_%Y%m%d_%H%M%S.pcapng`.
    ///
    /// # Errors
    /// A [`PatternError`] that names what is wrong.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let pattern_owned = || pattern.to_owned();
        if pattern.is_empty() || pattern.ends_with('/') {
            return Err(PatternError::Empty { pattern: pattern_owned() });
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text.push(letter);
                continue;
            }
            let unfinished = || PatternError::Unfinished { pattern: pattern_owned() };
            let conversion = letters.next().ok_or_else(unfinished)?;
            if !CONVERSIONS.iter().any(|(known, _)| *known == conversion) {
                return Err(PatternError::Unknown { conversion, pattern: pattern_owned() });
            }
            if conversion == '%' {
                text.push('%');
            } else {
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Conversion(conversion));
            }
        }
        parts.push(Part::Text(text));
        Ok(Self { parts })
    }

    /// Whether names depend on the time.
    #[must_use]
    pub fn has_time(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Conversion(_)))
    }

    /// The parts of the path: one pattern for each folder, and the last one for the file.
    pub(crate) fn components(&self) -> Vec<Self> {
        let mut components = vec![Self { parts: Vec::new() }];
        for part in &self.parts {
            let Part::Text(text) = part else {
                components.last_mut().expect("there is one").parts.push(part.clone());
                continue;
            };
            for (number, text) in text.split('/').enumerate() {
                if number > 0 {
                    components.push(Self { parts: Vec::new() });
                }
                components.last_mut().expect("there is one").parts.push(Part::Text(text.to_owned()));
            }
        }
        components
    }

    /// True for a name that the pattern gives at some time.
    #[must_use]
    pub fn may_give(&self, name: &str) -> bool {
        may_give(&self.parts, name)
    }

    /// The name for a time in nanoseconds since 1970, at a place `utc_offset_s` seconds east of
    /// UTC.
    #[must_use]
    pub fn expand(&self, time_ns: u64, utc_offset_s: i32) -> String {
        // The first hours of 1970 west of Greenwich are shown as its first second.
        let unix_s = (time_ns / 1_000_000_000).cast_signed();
        let local_s = unix_s.max(-i64::from(utc_offset_s));
        let offset = Offset::from_seconds(utc_offset_s).expect("an offset is less than 26 hours");
        let local = Timestamp::from_second(local_s).expect("64 bits of nanoseconds end in 2554");
        let local = local.to_zoned(TimeZone::fixed(offset));
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Conversion('N') => format!("{:09}", time_ns % 1_000_000_000),
            Part::Conversion('s') => unix_s.to_string(),
            Part::Conversion(conversion) => local.strftime(&format!("%{conversion}")).to_string(),
        };
        self.parts.iter().map(part).collect()
    }
}

fn may_give(parts: &[Part], name: &str) -> bool {
    match parts.split_first() {
        None => name.is_empty(),
        Some((Part::Text(text), rest)) => {
            name.strip_prefix(text.as_str()).is_some_and(|name| may_give(rest, name))
        }
        Some((Part::Conversion(conversion), rest)) => {
            let ends = (1..=name.len()).filter(|end| name.is_char_boundary(*end));
            ends.filter(|end| may_be(*conversion, &name[..*end])).any(|end| may_give(rest, &name[end..]))
        }
    }
}

/// True for what a conversion gives at some time.
fn may_be(conversion: char, text: &str) -> bool {
    // 0 stands for a digit.
    let is_like = |form: &str| {
        form.len() == text.len()
            && form.chars().zip(text.chars()).all(|(form, one)| match form {
                '0' => one.is_ascii_digit(),
                form => one == form,
            })
    };
    match conversion {
        'Y' => is_like("0000"),
        'y' | 'm' | 'd' | 'H' | 'I' | 'M' | 'S' => is_like("00"),
        'j' => is_like("000"),
        'u' => is_like("0"),
        'N' => is_like("000000000"),
        'F' => is_like("0000-00-00"),
        'T' => is_like("00:00:00"),
        'R' => is_like("00:00"),
        's' => text.chars().all(|one| one.is_ascii_digit()),
        'z' => is_like("+0000") || is_like("-0000"),
        'p' => text == "AM" || text == "PM",
        'b' => MONTHS.iter().any(|month| &month[..3] == text),
        'B' => MONTHS.contains(&text),
        'a' => DAYS.iter().any(|day| &day[..3] == text),
        'A' => DAYS.contains(&text),
        _ => false,
    }
}

/// A name without the suffix of its compression.
#[must_use]
pub fn plain_name(name: &str) -> &str {
    [".gz", ".zst", ".lz4"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The name that a numbered file has without its number, and the number: `a_00007.pcapng` gives
/// `a.pcapng` and 7. Longer numbers than seven digits are no numbers of ours, but dates.
#[must_use]
pub fn without_number(name: &str) -> Option<(String, u64)> {
    const DIGITS_MAX: usize = 7;
    name.match_indices('_').find_map(|(at, _)| {
        let digits: String = name[at + 1..].chars().take_while(char::is_ascii_digit).collect();
        let base = format!("{}{}", &name[..at], &name[at + 1 + digits.len()..]);
        let is_ours = digits.len() <= DIGITS_MAX && with_label(&base, &digits) == name;
        Some((base, digits.parse().ok().filter(|_| is_ours)?))
    })
}

/// Puts a number before the extension of a path: `a/b.pcapng.zst`, 7 with two digits, gives
/// `a/b_07.pcapng.zst`.
#[must_use]
pub fn with_number(path: &str, number: u64, digits: usize) -> String {
    with_label(path, &format!("{number:0digits$}"))
}

/// Puts a word before the extension of a path: `a/b.pcapng.zst` with `x` gives `a/b_x.pcapng.zst`.
#[must_use]
pub fn with_label(path: &str, label: &str) -> String {
    let name_start = path.rfind('/').map_or(0, |slash| slash + 1);
    let plain_end = name_start + plain_name(&path[name_start..]).len();
    // A dot that begins the name hides the file and is no extension.
    let dot = path[name_start..plain_end].rfind('.').filter(|&dot| dot > 0);
    let (stem, extension) = path.split_at(dot.map_or(plain_end, |dot| name_start + dot));
    format!("{stem}_{label}{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn expand(pattern: &str, time_s: u64, utc_offset_s: i32) -> String {
        NamePattern::parse(pattern).unwrap().expand(time_s * 1_000_000_000 + 7, utc_offset_s)
    }

    #[test]
    fn the_usual_pattern() {
        assert_eq!(expand("cap_%Y%m%d_%H%M%S.pcapng", 1_700_000_000, 0), "cap_20231114_221320.pcapng");
        assert_eq!(expand("%F/%T.%N%z", 1_700_000_000, 3_600), "2023-11-14/23:13:20.000000007+0100");
        assert_eq!(expand("%F %z", 1_700_000_000, -12_600), "2023-11-14 -0330");
        assert_eq!(expand("100%%", 0, 0), "100%");
    }

    #[test]
    fn days_that_calendars_get_wrong() {
        assert_eq!(expand("%F %j", 951_782_400, 0), "2000-02-29 060");
        assert_eq!(expand("%F %j", 4_107_542_400, 0), "2100-03-01 060");
        assert_eq!(expand("%F %j", 978_220_800, 0), "2000-12-31 366");
        assert_eq!(expand("%F %A %u", 0, -3_600), "1970-01-01 Thursday 4");
        assert_eq!(expand("%I %p", 0, 0), "12 AM");
        assert_eq!(expand("%I %p", 43_200, 0), "12 PM");
    }

    #[test]
    fn a_pattern_with_a_mistake_is_refused() {
        let error = |pattern| NamePattern::parse(pattern).unwrap_err().to_string();
        assert_eq!(
            error("a%Q"),
            "%Q in the file name a%Q is unknown: try %Y%m%d_%H%M%S, or %% for a percent sign"
        );
        assert_eq!(
            error("100%"),
            "the file name 100% ends in the middle of a conversion: try %% for a percent sign"
        );
        assert_eq!(error(""), "a file name is missing in \"\"");
        assert_eq!(error("dir/"), "a file name is missing in \"dir/\"");
    }

    #[test]
    fn a_number_goes_before_the_extension() {
        assert_eq!(with_number("a.b/c.pcapng", 7, 5), "a.b/c_00007.pcapng");
        assert_eq!(with_number("c.pcapng.zst", 12, 1), "c_12.pcapng.zst");
        assert_eq!(with_number("a.b/c", 1, 2), "a.b/c_01");
        assert_eq!(with_number("a/.hidden", 1, 2), "a/.hidden_01");
        assert_eq!(with_number("c.zst", 1, 1), "c_1.zst");
    }

    #[test]
    fn every_conversion_in_the_table_has_a_meaning() {
        for (conversion, _) in CONVERSIONS {
            assert!(!expand(&format!("%{conversion}"), 1_700_000_000, 0).is_empty());
        }
    }

    #[test]
    fn date_agrees() {
        let pattern = "%Y %y %m %b %B %d %j %a %A %u %H %I %p %M %S %N %F %T %R %s %z %%";
        for time_s in [0, 68_169_600, 951_782_399, 1_700_000_000, 4_107_542_399, 18_000_000_000] {
            let run = Command::new("date")
                .env("LC_ALL", "C")
                .args(["-u", "-d", &format!("@{time_s}.000000007"), &format!("+{pattern}")])
                .output();
            let Ok(output) = run else { return testkit::skip("needs date") };
            assert_eq!(expand(pattern, time_s, 0), String::from_utf8(output.stdout).unwrap().trim_end());
        }
    }

    proptest! {
        #[test]
        fn any_pattern_is_read_or_refused(pattern in "[a-zA-Z%./]{0,12}", time_ns: u64, offset_s in -50_400..=50_400) {
            if let Ok(pattern) = NamePattern::parse(&pattern) {
                prop_assert!(!pattern.expand(time_ns, offset_s).is_empty());
            }
        }

        #[test]
        fn later_times_have_later_names(a: u64, b: u64, offset_s in -50_400..=50_400) {
            let pattern = NamePattern::parse("%F_%T.%N").unwrap();
            let day_ns = 86_400_000_000_000;
            let (a, b) = (a.saturating_add(day_ns), b.saturating_add(day_ns));
            prop_assert_eq!(a.cmp(&b), pattern.expand(a, offset_s).cmp(&pattern.expand(b, offset_s)));
        }
    }

    #[test]
    fn names_that_a_pattern_gave_are_known_again() {
        let all: String = CONVERSIONS.iter().map(|(letter, _)| format!("%{letter}-")).collect();
        for pattern in ["x.pcapng", "%Y%m%d_%H%M%S.pcapng.zst", "a%s%N", &*all] {
            let pattern = NamePattern::parse(pattern).unwrap();
            for time_ns in [0, 1_700_000_000_123_456_789, 4_000_000_000_000_000_000] {
                let name = pattern.expand(time_ns, 3_600);
                assert!(pattern.may_give(&name), "{name}");
                assert!(!pattern.may_give(&format!("{name}x")) && !pattern.may_give(&format!("x{name}")));
            }
        }
        assert!(!NamePattern::parse("x%H").unwrap().may_give("x1a"));
    }

    #[test]
    fn a_number_is_taken_off_a_name_and_a_date_is_not() {
        for (name, known) in [
            ("a_00007.pcapng", Some(("a.pcapng", 7))),
            ("a_b_1.pcapng.zst", Some(("a_b.pcapng.zst", 1))),
            ("a_123456", Some(("a", 123_456))),
            ("a_20260101.pcapng", None),
            ("a.pcapng", None),
            ("a_7_b.pcapng", None),
        ] {
            let known = known.map(|(base, number)| (base.to_owned(), number));
            assert_eq!(without_number(name), known, "{name}");
        }
    }
}
