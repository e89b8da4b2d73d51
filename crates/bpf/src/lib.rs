//! The BPF programs, the types they share with Rust, and how they are loaded and attached.
//!
//! `build.rs` compiles `src/bpf/*.bpf.c` and generates `abi` from `src/bpf/shared.h`. This crate
//! loads programs and maps their memory; the crates above it interpret records and counters.

#![deny(unsafe_code)]

pub mod abi;
mod accept_program;
mod attachable;
pub mod capture;
pub mod capture_at;
mod connect_program;
mod due_times;
mod dummy_xdp;
mod error;
#[cfg(feature = "fault")]
mod fault_box;
mod filter;
mod live_frames;
pub mod log;
mod plan_program;
mod prebuilt;
mod receive;
mod reflect_stats;
mod replay;
mod send;
mod shared;
mod sink;
mod skb;
pub mod skel;
mod specialize;
mod state;
mod stream_switch;
pub mod sys;
mod tags;
mod tx_stats;
pub mod xdp;
mod xdp_mode;

pub use abi::ReplayRecord;
pub use accept_program::{AcceptCounts, AcceptParams, AcceptProgram};
pub use attachable::Attachable;
pub use connect_program::{
    AnswerCheck, ConnectKind, ConnectParams, ConnectProgram, ConnectTimes, FrameCounts, GROUP_LEN_MAX,
    GROUPS_MAX, GroupBy, LATER_MAX, LIST_MAX, REQUEST_MAX,
};
pub use due_times::{DUE_TIMES_MAX, DueTimes};
pub use dummy_xdp::DummyXdp;
pub use error::BpfError;
#[cfg(feature = "fault")]
pub use fault_box::FaultBox;
pub use live_frames::live_frame_len_max;
pub use plan_program::PlanProgram;
pub use prebuilt::{PrebuiltResult, PrebuiltSender};
pub use receive::{Receiver, ReceiverParams};
pub use reflect_stats::ReflectStats;
pub use replay::{
    REPLAY_BYTES, REPLAY_LEN_MAX, REPLAY_OCTAVES, REPLAY_RECORDS, ReplayRing, ReplaySender, ReplayTimes,
};
pub use send::Sender;
pub use sink::{Sink, SinkCount, SinkVerdict};
pub use skb::{SendResult, SkbParams, SkbSender};
pub use state::State;
pub use stream_switch::StreamSwitch;
pub use tags::TaggedFrames;
pub use tx_stats::{TxCounts, TxSlot, TxStats};
