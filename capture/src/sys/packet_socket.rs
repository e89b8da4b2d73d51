//! Packet sockets with a receive ring (TPACKET_V3, packet(7)): opened, mapped, joined into a fanout
//! group.
//!
//! The protocol of the ring: the kernel fills a block and then sets its status to "user"; the
//! reader sets the status back. Neither accesses a block of the other.

use filter::Instruction;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Offset of the status in a block (`tpacket_block_desc.hdr.bh1.block_status`).
const STATUS_AT: usize = 8;

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingShape {
    /// A multiple of the page size.
    pub(crate) block_size_bytes: u32,
    pub(crate) block_count: u32,
    /// The kernel hands over a block that is not full after this.
    pub(crate) retire_ms: u32,
}

impl RingShape {
    fn size_bytes(&self) -> usize {
        self.block_size_bytes as usize * self.block_count as usize
    }
}

/// What the kernel counted since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Frames that passed the filter, lost ones included.
    pub(crate) packets: u32,
    /// Frames lost because the ring was full.
    pub(crate) drops: u32,
    /// Times that all blocks were full.
    pub(crate) freezes: u32,
}

/// A packet socket. Receives nothing until it is bound.
#[derive(Clone, Debug)]
pub(crate) struct PacketSocket {
    socket: Arc<OwnedFd>,
}

/// The ring of a packet socket and the right to read it.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    start: NonNull<u8>,
    shape: RingShape,
}

// SAFETY: the mapping belongs to the process, not to a thread, and its address is not shared.
unsafe impl Send for ReceiveRing {}
// SAFETY: a shared ring is only read, and only blocks that the kernel has handed over; `release`
// needs it exclusively.
unsafe impl Sync for ReceiveRing {}

impl PacketSocket {
    /// Makes a socket and its ring.
    pub(crate) fn new(shape: RingShape) -> io::Result<(Self, ReceiveRing)> {
        // Protocol 0: nothing arrives before `bind`.
        // SAFETY: numbers in, a descriptor or -1 out.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the call succeeded, so `fd` is a new descriptor without another owner.
        let socket = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
        let request = libc::tpacket_req3 {
            tp_block_size: shape.block_size_bytes,
            tp_block_nr: shape.block_count,
            // Blocks hold frames of any length; the kernel only wants the two numbers to go
            // together.
            tp_frame_size: shape.block_size_bytes,
            tp_frame_nr: shape.block_count,
            tp_retire_blk_tov: shape.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &request)?;
        let ring = ReceiveRing { start: map(&socket, shape.size_bytes())?, shape };
        Ok((Self { socket }, ring))
    }

    /// Frames pass this filter from now on; of those that do not, none is copied or counted.
    pub(crate) fn set_filter(&self, filter: &[Instruction]) -> io::Result<()> {
        let code: Vec<libc::sock_filter> = filter
            .iter()
            .map(|one| libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k })
            .collect();
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
        // The kernel copies the program during the call, in which `code` lives.
        set_at(&self.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Asks for the device's own times where it stamps frames; other frames get the kernel's.
    pub(crate) fn ask_for_hardware_time(&self) -> io::Result<()> {
        set(&self.socket, libc::PACKET_TIMESTAMP, &(libc::SOF_TIMESTAMPING_RAW_HARDWARE as c_int))
    }

    /// Spares the socket the frames that the host sends.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        set::<c_int>(&self.socket, libc::PACKET_IGNORE_OUTGOING, &1)
    }

    /// Frames of a device of the calling thread's namespace arrive from now on.
    pub(crate) fn bind(&self, ifindex: u32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: ifindex.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is a whole structure of `len` bytes that lives during the call, which
        // keeps no pointer.
        checked(unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(())
    }

    /// Shares the frames of the device with the other sockets of the group; `kind` is
    /// `PACKET_FANOUT_*` with flags. With `PACKET_FANOUT_FLAG_UNIQUEID` the kernel chooses the
    /// group.
    pub(crate) fn join(&self, group: u16, kind: u32) -> io::Result<()> {
        set(&self.socket, libc::PACKET_FANOUT, &(u32::from(group) | kind << 16))
    }

    /// The number of the group that the socket is in.
    pub(crate) fn group(&self) -> io::Result<u16> {
        let mut word = 0_u32;
        get(&self.socket, libc::PACKET_FANOUT, &mut word)?;
        Ok(word as u16)
    }

    /// The counts since the last call.
    pub(crate) fn take_counts(&self) -> io::Result<Counted> {
        let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        get(&self.socket, libc::PACKET_STATISTICS, &mut counts)?;
        Ok(Counted { packets: counts.tp_packets, drops: counts.tp_drops, freezes: counts.tp_freeze_q_cnt })
    }

    /// False once the device is gone or has left its namespace.
    pub(crate) fn is_bound(&self) -> bool {
        // SAFETY: a structure of plain numbers, for which zeros are good.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the call fills at most `len` bytes of `address`, which is exclusively ours.
        let result =
            unsafe { libc::getsockname(self.socket.as_raw_fd(), (&raw mut address).cast(), &mut len) };
        // No answer is no reason to believe that anything has changed.
        result != 0 || address.sll_ifindex > 0
    }
}

impl ReceiveRing {
    /// The number of blocks.
    pub(crate) fn block_count(&self) -> u32 {
        self.shape.block_count
    }

    /// A block that the kernel has handed over, until `release`.
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

    /// Gives a block back to the kernel.
    pub(crate) fn release(&mut self, number: u32) {
        // Release: everything was read before the kernel may write again.
        self.status(number).store(libc::TP_STATUS_KERNEL, Release);
    }

    fn status(&self, number: u32) -> &AtomicU32 {
        let start = self.place(number);
        // SAFETY: the block lies in the mapping, is longer than its head, and begins at a page; the
        // kernel too reads and writes this word as a whole.
        unsafe { AtomicU32::from_ptr(start.add(STATUS_AT).cast::<u32>().as_ptr()) }
    }

    fn place(&self, number: u32) -> NonNull<u8> {
        assert!(number < self.shape.block_count, "block {number} of {}", self.shape.block_count);
        // SAFETY: the block lies in the mapping of `block_count` blocks.
        unsafe { self.start.add(number as usize * self.shape.block_size_bytes as usize) }
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no borrow of it is left. It is not
        // used again.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.shape.size_bytes()) };
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn map(socket: &OwnedFd, len: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice; no memory in use is touched.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(address.cast()).expect("a mapping is not at address 0"))
}

fn set<T: Copy>(socket: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    set_at(socket, libc::SOL_PACKET, option, value)
}

fn set_at<T: Copy>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let (pointer, len) = ((&raw const *value).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` is `len` bytes that live during the call; the kernel copies what it reads and
    // keeps no pointer.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, len) })?;
    Ok(())
}

fn get<T: Copy>(socket: &OwnedFd, option: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let pointer = (&raw mut *value).cast::<c_void>();
    // SAFETY: the call fills at most `len` bytes of `value`, which is exclusively ours; it is only
    // used with types for which any bytes are good.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, pointer, &mut len) })?;
    Ok(())
}
