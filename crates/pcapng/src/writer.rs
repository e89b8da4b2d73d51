//! Writes a file block by block to any `Write` and enforces the rules of the format.

use crate::{ByteOrder, Custom, Interface, Names, Packet, Section, Statistics, Unknown, WriteError};
use std::io::Write;

/// Writes blocks to `W`, one `write_all` a block: give it a `BufWriter`.
///
/// For millions of packets per second, encode into your own buffer with [`crate::Template`]
/// instead.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    order: ByteOrder,
    scratch: Vec<u8>,
    bytes_written: u64,
    /// Time offset of each interface of the section, in seconds.
    time_offsets_s: Vec<i64>,
    /// Snaplen of the first interface of the section.
    first_snaplen: u32,
}

impl<W: Write> Writer<W> {
    /// Begins a little-endian file with its first section.
    ///
    /// # Errors
    /// [`WriteError::Io`], here as in every other call.
    pub fn new(out: W, section: &Section) -> Result<Self, WriteError> {
        Self::with_order(out, section, ByteOrder::Little)
    }

    /// Begins a file in the given byte order.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn with_order(out: W, section: &Section, order: ByteOrder) -> Result<Self, WriteError> {
        let mut writer = Self {
            out,
            order,
            scratch: Vec::new(),
            bytes_written: 0,
            time_offsets_s: Vec::new(),
            first_snaplen: 0,
        };
        writer.section(section)?;
        Ok(writer)
    }

    /// Begins another section; its interfaces count from 0 again.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn section(&mut self, section: &Section) -> Result<(), WriteError> {
        self.time_offsets_s.clear();
        self.write("section header", |order, scratch| section.emit_as(order, scratch))
    }

    /// Describes the next interface and gives its number.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn add_interface(&mut self, interface: &Interface) -> Result<u32, WriteError> {
        self.write("interface description", |order, scratch| interface.emit_as(order, scratch))?;
        if self.time_offsets_s.is_empty() {
            self.first_snaplen = interface.snaplen;
        }
        self.time_offsets_s.push(interface.time_offset_s);
        Ok(self.time_offsets_s.len() as u32 - 1)
    }

    /// Whether [`Self::packet`] can write a packet without a time: simple packet blocks are of
    /// interface 0, whose snaplen gives their captured length.
    pub fn can_be_simple(&self, packet: &Packet<'_>) -> bool {
        let snaplen = if self.first_snaplen == 0 { u32::MAX } else { self.first_snaplen };
        packet.interface == 0 && packet.data.len() as u64 == u64::from(packet.frame_len.min(snaplen))
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// [`WriteError::Io`]; [`WriteError::NoSuchInterface`]; [`WriteError::TimeOutOfRange`];
    /// [`WriteError::NotSimple`] for a packet without a time unless [`Self::can_be_simple`].
    pub fn packet(&mut self, packet: &Packet<'_>) -> Result<(), WriteError> {
        const BLOCK: &str = "packet";
        if packet.no_time.is_some() {
            self.time_offset_s(BLOCK, packet.interface)?;
            if !self.can_be_simple(packet) {
                return Err(WriteError::NotSimple { interface: packet.interface });
            }
            return self.write("simple packet", |order, scratch| packet.emit_simple_as(order, scratch));
        }
        let offset_s = self.time_offset_s(BLOCK, packet.interface)?;
        let time_ns = file_time(BLOCK, packet.time_ns, offset_s)?;
        self.write(BLOCK, |order, scratch| Packet { time_ns, ..*packet }.emit_as(order, scratch))
    }

    /// Writes the counts of one interface.
    ///
    /// # Errors
    /// [`WriteError::Io`]; [`WriteError::NoSuchInterface`]; [`WriteError::TimeOutOfRange`].
    pub fn statistics(&mut self, statistics: &Statistics) -> Result<(), WriteError> {
        const BLOCK: &str = "statistics";
        let offset_s = self.time_offset_s(BLOCK, statistics.interface)?;
        let file_time = |time_ns| file_time(BLOCK, time_ns, offset_s);
        let moved = Statistics {
            time_ns: file_time(statistics.time_ns)?,
            start_time_ns: statistics.start_time_ns.map(file_time).transpose()?,
            end_time_ns: statistics.end_time_ns.map(file_time).transpose()?,
            ..statistics.clone()
        };
        self.write(BLOCK, |order, scratch| moved.emit_as(order, scratch))
    }

    /// Writes names of addresses.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn names(&mut self, names: &Names) -> Result<(), WriteError> {
        self.write("name resolution", |order, scratch| names.emit_as(order, scratch))
    }

    /// Writes a block of some company's own.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn custom(&mut self, custom: &Custom) -> Result<(), WriteError> {
        self.write("custom", |order, scratch| custom.emit_as(order, scratch))
    }

    /// Writes any block; its body must be in this file's byte order.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn unknown(&mut self, unknown: &Unknown) -> Result<(), WriteError> {
        self.write("unknown", |order, scratch| unknown.emit_as(order, scratch))
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

    fn time_offset_s(&self, block: &'static str, interface: u32) -> Result<i64, WriteError> {
        let count = self.time_offsets_s.len();
        let offset_s = self.time_offsets_s.get(interface as usize);
        offset_s.copied().ok_or(WriteError::NoSuchInterface { block, interface, count })
    }

    fn write(
        &mut self,
        block: &'static str,
        emit: impl FnOnce(ByteOrder, &mut Vec<u8>),
    ) -> Result<(), WriteError> {
        self.scratch.clear();
        emit(self.order, &mut self.scratch);
        let (len, offset) = (self.scratch.len(), self.bytes_written);
        self.out.write_all(&self.scratch).map_err(|source| WriteError::Io { block, len, offset, source })?;
        self.bytes_written += len as u64;
        Ok(())
    }
}

/// The time as the file holds it: nanoseconds since 1970 plus the interface's offset.
fn file_time(block: &'static str, time_ns: u64, offset_s: i64) -> Result<u64, WriteError> {
    let units = i128::from(time_ns) - i128::from(offset_s) * 1_000_000_000;
    let limit = "from the interface's time offset on, for 584 years";
    u64::try_from(units).map_err(|_| WriteError::TimeOutOfRange { block, time_ns, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_needs_its_interface_first() {
        let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        let error = writer.packet(&Packet::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a packet block is for interface 0, but the section has 0 (add_interface comes first)"
        );
        writer.add_interface(&Interface::default()).unwrap();
        writer.packet(&Packet::default()).unwrap();
        writer.section(&Section::default()).unwrap();
        assert!(matches!(
            writer.packet(&Packet::default()),
            Err(WriteError::NoSuchInterface { interface: 0, count: 0, .. })
        ));
    }

    #[test]
    fn a_time_before_the_offset_is_refused() {
        let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        writer.add_interface(&Interface { time_offset_s: 10, ..Interface::default() }).unwrap();
        writer.packet(&Packet { time_ns: 10_000_000_000, ..Packet::default() }).unwrap();
        let early = Packet { time_ns: 9_999_999_999, ..Packet::default() };
        assert!(matches!(
            writer.packet(&early),
            Err(WriteError::TimeOutOfRange { time_ns: 9_999_999_999, .. })
        ));
    }

    #[test]
    fn a_full_disk_is_said_with_its_place() {
        let mut disk = [0u8; 40];
        let mut writer = Writer::new(&mut disk[..], &Section::default()).unwrap();
        assert_eq!(writer.bytes_written(), 28);
        let error = writer.add_interface(&Interface::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "writing the interface description block of 32 bytes at byte 28 failed"
        );
    }
}
