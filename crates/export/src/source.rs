//! Capture files that are exported: their length and checksum, which a thread of its own finds
//! while their packets are read.

use capture_files::input::is_stdin;
use columns::SourceFile;
use program::stop::Stop;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read};
use std::path::Path;
use std::thread::{self, JoinHandle};
use twox_hash::XxHash64;

/// Bytes that are read at once.
const READ_LEN: usize = 256 << 10;

/// A file whose length and checksum are known, or will be.
pub(super) enum Source {
    Known(SourceFile),
    /// The thread returns nothing for a file that it did not read to its end.
    Reading(String, JoinHandle<Option<(u64, String)>>),
}

impl Default for Source {
    fn default() -> Self {
        Self::Known(SourceFile::default())
    }
}

impl Source {
    /// Begins to read a file, unless it is a stream.
    ///
    /// # Errors
    /// A file that cannot be opened, or a thread that the kernel refuses.
    pub(super) fn of(path: &Path, stop: &Stop) -> io::Result<Self> {
        let name = path.display().to_string();
        if is_stdin(path) || !std::fs::metadata(path)?.is_file() {
            return Ok(Self::Known(SourceFile { file: name, ..SourceFile::default() }));
        }
        let (file, stop) = (File::open(path)?, stop.clone());
        // The reader of the packets reports an error of the file.
        let read = move || checksum(file, &stop).ok().flatten();
        Ok(Self::Reading(name, thread::Builder::new().name("checksum".to_owned()).spawn(read)?))
    }

    /// The file with its length and checksum; waits for them.
    pub(super) fn facts(&mut self) -> SourceFile {
        let facts = match std::mem::take(self) {
            Self::Known(facts) => facts,
            Self::Reading(file, thread) => {
                let (bytes, xxh64) = thread.join().expect("the checksum does not panic").unzip();
                SourceFile { file, bytes, xxh64 }
            }
        };
        *self = Self::Known(facts.clone());
        facts
    }
}

/// Length and XXH64 of a file; nothing after a stop.
fn checksum(mut file: File, stop: &Stop) -> io::Result<Option<(u64, String)>> {
    let (mut hash, mut len) = (XxHash64::with_seed(0), 0);
    let mut buffer = vec![0; READ_LEN];
    while !stop.is_set() {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Some((len, format!("{:016x}", hash.finish()))));
        }
        hash.write(&buffer[..read]);
        len += read as u64;
    }
    Ok(None)
}
