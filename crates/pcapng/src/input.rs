//! Reads a file one item (a block, a record) at a time.
//!
//! Memory grows with the bytes that arrive, not with the lengths that the file claims.

use crate::ReadError;
use std::io::{ErrorKind, Read};

/// Bytes asked from the input at once; how far the buffer may run ahead of what came.
const CHUNK_LEN: usize = 64 << 10;

/// An input and the item at hand, which stays where it was read: no byte is copied again but those
/// of the item at the end of a chunk.
#[derive(Debug)]
pub(crate) struct Input<R> {
    reader: R,
    /// Where the item at hand begins in the input.
    offset: u64,
    /// The first `end` bytes were read; the item at hand begins at `start`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    item_len: usize,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, offset: 0, buffer: Vec::new(), start: 0, end: 0, item_len: 0 }
    }

    /// Where the item at hand begins.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// What was read of the item at hand.
    #[inline]
    pub(crate) fn item(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.item_len]
    }

    /// The bytes that were read from the start of the item at hand on, also those behind it.
    pub(crate) fn read_ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The bytes behind the item at hand that were read already.
    #[inline]
    pub(crate) fn behind(&self) -> &[u8] {
        &self.buffer[self.start + self.item_len..self.end]
    }

    /// Begins the next item, of `len` bytes that were read already.
    #[inline]
    pub(crate) fn next_item_of(&mut self, len: usize) {
        self.next_item();
        self.item_len = len;
    }

    /// Drops the item at hand, which is whole: the next one begins behind it.
    #[inline]
    pub(crate) fn next_item(&mut self) {
        self.offset += self.item_len as u64;
        self.start += self.item_len;
        self.item_len = 0;
    }

    /// Reads on until the item has `end` bytes, which must be there, and gives those from `start`
    /// on. `what` is the part of the file that reaches to `end`.
    #[inline]
    pub(crate) fn require<const N: usize>(
        &mut self,
        what: &'static str,
        start: usize,
        end: usize,
    ) -> Result<[u8; N], ReadError> {
        self.require_len(what, end)?;
        Ok(self.item()[start..end].try_into().expect("the caller asks for as many bytes as it names"))
    }

    /// Reads on until the item has `len` bytes, which must be there.
    #[inline]
    pub(crate) fn require_len(&mut self, what: &'static str, len: usize) -> Result<(), ReadError> {
        let found = self.fill(len)?;
        if found < len { Err(self.truncated(what, len, found)) } else { Ok(()) }
    }

    #[cold]
    fn truncated(&self, what: &'static str, needed: usize, found: usize) -> ReadError {
        ReadError::Truncated { offset: self.offset, what, needed: needed as u64, found: found as u64 }
    }

    /// The item at hand ends after its first `len` bytes, which were read.
    pub(crate) fn shorten(&mut self, len: usize) {
        self.item_len = self.item_len.min(len);
    }

    /// Passes over the first `len` bytes of the item at hand, of which the rest is the item then.
    pub(crate) fn skip(&mut self, what: &'static str, len: u64) -> Result<(), ReadError> {
        let (offset, mut left) = (self.offset, len);
        loop {
            let here = (self.end - self.start).min(usize::try_from(left).unwrap_or(usize::MAX));
            (self.start, self.offset, left) =
                (self.start + here, self.offset + here as u64, left - here as u64);
            self.item_len = self.item_len.saturating_sub(here);
            if left == 0 {
                return Ok(());
            }
            if self.read()? == 0 {
                let found = len - left;
                self.offset = offset;
                return Err(ReadError::Truncated { offset, what, needed: len, found });
            }
        }
    }

    /// Reads on until the item has `len` bytes or the input ends; gives how many it has.
    #[inline]
    pub(crate) fn fill(&mut self, len: usize) -> Result<usize, ReadError> {
        if self.end - self.start < len {
            self.read_until(len)?;
        }
        self.item_len = self.item_len.max(len.min(self.end - self.start));
        Ok(self.item_len)
    }

    /// Reads until the buffer has `len` bytes of the item or the input ends.
    #[cold]
    fn read_until(&mut self, len: usize) -> Result<(), ReadError> {
        while self.end - self.start < len && self.read()? > 0 {}
        Ok(())
    }

    /// Reads what the input has, at most a chunk; 0 at its end.
    fn read(&mut self) -> Result<usize, ReadError> {
        if self.start > 0 && self.buffer.len() - self.end < CHUNK_LEN {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < CHUNK_LEN {
            self.buffer.resize(self.end + CHUNK_LEN, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..self.end + CHUNK_LEN]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { offset: self.offset, source }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promised_length_reserves_nothing() {
        let mut input = Input::new(&[1, 2, 3][..]);
        let error = input.require_len("block", 1 << 30).unwrap_err();
        assert!(matches!(error, ReadError::Truncated { needed: 0x4000_0000, found: 3, .. }));
        assert!(input.buffer.capacity() <= 2 * CHUNK_LEN);
        assert_eq!(input.item(), [1, 2, 3]);
    }

    /// Gives one byte at a time, with an interruption before each.
    struct Drip<'a>(&'a [u8], bool);

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            self.0.read(&mut into[..1])
        }
    }

    #[test]
    fn a_slow_input_is_waited_for() {
        let mut input = Input::new(Drip(&[1, 2, 3, 4, 5], false));
        assert_eq!(input.require("block", 1, 3).unwrap(), [2, 3]);
        input.next_item();
        assert_eq!((input.offset(), input.fill(4).unwrap()), (3, 2));
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _into: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("bad sector"))
        }
    }

    #[test]
    fn a_failing_input_is_told_with_its_place() {
        let mut input = Input::new((&[0; 9][..]).chain(Broken));
        input.require_len("block", 8).unwrap();
        input.next_item();
        assert_eq!(input.fill(8).unwrap_err().to_string(), "reading at byte 8 failed");
    }
}
