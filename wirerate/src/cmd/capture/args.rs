//! Arguments of `wirerate capture`.

use super::files::FileArgs;
use super::source::SourceArgs;
use crate::units::{Count, Nanos};
use capture::Mode;
use std::path::PathBuf;

/// Arguments of `wirerate capture`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Ctrl-C ends a capture: frames in the rings are written, and the file is closed.\n\
                        The exit code is 1 if frames were lost; the report has the counts.\n\n\
                        Examples:\n  \
                        wirerate capture eth1 -w frames.pcapng --count 1M\n  \
                        wirerate capture eth1 -w - | tshark -i -\n  \
                        wirerate capture eth1 -w day/%H%M%S.pcapng.zst --rotate-every 10min --files 144\n  \
                        wirerate capture eth1 eth2 --filter 'udp port 9' --mode drop --duration 10s")]
pub struct Args {
    /// Devices to capture on
    #[arg(value_name = "DEV", required = true)]
    pub devices: Vec<String>,
    /// Write the frames to this file, `-` for standard output; without it they are only counted.
    /// The name may contain strftime(3) conversions such as %H
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// What happens to captured frames
    #[arg(long, value_enum, default_value = "mirror")]
    pub mode: Mode,
    /// See [`SourceArgs`]
    #[command(flatten)]
    pub source: SourceArgs,
    /// Bytes to keep of each frame
    #[arg(long, value_name = "BYTES", default_value = "96", value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub snaplen: u32,
    /// End after writing N frames
    #[arg(long, value_name = "N")]
    pub count: Option<Count>,
    /// End after this time, such as 10s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Network namespace of the devices
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Switch to this user once the devices are open: files belong to it, all privileges are
    /// dropped
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Capacity of each CPU's ring in frames [default: 32768, fewer with a long --snaplen]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16777216))]
    pub ring: Option<u32>,
    /// Print per-CPU and loss counts every second
    #[arg(long)]
    pub every_second: bool,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// See [`FileArgs`]
    #[command(flatten)]
    pub files: FileArgs,
}
