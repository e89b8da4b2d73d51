//! `--expect 'failed=0'`: checks of the results that decide the exit code.

use super::report::{PERCENTILES, Report, Times};
use facts::{ConnectFailures, UnusualSegments};
use program::expectations::{Comparison, split_check};
use std::fmt;
use std::str::FromStr;
use units::{Count, FrameRate, Nanos, human_duration};

type CountOf = fn(&Report) -> u64;
type RateOf = fn(&Report) -> f64;
type TimesOf = fn(&Report) -> Option<&Times>;

const COUNTS: [(&str, CountOf); 15] = [
    ("tried", |report| report.tried),
    ("established", |report| report.established),
    ("completed", |report| report.completed),
    ("failed", |report| report.failed),
    ("open_at_end", |report| report.open_at_end),
    ("ended_by_server", |report| report.ended_by_server),
    ("requests", |report| report.requests),
    ("responses", |report| report.responses),
    ("unsized_responses", |report| report.unsized_responses),
    ("payload_bytes", |report| report.payload_bytes),
    ("open_max", |report| report.open_max),
    ("missing", |report| report.tried - report.completed),
    ("error_answers", |report| report.error_answers),
    ("no_port", |report| report.no_port),
    ("dropped", |report| report.dropped),
];

const RATES: [(&str, RateOf); 2] =
    [("cps", |report| report.rate_cps), ("requests_ps", |report| report.requests_ps)];

const TIMES: [(&str, TimesOf); 3] = [
    ("connect", |report| report.connect.as_ref()),
    ("first_byte", |report| report.first_byte.as_ref()),
    ("connection", |report| report.connection.as_ref()),
];

#[derive(Clone, Copy, Debug)]
enum Metric {
    Count(CountOf),
    /// A count of [`ConnectFailures`] or [`UnusualSegments`].
    OfGroup(&'static str),
    /// In millionths.
    Rate(RateOf),
    /// The times, and the place of the percentile; 4 is the highest.
    Time(TimesOf, usize),
}

/// A check.
#[derive(Clone, Debug)]
pub struct Expectation {
    text: String,
    metric: Metric,
    holds: Comparison,
    limit: u64,
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, holds, limit) = split_check(text, "failed=0 or connect_p99<1ms")?;
        let metric = metric(name).ok_or_else(|| format!("no result `{name}`; there are {}", names()))?;
        let limit = match metric {
            Metric::Count(_) | Metric::OfGroup(_) => limit.parse::<Count>().map_err(|why| why.to_string())?.0,
            Metric::Rate(_) => limit.parse::<FrameRate>().map_err(|why| why.to_string())?.0,
            Metric::Time(..) => limit.parse::<Nanos>().map_err(|why| why.to_string())?.0,
        };
        Ok(Self { text: text.to_owned(), metric, holds, limit })
    }
}

fn metric(name: &str) -> Option<Metric> {
    if let Some((_, of)) = COUNTS.iter().find(|(known, _)| *known == name) {
        return Some(Metric::Count(*of));
    }
    if let Some(name) = group_names().find(|known| *known == name) {
        return Some(Metric::OfGroup(name));
    }
    if let Some((_, of)) = RATES.iter().find(|(known, _)| *known == name) {
        return Some(Metric::Rate(*of));
    }
    let (times, which) = name.rsplit_once('_')?;
    let (_, of) = TIMES.iter().find(|(known, _)| *known == times)?;
    let places = PERCENTILES.iter().map(|(name, _)| *name).chain(["max"]);
    let place = places.enumerate().find(|(_, name)| *name == which)?.0;
    Some(Metric::Time(*of, place))
}

/// The counts that views have by groups.
fn group_names() -> impl Iterator<Item = &'static str> {
    ConnectFailures::NAMES.iter().chain(UnusualSegments::NAMES).copied()
}

fn names() -> String {
    let counts = COUNTS.iter().map(|(name, _)| *name).chain(group_names()).map(str::to_owned);
    let rates = RATES.iter().map(|(name, _)| (*name).to_owned());
    let times = TIMES.iter().map(|(name, _)| format!("{name}_p50 (p90, p99, p99.9, max)"));
    counts.chain(rates).chain(times).collect::<Vec<_>>().join(", ")
}

impl Expectation {
    /// The failure as a sentence; `None` if the check holds.
    pub fn failure(&self, report: &Report) -> Option<String> {
        let (found, text) = match self.metric {
            Metric::Count(of) => (of(report), of(report).to_string()),
            Metric::OfGroup(name) => {
                let count = report.failures.get(name).or(report.unusual.get(name)).unwrap_or(0);
                (count, count.to_string())
            }
            Metric::Rate(of) => ((of(report) * 1e6) as u64, format!("{:.0}", of(report))),
            Metric::Time(of, place) => {
                let Some(times) = of(report) else {
                    return Some(format!("{self} failed: it was not measured"));
                };
                let all = [times.p50_ns, times.p90_ns, times.p99_ns, times.p999_ns, times.max_ns];
                (all[place], human_duration(all[place]))
            }
        };
        let holds = (self.holds)(u128::from(found), u128::from(self.limit));
        (!holds).then(|| format!("{self} failed: it is {text}"))
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_compare_counts_rates_and_times() {
        let times = Times { p99_ns: 900_000, max_ns: 2_000_000, ..Times::default() };
        let report = Report {
            tried: 10,
            completed: 9,
            failed: 1,
            rate_cps: 50_000.4,
            connect: Some(times),
            ..Report::default()
        };
        let failure = |text: &str| text.parse::<Expectation>().unwrap().failure(&report);
        for text in
            ["failed=1", "cps>=50k", "connect_p99<1ms", "connect_max<=2ms", "missing=1", "completed!=10"]
        {
            assert_eq!(failure(text), None, "{text}");
        }
        assert_eq!(failure("failed=0").unwrap(), "failed=0 failed: it is 1");
        assert_eq!(failure("cps>60k").unwrap(), "cps>60k failed: it is 50000");
        assert_eq!(failure("first_byte_p50<1s").unwrap(), "first_byte_p50<1s failed: it was not measured");
        for text in ["failed", "nothing=0", "connect_p98<1ms", "failed=x"] {
            assert!(text.parse::<Expectation>().is_err(), "{text}");
        }
    }
}
