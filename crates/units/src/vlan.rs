//! The values of VLAN tags: ids, priorities and EtherTypes.

use super::{decimal, number};
use std::fmt;
use std::str::FromStr;

/// An id of a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanId(pub u16);

impl FromStr for VlanId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        decimal(text).filter(|id| *id <= 4095).map(Self).ok_or("not a VLAN id from 0 to 4095")
    }
}

/// A priority of a VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanPriority(pub u8);

impl FromStr for VlanPriority {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        decimal(text).filter(|priority| *priority <= 7).map(Self).ok_or("not a priority from 0 to 7")
    }
}

/// The EtherType of a VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanType(pub u16);

impl VlanType {
    /// IEEE 802.1Q.
    pub const CUSTOMER: Self = Self(0x8100);
    /// IEEE 802.1ad.
    pub const SERVICE: Self = Self(0x88a8);
}

impl FromStr for VlanType {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "802.1q" | "802.1Q" => Ok(Self::CUSTOMER),
            "802.1ad" => Ok(Self::SERVICE),
            // Below, the field is a length.
            _ => number(text)
                .filter(|ethertype| text.starts_with("0x") && *ethertype >= 0x600)
                .map(Self)
                .ok_or("not an EtherType such as 0x88a8, nor 802.1q or 802.1ad"),
        }
    }
}

impl fmt::Display for VlanType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
