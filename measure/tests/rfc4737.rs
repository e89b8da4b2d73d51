//! The window against RFC 4737 by definition: every frame compared with all frames before it.

use measure::FlowLine;
use proptest::prelude::*;
use std::collections::HashSet;

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

    /// Check 15; and check 16, as the numbers may start anywhere.
    #[test]
    fn window_gives_the_counts_of_the_definition(arrived in stream(), start in 64u64..1 << 40) {
        let (counted, too_old) = by_window(&arrived, start);
        prop_assert_eq!(too_old, 0);
        prop_assert_eq!(counted, by_definition(&arrived));
    }
}
