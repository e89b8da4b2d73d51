//! The thread of the view: readings and keys in, screens or lines out.

use super::readable::{is_readable, readable};
use super::stderr_lines::StderrLines;
use crate::console::Console;
use crate::raw_terminal;
use crate::run_orders::{self, RunOrder};
use live::{AnsiBackend, RunState, Screen, ScreenAction, ScreenHead, keys_of};
use metrics::MetricSet;
use ratatui::Terminal;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, PipeReader, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Time between two readings.
const READING: Duration = Duration::from_millis(250);
/// Time between two lines.
const LINE: Duration = Duration::from_secs(1);
/// The size of a terminal that does not tell it.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// Reads the present metrics and the state of the run.
pub type ReadState = dyn Fn() -> (MetricSet, RunState) + Send;

/// A view that has not started.
pub(super) struct TuiView {
    read: Box<ReadState>,
    /// Closed at the end.
    end: PipeReader,
    screen: Screen,
    command: String,
    console: Console,
    started: Instant,
}

/// Gives the terminal back, also when the thread panics.
struct TakenTerminal;

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        raw_terminal::give_back();
    }
}

impl TuiView {
    pub(super) fn new(head: ScreenHead, read: Box<ReadState>, end: PipeReader, console: Console) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let command = head.command.clone();
        let screen = Screen::new(head, !no_colour);
        Self { read, end, screen, command, console, started: Instant::now() }
    }

    fn read(&mut self) {
        let (set, state) = (self.read)();
        self.screen.add(self.started.elapsed(), state, &set);
    }

    /// A line per second until the end.
    pub(super) fn print_lines(mut self) {
        let mut due = self.started + LINE;
        while !is_readable(self.end.as_fd(), due.saturating_duration_since(Instant::now())) {
            if Instant::now() >= due {
                self.read();
                eprintln!("{}", self.screen.line());
                due += LINE;
            }
        }
    }

    /// The screen until the end.
    pub(super) fn show_full_screen(mut self, keys: File, output: File) {
        // A file or a pipe gets the lines as ever. Dropped last, so on the screen as it was.
        let mut stderr = if io::stderr().is_terminal() { StderrLines::begin().ok() } else { None };
        let _taken = TakenTerminal;
        // Else it was closed meanwhile.
        if raw_terminal::take(&keys, &output).is_ok() {
            self.watch(keys, &output, stderr.as_mut());
        }
    }

    /// Draws until the end, or until the terminal is closed.
    fn watch(&mut self, mut keys: File, output: &File, mut stderr: Option<&mut StderrLines>) {
        let (columns, rows) = size_of(output);
        let Ok(backend_output) = output.try_clone() else { return };
        let backend = AnsiBackend::new(BufWriter::new(backend_output), columns, rows);
        let Ok(mut terminal) = Terminal::new(backend) else { return };
        let (mut due, mut has_keys) = (Instant::now(), true);
        loop {
            let now = Instant::now();
            if now >= due {
                self.read();
                due = (due + READING).max(now);
            }
            let (columns, rows) = size_of(output);
            terminal.backend_mut().set_size(columns, rows);
            if terminal.draw(|frame| self.screen.draw(frame)).is_err() {
                // Closed. The run goes on, unless SIGHUP ends it.
                return;
            }
            let timeout = due.saturating_duration_since(Instant::now());
            let fds = [
                Some(self.end.as_fd()),
                has_keys.then(|| keys.as_fd()),
                stderr.as_deref().map(StderrLines::fd),
            ];
            let [has_ended, is_pressed, has_text] = readable(fds, timeout);
            if has_ended {
                return;
            }
            if let Some(stderr) = stderr.as_mut().filter(|_| has_text) {
                stderr.read().iter().for_each(|line| self.screen.message(line));
            }
            if is_pressed {
                has_keys = self.press(&mut keys);
            }
        }
    }

    /// Reads keys and carries out what they mean. False once there are no keys any more.
    fn press(&mut self, keys: &mut File) -> bool {
        let mut bytes = [0; 256];
        match keys.read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => {
                for key in keys_of(&bytes[..count]) {
                    if let Some(action) = self.screen.key(key) {
                        let done = run_orders::carry_out(&order(action), &self.command, &self.console);
                        self.screen.message(&done.unwrap_or_else(|why| why));
                    }
                }
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        true
    }
}

fn order(action: ScreenAction) -> RunOrder {
    match action {
        ScreenAction::TogglePause => RunOrder::TogglePause,
        ScreenAction::ChangeRate(percent) => RunOrder::ChangeRate(percent),
        ScreenAction::SetRate(text) => RunOrder::SetRate(text),
        ScreenAction::Stop => RunOrder::Stop,
    }
}

fn size_of(output: &File) -> (u16, u16) {
    let size = terminal_size::terminal_size_of(output);
    size.map_or(SIZE_DEFAULT, |(columns, rows)| (columns.0.max(1), rows.0.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::openpty;
    use nix::sys::termios::tcgetattr;
    use std::io::{Write, pipe};
    use std::sync::{Mutex, PoisonError};
    use std::thread;

    /// A process has one full screen.
    static SCREEN: Mutex<()> = Mutex::new(());

    const RUNNING: RunState = RunState { word: "running", has_rate: true };

    fn head() -> ScreenHead {
        ScreenHead { command: "send".to_owned(), ..ScreenHead::default() }
    }

    /// What the terminal has shown so far, up to `end`.
    fn shown(terminal: &mut File, end: &str) -> String {
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while !text.contains(end) {
            let count = terminal.read(&mut bytes).expect("the other end is open");
            text += &String::from_utf8_lossy(&bytes[..count]);
        }
        text
    }

    #[test]
    fn the_terminal_is_as_before_after_the_end_and_after_a_panic() {
        let _screen = SCREEN.lock().unwrap_or_else(PoisonError::into_inner);
        for has_bug in [false, true] {
            let pty = openpty(None, None).expect("there is a pseudo terminal");
            let (mut user, terminal) = (File::from(pty.master), File::from(pty.slave));
            let before = tcgetattr(&terminal).expect("it is a terminal");
            let (end, wake) = pipe().expect("there is a pipe");
            let read = move || {
                assert!(!has_bug, "a bug, on purpose");
                (MetricSet::default(), RunState { word: "starting", has_rate: true })
            };
            let view = TuiView::new(head(), Box::new(read), end, Console::default());
            let (keys, screen) = (terminal.try_clone().unwrap(), terminal.try_clone().unwrap());
            let thread = thread::spawn(move || view.show_full_screen(keys, screen));
            if !has_bug {
                // The size of this terminal is unknown.
                let text = shown(&mut user, "p pause");
                assert!(text.contains("\x1b[?1049h"), "{text:?}");
                assert!(raw_terminal::is_taken());
                user.write_all(b"?").unwrap();
                shown(&mut user, "Keys");
                drop(wake);
            }
            assert_eq!(thread.join().is_err(), has_bug);
            assert!(shown(&mut user, "\x1b[?1049l").ends_with("\x1b[?25h\x1b[?1049l"));
            assert_eq!(tcgetattr(&terminal).unwrap(), before);
            assert!(!raw_terminal::is_taken());
        }
    }

    #[test]
    fn a_closed_terminal_ends_the_view_and_not_the_process() {
        let _screen = SCREEN.lock().unwrap_or_else(PoisonError::into_inner);
        let pty = openpty(None, None).expect("there is a pseudo terminal");
        let (mut user, terminal) = (File::from(pty.master), File::from(pty.slave));
        let (end, _wake) = pipe().expect("there is a pipe");
        let view =
            TuiView::new(head(), Box::new(|| (MetricSet::default(), RUNNING)), end, Console::default());
        let keys = terminal.try_clone().unwrap();
        let thread = thread::spawn(move || view.show_full_screen(keys, terminal));
        shown(&mut user, "p pause");
        drop(user);
        thread.join().expect("it returns");
    }
}
