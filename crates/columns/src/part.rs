//! One file of packets: row groups, then a footer.
//!
//! Memory holds the row group at hand, encoded as far as pages are full. A row group that was not
//! stored is left out of the footer, so the file holds exactly the others.

use crate::column::{ColumnMaker, EncodedColumn};
use crate::keys::{Key, to_footer};
use crate::packets::{PacketColumns, PacketRow};
use crate::raw::EncodeQueue;
use crate::schema;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::page_index::PageIndexBuilder;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter,
    RowGroupMetaData, SortingColumn,
};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::SchemaDescPtr;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Most rows of a row group.
pub const ROWS_MAX: u64 = 1 << 20;

/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";
/// Rows that are collected before they are encoded.
const ROWS_AT_ONCE: u64 = 8192;
/// Bytes of the footer for one row group, at most: about 60 pages of 30 columns.
const FOOTER_LEN_MAX: usize = 256 << 10;
/// Bytes of a row without its captured bytes, encoded, as an estimate.
const ROW_LEN: u64 = 16;
const CREATED_BY: &str = concat!("wirerate version ", env!("CARGO_PKG_VERSION"));

/// A Parquet file of packets while it is written.
pub struct PartFile {
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    has_bytes: bool,
    queue: Option<EncodeQueue>,
    columns: PacketColumns,
    /// Rows of the row group at hand, those of them that are not encoded, and captured bytes.
    rows: u64,
    pending: u64,
    data_len: u64,
    last_ns: u64,
    is_in_order: bool,
    /// Length of the file so far.
    len: u64,
    kept: Vec<(RowGroupMetaData, Vec<ColumnCloseResult>)>,
}

/// An encoded row group.
pub struct RowGroup {
    bytes: Vec<u8>,
    len: u64,
    rows: u64,
    is_in_order: bool,
    columns: Vec<ColumnCloseResult>,
}

impl RowGroup {
    /// The bytes for the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Moves the bytes for the file out; [`PartFile::keep`] does not need them.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Number of its rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl PartFile {
    /// An empty file. `has_bytes` decides whether it has the captured bytes of packets.
    pub fn new(has_bytes: bool) -> Self {
        Self::with_queue(has_bytes, None)
    }

    /// An empty file, whose captured bytes the thread behind `queue` encodes.
    pub fn with_queue(has_bytes: bool, queue: Option<EncodeQueue>) -> Self {
        let (schema, properties) = (schema::packets(has_bytes), schema::properties());
        let columns = columns(&schema, &properties, has_bytes, queue.clone());
        Self {
            schema,
            properties,
            has_bytes,
            queue,
            columns,
            rows: 0,
            pending: 0,
            data_len: 0,
            last_ns: 0,
            is_in_order: true,
            len: MAGIC.len() as u64,
            kept: Vec::new(),
        }
    }

    /// What a file begins with.
    pub fn header() -> &'static [u8] {
        MAGIC
    }

    /// Adds a packet to the row group at hand.
    pub fn push(&mut self, row: &PacketRow<'_>) {
        self.columns.push(row);
        // Rows without a time are not last, where a sorted column has them.
        self.is_in_order &= row.time_ns.is_some_and(|time_ns| time_ns >= self.last_ns);
        self.last_ns = row.time_ns.unwrap_or(self.last_ns);
        (self.rows, self.pending) = (self.rows + 1, self.pending + 1);
        self.data_len += row.data.len() as u64;
        if self.pending == ROWS_AT_ONCE {
            self.columns.encode();
            self.pending = 0;
        }
    }

    /// Rows of the row group at hand.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the row group at hand in memory, as an estimate that is rather too high.
    pub fn pending_len(&self) -> u64 {
        self.rows * ROW_LEN + if self.has_bytes { self.data_len } else { 0 }
    }

    /// Length of the file so far: header and kept row groups.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if neither a row group was kept nor a packet is waiting.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.rows == 0
    }

    /// Bytes of a footer at most, if so many row groups more are kept.
    pub fn footer_len_max(&self, groups: usize, keys: &[Key]) -> usize {
        let keys_len: usize = keys.iter().map(|key| key.name.len() + key.value.len() + 16).sum();
        (self.kept.len() + groups + 1) * FOOTER_LEN_MAX + keys_len
    }

    /// Ends the row group at hand; `None` if it has no rows.
    pub fn end_row_group(&mut self) -> Option<RowGroup> {
        if self.rows == 0 {
            return None;
        }
        let next = columns(&self.schema, &self.properties, self.has_bytes, self.queue.clone());
        let encoded = std::mem::replace(&mut self.columns, next).close();
        let len = encoded.iter().map(|column| column.pages.len()).sum();
        let (mut bytes, mut columns) = (Vec::with_capacity(len), Vec::with_capacity(encoded.len()));
        for EncodedColumn { pages, close } in encoded {
            columns.push(placed(close, bytes.len() as u64));
            bytes.extend_from_slice(&pages);
        }
        let group = RowGroup {
            len: bytes.len() as u64,
            bytes,
            rows: self.rows,
            is_in_order: self.is_in_order,
            columns,
        };
        (self.rows, self.pending, self.data_len) = (0, 0, 0);
        (self.last_ns, self.is_in_order) = (0, true);
        Some(group)
    }

    /// Its bytes are in the file, behind those of the row groups that were kept before.
    pub fn keep(&mut self, group: RowGroup) {
        let columns: Vec<_> = group.columns.into_iter().map(|column| placed(column, self.len)).collect();
        let metadata = columns.iter().map(|column| column.metadata.clone()).collect::<Vec<_>>();
        let time_ns = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
        let builder = RowGroupMetaData::builder(Arc::clone(&self.schema))
            .set_total_byte_size(metadata.iter().map(ColumnChunkMetaData::uncompressed_size).sum())
            .set_column_metadata(metadata)
            .set_num_rows(group.rows.cast_signed())
            .set_sorting_columns(group.is_in_order.then(|| vec![time_ns]))
            .set_ordinal(self.kept.len() as i32)
            .set_file_offset(self.len.cast_signed());
        self.kept.push((builder.build().expect("each column has its metadata"), columns));
        self.len += group.len;
    }

    /// What ends the file. Makes this an empty file again.
    pub fn footer(&mut self, keys: &[Key]) -> Vec<u8> {
        let (kept, len) = (std::mem::take(&mut self.kept), self.len);
        self.len = MAGIC.len() as u64;
        let rows: i64 = kept.iter().map(|(group, _)| group.num_rows()).sum();
        let mut all_keys = vec![Key::schema(crate::PACKET_SCHEMA)];
        all_keys.extend_from_slice(keys);
        let file = FileMetaData::new(
            self.properties.writer_version().as_num(),
            rows,
            Some(CREATED_BY.to_owned()),
            Some(to_footer(&all_keys)),
            Arc::clone(&self.schema),
            None,
        );
        let mut pages = PageIndexBuilder::default();
        pages.allocate_column_indexes(kept.len(), self.schema.num_columns());
        pages.allocate_offset_indexes(kept.len(), self.schema.num_columns());
        let mut groups = Vec::with_capacity(kept.len());
        for (number, (group, columns)) in kept.into_iter().enumerate() {
            groups.push(group);
            for (column, close) in columns.into_iter().enumerate() {
                close
                    .column_index
                    .into_iter()
                    .for_each(|index| pages.put_column_index(index, number, column));
                close
                    .offset_index
                    .into_iter()
                    .for_each(|index| pages.put_offset_index(index, number, column));
            }
        }
        let file = ParquetMetaDataBuilder::new(file).set_row_groups(groups);
        let file = file.set_page_index(Some(Arc::new(pages.build()))).build();
        footer_at(len, &file).expect("memory takes every byte")
    }
}

fn columns(
    schema: &SchemaDescPtr,
    properties: &WriterPropertiesPtr,
    has_bytes: bool,
    queue: Option<EncodeQueue>,
) -> PacketColumns {
    PacketColumns::new(&mut ColumnMaker { schema, properties, next: 0 }, has_bytes, queue)
}

/// Moves what counts from the start of a column to where the column lies.
fn placed(mut column: ColumnCloseResult, offset: u64) -> ColumnCloseResult {
    let offset = offset.cast_signed();
    let metadata = column.metadata;
    let (data, dictionary) = (metadata.data_page_offset(), metadata.dictionary_page_offset());
    let builder = metadata.into_builder().set_data_page_offset(data + offset);
    let builder = builder.set_dictionary_page_offset(dictionary.map(|dictionary| dictionary + offset));
    column.metadata = builder.build().expect("only offsets changed");
    if let Some(pages) = &mut column.offset_index {
        pages.page_locations.iter_mut().for_each(|page| page.offset += offset);
    }
    column
}

/// The footer of a file, for its place behind `len` bytes: it tells where parts of itself are.
fn footer_at(len: u64, file: &ParquetMetaData) -> Result<Vec<u8>> {
    let mut footer = Vec::new();
    let mut tracked = TrackedWrite::new(Behind { skip: len, to: &mut footer });
    io::copy(&mut io::repeat(0).take(len), &mut tracked)?;
    ParquetMetaDataWriter::new_with_tracked(tracked, file).finish()?;
    Ok(footer)
}

/// Drops the first bytes that are written.
struct Behind<'a> {
    skip: u64,
    to: &'a mut Vec<u8>,
}

impl Write for Behind<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        self.to.extend_from_slice(&bytes[skipped as usize..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapturedInterface, ColumnsError, PacketReader};
    use bytes::Bytes;

    /// Frames of 0 to 96 bytes: what `tests/headers` of `packet` reads does not matter here.
    fn frames(count: u32) -> Vec<Vec<u8>> {
        (0..count).map(|number| (0..number % 97).map(|at| (number * 31 + at * at) as u8).collect()).collect()
    }

    fn row(number: u64, data: &[u8]) -> PacketRow<'_> {
        let queue = (!number.is_multiple_of(3)).then_some(number as u32 % 4);
        // Every fifth packet has no time.
        let time_ns = (!number.is_multiple_of(5)).then_some(1_795_367_298_569_058_753 + number);
        PacketRow {
            time_ns,
            queue,
            direction: [None, Some(1), Some(2)][number as usize % 3],
            packet_id: number.is_multiple_of(2).then_some(u64::MAX - number),
            comment: number.is_multiple_of(7).then_some("naïve"),
            frame_len: 1514,
            link_type: 1,
            interface: number as u32 % 2,
            data,
            ..PacketRow::default()
        }
    }

    /// The file with these row groups; those of `lost` are encoded and not kept.
    fn file(groups: &[Vec<Vec<u8>>], lost: usize, part: &mut PartFile) -> Vec<u8> {
        let (mut file, mut number) = (PartFile::header().to_vec(), 0);
        for (index, frames) in groups.iter().enumerate() {
            for frame in frames {
                part.push(&row(number, frame));
                number += 1;
            }
            let group = part.end_row_group().unwrap();
            assert_eq!(group.rows(), frames.len() as u64);
            if index != lost {
                file.extend_from_slice(group.bytes());
                part.keep(group);
            }
        }
        assert_eq!(part.len(), file.len() as u64);
        let keys = [Key::interfaces(&[CapturedInterface { link_type: 1, ..CapturedInterface::default() }])];
        let len_max = part.footer_len_max(0, &keys);
        let footer = part.footer(&keys);
        assert!(footer.len() <= len_max, "{} of {len_max}", footer.len());
        file.extend(footer);
        file
    }

    #[test]
    fn packets_come_back_and_lost_row_groups_do_not() {
        let groups = [frames(1_000), frames(20_000), frames(500)];
        let mut part = PartFile::new(true);
        // Twice: the second file has nothing of the first one.
        for lost in [1, 3] {
            let mut reader = PacketReader::new(Bytes::from(file(&groups, lost, &mut part))).unwrap();
            assert_eq!(reader.interfaces().len(), 1);
            let mut number = 0;
            for (index, frames) in groups.iter().enumerate() {
                for frame in frames {
                    let expected = row(number, frame);
                    number += 1;
                    if index == lost {
                        continue;
                    }
                    let read = reader.next_packet().unwrap().unwrap();
                    assert_eq!(read.data(), expected.data);
                    assert_eq!((read.time_ns, read.frame_len), (expected.time_ns, expected.frame_len));
                    assert_eq!((read.interface, read.queue), (expected.interface, expected.queue));
                    let extras = (read.direction, read.packet_id, read.comment());
                    assert_eq!(extras, (expected.direction, expected.packet_id, expected.comment));
                }
            }
            assert_eq!(reader.next_packet().unwrap(), None);
        }
    }

    /// Each byte of the footer in turn, and what the reader makes of the file.
    #[test]
    fn a_changed_byte_of_the_footer_is_an_error_and_no_panic() {
        let whole = file(&[frames(40), frames(30)], 9, &mut PartFile::new(true));
        let footer_len = u32::from_le_bytes(*whole[whole.len() - 8..].first_chunk().unwrap()) as usize;
        let footer = whole.len() - 8 - footer_len..whole.len();
        let (mut refused, mut panics) = (0, Vec::new());
        for place in footer.clone() {
            for value in [127, whole[place] ^ 0x80] {
                let mut damaged = whole.clone();
                damaged[place] = value;
                let read = || -> Result<u64, ColumnsError> {
                    let mut reader = PacketReader::new(Bytes::from(damaged))?;
                    let mut count = 0;
                    while reader.next_packet()?.is_some() {
                        count += 1;
                        assert!(count <= 1_000, "byte {place}: more packets than the file has");
                    }
                    Ok(count)
                };
                match read() {
                    Ok(_) => {}
                    Err(ColumnsError::Panicked(why)) => panics.push((place - footer.start, value, why)),
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(refused > footer_len / 4, "{refused} of {footer_len}");
        // Caught, but better found before the library panics.
        assert!(panics.is_empty(), "{panics:?}");
    }

    #[test]
    fn files_that_cannot_be_read_are_refused() {
        let without = file(&[frames(10)], 1, &mut PartFile::new(false));
        assert!(matches!(PacketReader::new(Bytes::from(without)), Err(ColumnsError::NoBytes)));
        let losses = crate::loss_file(&[measure::LossRow::default()], &[]);
        assert!(matches!(PacketReader::new(Bytes::from(losses)), Err(ColumnsError::NotPackets)));
        let whole = file(&[frames(10)], 1, &mut PartFile::new(true));
        let cut = Bytes::copy_from_slice(&whole[..whole.len() - 1]);
        assert!(matches!(PacketReader::new(cut), Err(ColumnsError::Damaged(_))));
    }
}
