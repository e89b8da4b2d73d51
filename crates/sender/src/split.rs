//! A run divided among several threads: counts, sequence numbers, rates and random numbers.

use super::rate::RequestedRate;
use engine::{Pace, Ramp};
use packet::{Arrivals, Config, Rate, Rng};
use std::num::NonZeroU64;

/// Number of sequence numbers.
const SEQ_NUMS: u64 = 1 << 32;
/// pktgen counts frames from 1.
const SEQ_NUM_FIRST: u32 = 1;

/// The part of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Frames to send, 0 for no end.
    pub count: u64,
    /// Sequence number of its first frame.
    pub seq_num: u32,
    /// How fast.
    pub pace: Pace,
    /// Its random numbers.
    pub rng: Rng,
}

/// Divides `count` frames (0 for no end) and `rate` among `threads`. The sums are exact, and no two
/// threads use the same sequence number as long as 2^32 are enough. A thread without a frame or a
/// rate gets no share. Counts are proportional to rates, so that all threads end together.
pub fn shares(count: u64, rate: RequestedRate, seed: u64, threads: u32) -> Vec<Share> {
    let whole = rate_of(rate);
    let useful = [count, whole.unwrap_or(0)].into_iter().filter(|limit| *limit > 0);
    let threads = useful.fold(u64::from(threads), u64::min);
    let mut seq_num = u64::from(SEQ_NUM_FIRST);
    let (mut shares, mut weight_before) = (Vec::new(), 0);
    let weight_of_all = whole.unwrap_or(threads);
    for thread in 0..threads {
        let weight = whole.map_or(1, |rate| part(rate, threads, thread));
        // One for each, and of the rest in proportion: a count of 0 would be no end.
        let rest = |weight| rounded_up(count.saturating_sub(threads), weight, weight_of_all);
        let count = if count == 0 { 0 } else { 1 + rest(weight_before + weight) - rest(weight_before) };
        weight_before += weight;
        shares.push(Share {
            count,
            seq_num: (seq_num % SEQ_NUMS) as u32,
            pace: pace_of(rate, threads, thread, weight, seed),
            rng: rng_of(seed, thread),
        });
        seq_num += if count == 0 { SEQ_NUMS / threads } else { count };
    }
    shares
}

/// The pace of the only thread of a run with the seed `seed`.
pub fn pace_of_one_thread(rate: RequestedRate, config: &Config, seed: u64) -> Pace {
    let shares = shares(0, rate.for_lengths(config), seed, 1);
    shares.first().map_or(Pace::Unpaced, |share| share.pace)
}

/// The part of `whole` that belongs to one of `threads`; the parts differ by one at most.
fn part(whole: u64, threads: u64, thread: u64) -> u64 {
    whole / threads + u64::from(thread < whole % threads)
}

/// `whole` times `part` of `parts`.
fn rounded_up(whole: u64, part: u64, parts: u64) -> u64 {
    (u128::from(whole) * u128::from(part)).div_ceil(u128::from(parts)) as u64
}

/// The random numbers of a thread.
fn rng_of(seed: u64, thread: u64) -> Rng {
    if thread == 0 { Rng(seed) } else { Rng::for_worker(seed, thread) }
}

/// The number that the threads divide, if there is one.
fn rate_of(rate: RequestedRate) -> Option<u64> {
    match rate {
        RequestedRate::LineRate | RequestedRate::Groups { .. } | RequestedRate::Ramp(_) => None,
        RequestedRate::Constant { rate, .. } => rate.divisible(),
    }
}

/// The pace of one of `threads` whose part of the rate is `amount`.
fn pace_of(rate: RequestedRate, threads: u64, thread: u64, amount: u64, seed: u64) -> Pace {
    match rate {
        RequestedRate::LineRate => Pace::Unpaced,
        RequestedRate::Constant { rate, arrivals } => {
            let part: Option<Rate> = rate.with_part(amount, threads);
            // Poisson processes of threads are independent, so that all together are one.
            let arrivals = match arrivals {
                Arrivals::Poisson { seed } => {
                    Arrivals::Poisson { seed: seed.map(|seed| rng_of(seed, thread).0) }
                }
                Arrivals::Bursts { frames, gap_ns } => {
                    Arrivals::Bursts { frames, gap_ns: gap_ns.map(|gap_ns| gap_ns.saturating_mul(threads)) }
                }
                Arrivals::Constant => Arrivals::Constant,
            };
            part.map_or(Pace::Never, |part| Pace::with_arrivals(part, arrivals, rng_of(seed, thread).0))
        }
        RequestedRate::Groups { frames, interval_ns } => {
            Pace::bursts_at_once(frames, interval_ns.saturating_mul(threads))
        }
        RequestedRate::Ramp(ramp) => {
            let part = |whole: NonZeroU64| {
                NonZeroU64::new(part(whole.get(), threads, thread)).unwrap_or(NonZeroU64::MIN)
            };
            let (from_micropps, to_micropps) = (part(ramp.from_micropps), part(ramp.to_micropps));
            Pace::Ramp(Ramp { from_micropps, to_micropps, ..ramp })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Rng;
    use proptest::prelude::*;

    fn constant(rate: Option<Rate>) -> RequestedRate {
        RequestedRate::Constant { rate: rate.expect("more than 0"), arrivals: Arrivals::Constant }
    }

    fn pps(pps: u64) -> RequestedRate {
        constant(Rate::from_pps(pps))
    }

    #[test]
    fn one_thread_does_it_all() {
        let [share] = shares(10, pps(5), 7, 1)[..] else { panic!("one share") };
        assert_eq!((share.count, share.seq_num, share.rng), (10, 1, Rng(7)));
        assert_eq!(share.pace, Pace::from_pps(5));
    }

    #[test]
    fn no_end_divides_the_sequence_numbers() {
        let starts: Vec<_> =
            shares(0, RequestedRate::LineRate, 7, 4).iter().map(|share| share.seq_num).collect();
        assert_eq!(starts, [1, 0x4000_0001, 0x8000_0001, 0xc000_0001]);
    }

    #[test]
    fn a_thread_without_frames_is_not_started() {
        assert_eq!(shares(2, RequestedRate::LineRate, 7, 4).len(), 2);
    }

    #[test]
    fn a_rate_below_the_number_of_threads_comes_to_its_end() {
        let slow = shares(4, pps(1), 7, 2);
        assert_eq!(slow.iter().map(|share| share.count).collect::<Vec<_>>(), [4]);
        assert_eq!(slow[0].pace, Pace::from_pps(1));
        assert_eq!(shares(0, constant(Rate::from_wire_bps(2)), 7, 4).len(), 2);
    }

    #[test]
    fn threads_of_unequal_rates_end_together() {
        let counts = |count, rate, threads| {
            let shares = shares(count, pps(rate), 7, threads);
            shares.iter().map(|share| share.count).collect::<Vec<_>>()
        };
        assert_eq!(counts(302, 3, 2), [201, 101]);
        assert_eq!(counts(8, 12, 8), [1; 8]);
    }

    #[test]
    fn delays_grow_and_rates_shrink() {
        let paces = |pace| shares(0, pace, 7, 2).iter().map(|share| share.pace).collect::<Vec<_>>();
        assert_eq!(paces(constant(Rate::from_interval_ns(10))), [Pace::from_delay_ns(20); 2]);
        let fine = |micropps| Pace::Constant(Rate::from_micropps(micropps).unwrap());
        assert_eq!(paces(constant(Rate::from_micropps(500_001))), [fine(250_001), fine(250_000)]);
        assert_eq!(paces(constant(Rate::from_wire_bps(5))), [Pace::from_wire_bps(3), Pace::from_wire_bps(2)]);
        let ramp = |text| units::ramp(text).unwrap();
        let parts = [Pace::Ramp(ramp("2.5..4.500001/1s/4")), Pace::Ramp(ramp("2.5..4.5/1s/4"))];
        assert_eq!(paces(RequestedRate::Ramp(ramp("5..9.000001/1s/4"))), parts);
    }

    #[test]
    fn poisson_processes_of_threads_differ() {
        let rate = Rate::from_pps(1000).unwrap();
        let seed = |given| {
            let arrivals = Arrivals::Poisson { seed: given };
            let shares = shares(0, RequestedRate::Constant { rate, arrivals }, 7, 2);
            shares.iter().map(|share| share.pace).collect::<Vec<_>>()
        };
        let half = Rate::from_pps(500).unwrap();
        assert_eq!(seed(None), [7, Rng::for_worker(7, 1).0].map(|seed| Pace::Poisson { rate: half, seed }));
        assert_eq!(seed(Some(9))[0], Pace::Poisson { rate: half, seed: 9 });
    }

    proptest! {
        #[test]
        fn parts_sum_up_and_sequence_numbers_follow_each_other(count in 1u64..1 << 40, threads in 1u32..65) {
            let shares = shares(count, pps(count), 7, threads);
            prop_assert_eq!(shares.iter().map(|share| share.count).sum::<u64>(), count);
            let rates = shares.iter().map(|share| share.pace.rate().and_then(Rate::divisible).unwrap_or(0));
            prop_assert_eq!(rates.sum::<u64>(), count);
            for pair in shares.windows(2) {
                let next = (u64::from(pair[0].seq_num) + pair[0].count) % SEQ_NUMS;
                prop_assert_eq!(u64::from(pair[1].seq_num), next);
            }
        }
    }
}
