//! Rounds of random work, each from its own seed.
//!
//! `WIRERATE_FUZZ_SECONDS` is the time for each fuzzer (`make test`: 30, plain `cargo test`: 1).
//! `WIRERATE_FUZZ_SEED` runs only the round of that seed; a failed round prints its seed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SECONDS: u64 = 1;
/// Distance between the seeds of two rounds.
const SEED_STEP: u64 = 0xd134_2543_de82_ef95;

/// Runs `round` with one seed after another until the time is over; `fuzzer` is the name of the
/// test.
///
/// # Panics
/// When a round panics, or a variable is not a number.
pub fn fuzz(fuzzer: &str, round: impl Fn(u64)) {
    if let Some(seed) = setting("WIRERATE_FUZZ_SEED") {
        return round(seed);
    }
    let end = Instant::now() + Duration::from_secs(setting("WIRERATE_FUZZ_SECONDS").unwrap_or(SECONDS));
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    let first = since_1970.as_nanos() as u64;
    let mut count: u64 = 0;
    while count == 0 || Instant::now() < end {
        let seed = first.wrapping_add(count.wrapping_mul(SEED_STEP));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| round(seed))) {
            eprintln!("to repeat it: WIRERATE_FUZZ_SEED={seed} cargo test --test fuzz {fuzzer}");
            resume_unwind(panic);
        }
        count += 1;
    }
    println!("{fuzzer}: {count} rounds from seed {first}");
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
