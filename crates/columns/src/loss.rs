//! What a capture lost, as a file beside those of its packets.

use crate::keys::{Key, to_footer};
use crate::schema::{self, field};
use measure::LossRow;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::sync::Arc;

/// Name and version of the schema of losses.
pub const LOSS_SCHEMA: &str = "wirerate.loss/1";

/// The file of these rows.
pub fn loss_file(rows: &[LossRow], keys: &[Key]) -> Vec<u8> {
    let mut all_keys = vec![Key::schema(LOSS_SCHEMA)];
    all_keys.extend_from_slice(keys);
    let properties = WriterProperties::builder().set_key_value_metadata(Some(to_footer(&all_keys)));
    let number = |name| field(name, Physical::INT64, false);
    let schema = schema::group(
        "loss",
        vec![
            text("host"),
            text("device"),
            field("cpu", Physical::INT32, false),
            field("from_ns", Physical::INT64, true),
            field("to_ns", Physical::INT64, true),
            number("lost_nic"),
            number("lost_ring"),
            number("lost_disk"),
        ],
    );
    let root = schema.root_schema_ptr();
    let write = || -> Result<Vec<u8>> {
        let mut file = SerializedFileWriter::new(Vec::new(), root, Arc::new(properties.build()))?;
        let mut group = file.next_row_group()?;
        texts(&mut group, rows, |row| &row.host)?;
        texts(&mut group, rows, |row| &row.device)?;
        let cpus: Vec<i32> = rows.iter().filter_map(|row| row.cpu).map(u32::cast_signed).collect();
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.cpu.is_some())).collect();
        let mut column = group.next_column()?.expect("the schema has it");
        column.typed::<Int32Type>().write_batch(&cpus, Some(&levels), None)?;
        column.close()?;
        numbers(&mut group, rows, true, |row| Some(row.from_ns))?;
        numbers(&mut group, rows, true, |row| Some(row.to_ns))?;
        numbers(&mut group, rows, false, |row| row.lost_nic)?;
        numbers(&mut group, rows, false, |row| row.lost_ring)?;
        numbers(&mut group, rows, false, |row| row.lost_disk)?;
        group.close()?;
        file.into_inner()
    };
    write().expect("memory takes every byte")
}

fn text(name: &str) -> Arc<Type> {
    let field =
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY).with_repetition(Repetition::REQUIRED);
    Arc::new(field.with_logical_type(Some(LogicalType::String)).build().expect("the type is valid"))
}

fn texts(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    rows: &[LossRow],
    text: impl Fn(&LossRow) -> &String,
) -> Result<()> {
    let values: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(text(row).as_str())).collect();
    let mut column = group.next_column()?.expect("the schema has it");
    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
    column.close()
}

fn numbers(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    rows: &[LossRow],
    is_required: bool,
    number: impl Fn(&LossRow) -> Option<u64>,
) -> Result<()> {
    let values: Vec<i64> = rows.iter().filter_map(&number).map(u64::cast_signed).collect();
    let levels: Vec<i16> = rows.iter().map(|row| i16::from(number(row).is_some())).collect();
    let mut column = group.next_column()?.expect("the schema has it");
    column.typed::<Int64Type>().write_batch(&values, (!is_required).then_some(&levels[..]), None)?;
    column.close()
}
