//! XDP programs on devices: what is there, and how ours gets there and away again.
//!
//! Ours is attached as a link, so the kernel takes it off when the process ends, however it ends. All calls work
//! in the network namespace of the calling thread.

use crate::BpfError;
use crate::sys;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Where on its way a frame meets the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel spends anything on the frame.
    Native,
    /// In the stack, for any driver: each frame is an skb by then.
    Generic,
    /// On the card.
    Offloaded,
}

impl XdpMode {
    fn flag(self) -> u32 {
        match self {
            Self::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Self::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
            Self::Offloaded => libbpf_sys::XDP_FLAGS_HW_MODE,
        }
    }
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
        })
    }
}

/// A program found on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// For `bpftool prog show id`.
    pub id: u32,
    /// At most 15 bytes; `?` when the kernel would not tell.
    pub name: String,
    /// How it is attached.
    pub mode: XdpMode,
}

/// Which of the two modes may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModeWish {
    /// Native, and generic where the driver cannot.
    #[default]
    Best,
    /// Native or an error.
    Native,
    /// Generic or an error.
    Generic,
}

/// One program on one device; dropping it takes the program off at once, also where a child that is about to start or
/// somebody who looks through all links has a descriptor of it for a moment.
#[derive(Debug)]
pub struct XdpLink {
    link: Held,
    mode: XdpMode,
    native_refusal: Option<io::Error>,
    asks: bool,
}

impl XdpLink {
    /// The link of a program that asks the driver.
    pub(crate) fn asking(self) -> Self {
        Self { asks: true, ..self }
    }

    /// What the kernel knows the link by.
    pub(crate) fn into_fd(mut self) -> OwnedFd {
        self.link.0.take().expect("it is taken once")
    }

    /// True when the program asks the driver about the hardware's time stamps and tags.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// How the program is attached.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// False once the device is gone, and the program with it.
    pub fn is_attached(&self) -> bool {
        // No answer is no reason to believe that anything has changed.
        sys::xdp_link_ifindex(self.link.as_fd()).map_or(true, |ifindex| ifindex != 0)
    }

    /// Why it is not native, when that was tried first.
    pub fn native_refusal(&self) -> Option<&io::Error> {
        self.native_refusal.as_ref()
    }
}

impl AsFd for XdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// The descriptor of a link that is detached when it is dropped; `None` once it was taken.
#[derive(Debug)]
struct Held(Option<OwnedFd>);

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("it is taken by value").as_fd()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            // Where the device is gone there is nothing to detach from.
            let _ = sys::link_detach(link.as_fd());
        }
    }
}

/// The XDP programs on a device.
///
/// # Errors
/// [`BpfError::XdpQuery`] when there is no device with this index here.
pub fn programs(ifindex: u32, ifname: &str) -> Result<Vec<Found>, BpfError> {
    let ids = sys::xdp_query(ifindex.cast_signed())
        .map_err(|source| BpfError::XdpQuery { ifname: ifname.to_owned(), source })?;
    let places =
        [(ids.native, XdpMode::Native), (ids.generic, XdpMode::Generic), (ids.offloaded, XdpMode::Offloaded)];
    let taken = places.into_iter().filter(|(id, _)| *id != 0);
    Ok(taken
        .map(|(id, mode)| Found { id, name: sys::program_name(id).unwrap_or_else(|_| "?".to_owned()), mode })
        .collect())
}

/// Attaches one of `programs` to a device that has none; `ifname` is for messages. The first program is the one to
/// prefer, the last the one that can do most: drivers with a large MTU refuse programs that expect each frame in
/// one piece, and the generic hook spares itself a copy with one that does not.
///
/// # Errors
/// [`BpfError::XdpBusy`] when a program is there, [`BpfError::XdpAttach`] with what the kernel said about each mode
/// that was tried.
///
/// # Panics
/// Without programs.
pub fn attach(
    programs: &[BorrowedFd<'_>],
    ifindex: u32,
    ifname: &str,
    wish: ModeWish,
) -> Result<XdpLink, BpfError> {
    refuse_if_busy(ifindex, ifname)?;
    let native = || first_taken(programs.iter(), ifindex, libbpf_sys::XDP_FLAGS_DRV_MODE);
    let native_refusal = match (wish != ModeWish::Generic).then(native) {
        Some(Ok(link)) => {
            let link = Held(Some(link));
            return Ok(XdpLink { link, mode: XdpMode::Native, native_refusal: None, asks: false });
        }
        Some(Err(refusal)) => Some(refusal),
        None => None,
    };
    let generic = || first_taken(programs.iter().rev(), ifindex, libbpf_sys::XDP_FLAGS_SKB_MODE);
    let generic_refusal = match (wish != ModeWish::Native).then(generic) {
        Some(Ok(link)) => {
            let link = Held(Some(link));
            return Ok(XdpLink { link, mode: XdpMode::Generic, native_refusal, asks: false });
        }
        Some(Err(refusal)) => Some(refusal),
        None => None,
    };
    let said =
        |refusal: &Option<io::Error>| refusal.as_ref().map_or("not tried".to_owned(), io::Error::to_string);
    Err(BpfError::XdpAttach {
        ifname: ifname.to_owned(),
        native: said(&native_refusal),
        generic: said(&generic_refusal),
        source: generic_refusal.or(native_refusal).expect("every wish tries a mode"),
    })
}

/// A link of the first program that the device takes, or why it took none.
fn first_taken<'a>(
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

/// What the names of all our programs begin with.
const OURS: &str = "wr_";

/// Takes programs of ours off a device that nobody holds any more: attached without a link, as by `ip link`. One
/// that a running process holds by a link stays, and so does every other program.
///
/// # Errors
/// [`BpfError::XdpQuery`].
pub fn remove_ours(ifindex: u32, ifname: &str) -> Result<(), BpfError> {
    for found in programs(ifindex, ifname)? {
        if found.name.starts_with(OURS) {
            // Refused by the kernel while a link holds it; whoever wants the device is told then that it is taken.
            let _ = sys::xdp_detach(ifindex.cast_signed(), found.id, found.mode.flag());
        }
    }
    Ok(())
}

/// Looks whether a device is free for a program.
///
/// # Errors
/// [`BpfError::XdpBusy`] when it has one, [`BpfError::XdpQuery`].
pub fn refuse_if_busy(ifindex: u32, ifname: &str) -> Result<(), BpfError> {
    match programs(ifindex, ifname)?.into_iter().next() {
        None => Ok(()),
        Some(Found { id, name, mode }) => {
            Err(BpfError::XdpBusy { ifname: ifname.to_owned(), name, id, mode })
        }
    }
}
