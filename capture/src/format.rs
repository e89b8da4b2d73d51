//! The two formats of capture files, as far as a writer must know them: how a file begins, and where in a stretch of
//! encoded records each one ends and when it was.

use pcapng::{Interface, Section, pcap};

/// Format of capture files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// pcapng: interfaces, queues, direction, losses, statistics.
    #[default]
    Pcapng,
    /// Classic pcap with nanoseconds: time, lengths and bytes of packets, nothing else.
    Pcap,
}

/// One encoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Its bytes, head and padding included.
    pub(crate) len: usize,
    /// Nanoseconds since 1970.
    pub(crate) time_ns: u64,
}

impl Format {
    /// Length and time of the record that `bytes` begin with, which our own encoder wrote.
    ///
    /// # Panics
    /// When `bytes` end within the head of a record.
    #[inline]
    pub(crate) fn first(self, bytes: &[u8]) -> Encoded {
        let head: &[u8; 20] = bytes.first_chunk().expect("a record has a head");
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        match self {
            Self::Pcapng => {
                let time_ns = u64::from(word(12)) << 32 | u64::from(word(16));
                Encoded { len: word(4) as usize, time_ns }
            }
            Self::Pcap => {
                let time_ns = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4));
                Encoded { len: pcap::RECORD_HEADER_LEN + word(8) as usize, time_ns }
            }
        }
    }

    /// The interface of the record that `bytes` begin with, which our own encoder wrote. pcap has but one.
    ///
    /// # Panics
    /// As [`Format::first`].
    #[inline]
    pub(crate) fn interface(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Pcapng => u32::from_le_bytes(*bytes[8..].first_chunk().expect("a record has a head")),
            Self::Pcap => 0,
        }
    }

    /// Length of the last one of whole records.
    pub(crate) fn last_len(self, records: &[u8]) -> usize {
        match self {
            // A block ends with its length.
            Self::Pcapng => u32::from_le_bytes(*records.last_chunk().expect("a record has an end")) as usize,
            Self::Pcap => self.records(records).last().map_or(0, |record| record.len),
        }
    }

    /// The records of a stretch of whole ones.
    pub(crate) fn records(self, mut bytes: &[u8]) -> impl Iterator<Item = Encoded> {
        std::iter::from_fn(move || {
            let record = (!bytes.is_empty()).then(|| self.first(bytes))?;
            bytes = &bytes[record.len..];
            Some(record)
        })
    }

    /// Number of whole records in the first `len` bytes of `records`, and how long they are together.
    pub(crate) fn whole(self, records: &[u8], len: usize) -> (u64, usize) {
        let (mut count, mut end) = (0, 0);
        for record in self.records(records) {
            if end + record.len > len {
                break;
            }
            (count, end) = (count + 1, end + record.len);
        }
        (count, end)
    }

    /// What a file begins with.
    pub(crate) fn header(self, section: &Section, interfaces: &[Interface]) -> Vec<u8> {
        let mut header = Vec::new();
        match self {
            Self::Pcapng => {
                section.emit(&mut header);
                interfaces.iter().for_each(|interface| interface.emit(&mut header));
            }
            Self::Pcap => {
                let Some(first) = interfaces.first() else { return header };
                let file = pcap::Header {
                    snaplen: first.snaplen,
                    link_type: first.link_type,
                    ..pcap::Header::default()
                };
                file.emit(&mut header);
            }
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcapng::Packet;

    fn records(format: Format, lens: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, len) in lens.iter().enumerate() {
            let (time_ns, data) = (1_700_000_000_123_456_789 + number as u64, vec![0xee; *len]);
            match format {
                Format::Pcapng => Packet { time_ns, data: &data, ..Packet::default() }.emit(&mut out),
                Format::Pcap => {
                    let record = pcap::Record { time_ns, frame_len: 1514, data: &data };
                    pcap::Header::default().emit_record(&record, &mut out).unwrap();
                }
            }
        }
        out
    }

    #[test]
    fn records_are_found_again_with_their_times() {
        for format in [Format::Pcapng, Format::Pcap] {
            let bytes = records(format, &[60, 0, 97, 4]);
            let found: Vec<Encoded> = format.records(&bytes).collect();
            let times: Vec<u64> =
                found.iter().map(|record| record.time_ns - 1_700_000_000_123_456_789).collect();
            assert_eq!(times, [0, 1, 2, 3], "{format:?}");
            assert_eq!(found.iter().map(|record| record.len).sum::<usize>(), bytes.len());
            assert_eq!(found.last().map(|record| record.len), Some(format.last_len(&bytes)));
        }
    }

    #[test]
    fn whole_records_end_before_the_cut() {
        for format in [Format::Pcapng, Format::Pcap] {
            let bytes = records(format, &[60, 96]);
            let first = format.first(&bytes).len;
            for (len, count, end) in [
                (0, 0, 0),
                (first - 1, 0, 0),
                (first, 1, first),
                (first + 1, 1, first),
                (bytes.len() - 1, 1, first),
                (bytes.len(), 2, bytes.len()),
            ] {
                assert_eq!(format.whole(&bytes, len), (count, end), "{format:?} cut after {len}");
            }
        }
    }
}
