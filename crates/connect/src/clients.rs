//! Addresses and ports of the connections, and their initial sequence numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of server addresses and ports at most.
pub const SERVERS_MAX: usize = 16;

/// Server addresses, each with the same ports. Of an IPv6 address the last 32 bits count up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRange {
    /// The first address.
    pub address: IpAddr,
    /// Number of addresses.
    pub address_count: u32,
    /// The first port.
    pub port: u16,
    /// Number of ports.
    pub port_count: u32,
}

impl ServerRange {
    /// Number of addresses with a port.
    pub fn places(&self) -> u128 {
        u128::from(self.address_count) * u128::from(self.port_count)
    }
}

/// Ranges of addresses and ports. Of an IPv6 address the last 32 bits count up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The first address of the clients.
    pub client: IpAddr,
    /// Number of their addresses.
    pub client_count: u32,
    /// Their first port.
    pub client_port: u16,
    /// Number of their ports.
    pub client_port_count: u32,
    /// The servers, at most [`SERVERS_MAX`] ranges.
    pub servers: Vec<ServerRange>,
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
    /// Server addresses with a port.
    pub fn server_places(&self) -> u128 {
        self.servers.iter().map(ServerRange::places).sum()
    }

    /// Connections that can be open at a time.
    pub fn connections(&self) -> u128 {
        self.server_places() * u128::from(self.client_count) * u128::from(self.client_port_count)
    }

    /// Addresses and ports of the connection `index`. The address of the client varies fastest, and
    /// the server with it; the port of the client varies slowest. So consecutive connections spread
    /// over clients and servers, and the next one of a client goes to its next server.
    ///
    /// # Panics
    /// With 2^32 server places or more, which do not fit into the index.
    pub fn place(&self, index: u32) -> Place {
        let places = u32::try_from(self.server_places()).expect("the places are part of the index");
        let (client, rest) = (index % self.client_count, index / self.client_count);
        let (range, place) = self.server((rest.wrapping_add(client) % places).into());
        Place {
            client: plus(self.client, client),
            client_port: self.client_port.wrapping_add((rest / places) as u16),
            server: plus(range.address, place % range.address_count),
            server_port: range.port.wrapping_add((place / range.address_count) as u16),
        }
    }

    /// The range of a server place, and the number of the place in it.
    fn server(&self, mut place: u128) -> (&ServerRange, u32) {
        for range in &self.servers {
            if place < range.places() {
                return (range, place as u32);
            }
            place -= range.places();
        }
        unreachable!("place {place} behind the last range")
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

    fn addresses(client: &str, servers: [&str; 2]) -> Addresses {
        let range = |address: &str, port_count| ServerRange {
            address: address.parse().unwrap(),
            address_count: 2,
            port: 80,
            port_count,
        };
        Addresses {
            client: client.parse().unwrap(),
            client_count: 3,
            client_port: 65_000,
            client_port_count: 536,
            servers: vec![range(servers[0], 2), range(servers[1], 1)],
        }
    }

    const V4: [&str; 2] = ["198.18.0.2", "198.19.0.9"];
    const V6: [&str; 2] = ["fd00::2", "fd00:9::9"];

    #[test]
    fn each_connection_has_a_place_of_its_own() {
        for (client, servers) in [("198.18.64.1", V4), ("fd00::ffff:fffe", V6)] {
            let addresses = addresses(client, servers);
            let count = addresses.connections() as u32;
            assert_eq!(count, 3 * 536 * 6);
            let places: HashSet<String> = (0..count).map(|i| format!("{:?}", addresses.place(i))).collect();
            assert_eq!(places.len(), count as usize);
            assert_eq!(addresses.place(0).client_port, 65_000);
            assert_eq!(addresses.place(count - 1).client_port, 65_535);
        }
        let low = addresses("fd00::ffff:fffe", V6).place(1);
        assert_eq!(low.client, "fd00::ffff:ffff".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn connections_spread_over_clients_and_servers() {
        let addresses = addresses("198.18.64.1", V4);
        let text = |index| {
            let Place { client, server, server_port, .. } = addresses.place(index);
            format!("{client} {server}:{server_port}")
        };
        assert_eq!(
            [0, 1, 2, 3].map(text),
            [
                "198.18.64.1 198.18.0.2:80",
                "198.18.64.2 198.18.0.3:80",
                "198.18.64.3 198.18.0.2:81",
                "198.18.64.1 198.18.0.3:80",
            ]
        );
        assert_eq!(text(3 * 5), "198.18.64.1 198.19.0.10:80", "the last place of the second range");
        assert_eq!(addresses.place(3 * 6).client_port, 65_001);
    }

    #[test]
    fn numbers_of_a_port_grow_with_time_and_differ_between_ports() {
        let addresses = addresses("198.18.64.1", V4);
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
