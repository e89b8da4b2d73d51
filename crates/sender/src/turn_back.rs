//! The options of a sender in the other direction.

use super::flows;
use super::job::{RandomField, SendJob};
use packet::DeviceFacts;
use program::outcome::Failure;
use units::{Addresses, Interval};

/// Exchanges what `sender` sends from and to. Frames go back to `origin`, the facts about the
/// device that sends forward, unless options give the addresses that it sends from.
///
/// # Errors
/// Bad usage for frames without such options, or without an address to go back to.
pub fn turn_back(sender: &mut SendJob, origin: &DeviceFacts) -> Result<(), Failure> {
    let act = "send in both directions";
    let described = [
        (sender.frame.is_some(), "--frame"),
        (sender.frames.is_some(), "--frames"),
        (!sender.streams.is_empty(), "--streams"),
    ];
    if let Some((_, option)) = described.into_iter().find(|(is_given, _)| *is_given) {
        let why = format!("frames of {option} have the addresses of one direction");
        return Err(Failure::usage(act, why)
            .try_this("--reverse 'OPTIONS' with the options of send for the frames back"));
    }
    // The flows of this direction are those of the other one, turned around.
    *sender = flows::spread(sender)?.into_owned();
    let is_v6 = sender.is_ipv6();
    let own = match origin.v4 {
        Some(own) if !is_v6 => Some(Addresses::V4(Interval::one(own))),
        _ => None,
    };
    if sender.dst.is_some() {
        let back_to = sender.src.or(own);
        if back_to.is_none() {
            return Err(Failure::usage(act, "the address of the first sender is not known")
                .try_this(if is_v6 { "--src fd00::1" } else { "--src 198.18.0.1" }));
        }
        (sender.dst, sender.src) = (back_to, sender.dst);
    }
    if let Some(dst_mac) = sender.dst_mac {
        let back_to = sender.src_mac.unwrap_or(Interval::one(origin.mac));
        sender.src_mac = sender.src_mac.map(|_| dst_mac);
        sender.dst_mac = Some(back_to);
    }
    (sender.udp_dst, sender.udp_src) = (sender.udp_src, sender.udp_dst);
    if sender.inner_dst.is_some() && sender.inner_src.is_some() {
        (sender.inner_dst, sender.inner_src) = (sender.inner_src, sender.inner_dst);
    }
    for field in &mut sender.random {
        *field = match *field {
            RandomField::Dst => RandomField::Src,
            RandomField::Src => RandomField::Dst,
            RandomField::UdpDst => RandomField::UdpSrc,
            RandomField::UdpSrc => RandomField::UdpDst,
            RandomField::DstMac => RandomField::SrcMac,
            RandomField::SrcMac => RandomField::DstMac,
            RandomField::InnerDst => RandomField::InnerSrc,
            RandomField::InnerSrc => RandomField::InnerDst,
            other => other,
        };
    }
    Ok(())
}
