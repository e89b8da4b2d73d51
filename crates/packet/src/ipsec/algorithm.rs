//! The ciphers and checks of IPsec, keyed and ready: AES-GCM (RFC 4106), AES-CBC (RFC 3602), the
//! null cipher (RFC 2410), HMAC-SHA1 (RFC 2404) and HMAC-SHA256 (RFC 4868).
//!
//! Works on parts of packets; `protect` knows where they are.

use super::BadAssociation;
use aes_gcm::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use aes_gcm::aes::cipher::{BlockModeEncrypt, InnerIvInit};
use aes_gcm::{AesGcm, aes::cipher::consts::U12};
use hmac::Hmac;
use sha1::Sha1;
use sha2::Sha256;
use std::fmt;

/// Length of an AES block and of its random IV, in bytes.
pub(super) const AES_BLOCK_LEN: usize = 16;
/// Length of the IV that AES-GCM carries in each packet, in bytes.
const GCM_IV_LEN: usize = 8;
/// Alignment of ESP unless the cipher needs more (RFC 4303, 2.4).
const ESP_ALIGN: usize = 4;

/// A key: compares and clones like its bytes, and never prints them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// A hash function under HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// 20 bytes, of which 12 are usual.
    Sha1,
    /// 32 bytes, of which 16 are usual.
    Sha256,
}

/// The integrity check of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// The hash.
    pub hash: Hash,
    /// Its key.
    pub key: Secret,
    /// Bytes of the hash that a packet carries.
    pub icv_len: usize,
}

/// The algorithms of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transform {
    /// ESP with AES-GCM, `rfc4106(gcm(aes))` to the kernel.
    EspGcm {
        /// 16, 24 or 32 bytes.
        key: Secret,
        /// The part of the nonce that packets do not carry: the last 4 bytes of the kernel's key.
        salt: [u8; 4],
        /// 8, 12 or 16.
        icv_len: usize,
    },
    /// ESP with AES-CBC, `cbc(aes)` to the kernel.
    EspCbc {
        /// 16, 24 or 32 bytes.
        key: Secret,
        /// `None` for encryption alone.
        integrity: Option<Integrity>,
    },
    /// ESP that hides nothing, `cipher_null` to the kernel.
    EspNull {
        /// `None` for neither secrecy nor integrity.
        integrity: Option<Integrity>,
    },
    /// AH.
    Ah {
        /// Its integrity check.
        integrity: Integrity,
        /// The header is a multiple of 4 bytes long; the kernel's default is 8, which RFC 4302 asks
        /// of IPv6.
        align4: bool,
    },
}

/// A keyed cipher.
#[derive(Clone)]
pub(super) enum Cipher {
    Null,
    Cbc(Aes),
    Gcm { aead: Gcm, salt: [u8; 4], icv_len: usize },
}

#[derive(Clone)]
pub(super) enum Aes {
    Key128(aes::Aes128),
    Key192(aes::Aes192),
    Key256(aes::Aes256),
}

#[derive(Clone)]
pub(super) enum Gcm {
    Key128(AesGcm<aes::Aes128, U12>),
    Key192(AesGcm<aes::Aes192, U12>),
    Key256(AesGcm<aes::Aes256, U12>),
}

impl Cipher {
    pub(super) fn cbc(key: &Secret) -> Result<Self, BadAssociation> {
        let key = key.0.as_slice();
        Ok(Self::Cbc(match key.len() {
            16 => Aes::Key128(keyed(key)?),
            24 => Aes::Key192(keyed(key)?),
            _ => Aes::Key256(keyed(key)?),
        }))
    }

    pub(super) fn gcm(key: &Secret, salt: [u8; 4], icv_len: usize) -> Result<Self, BadAssociation> {
        if ![8, 12, 16].contains(&icv_len) {
            return Err(BadAssociation::IcvLen { algorithm: "AES-GCM", icv_len });
        }
        let key = key.0.as_slice();
        let aead = match key.len() {
            16 => Gcm::Key128(keyed(key)?),
            24 => Gcm::Key192(keyed(key)?),
            _ => Gcm::Key256(keyed(key)?),
        };
        Ok(Self::Gcm { aead, salt, icv_len })
    }

    /// Bytes of IV in each packet.
    pub(super) fn iv_len(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Cbc(_) => AES_BLOCK_LEN,
            Self::Gcm { .. } => GCM_IV_LEN,
        }
    }

    /// The block size of the encrypted part.
    pub(super) fn align(&self) -> usize {
        match self {
            Self::Cbc(_) => AES_BLOCK_LEN,
            Self::Null | Self::Gcm { .. } => ESP_ALIGN,
        }
    }

    /// Bytes of integrity check that the cipher itself makes.
    pub(super) fn icv_len(&self) -> usize {
        match self {
            Self::Gcm { icv_len, .. } => *icv_len,
            Self::Null | Self::Cbc(_) => 0,
        }
    }

    /// Encrypts `text` in place; AES-GCM returns its check over `header` and text.
    pub(super) fn encrypt(&self, header: &[u8], iv: &[u8], text: &mut [u8]) -> Option<[u8; 16]> {
        match self {
            Self::Null => None,
            Self::Cbc(aes) => {
                aes.encrypt(iv, text);
                None
            }
            Self::Gcm { aead, salt, .. } => Some(aead.encrypt(*salt, header, iv, text)),
        }
    }
}

impl Aes {
    fn encrypt(&self, iv: &[u8], text: &mut [u8]) {
        match self {
            Self::Key128(aes) => chain(aes, iv, text),
            Self::Key192(aes) => chain(aes, iv, text),
            Self::Key256(aes) => chain(aes, iv, text),
        }
    }
}

impl Gcm {
    fn encrypt(&self, salt: [u8; 4], header: &[u8], iv: &[u8], text: &mut [u8]) -> [u8; 16] {
        match self {
            Self::Key128(aead) => tag(aead, salt, header, iv, text),
            Self::Key192(aead) => tag(aead, salt, header, iv, text),
            Self::Key256(aead) => tag(aead, salt, header, iv, text),
        }
    }
}

/// A keyed HMAC, to be copied for each packet.
#[derive(Clone)]
pub(super) struct Mac {
    state: MacState,
    icv_len: usize,
}

#[derive(Clone)]
enum MacState {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl Mac {
    pub(super) fn new(integrity: &Integrity) -> Result<Self, BadAssociation> {
        let (key, icv_len) = (integrity.key.0.as_slice(), integrity.icv_len);
        let (state, algorithm, hash_len) = match integrity.hash {
            Hash::Sha1 => (MacState::Sha1(keyed(key)?), "HMAC-SHA1", 20),
            Hash::Sha256 => (MacState::Sha256(keyed(key)?), "HMAC-SHA256", 32),
        };
        if icv_len == 0 || icv_len > hash_len {
            return Err(BadAssociation::IcvLen { algorithm, icv_len });
        }
        Ok(Self { state, icv_len })
    }

    pub(super) fn icv_len(&self) -> usize {
        self.icv_len
    }

    /// The check over `parts` one after the other, into `icv`, which is as long as the check.
    pub(super) fn sign(&self, parts: &[&[u8]], icv: &mut [u8]) {
        match self.state.clone() {
            MacState::Sha1(mac) => digest(mac, parts, icv),
            MacState::Sha256(mac) => digest(mac, parts, icv),
        }
    }
}

fn digest<M: hmac::Mac>(mut mac: M, parts: &[&[u8]], icv: &mut [u8]) {
    parts.iter().for_each(|part| mac.update(part));
    let hash = mac.finalize().into_bytes();
    icv.copy_from_slice(&hash[..icv.len()]);
}

fn keyed<K: KeyInit>(key: &[u8]) -> Result<K, BadAssociation> {
    K::new_from_slice(key).map_err(|_| BadAssociation::KeyLen { key_len: key.len() })
}

/// # Panics
/// When `text` is not whole blocks or `iv` is not one block; ESP pads to blocks.
fn chain<C: aes::cipher::BlockCipherEncrypt>(cipher: &C, iv: &[u8], text: &mut [u8]) {
    let iv = iv.try_into().expect("an IV is one block long");
    let mut mode = cbc::Encryptor::<&C>::inner_iv_init(cipher, iv);
    let (blocks, rest) = aes::cipher::Array::slice_as_chunks_mut(text);
    assert!(rest.is_empty(), "CBC works on whole blocks");
    mode.encrypt_blocks(blocks);
}

/// # Panics
/// For texts of 64 GiB, which no frame holds.
fn tag<A>(aead: &A, salt: [u8; 4], header: &[u8], iv: &[u8], text: &mut [u8]) -> [u8; 16]
where
    A: AeadInOut<NonceSize = U12, TagSize = aes_gcm::aes::cipher::consts::U16>,
{
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&salt);
    nonce[4..].copy_from_slice(iv);
    aead.encrypt_inout_detached(&nonce.into(), header, InOutBuf::from(text)).expect("a frame is short").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    /// Case 1 of draft-mcgrew-gcm-test-01: a whole packet of RFC 4106 with a 64-bit sequence
    /// number.
    #[test]
    fn gcm_packet_with_extended_sequence_number() {
        let key = Secret(bytes("4c80cdefbb5d10da906ac73c3613a634"));
        let gcm = Cipher::gcm(&key, [0x2e, 0x44, 0x3b, 0x68], 16).unwrap();
        let mut text = bytes(
            "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000
             00000000045f736970045f756470037369700963796265726369747902646b00
             0021000101020201",
        );
        let tag =
            gcm.encrypt(&bytes("000043218765432100000000"), &bytes("4956ed7e3b244cfe"), &mut text).unwrap();
        let encrypted = "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34
                      cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce
                      61bc17d768fd9732";
        assert_eq!((text, tag.to_vec()), (bytes(encrypted), bytes("459018148f6cbe722fd04796562dfdb4")));
    }

    #[test]
    fn cbc_case_1_of_rfc_3602() {
        let cbc = Cipher::cbc(&Secret(bytes("06a9214036b8a15b512e03d534120006"))).unwrap();
        let mut text = b"Single block msg".to_vec();
        assert_eq!(cbc.encrypt(&[], &bytes("3dafba429d9eb430b422da802c9fac41"), &mut text), None);
        assert_eq!(text, bytes("e353779c1079aeb82708942dbe77181a"));
    }

    #[test]
    fn hmac_cases_1_of_rfc_2202_and_rfc_4231_cut_short() {
        let sign = |hash, key_len, icv_len| {
            let mac = Mac::new(&Integrity { hash, key: Secret(vec![0x0b; key_len]), icv_len }).unwrap();
            let mut icv = vec![0; mac.icv_len()];
            mac.sign(&[b"Hi ", b"", b"There"], &mut icv);
            icv
        };
        assert_eq!(sign(Hash::Sha1, 20, 12), bytes("b617318655057264e28bc0b6"));
        assert_eq!(sign(Hash::Sha256, 20, 16), bytes("b0344c61d8db38535ca8afceaf0bf12b"));
    }

    #[test]
    fn keys_and_checks_of_wrong_length_are_refused_and_keys_are_not_printed() {
        let key = |len| Secret(vec![7; len]);
        assert_eq!(Cipher::cbc(&key(20)).err(), Some(BadAssociation::KeyLen { key_len: 20 }));
        assert!(Cipher::gcm(&key(17), [0; 4], 16).is_err() && Cipher::gcm(&key(16), [0; 4], 10).is_err());
        for icv_len in [0, 21] {
            assert!(Mac::new(&Integrity { hash: Hash::Sha1, key: key(20), icv_len }).is_err());
        }
        assert_eq!(format!("{:?}", key(3)), "Secret(3 bytes)");
    }
}
