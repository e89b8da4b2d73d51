//! AF_XDP's system calls, in the kernel's words.
#![expect(
    unsafe_code,
    reason = "socket options that no crate has safe words for; nothing else is in this file"
)]

use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Where the words of one ring are inside its mapping, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingLayout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) descriptors: usize,
}

/// A new AF_XDP socket.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: numbers in, a descriptor or an error out.
    let fd = Errno::result(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lends `area` to the kernel as the socket's frame memory, in chunks. The kernel pins its pages
/// until the socket is closed.
pub(super) fn register_umem(socket: &OwnedFd, area: &[u8], chunk_len: u32) -> io::Result<()> {
    let registration = libc::xdp_umem_reg_v1 {
        addr: area.as_ptr().addr() as u64,
        len: area.len() as u64,
        chunk_size: chunk_len,
        headroom: 0,
    };
    set_option(socket, libc::XDP_UMEM_REG, &registration)
}

/// Makes a ring of `entries` descriptors, a power of two.
pub(super) fn make_ring(socket: &OwnedFd, option: i32, entries: u32) -> io::Result<()> {
    set_option(socket, option, &entries)
}

/// Lets one call send this many frames in copy mode; 32 where the kernel does not know the option
/// (before 6.17).
pub(super) fn raise_send_budget(socket: &OwnedFd, frames: u32) {
    const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
    // A refusal costs calls, nothing else.
    let _ = set_option(socket, XDP_MAX_TX_SKB_BUDGET, &frames);
}

/// Where the words of the transmit, fill and completion rings are.
pub(super) fn layouts(socket: &OwnedFd) -> io::Result<[RingLayout; 3]> {
    let offsets: libc::xdp_mmap_offsets = get_option(socket, libc::XDP_MMAP_OFFSETS)?;
    let layout = |ring: libc::xdp_ring_offset| RingLayout {
        producer: ring.producer as usize,
        consumer: ring.consumer as usize,
        flags: ring.flags as usize,
        descriptors: ring.desc as usize,
    };
    Ok([layout(offsets.tx), layout(offsets.fr), layout(offsets.cr)])
}

/// Descriptors that the kernel found invalid and dropped.
pub(super) fn invalid_descriptors(socket: &OwnedFd) -> io::Result<u64> {
    let statistics: libc::xdp_statistics = get_option(socket, libc::XDP_STATISTICS)?;
    Ok(statistics.tx_invalid_descs)
}

/// True when the socket sends without copying.
pub(super) fn is_zero_copy(socket: &OwnedFd) -> io::Result<bool> {
    let options: libc::xdp_options = get_option(socket, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Binds the socket to one queue of a device.
pub(super) fn bind(socket: &OwnedFd, ifindex: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is a whole sockaddr_xdp of `len` bytes that outlives the call, which only
    // reads it.
    Errno::result(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) })?;
    Ok(())
}

/// Tells the kernel that there are descriptors in the transmit ring; in copy mode it sends some of
/// them now.
pub(super) fn kick(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no buffer and no address are passed.
    let sent = unsafe {
        libc::sendto(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
    };
    Errno::result(sent)?;
    Ok(())
}

fn set_option<T: Copy>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is `len` bytes that outlive the call, which only reads them. For XDP_UMEM_REG
    // it names memory that the caller keeps until the socket is closed.
    Errno::result(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    })?;
    Ok(())
}

fn get_option<T: Copy>(socket: &OwnedFd, option: i32) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `value`. All structures asked for
    // here are plain numbers, for which the zeros that an older and shorter answer leaves behind
    // are valid.
    Errno::result(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value.as_mut_ptr().cast(), &mut len)
    })?;
    // SAFETY: zero-initialised, then filled by the kernel; plain numbers throughout.
    Ok(unsafe { value.assume_init() })
}
