//! The tables, by subject.

mod analysis;
mod capture;
mod connections;
mod files;
mod fleet;
mod frames;
mod host;
mod search;
mod send;
mod shared;

pub use analysis::{MEASURE, MEASURE_FLOW, MEASURE_SECOND, MEASURE_TOTAL, RUNS};
pub use capture::{CAPTURE, CAPTURE_SECOND, COUNT, COUNT_SECOND, DEMO, MGCAP};
pub use connections::{ACCEPT, ACCEPT_SECOND, CONNECT, CONNECT_SECOND};
pub use files::{EXPORT, INFO, REPLAY, REWRITE};
pub use fleet::{FLEET, FLEET_HOST, FLEET_PLAN, FLEET_STOP, OTG_FLOW};
pub use frames::{FRAME, RAW_FRAME, STREAM_FRAME};
pub use host::{DOCTOR, ERROR, TIMESTAMP};
pub use search::{RFC2544, SEARCH, TRIAL};
pub use send::{SEND, SEND_SECOND};

use crate::document::Document;

/// All documents.
pub const DOCUMENTS: &[&Document] = &[
    &ERROR,
    &FRAME,
    &RAW_FRAME,
    &STREAM_FRAME,
    &CAPTURE,
    &CAPTURE_SECOND,
    &COUNT,
    &COUNT_SECOND,
    &MEASURE,
    &MEASURE_TOTAL,
    &MEASURE_SECOND,
    &MEASURE_FLOW,
    &RUNS,
    &CONNECT,
    &CONNECT_SECOND,
    &ACCEPT,
    &ACCEPT_SECOND,
    &OTG_FLOW,
    &MGCAP,
    &TIMESTAMP,
    &SEND,
    &SEND_SECOND,
    &REPLAY,
    &REWRITE,
    &INFO,
    &EXPORT,
    &DOCTOR,
    &FLEET,
    &FLEET_HOST,
    &FLEET_PLAN,
    &FLEET_STOP,
    &DEMO,
    &TRIAL,
    &SEARCH,
    &RFC2544,
];
