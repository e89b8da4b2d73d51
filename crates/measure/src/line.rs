//! The state of one flow: a window over its numbers, counts and latency. One cache line.
//!
//! Definitions are those of RFC 4737: a first copy with a number below the next expected one is
//! reordered, and only first copies enter order and latency. Jitter is that of RFC 3550.

use crate::order::Arrivals;
use crate::wide_window::{WIDE_WINDOW_LEN, WideWindow};

/// Numbers below the highest one for which a first copy can be told from a duplicate.
pub const WINDOW_LEN: u64 = 64;

/// The CPU that last received a frame of the flow is above these bits of `unique_cpu`.
const CPU_SHIFT: u32 = 48;
/// Bit of `unique_cpu`: the last first copy was reordered.
const AFTER_REORDERED: u64 = 1 << 47;
/// The first copies in `unique_cpu`.
const UNIQUE_MASK: u64 = AFTER_REORDERED - 1;

/// Longest difference in the jitter, 268 ms: 16 times as much fits into 32 bits.
const DIFFERENCE_NS_MAX: u64 = (1 << 28) - 1;

/// Bounds of the latency of a flow are at most this, 4.3 s; the histogram goes further.
pub(crate) const LATENCY_NS_MAX: u32 = u32::MAX;

/// What the receiver keeps of a flow; `struct wr_flow_line` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowLine {
    /// Highest number + 1; 0 before the first frame.
    pub high: u64,
    /// Bit i is set if number `high - 1 - i` was received.
    pub window: u64,
    /// First copies (47 bits), `AFTER_REORDERED`, and the CPU of the last frame (16 bits).
    pub unique_cpu: u64,
    /// Sum of latencies in nanoseconds; a negative one counts as 0, as in the bounds.
    pub latency_sum_ns: u64,
    /// Further copies.
    pub duplicate: u32,
    /// First copies with a number below the next expected one.
    pub reordered: u32,
    /// Frames below the window.
    pub too_old: u32,
    /// First copies with a latency, modulo 2^32.
    pub stamped: u32,
    /// Jitter in 1/16 ns.
    pub jitter16: u32,
    /// Latency of the last stamped frame modulo 2^32 ns. Only its difference to the next one is
    /// used: it is right up to 2.1 s, however far apart the clocks of sender and receiver are.
    pub transit: u32,
    /// Complement of the lowest latency in nanoseconds, so that 0 is no latency.
    pub latency_min_inverted: u32,
    /// Highest latency in nanoseconds, at most 2^32 - 1.
    pub latency_max_ns: u32,
}

/// What the receiver keeps of a flow on request, of all its frames; `struct wr_flow_detail` in the
/// kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowDetail {
    /// Sum of the lengths in bytes, without FCS.
    pub frame_bytes: u64,
    /// Arrival of the first frame in nanoseconds; 0 before it.
    pub first_ns: u64,
    /// Arrival of the last frame.
    pub last_ns: u64,
}

impl FlowDetail {
    /// Counts a frame of `frame_len` bytes that arrived at `time_ns`.
    pub fn receive(&mut self, frame_len: usize, time_ns: Option<u64>) {
        self.frame_bytes += frame_len as u64;
        let Some(time_ns) = time_ns else { return };
        if self.first_ns == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
    }
}

/// What one frame was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transit {
    /// First copy.
    pub is_unique: bool,
    /// Frames with higher numbers that were there before it; 0 if it was in order.
    pub held: u32,
    /// Difference to the latency of the frame with the number before, if that came directly before.
    pub ipdv_ns: Option<i64>,
    /// Another CPU received the frame before.
    pub is_moved: bool,
}

impl FlowLine {
    /// Counts a frame with this number, received on `cpu`; `latency_ns` if it has a time stamp.
    pub fn receive(&mut self, number: u64, cpu: u16, latency_ns: Option<i64>) -> Transit {
        let place = self.place(number);
        self.enter(place, cpu, latency_ns)
    }

    /// Counts a frame with this number, received on `cpu`, by a window over more numbers
    /// ([`WIDE_WINDOW_LEN`]) that is beside the line; `latency_ns` if it has a time stamp.
    pub fn receive_wide(
        &mut self,
        wide: &mut WideWindow,
        number: u64,
        cpu: u16,
        latency_ns: Option<i64>,
    ) -> Transit {
        let place = self.place_wide(wide, number);
        self.enter(place, cpu, latency_ns)
    }

    /// Counts a frame, also one below the window, of a flow whose numbers are all kept: `arrivals`
    /// have this number, and decided whether it `is_first`.
    pub(crate) fn receive_known(
        &mut self,
        arrivals: &Arrivals,
        is_first: bool,
        number: u64,
        cpu: u16,
        latency_ns: Option<i64>,
    ) -> Transit {
        let is_below = self.ahead(number) <= -WINDOW_LEN.cast_signed();
        let place = if is_below {
            self.place_below(is_first.then(|| arrivals.count_above(number).try_into().unwrap_or(u32::MAX)))
        } else {
            self.place(number)
        };
        self.enter(place, cpu, latency_ns)
    }

    fn enter(&mut self, place: Place, cpu: u16, latency_ns: Option<i64>) -> Transit {
        let held = match place {
            Place::Duplicate | Place::TooOld => return Transit::default(),
            Place::InOrder => 0,
            Place::Reordered { held } => held,
        };
        let mut transit = Transit { is_unique: true, held, ..Transit::default() };
        let is_first = self.unique() == 0;
        transit.is_moved = !is_first && self.unique_cpu >> CPU_SHIFT != u64::from(cpu);
        let was_reordered = self.unique_cpu & AFTER_REORDERED != 0;
        let mark = if held > 0 { AFTER_REORDERED } else { 0 };
        self.unique_cpu = (self.unique() + 1) | mark | u64::from(cpu) << CPU_SHIFT;
        if let Some(latency_ns) = latency_ns {
            let is_next = held == 0 && self.window & 3 == 3 && !was_reordered;
            transit.ipdv_ns = self.time(latency_ns, is_next);
        }
        transit
    }

    /// Finds the place of `number` in the window and notes it there.
    fn place(&mut self, number: u64) -> Place {
        let back = match self.ahead(number) {
            ahead @ 1.. => return self.advance(number, ahead),
            ahead => ahead.unsigned_abs(),
        };
        if back >= WINDOW_LEN {
            return self.reject();
        }
        let bit = 1 << back;
        let held = (self.window & bit == 0).then(|| (self.window & (bit - 1)).count_ones());
        self.window |= bit;
        self.place_below(held)
    }

    /// Finds the place of `number` in the wide window and notes it there. The line keeps its own
    /// window for the nearest numbers.
    fn place_wide(&mut self, wide: &mut WideWindow, number: u64) -> Place {
        let back = match self.ahead(number) {
            ahead @ 1.. => {
                wide.advance(self.high, number);
                return self.advance(number, ahead);
            }
            ahead => ahead.unsigned_abs(),
        };
        if back >= WIDE_WINDOW_LEN {
            return self.reject();
        }
        if back < WINDOW_LEN {
            self.window |= 1 << back;
        }
        let held = wide.note(number, self.high - 1);
        self.place_below(held)
    }

    /// How far `number` is above the highest one.
    fn ahead(&self, number: u64) -> i64 {
        (number + 1).wrapping_sub(self.high).cast_signed()
    }

    fn advance(&mut self, number: u64, ahead: i64) -> Place {
        self.window = self.window.checked_shl(ahead.min(64) as u32).unwrap_or(0) | 1;
        self.high = number + 1;
        Place::InOrder
    }

    fn reject(&mut self) -> Place {
        self.too_old = self.too_old.wrapping_add(1);
        Place::TooOld
    }

    /// Of a number below the highest one; `held` is `None` for a further copy.
    fn place_below(&mut self, held: Option<u32>) -> Place {
        let Some(held) = held else {
            self.duplicate = self.duplicate.wrapping_add(1);
            return Place::Duplicate;
        };
        self.reordered = self.reordered.wrapping_add(1);
        Place::Reordered { held }
    }

    /// Enters a latency. Returns the difference to the one before if `is_next`.
    fn time(&mut self, latency_ns: i64, is_next: bool) -> Option<i64> {
        let transit = latency_ns as u32;
        let mut ipdv = None;
        if self.stamped > 0 {
            let difference = i64::from(transit.wrapping_sub(self.transit).cast_signed());
            let jitter16 = self.jitter16;
            self.jitter16 = jitter16
                .wrapping_add(difference.unsigned_abs().min(DIFFERENCE_NS_MAX) as u32)
                .wrapping_sub(jitter16.wrapping_add(8) >> 4);
            ipdv = is_next.then_some(difference);
        }
        let known_ns = latency_ns.max(0).unsigned_abs();
        let bounded = u32::try_from(known_ns).unwrap_or(LATENCY_NS_MAX);
        self.transit = transit;
        self.stamped = self.stamped.wrapping_add(1);
        self.latency_sum_ns = self.latency_sum_ns.wrapping_add(known_ns);
        self.latency_min_inverted = self.latency_min_inverted.max(!bounded);
        self.latency_max_ns = self.latency_max_ns.max(bounded);
        ipdv
    }

    /// First copies.
    pub fn unique(&self) -> u64 {
        self.unique_cpu & UNIQUE_MASK
    }

    /// All frames of the flow.
    pub fn received(&self) -> u64 {
        self.unique() + u64::from(self.duplicate) + u64::from(self.too_old)
    }

    /// True before the first frame.
    pub fn is_empty(&self) -> bool {
        self.high == 0
    }

    /// First copies with a latency. The line counts modulo 2^32; the frames without one are fewer.
    pub fn stamped_count(&self, is_sampled: bool) -> u64 {
        let low = u64::from(self.stamped);
        if is_sampled { low } else { low + (self.unique().saturating_sub(low) & !u64::from(u32::MAX)) }
    }

    /// Lowest and highest latency in nanoseconds, each at most 2^32 - 1.
    pub fn latency_bounds_ns(&self) -> Option<(u64, u64)> {
        (self.stamped > 0).then(|| (u64::from(!self.latency_min_inverted), u64::from(self.latency_max_ns)))
    }

    /// Forgets the latencies.
    pub(crate) fn drop_latency(&mut self) {
        (self.latency_sum_ns, self.stamped, self.jitter16, self.transit) = (0, 0, 0, 0);
        (self.latency_min_inverted, self.latency_max_ns) = (0, 0);
    }

    /// Jitter in nanoseconds; `None` before the second latency.
    pub fn jitter_ns(&self) -> Option<f64> {
        (self.stamped > 1).then(|| f64::from(self.jitter16) / 16.0)
    }
}

/// Where a number is in its flow.
enum Place {
    InOrder,
    Reordered { held: u32 },
    Duplicate,
    TooOld,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(numbers: &[u64]) -> (FlowLine, Vec<Transit>) {
        let mut line = FlowLine::default();
        let transits = numbers.iter().map(|number| line.receive(1000 + number, 0, None)).collect();
        (line, transits)
    }

    #[test]
    fn a_line_is_one_cache_line() {
        assert_eq!(size_of::<FlowLine>(), 64);
    }

    #[test]
    fn an_overtaken_frame_is_reordered_and_held_by_those_before_it() {
        let (line, transits) = line(&[0, 1, 4, 3, 2, 5]);
        assert_eq!((line.unique(), line.reordered, line.duplicate), (6, 2, 0));
        assert_eq!(transits.iter().map(|transit| transit.held).collect::<Vec<_>>(), [0, 0, 0, 1, 2, 0]);
    }

    #[test]
    fn a_second_copy_is_a_duplicate_in_the_window_and_too_old_below_it() {
        let (line, _) = line(&[0, 0, 63, 0, 64, 0, 1, 64, 200, 137, 136]);
        assert_eq!((line.unique(), line.duplicate, line.too_old, line.reordered), (6, 3, 2, 2));
        assert_eq!(line.received(), 11);
    }

    #[test]
    fn a_jump_beyond_the_window_empties_it() {
        for jump in [63, 64, 65, 1 << 40] {
            let (line, _) = line(&[0, jump]);
            assert_eq!(line.window, if jump == 63 { 1 << 63 | 1 } else { 1 }, "{jump}");
        }
    }

    #[test]
    fn jitter_follows_the_rule_of_rfc_3550() {
        let mut line = FlowLine::default();
        let mut jitter = 0.0;
        for (number, latency_ns) in [5000, 9000, 2000, 2000, 7000].into_iter().enumerate() {
            let before = u64::from(line.transit);
            line.receive(number as u64, 0, Some(latency_ns));
            if number > 0 {
                jitter += ((latency_ns.cast_unsigned().abs_diff(before)) as f64 - jitter) / 16.0;
            }
            assert!((f64::from(line.jitter16) / 16.0 - jitter).abs() < 1.0, "{number}: {jitter}");
        }
        assert_eq!(line.latency_bounds_ns(), Some((2000, 9000)));
        assert_eq!(line.latency_sum_ns, 25_000);
    }

    #[test]
    fn a_constant_difference_is_the_jitter_after_200_frames() {
        let mut line = FlowLine::default();
        for number in 0..200 {
            line.receive(number, 0, Some(if number % 2 == 0 { 10_000 } else { 170_000 }));
        }
        let jitter_ns = line.jitter_ns().unwrap();
        assert!((jitter_ns - 160_000.0).abs() < 1_600.0, "{jitter_ns}");
    }

    #[test]
    fn jitter_of_half_a_second_does_not_wrap() {
        let mut line = FlowLine::default();
        for number in 0..500 {
            line.receive(number, 0, Some(if number % 2 == 0 { 0 } else { 500_000_000 }));
        }
        let jitter_ns = line.jitter_ns().expect("two latencies") as u64;
        assert!(DIFFERENCE_NS_MAX - jitter_ns < 16, "{jitter_ns}");
    }

    /// Between two hosts, where the clocks differ by anything, all differences were 0.
    #[test]
    fn differences_do_not_depend_on_the_clocks() {
        let of_clock = |ahead_ns: i64| {
            let mut line = FlowLine::default();
            let mut ipdv = Vec::new();
            for (number, latency_ns) in [5_000, 9_000, 2_000, 1_500_000_000, 7_000].into_iter().enumerate() {
                ipdv.extend(line.receive(number as u64, 0, Some(latency_ns + ahead_ns)).ipdv_ns);
            }
            (ipdv, line.jitter16)
        };
        let right = of_clock(0);
        assert_eq!(right.0, [4_000, -7_000, 1_499_998_000, -1_499_993_000]);
        for ahead_ns in [-3_600_000_000_000, -2_000_000_000, -4_000, 3_000_000_000, 4_294_960_000, 1 << 45] {
            assert_eq!(of_clock(ahead_ns), right, "{ahead_ns}");
        }
    }

    #[test]
    fn ipdv_compares_neighbours_only() {
        let mut line = FlowLine::default();
        let ipdv: Vec<_> = [(0, 10), (1, 30), (4, 50), (3, 60), (5, 20), (6, 25), (6, 99)]
            .map(|(number, latency_ns)| line.receive(number, 0, Some(latency_ns)).ipdv_ns)
            .into();
        assert_eq!(ipdv, [None, Some(20), None, None, None, Some(5), None]);
    }

    #[test]
    fn a_change_of_cpu_is_a_move() {
        let mut line = FlowLine::default();
        let moves: Vec<_> = [3, 3, 1, 1]
            .iter()
            .zip(0..)
            .map(|(cpu, number)| line.receive(number, *cpu, None).is_moved)
            .collect();
        assert_eq!(moves, [false, false, true, false]);
    }

    #[test]
    fn stamps_are_counted_beyond_32_bits() {
        let line = FlowLine { unique_cpu: (1 << 33) + 10, stamped: 7, ..FlowLine::default() };
        assert_eq!(line.stamped_count(false), (1 << 33) + 7);
        assert_eq!(line.stamped_count(true), 7);
    }
}
