//! `wirerate ctl DEV pause`, `resume` and `speed X`: commands to a running replay.

use super::args::Args;
use capture::control::{ControlCommand, ControlServer, ControlTarget};
use engine::ReplayControl;
use host::Netns;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Takes the commands to a run.
pub struct ReplayOrders {
    /// Nothing if the sockets cannot be made.
    server: Option<ControlServer>,
    control: Arc<ReplayControl>,
    /// Frames have due times.
    is_timed: bool,
}

impl ReplayOrders {
    /// Listens for commands to the run. Without the sockets the run goes on, and a warning is
    /// printed.
    pub fn open(args: &Args, netns: &Netns, control: &Arc<ReplayControl>, is_timed: bool) -> Self {
        // A device of another namespace is not in the directory of this one.
        let other = args.other.iter().filter(|other| !other.contains('@'));
        let names: Vec<String> = std::iter::once(&args.device).chain(other).cloned().collect();
        let server = ControlServer::open(ControlTarget::Replay, netns, &names);
        if let Err(error) = &server {
            let why = match error.kind() {
                ErrorKind::AddrInUse => "it reaches another replay on this device".to_owned(),
                ErrorKind::PermissionDenied => "creating its socket in /run/wirerate needs root".to_owned(),
                _ => error.to_string(),
            };
            program::note!("`wirerate ctl` does not reach this replay: {why}");
        }
        Self { server: server.ok(), control: Arc::clone(control), is_timed }
    }

    /// Waits for commands, at most `timeout` or until `wake` is readable, and executes them.
    pub fn serve(&mut self, timeout: Duration, wake: &UnixStream) {
        let Some(server) = &mut self.server else {
            // A signal ends the wait early, and so does its end.
            let _ = wake.set_read_timeout(Some(timeout)).and_then(|()| { wake }.read(&mut [0]));
            return;
        };
        if server.wait_or(timeout, Some(wake.as_fd())) {
            let (control, is_timed) = (&self.control, self.is_timed);
            server.serve(|command| execute(command, control, is_timed));
        }
    }
}

fn execute(command: ControlCommand, control: &ReplayControl, is_timed: bool) -> Result<String, String> {
    match command {
        ControlCommand::Pause => control.set_paused(true),
        ControlCommand::Resume => control.set_paused(false),
        ControlCommand::Speed(_) if !is_timed => return Err("it sends as fast as possible".to_owned()),
        ControlCommand::Speed(millionths) => control.set_speed(millionths),
        ControlCommand::Mode(_)
        | ControlCommand::Stats
        | ControlCommand::Rotate
        | ControlCommand::Save
        | ControlCommand::Stop => {
            return Err("this is a replay".to_owned());
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_times_has_no_speed() {
        let control = ReplayControl::new(Arc::default());
        assert_eq!(execute(ControlCommand::Speed(2_000_000), &control, true), Ok(String::new()));
        assert!(execute(ControlCommand::Speed(2_000_000), &control, false).is_err());
        assert!(execute(ControlCommand::Pause, &control, false).is_ok());
        assert!(execute(ControlCommand::Stats, &control, true).is_err());
    }
}
