//! Arguments of `wirerate capture` about the format, rotation and writing of files.

use super::autostop::{Autostop, FileLimit, megabytes, positive, seconds};
use capture::names::plain_name;
use capture::rotate::{FileInterval, RotatePolicy};
use capture::{Compression, DataSetNames, Format, OnError, Options, Order};
use capture_files::names::{asked_format, format_of};
use std::fmt::Display;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::str::FromStr;
use units::{Count, Nanos, Size};

/// Arguments about the format, rotation and writing of files.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Files")]
pub struct FileArgs {
    /// File format [default: pcap if the name ends in .pcap or .cap, else pcapng]
    #[arg(long, requires = "write", value_enum)]
    pub format: Option<Format>,
    /// Name of the run in the path of a Parquet data set [default: time of the start]
    #[arg(long, requires = "write", value_name = "ID")]
    pub run: Option<String>,
    /// Compression: zstd, zstd:LEVEL or lz4 [default: by the suffix .zst or .lz4]
    #[arg(long, requires = "write", value_name = "HOW", value_parser = compression)]
    pub compress: Option<Compression>,
    /// Do not sort the frames of several queues by time
    #[arg(long, conflicts_with = "per_cpu")]
    pub unordered: bool,
    /// Write one file per CPU, with its number before the extension; with several devices also
    /// their names
    #[arg(long, requires = "write")]
    pub per_cpu: bool,
    /// Reorder window
    #[arg(long, value_name = "TIME", default_value = "200us")]
    pub window: Nanos,
    /// Write one interface per receive queue
    #[arg(long, requires = "write")]
    pub per_queue: bool,
    /// Number packets per ring, lost frames included (epb_packetid)
    #[arg(long, requires = "write")]
    pub packet_ids: bool,
    /// Rotate before a file is longer than this, before compression
    #[arg(long, requires = "write", value_name = "SIZE", value_parser = above_zero(|size: &Size| size.0))]
    pub rotate_size: Option<Size>,
    /// Rotate after this time
    #[arg(long, requires = "write", value_name = "TIME", value_parser = above_zero(|time: &Nanos| time.0))]
    pub rotate_every: Option<Nanos>,
    /// Rotate on wall-clock multiples of --rotate-every
    #[arg(long, requires = "rotate_every")]
    pub aligned: bool,
    /// Number of files to keep, including the current one
    #[arg(long, requires = "write", value_name = "N", value_parser = above_zero(|count: &Count| count.0))]
    pub files: Option<Count>,
    /// End the capture before its files together are longer than this, before compression
    #[arg(long, requires = "write", value_name = "SIZE", value_parser = above_zero(|size: &Size| size.0))]
    pub stop_after: Option<Size>,
    /// dumpcap's limits: duration:SECONDS, packets:N, filesize:KB or files:N
    #[arg(short = 'a', long = "autostop", value_name = "LIMIT", hide = true)]
    pub autostop: Vec<Autostop>,
    /// Total size of all files on disk; the oldest are removed. Needs --rotate-size or
    /// --rotate-every
    #[arg(long, requires = "write", value_name = "SIZE", value_parser = above_zero(|size: &Size| size.0))]
    pub quota: Option<Size>,
    /// tcpdump's: as --rotate-size, in millions of bytes
    #[arg(short = 'C', hide = true, requires = "write", value_name = "MB", value_parser = megabytes)]
    pub tcpdump_size: Option<u64>,
    /// tcpdump's: as --rotate-every, in seconds
    #[arg(short = 'G', hide = true, requires = "write", value_name = "SECONDS", value_parser = seconds)]
    pub tcpdump_every: Option<u64>,
    /// tcpdump's: as --files; with -G and without -C, the capture ends after N files
    #[arg(short = 'W', hide = true, requires = "write", value_name = "N", value_parser = positive)]
    pub tcpdump_files: Option<u64>,
    /// dumpcap's: duration:SECONDS, interval:SECONDS, filesize:KB or files:N
    #[arg(short = 'b', long = "ring-buffer", hide = true, requires = "write", value_name = "LIMIT")]
    pub dumpcap: Vec<FileLimit>,
    /// Shell command for each complete file; the file name is appended
    #[arg(long, requires = "write", value_name = "COMMAND", value_parser = shell_command)]
    pub rotate_command: Option<String>,
    /// Space to allocate when a file begins; unused space is freed at its end
    #[arg(long, requires = "write", value_name = "SIZE")]
    pub preallocate: Option<Size>,
    /// Bypass the page cache (O_DIRECT): less CPU time on fast disks, but no memory as a buffer
    #[arg(long, requires = "write")]
    pub direct: bool,
    /// What to do when a file cannot be written
    #[arg(long, value_enum, default_value = "stop")]
    pub on_error: OnError,
    /// Memory per receiving CPU for frames that wait for the disk
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    pub buffer: Size,
}

impl FileArgs {
    /// Sets these options, for the file `name`.
    pub fn apply(&self, name: Option<&Path>, utc_offset_s: i32, options: Options) -> Options {
        let name = name.and_then(Path::to_str).unwrap_or_default();
        let compression = self.compress.or_else(|| compression_of(name));
        Options {
            format: self.format.unwrap_or_else(|| format_of(name)),
            data_set: DataSetNames {
                run: self.run.clone().unwrap_or_else(run_name),
                host: host::machine_name(),
            },
            order: self.order(),
            per_queue: self.per_queue,
            packet_ids: self.packet_ids,
            rotate: self.policy(),
            utc_offset_s,
            rotate_command: self.rotate_command.clone(),
            compression,
            on_error: self.on_error,
            preallocate_bytes: self.preallocate.map_or(0, |size| size.0),
            is_direct: self.direct,
            buffer_size_bytes: usize::try_from(self.buffer.0).unwrap_or(usize::MAX),
            ..options
        }
    }

    fn order(&self) -> Order {
        match (self.unordered, self.per_cpu) {
            (_, true) => Order::FilePerRing,
            (true, false) => Order::AsTheyCome,
            (false, false) => Order::Time { window_ns: self.window.0 },
        }
    }

    fn policy(&self) -> RotatePolicy {
        let (mut size, mut every) = (self.tcpdump_size, self.tcpdump_every);
        let (mut files, mut is_aligned) = (self.tcpdump_files, self.aligned);
        for limit in &self.dumpcap {
            match *limit {
                FileLimit::Size(bytes) => size = Some(bytes),
                FileLimit::Files(count) => files = Some(count),
                FileLimit::Duration { ns, is_aligned: on_multiples } => {
                    (every, is_aligned) = (Some(ns), is_aligned || on_multiples);
                }
            }
        }
        let size = self.rotate_size.map(|size| size.0).or(size);
        let every = self.rotate_every.map(|every| every.0).or(every);
        // tcpdump -G 60 -W 1 captures for a minute, and ends.
        let ends = self.tcpdump_every.is_some() && self.tcpdump_size.is_none() && self.files.is_none();
        let of_dumpcap = self.autostop.iter().find_map(|limit| limit.files());
        let stop_after_files = of_dumpcap.or(self.tcpdump_files.filter(|_| ends));
        let stop_after_bytes = self.autostop.iter().find_map(|limit| limit.size_bytes());
        let stop_after_bytes = self.stop_after.map(|size| size.0).or(stop_after_bytes);
        let files = self.files.map(|files| files.0).or(files.filter(|_| !ends));
        let number = |files: Option<u64>| {
            files.and_then(|files| NonZeroU32::new(u32::try_from(files).unwrap_or(u32::MAX)))
        };
        RotatePolicy {
            size_max_bytes: size.and_then(NonZeroU64::new),
            interval: every.and_then(NonZeroU64::new).map(|length_ns| FileInterval { length_ns, is_aligned }),
            ring_files: number(files),
            quota_bytes: self.quota.and_then(|quota| NonZeroU64::new(quota.0)),
            stop_after_bytes: stop_after_bytes.and_then(NonZeroU64::new),
            stop_after_files: number(stop_after_files),
            ..RotatePolicy::default()
        }
    }

    /// Why files of this name cannot be written, if they cannot.
    pub fn refusal(&self, name: &Path) -> Option<String> {
        if self.run.is_some() && self.format != Some(Format::Parquet) {
            return Some("--run is a part of the path of a data set, and needs --format parquet".to_owned());
        }
        let suffix = name.extension()?.to_str()?;
        UNKNOWN_SUFFIXES.contains(&suffix).then(|| format!("files are not compressed as .{suffix}"))
    }

    /// The format if it is another one than the name suggests, for a note.
    pub fn unexpected_format(&self, name: &Path) -> Option<Format> {
        let is_told = self.format.is_some() || name == Path::new("-");
        let name = name.to_str()?;
        let has_end = Path::new(plain_name(name)).extension().is_some();
        (!is_told && has_end && asked_format(name).is_none()).then(|| format_of(name))
    }
}

/// A name for a run that begins now: the time in UTC and the number of this process.
fn run_name() -> String {
    format!("{}-{}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ"), std::process::id())
}

/// Parses a limit. Zero is rejected: no limit is the default.
pub(super) fn above_zero<T>(number: fn(&T) -> u64) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr,
    T::Err: Display,
{
    move |text| match text.parse::<T>() {
        Ok(limit) if number(&limit) == 0 => {
            Err("it must be more than 0; omit the option for no limit".to_owned())
        }
        limit => limit.map_err(|bad| bad.to_string()),
    }
}

/// Reads a command that the name of a file can follow. Without a word before it, the name would be
/// the command.
fn shell_command(text: &str) -> Result<String, String> {
    match text.trim_end().chars().last() {
        None => Err("it is empty: the capture file itself would be run".to_owned()),
        Some(end @ ('&' | ';' | '|' | '(' | '{' | '`')) => Err(format!(
            "it ends with {end:?}: the capture file itself would be run; a function takes the name where it is \
             needed: 'f() {{ gzip \"$1\" & }}; f'"
        )),
        Some(_) => Ok(text.to_owned()),
    }
}

/// Suffixes of compressed files that cannot be written.
const UNKNOWN_SUFFIXES: [&str; 6] = ["gz", "bz2", "xz", "zip", "Z", "br"];

fn compression_of(name: &str) -> Option<Compression> {
    let all = [Compression::Zstd { level: LEVEL_DEFAULT }, Compression::Lz4];
    all.into_iter().find(|compression| name.ends_with(compression.suffix()))
}

/// Fast enough for a gigabit a core, and half of what can be gained at all.
const LEVEL_DEFAULT: i32 = 3;

/// Reads `zstd`, `zstd:19` or `lz4`.
fn compression(text: &str) -> Result<Compression, String> {
    match text.split_once(':') {
        None if text == "zstd" => Ok(Compression::Zstd { level: LEVEL_DEFAULT }),
        None if text == "lz4" => Ok(Compression::Lz4),
        Some(("zstd", level)) => match level.parse() {
            Ok(level) if (-7..=22).contains(&level) => Ok(Compression::Zstd { level }),
            _ => Err(format!("{level} is no level of zstd: -7 (fast) to 22 (small)")),
        },
        _ => Err("zstd, zstd:LEVEL or lz4; for gzip: -w - | gzip > FILE.gz".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[arg(short, long)]
        write: Option<String>,
        #[command(flatten)]
        files: FileArgs,
    }

    fn words(words: &str) -> impl Iterator<Item = &str> {
        ["capture", "-w", "x"].into_iter().chain(words.split_whitespace())
    }

    fn options(name: &str, words: &str) -> Options {
        Line::parse_from(self::words(words)).files.apply(Some(Path::new(name)), 3_600, Options::new("eth0"))
    }

    #[test]
    fn the_name_says_what_it_is_unless_told_otherwise() {
        for (name, format, compression) in [
            ("x.pcapng", Format::Pcapng, None),
            ("x", Format::Pcapng, None),
            ("x.pcap", Format::Pcap, None),
            ("x.cap", Format::Pcap, None),
            ("x.pcap.lz4", Format::Pcap, Some(Compression::Lz4)),
            ("x.pcapng.zst", Format::Pcapng, Some(Compression::Zstd { level: 3 })),
        ] {
            let options = options(name, "");
            assert_eq!((options.format, options.compression), (format, compression), "{name}");
        }
        let options = options("x.pcap.lz4", "--format pcapng --compress zstd:19");
        assert_eq!(options.format, Format::Pcapng);
        assert_eq!(options.compression, Some(Compression::Zstd { level: 19 }));
    }

    #[test]
    fn options_become_a_policy() {
        let words = "--rotate-size 10MB --rotate-every 1h --aligned --files 24 --quota 1GiB";
        let policy = options("x", words).rotate;
        assert_eq!(policy.size_max_bytes, NonZeroU64::new(10_000_000));
        let interval = policy.interval.unwrap();
        assert_eq!((interval.length_ns.get(), interval.is_aligned), (3_600_000_000_000, true));
        assert_eq!((policy.ring_files, policy.quota_bytes), (NonZeroU32::new(24), NonZeroU64::new(1 << 30)));
        assert!(!options("x", "").rotate.rotates());
        let options = options("x", "--preallocate 1GiB --direct");
        assert_eq!((options.preallocate_bytes, options.is_direct), (1 << 30, true));
    }

    #[test]
    fn tcpdumps_and_dumpcaps_words_become_a_policy() {
        for (words, size, every_s, is_aligned, files) in [
            ("-C 5 -W 3", Some(5_000_000), None, false, Some(3)),
            ("-G 60", None, Some(60), false, None),
            ("-b filesize:1000 -b files:10", Some(1_000_000), None, false, Some(10)),
            ("-b interval:60 -b 1G", Some(1_000_000_000), Some(60), true, None),
            ("-C 5 --rotate-size 7", Some(7), None, false, None),
        ] {
            let policy = options("x", words).rotate;
            assert_eq!(policy.size_max_bytes, size.and_then(NonZeroU64::new), "{words}");
            let interval =
                policy.interval.map(|every| (every.length_ns.get() / 1_000_000_000, every.is_aligned));
            assert_eq!(interval, every_s.map(|every_s| (every_s, is_aligned)), "{words}");
            assert_eq!(policy.ring_files, files.and_then(NonZeroU32::new), "{words}");
        }
    }

    /// `-G 60 -W 1` went on for ever, and removed the first file.
    #[test]
    fn a_number_of_intervals_ends_the_capture_as_with_tcpdump() {
        for (words, ring_files, stop_after_files) in [
            ("-G 60 -W 1", None, Some(1)),
            ("-G 60 -W 5 --files 3", Some(3), None),
            ("-C 5 -W 3", Some(3), None),
            ("-C 5 -G 60 -W 3", Some(3), None),
            ("--rotate-every 1h --files 24", Some(24), None),
            ("-C 1 -a files:3", None, Some(3)),
        ] {
            let policy = options("x", words).rotate;
            assert_eq!(policy.ring_files.map(NonZeroU32::get), ring_files, "{words}");
            assert_eq!(policy.stop_after_files.map(NonZeroU32::get), stop_after_files, "{words}");
        }
        for words in ["--stop-after 1GB", "-a filesize:1000000", "--stop-after 1GB -a filesize:7"] {
            let policy = options("x", words).rotate;
            assert_eq!(policy.stop_after_bytes, NonZeroU64::new(1_000_000_000), "{words}");
            assert!(!policy.rotates());
        }
    }

    /// `-w x.pcap.gz` wrote an uncompressed pcapng file of that name.
    #[test]
    fn names_that_promise_something_else_are_refused_or_said() {
        let files = Line::parse_from(words("")).files;
        let refusal = |name: &str| files.refusal(Path::new(name));
        assert_eq!(refusal("x.pcap.gz").as_deref(), Some("files are not compressed as .gz"));
        assert_eq!((refusal("x.pcap.zst"), refusal("x"), refusal("-")), (None, None, None));
        let said = |name: &str| files.unexpected_format(Path::new(name));
        assert_eq!((said("x.txt"), said("x.dump.zst")), (Some(Format::Pcapng), Some(Format::Pcapng)));
        assert_eq!(
            [said("x"), said("x.pcap"), said("x.cap.zst"), said("x.pcapng.lz4"), said("-")],
            [None; 5]
        );
        let told = Line::parse_from(words("--format pcap")).files;
        assert_eq!(told.unexpected_format(Path::new("x.txt")), None);
    }

    #[test]
    fn a_limit_of_zero_is_none_and_refused() {
        for words in
            ["--files 0", "-W 0", "-C 0", "-b files:0", "--quota 0", "--rotate-size 0", "--rotate-every 0s"]
        {
            let refused = Line::try_parse_from(self::words(words)).map(drop).unwrap_err().to_string();
            assert!(refused.contains("it must be more than 0"), "{refused}");
        }
        let refused =
            Line::try_parse_from(["capture", "-w", "x", "--quota", "1x"]).map(drop).unwrap_err().to_string();
        assert!(refused.contains("GiB"), "what can be written is told: {refused}");
    }

    /// They were ignored: who forgot the name of the file found nothing after a long run.
    #[test]
    fn words_about_files_without_a_file_are_refused() {
        for words in [
            "--rotate-size 1GB",
            "--rotate-every 1h",
            "--rotate-every 1h --aligned",
            "--files 3",
            "--quota 1GB",
            "--stop-after 1GB",
            "--rotate-command true",
            "--compress lz4",
            "-C 5",
            "-b files:3",
            "--per-cpu",
            "--preallocate 1GB",
            "--direct",
        ] {
            let line = ["capture"].into_iter().chain(words.split_whitespace());
            let refused = Line::try_parse_from(line).map(drop).unwrap_err().to_string();
            assert!(refused.contains("--write <WRITE>"), "{words}: {refused}");
            assert!(Line::try_parse_from(self::words(words)).is_ok(), "{words}");
        }
    }

    #[test]
    fn a_rotate_command_never_runs_the_capture_file_as_a_command() {
        for command in ["", "  ", "gzip &", "gzip;", "cat |"] {
            let line = ["capture", "-w", "x", "--rotate-command", command];
            let refused = Line::try_parse_from(line).map(drop).unwrap_err().to_string();
            assert!(refused.contains("the capture file itself would be run"), "{refused}");
        }
        let line = ["capture", "-w", "x", "--rotate-command", "f() { gzip \"$1\" & }; f"];
        assert!(Line::try_parse_from(line).is_ok());
    }

    #[test]
    fn order_is_of_time_unless_told_otherwise() {
        assert_eq!(options("x", "").order, Order::default());
        assert_eq!(options("x", "--window 5ms").order, Order::Time { window_ns: 5_000_000 });
        assert_eq!(options("x", "--unordered").order, Order::AsTheyCome);
        assert_eq!(options("x", "--per-cpu").order, Order::FilePerRing);
    }

    #[test]
    fn levels_that_there_are_not_are_refused() {
        assert_eq!(compression("zstd:23").unwrap_err(), "23 is no level of zstd: -7 (fast) to 22 (small)");
        assert!(
            compression("zstd:x").is_err() && compression("gzip").is_err() && compression("lz4:1").is_err()
        );
    }
}
