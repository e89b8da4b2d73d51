//! How many frames may still be written, by all writers together, and what becomes of frames beyond that.
//!
//! A reader takes a share before it encodes frames. What does not get into the output after all is given back, so that
//! others take its place: handed out, written and left are always the limit together.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// A number of frames that readers take from, batch by batch.
#[derive(Debug)]
pub(crate) struct Limit {
    frames_max: Option<u64>,
    left: AtomicU64,
    written: AtomicU64,
    /// Ever; counted before it is left again, so that whoever sees the one sees the other.
    given_back: AtomicU64,
}

impl Limit {
    /// `None` never ends.
    pub(crate) fn new(frames_max: Option<u64>) -> Self {
        Self {
            frames_max,
            left: AtomicU64::new(frames_max.unwrap_or(0)),
            written: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
        }
    }

    /// Takes up to `wanted` frames and says how many were left.
    pub(crate) fn take(&self, wanted: u64) -> u64 {
        if self.frames_max.is_none() {
            return wanted;
        }
        let before = self.left.fetch_update(AcqRel, Acquire, |left| Some(left.saturating_sub(wanted)));
        before.unwrap_or_else(|left| left).min(wanted)
    }

    /// So many of the frames that were taken are lost; others may be written instead.
    pub(crate) fn give_back(&self, frames: u64) {
        if self.frames_max.is_some() && frames > 0 {
            self.given_back.fetch_add(frames, AcqRel);
            self.left.fetch_add(frames, AcqRel);
        }
    }

    /// So many of the frames that were in the output are lost after all.
    pub(crate) fn take_back(&self, frames: u64) {
        if self.frames_max.is_some() {
            self.written.fetch_sub(frames, AcqRel);
            self.give_back(frames);
        }
    }

    /// So many of the frames that were taken are in the output.
    pub(crate) fn wrote(&self, frames: u64) {
        if self.frames_max.is_some() {
            self.written.fetch_add(frames, AcqRel);
        }
    }

    /// True while nothing is left: everything is written, or on its way to be.
    pub(crate) fn is_spent(&self) -> bool {
        self.frames_max.is_some() && self.left.load(Acquire) == 0
    }

    /// True when enough is written.
    pub(crate) fn is_reached(&self) -> bool {
        self.frames_max.is_some_and(|frames_max| self.written.load(Acquire) >= frames_max)
    }

    /// Frames that were ever given back.
    pub(crate) fn given_back(&self) -> u64 {
        self.given_back.load(Acquire)
    }
}

/// Frames of one ring that came when nothing was left. They are not wanted if everything that was handed out then gets
/// written, and lost like the others if not: the file has room for them after all. Written by one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct Surplus {
    frames: AtomicU64,
    /// What had been given back when they came.
    given_back: AtomicU64,
}

/// What surplus frames turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not known yet, or there are none.
    Open,
    NotWanted(u64),
    Lost(u64),
}

impl Surplus {
    /// Adds frames that came when so much had been given back, after those before have been judged.
    pub(crate) fn add(&self, frames: u64, given_back: u64) {
        // Those before may stand open; a change since they came is found all the same, since the oldest mark stays.
        if self.frames.fetch_add(frames, Relaxed) == 0 {
            self.given_back.store(given_back, Relaxed);
        }
    }

    /// Judges the frames, which are forgotten then.
    pub(crate) fn judge(&self, limit: &Limit) -> Verdict {
        let frames = self.frames.load(Relaxed);
        // In this order: when enough is written, everything that was given back before is seen below.
        let is_reached = limit.is_reached();
        let is_lost = limit.given_back() != self.given_back.load(Relaxed);
        if frames == 0 || !(is_lost || is_reached) {
            return Verdict::Open;
        }
        self.frames.store(0, Relaxed);
        if is_lost { Verdict::Lost(frames) } else { Verdict::NotWanted(frames) }
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
        endless.give_back(1);
        endless.wrote(u64::MAX);
        assert!(!endless.is_spent() && !endless.is_reached());
        let zero = Limit::new(Some(0));
        assert!(zero.is_spent() && zero.is_reached());
    }

    #[test]
    fn what_is_lost_is_taken_again_until_enough_is_written() {
        let limit = Limit::new(Some(10));
        assert_eq!(limit.take(20), 10);
        limit.wrote(7);
        assert!(limit.is_spent() && !limit.is_reached());
        limit.give_back(3);
        assert_eq!(limit.take(20), 3);
        limit.wrote(3);
        assert!(limit.is_reached());
        limit.take_back(2);
        assert!(!limit.is_reached());
        assert_eq!(limit.take(20), 2);
    }

    #[test]
    fn surplus_frames_are_not_wanted_or_lost_once_that_is_known() {
        let (limit, surplus) = (Limit::new(Some(10)), Surplus::default());
        limit.take(10);
        surplus.add(4, limit.given_back());
        assert_eq!(surplus.judge(&limit), Verdict::Open);
        surplus.add(2, limit.given_back());
        limit.give_back(1);
        assert_eq!(surplus.judge(&limit), Verdict::Lost(6));
        assert_eq!(surplus.judge(&limit), Verdict::Open, "they are gone");
        limit.take(1);
        surplus.add(3, limit.given_back());
        limit.wrote(10);
        assert_eq!(surplus.judge(&limit), Verdict::NotWanted(3));
    }
}
