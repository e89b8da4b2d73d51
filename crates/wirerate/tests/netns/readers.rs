//! What others say about frames: dumpcap on the wire, tshark, capinfos and editcap on files.
//!
//! None of them shares a line of code with wirerate, so where they agree with it, it is right.

use crate::lab::{Lab, RX_DEV, RX_MAC};
use crate::program::{Running, TIME_LIMIT, in_netns, run};
use std::path::Path;

/// One frame of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Nanoseconds since 1970.
    pub(crate) time_ns: u64,
    /// Length on the wire, without FCS.
    pub(crate) frame_len: u32,
    /// The bytes that were kept.
    pub(crate) bytes: Vec<u8>,
}

/// The frames of a capture file, read by way of editcap and the old pcap format.
#[track_caller]
pub(crate) fn frames(path: &Path) -> Vec<Frame> {
    let pcap = path.with_extension("pcap");
    run(&["editcap", "-F", "nsecpcap", text(path), text(&pcap)]);
    let bytes = std::fs::read(&pcap).expect("editcap wrote it");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(word(0), 0xa1b2_3c4d, "{} is not little-endian pcap with nanoseconds", pcap.display());
    let mut frames = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let body = at + 16;
        let end = body + word(at + 8) as usize;
        frames.push(Frame {
            time_ns: u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)),
            frame_len: word(at + 12),
            bytes: bytes[body..end].to_vec(),
        });
        at = end;
    }
    frames
}

/// What tshark reads in the frames that pass `filter`: a line for each, the fields separated by
/// blanks.
#[track_caller]
pub(crate) fn tshark(path: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut words = vec!["tshark", "-n", "-r", text(path), "-Y", filter, "-T", "fields", "-E", "separator= "];
    words.extend(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    // Any port may belong to some protocol; the pktgen header decides.
    words.extend(["-o", "udp.try_heuristic_first:TRUE"]);
    words.extend(fields.iter().flat_map(|field| ["-e", field]));
    run(&words).lines().map(str::to_owned).collect()
}

/// Packets in a file, as capinfos counts them; it fails on a file that is cut short.
#[track_caller]
pub(crate) fn packet_count(path: &Path) -> u64 {
    let table = run(&["capinfos", "-T", "-r", "-c", "-M", text(path)]);
    let count = table.trim().rsplit('\t').next().expect("a last column");
    count.parse().unwrap_or_else(|_| panic!("capinfos says {table:?}"))
}

/// Watches the receiver's device with dumpcap while `act` runs; the frames in order.
#[track_caller]
pub(crate) fn on_the_wire(lab: &Lab, frame_count: usize, act: impl FnOnce()) -> Vec<Frame> {
    let path = lab.file("wire.pcapng");
    let count = frame_count.to_string();
    let inbound = format!("not ether src {RX_MAC}");
    let mut dumpcap = in_netns(&lab.rx_netns, "dumpcap");
    dumpcap.args(["-i", RX_DEV, "-f", &inbound, "-c", &count, "-a", "duration:60", "-w", text(&path)]);
    let watcher = Running::start(dumpcap);
    // It names its file when the device is open.
    watcher.until_it_says("File: ");
    act();
    watcher.wait(TIME_LIMIT).expect_code(0);
    frames(&path)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("our paths are plain")
}
