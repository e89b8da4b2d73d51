//! Commands to a running capture or replay: one socket per device.
//!
//! The sockets are files, `/run/wirerate/capture/NETNS-DEV` and `/run/wirerate/replay/NETNS-DEV`;
//! NETNS is the inode number of the device's namespace. A command is a line (`mode mirror`, `mode
//! drop`, `stats`, `rotate`, `save`, `stop`; `pause`, `resume`, `speed 0.5`), and so is the answer:
//! `ok`, `ok` and data, or `error` and the reason. A client may send any number of commands. The
//! caller of this module executes them; nothing here waits for a client.

use crate::Mode;
use host::{Netns, NetnsId};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr, socket};
use nix::sys::stat::{Mode as Permissions, fchmod};
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Speeds of a replay, in millionths.
pub const SPEEDS: RangeInclusive<u64> = 1000..=1_000_000_000;

/// Longest line that is an command.
const LINE_LEN_MAX: usize = 64;
/// Clients at a time; for one more, the one that has been silent longest is dropped.
const CLIENTS_MAX: usize = 64;
/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;
/// A socket older than this without a listener was left behind.
const AGE_MIN: Duration = Duration::from_secs(10);
/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlTarget {
    /// A capture.
    Capture,
    /// A replay.
    Replay,
}

impl ControlTarget {
    /// Where the sockets are.
    pub fn folder(self) -> &'static Path {
        Path::new(match self {
            Self::Capture => "/run/wirerate/capture",
            Self::Replay => "/run/wirerate/replay",
        })
    }

    /// The socket of the one on a device.
    pub fn socket_path(self, netns: NetnsId, ifname: &str) -> PathBuf {
        self.folder().join(format!("{}-{ifname}", netns.inode))
    }
}

impl fmt::Display for ControlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capture => "capture",
            Self::Replay => "replay",
        })
    }
}

/// A command to a running capture or replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlCommand {
    /// What becomes of frames from now on.
    Mode(Mode),
    /// Where frames went until now.
    Stats,
    /// The file at hand ends, and the next one begins.
    Rotate,
    /// A recorder saves what it keeps.
    Save,
    /// The end.
    Stop,
    /// A replay sends no frames until it is resumed.
    Pause,
    /// The end of a pause.
    Resume,
    /// A replay sends the frames that are left at this speed, in millionths of the one that its
    /// arguments gave.
    Speed(u64),
}

impl ControlCommand {
    /// What it is for.
    pub fn target(self) -> ControlTarget {
        match self {
            Self::Mode(_) | Self::Stats | Self::Rotate | Self::Save | Self::Stop => ControlTarget::Capture,
            Self::Pause | Self::Resume | Self::Speed(_) => ControlTarget::Replay,
        }
    }
}

impl fmt::Display for ControlCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(mode) => write!(f, "mode {}", mode.name()),
            Self::Stats => f.write_str("stats"),
            Self::Rotate => f.write_str("rotate"),
            Self::Save => f.write_str("save"),
            Self::Stop => f.write_str("stop"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Speed(millionths) => {
                let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
                write!(f, "speed {}", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

/// Text that is not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is none of: mode mirror, mode drop, stats, rotate, save, stop (captures), pause, resume, speed X from \
     0.001 to 1000 (replays)"
)]
pub struct BadCommand(pub String);

impl FromStr for ControlCommand {
    type Err = BadCommand;

    fn from_str(text: &str) -> Result<Self, BadCommand> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["mode", "mirror"] => Ok(Self::Mode(Mode::Mirror)),
            ["mode", "drop"] => Ok(Self::Mode(Mode::Drop)),
            ["stats"] => Ok(Self::Stats),
            ["rotate"] => Ok(Self::Rotate),
            ["save"] => Ok(Self::Save),
            ["stop"] => Ok(Self::Stop),
            ["pause"] => Ok(Self::Pause),
            ["resume"] => Ok(Self::Resume),
            ["speed", factor] => {
                millionths(factor).map(Self::Speed).ok_or_else(|| BadCommand(text.trim().to_owned()))
            }
            _ => Err(BadCommand(text.trim().to_owned())),
        }
    }
}

/// A decimal number from 0.001 to 1000 in millionths.
fn millionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 6 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<6}").parse().ok()?;
    let millionths = whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)?;
    SPEEDS.contains(&millionths).then_some(millionths)
}

/// Why a capture or replay did not execute a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ControlError {
    /// None listens.
    #[error("no {target} runs on {ifname} here")]
    NotRunning { target: ControlTarget, ifname: String },
    /// Its socket is for another user.
    #[error("the {target} on {ifname} takes commands from its own user only")]
    Denied { target: ControlTarget, ifname: String },
    /// The connection was closed or timed out.
    #[error("the {target} on {ifname} does not answer")]
    Silent { target: ControlTarget, ifname: String, source: io::Error },
    /// It refused.
    #[error("the {target} on {ifname} refuses: {reason}")]
    Refused { target: ControlTarget, ifname: String, reason: String },
}

/// Sends a command to the capture or replay on `ifname`, a device of `netns`, and gives what it
/// answers beside `ok`.
///
/// # Errors
/// A [`ControlError`] when no capture or replay listens there, its socket is for another user, it
/// does not answer, or it refuses.
pub fn send(netns: &Netns, ifname: &str, command: ControlCommand) -> Result<String, ControlError> {
    send_at(&command.target().socket_path(netns.id(), ifname), ifname, command)
}

fn send_at(path: &Path, ifname: &str, command: ControlCommand) -> Result<String, ControlError> {
    let target = command.target();
    let stream = UnixStream::connect(path).map_err(|error| {
        let ifname = ifname.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied => ControlError::Denied { target, ifname },
            io::ErrorKind::ConnectionRefused => {
                // Left by a capture that was killed; a user who may not remove it leaves it to the
                // next capture.
                remove_if_left(path);
                ControlError::NotRunning { target, ifname }
            }
            _ => ControlError::NotRunning { target, ifname },
        }
    })?;
    let answer = converse(&stream, command).map_err(|source| ControlError::Silent {
        target,
        ifname: ifname.to_owned(),
        source,
    })?;
    match answer.strip_prefix("ok") {
        Some(answer) => Ok(answer.trim_start().to_owned()),
        None => {
            let reason = answer.strip_prefix("error ").unwrap_or(&answer).to_owned();
            Err(ControlError::Refused { target, ifname: ifname.to_owned(), reason })
        }
    }
}

fn converse(mut stream: &UnixStream, command: ControlCommand) -> io::Result<String> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    writeln!(stream, "{command}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match answer.strip_suffix('\n') {
        Some(answer) => Ok(answer.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The sockets of a running capture or replay. Dropping it removes the sockets.
#[derive(Debug)]
pub struct ControlServer {
    listeners: Vec<Listener>,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl ControlServer {
    /// Listens for commands to the capture or replay on `ifnames`, devices of `netns`.
    ///
    /// # Errors
    /// `AddrInUse` when another one on one of them hears commands; what the file system says.
    pub fn open(target: ControlTarget, netns: &Netns, ifnames: &[String]) -> io::Result<Self> {
        // All users may see which devices are in use; the sockets themselves are for the owner.
        fs::DirBuilder::new().recursive(true).mode(0o755).create(target.folder())?;
        remove_stale(target.folder());
        Self::open_at(ifnames.iter().map(|ifname| target.socket_path(netns.id(), ifname)))
    }

    fn open_at(paths: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let mut server = Self { listeners: Vec::new(), clients: Vec::new() };
        for path in paths {
            server.listeners.push(Listener::open(path)?);
        }
        Ok(server)
    }

    /// Waits until a client sends something, at most `timeout`. True if one has.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.wait_or(timeout, None)
    }

    /// Waits until a client sends something or `wake` is readable, at most `timeout`. True if so.
    pub fn wait_or(&self, timeout: Duration, wake: Option<BorrowedFd<'_>>) -> bool {
        let readable = PollFlags::POLLIN;
        let listeners = self.listeners.iter().map(|listener| PollFd::new(listener.socket.as_fd(), readable));
        let clients = self.clients.iter().map(|client| PollFd::new(client.stream.as_fd(), readable));
        let mut fds: Vec<PollFd<'_>> = listeners.chain(clients).collect();
        fds.extend(wake.map(|wake| PollFd::new(wake, readable)));
        let timeout_ms = timeout.as_micros().div_ceil(1000).try_into().unwrap_or(u16::MAX);
        // A signal ends the wait early, which is what the caller wants then.
        poll(&mut fds, PollTimeout::from(timeout_ms)).is_ok_and(|ready| ready > 0)
    }

    /// Answers what was said until now. `answer` gets each command and says what it did, or why
    /// not.
    pub fn serve(&mut self, mut answer: impl FnMut(ControlCommand) -> Result<String, String>) {
        for listener in &self.listeners {
            while let Ok((stream, _)) = listener.socket.accept() {
                if stream.set_nonblocking(true).is_err() {
                    continue;
                }
                // Commands of the others are answered before one of them is dropped.
                if self.clients.len() == CLIENTS_MAX {
                    self.clients.retain_mut(|client| client.serve(&mut answer));
                }
                if self.clients.len() == CLIENTS_MAX {
                    self.clients.remove(0);
                }
                self.clients.push(Client { stream, heard: Vec::new(), spoke: false });
            }
        }
        self.clients.retain_mut(|client| client.serve(&mut answer));
        // The silent ones stay in front.
        self.clients.sort_by_key(|client| client.spoke);
        self.clients.iter_mut().for_each(|client| client.spoke = false);
    }
}

/// Removes the sockets of captures that were killed. Best effort: a stale socket does no harm.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        // One that has just been made may not listen yet.
        let is_old = fs::metadata(&path)
            .and_then(|meta| meta.modified())
            .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > AGE_MIN));
        if is_old {
            remove_if_left(&path);
        }
    }
}

/// Removes a socket that no capture listens to.
fn remove_if_left(path: &Path) {
    let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if UnixStream::connect(path).is_err_and(is_refused) {
        let _ = fs::remove_file(path);
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        for listener in &self.listeners {
            // It may have been removed already.
            let _ = fs::remove_file(&listener.path);
        }
    }
}

impl Listener {
    fn open(path: PathBuf) -> io::Result<Self> {
        let listener = match bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(&path).is_err() => {
                // Left by a capture that was killed.
                fs::remove_file(&path)?;
                bind(&path)?
            }
            bound => bound?,
        };
        let listener = Self { socket: listener, path };
        listener.socket.set_nonblocking(true)?;
        Ok(listener)
    }
}

/// A socket that is for its owner alone from its first moment: it is made with the mode of its
/// descriptor.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    fchmod(&socket, Permissions::S_IRUSR | Permissions::S_IWUSR)?;
    socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    socket::listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket.into())
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// It has given an command since it was last looked at.
    spoke: bool,
    /// Of the next line.
    heard: Vec<u8>,
}

impl Client {
    /// Answers every whole line; false when the client is to be forgotten.
    fn serve(&mut self, answer: &mut impl FnMut(ControlCommand) -> Result<String, String>) -> bool {
        let is_open = self.hear();
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            self.spoke = true;
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            let said = line.parse().map_err(|error: BadCommand| error.to_string()).and_then(&mut *answer);
            let said = match said {
                Ok(text) if text.is_empty() => "ok\n".to_owned(),
                Ok(text) => format!("ok {}\n", in_one_line(&text)),
                Err(reason) => format!("error {}\n", in_one_line(&reason)),
            };
            // A client that does not read what it asked for is not waited for.
            if self.stream.write_all(said.as_bytes()).is_err() {
                return false;
            }
        }
        is_open && self.heard.len() <= LINE_LEN_MAX
    }

    /// Takes what is there; false at the end of the conversation.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; 4 * LINE_LEN_MAX];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(len) => {
                self.heard.extend_from_slice(&bytes[..len]);
                true
            }
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
}

fn in_one_line(text: &str) -> String {
    text.trim().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;
    use testkit::Folder;

    /// Serves a server while `work` runs.
    fn while_served<T>(
        place: &Path,
        answer: impl FnMut(ControlCommand) -> Result<String, String> + Send,
        work: impl FnOnce() -> T,
    ) -> T {
        let (mut server, is_over) =
            (ControlServer::open_at([place.to_path_buf()]).unwrap(), AtomicBool::new(false));
        thread::scope(|scope| {
            let mut answer = answer;
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    if server.wait(Duration::from_millis(5)) {
                        server.serve(&mut answer);
                    }
                }
            });
            let result = work();
            is_over.store(true, Relaxed);
            result
        })
    }

    #[test]
    fn orders_are_lines_and_so_are_answers() {
        let replay = ["pause", "resume", "speed 0.5", "speed 2", "speed 0.001", "speed 1000"];
        for text in ["mode mirror", "mode drop", "stats", "stop"].into_iter().chain(replay) {
            assert_eq!(text.parse::<ControlCommand>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "mode",
            "mode dorp",
            "stop now",
            "Stop",
            "speed",
            "speed 0",
            "speed 1001",
            "speed -1",
            "speed .5",
        ] {
            assert_eq!(text.parse::<ControlCommand>(), Err(BadCommand(text.to_owned())));
        }
        let folder = Folder::new("control");
        let place = folder.join("socket");
        let answer = |command| match command {
            ControlCommand::Stats => Ok("two\nlines".to_owned()),
            ControlCommand::Mode(_) => Ok(String::new()),
            _ => Err("not\nnow".to_owned()),
        };
        while_served(&place, answer, || {
            assert_eq!(send_at(&place, "eth0", ControlCommand::Stats).unwrap(), "two lines");
            assert_eq!(send_at(&place, "eth0", ControlCommand::Mode(Mode::Drop)).unwrap(), "");
            let error = send_at(&place, "eth0", ControlCommand::Stop).unwrap_err();
            assert_eq!(error.to_string(), "the capture on eth0 refuses: not now");
        });
        let error = send_at(&place, "eth0", ControlCommand::Stop).unwrap_err();
        assert_eq!(error.to_string(), "no capture runs on eth0 here", "the socket went with the server");
    }

    #[test]
    fn many_orders_in_one_conversation_and_nonsense_between_them() {
        let folder = Folder::new("control");
        let place = folder.join("socket");
        while_served(
            &place,
            |command| Ok(command.to_string()),
            || {
                let mut stream = UnixStream::connect(&place).unwrap();
                stream.write_all(b"stats\nmode\nmode drop\n").unwrap();
                let lines: Vec<String> =
                    BufReader::new(&stream).lines().take(3).map(Result::unwrap).collect();
                assert_eq!((&*lines[0], &*lines[2]), ("ok stats", "ok mode drop"));
                assert!(lines[1].starts_with("error \"mode\" is none of: mode mirror"), "{}", lines[1]);
                // No line at all: the server goes on without this client.
                let mut endless = UnixStream::connect(&place).unwrap();
                endless.write_all(&[b'x'; 1000]).unwrap();
                assert_eq!(endless.read(&mut [0; 10]).unwrap_or(0), 0);
                assert_eq!(send_at(&place, "eth0", ControlCommand::Stop).unwrap(), "stop");
            },
        );
    }

    #[test]
    fn a_socket_left_by_a_killed_capture_is_taken_over_and_a_live_one_is_not() {
        let folder = Folder::new("control");
        let place = folder.join("socket");
        drop(UnixListener::bind(&place).unwrap());
        assert!(place.exists());
        let server = ControlServer::open_at([place.to_path_buf()]).unwrap();
        let error = ControlServer::open_at([place.to_path_buf()]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
        drop(server);
        assert!(!place.exists());
    }

    #[test]
    fn idle_clients_do_not_keep_others_from_being_answered() {
        let folder = Folder::new("control");
        let place = folder.join("socket");
        while_served(
            &place,
            |command| Ok(command.to_string()),
            || {
                let idle: Vec<UnixStream> =
                    (0..3 * CLIENTS_MAX).map(|_| UnixStream::connect(&place).unwrap()).collect();
                for _ in 0..2 * CLIENTS_MAX {
                    assert_eq!(send_at(&place, "eth0", ControlCommand::Stats).unwrap(), "stats");
                }
                drop(idle);
            },
        );
    }

    #[test]
    fn a_socket_of_a_killed_capture_goes_with_the_first_order() {
        let folder = Folder::new("control");
        let place = folder.join("socket");
        drop(UnixListener::bind(&place).unwrap());
        let error = send_at(&place, "eth0", ControlCommand::Stop).unwrap_err();
        assert!(matches!(error, ControlError::NotRunning { .. }), "{error}");
        assert!(!place.exists());
    }

    #[test]
    fn only_old_sockets_without_a_capture_are_swept() {
        let place = Folder::new("control");
        let [left, new, live] = ["1-eth0", "2-eth0", "3-eth0"].map(|name| place.join(name));
        let long_ago = std::time::SystemTime::now() - 2 * AGE_MIN;
        let age = |path: &Path| {
            let times = nix::sys::time::TimeVal::from(nix::libc::timeval {
                tv_sec: long_ago.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64,
                tv_usec: 0,
            });
            nix::sys::stat::utimes(path, &times, &times).unwrap();
        };
        [&left, &new].into_iter().for_each(|path| drop(UnixListener::bind(path).unwrap()));
        let _listener = UnixListener::bind(&live).unwrap();
        [&left, &live].into_iter().for_each(|path| age(path));
        remove_stale(&place);
        assert_eq!([&left, &new, &live].map(|path| path.exists()), [false, true, true]);
    }

    proptest! {
        #[test]
        fn any_text_is_an_order_or_an_error(text in ".*") {
            if let Ok(command) = text.parse::<ControlCommand>() {
                prop_assert_eq!(command.to_string().parse::<ControlCommand>(), Ok(command));
            }
        }
    }
}
