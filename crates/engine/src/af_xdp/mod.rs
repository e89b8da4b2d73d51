//! The af_xdp engine: frames built in memory that the driver, or the kernel on its behalf, sends
//! from.
//!
//! There is one socket per queue, so each frame goes to the queue of its plan. A frame counts as
//! sent once the kernel has consumed its descriptors without an error.

mod ring;
mod socket;
mod sys;
mod tx_queue;

use crate::clock::Clock;
use crate::device::OutputDevice;
use crate::dummy_program::DummyProgram;
use crate::engine::{Burst, Engine, Errors};
use crate::engine_kind::EngineKind;
use crate::requirements::{BuildOptions, OWN_FCS};
use crate::userspace::FrameSource;
use crate::{EngineError, SystemClock};
use packet::{Cursor, Plan, XmitMode};
use socket::{CHUNK_LARGE, RING_ENTRIES, Xsk};
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;
use tx_queue::TxQueue;

pub(crate) use socket::Copying;

/// Maximum chunks per frame, as in an skb.
const CHUNKS_MAX: usize = 17;
/// Default number of frames per doorbell.
const ROUND: u32 = 64;
/// Default number of frames per doorbell with zero-copy, where each doorbell is an interrupt or a
/// register write.
const ROUND_ZERO_COPY: u32 = 256;
/// More would prevent the driver from sending half of the ring while the other half is filled.
const ROUND_MAX: u32 = RING_ENTRIES / 2;
/// Timeout of a burst for a ring without progress.
const TIMEOUT_NS: u64 = 5_000_000;
/// After this time without progress it yields the CPU, which the consumer of the ring may need.
const SPIN_NS: u64 = 20_000;
const REST_NS: u64 = 50_000;
/// Interval at which the state of a device that drops frames is queried.
const CHECK_INTERVAL_NS: u64 = 10_000_000;
/// Timeout for the last frames to reach the wire: a full ring at 10 Mbit/s, or a paused link.
const FLUSH_NS: u64 = 100_000_000;

/// Sockets of one plan on one device.
#[derive(Debug)]
pub(crate) struct AfXdpEngine {
    device: OutputDevice,
    source: FrameSource,
    tx_queues: Vec<TxQueue>,
    first_queue: u16,
    /// Frames per doorbell.
    round: u32,
    /// Descriptors of the longest frame.
    chunks_max: usize,
    /// Buffer for frames that are split, or whose queue is not known before.
    frame: Vec<u8>,
    /// The plan is at a frame without security association; it is counted after those in the rings.
    is_unprotected: bool,
    /// Time of the last query of a device that dropped frames.
    checked_ns: u64,
    /// The reason, which the next call returns.
    trouble: Option<EngineError>,
    clock_sharing: u32,
    clock_left: u32,
    frame_time_ns: u64,
    /// Lets the driver use zero-copy, if it needs an attached program. Dropped after the sockets.
    _dummy_program: Option<DummyProgram>,
}

impl AfXdpEngine {
    /// Opens a socket on each queue that the plan uses.
    ///
    /// # Errors
    /// When this engine does not support the plan, the device cannot send, or the kernel rejects a
    /// socket.
    pub(crate) fn new(
        device: OutputDevice,
        mode: XmitMode,
        plan: &Plan,
        cursor: Cursor,
        options: &BuildOptions,
        copying: Copying,
    ) -> Result<Self, EngineError> {
        let chunks_max = check_ability(plan, mode, options)?;
        if let Some(trouble) = device.trouble(true)? {
            return Err(trouble);
        }
        let dummy_program =
            if copying == Copying::Avoid { DummyProgram::for_zero_copy(&device)? } else { None };
        let (first, last) = queues(plan);
        let frame_len_max = plan.frame_len_max() as usize;
        let open = |queue: u16| {
            let socket = Xsk::open(device.ifindex(), u32::from(queue), frame_len_max, copying)
                .map_err(|source| refused(&device, queue, frame_len_max, source))?;
            Ok(TxQueue::new(socket, (!plan.size_moves()).then_some(frame_len_max)))
        };
        let mut tx_queues = (first..=last).map(open).collect::<Result<Vec<_>, EngineError>>()?;
        if let ([tx_queue], 1, 2..) = (&mut tx_queues[..], chunks_max, plan.repeats) {
            tx_queue.socket.keep_frames();
        }
        // A driver that reassigns a queue may lose its link for a while.
        device.wait_for_carrier()?;
        Ok(Self {
            device,
            source: FrameSource::new(plan.clone(), cursor),
            round: round(&tx_queues, options),
            tx_queues,
            first_queue: first,
            chunks_max,
            frame: vec![0; frame_len_max],
            is_unprotected: false,
            checked_ns: 0,
            trouble: None,
            clock_sharing: 1,
            clock_left: 0,
            frame_time_ns: 0,
            _dummy_program: dummy_program,
        })
    }

    /// True in zero-copy mode.
    pub(crate) fn is_zero_copy(&self) -> bool {
        self.tx_queues.iter().all(|tx_queue| tx_queue.socket.is_zero_copy())
    }

    /// Frames that the kernel has not consumed.
    fn pending(&self) -> u32 {
        self.tx_queues.iter().map(TxQueue::pending).sum()
    }

    /// Writes up to `count` frames into the rings of their queues and returns how many. Fewer if a
    /// ring is full (the queue of a frame is known only once it is built), or if a frame has no
    /// security association.
    fn put(&mut self, count: u32) -> u32 {
        if self.pending() == 0 {
            self.source.checkpoint();
        }
        self.tx_queues.iter_mut().for_each(|tx_queue| tx_queue.socket.reap());
        if !self.is_worth_a_doorbell(count) {
            return 0;
        }
        let mut done = 0;
        while done < count {
            if !self.tx_queues.iter().all(|tx_queue| tx_queue.socket.has_room(self.chunks_max)) {
                break;
            }
            let again = self.put_again(count - done);
            if again == 0 && self.put_next() == 0 {
                self.is_unprotected = true;
                break;
            }
            done += again.max(1);
        }
        done
    }

    /// Repeats the last frame up to `most` times, in the same chunk. Returns how often; 0 if it has
    /// to be built again.
    fn put_again(&mut self, most: u32) -> u32 {
        let most = most.min(self.source.repeats_left());
        if most == 0 {
            return 0;
        }
        let again = self.tx_queues[0].put_again(most);
        self.source.repeat(again);
        again
    }

    /// False while a zero-copy driver returns chunks one by one: a doorbell for each would slow it
    /// down.
    fn is_worth_a_doorbell(&self, count: u32) -> bool {
        let wanted = count as usize * self.chunks_max;
        let has_room =
            |tx_queue: &TxQueue| !tx_queue.socket.is_zero_copy() || tx_queue.socket.has_room(wanted);
        wanted > ROUND_MAX as usize || self.tx_queues.iter().all(has_room)
    }

    /// Yields the CPU. A zero-copy driver may clean its ring only on a doorbell.
    fn rest(&self) {
        let tx_queues = self.tx_queues.iter().filter(|tx_queue| tx_queue.socket.is_zero_copy());
        tx_queues.for_each(|tx_queue| drop(tx_queue.socket.kick()));
        SystemClock.rest(REST_NS);
    }

    /// Builds the next frame and returns its length; 0 if it has no security association.
    fn put_next(&mut self) -> usize {
        let now_ns = self.stamp();
        let source = &mut self.source;
        if let [tx_queue] = &mut self.tx_queues[..]
            && self.chunks_max == 1
        {
            return tx_queue.put_whole(|out| source.emit(now_ns, out));
        }
        let len = source.emit(now_ns, &mut self.frame);
        if len > 0 {
            let queue = usize::from(source.queue() - self.first_queue);
            self.tx_queues[queue].put(&self.frame[..len]);
        }
        len
    }

    fn stamp(&mut self) -> u64 {
        if self.clock_left == 0 {
            self.frame_time_ns = SystemClock.of_frame(self.source.plan());
            self.clock_left = self.clock_sharing;
        }
        self.clock_left -= 1;
        self.frame_time_ns
    }

    /// Lets the kernel consume the rings and counts the frames.
    fn drive(&mut self, burst: &mut Burst) -> Result<(), EngineError> {
        let failed =
            |source| EngineError::Syscall { call: "sendto(AF_XDP)", ifname: self.device.name(), source };
        self.tx_queues.iter_mut().try_for_each(|tx_queue| tx_queue.drive(burst)).map_err(failed)
    }

    /// Reads the counters of invalid descriptors.
    fn settle(&mut self, burst: &mut Burst) -> Result<(), EngineError> {
        let failed = |source| EngineError::Syscall {
            call: "getsockopt(XDP_STATISTICS)",
            ifname: self.device.name(),
            source,
        };
        self.tx_queues.iter_mut().try_for_each(|tx_queue| tx_queue.settle(burst)).map_err(failed)
    }

    /// True if the state of the device explains the drops. A device without carrier drops frames
    /// like one with a full ring.
    fn has_trouble(&mut self, now_ns: u64) -> Result<bool, EngineError> {
        if now_ns.saturating_sub(self.checked_ns) >= CHECK_INTERVAL_NS {
            self.checked_ns = now_ns;
            self.trouble = self.device.trouble(true)?;
        }
        Ok(self.trouble.is_some())
    }

    /// Sends up to `budget` frames, first those that an earlier call left in the rings.
    fn send(&mut self, budget: u32, burst: &mut Burst) -> Result<(), EngineError> {
        let mut to_put = budget.saturating_sub(self.pending());
        let mut moved_ns = SystemClock.now_ns();
        self.clock_left = 0;
        while to_put > 0 || self.pending() > 0 {
            let offered = burst.offered();
            let put = if self.is_unprotected { 0 } else { self.put(to_put.min(self.round)) };
            to_put = if self.is_unprotected { 0 } else { to_put - put };
            let dropped = burst.errors.ring_full;
            self.drive(burst)?;
            let now_ns = SystemClock.now_ns();
            if burst.errors.ring_full > dropped && self.has_trouble(now_ns)? {
                break;
            }
            if burst.offered() > offered || put > 0 {
                moved_ns = now_ns;
            } else if now_ns - moved_ns > TIMEOUT_NS {
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
        if self.is_unprotected && self.pending() == 0 {
            self.is_unprotected = false;
            burst.errors.causes.refused += 1;
            burst.errors.last_errno = libc::ENOENT;
        }
        match sent {
            // What the kernel consumed before the error is counted; the rest stays in the ring.
            Err(error) if burst.offered() == 0 => Err(self.explained(error)),
            _ => Ok(burst),
        }
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        match self.device.trouble(true) {
            Ok(Some(trouble)) => Some(trouble),
            Err(error) => Some(error),
            Ok(None) if errors.causes.invalid > 0 => {
                Some(EngineError::Invalid { ifname: self.device.name() })
            }
            // The device does not reject frames for good; the plan does.
            Ok(None) => Some(EngineError::NoAssociation { engine: EngineKind::AfXdp.name() }),
        }
    }

    fn finish(&mut self) -> u64 {
        let deadline_ns = SystemClock.now_ns() + FLUSH_NS;
        loop {
            let under_way: u32 =
                self.tx_queues.iter_mut().map(|tx_queue| tx_queue.under_way(self.chunks_max)).sum();
            if under_way == 0 || SystemClock.now_ns() > deadline_ns {
                return u64::from(under_way);
            }
            // A driver may clean its ring only on a doorbell.
            self.tx_queues.iter().for_each(|tx_queue| drop(tx_queue.socket.kick()));
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn link_trouble(&mut self) -> Option<EngineError> {
        self.device.trouble(true).unwrap_or_else(Some)
    }

    fn cursor(&self) -> Cursor {
        self.source.cursor_before(self.pending() as usize + usize::from(self.is_unprotected), None)
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}

impl AfXdpEngine {
    /// Prefers the state of the device over an error number.
    fn explained(&self, error: EngineError) -> EngineError {
        match self.device.trouble(true) {
            Ok(Some(trouble)) => trouble,
            _ => error,
        }
    }
}

/// Frames per doorbell.
fn round(tx_queues: &[TxQueue], options: &BuildOptions) -> u32 {
    let is_zero_copy = tx_queues.iter().all(|tx_queue| tx_queue.socket.is_zero_copy());
    let usual = if is_zero_copy { ROUND_ZERO_COPY } else { ROUND };
    options.batch.unwrap_or(usual).clamp(1, ROUND_MAX)
}

/// First and last queue of the plan.
fn queues(plan: &Plan) -> (u16, u16) {
    let last = plan.queue.max.min(u32::from(plan.queue_count) - 1) as u16;
    ((plan.queue.min as u16).min(last), last)
}

/// Descriptors of the longest frame, or why the plan is not supported.
fn check_ability(plan: &Plan, mode: XmitMode, options: &BuildOptions) -> Result<usize, EngineError> {
    let unable = |what: &str| Err(EngineError::unable(EngineKind::AfXdp, what));
    if options.tx.priority != 0 {
        return unable("skb_priority: the kernel chooses it");
    }
    if options.tx.fcs.is_some() {
        return unable(OWN_FCS);
    }
    match mode {
        XmitMode::StartXmit => {}
        XmitMode::QueueXmit => return unable("xmit_mode queue_xmit: it bypasses the qdisc"),
        XmitMode::NetifReceive => return unable("xmit_mode netif_receive: it only transmits"),
    }
    let chunks = (plan.frame_len_max() as usize).div_ceil(CHUNK_LARGE);
    if chunks > CHUNKS_MAX {
        return unable("frames of more than 17 pages");
    }
    assert!(chunks <= RING_ENTRIES as usize, "a frame fits into the ring");
    Ok(chunks)
}

fn refused(device: &OutputDevice, queue: u16, frame_len_max: usize, source: io::Error) -> EngineError {
    if let Some(what) = too_long(frame_len_max, &source) {
        return EngineError::unable(EngineKind::AfXdp, what);
    }
    let ifname = format!("{} queue {queue}", device.name());
    EngineError::Syscall { call: "bind(AF_XDP)", ifname, source }
}

/// Kernels before 6.6 do not support multi-buffer frames and reject its flag.
fn too_long(frame_len_max: usize, refusal: &io::Error) -> Option<String> {
    (frame_len_max > CHUNK_LARGE && refusal.raw_os_error() == Some(libc::EINVAL)).then(|| {
        format!("frames of {frame_len_max} bytes: AF_XDP of this kernel supports at most {CHUNK_LARGE}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_does_not_support_multi_buffer_frames() {
        let refusal = |errno| io::Error::from_raw_os_error(errno);
        let what = too_long(9000, &refusal(libc::EINVAL)).expect("a reason");
        assert_eq!(what, "frames of 9000 bytes: AF_XDP of this kernel supports at most 4096");
        assert_eq!(too_long(4096, &refusal(libc::EINVAL)), None);
        assert_eq!(too_long(9000, &refusal(libc::EBUSY)), None);
    }
    use crate::requirements::{QueueMap, TxOptions};
    use host::{Lab, LabOptions, Stack};
    use packet::{Config, sample};

    /// An invalid descriptor is counted separately, not as sent or as a full ring.
    #[test]
    fn what_the_kernel_finds_invalid_is_an_error_of_its_own() {
        testkit::needs!(testkit::is_root("CAP_NET_ADMIN, CAP_NET_RAW"));
        let lab = Lab::new(&LabOptions::default()).expect("a lab can be made");
        let run = || {
            let device = OutputDevice::new(Stack::here()?, lab.tx.ifname)?;
            let (mut config, mut cursor) = (Config::default(), Cursor::default());
            config.prepare(&sample::facts());
            cursor.start(&config, &sample::facts(), 1);
            let plan = Plan::new(&config, &sample::facts(), &cursor).expect("a good configuration");
            let options = BuildOptions { tx: TxOptions::default(), queues: QueueMap::Any, batch: None };
            let mut engine =
                AfXdpEngine::new(device, XmitMode::StartXmit, &plan, cursor, &options, Copying::Always)?;
            let mut burst = Burst::default();
            engine.put(3);
            engine.tx_queues[0].put_invalid();
            engine.drive(&mut burst)?;
            engine.settle(&mut burst)?;
            assert_eq!((burst.sent, burst.errors.causes.invalid, burst.errors.ring_full), (3, 1, 0));
            let explained = engine.explain(&burst.errors).expect("there is a reason");
            assert!(matches!(explained, EngineError::Invalid { .. }), "{explained}");
            Ok::<(), EngineError>(())
        };
        lab.tx.netns().run(run).expect("the namespace can be entered").expect("the engine works");
    }
}
