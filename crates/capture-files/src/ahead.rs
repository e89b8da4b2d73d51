//! A stream that a thread of its own reads ahead, so that decompression and its user work at the
//! same time.

use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// A stream of the bytes of a file.
pub(super) type ByteStream = Box<dyn Read + Send>;

/// Bytes of one chunk.
const CHUNK_LEN: usize = 256 << 10;
/// Chunks that wait for the user, at most.
const CHUNKS_MAX: usize = 4;

/// The user's end. Once it is dropped, the thread ends with its next chunk.
pub(super) struct ReadAhead {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
    /// The last chunk, or an error, has come.
    has_ended: bool,
}

impl ReadAhead {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the kernel refuses a thread.
    pub(super) fn new(stream: ByteStream) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(CHUNKS_MAX);
        thread::Builder::new().name("decompress".to_owned()).spawn(move || read_all(stream, &sender))?;
        Ok(Self { chunks, chunk: Vec::new(), at: 0, has_ended: false })
    }
}

/// Reads until the stream or its user ends. The last chunk is empty.
fn read_all(mut stream: ByteStream, chunks: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; CHUNK_LEN];
    loop {
        let chunk = match stream.read(&mut buffer) {
            Ok(len) => Ok(buffer[..len].to_vec()),
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(why) => Err(why),
        };
        let is_last = chunk.as_ref().map_or(true, Vec::is_empty);
        if chunks.send(chunk).is_err() || is_last {
            return;
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            if self.has_ended {
                return Ok(0);
            }
            // Without a last chunk, a decompressor has panicked.
            let chunk =
                self.chunks.recv().unwrap_or_else(|_| Err(io::Error::other("the decompressor failed")));
            self.has_ended = chunk.as_ref().map_or(true, Vec::is_empty);
            (self.chunk, self.at) = (chunk?, 0);
        }
        let read = (&self.chunk[self.at..]).read(into)?;
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_the_error_behind_them_arrive_in_order() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("bad sector"))
            }
        }
        let bytes: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut ahead = ReadAhead::new(Box::new(io::Cursor::new(bytes.clone()).chain(Broken))).unwrap();
        let mut found = Vec::new();
        let why = ahead.read_to_end(&mut found).unwrap_err();
        assert!(found == bytes);
        assert_eq!(why.to_string(), "bad sector");
        assert_eq!(ahead.read(&mut [0; 8]).unwrap(), 0);
    }

    /// The end of the thread was taken for the end of the file.
    #[test]
    fn a_decompressor_that_panics_is_an_error() {
        struct Panics;
        impl Read for Panics {
            fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
                panic!("as a library with a fault");
            }
        }
        let mut ahead = ReadAhead::new(Box::new(io::Cursor::new([7; 100]).chain(Panics))).unwrap();
        let mut found = Vec::new();
        let why = ahead.read_to_end(&mut found).unwrap_err();
        assert_eq!((found.len(), why.to_string()), (100, "the decompressor failed".to_owned()));
        assert_eq!(ahead.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_user_that_leaves_early_ends_the_thread() {
        let mut ahead = ReadAhead::new(Box::new(io::repeat(7))).unwrap();
        ahead.read_exact(&mut [0; 8]).unwrap();
        drop(ahead);
    }
}
