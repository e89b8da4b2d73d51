//! `--expect 'lost=0'` of a run of a fleet: checks of its account that decide the exit code.

use fleet::{CountBounds, FlowAccount, RunAccount};
use measure::PERCENTILES;
use program::expectations::{Comparison, split_check};
use std::str::FromStr;
use units::{Count, Nanos, human_duration, percentage};

/// Reads a sum from an account.
type SumOf = fn(&RunAccount) -> CountBounds;

/// Sums that can be checked.
const COUNTS: [(&str, SumOf); 6] = [
    ("lost", |account| account.lost),
    ("sent", |account| account.sent),
    ("received", |account| account.received),
    ("duplicate", |account| sum(account, |flow| flow.duplicate)),
    ("reordered", |account| sum(account, |flow| flow.reordered)),
    ("rejected", |account| sum(account, |flow| flow.errors)),
];

/// A sum over all flows: a lower bound if the count of one is not known.
fn sum(account: &RunAccount, of: fn(&FlowAccount) -> Option<u64>) -> CountBounds {
    let min = account.flows.iter().filter_map(of).fold(0, u64::saturating_add);
    let is_exact = account.flows.iter().all(|flow| of(flow).is_some() && flow.is_exact());
    CountBounds { min, max: is_exact.then_some(min) }
}

/// A result that can be checked.
#[derive(Clone, Copy, Debug)]
enum FleetMetric {
    /// Frames of all flows.
    Counted(SumOf),
    /// A percentile of the latency; 0 is the lowest one, 100 the highest.
    Latency(f64),
}

/// The limit of a check.
#[derive(Clone, Copy, Debug)]
enum FleetLimit {
    /// Frames, or nanoseconds.
    Value(u64),
    /// Parts per billion of the sent frames.
    Share(u64),
}

/// A check.
#[derive(Clone, Debug)]
pub(super) struct FleetCheck {
    text: String,
    metric: FleetMetric,
    holds: Comparison,
    limit: FleetLimit,
}

impl FromStr for FleetCheck {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, holds, limit) = split_check(text, "lost=0 or p99<50us")?;
        let metric = metric(name).ok_or_else(|| format!("no result `{name}`; there are {}", names()))?;
        let limit = match metric {
            FleetMetric::Counted(_) if limit.ends_with('%') => {
                let share = percentage(limit).map(FleetLimit::Share);
                share.ok_or_else(|| format!("`{limit}` is not a percentage from 0% to 100%, such as 0.1%"))?
            }
            FleetMetric::Counted(_) => {
                FleetLimit::Value(limit.parse::<Count>().map_err(|why| why.to_string())?.0)
            }
            FleetMetric::Latency(_) => {
                FleetLimit::Value(limit.parse::<Nanos>().map_err(|why| why.to_string())?.0)
            }
        };
        Ok(Self { text: text.to_owned(), metric, holds, limit })
    }
}

fn metric(name: &str) -> Option<FleetMetric> {
    let count = COUNTS.into_iter().find(|(known, _)| *known == name);
    let percentile = match name {
        "min" => Some(0.0),
        "max" => Some(100.0),
        name => {
            let percentile = name.strip_prefix('p').and_then(|digits| digits.parse().ok());
            percentile.filter(|percentile| PERCENTILES.contains(percentile))
        }
    };
    count.map(|(_, of)| FleetMetric::Counted(of)).or(percentile.map(FleetMetric::Latency))
}

fn names() -> String {
    let counts = COUNTS.iter().map(|(name, _)| (*name).to_owned());
    let percentiles = PERCENTILES.iter().map(|percentile| format!("p{percentile}"));
    let all = counts.chain(["min", "max"].map(str::to_owned)).chain(percentiles);
    all.collect::<Vec<_>>().join(", ")
}

impl FleetCheck {
    /// The failure as a sentence; `None` if the check holds for every value that is possible.
    pub(super) fn failure(&self, account: &RunAccount) -> Option<String> {
        let failed = |found: &str| Some(format!("check {} failed: it is {found}", self.text));
        match self.metric {
            FleetMetric::Counted(of) => {
                let found = of(account);
                if self.holds_between(found, account.sent) { None } else { failed(&found.to_string()) }
            }
            FleetMetric::Latency(percentile) => {
                let latency = account.latency.as_ref().filter(|latency| latency.is_complete);
                let Some(latency) = latency else { return failed("not completely known") };
                let at = |(of, ns): &(f64, u64)| (*of == percentile).then_some(*ns);
                let ns = match percentile {
                    0.0 => latency.min_ns,
                    100.0 => latency.max_ns,
                    _ => latency.percentiles.iter().find_map(at)?,
                };
                let holds = self.holds_between(CountBounds { min: ns, max: Some(ns) }, account.sent);
                if holds { None } else { failed(&human_duration(ns)) }
            }
        }
    }

    /// True if the check holds for every value within these bounds.
    fn holds_between(&self, found: CountBounds, sent: CountBounds) -> bool {
        let (limit, scale) = match (self.limit, sent.known()) {
            (FleetLimit::Value(limit), _) => (u128::from(limit), 1),
            (FleetLimit::Share(ppb), Some(sent)) => (u128::from(ppb) * u128::from(sent), 1_000_000_000),
            (FleetLimit::Share(_), None) => return false,
        };
        let min = u128::from(found.min) * scale;
        let max = found.max.map_or(u128::MAX, |max| u128::from(max) * scale);
        // The comparisons change their answer at the limit only.
        [min, limit.clamp(min, max), max].into_iter().all(|found| (self.holds)(found, limit))
    }
}

/// Checks of an account.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct FleetChecks {
    /// Check a result; the exit code is 1 if it fails: lost<0.1%, duplicate=0, p99<50us. Without
    /// checks it is 1 if frames are lost
    #[arg(long, value_name = "CHECK")]
    expect: Vec<FleetCheck>,
}

impl FleetChecks {
    /// True if the run is whole and had its rates, and all checks hold; without checks, if nothing
    /// is lost. Failed checks are printed.
    pub(super) fn hold(&self, account: &RunAccount) -> bool {
        let failed: Vec<String> = self.expect.iter().filter_map(|check| check.failure(account)).collect();
        failed.iter().for_each(|failure| program::note!("{failure}"));
        let has_lost = self.expect.is_empty() && account.lost.max != Some(0);
        account.is_good() && failed.is_empty() && !has_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::{LastWords, RunPlan};

    /// Of a run without flows, with these sums.
    fn account(sent: (u64, Option<u64>), lost: (u64, Option<u64>)) -> RunAccount {
        let plan = RunPlan {
            run: "r".parse().unwrap(),
            start_at_ns: 0,
            duration_ns: 1,
            settle_ns: 0,
            flows: Vec::new(),
            hosts: Vec::new(),
        };
        let bounds = |(min, max)| CountBounds { min, max };
        let (sent, lost) = (bounds(sent), bounds(lost));
        RunAccount { sent, lost, ..RunAccount::of(&plan, &LastWords::of_run(&plan)) }
    }

    #[test]
    fn a_check_holds_for_all_that_is_possible_or_fails() {
        let failure = |text: &str, account: &RunAccount| text.parse::<FleetCheck>().unwrap().failure(account);
        let exact = account((5584, Some(5584)), (622, Some(622)));
        for holds in ["lost=622", "lost<12%", "lost>=11%", "sent=5584", "duplicate=0", "rejected=0"] {
            assert_eq!(failure(holds, &exact), None, "{holds}");
        }
        assert_eq!(failure("lost<1%", &exact).unwrap(), "check lost<1% failed: it is 622");
        assert_eq!(failure("p99<1s", &exact).unwrap(), "check p99<1s failed: it is not completely known");
        let range = account((90, None), (0, Some(40)));
        assert_eq!(failure("lost<=40", &range), None);
        assert_eq!(failure("lost=0", &range).unwrap(), "check lost=0 failed: it is 0 to 40");
        assert!(failure("lost<99%", &range).is_some(), "a share of an unknown count");
        assert_eq!(failure("sent<1000", &range).unwrap(), "check sent<1000 failed: it is at least 90");
    }

    #[test]
    fn words_that_are_no_check_are_refused_with_the_names() {
        for (text, says) in [
            ("lost", "comparisons: = != < <= > >="),
            ("losst=0", "no result `losst`; there are lost, sent, received,"),
            ("lost<101%", "not a percentage from 0% to 100%"),
            ("p99<1%", ""),
        ] {
            let why = text.parse::<FleetCheck>().expect_err(text);
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
