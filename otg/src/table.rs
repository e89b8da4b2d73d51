//! Tables of metrics, to JSON and to protobuf.
//!
//! Tables of thousands of rows are written from their counts, without a value in memory per cell.
//! The numbers of protobuf are those of the model's descriptor.

use crate::model;
use crate::tagged::{EgressTaggedRow, TagText, TagValue, TaggedRow};
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
    /// Likewise of all frames of a port.
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

/// The same in protobuf.
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
