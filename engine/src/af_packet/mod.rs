//! The af_packet engine: frames written by the plan into the transmit ring of a packet socket, sent many at a time.
//!
//! It works on every device, at the price of one system call for each batch and one copy for each frame.

#[expect(unsafe_code, reason = "a packet socket and its ring, and nothing else")]
mod sys;

use crate::EngineError;
use crate::device::Device;
use crate::engine::EngineKind;
use crate::need::{Asked, QueueMap};
use crate::written::{Outlet, Outlook, Source, Taken, WrittenEngine};
use packet::{Cursor, Plan, XmitMode};
use std::io;
use sys::{PacketRing, RingOptions};

/// Frames for one call unless the user says otherwise; more gain nothing.
const BATCH_DEFAULT: u32 = 64;
/// Frames for one call at most.
const BATCH_MAX: u32 = 1024;
/// Slots of the ring for each frame of a batch: the kernel keeps a slot until the frame has left the device.
const SLOTS_EACH: usize = 4;
/// Kernel memory for frames on their way: some 5,000 short ones, more than a queueing discipline holds.
const SEND_BUFFER_BYTES: i32 = 4 << 20;

impl Outlet for PacketRing {
    const KIND: EngineKind = EngineKind::AfPacket;
    const CALL: &'static str = "sendto(AF_PACKET)";

    fn slots(&self) -> usize {
        self.slots()
    }

    fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        self.slot(index)
    }

    fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        self.set_frame_len(index, frame_len);
    }

    fn frame(&self, index: usize) -> &[u8] {
        self.frame(index)
    }

    fn send(&mut self, first: usize, count: usize) -> io::Result<Taken> {
        self.send(first, count).map(|count| Taken { count, congested: 0 })
    }
}

/// Opens a socket for `plan` on `device`, in whose namespace the calling thread is.
///
/// # Errors
/// What this engine cannot do, a device that cannot send, or a refusal of the kernel.
pub(crate) fn open(
    device: Device,
    mode: XmitMode,
    plan: Plan,
    cursor: Cursor,
    asked: &Asked,
) -> Result<WrittenEngine<PacketRing>, EngineError> {
    check_ability(mode, asked.queues)?;
    if let Some(trouble) = device.trouble(true)? {
        return Err(trouble);
    }
    let batch = asked.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX);
    let options = RingOptions {
        ifindex: device.ifindex(),
        bypass_qdisc: mode == XmitMode::StartXmit,
        priority: asked.wish.priority,
        send_buffer_bytes: SEND_BUFFER_BYTES,
        slots: SLOTS_EACH * batch as usize,
        frame_len_max: plan.frame_len_max() as usize,
    };
    let outlet = PacketRing::open(&options).map_err(|(call, source)| EngineError::Syscall {
        call,
        ifname: device.name(),
        source,
    })?;
    let health = Outlook { device, transmits: true };
    Ok(WrittenEngine::new(outlet, health, Source::new(plan, cursor), batch))
}

fn check_ability(mode: XmitMode, queues: QueueMap) -> Result<(), EngineError> {
    let unable = |what: &str| Err(EngineError::unable(EngineKind::AfPacket, what));
    if mode == XmitMode::NetifReceive {
        return unable("xmit_mode netif_receive: a socket only sends");
    }
    match queues {
        QueueMap::Any => Ok(()),
        QueueMap::OfCpu if mode == XmitMode::StartXmit => Ok(()),
        _ => unable("queue_map_min, queue_map_max or QUEUE_MAP_*: the kernel chooses the queue of a socket"),
    }
}
