//! One test over many hosts: messages, states of a run, merged results and the verdict.
//!
//! A controller prepares the agents of all hosts, gives them a time to start at, and adds up what
//! they count. [`AgentRun`] is a run as an agent has it, [`Readiness`] and [`Watching`] are the
//! decisions of the controller, [`RunAccount`] is the result. Messages are JSON. They carry words
//! of `wirerate send`, or a configuration of the Open Traffic Generator ([`Order`]), never a
//! command for a shell. This crate does no I/O and reads no clock: times and messages are
//! arguments.
#![forbid(unsafe_code)]

mod account;
mod account_text;
mod agent_run;
mod flow_account;
mod last_words;
mod message;
mod name;
mod order;
mod readiness;
mod seconds;
pub mod subject;
mod watching;

pub use account::{HostAccount, RunAccount, RunVerdict, StartAccount, clock_agreement_ns};
pub use agent_run::{AgentRun, AgentState, GoRefusal, RunStep};
pub use flow_account::{CountBounds, FlowAccount};
pub use last_words::LastWords;
pub use message::{
    CountedFlow, FlowRate, HostOrder, HostStatus, Message, MessageError, NUMBERS_MAX, PROTOCOL, PlannedFlow,
    PortStatus, ReceiverFigures, RunEnd, RunOrder, RunPlan, SenderFigures, Stat, decode, encode,
};
pub use name::{BadName, FleetName, PortPlace};
pub use order::{
    AgentAnswer, FilePiece, FlowArrivals, FlowOrder, FlowReading, FlowRole, FlowStart, Order, OrderRequest,
    OrderResult, OtgPart, Part, PortPing, PortReading, RatedCounts, RefusalKind, SentFrames, TagReading,
    TagReadings, TestPart,
};
pub use readiness::{Answered, Objection, ObjectionCause, Readiness, StartPolicy, two_agents};
pub use seconds::{SECONDS_MAX, SecondAccount};
pub use watching::{Notice, Watching};
