//! Errors of this crate.

use crate::output::names::PatternError;
use crate::output::rotate::PolicyError;
use bpf::BpfError;
use filter::FilterError;
use host::{HostError, LinkLayer};
use std::io;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum CaptureError {
    /// The control group has too little memory.
    #[error(
        "the control group may have {limit_kib} KiB of memory, and a capture needs at least {needed_mib} MiB (MemoryMax= of \
         a systemd unit)"
    )]
    LittleMemory { limit_kib: u64, needed_mib: u64 },
    /// A filter that only packet sockets can run.
    #[error("XDP cannot run the filter '{expression}': {why}")]
    FilterNeedsSockets { expression: String, why: &'static str },
    /// A filter that asks what a file does not tell.
    #[error(
        "the filter '{expression}' asks for the direction or the device, which is not in a frame of a file"
    )]
    FilterOfFile { expression: String },
    /// An option makes no sense.
    #[error("{what} is {value}, but must be {must}")]
    BadOption { what: &'static str, value: u64, must: String },
    /// The device or its namespace.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The XDP program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Frames of this device do not begin as a capture file would have to say.
    #[error("{ifname} has frames of a kind that cannot be captured ({layer:?})")]
    LinkLayer { ifname: String, layer: LinkLayer },
    /// A device is to be captured twice, perhaps by two of its names.
    #[error("{ifname} is named twice: each of its frames would come twice")]
    NamedTwice { ifname: String },
    /// The last device of a group is gone again.
    #[error("no device has a name like {group} any more")]
    NoDeviceOfGroup { group: String },
    /// Devices of a group have times of their clocks; this one's clock cannot be read.
    #[error("{ifname} stamps frames by a clock that cannot be read: {why}")]
    ClockOfGroup { ifname: String, why: String },
    /// Drop mode was asked of packet sockets, which only get copies.
    #[error("packet sockets cannot keep frames of {ifname} from the host: drop mode needs XDP")]
    DropNeedsXdp { ifname: String },
    /// Drop mode was asked of a capture at the XDP program of a device.
    #[error("the XDP program of {ifname} decides what becomes of its frames; they are only recorded")]
    DropAtProgram { ifname: String },
    /// An interface for each receive queue was asked of packet sockets.
    #[error("packet sockets cannot tell the {queues} receive queues of {ifname} apart")]
    QueuesUntold { ifname: String, queues: u32 },
    /// Frames that the host sends were asked of XDP.
    #[error("XDP on {ifname} sees incoming frames only")]
    OnlyIncoming { ifname: String },
    /// A packet socket could not be made or used.
    #[error("cannot {act} {ifname}")]
    PacketSocket { ifname: String, act: &'static str, source: io::Error },
    /// A filter needs libpcap or tcpdump, and neither is here.
    #[error("filters are compiled by libpcap or tcpdump, and neither is here: {reason}")]
    NoFilterCompiler { reason: String },
    /// libpcap does not understand a filter.
    #[error("the filter {expression:?} is not understood: {reason}")]
    Filter { expression: String, reason: String },
    /// libpcap understands a filter, but no kernel could run it.
    #[error("the filter {expression:?} cannot be applied to a running capture")]
    FilterProgram { expression: String, source: FilterError },
    /// libpcap needs too much time for a filter.
    #[error("the filter {expression:?} is too long: libpcap needs too much time to compile it")]
    FilterTakesLong { expression: String },
    /// The user has asked to end before the first frame.
    #[error("it was told to end while {during}")]
    Interrupted { during: &'static str },
    /// The capture file could not be made.
    #[error("cannot create the capture file {name}")]
    Create { name: String, source: io::Error },
    /// The capture file did not take more. It ends with the last whole block.
    #[error("cannot write to {name} after {len} bytes")]
    Write { name: String, len: u64, source: io::Error },
    /// A complete file could not be given its name.
    #[error("cannot rename {part} to {name}")]
    Rename { part: String, name: String, source: io::Error },
    /// An old file of a ring of files could not be removed.
    #[error("cannot remove {name}")]
    Remove { name: String, source: io::Error },
    /// The name of the files is no pattern.
    #[error(transparent)]
    Name(#[from] PatternError),
    /// The name of a file is not text, so nothing can be put into it.
    #[error("the name {name} is no text that a number could be put into")]
    NotText { name: String },
    /// Options for files that contradict each other.
    #[error(transparent)]
    Rotate(#[from] PolicyError),
    /// Options of which only one is possible.
    #[error("{what} cannot be combined with {other}")]
    Contradiction { what: &'static str, other: &'static str },
    /// This build has no Parquet.
    #[error("this build of wirerate was made without the feature \"export\", which writes Parquet")]
    NoParquet,
    /// The device could stamp frames, and does not.
    #[error("{device} stamps no received frames now")]
    NotStamping { device: String },
    /// The device stamps frames, but its driver does not pass the stamps to XDP programs.
    #[error("XDP does not get the time stamps of {ifname}: {why}")]
    NoStampsByXdp { ifname: String, why: String },
    /// The clock of a device cannot be read.
    #[error("cannot read the clock /dev/ptp{index}")]
    PhcRead { index: u32, source: io::Error },
    /// The UTC cannot be stored in a capture file.
    #[error(
        "the system clock is outside of the years 1970 to 2262 ({seconds} s since 1970), which capture files hold"
    )]
    TimeOfDay { seconds: i64 },
    /// There is no such user.
    #[error("there is no user {name} here")]
    NoUser { name: String },
    /// The process may not become another user.
    #[error("cannot become the user {name}")]
    RunAs { name: String, source: io::Error },
    /// No thread for a part of the work.
    #[error("cannot start a thread for {what}")]
    Thread { what: String, source: io::Error },
}

/// An error and what caused it.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    first_line(&chain.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}

/// The verifier says a lot; its first line is the reason.
pub(crate) fn first_line(reason: &str) -> String {
    reason.lines().next().unwrap_or_default().to_owned()
}

impl CaptureError {
    /// True if another program has the device: it is free when that program ends.
    pub fn is_device_busy(&self) -> bool {
        matches!(self, Self::Bpf(BpfError::XdpBusy { .. }))
    }

    /// True when what was asked makes no sense on any device.
    pub fn is_bad_usage(&self) -> bool {
        matches!(
            self,
            Self::BadOption { .. }
                | Self::NoParquet
                | Self::NamedTwice { .. }
                | Self::Filter { .. }
                | Self::FilterProgram { .. }
                | Self::FilterTakesLong { .. }
                | Self::FilterNeedsSockets { .. }
                | Self::FilterOfFile { .. }
                | Self::Name(_)
                | Self::NotText { .. }
                | Self::NoUser { .. }
                | Self::Rotate(_)
                | Self::Contradiction { .. }
        )
    }

    /// True when the reader of a pipe went away.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// True when the capture ended while the reader of a pipe had stopped reading, or a FIFO had
    /// none.
    pub fn is_blocked_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }
}
