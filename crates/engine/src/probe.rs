//! Probes all engines for a request without sending.
//!
//! An engine is probed by building it, which queries the kernel. AF_XDP is probed in copy mode
//! only, because a driver rebuilds its queue for zero-copy.

use crate::select::{ThreadShared, probe_all};
use crate::worker::{Request, need};
use crate::{EngineError, EngineKind};
use host::Netns;

/// Result of probing one engine.
#[derive(Debug)]
pub struct Probed {
    /// The engine.
    pub kind: EngineKind,
    /// The reason for the engine, or why it cannot be used.
    pub answer: Result<&'static str, EngineError>,
}

/// Probes every engine for `request` on `cpu`, in order of preference. A run takes the first usable
/// one. Everything that was built is dropped at the end.
///
/// # Errors
/// When the namespace cannot be entered or the CPU cannot be used.
pub fn probe(netns: &Netns, cpu: u32, request: &Request) -> Result<Vec<Probed>, EngineError> {
    netns.run(|| {
        host::pin_thread(cpu)?;
        let need = need(request, &[], cpu, false);
        let mut shared = ThreadShared::default();
        let answers = probe_all(&need, &mut shared);
        Ok(answers.map(|(kind, answer)| Probed { kind, answer }).collect())
    })?
}
