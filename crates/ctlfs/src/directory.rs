//! Replies that list a directory.

use fuse3::Result;
use fuse3::raw::prelude::*;
use futures_util::stream::{self, Iter};
use std::ffi::OsString;
use std::time::Duration;
use std::vec::IntoIter;

/// The kernel may cache nothing of files and links.
pub(crate) const NO_CACHING: Duration = Duration::ZERO;

/// The rows of a reply.
pub(crate) type Listing<T> = Iter<IntoIter<Result<T>>>;

/// A row of a directory.
pub(crate) struct DirectoryRow {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
    pub(crate) inode: u64,
    /// The offset of the row after it.
    pub(crate) next: i64,
}

/// The reply to readdir.
pub(crate) fn listed(rows: impl Iterator<Item = DirectoryRow>) -> ReplyDirectory<Listing<DirectoryEntry>> {
    let entry =
        |DirectoryRow { name, kind, inode, next }| Ok(DirectoryEntry { inode, kind, name, offset: next });
    ReplyDirectory { entries: stream::iter(rows.map(entry).collect::<Vec<_>>()) }
}

/// The reply to readdirplus. The node number in `attr` is zero, which tells the kernel that nothing
/// was looked up.
pub(crate) fn listed_plus(
    rows: impl Iterator<Item = DirectoryRow>,
    attr: FileAttr,
) -> ReplyDirectoryPlus<Listing<DirectoryEntryPlus>> {
    let entry = |DirectoryRow { name, kind, inode, next }| {
        Ok(DirectoryEntryPlus {
            inode,
            generation: 0,
            kind,
            name,
            offset: next,
            attr,
            entry_ttl: NO_CACHING,
            attr_ttl: NO_CACHING,
        })
    };
    ReplyDirectoryPlus { entries: stream::iter(rows.map(entry).collect::<Vec<_>>()) }
}
