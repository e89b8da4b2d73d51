//! Rounds of random work, each from its own seed.
//!
//! The seeds are the same in each run, so that a run of the tests does not depend on luck.
//! `WIRERATE_FUZZ_SECONDS` is the most time for each fuzzer (`make test`: 30, plain `cargo test`:
//! 1). `WIRERATE_FUZZ_RANDOM=1` takes new seeds until that time is over (`make fuzz`).
//! `WIRERATE_FUZZ_SEED` runs only the round of that seed; a failed round prints the command.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SECONDS: u64 = 1;
/// Seed of the first round, unless seeds are random.
const FIRST_SEED: u64 = 0x5769_7265_7261_7465;
/// Distance between the seeds of two rounds.
const SEED_STEP: u64 = 0xd134_2543_de82_ef95;

/// A test that runs random rounds; [`fuzz!`](crate::fuzz!) makes it.
#[derive(Debug)]
pub struct Fuzzer {
    /// Package of the test.
    pub package: &'static str,
    /// Crate of the test: that of the package for a unit test, else a test program.
    pub target: &'static str,
    /// Name of the test.
    pub name: &'static str,
    /// Number of rounds, unless seeds are random: about those of 30 seconds on two cores.
    pub round_count: u64,
}

/// Runs a closure with one seed after another: the name of the test, its number of rounds, the
/// closure.
#[macro_export]
macro_rules! fuzz {
    ($name:literal, $round_count:literal, $round:expr) => {
        $crate::Fuzzer {
            package: env!("CARGO_PKG_NAME"),
            target: env!("CARGO_CRATE_NAME"),
            name: $name,
            round_count: $round_count,
        }
        .run($round)
    };
}

impl Fuzzer {
    /// Runs `round` with one seed after another, until the rounds or the time are over.
    ///
    /// # Panics
    /// When a round panics, or a variable is not a number.
    pub fn run(&self, round: impl Fn(u64)) {
        if let Some(seed) = setting("WIRERATE_FUZZ_SEED") {
            return round(seed);
        }
        let is_random = setting("WIRERATE_FUZZ_RANDOM").is_some_and(|value| value != 0);
        let end = Instant::now() + Duration::from_secs(setting("WIRERATE_FUZZ_SECONDS").unwrap_or(SECONDS));
        let mut count: u64 = 0;
        for seed in self.seeds(is_random) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| round(seed))) {
                eprintln!("to repeat it: {}", self.command(seed));
                resume_unwind(panic);
            }
            count += 1;
            if Instant::now() >= end {
                break;
            }
        }
        println!("{}: {count} rounds", self.name);
    }

    /// The seeds of all rounds: those of the repository, or without end from a random one on.
    fn seeds(&self, is_random: bool) -> impl Iterator<Item = u64> + use<> {
        let (first, count) =
            if is_random { (seed_of_now(), u64::MAX) } else { (FIRST_SEED, self.round_count) };
        (0..count).map(move |index| first.wrapping_add(index.wrapping_mul(SEED_STEP)))
    }

    /// The command that runs the round of `seed`.
    fn command(&self, seed: u64) -> String {
        let Self { package, target, name, .. } = self;
        let program = if package == target { "--lib".to_owned() } else { format!("--test {target}") };
        format!("WIRERATE_FUZZ_SEED={seed} cargo test --package {package} {program} {name}")
    }
}

fn seed_of_now() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    since_1970.as_nanos() as u64
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fuzzer(target: &'static str) -> Fuzzer {
        Fuzzer { package: "pcapng", target, name: "reads_all", round_count: 3 }
    }

    #[test]
    fn a_failed_round_prints_the_command_that_repeats_it() {
        let command = "WIRERATE_FUZZ_SEED=7 cargo test --package pcapng --test fuzz reads_all";
        assert_eq!(fuzzer("fuzz").command(7), command);
        assert_eq!(fuzzer("pcapng").command(7), command.replace("--test fuzz", "--lib"));
    }

    #[test]
    fn each_run_has_the_same_seeds_unless_they_are_random() {
        let seeds: Vec<u64> = fuzzer("fuzz").seeds(false).collect();
        assert_eq!(seeds, [0, 1, 2].map(|index: u64| FIRST_SEED.wrapping_add(index.wrapping_mul(SEED_STEP))));
        assert_ne!(fuzzer("fuzz").seeds(true).next(), Some(FIRST_SEED));
    }
}
