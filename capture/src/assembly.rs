//! Runs of several rings become stretches in one order of time.
//!
//! A run that lies before everything else at hand goes on as it is, without a look at its records: that is all there is
//! to do while one ring is in use. Where rings overlap, records are copied into a stretch one after the other. What is
//! next decides `merge`; when a ring that is empty may be passed over is known to the writer.

use crate::format::Format;
use crate::merge::{Head, MergeReport, Merger, Next};
use crate::part::{self, Part, dated, split_off};
use crate::pool::BUFFER_LEN;
use crate::run::Run;
use std::collections::VecDeque;

/// A run shorter than this is copied to the one before it, so that a slow ring does not take all buffers.
const SHORT_LEN: usize = BUFFER_LEN / 8;

/// Encoded records in the order of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    pub(crate) bytes: &'a [u8],
    /// Time of the first record, in nanoseconds since 1970.
    pub(crate) first_ns: u64,
    /// The largest time.
    pub(crate) last_ns: u64,
    /// How many records of which ring and clock, in their order.
    pub(crate) parts: &'a [Part],
}

/// Takes stretches, and buffers that are not needed any more.
pub(crate) trait Taker {
    fn stretch(&mut self, stretch: &Stretch<'_>);
    fn spare(&mut self, ring: usize, buffer: Vec<u8>);
}

/// The runs of one ring.
#[derive(Debug, Default)]
struct Lineup {
    runs: VecDeque<Run>,
    /// Bytes of the first run that were taken; its parts are without them.
    taken_len: usize,
}

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Assembly {
    format: Format,
    merger: Merger,
    lineups: Vec<Lineup>,
    has_ended: bool,
    mixed: Mixed,
}

/// A stretch that is being put together.
#[derive(Debug, Default)]
struct Mixed {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Mixed {
    fn add(&mut self, stretch: &Stretch<'_>) {
        self.bytes.extend_from_slice(stretch.bytes);
        self.first_ns.get_or_insert(stretch.first_ns);
        self.last_ns = self.last_ns.max(stretch.last_ns);
        stretch.parts.iter().for_each(|part| part::push(&mut self.parts, *part));
    }

    fn flush(&mut self, taker: &mut impl Taker) {
        let Some(first_ns) = self.first_ns.take() else { return };
        let (bytes, last_ns, parts) = (&self.bytes[..], self.last_ns, &self.parts[..]);
        taker.stretch(&Stretch { bytes, first_ns, last_ns, parts });
        self.bytes.clear();
        self.parts.clear();
        self.last_ns = 0;
    }
}

impl Assembly {
    /// For so many rings; `window_ns` as in [`Merger::new`].
    pub(crate) fn new(format: Format, ring_count: usize, window_ns: u64) -> Self {
        let lineups = (0..ring_count).map(|_| Lineup::default()).collect();
        let merger = Merger::new(ring_count, window_ns);
        Self { format, merger, lineups, has_ended: false, mixed: Mixed::default() }
    }

    /// How well the order was kept so far.
    pub(crate) fn report(&self) -> MergeReport {
        self.merger.report()
    }

    /// True when records wait for their turn.
    pub(crate) fn holds_any(&self) -> bool {
        self.lineups.iter().any(|lineup| !lineup.runs.is_empty())
    }

    /// The rings without a run.
    pub(crate) fn empty_rings(&self) -> impl Iterator<Item = usize> + '_ {
        self.merger.empty_sources()
    }

    /// A run came from its ring.
    pub(crate) fn push(&mut self, run: Run, taker: &mut impl Taker) {
        let ring = run.ring;
        let lineup = &mut self.lineups[ring];
        match lineup.runs.back_mut() {
            None => {
                self.merger.set_head(ring, Head::Record(run.first_ns));
                lineup.runs.push_back(run);
            }
            Some(last) if run.bytes.len() < SHORT_LEN && last.bytes.len() + run.bytes.len() < BUFFER_LEN => {
                last.bytes.extend_from_slice(&run.bytes);
                run.parts.iter().for_each(|part| part::push(&mut last.parts, *part));
                last.is_in_order &= run.is_in_order && run.first_ns >= last.last_ns;
                last.last_ns = last.last_ns.max(run.last_ns);
                taker.spare(ring, run.bytes);
            }
            Some(_) => lineup.runs.push_back(run),
        }
    }

    /// A ring was empty at this time; of no effect when a run has come from it.
    pub(crate) fn was_empty(&mut self, ring: usize, checked_ns: u64) {
        if self.lineups[ring].runs.is_empty() {
            self.merger.set_head(ring, Head::Empty { checked_ns });
        }
    }

    /// No run will come any more.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
        let rings: Vec<usize> = self.empty_rings().collect();
        rings.into_iter().for_each(|ring| self.merger.set_head(ring, Head::Ended));
    }

    /// Hands on what is due; `is_pressed` when that must go faster than the order allows. Says whether anything was.
    pub(crate) fn advance(&mut self, is_pressed: bool, taker: &mut impl Taker) -> bool {
        let mut has_moved = false;
        loop {
            let next = if is_pressed { self.merger.next_regardless() } else { self.merger.next() };
            let Next::Take { source, until_ns } = next else { return has_moved };
            if !is_pressed && self.should_grow_old(source, until_ns) {
                return has_moved;
            }
            has_moved = true;
            self.take(source, until_ns, taker);
            if is_pressed {
                // One run frees one buffer; then it is time to ask again.
                return true;
            }
        }
    }

    /// See [`Merger::not_beyond`].
    pub(crate) fn not_beyond(&mut self, latest_ns: u64) {
        self.merger.not_beyond(latest_ns);
    }

    /// Hands on a run that begins with a later time than `latest_ns`, which no record can be of: the clock was set back
    /// since, and it would wait for as long, with all that came after it. Says whether there was one.
    pub(crate) fn let_go_beyond(&mut self, latest_ns: u64, taker: &mut impl Taker) -> bool {
        let Some(ring) = self.merger.source_beyond(latest_ns) else { return false };
        let lineup = &mut self.lineups[ring];
        let run = lineup.runs.pop_front().expect("a ring with a head has a run");
        let bytes = &run.bytes[std::mem::take(&mut lineup.taken_len)..];
        let mut first_ns = None;
        for record in dated(self.format, bytes, &run.parts) {
            first_ns.get_or_insert(record.time_ns);
            match record.time_ns > latest_ns {
                true => self.merger.took_ahead(),
                false => self.merger.took(record.time_ns),
            }
        }
        let first_ns = first_ns.unwrap_or(0);
        self.mixed.add(&Stretch { bytes, first_ns, last_ns: run.last_ns, parts: &run.parts });
        self.mixed.flush(taker);
        taker.spare(ring, run.bytes);
        self.merger.set_head(ring, self.head(ring));
        true
    }

    /// Hands on what was put together but not handed on yet.
    pub(crate) fn flush(&mut self, taker: &mut impl Taker) {
        self.mixed.flush(taker);
    }

    /// True when only this ring has records, and some of its first run are too young to be taken. Waiting for the youngest
    /// of them costs a moment; cutting the run would cost a look at each and a copy.
    fn should_grow_old(&self, ring: usize, until_ns: u64) -> bool {
        let is_alone =
            || self.lineups.iter().enumerate().all(|(other, lineup)| other == ring || lineup.runs.is_empty());
        self.lineups[ring].runs.front().is_some_and(|run| run.last_ns > until_ns) && is_alone()
    }

    /// Takes records of one ring up to a time, from its first run only.
    fn take(&mut self, ring: usize, until_ns: u64, taker: &mut impl Taker) {
        let lineup = &mut self.lineups[ring];
        let run = lineup.runs.front_mut().expect("the merger takes from rings with a head");
        let is_whole = lineup.taken_len == 0 && run.is_in_order && run.last_ns <= until_ns;
        if is_whole && self.merger.took_run(run.count(), run.first_ns, run.last_ns) {
            Self::take_whole(&mut self.mixed, run, taker);
            lineup.taken_len = run.bytes.len();
        } else {
            lineup.taken_len += Self::take_records(
                self.format,
                &mut self.merger,
                &mut self.mixed,
                run,
                lineup.taken_len,
                until_ns,
            );
        }
        if lineup.taken_len == run.bytes.len() {
            let run = lineup.runs.pop_front().expect("it was there a moment ago");
            lineup.taken_len = 0;
            taker.spare(ring, run.bytes);
        }
        if self.mixed.bytes.len() >= BUFFER_LEN {
            self.mixed.flush(taker);
        }
        self.merger.set_head(ring, self.head(ring));
    }

    fn take_whole(mixed: &mut Mixed, run: &Run, taker: &mut impl Taker) {
        let Run { first_ns, last_ns, .. } = *run;
        let stretch = Stretch { bytes: &run.bytes, first_ns, last_ns, parts: &run.parts };
        if run.bytes.len() < SHORT_LEN {
            return mixed.add(&stretch);
        }
        mixed.flush(taker);
        taker.stretch(&stretch);
    }

    /// Length of the records taken.
    fn take_records(
        format: Format,
        merger: &mut Merger,
        mixed: &mut Mixed,
        run: &mut Run,
        start: usize,
        until_ns: u64,
    ) -> usize {
        let rest = &run.bytes[start..];
        let (mut len, mut count, mut first_ns, mut last_ns) = (0, 0, None, 0);
        for record in dated(format, rest, &run.parts) {
            // The first one is due, even where its run is not in order.
            if record.time_ns > until_ns && first_ns.is_some() {
                break;
            }
            merger.took(record.time_ns);
            first_ns.get_or_insert(record.time_ns);
            last_ns = record.time_ns.max(last_ns);
            (len, count) = (len + record.len, count + 1);
        }
        let parts = split_off(&mut run.parts, count);
        let first_ns = first_ns.unwrap_or(0);
        mixed.add(&Stretch { bytes: &rest[..len], first_ns, last_ns, parts: &parts });
        len
    }

    fn head(&self, ring: usize) -> Head {
        let lineup = &self.lineups[ring];
        match lineup.runs.front() {
            Some(run) if lineup.taken_len == 0 => Head::Record(run.first_ns),
            Some(run) => {
                let first = dated(self.format, &run.bytes[lineup.taken_len..], &run.parts).next();
                Head::Record(first.expect("a run that was taken is not at the front").time_ns)
            }
            None if self.has_ended => Head::Ended,
            None => Head::Empty { checked_ns: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Dial;
    use crate::phc::Line;
    use pcapng::Packet;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Remembers times and rings of what it takes.
    #[derive(Default)]
    struct Seen {
        records: Vec<(u64, usize)>,
        stretches: usize,
        spares: usize,
    }

    impl Taker for Seen {
        fn stretch(&mut self, stretch: &Stretch<'_>) {
            let rings = stretch.parts.iter().flat_map(|part| (0..part.count).map(|_| part.ring));
            let records: Vec<_> =
                dated(Format::Pcapng, stretch.bytes, stretch.parts).map(|record| record.time_ns).collect();
            assert_eq!(records[0], stretch.first_ns);
            assert_eq!(records.iter().max(), Some(&stretch.last_ns));
            assert_eq!(rings.clone().count(), records.len());
            self.records.extend(records.into_iter().zip(rings));
            self.stretches += 1;
        }

        fn spare(&mut self, _: usize, _: Vec<u8>) {
            self.spares += 1;
        }
    }

    fn run(ring: usize, times_ns: &[u64], len: usize) -> Run {
        run_of_card(ring, times_ns, len, 0)
    }

    /// A run whose records have the time of a card in the file, which is so far ahead.
    fn run_of_card(ring: usize, times_ns: &[u64], len: usize, ahead_ns: u64) -> Run {
        let (mut bytes, data) = (Vec::new(), vec![0; len]);
        for &time_ns in times_ns {
            let time_ns = time_ns + ahead_ns;
            Packet { time_ns, data: &data, ..Packet::default() }.emit(&mut bytes);
        }
        let dial = Dial::CardAsItIs(Line::ahead(ahead_ns.cast_signed()));
        let parts = vec![Part { ring, count: times_ns.len() as u64, dial }];
        let last_ns = times_ns.iter().copied().max().unwrap();
        let is_in_order = times_ns.is_sorted();
        Run { ring, bytes, parts, first_ns: times_ns[0], last_ns, is_in_order }
    }

    #[test]
    fn one_ring_in_use_goes_through_whole_once_the_other_was_empty() {
        let (mut assembly, mut seen) = (Assembly::new(Format::Pcapng, 2, 100), Seen::default());
        let times_ns: Vec<u64> = (1_000..1_500).collect();
        assembly.push(run(0, &times_ns, 96), &mut seen);
        assert!(!assembly.advance(false, &mut seen), "the other ring may have something older");
        assembly.was_empty(1, 1_599);
        assert!(assembly.advance(false, &mut seen));
        assert_eq!((seen.stretches, seen.spares), (1, 1));
        assert_eq!(seen.records.len(), 500);
        assert!(!assembly.holds_any());
    }

    #[test]
    fn a_run_is_not_cut_for_a_ring_that_is_empty() {
        let (mut assembly, mut seen) = (Assembly::new(Format::Pcapng, 2, 100), Seen::default());
        assembly.push(run(0, &[1_000, 1_100, 1_200], 60), &mut seen);
        assembly.was_empty(1, 1_250);
        assert!(!assembly.advance(false, &mut seen), "half of it would be due");
        assembly.was_empty(1, 1_300);
        assert!(assembly.advance(false, &mut seen));
        assembly.flush(&mut seen);
        assert_eq!(seen.records.len(), 3);
    }

    #[test]
    fn a_run_is_cut_where_an_older_record_has_come() {
        let (mut assembly, mut seen) = (Assembly::new(Format::Pcapng, 2, 100), Seen::default());
        assembly.push(run(0, &[1_000, 1_100, 1_200], 60), &mut seen);
        assembly.push(run(1, &[1_150], 60), &mut seen);
        assert!(assembly.advance(false, &mut seen));
        assembly.flush(&mut seen);
        assert_eq!(seen.records, [(1_000, 0), (1_100, 0), (1_150, 1)]);
        assembly.end();
        assert!(assembly.advance(false, &mut seen));
        assembly.flush(&mut seen);
        assert_eq!(seen.records[3..], [(1_200, 0)]);
        assert_eq!(assembly.report(), MergeReport { taken: 4, ..MergeReport::default() });
    }

    /// With `--clock phc` and a card that keeps TAI, what was left of a run waited 37 s for its turn.
    #[test]
    fn a_run_of_a_card_that_is_ahead_is_cut_by_the_time_of_day() {
        let (mut assembly, mut seen) = (Assembly::new(Format::Pcapng, 2, 100), Seen::default());
        assembly.push(run_of_card(0, &[1_000, 1_100, 1_200], 60, 37_000), &mut seen);
        assembly.push(run_of_card(0, &[1_300], 60, 37_001), &mut seen);
        assembly.push(run(1, &[1_150, 1_250, 1_350], 60), &mut seen);
        assembly.end();
        assert!(assembly.advance(false, &mut seen));
        assembly.flush(&mut seen);
        let expected = [(1_000, 0), (1_100, 0), (1_150, 1), (1_200, 0), (1_250, 1), (1_300, 0), (1_350, 1)];
        assert_eq!(seen.records, expected);
        assert_eq!(assembly.report(), MergeReport { taken: 7, ..MergeReport::default() });
    }

    #[test]
    fn under_pressure_the_oldest_goes_and_what_comes_late_is_counted() {
        let (mut assembly, mut seen) = (Assembly::new(Format::Pcapng, 2, 100), Seen::default());
        assembly.push(run(0, &[1_000], 60), &mut seen);
        assert!(assembly.advance(true, &mut seen));
        assembly.push(run(1, &[900, 1_100], 60), &mut seen);
        assembly.end();
        assembly.advance(false, &mut seen);
        assert_eq!(
            assembly.report(),
            MergeReport { taken: 3, late: 1, late_max_ns: 100, ..MergeReport::default() }
        );
    }

    /// For as long as the time of day had been set back, nothing was written until buffers ran short.
    #[test]
    fn a_step_back_of_the_time_of_day_holds_nothing() {
        let (mut assembly, mut seen) = (Assembly::new(Format::Pcapng, 2, 100), Seen::default());
        assembly.push(run(1, &[10_000], 60), &mut seen);
        assembly.was_empty(0, 10_200);
        assert!(assembly.advance(false, &mut seen));
        assembly.push(run(0, &[10_100, 10_200], 60), &mut seen);
        // The time of day is 1,000 now; what comes stands behind what was stamped before.
        assembly.push(run(0, &[1_000, 1_100], 60), &mut seen);
        assembly.was_empty(1, 1_200);
        assembly.not_beyond(1_300);
        assert!(!assembly.advance(false, &mut seen), "their time has not come");
        assert!(assembly.let_go_beyond(1_300, &mut seen));
        assert!(!assembly.let_go_beyond(1_300, &mut seen) && !assembly.holds_any());
        assembly.push(run(1, &[1_050, 1_150], 60), &mut seen);
        assembly.push(run(0, &[1_120], 60), &mut seen);
        assembly.end();
        assembly.advance(false, &mut seen);
        assembly.flush(&mut seen);
        let times: Vec<u64> = seen.records.iter().map(|record| record.0).collect();
        assert_eq!(times, [10_000, 10_100, 10_200, 1_000, 1_100, 1_050, 1_120, 1_150]);
        let report = assembly.report();
        assert_eq!((report.taken, report.ahead, report.set_back), (8, 2, 1));
        assert_eq!((report.late, report.late_max_ns), (1, 50), "of the new order");
    }

    #[test]
    fn short_runs_do_not_keep_their_buffers() {
        let (mut assembly, mut seen) = (Assembly::new(Format::Pcapng, 2, 100), Seen::default());
        (0..100).for_each(|n| assembly.push(run(0, &[n], 60), &mut seen));
        assert_eq!((seen.spares, assembly.lineups[0].runs.len()), (99, 1));
    }

    proptest! {
        /// Whatever runs the rings send, in order or not: every record comes out, those of a ring in their order, and
        /// all in order of time when each ring was.
        #[test]
        fn every_record_comes_out_in_order(
            rings in vec(vec((vec(0..50_u64, 1..30), 0..3000_usize), 0..8), 1..4),
            is_sorted in any::<bool>(),
            ahead_ns in 0..3_000_u64,
        ) {
            let mut assembly = Assembly::new(Format::Pcapng, rings.len(), 10);
            let (mut seen, mut sent, mut expected) = (Seen::default(), 0, Vec::new());
            for (ring, runs) in rings.iter().enumerate() {
                let mut now_ns = 0;
                for (steps_ns, len) in runs {
                    let mut times_ns: Vec<u64> = steps_ns.iter().map(|step| { now_ns += step; now_ns }).collect();
                    if !is_sorted {
                        times_ns.reverse();
                    }
                    expected.extend(times_ns.iter().map(|time| (*time, ring)));
                    // Each ring has a card of its own.
                    let ahead_ns = ahead_ns * ring as u64;
                    assembly.push(run_of_card(ring, &times_ns, *len, ahead_ns), &mut seen);
                    sent += 1;
                    if sent % 3 == 0 {
                        assembly.advance(false, &mut seen);
                    }
                }
            }
            assembly.end();
            assembly.advance(false, &mut seen);
            assembly.flush(&mut seen);
            prop_assert!(!assembly.holds_any());
            prop_assert_eq!(seen.spares, sent);
            prop_assert_eq!(assembly.report().taken, expected.len() as u64);
            prop_assert_eq!(assembly.report().late == 0, seen.records.is_sorted_by_key(|record| record.0));
            for ring in 0..rings.len() {
                let of_ring = |records: &[(u64, usize)]| -> Vec<u64> {
                    records.iter().filter(|record| record.1 == ring).map(|record| record.0).collect()
                };
                prop_assert_eq!(of_ring(&seen.records), of_ring(&expected));
            }
            if is_sorted {
                prop_assert_eq!(assembly.report().late, 0);
            }
        }
    }
}
