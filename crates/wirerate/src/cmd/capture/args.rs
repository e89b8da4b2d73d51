//! Arguments of `wirerate capture`.

use super::files::{FileArgs, above_zero};
use super::recorder::RecorderArgs;
use super::source::SourceArgs;
use crate::rx_args::RxArgs;
use capture::{Mode, RING_SIZE_BYTES_MAX, SNAPLEN_WHOLE};
use host::StartTime;
use std::path::{Path, PathBuf};
use units::{Count, Nanos, Size};

/// Arguments of `wirerate capture`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "wirerate capture [OPTIONS] DEV... [FILTER]",
    after_help = "Ctrl-C ends a capture: frames in the rings are written, and the file is closed.\n\
                        The exit code is 1 if frames were lost; the report has the counts.\n\n\
                        Examples:\n  \
                        wirerate capture eth1 -w frames.pcapng --count 1M\n  \
                        wirerate capture eth1 -w web.pcapng tcp port 80 or tcp port 443\n  \
                        wirerate capture eth1 -w - | tshark -i -\n  \
                        wirerate capture eth1 -w day/%H%M%S.pcapng.zst --rotate-every 10min --files 144\n  \
                        wirerate capture eth1 eth2 --snaplen 96 --mode drop --duration 10s"
)]
pub struct Args {
    /// Devices, filters and network namespace to capture from
    #[command(flatten)]
    pub rx: RxArgs,
    /// Write the frames to this file, `-` for standard output; without it they are only counted.
    /// The name may contain strftime(3) conversions such as %H. Several files have a --filter each
    #[arg(short, long, value_name = "FILE")]
    pub write: Vec<PathBuf>,
    /// What happens to captured frames
    #[arg(long, value_enum, default_value = "mirror")]
    pub mode: Mode,
    /// Source, direction, clock and fanout of the captured frames
    #[command(flatten)]
    pub source: SourceArgs,
    /// Bytes to keep of each frame; 0 or `full` for whole frames, `headers` or `headers+64` to cut
    /// behind the last header; once, or once for each --write [default: whole frames]
    #[arg(short, long, value_name = "BYTES", value_parser = snaplen)]
    pub snaplen: Vec<Snaplen>,
    /// End after writing N frames
    #[arg(short, long, value_name = "N")]
    pub count: Option<Count>,
    /// End after this time, such as 10s
    #[arg(short = 't', long, value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Count the time of the run from this time on, and be ready before (docs/pacing.md)
    #[arg(long, value_name = "TIME", value_parser = units::start_time)]
    pub start_at: Option<StartTime>,
    /// Wait for a device that is not there yet, and take it again when it comes back; by packet
    /// sockets
    #[arg(long)]
    pub wait: bool,
    /// Switch to this user once the devices are open: files belong to it, all privileges are
    /// dropped
    #[arg(short = 'Z', long, value_name = "NAME")]
    pub user: Option<String>,
    /// Bytes of each CPU's ring, such as 64MiB; all rings together take at most 1/16 of the memory
    /// [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = ring_size)]
    pub ring: Option<Size>,
    /// Print a line per frame: time, device, direction, addresses, ports, flags and length
    #[arg(long)]
    pub print: bool,
    /// Most lines of --print in a second; frames beyond are counted
    #[arg(
        long,
        requires = "print",
        value_name = "N",
        default_value = "1000",
        value_parser = above_zero(|count: &Count| count.0)
    )]
    pub print_rate: Count,
    /// Print the counts every second
    #[arg(long)]
    pub every_second: bool,
    /// Print the report as one line of JSON, and one each second with --every-second
    /// (docs/json.md)
    #[arg(long, short = 'J')]
    pub json: bool,
    /// Print the counts every second as CSV; the report goes to standard error
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Format, compression, order, rotation and limits of the files
    #[command(flatten)]
    pub files: FileArgs,
    /// Flight recorder: frames stay in memory until a trigger saves them
    #[command(flatten)]
    pub recorder: RecorderArgs,
}

impl Args {
    /// Frames to write; `None` for no limit.
    pub fn frames_max(&self) -> Option<u64> {
        let packets = self.files.autostop.iter().find_map(|limit| limit.packets());
        self.count.map(|count| count.0).or(packets).filter(|count| *count > 0)
    }

    /// Time to capture, in nanoseconds; `None` for no limit.
    pub fn duration_ns(&self) -> Option<u64> {
        let duration = self.files.autostop.iter().find_map(|limit| limit.duration_ns());
        self.duration.map(|duration| duration.0).or(duration)
    }

    /// Bytes to keep of each frame in the first output, as [`capture::Options`] has it.
    pub fn snaplen(&self) -> u32 {
        self.snaplen_of(0).bytes()
    }

    /// Bytes to keep behind the last header in the first output, if frames are cut there.
    pub fn header_cut(&self) -> Option<u32> {
        self.snaplen_of(0).header_cut()
    }

    /// What an output keeps of a frame.
    pub fn snaplen_of(&self, output: usize) -> Snaplen {
        let own = self.snaplen.get(output).or(self.snaplen.first());
        own.copied().unwrap_or(Snaplen::Bytes(SNAPLEN_WHOLE))
    }

    /// True if frames are written to standard output.
    pub fn is_stdout(&self) -> bool {
        self.write.iter().any(|name| name == Path::new("-"))
    }

    /// True if rows are printed each second.
    pub fn has_rows(&self) -> bool {
        self.every_second || self.csv
    }
}

/// Parses a snaplen. Whole frames are `0` or `full`, and 262144 as for tcpdump.
fn snaplen(text: &str) -> Result<Snaplen, String> {
    let extra_len = match text.strip_prefix("headers") {
        Some("") => Some(0),
        Some(more) => more.strip_prefix('+').and_then(|more| more.parse().ok()),
        None => None,
    };
    match (text, text.parse::<u32>(), extra_len) {
        ("full" | "0", ..) => Ok(Snaplen::Bytes(SNAPLEN_WHOLE)),
        (_, Ok(bytes), _) if bytes <= SNAPLEN_WHOLE => Ok(Snaplen::Bytes(bytes)),
        (.., Some(extra_len)) => Ok(Snaplen::Headers(extra_len)),
        _ => Err(format!(
            "a number of bytes up to {SNAPLEN_WHOLE}, 0 or `full` for whole frames, or `headers` or `headers+64`"
        )),
    }
}

/// Which bytes of a frame are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snaplen {
    /// The first ones.
    Bytes(u32),
    /// All headers, and this many bytes behind them.
    Headers(u32),
}

impl Snaplen {
    /// Bytes to keep of each frame, as [`capture::Options`] has it.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Headers(_) => SNAPLEN_WHOLE,
        }
    }

    /// Bytes to keep behind the last header, if frames are cut there.
    pub fn header_cut(self) -> Option<u32> {
        match self {
            Self::Headers(extra_len) => Some(extra_len),
            Self::Bytes(_) => None,
        }
    }
}

/// Parses the size of a ring. A number alone meant frames before rings were packed.
fn ring_size(text: &str) -> Result<Size, String> {
    if let Ok(number) = text.parse::<u64>() {
        return Err(format!(
            "a number alone was a number of frames until now, and is no size: bytes with a unit, such as \
             `--ring 8MiB` or `--ring {number}B` (a frame takes its captured length and about 52 bytes)"
        ));
    }
    match text.parse::<Size>() {
        Ok(size) if (1..=RING_SIZE_BYTES_MAX).contains(&size.0) => Ok(size),
        Ok(_) => Err("a size from 1B to 64GiB".to_owned()),
        Err(bad) => Err(bad.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    fn parsed(words: &str) -> Args {
        args_of(words).unwrap()
    }

    /// Each frame was cut to 96 bytes, and `-s 0` was refused.
    #[test]
    fn whole_frames_are_the_default_and_have_the_names_that_tcpdump_gives_them() {
        for words in ["eth0", "eth0 -s 0", "eth0 --snaplen full", "eth0 -s 262144"] {
            assert_eq!(parsed(words).snaplen(), SNAPLEN_WHOLE, "{words}");
        }
        assert_eq!(parsed("eth0 -s 96").snaplen(), 96);
        assert_eq!(parsed("eth0 -s headers+64").header_cut(), Some(64));
        assert_eq!(parsed("eth0 -s headers").header_cut(), Some(0));
        assert_eq!((parsed("eth0 -s 96").header_cut(), parsed("eth0").header_cut()), (None, None));
        assert!(snaplen("headers64").is_err() && snaplen("headers+").is_err());
        assert!(snaplen("262145").is_err() && snaplen("x").is_err() && snaplen("-1").is_err());
    }

    /// Scripts that gave a number of frames would have got rings of a few bytes.
    #[test]
    fn a_ring_has_a_size_with_a_unit() {
        assert_eq!(parsed("eth0 --ring 64MiB").ring, Some(Size(64 << 20)));
        let refused = ring_size("4096").unwrap_err();
        assert!(refused.contains("frames") && refused.contains("--ring 8MiB"), "{refused}");
        assert!(refused.contains("--ring 4096B"), "{refused}");
        assert!(ring_size("0B").is_err() && ring_size("65GiB").is_err() && ring_size("x").is_err());
    }

    #[test]
    fn words_of_tcpdump_and_dumpcap_are_understood() {
        let args = parsed("-i eth0 -c 20 -s 128 -w f.pcap -nn -q -U -p -Z daemon -Q inout udp port 9");
        assert_eq!((args.frames_max(), args.snaplen()), (Some(20), 128));
        assert!(args.rx.quiet && args.rx.no_promisc);
        assert_eq!(args.rx.words, ["udp", "port", "9"]);
        assert_eq!(args.source.direction, capture::CaptureDirection::Both);
        let args = parsed("-i eth0 -w f -a duration:10 -a packets:7");
        assert_eq!((args.duration_ns(), args.frames_max()), (Some(10_000_000_000), Some(7)));
        assert_eq!(parsed("eth0 -t 3s").duration_ns(), Some(3_000_000_000));
    }
}
