//! Unsafe calls: the sendmmsg loop, the priority of a thread, and the start of a child.

use host::{Netns, PacketSocket};
use nix::errno::Errno;
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getppid};
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A packet socket that sends on one device and receives nothing, past the qdisc.
#[derive(Debug)]
pub(crate) struct FloodSocket(PacketSocket);

impl FloodSocket {
    /// On the device `ifindex` of the calling thread's network namespace.
    pub(crate) fn open(ifindex: u32) -> io::Result<Self> {
        let socket = PacketSocket::open()?;
        socket.bind(ifindex, 0)?;
        socket.set::<libc::c_int>(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)?;
        Ok(Self(socket))
    }

    /// A socket that receives nothing and keeps the device `ifindex` promiscuous until it is
    /// dropped.
    pub(crate) fn promiscuous(ifindex: u32) -> io::Result<Self> {
        let socket = Self::open(ifindex)?;
        let membership = libc::packet_mreq {
            mr_ifindex: ifindex.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.0.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        Ok(socket)
    }

    /// Sends the first `count` messages of a batch by one call; returns how many were sent.
    pub(crate) fn send(&self, batch: &mut MessageBatch<'_>, count: usize) -> io::Result<usize> {
        let messages = &mut batch.messages[..count];
        // SAFETY: the slice holds `count` headers, exclusively ours; all of them point to the
        // batch's piece, which points to a frame that the batch borrows. The kernel writes only the
        // lengths in the headers.
        let sent =
            unsafe { libc::sendmmsg(self.0.as_fd().as_raw_fd(), messages.as_mut_ptr(), count as u32, 0) };
        Ok(Errno::result(sent)? as usize)
    }
}

/// Batch of messages with one frame many times, ready for sendmmsg(2).
pub(crate) struct MessageBatch<'a> {
    messages: Vec<libc::mmsghdr>,
    /// What all messages point to; in a box so that it stays where it is.
    _piece: Box<libc::iovec>,
    _frame: PhantomData<&'a [u8]>,
}

impl<'a> MessageBatch<'a> {
    /// `len` times `frame`.
    pub(crate) fn new(frame: &'a [u8], len: usize) -> Self {
        let mut piece =
            Box::new(libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() });
        // SAFETY: all fields of this C structure are numbers and pointers, for which zero is a
        // value.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        message.msg_hdr.msg_iov = &raw mut *piece;
        message.msg_hdr.msg_iovlen = 1;
        Self { messages: vec![message; len], _piece: piece, _frame: PhantomData }
    }
}

/// Sets the niceness of the calling thread, and of what it starts from now on.
pub(crate) fn set_niceness(niceness: i32) -> io::Result<()> {
    const THIS_THREAD: libc::id_t = 0;
    // SAFETY: numbers only; no memory of ours is touched.
    Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, niceness) })?;
    Ok(())
}

/// Makes the child start in `netns`, on `cpu` (`None` for any), and be killed by the kernel when
/// the thread that starts it ends: also a bench that is killed leaves no sender and no capture on
/// the user's devices.
pub(crate) fn prepare_child(command: &mut Command, netns: &Netns, cpu: Option<u32>) -> io::Result<()> {
    let netns = netns.as_fd().try_clone_to_owned()?;
    let parent = std::process::id();
    let mut cpus = CpuSet::new();
    if let Some(cpu) = cpu {
        cpus.set(cpu as usize)?;
    }
    let act = move || {
        setns(&netns, CloneFlags::CLONE_NEWNET)?;
        if cpu.is_some() {
            sched_setaffinity(Pid::from_raw(0), &cpus)?;
        }
        set_pdeathsig(Signal::SIGKILL)?;
        // Programs that a script starts with `&` ignore SIGINT, and so would the child, which is
        // stopped by it.
        // SAFETY: no handler is installed.
        unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }?;
        // The parent may have ended before the kernel was asked to watch it.
        match getppid().as_raw().cast_unsigned() == parent {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: between fork and exec `act` makes system calls only (setns, sched_setaffinity, prctl,
    // rt_sigaction, getppid), which are async-signal-safe; it allocates nothing, takes no lock, and
    // owns the values that it reads.
    unsafe { command.pre_exec(act) };
    Ok(())
}
