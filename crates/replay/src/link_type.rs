//! Link types of files, and how each becomes a frame of the device.

use packet::MacAddr;
use packet::headers::{FirstHeader, ip_packet_at};

const ETHERNET_LEN: usize = 14;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Protocol values of SLL below this are not EtherTypes.
const ETHERTYPE_MIN: u16 = 0x0600;
/// 802.2 frames and Novell's raw 802.3 frames in SLL: a length takes the place of the EtherType.
const SLL_802_3: u16 = 1;
const SLL_802_2: u16 = 4;
/// Length of the radiotap header without fields, little-endian.
const RADIOTAP_EMPTY: [u8; 8] = [0, 0, 8, 0, 0, 0, 0, 0];

/// What a device sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetKind {
    /// Ethernet frames.
    #[default]
    Ethernet,
    /// 802.11 frames behind a radiotap header: a monitor device.
    Monitor,
    /// IP packets without a link header: tun, WireGuard.
    Ip,
    /// No device but a file, which has frames as they were, or as Ethernet frames with a
    /// destination MAC address.
    File,
}

impl TargetKind {
    /// What it sends, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Ethernet => "an Ethernet device",
            Self::Monitor => "a monitor device",
            Self::Ip => "a device without link headers",
            Self::File => "an Ethernet",
        }
    }
}

/// Link types of the registry of pcap that have a form on some device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Ethernet frames.
    Ethernet,
    /// IP packets; the version of each is in its first byte.
    RawIp,
    /// A 4-byte address family in either byte order.
    Null,
    /// Linux "cooked" capture.
    Sll,
    /// Linux "cooked" capture, version 2.
    Sll2,
    /// 802.11 behind radiotap.
    Radiotap,
    /// 802.11.
    Ieee80211,
}

/// LINKTYPE_ number of Ethernet.
pub(crate) const LINK_TYPE_ETHERNET: u16 = 1;

/// Registered numbers and names; several numbers may mean one type.
const NAMES: [(u16, &str, Option<LinkType>); 19] = [
    (0, "NULL", Some(LinkType::Null)),
    (1, "ETHERNET", Some(LinkType::Ethernet)),
    (6, "IEEE802_5", None),
    (9, "PPP", None),
    (12, "RAW", Some(LinkType::RawIp)),
    (14, "RAW", Some(LinkType::RawIp)),
    (50, "PPP_HDLC", None),
    (101, "RAW", Some(LinkType::RawIp)),
    (104, "C_HDLC", None),
    (105, "IEEE802_11", Some(LinkType::Ieee80211)),
    (108, "LOOP", Some(LinkType::Null)),
    (113, "LINUX_SLL", Some(LinkType::Sll)),
    (127, "IEEE802_11_RADIOTAP", Some(LinkType::Radiotap)),
    (189, "USB_LINUX", None),
    (220, "USB_LINUX_MMAPPED", None),
    (227, "CAN_SOCKETCAN", None),
    (228, "IPV4", Some(LinkType::RawIp)),
    (229, "IPV6", Some(LinkType::RawIp)),
    (276, "LINUX_SLL2", Some(LinkType::Sll2)),
];

/// A record without a form on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableLink {
    /// Its link type has none.
    NoForm,
    /// Its bytes are too few, or not what the link type requires.
    Damaged,
}

/// Header to replace the first `strip` bytes of a record by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reheader {
    pub(crate) strip: usize,
    header: [u8; ETHERNET_LEN],
    header_len: usize,
}

impl Reheader {
    pub(crate) const NONE: Self = Self { strip: 0, header: [0; ETHERNET_LEN], header_len: 0 };

    pub(crate) fn header(&self) -> &[u8] {
        &self.header[..self.header_len]
    }

    fn ethernet(strip: usize, dst: MacAddr, src: MacAddr, ether_type: u16) -> Self {
        let mut header = [0; ETHERNET_LEN];
        header[..6].copy_from_slice(&dst.0);
        header[6..12].copy_from_slice(&src.0);
        header[12..].copy_from_slice(&ether_type.to_be_bytes());
        Self { strip, header, header_len: ETHERNET_LEN }
    }
}

impl LinkType {
    /// The type with this number, if it has a form on some device.
    pub fn of(number: u16) -> Option<Self> {
        NAMES.iter().find(|(known, ..)| *known == number).and_then(|(.., link_type)| *link_type)
    }

    /// True for types without an Ethernet header that can get one.
    pub fn can_be_ethernet(self) -> bool {
        matches!(self, Self::RawIp | Self::Null | Self::Sll | Self::Sll2)
    }

    /// Number and name, for messages.
    pub fn name(number: u16) -> String {
        let known = NAMES.iter().find(|(known, ..)| *known == number);
        known.map_or_else(|| number.to_string(), |(_, name, _)| format!("{number} ({name})"))
    }

    /// How a record becomes a frame of `target`, with these addresses where it has none. Without a
    /// destination a record that needs one has no form.
    pub(crate) fn reheader(
        self,
        data: &[u8],
        frame_len: u32,
        target: TargetKind,
        (dst, src): (Option<MacAddr>, MacAddr),
    ) -> Result<Reheader, UnusableLink> {
        let air = matches!(self, Self::Radiotap | Self::Ieee80211);
        if air != (target == TargetKind::Monitor) {
            return Err(UnusableLink::NoForm);
        }
        if self == Self::Radiotap {
            return if data.len() < 8 { Err(UnusableLink::Damaged) } else { Ok(Reheader::NONE) };
        }
        if self == Self::Ieee80211 {
            let mut reheader = Reheader { header_len: RADIOTAP_EMPTY.len(), ..Reheader::NONE };
            reheader.header[..RADIOTAP_EMPTY.len()].copy_from_slice(&RADIOTAP_EMPTY);
            return Ok(reheader);
        }
        if self == Self::Ethernet && target == TargetKind::Ethernet {
            return if data.len() < ETHERNET_LEN { Err(UnusableLink::Damaged) } else { Ok(Reheader::NONE) };
        }
        if target == TargetKind::Ip {
            return self.ip_at(data).map(|strip| Reheader { strip, ..Reheader::NONE });
        }
        let (strip, protocol) = self.network(data)?;
        let ether_type = match protocol {
            SLL_802_2 | SLL_802_3 => u16::try_from((frame_len as usize).saturating_sub(strip))
                .ok()
                .filter(|len| *len < ETHERTYPE_MIN)
                .ok_or(UnusableLink::Damaged)?,
            below if below < ETHERTYPE_MIN => return Err(UnusableLink::NoForm),
            ether_type => ether_type,
        };
        let dst = dst.ok_or(UnusableLink::NoForm)?;
        Ok(Reheader::ethernet(strip, dst, src, ether_type))
    }

    /// Where the IP packet begins, behind link headers, tags and labels.
    fn ip_at(self, data: &[u8]) -> Result<usize, UnusableLink> {
        let first = match self {
            Self::Ethernet => FirstHeader::Ethernet,
            Self::RawIp => FirstHeader::Ip,
            Self::Null => FirstHeader::Null,
            Self::Sll => FirstHeader::Sll,
            Self::Sll2 => FirstHeader::Sll2,
            Self::Radiotap | Self::Ieee80211 => return Err(UnusableLink::NoForm),
        };
        match ip_packet_at(data, first) {
            Some(at) => Ok(at),
            None if data.len() < ETHERNET_LEN && self == Self::Ethernet => Err(UnusableLink::Damaged),
            None => Err(UnusableLink::NoForm),
        }
    }

    /// Where the network header begins, and its protocol as an EtherType.
    fn network(self, data: &[u8]) -> Result<(usize, u16), UnusableLink> {
        let word = |at: usize| -> Result<u16, UnusableLink> {
            let bytes = data.get(at..at + 2).ok_or(UnusableLink::Damaged)?;
            Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let behind = |len: usize, protocol| match data.len() < len {
            true => Err(UnusableLink::Damaged),
            false => Ok((len, protocol)),
        };
        match self {
            Self::Ethernet => behind(ETHERNET_LEN, word(12)?),
            Self::RawIp => match data.first().map(|byte| byte >> 4) {
                Some(4) => Ok((0, ETHERTYPE_IPV4)),
                Some(6) => Ok((0, ETHERTYPE_IPV6)),
                _ => Err(UnusableLink::Damaged),
            },
            Self::Null => {
                let family = data.first_chunk::<4>().ok_or(UnusableLink::Damaged)?;
                // The byte order is that of the capturing machine; a family is below 256.
                match u32::from_le_bytes(*family).min(u32::from_be_bytes(*family)) {
                    2 => Ok((4, ETHERTYPE_IPV4)),
                    // Linux, then NetBSD, FreeBSD and macOS.
                    10 | 24 | 28 | 30 => Ok((4, ETHERTYPE_IPV6)),
                    _ => Err(UnusableLink::NoForm),
                }
            }
            Self::Sll => behind(16, word(14)?),
            Self::Sll2 => behind(20, word(0)?),
            Self::Radiotap | Self::Ieee80211 => Err(UnusableLink::NoForm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn reheader(number: u16, data: &[u8], target: TargetKind) -> Result<(usize, Vec<u8>), UnusableLink> {
        let link_type = LinkType::of(number).ok_or(UnusableLink::NoForm)?;
        let made = link_type.reheader(data, data.len() as u32, target, (Some(DST), SRC))?;
        Ok((made.strip, made.header().to_vec()))
    }

    fn ethernet(ether_type: [u8; 2]) -> Vec<u8> {
        [&DST.0[..], &SRC.0[..], &ether_type[..]].concat()
    }

    #[test]
    fn raw_ip_gets_a_header_by_its_version() {
        for number in [12, 14, 101, 228, 229] {
            assert_eq!(reheader(number, &[0x45; 20], TargetKind::Ethernet), Ok((0, ethernet([8, 0]))));
        }
        assert_eq!(reheader(101, &[0x60; 40], TargetKind::Ethernet), Ok((0, ethernet([0x86, 0xdd]))));
        assert_eq!(reheader(101, &[0x15; 40], TargetKind::Ethernet), Err(UnusableLink::Damaged));
        assert_eq!(reheader(101, &[], TargetKind::Ethernet), Err(UnusableLink::Damaged));
    }

    #[test]
    fn null_is_read_in_both_byte_orders() {
        for family in [[2, 0, 0, 0], [0, 0, 0, 2]] {
            assert_eq!(reheader(0, &family, TargetKind::Ethernet), Ok((4, ethernet([8, 0]))));
            assert_eq!(reheader(108, &family, TargetKind::Ethernet), Ok((4, ethernet([8, 0]))));
        }
        assert_eq!(reheader(0, &[30, 0, 0, 0, 0x60], TargetKind::Ethernet), Ok((4, ethernet([0x86, 0xdd]))));
        assert_eq!(reheader(0, &[7, 0, 0, 0], TargetKind::Ethernet), Err(UnusableLink::NoForm));
        assert_eq!(reheader(0, &[2, 0, 0], TargetKind::Ethernet), Err(UnusableLink::Damaged));
    }

    #[test]
    fn cooked_headers_become_ethernet_headers() {
        let mut sll = [0; 16];
        sll[14..].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(reheader(113, &sll, TargetKind::Ethernet), Ok((16, ethernet([8, 6]))));
        let mut sll2 = [0; 20];
        sll2[..2].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(reheader(276, &sll2, TargetKind::Ethernet), Ok((20, ethernet([0x86, 0xdd]))));
        assert_eq!(reheader(276, &sll2[..19], TargetKind::Ethernet), Err(UnusableLink::Damaged));
        // 802.2 (spanning tree) gets its length, CAN has no form.
        let mut llc = [0; 54];
        llc[15] = 4;
        assert_eq!(reheader(113, &llc, TargetKind::Ethernet), Ok((16, ethernet([0, 38]))));
        llc[15] = 0x0c;
        assert_eq!(reheader(113, &llc, TargetKind::Ethernet), Err(UnusableLink::NoForm));
    }

    #[test]
    fn radiotap_is_for_monitor_devices_only() {
        assert_eq!(reheader(127, &[0; 30], TargetKind::Ethernet), Err(UnusableLink::NoForm));
        assert_eq!(reheader(127, &[0; 30], TargetKind::Monitor), Ok((0, vec![])));
        assert_eq!(reheader(105, &[0; 30], TargetKind::Monitor), Ok((0, RADIOTAP_EMPTY.to_vec())));
        assert_eq!(reheader(1, &[0; 30], TargetKind::Monitor), Err(UnusableLink::NoForm));
    }

    #[test]
    fn a_device_without_link_headers_gets_ip_only() {
        assert_eq!(
            reheader(1, &[ethernet([8, 0]), vec![0x45; 20]].concat(), TargetKind::Ip),
            Ok((14, vec![]))
        );
        assert_eq!(
            reheader(1, &[ethernet([8, 6]), vec![0; 28]].concat(), TargetKind::Ip),
            Err(UnusableLink::NoForm)
        );
        assert_eq!(reheader(101, &[0x45; 20], TargetKind::Ip), Ok((0, vec![])));
    }

    #[test]
    fn tags_labels_and_sessions_are_removed_with_the_ethernet_header() {
        let heads: [&[u8]; 3] = [
            &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0],
            &[0x88, 0x47, 0, 0, 0x50, 64, 0, 0, 0x51, 64],
            &[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21],
        ];
        for head in heads {
            let frame = [&[2; 12], head, &[0x45, 0, 0, 20], &[0; 16]].concat();
            assert_eq!(reheader(1, &frame, TargetKind::Ip), Ok((12 + head.len(), vec![])), "{head:02x?}");
        }
    }

    #[test]
    fn refused_types_have_number_and_name() {
        assert_eq!(LinkType::name(9), "9 (PPP)");
        assert_eq!(LinkType::name(250), "250");
        assert_eq!(LinkType::of(9), None);
    }
}
