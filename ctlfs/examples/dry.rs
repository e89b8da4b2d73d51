//! The control tree without an engine: to try scripts, and for the tests of `exec` and `serve`.
//!
//!     dry exec [--netns NAME] -- CMD [ARG]...
//!     dry serve DIR
//!
//! `pgctrl` takes `start`, which blocks until it is interrupted or drained, ten seconds at most.

use ctlfs::{Cancel, Errno, Tree, exec, serve};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Default)]
struct Dry {
    drained: AtomicBool,
}

impl Tree for Dry {
    fn names(&self) -> Vec<OsString> {
        vec!["pgctrl".into()]
    }

    fn contains(&self, name: &OsStr) -> bool {
        name == "pgctrl"
    }

    fn read(&self, _name: &OsStr) -> Result<Vec<u8>, Errno> {
        Ok(b"Packet Generator for packet performance testing. Version: 2.75\n".to_vec())
    }

    fn write(&self, _name: &OsStr, bytes: &[u8], cancel: &Cancel) -> Result<(), Errno> {
        if bytes.strip_suffix(b"\n").unwrap_or(bytes) != b"start" {
            return Err(Errno::EINVAL);
        }
        for _ in 0..1000 {
            if self.drained.load(Ordering::Relaxed) || cancel.wait(Duration::from_millis(10)) {
                break;
            }
        }
        Ok(())
    }

    fn drain(&self) {
        self.drained.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn plant() -> Result<Arc<dyn Tree>, Infallible> {
    Ok(Arc::new(Dry::default()))
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
    let (netns, words) = match words {
        [option, name, rest @ ..] if option == "--netns" => (Some(name.to_string_lossy().into_owned()), rest),
        rest => (None, rest),
    };
    let [dashes, program, args @ ..] = words else { return usage() };
    if dashes != "--" {
        return usage();
    }
    let what = exec::Exec { netns, program: program.clone(), args: args.to_vec() };
    exec::run(&what, plant).unwrap_or_else(|error| error.shell_status().unwrap_or_else(|| complain(&error)))
}

fn run_serve(dir: &OsStr) -> u8 {
    let what = serve::Serve { mount: dir.into(), netns: None };
    serve::run(&what, plant).map_or_else(|error| complain(&error), |()| 0)
}

fn usage() -> u8 {
    eprintln!("usage: dry exec [--netns NAME] -- CMD [ARG]... | dry serve DIR");
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
