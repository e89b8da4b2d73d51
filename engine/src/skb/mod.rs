//! The skb engine: clones of one skb, written and handed on by a tc program under `BPF_PROG_RUN`.
//!
//! Real packets of the stack on every device, through its queueing discipline or into its receive path, without a
//! system call for each. The kernel says of every clone whether it was taken; one that found no room is kept and
//! goes first the next time, so the plan never moves on for a frame that was not sent. Frames to be sealed, for which
//! no program has the ciphers, are written by the plan (`sealed`) and handed on in the same way.

mod sealed;

use crate::clock::Clock;
use crate::device::Device;
use crate::engine::{Burst, Engine, EngineKind, Errors};
use crate::need::{Asked, QueueMap};
use crate::{EngineError, SystemClock, translate};
use bpf::{Said, SkbHow, SkbSender, abi};
use packet::{Cursor, Plan, XmitMode};
use std::io;
use std::num::NonZeroU32;

pub(crate) use sealed::open as open_sealed;

/// Frames for one run of the program unless the user says otherwise. Softirqs run between two runs, and what a
/// run puts into the queue of the receive path (1,000 frames by default) must fit beside what is there.
const BATCH_DEFAULT: u32 = 64;
/// More than the receive path queues by default.
const BATCH_MAX: u32 = 1024;
/// Longer frames do not fit into the page that a test run gives its skb, beside headroom and `skb_shared_info`; the
/// kernel has the last word for shorter ones.
const FRAME_LEN_MAX: u32 = 3712;
/// How often a device that takes nothing is asked for the reason.
const LOOK_EVERY_NS: u64 = 10_000_000;

/// One program for one plan on one device.
#[derive(Debug)]
pub(crate) struct SkbEngine {
    device: Device,
    sender: SkbSender,
    cursor: Cursor,
    /// What the skb of each call starts as: its headers tell the stack the protocol.
    start: Vec<u8>,
    how: SkbHow,
    transmits: bool,
    clock_sharing: u32,
    looked_ns: u64,
}

impl SkbEngine {
    /// Loads the program for `plan`. The calling thread is pinned to `cpu`, is in the namespace of the device, and is
    /// the one that sends.
    ///
    /// # Errors
    /// What this engine cannot do, a device that cannot send, or a refusal of the kernel.
    pub(crate) fn new(
        device: Device,
        mode: XmitMode,
        plan: &Plan,
        cursor: Cursor,
        asked: &Asked,
        cpu: u32,
    ) -> Result<Self, EngineError> {
        check_ability(&device, plan, mode, asked)?;
        let transmits = mode != XmitMode::NetifReceive;
        if let Some(trouble) = device.trouble(transmits)? {
            return Err(trouble);
        }
        let mut words = translate::plan(plan, &cursor, device.ifindex(), !transmits);
        if transmits && asked.queues != QueueMap::Any {
            words.flags |= abi::PlanFlag::WR_PLAN_QUEUE_MAPPED.0;
        }
        let sender = SkbSender::load(&words)?;
        sender.state().set_cursor(&translate::cursor(&cursor, plan));
        sender.state().set_flows(&translate::flows(&cursor.flows));
        sender.set_frame_kept(cursor.repeats_left > 0);
        let start = start(plan);
        let how = how(plan, asked, cpu, transmits);
        Ok(Self { device, sender, cursor, start, how, transmits, clock_sharing: 1, looked_ns: 0 })
    }

    /// What speaks against the next frame, if anything does.
    fn reason(&self) -> Result<Option<EngineError>, EngineError> {
        match self.device.trouble(self.transmits)? {
            None if self.transmits => self.device.length_trouble(self.start.len() as u32, true),
            found => Ok(found),
        }
    }

    /// What to make of a frame that was kept: `Ok` to try again later.
    fn judge(&mut self, said: &Said) -> Result<(), EngineError> {
        let now_ns = SystemClock.now_ns();
        if said.errno == 0 && now_ns.saturating_sub(self.looked_ns) < LOOK_EVERY_NS {
            return Ok(());
        }
        self.looked_ns = now_ns;
        match (self.reason()?, said.errno) {
            (Some(trouble), _) => Err(trouble),
            // The last is what the stack says when a driver without a queue is busy.
            (None, 0 | libc::ENOMEM | libc::ENOBUFS | libc::ENETDOWN) => Ok(()),
            (None, errno) => Err(EngineError::Syscall {
                call: "bpf_clone_redirect",
                ifname: self.device.name(),
                source: io::Error::from_raw_os_error(errno),
            }),
        }
    }
}

/// What the skb of each call is at first.
fn start(plan: &Plan) -> Vec<u8> {
    let mut start = vec![0; plan.frame_len_max() as usize];
    start[..plan.header.len()].copy_from_slice(&plan.header);
    start
}

/// What the frames are to be like; without a queue of their own, they take that of the CPU.
fn how(plan: &Plan, asked: &Asked, cpu: u32, transmits: bool) -> SkbHow {
    SkbHow {
        turns: asked.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX),
        priority: asked.wish.priority,
        queue: transmits.then_some((cpu % u32::from(plan.queue_count)) as u16),
    }
}

fn check_ability(device: &Device, plan: &Plan, mode: XmitMode, asked: &Asked) -> Result<(), EngineError> {
    let unable = |what: String| Err(EngineError::unable(EngineKind::Skb, what));
    if asked.wish.frags > 0 {
        return unable(format!("frags {}: its frames are in one piece", asked.wish.frags));
    }
    if plan.frame_len_max() > FRAME_LEN_MAX {
        return unable(format!("frames of {} bytes: they must fit into one page", plan.frame_len_max()));
    }
    match (mode, device.qdisc()?) {
        (XmitMode::StartXmit, Some(qdisc)) => {
            unable(format!("xmit_mode start_xmit: it would go through the {qdisc} qdisc"))
        }
        _ => Ok(()),
    }
}

impl Engine for SkbEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Skb
    }

    fn device_name(&self) -> String {
        self.device.name()
    }

    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError> {
        let state = self.sender.state();
        let (offered, bytes, malformed) = (state.offered(), state.frame_bytes(), state.malformed());
        let clock = SystemClock;
        state.set_clock(clock.wall_ns().wrapping_sub(clock.now_ns()), self.clock_sharing);
        let ran = self.sender.run(&self.start, &mut [], budget.get(), &self.how);
        let (said, _) = ran.map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) => EngineError::unable(
                EngineKind::Skb,
                format!("frames of {} bytes on this kernel", self.start.len()),
            ),
            _ => EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname: self.device.name(), source },
        })?;
        let offered = state.offered() - offered;
        let burst = Burst {
            sent: offered - said.congested,
            errors: Errors { qdisc_dropped: said.congested, ..Errors::default() },
            frame_bytes: state.frame_bytes() - bytes,
            // Where the kernel had no memory for a frame, it is kept as well.
            retries: said.no_room + u64::from(said.errno != 0) + state.malformed() - malformed,
        };
        if burst.retries > 0 && offered == 0 {
            // What was sent is reported first; the next call meets the same.
            self.judge(&said)?;
        }
        Ok(burst)
    }

    fn explain(&mut self, _: &Errors) -> Option<EngineError> {
        self.device.trouble(self.transmits).unwrap_or_else(Some)
    }

    fn cursor(&self) -> Cursor {
        let mut cursor = self.cursor.clone();
        let state = self.sender.state();
        translate::update(&mut cursor, &state.cursor());
        if !cursor.flows.is_empty() {
            cursor.flows = translate::flows_back(&state.flows());
        }
        if self.sender.is_frame_kept() {
            // Built and not sent: what comes next is this frame, as if it were to go out once more.
            cursor.repeats_left = cursor.repeats_left.max(1);
        }
        cursor
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}
