//! Engines whose frames are built in user space: each frame is kept until it is accepted, and
//! counted once.
//!
//! A frame that is not accepted is sent first the next time, so nothing is lost or counted twice.
//! `errors` are frames that the plan cannot build, and frames that a queueing discipline dropped.
//! `af_packet` and `skb` implement the rings.

mod frame_source;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::device::OutputDevice;
use crate::engine::{Burst, Engine, Errors};
use crate::engine_kind::EngineKind;
use crate::{EngineError, SystemClock};
use packet::Cursor;
use std::io;
use std::num::NonZeroU32;

pub(crate) use frame_source::FrameSource;

/// Interval at which the state of a full device is queried.
const CHECK_INTERVAL_NS: u64 = 10_000_000;

/// Result of offering frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Accepted frames, from the first on.
    pub(crate) count: usize,
    /// Accepted frames for which a queueing discipline dropped this or another frame.
    pub(crate) congested: usize,
}

/// Memory for frames, and a way to send them: the ring of a packet socket, the slots of a BPF
/// program, or a test.
pub(crate) trait TxRing {
    /// The engine that it belongs to.
    const KIND: EngineKind;
    /// The system call, for messages.
    const CALL: &'static str;

    /// Number of slots.
    fn slots(&self) -> usize;

    /// The memory of one frame; `None` while the kernel still uses it.
    fn slot(&mut self, index: usize) -> Option<&mut [u8]>;

    /// Sets the length of the frame in one slot.
    fn set_frame_len(&mut self, index: usize, frame_len: usize);

    /// Sets the queue of the frame in one slot, if the ring supports that.
    fn set_queue(&mut self, _index: usize, _queue: u16) {}

    /// The bytes of the frame in one slot.
    fn frame(&self, index: usize) -> &[u8];

    /// Sends up to `count` frames from slot `first` on, with wrap-around; accepts at least one.
    fn send(&mut self, first: usize, count: usize) -> io::Result<Accepted>;
}

/// State of the device, from the kernel or a test.
pub(crate) trait LinkHealth {
    fn name(&self) -> String;

    /// Why it cannot send, if so.
    fn trouble(&self) -> Result<Option<EngineError>, EngineError>;

    /// Why it rejects frames of this length, if so.
    fn length_trouble(&self, frame_len: u32, tagged: bool) -> Result<Option<EngineError>, EngineError>;
}

/// The device, or its receive path.
#[derive(Debug)]
pub(crate) struct TxLink {
    pub(crate) device: OutputDevice,
    pub(crate) transmits: bool,
}

impl LinkHealth for TxLink {
    fn name(&self) -> String {
        self.device.name()
    }

    fn trouble(&self) -> Result<Option<EngineError>, EngineError> {
        self.device.trouble(self.transmits)
    }

    fn length_trouble(&self, frame_len: u32, tagged: bool) -> Result<Option<EngineError>, EngineError> {
        if self.transmits { self.device.length_trouble(frame_len, tagged) } else { Ok(None) }
    }
}

/// One plan on one ring.
#[derive(Debug)]
pub(crate) struct UserspaceEngine<O, H = TxLink, C = SystemClock> {
    ring: O,
    health: H,
    clock: C,
    source: FrameSource,
    batch: usize,
    /// Slot of the first frame that is built and not sent.
    first: usize,
    /// Frames that are built and not sent.
    pending: usize,
    /// Frames after those that have no security association and are not counted yet: 0 or 1.
    unprotected: usize,
    clock_sharing: u32,
    checked_ns: u64,
}

impl<O> UserspaceEngine<O> {
    /// `batch` frames are built and offered at a time.
    pub(crate) fn new(ring: O, health: TxLink, source: FrameSource, batch: u32) -> Self {
        Self::over(ring, health, SystemClock, source, batch)
    }
}

impl<O, H, C> UserspaceEngine<O, H, C> {
    fn over(ring: O, health: H, clock: C, source: FrameSource, batch: u32) -> Self {
        Self {
            ring,
            health,
            clock,
            source,
            batch: batch as usize,
            first: 0,
            pending: 0,
            unprotected: 0,
            clock_sharing: 1,
            checked_ns: 0,
        }
    }
}

impl<O: TxRing, H: LinkHealth, C: Clock> UserspaceEngine<O, H, C> {
    /// Builds the next frames, at most `count`, until one has no security association or no slot is
    /// free.
    fn fill(&mut self, count: usize) {
        self.source.checkpoint();
        let sharing = self.clock_sharing as usize;
        let mut now_ns = 0;
        for done in 0..count.min(self.batch).min(self.ring.slots()) {
            let index = self.index(done);
            let Some(slot) = self.ring.slot(index) else { return };
            if done % sharing == 0 {
                now_ns = self.clock.of_frame(self.source.plan());
            }
            let frame_len = self.source.emit(now_ns, slot);
            if frame_len == 0 {
                self.unprotected = 1;
                return;
            }
            self.ring.set_frame_len(index, frame_len);
            self.ring.set_queue(index, self.source.queue());
            self.pending = done + 1;
        }
    }

    /// Slot of a pending frame, or of the next one to build.
    fn index(&self, place: usize) -> usize {
        (self.first + place) % self.ring.slots()
    }

    /// Offers the first `count` frames. With none there was no free slot.
    fn offer(&mut self, count: usize) -> io::Result<Accepted> {
        match count {
            0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            count => self.ring.send(self.first, count),
        }
    }

    /// Accounts for accepted frames.
    fn sent(&mut self, Accepted { count, congested }: Accepted, burst: &mut Burst) {
        let lengths = (0..count).map(|place| self.ring.frame(self.index(place)).len() as u64);
        burst.frame_bytes += lengths.sum::<u64>();
        burst.sent += (count - congested) as u64;
        burst.errors.causes.qdisc_dropped += congested as u64;
        self.first = self.index(count);
        self.pending -= count;
    }

    /// Handles an error: `Ok` to retry the same frame later.
    fn judge(&mut self, error: io::Error) -> Result<(), EngineError> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM) => self.check_link(),
            _ => Err(self.reason()?.unwrap_or_else(|| self.failed(error))),
        }
    }

    /// A device without carrier or with a new MTU looks like a full one, so its state is queried at
    /// intervals.
    fn check_link(&mut self) -> Result<(), EngineError> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.checked_ns) < CHECK_INTERVAL_NS {
            return Ok(());
        }
        self.checked_ns = now_ns;
        self.reason()?.map_or(Ok(()), Err)
    }

    /// Why the next frame cannot be sent, if so.
    fn reason(&self) -> Result<Option<EngineError>, EngineError> {
        if let Some(trouble) = self.health.trouble()? {
            return Ok(Some(trouble));
        }
        let frame_len = if self.pending > 0 { self.ring.frame(self.first).len() } else { 0 };
        self.health.length_trouble(frame_len as u32, self.source.plan().is_tagged())
    }

    fn failed(&self, source: io::Error) -> EngineError {
        EngineError::of_send(O::CALL, self.health.name(), source)
    }
}

impl<O: TxRing, H: LinkHealth, C: Clock> Engine for UserspaceEngine<O, H, C> {
    fn kind(&self) -> EngineKind {
        O::KIND
    }

    fn device_name(&self) -> String {
        self.health.name()
    }

    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
        let mut burst = Burst::default();
        while burst.offered() < u64::from(budget.get()) {
            let left = budget.get() as usize - burst.offered() as usize;
            if self.pending == 0 && self.unprotected == 0 {
                self.fill(left);
            }
            if self.pending == 0 && self.unprotected > 0 {
                burst.errors.causes.refused += std::mem::take(&mut self.unprotected) as u64;
                burst.errors.last_errno = libc::ENOENT;
                return Ok(burst);
            }
            match self.offer(left.min(self.pending)) {
                Ok(accepted) => self.sent(accepted, &mut burst),
                Err(error) => {
                    burst.retries += 1;
                    return match self.judge(error) {
                        // Sent frames are reported first; the next call finds the same error.
                        Err(error) if burst.offered() == 0 => Err(error),
                        _ => Ok(burst),
                    };
                }
            }
        }
        Ok(burst)
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        if errors.causes.refused > 0 {
            return Some(EngineError::NoAssociation { engine: O::KIND.name() });
        }
        // A dropping queueing discipline does not end the run; a device that is gone does.
        self.health.trouble().unwrap_or_else(Some)
    }

    fn link_trouble(&mut self) -> Option<EngineError> {
        self.health.trouble().unwrap_or_else(Some)
    }

    fn cursor(&self) -> Cursor {
        let first = (self.pending > 0).then(|| self.ring.frame(self.first));
        self.source.cursor_before(self.pending + self.unprotected, first)
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}
