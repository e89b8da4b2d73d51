//! From stretches to files: which file is open, when the next one begins, what it is called when it is complete.
//!
//! One file that never ends is written under its own name and can be read at any moment, up to its last whole record.
//! Files that follow each other are written under a name that ends in `.part` and get their own when they are complete.

use crate::assembly::Stretch;
use crate::command::CommandRunner;
use crate::credit::Credit;
use crate::disk::Ways;
use crate::earlier;
use crate::file_name::NamePattern;
use crate::format::Format;
use crate::output_file;
use crate::packer::{Compression, Packer};
use crate::part::{self, Part, dated, split_off};
use crate::pipe::Pipe;
use crate::rotate::{RotatePolicy, Rotator};
use crate::share::Share;
use crate::sink::{Appended, Place, RETRY_AFTER, Sink};
use crate::tail::Piece;
use crate::{CaptureError, OnError, Output};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What a file that is being written is called: its name and this.
const PART_SUFFIX: &str = ".part";

/// The last blocks of a file that has this share of a capture.
pub(crate) type Closing = dyn Fn(&Share) -> Vec<u8> + Send + Sync;

/// What all files of a capture have in common.
pub(crate) struct Plan {
    pub(crate) format: Format,
    /// What each begins with.
    pub(crate) header: Vec<u8>,
    /// What each ends with, as of now and for what is in it.
    pub(crate) closing: Arc<Closing>,
    /// Bytes of that at most.
    pub(crate) closing_len_max: usize,
    /// Interfaces for which frames are to be counted.
    pub(crate) interfaces_to_count: usize,
    pub(crate) rotate: RotatePolicy,
    pub(crate) utc_offset_s: i32,
    pub(crate) compression: Option<Compression>,
    pub(crate) on_error: OnError,
    /// Space to be allocated when a file begins.
    pub(crate) preallocate_bytes: u64,
    /// Files are written past the page cache.
    pub(crate) is_direct: bool,
    /// Set when the capture is to end: a pipe whose reader does not read is given up then.
    pub(crate) is_ending: Arc<AtomicBool>,
}

/// See the top of the file.
pub(crate) struct Files {
    plan: Arc<Plan>,
    command: Option<Arc<CommandRunner>>,
    packer: Option<Packer>,
    share: Share,
    /// Where there is more than one file.
    rotation: Option<Rotation>,
    /// `None` when the next file could not be made.
    sink: Option<Sink>,
    /// What is being written.
    name: String,
    /// True when what is written cannot be taken back.
    is_stream: bool,
    /// The file, when it was not there before.
    made: Option<PathBuf>,
    /// Bytes of all files before.
    bytes_before: u64,
    /// When a file could not be made.
    not_made: Option<Instant>,
    failure: Option<CaptureError>,
}

struct Rotation {
    rotator: Rotator,
    /// Names files that are being written.
    pattern: NamePattern,
    /// Files that are complete.
    count: u64,
}

/// How files ended.
pub(crate) struct Ended {
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Complete files; `None` when there is but one.
    pub(crate) count: Option<u64>,
    pub(crate) failure: Option<CaptureError>,
}

impl Files {
    /// Makes or empties the first file and writes its beginning.
    ///
    /// # Errors
    /// [`CaptureError::Name`], [`CaptureError::Rotate`], [`CaptureError::Create`], [`CaptureError::Write`].
    pub(crate) fn create(
        output: Output,
        plan: Arc<Plan>,
        command: Option<Arc<CommandRunner>>,
        now_ns: u64,
    ) -> Result<Option<Self>, CaptureError> {
        let packer = plan.compression.map(Packer::new).transpose();
        let packer =
            packer.map_err(|source| CaptureError::Thread { what: "compression".to_owned(), source })?;
        let mut files = Self {
            command,
            packer,
            share: Share::new(plan.interfaces_to_count),
            rotation: None,
            sink: None,
            name: String::new(),
            is_stream: false,
            made: None,
            bytes_before: 0,
            not_made: None,
            failure: None,
            plan,
        };
        match output {
            Output::Nowhere => return Ok(None),
            Output::Stream { name, to } => files.open_stream(name, Place::Stream(to))?,
            Output::Descriptor { name, file } => {
                let place = Place::of_descriptor(file, &files.plan.is_ending);
                files.open_stream(name, place)?;
            }
            Output::File(path) => files.open_first(&path, now_ns)?,
        }
        Ok(Some(files))
    }

    /// The same, for files that get the frames of one ring only.
    pub(crate) fn of_ring(mut self, ring: usize) -> Self {
        self.share.ring = Some(ring);
        self
    }

    /// Takes the file away that `create` made, for a capture that never began.
    pub(crate) fn discard(self) {
        if let Some(path) = &self.made {
            // It is empty or holds a header; should it stay, it does no harm.
            let _ = fs::remove_file(path);
        }
    }

    /// Writes records, into one file or as many as the policy wants.
    pub(crate) fn append(&mut self, stretch: &Stretch<'_>, credit: &mut Credit<'_>) {
        let fits = self.fits_whole(stretch);
        if fits {
            return self.put(stretch, credit);
        }
        let (mut bytes, mut parts) = (stretch.bytes, stretch.parts.to_vec());
        while !bytes.is_empty() {
            let (len, count, times_ns) = self.fitting(bytes, &parts);
            if len == 0 {
                self.rotate(credit);
                continue;
            }
            let (now, rest) = bytes.split_at(len);
            let taken = split_off(&mut parts, count);
            let (first_ns, last_ns) = times_ns;
            self.put(&Stretch { bytes: now, first_ns, last_ns, parts: &taken }, credit);
            bytes = rest;
        }
    }

    /// What is due by time alone: a file ends on an idle line, others see what was written. No record from before
    /// `settled_ns` will come any more.
    pub(crate) fn tick(&mut self, settled_ns: u64, credit: &mut Credit<'_>) {
        if self.rotation.as_ref().is_some_and(|rotation| rotation.rotator.due(settled_ns, 0).is_some()) {
            self.rotate(credit);
        }
        if let Some(packer) = &mut self.packer {
            packer.tick();
            self.collect(false, credit);
        }
        if let Some(sink) = &mut self.sink {
            sink.flush();
        }
    }

    /// Writes everything that waits to be packed with more.
    pub(crate) fn push_out(&mut self, credit: &mut Credit<'_>) {
        self.pack_rest(credit);
    }

    /// Bytes of all files so far.
    pub(crate) fn len(&self) -> u64 {
        self.bytes_before + self.sink.as_ref().map_or(0, Sink::len)
    }

    /// True once something was refused, and nothing more is to be written.
    pub(crate) fn has_failed(&self) -> bool {
        let has_failed = self.failure.is_some() || self.sink.as_ref().is_none_or(Sink::has_failed);
        has_failed && !self.goes_on()
    }

    /// Ends the last file. `now_ns` names it if there never was a record.
    pub(crate) fn finish(mut self, now_ns: u64, credit: &mut Credit<'_>) -> Ended {
        let is_empty = self.rotation.as_ref().is_some_and(|rotation| rotation.rotator.is_empty());
        let is_first = self.rotation.as_ref().is_none_or(|rotation| rotation.count == 0);
        if is_empty && !is_first {
            // What was begun after the last record is no file.
            let _ = fs::remove_file(&self.name);
        } else {
            self.end_file(Some(now_ns), credit);
        }
        let count = self.rotation.map(|rotation| rotation.count);
        Ended { bytes: self.bytes_before, count, failure: self.failure }
    }

    fn open_stream(&mut self, name: String, place: Place) -> Result<(), CaptureError> {
        self.name = name;
        self.begin(place)
    }

    fn open_first(&mut self, path: &Path, now_ns: u64) -> Result<(), CaptureError> {
        let plan = Arc::clone(&self.plan);
        if let Some(text) = path.to_str() {
            let pattern = NamePattern::parse(text)?;
            if plan.rotate.rotates() || plan.rotate.ring_files.is_some() {
                let rotator = Rotator::new(plan.rotate, pattern.clone(), plan.utc_offset_s)?;
                self.rotation = Some(Rotation { rotator, pattern, count: 0 });
                self.open_part(now_ns)?;
                // After that: what a killed capture left unfinished has its name by now.
                let go_on = |rotation: &mut Rotation| {
                    rotation.rotator.go_on_after(earlier::find(&rotation.pattern));
                };
                self.rotation.iter_mut().for_each(go_on);
                return Ok(());
            }
            return self.open(PathBuf::from(pattern.expand(now_ns, plan.utc_offset_s)));
        }
        // A name that is no text has no conversions in it.
        self.open(path.to_owned())
    }

    fn open_part(&mut self, now_ns: u64) -> Result<(), CaptureError> {
        let rotation = self.rotation.as_ref().expect("only called for files that follow each other");
        let name = rotation.pattern.expand(now_ns, self.plan.utc_offset_s) + PART_SUFFIX;
        self.open(PathBuf::from(name))?;
        let header_len = self.plan.header.len() as u64;
        self.rotation.iter_mut().for_each(|rotation| rotation.rotator.begin(header_len));
        Ok(())
    }

    fn open(&mut self, path: PathBuf) -> Result<(), CaptureError> {
        self.name = path.display().to_string();
        let is_new = !path.exists();
        let ways = Ways {
            preallocate_bytes: self.plan.preallocate_bytes,
            is_direct: self.plan.is_direct,
            is_first: self.bytes_before == 0 && self.not_made.is_none(),
        };
        let is_ending = &self.plan.is_ending;
        let opened = make_folder(&path).and_then(|()| match self.rotation {
            Some(_) => output_file::create_part(&path).map(Some),
            None => output_file::open(&path),
        });
        let place = opened.and_then(|file| match file {
            Some(file) => Place::of(file, ways, is_ending),
            None => Ok(Place::Pipe(Pipe::waiting(&path, Arc::clone(is_ending)))),
        });
        let place = place.map_err(|source| {
            if is_new && source.kind() != io::ErrorKind::WouldBlock {
                // Nothing is left behind of a file that never began.
                let _ = fs::remove_file(&path);
            }
            CaptureError::Create { name: self.name.clone(), source }
        })?;
        self.made = is_new.then_some(path);
        self.begin(place).inspect_err(|_| {
            let _ = self.made.take().map(fs::remove_file);
        })
    }

    fn begin(&mut self, place: Place) -> Result<(), CaptureError> {
        let plan = Arc::clone(&self.plan);
        self.is_stream = !matches!(place, Place::Regular(_));
        let mut sink = Sink::new(place, plan.format, plan.closing_len_max);
        sink.retry_after_failure(self.goes_on());
        let begun = match &mut self.packer {
            None => sink.begin(&plan.header),
            Some(packer) => {
                packer.begin_file();
                packer.add(&plan.header, &[]);
                packer.submit();
                let frame = packer.next(true).expect("it was submitted");
                let begun = sink.begin(&frame.bytes);
                packer.written(frame);
                begun
            }
        };
        begun.map_err(|source| CaptureError::Write { name: self.name.clone(), len: 0, source })?;
        self.sink = Some(sink);
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.plan.on_error == OnError::GoOn && !self.is_stream
    }

    /// True when all of a stretch goes into the file at hand.
    fn fits_whole(&self, stretch: &Stretch<'_>) -> bool {
        let Some(Rotation { rotator, .. }) = &self.rotation else { return true };
        !rotator.is_empty() && rotator.due(stretch.last_ns, stretch.bytes.len() as u64).is_none()
    }

    /// Length, number, first and largest time of the records that go into the file at hand; of an empty file the first
    /// one, since it decides when the file ends.
    fn fitting(&self, bytes: &[u8], parts: &[Part]) -> (usize, u64, (u64, u64)) {
        let rotator = &self.rotation.as_ref().expect("one file takes everything").rotator;
        let (mut len, mut count, mut first_ns, mut last_ns) = (0, 0, None, 0);
        for record in dated(self.plan.format, bytes, parts) {
            if rotator.due(record.time_ns, (len + record.len) as u64).is_some() {
                break;
            }
            (len, count, last_ns) = (len + record.len, count + 1, record.time_ns.max(last_ns));
            first_ns.get_or_insert(record.time_ns);
            if rotator.is_empty() {
                break;
            }
        }
        (len, count, (first_ns.unwrap_or(0), last_ns))
    }

    /// Writes records into the file at hand.
    fn put(&mut self, stretch: &Stretch<'_>, credit: &mut Credit<'_>) {
        if self.not_made.is_some_and(|at| at.elapsed() >= RETRY_AFTER) && self.goes_on() {
            self.try_again(credit);
        }
        self.make_room(stretch.bytes.len() as u64);
        while let Some(name) = self.rotation.as_mut().and_then(|rotation| rotation.rotator.displace()) {
            self.remove(&name);
        }
        if let Some(rotation) = &mut self.rotation {
            rotation.rotator.wrote(stretch.first_ns, stretch.bytes.len() as u64);
        }
        if let Some(packer) = &mut self.packer {
            packer.add(stretch.bytes, stretch.parts);
            self.collect(false, credit);
            return self.note_room();
        }
        let appended = self.sink.as_mut().map(|sink| sink.append(stretch.bytes, stretch.parts));
        let Appended { kept, taken_back } = appended.unwrap_or_default();
        credit.give(stretch.parts, kept);
        self.share.add(self.plan.format, stretch.bytes, kept);
        self.take_back(&taken_back, credit);
    }

    /// Records that were in the file had to make room.
    fn take_back(&mut self, pieces: &[Piece], credit: &mut Credit<'_>) {
        for piece in pieces {
            credit.take_back(&piece.parts);
            self.share.take_back(&piece.interfaces);
            self.packer.iter_mut().for_each(Packer::taken_back);
        }
    }

    /// Writes what has been compressed; with `all` waits for what has not.
    fn collect(&mut self, all: bool, credit: &mut Credit<'_>) {
        while let Some(packer) = &mut self.packer
            && let Some(frame) = packer.next(all)
        {
            // This one and the one with the closing blocks.
            let reserve_len = self.plan.closing_len_max + packer.end_extra_len_max(2);
            let count = part::count(&frame.parts);
            let interfaces = self.share.add(self.plan.format, frame.raw(), count);
            let piece = Piece { len: frame.bytes.len(), parts: frame.parts.clone(), interfaces };
            let appended = self.sink.as_mut().map(|sink| {
                sink.reserve(reserve_len);
                sink.append_piece(&frame.bytes, &piece)
            });
            let Appended { kept, taken_back } = appended.unwrap_or_default();
            credit.give(&piece.parts, kept);
            if kept > 0 {
                packer.written(frame);
            } else {
                self.share.take_back(&piece.interfaces);
                packer.done_with(frame);
            }
            self.take_back(&taken_back, credit);
        }
    }

    /// Writes everything that was given to the packer.
    fn pack_rest(&mut self, credit: &mut Credit<'_>) {
        if let Some(packer) = &mut self.packer {
            packer.submit();
        }
        self.collect(true, credit);
    }

    /// What the file at hand takes of the disk, as far as that is known: what is not packed yet takes less.
    fn note_room(&mut self) {
        let packed = self.sink.as_ref().map_or(0, Sink::len);
        let waiting = self.packer.as_ref().map_or(0, Packer::waiting_len) as u64;
        self.rotation.iter_mut().for_each(|rotation| rotation.rotator.takes(packed + waiting));
    }

    /// Removes old files until `bytes` more are within the quota.
    fn make_room(&mut self, bytes: u64) {
        while let Some(name) = self.rotation.as_mut().and_then(|rotation| rotation.rotator.evict(bytes)) {
            self.remove(&name);
        }
    }

    /// Ends the file at hand and begins the next one.
    fn rotate(&mut self, credit: &mut Credit<'_>) {
        self.end_file(None, credit);
        self.make_room(self.plan.header.len() as u64);
        if !self.open_next() {
            // Records that follow are counted as lost, and the policy goes on as if they were written.
            let header_len = self.plan.header.len() as u64;
            self.rotation.iter_mut().for_each(|rotation| rotation.rotator.begin(header_len));
        }
    }

    /// False when the next file cannot be made.
    fn open_next(&mut self) -> bool {
        match self.open_part(crate::clock::utc_now_ns()) {
            Ok(()) => self.not_made = None,
            Err(error) => {
                self.not_made = Some(Instant::now());
                self.failure.get_or_insert(error);
            }
        }
        self.not_made.is_none()
    }

    /// Tries to make the file that could not be made. What came for it meanwhile is lost.
    fn try_again(&mut self, credit: &mut Credit<'_>) {
        self.pack_rest(credit);
        self.open_next();
    }

    fn end_file(&mut self, named_by_ns: Option<u64>, credit: &mut Credit<'_>) {
        // Records that are still being packed count when they are in the file, and the closing tells the counts.
        self.pack_rest(credit);
        let mut written_len = None;
        if let Some(mut sink) = self.sink.take() {
            let cut = sink.end(&self.closing());
            if !cut.is_empty() {
                self.take_back(&cut, credit);
                sink.end(&self.closing());
            }
            let (len, error) = sink.finish();
            self.bytes_before += len;
            written_len = Some(len);
            if let Some(source) = error {
                let name = self.name.clone();
                self.failure.get_or_insert(CaptureError::Write { name, len, source });
            }
        }
        let Some(rotation) = &mut self.rotation else { return };
        rotation.rotator.takes(written_len.unwrap_or(0));
        let finished = match named_by_ns {
            Some(now_ns) => rotation.rotator.finish_at(now_ns),
            None => rotation.rotator.finish().expect("only files with records end for others"),
        };
        if written_len.is_some() {
            rotation.count += 1;
            self.publish(&finished.name);
        }
    }

    /// What the file at hand ends with.
    fn closing(&self) -> Vec<u8> {
        let closing = (self.plan.closing)(&self.share);
        match &self.packer {
            Some(packer) => packer.end_of_file(&closing),
            None => closing,
        }
    }

    /// Gives a complete file its own name.
    fn publish(&mut self, name: &str) {
        let renamed = make_folder(Path::new(name)).and_then(|()| fs::rename(&self.name, name));
        match renamed {
            Ok(()) => self.command.iter().for_each(|command| command.finished(name)),
            Err(source) => {
                let (part, name) = (self.name.clone(), name.to_owned());
                self.failure.get_or_insert(CaptureError::Rename { part, name, source });
            }
        }
    }

    fn remove(&mut self, name: &str) {
        match fs::remove_file(name) {
            Ok(()) => {}
            // Somebody has moved it to where it is needed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                self.failure.get_or_insert(CaptureError::Remove { name: name.to_owned(), source });
            }
        }
    }
}

/// The folder that a file is to be made in.
fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => fs::create_dir_all(folder),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::part::Dial;
    use crate::phc::Line;
    use crate::rotate::Interval;
    use crate::run::Lane;
    use pcapng::{Interface, Packet, Section};
    use std::num::NonZeroU64;
    use std::sync::Mutex;
    use std::time::Duration;

    /// An output that can be read when everything is over.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Files that end with the number of records written.
    fn plan(lane: &Arc<Lane>) -> Plan {
        let lane = Arc::clone(lane);
        Plan {
            format: Format::Pcapng,
            header: Format::Pcapng.header(&Section::default(), &[Interface::default()]),
            closing: Arc::new(move |_| lane.counts.get().written.to_le_bytes().to_vec()),
            closing_len_max: 8,
            interfaces_to_count: 0,
            rotate: RotatePolicy::default(),
            utc_offset_s: 0,
            compression: None,
            on_error: OnError::default(),
            preallocate_bytes: 0,
            is_direct: false,
            is_ending: Arc::default(),
        }
    }

    #[test]
    fn a_compressed_file_ends_with_counts_of_its_last_frames_too() {
        for compression in [None, Some(Compression::Zstd { level: 1 })] {
            let (lane, memory) = (Lane::for_test(), Memory::default());
            let plan = Arc::new(Plan { compression, ..plan(&lane) });
            let output = Output::Stream { name: "memory".to_owned(), to: Box::new(memory.clone()) };
            let mut files = Files::create(output, plan, None, 0).unwrap().unwrap();
            let (lanes, limit) = ([lane], Limit::new(None));
            let mut credit = Credit { lanes: &lanes, limit: &limit };
            let mut record = Vec::new();
            Packet { data: &[1; 60], ..Packet::default() }.emit(&mut record);
            for _ in 0..3 {
                let parts = &[Part { count: 1, ..Part::default() }];
                files.append(&Stretch { bytes: &record, first_ns: 0, last_ns: 0, parts }, &mut credit);
            }
            assert!(files.finish(0, &mut credit).failure.is_none());
            let file = memory.0.lock().unwrap();
            let file = compression.map_or_else(|| file.clone(), |_| zstd::decode_all(&file[..]).unwrap());
            assert_eq!(file.last_chunk(), Some(&3_u64.to_le_bytes()), "{compression:?}");
        }
    }

    fn records(count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..count).for_each(|_| Packet { data: &[7; 96], ..Packet::default() }.emit(&mut bytes));
        bytes
    }

    #[test]
    fn a_file_that_could_not_be_made_is_tried_again_long_before_the_next_is_due() {
        let folder = std::env::temp_dir().join(format!("wirerate-files-{}", std::process::id()));
        let one = records(1).len() as u64;
        for compression in [None, Some(Compression::Lz4)] {
            let lane = Lane::for_test();
            let like = plan(&lane);
            let size_max_bytes = NonZeroU64::new(like.header.len() as u64 + 100_000 * one);
            let rotate = RotatePolicy { size_max_bytes, ..RotatePolicy::default() };
            let closing = Arc::new(|_: &Share| Vec::new());
            let plan = Plan { closing, rotate, compression, on_error: OnError::GoOn, ..like };
            let output = Output::File(folder.join("x"));
            let mut files = Files::create(output, Arc::new(plan), None, 0).unwrap().unwrap();
            let (lanes, limit, mut offered) = ([lane], Limit::new(None), 0);
            let mut append = |files: &mut Files, count: usize| {
                let (bytes, parts) = (records(count), [Part { count: count as u64, ..Part::default() }]);
                offered += count as u64;
                let mut credit = Credit { lanes: &lanes, limit: &limit };
                let stretch = Stretch { bytes: &bytes, first_ns: 0, last_ns: 0, parts: &parts };
                files.append(&stretch, &mut credit);
                // What is compressed goes when it is old enough.
                files.tick(0, &mut credit);
                lanes[0].counts.get().written
            };
            append(&mut files, 99_999);
            // A file where the folder was: the next one cannot be made.
            fs::remove_dir_all(&folder).unwrap();
            fs::write(&folder, "in the way").unwrap();
            let before = append(&mut files, 100);
            assert!(!files.has_failed(), "it goes on");
            fs::remove_file(&folder).unwrap();
            let started = Instant::now();
            while append(&mut files, 1) == before || !folder.exists() {
                std::thread::sleep(Duration::from_millis(10));
                assert!(started.elapsed() < Duration::from_secs(60), "nothing was written again");
            }
            files.finish(0, &mut Credit { lanes: &lanes, limit: &limit });
            let written = lanes[0].counts.get().written;
            // The file that began before is gone; of what came between, nothing is in a file.
            assert!(written < offered && offered < 100_000 + 90_000, "{written} of {offered}");
            fs::remove_dir_all(&folder).unwrap();
        }
    }

    /// With `--clock phc` the end of a file at an interval was decided by the card's time, and its name made of that.
    #[test]
    fn files_of_an_interval_begin_and_end_by_the_time_of_day() {
        const S: u64 = 1_000_000_000;
        let folder = std::env::temp_dir().join(format!("wirerate-phc-{}", std::process::id()));
        let (lane, mut bytes) = (Lane::for_test(), Vec::new());
        let interval = Interval { length_ns: NonZeroU64::new(S).unwrap(), is_aligned: true };
        let rotate = RotatePolicy { interval: Some(interval), ..RotatePolicy::default() };
        let plan = Plan { rotate, ..plan(&lane) };
        let output = Output::File(folder.join("%s"));
        let mut files = Files::create(output, Arc::new(plan), None, 0).unwrap().unwrap();
        // By the card, half a second and 37 more ahead, all of them belong together.
        let times_ns = [15 * S / 10, 18 * S / 10, 21 * S / 10, 23 * S / 10];
        for time_ns in times_ns {
            Packet { time_ns: time_ns + 375 * S / 10, ..Packet::default() }.emit(&mut bytes);
        }
        let dial = Dial::CardAsItIs(Line::ahead(375 * S.cast_signed() / 10));
        let parts = [Part { ring: 0, count: 3, dial }, Part { ring: 0, count: 1, dial }];
        let (lanes, limit) = ([lane], Limit::new(None));
        let mut credit = Credit { lanes: &lanes, limit: &limit };
        let (first_ns, last_ns) = (times_ns[0], times_ns[3]);
        files.append(&Stretch { bytes: &bytes, first_ns, last_ns, parts: &parts }, &mut credit);
        assert_eq!(files.finish(0, &mut credit).count, Some(2));
        let packets = |name: &str| {
            let file = fs::read(folder.join(name)).unwrap();
            let (mut reader, mut count) = (pcapng::Reader::new(&file[..]), 0);
            while let Ok(Some(block)) = reader.next_block() {
                count += u64::from(matches!(block, pcapng::Block::Packet(_)));
            }
            count
        };
        assert_eq!((packets("1"), packets("2")), (2, 2));
        assert_eq!(lanes[0].counts.get().hardware_time, 4);
        fs::remove_dir_all(&folder).unwrap();
    }
}
