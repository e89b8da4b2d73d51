//! Loads the capture program and maps its memory: one ring and one page of counters per CPU.
//!
//! `capture` reads the rings and interprets the records.

use crate::abi::{BlockTail, CaptureCpu, MetadataFlag, Record};
use crate::filter::LoadOptions;
use crate::sys::MapMemory;
use crate::xdp::{self, LoadedProgram, XdpLink, XdpModeChoice};
use crate::{BpfError, log, skel};
use filter::Ebpf;
use libbpf_rs::OpenMapMut;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_sys::bpf_insn;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

const OBJECT: &str = "capture";
const FILTERED: &str = "capture, with the filter";

/// The kernel rounds the size of an entry of a map up to a multiple of this.
const ENTRY_UNIT_BYTES: u32 = 8;

/// What the program writes into a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordFormat {
    /// A [`Record`] for each frame.
    #[default]
    Records,
    /// Finished Enhanced Packet Blocks, and a [`Record`] for a frame with a removed VLAN tag, a
    /// timestamp of the device or losses before it.
    Blocks {
        /// The interface of frames of queue 0; those of the other queues follow.
        first_interface: u32,
        /// The number of these interfaces. Frames of further queues get the last one.
        interface_count: u32,
    },
}

/// Dimensions of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Captured bytes per frame.
    pub snaplen: u32,
    /// Bytes of a segment of a ring; a power of two, at least 4,096.
    pub segment_bytes: u32,
    /// Segments per ring; a power of two.
    pub segments: u32,
    /// Number of rings, from CPU 0 on. A frame on a CPU without a ring is counted as lost.
    pub rings: u32,
    /// CPUs with counters: all possible CPUs.
    pub cpus: u32,
    /// What is written into them.
    pub format: RecordFormat,
}

impl Geometry {
    /// Bytes of the longest record.
    pub fn record_size_bytes_max(&self) -> u32 {
        (size_of::<Record>() + size_of::<BlockTail>()) as u32 + self.snaplen.next_multiple_of(4)
    }

    /// Bytes from the beginning of a segment to that of the next one: the segment, and the bytes
    /// that its last record may exceed it by.
    pub fn segment_stride_bytes(&self) -> u32 {
        (self.segment_bytes + self.record_size_bytes_max()).next_multiple_of(ENTRY_UNIT_BYTES)
    }

    /// Bytes of records that one ring holds.
    pub fn ring_size_bytes(&self) -> u64 {
        u64::from(self.segment_bytes) * u64::from(self.segments)
    }

    /// Bytes of memory that one ring takes.
    pub fn ring_memory_bytes(&self) -> usize {
        self.segment_stride_bytes() as usize * self.segments as usize
    }

    pub(crate) fn check(&self) {
        assert!(self.snaplen > 0, "a snaplen of 0 keeps nothing");
        for (what, number) in [("segments", self.segments), ("bytes of a segment", self.segment_bytes)] {
            assert!(number.is_power_of_two(), "{number} {what} are not a power of two");
        }
        assert!(self.segment_bytes >= 4096, "segments of {} bytes", self.segment_bytes);
        assert!(self.rings > 0 && self.rings <= self.cpus, "{} rings for {} CPUs", self.rings, self.cpus);
        let entries = u64::from(self.segments) * u64::from(self.rings);
        assert!(entries <= u64::from(u32::MAX), "{entries} segments do not fit into one map");
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

/// The memory that a program shares with the readers of its rings.
#[derive(Debug)]
pub struct CaptureMemory {
    geometry: Geometry,
    /// One [`CaptureCpu`] per CPU.
    pub cpus: MapMemory,
    /// All rings; mapped read-only.
    pub rings: MapMemory,
}

impl CaptureMemory {
    /// Maps the two maps of a program that was loaded with this geometry.
    pub(crate) fn map(
        geometry: Geometry,
        cpus: BorrowedFd<'_>,
        rings: BorrowedFd<'_>,
    ) -> Result<Self, BpfError> {
        let cpus_bytes = geometry.cpus as usize * size_of::<CaptureCpu>();
        let rings_bytes = geometry.rings as usize * geometry.ring_memory_bytes();
        Ok(Self {
            geometry,
            cpus: map(cpus, "wr_capture_cpus", cpus_bytes, true)?,
            rings: map(rings, "wr_capture_rings", rings_bytes, false)?,
        })
    }

    /// The dimensions of its rings.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
}

/// The loaded program and its memory. Captures nothing until it is attached.
#[derive(Debug)]
pub struct CaptureProgram {
    program: LoadedProgram,
    metadata_refusal: Option<String>,
    memory: Arc<CaptureMemory>,
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

    /// Loads the program with a filter from [`filter::translate`], and creates its rings.
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN, ENOMEM when the rings are too
    /// large; also when the verifier rejects the filter), [`BpfError::MapMemory`].
    ///
    /// # Panics
    /// If the geometry breaks the rules of [`Geometry`].
    pub fn load_filtered(geometry: Geometry, filter: Option<&[Ebpf]>) -> Result<Self, BpfError> {
        Self::load_with_metadata(geometry, filter, None)
    }

    /// Loads the program with a filter, creates its rings, and reads metadata from the driver. If
    /// kernel or driver do not support it, the program is loaded without; see
    /// [`CaptureProgram::metadata_refusal`].
    ///
    /// # Errors
    /// [`BpfError::Load`] (EPERM without CAP_BPF and CAP_NET_ADMIN, ENOMEM when the rings are too
    /// large; also when the verifier rejects the filter), [`BpfError::MapMemory`].
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
        let memory = Arc::new(CaptureMemory::map(geometry, cpus.as_fd(), rings.as_fd())?);
        Ok(Self { program, metadata_refusal, memory })
    }

    /// Why the requested metadata is not read: the error of the verifier.
    pub fn metadata_refusal(&self) -> Option<&str> {
        self.metadata_refusal.as_deref()
    }

    /// What it shares with the readers of its rings.
    pub fn memory(&self) -> &Arc<CaptureMemory> {
        &self.memory
    }

    /// Attaches it to a device of the calling thread's network namespace. With metadata, that must
    /// be the device that it was loaded for.
    ///
    /// # Errors
    /// [`BpfError::XdpBusy`] if a program is attached, [`BpfError::XdpAttach`] with the error of
    /// each mode that was tried.
    pub fn attach(&self, ifindex: u32, ifname: &str, mode: XdpModeChoice) -> Result<XdpLink, BpfError> {
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
    settings.wr_segments = geometry.segments;
    settings.wr_segment_bits = geometry.segment_bytes.ilog2();
    if let RecordFormat::Blocks { first_interface, interface_count } = geometry.format {
        settings.wr_writes_blocks = true;
        settings.wr_interface_first = first_interface;
        settings.wr_interface_last = first_interface + interface_count - 1;
    }
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

pub(crate) fn shape_rings(rings: &mut OpenMapMut<'_>, geometry: &Geometry) -> libbpf_rs::Result<()> {
    rings.set_value_size(geometry.segment_stride_bytes())?;
    rings.set_max_entries(geometry.segments * geometry.rings)
}

fn map(
    fd: BorrowedFd<'_>,
    name: &'static str,
    bytes: usize,
    is_writable: bool,
) -> Result<MapMemory, BpfError> {
    MapMemory::new(fd, bytes, is_writable).map_err(|source| BpfError::MapMemory { map: name, bytes, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(snaplen: u32) -> Geometry {
        let format = RecordFormat::Records;
        Geometry { snaplen, segment_bytes: 4096, segments: 8, rings: 1, cpus: 1, format }
    }

    #[test]
    fn a_record_that_begins_in_the_last_bytes_of_a_segment_fits_behind_it() {
        for (snaplen, stride) in [(1, 4152), (96, 4248), (97, 4248), (65_535, 69_688)] {
            let geometry = geometry(snaplen);
            assert_eq!(geometry.segment_stride_bytes(), stride, "snaplen {snaplen}");
            assert_eq!(geometry.ring_memory_bytes(), 8 * stride as usize);
            assert_eq!(geometry.ring_size_bytes(), 8 * 4096);
        }
    }

    /// When a veth with GRO loses its program under load, the kernel dereferences a null pointer
    /// there.
    #[test]
    fn no_program_reads_the_device_of_a_queue_that_may_have_none_any_more() {
        for text in [
            include_str!("bpf/capture.bpf.c"),
            include_str!("bpf/capture_ring.h"),
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
    fn segments_that_are_not_a_power_of_two_are_a_broken_promise() {
        Geometry { segments: 12, ..geometry(96) }.check();
    }
}
