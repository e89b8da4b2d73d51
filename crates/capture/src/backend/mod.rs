//! Backends: ways of taking frames off one device.
//!
//! A backend is opened (everything that can be rejected is rejected then), attached (frames begin
//! to fill its rings) and detached. A reader thread empties each ring, a
//! [`RingConsumer`](crate::record::consumer::RingConsumer).

mod at;
pub(crate) mod filter;
pub(crate) mod hwtstamp;
pub(crate) mod nic_stats;
pub(crate) mod quiesce;
pub(crate) mod select;
mod tcpdump;
pub(crate) mod tpacket;
mod xdp;

use crate::memory::RingSize;
use crate::reader::AttachedRing;
use crate::sys::shared_ring;
use crate::{CaptureDirection, CaptureError, Fanout, Mode};
use bpf::capture::CaptureMemory;
use bpf::capture_at::AtPlace;
use bpf::xdp::{AttachedProgram, XdpLink, XdpMode};
use std::fmt;

/// How an XDP program is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpFacts {
    /// Native or generic.
    pub mode: XdpMode,
    /// Why not native, in the kernel's words.
    pub native_refusal: Option<String>,
}

impl From<&XdpLink> for XdpFacts {
    fn from(link: &XdpLink) -> Self {
        Self { mode: link.mode(), native_refusal: link.native_refusal().map(ToString::to_string) }
    }
}

impl fmt::Display for XdpFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.native_refusal {
            None => write!(f, "XDP, {}", self.mode),
            Some(refusal) => write!(f, "XDP, {}; native: {refusal}", self.mode),
        }
    }
}

/// How frames are taken off a device by packet sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpacketFacts {
    /// Number of rings, with a thread each.
    pub rings: u32,
    /// What decides which ring a frame goes to.
    pub fanout: Fanout,
    /// Which frames are seen.
    pub direction: CaptureDirection,
    /// Why not XDP, when that was not what was asked for.
    pub why: Option<String>,
}

impl fmt::Display for TpacketFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TPACKET_V3")?;
        if self.rings > 1 {
            write!(f, ", {} rings by {}", self.rings, self.fanout)?;
        }
        if self.direction != CaptureDirection::In {
            write!(f, ", direction {}", self.direction)?;
        }
        match &self.why {
            Some(why) => write!(f, "; not XDP: {why}"),
            None => Ok(()),
        }
    }
}

/// The XDP program that frames are recorded at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtFacts {
    /// Before it, behind it, or both.
    pub at: AtPlace,
    /// The program.
    pub program: AttachedProgram,
}

impl fmt::Display for AtFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.at {
            AtPlace::Entry => "before",
            AtPlace::Exit => "behind",
            AtPlace::Both => "before and behind",
        };
        let AttachedProgram { id, name, mode } = &self.program;
        write!(f, "{place} the XDP program {name} (id {id}, {mode})")
    }
}

/// How frames are taken off a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceFacts {
    /// By a program at the driver, or where the stack begins.
    Xdp(XdpFacts),
    /// By packet sockets, beside the stack.
    Tpacket(TpacketFacts),
    /// Around the XDP program of the device.
    At(AtFacts),
}

impl fmt::Display for SourceFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xdp(facts) => facts.fmt(f),
            Self::Tpacket(facts) => facts.fmt(f),
            Self::At(facts) => facts.fmt(f),
        }
    }
}

/// What one ring was offered, as the kernel counts it: `received = filtered + captured +
/// lost_ring`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingCounts {
    /// The CPU that fills the ring; of rings that belong to no CPU their number.
    pub(crate) cpu: u32,
    /// Frames that came.
    pub(crate) received: u64,
    /// Their lengths in bytes, without FCS; without those of frames of unknown length.
    pub(crate) received_bytes: u64,
    /// Frames that the filter turned away; `None` when the kernel does not count them.
    pub(crate) filtered: Option<u64>,
    /// Frames put into the ring.
    pub(crate) captured: u64,
    /// Frames lost because the ring was full.
    pub(crate) lost_ring: u64,
}

/// The counts of the rings of a program, and of CPUs without a ring that had frames. Of the records
/// of CPU n the process has rejected `rejected(n)`.
fn counts_of_rings(memory: &CaptureMemory, rejected: impl Fn(u32) -> u64) -> Vec<RingCounts> {
    let geometry = memory.geometry();
    let counts = (0..geometry.cpus).map(|cpu| {
        let (program, rejected) = (shared_ring::counts(memory, cpu), rejected(cpu));
        RingCounts {
            cpu,
            received: program.captured + program.lost_ring + program.filtered,
            received_bytes: program.frame_bytes,
            filtered: Some(program.filtered + rejected),
            captured: program.captured.saturating_sub(rejected),
            lost_ring: program.lost_ring,
        }
    });
    counts.filter(|counts| counts.cpu < geometry.rings || counts.received > 0).collect()
}

/// A way of taking frames off one device.
pub(crate) trait Backend: Send + Sync {
    /// Begins to fill rings, and gives them; called once. `utc_offset_ns` converts monotonic time
    /// to UTC now.
    fn attach(&mut self, utc_offset_ns: i64) -> Result<Vec<AttachedRing>, CaptureError>;

    /// How frames are taken; complete after `attach`.
    fn facts(&self) -> SourceFacts;

    /// Size of each ring; complete after `attach`.
    fn ring_size(&self) -> RingSize;

    /// Why frames get the kernel's time here, though the device's was to be had.
    fn stamps_refusal(&self) -> Option<String> {
        None
    }

    /// The id of the XDP program without which it sees nothing.
    fn needs_program(&self) -> Option<u32> {
        None
    }

    /// Changes what becomes of frames from now on. No frame is lost by it.
    fn set_mode(&self, mode: Mode) -> Result<(), CaptureError>;

    /// True when the device was deleted or left its namespace.
    fn is_gone(&self) -> bool;

    /// The counts of every ring in the order of `attach`; after these, of places that have no ring.
    /// Numbers are read one after the other while they move, `captured` not before the others.
    fn counts(&self) -> Vec<RingCounts>;

    /// Times that a ring became full, where the kernel counts that.
    fn freezes(&self) -> Option<u64> {
        None
    }

    /// Ends it: when this returns, nothing is added to the rings any more.
    fn detach(&mut self);
}
