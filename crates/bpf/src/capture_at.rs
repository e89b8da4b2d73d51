//! Loads the programs that record frames before and behind the XDP program of a device.
//!
//! They trace that program (fentry and fexit, Linux 5.5), which needs its BTF.

use crate::capture::{CaptureMemory, Geometry, shape_rings};
use crate::xdp::AttachedProgram;
use crate::{BpfError, log, skel, sys, xdp};
use libbpf_rs::btf::{Btf, BtfType, TypeId};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

const OBJECT: &str = "capture_at";

/// Where frames are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPlace {
    /// Before the program.
    Entry,
    /// Behind it, with its verdict.
    Exit,
    /// At both: each frame twice.
    Both,
}

impl AtPlace {
    fn is_before(self) -> bool {
        self != Self::Exit
    }

    fn is_behind(self) -> bool {
        self != Self::Entry
    }
}

/// Programs around the XDP program of a device. They record nothing until they are attached.
#[derive(Debug)]
pub struct CaptureAt {
    programs: Vec<OwnedFd>,
    links: Vec<OwnedFd>,
    memory: Arc<CaptureMemory>,
    traced: AttachedProgram,
}

impl CaptureAt {
    /// Loads programs for the XDP program that is on a device of the calling thread's network
    /// namespace, and creates their rings. The format of `geometry` has no meaning: they write
    /// records.
    ///
    /// # Errors
    /// [`BpfError::NoXdp`], [`BpfError::NotTraceable`] and [`BpfError::NoTracing`];
    /// [`BpfError::Load`], [`BpfError::MapMemory`], [`BpfError::XdpQuery`].
    ///
    /// # Panics
    /// If the geometry breaks the rules of [`Geometry`].
    pub fn load(geometry: Geometry, at: AtPlace, ifindex: u32, ifname: &str) -> Result<Self, BpfError> {
        geometry.check();
        let traced = xdp::programs(ifindex, ifname)?.into_iter().next();
        let traced = traced.ok_or_else(|| BpfError::NoXdp { ifname: ifname.to_owned() })?;
        let refuse = |why: String| not_traceable(&traced, ifname, why);
        let program = sys::program_by_id(traced.id).map_err(|error| refuse(error.to_string()))?;
        let function = function_name(traced.id, &program).map_err(|why| refuse(why.to_string()))?;
        let function = function.ok_or_else(|| refuse("it has no BTF".to_owned()))?;
        let netns = std::fs::metadata("/proc/thread-self/ns/net");
        let netns = netns.map_err(|error| refuse(error.to_string()))?.ino() as u32;
        let loaded = log::loading(OBJECT, || {
            let mut storage = MaybeUninit::uninit();
            let mut open = skel::capture_at::CaptureAtSkelBuilder::default().open(&mut storage)?;
            let settings = open.maps.rodata_data.as_deref_mut().expect("the programs have settings");
            settings.wr_snaplen = geometry.snaplen;
            settings.wr_segments = geometry.segments;
            settings.wr_segment_bits = geometry.segment_bytes.ilog2();
            settings.wr_ifindex = ifindex;
            settings.wr_netns = netns;
            let wanted =
                [(&mut open.progs.wr_at_entry, at.is_before()), (&mut open.progs.wr_at_exit, at.is_behind())];
            for (tracer, is_wanted) in wanted {
                tracer.set_autoload(is_wanted);
                tracer.set_attach_target(program.as_raw_fd(), Some(function.clone()))?;
            }
            open.maps.wr_capture_cpus.set_max_entries(geometry.cpus)?;
            shape_rings(&mut open.maps.wr_capture_rings, &geometry)?;
            let skel = open.load()?;
            let memory = CaptureMemory::map(
                geometry,
                skel.maps.wr_capture_cpus.as_fd(),
                skel.maps.wr_capture_rings.as_fd(),
            );
            let mut programs = Vec::new();
            if at.is_before() {
                programs.push(skel.progs.wr_at_entry.as_fd().try_clone_to_owned()?);
            }
            if at.is_behind() {
                programs.push(skel.progs.wr_at_exit.as_fd().try_clone_to_owned()?);
            }
            Ok((programs, memory))
        });
        let (programs, memory) = loaded.map_err(|error| match error {
            BpfError::Load { ref reason, .. } if error.is_denied() => {
                BpfError::NoTracing { reason: reason.clone() }
            }
            other => other,
        })?;
        Ok(Self { programs, links: Vec::new(), memory: Arc::new(memory?), traced })
    }

    /// Begins to record.
    ///
    /// # Errors
    /// [`BpfError::NotTraceable`] with the error of the kernel.
    pub fn attach(&mut self, ifname: &str) -> Result<(), BpfError> {
        for program in &self.programs {
            let link = sys::attach_tracing(program.as_fd())
                .map_err(|error| not_traceable(&self.traced, ifname, error.to_string()))?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Ends it. A frame that a program is recording on another CPU may follow.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// What the programs share with the readers of their rings.
    pub fn memory(&self) -> &Arc<CaptureMemory> {
        &self.memory
    }

    /// The program that is traced.
    pub fn traced(&self) -> &AttachedProgram {
        &self.traced
    }
}

fn not_traceable(traced: &AttachedProgram, ifname: &str, why: String) -> BpfError {
    BpfError::NotTraceable { ifname: ifname.to_owned(), name: traced.name.clone(), id: traced.id, why }
}

/// The whole name of the function of a program, which has more bytes than the name of the program
/// may have; `None` without BTF.
fn function_name(id: u32, program: &OwnedFd) -> io::Result<Option<String>> {
    let Some(function) = sys::program_function(program.as_fd())? else { return Ok(None) };
    let btf = Btf::from_prog_id(id).map_err(io::Error::other)?;
    let found: Option<BtfType<'_>> = btf.type_by_id(TypeId::from(function));
    Ok(found.and_then(|found| Some(found.name()?.to_string_lossy().into_owned())))
}
