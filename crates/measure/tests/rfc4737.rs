//! Order against RFC 4737 and RFC 5236 by definition: every frame compared with all others.

use measure::{Arrivals, FlowLine, FramesAt, OrderFigures, WIDE_WINDOW_LEN, WideWindow};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Counts of a stream by the definitions of RFC 4737.
#[derive(Debug, Default, PartialEq, Eq)]
struct Definition {
    unique: u64,
    duplicate: u32,
    reordered: u32,
    /// Per reordered frame, the frames with higher numbers before it.
    held: Vec<u32>,
}

fn by_definition(arrived: &[u64]) -> Definition {
    let (mut result, mut seen, mut next_expected) = (Definition::default(), HashSet::new(), 0);
    for number in arrived {
        if seen.contains(number) {
            result.duplicate += 1;
            continue;
        }
        if *number < next_expected {
            result.reordered += 1;
            result.held.push(seen.iter().filter(|other| *other > number).count() as u32);
        } else {
            next_expected = number + 1;
        }
        seen.insert(*number);
        result.unique += 1;
    }
    result
}

fn by_window(arrived: &[u64], start: u64) -> (Definition, u32) {
    let mut line = FlowLine::default();
    let held = arrived.iter().map(|number| line.receive(start + number, 0, None).held);
    let held = held.filter(|held| *held > 0).collect();
    let FlowLine { duplicate, reordered, too_old, .. } = line;
    (Definition { unique: line.unique(), duplicate, reordered, held }, too_old)
}

/// Order of the frames by the wide window, and the number of frames below it.
fn by_wide_window(arrived: &[u64], start: u64) -> (Definition, u32) {
    let (mut line, mut wide) = (FlowLine::default(), WideWindow::default());
    let held = arrived.iter().map(|number| line.receive_wide(&mut wide, start + number, 0, None).held);
    let held = held.filter(|held| *held > 0).collect();
    let FlowLine { duplicate, reordered, too_old, .. } = line;
    (Definition { unique: line.unique(), duplicate, reordered, held }, too_old)
}

/// Numbers from 0 on: some lost, some late by less than `displaced` places, some twice.
fn stream() -> impl Strategy<Value = Vec<u64>> {
    let fate = (0u32..100, 0u32..1000, 0u32..100, 0u64..10);
    let shape = (prop::sample::select(vec![0u32, 5, 30]), prop::sample::select(vec![0u64, 2, 5, 20]));
    (shape, proptest::collection::vec(fate, 1..200)).prop_map(|((loss, displaced), fates)| {
        let mut frames: Vec<(u64, u64)> = Vec::new();
        for (number, (kept, late, copied, copy_late)) in (0u64..).zip(fates) {
            if kept < loss {
                continue;
            }
            let place = number * 1000 + u64::from(late) * displaced;
            frames.push((place, number));
            if copied < 5 {
                frames.push((place + copy_late * 1000, number));
            }
        }
        frames.sort_unstable();
        frames.into_iter().map(|(_, number)| number).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The numbers may start anywhere.
    #[test]
    fn window_gives_the_counts_of_the_definition(arrived in stream(), start in 64u64..1 << 40) {
        let (counted, too_old) = by_window(&arrived, start);
        prop_assert_eq!(too_old, 0);
        prop_assert_eq!(counted, by_definition(&arrived));
    }

    /// Frames that are late by almost the whole window, which the narrow one could not tell.
    #[test]
    fn wide_window_gives_the_counts_of_the_definition(
        arrived in stream(),
        stretch in 1u64..5,
        start in 64u64..1 << 40,
    ) {
        let far: Vec<u64> = arrived.iter().map(|number| number * stretch).collect();
        let (counted, too_old) = by_wide_window(&far, start);
        prop_assert_eq!(too_old, 0);
        prop_assert_eq!(counted, by_definition(&far));
    }
}

#[test]
fn the_wide_window_ends_behind_its_last_number() {
    for start in [0, 63, 64, 1 << 20] {
        let (mut line, mut wide) = (FlowLine::default(), WideWindow::default());
        let mut receive = |number| line.receive_wide(&mut wide, start + number, 0, None);
        receive(0);
        receive(WIDE_WINDOW_LEN);
        assert_eq!(receive(1).held, 1, "the lowest number in the window");
        assert!(!receive(1).is_unique && !receive(0).is_unique);
        // A jump leaves nothing of the window before.
        receive(10_000);
        assert_eq!(receive(10_001 - WIDE_WINDOW_LEN).held, 1);
        assert_eq!((line.unique(), line.duplicate, line.too_old), (5, 1, 1), "{start}");
    }
}

/// The first copies, in the order of arrival.
fn first_copies(arrived: &[u64]) -> Vec<u64> {
    let mut seen = HashSet::new();
    arrived.iter().copied().filter(|number| seen.insert(*number)).collect()
}

/// Counts of values, those beyond 64 at 65.
fn counted(values: impl Iterator<Item = i64>) -> Vec<FramesAt> {
    let mut counts = BTreeMap::new();
    values.for_each(|value| *counts.entry(value.clamp(-65, 65)).or_default() += 1);
    counts.into_iter().map(|(value, frames)| FramesAt { value, frames }).collect()
}

/// All figures of the order by their definitions, in quadratic time.
fn order_by_definition(arrived: &[u64]) -> OrderFigures {
    let order = &first_copies(arrived)[..];
    let before = |place: usize| order[..place].iter().map(move |other| *other > order[place]);
    let extents: Vec<i64> = (0..order.len())
        .filter_map(|place| before(place).position(|above| above).map(|at| (place - at) as i64))
        .collect();
    let is_reordered_by =
        |place: usize, n: usize| place >= n && before(place).rev().take(n).all(|above| above);
    let n_reordered =
        (1..=64).map(|n| (n, (0..order.len()).filter(|place| is_reordered_by(*place, n)).count()));
    let sent: BTreeSet<u64> = order.iter().copied().collect();
    let displacement = |(place, number): (usize, &u64)| {
        sent.iter().nth(place).map(|index| index.cast_signed() - number.cast_signed())
    };
    // The numbers that are there and above the first one that is not.
    let held = |place: usize| {
        let there: HashSet<u64> = order[..=place].iter().copied().collect();
        let first_absent = sent.iter().find(|number| !there.contains(number));
        there.iter().filter(|number| first_absent.is_some_and(|absent| *number > absent)).count() as i64
    };
    OrderFigures {
        unique: order.len() as u64,
        duplicate: (arrived.len() - order.len()) as u64,
        reordered: extents.len() as u64,
        extent_max: extents.iter().max().map_or(0, |extent| extent.cast_unsigned()),
        extent_mean: (!extents.is_empty()).then(|| extents.iter().sum::<i64>() as f64 / extents.len() as f64),
        extents: counted(extents.iter().copied()),
        n_reordered: n_reordered
            .filter(|(_, frames)| *frames > 0)
            .map(|(n, frames)| FramesAt { value: n as i64, frames: frames as u64 })
            .collect(),
        density: counted(order.iter().enumerate().filter_map(displacement)),
        buffer_density: counted((0..order.len()).map(held)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_in_full_is_that_of_the_definitions(arrived in stream(), start in 0u64..1 << 40) {
        let arrived: Vec<u64> = arrived.iter().map(|number| start + number).collect();
        let mut arrivals = Arrivals::default();
        let unique: Vec<u64> = arrived.iter().copied().filter(|number| arrivals.receive(*number)).collect();
        prop_assert_eq!(unique, first_copies(&arrived));
        prop_assert_eq!(OrderFigures::new([&arrivals]), order_by_definition(&arrived));
    }

    /// Any order at all, with all displacements and copies at any distance.
    #[test]
    fn order_in_full_holds_for_any_numbers(arrived in proptest::collection::vec(0u64..120, 0..150)) {
        let mut arrivals = Arrivals::default();
        for number in &arrived {
            arrivals.receive(*number);
        }
        prop_assert_eq!(OrderFigures::new([&arrivals]), order_by_definition(&arrived));
    }

    /// What the receiver counts with its window is what the capture shows.
    #[test]
    fn window_and_full_order_agree(arrived in stream(), start in 64u64..1 << 40) {
        let (counted, _) = by_window(&arrived, start);
        let mut arrivals = Arrivals::default();
        for number in &arrived {
            arrivals.receive(*number);
        }
        let full = OrderFigures::new([&arrivals]);
        prop_assert_eq!(
            (full.unique, full.duplicate, full.reordered),
            (counted.unique, counted.duplicate.into(), counted.reordered.into())
        );
    }
}
