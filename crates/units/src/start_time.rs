//! A time to start at, as people write it.

use super::{BadText, Nanos};
use host::StartTime;
use jiff::civil::Time;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

/// What is accepted.
const ACCEPTED: &str = "a time such as 2026-11-23T19:00:00Z, 19:00:00 (local time), +5s from now, or @1795460400 \
                        (seconds since 1970, with a fraction if needed)";
/// A time of day that was longer ago than this is tomorrow's.
const HALF_DAY_NS: i128 = 12 * 3_600_000_000_000;

/// Reads a time to start at: RFC 3339, `HH:MM:SS` of local time, `+TIME` from now, or `@SECONDS`
/// since 1970.
///
/// # Errors
/// Anything else.
pub fn start_time(text: &str) -> Result<StartTime, BadText> {
    parse(text, host::realtime_ns(), host::local_utc_offset_s())
}

fn parse(text: &str, now_ns: u64, utc_offset_s: i32) -> Result<StartTime, BadText> {
    let bad = |why: String| BadText::new(text, 0..text.len(), why, ACCEPTED);
    let nanos = |digits: &str| {
        let why = |_| bad(format!("\"{digits}\" is neither a number of seconds nor a time with a unit"));
        digits.parse::<Nanos>().map(|nanos| nanos.0).map_err(why)
    };
    let unix_ns = if let Some(later) = text.strip_prefix('+') {
        now_ns.checked_add(nanos(later)?)
    } else if let Some(seconds) = text.strip_prefix('@') {
        Some(nanos(seconds)?)
    } else if let Ok(time) = text.parse::<Timestamp>() {
        u64::try_from(time.as_nanosecond()).ok()
    } else {
        let time: Time = text.parse().map_err(|_| bad(format!("\"{text}\" is not a time")))?;
        of_day(time, now_ns, utc_offset_s)
    };
    unix_ns.map(|unix_ns| StartTime { unix_ns }).ok_or_else(|| bad(format!("\"{text}\" is out of range")))
}

/// A time of today, or of tomorrow if today's was more than half a day ago.
fn of_day(time: Time, now_ns: u64, utc_offset_s: i32) -> Option<u64> {
    let offset = Offset::from_seconds(utc_offset_s).ok()?;
    let now = Timestamp::from_nanosecond(now_ns.into()).ok()?;
    let today = offset.to_timestamp(offset.to_datetime(now).date().to_datetime(time)).ok()?;
    let was_long_ago = i128::from(now_ns) - today.as_nanosecond() > HALF_DAY_NS;
    let at = if was_long_ago { today.checked_add(24.hours()).ok()? } else { today };
    u64::try_from(at.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T02:15:00.25Z.
    const NOW_NS: u64 = 1_795_313_700_250_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn ns(text: &str, utc_offset_s: i32) -> u64 {
        parse(text, NOW_NS, utc_offset_s).unwrap().unix_ns
    }

    #[test]
    fn each_way_of_writing_gives_the_instant() {
        assert_eq!(ns("+5s", 0), NOW_NS + 5 * SECOND);
        assert_eq!(ns("+1.5", 0), NOW_NS + 1_500_000_000);
        assert_eq!(ns("@1795313700.25", 0), NOW_NS);
        assert_eq!(ns("@1795313700250000000ns", 0), NOW_NS);
        assert_eq!(ns("2026-11-22T02:15:00.25Z", 0), NOW_NS);
        assert_eq!(ns("2026-11-22T03:15:00.250000001+01:00", 0), NOW_NS + 1);
        assert_eq!(ns("03:15:10.25", 3600), NOW_NS + 10 * SECOND);
    }

    #[test]
    fn a_time_of_day_is_the_nearest_one() {
        assert_eq!(ns("02:15:00", 0), NOW_NS - SECOND / 4, "it has just passed, and is refused elsewhere");
        assert_eq!(ns("14:14:59", 0), NOW_NS - SECOND / 4 + 43_199 * SECOND);
        // 23:15 there: ten minutes after midnight is tomorrow.
        assert_eq!(ns("00:10:00", -3 * 3600), NOW_NS - SECOND / 4 + 55 * 60 * SECOND);
    }

    #[test]
    fn anything_else_is_refused_with_what_is_accepted() {
        for text in ["", "now", "+", "@", "+5x", "-5s", "25:00:00", "2026-11-22", "@99999999999999"] {
            let why = parse(text, NOW_NS, 0).unwrap_err().to_string();
            assert!(why.contains("+5s from now"), "{text}: {why}");
        }
    }
}
