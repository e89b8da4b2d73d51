//! wirerate and its peers side by side, on one machine, on one wire that the bench makes itself.
//!
//! The rules: runs are interleaved (A B A B ...); a tool runs against itself first, which shows the noise; all
//! do the same work with the same means; what arrived is what the receiver's counters say and what was kept is
//! what the output holds, never what a tool says of itself; ratios come with their spread.
//!
//! Two programs use this room. `wirerate-bench` ([`program`], feature `page`) has peers, the page of results and the history;
//! `wirerate bench` ([`own`]) measures wirerate alone, on devices of its own or on a pair that its user names.
#![deny(unsafe_code)]

mod bed;
mod capture;
#[cfg(feature = "page")]
mod counters;
mod disk;
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
mod instructions;
mod loss;
mod measure;
pub mod own;
mod pacing;
mod page;
mod priority;
mod process;
#[cfg(feature = "page")]
mod program;
mod prompt;
mod records;
mod report;
#[cfg(feature = "page")]
mod results;
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
mod tool;

#[cfg(feature = "page")]
pub use program::program;
