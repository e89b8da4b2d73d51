//! Addresses to listen on: TCP, or a socket in the file system.

use crate::http_server::Listener;
use std::fmt;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tokio::net::{TcpListener, UnixListener};

/// What addresses of sockets in the file system begin with.
const UNIX: &str = "unix:";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port.
    Ip(SocketAddr),
    /// A socket that only its owner may use.
    Unix(PathBuf),
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err("unix: needs the path of the socket, such as unix:/run/wirerate.sock".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Ip).map_err(|_| format!("{text:?} is not ADDR:PORT or unix:PATH")),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(text, "{address}"),
            Self::Unix(path) => write!(text, "{UNIX}{}", path.display()),
        }
    }
}

/// A listening socket. A socket in the file system is removed with the value.
#[derive(Debug)]
pub(crate) struct BoundListener {
    pub(crate) address: ListenAddress,
    pub(crate) listener: Listener,
    pub(crate) file: Option<SocketFile>,
}

impl BoundListener {
    /// Listens.
    ///
    /// # Errors
    /// The address is in use or not of this host; the socket cannot be made.
    pub(crate) async fn bind(address: &ListenAddress) -> io::Result<Self> {
        match address {
            ListenAddress::Ip(ip) => {
                let listener = TcpListener::bind(ip).await?;
                let address = ListenAddress::Ip(listener.local_addr()?);
                Ok(Self { address, listener: Listener::Tcp(listener), file: None })
            }
            ListenAddress::Unix(path) => {
                let listener = Listener::Unix(bind_unix(path)?);
                Ok(Self { address: address.clone(), listener, file: Some(SocketFile(path.clone())) })
            }
        }
    }
}

/// The file of a listening socket.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!("{}: {error}", self.0.display());
        }
    }
}

/// The socket gets its name when only its owner may use it, so it is made in a folder of its owner
/// (mode 0700).
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    refuse_used(path)?;
    let name = path.file_name().ok_or_else(|| io::Error::other("the path ends without a name"))?;
    let folder = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    DirBuilder::new().mode(0o700).create(&folder)?;
    let made = folder.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        std::fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        std::fs::rename(&made, path)?;
        Ok(listener)
    });
    if bound.is_err() {
        // There is none if it could not be made.
        let _ = std::fs::remove_file(&made);
    }
    std::fs::remove_dir(&folder)?;
    bound
}

/// A socket without a listener is left of a server that was killed. Everything else stays.
fn refuse_used(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let is_used = !found.file_type().is_socket() || UnixStream::connect(path).is_ok();
    if is_used { Err(io::Error::new(io::ErrorKind::AddrInUse, "the file is in use")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_tcp_or_of_files() {
        let ip = "127.0.0.1:8443".parse::<ListenAddress>().unwrap();
        assert_eq!(ip, ListenAddress::Ip("127.0.0.1:8443".parse().unwrap()));
        let file = "unix:/run/x".parse::<ListenAddress>().unwrap();
        assert_eq!((file.to_string(), ip.to_string()), ("unix:/run/x".into(), "127.0.0.1:8443".into()));
        assert!("unix:".parse::<ListenAddress>().unwrap_err().contains("needs the path"));
        assert!("localhost".parse::<ListenAddress>().unwrap_err().contains("is not ADDR:PORT or unix:PATH"));
    }

    #[tokio::test]
    async fn a_socket_belongs_to_its_owner_and_goes_with_its_server() {
        let folder = testkit::Folder::new("listen");
        let path = PathBuf::from(folder.file("socket"));
        let address = ListenAddress::Unix(path.clone());
        let bound = BoundListener::bind(&address).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = BoundListener::bind(&address).await.unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        // The file of a killed server stays, and is replaced.
        let BoundListener { listener, file, .. } = bound;
        drop(listener);
        std::mem::forget(file);
        let again = BoundListener::bind(&address).await.unwrap();
        drop(again);
        assert!(!path.exists());
        std::fs::write(&path, "text").unwrap();
        let refused = BoundListener::bind(&address).await.unwrap_err();
        assert_eq!(
            (refused.kind(), std::fs::read_to_string(&path).unwrap().as_str()),
            (io::ErrorKind::AddrInUse, "text")
        );
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }
}
