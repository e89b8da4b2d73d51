//! The choice between XDP and packet sockets: what the device supports, the options, and the
//! reason.

use crate::backend::at::AtBackend;
use crate::backend::hwtstamp::Hardware;
use crate::backend::tpacket::{PacketOptions, Place, TpacketBackend, queues_untold};
use crate::backend::xdp::XdpBackend;
use crate::backend::{Backend, RingCounts, SourceFacts};
use crate::error::CaptureError;
use crate::error::first_line;
use crate::memory::RingSize;
use crate::options::{CaptureDirection, Fanout, Mode, Options, SourceKind};
use crate::reader::AttachedRing;
use bpf::BpfError;
use bpf::capture::RecordFormat;
use host::{Link, LinkLayer};

/// The best way that the device has, opened but not attached. `link` is a device of the calling
/// thread's namespace. `format` is what an XDP program writes.
///
/// # Errors
/// What the way that was insisted on was refused for; without a `--source`, why XDP was refused
/// when packet sockets cannot do it either.
pub(crate) fn open(
    link: &Link,
    options: &Options,
    hardware: &Hardware,
    format: RecordFormat,
) -> Result<Box<dyn Backend>, CaptureError> {
    if let Some(at) = options.at {
        return Ok(Box::new(AtBackend::open(link, options, at)?));
    }
    match options.source {
        SourceKind::Tpacket => Ok(Box::new(TpacketBackend::open(
            Place::of(link),
            PacketOptions::new(link, options, hardware)?,
            None,
        )?)),
        SourceKind::Xdp if options.direction != CaptureDirection::In => {
            Err(CaptureError::OnlyIncoming { ifname: link.name.clone() })
        }
        SourceKind::Xdp => Ok(Box::new(XdpBackend::open(link, options, hardware, format)?)),
        SourceKind::Best => open_best(link, options, hardware, format),
    }
}

fn open_best(
    link: &Link,
    options: &Options,
    hardware: &Hardware,
    format: RecordFormat,
) -> Result<Box<dyn Backend>, CaptureError> {
    let packet_options = PacketOptions::new(link, options, hardware)?;
    let stamps = || stamps_are_not_for_xdp(link, options, hardware);
    let filter = || packet_options.not_for_xdp().filter(|_| options.mode == Mode::Mirror);
    if let Some(why) = not_for_xdp(link, options).or_else(filter).or_else(stamps) {
        return Ok(Box::new(TpacketBackend::open(Place::of(link), packet_options, Some(why))?));
    }
    match XdpBackend::open(link, options, hardware, format) {
        Ok(xdp) => {
            Ok(Box::new(WithFallback { backend: Box::new(xdp), other: Some((link.clone(), packet_options)) }))
        }
        Err(error) => instead(link, packet_options, error),
    }
}

/// Why XDP would be the wrong way, known before it is tried.
fn not_for_xdp(link: &Link, options: &Options) -> Option<String> {
    let name = &link.name;
    match (options.direction, link.layer) {
        (CaptureDirection::Out | CaptureDirection::Both, _) => {
            Some("it sees incoming frames only".to_owned())
        }
        (CaptureDirection::In, LinkLayer::Loopback) if options.mode == Mode::Mirror => {
            Some(format!("{name} is the loopback device"))
        }
        (CaptureDirection::In, _) if options.fanout == Fanout::Hash => {
            Some("only packet sockets have a fanout by flow hash".to_owned())
        }
        (CaptureDirection::In, LinkLayer::Ethernet | LinkLayer::Loopback) => None,
        (CaptureDirection::In, _) => Some(format!("frames of {name} have no Ethernet header")),
    }
}

/// Why XDP would lose what the card knows: it stamps frames now, and programs of its driver cannot
/// read that. For the rate without the stamps there are `--source xdp` and `--clock system`.
fn stamps_are_not_for_xdp(link: &Link, options: &Options, hardware: &Hardware) -> Option<String> {
    // Only XDP can drop, and tell queues.
    let has_other_way = options.mode == Mode::Mirror && queues_untold(link, options).is_none();
    (has_other_way && hardware.only_sockets_get_stamps()).then(|| {
        format!("{} stamps frames, and XDP programs cannot read the stamps of its driver", link.name)
    })
}

/// Packet sockets, after XDP was refused; its error when they cannot do it.
fn instead(
    link: &Link,
    packet_options: PacketOptions,
    error: CaptureError,
) -> Result<Box<dyn Backend>, CaptureError> {
    let Some(why) = reason_to_leave_xdp(&error) else { return Err(error) };
    match TpacketBackend::open(Place::of(link), packet_options, Some(why)) {
        Ok(backend) => Ok(Box::new(backend)),
        Err(_) => Err(error),
    }
}

/// What XDP was refused for, when packet sockets may do better.
fn reason_to_leave_xdp(error: &CaptureError) -> Option<String> {
    match error {
        CaptureError::Bpf(refusal @ BpfError::XdpBusy { .. }) => Some(format!(
            "{}; frames that this program drops or redirects cannot be seen (--at both shows them)",
            first_line(&refusal.to_string())
        )),
        CaptureError::Bpf(refusal) => Some(first_line(&refusal.to_string())),
        CaptureError::NoStampsByXdp { .. } => Some(error.to_string()),
        _ => None,
    }
}

/// XDP that may be refused when it is attached, and what is done then.
struct WithFallback {
    backend: Box<dyn Backend>,
    other: Option<(Link, PacketOptions)>,
}

impl Backend for WithFallback {
    fn attach(&mut self, utc_offset_ns: i64) -> Result<Vec<AttachedRing>, CaptureError> {
        match (self.backend.attach(utc_offset_ns), self.other.take()) {
            (Err(error), Some((link, packet_options))) => {
                self.backend = instead(&link, packet_options, error)?;
                self.backend.attach(utc_offset_ns)
            }
            (attached, _) => attached,
        }
    }

    fn facts(&self) -> SourceFacts {
        self.backend.facts()
    }

    fn ring_size(&self) -> RingSize {
        self.backend.ring_size()
    }

    fn stamps_refusal(&self) -> Option<String> {
        self.backend.stamps_refusal()
    }

    fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        self.backend.set_mode(mode)
    }

    fn is_gone(&self) -> bool {
        self.backend.is_gone()
    }

    fn counts(&self) -> Vec<RingCounts> {
        self.backend.counts()
    }

    fn freezes(&self) -> Option<u64> {
        self.backend.freezes()
    }

    fn detach(&mut self) {
        self.backend.detach();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `--clock phc`, a driver that hands no stamps to XDP programs gave frames the kernel's
    /// time without a word.
    #[test]
    fn stamps_that_xdp_turns_out_not_to_get_are_left_to_packet_sockets() {
        let error = CaptureError::NoStampsByXdp { ifname: "eth1".to_owned(), why: "no kfunc".to_owned() };
        let why = reason_to_leave_xdp(&error);
        assert_eq!(why.as_deref(), Some("XDP does not get the time stamps of eth1: no kfunc"));
        let other = CaptureError::OnlyIncoming { ifname: "eth1".to_owned() };
        assert_eq!(reason_to_leave_xdp(&other), None);
    }
}
