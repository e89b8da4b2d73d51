//! mgcap's names and device files: what its document tells people to type works.

use crate::lab::{Lab, Peer, RX_DEV, Scratch, TX_DEV};
use crate::program::{Running, in_netns, run, until, wirerate, wirerate_run, wirerate_start};
use crate::readers::{frames, packet_count};
use crate::{Case, TestResult, case};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TIME_LIMIT: Duration = Duration::from_secs(60);
const SLOT_LEN: usize = 128;

/// Tests of mgcap's ways.
pub(crate) const CASES: &[Case] = &[
    case(
        "mgcap::mgdump_captures_a_device_that_nobody_captures",
        &["capinfos", "tshark"],
        mgdump_captures_a_device,
    ),
    case(
        "mgcap::device_files_are_streams_of_slots",
        &["capinfos", "tshark"],
        device_files_are_streams_of_slots,
    ),
    case("mgcap::mgdump_of_a_device_file_keeps_the_order_of_time", &["editcap"], order_of_time),
    case("mgcap::mgdump_says_when_the_device_goes", &[], mgdump_says_when_the_device_goes),
    case("mgcap::a_reader_ends_however_fast_frames_come", &[], a_reader_ends_however_fast_frames_come),
    case("mgcap::root_without_capabilities_can_neither_capture_nor_read", &["setpriv"], without_capabilities),
    case("mgcap::ip_mgcap_works_under_exec", &["bash", "ping", "capinfos"], ip_mgcap_works_under_exec),
    case("mgcap::ip_mgcap_works_by_full_name_and_in_a_named_netns", &["bash"], ip_by_full_name),
    case("mgcap::a_saved_file_of_slots_is_written_once_and_a_cut_end_is_told", &["capinfos"], saved_slots),
    case("mgcap::a_deleted_device_is_listed_no_more", &[], deleted_device),
    case("mgcap::a_device_file_that_is_not_there_is_an_error", &[], no_device_file),
    case("mgcap::small_names_are_the_same_program", &[], small_names_are_the_same_program),
    case("mgcap::nobody_there_is_said_with_what_to_do", &[], nobody_there_is_said),
];

/// The program under one of its small names, in a folder.
fn small_name(lab: &Scratch, name: &str) -> PathBuf {
    let program = std::fs::canonicalize(wirerate().get_program()).expect("the program is there");
    let link = lab.file(name);
    symlink(program, &link).expect("a link can be made");
    link
}

fn send(lab: &Lab, count: u32, size: u32) {
    let to = format!("--netns {} --dst 198.18.0.2 --count {count} --size {size}", lab.tx_netns);
    wirerate_run(&format!("send {TX_DEV} {to}")).expect_code(0);
}

fn mgdump_captures_a_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let scratch = Scratch::new();
    let mgdump = small_name(&scratch, "mgdump");
    for (words, files) in
        [("", &["output.pcapng"][..]), ("--per-cpu", &["output_0.pcapng", "output_1.pcapng"])]
    {
        let mut command = Command::new(&mgdump);
        // The device file does not exist, so its last word is the device.
        command.arg(format!("/dev/mgcap/{RX_DEV}")).args(["--netns", &lab.rx_netns]);
        command.args(words.split_whitespace()).current_dir(scratch.file(""));
        let running = Running::start(command);
        running.until_it_says("mgdump: listening on rx0 (XDP");
        send(&lab, 1000, 60);
        running.until_it_prints("sum:1000 pps:");
        running.signal(Signal::SIGINT);
        let ended = running.wait(TIME_LIMIT).expect_code(0);
        assert!(ended.stdout.contains("rx0: 1,000 frames captured, none lost: output"), "{}", ended.stdout);
        let files = files.iter().map(|name| scratch.file(name)).filter(|path| path.exists());
        assert_eq!(files.map(|path| packet_count(&path)).sum::<u64>(), 1000, "{words}");
    }
    Ok(())
}

fn mgdump_says_when_the_device_goes() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = |file: &str| {
        let mut command = wirerate();
        command.args(["mgdump", RX_DEV, "--netns", &lab.rx_netns, "--write"]).arg(lab.file(file));
        Running::start(command)
    };
    let refused = words("x.pcap").wait(TIME_LIMIT).expect_code(2);
    refused.says(&["mgdump writes pcapng, not compressed", "--write FILE.pcapng, or wirerate capture rx0"]);
    let running = words("x.pcapng");
    running.until_it_says("listening on rx0");
    run(&["ip", "-n", &lab.rx_netns, "link", "delete", RX_DEV]);
    running.wait(TIME_LIMIT).expect_code(1).says(&["mgdump: rx0 went away"]);
    assert_eq!(packet_count(&lab.file("x.pcapng")), 0);
    Ok(())
}

/// A daemon in the receiver's namespace with its directories in the lab's folder.
fn serve(lab: &Lab) -> (Running, PathBuf) {
    let (mount, dir) = (lab.file("pktgen"), lab.file("mgcap"));
    let mut command = wirerate();
    command.args(["serve", "--netns", &lab.rx_netns]);
    command.arg("--mount").arg(&mount).arg("--mgcap").arg(&dir);
    let running = Running::start(command);
    until("the device files are there", || dir.join(".control").exists());
    (running, dir)
}

fn mgcap(dir: &Path, words: &str) -> crate::program::Outcome {
    let mut command = wirerate();
    command.args(["mgcap", "--dir"]).arg(dir).args(words.split_whitespace());
    Running::start(command).wait(TIME_LIMIT)
}

fn is_readable(file: &File, timeout_ms: u16) -> bool {
    let mut polled = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::from(timeout_ms)).expect("it can be polled") == 1
}

fn device_files_are_streams_of_slots() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (daemon, dir) = serve(&lab);
    mgcap(&dir, "stop dev rx0").expect_code(3).says(&["cannot end the capture of rx0: rx0 is not captured"]);
    mgcap(&dir, "start dev rx7").expect_code(3).says(&["cannot capture rx7: there is no device rx7"]);
    mgcap(&dir, "start dev rx0").expect_code(0);
    mgcap(&dir, "start dev rx0").expect_code(3).says(&["rx0 is captured already"]);
    assert_eq!(std::fs::read_dir(&dir)?.count(), 1, "the control file is hidden");

    // Slots, whole and once each; without any, a reader that must not wait is told so and poll
    // sleeps.
    let mut file = File::options().read(true).custom_flags(0o4000).open(dir.join(RX_DEV))?;
    let mut bytes = vec![0xee; 64 * SLOT_LEN];
    assert_eq!(file.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!is_readable(&file, 50));
    send(&lab, 5, 70);
    assert!(is_readable(&file, 20_000));
    let mut got = Vec::new();
    until("five slots", || {
        if let Ok(len) = file.read(&mut bytes) {
            got.extend_from_slice(&bytes[..len]);
        }
        got.len() >= 5 * SLOT_LEN
    });
    assert_eq!(got.len(), 5 * SLOT_LEN);
    for slot in got.chunks(SLOT_LEN) {
        assert_eq!(u16::from_ne_bytes([slot[0], slot[1]]), 70);
        assert!(i64::from_ne_bytes(slot[2..10].try_into()?) > 1_600_000_000_000_000_000);
        assert_eq!(slot[10..16], [2, 0, 0, 0, 0, 2]);
        assert!(slot[10 + 70..].iter().all(|byte| *byte == 0), "unused bytes are zero");
    }
    assert!(!is_readable(&file, 50));

    // The same as lines of text.
    send(&lab, 2, 64);
    let mut command = wirerate();
    command.args(["mgdump", "--text", RX_DEV, "--count", "2", "--dir"]).arg(&dir);
    let text = Running::start(command).wait(TIME_LIMIT).expect_code(0).stdout;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    let is_frame =
        |line: &Vec<&str>| line[1] == "64" && line[2].starts_with("020000000002") && line[2].len() == 128;
    assert!(lines.iter().all(is_frame), "{text}");

    // mgdump finds the file, reads on every CPU, and ends when the capture does.
    let output = lab.file("output.pcapng");
    let mut command = wirerate();
    command.args(["mgdump", RX_DEV, "--dir"]).arg(&dir).arg("--write").arg(&output);
    let reader = Running::start(command);
    reader.until_it_says("from CPU 0");
    mgcap(&dir, "set dev rx0 mode drop").expect_code(0);
    send(&lab, 3000, 60);
    reader.until_it_prints("sum:3000 pps:");
    let shown = mgcap(&dir, "show dev rx0").expect_code(0).stdout;
    assert!(shown.contains("rx0: mode drop, 3,007 received, 3,007 read, 0 lost (XDP, native"), "{shown}");
    mgcap(&dir, "stop dev rx0").expect_code(0);
    let ended = reader.wait(TIME_LIMIT).expect_code(0);
    assert!(ended.stdout.contains("rx0: 3,000 frames captured, none lost"), "{}", ended.stdout);
    assert_eq!(packet_count(&output), 3000);
    assert!(!lab.has_xdp() && !dir.join(RX_DEV).exists());
    mgcap(&dir, "show dev rx0").expect_code(1);

    daemon.signal(Signal::SIGTERM);
    daemon.wait(TIME_LIMIT).expect_code(0);
    assert!(!dir.exists());
    Ok(())
}

fn without_capabilities() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (daemon, dir) = serve(&lab);
    mgcap(&dir, "start dev rx0").expect_code(0);
    send(&lab, 5, 70);
    let read = |capabilities: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", capabilities, "head", "-c", "128"]).arg(dir.join(RX_DEV));
        Running::start(command).wait(TIME_LIMIT)
    };
    read("-all").expect_code(1).says(&["Operation not permitted"]);
    assert!(!read("-all,+net_raw").expect_code(0).stdout.is_empty());
    let program = std::fs::canonicalize(wirerate().get_program())?;
    let order = |capabilities: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", capabilities]).arg(&program).args(["mgcap", "--dir"]).arg(&dir);
        command.args(["set", "dev", "rx0", "mode", "drop"]);
        Running::start(command).wait(TIME_LIMIT)
    };
    order("-all,+net_raw")
        .expect_code(3)
        .says(&["cannot set the mode of rx0 to drop: orders require CAP_NET_ADMIN", "try: run it as root"]);
    order("-all,+net_admin").expect_code(0);
    daemon.signal(Signal::SIGTERM);
    daemon.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

/// Steps back in time were as many as batches of the two readers overlapped: 2,507 in 40,000
/// frames.
fn order_of_time() -> TestResult {
    const COUNT: u64 = 40_000;
    let lab = Lab::new(Peer::Gro);
    let (daemon, dir) = serve(&lab);
    mgcap(&dir, "start dev rx0").expect_code(0);
    let output = lab.file("output.pcapng");
    let mut command = wirerate();
    command.args(["mgdump", RX_DEV, "--dir"]).arg(&dir).arg("--write").arg(&output);
    let reader = Running::start(command);
    reader.until_it_says("from CPU 0");
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --threads 2", lab.tx_netns);
    wirerate_run(&format!("{words} --count {COUNT} --pps 40k --engine skb")).expect_paced();
    until("all have been read", || {
        mgcap(&dir, "show dev rx0").stdout.contains("40,000 received, 40,000 read, 0 lost")
    });
    mgcap(&dir, "stop dev rx0").expect_code(0);
    reader.wait(TIME_LIMIT).expect_code(0);
    let times: Vec<u64> = frames(&output).iter().map(|frame| frame.time_ns).collect();
    let back = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!(times.len() as u64, COUNT);
    // A CPU that is taken from a virtual machine between a stamp and its slot makes a frame late.
    assert!(back < 40, "{back} steps back");
    daemon.signal(Signal::SIGTERM);
    daemon.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

/// The capture behind a device file goes on for others, so its rings may never be empty.
fn a_reader_ends_however_fast_frames_come() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (daemon, dir) = serve(&lab);
    mgcap(&dir, "start dev rx0").expect_code(0);
    mgcap(&dir, "set dev rx0 mode drop").expect_code(0);
    let flood = wirerate_start(&format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --count 0", lab.tx_netns));
    let mut command = wirerate();
    command.args(["mgdump", RX_DEV, "--dir"]).arg(&dir).args(["--write", "/dev/null"]);
    let reader = Running::start(command);
    reader.until_it_prints("sum:");
    reader.signal(Signal::SIGINT);
    let ended = reader.wait(TIME_LIMIT);
    assert!(
        ended.stdout.contains("rx0: ") && ended.stdout.contains(" frames captured, "),
        "{}",
        ended.stdout
    );
    flood.signal(Signal::SIGINT);
    flood.wait(TIME_LIMIT).expect_code(0);
    daemon.signal(Signal::SIGTERM);
    daemon.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

/// The lines of the document, as they stand there.
const DOCUMENT: &str = "set -e
ip link set lo up
ip mgcap start dev lo
ping -q -c 3 -i 0.01 127.0.0.1 > /dev/null
ls /dev/mgcap
timeout 30 head -c 768 /dev/mgcap/lo | wc -c
folder=$(mktemp -d); cd $folder
\"$0\" mgdump /dev/mgcap/lo --count 4 > out &
ip mgcap set dev lo mode mirror
while kill -0 $! 2> /dev/null; do ping -q -c 2 -i 0.01 127.0.0.1 > /dev/null; done
wait $!
grep captured out
capinfos -M -c output.pcapng | tail -n 1 | tr -dc 0-9; echo
cd /; rm -r $folder
ip mgcap set dev lo mode drop
if ping -q -c 1 -W 1 127.0.0.1 > /dev/null; then echo 'not dropped'; exit 1; fi
ip mgcap stop dev lo
ping -q -c 1 127.0.0.1 > /dev/null
ip -brief link show lo | cut -c1-2
ip mgcap stop dev lo || echo refused
";

fn ip_mgcap_works_under_exec() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut command = wirerate();
    let program = std::fs::canonicalize(command.get_program())?;
    command.args(["exec", "--netns", &lab.rx_netns, "--", "bash", "-c", DOCUMENT]).arg(program);
    let ended = Running::start(command).wait(TIME_LIMIT).expect_code(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let captured = "lo: 4 frames captured, none lost: output.pcapng";
    assert_eq!(lines, ["lo", "768", captured, "4", "lo", "refused"], "{}", ended.stdout);
    ended.says(&["cannot end the capture of lo: lo is not captured"]);
    let lo = run(&["ip", "-n", &lab.rx_netns, "link", "show", "dev", "lo"]);
    assert!(!lo.contains("xdp"), "{lo}");
    assert!(!Path::new("/dev/mgcap/lo").exists());
    Ok(())
}

/// `env PATH=...` is what sudo does.
const BY_FULL_NAME: &str = "set -e
sudo='env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
usage() { grep -c 'Usage: ip mgcap { start | stop } dev DEV'; }
ip mgcap | usage; /sbin/ip mgcap help | usage; $sudo ip mgcap help | usage
$sudo ip -brief link show lo | cut -c1-2
/sbin/ip -n $1 mgcap start dev rx0
$sudo ip -n $1 mgcap show dev rx0
ls /dev/mgcap
timeout 60 $sudo mgdump /dev/mgcap/rx0 --count 5 --write $2 > $2.out &
while ! [ -s $2 ]; do sleep 0.01; done
$0 send tx0 --dst 198.18.0.2 --count 5 --size 60
wait $!
grep captured $2.out
$sudo mgcap stop dev rx0
$sudo mgcap_hwtstamp_config rx0 0 --netns $1 | head -n 1
if ip -n $1 mgcap stop dev rx0; then exit 1; fi
";

fn ip_by_full_name() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut command = wirerate();
    let program = std::fs::canonicalize(command.get_program())?;
    command.args(["exec", "--netns", &lab.tx_netns, "--", "bash", "-c", BY_FULL_NAME]);
    command.arg(program).arg(&lab.rx_netns).arg(lab.file("out.pcapng"));
    let ended = Running::start(command).wait(TIME_LIMIT).expect_code(0);
    let captured = format!("rx0: 5 frames captured, none lost: {}", lab.file("out.pcapng").display());
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.starts_with("tx0")).collect();
    let is_line = |line: &str| lines.contains(&line);
    assert_eq!(lines[..4], ["1", "1", "1", "lo"], "{}", ended.stdout);
    assert!(lines[4].starts_with("rx0: mode mirror, 0 received"), "{}", ended.stdout);
    assert!(is_line("rx0") && is_line(&captured), "{}", ended.stdout);
    assert!(lines.iter().any(|line| line.starts_with("rx0 in ")), "{}", ended.stdout);
    ended.says(&["cannot end the capture of rx0: rx0 is not captured"]);
    assert!(!lab.has_xdp());
    Ok(())
}

fn saved_slots() -> TestResult {
    let scratch = Scratch::new();
    let (saved, output) = (scratch.file("saved"), scratch.file("output.pcapng"));
    let slot = |time: i64| {
        let mut slot = [0; SLOT_LEN];
        slot[..2].copy_from_slice(&60_u16.to_ne_bytes());
        slot[2..10].copy_from_slice(&time.to_ne_bytes());
        slot
    };
    let mut bytes: Vec<u8> = (0..1000).flat_map(|time| slot(1_700_000_000_000_000_000 + time)).collect();
    let mgdump = || {
        let mut command = wirerate();
        command.arg("mgdump").arg(&saved).arg("--write").arg(&output);
        Running::start(command).wait(TIME_LIMIT)
    };
    std::fs::write(&saved, &bytes)?;
    let ended = mgdump().expect_code(0);
    assert!(ended.stdout.contains("saved: 1,000 frames captured, none lost"), "{}", ended.stdout);
    assert_eq!(packet_count(&output), 1000);
    bytes.truncate(bytes.len() - 50);
    std::fs::write(&saved, &bytes)?;
    let ended = mgdump().expect_code(1);
    ended.says(&["saved ends inside of a slot, which is left out"]);
    assert!(ended.stdout.contains("saved: 999 frames captured"), "{}", ended.stdout);
    Ok(())
}

fn deleted_device() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (daemon, dir) = serve(&lab);
    mgcap(&dir, "start dev rx0").expect_code(0);
    assert!(dir.join(RX_DEV).exists());
    run(&["ip", "-n", &lab.rx_netns, "link", "delete", "dev", RX_DEV]);
    until("it is listed no more", || std::fs::read_dir(&dir).is_ok_and(|entries| entries.count() == 0));
    assert_eq!(mgcap(&dir, "show").expect_code(0).stdout, "");
    mgcap(&dir, "show dev rx0").expect_code(1);
    assert!(!dir.join(RX_DEV).exists());
    daemon.signal(Signal::SIGTERM);
    daemon.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

fn no_device_file() -> TestResult {
    let scratch = Scratch::new();
    let mut command = wirerate();
    command.args(["mgdump", "/dev/mgcap/NOPE", "--write"]).arg(scratch.file("output.pcapng"));
    let ended = Running::start(command).wait(TIME_LIMIT).expect_code(3);
    ended.says(&["cannot read /dev/mgcap/NOPE", "try: `mgcap start dev NOPE`", "try: mgdump NOPE"]);
    assert!(!scratch.file("output.pcapng").exists());
    Ok(())
}

fn small_names_are_the_same_program() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let scratch = Scratch::new();
    let config = small_name(&scratch, "mgcap_hwtstamp_config");
    let run_in = |words: &[&str]| {
        let mut command = in_netns(&lab.rx_netns, config.to_str().expect("a plain path"));
        command.args(words);
        Running::start(command).wait(TIME_LIMIT)
    };
    run_in(&[RX_DEV, "0"]).expect_code(0);
    run_in(&[RX_DEV, "1"]).expect_code(3).says(&["has no clock of its own"]);
    run_in(&[RX_DEV, "2"]).expect_code(2);
    Ok(())
}

fn nobody_there_is_said() -> TestResult {
    let scratch = Scratch::new();
    for words in ["start dev lo", "show"] {
        let ended = mgcap(&scratch.file("none"), words).expect_code(3);
        ended.says(&["no process serves device files at ", "try: `wirerate serve`"]);
    }
    mgcap(&scratch.file("none"), "begin dev lo").expect_code(2).says(&["\"begin\" is none of start"]);
    Ok(())
}
