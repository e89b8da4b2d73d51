//! Where metrics and the web page are served.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// The address of a server. A port alone is one of 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorAddress(pub SocketAddr);

impl FromStr for MonitorAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self((Ipv4Addr::LOCALHOST, port).into()));
        }
        let address =
            text.parse().map_err(|_| "not a port, such as 9464, or ADDR:PORT, such as 0.0.0.0:9464")?;
        Ok(Self(address))
    }
}

impl MonitorAddress {
    /// What to try when `option` cannot serve here for this reason.
    pub(super) fn advice(self, option: &str, why: &io::Error) -> String {
        match why.kind() {
            // A new network namespace has its loopback down.
            ErrorKind::AddrNotAvailable if self.0.ip().is_loopback() => "ip link set lo up".to_owned(),
            ErrorKind::AddrNotAvailable => format!("{option} 0, or an address of this host"),
            _ => format!("{option} 0, for any free port"),
        }
    }
}

impl fmt::Display for MonitorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a namespace whose loopback was down, `--metrics 0` was answered with `--metrics 0`.
    #[test]
    fn advice_is_for_the_reason() {
        for (address, kind, advice) in [
            ("0", ErrorKind::AddrNotAvailable, "ip link set lo up"),
            ("192.0.2.1:80", ErrorKind::AddrNotAvailable, "--web 0, or an address of this host"),
            ("80", ErrorKind::AddrInUse, "--web 0, for any free port"),
        ] {
            let address: MonitorAddress = address.parse().unwrap();
            assert_eq!(address.advice("--web", &kind.into()), advice);
        }
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        let parsed = |text: &str| text.parse::<MonitorAddress>().map(|address| address.to_string());
        assert_eq!(parsed("9464").as_deref(), Ok("127.0.0.1:9464"));
        assert_eq!(parsed("0").as_deref(), Ok("127.0.0.1:0"));
        assert_eq!(parsed("0.0.0.0:9464").as_deref(), Ok("0.0.0.0:9464"));
        assert_eq!(parsed("[::1]:9464").as_deref(), Ok("[::1]:9464"));
        for bad in ["", ":9464", "localhost:9464", "65536", "1.2.3.4", "-1"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
