//! Compares the tree in memory with what a real Linux 7.3 answered (`shared/oracle`, beside the checkout).

mod commands;
mod sim;
mod status;
