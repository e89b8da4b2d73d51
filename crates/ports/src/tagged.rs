//! The rows of frames counted by the values of metric tags.

use fleet::{SentFrames, TagReading};
use measure::TagCounts;
use otg::metrics::{FlowCounts, FlowState, TrafficCounts};
use otg::{EgressRow, EgressTaggedRow, FlowConfig, MetricTag, TagValue, TaggedQuery, TaggedRow};
use otg::{EgressTracking, OtgConfig, tag_values};
use std::collections::BTreeMap;

/// What was counted of each combination of values, by the port where ports have their own counts.
type CountsByValues = BTreeMap<(Option<usize>, Vec<u128>), TagCounts>;

fn counts_by_values(config: &FlowConfig, readings: &[TagReading]) -> CountsByValues {
    let mut counts = CountsByValues::new();
    for reading in readings {
        let port = config.metrics.by_port.then_some(reading.port as usize);
        counts.entry((port, tag_values(&config.tags, &reading.values))).or_default().add(&reading.counts);
    }
    counts
}

/// Counts as the model has them: with FCS.
fn counts_of(counts: &TagCounts) -> FlowCounts {
    let rx = TrafficCounts {
        frames: counts.frames,
        bytes: counts.frame_bytes.saturating_add(counts.frames.saturating_mul(4)),
        rate: 0.0,
    };
    let average = counts.latency_sum_ns as f64 / counts.stamped.max(1) as f64;
    FlowCounts {
        state: FlowState::Stopped,
        tx: TrafficCounts::default(),
        rx,
        latency_ns: (counts.latency_min_ns as f64, counts.latency_max_ns as f64, average),
        first_last_ns: (counts.first_ns, counts.last_ns),
    }
}

fn values_of(tags: &[MetricTag], values: &[u128]) -> Vec<TagValue> {
    tags.iter().zip(values).map(|(tag, value)| TagValue::number(&tag.name, *value)).collect()
}

/// The rows of a flow by the values of its tags, as far as the client asks for them. `sent`: its
/// frames that were sent. `has_several_sizes`: the size of its frames has changed in flight. Ports
/// in `readings` are indexes into the configuration.
pub(super) fn tagged_rows(
    whole: &OtgConfig,
    flow: usize,
    query: &TaggedQuery,
    (sent, has_several_sizes): (SentFrames, bool),
    readings: &[TagReading],
) -> Vec<TaggedRow> {
    let config = &whole.flows[flow];
    if !query.include || !config.has_tags() {
        return Vec::new();
    }
    let by_values = config.sent_by_values(sent.frames);
    let mut counts = counts_by_values(config, readings);
    // Values of which no frame has arrived have rows too.
    for values in by_values.iter().flat_map(|by_values| by_values.keys()) {
        let is_of_flow = |port: &usize| config.rx_ports.contains(&whole.ports[*port].name);
        let ports = (0..whole.ports.len()).filter(is_of_flow).map(Some);
        let ports: Vec<Option<usize>> = if config.metrics.by_port { ports.collect() } else { vec![None] };
        ports.into_iter().for_each(|port| {
            counts.entry((port, values.clone())).or_default();
        });
    }
    let row = |((port, values), counts): ((Option<usize>, Vec<u128>), TagCounts)| {
        let mut tags = values_of(&config.tags, &values);
        tags.extend(port.map(|port| TagValue::rx_port(&whole.ports[port].name)));
        let sent = by_values.as_ref().map(|sent| sent.get(&values).copied().unwrap_or_default());
        let due = sent.and_then(|sent| match port {
            Some(_) => config.frames_due_at_port(sent),
            None => Some(config.frames_due(sent)),
        });
        let size = config.size_fixed().filter(|_| !has_several_sizes);
        let shown = config.metrics;
        query.selects(&tags).then(|| TaggedRow { tags, sent, size, due, counts: counts_of(&counts), shown })
    };
    counts.into_iter().filter_map(row).collect()
}

/// True if frames of a flow that have no row of values are to be told.
pub(super) fn has_values(config: &FlowConfig) -> bool {
    config.metrics.enable && !config.tags.is_empty()
}

/// A sentence for a flow that has frames without a row of values: the values of the port were too
/// many, or the frames end before the bits of the tags. `frames` have arrived before the readings.
pub(super) fn without_values(config: &FlowConfig, frames: u64, readings: &[TagReading]) -> Option<String> {
    let missing = readings.iter().fold(frames, |left, reading| left.saturating_sub(reading.counts.frames));
    let name = &config.name;
    (missing > 0).then(|| {
        format!(
            "flow {name}: {missing} frames are in no row of tagged metrics: they end before the bits of the \
             tags, or the port had counted 65,536 other values before"
        )
    })
}

/// The row of a port that counts all its frames by values.
pub(super) fn egress_row(
    tracking: &EgressTracking,
    columns: &[String],
    readings: &[TagReading],
) -> EgressRow {
    let mut counts: BTreeMap<Vec<u128>, TagCounts> = BTreeMap::new();
    for reading in readings {
        counts.entry(tag_values(&tracking.tags, &reading.values)).or_default().add(&reading.counts);
    }
    let row = |(values, counts): (Vec<u128>, TagCounts)| {
        EgressTaggedRow::new(tracking, values_of(&tracking.tags, &values), counts_of(&counts))
    };
    let tagged = counts.into_iter().map(row).collect();
    EgressRow { port: tracking.port.clone(), tagged, columns: columns.to_vec() }
}

/// The ports that count all their frames by values, of these rows.
pub(super) fn egress_ports(config: &OtgConfig, egress: &[usize]) -> Vec<usize> {
    let port = |egress: &usize| {
        let name = &config.egress[*egress].port;
        config.ports.iter().position(|port| port.name == *name).expect("the configuration was checked")
    };
    egress.iter().map(port).collect()
}
