//! Arguments of `connect` and `accept`: addresses with ports, and how the XDP program is attached.

use connect::SERVERS_MAX;
use engine::{GROUP_LEN_MAX, GroupBy, XdpModeChoice};
use program::outcome::Failure;
use std::fmt;
use std::str::FromStr;
use units::{Addresses, BadText, Interval, human_count};

/// Addresses of one side at most, and connections: the table of connections has 64 bytes for each,
/// 1 GiB in all.
pub(crate) const CONNECTIONS_MAX: u128 = 1 << 24;

/// Bytes of a response that decide about its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupArg(pub GroupBy);

const GROUP_ACCEPTED: &str = "payload:OFFSET:LENGTH, such as payload:25:2; at most 16 bytes";
/// Longer segments do not exist.
const GROUP_OFFSET_MAX: u32 = 65_535;

impl FromStr for GroupArg {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = |why: &str| BadText::whole(text, why, GROUP_ACCEPTED);
        let numbers = text.strip_prefix("payload:").and_then(|rest| rest.split_once(':'));
        let (offset, len) = numbers.ok_or_else(|| bad("these are not the bytes of a payload"))?;
        let number = |part: &str| part.parse::<u32>().map_err(|_| bad("offset and length are whole numbers"));
        let (offset, len) = (number(offset)?, number(len)?);
        if !(1..=GROUP_LEN_MAX).contains(&len) {
            return Err(bad("a group has 1 to 16 bytes"));
        }
        if offset > GROUP_OFFSET_MAX {
            return Err(bad("the offset is at most 65535"));
        }
        Ok(Self(GroupBy { offset, len }))
    }
}

const ACCEPTED: &str = "addresses and ports, such as 198.18.0.2:80, 198.18.0.0/28:8000-8009 or [fd00::2]:80";

/// How the XDP program is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum XdpArg {
    /// In the driver, or generic if the driver cannot
    #[default]
    Best,
    /// In the driver
    Native,
    /// In the stack, with any driver, at a fraction of the rate
    Generic,
}

impl XdpArg {
    /// The attach modes that may be used.
    pub fn choice(self) -> XdpModeChoice {
        match self {
            Self::Best => XdpModeChoice::Best,
            Self::Native => XdpModeChoice::Native,
            Self::Generic => XdpModeChoice::Generic,
        }
    }
}

/// How the XDP program is attached, with the reason if the driver has refused it.
pub fn xdp_text(mode: impl fmt::Display, native_refusal: Option<&str>) -> String {
    let refusal = native_refusal.map_or_else(String::new, |refusal| format!(" (native: {refusal})"));
    format!("XDP, {mode}{refusal}")
}

/// Addresses and ports of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Addresses.
    pub addresses: Addresses,
    /// Ports.
    pub ports: Interval<u16>,
}

impl FromStr for Target {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = |why: &str| BadText::whole(text, why, ACCEPTED);
        let (addresses, ports) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(|| bad("there is no port behind ]"))?,
            None => text.rsplit_once(':').ok_or_else(|| bad("there is no port"))?,
        };
        if !text.starts_with('[') && addresses.contains(':') {
            return Err(bad("an IPv6 address needs brackets, as in [fd00::2]:80"));
        }
        let at = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let ports_of: Interval<u16> = ports.parse().map_err(|why: BadText| why.within(text, at(ports)))?;
        if ports_of.first == 0 {
            return Err(bad("there is no port 0"));
        }
        let addresses_of = addresses.parse().map_err(|why: BadText| why.within(text, at(addresses)))?;
        Ok(Self { addresses: addresses_of, ports: ports_of })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addresses.is_v6() {
            true => write!(f, "[{}]:{}", self.addresses, self.ports),
            false => write!(f, "{}:{}", self.addresses, self.ports),
        }
    }
}

impl Target {
    /// True if an address has a port of both.
    fn overlaps(&self, other: &Self) -> bool {
        fn meet<T: PartialOrd>(one: &Interval<T>, other: &Interval<T>) -> bool {
            one.first <= other.last && other.first <= one.last
        }
        let addresses = match (&self.addresses, &other.addresses) {
            (Addresses::V4(one), Addresses::V4(other)) => meet(one, other),
            (Addresses::V6(one), Addresses::V6(other)) => meet(one, other),
            _ => false,
        };
        addresses && meet(&self.ports, &other.ports)
    }
}

/// A list of servers as the user may write it.
pub(crate) fn targets_text(targets: &[Target]) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Checks a list of servers: not too many, of one version of IP, and no server twice.
///
/// # Errors
/// Bad usage.
pub(crate) fn check_targets(targets: &[Target]) -> Result<(), Failure> {
    let act = || format!("connect to {}", targets_text(targets));
    if targets.len() > SERVERS_MAX {
        let why = format!("{} ranges of servers, and {SERVERS_MAX} are the most", targets.len());
        return Err(Failure::usage(act(), why).try_this("ranges, such as 198.18.0.0/28:8000-8009"));
    }
    for (number, target) in targets.iter().enumerate() {
        if target.addresses.is_v6() != targets[0].addresses.is_v6() {
            return Err(Failure::usage(act(), "the servers are of different versions of IP")
                .try_this("one run for IPv4 and one for IPv6"));
        }
        if let Some(earlier) = targets[..number].iter().find(|earlier| target.overlaps(earlier)) {
            return Err(Failure::usage(act(), format!("{earlier} and {target} have a server in common"))
                .try_this("each server once"));
        }
    }
    Ok(())
}

/// Number of addresses.
///
/// # Errors
/// More than connections can be, or IPv6 addresses that differ in more than the last 32 bits.
pub fn count_of(option: &str, addresses: &Addresses) -> Result<u32, Failure> {
    let count = match addresses {
        Addresses::V4(Interval { first, last }) => u64::from(last.to_bits() - first.to_bits()) + 1,
        Addresses::V6(Interval { first, last }) if first.to_bits() >> 32 == last.to_bits() >> 32 => {
            (last.to_bits() - first.to_bits()) as u64 + 1
        }
        Addresses::V6(_) => u64::MAX,
    };
    u32::try_from(count).ok().filter(|count| u128::from(*count) <= CONNECTIONS_MAX).ok_or_else(|| {
        Failure::usage(
            format!("use the addresses {addresses} of {option}"),
            format!(
                "at most {} are possible, equal in all but the last 32 bits",
                human_count(CONNECTIONS_MAX as u64)
            ),
        )
        .try_this(format!("a longer prefix in {option}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_written_with_their_ports() {
        for text in ["198.18.0.2:80", "198.18.0.2-198.18.0.9:80-89", "[fd00::2]:443", "[fd00::2-fd00::5]:1-9"]
        {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let many: Target = "198.18.0.0/28:80".parse().unwrap();
        assert_eq!(many.to_string(), "198.18.0.0-198.18.0.15:80");
        for text in ["198.18.0.2", "fd00::2:80", "[fd00::2]", "198.18.0.2:0", "198.18.0.2:x", "x:80"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_server_is_twice_in_a_list() {
        let check = |text: &str| {
            let targets: Vec<Target> = text.split(',').map(|part| part.parse().unwrap()).collect();
            check_targets(&targets).is_ok()
        };
        for good in
            ["10.0.0.1:80", "10.0.0.1:80,10.0.0.1:81", "10.0.0.0/28:80,10.0.0.16/28:80", "[::1]:1,[::2]:1"]
        {
            assert!(check(good), "{good}");
        }
        let many = (1..=17).map(|host| format!("10.0.0.{host}:80")).collect::<Vec<_>>().join(",");
        for bad in ["10.0.0.1:80,10.0.0.1:80", "10.0.0.0/28:80-90,10.0.0.9:85", "10.0.0.1:80,[::1]:80", &many]
        {
            assert!(!check(bad), "{bad}");
        }
    }

    #[test]
    fn a_group_is_some_bytes_of_the_payload() {
        let group = |text: &str| text.parse::<GroupArg>().ok().map(|group| (group.0.offset, group.0.len));
        assert_eq!(group("payload:25:2"), Some((25, 2)));
        for bad in ["25:2", "payload:25", "payload:25:0", "payload:25:17", "payload:x:2", "payload:70000:2"] {
            assert_eq!(group(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_of_ipv6_are_equal_in_their_first_bits() {
        let count = |text: &str| count_of("--src", &text.parse().unwrap()).ok();
        assert_eq!(count("fd00::1000-fd00::10ff"), Some(256));
        assert_eq!(count("fd00::ffff:ffff-fd00::1:0:0"), None);
        assert_eq!(count("fd00::/64"), None);
        assert_eq!(count("fd00::/104"), Some(1 << 24));
    }
}
