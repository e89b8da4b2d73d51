//! The file of an agent: its name, its hub, its ports, and what may be sent on them.

use fleet::FleetName;
use hub::HubSettings;
use program::outcome::{Failure, Refused};
use program::waiting_read;
use serde::{Deserialize, Deserializer};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use units::{Addresses, BitRate, Pps};

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentFile {
    /// Its name in the fleet.
    pub(super) host: FleetName,
    /// Address of the hub.
    hub: String,
    /// File with the certificate of the hub.
    ca: Option<PathBuf>,
    /// File with the key of this host.
    key: Option<PathBuf>,
    /// Its ports.
    #[serde(rename = "port")]
    pub(super) ports: Vec<AgentPort>,
}

/// A port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentPort {
    /// Its name.
    pub(super) name: FleetName,
    /// Its device; without one that of its name.
    device: Option<String>,
    /// The network namespace of the device.
    pub(super) netns: Option<String>,
    /// It has no device: counts are computed, nothing is sent. For trying a fleet.
    #[serde(default)]
    pub(super) dry: bool,
    /// Highest rate of all flows together.
    #[serde(default, deserialize_with = "quantity")]
    pub(super) max_pps: Option<Pps>,
    /// Highest rate of all flows together, on the wire.
    #[serde(default, deserialize_with = "quantity")]
    pub(super) max_rate: Option<BitRate>,
    /// Addresses that frames may be sent to; without it all.
    pub(super) allow_dst: Option<Vec<AllowedAddresses>>,
}

/// Addresses, a range or a prefix.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct AllowedAddresses(Addresses);

impl TryFrom<String> for AllowedAddresses {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|bad: units::BadText| bad.to_string())
    }
}

impl AllowedAddresses {
    /// True if all addresses from `first` to `last` are among them.
    pub(super) fn have(self, (first, last): (IpAddr, IpAddr)) -> bool {
        match (self.0, first, last) {
            (Addresses::V4(these), IpAddr::V4(first), IpAddr::V4(last)) => {
                these.first <= first && last <= these.last
            }
            (Addresses::V6(these), IpAddr::V6(first), IpAddr::V6(last)) => {
                these.first <= first && last <= these.last
            }
            _ => false,
        }
    }
}

/// A quantity with its unit, as on the command line.
fn quantity<'de, D: Deserializer<'de>, Q: FromStr<Err: std::fmt::Display>>(
    read: D,
) -> Result<Option<Q>, D::Error> {
    let text = String::deserialize(read)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl AgentPort {
    /// Its device.
    pub(super) fn device(&self) -> &str {
        self.device.as_deref().unwrap_or(self.name.as_str())
    }
}

impl AgentFile {
    /// Reads a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// It cannot be read, or has something that is no setting of an agent.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let act = format!("read {}", path.display());
        let text = waiting_read::read_to_string(path).refused(&act)?;
        let mut file: Self =
            toml::from_str(&text).map_err(|why| Failure::usage(&act, why.to_string().trim()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for file in [&mut file.ca, &mut file.key].into_iter().flatten() {
            *file = folder.join(&*file);
        }
        for (index, port) in file.ports.iter().enumerate() {
            if file.ports[..index].iter().any(|other| other.name == port.name) {
                return Err(Failure::usage(&act, format!("two ports have the name {}", port.name)));
            }
        }
        match file.ports.is_empty() {
            true => Err(Failure::usage(&act, "it has no port").try_this("[[port]] with name = \"eth1\"")),
            false => Ok(file),
        }
    }

    /// How to reach the hub.
    pub(super) fn hub(&self) -> HubSettings {
        HubSettings { url: self.hub.clone(), ca: self.ca.clone(), key: self.key.clone() }
    }

    /// A port by its name.
    ///
    /// # Errors
    /// In one line: there is none.
    pub(super) fn port(&self, name: &FleetName) -> Result<&AgentPort, String> {
        let names = || self.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let port = self.ports.iter().find(|port| port.name == *name);
        port.ok_or_else(|| format!("the agent's file has no port {name}, only {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(text: &str) -> Result<AgentFile, Failure> {
        let folder = testkit::Folder::new("agent-file");
        let path = folder.join("agent.toml");
        fs::write(&path, text).unwrap();
        AgentFile::read(&path)
    }

    const HEAD: &str = "host = \"h1\"\nhub = \"tls://hub:4222\"\nca = \"ca.pem\"\n";

    #[test]
    fn a_file_has_ports_and_limits() {
        let port = "[[port]]\nname = \"east\"\ndevice = \"eth1\"\nmax_pps = \"2M\"\nmax_rate = \"1Gbit\"\n\
                    allow_dst = [\"198.18.0.0/15\", \"fd00::1\"]";
        let file = read(&format!("{HEAD}{port}")).unwrap();
        let port = file.port(&"east".parse().unwrap()).unwrap();
        assert_eq!((port.device(), port.max_pps), ("eth1", Some(Pps(2_000_000))));
        assert!(file.hub().ca.unwrap().is_absolute(), "beside the file");
        let allowed = port.allow_dst.as_deref().unwrap();
        let v4 = |text: &str| -> IpAddr { text.parse().unwrap() };
        assert!(allowed[0].have((v4("198.18.0.1"), v4("198.19.255.255"))));
        assert!(
            !allowed[0].have((v4("198.18.0.1"), v4("198.20.0.0")))
                && !allowed[0].have((v4("fd00::1"), v4("fd00::1")))
        );
        assert!(allowed[1].have((v4("fd00::1"), v4("fd00::1"))));
    }

    #[test]
    fn a_wrong_file_is_told() {
        for (text, why) in [
            ("[[port]]\nname = \"a/b\"", "is not a name"),
            ("[[port]]\nname = \"a\"\nmax_pps = \"fast\"", "fast"),
            ("[[port]]\nname = \"a\"\n[[port]]\nname = \"a\"", "two ports have the name a"),
            ("[[port]]\nname = \"a\"\ncommand = \"rm\"", "unknown field `command`"),
            ("port = []", "it has no port"),
        ] {
            let refusal = read(&format!("{HEAD}{text}")).unwrap_err().to_string();
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
    }
}
