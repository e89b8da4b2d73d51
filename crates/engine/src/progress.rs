//! Counts of a run that other threads read while the worker adds to them.

use crate::engine::{Burst, Errors};
use facts::SendErrors;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Buckets of gap errors: below or equal to 2^6 ns, 2^7 ns, ... 2^24 ns, and above.
pub const GAP_ERROR_OCTAVES: usize = 20;
/// Exponent of the first bucket.
const FIRST_OCTAVE: u32 = 6;

/// Counts of a run, for other threads. All counts of one [`Progress::total`] are of one moment.
#[derive(Debug, Default)]
pub struct Progress {
    /// Odd while the worker writes.
    version: AtomicU64,
    sent: AtomicU64,
    ring_full: AtomicU64,
    refused: AtomicU64,
    not_handed_over: AtomicU64,
    qdisc_dropped: AtomicU64,
    invalid: AtomicU64,
    no_carrier: AtomicU64,
    frame_bytes: AtomicU64,
    retries: AtomicU64,
    gap_errors: [AtomicU64; GAP_ERROR_OCTAVES],
    gap_error_sum_ns: AtomicU64,
}

impl Progress {
    /// Frames accepted by the driver so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// All counts so far.
    pub fn total(&self) -> Burst {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let total = self.read();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return total;
            }
            // The worker writes for nanoseconds, unless it has lost its CPU meanwhile.
            std::thread::yield_now();
        }
    }

    /// Gaps so far by their difference to the requested gap, and the sum of these differences in
    /// nanoseconds; of a run whose gaps are all the same.
    pub fn gap_errors(&self) -> ([u64; GAP_ERROR_OCTAVES], u64) {
        let counts = std::array::from_fn(|octave| self.gap_errors[octave].load(Ordering::Relaxed));
        (counts, self.gap_error_sum_ns.load(Ordering::Relaxed))
    }

    /// Counts gaps, where `expected_ns` was requested; only the worker of the run does.
    pub(crate) fn add_gaps(&self, gaps: &[(u64, u64)], expected_ns: u64) {
        let add = |place: &AtomicU64, more: u64| {
            place.store(place.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        for (gap_ns, count) in gaps.iter().filter(|(_, count)| *count > 0) {
            let error_ns = gap_ns.abs_diff(expected_ns);
            add(&self.gap_errors[octave(error_ns)], *count);
            add(&self.gap_error_sum_ns, error_ns.saturating_mul(*count));
        }
    }

    fn read(&self) -> Burst {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Burst {
            sent: count(&self.sent),
            errors: Errors {
                ring_full: count(&self.ring_full),
                causes: SendErrors {
                    refused: count(&self.refused),
                    not_handed_over: count(&self.not_handed_over),
                    qdisc_dropped: count(&self.qdisc_dropped),
                    no_carrier: count(&self.no_carrier),
                    invalid: count(&self.invalid),
                },
                last_errno: 0,
            },
            frame_bytes: count(&self.frame_bytes),
            retries: count(&self.retries),
        }
    }

    /// Publishes `total`; only the worker of the run does.
    pub(crate) fn set(&self, total: &Burst) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let Burst { sent, errors, frame_bytes, retries } = total;
        for (place, count) in [
            (&self.sent, *sent),
            (&self.ring_full, errors.ring_full),
            (&self.refused, errors.causes.refused),
            (&self.not_handed_over, errors.causes.not_handed_over),
            (&self.qdisc_dropped, errors.causes.qdisc_dropped),
            (&self.invalid, errors.causes.invalid),
            (&self.no_carrier, errors.causes.no_carrier),
            (&self.frame_bytes, *frame_bytes),
            (&self.retries, *retries),
        ] {
            place.store(count, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }
}

/// The first bucket whose bound is not below `error_ns`.
fn octave(error_ns: u64) -> usize {
    let power = u64::BITS - error_ns.saturating_sub(1).leading_zeros();
    (power.saturating_sub(FIRST_OCTAVE) as usize).min(GAP_ERROR_OCTAVES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::SendErrors;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn counts_of_one_reading_are_of_one_moment() {
        let (progress, is_over) = (Progress::default(), AtomicBool::new(false));
        let total = |sent: u64| Burst {
            sent,
            errors: Errors {
                ring_full: 2 * sent,
                causes: SendErrors { invalid: 3 * sent, ..SendErrors::default() },
                ..Errors::default()
            },
            frame_bytes: 60 * sent,
            retries: 4 * sent,
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let seen = progress.total();
                    assert_eq!(seen, total(seen.sent));
                    assert!(seen.sent >= last);
                    last = seen.sent;
                }
            });
            (0..2_000_000).for_each(|sent| progress.set(&total(sent)));
            is_over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        assert_eq!(progress.total(), total(1_999_999));
    }

    #[test]
    fn gap_errors_are_in_the_first_bucket_that_holds_them() {
        let found = [0, 1, 64, 65, 128, 129, 1 << 24, (1 << 24) + 1, u64::MAX].map(octave);
        assert_eq!(found, [0, 0, 0, 1, 1, 2, 18, 19, 19]);
        let progress = Progress::default();
        progress.add_gaps(&[(1000, 1), (900, 3), (0, 0)], 1000);
        let (counts, sum_ns) = progress.gap_errors();
        assert_eq!((counts[0], counts[1], counts.iter().sum::<u64>(), sum_ns), (1, 3, 4, 300));
    }
}
