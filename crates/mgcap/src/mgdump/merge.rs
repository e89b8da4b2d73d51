//! One file in order of time out of the frames of several readers.

use super::output::{DumpCounts, PcapngFile, WriteFailed};
use capture::MgcapSlot;
use capture::merge::{Head, MergeStep, Merger};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender};

/// Reorder window: from the stamp of a frame until its reader can find it. More than a capture's
/// own, since a device file lies between.
const WINDOW_NS: u64 = 2_000_000;
/// What is later than now by more than this was stamped before the clock was set back.
const AHEAD_NS_MAX: u64 = 10_000_000;
/// Bytes that wait for an older frame at most; beyond that frames are written late.
const WAITING_LEN_MAX: usize = 64 << 20;
/// Bytes of one write.
const WRITE_LEN: usize = 256 << 10;

/// What a reader reports.
#[derive(Debug)]
pub(super) struct ReaderReport {
    reader: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Blocks, and the time and the length of each.
    Frames { blocks: Vec<u8>, frames: Vec<(u64, usize)> },
    /// At this time there was nothing that has not been reported before.
    Empty { checked_ns: u64 },
    /// Nothing will come any more.
    Ended,
}

/// One reader's end of the merge.
#[derive(Debug)]
pub(super) struct MergeInput {
    reader: usize,
    to: Sender<ReaderReport>,
    blocks: Vec<u8>,
    frames: Vec<(u64, usize)>,
}

impl MergeInput {
    pub(super) fn new(reader: usize, to: Sender<ReaderReport>) -> Self {
        Self { reader, to, blocks: Vec::new(), frames: Vec::new() }
    }

    pub(super) fn add(&mut self, slot: &MgcapSlot<'_>) {
        let before = self.blocks.len();
        let time_ns = PcapngFile::encode(slot, &mut self.blocks);
        self.frames.push((time_ns, self.blocks.len() - before));
    }

    /// Hands over what was added. False when the file takes no more.
    pub(super) fn flush(&mut self) -> bool {
        if self.frames.is_empty() {
            return true;
        }
        let (blocks, frames) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.frames));
        self.report(What::Frames { blocks, frames })
    }

    /// Reports that nothing was there at `checked_ns`. False when the file takes no more.
    pub(super) fn was_empty(&self, checked_ns: u64) -> bool {
        self.report(What::Empty { checked_ns })
    }

    fn report(&self, what: What) -> bool {
        self.to.send(ReaderReport { reader: self.reader, what }).is_ok()
    }
}

impl Drop for MergeInput {
    fn drop(&mut self) {
        self.flush();
        self.report(What::Ended);
    }
}

/// The frames of one reader that wait for their turn.
#[derive(Default)]
struct WaitingFrames {
    blocks: VecDeque<u8>,
    frames: VecDeque<(u64, usize)>,
    checked_ns: u64,
    has_ended: bool,
}

impl WaitingFrames {
    fn head(&self) -> Head {
        match self.frames.front() {
            Some((time_ns, _)) => Head::Record(*time_ns),
            None if self.has_ended => Head::Ended,
            None => Head::Empty { checked_ns: self.checked_ns },
        }
    }
}

/// Writes what the readers report until all have ended. `counts` are theirs, in their order.
pub(super) fn write_in_order(
    reports: &Receiver<ReaderReport>,
    counts: &[Arc<DumpCounts>],
    file: &mut PcapngFile,
    now_ns: impl Fn() -> u64,
) -> Result<(), WriteFailed> {
    let mut merger = Merger::new(counts.len(), WINDOW_NS);
    let mut all: Vec<WaitingFrames> = counts.iter().map(|_| WaitingFrames::default()).collect();
    let (mut waiting_len, mut out, mut written) = (0, Vec::new(), vec![0; counts.len()]);
    while let Ok(first) = reports.recv() {
        for ReaderReport { reader, what } in std::iter::once(first).chain(reports.try_iter()) {
            let waiting = &mut all[reader];
            match what {
                What::Frames { blocks, frames } => {
                    waiting_len += blocks.len();
                    waiting.blocks.extend(blocks);
                    waiting.frames.extend(frames);
                }
                What::Empty { checked_ns } => waiting.checked_ns = checked_ns,
                What::Ended => waiting.has_ended = true,
            }
            merger.set_head(reader, waiting.head());
        }
        loop {
            let is_full = waiting_len > WAITING_LEN_MAX;
            let next = if is_full { merger.next_regardless() } else { merger.next() };
            let (source, until_ns) = match next {
                MergeStep::Take { source, until_ns } => (source, until_ns),
                MergeStep::Wait { .. } => match merger.source_beyond(now_ns() + AHEAD_NS_MAX) {
                    Some(source) => (source, 0),
                    None => break,
                },
                MergeStep::End => break,
            };
            let waiting = &mut all[source];
            let mut is_first = true;
            while let Some(&(time_ns, len)) = waiting.frames.front()
                && (time_ns <= until_ns || is_first)
            {
                is_first = false;
                waiting.frames.pop_front();
                out.extend(waiting.blocks.drain(..len));
                waiting_len -= len;
                written[source] += 1;
            }
            merger.set_head(source, waiting.head());
            if out.len() >= WRITE_LEN {
                write(&mut out, &mut written, counts, file)?;
            }
        }
        write(&mut out, &mut written, counts, file)?;
    }
    Ok(())
}

fn write(
    out: &mut Vec<u8>,
    written: &mut [u64],
    counts: &[Arc<DumpCounts>],
    file: &mut PcapngFile,
) -> Result<(), WriteFailed> {
    if !out.is_empty() {
        file.append(out)?;
        out.clear();
    }
    for (written, counts) in written.iter_mut().zip(counts) {
        counts.written.fetch_add(std::mem::take(written), Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcapng::{Block, Reader};
    use std::sync::mpsc::channel;

    /// 2,507 steps back in 40,000 frames: each reader appended what it had when it had it.
    #[test]
    fn frames_of_several_cpus_are_written_in_order_of_time() {
        let folder = testkit::Folder::new("mgdump-merge");
        let path = folder.join("x.pcapng");
        let mut file = PcapngFile::create(path.clone(), "lo").unwrap();
        let counts = [Arc::<DumpCounts>::default(), Arc::default()];
        let (to, reports) = channel();
        let mut inputs = [0, 1].map(|reader| MergeInput::new(reader, to.clone()));
        drop(to);
        const MS: i64 = 1_000_000;
        let slot = |time_ns| MgcapSlot { frame_len: 60, time_ns, data: &[7; 60] };
        // Batches that overlap, and a reader that finds nothing for a while.
        for (reader, times_ms) in
            [(0, 10..14), (1, 11..20), (0, 14..16), (1, 20..22), (0, 30..40), (1, 22..36)]
        {
            times_ms.for_each(|time_ms| inputs[reader].add(&slot(time_ms * MS)));
            assert!(inputs[reader].flush() && inputs[0].was_empty(16 * MS as u64));
        }
        drop(inputs);
        write_in_order(&reports, &counts, &mut file, || 100 * MS as u64).unwrap();
        let mut reader = Reader::new(std::fs::File::open(&path).unwrap());
        let mut times = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            if let Block::Packet(packet) = block {
                times.push(packet.time_ns);
            }
        }
        assert!(times.is_sorted() && times.len() == 41, "{times:?}");
        assert_eq!(counts.map(|counts| counts.written.load(Relaxed)), [16, 25]);
    }
}
