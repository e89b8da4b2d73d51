//! What the editor counts: packets that it could not edit, wrong checksums, uses of each option.

use facts::{Described, Kind};
use packet::headers::{EndCause, NoSum, SumProtocol};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Checksums by protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumCounts([u64; SumProtocol::CHECKED.len()]);

impl SumCounts {
    pub(crate) fn add(&mut self, protocol: SumProtocol) {
        if let Some(place) = SumProtocol::CHECKED.iter().position(|known| *known == protocol) {
            self.0[place] += 1;
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that are not zero, by the name of the protocol.
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let all = SumProtocol::CHECKED.iter().zip(self.0);
        all.filter(|(_, count)| *count > 0).map(|(protocol, count)| (protocol.name(), count)).collect()
    }
}

impl Serialize for SumCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.by_name().serialize(serializer)
    }
}

impl Described for SumCounts {
    const KIND: Kind = Kind::Map(&Kind::Count("packets"));
}

/// Packets by the reason why a field could not be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct NotEdited {
    /// The file does not have the header.
    #[fact(unit = "packets")]
    pub cut: u64,
    /// The header is encrypted.
    #[fact(unit = "packets")]
    pub encrypted: u64,
    /// The header is behind one of an unknown protocol, or of a link type that is not read.
    #[fact(unit = "packets")]
    pub unknown: u64,
    /// The header is behind one that contradicts itself.
    #[fact(unit = "packets")]
    pub damaged: u64,
    /// They are first fragments of SCTP, whose checksum is that of the whole packet.
    #[fact(unit = "packets")]
    pub fragments: u64,
}

impl NotEdited {
    /// Counts a packet in which this hides a field.
    pub(crate) fn count(&mut self, cause: EndCause) {
        match cause {
            EndCause::Cut => self.cut += 1,
            EndCause::Encrypted => self.encrypted += 1,
            EndCause::Unknown => self.unknown += 1,
            EndCause::Malformed => self.damaged += 1,
            EndCause::Fragment => self.fragments += 1,
            EndCause::Payload => {}
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.cut + self.encrypted + self.unknown + self.damaged + self.fragments
    }

    /// The reasons with their counts, such as `cut 2, encrypted 1`.
    pub fn reasons(&self) -> String {
        let all = [
            ("cut", self.cut),
            ("encrypted", self.encrypted),
            ("unknown header", self.unknown),
            ("damaged header", self.damaged),
            ("fragments of SCTP", self.fragments),
        ];
        let found = all.into_iter().filter(|(_, count)| *count > 0);
        found.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}

/// Packets whose checksums could not be computed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Described)]
pub struct NotFixed {
    /// Packets that are fragments.
    #[fact(unit = "packets")]
    pub fragments: u64,
    /// Packets that the file cuts short: it has not all of their bytes.
    #[fact(unit = "packets")]
    pub cut: u64,
}

impl NotFixed {
    pub(crate) fn count(&mut self, cause: NoSum) {
        match cause {
            NoSum::Fragment => self.fragments += 1,
            NoSum::Cut => self.cut += 1,
            NoSum::NotChecked => {}
        }
    }
}

/// Frames whose VLAN tags an option has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagUses {
    /// A tag was removed by [`TagEdits::pop`](crate::TagEdits::pop).
    pub pop: u64,
    /// Tags were added by [`TagEdits::push`](crate::TagEdits::push).
    pub push: u64,
    /// The outer tag.
    pub outer: u64,
    /// The second tag.
    pub second: u64,
    /// The outer and the second tag in a tunnel.
    pub inner: [u64; 2],
}

/// How often each option found what it changes, in the order of the options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditUses {
    /// Of [`Edits::tags`](crate::Edits::tags).
    pub tags: TagUses,
    /// Of [`Edits::fields`](crate::Edits::fields).
    pub fields: Vec<u64>,
    /// Of [`Edits::address_rules`](crate::Edits::address_rules).
    pub address_rules: Vec<u64>,
    /// Of [`Edits::mac_maps`](crate::Edits::mac_maps).
    pub mac_maps: Vec<u64>,
    /// Of [`Edits::port_maps`](crate::Edits::port_maps).
    pub port_maps: Vec<u64>,
}

/// Everything that the editor counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditCounts {
    /// Checksums that were wrong in the file.
    pub wrong_sums: SumCounts,
    /// Packets that could not be edited.
    pub not_edited: NotEdited,
    /// LINKTYPE_ numbers of packets whose headers are not read.
    pub unread_link_types: BTreeSet<u16>,
    /// Packets whose checksums could not be computed anew.
    pub not_fixed: NotFixed,
    /// Uses of the options.
    pub uses: EditUses,
}
