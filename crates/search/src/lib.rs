//! Which trial comes next: throughput search (RFC 9971, MLRsearch) and the procedures of RFC 2544.
//!
//! Each procedure is a state machine: [`Procedure::next_trial`] returns the trial to run, and
//! [`Procedure::record`] takes its result. The caller sends the frames and counts what arrives.
//! This crate does no I/O, reads no clock and computes in integers, so a sequence of results gives
//! the same trials on every machine.
#![forbid(unsafe_code)]

mod any_load;
mod attempts;
mod bounds;
mod burst;
mod goal;
mod latency;
mod loss_curve;
mod procedure;
pub mod record;
mod recovery;
mod tally;
mod throughput;
mod trial;

pub use attempts::{LoggedTrial, Verdict};
pub use bounds::Bounds;
pub use burst::{BackToBack, BurstSettings, BurstSummary};
pub use goal::{Goal, GoalError, Method};
pub use latency::{LatencyAtLoads, LatencySettings, LatencySummary};
pub use loss_curve::{LossCurve, LossPoint};
pub use procedure::Procedure;
pub use recovery::{Recovery, RecoverySettings, RecoverySummary};
pub use tally::{LoadClass, classify};
pub use throughput::{GoalEnd, GoalResult, SearchSettings, Start, ThroughputSearch};
pub use trial::{
    Disturbance, LatencyFigures, Purpose, SecondPhase, TesterLimits, TrialLoss, TrialRequest, TrialResult,
    frames_of,
};

/// Parts per billion: ratios are integers of this unit.
pub const BILLION: u64 = 1_000_000_000;
