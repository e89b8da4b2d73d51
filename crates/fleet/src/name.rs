//! Names of hosts, ports and runs. They are parts of subjects and of file names, so their letters
//! are few.

use facts::{Described, Kind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest name.
const LEN_MAX: usize = 48;

/// A name: up to 48 letters, digits, `_` and `-`, the first one a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Described)]
#[serde(try_from = "String", into = "String")]
pub struct FleetName(String);

/// Text that is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a name: up to {LEN_MAX} letters, digits, _ and -, the first one a letter or digit")]
pub struct BadName {
    /// The text, cut where it is too long.
    text: String,
}

impl FleetName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FleetName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        match starts && text.len() <= LEN_MAX && text.bytes().all(is_good) {
            true => Ok(Self(text.to_owned())),
            false => Err(BadName { text: text.chars().take(LEN_MAX).collect() }),
        }
    }
}

impl TryFrom<String> for FleetName {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<FleetName> for String {
    fn from(name: FleetName) -> Self {
        name.0
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A port of a host, written as HOST/PORT.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortPlace {
    /// The host.
    pub host: FleetName,
    /// The port, as the file of its agent names it.
    pub port: FleetName,
}

impl Described for PortPlace {
    const KIND: Kind = Kind::Text;
}

impl FromStr for PortPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text.split_once('/').ok_or_else(|| format!("{text:?} is not HOST/PORT"))?;
        let name = |text: &str| text.parse().map_err(|bad: BadName| bad.to_string());
        Ok(Self { host: name(host)?, port: name(port)? })
    }
}

impl TryFrom<String> for PortPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PortPlace> for String {
    fn from(place: PortPlace) -> Self {
        place.to_string()
    }
}

impl fmt::Display for PortPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_subjects_or_paths_interpret_is_a_name() {
        for good in ["h1", "rack-7_node", "A", &"x".repeat(48)] {
            assert_eq!(good.parse::<FleetName>().unwrap().as_str(), good);
        }
        for bad in ["", "-x", "_x", "a.b", "*", ">", "a b", "../etc", "a/b", "h\n", "ä", &"x".repeat(49)] {
            assert!(bad.parse::<FleetName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_place_is_a_host_and_a_port() {
        let place: PortPlace = "h1/eth1".parse().unwrap();
        assert_eq!(
            (place.host.as_str(), place.port.as_str(), place.to_string().as_str()),
            ("h1", "eth1", "h1/eth1")
        );
        for bad in ["h1", "h1/", "/eth1", "h1/a/b"] {
            assert!(bad.parse::<PortPlace>().is_err(), "{bad}");
        }
    }
}
