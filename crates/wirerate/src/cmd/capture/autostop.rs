//! dumpcap's options for the end of a capture (`-a`) and of a file (`-b`), and tcpdump's `-C`, `-G`
//! and `-W`.

use std::str::FromStr;
use units::{Count, Nanos, Size};

const SECOND_NS: u64 = 1_000_000_000;

/// One `-a LIMIT` of dumpcap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autostop {
    /// After this time, in nanoseconds.
    Duration(u64),
    /// After this many frames.
    Packets(u64),
    /// Before the files are longer than this, in bytes.
    Size(u64),
    /// After this many complete files.
    Files(u64),
}

impl Autostop {
    /// The time, if it is one.
    pub fn duration_ns(self) -> Option<u64> {
        match self {
            Self::Duration(ns) => Some(ns),
            _ => None,
        }
    }

    /// The number of frames, if it is one.
    pub fn packets(self) -> Option<u64> {
        match self {
            Self::Packets(count) => Some(count),
            _ => None,
        }
    }

    /// The size, if it is one.
    pub fn size_bytes(self) -> Option<u64> {
        match self {
            Self::Size(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The number of files, if it is one.
    pub fn files(self) -> Option<u64> {
        match self {
            Self::Files(count) => Some(count),
            _ => None,
        }
    }
}

impl FromStr for Autostop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("duration", time)) => seconds(time).map(Self::Duration),
            Some(("packets", count)) => positive(count).map(Self::Packets),
            // dumpcap counts in kB.
            Some(("filesize", size)) => Ok(Self::Size(positive(size)?.saturating_mul(1000))),
            Some(("files", count)) => positive(count).map(Self::Files),
            _ => Err("duration:SECONDS (as --duration), packets:N (as --count), filesize:KB (as \
                      --stop-after) or files:N (with --rotate-size or --rotate-every)"
                .to_owned()),
        }
    }
}

/// One `-b LIMIT` of dumpcap, or a plain size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLimit {
    /// A file ends after this time, in nanoseconds.
    Duration {
        /// The time.
        ns: u64,
        /// True on multiples of it.
        is_aligned: bool,
    },
    /// A file ends before it is longer than this, in bytes.
    Size(u64),
    /// Files to keep.
    Files(u64),
}

impl FromStr for FileLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("duration", time)) => Ok(Self::Duration { ns: seconds(time)?, is_aligned: false }),
            Some(("interval", time)) => Ok(Self::Duration { ns: seconds(time)?, is_aligned: true }),
            // dumpcap counts in kB.
            Some(("filesize", size)) => Ok(Self::Size(positive(size)?.saturating_mul(1000))),
            Some(("files", count)) => positive(count).map(Self::Files),
            None if text.parse::<Size>().is_ok_and(|size| size.0 > 0) => bytes(text).map(Self::Size),
            _ => {
                Err("duration:SECONDS, interval:SECONDS, filesize:KB, files:N, or a size such as 1G"
                    .to_owned())
            }
        }
    }
}

/// Parses the time of `-G`: seconds, or a time with a unit.
pub fn seconds(text: &str) -> Result<u64, String> {
    let ns = match text.parse::<u64>() {
        Ok(seconds) => seconds.saturating_mul(SECOND_NS),
        Err(_) => text.parse::<Nanos>().map_err(|bad| bad.to_string())?.0,
    };
    if ns == 0 { Err("it must be more than 0".to_owned()) } else { Ok(ns) }
}

/// Parses the size of `-C`: millions of bytes, or a size with a unit.
pub fn megabytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(megabytes) if megabytes > 0 => Ok(megabytes.saturating_mul(1_000_000)),
        _ => bytes(text),
    }
}

/// Parses a count.
pub fn positive(text: &str) -> Result<u64, String> {
    match text.parse::<Count>() {
        Ok(Count(0)) => Err("it must be more than 0".to_owned()),
        Ok(count) => Ok(count.0),
        Err(bad) => Err(bad.to_string()),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    match text.parse::<Size>() {
        Ok(Size(0)) => Err("it must be more than 0".to_owned()),
        Ok(size) => Ok(size.0),
        Err(bad) => Err(bad.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumpcaps_limits_are_understood() {
        assert_eq!("duration:10".parse(), Ok(Autostop::Duration(10 * SECOND_NS)));
        assert_eq!("packets:5".parse(), Ok(Autostop::Packets(5)));
        for (text, limit) in [
            ("duration:600", FileLimit::Duration { ns: 600 * SECOND_NS, is_aligned: false }),
            ("interval:600", FileLimit::Duration { ns: 600 * SECOND_NS, is_aligned: true }),
            ("filesize:1000", FileLimit::Size(1_000_000)),
            ("files:10", FileLimit::Files(10)),
            ("1G", FileLimit::Size(1_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
        }
        for text in ["duration:0", "files:", "packets:3", "0", "x"] {
            assert!(text.parse::<FileLimit>().is_err(), "{text}");
        }
        assert_eq!("filesize:3".parse(), Ok(Autostop::Size(3000)));
        assert_eq!("files:3".parse(), Ok(Autostop::Files(3)));
        assert!("frames:3".parse::<Autostop>().unwrap_err().contains("--stop-after"));
    }

    #[test]
    fn tcpdumps_numbers_have_its_units() {
        assert_eq!((seconds("60"), seconds("10min")), (Ok(60 * SECOND_NS), Ok(600 * SECOND_NS)));
        assert_eq!((megabytes("5"), megabytes("1GiB")), (Ok(5_000_000), Ok(1 << 30)));
        assert!(seconds("0").is_err() && megabytes("0").is_err() && positive("0").is_err());
    }
}
