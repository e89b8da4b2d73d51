//! One reader of a device file: pinned to its CPU, it gets what came in there, as the module's
//! readers did.

use super::merge::MergeInput;
use super::output::{DumpCounts, PcapngFile, WriteFailed};
use capture::{MgcapSlot, SLOT_RING_FRAMES_MAX, SlotReader};
use program::stop::Stop;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Slots of one read.
const SLOTS: usize = 1024;
/// Sleep over an empty ring, which holds 3 ms at 10 million frames per second.
const SLEEP: Duration = Duration::from_micros(500);

/// What readers share with the one who started them.
#[derive(Debug, Default)]
pub(super) struct ReadersShared {
    /// Set when it is time to end: what is in the rings then is still read.
    pub(super) stop: Stop,
    /// Frames that all readers together have taken, where that is limited.
    pub(super) taken: AtomicU64,
    /// Most frames to write.
    pub(super) frames_max: Option<u64>,
    /// The capture ended, or a file took no more.
    pub(super) is_over: AtomicBool,
    /// What was read ends inside of a slot.
    pub(super) is_cut: AtomicBool,
}

impl ReadersShared {
    /// True for a frame that is still wanted.
    fn wants_one(&self) -> bool {
        self.frames_max.is_none_or(|frames_max| self.taken.fetch_add(1, Relaxed) < frames_max)
    }

    pub(super) fn is_enough(&self) -> bool {
        self.frames_max.is_some_and(|frames_max| self.taken.load(Relaxed) >= frames_max)
    }
}

/// Where a reader's frames go.
#[derive(Debug)]
pub(super) enum DumpTarget {
    /// A file of its own, and the blocks for it.
    Own(PcapngFile, Vec<u8>),
    /// The file of all readers.
    Merged(MergeInput),
}

impl DumpTarget {
    fn add(&mut self, slot: &MgcapSlot<'_>) {
        match self {
            Self::Own(_, blocks) => drop(PcapngFile::encode(slot, blocks)),
            Self::Merged(input) => input.add(slot),
        }
    }

    /// Passes on the frames that were added, `count` of them. False when the file of all readers
    /// takes no more.
    fn flush(&mut self, count: u64, counts: &DumpCounts) -> Result<bool, WriteFailed> {
        match self {
            Self::Own(file, blocks) => {
                file.append(blocks)?;
                blocks.clear();
                counts.written.fetch_add(count, Relaxed);
                Ok(true)
            }
            Self::Merged(input) => Ok(input.flush()),
        }
    }

    fn was_empty(&self, checked_ns: u64) {
        if let Self::Merged(input) = self {
            // Where the file takes no more the writer's thread ends, which is seen.
            input.was_empty(checked_ns);
        }
    }
}

/// `O_NONBLOCK` as the kernel numbers it on the machines that this is built for (not MIPS, SPARC
/// and Alpha).
const O_NONBLOCK: i32 = 0o4000;

/// Opens the device file so that reads do not wait.
pub(super) fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_NONBLOCK).open(path)
}

/// Reads until the end, on the CPU that the calling thread is pinned to. The capture goes on when
/// we end, so after the stop no more is read than its ring can have held then.
pub(super) fn run(
    device: File,
    shared: &ReadersShared,
    counts: &DumpCounts,
    to: &mut DumpTarget,
) -> Result<(), WriteFailed> {
    let mut reader = SlotReader::new(device, SLOTS);
    let mut left = SLOT_RING_FRAMES_MAX;
    loop {
        // Asked before looking: what came until then is read.
        let is_last_look = shared.stop.is_set() || shared.is_over.load(Relaxed);
        let (checked_ns, mut wanted) = (host::realtime_ns(), 0);
        let read = reader.read(|slot: MgcapSlot<'_>| {
            if shared.wants_one() {
                to.add(&slot);
                wanted += 1;
            }
        });
        let is_idle = !matches!(read, Ok(Some(_)));
        match read {
            Ok(Some(count)) => {
                counts.received.fetch_add(count as u64, Relaxed);
                if !to.flush(wanted, counts)? {
                    return Ok(());
                }
                if is_last_look {
                    left = left.saturating_sub(count);
                }
            }
            // The capture was stopped, or the process that serves the file has ended.
            Ok(None) => shared.is_over.store(true, Relaxed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                shared.is_cut.store(true, Relaxed);
                shared.is_over.store(true, Relaxed);
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => shared.is_over.store(true, Relaxed),
            Err(_) if is_last_look => return Ok(()),
            Err(_) => {
                to.was_empty(checked_ns);
                std::thread::sleep(SLEEP);
            }
        }
        if is_last_look && (is_idle || left == 0) || shared.is_enough() {
            return Ok(());
        }
    }
}

/// Everything a reader thread needs.
pub(super) struct DumpReader {
    pub(super) cpu: u32,
    pub(super) device: File,
    pub(super) shared: Arc<ReadersShared>,
    pub(super) counts: Arc<DumpCounts>,
    pub(super) to: DumpTarget,
}

impl DumpReader {
    /// On a thread of its own.
    pub(super) fn run(mut self) -> Result<(), WriteFailed> {
        // Without the pin it reads what others read as well; each slot still goes to one of them.
        if let Err(why) = host::pin_thread(self.cpu) {
            eprintln!("mgdump: cannot read on CPU {} only: {why}", self.cpu);
        }
        run(self.device, &self.shared, &self.counts, &mut self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_as_many_frames_as_asked_for_are_wanted() {
        let shared = ReadersShared { frames_max: Some(3), ..ReadersShared::default() };
        let wanted = (0..10).filter(|_| shared.wants_one()).count();
        assert_eq!((wanted, shared.is_enough()), (3, true));
        let shared = ReadersShared::default();
        assert!((0..10).all(|_| shared.wants_one()) && !shared.is_enough());
    }
}
