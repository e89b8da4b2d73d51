//! Columns of the row group at hand: values are collected and encoded to pages in memory.

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::column::writer::{
    ColumnCloseResult, ColumnWriterImpl, get_column_writer, get_typed_column_writer,
};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescPtr;
use std::sync::{Arc, Mutex, PoisonError};

/// Why encoding cannot fail.
const INFALLIBLE: &str = "memory takes every byte, and values are of the column's type";

/// The pages of one column, shared with its writer.
#[derive(Clone, Default)]
struct Pages(Arc<Mutex<Vec<u8>>>);

impl PageWriter for Pages {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = pages.len() as u64;
        let mut tracked = TrackedWrite::new(&mut *pages);
        let mut spec = SerializedPageWriter::new(&mut tracked).write_page(page)?;
        tracked.into_inner()?;
        spec.offset += before;
        Ok(spec)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// One column of a row group, encoded; offsets count from its start.
pub(crate) struct EncodedColumn {
    pub(crate) pages: Vec<u8>,
    pub(crate) close: ColumnCloseResult,
}

/// A column of any type.
pub(crate) trait AnyColumn {
    /// The next column of the schema.
    ///
    /// # Panics
    /// When it has another type.
    fn next_of(make: &mut ColumnMaker<'_>) -> Self
    where
        Self: Sized;

    /// The type of its values.
    fn physical() -> Type
    where
        Self: Sized;

    /// Encodes the values so far.
    fn encode(&mut self);

    /// Ends the column, once.
    fn close(&mut self) -> EncodedColumn;
}

/// Makes the columns of a schema one after the other.
pub(crate) struct ColumnMaker<'a> {
    pub(crate) schema: &'a SchemaDescPtr,
    pub(crate) properties: &'a WriterPropertiesPtr,
    pub(crate) next: usize,
}

impl ColumnMaker<'_> {
    fn numbers<T: DataType>(&mut self) -> ValueColumn<T> {
        let description = self.schema.column(self.next);
        self.next += 1;
        let is_optional = description.max_def_level() > 0;
        let pages = Pages::default();
        let writer = get_column_writer(description, Arc::clone(self.properties), Box::new(pages.clone()));
        let (values, levels) = (Vec::new(), Vec::new());
        ValueColumn { values, levels, is_optional, writer: Some(get_typed_column_writer(writer)), pages }
    }
}

/// A column of numbers.
pub(crate) struct ValueColumn<T: DataType> {
    values: Vec<T::T>,
    /// 1 for a value, 0 for none.
    levels: Vec<i16>,
    is_optional: bool,
    /// `None` once it is closed.
    writer: Option<ColumnWriterImpl<'static, T>>,
    pages: Pages,
}

impl<T: DataType> ValueColumn<T> {
    #[inline]
    pub(crate) fn push(&mut self, value: T::T) {
        self.values.push(value);
        if self.is_optional {
            self.levels.push(1);
        }
    }

    #[inline]
    pub(crate) fn push_optional(&mut self, value: Option<T::T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

impl<T: DataType> AnyColumn for ValueColumn<T> {
    fn next_of(make: &mut ColumnMaker<'_>) -> Self {
        make.numbers()
    }

    fn physical() -> Type {
        T::get_physical_type()
    }

    fn encode(&mut self) {
        let levels = self.is_optional.then_some(&self.levels[..]);
        let writer = self.writer.as_mut().expect("it is not closed yet");
        writer.write_batch(&self.values, levels, None).expect(INFALLIBLE);
        self.values.clear();
        self.levels.clear();
    }

    fn close(&mut self) -> EncodedColumn {
        self.encode();
        let close =
            self.writer.take().map(ColumnWriterImpl::close).expect("encoding found it").expect(INFALLIBLE);
        let pages = std::mem::take(&mut *self.pages.0.lock().unwrap_or_else(PoisonError::into_inner));
        EncodedColumn { pages, close }
    }
}

/// A column of bytes, whose values lie one behind the other until they are encoded.
pub(crate) struct BytesColumn<T: DataType> {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    column: ValueColumn<T>,
}

impl<T: DataType> BytesColumn<T> {
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        if self.column.is_optional {
            self.column.levels.push(1);
        }
    }

    #[inline]
    pub(crate) fn push_optional(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.push(value),
            None => self.column.levels.push(0),
        }
    }
}

impl<T: DataType> BytesColumn<T>
where
    T::T: From<ByteArray>,
{
    /// Encodes values that lie in `bytes` one behind the other, each up to its end. Both vectors
    /// are empty then, and keep their memory.
    pub(crate) fn encode_values(&mut self, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let shared = Bytes::from(std::mem::take(bytes));
        let mut start = 0;
        let values = ends.drain(..).map(|end| {
            let value = shared.slice(start..end);
            start = end;
            T::T::from(ByteArray::from(value))
        });
        self.column.values.extend(values);
        self.column.encode();
        // The memory is used again: the last value of it is gone.
        *bytes = shared.try_into_mut().map(Vec::from).unwrap_or_default();
        bytes.clear();
    }
}

impl<T: DataType> AnyColumn for BytesColumn<T>
where
    T::T: From<ByteArray>,
{
    fn next_of(make: &mut ColumnMaker<'_>) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), column: make.numbers() }
    }

    fn physical() -> Type {
        T::get_physical_type()
    }

    fn encode(&mut self) {
        let (mut bytes, mut ends) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.ends));
        self.encode_values(&mut bytes, &mut ends);
        (self.bytes, self.ends) = (bytes, ends);
    }

    fn close(&mut self) -> EncodedColumn {
        self.encode();
        self.column.close()
    }
}
