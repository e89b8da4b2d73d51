//! Compares the tree in memory with what a real Linux 7.3 answered (`oracle/`), and gives it every
//! command that pktgen's documentation shows.

mod commands;
mod documented;
mod sim;
mod status;
