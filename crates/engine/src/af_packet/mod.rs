//! The af_packet engine: frames built in the transmit ring of a packet socket and sent in batches.
//!
//! It works on every device, at the cost of a system call per batch and a copy per frame. The first
//! frames do not wait for the ring ([`PromptRing`]). With a batch of one frame there is none: the
//! runs of a thread share a socket ([`SharedSockets`]), so that thousands of slow runs start at
//! once.

#[expect(unsafe_code, reason = "a packet socket and its ring, and nothing else")]
mod sys;

mod ip_packets;
mod prompt;

use crate::EngineError;
use crate::device::OutputDevice;
use crate::engine::Engine;
use crate::engine_kind::EngineKind;
use crate::pacer::Pace;
use crate::requirements::{BuildOptions, QueueMap, SendFcs};
use crate::userspace::{Accepted, FrameSource, TxLink, TxRing, UserspaceEngine};
use ip_packets::{IpPacketRing, has_only_ip};
use packet::{Cursor, FCS_LEN, Plan, Rate, XmitMode};
use prompt::PromptRing;
use std::io;
use std::rc::{Rc, Weak};
use sys::{RingOptions, SendSocket};

pub(crate) use sys::PacketRing;

/// Default number of frames per call; more gain nothing.
const BATCH_DEFAULT: u32 = 64;
/// Maximum number of frames per call.
const BATCH_MAX: u32 = 1024;
/// Ring slots per frame of a batch: the kernel keeps a slot until the frame has left the device.
const SLOTS_EACH: usize = 4;
/// Kernel memory for frames in flight: some 5,000 short ones, more than a queueing discipline
/// holds.
const SEND_BUFFER_BYTES: i32 = 4 << 20;
/// Frames per second that single calls send on any machine.
const SINGLE_CALLS_PPS_MAX: f64 = 200_000.0;
/// Drivers that leave the FCS to the sender set `IFF_SUPP_NOFCS`: e100, e1000 and few others.
const NO_OWN_FCS: &str =
    "frames with a given FCS: the driver of the device cannot leave the FCS to the sender";

impl TxRing for PacketRing {
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

    fn send(&mut self, first: usize, count: usize) -> io::Result<Accepted> {
        self.send(first, count).map(|count| Accepted { count, congested: 0 })
    }
}

/// One frame, sent on a socket that the runs of a thread share.
#[derive(Debug)]
pub(crate) struct SingleFrame {
    socket: Rc<SendSocket>,
    slot: Vec<u8>,
    frame_len: usize,
    fcs: Option<SendFcs>,
}

impl TxRing for SingleFrame {
    const KIND: EngineKind = EngineKind::AfPacket;
    const CALL: &'static str = "send(AF_PACKET)";

    fn slots(&self) -> usize {
        1
    }

    fn slot(&mut self, _index: usize) -> Option<&mut [u8]> {
        let frame_len_max = self.slot.len() - FCS_LEN;
        Some(&mut self.slot[..frame_len_max])
    }

    fn set_frame_len(&mut self, _index: usize, frame_len: usize) {
        self.frame_len = frame_len;
    }

    fn frame(&self, _index: usize) -> &[u8] {
        &self.slot[..self.frame_len]
    }

    fn send(&mut self, _first: usize, _count: usize) -> io::Result<Accepted> {
        let mut len = self.frame_len;
        if let Some(fcs) = self.fcs {
            let fcs = fcs.of(&self.slot[..len]);
            self.slot[len..len + FCS_LEN].copy_from_slice(&fcs);
            len += FCS_LEN;
        }
        self.socket.send(&self.slot[..len])?;
        Ok(Accepted { count: 1, congested: 0 })
    }
}

/// The sockets without rings that the runs of a thread share; each is closed with its last run.
#[derive(Debug, Default)]
pub(crate) struct SharedSockets(Vec<(RingOptions, Weak<SendSocket>)>);

impl SharedSockets {
    fn open(&mut self, options: RingOptions) -> Result<Rc<SendSocket>, (&'static str, io::Error)> {
        self.0.retain(|(_, socket)| socket.strong_count() > 0);
        let shared = self.0.iter().find(|(known, _)| *known == options);
        if let Some(socket) = shared.and_then(|(_, socket)| socket.upgrade()) {
            return Ok(socket);
        }
        let socket = Rc::new(SendSocket::open(&options)?);
        self.0.push((options, Rc::downgrade(&socket)));
        Ok(socket)
    }
}

/// The engine for `plan` on `device`. The calling thread is in the namespace of the device.
///
/// # Errors
/// When this engine does not support the plan, the device cannot send, or the kernel rejects the
/// socket.
pub(crate) fn open(
    device: OutputDevice,
    mode: XmitMode,
    plan: Plan,
    cursor: Cursor,
    options: &BuildOptions,
    pace: Pace,
    shared: &mut SharedSockets,
) -> Result<Box<dyn Engine>, EngineError> {
    check_ability(mode, options.queues)?;
    if let Some(trouble) = device.trouble(true)? {
        return Err(trouble);
    }
    if device.takes_ip_packets() && !has_only_ip(&plan) {
        return Err(EngineError::NotIp { ifname: device.name() });
    }
    // The kernel takes a frame check sequence from a call for one frame only, not from a ring.
    let fcs = options.tx.fcs;
    let batch = match fcs {
        Some(_) => 1,
        None => options.batch.unwrap_or(BATCH_DEFAULT).clamp(1, BATCH_MAX),
    };
    let ring_options = RingOptions {
        ifindex: device.ifindex(),
        bypass_qdisc: mode == XmitMode::StartXmit,
        priority: options.tx.priority,
        send_buffer_bytes: SEND_BUFFER_BYTES,
        slots: SLOTS_EACH * batch as usize,
        frame_len_max: plan.frame_len_max() as usize,
        has_own_fcs: fcs.is_some(),
    };
    if batch == 1 {
        // Runs with frames of other lengths share the socket, too.
        let socket = shared.open(RingOptions { frame_len_max: 0, ..ring_options });
        let socket = socket.map_err(|error| failed(&device, error))?;
        if fcs.is_some() && !socket.can_have_own_fcs().map_err(|error| failed(&device, error))? {
            return Err(EngineError::unable(EngineKind::AfPacket, NO_OWN_FCS));
        }
        let slot = vec![0; ring_options.frame_len_max + FCS_LEN];
        let ring = SingleFrame { socket, slot, frame_len: 0, fcs };
        return Ok(engine(device, ring, FrameSource::new(plan, cursor), batch));
    }
    let source = FrameSource::new(plan, cursor);
    if needs_ring_at_once(pace) {
        let ring = open_ring(&device, &ring_options)?;
        return Ok(engine(device, ring, source, batch));
    }
    let ring = PromptRing::open(ring_options).map_err(|error| failed(&device, error))?;
    Ok(engine(device, ring, source, batch))
}

/// True if frames are due faster than single calls send them.
fn needs_ring_at_once(pace: Pace) -> bool {
    let is_fast = |rate: Rate| rate.pps().is_none_or(|pps| pps > SINGLE_CALLS_PPS_MAX);
    match pace {
        Pace::Unpaced | Pace::Never => false,
        Pace::Constant(rate) | Pace::Poisson { rate, .. } => is_fast(rate),
        Pace::Ramp(_) | Pace::Bursts { .. } => true,
    }
}

/// The engine over a ring: of frames, or of their IP packets if the device takes only those.
fn engine<R: TxRing + 'static>(
    device: OutputDevice,
    ring: R,
    source: FrameSource,
    batch: u32,
) -> Box<dyn Engine> {
    let takes_ip_packets = device.takes_ip_packets();
    let health = TxLink { device, transmits: true };
    match takes_ip_packets {
        true => {
            let ring = IpPacketRing::new(ring, source.plan().frame_len_max() as usize);
            Box::new(UserspaceEngine::new(ring, health, source, batch))
        }
        false => Box::new(UserspaceEngine::new(ring, health, source, batch)),
    }
}

/// A ring for frames of any kind.
///
/// # Errors
/// When it does not support the mode, or the kernel rejects the socket.
pub(crate) fn replay_ring(
    device: &OutputDevice,
    mode: XmitMode,
    batch: usize,
    frame_len_max: usize,
) -> Result<PacketRing, EngineError> {
    check_ability(mode, QueueMap::Any)?;
    let options = RingOptions {
        ifindex: device.ifindex(),
        bypass_qdisc: mode == XmitMode::StartXmit,
        priority: 0,
        send_buffer_bytes: SEND_BUFFER_BYTES,
        slots: SLOTS_EACH * batch,
        frame_len_max,
        has_own_fcs: false,
    };
    open_ring(device, &options)
}

fn open_ring(device: &OutputDevice, options: &RingOptions) -> Result<PacketRing, EngineError> {
    PacketRing::open(options).map_err(|error| failed(device, error))
}

fn failed(device: &OutputDevice, (call, source): (&'static str, io::Error)) -> EngineError {
    EngineError::Syscall { call, ifname: device.name(), source }
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
