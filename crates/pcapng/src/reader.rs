//! Reads blocks from any `Read`.
//!
//! Memory grows with the bytes that arrive, not with the lengths that the file claims.

use crate::body::Body;
use crate::input::Input;
use crate::packet::{HEAD_LEN, SIMPLE_HEAD_LEN};
use crate::section::{BYTE_ORDER_MAGIC, VERSION_MAJOR};
use crate::sources::{Source, Sources};
use crate::time::TimeScale;
use crate::{
    Block, ByteOrder, Custom, Expected, Interface, Names, Packet, PacketBuf, PlainPacket, RawOption,
    ReadError, Section, SkippedBlock, Statistics, Unknown, frame,
};
use std::io::Read;
use std::ops::Range;

/// Longest packet or interface that a reader accepts, in bytes of its block: a packet of 256 MiB.
const BLOCK_LEN_MAX: u32 = (256 << 20) + (1 << 20);
/// Blocks of other types that are longer than this are passed over.
const OTHER_BLOCK_LEN_MAX: u32 = 16 << 20;

/// Type, length, and length again.
const FRAME_LEN: u32 = 12;
/// A section header without options.
const SECTION_LEN_MIN: u32 = 28;

/// Reads a file block by block.
///
/// [`Reader::next_block`] lends packets out of the reader's buffer and allocates nothing for a
/// plain packet. The iterator gives blocks that own their bytes. Both end after the last block or a
/// [`ReadError::is_final`] error.
///
/// ```
/// # use pcapng::{Block, Interface, Packet, Reader, Section, Writer};
/// let mut writer = Writer::new(Vec::new(), &Section::default())?;
/// let interface = writer.add_interface(&Interface::default())?;
/// writer.packet(&Packet { interface, time_ns: 1, frame_len: 60, data: &[0; 60], ..Packet::default() })?;
/// let file = writer.finish()?;
///
/// let mut reader = Reader::new(&file[..]);
/// while let Some(block) = reader.next_block()? {
///     if let Block::Packet(packet) = block {
///         assert_eq!(packet.data.len(), 60);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    /// Its item at hand is the block at hand, from its type to its closing length.
    input: Input<R>,
    /// Where the last whole block ended.
    end_offset: u64,
    /// Nothing until the first section header.
    order: Option<ByteOrder>,
    sources: Sources,
    is_over: bool,
    /// Options without a field of the packet at hand.
    other: Vec<RawOption>,
    /// Where the bytes of the last packet are in its block.
    data: Range<usize>,
    /// Type of the last block.
    block_type: u32,
}

/// A block found in the file: its place, type, and byte order.
#[derive(Clone, Copy)]
struct FoundBlock {
    offset: u64,
    block_type: u32,
    order: ByteOrder,
    total_len: u32,
    /// Its bytes were passed over.
    is_skipped: bool,
}

/// Whether blocks of this type describe packets, so that they may not be passed over.
fn is_kept(block_type: u32) -> bool {
    matches!(
        block_type,
        frame::SECTION
            | frame::INTERFACE
            | frame::PACKET
            | frame::OLD_PACKET
            | frame::SIMPLE_PACKET
            | frame::STATISTICS
    )
}

/// The length of a block whose length field some writers set without the padding.
fn padded(total_len: u32) -> u64 {
    u64::from(total_len).next_multiple_of(4)
}

impl<R: Read> Reader<R> {
    /// A reader of a whole file; `input` need not be buffered.
    pub fn new(input: R) -> Self {
        Self {
            input: Input::new(input),
            end_offset: 0,
            order: None,
            sources: Sources::default(),
            is_over: false,
            other: Vec::new(),
            data: 0..0,
            block_type: 0,
        }
    }

    /// The bytes of the packet that [`Self::next_block`] gave last; nothing after other blocks.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.input.item().get(self.data.clone()).unwrap_or_default()
    }

    /// Where the next block begins, in bytes from the start of the input. After an error that is
    /// final, where the last whole block ended.
    pub fn offset(&self) -> u64 {
        self.end_offset
    }

    /// What the last block was for, in one word, also if it could not be read: `packet`,
    /// `interface`, `statistics`, `section`, `names` or `other`.
    pub fn block_kind(&self) -> &'static str {
        match self.block_type {
            frame::PACKET | frame::OLD_PACKET | frame::SIMPLE_PACKET => "packet",
            frame::INTERFACE => "interface",
            frame::STATISTICS => "statistics",
            frame::SECTION => "section",
            frame::NAMES => "names",
            _ => "other",
        }
    }

    /// Byte order of the section at hand; nothing before the first.
    pub fn order(&self) -> Option<ByteOrder> {
        self.order
    }

    /// How the times of an interface of the section at hand were written.
    pub fn time_scale(&self, interface: u32) -> Option<TimeScale> {
        self.sources.find(0, interface).ok().map(|source| source.scale)
    }

    /// The next block; nothing at the end of the file.
    ///
    /// # Errors
    /// Any [`ReadError`]. Unless it [`is_final`](ReadError::is_final), the next call goes on behind
    /// the bad block.
    #[inline]
    pub fn next_block(&mut self) -> Result<Option<Block<Packet<'_>>>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        self.data = 0..0;
        match self.read_frame() {
            Ok(Some(found)) => self.parse(found).map(Some),
            Err(error) if !error.is_final() => Err(error),
            end_or_error => {
                self.is_over = true;
                end_or_error.map(|_| None)
            }
        }
    }

    /// The next packet, if it is the next block, was read already, and has nothing but what
    /// [`PlainPacket`] has. [`Self::next_block`] gives the same packet, and everything else, but
    /// takes several times as long.
    #[inline]
    pub fn next_plain_packet(&mut self) -> Option<PlainPacket> {
        let order = self.order.filter(|_| !self.is_over)?;
        let (packet, captured_len, len) = PlainPacket::parse(order, self.input.behind(), &self.sources)?;
        self.input.next_item_of(len);
        self.end_offset = self.input.offset() + len as u64;
        self.block_type = frame::PACKET;
        self.data = HEAD_LEN..HEAD_LEN + captured_len;
        Some(packet)
    }

    /// Reads one block; checks its lengths and, for a section header, magic and version.
    fn read_frame(&mut self) -> Result<Option<FoundBlock>, ReadError> {
        self.input.next_item();
        let offset = self.input.offset();
        if self.input.fill(8)? == 0 {
            return Ok(None);
        }
        let [t0, t1, t2, t3, l0, l1, l2, l3] = self.input.require("block", 0, 8)?;
        // The type of a section header reads the same in both orders.
        let block_type_le = u32::from_le_bytes([t0, t1, t2, t3]);
        if block_type_le == frame::SECTION {
            self.read_section_start()?;
        }
        let Some(order) = self.order else {
            let expected = "a pcapng section header (0x0a0d0d0a)";
            return Err(ReadError::Magic { offset, expected, found: block_type_le });
        };
        let block_type = order.parse_u32([t0, t1, t2, t3]);
        let total_len = order.parse_u32([l0, l1, l2, l3]);
        self.block_type = block_type;
        self.check_len(block_type, total_len)?;
        let len_max = if is_kept(block_type) { BLOCK_LEN_MAX } else { OTHER_BLOCK_LEN_MAX };
        let is_skipped = total_len > len_max;
        let len = match is_skipped {
            true => self.skip_rest(order, total_len)?,
            false => self.read_rest(order, total_len)?,
        };
        self.end_offset = offset + len;
        if is_skipped && is_kept(block_type) {
            if block_type == frame::INTERFACE {
                self.sources.add(offset, 0, None)?;
            }
            return Err(ReadError::TooLong { offset, limit: len_max, found: total_len });
        }
        Ok(Some(FoundBlock { offset, block_type, order, total_len, is_skipped }))
    }

    /// Byte-order magic and version.
    fn read_section_start(&mut self) -> Result<(), ReadError> {
        let offset = self.input.offset();
        let [m0, m1, m2, m3, a0, a1, i0, i1] = self.input.require("section header", 8, 16)?;
        let order = match u32::from_le_bytes([m0, m1, m2, m3]) {
            BYTE_ORDER_MAGIC => ByteOrder::Little,
            found if found == BYTE_ORDER_MAGIC.swap_bytes() => ByteOrder::Big,
            found => {
                let expected = "the byte-order magic 0x1a2b3c4d";
                return Err(ReadError::Magic { offset: offset + 8, expected, found });
            }
        };
        let (major, minor) = (order.parse_u16([a0, a1]), order.parse_u16([i0, i1]));
        if major != VERSION_MAJOR {
            return Err(ReadError::Version { offset: offset + 12, expected: "1.x", major, minor });
        }
        self.order = Some(order);
        self.sources = Sources::default();
        Ok(())
    }

    fn check_len(&self, block_type: u32, total_len: u32) -> Result<(), ReadError> {
        let least = if block_type == frame::SECTION { SECTION_LEN_MIN } else { FRAME_LEN };
        if total_len >= least {
            return Ok(());
        }
        let (offset, found) = (self.input.offset() + 4, u64::from(total_len));
        Err(ReadError::Length { offset, what: "block", expected: Expected::AtLeast(least), found })
    }

    /// Reads to the end of the block and compares the two lengths; returns the length of the block.
    ///
    /// A length that is no multiple of 4 leaves out the padding, which is before the second length,
    /// or there is none.
    fn read_rest(&mut self, order: ByteOrder, total_len: u32) -> Result<u64, ReadError> {
        let padded_len = padded(total_len) as usize;
        if padded_len > total_len as usize && self.input.fill(padded_len)? == padded_len {
            let closing: [u8; 4] = self.input.require("block", padded_len - 4, padded_len)?;
            if order.parse_u32(closing) == total_len {
                return Ok(padded_len as u64);
            }
            self.input.shorten(total_len as usize);
        }
        let closing = self.input.require("block", total_len as usize - 4, total_len as usize)?;
        self.check_closing(order, total_len, closing, self.input.offset() + u64::from(total_len) - 4)?;
        Ok(u64::from(total_len))
    }

    /// Passes over a block; returns its length.
    fn skip_rest(&mut self, order: ByteOrder, total_len: u32) -> Result<u64, ReadError> {
        let len = padded(total_len);
        self.input.skip("block", len - 4)?;
        let closing = self.input.require("block", 0, 4)?;
        self.check_closing(order, total_len, closing, self.input.offset())?;
        Ok(len)
    }

    fn check_closing(
        &self,
        order: ByteOrder,
        total_len: u32,
        closing: [u8; 4],
        offset: u64,
    ) -> Result<(), ReadError> {
        let found = order.parse_u32(closing);
        if found == total_len {
            return Ok(());
        }
        let expected = Expected::Exactly(u64::from(total_len));
        let what = "block, said again at its end,";
        Err(ReadError::Length { offset, what, expected, found: u64::from(found) })
    }

    fn parse(&mut self, found: FoundBlock) -> Result<Block<Packet<'_>>, ReadError> {
        let FoundBlock { offset, block_type, order, total_len, is_skipped } = found;
        if is_skipped {
            return Ok(Block::Skipped(SkippedBlock { block_type, block_len: total_len }));
        }
        let bytes = &self.input.item()[8..self.input.item().len() - 4];
        let mut body = Body::new(order, bytes, offset);
        self.other.clear();
        Ok(match block_type {
            frame::SECTION => {
                body.skip(8);
                Block::Section(Section::parse(body)?)
            }
            frame::INTERFACE => {
                let parsed = Interface::parse(body);
                let source = parsed.as_ref().ok();
                let source = source.map(|(i, scale)| Source { scale: *scale, snaplen: i.snaplen });
                self.sources.add(offset, bytes.len(), source)?;
                Block::Interface(parsed?.0)
            }
            frame::PACKET | frame::OLD_PACKET | frame::SIMPLE_PACKET => {
                let (packet, data_start) = match block_type {
                    frame::PACKET => (Packet::parse(body, &self.sources, &mut self.other)?, HEAD_LEN),
                    frame::OLD_PACKET => (Packet::parse_old(body, &self.sources, &mut self.other)?, HEAD_LEN),
                    _ => (Packet::parse_simple(body, &self.sources)?, SIMPLE_HEAD_LEN),
                };
                self.data = data_start..data_start + packet.data.len();
                Block::Packet(packet)
            }
            frame::STATISTICS => Block::Statistics(Statistics::parse(body, &self.sources)?),
            frame::NAMES => Block::Names(Names::parse(body)?),
            frame::CUSTOM => Block::Custom(Custom::parse(body, true)?),
            frame::CUSTOM_DO_NOT_COPY => Block::Custom(Custom::parse(body, false)?),
            _ => Block::Unknown(Unknown::parse(order, block_type, bytes)),
        })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Block<PacketBuf>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_block().map(|block| block.map(Block::into_buf)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoTime, Writer};

    const DATA: [u8; 60] = [7; 60];

    /// A section with an interface, then `blocks`, then a packet at 1 ns.
    fn file_with(interface: &Interface, blocks: &[&[u8]]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        writer.add_interface(interface).unwrap();
        let mut file = writer.finish().unwrap();
        file.extend(blocks.concat());
        Packet { time_ns: 1, frame_len: 60, data: &DATA, ..Packet::default() }.emit(&mut file);
        file
    }

    /// A block whose two lengths are `total_len`.
    fn block(block_type: u32, body: &[u8], total_len: u32) -> Vec<u8> {
        let len = total_len.to_le_bytes();
        [&block_type.to_le_bytes()[..], &len, body, &len].concat()
    }

    /// Times and lengths of the packets, and the errors between them.
    fn read(file: &[u8]) -> (Vec<(Option<u64>, usize)>, Vec<String>) {
        let (mut packets, mut errors) = (Vec::new(), Vec::new());
        let mut reader = Reader::new(file);
        loop {
            match reader.next_block() {
                Ok(None) => return (packets, errors),
                Ok(Some(Block::Packet(packet))) => {
                    let (time_ns, data) = (packet.time_ns, packet.data.to_vec());
                    packets.push((packet.no_time.is_none().then_some(time_ns), data.len()));
                    assert_eq!(reader.data(), data);
                }
                Ok(Some(_)) => assert!(reader.data().is_empty()),
                Err(error) => errors.push(error.to_string()),
            }
        }
    }

    #[test]
    fn a_length_without_the_padding_is_read_with_and_without_padding() {
        let named = |len: usize, is_padded: bool| {
            let mut body = [&0x0100_u32.to_le_bytes()[..], &vec![b'a'; len]].concat();
            let total_len = 12 + body.len() as u32;
            body.resize(if is_padded { body.len().next_multiple_of(4) } else { body.len() }, 0);
            block(frame::CUSTOM, &body, total_len)
        };
        for len in 1..12 {
            for is_padded in [true, false] {
                let file = file_with(&Interface::default(), &[&named(len, is_padded)]);
                assert_eq!(read(&file), (vec![(Some(1), 60)], vec![]), "{len} {is_padded}");
            }
        }
    }

    #[test]
    fn long_blocks_without_packets_are_passed_over() {
        let long = vec![0; 17 << 20];
        let total_len = long.len() as u32 + 12;
        for block_type in [frame::NAMES, frame::CUSTOM, frame::CUSTOM_DO_NOT_COPY, 0x0a, 0x7777] {
            let file = file_with(&Interface::default(), &[&block(block_type, &long, total_len)]);
            let mut reader = Reader::new(&file[..]);
            let skipped = SkippedBlock { block_type, block_len: total_len };
            assert_eq!(reader.by_ref().nth(2).unwrap().unwrap(), Block::Skipped(skipped));
            assert!(matches!(reader.next(), Some(Ok(Block::Packet(_)))));
            assert_eq!(reader.offset(), file.len() as u64);
            // Cut within it, or with another second length.
            let mut cut = file[..1 << 20].to_vec();
            assert_eq!(read(&cut).1.len(), 1);
            cut.clone_from(&file);
            let place = file.len() - 92 - 4;
            cut[place] ^= 1;
            assert!(read(&cut).1[0].contains("said again at its end"), "{:?}", read(&cut).1);
        }
    }

    #[test]
    fn a_packet_beyond_the_limit_is_an_error_and_the_next_one_is_read() {
        let len = BLOCK_LEN_MAX as usize + 4;
        let file = file_with(&Interface::default(), &[&block(frame::PACKET, &vec![0; len - 12], len as u32)]);
        let (packets, errors) = read(&file);
        assert_eq!(packets, [(Some(1), 60)]);
        assert_eq!(errors, ["byte 60: a block of at most 269484032 bytes expected, 269484036 bytes found"]);
    }

    #[test]
    fn times_before_1970_and_after_2554_keep_their_packets() {
        for time_offset_s in [-5, i64::MIN, i64::MAX, 18_446_744_074] {
            let interface = Interface { time_offset_s, ..Interface::default() };
            let file = file_with(&interface, &[]);
            let mut reader = Reader::new(&file[..]).map(Result::unwrap);
            let Some(Block::Packet(packet)) = reader.nth(2) else { panic!("a packet") };
            assert_eq!((packet.no_time, packet.time_ns), (Some(NoTime::OutOfRange), 0), "{time_offset_s}");
            assert_eq!(packet.data, DATA);
        }
    }

    #[test]
    fn a_broken_option_leaves_the_packet() {
        let mut file = file_with(&Interface::default(), &[]);
        let mut broken = Vec::new();
        Packet { time_ns: 2, frame_len: 60, data: &DATA, queue: Some(3), ..Packet::default() }
            .emit(&mut broken);
        // The length of the option behind the queue.
        let place = broken.len() - 8;
        broken[place..place + 4].copy_from_slice(&[1, 0, 0x90, 1]);
        file.extend(&broken);
        let Some(Ok(Block::Packet(packet))) = Reader::new(&file[..]).last() else { panic!("a packet") };
        assert!(packet.has_broken_options);
        assert_eq!((packet.time_ns, packet.queue, &packet.data[..]), (2, Some(3), &DATA[..]));
    }

    /// Secrets and enterprise numbers of a big-endian file became those of no program in a
    /// little-endian one.
    #[test]
    fn secrets_and_custom_options_are_the_same_in_both_byte_orders() {
        let option = |code, value: &[u8]| RawOption { code, value: value.to_vec() };
        let interface =
            Interface { other: vec![option(10, &3_600_u32.to_le_bytes())], ..Interface::default() };
        let other = [option(2988, &[&0x8263_u32.to_le_bytes()[..], b"text"].concat()), option(9, &[1, 2])];
        let packet = Packet { time_ns: 1, frame_len: 60, data: &DATA, other: &other, ..Packet::default() };
        let secrets = [&0x544c_534b_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"keys\n\0\0\0"].concat();
        let write = |order| {
            let mut writer = Writer::with_order(Vec::new(), &Section::default(), order).unwrap();
            writer.add_interface(&interface).unwrap();
            writer.unknown(&Unknown { block_type: 10, body: secrets.clone() }).unwrap();
            writer.packet(&packet).unwrap();
            writer.finish().unwrap()
        };
        let [little, big] = [ByteOrder::Little, ByteOrder::Big].map(write);
        let read = |file: &[u8]| Reader::new(file).map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(read(&little), read(&big));
        let has = |file: &[u8], part: &[u8]| file.windows(part.len()).any(|found| found == part);
        assert!(has(&big, b"TLSK\0\0\0\x05keys"), "{big:02x?}");
        assert!(has(&big, &[&[11, 172, 0, 8][..], &0x8263_u32.to_be_bytes(), b"text"].concat()));
        assert!(has(&big, &[&[0, 10, 0, 4][..], &3_600_u32.to_be_bytes()].concat()));
    }

    #[test]
    fn a_million_interfaces_are_read_and_their_memory_is_bounded() {
        let mut one = Vec::new();
        Interface::default().emit(&mut one);
        let file = file_with(&Interface::default(), &[&one.repeat(1_000_000)]);
        assert_eq!(read(&file), (vec![(Some(1), 60)], vec![]));
        let mut long = Vec::new();
        let name = Some("x".repeat(60_000));
        Interface { description: name, ..Interface::default() }.emit(&mut long);
        let (packets, errors) = read(&file_with(&Interface::default(), &[&long.repeat(5_000)]));
        assert_eq!(packets, [(Some(1), 60)]);
        assert!(errors[0].contains("the memory for interfaces ends after"), "{}", errors[0]);
    }

    #[test]
    fn a_packet_without_a_time_is_written_as_one() {
        let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        writer.add_interface(&Interface { snaplen: 50, ..Interface::default() }).unwrap();
        writer.add_interface(&Interface::default()).unwrap();
        let cut = Packet {
            frame_len: 60,
            data: &DATA[..50],
            no_time: Some(NoTime::NotRecorded),
            ..Packet::default()
        };
        let short = Packet { frame_len: 41, data: &DATA[..41], ..cut };
        writer.packet(&cut).unwrap();
        writer.packet(&short).unwrap();
        for packet in [Packet { data: &DATA[..30], ..cut }, Packet { interface: 1, ..cut }] {
            assert!(!writer.can_be_simple(&packet));
            assert!(writer.packet(&packet).is_err());
        }
        let file = writer.finish().unwrap();
        assert_eq!(read(&file), (vec![(None, 50), (None, 41)], vec![]));
    }
}
