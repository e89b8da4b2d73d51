//! The terminal as a full screen with single keys, and back to how it was.
//!
//! One per process: whatever ends the program gives it back, also the second Ctrl-C.

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// The other screen of the terminal, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
/// Normal text, the cursor, and the screen as it was.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// A terminal that was taken.
struct Taken {
    terminal: File,
    before: Termios,
}

static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

/// The terminal of standard output: to read keys from, and to draw on. `None` if there is none, it
/// cannot move a cursor, or another job has it.
pub fn find() -> Option<(File, File)> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if is_dumb || !io::stdout().is_terminal() {
        return None;
    }
    let screen = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
    let keys = match io::stdin().is_terminal() {
        true => File::from(io::stdin().as_fd().try_clone_to_owned().ok()?),
        false => File::open("/dev/tty").ok()?,
    };
    // A background job that changes the terminal would be stopped.
    (tcgetpgrp(&keys).ok()? == getpgrp()).then_some((keys, screen))
}

/// Lets single keys through, and changes to the other screen.
///
/// # Errors
/// The terminal refused, or was closed.
pub fn take(keys: &File, screen: &File) -> io::Result<()> {
    let terminal = keys.try_clone()?;
    let before = tcgetattr(&terminal)?;
    let mut raw = before.clone();
    cfmakeraw(&mut raw);
    tcsetattr(&terminal, SetArg::TCSANOW, &raw)?;
    *lock() = Some(Taken { terminal: screen.try_clone()?, before });
    (&*screen).write_all(ENTER.as_bytes())
}

/// The terminal as it was; nothing if it was not taken.
pub fn give_back() {
    if let Some(Taken { mut terminal, before }) = lock().take() {
        // A terminal that was closed needs neither.
        let _ = terminal.write_all(LEAVE.as_bytes());
        let _ = tcsetattr(&terminal, SetArg::TCSANOW, &before);
    }
}

/// True from [`take`] to [`give_back`].
pub fn is_taken() -> bool {
    lock().is_some()
}

fn lock() -> std::sync::MutexGuard<'static, Option<Taken>> {
    // A panic leaves the terminal taken, so it can be given back.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}
