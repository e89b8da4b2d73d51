//! Protects one frame by ESP (RFC 4303) or AH (RFC 4302), in place.
//!
//! The frame has an IPv4 header without options, as every frame of a plan has. Tunnel mode is
//! transport mode of the packet with a new header in front of it, for ESP and AH alike.

use super::algorithm::AES_BLOCK_LEN;
use super::{IpsecMode, SecurityAssociation, Transform};
use crate::checksum;

const IPV4_LEN: usize = 20;
/// SPI and sequence number.
const ESP_LEN: usize = 8;
/// Pad length and next header.
const TRAILER_LEN: usize = 2;
/// AH up to its integrity check.
const AH_LEN: usize = 12;
const PROTOCOL_IPIP: u8 = 4;
const PROTOCOL_ESP: u8 = 50;
const PROTOCOL_AH: u8 = 51;
/// The kernel's `ip_default_ttl`.
const TUNNEL_TTL: u8 = 64;
const ECN_MASK: u8 = 3;
const ECN_CE: u8 = 3;
const ECN_ECT0: u8 = 2;

/// The sequence number and IV of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeqAndIv {
    /// Sequence number; all 64 bits are the IV of AES-GCM.
    pub sequence: u64,
    /// IV of AES-CBC.
    pub iv: [u8; AES_BLOCK_LEN],
}

impl SecurityAssociation {
    /// Bytes between the IP header and its payload. The requested length of a frame includes them,
    /// but not the trailer of ESP.
    pub fn header_len(&self) -> usize {
        let tunnel = match self.what.mode {
            IpsecMode::Transport => 0,
            IpsecMode::Tunnel => IPV4_LEN,
        };
        tunnel
            + match self.ah_len() {
                Some(ah_len) => ah_len,
                None => ESP_LEN + self.cipher.iv_len(),
            }
    }

    /// The length of a packet of `ip_len` bytes, IP header included, with IPsec.
    pub fn protected_len(&self, ip_len: usize) -> usize {
        if self.ah_len().is_some() {
            return ip_len + self.header_len();
        }
        let kept = if self.what.mode == IpsecMode::Transport { IPV4_LEN } else { 0 };
        let text_len = (ip_len - kept + TRAILER_LEN).next_multiple_of(self.cipher.align());
        kept + self.header_len() + text_len + self.icv_len()
    }

    /// Protects the packet in `frame[ip_at..len]` and returns the new length of the frame.
    ///
    /// # Panics
    /// When `frame` is shorter than [`Self::protected_len`], or the packet is shorter than its
    /// header.
    pub fn protect(&self, numbers: &SeqAndIv, frame: &mut [u8], ip_at: usize, len: usize) -> usize {
        let protected_len = self.protected_len(len - ip_at);
        let packet = &mut frame[ip_at..ip_at + protected_len];
        let mut packet_len = len - ip_at;
        if self.what.mode == IpsecMode::Tunnel {
            self.wrap(packet, packet_len);
            packet_len += IPV4_LEN;
        }
        packet[2..4].copy_from_slice(&(protected_len as u16).to_be_bytes());
        match self.ah_len() {
            Some(ah_len) => self.authenticate(numbers, packet, ah_len),
            None => self.encapsulate(numbers, packet, packet_len),
        }
        packet[10..12].fill(0);
        let sum = checksum::finish(checksum::add(0, &packet[..IPV4_LEN]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        ip_at + protected_len
    }

    fn icv_len(&self) -> usize {
        self.cipher.icv_len() + self.mac.as_ref().map_or(0, super::Mac::icv_len)
    }

    /// Length of the authentication header, padding included; `None` for ESP.
    fn ah_len(&self) -> Option<usize> {
        let Transform::Ah { integrity, align4 } = &self.what.transform else { return None };
        Some((AH_LEN + integrity.icv_len).next_multiple_of(if *align4 { 4 } else { 8 }))
    }

    /// The upper half of a sequence number, which is checked and not sent; nothing without ESN.
    fn unsent<'a>(&self, sequence: &'a [u8; 8]) -> &'a [u8] {
        if self.what.has_esn { &sequence[..4] } else { &[] }
    }

    /// Puts a new IP header in front, as the kernel does it by default; DF would be copied, but is
    /// never set.
    fn wrap(&self, packet: &mut [u8], packet_len: usize) {
        packet.copy_within(..packet_len, IPV4_LEN);
        let (outer, inner) = packet.split_at_mut(IPV4_LEN);
        outer[0] = 0x45;
        outer[1] = self.outer_tos(inner[1]);
        outer[4..6].copy_from_slice(&inner[4..6]);
        outer[6..8].fill(0);
        outer[8] = TUNNEL_TTL;
        outer[9] = PROTOCOL_IPIP;
        outer[12..16].copy_from_slice(&self.what.src.octets());
        outer[16..20].copy_from_slice(&self.what.dst.octets());
    }

    fn outer_tos(&self, inner: u8) -> u8 {
        let dscp = if self.what.copies_dscp { inner & !ECN_MASK } else { 0 };
        let ecn = match inner & ECN_MASK {
            _ if !self.what.copies_ecn => 0,
            ECN_CE => ECN_ECT0,
            other => other,
        };
        dscp | ecn
    }

    /// ESP into `packet`, whose first `packet_len` bytes are there.
    fn encapsulate(&self, numbers: &SeqAndIv, packet: &mut [u8], packet_len: usize) {
        let iv_len = self.cipher.iv_len();
        let next_header = std::mem::replace(&mut packet[9], PROTOCOL_ESP);
        packet.copy_within(IPV4_LEN..packet_len, IPV4_LEN + ESP_LEN + iv_len);
        let body_end = packet.len() - self.icv_len();
        let (body, icv) = packet.split_at_mut(body_end);
        let body = &mut body[IPV4_LEN..];
        let (header, rest) = body.split_at_mut(ESP_LEN);
        let (iv, text) = rest.split_at_mut(iv_len);
        trail(text, packet_len - IPV4_LEN, next_header);
        let sequence = numbers.sequence.to_be_bytes();
        header[..4].copy_from_slice(&self.what.spi.to_be_bytes());
        header[4..].copy_from_slice(&sequence[4..]);
        match iv_len {
            AES_BLOCK_LEN => iv.copy_from_slice(&numbers.iv),
            0 => {}
            _ => iv.copy_from_slice(&sequence),
        }
        if let Some(tag) = self.cipher.encrypt(self.checked(&sequence).as_ref(), iv, text) {
            icv.copy_from_slice(&tag[..icv.len()]);
        }
        if let Some(mac) = &self.mac {
            mac.sign(&[body, self.unsent(&sequence)], icv);
        }
    }

    /// What AES-GCM checks beside the text (RFC 4106, 5): SPI and the whole sequence number.
    fn checked(&self, sequence: &[u8; 8]) -> Checked {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.what.spi.to_be_bytes());
        let from = if self.what.has_esn { 0 } else { 4 };
        bytes[4..12 - from].copy_from_slice(&sequence[from..]);
        Checked { bytes, len: 12 - from }
    }

    /// AH into `packet`, whose payload is still in front of where it belongs.
    fn authenticate(&self, numbers: &SeqAndIv, packet: &mut [u8], ah_len: usize) {
        let Some(mac) = &self.mac else { return };
        let next_header = std::mem::replace(&mut packet[9], PROTOCOL_AH);
        let payload_end = packet.len() - ah_len;
        packet.copy_within(IPV4_LEN..payload_end, IPV4_LEN + ah_len);
        let sequence = numbers.sequence.to_be_bytes();
        let header = &mut packet[IPV4_LEN..IPV4_LEN + ah_len];
        header.fill(0);
        header[0] = next_header;
        header[1] = (ah_len / 4 - 2) as u8;
        header[4..8].copy_from_slice(&self.what.spi.to_be_bytes());
        header[8..12].copy_from_slice(&sequence[4..]);
        // What routers change counts as zero: TOS, fragment offset with flags, TTL, checksum.
        let (tos, fragment, ttl) = (packet[1], [packet[6], packet[7]], packet[8]);
        packet[1] = 0;
        packet[6..9].fill(0);
        packet[10..12].fill(0);
        let mut icv = [0; 32];
        let icv = &mut icv[..mac.icv_len()];
        mac.sign(&[packet, self.unsent(&sequence)], icv);
        packet[IPV4_LEN + AH_LEN..][..icv.len()].copy_from_slice(icv);
        (packet[1], packet[8]) = (tos, ttl);
        packet[6..8].copy_from_slice(&fragment);
    }
}

/// Eight or twelve bytes.
struct Checked {
    bytes: [u8; 12],
    len: usize,
}

impl AsRef<[u8]> for Checked {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Padding (1, 2, 3, ...), its length, and what the payload is, behind `payload_len` bytes of
/// payload.
fn trail(text: &mut [u8], payload_len: usize, next_header: u8) {
    let end_at = text.len() - TRAILER_LEN;
    let (front, end) = text.split_at_mut(end_at);
    let padding = &mut front[payload_len..];
    padding.iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
    end.copy_from_slice(&[padding.len() as u8, next_header]);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ipsec::{Association, Hash, Integrity, Secret};
    use aes::cipher::{BlockModeDecrypt, KeyInit, KeyIvInit, block_padding::NoPadding};
    use hmac::{Hmac, Mac};
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    pub(crate) fn association(mode: IpsecMode, transform: Transform) -> Association {
        let [src, dst] = [1, 2].map(|host| [198, 18, 0, host].into());
        Association { mode, ..Association::transport(0x4321, src, dst, transform) }
    }

    fn sha256(icv_len: usize) -> Integrity {
        Integrity { hash: Hash::Sha256, key: Secret(vec![0x5a; 32]), icv_len }
    }

    /// Case 5 of RFC 3602, to the last byte: a ping of 84 bytes becomes a packet of 124.
    #[test]
    fn transport_packet_of_rfc_3602() {
        let key = Secret(bytes("90d382b410eeba7ad938c46cec1a82bf"));
        let transform = Transform::EspCbc { key, integrity: None };
        let sa = SecurityAssociation::new(association(IpsecMode::Transport, transform)).unwrap();
        let mut frame = bytes(
            "4500005408f200004001f9fec0a87b03c0a87b64
             08000ebda70a00008e9c083db95b070008090a0b0c0d0e0f1011121314151617
             18191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
        );
        let len = frame.len();
        frame.resize(124, 0xee);
        let iv = bytes("e96e8c08ab465763fd098d45dd3ff893").try_into().unwrap();
        assert_eq!(sa.protect(&SeqAndIv { sequence: 1, iv }, &mut frame, 0, len), 124);
        let protected = "4500007c08f200004032f9a5c0a87b03c0a87b64
                      0000432100000001e96e8c08ab465763fd098d45dd3ff893
                      f663c25d325c18c6a9453e194e120849a4870b66cc6b9965330013b4898dc856
                      a4699e523a55db080b59ec3a8e4b7e52775b07d1db34ed9c538ab50c551b874a
                      a269add047ad2d5913ac19b7cfbad4a6";
        assert_eq!(frame, bytes(protected));
    }

    #[test]
    fn outer_tos_follows_the_rules_of_the_association() {
        let mut what = association(IpsecMode::Tunnel, Transform::EspNull { integrity: None });
        let tos =
            |what: &Association, inner| SecurityAssociation::new(what.clone()).unwrap().outer_tos(inner);
        assert_eq!([0xb8, 0xb9, 0xba, 0xbb].map(|inner| tos(&what, inner)), [0xb8, 0xb9, 0xba, 0xba]);
        what.copies_ecn = false;
        assert_eq!(tos(&what, 0xbb), 0xb8);
        what.copies_dscp = false;
        assert_eq!(tos(&what, 0xbb), 0);
    }

    #[test]
    fn ah_is_padded_to_eight_bytes_unless_told_otherwise() {
        let len = |icv_len, align4| {
            let transform = Transform::Ah { integrity: sha256(icv_len), align4 };
            SecurityAssociation::new(association(IpsecMode::Transport, transform)).unwrap().header_len()
        };
        assert_eq!((len(12, false), len(16, false), len(16, true)), (24, 32, 28));
    }

    /// A packet, taken apart by the rules of the receiver; `None` when a check fails.
    fn open(what: &Association, sequence: u64, packet: &[u8]) -> Option<Vec<u8>> {
        let header = etherparse::Ipv4HeaderSlice::from_slice(packet).unwrap();
        assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
        assert_eq!(usize::from(header.total_len()), packet.len());
        let tail = if what.has_esn { sequence.to_be_bytes()[..4].to_vec() } else { Vec::new() };
        let (next, payload) = match &what.transform {
            Transform::Ah { integrity, .. } => open_ah(integrity, &tail, packet)?,
            _ => open_esp(what, &tail, &packet[20..])?,
        };
        if what.mode == IpsecMode::Tunnel {
            assert_eq!((next, header.source_addr(), header.destination_addr()), (4, what.src, what.dst));
            return Some(payload);
        }
        let mut inner = packet[..20].to_vec();
        inner[9] = next;
        inner[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        inner[10..12].fill(0);
        let sum = checksum::finish(checksum::add(0, &inner));
        inner[10..12].copy_from_slice(&sum.to_be_bytes());
        Some([inner, payload].concat())
    }

    fn hmac_is(integrity: &Integrity, parts: &[&[u8]], icv: &[u8]) -> bool {
        let text = parts.concat();
        match integrity.hash {
            Hash::Sha1 => <Hmac<sha1::Sha1> as KeyInit>::new_from_slice(&integrity.key.0)
                .unwrap()
                .chain_update(&text)
                .verify_truncated_left(icv)
                .is_ok(),
            Hash::Sha256 => <Hmac<sha2::Sha256> as KeyInit>::new_from_slice(&integrity.key.0)
                .unwrap()
                .chain_update(&text)
                .verify_truncated_left(icv)
                .is_ok(),
        }
    }

    fn open_ah(integrity: &Integrity, tail: &[u8], packet: &[u8]) -> Option<(u8, Vec<u8>)> {
        assert_eq!(packet[9], 51);
        let ah_len = 4 * (usize::from(packet[21]) + 2);
        let icv = packet[32..32 + integrity.icv_len].to_vec();
        let mut zeroed = packet.to_vec();
        for mutable in [1, 6, 7, 8, 10, 11].into_iter().chain(32..20 + ah_len) {
            zeroed[mutable] = 0;
        }
        hmac_is(integrity, &[&zeroed, tail], &icv).then(|| (packet[20], packet[20 + ah_len..].to_vec()))
    }

    fn open_esp(what: &Association, tail: &[u8], esp: &[u8]) -> Option<(u8, Vec<u8>)> {
        assert_eq!(esp[..4], what.spi.to_be_bytes());
        let integrity = match &what.transform {
            Transform::EspCbc { integrity, .. } | Transform::EspNull { integrity } => integrity.as_ref(),
            _ => None,
        };
        let (body, icv) = esp.split_at(esp.len() - integrity.map_or(0, |integrity| integrity.icv_len));
        if integrity.is_some_and(|integrity| !hmac_is(integrity, &[body, tail], icv)) {
            return None;
        }
        let text = match &what.transform {
            Transform::EspGcm { key, salt, icv_len } => open_gcm(&key.0, salt, *icv_len, tail, body)?,
            Transform::EspCbc { key, .. } => open_cbc(&key.0, &body[8..24], &body[24..]),
            _ => body[8..].to_vec(),
        };
        let (text, trailer) = text.split_at(text.len() - 2);
        let (payload, padding) = text.split_at(text.len() - usize::from(trailer[0]));
        assert!(padding.iter().zip(1..).all(|(byte, number)| *byte == number), "{padding:?}");
        Some((trailer[1], payload.to_vec()))
    }

    /// By the book (NIST SP 800-38D), bit by bit and from nothing but the block cipher.
    fn open_gcm(key: &[u8], salt: &[u8; 4], icv_len: usize, tail: &[u8], body: &[u8]) -> Option<Vec<u8>> {
        let aad = [&body[..4], tail, &body[4..8]].concat();
        let (protected, icv) = body[16..].split_at(body.len() - 16 - icv_len);
        let counter = |number: u32| {
            let block = [salt.as_slice(), &body[8..16], &number.to_be_bytes()].concat();
            encrypt_block(key, u128::from_be_bytes(block.try_into().unwrap()))
        };
        let hash_key = encrypt_block(key, 0);
        let mut sum = 0;
        for block in aad.chunks(16).chain(protected.chunks(16)) {
            let mut padded = [0; 16];
            padded[..block.len()].copy_from_slice(block);
            sum = multiply(sum ^ u128::from_be_bytes(padded), hash_key);
        }
        let lengths = ((8 * aad.len() as u128) << 64) | (8 * protected.len() as u128);
        let tag = (multiply(sum ^ lengths, hash_key) ^ counter(1)).to_be_bytes();
        let key_stream = (2..).flat_map(|number| counter(number).to_be_bytes());
        let text = protected.iter().zip(key_stream).map(|(byte, key)| byte ^ key).collect();
        (tag[..icv_len] == *icv).then_some(text)
    }

    fn encrypt_block(key: &[u8], block: u128) -> u128 {
        use aes::cipher::BlockCipherEncrypt;
        let mut block = block.to_be_bytes().into();
        match key.len() {
            16 => aes::Aes128::new_from_slice(key).unwrap().encrypt_block(&mut block),
            24 => aes::Aes192::new_from_slice(key).unwrap().encrypt_block(&mut block),
            _ => aes::Aes256::new_from_slice(key).unwrap().encrypt_block(&mut block),
        }
        u128::from_be_bytes(block.into())
    }

    /// In GF(2^128), where the first bit is the highest.
    fn multiply(a: u128, b: u128) -> u128 {
        let step = |(product, shifted): (u128, u128), bit: u32| {
            let product = if a >> (127 - bit) & 1 == 1 { product ^ shifted } else { product };
            (product, shifted >> 1 ^ if shifted & 1 == 1 { 0xe1 << 120 } else { 0 })
        };
        (0..128).fold((0, b), step).0
    }

    fn open_cbc(key: &[u8], iv: &[u8], protected: &[u8]) -> Vec<u8> {
        let mut text = protected.to_vec();
        match key.len() {
            16 => cbc::Decryptor::<aes::Aes128>::new_from_slices(key, iv)
                .unwrap()
                .decrypt_padded::<NoPadding>(&mut text),
            24 => cbc::Decryptor::<aes::Aes192>::new_from_slices(key, iv)
                .unwrap()
                .decrypt_padded::<NoPadding>(&mut text),
            _ => cbc::Decryptor::<aes::Aes256>::new_from_slices(key, iv)
                .unwrap()
                .decrypt_padded::<NoPadding>(&mut text),
        }
        .unwrap();
        text
    }

    fn any_integrity() -> impl Strategy<Value = Integrity> {
        (any::<bool>(), prop::collection::vec(any::<u8>(), 16..40), any::<bool>()).prop_map(
            |(is_sha1, key, is_long)| Integrity {
                hash: if is_sha1 { Hash::Sha1 } else { Hash::Sha256 },
                key: Secret(key),
                icv_len: if is_sha1 || !is_long { 12 } else { 16 },
            },
        )
    }

    fn any_key() -> impl Strategy<Value = Secret> {
        prop::sample::select(vec![16, 24, 32])
            .prop_flat_map(|len| prop::collection::vec(any::<u8>(), len))
            .prop_map(Secret)
    }

    fn any_transform() -> impl Strategy<Value = Transform> {
        prop_oneof![
            (any_key(), any::<[u8; 4]>(), prop::sample::select(vec![8, 12, 16]))
                .prop_map(|(key, salt, icv_len)| Transform::EspGcm { key, salt, icv_len }),
            (any_key(), prop::option::of(any_integrity()))
                .prop_map(|(key, integrity)| Transform::EspCbc { key, integrity }),
            prop::option::of(any_integrity()).prop_map(|integrity| Transform::EspNull { integrity }),
            (any_integrity(), any::<bool>())
                .prop_map(|(integrity, align4)| Transform::Ah { integrity, align4 }),
        ]
    }

    fn packet(payload: &[u8], tos: u8) -> Vec<u8> {
        let total_len = (20 + payload.len() as u16).to_be_bytes();
        let mut bytes = vec![0x45, tos, total_len[0], total_len[1], 0x12, 0x34, 0, 0, 32, 17, 0, 0];
        bytes.extend([10, 9, 8, 7, 10, 9, 8, 99]);
        let sum = checksum::finish(checksum::add(0, &bytes));
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    proptest! {
        #[test]
        fn what_was_sealed_is_opened_and_nothing_else(
            transform in any_transform(),
            is_tunnel in any::<bool>(),
            has_esn in any::<bool>(),
            sequence in any::<u64>(),
            iv in any::<[u8; 16]>(),
            tos in any::<u8>(),
            payload in prop::collection::vec(any::<u8>(), 0..200),
            flip in any::<prop::sample::Index>(),
        ) {
            let mode = if is_tunnel { IpsecMode::Tunnel } else { IpsecMode::Transport };
            let what = Association { has_esn, ..association(mode, transform) };
            let sa = SecurityAssociation::new(what.clone()).unwrap();
            let inner = packet(&payload, tos);
            let mut frame = vec![0xee; 14];
            frame.extend(&inner);
            let len = frame.len();
            frame.resize(14 + sa.protected_len(inner.len()) + 3, 0xee);
            let protected_len = sa.protect(&SeqAndIv { sequence, iv }, &mut frame, 14, len);
            prop_assert_eq!(protected_len, frame.len() - 3);
            prop_assert!(frame[..14].iter().chain(&frame[protected_len..]).all(|byte| *byte == 0xee));
            let protected = &frame[14..protected_len];
            prop_assert_eq!(open(&what, sequence, protected), Some(inner));

            let is_checked = !matches!(
                &what.transform,
                Transform::EspNull { integrity: None } | Transform::EspCbc { integrity: None, .. }
            );
            if is_checked {
                let mut bent = protected.to_vec();
                // Behind SPI and numbers, where a receiver would look for another association or
                // frame.
                let place = 32 + flip.index(bent.len() - 32);
                bent[place] ^= 1;
                let is_ah_padding = matches!(&what.transform, Transform::Ah { integrity, .. }
                    if place >= 32 + integrity.icv_len && place < 20 + sa.ah_len().unwrap());
                prop_assert!(is_ah_padding || open(&what, sequence, &bent).is_none(), "byte {}", place);
                if has_esn {
                    prop_assert_eq!(open(&what, sequence ^ 1 << 40, protected), None);
                }
            }
        }
    }
}
