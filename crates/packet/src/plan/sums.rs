//! Checksums by contributions: the constant part once, the moving bytes per frame.
//!
//! Ones-complement sums are additive (RFC 1071). So a checksum is the sum of the bytes that are the
//! same in all frames, plus the bytes that fields and earlier checksums write. Only CRC32c takes a
//! pass over the frame.

use super::spec::{ChecksumField, FrameSpec, SumKind, read_bits};
use crate::checksum;
use std::ops::Range;

/// Bytes of the longest source.
const SOURCE_WIDTH_MAX: usize = 4;

/// A checksum, prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumPlan {
    /// Where it is, and its algorithm.
    pub checksum: ChecksumField,
    /// Sum of its constant part, folded to 16 bits.
    pub base: u16,
    /// The bytes that are added for each frame; none for CRC32c.
    pub sources: Vec<SumSource>,
}

/// Bytes of a frame that are added to a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumSource {
    /// First byte in the frame.
    pub offset: usize,
    /// Bytes: 1, 2 or 4.
    pub width: usize,
    /// The bits of the big-endian number that are added.
    pub mask: u32,
    /// The first byte is the low half of a 16-bit word of the sum.
    pub is_odd: bool,
}

impl SumPlan {
    /// The checksums of a packet.
    pub(crate) fn of(spec: &FrameSpec) -> Vec<Self> {
        let prepare = |index: usize| {
            let checksum = spec.checksums[index];
            if checksum.kind == SumKind::Crc32c {
                return Self { checksum, base: 0, sources: Vec::new() };
            }
            Summands::new(spec, index).prepare(checksum)
        };
        (0..spec.checksums.len()).map(prepare).collect()
    }

    /// Adds a number to the constant part.
    pub(crate) fn add(&mut self, number: u16) {
        self.base = !checksum::finish(u64::from(self.base) + u64::from(number));
    }

    /// Takes a number out of the constant part.
    pub(crate) fn subtract(&mut self, number: u16) {
        self.add(!number);
    }

    /// Adds the two bytes at an even `offset` of what is covered once more.
    pub(crate) fn read_again(&mut self, offset: usize) {
        self.sources.push(SumSource { offset, width: 2, mask: 0xffff, is_odd: false });
    }

    /// Computes the checksum and writes it.
    #[inline]
    pub fn write(&self, frame: &mut [u8]) {
        let ChecksumField { offset, kind, .. } = self.checksum;
        if kind == SumKind::Crc32c {
            return self.checksum.write(frame);
        }
        let added = self.sources.iter().map(|source| source.summand(frame));
        let sum = match checksum::finish(u64::from(self.base) + added.sum::<u64>()) {
            0 if kind == SumKind::Udp => 0xffff,
            sum => sum,
        };
        frame[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

impl SumSource {
    /// What it adds to the sum.
    #[inline]
    fn summand(&self, frame: &[u8]) -> u64 {
        let bytes = &frame[self.offset..self.offset + self.width];
        let bits = match *bytes {
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
            [a, b] => u16::from_be_bytes([a, b]).into(),
            _ => bytes[0].into(),
        };
        let bits = u64::from(bits & self.mask);
        // 2^16 counts as 1, so a number whose last byte is the low half of a word counts as it is.
        let ends_low = self.is_odd == (self.width == 1);
        if ends_low { bits } else { bits << 8 }
    }
}

/// What one checksum of a packet adds up.
struct Summands<'a> {
    spec: &'a FrameSpec,
    /// Ranges of bytes that fields and earlier checksums write.
    written: Vec<Range<usize>>,
    /// Per byte of the frame, the bits that differ from frame to frame.
    moving: Vec<u8>,
    /// The template; the checksum itself counts as zero.
    constant: Vec<u8>,
}

impl<'a> Summands<'a> {
    fn new(spec: &'a FrameSpec, index: usize) -> Self {
        let mut written = Vec::new();
        let mut moving = vec![0; spec.template.len()];
        for field in &spec.fields {
            let range = field.offset..field.offset + field.width;
            let mask = &field.mask.to_be_bytes()[8 - field.width..];
            moving[range.clone()].iter_mut().zip(mask).for_each(|(moving, mask)| *moving |= mask);
            written.push(range);
        }
        for earlier in &spec.checksums[..index] {
            moving[earlier.place()].fill(0xff);
            written.push(earlier.place());
        }
        let mut constant = spec.template.clone();
        constant.iter_mut().zip(&moving).for_each(|(constant, moving)| *constant &= !moving);
        moving[spec.checksums[index].place()].fill(0);
        constant[spec.checksums[index].place()].fill(0);
        Self { spec, written, moving, constant }
    }

    fn prepare(&self, checksum: ChecksumField) -> SumPlan {
        let covered = checksum.start..checksum.end;
        let (number, addresses) = checksum.pseudo_sum();
        let ranges = || addresses.iter().chain([&covered]).cloned();
        let sum = ranges().fold(number, |sum, range| checksum::add(sum, &self.constant[range]));
        let sources = ranges().flat_map(|range| self.sources(range)).collect();
        SumPlan { checksum, base: !checksum::finish(sum), sources }
    }

    /// The moving bits of a range, in parts that one field or checksum writes.
    fn sources(&self, range: Range<usize>) -> Vec<SumSource> {
        let mut moving = vec![0; self.spec.template.len()];
        moving[range.clone()].copy_from_slice(&self.moving[range.clone()]);
        let mut sources = Vec::new();
        for written in &self.written {
            let mut offset = written.start;
            while offset < written.end {
                let width = [SOURCE_WIDTH_MAX, 2, 1].into_iter().find(|width| offset + width <= written.end);
                let width = width.unwrap_or(1);
                let bits = &mut moving[offset..offset + width];
                let mask = read_bits(bits) as u32;
                // Bits that two fields write are added once.
                bits.fill(0);
                let is_odd = offset.abs_diff(range.start) % 2 == 1;
                sources.extend((mask != 0).then_some(SumSource { offset, width, mask, is_odd }));
                offset += width;
            }
        }
        sources
    }
}
