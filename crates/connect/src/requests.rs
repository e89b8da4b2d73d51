//! The requests: HTTP, DNS, a ClientHello of TLS, and a packet that asks QUIC for its versions.

use std::net::IpAddr;

/// Why there is no such request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// A part of a name is empty or longer than 63 bytes, or the name is longer than 253.
    DnsName,
    /// There is no such type of record.
    DnsType,
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::DnsName => "a part of the name is empty or longer than 63 bytes, or the name than 253",
            Self::DnsType => {
                "the type of record is none of A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT, ANY, or a number"
            }
        })
    }
}

impl std::error::Error for RequestError {}

/// A question of DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The name, without a dot at its end.
    pub name: String,
    /// The type of record.
    pub kind: u16,
}

const TYPES: [(&str, u16); 10] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
    ("ANY", 255),
];

impl std::str::FromStr for Query {
    type Err = RequestError;

    /// `NAME` or `NAME,TYPE`.
    fn from_str(text: &str) -> Result<Self, RequestError> {
        let (name, kind) = text.split_once(',').unwrap_or((text, "A"));
        let known = TYPES.iter().find(|(word, _)| word.eq_ignore_ascii_case(kind));
        let kind = match known {
            Some((_, number)) => *number,
            None => kind.parse().map_err(|_| RequestError::DnsType)?,
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_part = |part: &str| (1..=63).contains(&part.len());
        if name.len() > 253 || !name.split('.').all(is_part) {
            return Err(RequestError::DnsName);
        }
        Ok(Self { name: name.to_owned(), kind })
    }
}

/// A query of class IN with recursion desired. Its ID is 0: each query gets its own one.
pub fn dns_query(query: &Query) -> Vec<u8> {
    let mut bytes = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for part in query.name.split('.') {
        bytes.push(part.len() as u8);
        bytes.extend(part.as_bytes());
    }
    bytes.push(0);
    bytes.extend(query.kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// A GET request of HTTP/1.1. The server closes the connection after its response unless
/// `is_kept`.
pub fn http_get(path: &str, host: &str, is_kept: bool) -> Vec<u8> {
    let close = if is_kept { "" } else { "Connection: close\r\n" };
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n").into_bytes()
}

/// A packet of a QUIC version that no server has, as long as an Initial packet must be: a server
/// answers with its versions (RFC 9000, 6), without keys and without state.
pub fn quic_initial() -> Vec<u8> {
    const LEN: usize = 1200;
    // Long header, version of the pattern that is reserved for this, and two connection IDs.
    let mut bytes = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    bytes.extend(*b"wirerate");
    bytes.push(8);
    bytes.extend(*b"connects");
    bytes.resize(LEN, 0);
    bytes
}

/// A ClientHello of TLS 1.2 and 1.3 with `host` as the server's name. Its key share is a fixed
/// point, so the handshake cannot go on behind the ServerHello.
pub fn tls_hello(host: Option<&str>) -> Vec<u8> {
    let mut extensions = Vec::new();
    // A literal address is no server name (RFC 6066, 3).
    if let Some(host) = host.filter(|host| host.parse::<IpAddr>().is_err()) {
        let mut name = vec![0];
        name.extend(with_len16(host.as_bytes()));
        extension(&mut extensions, 0, &with_len16(&name));
    }
    // Groups x25519 and secp256r1; signatures; versions 1.3 and 1.2; a key share for x25519.
    extension(&mut extensions, 10, &with_len16(&[0, 0x1d, 0, 0x17]));
    let signatures = [4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 5, 1, 8, 6, 6, 1];
    extension(&mut extensions, 13, &with_len16(&signatures));
    extension(&mut extensions, 43, &[4, 3, 4, 3, 3]);
    let mut share = vec![0, 0x1d];
    // The base point of x25519.
    let mut point = [0; 32];
    point[0] = 9;
    share.extend(with_len16(&point));
    extension(&mut extensions, 51, &with_len16(&share));
    let mut hello = vec![3, 3];
    hello.extend((0..32).map(|i| 0x20 + i));
    hello.push(32);
    hello.extend((0..32).map(|i| 0x60 + i));
    hello.extend(with_len16(&[0x13, 1, 0x13, 2, 0x13, 3, 0xc0, 0x2f, 0xc0, 0x2b, 0xc0, 0x30, 0xc0, 0x2c]));
    hello.extend([1, 0]);
    hello.extend(with_len16(&extensions));
    let mut handshake = vec![1, 0];
    handshake.extend(with_len16(&hello));
    let mut record = vec![22, 3, 1];
    record.extend(with_len16(&handshake));
    record
}

fn with_len16(bytes: &[u8]) -> Vec<u8> {
    let mut all = (bytes.len() as u16).to_be_bytes().to_vec();
    all.extend(bytes);
    all
}

fn extension(all: &mut Vec<u8>, kind: u16, bytes: &[u8]) {
    all.extend(kind.to_be_bytes());
    all.extend(with_len16(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_that_of_rfc_1035() {
        let query: Query = "www.example.com,aaaa".parse().unwrap();
        let expected = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x1c\0\x01";
        assert_eq!(dns_query(&query), expected);
        assert_eq!("a.b.".parse(), Ok(Query { name: "a.b".into(), kind: 1 }));
        assert_eq!("a,65".parse::<Query>().unwrap().kind, 65);
        for (text, why) in
            [("", RequestError::DnsName), ("a..b", RequestError::DnsName), ("a,HELLO", RequestError::DnsType)]
        {
            assert_eq!(text.parse::<Query>(), Err(why), "{text}");
        }
        assert_eq!("x".repeat(64).parse::<Query>(), Err(RequestError::DnsName));
    }

    #[test]
    fn a_hello_has_the_lengths_that_it_names() {
        let hello = tls_hello(Some("example.com"));
        let len16 = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
        assert_eq!(5 + len16(3), hello.len());
        assert_eq!(9 + len16(7), hello.len());
        assert!(hello.windows(11).any(|part| part == b"example.com"));
        assert_eq!(quic_initial().len(), 1200);
    }

    #[test]
    fn a_request_asks_for_the_end_only_if_it_is_wanted() {
        let text = |kept| String::from_utf8(http_get("/a", "h", kept)).unwrap();
        assert_eq!(text(true), "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(text(false), "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    }
}
