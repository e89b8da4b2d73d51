//! One open of a control file: the text that its reader sees, and the offset in it.
//!
//! procfs does not change the file offset on a write, so a read after a write starts at byte 0. The
//! kernel's FUSE client moves the offset by the length written, and a server cannot prevent that.
//! (`FOPEN_STREAM` would, but then `lseek` fails with `ESPIPE`, and scripts often rewind control
//! files.) So each open stores the offset at which the next plain read will arrive, and the byte of
//! the text for it. Any other offset comes from `lseek` or `pread` and is used as it is.
//!
//! Two differences from procfs remain: `lseek(fd, 0, SEEK_CUR)` after a write returns the moved
//! offset, and a seek to exactly the moved offset cannot be told from no seek.

use crate::tree::{Cancel, Errno, Tree};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// One descriptor's place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// Offset at which the next read or write arrives without a seek.
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

    /// Notes that `len` bytes were written at `offset`; with `O_APPEND` the offset says nothing
    /// about where the reader was.
    pub(crate) fn after_write(&mut self, offset: u64, len: u64, is_append: bool) {
        if !is_append {
            self.place = self.place_of(offset);
        }
        self.expected = offset + len;
    }
}

/// The seq_file position of one open.
#[derive(Debug, Default)]
struct Reading {
    offsets: Offsets,
    /// The text being shown and the byte at which the last read of it ended.
    snapshot: Option<(Vec<u8>, u64)>,
}

/// One open of a control file.
pub(crate) struct Handle {
    tree: Weak<dyn Tree>,
    name: OsString,
    is_append: bool,
    reading: Mutex<Reading>,
}

impl Handle {
    /// Nothing read yet. An open file does not keep its tree.
    pub(crate) fn new(tree: &Arc<dyn Tree>, name: OsString, is_append: bool) -> Self {
        Self { tree: Arc::downgrade(tree), name, is_append, reading: Mutex::default() }
    }

    /// The name of the file, for people.
    pub(crate) fn name(&self) -> std::path::Display<'_> {
        std::path::Path::new(&self.name).display()
    }

    fn tree(&self) -> Result<Arc<dyn Tree>, Errno> {
        self.tree.upgrade().ok_or(Errno::EIO)
    }

    /// True when only a process with CAP_NET_ADMIN may write.
    pub(crate) fn needs_net_admin(&self) -> bool {
        self.tree().is_ok_and(|tree| tree.needs_net_admin(&self.name))
    }

    /// Up to `size` bytes at `offset` of the snapshot; a reader that starts or seeks gets a new
    /// one.
    pub(crate) fn read(&self, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let place = reading.offsets.place_of(offset);
        let text = match reading.snapshot.take() {
            Some((text, end)) if place == end && place != 0 => text,
            _ => self.tree()?.read(&self.name).map_err(of_open_file)?,
        };
        let start = usize::try_from(place).unwrap_or(usize::MAX).min(text.len());
        let data = text[start..].iter().take(size as usize).copied().collect::<Vec<u8>>();
        reading.offsets.after_read(offset, data.len() as u64);
        reading.snapshot = Some((text, place + data.len() as u64));
        Ok(data)
    }

    /// One command.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8], cancel: &Cancel) -> Result<(), Errno> {
        self.tree()?.write(&self.name, bytes, cancel).map_err(of_open_file)?;
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).offsets.after_write(
            offset,
            bytes.len() as u64,
            self.is_append,
        );
        Ok(())
    }
}

/// procfs answers EIO on a descriptor whose file is gone.
fn of_open_file(errno: Errno) -> Errno {
    if errno == Errno::ENOENT { Errno::EIO } else { errno }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// One file whose text counts how often it was asked for.
    #[derive(Default)]
    struct Counter(AtomicU32);

    impl Tree for Counter {
        fn names(&self) -> Vec<OsString> {
            vec!["lo".into()]
        }
        fn contains(&self, name: &OsStr) -> bool {
            name == "lo"
        }
        fn read(&self, _name: &OsStr) -> std::result::Result<Vec<u8>, Errno> {
            Ok(format!("text {}\n", self.0.fetch_add(1, Ordering::Relaxed)).into_bytes())
        }
        fn write(&self, _name: &OsStr, _bytes: &[u8], _cancel: &Cancel) -> std::result::Result<(), Errno> {
            Ok(())
        }
        fn drain(&self) {}
    }

    fn opened() -> (Arc<dyn Tree>, Handle) {
        let tree: Arc<dyn Tree> = Arc::new(Counter::default());
        let handle = Handle::new(&tree, "lo".into(), false);
        (tree, handle)
    }

    #[test]
    fn small_reads_show_one_snapshot_and_then_end() {
        let (_tree, handle) = opened();
        let mut text = Vec::new();
        loop {
            let piece = handle.read(text.len() as u64, 2).unwrap();
            if piece.is_empty() {
                break;
            }
            text.extend(piece);
        }
        assert_eq!(text, b"text 0\n");
    }

    #[test]
    fn a_seek_makes_a_new_snapshot() {
        let (_tree, handle) = opened();
        assert_eq!(handle.read(0, 100).unwrap(), b"text 0\n");
        assert_eq!(handle.read(0, 3).unwrap(), b"tex");
        assert_eq!(handle.read(5, 100).unwrap(), b"2\n");
    }

    #[test]
    fn a_write_does_not_move_the_reader() {
        let (_tree, handle) = opened();
        handle.write(0, b"count 5\n", &Cancel::new()).unwrap();
        assert_eq!(handle.read(8, 4).unwrap(), b"text");
        handle.write(12, b"count 6\n", &Cancel::new()).unwrap();
        assert_eq!(handle.read(20, 100).unwrap(), b" 0\n");
    }

    #[test]
    fn an_open_file_whose_tree_has_ended_answers_eio() {
        let (tree, handle) = opened();
        assert!(handle.read(0, 100).is_ok());
        drop(tree);
        assert_eq!(handle.read(0, 100), Err(Errno::EIO));
        assert_eq!(handle.write(0, b"count 5\n", &Cancel::new()), Err(Errno::EIO));
    }

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
