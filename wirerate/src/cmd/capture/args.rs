//! The arguments of `wirerate capture`.

use super::files::FileArgs;
use super::source::SourceArgs;
use crate::units::{Count, Nanos};
use clap::ValueEnum;
use std::path::PathBuf;

/// What becomes of a frame after its bytes were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The host gets it as if nobody looked
    Mirror,
    /// It ends here; the host never sees it
    Drop,
}

impl From<capture::Mode> for Mode {
    fn from(mode: capture::Mode) -> Self {
        match mode {
            capture::Mode::Mirror => Self::Mirror,
            capture::Mode::Drop => Self::Drop,
        }
    }
}

/// Arguments of `wirerate capture`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Ctrl-C ends a capture: what waits in the rings is written, the file is closed.\n\
                        The exit code is 1 when frames were lost; the report says how many and where.\n\n\
                        Examples:\n  \
                        wirerate capture eth1 -w frames.pcapng --count 1M\n  \
                        wirerate capture eth1 -w - | tshark -i -\n  \
                        wirerate capture eth1 -w day/%H%M%S.pcapng.zst --rotate-every 10min --files 144\n  \
                        wirerate capture eth1 eth2 --filter 'udp port 9' --mode drop --duration 10s")]
pub struct Args {
    /// The devices to capture on
    #[arg(value_name = "DEV", required = true)]
    pub devices: Vec<String>,
    /// Write the frames to this file, `-` for standard output; without it they are only counted. Its name may hold
    /// times as in strftime(3), such as %H
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// What becomes of a frame after its bytes were copied
    #[arg(long, value_enum, default_value = "mirror")]
    pub mode: Mode,
    /// Which frames are taken, and where
    #[command(flatten)]
    pub source: SourceArgs,
    /// Bytes kept of each frame
    #[arg(long, value_name = "BYTES", default_value = "96", value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub snaplen: u32,
    /// Frames to write; the capture ends then
    #[arg(long, value_name = "N")]
    pub count: Option<Count>,
    /// Time to capture for, such as 10s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Network namespace that the device is in
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// Become this user once the devices are open: files belong to it, and no right is left
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Frames that each CPU's ring can hold [default: 32768, fewer when --snaplen is long]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16777216))]
    pub ring: Option<u32>,
    /// Tell each second what each CPU received and where frames went
    #[arg(long)]
    pub every_second: bool,
    /// Print the report as one line of JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// What files look like, when they end and how many stay
    #[command(flatten)]
    pub files: FileArgs,
}
