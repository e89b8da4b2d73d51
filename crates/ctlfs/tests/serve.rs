//! `serve` as a service manager sees it (root).

mod dry;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for something that a loaded machine does late, but does.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A directory name of our own for one test; nothing is there yet.
fn place(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wrd-serve-{test}-{}", std::process::id()))
}

/// Starts a daemon and waits until the tree is there.
fn daemon(dir: &Path) -> Option<Child> {
    let child = dry::command()?.arg("serve").arg(dir).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the tree is there", || dir.join("pgctrl").exists());
    Some(child)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_mounted(dir: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&dir.display().to_string())
}

#[test]
fn sigterm_answers_writers_and_unmounts() {
    let dir = place("term");
    let Some(mut child) = daemon(&dir) else { return };
    let script = "echo add_device lo > kpktgend_0; echo count 0 > lo; echo delay 1000000 > lo
        echo start > pgctrl; echo status $?";
    let writer = Command::new("bash")
        .args(["-c", &format!("cd {} && {script}", dir.display())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it runs", || {
        fs::read_to_string(dir.join("kpktgend_0")).is_ok_and(|text| text.starts_with("Running: lo "))
    });
    dry::signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(String::from_utf8(writer.wait_with_output().unwrap().stdout).unwrap(), "status 0\n");
    assert!(!is_mounted(&dir));
    assert!(!dir.exists(), "the directory that it made is gone");
}

#[test]
fn a_second_start_says_who_owns_the_mount() {
    let dir = place("second");
    let Some(mut child) = daemon(&dir) else { return };
    let second = dry::command().unwrap().arg("serve").arg(&dir).output().unwrap();
    assert_eq!(second.status.code(), Some(3));
    let expected = format!("dry: {} is already served by process {}\n", dir.display(), child.id());
    assert_eq!(String::from_utf8(second.stderr).unwrap(), expected);
    assert!(dir.join("pgctrl").exists(), "the first one goes on");
    dry::signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_mount_of_a_killed_daemon_is_taken_over() {
    let dir = place("stale");
    let Some(mut first) = daemon(&dir) else { return };
    dry::signal(&first, "KILL");
    first.wait().unwrap();
    assert!(is_mounted(&dir));
    let mut second = daemon(&dir).unwrap();
    dry::signal(&second, "TERM");
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert!(!is_mounted(&dir));
    assert!(!dir.exists(), "the directory that the killed one made is gone");
}

#[test]
fn all_directories_that_it_made_go_and_no_other() {
    let top = place("deep");
    fs::create_dir(&top).unwrap();
    let dir = top.join("a/b/c");
    let Some(mut child) = daemon(&dir) else { return fs::remove_dir(&top).unwrap() };
    dry::signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!top.join("a").exists());
    // After a kill, those that the next one finds.
    let mut child = daemon(&dir).unwrap();
    dry::signal(&child, "KILL");
    child.wait().unwrap();
    let mut child = daemon(&dir).unwrap();
    fs::write(top.join("a/of-another"), "").unwrap();
    dry::signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!top.join("a/b").exists() && top.join("a/of-another").exists());
    fs::remove_dir_all(&top).unwrap();
}

#[test]
fn a_foreign_mount_over_the_directory_stays() {
    let dir = place("covered");
    let Some(mut child) = daemon(&dir) else { return };
    let at = dir.display();
    let cover = Command::new("mount").args(["-t", "tmpfs", "foreign"]).arg(&dir).status().unwrap();
    let written = fs::write(dir.join("precious"), "data");
    dry::signal(&child, "TERM");
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    let ended = child.wait().unwrap();
    let kept = fs::read_to_string(dir.join("precious"));
    // The foreign one, then ours.
    for _ in 0..2 {
        Command::new("umount").arg(&dir).status().unwrap();
    }
    fs::remove_dir(&dir).unwrap();
    assert!(cover.success() && written.is_ok());
    assert_eq!(kept.unwrap(), "data");
    assert_eq!(ended.code(), Some(3));
    assert!(said.contains(&format!("cannot unmount {at}: another file system is mounted over it")), "{said}");
}

#[test]
fn the_service_manager_is_told() {
    let dir = place("notify");
    let socket_path = dir.with_extension("socket");
    let Some(mut command) = dry::command() else { return };
    let socket = UnixDatagram::bind(&socket_path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut child = command.arg("serve").arg(&dir).env("NOTIFY_SOCKET", &socket_path).spawn().unwrap();
    let mut buffer = [0xee; 64];
    let len = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"READY=1\n");
    assert!(dir.join("pgctrl").exists(), "ready means that the tree is there");
    dry::signal(&child, "TERM");
    let len = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"STOPPING=1\n");
    child.wait().unwrap();
    fs::remove_file(&socket_path).unwrap();
}

#[test]
fn files_that_the_tree_would_hide_are_an_error() {
    let dir = place("full");
    let Some(mut command) = dry::command() else { return };
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("precious"), "").unwrap();
    let output = command.arg("serve").arg(&dir).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("is not empty"));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_unmount_by_somebody_else_ends_the_daemon() {
    let dir = place("umount");
    let Some(mut child) = daemon(&dir) else { return };
    assert!(Command::new("umount").arg(&dir).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(!dir.exists());
}

/// A shell that root starts, `before` its command line.
fn shell(before: &[&str], script: &str) -> std::process::Output {
    let (program, words) = before.split_first().unwrap();
    Command::new(program).args(words).args(["bash", "-c", script]).output().unwrap()
}

#[test]
fn root_without_cap_net_admin_cannot_start_a_run() {
    let dir = place("rights");
    let Some(mut child) = daemon(&dir) else { return };
    let at = dir.display();
    let none = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all"];
    let without_net_admin = ["setpriv", "--bounding-set", "-net_admin"];
    let only_net_admin = ["setpriv", "--bounding-set", "-all,+net_admin"];
    let start = format!("echo start > {at}/pgctrl");
    let cases = [
        (&none[..], 1, "Operation not permitted"),
        (&without_net_admin, 1, "Operation not permitted"),
        // Root of its own user namespace has all capabilities there, and none that counts here.
        (&["unshare", "-Ur"], 1, "Operation not permitted"),
        (&only_net_admin, 0, ""),
        // The number of a thread in a PID namespace below ours is known here.
        (&["unshare", "-pf"], 0, ""),
    ];
    let outputs = cases.map(|(before, _, _)| shell(before, &start));
    // The kernel looks at nothing but the mode bits of the other files.
    let others = shell(&none, &format!("echo add_device lo > {at}/kpktgend_0; cat {at}/lo {at}/pgctrl"));
    dry::signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for ((before, code, error), output) in cases.into_iter().zip(outputs) {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{before:?}: {stderr}");
        assert!(stderr.contains(error), "{before:?}: {stderr}");
    }
    assert!(String::from_utf8(others.stdout).unwrap().contains("Params: count 1000"));
}
