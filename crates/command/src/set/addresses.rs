//! Addresses: IPv4 ranges, IPv6, MAC.
//!
//! Bad IP addresses are rejected with a result, where the kernel accepts any text
//! (docs/pktgen.md, row 1).

use super::{Argument, SetterResult, result};
use crate::address::{ipv4_text, ipv6_text, parse_ipv4, parse_ipv6, parse_mac};
use crate::{Device, Fault};
use packet::{Flags, MacAddr};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads an IPv4 address; empty clears.
pub(crate) fn ipv4(device: &mut Device, arg: &Argument<'_>) -> Result<Option<Ipv4Addr>, crate::Refusal> {
    let address = parse_ipv4(arg.text);
    if address.is_some() || arg.text.is_empty() {
        return Ok(address);
    }
    let fault = Fault::NotIpv4 { setting: arg.word, text: arg.lossy() };
    arg.refuse_with_result(device, "is not an IPv4 address", fault).map(|_| None)
}

/// The current address moves only when the setting changes, as in the kernel.
pub(crate) fn set_ipv4(
    setting: &mut Option<Ipv4Addr>,
    current: &mut u64,
    address: Option<Ipv4Addr>,
    arg: &Argument<'_>,
) -> SetterResult {
    if *setting != address {
        *setting = address;
        *current = address.unwrap_or(Ipv4Addr::UNSPECIFIED).to_bits().into();
    }
    arg.ok(ipv4_text(address))
}

pub(crate) fn dst6(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let address = ipv6(device, arg)?;
    device.config.dst6 = address;
    device.cursor.set_dst_v6(address);
    arg.ok(ipv6_text(address))
}

pub(crate) fn dst6_min(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let address = ipv6(device, arg)?;
    device.config.dst6_min = address;
    device.cursor.set_dst_v6(address);
    arg.ok(ipv6_text(address))
}

pub(crate) fn dst6_max(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let address = ipv6(device, arg)?;
    device.config.dst6_max = address;
    arg.ok(ipv6_text(address))
}

pub(crate) fn src6(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    let address = ipv6(device, arg)?;
    device.config.src6 = address;
    device.cursor.src_v6 = address;
    arg.ok(ipv6_text(address))
}

/// Reads an IPv6 address and turns IPv6 on.
fn ipv6(device: &mut Device, arg: &Argument<'_>) -> Result<Ipv6Addr, crate::Refusal> {
    if let Some(address) = parse_ipv6(arg.text) {
        device.config.flags.set(Flags::IPV6, true);
        return Ok(address);
    }
    let fault = Fault::NotIpv6 { setting: arg.word, text: arg.lossy() };
    arg.refuse_with_result(device, "is not an IPv6 address", fault).map(|_| Ipv6Addr::UNSPECIFIED)
}

/// The result of both MAC commands has no underscore and no equals sign.
pub(crate) fn dst_mac(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    device.config.dst_mac = mac(arg)?;
    result(format!("OK: dstmac {}", device.config.dst_mac))
}

pub(crate) fn src_mac(device: &mut Device, arg: &Argument<'_>) -> SetterResult {
    device.config.src_mac = mac(arg)?;
    result(format!("OK: srcmac {}", device.config.src_mac))
}

fn mac(arg: &Argument<'_>) -> Result<MacAddr, crate::Refusal> {
    let fault = || Fault::NotMac { setting: arg.word, text: arg.lossy() };
    parse_mac(arg.text).ok_or_else(|| crate::Refusal { fault: fault(), span: arg.span.clone() })
}

#[cfg(test)]
mod tests {
    use crate::testing::TestDevice;

    #[test]
    fn ipv4_is_kept_as_typed_and_current_at_once() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("dst 10.0.0.1", "OK: dst_min=10.0.0.1"),
            ("dst_max 10.0.0.9", "OK: dst_max=10.0.0.9"),
            ("src_min 1.2.3.4\0junk", "OK: src_min=1.2.3.4"),
        ]);
        assert_eq!(test.line("cur_saddr").unwrap(), "cur_saddr: 1.2.3.4  cur_daddr: 10.0.0.9");
        test.write("dst_min 10.0.0.1");
        assert_eq!(test.line("cur_saddr").unwrap(), "cur_saddr: 1.2.3.4  cur_daddr: 10.0.0.9", "no new text");
        test.expect(&[("dst", "OK: dst_min="), ("src_max", "OK: src_max=")]);
        assert_eq!(test.line("cur_saddr").unwrap(), "cur_saddr: 1.2.3.4  cur_daddr: 0.0.0.0");
        assert_eq!(test.line("dst_min").unwrap(), "dst_min:   dst_max: 10.0.0.9");
    }

    #[test]
    fn bad_ipv4_is_refused_aloud_and_changes_nothing() {
        let mut test = TestDevice::after(&["dst 10.0.0.1"]);
        test.expect(&[
            ("dst 198.18.0.0/15", "EINVAL ERROR: dst_min: \"198.18.0.0/15\" is not an IPv4 address"),
            ("src_max 10.1", "EINVAL ERROR: src_max: \"10.1\" is not an IPv4 address"),
            ("src_min .1.2.3.4", "EINVAL ERROR: src_min: \".1.2.3.4\" is not an IPv4 address"),
        ]);
        assert_eq!(test.line("dst_min").unwrap(), "dst_min: 10.0.0.1  dst_max: ");
        assert_eq!(test.line("cur_saddr").unwrap(), "cur_saddr: 0.0.0.0  cur_daddr: 10.0.0.1");
        let refused = test.device.write(b" dst = 1.2.3 ", &test.facts).unwrap_err();
        assert_eq!(refused.span, 7..12);
        assert_eq!(refused.to_string(), "dst_min: \"1.2.3\" is not an IPv4 address");
    }

    #[test]
    fn only_31_characters_of_ipv4_are_looked_at() {
        let long = format!("dst {}", "1".repeat(40));
        let answer = format!("EINVAL ERROR: dst_min: \"{}\" is not an IPv4 address", "1".repeat(31));
        assert_eq!(TestDevice::new().write(&long), answer);
    }

    #[test]
    fn ipv6_turns_ipv6_on_and_is_current_at_once() {
        let mut test = TestDevice::new();
        test.expect(&[("dst6 FD00::1/64", "OK: dst6=fd00::1"), ("src6 fe80::1:2", "OK: src6=fe80::1:2")]);
        assert_eq!(test.line("Flags").unwrap(), "Flags: IPV6  SHARED  ");
        assert_eq!(test.line("saddr").unwrap(), "saddr: fe80::1:2  min_saddr: ::  max_saddr: ::");
        test.expect(&[
            ("dst6_min fd00::10", "OK: dst6_min=fd00::10"),
            ("dst6_max ::ffff:1.2.3.4", "OK: dst6_max=::ffff:1.2.3.4"),
        ]);
        assert_eq!(
            test.line("daddr").unwrap(),
            "daddr: fd00::1  min_daddr: fd00::10  max_daddr: ::ffff:1.2.3.4"
        );
        assert_eq!(test.line("cur_saddr").unwrap(), "cur_saddr: fe80::1:2  cur_daddr: fd00::10");
        test.write("flag !IPV6");
        assert_eq!(test.line("dst_min").unwrap(), "dst_min:   dst_max: ");
        assert_eq!(test.line("cur_saddr").unwrap(), "cur_saddr: 0.0.0.0  cur_daddr: 0.0.0.0");
    }

    #[test]
    fn bad_ipv6_is_refused_aloud_and_does_not_turn_ipv6_on() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("dst6 fd00", "EINVAL ERROR: dst6: \"fd00\" is not an IPv6 address"),
            ("src6", "EINVAL ERROR: src6: \"\" is not an IPv6 address"),
        ]);
        assert_eq!(test.line("Flags").unwrap(), "Flags: SHARED  ");
    }

    #[test]
    fn mac_results_have_no_equals_sign() {
        let mut test = TestDevice::new();
        test.expect(&[
            ("dst_mac  AA:BB:CC:DD:EE:FF:00", "OK: dstmac aa:bb:cc:dd:ee:ff"),
            ("srcmac 02:00:00:00:00:01", "OK: srcmac 02:00:00:00:00:01"),
            ("dst_mac 00-11-22-33-44-66", "EINVAL OK: srcmac 02:00:00:00:00:01"),
            ("dst_mac", "EINVAL OK: srcmac 02:00:00:00:00:01"),
        ]);
        assert_eq!(test.line("src_mac").unwrap(), "src_mac: 02:00:00:00:00:01 dst_mac: aa:bb:cc:dd:ee:ff");
        test.facts.link.mac = "52:54:00:12:34:56".parse().unwrap();
        test.write("src_mac 00:00:00:00:00:00");
        assert_eq!(test.line("src_mac").unwrap(), "src_mac: 52:54:00:12:34:56 dst_mac: aa:bb:cc:dd:ee:ff");
    }
}
