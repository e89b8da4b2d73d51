//! Packets of one source that differ only in time, length and bytes: all other fields are encoded
//! once.

use crate::options::{COMMENT, Emitter};
use crate::packet::{self, HEAD_LEN};
use crate::{Interface, Packet, frame};

/// An encoder for the packets of one queue.
///
/// ```
/// # use pcapng::{PacketFlags, Interface, Packet, Template};
/// let like = Packet { interface: 0, flags: Some(PacketFlags::INBOUND), queue: Some(3), ..Packet::default() };
/// let template = Template::new(&Interface::default(), &like);
/// let mut out = Vec::with_capacity(1 << 20);
/// template.emit(1_700_000_000_000_000_000, 1514, &[0; 96], &mut out);
/// assert_eq!(out.len(), 28 + 96 + 8 + 8 + 4 + 4);
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    interface: u32,
    time_offset_ns: u64,
    /// Three zeros to pad the data with, the options, and space for the closing length.
    tail: Vec<u8>,
}

impl Template {
    /// Packets like `like` (interface and options; its time, length and data do not matter) of
    /// `interface`.
    #[must_use]
    pub fn new(interface: &Interface, like: &Packet<'_>) -> Self {
        let mut tail = vec![0; 3];
        let mut options = Emitter::new(crate::ByteOrder::Little, &mut tail);
        options.text(COMMENT, like.comment);
        options.number_u32(packet::FLAGS, like.flags.map(|flags| flags.0));
        options.number_u64(packet::DROP_COUNT, like.drop_count);
        options.number_u64(packet::PACKET_ID, like.packet_id);
        options.number_u32(packet::QUEUE, like.queue);
        options.raw(like.other);
        options.end();
        let time_offset_ns = interface.time_offset_s.wrapping_mul(1_000_000_000) as u64;
        Self { interface: like.interface, time_offset_ns, tail }
    }

    /// Appends one packet in little-endian order: `time_ns` since 1970, `frame_len` bytes on the
    /// link, of which `data` was captured. Allocates nothing if `out` has capacity. A time before
    /// the interface's time offset wraps.
    ///
    /// # Panics
    /// When `data` is longer than 1 GiB.
    #[inline]
    pub fn emit(&self, time_ns: u64, frame_len: u32, data: &[u8], out: &mut Vec<u8>) {
        let tail = &self.tail[3 - frame::pad_len(data.len())..];
        let total_len = HEAD_LEN + data.len() + tail.len() + 4;
        let packet = Packet {
            interface: self.interface,
            time_ns: time_ns.wrapping_sub(self.time_offset_ns),
            frame_len,
            data,
            ..Packet::default()
        };
        out.reserve(total_len);
        out.extend_from_slice(&packet::head(crate::ByteOrder::Little, &packet, total_len));
        out.extend_from_slice(data);
        out.extend_from_slice(tail);
        out.extend_from_slice(&(total_len as u32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketFlags;

    #[test]
    fn a_template_writes_what_a_packet_writes() {
        for len in [0, 1, 2, 3, 4, 60, 95, 96, 9000] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            for queue in [None, Some(9)] {
                let packet = Packet {
                    interface: 2,
                    time_ns: u64::MAX - 5,
                    frame_len: 9018,
                    data: &data,
                    flags: queue.map(|_| PacketFlags::INBOUND),
                    queue,
                    ..Packet::default()
                };
                let (mut a, mut b) = (vec![0xee; 7], vec![0xee; 7]);
                packet.emit(&mut a);
                Template::new(&Interface::default(), &packet).emit(packet.time_ns, 9018, &data, &mut b);
                assert_eq!(a, b, "len {len} queue {queue:?}");
            }
        }
    }

    #[test]
    fn a_time_offset_is_taken_off_once() {
        for offset_s in [1_600_000_000, -37] {
            let interface = Interface { time_offset_s: offset_s, ..Interface::default() };
            let time_ns = 1_700_000_000_123_456_789_u64;
            let (mut a, mut b) = (Vec::new(), Vec::new());
            Template::new(&interface, &Packet::default()).emit(time_ns, 0, &[], &mut a);
            let raw_ns = (time_ns as i64 - offset_s * 1_000_000_000) as u64;
            Packet { time_ns: raw_ns, ..Packet::default() }.emit(&mut b);
            assert_eq!(a, b);
        }
    }
}
