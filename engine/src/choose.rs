//! Which engine carries a plan: the first that can do all that is asked on this device, found by asking.

use crate::af_xdp::{AfXdpEngine, Copying};
use crate::engine::Engine;
use crate::xdp::{BATCH_DEFAULT, Device, XdpEngine};
use crate::{EngineError, EngineKind};
use bpf::{BpfError, Claim, Meter};
use host::Stack;
use packet::{Cursor, Plan, Range, Walk, XmitMode};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What an engine is needed for. The calling thread is pinned to `cpu` and in the namespace of the device.
#[derive(Debug)]
pub(crate) struct Need<'a> {
    pub(crate) ifname: &'a str,
    pub(crate) plan: &'a Plan,
    pub(crate) cursor: Cursor,
    pub(crate) mode: XmitMode,
    pub(crate) engine: Option<EngineKind>,
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

pub(crate) fn build(need: &Need<'_>, tools: &mut Tools) -> Result<Chosen, EngineError> {
    if need.engine == Some(EngineKind::Mem) {
        let what = "frames on a device: it keeps them in memory (--dry-run)".to_owned();
        return Err(EngineError::Unable { engine: EngineKind::Mem.name(), what });
    }
    let device = Device::new(Stack::here()?, need.ifname)?;
    if need.engine == Some(EngineKind::AfXdp) {
        return af_xdp(device, need, Copying::Avoid, "asked for");
    }
    if need.engine.is_none() && asks_for_a_queue(need) {
        // Zero-copy can take a queue away from the host, so it is only used when asked for.
        return af_xdp(device, need, Copying::Always, "the plan names queues");
    }
    let batch = need.batch.unwrap_or(BATCH_DEFAULT);
    let claim = tools.claim()?;
    let engine = XdpEngine::new(device, need.mode, need.plan, need.cursor.clone(), claim, batch)?;
    let reason = match (need.engine, need.mode) {
        (Some(_), _) => "asked for",
        (None, XmitMode::NetifReceive) => "injects into the receive path",
        (None, _) => "the driver takes frames from XDP",
    };
    Ok(Chosen { engine: Box::new(engine), reason: reason.to_owned() })
}

fn af_xdp(device: Device, need: &Need<'_>, copying: Copying, why: &str) -> Result<Chosen, EngineError> {
    let engine = AfXdpEngine::new(device, need.mode, need.plan, need.cursor.clone(), copying)?;
    let how = if engine.is_zero_copy() { "zero-copy" } else { "copying" };
    Ok(Chosen { engine: Box::new(engine), reason: format!("{why}; {how}") })
}

/// Queues other than the one that the xdp engine uses, and other than "not set".
fn asks_for_a_queue(need: &Need<'_>) -> bool {
    let Range { walk, min, .. } = need.plan.queue;
    walk != Walk::Fixed || (min != 0 && min != need.cpu % u32::from(need.plan.queue_count))
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
