//! Classic pcap, which every tool reads: one link type, no options, 32-bit seconds.
//!
//! Both magic numbers (microseconds 0xa1b2c3d4, nanoseconds 0xa1b23c4d) in both byte orders.
//! Follows draft-ietf-opsawg-pcap. It has no field for queue, direction, interface and losses;
//! pcapng has.
//!
//! The reader also takes the variants that libpcap and Wireshark read: [`Variant`], and the order
//! of the two lengths of a record in files of old versions.

use crate::input::Input;
use crate::{ByteOrder, Expected, LINK_TYPE_ETHERNET, ReadError, WriteError};
use std::io::{Read, Write};

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Kuznetsov's modified pcap, of Red Hat Linux 6.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// Files of IXIA testers, of their hardware and their software.
const MAGICS_IXIA: [u32; 2] = [0x1c00_01ac, 0x1c00_01ab];
const VERSION_MAJOR: u16 = 2;
const VERSION_MINOR: u16 = 4;
/// The version that DG/UX's tcpdump writes.
const VERSION_MAJOR_DG_UX: u16 = 543;

/// Bytes before the first record.
pub const HEADER_LEN: usize = 24;
/// Bytes of a record before its data.
pub const RECORD_HEADER_LEN: usize = 16;
/// Maximum captured bytes of a record that a reader accepts.
const CAPTURED_LEN_MAX: u32 = 256 << 20;
/// Captured bytes beyond which a record header is more likely no header.
const CAPTURED_LEN_LIKELY: u32 = 1 << 20;
/// Seconds between two of the first packets beyond which a record header is more likely no header:
/// ten years.
const SECONDS_LIKELY: u32 = 315_360_000;

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
    #[inline]
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

/// How the records of a file differ from those of plain pcap. Only plain files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// pcap as all programs write it. Those of Nokia have 4 more bytes in each record header, and
    /// that of Red Hat Linux 6.1 has 8.
    #[default]
    Plain,
    /// Kuznetsov's: 8 more bytes in each record header (interface, protocol, direction), or 12 in
    /// SuSE Linux 6.3.
    Modified,
    /// IXIA's: 4 more bytes after the file header, the length of all records.
    Ixia,
}

/// Order of the two lengths of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthOrder {
    CapturedFirst,
    OriginalFirst,
    /// The captured length is the smaller one.
    Unknown,
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
    /// The layout of records, for readers.
    pub variant: Variant,
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
            variant: Variant::Plain,
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
    /// When it passed, in nanoseconds since 1970; the file holds times up to the year 2106.
    pub time_ns: u64,
    /// Its length on the link without FCS, in bytes.
    pub frame_len: u32,
    /// The captured bytes.
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

    /// The header of a file that begins with `bytes`, with the order of lengths in its records; or
    /// the magic found instead.
    fn parse(bytes: [u8; HEADER_LEN]) -> Result<(Self, LengthOrder), ReadError> {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let found = u32::from_le_bytes(word(0));
        let kind = |magic| match magic {
            MAGIC_MICROSECONDS => Some((Precision::Microseconds, Variant::Plain)),
            MAGIC_NANOSECONDS => Some((Precision::Nanoseconds, Variant::Plain)),
            MAGIC_MODIFIED => Some((Precision::Microseconds, Variant::Modified)),
            magic if MAGICS_IXIA.contains(&magic) => Some((Precision::Microseconds, Variant::Ixia)),
            _ => None,
        };
        let little = kind(found).map(|kind| (ByteOrder::Little, kind));
        let either = little.or_else(|| kind(found.swap_bytes()).map(|kind| (ByteOrder::Big, kind)));
        let Some((order, (precision, variant))) = either else {
            let expected = "a pcap magic (0xa1b2c3d4 or 0xa1b23c4d)";
            return Err(ReadError::Magic { offset: 0, expected, found });
        };
        let (major, minor) = (order.parse_u16([bytes[4], bytes[5]]), order.parse_u16([bytes[6], bytes[7]]));
        // As in libpcap.
        let length_order = match (major, minor) {
            (VERSION_MAJOR, 0..=2) | (VERSION_MAJOR_DG_UX, _) => LengthOrder::OriginalFirst,
            (VERSION_MAJOR, 3) => LengthOrder::Unknown,
            (VERSION_MAJOR, _) => LengthOrder::CapturedFirst,
            _ => return Err(ReadError::Version { offset: 4, expected: "2.x", major, minor }),
        };
        let link = order.parse_u32(word(20));
        let snaplen = order.parse_u32(word(16));
        let header = Self {
            precision,
            order,
            snaplen,
            link_type: link as u16,
            fcs_bits: (link >> 16) as u16,
            variant,
        };
        Ok((header, length_order))
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
    length_order: LengthOrder,
    /// Bytes of a record before its data; 0 until the first record.
    record_header_len: usize,
    is_over: bool,
}

/// The header of a record.
struct RecordHeader {
    seconds: u32,
    fraction: u32,
    captured_len: u32,
    frame_len: u32,
}

impl<R: Read> Reader<R> {
    /// Reads the start of a file; `input` need not be buffered.
    ///
    /// # Errors
    /// [`ReadError::Magic`] for another format, [`ReadError::Version`], [`ReadError::Truncated`],
    /// [`ReadError::Io`].
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut input = Input::new(input);
        let (header, length_order) = Header::parse(input.require("pcap header", 0, HEADER_LEN)?)?;
        if header.variant == Variant::Ixia {
            input.require_len("pcap header", HEADER_LEN + 4)?;
        }
        input.next_item();
        Ok(Self { input, header, length_order, record_header_len: 0, is_over: false })
    }

    /// Finds the length of the record headers: some programs write longer ones under the same
    /// magic. A longer one is taken if the next two headers can only be behind it. No more is read
    /// than the first record header, so that a packet of a pipe does not wait for the next one.
    #[cold]
    fn find_record_header_len(&mut self) -> Result<(), ReadError> {
        self.record_header_len = match self.header.variant {
            Variant::Plain | Variant::Ixia => RECORD_HEADER_LEN,
            Variant::Modified => RECORD_HEADER_LEN + 8,
        };
        if self.input.fill(RECORD_HEADER_LEN)? < RECORD_HEADER_LEN {
            return Ok(());
        }
        let lens: &[usize] = match self.header.variant {
            // Nokia's, and that of Red Hat Linux 6.1.
            Variant::Plain => &[16, 20, 24],
            // That of SuSE Linux 6.3.
            Variant::Modified => &[24, 28],
            Variant::Ixia => &[16, 20],
        };
        let bytes = self.input.read_ahead();
        let is_possible = |len: &&usize| self.are_headers(bytes, **len);
        let found = lens.iter().find(is_possible).copied();
        self.record_header_len = found.unwrap_or(self.record_header_len);
        // The first record is read again.
        self.input.shorten(0);
        Ok(())
    }

    /// True if `bytes` are records whose headers have `len` bytes, as two or three of them tell.
    fn are_headers(&self, bytes: &[u8], len: usize) -> bool {
        let fraction_max =
            if self.header.precision == Precision::Nanoseconds { 999_999_999 } else { 999_999 };
        let (mut place, mut first_s) = (0, None);
        for number in 0..3 {
            let Some(header) = bytes.get(place..).and_then(|rest| rest.first_chunk()) else {
                // A file that is cut within its second header tells nothing.
                return number > 1 && place == bytes.len();
            };
            let header = self.parse_record_header(header);
            let first_s = *first_s.get_or_insert(header.seconds);
            let is_likely = header.fraction <= fraction_max
                && header.captured_len <= header.frame_len
                && (1..=CAPTURED_LEN_LIKELY).contains(&header.frame_len)
                && header.seconds.abs_diff(first_s) < SECONDS_LIKELY;
            if !is_likely {
                return false;
            }
            place += len + header.captured_len as usize;
        }
        true
    }

    /// The record header of the item at hand, which was read.
    #[inline]
    fn record_header(&self) -> RecordHeader {
        self.parse_record_header(self.input.item().first_chunk().expect("it was read"))
    }

    #[inline]
    fn parse_record_header(&self, header: &[u8; RECORD_HEADER_LEN]) -> RecordHeader {
        let word = |at: usize| {
            self.header.order.parse_u32([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (first, second) = (word(8), word(12));
        let is_swapped = match self.length_order {
            LengthOrder::CapturedFirst => false,
            LengthOrder::OriginalFirst => true,
            LengthOrder::Unknown => first > second,
        };
        let (captured_len, frame_len) = if is_swapped { (second, first) } else { (first, second) };
        RecordHeader { seconds: word(0), fraction: word(4), captured_len, frame_len }
    }

    /// What the file says of all its records.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next record; nothing at the end of the file.
    ///
    /// # Errors
    /// [`ReadError::Truncated`] when the file ends within a record, [`ReadError::Length`],
    /// [`ReadError::Io`]; all of them are final.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        self.input.next_item();
        let found = self.read();
        self.is_over = !matches!(found, Ok(Some(_)));
        let Some((time_ns, frame_len)) = found? else { return Ok(None) };
        Ok(Some(Record { time_ns, frame_len, data: &self.input.item()[self.record_header_len..] }))
    }

    /// Where the record that [`Self::next_record`] gave last begins in the input.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The bytes of the record that [`Self::next_record`] gave last.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.input.item().get(self.record_header_len..).unwrap_or_default()
    }

    /// Reads one record and gives its time and original length.
    #[inline]
    fn read(&mut self) -> Result<Option<(u64, u32)>, ReadError> {
        if self.record_header_len == 0 {
            self.find_record_header_len()?;
        }
        if self.input.fill(self.record_header_len)? == 0 {
            return Ok(None);
        }
        self.input.require_len("pcap record", self.record_header_len)?;
        let RecordHeader { seconds, fraction, captured_len, frame_len } = self.record_header();
        if captured_len > CAPTURED_LEN_MAX {
            return Err(ReadError::Length {
                offset: self.input.offset() + 8,
                what: "captured bytes",
                expected: Expected::AtMost(u64::from(CAPTURED_LEN_MAX)),
                found: u64::from(captured_len),
            });
        }
        self.input.require_len("pcap record", self.record_header_len + captured_len as usize)?;
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
            "byte 32: the length of the captured bytes should be at most 268435456, 4294967295 found"
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

    /// Records of three lengths in the byte order, with `extra` bytes after each record header.
    fn variant(magic: u32, version: (u16, u16), order: ByteOrder, size_field: bool, extra: usize) -> Vec<u8> {
        let mut file = order.emit_u32(magic).to_vec();
        file.extend([order.emit_u16(version.0), order.emit_u16(version.1)].concat());
        file.extend([[0; 4], [0; 4], order.emit_u32(65_535), order.emit_u32(1)].concat());
        file.extend(order.emit_u32(3 * 100).iter().take(if size_field { 4 } else { 0 }));
        let is_swapped = version.0 == 543 || version.1 < 3;
        for number in 0..3 {
            let (captured_len, frame_len) = (60 + number, 90 + number);
            let lens = if is_swapped { [frame_len, captured_len] } else { [captured_len, frame_len] };
            file.extend([1_700_000_000, number, lens[0], lens[1]].map(|word| order.emit_u32(word)).concat());
            file.extend(vec![0; extra]);
            file.extend(vec![number as u8; captured_len as usize]);
        }
        file
    }

    #[test]
    fn the_variants_that_other_tools_read_are_read() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (name, file) in [
                ("Kuznetsov", variant(0xa1b2_cd34, (2, 4), order, false, 8)),
                ("IXIA hardware", variant(0x1c00_01ac, (2, 4), order, true, 0)),
                ("IXIA software", variant(0x1c00_01ab, (2, 4), order, true, 0)),
                ("IXIA with 4 bytes per record", variant(0x1c00_01ac, (2, 4), order, true, 4)),
                ("Nokia", variant(0xa1b2_c3d4, (2, 4), order, false, 4)),
                ("Red Hat Linux 6.1", variant(0xa1b2_c3d4, (2, 4), order, false, 8)),
                ("SuSE Linux 6.3", variant(0xa1b2_cd34, (2, 4), order, false, 12)),
                ("version 543.0", variant(0xa1b2_c3d4, (543, 0), order, false, 0)),
                ("version 2.2", variant(0xa1b2_c3d4, (2, 2), order, false, 0)),
                ("version 2.3", variant(0xa1b2_c3d4, (2, 3), order, false, 0)),
            ] {
                let mut reader = Reader::new(&file[..]).unwrap();
                for number in 0..3 {
                    let record = reader.next_record().unwrap().unwrap();
                    let expected = Record {
                        time_ns: 1_700_000_000_000_000_000 + u64::from(number) * 1_000,
                        frame_len: 90 + number,
                        data: &vec![number as u8; 60 + number as usize],
                    };
                    assert_eq!(record, expected, "{name} {order:?}");
                }
                assert_eq!(reader.next_record().unwrap(), None, "{name} {order:?}");
            }
        }
        let old = variant(0xa1b2_c3d4, (1, 0), ByteOrder::Little, false, 0);
        assert!(matches!(Reader::new(&old[..]), Err(ReadError::Version { major: 1, .. })));
    }

    /// Wherever a plain file ends or is damaged, its first packet has a header of the usual
    /// length.
    #[test]
    fn a_cut_plain_file_has_plain_record_headers() {
        let whole = variant(0xa1b2_c3d4, (2, 4), ByteOrder::Little, false, 0);
        let first = |file: &[u8]| {
            let mut reader = Reader::new(file).unwrap();
            reader.next_record().unwrap().unwrap().data.to_vec()
        };
        for end in HEADER_LEN + RECORD_HEADER_LEN + 60..=whole.len() {
            assert_eq!(first(&whole[..end]), [0; 60], "cut at {end}");
        }
        let second = HEADER_LEN + RECORD_HEADER_LEN + 60;
        for place in second..second + RECORD_HEADER_LEN {
            let mut damaged = whole.clone();
            damaged[place] ^= 0xff;
            assert_eq!(first(&damaged), [0; 60], "changed at {place}");
        }
    }

    #[test]
    fn a_packet_of_128_mib_is_read() {
        let data = vec![7; 128 << 20];
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        writer.record(&Record { time_ns: 1, frame_len: data.len() as u32, data: &data }).unwrap();
        writer.record(&Record { time_ns: 2, frame_len: 3, data: &[1, 2, 3] }).unwrap();
        let file = writer.finish().unwrap();
        let mut reader = Reader::new(&file[..]).unwrap();
        assert!(reader.next_record().unwrap().unwrap().data == data);
        assert_eq!(reader.next_record().unwrap().unwrap().data, [1, 2, 3]);
    }
}
