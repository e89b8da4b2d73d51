//! The JSON documents that commands print: the name, type, unit and meaning of each field.
//!
//! One table describes one document, such as `wirerate.send/2`. The schemas (`schema/`) and the
//! tables in `docs/json.md` are made from these tables, and `wirerate` can only print documents
//! that have one. Tests validate the output of the commands against the schemas. To add a field,
//! add it to the table of its document in `tables/`, and run `UPDATE=1 cargo test -p facts`.

#![forbid(unsafe_code)]

mod counts;
mod document;
mod markdown;
mod schema;
mod tables;

pub use counts::{
    CaptureFrames, ConnectFailures, CountValue, Fact, FlowFrames, LeftOutPackets, OtherFrames, SendErrors,
    UnusualFrames, UnusualSegments,
};
pub use document::{Document, Field, Kind, Row, Variant};
pub use tables::*;
