//! Packets as the columns of Parquet files, and back.
//!
//! [`PartFile`] encodes packets of the schema [`PACKET_SCHEMA`] as row groups and a footer. The
//! caller writes the bytes, and decides which row groups the file has. [`loss_file`] encodes what
//! was lost ([`LOSS_SCHEMA`]), and [`PacketReader`] reads packets back. `docs/parquet.md` has both
//! schemas. This crate opens no files and reads no clock.
#![forbid(unsafe_code)]

mod column;
mod error;
mod folder;
mod keys;
mod loss;
mod packets;
mod part;
mod raw;
mod reader;
mod schema;

pub use error::ColumnsError;
pub use folder::{device_folder, loss_name, parse_part_name, part_name, run_folder};
pub use keys::{CapturedInterface, Key, SourceFile};
pub use loss::{LOSS_SCHEMA, loss_file};
pub use packets::PacketRow;
pub use part::{PartFile, ROWS_MAX, RowGroup};
pub use raw::{EncodeJob, EncodeQueue};
pub use reader::{PacketReader, StoredPacket};
pub use schema::PACKET_SCHEMA;
