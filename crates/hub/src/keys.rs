//! Keys of agents and controllers (NATS nkeys, Ed25519).

use crate::error::HubError;
use nkeys::KeyPair;

/// A new key as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPairText {
    /// The secret half, which only its owner has.
    pub seed: String,
    /// The public half, for the file of the hub.
    pub public: String,
}

/// Makes a key.
///
/// # Errors
/// The system has no random numbers.
pub fn new_key() -> Result<KeyPairText, HubError> {
    let pair = KeyPair::new_user();
    let seed = pair.seed().map_err(|why| HubError::Key(format!("no new key: {why}")))?;
    Ok(KeyPairText { seed, public: pair.public_key() })
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct CertificateText {
    /// The certificate, which signs itself: those who have it trust the hub.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// Makes a certificate for a hub with this address or DNS name.
///
/// # Errors
/// The name cannot be in a certificate.
pub fn new_certificate(address: &str) -> Result<CertificateText, HubError> {
    let failed = |why: rcgen::Error| HubError::Key(format!("no certificate for {address}: {why}"));
    let names = vec![address.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(failed)?;
    Ok(CertificateText { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
}
