//! Frames back from the wire: sources, records, writers, and where each frame went.
//!
//! Three stages. A *source* is one ring with one reader thread; the XDP program (room `bpf`) fills one for each CPU. It
//! gives batches of *records*, which its reader turns into pcapng blocks. The *writer* puts the blocks of all readers
//! into one output. [`Session`] is all of it from start to end, and [`Stats`] accounts for every frame. Command text
//! and terminals are unknown here.

#![deny(unsafe_code)]

mod accounting;
mod batch;
mod board;
mod choose;
mod clock;
mod command;
pub mod control;
mod counting;
mod cpus;
mod device;
mod disk;
mod earlier;
mod encode;
mod error;
pub mod file_name;
mod files;
mod filter;
mod format;
mod hardware;
mod interfaces;
pub mod merge;
mod nic_loss;
mod options;
pub mod output_file;
mod packer;
mod phc;
mod pipe;
mod pool;
mod reader;
mod reorder;
mod rest;
mod ring;
mod ring_handle;
pub mod rotate;
mod run_as;
mod session;
mod sink;
mod slot;
mod slots;
mod source;
mod stats;
mod sys;
mod tap;
mod tpacket;
mod wish;
mod writer;
mod xdp;

pub use board::DeviceFacts;
pub use bpf::xdp::{ModeWish, XdpMode};
pub use counting::{CountOptions, Counted, Counting, CpuCount};
pub use error::CaptureError;
pub use format::Format;
pub use merge::MergeReport;
pub use options::{
    BUFFER_SIZE_BYTES_DEFAULT, Mode, OnError, Options, Order, Output, RING_SLOTS_DEFAULT, RING_SLOTS_MAX,
    RING_SLOTS_MIN, SNAPLEN_DEFAULT, SNAPLEN_MAX, WINDOW_NS_DEFAULT,
};
pub use packer::Compression;
pub use phc::PhcFacts;
pub use ring::{Batch, Record, Shape, TimeSource, VlanTag};
pub use run_as::RunAs;
pub use session::{Report, Session};
pub use slot::{MgcapSlot, SLOT_DATA_LEN, SLOT_LEN, SlotReader, emit_slot};
pub use slots::{SlotCapture, SlotCounts};
pub use stats::{Counts, DeviceStats, RingStats, Stats};
pub use sys::local_utc_offset_s;
pub use tap::{SourceFacts, XdpFacts};
pub use tpacket::TpacketFacts;
pub use wish::{ClockWish, Direction, Fanout, SourceWish};
