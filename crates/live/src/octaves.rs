//! Histograms whose bounds are powers of two nanoseconds, with finer bounds for quantiles.

use metrics::{FamilyKind, FineCounts, MetricFamily};

/// Counts by octave; the last bucket is above all bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Octaves {
    /// Exponent of the first bound.
    first: u32,
    counts: Vec<u64>,
    /// Counts of the values by finer bounds in nanoseconds; empty without finer bounds.
    fine: FineCounts,
}

impl Octaves {
    /// Of a family that is a histogram, without counts.
    pub(crate) fn of(family: &MetricFamily) -> Self {
        match family.kind {
            FamilyKind::Histogram { first, last } => {
                let counts = vec![0; (last - first + 2) as usize];
                Self { first, counts, fine: FineCounts::new() }
            }
            FamilyKind::Counter | FamilyKind::Gauge => unreachable!("{} is a histogram", family.name),
        }
    }

    pub(crate) fn add(&mut self, counts: &[u64]) {
        self.counts.iter_mut().zip(counts).for_each(|(own, more)| *own += more);
    }

    /// With finer bounds for quantiles.
    pub(crate) fn with_fine(self, fine: Option<&FineCounts>) -> Self {
        Self { fine: fine.cloned().unwrap_or_default(), ..self }
    }

    /// The counts since `earlier`.
    pub(crate) fn since(&self, earlier: Option<&Self>) -> Self {
        let Some(earlier) = earlier else { return self.clone() };
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        let fine_before = |bound_ns| earlier.fine.get(bound_ns).copied().unwrap_or(0);
        let fine = self.fine.iter();
        let fine = fine.map(|(bound_ns, now)| (*bound_ns, now.saturating_sub(fine_before(bound_ns))));
        Self { first: self.first, counts, fine: fine.filter(|(_, count)| *count > 0).collect() }
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bound in nanoseconds that at least the part `share` of the values does not exceed;
    /// `u64::MAX` above all bounds; `None` without values.
    pub(crate) fn quantile_ns(&self, share: f64) -> Option<u64> {
        let wanted = (self.total() as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0;
        let mut reaches = |count: u64| {
            below += count;
            below >= wanted
        };
        if !self.fine.is_empty() {
            return self.fine.iter().find(|(_, count)| reaches(**count)).map(|(bound_ns, _)| *bound_ns);
        }
        self.counts.iter().position(|count| reaches(*count)).map(|index| self.bound_ns(index))
    }

    /// The bounds and counts from the first to the last bucket that is not empty.
    pub(crate) fn used(&self) -> Vec<(u64, u64)> {
        let Some(first) = self.counts.iter().position(|count| *count > 0) else { return Vec::new() };
        let last = self.counts.iter().rposition(|count| *count > 0).unwrap_or(first);
        (first..=last).map(|index| (self.bound_ns(index), self.counts[index])).collect()
    }

    fn bound_ns(&self, index: usize) -> u64 {
        if index + 1 == self.counts.len() { u64::MAX } else { 1 << (self.first as usize + index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::families::SEND_GAP_ERROR;

    #[test]
    fn quantiles_are_bounds_that_hold() {
        let mut octaves = Octaves::of(&SEND_GAP_ERROR);
        assert_eq!((octaves.quantile_ns(0.5), octaves.used()), (None, Vec::new()));
        let mut counts = vec![0; 20];
        (counts[1], counts[3], counts[19]) = (98, 1, 1);
        octaves.add(&counts);
        assert_eq!(octaves.quantile_ns(0.5), Some(128));
        assert_eq!(octaves.quantile_ns(0.99), Some(512));
        assert_eq!(octaves.quantile_ns(1.0), Some(u64::MAX));
        assert_eq!(octaves.used().len(), 19);
        let none = octaves.since(Some(&octaves.clone()));
        assert_eq!(none.total(), 0);
        assert_eq!(octaves.since(None), octaves);
    }

    #[test]
    fn quantiles_are_as_fine_as_those_of_the_report() {
        let fine = |counts: &[(u64, u64)]| FineCounts::from_iter(counts.iter().copied());
        let of = |coarse: u64, counts: &[(u64, u64)]| {
            let mut octaves = Octaves::of(&SEND_GAP_ERROR);
            let mut own = vec![0; 20];
            own[4] = coarse;
            octaves.add(&own);
            octaves.with_fine(Some(&fine(counts)))
        };
        let (earlier, now) = (of(10, &[(859, 10)]), of(30, &[(859, 20), (1015, 10)]));
        let at = |octaves: &Octaves| [0.5, 1.0].map(|share| octaves.quantile_ns(share));
        assert_eq!(at(&now), [Some(859), Some(1015)]);
        assert_eq!(at(&now.since(Some(&earlier))), [Some(859), Some(1015)]);
        assert_eq!(now.since(Some(&earlier)).quantile_ns(0.51), Some(1015));
        assert_eq!(at(&now.since(Some(&now))), [None, None]);
    }
}
