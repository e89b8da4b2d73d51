//! Ring sizes, queue counts and flow control of a driver.

use crate::HostError;
use crate::ethtool::{QueueUse, optional};
use crate::genl::{Attribute, Attributes, Generic};
use crate::stack::{LinkId, Stack};

const RINGS_GET: u8 = 15;
const CHANNELS_GET: u8 = 17;
const PAUSE_GET: u8 = 21;

/// Ring size of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSize {
    /// In use.
    pub now: u32,
    /// Maximum of the driver.
    pub max: u32,
}

/// Descriptors per queue (`ethtool -g`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// For receive.
    pub rx: RingSize,
    /// For transmit.
    pub tx: RingSize,
}

/// Flow control (`ethtool -a`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowControl {
    /// The device honors pause frames.
    pub rx: bool,
    /// The device sends pause frames when its ring fills up.
    pub tx: bool,
}

impl Stack {
    /// Ring sizes; `None` if the driver does not report them.
    pub fn rings<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<Rings>, HostError> {
        let rows = self.ask_driver(RINGS_GET, id.into(), "read the rings of")?;
        Ok(rows.first().and_then(|row| rings(row.attributes())))
    }

    /// Maximum queue counts; `None` if the driver does not report them.
    pub fn queues_max<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<QueueUse>, HostError> {
        let rows = self.ask_driver(CHANNELS_GET, id.into(), "read the queues of")?;
        Ok(rows.first().and_then(|row| queues_max(row.attributes())))
    }

    /// Flow control; `None` if the driver does not report it.
    pub fn pause<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<FlowControl>, HostError> {
        let rows = self.ask_driver(PAUSE_GET, id.into(), "read the pause settings of")?;
        Ok(rows.first().and_then(|row| pause(row.attributes())))
    }

    fn ask_driver(&self, command: u8, id: LinkId<'_>, act: &'static str) -> Result<Vec<Generic>, HostError> {
        optional(self.ethtool(command, id, act, Vec::<Attribute>::new()))
    }
}

fn rings(attributes: Attributes<'_>) -> Option<Rings> {
    const RX_MAX: u16 = 2;
    const TX_MAX: u16 = 5;
    const RX: u16 = 6;
    const TX: u16 = 9;
    let ring = |now, max| {
        let now = attributes.u32(now)?;
        Some(RingSize { now, max: attributes.u32(max).unwrap_or(now) })
    };
    Some(Rings { rx: ring(RX, RX_MAX).unwrap_or_default(), tx: ring(TX, TX_MAX)? })
}

fn queues_max(attributes: Attributes<'_>) -> Option<QueueUse> {
    const RX: u16 = 2;
    const TX: u16 = 3;
    const COMBINED: u16 = 5;
    let found = |kind| attributes.u32(kind).unwrap_or(0);
    // A driver has combined queues or separate ones; few have both, and then not at once.
    let most = |kind| found(kind).max(found(COMBINED));
    let queues = QueueUse { tx: most(TX), rx: most(RX) };
    (queues.tx > 0 && queues.rx > 0).then_some(queues)
}

fn pause(attributes: Attributes<'_>) -> Option<FlowControl> {
    const RX: u16 = 3;
    const TX: u16 = 4;
    Some(FlowControl { rx: attributes.u8(RX)? != 0, tx: attributes.u8(TX)? != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;

    fn bytes(attributes: &[Attribute]) -> Vec<u8> {
        let mut bytes = vec![0; attributes.buffer_len()];
        attributes.emit(&mut bytes);
        bytes
    }

    #[test]
    fn rings_of_a_card_and_of_one_that_only_sends() {
        let card =
            [(2, 4096), (5, 4096), (6, 256), (9, 512)].map(|(kind, value)| Attribute::u32(kind, value));
        let expected = Rings { rx: RingSize { now: 256, max: 4096 }, tx: RingSize { now: 512, max: 4096 } };
        assert_eq!(rings(Attributes(&bytes(&card))), Some(expected));
        let sender = [Attribute::u32(9, 64)];
        let expected = Rings { tx: RingSize { now: 64, max: 64 }, ..Rings::default() };
        assert_eq!(rings(Attributes(&bytes(&sender))), Some(expected));
        assert_eq!(rings(Attributes(&[])), None);
    }

    #[test]
    fn queues_are_combined_or_one_for_each_direction() {
        let combined = [Attribute::u32(5, 8)];
        assert_eq!(queues_max(Attributes(&bytes(&combined))), Some(QueueUse { tx: 8, rx: 8 }));
        let apart = [Attribute::u32(2, 4), Attribute::u32(3, 2)];
        assert_eq!(queues_max(Attributes(&bytes(&apart))), Some(QueueUse { tx: 2, rx: 4 }));
        assert_eq!(queues_max(Attributes(&[])), None);
    }

    #[test]
    fn pause_is_one_byte_each_way() {
        let both = [Attribute::Bytes(3, vec![1]), Attribute::Bytes(4, vec![0])];
        assert_eq!(pause(Attributes(&bytes(&both))), Some(FlowControl { rx: true, tx: false }));
        assert_eq!(pause(Attributes(&[])), None);
    }
}
