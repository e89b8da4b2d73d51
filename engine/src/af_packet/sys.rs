//! Packet sockets: made, set up, and given many frames in one call (packet(7), sendmmsg(2)).

use libc::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What a packet socket is to be like.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketOptions {
    /// The device, in the namespace of the calling thread.
    pub(super) ifindex: u32,
    /// Straight to the driver, past the queueing discipline.
    pub(super) bypass_qdisc: bool,
    /// `skb->priority` of each frame.
    pub(super) priority: u32,
    /// Bytes of kernel memory that frames on their way may take.
    pub(super) send_buffer_bytes: c_int,
}

/// A raw packet socket that only sends, and never waits.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens and binds it.
    ///
    /// # Errors
    /// The call that failed, and what the kernel said: EPERM without CAP_NET_RAW.
    pub(super) fn open(options: &SocketOptions) -> Result<Self, (&'static str, io::Error)> {
        // Protocol 0: nothing is received, so no frame is ever copied for this socket.
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: numbers in, a descriptor or an error out.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })
            .map_err(|error| ("socket(AF_PACKET)", error))?;
        // SAFETY: the call succeeded, so `fd` is a new descriptor that nobody else knows.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let buffer = options.send_buffer_bytes;
        // Without CAP_NET_ADMIN the buffer stays within the limit of the machine, which costs some speed only.
        socket
            .set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, buffer)
            .or_else(|_| socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, buffer))
            .map_err(|error| ("setsockopt(SO_SNDBUF)", error))?;
        if options.bypass_qdisc {
            socket
                .set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)
                .map_err(|error| ("setsockopt(PACKET_QDISC_BYPASS)", error))?;
        }
        if options.priority != 0 {
            socket
                .set(libc::SOL_SOCKET, libc::SO_PRIORITY, options.priority.cast_signed())
                .map_err(|error| ("setsockopt(SO_PRIORITY)", error))?;
        }
        socket.bind(options.ifindex).map_err(|error| ("bind(AF_PACKET)", error))?;
        Ok(socket)
    }

    fn set(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        let len = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: `value` is an int of `len` bytes that lives during the call, which only reads it.
        let result =
            unsafe { libc::setsockopt(self.fd(), level, name, (&raw const value).cast::<c_void>(), len) };
        checked(result).map(drop)
    }

    fn bind(&self, ifindex: u32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: ifindex.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is a whole structure of `len` bytes that lives during the call, which only reads it.
        checked(unsafe { libc::bind(self.fd(), (&raw const address).cast(), len) }).map(drop)
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Hands `count` frames from `first` on to the device, and returns how many it took.
    ///
    /// # Errors
    /// What the kernel said to the first of them; the device took none then.
    pub(super) fn send(&mut self, frames: &mut Frames, first: usize, count: usize) -> io::Result<usize> {
        let headers = frames.headers(first, count);
        // SAFETY: `headers` are `count` whole structures, borrowed for the call; each points to one iovec of
        // `frames` and through it to one slot, which stay where they are while `frames` is borrowed. The kernel
        // writes `msg_len` of each header and reads everything else.
        let result = unsafe { libc::sendmmsg(self.fd(), headers.as_mut_ptr(), count as libc::c_uint, 0) };
        checked(result).map(|sent| sent as usize)
    }
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Memory for a batch of frames, in the form in which the kernel takes it.
pub(crate) struct Frames {
    memory: Vec<u8>,
    slot_len: usize,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers inside are written anew by `headers` before every use and point into `memory` and
// `iovecs`, which belong to this value alone.
unsafe impl Send for Frames {}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames")
            .field("slots", &self.headers.len())
            .field("slot_len", &self.slot_len)
            .finish()
    }
}

impl Frames {
    /// Room for `slots` frames of at most `slot_len` bytes.
    pub(super) fn new(slots: usize, slot_len: usize) -> Self {
        let iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: mmsghdr is numbers and pointers, for which zero is a good value: "none".
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            memory: vec![0; slots * slot_len],
            slot_len,
            iovecs: vec![iovec; slots],
            headers: vec![header; slots],
        }
    }

    /// How many frames there is room for.
    pub(super) fn slots(&self) -> usize {
        self.headers.len()
    }

    /// The memory of one frame, all of it.
    pub(super) fn slot(&mut self, index: usize) -> &mut [u8] {
        let start = index * self.slot_len;
        &mut self.memory[start..start + self.slot_len]
    }

    /// The bytes of one frame.
    pub(super) fn frame(&self, index: usize) -> &[u8] {
        let start = index * self.slot_len;
        &self.memory[start..start + self.frame_len(index)]
    }

    /// The length of one frame in bytes.
    pub(super) fn frame_len(&self, index: usize) -> usize {
        self.iovecs[index].iov_len
    }

    /// Says how long the frame in one slot is.
    pub(super) fn set_frame_len(&mut self, index: usize, frame_len: usize) {
        assert!(frame_len <= self.slot_len, "a frame of {frame_len} bytes in {}", self.slot_len);
        self.iovecs[index].iov_len = frame_len;
    }

    /// The headers of `count` frames from `first` on, every pointer fresh.
    fn headers(&mut self, first: usize, count: usize) -> &mut [libc::mmsghdr] {
        assert!(first + count <= self.headers.len(), "frames {first} + {count} of {}", self.headers.len());
        for index in first..first + count {
            let start = index * self.slot_len;
            let slot = &mut self.memory[start..start + self.slot_len];
            self.iovecs[index].iov_base = slot.as_mut_ptr().cast();
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[index];
            header.msg_iovlen = 1;
        }
        &mut self.headers[first..first + count]
    }
}
