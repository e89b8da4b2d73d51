//! A frame as bytes, for what `decode` does not know.

use crate::out;
use crate::units::human_duration;
use packet::wire_len;
use serde::Serialize;
use std::fmt;

/// Name and version of a frame of bytes as JSON.
const SCHEMA: &str = "wirerate.raw-frame/1";
/// Bytes in a line of text.
const BYTES_PER_LINE: usize = 16;

/// One frame, not decoded.
#[derive(Clone, Debug, Serialize)]
pub struct RawFrame {
    /// Its number in the run, from 1.
    number: u64,
    /// Time since the start of the run, in nanoseconds.
    time_ns: u64,
    /// Length in bytes without FCS.
    frame_len: u32,
    /// Length in bytes with FCS, preamble and gap.
    wire_len: u32,
    /// Its bytes, hexadecimal.
    bytes: String,
}

impl RawFrame {
    /// Frame `number` of a run, due `time_ns` after its start.
    pub fn new(number: u64, time_ns: u64, bytes: &[u8]) -> Self {
        let frame_len = bytes.len() as u32;
        let bytes = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { number, time_ns, frame_len, wire_len: wire_len(frame_len), bytes }
    }

    /// The frame as one line of JSON.
    pub fn json_line(&self) -> String {
        out::json_line(SCHEMA, self)
    }
}

/// The first line of a frame: number, length and due time.
///
/// # Errors
/// Those of `f`.
pub fn headline(f: &mut fmt::Formatter<'_>, number: u64, time_ns: u64, frame_len: u32) -> fmt::Result {
    write!(f, "frame {number}: {frame_len} bytes, {} on the wire", wire_len(frame_len))?;
    match time_ns {
        0 => writeln!(f),
        time_ns => writeln!(f, ", after {}", human_duration(time_ns)),
    }
}

impl fmt::Display for RawFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        headline(f, self.number, self.time_ns, self.frame_len)?;
        for (row, digits) in self.bytes.as_bytes().chunks(2 * BYTES_PER_LINE).enumerate() {
            write!(f, "  {:04x} ", row * BYTES_PER_LINE)?;
            for byte in digits.chunks(2) {
                write!(f, " {}", String::from_utf8_lossy(byte))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_lines_of_sixteen() {
        let bytes: Vec<u8> = (0..18).collect();
        let text = RawFrame::new(3, 0, &bytes).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "frame 3: 18 bytes, 84 on the wire");
        assert_eq!(lines[1], "  0000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f");
        assert_eq!(lines[2..], ["  0010  10 11"]);
    }
}
