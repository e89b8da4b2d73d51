//! wirerate and other tools in alternation, on one machine and one link.
//!
//! Rules: runs are interleaved (A B A B ...); a tool runs against itself first, which shows the
//! noise; all tools do the same work with the same CPUs and memory; the receiver's counters and the
//! contents of the output count, not the tool's own report; ratios have a spread.
//!
//! Two programs use this crate. `wirerate-bench` ([`program`], feature `page`) has peers and the
//! page of results; `wirerate bench` ([`own`]) measures wirerate alone, on a veth pair or on the
//! user's devices.
#![deny(unsafe_code)]

mod capture;
mod capturers;
mod connect;
#[cfg(feature = "page")]
mod export;
mod facts;
#[cfg(feature = "page")]
mod figures;
#[cfg(feature = "page")]
mod flood;
mod frame;
mod gaps;
mod generate;
mod generators;
mod growth;
#[cfg(feature = "page")]
mod known;
mod measure;
#[cfg(feature = "page")]
mod memory_limit;
pub mod own;
mod pacing;
mod page;
mod priority;
mod process;
#[cfg(feature = "page")]
mod program;
mod programs;
mod prompt;
#[cfg(feature = "page")]
mod read_files;
mod receive;
mod records;
#[cfg(feature = "page")]
mod replay;
mod report;
#[cfg(feature = "page")]
mod results;
mod rig;
mod running;
mod samples;
mod schedule;
mod search;
#[cfg(feature = "page")]
mod sections;
mod settings;
mod stats;
mod stop;
#[expect(unsafe_code, reason = "socket calls and a priority, and nothing else")]
mod sys;
mod table;
mod testbed;
#[cfg(feature = "page")]
mod throughput;

#[cfg(feature = "page")]
pub use program::program;
