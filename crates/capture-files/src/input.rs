//! Capture files as streams of bytes: plain or compressed, by their first bytes, or standard input.

use super::ahead::{ByteStream, ReadAhead};
use super::decompress::{CompressedBytes, Decompressed, FileBytes, Method};
use program::shell::shell_word;
use program::waiting_read::WaitingRead;
use std::io;
use std::path::Path;

/// The plain bytes of a file, and how far it was read.
pub struct OpenedFile {
    /// The plain bytes.
    pub bytes: ByteStream,
    /// Length of the file in bytes; nothing for a stream.
    pub file_len: Option<u64>,
    /// What is known of a compressed file.
    pub compressed: Option<CompressedBytes>,
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
/// When it cannot be opened.
pub fn open(path: &Path) -> io::Result<OpenedFile> {
    of_stream(Box::new(WaitingRead::open(path)?), file_len(path))
}

/// A file whose bytes a stream has.
pub(super) fn of_stream(stream: ByteStream, file_len: Option<u64>) -> io::Result<OpenedFile> {
    let mut file = FileBytes::new(stream);
    if Method::of(file.magic()?).is_none() {
        return Ok(OpenedFile { bytes: Box::new(file), file_len, compressed: None });
    }
    let decompressed = Decompressed::new(file);
    let compressed = Some(decompressed.facts());
    Ok(OpenedFile { bytes: Box::new(ReadAhead::new(Box::new(decompressed))?), file_len, compressed })
}

/// Converts a file of a format that Wireshark reads.
const EDITCAP: &str = "editcap -F pcapng";

/// A file that is not read, because a program makes a readable one of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct OtherFormat {
    reason: String,
    /// The program that undoes the compression of the whole file, if there is one.
    outer: Option<&'static str>,
    /// The command that prints what wirerate reads, up to the file; empty for none.
    command: &'static str,
    /// What it writes to standard output after the file.
    to_stdout: &'static str,
}

impl OtherFormat {
    /// The format of a file that begins with `magic`; `program` decompressed it.
    pub(super) fn of(magic: &[u8], program: Option<&'static str>) -> Option<Self> {
        let (what, command, to_stdout) = match magic {
            [b'B', b'Z', b'h', ..] => ("it is compressed by bzip2", "bzip2 -dc", ""),
            [0x02, 0x21, 0x4c, 0x18, ..] => ("it is compressed in the legacy format of lz4", "lz4 -dc", ""),
            [b'P', b'K', 3, 4, ..] => ("it is a zip archive", "unzip -p", ""),
            [0x5d, 0, 0, ..] => ("it is compressed by lzma", "xz -dc", ""),
            [0x1f, 0x9d, ..] => ("it is compressed by compress", "gzip -dc", ""),
            [b'7', b'z', 0xbc, 0xaf, ..] => ("it is a 7z archive", "7z x -so", ""),
            [b's', b'n', b'o', b'o', b'p', 0, ..] => ("it is a snoop file (RFC 1761)", EDITCAP, " -"),
            [b'b', b't', b's', b'n', b'o', b'o', b'p', 0, ..] => ("it is a btsnoop file", EDITCAP, " -"),
            [b'T', b'R', 0, b'd', 0, ..] => ("it is a nettl file of HP-UX", EDITCAP, " -"),
            [b'T', b'R', b'S', b'N', b'I', b'F', b'F', ..] => ("it is a Sniffer file", EDITCAP, " -"),
            [b'X', b'C', b'P', 0, ..] => ("it is a NetXRay file", EDITCAP, " -"),
            [b'R', b'T', b'S', b'S', ..] | [b'G', b'M', b'B', b'U', ..] => {
                ("it is a file of Microsoft Network Monitor", EDITCAP, " -")
            }
            [b'i', b'p', b't', b'r', b'a', b'c', b'e', b' ', ..] => {
                ("it is an iptrace file of AIX", EDITCAP, " -")
            }
            [0x7f, b'v', b'e', b'r', ..] => ("it is a file of OmniPeek", EDITCAP, " -"),
            [0x05, b'V', b'N', b'F', ..] => ("it is a file of Visual Networks", EDITCAP, " -"),
            [0xaa, 0xaa, 0xaa, 0xaa, ..] => ("it is a 5View file", EDITCAP, " -"),
            _ if Method::of(magic).is_some() => ("it is compressed twice", "", ""),
            _ => return None,
        };
        let inside = program.map_or(String::new(), |program| format!(", inside {program}"));
        Some(Self { reason: format!("{what}{inside}"), outer: program, command, to_stdout })
    }

    /// The command that makes `command` of wirerate read the file at `path`.
    pub(super) fn advice(&self, path: &Path, command: &str) -> String {
        let path = if is_stdin(path) { "FILE".to_owned() } else { shell_word(path) };
        let Self { outer, command: inner, to_stdout, .. } = self;
        let inner = match (outer, *inner) {
            (None, inner) => format!("{inner} {path}{to_stdout}"),
            (Some(outer), "") => format!("{outer} -dc {path}"),
            (Some(outer), "unzip -p") => format!("{outer} -dc {path} | funzip"),
            // It does not read archives from standard input.
            (Some(outer), "7z x -so") => format!("{outer} -dc {path} >x.7z && 7z x -so x.7z"),
            (Some(outer), EDITCAP) => format!("{outer} -dc {path} | {EDITCAP} - -"),
            (Some(outer), inner) => format!("{outer} -dc {path} | {inner}"),
        };
        format!("{inner} | wirerate {command} -")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

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
        // A frame that both zstd and lz4 skip does not say which program wrote the next one.
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9][..], &lz4()].concat();
        for (name, bytes, program) in [
            ("gz", gzip(), Some("gzip")),
            ("zst", zstd, Some("zstd")),
            ("lz4", lz4(), Some("lz4")),
            ("skipped", skipped, Some("lz4")),
            ("xz", xz(), Some("xz")),
            ("plain", plain.clone(), None),
        ] {
            let path = dir.join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut read = Vec::new();
            let mut opened = open(&path).unwrap();
            opened.bytes.read_to_end(&mut read).unwrap();
            assert!(read == plain, "{name}");
            let file_len = std::fs::metadata(&path).unwrap().len();
            assert_eq!(opened.file_len, Some(file_len), "{name}");
            let found = opened.compressed.map(|found| (found.consumed(), found.program()));
            assert_eq!(found, program.map(|program| (file_len, program)), "{name}");
        }
    }

    #[test]
    fn other_formats_are_named_with_the_command_that_unpacks_them() {
        let advice = |magic: &[u8], program| {
            let other = OtherFormat::of(magic, program).unwrap();
            (other.to_string(), other.advice(Path::new("f"), "analyze"))
        };
        for (magic, reason, command) in [
            (&b"BZh91AY"[..], "it is compressed by bzip2", "bzip2 -dc f | wirerate analyze -"),
            (
                &[2, 0x21, 0x4c, 0x18],
                "it is compressed in the legacy format of lz4",
                "lz4 -dc f | wirerate analyze -",
            ),
            (b"PK\x03\x04", "it is a zip archive", "unzip -p f | wirerate analyze -"),
            (b"\x5d\x00\x00\x80", "it is compressed by lzma", "xz -dc f | wirerate analyze -"),
            (
                b"snoop\x00\x00\x00",
                "it is a snoop file (RFC 1761)",
                "editcap -F pcapng f - | wirerate analyze -",
            ),
            (b"TR\0d\0\0", "it is a nettl file of HP-UX", "editcap -F pcapng f - | wirerate analyze -"),
        ] {
            assert_eq!(advice(magic, None), (reason.to_owned(), command.to_owned()));
        }
        assert_eq!(
            advice(&[0x28, 0xb5, 0x2f, 0xfd], Some("gzip")),
            ("it is compressed twice, inside gzip".to_owned(), "gzip -dc f | wirerate analyze -".to_owned())
        );
        for (magic, command) in [
            (&b"snoop\0\0\0"[..], "gzip -dc f | editcap -F pcapng - - | wirerate analyze -"),
            (b"BZh91AY", "gzip -dc f | bzip2 -dc | wirerate analyze -"),
            (b"PK\x03\x04", "gzip -dc f | funzip | wirerate analyze -"),
            (b"7z\xbc\xaf", "gzip -dc f >x.7z && 7z x -so x.7z | wirerate analyze -"),
        ] {
            assert_eq!(advice(magic, Some("gzip")).1, command);
        }
        assert_eq!(OtherFormat::of(&[0xd4, 0xc3, 0xb2, 0xa1], None), None);
    }
}
