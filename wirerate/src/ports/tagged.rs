//! Frames counted by the values of metric tags, on the ports of this host.

use super::arrivals::arrivals;
use super::flow::with_fcs;
use super::port::Port;
use super::state::ActiveState;
use capture::TaggedFrames;
use fleet::SentFrames;
use measure::TagCounts;
use otg::metrics::{FlowCounts, FlowMetricsRow, FlowState, TrafficCounts};
use otg::tag_values;
use otg::{Copies, EgressRow, EgressTaggedRow, FlowConfig, MetricTag, TagValue, TaggedQuery, TaggedRow};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What was counted of each combination of values, by the port where ports have their own counts.
type CountsByValues = BTreeMap<(Option<usize>, Vec<u128>), TagCounts>;

/// What each port of this host has counted by values, read once for an answer.
pub(super) struct TaggedReading(Vec<Vec<TaggedFrames>>);

impl TaggedReading {
    /// Reads the ports for whose index `is_asked` is true; the others have no frames here.
    pub(super) fn of(ports: &[Port], is_asked: impl Fn(usize) -> bool) -> Self {
        let read = |(index, port): (usize, &Port)| match is_asked(index) {
            true => port.tagged(),
            false => Vec::new(),
        };
        Self(ports.iter().enumerate().map(read).collect())
    }
}

/// All frames of a flow on a port, as those of one value.
fn counts_of_flow(port: &Port, number: u32) -> TagCounts {
    let arrived = arrivals(std::iter::once(port), number);
    TagCounts {
        frames: arrived.frames,
        frame_bytes: arrived.bytes,
        first_ns: arrived.first_ns,
        last_ns: arrived.last_ns,
        stamped: arrived.stamped,
        latency_sum_ns: arrived.latency_sum_ns,
        latency_min_ns: arrived.latency_min_ns,
        latency_max_ns: arrived.latency_max_ns,
    }
}

fn add(counts: &mut CountsByValues, key: (Option<usize>, Vec<u128>), more: &TagCounts) {
    counts.entry(key).or_default().add(more);
}

/// Counts as the model has them: with FCS.
fn counts_of(counts: &TagCounts) -> FlowCounts {
    let rx =
        TrafficCounts { frames: counts.frames, bytes: counts.frame_bytes + 4 * counts.frames, rate: 0.0 };
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

impl ActiveState {
    /// Reads the ports that count frames of these flows by tags.
    pub(super) fn tagged_reading(&self, flows: &[usize]) -> TaggedReading {
        let tagged = flows.iter().filter(|flow| !self.config.flows[**flow].tags.is_empty());
        let ports: BTreeSet<usize> = tagged.flat_map(|flow| self.rx_indexes(*flow)).copied().collect();
        TaggedReading::of(&self.ports, |port| ports.contains(&port))
    }

    /// The row of a flow, with the rows of values that `query` asks for.
    pub(super) fn flow_row(
        &mut self,
        flow: usize,
        query: &TaggedQuery,
        reading: &TaggedReading,
        now: Instant,
    ) -> FlowMetricsRow {
        let (state, received, sent) = self.read(flow, now);
        let (tx_rate, rx_rate) = self.flows[flow].rates(sent.frames, received.frames, now);
        let arrived = SentFrames { frames: received.frames, bytes: received.bytes };
        let (tx, rx) = (with_fcs(sent, tx_rate), with_fcs(arrived, rx_rate));
        let (latency_ns, first_last_ns) = (received.latency_ns(), (received.first_ns, received.last_ns));
        let counts = FlowCounts { state, tx, rx, latency_ns, first_last_ns };
        let tagged = self.tagged_rows(flow, query, sent, reading);
        FlowMetricsRow::new(&self.config.flows[flow], counts).with_tagged(tagged, query.columns.clone())
    }

    /// The rows of a flow by the values of its tags, as far as the client asks for them. `sent`:
    /// its frames that were sent.
    pub(super) fn tagged_rows(
        &self,
        flow: usize,
        query: &TaggedQuery,
        sent: SentFrames,
        reading: &TaggedReading,
    ) -> Vec<TaggedRow> {
        let config = &self.config.flows[flow];
        if !query.include || !config.has_tags() {
            return Vec::new();
        }
        let by_values = config.sent_by_values(sent.frames);
        let mut counts = self.counts_by_values(flow, reading);
        // Values of which no frame has arrived have rows too.
        for values in by_values.iter().flat_map(|by_values| by_values.keys()) {
            let ports = self.rx_indexes(flow).iter().map(|port| Some(*port));
            let ports: Vec<Option<usize>> = if config.metrics.by_port { ports.collect() } else { vec![None] };
            ports.into_iter().for_each(|port| {
                counts.entry((port, values.clone())).or_default();
            });
        }
        let row = |((port, values), counts): ((Option<usize>, Vec<u128>), TagCounts)| {
            let mut tags = values_of(&config.tags, &values);
            tags.extend(port.map(|port| TagValue::rx_port(&self.ports[port].name)));
            let sent = by_values.as_ref().map(|sent| sent.get(&values).copied().unwrap_or_default());
            let due = sent.and_then(|sent| due_at(config, port.is_some(), sent));
            let size = config.size_fixed().filter(|_| !self.flows[flow].has_several_sizes);
            let shown = config.metrics;
            query.selects(&tags).then(|| TaggedRow {
                tags,
                sent,
                size,
                due,
                counts: counts_of(&counts),
                shown,
            })
        };
        counts.into_iter().filter_map(row).collect()
    }

    fn counts_by_values(&self, flow: usize, reading: &TaggedReading) -> CountsByValues {
        let config = &self.config.flows[flow];
        let mut counts = CountsByValues::new();
        let Some(number) = self.flows[flow].number else { return counts };
        for &port in self.rx_indexes(flow) {
            let key = config.metrics.by_port.then_some(port);
            if config.tags.is_empty() {
                add(&mut counts, (key, Vec::new()), &counts_of_flow(&self.ports[port], number));
                continue;
            }
            let is_of_flow = |tagged: &&TaggedFrames| tagged.line == Some(number as usize);
            for tagged in reading.0[port].iter().filter(is_of_flow) {
                add(&mut counts, (key, tag_values(&config.tags, &tagged.values)), &tagged.counts);
            }
        }
        counts
    }

    /// A sentence for each of these flows that has frames without a row of values: the values of
    /// the port were too many, or the frames end before the bits of the tags.
    pub(super) fn without_values(&self, flows: &[usize]) -> Vec<String> {
        let has_values = |flow: &&usize| {
            let config = &self.config.flows[**flow];
            config.metrics.enable && !config.tags.is_empty()
        };
        // Before the rows are read: a frame that arrives meanwhile is not missing.
        let received: Vec<(usize, u64)> =
            flows.iter().filter(has_values).map(|flow| (*flow, self.received(*flow).frames)).collect();
        let reading = self.tagged_reading(flows);
        let sentence = |(flow, frames): (usize, u64)| {
            let counts = self.counts_by_values(flow, &reading);
            let counted: u64 = counts.values().map(|counts| counts.frames).sum();
            let missing = frames.saturating_sub(counted);
            let name = &self.config.flows[flow].name;
            (missing > 0).then(|| {
                format!(
                    "flow {name}: {missing} frames are in no row of tagged metrics: they end before the \
                    bits of the tags, or the port had counted 65,536 other values before"
                )
            })
        };
        received.into_iter().filter_map(sentence).collect()
    }

    /// The row of a port that counts all its frames by values.
    pub(super) fn egress_row(&self, egress: usize, columns: &[String], reading: &TaggedReading) -> EgressRow {
        let tracking = &self.config.egress[egress];
        let port = self.ports.iter().position(|port| port.name == tracking.port);
        let frames = port.map(|port| &reading.0[port][..]).unwrap_or_default();
        let mut counts = CountsByValues::new();
        for tagged in frames.iter().filter(|tagged| tagged.line.is_none()) {
            add(&mut counts, (None, tag_values(&tracking.tags, &tagged.values)), &tagged.counts);
        }
        let row = |((_, values), counts): ((Option<usize>, Vec<u128>), TagCounts)| {
            EgressTaggedRow::new(tracking, values_of(&tracking.tags, &values), counts_of(&counts))
        };
        let tagged = counts.into_iter().map(row).collect();
        EgressRow { port: tracking.port.clone(), tagged, columns: columns.to_vec() }
    }
}

/// Frames that are to arrive of those that were sent. Where each port has counts of its own, it is
/// known only if all frames arrive there.
fn due_at(config: &FlowConfig, is_of_port: bool, sent: u64) -> Option<u64> {
    match config.metrics.copies {
        Copies::EachPort if is_of_port => Some(sent),
        Copies::Ratio(_) if is_of_port && config.rx_ports.len() > 1 => None,
        _ => Some(config.frames_due(sent)),
    }
}
