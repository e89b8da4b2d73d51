//! pcapng blocks to bytes and back, over any Read and Write.
//!
//! Follows draft-ietf-opsawg-pcapng ("the draft" below). This crate handles bytes and does not
//! depend on where frames come from: no sockets, no clock, no files of its own. Times are
//! nanoseconds since 1970 everywhere in the API; the resolution and the offset of an interface are
//! applied when a file is read and written.
//!
//! Three ways to write, from the fastest to the easiest:
//! - [`Template`] and [`Packet::emit`] append one packet to a `Vec<u8>` that the caller owns and
//!   re-uses;
//! - `emit` of [`Section`], [`Interface`], [`Statistics`], [`Names`], [`Custom`] and [`Unknown`]
//!   does so for the rare blocks;
//! - [`Writer`] keeps the rules of the format (interfaces first, times after the offset) over any
//!   `Write`.
//!
//! Classic pcap is in [`pcap`]. [`Reader`] gives the blocks back from any `Read`, of either byte
//! order, and survives what others wrote.

#![forbid(unsafe_code)]

mod block;
mod body;
mod error;
mod frame;
mod input;
mod interface;
mod names;
mod options;
mod order;
mod packet;
pub mod pcap;
mod reader;
mod section;
mod sources;
mod statistics;
mod template;
mod time;
mod writer;

pub use block::{Block, Custom, SkippedBlock, Unknown};
pub use error::{Expected, ReadError, WriteError};
pub use interface::{Interface, LINK_TYPE_ETHERNET};
pub use names::{Name, Names};
pub use options::RawOption;
pub use order::ByteOrder;
pub use packet::{NoTime, Packet, PacketBuf, PacketFlags, PlainPacket};
pub use reader::Reader;
pub use section::Section;
pub use statistics::Statistics;
pub use template::Template;
pub use time::TimeScale;
pub use writer::Writer;
