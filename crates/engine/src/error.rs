//! Errors of engines and runs.

use crate::engine_kind::EngineKind;
use bpf::BpfError;
use host::{CommandPlace, HostError};
use std::io;

/// Errors of this crate. `Display` names act and object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum EngineError {
    /// An error of the host that concerns every engine.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A BPF program could not be loaded or attached.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The program of the xdp engine could not be attached, so that each call would take two RCU
    /// grace periods.
    #[error("the xdp engine cannot attach its program to a device of its own")]
    XdpAttach { source: HostError },
    /// A system call of an engine failed.
    #[error("{call} for {ifname} failed")]
    Syscall { call: &'static str, ifname: String, source: io::Error },
    /// The thread of a run panicked, which is a bug.
    #[error("the sending thread panicked")]
    ThreadLost,
    /// The engines were ready only after the requested time, so nothing was sent.
    #[error("everything was ready {:.3} s too late", *late_ns as f64 / 1e9)]
    ReadyTooLate { late_ns: u64 },
    /// No worker is pinned to this CPU.
    #[error("there is no thread on CPU {cpu}: this process may not use it")]
    NoWorker { cpu: u32 },
    /// The device no longer exists.
    #[error("{ifname} is gone")]
    Gone { ifname: String },
    /// The device does not carry Ethernet frames.
    #[error("frames on {ifname} have no Ethernet header")]
    NotEthernet { ifname: String },
    /// The device sends only IP packets.
    #[error("not all frames for {ifname} are IP packets, and it has no Ethernet header for others")]
    NotIp { ifname: String },
    /// A WireGuard device does not know where to send a packet (`wg_xmit` in the kernel).
    #[error("{ifname} does not send a packet: {lack}")]
    NoTunnelPeer { ifname: String, lack: &'static str },
    /// The device is down.
    #[error("{ifname} is down")]
    Down { ifname: String },
    /// The device is up without carrier.
    #[error("{ifname} has no carrier")]
    NoCarrier { ifname: String },
    /// The peer of a veth does not accept frames from XDP, and the kernel would silently drop them.
    #[error(
        "{peer}, the peer of {ifname}, does not accept frames from XDP: it has neither an XDP program nor GRO"
    )]
    PeerTakesNoXdp {
        ifname: String,
        peer: String,
        /// Where commands for the peer run.
        peer_place: CommandPlace,
    },
    /// The peer of a veth has GRO, but the kernel lets a veth accept frames from XDP only if GRO
    /// was switched on while both ends were up.
    #[error(
        "GRO of {peer}, the peer of {ifname}, has no effect on XDP: it was not switched on while both ends were up"
    )]
    PeerGroUnnoticed {
        ifname: String,
        peer: String,
        /// Where commands for the peer run.
        peer_place: CommandPlace,
    },
    /// The driver has no XDP transmit.
    #[error("the driver of {ifname} ({driver}) cannot transmit from XDP")]
    NoXdpTransmit { ifname: String, driver: String },
    /// Frames beyond the MTU.
    #[error("frames of {frame_len} bytes are too long for {ifname}: its MTU is {mtu}")]
    LongerThanMtu { ifname: String, frame_len: u32, mtu: u32 },
    /// The driver rejects frames, and the state of the device does not explain it.
    #[error("the driver of {ifname} rejects frames")]
    Refused { ifname: String, source: io::Error },
    /// The device accepted no frame for some time.
    #[error("{ifname} has accepted no frame for {seconds} s: its ring stays full")]
    Stalled { ifname: String, seconds: u64 },
    /// Earlier frames still use all memory ids of XDP.
    #[error("the kernel has no XDP memory id left: earlier frames for {ifname} are still in flight")]
    NoXdpMemory { ifname: String },
    /// The redirect lost frames for an unknown reason.
    #[error("frames for {ifname} were lost before its driver, for an unknown reason")]
    Swallowed { ifname: String },
    /// The engine does not support the plan or an option.
    #[error("the {engine} engine does not support {what}")]
    Unable { engine: &'static str, what: String },
    /// The kernel rejected descriptors, which is a bug.
    #[error("the kernel rejects descriptors of frames for {ifname} as invalid")]
    Invalid { ifname: String },
    /// A frame without security association, which must not be sent in clear.
    #[error("the {engine} engine cannot encrypt a frame: its flow has no security association")]
    NoAssociation { engine: &'static str },
    /// No engine can be used.
    #[error("no engine can send this to {ifname}: {reasons}")]
    NoEngine {
        ifname: String,
        reasons: String,
        /// At least one could not be tested without more capabilities.
        is_denied: bool,
    },
}

impl EngineError {
    /// An engine does not support `what`.
    pub(crate) fn unable(engine: EngineKind, what: impl Into<String>) -> Self {
        Self::Unable { engine: engine.name(), what: what.into() }
    }

    /// The kernel refused a frame by a system call.
    pub(crate) fn of_send(call: &'static str, ifname: String, source: io::Error) -> Self {
        let lack = match source.raw_os_error() {
            Some(libc::ENOKEY) => "none of its peers has the destination among its allowed IPs",
            Some(libc::EDESTADDRREQ) => "the peer for the destination has no endpoint",
            _ => return Self::Syscall { call, ifname, source },
        };
        Self::NoTunnelPeer { ifname, lack }
    }

    /// The error and its causes, in one line.
    pub fn in_one_line(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text.lines().next().unwrap_or_default().to_owned()
    }

    /// True if the error would be the same with every engine.
    pub(crate) fn concerns_all_engines(&self) -> bool {
        self.is_device_gone()
            || matches!(
                self,
                Self::Host(_) | Self::LongerThanMtu { .. } | Self::NotEthernet { .. } | Self::NotIp { .. }
            )
    }

    /// True if this process lacks a capability.
    pub fn is_denied(&self) -> bool {
        let is_denial = |errno: Option<i32>| errno == Some(libc::EPERM);
        match self {
            Self::Host(error) | Self::XdpAttach { source: error } => is_denial(error.errno()),
            Self::Bpf(error) => error.is_denied(),
            Self::NoEngine { is_denied, .. } => *is_denied,
            Self::Syscall { source, .. } | Self::Refused { source, .. } => is_denial(source.raw_os_error()),
            _ => false,
        }
    }

    /// True if another engine may work although this one, which has sent nothing, does not.
    pub(crate) fn is_of_one_engine(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. }
                | Self::Swallowed { .. }
                | Self::Unable { .. }
                | Self::PeerTakesNoXdp { .. }
                | Self::PeerGroUnnoticed { .. }
                | Self::NoXdpTransmit { .. }
                | Self::NoXdpMemory { .. }
        )
    }

    /// True if the device is there and may be able to send later.
    pub(crate) fn is_link_down(&self) -> bool {
        matches!(self, Self::Down { .. } | Self::NoCarrier { .. })
    }

    /// True if the device disappeared during the run, which is a normal end for a script.
    pub fn is_device_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Down { .. } | Self::NoCarrier { .. })
    }
}
