//! Reads the packets of a file back.

use crate::keys::{CapturedInterface, INTERFACES, SCHEMA};
use crate::schema::{COMMENT, RAW};
use crate::{ColumnsError, PACKET_SCHEMA};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows that are read at once: few, because rows may be long.
const ROWS_AT_ONCE: usize = 1024;

/// A packet that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredPacket {
    /// Nanoseconds since 1970, if it has a time.
    pub time_ns: Option<u64>,
    /// Number of its interface.
    pub interface: u32,
    /// Receive queue of the device.
    pub queue: Option<u32>,
    /// 1 if it came in, 2 if it went out.
    pub direction: Option<u8>,
    /// Its id in the capture file.
    pub packet_id: Option<u64>,
    /// Length on the link in bytes.
    pub frame_len: u32,
    comment: Option<ByteArray>,
    bytes: ByteArray,
}

impl StoredPacket {
    /// Its comment, if it has one that is text.
    pub fn comment(&self) -> Option<&str> {
        self.comment.as_ref().and_then(|comment| std::str::from_utf8(comment.data()).ok())
    }

    /// The captured bytes.
    pub fn data(&self) -> &[u8] {
        self.bytes.data()
    }
}

/// The packets of one file, in the order of its rows.
pub struct PacketReader<R: ChunkReader> {
    file: SerializedFileReader<R>,
    interfaces: Vec<CapturedInterface>,
    /// Number of the next row group.
    next_group: usize,
    columns: Option<PacketColumnReaders>,
    /// Packets that were read and not yet returned, the last one first.
    packets: Vec<StoredPacket>,
}

/// The columns of a row group that make a packet.
struct PacketColumnReaders {
    time_ns: ColumnReaderImpl<Int64Type>,
    interface: ColumnReaderImpl<Int32Type>,
    queue: ColumnReaderImpl<Int32Type>,
    /// Files of older versions have none of these three.
    direction: Option<ColumnReaderImpl<Int32Type>>,
    packet_id: Option<ColumnReaderImpl<Int64Type>>,
    comment: Option<ColumnReaderImpl<ByteArrayType>>,
    frame_len: ColumnReaderImpl<Int32Type>,
    data: ColumnReaderImpl<ByteArrayType>,
    rows_left: usize,
}

impl<R: ChunkReader + 'static> PacketReader<R> {
    /// Reads the footer.
    ///
    /// # Errors
    /// [`ColumnsError`], if it is no file of packets with their bytes.
    pub fn new(input: R) -> Result<Self, ColumnsError> {
        guarded(|| Self::open(input))
    }

    fn open(input: R) -> Result<Self, ColumnsError> {
        let file_len = input.len();
        let file = SerializedFileReader::new(input)?;
        check_places(file.metadata(), file_len)?;
        let metadata = file.metadata().file_metadata();
        let key = |name: &str| {
            let found = metadata.key_value_metadata()?.iter().find(|entry| entry.key == name)?;
            found.value.as_deref()
        };
        if key(SCHEMA) != Some(PACKET_SCHEMA) {
            return Err(ColumnsError::NotPackets);
        }
        if metadata.schema_descr().columns().iter().all(|column| column.name() != RAW) {
            return Err(ColumnsError::NoBytes);
        }
        let interfaces = key(INTERFACES).map(serde_json::from_str).transpose()?.unwrap_or_default();
        Ok(Self { file, interfaces, next_group: 0, columns: None, packets: Vec::new() })
    }

    /// The interfaces of the capture.
    pub fn interfaces(&self) -> &[CapturedInterface] {
        &self.interfaces
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`].
    pub fn next_packet(&mut self) -> Result<Option<StoredPacket>, ColumnsError> {
        match self.packets.pop() {
            Some(packet) => Ok(Some(packet)),
            None => guarded(|| self.read_on()),
        }
    }

    fn read_on(&mut self) -> Result<Option<StoredPacket>, ColumnsError> {
        while self.packets.is_empty() {
            match &mut self.columns {
                Some(columns) if columns.rows_left > 0 => self.packets = columns.read()?,
                _ if self.next_group < self.file.num_row_groups() => {
                    let group = self.file.get_row_group(self.next_group)?;
                    self.columns = Some(PacketColumnReaders::new(&*group)?);
                    self.next_group += 1;
                }
                _ => return Ok(None),
            }
        }
        Ok(self.packets.pop())
    }
}

/// Calls the Parquet library, which panics on some damaged files.
fn guarded<T>(read: impl FnOnce() -> Result<T, ColumnsError>) -> Result<T, ColumnsError> {
    // A reader that panicked is not used again.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(ColumnsError::Panicked(text.unwrap_or_else(|| "the Parquet library panicked".to_owned())))
    })
}

/// Checks that the columns of a row group follow each other inside of the file, as they were
/// written: the Parquet library panics on negative places, and on some pages of other columns.
fn check_places(metadata: &ParquetMetaData, file_len: u64) -> Result<(), ColumnsError> {
    let mut end_before = 0;
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for (number, column) in row_group.columns().iter().enumerate() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let within = |value: i64| u64::try_from(value).is_ok_and(|value| value <= file_len);
            let end = start.checked_add(column.compressed_size()).unwrap_or(-1);
            for (what, found) in [
                ("the start", start),
                ("the first data page", column.data_page_offset()),
                ("the length", column.compressed_size()),
                ("the end", end),
            ] {
                let is_in_order =
                    what != "the start" || found == end_before || (number == 0 && found > end_before);
                if !within(found) || !is_in_order {
                    let column = column.column_descr().name().to_owned();
                    return Err(ColumnsError::Place { group, column, what, found });
                }
            }
            end_before = end;
        }
    }
    Ok(())
}

impl PacketColumnReaders {
    fn new(group: &dyn RowGroupReader) -> Result<Self, ColumnsError> {
        Ok(Self {
            time_ns: column(group, "time_ns")?,
            interface: column(group, "interface")?,
            queue: column(group, "queue")?,
            direction: column_if_there(group, "direction")?,
            packet_id: column_if_there(group, "packet_id")?,
            comment: column_if_there(group, COMMENT)?,
            frame_len: column(group, "orig_len")?,
            data: column(group, RAW)?,
            rows_left: group.metadata().num_rows() as usize,
        })
    }

    /// Some packets, the last one first.
    fn read(&mut self) -> Result<Vec<StoredPacket>, ColumnsError> {
        let count = self.rows_left.min(ROWS_AT_ONCE);
        self.rows_left -= count;
        let times = optional_values(&mut self.time_ns, count)?;
        let interfaces = values(&mut self.interface, count)?;
        let frame_lens = values(&mut self.frame_len, count)?;
        let data: Vec<ByteArray> = values(&mut self.data, count)?;
        let queues = optional_values(&mut self.queue, count)?;
        let directions = values_if_there(self.direction.as_mut(), count)?;
        let ids = values_if_there(self.packet_id.as_mut(), count)?;
        let comments = values_if_there(self.comment.as_mut(), count)?;
        let extras = queues.into_iter().zip(directions).zip(ids).zip(comments);
        let rows = times.into_iter().zip(interfaces).zip(frame_lens).zip(data).zip(extras);
        let mut packets: Vec<StoredPacket> = rows
            .map(|((((time_ns, interface), frame_len), data), (((queue, direction), id), comment))| {
                StoredPacket {
                    direction: direction.and_then(|direction| u8::try_from(direction).ok()),
                    packet_id: id.map(i64::cast_unsigned),
                    comment,
                    time_ns: time_ns.map(i64::cast_unsigned),
                    interface: interface.cast_unsigned(),
                    queue: queue.map(i32::cast_unsigned),
                    frame_len: frame_len.cast_unsigned(),
                    bytes: data,
                }
            })
            .collect();
        if packets.len() != count {
            return Err(ColumnsError::Rows);
        }
        packets.reverse();
        Ok(packets)
    }
}

fn column<T: DataType>(group: &dyn RowGroupReader, name: &str) -> Result<ColumnReaderImpl<T>, ColumnsError> {
    let columns = group.metadata().columns();
    let number = columns.iter().position(|column| column.column_descr().name() == name);
    let number = number.filter(|number| columns[*number].column_type() == T::get_physical_type());
    let number = number.ok_or(ColumnsError::NotPackets)?;
    Ok(get_typed_column_reader(group.get_column_reader(number)?))
}

/// A column that files of older versions do not have.
fn column_if_there<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<Option<ColumnReaderImpl<T>>, ColumnsError> {
    let is_there = group.metadata().columns().iter().any(|column| column.column_descr().name() == name);
    is_there.then(|| column(group, name)).transpose()
}

/// Values of a column that may not be there: then there are none.
fn values_if_there<T: DataType>(
    column: Option<&mut ColumnReaderImpl<T>>,
    count: usize,
) -> Result<Vec<Option<T::T>>, ColumnsError> {
    column.map_or_else(|| Ok(vec![None; count]), |column| optional_values(column, count))
}

/// Values of a column that may have none; in files of older versions the times are required.
fn optional_values<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    count: usize,
) -> Result<Vec<Option<T::T>>, ColumnsError> {
    let (mut found, mut levels) = (Vec::with_capacity(count), Vec::with_capacity(count));
    column.read_records(count, Some(&mut levels), None, &mut found)?;
    if levels.is_empty() {
        return Ok(found.into_iter().map(Some).collect());
    }
    let mut found = found.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { found.next() } else { None }).collect())
}

fn values<T: DataType>(column: &mut ColumnReaderImpl<T>, count: usize) -> Result<Vec<T::T>, ColumnsError> {
    let mut values = Vec::with_capacity(count);
    column.read_records(count, None, None, &mut values)?;
    Ok(values)
}
