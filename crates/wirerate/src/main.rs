//! The process: arguments in, exit code out. All work is in the library beside it, where tests
//! reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    wirerate::run(std::env::args_os())
}
