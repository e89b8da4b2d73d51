//! Backoff of a run when the ring of its device is full.
//!
//! Retrying at once does not make a slow device faster. The thread that empties the ring of a
//! virtual device may need this CPU, and frames that meet a full ring may be lost.

use crate::engine::Burst;

/// The backoff is the time in which the device sends this number of frames: less than any ring
/// holds.
const FRAMES: u64 = 64;
/// A shorter sleep costs more than it gains.
const REST_MIN_NS: u64 = 20_000;
/// Small rings are empty soon.
const REST_MAX_NS: u64 = 200_000;

/// State of the device while its ring is full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingBackoff {
    /// End of the last burst, if it met a full ring.
    last_ns: Option<u64>,
    /// Mean time per frame of the device; 0 while unknown.
    frame_ns: u64,
}

impl RingBackoff {
    /// Backoff after a burst that ended at `now_ns`; 0 for none.
    pub(crate) fn rest_ns(&mut self, burst: &Burst, now_ns: u64) -> u64 {
        let before_ns = self.last_ns.take();
        if burst.errors.ring_full + burst.retries == 0 {
            return 0;
        }
        self.last_ns = Some(now_ns);
        if let Some(before_ns) = before_ns.filter(|_| burst.sent > 0) {
            let each_ns = (now_ns - before_ns) / burst.sent;
            self.frame_ns = if self.frame_ns == 0 { each_ns } else { (3 * self.frame_ns + each_ns) / 4 };
        }
        match (self.frame_ns * FRAMES).min(REST_MAX_NS) {
            rest_ns @ REST_MIN_NS.. => rest_ns,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Errors;

    fn burst(sent: u64, ring_full: u64) -> Burst {
        Burst { sent, errors: Errors { ring_full, ..Errors::default() }, ..Burst::default() }
    }

    /// Bursts for one second at a device with a ring of 256 frames; returns accepted frames and
    /// time rested.
    fn taken_in_a_second(frame_ns: u64, sleep_ns: u64) -> (u64, u64) {
        let (mut backoff, mut now_ns, mut free, mut accepted, mut rested_ns) =
            (RingBackoff::default(), 0, 256, 0, 0);
        while now_ns < 1_000_000_000 {
            let burst = burst(free, 128_u64.saturating_sub(free));
            accepted += free;
            now_ns += 10_000;
            let rest_ns = backoff.rest_ns(&burst, now_ns);
            let slept_ns = if rest_ns > 0 { rest_ns + sleep_ns } else { 0 };
            (now_ns, rested_ns) = (now_ns + slept_ns, rested_ns + slept_ns);
            free = ((10_000 + slept_ns) / frame_ns).min(256);
        }
        (accepted, rested_ns)
    }

    #[test]
    fn a_slow_device_stays_busy_while_its_sender_sleeps() {
        for frame_ns in [1_000, 8_000] {
            let (accepted, rested_ns) = taken_in_a_second(frame_ns, 60_000);
            assert!(accepted > 950_000_000 / frame_ns, "{accepted} frames of {frame_ns} ns");
            assert!(rested_ns > 700_000_000, "rested for {rested_ns} ns");
        }
    }

    #[test]
    fn a_fast_device_and_one_with_room_get_no_rest() {
        assert_eq!(taken_in_a_second(100, 60_000).1, 0);
        let mut backoff = RingBackoff::default();
        assert_eq!((1..100).map(|time| backoff.rest_ns(&burst(1, 0), time * 1_000_000)).sum::<u64>(), 0);
    }
}
