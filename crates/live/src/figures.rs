//! What the view shows of one reading of the metrics: sums, losses by reason, and tables.

use crate::octaves::Octaves;
use facts::{
    CaptureFrames, ConnectFailures, FlowFrames, LeftOutPackets, OtherFrames, ServerSegments, UnusualFrames,
    UnusualSegments,
};
use metrics::families::{
    ACCEPT_SEGMENTS, CAPTURE_BYTES, CAPTURE_FRAMES, CAPTURE_RING_USED, CONNECT_ENDED, CONNECT_OPEN,
    CONNECT_RESPONSES, CONNECT_TRIED, CONNECT_UNUSUAL, FLOW_FRAMES, FLOW_JITTER, FLOW_LATENCY,
    FLOW_LATENCY_MAX, FLOW_LATENCY_SUM, FLOW_STAMPED, RECEIVE_CPU_FRAMES, RECEIVE_FRAMES, RECEIVE_MISSING,
    RECEIVE_OTHERS, RECEIVE_UNUSUAL, REPLAY_FRAMES, SEND_BYTES, SEND_ERRORS, SEND_FRAMES, SEND_GAP_ERROR,
    SEND_OFFERED, SEND_RETRIES, SEND_TARGET,
};
use metrics::{MetricFamily, MetricSet};
use packet::{FRAME_LEN_MIN, WIRE_OVERHEAD};
use std::collections::BTreeMap;

/// Fates of a capture that are losses.
const CAPTURE_LOSSES: [&str; 3] = ["lost_nic", "lost_ring", "lost_disk"];

/// The figures of one reading. What a command does not count is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LiveFigures {
    /// Frames sent.
    pub(crate) sent: Option<u64>,
    /// Their bits on the wire.
    pub(crate) sent_bits: Option<u64>,
    /// The requested rate in frames per second.
    pub(crate) target_pps: Option<f64>,
    /// Frames received.
    pub(crate) received: Option<u64>,
    /// Their bits without FCS.
    pub(crate) received_bits: Option<u64>,
    /// Frames lost or not sent, by reason.
    pub(crate) lost: BTreeMap<String, u64>,
    /// Latencies.
    pub(crate) latency: Option<Octaves>,
    /// Differences to the requested gap.
    pub(crate) gap_error: Option<Octaves>,
    /// Part of the fullest ring that holds frames, in thousandths.
    pub(crate) ring_milli: Option<u64>,
    /// Tables that have rows.
    pub(crate) tables: Vec<CountTable>,
}

/// Counters by what they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountTable {
    pub(crate) title: &'static str,
    /// Names of the columns that say what a row is.
    pub(crate) keys: &'static [&'static str],
    /// False for what is no number of frames, such as connections.
    pub(crate) counts_frames: bool,
    /// Names of the columns with counts. The first has a rate beside it.
    pub(crate) counts: Vec<&'static str>,
    /// Names of the columns with times.
    pub(crate) times: &'static [&'static str],
    /// Rows in the natural order of their keys.
    pub(crate) rows: Vec<CountRow>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountRow {
    pub(crate) keys: Vec<String>,
    /// `None` for a count that the kernel does not provide.
    pub(crate) counts: Vec<Option<u64>>,
    /// In nanoseconds, since the start of the run. `None` without time stamps.
    pub(crate) times: Vec<Option<u64>>,
}

impl LiveFigures {
    /// The figures of `set`.
    pub(crate) fn of(set: &MetricSet) -> Self {
        let replayed = |fate: &str| sum_if(set, &REPLAY_FRAMES, |labels| labels[2] == fate);
        let sent = sum(set, &SEND_FRAMES);
        Self {
            sent: sent.or_else(|| replayed("sent")),
            sent_bits: sent.and_then(|sent| Some(wire_bits(sent, sum(set, &SEND_BYTES)?))),
            target_pps: set.gauges(&SEND_TARGET).map(|(_, pps)| pps).reduce(|sum, pps| sum + pps),
            received: sum(set, &RECEIVE_FRAMES).or_else(|| {
                // Before its first frame a capture has no row of a CPU.
                sum(set, &CAPTURE_BYTES).map(|_| sum(set, &RECEIVE_CPU_FRAMES).unwrap_or(0))
            }),
            received_bits: sum(set, &CAPTURE_BYTES).map(|bytes| bytes * 8),
            lost: losses(set),
            latency: octaves(set, &FLOW_LATENCY, |labels| labels[2] == "all"),
            gap_error: octaves(set, &SEND_GAP_ERROR, |_| true),
            ring_milli: set.gauges(&CAPTURE_RING_USED).map(|(_, used)| (used * 1000.0) as u64).max(),
            tables: tables(set).into_iter().filter(|table| !table.rows.is_empty()).collect(),
        }
    }

    /// All losses together.
    pub(crate) fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }
}

fn sum(set: &MetricSet, family: &MetricFamily) -> Option<u64> {
    sum_if(set, family, |_| true)
}

fn sum_if(set: &MetricSet, family: &MetricFamily, is_wanted: impl Fn(&[String]) -> bool) -> Option<u64> {
    let counts = set.counts(family).filter(|(labels, _)| is_wanted(labels));
    counts.map(|(_, count)| count).reduce(|sum, count| sum + count)
}

/// Bits on the wire, as the report computes them: for mixed lengths the mean decides.
fn wire_bits(frames: u64, frame_bytes: u64) -> u64 {
    8 * (frame_bytes.max(frames * u64::from(FRAME_LEN_MIN)) + frames * u64::from(WIRE_OVERHEAD))
}

fn octaves(set: &MetricSet, family: &MetricFamily, is_wanted: impl Fn(&[String]) -> bool) -> Option<Octaves> {
    let mut all: Option<Octaves> = None;
    for (_, counts) in set.histograms(family).filter(|(labels, _)| is_wanted(labels)) {
        all.get_or_insert_with(|| Octaves::of(family)).add(counts);
    }
    all.map(|all| all.with_fine(set.fine(family)))
}

fn losses(set: &MetricSet) -> BTreeMap<String, u64> {
    let mut lost = BTreeMap::<String, u64>::new();
    let mut add = |reason: &str, count: u64| *lost.entry(reason.to_owned()).or_default() += count;
    set.counts(&SEND_ERRORS).for_each(|(labels, count)| add(&labels[2], count));
    let captured = set.counts(&CAPTURE_FRAMES);
    let is_lost = |labels: &[String]| CAPTURE_LOSSES.contains(&labels[2].as_str());
    captured.filter(|(labels, _)| is_lost(labels)).for_each(|(labels, count)| add(&labels[2], count));
    let replayed = set.counts(&REPLAY_FRAMES).filter(|(labels, _)| labels[2] == "error");
    replayed.for_each(|(_, count)| add("error", count));
    set.gauges(&RECEIVE_MISSING).for_each(|(_, missing)| add("missing", missing as u64));
    lost.retain(|_, count| *count > 0);
    lost
}

fn tables(set: &MetricSet) -> Vec<CountTable> {
    let mut threads =
        CountTable::new("threads", &["device", "thread", "cpu", "engine"], ["sent", "offered", "retries"]);
    for (column, family) in [SEND_FRAMES, SEND_OFFERED, SEND_RETRIES].iter().enumerate() {
        for (labels, count) in set.counts(family) {
            let [device, _, thread, cpu, engine] = labels else { continue };
            threads.add([device, thread, cpu, engine], column, count);
        }
    }
    let mut cpus = CountTable::new("CPUs of the receiver", &["device", "cpu"], ["received"]);
    for (labels, count) in set.counts(&RECEIVE_CPU_FRAMES) {
        cpus.add([&labels[0], &labels[2]], 0, count);
    }
    let mut flows =
        CountTable::new("flows", &["device", "flow"], [&["received"], FlowFrames::NAMES].concat())
            .with_times(&["mean latency", "highest latency", "jitter"]);
    for (labels, count) in set.counts(&FLOW_FRAMES) {
        let key = [&labels[0], &labels[2]];
        flows.add(key, 0, count);
        flows.add_to(key, &labels[3], count);
    }
    add_latencies(set, &mut flows);
    let kinds = [OtherFrames::NAMES, UnusualFrames::NAMES].concat();
    let mut others = CountTable::new("unusual frames", &["device"], kinds);
    for (labels, count) in set.counts(&RECEIVE_OTHERS).chain(set.counts(&RECEIVE_UNUSUAL)) {
        others.add_to([&labels[0]], &labels[2], count);
    }
    others.keep_rows_above_0();
    let mut captures = CountTable::new("captured", &["device"], CaptureFrames::NAMES);
    for (labels, count) in set.counts(&CAPTURE_FRAMES) {
        captures.add_to([&labels[0]], &labels[2], count);
    }
    let mut replays = CountTable::new(
        "packets of the files",
        &["device"],
        [&["sent", "error"], LeftOutPackets::NAMES].concat(),
    );
    for (labels, count) in set.counts(&REPLAY_FRAMES) {
        replays.add_to([&labels[0]], &labels[2], count);
    }
    let [connections, segments, server] = connection_tables(set);
    let mut tables = vec![flows, others, threads, captures, replays, connections, segments, server, cpus];
    tables.iter_mut().for_each(|table| table.rows.sort_by_key(|row| natural_order(&row.keys)));
    tables
}

/// Connections with a live server, their unusual segments, and the segments of a server.
fn connection_tables(set: &MetricSet) -> [CountTable; 3] {
    let counts = [&["tried", "open", "completed"], ConnectFailures::NAMES, &["responses"]].concat();
    let mut connections =
        CountTable { counts_frames: false, ..CountTable::new("connections", &["device"], counts) };
    for (name, family) in [("tried", &CONNECT_TRIED), ("responses", &CONNECT_RESPONSES)] {
        set.counts(family).for_each(|(labels, count)| connections.add_to([&labels[0]], name, count));
    }
    for (labels, open) in set.gauges(&CONNECT_OPEN) {
        connections.add_to([&labels[0]], "open", open as u64);
    }
    for (labels, count) in set.counts(&CONNECT_ENDED) {
        connections.add_to([&labels[0]], &labels[2], count);
    }
    let mut segments = CountTable::new("unusual segments", &["device"], UnusualSegments::NAMES);
    for (labels, count) in set.counts(&CONNECT_UNUSUAL) {
        segments.add_to([&labels[0]], &labels[2], count);
    }
    segments.keep_rows_above_0();
    let mut server = CountTable {
        counts_frames: false,
        ..CountTable::new("segments of the server", &["device"], ServerSegments::NAMES)
    };
    for (labels, count) in set.counts(&ACCEPT_SEGMENTS) {
        server.add_to([&labels[0]], &labels[2], count);
    }
    [connections, segments, server]
}

/// Mean and highest latency, and the jitter, of each flow that has time stamps.
fn add_latencies(set: &MetricSet, flows: &mut CountTable) {
    let sums: BTreeMap<&[String], f64> = set.gauges(&FLOW_LATENCY_SUM).collect();
    for (labels, frames) in set.counts(&FLOW_STAMPED).filter(|(_, frames)| *frames > 0) {
        let mean_s = sums.get(labels).copied().unwrap_or(0.0) / frames as f64;
        flows.row_of([&labels[0], &labels[2]]).times[0] = Some((mean_s * 1e9).round() as u64);
    }
    for (column, family) in [(1, &FLOW_LATENCY_MAX), (2, &FLOW_JITTER)] {
        for (labels, seconds) in set.gauges(family) {
            flows.row_of([&labels[0], &labels[2]]).times[column] = Some((seconds * 1e9).round() as u64);
        }
    }
}

/// Numbers before words, and 2 before 10.
fn natural_order(keys: &[String]) -> Vec<(u64, String)> {
    keys.iter().map(|key| (key.parse().unwrap_or(u64::MAX), key.clone())).collect()
}

impl CountTable {
    fn new(title: &'static str, keys: &'static [&'static str], counts: impl Into<Vec<&'static str>>) -> Self {
        Self { title, keys, counts_frames: true, counts: counts.into(), times: &[], rows: Vec::new() }
    }

    /// The row with these keys.
    pub(crate) fn row(&self, keys: &[String]) -> Option<&CountRow> {
        self.rows.iter().find(|row| row.keys == keys)
    }

    /// Leaves out rows without a count above 0.
    fn keep_rows_above_0(&mut self) {
        self.rows.retain(|row| row.counts.iter().any(|count| *count > Some(0)));
    }

    /// Adds columns of times to the table.
    fn with_times(self, times: &'static [&'static str]) -> Self {
        Self { times, ..self }
    }

    /// The row with these keys, which is new if there was none.
    fn row_of<const N: usize>(&mut self, keys: [&String; N]) -> &mut CountRow {
        let place = self.rows.iter().position(|row| row.keys.iter().eq(keys));
        let place = place.unwrap_or_else(|| {
            let keys = keys.into_iter().cloned().collect();
            let (counts, times) = (vec![None; self.counts.len()], vec![None; self.times.len()]);
            self.rows.push(CountRow { keys, counts, times });
            self.rows.len() - 1
        });
        &mut self.rows[place]
    }

    fn add<const N: usize>(&mut self, keys: [&String; N], column: usize, count: u64) {
        *self.row_of(keys).counts[column].get_or_insert(0) += count;
    }

    fn add_to<const N: usize>(&mut self, keys: [&String; N], column: &str, count: u64) {
        if let Some(column) = self.counts.iter().position(|name| *name == column) {
            self.add(keys, column, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unusual_frame_has_a_column() {
        let mut set = MetricSet::default();
        for (family, names) in
            [(&RECEIVE_OTHERS, OtherFrames::NAMES), (&RECEIVE_UNUSUAL, UnusualFrames::NAMES)]
        {
            names.iter().for_each(|name| set.count(family, &["eth1", "", name], 2));
        }
        let tables = LiveFigures::of(&set).tables;
        assert_eq!(tables.len(), 1, "{tables:?}");
        assert!(tables[0].rows[0].counts.iter().all(|count| *count == Some(2)), "{tables:?}");
    }

    #[test]
    fn connections_have_their_outcomes_and_unusual_segments() {
        let mut set = MetricSet::default();
        let device = ["eth1", ""];
        set.count(&CONNECT_TRIED, &device, 9);
        set.gauge(&CONNECT_OPEN, &device, 2.0);
        set.count(&CONNECT_ENDED, &["eth1", "", "completed"], 6);
        set.count(&CONNECT_ENDED, &["eth1", "", "timeout"], 1);
        set.count(&CONNECT_UNUSUAL, &["eth1", "", "gaps"], 0);
        let counts = |set: &MetricSet, title: &str| {
            let figures = LiveFigures::of(set);
            let table = figures.tables.into_iter().find(|table| table.title == title)?;
            let named = table.counts.into_iter().zip(table.rows[0].counts.clone());
            Some(named.filter_map(|(name, count)| Some((name, count?))).collect::<Vec<_>>())
        };
        let expected = [("tried", 9), ("open", 2), ("completed", 6), ("timeout", 1)];
        assert_eq!(counts(&set, "connections").unwrap(), expected);
        assert_eq!(counts(&set, "unusual segments"), None, "none are");
        set.count(&CONNECT_UNUSUAL, &["eth1", "", "gaps"], 3);
        assert_eq!(counts(&set, "unusual segments").unwrap(), [("gaps", 3)]);
        set.count(&ACCEPT_SEGMENTS, &["s0", "", "accepted"], 4);
        assert_eq!(counts(&set, "segments of the server").unwrap(), [("accepted", 4)]);
    }

    #[test]
    fn a_sender_has_its_threads_and_its_errors_by_cause() {
        let mut set = MetricSet::default();
        for (thread, sent) in [("10", 5), ("2", 7)] {
            let labels = ["eth1", "", thread, "3", "xdp"];
            set.count(&SEND_FRAMES, &labels, sent);
            set.count(&SEND_OFFERED, &labels, sent + 1);
            set.count(&SEND_BYTES, &labels, sent * 60);
        }
        set.count(&SEND_ERRORS, &["eth1", "", "qdisc_dropped"], 2);
        set.count(&SEND_ERRORS, &["eth1", "", "refused"], 0);
        set.add_gauge(&SEND_TARGET, &["eth1", ""], 500.0);
        let figures = LiveFigures::of(&set);
        assert_eq!((figures.sent, figures.sent_bits), (Some(12), Some(12 * 84 * 8)));
        assert_eq!(figures.lost, BTreeMap::from([("qdisc_dropped".to_owned(), 2)]));
        assert_eq!((figures.received, figures.target_pps), (None, Some(500.0)));
        let [threads] = figures.tables.as_slice() else { panic!("{:?}", figures.tables) };
        assert_eq!(threads.rows[0].keys, ["eth1", "2", "3", "xdp"]);
        assert_eq!(threads.rows[0].counts, [Some(7), Some(8), None]);
    }

    #[test]
    fn a_capture_has_its_losses_and_an_unknown_count_is_none() {
        let mut set = MetricSet::default();
        set.count(&CAPTURE_BYTES, &["eth1", ""], 600);
        for (fate, count) in [("written", 8), ("filtered", 1), ("lost_ring", 3)] {
            set.count(&CAPTURE_FRAMES, &["eth1", "", fate], count);
        }
        set.count(&RECEIVE_CPU_FRAMES, &["eth1", "", "0"], 12);
        set.gauge(&CAPTURE_RING_USED, &["eth1", ""], 0.25);
        let figures = LiveFigures::of(&set);
        assert_eq!((figures.received, figures.received_bits), (Some(12), Some(4800)));
        assert_eq!((figures.lost_total(), figures.ring_milli), (3, Some(250)));
        assert_eq!(figures.tables[0].rows[0].counts, [Some(8), Some(1), None, Some(3), None, None, None]);
    }

    #[test]
    fn a_receiver_has_its_flows_and_what_is_missing() {
        let mut set = MetricSet::default();
        set.count(&RECEIVE_FRAMES, &["eth1", ""], 9);
        for (fate, count) in [("in_order", 6), ("duplicate", 3)] {
            set.count(&FLOW_FRAMES, &["eth1", "", "other", fate], count);
        }
        set.gauge(&RECEIVE_MISSING, &["eth1", ""], 4.0);
        set.count(&FLOW_STAMPED, &["eth1", "", "other"], 4);
        set.count_seconds(&FLOW_LATENCY_SUM, &["eth1", "", "other"], 10e-6);
        set.gauge(&FLOW_LATENCY_MAX, &["eth1", "", "other"], 7e-6);
        set.gauge(&FLOW_JITTER, &["eth1", "", "other"], 3e-7);
        let figures = LiveFigures::of(&set);
        assert_eq!(figures.tables[0].rows[0].counts, [Some(9), Some(6), None, Some(3), None]);
        assert_eq!(figures.tables[0].rows[0].times, [Some(2500), Some(7000), Some(300)]);
        assert_eq!(figures.lost, BTreeMap::from([("missing".to_owned(), 4)]));
    }

    #[test]
    fn a_replay_counts_what_it_has_sent() {
        let mut set = MetricSet::default();
        for (fate, count) in [("sent", 6), ("error", 3), ("too_long", 1)] {
            set.count(&REPLAY_FRAMES, &["eth1", "", fate], count);
        }
        let figures = LiveFigures::of(&set);
        assert_eq!((figures.sent, figures.sent_bits, figures.lost_total()), (Some(6), None, 3));
    }
}
