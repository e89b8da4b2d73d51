//! The output file as a stream of bytes: plain or compressed, by its name.

use capture::names::plain_name;
use capture::open;
use flate2::Compression;
use flate2::write::GzEncoder;
use lz4_flex::frame::FrameEncoder;
use std::fs;
use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Bytes that are written at once.
const WRITE_LEN: usize = 1 << 20;
/// Full buffers that wait for the thread.
const BUFFERS_WAITING: usize = 4;
/// Fast enough that reading is the limit.
const GZIP_LEVEL: u32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// Compression of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// None.
    Plain,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
    /// lz4.
    Lz4,
}

impl Compressor {
    /// By the end of a name.
    pub fn of_name(name: &str) -> Self {
        match &name[plain_name(name).len()..] {
            ".gz" => Self::Gzip,
            ".zst" => Self::Zstd,
            ".lz4" => Self::Lz4,
            _ => Self::Plain,
        }
    }
}

enum Encoder<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Lz4(Box<FrameEncoder<W>>),
}

impl<W: Write> Encoder<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
            Self::Lz4(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
            Self::Lz4(encoder) => encoder.finish().map_err(io::Error::other)?,
        };
        out.flush()
    }
}

/// The bytes of an output file. A thread compresses and writes them. A file has its name once it is
/// complete.
pub struct OutputBytes {
    /// Bytes that the thread does not have yet.
    buffer: Vec<u8>,
    /// Full buffers for the thread; nothing once it was told to end.
    full: Option<SyncSender<Vec<u8>>>,
    /// Empty buffers of the thread.
    empty: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    place: Option<PartFile>,
}

/// A file that is being written: its name until it is complete, and its final name.
struct PartFile {
    part: PathBuf,
    path: PathBuf,
}

impl Drop for PartFile {
    /// A file that was not completed is removed.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part);
    }
}

impl OutputBytes {
    /// Of a file, or of standard output without a path.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: Option<&Path>, compressor: Compressor) -> io::Result<Self> {
        let is_special = |path: &Path| fs::metadata(path).is_ok_and(|facts| !facts.is_file());
        let (out, place): (Box<dyn Write + Send>, _) = match path {
            None => (Box::new(io::stdout()), None),
            Some(path) if is_special(path) => (Box::new(open::create(path)?), None),
            Some(path) => {
                open::refuse_links(path)?;
                // A link stays, and its target gets the bytes.
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                let mut part = path.as_os_str().to_owned();
                part.push(format!(".part{}", std::process::id()));
                let place = PartFile { part: part.into(), path };
                let file = open::create(&place.part)?;
                if let Ok(before) = fs::metadata(&place.path) {
                    file.set_permissions(before.permissions())?;
                }
                (Box::new(file), Some(place))
            }
        };
        let encoder = match compressor {
            Compressor::Plain => Encoder::Plain(out),
            Compressor::Gzip => Encoder::Gzip(GzEncoder::new(out, Compression::new(GZIP_LEVEL))),
            Compressor::Zstd => Encoder::Zstd(zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?),
            Compressor::Lz4 => Encoder::Lz4(Box::new(FrameEncoder::new(out))),
        };
        let (full, filled) = sync_channel::<Vec<u8>>(BUFFERS_WAITING);
        let (written, empty) = channel();
        let write = move || {
            let mut encoder = encoder;
            for mut buffer in filled {
                encoder.write_all(&buffer)?;
                buffer.clear();
                // The thread that fills buffers may have ended.
                let _ = written.send(buffer);
            }
            encoder.finish()
        };
        let thread = Some(thread::Builder::new().name("write-file".to_owned()).spawn(write)?);
        let buffer = Vec::with_capacity(WRITE_LEN);
        Ok(Self { buffer, full: Some(full), empty, thread, place })
    }

    /// True for a file that is removed unless it is finished.
    pub fn is_removable(&self) -> bool {
        self.place.is_some()
    }

    /// Gives the buffer to the thread, and takes an empty one.
    fn hand_over(&mut self) -> io::Result<()> {
        let buffer = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(WRITE_LEN));
        let buffer = mem::replace(&mut self.buffer, buffer);
        match self.full.as_ref().is_some_and(|full| full.send(buffer).is_ok()) {
            true => Ok(()),
            // The thread ends before the last buffer only for an error.
            false => self.join(),
        }
    }

    /// Waits for the end of the thread.
    fn join(&mut self) -> io::Result<()> {
        self.full = None;
        let ended = self.thread.take().map(|thread| thread.join().expect("the writer does not panic"));
        ended.unwrap_or_else(|| Err(io::Error::other("the file has ended")))
    }

    /// Writes everything and gives the file its name.
    ///
    /// # Errors
    /// When it cannot be written or named.
    pub fn finish(mut self) -> io::Result<()> {
        self.hand_over()?;
        self.join()?;
        match &self.place {
            Some(PartFile { part, path }) => fs::rename(part, path),
            None => Ok(()),
        }
    }
}

impl Write for OutputBytes {
    /// Takes what fits into the buffer: a packet of many MiB goes to the thread in parts.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() >= WRITE_LEN {
            self.hand_over()?;
        }
        let taken = bytes.len().min(WRITE_LEN - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Does nothing: [`OutputBytes::finish`] writes what is left.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 255 MiB waited whole for the thread, several at a time.
    #[test]
    fn a_long_packet_goes_to_the_thread_in_parts() {
        let folder = testkit::Folder::new("long-packet");
        let path = folder.join("out");
        let bytes: Vec<u8> = (0..3 * WRITE_LEN as u32 + 5).map(|number| (number % 251) as u8).collect();
        let mut output = OutputBytes::create(Some(&path), Compressor::Plain).unwrap();
        assert_eq!(output.write(&bytes).unwrap(), WRITE_LEN);
        output.write_all(&bytes[WRITE_LEN..]).unwrap();
        assert_eq!(output.buffer.capacity(), WRITE_LEN);
        output.finish().unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
    }
}
