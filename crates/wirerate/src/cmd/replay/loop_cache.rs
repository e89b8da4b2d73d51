//! The packets of one loop in memory, so that further loops do not read the files again.

use replay::{Fate, OutputPort};
use std::ops::Range;

/// Memory for the packets of a loop. With the ring of the xdp engine (17 MiB), a run stays below
/// 64 MiB.
const MEMORY_MAX: usize = 32 << 20;

/// The result of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOutcome {
    /// A frame to send.
    Frame(FrameFacts),
    /// No frame.
    Missing {
        /// Why.
        fate: Fate,
        /// LINKTYPE_ number of the packet.
        link_type: u16,
    },
}

/// A frame without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFacts {
    /// Time of the packet in the file, if it has one.
    pub time_ns: Option<u64>,
    /// The packet begins a file that follows another one.
    pub begins_file: bool,
    /// Bytes of the frame.
    pub frame_len: u32,
    /// The device that it is for.
    pub port: OutputPort,
    /// The file cuts it short, and it was padded.
    pub is_padded_cut: bool,
    /// It was padded to 60 bytes.
    pub is_padded_short: bool,
    /// It is a segment of a packet that gave other frames before.
    pub is_next_segment: bool,
}

/// All packets of a loop, frames packed one behind the other.
#[derive(Debug)]
pub struct LoopCache {
    packets: Vec<PacketOutcome>,
    bytes: Vec<u8>,
    memory_max: usize,
}

impl Default for LoopCache {
    fn default() -> Self {
        Self { packets: Vec::new(), bytes: Vec::new(), memory_max: MEMORY_MAX }
    }
}

impl LoopCache {
    /// Adds a packet; false if the loop is too long to be kept.
    pub fn add(&mut self, packet: PacketOutcome, frame: &[u8]) -> bool {
        let packets = (self.packets.len() + 1) * size_of::<PacketOutcome>();
        if packets + self.bytes.len() + frame.len() > self.memory_max {
            return false;
        }
        self.packets.push(packet);
        self.bytes.extend_from_slice(frame);
        true
    }

    /// The packet at `place`, and the place of its bytes; moves `place` to the next one. `None` at
    /// the end of a loop, after which the next loop begins.
    pub fn next(&self, place: &mut CachePlace) -> Option<(PacketOutcome, Range<usize>)> {
        let Some(packet) = self.packets.get(place.packet) else {
            *place = CachePlace::default();
            return None;
        };
        let frame_len = match packet {
            PacketOutcome::Frame(facts) => facts.frame_len as usize,
            PacketOutcome::Missing { .. } => 0,
        };
        let bytes = place.byte..place.byte + frame_len;
        *place = CachePlace { packet: place.packet + 1, byte: bytes.end };
        Some((*packet, bytes))
    }

    /// The part of the loop before `place`.
    pub fn position(&self, place: CachePlace) -> Option<f64> {
        (!self.packets.is_empty()).then(|| place.packet as f64 / self.packets.len() as f64)
    }

    /// Bytes that [`Self::next`] named.
    pub fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.bytes[place]
    }
}

/// How much of the loop was played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePlace {
    packet: usize,
    byte: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(time_ns: u64, frame_len: u32) -> PacketOutcome {
        let port = OutputPort::First;
        PacketOutcome::Frame(FrameFacts {
            time_ns: Some(time_ns),
            begins_file: false,
            frame_len,
            port,
            is_padded_cut: false,
            is_padded_short: false,
            is_next_segment: false,
        })
    }

    #[test]
    fn a_loop_is_played_again_and_again() {
        let mut cache = LoopCache::default();
        let missing = PacketOutcome::Missing { fate: Fate::Damaged, link_type: 1 };
        assert!(
            cache.add(frame(7, 3), &[1, 2, 3]) && cache.add(missing, &[]) && cache.add(frame(9, 1), &[4])
        );
        let mut place = CachePlace::default();
        for _ in 0..2 {
            let mut seen = Vec::new();
            while let Some((packet, bytes)) = cache.next(&mut place) {
                seen.push((packet, cache.bytes(bytes)));
            }
            assert_eq!(seen, [(frame(7, 3), &[1, 2, 3][..]), (missing, &[]), (frame(9, 1), &[4])]);
        }
    }

    #[test]
    fn a_loop_that_needs_more_memory_is_not_kept() {
        let mut cache = LoopCache { memory_max: 1000, ..LoopCache::default() };
        let kept = (0..100).take_while(|_| cache.add(frame(0, 60), &[0; 60])).count();
        assert_eq!(kept, 1000 / (60 + size_of::<PacketOutcome>()));
    }
}
