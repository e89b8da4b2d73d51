//! The skb engine: builds frames in one skb and sends clones of it, by a tc program under
//! `BPF_PROG_RUN`.
//!
//! It works on every device, through the qdisc or into the receive path, without a system call per
//! frame. The kernel reports for each clone whether it was accepted. A frame that was not is kept
//! and sent first the next time, so none is lost. Frames with ESP or AH and those of several
//! packets are built by the plan (`prebuilt`) and sent the same way.

mod prebuilt;

use crate::clock::Clock;
use crate::device::OutputDevice;
use crate::engine::{Burst, Engine, Errors};
use crate::engine_kind::EngineKind;
use crate::requirements::{BuildOptions, OWN_FCS, QueueMap, Requirements};
use crate::{EngineError, SystemClock, translate};
use bpf::{PlanProgram, SendResult, SkbParams, SkbSender, abi};
use facts::SendErrors;
use packet::plan::PacketPlan;
use packet::{Cursor, Plan, XmitMode};
use std::io;
use std::num::NonZeroU32;

pub(crate) use prebuilt::{PrebuiltRing, REPLAY_LEN_MAX, open as open_prebuilt, replay_ring};

/// Default number of frames per program run. Softirqs run between two runs, and the frames of a run
/// must fit into the backlog of the receive path (1,000 frames by default).
const BATCH_DEFAULT: u32 = 64;
/// Must be less than the backlog of the receive path.
const BATCH_MAX: u32 = 1024;
/// Longer frames do not fit into the page of a test run beside headroom and `skb_shared_info`. The
/// kernel may reject shorter ones.
const FRAME_LEN_MAX: u32 = 3712;
/// Interval at which the state of a full device is queried.
const CHECK_INTERVAL_NS: u64 = 10_000_000;

/// One program for one plan on one device.
#[derive(Debug)]
pub(crate) struct SkbEngine {
    device: OutputDevice,
    sender: SkbSender,
    plan: Plan,
    cursor: Cursor,
    /// Initial contents of the skb; the stack takes the protocol from its headers.
    start: Vec<u8>,
    params: SkbParams,
    transmits: bool,
    clock_sharing: u32,
    checked_ns: u64,
}

impl SkbEngine {
    /// Loads a program of [`program`]. The calling thread is pinned to `cpu`, is in the namespace
    /// of the device, and sends the frames.
    ///
    /// # Errors
    /// When this engine does not support the plan, the device cannot send, or the kernel rejects
    /// the program.
    pub(crate) fn new(
        device: OutputDevice,
        need: &Requirements<'_>,
        mut program: PlanProgram,
        options: &BuildOptions,
    ) -> Result<Self, EngineError> {
        let (plan, cursor) = (need.plan.clone(), need.cursor.clone());
        check_ability(&device, &plan, need.mode, options)?;
        let transmits = need.mode != XmitMode::NetifReceive;
        if let Some(trouble) = device.trouble(transmits)? {
            return Err(trouble);
        }
        if transmits && options.queues != QueueMap::Any {
            program.plan.flags |= abi::PlanFlag::WR_PLAN_QUEUE_MAPPED.0;
        }
        let sender = SkbSender::load(&program)?;
        translate::set_cursor(sender.state(), &plan, &cursor);
        sender.set_frame_kept(cursor.repeats_left > 0);
        let start = start(&plan);
        let params = params(&plan, options, need.cpu, transmits);
        Ok(Self { device, sender, plan, cursor, start, params, transmits, clock_sharing: 1, checked_ns: 0 })
    }

    /// Why the next frame cannot be sent, if so.
    fn reason(&self) -> Result<Option<EngineError>, EngineError> {
        match self.device.trouble(self.transmits)? {
            None if self.transmits => self.device.length_trouble(self.start.len() as u32, true),
            found => Ok(found),
        }
    }

    /// Handles a kept frame: `Ok` to retry later.
    fn judge(&mut self, result: &SendResult) -> Result<(), EngineError> {
        let now_ns = SystemClock.now_ns();
        if result.errno == 0 && now_ns.saturating_sub(self.checked_ns) < CHECK_INTERVAL_NS {
            return Ok(());
        }
        self.checked_ns = now_ns;
        match (self.reason()?, result.errno) {
            (Some(trouble), _) => Err(trouble),
            // ENETDOWN is the result when a driver without a queue is busy.
            (None, 0 | libc::ENOMEM | libc::ENOBUFS | libc::ENETDOWN) => Ok(()),
            (None, errno) => Err(EngineError::Syscall {
                call: "bpf_clone_redirect",
                ifname: self.device.name(),
                source: io::Error::from_raw_os_error(errno),
            }),
        }
    }
}

/// Bytes of the EtherType, from which the stack takes the protocol of all frames of a call.
const ETHER_TYPE: std::ops::Range<usize> = 12..14;

/// The program for the frames of a run; `None` if user space has to build them: IPsec, several
/// packets, or an EtherType that changes.
pub(crate) fn program(need: &Requirements<'_>, ifindex: u32) -> Option<PlanProgram> {
    let has_one_protocol = |packet: &PacketPlan| {
        let fields = packet.fields.iter().filter(|field| field.mask != 0);
        let mut places = fields
            .map(|field| field.offset..field.offset + field.width)
            .chain(packet.sums.iter().map(|sum| sum.checksum.place()));
        !places.any(|place| place.start < ETHER_TYPE.end && ETHER_TYPE.start < place.end)
    };
    if need.plan.ipsec.is_some() || !need.plan.packets().iter().all(has_one_protocol) {
        return None;
    }
    let receive = need.mode == XmitMode::NetifReceive;
    let program = translate::program(need.plan, &need.cursor, ifindex, receive).ok()?;
    translate::is_for_skb(&program).then_some(program)
}

/// Initial contents of the skb.
fn start(plan: &Plan) -> Vec<u8> {
    let mut start = vec![0; plan.frame_len_max() as usize];
    start[..plan.template().len()].copy_from_slice(plan.template());
    start
}

/// Call parameters. A frame without a queue of its own takes that of the CPU.
fn params(plan: &Plan, options: &BuildOptions, cpu: u32, transmits: bool) -> SkbParams {
    SkbParams {
        batch: options.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX),
        priority: options.tx.priority,
        queue: transmits.then_some((cpu % u32::from(plan.queue_count)) as u16),
    }
}

fn check_ability(
    device: &OutputDevice,
    plan: &Plan,
    mode: XmitMode,
    options: &BuildOptions,
) -> Result<(), EngineError> {
    let unable = |what: String| Err(EngineError::unable(EngineKind::Skb, what));
    if options.tx.frags > 0 {
        return unable(format!("frags {}: its frames are linear", options.tx.frags));
    }
    if options.tx.fcs.is_some() {
        return unable(OWN_FCS.to_owned());
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
        let ran = self.sender.run(&self.start, &mut [], budget.get(), &self.params);
        let (result, _) = ran.map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) => EngineError::unable(
                EngineKind::Skb,
                format!("frames of {} bytes on this kernel", self.start.len()),
            ),
            _ => EngineError::Syscall { call: "bpf(BPF_PROG_RUN)", ifname: self.device.name(), source },
        })?;
        let offered = state.offered() - offered;
        let burst = Burst {
            sent: offered - result.congested,
            errors: Errors {
                causes: SendErrors { qdisc_dropped: result.congested, ..SendErrors::default() },
                ..Errors::default()
            },
            frame_bytes: state.frame_bytes() - bytes,
            // Without memory for a frame, it is kept as well.
            retries: result.device_full + u64::from(result.errno != 0) + state.malformed() - malformed,
        };
        if burst.retries > 0 && offered == 0 {
            // Sent frames are reported first; the next call finds the same error.
            self.judge(&result)?;
        }
        Ok(burst)
    }

    fn explain(&mut self, _: &Errors) -> Option<EngineError> {
        self.device.trouble(self.transmits).unwrap_or_else(Some)
    }

    fn link_trouble(&mut self) -> Option<EngineError> {
        self.device.trouble(self.transmits).unwrap_or_else(Some)
    }

    fn cursor(&self) -> Cursor {
        let mut cursor = self.cursor.clone();
        translate::update(&mut cursor, &self.plan, self.sender.state());
        if self.sender.is_frame_kept() {
            // Built and not sent: treated as one more repetition.
            cursor.repeats_left = cursor.repeats_left.max(1);
        }
        cursor
    }

    fn set_clock_sharing(&mut self, frames: u32) {
        self.clock_sharing = frames.max(1);
    }
}
