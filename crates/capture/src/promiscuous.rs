//! Promiscuous mode: the card also receives frames for other addresses.
//!
//! A packet socket holds the request, so the kernel withdraws it when the capture ends, also if the
//! process is killed.

use host::{Link, PacketSocket};
use std::io;

/// Promiscuous mode of one device, while this value exists.
#[derive(Debug, Default)]
pub(crate) struct Promiscuity {
    socket: Option<PacketSocket>,
    refusal: Option<String>,
}

impl Promiscuity {
    /// Turns it on if it is `wanted`. A refusal does not prevent a capture; it is reported.
    pub(crate) fn of(link: &Link, wanted: bool) -> Self {
        if !wanted {
            return Self::default();
        }
        match turn_on(link) {
            Ok(socket) => Self { socket: Some(socket), refusal: None },
            Err(error) => Self { socket: None, refusal: Some(error.to_string()) },
        }
    }

    /// True if it was turned on.
    pub(crate) fn is_on(&self) -> bool {
        self.socket.is_some()
    }

    /// Why it could not be turned on.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}

fn turn_on(link: &Link) -> io::Result<PacketSocket> {
    let socket = PacketSocket::open()?;
    socket.make_promiscuous(link.index)?;
    Ok(socket)
}
