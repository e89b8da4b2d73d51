//! The kernels and the QEMU that `tools/vm-cache.sh` has downloaded.

use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `tools/vm-cache.sh` puts all of it; `WIRERATE_VM_CACHE` names another place.
const CACHE: &str = "/var/cache/wirerate/vm";
/// The root of a Debian system with systemd, in the cache.
const SYSTEM: &str = "systemd-root";
/// Oldest first; `newest` is the reference.
const NAMES: [&str; 3] = ["6.1", "6.12", "newest"];
/// The kernel of a machine with an arm64 processor, which runs only when it is named.
pub const ARM64: &str = "arm64";

/// The processor of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// That of most machines.
    X86_64,
    /// 64-bit Arm.
    Arm64,
}

/// A kernel and its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `6.1`, `6.12`, `newest` or `arm64`.
    pub name: String,
    /// What it runs on.
    pub processor: Processor,
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
    /// The programs of machines, if they are not those of this one.
    pub(crate) programs: Option<PathBuf>,
    /// The root of machines with systemd.
    pub(crate) system: PathBuf,
}

impl KernelSet {
    /// What the cache holds.
    ///
    /// # Errors
    /// When no machine can be started here: what is missing, and what to type.
    pub fn open() -> Result<Self> {
        let cache = cache();
        let (mut kernels, mut missing) = (Vec::new(), Vec::new());
        for name in NAMES {
            match Kernel::in_folder(name, Processor::X86_64, &cache.join(name)) {
                Ok(kernel) => kernels.push(kernel),
                Err(why) => missing.push(why.to_string()),
            }
        }
        let root = cache.join("qemu/usr");
        let qemu = root.join("bin/qemu-system-x86_64");
        runs(&qemu, "vm")?;
        Ok(Self {
            kernels,
            missing,
            firmware: vec![root.join("share/qemu"), "/usr/share/seabios".into(), "/usr/share/qemu".into()],
            qemu_modules: root.join("lib/x86_64-linux-gnu/qemu"),
            qemu,
            programs: None,
            system: cache.join(SYSTEM),
        })
    }

    /// The kernel for arm64 alone, with the QEMU of this machine's distribution.
    ///
    /// # Errors
    /// When no machine for arm64 can be started here: what is missing, and what to type.
    pub fn open_arm64() -> Result<Self> {
        let cache = cache();
        let kernel = Kernel::in_folder(ARM64, Processor::Arm64, &cache.join(ARM64))?;
        let programs = cache.join("arm64-programs");
        ensure!(programs.exists(), "no {}; try: tools/install.sh vm-arm64", programs.display());
        let qemu = PathBuf::from("qemu-system-aarch64");
        runs(&qemu, "vm-arm64")?;
        Ok(Self {
            kernels: vec![kernel],
            missing: Vec::new(),
            qemu,
            firmware: Vec::new(),
            qemu_modules: "/usr/lib/x86_64-linux-gnu/qemu".into(),
            programs: Some(programs),
            system: cache.join(SYSTEM),
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

fn cache() -> PathBuf {
    std::env::var_os("WIRERATE_VM_CACHE").unwrap_or(CACHE.into()).into()
}

/// Refuses a QEMU that does not run; `set` of `tools/install.sh` has it.
fn runs(qemu: &Path, set: &str) -> Result<()> {
    let status = Command::new(qemu).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ensure!(
        status.is_ok_and(|status| status.success()),
        "{} does not run here; try: tools/install.sh {set}",
        qemu.display()
    );
    Ok(())
}

impl Processor {
    /// Arguments of QEMU. Emulated: KVM inside another virtual machine hung or gave up where it was
    /// tried.
    pub(crate) fn machine(self) -> [&'static str; 4] {
        let machine = match self {
            Self::X86_64 => "q35",
            Self::Arm64 => "virt",
        };
        ["-machine", machine, "-accel", "tcg,thread=multi"]
    }

    /// The model that has all that QEMU emulates, without what is slow to emulate.
    pub(crate) fn cpu(self) -> &'static str {
        match self {
            // A kernel that is told that `rep movsb` is fast copies with it, and QEMU byte by byte:
            // that was half of the time that the verifier of BPF took to remove dead code.
            Self::X86_64 => "max,-erms,-fsrm",
            // Arm's own algorithm of pointer authentication is slow to emulate.
            Self::Arm64 => "max,pauth-impdef=on",
        }
    }

    /// The device of the serial line.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }
}

impl Kernel {
    fn in_folder(name: &str, processor: Processor, folder: &Path) -> Result<Self> {
        let (image, modules) = (folder.join("vmlinuz"), folder.join("modules"));
        ensure!(
            image.exists() && modules.exists(),
            "no kernel {name} in {}; try: tools/install.sh {}",
            folder.display(),
            if processor == Processor::Arm64 { "vm-arm64" } else { "vm" }
        );
        Ok(Self { name: name.to_owned(), processor, image, modules })
    }
}
