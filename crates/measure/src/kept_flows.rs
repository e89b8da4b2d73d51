//! The results of some flows of a receiver, without those of the others.

use crate::line::FlowLine;
use crate::totals::{HELD_LEN, Totals};
use std::collections::BTreeSet;

/// Keeps the flows with these numbers, which frames carry: frames of the others count as foreign.
/// The latencies of all flows are in one histogram. So if others have latencies, none are left.
pub fn keep_flows(
    kept: &BTreeSet<usize>,
    lines: &mut [FlowLine],
    totals: &mut Totals,
    histogram: &mut [u64],
) {
    let is_other = |(flow, line): &(usize, &FlowLine)| !kept.contains(flow) && !line.is_empty();
    let others: Vec<usize> = lines.iter().enumerate().filter(is_other).map(|(flow, _)| flow).collect();
    let (mut has_latency, mut reordered) = (false, false);
    for flow in others {
        let other = std::mem::take(&mut lines[flow]);
        totals.received -= other.received();
        totals.others.foreign += other.received();
        has_latency |= other.latency_bounds_ns().is_some();
        reordered |= other.reordered > 0;
    }
    if has_latency {
        lines.iter_mut().for_each(FlowLine::drop_latency);
        totals.drop_latency();
        histogram.fill(0);
    }
    if reordered {
        // What they held stays the most that any flow held.
        let count: u64 = lines.iter().map(|line| u64::from(line.reordered)).sum();
        totals.held = [0; HELD_LEN];
        totals.held[0] = count;
        totals.held_max = if count > 0 { totals.held_max } else { 0 };
    }
}
