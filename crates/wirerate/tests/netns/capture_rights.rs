//! Which rights commands that receive need, and what is left of them while a capture runs.

use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Running, TIME_LIMIT, run, until, wirerate, wirerate_run};
use crate::readers::packet_count;
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

/// Tests of rights.
pub(crate) const CASES: &[Case] = &[
    case("capture_rights::a_running_capture_keeps_no_right_but_to_its_files", &[], running_capture),
    case("capture_rights::a_capture_runs_as_another_user_without_any_right", &["capinfos"], other_user),
    case("capture_rights::tell_by_another_user_is_refused_and_says_that_one_runs", &["setpriv"], tell_denied),
    case("capture_rights::the_rights_in_the_documents_are_enough_and_each_is_needed", &["setpriv"], enough),
    case("capture_rights::root_writes_nothing_behind_links_of_other_users", &[], foreign_links),
];

const CAP_DAC_OVERRIDE: u64 = 1 << 1;
const CAP_FOWNER: u64 = 1 << 3;

/// A line of the status of each thread of a process.
#[track_caller]
fn of_threads(pid: u32, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let line = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status.lines().find(|line| line.starts_with(field)).map(str::to_owned);
        Some(format!("{}: {}", fs::read_to_string(thread.path().join("comm")).ok()?.trim(), line?))
    };
    threads.filter_map(line).collect()
}

/// The capabilities that some thread of a process can use.
#[track_caller]
fn held(pid: u32) -> u64 {
    let lines = of_threads(pid, "CapPrm:");
    assert!(lines.len() > 2, "{lines:?}");
    let mask = |line: &String| u64::from_str_radix(line.rsplit('\t').next().unwrap_or(""), 16);
    lines.iter().map(mask).fold(0, |all, mask| all | mask.expect("a number of base 16"))
}

fn send(lab: &Lab, count: u32) {
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count {count}", lab.tx_netns);
    wirerate_run(&words).expect_code(0);
}

fn running_capture() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for source in ["xdp", "tpacket"] {
        let file = lab.file(&format!("{source}.pcapng.zst"));
        let words = format!("capture {RX_DEV} --netns {} --source {source} -w", lab.rx_netns);
        let mut command = wirerate();
        command.args(words.split(' ')).arg(&file).args(["--rotate-every", "1h", "--rotate-command", "true"]);
        let running = Running::start(command);
        running.until_it_says("capturing on rx0");
        until("rights are gone", || held(running.id()) & !(CAP_DAC_OVERRIDE | CAP_FOWNER) == 0);
        send(&lab, 100);
        running.signal(Signal::SIGINT);
        running.wait(TIME_LIMIT).expect_code(0);
        assert!(!lab.has_xdp());
    }
    Ok(())
}

fn other_user() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let folder = lab.file("theirs");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    let name = folder.join("x.pcapng");
    let words = format!("capture {RX_DEV} --netns {} --user nobody --rotate-size 10kB -w", lab.rx_netns);
    let mut command = wirerate();
    command
        .args(words.split(' '))
        .arg(&name)
        .args(["--rotate-command", "f() { id -u >> \"${1%/*}/ids\"; }; f"]);
    let running = Running::start(command);
    running.until_it_says("capturing on rx0");
    assert_eq!(held(running.id()), 0);
    for user in of_threads(running.id(), "Uid:") {
        assert!(user.ends_with("\t65534\t65534\t65534\t65534"), "{user}");
    }
    let switched = wirerate_run(&format!("ctl {RX_DEV} mode drop --netns {}", lab.rx_netns));
    switched.expect_code(0);
    send(&lab, 1_000);
    let stats = || wirerate_run(&format!("ctl {RX_DEV} stats --netns {}", lab.rx_netns)).stdout;
    until("they are written", || stats().contains("\"written\":1000"));
    wirerate_run(&format!("ctl {RX_DEV} stop --netns {}", lab.rx_netns)).expect_code(0);
    running.wait(TIME_LIMIT).expect_code(0);
    let files = fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.path()));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    assert!(files.iter().all(|file| fs::metadata(file).is_ok_and(|meta| meta.uid() == 65_534)), "{files:?}");
    let captured = files.iter().filter(|file| file.extension().is_some_and(|end| end == "pcapng"));
    assert_eq!(captured.map(|file| packet_count(file)).sum::<u64>(), 1_000);
    let ids = fs::read_to_string(folder.join("ids"))?;
    assert!(ids.lines().count() > 3 && ids.lines().all(|id| id == "65534"), "{ids}");
    // What it may not write is refused before frames come, and nothing stays on the device.
    let refused = wirerate_run(&format!(
        "capture {RX_DEV} --netns {} --user nobody -w {}",
        lab.rx_netns,
        lab.file("ours.pcapng").display()
    ));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    refused.expect_code(3).says(&["ours.pcapng", "Permission denied"]);
    assert!(!lab.has_xdp());
    Ok(())
}

fn tell_denied() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = Running::start({
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &lab.rx_netns])
            .arg(wirerate().get_program())
            .args(["capture", RX_DEV]);
        command
    });
    running.until_it_says("capturing on rx0");
    // The folders on the way to the binary may be closed to others.
    let copy = lab.file("wirerate");
    fs::copy(wirerate().get_program(), &copy)?;
    let mut control = Command::new("ip");
    control.args(["netns", "exec", &lab.rx_netns, "setpriv", "--reuid", "65534", "--regid", "65534"]);
    control.arg("--clear-groups").arg(&copy).args(["ctl", RX_DEV, "stats"]);
    let denied = Running::start(control).wait(TIME_LIMIT).expect_code(3);
    denied.says(&["the capture on rx0 takes commands from its own user only", "try: the same as root"]);
    Ok(())
}

/// Root wrote where a link of another user in the folders of the path led.
fn foreign_links() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (target, link) = (lab.file("target"), lab.file("link"));
    fs::create_dir(&target)?;
    std::os::unix::fs::symlink(&target, &link)?;
    let words = format!("capture {RX_DEV} --netns {} --duration 1ms", lab.rx_netns);
    for (name, more) in [
        ("x.pcapng", ""),
        ("x.pcapng", "--rotate-every 1h"),
        ("x.pcapng", "--keep 5s"),
        ("%Y.pcapng", "--keep 5s"),
        ("new/%Y.pcapng", ""),
        ("set", "--format parquet"),
    ] {
        let capture = || wirerate_run(format!("{words} -w {} {more}", link.join(name).display()).trim());
        std::os::unix::fs::lchown(&link, Some(65_534), None)?;
        capture()
            .expect_code(3)
            .says(&["link is a symbolic link of another user, which root does not follow"]);
        assert_eq!(fs::read_dir(&target)?.count(), 0, "{name} {more}");
        // Such as /var/run.
        std::os::unix::fs::lchown(&link, Some(0), None)?;
        capture().expect_code(0);
        fs::remove_dir_all(&target)?;
        fs::create_dir(&target)?;
    }
    Ok(())
}

/// The rows of docs/when-it-does-not-work.md: words of a command, and what it needs.
fn rows() -> Vec<(String, Vec<String>)> {
    let page =
        fs::read_to_string(testkit::root().join("docs/when-it-does-not-work.md")).expect("the page is there");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let command = cells.next()?.trim().trim_end_matches('`').to_owned();
        let is_ours = ["capture ", "count ", "sink ", "timestamp ", "mgdump ", "ctl ", "send "];
        let rights = cells.next()?.trim();
        let rights = rights.split(", ").filter(|right| *right != "none");
        is_ours
            .iter()
            .any(|word| command.starts_with(word))
            .then(|| (command.clone(), rights.map(|right| right.trim_matches('`').to_lowercase()).collect()))
    };
    page.lines().filter_map(row).collect()
}

fn enough() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let receiver = Running::start({
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &lab.rx_netns])
            .arg(wirerate().get_program())
            .args(["capture", RX_DEV]);
        command.args(["--source", "tpacket"]);
        command
    });
    receiver.until_it_says("capturing on rx0");
    let rows = rows();
    assert!(rows.len() >= 12, "{rows:?}");
    for (command, rights) in &rows {
        let code = |rights: &[&String]| {
            let bounding = rights
                .iter()
                .fold("-all".to_owned(), |set, right| format!("{set},+{}", right.trim_start_matches("cap_")));
            let mut limited = Command::new("ip");
            limited.args(["netns", "exec", &lab.rx_netns, "setpriv", "--bounding-set", &bounding]);
            limited.args(["--inh-caps", "-all", "--ambient-caps", "-all"]).arg(wirerate().get_program());
            limited.args(command.replace("DEV", RX_DEV).split(' '));
            Running::start(limited).wait(TIME_LIMIT).code
        };
        let all: Vec<&String> = rights.iter().collect();
        assert_eq!(code(&all), Some(0), "{command} with {rights:?}");
        for left_out in &all {
            let others: Vec<&String> = all.iter().copied().filter(|right| right != left_out).collect();
            assert_ne!(code(&others), Some(0), "{command} does not need {left_out}");
        }
    }
    run(&["ip", "-n", &lab.rx_netns, "link", "show", RX_DEV]);
    Ok(())
}
