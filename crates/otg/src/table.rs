//! Tables of metrics, to JSON and to protobuf.
//!
//! Tables of thousands of rows are written from their counts, without a value in memory per cell.
//! The numbers of protobuf are those of the model's descriptor.

use crate::counts::FlowCounts;
use crate::flow::FlowMetrics;
use crate::model;
use crate::tag::EgressTracking;
use prost_reflect::prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;

/// The value of a row in a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ColumnValue<'a> {
    /// A text, or the name of one of several values.
    Text(&'a str),
    Count(u64),
    Number(f64),
    /// A message of numbers: their names, and as many numbers.
    Numbers(&'static [&'static str], [f64; 3]),
    /// Rows by the values of tags, and the columns asked for.
    Tagged(&'a [TaggedRow], &'a [String]),
    /// Rows by the values of tags in all frames of a port, and the columns asked for.
    EgressRows(&'a [EgressTaggedRow], &'a [String]),
    /// Values of tags, with their kind.
    Tags(&'a [TagValue]),
    /// Values of tags as texts.
    EgressTags(&'a [TagValue]),
    /// The row has no value here.
    Absent,
}

/// A column of rows `R`.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    pub(crate) cell: fn(&R) -> ColumnValue<'_>,
}

/// A kind of rows.
pub(crate) trait MetricsRow: Sized + 'static {
    /// Their field in the model's `MetricsResponse`.
    const FIELD: &'static str;
    /// Their columns.
    const COLUMNS: &'static [Column<Self>];
    /// The first columns, which all answers have.
    const KEYS: usize;
}

/// The columns of an answer.
fn chosen<R: MetricsRow>(asked: &[String]) -> Vec<&'static Column<R>> {
    let is_chosen = |(index, column): &(usize, &Column<R>)| {
        asked.is_empty() || *index < R::KEYS || asked.iter().any(|name| name == column.name)
    };
    R::COLUMNS.iter().enumerate().filter(is_chosen).map(|(_, column)| column).collect()
}

/// The model's `MetricsResponse` in JSON, with the columns asked for.
pub(crate) fn serialize<R: MetricsRow, S: Serializer>(
    rows: &[R],
    asked: &[String],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut response = serializer.serialize_map(Some(2))?;
    response.serialize_entry("choice", R::FIELD)?;
    response.serialize_entry(R::FIELD, &ChosenCells { rows, columns: &chosen(asked) })?;
    response.end()
}

/// A list of rows.
struct ChosenCells<'a, R: 'static> {
    rows: &'a [R],
    columns: &'a [&'static Column<R>],
}

impl<R> Serialize for ChosenCells<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| RowCells { row, columns: self.columns }))
    }
}

struct RowCells<'a, R: 'static> {
    row: &'a R,
    columns: &'a [&'static Column<R>],
}

impl<R> Serialize for RowCells<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cells = self.columns.iter().map(|column| (column.name, (column.cell)(self.row)));
        serializer.collect_map(cells.filter(|(_, cell)| !matches!(cell, ColumnValue::Absent)))
    }
}

impl Serialize for ColumnValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Numbers(names, numbers) => serializer.collect_map(names.iter().zip(numbers)),
            Self::Tagged(rows, asked) => ChosenCells { rows, columns: &chosen(asked) }.serialize(serializer),
            Self::EgressRows(rows, asked) => {
                ChosenCells { rows, columns: &chosen(asked) }.serialize(serializer)
            }
            Self::Tags(tags) => {
                serializer.collect_seq(tags.iter().map(|tag| TagCells { tag, has_kind: true }))
            }
            Self::EgressTags(tags) => {
                serializer.collect_seq(tags.iter().map(|tag| TagCells { tag, has_kind: false }))
            }
            Self::Absent => serializer.serialize_unit(),
        }
    }
}

/// A tag of a row: a name and a value.
struct TagCells<'a> {
    tag: &'a TagValue,
    has_kind: bool,
}

impl Serialize for TagCells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, text) = kind_and_text(&self.tag.value);
        let mut tag = serializer.serialize_map(Some(2))?;
        tag.serialize_entry("name", &self.tag.name)?;
        match self.has_kind {
            true => tag.serialize_entry("value", &BTreeMap::from([("choice", kind), (kind, text)]))?,
            false => tag.serialize_entry("value", text)?,
        }
        tag.end()
    }
}

/// The name of the kind of a value, and its text.
fn kind_and_text(value: &TagText) -> (&'static str, &str) {
    match value {
        TagText::Hex(text) => ("hex", text),
        TagText::Name(text) => ("str", text),
    }
}

/// The model's `MetricsResponse` in protobuf, with the columns asked for.
pub(crate) fn encode<R: MetricsRow>(rows: &[R], asked: &[String]) -> Vec<u8> {
    let response = model::message("MetricsResponse");
    let list = model::field(&response, R::FIELD);
    let mut message = Vec::new();
    put(&model::field(&response, "choice"), ColumnValue::Text(R::FIELD), &mut message);
    put_rows(&list, rows, asked, &mut message);
    message
}

/// Writes a list of rows.
fn put_rows<R: MetricsRow>(list: &FieldDescriptor, rows: &[R], asked: &[String], out: &mut Vec<u8>) {
    let columns: Vec<(&Column<R>, FieldDescriptor)> = match list.kind() {
        Kind::Message(row) => {
            chosen(asked).into_iter().map(|column| (column, model::field(&row, column.name))).collect()
        }
        kind => unreachable!("{} is {kind:?}", R::FIELD),
    };
    let mut bytes = Vec::new();
    for row in rows {
        bytes.clear();
        columns.iter().for_each(|(column, field)| put(field, (column.cell)(row), &mut bytes));
        model::put_bytes(list.number(), &bytes, out);
    }
}

/// Writes the tags of a row. Their values are texts, or messages with a kind.
fn put_tags(field: &FieldDescriptor, message: &MessageDescriptor, tags: &[TagValue], out: &mut Vec<u8>) {
    let value = model::field(message, "value");
    for tag in tags {
        let (kind, text) = kind_and_text(&tag.value);
        let mut bytes = Vec::new();
        put(&model::field(message, "name"), ColumnValue::Text(&tag.name), &mut bytes);
        match value.kind() {
            Kind::Message(kinds) => {
                let mut inner = Vec::new();
                put(&model::field(&kinds, "choice"), ColumnValue::Text(kind), &mut inner);
                put(&model::field(&kinds, kind), ColumnValue::Text(text), &mut inner);
                model::put_bytes(value.number(), &inner, &mut bytes);
            }
            _ => put(&value, ColumnValue::Text(text), &mut bytes),
        }
        model::put_bytes(field.number(), &bytes, out);
    }
}

/// Writes a field; also one that is 0, because the model's fields are optional.
fn put(field: &FieldDescriptor, cell: ColumnValue, out: &mut Vec<u8>) {
    let number = field.number();
    match (cell, field.kind()) {
        (ColumnValue::Absent, _) => {}
        (ColumnValue::Text(text), Kind::String) => model::put_bytes(number, text.as_bytes(), out),
        (ColumnValue::Text(text), Kind::Enum(names)) => {
            let value = names.get_value_by_name(text).expect("the model has the name");
            put_count(number, value.number() as u64, out);
        }
        (ColumnValue::Count(count), Kind::Uint64) => put_count(number, count, out),
        (ColumnValue::Number(value), Kind::Float) => {
            encode_key(number, WireType::ThirtyTwoBit, out);
            out.extend((value as f32).to_le_bytes());
        }
        (ColumnValue::Number(value), Kind::Double) => {
            encode_key(number, WireType::SixtyFourBit, out);
            out.extend(value.to_le_bytes());
        }
        (ColumnValue::Numbers(names, numbers), Kind::Message(message)) => {
            model::put_bytes(number, &encode_numbers(&message, names, &numbers), out);
        }
        (ColumnValue::Tagged(rows, asked), _) => put_rows(field, rows, asked, out),
        (ColumnValue::EgressRows(rows, asked), _) => put_rows(field, rows, asked, out),
        (ColumnValue::Tags(tags) | ColumnValue::EgressTags(tags), Kind::Message(message)) => {
            put_tags(field, &message, tags, out);
        }
        (cell, kind) => unreachable!("{} is {kind:?}, not {cell:?}", field.full_name()),
    }
}

fn put_count(number: u32, count: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(count, out);
}

fn encode_numbers(message: &MessageDescriptor, names: &[&str], numbers: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    for (name, value) in names.iter().zip(numbers) {
        put(&model::field(message, name), ColumnValue::Number(*value), &mut bytes);
    }
    bytes
}

/// The latencies of a flow.
pub(crate) fn latency(counts: &FlowCounts) -> ColumnValue<'static> {
    let (minimum, maximum, average) = counts.latency_ns;
    let names = &["minimum_ns", "maximum_ns", "average_ns"];
    ColumnValue::Numbers(names, [minimum.round(), maximum.round(), average.round()])
}

/// The times of its first and its last frame.
pub(crate) fn timestamps(counts: &FlowCounts) -> ColumnValue<'static> {
    let (first, last) = counts.first_last_ns;
    ColumnValue::Numbers(&["first_timestamp_ns", "last_timestamp_ns"], [first as f64, last as f64, 0.0])
}

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
        Column { name: "timestamps", cell: |row| if_shown(row.shown.timestamps, timestamps(&row.counts)) },
        Column { name: "latency", cell: |row| if_shown(row.shown.latency, latency(&row.counts)) },
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
        Column { name: "timestamps", cell: |row| if_shown(row.has_timestamps, timestamps(&row.counts)) },
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
