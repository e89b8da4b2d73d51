//! Rows of metrics, and the columns that the model has for them.
//!
//! A row has all its columns, also those that are 0, unless the request names columns: clients read
//! columns that are absent as errors.

pub use crate::counts::{FlowCounts, FlowState, TrafficCounts};
use crate::flow::{FlowConfig, FlowMetrics};
use crate::table::{self, Column, ColumnValue, EgressRow, MetricsRow, TaggedRow, latency, timestamps};
use serde::ser::{Serialize, Serializer};

/// What was counted on a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortCounts {
    /// The link is up.
    pub is_up: bool,
    /// Its capture runs.
    pub is_capturing: bool,
    /// A flow of it is started.
    pub is_sending: bool,
    /// Sent by the engine.
    pub tx: TrafficCounts,
    /// All that the device received.
    pub rx: TrafficCounts,
    /// When the link last changed, in nanoseconds since 1970.
    pub last_change_ns: u64,
    /// Bits per second of the line.
    pub speed: u64,
}

/// The row of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowMetricsRow {
    name: String,
    tx_port: String,
    rx_ports: String,
    shown: FlowMetrics,
    counts: FlowCounts,
    /// Frames that are to arrive for those that were sent.
    due: u64,
    tagged: Vec<TaggedRow>,
    tagged_columns: Vec<String>,
}

/// The row of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortRow {
    name: String,
    location: String,
    counts: PortCounts,
}

impl FlowMetricsRow {
    /// What was measured of a flow.
    pub fn new(flow: &FlowConfig, counts: FlowCounts) -> Self {
        let FlowConfig { name, tx_port, rx_ports, metrics, .. } = flow;
        let (name, tx_port) = (name.clone(), tx_port.clone());
        Self {
            name,
            tx_port,
            rx_ports: rx_ports.join(","),
            shown: *metrics,
            due: flow.frames_due(counts.tx.frames),
            counts,
            tagged: Vec::new(),
            tagged_columns: Vec::new(),
        }
    }

    /// With rows of its frames by the values of tags, and the columns of these rows that are asked
    /// for, all if empty.
    #[must_use]
    pub fn with_tagged(self, tagged: Vec<TaggedRow>, tagged_columns: Vec<String>) -> Self {
        Self { tagged, tagged_columns, ..self }
    }

    fn tagged(&self) -> ColumnValue<'_> {
        match &self.tagged[..] {
            [] => ColumnValue::Absent,
            rows => ColumnValue::Tagged(rows, &self.tagged_columns),
        }
    }

    /// Frames are only lost where they are received.
    fn has_loss(&self) -> bool {
        self.shown.loss && !self.rx_ports.is_empty()
    }

    /// Lost frames in percent.
    fn loss(&self) -> f64 {
        let lost = self.due.saturating_sub(self.counts.rx.frames);
        if self.due == 0 { 0.0 } else { 100.0 * lost as f64 / self.due as f64 }
    }
}

impl PortRow {
    /// What was counted on a port.
    pub fn new(name: &str, location: &str, counts: PortCounts) -> Self {
        Self { name: name.to_owned(), location: location.to_owned(), counts }
    }
}

/// Rows of flows or ports, with some of their columns.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsTable {
    rows: Rows,
    columns: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Rows {
    Flows(Vec<FlowMetricsRow>),
    Ports(Vec<PortRow>),
    Egress(Vec<EgressRow>),
}

impl MetricsTable {
    /// Rows of flows; `columns` names those asked for, all if empty.
    pub fn of_flows(rows: Vec<FlowMetricsRow>, columns: Vec<String>) -> Self {
        Self { rows: Rows::Flows(rows), columns }
    }

    /// Rows of ports, likewise.
    pub fn of_ports(rows: Vec<PortRow>, columns: Vec<String>) -> Self {
        Self { rows: Rows::Ports(rows), columns }
    }

    /// Rows of ports that count all their frames by values.
    pub fn of_egress(rows: Vec<EgressRow>) -> Self {
        Self { rows: Rows::Egress(rows), columns: Vec::new() }
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        match &self.rows {
            Rows::Flows(rows) => rows.len(),
            Rows::Ports(rows) => rows.len(),
            Rows::Egress(rows) => rows.len(),
        }
    }

    /// The model's `MetricsResponse` in protobuf.
    pub fn encode(&self) -> Vec<u8> {
        match &self.rows {
            Rows::Flows(rows) => table::encode(rows, &self.columns),
            Rows::Ports(rows) => table::encode(rows, &self.columns),
            Rows::Egress(rows) => table::encode(rows, &self.columns),
        }
    }
}

/// The model's `MetricsResponse` in JSON.
impl Serialize for MetricsTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.rows {
            Rows::Flows(rows) => table::serialize(rows, &self.columns, serializer),
            Rows::Ports(rows) => table::serialize(rows, &self.columns, serializer),
            Rows::Egress(rows) => table::serialize(rows, &self.columns, serializer),
        }
    }
}

impl TrafficCounts {
    /// Bytes per second.
    fn byte_rate(&self) -> f64 {
        if self.frames == 0 { 0.0 } else { self.rate * self.bytes as f64 / self.frames as f64 }
    }

    /// Bits per second with preamble and gap.
    fn l1_bps(&self) -> f64 {
        8.0 * (self.byte_rate() + 20.0 * self.rate)
    }
}

impl MetricsRow for FlowMetricsRow {
    const FIELD: &'static str = "flow_metrics";
    const KEYS: usize = 4;
    const COLUMNS: &'static [Column<Self>] = &[
        Column { name: "name", cell: |row| ColumnValue::Text(&row.name) },
        Column { name: "port_tx", cell: |row| ColumnValue::Text(&row.tx_port) },
        Column { name: "port_rx", cell: |row| ColumnValue::Text(&row.rx_ports) },
        // Rows of values are asked for apart from columns.
        Column { name: "tagged_metrics", cell: FlowMetricsRow::tagged },
        Column { name: "transmit", cell: |row| ColumnValue::Text(row.counts.state.name()) },
        Column { name: "frames_tx", cell: |row| ColumnValue::Count(row.counts.tx.frames) },
        Column { name: "frames_rx", cell: |row| ColumnValue::Count(row.counts.rx.frames) },
        Column { name: "bytes_tx", cell: |row| ColumnValue::Count(row.counts.tx.bytes) },
        Column { name: "bytes_rx", cell: |row| ColumnValue::Count(row.counts.rx.bytes) },
        Column { name: "frames_tx_rate", cell: |row| rate(row.counts.tx.rate) },
        Column { name: "frames_rx_rate", cell: |row| rate(row.counts.rx.rate) },
        Column { name: "loss", cell: |row| shown(row.has_loss(), || ColumnValue::Number(row.loss())) },
        Column { name: "timestamps", cell: |row| shown(row.shown.timestamps, || timestamps(&row.counts)) },
        Column { name: "latency", cell: |row| shown(row.shown.latency, || latency(&row.counts)) },
        Column { name: "tx_l1_rate_bps", cell: |row| rate(row.counts.tx.l1_bps()) },
        Column { name: "rx_l1_rate_bps", cell: |row| rate(row.counts.rx.l1_bps()) },
        Column { name: "tx_rate_bytes", cell: |row| rate(row.counts.tx.byte_rate()) },
        Column { name: "rx_rate_bytes", cell: |row| rate(row.counts.rx.byte_rate()) },
        Column { name: "tx_rate_bps", cell: |row| rate(8.0 * row.counts.tx.byte_rate()) },
        Column { name: "rx_rate_bps", cell: |row| rate(8.0 * row.counts.rx.byte_rate()) },
        Column { name: "tx_rate_kbps", cell: |row| rate(8e-3 * row.counts.tx.byte_rate()) },
        Column { name: "rx_rate_kbps", cell: |row| rate(8e-3 * row.counts.rx.byte_rate()) },
        Column { name: "tx_rate_mbps", cell: |row| rate(8e-6 * row.counts.tx.byte_rate()) },
        Column { name: "rx_rate_mbps", cell: |row| rate(8e-6 * row.counts.rx.byte_rate()) },
    ];
}

impl MetricsRow for PortRow {
    const FIELD: &'static str = "port_metrics";
    const KEYS: usize = 1;
    const COLUMNS: &'static [Column<Self>] = &[
        Column { name: "name", cell: |row| ColumnValue::Text(&row.name) },
        Column { name: "location", cell: |row| ColumnValue::Text(&row.location) },
        Column { name: "link", cell: |row| on_off(row.counts.is_up, "up", "down") },
        Column { name: "capture", cell: |row| on_off(row.counts.is_capturing, "started", "stopped") },
        Column { name: "transmit", cell: |row| on_off(row.counts.is_sending, "started", "stopped") },
        Column { name: "frames_tx", cell: |row| ColumnValue::Count(row.counts.tx.frames) },
        Column { name: "frames_rx", cell: |row| ColumnValue::Count(row.counts.rx.frames) },
        Column { name: "bytes_tx", cell: |row| ColumnValue::Count(row.counts.tx.bytes) },
        Column { name: "bytes_rx", cell: |row| ColumnValue::Count(row.counts.rx.bytes) },
        Column { name: "frames_tx_rate", cell: |row| rate(row.counts.tx.rate) },
        Column { name: "frames_rx_rate", cell: |row| rate(row.counts.rx.rate) },
        Column { name: "bytes_tx_rate", cell: |row| rate(row.counts.tx.byte_rate()) },
        Column { name: "bytes_rx_rate", cell: |row| rate(row.counts.rx.byte_rate()) },
        Column { name: "last_change", cell: |row| ColumnValue::Count(row.counts.last_change_ns) },
        // The model has kilobytes per second.
        Column { name: "speed", cell: |row| ColumnValue::Count(row.counts.speed / 8000) },
    ];
}

fn on_off(is_on: bool, on: &'static str, off: &'static str) -> ColumnValue<'static> {
    ColumnValue::Text(if is_on { on } else { off })
}

/// A rate with three digits behind the point: clients read more as text.
fn rate(rate: f64) -> ColumnValue<'static> {
    ColumnValue::Number((rate * 1e3).round() / 1e3)
}

fn shown<'a>(is_shown: bool, cell: impl FnOnce() -> ColumnValue<'a>) -> ColumnValue<'a> {
    if is_shown { cell() } else { ColumnValue::Absent }
}
