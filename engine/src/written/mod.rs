//! Frames that the plan writes and an outlet takes: kept while there is no room, sent as they were, counted once.
//!
//! A frame that finds no room is kept and goes first the next time, so the plan never moves on for a frame that was
//! not sent: nothing is lost, nothing is counted twice. `errors` are only frames that the plan cannot make, and those
//! that a queueing discipline says it dropped. What takes the frames is the business of `af_packet` and `skb`.

mod source;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::device::Device;
use crate::engine::{Burst, Engine, EngineKind, Errors};
use crate::{EngineError, SystemClock};
use packet::{Cursor, Plan};
use std::io;
use std::num::NonZeroU32;

pub(crate) use source::Source;

/// How often a device that takes nothing is asked for the reason.
const LOOK_EVERY_NS: u64 = 10_000_000;

/// What became of frames that were offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Frames that were taken, from the first on.
    pub(crate) count: usize,
    /// Frames of those for which a queueing discipline dropped one, this or another.
    pub(crate) congested: usize,
}

/// Where frames are written, and where they go; the ring of a packet socket, the slots of a program, or a test's.
pub(crate) trait Outlet {
    /// The engine that it is the heart of.
    const KIND: EngineKind;
    /// The call that takes frames, for messages.
    const CALL: &'static str;

    /// How many frames there is room for.
    fn slots(&self) -> usize;

    /// The memory of one frame; `None` while the kernel has not done with what was there.
    fn slot(&mut self, index: usize) -> Option<&mut [u8]>;

    /// Says how long the frame in one slot is.
    fn set_frame_len(&mut self, index: usize, frame_len: usize);

    /// Says which queue the frame in one slot takes, where the outlet has a say in that.
    fn set_queue(&mut self, _index: usize, _queue: u16) {}

    /// The bytes of the frame in one slot.
    fn frame(&self, index: usize) -> &[u8];

    /// Takes up to `count` frames from slot `first` on, round the end, at least one.
    fn send(&mut self, first: usize, count: usize) -> io::Result<Taken>;
}

/// What is known of the device; asked of the kernel, or a test's.
pub(crate) trait Health {
    fn name(&self) -> String;

    /// Why it sends nothing, if there is a reason.
    fn trouble(&self) -> Result<Option<EngineError>, EngineError>;

    /// Why it does not let frames of this length pass, if there is a reason.
    fn length_trouble(&self, frame_len: u32, tagged: bool) -> Result<Option<EngineError>, EngineError>;
}

/// A device that frames go out of, or into whose receive path they go.
#[derive(Debug)]
pub(crate) struct Outlook {
    pub(crate) device: Device,
    pub(crate) transmits: bool,
}

impl Health for Outlook {
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

/// One plan on one outlet.
#[derive(Debug)]
pub(crate) struct WrittenEngine<O, H = Outlook, C = SystemClock> {
    outlet: O,
    health: H,
    clock: C,
    source: Source,
    batch: usize,
    /// The slot of the first frame that is written and not sent yet.
    first: usize,
    /// Frames that are written and not sent yet.
    pending: usize,
    /// Frames behind those that must not go out and are not counted yet: 0 or 1.
    unsealed: usize,
    clock_sharing: u32,
    looked_ns: u64,
}

impl<O> WrittenEngine<O> {
    /// `batch` frames are written and offered at a time.
    pub(crate) fn new(outlet: O, health: Outlook, source: Source, batch: u32) -> Self {
        Self::over(outlet, health, SystemClock, source, batch)
    }
}

impl<O, H, C> WrittenEngine<O, H, C> {
    fn over(outlet: O, health: H, clock: C, source: Source, batch: u32) -> Self {
        Self {
            outlet,
            health,
            clock,
            source,
            batch: batch as usize,
            first: 0,
            pending: 0,
            unsealed: 0,
            clock_sharing: 1,
            looked_ns: 0,
        }
    }
}

fn is_tagged(plan: &Plan) -> bool {
    plan.layout.vlan != 0 || plan.layout.svlan != 0
}

impl<O: Outlet, H: Health, C: Clock> WrittenEngine<O, H, C> {
    /// Writes the next frames, at most `count` of them, up to the first that must not go out or has no room.
    fn fill(&mut self, count: usize) {
        self.source.checkpoint();
        let sharing = self.clock_sharing as usize;
        let mut wall_ns = 0;
        for done in 0..count.min(self.batch).min(self.outlet.slots()) {
            let index = self.index(done);
            let Some(slot) = self.outlet.slot(index) else { return };
            if done % sharing == 0 {
                wall_ns = self.clock.wall_ns();
            }
            let frame_len = self.source.emit(wall_ns, slot);
            if frame_len == 0 {
                self.unsealed = 1;
                return;
            }
            self.outlet.set_frame_len(index, frame_len);
            self.outlet.set_queue(index, self.source.queue());
            self.pending = done + 1;
        }
    }

    /// The slot of a frame that is written and not sent yet, or of the next to be written.
    fn index(&self, place: usize) -> usize {
        (self.first + place) % self.outlet.slots()
    }

    /// Offers the first `count` frames. Without one there was no slot: the kernel still has them all.
    fn offer(&mut self, count: usize) -> io::Result<Taken> {
        match count {
            0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            count => self.outlet.send(self.first, count),
        }
    }

    /// Takes note of frames that the device took.
    fn sent(&mut self, Taken { count, congested }: Taken, burst: &mut Burst) {
        let lengths = (0..count).map(|place| self.outlet.frame(self.index(place)).len() as u64);
        burst.frame_bytes += lengths.sum::<u64>();
        burst.sent += (count - congested) as u64;
        burst.errors.qdisc_dropped += congested as u64;
        self.first = self.index(count);
        self.pending -= count;
    }

    /// What to make of an error: `Ok` to try the same frame again later.
    fn judge(&mut self, error: io::Error) -> Result<(), EngineError> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM) => self.look(),
            _ => Err(self.reason()?.unwrap_or_else(|| self.failed(error))),
        }
    }

    /// A device without carrier, or with a new MTU, refuses like one whose ring is full, so now and then it is asked.
    fn look(&mut self) -> Result<(), EngineError> {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.looked_ns) < LOOK_EVERY_NS {
            return Ok(());
        }
        self.looked_ns = now_ns;
        self.reason()?.map_or(Ok(()), Err)
    }

    /// What speaks against the next frame.
    fn reason(&self) -> Result<Option<EngineError>, EngineError> {
        if let Some(trouble) = self.health.trouble()? {
            return Ok(Some(trouble));
        }
        let frame_len = if self.pending > 0 { self.outlet.frame(self.first).len() } else { 0 };
        self.health.length_trouble(frame_len as u32, is_tagged(self.source.plan()))
    }

    fn failed(&self, source: io::Error) -> EngineError {
        EngineError::Syscall { call: O::CALL, ifname: self.health.name(), source }
    }
}

impl<O: Outlet, H: Health, C: Clock> Engine for WrittenEngine<O, H, C> {
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
            if self.pending == 0 && self.unsealed == 0 {
                self.fill(left);
            }
            if self.pending == 0 && self.unsealed > 0 {
                burst.errors.refused += std::mem::take(&mut self.unsealed) as u64;
                burst.errors.last_errno = libc::ENOENT;
                return Ok(burst);
            }
            match self.offer(left.min(self.pending)) {
                Ok(taken) => self.sent(taken, &mut burst),
                Err(error) => {
                    burst.retries += 1;
                    return match self.judge(error) {
                        // What was sent is reported first; the next call meets the same error.
                        Err(error) if burst.offered() == 0 => Err(error),
                        _ => Ok(burst),
                    };
                }
            }
        }
        Ok(burst)
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        if errors.refused > 0 {
            return Some(EngineError::Unsealed { engine: O::KIND.name() });
        }
        // A queueing discipline that drops is no reason to end, a device that is gone is.
        self.health.trouble().unwrap_or_else(Some)
    }

    fn cursor(&self) -> Cursor {
        let first = (self.pending > 0).then(|| self.outlet.frame(self.first));
        self.source.cursor_before(self.pending + self.unsealed, first)
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}
