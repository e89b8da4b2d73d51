//! Maps of addresses and ports: one value for another wherever it stands.

use crate::prefix::AddressMap;
use packet::MacAddr;
use packet::headers::AddressRole;

/// The addresses that a map of IP addresses reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapScope {
    /// All.
    Any,
    /// Sources of headers and senders of ARP.
    Source,
    /// Destinations of headers and targets of ARP.
    Destination,
}

/// A map of IP addresses with its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRule {
    /// What it reaches.
    pub scope: MapScope,
    /// The map.
    pub map: AddressMap,
}

impl AddressRule {
    pub(crate) fn reaches(&self, role: AddressRole) -> bool {
        match self.scope {
            MapScope::Any => true,
            MapScope::Source => role == AddressRole::Source,
            MapScope::Destination => role == AddressRole::Destination,
        }
    }
}

/// One MAC address becomes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacMap {
    /// The address in the file.
    pub from: MacAddr,
    /// Its replacement.
    pub to: MacAddr,
}

/// Ports from `first` to `last` become those from `to` on, or all become `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMap {
    /// First port that is replaced.
    pub first: u16,
    /// Last port that is replaced.
    pub last: u16,
    /// Replacement of the first port.
    pub to: u16,
    /// The replacements are a range as long as that of the ports.
    pub is_range: bool,
}

impl PortMap {
    /// The replacement of a port; nothing for ports that are not in the range.
    pub(crate) fn of(&self, port: u16) -> Option<u16> {
        let offset = if self.is_range { port.wrapping_sub(self.first) } else { 0 };
        (self.first..=self.last).contains(&port).then(|| self.to.wrapping_add(offset))
    }
}
