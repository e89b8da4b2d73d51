//! The af_xdp engine: frames written into memory that the driver, or the kernel on its behalf, sends from.
//!
//! One socket a queue, so each frame goes to the queue that its plan says. A frame counts as sent once the
//! kernel has taken its descriptors from the ring and reported no error.

mod lane;
mod ring;
mod socket;
mod sys;

use crate::clock::Clock;
use crate::device::Device;
use crate::engine::{Burst, Engine, EngineKind, Errors};
use crate::need::Asked;
use crate::opener::Opener;
use crate::written::Source;
use crate::{EngineError, SystemClock};
use lane::Lane;
use packet::{Cursor, Plan, XmitMode};
use socket::{CHUNK_LARGE, RING_ENTRIES, Xsk};
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

pub(crate) use socket::Copying;

/// Most chunks of one frame: what an skb can hold.
const CHUNKS_MAX: usize = 17;
/// Frames put between two looks at the rings, and for one doorbell, unless the user says otherwise.
const ROUND: u32 = 64;
/// The same where the driver takes them from our memory: each doorbell is an interrupt there, or a word to the card.
const ROUND_ZERO_COPY: u32 = 256;
/// More would not let the driver work on half of the ring while we fill the other.
const ROUND_MAX: u32 = RING_ENTRIES / 2;
/// A burst waits this long for a ring that does not move.
const PATIENCE_NS: u64 = 5_000_000;
/// After so long it leaves the processor to others for a while: what empties the ring may need it.
const SPIN_NS: u64 = 20_000;
const REST_NS: u64 = 50_000;
/// How often a device that drops frames is asked for the reason.
const LOOK_EVERY_NS: u64 = 10_000_000;
/// How long the frames of the last burst may take to the wire: that of a ring at 10 Mbit/s, or a line that is paused.
const FLUSH_NS: u64 = 100_000_000;

/// Sockets for one plan on one device.
#[derive(Debug)]
pub(crate) struct AfXdpEngine {
    device: Device,
    source: Source,
    lanes: Vec<Lane>,
    first_queue: u16,
    /// Frames for one doorbell.
    round: u32,
    /// Descriptors of the longest frame.
    chunks_max: usize,
    /// Where a frame is written that is to be cut into pieces, or whose queue is not known before.
    frame: Vec<u8>,
    /// The plan has come to a frame that must not go out; it is counted behind those in the rings.
    is_unsealed: bool,
    /// When a device that dropped a frame was last asked for the reason.
    looked_ns: u64,
    /// The reason, which the next call returns.
    trouble: Option<EngineError>,
    clock_sharing: u32,
    clock_left: u32,
    wall_ns: u64,
    /// What makes the driver send from our memory, where it needs that. Behind the sockets: it goes after them.
    _opener: Option<Opener>,
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
        let chunks_max = check_ability(plan, mode, asked)?;
        if let Some(trouble) = device.trouble(true)? {
            return Err(trouble);
        }
        let opener = if copying == Copying::Avoid { Opener::for_zero_copy(&device)? } else { None };
        let (first, last) = queues(plan);
        let frame_len_max = plan.frame_len_max() as usize;
        let open = |queue: u16| {
            let socket = Xsk::open(device.ifindex(), u32::from(queue), frame_len_max, copying)
                .map_err(|source| refused(&device, queue, frame_len_max, source))?;
            Ok(Lane::new(socket, (!plan.size_moves()).then_some(frame_len_max)))
        };
        let mut lanes = (first..=last).map(open).collect::<Result<Vec<_>, EngineError>>()?;
        if let ([lane], 1, 2..) = (&mut lanes[..], chunks_max, plan.repeats) {
            lane.socket.keep_frames();
        }
        // A driver that gives a queue away may look for its link anew.
        device.wait_for_carrier()?;
        Ok(Self {
            device,
            source: Source::new(plan.clone(), cursor),
            round: round(&lanes, asked),
            lanes,
            first_queue: first,
            chunks_max,
            frame: vec![0; frame_len_max],
            is_unsealed: false,
            looked_ns: 0,
            trouble: None,
            clock_sharing: 1,
            clock_left: 0,
            wall_ns: 0,
            _opener: opener,
        })
    }

    /// True when the driver sends from our memory.
    pub(crate) fn is_zero_copy(&self) -> bool {
        self.lanes.iter().all(|lane| lane.socket.is_zero_copy())
    }

    /// Frames that were put and that the kernel has not taken.
    fn pending(&self) -> u32 {
        self.lanes.iter().map(Lane::pending).sum()
    }

    /// Writes up to `count` frames into the rings of their queues and says how many. Fewer when the ring of some
    /// queue has no room, since which queue comes next is known only when the frame has been made, and when there is
    /// a frame that must not go out.
    fn put(&mut self, count: u32) -> u32 {
        if self.pending() == 0 {
            self.source.checkpoint();
        }
        self.lanes.iter_mut().for_each(|lane| lane.socket.reap());
        if !self.is_worth_a_doorbell(count) {
            return 0;
        }
        let mut done = 0;
        while done < count {
            if !self.lanes.iter().all(|lane| lane.socket.has_room(self.chunks_max)) {
                break;
            }
            let again = self.put_again(count - done);
            if again == 0 && self.put_next() == 0 {
                self.is_unsealed = true;
                break;
            }
            done += again.max(1);
        }
        done
    }

    /// Puts the frame before again, up to `most` times, where the plan says so: as often as there is room, in the same
    /// chunk. Returns how often; 0 where it has to be written anew.
    fn put_again(&mut self, most: u32) -> u32 {
        let most = most.min(self.source.repeats_left());
        if most == 0 {
            return 0;
        }
        let again = self.lanes[0].put_again(most);
        self.source.repeat(again);
        again
    }

    /// False while a driver that takes frames from our memory gives back chunks one by one: a doorbell for each would
    /// keep it from its work.
    fn is_worth_a_doorbell(&self, count: u32) -> bool {
        let wanted = count as usize * self.chunks_max;
        let has_room = |lane: &Lane| !lane.socket.is_zero_copy() || lane.socket.has_room(wanted);
        wanted > ROUND_MAX as usize || self.lanes.iter().all(has_room)
    }

    /// Lets others have the processor. A driver that sends from our memory may clean its ring only when told to go on.
    fn rest(&self) {
        let lanes = self.lanes.iter().filter(|lane| lane.socket.is_zero_copy());
        lanes.for_each(|lane| drop(lane.socket.kick()));
        SystemClock.rest(REST_NS);
    }

    /// Writes the next frame, for which there is room, and returns its length; 0 when it must not go out.
    fn put_next(&mut self) -> usize {
        let wall_ns = self.stamp();
        let source = &mut self.source;
        if let [lane] = &mut self.lanes[..]
            && self.chunks_max == 1
        {
            return lane.put_whole(|out| source.emit(wall_ns, out));
        }
        let len = source.emit(wall_ns, &mut self.frame);
        if len > 0 {
            let queue = usize::from(source.queue() - self.first_queue);
            self.lanes[queue].put(&self.frame[..len]);
        }
        len
    }

    fn stamp(&mut self) -> u64 {
        if self.clock_left == 0 {
            self.wall_ns = SystemClock.wall_ns();
            self.clock_left = self.clock_sharing;
        }
        self.clock_left -= 1;
        self.wall_ns
    }

    /// Lets the kernel take what is in the rings and counts it.
    fn drive(&mut self, burst: &mut Burst) -> Result<(), EngineError> {
        let failed =
            |source| EngineError::Syscall { call: "sendto(AF_XDP)", ifname: self.device.name(), source };
        self.lanes.iter_mut().try_for_each(|lane| lane.drive(burst)).map_err(failed)
    }

    /// What the kernel says only when it is asked.
    fn settle(&mut self, burst: &mut Burst) -> Result<(), EngineError> {
        let failed = |source| EngineError::Syscall {
            call: "getsockopt(XDP_STATISTICS)",
            ifname: self.device.name(),
            source,
        };
        self.lanes.iter_mut().try_for_each(|lane| lane.settle(burst)).map_err(failed)
    }

    /// True when the state of the device explains the frames that it drops. A device without carrier drops each frame
    /// as one with a full ring does, and the kernel hands none of them back.
    fn has_trouble(&mut self, now_ns: u64) -> Result<bool, EngineError> {
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_EVERY_NS {
            self.looked_ns = now_ns;
            self.trouble = self.device.trouble(true)?;
        }
        Ok(self.trouble.is_some())
    }

    /// Sends up to `budget` frames, those first that a call before left in the rings.
    fn send(&mut self, budget: u32, burst: &mut Burst) -> Result<(), EngineError> {
        let mut to_put = budget.saturating_sub(self.pending());
        let mut moved_ns = SystemClock.now_ns();
        self.clock_left = 0;
        while to_put > 0 || self.pending() > 0 {
            let offered = burst.offered();
            let put = if self.is_unsealed { 0 } else { self.put(to_put.min(self.round)) };
            to_put = if self.is_unsealed { 0 } else { to_put - put };
            let dropped = burst.errors.ring_full;
            self.drive(burst)?;
            let now_ns = SystemClock.now_ns();
            if burst.errors.ring_full > dropped && self.has_trouble(now_ns)? {
                break;
            }
            if burst.offered() > offered || put > 0 {
                moved_ns = now_ns;
            } else if now_ns - moved_ns > PATIENCE_NS {
                break;
            } else if now_ns - moved_ns > SPIN_NS && self.is_zero_copy() {
                self.rest();
            }
        }
        Ok(())
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
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        let mut burst = Burst::default();
        let sent = self.send(budget.get(), &mut burst);
        self.settle(&mut burst)?;
        if self.is_unsealed && self.pending() == 0 {
            self.is_unsealed = false;
            burst.errors.refused += 1;
            burst.errors.last_errno = libc::ENOENT;
        }
        match sent {
            // What the kernel took before it refused is counted; the rest stays in the ring.
            Err(error) if burst.offered() == 0 => Err(self.explained(error)),
            _ => Ok(burst),
        }
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        match self.device.trouble(true) {
            Ok(Some(trouble)) => Some(trouble),
            Err(error) => Some(error),
            Ok(None) if errors.invalid > 0 => Some(EngineError::Invalid { ifname: self.device.name() }),
            // A device refuses nothing for good here; the plan does.
            Ok(None) => Some(EngineError::Unsealed { engine: EngineKind::AfXdp.name() }),
        }
    }

    fn finish(&mut self) -> u64 {
        let deadline_ns = SystemClock.now_ns() + FLUSH_NS;
        loop {
            let under_way: u32 = self.lanes.iter_mut().map(|lane| lane.under_way(self.chunks_max)).sum();
            if under_way == 0 || SystemClock.now_ns() > deadline_ns {
                return u64::from(under_way);
            }
            // A driver may clean its ring only when it is told to go on.
            self.lanes.iter().for_each(|lane| drop(lane.socket.kick()));
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn cursor(&self) -> Cursor {
        self.source.cursor_before(self.pending() as usize + usize::from(self.is_unsealed), None)
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

/// Frames for one doorbell.
fn round(lanes: &[Lane], asked: &Asked) -> u32 {
    let is_zero_copy = lanes.iter().all(|lane| lane.socket.is_zero_copy());
    let usual = if is_zero_copy { ROUND_ZERO_COPY } else { ROUND };
    asked.batch.unwrap_or(usual).clamp(1, ROUND_MAX)
}

/// First and last queue that the plan uses.
fn queues(plan: &Plan) -> (u16, u16) {
    let last = plan.queue.max.min(u32::from(plan.queue_count) - 1) as u16;
    ((plan.queue.min as u16).min(last), last)
}

/// Descriptors of the longest frame, or what cannot be done.
fn check_ability(plan: &Plan, mode: XmitMode, asked: &Asked) -> Result<usize, EngineError> {
    let unable = |what: &str| Err(EngineError::unable(EngineKind::AfXdp, what));
    if asked.wish.priority != 0 {
        return unable("skb_priority: the kernel chooses it");
    }
    match mode {
        XmitMode::StartXmit => {}
        XmitMode::QueueXmit => return unable("xmit_mode queue_xmit: it goes past the qdisc"),
        XmitMode::NetifReceive => return unable("xmit_mode netif_receive: it only transmits"),
    }
    let chunks = (plan.frame_len_max() as usize).div_ceil(CHUNK_LARGE);
    if chunks > CHUNKS_MAX {
        return unable("frames of more than 17 pages");
    }
    assert!(chunks <= RING_ENTRIES as usize, "a frame fits into the ring");
    Ok(chunks)
}

fn refused(device: &Device, queue: u16, frame_len_max: usize, source: io::Error) -> EngineError {
    if let Some(what) = too_long(frame_len_max, &source) {
        return EngineError::unable(EngineKind::AfXdp, what);
    }
    let ifname = format!("{} queue {queue}", device.name());
    EngineError::Syscall { call: "bind(AF_XDP)", ifname, source }
}

/// Kernels before 6.6 do not know frames in several pieces, and so not the flag that asks for them.
fn too_long(frame_len_max: usize, refusal: &io::Error) -> Option<String> {
    (frame_len_max > CHUNK_LARGE && refusal.raw_os_error() == Some(libc::EINVAL)).then(|| {
        format!("frames of {frame_len_max} bytes: AF_XDP of this kernel takes {CHUNK_LARGE} at most")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_does_not_take_frames_in_pieces() {
        let refusal = |errno| io::Error::from_raw_os_error(errno);
        let what = too_long(9000, &refusal(libc::EINVAL)).expect("a reason");
        assert_eq!(what, "frames of 9000 bytes: AF_XDP of this kernel takes 4096 at most");
        assert_eq!(too_long(4096, &refusal(libc::EINVAL)), None);
        assert_eq!(too_long(9000, &refusal(libc::EBUSY)), None);
    }
    use crate::need::{QueueMap, Wish};
    use host::{Lab, LabOptions, Stack};
    use packet::{Config, sample};

    /// A descriptor that leaves its chunk counts by itself, not as sent, and not as a full ring.
    #[test]
    fn what_the_kernel_finds_invalid_is_an_error_of_its_own() {
        if !testkit::is_root("CAP_NET_ADMIN, CAP_NET_RAW") {
            return;
        }
        let lab = Lab::new(&LabOptions::default()).expect("a lab can be made");
        let run = || {
            let device = Device::new(Stack::here()?, lab.tx.ifname)?;
            let (mut config, mut cursor) = (Config::default(), Cursor::default());
            config.prepare(&sample::facts());
            cursor.start(&config, &sample::facts(), 1);
            let plan = Plan::new(&config, &sample::facts(), &cursor).expect("a good configuration");
            let asked = Asked { wish: Wish::default(), queues: QueueMap::Any, batch: None };
            let mut engine =
                AfXdpEngine::new(device, XmitMode::StartXmit, &plan, cursor, &asked, Copying::Always)?;
            let mut burst = Burst::default();
            engine.put(3);
            engine.lanes[0].put_invalid();
            engine.drive(&mut burst)?;
            engine.settle(&mut burst)?;
            assert_eq!((burst.sent, burst.errors.invalid, burst.errors.ring_full), (3, 1, 0));
            let explained = engine.explain(&burst.errors).expect("there is a reason");
            assert!(matches!(explained, EngineError::Invalid { .. }), "{explained}");
            Ok::<(), EngineError>(())
        };
        lab.tx.netns().run(run).expect("the namespace can be entered").expect("the engine works");
    }
}
