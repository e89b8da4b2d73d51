//! The messages of a fleet over NATS: requests and their answers, orders, and the stream that keeps
//! plans and counts.
//!
//! [`Hub`] is a connection to an unmodified nats-server with JetStream. `fleet` says what messages
//! mean; this crate delivers them. An agent needs the few subjects that [`host_permissions`] lists,
//! and no right to manage streams.
#![forbid(unsafe_code)]

mod connection;
mod error;
mod keys;
mod permissions;
mod records;
mod requests;

pub use connection::{Hub, HubSettings, OLDEST_SERVER};
pub use error::HubError;
pub use keys::{CertificateText, KeyPairText, new_certificate, new_key};
pub use permissions::{SubjectPermissions, host_permissions};
pub use records::CountStream;
pub use requests::{HubOrder, HubRequest, OrderKind, Orders, RequestKind, Requests};
