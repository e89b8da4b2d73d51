//! Engines that send the frames of a plan, and the workers that pace them.
//!
//! An [`Engine`] sends bursts of one plan to one device. A `Run` drives an engine at its pace; a
//! [`Worker`] is the pinned thread that serves runs. Sent frames were accepted by the driver, and
//! sent + errors = offered, always.
#![deny(unsafe_code)]

mod accepting;
mod af_packet;
mod af_xdp;
mod backoff;
mod clock;
mod connecting;
mod device;
#[cfg(test)]
mod differential;
mod dummy_program;
mod engine;
mod engine_kind;
mod error;
mod event;
mod inter_packet_gaps;
#[cfg(test)]
mod interleaving;
mod link_state;
mod mem;
mod pacer;
mod page_pools;
mod probe;
mod progress;
mod ramp;
mod replay;
mod requirements;
mod run;
mod select;
mod skb;
mod start_barrier;
mod timed_calls;
mod translate;
mod userspace;
mod worker;
mod xdp;

pub use accepting::{AcceptRequest, Accepting};
pub use bpf::xdp::XdpModeChoice;
pub use bpf::{
    AcceptCounts, AnswerCheck, BpfError, ConnectKind, ConnectProgram, ConnectTimes, FrameCounts,
    GROUP_LEN_MAX, GROUPS_MAX, GroupBy, REQUEST_MAX,
};
pub use clock::{Clock, SystemClock};
pub use connecting::{ConnectRequest, ConnectResult, Connecting};
pub use engine::{Burst, Engine, Errors, TimedEngine};
pub use engine_kind::EngineKind;
pub use error::EngineError;
pub use event::Event;
pub use inter_packet_gaps::InterPacketGaps;
pub use link_state::Interruptions;
pub use mem::{FrameSink, MemEngine};
pub use pacer::{CatchUp, Lateness, Pace, Pacer, WIRE_OVERHEAD_BYTES};
pub use page_pools::PagePools;
pub use probe::{Probed, probe};
pub use progress::{GAP_ERROR_OCTAVES, Progress};
pub use ramp::Ramp;
pub use replay::{
    LATE_OCTAVES, OtherDevice, REPLAY_CPUS_MAX, REPLAY_SKB_LEN_MAX, ReplayChange, ReplayControl, ReplayFrame,
    ReplayProgress, ReplayRequest, ReplayResult, ReplaySource, ReplayStep, SPEED_ONE, replay,
    replay_xdp_len_max,
};
pub use requirements::{SendFcs, TxOptions};
pub use run::{End, Limits, Run, RunReport, Step};
pub use start_barrier::{StartBarrier, StartGate};
pub use worker::{Request, RunHandle, Snapshot, Worker, Workers};
pub use xdp::{BATCH_DEFAULT, BATCH_MAX};
