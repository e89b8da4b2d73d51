//! IPsec: security associations, and IPv4 frames protected by ESP or AH (RFC 4301 to 4303).
//!
//! Sending only. Keys and numbers are arguments. `table` selects the association of a frame,
//! `protect` writes the bytes.

mod algorithm;
pub(crate) mod protect;
mod table;

pub use algorithm::{Hash, Integrity, Secret, Transform};
pub use protect::SeqAndIv;
pub use table::{Associations, Unusable};

use algorithm::{Cipher, Mac};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Transport or tunnel mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpsecMode {
    /// The frame's own IP header goes in front of ESP or AH.
    Transport,
    /// The whole packet goes into a new one between the association's two addresses.
    Tunnel,
}

/// The parameters of a security association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association {
    /// Its SPI, not 0.
    pub spi: u32,
    /// Transport or tunnel.
    pub mode: IpsecMode,
    /// Its source; 0.0.0.0 for any.
    pub src: Ipv4Addr,
    /// Its destination.
    pub dst: Ipv4Addr,
    /// Its algorithms.
    pub transform: Transform,
    /// Sequence numbers have 64 bits, of which packets carry the lower half.
    pub has_esn: bool,
    /// The last sequence number used; the first frame has the next.
    pub sequence: u64,
    /// It is found by addresses as well, not only by its SPI.
    pub by_address: bool,
    /// Tunnel mode: the inner DSCP is copied out.
    pub copies_dscp: bool,
    /// Tunnel mode: the inner ECN bits are copied out (RFC 3168, 9.1.1).
    pub copies_ecn: bool,
}

impl Association {
    /// A new one in transport mode that is found by addresses, as `ip xfrm state add` makes by
    /// default.
    pub fn transport(spi: u32, src: Ipv4Addr, dst: Ipv4Addr, transform: Transform) -> Self {
        Self {
            spi,
            mode: IpsecMode::Transport,
            src,
            dst,
            transform,
            has_esn: false,
            sequence: 0,
            by_address: true,
            copies_dscp: true,
            copies_ecn: true,
        }
    }
}

/// An association that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum BadAssociation {
    /// No such key.
    #[error("a key of {key_len} bytes does not fit its algorithm")]
    KeyLen { key_len: usize },
    /// No such check.
    #[error("{algorithm} has no integrity check of {icv_len} bytes")]
    IcvLen { algorithm: &'static str, icv_len: usize },
}

/// An association with its keys prepared. Clones share its sequence numbers: no two frames of any
/// thread or run get the same.
#[derive(Clone)]
pub struct SecurityAssociation {
    what: Association,
    cipher: Cipher,
    mac: Option<Mac>,
    last_sequence: Arc<AtomicU64>,
}

impl SecurityAssociation {
    /// Prepares the keys.
    ///
    /// # Errors
    /// [`BadAssociation`] for keys or checks of a length that the algorithm does not have.
    pub fn new(what: Association) -> Result<Self, BadAssociation> {
        let (cipher, integrity) = match &what.transform {
            Transform::EspGcm { key, salt, icv_len } => (Cipher::gcm(key, *salt, *icv_len)?, None),
            Transform::EspCbc { key, integrity } => (Cipher::cbc(key)?, integrity.as_ref()),
            Transform::EspNull { integrity } => (Cipher::Null, integrity.as_ref()),
            Transform::Ah { integrity, .. } => (Cipher::Null, Some(integrity)),
        };
        let mac = integrity.map(Mac::new).transpose()?;
        let last_sequence = Arc::new(AtomicU64::new(what.sequence));
        Ok(Self { what, cipher, mac, last_sequence })
    }

    /// Its parameters, with `sequence` as it was at the start.
    pub fn what(&self) -> &Association {
        &self.what
    }

    /// The last sequence number used.
    pub fn sequence(&self) -> u64 {
        self.last_sequence.load(Relaxed)
    }

    /// The next sequence number, never the same twice. Without ESN a frame carries its lower 32
    /// bits, which start anew after 2^32 frames as with the kernel's `oseq-may-wrap`; the IV of
    /// AES-GCM has all 64.
    pub(crate) fn take_sequence(&self) -> u64 {
        self.last_sequence.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// True when each frame needs a random IV.
    pub(crate) fn needs_random_iv(&self) -> bool {
        matches!(self.cipher, Cipher::Cbc(_))
    }

    /// Continues the sequence numbers of `other` if the two are the same association.
    fn continue_from(&mut self, other: &Self) {
        let (mut mine, mut theirs) = (self.what.clone(), other.what.clone());
        (mine.sequence, theirs.sequence) = (0, 0);
        if mine == theirs {
            other.last_sequence.fetch_max(self.what.sequence, Relaxed);
            self.last_sequence = Arc::clone(&other.last_sequence);
        }
    }
}

impl fmt::Debug for SecurityAssociation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecurityAssociation").field("what", &self.what).finish_non_exhaustive()
    }
}

impl PartialEq for SecurityAssociation {
    fn eq(&self, other: &Self) -> bool {
        self.what == other.what
    }
}

impl Eq for SecurityAssociation {}
