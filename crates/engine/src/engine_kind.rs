//! Names of the engines.

use std::fmt;

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// Live frames of `BPF_PROG_RUN`, redirected to the driver.
    Xdp,
    /// AF_XDP sockets, one per queue.
    AfXdp,
    /// Clones of one skb, sent by a tc program under `BPF_PROG_RUN`.
    Skb,
    /// The transmit ring of a packet socket.
    AfPacket,
    /// Frames into memory.
    Mem,
}

impl EngineKind {
    /// Name in commands, reports and JSON.
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
