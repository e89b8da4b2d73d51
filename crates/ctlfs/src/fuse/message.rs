//! The fields of requests and answers, in the order of `include/uapi/linux/fuse.h`: numbers in the
//! processor's byte order, names that end with a zero byte.

use super::{Attributes, Caller, DirectoryRow, Entry, FileKind, Opened, Result};
use crate::tree::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Length of `struct fuse_in_header`.
const REQUEST_HEADER_LEN: usize = 40;
/// Length of `struct fuse_write_in`.
const WRITE_ARGUMENTS_LEN: usize = 40;
/// Length of `struct fuse_out_header`.
const ANSWER_HEADER_LEN: usize = 16;
/// `FUSE_MIN_READ_BUFFER`: the kernel refuses reads into less.
const BUFFER_LEN_MIN: usize = 8192;
/// What `stat` calls a good size for reads and writes, as procfs does.
const BLOCK_BYTES: u32 = 1024;
/// Rows of a directory start at multiples of it.
const ROW_ALIGNMENT: usize = 8;

/// `enum fuse_opcode`, as far as it is answered.
pub(super) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const POLL: u32 = 40;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const RENAME2: u32 = 45;
}

/// Bytes to read a request into, if writes have at most `write_bytes_max`.
pub(super) fn buffer_len(write_bytes_max: u32) -> usize {
    BUFFER_LEN_MIN.max(REQUEST_HEADER_LEN + WRITE_ARGUMENTS_LEN + write_bytes_max as usize)
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) opcode: u32,
    /// What it is about.
    pub(super) node: u64,
    /// Its number.
    pub(super) unique: u64,
    pub(super) caller: Caller,
}

impl Request {
    /// Splits a message into the header and what follows.
    pub(super) fn parse(message: &[u8]) -> Result<(Self, Arguments<'_>)> {
        let mut fields = Arguments(message);
        let (_len, opcode, unique) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let (node, uid, _gid) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let (tid, _extensions) = (fields.u32()?, fields.u32()?);
        Ok((Self { opcode, node, unique, caller: Caller { uid, tid } }, fields))
    }
}

/// Fields that were not read yet. Reading past the end is EINVAL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    fn bytes<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Errno::EINVAL)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    /// Passes over some bytes.
    pub(super) fn skip(&mut self, len: usize) -> Result<()> {
        self.0 = self.0.get(len..).ok_or(Errno::EINVAL)?;
        Ok(())
    }

    pub(super) fn name(&mut self) -> Result<&'a OsStr> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(OsStr::from_bytes(name))
    }

    /// The last field, of that length.
    pub(super) fn data(self, len: u32) -> Result<&'a [u8]> {
        self.0.get(..len as usize).ok_or(Errno::EINVAL)
    }
}

/// `struct fuse_out_header`, in front of the bytes of an answer or (`unique` is 0) of a message to
/// the kernel.
pub(super) fn answer_header(unique: u64, error: i32, len: usize) -> Answer {
    let len = u32::try_from(ANSWER_HEADER_LEN + len).expect("an answer is shorter than 4 GiB");
    Answer::default().u32(len).u32(error.cast_unsigned()).u64(unique)
}

/// The fields of an answer.
#[derive(Debug, Default)]
pub(super) struct Answer(pub(super) Vec<u8>);

impl Answer {
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u16(self, number: u16) -> Self {
        self.bytes(&number.to_ne_bytes())
    }

    pub(super) fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_ne_bytes())
    }

    pub(super) fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_ne_bytes())
    }

    pub(super) fn zeros(mut self, len: usize) -> Self {
        self.0.resize(self.0.len() + len, 0);
        self
    }

    /// `struct fuse_attr`.
    fn attributes(self, attributes: &Attributes) -> Self {
        let Attributes { inode, size, kind, permissions, links } = *attributes;
        // Blocks; the times and their nanoseconds.
        let answer = self.u64(inode).u64(size).u64(0).zeros(3 * 8 + 3 * 4);
        let answer = answer.u32(kind.mode() | permissions).u32(links);
        // Owner, group, device.
        answer.zeros(3 * 4).u32(BLOCK_BYTES).u32(0)
    }

    /// `struct fuse_attr_out`.
    pub(super) fn attributes_for(self, attributes: &Attributes, valid: Duration) -> Self {
        self.u64(valid.as_secs()).u32(valid.subsec_nanos()).u32(0).attributes(attributes)
    }

    /// `struct fuse_entry_out`.
    pub(super) fn entry(self, entry: &Entry) -> Self {
        let Entry { node, attributes, valid } = entry;
        let answer = self.u64(*node).u64(0).u64(valid.as_secs()).u64(valid.as_secs());
        answer.u32(valid.subsec_nanos()).u32(valid.subsec_nanos()).attributes(attributes)
    }

    /// `struct fuse_open_out`.
    pub(super) fn opened(self, opened: Opened) -> Self {
        self.u64(opened.handle).u32(opened.flags).u32(0)
    }

    /// As many rows (`struct fuse_dirent`) as fit.
    pub(super) fn rows(mut self, rows: &[DirectoryRow], len_max: usize) -> Self {
        for DirectoryRow { name, kind, inode, next } in rows {
            let name_len = u32::try_from(name.len()).expect("a name of a file is short");
            let row = Self::default().u64(*inode).u64(*next).u32(name_len).u32(kind.mode() >> 12);
            let row = row.bytes(name.as_bytes());
            let padding = row.0.len().next_multiple_of(ROW_ALIGNMENT) - row.0.len();
            let row = row.zeros(padding);
            if self.0.len() + row.0.len() > len_max {
                break;
            }
            self = self.bytes(&row.0);
        }
        self
    }
}

impl FileKind {
    /// The upper mode bits.
    fn mode(self) -> u32 {
        match self {
            Self::Directory => libc::S_IFDIR,
            Self::Regular => libc::S_IFREG,
            Self::Link => libc::S_IFLNK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_lengths_of_the_kernels_structures() {
        let attributes =
            Attributes { inode: 7, size: 0, kind: FileKind::Regular, permissions: 0o600, links: 1 };
        let entry = Entry { node: 7, attributes, valid: Duration::ZERO };
        assert_eq!(Answer::default().attributes(&attributes).0.len(), 88);
        assert_eq!(Answer::default().attributes_for(&attributes, Duration::ZERO).0.len(), 104);
        assert_eq!(Answer::default().entry(&entry).0.len(), 128);
        assert_eq!(answer_header(7, -libc::EINVAL, 0).0.len(), ANSWER_HEADER_LEN);
    }

    #[test]
    fn a_request_that_is_too_short_is_refused() {
        let whole = Answer::default().u32(48).u32(opcode::OPEN).u64(9).u64(3).u32(0).u32(0).u32(77).u32(0);
        let whole = whole.u32(2).u32(0).0;
        let (request, mut arguments) = Request::parse(&whole).unwrap();
        let caller = Caller { uid: 0, tid: 77 };
        assert_eq!(request, Request { opcode: opcode::OPEN, node: 3, unique: 9, caller });
        assert_eq!((arguments.u32(), arguments.u32(), arguments.u32()), (Ok(2), Ok(0), Err(Errno::EINVAL)));
        for len in 0..REQUEST_HEADER_LEN {
            assert_eq!(Request::parse(&whole[..len]).unwrap_err(), Errno::EINVAL);
        }
        assert_eq!(Arguments(b"name").name(), Err(Errno::EINVAL), "it does not end");
        assert_eq!(Arguments(b"abc").data(4), Err(Errno::EINVAL));
    }

    #[test]
    fn only_whole_rows_are_listed() {
        let row = |name: &str| DirectoryRow { name: name.into(), kind: FileKind::Link, inode: 1, next: 1 };
        let rows = [row("a"), row("eight888"), row("b")];
        let len = |len_max| Answer::default().rows(&rows, len_max).0.len();
        assert_eq!((len(31), len(32), len(63), len(64), len(1000)), (0, 32, 32, 64, 96));
    }
}
