//! Entries of an MPLS label stack (RFC 3032).

use super::bytes::view;

view!("an MPLS label", 4, no halves);

impl View<'_> {
    /// Label, 20 bits.
    pub fn label(&self) -> u32 {
        u32::from_be_bytes(*self.0) >> 12
    }

    /// True for the last label of the stack.
    pub fn is_last(&self) -> bool {
        self.0[2] & 1 != 0
    }

    /// The fields.
    pub fn fields(&self) -> Fields {
        let traffic_class = self.0[2] >> 1 & 7;
        Fields { label: self.label(), traffic_class, is_last: self.is_last(), ttl: self.0[3] }
    }
}

/// Fields of an MPLS label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub traffic_class: u8,
    /// Last label of the stack.
    pub is_last: bool,
    /// Time to live.
    pub ttl: u8,
}
