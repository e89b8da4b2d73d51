//! Seeds of random numbers.

use std::hash::{BuildHasher, RandomState};

/// A seed for a run without `--seed`, of 53 bits: programs that read JSON numbers as doubles, such
/// as jq 1.6, keep it exactly.
pub fn fresh_seed() -> u64 {
    // Random keys of the standard library's hash maps: a new one for each `RandomState`.
    RandomState::new().hash_one(0u8) >> 11
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_drawn_seed_survives_a_program_that_reads_doubles() {
        for _ in 0..100 {
            let seed = crate::seed::fresh_seed();
            assert_eq!(seed as f64 as u64, seed);
        }
    }
}
