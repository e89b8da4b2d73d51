//! What each engine says to a plan on a device: the ladder is asked to its last rung, and nothing is sent.
//!
//! An engine is asked by building it, which asks the kernel. AF_XDP is asked for copying only, since a driver that
//! is asked for zero-copy rebuilds the queue.

use crate::choose::{Tools, ask_all};
use crate::worker::{Request, need};
use crate::{EngineError, EngineKind};
use host::Netns;

/// What one engine said.
#[derive(Debug)]
pub struct Probed {
    /// The engine.
    pub kind: EngineKind,
    /// What speaks for it, or against it.
    pub answer: Result<&'static str, EngineError>,
}

/// Asks every engine whether it could carry `request` from `cpu`, in the order in which a run would try them. A run
/// takes the first that says yes. All that was built for the question is gone again at the end.
///
/// # Errors
/// When the namespace cannot be entered or the CPU cannot be used.
pub fn probe(netns: &Netns, cpu: u32, request: &Request) -> Result<Vec<Probed>, EngineError> {
    netns.run(|| {
        host::pin_thread(cpu)?;
        let need = need(request, &[], cpu);
        let mut tools = Tools::default();
        let answers = ask_all(&need, &mut tools);
        Ok(answers.map(|(kind, answer)| Probed { kind, answer }).collect())
    })?
}
