//! `--tui`: the full-screen view of a running command, on a thread of its own.
//!
//! It reads the same metrics as `--metrics` serves. While it has the terminal, standard output is
//! kept, and lines on standard error are its messages; both follow when the terminal is back.
//! Without a terminal on standard output there is a line per second on standard error instead.

mod readable;
mod stderr_lines;
mod view;

pub use view::ReadState;

use crate::console::Console;
use crate::stop::BlockedSignals;
use crate::{out, raw_terminal};
use live::ScreenHead;
use std::io::{self, PipeWriter};
use std::thread::{self, JoinHandle};

/// The view. It ends when this is dropped.
#[derive(Debug)]
pub struct Tui {
    /// The view ends when its other end is closed.
    wake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    console: Console,
}

impl Tui {
    /// Starts the view of a command.
    ///
    /// # Errors
    /// No thread, or no file descriptor.
    pub fn start(head: ScreenHead, read: Box<ReadState>, console: &Console) -> io::Result<Self> {
        let (end, wake) = io::pipe()?;
        let terminal = raw_terminal::find();
        if terminal.is_none() {
            crate::note!("--tui needs a terminal on standard output: a line per second instead");
        }
        // No line of progress beside those of the view.
        console.show_progress_elsewhere();
        let view = view::TuiView::new(head, read, end, console.clone());
        if terminal.is_some() {
            console.keep();
        }
        let show = move || match terminal {
            Some((keys, screen)) => view.show_full_screen(keys, screen),
            None => view.print_lines(),
        };
        // Signals go to the threads that send.
        let _blocked = BlockedSignals::begin();
        let thread = thread::Builder::new().name("tui".to_owned()).spawn(show)?;
        Ok(Self { wake: Some(wake), thread: Some(thread), console: console.clone() })
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // A panic was printed already, and has given the terminal back.
            let _ = thread.join();
        }
        if let Some(kept) = self.console.take_kept() {
            // The terminal that it is for may be closed.
            let _ = out::text(&kept);
        }
    }
}
