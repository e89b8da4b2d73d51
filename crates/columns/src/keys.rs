//! What the footers of files say about the packets: names and values of keys.

use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};

/// One entry of a footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its value: text, or JSON.
    pub value: String,
}

pub(crate) const SCHEMA: &str = "wirerate.schema";
pub(crate) const INTERFACES: &str = "wirerate.interfaces";

/// One interface of the capture that the packets are from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedInterface {
    /// Number, as in the column `interface`.
    pub number: u32,
    /// Its name in the capture.
    pub name: Option<String>,
    /// Link type, as registered for pcap.
    pub link_type: u16,
    /// Most bytes kept of a packet; 0 for no limit.
    pub snaplen: u32,
    /// Length of the frame check sequence that packets end with, in bytes; 0 without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fcs_len: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// A capture file that was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceFile {
    /// Its path as the user gave it.
    pub file: String,
    /// Its length in bytes; `None` until it was read to its end.
    pub bytes: Option<u64>,
    /// XXH64 of its bytes in hexadecimal, as of `xxhsum -H1`; `None` until it was read to its end.
    pub xxh64: Option<String>,
}

impl Key {
    /// The schema of the file.
    pub fn schema(schema: &str) -> Self {
        Self { name: SCHEMA, value: schema.to_owned() }
    }

    /// The interfaces of the packets.
    pub fn interfaces(interfaces: &[CapturedInterface]) -> Self {
        Self { name: INTERFACES, value: json(interfaces) }
    }

    /// Where the packets are from: the files that were read.
    pub fn source(files: &[SourceFile]) -> Self {
        Self { name: "wirerate.source", value: json(files) }
    }

    /// The report of the capture, an object `wirerate.capture/2`.
    pub fn capture(report: String) -> Self {
        Self { name: "wirerate.capture", value: report }
    }
}

fn json(value: impl Serialize) -> String {
    serde_json::to_string(&value).expect("text and numbers are JSON")
}

pub(crate) fn to_footer(keys: &[Key]) -> Vec<KeyValue> {
    keys.iter().map(|key| KeyValue::new(key.name.to_owned(), key.value.clone())).collect()
}
