//! XDP programs on devices: query, attach, detach.
//!
//! Programs are attached as links, so the kernel detaches them when the process ends, however it
//! ends. All calls work in the network namespace of the calling thread.

use crate::filter::{self, LoadOptions};
use crate::{BpfError, sys};
use ::filter::Ebpf;
use libbpf_rs::OpenProgramMut;
use libbpf_sys::bpf_insn;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use crate::xdp_mode::XdpMode;

/// A program that is attached to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedProgram {
    /// For `bpftool prog show id`.
    pub id: u32,
    /// At most 15 bytes; `?` if it could not be read.
    pub name: String,
    /// How it is attached.
    pub mode: XdpMode,
}

/// Attach modes that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpModeChoice {
    /// Native, or generic if the driver does not support native.
    #[default]
    Best,
    /// Native or an error.
    Native,
    /// Generic or an error.
    Generic,
}

/// One program on one device. Dropping it detaches the program at once, even if a child process or
/// another process holds a descriptor of the link for a moment.
#[derive(Debug)]
pub struct XdpLink {
    link: DetachOnDrop,
    mode: XdpMode,
    native_refusal: Option<io::Error>,
    uses_metadata: bool,
}

impl XdpLink {
    /// The descriptor of the link.
    pub(crate) fn into_fd(mut self) -> OwnedFd {
        self.link.0.take().expect("it is taken once")
    }

    /// True when the program reads timestamps and VLAN tags from the driver.
    pub fn uses_metadata(&self) -> bool {
        self.uses_metadata
    }

    /// How the program is attached.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// False once the device is gone, and the program with it.
    pub fn is_attached(&self) -> bool {
        // If the query fails, nothing is known to have changed.
        sys::xdp_link_ifindex(self.link.as_fd()).map_or(true, |ifindex| ifindex != 0)
    }

    /// Why the native mode failed, if it was tried first.
    pub fn native_refusal(&self) -> Option<&io::Error> {
        self.native_refusal.as_ref()
    }
}

impl AsFd for XdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// Descriptor of a link that is detached on drop; `None` once it was taken.
#[derive(Debug)]
struct DetachOnDrop(Option<OwnedFd>);

impl AsFd for DetachOnDrop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("it is taken by value").as_fd()
    }
}

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            // Fails if the device is gone, which detaches as well.
            let _ = sys::link_detach(link.as_fd());
        }
    }
}

/// A loaded program in its two forms, not attached yet.
#[derive(Debug)]
pub(crate) struct LoadedProgram {
    /// For frames without frags.
    pub(crate) linear: OwnedFd,
    /// For multi-buffer frames, if the kernel supports them (Linux 5.18).
    pub(crate) frags: Option<OwnedFd>,
    /// Both forms, bound to one device and reading metadata of its driver; empty if that was not
    /// requested.
    pub(crate) bound: Vec<OwnedFd>,
}

impl LoadedProgram {
    /// Keeps the programs of a libbpf object, which is closed after this.
    pub(crate) fn keep(linear: BorrowedFd<'_>, frags: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let frags = frags.map(|frags| frags.try_clone_to_owned()).transpose()?;
        Ok(Self { linear: linear.try_clone_to_owned()?, frags, bound: Vec::new() })
    }

    /// Keeps programs that are bound to a device, too.
    pub(crate) fn keep_bound(&mut self, programs: [BorrowedFd<'_>; 2]) -> io::Result<()> {
        self.bound = programs.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Loads both forms again, with a filter in place of `wr_filter`.
    pub(crate) fn insert_filter(
        &mut self,
        filter: &[Ebpf],
        [linear, frags]: [&[bpf_insn]; 2],
        options: LoadOptions,
        frags_name: &'static CStr,
    ) -> Result<(), BpfError> {
        self.linear = filter::load(linear, filter, options)?;
        if let Some(kept) = &mut self.frags {
            *kept = filter::load(frags, filter, LoadOptions { name: frags_name, frags: true, ..options })?;
        }
        Ok(())
    }

    /// The form for multi-buffer frames.
    pub(crate) fn frags(&self) -> Option<BorrowedFd<'_>> {
        self.frags.as_ref().map(AsFd::as_fd)
    }

    /// Attaches the program to a device that has none; `ifname` is for messages. Programs that are
    /// bound to this device are tried first.
    pub(crate) fn attach(
        &self,
        ifindex: u32,
        ifname: &str,
        mode: XdpModeChoice,
    ) -> Result<XdpLink, BpfError> {
        let bound: Vec<BorrowedFd<'_>> = self.bound.iter().map(AsFd::as_fd).collect();
        // The generic hook rejects bound programs.
        if !bound.is_empty()
            && mode != XdpModeChoice::Generic
            && let Ok(link) = attach(&bound, ifindex, ifname, XdpModeChoice::Native)
        {
            return Ok(XdpLink { uses_metadata: true, ..link });
        }
        let forms: Vec<_> = [Some(self.linear.as_fd()), self.frags()].into_iter().flatten().collect();
        attach(&forms, ifindex, ifname, mode)
    }
}

/// Before load: binds a program to a device so that it may read metadata of its driver (Linux 6.3),
/// or leaves it out.
pub(crate) fn bind(program: &mut OpenProgramMut<'_>, ifindex: Option<u32>) {
    program.set_autoload(ifindex.is_some());
    if let Some(ifindex) = ifindex {
        program.set_ifindex(ifindex);
        program.set_flags(libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY);
    }
}

/// The XDP programs on a device.
///
/// # Errors
/// [`BpfError::XdpQuery`] when there is no device with this index here.
pub fn programs(ifindex: u32, ifname: &str) -> Result<Vec<AttachedProgram>, BpfError> {
    let ids = sys::xdp_query(ifindex.cast_signed())
        .map_err(|source| BpfError::XdpQuery { ifname: ifname.to_owned(), source })?;
    let slots =
        [(ids.native, XdpMode::Native), (ids.generic, XdpMode::Generic), (ids.offloaded, XdpMode::Offloaded)];
    let taken = slots.into_iter().filter(|(id, _)| *id != 0);
    Ok(taken
        .map(|(id, mode)| AttachedProgram {
            id,
            name: sys::program_name(id).unwrap_or_else(|_| "?".to_owned()),
            mode,
        })
        .collect())
}

/// Attaches one of `programs` to a device that has none; `ifname` is for messages. Native mode
/// tries the first one first. Generic mode tries the last one first: with a multi-buffer program it
/// does not linearize the skb. Drivers with a large MTU reject programs without multi-buffer
/// support.
///
/// # Errors
/// [`BpfError::XdpBusy`] if a program is attached, [`BpfError::XdpAttach`] with the error of each
/// mode that was tried.
///
/// # Panics
/// Without programs.
pub fn attach(
    programs: &[BorrowedFd<'_>],
    ifindex: u32,
    ifname: &str,
    mode: XdpModeChoice,
) -> Result<XdpLink, BpfError> {
    refuse_if_busy(ifindex, ifname)?;
    let native = || first_accepted(programs.iter(), ifindex, libbpf_sys::XDP_FLAGS_DRV_MODE);
    let native_refusal = match (mode != XdpModeChoice::Generic).then(native) {
        Some(Ok(link)) => {
            let link = DetachOnDrop(Some(link));
            return Ok(XdpLink { link, mode: XdpMode::Native, native_refusal: None, uses_metadata: false });
        }
        Some(Err(refusal)) => Some(refusal),
        None => None,
    };
    let generic = || first_accepted(programs.iter().rev(), ifindex, libbpf_sys::XDP_FLAGS_SKB_MODE);
    let generic_refusal = match (mode != XdpModeChoice::Native).then(generic) {
        Some(Ok(link)) => {
            let link = DetachOnDrop(Some(link));
            return Ok(XdpLink { link, mode: XdpMode::Generic, native_refusal, uses_metadata: false });
        }
        Some(Err(refusal)) => Some(refusal),
        None => None,
    };
    let text =
        |refusal: &Option<io::Error>| refusal.as_ref().map_or("not tried".to_owned(), io::Error::to_string);
    Err(BpfError::XdpAttach {
        ifname: ifname.to_owned(),
        native: text(&native_refusal),
        generic: text(&generic_refusal),
        source: generic_refusal.or(native_refusal).expect("each choice tries a mode"),
    })
}

/// A link of the first program that the device accepts, or the last error.
fn first_accepted<'a>(
    programs: impl Iterator<Item = &'a BorrowedFd<'a>>,
    ifindex: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut refusal = None;
    for program in programs {
        match sys::xdp_link(*program, ifindex.cast_signed(), flags) {
            Ok(link) => return Ok(link),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.expect("there is a program"))
}

/// Prefix of the names of our programs.
const OURS: &str = "wr_";

/// Detaches our programs that were attached without a link, such as by `ip link`. Programs that a
/// link keeps attached stay, and so do all other programs.
///
/// # Errors
/// [`BpfError::XdpQuery`].
pub fn remove_ours(ifindex: u32, ifname: &str) -> Result<(), BpfError> {
    for found in programs(ifindex, ifname)? {
        if found.name.starts_with(OURS) {
            // The kernel rejects this while a link holds the program; attaching then reports the
            // device as busy.
            let _ = sys::xdp_detach(ifindex.cast_signed(), found.id, found.mode.flag());
        }
    }
    Ok(())
}

/// Checks that a device has no XDP program.
///
/// # Errors
/// [`BpfError::XdpBusy`] if it has one, [`BpfError::XdpQuery`].
pub fn refuse_if_busy(ifindex: u32, ifname: &str) -> Result<(), BpfError> {
    match programs(ifindex, ifname)?.into_iter().next() {
        None => Ok(()),
        Some(AttachedProgram { id, name, mode }) => {
            Err(BpfError::XdpBusy { ifname: ifname.to_owned(), name, id, mode })
        }
    }
}
