//! Packet sockets with a receive ring (TPACKET_V3, packet(7)).
//!
//! The kernel fills a block and sets its status to user; the reader sets it back to kernel. Each
//! side accesses only its own blocks.

use filter::Instruction;
use host::{PacketSocket, RingMemory};
use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Offset of the status in a block (`tpacket_block_desc.hdr.bh1.block_status`).
const STATUS_AT: usize = 8;

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketRingShape {
    /// A multiple of the page size.
    pub(crate) block_size_bytes: u32,
    pub(crate) block_count: u32,
    /// Time after which the kernel releases a block that is not full.
    pub(crate) retire_ms: u32,
}

impl PacketRingShape {
    pub(crate) fn size_bytes(&self) -> usize {
        self.block_size_bytes as usize * self.block_count as usize
    }
}

/// Counts of the kernel since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketCounts {
    /// Frames that passed the filter, including dropped ones.
    pub(crate) packets: u32,
    /// Dropped frames.
    pub(crate) drops: u32,
    /// Times that all blocks were full.
    pub(crate) freezes: u32,
}

/// A packet socket. Receives nothing until it is bound.
#[derive(Clone, Debug)]
pub(crate) struct CaptureSocket(Arc<PacketSocket>);

/// The ring of a packet socket and the right to read it.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    memory: RingMemory,
    shape: PacketRingShape,
}

impl CaptureSocket {
    /// Makes a socket and its ring.
    pub(crate) fn new(shape: PacketRingShape) -> io::Result<(Self, ReceiveRing)> {
        let socket = PacketSocket::open()?;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
        let request = libc::tpacket_req3 {
            tp_block_size: shape.block_size_bytes,
            tp_block_nr: shape.block_count,
            // Blocks hold frames of any length; the kernel requires the two numbers to match.
            tp_frame_size: shape.block_size_bytes,
            tp_frame_nr: shape.block_count,
            tp_retire_blk_tov: shape.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let ring = ReceiveRing { memory: socket.map_ring(shape.size_bytes())?, shape };
        Ok((Self(Arc::new(socket)), ring))
    }

    /// Sets the filter; rejected frames are neither copied nor counted.
    pub(crate) fn set_filter(&self, filter: &[Instruction]) -> io::Result<()> {
        let code: Vec<libc::sock_filter> = filter
            .iter()
            .map(|one| libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k })
            .collect();
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
        // The kernel copies the program during the call, in which `code` lives.
        self.0.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Uses hardware timestamps if the frame has one, else those of the kernel.
    pub(crate) fn ask_for_hardware_time(&self) -> io::Result<()> {
        self.0.set(libc::SOL_PACKET, libc::PACKET_TIMESTAMP, &(libc::SOF_TIMESTAMPING_RAW_HARDWARE as c_int))
    }

    /// Ignores frames that the host sends.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        self.0.set::<c_int>(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)
    }

    /// Frames of a device of the calling thread's namespace arrive from now on.
    pub(crate) fn bind(&self, ifindex: u32) -> io::Result<()> {
        self.0.bind(ifindex, libc::ETH_P_ALL as u16)
    }

    /// Shares the frames of the device with the other sockets of the group; `kind` is
    /// `PACKET_FANOUT_*` with flags. With `PACKET_FANOUT_FLAG_UNIQUEID` the kernel chooses the
    /// group.
    pub(crate) fn join(&self, group: u16, kind: u32) -> io::Result<()> {
        self.0.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &(u32::from(group) | kind << 16))
    }

    /// The number of the group that the socket is in.
    pub(crate) fn group(&self) -> io::Result<u16> {
        let [word] = self.0.get(libc::PACKET_FANOUT)?;
        Ok(word as u16)
    }

    /// Counts since the last call.
    pub(crate) fn take_counts(&self) -> io::Result<SocketCounts> {
        // `struct tpacket_stats_v3`.
        let [packets, drops, freezes] = self.0.get(libc::PACKET_STATISTICS)?;
        Ok(SocketCounts { packets, drops, freezes })
    }

    /// False once the device is gone or has left its namespace.
    pub(crate) fn is_bound(&self) -> bool {
        self.0.is_bound()
    }
}

impl ReceiveRing {
    /// The number of blocks.
    pub(crate) fn block_count(&self) -> u32 {
        self.shape.block_count
    }

    /// A block that belongs to the reader, until `release`.
    pub(crate) fn block(&self, number: u32) -> Option<&[u8]> {
        // Acquire: the bytes of the block were written before its status.
        let is_ours = self.status(number).load(Acquire) & libc::TP_STATUS_USER != 0;
        is_ours.then(|| {
            // SAFETY: `status` asserted that the block lies in the mapping, which lives as long as
            // `self`. The status says that the kernel writes nothing there until `release`, which
            // needs `self` exclusively and so waits for this borrow.
            unsafe {
                std::slice::from_raw_parts(self.place(number).as_ptr(), self.shape.block_size_bytes as usize)
            }
        })
    }

    /// Returns a block to the kernel.
    pub(crate) fn release(&mut self, number: u32) {
        // Release: everything was read before the kernel may write again.
        self.status(number).store(libc::TP_STATUS_KERNEL, Release);
    }

    fn status(&self, number: u32) -> &AtomicU32 {
        let start = self.place(number);
        // SAFETY: the block lies in the mapping, is longer than its head, and begins at a page; the
        // kernel also reads and writes this word as a whole.
        unsafe { AtomicU32::from_ptr(start.add(STATUS_AT).cast::<u32>().as_ptr()) }
    }

    fn place(&self, number: u32) -> NonNull<u8> {
        assert!(number < self.shape.block_count, "block {number} of {}", self.shape.block_count);
        // SAFETY: the block lies in the mapping of `block_count` blocks.
        unsafe { self.memory.start().add(number as usize * self.shape.block_size_bytes as usize) }
    }
}
