//! `--expect 'lost=0'`: checks of the results that decide the exit code.

use super::Report;
use measure::{OtherFrames, PERCENTILES, UnusualFrames};
use packet::WIRE_OVERHEAD;
use program::expectations::{Comparison, split_check};
use std::fmt;
use std::str::FromStr;
use units::{
    BitRate, Count, FrameRate, Nanos, human_bps, human_count, human_duration, human_pps, percentage,
};

/// Reads a count from a report, as the least and the most that it can be; `None` if it was not
/// counted.
type CountOf = fn(&Report) -> Option<(u64, u64)>;
/// Reads a latency in nanoseconds; `None` if it is unknown.
type TimeOf = fn(&measure::Latency) -> Option<u64>;

/// A result that can be checked.
#[derive(Clone, Copy, Debug)]
pub enum Metric {
    /// Lost frames, an interval if frames arrived too old; needs the number of sent frames.
    Lost,
    /// A count of the report.
    Counted(CountOf),
    /// A count of [`OtherFrames`] or [`UnusualFrames`].
    Other(&'static str),
    /// Frames per second, or bits per second on the wire.
    Rate,
    /// A latency in nanoseconds.
    Time(TimeOf),
    /// The latency at a percentile.
    Percentile(f64),
}

/// Counts by name.
const COUNTS: [(&str, CountOf); 9] = [
    ("received", |report| exactly(Some(report.figures.totals.received))),
    ("unique", |report| exactly(Some(report.figures.unique))),
    ("missing", |report| {
        // Of the frames that were lost here, some may be the last ones.
        Some((report.figures.missing, report.figures.missing + report.lost_ring.unwrap_or(0)))
    }),
    ("duplicate", |report| exactly(Some(report.figures.duplicate))),
    ("reordered", |report| exactly(Some(report.figures.reordered))),
    ("too-old", |report| exactly(Some(report.figures.too_old))),
    ("late", |report| report.figures.late.map(|late| (late, late + report.figures.too_old))),
    ("rejected", |report| exactly(report.rejected)),
    ("flows", |report| exactly(Some(report.figures.flows))),
];

/// Latencies by name.
const TIMES: [(&str, TimeOf); 5] = [
    ("min", |latency| Some(latency.min_ns)),
    ("mean", |latency| Some(latency.mean_ns)),
    ("max", |latency| Some(latency.max_ns)),
    ("pdv", |latency| latency.pdv_p999_ns),
    ("jitter", |latency| latency.jitter_mean_ns.map(|ns| ns.ceil() as u64)),
];

/// The limit of a check.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Frames, or nanoseconds.
    Value(u64),
    /// Parts per billion of the sent frames, or of the received ones for a result that only they
    /// have.
    Share(u64),
    /// Frames per million seconds.
    FrameRate(u64),
    /// Bits per second on the wire.
    BitRate(u64),
}

/// Counts that are a share of the sent frames; the others are shares of the received ones.
const OF_SENT: [&str; 3] = ["received", "unique", "missing"];

/// A check.
#[derive(Clone, Debug)]
pub struct Expectation {
    text: String,
    metric: Metric,
    holds: Comparison,
    limit: Limit,
    is_of_sent: bool,
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, holds, limit) = split_check(text, "lost=0 or p99<50us")?;
        let metric = metric(name).ok_or_else(|| format!("no result `{name}`; there are {}", names()))?;
        let limit = match metric {
            Metric::Lost | Metric::Counted(_) | Metric::Other(_) if limit.ends_with('%') => {
                let share = percentage(limit).map(Limit::Share);
                share.ok_or_else(|| format!("`{limit}` is not a percentage from 0% to 100%, such as 0.1%"))?
            }
            Metric::Lost | Metric::Counted(_) | Metric::Other(_) => {
                Limit::Value(limit.parse::<Count>().map_err(|why| why.to_string())?.0)
            }
            Metric::Time(_) | Metric::Percentile(_) => {
                Limit::Value(limit.parse::<Nanos>().map_err(|why| why.to_string())?.0)
            }
            Metric::Rate => match (limit.parse::<FrameRate>(), limit.parse::<BitRate>()) {
                (Ok(rate), _) => Limit::FrameRate(rate.0),
                (Err(_), Ok(rate)) => Limit::BitRate(rate.0),
                (Err(why), Err(_)) => return Err(why.to_string()),
            },
        };
        let is_of_sent = matches!(metric, Metric::Lost) || OF_SENT.contains(&name);
        Ok(Self { text: text.to_owned(), metric, holds, limit, is_of_sent })
    }
}

fn metric(name: &str) -> Option<Metric> {
    match name {
        "lost" => return Some(Metric::Lost),
        "rate" => return Some(Metric::Rate),
        _ => {}
    }
    let percentile = name.strip_prefix('p').and_then(|digits| digits.parse().ok());
    if let Some(percentile) = percentile.filter(|percentile| PERCENTILES.contains(percentile)) {
        return Some(Metric::Percentile(percentile));
    }
    let count = COUNTS.into_iter().find(|(known, _)| *known == name);
    let time = TIMES.into_iter().find(|(known, _)| *known == name);
    if let Some(name) = group_names().find(|known| option_name(known) == name) {
        return Some(Metric::Other(name));
    }
    count.map(|(_, of)| Metric::Counted(of)).or_else(|| time.map(|(_, of)| Metric::Time(of)))
}

/// The counts that views have by groups.
fn group_names() -> impl Iterator<Item = &'static str> {
    OtherFrames::NAMES.iter().chain(UnusualFrames::NAMES).copied()
}

/// The name of a count in a check.
fn option_name(name: &str) -> String {
    name.replace('_', "-")
}

fn names() -> String {
    let percentiles = PERCENTILES.iter().map(|percentile| format!("p{percentile}"));
    let counts = COUNTS.iter().map(|(name, _)| (*name).to_owned());
    let times = TIMES.iter().map(|(name, _)| (*name).to_owned());
    ["lost", "rate"]
        .map(str::to_owned)
        .into_iter()
        .chain(counts)
        .chain(group_names().map(option_name))
        .chain(times)
        .chain(percentiles)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Expectation {
    /// True if the check needs the number of sent frames.
    pub fn needs_sent(&self) -> bool {
        matches!(self.metric, Metric::Lost) || (self.is_of_sent && matches!(self.limit, Limit::Share(_)))
    }

    /// The failure as a sentence; `None` if the check holds for every value that is possible.
    pub fn failure(&self, report: &Report) -> Option<String> {
        let latency = report.figures.latency.as_ref();
        let found = match self.metric {
            Metric::Lost => report.loss.map(|loss| (loss.lost_min, loss.lost_max)),
            Metric::Counted(of) => of(report),
            Metric::Other(name) => {
                let totals = &report.figures.totals;
                exactly(totals.others.get(name).or(totals.unusual.get(name)))
            }
            Metric::Rate => return self.rate_failure(report),
            Metric::Time(of) => exactly(latency.and_then(of)),
            Metric::Percentile(percentile) => exactly(latency.and_then(|latency| latency.at(percentile))),
        };
        let is_time = matches!(self.metric, Metric::Time(_) | Metric::Percentile(_));
        let whole = match self.is_of_sent {
            true => report.loss.map(|loss| loss.sent),
            false => Some(report.figures.totals.received),
        };
        let found = found.filter(|_| !self.needs_sent() || whole.is_some());
        let share = |count: u64| {
            let share = count as f64 / whole.unwrap_or(0).max(1) as f64;
            format!("{count}, {:.4} % of {}", share * 100.0, human_count(whole.unwrap_or(0)))
        };
        match found {
            None if self.needs_sent() => Some(format!(
                "{self} failed: the sender announced no end (`send --end-frames 5`), and there is no --sent N"
            )),
            None => Some(format!("{self} failed: it was not measured")),
            Some((min, max)) if self.holds_between(min, max, whole.unwrap_or(0)) => None,
            Some((min, max)) if min == max && matches!(self.limit, Limit::Share(_)) => {
                Some(format!("{self} failed: it is {}", share(max)))
            }
            Some((_, found)) if is_time => Some(format!("{self} failed: it is {}", human_duration(found))),
            Some((min, max)) if min == max => Some(format!("{self} failed: it is {max}")),
            Some((min, max)) => {
                Some(format!("{self} failed: it is {min} to {max}, as {}", report.uncertainty()))
            }
        }
    }
}

impl Expectation {
    /// True if the check holds for every value from `min` to `max`. `whole` are the frames that a
    /// share is a part of.
    fn holds_between(&self, min: u64, max: u64, whole: u64) -> bool {
        let (limit, scale) = match self.limit {
            Limit::Share(ppb) => (u128::from(ppb) * u128::from(whole), 1_000_000_000),
            Limit::Value(limit) | Limit::FrameRate(limit) | Limit::BitRate(limit) => (u128::from(limit), 1),
        };
        let [min, max] = [min, max].map(|found| u128::from(found) * scale);
        // The comparisons change their answer at the limit only.
        [min, limit.clamp(min, max), max].into_iter().all(|found| (self.holds)(found, limit))
    }

    /// The failure of a check of the rate of received frames, which is that of the report.
    fn rate_failure(&self, report: &Report) -> Option<String> {
        let active = &report.head.active;
        let Some((pps, frame_bps)) = active.rate_pps.zip(active.rate_bps) else {
            return Some(format!("{self} failed: it was not measured"));
        };
        let bps = frame_bps + pps * f64::from(8 * WIRE_OVERHEAD);
        let (found, limit, text) = match self.limit {
            Limit::BitRate(limit) => (bps, u128::from(limit), human_bps(bps)),
            Limit::Value(limit) | Limit::Share(limit) | Limit::FrameRate(limit) => {
                (pps * 1e6, u128::from(limit), human_pps(pps))
            }
        };
        (!(self.holds)(found as u128, limit)).then(|| format!("{self} failed: it is {text}"))
    }
}

/// A value that is known exactly, as an interval.
fn exactly(found: Option<u64>) -> Option<(u64, u64)> {
    found.map(|found| (found, found))
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check {}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn failure(text: &str) -> Option<String> {
        text.parse::<Expectation>().expect(text).failure(&sample())
    }

    #[test]
    fn checks_of_counts_and_times_hold_or_fail() {
        for text in ["lost=10", "lost<=10", "lost!=0", "duplicate = 0", "p50<5us", "max>=9us", "unique>1k"] {
            assert_eq!(failure(text), None, "{text}");
        }
        assert_eq!(failure("lost=0").as_deref(), Some("check lost=0 failed: it is 10"));
        for text in [
            "lost<1%",
            "lost<=0.9803922%",
            "lost>0.9803921%",
            "unique>99%",
            "received<99.1%",
            "missing=0%",
            "duplicate<0.1%",
            "reordered=0%",
            "rate>=1kpps",
            "rate>1009.99",
            "rate<1.0101k",
            "rate>=678kbit",
            "rate<=0.68Mbit",
        ] {
            assert_eq!(failure(text), None, "{text}");
        }
        let lost = failure("lost<0.1%").expect("it is more");
        assert_eq!(lost, "check lost<0.1% failed: it is 10, 0.9804 % of 1,020");
        let rate = failure("rate>=900kpps").expect("it is less");
        assert_eq!(rate, "check rate>=900kpps failed: it is 1.010 kpps");
        let p99 = failure("p99<1us").expect("it is longer");
        assert!(p99.starts_with("check p99<1us failed: it is ") && p99.ends_with(" µs"), "{p99}");
    }

    #[test]
    fn a_check_of_a_loss_that_is_an_interval_holds_for_all_of_it_or_fails() {
        let mut report = sample();
        report.loss = Some(measure::Loss { sent: 100, lost_min: 6, lost_max: 10, excess: 0, late: 0 });
        let failure = |text: &str| text.parse::<Expectation>().expect(text).failure(&report);
        for holds in ["lost<=10", "lost<11", "lost>=6", "lost>5", "lost!=5", "lost!=11"] {
            assert_eq!(failure(holds), None, "{holds}");
        }
        for fails in
            ["lost=10", "lost=6", "lost=8", "lost!=8", "lost!=10", "lost<10", "lost<=9", "lost>6", "lost>=7"]
        {
            let expected = format!("check {fails} failed: it is 6 to 10, as frames arrived too old");
            assert_eq!(failure(fails), Some(expected));
        }
    }

    /// A receiver that lost most frames in its own ring reported none missing.
    #[test]
    fn what_the_receiver_may_not_have_seen_fails_a_check() {
        let mut report = sample();
        report.lost_ring = Some(3);
        report.figures.late = Some(0);
        let failure = |report: &Report, text: &str| text.parse::<Expectation>().expect(text).failure(report);
        let missing = failure(&report, "missing=0").expect("some may be missing");
        assert_eq!(missing, "check missing=0 failed: it is 0 to 3, as the receiver itself lost frames");
        assert_eq!((failure(&report, "missing<=3"), failure(&report, "late=0")), (None, None));
        (report.lost_ring, report.figures.too_old) = (Some(0), 2);
        let late = failure(&report, "late=0").expect("those too old may be late");
        assert_eq!(late, "check late=0 failed: it is 0 to 2, as frames arrived too old");
    }

    #[test]
    fn words_that_are_no_check_are_refused_with_the_names() {
        for (text, says) in [
            ("lost", "comparisons: = != < <= > >="),
            ("losst=0", "no result `losst`; there are lost, rate, received,"),
            ("p98<1us", "p99.9"),
            ("lost=x", ""),
            ("lost<101%", "not a percentage from 0% to 100%"),
            ("p99<1%", ""),
            ("rate>=fast", ""),
        ] {
            let why = text.parse::<Expectation>().expect_err(text);
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn a_result_that_was_not_measured_fails_its_check() {
        let mut report = sample();
        report.figures.latency = None;
        let check: Expectation = "p50<1s".parse().unwrap();
        assert_eq!(check.failure(&report).as_deref(), Some("check p50<1s failed: it was not measured"));
        let check_late: Expectation = "late=0".parse().unwrap();
        assert_eq!(check_late.failure(&report).as_deref(), Some("check late=0 failed: it was not measured"));
        report.figures.late = Some(0);
        assert_eq!(check_late.failure(&report), None);
        assert!(!check.needs_sent() && "lost=0".parse::<Expectation>().unwrap().needs_sent());
    }
}
