//! What became of each record.

use facts::{Described, LeftOutPackets};
use serde::Serialize;

/// What became of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The driver accepted its frame.
    Sent,
    /// The options did not select it.
    NotWanted,
    /// The file has only its first bytes, and `--cut skip` was given.
    Cut,
    /// Its frame is longer than the device accepts.
    TooLong,
    /// Its link type has no form on the device.
    LinkType,
    /// Its bytes are not what its link type requires.
    Damaged,
    /// It was read, but the run ended before it was sent.
    AfterEnd,
    /// The device or the kernel did not accept its frame.
    Error,
}

impl Fate {
    /// All fates, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Sent,
        Self::NotWanted,
        Self::Cut,
        Self::TooLong,
        Self::LinkType,
        Self::Damaged,
        Self::AfterEnd,
        Self::Error,
    ];
}

/// Number of records of each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct Fates {
    /// Frames that the driver accepted; 0 of `rewrite`, which sends nothing and has the counts of
    /// `replay`.
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Those without a frame.
    #[serde(flatten)]
    pub left_out: LeftOutPackets,
    /// Frames that the device or the kernel did not accept. No other frame takes the place of one
    /// that the ring dropped. 0 of `rewrite`, which sends nothing.
    #[fact(unit = "frames")]
    pub errors: u64,
}

impl Fates {
    /// Counts one record.
    pub fn count(&mut self, fate: Fate) {
        self.add(fate, 1);
    }

    /// Counts several records.
    pub fn add(&mut self, fate: Fate, count: u64) {
        *match fate {
            Fate::Sent => &mut self.sent,
            Fate::NotWanted => &mut self.left_out.not_wanted,
            Fate::Cut => &mut self.left_out.cut,
            Fate::TooLong => &mut self.left_out.too_long,
            Fate::LinkType => &mut self.left_out.link_type,
            Fate::Damaged => &mut self.left_out.damaged,
            Fate::AfterEnd => &mut self.left_out.after_end,
            Fate::Error => &mut self.errors,
        } += count;
    }

    /// Adds the records of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.merge_times(other, 1);
    }

    /// Adds the records of `other` several times.
    pub fn merge_times(&mut self, other: &Self, times: u64) {
        self.sent += other.sent * times;
        self.left_out.add(&other.left_out.times(times));
        self.errors += other.errors * times;
    }

    /// All records.
    pub fn total(&self) -> u64 {
        self.sent + self.left_out.total() + self.errors
    }

    /// True if records were not sent for a reason that the user did not ask for.
    pub fn fell_short(&self) -> bool {
        self.left_out.too_long + self.left_out.link_type + self.left_out.damaged + self.errors > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fate_is_part_of_the_total() {
        let mut fates = Fates::default();
        let all = [
            Fate::Sent,
            Fate::NotWanted,
            Fate::Cut,
            Fate::TooLong,
            Fate::LinkType,
            Fate::Damaged,
            Fate::AfterEnd,
            Fate::Error,
        ];
        all.into_iter().for_each(|fate| fates.count(fate));
        assert_eq!(fates.total(), all.len() as u64);
        let mut twice = fates;
        twice.merge(&fates);
        assert_eq!(twice.total(), 2 * all.len() as u64);
        assert!(fates.fell_short());
        let left_out = LeftOutPackets { not_wanted: 2, cut: 1, after_end: 4, ..LeftOutPackets::default() };
        let asked = Fates { sent: 3, left_out, errors: 0 };
        assert!(!asked.fell_short());
    }
}
