//! Where the packets come from: the command line, a configuration, the C preprocessor, a capture
//! file.

use super::Args;
use capture_files::input::is_stdin;
use frames::{DeviceAddresses, FrameSpec, ParseSettings};
use program::outcome::Failure;
use program::waiting_read;
use sender::capture_frames::{CaptureFiles, frames_of};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

/// Numbers of protocols for `--cpp`, if netsniff-ng's header is not installed.
const STDDEF: &str = include_str!("stddef.h");
/// Where netsniff-ng has its header.
const NETSNIFF_NG: &str = "/etc/netsniff-ng";

/// Reads the packets for a device with these addresses, or for a file.
pub(super) fn packets(
    args: &Args,
    seed: u64,
    device: Option<DeviceAddresses>,
) -> Result<Vec<FrameSpec>, Failure> {
    let is_for_device = device.is_some();
    let device = device.unwrap_or(DeviceAddresses::NONE);
    let settings = ParseSettings { seed, device, is_for_device, ..ParseSettings::default() };
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

/// The output of the C preprocessor. It gets the text of a pipe when all of it has come, so that a
/// signal ends the wait for it.
fn preprocessed(path: &Path, defines: &[String]) -> io::Result<Vec<u8>> {
    let is_file = !is_stdin(path) && fs::metadata(path)?.is_file();
    let text = if is_file { None } else { Some(waiting_read::read(path)?) };
    let headers = HeaderFolder::new()?;
    let mut cpp = Command::new("cpp");
    cpp.args(["-I", NETSNIFF_NG]).arg("-I").arg(&headers.0);
    cpp.args(defines.iter().map(|define| format!("-D{define}")));
    match (&text, path.parent()) {
        (None, _) => cpp.arg(path),
        // Files beside the pipe are included as those beside a file.
        (Some(_), Some(folder)) if folder != Path::new("") => cpp.arg("-iquote").arg(folder).arg("-"),
        (Some(_), _) => cpp.arg("-"),
    };
    cpp.stdin(if is_file { Stdio::null() } else { Stdio::piped() });
    cpp.stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |why: io::Error| io::Error::new(why.kind(), format!("cpp (the C preprocessor): {why}"));
    let mut child = cpp.spawn().map_err(failed)?;
    let feed = text.zip(child.stdin.take()).map(|(text, mut stdin)| {
        // If it does not read all of it, its exit status says why.
        thread::spawn(move || drop(stdin.write_all(&text)))
    });
    let output = child.wait_with_output()?;
    feed.map_or(Ok(()), JoinHandle::join).expect("writing does not panic");
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
