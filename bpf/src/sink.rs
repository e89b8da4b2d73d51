//! `sink.bpf.c`: a receiver that counts frames and drops them in the driver.
//!
//! What a generator is measured against: nothing in the kernel receives cheaper, and on a veth an XDP program
//! is what makes the other end able to transmit XDP frames.

use crate::shared::SharedArray;
use crate::xdp::{self, ModeWish, XdpLink};
use crate::{BpfError, abi, log, skel};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OBJECT: &str = "sink";

/// The program in the kernel. Nothing is dropped until it is attached.
#[derive(Debug)]
pub struct Sink {
    program: OwnedFd,
    cpus: SharedArray<abi::SinkCpu>,
}

/// Frames dropped since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCount {
    /// Frames.
    pub frames: u64,
    /// Their lengths in bytes, without FCS.
    pub frame_bytes: u64,
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

impl Sink {
    /// Loads the program, with counters for each possible CPU.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN), [`BpfError::MapMemory`].
    pub fn load() -> Result<Self, BpfError> {
        let (loaded, printed) = log::collect(load_fds);
        let (program, cpus, count) = loaded.map_err(|error| BpfError::Load {
            object: OBJECT,
            reason: error.to_string(),
            log: printed,
        })?;
        Ok(Self { program, cpus: SharedArray::new(cpus.as_fd(), "wr_sink_cpus", count)? })
    }

    /// Attaches it to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`xdp::attach`].
    pub fn attach(&self, ifindex: u32, ifname: &str, wish: ModeWish) -> Result<XdpLink, BpfError> {
        xdp::attach(&[self.program.as_fd()], ifindex, ifname, wish)
    }

    /// What each CPU dropped, from CPU 0 up. While frames come, the two numbers of a CPU may differ by some.
    pub fn per_cpu(&self) -> impl Iterator<Item = SinkCount> + '_ {
        (0..self.cpus.len()).map(|cpu| SinkCount {
            frames: self.cpus.counter(cpu, offset_of!(abi::SinkCpu, frames)),
            frame_bytes: self.cpus.counter(cpu, offset_of!(abi::SinkCpu, frame_bytes)),
        })
    }

    /// What all CPUs dropped together.
    pub fn total(&self) -> SinkCount {
        self.per_cpu().fold(SinkCount::default(), |sum, cpu| SinkCount {
            frames: sum.frames + cpu.frames,
            frame_bytes: sum.frame_bytes + cpu.frame_bytes,
        })
    }
}

fn load_fds() -> libbpf_rs::Result<(OwnedFd, OwnedFd, usize)> {
    let count = libbpf_rs::num_possible_cpus()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::sink::SinkSkelBuilder::default().open(&mut storage)?;
    open.maps.wr_sink_cpus.set_max_entries(count as u32)?;
    let skel = open.load()?;
    let program = skel.progs.wr_sink.as_fd().try_clone_to_owned()?;
    Ok((program, skel.maps.wr_sink_cpus.as_fd().try_clone_to_owned()?, count))
}
