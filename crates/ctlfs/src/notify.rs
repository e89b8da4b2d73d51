//! Reports the state of a service to systemd: one datagram to `NOTIFY_SOCKET` (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state` (lines such as `READY=1`) to the service manager, if there is one.
///
/// # Errors
/// What the socket answered; a service that cannot be heard may go on.
pub fn notify(state: &str) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(socket) => send(&socket, state),
        None => Ok(()),
    }
}

/// A name that starts with `@` is in the abstract namespace, where it starts with a NUL.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0xee; 64];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    #[test]
    fn an_abstract_socket_hears_it() {
        let name = format!("wirerate-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1\n").unwrap();
        assert_eq!(received(&manager), "READY=1\n");
    }

    #[test]
    fn a_path_socket_hears_it() {
        let folder = testkit::Folder::new("notify");
        let path = folder.join("socket");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "STOPPING=1\n").unwrap();
        assert_eq!(received(&manager), "STOPPING=1\n");
    }
}
