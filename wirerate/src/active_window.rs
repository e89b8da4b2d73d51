//! When frames arrived, and at which rate: two snapshots of counters, and the time between them.
//!
//! A receiver counts from before its clock starts until after it ends, and frames may arrive in a
//! part of its time only. So a rate is never frames over the time of the command.

use crate::units::{human_duration, per_second};
use serde::Serialize;
use std::time::Duration;

/// With fewer frames or less time between the snapshots there is no rate.
const FRAMES_MIN: u64 = 10;
const TIME_MIN: Duration = Duration::from_millis(1);
/// A pause is said from this length on,
const PAUSE_MIN_NS: f64 = 50e6;
/// if it is so many times as long as the mean gap.
const PAUSE_GAPS: f64 = 10.0;
/// Frames that arrive in less than this share of the time have a remark.
const ACTIVE_SHARE: f64 = 0.95;

/// The counters of a receiver at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Snapshot {
    time: Duration,
    frames: u64,
    frame_bytes: u64,
}

/// Looks at the counters of a receiver while frames arrive.
#[derive(Clone, Copy, Debug, Default)]
pub struct ActiveWindow {
    /// The first look that found frames.
    first: Option<Snapshot>,
    /// The last look that found more, and the one before it: until then frames arrived, while the
    /// last ones may have come long before the look.
    last: Snapshot,
    before_last: Snapshot,
    longest_pause: Duration,
}

/// The rate of the frames that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ActiveRate {
    /// From the first look that found frames to the last one that found more, in nanoseconds.
    pub active_ns: u64,
    /// Frames per second; `None` for fewer than 10 frames or less than 1 ms.
    pub rate_pps: Option<f64>,
    /// Bits per second, without FCS; `None` likewise.
    pub rate_bps: Option<f64>,
    /// The longest time between two looks that found more frames, in nanoseconds: of an
    /// interruption, within the interval of the looks (5 ms). 0 is none.
    pub longest_pause_ns: u64,
}

impl ActiveWindow {
    /// Frames and their bytes since the receiver began, `time` after that.
    pub fn observe(&mut self, time: Duration, frames: u64, frame_bytes: u64) {
        let now = Snapshot { time, frames, frame_bytes };
        if frames == self.last.frames {
            return;
        }
        if self.first.is_none() {
            (self.first, self.before_last) = (Some(now), now);
        } else {
            self.before_last = self.last;
            self.longest_pause = self.longest_pause.max(time.saturating_sub(self.last.time));
        }
        self.last = now;
    }

    /// The rate so far; `None` if no frame has arrived.
    pub fn rate(&self) -> Option<ActiveRate> {
        let first = self.first?;
        let time = self.before_last.time.saturating_sub(first.time);
        let frames = self.before_last.frames.saturating_sub(first.frames);
        let frame_bytes = self.before_last.frame_bytes.saturating_sub(first.frame_bytes);
        let is_known = frames >= FRAMES_MIN && time >= TIME_MIN;
        let rate = |count: u64| is_known.then(|| per_second(count, time.as_nanos() as u64));
        Some(ActiveRate {
            active_ns: self.last.time.saturating_sub(first.time).as_nanos() as u64,
            rate_pps: rate(frames),
            rate_bps: rate(frame_bytes * 8),
            longest_pause_ns: self.longest_pause.as_nanos() as u64,
        })
    }
}

impl ActiveRate {
    /// The rate of `frames` with `frame_bytes` in all, of which the last came `span` after the
    /// first.
    pub fn of_span(frames: u64, frame_bytes: u64, span: Duration) -> Self {
        let span_ns = span.as_nanos() as u64;
        let gaps = frames.saturating_sub(1);
        let is_known = frames >= FRAMES_MIN && span >= TIME_MIN;
        let bits = |frames: u64| (frame_bytes * 8) as f64 * gaps as f64 / frames.max(1) as f64;
        Self {
            active_ns: span_ns,
            rate_pps: is_known.then(|| per_second(gaps, span_ns)),
            rate_bps: is_known.then(|| bits(frames) * 1e9 / span_ns as f64),
            longest_pause_ns: 0,
        }
    }

    /// `longest pause 512.0 ms`, if frames came much more often otherwise.
    pub fn pause_remark(&self) -> Option<String> {
        let gap_ns = self.rate_pps.map(|pps| 1e9 / pps)?;
        let pause_ns = self.longest_pause_ns as f64;
        let is_long = pause_ns >= PAUSE_MIN_NS && pause_ns >= PAUSE_GAPS * gap_ns;
        is_long.then(|| format!("longest pause {}", human_duration(self.longest_pause_ns)))
    }

    /// `active 1.00 s of 10.0 s`, if frames arrived in a part of the time only.
    pub fn remark(&self, duration_ns: u64) -> Option<String> {
        let is_part = (self.active_ns as f64) < duration_ns as f64 * ACTIVE_SHARE;
        let [active, all] = [self.active_ns, duration_ns].map(human_duration);
        (is_part && self.active_ns > 0).then(|| format!("active {active} of {all}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks each 5 ms at a receiver of `pps` frames per second of 60 bytes, from `from_ms` to
    /// `to_ms`, until `end_ms`. It has counted for 12 ms before its clock starts.
    fn window(pps: u64, from_ms: u64, to_ms: u64, end_ms: u64) -> ActiveRate {
        let mut window = ActiveWindow::default();
        for time_ms in (0..=end_ms).step_by(5) {
            let counted_ms = (time_ms + 12).clamp(from_ms, to_ms) - from_ms;
            let frames = pps * counted_ms / 1000;
            window.observe(Duration::from_millis(time_ms), frames, frames * 60);
        }
        window.rate().unwrap_or_default()
    }

    #[test]
    fn frames_before_the_clock_and_an_idle_tail_do_not_change_the_rate() {
        for (from_ms, to_ms, end_ms) in [(0, 512, 500), (100, 400, 1000), (3, 9_000, 5_000)] {
            let rate = window(10_000, from_ms, to_ms, end_ms);
            assert_eq!(rate.rate_pps, Some(10_000.0), "{from_ms} to {to_ms} of {end_ms}");
            assert_eq!(rate.rate_bps, Some(4_800_000.0));
        }
    }

    #[test]
    fn a_part_of_the_time_is_said() {
        let rate = window(10_000, 1_000, 2_000, 10_000);
        assert_eq!(rate.remark(10_000_000_000).as_deref(), Some("active 1.000 s of 10.00 s"));
        assert_eq!(window(10_000, 0, 10_012, 10_000).remark(10_000_000_000), None);
    }

    #[test]
    fn an_interruption_is_said() {
        let mut window = ActiveWindow::default();
        for time_ms in (0..2_000).step_by(5).filter(|time_ms| !(500..1_000).contains(time_ms)) {
            window.observe(Duration::from_millis(time_ms), 1 + time_ms, 60 * time_ms);
        }
        let remark = window.rate().and_then(|rate| rate.pause_remark());
        assert_eq!(remark.as_deref(), Some("longest pause 505.0 ms"));
        assert_eq!(window_of_steady_frames().pause_remark(), None);
    }

    fn window_of_steady_frames() -> ActiveRate {
        window(1_000, 0, 900, 1_000)
    }

    #[test]
    fn few_frames_and_short_times_have_no_rate() {
        assert_eq!(ActiveWindow::default().rate(), None);
        assert_eq!(window(20, 0, 250, 250).rate_pps, None, "5 frames");
        let mut burst = ActiveWindow::default();
        burst.observe(Duration::from_millis(5), 1_000, 60_000);
        assert_eq!(burst.rate(), Some(ActiveRate::default()), "all at one look");
    }
}
