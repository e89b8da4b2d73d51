//! How many frames may still be written, by all writers together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number of frames that writers take from, batch by batch.
#[derive(Debug)]
pub(crate) struct Limit {
    left: AtomicU64,
    is_limited: bool,
}

impl Limit {
    /// `None` never ends.
    pub(crate) fn new(frames_max: Option<u64>) -> Self {
        Self { left: AtomicU64::new(frames_max.unwrap_or(0)), is_limited: frames_max.is_some() }
    }

    /// Takes up to `wanted` frames and says how many were left.
    pub(crate) fn take(&self, wanted: u64) -> u64 {
        if !self.is_limited {
            return wanted;
        }
        let before = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(wanted)));
        before.unwrap_or_else(|left| left).min(wanted)
    }

    /// True when nothing is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_limited && self.left.load(Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_limit_is_handed_out_by_many_takers() {
        let limit = Limit::new(Some(1000));
        let taken: u64 = std::thread::scope(|scope| {
            let takers: Vec<_> = (1..5)
                .map(|step| {
                    scope.spawn({
                        let limit = &limit;
                        move || (0..200).map(|_| limit.take(step)).sum::<u64>()
                    })
                })
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
        assert!(limit.is_spent());
        assert_eq!(limit.take(5), 0);
    }

    #[test]
    fn no_limit_never_ends_and_zero_ends_at_once() {
        let endless = Limit::new(None);
        assert_eq!((endless.take(u64::MAX), endless.take(u64::MAX)), (u64::MAX, u64::MAX));
        assert!(!endless.is_spent());
        assert!(Limit::new(Some(0)).is_spent());
    }
}
