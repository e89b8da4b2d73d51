//! The flight recorder of `wirerate capture --keep`: triggers, windows, and where frames went.

use crate::capture_faults::SmallDisk;
use crate::capture_runs::{adds_up, capture, command, number, send, send_with, text};
use crate::lab::{Lab, Peer, RX_DEV};
use crate::program::{Outcome, Running, TIME_LIMIT, run, until, wirerate_run};
use crate::readers::{packet_count, tshark};
use crate::{Case, TestResult, case};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};

/// Tests of the recorder.
pub(crate) const CASES: &[Case] = &[
    case("capture_recorder::nothing_is_written_until_a_trigger_and_each_is_a_file", &["capinfos"], triggers),
    case("capture_recorder::a_filter_triggers_once_and_frames_of_after_follow", &["tshark"], filter),
    case("capture_recorder::a_frame_that_leaves_triggers", &["capinfos"], outbound),
    case("capture_recorder::a_gap_in_the_numbers_triggers", &["capinfos"], loss),
    case("capture_recorder::a_command_that_succeeds_triggers", &["capinfos"], command_triggers),
    case("capture_recorder::the_window_is_bounded_in_bytes_and_the_rest_is_not_kept", &["capinfos"], window),
    case(
        "capture_recorder::what_a_full_disk_refuses_of_a_save_is_lost_and_said",
        &["mount", "capinfos"],
        full_disk,
    ),
    case("capture_recorder::a_file_that_cannot_be_created_loses_what_was_asked_for", &["mount"], no_file),
    case(
        "capture_recorder::folders_of_names_with_a_time_are_checked_and_created",
        &["mount", "capinfos"],
        folders,
    ),
    case("capture_recorder::triggers_beyond_the_limit_are_refused_and_counted", &["capinfos"], limit),
];

/// Waits until the capture has taken frames out of its rings.
fn until_received(lab: &Lab, count: u64) {
    until("the capture has received them", || {
        let stats = wirerate_run(&format!("ctl {RX_DEV} --netns {} stats", lab.rx_netns)).stdout;
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("one line of JSON");
        stats["received"].as_u64().is_some_and(|received| received >= count)
    });
}

fn save(lab: &Lab) -> Outcome {
    wirerate_run(&format!("ctl {RX_DEV} --netns {} save", lab.rx_netns))
}

/// Ends the capture; its counts add up, and its files have what was written.
#[track_caller]
fn end(lab: &Lab, running: Running, files: u32) -> Outcome {
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    adds_up(&outcome);
    assert_eq!(number(&outcome, "files"), u64::from(files));
    let packets: u64 = (1..=files).map(|number| packet_count(&saved(lab, number))).sum();
    assert_eq!(packets, number(&outcome, "written"));
    outcome
}

fn saved(lab: &Lab, number: u32) -> PathBuf {
    lab.file(&format!("hit_{number:05}.pcapng"))
}

fn triggers() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = capture(&lab, &["-w", text(&lab.file("hit.pcapng")), "--keep", "60s"]);
    running.until_it_says("keeping the last frames of 60.00 s in at most");
    send(&lab, 100);
    until_received(&lab, 100);
    assert!(!saved(&lab, 1).exists());
    let refused = wirerate_run(&format!("ctl {RX_DEV} --netns {} rotate", lab.rx_netns)).expect_code(3);
    refused.says(&["it makes a file for each trigger"]);
    let name = save(&lab).expect_code(0).stdout;
    assert_eq!(Path::new(name.trim()), saved(&lab, 1));
    until("the first file is complete", || saved(&lab, 1).exists());
    send(&lab, 50);
    until_received(&lab, 150);
    running.signal(Signal::SIGUSR2);
    until("the second file is there", || saved(&lab, 2).exists());
    send(&lab, 30);
    until_received(&lab, 180);
    let outcome = end(&lab, running, 2);
    assert_eq!(number(&outcome, "not_kept"), 30, "frames in memory at the end");
    let facts = run(&["capinfos", "-k", text(&saved(&lab, 1))]);
    assert!(facts.contains("saved because of `wirerate ctl save`"), "{facts}");
    // A recorder that is started again goes on behind the highest number, not with a free one.
    std::fs::remove_file(saved(&lab, 1))?;
    let before = std::fs::read(saved(&lab, 2)).expect("the second file is there");
    let running = capture(&lab, &["-w", text(&lab.file("hit.pcapng")), "--keep", "60s"]);
    running.until_it_says("keeping the last frames of 60.00 s in at most");
    let name = save(&lab).expect_code(0).stdout;
    assert_eq!(Path::new(name.trim()), saved(&lab, 3));
    running.signal(Signal::SIGINT);
    running.wait(TIME_LIMIT).expect_code(0);
    assert!(std::fs::read(saved(&lab, 2)).expect("it is still there") == before);
    let file = lab.file("none/hit.pcapng");
    let refused =
        wirerate_run(&format!("capture {RX_DEV} --netns {} --keep 5s -w {}", lab.rx_netns, text(&file)));
    refused.expect_code(3).says(&["none/hit.pcapng", "No such file or directory"]);
    Ok(())
}

fn filter() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("hit.pcapng");
    let words = ["-w", text(&file), "--keep", "60s", "--trigger", "udp dst port 4000", "--after", "300ms"];
    let running = capture(&lab, &words);
    send(&lab, 100);
    send_with(&lab, 20, "--udp-dst 4000");
    // On an idle machine they belong to the file as well.
    send(&lab, 10);
    until("the file is complete", || {
        std::thread::sleep(std::time::Duration::from_millis(400));
        saved(&lab, 1).exists()
    });
    // The condition was false meanwhile, and is true again.
    send(&lab, 5);
    send_with(&lab, 1, "--udp-dst 4000");
    until("there is another file", || saved(&lab, 2).exists());
    let outcome = end(&lab, running, 2);
    assert_eq!((number(&outcome, "written"), number(&outcome, "not_kept")), (136, 0));
    // All frames before the trigger, and those that came in the time after it: 101 without that.
    let first = tshark(&saved(&lab, 1), "", &["frame.number"]).len();
    assert!((120..=130).contains(&first), "{first}");
    outcome.says(&["trigger: file 2 is saved"]);
    Ok(())
}

/// It was refused.
fn outbound() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("hit.pcapng");
    let words = ["-w", text(&file), "--keep", "60s", "-Q", "inout", "--trigger", "outbound and udp"];
    let running = capture(&lab, &words);
    send(&lab, 7);
    until_received(&lab, 7);
    assert!(!saved(&lab, 1).exists(), "these came in");
    let send = format!("send rx0 --netns {} --dst 198.18.0.1 --engine skb --count 1", lab.rx_netns);
    wirerate_run(&send).expect_code(0);
    until("the frame was seen", || saved(&lab, 1).exists());
    let outcome = end(&lab, running, 1);
    assert!(number(&outcome, "written") >= 8, "{}", outcome.stdout);
    Ok(())
}

fn loss() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("hit.pcapng");
    let words = ["-w", text(&file), "--keep", "60s", "--trigger", "loss", "udp dst portrange 1-10"];
    // The filter takes some frames out, so their numbers are missing.
    let running = capture(&lab, &words);
    send_with(&lab, 10, "--udp-dst 9");
    until_received(&lab, 10);
    assert!(!saved(&lab, 1).exists(), "no number is missing");
    send_with(&lab, 40, "--udp-dst 1-20");
    until("the gap was seen", || saved(&lab, 1).exists());
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(0);
    assert!(number(&outcome, "files") >= 1);
    let facts = run(&["capinfos", "-k", text(&saved(&lab, 1))]);
    assert!(facts.contains("a loss: numbers ") && facts.contains("are missing"), "{facts}");
    Ok(())
}

fn command_triggers() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let (file, flag) = (lab.file("hit.pcapng"), lab.file("flag"));
    let test = format!("test -e {}", flag.display());
    let running = capture(&lab, &["-w", text(&file), "--keep", "60s", "--trigger-command", &test]);
    send(&lab, 25);
    until_received(&lab, 25);
    std::fs::write(&flag, "")?;
    until("the command has triggered", || saved(&lab, 1).exists());
    end(&lab, running, 1);
    assert_eq!(packet_count(&saved(&lab, 1)), 25);
    Ok(())
}

fn window() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = capture(&lab, &["-w", text(&lab.file("hit.pcapng")), "--keep", "1MiB"]);
    send(&lab, 50_000);
    until_received(&lab, 50_000);
    save(&lab).expect_code(0);
    until("the file is there", || saved(&lab, 1).exists());
    let outcome = end(&lab, running, 1);
    let bytes = std::fs::metadata(saved(&lab, 1))?.len();
    assert!((500_000..(1 << 20) + 1_000).contains(&bytes), "{bytes} bytes");
    assert!(number(&outcome, "not_kept") > 30_000 && number(&outcome, "window_ns") > 0);
    assert_eq!(number(&outcome, "lost"), 0);
    Ok(())
}

fn limit() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let file = lab.file("hit.pcapng");
    let words = ["-w", text(&file), "--keep", "60s", "--max-saves", "1"];
    let running = capture(&lab, &words);
    send(&lab, 5);
    until_received(&lab, 5);
    save(&lab).expect_code(0);
    save(&lab).expect_code(3).says(&["1 files were saved, as many as --max-saves allows"]);
    let outcome = end(&lab, running, 1);
    assert_eq!(number(&outcome, "saves_refused"), 1);
    for (words, why) in [
        (&["--keep", "30s"][..], "-w frames.pcapng"),
        (&["-w", "x", "--trigger", "udp"], "--keep"),
        (&["-w", "x", "--keep", "30"], "30 needs a unit"),
        (&["-w", "x", "--keep", "30s", "--rotate-size", "1MB"], "limits of files"),
        (&["-w", "x", "--keep", "30s", "--trigger", "udp prot 9"], "udp prot 9"),
        (&["-w", "x", "--keep", "30s", "--trigger", "outbound"], "-Q inout captures both directions"),
        (&["-w", "x", "--keep", "30s", "--trigger-command", ""], "it is empty"),
        (&["-w", "x", "--keep", "30s", "--max-saves", "0"], "at least 1"),
        (&["-w", "x", "--keep", "900000GB"], "of memory here"),
        (&["-w", "x", "--keep", "30s", "--rotate-command", "true"], "a command for each complete file"),
    ] {
        Running::start(command(&lab, words)).wait(TIME_LIMIT).expect_code(2).says(&[why]);
    }
    Ok(())
}

/// A full disk: a trigger said that its file was saved, and `ctl save` had exit code 0.
fn full_disk() -> TestResult {
    for after in ["0s", "300ms"] {
        let lab = Lab::new(Peer::Gro);
        let folder = lab.file("files");
        fs::create_dir(&folder)?;
        let _disk = SmallDisk::new(&folder);
        let file = folder.join("hit.pcapng");
        let running = capture(&lab, &["-w", text(&file), "--keep", "60s", "--after", after]);
        send(&lab, 5_000);
        until_received(&lab, 5_000);
        save(&lab).expect_code(3).says(&["cannot write to", "No space left on device"]);
        if after == "300ms" {
            running.until_it_says("wirerate: trigger: cannot write to");
        }
        running.signal(Signal::SIGINT);
        let outcome = running.wait(TIME_LIMIT).expect_code(3);
        adds_up(&outcome);
        outcome.says(&["No space left on device", "a smaller --keep"]);
        assert!(!outcome.stderr.contains("is saved") && !outcome.stderr.contains("--rotate-size"));
        assert!(number(&outcome, "lost_disk") > 0 && number(&outcome, "not_kept") == 0);
        assert_eq!(packet_count(&folder.join("hit_00001.pcapng")), number(&outcome, "written"));
    }
    Ok(())
}

/// Frames that a trigger had asked for were counted as not kept.
fn no_file() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let folder = lab.file("files");
    fs::create_dir(&folder)?;
    let file = folder.join("hit.pcapng");
    let words = ["-w", text(&file), "--keep", "60s", "--after", "60s"];
    let running = capture(&lab, &words);
    send(&lab, 20);
    until_received(&lab, 20);
    fs::remove_dir(&folder)?;
    save(&lab).expect_code(3).says(&["cannot create the capture file", "No such file or directory"]);
    // They belong to the trigger as well.
    send(&lab, 10);
    until_received(&lab, 30);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT).expect_code(3);
    adds_up(&outcome);
    assert_eq!((number(&outcome, "lost_disk"), number(&outcome, "not_kept")), (30, 0));
    // The next trigger saves what is still there.
    fs::create_dir(&folder)?;
    let running = capture(&lab, &["-w", text(&file), "--keep", "60s"]);
    send(&lab, 20);
    until_received(&lab, 20);
    fs::remove_dir(&folder)?;
    save(&lab).expect_code(3);
    fs::create_dir(&folder)?;
    save(&lab).expect_code(0);
    running.signal(Signal::SIGINT);
    let outcome = running.wait(TIME_LIMIT);
    adds_up(&outcome);
    assert_eq!((number(&outcome, "lost_disk"), number(&outcome, "written")), (0, 20));
    Ok(())
}

/// The first trigger found out what was wrong with the folder.
fn folders() -> TestResult {
    let lab = Lab::new(Peer::Gro);
    let running = capture(&lab, &["-w", text(&lab.file("%Y/%%/hit_%m.pcapng")), "--keep", "60s"]);
    send(&lab, 5);
    until_received(&lab, 5);
    let name = save(&lab).expect_code(0).stdout;
    assert_eq!(packet_count(Path::new(name.trim())), 5);
    running.signal(Signal::SIGINT);
    running.wait(TIME_LIMIT).expect_code(0).says(&["trigger: file 1 is saved"]);
    let folder = lab.file("files");
    fs::create_dir(&folder)?;
    let _disk = SmallDisk::new(&folder);
    run(&["mount", "-o", "remount,ro", text(&folder)]);
    fs::write(lab.file("a_file"), "")?;
    for (name, why) in [
        ("files/hit.pcapng", "Read-only file system"),
        ("files/%Y/%m/hit.pcapng", "Read-only file system"),
        ("files/hit_%H.pcapng", "Read-only file system"),
        ("a_file/%H.pcapng", "Not a directory"),
    ] {
        let file = lab.file(name);
        let words = ["-w", text(&file), "--keep", "5s", "--duration", "1ms"];
        Running::start(command(&lab, &words)).wait(TIME_LIMIT).expect_code(3).says(&[why]);
    }
    Ok(())
}
