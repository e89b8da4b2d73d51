//! Where the files of a data set go.

use super::bucket::{self, Bucket, ObjectUpload};
use capture::open;
use program::stop::Stop;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is being written has its name and this.
const PART_SUFFIX: &str = ".part";

/// A folder or a bucket.
pub(super) enum Store {
    Folder(PathBuf),
    Bucket(Bucket),
}

impl Store {
    /// At a path, or at a URL of S3.
    pub(super) fn open(place: &Path, stop: &Stop) -> anyhow::Result<Self> {
        match bucket::url_of(place) {
            Some(url) => Bucket::open(url, stop).map(Self::Bucket),
            None => Ok(Self::Folder(place.to_owned())),
        }
    }

    /// Whether there is anything in a folder of this place.
    pub(super) fn has(&self, folder: &str) -> io::Result<bool> {
        match self {
            Self::Folder(root) => root.join(folder).try_exists(),
            Self::Bucket(bucket) => bucket.has(folder),
        }
    }

    /// Begins a file. It gets its name when it is complete.
    pub(super) fn create(&self, name: &str) -> io::Result<StoredFile> {
        match self {
            Self::Folder(root) => NamedLast::create(root.join(name)).map(StoredFile::File),
            Self::Bucket(bucket) => bucket.create(name).map(StoredFile::Object),
        }
    }

    /// For messages.
    pub(super) fn place(&self, name: &str) -> String {
        match self {
            Self::Folder(root) => root.join(name).display().to_string(),
            Self::Bucket(bucket) => bucket.place(name),
        }
    }

    /// What to try when this place does not take a file.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Folder(_) => "free space or another -o, then export again under another --run",
            Self::Bucket(_) => bucket::ADVICE,
        }
    }
}

/// A file that is being written; nothing is left of it unless it is finished.
pub(super) enum StoredFile {
    File(NamedLast),
    Object(ObjectUpload),
}

impl StoredFile {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.file.write_all(bytes),
            Self::Object(object) => object.write(bytes),
        }
    }

    /// Bytes in memory that wait for others to be sent with them.
    pub(super) fn waiting_len(&self) -> u64 {
        match self {
            Self::File(_) => 0,
            Self::Object(object) => object.waiting_len(),
        }
    }

    /// Gives the complete file its name.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Object(object) => object.finish(),
        }
    }
}

/// A file of a folder, which gets its name when it is complete.
pub(super) struct NamedLast {
    file: File,
    path: PathBuf,
    /// Its name until it is complete.
    part: Option<PathBuf>,
}

impl NamedLast {
    fn create(path: PathBuf) -> io::Result<Self> {
        open::create_folders(&path)?;
        let part = PathBuf::from(format!("{}{PART_SUFFIX}", path.display()));
        Ok(Self { file: open::create(&part)?, part: Some(part), path })
    }

    fn finish(mut self) -> io::Result<()> {
        if let Some(part) = &self.part {
            open::rename(part, &self.path)?;
        }
        self.part = None;
        Ok(())
    }
}

impl Drop for NamedLast {
    fn drop(&mut self) {
        // An unfinished file is of no use; should it stay, its name says so.
        self.part.take().map(fs::remove_file);
    }
}
