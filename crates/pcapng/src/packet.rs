//! Enhanced packet block: one packet with its time, its length on the wire, and its metadata.
//!
//! This block is written millions of times per second. Without a comment or raw options it is built
//! in registers and on the stack, and appended in three copies.

use crate::body::Body;
use crate::options::{self, COMMENT, Emitter, set};
use crate::sources::Sources;
use crate::{ByteOrder, RawOption, ReadError, frame};

pub(crate) const FLAGS: u16 = 2;
pub(crate) const DROP_COUNT: u16 = 4;
pub(crate) const PACKET_ID: u16 = 5;
pub(crate) const QUEUE: u16 = 6;
const VERDICT: u16 = 7;
/// Who returned a verdict: an XDP program. The number that it returned follows, 64 bits.
const VERDICT_OF_XDP: u8 = 2;
const VERDICT_LEN: usize = 1 + 8;

/// Bytes before the data: type, length, interface, time, captured length, original length.
pub(crate) const HEAD_LEN: usize = 28;
/// Bytes before the data of a simple packet block: type, length, original length.
pub(crate) const SIMPLE_HEAD_LEN: usize = 12;
/// Padding, all number options, the end of options and the closing length, at their longest;
/// rounded up.
const TAIL_LEN_MAX: usize = 80;
/// Most captured bytes of one packet. Far above any frame; keeps every length in 32 bits.
pub(crate) const CAPTURED_LEN_MAX: usize = 1 << 30;

/// What the link layer knows of a packet (`epb_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketFlags(
    /// The word as the draft lays it out, bit 0 the least significant.
    pub u32,
);

impl PacketFlags {
    /// The packet came in.
    pub const INBOUND: Self = Self(1);
    /// The packet went out.
    pub const OUTBOUND: Self = Self(2);

    /// Whether the packet is known to have come in.
    #[must_use]
    pub fn is_inbound(self) -> bool {
        self.0 & 3 == Self::INBOUND.0
    }

    /// 1 for a packet that came in, 2 for one that went out; `None` if it is not known.
    #[must_use]
    pub fn direction(self) -> Option<u8> {
        match self.0 & 3 {
            direction @ 1..=2 => Some(direction as u8),
            _ => None,
        }
    }

    /// Whether the packet is known to have gone out.
    #[must_use]
    pub fn is_outbound(self) -> bool {
        self.0 & 3 == Self::OUTBOUND.0
    }
}

/// Why a packet has no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoTime {
    /// The file has none: a simple packet block.
    NotRecorded,
    /// It is before 1970 or after July 2554.
    OutOfRange,
}

/// One packet, borrowing its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of its interface within the section.
    pub interface: u32,
    /// When it passed, in nanoseconds since 1970; 0 without a time.
    pub time_ns: u64,
    /// Why it has no time; `None` for a packet with one. [`crate::Writer::packet`] writes a packet
    /// without a time as a simple packet block; the faster encoders do not look at this field.
    pub no_time: Option<NoTime>,
    /// Its length on the link without FCS, in bytes; at least the captured length.
    pub frame_len: u32,
    /// The captured bytes; their count is the captured length. At most 1 GiB.
    pub data: &'a [u8],
    /// Direction and what else the link layer knows.
    pub flags: Option<PacketFlags>,
    /// Queue of the device it came by.
    pub queue: Option<u32>,
    /// A number that is the same wherever the same packet was captured.
    pub packet_id: Option<u64>,
    /// Packets lost on this interface between the one before and this one.
    pub drop_count: Option<u64>,
    /// What an XDP program returned for it (`XDP_DROP` is 1). Verdicts of others are in `other`.
    pub xdp_verdict: Option<u64>,
    /// Comment of the author.
    pub comment: Option<&'a str>,
    /// Options that no field above holds.
    pub other: &'a [RawOption],
    /// Its options end within an option: those before it were read. Never written.
    pub has_broken_options: bool,
}

/// What readers of packets need beside the bytes of one, which [`crate::Reader::data`] gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainPacket {
    /// Number of its interface within the section.
    pub interface: u32,
    /// When it passed, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Its length on the link without FCS, in bytes; at least the captured length.
    pub frame_len: u32,
    /// Direction and what else the link layer knows.
    pub flags: Option<PacketFlags>,
    /// Queue of the device it came by.
    pub queue: Option<u32>,
    /// Packets lost on this interface between the one before and this one.
    pub drop_count: Option<u64>,
}

impl PlainPacket {
    /// The packet of the enhanced packet block that `bytes` begin with, its captured length and the
    /// length of the block; nothing for every other block, or if anything about it is unusual.
    #[inline]
    pub(crate) fn parse(order: ByteOrder, bytes: &[u8], sources: &Sources) -> Option<(Self, usize, usize)> {
        let head: &[u8; HEAD_LEN] = bytes.first_chunk()?;
        let word = |at: usize| order.parse_u32([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (total_len, captured_len) = (word(4) as usize, word(20) as usize);
        if word(0) != frame::PACKET || total_len > bytes.len() || captured_len > total_len {
            return None;
        }
        let options_at = HEAD_LEN + captured_len.next_multiple_of(4);
        let (options, closing) = bytes[..total_len].get(options_at..)?.split_last_chunk()?;
        if order.parse_u32(*closing) as usize != total_len {
            return None;
        }
        let interface = word(8);
        let source = sources.find(0, interface).ok()?;
        let time_ns = source.scale.to_ns(u64::from(word(12)) << 32 | u64::from(word(16)))?;
        let mut packet = Self { interface, time_ns, frame_len: word(24), ..Self::default() };
        packet.parse_options(order, options)?;
        Some((packet, captured_len, total_len))
    }

    /// Reads options that are there once, with their usual lengths; nothing if there are others.
    #[inline]
    fn parse_options(&mut self, order: ByteOrder, mut options: &[u8]) -> Option<()> {
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let code = order.parse_u16([head[0], head[1]]);
            let is_first = match (code, order.parse_u16([head[2], head[3]])) {
                (options::END, 0) if rest.is_empty() => return Some(()),
                (FLAGS, 4) => {
                    let flags = PacketFlags(order.parse_u32(*rest.first_chunk()?));
                    self.flags.replace(flags).is_none()
                }
                (QUEUE, 4) => self.queue.replace(order.parse_u32(*rest.first_chunk()?)).is_none(),
                (DROP_COUNT, 8) => self.drop_count.replace(order.parse_u64(*rest.first_chunk()?)).is_none(),
                _ => false,
            };
            if !is_first {
                return None;
            }
            options = &rest[if code == DROP_COUNT { 8 } else { 4 }..];
        }
        options.is_empty().then_some(())
    }
}

/// One packet that owns its bytes; the fields are those of [`Packet`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketBuf {
    /// Number of its interface within the section.
    pub interface: u32,
    /// When it passed, in nanoseconds since 1970; 0 without a time.
    pub time_ns: u64,
    /// Why it has no time; `None` for a packet with one.
    pub no_time: Option<NoTime>,
    /// Its length on the link without FCS, in bytes; at least the captured length.
    pub frame_len: u32,
    /// The captured bytes; their count is the captured length. At most 1 GiB.
    pub data: Vec<u8>,
    /// Direction and what else the link layer knows.
    pub flags: Option<PacketFlags>,
    /// Queue of the device it came by.
    pub queue: Option<u32>,
    /// A number that is the same wherever the same packet was captured.
    pub packet_id: Option<u64>,
    /// Packets lost on this interface between the one before and this one.
    pub drop_count: Option<u64>,
    /// What an XDP program returned for it (`XDP_DROP` is 1). Verdicts of others are in `other`.
    pub xdp_verdict: Option<u64>,
    /// Comment of the author.
    pub comment: Option<String>,
    /// Options that no field above holds.
    pub other: Vec<RawOption>,
    /// Its options end within an option: those before it were read. Never written.
    pub has_broken_options: bool,
}

impl PacketBuf {
    /// Borrows the packet, with all its fields.
    #[must_use]
    pub fn as_packet(&self) -> Packet<'_> {
        Packet {
            interface: self.interface,
            time_ns: self.time_ns,
            no_time: self.no_time,
            frame_len: self.frame_len,
            data: &self.data,
            flags: self.flags,
            queue: self.queue,
            packet_id: self.packet_id,
            drop_count: self.drop_count,
            xdp_verdict: self.xdp_verdict,
            comment: self.comment.as_deref(),
            other: &self.other,
            has_broken_options: self.has_broken_options,
        }
    }
}

impl<'a> Packet<'a> {
    /// The packet of a block that [`Packet::emit`] or [`crate::Template::emit`] wrote, without its
    /// comment and raw options. Much faster than a [`crate::Reader`].
    #[must_use]
    pub fn parse_emitted(block: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*block.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_le_bytes(*block.get(at..)?.first_chunk()?));
        let captured_len = word(20)? as usize;
        let data = block.get(HEAD_LEN..HEAD_LEN.checked_add(captured_len)?)?;
        let mut packet = Self {
            interface: word(8)?,
            time_ns: u64::from(word(12)?) << 32 | u64::from(word(16)?),
            frame_len: word(24)?,
            data,
            ..Self::default()
        };
        let mut at = HEAD_LEN + captured_len + frame::pad_len(captured_len);
        // An option is its code, its length and its value; the closing length is no option.
        while at + 8 <= block.len() {
            let head = word(at)?;
            let (code, len) = (head as u16, (head >> 16) as usize);
            match code {
                FLAGS => packet.flags = word(at + 4).map(PacketFlags),
                QUEUE => packet.queue = word(at + 4),
                DROP_COUNT => packet.drop_count = long(at + 4),
                PACKET_ID => packet.packet_id = long(at + 4),
                VERDICT => {
                    packet.xdp_verdict = xdp_verdict(ByteOrder::Little, block.get(at + 4..at + 4 + len)?)
                }
                _ => {}
            }
            at += 4 + len + frame::pad_len(len);
        }
        Some(packet)
    }
}

impl Packet<'_> {
    /// A copy that owns its bytes.
    #[must_use]
    pub fn to_buf(&self) -> PacketBuf {
        PacketBuf {
            interface: self.interface,
            time_ns: self.time_ns,
            no_time: self.no_time,
            frame_len: self.frame_len,
            data: self.data.to_vec(),
            flags: self.flags,
            queue: self.queue,
            packet_id: self.packet_id,
            drop_count: self.drop_count,
            xdp_verdict: self.xdp_verdict,
            comment: self.comment.map(str::to_owned),
            other: self.other.to_vec(),
            has_broken_options: self.has_broken_options,
        }
    }

    /// Appends the block in little-endian order, for an interface without a time offset. Allocates
    /// nothing if `out` has capacity.
    ///
    /// # Panics
    /// When `data` is longer than 1 GiB or a raw option is not possible.
    #[inline]
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_as(ByteOrder::Little, out);
    }

    /// Appends the block in the byte order of its section, for an interface without a time offset.
    /// Allocates nothing if `out` has capacity.
    #[inline]
    pub fn emit_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        if self.comment.is_some() || !self.other.is_empty() {
            return self.emit_with_texts(order, out);
        }
        let mut tail = Tail::new(frame::pad_len(self.data.len()));
        tail.options(self, order);
        let total_len = HEAD_LEN + self.data.len() + tail.len + 4;
        tail.push(order.emit_u32(total_len as u32));
        out.reserve(total_len);
        out.extend_from_slice(&head(order, self, total_len));
        out.extend_from_slice(self.data);
        out.extend_from_slice(&tail.bytes[..tail.len]);
    }

    /// Appends a simple packet block: original length and bytes, for interface 0. The captured
    /// length follows from the snaplen of the interface.
    ///
    /// # Panics
    /// When `data` is longer than 1 GiB.
    pub(crate) fn emit_simple_as(&self, order: ByteOrder, out: &mut Vec<u8>) {
        assert!(self.data.len() <= CAPTURED_LEN_MAX, "a packet of {} bytes is too long", self.data.len());
        frame::emit(order, frame::SIMPLE_PACKET, out, |out| {
            out.extend_from_slice(&order.emit_u32(self.frame_len));
            out.extend_from_slice(self.data);
        });
    }

    #[cold]
    fn emit_with_texts(&self, order: ByteOrder, out: &mut Vec<u8>) {
        frame::emit(order, frame::PACKET, out, |out| {
            out.extend_from_slice(&head(order, self, 0)[8..]);
            out.extend_from_slice(self.data);
            frame::pad(out, out.len() - self.data.len());
            let mut options = Emitter::new(order, out);
            options.text(COMMENT, self.comment);
            options.number_u32(FLAGS, self.flags.map(|flags| flags.0));
            options.number_u64(DROP_COUNT, self.drop_count);
            options.number_u64(PACKET_ID, self.packet_id);
            options.number_u32(QUEUE, self.queue);
            if let Some(verdict) = self.xdp_verdict {
                options.bytes(VERDICT, &verdict_bytes(order, verdict));
            }
            options.raw(self.other);
            options.end();
        });
    }
}

impl<'a> Packet<'a> {
    /// An enhanced packet block. Options without a field are put into `other`, which was empty.
    #[inline]
    pub(crate) fn parse(
        mut body: Body<'a>,
        sources: &Sources,
        other: &'a mut Vec<RawOption>,
    ) -> Result<Self, ReadError> {
        let mut packet = Self { interface: body.u32("the interface")?, ..Self::default() };
        let source = sources.find(body.block_offset(), packet.interface)?;
        packet.set_time(source.scale.to_ns(body.time("the time")?));
        packet.parse_data(&mut body)?;
        packet.parse_options(body, other);
        Ok(packet)
    }

    /// The packet block that the enhanced one replaced: 16-bit interface, and a 16-bit count of
    /// drops in which all ones mean "not known".
    pub(crate) fn parse_old(
        mut body: Body<'a>,
        sources: &Sources,
        other: &'a mut Vec<RawOption>,
    ) -> Result<Self, ReadError> {
        let mut packet = Self { interface: u32::from(body.u16("the interface")?), ..Self::default() };
        let drop_count = body.u16("the drop count")?;
        let source = sources.find(body.block_offset(), packet.interface)?;
        packet.set_time(source.scale.to_ns(body.time("the time")?));
        packet.parse_data(&mut body)?;
        packet.parse_options(body, other);
        if drop_count != u16::MAX {
            packet.drop_count = Some(u64::from(drop_count));
        }
        Ok(packet)
    }

    /// A simple packet block: of interface 0, cut to its snaplen, at no known time.
    pub(crate) fn parse_simple(mut body: Body<'a>, sources: &Sources) -> Result<Self, ReadError> {
        let snaplen = sources.find(body.block_offset(), 0)?.snaplen;
        let frame_len = body.u32("the original length")?;
        let captured_len = if snaplen == 0 { frame_len } else { frame_len.min(snaplen) };
        let data = body.take("captured bytes", captured_len as usize)?;
        Ok(Self { frame_len, data, no_time: Some(NoTime::NotRecorded), ..Self::default() })
    }

    #[inline]
    fn set_time(&mut self, time_ns: Option<u64>) {
        self.time_ns = time_ns.unwrap_or(0);
        self.no_time = time_ns.is_none().then_some(NoTime::OutOfRange);
    }

    #[inline]
    fn parse_data(&mut self, body: &mut Body<'a>) -> Result<(), ReadError> {
        let captured_len = body.u32("the captured length")? as usize;
        self.frame_len = body.u32("the original length")?;
        self.data = body.take("captured bytes", captured_len)?;
        body.skip(frame::pad_len(captured_len));
        Ok(())
    }

    /// A broken option ends the options, not the packet, whose bytes are before them.
    fn parse_options(&mut self, body: Body<'a>, other: &'a mut Vec<RawOption>) {
        let parsed = options::parse(body, other, |option| match option.code {
            COMMENT => set(&mut self.comment, option.text()),
            FLAGS => set(&mut self.flags, option.number_u32().map(PacketFlags)),
            DROP_COUNT => set(&mut self.drop_count, option.number_u64()),
            PACKET_ID => set(&mut self.packet_id, option.number_u64()),
            QUEUE => set(&mut self.queue, option.number_u32()),
            VERDICT => set(&mut self.xdp_verdict, xdp_verdict(option.order, option.value)),
            _ => false,
        });
        self.has_broken_options = parsed.is_err();
        self.other = other;
    }
}

/// The value of `epb_verdict`.
fn verdict_bytes(order: ByteOrder, verdict: u64) -> [u8; VERDICT_LEN] {
    let mut bytes = [VERDICT_OF_XDP; VERDICT_LEN];
    bytes[1..].copy_from_slice(&order.emit_u64(verdict));
    bytes
}

/// The verdict of an XDP program; `None` for other verdicts.
fn xdp_verdict(order: ByteOrder, value: &[u8]) -> Option<u64> {
    let (&of, verdict) = value.split_first()?;
    (of == VERDICT_OF_XDP).then(|| verdict.try_into().ok().map(|bytes| order.parse_u64(bytes)))?
}

/// The bytes before the data of a block of `total_len` bytes.
#[inline(always)]
pub(crate) fn head(order: ByteOrder, packet: &Packet<'_>, total_len: usize) -> [u8; HEAD_LEN] {
    assert!(packet.data.len() <= CAPTURED_LEN_MAX, "a packet of {} bytes is too long", packet.data.len());
    let mut head = [0; HEAD_LEN];
    head[0..4].copy_from_slice(&order.emit_u32(frame::PACKET));
    head[4..8].copy_from_slice(&order.emit_u32(total_len as u32));
    head[8..12].copy_from_slice(&order.emit_u32(packet.interface));
    head[12..20].copy_from_slice(&order.emit_time(packet.time_ns));
    head[20..24].copy_from_slice(&order.emit_u32(packet.data.len() as u32));
    head[24..28].copy_from_slice(&order.emit_u32(packet.frame_len));
    head
}

/// The bytes after the data, put together on the stack.
struct Tail {
    bytes: [u8; TAIL_LEN_MAX],
    len: usize,
}

impl Tail {
    /// Begins with `pad_len` zeros, which end the data.
    #[inline(always)]
    fn new(pad_len: usize) -> Self {
        Self { bytes: [0; TAIL_LEN_MAX], len: pad_len }
    }

    #[inline(always)]
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    #[inline(always)]
    fn option_u32(&mut self, order: ByteOrder, code: u16, value: Option<u32>) {
        if let Some(value) = value {
            self.push(order.emit_u16(code));
            self.push(order.emit_u16(4));
            self.push(order.emit_u32(value));
        }
    }

    #[inline(always)]
    fn option_u64(&mut self, order: ByteOrder, code: u16, value: Option<u64>) {
        if let Some(value) = value {
            self.push(order.emit_u16(code));
            self.push(order.emit_u16(8));
            self.push(order.emit_u64(value));
        }
    }

    #[inline(always)]
    fn options(&mut self, packet: &Packet<'_>, order: ByteOrder) {
        let start = self.len;
        self.option_u32(order, FLAGS, packet.flags.map(|flags| flags.0));
        self.option_u64(order, DROP_COUNT, packet.drop_count);
        self.option_u64(order, PACKET_ID, packet.packet_id);
        self.option_u32(order, QUEUE, packet.queue);
        if let Some(verdict) = packet.xdp_verdict {
            self.push(order.emit_u16(VERDICT));
            self.push(order.emit_u16(VERDICT_LEN as u16));
            self.push(verdict_bytes(order, verdict));
            self.push([0; 3]);
        }
        if self.len > start {
            self.push([0; 4]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_and_the_slow_way_write_the_same() {
        for len in [0, 1, 2, 3, 4, 95, 96, 65_535] {
            for bits in 0..32u64 {
                let data = vec![0xa5; len];
                let packet = Packet {
                    interface: 7,
                    time_ns: 0x1122_3344_5566_7788,
                    frame_len: 70_000,
                    data: &data,
                    flags: (bits & 1 != 0).then_some(PacketFlags::INBOUND),
                    queue: (bits & 2 != 0).then_some(3),
                    packet_id: (bits & 4 != 0).then_some(u64::MAX),
                    drop_count: (bits & 8 != 0).then_some(1 << 40),
                    xdp_verdict: (bits & 16 != 0).then_some(4),
                    ..Packet::default()
                };
                for order in [ByteOrder::Little, ByteOrder::Big] {
                    let (mut fast, mut slow) = (vec![0xee; 5], vec![0xee; 5]);
                    packet.emit_as(order, &mut fast);
                    packet.emit_with_texts(order, &mut slow);
                    assert_eq!(fast, slow, "len {len} bits {bits} {order:?}");
                    if order == ByteOrder::Little {
                        assert_eq!(Packet::parse_emitted(&fast[5..]), Some(packet));
                        assert_eq!(Packet::parse_emitted(&fast[5..5 + HEAD_LEN - 1]), None);
                    }
                }
            }
        }
    }

    #[test]
    fn direction_is_two_bits() {
        let directions = [0xffff_fff0, 0xffff_fff1, 0xffff_fff2, 3].map(|bits| PacketFlags(bits).direction());
        assert_eq!(directions, [None, Some(1), Some(2), None]);
        assert!(PacketFlags(0xffff_fff1).is_inbound() && !PacketFlags(3).is_inbound());
        assert!(PacketFlags(0xffff_fff2).is_outbound() && !PacketFlags(3).is_outbound());
    }
}
