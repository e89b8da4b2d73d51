//! What the receiving ports of a flow have counted of it.

use super::port::Port;

/// Counts of a flow at one time, over its receiving ports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FlowReading {
    pub(super) frames: u64,
    /// Bytes of the frames, without FCS.
    pub(super) bytes: u64,
    /// First copies at the port that has most of them. At least as many frames were sent.
    pub(super) first_copies: u64,
    /// Lowest, highest and mean latency in nanoseconds.
    pub(super) latency_ns: (f64, f64, f64),
    /// Times of the first and the last frame, in nanoseconds since 1970.
    pub(super) first_last_ns: (u64, u64),
}

impl FlowReading {
    /// Reads the counts of flow `number` at some ports.
    pub(super) fn of<'a>(ports: impl Iterator<Item = &'a Port>, number: u32) -> Self {
        let mut reading = Self::default();
        let (mut lowest, mut highest, mut sum, mut stamped) = (u32::MAX, 0, 0.0, 0.0);
        for port in ports {
            let (line, detail) = (port.line(number), port.detail(number));
            reading.frames += line.received();
            reading.first_copies = reading.first_copies.max(line.unique());
            reading.bytes += detail.frame_bytes;
            if line.stamped > 0 {
                lowest = lowest.min(!line.latency_min_inverted);
                highest = highest.max(line.latency_max_ns);
                sum += line.latency_sum_ns as f64;
                stamped += line.stamped_count(false) as f64;
            }
            if detail.first_ns > 0 {
                let (first, last) = reading.first_last_ns;
                let first = if first == 0 { detail.first_ns } else { first.min(detail.first_ns) };
                reading.first_last_ns = (first, last.max(detail.last_ns));
            }
        }
        if stamped > 0.0 {
            reading.latency_ns = (f64::from(lowest), f64::from(highest), sum / stamped);
        }
        reading
    }
}
