//! The network stack of a namespace: queries and changes, from any thread.
//!
//! The sockets are opened inside the namespace once; afterwards the namespace of the calling thread
//! does not matter. Queries wait for each other, because each uses the socket exclusively.

use crate::genl::GenericNetlink;
use crate::link::Link;
use crate::netlink::{GROUP_LINK, Netlink, RequestFailure, subscribe};
use crate::{HostError, Netns};
use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `IFNAMSIZ` less the zero byte; alternative names may be longer.
const FIRST_NAME_LEN_MAX: usize = 15;

/// A device, by index or by one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkId<'a> {
    /// `ifindex`; follows a device through renames.
    Index(u32),
    /// A name.
    Name(&'a str),
}

impl From<u32> for LinkId<'_> {
    fn from(index: u32) -> Self {
        Self::Index(index)
    }
}

impl<'a> From<&'a str> for LinkId<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a String> for LinkId<'a> {
    fn from(name: &'a String) -> Self {
        Self::Name(name)
    }
}

impl From<&Link> for LinkId<'_> {
    fn from(link: &Link) -> Self {
        Self::Index(link.index)
    }
}

impl fmt::Display for LinkId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "number {index}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The network stack of one namespace.
#[derive(Debug)]
pub struct Stack {
    netns: Netns,
    route: Mutex<Netlink>,
    generic: Mutex<GenericNetlink>,
}

impl Stack {
    /// Of the namespace that the calling thread is in.
    pub fn here() -> Result<Self, HostError> {
        Self::open_here(Netns::current()?)
    }

    /// Of `netns`.
    pub fn of(netns: &Netns) -> Result<Self, HostError> {
        netns.run(|| Self::open_here(netns.clone()))?
    }

    fn open_here(netns: Netns) -> Result<Self, HostError> {
        let refused = || HostError::refused("open a netlink socket in", netns.to_string());
        let route = Netlink::open(NETLINK_ROUTE).map_err(refused())?;
        let generic = GenericNetlink::open().map_err(refused())?;
        Ok(Self { netns, route: Mutex::new(route), generic: Mutex::new(generic) })
    }

    /// The namespace this is the stack of.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// All devices.
    pub fn links(&self) -> Result<Vec<Link>, HostError> {
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let rows =
            self.route().list(question).map_err(RequestFailure::on("list the devices of", self.text()))?;
        Ok(rows.into_iter().filter_map(into_link).collect())
    }

    /// One device, with its counters as of now.
    pub fn link<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Link, HostError> {
        let id = id.into();
        self.ask_link(link_message(id)?, || self.object(id)).map_err(|error| self.clarify(error, id))
    }

    /// One device, or `None` when there is no such device.
    pub fn find_link<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<Link>, HostError> {
        match self.link(id) {
            Ok(link) => Ok(Some(link)),
            Err(HostError::NoLink { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The peer of `link` (veth), also in another namespace; `None` if there is none, if its
    /// namespace is not visible from here, or if this process may not read it.
    pub fn peer(&self, link: &Link) -> Result<Option<Link>, HostError> {
        let Some(peer) = link.peer.filter(|peer| peer.netns_number.is_none_or(|number| number >= 0)) else {
            return Ok(None);
        };
        let mut message = LinkMessage::default();
        message.header.index = peer.index;
        message.attributes.extend(peer.netns_number.map(LinkAttribute::IfNetnsId));
        match self.ask_link(message, || format!("the peer of {} in {}", link.name, self.netns)) {
            Ok(found) => Ok(Some(found)),
            Err(error) if matches!(error.errno(), Some(libc::ENODEV | libc::EACCES | libc::EPERM)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The number of `other` in this namespace (as in [`crate::Peer`]); `None` before the first
    /// contact.
    pub fn number_of(&self, other: &Netns) -> Result<Option<i32>, HostError> {
        let mut message = NsidMessage::default();
        message.attributes = vec![NsidAttribute::Fd(other.as_raw_fd().unsigned_abs())];
        let failed = RequestFailure::on("ask for the number of", format!("{other} in {}", self.netns));
        let rows = self.route().ask(RouteNetlinkMessage::GetNsId(message), 0).map_err(failed)?;
        Ok(rows
            .into_iter()
            .filter_map(|row| match row {
                RouteNetlinkMessage::NewNsId(answer) => Some(answer.attributes),
                _ => None,
            })
            .flatten()
            .find_map(|attribute| match attribute {
                NsidAttribute::Id(number) if number >= 0 => Some(number),
                _ => None,
            }))
    }

    /// Calls `check` now and after each change of a device, until it returns a value or the time is
    /// up.
    ///
    /// # Errors
    /// Of `check`, or when changes cannot be watched.
    pub fn wait_for_link<T>(
        &self,
        timeout: Duration,
        check: impl FnMut() -> Result<Option<T>, HostError>,
    ) -> Result<Option<T>, HostError> {
        self.wait_for(GROUP_LINK, timeout, check)
    }

    /// Calls `check` now and after each event of a netlink multicast group, until it returns a
    /// value or the time is up.
    pub(crate) fn wait_for<T>(
        &self,
        group: u32,
        timeout: Duration,
        mut check: impl FnMut() -> Result<Option<T>, HostError>,
    ) -> Result<Option<T>, HostError> {
        let deadline = Instant::now() + timeout;
        let subscribed = self.netns.run(|| {
            let socket = subscribe(group)?;
            socket.set_non_blocking(true)?;
            Ok::<_, std::io::Error>(socket)
        })?;
        let events = subscribed.map_err(HostError::refused("watch the devices of", self.text()))?;
        loop {
            let found = check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            // One millisecond more, since the timeout is rounded down.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut [PollFd::new(events.as_fd(), PollFlags::POLLIN)], timeout);
            // Lost events (ENOBUFS) do no harm, because the state is read again.
            while events.recv_from_full().is_ok() {}
        }
    }

    pub(crate) fn route(&self) -> MutexGuard<'_, Netlink> {
        // A panic leaves at most an unread answer, which the sequence numbers skip.
        self.route.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn generic(&self) -> MutexGuard<'_, GenericNetlink> {
        self.generic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A socket of this namespace, for ioctls on its devices.
    pub(crate) fn socket<'a>(&self, route: &'a Netlink) -> BorrowedFd<'a> {
        route.socket().as_fd()
    }

    /// The namespace, for messages.
    pub(crate) fn text(&self) -> String {
        self.netns.to_string()
    }

    /// A device and its namespace, for messages.
    pub(crate) fn object(&self, id: LinkId<'_>) -> String {
        format!("{id} in {}", self.netns)
    }

    /// Turns "no such device" of the kernel into an error with the device and its namespace.
    pub(crate) fn clarify(&self, error: HostError, id: LinkId<'_>) -> HostError {
        match error.errno() {
            Some(libc::ENODEV) => HostError::NoLink { link: id.to_string(), netns: self.text() },
            _ => error,
        }
    }

    fn ask_link(&self, question: LinkMessage, object: impl Fn() -> String) -> Result<Link, HostError> {
        let rows = self
            .route()
            .ask(RouteNetlinkMessage::GetLink(question), 0)
            .map_err(RequestFailure::on("look at", object()))?;
        let nothing =
            || HostError::Unreadable { act: "look at", object: object(), why: "it is empty".to_owned() };
        rows.into_iter().find_map(into_link).ok_or_else(nothing)
    }
}

/// A message about device `id`.
pub(crate) fn link_message(id: LinkId<'_>) -> Result<LinkMessage, HostError> {
    let mut message = LinkMessage::default();
    match id {
        LinkId::Index(index) => message.header.index = index,
        LinkId::Name(name) => message.attributes.push(name_attribute(checked_name(name)?)),
    }
    Ok(message)
}

fn name_attribute(name: String) -> LinkAttribute {
    if name.len() <= FIRST_NAME_LEN_MAX {
        return LinkAttribute::IfName(name);
    }
    LinkAttribute::Other(DefaultNla::new(libc::IFLA_ALT_IFNAME, [name.as_bytes(), &[0]].concat()))
}

/// The kernel's rule for device names (`dev_valid_name`), for a better message than EINVAL.
pub(crate) fn checked_name(name: &str) -> Result<String, HostError> {
    let why = match name {
        "" => "it is empty",
        "." | ".." => "it stands for a folder",
        _ if name.len() > 127 => "it is too long",
        _ if name.bytes().any(|b| b == b'/' || b == b':' || b == 0 || b.is_ascii_whitespace()) => {
            "it holds a slash, a colon, a space or a zero byte"
        }
        _ => return Ok(name.to_owned()),
    };
    Err(HostError::BadName { what: "device", name: name.to_owned(), why })
}

fn into_link(row: RouteNetlinkMessage) -> Option<Link> {
    match row {
        RouteNetlinkMessage::NewLink(message) => Some(message.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_by_name_and_number() {
        let stack = Stack::here().unwrap();
        let lo = stack.link("lo").unwrap();
        assert!(lo.is_loopback() && lo.layer == crate::LinkLayer::Loopback);
        assert_eq!(stack.link(lo.index).unwrap().name, "lo");
        assert!(stack.links().unwrap().iter().any(|link| link.name == "lo"));
        assert_eq!(stack.peer(&lo).unwrap(), None);
    }

    #[test]
    fn a_missing_device_is_said_by_name() {
        let error = Stack::here().unwrap().link("wrh-none").unwrap_err();
        assert_eq!(error.to_string(), "there is no device wrh-none in this namespace");
        assert_eq!(Stack::here().unwrap().find_link(0x7fff_fff0).unwrap(), None);
    }

    #[test]
    fn bad_names_never_reach_the_kernel() {
        for bad in ["", "..", "a/b", "a:1", "a b", &"x".repeat(128)] {
            assert!(matches!(checked_name(bad), Err(HostError::BadName { .. })), "{bad}");
        }
    }
}
