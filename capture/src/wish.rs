//! What a user can wish about where frames are taken off a device.

use std::fmt;

/// Which of the two ways is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceWish {
    /// XDP, and packet sockets where XDP cannot see or do what is asked for.
    #[default]
    Best,
    /// XDP or an error.
    Xdp,
    /// Packet sockets or an error.
    Tpacket,
}

/// Whose clock gives the times of frames, and what is made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockWish {
    /// The device's where it stamps frames, as time of day; the kernel's for all others.
    #[default]
    Utc,
    /// The device's as it is, for the frames that it stamps; a device that stamps none is an error.
    Phc,
    /// The kernel's for every frame.
    System,
}

/// Frames on their way to the host, from it, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Frames that the device received.
    #[default]
    In,
    /// Frames that the host sends.
    Out,
    /// Both; on the loopback device, where each frame is sent and received, every frame once.
    Both,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Both => "both",
        })
    }
}

/// What decides which of several packet sockets gets a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// The CPU that handles it, as with XDP.
    #[default]
    Cpu,
    /// Its addresses and ports: spreads the frames of a device with one queue, and keeps those of a flow together.
    Hash,
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Hash => "flow hash",
        })
    }
}
