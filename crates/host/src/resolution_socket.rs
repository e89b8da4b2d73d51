//! A packet socket that exchanges the frames of address resolution, ARP and Neighbor Discovery, and
//! receives pings.
//!
//! For addresses that the kernel does not have: it answers for its own ones only.

use crate::PacketSocket;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Classic BPF: ARP, echo requests and replies without IPv4 options, and ICMPv6 of types 128, 129,
/// 135 and 136 without extension headers, pass; each behind up to two VLAN tags. X is the length of
/// the tags. The kernel has taken the outermost tag of 0x8100 and 0x88a8 out of the frame before.
const FILTER: [(u16, u8, u8, u32); 36] = [
    (0x01, 0, 0, 0),       // no tags yet
    (0x48, 0, 0, 12),      // EtherType
    (0x15, 5, 0, 0x8100),  // a tag: behind it
    (0x15, 4, 0, 0x88a8),  // likewise
    (0x15, 3, 0, 0x9100),  // likewise
    (0x15, 2, 0, 0x9200),  // likewise
    (0x15, 1, 0, 0x9300),  // likewise
    (0x05, 0, 0, 8),       // no tag: its body
    (0x01, 0, 0, 4),       // one tag
    (0x48, 0, 0, 12),      // EtherType
    (0x15, 4, 0, 0x8100),  // a second tag
    (0x15, 3, 0, 0x88a8),  // likewise
    (0x15, 2, 0, 0x9100),  // likewise
    (0x15, 1, 0, 0x9200),  // likewise
    (0x15, 0, 1, 0x9300),  // likewise
    (0x01, 0, 0, 8),       // two tags
    (0x48, 0, 0, 12),      // EtherType
    (0x15, 16, 0, 0x0806), // ARP: accept
    (0x15, 0, 7, 0x0800),  // not IPv4: perhaps IPv6
    (0x50, 0, 0, 14),      // version and header length
    (0x15, 0, 14, 0x45),   // options: reject
    (0x50, 0, 0, 23),      // protocol
    (0x15, 0, 12, 1),      // not ICMP: reject
    (0x50, 0, 0, 34),      // ICMP type
    (0x15, 9, 0, 0),       // echo reply: accept
    (0x15, 8, 9, 8),       // echo request: accept, else reject
    (0x15, 0, 8, 0x86dd),  // not IPv6: reject
    (0x50, 0, 0, 20),      // next header
    (0x15, 0, 6, 58),      // not ICMPv6: reject
    (0x50, 0, 0, 54),      // ICMPv6 type
    (0x15, 3, 0, 128),     // echo request: accept
    (0x15, 2, 0, 129),     // echo reply: accept
    (0x35, 0, 2, 135),     // below 135: reject
    (0x25, 1, 0, 136),     // above 136: reject
    (0x06, 0, 0, 2048),    // accept
    (0x06, 0, 0, 0),       // reject
];

/// ARP and Neighbor Discovery of one device.
#[derive(Debug)]
pub struct ResolutionSocket(PacketSocket);

impl ResolutionSocket {
    /// Opens it for a device of the calling thread's namespace, and makes the device promiscuous:
    /// answers come to addresses that the device does not have.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW.
    pub fn open(ifindex: u32) -> io::Result<Self> {
        let socket = PacketSocket::open()?;
        let code = FILTER.map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
        // The kernel copies the program during the call, in which `code` lives.
        socket.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        socket.set::<c_int>(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        socket.set::<c_int>(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        socket.bind(ifindex, libc::ETH_P_ALL as u16)?;
        socket.make_promiscuous(ifindex)?;
        Ok(Self(socket))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// From send(2).
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(self.0.as_fd().as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT)?;
        Ok(())
    }

    /// The next frame, with its VLAN tags; `None` if there is none. `buffer` holds it.
    ///
    /// # Errors
    /// From recvmsg(2), such as ENETDOWN.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        self.0.receive_tagged(buffer)
    }

    /// False once the device is gone or has left its namespace.
    pub fn is_bound(&self) -> bool {
        self.0.is_bound()
    }

    /// Waits for a frame, for ever if there is no `timeout`. False if the other end of `stop` was
    /// closed.
    ///
    /// # Errors
    /// From poll(2).
    pub fn wait(&self, stop: BorrowedFd, timeout: Option<Duration>) -> io::Result<bool> {
        let timeout_ms = timeout.map(|timeout| timeout.as_millis().clamp(1, 60_000) as u16);
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN), PollFd::new(stop, PollFlags::POLLIN)];
        match poll(&mut fds, timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from)) {
            Ok(_) | Err(Errno::EINTR) => Ok(!fds[1].any().unwrap_or(true)),
            Err(error) => Err(error.into()),
        }
    }
}
