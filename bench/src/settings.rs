//! How much is measured: three sizes of the same bench.

use std::time::{Duration, Instant};

/// How long, how often, how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// For people and rows.
    pub(crate) name: &'static str,
    /// Frames that each tool sends or captures first, to show that it does what it says.
    pub(crate) proof_frames: u64,
    /// Rounds of generators.
    pub(crate) generate_rounds: usize,
    /// From the first frame to the beginning of the measurement.
    pub(crate) settle: Duration,
    /// The measurement.
    pub(crate) window: Duration,
    /// Rounds of captures into each kind of output.
    pub(crate) capture_rounds: usize,
    /// Rounds of each line of the page of captures.
    pub(crate) page_rounds: usize,
    /// Rounds of a generator against itself.
    pub(crate) generate_noise_rounds: usize,
    /// Rounds of a capture against itself.
    pub(crate) capture_noise_rounds: usize,
    /// How long each rate is watched for its pace.
    pub(crate) pacing: Duration,
    /// A long run: the parts of it that are watched, at its beginning and at its end, and all of it.
    pub(crate) runs: [Duration; 2],
    /// How long frames are offered to a capture.
    pub(crate) trial: Duration,
    /// The first rate offered.
    pub(crate) start_pps: f64,
    /// Most trials of the search before the first round, which knows nothing and counts for nothing.
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
pub(crate) const TINY: Settings = Settings {
    name: "tiny",
    proof_frames: 4_096,
    generate_rounds: 1,
    settle: ms(5),
    window: ms(30),
    capture_rounds: 1,
    page_rounds: 1,
    generate_noise_rounds: 1,
    capture_noise_rounds: 0,
    pacing: ms(60),
    runs: [ms(30), ms(120)],
    trial: ms(60),
    start_pps: 20_000.0,
    trials_first: 0,
    trials_next: 1,
    all_captures: true,
    budget: ms(60_000),
};

/// Below three minutes.
pub(crate) const QUICK: Settings = Settings {
    name: "quick",
    generate_rounds: 5,
    settle: ms(100),
    window: ms(400),
    capture_rounds: 3,
    generate_noise_rounds: 5,
    capture_noise_rounds: 3,
    pacing: ms(2_000),
    runs: [ms(2_000), ms(12_000)],
    trial: ms(400),
    start_pps: 2_000_000.0,
    trials_first: 6,
    trials_next: 5,
    all_captures: false,
    budget: ms(165_000),
    ..TINY
};

/// About a quarter of an hour, every tool.
pub(crate) const FULL: Settings = Settings {
    name: "full",
    generate_rounds: 11,
    window: ms(1_000),
    capture_rounds: 5,
    page_rounds: 3,
    pacing: ms(10_000),
    runs: [ms(10_000), ms(60_000)],
    trial: ms(1_000),
    trials_first: 10,
    trials_next: 6,
    all_captures: true,
    budget: ms(15 * 60_000),
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
            assert!(smaller.generate_rounds < larger.generate_rounds && smaller.window < larger.window);
            assert!(smaller.trials_first < larger.trials_first && smaller.budget < larger.budget);
        }
        assert!(QUICK.budget < ms(180_000), "a quick bench ends within three minutes");
    }

    #[test]
    fn a_deadline_comes() {
        assert!(Deadline::after(Duration::ZERO).is_over());
        assert!(!Deadline::after(ms(60_000)).is_over());
    }
}
