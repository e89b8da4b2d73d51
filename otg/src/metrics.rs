//! Rows of metrics, as messages of the model.
//!
//! A row has all its fields, also those that are 0, unless the request names columns: clients read
//! fields that are absent as errors.

use crate::flow::FlowConfig;
use serde_json::{Map, Value, json};

/// What a flow does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowState {
    /// Nothing is sent, and no more frames will arrive.
    #[default]
    Stopped,
    /// Frames are sent or on their way.
    Started,
    /// Stopped for a while.
    Paused,
}

/// Counts of frames and bytes with FCS, and frames per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrafficCounts {
    /// Frames.
    pub frames: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Frames per second now.
    pub rate: f64,
}

/// What was measured of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowCounts {
    /// What it does.
    pub state: FlowState,
    /// Accepted by the driver since the start.
    pub tx: TrafficCounts,
    /// Received at its ports.
    pub rx: TrafficCounts,
    /// Lowest, highest and mean latency in nanoseconds.
    pub latency_ns: (f64, f64, f64),
    /// Times of the first and the last received frame, in nanoseconds since 1970.
    pub first_last_ns: (u64, u64),
}

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

impl FlowState {
    fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Started => "started",
            Self::Paused => "paused",
        }
    }
}

fn on_off(is_on: bool, on: &'static str, off: &'static str) -> &'static str {
    if is_on { on } else { off }
}

/// A rate with three digits behind the point: clients read more as text.
fn rounded(rate: f64) -> f64 {
    (rate * 1e3).round() / 1e3
}

/// The row of a flow; `columns` names those asked for, all if empty.
pub fn flow_row(flow: &FlowConfig, counts: &FlowCounts, columns: &[String]) -> Value {
    let FlowCounts { state, tx, rx, .. } = counts;
    let mut row = json!({
        "name": flow.name,
        "port_tx": flow.tx_port,
        "port_rx": flow.rx_ports.join(","),
        "transmit": state.name(),
        "frames_tx": tx.frames,
        "frames_rx": rx.frames,
        "bytes_tx": tx.bytes,
        "bytes_rx": rx.bytes,
        "frames_tx_rate": rounded(tx.rate),
        "frames_rx_rate": rounded(rx.rate),
    });
    let fields = row.as_object_mut().expect("a row is an object");
    for (side, counts) in [("tx", tx), ("rx", rx)] {
        let mean = if counts.frames == 0 { 0.0 } else { counts.bytes as f64 / counts.frames as f64 };
        let bytes = counts.rate * mean;
        let mut put = |name: String, rate: f64| fields.insert(name, json!(rounded(rate)));
        put(format!("{side}_l1_rate_bps"), 8.0 * (bytes + 20.0 * counts.rate));
        put(format!("{side}_rate_bytes"), bytes);
        put(format!("{side}_rate_bps"), 8.0 * bytes);
        put(format!("{side}_rate_kbps"), 8e-3 * bytes);
        put(format!("{side}_rate_mbps"), 8e-6 * bytes);
    }
    if flow.metrics.loss {
        let lost = tx.frames.saturating_sub(rx.frames);
        let loss = if tx.frames == 0 { 0.0 } else { 100.0 * lost as f64 / tx.frames as f64 };
        fields.insert("loss".to_owned(), json!(loss));
    }
    if flow.metrics.latency {
        let (minimum, maximum, average) = counts.latency_ns;
        let latency = json!({
            "minimum_ns": minimum.round(), "maximum_ns": maximum.round(), "average_ns": average.round()
        });
        fields.insert("latency".to_owned(), latency);
    }
    if flow.metrics.timestamps {
        let (first, last) = counts.first_last_ns;
        let times = json!({"first_timestamp_ns": first as f64, "last_timestamp_ns": last as f64});
        fields.insert("timestamps".to_owned(), times);
    }
    only(row, columns, &["name", "port_tx", "port_rx"])
}

/// The row of a port.
pub fn port_row(name: &str, location: &str, counts: &PortCounts, columns: &[String]) -> Value {
    let PortCounts { tx, rx, .. } = counts;
    let row = json!({
        "name": name,
        "location": location,
        "link": on_off(counts.is_up, "up", "down"),
        "capture": on_off(counts.is_capturing, "started", "stopped"),
        "transmit": on_off(counts.is_sending, "started", "stopped"),
        "frames_tx": tx.frames,
        "frames_rx": rx.frames,
        "bytes_tx": tx.bytes,
        "bytes_rx": rx.bytes,
        "frames_tx_rate": rounded(tx.rate),
        "frames_rx_rate": rounded(rx.rate),
        "bytes_tx_rate": rounded(byte_rate(tx)),
        "bytes_rx_rate": rounded(byte_rate(rx)),
        "last_change": counts.last_change_ns,
        // The model has kilobytes per second.
        "speed": counts.speed / 8000,
    });
    only(row, columns, &["name"])
}

fn byte_rate(counts: &TrafficCounts) -> f64 {
    if counts.frames == 0 { 0.0 } else { counts.rate * counts.bytes as f64 / counts.frames as f64 }
}

fn only(row: Value, columns: &[String], always: &[&str]) -> Value {
    let Value::Object(fields) = row else { return row };
    if columns.is_empty() {
        return Value::Object(fields);
    }
    let is_asked = |name: &String| columns.contains(name) || always.contains(&&name[..]);
    Value::Object(fields.into_iter().filter(|(name, _)| is_asked(name)).collect::<Map<_, _>>())
}
