//! Packet sockets (packet(7)): opened, configured, bound, and their ring mapped.
//!
//! `engine` and `capture` know the layout of the rings.

use nix::errno::Errno;
use std::ffi::{c_int, c_void};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes of a VLAN tag, and of the MAC addresses before it.
const TAG_LEN: usize = 4;
const MACS_LEN: usize = 12;

/// The VLAN tag that the kernel took out of a frame.
fn tag_of(message: &libc::msghdr) -> Option<[u8; TAG_LEN]> {
    // SAFETY: recvmsg has filled the message, whose control bytes live.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null or a whole header within the control bytes.
    while let Some(found) = unsafe { header.as_ref() } {
        if (found.cmsg_level, found.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            // SAFETY: the kernel has put a `tpacket_auxdata` there, whatever its alignment.
            let auxiliary: libc::tpacket_auxdata =
                unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(found).cast()) };
            let [a, b] = match auxiliary.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
                0 => [0x81, 0],
                _ => auxiliary.tp_vlan_tpid.to_be_bytes(),
            };
            let [c, d] = auxiliary.tp_vlan_tci.to_be_bytes();
            let has_tag = auxiliary.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
            return has_tag.then_some([a, b, c, d]);
        }
        // SAFETY: `found` is a header of this message.
        header = unsafe { libc::CMSG_NXTHDR(message, found) };
    }
    None
}

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

    /// The next frame, which `buffer` holds; `None` if there is none. With `PACKET_AUXDATA`, the
    /// VLAN tag that the kernel took out is back behind the MAC addresses.
    ///
    /// # Errors
    /// From recvmsg(2), such as ENETDOWN.
    ///
    /// # Panics
    /// If `buffer` is shorter than 16 bytes: the MAC addresses and a tag.
    pub fn receive_tagged<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        assert!(buffer.len() >= MACS_LEN + TAG_LEN, "the buffer holds MAC addresses and a tag");
        let (_, space) = buffer.split_at_mut(TAG_LEN);
        let mut parts = [IoSliceMut::new(space)];
        let mut control = [0_u64; 8];
        // SAFETY: a structure of pointers and numbers, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // The lengths have other types in other C libraries.
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr().cast(), parts.len() as _);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: `IoSliceMut` has the layout of `iovec`; the call fills at most the bytes of
        // `space` and of `control`, which are exclusively ours.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        let len = match Errno::result(len) {
            Ok(len) => len.unsigned_abs(),
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some([a, b, c, d]) = tag_of(&message) else { return Ok(Some(&buffer[TAG_LEN..TAG_LEN + len])) };
        buffer.copy_within(TAG_LEN..TAG_LEN + MACS_LEN, 0);
        buffer[MACS_LEN..MACS_LEN + TAG_LEN].copy_from_slice(&[a, b, c, d]);
        Ok(Some(&buffer[..TAG_LEN + len]))
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
