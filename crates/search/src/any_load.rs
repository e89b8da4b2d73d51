//! Loss that does not depend on the load: a link that damages 1 frame in 10,000 does so at each
//! load.
//!
//! With such a loss no load passes. But trials of a low load have few frames and lose none by
//! chance, so a search would go down to the load at which half of the trials do. Therefore, when a
//! trial loses few frames, and not because it is at the edge of what the device forwards, trials at
//! half of its load follow until they show whether the same share of the frames is lost there.

use crate::BILLION;
use crate::bounds::TrialsByLoad;
use crate::trial::TrialLoss;

/// The loss ratio of a trial that loses few frames, at most. A load above what the device forwards
/// loses more, unless it is above it by less than this share.
const FEW_PPB: u64 = BILLION / 1000;
/// A load this close to the forwarding rate of a higher load is at the edge.
const EDGE_PPB: u64 = BILLION / 50;
/// Lost frames at half of the load that show its loss ratio well enough.
const LOST_MIN: u64 = 3;
/// If half of the load lost the same share, so many frames would be lost there when fewer than half
/// as many are a difference; if none is lost, `LOST_MIN` are enough.
const EXPECTED_MIN: u64 = 6;
/// Trials at half of the load, at most.
const TRIALS_MAX: usize = 8;

/// What the trials at half of a load say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtHalf {
    /// Another trial there is needed.
    Unknown,
    /// Fewer frames are lost there: the loss depends on the load.
    LosesLess,
    /// The same share of frames is lost there, in parts per billion.
    LosesAsMuch(u64),
}

/// Whether a trial that lost this much at this load is a reason to try half of its load.
pub(crate) fn is_reason(trials: &TrialsByLoad, load_pps: u64, loss: TrialLoss, loss_ratio_ppb: u64) -> bool {
    let is_few = loss.exceeds(loss_ratio_ppb) && !loss.exceeds(FEW_PPB);
    let is_at_edge = |(load, loss): (u64, TrialLoss)| {
        let forwarded = u128::from(loss.forwarded_pps(load));
        let near = forwarded - forwarded * u128::from(EDGE_PPB) / u128::from(BILLION);
        load > load_pps && loss.exceeds(FEW_PPB) && u128::from(load_pps) >= near
    };
    is_few && !trials.iter().any(is_at_edge)
}

/// What the trials say about `half_pps`, which is half of a load that lost few frames.
pub(crate) fn at_half(trials: &TrialsByLoad, half_pps: u64) -> AtHalf {
    let pooled = |is_low: bool| {
        let of_load = trials.iter().filter(|(load, loss)| {
            if is_low { *load <= half_pps } else { *load > half_pps && !loss.exceeds(FEW_PPB) }
        });
        of_load.fold(TrialLoss { lost: 0, whole: 0 }, |sum, (_, loss)| TrialLoss {
            lost: sum.lost + loss.lost,
            whole: sum.whole + loss.whole,
        })
    };
    let (above, below) = (pooled(false), pooled(true));
    let lost = u128::from(below.lost);
    // Both sides times the frames above, so that all are whole numbers.
    let times = u128::from(above.whole.max(1));
    let expected = u128::from(above.lost) * u128::from(below.whole);
    let is_as_much = lost * 2 * times >= expected;
    let has_all = trials.iter().filter(|(load, _)| *load == half_pps).count() >= TRIALS_MAX;
    let enough = if lost == 0 { LOST_MIN } else { EXPECTED_MIN };
    if is_as_much && (below.lost >= LOST_MIN || has_all && below.lost >= 2) {
        AtHalf::LosesAsMuch(below.ppb())
    } else if has_all || !is_as_much && expected >= u128::from(enough) * times {
        AtHalf::LosesLess
    } else {
        AtHalf::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(all: &[(u64, u64, u64)]) -> TrialsByLoad {
        let mut trials = TrialsByLoad::default();
        all.iter().for_each(|(load, lost, whole)| {
            trials.add(*load, BILLION, TrialLoss { lost: *lost, whole: *whole });
        });
        trials
    }

    #[test]
    fn a_few_lost_frames_are_a_reason_unless_they_are_at_the_edge() {
        let loss = |lost| TrialLoss { lost, whole: 20_000 };
        let none = TrialsByLoad::default();
        assert!(is_reason(&none, 20_000, loss(2), 0));
        assert!(!is_reason(&none, 20_000, loss(0), 0) && !is_reason(&none, 20_000, loss(2), 500_000));
        assert!(!is_reason(&none, 20_000, loss(21), 0), "more than 0.1 %");
        // 40,000 frames per second lose half, so the edge is at 20,000.
        let overload = trials(&[(40_000, 20_000, 40_000)]);
        assert!(!is_reason(&overload, 20_000, loss(2), 0) && !is_reason(&overload, 19_600, loss(2), 0));
        assert!(is_reason(&overload, 19_500, loss(2), 0));
    }

    #[test]
    fn half_of_the_load_shows_whether_the_loss_depends_on_it() {
        let above = (20_000, 2, 20_000);
        let half = |lost: &[u64]| {
            let halves = lost.iter().map(|lost| (10_000, *lost, 10_000));
            at_half(&trials(&[above].into_iter().chain(halves).collect::<Vec<_>>()), 10_000)
        };
        assert_eq!([half(&[]), half(&[1, 1]), half(&[0, 0])], [AtHalf::Unknown; 3]);
        assert_eq!(half(&[1, 1, 1]), AtHalf::LosesAsMuch(100_000));
        assert_eq!(half(&[0, 0, 0]), AtHalf::LosesLess, "three were expected");
        assert_eq!(half(&[1, 0, 0, 1, 0, 0]), AtHalf::LosesLess, "six were expected");
        assert_eq!(half(&[1, 0, 0, 1, 0, 1]), AtHalf::LosesAsMuch(50_000));
        // One frame lost by accident above: eight trials are enough of it.
        let accident = (20_000, 1, 2_000_000);
        let halves = |count| {
            let all: Vec<_> = [accident].into_iter().chain(vec![(10_000, 0, 10_000); count]).collect();
            at_half(&trials(&all), 10_000)
        };
        assert_eq!([halves(7), halves(8)], [AtHalf::Unknown, AtHalf::LosesLess]);
    }
}
