//! The xdp engine: live frames of `BPF_PROG_RUN`, built by a BPF program and redirected to the
//! device.
//!
//! Accepted frames are read from the transmit statistics. The return value of `BPF_PROG_RUN`
//! includes frames that a device dropped.

mod attachment;
mod dispatcher;
mod mem_id;
mod slow_calls;

use crate::clock::Clock;
use crate::device::OutputDevice;
use crate::dummy_program::DummyProgram;
use crate::engine::{Burst, Engine, Errors, TimedEngine};
use crate::engine_kind::EngineKind;
use crate::requirements::{BuildOptions, OWN_FCS, QueueMap, Requirements, TxOptions};
use crate::{EngineError, SystemClock, translate};
use attachment::SharedAttachment;
pub(crate) use attachment::SharedProgram;
use bpf::{DUE_TIMES_MAX, Sender, TxCounts, TxSlot};
pub(crate) use dispatcher::{AttachPause, DispatcherSlot};
use facts::SendErrors;
use mem_id::CALL_PER_FRAME_NS;
pub(crate) use mem_id::MemIdThrottle;
use packet::{Cursor, Plan, XmitMode};
use std::cell::RefCell;
use std::io;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

/// Default batch size: near the maximum of the throughput, and a quarter of the XDP ring of a veth.
pub const BATCH_DEFAULT: u32 = 64;
/// Maximum of the kernel.
pub const BATCH_MAX: u32 = 256;
/// Time in which a slow device empties its ring. The kernel has no event for that, and the counters
/// of some drivers count a frame when it enters the ring.
const FLUSH: Duration = Duration::from_millis(250);
/// Longer frames do not fit into the page of a live frame beside its headroom. The kernel may
/// reject shorter ones.
pub(crate) const FRAME_LEN_MAX: u32 = 3520;

const NOTE_CALL_PER_FRAME: &str = "below 10,000 frames per second the xdp engine makes a call, and the kernel a page pool, for \
                                   each frame; --engine skb sends them with less work";

/// One program for one plan on one device, for the thread that made it.
#[derive(Debug)]
pub(crate) struct XdpEngine {
    device: OutputDevice,
    sender: Sender,
    /// `None` for the receive path, which has no driver.
    tx_slot: Option<Rc<TxSlot>>,
    cursor: Cursor,
    page: Vec<u8>,
    plan: Plan,
    batch: u32,
    clock_sharing: u32,
    /// Its run was so slow that each frame was a call.
    makes_call_per_frame: bool,
    /// The kernel reports that the driver accepts frames.
    is_capability_known: bool,
    mem_ids: MemIdThrottle,
    attachment: Rc<RefCell<SharedAttachment>>,
    /// Lets the driver accept the frames, if it needs an attached program.
    dummy_program: Option<DummyProgram>,
}

impl XdpEngine {
    /// Loads the program of a run, which is called through `shared_program` if there is one. The
    /// calling thread is in the namespace of the device, has the transmit slot, and sends the
    /// frames.
    ///
    /// # Errors
    /// When this engine does not support the plan, the device would drop the frames, or the kernel
    /// rejects the program.
    pub(crate) fn new(
        device: OutputDevice,
        need: &Requirements<'_>,
        options: &BuildOptions,
        shared_program: Option<&mut SharedProgram>,
        tx_slot: impl FnOnce() -> Result<Rc<TxSlot>, EngineError>,
        dummy_program: Option<DummyProgram>,
    ) -> Result<Self, EngineError> {
        let (plan, cursor) = (need.plan, need.cursor.clone());
        let receive = need.mode == XmitMode::NetifReceive;
        check_ability(plan, need.mode, options)?;
        if let Some(trouble) = trouble(&device, !receive)? {
            return Err(trouble);
        }
        let is_capability_known = device.reports_xdp()?;
        let mem_ids = MemIdThrottle::new(receive || device.is_kind("veth")?);
        let mut sender = load(plan, &cursor, device.ifindex(), receive)?;
        let attachment = match shared_program {
            Some(shared) => shared.add(&mut sender)?,
            None => SharedAttachment::own(&sender)?,
        };
        let tx_slot = if receive { None } else { Some(tx_slot()?) };
        Ok(Self {
            device,
            sender,
            tx_slot,
            cursor,
            page: page(plan),
            plan: plan.clone(),
            batch: options.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX),
            clock_sharing: 1,
            makes_call_per_frame: false,
            is_capability_known,
            mem_ids,
            attachment,
            dummy_program,
        })
    }

    /// True if the kernel reports the capability of the driver; otherwise the first frames show it.
    pub(crate) fn is_capability_known(&self) -> bool {
        self.is_capability_known
    }

    /// The kernel accepted none of the frames of a call.
    fn refused(&mut self, source: io::Error) -> Result<Burst, EngineError> {
        match source.raw_os_error() {
            Some(libc::ENOSPC) => {
                self.mem_ids.exhausted(&SystemClock, &self.device.name())?;
                Ok(Burst { retries: 1, ..Burst::default() })
            }
            Some(libc::EINVAL) => Err(EngineError::Unable {
                engine: EngineKind::Xdp.name(),
                what: format!("live frames of {} bytes on this kernel", self.page.len()),
            }),
            _ => Err(EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname: self.device.name(), source }),
        }
    }

    /// True once the program that is called is attached, if it has to be.
    fn is_attached(&self) -> Result<bool, EngineError> {
        self.attachment.borrow_mut().is_ready()
    }

    /// Frames of the next call, of `frames`: one until the program is attached.
    fn callable(&self, frames: u32) -> Result<u32, EngineError> {
        match frames {
            1 => Ok(1),
            many if self.is_attached()? => Ok(many),
            _ => Ok(1),
        }
    }

    /// Sends the next `frames` frames, `batch` at a time.
    fn call(&mut self, frames: u32, batch: u32) -> Result<Burst, EngineError> {
        let (offered, bytes) = (self.sender.state().offered(), self.sender.state().frame_bytes());
        let before = self.tx_counts();
        let clock = SystemClock;
        self.sender.state().set_clock(clock.wall_ns().wrapping_sub(clock.now_ns()), self.clock_sharing);
        let called_ns = self.mem_ids.wait(&clock);
        let ran = self.sender.run_live(&self.page, frames, batch);
        self.attachment.borrow_mut().add_call(called_ns, clock.now_ns());
        assert_eq!(self.sender.state().malformed(), 0, "a live frame came without the requested memory");
        let offered = self.sender.state().offered() - offered;
        match ran {
            // Also if the kernel had no memory half way: sent frames are counted, and the next call
            // reports it.
            Ok(()) => self.mem_ids.succeeded(),
            Err(_) if offered > 0 => {}
            Err(source) => return self.refused(source),
        }
        let frame_bytes = self.sender.state().frame_bytes() - bytes;
        let Some((before, after)) = before.zip(self.tx_counts()) else {
            return Ok(Burst { sent: offered, frame_bytes, ..Burst::default() });
        };
        Ok(Burst { frame_bytes, ..sorted(offered, &after.since(&before)) })
    }

    fn tx_counts(&self) -> Option<TxCounts> {
        self.tx_slot.as_deref().map(TxSlot::counts)
    }
}

/// Loads the program of a plan at `cursor`.
fn load(plan: &Plan, cursor: &Cursor, ifindex: u32, receive: bool) -> Result<Sender, EngineError> {
    let sender = Sender::load(&translate::program(plan, cursor, ifindex, receive)?)?;
    translate::set_cursor(sender.state(), plan, cursor);
    Ok(sender)
}

/// Initial contents of a page: the first packet, and zeros.
fn page(plan: &Plan) -> Vec<u8> {
    let mut page = plan.template().to_vec();
    page.resize(plan.frame_len_max() as usize, 0);
    page
}

fn trouble(device: &OutputDevice, transmit: bool) -> Result<Option<EngineError>, EngineError> {
    match device.trouble(transmit)? {
        None if transmit => device.xdp_trouble(),
        found => Ok(found),
    }
}

fn check_ability(plan: &Plan, mode: XmitMode, options: &BuildOptions) -> Result<(), EngineError> {
    let unable = |what: String| Err(EngineError::unable(EngineKind::Xdp, what));
    let TxOptions { priority, frags, .. } = options.tx;
    if priority != 0 {
        return unable(format!("skb_priority {priority}: its frames are not skbs"));
    }
    if frags > 0 {
        return unable(format!("frags {frags}: its frames are linear"));
    }
    if options.tx.fcs.is_some() {
        return unable(OWN_FCS.to_owned());
    }
    if mode == XmitMode::StartXmit && options.queues == QueueMap::Listed {
        return unable("queue_map_min or queue_map_max: it uses the queue of its CPU".to_owned());
    }
    if mode == XmitMode::QueueXmit {
        return unable("xmit_mode queue_xmit: it bypasses the qdisc".to_owned());
    }
    if plan.frame_len_max() > FRAME_LEN_MAX {
        return unable(format!("frames of {} bytes: they must fit into one page", plan.frame_len_max()));
    }
    Ok(())
}

impl Engine for XdpEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Xdp
    }

    fn device_name(&self) -> String {
        self.device.name()
    }

    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
        let frames = self.callable(budget.get())?;
        self.call(frames, self.batch.min(frames))
    }

    fn timed(&mut self) -> Option<&mut dyn TimedEngine> {
        Some(self)
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        match trouble(&self.device, self.tx_slot.is_some()) {
            Ok(Some(trouble)) => Some(trouble),
            Err(error) => Some(error),
            Ok(None) if errors.causes.refused > 0 => {
                let source = io::Error::from_raw_os_error(errors.last_errno);
                Some(EngineError::Refused { ifname: self.device.name(), source })
            }
            Ok(None) => Some(EngineError::Swallowed { ifname: self.device.name() }),
        }
    }

    fn finish(&mut self) -> u64 {
        if self.dummy_program.is_some() {
            // Detaching the program discards the rings of the driver, without a count.
            std::thread::sleep(FLUSH);
        }
        0
    }

    fn rests(&self) -> bool {
        self.dummy_program.is_some()
    }

    fn note(&self) -> Option<String> {
        let text = "the XDP dispatcher of the kernel (48 programs) was full when the run began, and calls took 24 ms and more \
                    each when a slot became free, until the program was attached again";
        let attached_again = self.attachment.borrow().was_attached_again().then_some(text);
        let slow = self.makes_call_per_frame.then_some(NOTE_CALL_PER_FRAME);
        attached_again.into_iter().chain(slow).map(str::to_owned).reduce(|notes, note| notes + "; " + &note)
    }

    fn is_ready(&mut self) -> bool {
        // The first burst reports an error.
        self.is_attached().unwrap_or(true)
    }

    fn link_trouble(&mut self) -> Option<EngineError> {
        self.device.trouble(self.tx_slot.is_some()).unwrap_or_else(Some)
    }

    fn cursor(&self) -> Cursor {
        let mut cursor = self.cursor.clone();
        translate::update(&mut cursor, &self.plan, self.sender.state());
        cursor
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }

    fn set_gap_ns(&mut self, gap_ns: u64) {
        self.makes_call_per_frame |= gap_ns > CALL_PER_FRAME_NS;
        self.mem_ids.set_frame_gap(gap_ns);
    }

    fn next_call_ns(&self) -> u64 {
        self.mem_ids.next_paced_ns()
    }
}

impl TimedEngine for XdpEngine {
    fn frame_len(&self) -> Option<u32> {
        // A page is as long as the longest frame.
        (!self.plan.size_moves()).then_some(self.page.len() as u32)
    }

    fn call_frames_max(&self) -> usize {
        DUE_TIMES_MAX
    }

    fn send_at(&mut self, due_ns: &[u64], sent_ns: &mut Vec<u64>) -> Result<Burst, EngineError> {
        let frames = self.callable(due_ns.len() as u32)?;
        self.sender.due_times().set(due_ns);
        // A batch of one frame, so that the kernel passes each to the driver by itself.
        let called = self.call(frames, 1);
        let offered = called.as_ref().map_or(0, Burst::offered) as usize;
        sent_ns.extend(self.sender.due_times().sent_ns(offered));
        self.sender.due_times().set(&[]);
        called
    }
}

/// Frames without an answer of the driver did not reach it.
pub(crate) fn sorted(offered: u64, tx_counts: &TxCounts) -> Burst {
    let options = tx_counts.sent + tx_counts.ring_full + tx_counts.refused;
    Burst {
        sent: tx_counts.sent,
        errors: Errors {
            ring_full: tx_counts.ring_full,
            last_errno: if tx_counts.refused > 0 { tx_counts.last_errno } else { 0 },
            causes: SendErrors {
                refused: tx_counts.refused,
                not_handed_over: offered.saturating_sub(options),
                ..SendErrors::default()
            },
        },
        ..Burst::default()
    }
}
