//! Frames that user space built in the skb engine: those of ESP, AH and several packets, and those
//! of a replay. They are in memory of a BPF program, which sends clones of one skb.

use super::{BATCH_DEFAULT, BATCH_MAX, FRAME_LEN_MAX, check_ability, params, start};
use crate::EngineError;
use crate::device::OutputDevice;
use crate::engine_kind::EngineKind;
use crate::requirements::{BuildOptions, QueueMap};
use crate::userspace::{Accepted, FrameSource, TxLink, TxRing, UserspaceEngine};
use bpf::{PrebuiltSender, SkbParams};
use packet::{Cursor, Plan, XmitMode};
use std::io;

/// Slots per frame of a batch. A batch that wraps around takes two calls.
const SLOTS_EACH: u32 = 4;
const ETHERNET_LEN: usize = 14;
/// Of the EtherType.
const PROTOCOL_AT: usize = 12;
/// Longest frame of a replay.
pub(crate) const REPLAY_LEN_MAX: u32 = FRAME_LEN_MAX;

/// The slots of a program and its call parameters.
#[derive(Debug)]
pub(crate) struct PrebuiltRing {
    sender: PrebuiltSender,
    /// Initial contents of the skb.
    start: Vec<u8>,
    params: SkbParams,
    /// The plan sets the queue of each frame.
    is_mapped: bool,
}

/// Loads the program for `plan`. The calling thread is pinned to `cpu`, is in the namespace of the
/// device, and sends the frames.
///
/// # Errors
/// When this engine does not support the plan, the device cannot send, or the kernel rejects the
/// program.
pub(crate) fn open(
    device: OutputDevice,
    mode: XmitMode,
    plan: &Plan,
    cursor: Cursor,
    options: &BuildOptions,
    cpu: u32,
) -> Result<UserspaceEngine<PrebuiltRing>, EngineError> {
    check_ability(&device, plan, mode, options)?;
    let transmits = mode != XmitMode::NetifReceive;
    if let Some(trouble) = device.trouble(transmits)? {
        return Err(trouble);
    }
    let batch = options.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX);
    let ring = PrebuiltRing {
        sender: PrebuiltSender::load(device.ifindex(), !transmits, SLOTS_EACH * batch)?,
        start: start(plan),
        params: params(plan, options, cpu, transmits),
        is_mapped: transmits && options.queues != QueueMap::Any,
    };
    let source = FrameSource::new(plan.clone(), cursor);
    Ok(UserspaceEngine::new(ring, TxLink { device, transmits }, source, batch))
}

/// Slots for frames of any kind with an Ethernet header, which leave by one queue in order, or
/// enter the receive path.
///
/// # Errors
/// When the frames are too long, or the kernel rejects the program.
pub(crate) fn replay_ring(
    device: &OutputDevice,
    mode: XmitMode,
    batch: usize,
    frame_len_max: usize,
) -> Result<PrebuiltRing, EngineError> {
    if let Some(trouble) = device.layer_trouble() {
        return Err(trouble);
    }
    let batch = batch as u32;
    let frame_len_max = frame_len_max.min(REPLAY_LEN_MAX as usize);
    let transmits = mode != XmitMode::NetifReceive;
    Ok(PrebuiltRing {
        sender: PrebuiltSender::load(device.ifindex(), !transmits, SLOTS_EACH * batch)?,
        start: vec![0; frame_len_max],
        params: SkbParams { batch, priority: 0, queue: None },
        is_mapped: transmits,
    })
}

impl PrebuiltRing {
    /// The stack takes the protocol of all frames of a call from the first one. Returns how many
    /// of `count` frames from slot `first` on have that protocol, and sets it.
    fn of_one_protocol(&mut self, first: usize, count: usize) -> usize {
        let header = &self.sender.frame(first)[..ETHERNET_LEN];
        self.start[..ETHERNET_LEN].copy_from_slice(header);
        let protocol = &header[PROTOCOL_AT..];
        let is_other = |index: &usize| self.sender.frame(*index)[PROTOCOL_AT..ETHERNET_LEN] != *protocol;
        (first..first + count).find(is_other).map_or(count, |other| other - first)
    }
}

impl TxRing for PrebuiltRing {
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
        self.sender.set_queue(index, if self.is_mapped { Some(queue) } else { self.params.queue });
    }

    fn frame(&self, index: usize) -> &[u8] {
        self.sender.frame(index)
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<Accepted> {
        let count = self.of_one_protocol(first, count.min(self.sender.slots() - first));
        let result = self.sender.run(&self.start, first, count, &self.params)?;
        match (result.accepted, result.errno) {
            // ENETDOWN is the result when a driver without a queue is busy.
            (0, 0 | libc::ENOMEM | libc::ENOBUFS | libc::ENETDOWN) => {
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            }
            (0, errno) => Err(io::Error::from_raw_os_error(errno)),
            (accepted, _) => Ok(Accepted { count: accepted as usize, congested: result.congested as usize }),
        }
    }
}
