//! The two lines of a finished run, with the kernel's arithmetic (specification 7.3).

use packet::{Config, Flags, PKTGEN_HEADER_LEN, Plan};

const NS_PER_S: u64 = 1_000_000_000;
/// Most page fragments of one frame.
const FRAGMENTS_MAX: i32 = 17;

/// What a result says for the fragments of the last frame when no frame is held.
pub const NO_FRAME: i32 = -1;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// From start to stop.
    pub elapsed_ns: u64,
    /// Spent waiting in it.
    pub idle_ns: u64,
    /// Frames handed over.
    pub sent: u64,
    /// Frames that failed.
    pub errors: u64,
    /// The size setting of the last frame, which need not be its length.
    pub frame_size: u32,
    /// Page fragments of the last frame, [`NO_FRAME`] when none is held.
    pub fragments: i32,
    /// With an internet mix: the sum of the sizes sent.
    pub imix_bytes: Option<u128>,
}

impl RunTotals {
    /// The text behind `Result: `, without a newline at its end.
    ///
    /// Whole microseconds, each cut on its own, so c and d may add up to one less than the total.
    /// Rates are reckoned in 128 bits: in the kernel's 64 the frames wrap after 1.8e10, a quarter
    /// of an hour at 20 Mpps, and the bits of an internet mix after two gigabytes
    /// (docs/pktgen.md, row 16).
    pub fn text(&self) -> String {
        let busy_us = (self.elapsed_ns.wrapping_sub(self.idle_ns) as i64 / 1000) as u64;
        let pps = per_second(u128::from(self.sent) * u128::from(NS_PER_S), self.elapsed_ns);
        let bps = match self.imix_bytes {
            Some(bytes) => per_second(bytes.saturating_mul(8 * u128::from(NS_PER_S)), self.elapsed_ns),
            None => pps.wrapping_mul(8).wrapping_mul(self.frame_size as i32 as u64),
        };
        format!(
            "OK: {}(c{busy_us}+d{}) usec, {} ({}byte,{}frags)\n  {pps}pps {}Mb/sec ({bps}bps) errors: {}",
            self.elapsed_ns / 1000,
            self.idle_ns / 1000,
            self.sent,
            self.frame_size as i32,
            self.fragments,
            bps / 1_000_000,
            self.errors,
        )
    }
}

/// Rounded down; 0 when no time has passed.
fn per_second(amount_ns: u128, elapsed_ns: u64) -> u64 {
    amount_ns.checked_div(elapsed_ns.into()).unwrap_or(0).try_into().unwrap_or(u64::MAX)
}

/// The fragments that a run says its last frame had: none held without flag SHARED, none used while
/// the payload is no longer than the pktgen header.
pub fn fragments(config: &Config, plan: &Plan, frame_size: u32) -> i32 {
    if !config.flags.has(Flags::SHARED) {
        return NO_FRAME;
    }
    let headers_len = plan.layout.pktgen_header + PKTGEN_HEADER_LEN;
    let has_payload = plan.frame_len(frame_size) as usize > headers_len;
    if has_payload { config.frags.clamp(0, FRAGMENTS_MAX) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Cursor, DeviceFacts};

    #[test]
    fn the_howtos_example_comes_out() {
        // Documentation/networking/pktgen.rst; the nanoseconds are chosen to cut to its
        // microseconds.
        let totals = RunTotals {
            elapsed_ns: 15_430_700,
            idle_ns: 25_100,
            sent: 100_000,
            frame_size: 60,
            ..RunTotals::default()
        };
        assert_eq!(
            totals.text(),
            "OK: 15430(c15405+d25) usec, 100000 (60byte,0frags)\n  6480587pps 3110Mb/sec (3110681760bps) errors: 0"
        );
    }

    #[test]
    fn parts_are_cut_on_their_own() {
        let totals = RunTotals { elapsed_ns: 10_000, idle_ns: 4_500, ..RunTotals::default() };
        assert!(totals.text().starts_with("OK: 10(c5+d4) usec, 0 (0byte,0frags)\n"), "{}", totals.text());
    }

    #[test]
    fn nothing_sent_in_no_time_divides_by_nothing() {
        let totals = RunTotals { frame_size: 58, fragments: NO_FRAME, ..RunTotals::default() };
        assert_eq!(totals.text(), "OK: 0(c0+d0) usec, 0 (58byte,-1frags)\n  0pps 0Mb/sec (0bps) errors: 0");
    }

    #[test]
    fn more_idle_than_time_wraps_as_in_the_kernel() {
        let totals = RunTotals { elapsed_ns: 1_000, idle_ns: 3_500, ..RunTotals::default() };
        assert!(totals.text().starts_with("OK: 1(c18446744073709551614+d3)"), "{}", totals.text());
    }

    #[test]
    fn rates_do_not_wrap_in_long_runs() {
        let totals =
            RunTotals { elapsed_ns: NS_PER_S, sent: 18_446_744_074, frame_size: 100, ..RunTotals::default() };
        assert!(totals.text().contains("\n  18446744074pps "), "{}", totals.text());
        let mix = RunTotals { sent: 1, imix_bytes: Some(5_000_000_000), ..totals };
        assert!(mix.text().contains("\n  1pps 40000Mb/sec (40000000000bps)"), "{}", mix.text());
    }

    #[test]
    fn negative_sizes_print_signed() {
        let totals =
            RunTotals { elapsed_ns: NS_PER_S, sent: 1, frame_size: u32::MAX, ..RunTotals::default() };
        assert!(
            totals
                .text()
                .contains("1 (-1byte,0frags)\n  1pps 18446744073709Mb/sec (18446744073709551608bps)")
        );
    }

    #[test]
    fn fragments_need_payload_and_a_held_frame() {
        let facts = DeviceFacts::default();
        let count = |config: Config, size| {
            let mut cursor = Cursor::default();
            cursor.start(&config, &facts, 0);
            fragments(&config, &Plan::new(&config, &facts, &cursor).unwrap(), size)
        };
        let config = |frags| Config { frags, min_pkt_size: 600, ..Config::default() };
        assert_eq!(count(config(5), 600), 5);
        assert_eq!(count(config(40), 600), 17);
        assert_eq!(count(config(-1), 600), 0);
        assert_eq!(count(config(5), 58), 0, "no byte beyond the pktgen header");
        assert_eq!(count(config(5), 59), 5);
        assert_eq!(count(Config { flags: Flags(0), ..config(5) }, 600), NO_FRAME);
    }
}
