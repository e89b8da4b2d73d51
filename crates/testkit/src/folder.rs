//! A temporary folder of one test.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A new, empty folder. Dropping it removes it with its files, also after a failed test.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder; `name` is a part of its path.
    ///
    /// # Panics
    /// If the temporary directory cannot be written.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(format!("wirerate-test-{name}-{pid}-{number}"));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }

    /// The path of a file in the folder, as text.
    pub fn file(&self, name: &str) -> String {
        self.join(name).display().to_string()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Also runs while a failed test unwinds, so it must not panic.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_one_name_are_two_and_go_with_their_files() {
        let (one, other) = (Folder::new("twice"), Folder::new("twice"));
        std::fs::write(one.join("file"), "text").unwrap();
        assert!(!other.join("file").exists() && other.exists());
        let path = one.to_path_buf();
        drop(one);
        assert!(!path.exists());
    }
}
