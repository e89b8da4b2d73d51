//! Keyed addresses in place of those of a file.
//!
//! IP addresses are encrypted by the prefix-preserving mode of ipcrypt (ipcrypt-pfx,
//! draft-denis-ipcrypt): two addresses with k leading bits in common have k in common afterwards.
//! Some addresses stay: unspecified, loopback, multicast and broadcast. The bits on the way to them
//! are not flipped, so the map stays one to one and prefix-preserving.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use sha2::{Digest, Sha256};
use std::fmt;

/// Addresses whose result is kept, by the low bits of a hash.
const CACHE_LEN: usize = 1 << 12;

/// A key of 32 bytes, which are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AnonymizeKey([u8; 32]);

impl AnonymizeKey {
    /// The key that a text of any length stands for.
    pub fn of_text(text: &[u8]) -> Self {
        Self(Sha256::digest([b"wirerate anonymize\0", text].concat()).into())
    }
}

impl fmt::Debug for AnonymizeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnonymizeKey(..)")
    }
}

/// A range of addresses that stay: the bits of its prefix, left-aligned, and their number.
type KeptRange = (u128, u32);

const KEPT_V4: [KeptRange; 4] = [(0, 32), (127 << 120, 8), (0xe0 << 120, 4), (0xffff_ffff << 96, 32)];
const KEPT_V6: [KeptRange; 3] = [(0, 128), (1, 128), (0xff << 120, 8)];

/// Encrypts addresses by a key.
pub(crate) struct Anonymizer {
    ciphers: [Aes128; 2],
    mac_cipher: Aes128,
    v4: Vec<Option<([u8; 4], [u8; 4])>>,
    v6: Vec<Option<([u8; 16], [u8; 16])>>,
}

impl fmt::Debug for Anonymizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Anonymizer")
    }
}

impl Anonymizer {
    pub(crate) fn new(key: &AnonymizeKey) -> Self {
        let cipher = |bytes: &[u8]| Aes128::new_from_slice(bytes).expect("a key has 16 bytes");
        let mac_key = Sha256::digest([&b"MAC addresses\0"[..], &key.0].concat());
        Self {
            ciphers: [cipher(&key.0[..16]), cipher(&key.0[16..])],
            mac_cipher: cipher(&mac_key[..16]),
            v4: vec![None; CACHE_LEN],
            v6: vec![None; CACHE_LEN],
        }
    }

    /// Encrypts an IPv4 address.
    pub(crate) fn v4(&mut self, address: [u8; 4]) -> [u8; 4] {
        let slot = slot(u64::from(u32::from_be_bytes(address)));
        if let Some((known, encrypted)) = self.v4[slot]
            && known == address
        {
            return encrypted;
        }
        let bits = u128::from(u32::from_be_bytes(address));
        let mapped = 0xffff << 32 | bits;
        let encrypted = self.encrypt(mapped, 96, first_flip(bits << 96, &KEPT_V4)) as u32;
        self.v4[slot] = Some((address, encrypted.to_be_bytes()));
        encrypted.to_be_bytes()
    }

    /// Encrypts an IPv6 address.
    pub(crate) fn v6(&mut self, address: [u8; 16]) -> [u8; 16] {
        let bits = u128::from_be_bytes(address);
        let slot = slot((bits >> 64) as u64 ^ (bits as u64).rotate_left(23));
        if let Some((known, encrypted)) = self.v6[slot]
            && known == address
        {
            return encrypted;
        }
        let encrypted = self.encrypt(bits, 0, first_flip(bits, &KEPT_V6)).to_be_bytes();
        self.v6[slot] = Some((address, encrypted));
        encrypted
    }

    /// Another unicast address with the local bit; group addresses and zero stay.
    pub(crate) fn mac(&self, mac: [u8; 6]) -> [u8; 6] {
        if mac[0] & 1 == 1 || mac == [0; 6] {
            return mac;
        }
        let mut block = [0; 16];
        block[..6].copy_from_slice(&mac);
        let mut block = block.into();
        self.mac_cipher.encrypt_block(&mut block);
        let mut encrypted: [u8; 6] = *block.first_chunk().expect("a block has 16 bytes");
        encrypted[0] = encrypted[0] & 0xfc | 0x02;
        encrypted
    }

    /// Flips the bits of `bits` behind the first `start` ones, from bit `first_flip` of these on,
    /// each by a function of the key and the bits before it.
    fn encrypt(&self, bits: u128, start: u32, first_flip: Option<u32>) -> u128 {
        let Some(first_flip) = first_flip else { return bits };
        let mut encrypted = bits;
        for len in start + first_flip..128 {
            // The bits before this one, behind a one.
            let prefix = if len == 0 { 0 } else { bits >> (128 - len) };
            let padded = prefix | 1 << len;
            let [first, second] = [0, 1].map(|place: usize| {
                let mut block = padded.to_be_bytes().into();
                self.ciphers[place].encrypt_block(&mut block);
                block[15]
            });
            encrypted ^= u128::from((first ^ second) & 1) << (127 - len);
        }
        encrypted
    }
}

/// The first bit of a left-aligned address that may be flipped: behind all bits that are on the way
/// to a range that stays. Nothing for an address of such a range.
fn first_flip(bits: u128, kept: &[KeptRange]) -> Option<u32> {
    kept.iter().try_fold(0, |first, (range, len)| {
        let common = (bits ^ range).leading_zeros();
        (common < *len).then_some(first.max(common + 1))
    })
}

fn slot(hash: u64) -> usize {
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % CACHE_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn anonymizer() -> Anonymizer {
        Anonymizer::new(&AnonymizeKey::of_text(b"a key"))
    }

    /// The test vectors of the draft, where no bit is held back.
    #[test]
    fn addresses_are_encrypted_as_in_the_draft() {
        let key = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128.to_be_bytes();
        let other = 0x1032_5476_98ba_dcfe_efcd_ab89_6745_2301_u128.to_be_bytes();
        let anonymizer = Anonymizer::new(&AnonymizeKey([key, other].concat().try_into().unwrap()));
        let v4 = |text: &str| {
            let bits = 0xffff << 32 | u128::from(u32::from(text.parse::<Ipv4Addr>().unwrap()));
            Ipv4Addr::from(anonymizer.encrypt(bits, 96, Some(0)) as u32).to_string()
        };
        assert_eq!(v4("0.0.0.0"), "151.82.155.134");
        assert_eq!(v4("255.255.255.255"), "94.185.169.89");
        assert_eq!(v4("192.0.2.1"), "100.115.72.131");
        let v6 = u128::from("2001:db8::1".parse::<Ipv6Addr>().unwrap());
        let encrypted = Ipv6Addr::from(anonymizer.encrypt(v6, 0, Some(0))).to_string();
        assert_eq!(encrypted, "c180:5dd4:2587:3524:30ab:fa65:6ab6:f88");
    }

    #[test]
    fn some_addresses_stay() {
        let mut anonymizer = anonymizer();
        for kept in [[0, 0, 0, 0], [127, 9, 0, 1], [224, 0, 0, 5], [239, 255, 1, 2], [255; 4]] {
            assert_eq!(anonymizer.v4(kept), kept);
        }
        for kept in ["::", "::1", "ff02::1:ff00:1"] {
            let kept = kept.parse::<Ipv6Addr>().unwrap().octets();
            assert_eq!(anonymizer.v6(kept), kept);
        }
        assert_eq!(anonymizer.mac([0xff; 6]), [0xff; 6]);
        assert_eq!(anonymizer.mac([0x33, 0x33, 0, 0, 0, 1]), [0x33, 0x33, 0, 0, 0, 1]);
        let mac = anonymizer.mac([0, 0x1b, 0x21, 1, 2, 3]);
        assert_eq!((mac[0] & 3, mac), (2, anonymizer.mac([0, 0x1b, 0x21, 1, 2, 3])));
        assert_eq!(mac, Anonymizer::new(&AnonymizeKey::of_text(b"a key")).mac([0, 0x1b, 0x21, 1, 2, 3]));
    }

    proptest! {
        #[test]
        fn common_prefixes_stay_as_long_as_they_were(a: u32, b: u32, shared in 0u32..32) {
            let b = (a ^ 1 << (31 - shared)) ^ (b & ((1u64 << (31 - shared)) - 1) as u32);
            let mut anonymizer = anonymizer();
            let [c, d] = [a, b].map(|address| u32::from_be_bytes(anonymizer.v4(address.to_be_bytes())));
            prop_assert_eq!((a ^ b).leading_zeros(), (c ^ d).leading_zeros());
            let [a, b] = [a, b].map(|half| u128::from(half) << 90 | 0x1234);
            let [c, d] = [a, b].map(|address| u128::from_be_bytes(anonymizer.v6(address.to_be_bytes())));
            prop_assert_eq!((a ^ b).leading_zeros(), (c ^ d).leading_zeros());
        }
    }
}
