//! Ethernet addresses: six bytes, their text, and counting on from one.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address in transmission order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All zero: "not set" in pktgen's terms.
    pub const ZERO: Self = Self([0; 6]);

    /// True for 00:00:00:00:00:00.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// True when the group bit is set (multicast and broadcast).
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The address `offset` further on. Bytes 1 to 5 carry, byte 0 never changes (as pktgen
    /// counts).
    pub fn offset(self, offset: u32) -> Self {
        let [first, rest @ ..] = self.0;
        let low = rest.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let moved = low.wrapping_add(u64::from(offset)).to_be_bytes();
        Self([first, moved[3], moved[4], moved[5], moved[6], moved[7]])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is not six groups of two hex digits with colons.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a MAC address (six pairs of hex digits, such as 02:00:00:00:00:01)")]
pub struct BadMac(pub String);

impl FromStr for MacAddr {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<Self, BadMac> {
        let bad = || BadMac(text.to_owned());
        let mut bytes = [0; 6];
        let mut groups = text.split(':');
        for byte in &mut bytes {
            let group = groups.next().filter(|g| g.len() == 2 && g.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(group.ok_or_else(bad)?, 16).map_err(|_| bad())?;
        }
        if groups.next().is_some() { Err(bad()) } else { Ok(Self(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_carries_into_byte_1_and_leaves_byte_0() {
        let base = MacAddr([0x02, 0xff, 0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(base.offset(1), MacAddr([0x02, 0xff, 0xff, 0xff, 0xff, 0xff]));
        assert_eq!(base.offset(2), MacAddr([0x02, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn text_round_trips_and_bad_text_is_refused() {
        let mac: MacAddr = "02:00:5E:00:53:af".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:5e:00:53:af");
        for bad in [
            "",
            "02:00:5e:00:53",
            "02:00:5e:00:53:af:01",
            "2:0:5e:0:53:af",
            "02-00-5e-00-53-af",
            "02:00:5e:00:53:+f",
        ] {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
    }
}
