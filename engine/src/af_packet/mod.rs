//! The af_packet engine: frames written by the plan into the transmit ring of a packet socket, sent many at a time.
//!
//! It works on every device, at the price of one system call for each batch and one copy for each frame. A frame
//! that finds no room is kept and goes first the next time, so the plan never moves on for a frame that was not
//! sent: nothing is lost, nothing is counted twice. `errors` are only frames that the plan cannot make.

mod source;
#[expect(unsafe_code, reason = "a packet socket and its ring, and nothing else")]
mod sys;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::device::Device;
use crate::engine::{Burst, Engine, EngineKind, Errors};
use crate::need::{Asked, QueueMap};
use crate::{EngineError, SystemClock};
use packet::{Cursor, Plan, XmitMode};
use source::Source;
use std::io;
use std::num::NonZeroU32;
use sys::{PacketRing, RingOptions};

/// Frames for one call unless the user says otherwise; more gain nothing.
const BATCH_DEFAULT: u32 = 64;
/// Frames for one call at most.
const BATCH_MAX: u32 = 1024;
/// Slots of the ring for each frame of a batch: the kernel keeps a slot until the frame has left the device.
const SLOTS_EACH: usize = 4;
/// Kernel memory for frames on their way: some 5,000 short ones, more than a queueing discipline holds.
const SEND_BUFFER_BYTES: i32 = 4 << 20;
/// How often a device that takes nothing is asked for the reason.
const LOOK_EVERY_NS: u64 = 10_000_000;
/// Where frames are written, and where they go; the ring of a packet socket, or a test's.
pub(crate) trait Outlet {
    /// How many frames there is room for.
    fn slots(&self) -> usize;

    /// The memory of one frame; `None` while the kernel has not done with what was there.
    fn slot(&mut self, index: usize) -> Option<&mut [u8]>;

    /// Says how long the frame in one slot is.
    fn set_frame_len(&mut self, index: usize, frame_len: usize);

    /// The bytes of the frame in one slot.
    fn frame(&self, index: usize) -> &[u8];

    /// Takes up to `count` frames from slot `first` on, round the end, and returns how many it took, at least one.
    fn send(&mut self, first: usize, count: usize) -> io::Result<usize>;
}

impl Outlet for PacketRing {
    fn slots(&self) -> usize {
        self.slots()
    }

    fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        self.slot(index)
    }

    fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        self.set_frame_len(index, frame_len);
    }

    fn frame(&self, index: usize) -> &[u8] {
        self.frame(index)
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<usize> {
        self.send(first, count)
    }
}

/// What is known of the device; asked of the kernel, or a test's.
pub(crate) trait Health {
    fn name(&self) -> String;

    /// Why it sends nothing, if there is a reason.
    fn trouble(&self) -> Result<Option<EngineError>, EngineError>;

    /// Why it does not let frames of this length pass, if there is a reason.
    fn length_trouble(&self, frame_len: u32, tagged: bool) -> Result<Option<EngineError>, EngineError>;
}

impl Health for Device {
    fn name(&self) -> String {
        self.name()
    }

    fn trouble(&self) -> Result<Option<EngineError>, EngineError> {
        self.trouble(true)
    }

    fn length_trouble(&self, frame_len: u32, tagged: bool) -> Result<Option<EngineError>, EngineError> {
        self.length_trouble(frame_len, tagged)
    }
}

/// One plan on one ring.
#[derive(Debug)]
pub(crate) struct AfPacketEngine<O = PacketRing, H = Device, C = SystemClock> {
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

impl AfPacketEngine {
    /// Opens a socket for `plan` on `device`, in whose namespace the calling thread is.
    ///
    /// # Errors
    /// What this engine cannot do, a device that cannot send, or a refusal of the kernel.
    pub(crate) fn new(
        device: Device,
        mode: XmitMode,
        plan: Plan,
        cursor: Cursor,
        asked: &Asked,
    ) -> Result<Self, EngineError> {
        check_ability(mode, asked.queues)?;
        if let Some(trouble) = device.trouble(true)? {
            return Err(trouble);
        }
        let batch = asked.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX);
        let options = RingOptions {
            ifindex: device.ifindex(),
            bypass_qdisc: mode == XmitMode::StartXmit,
            priority: asked.wish.priority,
            send_buffer_bytes: SEND_BUFFER_BYTES,
            slots: SLOTS_EACH * batch as usize,
            frame_len_max: plan.frame_len_max() as usize,
        };
        let outlet = PacketRing::open(&options).map_err(|(call, source)| EngineError::Syscall {
            call,
            ifname: device.name(),
            source,
        })?;
        Ok(Self::over(outlet, device, SystemClock, Source::new(plan, cursor), batch))
    }
}

impl<O, H, C> AfPacketEngine<O, H, C> {
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

fn check_ability(mode: XmitMode, queues: QueueMap) -> Result<(), EngineError> {
    let unable = |what: &str| Err(EngineError::unable(EngineKind::AfPacket, what));
    if mode == XmitMode::NetifReceive {
        return unable("xmit_mode netif_receive: a socket only sends");
    }
    match queues {
        QueueMap::Any => Ok(()),
        QueueMap::OfCpu if mode == XmitMode::StartXmit => Ok(()),
        _ => unable("queue_map_min, queue_map_max or QUEUE_MAP_*: the kernel chooses the queue of a socket"),
    }
}

impl<O: Outlet, H: Health, C: Clock> AfPacketEngine<O, H, C> {
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
            self.pending = done + 1;
        }
    }

    /// The slot of a frame that is written and not sent yet, or of the next to be written.
    fn index(&self, place: usize) -> usize {
        (self.first + place) % self.outlet.slots()
    }

    /// Offers the first `count` frames. Without one there was no slot: the kernel still has them all.
    fn offer(&mut self, count: usize) -> io::Result<usize> {
        match count {
            0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            count => self.outlet.send(self.first, count),
        }
    }

    /// Takes note of frames that the device took.
    fn sent(&mut self, count: usize, burst: &mut Burst) {
        let lengths = (0..count).map(|place| self.outlet.frame(self.index(place)).len() as u64);
        burst.frame_bytes += lengths.sum::<u64>();
        burst.sent += count as u64;
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
        EngineError::Syscall { call: "sendto(AF_PACKET)", ifname: self.health.name(), source }
    }
}

impl<O: Outlet, H: Health, C: Clock> Engine for AfPacketEngine<O, H, C> {
    fn kind(&self) -> EngineKind {
        EngineKind::AfPacket
    }

    fn device_name(&self) -> String {
        self.health.name()
    }

    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
        let mut burst = Burst::default();
        while burst.sent < u64::from(budget.get()) {
            let left = budget.get() as usize - burst.sent as usize;
            if self.pending == 0 && self.unsealed == 0 {
                self.fill(left);
            }
            if self.pending == 0 && self.unsealed > 0 {
                burst.errors.refused += std::mem::take(&mut self.unsealed) as u64;
                burst.errors.last_errno = libc::ENOENT;
                return Ok(burst);
            }
            match self.offer(left.min(self.pending)) {
                Ok(count) => self.sent(count, &mut burst),
                Err(error) => {
                    burst.retries += 1;
                    return match self.judge(error) {
                        // What was sent is reported first; the next call meets the same error.
                        Err(error) if burst.sent == 0 => Err(error),
                        _ => Ok(burst),
                    };
                }
            }
        }
        Ok(burst)
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        // A device refuses nothing for good here; the plan does.
        let what = "flag IPSEC for a flow without a security association";
        (errors.refused > 0).then(|| EngineError::unable(EngineKind::AfPacket, what))
    }

    fn cursor(&self) -> Cursor {
        let first = (self.pending > 0).then(|| self.outlet.frame(self.first));
        self.source.cursor_before(self.pending + self.unsealed, first)
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}
