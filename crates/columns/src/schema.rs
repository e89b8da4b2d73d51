//! The columns of packets: names, types and encodings.

use crate::packets::header_fields;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type};
use std::sync::Arc;

/// Name and version of the packets' schema.
pub const PACKET_SCHEMA: &str = "wirerate.packet/1";

/// The column of the captured bytes.
pub(crate) const RAW: &str = "raw";
/// The column of comments: text.
pub(crate) const COMMENT: &str = "comment";
/// Columns whose values grow from row to row, mostly.
const GROWING: [&str; 4] = ["time_ns", "wr_seq", "wr_sent_ns", "ip_id"];

/// Dictionaries of more bytes are given up within a row group. Looking values up in a large one
/// takes most of the time, and saves no space.
const DICTIONARY_LEN_MAX: usize = 16 << 10;

/// The schema of files with or without the captured bytes.
pub(crate) fn packets(has_bytes: bool) -> SchemaDescPtr {
    let raw = has_bytes.then_some((RAW, Physical::BYTE_ARRAY, true));
    let fields = header_fields()
        .into_iter()
        .chain(raw)
        .map(|(name, physical, is_required)| field(name, physical, is_required));
    group("packet", fields.collect())
}

/// One column; fixed lengths are those of IPv6 addresses.
pub(crate) fn field(name: &str, physical: Physical, is_required: bool) -> Arc<Type> {
    let repetition = if is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    let len = if physical == Physical::FIXED_LEN_BYTE_ARRAY { 16 } else { 0 };
    let field = Type::primitive_type_builder(name, physical).with_repetition(repetition).with_length(len);
    let field = match name {
        COMMENT => field.with_logical_type(Some(LogicalType::String)),
        _ => field,
    };
    Arc::new(field.build().expect("the type is valid"))
}

/// A schema of these columns.
pub(crate) fn group(name: &str, fields: Vec<Arc<Type>>) -> SchemaDescPtr {
    let group = Type::group_type_builder(name).with_fields(fields).build();
    Arc::new(SchemaDescriptor::new(Arc::new(group.expect("names differ"))))
}

/// How columns are encoded.
pub(crate) fn properties() -> WriterPropertiesPtr {
    let level = ZstdLevel::try_new(1).expect("1 is a level");
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_page_size_limit(DICTIONARY_LEN_MAX)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_column_statistics_enabled(ColumnPath::from(RAW), EnabledStatistics::None)
        .set_column_dictionary_enabled(ColumnPath::from(RAW), false)
        .set_column_encoding(ColumnPath::from(RAW), Encoding::PLAIN);
    for name in GROWING {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(name), false)
            .set_column_encoding(ColumnPath::from(name), Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(properties.build())
}
