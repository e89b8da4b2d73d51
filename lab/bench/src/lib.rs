//! wirerate and other tools in alternation, on one machine and one link.
//!
//! Rules: runs are interleaved (A B A B ...); a tool runs against itself first, which shows the
//! noise; all tools do the same work with the same CPUs and memory; the receiver's counters and the
//! contents of the output count, not the tool's own report; ratios have a spread.
//!
//! `wirerate-bench` compares wirerate with its peers and makes the page of results. `wirerate-bench
//! own` measures wirerate alone, on a veth pair or on the user's devices.
#![deny(unsafe_code)]

mod capture;
mod capturers;
mod connect;
mod export;
mod facts;
mod figures;
mod flood;
mod frame;
mod gaps;
mod generate;
mod generators;
mod growth;
mod known;
mod measure;
mod memory_limit;
mod own;
mod pacing;
mod page;
mod priority;
mod process;
mod program;
mod programs;
mod prompt;
mod read_files;
mod receive;
mod records;
mod replay;
mod report;
mod results;
mod rig;
mod running;
mod samples;
mod schedule;
mod search;
mod sections;
mod settings;
mod stats;
mod stop;
#[expect(unsafe_code, reason = "socket calls and a priority, and nothing else")]
mod sys;
mod table;
mod testbed;
mod throughput;

pub use program::program;
