//! Rows of metrics of frames with the same values of metric tags.

use crate::flow::FlowMetrics;
use crate::metrics::FlowCounts;
use crate::table::{Column, ColumnValue, MetricsRow};
use crate::tag::EgressTracking;

/// The tag of the port that received frames.
const RX_NAME: &str = "rx_name";

/// A tag and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagValue {
    /// Its name.
    pub name: String,
    /// Its value: a number in hexadecimal, or the name of a port.
    pub value: TagText,
}

/// The value of a tag as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagText {
    /// A number in hexadecimal, with 0x.
    Hex(String),
    /// A name.
    Name(String),
}

impl TagValue {
    /// The value of some bits.
    pub fn number(name: &str, value: u128) -> Self {
        Self { name: name.to_owned(), value: TagText::Hex(format!("{value:#x}")) }
    }

    /// The port that received the frames.
    pub fn rx_port(name: &str) -> Self {
        Self { name: RX_NAME.to_owned(), value: TagText::Name(name.to_owned()) }
    }

    /// True if a text of a client means this value.
    fn is(&self, text: &str) -> bool {
        match &self.value {
            TagText::Name(name) => name == text,
            TagText::Hex(hex) => {
                let number = |text: &str| {
                    let digits = text.trim_start_matches("0x").trim_start_matches("0X");
                    u128::from_str_radix(digits, 16).ok()
                };
                number(hex) == number(text)
            }
        }
    }
}

/// Which rows of values a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedQuery {
    /// False: none.
    pub include: bool,
    /// Columns, all if empty.
    pub columns: Vec<String>,
    /// Names of tags, each with the values that it may have; any if it has none.
    pub filters: Vec<(String, Vec<String>)>,
}

impl Default for TaggedQuery {
    fn default() -> Self {
        Self { include: true, columns: Vec::new(), filters: Vec::new() }
    }
}

impl TaggedQuery {
    /// True if the client asks for rows of these values.
    pub fn selects(&self, tags: &[TagValue]) -> bool {
        self.filters.iter().all(|(name, values)| {
            let tag = tags.iter().find(|tag| tag.name == *name);
            tag.is_some_and(|tag| values.is_empty() || values.iter().any(|value| tag.is(value)))
        })
    }
}

/// The frames of a flow with the same values.
#[derive(Clone, Debug, PartialEq)]
pub struct TaggedRow {
    /// The values.
    pub tags: Vec<TagValue>,
    /// Frames sent; none where only the receiver knows the values.
    pub sent: Option<u64>,
    /// The size of all frames, with FCS; none if there are several.
    pub size: Option<usize>,
    /// Frames that are to arrive for those that were sent.
    pub due: Option<u64>,
    /// What was received.
    pub counts: FlowCounts,
    /// What is measured of the flow.
    pub shown: FlowMetrics,
}

impl TaggedRow {
    fn loss(&self) -> ColumnValue<'_> {
        match self.due.filter(|_| self.shown.loss) {
            None => ColumnValue::Absent,
            Some(0) => ColumnValue::Number(0.0),
            Some(due) => {
                let lost = due.saturating_sub(self.counts.rx.frames);
                ColumnValue::Number(100.0 * lost as f64 / due as f64)
            }
        }
    }
}

impl MetricsRow for TaggedRow {
    const FIELD: &'static str = "tagged_metrics";
    const KEYS: usize = 1;
    const COLUMNS: &'static [Column<Self>] = &[
        Column { name: "tags", cell: |row| ColumnValue::Tags(&row.tags) },
        Column { name: "frames_tx", cell: |row| count(row.sent) },
        Column { name: "frames_rx", cell: |row| ColumnValue::Count(row.counts.rx.frames) },
        Column {
            name: "bytes_tx",
            cell: |row| count(row.sent.zip(row.size).map(|(n, size)| n * size as u64)),
        },
        Column { name: "bytes_rx", cell: |row| ColumnValue::Count(row.counts.rx.bytes) },
        Column { name: "loss", cell: TaggedRow::loss },
        Column { name: "timestamps", cell: |row| if_shown(row.shown.timestamps, row.counts.timestamps()) },
        Column { name: "latency", cell: |row| if_shown(row.shown.latency, row.counts.latency()) },
    ];
}

fn count(count: Option<u64>) -> ColumnValue<'static> {
    count.map_or(ColumnValue::Absent, ColumnValue::Count)
}

fn if_shown(is_shown: bool, cell: ColumnValue<'_>) -> ColumnValue<'_> {
    if is_shown { cell } else { ColumnValue::Absent }
}

/// All frames of a port with the same values.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressTaggedRow {
    /// The values.
    pub tags: Vec<TagValue>,
    /// What was received.
    pub counts: FlowCounts,
    has_timestamps: bool,
}

impl EgressTaggedRow {
    /// Of frames that `tracking` counts.
    pub fn new(tracking: &EgressTracking, tags: Vec<TagValue>, counts: FlowCounts) -> Self {
        Self { tags, counts, has_timestamps: tracking.timestamps }
    }
}

impl MetricsRow for EgressTaggedRow {
    const FIELD: &'static str = "tagged_metrics";
    const KEYS: usize = 1;
    const COLUMNS: &'static [Column<Self>] = &[
        Column { name: "tags", cell: |row| ColumnValue::EgressTags(&row.tags) },
        Column { name: "frames_rx", cell: |row| ColumnValue::Count(row.counts.rx.frames) },
        Column { name: "bytes_rx", cell: |row| ColumnValue::Count(row.counts.rx.bytes) },
        Column { name: "timestamps", cell: |row| if_shown(row.has_timestamps, row.counts.timestamps()) },
    ];
}

/// The row of a port that counts all its frames by values.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressRow {
    /// The port.
    pub port: String,
    /// Its values.
    pub tagged: Vec<EgressTaggedRow>,
    /// Columns of their rows that the client asks for, all if empty.
    pub columns: Vec<String>,
}

impl MetricsRow for EgressRow {
    const FIELD: &'static str = "egress_only_tracking_metrics";
    const KEYS: usize = 2;
    const COLUMNS: &'static [Column<Self>] = &[
        Column { name: "port_rx", cell: |row| ColumnValue::Text(&row.port) },
        Column { name: "tagged_metrics", cell: |row| ColumnValue::EgressRows(&row.tagged, &row.columns) },
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MetricsTable, TrafficCounts};
    use crate::model;
    use prost_reflect::DynamicMessage;
    use serde_json::json;

    #[test]
    fn filters_compare_numbers_and_names() {
        let tags = [TagValue::rx_port("p2"), TagValue::number("vlan", 31)];
        let selects = |name: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            TaggedQuery { filters: vec![(name.to_owned(), values)], ..TaggedQuery::default() }.selects(&tags)
        };
        assert!(selects("vlan", &["1f"]) && selects("vlan", &["2", "0x001F"]) && selects("vlan", &[]));
        assert!(!selects("vlan", &["31"]) && !selects("other", &[]));
        assert!(selects("rx_name", &["p2"]) && !selects("rx_name", &["p1"]));
        assert!(TaggedQuery::default().selects(&tags));
    }

    #[test]
    fn json_and_protobuf_agree() {
        let rx = TrafficCounts { frames: 3, bytes: 300, rate: 0.0 };
        let counts = FlowCounts { rx, first_last_ns: (1 << 30, 2 << 30), ..FlowCounts::default() };
        let tracking = EgressTracking { port: "p".to_owned(), tags: Vec::new(), timestamps: true };
        let tagged = vec![EgressTaggedRow::new(&tracking, vec![TagValue::number("tos", 0xb8)], counts)];
        let row = EgressRow { port: "p".to_owned(), tagged, columns: Vec::new() };
        let table = MetricsTable::of_egress(vec![row]);
        let times = json!({"first_timestamp_ns": 1073741824.0, "last_timestamp_ns": 2147483648.0});
        let tags = json!([{"name": "tos", "value": "0xb8"}]);
        let tagged = json!([{"tags": tags, "frames_rx": 3, "bytes_rx": 300, "timestamps": times}]);
        let expected = json!({"choice": "egress_only_tracking_metrics",
            "egress_only_tracking_metrics": [{"port_rx": "p", "tagged_metrics": tagged}]});
        assert_eq!(serde_json::to_value(&table).unwrap(), expected);
        let message = DynamicMessage::decode(model::message("MetricsResponse"), &table.encode()[..]).unwrap();
        assert_eq!(model::to_json(&message), expected);
    }
}
