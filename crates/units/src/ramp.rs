//! A rate that changes over time, written `1k..1M/30s` or `1k..1M/30s/10` with a number of steps.

use super::{BadText, FrameRate, Nanos};
use engine::Ramp;
use std::num::{NonZeroU32, NonZeroU64};

const ACCEPTED: &str = "a first and a last packet rate, a time, and perhaps a number of steps, such as 1k..1M/30s or 1k..1M/30s/10";
/// Steps of a ramp without a number of steps have this length,
const STEP_NS: u64 = 10_000_000;
/// unless they were more than this.
const STEPS_MAX: u32 = 100_000;
/// Time in nanoseconds times frames per million seconds, so that sums over all steps fit into 128
/// bits: 9 billion frames per second for a year.
const FRAMES_MAX: u128 = 1 << 108;

/// Reads a ramp.
///
/// # Errors
/// Text that is none.
pub fn ramp(text: &str) -> Result<Ramp, BadText> {
    let bad = |why: &str| BadText::whole(text, why, ACCEPTED);
    let mut parts = text.split('/');
    let (Some(rates), Some(time), steps, None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad("no time"));
    };
    let (from, to) = rates.split_once("..").ok_or_else(|| bad("no second rate"))?;
    let rate = |word: &str| {
        let rate: FrameRate = word.parse().map_err(|bad: BadText| bad.within(text, offset(text, word)))?;
        NonZeroU64::new(rate.0).ok_or_else(|| bad("a rate of zero"))
    };
    let (from_micropps, to_micropps) = (rate(from)?, rate(to)?);
    let over: Nanos = time.parse().map_err(|bad: BadText| bad.within(text, offset(text, time)))?;
    let steps = match steps {
        None => (over.0 / STEP_NS).clamp(2, STEPS_MAX.into()) as u32,
        Some(steps) => steps.parse().map_err(|_| bad("not a number of steps"))?,
    };
    let steps = NonZeroU32::new(steps).filter(|steps| steps.get() <= STEPS_MAX);
    let steps = steps.ok_or_else(|| bad("not 1 to 100000 steps"))?;
    let step_ns = NonZeroU64::new(over.0 / u64::from(steps.get())).ok_or_else(|| bad("too short"))?;
    let frames = u128::from(over.0) * u128::from(from_micropps.max(to_micropps).get());
    if frames > FRAMES_MAX {
        return Err(bad("too long for such a rate"));
    }
    Ok(Ramp { from_micropps, to_micropps, step_ns, steps })
}

/// Where `word`, a part of `text`, begins.
fn offset(text: &str, word: &str) -> usize {
    word.as_ptr() as usize - text.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_two_rates_and_a_time() {
        let read = |text: &str| {
            let Ramp { from_micropps, to_micropps, step_ns, steps } = ramp(text).unwrap();
            (from_micropps.get(), to_micropps.get(), step_ns.get(), steps.get())
        };
        assert_eq!(read("1kpps..1Mpps/30s"), (1_000_000_000, 1_000_000_000_000, 10_000_000, 3000));
        assert_eq!(read("1M..1k/500ms/5"), (1_000_000_000_000, 1_000_000_000, 100_000_000, 5));
        assert_eq!(read("5..6/1us"), (5_000_000, 6_000_000, 500, 2));
        assert_eq!(read("0.5..2.25/10s/2"), (500_000, 2_250_000, 5_000_000_000, 2));
    }

    #[test]
    fn other_text_is_refused_where_it_is_wrong() {
        for (text, says) in [
            ("1k..1M", "no time"),
            ("1k/30s", "no second rate"),
            ("0..1M/30s", "a rate of zero"),
            ("1k..1M/30s/0", "not 1 to 100000 steps"),
            ("1k..1M/30s/5/5", "no time"),
            ("1k..1M/0s", "too short"),
            ("1k..1X/3s", "1X"),
            ("1..1000G/1000000h", "too long for such a rate"),
        ] {
            let why = ramp(text).unwrap_err().to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
