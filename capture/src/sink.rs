//! One open output: whole records go in, one stretch after the other.
//!
//! When the system refuses more bytes, a file is cut back to its last whole record, with room for the statistics at
//! its end: what is in it stays readable, what is not is counted.

use crate::disk::{DiskFile, Ways};
use crate::format::Format;
use crate::part::{Part, count, split_off};
use crate::pipe::Pipe;
use crate::tail::{Piece, Tail, last_records};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A file that refused something is asked again after this, where the capture goes on.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Where bytes end up.
pub(crate) enum Place {
    /// Can be cut back.
    Regular(DiskFile),
    /// Has a reader that may stop, or go.
    Pipe(Pipe),
    /// Devices, and whatever a caller gave.
    Stream(Box<dyn Write + Send>),
}

impl Place {
    /// What kind of file it is decides what can be done with it.
    pub(crate) fn of(file: File, ways: Ways, is_ending: &Arc<AtomicBool>) -> io::Result<Self> {
        match file.metadata()?.is_file() {
            true => Ok(Self::Regular(DiskFile::new(file, ways)?)),
            false => Ok(Self::of_descriptor(file, is_ending)),
        }
    }

    /// A descriptor that a caller gave: a regular file goes on where it stands.
    pub(crate) fn of_descriptor(file: File, is_ending: &Arc<AtomicBool>) -> Self {
        match Pipe::of(file, Arc::clone(is_ending)) {
            Ok(pipe) => Self::Pipe(pipe),
            Err(file) => Self::Stream(Box::new(file)),
        }
    }

    /// Writes everything, or says how many bytes went out before the failure.
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

/// What became of records, those at hand and some before them.
#[derive(Debug, Default)]
pub(crate) struct Appended {
    /// So many of the records at hand, the first ones, are in the output now.
    pub(crate) kept: u64,
    /// These were in the output and had to make room for its end.
    pub(crate) taken_back: Vec<Piece>,
}

/// See the top of the file.
pub(crate) struct Sink {
    place: Place,
    format: Format,
    /// Bytes to keep free for the end, when the disk is full.
    reserve_len: usize,
    /// What has to go if that is not free.
    tail: Tail,
    /// Bytes of whole records, and of what is no record.
    len: u64,
    /// The first thing that was refused.
    failure: Option<io::Error>,
    failed_at: Option<Instant>,
    /// Whether a file is asked again after it refused something.
    retries: bool,
    /// Something was written since the last flush.
    is_unflushed: bool,
}

impl Sink {
    pub(crate) fn new(place: Place, format: Format, reserve_len: usize) -> Self {
        Self {
            place,
            format,
            reserve_len,
            tail: Tail::default(),
            len: 0,
            failure: None,
            failed_at: None,
            retries: false,
            is_unflushed: false,
        }
    }

    /// Lets a file be asked again a while after it refused something.
    pub(crate) fn retry_after_failure(&mut self, retries: bool) {
        self.retries = retries && self.is_regular();
    }

    /// Writes what everything after needs.
    pub(crate) fn begin(&mut self, header: &[u8]) -> io::Result<()> {
        match &mut self.place {
            // A FIFO may have no reader yet.
            Place::Pipe(pipe) => pipe.begin(header),
            place => place.write(header).map_err(|(_, error)| error)?,
        }
        self.len = header.len() as u64;
        self.is_unflushed = true;
        Ok(())
    }

    /// Changes how many bytes are to be kept free for the end.
    pub(crate) fn reserve(&mut self, reserve_len: usize) {
        self.reserve_len = reserve_len;
    }

    /// Appends records, whose they are is told by `parts`.
    pub(crate) fn append(&mut self, records: &[u8], parts: &[Part]) -> Appended {
        match self.attempt(records) {
            Attempt::Done => {
                self.remember(records, parts);
                Appended { kept: count(parts), ..Appended::default() }
            }
            Attempt::Refused => Appended::default(),
            Attempt::Failed { written } if self.is_regular() => {
                let (kept, len) = self.format.whole(records, written.saturating_sub(self.reserve_len));
                let taken_back = self.cut_back(written, len);
                self.remember(&records[..len], &split_off(&mut parts.to_vec(), kept));
                Appended { kept, taken_back }
            }
            // A stream cannot be cut: what is out is out.
            Attempt::Failed { written } => {
                let (kept, len) = self.format.whole(records, written);
                self.len += len as u64;
                Appended { kept, ..Appended::default() }
            }
        }
    }

    /// Appends bytes that are of use only together, which `piece` tells of.
    pub(crate) fn append_piece(&mut self, bytes: &[u8], piece: &Piece) -> Appended {
        match self.attempt(bytes) {
            Attempt::Done => {
                self.tail.push(piece.clone(), self.reserve_len);
                Appended { kept: count(&piece.parts), ..Appended::default() }
            }
            Attempt::Refused => Appended::default(),
            Attempt::Failed { written } => Appended { kept: 0, taken_back: self.cut_back(written, 0) },
        }
    }

    /// Bytes in the output, without the rest of what was cut.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// True once the output refused something.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Lets the other end see everything.
    pub(crate) fn flush(&mut self) {
        let flushed = match &mut self.place {
            Place::Stream(stream) if std::mem::take(&mut self.is_unflushed) => stream.flush(),
            Place::Stream(_) => Ok(()),
            Place::Pipe(_) if self.failure.is_some() => Ok(()),
            Place::Pipe(pipe) => pipe.tick(),
            Place::Regular(file) => file.show(),
        };
        flushed.unwrap_or_else(|error| self.fail(error));
    }

    /// Writes what the output ends with. Where there is no room for it some is made, and it is to be given again, since
    /// it tells how many records there are: fewer now.
    pub(crate) fn end(&mut self, closing: &[u8]) -> Vec<Piece> {
        if self.has_failed() && !self.is_regular() {
            return Vec::new();
        }
        // After a failure a second try is made: what was cut back has made room.
        self.failed_at = None;
        match self.attempt(closing) {
            Attempt::Failed { written } => self.cut_back(written, 0),
            Attempt::Done | Attempt::Refused => Vec::new(),
        }
    }

    /// Lets go of the output and says what went wrong, now or before.
    pub(crate) fn finish(mut self) -> (u64, Option<io::Error>) {
        let is_lost = self.has_failed() && !self.is_regular();
        if !is_lost {
            self.is_unflushed = true;
            self.flush();
        }
        if let (Place::Pipe(pipe), false) = (&mut self.place, is_lost)
            && let Err(error) = pipe.flush()
        {
            self.fail(error);
        }
        if let Place::Regular(file) = self.place
            && let Err(error) = file.finish()
        {
            self.failure.get_or_insert(error);
        }
        (self.len, self.failure)
    }

    fn is_regular(&self) -> bool {
        matches!(self.place, Place::Regular(_))
    }

    fn attempt(&mut self, bytes: &[u8]) -> Attempt {
        let is_resting = self.failed_at.is_some_and(|at| !self.retries || at.elapsed() < RETRY_AFTER);
        if is_resting {
            return Attempt::Refused;
        }
        let is_retry = self.failed_at.is_some();
        match self.place.write(bytes) {
            Ok(()) if is_retry && !self.has_room_for_end(bytes.len()) => Attempt::Refused,
            Ok(()) => {
                self.failed_at = None;
                self.len += bytes.len() as u64;
                self.is_unflushed = true;
                Attempt::Done
            }
            // The first time has made room for the end. It stays free until there is more.
            Err(_) if is_retry => self.rest(),
            Err((written, error)) => {
                self.fail(error);
                Attempt::Failed { written }
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.failed_at = Some(Instant::now());
        self.failure.get_or_insert(error);
    }

    /// After the system refused more than `written` bytes: keeps `kept_len` of them, and takes records from before them
    /// where that does not leave room enough for the end.
    fn cut_back(&mut self, written: usize, kept_len: usize) -> Vec<Piece> {
        if !self.is_regular() {
            return Vec::new();
        }
        let cut = self.tail.cut(self.reserve_len.saturating_sub(written - kept_len));
        self.len -= cut.iter().map(|piece| piece.len as u64).sum::<u64>();
        self.keep(kept_len);
        cut
    }

    /// After `written_len` bytes went out at a second try: writes what the end may take after them, and takes it away
    /// again, since only this shows on every file system that there is room. False, and nothing written, when there is not.
    fn has_room_for_end(&mut self, written_len: usize) -> bool {
        let has_room = self.place.write(&vec![0; self.reserve_len]).is_ok();
        let len_before = self.len;
        self.keep(if has_room { written_len } else { 0 });
        self.len = len_before;
        if !has_room {
            self.rest();
        }
        has_room
    }

    /// A second try failed: waits for the next one.
    fn rest(&mut self) -> Attempt {
        self.failed_at = Some(Instant::now());
        self.keep(0);
        Attempt::Refused
    }

    /// Notes the last ones of records that were written.
    fn remember(&mut self, records: &[u8], parts: &[Part]) {
        if self.is_regular() {
            let pieces = last_records(self.format, records, parts, self.reserve_len);
            pieces.into_iter().for_each(|piece| self.tail.push(piece, self.reserve_len));
        }
    }

    /// Keeps `kept_len` bytes of what was written last.
    fn keep(&mut self, kept_len: usize) {
        if let Place::Regular(file) = &mut self.place {
            self.len += kept_len as u64;
            // A shorter file needs no room. Should even this fail, readers stop at the last whole record by themselves.
            let _ = file.cut(self.len);
        }
    }
}

/// How writing went.
enum Attempt {
    Done,
    /// Not tried: it failed a moment ago.
    Refused,
    Failed {
        /// Bytes that went out.
        written: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcapng::Packet;
    use std::sync::Mutex;

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
        let sink = Sink::new(Place::Stream(Box::new(disk.clone())), Format::Pcapng, 256);
        (disk, sink)
    }

    fn blocks(count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..count {
            Packet { data: &[1; 96], ..Packet::default() }.emit(&mut out);
        }
        out
    }

    fn ring(count: u64) -> [Part; 1] {
        [Part { count, ..Part::default() }]
    }

    #[test]
    fn short_writes_are_carried_on() {
        let (disk, mut sink) = disk(10_000);
        sink.begin(b"header").unwrap();
        assert_eq!(sink.append(&blocks(20), &ring(20)).kept, 20);
        assert_eq!(sink.end(b"end!"), []);
        let (len, error) = sink.finish();
        assert_eq!(*disk.0.lock().unwrap(), [b"header", &blocks(20)[..], b"end!"].concat());
        assert_eq!((len, error.is_none()), (10 + blocks(20).len() as u64, true));
    }

    #[test]
    fn full_stream_counts_the_whole_blocks_that_went_out() {
        let one = blocks(1).len();
        let (disk, mut sink) = disk(3 * one + 20);
        assert_eq!(sink.append(&blocks(2), &ring(2)).kept, 2);
        assert!(!sink.has_failed());
        assert_eq!(sink.append(&blocks(4), &ring(4)).kept, 1);
        assert!(sink.has_failed());
        assert_eq!(sink.append(&blocks(1), &ring(1)).kept, 0, "nothing more after the gap");
        assert_eq!(sink.end(&blocks(1)), []);
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
            Sink::new(Place::of(file, Ways::default(), &Arc::default()).unwrap(), Format::Pcapng, 256)
        };
        let mut null = open("/dev/null");
        assert_eq!(null.append(&blocks(3), &ring(3)).kept, 3);
        assert!(null.finish().1.is_none());
        let mut full = open("/dev/full");
        assert_eq!(full.append(&blocks(3), &ring(3)).kept, 0);
        assert!(full.has_failed());
    }
}
