//! Loads the capture program and maps what it shares: one ring and one page of counters for each CPU.
//!
//! Shapes only: how large, where, since when. Reading a ring and what a record means are the business of the
//! `capture` room.

use crate::abi::{AskFlag, CaptureCpu, Slot};
use crate::filter::Wish;
use crate::sys::MapMemory;
use crate::xdp::{self, ModeWish, XdpLink};
use crate::{BpfError, log, skel};
use filter::Ebpf;
use libbpf_rs::OpenMapMut;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_sys::bpf_insn;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

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

/// What the driver of one device is asked about each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The device, in the network namespace of the calling thread. The program that asks works nowhere else.
    pub ifindex: u32,
    /// When the device saw the frame, by its own clock (Linux 6.3).
    pub time: bool,
    /// The VLAN tag that it took off (Linux 6.8).
    pub vlan: bool,
}

impl Ask {
    fn bits(&self) -> u32 {
        let bit = |is_asked, bit| if is_asked { bit } else { 0 };
        bit(self.time, AskFlag::WR_ASK_TIME.0) | bit(self.vlan, AskFlag::WR_ASK_VLAN.0)
    }
}

/// The program in the kernel, with its memory mapped here. Nothing is captured until it is attached.
#[derive(Debug)]
pub struct CaptureProgram {
    /// For frames in one piece.
    program: OwnedFd,
    /// For frames in several pieces, where the kernel knows those.
    program_for_pieces: Option<OwnedFd>,
    /// The same two, for the one device whose driver they ask.
    bound: Vec<OwnedFd>,
    ask_refusal: Option<String>,
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
        Self::load_asking(geometry, filter, None)
    }

    /// As [`CaptureProgram::load_filtered`], and asks the driver of a device about each frame. Kernels and drivers that
    /// cannot be asked are no error: [`CaptureProgram::ask_refusal`] tells.
    ///
    /// # Errors
    /// As [`CaptureProgram::load_filtered`].
    ///
    /// # Panics
    /// When the geometry is not as [`Geometry`] says.
    pub fn load_asking(
        geometry: Geometry,
        filter: Option<&[Ebpf]>,
        ask: Option<Ask>,
    ) -> Result<Self, BpfError> {
        geometry.check();
        let asked = ask.filter(|ask| ask.bits() != 0).map(|ask| load(&geometry, filter, true, Some(ask)));
        let (asked, ask_refusal) = match asked.transpose() {
            Ok(asked) => (asked, None),
            Err(refusal) => (None, Some(refusal.to_string())),
        };
        let Loaded { program, program_for_pieces, bound, cpus, rings } = match asked {
            Some(loaded) => loaded,
            // Before Linux 5.18 there are no frames in pieces, and no program for them.
            None => load(&geometry, filter, true, None)
                .or_else(|error| load(&geometry, filter, false, None).map_err(|_| error))?,
        };
        let cpus_bytes = geometry.cpus as usize * size_of::<CaptureCpu>();
        let rings_bytes = geometry.rings as usize * geometry.ring_size_bytes();
        Ok(Self {
            program,
            program_for_pieces,
            bound,
            ask_refusal,
            geometry,
            cpus: map(&cpus, "wr_capture_cpus", cpus_bytes, true)?,
            rings: map(&rings, "wr_capture_rings", rings_bytes, false)?,
        })
    }

    /// Why the driver is not asked, although that was wished: what the verifier said.
    pub fn ask_refusal(&self) -> Option<&str> {
        self.ask_refusal.as_deref()
    }

    /// The shape it was loaded with.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Attaches it to a device of the calling thread's network namespace. Where it asks the driver, that must be the
    /// device that it was loaded for.
    ///
    /// # Errors
    /// As [`xdp::attach`].
    pub fn attach(&self, ifindex: u32, ifname: &str, wish: ModeWish) -> Result<XdpLink, BpfError> {
        for cpu in 0..self.geometry.cpus as usize {
            let place = cpu * size_of::<CaptureCpu>() + offset_of!(CaptureCpu, ifindex);
            self.cpus.atomic_u32(place).store(ifindex, Relaxed);
        }
        let bound: Vec<BorrowedFd<'_>> = self.bound.iter().map(AsFd::as_fd).collect();
        // The generic hook takes no bound program.
        if !bound.is_empty()
            && wish != ModeWish::Generic
            && let Ok(link) = xdp::attach(&bound, ifindex, ifname, ModeWish::Native)
        {
            return Ok(link.asking());
        }
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
    bound: Vec<OwnedFd>,
    cpus: OwnedFd,
    rings: OwnedFd,
}

fn load(
    geometry: &Geometry,
    filter: Option<&[Ebpf]>,
    for_pieces: bool,
    ask: Option<Ask>,
) -> Result<Loaded, BpfError> {
    let (loaded, log) = log::collect(|| load_fds(geometry, filter, for_pieces, ask));
    loaded.map_err(|error| BpfError::Load { object: OBJECT, reason: error.to_string(), log })?
}

/// The inner error is that of the filter.
fn load_fds(
    geometry: &Geometry,
    filter: Option<&[Ebpf]>,
    for_pieces: bool,
    ask: Option<Ask>,
) -> libbpf_rs::Result<Result<Loaded, BpfError>> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::capture::CaptureSkelBuilder::default().open(&mut storage)?;
    let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
    settings.wr_snaplen = geometry.snaplen;
    settings.wr_ring_slots = geometry.slots;
    settings.wr_is_filtered = filter.is_some();
    settings.wr_ask = ask.map_or(0, |ask| ask.bits());
    open.progs.wr_capture_all.set_autoload(for_pieces);
    for bound in [&mut open.progs.wr_capture_hw, &mut open.progs.wr_capture_hwall] {
        bound.set_autoload(ask.is_some());
        if let Some(ask) = ask {
            bound.set_ifindex(ask.ifindex);
            bound.set_flags(libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY);
        }
    }
    open.maps.wr_capture_cpus.set_max_entries(geometry.cpus)?;
    shape_rings(&mut open.maps.wr_capture_rings, geometry)?;
    let skel = open.load()?;
    let keep = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
    let bound = match ask {
        None => Vec::new(),
        Some(_) => vec![keep(skel.progs.wr_capture_hw.as_fd())?, keep(skel.progs.wr_capture_hwall.as_fd())?],
    };
    let mut loaded = Loaded {
        program: keep(skel.progs.wr_capture.as_fd())?,
        program_for_pieces: for_pieces.then(|| keep(skel.progs.wr_capture_all.as_fd())).transpose()?,
        bound,
        cpus: keep(skel.maps.wr_capture_cpus.as_fd())?,
        rings: keep(skel.maps.wr_capture_rings.as_fd())?,
    };
    let Some(filter) = filter else { return Ok(Ok(loaded)) };
    let plain = [skel.progs.wr_capture.insns(), skel.progs.wr_capture_all.insns()];
    let asking = [skel.progs.wr_capture_hw.insns(), skel.progs.wr_capture_hwall.insns()];
    let put_in = loaded.put_in(filter, plain).and_then(|()| match ask {
        None => Ok(()),
        Some(ask) => loaded.put_in_bound(filter, asking, ask.ifindex),
    });
    Ok(put_in.map(|()| loaded))
}

impl Loaded {
    /// Loads the programs again, with a filter.
    fn put_in(&mut self, filter: &[Ebpf], [program, for_pieces]: [&[bpf_insn]; 2]) -> Result<(), BpfError> {
        let wish = Wish { name: c"wr_capture", for_pieces: false, bound_to: 0 };
        self.program = crate::filter::load(program, filter, wish)?;
        if let Some(kept) = &mut self.program_for_pieces {
            let wish = Wish { name: c"wr_capture_all", for_pieces: true, bound_to: 0 };
            *kept = crate::filter::load(for_pieces, filter, wish)?;
        }
        Ok(())
    }

    /// The same with those that are bound to a device.
    fn put_in_bound(
        &mut self,
        filter: &[Ebpf],
        [program, for_pieces]: [&[bpf_insn]; 2],
        bound_to: u32,
    ) -> Result<(), BpfError> {
        let one = Wish { name: c"wr_capture_hw", for_pieces: false, bound_to };
        let all = Wish { name: c"wr_capture_hwal", for_pieces: true, bound_to };
        let loaded = [(program, one), (for_pieces, all)];
        self.bound = loaded
            .into_iter()
            .map(|(program, wish)| crate::filter::load(program, filter, wish))
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

    /// A veth with GRO that loses its program under load had the kernel read it through a null pointer.
    #[test]
    fn no_program_asks_for_the_device_of_a_queue_that_may_have_none_any_more() {
        for text in [
            include_str!("bpf/capture.bpf.c"),
            include_str!("bpf/send.bpf.c"),
            include_str!("bpf/sink.bpf.c"),
            include_str!("bpf/frame.h"),
        ] {
            let is_code = |line: &&str| !line.trim_start().starts_with("/*");
            let asks = |line: &&str| is_code(line) && line.contains("ingress_ifindex");
            assert_eq!(text.lines().find(asks), None);
        }
    }

    #[test]
    #[should_panic(expected = "no power of two")]
    fn slots_that_are_no_power_of_two_are_a_broken_promise() {
        Geometry { slots: 12, ..geometry(96) }.check();
    }
}
