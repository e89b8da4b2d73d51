//! Capture: frames from devices to files, and a count of where each frame went.
//!
//! A *backend* fills one ring per CPU or socket with *records*. A *reader* thread per ring encodes
//! them in batches. The *writer* thread orders the batches of all readers and writes the files.
//! [`Session`] is a capture from start to end, and [`Stats`] accounts for every frame. This crate
//! does not depend on command text or terminals.

#![deny(unsafe_code)]

mod attached;
mod backend;
pub mod control;
mod count;
mod cpus;
mod describe;
mod device_group;
mod devices;
mod error;
mod file_filter;
mod group;
mod interfaces;
mod memory;
mod options;
mod order;
mod output;
mod promiscuous;
mod reader;
mod receive;
mod receive_clock;
mod record;
mod run_as;
mod session;
mod shown;
mod slots;
mod socket_receiver;
mod stats;
mod sys;
mod time;
mod to_writer;
mod writer;

pub use backend::{AtFacts, SourceFacts, TpacketFacts, XdpFacts};
pub use bpf::capture_at::AtPlace;
pub use bpf::xdp::{XdpMode, XdpModeChoice};
pub use bpf::{BpfError, TaggedFrames};
pub use count::{CountObserver, CountOptions, CountResult, Counting, CpuCount};
pub use device_group::DeviceGroup;
pub use devices::{CapturedDevice, ring_of_statistics};
pub use error::CaptureError;
pub use file_filter::FileFilter;
pub use group::GroupChange;
pub use memory::{RingSize, recorder_bytes_default, recorder_bytes_max};
pub use options::{
    BUFFER_SIZE_BYTES_DEFAULT, CaptureDirection, ClockMode, DataSetNames, Fanout, Mode, OnError, Options,
    Order, Output, OutputOptions, RING_SIZE_BYTES_DEFAULT, RING_SIZE_BYTES_MAX, RING_SIZE_BYTES_MIN,
    RecorderOptions, SNAPLEN_DEFAULT, SNAPLEN_WHOLE, SourceKind, WINDOW_NS_DEFAULT,
};
pub use order::merge::{self, MergeReport};
pub use output::compress::Compression;
pub use output::data_set::LossLog;
pub use output::ledger::OutputCounts;
pub use output::{names, open, rotate};
pub use receive::{ReceiveObserver, ReceiveOptions, ReceiveResult, Receiving, Reflected};
pub use record::format::Format;
pub use record::ring::{RingRecord, TimeSource, VlanTag};
pub use record::slot::{MgcapSlot, SLOT_DATA_LEN, SLOT_LEN, SlotReader, emit_slot};
pub use run_as::RunAs;
pub use session::{OutputReport, Session, SessionObserver, SessionReport};
pub use shown::{FrameDisplay, Shown, ShownFrame, ShownFrames, display};
pub use slots::{SLOT_RING_FRAMES_MAX, SlotCapture, SlotCounts};
pub use stats::{Counts, DeviceStats, RingStats, Stats};
pub use time::phc::PhcFacts;
