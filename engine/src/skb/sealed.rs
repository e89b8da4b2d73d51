//! Frames that only the plan can make, since they are to be sealed: written into the memory of a program that hands
//! on clones of one skb.

use super::{BATCH_DEFAULT, BATCH_MAX, check_ability, how, start};
use crate::EngineError;
use crate::device::Device;
use crate::engine::EngineKind;
use crate::need::{Asked, QueueMap};
use crate::written::{Outlet, Outlook, Source, Taken, WrittenEngine};
use bpf::{SkbHow, WrittenSender};
use packet::{Cursor, Plan, XmitMode};
use std::io;

/// Slots for each frame of a batch, so that few batches go round the end of the memory, which takes two calls.
const SLOTS_EACH: u32 = 4;

/// The memory of a program, and what its frames are like.
#[derive(Debug)]
pub(crate) struct SkbOutlet {
    sender: WrittenSender,
    /// What the skb of each call starts as.
    start: Vec<u8>,
    how: SkbHow,
    /// The plan names the queue of each frame.
    is_mapped: bool,
}

/// Loads the program for `plan`. The calling thread is pinned to `cpu`, is in the namespace of the device, and is
/// the one that sends.
///
/// # Errors
/// What this engine cannot do, a device that cannot send, or a refusal of the kernel.
pub(crate) fn open(
    device: Device,
    mode: XmitMode,
    plan: &Plan,
    cursor: Cursor,
    asked: &Asked,
    cpu: u32,
) -> Result<WrittenEngine<SkbOutlet>, EngineError> {
    check_ability(&device, plan, mode, asked)?;
    let transmits = mode != XmitMode::NetifReceive;
    if let Some(trouble) = device.trouble(transmits)? {
        return Err(trouble);
    }
    let batch = asked.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX);
    let outlet = SkbOutlet {
        sender: WrittenSender::load(device.ifindex(), !transmits, SLOTS_EACH * batch)?,
        start: start(plan),
        how: how(plan, asked, cpu, transmits),
        is_mapped: transmits && asked.queues != QueueMap::Any,
    };
    let source = Source::new(plan.clone(), cursor);
    Ok(WrittenEngine::new(outlet, Outlook { device, transmits }, source, batch))
}

impl Outlet for SkbOutlet {
    const KIND: EngineKind = EngineKind::Skb;
    const CALL: &'static str = "bpf_clone_redirect";

    fn slots(&self) -> usize {
        self.sender.slots()
    }

    fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        Some(self.sender.slot(index))
    }

    fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        self.sender.set_frame_len(index, frame_len);
    }

    fn set_queue(&mut self, index: usize, queue: u16) {
        self.sender.set_queue(index, if self.is_mapped { Some(queue) } else { self.how.queue });
    }

    fn frame(&self, index: usize) -> &[u8] {
        self.sender.frame(index)
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<Taken> {
        let count = count.min(self.sender.slots() - first);
        let handed = self.sender.run(&self.start, first, count, &self.how)?;
        match (handed.taken, handed.errno) {
            // The last is what the stack says when a driver without a queue is busy.
            (0, 0 | libc::ENOMEM | libc::ENOBUFS | libc::ENETDOWN) => {
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            }
            (0, errno) => Err(io::Error::from_raw_os_error(errno)),
            (taken, _) => Ok(Taken { count: taken as usize, congested: handed.congested as usize }),
        }
    }
}
