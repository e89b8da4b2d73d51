//! Promiscuous mode: the card also receives frames for other addresses.
//!
//! A packet socket holds the request, so the kernel withdraws it when the capture ends, also if the
//! process is killed.

use host::{Link, PacketSocket};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Promiscuous mode of one device, while this value exists.
#[derive(Debug, Default)]
pub(crate) struct Promiscuity {
    socket: Mutex<Option<PacketSocket>>,
    is_on: bool,
    refusal: Option<String>,
}

impl Promiscuity {
    /// Turns it on if it is `wanted`. A refusal does not prevent a capture; it is reported.
    pub(crate) fn of(link: &Link, wanted: bool) -> Self {
        if !wanted {
            return Self::default();
        }
        match turn_on(link) {
            Ok(socket) => Self { socket: Mutex::new(Some(socket)), is_on: true, refusal: None },
            Err(error) => Self { refusal: Some(error.to_string()), ..Self::default() },
        }
    }

    /// True if it was turned on.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The device is gone. A capture may outlive many, so the socket is closed.
    pub(crate) fn end(&self) {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
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
