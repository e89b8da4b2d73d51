//! What the options of `wirerate send` make of a run.

mod config;
mod flows;
mod packet_options;
mod streams;
mod tags;
mod turn_back;

use super::SendArgs;
use program::args_of;
use sender::SendJob;

/// What `wirerate send WORDS` asks for.
fn job_of(words: impl AsRef<str>) -> SendJob {
    args_of::<SendArgs>(words.as_ref()).unwrap().job()
}

#[test]
fn a_dry_run_takes_a_count_as_other_options_do() {
    let shown = |line: &str| args_of::<SendArgs>(line).map(|args| args.dry_run.map(|count| count.0));
    assert_eq!(shown("eth1 --dry-run").unwrap(), Some(4));
    assert_eq!(shown("eth1 --dry-run=2M").unwrap(), Some(2_000_000));
    let refused = shown("eth1 --dry-run=0").unwrap_err().to_string();
    assert!(refused.contains("it shows at least 1 frame"), "{refused}");
}
