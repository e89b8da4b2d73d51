//! The af_xdp engine: frames written into memory that the driver, or the kernel on its behalf, sends from.
//!
//! One socket a queue, so each frame goes to the queue that its plan says. A frame counts as sent once the
//! kernel has taken its descriptor from the ring and reported no error.

mod ring;
mod socket;
mod sys;

use crate::clock::Clock;
use crate::device::Device;
use crate::engine::{Burst, Engine, EngineKind, Errors};
use crate::need::Asked;
use crate::{EngineError, SystemClock};
use packet::{Cursor, Plan, WallTime, XmitMode};
use socket::{RING_ENTRIES, Xsk};
use std::io;
use std::num::NonZeroU32;

pub(crate) use socket::Copying;

/// Most chunks of one frame: what an skb can hold.
const CHUNKS_MAX: usize = 17;
/// Frames put between two looks at the rings.
const ROUND: u32 = 64;
/// A burst waits this long for a ring that does not move.
const PATIENCE_NS: u64 = 5_000_000;

/// Sockets for one plan on one device.
#[derive(Debug)]
pub(crate) struct AfXdpEngine {
    device: Device,
    plan: Plan,
    cursor: Cursor,
    lanes: Vec<Lane>,
    first_queue: u16,
    frame: Vec<u8>,
    clock_sharing: u32,
    clock_left: u32,
    now: WallTime,
}

/// One queue: its socket, and the frames in its ring that the kernel has not taken yet, oldest first.
#[derive(Debug)]
struct Lane {
    socket: Xsk,
    /// Descriptors of frames put and not yet counted.
    pending: u32,
    /// Descriptors of one frame, when all frames have as many.
    chunks_each: u32,
    invalid: u64,
}

impl AfXdpEngine {
    /// Opens a socket on each queue that the plan uses.
    ///
    /// # Errors
    /// What this engine cannot do, a device in no state to send, or a refusal of the kernel.
    pub(crate) fn new(
        device: Device,
        mode: XmitMode,
        plan: &Plan,
        cursor: Cursor,
        asked: &Asked,
        copying: Copying,
    ) -> Result<Self, EngineError> {
        let chunks_each = check_ability(plan, mode, asked)?;
        if let Some(trouble) = device.trouble(true)? {
            return Err(trouble);
        }
        let (first, last) = queues(plan);
        let frame_len_max = plan.frame_len_max() as usize;
        let open = |queue: u16| {
            let socket = Xsk::open(device.ifindex(), u32::from(queue), frame_len_max, copying)
                .map_err(|source| refused(&device, queue, source))?;
            Ok(Lane { socket, pending: 0, chunks_each, invalid: 0 })
        };
        let lanes = (first..=last).map(open).collect::<Result<_, EngineError>>()?;
        Ok(Self {
            device,
            plan: plan.clone(),
            cursor,
            lanes,
            first_queue: first,
            frame: vec![0; frame_len_max],
            clock_sharing: 1,
            clock_left: 0,
            now: WallTime::default(),
        })
    }

    /// True when the driver sends from our memory.
    pub(crate) fn is_zero_copy(&self) -> bool {
        self.lanes.iter().all(|lane| lane.socket.is_zero_copy())
    }

    fn pending(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.pending / lane.chunks_each).sum()
    }

    /// Writes the next frame into the ring of its queue. False when the ring of some queue has no room: which
    /// queue comes next is known only when the frame has been made.
    fn put_next(&mut self, burst: &mut Burst) -> bool {
        let chunks = self.lanes[0].chunks_each as usize;
        if !self.lanes.iter_mut().all(|lane| lane.socket.has_room(chunks)) {
            return false;
        }
        let now = self.stamp();
        if chunks == 1 && self.lanes.len() == 1 {
            let (plan, cursor) = (&self.plan, &mut self.cursor);
            burst.frame_bytes += self.lanes[0].socket.put_whole(|out| plan.emit(cursor, now, out)) as u64;
            self.lanes[0].pending += 1;
            return true;
        }
        let len = self.plan.emit(&mut self.cursor, now, &mut self.frame);
        burst.frame_bytes += len as u64;
        let lane = &mut self.lanes[usize::from(self.cursor.queue - self.first_queue)];
        lane.put(&self.frame[..len]);
        true
    }

    fn stamp(&mut self) -> WallTime {
        if self.clock_left == 0 {
            self.now = WallTime::from_ns(SystemClock.wall_ns());
            self.clock_left = self.clock_sharing;
        }
        self.clock_left -= 1;
        self.now
    }

    /// Lets the kernel take what is in the rings and counts it.
    fn drive(&mut self, burst: &mut Burst) -> Result<(), EngineError> {
        for lane in &mut self.lanes {
            lane.drive(burst).map_err(|source| EngineError::Syscall {
                call: "sendto(AF_XDP)",
                ifname: self.device.name(),
                source,
            })?;
        }
        Ok(())
    }
}

impl Lane {
    fn put(&mut self, frame: &[u8]) {
        let chunk_len = self.socket.chunk_len();
        let pieces = frame.len().div_ceil(chunk_len);
        for (index, piece) in frame.chunks(chunk_len).enumerate() {
            self.socket.put(piece.len(), index + 1 < pieces, |out| out.copy_from_slice(piece));
        }
        self.pending += pieces as u32;
    }

    fn drive(&mut self, burst: &mut Burst) -> io::Result<()> {
        if self.pending == 0 {
            return Ok(());
        }
        self.socket.publish();
        let kicked = self.socket.kick();
        let taken = self.pending - self.socket.not_taken();
        self.pending -= taken;
        let frames = u64::from(taken / self.chunks_each);
        let invalid = self.socket.invalid_descriptors()?;
        let lost = (kicked.as_ref().map_or(0, |kicked| kicked.dropped) + invalid - self.invalid).min(frames);
        self.invalid = invalid;
        burst.sent += frames - lost;
        burst.errors.ring_full += lost;
        kicked.map(drop)
    }
}

impl Engine for AfXdpEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::AfXdp
    }

    fn device_name(&self) -> String {
        self.device.name()
    }

    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
        let mut burst = Burst::default();
        let mut to_put = budget.get().saturating_sub(self.pending());
        let mut moved_ns = SystemClock.now_ns();
        self.clock_left = 0;
        while to_put > 0 || self.pending() > 0 {
            let offered = burst.offered();
            let round = to_put.min(ROUND);
            let put = (0..round).take_while(|_| self.put_next(&mut burst)).count() as u32;
            to_put -= put;
            if let Err(error) = self.drive(&mut burst) {
                // What the kernel took before it refused is counted; the rest stays in the ring.
                return if burst.offered() > 0 { Ok(burst) } else { Err(self.explained(error)) };
            }
            let now_ns = SystemClock.now_ns();
            if burst.offered() > offered || put > 0 {
                moved_ns = now_ns;
            } else if now_ns - moved_ns > PATIENCE_NS {
                break;
            }
        }
        Ok(burst)
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        match self.device.trouble(true) {
            Ok(Some(trouble)) => Some(trouble),
            Err(error) => Some(error),
            Ok(None) => {
                let source = io::Error::from_raw_os_error(errors.last_errno);
                Some(EngineError::Refused { ifname: self.device.name(), source })
            }
        }
    }

    fn cursor(&self) -> Cursor {
        self.cursor.clone()
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}

impl AfXdpEngine {
    /// The state of the device says more than an error number.
    fn explained(&self, error: EngineError) -> EngineError {
        match self.device.trouble(true) {
            Ok(Some(trouble)) => trouble,
            _ => error,
        }
    }
}

/// First and last queue that the plan uses.
fn queues(plan: &Plan) -> (u16, u16) {
    let last = plan.queue.max.min(u32::from(plan.queue_count) - 1) as u16;
    ((plan.queue.min as u16).min(last), last)
}

/// Descriptors of each frame, or what cannot be done. Lengths that need different numbers of descriptors are
/// left to other engines.
fn check_ability(plan: &Plan, mode: XmitMode, asked: &Asked) -> Result<u32, EngineError> {
    let unable = |what: &str| Err(EngineError::unable(EngineKind::AfXdp, what));
    if asked.wish.priority != 0 {
        return unable("skb_priority: the kernel chooses it");
    }
    match mode {
        XmitMode::StartXmit => {}
        XmitMode::QueueXmit => return unable("xmit_mode queue_xmit: it goes past the qdisc"),
        XmitMode::NetifReceive => return unable("xmit_mode netif_receive: it only transmits"),
    }
    let chunk_len = 4096;
    let longest = plan.frame_len_max() as usize;
    let chunks = longest.div_ceil(chunk_len);
    if chunks > CHUNKS_MAX {
        return unable("frames of more than 17 pages");
    }
    if chunks > 1 && plan.size_moves() {
        return unable("frames of changing length beyond a page");
    }
    assert!(chunks <= RING_ENTRIES as usize, "a frame fits into the ring");
    Ok(chunks as u32)
}

fn refused(device: &Device, queue: u16, source: io::Error) -> EngineError {
    let ifname = format!("{} queue {queue}", device.name());
    EngineError::Syscall { call: "bind(AF_XDP)", ifname, source }
}
