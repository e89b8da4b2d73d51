//! Ends by size and by number of files, rotation on command, signals, and rotate commands of
//! `wirerate capture`.

use crate::capture_runs::{adds_up, capture, command, number, send, send_with, text};
use crate::lab::{Lab, Peer, RX_DEV, TX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, run, until, wirerate, wirerate_run, wirerate_start};
use crate::readers::{packet_count, tshark};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Tests of ends, rotation and signals.
pub(crate) const CASES: &[Case] = &[
    case("capture_rotation::a_number_of_intervals_ends_it_as_with_tcpdump", &["capinfos"], intervals),
    case("capture_rotation::it_ends_before_its_files_are_longer", &["capinfos"], stop_after),
    case("capture_rotation::dumpcaps_limits_of_size_and_files_end_it", &["capinfos"], dumpcap_limits),
    case("capture_rotation::a_quota_of_a_single_file_is_refused_with_both_ways_out", &[], quota),
    case("capture_rotation::a_command_begins_the_next_file", &["capinfos"], rotate_now),
    case("capture_rotation::names_of_one_minute_sort_in_order_of_time", &["capinfos"], names_sort),
    case("capture_rotation::signals_print_the_counts_and_write_to_the_disk", &["zstd", "capinfos"], signals),
    case("capture_rotation::rotate_commands_run_to_their_end_after_ctrl_c", &["sleep"], commands_finish),
    case("capture_rotation::any_and_patterns_take_all_devices_of_the_namespace", &["tshark"], groups),
    case("capture_rotation::a_device_that_is_not_there_yet_is_waited_for", &["ip"], waits),
    case("capture_rotation::a_device_that_comes_back_is_captured_again", &["tshark"], comes_back),
    case("capture_rotation::frames_are_cut_behind_their_headers", &["tshark"], header_cut),
    case("capture_rotation::sigusr1_prints_the_counts_of_senders_and_readers", &["mkfifo"], counts_of_others),
];

/// The files of a folder whose names begin like this, as a shell sorts them.
fn files(lab: &Lab, begin: &str) -> Vec<PathBuf> {
    let folder = lab.file("x");
    let folder = folder.parent().expect("files are in a folder");
    let entries = fs::read_dir(folder).expect("it is ours").map(|entry| entry.expect("it is ours"));
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    names.retain(|path| path.file_name().is_some_and(|name| text(Path::new(name)).starts_with(begin)));
    names.sort();
    names
}

/// The counts add up, and the files have what was written.
#[track_caller]
fn accounted(outcome: &Outcome, files: &[PathBuf]) {
    adds_up(outcome);
    let packets: u64 = files.iter().map(|file| packet_count(file)).sum();
    assert_eq!(packets, number(outcome, "written"), "{files:?}");
}

/// It went on for ever, and removed the first file.
fn intervals() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let mut running = capture(&lab, &["-w", text(&lab.file("n.pcapng")), "-G", "1", "-W", "2"]);
    while !running.has_ended() {
        send(&lab, 50);
    }
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    let files = files(&lab, "n_");
    assert_eq!((files.len(), number(&outcome, "files")), (2, 2), "{files:?}");
    accounted(&outcome, &files);
    Ok(())
}

fn stop_after() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (name, words) in [("one.pcapng", &[][..]), ("many.pcapng", &["--rotate-size", "20kB"])] {
        let file = lab.file(name);
        let running = capture(&lab, &[&["-w", text(&file), "--stop-after", "100kB"], words].concat());
        send(&lab, 3_000);
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        let files = files(&lab, name.split('.').next().expect("a stem"));
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).expect("it is there").len()).sum();
        assert!((95_000..=100_000).contains(&bytes), "{bytes} bytes in {files:?}");
        // It ends while the sender still sends; how many come until then is the machine's affair.
        let [received, written, after] =
            ["received", "written", "after_limit"].map(|name| number(&outcome, name));
        assert!(after > 0 && received == written + after, "{}", outcome.stdout);
        accounted(&outcome, &files);
    }
    Ok(())
}

fn dumpcap_limits() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = capture(&lab, &["-w", text(&lab.file("a.pcapng")), "-a", "filesize:50"]);
    send(&lab, 2_000);
    accounted(&running.wait(TIME_LIMIT).expect_code(0), &files(&lab, "a."));
    let file = lab.file("b.pcapng");
    let running = capture(&lab, &["-w", text(&file), "-b", "filesize:10", "-a", "files:3"]);
    send(&lab, 2_000);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert_eq!(number(&outcome, "files"), 3);
    accounted(&outcome, &files(&lab, "b_"));
    let refused =
        Running::start(command(&lab, &["-w", "x", "-a", "files:3"])).wait(TIME_LIMIT).expect_code(2);
    refused.says(&["an end after 3 files needs a size or an interval", "try: --rotate-size"]);
    Ok(())
}

/// It turned into a rotation, and removed nine tenths of the capture.
fn quota() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("q.pcapng");
    let refused = Running::start(command(&lab, &["-w", text(&file), "--quota", "200kB"]));
    let refused = refused.wait(TIME_LIMIT).expect_code(2);
    refused.says(&["a quota of 200000 bytes needs", "--rotate-size 20000", "--stop-after 200000"]);
    assert!(files(&lab, "q").is_empty());
    Ok(())
}

fn rotate_now() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let ctl = format!("ctl {RX_DEV} --netns {} rotate", lab.rx_netns);
    let running = capture(&lab, &["-w", text(&lab.file("r.pcapng")), "--rotate-size", "1GB"]);
    assert_eq!(wirerate_run(&ctl).expect_code(0).stdout, "", "a file without frames goes on");
    for number in 1..=3 {
        send(&lab, 100);
        // Frames that wait for their place in time belong to the next file.
        until("the file has the frames", || {
            let stats = wirerate_run(&format!("ctl {RX_DEV} --netns {} stats", lab.rx_netns));
            stats.stdout.contains(&format!("\"written\":{}", number * 100))
        });
        let name = wirerate_run(&ctl).expect_code(0).stdout;
        assert!(name.trim().ends_with(&format!("r_{number:05}.pcapng")), "{name}");
        assert_eq!(packet_count(Path::new(name.trim())), 100);
    }
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert_eq!((number(&outcome, "files"), number(&outcome, "files_removed")), (3, 0));
    accounted(&outcome, &files(&lab, "r_"));
    let running = capture(&lab, &["-w", text(&lab.file("s.pcapng"))]);
    let refused = wirerate_run(&ctl).expect_code(3);
    refused.says(&["it writes a single file", "--rotate-size"]);
    running.signal(Signal::SIGINT);
    running.wait(TIME_LIMIT).expect_code(0);
    Ok(())
}

/// They were k_1119_1, k_1119_10, k_1119_11, k_1119_2.
fn names_sort() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("k_%Y.pcapng");
    let words = ["-w", text(&file), "--rotate-size", "10kB", "--files", "15"];
    let running = capture(&lab, &words);
    send(&lab, 2_000);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    let files = files(&lab, "k_");
    assert_eq!(files.len(), 15);
    assert_eq!(number(&outcome, "files") - number(&outcome, "files_removed"), 15);
    let first =
        |file: &PathBuf| run(&["capinfos", "-Tmra", "-S", text(file)]).split('\t').nth(1).map(str::to_owned);
    let times: Vec<_> = files.iter().map(first).collect();
    assert!(times.is_sorted(), "{times:?}");
    Ok(())
}

/// Both killed the capture, and what was compressed was lost.
fn signals() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("s.pcapng.zst");
    let running = capture(&lab, &["-w", text(&file)]);
    send(&lab, 500);
    until("it says what it counted", || {
        running.signal(Signal::SIGUSR1);
        std::thread::sleep(std::time::Duration::from_millis(20));
        running.said().contains("wirerate: capture frames (rx0, ")
    });
    running.signal(Signal::SIGUSR2);
    let plain = lab.file("s.pcapng");
    until("all frames are in the file", || {
        // The end of the stream is not there yet, but every block is.
        let script = format!("zstd -qdc {} > {} 2>/dev/null; true", file.display(), plain.display());
        run(&["sh", "-c", &script]);
        packet_count_of_cut(&plain) == 500
    });
    send(&lab, 500);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert_eq!((number(&outcome, "received"), number(&outcome, "written")), (1_000, 1_000));
    outcome.says(&["wirerate: capture bytes (rx0, "]);
    Ok(())
}

/// Packets of a file that has no end, read by our own reader of blocks.
fn packet_count_of_cut(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap_or_default();
    let mut reader = pcapng::Reader::new(&bytes[..]);
    let mut count = 0;
    while let Ok(Some(block)) = reader.next_block() {
        count += usize::from(matches!(block, pcapng::Block::Packet(_)));
    }
    count
}

/// They were ended 0.3 s after Ctrl-C, and those in the queue never began.
fn commands_finish() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (name, done) = (lab.file("x.pcapng"), lab.file("done"));
    let slow = format!("f() {{ sleep 0.2; echo \"$1\" >> {}; }}; f", done.display());
    let running = capture(&lab, &["-w", text(&name), "--rotate-size", "20kB", "--rotate-command", &slow]);
    send(&lab, 1_000);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    let handed_over = fs::read_to_string(&done)?;
    assert_eq!(handed_over.lines().count() as u64, number(&outcome, "files"));
    assert_eq!(number(&outcome, "commands_failed"), 0);
    accounted(&outcome, &files(&lab, "x_"));
    Ok(())
}

fn groups() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    run(&["ip", "-n", &lab.rx_netns, "link", "set", "lo", "up"]);
    for (word, said) in [("any", "2 devices,"), ("rx*", "1 device,")] {
        let file = lab.file("any.pcapng");
        let mut command = wirerate();
        command.args(["capture", word, "--netns", &lab.rx_netns, "--json", "-w", text(&file), "udp"]);
        let running = Running::start(command);
        running.until_it_says(said);
        send(&lab, 20);
        let stats = wirerate_run(&format!("ctl {word} --netns {} stats", lab.rx_netns)).expect_code(0);
        assert!(stats.stdout.contains("\"received\""), "{}", stats.stdout);
        running.signal(Signal::SIGINT);
        let outcome = running.wait(TIME_LIMIT).expect_code(0);
        assert_eq!(number(&outcome, "written"), 20);
        assert!(outcome.stdout.contains("\"promiscuous\":false"), "{}", outcome.stdout);
        let names = tshark(&file, "", &["frame.interface_name"]);
        assert!(names.len() == 20 && names.iter().all(|name| name == "rx0"), "{names:?}");
    }
    let refused = wirerate_run(&format!("capture nothing* --netns {}", lab.rx_netns)).expect_code(2);
    refused.says(&["no device has a name like nothing*"]);
    Ok(())
}

fn waits() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    // It said that there was no such device, as if it had not waited.
    let running = wirerate_start(&format!("capture late0 --netns {} --wait", lab.rx_netns));
    running.until_it_says("waiting for late0");
    running.signal(Signal::SIGINT);
    running.wait(TIME_LIMIT).expect_code(1).says(&["nothing was captured: late0 is not there"]);
    let mut command = wirerate();
    command.args(["capture", "late0", "--netns", &lab.rx_netns, "--wait", "--duration", "50ms"]);
    let running = Running::start(command);
    running.until_it_says("waiting for late0");
    run(&["ip", "-n", &lab.rx_netns, "link", "add", "late0", "type", "veth", "peer", "name", "late1"]);
    running.wait(TIME_LIMIT).expect_code(0).says(&["capturing on late0"]);
    Ok(())
}

/// The capture ended when the device was deleted.
fn comes_back() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("back.pcapng");
    let words = ["capture", "late0", "--netns", &lab.rx_netns, "--wait", "--json", "udp"];
    let mut command = wirerate();
    command.args(words).args(["-w", text(&file)]);
    let mut running = Running::start(command);
    running.until_it_says("waiting for late0");
    let (rx, tx) = (&lab.rx_netns, &lab.tx_netns);
    let mut open_files = Vec::new();
    for round in 0..3 {
        run(&[
            "ip", "link", "add", "late0", "netns", rx, "type", "veth", "peer", "name", "peer0", "netns", tx,
        ]);
        running.until_it_says(if round == 0 { "capturing on late0" } else { "late0 appeared" });
        run(&["ip", "-n", rx, "link", "set", "late0", "up"]);
        run(&["ip", "-n", tx, "link", "set", "peer0", "up"]);
        let send = format!("send peer0 --netns {tx} --dst-mac 02:00:00:00:00:99 --engine skb --count 7");
        wirerate_run(&send).expect_code(0);
        run(&["ip", "-n", rx, "link", "delete", "late0"]);
        running.until_it_says("late0 went away");
        assert!(!running.has_ended());
        open_files.push(fs::read_dir(format!("/proc/{}/fd", running.id()))?.count());
    }
    assert_eq!(open_files, [open_files[0]; 3], "nothing of a device that is gone stays open");
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert_eq!(number(&outcome, "written"), 21);
    assert!(outcome.stdout.contains("\"promiscuous\":true"), "{}", outcome.stdout);
    accounted(&outcome, std::slice::from_ref(&file));
    let names = tshark(&file, "udp", &["frame.interface_name"]);
    assert!(names.len() == 21 && names.iter().all(|name| name == "late0"), "{names:?}");
    Ok(())
}

fn header_cut() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    for (snaplen, kept) in [("headers", "42"), ("headers+16", "58")] {
        for source in ["xdp", "tpacket"] {
            let file = lab.file("cut.pcapng");
            let running = capture(&lab, &["-w", text(&file), "--source", source, "-s", snaplen, "udp"]);
            send_with(&lab, 30, "--size 200");
            running.signal(Signal::SIGINT);
            let outcome = running.wait(TIME_LIMIT).expect_code(0);
            assert_eq!((number(&outcome, "written"), number(&outcome, "cut")), (30, 30));
            let lens = tshark(&file, "", &["frame.cap_len", "frame.len"]);
            let expected = format!("{kept} 200");
            assert!(lens.len() == 30 && lens.iter().all(|len| *len == expected), "{lens:?}");
        }
    }
    Ok(())
}

fn counts_of_others() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let words = format!("send {TX_DEV} --netns {} --dst 198.18.0.2 --pps 1000 --duration 60s", lab.tx_netns);
    for (words, said) in [
        (words, "wirerate: send frames (tx0, "),
        (format!("count {RX_DEV} --netns {}", lab.rx_netns), "wirerate: receive frames (rx0, "),
        (format!("receive {RX_DEV} --netns {}", lab.rx_netns), "wirerate: receive frames (rx0, "),
        (format!("reflect {RX_DEV} --netns {}", lab.rx_netns), "wirerate: receive frames (rx0, "),
    ] {
        let mut running = wirerate_start(&words);
        until_it_counts(&mut running, said);
        running.signal(Signal::SIGINT);
        running.wait(TIME_LIMIT);
    }
    let fifo = lab.file("fifo");
    run(&["mkfifo", text(&fifo)]);
    let mut running = wirerate_start(&format!("analyze {}", text(&fifo)));
    let mut writer = fs::File::options().write(true).open(&fifo)?;
    writer.write_all(&pcap_of(20_000))?;
    until_it_counts(&mut running, "wirerate: read packets: ");
    drop(writer);
    running.wait(TIME_LIMIT);
    Ok(())
}

/// Sends both signals until the counts have a line that begins like this.
fn until_it_counts(running: &mut Running, said: &str) {
    until("it says what it counted", || {
        assert!(!running.has_ended(), "{}", running.said());
        // Before its handlers are there, the signal would end it.
        if handles(running, Signal::SIGUSR1) && handles(running, Signal::SIGUSR2) {
            running.signal(Signal::SIGUSR1);
            running.signal(Signal::SIGUSR2);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        running.said().contains(said)
    });
}

/// A pcap file of packets of 60 bytes.
fn pcap_of(packet_count: u32) -> Vec<u8> {
    let head = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 262_144, 1];
    let packet = |number: u32| [1_700_000_000, number, 60, 60].into_iter().chain([0; 15]);
    head.into_iter().chain((0..packet_count).flat_map(packet)).flat_map(u32::to_le_bytes).collect()
}

/// True if a process has a handler for a signal.
fn handles(running: &Running, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}
