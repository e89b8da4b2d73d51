//! IP prefixes, and the map of addresses of one prefix to those of another.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A block of addresses: `10.0.0.0/8`, `fd00::/64`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address as 16 bytes; IPv4 in the first four.
    bytes: [u8; 16],
    is_v6: bool,
    len: u8,
}

/// Text that is not a map of addresses, or not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}")]
pub struct BadAddressMap {
    text: String,
    expected: &'static str,
}

impl Prefix {
    fn address_len(&self) -> usize {
        if self.is_v6 { 16 } else { 4 }
    }

    /// True if the address `bytes` (4 or 16, in network order) is in the block.
    pub(crate) fn contains_bytes(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.address_len()
            && bytes.iter().enumerate().all(|(at, byte)| (byte ^ self.bytes[at]) & self.mask(at) == 0)
    }

    /// True if the address is in the block.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.contains_bytes(&v4.octets()),
            IpAddr::V6(v6) => self.contains_bytes(&v6.octets()),
        }
    }

    /// The address as a number, IPv4 in the upper 32 bits.
    fn bits(&self) -> u128 {
        u128::from_be_bytes(self.bytes)
    }

    /// Bits of that number that belong to the prefix.
    fn mask_bits(&self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.len)).unwrap_or(0)
    }

    /// Bits of byte `at` that belong to the prefix.
    fn mask(&self, at: usize) -> u8 {
        match usize::from(self.len).saturating_sub(at * 8) {
            0 => 0,
            bits @ 1..8 => !(0xff >> bits),
            _ => 0xff,
        }
    }
}

impl FromStr for Prefix {
    type Err = BadAddressMap;

    fn from_str(text: &str) -> Result<Self, BadAddressMap> {
        let expected = "an IP prefix, such as 10.0.0.0/8 or fd00::/64";
        let bad = || BadAddressMap { text: text.to_owned(), expected };
        let (address, len) = text.split_once('/').map_or((text, None), |(head, len)| (head, Some(len)));
        let mut bytes = [0; 16];
        let is_v6 = match address.parse().map_err(|_| bad())? {
            IpAddr::V4(v4) => {
                bytes[..4].copy_from_slice(&v4.octets());
                false
            }
            IpAddr::V6(v6) => {
                bytes = v6.octets();
                true
            }
        };
        let len_max = if is_v6 { 128 } else { 32 };
        let len = len.map_or(Ok(len_max), |len| len.parse().map_err(|_| bad()))?;
        if text.contains('+') || len > len_max { Err(bad()) } else { Ok(Self { bytes, is_v6, len }) }
    }
}

/// Addresses of `from` become those of `to`: the bits of `to`'s prefix are replaced, the others
/// stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMap {
    from: Prefix,
    to: Prefix,
    /// `from` as a number with the address to the left, and the bits of its prefix.
    from_bits: u128,
    from_mask: u128,
    /// `to` as a number with the address to the left, and the bits of its prefix. `from_bits` and
    /// `to_bits` are 0 outside their prefix.
    to_bits: u128,
    to_mask: u128,
}

impl AddressMap {
    /// Changes the address `bytes` if it is in `from`; false if it is not.
    #[inline]
    pub(crate) fn apply(&self, bytes: &mut [u8]) -> bool {
        // The width of the number is that of the address, so that IPv4 needs no arithmetic of
        // 128 bits.
        if self.from.is_v6 {
            let Ok(bytes) = <&mut [u8; 16]>::try_from(bytes) else { return false };
            let mapped = self.mapped(u128::from_be_bytes(*bytes));
            *bytes = mapped.map_or(*bytes, u128::to_be_bytes);
            mapped.is_some()
        } else {
            let Ok(bytes) = <&mut [u8; 4]>::try_from(bytes) else { return false };
            let mapped = self.mapped(u128::from(u32::from_be_bytes(*bytes)) << 96);
            *bytes = mapped.map_or(*bytes, |mapped| ((mapped >> 96) as u32).to_be_bytes());
            mapped.is_some()
        }
    }

    /// What an address becomes as a number, if it is in `from`.
    #[inline]
    fn mapped(&self, address: u128) -> Option<u128> {
        (address & self.from_mask == self.from_bits).then_some(address & !self.to_mask | self.to_bits)
    }
}

impl FromStr for AddressMap {
    type Err = BadAddressMap;

    fn from_str(text: &str) -> Result<Self, BadAddressMap> {
        let expected = "two prefixes of one IP version, such as 10.0.0.0/8=198.18.0.0/16";
        let bad = || BadAddressMap { text: text.to_owned(), expected };
        let (from, to) = text.split_once('=').ok_or_else(bad)?;
        let (from, to): (Prefix, Prefix) = (from.parse()?, to.parse()?);
        if from.is_v6 != to.is_v6 {
            return Err(bad());
        }
        let ([from_mask, to_mask], [from_bits, to_bits]) =
            ([from, to].map(|prefix| prefix.mask_bits()), [from, to].map(|prefix| prefix.bits()));
        Ok(Self {
            from,
            to,
            from_bits: from_bits & from_mask,
            from_mask,
            to_bits: to_bits & to_mask,
            to_mask,
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.bytes;
        match self.is_v6 {
            true => write!(f, "{}/{}", std::net::Ipv6Addr::from(self.bytes), self.len),
            false => write!(f, "{a}.{b}.{c}.{d}/{}", self.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(map: &str, address: [u8; 4]) -> Option<[u8; 4]> {
        let mut bytes = address;
        map.parse::<AddressMap>().unwrap().apply(&mut bytes).then_some(bytes)
    }

    #[test]
    fn a_map_replaces_the_prefix_and_keeps_the_rest() {
        assert_eq!(mapped("10.0.0.0/8=198.18.0.0/16", [10, 1, 2, 3]), Some([198, 18, 2, 3]));
        assert_eq!(mapped("10.0.0.0/8=198.18.0.0/16", [11, 1, 2, 3]), None);
        assert_eq!(mapped("0.0.0.0/0=192.0.2.128/25", [11, 1, 2, 0x83]), Some([192, 0, 2, 0x83]));
        assert_eq!(mapped("10.0.0.1=10.0.0.9", [10, 0, 0, 1]), Some([10, 0, 0, 9]));
    }

    #[test]
    fn text_without_meaning_is_refused() {
        for bad in ["10.0.0.0/8", "10.0.0.0/33=1.1.1.1", "10.0.0.0/8=fd00::/8", "x=y", "1.1.1.1=2.2.2.2/-1"] {
            assert!(bad.parse::<AddressMap>().is_err(), "{bad}");
        }
        let why = "10.0.0.0/99".parse::<Prefix>().unwrap_err().to_string();
        assert_eq!(why, "\"10.0.0.0/99\" is not an IP prefix, such as 10.0.0.0/8 or fd00::/64");
        assert!("fd00::/64".parse::<Prefix>().unwrap().contains("fd00::1:0:0:1".parse().unwrap()));
        assert_eq!("10.1.0.0/16".parse::<Prefix>().unwrap().to_string(), "10.1.0.0/16");
    }
}
