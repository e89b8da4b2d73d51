//! Where the packets come from: the command line, a configuration, the C preprocessor, a capture
//! file.

use super::Args;
use crate::cmd::send::capture_frames::{CaptureFiles, frames_of};
use crate::outcome::Failure;
use crate::waiting_read;
use frames::{DeviceAddresses, FrameSpec, ParseSettings};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Numbers of protocols for `--cpp`, if netsniff-ng's header is not installed.
const STDDEF: &str = include_str!("stddef.h");
/// Where netsniff-ng has its header.
const NETSNIFF_NG: &str = "/etc/netsniff-ng";

/// Reads the packets.
pub(super) fn packets(args: &Args, seed: u64, device: DeviceAddresses) -> Result<Vec<FrameSpec>, Failure> {
    let settings = ParseSettings { seed, device, ..ParseSettings::default() };
    let (name, text) = match &args.input {
        None if args.packet.is_empty() => {
            return Err(Failure::usage("write frames", "name a configuration with --in, or give a packet")
                .try_this("`wirerate trafgen --example` for a configuration"));
        }
        None => ("the packet".to_owned(), args.packet.join(" ").into_bytes()),
        Some(path) => {
            let act = format!("read {}", path.display());
            if path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng") {
                let frames = frames_of(path).map_err(|why| Failure::refused(act, why))?;
                let spec = |template| FrameSpec { template, ..FrameSpec::default() };
                return Ok(frames.into_iter().map(spec).collect());
            }
            let text = if args.cpp { preprocessed(path, &args.define) } else { waiting_read::read(path) };
            (path.display().to_string(), text.map_err(|why| Failure::refused(act, why))?)
        }
    };
    let mut captures = CaptureFiles::default();
    let place = if args.cpp { "the output of cpp, " } else { "" };
    let specs = frames::parse(&text, &settings, &mut captures)
        .map_err(|error| Failure::usage_text(format!("wirerate: cannot read {name}: {place}{error}\n")))?;
    if specs.is_empty() {
        return Err(Failure::usage(format_args!("read {name}"), "it has no packets: expected { ... }"));
    }
    Ok(specs)
}

/// The output of the C preprocessor.
fn preprocessed(path: &Path, defines: &[String]) -> io::Result<Vec<u8>> {
    let headers = HeaderFolder::new()?;
    let output = Command::new("cpp")
        .args(["-I", NETSNIFF_NG])
        .arg("-I")
        .arg(&headers.0)
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg(path)
        .stdin(Stdio::inherit())
        .output()
        .map_err(|why| io::Error::new(why.kind(), format!("cpp (the C preprocessor): {why}")))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()))
    }
}

/// A folder with the header, removed at the end.
struct HeaderFolder(PathBuf);

impl HeaderFolder {
    fn new() -> io::Result<Self> {
        let folder = Self(std::env::temp_dir().join(format!("wirerate-cpp-{}", std::process::id())));
        fs::create_dir(&folder.0)?;
        fs::write(folder.0.join("stddef.h"), STDDEF)?;
        Ok(folder)
    }
}

impl Drop for HeaderFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
