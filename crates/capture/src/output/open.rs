//! Opens capture files: locked against a second writer, readable by their owner only.
//!
//! The lock is that of flock(2), which ends with the process. Files are not truncated here: a
//! capture that fails to start leaves their content.

use crate::output::place::{Folders, Place};
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// Permissions of new files, as dumpcap's: frames are for the eyes of the user who captures. A
/// stricter umask holds.
const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Opens or creates `path`. `None` for a FIFO that no program has opened for reading. Root follows
/// its own symbolic links only: one of another user could lead to any file.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when another program writes to the file; what the file system
/// refuses.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    let place = Place::behind_links(path)?;
    match place.open(existing_or(OFlag::O_CREAT), MODE) {
        Ok(file) => locked(file).map(Some),
        Err(error) if has_no_reader(&error) && place.kind()? == SFlag::S_IFIFO => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates or empties a file beside captures, such as a report. Links are followed as by [`open`];
/// it has the permissions that the umask leaves.
///
/// # Errors
/// What the file system refuses, and a symbolic link that is not followed.
pub fn create(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC;
    Place::behind_links(path)?.open(flags, Mode::from_bits_truncate(0o666))
}

/// Creates a file beside captures, such as a report, or opens it and leaves what is in it. Links
/// are followed as by [`open`]; a new file has the permissions that the umask leaves.
///
/// # Errors
/// What the file system refuses, and a symbolic link that is not followed.
pub fn create_or_keep(path: &Path) -> io::Result<File> {
    Place::behind_links(path)?.open(OFlag::O_WRONLY | OFlag::O_CREAT, Mode::from_bits_truncate(0o666))
}

/// Refuses a path on which a symbolic link is not followed.
///
/// # Errors
/// What the file system refuses, and a symbolic link that is not followed.
pub fn refuse_links(path: &Path) -> io::Result<()> {
    Place::behind_links(path).map(drop)
}

/// Opens `path`, which is there, without a lock. Links are followed as by [`open`].
///
/// # Errors
/// What the file system refuses.
pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    Place::behind_links(path)?.open(existing_or(OFlag::empty()), MODE)
}

/// Creates the file of an unfinished capture. One that a killed capture has left there is renamed
/// and kept: `x.part` becomes `x.part.1`, or the first number that is free.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when another program writes to the file; a symbolic link in its
/// place is refused.
pub(crate) fn create_part(path: &Path) -> io::Result<File> {
    let place = Place::of(path, Folders::MustExist)?;
    let create = |place: &Place| place.open(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL, MODE);
    let created = match create(&place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            keep_old_part(place)?;
            create(&Place::of(path, Folders::MustExist)?)
        }
        created => created,
    };
    locked(created?)
}

/// Creates the folders of `path`.
///
/// # Errors
/// What the file system refuses, and a symbolic link that is not followed.
pub fn create_folders(path: &Path) -> io::Result<()> {
    Place::of(path, Folders::Create).map(drop)
}

/// Refuses a path in whose folder this user may not create files.
///
/// # Errors
/// What the file system refuses, and a symbolic link that is not followed;
/// [`io::ErrorKind::NotFound`] without the folder.
pub(crate) fn refuse_to_create(path: &Path) -> io::Result<()> {
    Place::of(path, Folders::MustExist)?.refuse_to_create()
}

/// Gives a file another name, and creates the folders of that.
///
/// # Errors
/// What the file system refuses, and a symbolic link that is not followed.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    Place::of(from, Folders::MustExist)?.rename(&Place::of(to, Folders::Create)?)
}

/// Removes a file.
///
/// # Errors
/// What the file system refuses, and a symbolic link that is not followed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    Place::of(path, Folders::MustExist)?.remove()
}

/// True for what the kernel answers to an open of a FIFO that no program reads.
pub(crate) fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

/// How files are opened for writing. Not to wait for the reader of a FIFO; of no effect on regular
/// files.
fn existing_or(create: OFlag) -> OFlag {
    OFlag::O_WRONLY | OFlag::O_NONBLOCK | create
}

fn keep_old_part(place: Place) -> io::Result<()> {
    if place.kind()? != SFlag::S_IFREG {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something that is no regular file is there",
        ));
    }
    locked(place.open(existing_or(OFlag::empty()), MODE)?)?;
    let numbered = |number: u32| {
        let mut name = place.name().to_owned();
        name.push(format!(".{number}"));
        place.beside(name)
    };
    let kept = (1..).map(numbered).find(|kept| !matches!(kept, Ok(kept) if kept.kind().is_ok()));
    place.rename(&kept.expect("a folder has fewer files than there are numbers")?)
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
    use std::fs;
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
