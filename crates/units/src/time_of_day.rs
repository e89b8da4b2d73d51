//! Times as text: UTC for programs, local time for people.

use jiff::Timestamp;
use jiff::tz::Offset;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time of day now, in nanoseconds since 1970.
pub fn time_of_day_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `time_ns` (since 1970) in UTC with milliseconds, as in RFC 3339: `2026-11-22T02:15:00.000Z`.
pub fn utc_time(time_ns: u64) -> String {
    timestamp(time_ns).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// `time_ns` (since 1970) as `02:15:00`, `offset_s` seconds east of UTC.
pub fn clock_time(time_ns: u64, offset_s: i32) -> String {
    let offset = Offset::from_seconds(offset_s).unwrap_or(Offset::UTC);
    offset.to_datetime(timestamp(time_ns)).strftime("%H:%M:%S").to_string()
}

/// `time_ns` (since 1970) with nanoseconds as `02:15:00.000000000`, `offset_s` seconds east of UTC.
pub fn clock_time_ns(time_ns: u64, offset_s: i32) -> String {
    format!("{}.{:09}", clock_time(time_ns, offset_s), time_ns % 1_000_000_000)
}

fn timestamp(time_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_has_milliseconds_and_clock_time_has_an_offset() {
        let time_ns = 1_795_313_700_250_999_999;
        assert_eq!(utc_time(time_ns), "2026-11-22T02:15:00.250Z");
        assert_eq!(clock_time(time_ns, 3600), "03:15:00");
        assert_eq!(clock_time(time_ns, -3 * 3600), "23:15:00");
        assert_eq!(clock_time_ns(time_ns, 3600), "03:15:00.250999999");
        assert_eq!(utc_time(0), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn now_is_after_this_test_was_written() {
        assert!(utc_time(time_of_day_ns()).as_str() > "2026-");
    }
}
