//! Readings over time: the present rates, and one point per second for the graphs.

use crate::figures::{CountTable, LiveFigures};
use crate::octaves::Octaves;
use std::collections::VecDeque;
use std::time::Duration;

/// Time that a rate is computed over, and time from one point of a graph to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// A reading that is this early still ends a period: readings come about every 250 ms.
const JITTER_MAX: Duration = Duration::from_millis(125);
/// Points that are kept: more than a terminal has columns.
const POINTS_MAX: usize = 600;

/// One point of each graph. `None` where nothing is counted, such as a latency without frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraphPoint {
    pub(crate) sent_pps: Option<u64>,
    pub(crate) received_pps: Option<u64>,
    pub(crate) lost_pps: Option<u64>,
    pub(crate) latency_p99_ns: Option<u64>,
    pub(crate) gap_error_p99_ns: Option<u64>,
    pub(crate) ring_milli: Option<u64>,
}

/// What has been read so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Readings of the last period, the oldest first.
    recent: VecDeque<(Duration, LiveFigures)>,
    /// The reading of the last point.
    mark: Option<(Duration, LiveFigures)>,
    points: VecDeque<GraphPoint>,
    /// Points so far, with those that are no longer kept.
    point_count: u64,
    /// Counts are shown from this reading on.
    base: LiveFigures,
}

impl History {
    /// Adds a reading that was made at `now`, after the start.
    pub(crate) fn add(&mut self, now: Duration, figures: LiveFigures) {
        let (marked, before) = self.mark.get_or_insert_with(|| (now, figures.clone()));
        if now + JITTER_MAX >= *marked + PERIOD {
            self.points.push_back(point(before, &figures, now - *marked));
            self.point_count += 1;
            self.points.drain(..self.points.len().saturating_sub(POINTS_MAX));
            self.mark = Some((now, figures.clone()));
        }
        self.recent.push_back((now, figures));
        while self.recent.get(1).is_some_and(|(time, _)| *time + PERIOD <= now) {
            self.recent.pop_front();
        }
    }

    /// Begins the counts and the graphs anew.
    pub(crate) fn clear(&mut self) {
        self.base = self.now().clone();
        self.points.clear();
    }

    /// The last reading.
    pub(crate) fn now(&self) -> &LiveFigures {
        const NOTHING: &LiveFigures = &LiveFigures {
            sent: None,
            sent_bits: None,
            target_pps: None,
            received: None,
            received_bits: None,
            lost: std::collections::BTreeMap::new(),
            latency: None,
            gap_error: None,
            ring_milli: None,
            tables: Vec::new(),
        };
        self.recent.back().map_or(NOTHING, |(_, figures)| figures)
    }

    /// A count since the last clearing.
    pub(crate) fn count(&self, count: impl Fn(&LiveFigures) -> Option<u64>) -> Option<u64> {
        Some(count(self.now())?.saturating_sub(count(&self.base).unwrap_or(0)))
    }

    /// Growth of a count per second during the last second.
    pub(crate) fn rate(&self, count: impl Fn(&LiveFigures) -> Option<u64>) -> Option<f64> {
        let ((first, before), (last, now)) = (self.recent.front()?, self.recent.back()?);
        rate(count(before), count(now)?, *last - *first)
    }

    /// Losses since the last clearing by reason.
    pub(crate) fn lost(&self) -> Vec<(&str, u64)> {
        let before = |reason: &str| self.base.lost.get(reason).copied().unwrap_or(0);
        let lost = self.now().lost.iter();
        lost.map(|(reason, count)| (reason.as_str(), count.saturating_sub(before(reason))))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// A histogram since the last clearing.
    pub(crate) fn octaves(&self, which: impl Fn(&LiveFigures) -> Option<&Octaves>) -> Option<Octaves> {
        Some(which(self.now())?.since(which(&self.base)))
    }

    /// A table with its counts since the last clearing, and the rate of the first count of each
    /// row.
    pub(crate) fn table(&self, index: usize) -> Option<(CountTable, Vec<f64>)> {
        let title = self.now().tables.get(index)?.title;
        let of = |figures: &LiveFigures| figures.tables.iter().find(|table| table.title == title).cloned();
        let (mut table, base) = (of(self.now())?, of(&self.base));
        let count = |figures: &LiveFigures, keys: &[String]| {
            let table = figures.tables.iter().find(|table| table.title == title)?;
            table.row(keys)?.counts[0]
        };
        let rates =
            table.rows.iter().map(|row| self.rate(|figures| count(figures, &row.keys)).unwrap_or(0.0));
        let rates = rates.collect();
        for row in &mut table.rows {
            let Some(before) = base.as_ref().and_then(|base| base.row(&row.keys)) else { continue };
            for (count, before) in row.counts.iter_mut().zip(&before.counts) {
                *count = count.map(|count| count.saturating_sub(before.unwrap_or(0)));
            }
        }
        Some((table, rates))
    }

    /// The points, the newest first.
    pub(crate) fn points(&self) -> impl DoubleEndedIterator<Item = &GraphPoint> {
        self.points.iter().rev()
    }

    /// Number of points so far, with those that are no longer kept.
    pub(crate) fn point_count(&self) -> u64 {
        self.point_count
    }
}

/// Per second. A count that has appeared since began at 0.
fn rate(before: Option<u64>, now: u64, passed: Duration) -> Option<f64> {
    let grown = now.saturating_sub(before.unwrap_or(0)) as f64;
    (passed > Duration::ZERO).then(|| grown / passed.as_secs_f64())
}

fn point(before: &LiveFigures, now: &LiveFigures, passed: Duration) -> GraphPoint {
    let per_second = |count: fn(&LiveFigures) -> Option<u64>| {
        rate(count(before), count(now)?, passed).map(|rate| rate.round() as u64)
    };
    let p99 =
        |which: fn(&LiveFigures) -> Option<&Octaves>| which(now)?.since(which(before)).quantile_ns(0.99);
    GraphPoint {
        sent_pps: per_second(|figures| figures.sent),
        received_pps: per_second(|figures| figures.received),
        lost_pps: per_second(|figures| Some(figures.lost_total())),
        latency_p99_ns: p99(|figures| figures.latency.as_ref()),
        gap_error_p99_ns: p99(|figures| figures.gap_error.as_ref()),
        ring_milli: now.ring_milli,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sent: u64) -> LiveFigures {
        LiveFigures { sent: Some(sent), ..LiveFigures::default() }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn rates_are_those_of_the_last_second() {
        let mut history = History::default();
        assert_eq!(history.rate(|figures| figures.sent), None);
        for step in 0..=20 {
            history.add(ms(250 * step), sent(if step < 10 { 0 } else { (step - 10) * 100 }));
        }
        assert_eq!(history.rate(|figures| figures.sent), Some(400.0));
        let points: Vec<_> = history.points().map(|point| point.sent_pps).collect();
        assert_eq!(points, [Some(400), Some(400), Some(200), Some(0), Some(0)]);
    }

    #[test]
    fn a_late_reading_makes_one_point_of_its_mean() {
        let mut history = History::default();
        history.add(ms(0), sent(0));
        history.add(ms(4000), sent(8000));
        assert_eq!(history.points().map(|point| point.sent_pps).collect::<Vec<_>>(), [Some(2000)]);
    }

    #[test]
    fn clearing_starts_the_counts_at_zero() {
        let mut history = History::default();
        history.add(ms(0), sent(500));
        history.add(ms(1000), sent(700));
        history.clear();
        assert_eq!((history.count(|figures| figures.sent), history.points().count()), (Some(0), 0));
        history.add(ms(2000), sent(900));
        assert_eq!(history.count(|figures| figures.sent), Some(200));
        assert_eq!(history.rate(|figures| figures.sent), Some(200.0));
    }

    #[test]
    fn a_count_that_appears_late_began_at_zero() {
        let mut history = History::default();
        history.add(ms(0), LiveFigures::default());
        history.add(ms(1000), sent(50));
        assert_eq!(history.rate(|figures| figures.sent), Some(50.0));
    }
}
