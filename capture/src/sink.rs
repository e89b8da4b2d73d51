//! The output that all writers share: whole batches of blocks go in, one after the other.
//!
//! When the system refuses more bytes, the file is cut back to its last whole block, with room for the statistics
//! at its end, and takes no packets from then on: what is in it stays readable, what is not is counted.

use crate::encode::whole_blocks;
use crate::{CaptureError, Output};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the closing block takes at most: its head and six counts, no comment.
const CLOSING_LEN_MAX: usize = 256;

enum Place {
    /// Can be cut back.
    Regular(File),
    /// Devices, pipes, and whatever a caller gave.
    Stream(Box<dyn Write + Send>),
}

struct Inner {
    place: Place,
    /// Bytes of whole blocks.
    len: u64,
    failure: Option<io::Error>,
}

/// An open output.
pub(crate) struct Sink {
    name: String,
    inner: Mutex<Inner>,
    has_failed: AtomicBool,
    /// The file, when it was not there before.
    made: Option<PathBuf>,
}

impl Sink {
    /// Makes or empties the file. `None` for no output.
    pub(crate) fn create(output: Output) -> Result<Option<Self>, CaptureError> {
        let (name, place, made) = match output {
            Output::Nowhere => return Ok(None),
            Output::Stream { name, to } => (name, Place::Stream(to), None),
            Output::File(path) => {
                let name = path.display().to_string();
                let is_new = !path.exists();
                let place = File::create(&path).and_then(place_of);
                let place = place.map_err(|source| CaptureError::Create { name: name.clone(), source })?;
                (name, place, is_new.then_some(path))
            }
        };
        let inner = Mutex::new(Inner { place, len: 0, failure: None });
        Ok(Some(Self { name, inner, has_failed: AtomicBool::new(false), made }))
    }

    /// Takes the file away that `create` made, for a capture that never began.
    pub(crate) fn discard(&self) {
        if let Some(path) = &self.made {
            // It is empty or holds a header; should it stay, it does no harm.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Writes the blocks that everything after needs.
    pub(crate) fn begin(&self, header: &[u8]) -> Result<(), CaptureError> {
        let mut inner = self.lock();
        match inner.write(header) {
            Ok(()) => {
                inner.len = header.len() as u64;
                Ok(())
            }
            Err((_, source)) => Err(CaptureError::Write { name: self.name.clone(), len: 0, source }),
        }
    }

    /// Appends packet blocks and says how many of them are in the output now.
    pub(crate) fn append(&self, blocks: &[u8], count: u64) -> u64 {
        let mut inner = self.lock();
        if inner.failure.is_some() {
            return 0;
        }
        match inner.write(blocks) {
            Ok(()) => {
                inner.len += blocks.len() as u64;
                count
            }
            Err((written, failure)) => {
                let kept = inner.cut_back(blocks, written);
                inner.failure = Some(failure);
                self.has_failed.store(true, Relaxed);
                kept
            }
        }
    }

    /// True once the output refused something.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Bytes of whole blocks in the output.
    pub(crate) fn len(&self) -> u64 {
        self.lock().len
    }

    /// Writes the last block and says what went wrong, now or before.
    pub(crate) fn finish(&self, closing: &[u8]) -> Result<(), CaptureError> {
        debug_assert!(closing.len() <= CLOSING_LEN_MAX, "a closing block of {} bytes", closing.len());
        let mut inner = self.lock();
        let failed_before = inner.failure.take();
        let is_lost_stream = failed_before.is_some() && matches!(inner.place, Place::Stream(_));
        let closed = if is_lost_stream { Ok(()) } else { inner.write(closing).and_then(|()| inner.flush()) };
        match &closed {
            Ok(()) if is_lost_stream => {}
            Ok(()) => inner.len += closing.len() as u64,
            Err((written, _)) => drop(inner.cut_back(closing, *written)),
        }
        match failed_before.or(closed.err().map(|(_, failure)| failure)) {
            None => Ok(()),
            Some(source) => Err(CaptureError::Write { name: self.name.clone(), len: inner.len, source }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half way; if it ever does, counting bytes still goes on.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place_of(file: File) -> io::Result<Place> {
    if file.metadata()?.is_file() { Ok(Place::Regular(file)) } else { Ok(Place::Stream(Box::new(file))) }
}

impl Inner {
    /// Writes everything, or says how many bytes went out before the failure.
    fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let to: &mut dyn Write = match &mut self.place {
            Place::Regular(file) => file,
            Place::Stream(stream) => stream,
        };
        let mut written = 0;
        while written < bytes.len() {
            match to.write(&bytes[written..]) {
                Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), (usize, io::Error)> {
        match &mut self.place {
            Place::Regular(_) => Ok(()),
            Place::Stream(stream) => stream.flush().map_err(|error| (0, error)),
        }
    }

    /// Brings the file to an end after the last whole block of `blocks`, of which `written` bytes are in it, and
    /// says how many blocks that leaves. A stream cannot be cut: what is out is out.
    fn cut_back(&mut self, blocks: &[u8], written: usize) -> u64 {
        let Place::Regular(file) = &mut self.place else {
            let (count, len) = whole_blocks(blocks, written);
            self.len += len as u64;
            return count;
        };
        let (count, len) = whole_blocks(blocks, written.saturating_sub(CLOSING_LEN_MAX));
        self.len += len as u64;
        // A shorter file needs no room. Should even this fail, readers stop at the last whole block by themselves.
        let _ = file.set_len(self.len).and_then(|()| file.seek(SeekFrom::Start(self.len)));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcapng::Packet;
    use std::sync::Arc;

    /// Takes so many bytes and then says that the disk is full.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.0.lock().unwrap();
            let len = bytes.len().min(self.1 - taken.len()).min(100);
            if len == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            taken.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn disk(room: usize) -> (Disk, Sink) {
        let disk = Disk(Arc::default(), room);
        let output = Output::Stream { name: "disk".to_owned(), to: Box::new(disk.clone()) };
        (disk, Sink::create(output).unwrap().unwrap())
    }

    fn blocks(count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..count {
            Packet { data: &[1; 96], ..Packet::default() }.emit(&mut out);
        }
        out
    }

    #[test]
    fn short_writes_are_carried_on() {
        let (disk, sink) = disk(10_000);
        sink.begin(b"header").unwrap();
        assert_eq!(sink.append(&blocks(20), 20), 20);
        sink.finish(b"end!").unwrap();
        assert_eq!(*disk.0.lock().unwrap(), [b"header", &blocks(20)[..], b"end!"].concat());
        assert_eq!(sink.len(), 10 + blocks(20).len() as u64);
    }

    #[test]
    fn full_stream_counts_the_whole_blocks_that_went_out() {
        let one = blocks(1).len();
        let (disk, sink) = disk(3 * one + 20);
        assert_eq!(sink.append(&blocks(2), 2), 2);
        assert!(!sink.has_failed());
        assert_eq!(sink.append(&blocks(4), 4), 1);
        assert!(sink.has_failed());
        assert_eq!(sink.append(&blocks(1), 1), 0, "nothing more after the gap");
        let error = sink.finish(&blocks(1)).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write to disk after {} bytes", 3 * one));
        assert_eq!(disk.0.lock().unwrap().len(), 3 * one + 20);
    }

    #[test]
    fn file_that_cannot_be_made_is_named() {
        let error = Sink::create(Output::File("/nonexistent/x.pcapng".into())).err().unwrap();
        assert_eq!(error.to_string(), "cannot create the capture file /nonexistent/x.pcapng");
    }

    #[test]
    fn header_that_does_not_fit_is_an_error_of_the_file() {
        let (_, sink) = disk(3);
        let error = sink.begin(b"header").unwrap_err();
        assert_eq!(error.to_string(), "cannot write to disk after 0 bytes");
    }

    #[test]
    fn devices_are_written_to_like_pipes() {
        let sink = Sink::create(Output::File("/dev/null".into())).unwrap().unwrap();
        assert_eq!(sink.append(&blocks(3), 3), 3);
        sink.finish(&[]).unwrap();
        let full = Sink::create(Output::File("/dev/full".into())).unwrap().unwrap();
        assert_eq!(full.append(&blocks(3), 3), 0);
        assert!(full.has_failed());
    }
}
