//! Passes the build profile and the features to the program, whose `--version` prints them, and has
//! the linker compress line tables, which are half of the program.

use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Cargo passes only the base of a profile ("release" for "dist"). OUT_DIR has its folder:
    // target/[TRIPLE/]PROFILE/build/wirerate-HASH/out
    let folder = out.ancestors().nth(3).and_then(Path::file_name).expect("OUT_DIR is below build/");
    let profile = match folder.to_str() {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is not UTF-8", out.display()),
    };
    println!("cargo::rustc-env=WIRERATE_PROFILE={profile}");
    println!("cargo::rustc-env=WIRERATE_FEATURES={}", features());
    println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    println!("cargo::rerun-if-changed=build.rs");
}

/// The features that `Cargo.toml` has for groups of commands, as far as this build has them.
fn features() -> String {
    let is_on = |name: &&str| std::env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_some();
    let groups = ["bench", "export", "fleet", "live", "metrics", "mgcap", "otg", "report"];
    let on: Vec<&str> = groups.into_iter().filter(is_on).collect();
    match on.len() {
        0 => "none (core)".to_owned(),
        count if count == groups.len() => "all".to_owned(),
        _ => on.join(", "),
    }
}
