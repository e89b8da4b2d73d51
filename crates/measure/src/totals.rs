//! Counts of the whole receiver, beside those of its flows.

use crate::icmp_error::IcmpError;
use facts::{Described, Fact, OtherFrames, UnusualFrames};
use serde::Serialize;

/// Sending threads that can be told apart.
pub const STREAMS_MAX: usize = 64;
/// Counts of reordered frames by the number of frames that a receiver would have held. The last one
/// has all above, too.
pub const HELD_LEN: usize = 64;

/// Counts of one CPU, or of all; `struct wr_receive_cpu` in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Described)]
pub struct Totals {
    /// All frames that arrived.
    #[fact(unit = "frames")]
    pub frames: u64,
    /// Their lengths, without FCS.
    pub frame_bytes: u64,
    /// Frames with a signature of this run: `unique` + `duplicate` + `too_old`.
    #[fact(unit = "frames")]
    pub received: u64,
    /// Their lengths in bytes, without FCS.
    #[serde(skip)]
    pub received_bytes: u64,
    /// The other frames.
    #[serde(flatten)]
    pub others: OtherFrames,
    /// The last ICMP error on each CPU; kind 0 is none.
    #[serde(skip)]
    pub icmp_error: IcmpError,
    /// First copies with a latency.
    #[fact(unit = "frames")]
    pub stamped: u64,
    /// Of `stamped`, those stamped by the device.
    #[fact(unit = "frames")]
    pub hardware_time: u64,
    /// First copies with a latency above the deadline; 0 without one.
    #[serde(skip)]
    pub late: u64,
    /// Received unusual frames.
    #[serde(flatten)]
    pub unusual: UnusualFrames,
    /// Frames that carry their flow: with all fields of the signature, or the mark at the end.
    #[fact(unit = "frames")]
    pub with_flow: u64,
    /// Reordered frames by the number of frames held.
    #[serde(skip)]
    pub held: [u64; HELD_LEN],
    /// Most frames held by a reordered one.
    #[serde(skip)]
    pub held_max: u64,
    /// Lowest number of each stream, as complement, so that 0 is none.
    #[serde(skip)]
    pub lowest_inverted: [u64; STREAMS_MAX],
    /// Lowest difference between neighbours, as complement relative to `IPDV_ZERO`; 0 is none.
    #[serde(skip)]
    pub ipdv_min_inverted: u64,
    /// Highest difference between neighbours, relative to `IPDV_ZERO`; 0 is none.
    #[serde(skip)]
    pub ipdv_max: u64,
    /// Highest number of a frame that came before its predecessor in its flow; 0 is none.
    #[serde(skip)]
    pub after_gap: u64,
    /// Lowest latency with its sign, as complement relative to `LATENCY_ZERO`; 0 is none. In the
    /// kernel, only reflectors have it.
    #[serde(skip)]
    pub latency_min_inverted: u64,
}

/// Differences are kept as unsigned numbers above this.
const IPDV_ZERO: u64 = 1 << 32;
/// Latencies with their signs are kept as unsigned numbers relative to this.
const LATENCY_ZERO: u64 = 1 << 63;

impl Default for Totals {
    fn default() -> Self {
        Self {
            frames: 0,
            frame_bytes: 0,
            received: 0,
            received_bytes: 0,
            others: OtherFrames::default(),
            icmp_error: IcmpError::default(),
            stamped: 0,
            hardware_time: 0,
            late: 0,
            unusual: UnusualFrames::default(),
            with_flow: 0,
            held: [0; HELD_LEN],
            held_max: 0,
            lowest_inverted: [0; STREAMS_MAX],
            ipdv_min_inverted: 0,
            ipdv_max: 0,
            after_gap: 0,
            latency_min_inverted: 0,
        }
    }
}

impl Totals {
    /// Adds the counts of another CPU.
    pub fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.frame_bytes += other.frame_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.others.add(&other.others);
        if other.icmp_error.kind > 0 {
            self.icmp_error = other.icmp_error;
        }
        self.stamped += other.stamped;
        self.late += other.late;
        self.hardware_time += other.hardware_time;
        self.unusual.add(&other.unusual);
        self.with_flow += other.with_flow;
        self.held.iter_mut().zip(other.held).for_each(|(sum, count)| *sum += count);
        self.held_max = self.held_max.max(other.held_max);
        self.lowest_inverted
            .iter_mut()
            .zip(other.lowest_inverted)
            .for_each(|(lowest, other)| *lowest = (*lowest).max(other));
        self.ipdv_min_inverted = self.ipdv_min_inverted.max(other.ipdv_min_inverted);
        self.ipdv_max = self.ipdv_max.max(other.ipdv_max);
        self.after_gap = self.after_gap.max(other.after_gap);
        self.latency_min_inverted = self.latency_min_inverted.max(other.latency_min_inverted);
    }

    /// The counts of both groups that are above 0.
    pub fn present(&self) -> impl Iterator<Item = (&'static Fact, u64)> + use<> {
        self.others.present().chain(self.unusual.present())
    }

    /// Forgets the latencies.
    pub(crate) fn drop_latency(&mut self) {
        (self.stamped, self.unusual.negative, self.hardware_time, self.late) = (0, 0, 0, 0);
        (self.ipdv_min_inverted, self.ipdv_max, self.latency_min_inverted) = (0, 0, 0);
    }

    /// Enters a latency, which is negative if the clock of the receiver is behind the sender's.
    pub(crate) fn latency(&mut self, latency_ns: i64) {
        self.latency_min_inverted =
            self.latency_min_inverted.max(!LATENCY_ZERO.wrapping_add_signed(latency_ns));
    }

    /// The lowest latency with its sign, of a reflector or a [`crate::Meter`].
    pub fn latency_min_ns(&self) -> Option<i64> {
        let above = (self.latency_min_inverted != 0).then_some(!self.latency_min_inverted)?;
        Some(above.wrapping_sub(LATENCY_ZERO).cast_signed())
    }

    /// Enters a difference between neighbours.
    pub(crate) fn ipdv(&mut self, difference_ns: i64) {
        let above = IPDV_ZERO.wrapping_add_signed(difference_ns);
        self.ipdv_max = self.ipdv_max.max(above);
        self.ipdv_min_inverted = self.ipdv_min_inverted.max(!above);
    }

    /// Lowest and highest difference between neighbours.
    pub(crate) fn ipdv_bounds(&self) -> Option<(i64, i64)> {
        let signed = |above: u64| above.wrapping_sub(IPDV_ZERO).cast_signed();
        (self.ipdv_max != 0).then(|| (signed(!self.ipdv_min_inverted), signed(self.ipdv_max)))
    }

    /// The lowest number of a stream.
    pub(crate) fn lowest(&self, stream: usize) -> Option<u64> {
        (self.lowest_inverted[stream] != 0).then(|| !self.lowest_inverted[stream])
    }

    /// Enters a reordered frame.
    pub(crate) fn reordered(&mut self, held: u32) {
        self.held[(held as usize).min(HELD_LEN - 1)] += 1;
        self.held_max = self.held_max.max(held.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_extremes_of_both() {
        let (mut one, mut other) = (Totals { received: 3, ..Totals::default() }, Totals::default());
        assert_eq!(one.ipdv_bounds(), None);
        one.ipdv(5);
        other.ipdv(-70);
        one.lowest_inverted[1] = !9;
        other.lowest_inverted[1] = !4;
        other.received = 4;
        other.reordered(2);
        other.reordered(700);
        other.after_gap = 8;
        one.add(&other);
        assert_eq!((one.received, one.ipdv_bounds(), one.held_max), (7, Some((-70, 5)), 700));
        assert_eq!((one.after_gap, one.held[2], one.held[63]), (8, 1, 1));
        assert_eq!((one.lowest(0), one.lowest(1)), (None, Some(4)));
        assert_eq!(one.latency_min_ns(), None);
        [40, -30, 20].into_iter().for_each(|latency_ns| one.latency(latency_ns));
        assert_eq!(one.latency_min_ns(), Some(-30));
    }
}
