//! The JSON documents that commands print: the name, type, unit and meaning of each field.
//!
//! A structure that serde writes is a [`Record`]: `#[derive(Described)]` makes the description of
//! its fields from their names, types and documentation. Of the description are made: the schemas
//! (`schema/`), the tables in `docs/json.md`, and, of rows, columns of text and of CSV. `wirerate`
//! can only print documents that have one. Tests validate the output of the commands against the
//! schemas. To add a figure, add a field to its structure, and run
//! `UPDATE=1 cargo test -p wirerate --test documents`.

#![forbid(unsafe_code)]

mod counts;
mod document;
mod field;
mod markdown;
mod record;
mod schema;

pub use counts::{
    CaptureFrames, ConnectFailures, CountValue, Fact, FlowFrames, LeftOutPackets, OtherFrames, SendErrors,
    ServerSegments, UnusualFrames, UnusualSegments,
};
pub use document::Document;
pub use facts_derive::Described;
pub use field::{Field, Kind, Part, Variant, fields_of};
pub use record::{Described, Record};
