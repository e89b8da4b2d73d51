//! Where an output file lies: its folder as a descriptor, and its name there.
//!
//! Root follows symbolic links of its own only: one of another user, in place of the file or of a
//! folder of its path, could lead to any file. The path is followed name by name for that, and
//! files are opened, renamed and removed by the descriptor of their folder, so that a link which
//! is planted meanwhile changes nothing.

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, geteuid, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// Symbolic links in a path at most, as for the kernel.
const LINKS_MAX: usize = 40;
/// Opens a folder, or a link itself, as a place only.
const AS_PLACE: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// A file that is there or may be created: its folder, and its name in it.
pub(crate) struct Place {
    folder: OwnedFd,
    name: OsString,
    /// A link of /proc, which the kernel follows to an open file.
    is_of_proc: bool,
}

/// What to do about folders of a path that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folders {
    MustExist,
    Create,
}

impl Place {
    /// The file, or the symbolic link in its place.
    ///
    /// # Errors
    /// A symbolic link that may not be followed; what the file system refuses.
    pub(crate) fn of(path: &Path, folders: Folders) -> io::Result<Self> {
        follow(path, folders, false)
    }

    /// The file, behind symbolic links in its place.
    ///
    /// # Errors
    /// A symbolic link that may not be followed; what the file system refuses.
    pub(crate) fn behind_links(path: &Path) -> io::Result<Self> {
        follow(path, Folders::MustExist, true)
    }

    /// Another name in the same folder.
    pub(crate) fn beside(&self, name: OsString) -> io::Result<Self> {
        Ok(Self { folder: self.folder.try_clone()?, name, is_of_proc: false })
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The kind of what is there. A symbolic link is not followed.
    pub(crate) fn kind(&self) -> io::Result<SFlag> {
        let flags = if self.is_of_proc { AtFlags::empty() } else { AtFlags::AT_SYMLINK_NOFOLLOW };
        Ok(kind_of(&fstatat(&self.folder, &*self.name, flags)?))
    }

    /// Opens or creates the file.
    pub(crate) fn open(&self, flags: OFlag, mode: Mode) -> io::Result<File> {
        let no_follow = if self.is_of_proc { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        match openat(&self.folder, &*self.name, flags | no_follow | OFlag::O_CLOEXEC, mode) {
            Err(Errno::ELOOP) => Err(refused(&self.name)),
            opened => Ok(File::from(opened?)),
        }
    }

    /// Refuses a folder in which this user may not create files.
    pub(crate) fn refuse_to_create(&self) -> io::Result<()> {
        let flags = AccessFlags::W_OK | AccessFlags::X_OK;
        Ok(faccessat(&self.folder, ".", flags, AtFlags::AT_EACCESS)?)
    }

    /// Gives the file the place of another one.
    pub(crate) fn rename(&self, to: &Self) -> io::Result<()> {
        Ok(renameat(&self.folder, &*self.name, &to.folder, &*to.name)?)
    }

    /// Removes the file, or the link in its place.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &*self.name, UnlinkatFlags::NoRemoveDir)?)
    }
}

fn kind_of(facts: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(facts.st_mode & SFlag::S_IFMT.bits())
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(is_name).map(|part| part.as_os_str().to_owned()).collect()
}

/// The folder in which a path begins.
fn beginning(path: &Path) -> io::Result<OwnedFd> {
    let folder = if path.is_absolute() { "/" } else { "." };
    Ok(openat(nix::fcntl::AT_FDCWD, folder, AS_PLACE | OFlag::O_DIRECTORY, Mode::empty())?)
}

fn follow(path: &Path, folders: Folders, follows_last: bool) -> io::Result<Place> {
    let is_root = geteuid().is_root();
    let (mut folder, mut rest, mut links) = (beginning(path)?, names(path), 0);
    loop {
        let name = rest.pop().ok_or(Errno::ENOENT)?;
        let is_last = rest.is_empty();
        if is_last && !follows_last {
            return Ok(Place { folder, name, is_of_proc: false });
        }
        let flags = AS_PLACE | OFlag::O_NOFOLLOW;
        if !is_last {
            match openat(&folder, &*name, flags | OFlag::O_DIRECTORY, Mode::empty()) {
                Ok(below) => {
                    folder = below;
                    continue;
                }
                Err(Errno::ENOENT) if folders == Folders::Create => {
                    match mkdirat(&folder, &*name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EEXIST) => rest.push(name),
                        Err(error) => return Err(error.into()),
                    }
                    continue;
                }
                // A symbolic link, or something in the way.
                Err(Errno::ENOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let found = match openat(&folder, &*name, flags, Mode::empty()) {
            Err(Errno::ENOENT) if is_last => return Ok(Place { folder, name, is_of_proc: false }),
            found => found?,
        };
        let facts = fstat(&found)?;
        match kind_of(&facts) == SFlag::S_IFLNK {
            true => {}
            false if is_last => return Ok(Place { folder, name, is_of_proc: false }),
            false => return Err(Errno::ENOTDIR.into()),
        }
        if is_root && facts.st_uid != 0 {
            return Err(refused(&name));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::ELOOP.into());
        }
        // The text of such a link is no path.
        if fstatfs(&found)?.filesystem_type() == PROC_SUPER_MAGIC {
            if is_last {
                return Ok(Place { folder, name, is_of_proc: true });
            }
            folder = openat(&folder, &*name, AS_PLACE | OFlag::O_DIRECTORY, Mode::empty())?;
            continue;
        }
        let target = readlinkat(&found, "")?;
        let target = Path::new(&target);
        if target.is_absolute() {
            folder = beginning(target)?;
        }
        rest.extend(names(target));
    }
}

fn refused(name: &OsStr) -> io::Error {
    let name = name.display();
    let why = format!("{name} is a symbolic link of another user, which root does not follow");
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};
    use testkit::Folder;

    fn place(path: &Path) -> Result<Place, String> {
        Place::behind_links(path).map_err(|error| error.to_string())
    }

    /// Root wrote, renamed and removed files wherever a folder of the path led that was a link of
    /// another user.
    #[test]
    fn root_does_not_follow_links_of_other_users_in_the_folders_of_a_path() {
        testkit::needs!(testkit::is_root("chown"));
        let folder = Folder::new("places");
        fs::create_dir_all(folder.join("target/deep")).unwrap();
        let link = folder.join("link");
        let links =
            [folder.join("target"), Path::new("target").to_owned(), Path::new("./x/../target").to_owned()];
        fs::create_dir(folder.join("x")).unwrap();
        for target in links {
            symlink(&target, &link).unwrap();
            let file = link.join("deep/file");
            place(&file).unwrap().open(OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRUSR).unwrap();
            assert!(folder.join("target/deep/file").exists(), "its own");
            Place::of(&file, Folders::MustExist).unwrap().remove().unwrap();
            assert!(!folder.join("target/deep/file").exists());
            // A link of root to that of another user is one of these.
            let own = folder.join("own");
            symlink(link.join("deep"), &own).unwrap();
            lchown(&link, Some(65_534), None).unwrap();
            for path in [link.join("deep/file"), link.join("new/file"), own.join("file"), link.join("file")] {
                let why = Place::of(&path, Folders::Create).map(drop).unwrap_err().to_string();
                assert!(why.contains("link is a symbolic link of another user"), "{why}");
            }
            assert_eq!(fs::read_dir(folder.join("target")).unwrap().count(), 1, "nothing was made there");
            fs::remove_file(own).unwrap();
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn paths_lead_where_the_kernel_leads_them() {
        let folder = Folder::new("walk");
        let (file, link) = (folder.join("a/b/file"), folder.join("link"));
        Place::of(&file, Folders::Create).unwrap();
        symlink(&file, &link).unwrap();
        // A link that leads to no file yet, as the kernel creates the file there.
        place(&link).unwrap().open(OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRUSR).unwrap();
        assert!(file.is_file());
        let failure = |path: &Path| place(path).map(drop).unwrap_err();
        assert!(failure(&folder.join("none/file")).contains("No such file"));
        assert!(failure(&file.join("below")).contains("Not a directory"));
        symlink("round", folder.join("round")).unwrap();
        assert!(failure(&folder.join("round")).contains("Too many levels"));
        // A link of /proc leads to an open file, whatever its text says.
        let mut pipe = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe.1));
        let mut opened = place(Path::new(&path)).unwrap().open(OFlag::O_WRONLY, Mode::empty()).unwrap();
        io::Write::write_all(&mut opened, b"x").unwrap();
        let mut byte = [0];
        io::Read::read_exact(&mut pipe.0, &mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }
}
