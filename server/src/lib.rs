//! The API of the Open Traffic Generator, over HTTP and gRPC on one TCP port, and the page of
//! metrics.
//!
//! This crate knows transports and the model's messages. What a call does is behind [`ApiBackend`].
//! what is counted behind [`ReadMetrics`]. The first bytes of a connection distinguish TLS from
//! plain text, and HTTP/2 from HTTP/1.
#![forbid(unsafe_code)]

mod call;
mod grpc;
mod listen;
mod metrics_server;
mod reply;
mod rest;

pub use call::{ApiCall, Operation};
pub use listen::{Server, ServerConfig, TlsFiles};
pub use metrics_server::{MetricsServer, ReadMetrics};
pub use reply::{ApiError, ApiReply, ErrorKind};

use serde_json::Value;

/// What the calls do.
pub trait ApiBackend: Send + Sync + 'static {
    /// Carries out a call. The body fits the model. It may block.
    ///
    /// # Errors
    /// What was wrong, for the client.
    fn call(&self, operation: Operation, body: Value) -> Result<ApiReply, ApiError>;
}
