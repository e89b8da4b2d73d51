//! Mutable state that a whole process shares: no new one.
//!
//! A command gets what it needs as a value, so that two commands can run in one process. Statics
//! that never change after their first use, such as a table that is read once, are harmless; a
//! signal handler has no other place for its flag.

use std::fs;
use std::path::Path;

/// Types of statics that can change.
const MUTABLE: [&str; 7] = ["Mutex", "RwLock", "Atomic", "OnceLock", "LazyLock", "RefCell", "Condvar"];

/// Statics that are allowed: their file, name and reason.
const ALLOWED: [(&str, &str, &str); 18] = [
    ("crates/bpf/src/log.rs", "LINES", "libbpf's function for messages gets no value of ours"),
    ("crates/capture/src/sys/pcap.rs", "LAST", "cache: the last filter that was compiled"),
    ("crates/capture/src/sys/pcap.rs", "LIBRARY", "a library that is loaded once"),
    ("crates/engine/src/select.rs", "TX_STATS", "one program per process counts the frames of all senders"),
    ("crates/engine/src/xdp/dispatcher.rs", "BUILDERS", "one thread attaches the programs of all senders"),
    ("crates/engine/src/xdp/dispatcher.rs", "MAY_MAKE_NAMESPACES", "cache: a right of the process"),
    ("crates/engine/src/xdp/dispatcher.rs", "NO_BUILDERS", "one thread attaches the programs of all senders"),
    ("crates/engine/src/xdp/dispatcher.rs", "TASKS", "one thread attaches the programs of all senders"),
    ("crates/host/src/veth_lab.rs", "NEXT", "names of namespaces are unique in a process"),
    ("crates/host/src/process.rs", "IS_OURS", "cache: a fact about the process"),
    ("crates/host/src/xfrm.rs", "KNOWN", "cache: SAs of the kernel"),
    ("crates/otg/src/model.rs", "POOL", "constant: the model"),
    ("crates/replay/src/edit/editor.rs", "NO_CLIENTS", "constant: an empty set"),
    ("crates/program/src/raw_terminal.rs", "TAKEN", "signal handlers give the terminal back"),
    ("crates/program/src/signal_counts.rs", "WRITE_OUT", "signal flag"),
    ("crates/program/src/stop.rs", "ABANDON", "signal flag"),
    ("crates/program/src/stop.rs", "SIGNAL_EVENT", "signal flag"),
    ("crates/program/src/tui/view.rs", "SCREEN", "tests: there is one terminal"),
];

/// The mutable statics of the sources below `folder`, as file and name.
fn statics(root: &Path, folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the sources can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            statics(root, &path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("the sources can be read");
            let file = path.strip_prefix(root).expect("it is below").display().to_string();
            into.extend(text.lines().filter_map(mutable_static).map(|name| (file.clone(), name.to_owned())));
        }
    }
}

/// The name of the mutable static that `line` declares.
fn mutable_static(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    let line = line.trim_start_matches("pub(super) ").strip_prefix("static ")?;
    let (name, kind) = line.split(" = ").next()?.split_once(": ")?;
    let is_mutable = name.starts_with("mut ") || MUTABLE.iter().any(|word| kind.contains(word));
    is_mutable.then_some(name.trim_start_matches("mut "))
}

#[test]
fn there_is_no_new_mutable_static() {
    let root = testkit::root();
    let mut found = Vec::new();
    for name in crate::crates().iter().filter(|name| !["testkit", "vm", "bench"].contains(&name.as_str())) {
        statics(&root, &crate::folder_of(name).join("src"), &mut found);
    }
    found.sort();
    let listed = ALLOWED.iter().map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned()));
    let mut listed: Vec<(String, String)> = listed.collect();
    listed.sort();
    let new: Vec<_> = found.iter().filter(|one| !listed.contains(one)).collect();
    assert!(new.is_empty(), "hand the value to where it is used instead: {new:?}");
    let gone: Vec<_> = listed.iter().filter(|one| !found.contains(one)).collect();
    assert!(gone.is_empty(), "remove these from the list of this test: {gone:?}");
}

#[test]
fn mutable_statics_are_found() {
    for (line, name) in [
        ("static KEPT: Mutex<Option<String>> = Mutex::new(None);", Some("KEPT")),
        ("    pub(crate) static NEXT: AtomicU64 = AtomicU64::new(0);", Some("NEXT")),
        ("static mut COUNT: u32 = 0;", Some("COUNT")),
        ("static NAMES: [&str; 2] = [\"Mutex\", \"b\"];", None),
        ("// static OLD: Mutex<u32>", None),
    ] {
        assert_eq!(mutable_static(line), name, "{line}");
    }
}
