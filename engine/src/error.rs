//! What can go wrong between a plan and the wire, in words a person can act on.

use crate::EngineKind;
use bpf::BpfError;
use host::HostError;
use std::io;

/// Errors of this room. `Display` says what failed and on what; [`EngineError::cure`] says what to try.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The host refused something that every engine needs.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The kernel refused one of our programs.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The program of the xdp engine could not be attached where it stays in the kernel's XDP dispatcher. Without that each
    /// call takes two grace periods of RCU.
    #[error("the xdp engine cannot attach its program to a device of its own")]
    XdpAttach {
        /// What the kernel said.
        #[source]
        source: HostError,
    },
    /// A system call of an engine failed.
    #[error("{call} for {ifname} failed")]
    Syscall {
        /// The call.
        call: &'static str,
        /// The device.
        ifname: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The thread of a run has ended with a panic, which is a mistake of ours.
    #[error("the thread that sends has ended in the middle of its work")]
    ThreadLost,
    /// No worker is pinned to this CPU.
    #[error("there is no thread on CPU {cpu}: this process may not use it")]
    NoWorker {
        /// The CPU.
        cpu: u32,
    },
    /// There is no such device any more.
    #[error("{ifname} is gone")]
    Gone {
        /// The device.
        ifname: String,
    },
    /// Frames there do not begin with an Ethernet header, as those of every plan do.
    #[error("frames on {ifname} have no Ethernet header, as those that wirerate makes do")]
    NotEthernet {
        /// The device.
        ifname: String,
    },
    /// The device is switched off.
    #[error("{ifname} is down")]
    Down {
        /// The device.
        ifname: String,
    },
    /// The device is up but the other end is not there.
    #[error("{ifname} has no carrier")]
    NoCarrier {
        /// The device.
        ifname: String,
    },
    /// The other end of a veth takes no frames from XDP, and the kernel would drop them without a word.
    #[error(
        "{peer}, the other end of {ifname}, takes no frames from XDP: it has neither an XDP program nor GRO"
    )]
    PeerTakesNoXdp {
        /// The device.
        ifname: String,
        /// The other end.
        peer: String,
        /// What a user types before a command for the other end: `ip netns exec NAME `, or nothing.
        peer_prefix: String,
    },
    /// The other end of a veth has GRO, but the kernel marks a veth as able to take frames from XDP only when GRO is
    /// switched while the device is up.
    #[error(
        "the kernel has not noticed the GRO of {peer}, the other end of {ifname}: GRO was switched on before the device was up"
    )]
    PeerGroUnnoticed {
        /// The device.
        ifname: String,
        /// The other end.
        peer: String,
        /// What a user types before a command for the other end: `ip netns exec NAME `, or nothing.
        peer_prefix: String,
    },
    /// The driver has no XDP transmit.
    #[error("the driver of {ifname} ({driver}) cannot transmit from XDP")]
    NoXdpTransmit {
        /// The device.
        ifname: String,
        /// Its kind or driver.
        driver: String,
    },
    /// Frames that the device would not let pass.
    #[error("frames of {frame_len} bytes are longer than {ifname} lets pass: its MTU is {mtu}")]
    LongerThanMtu {
        /// The device.
        ifname: String,
        /// Length of the longest frame, in bytes without FCS.
        frame_len: u32,
        /// Largest layer 3 packet in bytes.
        mtu: u32,
    },
    /// The driver refused frames for a reason that the state of the device does not explain.
    #[error("the driver of {ifname} refuses frames")]
    Refused {
        /// The device.
        ifname: String,
        /// Its error.
        #[source]
        source: io::Error,
    },
    /// The device accepted nothing for a while.
    #[error("{ifname} has accepted no frame for {seconds} s: its ring stays full")]
    Stalled {
        /// The device.
        ifname: String,
        /// How long.
        seconds: u64,
    },
    /// Frames that went before still hold all the numbers for memory of XDP.
    #[error(
        "the kernel has no number left for the memory of XDP frames: earlier frames for {ifname} are still under way"
    )]
    NoXdpMemory {
        /// The device.
        ifname: String,
    },
    /// The redirect lost frames and nothing says why.
    #[error("frames for {ifname} were not handed to its driver, and nothing says why")]
    Swallowed {
        /// The device.
        ifname: String,
    },
    /// The engine cannot do what the plan or the configuration asks.
    #[error("the {engine} engine cannot do {what}")]
    Unable {
        /// The engine.
        engine: &'static str,
        /// What was asked, in pktgen's words where there are some.
        what: String,
    },
    /// The kernel does not accept descriptors of ours.
    #[error("the kernel finds descriptors of frames for {ifname} invalid")]
    Invalid {
        /// The device.
        ifname: String,
    },
    /// A frame that no security association is for, which must not go out in clear.
    #[error("the {engine} engine cannot seal a frame: its flow has no security association")]
    Unsealed {
        /// The engine.
        engine: &'static str,
    },
    /// Every engine refused.
    #[error("no engine can send this to {ifname}: {reasons}")]
    NoEngine {
        /// The device.
        ifname: String,
        /// What each of them said.
        reasons: String,
        /// At least one was not asked at all, for want of rights.
        is_denied: bool,
    },
}

impl EngineError {
    /// An engine cannot do `what`.
    pub(crate) fn unable(engine: EngineKind, what: impl Into<String>) -> Self {
        Self::Unable { engine: engine.name(), what: what.into() }
    }

    /// What happened and why, in one line.
    pub fn in_one_line(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text.lines().next().unwrap_or_default().to_owned()
    }

    /// True when no engine could do better.
    pub(crate) fn concerns_all_engines(&self) -> bool {
        self.is_device_gone()
            || matches!(self, Self::Host(_) | Self::LongerThanMtu { .. } | Self::NotEthernet { .. })
    }

    /// This process may not ask, which says nothing about what another one may.
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

    /// True when another engine may do what this one, which has sent nothing, turned out not to.
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

    /// What a person can try, where there is something.
    pub fn cure(&self) -> Option<String> {
        match self {
            Self::Down { ifname } => Some(format!("ip link set {ifname} up")),
            Self::NoCarrier { ifname } => Some(format!(
                "connect {ifname}, or set its other end up; a wireless one is not associated: iw dev {ifname} connect SSID"
            )),
            Self::PeerTakesNoXdp { peer, peer_prefix: prefix, .. } => Some(format!(
                "`{prefix}ethtool -K {peer} gro on`, or capture there: `{prefix}wirerate capture {peer}`"
            )),
            Self::PeerGroUnnoticed { peer, peer_prefix: prefix, .. } => {
                Some(format!("`{prefix}ethtool -K {peer} gro off`, then `{prefix}ethtool -K {peer} gro on`"))
            }
            Self::Stalled { ifname, .. } => {
                Some(format!("see whether anything reads the other end of {ifname}"))
            }
            Self::LongerThanMtu { ifname, frame_len, .. } => Some(format!(
                "ip link set {ifname} mtu {}, at the other end as well",
                frame_len.saturating_sub(14)
            )),
            Self::NoXdpMemory { .. } => Some("wait some seconds, or --engine af_packet".to_owned()),
            // What the sockets share with the kernel is locked memory (8 MiB by default).
            Self::Syscall { call, source, .. }
                if call.contains("AF_XDP") && source.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                Some("`ulimit -l unlimited`, or CAP_IPC_LOCK".to_owned())
            }
            Self::ThreadLost => {
                Some("the words above; and please report this, it is a mistake of wirerate's".to_owned())
            }
            Self::Invalid { .. } => {
                Some("another --engine; and please report this, it is a mistake of wirerate's".to_owned())
            }
            Self::Unsealed { .. } => Some("ip xfrm state add ... for each destination, or --spi".to_owned()),
            Self::NoEngine { is_denied: true, .. } => {
                Some("run it as root (CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON)".to_owned())
            }
            Self::Bpf(BpfError::XdpBusy { ifname, id, .. }) => Some(format!(
                "end what put it there (`bpftool prog show id {id}` says whose it is, `ip link set dev {ifname} xdp off` takes \
                 it off unless a link holds it), or --engine af_packet"
            )),
            Self::Bpf(error) => error.cure().map(str::to_owned),
            _ => None,
        }
    }

    /// The device went away under the run, which for a script is a normal end.
    pub fn is_device_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Down { .. } | Self::NoCarrier { .. })
    }
}
