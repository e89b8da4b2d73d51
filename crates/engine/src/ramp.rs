//! A rate that rises or falls in equal steps, then stays: when each frame is due, in whole numbers.

use std::num::{NonZeroU32, NonZeroU64};

/// Nanoseconds in a million seconds.
const MILLION_SECONDS_NS: i128 = 1_000_000_000_000_000;

/// Frames per second that change over time. The first step has the first rate, the last step and
/// all time after it the last rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// Frames per million seconds in the first step.
    pub from_micropps: NonZeroU64,
    /// Frames per million seconds in the last step.
    pub to_micropps: NonZeroU64,
    /// Nanoseconds of each step.
    pub step_ns: NonZeroU64,
    /// Number of steps.
    pub steps: NonZeroU32,
}

impl Ramp {
    /// Frames that are due in the first `elapsed_ns`, without the one at time 0.
    pub fn frames(&self, elapsed_ns: u64) -> u64 {
        let step = i128::from(elapsed_ns / self.step_ns).min(self.steps());
        let in_step_ns = i128::from(elapsed_ns) - step * self.step_ns();
        ((self.until(step) + self.rate(step) * in_step_ns) / (self.scale() * MILLION_SECONDS_NS)) as u64
    }

    /// When `frames` frames are due, rounded up so that no frame is early.
    pub fn time_of(&self, frames: u64) -> u128 {
        let wanted = i128::from(frames) * self.scale() * MILLION_SECONDS_NS;
        let (mut step, mut beyond) = (0, self.steps() + 1);
        while beyond - step > 1 {
            let middle = (step + beyond) / 2;
            if self.until(middle) <= wanted {
                step = middle;
            } else {
                beyond = middle;
            }
        }
        let rest = (wanted - self.until(step)) as u128;
        (step * self.step_ns()) as u128 + rest.div_ceil(self.rate(step) as u128)
    }

    /// The highest rate in frames per million seconds.
    pub fn highest_micropps(&self) -> u64 {
        self.from_micropps.max(self.to_micropps).get()
    }

    /// Mean of all steps in frames per second.
    pub fn mean_pps(&self) -> f64 {
        let [from, to] = [self.from_micropps, self.to_micropps].map(|rate| rate.get() as f64 / 1e6);
        if self.steps.get() == 1 { to } else { (from + to) / 2.0 }
    }

    /// Time of all steps in nanoseconds.
    pub fn over_ns(&self) -> u64 {
        self.step_ns.get().saturating_mul(self.steps.get().into())
    }

    fn steps(&self) -> i128 {
        self.steps.get().into()
    }

    fn step_ns(&self) -> i128 {
        self.step_ns.get().into()
    }

    /// Rates and sums are multiplied by this, which makes them whole.
    fn scale(&self) -> i128 {
        2 * (self.steps() - 1).max(1)
    }

    /// Rate of a step, times the scale.
    fn rate(&self, step: i128) -> i128 {
        let (from, to) = (i128::from(self.from_micropps.get()), i128::from(self.to_micropps.get()));
        match self.steps() {
            1 => self.scale() * to,
            steps => self.scale() * from + 2 * (to - from) * step.min(steps - 1),
        }
    }

    /// Frames before a step, times the scale and the nanoseconds of a million seconds.
    fn until(&self, step: i128) -> i128 {
        let (from, to) = (i128::from(self.from_micropps.get()), i128::from(self.to_micropps.get()));
        match self.steps() {
            1 => self.step_ns() * self.scale() * to * step,
            _ => self.step_ns() * (self.scale() * from * step + (to - from) * step * (step - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Rng;

    fn ramp(from_pps: u64, to_pps: u64, step_ns: u64, steps: u32) -> Ramp {
        fine_ramp(from_pps * 1_000_000, to_pps * 1_000_000, step_ns, steps)
    }

    fn fine_ramp(from_micropps: u64, to_micropps: u64, step_ns: u64, steps: u32) -> Ramp {
        let [from_micropps, to_micropps, step_ns] =
            [from_micropps, to_micropps, step_ns].map(|number| NonZeroU64::new(number).expect("more than 0"));
        let steps = NonZeroU32::new(steps).expect("more than 0");
        Ramp { from_micropps, to_micropps, step_ns, steps }
    }

    #[test]
    fn steps_have_equal_lengths_and_rise_by_the_same() {
        // 100, 200 and 300 frames per second, for one second each.
        let stairs = ramp(100, 300, 1_000_000_000, 3);
        for (elapsed_ms, frames) in [(0, 0), (500, 50), (1000, 100), (1500, 200), (2500, 450), (4000, 900)] {
            assert_eq!(stairs.frames(elapsed_ms * 1_000_000), frames, "{elapsed_ms}");
        }
        assert_eq!(stairs.time_of(101), 1_005_000_000);
        assert_eq!(stairs.time_of(1200), 5_000_000_000);
        assert_eq!((stairs.highest_micropps(), stairs.over_ns()), (300_000_000, 3_000_000_000));
        assert_eq!(stairs.mean_pps(), 200.0);
        // Half a frame and one and a half, for ten seconds each.
        let slow = fine_ramp(500_000, 1_500_000, 10_000_000_000, 2);
        assert_eq!([5, 10, 20, 30].map(|second| slow.frames(second * 1_000_000_000)), [2, 5, 20, 35]);
        assert_eq!((slow.time_of(1), slow.time_of(6), slow.mean_pps()), (2_000_000_000, 10_666_666_667, 1.0));
    }

    #[test]
    fn one_step_is_a_constant_rate() {
        let constant = ramp(5, 1000, 1_000_000_000, 1);
        assert_eq!((constant.frames(2_000_000_000), constant.time_of(3)), (2000, 3_000_000));
    }

    #[test]
    fn each_frame_is_due_when_it_is_counted() {
        for seed in 0..300 {
            let rng = &mut Rng(seed);
            let rate = |rng: &mut Rng| 1 + (u64::from(rng.next_u32()) << 20 >> rng.below(50));
            let (from, to) = (rate(rng), rate(rng));
            let ramp = fine_ramp(from, to, 1 + u64::from(rng.next_u32()), 1 + rng.below(100_000));
            for _ in 0..30 {
                let frame = u64::from(rng.next_u32() >> rng.below(32));
                let Ok(due_ns) = u64::try_from(ramp.time_of(frame)) else { continue };
                assert!(ramp.frames(due_ns) >= frame, "{ramp:?}: {frame} at {due_ns}");
                assert!(due_ns == 0 || ramp.frames(due_ns - 1) < frame, "{ramp:?}: {frame} at {due_ns}");
            }
        }
    }
}
