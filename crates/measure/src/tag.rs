//! Values in received frames that are counted apart, such as the DSCP or the VLAN of each frame.

use serde::{Deserialize, Serialize};

/// Parts of a frame that are tracked together.
pub const TAG_PARTS: usize = 4;
/// Bits of a part.
pub const TAG_PART_BITS: u32 = 32;

/// A part of a frame: some bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagPart {
    /// Its first bit in the frame.
    pub bit: u16,
    /// Its bits, 1 to [`TAG_PART_BITS`].
    pub bits: u32,
}

/// What a receiver counted of frames with the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagCounts {
    /// Frames, duplicates included.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub frame_bytes: u64,
    /// Arrival of the first frame in nanoseconds; 0 before it.
    pub first_ns: u64,
    /// Arrival of the last frame.
    pub last_ns: u64,
    /// Frames with a time stamp.
    pub stamped: u64,
    /// Sum of their latencies in nanoseconds.
    pub latency_sum_ns: u64,
    /// Lowest latency; 0 without time stamps.
    pub latency_min_ns: u64,
    /// Highest latency.
    pub latency_max_ns: u64,
}

impl TagCounts {
    /// Adds frames that another CPU or port received.
    pub fn add(&mut self, other: &Self) {
        let lower = |one: u64, other: u64, is_there: [bool; 2]| match is_there {
            [true, true] => one.min(other),
            [false, _] => other,
            [true, false] => one,
        };
        let stamped = [self.stamped > 0, other.stamped > 0];
        self.latency_min_ns = lower(self.latency_min_ns, other.latency_min_ns, stamped);
        self.first_ns = lower(self.first_ns, other.first_ns, [self.frames > 0, other.frames > 0]);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.frames = self.frames.saturating_add(other.frames);
        self.frame_bytes = self.frame_bytes.saturating_add(other.frame_bytes);
        self.stamped = self.stamped.saturating_add(other.stamped);
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(other.latency_sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_the_lowest_and_the_highest() {
        let one =
            TagCounts { frames: 2, frame_bytes: 120, first_ns: 50, last_ns: 60, ..TagCounts::default() };
        let other = TagCounts {
            first_ns: 40,
            last_ns: 55,
            stamped: 2,
            latency_sum_ns: 12,
            latency_min_ns: 5,
            latency_max_ns: 7,
            ..one
        };
        for (mut sum, added) in [(one, other), (other, one)] {
            sum.add(&TagCounts::default());
            sum.add(&added);
            assert_eq!(sum, TagCounts { frames: 4, frame_bytes: 240, first_ns: 40, last_ns: 60, ..other });
        }
    }
}
