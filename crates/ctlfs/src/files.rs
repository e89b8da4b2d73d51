//! The file system of a mount: that of the control files or that of the device files.
//!
//! The session of `fuse3` is generic code of 4,000 lines that is compiled for each type of file
//! system. With one type it is compiled once, which halves the time that this crate takes to build.

use crate::directory::Listing;
use crate::fs::ControlFs;
use crate::slots::SlotFs;
use fuse3::Result;
use fuse3::notify::Notify;
use fuse3::raw::prelude::*;
use std::ffi::OsStr;

/// What a mount serves.
pub(crate) enum Files {
    /// pktgen's control files.
    Control(ControlFs),
    /// mgcap's device files.
    Devices(SlotFs),
}

/// Methods that call the method of the same name of the file system.
macro_rules! forward {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $reply:ty;)*) => {
        $(async fn $name(&self, req: Request, $($argument: $kind),*) -> $reply {
            match self {
                Self::Control(fs) => fs.$name(req, $($argument),*).await,
                Self::Devices(fs) => fs.$name(req, $($argument),*).await,
            }
        })*
    };
}

impl Filesystem for Files {
    forward! {
        init() -> Result<ReplyInit>;
        destroy() -> ();
        lookup(parent: u64, name: &OsStr) -> Result<ReplyEntry>;
        forget(inode: u64, lookups: u64) -> ();
        batch_forget(inodes: &[(u64, u64)]) -> ();
        getattr(inode: u64, fh: Option<u64>, flags: u32) -> Result<ReplyAttr>;
        setattr(inode: u64, fh: Option<u64>, attr: SetAttr) -> Result<ReplyAttr>;
        access(inode: u64, mask: u32) -> Result<()>;
        readlink(inode: u64) -> Result<ReplyData>;
        mknod(parent: u64, name: &OsStr, mode: u32, device: u32) -> Result<ReplyEntry>;
        mkdir(parent: u64, name: &OsStr, mode: u32, umask: u32) -> Result<ReplyEntry>;
        symlink(parent: u64, name: &OsStr, target: &OsStr) -> Result<ReplyEntry>;
        link(inode: u64, parent: u64, name: &OsStr) -> Result<ReplyEntry>;
        unlink(parent: u64, name: &OsStr) -> Result<()>;
        rmdir(parent: u64, name: &OsStr) -> Result<()>;
        rename(parent: u64, name: &OsStr, new_parent: u64, new_name: &OsStr) -> Result<()>;
        rename2(parent: u64, name: &OsStr, new_parent: u64, new_name: &OsStr, flags: u32) -> Result<()>;
        create(parent: u64, name: &OsStr, mode: u32, flags: u32) -> Result<ReplyCreated>;
        open(inode: u64, flags: u32) -> Result<ReplyOpen>;
        read(inode: u64, fh: u64, offset: u64, size: u32) -> Result<ReplyData>;
        write(inode: u64, fh: u64, offset: u64, data: &[u8], write_flags: u32, flags: u32) -> Result<ReplyWrite>;
        poll(inode: u64, fh: u64, kh: Option<u64>, flags: u32, events: u32, notify: &Notify) -> Result<ReplyPoll>;
        release(inode: u64, fh: u64, flags: u32, lock_owner: u64, flush: bool) -> Result<()>;
        fsync(inode: u64, fh: u64, data_only: bool) -> Result<()>;
        interrupt(unique: u64) -> Result<()>;
        statfs(inode: u64) -> Result<ReplyStatFs>;
        opendir(inode: u64, flags: u32) -> Result<ReplyOpen>;
        releasedir(inode: u64, fh: u64, flags: u32) -> Result<()>;
    }

    #[expect(refining_impl_trait, reason = "both file systems have the same type of listing")]
    async fn readdir(
        &self,
        req: Request,
        parent: u64,
        fh: u64,
        offset: i64,
    ) -> Result<ReplyDirectory<Listing<DirectoryEntry>>> {
        match self {
            Self::Control(fs) => fs.readdir(req, parent, fh, offset).await,
            Self::Devices(fs) => fs.readdir(req, parent, fh, offset).await,
        }
    }

    #[expect(refining_impl_trait, reason = "both file systems have the same type of listing")]
    async fn readdirplus(
        &self,
        req: Request,
        parent: u64,
        fh: u64,
        offset: u64,
        lock_owner: u64,
    ) -> Result<ReplyDirectoryPlus<Listing<DirectoryEntryPlus>>> {
        match self {
            Self::Control(fs) => fs.readdirplus(req, parent, fh, offset, lock_owner).await,
            Self::Devices(fs) => fs.readdirplus(req, parent, fh, offset, lock_owner).await,
        }
    }
}
