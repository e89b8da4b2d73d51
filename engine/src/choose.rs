//! Which engine carries a plan: the first that can do all that is asked on this device, found by asking.

use crate::engine::Engine;
use crate::xdp::{BATCH_DEFAULT, Device, XdpEngine, XdpSetup};
use crate::{EngineError, EngineKind};
use bpf::{BpfError, Meter};
use host::Stack;
use packet::{Cursor, Plan, XmitMode};
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

pub(crate) fn build(need: &Need<'_>) -> Result<Chosen, EngineError> {
    if need.engine == Some(EngineKind::Mem) {
        let what = "frames on a device: it keeps them in memory (--dry-run)".to_owned();
        return Err(EngineError::Unable { engine: EngineKind::Mem.name(), what });
    }
    let device = Device::new(Stack::here()?, need.ifname)?;
    let setup = XdpSetup { cpu: need.cpu, batch: need.batch.unwrap_or(BATCH_DEFAULT), meter: meter()? };
    let engine = XdpEngine::new(device, need.mode, need.plan, need.cursor.clone(), &setup)?;
    let reason = match (need.engine, need.mode) {
        (Some(_), _) => "asked for",
        (None, XmitMode::NetifReceive) => "injects into the receive path",
        (None, _) => "the driver takes frames from XDP",
    };
    Ok(Chosen { engine: Box::new(engine), reason: reason.to_owned() })
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
