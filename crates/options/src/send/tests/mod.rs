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
