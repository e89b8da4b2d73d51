//! Loads the capture program and maps what it shares: one ring and one page of counters for each CPU.
//!
//! Shapes only: how large, where, since when. Reading a ring and what a record means are the business of the
//! `capture` room.

use crate::abi::{CaptureCpu, Slot};
use crate::filter::Wish;
use crate::sys::MapMemory;
use crate::xdp::{self, ModeWish, XdpLink};
use crate::{BpfError, log, skel};
use filter::Ebpf;
use libbpf_rs::OpenMapMut;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_sys::bpf_insn;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OBJECT: &str = "capture";

/// Slots are a multiple of this long: a cache line.
const SLOT_UNIT_BYTES: u32 = 64;

/// The shape of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes kept of a frame.
    pub snaplen: u32,
    /// Slots of one ring; a power of two.
    pub slots: u32,
    /// Number of rings, for CPU 0 and up. A frame on a CPU without one is counted as lost.
    pub rings: u32,
    /// CPUs that have counters: all that the machine could ever have.
    pub cpus: u32,
}

impl Geometry {
    /// Bytes of one slot: its head and `snaplen`, in whole cache lines (128 for a snaplen of 96).
    pub fn slot_size_bytes(&self) -> u32 {
        (size_of::<Slot>() as u32 + self.snaplen).next_multiple_of(SLOT_UNIT_BYTES)
    }

    /// Bytes of one ring.
    pub fn ring_size_bytes(&self) -> usize {
        self.slots as usize * self.slot_size_bytes() as usize
    }

    fn check(&self) {
        assert!(self.snaplen > 0, "a snaplen of 0 keeps nothing");
        assert!(self.slots.is_power_of_two(), "{} slots are no power of two", self.slots);
        assert!(self.rings > 0 && self.rings <= self.cpus, "{} rings for {} CPUs", self.rings, self.cpus);
        let entries = u64::from(self.slots) * u64::from(self.rings);
        assert!(entries <= u64::from(u32::MAX), "{entries} slots do not fit into one map");
    }
}

/// The program in the kernel, with its memory mapped here. Nothing is captured until it is attached.
#[derive(Debug)]
pub struct CaptureProgram {
    /// For frames in one piece.
    program: OwnedFd,
    /// For frames in several pieces, where the kernel knows those.
    program_for_pieces: Option<OwnedFd>,
    geometry: Geometry,
    /// One [`CaptureCpu`] for each CPU.
    pub cpus: MapMemory,
    /// The rings, one after the other; not writable here.
    pub rings: MapMemory,
}

impl CaptureProgram {
    /// Loads the program and makes its rings.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN, ENOMEM when the rings are too large),
    /// [`BpfError::MapMemory`].
    ///
    /// # Panics
    /// When the geometry is not as [`Geometry`] says.
    pub fn load(geometry: Geometry) -> Result<Self, BpfError> {
        Self::load_filtered(geometry, None)
    }

    /// As [`CaptureProgram::load`], for frames that a filter accepts: a function from [`filter::translate`].
    ///
    /// # Errors
    /// As [`CaptureProgram::load`]; [`BpfError::Load`] as well when the verifier does not like the filter.
    ///
    /// # Panics
    /// When the geometry is not as [`Geometry`] says.
    pub fn load_filtered(geometry: Geometry, filter: Option<&[Ebpf]>) -> Result<Self, BpfError> {
        geometry.check();
        // Before Linux 5.18 there are no frames in pieces, and no program for them.
        let loaded =
            load(&geometry, filter, true).or_else(|error| load(&geometry, filter, false).map_err(|_| error));
        let Loaded { program, program_for_pieces, cpus, rings } = loaded?;
        let cpus_bytes = geometry.cpus as usize * size_of::<CaptureCpu>();
        let rings_bytes = geometry.rings as usize * geometry.ring_size_bytes();
        Ok(Self {
            program,
            program_for_pieces,
            geometry,
            cpus: map(&cpus, "wr_capture_cpus", cpus_bytes, true)?,
            rings: map(&rings, "wr_capture_rings", rings_bytes, false)?,
        })
    }

    /// The shape it was loaded with.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Attaches it to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`xdp::attach`].
    pub fn attach(&self, ifindex: u32, ifname: &str, wish: ModeWish) -> Result<XdpLink, BpfError> {
        let programs = [Some(&self.program), self.program_for_pieces.as_ref()];
        let programs: Vec<BorrowedFd<'_>> = programs.into_iter().flatten().map(AsFd::as_fd).collect();
        xdp::attach(&programs, ifindex, ifname, wish)
    }

    /// The program for frames in several pieces, where there is one.
    pub fn for_pieces(&self) -> Option<BorrowedFd<'_>> {
        self.program_for_pieces.as_ref().map(AsFd::as_fd)
    }
}

impl AsFd for CaptureProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// Number of CPUs that this machine could ever have.
///
/// # Errors
/// [`BpfError::Cpus`] when the kernel does not say.
pub fn possible_cpus() -> Result<u32, BpfError> {
    let count =
        libbpf_rs::num_possible_cpus().map_err(|error| BpfError::Cpus { reason: error.to_string() })?;
    Ok(count as u32)
}

/// What stays of a loaded object. The descriptors keep all of it alive, so libbpf's own object need not stay.
struct Loaded {
    program: OwnedFd,
    program_for_pieces: Option<OwnedFd>,
    cpus: OwnedFd,
    rings: OwnedFd,
}

fn load(geometry: &Geometry, filter: Option<&[Ebpf]>, for_pieces: bool) -> Result<Loaded, BpfError> {
    let (loaded, log) = log::collect(|| load_fds(geometry, filter, for_pieces));
    loaded.map_err(|error| BpfError::Load { object: OBJECT, reason: error.to_string(), log })?
}

/// The inner error is that of the filter.
fn load_fds(
    geometry: &Geometry,
    filter: Option<&[Ebpf]>,
    for_pieces: bool,
) -> libbpf_rs::Result<Result<Loaded, BpfError>> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::capture::CaptureSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_snaplen = geometry.snaplen;
    settings.wr_ring_slots = geometry.slots;
    settings.wr_is_filtered = filter.is_some();
    open.progs.wr_capture_all.set_autoload(for_pieces);
    open.maps.wr_capture_cpus.set_max_entries(geometry.cpus)?;
    shape_rings(&mut open.maps.wr_capture_rings, geometry)?;
    let skel = open.load()?;
    let keep = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let mut loaded = Loaded {
        program: keep(skel.progs.wr_capture.as_fd())?,
        program_for_pieces: for_pieces.then(|| keep(skel.progs.wr_capture_all.as_fd())).transpose()?,
        cpus: keep(skel.maps.wr_capture_cpus.as_fd())?,
        rings: keep(skel.maps.wr_capture_rings.as_fd())?,
    };
    let programs = [skel.progs.wr_capture.insns(), skel.progs.wr_capture_all.insns()];
    Ok(filter.map_or(Ok(()), |filter| loaded.put_in(filter, programs)).map(|()| loaded))
}

impl Loaded {
    /// Loads the programs again, with a filter.
    fn put_in(&mut self, filter: &[Ebpf], [program, for_pieces]: [&[bpf_insn]; 2]) -> Result<(), BpfError> {
        let wish = Wish { name: c"wr_capture", for_pieces: false };
        self.program = crate::filter::load(program, filter, wish)?;
        if let Some(kept) = &mut self.program_for_pieces {
            let wish = Wish { name: c"wr_capture_all", for_pieces: true };
            *kept = crate::filter::load(for_pieces, filter, wish)?;
        }
        Ok(())
    }
}

fn shape_rings(rings: &mut OpenMapMut<'_>, geometry: &Geometry) -> libbpf_rs::Result<()> {
    rings.set_value_size(geometry.slot_size_bytes())?;
    rings.set_max_entries(geometry.slots * geometry.rings)
}

fn map(fd: &OwnedFd, name: &'static str, bytes: usize, is_writable: bool) -> Result<MapMemory, BpfError> {
    MapMemory::new(fd.as_fd(), bytes, is_writable).map_err(|source| BpfError::MapMemory {
        map: name,
        bytes,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(snaplen: u32) -> Geometry {
        Geometry { snaplen, slots: 8, rings: 1, cpus: 1 }
    }

    #[test]
    fn slots_are_whole_cache_lines_that_hold_head_and_snaplen() {
        for (snaplen, slot_size) in [(1, 64), (32, 64), (33, 128), (96, 128), (97, 192), (65_535, 65_600)] {
            assert_eq!(geometry(snaplen).slot_size_bytes(), slot_size, "snaplen {snaplen}");
        }
    }

    #[test]
    #[should_panic(expected = "no power of two")]
    fn slots_that_are_no_power_of_two_are_a_broken_promise() {
        Geometry { slots: 12, ..geometry(96) }.check();
    }
}
