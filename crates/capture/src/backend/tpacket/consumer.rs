//! One TPACKET_V3 ring as a ring consumer: each peek returns one block.

use crate::backend::filter::SocketFilter;
use crate::backend::tpacket::block::Frames;
use crate::group::{DeviceFilter, Owner, TapDevices};
use crate::record::consumer::{Found, Probe, RingConsumer, STAMP_DELAY_NS};
use crate::record::ring::RingRecord;
use crate::sys::packet_socket::{CaptureSocket, ReceiveRing};
use std::cmp::Ordering::{Greater, Less};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What the kernel counted of one ring since the start. Frames that got in are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct KernelTotals {
    /// Frames put into the ring.
    pub(crate) captured: u64,
    /// Frames lost because the ring was full.
    pub(crate) lost: u64,
    /// Times that all blocks were full.
    pub(crate) freezes: u64,
    /// Losses that no record has reported yet: the number of a frame that came after them, and how
    /// many.
    untold: VecDeque<(u64, u64)>,
}

impl KernelTotals {
    fn add(&mut self, packets: u64, drops: u64) {
        // The kernel counts lost frames among the packets.
        self.captured += packets.saturating_sub(drops);
        self.lost += drops;
        if drops > 0 {
            self.untold.push_back((self.captured, drops));
        }
    }

    /// Losses that happened before frame `number` and are not reported yet.
    fn tell_before(&mut self, number: u64) -> u64 {
        let mut lost = 0;
        while let Some((_, drops)) = self.untold.front().filter(|(at, _)| *at <= number) {
            lost += drops;
            self.untold.pop_front();
        }
        lost
    }
}

/// The counts of one ring, for its reader and for statistics.
#[derive(Debug)]
pub(crate) struct SocketTally {
    socket: CaptureSocket,
    totals: Mutex<KernelTotals>,
    /// Frames that the reader has had in view.
    pub(crate) seen: AtomicU64,
    /// Their lengths.
    pub(crate) seen_bytes: AtomicU64,
    /// Of the frames that the reader has had in view, those that the filter rejects.
    pub(crate) rejected: AtomicU64,
    /// Those of devices that are not captured.
    pub(crate) others: AtomicU64,
    /// Those of devices that were gone before anything of them was known.
    pub(crate) unknown: AtomicU64,
    /// Frames of full length that the ring can hold.
    ring_frames: u64,
}

impl SocketTally {
    pub(crate) fn new(socket: CaptureSocket, ring_frames: u64) -> Self {
        let (seen, seen_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let [rejected, others, unknown] = [0; 3].map(AtomicU64::new);
        Self { socket, totals: Mutex::default(), seen, seen_bytes, rejected, others, unknown, ring_frames }
    }

    /// The socket whose ring this is.
    pub(crate) fn socket(&self) -> &CaptureSocket {
        &self.socket
    }

    /// Asks the kernel, which forgets what it tells, and gives `read` the sums.
    pub(crate) fn with_totals<T>(&self, read: impl FnOnce(&mut KernelTotals) -> T) -> T {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        // A socket with a ring always answers this.
        if let Ok(counted) = self.socket.take_counts() {
            totals.add(counted.packets.into(), counted.drops.into());
            totals.freezes += u64::from(counted.freezes);
        }
        read(&mut totals)
    }
}

/// The reader's end of one ring.
pub(crate) struct TpacketConsumer {
    ring: ReceiveRing,
    tally: Arc<SocketTally>,
    /// The block to be handed over next.
    next: u32,
    /// True while that block is in view.
    is_in_view: bool,
    /// True if the last look found a block with frames.
    has_found: bool,
    /// Frames lost before the first one in view.
    lost_before: u32,
    /// Whether times may be the device's.
    is_stamped: bool,
    check: FrameCheck,
    /// Whose frames have a number, with the filter of the device, as far as this reader has asked;
    /// and as of when.
    owners: (HashMap<u32, OwnerAndFilter>, u64),
    /// Bytes kept of a frame that the kernel did not cut.
    snaplen: usize,
    /// For each frame of the block in view, whether it is captured; empty if all are.
    accepted: Vec<bool>,
    scratch: Vec<u8>,
}

/// What the process checks of frames that the kernel passes.
#[derive(Clone)]
pub(crate) enum FrameCheck {
    All,
    Filter(Arc<SocketFilter>),
    /// Whose they are, and the filter of that device.
    Group(Arc<TapDevices>),
}

type OwnerAndFilter = (Owner, Option<Arc<SocketFilter>>);

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    Rejected,
    Other,
    Unknown,
}

/// Frames of a block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockCounts {
    frames: u64,
    accepted: u64,
    rejected: u64,
    others: u64,
    unknown: u64,
    /// Lengths of the accepted frames together.
    bytes: u64,
}

impl TpacketConsumer {
    pub(crate) fn new(ring: ReceiveRing, tally: Arc<SocketTally>, is_stamped: bool) -> Self {
        Self {
            ring,
            tally,
            next: 0,
            is_in_view: false,
            has_found: false,
            lost_before: 0,
            is_stamped,
            check: FrameCheck::All,
            owners: (HashMap::new(), 0),
            snaplen: usize::MAX,
            accepted: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Lets the process check each frame with `check`, for a capture that keeps `snaplen` bytes of
    /// a frame.
    pub(crate) fn with_check(self, check: &FrameCheck, snaplen: u32) -> Self {
        Self { check: check.clone(), snaplen: snaplen as usize, ..self }
    }

    /// What is known of devices may not be true any more.
    fn forget_owners(&mut self) {
        if let FrameCheck::Group(devices) = &self.check {
            let generation = devices.generation();
            if self.owners.1 != generation {
                self.owners = (HashMap::new(), generation);
            }
        }
    }

    /// Counts the next block and applies the filter; `None` when the kernel has not handed it over.
    fn measure(&mut self) -> Option<BlockCounts> {
        self.forget_owners();
        let frames = Frames::of(self.ring.block(self.next)?);
        let mut counts = BlockCounts::default();
        self.accepted.clear();
        for frame in frames {
            counts.frames += 1;
            let verdict = match &self.check {
                FrameCheck::All => Verdict::Accepted,
                FrameCheck::Filter(filter) => verdict_of(filter, &frame, &mut self.scratch),
                FrameCheck::Group(devices) => {
                    let known = self.owners.0.entry(frame.ifindex);
                    match known.or_insert_with(|| with_filter(devices.owner(frame.ifindex))) {
                        (Owner::Device(_), None) => Verdict::Accepted,
                        (Owner::Device(_), Some(filter)) => verdict_of(filter, &frame, &mut self.scratch),
                        (Owner::Other, _) => Verdict::Other,
                        (Owner::Unknown, _) => Verdict::Unknown,
                    }
                }
            };
            if !matches!(self.check, FrameCheck::All) {
                self.accepted.push(verdict == Verdict::Accepted);
            }
            match verdict {
                Verdict::Accepted => {
                    counts.accepted += 1;
                    counts.bytes += u64::from(frame.frame_len);
                }
                Verdict::Rejected => counts.rejected += 1,
                Verdict::Other => counts.others += 1,
                Verdict::Unknown => counts.unknown += 1,
            }
        }
        Some(counts)
    }

    /// Gives the block in view back to the kernel.
    fn hand_back(&mut self) {
        if std::mem::take(&mut self.is_in_view) {
            self.ring.release(self.next);
            self.next = (self.next + 1) % self.ring.block_count();
        }
    }
}

impl RingConsumer for TpacketConsumer {
    fn peek(&mut self, _len_max: usize) -> u64 {
        self.has_found = false;
        while let Some(BlockCounts { frames, accepted, rejected, others, unknown, bytes }) = self.measure() {
            self.is_in_view = true;
            self.has_found |= frames > 0;
            if frames > 0 {
                let first = self.tally.seen.fetch_add(frames, Relaxed);
                self.tally.rejected.fetch_add(rejected, Relaxed);
                self.tally.others.fetch_add(others, Relaxed);
                self.tally.unknown.fetch_add(unknown, Relaxed);
                self.tally.seen_bytes.fetch_add(bytes, Relaxed);
                let lost = unknown + self.tally.with_totals(|totals| totals.tell_before(first));
                // Those before a block of which nothing is accepted are reported by a later one.
                self.lost_before = self.lost_before.saturating_add(lost.try_into().unwrap_or(u32::MAX));
                if accepted > 0 {
                    return accepted;
                }
            }
            self.hand_back();
        }
        0
    }

    #[inline]
    fn for_each(&self, count: u64, mut take: impl FnMut(RingRecord<'_>)) {
        let Some(block) = self.ring.block(self.next) else { return };
        let mut lost_before = self.lost_before;
        let is_accepted = |number: &usize| self.accepted.get(*number).copied().unwrap_or(true);
        let frames = Frames::of(block).enumerate().filter(|(number, _)| is_accepted(number));
        for (_, record) in frames.take(count as usize) {
            // With a removed tag the frame is cut when that is put back.
            let len = if record.vlan.is_some() { usize::MAX } else { self.snaplen };
            let data = &record.data[..record.data.len().min(len)];
            take(RingRecord { lost_before, data, ..record });
            lost_before = 0;
        }
    }

    fn release(&mut self) {
        if self.is_in_view {
            // A block in view has a frame that reported them.
            self.lost_before = 0;
        }
        self.hand_back();
    }

    fn delay_ns(&self) -> u64 {
        if self.is_stamped { STAMP_DELAY_NS } else { 0 }
    }

    fn found(&self) -> Found {
        // Blocks come when they are full or old; behind one there may be more at once.
        let than_wanted = if self.has_found { Greater } else { Less };
        Found { has_more: self.has_found, than_wanted, ..Found::default() }
    }

    fn probe(&self) -> Option<Box<dyn Probe>> {
        Some(Box::new(Arc::clone(&self.tally)))
    }
}

fn verdict_of(filter: &SocketFilter, frame: &RingRecord<'_>, scratch: &mut Vec<u8>) -> Verdict {
    if filter.accepts(frame, scratch) { Verdict::Accepted } else { Verdict::Rejected }
}

fn with_filter(owner: Owner) -> OwnerAndFilter {
    let filter = match &owner {
        Owner::Device(device) => device.filter.as_ref().map(DeviceFilter::get),
        Owner::Other | Owner::Unknown => None,
    };
    (owner, filter)
}

/// The kernel counts a frame with the lock under which it puts it into a block, so this sees frames
/// in blocks that are not handed over yet.
impl Probe for Arc<SocketTally> {
    fn filled(&self) -> u64 {
        let captured = self.with_totals(|totals| totals.captured);
        let passed_over = [&self.rejected, &self.others, &self.unknown].map(|count| count.load(Relaxed));
        captured.saturating_sub(passed_over.iter().sum())
    }

    fn used(&self) -> f64 {
        let waiting = self.with_totals(|totals| totals.captured).saturating_sub(self.seen.load(Relaxed));
        (waiting as f64 / self.ring_frames.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_by_a_frame_that_came_after_them() {
        let mut totals = KernelTotals::default();
        totals.add(100, 0);
        assert_eq!(totals.tell_before(50), 0);
        totals.add(30, 10);
        totals.add(5, 5);
        assert_eq!((totals.captured, totals.lost), (120, 15));
        assert_eq!(totals.tell_before(119), 0, "these frames may have been there before the loss");
        assert_eq!(totals.tell_before(120), 15);
        assert_eq!(totals.tell_before(500), 0, "told once");
    }
}
