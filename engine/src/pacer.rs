//! When the next frame is due: absolute deadlines, so that lateness is caught up and the mean stays exact.
//!
//! Pure arithmetic on nanoseconds; waiting is the business of the run.

use packet::NEVER_NS;
use std::num::NonZeroU32;

/// Bytes on the wire beside the frame: FCS 4, preamble and start 8, gap 12.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// How fast frames are to go out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it goes.
    #[default]
    Unpaced,
    /// This time between the starts of two frames.
    Delay {
        /// Nanoseconds.
        delay_ns: u64,
    },
    /// This time between the starts of two bursts.
    BurstDelay {
        /// Nanoseconds.
        delay_ns: u64,
        /// Frames of one burst.
        burst: NonZeroU32,
    },
    /// This many frames each second.
    FrameRate {
        /// Frames each second, more than 0.
        rate_pps: u64,
    },
    /// This many bits each second on the wire, with FCS, preamble and gap.
    WireRate {
        /// Bits each second, more than 0.
        rate_bps: u64,
    },
    /// Not at all.
    Never,
}

impl Pace {
    /// pktgen's `delay`: 0 for unpaced, [`NEVER_NS`] for never.
    pub fn from_delay_ns(delay_ns: u64) -> Self {
        match delay_ns {
            0 => Self::Unpaced,
            NEVER_NS => Self::Never,
            delay_ns => Self::Delay { delay_ns },
        }
    }

    /// The time from one deadline to the next, for the shortest frames; 0 where there are none.
    pub(crate) fn gap_ns(self) -> u64 {
        match self {
            Self::Unpaced | Self::Never => 0,
            Self::Delay { delay_ns } | Self::BurstDelay { delay_ns, .. } => delay_ns,
            Self::FrameRate { rate_pps } => scaled(1, rate_pps) as u64,
            Self::WireRate { rate_bps } => scaled(8 * u64::from(packet::wire_len(0)), rate_bps) as u64,
        }
    }

    /// As [`Self::from_delay_ns`], for transmit calls of `burst` frames: pktgen waits once for each call.
    pub fn from_call_delay_ns(delay_ns: u64, burst: u32) -> Self {
        match (Self::from_delay_ns(delay_ns), NonZeroU32::new(burst)) {
            (Self::Delay { delay_ns }, Some(burst)) if burst.get() > 1 => {
                Self::BurstDelay { delay_ns, burst }
            }
            (pace, _) => pace,
        }
    }
}

/// Keeps the deadlines of one run.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    pace: Pace,
    start_ns: u64,
    frames: u64,
    wire_bits: u64,
}

impl Pacer {
    /// The first frame is due at `start_ns`.
    pub fn new(pace: Pace, start_ns: u64) -> Self {
        Self { pace, start_ns, frames: 0, wire_bits: 0 }
    }

    /// Goes on at another pace. The next frame is due when it was, or one gap of the new pace from now if that is
    /// sooner; at once when there was no pace before.
    pub fn change(&mut self, pace: Pace, now_ns: u64) {
        let due_ns = match self.pace {
            Pace::Unpaced | Pace::Never => now_ns,
            _ => self.next_ns().clamp(now_ns, now_ns.saturating_add(pace.gap_ns())),
        };
        *self = Self::new(pace, due_ns);
    }

    /// When the next frame is due. `u64::MAX` for never.
    pub fn next_ns(&self) -> u64 {
        match self.pace {
            Pace::Unpaced => self.start_ns,
            Pace::Never => u64::MAX,
            Pace::Delay { delay_ns } => self.after(u128::from(self.frames) * u128::from(delay_ns)),
            Pace::BurstDelay { delay_ns, burst } => {
                let bursts = self.frames / u64::from(burst.get());
                self.after(u128::from(bursts) * u128::from(delay_ns))
            }
            Pace::FrameRate { rate_pps } => self.after(scaled(self.frames, rate_pps)),
            Pace::WireRate { rate_bps } => self.after(scaled(self.wire_bits, rate_bps)),
        }
    }

    /// Frames that are due at `now_ns`; `u64::MAX` when they are not paced.
    pub fn due(&self, now_ns: u64) -> u64 {
        let next_ns = self.next_ns();
        if now_ns < next_ns {
            return 0;
        }
        let elapsed_ns = u128::from(now_ns - self.start_ns);
        let until_now = |per_second: u64| (elapsed_ns * u128::from(per_second) / 1_000_000_000) as u64;
        match self.pace {
            Pace::Unpaced => u64::MAX,
            Pace::Never => 0,
            Pace::Delay { delay_ns } => (elapsed_ns / u128::from(delay_ns)) as u64 + 1 - self.frames,
            Pace::BurstDelay { delay_ns, burst } => {
                let bursts = (elapsed_ns / u128::from(delay_ns)) as u64 + 1;
                bursts.saturating_mul(u64::from(burst.get())) - self.frames
            }
            Pace::FrameRate { rate_pps } => until_now(rate_pps) + 1 - self.frames,
            Pace::WireRate { rate_bps } => {
                let mean_bits = self.wire_bits.checked_div(self.frames).unwrap_or(0).max(84 * 8);
                (until_now(rate_bps) - self.wire_bits) / mean_bits + 1
            }
        }
    }

    /// Frames have gone out, `frame_bytes` long together without FCS. Shorter ones than the wire has are padded there;
    /// among longer ones they are taken as they are, which is 2 of 84 bytes at most.
    pub fn sent(&mut self, frames: u64, frame_bytes: u64) {
        let least = frames * u64::from(packet::wire_len(0));
        self.frames += frames;
        self.wire_bits += 8 * (frame_bytes + frames * WIRE_OVERHEAD_BYTES).max(least);
    }

    fn after(&self, later_ns: u128) -> u64 {
        u64::try_from(u128::from(self.start_ns) + later_ns).unwrap_or(u64::MAX)
    }
}

/// The nanoseconds that `units` take at `per_second`, rounded up so that no frame is early.
fn scaled(units: u64, per_second: u64) -> u128 {
    (u128::from(units) * 1_000_000_000).div_ceil(u128::from(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends whatever is due at each of `count` looks, `step_ns` apart, and returns the total.
    fn total(pace: Pace, step_ns: u64, count: u64, frame_len: u64) -> u64 {
        let mut pacer = Pacer::new(pace, 1000);
        let mut sum = 0;
        for look in 0..count {
            let due = pacer.due(1000 + look * step_ns);
            pacer.sent(due, due * frame_len);
            sum += due;
        }
        sum
    }

    #[test]
    fn the_mean_is_exact_however_late_one_looks() {
        for step_ns in [700, 1_000, 1_777, 50_000] {
            let looks = 1_000_000_000 / step_ns + 1;
            let sent = total(Pace::FrameRate { rate_pps: 3_000_000 }, step_ns, looks, 60);
            assert!((2_999_800..=3_000_001).contains(&sent), "{sent} at {step_ns}");
        }
    }

    #[test]
    fn wire_rate_counts_fcs_preamble_and_gap() {
        // 60 bytes are 84 on the wire: a gigabit carries 1,488,095 of them.
        let sent = total(Pace::WireRate { rate_bps: 1_000_000_000 }, 1000, 1_000_001, 60);
        assert!((1_488_090..=1_488_100).contains(&sent), "{sent}");
    }

    #[test]
    fn frames_of_58_bytes_take_84_of_the_wire() {
        let sent = total(Pace::WireRate { rate_bps: 1_000_000_000 }, 1000, 1_000_001, 58);
        assert!((1_488_090..=1_488_100).contains(&sent), "{sent}");
    }

    #[test]
    fn first_frame_at_once_and_the_next_after_one_delay() {
        let mut pacer = Pacer::new(Pace::Delay { delay_ns: 10 }, 100);
        assert_eq!((pacer.due(99), pacer.due(100), pacer.due(109), pacer.due(110)), (0, 1, 1, 2));
        pacer.sent(1, 60);
        assert_eq!((pacer.next_ns(), pacer.due(109), pacer.due(131)), (110, 0, 3));
    }

    /// What a real pktgen does: 16 frames in bursts of 8 take one delay.
    #[test]
    fn a_burst_waits_once_for_all_its_frames() {
        let mut pacer = Pacer::new(Pace::from_call_delay_ns(20, 8), 100);
        assert_eq!((pacer.due(99), pacer.due(100), pacer.due(119)), (0, 8, 8));
        pacer.sent(3, 180);
        assert_eq!((pacer.next_ns(), pacer.due(110)), (100, 5), "the rest of it is late already");
        pacer.sent(5, 300);
        assert_eq!((pacer.next_ns(), pacer.due(119), pacer.due(120), pacer.due(141)), (120, 0, 8, 16));
        assert_eq!(Pace::from_call_delay_ns(20, 1), Pace::Delay { delay_ns: 20 });
        assert_eq!(Pace::from_call_delay_ns(0, 8), Pace::Unpaced);
        assert_eq!(Pace::from_call_delay_ns(NEVER_NS, 8), Pace::Never);
    }

    #[test]
    fn another_delay_moves_no_deadline_back_and_makes_none_due_at_once() {
        let mut pacer = Pacer::new(Pace::Delay { delay_ns: 1000 }, 0);
        pacer.sent(1, 60);
        for now_ns in [20, 40, 60] {
            pacer.change(Pace::Delay { delay_ns: 1000 + now_ns }, now_ns);
            assert_eq!((pacer.next_ns(), pacer.due(now_ns)), (1000, 0));
        }
        pacer.change(Pace::Delay { delay_ns: 10 }, 100);
        assert_eq!(pacer.next_ns(), 110);
        pacer.change(Pace::Never, 105);
        pacer.change(Pace::Delay { delay_ns: 50 }, 300);
        assert_eq!(pacer.next_ns(), 300);
    }

    #[test]
    fn never_is_never_and_unpaced_is_always() {
        assert_eq!(Pacer::new(Pace::from_delay_ns(NEVER_NS), 5).due(u64::MAX - 1), 0);
        assert_eq!(Pacer::new(Pace::from_delay_ns(0), 5).due(5), u64::MAX);
    }
}
