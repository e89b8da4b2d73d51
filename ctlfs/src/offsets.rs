//! Where a reader of one descriptor really is, although writes move its offset.
//!
//! procfs leaves the file offset alone on a write, so a write and then a read start at byte 0. The kernel's
//! FUSE client moves it on by the length written, and a server cannot stop that (with `FOPEN_STREAM` it could,
//! but then `lseek` fails with `ESPIPE`, and rewinding a control file is common). So each open remembers at
//! which offset the next plain read will arrive and which byte of the text that stands for. An offset that is
//! not the expected one came from `lseek` or `pread` and is taken as it is.
//!
//! What remains different from procfs: `lseek(fd, 0, SEEK_CUR)` after a write tells the moved offset, and a
//! seek to exactly the moved offset looks like no seek at all.

/// One descriptor's place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// Offset at which the next read or write arrives if nobody seeks.
    expected: u64,
    /// Byte of the text that `expected` stands for.
    place: u64,
}

impl Offsets {
    /// The byte of the text that a read at `offset` asks for.
    pub(crate) fn place_of(self, offset: u64) -> u64 {
        if offset == self.expected { self.place } else { offset }
    }

    /// Notes that `len` bytes were read at `offset`.
    pub(crate) fn after_read(&mut self, offset: u64, len: u64) {
        self.place = self.place_of(offset) + len;
        self.expected = offset + len;
    }

    /// Notes that `len` bytes were written at `offset`; with `O_APPEND` the offset says nothing about where
    /// the reader was.
    pub(crate) fn after_write(&mut self, offset: u64, len: u64, is_append: bool) {
        if !is_append {
            self.place = self.place_of(offset);
        }
        self.expected = offset + len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_after_a_write_starts_at_the_first_byte() {
        let mut offsets = Offsets::default();
        offsets.after_write(0, 9, false);
        assert_eq!(offsets.place_of(9), 0);
        offsets.after_read(9, 60);
        offsets.after_write(69, 9, false);
        assert_eq!(offsets.place_of(78), 60);
    }

    #[test]
    fn a_seek_is_taken_as_it_is() {
        let mut offsets = Offsets::default();
        offsets.after_write(0, 9, false);
        assert_eq!(offsets.place_of(0), 0);
        assert_eq!(offsets.place_of(8), 8);
        offsets.after_read(8, 5);
        assert_eq!(offsets.place_of(13), 13);
    }

    #[test]
    fn an_appending_write_leaves_the_reader_where_it_was() {
        let mut offsets = Offsets::default();
        offsets.after_read(0, 20);
        offsets.after_write(0, 7, true);
        assert_eq!(offsets.place_of(7), 20);
    }
}
