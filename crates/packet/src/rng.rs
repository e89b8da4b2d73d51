//! Random numbers that a seed repeats: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
//!
//! One 64-bit word of state, no tables, and the same few instructions in C:
//! `crates/bpf/src/bpf/draw.h` draws the same numbers in the kernel. Not for secrets.

/// A repeatable source of random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rng(pub u64);

impl Rng {
    /// The source for one of several workers that share a seed.
    pub fn for_worker(seed: u64, worker: u64) -> Self {
        let mut rng = Self(seed ^ worker.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next_u32();
        rng
    }

    /// The next 32 random bits (the upper half of the mixed word).
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound` by multiply and shift; 0 when `bound` is 0. The bias is below `bound`
    /// / 2^32.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_repeatable_bounded_and_spread() {
        let (mut a, mut b) = (Rng(7), Rng(7));
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            let draw = a.below(10);
            assert_eq!(draw, b.below(10));
            seen[draw as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_ne!(Rng::for_worker(1, 0), Rng::for_worker(1, 1));
    }
}
