//! The rules of connections with a live server: states, answers to segments, frames to send again,
//! and the requests.
//!
//! `crates/bpf/src/bpf/connect_rules.h` has the rules of [`Connection::receive`] and
//! [`Connection::obey`] in C, under the names that they have here; a test compares the two over
//! sequences of segments. User space uses this crate itself to find the connections that need a
//! frame ([`Connection::due`]). Nothing here does I/O or reads a clock. Sequence numbers and times
//! are taken modulo 2^32.
#![forbid(unsafe_code)]

mod clients;
mod connection;
mod counts;
mod gaps;
mod http;
mod orders;
mod requests;
mod rules;
mod segment;
mod settings;

pub use clients::{Addresses, Place, SERVERS_MAX, ServerRange, initial_number};
pub use connection::{
    Connection, Flag, GAPS_MAX, Gap, SEGMENT_MAX_DEFAULT, SEGMENT_MAX_LEAST, State, TIME_SHIFT,
};
pub use counts::{Counts, Events};
pub use http::response_len;
pub use orders::{Due, Order, Scan};
pub use requests::{Query, RequestError, dns_query, http_get, quic_initial, tls_hello};
pub use rules::WINDOW_LEN;
pub use segment::{ACK, Arrival, Departure, FIN, PSH, RST, SYN, Verdict};
pub use settings::{Close, ResponseEnd, Settings};
