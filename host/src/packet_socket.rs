//! Packet sockets (packet(7)): opened, configured, bound, and their ring mapped.
//!
//! `engine` and `capture` know the layout of the rings.

use nix::errno::Errno;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// A raw packet socket. Receives nothing until it is bound to a protocol.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens one in the namespace of the calling thread.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open() -> io::Result<Self> {
        // Protocol 0: nothing arrives before `bind`.
        // SAFETY: numbers in, a descriptor or an error out.
        let fd =
            Errno::result(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the call succeeded, so `fd` is a new descriptor with no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Binds it to a device; it receives frames of `protocol` (`ETH_P_*`), none for 0.
    ///
    /// # Errors
    /// From bind(2).
    pub fn bind(&self, ifindex: u32, protocol: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: ifindex.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is a whole structure of `len` bytes that lives during the call, which
        // only reads it.
        Errno::result(unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(())
    }

    /// Makes a device promiscuous while this socket exists: the card also receives frames for other
    /// addresses. The kernel counts such requests, so those of other programs are not undone.
    ///
    /// # Errors
    /// From setsockopt(2).
    pub fn make_promiscuous(&self, ifindex: u32) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: ifindex.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// False once the device is gone or has left its namespace.
    pub fn is_bound(&self) -> bool {
        // SAFETY: a structure of plain numbers, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the call fills at most `len` bytes of `address`, which is exclusively ours.
        let result = unsafe { libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &mut len) };
        // If the query fails, nothing is known to have changed.
        result != 0 || address.sll_ifindex > 0
    }

    /// Sets an option.
    ///
    /// # Errors
    /// From setsockopt(2).
    pub fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let (pointer, len) = ((&raw const *value).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
        // SAFETY: `value` is `len` bytes that live during the call; the kernel only reads and keeps
        // no pointer.
        Errno::result(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, pointer, len) })?;
        Ok(())
    }

    /// Reads an option of `SOL_PACKET` that consists of `N` words.
    ///
    /// # Errors
    /// From getsockopt(2).
    pub fn get<const N: usize>(&self, option: c_int) -> io::Result<[u32; N]> {
        let mut words = [0; N];
        let mut len = size_of_val(&words) as libc::socklen_t;
        let pointer = (&raw mut words).cast::<c_void>();
        // SAFETY: the call fills at most `len` bytes of `words`, which is exclusively ours.
        Errno::result(unsafe {
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_PACKET, option, pointer, &mut len)
        })?;
        Ok(words)
    }

    /// Maps the ring of the socket, `len` bytes.
    ///
    /// # Errors
    /// From mmap(2).
    pub fn map_ring(&self, len: usize) -> io::Result<RingMemory> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is passed, so no memory in use is replaced; the kernel checks length
        // and descriptor.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, self.0.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(RingMemory { start, len })
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The mapped ring of a packet socket, shared with the kernel; unmapped when it is dropped.
#[derive(Debug)]
pub struct RingMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; this type does not access it.
unsafe impl Send for RingMemory {}
// SAFETY: as above.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// The first byte; valid for the length of the mapping while this value lives.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: what mmap returned, unmapped once; users of the address borrow or own this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
