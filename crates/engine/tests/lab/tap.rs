//! A packet socket that sees every frame which comes in, VLAN tag and all.

#![allow(unsafe_code, reason = "recvmsg with ancillary data")]

use host::{Netns, PacketSocket};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

const BUFFER_BYTES: libc::c_int = 64 << 20;
const TIMEOUT: libc::timeval = libc::timeval { tv_sec: 30, tv_usec: 0 };
const PKTGEN_MAGIC: [u8; 4] = [0xbe, 0x9b, 0xe9, 0x55];
const PACKET_OUTGOING: u8 = 4;
const EVERY_DEVICE: u32 = 0;

/// A frame and when the kernel took it in, in nanoseconds since 1970.
pub(crate) struct Stamped {
    pub(crate) time_ns: u64,
    pub(crate) frame: Vec<u8>,
}

/// Sees the frames of all devices of one namespace.
pub(crate) struct Tap(PacketSocket);

impl Tap {
    /// Opens it; frames are seen from now on.
    pub(crate) fn new(netns: &Netns) -> Self {
        netns.run(Self::open).expect("the namespace can be entered").expect("a packet socket can be had")
    }

    fn open() -> io::Result<Self> {
        let socket = PacketSocket::open()?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_BYTES)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &TIMEOUT)?;
        socket.set::<libc::c_int>(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        socket.set::<libc::c_int>(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)?;
        socket.bind(EVERY_DEVICE, libc::ETH_P_ALL as u16)?;
        Ok(Self(socket))
    }

    /// The next `count` frames of pktgen that came in; fewer when none comes for a while.
    pub(crate) fn frames(&self, count: usize) -> Vec<Vec<u8>> {
        self.stamped(count).into_iter().map(|stamped| stamped.frame).collect()
    }

    /// The next `count` frames of pktgen that came in, with the time of each; fewer when none comes
    /// for a while.
    pub(crate) fn stamped(&self, count: usize) -> Vec<Stamped> {
        let mut frames = Vec::new();
        while frames.len() < count {
            match self.frame() {
                Some((PACKET_OUTGOING, _)) => {}
                Some((_, stamped)) => frames.extend(is_pktgen(&stamped.frame).then_some(stamped)),
                None => break,
            }
        }
        frames
    }

    /// One frame and which way it went; `None` when nothing comes.
    fn frame(&self) -> Option<(u8, Stamped)> {
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
        // SAFETY: every pointer in `header` is to memory of ours of the length beside it, alive
        // during the call.
        let len = unsafe { libc::recvmsg(self.0.as_fd().as_raw_fd(), &raw mut header, 0) };
        bytes.truncate(usize::try_from(len).ok()?);
        let aside = Aside::of(&header);
        if let Some(tag) = aside.vlan_tag {
            bytes.splice(12..12, tag);
        }
        Some((from.sll_pkttype, Stamped { time_ns: aside.time_ns, frame: bytes }))
    }
}

/// What the kernel said beside the bytes.
#[derive(Default)]
struct Aside {
    /// The tag that it took out of the frame.
    vlan_tag: Option<[u8; 4]>,
    time_ns: u64,
}

impl Aside {
    fn of(header: &libc::msghdr) -> Self {
        let mut aside = Self::default();
        // SAFETY: `header` is as recvmsg left it, its control memory still alive.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() };
        while let Some(message) = next {
            match (message.cmsg_level, message.cmsg_type) {
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    // SAFETY: the kernel put a whole tpacket_auxdata behind the head of a message
                    // of this kind.
                    let aux =
                        unsafe { libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned() };
                    let [a, b] = aux.tp_vlan_tpid.to_be_bytes();
                    let [c, d] = aux.tp_vlan_tci.to_be_bytes();
                    aside.vlan_tag =
                        (aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d]);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    // SAFETY: as above, with a timespec.
                    let time = unsafe { libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned() };
                    aside.time_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                }
                _ => {}
            }
            // SAFETY: `message` is one of the messages of `header`.
            next = unsafe { libc::CMSG_NXTHDR(header, message).as_ref() };
        }
        aside
    }
}

fn is_pktgen(frame: &[u8]) -> bool {
    frame.windows(4).any(|bytes| bytes == PKTGEN_MAGIC)
}
