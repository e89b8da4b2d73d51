//! Reads the packets of a file back.

use crate::keys::{CapturedInterface, INTERFACES, SCHEMA};
use crate::schema::RAW;
use crate::{ColumnsError, PACKET_SCHEMA};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};

/// Rows that are read at once: few, because rows may be long.
const ROWS_AT_ONCE: usize = 1024;

/// A packet that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredPacket {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Number of its interface.
    pub interface: u32,
    /// Receive queue of the device.
    pub queue: Option<u32>,
    /// Length on the link in bytes.
    pub frame_len: u32,
    bytes: ByteArray,
}

impl StoredPacket {
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
        let file = SerializedFileReader::new(input)?;
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

impl PacketColumnReaders {
    fn new(group: &dyn RowGroupReader) -> Result<Self, ColumnsError> {
        Ok(Self {
            time_ns: column(group, "time_ns")?,
            interface: column(group, "interface")?,
            queue: column(group, "queue")?,
            frame_len: column(group, "orig_len")?,
            data: column(group, RAW)?,
            rows_left: group.metadata().num_rows() as usize,
        })
    }

    /// Some packets, the last one first.
    fn read(&mut self) -> Result<Vec<StoredPacket>, ColumnsError> {
        let count = self.rows_left.min(ROWS_AT_ONCE);
        self.rows_left -= count;
        let times = values(&mut self.time_ns, count)?;
        let interfaces = values(&mut self.interface, count)?;
        let frame_lens = values(&mut self.frame_len, count)?;
        let data: Vec<ByteArray> = values(&mut self.data, count)?;
        let (mut queues, mut levels) = (Vec::with_capacity(count), Vec::with_capacity(count));
        self.queue.read_records(count, Some(&mut levels), None, &mut queues)?;
        let mut queues = queues.into_iter();
        let rows = times.into_iter().zip(interfaces).zip(frame_lens).zip(data).zip(levels);
        let mut packets: Vec<StoredPacket> = rows
            .map(|((((time_ns, interface), frame_len), data), level)| StoredPacket {
                time_ns: time_ns.cast_unsigned(),
                interface: interface.cast_unsigned(),
                queue: if level > 0 { queues.next().map(i32::cast_unsigned) } else { None },
                frame_len: frame_len.cast_unsigned(),
                bytes: data,
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

fn values<T: DataType>(column: &mut ColumnReaderImpl<T>, count: usize) -> Result<Vec<T::T>, ColumnsError> {
    let mut values = Vec::with_capacity(count);
    column.read_records(count, None, None, &mut values)?;
    Ok(values)
}
