//! The device of a replay: what it sends, its MTU and MAC address.

use super::args::Args;
use host::{HostError, Link, LinkLayer};
use packet::{FRAME_LEN_MAX, MacAddr};
use program::outcome::Failure;
use replay::TargetKind;
use sender::device::TxDevice;

/// Source of frames without a header of their own when there is no such device.
const MAC_MADE_UP: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
/// LINKTYPE_ numbers of what a device sends.
const LINK_TYPE_RAW: u16 = 101;
const LINK_TYPE_RADIOTAP: u16 = 127;

/// What the device determines.
#[derive(Clone, Copy, Debug)]
pub struct TargetFacts {
    /// What it sends.
    pub kind: TargetKind,
    /// Its MTU, 0 if unknown.
    pub mtu: u32,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Longest frame of the engine.
    pub frame_len_max: u32,
    /// Bits per second of its line, if that is known.
    pub line_bps: Option<u64>,
}

/// What the device sends.
///
/// # Errors
/// Refused for a link layer without a form.
pub fn kind_of(link: &Link) -> Result<TargetKind, Failure> {
    match link.layer {
        LinkLayer::Ethernet | LinkLayer::Loopback => Ok(TargetKind::Ethernet),
        LinkLayer::Wireless { radiotap: true } => Ok(TargetKind::Monitor),
        LinkLayer::None => Ok(TargetKind::Ip),
        LinkLayer::Wireless { radiotap: false } | LinkLayer::Other(_) => {
            let why =
                anyhow::anyhow!("it is neither Ethernet, a monitor device with radiotap, nor a tun device");
            Err(Failure::refused(format!("replay on {}", link.name), why))
        }
    }
}

/// The link type of a file with the frames of a device.
pub fn link_type_of(kind: TargetKind) -> u16 {
    match kind {
        TargetKind::Ethernet | TargetKind::File => pcapng::LINK_TYPE_ETHERNET,
        TargetKind::Monitor => LINK_TYPE_RADIOTAP,
        TargetKind::Ip => LINK_TYPE_RAW,
    }
}

/// The facts of a device; `frame_len_max` is the limit of the engine.
///
/// # Errors
/// Refused for a link layer without a form.
pub fn facts_of(device: &TxDevice, frame_len_max: u32) -> Result<TargetFacts, Failure> {
    let kind = kind_of(&device.link)?;
    Ok(TargetFacts {
        kind,
        mtu: device.link.mtu,
        mac: device.facts.mac,
        frame_len_max,
        line_bps: device.line_bps(),
    })
}

/// Facts for a dry run: those of the device if it exists, else those of an Ethernet without a
/// limit, and a note about that.
///
/// # Errors
/// Refused for a namespace that does not exist.
pub fn for_show(args: &Args) -> Result<(TargetFacts, Vec<String>), Failure> {
    let made_up = TargetFacts {
        kind: TargetKind::Ethernet,
        mtu: 0,
        mac: MAC_MADE_UP,
        frame_len_max: FRAME_LEN_MAX,
        line_bps: None,
    };
    match TxDevice::find(args.netns.as_deref(), &args.device) {
        Ok(device) => Ok((facts_of(&device, FRAME_LEN_MAX)?, Vec::new())),
        Err(HostError::NoLink { .. }) => {
            let note = format!(
                "there is no device {}: an Ethernet without a limit of length is assumed",
                args.device
            );
            Ok((made_up, vec![note]))
        }
        Err(why) if args.netns.is_none() => {
            Ok((made_up, vec![format!("{why}: an Ethernet without a limit of length is assumed")]))
        }
        Err(why) => Err(Failure::host(format!("look at {}", args.device), why)),
    }
}
