//! Where the files of a data set go.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is being written has its name and this.
const PART_SUFFIX: &str = ".part";

/// A folder that takes files.
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Whether there is anything at this place.
    pub(super) fn has(&self, name: &str) -> io::Result<bool> {
        self.folder.join(name).try_exists()
    }

    /// Begins a file. It gets its name when it is complete.
    pub(super) fn create(&self, name: &str) -> io::Result<StoredFile> {
        let path = self.folder.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let part = PathBuf::from(format!("{}{PART_SUFFIX}", path.display()));
        let file = File::create(&part)?;
        Ok(StoredFile { file, part: Some(part), path })
    }

    /// For messages.
    pub(super) fn place(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// A file that is being written; removed unless it is finished.
pub(super) struct StoredFile {
    file: File,
    path: PathBuf,
    /// Its name until it is complete.
    part: Option<PathBuf>,
}

impl StoredFile {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives the complete file its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(part) = &self.part {
            fs::rename(part, &self.path)?;
        }
        self.part = None;
        Ok(())
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        // An unfinished file is of no use; should it stay, its name says so.
        self.part.take().map(fs::remove_file);
    }
}
