//! Frames of capture files, for `pcap("FILE", NUMBER)` in trafgen's language.

use capture_files::records::FileRecords;
use frames::CaptureFrames;
use program::console::Console;
use std::collections::HashMap;
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

/// All frames of a pcap or pcapng file, which may be compressed.
///
/// # Errors
/// The file cannot be read, or a place of it is damaged.
pub fn frames_of(path: &Path) -> Result<Vec<Vec<u8>>, anyhow::Error> {
    let mut records = FileRecords::open(path, &Console::default())?;
    let mut frames = Vec::new();
    while records.advance() {
        frames.push(records.data().to_vec());
    }
    match records.take_damages().places.into_iter().next() {
        Some(place) => Err(anyhow::anyhow!(place)),
        None => Ok(frames),
    }
}
