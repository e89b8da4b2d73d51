//! The output file as a stream of bytes: plain or compressed, by its name.

use flate2::Compression;
use flate2::write::GzEncoder;
use lz4_flex::frame::FrameEncoder;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const WRITE_LEN: usize = 1 << 20;
/// Fast enough that reading is the limit.
const GZIP_LEVEL: u32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// Compression of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compressor {
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
    /// By the end of a name, and the name without it.
    pub(super) fn of_name(name: &str) -> (Self, &str) {
        let known = [(".gz", Self::Gzip), (".zst", Self::Zstd), (".lz4", Self::Lz4)];
        let found = known.iter().find_map(|(end, method)| Some((*method, name.strip_suffix(end)?)));
        found.unwrap_or((Self::Plain, name))
    }
}

enum Encoder<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Lz4(Box<FrameEncoder<W>>),
}

/// The bytes of an output file. A file has its name once it is complete.
pub(super) struct OutputBytes {
    encoder: Encoder<BufWriter<Box<dyn Write>>>,
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
    pub(super) fn create(path: Option<&Path>, compressor: Compressor) -> io::Result<Self> {
        let is_special = |path: &Path| fs::metadata(path).is_ok_and(|facts| !facts.is_file());
        let (out, place): (Box<dyn Write>, _) = match path {
            None => (Box::new(io::stdout()), None),
            Some(path) if is_special(path) => (Box::new(File::create(path)?), None),
            Some(path) => {
                let mut part = path.as_os_str().to_owned();
                part.push(format!(".part{}", std::process::id()));
                let place = PartFile { part: part.into(), path: path.to_owned() };
                (Box::new(File::create(&place.part)?), Some(place))
            }
        };
        let out = BufWriter::with_capacity(WRITE_LEN, out);
        let encoder = match compressor {
            Compressor::Plain => Encoder::Plain(out),
            Compressor::Gzip => Encoder::Gzip(GzEncoder::new(out, Compression::new(GZIP_LEVEL))),
            Compressor::Zstd => Encoder::Zstd(zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?),
            Compressor::Lz4 => Encoder::Lz4(Box::new(FrameEncoder::new(out))),
        };
        Ok(Self { encoder, place })
    }

    /// Writes everything and gives the file its name.
    ///
    /// # Errors
    /// When it cannot be written or named.
    pub(super) fn finish(self) -> io::Result<()> {
        let mut out = match self.encoder {
            Encoder::Plain(out) => out,
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
            Encoder::Lz4(encoder) => encoder.finish().map_err(io::Error::other)?,
        };
        out.flush()?;
        match &self.place {
            Some(PartFile { part, path }) => fs::rename(part, path),
            None => Ok(()),
        }
    }
}

impl Write for OutputBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.encoder {
            Encoder::Plain(out) => out.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
            Encoder::Lz4(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Plain(out) => out.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
            Encoder::Lz4(encoder) => encoder.flush(),
        }
    }
}
