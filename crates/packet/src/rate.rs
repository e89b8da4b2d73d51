//! The rate of frames as an exact ratio, and the arrival process around it.
//!
//! All times are integers, so a rate does not drift over hours. Sums are made in 128 bits.

use crate::rng::Rng;
use crate::wire::wire_len;
use std::num::{NonZeroU32, NonZeroU64};

/// Picoseconds in a second.
const SECOND_PS: u64 = 1_000_000_000_000;
/// Picoseconds in a million seconds.
const MILLION_SECONDS_PS: u64 = 1_000_000 * SECOND_PS;
const PS_PER_NS: u64 = 1000;

/// The quantity that a [`Rate`] limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateUnit {
    /// Frames.
    Frame,
    /// Bits on the wire, with FCS, preamble and gap.
    WireBit,
}

/// A constant rate: `amount` units in each `per_ps` picoseconds.
///
/// `amount` is 1 for an interval between frames. A rate in frames per second has the amount of a
/// second, or of a million seconds if it is not a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    amount: NonZeroU64,
    per_ps: NonZeroU64,
    unit: RateUnit,
}

impl Rate {
    /// `pps` frames per second; `None` for 0.
    pub fn from_pps(pps: u64) -> Option<Self> {
        Self::new(pps, SECOND_PS, RateUnit::Frame)
    }

    /// `micropps` frames per million seconds; `None` for 0.
    pub fn from_micropps(micropps: u64) -> Option<Self> {
        match micropps.is_multiple_of(1_000_000) {
            true => Self::from_pps(micropps / 1_000_000),
            false => Self::new(micropps, MILLION_SECONDS_PS, RateUnit::Frame),
        }
    }

    /// `pps` frames per second, rounded to a millionth of a frame, at least one millionth.
    pub fn nearest_pps(pps: f64) -> Self {
        let micropps = (pps * 1e6).round();
        match micropps < u64::MAX as f64 {
            true => Self::from_micropps((micropps as u64).max(1)),
            false => Self::from_pps(pps as u64),
        }
        .expect("at least 1")
    }

    /// A frame each `interval_ps` picoseconds; `None` for 0.
    pub fn from_interval_ps(interval_ps: u64) -> Option<Self> {
        Self::new(1, interval_ps, RateUnit::Frame)
    }

    /// A frame each `interval_ns` nanoseconds; `None` for 0.
    pub fn from_interval_ns(interval_ns: u64) -> Option<Self> {
        Self::from_interval_ps(interval_ns.saturating_mul(PS_PER_NS))
    }

    /// `bps` bits per second on the wire; `None` for 0.
    pub fn from_wire_bps(bps: u64) -> Option<Self> {
        Self::new(bps, SECOND_PS, RateUnit::WireBit)
    }

    fn new(amount: u64, per_ps: u64, unit: RateUnit) -> Option<Self> {
        Some(Self { amount: NonZeroU64::new(amount)?, per_ps: NonZeroU64::new(per_ps)?, unit })
    }

    /// Frames per second; `None` for a rate of bits, which needs the lengths of frames.
    pub fn pps(self) -> Option<f64> {
        (self.unit == RateUnit::Frame).then(|| self.per_second())
    }

    /// Bits per second on the wire; `None` for a rate of frames.
    pub fn wire_bps(self) -> Option<f64> {
        (self.unit == RateUnit::WireBit).then(|| self.per_second())
    }

    fn per_second(self) -> f64 {
        self.amount.get() as f64 * (SECOND_PS as f64 / self.per_ps.get() as f64)
    }

    /// The interval in nanoseconds, if the rate was given as an interval of whole nanoseconds.
    pub fn interval_ns(self) -> Option<u64> {
        let is_interval = self.divisible().is_none() && self.per_ps.get().is_multiple_of(PS_PER_NS);
        is_interval.then_some(self.per_ps.get() / PS_PER_NS)
    }

    /// Units of the rate in `frames` frames, which have `wire_bits` bits on the wire.
    fn units(self, frames: u64, wire_bits: u64) -> u64 {
        match self.unit {
            RateUnit::Frame => frames,
            RateUnit::WireBit => wire_bits,
        }
    }

    /// Nanoseconds from the first frame until the one behind `frames` frames is due, which have
    /// `wire_bits` bits on the wire. Rounded up, so that no frame is early.
    #[inline]
    pub fn time_of(self, frames: u64, wire_bits: u64) -> u128 {
        let (time, per_ns) = self.per();
        let units = u128::from(self.units(frames, wire_bits));
        (units * u128::from(time)).div_ceil(u128::from(self.amount.get()) * u128::from(per_ns))
    }

    /// The time of the amount, and its units in a nanosecond: nanoseconds where they are whole, so
    /// that products stay small, which divides faster.
    #[inline]
    fn per(self) -> (u64, u64) {
        match self.per_ps.get() {
            ps if ps.is_multiple_of(PS_PER_NS) => (ps / PS_PER_NS, 1),
            ps => (ps, PS_PER_NS),
        }
    }

    /// Frames that are due in the first `elapsed_ns` nanoseconds beyond the `frames` that were
    /// sent, which have `wire_bits` bits on the wire. Frames of a rate of bits are assumed to be as
    /// long as those before.
    pub fn due(self, elapsed_ns: u64, frames: u64, wire_bits: u64) -> u64 {
        let units_due = self.units_until(elapsed_ns);
        match self.unit {
            RateUnit::Frame => (units_due + 1).saturating_sub(frames),
            RateUnit::WireBit => match units_due.checked_sub(wire_bits) {
                Some(bits) => bits / mean_wire_bits(frames, wire_bits) + 1,
                None => 0,
            },
        }
    }

    fn units_until(self, elapsed_ns: u64) -> u64 {
        let (time, per_ns) = self.per();
        let elapsed = u128::from(elapsed_ns) * u128::from(per_ns);
        let (amount, time) = (u128::from(self.amount.get()), u128::from(time));
        let units = match elapsed.checked_mul(amount) {
            Some(product) => product / time,
            // In two parts: neither product has more than 128 bits.
            None => elapsed / time * amount + elapsed % time * amount / time,
        };
        u64::try_from(units).unwrap_or(u64::MAX - 1)
    }

    /// Picoseconds from the start of a frame with `wire_len` bytes on the wire to the start of the
    /// next, rounded down.
    pub fn gap_of(self, wire_len: u32) -> u64 {
        let units = u128::from(self.units(1, 8 * u64::from(wire_len)));
        let gap_ps = units * u128::from(self.per_ps.get()) / u128::from(self.amount.get());
        u64::try_from(gap_ps).unwrap_or(u64::MAX)
    }

    /// The rate in frames of a mix in which `frames` frames have `wire_bytes` bytes on the wire.
    pub fn in_frames(self, wire_bytes: u64, frames: u64) -> Self {
        match self.unit {
            RateUnit::Frame => self,
            RateUnit::WireBit => {
                let bits = 8.0 * wire_bytes as f64 / frames as f64;
                Self::nearest_pps(self.per_second() / bits)
            }
        }
    }

    /// `times` this rate, rounded to a whole amount, at least 1.
    #[must_use]
    pub fn scaled(self, times: f64) -> Self {
        let amount = self.amount.get() as f64 * times;
        // Few frames per second are too coarse for whole amounts.
        if self.unit == RateUnit::Frame && amount < 1000.0 {
            return Self::nearest_pps(self.per_second() * times);
        }
        let whole = |rate: f64| NonZeroU64::new(rate.round() as u64).unwrap_or(NonZeroU64::MIN);
        Self { amount: whole(amount), ..self }
    }

    /// The whole number that a division of the rate divides; `None` for an interval, which
    /// [`Self::with_part`] makes longer.
    pub fn divisible(self) -> Option<u64> {
        let is_interval = self.amount.get() == 1 && self.per_ps.get() != SECOND_PS;
        (self.unit == RateUnit::WireBit || !is_interval).then_some(self.amount.get())
    }

    /// One of `parts` parts of the rate, of which the amount is `amount`; an interval is `parts`
    /// times as long. `None` for an amount of 0.
    pub fn with_part(self, amount: u64, parts: u64) -> Option<Self> {
        match self.divisible() {
            Some(_) => Some(Self { amount: NonZeroU64::new(amount)?, ..self }),
            None => Self::new(1, self.per_ps.get().saturating_mul(parts), self.unit),
        }
    }
}

/// Mean bits on the wire of the frames sent; the shortest frame before the first.
fn mean_wire_bits(frames: u64, wire_bits: u64) -> u64 {
    let least = 8 * u64::from(wire_len(0));
    wire_bits.checked_div(frames).unwrap_or(0).max(least)
}

/// How frames are distributed in time around a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps.
    #[default]
    Constant,
    /// Gaps with an exponential distribution: a Poisson process.
    Poisson {
        /// The seed of its random numbers; `None` for that of the run.
        seed: Option<u64>,
    },
    /// Groups of frames.
    Bursts {
        /// Frames of a group.
        frames: NonZeroU32,
        /// Nanoseconds from the last frame of a group to the first of the next, while frames of a
        /// group have the rate. `None`: the frames of a group are sent at once, and the groups have
        /// the distances that keep the mean rate.
        gap_ns: Option<u64>,
    },
}

/// The due times of a Poisson process: each gap is a mean gap times a random number with an
/// exponential distribution of mean 1.
#[derive(Clone, Copy, Debug)]
pub struct PoissonProcess {
    rng: Rng,
    next_ps: u128,
}

impl PoissonProcess {
    /// A process of which the first frame is due at time 0.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::for_worker(seed, 0x706f_6973), next_ps: 0 }
    }

    /// Nanoseconds after the first frame at which the next frame is due.
    pub fn next_ns(&self) -> u128 {
        self.next_ps.div_ceil(u128::from(PS_PER_NS))
    }

    /// Moves on by a gap of `mean_ps` picoseconds on average.
    pub fn advance(&mut self, mean_ps: u64) {
        // 53 random bits, and a half so that the logarithm is finite.
        let uniform = ((self.rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        self.next_ps += (-uniform.ln() * mean_ps as f64) as u128;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pps(pps: u64) -> Rate {
        Rate::from_pps(pps).expect("more than 0")
    }

    fn wire(bps: u64) -> Rate {
        Rate::from_wire_bps(bps).expect("more than 0")
    }

    #[test]
    fn each_form_has_its_gap() {
        assert_eq!(wire(1_000_000_000).gap_of(84), 672_000);
        assert_eq!(pps(14_880_952).gap_of(84), 67_200);
        assert_eq!(Rate::from_micropps(500_000).unwrap().gap_of(84), 2 * SECOND_PS);
        assert_eq!(Rate::from_interval_ns(10).unwrap().gap_of(1538), 10_000);
        assert_eq!(Rate::from_micropps(3_000_000), Rate::from_pps(3));
        assert_eq!(
            (Rate::from_pps(0), Rate::from_interval_ns(0), Rate::from_wire_bps(0)),
            (None, None, None)
        );
    }

    #[test]
    fn a_rate_as_a_number_is_kept_to_a_millionth_of_a_frame() {
        assert_eq!(Rate::nearest_pps(1234.5), Rate::from_micropps(1_234_500_000).unwrap());
        assert_eq!(Rate::nearest_pps(1000.0), pps(1000));
        assert_eq!(Rate::nearest_pps(0.0), Rate::from_micropps(1).unwrap());
        assert_eq!(Rate::nearest_pps(1e17).pps(), Some(1e17));
    }

    #[test]
    fn times_are_rounded_up_and_frames_are_counted_when_they_are_due() {
        let rates = [pps(3), pps(14_880_952), Rate::from_micropps(1_234_500_001).unwrap()];
        for rate in rates.into_iter().chain(Rate::from_interval_ps(67_200)) {
            for frames in [1u64, 2, 7, 1_000_003, 3_000_000_001] {
                let due_ns = u64::try_from(rate.time_of(frames, 0)).unwrap();
                assert_eq!(rate.due(due_ns, frames, 0), 1, "{rate:?}: {frames}");
                assert_eq!(rate.due(due_ns - 1, frames, 0), 0, "{rate:?}: {frames}");
            }
        }
        assert_eq!(wire(1_000_000_000).time_of(1, 672), 672);
        assert_eq!(wire(1_000_000_000).due(672 * 3, 1, 672), 3);
        assert_eq!(wire(1_000_000_000).due(671, 1, 672), 0);
    }

    #[test]
    fn no_time_and_no_rate_overflows() {
        for rate in [pps(u64::MAX), wire(u64::MAX), Rate::from_interval_ps(u64::MAX).unwrap()] {
            for ns in [0, 1, u64::MAX] {
                let _ = (rate.due(ns, 0, 0), rate.due(ns, ns, ns), rate.time_of(ns, ns), rate.gap_of(1538));
            }
        }
    }

    #[test]
    fn amounts_are_divided_and_intervals_grow() {
        assert_eq!(pps(5).divisible(), Some(5));
        assert_eq!(pps(5).with_part(3, 2), Some(pps(3)));
        assert_eq!(pps(5).with_part(0, 2), None);
        let interval = Rate::from_interval_ns(10).unwrap();
        assert_eq!((interval.divisible(), interval.interval_ns()), (None, Some(10)));
        assert_eq!(interval.with_part(1, 2), Rate::from_interval_ns(20));
        assert_eq!(pps(1).divisible(), Some(1), "a frame per second is not divided");
    }

    #[test]
    fn a_scaled_rate_is_exact_to_a_thousandth() {
        assert_eq!(pps(1000).scaled(1.1), pps(1100));
        assert_eq!(wire(1_000_000).scaled(0.9), wire(900_000));
        let delay = Rate::from_interval_ns(67).unwrap().scaled(1.1).pps().unwrap();
        assert!((delay - 1.1e9 / 67.0).abs() < 1.0, "{delay}");
        assert_eq!(pps(1).scaled(0.5).pps(), Some(0.5));
    }

    #[test]
    fn bits_are_frames_of_the_mean_length() {
        assert_eq!(wire(672_000).in_frames(84, 1), pps(1000));
        assert_eq!(pps(7).in_frames(84, 1), pps(7));
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_a_coefficient_of_variation_of_one() {
        let mut process = PoissonProcess::new(7);
        let (mut before, mut gaps) = (0, Vec::new());
        for _ in 0..100_000 {
            process.advance(1_000_000);
            gaps.push((process.next_ns() - before) as f64);
            before = process.next_ns();
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
        let mut other = PoissonProcess::new(8);
        other.advance(1_000_000);
        assert_ne!(other.next_ps, {
            let mut first = PoissonProcess::new(7);
            first.advance(1_000_000);
            first.next_ps
        });
    }
}
