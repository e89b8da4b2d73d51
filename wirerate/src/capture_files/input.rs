//! Capture files as streams of bytes: plain or compressed, by their first bytes, or standard input.

use anyhow::bail;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that decide: the longest magic below.
const MAGIC_LEN: usize = 6;
/// No longer than what the readers of both formats ask for, so that their reads of plain files go
/// past it.
const BUFFER_LEN: usize = 64 << 10;

/// A stream of the bytes of a file.
pub type ByteStream = Box<dyn Read + Send>;

/// The plain bytes of a file, and how far it was read.
pub struct OpenedFile {
    /// The plain bytes.
    pub bytes: ByteStream,
    /// Length of the file in bytes; nothing for a stream.
    pub file_len: Option<u64>,
    /// Bytes that were read of a compressed file; nothing if it is not compressed.
    pub compressed: Option<Arc<AtomicU64>>,
}

/// Counts the bytes that are read.
struct CountedRead {
    input: Box<dyn Read + Send>,
    count: Arc<AtomicU64>,
}

impl Read for CountedRead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.count.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

/// True if the path means standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Length of a regular file in bytes.
pub fn file_len(path: &Path) -> Option<u64> {
    let facts = std::fs::metadata(path).ok().filter(|facts| facts.is_file() && !is_stdin(path));
    facts.map(|facts| facts.len())
}

/// Opens a file.
///
/// # Errors
/// When it cannot be opened, or is compressed by a method that is not supported.
pub fn open(path: &Path) -> anyhow::Result<OpenedFile> {
    let input: ByteStream = match is_stdin(path) {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    let count = Arc::<AtomicU64>::default();
    let file = CountedRead { input, count: Arc::clone(&count) };
    let mut magic = Vec::with_capacity(MAGIC_LEN);
    let mut file = BufReader::with_capacity(BUFFER_LEN, file);
    file.by_ref().take(MAGIC_LEN as u64).read_to_end(&mut magic)?;
    let decompress = magic.clone();
    let whole = BufReader::with_capacity(BUFFER_LEN, io::Cursor::new(magic).chain(file));
    let mut is_compressed = true;
    let bytes: ByteStream = match decompress[..] {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::with_buffer(whole)?),
        [0x04, 0x22, 0x4d, 0x18, ..] => Box::new(lz4_flex::frame::FrameDecoder::new(whole)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(whole)),
        [b'B', b'Z', b'h', ..] => bail!("it is compressed by bzip2, which must be undone before"),
        _ => {
            is_compressed = false;
            Box::new(whole)
        }
    };
    Ok(OpenedFile { bytes, file_len: file_len(path), compressed: is_compressed.then_some(count) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn compressed_files_are_read_by_their_first_bytes() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let gzip = || {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(&plain).unwrap();
            out.finish().unwrap()
        };
        let lz4 = || {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(&plain).unwrap();
            out.finish().unwrap()
        };
        let xz = || {
            let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
            out.write_all(&plain).unwrap();
            out.finish().unwrap()
        };
        let zstd = zstd::stream::encode_all(&plain[..], 1).unwrap();
        let dir = testkit::Folder::new("input");
        for (name, bytes) in
            [("gz", gzip()), ("zst", zstd), ("lz4", lz4()), ("xz", xz()), ("plain", plain.clone())]
        {
            let path = dir.join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut read = Vec::new();
            let mut opened = open(&path).unwrap();
            opened.bytes.read_to_end(&mut read).unwrap();
            assert!(read == plain, "{name}");
            let file_len = std::fs::metadata(&path).unwrap().len();
            assert_eq!(opened.file_len, Some(file_len), "{name}");
            let count = opened.compressed.map(|count| count.load(Relaxed));
            assert_eq!(count, (name != "plain").then_some(file_len), "{name}");
        }
        std::fs::write(dir.join("bz2"), b"BZh91AY").unwrap();
        let why = open(&dir.join("bz2")).err().unwrap();
        assert_eq!(why.to_string(), "it is compressed by bzip2, which must be undone before");
    }
}
