//! The messages of a fleet over NATS: requests and their answers, orders, and the streams that keep
//! hosts, plans and counts.
//!
//! [`Hub`] is a connection to an unmodified nats-server with JetStream. `fleet` says what messages
//! mean; this crate delivers them. An agent needs the few subjects that [`host_permissions`] lists,
//! and no right to manage streams.
#![forbid(unsafe_code)]

mod connection;
mod controller;
mod error;
mod keys;
mod permissions;
mod records;
mod requests;
mod streams;

pub use connection::{Hub, HubEvent, HubSettings, OLDEST_SERVER};
pub use controller::{Controller, GoRefused, LEASE_INTERVAL};
pub use error::HubError;
pub use keys::{CertificateText, KeyPairText, new_certificate, new_key};
pub use permissions::{SubjectPermissions, host_permissions, viewer_permissions};
pub use records::{CountStream, KnownHosts};
pub use requests::{Announcements, HubOrder, HubRequest, OrderKind, Orders, Requests};
pub use streams::HOST_AGE_MAX;
