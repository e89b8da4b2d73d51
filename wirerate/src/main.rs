//! The program: arguments, terminal, reports, signals, exit codes.

fn main() {}
