//! Loss: the sender's count minus the first copies, after sending has ended and all have arrived.

use facts::Described;
use serde::Serialize;

/// Lost frames. It is an interval if frames arrived too late to tell a first copy from a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Described)]
pub struct Loss {
    /// Frames sent: those that the driver of the sender accepted.
    #[fact(unit = "frames")]
    pub sent: u64,
    /// Fewest frames that can be lost.
    #[fact(unit = "frames")]
    pub lost_min: u64,
    /// Most frames that can be lost; `lost_min` if the loss is exact.
    #[fact(unit = "frames")]
    pub lost_max: u64,
    /// First copies beyond `sent`: not all frames are of this run.
    #[fact(unit = "frames")]
    pub excess: u64,
    /// Frames of `lost_max` that arrived late, if there are any.
    #[serde(skip_serializing_if = "is_zero")]
    #[fact(unit = "frames")]
    pub late: u64,
}

/// True for a count that is left out.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Loss {
    /// Joins the counts of sender and receiver.
    pub fn new(sent: u64, unique: u64, too_old: u64) -> Self {
        let lost_max = sent.saturating_sub(unique);
        let lost_min = lost_max.saturating_sub(too_old);
        Self { sent, lost_min, lost_max, excess: unique.saturating_sub(sent), late: 0 }
    }

    /// The loss of several flows: more frames than were sent of one are not those of another.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            lost_min: self.lost_min + other.lost_min,
            lost_max: self.lost_max + other.lost_max,
            excess: self.excess + other.excess,
            late: self.late + other.late,
        }
    }

    /// With so many late frames, which are lost as well (RFC 2680).
    #[must_use]
    pub fn with_late(self, late: u64) -> Self {
        Self { lost_min: self.lost_min + late, lost_max: self.lost_max + late, late, ..self }
    }

    /// Most frames that can be lost, as part of those sent.
    pub fn ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost_max as f64 / self.sent as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_what_did_not_arrive() {
        assert_eq!(Loss::new(100, 97, 0), Loss { sent: 100, lost_min: 3, lost_max: 3, excess: 0, late: 0 });
        assert_eq!(Loss::new(100, 97, 0).ratio(), 0.03);
        assert_eq!(Loss::new(0, 0, 0).ratio(), 0.0);
        let late = Loss::new(100, 97, 0).with_late(5);
        assert_eq!(late, Loss { sent: 100, lost_min: 8, lost_max: 8, excess: 0, late: 5 });
    }

    #[test]
    fn frames_below_the_window_make_it_an_interval() {
        assert_eq!(Loss::new(100, 90, 4), Loss { sent: 100, lost_min: 6, lost_max: 10, excess: 0, late: 0 });
        assert_eq!(Loss::new(100, 99, 4), Loss { sent: 100, lost_min: 0, lost_max: 1, excess: 0, late: 0 });
    }

    #[test]
    fn more_frames_than_were_sent_are_an_excess() {
        let excess = Loss::new(5, 8, 0);
        assert_eq!(excess, Loss { sent: 5, lost_min: 0, lost_max: 0, excess: 3, late: 0 });
        let both = Loss { sent: 10, lost_min: 2, lost_max: 2, excess: 3, late: 0 };
        assert_eq!(excess.and(Loss::new(5, 3, 0)), both, "no loss is made up for");
    }
}
