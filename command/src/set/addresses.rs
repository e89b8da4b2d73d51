//! Addresses: IPv4 ranges, IPv6, MAC.
//!
//! Bad IP addresses are refused and said so, where the kernel takes anything (docs/differences.md, row 1).

use super::{Answer, Given, say};
use crate::address::{ipv6_text, parse_ipv4, parse_ipv6, parse_mac};
use crate::{Device, Fault};
use packet::{Flags, MacAddr};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Which ends of which IPv4 range, and which current address follows.
enum End {
    DstMin,
    DstMax,
    SrcMin,
    SrcMax,
}

pub(crate) fn dst_min(device: &mut Device, given: &Given<'_>) -> Answer {
    set_ipv4(device, given, End::DstMin)
}

pub(crate) fn dst_max(device: &mut Device, given: &Given<'_>) -> Answer {
    set_ipv4(device, given, End::DstMax)
}

pub(crate) fn src_min(device: &mut Device, given: &Given<'_>) -> Answer {
    set_ipv4(device, given, End::SrcMin)
}

pub(crate) fn src_max(device: &mut Device, given: &Given<'_>) -> Answer {
    set_ipv4(device, given, End::SrcMax)
}

/// Empty clears. The current address moves only when the text is another one than before, as in the kernel.
fn set_ipv4(device: &mut Device, given: &Given<'_>, end: End) -> Answer {
    let parsed = if given.text.is_empty() { Some(Ipv4Addr::UNSPECIFIED) } else { parse_ipv4(given.text) };
    let Some(address) = parsed else {
        let fault = Fault::NotIpv4 { setting: given.word, text: given.lossy() };
        return given.refuse_aloud(device, "is not an IPv4 address", fault);
    };
    let (config, cursor) = (&mut device.config, &mut device.cursor);
    let (setting, current) = match end {
        End::DstMin => (&mut config.dst_min, &mut cursor.dst_v4),
        End::DstMax => (&mut config.dst_max, &mut cursor.dst_v4),
        End::SrcMin => (&mut config.src_min, &mut cursor.src_v4),
        End::SrcMax => (&mut config.src_max, &mut cursor.src_v4),
    };
    let text = given.lossy();
    if *setting != text {
        setting.clone_from(&text);
        *current = address;
    }
    given.ok(text)
}

pub(crate) fn dst6(device: &mut Device, given: &Given<'_>) -> Answer {
    let address = ipv6(device, given)?;
    device.config.dst6 = address;
    device.cursor.dst_v6 = address;
    given.ok(ipv6_text(address))
}

pub(crate) fn dst6_min(device: &mut Device, given: &Given<'_>) -> Answer {
    let address = ipv6(device, given)?;
    device.config.dst6_min = address;
    device.cursor.dst_v6 = address;
    given.ok(ipv6_text(address))
}

pub(crate) fn dst6_max(device: &mut Device, given: &Given<'_>) -> Answer {
    let address = ipv6(device, given)?;
    device.config.dst6_max = address;
    given.ok(ipv6_text(address))
}

pub(crate) fn src6(device: &mut Device, given: &Given<'_>) -> Answer {
    let address = ipv6(device, given)?;
    device.config.src6 = address;
    device.cursor.src_v6 = address;
    given.ok(ipv6_text(address))
}

/// Reads an IPv6 address and turns IPv6 on.
fn ipv6(device: &mut Device, given: &Given<'_>) -> Result<Ipv6Addr, crate::Refused> {
    if let Some(address) = parse_ipv6(given.text) {
        device.config.flags.set(Flags::IPV6, true);
        return Ok(address);
    }
    let fault = Fault::NotIpv6 { setting: given.word, text: given.lossy() };
    given.refuse_aloud(device, "is not an IPv6 address", fault).map(|_| Ipv6Addr::UNSPECIFIED)
}

/// The result of both MAC commands has no underscore and no equals sign.
pub(crate) fn dst_mac(device: &mut Device, given: &Given<'_>) -> Answer {
    device.config.dst_mac = mac(given)?;
    say(format!("OK: dstmac {}", device.config.dst_mac))
}

pub(crate) fn src_mac(device: &mut Device, given: &Given<'_>) -> Answer {
    device.config.src_mac = mac(given)?;
    say(format!("OK: srcmac {}", device.config.src_mac))
}

fn mac(given: &Given<'_>) -> Result<MacAddr, crate::Refused> {
    let fault = || Fault::NotMac { setting: given.word, text: given.lossy() };
    parse_mac(given.text).ok_or_else(|| crate::Refused { fault: fault(), span: given.span.clone() })
}
