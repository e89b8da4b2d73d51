//! Gaps between frames at a receiver: times in a capture file to quantiles.

use anyhow::{Context, Result};
use pcapng::{Block, Reader};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;

/// How gaps are spread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GapStats {
    /// Half of the gaps are no longer.
    pub(crate) p50_ns: u64,
    /// 99 of a hundred.
    pub(crate) p99_ns: u64,
    /// 999 of a thousand.
    pub(crate) p999_ns: u64,
    /// The longest.
    pub(crate) max_ns: u64,
    /// So far are they from the gap that was asked for, in the mean. Who sends the frames of a
    /// second at once has short gaps, and is off by twice the gap that was asked for; a single long
    /// gap among thousands counts little.
    pub(crate) off_mean_ns: u64,
}

impl GapStats {
    /// Between times in ascending order, where gaps of `asked_ns` were asked for; `None` for fewer
    /// than two.
    pub(crate) fn of(times_ns: &[u64], asked_ns: u64) -> Option<Self> {
        let mut gaps: Vec<u64> = times_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let offs_ns: u64 = gaps.iter().map(|gap| gap.abs_diff(asked_ns)).sum();
        gaps.sort_unstable();
        let max_ns = *gaps.last()?;
        // The smallest gap that so many of a thousand do not exceed.
        let at = |per_mille: usize| gaps[(gaps.len() * per_mille).div_ceil(1_000).saturating_sub(1)];
        let off_mean_ns = offs_ns / gaps.len() as u64;
        Some(Self { p50_ns: at(500), p99_ns: at(990), p999_ns: at(999), max_ns, off_mean_ns })
    }
}

/// Times of all frames in a pcapng file, ascending.
pub(crate) fn times_ns(path: &Path) -> Result<Vec<u64>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file));
    let mut times_ns = Vec::new();
    while let Some(block) =
        reader.next_block().with_context(|| format!("{} is not as it should be", path.display()))?
    {
        if let Block::Packet(packet) = block {
            times_ns.push(packet.time_ns);
        }
    }
    times_ns.sort_unstable();
    Ok(times_ns)
}

/// Those of ascending times that lie in a window.
pub(crate) fn within(times_ns: &[u64], window: Range<u64>) -> &[u64] {
    let from = times_ns.partition_point(|time| *time < window.start);
    let to = times_ns.partition_point(|time| *time < window.end);
    &times_ns[from..to.max(from)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_gaps_that_occur() {
        // 998 gaps of 10, one of 500, one of 7000.
        let mut times: Vec<u64> = (0..999).map(|index| index * 10).collect();
        times.extend([9_980 + 500, 9_980 + 500 + 7_000]);
        let gaps = GapStats::of(&times, 10).expect("there are gaps");
        assert_eq!(gaps, GapStats { p50_ns: 10, p99_ns: 10, p999_ns: 500, max_ns: 7_000, off_mean_ns: 7 });
        assert_eq!((GapStats::of(&[], 1), GapStats::of(&[7], 1)), (None, None));
        assert_eq!(
            GapStats::of(&[7, 9], 5).map(|gaps| (gaps.p50_ns, gaps.max_ns, gaps.off_mean_ns)),
            Some((2, 2, 3))
        );
    }

    #[test]
    fn who_sends_all_at_once_has_short_gaps_and_is_far_off() {
        // A thousand frames, a nanosecond apart, each second.
        let times: Vec<u64> = (0..5_000).map(|frame| frame / 1_000 * 1_000_000_000 + frame % 1_000).collect();
        let gaps = GapStats::of(&times, 1_000_000).expect("there are gaps");
        assert_eq!((gaps.p99_ns, gaps.off_mean_ns / 1_000), (1, 1_798));
    }

    #[test]
    fn a_window_takes_its_begin_and_leaves_its_end() {
        let times = [1, 3, 5, 7];
        assert_eq!(within(&times, 3..7), [3, 5]);
        assert_eq!(within(&times, 8..9), [] as [u64; 0]);
        assert_eq!(within(&times, Range { start: 6, end: 2 }), [] as [u64; 0]);
    }
}
