//! The name of a file says its format and compression, whichever command writes it.

use super::readers::{Ran, replay, wirerate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::Folder;

fn ran(folder: &Folder, words: &str) -> Ran {
    wirerate(folder, &words.split(' ').collect::<Vec<_>>())
}

/// A file of three frames by a dry run of `send`.
fn record(folder: &Folder, name: &str) {
    let ran = ran(folder, &format!("send no-device --dst 198.18.0.2 --dry-run=3 --write {name}"));
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Dry runs wrote plain pcapng under every name; `trafgen` took most names for devices.
#[test]
fn frames_are_written_as_the_name_says() {
    let folder = Folder::new("names");
    record(&folder, "recorded.pcapng");
    for (name, format, compression) in [
        ("a.pcap", "pcap", None),
        ("a.cap.gz", "pcap", Some("gzip")),
        ("a.pcap.lz4", "pcap", Some("lz4")),
        ("a.pcapng.zst", "pcapng", Some("zstd")),
        ("a.gz", "pcapng", Some("gzip")),
        ("a", "pcapng", None),
    ] {
        let is_right = |by: &str| {
            let shown = ran(&folder, &format!("info -J {name}")).json();
            let found = (&shown["format"], &shown["compression"], &shown["packets"]);
            assert_eq!(found, (&format.into(), &compression.into(), &Value::from(3)), "{by}: {shown}");
        };
        record(&folder, name);
        is_right("send");
        std::fs::remove_file(folder.join(name)).unwrap();
        let replayed = replay(&folder, &["recorded.pcapng", "--write", name]);
        assert_eq!(replayed.code, 0, "{replayed:?}");
        is_right("replay");
        if name != "a" && name != "a.gz" {
            std::fs::remove_file(folder.join(name)).unwrap();
            let words = ["trafgen", "{ eth(da=02:00:00:00:00:02), fill(7, 50) }", "-n", "3", "-o", name];
            let made = wirerate(&folder, &words);
            assert_eq!(made.code, 0, "{made:?}");
            is_right("trafgen");
        }
    }
    let names = std::fs::read_dir(folder.join(".")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.collect();
    assert_eq!(names.len(), 7, "nothing else is left: {names:?}");
}

/// Ctrl-C had no effect on the dry run of `send`, which went on to its last frame.
#[test]
fn a_signal_ends_a_dry_run_and_its_file_is_whole() {
    let folder = Folder::new("names-signal");
    let path = folder.join("a.pcap");
    let mut dry_run = Command::new(env!("CARGO_BIN_EXE_wirerate"))
        .args([
            "send",
            "no-device",
            "--dst",
            "198.18.0.2",
            "--dry-run=1000000000000",
            "--count",
            "0",
            "--write",
        ])
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let has_bytes = |entry: std::fs::DirEntry| entry.metadata().is_ok_and(|facts| facts.len() > 0);
    let begun = || std::fs::read_dir(folder.join(".")).unwrap().any(|entry| entry.is_ok_and(has_bytes));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !begun() {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = Pid::from_raw(dry_run.id().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(dry_run.wait().unwrap().code(), Some(0));
    let described = ran(&folder, "info -J a.pcap");
    assert!(described.code == 0 && described.json()["packets"].as_u64() > Some(0), "{described:?}");
}

#[test]
fn names_of_files_that_would_be_others_are_refused() {
    let folder = Folder::new("names-refused");
    record(&folder, "recorded.pcapng");
    let words = ["recorded.pcapng", "--other", "no-other", "--split", "auto", "--write", "two.pcap"];
    let replayed = replay(&folder, &words);
    assert!(replayed.code == 2 && replayed.stderr.contains("no place for the device"), "{replayed:?}");
    assert_eq!(ran(&folder, "export recorded.pcapng -o set").code, 0);
    for name in ["a.pcap", "a.pcapng.zst"] {
        let exported = ran(&folder, &format!("export set --to pcapng -o {name}"));
        let advice = format!("wirerate rewrite FILE.pcapng -o {name}");
        assert!(exported.code == 2 && exported.stderr.contains(&advice), "{exported:?}");
        assert!(!folder.join(name).exists(), "{name}");
    }
}

/// A terminal acted on the control characters of a file's name in reports and errors.
#[test]
fn names_with_control_characters_are_shown_as_text() {
    let folder = Folder::new("control");
    let name = "\u{1b}[31mred.pcap";
    record(&folder, name);
    let cut = "\u{1b}[31mcut.pcap";
    let whole = std::fs::read(folder.join(name)).unwrap();
    std::fs::write(folder.join(cut), &whole[..whole.len() - 5]).unwrap();
    for words in [
        &["analyze", cut][..],
        &["export", cut, "-o", "data"],
        &["rewrite", cut, "-o", "\u{1b}[31mout.pcap", "--ttl", "5"],
        &["export", cut, "--to", "pcapng", "-o", "-"],
        &["info", name],
        &["analyze", name],
        &["replay", "no-device", name, "--dry-run"],
        &["rewrite", name, "/dev/null/x"],
        &["analyze", "\u{1b}[2Jmissing"],
        &["send", "\u{1b}[2J", "--dst", "198.18.0.2"],
    ] {
        let ran = wirerate(&folder, words);
        // A file on standard output has the names as they are.
        let report = if words.contains(&"-") { "" } else { &ran.stdout };
        let all = format!("{report}{}", ran.stderr);
        assert!(!all.is_empty() && !all.contains('\u{1b}'), "{words:?}: {all:?}");
    }
    let info = wirerate(&folder, &["info", name]);
    assert!(info.stdout.starts_with("\\u{1b}[31mred.pcap\n"), "{info:?}");
}
