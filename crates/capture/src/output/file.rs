//! One open output that takes whole records.
//!
//! Space for the trailer of a regular file (the statistics, and what ends a compressed file) is
//! reserved together with the space for each record. So a full disk, a quota or a size limit is
//! noticed before a record is written, and the trailer always fits. On a file system without
//! `fallocate` the write itself fails instead: the file is cut back to a whole record, and the
//! trailer is written if there is space.

use crate::output::disk::{DiskFile, Ways};
use crate::output::pipe::Pipe;
use crate::record::batch::{self, Chunk};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Time between two tries to write to a file that refused something, if the capture continues.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Where bytes are written to.
pub(crate) enum Destination {
    /// Can be cut back.
    Regular(DiskFile),
    /// Has a reader that may stop reading or close its end.
    Pipe(Pipe),
    /// Devices, and writers that the caller supplied.
    Stream(Box<dyn Write + Send>),
}

impl Destination {
    /// The kind of the file decides.
    pub(crate) fn of(file: File, ways: Ways, is_ending: &Arc<AtomicBool>) -> io::Result<Self> {
        match file.metadata()?.is_file() {
            true => Ok(Self::Regular(DiskFile::new(file, ways)?)),
            false => Ok(Self::of_descriptor(file, is_ending)),
        }
    }

    /// A descriptor that the caller supplied. A regular file is written from its current position
    /// on.
    pub(crate) fn of_descriptor(file: File, is_ending: &Arc<AtomicBool>) -> Self {
        match Pipe::of(file, Arc::clone(is_ending)) {
            Ok(pipe) => Self::Pipe(pipe),
            Err(file) => Self::Stream(Box::new(file)),
        }
    }

    /// Writes everything, or returns how many bytes were written before the failure.
    fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let to: &mut dyn Write = match self {
            Self::Regular(file) => return file.write(bytes),
            Self::Pipe(pipe) => pipe,
            Self::Stream(stream) => stream,
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
}

/// An open output that takes whole records.
pub(crate) struct OutputFile {
    place: Destination,
    /// Bytes of the trailer at most.
    trailer_len_max: usize,
    /// Bytes of whole records, and of the headers and the trailer.
    len: u64,
    /// The first error.
    failure: Option<io::Error>,
    /// Time of the last error, if nothing was written since.
    failed_at: Option<Instant>,
    /// Whether a file is written to again some time after an error.
    retries: bool,
    /// Something was written since the last flush.
    is_unflushed: bool,
}

impl OutputFile {
    pub(crate) fn new(place: Destination, trailer_len_max: usize) -> Self {
        Self {
            place,
            trailer_len_max,
            len: 0,
            failure: None,
            failed_at: None,
            retries: false,
            is_unflushed: false,
        }
    }

    /// Lets a file be written to again some time after an error.
    pub(crate) fn retry_after_failure(&mut self, retries: bool) {
        self.retries = retries && self.is_regular();
    }

    /// Writes the headers.
    pub(crate) fn begin(&mut self, header: &[u8]) -> io::Result<()> {
        match &mut self.place {
            // A FIFO may have no reader yet.
            Destination::Pipe(pipe) => pipe.begin(header),
            place => place.write(header).map_err(|(_, error)| error)?,
        }
        self.len = header.len() as u64;
        self.is_unflushed = true;
        Ok(())
    }

    /// Changes the length of the trailer.
    pub(crate) fn set_trailer_len_max(&mut self, trailer_len_max: usize) {
        self.trailer_len_max = trailer_len_max;
    }

    /// Writes as many records as there is space for, the first ones, and returns how many.
    pub(crate) fn append(&mut self, chunk: &Chunk<'_>) -> usize {
        if self.is_resting() {
            return 0;
        }
        let count = self.fitting(chunk);
        let len =
            if count == chunk.index.len() { chunk.bytes.len() } else { batch::len_of(&chunk.index[..count]) };
        let Err((written, error)) = self.place.write(&chunk.bytes[..len]) else {
            self.wrote(len);
            if count == chunk.index.len() {
                self.failed_at = None;
            }
            return count;
        };
        self.fail(error);
        // What a stream was given cannot be taken back; in a file, space is left for the trailer.
        let reserve = if self.is_regular() { self.trailer_len_max } else { 0 };
        let (kept, len) = batch::whole(chunk.index, written.saturating_sub(reserve));
        self.cut_to(len);
        kept
    }

    /// Writes bytes that are only useful together: all or none. Returns whether they were written.
    pub(crate) fn append_block(&mut self, bytes: &[u8]) -> bool {
        if self.is_resting() || !self.reserve(bytes.len()) {
            return false;
        }
        let has_failed = self.write_or_fail(bytes);
        if !has_failed {
            self.failed_at = None;
        }
        !has_failed
    }

    /// Bytes in the output, without incomplete records.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// True once the output refused something.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The first error.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Lets other processes see everything.
    pub(crate) fn flush(&mut self) {
        let flushed = match &mut self.place {
            Destination::Stream(stream) if std::mem::take(&mut self.is_unflushed) => stream.flush(),
            Destination::Stream(_) => Ok(()),
            Destination::Pipe(_) if self.failure.is_some() => Ok(()),
            Destination::Pipe(pipe) => pipe.tick(),
            Destination::Regular(file) => file.show(),
        };
        flushed.unwrap_or_else(|error| self.fail(error));
    }

    /// Lets other processes see everything, and writes a file to the disk.
    pub(crate) fn sync(&mut self) {
        self.flush();
        if let Destination::Regular(file) = &mut self.place
            && let Err(error) = file.sync()
        {
            self.fail(error);
        }
    }

    /// Writes the trailer. Returns whether it is in the output.
    pub(crate) fn end(&mut self, trailer: &[u8]) -> bool {
        (self.is_regular() || !self.has_failed()) && !self.write_or_fail(trailer)
    }

    /// Closes the output. Returns its length and the first error.
    pub(crate) fn finish(mut self) -> (u64, Option<io::Error>) {
        let is_lost = self.has_failed() && !self.is_regular();
        if !is_lost {
            self.is_unflushed = true;
            self.flush();
        }
        if let (Destination::Pipe(pipe), false) = (&mut self.place, is_lost)
            && let Err(error) = pipe.flush()
        {
            self.fail(error);
        }
        if let Destination::Regular(file) = self.place
            && let Err(error) = file.finish()
        {
            self.failure.get_or_insert(error);
        }
        (self.len, self.failure)
    }

    fn is_regular(&self) -> bool {
        matches!(self.place, Destination::Regular(_))
    }

    /// True if an error is too recent for another try.
    fn is_resting(&self) -> bool {
        self.failed_at.is_some_and(|at| !self.retries || at.elapsed() < RETRY_AFTER)
    }

    fn fail(&mut self, error: io::Error) {
        self.failed_at = Some(Instant::now());
        self.failure.get_or_insert(error);
    }

    /// Number of records that fit with the trailer; their space is reserved.
    fn fitting(&mut self, chunk: &Chunk<'_>) -> usize {
        if self.reserve(chunk.bytes.len()) {
            return chunk.index.len();
        }
        let (mut fitting, mut too_many) = (0, chunk.index.len());
        while too_many - fitting > 1 {
            let count = fitting.midpoint(too_many);
            match self.reserve(batch::len_of(&chunk.index[..count])) {
                true => fitting = count,
                false => too_many = count,
            }
        }
        fitting
    }

    /// Reserves space for so many bytes and the trailer.
    fn reserve(&mut self, len: usize) -> bool {
        let Destination::Regular(file) = &mut self.place else { return true };
        file.reserve(len + self.trailer_len_max).map_err(|error| self.fail(error)).is_ok()
    }

    /// Writes everything or, if the output can be cut, nothing. Returns whether it failed.
    fn write_or_fail(&mut self, bytes: &[u8]) -> bool {
        let failed = self.place.write(bytes).map_err(|(_, error)| error);
        match failed {
            Ok(()) => {
                self.wrote(bytes.len());
                false
            }
            Err(error) => {
                self.fail(error);
                self.cut_to(0);
                true
            }
        }
    }

    fn wrote(&mut self, len: usize) {
        self.len += len as u64;
        self.is_unflushed = true;
    }

    /// After a failed write: keeps `len` of its bytes.
    fn cut_to(&mut self, len: usize) {
        self.len += len as u64;
        if let Destination::Regular(file) = &mut self.place {
            // If this fails, too, readers stop at the last whole record.
            let _ = file.cut(self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::EncodedBatch;
    use crate::record::batch::samples::batch;
    use std::sync::Mutex;

    /// A disk of a fixed size.
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

    fn disk(size: usize) -> (Disk, OutputFile) {
        let disk = Disk(Arc::default(), size);
        let sink = OutputFile::new(Destination::Stream(Box::new(disk.clone())), 256);
        (disk, sink)
    }

    fn records(count: usize) -> EncodedBatch {
        batch(0, &vec![0; count], 96)
    }

    #[test]
    fn short_writes_are_carried_on() {
        let (disk, mut sink) = disk(10_000);
        sink.begin(b"header").unwrap();
        assert_eq!(sink.append(&records(20).chunk()), 20);
        sink.end(b"end!");
        let (len, error) = sink.finish();
        assert_eq!(*disk.0.lock().unwrap(), [b"header", &records(20).bytes[..], b"end!"].concat());
        assert_eq!((len, error.is_none()), (10 + records(20).bytes.len() as u64, true));
    }

    #[test]
    fn full_stream_counts_the_whole_blocks_that_went_out() {
        let one = records(1).bytes.len();
        let (disk, mut sink) = disk(3 * one + 20);
        assert_eq!(sink.append(&records(2).chunk()), 2);
        assert!(!sink.has_failed());
        assert_eq!(sink.append(&records(4).chunk()), 1);
        assert!(sink.has_failed());
        assert_eq!(sink.append(&records(1).chunk()), 0, "nothing more after the gap");
        sink.end(&records(1).bytes);
        let (len, error) = sink.finish();
        assert_eq!((len, error.unwrap().kind()), (3 * one as u64, io::ErrorKind::StorageFull));
        assert_eq!(disk.0.lock().unwrap().len(), 3 * one + 20);
    }

    #[test]
    fn header_that_does_not_fit_is_an_error() {
        let (_, mut sink) = disk(3);
        assert_eq!(sink.begin(b"header").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn devices_are_written_to_like_pipes() {
        let open = |path| {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            OutputFile::new(Destination::of(file, Ways::default(), &Arc::default()).unwrap(), 256)
        };
        let mut null = open("/dev/null");
        assert_eq!(null.append(&records(3).chunk()), 3);
        assert!(null.finish().1.is_none());
        let mut full = open("/dev/full");
        assert_eq!(full.append(&records(3).chunk()), 0);
        assert!(full.has_failed());
    }
}
