//! Writes the signature of a frame: number, time, flow and number in the flow.

use crate::signature::{RUN_AT, SignatureLevel, SignatureSetting, TAG_AT};
use crate::{Cursor, FrameState, PktgenHeader, Plan, WallTime, checksum};

impl SignatureSetting {
    /// Writes the variable fields into `bytes`, the whole signature. Returns `sum` with them added.
    pub(crate) fn write(&self, built: &FrameState, bytes: &mut [u8], sum: u64) -> u64 {
        if self.level == SignatureLevel::None {
            return sum;
        }
        let mut front = [0; 14];
        front[..4].copy_from_slice(&built.seq_num.to_be_bytes());
        front[4..8].copy_from_slice(&built.tv_sec.to_be_bytes());
        front[8..12].copy_from_slice(&built.tv_usec.to_be_bytes());
        let nanos = u16::from(self.stream) << 10 | built.tv_nsec as u16;
        front[12..].copy_from_slice(&nanos.to_be_bytes());
        let front = if self.level == SignatureLevel::Pktgen { &front[..12] } else { &front[..] };
        bytes[4..4 + front.len()].copy_from_slice(front);
        let sum = checksum::add(sum, front);
        if self.level < SignatureLevel::Full {
            return sum;
        }
        let mut rest = [0; 10];
        rest[..4].copy_from_slice(&built.flow.to_be_bytes());
        rest[4..8].copy_from_slice(&(built.number as u32).to_be_bytes());
        rest[8..].copy_from_slice(&((built.number >> 32) as u16).to_be_bytes());
        bytes[TAG_AT + 2..RUN_AT].copy_from_slice(&rest);
        checksum::add(sum, &rest)
    }
}

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
        if self.has_udp_checksum {
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

    /// The time in the signature of `frame`, one of this plan.
    pub fn time_in(&self, frame: &[u8]) -> Option<WallTime> {
        let signature = frame.get(self.layout.pktgen_header..)?;
        let time = PktgenHeader::parse(signature)?.time;
        let nsec = match signature.get(16..18) {
            Some(bytes) if self.signature.level >= SignatureLevel::Short => {
                u32::from(u16::from_be_bytes([bytes[0], bytes[1]]) & 0x3ff)
            }
            _ => 0,
        };
        Some(WallTime { nsec, ..time })
    }

    /// Sets flow and number of the next built frame.
    pub(crate) fn count_in_flow(&self, cursor: &mut Cursor) {
        if self.signature.level < SignatureLevel::Full {
            return;
        }
        let (flow, number) = match cursor.flows.get_mut(cursor.flow_index as usize) {
            Some(flow) if self.flow_count > 0 => {
                flow.number += 1;
                (cursor.flow_index, flow.number - 1)
            }
            _ => {
                let at = (cursor.slot, cursor.round);
                cursor.slot += 1;
                if cursor.slot >= self.signature.flow_count {
                    (cursor.slot, cursor.round) = (0, cursor.round + 1);
                }
                at
            }
        };
        cursor.built.flow = self.signature.flow_first.wrapping_add(flow);
        cursor.built.number = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_reads_as_the_receiver_reads_it() {
        let setting = SignatureSetting {
            level: SignatureLevel::Full,
            stream: 5,
            run: 0x123,
            ..SignatureSetting::default()
        };
        let built = FrameState {
            seq_num: 7,
            tv_sec: 8,
            tv_usec: 9,
            tv_nsec: 999,
            flow: 0x0102_0304,
            number: 0x0506_0708_090a,
            ..FrameState::default()
        };
        let mut bytes = setting.template(crate::PKTGEN_MAGIC);
        let constant = checksum::add(0, &bytes);
        let sum = setting.write(&built, &mut bytes, constant);
        assert_eq!(
            bytes,
            [
                0xbe, 0x9b, 0xe9, 0x55, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9, 0x17, 0xe7, 0x57, 0x52, 1, 2, 3,
                4, 7, 8, 9, 10, 5, 6, 1, 0x23
            ]
        );
        let whole = checksum::add(0, &bytes);
        assert_eq!(checksum::finish(sum), checksum::finish(whole));
    }
}
