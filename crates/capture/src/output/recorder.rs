//! The flight recorder: keeps the last frames in memory and writes them when something triggers.
//!
//! Each save is a file of its own with the frames that were kept, and with those of a time after
//! the trigger. A frame is in one file at most. Frames that leave the window without a save are
//! counted as not kept, which is no loss.

use crate::Output;
use crate::backend::filter::LinkFilter;
use crate::error::in_one_line;
use crate::output::accounting::{Accounting, FileCounts};
use crate::output::fileset::{FileSet, FileSettings};
use crate::output::names::{NamePattern, with_number};
use crate::output::open;
use crate::output::prior_files;
use crate::record::batch::{Chunk, EncodedBatch, IndexEntry};
use crate::record::format::Format;
use crate::record::ring_handle::RingDevice;
use crate::time::utc::utc_now_ns;
use crate::{CaptureError, RecorderOptions};
use measure::{MarkedNumber, first_number, marked_number, unwrap_number};
use pcapng::Packet;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Digits of the numbers of saves.
const NUMBER_DIGITS: usize = 5;
/// Most bytes of a piece of the memory, which is kept or dropped as a whole.
const PIECE_LEN: usize = 256 << 10;
/// A piece is at most this part of the window, of its time and of its bytes.
const PIECES_OF_WINDOW: u64 = 50;
/// Streams whose numbers are followed for gaps.
const STREAMS_MAX: usize = 65_536;

/// What is known of the recorder while it runs.
#[derive(Debug, Default)]
pub(crate) struct RecorderCounts {
    /// How saves have ended, until they are taken: names of files that are complete, and reasons
    /// why there is none.
    pub(crate) ended: Mutex<Vec<Result<String, String>>>,
    /// Triggers that came after the last save that is allowed.
    pub(crate) refused: AtomicU64,
    /// Nanoseconds between the first and the last frame in memory at the last save, or at the end.
    pub(crate) window_ns: AtomicU64,
}

impl RecorderCounts {
    fn add_ended(&self, saved: Result<String, String>) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(saved);
    }
}

/// The settings of a file with a comment that says why it was written.
pub(crate) type SettingsOf = dyn Fn(&str) -> Arc<FileSettings> + Send;

/// The frames of the last seconds in memory, written when something triggers.
pub(crate) struct Recorder {
    options: RecorderOptions,
    format: Format,
    pattern: NamePattern,
    utc_offset_s: i32,
    settings_of: Box<SettingsOf>,
    pieces: VecDeque<Piece>,
    bytes: u64,
    newest_ns: u64,
    filter: Option<Condition>,
    losses: Option<LossCondition>,
    /// Number of the last file.
    number: u64,
    /// Files written or begun.
    begun: u64,
    /// Frames from before this time belong to a trigger whose file could not be created.
    refused_until_ns: u64,
    /// The highest number of the files of earlier captures, by the name without it.
    taken: BTreeMap<String, u64>,
    /// The file of the last trigger, while frames belong to it.
    save: Option<Save>,
    /// What the files so far have: statistics count from the start of the capture.
    saved: Option<FileCounts>,
    counts: Arc<RecorderCounts>,
    /// Files that are complete, and the bytes of all.
    pub(crate) names: Vec<String>,
    pub(crate) file_bytes: u64,
    pub(crate) failure: Option<CaptureError>,
}

/// Frames in memory, which are dropped or saved together.
#[derive(Default)]
struct Piece {
    batch: EncodedBatch,
    /// A trigger asked for them, and its file could not be created.
    is_refused: bool,
}

struct Save {
    file: FileSet,
    name: String,
    until_ns: u64,
}

impl Piece {
    /// Counts its frames, which are in no file.
    fn leave(self, accounting: &Accounting<'_>) {
        match self.is_refused {
            true => accounting.settle(&self.batch.index, 0),
            false => accounting.not_kept(&self.batch.index),
        }
    }
}

/// A filter as a trigger: fires when it becomes true.
struct Condition {
    filter: LinkFilter,
    is_true: bool,
}

/// A number so far below the highest one is that of a sender that was started anew.
const RESTART_DISTANCE: u64 = 1024;

/// A number that has not come so long after a higher one is missing: frames that only changed
/// places come earlier, also those of several queues of a card.
const LATE_NS: u64 = 100_000_000;
/// Gaps that are waited for; beyond, the oldest is a loss at once.
const GAPS_MAX: usize = 256;

/// Gaps in the numbers of marked frames.
#[derive(Default)]
struct LossCondition {
    last: BTreeMap<u64, u64>,
    /// Those whose numbers may still come, the oldest first.
    gaps: VecDeque<Gap>,
}

/// Numbers of a stream that have not come yet.
#[derive(Clone, Copy)]
struct Gap {
    stream: u64,
    first: u64,
    last: u64,
    /// When a higher number came.
    seen_ns: u64,
    is_short: bool,
}

impl LossCondition {
    /// Takes the number of a frame.
    fn follow(&mut self, data: &[u8], time_ns: u64) {
        let Some(MarkedNumber { stream, number, is_short }) = marked_number(data) else { return };
        if self.last.len() >= STREAMS_MAX && !self.last.contains_key(&stream) {
            return;
        }
        let first = if is_short { first_number(number as u32, 1) } else { number };
        let last = self.last.entry(stream).or_insert(first);
        let before = *last;
        let number = if is_short { unwrap_number(before, number as u32) } else { number };
        let has_restarted = number.saturating_add(RESTART_DISTANCE) < before;
        *last = if has_restarted { number } else { before.max(number) };
        if number > before + 1 {
            let (first, last) = (before + 1, number - 1);
            self.gaps.push_back(Gap { stream, first, last, seen_ns: time_ns, is_short });
        }
        let has_it = |gap: &Gap| gap.stream == stream && (gap.first..=gap.last).contains(&number);
        if let Some(place) = self.gaps.iter().position(has_it) {
            self.came(place, number);
        }
    }

    /// The numbers of a gap before and behind one that came late are still missing.
    fn came(&mut self, place: usize, number: u64) {
        let Some(gap) = self.gaps.remove(place) else { return };
        if number < gap.last {
            self.gaps.insert(place, Gap { first: number + 1, ..gap });
        }
        if number > gap.first {
            self.gaps.insert(place, Gap { last: number - 1, ..gap });
        }
    }

    /// The oldest gap whose numbers are not waited for any more at this time, for a message.
    fn lost(&mut self, now_ns: u64) -> Option<String> {
        let is_full = self.gaps.len() > GAPS_MAX;
        let oldest = self.gaps.front().filter(|gap| is_full || now_ns >= gap.seen_ns.saturating_add(LATE_NS));
        oldest?;
        let Gap { first, last, is_short, .. } = self.gaps.pop_front()?;
        let [first, last] =
            [first, last].map(|number| if is_short { u64::from(number as u32) } else { number });
        Some(format!("a loss: numbers {first} to {last} are missing"))
    }
}

impl Recorder {
    /// Keeps frames for files of a pattern.
    ///
    /// # Errors
    /// [`CaptureError::Name`].
    pub(crate) fn new(
        options: RecorderOptions,
        (path, format): (&str, Format),
        filter: Option<LinkFilter>,
        utc_offset_s: i32,
        settings_of: Box<SettingsOf>,
        counts: Arc<RecorderCounts>,
    ) -> Result<Self, CaptureError> {
        let losses = options.on_loss.then(LossCondition::default);
        let pattern = NamePattern::parse(path)?;
        Ok(Self {
            taken: prior_files::highest_numbers(&prior_files::find(&pattern)),
            pattern,
            number: 0,
            begun: 0,
            refused_until_ns: 0,
            options,
            format,
            utc_offset_s,
            settings_of,
            pieces: VecDeque::new(),
            bytes: 0,
            newest_ns: 0,
            filter: filter.map(|filter| Condition { filter, is_true: false }),
            losses,
            save: None,
            saved: None,
            counts,
            names: Vec::new(),
            file_bytes: 0,
            failure: None,
        })
    }

    /// Takes records in order.
    pub(crate) fn append(&mut self, chunk: &Chunk<'_>, accounting: &Accounting<'_>) {
        let mut at = 0;
        for entry in chunk.index {
            let bytes = &chunk.bytes[at..at + entry.len as usize];
            at += bytes.len();
            self.end_due_save(entry.time_ns, accounting);
            let device = accounting.rings[entry.ring()].device_of(*entry);
            let reason = self.triggered_by(bytes, *entry, &device);
            match &mut self.save {
                Some(save) => save.file.append(&Chunk::new(bytes, std::slice::from_ref(entry)), accounting),
                None => self.keep(bytes, *entry, accounting),
            }
            self.trigger(reason, entry.time_ns, accounting);
        }
    }

    /// Saves what is in memory if there is a reason, and reports how that ended.
    fn trigger(&mut self, reason: Option<String>, now_ns: u64, accounting: &Accounting<'_>) {
        let Some(reason) = reason else { return };
        if self.refuse_beyond_most().is_ok() {
            let saved = self.save(&reason, now_ns, accounting);
            if self.save.is_none() {
                self.counts.add_ended(saved);
            }
        }
    }

    /// Why frames that are missing trigger now, if they do. During a save they belong to it.
    fn triggered_by_loss(&mut self, now_ns: u64) -> Option<String> {
        let lost = self.losses.as_mut()?.lost(now_ns)?;
        self.save.is_none().then_some(lost)
    }

    /// What is due by time alone. No record from before `settled_ns` will come any more, so the
    /// file of a save ends by that time; frames leave the window by `now_ns`.
    pub(crate) fn tick(&mut self, settled_ns: u64, now_ns: u64, accounting: &Accounting<'_>) {
        self.end_due_save(settled_ns, accounting);
        let reason = self.triggered_by_loss(settled_ns);
        self.trigger(reason, settled_ns, accounting);
        self.newest_ns = self.newest_ns.max(now_ns);
        self.evict(0, accounting);
        if let Some(save) = &mut self.save {
            save.file.tick(0, accounting);
        }
    }

    /// Writes what is in memory into a file, and lets frames of the time after `now_ns` follow.
    /// Returns its name.
    ///
    /// # Errors
    /// Why there is no file.
    pub(crate) fn save_now(
        &mut self,
        reason: &str,
        now_ns: u64,
        accounting: &Accounting<'_>,
    ) -> Result<String, String> {
        if let Some(save) = &mut self.save {
            // Frames are on their way into a file already.
            return Ok(save.name.clone());
        }
        self.refuse_beyond_most()?;
        let saved = self.save(reason, now_ns, accounting);
        if saved.is_ok() && self.save.is_none() {
            self.counts.add_ended(saved.clone());
        }
        saved
    }

    /// Refuses a trigger after the last save that is allowed, and counts it.
    fn refuse_beyond_most(&self) -> Result<(), String> {
        let most = self.options.saves_max;
        if self.begun < most {
            return Ok(());
        }
        self.counts.refused.fetch_add(1, Relaxed);
        Err(format!("{most} files were saved, as many as --max-saves allows"))
    }

    /// Writes the frames in memory into a new file, and returns its name. The file is complete if
    /// no frames may follow.
    fn save(&mut self, reason: &str, now_ns: u64, accounting: &Accounting<'_>) -> Result<String, String> {
        self.note_window();
        let name = self.next_name(now_ns);
        let until_ns = now_ns.saturating_add(self.options.after_ns);
        let mut file = match self.create(&name, reason, now_ns) {
            Ok(file) => file,
            Err(error) => {
                let why = in_one_line(&error);
                // What is in memory stays there for the next trigger.
                self.pieces.iter_mut().for_each(|piece| piece.is_refused = true);
                self.refused_until_ns = until_ns;
                self.failure.get_or_insert(error);
                return Err(why);
            }
        };
        self.begun += 1;
        self.refused_until_ns = 0;
        for piece in self.pieces.drain(..) {
            file.append(&piece.batch.chunk(), accounting);
        }
        self.bytes = 0;
        let refusal = file.refusal();
        self.save = Some(Save { file, name: name.clone(), until_ns });
        match self.options.after_ns {
            0 => self.end_save(until_ns, accounting).unwrap_or(Ok(name)),
            _ => refusal.map_or(Ok(name), Err),
        }
    }

    fn create(&self, name: &str, reason: &str, now_ns: u64) -> Result<FileSet, CaptureError> {
        let path = PathBuf::from(name.replace('%', "%%"));
        if self.pattern.has_time() {
            let failed = |source| CaptureError::Create { name: name.to_owned(), source };
            open::create_folders(Path::new(name)).map_err(failed)?;
        }
        let settings = (self.settings_of)(&format!("saved because of {reason}"));
        let file = FileSet::create(Output::File(path), settings, None, now_ns)?.expect("it is a file");
        Ok(file.after(self.saved.clone()))
    }

    /// Refuses a name whose files this user cannot create, before the first trigger asks for one.
    /// Folders of names with a time are created later.
    ///
    /// # Errors
    /// [`CaptureError::Create`].
    pub(crate) fn refuse_without_folder(&self, now_ns: u64) -> Result<(), CaptureError> {
        let name = self.pattern.expand(now_ns, self.utc_offset_s);
        let mut path = Path::new(&name);
        let refused = loop {
            match (open::refuse_to_create(path), path.parent()) {
                (Err(why), Some(folder))
                    if why.kind() == ErrorKind::NotFound
                        && self.pattern.has_time()
                        && !folder.as_os_str().is_empty() =>
                {
                    path = folder;
                }
                (refused, _) => break refused,
            }
        };
        refused.map_err(|source| CaptureError::Create { name: name.clone(), source })
    }

    /// The name of the next file. Numbers go on after those of earlier captures.
    fn next_name(&mut self, now_ns: u64) -> String {
        let base = self.pattern.expand(now_ns, self.utc_offset_s);
        let highest = self.taken.get(&base).copied().unwrap_or(0);
        self.number = self.number.max(highest) + 1;
        with_number(&base, self.number, NUMBER_DIGITS)
    }

    /// Ends the file at hand. Numbers that are missing now are lost, and trigger; other frames in
    /// memory are not kept.
    pub(crate) fn finish(&mut self, accounting: &Accounting<'_>) {
        self.end_due_save(u64::MAX, accounting);
        let reason = self.triggered_by_loss(u64::MAX);
        self.trigger(reason, self.newest_ns, accounting);
        self.end_due_save(u64::MAX, accounting);
        self.note_window();
        self.pieces.drain(..).for_each(|piece| piece.leave(accounting));
    }

    /// Ends the file at hand if it is due, and reports how that ended.
    fn end_due_save(&mut self, now_ns: u64, accounting: &Accounting<'_>) {
        let ended = self.end_save(now_ns, accounting);
        ended.into_iter().for_each(|saved| self.counts.add_ended(saved));
    }

    /// Ends the file at hand if it is due. Returns its name, or why it is cut.
    fn end_save(&mut self, now_ns: u64, accounting: &Accounting<'_>) -> Option<Result<String, String>> {
        let Save { file, name, .. } = self.save.take_if(|save| now_ns >= save.until_ns)?;
        self.saved = Some(file.counts());
        let ended = file.finish(utc_now_ns(), accounting);
        self.file_bytes += ended.bytes;
        self.names.push(name.clone());
        Some(ended.failure.map_or(Ok(name), |failure| {
            let why = in_one_line(&failure);
            self.failure.get_or_insert(failure);
            Err(why)
        }))
    }

    /// Why this record triggers, if it does. A condition that stays true triggers once.
    fn triggered_by(&mut self, record: &[u8], entry: IndexEntry, device: &RingDevice) -> Option<String> {
        if self.filter.is_none() && self.losses.is_none() {
            return None;
        }
        let Packet { data, frame_len, .. } = self.format.packet_of(record)?;
        let mut reason = None;
        if let Some(Condition { filter, is_true }) = &mut self.filter {
            let matches = filter.accepts(data, frame_len, entry.is_outgoing(), device);
            let was_true = std::mem::replace(is_true, matches);
            if *is_true && !was_true && self.save.is_none() {
                reason =
                    self.options.trigger.as_ref().map(|trigger| format!("a frame that matches '{trigger}'"));
            }
        }
        self.losses.iter_mut().for_each(|losses| losses.follow(data, entry.time_ns));
        let lost = self.triggered_by_loss(entry.time_ns);
        reason.or(lost)
    }

    fn keep(&mut self, bytes: &[u8], entry: IndexEntry, accounting: &Accounting<'_>) {
        self.newest_ns = self.newest_ns.max(entry.time_ns);
        self.evict(bytes.len() as u64, accounting);
        let piece_ns = self.options.keep_ns.map_or(u64::MAX, |keep_ns| keep_ns / PIECES_OF_WINDOW);
        let piece_len = (PIECE_LEN as u64).min(self.options.keep_bytes / PIECES_OF_WINDOW);
        let is_refused = entry.time_ns < self.refused_until_ns;
        let is_full = |piece: &Piece| {
            piece.is_refused != is_refused
                || piece.batch.bytes.len() as u64 >= piece_len
                || entry.time_ns.saturating_sub(piece.batch.index[0].time_ns) > piece_ns
        };
        if self.pieces.back().is_none_or(is_full) {
            if let Some(Piece { batch, .. }) = self.pieces.back_mut() {
                batch.bytes.shrink_to_fit();
                batch.index.shrink_to_fit();
            }
            self.pieces.push_back(Piece { is_refused, ..Piece::default() });
        }
        let Piece { batch, .. } = self.pieces.back_mut().expect("there is one");
        batch.bytes.extend_from_slice(bytes);
        batch.push(entry);
        self.bytes += (bytes.len() + size_of::<IndexEntry>()) as u64;
    }

    /// Drops what is too old, or too much with `more` bytes.
    fn evict(&mut self, more: u64, accounting: &Accounting<'_>) {
        let oldest_ns = self.options.keep_ns.map_or(0, |keep_ns| self.newest_ns.saturating_sub(keep_ns));
        while let Some(Piece { batch, .. }) = self.pieces.front()
            && (batch.last_ns < oldest_ns || self.bytes + more > self.options.keep_bytes)
        {
            self.bytes -= (batch.bytes.len() + std::mem::size_of_val(&batch.index[..])) as u64;
            self.pieces.pop_front().into_iter().for_each(|piece| piece.leave(accounting));
        }
    }

    fn note_window(&self) {
        let first =
            self.pieces.front().and_then(|piece| piece.batch.index.first()).map(|entry| entry.time_ns);
        let last = self.pieces.back().map(|piece| piece.batch.last_ns);
        if let (Some(first), Some(last)) = (first, last) {
            self.counts.window_ns.store(last.saturating_sub(first), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{FULL_LEN, FullFields, SHORT_LEN, Signature};

    fn frame(number: u64, is_short: bool) -> Vec<u8> {
        let len = if is_short { SHORT_LEN } else { FULL_LEN };
        let full = (!is_short).then_some(FullFields { flow: 0, number, run: 1 });
        let signature = Signature { seq_num: number as u32, sec: 1, full, ..Signature::default() };
        let mut frame = vec![0; 42 + len];
        signature.emit(&mut frame[42..]);
        frame
    }

    /// After a restart of the sender, or 2^32 frames, no loss was noticed any more.
    #[test]
    fn gaps_are_noticed_after_a_restart_and_after_a_wrap() {
        let wrap = u64::from(u32::MAX);
        for (numbers, is_short, gaps) in [
            (vec![100_000, 100_001, 100_003, 0, 1, 4], false, vec!["100002 to 100002", "2 to 3"]),
            // Neighbours changed places, and three came late.
            (vec![1, 3, 2, 5, 4, 6], false, vec![]),
            (vec![1, 5, 3, 2, 4, 8, 6, 7], false, vec![]),
            (vec![1, 5, 3, 4, 6], false, vec!["2 to 2"]),
            (vec![1, 7, 4, 8], false, vec!["2 to 3", "5 to 6"]),
            // A copy of a late frame stands for no other.
            (vec![1, 4, 2, 2, 5], false, vec!["3 to 3"]),
            (vec![1, 3, 5, 4, 6], true, vec!["2 to 2"]),
            (vec![100_000, 100_001, 0, 1, 4], true, vec!["2 to 3"]),
            (vec![wrap - 1, wrap, wrap + 1, wrap + 2, wrap + 5], true, vec!["2 to 3"]),
            (vec![wrap - 1, wrap + 2], true, vec!["4294967295 to 0"]),
            (vec![0, wrap, 1, 2], true, vec![]),
            (vec![5, 3, 4, 6, 7], false, vec![]),
        ] {
            let mut losses = LossCondition::default();
            let mut found = Vec::new();
            for (time_ns, number) in (1..).zip(&numbers) {
                losses.follow(&frame(*number, is_short), time_ns);
                found.extend(losses.lost(time_ns));
            }
            assert!(found.is_empty(), "they may still come: {found:?}");
            found.extend(std::iter::from_fn(|| losses.lost(LATE_NS + 100)));
            let expected: Vec<String> =
                gaps.iter().map(|gap| format!("a loss: numbers {gap} are missing")).collect();
            assert_eq!(found, expected, "{numbers:?}");
        }
    }
}
