//! XDP or packet sockets: what a device can, what was asked for, and why it was not the other.

use crate::source::Ring;
use crate::tap::{RingCounts, SourceFacts, Tap};
use crate::tpacket::{PacketWish, TpacketTap};
use crate::xdp::XdpTap;
use crate::{CaptureError, Direction, Mode, Options, SourceWish, hardware};
use host::{Link, LinkLayer, Stack};

/// The best way that the device has, opened but not attached. `link` is a device of the calling thread's namespace.
///
/// # Errors
/// What the way that was insisted on was refused for; without a wish, why XDP was refused when packet sockets
/// cannot do it either.
pub(crate) fn open(link: &Link, options: &Options) -> Result<Box<dyn Tap>, CaptureError> {
    match options.source {
        SourceWish::Tpacket => Ok(Box::new(TpacketTap::open(link, PacketWish::new(link, options)?, None)?)),
        SourceWish::Xdp if options.direction != Direction::In => {
            Err(CaptureError::OnlyIncoming { ifname: link.name.clone() })
        }
        SourceWish::Xdp => Ok(Box::new(XdpTap::open(link, options)?)),
        SourceWish::Best => open_best(link, options),
    }
}

fn open_best(link: &Link, options: &Options) -> Result<Box<dyn Tap>, CaptureError> {
    let wish = PacketWish::new(link, options)?;
    if let Some(why) = not_for_xdp(link, options)
        .map_or_else(|| stamps_are_not_for_xdp(link, options), |why| Ok(Some(why)))?
    {
        return Ok(Box::new(TpacketTap::open(link, wish, Some(why))?));
    }
    match XdpTap::open(link, options) {
        Ok(xdp) => Ok(Box::new(WithFallback { tap: Box::new(xdp), other: Some((link.clone(), wish)) })),
        Err(error) => instead(link, wish, error),
    }
}

/// Why XDP would be the wrong way, known before it is tried.
fn not_for_xdp(link: &Link, options: &Options) -> Option<String> {
    let name = &link.name;
    match (options.direction, link.layer) {
        (Direction::Out | Direction::Both, _) => Some("it sees incoming frames only".to_owned()),
        (Direction::In, LinkLayer::Loopback) if options.mode == Mode::Mirror => {
            Some(format!("{name} is the loopback device"))
        }
        (Direction::In, LinkLayer::Ethernet | LinkLayer::Loopback) => None,
        (Direction::In, _) => Some(format!("frames of {name} have no Ethernet header")),
    }
}

/// Why XDP would lose what the card knows: it stamps frames now, and programs of its driver cannot read that. Whoever
/// wants the rate and not the stamps asks for XDP, or for `--clock system`.
fn stamps_are_not_for_xdp(link: &Link, options: &Options) -> Result<Option<String>, CaptureError> {
    // Only XDP can drop.
    if options.mode == Mode::Drop || !hardware::only_sockets_get_stamps(&Stack::here()?, link, options.clock)
    {
        return Ok(None);
    }
    Ok(Some(format!("{} stamps frames, and XDP programs cannot read the stamps of its driver", link.name)))
}

/// Packet sockets, after XDP was refused; its error when they cannot do it.
fn instead(link: &Link, wish: PacketWish, error: CaptureError) -> Result<Box<dyn Tap>, CaptureError> {
    let CaptureError::Bpf(refusal) = &error else { return Err(error) };
    match TpacketTap::open(link, wish, Some(in_one_line(&refusal.to_string()))) {
        Ok(tap) => Ok(Box::new(tap)),
        Err(_) => Err(error),
    }
}

/// The verifier says a lot; its first line is the reason.
fn in_one_line(reason: &str) -> String {
    reason.lines().next().unwrap_or_default().to_owned()
}

/// XDP that may be refused when it is attached, and what is done then.
struct WithFallback {
    tap: Box<dyn Tap>,
    other: Option<(Link, PacketWish)>,
}

impl Tap for WithFallback {
    fn attach(&mut self) -> Result<Vec<Ring>, CaptureError> {
        match (self.tap.attach(), self.other.take()) {
            (Err(error), Some((link, wish))) => {
                self.tap = instead(&link, wish, error)?;
                self.tap.attach()
            }
            (attached, _) => attached,
        }
    }

    fn facts(&self) -> SourceFacts {
        self.tap.facts()
    }

    fn set_mode(&self, mode: Mode) -> Result<(), CaptureError> {
        self.tap.set_mode(mode)
    }

    fn is_gone(&self) -> bool {
        self.tap.is_gone()
    }

    fn counts(&self) -> Vec<RingCounts> {
        self.tap.counts()
    }

    fn detach(&mut self) {
        self.tap.detach();
    }
}
