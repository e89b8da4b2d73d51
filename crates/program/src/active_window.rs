//! When frames arrived, and at which rate: two snapshots of counters, and the time between them.
//!
//! A receiver counts from before its clock starts until after it ends, and frames may arrive in a
//! part of its time only. So a rate is never frames over the time of the command.

use facts::Described;
use measure::FlowDetail;
use serde::Serialize;
use std::time::Duration;
use units::{human_duration, per_second};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Described)]
pub struct ActiveRate {
    /// The part of `duration_ns` in which frames arrived: from the first look at the counters that
    /// found frames to the last one that found more; `null` if no frame came. Agents and `otg run`
    /// compute it from the times of the first and the last frame of their flows.
    pub active_ns: Option<u64>,
    /// Frames per second between two looks at the counters in that part; `null` for fewer than 10
    /// frames or less than 1 ms, and if no frame came. Agents and `otg run` compute it as
    /// `active_ns`.
    pub rate_pps: Option<f64>,
    /// Bits per second between these looks, without FCS; `null`, and computed, as `rate_pps`.
    pub rate_bps: Option<f64>,
    /// The longest time between two looks that found more frames: of an interruption, within the
    /// interval of the looks (5 ms). `null` if no frame came, and where nothing looked: files,
    /// agents, `otg run`.
    pub longest_pause_ns: Option<u64>,
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
            active_ns: Some(self.last.time.saturating_sub(first.time).as_nanos() as u64),
            rate_pps: rate(frames),
            rate_bps: rate(frame_bytes * 8),
            longest_pause_ns: Some(self.longest_pause.as_nanos() as u64),
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
            active_ns: Some(span_ns),
            rate_pps: is_known.then(|| per_second(gaps, span_ns)),
            rate_bps: is_known.then(|| bits(frames) * 1e9 / span_ns as f64),
            longest_pause_ns: None,
        }
    }

    /// The rate of `frames` of flows, by the times of the first and the last frame of each.
    pub fn of_flows(frames: u64, flows: impl Iterator<Item = FlowDetail>) -> Self {
        let (mut first_ns, mut last_ns, mut frame_bytes) = (u64::MAX, 0, 0);
        for flow in flows.filter(|flow| flow.first_ns > 0) {
            (first_ns, last_ns) = (first_ns.min(flow.first_ns), last_ns.max(flow.last_ns));
            frame_bytes += flow.frame_bytes;
        }
        if frames == 0 || last_ns == 0 {
            return Self::default();
        }
        Self::of_span(frames, frame_bytes, Duration::from_nanos(last_ns.saturating_sub(first_ns)))
    }

    /// That of several receivers together: the sum of their rates if all have one.
    pub fn together(parts: &[Self]) -> Self {
        let longest = |of: fn(&Self) -> Option<u64>| parts.iter().filter_map(of).max();
        let sum = |of: fn(&Self) -> Option<f64>| parts.iter().map(of).sum::<Option<f64>>();
        Self {
            active_ns: longest(|part| part.active_ns),
            rate_pps: sum(|part| part.rate_pps).filter(|_| !parts.is_empty()),
            rate_bps: sum(|part| part.rate_bps).filter(|_| !parts.is_empty()),
            longest_pause_ns: longest(|part| part.longest_pause_ns),
        }
    }

    /// `longest pause 512.0 ms`, if frames came much more often otherwise.
    pub fn pause_remark(&self) -> Option<String> {
        let (pause_ns, rate_pps) = self.longest_pause_ns.zip(self.rate_pps)?;
        let is_long = pause_ns as f64 >= PAUSE_MIN_NS.max(PAUSE_GAPS * 1e9 / rate_pps);
        is_long.then(|| format!("longest pause {}", human_duration(pause_ns)))
    }

    /// `active 1.00 s of 10.0 s`, if frames arrived in a part of the time only.
    pub fn remark(&self, duration_ns: u64) -> Option<String> {
        let active_ns = self.active_ns.filter(|active_ns| *active_ns > 0)?;
        let is_part = (active_ns as f64) < duration_ns as f64 * ACTIVE_SHARE;
        let [active, all] = [active_ns, duration_ns].map(human_duration);
        is_part.then(|| format!("active {active} of {all}"))
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
    fn flows_and_receivers_have_a_rate_together() {
        let flow = |first_ns, last_ns| FlowDetail { frame_bytes: 60_060, first_ns, last_ns };
        let flows = [flow(1_000_000_000, 2_000_000_000), flow(0, 0), flow(500_000_000, 2_500_000_000)];
        let rate = ActiveRate::of_flows(2001, flows.into_iter());
        assert_eq!((rate.active_ns, rate.rate_pps), (Some(2_000_000_000), Some(1000.0)));
        assert_eq!(ActiveRate::of_flows(0, [flow(0, 0)].into_iter()), ActiveRate::default());
        let both = ActiveRate::together(&[rate, rate]);
        assert_eq!((both.active_ns, both.rate_pps), (Some(2_000_000_000), Some(2000.0)));
        assert_eq!(ActiveRate::together(&[rate, ActiveRate::default()]).rate_pps, None);
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
        let rate = burst.rate().expect("frames came");
        assert_eq!((rate.active_ns, rate.rate_pps), (Some(0), None), "all at one look");
    }
}
