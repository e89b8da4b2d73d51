//! Timestamps of a network card's clock to UTC.
//!
//! The card's clock runs free or is steered by a PTP daemon, and often counts TAI. It is measured
//! against UTC repeatedly; a straight line through the last seconds converts each timestamp. After
//! a step of either clock, a measurement is far off the line and begins a new one.

use facts::Described;
use host::{PhcRead, PhcReading};
use std::collections::VecDeque;
#[cfg(test)]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Measurements in the line.
const READINGS_MAX: usize = 16;
/// Time between two measurements: short until the first line is good, then long enough to cost
/// nothing.
const AGE_FIRST_NS: u64 = 20_000_000;
const AGE_NS: u64 = 250_000_000;
/// A clock that is so far off its line was set. One that is steered (500 ppm at most for NTP) is
/// not so far off between two measurements.
const STEP_NS: u64 = 1_000_000;
/// No clock that works is faster or slower than this; a line that says so is noise.
const DRIFT_MAX: f64 = 0.001;

/// Time of day as a function of the card's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockLine {
    /// A time of the card's clock.
    at_ns: i64,
    /// Time of day minus the card's clock, then.
    offset_ns: i64,
    /// How much more that is with each nanosecond of the card's, in units of 2^-32.
    drift: i64,
}

impl ClockLine {
    /// The UTC at `phc_ns`.
    #[inline]
    pub(crate) fn utc_ns(&self, phc_ns: u64) -> u64 {
        let since_ns = phc_ns.cast_signed().wrapping_sub(self.at_ns);
        let drifted_ns = (i128::from(since_ns) * i128::from(self.drift)) >> 32;
        phc_ns.wrapping_add_signed(self.offset_ns).wrapping_add_signed(drifted_ns as i64)
    }

    /// A time of the card's clock, what to add to it then for the UTC, and how much more that is
    /// with each nanosecond, in units of 2^-32.
    pub(crate) fn parts(&self) -> (i64, i64, i64) {
        (self.at_ns, self.offset_ns, self.drift)
    }

    /// Time of day minus the card's clock, at a time of the latter.
    fn offset_at(&self, phc_ns: i64) -> i64 {
        self.utc_ns(phc_ns.cast_unsigned()).cast_signed().wrapping_sub(phc_ns)
    }
}

/// The measurements that a line goes through.
#[derive(Debug, Default)]
struct Fit {
    readings: VecDeque<PhcReading>,
    line: ClockLine,
    steps: u64,
}

impl Fit {
    fn add(&mut self, reading: PhcReading) {
        let known = !self.readings.is_empty();
        let offset_ns = reading.utc_ns.wrapping_sub(reading.phc_ns);
        let off_ns = offset_ns.wrapping_sub(self.line.offset_at(reading.phc_ns)).unsigned_abs();
        if known && off_ns > STEP_NS.saturating_add(reading.uncertainty_ns.saturating_mul(2)) {
            self.readings.clear();
            self.steps += 1;
        }
        if self.readings.len() == READINGS_MAX {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
        self.line = line_through(&self.readings);
    }
}

/// The line with the least squares, readings weighted by how sure they are. Everything is seen from
/// the last reading, so that the numbers are small enough for a float.
fn line_through(readings: &VecDeque<PhcReading>) -> ClockLine {
    let last = *readings.back().expect("there is a reading");
    let offset_of = |reading: &PhcReading| reading.utc_ns.wrapping_sub(reading.phc_ns);
    let mut sums = [0.0_f64; 5];
    for reading in readings {
        let sure = 1.0 / (reading.uncertainty_ns as f64 + 1.0).powi(2);
        let x = reading.phc_ns.wrapping_sub(last.phc_ns) as f64;
        let y = offset_of(reading).wrapping_sub(offset_of(&last)) as f64;
        for (sum, part) in sums.iter_mut().zip([sure, sure * x, sure * y, sure * x * x, sure * x * y]) {
            *sum += part;
        }
    }
    let [w, x, y, xx, xy] = sums;
    let spread = w * xx - x * x;
    let slope = if spread > 0.0 { (w * xy - x * y) / spread } else { 0.0 };
    let plain = ClockLine { at_ns: last.phc_ns, offset_ns: offset_of(&last), drift: 0 };
    if !slope.is_finite() || slope.abs() > DRIFT_MAX {
        return plain;
    }
    let above_last = (y - slope * x) / w;
    ClockLine {
        offset_ns: plain.offset_ns.wrapping_add(above_last.round() as i64),
        drift: (slope * 4_294_967_296.0) as i64,
        ..plain
    }
}

/// What is known of a card's clock at the end of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Described)]
#[cfg_attr(feature = "cli", derive(serde::Serialize))]
pub struct PhcFacts {
    /// N of `/dev/ptpN`.
    pub index: u32,
    /// Device clock minus UTC, at the last reading.
    pub ahead_ns: i64,
    /// Drift of the device clock: how much faster it runs than UTC, in nanoseconds per second.
    pub drift_ppb: i64,
    /// Uncertainty of the last reading: the UTC of a stamp is known this well, as far as reading
    /// the clocks goes.
    pub uncertainty_ns: u64,
    /// How often one of the clocks was set during the capture.
    pub steps: u64,
    /// How often the clock could not be read; earlier readings were used then.
    pub failures: u64,
    /// Seconds that TAI is ahead of UTC, as set in the kernel; 0 if not set.
    #[serde(skip)]
    pub tai_offset_s: i64,
}

impl PhcFacts {
    /// True when the card's clock shows TAI: as far ahead as that is, within half a second.
    pub fn is_tai(&self) -> bool {
        let tai_ns = self.tai_offset_s * 1_000_000_000;
        self.tai_offset_s != 0 && self.ahead_ns.abs_diff(tai_ns) < 500_000_000
    }
}

/// The clock of one card, for all readers of its rings.
pub(crate) struct PhcClock {
    index: u32,
    state: Mutex<PhcState>,
    measured_at_ns: AtomicU64,
}

struct PhcState {
    clock: Box<dyn PhcRead>,
    fit: Fit,
    failures: u64,
}

impl PhcClock {
    /// Measures once.
    ///
    /// # Errors
    /// What the clock says.
    pub(crate) fn new(index: u32, clock: Box<dyn PhcRead>, now_ns: u64) -> std::io::Result<Self> {
        let mut fit = Fit::default();
        fit.add(clock.read()?);
        let state = Mutex::new(PhcState { clock, fit, failures: 0 });
        Ok(Self { index, state, measured_at_ns: AtomicU64::new(now_ns) })
    }

    /// One that stands still.
    #[cfg(test)]
    pub(crate) fn for_test() -> Arc<Self> {
        struct Still;
        impl PhcRead for Still {
            fn read(&self) -> std::io::Result<PhcReading> {
                Ok(PhcReading { phc_ns: 0, utc_ns: 0, uncertainty_ns: 1 })
            }
        }
        Arc::new(Self::new(0, Box::new(Still), 0).expect("it can be read"))
    }

    /// The line for stamps around now (`now_ns` is monotonic). Measures when the last measurement
    /// is too old.
    pub(crate) fn line(&self, now_ns: u64) -> ClockLine {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = state.fit.readings.len() < READINGS_MAX / 2;
        let age_max_ns = if is_new { AGE_FIRST_NS } else { AGE_NS };
        if now_ns.saturating_sub(self.measured_at_ns.load(Relaxed)) >= age_max_ns {
            self.measured_at_ns.store(now_ns, Relaxed);
            match state.clock.read() {
                Ok(reading) => state.fit.add(reading),
                Err(_) => state.failures += 1,
            }
        }
        state.fit.line
    }

    /// Its name and how far ahead it is, as the description of an interface has it.
    pub(crate) fn describe(&self) -> String {
        let facts = self.facts();
        let tai = if facts.is_tai() { ", which is TAI" } else { "" };
        let (sign, ahead_ns) = (if facts.ahead_ns < 0 { '-' } else { '+' }, facts.ahead_ns.unsigned_abs());
        let (s, ns) = (ahead_ns / 1_000_000_000, ahead_ns % 1_000_000_000);
        format!("times of /dev/ptp{}, UTC {sign}{s}.{ns:09} s{tai}", facts.index)
    }

    /// What is known of it now.
    pub(crate) fn facts(&self) -> PhcFacts {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let last = *state.fit.readings.back().expect("measured when it was made");
        // A clock that gains makes what is to be added smaller.
        let drift_ppb = -((i128::from(state.fit.line.drift) * 1_000_000_000) >> 32) as i64;
        PhcFacts {
            index: self.index,
            ahead_ns: last.phc_ns.wrapping_sub(last.utc_ns),
            drift_ppb,
            uncertainty_ns: last.uncertainty_ns,
            steps: state.fit.steps,
            failures: state.failures,
            tai_offset_s: host::tai_offset_s(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io;

    const S: i64 = 1_000_000_000;
    /// A day in 2026.
    const DAY_NS: i64 = 1_795_000_000 * S;

    /// A card whose clock was `ahead_ns` ahead at the start and gains `ppb`.
    struct SimulatedCard {
        ahead_ns: i64,
        ppb: i64,
        uncertainty_ns: u64,
    }

    impl SimulatedCard {
        fn phc_ns(&self, elapsed_ns: i64) -> i64 {
            DAY_NS
                + elapsed_ns
                + self.ahead_ns
                + (i128::from(elapsed_ns) * i128::from(self.ppb) / 1_000_000_000) as i64
        }

        fn reading(&self, elapsed_ns: i64, error_ns: i64) -> PhcReading {
            PhcReading {
                phc_ns: self.phc_ns(elapsed_ns),
                utc_ns: DAY_NS + elapsed_ns + error_ns,
                uncertainty_ns: self.uncertainty_ns,
            }
        }
    }

    fn error_ns(fit: &Fit, card: &SimulatedCard, elapsed_ns: i64) -> i64 {
        fit.line.utc_ns(card.phc_ns(elapsed_ns).cast_unsigned()).cast_signed() - DAY_NS - elapsed_ns
    }

    proptest! {
        /// Stamps between and after measurements get the right UTC, whatever the card's
        /// clock says and however fast it runs, up to the error of the measurements.
        #[test]
        fn a_stamp_gets_its_time_of_day(
            ahead_s in -2_000_000_000_i64..2_000_000_000,
            ppb in -200_000_i64..200_000,
            errors in prop::collection::vec(-40_i64..40, 3..60),
            asked_ms in 0_i64..250,
        ) {
            let card = SimulatedCard { ahead_ns: ahead_s * S + 123_456_789, ppb, uncertainty_ns: 40 };
            let mut fit = Fit::default();
            for (number, error) in errors.iter().enumerate() {
                fit.add(card.reading(number as i64 * S / 4, *error));
            }
            let now_ns = (errors.len() as i64 - 1) * S / 4;
            // A slope made of two wrong measurements is most wrong when they are near each other.
            prop_assert!(error_ns(&fit, &card, now_ns + asked_ms * 1_000_000).abs() < 250);
            prop_assert!(error_ns(&fit, &card, now_ns - asked_ms * 1_000_000).abs() < 250);
            prop_assert_eq!(fit.steps, 0);
        }

        /// No readings make the fit panic.
        #[test]
        fn any_readings_make_a_line(
            readings in prop::collection::vec((any::<i64>(), any::<i64>(), any::<u64>()), 1..40),
            asked in any::<u64>(),
        ) {
            let mut fit = Fit::default();
            for (phc_ns, utc_ns, uncertainty_ns) in readings {
                fit.add(PhcReading { phc_ns, utc_ns, uncertainty_ns });
                fit.line.utc_ns(asked);
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_begins_a_new_line() {
        let mut card = SimulatedCard { ahead_ns: 37 * S, ppb: 20_000, uncertainty_ns: 30 };
        let mut fit = Fit::default();
        (0..20).for_each(|number| fit.add(card.reading(number * S / 4, 0)));
        assert!(error_ns(&fit, &card, 5 * S).abs() < 10);
        card.ahead_ns -= 2_000_000;
        fit.add(card.reading(5 * S, 0));
        assert_eq!((fit.steps, fit.readings.len()), (1, 1));
        assert!(error_ns(&fit, &card, 5 * S).abs() < 10);
        (21..40).for_each(|number| fit.add(card.reading(number * S / 4, 0)));
        assert_eq!(fit.steps, 1);
        assert!(error_ns(&fit, &card, 10 * S).abs() < 10);
    }

    #[test]
    fn a_measurement_that_was_interrupted_hardly_counts() {
        let card = SimulatedCard { ahead_ns: 0, ppb: 0, uncertainty_ns: 20 };
        let late = SimulatedCard { uncertainty_ns: 300_000, ..card };
        let mut fit = Fit::default();
        for number in 0..12 {
            fit.add(if number == 6 {
                late.reading(number * S / 4, 250_000)
            } else {
                card.reading(number * S / 4, 0)
            });
        }
        assert!(error_ns(&fit, &card, 3 * S).abs() < 20, "{}", error_ns(&fit, &card, 3 * S));
    }

    /// Readings out of a list; then the card is gone.
    struct List(Arc<Mutex<VecDeque<PhcReading>>>);

    impl PhcRead for List {
        fn read(&self) -> io::Result<PhcReading> {
            self.0.lock().unwrap().pop_front().ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
        }
    }

    #[test]
    fn it_is_measured_often_at_first_and_seldom_later() {
        let card = SimulatedCard { ahead_ns: 37 * S, ppb: 1_000, uncertainty_ns: 30 };
        let readings = (0..10).map(|number| card.reading(number * S / 50, 0)).collect();
        let readings = Arc::new(Mutex::new(readings));
        let clock = PhcClock::new(3, Box::new(List(Arc::clone(&readings))), 0).unwrap();
        let left = || readings.lock().unwrap().len();
        clock.line(AGE_FIRST_NS - 1);
        assert_eq!(left(), 9);
        for number in 1..8 {
            clock.line(number * AGE_FIRST_NS);
        }
        assert_eq!(left(), 2);
        clock.line(8 * AGE_FIRST_NS);
        assert_eq!(left(), 2);
        clock.line(7 * AGE_FIRST_NS + AGE_NS);
        assert_eq!(left(), 1);
    }

    #[test]
    fn a_card_that_went_away_leaves_its_line() {
        let card = SimulatedCard { ahead_ns: 37 * S, ppb: 0, uncertainty_ns: 30 };
        let readings = Arc::new(Mutex::new(VecDeque::from([card.reading(0, 0)])));
        let clock = PhcClock::new(3, Box::new(List(Arc::clone(&readings))), 0).unwrap();
        let line = clock.line(0);
        assert_eq!(clock.line(AGE_NS), line);
        let facts = clock.facts();
        assert_eq!((facts.index, facts.ahead_ns, facts.failures, facts.steps), (3, 37 * S, 1, 0));
        assert!(PhcClock::new(3, Box::new(List(readings)), 0).is_err());
    }

    #[test]
    fn tai_is_told_by_how_far_ahead_the_clock_is() {
        let facts = |ahead_ns, tai_offset_s| PhcFacts {
            index: 0,
            ahead_ns,
            drift_ppb: 0,
            uncertainty_ns: 1,
            steps: 0,
            failures: 0,
            tai_offset_s,
        };
        assert!(facts(37 * S + 900, 37).is_tai() && facts(37 * S - 900, 37).is_tai());
        assert!(!facts(37 * S, 0).is_tai() && !facts(900, 0).is_tai() && !facts(900, 37).is_tai());
    }
}
