//! How a subcommand ends: exit codes, and errors as people read them.
//!
//! ```text
//! wirerate: cannot start the xdp engine: driver foonic of eth0 cannot transmit from XDP
//!   try: --engine af-packet (slower, any driver)
//! ```
//! 0 success, 1 completed with loss, a failed check or not ready in time, 2 usage error, 3 refused
//! by host or device.

use crate::advice;
use crate::console::Console;
use crate::term::has_colours;
use capture::CaptureError;
use engine::EngineError;
use host::CommandPlace;
use report::human::printable;
use report::{Meaning, printable_lines};
use std::fmt;
use std::io;
use std::path::Path;
use units::human_duration;

/// A subcommand that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success (exit code 0).
    Done,
    /// Completed with loss, errors or a failed check (exit code 1).
    No,
    /// The exit status of the user's command, passed on.
    Status(u8),
}

/// Why a subcommand could not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The options contradict each other (exit code 2).
    Usage,
    /// The host or the device refused (exit code 3).
    Refused,
    /// The time to start had passed before all was ready (exit code 1).
    TooLate,
    /// A check that the user asked for failed (exit code 1).
    Failed,
    /// The reader of the output is gone (exit code 0, no message: `wirerate ... | head`).
    BrokenPipe,
}

/// A subcommand that could not run: what failed, the chain of causes, and what to try.
pub struct Failure {
    cause: FailureCause,
    /// What could not be done, if it is not a part of the text only.
    what: Option<String>,
    text: String,
    tries: Vec<String>,
    /// The command has printed its report.
    has_report: bool,
}

impl Failure {
    /// Bad usage: `act` is what cannot be done ("use --rate with --pps"), `why` the reason.
    pub fn usage(act: impl fmt::Display, why: impl fmt::Display) -> Self {
        let text = format!("wirerate: cannot {act}: {why}\n");
        Self { what: Some(act.to_string()), ..Self::usage_text(text) }
    }

    /// Bad usage with clap's own message.
    pub fn usage_text(text: String) -> Self {
        Self { cause: FailureCause::Usage, what: None, text, tries: Vec::new(), has_report: false }
    }

    /// The host or device refused: `act` is what cannot be done ("send on eth0"), `why` its chain
    /// of causes.
    pub fn refused(act: impl fmt::Display, why: impl Into<anyhow::Error>) -> Self {
        Self {
            cause: FailureCause::Refused,
            text: format!("wirerate: cannot {act}: {:#}\n", why.into()),
            what: Some(act.to_string()),
            tries: Vec::new(),
            has_report: false,
        }
    }

    /// A check failed that the user asked for: `act` is what was not done ("send edited packets").
    pub fn failed(act: impl fmt::Display, why: impl Into<anyhow::Error>) -> Self {
        Self { cause: FailureCause::Failed, ..Self::refused(act, why) }
    }

    /// A file cannot be read. If it is missing or may not be read, the advice is a command that
    /// shows why.
    pub fn read(path: &Path, why: impl Into<anyhow::Error>) -> Self {
        let why = why.into();
        let kind = kind_of(&why);
        let failure = Self::refused(format!("read {}", path.display()), why);
        match kind {
            Some(io::ErrorKind::NotFound) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new(".")).display();
                failure.try_this(format!("`ls {folder}` for the files there"))
            }
            Some(io::ErrorKind::PermissionDenied) => {
                failure.try_this(format!("`ls -l {}` to see who may read it", path.display()))
            }
            _ => failure,
        }
    }

    /// The time to start was `late_ns` ago. `act` is what cannot be done ("send on eth0").
    pub fn too_late(act: impl fmt::Display, late_ns: u64) -> Self {
        let late = human_duration(late_ns);
        let text = format!("wirerate: cannot {act}: the time to start was {late} ago, nothing was sent\n");
        Self {
            cause: FailureCause::TooLate,
            what: Some(act.to_string()),
            text,
            tries: Vec::new(),
            has_report: false,
        }
        .try_this("--start-at +2s, or another time that leaves time to get ready")
    }

    /// The host refused, and says what to try where it can.
    pub fn host(act: impl fmt::Display, why: host::HostError) -> Self {
        let advice = advice::for_host(&why);
        let failure = Self::refused(act, why);
        advice.into_iter().fold(failure, Self::try_this)
    }

    /// An engine could not do it, and says what to try where it can. `netns` is the namespace of
    /// the device, as the user named it.
    pub fn engine(act: impl fmt::Display, why: EngineError, netns: Option<&str>) -> Self {
        if let EngineError::ReadyTooLate { late_ns } = why {
            return Self::too_late(act, late_ns);
        }
        let cure = advice::for_engine(&why, &CommandPlace::of(netns));
        let doctor = match &why {
            _ if why.is_denied() => None,
            EngineError::NoEngine { ifname, .. } | EngineError::NoXdpTransmit { ifname, .. } => {
                let in_netns = netns.map(|netns| format!(" --netns {netns}")).unwrap_or_default();
                Some(format!("`wirerate doctor {ifname}{in_netns}` to see what works there"))
            }
            _ => None,
        };
        let failure = Self::refused(act, why);
        cure.into_iter().chain(doctor).fold(failure, Self::try_this)
    }

    /// A capture could not do it, and says what to try where it can. Options that are wrong on
    /// any device are bad usage, even if the crate `capture` detects it.
    pub fn capture(act: impl fmt::Display, why: CaptureError) -> Self {
        Self::capture_with(act, why, true)
    }

    /// Failure of a capture to do `act`, with what to try where that is known. Options that are
    /// wrong on any device are bad usage. `sockets_will_do` is false if only XDP can do what the
    /// user asked for: then a device that has an XDP program gets no advice to use packet sockets.
    pub fn capture_with(act: impl fmt::Display, why: CaptureError, sockets_will_do: bool) -> Self {
        let (cure, is_bad_usage) = (advice::for_capture(&why, sockets_will_do), why.is_bad_usage());
        let refused = Self::refused(act, why);
        let cause = if is_bad_usage { FailureCause::Usage } else { refused.cause };
        cure.into_iter().fold(Self { cause, ..refused }, Self::try_this)
    }

    /// The command has printed its report before.
    #[must_use]
    pub fn after_report(self) -> Self {
        Self { has_report: true, ..self }
    }

    /// True if the command has printed its report.
    pub fn has_report(&self) -> bool {
        self.has_report
    }

    /// Adds an indented line that says what to try.
    #[must_use]
    pub fn try_this(mut self, what: impl fmt::Display) -> Self {
        self.tries.push(what.to_string());
        self
    }

    /// True if it says what to try.
    pub fn has_advice(&self) -> bool {
        !self.tries.is_empty()
    }

    /// Tells people of a failure after which the command goes on to its report.
    pub fn show(&self, console: &Console) {
        console.aside(&self.painted());
    }

    /// The message, its first line in colour where standard error is a terminal.
    fn painted(&self) -> String {
        let text = self.to_string();
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        match self.cause {
            FailureCause::BrokenPipe => text,
            _ if !first.starts_with("wirerate: ") || !has_colours(&std::io::stderr()) => text,
            _ => format!("{}\n{rest}", Meaning::Problem.painted(first)),
        }
    }

    /// What could not be done: "send on eth0". `None` if the command line could not be read.
    pub fn what(&self) -> Option<&str> {
        self.what.as_deref()
    }

    /// The reason, without what could not be done.
    pub fn why(&self) -> String {
        let text = without_os_errors(&self.text);
        let act = self.what.as_ref().map(|what| format!("wirerate: cannot {what}: "));
        let why = act.and_then(|act| text.strip_prefix(&act)).unwrap_or(&text);
        let why = why.trim_start_matches("wirerate: ").trim_start_matches("error: ");
        why.trim_end().to_owned()
    }

    /// What to try.
    pub fn tries(&self) -> &[String] {
        &self.tries
    }

    /// Why it could not run.
    pub fn cause(&self) -> FailureCause {
        self.cause
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_lines(&without_os_errors(&self.text)))?;
        self.tries.iter().try_for_each(|what| writeln!(f, "  try: {}", printable(what)))
    }
}

/// The kind of the I/O error in a chain of causes.
fn kind_of(why: &anyhow::Error) -> Option<io::ErrorKind> {
    why.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// `text` without the numbers that Rust puts behind errors of the kernel: ` (os error 2)`.
fn without_os_errors(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => plain += rest,
            _ => plain += &format!(" (os error {part}"),
        }
    }
    plain
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.cause)
    }
}

impl From<crate::out::OutError> for Failure {
    fn from(error: crate::out::OutError) -> Self {
        if error.is_closed_pipe() {
            return Self {
                cause: FailureCause::BrokenPipe,
                what: None,
                text: String::new(),
                tries: Vec::new(),
                has_report: false,
            };
        }
        Self::refused("print the answer", error)
    }
}

impl From<crate::stop::SignalError> for Failure {
    fn from(error: crate::stop::SignalError) -> Self {
        Self::refused("listen for Ctrl-C", error)
    }
}

/// Adds to any error what was being done.
pub trait Refused<T> {
    /// The host or device refused to do `act` ("send on eth0").
    ///
    /// # Errors
    /// The error itself, as a [`Failure`] with exit code 3.
    fn refused(self, act: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Refused<T> for Result<T, E> {
    fn refused(self, act: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|why| {
            let why = why.into();
            let is_full = kind_of(&why) == Some(io::ErrorKind::StorageFull);
            let failure = Failure::refused(act, why);
            if is_full { failure.try_this("`df -h` for the space of each file system") } else { failure }
        })
    }
}

/// Prints a failure to stderr.
pub fn print_failure(ended: &Result<Outcome, Failure>) {
    if let Err(failure) = ended {
        eprint!("{}", failure.painted());
    }
}

/// The exit code of the process.
pub fn code(ended: &Result<Outcome, Failure>) -> u8 {
    match ended {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::No) => 1,
        Ok(Outcome::Status(status)) => *status,
        Err(failure) => match failure.cause {
            FailureCause::BrokenPipe => 0,
            FailureCause::Usage => 2,
            FailureCause::Refused => 3,
            FailureCause::TooLate | FailureCause::Failed => 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_style_page() {
        assert_eq!(code(&Ok(Outcome::Done)), 0);
        assert_eq!(code(&Ok(Outcome::No)), 1);
        assert_eq!(code(&Ok(Outcome::Status(137))), 137);
        assert_eq!(code(&Err(Failure::usage("x", "y"))), 2);
        assert_eq!(code(&Err(Failure::refused("x", io::Error::other("y")))), 3);
        assert_eq!(code(&Err(Failure::engine("x", EngineError::ReadyTooLate { late_ns: 1 }, None))), 1);
    }

    #[test]
    fn where_no_engine_works_the_doctor_is_near() {
        let why = EngineError::NoXdpTransmit { ifname: "eth7".into(), driver: "foonic".into() };
        let text = Failure::engine("send on eth7", why, None).to_string();
        assert!(text.ends_with("  try: `wirerate doctor eth7` to see what works there\n"), "{text}");
    }

    #[test]
    fn who_may_not_send_is_told_so_and_not_sent_to_the_doctor() {
        let why = EngineError::NoEngine { ifname: "eth7".into(), reasons: String::new(), is_denied: true };
        let text = Failure::engine("send on eth7", why, None).to_string();
        assert!(
            text.contains("  try: run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"),
            "{text}"
        );
        assert!(!text.contains("doctor"), "{text}");
    }

    #[test]
    fn the_advice_about_a_file_is_about_what_is_wrong() {
        let text = |path: &str, kind| Failure::read(Path::new(path), io::Error::from(kind)).to_string();
        assert!(text("a/b.pcap", io::ErrorKind::NotFound).ends_with("\n  try: `ls a` for the files there\n"));
        assert!(text("b.pcap", io::ErrorKind::NotFound).ends_with("\n  try: `ls .` for the files there\n"));
        let denied = text("a/b.pcap", io::ErrorKind::PermissionDenied);
        assert!(denied.ends_with("\n  try: `ls -l a/b.pcap` to see who may read it\n"), "{denied}");
        assert_eq!(text("b", io::ErrorKind::InvalidData).lines().count(), 1);
    }

    #[test]
    fn a_full_disk_has_its_advice() {
        let write = |kind: io::ErrorKind| -> String {
            Err::<(), _>(io::Error::from(kind)).refused("write x.pcap").unwrap_err().to_string()
        };
        assert!(write(io::ErrorKind::StorageFull).contains("  try: `df -h` for the space"));
        assert!(!write(io::ErrorKind::PermissionDenied).contains("df -h"));
    }

    #[test]
    fn numbers_of_kernel_errors_are_left_out() {
        let failure = Failure::refused("read x", io::Error::from_raw_os_error(2));
        assert_eq!(failure.to_string(), "wirerate: cannot read x: No such file or directory\n");
        assert_eq!(without_os_errors("a (os error b) c (os error 5)"), "a (os error b) c");
    }

    #[test]
    fn a_failure_names_the_act_the_chain_and_what_to_try() {
        let source = io::Error::new(io::ErrorKind::NotFound, "no such device");
        let chain = anyhow::Error::new(source).context("eth7 was not found");
        let failure = Failure::refused("send on eth7", chain).try_this("`ip link` shows the devices here");
        assert_eq!(
            failure.to_string(),
            "wirerate: cannot send on eth7: eth7 was not found: no such device\n  try: `ip link` shows the devices here\n"
        );
    }
}
