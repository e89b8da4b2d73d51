//! Lengths on the wire, and the pktgen header: the time that it carries, and reading it from a
//! received frame.

/// First word of the pktgen header.
pub const PKTGEN_MAGIC: u32 = 0xbe9b_e955;
/// Bytes of the pktgen header: magic, sequence number, seconds, microseconds.
pub const PKTGEN_HEADER_LEN: usize = 16;
/// Longest frame a plan can describe: what an IPv4 total length can say behind the longest other
/// headers.
pub const FRAME_LEN_MAX: u32 = 65_535;

pub(crate) const ETHERNET_LEN: usize = 14;
pub(crate) const IPV4_LEN: usize = 20;
pub(crate) const IPV6_LEN: usize = 40;
pub(crate) const UDP_LEN: usize = 8;
pub(crate) const TAG_LEN: usize = 4;

/// Bytes that a frame takes beside its own: preamble and start (8), FCS (4), gap (12).
pub const WIRE_OVERHEAD: u32 = 24;
/// Bytes of a frame check sequence.
pub const FCS_LEN: usize = 4;
/// Shortest frame without FCS; the driver or the device pads what is shorter.
pub const FRAME_LEN_MIN: u32 = 60;

/// Bytes of time that a frame of `frame_len` bytes (without FCS) takes on an Ethernet: never below
/// 84.
pub const fn wire_len(frame_len: u32) -> u32 {
    let padded = if frame_len < FRAME_LEN_MIN { FRAME_LEN_MIN } else { frame_len };
    padded + WIRE_OVERHEAD
}

/// Time of the wall clock, as a signature carries it: pktgen's header has seconds and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallTime {
    /// Whole seconds since 1970, modulo 2^32.
    pub sec: u32,
    /// Microseconds of the second.
    pub usec: u32,
    /// Nanoseconds beyond the microseconds, 0 to 999; only longer signatures have them.
    pub nsec: u32,
}

/// A clock whose time frames carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameClock {
    /// Nanoseconds since 1970.
    Wall,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    Monotonic,
}

impl WallTime {
    /// From nanoseconds since 1970.
    pub fn from_ns(ns: u64) -> Self {
        Self {
            sec: (ns / 1_000_000_000) as u32,
            usec: (ns % 1_000_000_000 / 1000) as u32,
            nsec: (ns % 1000) as u32,
        }
    }
}

/// What a pktgen header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PktgenHeader {
    /// Sequence number.
    pub seq_num: u32,
    /// Time of day when the frame was built; zero when it carries none.
    pub time: WallTime,
}

impl PktgenHeader {
    /// Reads the header at the start of a UDP payload; `None` when there is no pktgen header.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = payload.get(4 * index..4 * index + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        let time = WallTime { sec: word(2)?, usec: word(3)?, nsec: 0 };
        (word(0)? == PKTGEN_MAGIC).then_some(Self { seq_num: word(1)?, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_frame_takes_84_bytes_of_wire() {
        assert_eq!([14, 58, 60, 61, 1514].map(wire_len), [84, 84, 84, 85, 1538]);
    }

    #[test]
    fn a_header_is_read_whole_or_not_at_all() {
        let mut bytes = [0xbe, 0x9b, 0xe9, 0x55, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0xee];
        let stamp = PktgenHeader { seq_num: 258, time: WallTime { sec: 3, usec: 4, nsec: 0 } };
        assert_eq!(PktgenHeader::parse(&bytes), Some(stamp));
        assert_eq!(PktgenHeader::parse(&bytes[..15]), None);
        bytes[3] = 0;
        assert_eq!(PktgenHeader::parse(&bytes), None);
    }
}
