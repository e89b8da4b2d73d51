//! Selection of the engine: the first candidate that supports the run on this device.
//!
//! Each candidate is built, which queries the kernel. The report gives the reasons.

use crate::af_packet::{self, SharedSockets};
use crate::af_xdp::{AfXdpEngine, Copying};
use crate::device::OutputDevice;
use crate::dummy_program::DummyProgram;
use crate::engine::Engine;
use crate::mem::MemEngine;
use crate::requirements::{BuildOptions, QueueMap, Requirements, TxOptions};
use crate::skb::{self, SkbEngine};
use crate::xdp::{SharedProgram, XdpEngine};
use crate::{EngineError, EngineKind, Pace};
use bpf::{BpfError, TxSlot, TxStats};
use host::Stack;
use packet::{Plan, XmitMode};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An engine and why it was chosen.
pub(crate) struct Chosen {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) reason: String,
}

/// Shared by the engines of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadShared {
    tx_slot: Option<Rc<TxSlot>>,
    stack: Option<Rc<Stack>>,
    sockets: SharedSockets,
    /// Of the xdp engine.
    program: SharedProgram,
}

impl ThreadShared {
    /// The network stack of the thread, which stays in one namespace.
    fn stack(&mut self) -> Result<Rc<Stack>, EngineError> {
        if let Some(stack) = &self.stack {
            return Ok(Rc::clone(stack));
        }
        let stack = Rc::new(Stack::here()?);
        self.stack = Some(Rc::clone(&stack));
        Ok(stack)
    }

    /// The slot of the thread in the transmit statistics, taken when it is first needed.
    pub(crate) fn claim(&mut self) -> Result<Rc<TxSlot>, EngineError> {
        claim(&mut self.tx_slot)
    }
}

fn claim(of_thread: &mut Option<Rc<TxSlot>>) -> Result<Rc<TxSlot>, EngineError> {
    if let Some(tx_slot) = of_thread {
        return Ok(Rc::clone(tx_slot));
    }
    let refused = |source| EngineError::Syscall {
        call: "bpf(BPF_PROG_RUN)",
        ifname: "the transmit statistics".to_owned(),
        source,
    };
    let tx_slot = Rc::new(tx_stats()?.claim().map_err(refused)?);
    *of_thread = Some(Rc::clone(&tx_slot));
    Ok(tx_slot)
}

/// An engine and the reason for it, or why it cannot be used.
type BuildResult = Result<(Box<dyn Engine>, &'static str), EngineError>;

/// An engine to try.
struct Candidate {
    kind: EngineKind,
    build: fn(&Requirements<'_>, OutputDevice, &BuildOptions, &mut ThreadShared) -> BuildResult,
}

/// Fastest first, as measured on veth, virtio and tun. af_xdp is last: its copy mode is not faster
/// than skb, and zero-copy can take a queue from the traffic of the host, so it is used on request
/// only.
const PREFERENCE: &[Candidate] = &[
    Candidate { kind: EngineKind::Xdp, build: build_xdp },
    Candidate { kind: EngineKind::Skb, build: build_skb },
    Candidate { kind: EngineKind::AfPacket, build: build_af_packet },
    Candidate { kind: EngineKind::AfXdp, build: build_af_xdp },
];

/// The requested engine, or the first usable one.
pub(crate) fn build(need: &Requirements<'_>, shared: &mut ThreadShared) -> Result<Chosen, EngineError> {
    let Some(kind) = need.engine else { return first_usable(need, shared) };
    let Some(candidate) = PREFERENCE.iter().find(|candidate| candidate.kind == kind) else {
        let engine = MemEngine::new(need.plan.clone(), need.cursor.clone(), ());
        return Ok(Chosen { engine: Box::new(engine), reason: "a dry run sends nothing".to_owned() });
    };
    let (engine, reason) = candidate.try_build(need, shared)?;
    Ok(Chosen { engine, reason: format!("requested; {reason}") })
}

fn first_usable(need: &Requirements<'_>, shared: &mut ThreadShared) -> Result<Chosen, EngineError> {
    let (mut refusals, mut is_denied) = (Vec::new(), false);
    let is_slow = is_slow(need.plan, need.pace);
    for candidate in in_order(is_slow) {
        if let Some((_, why)) = need.ruled_out.iter().find(|(kind, _)| *kind == candidate.kind) {
            refusals.push(format!("not {}: {why}", candidate.kind));
            continue;
        }
        match candidate.try_build(need, shared) {
            Ok((engine, reason)) => {
                let is_spared = is_slow && candidate.kind != EngineKind::Xdp;
                let slow = is_spared.then(|| format!("not {}: {SLOW_REASON}", EngineKind::Xdp));
                let reasons: Vec<_> = [reason.to_owned()].into_iter().chain(slow).chain(refusals).collect();
                return Ok(Chosen { engine, reason: reasons.join("; ") });
            }
            Err(error) if error.concerns_all_engines() => return Err(error),
            Err(error) => {
                is_denied |= error.is_denied();
                refusals.push(format!("not {}: {}", candidate.kind, error.in_one_line()));
            }
        }
    }
    Err(EngineError::NoEngine { ifname: need.ifname.to_owned(), reasons: refusals.join("; "), is_denied })
}

/// From this mean time between frames on, `xdp` is tried after the engines whose calls are cheap.
const SLOW_GAP_NS: u64 = 10_000;
const SLOW_REASON: &str = "below 100,000 frames per second each frame needs a call, which makes a page pool";

/// True if frames are due so seldom that calls of the xdp engine cost more than frames of others:
/// each call makes a page pool, and the kernel takes a second to remove one whose pages are still
/// in a queue.
fn is_slow(plan: &Plan, pace: Pace) -> bool {
    pace.mean_gap_ns(plan.frame_len_max()) > SLOW_GAP_NS
}

/// For a run whose engine was chosen for a slow rate, which then became a fast one.
pub(crate) const NOTE_RAISED: &str = "the rate was raised above 100,000 frames per second after the start; the run kept the engine \
                                      that was chosen for the slower one (--engine xdp is faster)";

/// True if the choice for `present` was one for slow rates, and `new` is not slow.
pub(crate) fn is_raised(plan: &Plan, present: Pace, new: Pace) -> bool {
    present != Pace::Never && is_slow(plan, present) && !is_slow(plan, new)
}

/// The candidates, first choice first.
fn in_order(is_slow: bool) -> impl Iterator<Item = &'static Candidate> {
    let is_xdp = |candidate: &&Candidate| candidate.kind == EngineKind::Xdp;
    let (xdp, others) = (PREFERENCE.iter().filter(is_xdp), PREFERENCE.iter().filter(move |c| !is_xdp(c)));
    let (first, last) = if is_slow { (None, Some(xdp)) } else { (Some(xdp), None) };
    first.into_iter().flatten().chain(others).chain(last.into_iter().flatten())
}

/// The result of each engine, in order of preference. Each engine is dropped before the next is
/// built.
pub(crate) fn probe_all(
    need: &Requirements<'_>,
    shared: &mut ThreadShared,
) -> impl Iterator<Item = (EngineKind, Result<&'static str, EngineError>)> {
    PREFERENCE
        .iter()
        .map(|candidate| (candidate.kind, candidate.try_build(need, shared).map(|(_, reason)| reason)))
}

impl Candidate {
    /// A packet socket allows the bytes of a VLAN tag to tagged frames only, the others to all
    /// frames.
    fn is_tagged(&self, plan: &Plan) -> bool {
        self.kind != EngineKind::AfPacket || plan.is_tagged()
    }

    /// Why frames of the device's link layer cannot be sent. A packet socket sends IP packets where
    /// the device takes only those.
    fn layer_trouble(&self, device: &OutputDevice, mode: XmitMode) -> Option<EngineError> {
        if !device.takes_ip_packets() || mode == XmitMode::NetifReceive {
            return device.layer_trouble();
        }
        let what = "devices without an Ethernet header: af_packet does";
        (self.kind != EngineKind::AfPacket).then(|| EngineError::unable(self.kind, what))
    }

    fn try_build(&self, need: &Requirements<'_>, shared: &mut ThreadShared) -> BuildResult {
        let options = BuildOptions {
            tx: options_of(need),
            queues: QueueMap::of(need.plan, need.cpu, need.options),
            batch: need.batch,
        };
        if let Some(trouble) = cipher_trouble(self.kind, need.plan) {
            return Err(trouble);
        }
        if let Some(node) = options.tx.node
            && host::node_of_cpu(need.cpu).is_some_and(|own| own != node)
        {
            let what = format!("node {node}: the memory of its frames is that of CPU {}", need.cpu);
            return Err(EngineError::unable(self.kind, what));
        }
        let device = OutputDevice::new(shared.stack()?, need.ifname)?;
        if let Some(trouble) = self.layer_trouble(&device, need.mode) {
            return Err(trouble);
        }
        if need.mode != XmitMode::NetifReceive
            && let Some(trouble) =
                device.length_trouble(need.plan.frame_len_max(), self.is_tagged(need.plan))?
        {
            return Err(trouble);
        }
        (self.build)(need, device, &options, shared)
    }
}

/// The options without `frags` in the receive path, where it has no meaning.
fn options_of(need: &Requirements<'_>) -> TxOptions {
    let frags = if need.mode == XmitMode::NetifReceive { 0 } else { need.options.frags };
    TxOptions { frags, ..need.options }
}

/// Only `Plan::emit` can build ESP and AH.
fn cipher_trouble(kind: EngineKind, plan: &Plan) -> Option<EngineError> {
    let has_none = kind == EngineKind::Xdp && plan.ipsec.is_some();
    has_none.then(|| EngineError::unable(kind, "flag IPSEC: BPF has no ciphers"))
}

fn build_xdp(
    need: &Requirements<'_>,
    device: OutputDevice,
    options: &BuildOptions,
    shared: &mut ThreadShared,
) -> BuildResult {
    let dummy_program = match need.mode {
        XmitMode::NetifReceive => None,
        _ if need.engine.is_none() => None,
        _ => DummyProgram::for_live_frames(&device)?,
    };
    let program = need.is_one_of_several.then_some(&mut shared.program);
    let tx_slot = || claim(&mut shared.tx_slot);
    let engine = XdpEngine::new(device, need, options, program, tx_slot, dummy_program)?;
    let reason = match need.mode {
        XmitMode::NetifReceive => "injects into the receive path",
        _ if engine.is_capability_known() => "the driver accepts frames from XDP",
        _ => {
            "this kernel does not report whether the driver accepts frames from XDP; the first batch shows it"
        }
    };
    Ok((Box::new(engine), reason))
}

fn build_skb(
    need: &Requirements<'_>,
    device: OutputDevice,
    options: &BuildOptions,
    _: &mut ThreadShared,
) -> BuildResult {
    let (plan, cursor) = (need.plan, need.cursor.clone());
    let Some(program) = skb::program(need, device.ifindex()) else {
        let engine = skb::open_prebuilt(device, need.mode, plan, cursor, options, need.cpu)?;
        return Ok((Box::new(engine), "the kernel sends prebuilt frames"));
    };
    let engine = SkbEngine::new(device, need, program, options)?;
    Ok((Box::new(engine), "a BPF program builds the frames"))
}

fn build_af_packet(
    need: &Requirements<'_>,
    device: OutputDevice,
    options: &BuildOptions,
    shared: &mut ThreadShared,
) -> BuildResult {
    let (plan, cursor) = (need.plan.clone(), need.cursor.clone());
    let engine = af_packet::open(device, need.mode, plan, cursor, options, need.pace, &mut shared.sockets)?;
    Ok((engine, "works on every device"))
}

fn build_af_xdp(
    need: &Requirements<'_>,
    device: OutputDevice,
    options: &BuildOptions,
    _: &mut ThreadShared,
) -> BuildResult {
    let copying = if need.engine.is_some() { Copying::Avoid } else { Copying::Always };
    let engine = AfXdpEngine::new(device, need.mode, need.plan, need.cursor.clone(), options, copying)?;
    let reason = if engine.is_zero_copy() { "zero-copy" } else { "copying" };
    Ok((Box::new(engine), reason))
}

/// The transmit statistics of this process, shared by all workers and dropped with the last one.
pub(crate) fn tx_stats() -> Result<Arc<TxStats>, BpfError> {
    static TX_STATS: Mutex<Weak<TxStats>> = Mutex::new(Weak::new());
    let mut shared = TX_STATS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tx_stats) = shared.upgrade() {
        return Ok(tx_stats);
    }
    let tx_stats = TxStats::attach()?;
    *shared = Arc::downgrade(&tx_stats);
    Ok(tx_stats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::ipsec::{Association, Associations, SecurityAssociation, Transform};
    use packet::{Config, Cursor, Flags, sample};

    fn plan(associations: Associations, flags: Flags) -> Plan {
        let mut config = Config { flows: 1, spi: 5, flags, ..Config::default() };
        config.prepare(&sample::facts());
        let mut cursor = Cursor { associations: Arc::new(associations), ..Cursor::default() };
        cursor.start(&config, &sample::facts(), 1);
        Plan::new(&config, &sample::facts(), &cursor).expect("a good configuration")
    }

    #[test]
    fn only_engines_with_ciphers_accept_ipsec() {
        let what = Association::transport(
            5,
            [10, 0, 0, 1].into(),
            [10, 0, 0, 2].into(),
            Transform::EspNull { integrity: None },
        );
        let ready = SecurityAssociation::new(what).expect("no key can be wrong");
        let protected = plan(Associations::new(vec![ready], Vec::new()), Flags::IPSEC);
        let clear = plan(Associations::default(), Flags::SHARED);
        for candidate in PREFERENCE {
            let refusal = cipher_trouble(candidate.kind, &protected).map(|error| error.to_string());
            let expected = match candidate.kind {
                EngineKind::Xdp => Some(format!(
                    "the {} engine does not support flag IPSEC: BPF has no ciphers",
                    candidate.kind
                )),
                _ => None,
            };
            assert_eq!(refusal, expected);
            assert!(cipher_trouble(candidate.kind, &clear).is_none());
        }
    }
}
