//! Addresses as text: what is accepted, and how the kernel prints them.

use packet::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Characters of a MAC address.
const MAC_TEXT_LEN: usize = 17;

/// Four decimal fields. Stricter than the kernel, which takes any text (docs/pktgen.md, row
/// 1).
pub(crate) fn parse_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Nothing for an address that is not set.
pub(crate) fn ipv4_text(address: Option<Ipv4Addr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
}

/// An IPv6 address, ended by the first byte that cannot belong to one: `fd00::1/64` and
/// `fe80::1%eth0` are read up to there, as in the kernel. Text that does not begin with an address
/// is refused (row 1).
pub(crate) fn parse_ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let belongs = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let len = text.iter().take_while(|byte| belongs(byte)).count();
    std::str::from_utf8(&text[..len]).ok()?.parse().ok()
}

/// `xx:xx:xx:xx:xx:xx` in the first 17 bytes; what follows is not looked at.
pub(crate) fn parse_mac(text: &[u8]) -> Option<MacAddr> {
    std::str::from_utf8(text.get(..MAC_TEXT_LEN)?).ok()?.parse().ok()
}

/// An IPv6 address as the kernel prints it: compressed, with a dotted tail where the address embeds
/// an IPv4 address by RFC 4291 (v4-mapped) or RFC 5214 (ISATAP).
pub(crate) fn ipv6_text(address: Ipv6Addr) -> String {
    let [a, b, c, d, e, f, high, low] = address.segments();
    if !(matches!(e, 0 | 0x0200) && f == 0x5efe) {
        return address.to_string();
    }
    let prefix = Ipv6Addr::new(a, b, c, d, e, f, 1, 1).to_string();
    let tail = Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    format!("{}{tail}", prefix.trim_end_matches("1:1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_four_numbers_and_nothing_else() {
        assert_eq!(parse_ipv4(b"198.18.0.1"), Some(Ipv4Addr::new(198, 18, 0, 1)));
        for bad in [
            "",
            "198.18.0.0/15",
            "10.1",
            ".1.2.3.4",
            "1.2.3.4.5",
            "300.1.2.3",
            "1..2.3",
            "1.2.3.4 ",
            "a.b.c.d",
        ] {
            assert_eq!(parse_ipv4(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_ipv4(b"1.2.3.\xff"), None);
    }

    #[test]
    fn ipv6_ends_at_the_first_foreign_byte() {
        let one = "fd00::1".parse().ok();
        for good in
            ["fd00::1", "FD00::1", "fd00::1/64", "fd00::1%eth0", "fd00:0:0:0:0:0:0:1", "fd00::0.0.0.1"]
        {
            assert_eq!(parse_ipv6(good.as_bytes()), one, "{good}");
        }
        for bad in ["", "/64", "fd00", "fd00::12345", "1:2:3:4:5:6:7", "1::2::3", "fd00::1.2.3", "g::1"] {
            assert_eq!(parse_ipv6(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn ipv6_prints_as_in_the_kernel() {
        let same = ["::", "::1", "fd00::ffff:ffff", "::ffff:1.2.3.4", "fe80::1:2", "1:0:2:3:4:5:6:7"];
        for text in same {
            assert_eq!(ipv6_text(text.parse().unwrap()), text);
        }
        assert_eq!(ipv6_text("::1.2.3.4".parse().unwrap()), "::102:304");
        assert_eq!(ipv6_text("fe80::5efe:c000:201".parse().unwrap()), "fe80::5efe:192.0.2.1");
        assert_eq!(ipv6_text("fe80::200:5efe:1:1".parse().unwrap()), "fe80::200:5efe:0.1.0.1");
    }

    #[test]
    fn mac_is_the_first_17_bytes() {
        assert_eq!(parse_mac(b"AA:bb:cc:dd:ee:ff:00").unwrap().to_string(), "aa:bb:cc:dd:ee:ff");
        for bad in ["", "00-11-22-33-44-66", "0:1:2:3:4:5:6:7:8:9", "00:11:22:33:44:5", "00112233445566778"] {
            assert_eq!(parse_mac(bad.as_bytes()), None, "{bad}");
        }
    }
}
