//! The files that `wirerate trafgen` writes, and the times in them.

use capture::open;
use capture_files::frame_file::{FrameFile, FrameFileFacts};
use capture_files::names::asked_format;
use pcapng::LINK_TYPE_ETHERNET;
use pcapng::pcap::Precision;
use program::outcome::{Failure, Refused};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Link type of IEEE 802.11 with radiotap.
const LINK_TYPE_RADIOTAP: u16 = 127;
/// Bytes in a line of a configuration.
const BYTES_PER_LINE: usize = 15;

/// A file of frames.
pub(super) enum FramesFile<'a> {
    Frames(FrameFile<'a>),
    Config(&'a Path, BufWriter<File>),
}

impl<'a> FramesFile<'a> {
    /// Creates a file of the format that its name asks for, else a configuration with one packet
    /// per frame. Times in pcap files have microseconds, as trafgen's have.
    ///
    /// # Errors
    /// Refused when it cannot be created.
    pub(super) fn create(path: &'a Path, is_radio: bool) -> Result<Self, Failure> {
        if asked_format(&path.to_string_lossy()).is_none() {
            let file = open::create(path).refused(format!("write {}", path.display()))?;
            return Ok(Self::Config(path, BufWriter::new(file)));
        }
        let link_type = if is_radio { LINK_TYPE_RADIOTAP } else { LINK_TYPE_ETHERNET };
        let (command, precision) = ("trafgen", Precision::Microseconds);
        let facts = FrameFileFacts { command, devices: &[None], link_type, precision };
        FrameFile::create(path, &facts).map(Self::Frames)
    }

    /// Writes one frame.
    ///
    /// # Errors
    /// Refused when it cannot be written.
    pub(super) fn frame(&mut self, time_ns: u64, frame: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Frames(file) => file.add(0, time_ns, frame),
            Self::Config(path, file) => {
                write_packet(file, frame).refused(format!("write {}", path.display()))
            }
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Refused when it cannot be written.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Frames(file) => file.finish(),
            Self::Config(path, mut file) => file.flush().refused(format!("write {}", path.display())),
        }
    }
}

/// Writes the packet of a frame for a configuration.
fn write_packet(file: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    file.write_all(b"{\n")?;
    for line in frame.chunks(BYTES_PER_LINE) {
        let bytes: Vec<String> = line.iter().map(|byte| format!("0x{byte:02x},")).collect();
        writeln!(file, "  {}", bytes.join(" "))?;
    }
    file.write_all(b"}\n")
}

/// A rate in frames or bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FileRate {
    /// Frames per second.
    Frames(f64),
    /// Bits per second.
    Bits(f64),
}

impl FileRate {
    /// Nanoseconds from a frame of that length to the next.
    pub(super) fn gap_ns(self, frame_len: usize) -> u64 {
        match self {
            Self::Frames(per_second) => (1e9 / per_second) as u64,
            Self::Bits(per_second) => (frame_len as f64 * 8e9 / per_second) as u64,
        }
    }
}

/// Number and unit.
fn split(text: &str) -> Result<(u64, &str), String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().map_err(|_| "expected a number and a unit".to_owned())?;
    Ok((number, &text[end..]))
}

/// Nanoseconds of trafgen's `--gap`.
pub(super) fn gap(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit_ns: u64 = match unit {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" | "" => 1000,
        "ns" => 1,
        _ => return Err("expected a unit of s, ms, us or ns".to_owned()),
    };
    number.checked_mul(unit_ns).ok_or_else(|| "this is too long".to_owned())
}

/// trafgen's `--rate`.
pub(super) fn rate(text: &str) -> Result<FileRate, String> {
    let (number, unit) = split(text)?;
    let number = number as f64;
    let bits = match unit {
        _ if number == 0.0 => return Err("a rate must be greater than 0".to_owned()),
        "pps" => return Ok(FileRate::Frames(number)),
        "B" => 8.0,
        "kB" => 8e3,
        "MB" => 8e6,
        "GB" => 8e9,
        "kbit" => 1e3,
        "Mbit" => 1e6,
        "Gbit" => 1e9,
        "KiB" => 8.0 * 1024.0,
        "MiB" => 8.0 * 1_048_576.0,
        "GiB" => 8.0 * 1_073_741_824.0,
        _ => {
            let units = "pps, B, kB, MB, GB, kbit, Mbit, Gbit, KiB, MiB or GiB";
            return Err(format!("expected a unit of {units}"));
        }
    };
    Ok(FileRate::Bits(number * bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_rates_have_trafgens_units() {
        assert_eq!(gap("5"), Ok(5000));
        assert_eq!(gap("2ms"), Ok(2_000_000));
        assert!(gap("2h").is_err() && gap("").is_err() && gap("99999999999999s").is_err());
        assert_eq!(rate("1000pps").map(|rate| rate.gap_ns(60)), Ok(1_000_000));
        assert_eq!(rate("1Mbit").map(|rate| rate.gap_ns(125)), Ok(1_000_000));
        assert!(rate("0pps").is_err() && rate("5").is_err());
    }
}
