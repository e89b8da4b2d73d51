//! The three sizes of the bench: how long and how often it measures.

use std::time::{Duration, Instant};

/// How long, how often, how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchSettings {
    /// For people and rows.
    pub(crate) name: &'static str,
    /// Frames that each tool sends or captures first, to show that it does what it says.
    pub(crate) proof_frames: u64,
    /// Rounds of captures into each kind of output.
    pub(crate) capture_rounds: usize,
    /// Rounds of a capture against itself.
    pub(crate) capture_noise_rounds: usize,
    /// How long frames are offered to a capture.
    pub(crate) trial: Duration,
    /// The first rate offered.
    pub(crate) start_pps: f64,
    /// Most trials of the search before the first round, which knows nothing and counts for
    /// nothing.
    pub(crate) trials_first: u32,
    /// Most trials of a search in a round, which begins near where the last one ended.
    pub(crate) trials_next: u32,
    /// False: only the captures that matter most.
    pub(crate) all_captures: bool,
    /// After so long nothing new is begun.
    pub(crate) budget: Duration,
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Seconds, and numbers that mean nothing: it shows that the bench works.
pub(crate) const TINY: BenchSettings = BenchSettings {
    name: "tiny",
    proof_frames: 4_096,
    capture_rounds: 1,
    capture_noise_rounds: 0,
    trial: ms(60),
    start_pps: 20_000.0,
    trials_first: 0,
    trials_next: 1,
    all_captures: true,
    budget: ms(12 * 60_000),
};

/// Below five minutes.
pub(crate) const QUICK: BenchSettings = BenchSettings {
    name: "quick",
    capture_rounds: 3,
    capture_noise_rounds: 3,
    trial: ms(400),
    start_pps: 2_000_000.0,
    trials_first: 6,
    trials_next: 5,
    all_captures: false,
    budget: ms(280_000),
    ..TINY
};

/// Below three quarters of an hour, every tool.
pub(crate) const FULL: BenchSettings = BenchSettings {
    name: "full",
    capture_rounds: 5,
    trial: ms(1_000),
    trials_first: 10,
    trials_next: 6,
    all_captures: true,
    budget: ms(43 * 60_000),
    ..QUICK
};

/// When to begin nothing new.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub(crate) fn after(budget: Duration) -> Self {
        Self(Instant::now() + budget)
    }

    /// True when time is up.
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow() {
        for (smaller, larger) in [(TINY, QUICK), (QUICK, FULL)] {
            assert!(smaller.capture_rounds <= larger.capture_rounds && smaller.trial < larger.trial);
            assert!(smaller.trials_first < larger.trials_first);
        }
        assert!(QUICK.budget < ms(300_000), "a quick bench ends within five minutes");
    }

    #[test]
    fn a_deadline_comes() {
        assert!(Deadline::after(Duration::ZERO).is_over());
        assert!(!Deadline::after(ms(60_000)).is_over());
    }
}
