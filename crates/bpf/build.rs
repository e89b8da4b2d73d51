//! Compiles every `src/bpf/*.bpf.c` with clang and writes one Rust skeleton for each into
//! `OUT_DIR`.
//!
//! The kernel's own headers come from the UAPI package that every C compiler brings along; no
//! `vmlinux.h` and no BTF of the build machine is used, so a build in a container is the same
//! build. `CLANG` names another compiler.

use libbpf_cargo::SkeletonBuilder;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

const INSTALL: &str = "the BPF programs are compiled by clang; on Debian and Ubuntu: \
                       apt-get install clang libelf-dev zlib1g-dev linux-libc-dev (or set CLANG=/path/to/clang)";

/// Of zstd: high, because there are few bytes.
const COMPRESSION: i32 = 19;

type BuildError = Box<dyn std::error::Error>;

fn main() {
    if let Err(error) = build() {
        // Cargo shows the standard error of a failed build script; a panic would bury the sentence
        // in a trace.
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), BuildError> {
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-changed=src/bpf");
    let clang = PathBuf::from(std::env::var_os("CLANG").unwrap_or_else(|| "clang".into()));
    let out_dir =
        PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?);
    let mut args = flags();
    // The objects hold the paths of their sources, which must not depend on where they are built.
    args.push(format!("-ffile-prefix-map={}=bpf", std::env::current_dir()?.display()).into());
    args.extend(system_includes(&clang)?);
    let sources = sources(Path::new("src/bpf"))?;
    sources.iter().for_each(|source| println!("cargo:rerun-if-changed={}", source.display()));
    // All that reads frames waits for this crate, so it takes all CPUs that cargo may use.
    let jobs = std::env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(source) = sources.get(next.fetch_add(1, Relaxed)) {
                    if let Err(error) = generate(&clang, &args, source, &out_dir) {
                        failed.lock().expect("no thread panics").get_or_insert(error.to_string());
                    }
                }
            });
        }
    });
    failed.into_inner()?.map_or(Ok(()), |error: String| Err(error.into()))
}

fn flags() -> Vec<OsString> {
    // v3: 32-bit compares and atomics with a result, in every kernel from 5.12 on.
    ["-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"].map(OsString::from).to_vec()
}

/// The include directories of the host compiler. With `-target bpf` clang forgets the one that
/// holds `asm/types.h`, and its name differs between machines, so it is asked.
fn system_includes(clang: &Path) -> Result<Vec<OsString>, BuildError> {
    let output = Command::new(clang)
        .args(["-v", "-E", "-x", "c", "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run `{}`: {error}\n  {INSTALL}", clang.display()))?;
    if !output.status.success() {
        let result = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{}` does not work: {result}\n  {INSTALL}", clang.display()).into());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let listed = text
        .lines()
        .skip_while(|line| !line.starts_with("#include <"))
        .skip(1)
        .take_while(|line| !line.starts_with("End of search list"));
    Ok(listed.flat_map(|dir| [OsString::from("-idirafter"), OsString::from(dir.trim())]).collect())
}

fn sources(dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".bpf.c") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn generate(clang: &Path, args: &[OsString], source: &Path, out_dir: &Path) -> Result<(), BuildError> {
    let file_name = source.file_name().unwrap_or_default().to_string_lossy();
    let output = out_dir.join(file_name.replace(".bpf.c", ".skel.rs"));
    SkeletonBuilder::new().source(source).clang(clang).clang_args(args).build_and_generate(&output).map_err(
        |error| {
            let text = format!("{error:#}");
            // A header that is not there is a package that is not there; anything else is our
            // mistake.
            let hint = if text.contains("file not found") { INSTALL } else { "" };
            format!("{text}\n  {hint}")
        },
    )?;
    pack(&output)
}

/// Replaces the object in a skeleton, a list of a million numbers, by a compressed file beside it:
/// the program is smaller by 1.7 MB, and compiled sooner. `skel.rs` unpacks it.
fn pack(skeleton: &Path) -> Result<(), BuildError> {
    let text = std::fs::read_to_string(skeleton)?;
    let unknown = || format!("{}: libbpf-cargo writes objects in another way", skeleton.display());
    let (before, rest) = text.split_once("static DATA: [u8; ").ok_or_else(unknown)?;
    let (_, rest) = rest.split_once("= [").ok_or_else(unknown)?;
    let (numbers, after) = rest.split_once("];").ok_or_else(unknown)?;
    let numbers = numbers.split(',').map(str::trim).filter(|number| !number.is_empty());
    let object: Vec<u8> = numbers.map(str::parse).collect::<Result<_, _>>()?;
    let packed = skeleton.with_extension("zst");
    std::fs::write(&packed, zstd::bulk::compress(&object, COMPRESSION)?)?;
    let (start, _) = before.rsplit_once("#[").ok_or_else(unknown)?;
    let call = "ObjectSkeletonConfigBuilder::new(&DATA)";
    if !start.contains(call) {
        return Err(unknown().into());
    }
    let start =
        start.replace(call, "ObjectSkeletonConfigBuilder::new(super::super::unpacked(PACKED, &UNPACKED))");
    let name = packed.file_name().unwrap_or_default().to_string_lossy();
    let data = format!("static PACKED: &[u8] = include_bytes!({name:?});");
    let cell = "static UNPACKED: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();";
    std::fs::write(skeleton, format!("{start}{data}\n{cell}\n{after}"))?;
    Ok(())
}
