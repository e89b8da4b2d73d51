//! The one small trait: a way of putting the frames of a plan on one queue.

use crate::EngineError;
use packet::Cursor;
use std::fmt;
use std::num::NonZeroU32;

/// The ways there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// Live frames of `BPF_PROG_RUN`, redirected to the driver.
    Xdp,
    /// AF_XDP sockets, one a queue.
    AfXdp,
    /// Clones of one skb, handed on by a tc program under `BPF_PROG_RUN`.
    Skb,
    /// The transmit ring of a packet socket.
    AfPacket,
    /// Frames into memory.
    Mem,
}

impl EngineKind {
    /// Its name in commands, reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::AfXdp => "af_xdp",
            Self::Skb => "skb",
            Self::AfPacket => "af_packet",
            Self::Mem => "mem",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What became of the frames of one burst. `sent` + `errors` = offered, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Accepted by the driver.
    pub sent: u64,
    /// Not accepted, by cause.
    pub errors: Errors,
    /// Lengths of all frames offered, in bytes without FCS.
    pub frame_bytes: u64,
    /// Times that a frame found no room and was kept, to be offered again as the same frame. No frame is lost or
    /// counted by this.
    pub retries: u64,
}

impl Burst {
    /// Frames that the engine tried to send.
    pub fn offered(&self) -> u64 {
        self.sent + self.errors.total()
    }

    /// Adds what another burst did.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.frame_bytes += other.frame_bytes;
        self.retries += other.retries;
        self.errors.add(&other.errors);
    }
}

/// Frames offered and not sent, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// The driver's ring had no room.
    pub ring_full: u64,
    /// The driver refused a whole bulk with an error.
    pub refused: u64,
    /// The last such error as a positive errno, 0 for none.
    pub last_errno: i32,
    /// The kernel dropped them before the driver saw them.
    pub not_handed_over: u64,
    /// The queueing discipline dropped them, or others in their place.
    pub qdisc_dropped: u64,
    /// The kernel found their descriptors invalid, which is a mistake of ours.
    pub invalid: u64,
}

impl Errors {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.ring_full + self.refused + self.not_handed_over + self.qdisc_dropped + self.invalid
    }

    /// True when some frames met more than a full ring.
    pub fn is_serious(&self) -> bool {
        self.refused + self.not_handed_over + self.qdisc_dropped + self.invalid > 0
    }

    fn add(&mut self, other: &Self) {
        self.ring_full += other.ring_full;
        self.refused += other.refused;
        self.not_handed_over += other.not_handed_over;
        self.qdisc_dropped += other.qdisc_dropped;
        self.invalid += other.invalid;
        if other.last_errno != 0 {
            self.last_errno = other.last_errno;
        }
    }
}

/// One way to put frames on one device. Starts no threads, prints nothing, and comes back within the time that
/// its budget takes.
pub trait Engine {
    /// Which one it is.
    fn kind(&self) -> EngineKind;

    /// The device it sends to, for messages.
    fn device_name(&self) -> String;

    /// Sends up to `budget` frames of the plan it was built with. A frame that the driver does not take is
    /// either kept and offered again by the next call (`retries`), or counted by cause (`errors`) when the
    /// plan has moved on.
    ///
    /// # Errors
    /// When nothing was sent and nothing can be. A frame that is still kept was not offered.
    fn send_burst(&mut self, budget: NonZeroU32) -> Result<Burst, EngineError>;

    /// Why frames were refused, asked of the kernel after a burst with serious errors; `None` when the device
    /// looks able to send.
    fn explain(&mut self, errors: &Errors) -> Option<EngineError>;

    /// Waits a little for frames that were sent and are still on their way to the wire, where the end of the engine
    /// would lose them. Returns how many it loses: of `sent`, not handed over.
    fn finish(&mut self) -> u64 {
        0
    }

    /// True when a full ring is better left alone for a while: what empties it may need the processor.
    fn rests(&self) -> bool {
        false
    }

    /// What a user should know of how the frames went out, beside their counts.
    fn note(&self) -> Option<String> {
        None
    }

    /// True once it can send as fast as it ever will. The first call begins what that takes; before, it sends as well.
    fn is_ready(&mut self) -> bool {
        true
    }

    /// Where the next frame starts from.
    fn cursor(&self) -> Cursor;

    /// The frames that share one reading of the clock. Engines that read it for each frame
    /// anyway ignore it.
    fn set_clock_sharing(&mut self, _frames: u32) {}
}
