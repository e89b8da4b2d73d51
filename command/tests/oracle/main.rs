//! Compares the tree in memory with what a real Linux 7.3 answered (`shared/oracle`, beside the checkout), and
//! with the reference documents (`shared/seeds`).

mod commands;
mod seeds;
mod sim;
mod status;
