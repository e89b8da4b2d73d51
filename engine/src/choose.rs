//! Which engine carries a plan: the first of a ladder that can do all that is asked on this device.
//!
//! Every rung is asked by building it, which asks the kernel. What it says is the reason that the report gives.

use crate::af_packet;
use crate::af_xdp::{AfXdpEngine, Copying};
use crate::device::Device;
use crate::engine::Engine;
use crate::mem::MemEngine;
use crate::need::{Asked, QueueMap, Wish};
use crate::opener::Opener;
use crate::skb::{self, SkbEngine};
use crate::xdp::XdpEngine;
use crate::{EngineError, EngineKind};
use bpf::{BpfError, Claim, Meter};
use host::Stack;
use packet::{Cursor, Plan, XmitMode};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What an engine is needed for. The calling thread is pinned to `cpu` and in the namespace of the device.
#[derive(Debug)]
pub(crate) struct Need<'a> {
    pub(crate) ifname: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) cursor: Cursor,
    pub(crate) mode: XmitMode,
    pub(crate) wish: Wish,
    pub(crate) engine: Option<EngineKind>,
    /// Engines that were tried and sent nothing, and why.
    pub(crate) ruled_out: &'a [(EngineKind, String)],
    pub(crate) batch: Option<u32>,
    pub(crate) cpu: u32,
}

/// An engine and why it is this one.
pub(crate) struct Chosen {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) reason: String,
}

/// What the engines of one thread share.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    claim: Option<Rc<Claim>>,
}

impl Tools {
    /// The thread's slot in the meter, claimed when it is first needed.
    fn claim(&mut self) -> Result<Rc<Claim>, EngineError> {
        if let Some(claim) = &self.claim {
            return Ok(Rc::clone(claim));
        }
        let refused = |source| EngineError::Syscall {
            call: "bpf(BPF_PROG_RUN)",
            ifname: "the meter of sent frames".to_owned(),
            source,
        };
        let claim = Rc::new(meter()?.claim().map_err(refused)?);
        self.claim = Some(Rc::clone(&claim));
        Ok(claim)
    }
}

/// An engine and its merit, or what speaks against it.
type Tried = Result<(Box<dyn Engine>, &'static str), EngineError>;

/// One way to try.
struct Rung {
    kind: EngineKind,
    build: fn(&Need<'_>, Device, &Asked, &mut Tools) -> Tried,
}

/// Fastest first, as measured on veth, virtio and tun. af_xdp comes last: copying it is no faster than skb, and
/// zero-copy can take a queue away from the host's own traffic, so that is left to those who ask for it.
const LADDER: &[Rung] = &[
    Rung { kind: EngineKind::Xdp, build: build_xdp },
    Rung { kind: EngineKind::Skb, build: build_skb },
    Rung { kind: EngineKind::AfPacket, build: build_af_packet },
    Rung { kind: EngineKind::AfXdp, build: build_af_xdp },
];

/// The engine that the user insists on, or the first that can.
pub(crate) fn build(need: &Need<'_>, tools: &mut Tools) -> Result<Chosen, EngineError> {
    let Some(kind) = need.engine else { return climb(need, tools) };
    let Some(rung) = LADDER.iter().find(|rung| rung.kind == kind) else {
        let engine = MemEngine::new(need.plan.clone(), need.cursor.clone(), ());
        return Ok(Chosen { engine: Box::new(engine), reason: "a dry run sends nothing".to_owned() });
    };
    let (engine, merit) = rung.try_build(need, tools)?;
    Ok(Chosen { engine, reason: format!("asked for; {merit}") })
}

fn climb(need: &Need<'_>, tools: &mut Tools) -> Result<Chosen, EngineError> {
    let (mut refusals, mut is_denied) = (Vec::new(), false);
    for rung in LADDER {
        if let Some((_, why)) = need.ruled_out.iter().find(|(kind, _)| *kind == rung.kind) {
            refusals.push(format!("not {}: {why}", rung.kind));
            continue;
        }
        match rung.try_build(need, tools) {
            Ok((engine, merit)) => {
                refusals.insert(0, merit.to_owned());
                return Ok(Chosen { engine, reason: refusals.join("; ") });
            }
            Err(error) if error.concerns_all_engines() => return Err(error),
            Err(error) => {
                is_denied |= error.is_denied();
                refusals.push(format!("not {}: {}", rung.kind, error.in_one_line()));
            }
        }
    }
    Err(EngineError::NoEngine { ifname: need.ifname.to_owned(), reasons: refusals.join("; "), is_denied })
}

/// What every engine says, in the order of the ladder; each is gone again before the next is asked.
pub(crate) fn ask_all(
    need: &Need<'_>,
    tools: &mut Tools,
) -> impl Iterator<Item = (EngineKind, Result<&'static str, EngineError>)> {
    LADDER.iter().map(|rung| (rung.kind, rung.try_build(need, tools).map(|(_, merit)| merit)))
}

impl Rung {
    /// A packet socket grants the bytes of a VLAN tag to frames that have one, everything else to all.
    fn is_tagged(&self, plan: &Plan) -> bool {
        self.kind != EngineKind::AfPacket || plan.layout.vlan != 0 || plan.layout.svlan != 0
    }

    fn try_build(&self, need: &Need<'_>, tools: &mut Tools) -> Tried {
        let asked = Asked {
            wish: wish_of(need),
            queues: QueueMap::of(need.plan, need.cpu, need.wish),
            batch: need.batch,
        };
        if let Some(trouble) = cipher_trouble(self.kind, need.plan) {
            return Err(trouble);
        }
        if let Some(node) = asked.wish.node
            && host::node_of_cpu(need.cpu).is_some_and(|own| own != node)
        {
            let what = format!("node {node}: the memory of its frames is that of CPU {}", need.cpu);
            return Err(EngineError::unable(self.kind, what));
        }
        let device = Device::new(Stack::here()?, need.ifname)?;
        if let Some(trouble) = device.layer_trouble() {
            return Err(trouble);
        }
        if need.mode != XmitMode::NetifReceive
            && let Some(trouble) =
                device.length_trouble(need.plan.frame_len_max(), self.is_tagged(need.plan))?
        {
            return Err(trouble);
        }
        (self.build)(need, device, &asked, tools)
    }
}

/// The wish, without what has no meaning where frames enter the kernel: in the receive path nobody asks how many
/// pieces a frame would have been sent in, and the engines that inject there have one.
fn wish_of(need: &Need<'_>) -> Wish {
    let frags = if need.mode == XmitMode::NetifReceive { 0 } else { need.wish.frags };
    Wish { frags, ..need.wish }
}

/// Only frames that `Plan::emit` writes can be sealed.
fn cipher_trouble(kind: EngineKind, plan: &Plan) -> Option<EngineError> {
    let has_none = kind == EngineKind::Xdp && plan.ipsec.is_some();
    has_none.then(|| EngineError::unable(kind, "flag IPSEC: its program has no ciphers"))
}

fn build_xdp(need: &Need<'_>, device: Device, asked: &Asked, tools: &mut Tools) -> Tried {
    let claim = || tools.claim();
    let opener = match need.mode {
        XmitMode::NetifReceive => None,
        _ if need.engine.is_none() => None,
        _ => Opener::for_live_frames(&device)?,
    };
    let engine = XdpEngine::new(device, need.mode, need.plan, need.cursor.clone(), asked, claim, opener)?;
    let merit = match need.mode {
        XmitMode::NetifReceive => "injects into the receive path",
        _ if engine.is_told() => "the driver takes frames from XDP",
        _ => "this kernel does not say whether the driver takes frames from XDP: the first batch does",
    };
    Ok((Box::new(engine), merit))
}

fn build_skb(need: &Need<'_>, device: Device, asked: &Asked, _: &mut Tools) -> Tried {
    let (plan, cursor) = (need.plan, need.cursor.clone());
    if plan.ipsec.is_some() {
        let engine = skb::open_sealed(device, need.mode, plan, cursor, asked, need.cpu)?;
        return Ok((Box::new(engine), "the kernel hands on sealed frames"));
    }
    let engine = SkbEngine::new(device, need.mode, plan, cursor, asked, need.cpu)?;
    Ok((Box::new(engine), "the kernel makes the frames"))
}

fn build_af_packet(need: &Need<'_>, device: Device, asked: &Asked, _: &mut Tools) -> Tried {
    let (plan, cursor) = (need.plan.clone(), need.cursor.clone());
    let engine = af_packet::open(device, need.mode, plan, cursor, asked)?;
    Ok((Box::new(engine), "it works on every device"))
}

fn build_af_xdp(need: &Need<'_>, device: Device, asked: &Asked, _: &mut Tools) -> Tried {
    let copying = if need.engine.is_some() { Copying::Avoid } else { Copying::Always };
    let engine = AfXdpEngine::new(device, need.mode, need.plan, need.cursor.clone(), asked, copying)?;
    let merit = if engine.is_zero_copy() { "zero-copy" } else { "copying" };
    Ok((Box::new(engine), merit))
}

/// The meter of this process, shared by all its workers and gone with the last of them.
fn meter() -> Result<Arc<Meter>, BpfError> {
    static METER: Mutex<Weak<Meter>> = Mutex::new(Weak::new());
    let mut shared = METER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(meter) = shared.upgrade() {
        return Ok(meter);
    }
    let meter = Meter::attach()?;
    *shared = Arc::downgrade(&meter);
    Ok(meter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::ipsec::{Association, Associations, SecurityAssociation, Transform};
    use packet::{Config, Flags, sample};

    fn plan(associations: Associations, flags: Flags) -> Plan {
        let mut config = Config { flows: 1, spi: 5, flags, ..Config::default() };
        config.prepare(&sample::facts());
        let mut cursor = Cursor { associations: Arc::new(associations), ..Cursor::default() };
        cursor.start(&config, &sample::facts(), 1);
        Plan::new(&config, &sample::facts(), &cursor).expect("a good configuration")
    }

    #[test]
    fn engines_without_ciphers_say_so_and_the_others_take_what_is_sealed() {
        let what = Association::transport(
            5,
            [10, 0, 0, 1].into(),
            [10, 0, 0, 2].into(),
            Transform::EspNull { integrity: None },
        );
        let ready = SecurityAssociation::new(what).expect("no key can be wrong");
        let sealed = plan(Associations::new(vec![ready], Vec::new()), Flags::IPSEC);
        let clear = plan(Associations::default(), Flags::SHARED);
        for rung in LADDER {
            let refusal = cipher_trouble(rung.kind, &sealed).map(|error| error.to_string());
            let expected = match rung.kind {
                EngineKind::Xdp => {
                    Some(format!("the {} engine cannot do flag IPSEC: its program has no ciphers", rung.kind))
                }
                _ => None,
            };
            assert_eq!(refusal, expected);
            assert!(cipher_trouble(rung.kind, &clear).is_none());
        }
    }
}
