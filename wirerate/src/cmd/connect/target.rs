//! The server of `--dst`: addresses and ports.

use crate::units::{Addresses, BadText, Interval};
use std::fmt;
use std::str::FromStr;

const ACCEPTED: &str = "addresses and ports, such as 198.18.0.2:80, 198.18.0.0/28:8000-8009 or [fd00::2]:80";

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
}
