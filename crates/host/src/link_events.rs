//! Changes of the devices of a namespace, as the kernel announces them (RTNLGRP_LINK).

use crate::HostError;
use crate::netlink::{GROUP_LINK, subscribe};
use netlink_sys::Socket;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// Announcements of changes, for any number of threads.
#[derive(Debug)]
pub struct LinkEvents {
    socket: Socket,
    closed: EventFd,
    /// A change was announced that [`Self::take`] has not returned yet.
    has_changed: Mutex<bool>,
}

impl LinkEvents {
    /// Those of the namespace of the calling thread, from now on.
    ///
    /// # Errors
    /// When no netlink socket can be had.
    pub fn here() -> Result<Self, HostError> {
        let open = || Ok((subscribe(GROUP_LINK)?, EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?));
        let (socket, closed) =
            open().map_err(|error: io::Error| HostError::refused("watch", "the network devices")(error))?;
        Ok(Self { socket, closed, has_changed: Mutex::new(false) })
    }

    /// True when a device was added, changed or removed since the last call. The kernel announces a
    /// change before the call that made it returns.
    pub fn take(&self) -> bool {
        let mut has_changed = self.has_changed.lock().unwrap_or_else(PoisonError::into_inner);
        self.receive(&mut has_changed);
        std::mem::take(&mut *has_changed)
    }

    /// Waits for the next change, which [`Self::take`] then returns; false once [`Self::close`] was
    /// called.
    pub fn wait(&self) -> bool {
        let mut ready =
            [&self.closed.as_fd(), &self.socket.as_fd()].map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
        // Interrupted by a signal: one look too many.
        let _ = poll(&mut ready, PollTimeout::NONE);
        self.receive(&mut self.has_changed.lock().unwrap_or_else(PoisonError::into_inner));
        !ready[0].any().unwrap_or(false)
    }

    /// Ends every [`Self::wait`], for good.
    pub fn close(&self) {
        // Adding 1 to a counter of 64 bits fails only when that is full.
        let _ = self.closed.write(1);
    }

    /// Drains the socket.
    fn receive(&self, has_changed: &mut bool) {
        let mut start = [0; 16];
        loop {
            match self.socket.recv(&mut &mut start[..], libc::MSG_DONTWAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => *has_changed = true,
                // ENOBUFS: some were lost, and the next call succeeds.
                Err(_) => *has_changed = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Netns, Stack, VethEnd};

    #[test]
    fn a_change_is_there_when_the_call_that_made_it_returns() {
        testkit::needs!(testkit::is_root("CAP_NET_ADMIN"));
        let netns = Netns::anonymous().expect("a namespace");
        let stack = Stack::of(&netns).expect("its stack");
        let events = netns.run(LinkEvents::here).expect("a thread").expect("a socket");
        assert!(!events.take());
        let end = |name| VethEnd { name, mac: None, queues: 1, mtu: None };
        stack.create_veth(&end("a"), &end("b"), &netns).expect("a pair");
        assert!(events.wait() && events.take() && !events.take());
        stack.set_up("a").expect("up");
        assert!(events.take());
        events.close();
        assert!(!events.wait());
    }
}
