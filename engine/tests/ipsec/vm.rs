//! Debian's kernel under QEMU with this program as its init, and nothing else but `ip`.

use crate::guest::{MARK, MODULES};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where `tools/install.sh test` puts the kernel; `WIRERATE_VM_KERNEL` names another place.
const KERNEL_DIR: &str = "/var/cache/wirerate/vm-kernel";
const QEMU: &str = "qemu-system-x86_64";
/// Emulated: KVM inside another virtual machine hung or gave up where it was tried. A plain processor, since the
/// kernel's ciphers for newer ones fail their self-tests under emulation.
const MACHINE: [&str; 4] = ["-machine", "q35,accel=tcg", "-cpu", "qemu64,+rdrand,+rdseed"];
/// It takes some 20 seconds when it has a processor for itself.
const PATIENCE: Duration = Duration::from_secs(400);
/// Those that ESP, AH and the wire need; the kernel has the others built in.
const WANTED_MODULES: &[&str] = &[
    "ah4",
    "authenc",
    "authencesn",
    "ctr",
    "drbg",
    "echainiv",
    "esp4",
    "gcm",
    "gf128mul",
    "ghash-generic",
    "seqiv",
    "tunnel4",
    "veth",
    "xfrm4_tunnel",
    "xfrm_algo",
    "xfrm_user",
];

/// Runs all cases there: by name, `None` for good, else the reason.
///
/// # Errors
/// What this machine lacks.
pub(crate) fn run() -> Result<HashMap<String, Option<String>>, String> {
    let dir = PathBuf::from(std::env::var_os("WIRERATE_VM_KERNEL").unwrap_or(KERNEL_DIR.into()));
    let image = fs::read_dir(dir.join("boot"))
        .ok()
        .and_then(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| is_image(path)))
        .ok_or_else(|| {
            let dir = dir.display();
            format!("needs a kernel with ESP and AH, here or in {dir} (tools/install.sh test)")
        })?;
    if Command::new(QEMU).arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err(format!("needs {QEMU} (tools/install.sh test)"));
    }
    let archive = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ipsec.cpio");
    let output =
        pack(&archive, &dir.join("lib/modules")).map_err(|error| format!("{}: {error}", archive.display()));
    let output = output.and_then(|()| boot(&image, &archive).map_err(|error| format!("{QEMU}: {error}")));
    // An archive that cannot be removed is no reason to fail.
    let _ = fs::remove_file(&archive);
    Ok(read(&output?))
}

fn is_image(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("vmlinuz"))
}

/// The lines that carry the mark. A machine that ended early has its last words in place of a reason.
fn read(output: &str) -> HashMap<String, Option<String>> {
    let lines = output.lines().filter_map(|line| line.trim_end().strip_prefix(MARK));
    let mut all: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, ending)| (name.to_owned(), (ending != "ok").then(|| ending.to_owned())))
        .collect();
    if !output.contains(&format!("{MARK}end")) || all.contains_key("prepare") {
        let tail: Vec<&str> = output.lines().rev().take(40).collect();
        let words = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        for (name, _) in crate::everything() {
            all.entry(name.to_owned()).or_insert_with(|| Some(words.clone()));
        }
    }
    all
}

/// Starts the machine and returns what it wrote on its serial line, and QEMU itself.
fn boot(image: &Path, archive: &Path) -> io::Result<String> {
    let mut child = Command::new(QEMU)
        .args(MACHINE)
        .args(["-smp", "1", "-m", "1024"])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"])
        .args(["-append", "console=ttyS0 quiet loglevel=3 panic=-1 rdinit=/init"])
        .arg("-kernel")
        .arg(image)
        .arg("-initrd")
        .arg(archive)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let readers = [reader(child.stdout.take()), reader(child.stderr.take())];
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(readers.map(|reader| reader.join().unwrap_or_default()).join("\n"))
}

fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is all there is to tell.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The machine's file system.
fn pack(archive: &Path, modules: &Path) -> io::Result<()> {
    let mut out = Cpio { out: BufWriter::new(File::create(archive)?), files: 0 };
    for dir in ["proc", "sys", "dev", "run", "tmp", "bin", &MODULES[1..]] {
        out.entry(dir, Kind::Folder, &[])?;
    }
    out.entry("dev/console", Kind::Console, &[])?;
    let own = std::env::current_exe()?;
    out.program("init", &own)?;
    let ip = find_program("ip")?;
    out.program("bin/ip", &ip)?;
    let mut libraries = libraries(&own)?;
    libraries.extend(libraries_of_new(&ip, &libraries)?);
    let mut folders = Vec::new();
    for library in libraries {
        for folder in library.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            if folder.parent().is_some() && !folders.contains(&folder.to_owned()) {
                out.entry(inner(folder), Kind::Folder, &[])?;
                folders.push(folder.to_owned());
            }
        }
        out.program(inner(&library), &library)?;
    }
    let mut found = Vec::new();
    walk(modules, &mut found)?;
    for module in found {
        let name = module.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        let is_wanted = |wanted: &&str| name == format!("{wanted}.ko");
        if WANTED_MODULES.iter().any(is_wanted) {
            out.entry(&format!("{}/{name}", &MODULES[1..]), Kind::File, &fs::read(&module)?)?;
        }
    }
    out.finish()
}

/// Without the slash in front.
fn inner(path: &Path) -> &str {
    path.to_str().unwrap_or_default().trim_start_matches('/')
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => walk(&path, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}

fn find_program(name: &str) -> io::Result<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, name.to_owned()))
}

fn libraries_of_new(program: &Path, known: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    Ok(libraries(program)?.into_iter().filter(|library| !known.contains(library)).collect())
}

/// What the dynamic linker loads for a program, itself included.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |word: &str| word.starts_with('/').then(|| PathBuf::from(word));
    Ok(text.lines().filter_map(|line| line.split_whitespace().find_map(path)).collect())
}

enum Kind {
    Folder,
    File,
    Program,
    Console,
}

/// An archive as the kernel reads it: `newc`, of cpio.
struct Cpio<W: Write> {
    out: W,
    files: u32,
}

impl<W: Write> Cpio<W> {
    fn program(&mut self, name: &str, path: &Path) -> io::Result<()> {
        self.entry(name, Kind::Program, &fs::read(path)?)
    }

    fn entry(&mut self, name: &str, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let (mode, major, minor) = match kind {
            Kind::Folder => (0o040_755, 0, 0),
            Kind::File => (0o100_644, 0, 0),
            Kind::Program => (0o100_755, 0, 0),
            Kind::Console => (0o020_600, 5, 1),
        };
        self.files += 1;
        let fields =
            [self.files, mode, 1, 0, 0, 0, bytes.len() as u32, 0, 0, major, minor, name.len() as u32 + 1, 0];
        let header: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        let front = format!("070701{header}{name}\0");
        self.padded(front.as_bytes())?;
        self.padded(bytes)
    }

    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.write_all(&[0; 4][..bytes.len().next_multiple_of(4) - bytes.len()])
    }

    fn finish(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", Kind::File, &[])?;
        self.out.flush()
    }
}
