//! Arguments of the flight recorder of `wirerate capture`, and its trigger command.

use capture::RecorderOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};
use units::{Count, Nanos, Size, human_size};

/// Time between two runs of the trigger command.
const COMMAND_EVERY: Duration = Duration::from_secs(1);
/// A command that runs for longer is ended, and does not trigger.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(5);
/// The trigger that is no filter.
const LOSS: &str = "loss";

/// Arguments of the flight recorder.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Flight recorder")]
pub struct RecorderArgs {
    /// Keep the last frames in memory and write nothing until a trigger: a time, a size, or both,
    /// such as 30s,1GiB [default size: 1/8 of the memory]
    #[arg(long, requires = "write", value_name = "TIME,SIZE")]
    pub keep: Option<Keep>,
    /// Save what is kept when a frame matches this filter, or at `loss`: a gap in the numbers of
    /// marked frames
    #[arg(long, requires = "keep", value_name = "FILTER")]
    pub trigger: Vec<String>,
    /// Save what is kept when this shell command succeeds; it runs each second, for 5 s at most
    #[arg(long, requires = "keep", value_name = "COMMAND", value_parser = trigger_command)]
    pub trigger_command: Option<String>,
    /// Frames of this time after a trigger belong to its file
    #[arg(long, requires = "keep", value_name = "TIME", default_value = "0s")]
    pub after: Nanos,
    /// Files to save at most
    #[arg(long, requires = "keep", value_name = "N", default_value = "100", value_parser = max_saves)]
    pub max_saves: Count,
}

/// Parses the number of files. With none, no trigger would write anything.
fn max_saves(text: &str) -> Result<Count, String> {
    match text.parse::<Count>() {
        Ok(count) if count.0 == 0 => Err("it must be at least 1".to_owned()),
        count => count.map_err(|bad| bad.to_string()),
    }
}

/// Reads a command. An empty one succeeds at once.
fn trigger_command(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty, and would trigger at once".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// What is kept: a time, a size, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// In nanoseconds.
    pub time_ns: Option<u64>,
    /// In bytes.
    pub bytes: Option<u64>,
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut keep = Self { time_ns: None, bytes: None };
        for part in text.split(',') {
            let is_number = part.parse::<f64>().is_ok();
            match (part.parse::<Nanos>(), part.parse::<Size>()) {
                _ if is_number => return Err(format!("{part} needs a unit: 30s, or 1GiB")),
                (Ok(time), _) if time.0 > 0 && keep.time_ns.is_none() => keep.time_ns = Some(time.0),
                (Err(_), Ok(size)) if size.0 > 0 && keep.bytes.is_none() => keep.bytes = Some(size.0),
                _ => return Err("a time, a size, or both: 30s, 1GiB, or 30s,1GiB".to_owned()),
            }
        }
        Ok(keep)
    }
}

impl RecorderArgs {
    /// The recorder, if there is one.
    ///
    /// # Errors
    /// Why the triggers cannot be combined, or that the machine has less memory.
    pub fn options(&self) -> Result<Option<RecorderOptions>, String> {
        let Some(keep) = self.keep else { return Ok(None) };
        let most = capture::recorder_bytes_max();
        if keep.bytes.is_some_and(|bytes| bytes > most) {
            let (most, usual) = (human_size(most), human_size(capture::recorder_bytes_default()));
            return Err(format!(
                "there are {most} of memory here, for frames and all else; without a size, --keep takes {usual}"
            ));
        }
        let filters: Vec<&String> = self.trigger.iter().filter(|trigger| *trigger != LOSS).collect();
        let trigger = match filters[..] {
            [] => None,
            [filter] => Some(filter.clone()),
            _ => return Err("one filter triggers; join several with `or`".to_owned()),
        };
        Ok(Some(RecorderOptions {
            keep_ns: keep.time_ns,
            keep_bytes: keep.bytes.unwrap_or_else(capture::recorder_bytes_default),
            trigger,
            on_loss: self.trigger.iter().any(|trigger| trigger == LOSS),
            after_ns: self.after.0,
            saves_max: self.max_saves.0,
        }))
    }

    /// The command that triggers, if there is one.
    pub fn command(&self) -> Option<TriggerCommand> {
        self.trigger_command.clone().map(TriggerCommand::new)
    }
}

/// A shell command that is run each second, and triggers when it begins to succeed.
#[derive(Debug)]
pub struct TriggerCommand {
    command: String,
    running: Option<(Child, Instant)>,
    next: Instant,
    was_true: bool,
}

impl TriggerCommand {
    fn new(command: String) -> Self {
        Self { command, running: None, next: Instant::now(), was_true: false }
    }

    /// Looks after the command without waiting; true when it begins to succeed.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn poll(&mut self) -> io::Result<bool> {
        let Some((child, since)) = &mut self.running else {
            if Instant::now() >= self.next {
                self.next = Instant::now() + COMMAND_EVERY;
                let mut shell = Command::new("sh");
                shell.args(["-c", &self.command]).stdin(Stdio::null()).stdout(Stdio::null());
                self.running = Some((shell.process_group(0).spawn()?, Instant::now()));
            }
            return Ok(false);
        };
        let is_true = match child.try_wait()? {
            Some(status) => status.success(),
            None if since.elapsed() >= COMMAND_TIME_MAX => {
                self.end();
                false
            }
            None => return Ok(false),
        };
        self.running = None;
        let was_true = std::mem::replace(&mut self.was_true, is_true);
        Ok(is_true && !was_true)
    }

    /// Ends a command that runs, with all that it has started.
    fn end(&mut self) {
        if let Some((child, _)) = &mut self.running {
            // It has not been waited for, so the group is its own.
            let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

impl Drop for TriggerCommand {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_time_a_size_or_both() {
        let keep = |text: &str| text.parse::<Keep>();
        assert_eq!(keep("30s"), Ok(Keep { time_ns: Some(30_000_000_000), bytes: None }));
        assert_eq!(keep("1GiB"), Ok(Keep { time_ns: None, bytes: Some(1 << 30) }));
        assert_eq!(keep("5min,64MiB"), Ok(Keep { time_ns: Some(300_000_000_000), bytes: Some(64 << 20) }));
        assert_eq!(keep("64MiB,5min"), keep("5min,64MiB"));
        for text in ["30", "0s", "x", "1s,2s", "1GB,2GB", "", "1s,"] {
            assert!(keep(text).is_err(), "{text}");
        }
    }

    /// Such recorders ran, and never wrote what was asked for.
    #[test]
    fn a_recorder_that_cannot_do_what_it_is_asked_for_is_refused() {
        assert!(max_saves("0").is_err() && max_saves("1").is_ok());
        assert!(trigger_command(" ").is_err() && trigger_command("true").is_ok());
        let args = program::args_of::<super::super::args::Args>("lo -w a --keep 30s,900000000GB");
        let args = args.expect("the words are options");
        assert!(args.recorder.options().expect_err("so much memory").contains("of memory here"));
    }

    #[test]
    fn a_command_triggers_when_it_begins_to_succeed() {
        let folder = testkit::Folder::new("trigger");
        let file = folder.join("there");
        let mut command = TriggerCommand::new(format!("test -e {}", file.display()));
        let mut fired = |until_runs: usize| {
            let (mut runs, mut fired) = (0, 0);
            while runs < until_runs {
                command.next = Instant::now();
                fired += usize::from(command.poll().unwrap());
                runs += usize::from(command.running.is_none());
                std::thread::sleep(Duration::from_millis(2));
            }
            fired
        };
        assert_eq!(fired(2), 0);
        std::fs::write(&file, "").unwrap();
        assert_eq!(fired(3), 1, "once while it stays true");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(fired(2), 0);
        std::fs::write(&file, "").unwrap();
        assert_eq!(fired(2), 1);
    }
}
