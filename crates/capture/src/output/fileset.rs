//! The files of a capture: which one is open, when the next one begins, and their names.
//!
//! A single file is written under its own name and is readable at any moment, up to its last whole
//! record. Files of a rotation are written under a name that ends in `.part` and are renamed when
//! they are complete.

use crate::interfaces::FileHead;
use crate::output::accounting::{Accounting, FileCounts, UnfinishedFrames};
use crate::output::compress::{Compression, Compressor};
use crate::output::data_set::{self, LossLog};
use crate::output::disk::Ways;
use crate::output::file::{Destination, OutputFile, RETRY_AFTER};
use crate::output::hook::CommandRunner;
use crate::output::names::NamePattern;
use crate::output::open;
use crate::output::packer::{PART_SUFFIX, Packer, RingCpus};
use crate::output::pipe::Pipe;
use crate::output::prior_files;
use crate::output::rotate::{RotatePolicy, Rotator};
use crate::record::batch::{self, Chunk, IndexEntry};
use crate::stats::Stats;
use crate::time::utc::utc_now_ns;
use crate::{CaptureError, OnError, Output};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Makes the last blocks of a file.
pub(crate) type Trailer = dyn Fn(&FileCounts) -> Vec<u8> + Send + Sync;

/// What all files of a capture have in common.
pub(crate) struct FileSettings {
    /// What each begins with.
    pub(crate) head: FileHead,
    /// What each ends with, as of now and for what is in it.
    pub(crate) trailer: Arc<Trailer>,
    /// Bytes of that at most, for each interface.
    pub(crate) statistics_len_max: usize,
    /// True if the frames of each interface are to be counted.
    pub(crate) counts_interfaces: bool,
    pub(crate) rotate: RotatePolicy,
    pub(crate) utc_offset_s: i32,
    pub(crate) compression: Option<Compression>,
    /// Files are Parquet files, with what is known of rings and losses.
    pub(crate) columns: Option<ColumnSettings>,
    pub(crate) on_error: OnError,
    /// Space to be allocated when a file begins.
    pub(crate) preallocate_bytes: u64,
    /// Files are written past the page cache.
    pub(crate) is_direct: bool,
    /// Set when the capture is to end: a pipe whose reader does not read is given up then.
    pub(crate) is_ending: Arc<AtomicBool>,
    /// Bytes of all files so far, before compression.
    pub(crate) unpacked_bytes: AtomicU64,
}

impl FileSettings {
    /// Bytes of a file with these interfaces that are no records: its end is counted with its
    /// beginning.
    fn own_len(&self, (header, interface_count): &(Vec<u8>, usize)) -> u64 {
        (header.len() + self.trailer_len_max(*interface_count)) as u64
    }

    fn trailer_len_max(&self, interface_count: usize) -> usize {
        interface_count * self.statistics_len_max
    }
}

/// What the files of a data set need to know of the capture.
pub(crate) struct ColumnSettings {
    /// CPUs of the rings.
    pub(crate) ring_cpus: Arc<RingCpus>,
    /// All counts as of now.
    pub(crate) stats: Arc<dyn Fn() -> Stats + Send + Sync>,
    /// Number of devices, each of which has its own files.
    pub(crate) device_count: usize,
}

/// The files of a capture: the open one, the rule for the next one, and their names.
pub(crate) struct FileSet {
    settings: Arc<FileSettings>,
    command: Option<Arc<CommandRunner>>,
    packer: Option<Box<dyn Packer>>,
    counts: FileCounts,
    /// Bytes of the file at hand that are no records.
    own_len: u64,
    /// Where there is more than one file.
    rotation: Option<Rotation>,
    /// `None` when the next file could not be made.
    sink: Option<OutputFile>,
    /// What is being written.
    name: String,
    /// True for a single file whose name has a time, whose folders are made.
    has_time: bool,
    /// True when what is written cannot be taken back.
    is_stream: bool,
    /// The file, when it was not there before.
    made: Option<PathBuf>,
    /// Bytes of all files before.
    bytes_before: u64,
    /// When a file could not be made.
    not_made: Option<Instant>,
    failure: Option<CaptureError>,
    /// Losses of the device whose records these are, in a data set.
    losses: Option<LossLog>,
    /// What is in the file at hand of a data set.
    unfinished: UnfinishedFrames,
    /// True once a limit of the files was reached, and nothing more is written.
    is_complete: bool,
    /// Complete files that were removed for those that followed.
    removed: u64,
}

struct Rotation {
    rotator: Rotator,
    /// Names files that are being written.
    pattern: NamePattern,
    /// Files that are complete.
    count: u64,
    /// The last of them.
    last_name: Option<String>,
}

/// How files ended.
pub(crate) struct FilesEnd {
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Complete files; `None` when there is but one.
    pub(crate) count: Option<u64>,
    /// The file; of files that follow each other the last complete one.
    pub(crate) name: Option<String>,
    pub(crate) failure: Option<CaptureError>,
    /// Losses that are in no file yet.
    pub(crate) losses: Option<LossLog>,
    /// Complete files that were removed for those that followed.
    pub(crate) removed: u64,
}

impl FileSet {
    /// Makes or empties the first file and writes its beginning.
    ///
    /// # Errors
    /// [`CaptureError::Name`], [`CaptureError::Rotate`], [`CaptureError::Create`],
    /// [`CaptureError::Write`].
    pub(crate) fn create(
        output: Output,
        settings: Arc<FileSettings>,
        command: Option<Arc<CommandRunner>>,
        now_ns: u64,
    ) -> Result<Option<Self>, CaptureError> {
        let packer = settings.compression.map(Compressor::new).transpose();
        let packer =
            packer.map_err(|source| CaptureError::Thread { what: "compression".to_owned(), source })?;
        let packer = match &settings.columns {
            Some(ColumnSettings { ring_cpus, device_count, .. }) => {
                data_set::packer(ring_cpus, *device_count)
            }
            None => packer.map(|packer| Box::new(packer) as Box<dyn Packer>),
        };
        let mut files = Self {
            command,
            packer,
            counts: FileCounts::new(settings.counts_interfaces),
            own_len: 0,
            rotation: None,
            sink: None,
            name: String::new(),
            has_time: false,
            is_stream: false,
            made: None,
            bytes_before: 0,
            not_made: None,
            failure: None,
            losses: None,
            unfinished: UnfinishedFrames::default(),
            is_complete: false,
            removed: 0,
            settings,
        };
        match output {
            Output::Nowhere => return Ok(None),
            Output::Stream { name, to } => files.open_stream(name, Destination::Stream(to))?,
            Output::Descriptor { name, file } => {
                let place = Destination::of_descriptor(file, &files.settings.is_ending);
                files.open_stream(name, place)?;
            }
            Output::File(path) => files.open_first(&path, now_ns)?,
        }
        Ok(Some(files))
    }

    /// Counts the frames of one ring only, for files that get no others.
    pub(crate) fn of_ring(mut self, ring: usize) -> Self {
        self.counts.ring = Some(ring);
        self
    }

    /// What the files have so far.
    pub(crate) fn counts(&self) -> FileCounts {
        self.counts.clone()
    }

    /// Continues with the counts of the files before, if there were any.
    pub(crate) fn after(mut self, before: Option<FileCounts>) -> Self {
        let interfaces = self.counts.interfaces;
        self.counts = before.unwrap_or(self.counts);
        self.counts.interfaces = interfaces;
        self
    }

    /// Sets whether the files get only a part of the frames that the capture's own filter lets
    /// pass.
    pub(crate) fn of_part(mut self, is_part: bool) -> Self {
        self.counts.is_part = is_part;
        self
    }

    /// Adds the log of losses, for the records of a device in a data set.
    pub(crate) fn with_losses(self, losses: Option<LossLog>) -> Self {
        Self { losses, ..self }
    }

    /// Takes the file away that `create` made, for a capture that never began.
    pub(crate) fn discard(self) {
        if let Some(path) = &self.made {
            // It is empty or holds a header; should it stay, it does no harm.
            let _ = open::remove(path);
        }
    }

    /// Writes records to one or more files, as the rotation policy requires.
    pub(crate) fn append(&mut self, chunk: &Chunk<'_>, accounting: &Accounting<'_>) {
        let mut left = Some(*chunk);
        while let Some(chunk) = left {
            if self.is_complete {
                return accounting.after_limit(chunk.index);
            }
            let count = if self.fits_whole(&chunk) { chunk.index.len() } else { self.fitting(chunk.index) };
            if count == 0 {
                self.rotate(accounting);
                continue;
            }
            let count = self.before_end(&chunk, count);
            if count == 0 {
                self.complete(accounting);
                continue;
            }
            let (now, later) = chunk.split_at(count);
            self.put(&now, accounting);
            left = later;
        }
    }

    /// Ends the file at hand and begins the next one, because the user asks for it. Returns the
    /// name of the file that ended; `None` if it had no frame, so that it goes on.
    ///
    /// # Errors
    /// What a single file lacks.
    pub(crate) fn rotate_now(&mut self, accounting: &Accounting<'_>) -> Result<Option<String>, String> {
        let Some(rotation) = &self.rotation else {
            return Err("it writes a single file; files follow each other with --rotate-size or \
                        --rotate-every"
                .to_owned());
        };
        if rotation.rotator.is_empty() || self.is_complete {
            return Ok(None);
        }
        self.rotate(accounting);
        Ok(self.rotation.as_ref().and_then(|rotation| rotation.last_name.clone()))
    }

    /// Writes everything that was given to the file, to the disk.
    pub(crate) fn sync(&mut self, accounting: &Accounting<'_>) {
        self.pack_rest(accounting);
        if let Some(sink) = &mut self.sink {
            sink.sync();
        }
    }

    /// What is due by time alone: a file ends on an idle line, others see what was written. No
    /// record from before `settled_ns` will come any more.
    pub(crate) fn tick(&mut self, settled_ns: u64, accounting: &Accounting<'_>) {
        let is_due = |rotation: &Rotation| rotation.rotator.due(settled_ns, 0).is_some();
        if !self.is_complete && self.rotation.as_ref().is_some_and(is_due) {
            self.rotate(accounting);
        }
        if let Some(packer) = &mut self.packer {
            packer.tick();
            self.collect(false, accounting);
        }
        if let Some(sink) = &mut self.sink {
            sink.flush();
        }
        if let (Some(losses), Some(columns)) = (&mut self.losses, &self.settings.columns)
            && losses.is_due(utc_now_ns())
        {
            losses.look(utc_now_ns(), &(columns.stats)());
        }
    }

    /// Writes everything that waits to be packed with more.
    pub(crate) fn write_packed(&mut self, accounting: &Accounting<'_>) {
        self.pack_rest(accounting);
    }

    /// Bytes of all files so far.
    pub(crate) fn len(&self) -> u64 {
        self.bytes_before + self.sink.as_ref().map_or(0, OutputFile::len)
    }

    /// True once something was refused, and nothing more is to be written.
    pub(crate) fn has_failed(&self) -> bool {
        let is_refused = self.sink.as_ref().map_or(!self.is_complete, OutputFile::has_failed);
        let has_failed = self.failure.is_some() || is_refused;
        has_failed && !self.goes_on()
    }

    /// Why the file at hand refused something, if it did.
    pub(crate) fn refusal(&self) -> Option<String> {
        let why = self.sink.as_ref()?.failure()?;
        Some(format!("cannot write to {}: {why}", self.name))
    }

    /// Ends the last file. `now_ns` names it if there never was a record.
    pub(crate) fn finish(mut self, now_ns: u64, accounting: &Accounting<'_>) -> FilesEnd {
        let is_empty = self.rotation.as_ref().is_some_and(|rotation| rotation.rotator.is_empty());
        let is_first = self.rotation.as_ref().is_none_or(|rotation| rotation.count == 0);
        if self.is_complete && self.sink.is_none() {
            // The last file has ended.
        } else if is_empty && !is_first {
            // What was begun after the last record is no file.
            let _ = open::remove(Path::new(&self.name));
        } else {
            self.end_file(Some(now_ns), accounting);
        }
        let (count, name) = match self.rotation {
            Some(rotation) => (Some(rotation.count), rotation.last_name),
            None => (None, Some(self.name)),
        };
        let (bytes, removed) = (self.bytes_before, self.removed);
        FilesEnd { bytes, count, name, failure: self.failure, losses: self.losses, removed }
    }

    fn open_stream(&mut self, name: String, place: Destination) -> Result<(), CaptureError> {
        self.name = name;
        self.begin(place)
    }

    fn open_first(&mut self, path: &Path, now_ns: u64) -> Result<(), CaptureError> {
        let settings = Arc::clone(&self.settings);
        if let Some(text) = path.to_str() {
            let pattern = NamePattern::parse(text)?;
            if settings.rotate.is_rotation() {
                let rotator = Rotator::new(settings.rotate, pattern.clone(), settings.utc_offset_s)?;
                self.rotation = Some(Rotation { rotator, pattern, count: 0, last_name: None });
                self.open_part(now_ns)?;
                // After that: what a killed capture left unfinished has its name by now.
                let go_on = |rotation: &mut Rotation| {
                    rotation.rotator.go_on_after(prior_files::find(&rotation.pattern));
                };
                self.rotation.iter_mut().for_each(go_on);
                return Ok(());
            }
            self.has_time = pattern.has_time();
            return self.open(PathBuf::from(pattern.expand(now_ns, settings.utc_offset_s)));
        }
        // A name that is not UTF-8 is taken literally, without % conversions.
        self.open(path.to_owned())
    }

    fn open_part(&mut self, now_ns: u64) -> Result<(), CaptureError> {
        let rotation = self.rotation.as_ref().expect("only called for files that follow each other");
        let name = rotation.pattern.expand(now_ns, self.settings.utc_offset_s) + PART_SUFFIX;
        self.open(PathBuf::from(name))?;
        self.begin_in_rotation();
        Ok(())
    }

    /// How many of the first `count` records fit into the bytes that all files may have.
    fn before_end(&self, chunk: &Chunk<'_>, count: usize) -> usize {
        let Some(most) = self.settings.rotate.stop_after_bytes else { return count };
        let taken = self.settings.unpacked_bytes.load(Relaxed) + self.undeclared_len();
        let left = most.get().saturating_sub(taken);
        batch::whole(&chunk.index[..count], usize::try_from(left).unwrap_or(usize::MAX)).0
    }

    /// A limit of the files was reached: nothing more is written.
    fn complete(&mut self, accounting: &Accounting<'_>) {
        self.is_complete = true;
        self.pack_rest(accounting);
        accounting.limit.close();
    }

    fn open(&mut self, path: PathBuf) -> Result<(), CaptureError> {
        self.name = path.display().to_string();
        let is_new = !path.exists();
        let ways = Ways {
            preallocate_bytes: self.settings.preallocate_bytes,
            is_direct: self.settings.is_direct,
            is_first: self.bytes_before == 0 && self.not_made.is_none(),
        };
        let is_ending = &self.settings.is_ending;
        let makes_folders = self.rotation.is_some() || self.has_time;
        let folder = if makes_folders { open::create_folders(&path) } else { Ok(()) };
        let opened = folder.and_then(|()| match self.rotation {
            Some(_) => open::create_part(&path).map(Some),
            None => open::open(&path),
        });
        let place = opened.and_then(|file| match file {
            Some(file) => Destination::of(file, ways, is_ending),
            None => Ok(Destination::Pipe(Pipe::waiting(&path, Arc::clone(is_ending)))),
        });
        let place = place.map_err(|source| {
            if is_new && source.kind() != io::ErrorKind::WouldBlock {
                // Nothing is left behind of a file that never began.
                let _ = open::remove(&path);
            }
            CaptureError::Create { name: self.name.clone(), source }
        })?;
        self.made = is_new.then_some(path);
        self.begin(place).inspect_err(|_| {
            let _ = self.made.take().map(|path| open::remove(&path));
        })
    }

    fn begin(&mut self, place: Destination) -> Result<(), CaptureError> {
        let settings = Arc::clone(&self.settings);
        self.is_stream = !matches!(place, Destination::Regular(_));
        let head = settings.head.header();
        self.own_len = settings.own_len(&head);
        let (header, interface_count) = head;
        let mut sink = OutputFile::new(place, settings.trailer_len_max(interface_count));
        sink.retry_after_failure(self.goes_on());
        let begun = match &mut self.packer {
            None => sink.begin(&header),
            Some(packer) => sink.begin(&packer.begin_file(&header)),
        };
        begun.map_err(|source| CaptureError::Write { name: self.name.clone(), len: 0, source })?;
        self.counts.interfaces = interface_count;
        settings.unpacked_bytes.fetch_add(self.own_len, Relaxed);
        self.sink = Some(sink);
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.settings.on_error == OnError::GoOn && !self.is_stream
    }

    /// Bytes that describe interfaces of devices which appeared since the file was begun, and their
    /// statistics at its end. They come before the next record.
    fn undeclared_len(&self) -> u64 {
        let Self { settings, counts, .. } = self;
        if settings.head.count() <= counts.interfaces {
            return 0;
        }
        let (blocks, interface_count) = settings.head.blocks_since(counts.interfaces);
        (blocks.len() + settings.trailer_len_max(interface_count - counts.interfaces)) as u64
    }

    /// Describes interfaces of devices that appeared since the file was begun. False if the file
    /// refuses that: it cannot have their records.
    fn declare(&mut self) -> bool {
        let len = self.undeclared_len();
        if len == 0 {
            return true;
        }
        let settings = Arc::clone(&self.settings);
        let (blocks, interface_count) = settings.head.blocks_since(self.counts.interfaces);
        let is_written = match (&mut self.packer, &mut self.sink) {
            (Some(packer), _) => {
                packer.declare(&blocks);
                true
            }
            (None, Some(sink)) => {
                sink.set_trailer_len_max(settings.trailer_len_max(interface_count));
                sink.append_block(&blocks)
            }
            (None, None) => false,
        };
        if is_written {
            self.counts.interfaces = interface_count;
            settings.unpacked_bytes.fetch_add(len, Relaxed);
            self.rotation.iter_mut().for_each(|rotation| rotation.rotator.grows(len));
        }
        is_written
    }

    /// True if all of a chunk belongs to the current file.
    fn fits_whole(&self, chunk: &Chunk<'_>) -> bool {
        let Some(Rotation { rotator, .. }) = &self.rotation else { return true };
        let len = chunk.bytes.len() as u64 + self.undeclared_len();
        !rotator.is_empty() && rotator.due(chunk.last_ns, len).is_none()
    }

    /// Number of records that belong to the current file. For an empty file at most one, because
    /// its first record decides when the file ends.
    fn fitting(&self, index: &[IndexEntry]) -> usize {
        let rotator = &self.rotation.as_ref().expect("a single file takes everything").rotator;
        let mut len = self.undeclared_len();
        let fits = |entry: &&IndexEntry| {
            len += u64::from(entry.len);
            rotator.due(entry.time_ns, len).is_none()
        };
        let count_max = if rotator.is_empty() { 1 } else { index.len() };
        index[..count_max].iter().take_while(fits).count()
    }

    /// Writes records into the current file.
    fn put(&mut self, chunk: &Chunk<'_>, accounting: &Accounting<'_>) {
        if self.not_made.is_some_and(|at| at.elapsed() >= RETRY_AFTER) && self.goes_on() {
            self.try_again(accounting);
        }
        if !self.declare() {
            return accounting.settle(chunk.index, 0);
        }
        self.settings.unpacked_bytes.fetch_add(chunk.bytes.len() as u64, Relaxed);
        self.make_room(chunk.bytes.len() as u64);
        while let Some(name) = self.rotation.as_mut().and_then(|rotation| rotation.rotator.displace()) {
            self.remove(&name);
        }
        if let Some(rotation) = &mut self.rotation {
            rotation.rotator.wrote(chunk.first_ns(), chunk.bytes.len() as u64);
        }
        if let Some(packer) = &mut self.packer {
            packer.add(chunk.bytes, chunk.index);
            self.collect(false, accounting);
            return self.note_room();
        }
        let kept = self.sink.as_mut().map_or(0, |sink| sink.append(chunk));
        accounting.settle_chunk(chunk, kept);
        self.counts.add(&chunk.index[..kept]);
    }

    /// Writes what has been compressed. With `all`, waits for the rest and writes it, too.
    fn collect(&mut self, all: bool, accounting: &Accounting<'_>) {
        while let Some(packer) = &mut self.packer
            && let Some(frame) = packer.next(all)
        {
            // With the table entries of this frame and of the one with the closing blocks.
            let trailer_len_max =
                self.settings.trailer_len_max(self.counts.interfaces) + packer.end_extra_len_max(2);
            let is_written = self.sink.as_mut().is_some_and(|sink| {
                sink.set_trailer_len_max(trailer_len_max);
                sink.append_block(&frame.bytes)
            });
            let kept = if is_written { frame.index.len() } else { 0 };
            accounting.settle(&frame.index, kept);
            self.counts.add(&frame.index[..kept]);
            if self.settings.columns.is_some() {
                self.unfinished.add(&frame.index[..kept]);
            }
            match is_written {
                true => packer.written(frame),
                false => packer.lost(frame),
            }
        }
    }

    /// Writes everything that was given to the packer.
    fn pack_rest(&mut self, accounting: &Accounting<'_>) {
        if let Some(packer) = &mut self.packer {
            packer.submit();
        }
        self.collect(true, accounting);
    }

    /// What the file at hand takes of the disk, as far as that is known: what is not packed yet
    /// takes less.
    fn note_room(&mut self) {
        let packed = self.sink.as_ref().map_or(0, OutputFile::len);
        let waiting = self.packer.as_ref().map_or(0, |packer| packer.waiting_len()) as u64;
        let end = self.settings.trailer_len_max(self.counts.interfaces) as u64;
        self.rotation.iter_mut().for_each(|rotation| rotation.rotator.takes(packed + waiting + end));
    }

    /// Removes old files until `bytes` more are within the quota.
    fn make_room(&mut self, bytes: u64) {
        while let Some(name) = self.rotation.as_mut().and_then(|rotation| rotation.rotator.evict(bytes)) {
            self.remove(&name);
        }
    }

    /// Ends the file at hand and begins the next one.
    fn rotate(&mut self, accounting: &Accounting<'_>) {
        self.end_file(None, accounting);
        self.write_losses();
        let most = self.settings.rotate.stop_after_files.map(|files| u64::from(files.get()));
        if most.is_some_and(|most| self.rotation.as_ref().is_some_and(|files| files.count >= most)) {
            return self.complete(accounting);
        }
        self.make_room(self.settings.own_len(&self.settings.head.header()));
        if !self.open_next() {
            // Records that follow are counted as lost, and the policy goes on as if they were
            // written.
            self.begin_in_rotation();
        }
    }

    fn begin_in_rotation(&mut self) {
        let own_len = self.own_len;
        self.rotation.iter_mut().for_each(|rotation| rotation.rotator.begin(own_len));
    }

    /// False when the next file cannot be made.
    fn open_next(&mut self) -> bool {
        match self.open_part(utc_now_ns()) {
            Ok(()) => self.not_made = None,
            Err(error) => {
                self.not_made = Some(Instant::now());
                self.failure.get_or_insert(error);
            }
        }
        self.not_made.is_none()
    }

    /// Tries to make the file that could not be made. What came for it meanwhile is lost.
    fn try_again(&mut self, accounting: &Accounting<'_>) {
        self.pack_rest(accounting);
        self.open_next();
    }

    /// Writes what was lost since the last file of losses.
    fn write_losses(&mut self) {
        if let (Some(losses), Some(columns)) = (&mut self.losses, &self.settings.columns)
            && let Err(error) = losses.write(utc_now_ns(), &(columns.stats)(), None)
        {
            self.failure.get_or_insert(error);
        }
    }

    fn end_file(&mut self, named_by_ns: Option<u64>, accounting: &Accounting<'_>) {
        // Records that are still being packed count when they are in the file, and the closing
        // tells the counts.
        self.pack_rest(accounting);
        let (mut written_len, mut is_ended) = (None, false);
        if let Some(mut sink) = self.sink.take() {
            let trailer = self.trailer();
            is_ended = sink.end(&trailer);
            let (len, error) = sink.finish();
            self.bytes_before += len;
            written_len = Some(len);
            if let Some(source) = error {
                let name = self.name.clone();
                self.failure.get_or_insert(CaptureError::Write { name, len, source });
            }
        }
        // A Parquet file without its footer cannot be read.
        let unfinished = std::mem::take(&mut self.unfinished);
        let is_useless = self.settings.columns.is_some() && !is_ended;
        if is_useless {
            accounting.lose(unfinished);
        }
        let Some(rotation) = &mut self.rotation else { return };
        rotation.rotator.takes(written_len.unwrap_or(0));
        let finished = match named_by_ns {
            Some(now_ns) => rotation.rotator.finish_at(now_ns),
            None => rotation.rotator.finish().expect("only files with records end for others"),
        };
        if written_len.is_some() && !is_useless {
            rotation.count += 1;
            self.publish(&finished.name);
        }
    }

    /// What the file at hand ends with.
    fn trailer(&mut self) -> Vec<u8> {
        let trailer = (self.settings.trailer)(&self.counts);
        match &mut self.packer {
            Some(packer) => packer.end_of_file(&trailer),
            None => trailer,
        }
    }

    /// Gives a complete file its own name.
    fn publish(&mut self, name: &str) {
        match open::rename(Path::new(&self.name), Path::new(name)) {
            Ok(()) => {
                self.rotation.iter_mut().for_each(|files| files.last_name = Some(name.to_owned()));
                self.command.iter().for_each(|command| command.finished(name));
            }
            Err(source) => {
                let (part, name) = (self.name.clone(), name.to_owned());
                self.failure.get_or_insert(CaptureError::Rename { part, name, source });
            }
        }
    }

    fn remove(&mut self, name: &str) {
        match open::remove(Path::new(name)) {
            Ok(()) => self.removed += 1,
            // The user has moved it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                self.failure.get_or_insert(CaptureError::Remove { name: name.to_owned(), source });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::output::accounting::Limit;
    use crate::output::rotate::FileInterval;
    use crate::record::batch::EncodedBatch;
    use crate::record::batch::samples::{add, batch, batch_of_card};
    use crate::record::ring_handle::RingHandle;
    use pcapng::{Block, Interface, Reader, Statistics};
    use std::fs::{self, File};
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
    fn settings(ring: &Arc<RingHandle>) -> FileSettings {
        let ring = Arc::clone(ring);
        FileSettings {
            head: FileHead::for_test(Format::Pcapng),
            trailer: Arc::new(move |_| ring.counts.get().written.to_le_bytes().to_vec()),
            statistics_len_max: 8,
            counts_interfaces: false,
            rotate: RotatePolicy::default(),
            utc_offset_s: 0,
            compression: None,
            columns: None,
            on_error: OnError::default(),
            preallocate_bytes: 0,
            is_direct: false,
            is_ending: Arc::default(),
            unpacked_bytes: AtomicU64::new(0),
        }
    }

    #[test]
    fn a_compressed_file_ends_with_counts_of_its_last_frames_too() {
        for compression in [None, Some(Compression::Zstd { level: 1 })] {
            let (ring, memory) = (RingHandle::for_test(), Memory::default());
            let settings = Arc::new(FileSettings { compression, ..settings(&ring) });
            let output = Output::Stream { name: "memory".to_owned(), to: Box::new(memory.clone()) };
            let mut files = FileSet::create(output, settings, None, 0).unwrap().unwrap();
            let (rings, limit) = ([ring], Limit::new(None));
            let accounting = Accounting::new(&rings, &limit);
            (0..3).for_each(|_| files.append(&batch(0, &[0], 60).chunk(), &accounting));
            assert!(files.finish(0, &accounting).failure.is_none());
            let file = memory.0.lock().unwrap();
            let file = compression.map_or_else(|| file.clone(), |_| zstd::decode_all(&file[..]).unwrap());
            assert_eq!(file.last_chunk(), Some(&3_u64.to_le_bytes()), "{compression:?}");
        }
    }

    /// The statistics at the end of a file came on top of the size.
    #[test]
    fn files_of_a_size_are_not_longer_with_their_end() {
        let folder = testkit::Folder::new("size");
        let ring = RingHandle::for_test();
        let like = settings(&ring);
        let one = batch(0, &[0], 96).bytes.len() as u64;
        for (more, files) in [(0, 5), (one - 1, 5), (one, 4)] {
            let most = like.own_len(&like.head.header()) + 2 * one + more;
            let rotate = RotatePolicy { size_max_bytes: NonZeroU64::new(most), ..RotatePolicy::default() };
            let settings = FileSettings { rotate, ..settings(&ring) };
            let output = Output::File(folder.join(format!("{more}.pcapng")));
            let mut written = FileSet::create(output, Arc::new(settings), None, 0).unwrap().unwrap();
            let (rings, limit) = ([Arc::clone(&ring)], Limit::new(None));
            let accounting = Accounting::new(&rings, &limit);
            written.append(&batch(0, &[0; 10], 96).chunk(), &accounting);
            assert_eq!(written.finish(0, &accounting).count, Some(files));
            for file in fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap()) {
                assert!(file.metadata().unwrap().len() <= most, "{file:?}");
                fs::remove_file(file.path()).unwrap();
            }
        }
    }

    /// Each file of a rotation describes the interfaces of its records before them, and none is
    /// longer for it; a stream and a compressed file go on with the description.
    #[test]
    fn interfaces_of_devices_that_appear_are_described_before_their_records() {
        let folder = testkit::Folder::new("interfaces");
        for (compression, size_max_bytes) in
            [(None, None), (None, NonZeroU64::new(3_000)), (Some(Compression::Zstd { level: 1 }), None)]
        {
            let ring = RingHandle::for_test();
            let rotate = RotatePolicy { size_max_bytes, ..RotatePolicy::default() };
            let trailer = Arc::new(|counts: &FileCounts| {
                let mut blocks = Vec::new();
                for interface in 0..counts.interfaces as u32 {
                    let delivered = counts.written(interface);
                    Statistics { interface, delivered, ..Statistics::default() }.emit(&mut blocks);
                }
                blocks
            });
            let counts_interfaces = true;
            let statistics_len_max = 48;
            let like = settings(&ring);
            let settings =
                FileSettings { trailer, statistics_len_max, counts_interfaces, compression, rotate, ..like };
            let settings = Arc::new(settings);
            let name = folder.join("x");
            let mut files = FileSet::create(Output::File(name), Arc::clone(&settings), None, 0);
            let mut files = files.as_mut().unwrap().take().unwrap();
            let (rings, limit) = ([ring], Limit::new(None));
            let accounting = Accounting::new(&rings, &limit);
            for interface in 0..20_u16 {
                if interface > 0 {
                    let name = Some(format!("veth{interface}"));
                    settings.head.interfaces.add_for_test(Interface { name, ..Interface::default() });
                }
                let mut records = EncodedBatch::default();
                (0..2).for_each(|_| add(&mut records, 0, interface.into(), 0, &[7; 60]));
                files.append(&records.chunk(), &accounting);
            }
            assert!(files.finish(0, &accounting).failure.is_none());
            let mut written = vec![0; 20];
            for entry in fs::read_dir(&*folder).unwrap() {
                let path = entry.unwrap().path();
                let bytes = fs::read(&path).unwrap();
                assert!(size_max_bytes.is_none_or(|most| bytes.len() as u64 <= most.get()));
                let bytes =
                    compression.map_or_else(|| bytes.clone(), |_| zstd::decode_all(&bytes[..]).unwrap());
                let mut reader = Reader::new(&bytes[..]);
                while let Some(block) = reader.next_block().unwrap() {
                    if let Block::Packet(packet) = block {
                        written[packet.interface as usize] += 1;
                    }
                }
                fs::remove_file(path).unwrap();
            }
            assert_eq!(written, [2; 20]);
        }
    }

    /// It got its final name, and its rows counted as written.
    #[test]
    fn a_part_without_its_footer_stays_unfinished_and_its_rows_are_lost() {
        let folder = testkit::Folder::new("footer");
        let ring = RingHandle::for_test();
        let columns = ColumnSettings {
            ring_cpus: Arc::new(|| vec![Some(0)]),
            stats: Arc::new(Stats::default),
            device_count: 1,
        };
        let interval = FileInterval { length_ns: NonZeroU64::MAX, is_aligned: false };
        let rotate = RotatePolicy { interval: Some(interval), ..RotatePolicy::default() };
        let settings = FileSettings { columns: Some(columns), rotate, ..settings(&ring) };
        let output = Output::File(folder.join("part-%s"));
        let mut files = FileSet::create(output, Arc::new(settings), None, 0).unwrap().unwrap();
        let (rings, limit) = ([ring], Limit::new(Some(10)));
        let accounting = Accounting::new(&rings, &limit);
        limit.take(3);
        files.append(&batch(0, &[1, 2, 3], 60).chunk(), &accounting);
        files.write_packed(&accounting);
        assert_eq!(rings[0].counts.get().written, 3);
        // The disk is full from here on.
        let full = Destination::Stream(Box::new(File::options().write(true).open("/dev/full").unwrap()));
        files.sink = Some(OutputFile::new(full, 0));
        let end = files.finish(0, &accounting);
        assert!(end.failure.is_some());
        assert_eq!(end.count, Some(0));
        let counts = rings[0].counts.get();
        assert_eq!((counts.written, counts.lost_disk, limit.take(20)), (0, 3, 10));
        let names: Vec<_> = fs::read_dir(&*folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.len() == 1 && names[0].to_string_lossy().ends_with(".part"), "{names:?}");
    }

    #[test]
    fn a_file_that_could_not_be_made_is_tried_again_long_before_the_next_is_due() {
        let parent = testkit::Folder::new("files");
        let folder = parent.join("later");
        let one = batch(0, &[0], 96).bytes.len() as u64;
        for compression in [None, Some(Compression::Lz4)] {
            let ring = RingHandle::for_test();
            let like = settings(&ring);
            let size_max_bytes = NonZeroU64::new(like.head.header().0.len() as u64 + 100_000 * one);
            let rotate = RotatePolicy { size_max_bytes, ..RotatePolicy::default() };
            let trailer = Arc::new(|_: &FileCounts| Vec::new());
            let settings = FileSettings { trailer, rotate, compression, on_error: OnError::GoOn, ..like };
            let output = Output::File(folder.join("x"));
            let mut files = FileSet::create(output, Arc::new(settings), None, 0).unwrap().unwrap();
            let (rings, limit, mut offered) = ([ring], Limit::new(None), 0);
            let mut append = |files: &mut FileSet, count: usize| {
                offered += count as u64;
                let accounting = Accounting::new(&rings, &limit);
                files.append(&batch(0, &vec![0; count], 96).chunk(), &accounting);
                // What is compressed goes when it is old enough.
                files.tick(0, &accounting);
                rings[0].counts.get().written
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
            files.finish(0, &Accounting::new(&rings, &limit));
            let written = rings[0].counts.get().written;
            // The file that began before is gone; of what came between, nothing is in a file.
            assert!(written < offered && offered < 100_000 + 90_000, "{written} of {offered}");
            fs::remove_dir_all(&folder).unwrap();
        }
    }

    /// With `--clock phc` the end of a file at an interval was decided by the card's time, and its
    /// name made of that.
    #[test]
    fn files_of_an_interval_begin_and_end_by_the_time_of_day() {
        const S: u64 = 1_000_000_000;
        let folder = testkit::Folder::new("phc");
        let ring = RingHandle::for_test();
        let interval = FileInterval { length_ns: NonZeroU64::new(S).unwrap(), is_aligned: true };
        let rotate = RotatePolicy { interval: Some(interval), ..RotatePolicy::default() };
        let settings = FileSettings { rotate, ..settings(&ring) };
        let output = Output::File(folder.join("%s"));
        let mut files = FileSet::create(output, Arc::new(settings), None, 0).unwrap().unwrap();
        // By the card, half a second and 37 more ahead, all of them belong together.
        let times_ns = [15 * S / 10, 18 * S / 10, 21 * S / 10, 23 * S / 10];
        let records = batch_of_card(0, &times_ns, 0, 375 * S / 10);
        let (rings, limit) = ([ring], Limit::new(None));
        let accounting = Accounting::new(&rings, &limit);
        files.append(&records.chunk(), &accounting);
        assert_eq!(files.finish(0, &accounting).count, Some(2));
        let packets = |name: &str| {
            let file = fs::read(folder.join(name)).unwrap();
            let (mut reader, mut count) = (pcapng::Reader::new(&file[..]), 0);
            while let Ok(Some(block)) = reader.next_block() {
                count += u64::from(matches!(block, pcapng::Block::Packet(_)));
            }
            count
        };
        assert_eq!((packets("1"), packets("2")), (2, 2));
        assert_eq!(rings[0].counts.get().hardware_time, 4);
    }
}
