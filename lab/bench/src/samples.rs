//! Readings of a counter to a rate.

/// One reading of the receiver's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterSample {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    /// Frames received so far.
    pub(crate) frames: u64,
}

/// Frames a second between two readings; `None` when no time passed.
pub(crate) fn rate_pps(from: CounterSample, to: CounterSample) -> Option<f64> {
    let elapsed_ns = to.time_ns.checked_sub(from.time_ns).filter(|ns| *ns > 0)?;
    Some(to.frames.checked_sub(from.frames)? as f64 * 1e9 / elapsed_ns as f64)
}

/// The rate while frames came, from readings that began before the first and ended after the last
/// of them.
///
/// The readings next to the silence at both ends are left out, since within them frames came for
/// part of the time only. `None` when too few readings remain.
pub(crate) fn steady_pps(samples: &[CounterSample]) -> Option<f64> {
    let moved = |pair: &[CounterSample]| pair[1].frames > pair[0].frames;
    let first = samples.windows(2).position(moved)? + 1;
    let last = samples.windows(2).rposition(moved)?;
    if last <= first {
        return None;
    }
    rate_pps(samples[first], samples[last])
}

/// The rate from the last reading before the first frame to the first reading after the last one:
/// too low by what was silent of that time. `None` when nothing came.
pub(crate) fn whole_pps(samples: &[CounterSample]) -> Option<f64> {
    let moved = |pair: &[CounterSample]| pair[1].frames > pair[0].frames;
    let first = samples.windows(2).position(moved)?;
    let last = samples.windows(2).rposition(moved)? + 1;
    rate_pps(samples[first], samples[last])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(frames: &[u64]) -> Vec<CounterSample> {
        let at = |(index, frames): (usize, &u64)| CounterSample {
            time_ns: index as u64 * 10_000_000,
            frames: *frames,
        };
        frames.iter().enumerate().map(at).collect()
    }

    #[test]
    fn silence_at_both_ends_does_not_lower_the_rate() {
        let steady = steady_pps(&samples(&[5, 5, 5, 8, 18, 28, 38, 41, 41, 41])).unwrap();
        assert_eq!(steady, 1_000.0);
    }

    #[test]
    fn a_short_burst_has_a_rate_that_is_rather_too_low() {
        assert_eq!(whole_pps(&samples(&[2, 2, 7, 7])), Some(500.0));
        assert_eq!(whole_pps(&samples(&[2, 2, 4, 12, 12])), Some(500.0));
        assert_eq!(whole_pps(&samples(&[2, 2])), None);
    }

    #[test]
    fn too_few_readings_give_no_rate() {
        for frames in [&[][..], &[1], &[1, 1, 1], &[0, 7, 7], &[0, 3, 7, 7]] {
            assert_eq!(steady_pps(&samples(frames)), None, "{frames:?}");
        }
        let now = CounterSample { time_ns: 1, frames: 1 };
        assert_eq!(rate_pps(now, now), None);
    }
}
