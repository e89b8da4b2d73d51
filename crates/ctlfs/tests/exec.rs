//! `exec` as a user sees it: one command with the control tree at `/proc/net/pktgen` (root).
//!
//! Runs the example `dry`, which builds frames and sends none.

mod dry;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for something that a loaded machine does late, but does.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a bash script under `exec`; `None` where FUSE file systems cannot be mounted.
fn under_exec(script: &str) -> Option<Output> {
    let output = dry::command()?.args(["exec", "--", "bash", "-c", script]).output().unwrap();
    assert_no_trace();
    Some(output)
}

/// Shell: a device instance that runs without end once it is started, and a function that waits
/// until it runs.
const ENDLESS: &str = r#"P=/proc/net/pktgen
    ip link set lo up
    echo add_device lo > $P/kpktgend_0
    echo count 0 > $P/lo
    echo delay 1000000 > $P/lo
    until_it_runs() {
        for try in $(seq 2000); do
            if grep -q "^Running: lo" $P/kpktgend_0; then return; fi
            sleep 0.02
        done
        echo "it never ran"
        return 1
    }
    "#;

/// The lines that a child writes, none of them waited for longer than [`TIMEOUT`].
struct Lines(mpsc::Receiver<String>);

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// The next line without its end; `None` when there will be no other.
    fn next(&self) -> Option<String> {
        match self.0.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line.trim_end_matches('\r').to_owned()),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line within {TIMEOUT:?}"),
        }
    }

    /// All lines that are still to come.
    fn rest(&self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// True while a process of this number does something; one that only waits for its parent to notice
/// does not.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn assert_no_trace() {
    assert_eq!(fs::read_link("/proc/net").unwrap(), Path::new("self/net"));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("/proc/tty/ldisc"), "{mounts}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_tree_is_at_its_old_place_and_the_rest_of_proc_works() {
    let script = "
        cat /proc/net/pktgen/pgctrl
        [[ -d /proc/net/pktgen ]] && echo directory
        head -n 1 /proc/net/dev; grep -c . /proc/self/stat; head -n 1 /proc/interrupts
        sleep 5 & cat /proc/$!/comm; kill $!
        unshare -n cat /proc/net/dev | grep -c :";
    let Some(output) = under_exec(script) else { return };
    let out = text(&output.stdout);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], "Packet Generator for packet performance testing. Version: 2.75");
    assert_eq!(lines[1], "directory");
    assert!(lines[2].starts_with("Inter-|"), "{out}");
    assert_eq!(lines[3], "1");
    assert!(lines[4].contains("CPU0"), "{out}");
    assert!(["sleep", "bash"].contains(&lines[5]), "{out}");
    assert_eq!(lines[6], "1", "a process in another namespace sees its own devices");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_status_is_that_of_the_command() {
    for (script, status) in [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("true", 0)] {
        let Some(output) = under_exec(script) else { return };
        assert_eq!(output.status.code(), Some(status), "{script}");
    }
    let Some(mut missing) = dry::command() else { return };
    assert_eq!(missing.args(["exec", "--", "no-such-command"]).status().unwrap().code(), Some(127));
}

#[test]
fn commands_are_found_where_path_is_not_set() {
    let Some(mut command) = dry::command() else { return };
    let output =
        command.args(["exec", "--", "ls", "/proc/net/pktgen/pgctrl"]).env_remove("PATH").output().unwrap();
    assert_eq!(text(&output.stdout), "/proc/net/pktgen/pgctrl\n", "{output:?}");
}

/// Where sudo looks, whatever the caller's PATH is.
const SECURE_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a script under `exec`, on a host with programs of our own in the directory `$BIN`, the
/// first of its PATH.
fn with_programs(test: &str, script: &str) -> Option<Output> {
    let mut command = dry::command()?;
    let bin = testkit::Folder::new(test);
    let kmod = bin.join("kmod");
    fs::write(&kmod, "#!/bin/sh\necho \"real ${0##*/}:\" \"$@\"\nexit 5\n").unwrap();
    fs::set_permissions(&kmod, PermissionsExt::from_mode(0o755)).unwrap();
    fs::copy(&kmod, bin.join("rmmod")).unwrap();
    std::os::unix::fs::symlink("kmod", bin.join("modprobe")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    command.args(["exec", "--", "bash", "-c", script]).env("PATH", path).env("BIN", &*bin);
    let output = command.output().unwrap();
    assert!(fs::read_to_string(bin.join("rmmod")).unwrap().contains("real"), "the host keeps its own");
    assert_no_trace();
    Some(output)
}

#[test]
fn modprobe_knows_pktgen_and_asks_the_real_one_for_the_rest() {
    let script =
        "modprobe pktgen; echo $?; modprobe -q pktgen pg_delay_d=0; echo $?; modprobe -r 'a b'; echo $?
        $BIN/modprobe pktgen; echo $?; $BIN/modprobe nf_tables; echo $?";
    let Some(output) = with_programs("modprobe", script) else { return };
    let expected = "0\n0\nreal modprobe: -r a b\n5\n0\nreal modprobe: nf_tables\n5\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn pktgen_is_found_and_unloaded_under_sudo_and_by_full_names() {
    let script = format!(
        "cd /proc/net/pktgen; echo add_device lo > kpktgend_0; ls lo
        grep -c '^pktgen ' /proc/modules; lsmod | grep -c '^pktgen '; env {SECURE_PATH} lsmod | grep -c '^pktgen '
        $BIN/rmmod pktgen; echo $?; ls lo 2> /dev/null || echo unloaded
        $BIN/rmmod pktgen veth; echo $?; $BIN/rmmod -f nf_tables; echo $?
        echo add_device lo > kpktgend_0; modprobe -r pktgen; ls lo 2> /dev/null || echo unloaded"
    );
    let Some(output) = with_programs("rmmod", &script) else { return };
    let modules = if Path::new("/proc/modules").exists() { "1" } else { "" };
    let expected = [
        "lo",
        modules,
        "1",
        "1",
        "0",
        "unloaded",
        "real rmmod: veth",
        "5",
        "real rmmod: -f nf_tables",
        "5",
        "unloaded",
    ];
    let out = text(&output.stdout);
    assert!(out.lines().eq(expected.into_iter().filter(|line| !line.is_empty())), "{output:?}");
}

#[test]
fn programs_of_usr_local_sbin_are_still_there() {
    let script = format!(
        "ls /usr/local/sbin | grep -vx -e mgcap -e mgdump -e mgcap_hwtstamp_config -e modprobe -e rmmod -e lsmod | wc -l
        env {SECURE_PATH} modprobe pktgen; echo $?"
    );
    let Some(output) = under_exec(&script) else { return };
    let count = fs::read_dir("/usr/local/sbin").map_or(0, Iterator::count);
    assert_eq!(text(&output.stdout), format!("{count}\n0\n"), "{}", text(&output.stderr));
}

#[test]
fn writers_left_behind_get_their_answer_at_the_end() {
    let script = format!("{ENDLESS} (echo start > $P/pgctrl; echo status $?) & until_it_runs && echo over");
    let Some(output) = under_exec(&script) else { return };
    assert_eq!(text(&output.stdout), "over\nstatus 0\n");
}

#[test]
fn ctrl_c_on_the_terminal_ends_the_run_and_not_the_script() {
    let Some(command) = dry::command() else { return };
    // What waits is no child of the shell that writes: any signal ends a run, also SIGCHLD, as in
    // the kernel. And background jobs of a shell without job control ignore the Ctrl-C. `script`
    // runs the job by $SHELL, and dash as it waits would end by the Ctrl-C itself: hence the exec.
    let job = format!(
        "exec {} exec -- bash -c '{ENDLESS} trap true INT; ((until_it_runs && echo running) &)
            echo start > $P/pgctrl; echo status $?; grep Result: $P/lo'",
        command.get_program().display()
    );
    // Who started the tests in the background lets them inherit an ignored Ctrl-C, which no shell
    // can trap.
    let mut terminal = Command::new("env")
        .args(["--default-signal=INT", "script", "-qec", &job, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = Lines::of(terminal.stdout.take().unwrap());
    assert_eq!(lines.next().as_deref(), Some("running"));
    let mut keys = terminal.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    keys.flush().unwrap();
    let out = lines.rest().join("\n");
    drop(keys);
    // The terminal echoes the key.
    assert!(out.contains("status 0\nResult: OK: "), "{out:?}");
    assert_eq!(terminal.wait().unwrap().code(), Some(0));
}

/// Starts a script under `exec`, in a process group of its own.
fn start(command: &mut Command, script: &str) -> Child {
    let words = ["exec", "--", "bash", "-c", script];
    command.args(words).stdout(Stdio::piped()).process_group(0).spawn().unwrap()
}

#[test]
fn sigterm_is_passed_on() {
    let Some(mut command) = dry::command() else { return };
    let script = "trap 'echo caught; exit 9' TERM; echo ready; for i in $(seq 600); do sleep 0.1; done";
    let mut child = start(&mut command, script);
    let lines = Lines::of(child.stdout.take().unwrap());
    assert_eq!(lines.next().as_deref(), Some("ready"));
    dry::signal(&child, "TERM");
    assert_eq!(lines.rest(), ["caught"]);
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn nothing_remains_when_exec_is_killed() {
    let Some(mut command) = dry::command() else { return };
    let script = "echo $$; exec sleep 600";
    let mut child = start(&mut command, script);
    let pid = Lines::of(child.stdout.take().unwrap()).next().expect("it says its number");
    dry::signal(&child, "KILL");
    child.wait().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while is_alive(&pid) {
        assert!(Instant::now() < deadline, "the command outlives exec");
        thread::sleep(Duration::from_millis(20));
    }
    assert_no_trace();
}

#[test]
fn a_namespace_is_entered_with_its_devices() {
    let Some(mut command) = dry::command() else { return };
    let name = format!("wrd{}", std::process::id());
    host::Netns::create(&name).unwrap();
    let script = "ls /sys/class/net; grep -c : /proc/net/dev; ls /proc/net/pktgen";
    let output = command.args(["exec", "--netns", &name, "--", "bash", "-c", script]).output().unwrap();
    host::Netns::remove(&name).unwrap();
    let out = text(&output.stdout);
    assert!(out.starts_with("lo\n1\nkpktgend_0\n") && out.ends_with("\npgctrl\n"), "{output:?}");
}

#[test]
fn exec_inside_exec_works() {
    let Some(command) = dry::command() else { return };
    let script = format!("{} exec -- cat /proc/net/pktgen/pgctrl", command.get_program().display());
    let Some(output) = under_exec(&script) else { return };
    assert_eq!(text(&output.stdout), "Packet Generator for packet performance testing. Version: 2.75\n");
}

/// A network namespace that goes when the test ends, however it ends.
struct Netns(String);

impl Netns {
    fn new(word: &str) -> Self {
        let name = format!("wrd{word}{}", std::process::id());
        host::Netns::create(&name).unwrap();
        Self(name)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // The test may have removed it.
        let _ = host::Netns::remove(&self.0);
    }
}

#[test]
fn a_script_in_another_network_namespace_does_not_use_our_devices() {
    if dry::command().is_none() {
        return;
    }
    let other = Netns::new("o");
    let script = format!(
        r#"P=/proc/net/pktgen; export COLUMNS=10000; ip link set lo up
        echo add_device lo > $P/kpktgend_0; echo count 3 > $P/lo
        ip netns exec {other} sh -c 'ls -m $0; ip link set lo up
            echo add_device lo@7 > $0/kpktgend_0; echo count 5 > $0/lo@7; echo start > $0/pgctrl' $P
        ip netns exec {other} grep -h pkts-sofar $P/lo@7
        grep -h pkts-sofar $P/lo; ls -m $P
        unshare -n ls -m $P"#,
        other = other.0
    );
    let Some(output) = under_exec(&script) else { return };
    let cpus: Vec<_> = host::CpuList::online().unwrap().iter().map(|cpu| format!("kpktgend_{cpu}")).collect();
    let fresh = |extra: &str| format!("{}, {extra}pgctrl", cpus.join(", "));
    let out = text(&output.stdout);
    let expected = [
        fresh(""),
        "     pkts-sofar: 5  errors: 0".into(),
        "     pkts-sofar: 0  errors: 0".into(),
        fresh("lo, "),
        fresh(""),
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), expected, "{}", text(&output.stderr));
}

#[test]
fn runs_end_when_their_network_namespace_goes() {
    if dry::command().is_none() {
        return;
    }
    let other = Netns::new("g");
    // Our own descriptors are what keeps it once the name and the writers are gone.
    let script = format!(
        r#"inode=$(stat -Lc %i /run/netns/{other})
        held() {{ readlink /proc/$PPID/fd/* /proc/$PPID/task/*/ns/net | grep -qF "net:[$inode]"; }}
        ip netns exec {other} bash -c '{ENDLESS} (trap "" TERM; echo start > $P/pgctrl) & until_it_runs; kill -9 $!'
        held && echo held
        ip netns del {other}
        for try in $(seq 3000); do held || break; sleep 0.02; done
        held || echo free"#,
        other = other.0
    );
    let Some(output) = under_exec(&script) else { return };
    assert_eq!(text(&output.stdout), "held\nfree\n", "{}", text(&output.stderr));
}

#[test]
fn a_result_that_the_script_did_not_read_is_printed_at_the_end() {
    let lo =
        "P=/proc/net/pktgen; ip link set lo up; echo add_device lo > $P/kpktgend_0; echo count 4 > $P/lo";
    for (rest, is_printed) in [
        ("echo start > $P/pgctrl", true),
        ("echo start > $P/pgctrl; echo reset > $P/pgctrl", true),
        ("echo start > $P/pgctrl; cat $P/kpktgend_0 > /dev/null", true),
        ("echo start > $P/pgctrl; grep -q Result $P/lo", false),
        ("grep -q Result $P/lo", false),
    ] {
        let Some(output) = under_exec(&format!("{lo}; {rest}")) else { return };
        let stderr = text(&output.stderr);
        if is_printed {
            assert!(stderr.starts_with("dry: lo sent 4 frames, 0 errors: OK: "), "{rest}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{rest}: {stderr}");
        } else {
            assert_eq!(stderr, "", "{rest}");
        }
    }
}

/// As on the terminal: the signal goes to the whole group.
#[test]
fn a_result_is_printed_after_ctrl_c_has_ended_the_script() {
    let Some(mut command) = dry::command() else { return };
    let script = format!("{ENDLESS} ((until_it_runs && echo running) &) ; echo start > $P/pgctrl; sleep 600");
    let mut child = Command::new("env");
    child.arg("--default-signal=INT").arg(command.get_program());
    child.args(["exec", "--", "bash", "-c", &script]).process_group(0);
    command = child;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, err) = (Lines::of(child.stdout.take().unwrap()), Lines::of(child.stderr.take().unwrap()));
    assert_eq!(out.next().as_deref(), Some("running"));
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let lines = err.rest();
    assert!(lines.iter().any(|line| line.starts_with("dry: lo sent ")), "{lines:?}");
}

#[test]
fn a_second_terminal_looks_and_stops() {
    let Some(mut command) = dry::command() else { return };
    let name = format!("wrd-join-{}", std::process::id());
    let script = format!("{ENDLESS} ((until_it_runs && echo $$) &); echo start > $P/pgctrl; cat $P/lo; cat");
    let mut child = command
        .args(["exec", "--name", &name, "--", "bash", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let inside = lines.next().expect("it says its number");
    let join = |target: &str, script: &str| {
        let mut command = dry::command().unwrap();
        command
            .args(["exec", "--join", target, "--", "bash", "-c", script])
            .current_dir("/tmp")
            .output()
            .unwrap()
    };
    let again = dry::command().unwrap().args(["exec", "--name", &name, "--", "true"]).output().unwrap();
    let looked = join(&name, "cat /proc/net/pktgen/kpktgend_0; pwd; modprobe pktgen; exit 7");
    let stopped = join(&inside, "echo stop > /proc/net/pktgen/pgctrl");
    let result = lines.next();
    drop(child.stdin.take());
    let rest = lines.rest();
    let ended = child.wait().unwrap();
    assert_eq!(
        text(&looked.stdout),
        "Running: lo \nStopped: \nResult: OK: add_device=lo\n/tmp\n",
        "{looked:?}"
    );
    assert_eq!(looked.status.code(), Some(7));
    assert!(stopped.status.success(), "{stopped:?}");
    assert!(result.is_some_and(|line| line.starts_with("Params: ")));
    assert!(rest.iter().any(|line| line.starts_with("Result: OK: ")), "{rest:?}");
    assert_eq!(ended.code(), Some(0));
    assert_eq!(text(&again.stderr), format!("dry: process {} is named {name} already\n", child.id()));
    assert_eq!(
        text(&join(&name, "true").stderr),
        format!("dry: no `wirerate exec` named {name} is running\n")
    );
    assert_no_trace();
}
