//! How frames are distributed in time: `constant`, `poisson`, `poisson:7`, `burst:32`,
//! `burst:32,1ms`.

use super::{BadText, Count, Nanos, time_with_unit};
use packet::Arrivals;
use std::num::NonZeroU32;

const ACCEPTED: &str =
    "constant, poisson, poisson:SEED, burst:FRAMES or burst:FRAMES,GAP, such as burst:32,1ms";

/// Reads an arrival process.
///
/// # Errors
/// Text that is none.
pub fn arrivals(text: &str) -> Result<Arrivals, BadText> {
    let bad = |why: &str| BadText::whole(text, why, ACCEPTED);
    let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value)));
    match (name, value) {
        ("constant", None) => Ok(Arrivals::Constant),
        ("poisson", None) => Ok(Arrivals::Poisson { seed: None }),
        ("poisson", Some(seed)) => {
            let seed = seed.parse().map_err(|_| bad("the seed is not a whole number"))?;
            Ok(Arrivals::Poisson { seed: Some(seed) })
        }
        ("burst", Some(value)) => {
            let (frames, gap) = value.split_once(',').map_or((value, None), |(n, gap)| (n, Some(gap)));
            let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
            let within = |part: &str| {
                let at = offset(part);
                move |bad: BadText| bad.within(text, at)
            };
            let Count(count) = frames.parse().map_err(within(frames))?;
            let frames = u32::try_from(count).ok().and_then(NonZeroU32::new);
            let frames = frames.ok_or_else(|| bad("a burst has 1 to 4294967295 frames"))?;
            let gap: Option<Nanos> = gap.map(|gap| time_with_unit(gap).map_err(within(gap))).transpose()?;
            Ok(Arrivals::Bursts { frames, gap_ns: gap.map(|gap| gap.0) })
        }
        ("burst", None) => Err(bad("the number of frames of a burst is missing")),
        _ => Err(bad("not an arrival process")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_is_read() {
        let bursts = |frames, gap_ns| Arrivals::Bursts { frames: NonZeroU32::new(frames).unwrap(), gap_ns };
        for (text, process) in [
            ("constant", Arrivals::Constant),
            ("poisson", Arrivals::Poisson { seed: None }),
            ("poisson:7", Arrivals::Poisson { seed: Some(7) }),
            ("burst:32", bursts(32, None)),
            ("burst:1k,1ms", bursts(1000, Some(1_000_000))),
        ] {
            assert_eq!(arrivals(text), Ok(process), "{text}");
        }
        for (text, says) in [
            ("poisson:x", "the seed"),
            ("burst", "number of frames"),
            ("burst:0", "1 to 4294967295"),
            ("burst:32,5", "no unit"),
            ("burst:x", "does not begin with a number"),
            ("uniform", "not an arrival process"),
            ("constant:1", "not an arrival process"),
        ] {
            let why = arrivals(text).unwrap_err().to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
