//! `sink.bpf.c`: a receiver that counts frames and drops or passes them in the driver.
//!
//! It is the cheapest receiver in the kernel. On a veth it also lets the peer transmit XDP frames.

use crate::filter::LoadOptions;
use crate::shared::SharedArray;
use crate::xdp::{LoadedProgram, XdpLink, XdpModeChoice};
use crate::{BpfError, abi, log, skel};
use filter::Ebpf;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OBJECT: &str = "sink";
const FILTERED: &str = "sink, with the filter";

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// Verdict for counted frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SinkVerdict {
    /// The driver drops the frame.
    #[default]
    Drop,
    /// The host receives the frame.
    Pass,
}

impl SinkVerdict {
    /// The answer of the program.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Drop => XDP_DROP,
            Self::Pass => XDP_PASS,
        }
    }
}

/// The program in the kernel. Nothing is counted until it is attached.
#[derive(Debug)]
pub struct Sink {
    program: LoadedProgram,
    cpus: SharedArray<abi::SinkCpu>,
}

/// Frames counted since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCount {
    /// Frames.
    pub frames: u64,
    /// Their lengths in bytes, without FCS.
    pub frame_bytes: u64,
    /// Frames that the filter rejected; not among `frames`.
    pub filtered: u64,
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.linear.as_fd()
    }
}

impl Sink {
    /// Loads the program that drops frames, with counters per possible CPU.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN), [`BpfError::MapMemory`].
    pub fn load() -> Result<Self, BpfError> {
        Self::load_with(SinkVerdict::Drop)
    }

    /// Loads the program with a verdict for the frames that it counts, with counters per possible
    /// CPU.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN), [`BpfError::MapMemory`].
    pub fn load_with(verdict: SinkVerdict) -> Result<Self, BpfError> {
        Self::load_filtered(verdict, None)
    }

    /// Loads the program with a verdict for the frames that a filter from [`filter::translate`]
    /// accepts. The host receives the frames that it rejects.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN; also when the verifier rejects
    /// the filter), [`BpfError::MapMemory`].
    pub fn load_filtered(verdict: SinkVerdict, filter: Option<&[Ebpf]>) -> Result<Self, BpfError> {
        // Kernels before 5.18 reject multi-buffer programs.
        let LoadedSink { program, cpus, count } =
            load(verdict, filter, true).or_else(|error| load(verdict, filter, false).map_err(|_| error))?;
        let cpus = SharedArray::new(cpus.as_fd(), "wr_sink_cpus", count)?;
        Ok(Self { program, cpus })
    }

    /// The program for multi-buffer frames, if loaded.
    pub fn frags_program(&self) -> Option<BorrowedFd<'_>> {
        self.program.frags()
    }

    /// Attaches it to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] if a program is attached, [`BpfError::XdpAttach`] with the error of
    /// each mode that was tried.
    pub fn attach(&self, ifindex: u32, ifname: &str, mode: XdpModeChoice) -> Result<XdpLink, BpfError> {
        self.program.attach(ifindex, ifname, mode)
    }

    /// Counts per CPU, from CPU 0 on. While frames arrive, the two numbers of a CPU may differ by a
    /// few frames.
    pub fn per_cpu(&self) -> impl Iterator<Item = SinkCount> + '_ {
        (0..self.cpus.len()).map(|cpu| SinkCount {
            frames: self.cpus.counter(cpu, offset_of!(abi::SinkCpu, frames)),
            frame_bytes: self.cpus.counter(cpu, offset_of!(abi::SinkCpu, frame_bytes)),
            filtered: self.cpus.counter(cpu, offset_of!(abi::SinkCpu, filtered)),
        })
    }

    /// Sum over all CPUs.
    pub fn total(&self) -> SinkCount {
        self.per_cpu().fold(SinkCount::default(), |sum, cpu| SinkCount {
            frames: sum.frames + cpu.frames,
            frame_bytes: sum.frame_bytes + cpu.frame_bytes,
            filtered: sum.filtered + cpu.filtered,
        })
    }
}

/// Descriptors of a loaded object.
struct LoadedSink {
    program: LoadedProgram,
    cpus: OwnedFd,
    count: usize,
}

fn load(verdict: SinkVerdict, filter: Option<&[Ebpf]>, frags: bool) -> Result<LoadedSink, BpfError> {
    log::loading(OBJECT, || load_fds(verdict, filter, frags))?
}

/// The inner error is that of the filter.
fn load_fds(
    verdict: SinkVerdict,
    filter: Option<&[Ebpf]>,
    frags: bool,
) -> libbpf_rs::Result<Result<LoadedSink, BpfError>> {
    let count = libbpf_rs::num_possible_cpus()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::sink::SinkSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_sink_verdict = verdict.code();
    settings.wr_is_filtered = filter.is_some();
    open.progs.wr_sink_frags.set_autoload(frags);
    open.maps.wr_sink_cpus.set_max_entries(count as u32)?;
    let skel = open.load()?;
    let frags = frags.then(|| skel.progs.wr_sink_frags.as_fd());
    let mut loaded = LoadedSink {
        program: LoadedProgram::keep(skel.progs.wr_sink.as_fd(), frags)?,
        cpus: skel.maps.wr_sink_cpus.as_fd().try_clone_to_owned()?,
        count,
    };
    let Some(filter) = filter else { return Ok(Ok(loaded)) };
    let instructions = [skel.progs.wr_sink.insns(), skel.progs.wr_sink_frags.insns()];
    let options = LoadOptions { object: FILTERED, name: c"wr_sink", frags: false, bound_to: 0 };
    let inserted = loaded.program.insert_filter(filter, instructions, options, c"wr_sink_frags");
    Ok(inserted.map(|()| loaded))
}
