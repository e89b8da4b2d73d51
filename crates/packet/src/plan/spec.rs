//! A packet as data: template, fields, checksums.

use crate::wire::{FrameClock, WallTime};
use crate::{Rng, checksum};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// One packet of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameSpec {
    /// The bytes of the frame before fields and checksums are applied.
    pub template: Vec<u8>,
    /// Applied in order, once per frame of this packet.
    pub fields: Vec<Field>,
    /// Computed in order after the fields.
    pub checksums: Vec<ChecksumField>,
    /// First byte behind the headers that the description of the packet names; 0 if it names none.
    pub payload_at: usize,
    /// The CPUs that send this packet; all if `None`.
    pub cpus: Option<RangeInclusive<u32>>,
}

/// Bytes that change from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// First byte in the frame.
    pub offset: usize,
    /// Bytes, 1 to 8, in network order; 0 for a value that is not written.
    pub width: usize,
    /// The bits of the field that are written.
    pub mask: u64,
    /// A value is shifted left by this before it is masked.
    pub shift: u32,
    /// Where the values come from.
    pub mode: FieldMode,
    /// Frames of this packet in a row that have one value; at least 1. Not for the modes whose
    /// values the plan gives (see [`FieldMode::next`]).
    pub hold: u32,
}

/// The values of a field, one per frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldMode {
    /// Adds `step`. A value above `max` is reduced by `wrap`, but not below `min`.
    Increment {
        /// Value of the first frame.
        first: u64,
        /// Lowest value after a wrap.
        min: u64,
        /// Highest value.
        max: u64,
        /// Added per frame, less than `wrap`.
        step: u64,
        /// Subtracted from a value above `max`.
        wrap: u64,
    },
    /// Subtracts `step`. A value below `min` is raised by the size of the range.
    Decrement {
        /// Value of the first frame.
        first: u64,
        /// Lowest value.
        min: u64,
        /// Highest value.
        max: u64,
        /// Subtracted per frame, at most the size of the range.
        step: u64,
    },
    /// Uniform between both, inclusive.
    Random {
        /// Lowest value.
        min: u64,
        /// Highest value.
        max: u64,
    },
    /// Number of the frame in the run, over all packets, from 0 on; repeats do not count.
    Number,
    /// `CLOCK_MONOTONIC` in nanoseconds, when the frame is built.
    Time,
    /// The list in order. At its end it goes on at index `repeat_from`.
    Values {
        /// The values, at least one.
        values: Arc<[u64]>,
        /// Index of the value that follows the last one.
        repeat_from: usize,
    },
    /// The value that the state has, which something else may change.
    Kept,
    /// Counts from the last value on, before the frame: after `max`, or from outside, comes `min`.
    Step {
        /// The value after `max`.
        min: u64,
        /// The last value.
        max: u64,
    },
    /// `base` and an offset from 0 to `count` - 1, which is counted after the frame.
    Offset {
        /// Value of the offset 0.
        base: u64,
        /// Number of offsets.
        count: u64,
    },
    /// `base` and a random offset below `count`; the state stays.
    RandomOffset {
        /// Value of the offset 0.
        base: u64,
        /// Number of offsets.
        count: u64,
    },
    /// Random bits, with these set and no others allowed.
    Bits {
        /// 64 bits are drawn instead of 32.
        is_long: bool,
        /// Bits that are set.
        set: u64,
        /// Bits that may be set.
        allowed: u64,
    },
    /// Random from up to three ranges of (first, length).
    Pools(
        /// The ranges.
        [(u32, u32); 3],
    ),
    /// One of the values of an internet mix, by a random number.
    Mix(
        /// The mix.
        Arc<Imix>,
    ),
    /// Bytes of the payload, and this many more.
    Length(
        /// Bytes that are added.
        u32,
    ),
    /// The sequence number of the frame, by which repeats count.
    Sequence,
    /// Seconds of the wall clock, modulo 2^32, when the frame is built.
    WallSeconds,
    /// Microseconds of the second.
    WallMicros,
    /// Nanoseconds beyond the microseconds, and bits above them.
    WallNanos {
        /// The other bits.
        bits: u16,
    },
    /// The flow in a full signature.
    Flow,
    /// The number in that flow: its low 32 bits, then 16 higher ones.
    FlowNumber,
    /// 49152 and a number of 14 bits that depends on the values of other fields of the frame only:
    /// the UDP source port of a tunnel, by the flow inside (RFC 7348, RFC 8926).
    Entropy {
        /// Indexes of these fields, which come before this one.
        keys: Arc<[usize]>,
    },
}

/// An internet mix, prepared for selection: the first entry whose `last[i]` is not below a random
/// 32-bit number is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imix {
    /// Frame lengths.
    pub sizes: Vec<u32>,
    /// Last random number that selects the entry.
    pub last: Vec<u32>,
}

impl Imix {
    /// The entry that a random number selects.
    #[inline]
    pub fn entry(&self, draw: u32) -> usize {
        self.last.iter().position(|last| draw <= *last).unwrap_or(self.last.len() - 1)
    }
}

/// Facts about a frame that fields take their values from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFacts {
    /// Its number in the run.
    pub number: u64,
    /// Its sequence number.
    pub seq_num: u32,
    /// The time when it is built.
    pub now_ns: u64,
    /// Time of day when the frame is built; 0 if frames do not carry the wall clock.
    pub wall: WallTime,
    /// Its flow in a full signature.
    pub flow: u32,
    /// Its number in that flow.
    pub flow_number: u64,
}

impl FrameSpec {
    /// No field changes these bytes any more.
    pub(crate) fn spare(&mut self, place: Range<usize>) {
        self.fields.iter_mut().for_each(|field| field.spare(place.clone()));
        self.fields.retain(|field| field.mask != 0);
    }

    /// The template; with its checksums if no frame changes.
    pub(super) fn first_template(&self) -> Vec<u8> {
        let mut template = self.template.clone();
        if self.fields.is_empty() {
            self.checksums.iter().for_each(|checksum| checksum.write(&mut template));
        }
        template
    }
}

impl FieldMode {
    /// The state before the first frame: a value, or an index into the list.
    pub fn start(&self) -> u64 {
        match self {
            Self::Increment { first, .. } | Self::Decrement { first, .. } => *first,
            _ => 0,
        }
    }

    /// The clock that it reads.
    pub(super) fn clock(&self) -> Option<FrameClock> {
        match self {
            Self::Time => Some(FrameClock::Monotonic),
            Self::WallSeconds | Self::WallMicros | Self::WallNanos { .. } => Some(FrameClock::Wall),
            _ => None,
        }
    }

    /// Its values, of which some may come again: those of random ranges in order, those of other
    /// modes as frames have them.
    pub(crate) fn values(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match *self {
            Self::Random { min, max } => Box::new(min..=max),
            Self::RandomOffset { base, count } => Box::new(base..base.saturating_add(count)),
            _ => {
                let (mut state, mut rng) = (self.start(), Rng(1));
                Box::new(std::iter::repeat_with(move || {
                    self.next(&mut state, &mut rng, &FrameFacts::default())
                }))
            }
        }
    }

    /// The value for a frame; moves `state` on. [`Self::Length`], [`Self::Mix`] and
    /// [`Self::Entropy`] need more than a frame's facts: the plan gives their values.
    #[inline]
    pub fn next(&self, state: &mut u64, rng: &mut Rng, frame: &FrameFacts) -> u64 {
        let value = *state;
        match *self {
            Self::Increment { min, max, step, wrap, .. } => {
                let next = value.saturating_add(step);
                *state = if next > max { next.saturating_sub(wrap).max(min) } else { next };
                value
            }
            Self::Decrement { min, max, step, .. } => {
                *state = match value.checked_sub(step).filter(|next| *next >= min) {
                    Some(next) => next,
                    None => max.saturating_sub((step - 1).saturating_sub(value.saturating_sub(min))).max(min),
                };
                value
            }
            Self::Random { min, max } => {
                *state = min + random_below(rng, (max - min).wrapping_add(1));
                *state
            }
            Self::Number => frame.number,
            Self::Time => frame.now_ns,
            Self::Values { ref values, repeat_from } => {
                let index = value as usize;
                *state = if index + 1 < values.len() { value + 1 } else { repeat_from as u64 };
                values[index]
            }
            Self::Step { min, max } => {
                *state = if value < max { value + 1 } else { min };
                *state
            }
            Self::Offset { base, count } => {
                *state = if value + 1 >= count { 0 } else { value + 1 };
                base + value
            }
            Self::RandomOffset { base, count } => base + random_below(rng, count),
            Self::Bits { is_long, set, allowed } => {
                let upper = if is_long { u64::from(rng.next_u32()) << 32 } else { 0 };
                *state = (upper | u64::from(rng.next_u32()) | set) & allowed;
                *state
            }
            Self::Pools(pools) => {
                *state = from_pools(&pools, rng).into();
                *state
            }
            Self::Kept | Self::Mix(_) | Self::Length(_) | Self::Entropy { .. } => value,
            Self::Sequence => frame.seq_num.into(),
            Self::WallSeconds => frame.wall.sec.into(),
            Self::WallMicros => frame.wall.usec.into(),
            Self::WallNanos { bits } => u64::from(bits) | u64::from(frame.wall.nsec),
            Self::Flow => frame.flow.into(),
            Self::FlowNumber => (frame.flow_number & 0xffff_ffff) << 16 | frame.flow_number >> 32 & 0xffff,
        }
    }
}

/// First port for private use, which tunnels are sent from (RFC 7348).
pub const ENTROPY_MIN: u64 = 49_152;
/// Bits of the number that is added to it.
pub const ENTROPY_BITS: u32 = 14;

/// The value of [`FieldMode::Entropy`] for these values. `plan.h` computes the same numbers.
pub(super) fn entropy(values: impl Iterator<Item = u64>) -> u64 {
    let mix = |sum: u64, value: u64| (sum ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ENTROPY_MIN + (values.fold(0, mix) >> (u64::BITS - ENTROPY_BITS))
}

/// A uniform random number of the ranges.
fn from_pools(pools: &[(u32, u32); 3], rng: &mut Rng) -> u32 {
    let [first, second, third] = *pools;
    let mut place = rng.below(first.1 + second.1 + third.1);
    for (start, count) in [first, second] {
        if place < count {
            return start + place;
        }
        place -= count;
    }
    third.0 + place
}

/// A number below `bound`; any number if `bound` is 0. `plan.h` draws the same numbers.
fn random_below(rng: &mut Rng, bound: u64) -> u64 {
    match bound {
        0 => rng.next_u64(),
        1..=0x1_0000_0000 => (u64::from(rng.next_u32()) * bound) >> 32,
        _ => ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64,
    }
}

impl Field {
    /// A field of all bits of `width` bytes.
    pub fn whole(offset: usize, width: usize, mode: FieldMode) -> Self {
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - 8 * width) };
        Self { offset, width, mask, shift: 0, mode, hold: 1 }
    }

    /// Takes the bytes of `range` out of the mask.
    pub(super) fn spare(&mut self, range: Range<usize>) {
        for (index, byte) in (self.offset..self.offset + self.width).enumerate() {
            if range.contains(&byte) {
                self.mask &= !(0xff << (8 * (self.width - 1 - index)));
            }
        }
    }

    /// Writes `value` into the bits of the field, if it has any.
    #[inline]
    pub fn write(&self, frame: &mut [u8], value: u64) {
        self.write_from(0, frame, value);
    }

    /// [`Field::write`] into the bytes of a frame from `from` on.
    #[inline]
    pub(crate) fn write_from(&self, from: usize, bytes: &mut [u8], value: u64) {
        if self.width == 0 {
            return;
        }
        let at = self.offset - from;
        let bytes = &mut bytes[at..at + self.width];
        let bits = value << self.shift;
        match bytes.len() {
            4 if self.mask == u64::from(u32::MAX) => bytes.copy_from_slice(&(bits as u32).to_be_bytes()),
            2 if self.mask == u64::from(u16::MAX) => bytes.copy_from_slice(&(bits as u16).to_be_bytes()),
            _ => write_bits(bytes, self.mask, bits),
        }
    }

    /// The value in the bits of the field.
    pub fn read(&self, frame: &[u8]) -> u64 {
        (read_bits(&frame[self.offset..self.offset + self.width]) & self.mask) >> self.shift
    }
}

/// Replaces the bits in `mask` of a big-endian number of up to 8 bytes.
pub fn write_bits(bytes: &mut [u8], mask: u64, bits: u64) {
    let merged = (read_bits(bytes) & !mask) | (bits & mask);
    let width = bytes.len();
    bytes.copy_from_slice(&merged.to_be_bytes()[8 - width..]);
}

/// A big-endian number of up to 8 bytes.
pub fn read_bits(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A checksum in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumField {
    /// First byte of the checksum.
    pub offset: usize,
    /// First byte that it covers.
    pub start: usize,
    /// End of the bytes that it covers; the checksum itself counts as zero.
    pub end: usize,
    /// What is added in front.
    pub pseudo_header: PseudoHeader,
    /// The algorithm.
    pub kind: SumKind,
    /// The checksum is wrong in each frame. Not for CRC32c.
    pub is_wrong: bool,
}

/// The pseudo header of a transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PseudoHeader {
    /// None.
    None,
    /// Addresses of the IPv4 header at byte `header`.
    Ipv4 {
        /// First byte of the IPv4 header.
        header: usize,
        /// Protocol number.
        protocol: u8,
    },
    /// Addresses of the IPv6 header at byte `header`.
    Ipv6 {
        /// First byte of the IPv6 header.
        header: usize,
        /// Number of the upper-layer protocol.
        protocol: u8,
    },
    /// IPv6 addresses at two places: a routing header has the final destination.
    Routed {
        /// First byte of the source address.
        src: usize,
        /// First byte of the final destination address.
        dst: usize,
        /// Number of the upper-layer protocol.
        protocol: u8,
    },
}

impl PseudoHeader {
    /// The places of source and destination address; empty without a pseudo header.
    pub fn addresses(&self) -> [Range<usize>; 2] {
        match *self {
            Self::None => [0..0, 0..0],
            Self::Ipv4 { header, .. } => [header + 12..header + 16, header + 16..header + 20],
            Self::Ipv6 { header, .. } => [header + 8..header + 24, header + 24..header + 40],
            Self::Routed { src, dst, .. } => [src..src + 16, dst..dst + 16],
        }
    }

    /// Number of the protocol; `None` without a pseudo header.
    fn protocol(&self) -> Option<u8> {
        match *self {
            Self::None => None,
            Self::Ipv4 { protocol, .. } | Self::Ipv6 { protocol, .. } | Self::Routed { protocol, .. } => {
                Some(protocol)
            }
        }
    }
}

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    /// 16-bit ones-complement sum (RFC 1071).
    Internet,
    /// 16-bit ones-complement sum (RFC 1071) of which a result of 0 is sent as 0xffff (UDP).
    Udp,
    /// CRC32c, four bytes, least significant first (SCTP).
    Crc32c,
}

impl SumKind {
    /// Bytes of the checksum.
    pub fn width(self) -> usize {
        match self {
            Self::Internet | Self::Udp => 2,
            Self::Crc32c => 4,
        }
    }
}

impl ChecksumField {
    /// Computes the checksum and writes it.
    pub fn write(&self, frame: &mut [u8]) {
        frame[self.offset..self.offset + self.kind.width()].fill(0);
        let covered = &frame[self.start..self.end];
        if self.kind == SumKind::Crc32c {
            let crc = checksum::crc32c(covered);
            frame[self.offset..self.offset + 4].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        let (number, addresses) = self.pseudo_sum();
        let sum = addresses.into_iter().fold(number, |sum, address| checksum::add(sum, &frame[address]));
        let sum = match checksum::finish(checksum::add(sum, covered)) {
            0 if self.kind == SumKind::Udp => 0xffff,
            sum => sum,
        };
        frame[self.offset..self.offset + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// What is added to the covered bytes: a number, and the addresses of the pseudo header.
    pub(super) fn pseudo_sum(&self) -> (u64, [Range<usize>; 2]) {
        let length = (self.end - self.start) as u64;
        let number = self.pseudo_header.protocol().map_or(0, |protocol| length + u64::from(protocol));
        // Sums that differ by 1 are never equal: only 0xffff adds nothing (RFC 1071).
        (number + u64::from(self.is_wrong), self.pseudo_header.addresses())
    }

    /// Its own bytes.
    pub fn place(&self) -> Range<usize> {
        self.offset..self.offset + self.kind.width()
    }

    /// True if this checksum covers bytes of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        other.offset < self.end && self.start < other.offset + other.kind.width()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(mode: &FieldMode, count: usize) -> Vec<u64> {
        let (mut state, mut rng) = (mode.start(), Rng(1));
        (0..count).map(|_| mode.next(&mut state, &mut rng, &FrameFacts::default())).collect()
    }

    #[test]
    fn increment_wraps_to_at_least_min() {
        let mode = FieldMode::Increment { first: 1, min: 1, max: 10, step: 4, wrap: 11 };
        assert_eq!(values(&mode, 6), [1, 5, 9, 2, 6, 10]);
        let mode = FieldMode::Increment { first: 3, min: 1, max: 3, step: 1, wrap: 4 };
        assert_eq!(values(&mode, 4), [3, 1, 2, 3]);
    }

    #[test]
    fn decrement_wraps_by_the_size_of_the_range() {
        let mode = FieldMode::Decrement { first: 5, min: 2, max: 5, step: 1 };
        assert_eq!(values(&mode, 6), [5, 4, 3, 2, 5, 4]);
        let mode = FieldMode::Decrement { first: 5, min: 0, max: 5, step: 4 };
        assert_eq!(values(&mode, 5), [5, 1, 3, 5, 1]);
    }

    #[test]
    fn values_repeat_from_an_index() {
        let mode = FieldMode::Values { values: [9, 1, 2].into(), repeat_from: 1 };
        assert_eq!(values(&mode, 6), [9, 1, 2, 1, 2, 1]);
    }

    #[test]
    fn random_values_reach_both_ends_and_no_others() {
        let seen = values(&FieldMode::Random { min: 3, max: 5 }, 100);
        assert!((3..=5).all(|value| seen.contains(&value)) && seen.iter().all(|v| (3..=5).contains(v)));
        values(&FieldMode::Random { min: 0, max: u64::MAX }, 3);
    }

    #[test]
    fn field_writes_only_its_bits() {
        let mut frame = [0xff; 4];
        let mode = FieldMode::Random { min: 0, max: 0 };
        Field { offset: 1, width: 2, mask: 0x0ff0, shift: 4, mode, hold: 1 }.write(&mut frame, 0x12);
        assert_eq!(frame, [0xff, 0xf1, 0x2f, 0xff]);
    }

    #[test]
    fn udp_checksum_of_zero_is_sent_as_all_ones() {
        let sum = |kind| ChecksumField {
            offset: 0,
            start: 0,
            end: 4,
            pseudo_header: PseudoHeader::None,
            kind,
            is_wrong: false,
        };
        let mut frame = [0, 0, 0xff, 0xff];
        sum(SumKind::Udp).write(&mut frame);
        assert_eq!(frame[..2], [0xff, 0xff]);
        sum(SumKind::Internet).write(&mut frame);
        assert_eq!(frame[..2], [0, 0]);
    }
}
