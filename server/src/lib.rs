//! The API of the Open Traffic Generator, over HTTP and gRPC on one TCP port; the page of metrics;
//! and the web page of a running command.
//!
//! This crate knows transports and the model's messages. What a call does is behind [`ApiBackend`],
//! what is counted behind [`ReadMetrics`], what a web page shows behind [`PageBackend`]. The first
//! bytes of a connection distinguish TLS from plain text, and HTTP/2 from HTTP/1.
#![forbid(unsafe_code)]

mod call;
mod call_gate;
mod caller;
mod connection_table;
mod event_log;
mod grpc;
mod http_server;
mod http_thread;
mod listen;
mod listen_address;
mod metrics_server;
mod origin;
mod page_server;
mod reply;
mod request_body;
mod rest;
mod token;

pub use call::{ApiCall, Operation};
pub use event_log::EventLog;
pub use listen::{BODY_MAX_DEFAULT, Server, ServerConfig, TlsFiles};
pub use listen_address::ListenAddress;
pub use metrics_server::{MetricsServer, ReadMetrics};
pub use page_server::{PageBackend, PageConfig, PageOrder, PageServer};
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
