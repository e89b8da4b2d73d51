//! `wirerate bench`: rates, paces, starts and captures of wirerate on its user's own hardware.

use crate::advice;
use crate::outcome::{Failure, Outcome};
use crate::stop::Stop;
use bench::own::{self, BenchEnd};
use host::HostError;

pub use bench::own::Args;

/// Does it.
///
/// # Errors
/// What the host refused.
pub fn run(args: &Args, stop: &Stop) -> Result<Outcome, Failure> {
    let is_root = nix::unistd::geteuid().is_root();
    match own::run(args, stop.flag()) {
        Ok(BenchEnd::Good) => Ok(Outcome::Done),
        Ok(BenchEnd::Bad | BenchEnd::Stopped) => Ok(Outcome::No),
        Err(error) => {
            let host = error.chain().find_map(|cause| cause.downcast_ref::<HostError>());
            let advice = host.and_then(advice::for_host).unwrap_or_else(|| match is_root {
                true => "wirerate doctor".to_owned(),
                false => "run it as root".to_owned(),
            });
            Err(Failure::refused("measure", error).try_this(advice))
        }
    }
}
