//! The body of a block, read field by field, with its offset in the file for errors.

use crate::{ByteOrder, ReadError};

/// The bytes of a block that are not yet read.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a> {
    pub(crate) order: ByteOrder,
    bytes: &'a [u8],
    /// Where in the file `bytes` begins.
    offset: u64,
    /// Where in the file the block begins.
    block_offset: u64,
}

impl<'a> Body<'a> {
    /// The body of the block at `block_offset`: what follows its type and length.
    #[inline]
    pub(crate) fn new(order: ByteOrder, bytes: &'a [u8], block_offset: u64) -> Self {
        Self { order, bytes, offset: block_offset + 8, block_offset }
    }

    #[inline]
    pub(crate) fn block_offset(&self) -> u64 {
        self.block_offset
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Passes over up to `len` bytes.
    #[inline]
    pub(crate) fn skip(&mut self, len: usize) {
        let len = len.min(self.bytes.len());
        self.bytes = &self.bytes[len..];
        self.offset += len as u64;
    }

    #[inline]
    pub(crate) fn take(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], ReadError> {
        let Some(taken) = self.bytes.get(..len) else {
            let (needed, found) = (len as u64, self.bytes.len() as u64);
            return Err(ReadError::Field { offset: self.offset, what, needed, found });
        };
        self.skip(len);
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ReadError> {
        let taken = self.take(what, N)?;
        Ok(taken.try_into().expect("N bytes were taken"))
    }

    #[inline]
    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, ReadError> {
        self.array(what).map(|bytes| self.order.parse_u16(bytes))
    }

    #[inline]
    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, ReadError> {
        self.array(what).map(|bytes| self.order.parse_u32(bytes))
    }

    #[inline]
    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, ReadError> {
        self.array(what).map(|bytes| self.order.parse_u64(bytes))
    }

    #[inline]
    pub(crate) fn time(&mut self, what: &'static str) -> Result<u64, ReadError> {
        self.array(what).map(|bytes| self.order.parse_time(bytes))
    }
}
