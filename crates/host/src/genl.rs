//! Generic netlink: families by name, attributes as a tree.
//!
//! One message type serves all families, because each needs only a few attributes.

use crate::HostError;
use crate::netlink::{Netlink, RequestFailure, text};
use netlink_packet_core::{
    DecodeError, Emitable, NLA_F_NESTED, NLA_HEADER_SIZE, NetlinkDeserializable, NetlinkHeader,
    NetlinkSerializable, Nla, NlasIterator,
};
use std::collections::HashMap;

/// The control family (`GENL_ID_CTRL`).
const CONTROL_ID: u16 = 16;
const CONTROL_GET_FAMILY: u8 = 3;
const CONTROL_FAMILY_ID: u16 = 1;
const CONTROL_FAMILY_NAME: u16 = 2;
/// `struct genlmsghdr`: command, version, two reserved bytes.
const HEADER_LEN: usize = 4;

/// An attribute to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    Bytes(u16, Vec<u8>),
    Nest(u16, Vec<Attribute>),
}

impl Attribute {
    pub(crate) fn u32(kind: u16, value: u32) -> Self {
        Self::Bytes(kind, value.to_ne_bytes().to_vec())
    }

    pub(crate) fn text(kind: u16, value: &str) -> Self {
        Self::Bytes(kind, [value.as_bytes(), &[0]].concat())
    }

    /// A flag attribute.
    pub(crate) fn flag(kind: u16) -> Self {
        Self::Bytes(kind, Vec::new())
    }
}

impl Nla for Attribute {
    fn value_len(&self) -> usize {
        match self {
            Self::Bytes(_, bytes) => bytes.len(),
            Self::Nest(_, inner) => inner.as_slice().buffer_len(),
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Bytes(kind, _) => *kind,
            Self::Nest(kind, _) => kind | NLA_F_NESTED,
        }
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        match self {
            Self::Bytes(_, bytes) => buffer.copy_from_slice(bytes),
            Self::Nest(_, inner) => inner.as_slice().emit(buffer),
        }
    }
}

/// Received attributes: a view of bytes, parsed on demand. Invalid ones count as missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// All attributes in order, with their types.
    pub(crate) fn all(self) -> impl Iterator<Item = (u16, Attributes<'a>)> {
        NlasIterator::new(self.0).map_while(Result::ok).filter_map(|attribute| {
            let (kind, len) = (attribute.kind(), usize::from(attribute.length()));
            Some((kind, Attributes(attribute.into_inner().get(NLA_HEADER_SIZE..len)?)))
        })
    }

    pub(crate) fn get(self, kind: u16) -> Option<Attributes<'a>> {
        self.all().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    pub(crate) fn has(self, kind: u16) -> bool {
        self.get(kind).is_some()
    }

    pub(crate) fn u8(self, kind: u16) -> Option<u8> {
        self.get(kind)?.0.first().copied()
    }

    pub(crate) fn u16(self, kind: u16) -> Option<u16> {
        Some(u16::from_ne_bytes(self.get(kind)?.0.try_into().ok()?))
    }

    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.get(kind)?.0.try_into().ok()?))
    }

    pub(crate) fn u64(self, kind: u16) -> Option<u64> {
        Some(u64::from_ne_bytes(self.get(kind)?.0.try_into().ok()?))
    }

    pub(crate) fn text(self, kind: u16) -> Option<String> {
        self.get(kind).map(|value| text(value.0))
    }
}

/// A message of any family.
#[derive(Clone, Debug)]
pub(crate) struct Generic {
    family: u16,
    command: u8,
    body: Vec<u8>,
}

impl Generic {
    fn new(family: u16, command: u8, attributes: &[Attribute]) -> Self {
        let mut body = vec![0; attributes.buffer_len()];
        attributes.emit(&mut body);
        Self { family, command, body }
    }

    pub(crate) fn attributes(&self) -> Attributes<'_> {
        Attributes(&self.body)
    }
}

impl NetlinkSerializable for Generic {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER_LEN + self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        // All families used here have version 1.
        buffer[..HEADER_LEN].copy_from_slice(&[self.command, 1, 0, 0]);
        buffer[HEADER_LEN..].copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Generic {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let (head, body) = payload
            .split_at_checked(HEADER_LEN)
            .ok_or_else(|| DecodeError::from("generic netlink message without header"))?;
        Ok(Self { family: header.message_type, command: head[0], body: body.to_vec() })
    }
}

/// A socket for generic netlink, with the ids of the families used so far.
#[derive(Debug)]
pub(crate) struct GenericNetlink {
    netlink: Netlink,
    families: HashMap<&'static str, u16>,
}

impl GenericNetlink {
    /// In the namespace of the calling thread.
    pub(crate) fn open() -> std::io::Result<Self> {
        let netlink = Netlink::open(netlink_sys::protocols::NETLINK_GENERIC)?;
        Ok(Self { netlink, families: HashMap::new() })
    }

    /// Sends `command` to `family`.
    pub(crate) fn ask(
        &mut self,
        family: &'static str,
        command: u8,
        attributes: &[Attribute],
        act: &'static str,
        object: impl Fn() -> String,
    ) -> Result<Vec<Generic>, HostError> {
        let number = match self.families.get(family) {
            Some(number) => *number,
            None => self.find(family, act, &object)?,
        };
        let question = Generic::new(number, command, attributes);
        self.netlink.ask(question, 0).map_err(RequestFailure::on(act, object()))
    }

    fn find(
        &mut self,
        family: &'static str,
        act: &'static str,
        object: impl Fn() -> String,
    ) -> Result<u16, HostError> {
        let name = Attribute::text(CONTROL_FAMILY_NAME, family);
        let question = Generic::new(CONTROL_ID, CONTROL_GET_FAMILY, &[name]);
        let missing = || HostError::Missing { act, object: object(), what: family };
        let answer = match self.netlink.ask(question, 0).map_err(RequestFailure::on(act, object())) {
            Err(error) if error.errno() == Some(libc::ENOENT) => return Err(missing()),
            other => other?,
        };
        let number = answer.iter().find_map(|row| row.attributes().u16(CONTROL_FAMILY_ID));
        let number = number.ok_or_else(missing)?;
        self.families.insert(family, number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tree_is_read_as_it_was_written() {
        let inner = vec![Attribute::u32(1, 7), Attribute::text(2, "rx-gro"), Attribute::flag(3)];
        let message = Generic::new(20, 5, &[Attribute::Nest(4, inner), Attribute::Bytes(9, vec![1; 8])]);
        let root = message.attributes();
        let nest = root.get(4).unwrap();
        assert_eq!(nest.u32(1), Some(7));
        assert_eq!(nest.text(2).as_deref(), Some("rx-gro"));
        assert!(nest.has(3) && !nest.has(5));
        assert_eq!(root.u64(9), Some(0x0101_0101_0101_0101));
        assert_eq!((root.u32(9), root.u16(9)), (None, None));
    }

    proptest! {
        #[test]
        fn no_bytes_can_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let seen: usize = Attributes(&bytes).all().map(|(_, value)| 1 + value.all().count()).sum();
            prop_assert!(seen <= bytes.len() / 4);
        }
    }
}
