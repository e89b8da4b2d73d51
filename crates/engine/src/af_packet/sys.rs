//! Packet sockets with a transmit ring (packet(7)).
//!
//! Each slot of the ring has a header with a status word, a virtio-net header, and the frame. The
//! virtio-net header declares the whole frame as header, so the kernel copies it into a linear skb.
//! Otherwise it would attach pages to each skb, which costs more than the copy (520 ns per frame
//! against 400; sendmmsg 455).

use host::{PacketSocket, RingMemory};
use libc::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Offset of the frame length in the header of a slot (`struct tpacket2_hdr`); the status is first.
const LEN_AT: usize = 4;
/// Offset of the virtio-net header, behind the 32 bytes of the slot header.
const VNET_AT: usize = 32;
const VNET_LEN: usize = 10;
/// Offset of the header length in the virtio-net header.
const COPY_LEN_AT: usize = VNET_AT + 2;
const FRAME_AT: usize = VNET_AT + VNET_LEN;
/// Slots start on a cache line.
const SLOT_ALIGN: usize = 64;
const BLOCK_BYTES_MIN: usize = 64 << 10;
/// Limit of the ring size; a ring for long frames has fewer slots.
const RING_BYTES_MAX: usize = 8 << 20;
const SLOTS_MIN: usize = 16;
/// More than the MTU of loopback, which is the greatest, and the headers before it.
const LONGER_THAN_ANY_FRAME: usize = 128 << 10;

/// Options of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingOptions {
    /// The device, in the namespace of the calling thread.
    pub(super) ifindex: u32,
    /// Bypass the queueing discipline.
    pub(super) bypass_qdisc: bool,
    /// `skb->priority` of each frame.
    pub(super) priority: u32,
    /// Kernel memory for frames in flight, in bytes.
    pub(super) send_buffer_bytes: c_int,
    /// Number of slots, rounded up to whole blocks; fewer for long frames.
    pub(super) slots: usize,
    /// Length of the longest frame.
    pub(super) frame_len_max: usize,
    /// The last four bytes of what is sent are the frame check sequence (`SO_NOFCS`).
    pub(super) has_own_fcs: bool,
}

/// Layout of the slots: blocks of whole pages with as many slots as fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotLayout {
    slot_bytes: usize,
    block_bytes: usize,
    per_block: usize,
    blocks: usize,
}

impl SlotLayout {
    fn new(slots: usize, frame_len_max: usize) -> Self {
        let slot_bytes = (FRAME_AT + frame_len_max).next_multiple_of(SLOT_ALIGN);
        let block_bytes = slot_bytes.next_power_of_two().max(BLOCK_BYTES_MIN);
        let per_block = block_bytes / slot_bytes;
        let slots = slots.min(RING_BYTES_MAX / slot_bytes).max(SLOTS_MIN);
        Self { slot_bytes, block_bytes, per_block, blocks: slots.div_ceil(per_block) }
    }

    fn slots(&self) -> usize {
        self.per_block * self.blocks
    }

    fn bytes(&self) -> usize {
        self.block_bytes * self.blocks
    }

    fn offset(&self, index: usize) -> usize {
        assert!(index < self.slots(), "slot {index} of {}", self.slots());
        index / self.per_block * self.block_bytes + index % self.per_block * self.slot_bytes
    }
}

/// A raw packet socket that only sends, never blocks, and shares a ring of frames with the kernel.
#[derive(Debug)]
pub(crate) struct PacketRing {
    socket: PacketSocket,
    memory: RingMemory,
    layout: SlotLayout,
}

impl PacketRing {
    /// Opens and binds it.
    ///
    /// # Errors
    /// The call that failed, and its error: EPERM without CAP_NET_RAW.
    pub(super) fn open(options: &RingOptions) -> Result<Self, (&'static str, io::Error)> {
        let socket = open_socket(options)?;
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        socket
            .set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(|error| ("setsockopt(PACKET_VERSION)", error))?;
        socket
            .set::<c_int>(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)
            .map_err(|error| ("setsockopt(PACKET_VNET_HDR)", error))?;
        let layout = SlotLayout::new(options.slots, options.frame_len_max);
        let request = libc::tpacket_req {
            tp_block_size: layout.block_bytes as u32,
            tp_block_nr: layout.blocks as u32,
            tp_frame_size: layout.slot_bytes as u32,
            tp_frame_nr: layout.slots() as u32,
        };
        socket
            .set(libc::SOL_PACKET, libc::PACKET_TX_RING, &request)
            .map_err(|error| ("setsockopt(PACKET_TX_RING)", error))?;
        let memory = socket.map_ring(layout.bytes()).map_err(|error| ("mmap(PACKET_TX_RING)", error))?;
        // Protocol 0: nothing is received, so no frame is copied for this socket.
        socket.bind(options.ifindex, 0).map_err(|error| ("bind(AF_PACKET)", error))?;
        Ok(Self { socket, memory, layout })
    }

    /// Number of slots of a ring with these options.
    pub(super) fn slots_of(options: &RingOptions) -> usize {
        SlotLayout::new(options.slots, options.frame_len_max).slots()
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.layout.slots()
    }

    /// The memory of one frame; `None` while the kernel still uses it.
    pub(super) fn slot(&mut self, index: usize) -> Option<&mut [u8]> {
        if self.status(index).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
            return None;
        }
        let at = self.layout.offset(index) + FRAME_AT;
        let len = self.layout.slot_bytes - FRAME_AT;
        // SAFETY: `offset` asserted that the slot is in the ring, and this is its part behind both
        // headers. The kernel never writes there, and `&mut self` excludes other users.
        Some(unsafe { std::slice::from_raw_parts_mut(self.memory.start().as_ptr().add(at), len) })
    }

    /// Sets the length of the frame in one slot.
    pub(super) fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        assert!(frame_len <= self.layout.slot_bytes - FRAME_AT, "{frame_len} bytes in {:?}", self.layout);
        let at = self.layout.offset(index);
        // SAFETY: both words are inside the slot, whose offset was checked; the kernel only reads
        // them, and not before the slot is requested. Words in the ring are aligned only to 2 bytes
        // here.
        unsafe {
            let head = self.memory.start().as_ptr().add(at);
            head.add(LEN_AT).cast::<u32>().write((VNET_LEN + frame_len) as u32);
            head.add(COPY_LEN_AT).cast::<u16>().write(u16::try_from(frame_len).unwrap_or(u16::MAX));
        }
    }

    /// The length of the frame in one slot.
    pub(super) fn frame_len(&self, index: usize) -> usize {
        let at = self.layout.offset(index) + LEN_AT;
        // SAFETY: inside the slot, aligned to 4 bytes, and written only by `set_frame_len`.
        let len = unsafe { self.memory.start().as_ptr().add(at).cast::<u32>().read() };
        (len as usize).saturating_sub(VNET_LEN)
    }

    /// The bytes of the frame in one slot.
    pub(super) fn frame(&self, index: usize) -> &[u8] {
        let at = self.layout.offset(index) + FRAME_AT;
        // SAFETY: as for `slot`; the length was checked when it was set, and is 0 before.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().add(at), self.frame_len(index)) }
    }

    /// Sends `count` frames from slot `first` on, and returns how many were accepted. `first` is
    /// the slot after the last accepted one.
    ///
    /// # Errors
    /// The error for the first frame; none was accepted.
    pub(super) fn send(&mut self, first: usize, count: usize) -> io::Result<usize> {
        let slots = self.slots();
        for index in first..first + count {
            self.status(index % slots).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        }
        // SAFETY: no memory of ours is passed; the kernel reads the requested slots of the ring,
        // which are not written meanwhile, and writes their status words.
        let result = unsafe {
            libc::sendto(
                self.socket.as_fd().as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        let error = (result < 0).then(io::Error::last_os_error);
        let is_left = |index: &usize| {
            let status = self.status(index % slots).load(Ordering::Acquire);
            status == libc::TP_STATUS_SEND_REQUEST || status & libc::TP_STATUS_WRONG_FORMAT != 0
        };
        let left = (first..first + count).find(is_left).unwrap_or(first + count);
        for index in left..first + count {
            self.status(index % slots).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        match (left - first, error) {
            (0, Some(error)) => Err(error),
            (0, None) => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            (accepted, _) => Ok(accepted),
        }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: `offset` asserted that the slot is in the ring and slots are aligned to 64 bytes;
        // the word stays mapped until drop, which the borrow prevents, and the kernel writes it as
        // a whole.
        unsafe { AtomicU32::from_ptr(self.memory.start().as_ptr().add(self.layout.offset(index)).cast()) }
    }
}

/// A raw packet socket without a ring, which only sends and never blocks.
#[derive(Debug)]
pub(super) struct SendSocket(PacketSocket);

impl SendSocket {
    /// Opens and binds it. A ring would make the kernel wait for an RCU grace period (about 20 ms).
    ///
    /// # Errors
    /// The call that failed, and its error: EPERM without CAP_NET_RAW.
    pub(super) fn open(options: &RingOptions) -> Result<Self, (&'static str, io::Error)> {
        let socket = open_socket(options)?;
        socket.bind(options.ifindex, 0).map_err(|error| ("bind(AF_PACKET)", error))?;
        Ok(Self(socket))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// From send(2).
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads `frame.len()` bytes of `frame`, which lives during the call.
        let result = unsafe {
            libc::send(self.0.as_fd().as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// True if the driver sends frames without adding a frame check sequence. Nothing is sent: the
    /// kernel looks at the driver before it refuses what is longer than any frame (`packet_snd`).
    ///
    /// # Errors
    /// From send(2), if the kernel looked at neither: the device is down or gone.
    pub(super) fn can_have_own_fcs(&self) -> Result<bool, (&'static str, io::Error)> {
        match self.send(&vec![0; LONGER_THAN_ANY_FRAME]) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => Ok(false),
            Err(error) => Err(("send(AF_PACKET)", error)),
            Ok(()) => Ok(true),
        }
    }
}

/// Opens a socket that is not bound, with the options that must be set before a ring.
fn open_socket(options: &RingOptions) -> Result<PacketSocket, (&'static str, io::Error)> {
    let socket = PacketSocket::open().map_err(|error| ("socket(AF_PACKET)", error))?;
    let buffer = options.send_buffer_bytes;
    // Without CAP_NET_ADMIN the buffer stays within the system limit, which costs some speed only.
    socket
        .set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &buffer)
        .or_else(|_| socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &buffer))
        .map_err(|error| ("setsockopt(SO_SNDBUF)", error))?;
    if options.bypass_qdisc {
        socket
            .set::<c_int>(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)
            .map_err(|error| ("setsockopt(PACKET_QDISC_BYPASS)", error))?;
    }
    if options.priority != 0 {
        socket
            .set(libc::SOL_SOCKET, libc::SO_PRIORITY, &options.priority)
            .map_err(|error| ("setsockopt(SO_PRIORITY)", error))?;
    }
    if options.has_own_fcs {
        socket
            .set::<c_int>(libc::SOL_SOCKET, libc::SO_NOFCS, &1)
            .map_err(|error| ("setsockopt(SO_NOFCS)", error))?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_apart_inside_of_their_blocks() {
        for frame_len in [14, 60, 1514, 4096, 9014, 65_535] {
            let layout = SlotLayout::new(256, frame_len);
            assert!(layout.slots() >= SLOTS_MIN && layout.bytes() <= 2 * RING_BYTES_MAX, "{layout:?}");
            let mut free_from = 0;
            for index in 0..layout.slots() {
                let start = layout.offset(index);
                let end = start + FRAME_AT + frame_len;
                assert!(start >= free_from && start.is_multiple_of(SLOT_ALIGN), "{layout:?}");
                assert_eq!(start / layout.block_bytes, (end - 1) / layout.block_bytes, "{layout:?}");
                free_from = end;
            }
            assert!(free_from <= layout.bytes(), "{layout:?}");
        }
    }
}
