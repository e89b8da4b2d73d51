//! Any frame with its headers and bytes, as text and as JSON.

use super::layer_text::write_text;
use super::layers::{FrameLayer, layers};
use super::plain_frame::{FRAME, PlainFrame};
use facts::{Described, Document};
use packet::wire_len;
use program::out;
use serde::{Serialize, Serializer};
use std::fmt;
use units::human_duration;

/// A frame of a dry run that is no plain one.
pub const RAW_FRAME: Document =
    Document::of::<RawFrame>("wirerate.raw-frame/1", "wirerate send --frame PACKETS --dry-run --json");

/// One frame.
#[derive(Clone, Debug, Serialize, Described)]
pub struct RawFrame {
    /// Number of the frame in the run, from 1.
    number: u64,
    /// Scheduled time since the start of the run.
    time_ns: u64,
    /// Length without FCS.
    #[fact(unit = "bytes")]
    frame_len: u32,
    /// Length on the wire, with FCS, preamble and gap.
    #[fact(unit = "bytes")]
    wire_len: u32,
    /// Its headers from the outside in, and what follows them.
    layers: Vec<FrameLayer>,
    /// Its bytes, hexadecimal.
    #[fact(kind = Kind::Text)]
    #[serde(serialize_with = "as_hex")]
    bytes: Vec<u8>,
}

fn as_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&digits)
}

impl RawFrame {
    /// Frame `number` of a run, due `time_ns` after its start.
    pub fn new(number: u64, time_ns: u64, bytes: &[u8]) -> Self {
        let frame_len = bytes.len() as u32;
        let wire_len = wire_len(frame_len);
        Self { number, time_ns, frame_len, wire_len, layers: layers(bytes), bytes: bytes.to_vec() }
    }

    /// The frame as one line of JSON: UDP and IPsec outside of tunnels have a document of their
    /// own.
    pub fn json_line(&self) -> String {
        match PlainFrame::of(self.number, self.time_ns, self.frame_len, &self.layers) {
            Some(plain) => out::json_line(&FRAME, &plain),
            None => out::json_line(&RAW_FRAME, self),
        }
    }
}

impl fmt::Display for RawFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, frame_len, wire_len, .. } = self;
        // Preamble and gap take 20 bytes; the driver pads short frames.
        let with_fcs = wire_len - 20;
        write!(f, "frame {number}: {frame_len} bytes, {with_fcs} with FCS, {wire_len} on the wire")?;
        match self.time_ns {
            0 => writeln!(f)?,
            time_ns => writeln!(f, ", after {}", human_duration(time_ns))?,
        }
        write_text(f, &self.layers, &self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_no_protocol_are_rows_of_sixteen() {
        let bytes: Vec<u8> = (0..32).collect();
        let frame = RawFrame::new(3, 0, &bytes);
        let text = frame.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "frame 3: 32 bytes, 64 with FCS, 84 on the wire");
        assert_eq!(lines[1], "  Ethernet  06:07:08:09:0a:0b > 00:01:02:03:04:05  type 0x0c0d");
        assert_eq!(lines[2], "  payload   18 bytes");
        assert_eq!(lines[3], "    000e  0e 0f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d");
        assert_eq!(lines[4..], ["    001e  1e 1f"]);
        let json = frame.json_line();
        assert!(json.contains(r#"{"protocol":"payload","offset":14,"len":18}],"bytes":"000102"#), "{json}");
    }
}
