//! IPsec security associations of the kernel (`ip xfrm state`), read with their keys over netlink.
//!
//! Only IPv4 associations for sending are used. Unusable ones are kept with the reason, for error
//! messages. `packet` builds the frames.

use crate::genl::{Attribute, Attributes};
use crate::netlink::{Netlink, RequestFailure};
use crate::{HostError, NetnsId, Stack};
use netlink_packet_core::{
    DecodeError, Emitable, NLM_F_REPLACE, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable,
};
use netlink_sys::protocols::NETLINK_XFRM;
use packet::ipsec::{
    Association, Associations, Hash, Integrity, IpsecMode, Secret, SecurityAssociation, Transform, Unusable,
};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const XFRM_MSG_GETSA: u16 = 0x12;
const XFRM_MSG_NEWAE: u16 = 0x1e;
/// Length of `struct xfrm_usersa_info` in front of the attributes; the offsets below are into it.
const INFO_LEN: usize = 224;
const DST_AT: usize = 56;
const SPI_AT: usize = 72;
const PROTOCOL_AT: usize = 76;
const SRC_AT: usize = 80;
const REQID_AT: usize = 208;
const FAMILY_AT: usize = 212;
const MODE_AT: usize = 214;
const FLAGS_AT: usize = 216;

const FLAG_NO_ECN: u8 = 1;
const FLAG_WILDCARD_RECEIVE: u8 = 8;
const FLAG_ALIGN4: u8 = 64;
const FLAG_ESN: u8 = 128;
const EXTRA_NO_DSCP: u32 = 1;

const ALG_AUTH: u16 = 1;
const ALG_CRYPT: u16 = 2;
const ENCAP: u16 = 4;
const REPLAY: u16 = 10;
const ALG_AEAD: u16 = 18;
const ALG_AUTH_TRUNC: u16 = 20;
const MARK: u16 = 21;
const TFC_PAD: u16 = 22;
const REPLAY_ESN: u16 = 23;
const EXTRA_FLAGS: u16 = 24;
const IF_ID: u16 = 31;

/// Length of an algorithm name in its attribute; the key length in bits follows.
const NAME_LEN: usize = 64;
/// Default length of a truncated integrity check value, in bits.
const TRUNCATED_BITS: u32 = 96;
const SALT_LEN: usize = 4;

impl Stack {
    /// All IPv4 associations, with their keys. Associations that this process has read before
    /// continue with the sequence numbers of its frames.
    ///
    /// # Errors
    /// When the kernel does not support it or the caller lacks CAP_NET_ADMIN.
    pub fn associations(&self) -> Result<Arc<Associations>, HostError> {
        let (_, rows) = self.list_associations()?;
        let (mut usable, mut unusable) = (Vec::new(), Vec::new());
        for row in rows.iter().filter_map(|row| read(&row.body)) {
            match row {
                Ok(association) => usable.push(association),
                Err(other) => unusable.push(other),
            }
        }
        Ok(remember(self.netns().id(), Associations::new(usable, unusable)))
    }

    /// Writes the sequence numbers of `associations` to the kernel, so that the next sender
    /// continues from there. Removed associations are skipped.
    ///
    /// # Errors
    /// When the kernel does not support IPsec or rejects a number, or the caller lacks
    /// CAP_NET_ADMIN.
    pub fn store_sequences(&self, associations: &Associations) -> Result<(), HostError> {
        let (mut netlink, rows) = self.list_associations()?;
        let failed = || RequestFailure::on("set the sequence number of an IPsec association of", self.text());
        let known = |row: &Xfrm| {
            let found = read(&row.body)?.ok()?;
            let ours = associations.usable().iter().find(|ours| is_same(ours, &found))?;
            let sequence = ours.sequence();
            (sequence > found.sequence()).then(|| advance(&row.body, sequence)).flatten()
        };
        for question in rows.iter().filter_map(known) {
            netlink.ask(question, NLM_F_REPLACE).map_err(failed())?;
        }
        Ok(())
    }

    fn list_associations(&self) -> Result<(Netlink, Vec<Xfrm>), HostError> {
        const ACT: &str = "list the IPsec associations of";
        let missing = || HostError::Missing { act: ACT, object: self.text(), what: "NETLINK_XFRM" };
        let mut netlink = match self.netns().run(|| Netlink::open(NETLINK_XFRM))? {
            Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Err(missing()),
            other => other.map_err(HostError::refused(ACT, self.text()))?,
        };
        let rows = netlink.list(Xfrm::list_associations()).map_err(RequestFailure::on(ACT, self.text()))?;
        Ok((netlink, rows))
    }
}

/// Equal except for the sequence number.
fn is_same(one: &SecurityAssociation, other: &SecurityAssociation) -> bool {
    let without_number = |what: &Association| Association { sequence: 0, ..what.clone() };
    (one.what().spi, one.what().dst) == (other.what().spi, other.what().dst)
        && without_number(one.what()) == without_number(other.what())
}

/// The request that sets the sequence number of the association in `body` and changes nothing else;
/// `None` if it has none.
fn advance(body: &[u8], sequence: u64) -> Option<Xfrm> {
    let (info, attributes) = body.split_at_checked(INFO_LEN)?;
    let attributes = Attributes(attributes);
    let (low, high) = ((sequence as u32).to_ne_bytes(), ((sequence >> 32) as u32).to_ne_bytes());
    let mut replay = match attributes.get(REPLAY_ESN) {
        Some(state) => {
            let mut state = state.0.to_vec();
            state.get_mut(4..8)?.copy_from_slice(&low);
            if info[FLAGS_AT] & FLAG_ESN != 0 {
                state.get_mut(12..16)?.copy_from_slice(&high);
            }
            vec![Attribute::Bytes(REPLAY_ESN, state)]
        }
        None => {
            let mut state = attributes.get(REPLAY)?.0.to_vec();
            state.get_mut(..4)?.copy_from_slice(&low);
            vec![Attribute::Bytes(REPLAY, state)]
        }
    };
    replay.extend(attributes.get(MARK).map(|mark| Attribute::Bytes(MARK, mark.0.to_vec())));
    // `struct xfrm_aevent_id`: destination, SPI, family, protocol, source, flags, request number.
    let family = &info[FAMILY_AT..FAMILY_AT + 2];
    let name = [&info[DST_AT..SPI_AT + 4], family, &[info[PROTOCOL_AT], 0], &info[SRC_AT..SRC_AT + 16]];
    let mut question = [name.concat(), vec![0; 8]].concat();
    let attributes_at = question.len();
    question.resize(attributes_at + replay.as_slice().buffer_len(), 0);
    replay.as_slice().emit(&mut question[attributes_at..]);
    Some(Xfrm { kind: XFRM_MSG_NEWAE, body: question })
}

/// Keeps sequence numbers across runs: the kernel does not see our frames, and a receiver drops
/// repeated numbers.
fn remember(netns: NetnsId, mut fresh: Associations) -> Arc<Associations> {
    static KNOWN: LazyLock<Mutex<HashMap<NetnsId, Arc<Associations>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = known.get(&netns) {
        fresh.continue_from(before);
    }
    let fresh = Arc::new(fresh);
    known.insert(netns, Arc::clone(&fresh));
    fresh
}

/// A message about an association, with unparsed attributes.
#[derive(Clone, Debug)]
struct Xfrm {
    kind: u16,
    body: Vec<u8>,
}

impl Xfrm {
    fn list_associations() -> Self {
        Self { kind: XFRM_MSG_GETSA, body: Vec::new() }
    }
}

impl NetlinkSerializable for Xfrm {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Xfrm {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { kind: header.message_type, body: payload.to_vec() })
    }
}

/// One association; `None` for other address families and other messages.
fn read(body: &[u8]) -> Option<Result<SecurityAssociation, Unusable>> {
    let (info, attributes) = body.split_at_checked(INFO_LEN)?;
    let attributes = Attributes(attributes);
    if u16::from_ne_bytes([info[FAMILY_AT], info[FAMILY_AT + 1]]) != libc::AF_INET as u16 {
        return None;
    }
    let spi = u32::from_be_bytes(array(info, SPI_AT)?);
    let (src, dst) = (Ipv4Addr::from(array::<4>(info, SRC_AT)?), Ipv4Addr::from(array::<4>(info, DST_AT)?));
    let by_address = answers_to_addresses(info, attributes);
    let made = describe(info, attributes, spi, by_address)
        .and_then(|what| SecurityAssociation::new(what).map_err(|error| error.to_string()));
    Some(made.map_err(|why| Unusable { spi, src, dst, by_address, why }))
}

/// True for associations that pktgen finds without an SPI: without request id, mark and interface
/// id, and not an acquire placeholder.
fn answers_to_addresses(info: &[u8], attributes: Attributes<'_>) -> bool {
    let is_zero = |kind| attributes.u32(kind).unwrap_or(0) == 0;
    let mark = attributes.get(MARK).and_then(|mark| array::<4>(mark.0, 0)).unwrap_or_default();
    info[REQID_AT..REQID_AT + 4] == [0; 4]
        && mark == [0; 4]
        && is_zero(IF_ID)
        && info[FLAGS_AT] & FLAG_WILDCARD_RECEIVE == 0
}

fn describe(
    info: &[u8],
    attributes: Attributes<'_>,
    spi: u32,
    by_address: bool,
) -> Result<Association, String> {
    let flags = info[FLAGS_AT];
    let mode = match info[MODE_AT] {
        0 => IpsecMode::Transport,
        1 => IpsecMode::Tunnel,
        other => return Err(format!("its mode has the number {other}; only transport and tunnel are known")),
    };
    for (kind, what) in [(ENCAP, "wraps packets in UDP or TCP (encap)"), (TFC_PAD, "pads packets (tfcpad)")] {
        if attributes.has(kind) {
            return Err(format!("it {what}"));
        }
    }
    let address = |at| array::<4>(info, at).map(Ipv4Addr::from).unwrap_or(Ipv4Addr::UNSPECIFIED);
    Ok(Association {
        spi,
        mode,
        src: address(SRC_AT),
        dst: address(DST_AT),
        transform: transform(info[PROTOCOL_AT], flags, attributes)?,
        has_esn: flags & FLAG_ESN != 0,
        sequence: sequence(attributes, flags & FLAG_ESN != 0),
        by_address,
        copies_dscp: attributes.u32(EXTRA_FLAGS).unwrap_or(0) & EXTRA_NO_DSCP == 0,
        copies_ecn: flags & FLAG_NO_ECN == 0,
    })
}

fn transform(protocol: u8, flags: u8, attributes: Attributes<'_>) -> Result<Transform, String> {
    let integrity = integrity(attributes)?;
    match i32::from(protocol) {
        libc::IPPROTO_AH => {
            let integrity = integrity.ok_or("it has no key yet")?;
            Ok(Transform::Ah { integrity, align4: flags & FLAG_ALIGN4 != 0 })
        }
        libc::IPPROTO_ESP => esp(attributes, integrity),
        other => Err(format!("its protocol {other} is neither ESP nor AH")),
    }
}

fn esp(attributes: Attributes<'_>, integrity: Option<Integrity>) -> Result<Transform, String> {
    if let Some(aead) = Algorithm::read(attributes, ALG_AEAD, true) {
        let aead = aead?;
        let salt_at = aead.key.len().checked_sub(SALT_LEN);
        return match (aead.name.as_str(), salt_at.and_then(|at| aead.key.split_at_checked(at))) {
            ("rfc4106(gcm(aes))", Some((key, salt))) => Ok(Transform::EspGcm {
                key: Secret(key.to_vec()),
                salt: array(salt, 0).unwrap_or_default(),
                icv_len: aead.icv_bits.div_ceil(8) as usize,
            }),
            _ => Err(unknown("cipher", &aead.name)),
        };
    }
    let cipher = Algorithm::read(attributes, ALG_CRYPT, false).ok_or("it has no key yet")??;
    match cipher.name.as_str() {
        "cbc(aes)" | "aes" => Ok(Transform::EspCbc { key: Secret(cipher.key), integrity }),
        "ecb(cipher_null)" | "cipher_null" => Ok(Transform::EspNull { integrity }),
        other => Err(unknown("cipher", other)),
    }
}

fn integrity(attributes: Attributes<'_>) -> Result<Option<Integrity>, String> {
    // Newer kernels send both attributes, older ones only that without a length.
    let truncated = Algorithm::read(attributes, ALG_AUTH_TRUNC, true);
    let Some(auth) = truncated.or_else(|| Algorithm::read(attributes, ALG_AUTH, false)) else {
        return Ok(None);
    };
    let auth = auth?;
    let hash = match auth.name.as_str() {
        "hmac(sha1)" | "sha1" => Hash::Sha1,
        "hmac(sha256)" | "sha256" => Hash::Sha256,
        "digest_null" => return Ok(None),
        other => return Err(unknown("hash", other)),
    };
    Ok(Some(Integrity { hash, key: Secret(auth.key), icv_len: auth.icv_bits.div_ceil(8) as usize }))
}

fn unknown(what: &str, name: &str) -> String {
    format!("its {what} {name} is not known")
}

/// The last used number: from `struct xfrm_replay_state_esn` if there is one, else from `struct
/// xfrm_replay_state`.
fn sequence(attributes: Attributes<'_>, has_esn: bool) -> u64 {
    let word = |kind, at| {
        let state = attributes.get(kind)?;
        array::<4>(state.0, at).map(|bytes| u64::from(u32::from_ne_bytes(bytes)))
    };
    match word(REPLAY_ESN, 4) {
        Some(low) if has_esn => word(REPLAY_ESN, 12).unwrap_or(0) << 32 | low,
        Some(low) => low,
        None => word(REPLAY, 0).unwrap_or(0),
    }
}

/// `struct xfrm_algo`, `xfrm_algo_auth` or `xfrm_algo_aead`.
struct Algorithm {
    name: String,
    icv_bits: u32,
    key: Vec<u8>,
}

impl Algorithm {
    /// `None` if there is none, an error if it cannot be parsed.
    fn read(attributes: Attributes<'_>, kind: u16, has_icv: bool) -> Option<Result<Self, String>> {
        let value = attributes.get(kind)?.0;
        let parts = || {
            let name = crate::netlink::text(value.get(..NAME_LEN)?);
            let key_bits = u32::from_ne_bytes(array(value, NAME_LEN)?);
            let (icv_bits, key_at) = match has_icv {
                true => (u32::from_ne_bytes(array(value, NAME_LEN + 4)?), NAME_LEN + 8),
                false => (TRUNCATED_BITS, NAME_LEN + 4),
            };
            let key = value.get(key_at..key_at + key_bits.div_ceil(8) as usize)?.to_vec();
            Some(Self { name, icv_bits, key })
        };
        Some(parts().ok_or_else(|| "its keys cannot be read".to_owned()))
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn algorithm(name: &str, icv_bits: Option<u32>, key: &[u8]) -> Vec<u8> {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(NAME_LEN, 0);
        bytes.extend((8 * key.len() as u32).to_ne_bytes());
        bytes.extend(icv_bits.map(u32::to_ne_bytes).into_iter().flatten());
        bytes.extend(key);
        bytes
    }

    fn row(protocol: i32, mode: u8, flags: u8, attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0; INFO_LEN];
        bytes[DST_AT..DST_AT + 4].copy_from_slice(&[10, 0, 0, 2]);
        bytes[SRC_AT..SRC_AT + 4].copy_from_slice(&[10, 0, 0, 1]);
        bytes[SPI_AT..SPI_AT + 4].copy_from_slice(&0x1234_u32.to_be_bytes());
        bytes[PROTOCOL_AT] = protocol as u8;
        bytes[FAMILY_AT..FAMILY_AT + 2].copy_from_slice(&2_u16.to_ne_bytes());
        (bytes[MODE_AT], bytes[FLAGS_AT]) = (mode, flags);
        bytes.extend(attributes.iter().flat_map(|(kind, value)| attribute(*kind, value)));
        bytes
    }

    fn what(row: &[u8]) -> Association {
        read(row).unwrap().unwrap().what().clone()
    }

    #[test]
    fn gcm_key_is_split_from_its_salt_and_numbers_go_on() {
        let key: Vec<u8> = (0..20).collect();
        let replay = [0, 7, 0, 2, 0, 32].map(u32::to_ne_bytes).concat();
        let aead = (ALG_AEAD, algorithm("rfc4106(gcm(aes))", Some(96), &key));
        let found = what(&row(50, 1, FLAG_ESN | FLAG_NO_ECN, &[aead, (REPLAY_ESN, replay)]));
        let expected = Association {
            spi: 0x1234,
            mode: IpsecMode::Tunnel,
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            transform: Transform::EspGcm {
                key: Secret((0..16).collect()),
                salt: [16, 17, 18, 19],
                icv_len: 12,
            },
            has_esn: true,
            sequence: 2 << 32 | 7,
            by_address: true,
            copies_dscp: true,
            copies_ecn: false,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn length_of_the_check_is_that_of_the_newer_attribute() {
        let crypt = (ALG_CRYPT, algorithm("cbc(aes)", None, &[1; 16]));
        let auth = (ALG_AUTH, algorithm("hmac(sha256)", None, &[2; 32]));
        let truncated = (ALG_AUTH_TRUNC, algorithm("hmac(sha256)", Some(128), &[2; 32]));
        let icv_len = |row: &[u8]| match what(row).transform {
            Transform::EspCbc { integrity: Some(integrity), .. } => integrity.icv_len,
            other => panic!("{other:?}"),
        };
        let replay = (REPLAY, 5_u32.to_ne_bytes().to_vec());
        assert_eq!(icv_len(&row(50, 0, 0, &[auth.clone(), truncated, crypt.clone()])), 16);
        let old = row(50, 0, 0, &[auth, crypt, replay]);
        assert_eq!((icv_len(&old), what(&old).sequence), (12, 5));
    }

    #[test]
    fn a_number_is_set_and_the_rest_of_the_window_stays() {
        let replay = [7_u32, 8, 9].map(u32::to_ne_bytes).concat();
        let mark = (MARK, vec![1; 8]);
        let null = || (ALG_CRYPT, algorithm("cipher_null", None, &[]));
        let question = advance(&row(50, 0, 0, &[null(), (REPLAY, replay), mark]), 5 << 32 | 99).unwrap();
        assert_eq!((question.kind, question.body.len()), (XFRM_MSG_NEWAE, 48 + 16 + 12));
        assert_eq!(question.body[..4], [10, 0, 0, 2]);
        assert_eq!(question.body[16..24], [0, 0, 0x12, 0x34, 2, 0, 50, 0]);
        assert_eq!(question.body[24..28], [10, 0, 0, 1]);
        let attributes = Attributes(&question.body[48..]);
        assert_eq!(attributes.get(REPLAY).unwrap().0, [99_u32, 8, 9].map(u32::to_ne_bytes).concat());
        assert!(attributes.has(MARK));

        let replay = [1_u32, 7, 8, 2, 9, 32, 4].map(u32::to_ne_bytes).concat();
        let question = advance(&row(50, 0, FLAG_ESN, &[null(), (REPLAY_ESN, replay)]), 5 << 32 | 99).unwrap();
        let state = Attributes(&question.body[48..]).get(REPLAY_ESN).unwrap().0;
        assert_eq!(state, [1_u32, 99, 8, 5, 9, 32, 4].map(u32::to_ne_bytes).concat());
        assert!(advance(&row(50, 0, 0, &[null()]), 1).is_none());
    }

    #[test]
    fn nulls_are_what_they_say_and_ah_needs_a_hash() {
        let none = (ALG_AUTH, algorithm("digest_null", None, &[]));
        let null = (ALG_CRYPT, algorithm("ecb(cipher_null)", None, &[]));
        assert_eq!(what(&row(50, 0, 0, &[none, null])).transform, Transform::EspNull { integrity: None });
        let sha1 = (ALG_AUTH_TRUNC, algorithm("hmac(sha1)", Some(96), &[3; 20]));
        let Transform::Ah { align4, .. } = what(&row(51, 0, FLAG_ALIGN4, &[sha1])).transform else {
            panic!()
        };
        assert!(align4);
    }

    #[test]
    fn what_cannot_be_used_is_kept_with_the_reason() {
        let aead = |name| (ALG_AEAD, algorithm(name, Some(128), &[0; 36]));
        let why = |row: Vec<u8>| read(&row).unwrap().unwrap_err().why;
        assert_eq!(why(row(50, 0, 0, &[aead("rfc7539esp(x)")])), "its cipher rfc7539esp(x) is not known");
        assert!(why(row(50, 4, 0, &[])).starts_with("its mode has the number 4"));
        assert_eq!(why(row(108, 0, 0, &[])), "its protocol 108 is neither ESP nor AH");
        assert_eq!(why(row(50, 0, 0, &[])), "it has no key yet");
        assert_eq!(why(row(50, 0, 0, &[(ENCAP, vec![0; 24])])), "it wraps packets in UDP or TCP (encap)");
        assert_eq!(why(row(50, 0, 0, &[(ALG_CRYPT, vec![0; 66])])), "its keys cannot be read");
        assert_eq!(
            why(row(50, 0, 0, &[(ALG_CRYPT, algorithm("cbc(aes)", None, &[0; 15]))])),
            "a key of 15 bytes does not fit its algorithm"
        );
    }

    #[test]
    fn marks_requests_and_interfaces_hide_it_from_addresses() {
        let null = || (ALG_CRYPT, algorithm("cipher_null", None, &[]));
        let word = |value: u32| value.to_ne_bytes().to_vec();
        let found = |row: &[u8]| what(row).by_address;
        assert!(found(&row(50, 0, 0, &[null(), (MARK, [word(0), word(255)].concat())])));
        assert!(!found(&row(50, 0, 0, &[null(), (MARK, [word(1), word(255)].concat())])));
        assert!(!found(&row(50, 0, 0, &[null(), (IF_ID, word(3))])));
        assert!(!found(&row(50, 0, FLAG_WILDCARD_RECEIVE, &[null()])));
        let mut requested = row(50, 0, 0, &[null()]);
        requested[REQID_AT] = 1;
        assert!(!found(&requested));
    }

    #[test]
    fn other_families_are_not_ours() {
        let mut v6 = row(50, 0, 0, &[]);
        v6[FAMILY_AT..FAMILY_AT + 2].copy_from_slice(&10_u16.to_ne_bytes());
        assert!(read(&v6).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_can_make_reading_panic(
            info in prop::collection::vec(any::<u8>(), INFO_LEN),
            kind in prop::sample::select(vec![1_u16, 2, 4, 10, 18, 20, 21, 23, 24, 31]),
            value in prop::collection::vec(any::<u8>(), 0..120),
            cut in 0..400_usize,
        ) {
            let mut body = [info, attribute(kind, &value), attribute(kind + 1, &value)].concat();
            body[FAMILY_AT..FAMILY_AT + 2].copy_from_slice(&2_u16.to_ne_bytes());
            body.truncate(cut);
            prop_assert_eq!(read(&body).is_some(), cut >= INFO_LEN);
        }
    }
}
