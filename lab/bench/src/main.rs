//! `wirerate-bench`; everything is in the library.

fn main() -> std::process::ExitCode {
    bench::program()
}
