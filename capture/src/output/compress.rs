//! Compression on separate threads, in blocks that can each be decompressed alone.
//!
//! The writer passes records and receives compressed blocks in order. Only the writer writes and
//! counts, so a block that the disk refuses is lost with exactly its records. zstd files end with
//! the table of the seekable format (facebook/zstd, contrib/seekable_format), so a reader finds any
//! place without decompressing what precedes it.

use crate::output::packer::{PackedRecords, Packer};
use crate::record::batch::IndexEntry;
use crate::sys;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of one frame before packing: enough to pack well, little to unpack for one packet.
const FRAME_LEN: usize = 1 << 20;
/// What waits longer than this goes into a frame of its own, so that others see it.
const AGE_MAX: Duration = Duration::from_millis(500);
/// More threads than this write faster than disks.
const THREADS_MAX: usize = 8;

/// Bytes that a short frame may be longer than what is in it: heads, checksums and ends of either
/// format.
const FRAME_EXTRA_LEN_MAX: usize = 64;
/// Bytes of a table without entries.
const SEEK_TABLE_LEN: usize = 17;

const ZSTD_SKIPPABLE_MAGIC: u32 = 0x184d_2a5e;
const ZSTD_SEEKABLE_MAGIC: u32 = 0x8f92_eab1;

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

    fn pack(self, raw: &[u8]) -> Vec<u8> {
        match self {
            Self::Zstd { level } => zstd::bulk::compress(raw, level).expect("memory takes every byte"),
            Self::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                std::io::Write::write_all(&mut encoder, raw).expect("memory takes every byte");
                encoder.finish().expect("memory takes every byte")
            }
        }
    }
}

/// A frame to be packed.
struct CompressJob {
    number: u64,
    raw: Vec<u8>,
    index: Vec<IndexEntry>,
}

/// See the top of the file.
pub(crate) struct Compressor {
    compression: Compression,
    raw: Vec<u8>,
    index: Vec<IndexEntry>,
    /// Since when `raw` is not empty.
    since: Option<Instant>,
    /// `None` only while it is dropped.
    jobs: Option<SyncSender<CompressJob>>,
    packed: Receiver<PackedRecords>,
    threads: Vec<JoinHandle<()>>,
    /// Packed before their turn.
    early: BTreeMap<u64, PackedRecords>,
    submitted: u64,
    returned: u64,
    /// Bytes that came and were not given back packed.
    waiting_len: usize,
    /// Lengths of the frames of this file, packed and not.
    table: Vec<(u32, u32)>,
    spare: Vec<Vec<u8>>,
}

impl Compressor {
    /// Starts the threads.
    pub(crate) fn new(compression: Compression) -> std::io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let (jobs, queue) = sync_channel(count);
        let (done, packed) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..count).map(|number| {
            let (queue, done) = (Arc::clone(&queue), done.clone());
            thread::Builder::new()
                .name(format!("pack-{number}"))
                .spawn(move || pack_all(compression, &queue, &done))
        });
        Ok(Self {
            compression,
            raw: Vec::new(),
            index: Vec::new(),
            since: None,
            threads: threads.collect::<Result<_, _>>()?,
            jobs: Some(jobs),
            packed,
            early: BTreeMap::new(),
            submitted: 0,
            returned: 0,
            waiting_len: 0,
            table: Vec::new(),
            spare: Vec::new(),
        })
    }
}

impl Packer for Compressor {
    fn begin_file(&mut self, header: &[u8]) -> Vec<u8> {
        self.table.clear();
        self.add(header, &[]);
        self.submit();
        let frame = self.next(true).expect("it was submitted");
        let bytes = frame.bytes.clone();
        self.written(frame);
        bytes
    }

    /// Waits while all threads are busy.
    fn add(&mut self, bytes: &[u8], index: &[IndexEntry]) {
        self.since.get_or_insert_with(Instant::now);
        self.raw.extend_from_slice(bytes);
        self.waiting_len += bytes.len();
        self.index.extend_from_slice(index);
        if self.raw.len() >= FRAME_LEN {
            self.submit();
        }
    }

    fn tick(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= AGE_MAX) {
            self.submit();
        }
    }

    fn next(&mut self, all: bool) -> Option<PackedRecords> {
        while self.returned < self.submitted {
            if let Some(frame) = self.early.remove(&self.returned) {
                self.returned += 1;
                self.waiting_len -= frame.raw.len();
                return Some(frame);
            }
            let frame = if all { self.packed.recv().ok() } else { self.packed.try_recv().ok() }?;
            self.early.insert(frame.number, frame);
        }
        None
    }

    fn waiting_len(&self) -> usize {
        self.waiting_len
    }

    /// The place of the frame is told at the end, its memory used again.
    fn written(&mut self, frame: PackedRecords) {
        self.table.push((frame.bytes.len() as u32, frame.raw.len() as u32));
        self.lost(frame);
    }

    fn end_extra_len_max(&self, frames: usize) -> usize {
        let table_len = match self.compression {
            Compression::Zstd { .. } => SEEK_TABLE_LEN + (self.table.len() + frames) * 8,
            Compression::Lz4 => 0,
        };
        FRAME_EXTRA_LEN_MAX + table_len
    }

    fn lost(&mut self, frame: PackedRecords) {
        let mut raw = frame.raw;
        raw.clear();
        self.spare.push(raw);
    }

    fn submit(&mut self) {
        self.since = None;
        if self.raw.is_empty() {
            return;
        }
        let raw = std::mem::replace(&mut self.raw, self.spare.pop().unwrap_or_default());
        let job = CompressJob { number: self.submitted, raw, index: std::mem::take(&mut self.index) };
        let jobs = self.jobs.as_ref().expect("it is there until the drop");
        jobs.send(job).expect("the threads run as long as there may be jobs");
        self.submitted += 1;
    }

    fn end_of_file(&mut self, closing: &[u8]) -> Vec<u8> {
        let (mut end, mut table) = (Vec::new(), self.table.clone());
        if !closing.is_empty() {
            end = self.compression.pack(closing);
            table.push((end.len() as u32, closing.len() as u32));
        }
        match self.compression {
            Compression::Zstd { .. } => end.extend(seek_table(&table)),
            Compression::Lz4 => {}
        }
        end
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            // A panic there was told by its thread; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn pack_all(compression: Compression, queue: &Mutex<Receiver<CompressJob>>, done: &Sender<PackedRecords>) {
    // Started with the rights and the niceness of the thread that opens files.
    let _ = host::keep_capabilities(&[]);
    sys::run_like_others();
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(CompressJob { number, raw, index }) = job else { return };
        let bytes = compression.pack(&raw);
        if done.send(PackedRecords { number, bytes, index, raw }).is_err() {
            return;
        }
    }
}

/// A frame that decoders skip, with the lengths of all frames before it.
fn seek_table(frames: &[(u32, u32)]) -> Vec<u8> {
    let mut table = Vec::with_capacity(SEEK_TABLE_LEN + frames.len() * 8);
    table.extend_from_slice(&ZSTD_SKIPPABLE_MAGIC.to_le_bytes());
    table.extend_from_slice(&((frames.len() * 8 + 9) as u32).to_le_bytes());
    for (packed, raw) in frames {
        table.extend_from_slice(&packed.to_le_bytes());
        table.extend_from_slice(&raw.to_le_bytes());
    }
    table.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    // No checksums.
    table.push(0);
    table.extend_from_slice(&ZSTD_SEEKABLE_MAGIC.to_le_bytes());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(compression: Compression, pieces: usize) -> (Vec<u8>, Vec<u8>, usize) {
        let mut packer = Compressor::new(compression).unwrap();
        let (mut raw, mut file, mut count) = (Vec::new(), Vec::new(), 0);
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

    #[test]
    fn frames_come_in_order_with_their_records() {
        for compression in [Compression::Zstd { level: 3 }, Compression::Lz4] {
            let (raw, file, count) = pack(compression, 50);
            assert_eq!(count, 500);
            let unpacked = match compression {
                Compression::Zstd { .. } => zstd::decode_all(&file[..]).unwrap(),
                Compression::Lz4 => {
                    let (mut unpacked, mut rest) = (Vec::new(), &file[..]);
                    while !rest.is_empty() {
                        let mut decoder = lz4_flex::frame::FrameDecoder::new(&mut rest);
                        std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
                    }
                    unpacked
                }
            };
            assert!(unpacked == raw, "{compression:?}");
        }
    }

    #[test]
    fn the_table_finds_each_frame() {
        let (raw, file, _) = pack(Compression::Zstd { level: 1 }, 50);
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(word(file.len() - 4), ZSTD_SEEKABLE_MAGIC as usize);
        let count = word(file.len() - 9);
        assert!(count > 3, "{count} frames");
        let table = file.len() - 9 - count * 8;
        let (mut packed_at, mut raw_at) = (0, 0);
        for number in 0..count {
            let (packed_len, raw_len) = (word(table + number * 8), word(table + number * 8 + 4));
            let frame = zstd::decode_all(&file[packed_at..packed_at + packed_len]).unwrap();
            assert!(frame == raw[raw_at..raw_at + raw_len], "frame {number}");
            (packed_at, raw_at) = (packed_at + packed_len, raw_at + raw_len);
        }
        assert_eq!((packed_at, raw_at), (table - 8, raw.len()));
    }

    #[test]
    fn nothing_is_packed_for_nothing() {
        let mut packer = Compressor::new(Compression::Lz4).unwrap();
        packer.submit();
        packer.tick();
        assert!(packer.next(true).is_none());
        assert!(packer.end_of_file(&[]).is_empty());
    }
}
