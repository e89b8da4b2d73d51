//! Waiting for devices to come, go, change their name, go up and down.
//!
//! What the kernel sends is a picture of a device after a change. The watch keeps the last picture of each and
//! tells the difference, so one change is one event, however often the kernel repeats itself. When events come
//! faster than they are read, the kernel drops some; the watch then looks at all devices and tells what it missed.

use crate::netlink::{Failure, Messages, open_socket, receive_datagram};
use crate::{HostError, Link, Stack};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `RTNLGRP_LINK`.
const LINK_GROUP: u32 = 1;
const ACT: &str = "watch the devices of";

/// What happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// It was made, or moved into this namespace. `Up` and `CarrierOn` follow if they hold.
    Added,
    /// It was deleted, or moved into another namespace.
    Removed,
    /// It has another name now.
    Renamed {
        /// The name before.
        from: String,
    },
    /// It was switched on.
    Up,
    /// It was switched off. A device that is off has no carrier either: `CarrierOff` follows.
    Down,
    /// The cable, or the other end, came.
    CarrierOn,
    /// The cable, or the other end, went.
    CarrierOff,
}

/// One change of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// Number of the device.
    pub index: u32,
    /// Its name after the change.
    pub name: String,
    /// What happened.
    pub change: LinkChange,
}

/// What waiting came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Something happened.
    Event(LinkEvent),
    /// Nothing did in the time given.
    Timeout,
    /// [`WatchStop::stop`] was called.
    Stopped,
}

/// Ends a [`LinkWatch`] from another thread.
#[derive(Clone, Debug)]
pub struct WatchStop(Arc<EventFd>);

impl WatchStop {
    /// Makes the watch return [`Watched::Stopped`], now and from now on.
    pub fn stop(&self) {
        // Fails only when the counter is full, and then it is set already.
        let _ = self.0.write(1);
    }
}

/// A subscription to the devices of one namespace. As an iterator it waits for events until stopped.
#[derive(Debug)]
pub struct LinkWatch {
    stack: Stack,
    socket: Socket,
    stop: Arc<EventFd>,
    known: Known,
    told: VecDeque<LinkEvent>,
}

impl Stack {
    /// Watches the devices of this namespace from now on.
    pub fn watch(&self) -> Result<LinkWatch, HostError> {
        let refused = || HostError::refused(ACT, self.netns().to_string());
        let socket = self.netns().run(|| {
            let socket = open_socket(NETLINK_ROUTE)?;
            socket.add_membership(LINK_GROUP)?;
            socket.set_non_blocking(true)?;
            Ok::<_, std::io::Error>(socket)
        })?;
        let socket = socket.map_err(refused())?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let stop = EventFd::from_value_and_flags(0, flags).map_err(|errno| refused()(errno.into()))?;
        let stack = Self::of(self.netns())?;
        // After the subscription, so that nothing falls in between.
        let mut known = Known::default();
        known.replace(stack.links()?);
        Ok(LinkWatch { stack, socket, stop: Arc::new(stop), known, told: VecDeque::new() })
    }
}

impl LinkWatch {
    /// A handle that ends this watch.
    pub fn stopper(&self) -> WatchStop {
        WatchStop(self.stop.clone())
    }

    /// The next event; waits for it at most `patience`, or for good.
    pub fn wait(&mut self, patience: Option<Duration>) -> Result<Watched, HostError> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        loop {
            if let Some(event) = self.told.pop_front() {
                return Ok(Watched::Event(event));
            }
            match self.wait_readable(deadline).map_err(self.refused())? {
                Ready::Stop => return Ok(Watched::Stopped),
                Ready::Timeout => return Ok(Watched::Timeout),
                Ready::Message => self.read()?,
            }
        }
    }

    fn wait_readable(&self, deadline: Option<Instant>) -> Result<Ready, Errno> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // Rounded up to a millisecond: a poll that ends too early would spin.
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
            });
            let mut fds =
                [&self.stop.as_fd(), &self.socket.as_fd()].map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
            match poll(&mut fds, timeout) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
            match (ready(&fds[0]), ready(&fds[1])) {
                (true, _) => return Ok(Ready::Stop),
                (_, true) => return Ok(Ready::Message),
                _ if left.is_some_and(|left| left <= Duration::from_millis(1)) => return Ok(Ready::Timeout),
                _ => {}
            }
        }
    }

    fn read(&mut self) -> Result<(), HostError> {
        let bytes = match receive_datagram(&self.socket) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return self.catch_up(),
            Err(error) => return Err(self.refused()(error)),
        };
        for message in Messages(&bytes).typed() {
            let failed = || Failure::on(ACT, self.stack.netns().to_string());
            let (_, payload) = message.map_err(|failure| failed()(failure))?;
            match payload {
                // Bridges speak of their ports with messages of the same type in a family of their own.
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(message))
                    if message.header.interface_family == AddressFamily::Unspec =>
                {
                    self.told.extend(self.known.note(&message.into()));
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(message))
                    if message.header.interface_family == AddressFamily::Unspec =>
                {
                    self.told.extend(self.known.forget(message.header.index));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// After a loss. What is still in the queue is older than the listing, and would bring devices back that
    /// the listing no longer has.
    fn catch_up(&mut self) -> Result<(), HostError> {
        loop {
            match receive_datagram(&self.socket) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(self.refused()(error)),
            }
        }
        self.told.extend(self.known.replace(self.stack.links()?));
        Ok(())
    }

    fn refused<S: Into<crate::KernelSays>>(&self) -> impl FnOnce(S) -> HostError + use<S> {
        HostError::refused(ACT, self.stack.netns().to_string())
    }
}

impl Iterator for LinkWatch {
    type Item = Result<LinkEvent, HostError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.wait(None) {
            Ok(Watched::Event(event)) => Some(Ok(event)),
            Ok(Watched::Stopped | Watched::Timeout) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

enum Ready {
    Message,
    Stop,
    Timeout,
}

/// What the last picture of a device showed.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    up: bool,
    carrier: bool,
}

/// All devices as last seen, by number.
#[derive(Debug, Default)]
struct Known(BTreeMap<u32, Seen>);

impl Known {
    /// Takes a new picture of one device, returns what changed.
    fn note(&mut self, link: &Link) -> Vec<LinkEvent> {
        self.compare(
            link.index,
            Seen { name: link.name.clone(), up: link.is_up(), carrier: link.has_carrier() },
        )
    }

    /// Takes a picture of all devices, returns what changed.
    fn replace(&mut self, links: Vec<Link>) -> Vec<LinkEvent> {
        let gone: Vec<u32> =
            self.0.keys().copied().filter(|index| links.iter().all(|link| link.index != *index)).collect();
        let mut events: Vec<LinkEvent> = gone.into_iter().filter_map(|index| self.forget(index)).collect();
        events.extend(links.iter().flat_map(|link| self.note(link)));
        events
    }

    fn forget(&mut self, index: u32) -> Option<LinkEvent> {
        let seen = self.0.remove(&index)?;
        Some(LinkEvent { index, name: seen.name, change: LinkChange::Removed })
    }

    fn compare(&mut self, index: u32, now: Seen) -> Vec<LinkEvent> {
        let before = self.0.insert(index, now.clone());
        let mut changes = Vec::new();
        let was = before.unwrap_or_else(|| {
            changes.push(LinkChange::Added);
            Seen { name: now.name.clone(), up: false, carrier: false }
        });
        if was.name != now.name {
            changes.push(LinkChange::Renamed { from: was.name });
        }
        if was.up != now.up {
            changes.push(if now.up { LinkChange::Up } else { LinkChange::Down });
        }
        if was.carrier != now.carrier {
            changes.push(if now.carrier { LinkChange::CarrierOn } else { LinkChange::CarrierOff });
        }
        changes.into_iter().map(|change| LinkEvent { index, name: now.name.clone(), change }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, up: bool, carrier: bool) -> Seen {
        Seen { name: name.to_owned(), up, carrier }
    }

    fn changes(events: Vec<LinkEvent>) -> Vec<LinkChange> {
        events.into_iter().map(|event| event.change).collect()
    }

    #[test]
    fn a_picture_that_shows_nothing_new_is_no_event() {
        let mut known = Known::default();
        assert_eq!(
            changes(known.compare(3, seen("a", true, true))),
            [LinkChange::Added, LinkChange::Up, LinkChange::CarrierOn]
        );
        assert_eq!(changes(known.compare(3, seen("a", true, true))), []);
        assert_eq!(
            changes(known.compare(3, seen("b", false, false))),
            [LinkChange::Renamed { from: "a".to_owned() }, LinkChange::Down, LinkChange::CarrierOff]
        );
    }

    #[test]
    fn what_went_while_nobody_looked_is_told() {
        let mut known = Known::default();
        known.compare(3, seen("a", false, false));
        known.compare(4, seen("b", false, false));
        let events = known.replace(Vec::new());
        assert_eq!(changes(events.clone()), [LinkChange::Removed, LinkChange::Removed]);
        assert_eq!(events[1].name, "b");
        assert_eq!(known.forget(3), None);
    }
}
