//! Name resolution block: names of addresses, so that a reader on another host needs no DNS.

use crate::body::Body;
use crate::options::{self, COMMENT, Emitter, set};
use crate::{ByteOrder, RawOption, ReadError, frame};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const RECORD_END: u16 = 0;
pub(crate) const RECORD_V4: u16 = 1;
pub(crate) const RECORD_V6: u16 = 2;

pub(crate) const DNS_NAME: u16 = 2;
pub(crate) const DNS_V4: u16 = 3;
pub(crate) const DNS_V6: u16 = 4;

/// The names of one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The address.
    pub address: IpAddr,
    /// Its names, the main one first; none empty, none with a NUL, which ends a name
    /// in the file.
    pub names: Vec<String>,
}

/// Names of addresses, and who knew them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// One entry for each address.
    pub entries: Vec<Name>,
    /// Name of the server that was asked.
    pub dns_name: Option<String>,
    /// IPv4 address of that server.
    pub dns_v4: Option<Ipv4Addr>,
    /// IPv6 address of that server.
    pub dns_v6: Option<Ipv6Addr>,
    /// Comment of the author.
    pub comment: Option<String>,
    /// Options that no field above holds.
    pub other: Vec<RawOption>,
}

impl Names {
    /// Appends the block in little-endian order.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(ByteOrder::Little, out);
    }

    /// Appends the block in the order of its section.
    ///
    /// # Panics
    /// When the names of one address take more than 65,535 bytes together.
    pub fn emit_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        frame::emit(order, frame::NAMES, out, |out| {
            self.entries.iter().for_each(|entry| entry.emit(order, out));
            out.extend_from_slice(&order.emit_u16(RECORD_END));
            out.extend_from_slice(&[0; 2]);
            let mut options = Emitter::new(order, out);
            options.text(COMMENT, self.comment.as_deref());
            options.text(DNS_NAME, self.dns_name.as_deref());
            if let Some(address) = self.dns_v4 {
                options.bytes(DNS_V4, &address.octets());
            }
            if let Some(address) = self.dns_v6 {
                options.bytes(DNS_V6, &address.octets());
            }
            options.raw(&self.other);
            options.end();
        });
    }

    pub(crate) fn parse(mut body: Body<'_>) -> Result<Self, ReadError> {
        let mut names = Self::default();
        // A missing end marker is forgiven when the block ends there.
        while !body.is_empty() {
            let record_type = body.u16("a name record's type")?;
            let len = usize::from(body.u16("a name record's length")?);
            let value = body.take("a name record", len)?;
            body.skip(frame::pad_len(len));
            if record_type == RECORD_END {
                break;
            }
            names.entries.extend(Name::parse(record_type, value));
        }
        options::parse(body, &mut names.other, |option| match option.code {
            COMMENT => set(&mut names.comment, option.string()),
            DNS_NAME => set(&mut names.dns_name, option.string()),
            DNS_V4 => set(&mut names.dns_v4, option.bytes::<4>().map(Ipv4Addr::from)),
            DNS_V6 => set(&mut names.dns_v6, option.bytes::<16>().map(Ipv6Addr::from)),
            _ => false,
        })?;
        Ok(names)
    }
}

impl Name {
    fn emit(&self, order: ByteOrder, out: &mut Vec<u8>) {
        let record_type = if self.address.is_ipv4() { RECORD_V4 } else { RECORD_V6 };
        out.extend_from_slice(&order.emit_u16(record_type));
        out.extend_from_slice(&[0; 2]);
        let value_start = out.len();
        match self.address {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
        for name in &self.names {
            out.extend_from_slice(name.as_bytes());
            out.push(0);
        }
        let len = u16::try_from(out.len() - value_start).expect("a name record has at most 65,535 bytes");
        out[value_start - 2..value_start].copy_from_slice(&order.emit_u16(len));
        frame::pad(out, value_start);
    }

    /// Nothing for records that are not of IP addresses (EUI-48, EUI-64) or too short for theirs.
    fn parse(record_type: u16, value: &[u8]) -> Option<Self> {
        let (address, names) = match record_type {
            RECORD_V4 => value.split_first_chunk::<4>().map(|(a, rest)| (IpAddr::from(*a), rest))?,
            RECORD_V6 => value.split_first_chunk::<16>().map(|(a, rest)| (IpAddr::from(*a), rest))?,
            _ => return None,
        };
        let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
        Some(Self { address, names: names.collect() })
    }
}
