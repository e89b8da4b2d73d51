//! The xdp engine: live frames of `BPF_PROG_RUN`, written by a BPF program and redirected to the device.
//!
//! What the driver accepted is read from the meter, never from the return value of the run, which also calls
//! frames done that a device swallowed.

mod calls;
mod pin;
mod slow_calls;

use crate::clock::Clock;
use crate::device::Device;
use crate::engine::{Burst, Engine, EngineKind, Errors};
use crate::need::{Asked, QueueMap, Wish};
use crate::opener::Opener;
use crate::{EngineError, SystemClock, translate};
use bpf::{Claim, Sender, Verdict};
use calls::Calls;
use packet::{Cursor, Plan, XmitMode};
use pin::Pin;
pub(crate) use pin::Quiet;
use slow_calls::{SlowCalls, sleeps_of_this_thread};
use std::io;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

/// Frames handled together unless the user says otherwise: near the top of the curve, and a quarter of the
/// ring that a veth has for XDP.
pub const BATCH_DEFAULT: u32 = 64;
/// The kernel takes no more.
pub const BATCH_MAX: u32 = 256;
/// What the ring of a slow device needs to get empty; to take the program off lasts longer.
const FLUSH: Duration = Duration::from_millis(250);
/// Frames longer than this do not fit into the page of a live frame beside its headroom; the kernel has the
/// last word for shorter ones.
const FRAME_LEN_MAX: u32 = 3520;

/// One program for one plan on one device, for the thread that made it.
#[derive(Debug)]
pub(crate) struct XdpEngine {
    device: Device,
    sender: Sender,
    /// `None` into the receive path, where no driver has a say.
    claim: Option<Rc<Claim>>,
    cursor: Cursor,
    page: Vec<u8>,
    batch: u32,
    clock_sharing: u32,
    /// The kernel has told that the driver takes frames.
    is_told: bool,
    calls: Calls,
    slow_calls: SlowCalls,
    /// More than one where the first found no free slot in the dispatcher. They go together: to detach the first alone
    /// would give back the slot of the second, since the kernel counts attachments per program.
    pins: Vec<Pin>,
    /// What makes the driver take the frames, where it needs that.
    opener: Option<Opener>,
}

impl XdpEngine {
    /// Loads the program for `plan`. The calling thread is in the namespace of the device, has the claim, and is
    /// the one that sends.
    ///
    /// # Errors
    /// What this engine cannot do, a device that would swallow the frames, or a refusal of the kernel.
    pub(crate) fn new(
        device: Device,
        mode: XmitMode,
        plan: &Plan,
        cursor: Cursor,
        asked: &Asked,
        claim: impl FnOnce() -> Result<Rc<Claim>, EngineError>,
        opener: Option<Opener>,
    ) -> Result<Self, EngineError> {
        let receive = mode == XmitMode::NetifReceive;
        check_ability(plan, mode, asked)?;
        if let Some(trouble) = trouble(&device, !receive)? {
            return Err(trouble);
        }
        let is_told = device.tells_xdp()?;
        let calls = Calls::new(receive || device.is_kind("veth")?);
        let sender = Sender::load(&translate::plan(plan, &cursor, device.ifindex(), receive))?;
        sender.state().set_cursor(&translate::cursor(&cursor, plan));
        sender.state().set_flows(&translate::flows(&cursor.flows));
        let pin = Pin::new(&sender)?;
        let claim = if receive { None } else { Some(claim()?) };
        Ok(Self {
            device,
            sender,
            claim,
            cursor,
            page: vec![0; plan.frame_len_max() as usize],
            batch: asked.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX),
            clock_sharing: 1,
            is_told,
            calls,
            slow_calls: SlowCalls::default(),
            pins: vec![pin],
            opener,
        })
    }

    /// True when the kernel says what the driver can; else the first frames will tell.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// The kernel took none of the frames of a call.
    fn refused(&mut self, source: io::Error) -> Result<Burst, EngineError> {
        match source.raw_os_error() {
            Some(libc::ENOSPC) => {
                self.calls.without_number(&SystemClock, &self.device.name())?;
                Ok(Burst { retries: 1, ..Burst::default() })
            }
            Some(libc::EINVAL) => Err(EngineError::Unable {
                engine: EngineKind::Xdp.name(),
                what: format!("live frames of {} bytes on this kernel", self.page.len()),
            }),
            _ => Err(EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname: self.device.name(), source }),
        }
    }

    /// Attaches the program once more where its calls wait for the dispatcher: a slot has become free since the first time.
    fn check_for_slow_calls(&mut self, started_ns: u64, ended_ns: u64) {
        if self.slow_calls.add(started_ns, ended_ns, sleeps_of_this_thread) {
            // Where the kernel refuses, the run stays slow, and the next slow calls bring us here again.
            self.pins.extend(Pin::new(&self.sender));
        }
    }

    /// True once its program is attached, where there is anything to gain by that.
    fn is_attached(&mut self) -> Result<bool, EngineError> {
        self.pins.last_mut().map_or(Ok(true), Pin::is_ready)
    }

    fn verdict(&self) -> Option<Verdict> {
        self.claim.as_deref().map(Claim::verdict)
    }
}

fn trouble(device: &Device, transmit: bool) -> Result<Option<EngineError>, EngineError> {
    match device.trouble(transmit)? {
        None if transmit => device.xdp_trouble(),
        found => Ok(found),
    }
}

fn check_ability(plan: &Plan, mode: XmitMode, asked: &Asked) -> Result<(), EngineError> {
    let unable = |what: String| Err(EngineError::unable(EngineKind::Xdp, what));
    let Wish { priority, frags, .. } = asked.wish;
    if priority != 0 {
        return unable(format!("skb_priority {priority}: its frames are no skbs"));
    }
    if frags > 0 {
        return unable(format!("frags {frags}: its frames are in one piece"));
    }
    if mode == XmitMode::StartXmit && asked.queues == QueueMap::Listed {
        return unable("queue_map_min or queue_map_max: it takes the queue of its CPU".to_owned());
    }
    if mode == XmitMode::QueueXmit {
        return unable("xmit_mode queue_xmit: it goes past the qdisc".to_owned());
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
        let frames = match budget.get() {
            1 => 1,
            many if self.is_attached()? => many,
            _ => 1,
        };
        let (offered, bytes) = (self.sender.state().offered(), self.sender.state().frame_bytes());
        let before = self.verdict();
        let clock = SystemClock;
        self.sender.state().set_clock(clock.wall_ns().wrapping_sub(clock.now_ns()), self.clock_sharing);
        let called_ns = self.calls.wait(&clock);
        let ran = self.sender.run_live(&self.page, frames, self.batch.min(frames));
        self.check_for_slow_calls(called_ns, clock.now_ns());
        assert_eq!(self.sender.state().malformed(), 0, "a live frame came without the memory asked for");
        let offered = self.sender.state().offered() - offered;
        match ran {
            // Also where the kernel had no memory half way: what went before is counted, and the next call says it.
            Ok(()) => self.calls.went_well(),
            Err(_) if offered > 0 => {}
            Err(source) => return self.refused(source),
        }
        let frame_bytes = self.sender.state().frame_bytes() - bytes;
        let Some((before, after)) = before.zip(self.verdict()) else {
            return Ok(Burst { sent: offered, frame_bytes, ..Burst::default() });
        };
        Ok(Burst { frame_bytes, ..sorted(offered, &after.since(&before)) })
    }

    fn explain(&mut self, errors: &Errors) -> Option<EngineError> {
        match trouble(&self.device, self.claim.is_some()) {
            Ok(Some(trouble)) => Some(trouble),
            Err(error) => Some(error),
            Ok(None) if errors.refused > 0 => {
                let source = io::Error::from_raw_os_error(errors.last_errno);
                Some(EngineError::Refused { ifname: self.device.name(), source })
            }
            Ok(None) => Some(EngineError::Swallowed { ifname: self.device.name() }),
        }
    }

    fn finish(&mut self) -> u64 {
        if self.opener.is_some() {
            // The driver throws its rings away when the program goes, and tells nobody what was in them.
            std::thread::sleep(FLUSH);
        }
        0
    }

    fn rests(&self) -> bool {
        self.opener.is_some()
    }

    fn note(&self) -> Option<String> {
        let text = "the XDP dispatcher of the kernel (48 programs) was full when the run began, and calls took 24 ms and more \
                    each when a slot became free, until the program was attached again";
        (self.pins.len() > 1).then(|| text.to_owned())
    }

    fn is_ready(&mut self) -> bool {
        // A refusal is what the first burst meets.
        self.is_attached().unwrap_or(true)
    }

    fn cursor(&self) -> Cursor {
        let mut cursor = self.cursor.clone();
        translate::update(&mut cursor, &self.sender.state().cursor());
        if !cursor.flows.is_empty() {
            cursor.flows = translate::flows_back(&self.sender.state().flows());
        }
        cursor
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}

/// Frames that the driver was never asked about did not reach it.
fn sorted(offered: u64, verdict: &Verdict) -> Burst {
    let asked = verdict.sent + verdict.ring_full + verdict.refused;
    Burst {
        sent: verdict.sent,
        errors: Errors {
            ring_full: verdict.ring_full,
            refused: verdict.refused,
            last_errno: if verdict.refused > 0 { verdict.last_errno } else { 0 },
            not_handed_over: offered.saturating_sub(asked),
            ..Errors::default()
        },
        ..Burst::default()
    }
}
