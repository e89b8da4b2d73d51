//! A packet socket that sees every frame which comes in, VLAN tag and all.

#![allow(unsafe_code, reason = "recvmsg with ancillary data")]

use host::Netns;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BUFFER_BYTES: libc::c_int = 64 << 20;
const PATIENCE: libc::timeval = libc::timeval { tv_sec: 5, tv_usec: 0 };
const PKTGEN_MAGIC: [u8; 4] = [0xbe, 0x9b, 0xe9, 0x55];
const PACKET_OUTGOING: u8 = 4;

/// Sees the frames of all devices of one namespace.
pub(crate) struct Tap(OwnedFd);

impl Tap {
    /// Opens it; frames are seen from now on.
    pub(crate) fn new(netns: &Netns) -> Self {
        netns.run(Self::open).expect("the namespace can be entered").expect("a packet socket can be had")
    }

    fn open() -> io::Result<Self> {
        let every = libc::c_int::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: numbers in, a descriptor or an error out.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, every) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so `fd` is a new descriptor that nobody else knows.
        let tap = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        tap.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_BYTES)?;
        tap.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &PATIENCE)?;
        tap.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        Ok(tap)
    }

    fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        // SAFETY: `value` is `len` bytes that live during the call, which only reads them.
        match unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, (&raw const *value).cast(), len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The next `count` frames of pktgen that came in; fewer when none comes for a while.
    pub(crate) fn frames(&self, count: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while frames.len() < count {
            match self.frame() {
                Some((PACKET_OUTGOING, _)) => {}
                Some((_, frame)) => frames.extend(is_pktgen(&frame).then_some(frame)),
                None => break,
            }
        }
        frames
    }

    /// One frame and which way it went; `None` when nothing comes.
    fn frame(&self) -> Option<(u8, Vec<u8>)> {
        let mut bytes = vec![0u8; 65_536];
        let mut control = [0u64; 16];
        let mut iovec = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: sockaddr_ll and msghdr are numbers and pointers, for which zero is a good value.
        let (mut from, mut header): (libc::sockaddr_ll, libc::msghdr) = unsafe { std::mem::zeroed() };
        header.msg_name = (&raw mut from).cast();
        header.msg_namelen = size_of_val(&from) as libc::socklen_t;
        header.msg_iov = &raw mut iovec;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: every pointer in `header` is to memory of ours of the length beside it, alive during the call.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, 0) };
        bytes.truncate(usize::try_from(len).ok()?);
        if let Some(tag) = vlan_tag(&header) {
            bytes.splice(12..12, tag);
        }
        Some((from.sll_pkttype, bytes))
    }
}

/// The tag that the kernel took out of the frame.
fn vlan_tag(header: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: `header` is as recvmsg left it, its control memory still alive.
    let message = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    if (message.cmsg_level, message.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    // SAFETY: the kernel put a whole tpacket_auxdata behind the head of a message of this kind.
    let aux = unsafe { libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned() };
    let [a, b] = aux.tp_vlan_tpid.to_be_bytes();
    let [c, d] = aux.tp_vlan_tci.to_be_bytes();
    (aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

fn is_pktgen(frame: &[u8]) -> bool {
    frame.windows(4).any(|bytes| bytes == PKTGEN_MAGIC)
}
