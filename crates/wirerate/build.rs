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
    // A static program is linked without a compiler, by a linker that has no such option. Packages
    // have no line tables.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env != "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// The groups of commands that this build has: cargo names each enabled feature in the environment.
fn features() -> String {
    let name = |(name, _): (std::ffi::OsString, _)| {
        Some(name.into_string().ok()?.strip_prefix("CARGO_FEATURE_")?.to_lowercase())
    };
    let mut on: Vec<String> = std::env::vars_os().filter_map(name).collect();
    on.sort();
    match on.iter().any(|name| name == "default") {
        true => "all".to_owned(),
        false if on.is_empty() => "none (core)".to_owned(),
        false => on.join(", "),
    }
}
