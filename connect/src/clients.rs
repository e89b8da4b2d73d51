//! Addresses and ports of the connections, and their initial sequence numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of addresses and ports. Of an IPv6 address the last 32 bits count up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The first address of the clients.
    pub client: IpAddr,
    /// Number of their addresses.
    pub client_count: u32,
    /// Their first port.
    pub client_port: u16,
    /// Number of their ports.
    pub client_port_count: u32,
    /// The first address of the servers.
    pub server: IpAddr,
    /// Number of their addresses.
    pub server_count: u32,
    /// Their first port.
    pub server_port: u16,
    /// Number of their ports.
    pub server_port_count: u32,
}

/// The two sides of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address of the client.
    pub client: IpAddr,
    /// Its port.
    pub client_port: u16,
    /// Address of the server.
    pub server: IpAddr,
    /// Its port.
    pub server_port: u16,
}

impl Addresses {
    /// Connections that can be open at a time.
    pub fn connections(&self) -> u128 {
        [self.client_count, self.client_port_count, self.server_count, self.server_port_count]
            .into_iter()
            .map(u128::from)
            .product()
    }

    /// Addresses and ports of the connection `index`: those of the server vary fastest, the port of
    /// the client slowest.
    pub fn place(&self, index: u32) -> Place {
        let mut rest = index;
        let mut next = |count: u32| {
            let part = rest % count;
            rest /= count;
            part
        };
        let server = plus(self.server, next(self.server_count));
        let server_port = self.server_port.wrapping_add(next(self.server_port_count) as u16);
        let client = plus(self.client, next(self.client_count));
        let client_port = self.client_port.wrapping_add(next(self.client_port_count) as u16);
        Place { client, client_port, server, server_port }
    }
}

/// The last 32 bits of an address.
fn low(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => address.to_bits() as u32,
    }
}

fn plus(address: IpAddr, count: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().wrapping_add(count)).into(),
        IpAddr::V6(address) => {
            let low = (address.to_bits() as u32).wrapping_add(count);
            Ipv6Addr::from_bits(address.to_bits() >> 32 << 32 | u128::from(low)).into()
        }
    }
}

/// The initial sequence number of a connection that is opened `since_boot_ns` after boot: a clock
/// of 2.1 ms and a keyed hash of its addresses and ports (RFC 6528) in the high half, 0 in the low
/// one. So the number of a port grows by more than a connection uses, and a server accepts the SYN
/// of a port that it has in TIME_WAIT.
pub fn initial_number(key: u64, place: &Place, since_boot_ns: u64) -> u32 {
    let mut hash = key ^ (u64::from(low(place.client)) << 32 | u64::from(low(place.server)));
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 29;
    hash ^= u64::from(place.client_port) << 16 | u64::from(place.server_port);
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((hash >> 48) as u32).wrapping_add((since_boot_ns >> 21) as u32) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn addresses(client: &str, server: &str) -> Addresses {
        Addresses {
            client: client.parse().unwrap(),
            client_count: 3,
            client_port: 65_000,
            client_port_count: 536,
            server: server.parse().unwrap(),
            server_count: 2,
            server_port: 80,
            server_port_count: 2,
        }
    }

    #[test]
    fn each_connection_has_a_place_of_its_own() {
        for (client, server) in [("198.18.64.1", "198.18.0.2"), ("fd00::ffff:fffe", "fd00::2")] {
            let addresses = addresses(client, server);
            let count = addresses.connections() as u32;
            assert_eq!(count, 6432);
            let places: HashSet<String> = (0..count).map(|i| format!("{:?}", addresses.place(i))).collect();
            assert_eq!(places.len(), count as usize);
            assert_eq!(addresses.place(0).client_port, 65_000);
            assert_eq!(addresses.place(count - 1).client_port, 65_535);
            assert_eq!(addresses.place(1).server, plus(addresses.server, 1));
        }
        let low = addresses("fd00::ffff:fffe", "fd00::2").place(4);
        assert_eq!(low.client, "fd00::ffff:ffff".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn numbers_of_a_port_grow_with_time_and_differ_between_ports() {
        let addresses = addresses("198.18.64.1", "198.18.0.2");
        let number = |index, ms: u64| initial_number(7, &addresses.place(index), ms * 1_000_000);
        for index in 0..1000 {
            let later = number(index, 1_005).wrapping_sub(number(index, 1_000));
            assert!((0x10000..=0x30000).contains(&later), "{later:#x}");
        }
        let all: HashSet<u32> = (0..1000).map(|index| number(index, 1000)).collect();
        assert!(all.len() > 980, "{}", all.len());
        assert_ne!(number(1, 0), initial_number(8, &addresses.place(1), 0));
    }
}
