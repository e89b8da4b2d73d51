//! VLAN tags (IEEE 802.1Q) behind their tag protocol identifier: tag control information and the
//! EtherType of what follows.

use super::bytes::view;

view!("a VLAN tag", 4);

impl View<'_> {
    /// VLAN ID, 12 bits.
    pub fn id(&self) -> u16 {
        self.half(0) & 0xfff
    }

    /// Priority, 3 bits.
    pub fn priority(&self) -> u8 {
        self.0[0] >> 5
    }

    /// Drop eligible indicator.
    pub fn is_drop_eligible(&self) -> bool {
        self.0[0] & 0x10 != 0
    }

    /// EtherType of what follows.
    pub fn ether_type(&self) -> u16 {
        self.half(2)
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        Fields {
            id: self.id(),
            priority: self.priority(),
            is_drop_eligible: self.is_drop_eligible(),
            ether_type: self.ether_type(),
        }
    }
}

/// Fields of a VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// VLAN ID, 12 bits.
    pub id: u16,
    /// Priority, 3 bits.
    pub priority: u8,
    /// Drop eligible indicator.
    pub is_drop_eligible: bool,
    /// EtherType of what follows.
    pub ether_type: u16,
}
