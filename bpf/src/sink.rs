//! `sink.bpf.c`: a receiver that counts frames and drops them in the driver, or lets them go on.
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

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// What becomes of a frame that was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SinkVerdict {
    /// It ends in the driver.
    #[default]
    Drop,
    /// The host gets it as if nobody looked.
    Pass,
}

/// The program in the kernel. Nothing is counted until it is attached.
#[derive(Debug)]
pub struct Sink {
    /// For frames in one piece.
    program: OwnedFd,
    /// For frames in several pieces, where the kernel knows those.
    program_for_pieces: Option<OwnedFd>,
    cpus: SharedArray<abi::SinkCpu>,
}

/// Frames counted since the program was loaded.
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
    /// Loads the program that drops, with counters for each possible CPU.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN), [`BpfError::MapMemory`].
    pub fn load() -> Result<Self, BpfError> {
        Self::load_with(SinkVerdict::Drop)
    }

    /// As [`Sink::load`], for a verdict.
    ///
    /// # Errors
    /// As [`Sink::load`].
    pub fn load_with(verdict: SinkVerdict) -> Result<Self, BpfError> {
        // Before Linux 5.18 there are no frames in pieces, and no program for them.
        let Loaded { program, program_for_pieces, cpus, count } =
            load(verdict, true).or_else(|error| load(verdict, false).map_err(|_| error))?;
        let cpus = SharedArray::new(cpus.as_fd(), "wr_sink_cpus", count)?;
        Ok(Self { program, program_for_pieces, cpus })
    }

    /// The program for frames in several pieces, where there is one.
    pub fn for_pieces(&self) -> Option<BorrowedFd<'_>> {
        self.program_for_pieces.as_ref().map(AsFd::as_fd)
    }

    /// Attaches it to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`xdp::attach`].
    pub fn attach(&self, ifindex: u32, ifname: &str, wish: ModeWish) -> Result<XdpLink, BpfError> {
        let programs: Vec<_> =
            [Some(self.program.as_fd()), self.for_pieces()].into_iter().flatten().collect();
        xdp::attach(&programs, ifindex, ifname, wish)
    }

    /// What each CPU counted, from CPU 0 up. While frames come, the two numbers of a CPU may differ by some.
    pub fn per_cpu(&self) -> impl Iterator<Item = SinkCount> + '_ {
        (0..self.cpus.len()).map(|cpu| SinkCount {
            frames: self.cpus.counter(cpu, offset_of!(abi::SinkCpu, frames)),
            frame_bytes: self.cpus.counter(cpu, offset_of!(abi::SinkCpu, frame_bytes)),
        })
    }

    /// What all CPUs counted together.
    pub fn total(&self) -> SinkCount {
        self.per_cpu().fold(SinkCount::default(), |sum, cpu| SinkCount {
            frames: sum.frames + cpu.frames,
            frame_bytes: sum.frame_bytes + cpu.frame_bytes,
        })
    }
}

/// What stays of a loaded object.
struct Loaded {
    program: OwnedFd,
    program_for_pieces: Option<OwnedFd>,
    cpus: OwnedFd,
    count: usize,
}

fn load(verdict: SinkVerdict, for_pieces: bool) -> Result<Loaded, BpfError> {
    let (loaded, log) = log::collect(|| load_fds(verdict, for_pieces));
    loaded.map_err(|error| BpfError::Load { object: OBJECT, reason: error.to_string(), log })
}

fn load_fds(verdict: SinkVerdict, for_pieces: bool) -> libbpf_rs::Result<Loaded> {
    let count = libbpf_rs::num_possible_cpus()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::sink::SinkSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_sink_verdict = match verdict {
        SinkVerdict::Drop => XDP_DROP,
        SinkVerdict::Pass => XDP_PASS,
    };
    open.progs.wr_sink_all.set_autoload(for_pieces);
    open.maps.wr_sink_cpus.set_max_entries(count as u32)?;
    let skel = open.load()?;
    let keep = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    Ok(Loaded {
        program: keep(skel.progs.wr_sink.as_fd())?,
        program_for_pieces: for_pieces.then(|| keep(skel.progs.wr_sink_all.as_fd())).transpose()?,
        cpus: keep(skel.maps.wr_sink_cpus.as_fd())?,
        count,
    })
}
