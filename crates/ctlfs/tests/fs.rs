//! The file system as a program sees it, on a real mount (root and /dev/fuse).
//!
//! Each test mounts a small tree on a temporary directory and unmounts it at the end.

use ctlfs::{Cancel, Errno, Mounted, Tree, TreeShape, mount};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for something that a loaded machine does late, but does.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Files that keep the last write; `add NAME` and `remove NAME` to `ctrl` change them, `wait`
/// blocks until it is interrupted, at most two minutes, `park` until `release` is written, and
/// `bad` is refused.
#[derive(Default)]
struct Slate {
    files: Mutex<BTreeMap<OsString, String>>,
    interrupted: AtomicU32,
    waiting: AtomicU32,
    released: Cancel,
}

impl Tree for Slate {
    fn names(&self) -> Vec<OsString> {
        self.files.lock().unwrap().keys().cloned().collect()
    }

    fn contains(&self, name: &OsStr) -> bool {
        self.files.lock().unwrap().contains_key(name)
    }

    fn read(&self, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let files = self.files.lock().unwrap();
        let text = files.get(name).ok_or(Errno::ENOENT)?;
        Ok(format!("value: {text}\nResult: OK\n").into_bytes())
    }

    fn write(&self, name: &OsStr, bytes: &[u8], cancel: &Cancel) -> Result<(), Errno> {
        let text = String::from_utf8_lossy(bytes).trim_end().to_owned();
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("bad", _) => return Err(Errno::EOPNOTSUPP),
            ("add", new) => drop(self.files.lock().unwrap().insert(new.into(), String::new())),
            ("remove", old) => drop(self.files.lock().unwrap().remove(OsStr::new(old))),
            ("wait", _) => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                self.interrupted.fetch_add(u32::from(cancel.wait(2 * TIMEOUT)), Ordering::SeqCst);
            }
            ("park", _) => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                assert!(self.released.wait(2 * TIMEOUT), "`release` was not written");
            }
            ("release", _) => self.released.fire(),
            _ => drop(self.files.lock().unwrap().insert(name.to_owned(), text)),
        }
        Ok(())
    }

    fn drain(&self) {}
}

struct Lab {
    slate: Arc<Slate>,
    dir: PathBuf,
    mounted: Option<Mounted>,
}

/// A mounted slate with `ctrl` and `lo@0`, or `None` where it cannot be mounted.
fn lab(test: &str, shape: TreeShape) -> Option<Lab> {
    testkit::needs!(testkit::can_mount_fuse(), None);
    let slate = Arc::new(Slate::default());
    slate.write(OsStr::new("ctrl"), b"-", &Cancel::new()).unwrap();
    slate.write(OsStr::new("lo@0"), b"0", &Cancel::new()).unwrap();
    let dir = std::env::temp_dir().join(format!("wrd-{test}-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let tree: Arc<dyn Tree> = slate.clone();
    let mounted = mount(tree, &dir, shape, "wirerate-test").unwrap();
    Some(Lab { slate, dir, mounted: Some(mounted) })
}

impl Lab {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Waits until `count` writers are blocked in the tree.
    fn wait_for_writers(&self, count: u32) {
        let deadline = Instant::now() + TIMEOUT;
        while self.slate.waiting.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < deadline, "no writer is blocked");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// A shell that is blocked in a write to `ctrl` and says what became of it.
    fn blocked_shell(&self, before: &str) -> std::process::Child {
        let script = format!("{before} echo wait > {}; echo status $?", self.path("ctrl").display());
        // Who started the tests in the background lets them inherit an ignored Ctrl-C, which no
        // shell can trap.
        let child = Command::new("env")
            .args(["--default-signal=INT", "bash", "-c", &script])
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.wait_for_writers(1);
        child
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.mounted.take().map_or(Ok(()), Mounted::unmount).unwrap();
        fs::remove_dir(&self.dir).unwrap();
    }
}

fn signal(child: &std::process::Child, name: &str) {
    let done =
        Command::new("kill").args([&format!("-{name}"), "--", &format!("-{}", child.id())]).status().unwrap();
    assert!(done.success());
}

fn shell(script: &str) -> (i32, String) {
    let output = Command::new("bash").args(["-c", script]).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program that reads as busybox's `cat` does.
#[test]
fn busybox_cat_of_a_control_file_is_not_empty() {
    let Some(lab) = lab("sendfile", TreeShape::Tree) else { return };
    for text in ["a", "a longer one", "b"] {
        fs::write(lab.path("lo@0"), text).unwrap();
        let file = File::open(lab.path("lo@0")).unwrap();
        let (mut out, into) = std::io::pipe().unwrap();
        let mut sent = 0;
        loop {
            match nix::sys::sendfile::sendfile(&into, &file, None, 1 << 16).unwrap() {
                0 => break,
                len => sent += len,
            }
        }
        drop(into);
        let mut read = String::new();
        out.read_to_string(&mut read).unwrap();
        assert_eq!(read, format!("value: {text}\nResult: OK\n"));
        assert_eq!(sent, read.len());
    }
    assert_eq!(fs::metadata(lab.path("lo@0")).unwrap().len(), 0, "as procfs shows it");
}

#[test]
fn a_file_that_is_open_over_the_unmount_keeps_no_tree_and_says_so() {
    let Some(mut lab) = lab("open", TreeShape::Tree) else { return };
    let mut file = OpenOptions::new().read(true).write(true).open(lab.path("lo@0")).unwrap();
    file.write_all(b"1").unwrap();
    lab.mounted.take().unwrap().unmount().unwrap();
    assert_eq!(Arc::strong_count(&lab.slate), 1, "the tree is kept");
    let gone = Some(Errno::ENOTCONN as i32);
    assert_eq!(file.read(&mut [0; 16]).unwrap_err().raw_os_error(), gone);
    assert_eq!(file.write(b"2").unwrap_err().raw_os_error(), gone);
}

#[test]
fn files_look_as_in_procfs() {
    let Some(lab) = lab("look", TreeShape::Tree) else { return };
    let dir = fs::metadata(&lab.dir).unwrap();
    assert_eq!((dir.mode() & 0o7777, dir.uid(), dir.gid(), dir.size()), (0o555, 0, 0, 0));
    let file = fs::metadata(lab.path("lo@0")).unwrap();
    assert_eq!((file.mode() & 0o7777, file.uid(), file.gid(), file.size()), (0o600, 0, 0, 0));
    let mut names: Vec<_> = fs::read_dir(&lab.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["ctrl", "lo@0"]);
}

#[test]
fn others_may_list_and_nothing_else() {
    let Some(lab) = lab("others", TreeShape::Tree) else { return };
    let list = Command::new("ls").arg(&lab.dir).uid(65534).gid(65534).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&list.stdout), "ctrl\nlo@0\n");
    let read = Command::new("cat").arg(lab.path("ctrl")).uid(65534).gid(65534).output().unwrap();
    assert!(String::from_utf8_lossy(&read.stderr).contains("Permission denied"), "{read:?}");
    let ctrl = lab.path("ctrl").display().to_string();
    let dir = lab.dir.display().to_string();
    for (script, words) in [
        (format!("echo add x > {ctrl}"), "Permission denied"),
        (format!("echo x > {dir}/new"), "Permission denied"),
        (format!("rm -f {ctrl}"), "Permission denied"),
        (format!("mkdir {dir}/new"), "Permission denied"),
        (format!("chmod 666 {ctrl}"), "Operation not permitted"),
        (format!("truncate -s 0 {ctrl}"), "Permission denied"),
        (format!("test -r {ctrl} || echo may not read >&2"), "may not read"),
        (format!("test -w {dir} || echo may not write >&2"), "may not write"),
    ] {
        let output = Command::new("bash").args(["-c", &script]).uid(65534).gid(65534).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{script}: {said:?}");
    }
    assert_eq!(lab.slate.names(), ["ctrl", "lo@0"]);
    assert_eq!(
        shell(&format!("test -x {ctrl} || echo no program; test -w {dir} && echo root may")),
        (0, "no program\nroot may\n".into())
    );
}

#[test]
fn tools_read_whole_files_and_pieces() {
    let Some(lab) = lab("tools", TreeShape::Tree) else { return };
    let file = lab.path("lo@0").display().to_string();
    assert_eq!(shell(&format!("cat {file}")), (0, "value: 0\nResult: OK\n".into()));
    assert_eq!(shell(&format!("timeout 5 grep Result: {file}")), (0, "Result: OK\n".into()));
    assert_eq!(shell(&format!("timeout 5 tail -n 1 {file}")), (0, "Result: OK\n".into()));
    assert_eq!(shell(&format!("timeout 5 head -c 5 {file}")), (0, "value".into()));
    assert_eq!(
        shell(&format!("timeout 5 dd if={file} bs=3 status=none")),
        (0, "value: 0\nResult: OK\n".into())
    );
}

#[test]
fn one_descriptor_writes_and_reads_like_a_seq_file() {
    let Some(lab) = lab("descriptor", TreeShape::Tree) else { return };
    let mut file = OpenOptions::new().read(true).write(true).open(lab.path("lo@0")).unwrap();
    assert_eq!(file.write(b"11\n").unwrap(), 3);
    let mut piece = [0; 6];
    file.read_exact(&mut piece).unwrap();
    assert_eq!(&piece, b"value:");
    assert_eq!(file.write(b"12\n").unwrap(), 3);
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, " 11\nResult: OK\n");
    assert_eq!(file.seek(SeekFrom::Start(0)).unwrap(), 0);
    rest.clear();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "value: 12\nResult: OK\n");
}

#[test]
fn writes_return_their_length_or_the_errno() {
    let Some(lab) = lab("length", TreeShape::Tree) else { return };
    let mut file = OpenOptions::new().append(true).open(lab.path("lo@0")).unwrap();
    let long = vec![b'x'; 300_000];
    assert_eq!(file.write(&long).unwrap(), long.len());
    assert_eq!(file.write(b"y").unwrap(), 1);
    assert_eq!(file.write(b"").unwrap(), 0, "the kernel keeps it from us");
    assert_eq!(file.write(b"bad").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    assert_eq!(fs::read_to_string(lab.path("lo@0")).unwrap(), "value: y\nResult: OK\n");
}

#[test]
fn files_cannot_be_made_moved_or_removed() {
    let Some(lab) = lab("change", TreeShape::Tree) else { return };
    let errno = |done: std::io::Result<()>| done.unwrap_err().raw_os_error().unwrap();
    assert_eq!(errno(File::create(lab.path("new")).map(drop)), libc::ENOENT);
    assert_eq!(errno(File::open(lab.path("new")).map(drop)), libc::ENOENT);
    assert_eq!(errno(fs::remove_file(lab.path("lo@0"))), libc::EPERM);
    assert_eq!(errno(fs::rename(lab.path("lo@0"), lab.path("lo@1"))), libc::ENOENT);
    assert_eq!(errno(fs::create_dir(lab.path("dir"))), libc::ENOENT);
    assert_eq!(errno(std::os::unix::fs::symlink("x", lab.path("link"))), libc::ENOENT);
    File::create(lab.path("lo@0")).unwrap();
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_CREAT | libc::O_APPEND)
        .open(lab.path("lo@0"))
        .unwrap();
    let (status, _) =
        shell(&format!("cd {}; touch lo@0 && truncate -s 0 lo@0 && chmod 644 lo@0", lab.dir.display()));
    assert_eq!(status, 0);
}

#[test]
fn entries_appear_and_vanish_at_once() {
    let Some(lab) = lab("vanish", TreeShape::Tree) else { return };
    for round in 0..200 {
        let name = format!("dev@{round}");
        assert!(!lab.path(&name).exists());
        fs::write(lab.path("ctrl"), format!("add {name}")).unwrap();
        let mut open = File::open(lab.path(&name)).unwrap();
        fs::write(lab.path("ctrl"), format!("remove {name}")).unwrap();
        assert!(!lab.path(&name).exists());
        let error = open.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "a file that is gone reads as in procfs");
    }
}

#[test]
fn a_long_directory_is_listed_whole() {
    let Some(lab) = lab("long", TreeShape::Tree) else { return };
    for index in 0..500 {
        fs::write(lab.path("ctrl"), format!("add a-device-with-a-long-name@{index:04}")).unwrap();
    }
    let names: std::collections::BTreeSet<_> =
        fs::read_dir(&lab.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 502);
}

#[test]
fn ctrl_c_in_a_script_that_traps_it_ends_the_write_with_success() {
    let Some(lab) = lab("trap", TreeShape::Tree) else { return };
    let child = lab.blocked_shell("trap true SIGINT;");
    let before = Instant::now();
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "status 0\n", "{output:?}");
    assert!(before.elapsed() < TIMEOUT);
    assert_eq!(lab.slate.interrupted.load(Ordering::SeqCst), 1);
}

#[test]
fn killing_the_writer_ends_the_write() {
    let Some(lab) = lab("kill", TreeShape::Tree) else { return };
    let mut child = lab.blocked_shell("");
    let before = Instant::now();
    signal(&child, "KILL");
    assert!(!child.wait().unwrap().success());
    assert!(before.elapsed() < TIMEOUT);
    assert_eq!(lab.slate.interrupted.load(Ordering::SeqCst), 1);
}

#[test]
fn a_blocked_writer_holds_up_nobody() {
    let Some(lab) = lab("several", TreeShape::Tree) else { return };
    let writers: Vec<_> = (0..20)
        .map(|_| {
            Command::new("bash").args(["-c", &format!("echo wait > {}", lab.path("ctrl").display())]).spawn()
        })
        .collect::<Result<_, _>>()
        .unwrap();
    lab.wait_for_writers(20);
    for value in 0..500 {
        fs::write(lab.path("lo@0"), value.to_string()).unwrap();
        assert_eq!(fs::read_to_string(lab.path("lo@0")).unwrap(), format!("value: {value}\nResult: OK\n"));
    }
    for mut writer in writers {
        Command::new("kill").arg(writer.id().to_string()).status().unwrap();
        writer.wait().unwrap();
    }
    assert_eq!(lab.slate.interrupted.load(Ordering::SeqCst), 20);
}

/// Its child closes what it inherited when it becomes another program. Linux 6.1 and 6.12 let it
/// wait for the writer then.
#[test]
fn a_program_that_waits_in_one_thread_starts_another_program_in_a_second() {
    let Some(lab) = lab("fork", TreeShape::Tree) else { return };
    let ctrl = lab.path("ctrl");
    let (ended, end) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(|| fs::write(&ctrl, "park"));
        lab.wait_for_writers(1);
        scope.spawn(move || ended.send(Command::new("sh").args(["-c", ":"]).status()));
        let status = end.recv_timeout(TIMEOUT);
        fs::write(lab.path("ctrl"), "release").unwrap();
        writer.join().unwrap().unwrap();
        assert!(status.expect("it waits for no other writer").unwrap().success());
    });
}

/// More than tokio has threads for calls that block (512).
#[test]
fn six_hundred_blocked_writers_hold_up_nobody() {
    let Some(lab) = lab("many", TreeShape::Tree) else { return };
    let ctrl = lab.path("ctrl");
    thread::scope(|scope| {
        let park = || fs::write(&ctrl, "park");
        let writers: Vec<_> = (0..600).map(|_| scope.spawn(park)).collect();
        lab.wait_for_writers(600);
        assert_eq!(fs::read_to_string(lab.path("lo@0")).unwrap(), "value: 0\nResult: OK\n");
        fs::write(lab.path("ctrl"), "release").unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
    });
}

#[test]
fn the_view_of_proc_net_shows_each_process_its_own() {
    let Some(lab) = lab("procnet", TreeShape::ProcNet) else { return };
    assert_eq!(fs::read_to_string(lab.path("pktgen/lo@0")).unwrap(), "value: 0\nResult: OK\n");
    let dev = fs::read_to_string(lab.path("dev")).unwrap();
    assert!(dev.contains("Inter-|"), "{dev}");
    assert_eq!(fs::read_link(lab.path("dev")).unwrap(), PathBuf::from("/proc/self/net/dev"));
    let ours: std::collections::BTreeSet<_> =
        fs::read_dir(&lab.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let theirs: std::collections::BTreeSet<_> =
        fs::read_dir("/proc/self/net").unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let extra: Vec<_> = ours.difference(&theirs).collect();
    assert_eq!(extra, ["pktgen"]);
    assert!(theirs.is_subset(&ours));
    assert_eq!(fs::read(lab.path("nosuch")).unwrap_err().kind(), ErrorKind::NotFound);
}
