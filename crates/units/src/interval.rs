//! From one value to another, both included: ports, sizes, addresses, CPUs.

use super::BadText;
use packet::MacAddr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Every value from `first` to `last`, both included. Written `A-B`, or `A` for just one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval<T> {
    /// The first value.
    pub first: T,
    /// The last value, not before the first.
    pub last: T,
}

impl<T: Copy + PartialEq> Interval<T> {
    /// Just `value`.
    pub fn one(value: T) -> Self {
        Self { first: value, last: value }
    }

    /// True when there is just one value.
    pub fn is_one(&self) -> bool {
        self.first == self.last
    }
}

impl<T: fmt::Display + Copy + PartialEq> fmt::Display for Interval<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_one() {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// A value that can stand at the end of an interval.
pub trait IntervalEnd: Copy + PartialOrd + FromStr {
    /// What one value is called, with its article.
    const NAME: &'static str;
    /// What is accepted, with an example.
    const ACCEPTED: &'static str;
}

impl IntervalEnd for u16 {
    const NAME: &'static str = "a number up to 65535";
    const ACCEPTED: &'static str = "a number from 0 to 65535, or two with a dash, such as 9 or 1000-1999";
}

impl IntervalEnd for u32 {
    const NAME: &'static str = "a number";
    const ACCEPTED: &'static str = "a whole number, or two with a dash, such as 60 or 64-1514";
}

impl IntervalEnd for MacAddr {
    const NAME: &'static str = "a MAC address";
    const ACCEPTED: &'static str =
        "six pairs of hex digits, or two addresses with a dash, such as 02:00:00:00:00:01-02:00:00:00:00:ff";
}

impl IntervalEnd for Ipv4Addr {
    const NAME: &'static str = "an IPv4 address";
    const ACCEPTED: &'static str = ADDRESSES;
}

impl IntervalEnd for Ipv6Addr {
    const NAME: &'static str = "an IPv6 address";
    const ACCEPTED: &'static str = ADDRESSES;
}

const ADDRESSES: &str = "an IPv4 or IPv6 address, two of them with a dash, or a prefix, such as 198.18.0.1-198.18.0.9 or fd00::/120 (names are not looked up)";

impl<T: IntervalEnd> FromStr for Interval<T> {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let (first, last, offset) = match text.split_once('-') {
            None => (text, text, 0),
            Some((first, last)) => (first, last, first.len() + 1),
        };
        let first = end(first).map_err(|bad| bad.within(text, 0))?;
        let last = end(last).map_err(|bad| bad.within(text, offset))?;
        if last < first {
            return Err(BadText::whole(text, "the end comes before the start", T::ACCEPTED));
        }
        Ok(Self { first, last })
    }
}

fn end<T: IntervalEnd>(text: &str) -> Result<T, BadText> {
    // `+5` is a number to the standard library.
    let value = if text.starts_with('+') { None } else { text.parse().ok() };
    value.ok_or_else(|| BadText::whole(text, format!("\"{text}\" is not {}", T::NAME), T::ACCEPTED))
}

/// Addresses of one IP version: `A`, `A-B`, or a prefix `A/N` for every address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4(Interval<Ipv4Addr>),
    /// IPv6.
    V6(Interval<Ipv6Addr>),
}

impl Addresses {
    /// True for IPv6.
    pub fn is_v6(&self) -> bool {
        matches!(self, Self::V6(_))
    }

    /// True for a single address.
    pub fn is_one(&self) -> bool {
        match self {
            Self::V4(v4) => v4.is_one(),
            Self::V6(v6) => v6.is_one(),
        }
    }

    /// The first address.
    pub fn first(&self) -> IpAddr {
        match self {
            Self::V4(v4) => v4.first.into(),
            Self::V6(v6) => v6.first.into(),
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(v4) => v4.fmt(f),
            Self::V6(v6) => v6.fmt(f),
        }
    }
}

impl FromStr for Addresses {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        if let Some((address, len)) = text.split_once('/') {
            return prefix(text, address, len);
        }
        match text.contains(':') {
            true => text.parse().map(Self::V6),
            false => text.parse().map(Self::V4),
        }
    }
}

/// Every address of `address/len`. Bits after the prefix must be zero: `10.0.0.1/24` may mean two
/// things.
fn prefix(text: &str, address: &str, len: &str) -> Result<Addresses, BadText> {
    let bad = |range, why: String| Err(BadText::new(text, range, why, ADDRESSES));
    let Ok(ip) = address.parse::<IpAddr>() else {
        return bad(0..address.len(), format!("\"{address}\" is not an IP address"));
    };
    let (bits, value) = match ip {
        IpAddr::V4(v4) => (32, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (128, v6.to_bits()),
    };
    let digits_only = len.bytes().all(|b| b.is_ascii_digit());
    let Some(len_bits) = len.parse::<u32>().ok().filter(|n| digits_only && *n <= bits) else {
        return bad(address.len() + 1..text.len(), format!("a prefix has 0 to {bits} bits"));
    };
    let hosts = if len_bits == 0 && bits == 128 { u128::MAX } else { (1u128 << (bits - len_bits)) - 1 };
    if value & hosts != 0 {
        return bad(0..text.len(), format!("{address} is not the first address of a /{len_bits}"));
    }
    Ok(match ip {
        IpAddr::V4(first) => {
            Addresses::V4(Interval { first, last: Ipv4Addr::from_bits((value | hosts) as u32) })
        }
        IpAddr::V6(first) => Addresses::V6(Interval { first, last: Ipv6Addr::from_bits(value | hosts) }),
    })
}

/// CPU numbers in the order given, as in `0,2-3`. Each comes once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSequence(pub Vec<u32>);

const CPUS: &str = "CPU numbers with commas and dashes, such as 0,2-3";
/// More CPUs than Linux can be built for: a guard against `0-4294967295`.
const CPUS_MAX: u32 = 8192;

impl FromStr for CpuSequence {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let mut cpus = Vec::new();
        let mut offset = 0;
        for part in text.split(',') {
            let here = offset..offset + part.len();
            offset = here.end + 1;
            let bad = |why: String| BadText::new(text, here.clone(), why, CPUS);
            let Interval { first, last } = part
                .parse::<Interval<u32>>()
                .map_err(|_| bad(format!("\"{part}\" is not a CPU or a range of them")))?;
            if last >= CPUS_MAX {
                return Err(bad(format!("there is no CPU {last}")));
            }
            for cpu in first..=last {
                if cpus.contains(&cpu) {
                    return Err(bad(format!("CPU {cpu} comes twice")));
                }
                cpus.push(cpu);
            }
        }
        Ok(Self(cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_value_or_two_with_a_dash() {
        assert_eq!("9".parse(), Ok(Interval::one(9u16)));
        assert_eq!("0-65535".parse(), Ok(Interval { first: 0u16, last: 65535 }));
        let macs: Interval<MacAddr> = "02:00:00:00:00:01-02:00:00:00:00:ff".parse().unwrap();
        assert_eq!(macs.to_string(), "02:00:00:00:00:01-02:00:00:00:00:ff");
    }

    #[test]
    fn the_mark_stands_under_the_bad_end() {
        let mark = |text: &str| text.parse::<Interval<u16>>().unwrap_err().bad();
        assert_eq!(mark("9-70000"), 2..7);
        assert_eq!(mark("x-9"), 0..1);
        assert_eq!(mark("9-"), 2..2);
        assert_eq!(mark("20-10"), 0..5);
        assert_eq!(mark("+5"), 0..2);
        assert_eq!("10.0.0.1-10.0.0.300".parse::<Addresses>().unwrap_err().bad(), 9..19);
        assert_eq!("fd00::1-fd00::g".parse::<Addresses>().unwrap_err().bad(), 8..15);
        assert_eq!("198.18.0.0/33".parse::<Addresses>().unwrap_err().bad(), 11..13);
        assert_eq!("198.18.0.1/15".parse::<Addresses>().unwrap_err().bad(), 0..13);
        assert_eq!("0,2-x,3".parse::<CpuSequence>().unwrap_err().bad(), 2..5);
        assert_eq!("0,0".parse::<CpuSequence>().unwrap_err().bad(), 2..3);
        assert_eq!("0-4294967295".parse::<CpuSequence>().unwrap_err().bad(), 0..12);
    }

    #[test]
    fn a_prefix_is_every_address_in_it() {
        let text = |prefix: &str| prefix.parse::<Addresses>().unwrap().to_string();
        assert_eq!(text("198.18.0.0/15"), "198.18.0.0-198.19.255.255");
        assert_eq!(text("10.0.0.1/32"), "10.0.0.1");
        assert_eq!(text("0.0.0.0/0"), "0.0.0.0-255.255.255.255");
        assert_eq!(text("fd00::/120"), "fd00::-fd00::ff");
        assert_eq!(text("::/0"), "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    }

    #[test]
    fn cpus_keep_their_order() {
        assert_eq!("3,0-1".parse(), Ok(CpuSequence(vec![3, 0, 1])));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_the_same(a: u32, b: u32, c: u128, d: u128, e: u16, g: u16) {
            let v4 = Addresses::V4(Interval { first: a.min(b).into(), last: a.max(b).into() });
            prop_assert_eq!(v4.to_string().parse(), Ok(v4));
            let v6 = Addresses::V6(Interval { first: c.min(d).into(), last: c.max(d).into() });
            prop_assert_eq!(v6.to_string().parse(), Ok(v6));
            let ports = Interval { first: e.min(g), last: e.max(g) };
            prop_assert_eq!(ports.to_string().parse(), Ok(ports));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,20}|[0-9a-f.:/,-]{0,40}") {
            let _ = text.parse::<Addresses>().map_err(|bad| bad.to_string());
            let _ = text.parse::<Interval<MacAddr>>().map_err(|bad| bad.to_string());
            let _ = text.parse::<Interval<u32>>().map_err(|bad| bad.to_string());
            let _ = text.parse::<CpuSequence>().map_err(|bad| bad.to_string());
        }
    }
}
