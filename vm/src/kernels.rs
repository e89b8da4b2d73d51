//! The kernels and the QEMU that `tools/vm-cache.sh` has downloaded.

use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `tools/vm-cache.sh` puts all of it; `WIRERATE_VM_CACHE` names another place.
const CACHE: &str = "/var/cache/wirerate/vm";
/// Oldest first; `newest` is the reference.
const NAMES: [&str; 3] = ["6.1", "6.12", "newest"];

/// A kernel and its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `6.1`, `6.12` or `newest`.
    pub name: String,
    /// The image that QEMU starts.
    pub(crate) image: PathBuf,
    /// The folder of its modules, in folders of folders.
    pub(crate) modules: PathBuf,
}

/// All that machines are made of.
#[derive(Clone, Debug)]
pub struct KernelSet {
    /// Oldest first.
    pub kernels: Vec<Kernel>,
    /// What the cache lacks, in words for a person.
    pub missing: Vec<String>,
    pub(crate) qemu: PathBuf,
    /// Where QEMU finds what it reads itself: firmware, and its own modules.
    pub(crate) firmware: Vec<PathBuf>,
    pub(crate) qemu_modules: PathBuf,
}

impl KernelSet {
    /// What the cache holds.
    ///
    /// # Errors
    /// When no machine can be started here: what is missing, and what to type.
    pub fn open() -> Result<Self> {
        let cache = PathBuf::from(std::env::var_os("WIRERATE_VM_CACHE").unwrap_or(CACHE.into()));
        let (mut kernels, mut missing) = (Vec::new(), Vec::new());
        for name in NAMES {
            match Kernel::in_folder(name, &cache.join(name)) {
                Ok(kernel) => kernels.push(kernel),
                Err(why) => missing.push(why.to_string()),
            }
        }
        let root = cache.join("qemu/usr");
        let qemu = root.join("bin/qemu-system-x86_64");
        let runs = Command::new(&qemu).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ensure!(
            runs.is_ok_and(|status| status.success()),
            "{} does not run here; try: tools/install.sh vm",
            qemu.display()
        );
        Ok(Self {
            kernels,
            missing,
            firmware: vec![root.join("share/qemu"), "/usr/share/seabios".into(), "/usr/share/qemu".into()],
            qemu_modules: root.join("lib/x86_64-linux-gnu/qemu"),
            qemu,
        })
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// When there is none: with the names of those there are.
    pub fn kernel(&self, name: &str) -> Result<&Kernel> {
        let Some(kernel) = self.kernels.iter().find(|kernel| kernel.name == name) else {
            let are: Vec<&str> = self.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            bail!("no kernel is called {name:?}; there are {}", are.join(", "))
        };
        Ok(kernel)
    }
}

impl Kernel {
    fn in_folder(name: &str, folder: &Path) -> Result<Self> {
        let (image, modules) = (folder.join("vmlinuz"), folder.join("modules"));
        ensure!(
            image.exists() && modules.exists(),
            "no kernel {name} in {}; try: tools/install.sh vm",
            folder.display()
        );
        Ok(Self { name: name.to_owned(), image, modules })
    }
}
