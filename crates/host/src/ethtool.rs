//! Ethtool queries and settings of drivers: identity, counters, features, speed, queues,
//! timestamps.

use crate::genl::{Attribute, Attributes, Generic};
use crate::stack::{LinkId, Stack};
use crate::stamp_config::StampConfig;
use crate::{HostError, KernelError, sys};
use std::collections::BTreeSet;
use std::fmt;

/// Generic receive offload; on a veth it also makes the peer able to transmit XDP frames.
pub const FEATURE_GRO: &str = "rx-gro";
/// Receive offload on the card: the card merges received frames.
pub const FEATURE_GRO_HARDWARE: &str = "rx-gro-hw";
/// Large receive offload: like [`FEATURE_GRO_HARDWARE`], and merged frames cannot be split again.
pub const FEATURE_LRO: &str = "rx-lro";
/// TCP segmentation offload.
pub const FEATURE_TSO: &str = "tx-tcp-segmentation";

const FAMILY: &str = "ethtool";
const LINKMODES_GET: u8 = 4;
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const CHANNELS_GET: u8 = 17;
const TSINFO_GET: u8 = 25;
/// Linux 6.14; before, there is only the ioctl.
const TSCONFIG_GET: u8 = 46;
const TSCONFIG_SET: u8 = 47;
const TSCONFIG_TX_TYPES: u16 = 3;
const TSCONFIG_RX_FILTERS: u16 = 4;
const TSCONFIG_FLAGS: u16 = 5;

/// Driver of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// `veth`, `virtio_net`, `igb`, ...
    pub name: String,
    /// Its version; the kernel version for in-tree drivers.
    pub version: String,
    /// Firmware version, empty if unknown.
    pub firmware: String,
    /// Bus address, such as `0000:00:03.0`; empty for virtual devices.
    pub bus_info: String,
}

/// For messages and for the hardware field of a capture file: `igb at 0000:00:03.0, firmware 3.25`.
impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let known = |text: &str| !["", "N/A"].contains(&text);
        if known(&self.bus_info) {
            write!(f, " at {}", self.bus_info)?;
        }
        if known(&self.firmware) {
            write!(f, ", firmware {}", self.firmware)?;
        }
        Ok(())
    }
}

/// Features of a device, by their ethtool names (`ethtool -k`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    active: BTreeSet<String>,
}

impl Features {
    /// With only `names` on.
    pub fn with_active(names: &[&str]) -> Self {
        let active: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Self { active }
    }

    /// True if `name` is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.active.contains(name)
    }

    /// Features that are on.
    pub fn active(&self) -> impl Iterator<Item = &str> {
        self.active.iter().map(String::as_str)
    }
}

/// Queues in use, as opposed to the possible ones ([`crate::Link::tx_queues`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueUse {
    /// For transmit, at least 1.
    pub tx: u32,
    /// For receive, at least 1.
    pub rx: u32,
}

/// Timestamping capabilities of a device (`ethtool -T`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timestamping {
    /// ethtool names: `hardware-receive`, `hardware-raw-clock`, ...
    pub abilities: Vec<String>,
    /// Receive filters: `all`, `ptpv2-event`, ...
    pub rx_filters: Vec<String>,
    /// Transmit types: `off`, `on`, `onestep-sync`, ...
    pub tx_types: Vec<String>,
    /// N of `/dev/ptpN`, the clock of the timestamps.
    pub clock_index: Option<u32>,
}

impl Timestamping {
    /// True if received frames can have hardware timestamps.
    pub fn is_hardware_receive(&self) -> bool {
        ["hardware-receive", "hardware-raw-clock"]
            .iter()
            .all(|word| self.abilities.iter().any(|able| able == word))
    }
}

impl Stack {
    /// The driver of a device; `None` for devices without one (loopback). Works for every
    /// namespace, unlike `/sys`.
    pub fn driver<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<Driver>, HostError> {
        Ok(self.driver_info(id.into())?.map(|info| Driver {
            name: sys::text(&info.driver),
            version: sys::text(&info.version),
            firmware: sys::text(&info.firmware),
            bus_info: sys::text(&info.bus_info),
        }))
    }

    /// Counters of the driver by name, in its order (`ethtool -S`); empty if it has none. Those of
    /// a veth include XDP: `rx_queue_0_xdp_packets`, `rx_queue_0_xdp_drops`, ...
    pub fn driver_counters<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Vec<(String, u64)>, HostError> {
        let id = id.into();
        let count = self.driver_info(id)?.map_or(0, |info| info.counter_count);
        if count == 0 {
            return Ok(Vec::new());
        }
        let name = self.name_of(id)?;
        let (names, values) = sys::driver_counters(self.socket(&self.route()), &name, count)
            .map_err(HostError::refused("read the counters of", self.object(id)))?;
        Ok(names.into_iter().zip(values).collect())
    }

    /// Features of a device.
    pub fn features<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Features, HostError> {
        const ACTIVE: u16 = 4;
        let rows = self.ethtool(FEATURES_GET, id.into(), "read the features of", Vec::new())?;
        let words =
            |kind| rows.iter().find_map(|row| row.attributes().get(kind)).map(words).unwrap_or_default();
        Ok(Features { active: words(ACTIVE) })
    }

    /// Switches one feature, such as [`FEATURE_GRO`]. It is an error if the driver does not apply
    /// it.
    pub fn set_feature<'a>(
        &self,
        id: impl Into<LinkId<'a>>,
        feature: &str,
        on: bool,
    ) -> Result<(), HostError> {
        const WANTED: u16 = 3;
        let id = id.into();
        self.ethtool(FEATURES_SET, id, "change the features of", vec![bit(WANTED, feature, on)])?;
        if self.features(id)?.is_on(feature) == on {
            return Ok(());
        }
        Err(HostError::FeatureFixed { object: self.object(id), feature: feature.to_owned(), on })
    }

    /// Line rate in bits per second; `None` if unknown.
    pub fn speed_bps<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Option<u64>, HostError> {
        const SPEED_MBPS: u16 = 5;
        let answer = self.ethtool(LINKMODES_GET, id.into(), "read the speed of", Vec::new());
        let rows = optional(answer)?;
        let mbps = rows.iter().find_map(|row| row.attributes().u32(SPEED_MBPS));
        Ok(mbps.filter(|mbps| ![0, u32::MAX].contains(mbps)).map(|mbps| u64::from(mbps) * 1_000_000))
    }

    /// Queues in use.
    pub fn queues<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<QueueUse, HostError> {
        const RX: u16 = 6;
        const TX: u16 = 7;
        const COMBINED: u16 = 9;
        let id = id.into();
        let rows = optional(self.ethtool(CHANNELS_GET, id, "read the queues of", Vec::new()))?;
        let found = |kind| rows.iter().find_map(|row| row.attributes().u32(kind)).unwrap_or(0);
        let count = |kind| found(kind) + found(COMBINED);
        if count(TX) == 0 && count(RX) == 0 {
            // A driver that does not report them uses all queues.
            let link = self.link(id)?;
            return Ok(QueueUse { tx: link.tx_queues, rx: link.rx_queues });
        }
        Ok(QueueUse { tx: count(TX).max(1), rx: count(RX).max(1) })
    }

    /// Timestamping capabilities of a device.
    pub fn timestamping<'a>(&self, id: impl Into<LinkId<'a>>) -> Result<Timestamping, HostError> {
        const ABILITIES: u16 = 2;
        const TX_TYPES: u16 = 3;
        const RX_FILTERS: u16 = 4;
        const CLOCK_INDEX: u16 = 5;
        let rows = self.ethtool(TSINFO_GET, id.into(), "read the time stamping of", Vec::new())?;
        let words = |kind| {
            let found = rows.iter().find_map(|row| row.attributes().get(kind));
            found.map(words).unwrap_or_default().into_iter().collect()
        };
        Ok(Timestamping {
            abilities: words(ABILITIES),
            rx_filters: words(RX_FILTERS),
            tx_types: words(TX_TYPES),
            clock_index: rows.iter().find_map(|row| row.attributes().u32(CLOCK_INDEX)),
        })
    }

    /// Current timestamping settings. EOPNOTSUPP from kernels before 6.14 and from drivers that
    /// only support the ioctl.
    pub(crate) fn stamp_config(&self, id: LinkId<'_>) -> Result<StampConfig, HostError> {
        let rows = self.ethtool(TSCONFIG_GET, id, "read the time stamping of", Vec::new())?;
        self.read_stamp_config(&rows, id)
    }

    /// Sets the timestamping of a device; returns what was granted. Errors like
    /// [`Stack::stamp_config`], and ERANGE.
    pub(crate) fn set_stamp_config(
        &self,
        id: LinkId<'_>,
        config: StampConfig,
    ) -> Result<StampConfig, HostError> {
        let rows = self.ethtool(TSCONFIG_SET, id, "change the time stamping of", stamp_attributes(config))?;
        match self.read_stamp_config(&rows, id) {
            // A kernel that acknowledges without an answer applied the settings.
            Err(HostError::Unreadable { .. }) if rows.is_empty() => Ok(config),
            other => other,
        }
    }

    fn read_stamp_config(&self, rows: &[Generic], id: LinkId<'_>) -> Result<StampConfig, HostError> {
        let config = rows.iter().find_map(|row| stamp_config(row.attributes()));
        config.ok_or_else(|| HostError::Unreadable {
            act: "read the time stamping of",
            object: self.object(id),
            why: "neither a filter nor a transmit type is in it".to_owned(),
        })
    }

    fn driver_info(&self, id: LinkId<'_>) -> Result<Option<sys::DriverInfo>, HostError> {
        let name = self.name_of(id)?;
        let answer = sys::driver_info(self.socket(&self.route()), &name);
        match answer {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => {
                let refused = HostError::refused("read the driver of", self.object(id))(error);
                Err(self.clarify(refused, id))
            }
        }
    }

    /// The ioctl requires the primary name.
    fn name_of(&self, id: LinkId<'_>) -> Result<String, HostError> {
        Ok(self.link(id)?.name)
    }

    pub(crate) fn ethtool(
        &self,
        command: u8,
        id: LinkId<'_>,
        act: &'static str,
        mut more: Vec<Attribute>,
    ) -> Result<Vec<Generic>, HostError> {
        const HEADER: u16 = 1;
        const DEV_INDEX: u16 = 1;
        const DEV_NAME: u16 = 2;
        let device = match id {
            LinkId::Index(index) => Attribute::u32(DEV_INDEX, index),
            LinkId::Name(name) => Attribute::text(DEV_NAME, name),
        };
        more.insert(0, Attribute::Nest(HEADER, vec![device]));
        self.generic()
            .ask(FAMILY, command, &more, act, || self.object(id))
            .map_err(|error| self.clarify(error, id))
    }
}

/// An empty answer if the driver does not support the query.
pub(crate) fn optional(answer: Result<Vec<Generic>, HostError>) -> Result<Vec<Generic>, HostError> {
    match answer {
        Err(HostError::Refused { source: KernelError { errno: libc::EOPNOTSUPP, .. }, .. }) => Ok(Vec::new()),
        other => other,
    }
}

const BITS_NO_MASK: u16 = 1;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_INDEX: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// A set that changes one named bit.
fn bit(kind: u16, name: &str, on: bool) -> Attribute {
    let mut bit = vec![Attribute::text(BIT_NAME, name)];
    bit.extend(on.then(|| Attribute::flag(BIT_VALUE)));
    Attribute::Nest(kind, vec![Attribute::Nest(BITS, vec![Attribute::Nest(BIT, bit)])])
}

/// A set with only bit `number` on.
fn only_bit(kind: u16, number: u32) -> Attribute {
    let bit = Attribute::Nest(BIT, vec![Attribute::u32(BIT_INDEX, number)]);
    Attribute::Nest(kind, vec![Attribute::flag(BITS_NO_MASK), Attribute::Nest(BITS, vec![bit])])
}

/// Filter and transmit type of `config`; flags are not changed.
fn stamp_attributes(config: StampConfig) -> Vec<Attribute> {
    vec![only_bit(TSCONFIG_TX_TYPES, config.tx_type), only_bit(TSCONFIG_RX_FILTERS, config.rx_filter)]
}

/// The bit that is on in each set. A device that was never configured has none.
fn stamp_config(answer: Attributes<'_>) -> Option<StampConfig> {
    let on = |kind| answer.get(kind).map(|set| numbers(set).next().unwrap_or(0));
    let (tx_type, rx_filter) = (on(TSCONFIG_TX_TYPES), on(TSCONFIG_RX_FILTERS));
    if tx_type.is_none() && rx_filter.is_none() {
        return None;
    }
    let flags = answer.get(TSCONFIG_FLAGS).into_iter().flat_map(numbers).filter(|bit| *bit < 32);
    Some(StampConfig {
        tx_type: tx_type.unwrap_or(0),
        rx_filter: rx_filter.unwrap_or(0),
        flags: flags.fold(0, |flags, bit| flags | 1 << bit),
    })
}

/// Numbers of the bits that are on.
fn numbers(set: Attributes<'_>) -> impl Iterator<Item = u32> {
    set_bits(set).filter_map(|bit| bit.u32(BIT_INDEX))
}

/// Names of the bits that are on. With a mask, all bits of the mask are listed, on or off.
fn words(set: Attributes<'_>) -> BTreeSet<String> {
    set_bits(set).filter_map(|bit| bit.text(BIT_NAME)).collect()
}

/// The bits that are on, in the order of the kernel.
fn set_bits(set: Attributes<'_>) -> impl Iterator<Item = Attributes<'_>> {
    let all_listed_are_set = set.has(BITS_NO_MASK);
    let bits = set.get(BITS).into_iter().flat_map(Attributes::all).filter(|(kind, _)| *kind == BIT);
    bits.map(|(_, bit)| bit).filter(move |bit| all_listed_are_set || bit.has(BIT_VALUE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;

    fn emitted(attribute: &Attribute) -> Vec<u8> {
        let mut bytes = vec![0; attribute.buffer_len()];
        attribute.emit(&mut bytes);
        bytes
    }

    #[test]
    fn a_masked_set_lists_bits_that_are_off() {
        let bits = |name: &str, on| {
            let Attribute::Nest(_, inner) = bit(4, name, on) else { unreachable!("bit is a nest") };
            let Attribute::Nest(_, mut bits) = inner[0].clone() else { unreachable!("bits is a nest") };
            bits.remove(0)
        };
        let both = vec![bits("rx-gro", true), bits("tx-gso-list", false)];
        let masked = emitted(&Attribute::Nest(4, vec![Attribute::Nest(BITS, both.clone())]));
        assert_eq!(Vec::from_iter(words(Attributes(&masked).get(4).unwrap())), ["rx-gro"]);
        let plain = vec![Attribute::flag(BITS_NO_MASK), Attribute::Nest(BITS, both)];
        let plain = emitted(&Attribute::Nest(4, plain));
        assert_eq!(words(Attributes(&plain).get(4).unwrap()).len(), 2);
    }

    /// The attributes that `ethtool --set-hwtimestamp-cfg DEV tx on rx-filter ptpv2-event` sends on
    /// 6.14.
    #[test]
    fn a_wish_for_stamps_is_these_bytes() {
        let attributes = stamp_attributes(StampConfig { tx_type: 1, rx_filter: 12, flags: 0 });
        let bytes: Vec<u8> = attributes.iter().flat_map(emitted).collect();
        #[rustfmt::skip]
        let expected = [
            24, 0, 3, 0x80,             // ETHTOOL_A_TSCONFIG_TX_TYPES, nested
                4, 0, 1, 0,             // ETHTOOL_A_BITSET_NOMASK
                16, 0, 3, 0x80,         // ETHTOOL_A_BITSET_BITS, nested
                    12, 0, 1, 0x80,     // ETHTOOL_A_BITSET_BITS_BIT, nested
                        8, 0, 1, 0, 1, 0, 0, 0, // ETHTOOL_A_BITSET_BIT_INDEX: HWTSTAMP_TX_ON
            24, 0, 4, 0x80,             // ETHTOOL_A_TSCONFIG_RX_FILTERS, nested
                4, 0, 1, 0,
                16, 0, 3, 0x80,
                    12, 0, 1, 0x80,
                        8, 0, 1, 0, 12, 0, 0, 0, // HWTSTAMP_FILTER_PTP_V2_EVENT
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn an_answer_about_stamps_is_read_bit_by_bit() {
        let set = |kind, number, name| {
            let bit = vec![Attribute::u32(BIT_INDEX, number), Attribute::text(BIT_NAME, name)];
            let bits = Attribute::Nest(BITS, vec![Attribute::Nest(BIT, bit)]);
            Attribute::Nest(kind, vec![Attribute::flag(BITS_NO_MASK), Attribute::u32(2, 16), bits])
        };
        let answer = [
            set(TSCONFIG_TX_TYPES, 1, "on"),
            set(TSCONFIG_RX_FILTERS, 12, "ptpv2-event"),
            set(TSCONFIG_FLAGS, 0, "bonded-phc-index"),
        ];
        let bytes: Vec<u8> = answer.iter().flat_map(emitted).collect();
        let config = StampConfig { tx_type: 1, rx_filter: 12, flags: 1 };
        assert_eq!(stamp_config(Attributes(&bytes)), Some(config));
        assert_eq!(stamp_config(Attributes(&[])), None);
        let empty = Attribute::Nest(TSCONFIG_RX_FILTERS, vec![Attribute::flag(BITS_NO_MASK)]);
        assert_eq!(stamp_config(Attributes(&emitted(&empty))), Some(StampConfig::default()));
    }

    #[test]
    fn what_is_wished_is_what_is_read() {
        for (tx_type, rx_filter) in (0..4).flat_map(|tx| (0..16).map(move |rx| (tx, rx))) {
            let config = StampConfig { tx_type, rx_filter, flags: 0 };
            let bytes: Vec<u8> = stamp_attributes(config).iter().flat_map(emitted).collect();
            assert_eq!(stamp_config(Attributes(&bytes)), Some(config));
        }
    }

    #[test]
    fn a_driver_is_named_with_what_is_known_of_it() {
        let text = |name: &str, bus_info: &str, firmware: &str| {
            let [name, bus_info, firmware] = [name, bus_info, firmware].map(str::to_owned);
            Driver { name, bus_info, firmware, version: "6.18".to_owned() }.to_string()
        };
        assert_eq!(text("igb", "0000:00:03.0", "3.25"), "igb at 0000:00:03.0, firmware 3.25");
        assert_eq!(text("veth", "", ""), "veth");
        assert_eq!(text("tun", "", "N/A"), "tun");
    }

    #[test]
    fn stamps_need_both_the_clock_and_the_receiver() {
        let able = |words: &[&str]| Timestamping {
            abilities: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Timestamping::default()
        };
        assert!(able(&["hardware-receive", "hardware-raw-clock"]).is_hardware_receive());
        assert!(!able(&["hardware-receive", "software-receive"]).is_hardware_receive());
    }
}
