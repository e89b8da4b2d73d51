//! Groups and sources in messages of IGMP (RFC 2236, RFC 3376) and of multicast listener discovery
//! version 2 (RFC 3810), which have one form with addresses of 4 or 16 bytes.

use super::bytes::half;

/// Type of IGMP membership queries.
pub const IGMP_QUERY: u8 = 0x11;
/// Type of IGMP membership reports of version 3.
pub const IGMP_REPORT_V3: u8 = 0x22;
/// Types of IGMP messages with one group: version 1 and 2 reports, leave.
const IGMP_WITH_GROUP: [u8; 4] = [IGMP_QUERY, 0x12, 0x16, 0x17];

/// The bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    bytes: &'a [u8],
    address_len: usize,
}

impl<'a> View<'a> {
    /// Of an IGMP message (`address_len` 4), or a query or report of MLDv2 (16).
    pub fn new(bytes: &'a [u8], address_len: usize) -> Self {
        Self { bytes, address_len }
    }

    /// Calls `found` with the offset of each address of an IGMP message; the last one may be cut.
    pub fn igmp_addresses(&self, found: impl FnMut(usize)) {
        match self.bytes.first() {
            Some(&IGMP_REPORT_V3) => self.report(found),
            Some(&IGMP_QUERY) => self.query(4, found),
            Some(kind) if IGMP_WITH_GROUP.contains(kind) => self.list(4, 1, found),
            _ => {}
        }
    }

    /// Calls `found` with the offset of the group, which is at `group_at`, and of each source of a
    /// query.
    pub fn query(&self, group_at: usize, mut found: impl FnMut(usize)) {
        self.list(group_at, 1, &mut found);
        // Flags and the interval of queries are before the number of sources.
        let sources_at = group_at + self.address_len;
        if let Some(count) = half(self.bytes, sources_at + 2) {
            self.list(sources_at + 4, usize::from(count), found);
        }
    }

    /// Calls `found` with the offset of each group and source of a report.
    pub fn report(&self, mut found: impl FnMut(usize)) {
        let Some(records) = half(self.bytes, 6) else { return };
        let mut at = 8;
        for _ in 0..records {
            let Some(sources) = half(self.bytes, at + 2) else { return };
            let count = 1 + usize::from(sources);
            self.list(at + 4, count, &mut found);
            at += 4 + count * self.address_len + usize::from(self.bytes[at + 1]) * 4;
        }
    }

    fn list(&self, at: usize, count: usize, mut found: impl FnMut(usize)) {
        let places = (0..count).map(|place| at + place * self.address_len);
        // The first one of which bytes are missing counts, too.
        places.take_while(|at| *at < self.bytes.len()).for_each(&mut found);
    }

    /// The fields.
    pub fn fields(&self) -> Option<Fields> {
        Some(Fields { kind: *self.bytes.first()?, checksum: half(self.bytes, 2)? })
    }
}

/// Fields of a message of either protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Type of the message.
    pub kind: u8,
    /// Checksum.
    pub checksum: u16,
}
