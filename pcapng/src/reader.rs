//! Reads blocks from any `Read`.
//!
//! Memory grows with the bytes that arrive, not with the lengths that the file claims.

use crate::body::Body;
use crate::input::Input;
use crate::section::{BYTE_ORDER_MAGIC, VERSION_MAJOR};
use crate::sources::{Source, Sources};
use crate::time::TimeScale;
use crate::{
    Block, ByteOrder, Custom, Expected, Interface, Names, Packet, PacketBuf, RawOption, ReadError, Section,
    Statistics, Unknown, frame,
};
use std::io::Read;

/// Longest block that a reader accepts, in bytes: that of Wireshark.
const BLOCK_LEN_MAX: u32 = 16 << 20;

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
}

/// A block found in the file: its place, type, and byte order.
#[derive(Clone, Copy)]
struct FoundBlock {
    offset: u64,
    block_type: u32,
    order: ByteOrder,
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
        }
    }

    /// Where the next block begins, in bytes from the start of the input. After an error that is
    /// final, where the last whole block ended.
    pub fn offset(&self) -> u64 {
        self.end_offset
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
    pub fn next_block(&mut self) -> Result<Option<Block<Packet<'_>>>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        match self.read_frame() {
            Ok(Some(found)) => self.parse(found).map(Some),
            end_or_error => {
                self.is_over = true;
                end_or_error.map(|_| None)
            }
        }
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
        self.check_len(block_type, total_len)?;
        self.read_rest(order, total_len)?;
        self.end_offset = offset + u64::from(total_len);
        Ok(Some(FoundBlock { offset, block_type, order }))
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
        let expected = if total_len < least || !total_len.is_multiple_of(4) {
            Expected::MultipleOfFourFrom(least)
        } else if total_len > BLOCK_LEN_MAX {
            Expected::AtMost(u64::from(BLOCK_LEN_MAX))
        } else {
            return Ok(());
        };
        let (offset, found) = (self.input.offset() + 4, u64::from(total_len));
        Err(ReadError::Length { offset, what: "block", expected, found })
    }

    /// Reads to the end of the block and compares the two lengths.
    fn read_rest(&mut self, order: ByteOrder, total_len: u32) -> Result<(), ReadError> {
        let closing = self.input.require("block", total_len as usize - 4, total_len as usize)?;
        let found = order.parse_u32(closing);
        if found == total_len {
            return Ok(());
        }
        Err(ReadError::Length {
            offset: self.input.offset() + u64::from(total_len) - 4,
            what: "block, said again at its end,",
            expected: Expected::Exactly(u64::from(total_len)),
            found: u64::from(found),
        })
    }

    fn parse(&mut self, found: FoundBlock) -> Result<Block<Packet<'_>>, ReadError> {
        let FoundBlock { offset, block_type, order } = found;
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
                self.sources.add(offset, source)?;
                Block::Interface(parsed?.0)
            }
            frame::PACKET => Block::Packet(Packet::parse(body, &self.sources, &mut self.other)?),
            frame::OLD_PACKET => Block::Packet(Packet::parse_old(body, &self.sources, &mut self.other)?),
            frame::SIMPLE_PACKET => Block::Packet(Packet::parse_simple(body, &self.sources)?),
            frame::STATISTICS => Block::Statistics(Statistics::parse(body, &self.sources)?),
            frame::NAMES => Block::Names(Names::parse(body)?),
            frame::CUSTOM => Block::Custom(Custom::parse(body, true)?),
            frame::CUSTOM_DO_NOT_COPY => Block::Custom(Custom::parse(body, false)?),
            _ => Block::Unknown(Unknown { block_type, body: bytes.to_vec() }),
        })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Block<PacketBuf>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_block().map(|block| block.map(Block::into_buf)).transpose()
    }
}
