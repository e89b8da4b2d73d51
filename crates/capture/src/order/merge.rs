//! One order of time out of several queues, each of which is in order by itself.
//!
//! A queue that is empty now may still bring a record older than those of the others. So no record
//! is taken that such a record could precede, but only within a reorder window: records that come
//! later are written late, counted, and never lost. The queues themselves hold the records; this
//! module has only their heads, so memory does not grow with load.
//!
//! All times are of the clock that stamps the records. This module reads no clock and does not
//! sleep.

/// What is next in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A record, with its time.
    Record(u64),
    /// Nothing at the moment the source was looked at.
    Empty {
        /// When that was, by the clock that stamps records, in nanoseconds.
        checked_ns: u64,
    },
    /// Nothing, and never again.
    Ended,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStep {
    /// Take records from one source while their times are not beyond `until_ns`; the first one is
    /// not.
    Take {
        /// Which source.
        source: usize,
        /// Last time that may be taken without asking again.
        until_ns: u64,
    },
    /// Look at the empty sources again: any of them may have something older than what is at hand.
    Wait {
        /// When the oldest record at hand may go without them; nothing when no record is at hand.
        until_ns: Option<u64>,
    },
    /// Every source has ended.
    End,
}

/// How well the order was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Records taken.
    pub taken: u64,
    /// Records taken after a younger one.
    pub late: u64,
    /// The most by which a record was older than one taken before it, in nanoseconds: a window of
    /// so much more would have kept the order.
    pub late_max_ns: u64,
    /// Records taken out of turn, as their time had not come yet: a clock had been set back.
    pub ahead: u64,
    /// Times that the clock was set back behind what had been taken; order began anew.
    pub set_back: u64,
}

/// Decides from which source the next record is to be taken.
#[derive(Clone, Debug)]
pub struct Merger {
    heads: Vec<Head>,
    window_ns: u64,
    youngest_taken_ns: u64,
    report: MergeReport,
}

impl Merger {
    /// A merger of `source_count` sources, none of which has been looked at. `window_ns` must cover
    /// the time from a record's stamp until it can be seen in its source.
    #[must_use]
    pub fn new(source_count: usize, window_ns: u64) -> Self {
        let heads = vec![Head::Empty { checked_ns: 0 }; source_count];
        Self { heads, window_ns, youngest_taken_ns: 0, report: MergeReport::default() }
    }

    /// What is next in `source`, after it was looked at.
    ///
    /// # Panics
    /// When there is no such source.
    #[inline]
    pub fn set_head(&mut self, source: usize, head: Head) {
        self.heads[source] = head;
    }

    /// The sources that were empty when last looked at.
    pub fn empty_sources(&self) -> impl Iterator<Item = usize> + '_ {
        let is_empty = |head: &Head| matches!(head, Head::Empty { .. });
        self.heads.iter().enumerate().filter(move |(_, head)| is_empty(head)).map(|(source, _)| source)
    }

    /// What to do next in order of time.
    #[must_use]
    pub fn next(&self) -> MergeStep {
        let Some((source, time_ns, until_ns)) = self.oldest() else {
            let is_over = self.heads.iter().all(|head| *head == Head::Ended);
            return if is_over { MergeStep::End } else { MergeStep::Wait { until_ns: None } };
        };
        match self.safe_until_ns() {
            Some(safe_ns) if time_ns > safe_ns => {
                MergeStep::Wait { until_ns: Some(time_ns.saturating_add(self.window_ns)) }
            }
            Some(safe_ns) => MergeStep::Take { source, until_ns: until_ns.min(safe_ns) },
            None => MergeStep::Take { source, until_ns },
        }
    }

    /// What to do next when waiting is worse than a late record, because a source is about to
    /// overflow or the run ends.
    #[must_use]
    pub fn next_regardless(&self) -> MergeStep {
        match self.oldest() {
            Some((source, _, until_ns)) => MergeStep::Take { source, until_ns },
            None => self.next(),
        }
    }

    /// Counts a record that was taken.
    #[inline]
    pub fn took(&mut self, time_ns: u64) {
        self.report.taken += 1;
        if time_ns >= self.youngest_taken_ns {
            self.youngest_taken_ns = time_ns;
        } else {
            self.report.late += 1;
            self.report.late_max_ns = self.report.late_max_ns.max(self.youngest_taken_ns - time_ns);
        }
    }

    /// No record can be of a later time than `latest_ns`, which is now. If one was taken, the clock
    /// has been set back since; what follows is not late for it.
    #[inline]
    pub fn detect_clock_step(&mut self, latest_ns: u64) {
        if self.youngest_taken_ns > latest_ns {
            self.youngest_taken_ns = 0;
            self.report.set_back += 1;
        }
    }

    /// A source whose next record is of a later time than `latest_ns`. In its turn it would wait
    /// for as long as the clock was set back.
    #[must_use]
    pub fn source_beyond(&self, latest_ns: u64) -> Option<usize> {
        self.heads.iter().position(|head| matches!(head, Head::Record(time_ns) if *time_ns > latest_ns))
    }

    /// Counts a record that was taken before its time.
    pub fn took_future(&mut self) {
        self.report.taken += 1;
        self.report.ahead += 1;
    }

    /// Counts `count` records that were taken together, each not older than the one before it.
    /// False, and nothing counted, when the first is older than one taken before: then each must be
    /// counted by itself.
    #[inline]
    #[must_use]
    pub fn took_run(&mut self, count: u64, first_ns: u64, last_ns: u64) -> bool {
        if first_ns < self.youngest_taken_ns {
            return false;
        }
        self.report.taken += count;
        self.youngest_taken_ns = last_ns;
        true
    }

    /// How well the order was kept so far.
    #[must_use]
    pub fn report(&self) -> MergeReport {
        self.report
    }

    /// The source with the oldest record, that record's time, and the time of the oldest record of
    /// the others.
    fn oldest(&self) -> Option<(usize, u64, u64)> {
        let mut oldest: Option<(usize, u64)> = None;
        let mut until_ns = u64::MAX;
        for (source, head) in self.heads.iter().enumerate() {
            let Head::Record(time_ns) = *head else { continue };
            match oldest {
                Some((_, oldest_ns)) if oldest_ns <= time_ns => until_ns = until_ns.min(time_ns),
                _ => {
                    until_ns = oldest.map_or(until_ns, |(_, displaced_ns)| displaced_ns);
                    oldest = Some((source, time_ns));
                }
            }
        }
        oldest.map(|(source, time_ns)| (source, time_ns, until_ns))
    }

    /// The last time that no empty source can still undercut; nothing when no source is empty.
    fn safe_until_ns(&self) -> Option<u64> {
        let checked = self.heads.iter().filter_map(|head| match head {
            Head::Empty { checked_ns } => Some(*checked_ns),
            _ => None,
        });
        checked.min().map(|checked_ns| checked_ns.saturating_sub(self.window_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn merger(window_ns: u64, heads: &[Head]) -> Merger {
        let mut merger = Merger::new(heads.len(), window_ns);
        heads.iter().enumerate().for_each(|(source, head)| merger.set_head(source, *head));
        merger
    }

    #[test]
    fn a_run_of_one_source_needs_one_question() {
        let merger = merger(5, &[Head::Record(7), Head::Record(30), Head::Record(20), Head::Ended]);
        assert_eq!(merger.next(), MergeStep::Take { source: 0, until_ns: 20 });
    }

    #[test]
    fn an_empty_source_holds_the_others_for_the_window() {
        let mut merger = merger(100, &[Head::Record(1_000), Head::Empty { checked_ns: 1_099 }]);
        assert_eq!(merger.next(), MergeStep::Wait { until_ns: Some(1_100) });
        assert_eq!(merger.empty_sources().collect::<Vec<_>>(), [1]);
        merger.set_head(1, Head::Empty { checked_ns: 1_150 });
        assert_eq!(merger.next(), MergeStep::Take { source: 0, until_ns: 1_050 });
        merger.set_head(1, Head::Record(990));
        assert_eq!(merger.next(), MergeStep::Take { source: 1, until_ns: 1_000 });
    }

    #[test]
    fn a_source_that_overflows_does_not_wait() {
        let merger = merger(100, &[Head::Record(1_000), Head::Empty { checked_ns: 0 }]);
        assert_eq!(merger.next(), MergeStep::Wait { until_ns: Some(1_100) });
        assert_eq!(merger.next_regardless(), MergeStep::Take { source: 0, until_ns: u64::MAX });
    }

    #[test]
    fn the_end_comes_when_every_source_has_ended() {
        assert_eq!(Merger::new(0, 5).next(), MergeStep::End);
        assert_eq!(merger(5, &[Head::Ended, Head::Ended]).next(), MergeStep::End);
        let merger = merger(5, &[Head::Ended, Head::Empty { checked_ns: 9 }]);
        assert_eq!(merger.next(), MergeStep::Wait { until_ns: None });
        assert_eq!(merger.next_regardless(), MergeStep::Wait { until_ns: None });
    }

    #[test]
    fn what_comes_late_is_counted() {
        let mut merger = Merger::new(1, 0);
        [10, 20, 15, 20, 12, 21].into_iter().for_each(|time_ns| merger.took(time_ns));
        assert_eq!(
            merger.report(),
            MergeReport { taken: 6, late: 2, late_max_ns: 8, ..MergeReport::default() }
        );
    }

    #[test]
    fn a_run_in_order_is_counted_at_once_and_another_one_refused() {
        let mut merger = Merger::new(1, 0);
        assert!(merger.took_run(3, 10, 20));
        assert!(!merger.took_run(2, 19, 30));
        assert!(merger.took_run(1, 20, 20));
        merger.took(15);
        assert_eq!(
            merger.report(),
            MergeReport { taken: 5, late: 1, late_max_ns: 5, ..MergeReport::default() }
        );
    }

    /// A queue in which each record, put down as its time, can be seen `delay_ns` after it.
    struct Queue {
        times_ns: VecDeque<u64>,
        delay_ns: u64,
    }

    impl Queue {
        fn head(&self, now_ns: u64) -> Head {
            match self.times_ns.front() {
                None => Head::Ended,
                Some(time_ns) if time_ns + self.delay_ns <= now_ns => Head::Record(*time_ns),
                Some(_) => Head::Empty { checked_ns: now_ns },
            }
        }
    }

    /// Writes what the queues bring while the clock goes on; looks at each only when it must, as a
    /// writer does.
    fn simulate(queues: &mut [Queue], window_ns: u64, step_ns: u64) -> (Vec<u64>, MergeReport) {
        let mut merger = Merger::new(queues.len(), window_ns);
        let (mut now_ns, mut written) = (0, Vec::new());
        loop {
            match merger.next() {
                MergeStep::End => return (written, merger.report()),
                MergeStep::Wait { .. } => {
                    now_ns += step_ns;
                    let empty: Vec<usize> = merger.empty_sources().collect();
                    empty.into_iter().for_each(|source| merger.set_head(source, queues[source].head(now_ns)));
                }
                MergeStep::Take { source, until_ns } => {
                    let queue = &mut queues[source];
                    while let Head::Record(time_ns) = queue.head(now_ns)
                        && time_ns <= until_ns
                    {
                        queue.times_ns.pop_front();
                        merger.took(time_ns);
                        written.push(time_ns);
                    }
                    merger.set_head(source, queue.head(now_ns));
                }
            }
        }
    }

    fn queues() -> impl Strategy<Value = Vec<Vec<u64>>> {
        let queue = vec(0..2_000_u64, 0..40).prop_map(|mut times_ns| {
            times_ns.sort_unstable();
            times_ns
        });
        vec(queue, 0..6)
    }

    fn sorted(queues: &[Vec<u64>]) -> Vec<u64> {
        let mut all = queues.concat();
        all.sort_unstable();
        all
    }

    fn delayed(queues: Vec<Vec<u64>>, delays_ns: &[u64]) -> Vec<Queue> {
        let queue =
            |(times_ns, delay_ns): (Vec<u64>, &u64)| Queue { times_ns: times_ns.into(), delay_ns: *delay_ns };
        queues.into_iter().zip(delays_ns).map(queue).collect()
    }

    proptest! {
        #[test]
        fn queues_out_of_order_lose_nothing(queues in vec(vec(0..100_u64, 0..20), 0..5)) {
            let mut live: Vec<Queue> = queues
                .iter()
                .map(|times_ns| Queue { times_ns: times_ns.clone().into(), delay_ns: 0 })
                .collect();
            let (mut written, report) = simulate(&mut live, 0, 7);
            let mut youngest = 0;
            let late = written.iter().filter(|&&time| {
                let is_late = time < youngest;
                youngest = youngest.max(time);
                is_late
            }).count();
            prop_assert_eq!(report.late, late as u64);
            written.sort_unstable();
            prop_assert_eq!(written, sorted(&queues));
        }

        #[test]
        fn a_window_as_long_as_the_delays_keeps_the_order(
            queues in queues(),
            delays_ns in vec(0..50_u64, 6),
            step_ns in 1..30_u64,
        ) {
            let expected = sorted(&queues);
            let mut live = delayed(queues, &delays_ns);
            let (written, report) = simulate(&mut live, 50, step_ns);
            prop_assert_eq!(report, MergeReport { taken: expected.len() as u64, ..MergeReport::default() });
            prop_assert_eq!(written, expected);
        }

        #[test]
        fn a_window_too_short_loses_nothing_and_tells_by_how_much(
            queues in queues(),
            delays_ns in vec(0..500_u64, 6),
            window_ns in 0..100_u64,
        ) {
            let expected = sorted(&queues);
            let mut live = delayed(queues, &delays_ns);
            let (mut written, report) = simulate(&mut live, window_ns, 7);
            prop_assert_eq!(report.late == 0, written.is_sorted());
            prop_assert!(report.late_max_ns + window_ns <= 500 || report.late == 0);
            written.sort_unstable();
            prop_assert_eq!(written, expected);
        }
    }
}
