//! Reads capture files: number of records, and bytes of each.

use anyhow::{Context, Result, ensure};
use pcapng::{Block, Reader, pcap};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

/// The first four bytes of a pcapng file, in any byte order.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The bytes that a tool makes of frames of one length: a constant and so many for each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordShape {
    /// Of each frame.
    pub(crate) record_bytes: u64,
    /// Of everything else.
    pub(crate) other_bytes: u64,
}

impl RecordShape {
    /// Of a file of `records` records that takes `bytes`. There have to be more records than other
    /// bytes.
    pub(crate) fn of(records: u64, bytes: u64) -> Option<Self> {
        let record_bytes = bytes.checked_div(records).filter(|bytes| *bytes > 0)?;
        Some(Self { record_bytes, other_bytes: bytes % records })
    }

    /// Number of whole records in so many bytes.
    pub(crate) fn records(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.other_bytes) / self.record_bytes
    }
}

/// Number of frames in a pcap or pcapng file.
pub(crate) fn count(path: &Path) -> Result<u64> {
    let start = || File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let mut magic = [0; 4];
    std::io::Read::read_exact(&mut start()?, &mut magic)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let input = BufReader::with_capacity(1 << 20, start()?);
    let counted = if magic == PCAPNG { count_pcapng(input) } else { count_pcap(input) };
    counted.with_context(|| format!("{} is not a capture file as it should be", path.display()))
}

fn count_pcapng(input: impl std::io::Read) -> Result<u64> {
    let (mut reader, mut frames) = (Reader::new(input), 0);
    while let Some(block) = reader.next_block()? {
        frames += u64::from(matches!(block, Block::Packet(_)));
    }
    Ok(frames)
}

fn count_pcap(input: impl std::io::Read) -> Result<u64> {
    let (mut reader, mut frames) = (pcap::Reader::new(input)?, 0);
    while reader.next_record()?.is_some() {
        frames += 1;
    }
    Ok(frames)
}

/// Counts the frames of a file that has to hold `frames` of one length, and learns what shape it
/// has.
pub(crate) fn learn(path: &Path, frames: u64) -> Result<RecordShape> {
    let found = count(path)?;
    ensure!(found == frames, "the file holds {found} frames instead of {frames}");
    let bytes = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?.len();
    RecordShape::of(frames, bytes).with_context(|| format!("{bytes} bytes for {frames} frames make no sense"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pcap_file_is_counted_and_its_shape_learned() {
        let folder = testkit::Folder::new("records");
        let path = folder.join("x.pcap");
        let header = pcap::Header {
            precision: pcap::Precision::Nanoseconds,
            order: pcapng::ByteOrder::Little,
            snaplen: 96,
            link_type: 1,
            ..pcap::Header::default()
        };
        let mut writer = pcap::Writer::new(Vec::new(), &header).unwrap();
        for time_ns in 0..100 {
            writer.record(&pcap::Record { time_ns, frame_len: 128, data: &[0xee; 96] }).unwrap();
        }
        fs::write(&path, writer.finish().unwrap()).unwrap();
        let shape = learn(&path, 100);
        let wrong = learn(&path, 99);
        assert_eq!(shape.unwrap(), RecordShape { record_bytes: 16 + 96, other_bytes: 24 });
        assert!(wrong.unwrap_err().to_string().contains("holds 100 frames instead of 99"));
    }

    #[test]
    fn nothing_has_no_shape() {
        assert_eq!(RecordShape::of(0, 100), None);
        assert_eq!(RecordShape::of(100, 99), None);
    }

    proptest! {
        #[test]
        fn records_come_back(record in 16..9000_u64, other in 0..4096_u64, frames in 0..1_000_000_u64) {
            let shape = RecordShape::of(4096, 4096 * record + other).unwrap();
            prop_assert_eq!(shape, RecordShape { record_bytes: record, other_bytes: other });
            prop_assert_eq!(shape.records(frames * record + other), frames);
            prop_assert_eq!(shape.records((frames * record + other).saturating_sub(1)), frames.saturating_sub(1));
        }
    }
}
