//! The pcapng file that `mgdump` writes, and what a reader counts.

use capture::{MgcapSlot, SLOT_DATA_LEN};
use pcapng::{Interface, Packet, Section};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// A write failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to {path}")]
pub(super) struct WriteFailed {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// A pcapng file of one device. It is written in whole blocks.
#[derive(Debug)]
pub(super) struct PcapngFile {
    path: PathBuf,
    file: File,
}

impl PcapngFile {
    pub(super) fn create(path: PathBuf, device: &str) -> Result<Self, WriteFailed> {
        let begin = || {
            let is_special = path.metadata().is_ok_and(|meta| !meta.is_file());
            let regular = if is_special { None } else { capture::open::open(&path)? };
            let mut file = match regular {
                Some(file) => {
                    file.set_len(0)?;
                    file
                }
                // A FIFO waits for its reader here.
                None => File::options().write(true).open(&path)?,
            };
            file.write_all(&header(device))?;
            Ok(file)
        };
        match begin() {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(WriteFailed { path, source }),
        }
    }

    /// One slot as a packet; its time.
    pub(super) fn encode(slot: &MgcapSlot<'_>, out: &mut Vec<u8>) -> u64 {
        // pcapng has no times before 1970, and no clock in use gives them.
        let time_ns = u64::try_from(slot.time_ns).unwrap_or(0);
        let packet =
            Packet { time_ns, frame_len: slot.frame_len.into(), data: slot.data, ..Packet::default() };
        packet.emit(out);
        time_ns
    }

    /// Appends whole blocks.
    pub(super) fn append(&mut self, blocks: &[u8]) -> Result<(), WriteFailed> {
        self.file.write_all(blocks).map_err(|source| WriteFailed { path: self.path.clone(), source })
    }
}

fn header(device: &str) -> Vec<u8> {
    let mut header = Vec::new();
    let application = Some(format!("wirerate {}", env!("CARGO_PKG_VERSION")));
    Section { application, ..Section::default() }.emit(&mut header);
    let name = Some(device.to_owned());
    Interface { name, snaplen: SLOT_DATA_LEN as u32, ..Interface::default() }.emit(&mut header);
    header
}

/// What one reader counts.
#[derive(Debug, Default)]
pub(super) struct DumpCounts {
    pub(super) received: AtomicU64,
    pub(super) written: AtomicU64,
}
