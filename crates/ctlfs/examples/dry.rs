//! The control tree with the mem engine, which makes every frame and sends none: for the tests.
//!
//!     dry exec [--netns NETNS | --name NAME | --join NAME] -- CMD [ARG]...
//!     dry serve DIR

use ctlfs::control::Control;
use ctlfs::{Tree, exec, serve};
use engine::{EngineError, EngineKind};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::Arc;

fn build() -> Result<Arc<dyn Tree>, EngineError> {
    Ok(Arc::new(Control::here(Some(EngineKind::Mem), |_| None, |_| {})?))
}

fn complain(error: &dyn std::error::Error) -> u8 {
    eprintln!("dry: {error}");
    let mut cause = error.source();
    while let Some(next) = cause {
        eprintln!("  because: {next}");
        cause = next.source();
    }
    3
}

fn run_exec(words: &[OsString]) -> u8 {
    let (option, value, words) = match words {
        [option, value, rest @ ..] if option != "--" => (option.to_str(), value.to_str(), rest),
        rest => (None, None, rest),
    };
    let [dashes, program, args @ ..] = words else { return usage() };
    if dashes != "--" {
        return usage();
    }
    let value_of = |name| value.filter(|_| option == Some(name)).map(str::to_owned);
    let ended = match value_of("--join") {
        Some(target) => ctlfs::join(&target, program, args),
        None => {
            let (netns, name) = (value_of("--netns"), value_of("--name"));
            let what = exec::Exec { netns, name, program: program.clone(), args: args.to_vec() };
            exec::run(&what, build).map(|ended| {
                ended.unread.iter().for_each(|line| eprintln!("dry: {line}"));
                ended.status
            })
        }
    };
    ended.unwrap_or_else(|error| error.shell_status().unwrap_or_else(|| complain(&error)))
}

fn run_serve(dir: &OsStr) -> u8 {
    let what = serve::Serve { mount: dir.into(), netns: None };
    serve::run(&what, build).map_or_else(|error| complain(&error), |()| 0)
}

fn usage() -> u8 {
    eprintln!("usage: dry exec [--netns NETNS | --name NAME | --join NAME] -- CMD [ARG]... | dry serve DIR");
    2
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    ExitCode::from(match words.as_slice() {
        [act, rest @ ..] if act == "exec" => run_exec(rest),
        [act, dir] if act == "serve" => run_serve(dir),
        _ => usage(),
    })
}
