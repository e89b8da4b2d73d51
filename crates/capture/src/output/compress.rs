//! Compression on separate threads, in one frame per file whose blocks are complete in each piece.
//!
//! The writer passes records and receives compressed pieces in order. Only the writer writes and
//! counts, so a piece that the disk refuses is lost with exactly its records. A file that is cut is
//! read to its last whole piece, and old readers (Wireshark 4.0) read a single frame only.
//!
//! Blocks of lz4 do not refer to each other, so each thread compresses pieces of its own. Those of
//! zstd do: one thread passes pieces to the encoder, which has threads of its own. When a piece is
//! lost, those behind it refer to what is not there. They are compressed again, in a new frame.

use crate::output::packer::{PackedRecords, Packer};
use crate::record::batch::IndexEntry;
use crate::sys;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

/// Bytes that a thread compresses at a time.
const PIECE_LEN: usize = 1 << 20;
/// What waits longer than this is a piece of its own, so that others see it.
const AGE_MAX: Duration = Duration::from_millis(500);
/// More threads than this write faster than disks.
const THREADS_MAX: usize = 8;

/// Bytes that a short piece may be longer than what is in it: heads, checksums and ends of either
/// format.
const PIECE_EXTRA_LEN_MAX: usize = 128;

/// The last block of a zstd frame, without content.
const ZSTD_LAST_BLOCK: [u8; 3] = [1, 0, 0];
/// Bytes of the head of an lz4 frame without options.
const LZ4_HEAD_LEN: usize = 7;
/// What an lz4 frame ends with, without a checksum.
const LZ4_END: [u8; 4] = [0; 4];

/// How files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// zstd in the seekable format.
    Zstd {
        /// 1 (fast) to 22 (small); negative ones are faster still.
        level: i32,
    },
    /// lz4 frames: little smaller, very fast.
    Lz4,
}

impl Compression {
    /// What file names end with, the dot included.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Zstd { .. } => ".zst",
            Self::Lz4 => ".lz4",
        }
    }
}

/// The place of a piece in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PiecePlace {
    /// The first one of a file.
    First,
    Middle,
    /// The last one.
    Last,
}

/// A piece to be compressed.
struct CompressJob {
    number: u64,
    place: PiecePlace,
    /// Begins a new frame, behind one that was cut off by a loss.
    restarts: bool,
    raw: Vec<u8>,
    index: Vec<IndexEntry>,
}

/// A compressed piece.
struct PackedPiece {
    place: PiecePlace,
    records: PackedRecords,
}

/// Threads that compress records to one frame per file, in order.
pub(crate) struct Compressor {
    compression: Compression,
    /// Bytes of a piece, before compression.
    piece_len: usize,
    raw: Vec<u8>,
    index: Vec<IndexEntry>,
    /// Since when `raw` is not empty.
    since: Option<Instant>,
    /// `None` only while it is dropped.
    jobs: Option<SyncSender<CompressJob>>,
    packed: Receiver<PackedPiece>,
    threads: Vec<JoinHandle<()>>,
    /// Compressed before their turn.
    early: BTreeMap<u64, PackedPiece>,
    submitted: u64,
    returned: u64,
    /// The next piece that is compressed begins a new frame.
    restarts: bool,
    /// Bytes that came and were not given back compressed.
    waiting_len: usize,
    spare: Vec<Vec<u8>>,
}

impl Compressor {
    /// Starts the threads.
    pub(crate) fn new(compression: Compression) -> std::io::Result<Self> {
        let workers = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let (own, piece_len) = match compression {
            Compression::Zstd { .. } => (1, PIECE_LEN * workers),
            Compression::Lz4 => (workers, PIECE_LEN),
        };
        let (jobs, queue) = sync_channel(own + 1);
        let (done, packed) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..own).map(|number| {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            thread::Builder::new()
                .name(format!("pack-{number}"))
                .spawn(move || pack_all(compression, workers, &queue, &done))
        });
        Ok(Self {
            compression,
            piece_len,
            raw: Vec::new(),
            index: Vec::new(),
            since: None,
            threads: threads.collect::<Result<_, _>>()?,
            jobs: Some(jobs),
            packed,
            early: BTreeMap::new(),
            submitted: 0,
            returned: 0,
            restarts: false,
            waiting_len: 0,
            spare: Vec::new(),
        })
    }

    /// Submits what waits, and a first or last piece also if nothing does.
    fn submit_as(&mut self, place: PiecePlace) {
        self.since = None;
        if self.raw.is_empty() && place == PiecePlace::Middle {
            return;
        }
        let raw = std::mem::replace(&mut self.raw, self.spare.pop().unwrap_or_default());
        let index = std::mem::take(&mut self.index);
        self.send(self.submitted, place, raw, index);
        self.submitted += 1;
    }

    fn send(&mut self, number: u64, place: PiecePlace, raw: Vec<u8>, index: Vec<IndexEntry>) {
        let restarts = std::mem::take(&mut self.restarts) && place != PiecePlace::First;
        let job = CompressJob { number, place, restarts, raw, index };
        let jobs = self.jobs.as_ref().expect("it is there until the drop");
        jobs.send(job).expect("the threads run as long as there may be jobs");
    }

    /// Compresses the pieces that are not returned yet once more, in a new frame, because they
    /// refer to one that was lost.
    fn compress_again(&mut self) {
        self.restarts = true;
        // All of them first, as the encoder has to get them in order, and before later pieces.
        let waiting = self.submitted - self.returned;
        while (self.early.len() as u64) < waiting
            && let Ok(piece) = self.packed.recv()
        {
            self.early.insert(piece.records.number, piece);
        }
        for (number, PackedPiece { place, records }) in std::mem::take(&mut self.early) {
            self.send(number, place, records.raw, records.index);
        }
    }

    /// The piece whose turn it is, if it is there; with `all` waits for it.
    fn take_next(&mut self, all: bool) -> Option<PackedPiece> {
        loop {
            if let Some(piece) = self.early.remove(&self.returned) {
                return Some(piece);
            }
            let piece = if all { self.packed.recv().ok() } else { self.packed.try_recv().ok() }?;
            self.early.insert(piece.records.number, piece);
        }
    }
}

impl Packer for Compressor {
    fn begin_file(&mut self, header: &[u8]) -> Vec<u8> {
        self.restarts = false;
        self.add(header, &[]);
        self.submit_as(PiecePlace::First);
        let records = self.next(true).expect("it was submitted");
        let bytes = records.bytes.clone();
        self.written(records);
        bytes
    }

    fn declare(&mut self, blocks: &[u8]) {
        self.add(blocks, &[]);
    }

    /// Waits while all threads are busy.
    fn add(&mut self, bytes: &[u8], index: &[IndexEntry]) {
        self.since.get_or_insert_with(Instant::now);
        self.raw.extend_from_slice(bytes);
        self.waiting_len += bytes.len();
        self.index.extend_from_slice(index);
        if self.raw.len() >= self.piece_len {
            self.submit();
        }
    }

    fn tick(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= AGE_MAX) {
            self.submit();
        }
    }

    fn next(&mut self, all: bool) -> Option<PackedRecords> {
        if self.returned == self.submitted {
            return None;
        }
        let PackedPiece { records, .. } = self.take_next(all)?;
        self.returned += 1;
        self.waiting_len -= records.raw.len();
        Some(records)
    }

    fn waiting_len(&self) -> usize {
        self.waiting_len
    }

    /// The memory of the piece is used again.
    fn written(&mut self, records: PackedRecords) {
        let mut raw = records.raw;
        raw.clear();
        self.spare.push(raw);
    }

    fn end_extra_len_max(&self, _: usize) -> usize {
        PIECE_EXTRA_LEN_MAX
    }

    fn lost(&mut self, records: PackedRecords) {
        if matches!(self.compression, Compression::Zstd { .. }) {
            self.compress_again();
        }
        self.written(records);
    }

    fn submit(&mut self) {
        self.submit_as(PiecePlace::Middle);
    }

    fn end_of_file(&mut self, closing: &[u8]) -> Vec<u8> {
        self.raw.extend_from_slice(closing);
        self.waiting_len += closing.len();
        self.submit_as(PiecePlace::Last);
        let records = self.next(true).expect("it was submitted");
        let bytes = records.bytes.clone();
        self.written(records);
        bytes
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            // A panic there was reported by its thread; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn pack_all(
    compression: Compression,
    workers: usize,
    queue: &Mutex<Receiver<CompressJob>>,
    done: &Sender<PackedPiece>,
) {
    // Started with the rights and the niceness of the thread that opens files.
    let _ = host::keep_capabilities(&[]);
    sys::run_like_others();
    let mut encoder = match compression {
        Compression::Zstd { level } => Some(ZstdFrames::new(level, workers)),
        Compression::Lz4 => None,
    };
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(CompressJob { number, place, restarts, raw, index }) = job else { return };
        let bytes = match &mut encoder {
            Some(encoder) => encoder.pack(&raw, place, restarts),
            None => lz4_piece(&raw, place),
        };
        if done.send(PackedPiece { place, records: PackedRecords { number, bytes, index, raw } }).is_err() {
            return;
        }
    }
}

/// A piece of an lz4 frame with independent blocks.
fn lz4_piece(raw: &[u8], place: PiecePlace) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new()
        .block_size(lz4_flex::frame::BlockSize::Max1MB)
        .block_mode(lz4_flex::frame::BlockMode::Independent);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(raw).expect("memory takes every byte");
    if raw.is_empty() {
        // Only a write begins a frame.
        encoder.flush().expect("memory takes every byte");
    }
    let mut bytes = encoder.finish().expect("memory takes every byte");
    if place != PiecePlace::Last {
        bytes.truncate(bytes.len() - LZ4_END.len());
    }
    if place != PiecePlace::First {
        bytes.drain(..LZ4_HEAD_LEN.min(bytes.len() - if place == PiecePlace::Last { 4 } else { 0 }));
    }
    bytes
}

/// The zstd frames of files that follow each other.
struct ZstdFrames(Encoder<'static>);

impl ZstdFrames {
    fn new(level: i32, workers: usize) -> Self {
        let mut encoder = Encoder::new(level).expect("memory for an encoder");
        if workers > 1 {
            // A library without threads refuses this, and compresses here.
            let _ = encoder
                .set_parameter(CParameter::NbWorkers(workers as u32))
                .and_then(|()| encoder.set_parameter(CParameter::JobSize(PIECE_LEN as u32)));
        }
        Self(encoder)
    }

    /// Compresses a piece; all of its blocks are complete.
    fn pack(&mut self, raw: &[u8], place: PiecePlace, restarts: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(raw.len() / 2 + (64 << 10));
        if restarts {
            bytes.extend_from_slice(&ZSTD_LAST_BLOCK);
        }
        if restarts || place == PiecePlace::First {
            self.0.reinit().expect("an encoder begins again");
        }
        let mut input = InBuffer::around(raw);
        while input.pos < raw.len() {
            self.step(&mut bytes, |encoder, output| encoder.run(&mut input, output));
        }
        while self.step(&mut bytes, |encoder, output| match place {
            PiecePlace::Last => encoder.finish(output, true),
            PiecePlace::First | PiecePlace::Middle => encoder.flush(output),
        }) > 0
        {}
        bytes
    }

    /// One step of the encoder, with space for its output; what it returns.
    fn step(
        &mut self,
        bytes: &mut Vec<u8>,
        step: impl FnOnce(&mut Encoder<'static>, &mut OutBuffer<'_, Vec<u8>>) -> std::io::Result<usize>,
    ) -> usize {
        bytes.reserve(64 << 10);
        let at = bytes.len();
        step(&mut self.0, &mut OutBuffer::around_pos(bytes, at)).expect("memory takes every byte")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(compression: Compression, pieces: usize) -> (Vec<u8>, Vec<u8>, usize) {
        let mut packer = Compressor::new(compression).unwrap();
        let (mut raw, mut file, mut count) = (b"begin".to_vec(), packer.begin_file(b"begin"), 0);
        let mut write = |packer: &mut Compressor, all| {
            while let Some(frame) = packer.next(all) {
                file.extend_from_slice(&frame.bytes);
                count += frame.index.len();
                packer.written(frame);
            }
        };
        for number in 0..pieces {
            let piece: Vec<u8> = (0..100_000).map(|i: usize| (i * number / 7) as u8).collect();
            raw.extend_from_slice(&piece);
            packer.add(&piece, &[IndexEntry::new(0, 10_000, 0, 0, false); 10]);
            write(&mut packer, false);
        }
        packer.submit();
        write(&mut packer, true);
        let closing = [7; 100];
        let extra_len_max = packer.end_extra_len_max(1);
        let end = packer.end_of_file(&closing);
        assert!(end.len() <= closing.len() + extra_len_max);
        raw.extend(closing);
        file.extend(end);
        (raw, file, count)
    }

    fn unpacked(compression: Compression, file: &[u8]) -> Vec<u8> {
        let mut unpacked = Vec::new();
        match compression {
            Compression::Zstd { .. } => unpacked = zstd::decode_all(file).unwrap(),
            Compression::Lz4 => {
                let mut decoder = lz4_flex::frame::FrameDecoder::new(file);
                std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
            }
        }
        unpacked
    }

    #[test]
    fn pieces_come_in_order_with_their_records_in_one_frame() {
        for compression in [Compression::Zstd { level: 3 }, Compression::Lz4] {
            let (raw, file, count) = pack(compression, 50);
            assert_eq!(count, 500);
            assert!(unpacked(compression, &file) == raw, "{compression:?}");
            if let Compression::Zstd { .. } = compression {
                let len = zstd::zstd_safe::find_frame_compressed_size(&file).unwrap();
                assert_eq!(len, file.len(), "one frame");
            }
        }
    }

    /// Pieces behind a lost one referred to it, so nothing behind it could be read.
    #[test]
    fn what_follows_a_lost_piece_is_read() {
        for compression in [Compression::Zstd { level: 3 }, Compression::Lz4] {
            let mut packer = Compressor::new(compression).unwrap();
            let mut file = packer.begin_file(b"begin");
            let (mut raw, mut number) = (b"begin".to_vec(), 0);
            // Each repeats what came before it.
            let piece = || (0..50_000_u32).flat_map(|i| (i / 9).to_le_bytes()).collect::<Vec<u8>>();
            for _ in 0..6 {
                packer.add(&piece(), &[]);
                packer.submit();
            }
            while let Some(records) = packer.next(true) {
                number += 1;
                if number == 3 || number == 4 {
                    packer.lost(records);
                    // Submitted before those in front of it are compressed again.
                    packer.add(&piece(), &[]);
                    packer.submit();
                    continue;
                }
                raw.extend_from_slice(&records.raw);
                file.extend_from_slice(&records.bytes);
                packer.written(records);
            }
            assert_eq!(number, 8);
            file.extend(packer.end_of_file(b"the end"));
            raw.extend_from_slice(b"the end");
            assert!(unpacked(compression, &file) == raw, "{compression:?}");
        }
    }

    #[test]
    fn a_cut_file_is_read_to_its_last_piece() {
        for compression in [Compression::Zstd { level: 3 }, Compression::Lz4] {
            let mut packer = Compressor::new(compression).unwrap();
            let mut file = packer.begin_file(b"begin");
            packer.add(&[7; 10_000], &[]);
            packer.submit();
            let records = packer.next(true).unwrap();
            file.extend_from_slice(&records.bytes);
            let mut read = Vec::new();
            let mut decoder: Box<dyn std::io::Read> = match compression {
                Compression::Zstd { .. } => Box::new(zstd::Decoder::new(&file[..]).unwrap()),
                Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(&file[..])),
            };
            let _ = std::io::Read::read_to_end(&mut decoder, &mut read);
            assert_eq!(read.len(), 10_005, "{compression:?}");
        }
    }

    #[test]
    fn a_file_without_records_and_an_end_is_a_whole_frame() {
        for compression in [Compression::Zstd { level: 3 }, Compression::Lz4] {
            let mut packer = Compressor::new(compression).unwrap();
            packer.tick();
            assert!(packer.next(true).is_none());
            let mut file = packer.begin_file(b"begin");
            file.extend(packer.end_of_file(&[]));
            assert_eq!(unpacked(compression, &file), b"begin");
        }
    }
}
