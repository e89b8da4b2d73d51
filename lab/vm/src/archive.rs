//! The root file system of a machine: a cpio archive (`newc`) that the kernel unpacks at boot.

use crate::{Kernel, module};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use testkit::MACHINE_MODULES as MODULES;

/// An archive that is being written.
pub(crate) struct Archive {
    out: BufWriter<File>,
    entries: u32,
    /// Names that are there.
    names: HashSet<String>,
}

enum FileType {
    /// As the host has it: `st_mode`.
    Host(u32),
    Folder,
    File,
    Program,
    Link,
    Console,
}

impl Archive {
    /// With the files of a folder, which is the root of a system; devices and sockets are left out.
    pub(crate) fn of_root(file: File, root: &Path) -> Result<Self> {
        let mut archive = Self { out: BufWriter::new(file), entries: 0, names: HashSet::new() };
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let path = root.join(&folder);
            for entry in fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))? {
                let entry = entry?;
                let (file, kind) = (entry.metadata()?, entry.file_type()?);
                let name = folder.join(entry.file_name());
                let bytes = if kind.is_symlink() {
                    fs::read_link(entry.path())?.into_os_string().into_encoded_bytes()
                } else if kind.is_file() {
                    fs::read(entry.path())?
                } else if kind.is_dir() {
                    folders.push(name.clone());
                    Vec::new()
                } else {
                    continue;
                };
                let name = name.to_str().context("a name that is no text")?;
                archive.entry(name, FileType::Host(file.mode()), &bytes)?;
            }
        }
        archive.entry("dev/console", FileType::Console, &[])?;
        Ok(archive)
    }

    /// With the folders that every system has.
    pub(crate) fn create(file: File) -> Result<Self> {
        let mut archive = Self { out: BufWriter::new(file), entries: 0, names: HashSet::new() };
        for name in ["proc", "sys", "dev", "run", "tmp", "root", "etc", "var", "usr", "bin", &MODULES[1..]] {
            archive.entry(name, FileType::Folder, &[])?;
        }
        // Programs are called by any of the names that people and scripts know.
        for name in ["sbin", "usr/bin", "usr/sbin"] {
            archive.entry(name, FileType::Link, b"/bin")?;
        }
        archive.entry("dev/console", FileType::Console, &[])?;
        Ok(archive)
    }

    /// A file of text.
    pub(crate) fn text(&mut self, name: &str, text: &str) -> Result<()> {
        self.folders_of(name)?;
        self.entry(name, FileType::File, text.as_bytes())
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, name: &str, target: &str) -> Result<()> {
        self.entry(name, FileType::Link, target.as_bytes())
    }

    /// A program of this machine, under a name there, with the libraries it is linked to.
    pub(crate) fn program(&mut self, name: &str, path: &Path) -> Result<()> {
        self.file(name, path)?;
        for library in libraries(path)? {
            let name = library.to_str().context("a library whose path is no text")?;
            self.file(&name[1..], &library)?;
        }
        Ok(())
    }

    /// A program of this machine, under a name there, without what only a debugger reads: ten times
    /// smaller. The libraries it is linked to are added, too.
    pub(crate) fn stripped(&mut self, name: &str, path: &Path) -> Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let small = std::env::temp_dir().join(format!("wirerate-vm-{}-{number}.small", std::process::id()));
        let status =
            Command::new("strip").arg("-o").args([&small, path]).status().context("cannot run strip")?;
        ensure!(status.success(), "strip {} ended with {status}", path.display());
        let added = self.program(name, &small);
        fs::remove_file(&small).with_context(|| format!("cannot remove {}", small.display()))?;
        added
    }

    /// The programs and libraries of Debian packages for another processor, unpacked in a folder.
    pub(crate) fn unpacked(&mut self, folder: &Path) -> Result<()> {
        for (from, to) in [
            ("bin", "bin"),
            ("sbin", "bin"),
            ("usr/bin", "bin"),
            ("usr/sbin", "bin"),
            ("lib", "lib"),
            ("lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu"),
            ("usr/lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu"),
        ] {
            let from = folder.join(from);
            if !from.exists() {
                continue;
            }
            for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
                let path = entry?.path();
                // A link to a name that these packages do not have is left out.
                if path.is_file() {
                    let name =
                        path.file_name().and_then(|name| name.to_str()).context("a name that is no text")?;
                    self.file(&format!("{to}/{name}"), &path)?;
                }
            }
        }
        Ok(())
    }

    /// A file of this machine, which may be run there.
    pub(crate) fn file(&mut self, name: &str, path: &Path) -> Result<()> {
        self.folders_of(name)?;
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.entry(name, FileType::Program, &bytes)
    }

    /// Modules and all that they need; those that a kernel does not have are left out: it may have
    /// them built in.
    pub(crate) fn modules(&mut self, kernel: &Kernel, names: &[&str]) -> Result<()> {
        let index = module::index(&kernel.modules)?;
        let mut wanted: Vec<String> = names.iter().map(|name| name.replace('-', "_")).collect();
        while let Some(name) = wanted.pop() {
            let entry = format!("{}/{name}.ko", &MODULES[1..]);
            let Some(path) = index.get(&name).filter(|_| !self.names.contains(&entry)) else { continue };
            let bytes = module::read(path)?;
            wanted.extend(module::needs(&bytes));
            self.folders_of(&entry)?;
            self.entry(&entry, FileType::File, &bytes)?;
        }
        Ok(())
    }

    fn folders_of(&mut self, name: &str) -> Result<()> {
        let slashes: Vec<usize> = name.match_indices('/').map(|(at, _)| at).collect();
        slashes.into_iter().try_for_each(|at| self.entry(&name[..at], FileType::Folder, &[]))
    }

    fn entry(&mut self, name: &str, kind: FileType, bytes: &[u8]) -> Result<()> {
        if !self.names.insert(name.to_owned()) {
            return Ok(());
        }
        let (mode, major, minor) = match kind {
            FileType::Host(mode) => (mode, 0, 0),
            FileType::Folder => (0o040_755, 0, 0),
            FileType::File => (0o100_644, 0, 0),
            FileType::Program => (0o100_755, 0, 0),
            FileType::Link => (0o120_777, 0, 0),
            FileType::Console => (0o020_600, 5, 1),
        };
        self.entries += 1;
        let len = u32::try_from(bytes.len()).with_context(|| format!("{name} is too long"))?;
        let name_len = name.len() as u32 + 1;
        let fields = [self.entries, mode, 0, 0, 1, 0, len, 0, 0, major, minor, name_len, 0];
        let header: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        self.padded(format!("070701{header}{name}\0").as_bytes())?;
        self.padded(bytes)
    }

    fn padded(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes)?;
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        Ok(self.out.write_all(&[0; 4][..padding])?)
    }

    /// Ends it; all of it is in its file then.
    pub(crate) fn finish(mut self) -> Result<File> {
        self.entry("TRAILER!!!", FileType::File, &[])?;
        Ok(self.out.into_inner()?)
    }
}

/// A program of this machine, wherever Debian puts it.
pub(crate) fn find_program(name: &str) -> Result<PathBuf> {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|folder| Path::new(folder).join(name));
    match places.into_iter().find(|path| path.exists()) {
        // `/bin/tcpdump` may be a link to another name.
        Some(path) => Ok(fs::canonicalize(path)?),
        None => bail!("no {name} here; try: tools/install.sh vm"),
    }
}

/// What the dynamic linker loads for a program, itself included. Nothing for one that is linked
/// statically.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |word: &str| word.starts_with('/').then(|| PathBuf::from(word));
    Ok(text.lines().filter_map(|line| line.split_whitespace().find_map(path)).collect())
}

/// Programs, all by one call each.
pub(crate) fn programs(archive: &mut Archive, names: &HashMap<&str, PathBuf>) -> Result<()> {
    names.iter().try_for_each(|(name, path)| archive.program(&format!("bin/{name}"), path))
}
