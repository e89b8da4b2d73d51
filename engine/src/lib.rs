//! Ways of putting the frames of a plan out, and the workers that pace them.
//!
//! An [`Engine`] sends bursts of one plan to one device. A `Run` moves an engine to its end at its pace; a
//! [`Worker`] is the pinned thread that serves runs. What is counted as sent was accepted by the driver, and
//! sent + errors = offered, always. What the settings mean in words is the business of `command`.
#![deny(unsafe_code)]

mod af_packet;
mod af_xdp;
mod choose;
mod clock;
mod device;
mod engine;
mod error;
mod event;
mod full;
mod gaps;
mod mem;
mod need;
mod opener;
mod pacer;
mod probe;
mod run;
#[cfg(test)]
mod same_bytes;
mod skb;
mod together;
mod translate;
mod worker;
mod written;
mod xdp;

pub use clock::{Clock, SystemClock};
pub use engine::{Burst, Engine, EngineKind, Errors};
pub use error::EngineError;
pub use event::Event;
pub use gaps::Gaps;
pub use mem::{FrameSink, MemEngine};
pub use need::Wish;
pub use pacer::{CatchUp, Lateness, Pace, Pacer, WIRE_OVERHEAD_BYTES};
pub use probe::{Probed, probe};
pub use run::{End, Progress, Run, RunReport, Step, Terms};
pub use together::Together;
pub use worker::{Request, RunHandle, Snapshot, Worker, Workers};
pub use xdp::{BATCH_DEFAULT, BATCH_MAX};
