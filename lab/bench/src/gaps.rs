//! Gaps between frames at a receiver: a capture there, and its times to quantiles.

use crate::process::Tool;
use crate::programs::{netns, owned};
use crate::testbed::Testbed;
use anyhow::{Context, Result};
use pcapng::{Block, Reader};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;

/// Ring of the receiver's capture.
const RING: &str = "32MiB";

/// Takes all frames off the receiver into a file, with their times.
pub(crate) fn capture(bed: &Testbed, wirerate: &Path, file: &Path) -> Result<Tool> {
    let (end, cpu) = (bed.rx(), bed.capture_cpu);
    let file = file.to_str().expect("our own names are UTF-8");
    let words = ["capture", end.ifname, "--mode", "drop", "--snaplen", "64"];
    let words = [&words[..], &["--ring", RING, "--clock", "system", "--write", file]].concat();
    let tool = Tool::start(wirerate, &[owned(&words), netns(end)].concat(), end.netns(), cpu)?;
    tool.until_it_says("capturing on", &bed.stop)?;
    Ok(tool)
}

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
    /// Half of the gaps are no further from the gap that was asked for.
    #[serde(default)]
    pub(crate) off_p50_ns: u64,
    /// Nine of ten.
    #[serde(default)]
    pub(crate) off_p90_ns: u64,
}

impl GapStats {
    /// Between times in ascending order, where gaps of `asked_ns` were asked for; `None` for fewer
    /// than two.
    pub(crate) fn of(times_ns: &[u64], asked_ns: u64) -> Option<Self> {
        let mut gaps: Vec<u64> = times_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let mut offs: Vec<u64> = gaps.iter().map(|gap| gap.abs_diff(asked_ns)).collect();
        gaps.sort_unstable();
        offs.sort_unstable();
        let max_ns = *gaps.last()?;
        Some(Self {
            p50_ns: at(&gaps, 500),
            p99_ns: at(&gaps, 990),
            p999_ns: at(&gaps, 999),
            max_ns,
            off_mean_ns: offs.iter().sum::<u64>() / offs.len() as u64,
            off_p50_ns: at(&offs, 500),
            off_p90_ns: at(&offs, 900),
        })
    }
}

/// The smallest of ascending values that so many of a thousand do not exceed.
pub(crate) fn at(values: &[u64], per_mille: usize) -> u64 {
    values[(values.len() * per_mille).div_ceil(1_000).saturating_sub(1)]
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
        let (p50_ns, p99_ns, p999_ns, max_ns) = (10, 10, 500, 7_000);
        let (off_mean_ns, off_p50_ns, off_p90_ns) = (7, 0, 0);
        assert_eq!(gaps, GapStats { p50_ns, p99_ns, p999_ns, max_ns, off_mean_ns, off_p50_ns, off_p90_ns });
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
