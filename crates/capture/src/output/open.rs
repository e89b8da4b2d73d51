//! Opens capture files: locked against a second writer, readable by their owner only.
//!
//! The lock is that of flock(2), which ends with the process. Files are not truncated here: a
//! capture that fails to start leaves their content.

use crate::output::pipe::has_no_reader;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Permissions of new files, as dumpcap's: frames are for the eyes of the user who captures. A
/// stricter umask holds.
const MODE: u32 = 0o600;

/// Opens or creates `path`. `None` for a FIFO that no program has opened for reading. Root follows
/// its own symbolic links only: one of another user could lead to any file.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when another program writes to the file; what the file system
/// refuses.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    let is_root = nix::unistd::geteuid().is_root();
    // A link that another user plants after this look is refused as well.
    let follow = if is_root && !is_link_of_root(path) { libc::O_NOFOLLOW } else { 0 };
    // Not to wait for the reader of a FIFO; of no effect on regular files.
    match options().create(true).custom_flags(libc::O_NONBLOCK | follow).open(path) {
        Err(error) if follow != 0 && error.raw_os_error() == Some(libc::ELOOP) => {
            let why = "it is a symbolic link of another user, which root does not follow";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
        Ok(file) => locked(file).map(Some),
        Err(error) if has_no_reader(&error) && is_fifo(path) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates the file of an unfinished capture. One that a killed capture has left there is renamed
/// and kept: `x.part` becomes `x.part.1`, or the first number that is free.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when another program writes to the file; a symbolic link in its
/// place is refused.
pub(crate) fn create_part(path: &Path) -> io::Result<File> {
    let create = || options().create_new(true).open(path);
    let created = match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            keep_old_part(path)?;
            create()
        }
        created => created,
    };
    locked(created?)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE);
    options
}

/// True for a symbolic link that belongs to root.
fn is_link_of_root(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_symlink() && meta.uid() == 0)
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

fn keep_old_part(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something that is no regular file is there",
        ));
    }
    locked(options().custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?)?;
    let numbered = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
    let free = (1..).map(numbered).find(|kept| fs::symlink_metadata(kept).is_err());
    fs::rename(path, free.expect("a folder has fewer files than there are numbers"))
}

/// Locks a regular file. A file system without locks does without.
fn locked(file: File) -> io::Result<File> {
    if !file.metadata()?.is_file() {
        return Ok(file);
    }
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let why = "another program is writing to it (it is locked)";
            Err(io::Error::new(io::ErrorKind::WouldBlock, why))
        }
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use testkit::Folder;

    /// A link that another user had planted led root to any file.
    #[test]
    fn root_does_not_follow_links_of_other_users() {
        testkit::needs!(testkit::is_root("chown"));
        let folder = Folder::new("links");
        let (target, link) = (folder.join("precious"), folder.join("x.pcapng"));
        fs::write(&target, "precious").unwrap();
        symlink(&target, &link).unwrap();
        assert!(open(&link).is_ok(), "its own");
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        let refused = open(&link).unwrap_err();
        assert!(refused.to_string().contains("symbolic link of another user"), "{refused}");
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_is_written_is_refused_to_a_second_writer() {
        let folder = Folder::new("lock");
        let path = folder.join("x");
        fs::write(&path, "old").unwrap();
        let first = open(&path).unwrap();
        let refused = open(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        open(&path).unwrap().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old", "opening does not truncate");
        // Devices are for all.
        let (_one, _two) = (open(Path::new("/dev/null")).unwrap(), open(Path::new("/dev/null")).unwrap());
    }

    #[test]
    fn new_files_are_for_their_owner_alone() {
        let folder = Folder::new("mode");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (file, part) = (folder.join("x"), folder.join("x.part"));
        drop((open(&file).unwrap(), create_part(&part).unwrap()));
        assert_eq!((mode(&file), mode(&part)), (0o600, 0o600));
    }

    #[test]
    fn what_a_killed_capture_left_is_kept_and_links_are_not_followed() {
        let folder = Folder::new("part");
        let part = folder.join("x.part");
        for left in ["first", "second"] {
            fs::write(&part, left).unwrap();
            drop(create_part(&part).unwrap());
        }
        assert_eq!(fs::read(folder.join("x.part.1")).unwrap(), b"first");
        // The empty file that the first call made is the second that was left.
        fs::remove_file(&part).unwrap();
        let live = create_part(&part).unwrap();
        assert_eq!(create_part(&part).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(live);
        let (victim, link) = (folder.join("victim"), folder.join("link.part"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(create_part(&link).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
}
