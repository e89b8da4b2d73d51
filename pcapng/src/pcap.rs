//! Classic pcap, which every tool reads: one link type, no options, 32-bit seconds.
//!
//! Both magic numbers (microseconds 0xa1b2c3d4, nanoseconds 0xa1b23c4d) in both byte orders.
//! Follows draft-ietf-opsawg-pcap. It has no field for queue, direction, interface and losses;
//! pcapng has.

use crate::input::Input;
use crate::{ByteOrder, Expected, LINK_TYPE_ETHERNET, ReadError, WriteError};
use std::io::{Read, Write};

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION_MAJOR: u16 = 2;
const VERSION_MINOR: u16 = 4;

/// Bytes before the first record.
pub const HEADER_LEN: usize = 24;
/// Bytes of a record before its data.
pub const RECORD_HEADER_LEN: usize = 16;
/// Maximum captured bytes of a record that a reader accepts.
const CAPTURED_LEN_MAX: u32 = 16 << 20;

/// Unit of the second half of every time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Microseconds; times are rounded down to them when written.
    Microseconds,
    /// Nanoseconds.
    #[default]
    Nanoseconds,
}

impl Precision {
    fn unit_ns(self) -> u64 {
        match self {
            Self::Microseconds => 1_000,
            Self::Nanoseconds => 1,
        }
    }

    fn magic(self) -> u32 {
        match self {
            Self::Microseconds => MAGIC_MICROSECONDS,
            Self::Nanoseconds => MAGIC_NANOSECONDS,
        }
    }
}

/// What a file says once for all its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Unit of the times.
    pub precision: Precision,
    /// Byte order of every number.
    pub order: ByteOrder,
    /// Most bytes kept of a packet; 0, for no limit, is written as 262,144.
    pub snaplen: u32,
    /// What the bytes of a packet begin with; see [`LINK_TYPE_ETHERNET`].
    pub link_type: u16,
    /// The upper half of the word that holds the link type: whether and how long an FCS follows
    /// each packet. Zero says nothing about it.
    pub fcs_bits: u16,
}

impl Default for Header {
    /// Ethernet, nanoseconds, little-endian, no limit.
    fn default() -> Self {
        Self {
            precision: Precision::Nanoseconds,
            order: ByteOrder::Little,
            snaplen: 0,
            link_type: LINK_TYPE_ETHERNET,
            fcs_bits: 0,
        }
    }
}

/// One packet, borrowing its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it passed, in nanoseconds since 1970; the file holds times up to the year 2106.
    pub time_ns: u64,
    /// Its length on the link without FCS, in bytes.
    pub frame_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// One packet that owns its bytes; the fields are those of [`Record`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBuf {
    /// See [`Record::time_ns`].
    pub time_ns: u64,
    /// See [`Record::frame_len`].
    pub frame_len: u32,
    /// See [`Record::data`].
    pub data: Vec<u8>,
}

impl Record<'_> {
    /// A copy that owns its bytes.
    #[must_use]
    pub fn to_buf(&self) -> RecordBuf {
        RecordBuf { time_ns: self.time_ns, frame_len: self.frame_len, data: self.data.to_vec() }
    }
}

impl Header {
    /// Appends the start of a file.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let order = self.order;
        // Zero is not said to be allowed here as it is in pcapng; 262,144 is how libpcap spells "no
        // limit".
        let snaplen = if self.snaplen == 0 { 262_144 } else { self.snaplen };
        out.extend_from_slice(&order.emit_u32(self.precision.magic()));
        out.extend_from_slice(&order.emit_u16(VERSION_MAJOR));
        out.extend_from_slice(&order.emit_u16(VERSION_MINOR));
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&order.emit_u32(snaplen));
        out.extend_from_slice(&order.emit_u32(u32::from(self.fcs_bits) << 16 | u32::from(self.link_type)));
    }

    /// Appends one record. Allocates nothing if `out` has capacity.
    ///
    /// # Errors
    /// [`WriteError::TimeOutOfRange`] from the year 2106 on; nothing is appended then.
    ///
    /// # Panics
    /// When the data is longer than 4 GiB.
    #[inline]
    pub fn emit_record(&self, record: &Record<'_>, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let time_ns = record.time_ns;
        let limit = "a pcap file holds 32 bits of seconds, up to the year 2106; pcapng holds more";
        let seconds = u32::try_from(time_ns / 1_000_000_000).map_err(|_| WriteError::TimeOutOfRange {
            block: "pcap record",
            time_ns,
            limit,
        })?;
        let fraction = (time_ns % 1_000_000_000 / self.precision.unit_ns()) as u32;
        let captured_len = u32::try_from(record.data.len()).expect("a packet is shorter than 4 GiB");
        let mut head = [0; RECORD_HEADER_LEN];
        head[0..4].copy_from_slice(&self.order.emit_u32(seconds));
        head[4..8].copy_from_slice(&self.order.emit_u32(fraction));
        head[8..12].copy_from_slice(&self.order.emit_u32(captured_len));
        head[12..16].copy_from_slice(&self.order.emit_u32(record.frame_len));
        out.reserve(RECORD_HEADER_LEN + record.data.len());
        out.extend_from_slice(&head);
        out.extend_from_slice(record.data);
        Ok(())
    }

    /// The header of a file that begins with `bytes`, or the magic found instead.
    fn parse(bytes: [u8; HEADER_LEN]) -> Result<Self, ReadError> {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let found = u32::from_le_bytes(word(0));
        let (order, precision) = match found {
            MAGIC_MICROSECONDS => (ByteOrder::Little, Precision::Microseconds),
            MAGIC_NANOSECONDS => (ByteOrder::Little, Precision::Nanoseconds),
            _ if found == MAGIC_MICROSECONDS.swap_bytes() => (ByteOrder::Big, Precision::Microseconds),
            _ if found == MAGIC_NANOSECONDS.swap_bytes() => (ByteOrder::Big, Precision::Nanoseconds),
            _ => {
                let expected = "a pcap magic (0xa1b2c3d4 or 0xa1b23c4d)";
                return Err(ReadError::Magic { offset: 0, expected, found });
            }
        };
        let (major, minor) = (order.parse_u16([bytes[4], bytes[5]]), order.parse_u16([bytes[6], bytes[7]]));
        if major != VERSION_MAJOR {
            return Err(ReadError::Version { offset: 4, expected: "2.x", major, minor });
        }
        let link = order.parse_u32(word(20));
        let snaplen = order.parse_u32(word(16));
        Ok(Self { precision, order, snaplen, link_type: link as u16, fcs_bits: (link >> 16) as u16 })
    }
}

/// Writes records to `W`, one `write_all` a record: give it a `BufWriter`.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    header: Header,
    scratch: Vec<u8>,
    bytes_written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn new(out: W, header: &Header) -> Result<Self, WriteError> {
        let mut writer = Self { out, header: *header, scratch: Vec::new(), bytes_written: 0 };
        header.emit(&mut writer.scratch);
        writer.write("pcap header")?;
        Ok(writer)
    }

    /// Writes one record.
    ///
    /// # Errors
    /// [`WriteError::Io`]; [`WriteError::TimeOutOfRange`] from the year 2106 on.
    pub fn record(&mut self, record: &Record<'_>) -> Result<(), WriteError> {
        self.header.emit_record(record, &mut self.scratch)?;
        self.write("pcap record")
    }

    /// Bytes given to the output so far.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Flushes the output and gives it back.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn finish(mut self) -> Result<W, WriteError> {
        let offset = self.bytes_written;
        self.out.flush().map_err(|source| WriteError::Io { block: "last", len: 0, offset, source })?;
        Ok(self.out)
    }

    fn write(&mut self, block: &'static str) -> Result<(), WriteError> {
        let (len, offset) = (self.scratch.len(), self.bytes_written);
        let written = self.out.write_all(&self.scratch);
        self.scratch.clear();
        written.map_err(|source| WriteError::Io { block, len, offset, source })?;
        self.bytes_written += len as u64;
        Ok(())
    }
}

/// Reads a file record by record; lends them, or as an iterator gives them away.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    header: Header,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the start of a file; `input` need not be buffered.
    ///
    /// # Errors
    /// [`ReadError::Magic`] for another format, [`ReadError::Version`], [`ReadError::Truncated`],
    /// [`ReadError::Io`].
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut input = Input::new(input);
        let header = Header::parse(input.require("pcap header", 0, HEADER_LEN)?)?;
        input.next_item();
        Ok(Self { input, header, is_over: false })
    }

    /// What the file says of all its records.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next record; nothing at the end of the file.
    ///
    /// # Errors
    /// [`ReadError::Truncated`] when the file ends within a record, [`ReadError::Length`],
    /// [`ReadError::Io`]; all of them are final.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        self.input.next_item();
        let found = self.read();
        self.is_over = !matches!(found, Ok(Some(_)));
        let Some((time_ns, frame_len)) = found? else { return Ok(None) };
        Ok(Some(Record { time_ns, frame_len, data: &self.input.item()[RECORD_HEADER_LEN..] }))
    }

    /// Where the record that [`Self::next_record`] gave last begins in the input.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The bytes of the record that [`Self::next_record`] gave last.
    pub fn data(&self) -> &[u8] {
        self.input.item().get(RECORD_HEADER_LEN..).unwrap_or_default()
    }

    /// Reads one record and gives its time and original length.
    fn read(&mut self) -> Result<Option<(u64, u32)>, ReadError> {
        if self.input.fill(RECORD_HEADER_LEN)? == 0 {
            return Ok(None);
        }
        let head: [u8; RECORD_HEADER_LEN] = self.input.require("pcap record", 0, RECORD_HEADER_LEN)?;
        let word =
            |at: usize| self.header.order.parse_u32([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (seconds, fraction, captured_len, frame_len) = (word(0), word(4), word(8), word(12));
        if captured_len > CAPTURED_LEN_MAX {
            return Err(ReadError::Length {
                offset: self.input.offset() + 8,
                what: "captured bytes",
                expected: Expected::AtMost(u64::from(CAPTURED_LEN_MAX)),
                found: u64::from(captured_len),
            });
        }
        self.input.require_len("pcap record", RECORD_HEADER_LEN + captured_len as usize)?;
        // A fraction of a second and more, as some writers leave it, is simply added.
        let fraction_ns = u64::from(fraction) * self.header.precision.unit_ns();
        Ok(Some((u64::from(seconds) * 1_000_000_000 + fraction_ns, frame_len)))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<RecordBuf, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().map(|record| record.map(|record| record.to_buf())).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One packet of two bytes, of 60 on the wire, at 1 s and 2 µs (2,000 ns): all four kinds of
    /// file.
    fn golden(order: ByteOrder, precision: Precision) -> Vec<u8> {
        let magic = if precision == Precision::Nanoseconds { 0x4d } else { 0xd4 };
        let fraction = if precision == Precision::Nanoseconds { [0, 0, 7, 0xd0] } else { [0, 0, 0, 2] };
        let third = if precision == Precision::Nanoseconds { 0x3c } else { 0xc3 };
        let mut words =
            vec![[0xa1, 0xb2, third, magic], [0, 2, 0, 4], [0; 4], [0; 4], [0, 0, 0, 96], [0, 0, 0, 1]];
        words.extend([[0, 0, 0, 1], fraction, [0, 0, 0, 2], [0, 0, 0, 60]]);
        if order == ByteOrder::Little {
            words.iter_mut().for_each(|word| word.reverse());
            words[1] = [2, 0, 4, 0];
        }
        let mut bytes = words.concat();
        bytes.extend([0xab, 0xcd]);
        bytes
    }

    #[test]
    fn each_magic_in_each_order() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for precision in [Precision::Microseconds, Precision::Nanoseconds] {
                let header = Header { order, precision, snaplen: 96, ..Header::default() };
                let record = Record { time_ns: 1_000_002_000, frame_len: 60, data: &[0xab, 0xcd] };
                let mut writer = Writer::new(Vec::new(), &header).unwrap();
                writer.record(&record).unwrap();
                assert_eq!(writer.bytes_written(), 42);
                let file = writer.finish().unwrap();
                assert_eq!(file, golden(order, precision), "{order:?} {precision:?}");

                let mut reader = Reader::new(&file[..]).unwrap();
                assert_eq!(*reader.header(), header);
                assert_eq!(reader.next_record().unwrap(), Some(record));
                assert_eq!(reader.next_record().unwrap(), None);
            }
        }
    }

    #[test]
    fn a_cut_file_gives_its_whole_records_first() {
        let mut file = golden(ByteOrder::Little, Precision::Nanoseconds);
        let record = file[HEADER_LEN..].to_vec();
        file.extend(&record);
        for cut in 1..record.len() {
            let mut reader = Reader::new(&file[..file.len() - cut]).unwrap();
            assert!(reader.next().unwrap().is_ok());
            let error = reader.next().unwrap().unwrap_err();
            assert!(matches!(error, ReadError::Truncated { offset: 42, .. }), "cut {cut}: {error}");
            assert!(error.is_final() && reader.next().is_none());
        }
    }

    #[test]
    fn a_hostile_length_is_refused() {
        let mut file = golden(ByteOrder::Little, Precision::Nanoseconds);
        file[32..36].copy_from_slice(&[0xff; 4]);
        let error = Reader::new(&file[..]).unwrap().next().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 32: the length of the captured bytes should be at most 16777216, 4294967295 found"
        );
    }

    #[test]
    fn another_format_is_named_by_what_was_found() {
        let error = Reader::new(&[0x0a; 24][..]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 0: a pcap magic (0xa1b2c3d4 or 0xa1b23c4d) expected, 0x0a0a0a0a found"
        );
    }

    #[test]
    fn the_year_2106_is_the_end() {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let last_ns = (1_u64 << 32) * 1_000_000_000 - 1;
        writer.record(&Record { time_ns: last_ns, ..Record::default() }).unwrap();
        let late = Record { time_ns: last_ns + 1, ..Record::default() };
        assert!(matches!(writer.record(&late), Err(WriteError::TimeOutOfRange { .. })));
        let file = writer.finish().unwrap();
        let times: Vec<u64> = Reader::new(&file[..]).unwrap().map(|record| record.unwrap().time_ns).collect();
        assert_eq!(times, [last_ns]);
    }
}
