//! Loads the capture program and maps its memory: one ring and one page of counters per CPU.
//!
//! `capture` reads the rings and interprets the records.

use crate::abi::{CaptureCpu, MetadataFlag, Slot};
use crate::filter::LoadOptions;
use crate::sys::MapMemory;
use crate::xdp::{self, LoadedProgram, XdpLink, XdpModeChoice};
use crate::{BpfError, log, skel};
use filter::Ebpf;
use libbpf_rs::OpenMapMut;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_sys::bpf_insn;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

const OBJECT: &str = "capture";
const FILTERED: &str = "capture, with the filter";

/// Slot sizes are multiples of a cache line.
const SLOT_UNIT_BYTES: u32 = 64;

/// Dimensions of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Captured bytes per frame.
    pub snaplen: u32,
    /// Slots per ring; a power of two.
    pub slots: u32,
    /// Number of rings, from CPU 0 on. A frame on a CPU without a ring is counted as lost.
    pub rings: u32,
    /// CPUs with counters: all possible CPUs.
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
        assert!(self.slots.is_power_of_two(), "{} slots are not a power of two", self.slots);
        assert!(self.rings > 0 && self.rings <= self.cpus, "{} rings for {} CPUs", self.rings, self.cpus);
        let entries = u64::from(self.slots) * u64::from(self.rings);
        assert!(entries <= u64::from(u32::MAX), "{entries} slots do not fit into one map");
    }
}

/// Metadata that the program reads from the driver of one device for each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The device, in the network namespace of the calling thread. The program is bound to it.
    pub ifindex: u32,
    /// Hardware timestamps (Linux 6.3).
    pub time: bool,
    /// Removed VLAN tags (Linux 6.8).
    pub vlan: bool,
}

impl Metadata {
    fn bits(&self) -> u32 {
        let bit = |is_on, bit| if is_on { bit } else { 0 };
        bit(self.time, MetadataFlag::WR_METADATA_TIME.0) | bit(self.vlan, MetadataFlag::WR_METADATA_VLAN.0)
    }
}

/// The loaded program and its memory. Captures nothing until it is attached.
#[derive(Debug)]
pub struct CaptureProgram {
    program: LoadedProgram,
    metadata_refusal: Option<String>,
    geometry: Geometry,
    /// One [`CaptureCpu`] per CPU.
    pub cpus: MapMemory,
    /// All rings; mapped read-only.
    pub rings: MapMemory,
}

impl CaptureProgram {
    /// Loads the program and creates its rings.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN, ENOMEM when the rings are too
    /// large), [`BpfError::MapMemory`].
    ///
    /// # Panics
    /// If the geometry breaks the rules of [`Geometry`].
    pub fn load(geometry: Geometry) -> Result<Self, BpfError> {
        Self::load_filtered(geometry, None)
    }

    /// Like [`CaptureProgram::load`], with a filter from [`filter::translate`].
    ///
    /// # Errors
    /// See [`CaptureProgram::load`]; also [`BpfError::Load`] if the verifier rejects the filter.
    ///
    /// # Panics
    /// If the geometry breaks the rules of [`Geometry`].
    pub fn load_filtered(geometry: Geometry, filter: Option<&[Ebpf]>) -> Result<Self, BpfError> {
        Self::load_with_metadata(geometry, filter, None)
    }

    /// Like [`CaptureProgram::load_filtered`], and reads metadata from the driver. If kernel or
    /// driver do not support it, the program is loaded without; see
    /// [`CaptureProgram::metadata_refusal`].
    ///
    /// # Errors
    /// See [`CaptureProgram::load_filtered`].
    ///
    /// # Panics
    /// If the geometry breaks the rules of [`Geometry`].
    pub fn load_with_metadata(
        geometry: Geometry,
        filter: Option<&[Ebpf]>,
        metadata: Option<Metadata>,
    ) -> Result<Self, BpfError> {
        geometry.check();
        let metadata = metadata.filter(|metadata| metadata.bits() != 0);
        let bound_load = metadata.map(|metadata| load(&geometry, filter, true, Some(metadata)));
        let (bound_load, metadata_refusal) = match bound_load.transpose() {
            Ok(loaded) => (loaded, None),
            Err(refusal) => (None, Some(refusal.to_string())),
        };
        let LoadedCapture { program, cpus, rings } = match bound_load {
            Some(loaded) => loaded,
            // Kernels before 5.18 reject multi-buffer programs.
            None => load(&geometry, filter, true, None)
                .or_else(|error| load(&geometry, filter, false, None).map_err(|_| error))?,
        };
        let cpus_bytes = geometry.cpus as usize * size_of::<CaptureCpu>();
        let rings_bytes = geometry.rings as usize * geometry.ring_size_bytes();
        Ok(Self {
            program,
            metadata_refusal,
            geometry,
            cpus: map(&cpus, "wr_capture_cpus", cpus_bytes, true)?,
            rings: map(&rings, "wr_capture_rings", rings_bytes, false)?,
        })
    }

    /// Why the requested metadata is not read: the error of the verifier.
    pub fn metadata_refusal(&self) -> Option<&str> {
        self.metadata_refusal.as_deref()
    }

    /// The dimensions of its rings.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Attaches it to a device of the calling thread's network namespace. With metadata, that must
    /// be the device that it was loaded for.
    ///
    /// # Errors
    /// See [`xdp::attach`].
    pub fn attach(&self, ifindex: u32, ifname: &str, mode: XdpModeChoice) -> Result<XdpLink, BpfError> {
        for cpu in 0..self.geometry.cpus as usize {
            let place = cpu * size_of::<CaptureCpu>() + offset_of!(CaptureCpu, ifindex);
            self.cpus.atomic_u32(place).store(ifindex, Relaxed);
        }
        self.program.attach(ifindex, ifname, mode)
    }

    /// The program for multi-buffer frames, if loaded.
    pub fn frags_program(&self) -> Option<BorrowedFd<'_>> {
        self.program.frags()
    }
}

impl AsFd for CaptureProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.linear.as_fd()
    }
}

/// Number of possible CPUs.
///
/// # Errors
/// [`BpfError::Cpus`] if the kernel does not report it.
pub fn possible_cpus() -> Result<u32, BpfError> {
    let count =
        libbpf_rs::num_possible_cpus().map_err(|error| BpfError::Cpus { reason: error.to_string() })?;
    Ok(count as u32)
}

/// Descriptors of a loaded object. They keep it alive after the libbpf object is closed.
struct LoadedCapture {
    program: LoadedProgram,
    cpus: OwnedFd,
    rings: OwnedFd,
}

fn load(
    geometry: &Geometry,
    filter: Option<&[Ebpf]>,
    frags: bool,
    metadata: Option<Metadata>,
) -> Result<LoadedCapture, BpfError> {
    log::loading(OBJECT, || load_fds(geometry, filter, frags, metadata))?
}

/// The inner error is that of the filter.
fn load_fds(
    geometry: &Geometry,
    filter: Option<&[Ebpf]>,
    frags: bool,
    metadata: Option<Metadata>,
) -> libbpf_rs::Result<Result<LoadedCapture, BpfError>> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::capture::CaptureSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_snaplen = geometry.snaplen;
    settings.wr_ring_slots = geometry.slots;
    settings.wr_is_filtered = filter.is_some();
    settings.wr_metadata = metadata.map_or(0, |metadata| metadata.bits());
    open.progs.wr_capture_frags.set_autoload(frags);
    for bound in [&mut open.progs.wr_capture_hw, &mut open.progs.wr_capture_hwf] {
        xdp::bind(bound, metadata.map(|metadata| metadata.ifindex));
    }
    open.maps.wr_capture_cpus.set_max_entries(geometry.cpus)?;
    shape_rings(&mut open.maps.wr_capture_rings, geometry)?;
    let skel = open.load()?;
    let keep = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let mut loaded = LoadedCapture {
        program: LoadedProgram::keep(
            skel.progs.wr_capture.as_fd(),
            frags.then(|| skel.progs.wr_capture_frags.as_fd()),
        )?,
        cpus: keep(skel.maps.wr_capture_cpus.as_fd())?,
        rings: keep(skel.maps.wr_capture_rings.as_fd())?,
    };
    if metadata.is_some() {
        loaded.program.keep_bound([skel.progs.wr_capture_hw.as_fd(), skel.progs.wr_capture_hwf.as_fd()])?;
    }
    let Some(filter) = filter else { return Ok(Ok(loaded)) };
    let plain = [skel.progs.wr_capture.insns(), skel.progs.wr_capture_frags.insns()];
    let bound_programs = [skel.progs.wr_capture_hw.insns(), skel.progs.wr_capture_hwf.insns()];
    let options = LoadOptions { object: FILTERED, name: c"wr_capture", frags: false, bound_to: 0 };
    let inserted = loaded.program.insert_filter(filter, plain, options, c"wr_capture_frags");
    let inserted = inserted.and_then(|()| match metadata {
        None => Ok(()),
        Some(metadata) => loaded.insert_filter_bound(filter, bound_programs, metadata.ifindex),
    });
    Ok(inserted.map(|()| loaded))
}

impl LoadedCapture {
    /// Loads the programs that are bound to a device again, with a filter.
    fn insert_filter_bound(
        &mut self,
        filter: &[Ebpf],
        [program, frags]: [&[bpf_insn]; 2],
        bound_to: u32,
    ) -> Result<(), BpfError> {
        let one = LoadOptions { object: FILTERED, name: c"wr_capture_hw", frags: false, bound_to };
        let all = LoadOptions { object: FILTERED, name: c"wr_capture_hwf", frags: true, bound_to };
        let loaded = [(program, one), (frags, all)];
        self.program.bound = loaded
            .into_iter()
            .map(|(program, options)| crate::filter::load(program, filter, options))
            .collect::<Result<_, _>>()?;
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

    /// When a veth with GRO loses its program under load, the kernel dereferences a null pointer
    /// there.
    #[test]
    fn no_program_reads_the_device_of_a_queue_that_may_have_none_any_more() {
        for text in [
            include_str!("bpf/capture.bpf.c"),
            include_str!("bpf/send.bpf.c"),
            include_str!("bpf/sink.bpf.c"),
            include_str!("bpf/plan.h"),
        ] {
            let is_code = |line: &&str| !line.trim_start().starts_with("/*");
            let asks = |line: &&str| is_code(line) && line.contains("ingress_ifindex");
            assert_eq!(text.lines().find(asks), None);
        }
    }

    #[test]
    #[should_panic(expected = "not a power of two")]
    fn slots_that_are_not_a_power_of_two_are_a_broken_promise() {
        Geometry { slots: 12, ..geometry(96) }.check();
    }
}
