//! Frames of capture files, for `pcap("FILE", NUMBER)` in trafgen's language.

use frames::CaptureFrames;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// The frames of capture files that were read, for `pcap("FILE", NUMBER)`.
#[derive(Debug, Default)]
pub struct CaptureFiles(HashMap<String, Vec<Vec<u8>>>);

impl CaptureFrames for CaptureFiles {
    fn frame(&mut self, file: &str, number: u64) -> Result<Vec<u8>, String> {
        if !self.0.contains_key(file) {
            let frames = frames_of(Path::new(file)).map_err(|why| format!("cannot read {file}: {why:#}"))?;
            self.0.insert(file.to_owned(), frames);
        }
        let frames = &self.0[file];
        let index = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        frames.get(index).cloned().ok_or_else(|| format!("{file} has frames 1 to {}", frames.len()))
    }
}

/// All frames of a pcap or pcapng file.
///
/// # Errors
/// The file cannot be read.
pub fn frames_of(path: &Path) -> Result<Vec<Vec<u8>>, anyhow::Error> {
    let mut frames = Vec::new();
    match pcapng::pcap::Reader::new(File::open(path)?) {
        Ok(mut reader) => {
            while let Some(record) = reader.next_record()? {
                frames.push(record.data.to_vec());
            }
        }
        Err(pcapng::ReadError::Magic { .. }) => {
            let mut reader = pcapng::Reader::new(File::open(path)?);
            while let Some(block) = reader.next_block()? {
                if let pcapng::Block::Packet(packet) = block {
                    frames.push(packet.data.to_vec());
                }
            }
        }
        Err(why) => return Err(why.into()),
    }
    Ok(frames)
}
