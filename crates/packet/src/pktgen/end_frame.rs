//! The announcement of the end of a run, in a frame like those of the run.

use crate::plan::{Plan, SumKind};
use crate::{Cursor, checksum};

/// First word of an end frame's payload.
const END_MAGIC: u32 = 0x5752_454e;
/// A flag of it: the run is there.
const END_HAS_RUN: u16 = 1;

impl Plan {
    /// The next frame of a plan with full signatures, with the announcement that the run has ended
    /// and `sent` numbers were sent in place of its signature.
    pub fn end_frame(&self, cursor: &mut Cursor, sent: u64) -> Vec<u8> {
        let mut frame = vec![0; self.frame_len_max() as usize];
        let len = self.emit(cursor, 0, &mut frame);
        frame.truncate(len);
        let mut end = vec![0; self.signature.level.byte_count()];
        end[..4].copy_from_slice(&END_MAGIC.to_be_bytes());
        end[4..6].copy_from_slice(&END_HAS_RUN.to_be_bytes());
        end[6..8].copy_from_slice(&self.signature.run.to_be_bytes());
        end[8..16].copy_from_slice(&sent.to_be_bytes());
        let (udp_sum_at, signature) = (self.layout.udp + 6, self.layout.pktgen_header..self.layout.end);
        if self.packets[0].sums.iter().any(|sum| sum.checksum.kind == SumKind::Udp) {
            // RFC 1624, equation 3.
            let old = u16::from_be_bytes([frame[udp_sum_at], frame[udp_sum_at + 1]]);
            let removed = checksum::finish(checksum::add(0, &frame[signature.clone()]));
            let sum = checksum::add(u64::from(!old) + u64::from(removed), &end);
            let new = Some(checksum::finish(sum)).filter(|sum| *sum != 0).unwrap_or(0xffff);
            frame[udp_sum_at..udp_sum_at + 2].copy_from_slice(&new.to_be_bytes());
        }
        frame[signature].copy_from_slice(&end);
        frame
    }
}
