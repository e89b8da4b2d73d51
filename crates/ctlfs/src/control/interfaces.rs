//! The interfaces of a network namespace, as the control tree needs them.

use super::default_route_warning::DefaultRouteWarning;
use command::{Facts, LinkState};
use engine::Event;
use host::{CpuList, HostError, LinkEvents, LinkLayer, Netns, Stack};
use packet::ipsec::Associations;
use packet::{DeviceFacts, MacAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::Builder;

/// One interface, as of the moment it was asked for.
#[derive(Clone, Debug)]
pub struct LiveInterface {
    /// Its number: stays the same when it is renamed.
    pub index: u32,
    /// Its name now.
    pub name: String,
    /// Its own address; zero where it has none.
    pub mac: MacAddr,
    /// What `add_device` needs to know.
    pub state: LinkState,
    /// The cable, or the other end, is there.
    pub has_carrier: bool,
    /// It gives back what is sent.
    pub is_loopback: bool,
}

impl LiveInterface {
    /// It is up and has carrier; pktgen ends a run when that is not so.
    pub fn can_send(&self) -> bool {
        self.state.is_up && self.has_carrier
    }
}

/// The interfaces of one network namespace.
pub trait Interfaces: Send + Sync + 'static {
    /// By name; `None` when there is none.
    fn named(&self, name: &str) -> Option<LiveInterface>;

    /// By number, whatever its name is now; `None` when it is gone.
    ///
    /// # Errors
    /// When it cannot be read: it may exist.
    fn numbered(&self, index: u32) -> Result<Option<LiveInterface>, HostError>;

    /// True when an interface may have changed since the last call.
    fn take_change(&self) -> bool;

    /// Notifies `event` after each change from now on.
    fn notify_changes(&self, event: Arc<Event>);

    /// What commands and read-outs need to know of one.
    fn facts(&self, interface: &LiveInterface) -> Facts;

    /// What a run needs to know: addresses and queues. What cannot be had is left empty.
    fn device_facts(&self, index: u32) -> DeviceFacts;

    /// Logs a warning, maybe later, if the interface of `device` carries the default route.
    fn warn_of_default_route(&self, device: &str, index: u32);

    /// The security associations for frames with IPsec; none when they cannot be read.
    fn associations(&self) -> Arc<Associations>;
}

/// The real ones, read over netlink each time.
#[derive(Debug)]
pub struct HostInterfaces {
    stack: Stack,
    events: Arc<LinkEvents>,
    routes: DefaultRouteWarning,
    has_xfrm: bool,
    possible_nodes: Vec<RangeInclusive<u32>>,
}

impl HostInterfaces {
    /// Those of the network namespace that the calling thread is in.
    ///
    /// # Errors
    /// When no netlink socket can be had.
    pub fn here() -> Result<Self, HostError> {
        let possible_nodes = CpuList::possible_nodes()?.iter().map(|node| node..=node).collect();
        let routes = Stack::here()?;
        // The default route of a lab is not that of the host.
        let of_host = routes.netns().is_of_host();
        let path =
            move || if of_host { said(routes.default_route_path()).unwrap_or_default() } else { Vec::new() };
        Ok(Self {
            stack: Stack::here()?,
            events: Arc::new(LinkEvents::here()?),
            routes: DefaultRouteWarning::new(path),
            // This setting is there in every kernel with CONFIG_XFRM, in every namespace.
            has_xfrm: std::fs::exists("/proc/sys/net/core/xfrm_acq_expires").unwrap_or(false),
            possible_nodes,
        })
    }

    /// The namespace.
    pub fn netns(&self) -> &Netns {
        self.stack.netns()
    }
}

impl Interfaces for HostInterfaces {
    fn named(&self, name: &str) -> Option<LiveInterface> {
        said(self.stack.find_link(name)).flatten().map(LiveInterface::from)
    }

    fn numbered(&self, index: u32) -> Result<Option<LiveInterface>, HostError> {
        Ok(self.stack.find_link(index)?.map(LiveInterface::from))
    }

    fn take_change(&self) -> bool {
        self.events.take()
    }

    fn notify_changes(&self, event: Arc<Event>) {
        let events = Arc::clone(&self.events);
        let watch = move || {
            while events.wait() {
                event.notify();
            }
        };
        if let Err(error) = Builder::new().name("links".to_owned()).spawn(watch) {
            tracing::warn!(%error, "a run goes on when its interface goes down until a file is read");
        }
    }

    fn facts(&self, interface: &LiveInterface) -> Facts {
        Facts {
            link: DeviceFacts { mac: interface.mac, tx_queues: 1, ..DeviceFacts::default() },
            forbids_shared_skb: interface.is_loopback,
            has_xfrm: self.has_xfrm,
            possible_nodes: self.possible_nodes.clone(),
        }
    }

    fn device_facts(&self, index: u32) -> DeviceFacts {
        said(self.stack.facts(index)).unwrap_or(DeviceFacts { tx_queues: 1, ..DeviceFacts::default() })
    }

    fn warn_of_default_route(&self, device: &str, index: u32) {
        self.routes.look_at(device, index);
    }

    fn associations(&self) -> Arc<Associations> {
        said(self.stack.associations()).unwrap_or_default()
    }
}

impl Drop for HostInterfaces {
    fn drop(&mut self) {
        self.events.close();
    }
}

impl From<host::Link> for LiveInterface {
    fn from(link: host::Link) -> Self {
        let is_ethernet_or_loopback = matches!(link.layer, LinkLayer::Ethernet | LinkLayer::Loopback);
        Self {
            index: link.index,
            mac: link.mac.unwrap_or_default(),
            state: LinkState { is_up: link.is_up(), is_ethernet_or_loopback },
            has_carrier: link.has_carrier(),
            is_loopback: link.is_loopback(),
            name: link.name,
        }
    }
}

/// An interface that cannot be read counts as missing, with a warning in the log.
fn said<T>(answer: Result<T, HostError>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        // Names that no interface can have, and interfaces that went meanwhile.
        Err(HostError::NoLink { .. } | HostError::BadName { .. }) => None,
        Err(error) => {
            tracing::warn!(%error, "cannot ask for an interface");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback() {
        let links = HostInterfaces::here().unwrap();
        let lo = links.named("lo").unwrap();
        assert!(lo.is_loopback && lo.state.is_ethernet_or_loopback);
        assert_eq!(links.numbered(lo.index).unwrap().unwrap().name, "lo");
        assert!(links.facts(&lo).forbids_shared_skb);
        assert!(links.device_facts(lo.index).tx_queues >= 1);
        assert!(links.named("no-such-interface-with-a-long-name").is_none());
    }
}
