//! Rounds of random work: as many as the time given allows, each from a seed of its own that brings it back.
//!
//! `WIRERATE_FUZZ_SECONDS` is the time for each fuzzer (`make test` gives 30, plain `cargo test` one).
//! `WIRERATE_FUZZ_SEED` runs only the round of that seed, which is what a round that fails asks for.

use packet::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SECONDS: u64 = 1;

/// Runs `round` again and again, with other random numbers each time and in each run.
pub(crate) fn rounds(fuzzer: &str, round: impl Fn(&mut Rng)) {
    if let Some(seed) = setting("WIRERATE_FUZZ_SEED") {
        return round(&mut Rng(seed));
    }
    let end = Instant::now() + Duration::from_secs(setting("WIRERATE_FUZZ_SECONDS").unwrap_or(SECONDS));
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
    let first = since_1970.as_nanos() as u64;
    let mut count = 0;
    while count == 0 || Instant::now() < end {
        let seed = Rng::for_worker(first, count).0;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| round(&mut Rng(seed)))) {
            eprintln!("once more: WIRERATE_FUZZ_SEED={seed} cargo test --test fuzz {fuzzer}");
            resume_unwind(panic);
        }
        count += 1;
    }
    println!("{fuzzer}: {count} rounds from seed {first}");
}

/// A number of the environment.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
