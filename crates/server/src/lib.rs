//! The API of the Open Traffic Generator, over HTTP and gRPC on one TCP port; the page of metrics;
//! and the web page of a running command.
//!
//! This crate knows transports and the model's messages. What a call does is behind [`ApiBackend`],
//! what is counted behind [`ReadMetrics`], what a web page shows behind [`PageBackend`]. The first
//! bytes of a connection distinguish TLS from plain text, and HTTP/2 from HTTP/1.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "otg"), allow(dead_code, reason = "the API alone uses it"))]

#[cfg(feature = "otg")]
mod call;
#[cfg(feature = "otg")]
mod call_gate;
#[cfg(feature = "otg")]
mod caller;
mod connection_table;
#[cfg(feature = "otg")]
mod grpc;
mod http_server;
mod http_thread;
#[cfg(feature = "otg")]
mod listen;
#[cfg(feature = "otg")]
mod listen_address;
mod metrics_server;
mod origin;
mod page_server;
#[cfg(feature = "otg")]
mod reply;
mod request_body;
#[cfg(feature = "otg")]
mod rest;
mod token;

#[cfg(feature = "otg")]
pub use call::{ApiCall, Operation};
#[cfg(feature = "otg")]
pub use listen::{BODY_MAX_DEFAULT, Server, ServerConfig, TlsFiles};
#[cfg(feature = "otg")]
pub use listen_address::ListenAddress;
pub use metrics_server::{MetricsServer, ReadMetrics};
pub use page_server::{PageBackend, PageConfig, PageOrder, PageServer};
#[cfg(feature = "otg")]
pub use reply::{ApiError, ApiReply, ErrorKind};

#[cfg(feature = "otg")]
use serde_json::Value;

/// What the calls do.
#[cfg(feature = "otg")]
pub trait ApiBackend: Send + Sync + 'static {
    /// Carries out a call. The body fits the model. It may block.
    ///
    /// # Errors
    /// What was wrong, for the client.
    fn call(&self, operation: Operation, body: Value) -> Result<ApiReply, ApiError>;
}
