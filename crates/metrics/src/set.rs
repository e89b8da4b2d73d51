//! The values at one moment.

use crate::families::{FAMILIES, FamilyKind, MetricFamily};
use std::collections::BTreeMap;

/// Values of families by their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricSet {
    /// By the place of the family in [`FAMILIES`], then by the values of its labels.
    values: BTreeMap<usize, BTreeMap<Vec<String>, MetricValue>>,
    /// Counts by bounds in nanoseconds that are finer than those of the family, for screens. They
    /// are not exported.
    fine: BTreeMap<usize, FineCounts>,
}

/// Counts by the upper bounds of their buckets in nanoseconds.
pub type FineCounts = BTreeMap<u64, u64>;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MetricValue {
    /// Exact: a frame count may be above 2^53.
    Count(u64),
    Number(f64),
    /// Counts of each bucket, the last one up to infinity, and the sum in seconds.
    Histogram {
        buckets: Vec<u64>,
        sum: f64,
    },
}

impl MetricValue {
    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Count(own), Self::Count(more)) => *own += more,
            (Self::Number(own), Self::Number(more)) => *own += more,
            (Self::Histogram { buckets, sum }, Self::Histogram { buckets: more, sum: more_sum }) => {
                buckets.iter_mut().zip(more).for_each(|(own, more)| *own += more);
                *sum += more_sum;
            }
            (own, more) => unreachable!("{own:?} and {more:?} are of one family"),
        }
    }
}

impl MetricSet {
    /// Adds to a counter.
    pub fn count(&mut self, family: &MetricFamily, labels: &[&str], count: u64) {
        assert_eq!(family.kind, FamilyKind::Counter, "{}", family.name);
        self.add(family, labels, &MetricValue::Count(count));
    }

    /// Adds to a counter of seconds.
    pub fn count_seconds(&mut self, family: &MetricFamily, labels: &[&str], seconds: f64) {
        assert_eq!(family.kind, FamilyKind::Counter, "{}", family.name);
        self.add(family, labels, &MetricValue::Number(seconds));
    }

    /// Sets a gauge.
    pub fn gauge(&mut self, family: &MetricFamily, labels: &[&str], value: f64) {
        assert_eq!(family.kind, FamilyKind::Gauge, "{}", family.name);
        let value = MetricValue::Number(value);
        self.place(family, labels).and_modify(|own| own.clone_from(&value)).or_insert_with(|| value.clone());
    }

    /// Adds to a gauge, for a value that several threads share.
    pub fn add_gauge(&mut self, family: &MetricFamily, labels: &[&str], value: f64) {
        assert_eq!(family.kind, FamilyKind::Gauge, "{}", family.name);
        self.add(family, labels, &MetricValue::Number(value));
    }

    /// Adds to a histogram: counts by bucket, one more than the family has bounds, and the sum of
    /// all values in seconds.
    pub fn histogram(&mut self, family: &MetricFamily, labels: &[&str], buckets: &[u64], sum_seconds: f64) {
        assert_eq!(buckets.len(), family.bounds().len() + 1, "{}", family.name);
        let value = MetricValue::Histogram { buckets: buckets.to_vec(), sum: sum_seconds };
        self.add(family, labels, &value);
    }

    /// Adds counts to the finer buckets of a histogram: upper bounds in nanoseconds and counts.
    pub fn fine_counts(&mut self, family: &MetricFamily, counts: impl IntoIterator<Item = (u64, u64)>) {
        let own = self.fine.entry(place_of(family)).or_default();
        for (bound_ns, count) in counts {
            *own.entry(bound_ns).or_default() += count;
        }
    }

    /// The finer buckets of a histogram, of all labels together; `None` if it has none.
    pub fn fine(&self, family: &MetricFamily) -> Option<&FineCounts> {
        self.fine.get(&place_of(family))
    }

    /// Adds the counters and histograms of something that has ended. Its gauges are dropped,
    /// because it has no present state.
    pub fn add_ended(&mut self, ended: &Self) {
        for (place, counts) in &ended.fine {
            self.fine_counts(&FAMILIES[*place], counts.iter().map(|(bound_ns, count)| (*bound_ns, *count)));
        }
        for (place, samples) in &ended.values {
            if FAMILIES[*place].kind == FamilyKind::Gauge {
                continue;
            }
            let own = self.values.entry(*place).or_default();
            for (labels, value) in samples {
                match own.get_mut(labels) {
                    Some(sum) => sum.add(value),
                    None => drop(own.insert(labels.clone(), value.clone())),
                }
            }
        }
    }

    /// The values of a counter, with the values of its labels.
    pub fn counts(&self, family: &MetricFamily) -> impl Iterator<Item = (&[String], u64)> {
        self.samples(family).filter_map(|(labels, value)| match value {
            MetricValue::Count(count) => Some((labels, *count)),
            MetricValue::Number(_) | MetricValue::Histogram { .. } => None,
        })
    }

    /// The values of a gauge, with the values of its labels.
    pub fn gauges(&self, family: &MetricFamily) -> impl Iterator<Item = (&[String], f64)> {
        self.samples(family).filter_map(|(labels, value)| match value {
            MetricValue::Number(value) => Some((labels, *value)),
            MetricValue::Count(_) | MetricValue::Histogram { .. } => None,
        })
    }

    /// The buckets of a histogram, with the values of its labels.
    pub fn histograms(&self, family: &MetricFamily) -> impl Iterator<Item = (&[String], &[u64])> {
        self.samples(family).filter_map(|(labels, value)| match value {
            MetricValue::Histogram { buckets, .. } => Some((labels, buckets.as_slice())),
            MetricValue::Count(_) | MetricValue::Number(_) => None,
        })
    }

    fn samples(&self, family: &MetricFamily) -> impl Iterator<Item = (&[String], &MetricValue)> {
        let samples = self.values.get(&place_of(family));
        samples.into_iter().flatten().map(|(labels, value)| (labels.as_slice(), value))
    }

    /// The families that have values, with these.
    pub(crate) fn families(
        &self,
    ) -> impl Iterator<Item = (&'static MetricFamily, &BTreeMap<Vec<String>, MetricValue>)> {
        self.values.iter().map(|(place, samples)| (&FAMILIES[*place], samples))
    }

    fn add(&mut self, family: &MetricFamily, labels: &[&str], value: &MetricValue) {
        self.place(family, labels).and_modify(|own| own.add(value)).or_insert_with(|| value.clone());
    }

    fn place(
        &mut self,
        family: &MetricFamily,
        labels: &[&str],
    ) -> std::collections::btree_map::Entry<'_, Vec<String>, MetricValue> {
        assert_eq!(family.labels.len(), labels.len(), "labels of {}", family.name);
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.values.entry(place_of(family)).or_default().entry(labels)
    }
}

/// The place of `family` in [`FAMILIES`].
fn place_of(family: &MetricFamily) -> usize {
    let place = FAMILIES.iter().position(|other| other.name == family.name);
    place.expect("every family is in the table")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{RECEIVE_FRAMES, SEND_GAP_ERROR, SEND_TARGET};

    #[test]
    fn equal_labels_are_one_value() {
        let mut set = MetricSet::default();
        set.count(&RECEIVE_FRAMES, &["a", ""], 3);
        set.count(&RECEIVE_FRAMES, &["a", ""], 4);
        set.count(&RECEIVE_FRAMES, &["b", ""], 5);
        let mut expected = MetricSet::default();
        expected.count(&RECEIVE_FRAMES, &["b", ""], 5);
        expected.count(&RECEIVE_FRAMES, &["a", ""], 7);
        assert_eq!(set, expected);
    }

    #[test]
    fn values_are_read_by_family() {
        let mut set = MetricSet::default();
        set.count(&RECEIVE_FRAMES, &["a", "lab"], 3);
        set.gauge(&SEND_TARGET, &["a", ""], 1e6);
        set.histogram(&SEND_GAP_ERROR, &["a", ""], &[1; 20], 0.5);
        let counts: Vec<_> = set.counts(&RECEIVE_FRAMES).collect();
        assert_eq!(counts, [(&["a".to_owned(), "lab".to_owned()][..], 3)]);
        assert_eq!(set.gauges(&SEND_TARGET).map(|(_, value)| value).collect::<Vec<_>>(), [1e6]);
        assert_eq!(
            set.histograms(&SEND_GAP_ERROR).map(|(_, buckets)| buckets.len()).collect::<Vec<_>>(),
            [20]
        );
        assert_eq!(set.counts(&SEND_TARGET).count(), 0, "it is no counter");
    }

    #[test]
    fn the_end_of_a_run_keeps_its_counts_and_drops_its_gauges() {
        let mut run = MetricSet::default();
        run.count(&RECEIVE_FRAMES, &["a", ""], 3);
        run.gauge(&SEND_TARGET, &["a", ""], 1e6);
        run.histogram(&SEND_GAP_ERROR, &["a", ""], &[1; 20], 0.5);
        let mut past = MetricSet::default();
        past.add_ended(&run);
        past.add_ended(&run);
        let mut expected = MetricSet::default();
        expected.count(&RECEIVE_FRAMES, &["a", ""], 6);
        expected.histogram(&SEND_GAP_ERROR, &["a", ""], &[2; 20], 1.0);
        assert_eq!(past, expected);
    }
}
